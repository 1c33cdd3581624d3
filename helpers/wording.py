"""Numbers and lists as the book writes them, in pictures, tables and sentences; and as JSON."""

import html
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any


def number(value: float, digits: int = 3) -> str:
    """A number for people: three significant digits, thousands with commas, no exponent."""
    if value != value:
        return "unknown"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def counted(value: float, noun: str) -> str:
    """ "1 sector", "2.5 sectors", "4,096 sectors"."""
    return f"{number(value)} {noun}{'' if value == 1 else 's'}"


def bytes_text(count: float) -> str:
    """Bytes in the largest unit that leaves at least 1, counted in powers of two as NVIDIA's tables
    of memories do: 49,152 is "48 KB"."""
    value, unit = float(count), "B"
    for larger in ("KB", "MB", "GB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{number(value, 3)} {unit}"


def shape_text(m: int, n: int, k: int) -> str:
    """How a size is written under a bar: "N = 1024", or M × N × K where they differ."""
    return f"N = {m}" if m == n == k else f"M × N × K = {m} × {n} × {k}"


def join(words: Sequence[str]) -> str:
    """ "a, b and c"."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def _plain(value: Any) -> Any:
    """The same data as JSON can hold it: NumPy numbers plain, NaN and infinities null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_json(data: Any) -> None:
    """Write data to stdout as JSON."""
    print(json.dumps(_plain(data), indent=2, allow_nan=False))


def print_table(rows: Sequence[Mapping[str, Any]], formats: Mapping[str, str]) -> None:
    """Write rows to stdout as columns; formats names the columns and how each is formatted."""

    def cell(row: Mapping[str, Any], name: str) -> str:
        value = row.get(name)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return "-"
        return format(value, formats[name])

    lines = [list(formats)] + [[cell(row, name) for name in formats] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(formats))]
    numeric = [bool(f) for f in formats.values()]
    for line in lines:
        cells = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        )
        print("  ".join(cells).rstrip())


def folded_source(text: str) -> str:
    """HTML that says how numbers were come by, and behind a fold by what, when and where.

    text: such as provenance_of makes: what stands before its first colon stays in sight.
    """
    how, colon, rest = text.partition(": ")
    summary = html.escape(how if colon else "Source")
    words = html.escape(rest if colon else text)
    return f'<details class="tile-provenance"><summary>{summary}</summary>{words}</details>'
