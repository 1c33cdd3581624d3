"""Bytes to source, and the headers that a marked source may include."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogpu.errors import SourceError
from nogpu.text import HEADERS, MOST_BYTES, check_includes, decode

TEXT = 'extern "C" __global__ void k(float* A)\n{\n    A[0] = 1;  // é\n}\n'


@pytest.mark.parametrize(
    "raw",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace("\n", "\r").encode(),
        b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode(),
    ],
    ids=["LF", "BOM", "CRLF", "CR", "BOM and CRLF"],
)
def test_one_text_however_it_was_saved(raw):
    assert decode(raw) == TEXT


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (TEXT.encode("utf-16"), "UTF-16 text: save it as UTF-8"),
        (TEXT.encode("utf-16-be"), "NUL byte in line 1"),
        (TEXT.encode("latin-1"), "not UTF-8: line 3 has the byte 0xe9"),
        (TEXT.replace("\n", "\r").encode("latin-1"), "line 3 has the byte 0xe9"),
        (TEXT.replace("= 1", "= 1\0").encode(), "NUL byte in line 3"),
        (b"", "is empty"),
        (b"\xef\xbb\xbf \r\n\t\n", "is empty"),
        (b"x" * (MOST_BYTES + 1), "256,001 bytes"),
    ],
    ids=[
        "UTF-16", "UTF-16 without a mark", "Latin-1", "Latin-1 with CR", "NUL", "empty", "blank",
        "large",
    ],
)  # fmt: skip
def test_other_bytes_are_refused_in_a_line(raw, message):
    with pytest.raises(SourceError, match=r"lab2\.cu") as refused:
        decode(raw, "lab2.cu")
    assert message in str(refused.value) and "\n" not in str(refused.value)


@given(st.binary(max_size=300))
def test_any_bytes_are_text_or_refused(raw):
    try:
        text = decode(raw)
    except SourceError as error:
        assert str(error)
    else:
        assert "\0" not in text and "\r" not in text and text.strip()


SECRET = "/proc/self/environ"
REFUSED = {
    "absolute": f'#include "{SECRET}"',
    "angle": f"#include <{SECRET}>",
    "relative": '#include "../tree/helpers/page/exercises/ch06.py"',
    "beside": '#include "solution.cu"',
    "the book's": '#include "06_tiled.cu"',
    "up from a header": "#include <../../etc/passwd>",
    "below a header": "#include <mma.h/../x>",
    "spaces": f'  #   include   "{SECRET}"',
    "no space": f'#include"{SECRET}"',
    "vertical tab": f'#\vinclude\v"{SECRET}"',
    "form feed": f'#\finclude "{SECRET}"',
    "splice": f'#inc\\\nlude "{SECRET}"',
    "splice with spaces": f'#inc\\  \nlude "{SECRET}"',
    "splice before the name": f'#include \\\n"{SECRET}"',
    "splice in an allowed name": "#include <mma\\\n.x>",
    "digraph": f'%:include "{SECRET}"',
    "digraph and splice": f'%\\\n:include "{SECRET}"',
    "trigraph": f'??=include "{SECRET}"',
    "comment between": f'#/* x */include "{SECRET}"',
    "comment of two lines": f'# /* x\ny */ include "{SECRET}"',
    "comment behind": f'#include /* x */ "{SECRET}"',
    "comment in an allowed one": "#include /* <mma.h> */ MINE",
    "comment before": f'/* x */ #include "{SECRET}"',
    "computed": f'#define MINE "{SECRET}"\n#include MINE',
    "computed by a function": "#define F(x) <x>\n#include F(mma.h)",
    "include_next": "#include_next <mma.h>",
    "import": "#import <mma.h>",
    "embed": f'#embed "{SECRET}"',
    "as data": f'const int s[] = {{\n#include "{SECRET}"\n}};',
    "in a macro's arguments": f'S(\n#include "{SECRET}"\n)',
    "raw string that opens a comment": f'const char* a = R"(" /* )"; \n#include "{SECRET}"\n// */',
    "raw string that closes": f'R"(\n)" ;\n#include "{SECRET}"\n)"',
    "comment that a splice ends": f'// x \\\n\n#include "{SECRET}"',
    "string with a newline": f'"\n#include "{SECRET}"\n"',
    "has_include": f'#if __has_include("{SECRET}")\n#endif',
    "has_include_next": "#if __has_include_next(<mma.h>)\n#endif",
    "has_embed": f'#if __has_embed("{SECRET}")\n#endif',
    "has_include by macro": f'#define H __has_include\n#if H("{SECRET}")\n#endif',
    "has_include pasted": "#define C(a, b) a##b\n#if C(__has, _include)(<mma.h>)\n#endif",
    "escape": f'#\\u0069nclude "{SECRET}"',
    "escape of the hash": f'#  \\U00000069nclude "{SECRET}"',
    "two on a line": f'#include <mma.h> #include "{SECRET}"',
    "allowed, then another": f'#include <mma.h>\n#include "{SECRET}"',
}


@pytest.mark.parametrize("form", REFUSED)
def test_a_directive_that_reads_another_file_is_refused_with_its_line(form):
    with pytest.raises(SourceError, match=r"^line \d+ ") as refused:
        check_includes("\n\n" + REFUSED[form])
    where = int(str(refused.value).split()[1])
    lines = ["", "", *REFUSED[form].splitlines()]
    assert 3 <= where <= len(lines), refused.value


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("#include <mma.h>\n#include <cuda_fp16.h>  // halves\n", ("mma.h", "cuda_fp16.h")),
        ('  # include "cooperative_groups.h"\n' + TEXT, ("cooperative_groups.h",)),
        ("// the edges include zeros, # of rows\n/* import them */\n#define N 3\n" + TEXT, ()),
        ("#pragma unroll\n#if N > 3\n#endif\n#define S(x) #x\n#define P(a) a##_b\n", ()),
        ("#include <mma.h>", ("mma.h",)),
    ],
)
def test_plain_sources_pass(source, found):
    assert check_includes(source) == found


def test_the_list_is_what_is_allowed():
    """The wrong twin: with a header more, it passes."""
    source = '#include "solution.cu"\n'
    with pytest.raises(SourceError, match=r"'solution\.cu'"):
        check_includes(source)
    assert check_includes(source, HEADERS | {"solution.cu"}) == ("solution.cu",)


@pytest.mark.parametrize("form", REFUSED)
def test_without_a_list_a_name_leads_nowhere_else(form):
    """As in a reader's own cell, where no lock holds the compiler: any plain name may be included."""
    may = {"beside", "the book's", "splice in an allowed name"}
    if form in may or "__has" in REFUSED[form] or "has_include" in form:
        check_includes(REFUSED[form], None)
    else:
        with pytest.raises(SourceError, match="headers by their plain names"):
            check_includes(REFUSED[form], None)


def test_a_long_text_takes_no_time():
    deep = "#/*" * 50_000 + "*/" + " " * 50_000 + "x"
    hashes = (mark * 50_000 for mark in ("##", "# ", "#/*", "\\\n", "__ha", "#/"))
    for text in (deep, *hashes):
        assert check_includes(text) == ()
