"""CUDA source as text: its comments, its functions, and a whole program cut down to its kernels.

Nothing here compiles or runs: text goes in, text of the same lines comes out, so that every line
number that a compiler or the emulator names is a line of what was typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nogpu import project
from nogpu.errors import SourceError

_PTX = re.compile(r"(?:\s|//[^\n]*(?:\n|\Z)|/\*.*?\*/)*\.version\b", re.DOTALL)
PRELUDE = Path(__file__).resolve().parent / "clang_cuda" / "pasted.h"
"""Names that nvcc's host headers bring along and a compiler of device code alone does not know."""


def is_ptx(source: str) -> bool:
    """Whether a source is a module of PTX: that begins with its version, as no C++ does."""
    return _PTX.match(source) is not None


_PARTS = re.compile(
    r"""(?P<comment>//(?:[^\n\\]|\\.|\\\n)*|/\*.*?(?:\*/|\Z))
      | (?P<string>R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"
                  |(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")""",
    re.DOTALL | re.VERBOSE,
)


MOST_BYTES = 256_000
"""Of a source: the book's longest has a tenth of it."""


def decode(raw: bytes, name: str = "the file") -> str:
    """A source as text: UTF-8, with or without a byte order mark, lines ended by LF, CR LF or CR.

    Raises SourceError, with what to do, for bytes that are no UTF-8, UTF-16, a NUL, nothing but
    spaces, or more than MOST_BYTES.
    """
    if len(raw) > MOST_BYTES:
        raise SourceError(
            f"{name} has {len(raw):,} bytes, and a source may have {MOST_BYTES:,}: hand in the "
            "kernel alone"
        )
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise SourceError(f"{name} is UTF-16 text: save it as UTF-8")
    if (at := raw.find(b"\0")) >= 0:
        raise SourceError(
            f"{name} has a NUL byte in line {_line(raw, at)}, where a compiler stops reading: "
            "delete it"
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{name} is not UTF-8: line {_line(raw, error.start)} has the byte "
            f"0x{raw[error.start]:02x}. Save it as UTF-8"
        ) from None
    if not text.strip():
        raise SourceError(f"{name} is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _line(raw: bytes, at: int) -> int:
    return 1 + len(re.findall(rb"\r\n|\r|\n", raw[:at]))


_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def read_source(path: Path) -> str:
    """Text of a file, read anew once its time or its size has changed."""
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=128)
def _read(path: Path, _mtime_ns: int, _size: int) -> str:
    return path.read_text(encoding="utf-8")


@lru_cache(maxsize=256)
def includes(text: str) -> tuple[tuple[str, str], ...]:
    """What a text includes itself: `<` or `"`, and the name."""
    return tuple(_INCLUDED.findall(text))


def headers(source: str) -> tuple[Path, ...]:
    """Files of the project's include folders that a source includes, and those that they include,
    each once.

    As the compiler looks for them: in quotes beside the file that includes them, then in those
    folders.
    """
    paths: dict[Path, None] = {}
    waiting: list[tuple[tuple[Path, ...], str]] = [((), source)]
    while waiting:
        beside, text = waiting.pop()
        for mark, name in includes(text):
            folders = (*(beside if mark == '"' else ()), *project.include_folders)
            near = next((f / name for f in folders if (f / name).is_file()), None)
            if near is not None and (path := near.resolve()) not in paths:
                paths[path] = None
                waiting.append(((path.parent,), read_source(path)))
    return tuple(paths)


HEADERS = frozenset(
    {"mma.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_pipeline.h", "cooperative_groups.h"}
)
"""What a source that is marked may include: CUDA's own headers of kernels."""

_SPLICE = re.compile(r"\\[ \t\v\f]*\n")
_MARK = re.compile(r"\#|%:|\?\?=|\b__has")
_BETWEEN = re.compile(r"[^\w\n\\\"'<#%?/]*")
_WORD = re.compile(r"\\[uU]|\w+")
_READS = frozenset({"include", "include_next", "import", "embed"})
_PLAIN = re.compile(r"""\#[ \t]*include[ \t]*(?:<([\w./+-]+)>|"([\w./+-]+)")[ \t]*(?=\n|//|\Z)""")


