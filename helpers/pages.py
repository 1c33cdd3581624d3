"""What a chapter's page is made of: source listings, glued numbers, quizzes, tables, provenance.

Everything here is plain HTML or Markdown with a plain-text repr: it reads the same in the built
book, in JupyterLab and in Colab, without script, network or widget state.
"""

from __future__ import annotations

import difflib
import hashlib
import html
import math
import re
import string
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import numpy as np

from helpers.claims import holds
from helpers.errors import ConfigError, DataError, UnknownNameError, near_matches
from helpers.exercises import without_comments
from helpers.kernel import KERNELS, Kernel
from helpers.measuring import DEFAULT_GPU, load, stalls, tuned
from helpers.measuring.agree import on_tensor_cores
from helpers.plots._svg import number
from helpers.rungs import catalog, find

HIDDEN = (
    "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap"
)
"""Style of words that are read aloud and not drawn; inline, for pages without our style sheet."""


@dataclass(frozen=True)
class Html:
    """A piece of a page, and the same in plain text for a terminal."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Markdown:
    """A paragraph of Markdown."""

    markdown: str

    def _repr_markdown_(self) -> str:
        return self.markdown

    def __repr__(self) -> str:
        return self.markdown


def inline(text: str) -> str:
    """HTML of a line of words in which `code` stands in backticks."""
    parts = re.split(r"`([^`]+)`", text)
    for i, part in enumerate(parts):
        words = html.escape(part, quote=False)
        parts[i] = f"<code>{words}</code>" if i % 2 else words
    return "".join(parts)


def _breakable(text: str) -> str:
    """inline(), in which a long name may go on below after an underscore, as on a phone it must."""
    return re.sub(r"(?<=\w)_(?=\w)", "_<wbr>", inline(text))


# -- source listings -----------------------------------------------------------------------------


def _source(kernel: Any) -> tuple[str, str]:
    """File name (empty for text) and source of a kernel, a file below kernels/, or source text."""
    if isinstance(kernel, Kernel):
        return kernel.file, kernel.source
    if isinstance(kernel, str) and "\n" in kernel:
        return "", kernel.strip("\n") + "\n"
    name = str(kernel)
    if name.endswith((".cu", ".cuh", ".cpp", ".c")):
        path = (KERNELS / name).resolve()
        if not path.is_relative_to(KERNELS) or not path.is_file():
            files = [p.relative_to(KERNELS).as_posix() for p in KERNELS.rglob("*.c*")]
            raise UnknownNameError(f"kernels/ has no file {name!r}. {near_matches(name, files)}")
        return path.relative_to(KERNELS).as_posix(), path.read_text(encoding="utf-8")
    found = find(name)
    return found.file, found.source


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
    return {
        at
        for change, _, _, start, end in match.get_opcodes()
        if change != "equal"
        for at, _ in new[start:end]
    }


def _slice(lines: list[str], wanted: tuple[int, int] | tuple[str, str] | None) -> tuple[int, int]:
    """First and last line number of a slice given by numbers or by text in the two lines."""
    if wanted is None:
        return 1, len(lines)
    ends: list[int] = []
    for end in wanted:
        if isinstance(end, str):
            start = ends[0] if ends else 1
            hits = [i for i, line in enumerate(lines, 1) if end in line and i >= start]
            if not hits:
                raise DataError(f"lines={wanted}: no line of the source contains {end!r}")
            ends.append(hits[0])
        else:
            ends.append(int(end))
    first, last = ends
    if not 1 <= first <= last <= len(lines):
        raise DataError(f"lines={wanted}: the source has lines 1 to {len(lines)}")
    return first, last


def _highlighted(source: str) -> list[str]:
    """HTML of each line, with the token classes that Sphinx themes colour."""
    count = len(source.splitlines())
    try:
        from pygments import highlight  # type: ignore[import-untyped]
        from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
        from pygments.lexers import CudaLexer  # type: ignore[import-untyped]
    except ImportError:  # a bare GPU server: plain text reads too
        return [html.escape(line) for line in source.splitlines()]
    lexer = CudaLexer(stripnl=False, ensurenl=True)
    lines = highlight(source, lexer, HtmlFormatter(nowrap=True)).split("\n")
    return (lines + [""] * count)[:count]


def show_kernel(
    kernel: Kernel | str,
    *,
    since: Kernel | str | None = None,
    new: Iterable[int] | None = None,
    lines: tuple[int, int] | tuple[str, str] | None = None,
    caption: str | None = None,
) -> Html:
    """Source with line numbers, the new lines marked by a sign, a tint and words read aloud.

    kernel: a catalog name, a Kernel, a file below kernels/, or source text (with line breaks).
    since: the kernel before it; lines that it does not have are new, comments and spaces aside.
    new: line numbers to mark instead. lines: first and last line to show, as numbers or as text
    that the lines contain. Raises UnknownKernelError, UnknownNameError, DataError.
    """
    file, source = _source(kernel)
    all_lines = source.splitlines()
    first, last = _slice(all_lines, lines)
    before = ""
    if since is not None and new is None:
        before, old = _source(since)
        marked = new_lines(source, old)
    else:
        marked = set(new or ())
        if any(not 1 <= n <= len(all_lines) for n in marked):
            raise DataError(f"{new=}: the source has lines 1 to {len(all_lines)}")
    marked &= set(range(first, last + 1))
    width = len(str(last))
    rows, plain = [], []
    for i, code in enumerate(_highlighted(source)[first - 1 : last], first):
        is_new = i in marked
        sign = "+" if is_new else " "
        aloud = f'<span style="{HIDDEN}">new line </span>' if is_new else ""
        gutter = (
            f'<span class="linenos" style="user-select:none;-webkit-user-select:none">{aloud}'
            f'{i:>{width}} <span aria-hidden="true">{sign}</span> </span>'
        )
        if is_new:
            # a translucent tint lies over light and dark backgrounds alike
            style = "background:rgba(0,158,115,.2);box-shadow:-3px 0 0 #009e73"
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
    body = "\n".join(rows)
    label = html.escape(f"Source of {name}{part}")
    out = (
        '<figure class="tile-code" style="margin:1em 0">'
        '<div class="highlight-cuda notranslate"><div class="highlight">'
        f'<pre tabindex="0" role="group" aria-label="{label}" style="overflow-x:auto">'
        f"<span></span>{body}\n</pre></div></div>"
        f"<figcaption>{inline(caption)}</figcaption></figure>"
    )
    return Html(out, "\n".join([*plain, caption]))


# -- glued numbers -------------------------------------------------------------------------------

_glued: dict[str, Any] = {}


def _plain(value: Any) -> Any:
    """A Python value whose repr reads back: NumPy 2 writes np.float64(1.5), which no page wants."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    return value


