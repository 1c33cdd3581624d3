"""Charts of measurements: bars, the ladder, the roofline, the time line of a transfer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers import model
from helpers.device import GPUS, Gpu, LiveGpu, current
from helpers.device import gpu as find_gpu
from helpers.errors import ConfigError, DataError
from helpers.kernel import ITEM_BYTES
from helpers.plots._rows import Look, Point, looks, select, told, unique
from helpers.plots._svg import (
    BLUE,
    GREEN,
    INK,
    VERMILION,
    Canvas,
    Column,
    Figure,
    both,
    join,
    number,
    shape_text,
    text_width,
)
from helpers.rungs import catalog

Size = int | tuple[int, int, int]

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


def _integers(kernel: str) -> bool:
    return kernel in catalog and catalog[kernel].dtype == "int32"


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
    if not (math.isfinite(low) and math.isfinite(high) and low > 0):
        return None
    if value == "ms":
        return low, high
    if value == "gflops":
        work = 2 * p.m * p.n * p.k / 1e6
        return work / high, work / low
    return None


def _draw_legend(canvas: Canvas, entries: Mapping[str, Look], markers: bool) -> float:
    """Draw the legend; returns the y below it."""

    def patch(look: Look) -> Callable[[float, float], None]:
        if markers:
            return lambda x, y: _marker(canvas, x + 6, y + 5, look)
        return lambda x, y: _bar(canvas, x, y, 14, 10, look)

    return canvas.legend([(name, patch(look)) for name, look in entries.items()])


PREDICTED = Look("none", "D", None)
"""What the roof allows: a hollow diamond in the ink of the page."""


def _marker(canvas: Canvas, x: float, y: float, look: Look) -> None:
    hollow = look is PREDICTED
    canvas.axes.plot(
        [x], [y], look.marker, ms=6.5 if hollow else 7.5, mfc=look.colour, mec=INK,
        mew=1.2 if hollow else 0, clip_on=False,
    )  # fmt: skip


def _bar(canvas: Canvas, x: float, y: float, w: float, h: float, look: Look) -> None:
    if look.hatch:
        canvas.rect(x, y, w, h, fill=look.colour, alpha=0.28, edge=look.colour, hatch=look.hatch)
    else:
        canvas.rect(x, y, w, h, fill=look.colour, edge=None)


def _summary(found: Sequence[Point], value: str) -> str:
    """The finding in words: largest and smallest at each size, then every value if there are few."""
    parts = []
    sizes = unique(p.size for p in found)
    for size in sizes if len(sizes) <= 4 else (sizes[0], sizes[-1]):
        here = [p for p in found if p.size == size]
        top = max(here, key=lambda p: p.get(value))
        low = min(here, key=lambda p: p.get(value))
        where = f"At {shape_text(*size)}"
        if len(here) == 1:
            parts.append(f"{where}: {told(top, found)} {_with_unit(value, top.get(value))}.")
            continue
        ratio = top.get(value) / low.get(value) if low.get(value) > 0 else math.inf
        apart = f", a factor of {number(ratio)}" if math.isfinite(ratio) else ""
        parts.append(
            f"{where}: most for {told(top, found)} with {_with_unit(value, top.get(value))}, least "
            f"for {told(low, found)} with {_with_unit(value, low.get(value))}{apart}."
        )
    if 2 < len(found) <= 24:
        several = len(sizes) > 1
        parts.append(
            "All values: "
            + "; ".join(
                f"{told(p, found)}{f' at {shape_text(*p.size)}' if several else ''} "
                f"{number(_shown(value, p.get(value)))}"
                for p in found
            )
            + "."
        )
    return " ".join(parts)


def bars(
    m: Any,
    *,
    value: str = "gflops",
    kernels: Sequence[str] | None = None,
    sizes: Sequence[Size] | None = None,
    log: bool = False,
    caption: str | None = None,
) -> Figure:
    """Horizontal bars of one column of a measurement, grouped by size, with values and spread.

    m: what measure() returns, a DataFrame, a list of row dicts (kernel, size or m, n, k, the value,
    optional q1 and q3 in ms, origin and source), or a list of these, drawn side by side.
    value: "gflops", "ms", "cublas_ratio" or another numeric column. log: logarithmic length.
    Whiskers are the inter-quartile range. Raises DataError if there is nothing to draw.
    """
    found = select(m, value, kernels, sizes)
    entries = looks(found)
    sized = unique(p.size for p in found)
    heads = len(sized) > 1
    names = unique(p.kernel for p in found)
    amounts = [_shown(value, p.get(value)) for p in found]
    spreads = [spread for p in found if (spread := _spread(p, value))]
    longest = max([*amounts, *(high for _, high in spreads)])
    if log and min(amounts) <= 0:
        raise ConfigError(f"log=True needs values above 0; the smallest is {min(amounts)}")
    floor = 10 ** math.floor(math.log10(min(amounts)) - 0.01) if log else 0.0
    rows = [
        (size, name, here)
        for size in sized
        for name in names
        if (here := [p for p in found if p.size == size and p.kernel == name])
    ]
    unit = _unit(value)
    _, words, better = UNITS.get(value, (unit, unit, ""))
    if value == "gflops" and any(_integers(name) for name in names):
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
        start = y = _draw_legend(canvas, entries, markers=False) + 4
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
                _bar(canvas, left, y + 1, max(end - left, 1), thick - 2, entries[p.legend])
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

    alt = f"Bar chart: {note}. {_summary(found, value)} Source: {join(list(entries))}."
    if caption is None:
        caption = f"{note[0].upper()}{note[1:]}, {join(list(entries))}."
        if spreads:
            caption += " Whiskers: inter-quartile range."
    return both(draw, alt, caption)


def _largest(found: Sequence[Point], size: Size | None) -> tuple[int, int, int]:
    if size is not None:
        wanted = (size, size, size) if isinstance(size, int) else tuple(size)
        if all(p.size != wanted for p in found):
            have = sorted({p.size for p in found})
            raise DataError(f"no measurement at {size=}; there are {have}")
        return wanted  # type: ignore[return-value]
    return max((p.size for p in found), key=lambda s: s[0] * s[1] * s[2])


_BASELINES = {
    "cublas_fp32": "cuBLAS FP32",
    "cublas_fp16": "cuBLAS FP16",
    "cublas_bf16": "cuBLAS BF16",
    "cublas_tf32": "cuBLAS TF32",
}


def ladder(m: Any, size: Size | None = None, *, caption: str | None = None) -> Figure:
    """The ladder in one picture: each rung's share of cuBLAS at one size (default: the largest).

    Kernels with another baseline (FP16 Tensor Cores against cuBLAS FP16) form a group of their own.
    """
    every = select(m, "cublas_ratio")
    size = _largest(every, size)
    order = {name: i for i, name in enumerate(catalog)}
    found = [p for p in every if p.size == size and not p.kernel.startswith("cublas")]
    if not found:
        raise DataError(f"no kernel but cuBLAS itself was measured at {size}")
    found.sort(key=lambda p: order.get(p.kernel, len(order)))
    entries = looks(found)
    baselines = unique(p.baseline or "cublas_fp32" for p in found)
    names = unique(p.kernel for p in found)
    best = max(1.0, *(p.get("cublas_ratio") for p in found))

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        left, tail = 1.0, 2.0
        if not at.narrow:  # on a phone the words stand over the bars
            left = min(14 + max(text_width(name) for name in names), 170)
            tail = 14 + max(text_width(_ladder_text(p)) for p in found)
        span = at.width - left - tail
        full = left + span / best
        bar, over = 14.0, 17.0 if at.narrow else 0.0
        row = over + bar + 6
        y = _draw_legend(canvas, entries, markers=False)
        for base in baselines:
            title = f"100 % = {_BASELINES.get(base, base)}"
            half = text_width(title, at.small) / 2
            canvas.text(min(full, at.width - half), y + 12, title, size=at.small, ha="center")
            y += 26
            here = [p for p in found if (p.baseline or "cublas_fp32") == base]
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
                    _bar(canvas, left, y, width, bar, entries[p.legend])
                    y += row - over
        return canvas.end(y + 6)

    where = shape_text(*size)
    top = max(found, key=lambda p: p.get("cublas_ratio"))
    low = min(found, key=lambda p: p.get("cublas_ratio"))
    alt = (
        f"The ladder at {where}: share of cuBLAS for {len(names)} kernels. Lowest: "
        f"{told(low, found)}, {_ladder_text(low)}. Highest: {told(top, found)}, {_ladder_text(top)}. "
        + "; ".join(f"{told(p, found)} {_ladder_text(p)}" for p in found)
        + f". Source: {join(list(entries))}."
    )
    if caption is None:
        caption = (
            f"Share of {join([_BASELINES.get(b, b) for b in baselines])} at {where}, "
            f"{join(list(entries))}."
        )
    return both(draw, alt, caption)


def _ladder_text(p: Point) -> str:
    rate = p.get("gflops")
    share = f"{number(100 * p.get('cublas_ratio'))} %"
    return share + (f" · {number(rate)} GFLOP/s" if math.isfinite(rate) else "")


# -- roofline ------------------------------------------------------------------------------------


def _gpu_of(m: Any, gpu: str | Gpu | None) -> Gpu:
    if isinstance(gpu, Gpu):
        return gpu
    if isinstance(gpu, str):
        return find_gpu(gpu)
    for part in m if isinstance(m, (list, tuple)) else [m]:
        key = str(getattr(part, "key", ""))
        if key in GPUS:
            return GPUS[key]
        live = current() if getattr(part, "live", False) else None
        if live is not None:
            return _specification(live)
    raise ConfigError(
        "roofline() needs to know the GPU: pass gpu= with a key of device.GPUS, one of "
        + ", ".join(GPUS)
    )


def _specification(live: LiveGpu) -> Gpu:
    """Roofs of a GPU that is not in the table, from what its driver reports.

    FP32 lanes of an SM by compute capability: 64 on 7.x and 8.0, 128 since 8.6 (CUDA C++
    Programming Guide, arithmetic instructions). Bandwidth: bus width times twice the memory clock.
    """
    if live.known:
        return live.known
    bandwidth = live.memory_bus_bits / 8 * 2 * live.memory_clock_mhz / 1e3
    if not (bandwidth and live.boost_mhz):
        raise ConfigError(
            f"the driver does not tell the clocks of {live.name}: pass gpu= with a key of "
            f"device.GPUS that is near it, one of {', '.join(GPUS)}"
        )
    lanes = 64 if live.arch in ("sm_70", "sm_72", "sm_75", "sm_80") else 128
    return Gpu(
        live.name, live.name, live.arch, live.sms, live.boost_mhz, lanes, 0, bandwidth,
        live.l2_bytes, live.memory_bytes, 0, "what the driver reports",
    )  # fmt: skip


def _decades(low: float, high: float) -> list[float]:
    return [10.0**e for e in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


def _intensity(p: Point, kind: str) -> float:
    """FLOP per byte of a point: its own where a row gives it, else from model.py and the catalog."""
    if kind == "kernel" and math.isfinite(p.get("intensity")):
        return p.get("intensity")
    if p.kernel not in catalog:
        if kind == "kernel":
            return math.nan
        half = p.kernel.endswith(("fp16", "bf16"))
        return model.compulsory_intensity(p.m, p.n, p.k, 2 if half else 4, 4)
    kernel = catalog[p.kernel]
    if kind == "kernel":
        return model.arithmetic_intensity(kernel, p.m, p.n, p.k)
    return model.compulsory_intensity(
        p.m, p.n, p.k, ITEM_BYTES[kernel.dtype], ITEM_BYTES[kernel.out_dtype]
    )


Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _place_labels(
    points: Sequence[tuple[float, float, str]],
    frame: Box,
    taken: Sequence[Box],
    roof: Callable[[float], float],
    size: float,
) -> list[tuple[float, float, bool]]:
    """Where the words beside each (x, y, words) go: x, y, and whether they end there.

    As near as can be to their point, to its right if possible, inside the frame, off every marker
    and other label, and not across the roof, whose height is a function of x.
    """
    boxes, half = list(taken), size / 2 + 1.25
    found = []
    for x, y, words in points:
        width = text_width(words, size)
        best: tuple[float, Box, bool] | None = None
        for left in (False, True):
            for shift in range(-13, 14):
                middle = y + 2 * half * shift
                start = x - 14 - width if left else x + 14
                box = (start, middle - half, start + width, middle + half)
                cost = 12.0 * abs(shift) + (5 if left else 0) + (1 if shift < 0 else 0)
                outside = (
                    box[0] < frame[0] or box[2] > frame[2] or box[1] < frame[1] or box[3] > frame[3]
                )
                cost += 2000 * outside + 300 * sum(_overlap(box, other) for other in boxes)
                cost += 40 * any(
                    box[1] - 2 < roof(box[0] + width * i / 4) < box[3] + 2 for i in range(5)
                )
                if best is None or cost < best[0]:
                    best = (cost, box, left)
        assert best is not None
        _, box, left = best
        boxes.append(box)
        found.append((box[2] if left else box[0], box[1] + half, left))
    return found


def roofline(
    m: Any = None,
    gpu: str | Gpu | None = None,
    *,
    intensity: str = "compulsory",
    precision: str = "fp32",
    size: Size | None = None,
    kernels: Sequence[str] | None = None,
    caption: str | None = None,
) -> Figure:
    """Measured rates under the roofs of a GPU, both axes logarithmic.

    intensity: "compulsory" puts a kernel at the FLOP per byte of reading A and B and writing C once
    each; "kernel" at the FLOP per byte that its tiling asks of L2 (model.arithmetic_intensity).
    precision: which compute roof ("fp32", "fp16", ...). m: as for bars, or None for the roofs alone.
    Hollow diamonds are what the roof allows there; filled markers are times. Points that were recorded
    on another GPU of device.GPUS stand under that GPU's roofs, which are dashed.
    """
    if intensity not in ("compulsory", "kernel"):
        raise ConfigError(f'{intensity=} is not "compulsory" or "kernel"')
    card = _gpu_of(m, gpu)
    peak = card.peak_gflops(precision)
    slope = card.bandwidth_gbs
    ridge = peak / slope
    found: list[Point] = []
    if m is not None:
        every = select(m, "gflops", kernels)
        largest = _largest(every, size)
        found = [p for p in every if p.size == largest]
    placed = [(p, _intensity(p, intensity)) for p in found]
    placed = [(p, x) for p, x in placed if math.isfinite(x) and x > 0]
    entries = looks([p for p, _ in placed])
    placed.sort(key=lambda item: -item[0].get("gflops"))
    others = unique(
        GPUS[p.gpu] for p, _ in placed if p.gpu in GPUS and not gpu and GPUS[p.gpu] != card
    )

    def roof_of(p: Point, x: float) -> float:
        """GFLOP/s that the roofs of the point's own GPU allow at x FLOP per byte."""
        own = GPUS[p.gpu] if p.gpu in GPUS and not gpu else card
        return min(own.peak_gflops(precision), x * own.bandwidth_gbs)

    xs = [x for _, x in placed]
    lo_x = min([ridge / 30, *(x / 5 for x in xs)])
    hi_x = max([ridge * 30, *(x * 12 for x in xs)])
    ys = [p.get("gflops") for p, _ in placed]
    lo_y = min([lo_x * slope, *(y / 2 for y in ys)])
    lo_y = max(lo_y, min([peak / 3000, *(y / 2 for y in ys)]))
    hi_y = 2.2 * max([peak, *(other.peak_gflops(precision) for other in others)])

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        small = at.small
        top = 4.0
        if placed:
            top = _draw_legend(canvas, {**entries, "allowed by the roof": PREDICTED}, True) + 4
        ticks = [(tick, number(tick)) for tick in _decades(lo_y, hi_y)]
        left = 58.0
        if at.narrow:  # the unit of the rate stands over its axis
            canvas.text(0, top + 4, "GFLOP/s", size=small)
            top += 16
            left = 8 + max(text_width(words, small) for _, words in ticks)
        base = top + max(270.0, 130 + (small + 3.5) * len(placed))
        right = at.width - 8.0

        def px(x: float) -> float:
            return left + (right - left) * math.log(x / lo_x) / math.log(hi_x / lo_x)

        def py(y: float) -> float:
            return base - (base - top) * math.log(y / lo_y) / math.log(hi_y / lo_y)

        free = 0.0
        for tick in _decades(lo_x, hi_x):
            canvas.line(px(tick), base, px(tick), top, alpha=0.14, lw=0.8)
            words = number(tick)
            half = text_width(words, small) / 2
            middle = min(px(tick), at.width - half)  # inside the picture
            if middle - half > free:
                canvas.text(middle, base + 5, words, size=small, ha="center", va="top")
                free = middle + half + 3
        for tick, words in ticks:
            canvas.line(left, py(tick), right, py(tick), alpha=0.14, lw=0.8)
            canvas.text(left - 5, py(tick), words, size=small, ha="right")
        canvas.line(left, base, right, base, lw=0.8)
        canvas.line(left, base, left, top, lw=0.8)
        words = "arithmetic intensity, FLOP/byte"
        canvas.text((left + right) / 2, base + 32, words, ha="center", size=small + 0.5)
        if not at.narrow:
            middle = (top + base) / 2
            canvas.text(6, middle, "GFLOP/s", rotation=90, ha="center", size=small + 0.5)

        start = max(lo_x, lo_y / slope)
        canvas.line(px(start), py(start * slope), px(ridge), py(peak), lw=2.2)
        canvas.line(px(ridge), py(peak), right, py(peak), lw=2.2)
        for other in others:
            high, wide = other.peak_gflops(precision), other.bandwidth_gbs
            begin, bend = max(lo_x, lo_y / wide), high / wide
            canvas.line(px(begin), py(begin * wide), px(bend), py(high), lw=1.2, dash=True)
            canvas.line(px(bend), py(high), right, py(high), lw=1.2, dash=True)
            words = f"{other.name}: {number(high)} GFLOP/s, {number(wide)} GB/s"
            canvas.text(right, py(high) - 10, words, ha="right", size=small)
        rise = (py(start * slope) - py(peak)) / (px(ridge) - px(start))
        peak_words = f"{precision.upper()} peak {number(peak)} GFLOP/s"
        canvas.text(right, py(peak) - 13, peak_words, ha="right", size=small)
        places = [(px(x), py(p.get("gflops")), py(roof_of(p, x)), p.kernel) for p, x in placed]
        markers = [(x - 6, z - 6, x + 6, z + 6) for x, y, roof, _ in places for z in (y, roof)]
        # the memory roof's words stand along it where they are farthest from every marker
        words = f"memory {number(slope)} GB/s"
        angle = math.atan(rise)
        half = text_width(words, small) / 2
        reach, off = half * math.cos(angle), 5.0 + small / 2

        def along(x: float) -> list[tuple[float, float]]:
            spread = [x + reach * i / 4 for i in range(-4, 5)]
            return [(u - off * math.sin(angle), roof_at(u) - off * math.cos(angle)) for u in spread]

        def roof_at(x: float) -> float:
            return max(py(peak), py(start * slope) - (x - px(start)) * rise)

        first, last = px(start) + reach + 12, px(ridge) - reach
        middle = max(
            [first + max(last - first, 0) * i / 12 for i in range(13)],
            key=lambda x: min(
                (math.dist(at, (m[0] + 6, m[1] + 6)) for at in along(x) for m in markers),
                default=-abs(x - (first + last) / 2),
            ),
        )
        canvas.text(
            middle - 5 * math.sin(angle), roof_at(middle) - 5 * math.cos(angle), words, size=small,
            ha="center", va="baseline", rotation=math.degrees(angle),
        )  # fmt: skip
        label_boxes = [(x - 6, y - 6, x + 6, y + 6) for x, y in along(middle)]
        peak_box = (right - text_width(peak_words, small), py(peak) - 20, right, py(peak) - 7)
        labels = _place_labels(
            [(x, y, name) for x, y, _, name in places],
            (left, top, right, base),
            [*markers, *label_boxes, peak_box],
            roof_at,
            small,
        )
        for (p, x), (label_x, label_y, ends) in zip(placed, labels, strict=True):
            rate = p.get("gflops")
            _marker(canvas, px(x), py(roof_of(p, x)), PREDICTED)
            canvas.line(px(x), py(rate), label_x + (2 if ends else -2), label_y, lw=0.7, alpha=0.6)
            _marker(canvas, px(x), py(rate), entries[p.legend])
            canvas.text(label_x, label_y, p.kernel, size=small, ha="right" if ends else "left")
        return canvas.end(base + 44)

    alt = (
        f"Roofline of {card.name}: the memory roof of {number(slope)} GB/s meets the "
        f"{precision.upper()} peak of {number(peak)} GFLOP/s at {number(ridge)} FLOP/byte. "
    )
    if placed:
        parts = []
        for p, x in placed:
            rate, bound = p.get("gflops"), roof_of(p, x)
            parts.append(
                f"{told(p, found)} at {number(x)} FLOP/byte: {number(rate)} of {number(bound)} GFLOP/s, "
                f"{number(100 * rate / bound)} %"
            )
        alt += f"At {shape_text(*placed[0][0].size)}: " + "; ".join(parts) + ". "
        alt += f"Source: {join(list(entries))}."
    if caption is None:
        kind = {
            "compulsory": "A, B and C moved once each",
            "kernel": "the bytes that each kernel's tiling asks for",
        }[intensity]
        caption = f"Roofline of {join([card.name, *(other.name for other in others)])}"
        if placed:
            caption += (
                f" at {shape_text(*placed[0][0].size)}; intensity from {kind}; "
                f"{join(list(entries))}"
            )
        caption += "."
    return both(draw, alt.strip(), caption)


