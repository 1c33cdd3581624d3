"""Source listings: line numbers, and the new lines marked."""

import difflib
import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

from helpers.colours import GREEN, tint
from helpers.ladder.kernel import KERNELS, Kernel
from helpers.ladder.rungs import find
from helpers.notebook.pieces import HIDDEN, Html, inline
from helpers.wording import counted
from nogpu.errors import DataError, UnknownNameError, near_matches
from nogpu.text import without_comments

NEWS = 0.4
"""A file of which less is new shows what is new before the rest."""
AROUND = 2
"""Lines shown before and after a new one."""


def _source(kernel: Any) -> tuple[str, str]:
    """File name (empty for text) and source of a kernel, a file below kernels/, or source text."""
    if isinstance(kernel, Kernel):
        return kernel.file, kernel.source
    if isinstance(kernel, str) and "\n" in kernel:
        return "", kernel.strip("\n") + "\n"
    name = str(kernel)
    if name.endswith((".cu", ".cuh", ".cpp", ".c", ".py")):
        path = (KERNELS / name).resolve()
        if not path.is_relative_to(KERNELS) or not path.is_file():
            files = [p.relative_to(KERNELS).as_posix() for p in KERNELS.rglob("*.c*")]
            raise UnknownNameError(f"kernels/ has no file {name!r}. {near_matches(name, files)}")
        return path.relative_to(KERNELS).as_posix(), path.read_text(encoding="utf-8")
    known = find(name)
    return known.file, known.source


def new_lines(source: str, before: str) -> set[int]:
    """Numbers of the lines of `source` that `before` does not have.

    A line that moved is new where it stands. Comments, spaces, braces alone and the kernels' own
    names do not count.
    """
    launch_bounds = r"(?:__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)\s*)?"

    def words(text: str) -> list[tuple[int, str]]:
        bare = without_comments(text)
        for name in re.findall(rf"__global__\s+void\s+{launch_bounds}(\w+)\s*\(", bare):
            bare = re.sub(rf"\b{name}\b", "kernel", bare)
        lines = ((i, " ".join(line.split())) for i, line in enumerate(bare.splitlines(), 1))
        return [(i, line) for i, line in lines if line.strip("{};")]

    new, old = words(source), words(before)
    match = difflib.SequenceMatcher(
        None, [line for _, line in old], [line for _, line in new], autojunk=False
    )
    changes = (code for code in match.get_opcodes() if code[0] != "equal")
    return {at for *_, start, end in changes for at, _ in new[start:end]}


def _slice(
    lines: list[str], wanted: tuple[int, int] | tuple[str, str] | None, low: int = 1,
    high: int | None = None, what: str = "lines",
) -> tuple[int, int]:  # fmt: skip
    """First and last line number of a slice given by numbers or by text in the two lines.

    They lie from `low` to `high`, which is the last line if it is None.
    """
    high = len(lines) if high is None else high
    if wanted is None:
        return low, high
    ends: list[int] = []
    for end in wanted:
        if isinstance(end, str):
            start = ends[0] if ends else low
            hits = [i for i in range(start, high + 1) if end in lines[i - 1]]
            if not hits:
                raise DataError(
                    f"{what}={wanted}: no line of the source, from {start} to {high}, contains "
                    f"{end!r}"
                )
            ends.append(hits[0])
        else:
            ends.append(int(end))
    first, last = ends
    if not low <= first <= last <= high:
        raise DataError(f"{what}={wanted}: the source has lines {low} to {high}")
    return first, last


def _highlighted(source: str, file: str) -> list[str]:
    """HTML of each line, with the token classes that Sphinx themes colour.

    Names, punctuation and blanks have the colour of all code and no span: half of the bytes.
    """
    count = len(source.splitlines())
    try:
        from pygments import highlight  # type: ignore[import-untyped]
        from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
        from pygments.lexers import CudaLexer, PythonLexer  # type: ignore[import-untyped]
    except ImportError:  # a bare GPU server: plain text reads too
        return [html.escape(line) for line in source.splitlines()]
    lexer = (PythonLexer if file.endswith(".py") else CudaLexer)(stripnl=False, ensurenl=True)
    text = highlight(source, lexer, HtmlFormatter(nowrap=True))
    lines = re.sub(r'<span class="[npw]">([^<]*)</span>', r"\1", text).split("\n")
    return (lines + [""] * count)[:count]


def _code(body: str, label: str) -> str:
    """Lines of HTML as the block of code that a theme colours."""
    return (
        '<div class="highlight-cuda notranslate"><div class="highlight">'
        f'<pre tabindex="0" role="group" aria-label="{label}" style="overflow-x:auto">'
        f"<span></span>{body}\n</pre></div></div>"
    )


