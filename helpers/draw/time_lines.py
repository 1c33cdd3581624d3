"""Time lines: transfers beside a kernel, end to end, and operations that overlap."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers.colours import BLUE, GREEN, VERMILION
from helpers.draw.chart_marks import draw_bar, draw_legend
from helpers.draw.figures import Figure, both
from helpers.draw.on_axes import Bar, horizontal_bars
from helpers.draw.series import Look, Size, point_name, select, source_of, unique
from helpers.draw.surface import Canvas, Column, text_width
from helpers.wording import counted, join, number, shape_text
from nogpu.errors import DataError


def timeline(
    m: Any, *, kernels: Sequence[str] | None = None, sizes: Sequence[Size] | None = None
) -> Figure:
    """Host-to-device copy, kernel and device-to-host copy, end to end, one bar a row.

    Needs the columns h2d_ms, ms and d2h_ms. Each bar is drawn to the scale of the longest total.
    """
    copies = ("h2d_ms", "d2h_ms")
    timed = select(m, "ms", kernels, sizes)
    points = [p for p in timed if all(math.isfinite(p.get(column)) for column in copies)]
    if not points:
        raise DataError("no row has h2d_ms, ms and d2h_ms: transfers were not recorded for it")
    phases = (
        ("h2d_ms", "host to device", BLUE, None),
        ("ms", "kernel", VERMILION, None),
        ("d2h_ms", "device to host", GREEN, "////"),
    )
    legend = {name: Look(colour, "s", hatch) for _, name, colour, hatch in phases}
    rows = [
        (p, f"{point_name(p, points)}, {shape_text(*p.size)}", sum(p.get(c) for c, *_ in phases))
        for p in points
    ]
    longest = max(total for *_, total in rows)

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        y = draw_legend(canvas, legend, markers=False)
        tail = 8 + max(text_width(f"{number(t)} ms", at.font - 0.5) for *_, t in rows)
        span = at.width - tail
        for p, title, total in rows:
            y = canvas.lines(0, y + 8, title, width=at.width, size=at.font) + 10
            x = 0.0
            for column, name, *_ in phases:
                w = span * p.get(column) / longest
                draw_bar(canvas, x, y, max(w, 0.6), 14, legend[name])
                x += w
            canvas.text(x + 5, y + 7, f"{number(total)} ms", size=at.font - 0.5)
            y += 24
        return canvas.end(y + 2)

    def chart(ax: Any) -> None:
        named = []
        for p, title, _ in rows:
            bars, start = [], 0.0
            for column, name, *_ in phases:
                bars.append(Bar(legend[name], name, start + p.get(column), start))
                start += p.get(column)
            named.append((title, bars))
        horizontal_bars(ax, named, "time in ms", in_line=True)

    parts = [
        f"{title}: "
        + ", ".join(f"{name} {number(p.get(c))} ms" for c, name, *_ in phases)
        + f", together {number(total)} ms, of which the kernel is "
        f"{number(100 * p.get('ms') / total)} %"
        for p, title, total in rows
    ]
    legends, source = join(unique(p.legend for p in points)), source_of(m)
    alt = f"Time line of transfers and kernel. {'; '.join(parts)}. Source: {legends}."
    caption = "Copy in, compute, copy out; the number is the total"
    caption += "." if source else f", {legends}."
    return both(draw, alt, caption, chart, source)


# -- operations that overlap ----------------------------------------------------------------------

GANTT_KINDS: Mapping[str, Look] = {
    "host to device": Look(BLUE, "s", None),
    "kernel": Look(VERMILION, "s", None),
    "device to host": Look(GREEN, "s", "////"),
}
"""Bars that overlapped copies are made of, in the looks that `timeline` gives them."""


def _nice_step(longest: float, most: int = 6) -> float:
    """A step of 1, 2 or 5 times a power of ten with at most `most` steps up to longest."""
    power = 10.0 ** math.floor(math.log10(longest / most))
    return next(power * f for f in (1, 2, 5, 10) if power * f * most >= longest * 0.999)


def _covered(spans: Sequence[tuple[float, float]]) -> float:
    """Length of the union of intervals."""
    total, reached = 0.0, -math.inf
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _span_bar(canvas: Canvas, x: float, y: float, w: float, h: float, look: Look) -> None:
    """A pale bar with a firm outline, on which the page's ink can be read, light and dark."""
    canvas.rect(x, y, w, h, fill=look.colour, alpha=0.28, edge=look.colour, lw=0.9)
    if look.hatch and w >= 3:
        canvas.rect(x, y, w, 4, edge=look.colour, lw=0, hatch=look.hatch)