def check_includes(source: str, allowed: frozenset[str] | None = HEADERS) -> tuple[str, ...]:
    """The headers that a source includes, each of them allowed; None: all that lie below a folder
    of headers.

    Wherever a directive that reads a file may stand, also split over lines, spelt with digraphs or
    escapes, or inside a comment or a string that another reading of the text ends sooner, it must
    be a plain `#include <header>` of an allowed one. Raises SourceError naming the line of anything
    else.
    """
    text, names = _SPLICE.sub("", source), []
    for start, word in _file_directives(text):
        plain = _PLAIN.match(text, start)
        name = (plain[1] or plain[2]) if plain else ""
        inside = not re.search(r"^/|\.\.", name) and bool(name or word == "__has...")
        if not inside if allowed is None else name not in allowed:
            what = f"includes {name!r}" if name else f"asks for a file, by {word!r}"
            if allowed is None:
                raise SourceError(
                    f"line {_place(source, start)} {what}. A source may include headers by their "
                    "plain names, without .., each in a line of its own"
                )
            may = "no header here: take the line out, the kernel alone is compiled"
            if these := ", ".join(f"<{h}>" for h in sorted(allowed)):
                may = f"these, each in a line of its own: {these}"
            raise SourceError(f"line {_place(source, start)} {what}. A source may include {may}")
        names.append(name)
    return tuple(names)


def _file_directives(text: str) -> Iterator[tuple[int, str]]:
    """Places of what may be a directive that reads a file, or asks whether there is one, and its
    word.

    Every place is looked at once: what follows a comment is remembered by where the comment ends.
    """
    close, behind = -1, dict[int, int]()
    for mark in _MARK.finditer(text):
        if mark.group().startswith("_"):
            yield mark.start(), "__has..."
            continue
        at, closed = mark.end(), list[int]()
        while at not in behind:
            at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
            if text.startswith("/*", at):
                if close < at + 2:
                    close = text.find("*/", at + 2)
                    close = len(text) if close < 0 else close
                at = close + 2
                if at in behind:
                    break
                closed.append(at)
            elif text.startswith("/", at):
                at += 1
            else:
                break
        at = behind.get(at, at)
        behind |= dict.fromkeys(closed, at)
        word = _WORD.match(text, at)
        if word and (word.group() in _READS or word.group().startswith("\\")):
            yield mark.start(), word.group()


def _place(source: str, at: int) -> int:
    """The line of the source in which a character of the text without splices stands."""
    joined = 0
    for splice in _SPLICE.finditer(source):
        if splice.start() - joined > at:
            break
        joined += splice.end() - splice.start()
    return source.count("\n", 0, at + joined) + 1


def blank(text: str) -> str:
    """The text with every character but line ends made a space."""
    return re.sub(r"[^\n]", " ", text)


def _without(text: str, start: int, end: int) -> str:
    """The text with a part of it blank."""
    return text[:start] + blank(text[start:end]) + text[end:]


def without_comments(source: str) -> str:
    """The source with comments blanked out; lines, columns and string literals stay."""
    return _PARTS.sub(lambda m: m.group() if m["string"] else blank(m.group()), source)


def _bare(source: str) -> str:
    """The source with comments, literals and preprocessor lines blanked out: structure alone."""
    text = _PARTS.sub(lambda m: blank(m.group()), source)
    return re.sub(r"(?m)^[ \t]*#(?:[^\n\\]|\\[^\n]|\\\n)*", lambda m: blank(m.group()), text)


_LINE_MARK = re.compile(r"[ \t]*#[ \t]*(?:line[ \t]+)?(\d+)")


def places_of_lines(source: str) -> dict[int, int]:
    """Where the lines stand that a compiler speaks of, by its numbers: #line gives others.

    A number that two lines have, of two files joined in one say, is left out.
    """
    places: dict[int, int] = {}
    twice, number = set(), 0
    for place, line in enumerate(source.split("\n"), 1):
        if mark := _LINE_MARK.match(line):
            number = int(mark[1]) - 1
            continue
        number += 1
        if number in places:
            twice.add(number)
        places[number] = place
    return {number: place for number, place in places.items() if number not in twice}