def _in_ipython() -> bool:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    return get_ipython() is not None


def glue(name: str, value: Any) -> None:
    """Keep a value under a name for the text of the page; nothing is displayed.

    In the book build MyST-NB stores it for {glue:text}`name:.1f`; an exported notebook shows the
    same text by `say`. value: a number or words. Raises ConfigError on a bad name or value.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ConfigError(f"{name=}: name a glued value like a Python variable")
    kept = _plain(value)
    if not isinstance(kept, (bool, int, float, str)):
        raise ConfigError(f"glue({name!r}) got a {type(value).__name__}; give a number or words")
    _glued[name] = kept
    if not _in_ipython():
        return
    try:
        from myst_nb import glue as store
    except ImportError:  # Colab: say() reads the dictionary
        return
    store(name, kept, display=False)


def format_glued(value: Any, spec: str) -> str:
    """A glued value as {glue:text}`name:spec` writes it; an empty spec means as text.

    MyST-NB keeps the repr of the value, reads it back as a literal and converts it by the last
    letter of the spec: text for s, an integer for b c d o x X, a float for e f g n %.
    """
    text = repr(value)
    try:
        value = literal_eval(text)
    except (SyntaxError, ValueError):
        value = text
    spec = spec or "s"
    if spec[-1] == "s":
        value = str(value)
    elif spec[-1] in "bcdoxX":
        value = int(value)
    elif spec[-1] in "eEfFgGn%":
        value = float(value)
    return format(value, spec)


def say(template: str) -> Markdown:
    """A paragraph with glued values in it: {name:.1f} is {glue:text}`name:.1f` of the chapter.

    A literal brace is doubled. Raises UnknownNameError if nothing was glued under a name, and
    ConfigError if a format does not fit its value.
    """
    out = []
    for words, name, spec, conversion in string.Formatter().parse(template.strip("\n")):
        out.append(words)
        if name is None:
            continue
        if conversion:
            raise ConfigError(f"{{{name}!{conversion}}}: give a format after a colon instead")
        if name not in _glued:
            raise UnknownNameError(
                f"the text shows {name!r}, which no cell has glued. "
                f"{near_matches(name, _glued) if _glued else ''} Run the cells above first."
            )
        try:
            out.append(format_glued(_glued[name], spec or ""))
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"{{{name}:{spec}}} does not fit the value {_glued[name]!r}: {error}"
            ) from None
    return Markdown("".join(out))


# -- quiz ----------------------------------------------------------------------------------------


def quiz(question: str, options: Mapping[str, str], *, answer: str | Sequence[str]) -> Html:
    """A question whose options open, by mouse or keyboard, to say whether they are right and why.

    options maps each option to its explanation; answer is the right option, or several. Raises
    ConfigError if the answer is not an option, or there are fewer than two options.
    """
    right = (answer,) if isinstance(answer, str) else tuple(answer)
    if len(options) < 2:
        raise ConfigError(f"the quiz {question!r} has {len(options)} options; give at least two")
    missing = [a for a in right if a not in options]
    if missing or not right:
        raise ConfigError(
            f"the answer {missing or right!r} of the quiz {question!r} is not one of its options"
        )
    name = "quiz-" + hashlib.sha1(question.encode()).hexdigest()[:8]
    items = []
    for option, why in options.items():
        verdict = "Right." if option in right else "Not quite."
        items.append(
            '<details class="tile-option" style="margin:.35em 0">'
            f'<summary style="cursor:pointer">{inline(option)}</summary>'
            f'<p style="margin:.2em 0 .6em 1.1em"><strong>{verdict}</strong> {inline(why)}</p>'
            "</details>"
        )
    out = (
        f'<div class="tile-quiz" role="group" aria-labelledby="{name}" style="margin:1.2em 0">'
        f'<p id="{name}" style="margin:0 0 .4em"><strong>{inline(question)}</strong></p>'
        f"{''.join(items)}</div>"
    )
    letters = string.ascii_lowercase
    listed = "\n".join(f"  {letters[i % 26]}) {option}" for i, option in enumerate(options))
    return Html(out, f"{question}\n{listed}")


# -- tables --------------------------------------------------------------------------------------

Format = str | Callable[[Any], str]


def _records(rows: Any) -> list[dict[str, Any]]:
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        return [{str(k): v for k, v in row.items()} for row in rows.to_dict("records")]
    out = []
    for row in rows:
        if is_dataclass(row) and not isinstance(row, type):
            row = asdict(row)
        if not isinstance(row, Mapping):
            raise DataError(
                f"a row of a table is a {type(row).__name__}; give dicts or a DataFrame"
            )
        out.append(dict(row))
    return out


def _missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # NaN and pandas' NaT
    except (TypeError, ValueError):  # pandas' NA has no truth value
        return True


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _cell(value: Any, spec: Format | None) -> str:
    value = _plain(value)
    if callable(spec):
        return str(spec(value))
    if spec:
        if _is_number(value):
            return format(value, spec)
        return str(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        if math.isinf(value):
            return "∞" if value > 0 else "-∞"
        return number(value, 4)
    return str(value)


def table(
    rows: Any,
    *,
    caption: str,
    columns: Sequence[str] | None = None,
    headers: Mapping[str, str] | None = None,
    formats: Mapping[str, Format] | None = None,
    note: str = "",
    turned: bool = False,
) -> Html:
    """A table with a caption, header cells for its columns and rows, and numbers to the right.

    rows: a DataFrame, or dicts or dataclasses. columns: which ones, in this order; the first heads
    its row. headers: what stands above a column, if not its name (a kernel's as it is written, others
    with spaces). formats: a format specification or a function for a column. A missing value is shown
    as a dash. On a narrow screen the table scrolls inside its frame; turned: a row becomes a column,
    for few things with many properties. Raises DataError if a column does not exist or has no
    header, or there is no row.
    """
    records = _records(rows)
    known = list(dict.fromkeys(name for row in records for name in row))
    chosen = list(columns) if columns is not None else known
    for given in (chosen, headers or {}, formats or {}):
        unknown = [name for name in given if name not in known]
        if unknown and records:
            raise DataError(
                f"the table has no column {unknown[0]!r}. {near_matches(unknown[0], known)}"
            )
    if not records or not chosen:
        raise DataError(f"the table {caption!r} has no rows; nothing to show")
    headers, formats = headers or {}, formats or {}

    def title(name: str) -> str:
        return headers.get(name, name if name in catalog else name.replace("_", " "))

    if any(not title(name).strip() for name in chosen):
        raise DataError(f"the table {caption!r} has a column without a header: say what it holds")

    if turned:
        first, *rest = chosen
        things = [_cell(row.get(first), formats.get(first)) for row in records]
        if len(set(things)) < len(things) or title(first) in things:
            raise DataError(f"{caption!r} cannot be turned: {things} would head two columns")
        sides = [
            {
                title(first): title(name),
                **{
                    thing: None if _missing(row.get(name)) else _cell(row[name], formats.get(name))
                    for thing, row in zip(things, records, strict=True)
                },
            }
            for name in rest
        ]
        names = {thing: thing for thing in (title(first), *things)}
        return _table(sides, list(names), names, {}, set(things), caption, note)
    numeric = {
        name
        for name in chosen
        if all(_missing(v) or _is_number(v) for v in (row.get(name) for row in records))
    }
    titles = {name: title(name) for name in chosen}
    return _table(records, chosen, titles, formats, numeric, caption, note)


def _table(
    records: list[dict[str, Any]],
    chosen: list[str],
    titles: Mapping[str, str],
    formats: Mapping[str, Format],
    numeric: set[str],
    caption: str,
    note: str,
) -> Html:
    """The rows of a table as HTML and as text. numeric: columns that stand to the right."""

    text = [[titles[name] for name in chosen]]
    body = []
    for row in records:
        shown = [
            "–" if _missing(row.get(name)) else _cell(row[name], formats.get(name))
            for name in chosen
        ]
        text.append(shown)
        cells = []
        for i, (name, words) in enumerate(zip(chosen, shown, strict=True)):
            tag, scope = ("th", ' scope="row"') if i == 0 else ("td", "")
            align = "right" if name in numeric else "left"
            style = f"text-align:{align};font-variant-numeric:tabular-nums;padding:.25em .7em"
            weight = ";font-weight:normal" if i == 0 else ""
            gap = f'<span style="{HIDDEN}">no value</span>'
            inner = f'<span aria-hidden="true">–</span>{gap}' if words == "–" else _breakable(words)
            cells.append(f'<{tag}{scope} style="{style}{weight}">{inner}</{tag}>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(
        f'<th scope="col" style="text-align:{"right" if name in numeric else "left"};'
        f'padding:.25em .7em;border-bottom:1px solid currentColor">{_breakable(titles[name])}</th>'
        for name in chosen
    )
    foot = (
        f'<p class="tile-note" style="margin:.2em 0"><small>{inline(note)}</small></p>'
        if note
        else ""
    )
    out = (
        f'<div class="tile-table" style="margin:1em 0"><div role="group" tabindex="0" '
        f'aria-label="{html.escape(_bare(caption))}" style="overflow-x:auto;max-width:100%;'
        'position:relative;container-type:inline-size">'
        '<table style="border-collapse:collapse;margin:0">'
        '<caption style="caption-side:top;text-align:left;padding:.3em 0">'
        # The caption keeps to the frame's width, and its place, while a wide table scrolls.
        '<span style="display:inline-block;position:sticky;left:0;max-width:100cqw">'
        f"{inline(caption)}</span></caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>{foot}</div>"
    )
    widths = [max(len(line[i]) for line in text) for i in range(len(chosen))]
    plain = [
        "  ".join(
            f"{words:>{w}}" if name in numeric else f"{words:<{w}}"
            for name, words, w in zip(chosen, line, widths, strict=True)
        ).rstrip()
        for line in text
    ]
    return Html(out, "\n".join([caption, *plain, *([note] if note else [])]))


def _bare(text: str) -> str:
    return text.replace("`", "")


# -- provenance ----------------------------------------------------------------------------------


def provenance(*measurements: Any) -> Html:
    """Where the numbers come from, in one small sentence for each measurement: live or replayed.

    A live one brings the sentence of the recorded points that charts draw beside it.
    """
    if not measurements:
        raise DataError("provenance() takes what measure(...) returned")
    said = []
    beside = [m.recorded for m in measurements if getattr(m, "recorded", None) is not None]
    for m in (*measurements, *beside):
        how = "Measured here, now" if m.live else "Replayed from a record, not measured here"
        said.append(f"{how}: {str(m.label).strip().rstrip('.')}.")
        missing = tuple(getattr(m, "missing", ()))
        if missing:
            said.append(f"Not in the record: {'; '.join(missing)}.")
    said = list(dict.fromkeys(said))
    text = " ".join(said)
    return Html(f'<p class="tile-provenance"><small>{html.escape(text)}</small></p>', text)


# -- tiles found by the tuner --------------------------------------------------------------------


def tuned_note(kernel: Kernel | str, size: int = 4096, gpu: str = DEFAULT_GPU) -> Markdown | None:
    """A sentence on the confirmed best tile of a kernel on a GPU; None where none is recorded.

    As the last line of a cell it shows the sentence or nothing, so the text around it must not need
    it.
    """
    best = tuned(kernel, size, gpu)
    if best is None:
        return None
    changed = ", ".join(f"{n} = {v}" for n, v in best["params"].items() if best["default"][n] != v)
    name = load(gpu).gpu["name"]
    timed = f"Of {best['tiles']} tiles timed on the {name} at {size}"
    share = ""
    if best["cublas_ratio"] is not None:
        share = f"; it reaches {100 * best['cublas_ratio']:.1f} % of cuBLAS"
    if best["gain"] is None:
        return Markdown(f"{timed}, none is faster than the one used here.")
    return Markdown(
        f"{timed}, the best has {changed}: {best['gain']:.2f} times as fast as the one used here{share}."
    )


# -- what warps wait for -------------------------------------------------------------------------

BUSY: Mapping[str, str] = {
    "busy (%): schedulers, issuing": "issue_percent",
    "busy (%): data pipe of L1 and shared memory": "shared_percent",
    "busy (%): FMA pipe": "fma_percent",
    "busy (%): Tensor Cores": "tensor_percent",
}
"""Units whose busy clocks the record has, by the words of a table. Of the Tensor Cores only those of
kernels that use them are shown: ncu's counter reads up to one percent where no such instruction runs.
"""
REASONS: Mapping[str, tuple[str, ...]] = {
    "it issues": ("issues",),
    "data from global memory or L1": ("long_scoreboard",),
    "data from shared memory": ("short_scoreboard",),
    "a full queue of memory instructions": ("mio_throttle", "lg_throttle"),
    "a barrier": ("barrier", "membar"),
    "a busy arithmetic unit": ("math_pipe_throttle",),
    "the result before it, a few clocks": ("wait",),
    "Tensor Cores (wgmma)": ("gmma",),
    "the dispatcher, which holds it back": ("dispatch_stall",),
    "its turn: another warp issues": ("not_selected",),
}
"""Words for ncu's reasons, with the reasons that they stand for; the others are "other reasons"."""