def gantt(
    rows: Sequence[Mapping[str, Any]], *, source: str = "", caption: str | None = None
) -> Figure:
    """Operations over time: a bar each from start_ms to end_ms in its lane, lanes stacked by group.

    All groups share one time axis. rows: dicts with group, lane, kind ("host to device", "kernel",
    "device to host"), label (drawn where it fits), start_ms and end_ms. source: where the times
    come from, in words. Raises DataError: there is no row, or a bar ends before it begins.
    """
    if not rows:
        raise DataError("no operation to draw: give rows with group, lane, kind, start_ms, end_ms")
    for operation in rows:
        if operation["kind"] not in GANTT_KINDS:
            raise DataError(f"kind={operation['kind']!r} is not one of {', '.join(GANTT_KINDS)}")
        if not 0 <= operation["start_ms"] <= operation["end_ms"] < math.inf:
            raise DataError(
                f"{operation['label']} of {operation['group']} runs from {operation['start_ms']} "
                f"to {operation['end_ms']} ms: a bar begins at 0 or later and ends after it begins"
            )
    longest = max(row["end_ms"] for row in rows)
    if longest <= 0:
        raise DataError("every operation takes 0 ms: there is nothing to draw")
    kinds = unique(row["kind"] for row in rows)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    totals = {name: max(row["end_ms"] for row in here) for name, here in groups.items()}

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small

        def patch(look: Look) -> Callable[[float, float], None]:
            return lambda x, y: _span_bar(canvas, x, y, 14, 11, look)

        y = canvas.legend([(n, patch(look)) for n, look in GANTT_KINDS.items() if n in kinds])
        # on a phone the lanes' names stand over their bars
        left = 2 if at.narrow else 8 + max(text_width(row["lane"], small) for row in rows)
        span = at.width - left - 8 - text_width(f"{number(longest)} ms", small)
        head, thick, gap = 24.0, 15.0, 4.0
        for group, here in groups.items():
            canvas.text(0, y + head / 2, group, size=at.font, weight="bold")
            y += head
            start_y = y
            end_x = left + span * totals[group] / longest
            for lane in unique(row["lane"] for row in here):
                y = canvas.row_name(left, y, thick, lane)
                for row in (row for row in here if row["lane"] == lane):
                    look = GANTT_KINDS[row["kind"]]
                    x = left + span * row["start_ms"] / longest
                    w = max(span * (row["end_ms"] - row["start_ms"]) / longest, 0.6)
                    _span_bar(canvas, x, y, w, thick, look)
                    canvas.fitted(x, y, w, thick, row["label"])
                y += thick + gap
            canvas.line(end_x, start_y - 3, end_x, y, dash=True, lw=1.0)
            words, middle = f"{number(totals[group])} ms", start_y + thick / 2
            canvas.text(end_x + 4, middle + 15 * at.narrow, words, size=small)
            canvas.line(left, start_y - 3, left, y, lw=0.8)
            y += 6
        canvas.line(left, y, left + span, y, lw=0.8)
        step = _nice_step(longest, 4 if at.narrow else 6)
        for i in range(int(longest / step + 1e-9) + 1):
            x = left + span * i * step / longest
            canvas.line(x, y, x, y + 4, lw=0.8)
            half = text_width(number(i * step), small) / 2
            canvas.text(max(x, half), y + 11, number(i * step), size=small, ha="center")
        words = "ms after the first operation began"
        middle = max(left + span / 2, text_width(words, small) / 2)
        canvas.text(middle, y + 25, words, size=small, ha="center")
        return canvas.end(y + 34)

    def chart(ax: Any) -> None:
        named: dict[str, list[Bar]] = {}
        for row in (row for here in groups.values() for row in here):
            bar = Bar(GANTT_KINDS[row["kind"]], row["kind"], row["end_ms"], row["start_ms"])
            named.setdefault(f"{row['group']}: {row['lane']}", []).append(bar)
        horizontal_bars(ax, list(named.items()), "ms after the first operation began", in_line=True)

    parts = []
    for group, here in groups.items():
        spans: dict[str, list[tuple[float, float]]] = {}
        for row in here:
            spans.setdefault(row["lane"], []).append((row["start_ms"], row["end_ms"]))
        spent = [
            f"{lane} busy for {number(_covered(own))} ms in {counted(len(own), 'piece')}"
            for lane, own in spans.items()
        ]
        parts.append(f"{group}: {number(totals[group])} ms in all, {', '.join(spent)}")
    words = source.strip().rstrip(".")
    alt = f"Time line of copies and kernels. {'; '.join(parts)}." + f" Source: {words}." * bool(
        words
    )
    if caption is None:
        caption = "What each engine of the GPU does over time; B is all of B, a number is a panel"
        caption += f"; {words}." if words else "."
    return both(draw, alt, caption, chart)