# -- transfers -----------------------------------------------------------------------------------


def timeline(
    m: Any,
    *,
    kernels: Sequence[str] | None = None,
    sizes: Sequence[Size] | None = None,
    caption: str | None = None,
) -> Figure:
    """Host-to-device copy, kernel and device-to-host copy, end to end, one bar a row.

    Needs the columns h2d_ms, ms and d2h_ms. Each bar is drawn to the scale of the longest total.
    """
    found = [
        p
        for p in select(m, "ms", kernels, sizes)
        if math.isfinite(p.get("h2d_ms")) and math.isfinite(p.get("d2h_ms"))
    ]
    if not found:
        raise DataError("no row has h2d_ms, ms and d2h_ms: transfers were not recorded for it")
    phases = (
        ("h2d_ms", "host to device", BLUE, None),
        ("ms", "kernel", VERMILION, None),
        ("d2h_ms", "device to host", GREEN, "////"),
    )
    legend = {name: Look(colour, "s", hatch) for _, name, colour, hatch in phases}
    rows = [
        (p, f"{told(p, found)}, {shape_text(*p.size)}", sum(p.get(c) for c, *_ in phases))
        for p in found
    ]
    longest = max(total for *_, total in rows)

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        y = _draw_legend(canvas, legend, markers=False)
        tail = 8 + max(text_width(f"{number(t)} ms", at.font - 0.5) for *_, t in rows)
        span = at.width - tail
        for p, title, total in rows:
            y = canvas.lines(0, y + 8, title, width=at.width, size=at.font) + 10
            x = 0.0
            for column, name, *_ in phases:
                w = span * p.get(column) / longest
                _bar(canvas, x, y, max(w, 0.6), 14, legend[name])
                x += w
            canvas.text(x + 5, y + 7, f"{number(total)} ms", size=at.font - 0.5)
            y += 24
        return canvas.end(y + 2)

    said = [
        f"{title}: "
        + ", ".join(f"{name} {number(p.get(c))} ms" for c, name, *_ in phases)
        + f", together {number(total)} ms, of which the kernel is {number(100 * p.get('ms') / total)} %"
        for p, title, total in rows
    ]
    source = join(unique(p.legend for p in found))
    alt = f"Time line of transfers and kernel. {'; '.join(said)}. Source: {source}."
    if caption is None:
        caption = f"Copy in, compute, copy out; the number is the total, {source}."
    return both(draw, alt, caption)


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