@dataclass(frozen=True)
class Piece:
    """A declaration or definition outside all functions, from `start` to `end` in the source."""

    kind: str
    """"function", "type" (struct, class, union, enum) or "statement"."""
    name: str
    start: int
    end: int
    head: str
    """What stands before the body (all of a statement), comments and literals blanked."""
    body: str

    @property
    def on_device(self) -> bool:
        """Whether its author says that it runs, or lies, on the device."""
        return bool(re.search(r"\b__(?:global|device|constant|shared|managed)__\b", self.head))

    @property
    def kernel(self) -> bool:
        """Whether a launch can call it."""
        return "__global__" in self.head and self.kind == "function"


_OPEN_ROOM = re.compile(r"\s*(?:inline\s+)?(?:namespace\b[\s\w:]*|extern\s*)$")
_TYPE = re.compile(r"\b(?:struct|class|union|enum)\b")
_BASES = re.compile(r"\bfinal\b|(?<!:):(?!:)")
_NAME = re.compile(r"([A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)\s*(?:<[^<>()]*>\s*)?\(")
_MACRO_LINE = re.compile(r"\s*[A-Z_][A-Z0-9_]*\s*\(.*\)", re.DOTALL)
_NEXT_LINE = re.compile(r"[ \t]*\n\s*[A-Za-z_#]")
_BEFORE_NAME = re.compile(
    r"\b(?:__launch_bounds__|__cluster_dims__|__align__|alignas|__attribute__|__declspec|decltype"
    r"|noexcept)"
    r"\s*\("
)


def pieces(source: str) -> Iterator[Piece]:
    """What a source declares outside all functions, in order; also in namespaces and extern "C"."""
    text = _bare(source)
    at = start = 0
    while at < len(text):
        c = text[at]
        if c == "(":
            at = closing(text, at)
            if _MACRO_LINE.fullmatch(text[start : at + 1]) and _NEXT_LINE.match(text, at + 1):
                yield _piece(text, start, at + 1, at + 1)
                start = at + 1
        elif c == ";":
            if text[start:at].strip():
                yield _piece(text, start, at, at + 1)
            start = at + 1
        elif c == "{":
            if _OPEN_ROOM.match(text[start:at]):
                start = at + 1
            else:
                end = closing(text, at)
                if not _is_function(text[start:at]):
                    end = _through_semicolon(text, end)
                yield _piece(text, start, at, end + 1)
                at = end
                start = end + 1
        elif c == "}":
            start = at + 1
        at += 1
    if text[start:].strip():
        yield _piece(text, start, len(text), len(text))


def closing(text: str, at: int) -> int:
    """Where the bracket at `at` closes; the end of the text where it never does."""
    pair = {"(": ")", "{": "}"}[text[at]]
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == text[at]) - (text[i] == pair)
        if depth == 0:
            return i
    return len(text) - 1


def _through_semicolon(text: str, at: int) -> int:
    match = re.compile(r"[^;{}]*;").match(text, at + 1)
    return match.end() - 1 if match else at


def without_templates(head: str) -> str:
    """The head behind its template<...>."""
    while match := re.match(r"\s*template\s*<", head):
        depth, at = 1, match.end()
        while at < len(head) and depth:
            depth += (head[at] == "<") - (head[at] == ">")
            at += 1
        head = head[at:]
    return head


def _is_function(head: str) -> bool:
    """Whether a body behind this head is a function's: a name and parameters, no initialiser."""
    plain = without_templates(head)
    before = plain.split("(")[0]
    if "(" not in plain or "=" in _outside(plain).replace("operator", ""):
        return "operator" in before
    return not _TYPE.search(before) or bool(
        re.search(r"[\w>&*]\s+[*&]?\s*\w+\s*$", _TYPE.sub(" ", before))
    )


def _outside(text: str) -> str:
    """The text outside its round brackets."""
    while (at := text.find("(")) >= 0:
        text = text[:at] + text[closing(text, at) + 1 :]
    return text


