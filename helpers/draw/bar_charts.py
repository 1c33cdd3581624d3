"""Bars of any column of a measurement, and the ladder: each rung's share of cuBLAS."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from helpers.draw.chart_marks import draw_bar, draw_legend
from helpers.draw.figures import Figure, both
from helpers.draw.on_axes import Bar, horizontal_bars
from helpers.draw.series import (
    Point,
    Size,
    chosen_size,
    looks,
    point_name,
    select,
    source_of,
    unique,
)
from helpers.draw.surface import Canvas, Column, text_width
from helpers.ladder.rungs import catalog
from helpers.wording import join, number, shape_text
from nogpu.errors import ConfigError, DataError

UNITS: Mapping[str, tuple[str, str, str]] = {
    "gflops": ("GFLOP/s", "rate in GFLOP/s", "longer is faster"),
    "ms": ("ms", "time in ms", "shorter is faster"),
    "cublas_ratio": (
        "% of cuBLAS",
        "rate in % of cuBLAS at the same precision",
        "longer is faster",
    ),
    "h2d_ms": ("ms", "copy from host to device in ms", "shorter is faster"),
    "d2h_ms": ("ms", "copy from device to host in ms", "shorter is faster"),
    "first_ms": ("ms", "first call in ms", "shorter is faster"),
    "clock_mhz": ("MHz", "SM clock under load in MHz", ""),
    "power_w": ("W", "power under load in W", ""),
}
"""Columns of a measurement: unit, what it is, and which way is better."""


def _unit(value: str) -> str:
    return UNITS[value][0] if value in UNITS else value.replace("_", " ")


def _shown(value: str, amount: float) -> float:
    return 100 * amount if value == "cublas_ratio" else amount


def _with_unit(value: str, amount: float) -> str:
    unit = _unit(value)
    return f"{number(_shown(value, amount))}{' ' if unit else ''}{unit}"


def _spread(p: Point, value: str) -> tuple[float, float] | None:
    """The inter-quartile range in the unit of `value`, from quartiles of the time in ms."""
    if value == "cublas_ratio":
        low, high = 100 * p.get("ratio_q1"), 100 * p.get("ratio_q3")
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None
    low, high = p.get("q1"), p.get("q3")
    if value not in ("ms", "gflops") or not (math.isfinite(low + high) and low > 0):
        return None
    work = 2 * p.m * p.n * p.k / 1e6
    return (low, high) if value == "ms" else (work / high, work / low)


def _summary(points: Sequence[Point], value: str) -> str:
    """The finding in words: largest and smallest at each size, then every value if there are few.

    Of each GPU alone: how far two GPUs are apart says nothing of the kernels.
    """
    parts = []
    sizes = unique(p.size for p in points)
    of_gpus = unique(p.gpu for p in points)
    shown = sizes if len(sizes) <= 4 else (sizes[0], sizes[-1])
    for size, gpu in itertools.product(shown, of_gpus):
        here = [p for p in points if p.size == size and p.gpu == gpu]
        if not here:
            continue
        top = max(here, key=lambda p: p.get(value))
        low = min(here, key=lambda p: p.get(value))
        where = f"At {shape_text(*size)}"
        if len(here) == 1:
            parts.append(f"{where}: {point_name(top, points)} {_with_unit(value, top.get(value))}.")
            continue
        ratio = top.get(value) / low.get(value) if low.get(value) > 0 else math.inf
        apart = f", a factor of {number(ratio)}" if math.isfinite(ratio) else ""
        parts.append(
            f"{where}: most for {point_name(top, points)} with "
            f"{_with_unit(value, top.get(value))}, least for {point_name(low, points)} with "
            f"{_with_unit(value, low.get(value))}{apart}."
        )
    if 2 < len(points) <= 24:
        places = [f" at {shape_text(*p.size)}" * (len(sizes) > 1) for p in points]
        values = [number(_shown(value, p.get(value))) for p in points]
        names = [point_name(p, points) for p in points]
        every = (f"{n}{place} {v}" for n, place, v in zip(names, places, values, strict=True))
        parts.append(f"All values: {'; '.join(every)}.")
    return " ".join(parts)


def bars(
    m: Any, *, value: str = "gflops", kernels: Sequence[str] | None = None,
    sizes: Sequence[Size] | None = None, log: bool = False, caption: str | None = None,
) -> Figure:  # fmt: skip
    """Horizontal bars of one column of a measurement, grouped by size, with values and spread.

    Whiskers are the inter-quartile range. m: what measure() returns, a DataFrame, rows as dicts
    (kernel, size or m, n, k, the value, optional q1 and q3 in ms, origin and source), or a list of
    these, drawn side by side. value: "gflops", "ms", "cublas_ratio" or another numeric column.
    kernels, sizes: only these. log: logarithmic length. Raises DataError: there is nothing to draw.
    """
    points = select(m, value, kernels, sizes)
    entries = looks(points)
    sized = unique(p.size for p in points)
    heads = len(sized) > 1
    names = unique(p.kernel for p in points)
    amounts = [_shown(value, p.get(value)) for p in points]
    spreads = [spread for p in points if (spread := _spread(p, value))]
    longest = max([*amounts, *(high for _, high in spreads)])
    if log and min(amounts) <= 0:
        raise ConfigError(f"log=True needs values above 0; the smallest is {min(amounts)}")
    floor = 10 ** math.floor(math.log10(min(amounts)) - 0.01) if log else 0.0
    rows = [
        (size, name, here)
        for size in sized
        for name in names
        if (here := [p for p in points if p.size == size and p.kernel == name])
    ]
    unit = _unit(value)
    _, words, better = UNITS.get(value, (unit, unit, ""))
    if value == "gflops" and any(n in catalog and catalog[n].dtype == "int32" for n in names):
        words += " (int32 kernels: billions of operations a second)"
    note = words + (", logarithmic" if log else "")

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        if at.narrow:  # names stand over their bars
            left = 1.0
        else:
            left = min(14 + max(text_width(name) for name in names), 190)
            if heads:  # the sizes stand left of the axis too, in bold
                left = max(left, 8 + 1.12 * max(text_width(shape_text(*size)) for size in sized))
        span = at.width - left - 12 - max(text_width(number(a), at.font) for a in amounts)

        def length(amount: float) -> float:
            if log:
                return span * math.log10(amount / floor) / math.log10(longest / floor)
            return span * amount / longest if longest > 0 else 0.0

        thick, gap, head = 13.0, 7.0, 24.0
        start = y = draw_legend(canvas, entries, markers=False) + 4
        last: tuple[int, int, int] | None = None
        for size, name, here in rows:
            if heads and size != last:
                if last is not None and not at.narrow:  # the axis stops where a heading stands
                    canvas.line(left, start, left, y - gap + 3, lw=0.8)
                canvas.text(0, y + head / 2, shape_text(*size), size=at.font, weight="bold")
                y += head
                start = y
            last = size
            if at.narrow:
                canvas.text(0, y + 6, name, size=at.font)
                y += 15
                start = y
            else:
                canvas.text(left - 7, y + thick * len(here) / 2, name, ha="right")
            for p in here:
                amount = _shown(value, p.get(value))
                end = left + length(amount)
                draw_bar(canvas, left, y + 1, max(end - left, 1), thick - 2, entries[p.legend])
                spread = _spread(p, value)
                if spread:
                    low, high = (left + length(max(s, floor or 0)) for s in spread)
                    if high - low > 1.5:
                        canvas.line(low, y + thick / 2, high, y + thick / 2, lw=1.2)
                        for x in (low, high):
                            canvas.line(x, y + 3, x, y + thick - 3, lw=1.2)
                        end = max(end, high)
                canvas.text(end + 5, y + thick / 2, number(amount), size=at.font - 0.5)
                y += thick
            if at.narrow:
                canvas.line(left, start - 1, left, y + 1, lw=0.8)
            y += gap
        if not at.narrow:
            canvas.line(left, start, left, y - gap + 3, lw=0.8)
        x = 0.0 if at.narrow else left
        below = note + (f"; {better}" if better else "")
        return canvas.end(canvas.lines(x, y + 8, below, width=at.width - x, size=at.small) + 12)

    def bar(p: Point) -> Bar:
        shown = _shown(value, p.get(value))
        return Bar(entries[p.legend], p.legend, shown, spread=_spread(p, value))

    def chart(ax: Any) -> None:
        titles = (f"{name}, {shape_text(*size)}" if heads else name for size, name, _ in rows)
        every = ([bar(p) for p in here] for *_, here in rows)
        horizontal_bars(ax, list(zip(titles, every, strict=True)), words, log=log)

    alt = f"Bar chart: {note}. {_summary(points, value)} Source: {join(list(entries))}."
    source = source_of(m)
    if caption is None:
        legends = "" if source else f", {join(list(entries))}"
        caption = f"{note[0].upper()}{note[1:]}{legends}."
        if spreads:
            caption += " Whiskers: inter-quartile range."
    return both(draw, alt, caption, chart, source)


_KINDS = ("fp32", "fp16", "bf16", "tf32")
_BASELINES = {f"cublas_{kind}": f"cuBLAS {kind.upper()}" for kind in _KINDS}


def ladder(m: Any, size: Size | None = None) -> Figure:
    """The ladder in one picture: each rung's share of cuBLAS at one size (default: the largest).

    Kernels with another baseline (FP16 Tensor Cores against cuBLAS FP16) form a group of their own.
    """
    every = select(m, "cublas_ratio")
    size = chosen_size(every, size)
    order = {name: i for i, name in enumerate(catalog)}
    points = [p for p in every if p.size == size and not p.kernel.startswith("cublas")]
    if not points:
        raise DataError(f"no kernel but cuBLAS itself was measured at {size}")
    points.sort(key=lambda p: order.get(p.kernel, len(order)))
    entries = looks(points)
    baselines = unique(p.baseline or "cublas_fp32" for p in points)
    names = unique(p.kernel for p in points)
    best = max(1.0, *(p.get("cublas_ratio") for p in points))

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        left, tail = 1.0, 2.0
        if not at.narrow:  # on a phone the words stand over the bars
            left = min(14 + max(text_width(name) for name in names), 170)
            tail = 14 + max(text_width(_ladder_text(p)) for p in points)
        span = at.width - left - tail
        full = left + span / best
        bar, over = 14.0, 17.0 if at.narrow else 0.0
        row = over + bar + 6
        y = draw_legend(canvas, entries, markers=False)
        for base in baselines:
            title = f"100 % = {_BASELINES.get(base, base)}"
            half = text_width(title, at.small) / 2
            canvas.text(min(full, at.width - half), y + 12, title, size=at.small, ha="center")
            y += 26
            here = [p for p in points if (p.baseline or "cublas_fp32") == base]
            if not at.narrow:
                canvas.line(full, y - 6, full, y + row * len(here) - 4, dash=True, lw=1.0)
                canvas.line(left, y - 6, left, y + row * len(here) - 4, lw=0.8)
            for name in unique(p.kernel for p in here):
                same = [p for p in here if p.kernel == name]
                if at.narrow:
                    canvas.text(0, y + 7, name, size=at.font)
                else:
                    canvas.text(left - 7, y + (row * len(same) - 5) / 2, name, ha="right")
                for p in same:
                    words, size_ = _ladder_text(p), at.font - 1
                    if at.narrow:
                        canvas.text(at.width, y + 7, words, size=size_, ha="right")
                        y += over
                        for x, dash in ((left, False), (full, True)):
                            canvas.line(x, y - 2, x, y + bar + 2, lw=0.8 + 0.4 * dash, dash=dash)
                    else:
                        canvas.text(left + span + 8, y + bar / 2, words, size=size_)
                    width = max(span * p.get("cublas_ratio") / best, 1.0)
                    draw_bar(canvas, left, y, width, bar, entries[p.legend])
                    y += row - over
        return canvas.end(y + 6)

    def chart(ax: Any) -> None:
        named: dict[str, list[Bar]] = {name: [] for name in names}
        for p in points:
            bar = Bar(entries[p.legend], p.legend, 100 * p.get("cublas_ratio"))
            named[p.kernel].append(bar)
        ax.axvline(100, linestyle="--", color="0.5")
        horizontal_bars(ax, list(named.items()), UNITS["cublas_ratio"][1])

    where = shape_text(*size)
    top = max(points, key=lambda p: p.get("cublas_ratio"))
    low = min(points, key=lambda p: p.get("cublas_ratio"))
    every_share = "; ".join(f"{point_name(p, points)} {_ladder_text(p)}" for p in points)
    legends, source = join(list(entries)), source_of(m)
    alt = (
        f"The ladder at {where}: share of cuBLAS for {len(names)} kernels. Lowest: "
        f"{point_name(low, points)}, {_ladder_text(low)}. Highest: {point_name(top, points)}, "
        f"{_ladder_text(top)}. {every_share}. Source: {legends}."
    )
    caption = f"Share of {join([_BASELINES.get(b, b) for b in baselines])} at {where}"
    caption += "." if source else f", {legends}."
    return both(draw, alt, caption, chart, source)


def _ladder_text(p: Point) -> str:
    rate = p.get("gflops")
    share = f"{number(100 * p.get('cublas_ratio'))} %"
    return share + (f" · {number(rate)} GFLOP/s" if math.isfinite(rate) else "")
