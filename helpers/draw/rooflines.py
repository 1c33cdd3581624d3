"""The roofline: measured rates under the roofs of a GPU."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.draw.chart_marks import PREDICTED, draw_legend, draw_marker
from helpers.draw.figures import Figure, both
from helpers.draw.log_plane import Box, LogPlane, decades
from helpers.draw.on_axes import Mark, roofs_and_marks
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
from helpers.ladder import model
from helpers.ladder.kernel import ITEM_BYTES
from helpers.ladder.rungs import catalog
from helpers.record.trials import PRECISION
from helpers.wording import join, number, shape_text
from nogpu.device import GPUS, Gpu, LiveGpu, current, describe
from nogpu.device import gpu as find_gpu
from nogpu.errors import ConfigError


def _gpu_of(m: Any, gpu: str | Gpu | None, points: Sequence[Point]) -> Gpu:
    """Whose roofs are drawn: `gpu`, else the first GPU that has a point in the chart."""
    if isinstance(gpu, Gpu):
        return gpu
    if isinstance(gpu, str):
        return find_gpu(gpu)
    keys = unique(p.gpu for p in points if p.gpu)
    if keys and all(key in GPUS for key in keys):
        return GPUS[keys[0]]
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
    """Roofs of a GPU that is not in the table, from what its driver reports."""
    if live.known:
        return live.known
    if not (live.bandwidth_gbs and live.boost_mhz):
        raise ConfigError(
            f"the driver does not tell the clocks of {live.name}: pass gpu= with a key of "
            f"device.GPUS that is near it, one of {', '.join(GPUS)}"
        )
    facts = {n: getattr(live, n) for n in ("name", "arch", "sms", "memory_bytes", "l2_bytes")}
    rates = {"max_clock_mhz": live.boost_mhz, "bandwidth_gbs": live.bandwidth_gbs}
    return describe(live.name, {**facts, **rates})


def _intensity(p: Point, kind: str) -> float:
    """FLOP per byte of a point: its own, where a row gives it, else by model.py and the catalog."""
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


def _precision_of(points: Sequence[Point]) -> str:
    """ "fp16" or "bf16" where all points are of kernels that multiply in it, else "fp32"."""
    used = {PRECISION[catalog[p.kernel].dtype] if p.kernel in catalog else "" for p in points}
    return used.pop() if used in ({"fp16"}, {"bf16"}) else "fp32"


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _place_labels(
    points: Sequence[tuple[float, float, str]], frame: Box, taken: Sequence[Box],
    roof: Callable[[float], float], size: float,
) -> list[tuple[float, float, bool]]:  # fmt: skip
    """Where the words beside each (x, y, words) go: x, y, and whether they end there.

    As near as can be to their point, to its right if possible, inside the frame, off every marker
    and other label, and not across the roof, whose height is a function of x.
    """
    boxes, half = list(taken), size / 2 + 1.25
    places = []
    for x, y, words in points:
        width = text_width(words, size)
        best: tuple[float, Box, bool] | None = None
        for left in (False, True):
            for shift in range(-13, 14):
                middle = y + 2 * half * shift
                start = x - 14 - width if left else x + 14
                box = (start, middle - half, start + width, middle + half)
                cost = 12.0 * abs(shift) + (5 if left else 0) + (1 if shift < 0 else 0)
                top, low = box[1], box[3]
                outside = start < frame[0] or box[2] > frame[2] or top < frame[1] or low > frame[3]
                across = any(top - 2 < roof(start + width * i / 4) < low + 2 for i in range(5))
                cost += 2000 * outside + 300 * sum(_overlap(box, b) for b in boxes) + 40 * across
                if best is None or cost < best[0]:
                    best = (cost, box, left)
        assert best is not None
        _, box, left = best
        boxes.append(box)
        places.append((box[2] if left else box[0], box[1] + half, left))
    return places


@dataclass(frozen=True)
class _Roofs:
    """The roofs of a GPU on a plane: of its memory up to the ridge, of its arithmetic behind it."""

    plane: LogPlane
    peak: float
    slope: float

    @property
    def corners(self) -> tuple[float, float, float, float]:
        """In pixels: where the memory's roof begins, and the ridge."""
        plane = self.plane
        start = max(plane.xs[0], plane.ys[0] / self.slope)
        ridge = plane.x(self.peak / self.slope), plane.y(self.peak)
        return plane.x(start), plane.y(start * self.slope), *ridge

    @property
    def rise(self) -> float:
        """Of the memory's roof, pixels up for one to the right."""
        left, low, right, top = self.corners
        return (low - top) / (right - left)

    def draw(self, **style: Any) -> None:
        """Draw both as lines."""
        left, low, right, top = self.corners
        self.plane.canvas.line(left, low, right, top, **style)
        self.plane.canvas.line(right, top, self.plane.frame[2], top, **style)

    def y(self, x: float) -> float:
        """The height of the roofs at an x, both in pixels."""
        left, low, _, top = self.corners
        return max(top, low - (x - left) * self.rise)

    def memory_words(self, markers: Sequence[Box]) -> list[Box]:
        """Draw words along the memory's roof, farthest from every marker; what they cover."""
        size, words = self.plane.canvas.at.small, f"memory {number(self.slope)} GB/s"
        angle = math.atan(self.rise)
        reach, off = text_width(words, size) / 2 * math.cos(angle), 5.0 + size / 2

        def over(x: float, far: float) -> tuple[float, float]:
            return x - far * math.sin(angle), self.y(x) - far * math.cos(angle)

        def along(x: float) -> list[tuple[float, float]]:
            return [over(x + reach * i / 4, off) for i in range(-4, 5)]

        left, _, right, _ = self.corners
        first, last = left + reach + 12, right - reach
        middle = max(
            [first + max(last - first, 0) * i / 12 for i in range(13)],
            key=lambda x: min(
                (math.dist(at, (m[0] + 6, m[1] + 6)) for at in along(x) for m in markers),
                default=-abs(x - (first + last) / 2),
            ),
        )
        style: dict[str, Any] = {"ha": "center", "va": "baseline", "rotation": math.degrees(angle)}
        self.plane.canvas.text(*over(middle, 5), words, size=size, **style)
        return [(x - 6, y - 6, x + 6, y + 6) for x, y in along(middle)]