def _piece(text: str, start: int, at: int, end: int) -> Piece:
    start += len(text[start:at]) - len(text[start:at].lstrip())
    head = text[start:at]
    plain = without_templates(head)
    defines = at < len(text) and text[at] == "{"
    if defines and _is_function(head):
        kind = "function"
    elif defines and _TYPE.search(plain):
        kind = "type"
        plain = _BASES.split(plain)[0]
    else:
        kind = "statement"
    return Piece(kind, _name(plain), start, end, head, text[at:end])


def _name(plain: str) -> str:
    while match := _BEFORE_NAME.search(plain):
        plain = plain[: match.start()] + plain[closing(plain, match.end() - 1) + 1 :]
    match = _NAME.search(plain)
    if match:
        return re.sub(r"\s", "", match[1])
    words = re.findall(r"[A-Za-z_]\w*", plain)
    return words[-1] if words else ""


# -- a whole program, cut down to its kernels ----------------------------------------------------

_INCLUDE = re.compile(r'(?m)^[ \t]*#[ \t]*include[ \t]*(?P<name><[^>\n]+>|"[^"\n]+")[^\n]*')
_DEVICE_HEADER = re.compile(
    r"cuda_(?:fp\d\w*|bf16|pipeline\w*|awbarrier\w*)\.(?:h|hpp)|mma\.h|cooperative_groups\S*"
    r"|cuda/\S+|cub/\S+"
    r"|curand_kernel\.h|math_constants\.h|vector_types\.h|sm_\d+\S*|common/\S+|cute/\S+|cutlass/\S+"
)
_OF_WHOLE_GRIDS = re.compile(r"cub/(?:cub\.cuh|device/\S+)")  # its functions are the host's
_HOST_CODE = re.compile(
    r"<<<|\bcub\s*::\s*Device|\b(?:torch|at|thrust|pybind11|c10)\s*::|\b(?:PYBIND11_MODULE|TORCH_LIBRARY\w*"
    r"|TEST(?:_F)?)\s*\("
    r"|\bstd\s*::\s*(?!min\b|max\b|abs\b|swap\b|size_t\b|numeric_limits\b|u?int\d+_t\b|move\b"
    r"|forward\b|is_\w+_v\b|is_same\b|conditional|enable_if|remove_\w+|decay_t\b|true_type\b"
    r"|false_type\b|integral_constant\b)\w+"
    r"|\bCU(?:tensorMap[A-Z]|result\b|device|context|module|function|stream|_)\w*"
    r"|\b(?:cuda|cublas|curand|cusparse|cudnn|nvtx|sdk|cu|StopWatch)[A-Z]\w*\b"
    r"|\b(?:vector|basic_string|map|unordered_map|set|queue|priority_queue|deque|list|unique_ptr"
    r"|shared_ptr)\s*<"
    r"|\b(?:string|ifstream|ofstream|ios|cin|cout|cerr|endl)\b"
    r"|\b(?:fprintf|fopen|exit|srand|rand|calloc|gettimeofday|clock_gettime|omp_\w+|getopt"
    r"|atoi|atof|strcmp|time|perror|abort|scanf|fflush|printf_s|puts)\s*(?:\(|<<)"
)


_COMPUTED = re.compile(
    r"(?![^=]*\bconst)(?:[a-z]\w*\s+)+\**\w+\s*=[^{]*[A-Za-z_]\w*\s*[-+*/%(),]"
)  # the head of a variable that no kernel can read, and that is not a constant
_WORDS = re.compile(r"[A-Za-z_]\w*")
_NAMED = re.compile(r"using\s+[\w:]*\w+::\w+\s*$|template\s+[^<\s]")  # or an instance of it
_OF_STD = re.compile(r"using\s+std::(\w+)\s*$")
_MOST_NAMED = 12  # things left out that a note names


@dataclass(frozen=True)
class LeftOut:
    """Something of a pasted program that is not compiled. line counts from 1."""

    what: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what} ({self.why})"