def _pieces(count: int) -> str:
    return f"{count} piece{'s' * (count != 1)}"


def gantt(
    rows: Sequence[Mapping[str, Any]], *, source: str = "", caption: str | None = None
) -> Figure:
    """Operations over time: a bar each from start_ms to end_ms in its lane, lanes stacked by group.

    rows: dicts with group, lane, kind ("host to device", "kernel", "device to host"), label (drawn
    where it fits), start_ms and end_ms. All groups share one time axis. source: where the times come
    from, in words. Raises DataError if there is no row or a bar ends before it begins.
    """
    if not rows:
        raise DataError("no operation to draw: give rows with group, lane, kind, start_ms, end_ms")
    for given in rows:
        if given["kind"] not in GANTT_KINDS:
            raise DataError(f"kind={given['kind']!r} is not one of {', '.join(GANTT_KINDS)}")
        if not 0 <= given["start_ms"] <= given["end_ms"] < math.inf:
            raise DataError(
                f"{given['label']} of {given['group']} runs from {given['start_ms']} to "
                f"{given['end_ms']} ms: a bar begins at 0 or later and ends after it begins"
            )
    longest = max(row["end_ms"] for row in rows)
    if longest <= 0:
        raise DataError("every operation takes 0 ms: there is nothing to draw")
    kinds = unique(row["kind"] for row in rows)
    groups = {
        name: [row for row in rows if row["group"] == name]
        for name in unique(row["group"] for row in rows)
    }
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
                if at.narrow:
                    canvas.text(left + 3, y + 6, lane, size=small)
                    y += 15
                else:
                    canvas.text(left - 6, y + thick / 2, lane, size=small, ha="right")
                for row in (row for row in here if row["lane"] == lane):
                    look = GANTT_KINDS[row["kind"]]
                    x = left + span * row["start_ms"] / longest
                    w = max(span * (row["end_ms"] - row["start_ms"]) / longest, 0.6)
                    _span_bar(canvas, x, y, w, thick, look)
                    if w >= text_width(row["label"], small) + 3:
                        canvas.text(x + w / 2, y + thick / 2, row["label"], size=small, ha="center")
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

    told = []
    for group, here in groups.items():
        spent = []
        for lane in unique(row["lane"] for row in here):
            spans = [(row["start_ms"], row["end_ms"]) for row in here if row["lane"] == lane]
            spent.append(f"{lane} busy for {number(_covered(spans))} ms in {_pieces(len(spans))}")
        told.append(f"{group}: {number(totals[group])} ms in all, {', '.join(spent)}")
    words = source.strip().rstrip(".")
    alt = f"Time line of copies and kernels. {'; '.join(told)}." + (
        f" Source: {words}." if words else ""
    )
    if caption is None:
        caption = "What each engine of the GPU does over time; B is all of B, a number is a panel"
        caption += f"; {words}." if words else "."
    return both(draw, alt, caption)