def roofline(
    m: Any = None, gpu: str | Gpu | None = None, *, intensity: str = "compulsory",
    precision: str | None = None, size: Size | None = None, kernels: Sequence[str] | None = None,
) -> Figure:  # fmt: skip
    """Measured rates under the roofs of a GPU, both axes logarithmic.

    Hollow diamonds are what the roof allows there; filled markers are times. Points that were
    recorded on another GPU of device.GPUS stand under that GPU's roofs, which are dashed. m: as for
    bars, or None for the roofs alone. gpu: whose roofs; default: of the first GPU that has a point
    in the chart. intensity: "compulsory", FLOP per byte of reading A and B and writing C once each;
    or "kernel", per byte that its tiling asks of L2 (model.arithmetic_intensity). precision: which
    compute roof ("fp32", "fp16", ...); default: the Tensor Cores' where every kernel drawn
    multiplies in FP16, or in BF16, and FP32 elsewhere. size, kernels: only these; default: the
    largest size.
    """
    if intensity not in ("compulsory", "kernel"):
        raise ConfigError(f'{intensity=} is not "compulsory" or "kernel"')
    drawn: list[Point] = []
    if m is not None:
        every = select(m, "gflops", kernels)
        at = chosen_size(every, size)
        drawn = [p for p in every if p.size == at]
    precision = precision or _precision_of(drawn)
    placed = [(p, _intensity(p, intensity)) for p in drawn]
    placed = [(p, x) for p, x in placed if math.isfinite(x) and x > 0]
    card = _gpu_of(m, gpu, [p for p, _ in placed])
    peak = card.peak_gflops(precision)
    if peak <= 0:
        raise ConfigError(
            f"the {precision.upper()} peak of {card.name} is not known: pass gpu= with a key of "
            f"device.GPUS that is near it, one of {', '.join(GPUS)}"
        )
    slope = card.bandwidth_gbs
    ridge = peak / slope
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
        canvas, small = Canvas(at), at.small
        top = 4.0
        if placed:
            top = draw_legend(canvas, {**entries, "allowed by the roof": PREDICTED}, True) + 4
        left = 58.0
        if at.narrow:  # the unit of the rate stands over its axis
            canvas.text(0, top + 4, "GFLOP/s", size=small)
            top += 16
            left = 8 + max(text_width(number(tick), small) for tick in decades(lo_y, hi_y))
        base = top + max(270.0, 130 + (small + 3.5) * len(placed))
        right = at.width - 8.0
        plane = LogPlane(canvas, (left, top, right, base), (lo_x, hi_x), (lo_y, hi_y))
        px, py = plane.x, plane.y
        plane.x_ticks()
        plane.y_ticks()
        plane.axes()
        words = "arithmetic intensity, FLOP/byte"
        canvas.text((left + right) / 2, base + 32, words, ha="center", size=small + 0.5)
        if not at.narrow:
            middle = (top + base) / 2
            canvas.text(6, middle, "GFLOP/s", rotation=90, ha="center", size=small + 0.5)
        roofs = _Roofs(plane, peak, slope)
        roofs.draw(lw=2.2)
        for other in others:
            high, wide = other.peak_gflops(precision), other.bandwidth_gbs
            _Roofs(plane, high, wide).draw(lw=1.2, dash=True)
            words = f"{other.name}: {number(high)} GFLOP/s, {number(wide)} GB/s"
            canvas.text(right, py(high) - 10, words, ha="right", size=small)
        peak_words = f"{precision.upper()} peak {number(peak)} GFLOP/s"
        canvas.text(right, py(peak) - 13, peak_words, ha="right", size=small)
        places = [(px(x), py(p.get("gflops")), py(roof_of(p, x)), p.kernel) for p, x in placed]
        markers = [(x - 6, z - 6, x + 6, z + 6) for x, y, roof, _ in places for z in (y, roof)]
        peak_box = (right - text_width(peak_words, small), py(peak) - 20, right, py(peak) - 7)
        taken = [*markers, *roofs.memory_words(markers), peak_box]
        points = [(x, y, name) for x, y, _, name in places]
        labels = _place_labels(points, plane.frame, taken, roofs.y, small)
        for (p, x), (label_x, label_y, ends) in zip(placed, labels, strict=True):
            rate = p.get("gflops")
            draw_marker(canvas, px(x), py(roof_of(p, x)), PREDICTED)
            canvas.line(px(x), py(rate), label_x + (2 if ends else -2), label_y, lw=0.7, alpha=0.6)
            draw_marker(canvas, px(x), py(rate), entries[p.legend])
            canvas.text(label_x, label_y, p.kernel, size=small, ha="right" if ends else "left")
        return canvas.end(base + 44)

    def chart(ax: Any) -> None:
        marks = [
            Mark(p.kernel, x, roof_of(p, x), PREDICTED, "allowed by the roof") for p, x in placed
        ]
        for p, x in placed:
            marks.append(Mark(p.kernel, x, p.get("gflops"), entries[p.legend], p.legend))
        roofs_and_marks(ax, (card, *others), precision, marks, (lo_x, hi_x))

    alt = (
        f"Roofline of {card.name}: the memory roof of {number(slope)} GB/s meets the "
        f"{precision.upper()} peak of {number(peak)} GFLOP/s at {number(ridge)} FLOP/byte. "
    )
    if placed:
        parts = []
        for p, x in placed:
            rate, bound = p.get("gflops"), roof_of(p, x)
            parts.append(
                f"{point_name(p, drawn)} at {number(x)} FLOP/byte: {number(rate)} of "
                f"{number(bound)} GFLOP/s, {number(100 * rate / bound)} %"
            )
        alt += f"At {shape_text(*placed[0][0].size)}: " + "; ".join(parts) + ". "
        alt += f"Source: {join(list(entries))}."
    source = source_of(m) if placed else ""
    kind = {
        "compulsory": "A, B and C moved once each",
        "kernel": "the bytes that each kernel's tiling asks for",
    }[intensity]
    caption = f"Roofline of {join([card.name, *(other.name for other in others)])}"
    if placed:
        caption += f" at {shape_text(*placed[0][0].size)}; intensity from {kind}" + (
            "" if source else f"; {join(list(entries))}"
        )
    caption += "."
    return both(draw, alt.strip(), caption, chart, source)