def stall_note(kernels: Sequence[str], gpu: str = DEFAULT_GPU) -> Html | None:
    """A table of what the warps of some kernels wait for on a GPU; None where none is recorded.

    As the last line of a cell it shows the table or nothing, so the text around it must not need it.
    """
    found = stalls(kernels, gpu=gpu)
    if not found:
        return None
    rows = []
    for row in found:
        told = {
            words: sum(row["waits"].get(r, 0.0) for r in named) for words, named in REASONS.items()
        }
        unused = () if on_tensor_cores(row["kernel"]) else ("tensor_percent",)
        busy = {words: None if n in unused else row.get(n) for words, n in BUSY.items()}
        rows.append(
            {"kernel": row["kernel"], **busy,
             "warps a scheduler": row["warps"], **told,
             "other reasons": sum(row["waits"].values()) - sum(told.values())}
        )  # fmt: skip
    order = [
        name
        for name in rows[0]
        if name == "kernel" or max((row[name] or 0.0) for row in rows) >= 0.5
    ]
    record, size = load(gpu), found[0]["m"]
    return table(
        rows,
        columns=order,
        turned=True,
        caption=f"At {size}: how busy units of the SM are, then what a warp does, in percent of its time: it "
        "issues, or waits for the thing named. Read by ncu; a warp that waits costs nothing while "
        "another one issues.",
        formats=dict.fromkeys(order[1:], ".1f"),
        note=record.label([e for e in record.data["stalls"] if e["kernel"] in kernels]),
    )


# -- records of a GPU that may not be there yet ----------------------------------------------------


def evidence(of: str, otherwise: str = "") -> Html | Markdown | None:
    """The table of a record in data/validation, or, where there is none, a sentence, or nothing.

    of: "sanitizer", "shapes" or "mutants" (see helpers.measuring.evidence). otherwise: the sentence.
    """
    from helpers.measuring import evidence as records

    tables = {
        "sanitizer": records.sanitizer_table,
        "shapes": records.shapes_table,
        "mutants": records.mutants_table,
    }
    if of not in tables:
        raise UnknownNameError(f"there is no evidence {of!r}. {near_matches(of, tables)}")
    found = tables[of]()
    if found is None:
        return Markdown(otherwise) if otherwise else None
    return table(
        found.rows,
        caption=found.caption,
        headers=found.headers,
        formats=found.formats,
        note=found.note,
    )


__all__ = [
    "Html",
    "Markdown",
    "evidence",
    "format_glued",
    "glue",
    "holds",
    "new_lines",
    "provenance",
    "quiz",
    "say",
    "show_kernel",
    "stall_note",
    "table",
    "tuned_note",
]