def _news(rows: Sequence[str], marked: Iterable[int]) -> str:
    """Rows of a whole file without what is far from a marked line (numbers from 1)."""
    near = {n for at in marked for n in range(at - AROUND, at + AROUND + 1)}
    shown: list[str] = []
    passed = 0
    for i, row in enumerate([*rows, None], 1):
        if row is not None and i not in near:
            passed += 1
            continue
        if passed:
            shown.append(f'<span class="linenos">⋯ {counted(passed, "line")} as before</span>')
            passed = 0
        if row is not None:
            shown.append(row)
    return "\n".join(shown)


def show_kernel(
    kernel: Kernel | str, *, since: Kernel | str | None = None, new: Iterable[int] | None = None,
    lines: tuple[int, int] | tuple[str, str] | None = None,
    mark: Iterable[tuple[int, int] | tuple[str, str]] = (), folded: bool = False,
    caption: str | None = None,
) -> Html:  # fmt: skip
    """Source with line numbers, the new lines marked by a sign, a tint and words read aloud.

    kernel: a catalog name, a Kernel, a file below kernels/, or source text (with line breaks).
    since: the kernel before it; lines that it does not have are new, comments and spaces aside.
    new: line numbers to mark instead; mark: the same by first and last lines, such as [("float
    sum", "= sum;")], looked for in what is shown. lines: first and last line to show, as numbers or
    as text that the lines contain. folded: behind its file's name, which opens it. Raises
    UnknownKernelError, UnknownNameError, DataError.

    A whole file of which less than NEWS is new since another shows that first, with AROUND lines
    about it, and the rest in a fold.
    """
    file, source = _source(kernel)
    all_lines = source.splitlines()
    first, last = _slice(all_lines, lines)
    before, old = _source(since) if since is not None else ("", "")
    spans = [_slice(all_lines, span, first, last, "mark") for span in mark]
    if spans or new is not None:
        marked = {n for start, end in spans for n in range(start, end + 1)} | set(new or ())
        if any(not 1 <= n <= len(all_lines) for n in marked):
            raise DataError(f"{new=}: the source has lines 1 to {len(all_lines)}")
    else:
        marked = new_lines(source, old) if since is not None else set()
    marked &= set(range(first, last + 1))
    width = len(str(last))
    rows, plain = [], []
    for i, code in enumerate(_highlighted(source, file)[first - 1 : last], first):
        is_new = i in marked
        sign = "+" if is_new else " "
        aloud = f'<span style="{HIDDEN}">new line </span>' if is_new else ""
        gutter = (
            f'<span class="linenos" style="user-select:none;-webkit-user-select:none">{aloud}'
            f'{i:>{width}} <span aria-hidden="true">{sign}</span> </span>'
        )
        if is_new:
            # a translucent tint lies over light and dark backgrounds alike
            style = f"background:{tint(GREEN, '.2')};box-shadow:-3px 0 0 {GREEN}"
            rows.append(f'<span class="tile-new" style="{style}">{gutter}{code}</span>')
        else:
            rows.append(gutter + code)
        plain.append(f"{i:>{width}} {sign} {all_lines[i - 1]}")
    language = "CUDA" if "__global__" in source or "__device__" in source else "C++"
    name = f"kernels/{file}" if file else f"{language} source"
    part = f", lines {first} to {last}" if (first, last) != (1, len(all_lines)) else ""
    if caption is None:
        caption = name + part
        if marked and before:
            caption += f"; lines marked + are new since kernels/{before}"
        elif marked:
            caption += "; lines marked + are new"
    label = html.escape(f"Source of {name}{part}")
    shown = _code("\n".join(rows), label)
    by_hand = spans or new is not None or lines is not None
    if before and not by_hand and 0 < len(marked) < NEWS * len(rows):
        fold = f"<details><summary>the whole file, {len(rows)} lines</summary>{shown}</details>"
        shown = _code(_news(rows, marked), f"What is new in {html.escape(name)}") + fold
    out = (
        f'<figure class="tile-code" style="margin:1em 0">{shown}'
        f"<figcaption>{inline(caption)}</figcaption></figure>"
    )
    if folded:
        count = last - first + 1
        opens = f"<code>{html.escape(name)}</code>{part or f', {count} lines'}"
        out = (
            '<details class="tile-folded" style="margin:1em 0">'
            f'<summary style="cursor:pointer">{opens}</summary>{out}</details>'
        )
    return Html(out, "\n".join([*plain, caption]))
