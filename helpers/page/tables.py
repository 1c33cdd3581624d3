"""Tables with a caption and header cells, for a wide screen, a phone and a terminal."""

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np

from helpers.ladder.rungs import catalog, cores
from helpers.notebook.pieces import HIDDEN, Html, breakable, inline, python_value
from helpers.record.measurement import provenance_of
from helpers.wording import number
from nogpu.errors import DataError, near_matches

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
    value = python_value(value)
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
    rows: Any, *, caption: str, columns: Sequence[str] | None = None,
    headers: Mapping[str, str] | None = None, formats: Mapping[str, Format] | None = None,
    note: str = "", folded: str = "", of: Any = (), turned: bool = False,
) -> Html:  # fmt: skip
    """A table with a caption, header cells for its columns and rows, and numbers to the right.

    rows: a DataFrame, or dicts or dataclasses. columns: which ones, in this order; the first heads
    its row. headers: what stands above a column, if not its name (a kernel's as it is written,
    others with spaces). of: the measurements that its numbers are of, one or several; the note ends
    with where they come from. formats: a format specification or a function for a column. A missing
    value is shown as a dash. folded: what stands below, behind the words "ncu's names". On a narrow
    screen the table scrolls inside its frame; turned: a row becomes a column, for few things with
    many properties. Raises DataError if a column does not exist or has no header, or there is no
    row."""
    records = _records(rows)
    known = list(dict.fromkeys(name for row in records for name in row))
    chosen = list(columns) if columns is not None else known
    for mapping in (chosen, headers or {}, formats or {}):
        unknown = [name for name in mapping if name not in known]
        if unknown and records:
            raise DataError(
                f"the table has no column {unknown[0]!r}. {near_matches(unknown[0], known)}"
            )
    if not records or not chosen:
        raise DataError(f"the table {caption!r} has no rows; nothing to show")
    headers, formats = headers or {}, formats or {}
    note = " ".join(
        filter(None, (note, provenance_of(*(of if isinstance(of, list | tuple) else [of]))))
    )

    def title(name: str) -> str:
        return headers.get(
            name, name if name in catalog or name in cores else name.replace("_", " ")
        )

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
        return _table(sides, list(names), names, {}, set(things), caption, note, folded)
    values = {name: [row.get(name) for row in records] for name in chosen}
    numeric = {n for n, of in values.items() if all(_missing(v) or _is_number(v) for v in of)}
    titles = {name: title(name) for name in chosen}
    return _table(records, chosen, titles, formats, numeric, caption, note, folded)


def _table(
    records: list[dict[str, Any]], chosen: list[str], titles: Mapping[str, str],
    formats: Mapping[str, Format], numeric: set[str], caption: str, note: str, folded: str,
) -> Html:  # fmt: skip
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
            inner = f'<span aria-hidden="true">–</span>{gap}' if words == "–" else breakable(words)
            cells.append(f'<{tag}{scope} style="{style}{weight}">{inner}</{tag}>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(
        f'<th scope="col" style="text-align:{"right" if name in numeric else "left"};'
        f'padding:.25em .7em;border-bottom:1px solid currentColor">{breakable(titles[name])}</th>'
        for name in chosen
    )
    style = 'class="tile-note" style="margin:.2em 0"'
    foot = f"<p {style}><small>{inline(note)}</small></p>" if note else ""
    if folded:
        foot += (
            '<details class="tile-note" style="margin:.2em 0"><summary><small>ncu’s'
            " names</small></summary><small"
            f' style="overflow-wrap:anywhere">{inline(folded)}</small></details>'
        )
    bare = html.escape(caption.replace("`", ""))
    out = (
        f'<div class="tile-table" style="margin:1em 0"><div role="group" tabindex="0" '
        f'aria-label="{bare}" style="overflow-x:auto;max-width:100%;'
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