@dataclass(frozen=True)
class Pasted:
    """A program cut down to what runs on the device. text has the lines of what was pasted."""

    text: str
    kernels: tuple[str, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def note(self) -> str:
        """What was left out, in a sentence; nothing if nothing was."""
        if not self.left_out:
            return ""
        items = [str(gone) for gone in self.left_out[:_MOST_NAMED]]
        more = len(self.left_out) - _MOST_NAMED
        return "not compiled: " + "; ".join(items) + (f"; and {more} more" if more > 0 else "")


@lru_cache(maxsize=64)
def device_code(source: str, folders: tuple[str, ...] = ()) -> Pasted:
    """The kernels of a whole .cu file and what they need; the host's part is blanked out.

    Left out are main, functions, types and variables that use what only a host has (a launch with
    <<< >>>, CUDA's host functions, the C++ library, files), and #include lines of headers for
    hosts. Every line keeps its number. A function that names neither side stays: kernels may call
    it. folders: where headers in quotes may lie; one that lies there stays.
    """
    out, omitted = source, []
    for piece, why in _of_the_host(source):
        out = _without(out, piece.start, piece.end)
        line = source.count("\n", 0, piece.start) + 1
        what = f"{piece.name}()" if piece.kind == "function" else piece.head.split("=")[0].strip()
        omitted.append(LeftOut(" ".join(what.split())[:60], line, why))
    bare = without_comments(source)
    for match in _INCLUDE.finditer(bare):
        name = match["name"][1:-1]
        known = _DEVICE_HEADER.fullmatch(name) and not (
            _OF_WHOLE_GRIDS.fullmatch(name) and "cub::" not in without_comments(out)
        )
        if not known and not any(Path(f, name).is_file() for f in folders):
            out = _without(out, *match.span())
            line = source.count("\n", 0, match.start()) + 1
            why = "a header for the host" if match["name"][0] == "<" else "no such file here"
            omitted.append(LeftOut(f"#include {match['name']}", line, why))
    kernels = tuple(dict.fromkeys(p.name for p in pieces(source) if p.kernel))
    return Pasted(out, kernels, tuple(sorted(omitted, key=lambda g: g.line)))


def _of_the_host(source: str) -> list[tuple[Piece, str]]:
    """The pieces that cannot be compiled for the device, in order, and why.

    What names a function of the host's is the host's, too: who calls it, `using space::name`, an
    instance.
    """
    every = list(pieces(source))
    others = ((i, p) for i, p in enumerate(every) if not _NAMED.match(p.head))
    why = {i: reason for i, p in others if (reason := _why_host(p))}
    named = {i: set(_WORDS.findall(p.body)) for i, p in enumerate(every) if p.kind == "function"}
    while True:
        gone = {every[i].name for i in why if every[i].kind == "function"}
        gone -= {p.name for i, p in enumerate(every) if i not in why and not _NAMED.match(p.head)}
        more = {}
        for i, piece in enumerate(every):
            if i in why or piece.on_device:
                continue
            if _NAMED.match(piece.head):
                called = {piece.name.split("::")[-1]} & gone
            else:
                called = named.get(i, set()) & gone
            if called:
                more[i] = f"the host's: it names {min(called)}"
        if not more:
            break
        why |= more
    kept = {w for i, p in enumerate(every) if i not in why for w in _WORDS.findall(p.head + p.body)
            if not _OF_STD.match(p.head)}  # fmt: skip
    for i, piece in enumerate(every):
        if (using := _OF_STD.match(piece.head)) and using[1] not in kept:
            why[i] = "the host's: no kernel names it"
    return [(every[i], why[i]) for i in sorted(why)]


def _why_host(piece: Piece) -> str:
    """Why a piece cannot be compiled for the device, or nothing."""
    if piece.on_device:
        return ""
    used = _HOST_CODE.search(piece.head + piece.body)
    if re.match(r"\s*(?:using|typedef|template\s*<>)\b", piece.head):
        return "the host's" if used and "namespace" not in piece.head else ""
    if piece.kind == "function" and (
        piece.name == "main" or re.search(r"\b__host__\b", piece.head)
    ):
        return "the host's"
    if piece.kind == "statement" and _COMPUTED.match(piece.head):
        return "a variable of the host's that is computed"
    if not used:
        return ""
    word = used.group().strip()
    if word == "<<<":
        return "launches kernels: give grid and block here instead"
    return f"the host's: it uses {word.rstrip('(<').strip()}"
