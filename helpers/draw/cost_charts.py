"""The cost model in pictures: what each resource alone would take, and a roofline of all roofs."""

import math
from collections.abc import Sequence

from helpers.colours import BLUE, GREEN, PURPLE, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.log_plane import LogPlane, decades
from helpers.draw.surface import INK, Canvas, Column, Mark, draw_key, text_width
from helpers.ladder.model import L1_LINE
from helpers.record import costs
from helpers.record.costs import Bounds
from helpers.wording import join, number, shape_text
from nogpu.device import Gpu
from nogpu.errors import ConfigError

BINDS, OTHER, MEASURED = BLUE, INK, VERMILION
WAITING = Mark("waiting on top (predicted)", BINDS, 0.28, BINDS, "////")
APART = Mark("L2, if no two SMs ask together", OTHER, 0.1, OTHER)


def _milliseconds(ms: float) -> str:
    return f"{number(ms)} ms"


def scorecard(of: Bounds | Sequence[Bounds]) -> Figure:
    """What each resource alone would take, as bars in ms: the longest is the bound, and is marked.

    of: what `costs.bounds` gives, or several of them, one panel each. The measured time stands as a
    line across the bars where it is known; the gap to the longest bar is what the bound does not
    explain. Where nothing is measured the picture says that it is a prediction. Raises ConfigError
    for none.
    """
    every = [of] if isinstance(of, Bounds) else list(of)
    if not every or not all(isinstance(b, Bounds) for b in every):
        raise ConfigError(
            "scorecard() takes what costs.bounds(...) returns, or several of them; it was given "
            f"{of!r}"
        )

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        marks = [Mark("binds", BINDS, edge=None), Mark("other resources", OTHER, 0.28, edge=None)]
        if any(_waits(b) for b in every):
            marks.append(WAITING)
        if any(_apart(b) for b in every):
            marks.append(APART)
        if any(b.measured for b in every):
            marks.append(Mark("measured", MEASURED, edge=None))
        y = draw_key(canvas, marks) + 2
        for b in every:
            y = _panel(canvas, at, b, y)
        return canvas.end(y)

    alt = " ".join(_in_words(b) for b in every)
    return both(draw, alt, _caption(every))


def _panel(canvas: Canvas, at: Column, b: Bounds, y: float) -> float:
    """One kernel's bars from y down; returns the y below them."""
    rows = [(x.resource, x.ms, BINDS if x.resource == b.binding else OTHER) for x in b.values()]
    if b.measured:
        rows.append(("measured", b.measured, MEASURED))
    bold = {b.binding, "measured"}
    weights = {name: "bold" if name in bold else "normal" for name, *_ in rows}
    left = 1.0 if at.narrow else 12 + max(text_width(n, at.font, weights[n]) for n, *_ in rows)
    shown = [_milliseconds(ms) for _, ms, _ in rows]
    if _apart(b):
        shown.append(f"{number(b[costs.L2].ms)} to {_milliseconds(_apart(b))}")
    tail = 10 + max(text_width(words, at.font, "bold") for words in shown)
    span = at.width - left - tail
    longest = max(b.predicted, _apart(b), *(ms for _, ms, _ in rows))
    y = canvas.lines(0, y + 9, _head(b), width=at.width, size=at.font, weight="bold") + 13
    start, thick, over = y, 12.0, 17.0 if at.narrow else 3.0
    for name, ms, colour in rows:
        weight = weights[name]
        if at.narrow:
            words = name + (" (binds)" if name == b.binding else "")
            canvas.text(0, y + 8, words, size=at.font, weight=weight)
        else:
            canvas.text(left - 7, y + over + thick / 2, name, ha="right", weight=weight)
        top = y + over
        end, alpha = left + span * ms / longest, 0.28 if colour == OTHER else 1.0
        canvas.rect(
            left, top, max(span * ms / longest, 1.0), thick, fill=colour, alpha=alpha, edge=None
        )
        if name == costs.L2 and _apart(b):
            canvas.marked(end, top, span * (_apart(b) - ms) / longest, thick, APART)
        if colour == BINDS and _waits(b):
            canvas.marked(end, top, span * _waits(b) / longest, thick, WAITING)
        words = _milliseconds(ms)
        if name == costs.L2 and _apart(b):
            words = f"{number(ms)} to {_milliseconds(_apart(b))}"
        canvas.text(at.width, top + thick / 2, words, size=at.font, ha="right", weight=weight)
        if at.narrow:
            canvas.line(left, top - 2, left, top + thick + 2, lw=0.8)
        y = top + thick + 3
    if not at.narrow:
        canvas.line(left, start, left, y, lw=0.8)
    if b.measured:
        x = left + span * b.measured / longest
        canvas.line(x, start, x, y - thick - 3, colour=MEASURED, lw=1.2, dash=True)
        words = f"the bound is {_percent(b)} of the measured time"
    else:
        words = "a prediction; nobody measured it there"
    canvas.text(at.width, y + 9, words, size=at.small, ha="right")
    return y + 26


def _waits(b: Bounds) -> float:
    """What waiting adds to the bound in ms, where it can be seen."""
    added = b.predicted - b.ms
    return added if added > 0.01 * b.ms else 0.0


def _apart(b: Bounds) -> float:
    """L2's time in ms if no two SMs ask for the same bytes together, where that could decide."""
    longest = b[costs.L2].apart if costs.L2 in b else None
    return longest if longest is not None and longest > 0.5 * b.ms else 0.0


def _head(b: Bounds) -> str:
    return f"{b.kernel}, {shape_text(*b.size)}, {b.gpu.name}"


def _percent(b: Bounds) -> str:
    return f"{100 * (b.share or 0.0):.0f} %"


def _in_words(b: Bounds) -> str:
    parts = "; ".join(f"{x.resource} {_milliseconds(x.ms)}" for x in b.values())
    end = "Nothing is measured there: a prediction."
    if b.measured:
        end = f"Measured: {_milliseconds(b.measured)}, the bound is {_percent(b)} of it."
    waits = f" Waiting adds {_milliseconds(_waits(b))}, predicted." if _waits(b) else ""
    most = f" L2 takes up to {_milliseconds(_apart(b))} if no two SMs ask together."
    apart = most if _apart(b) else ""
    return (
        f"What each resource alone would take for {_head(b)}: {parts}. The longest is {b.binding}: "
        f"it binds.{waits}{apart} {end}"
    )


def _caption(every: Sequence[Bounds]) -> str:
    """What the bars are, and whose the measured times are."""
    records = list(dict.fromkeys(b.whose for b in every if b.measured))
    words = "What each resource alone would take, at the boost clock: counts over rates."
    if any(_waits(b) for b in every):
        words += " Hatched: what a block waits for loads while no other block covers it."
    if any(_apart(b) for b in every):
        words += " Pale: L2, from where all SMs ask for the same bytes together to where none do."
    if records:
        words += f" Measured: {'; '.join(records)}."
    predicted = list(dict.fromkeys(b.gpu.name for b in every if not b.measured))
    if predicted:
        words += f" Predicted, not measured: {join(predicted)}."
    return words


LEVELS = (
    (costs.DRAM, "DRAM", GREEN, "o"),
    (costs.L2, "L2", PURPLE, "s"),
    (costs.L1, "L1 and shared memory", BLUE, "^"),
)
"""Resource, its words, colour and marker in `all_roofs`."""


def all_roofs(
    names: Sequence[str | Bounds], size: int | tuple[int, int, int] = 4096, *,
    gpu: str | Gpu | None = None,
) -> Figure:  # fmt: skip
    """One roofline with all its roofs: DRAM, L2, L1 and shared memory, and the units that multiply.

    Each kernel is a row of three markers at its rate (measured; predicted where nobody measured
    it): its FLOP for each byte *at that level*. The level that binds is filled; where none is,
    issue slots or the units bind, and the name says so. names: kernels of the catalog, or Bounds.
    Kernels of one precision only. Raises ConfigError for none, or for kernels of two precisions,
    and what `costs.bounds` raises.
    """
    shape = (size, size, size) if isinstance(size, int) else size
    every = [n if isinstance(n, Bounds) else costs.bounds(n, *shape, gpu=gpu) for n in names]
    if not every or len({b.pipe for b in every}) > 1:
        raise ConfigError(
            f"{names=}: all_roofs() draws kernels of one precision under one roof; give at least "
            "one, and FP32 and Tensor Core kernels apart"
        )
    levels = [level for level in LEVELS if all(level[0] in b for b in every)]
    card, pipe = every[0].gpu, every[0].pipe
    peak = 2 * every[0][pipe].per_ms / 1e6
    slopes = {
        name: every[0][name].per_ms / 1e6 * (L1_LINE if name == costs.L1 else 1)
        for name, *_ in levels
    }
    every = sorted(every, key=_rate, reverse=True)
    places = [  # a wavefront of L1 delivers up to 128 bytes
        (b, name, b.flop / b[name].count / (L1_LINE if name == costs.L1 else 1))
        for b in every
        for name, *_ in levels
    ]
    lo_x = min(x for *_, x in places) / 2.5
    hi_x = max(max(x for *_, x in places), peak / slopes[costs.DRAM]) * 2
    lo_y, hi_y = min(_rate(b) for b in every) / 2.5, peak * 1.8

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        small = at.small
        y = draw_key(canvas, [Mark(words, colour, edge=None) for _, words, colour, _ in levels])
        labels = [_label(b) for b in every]
        right = at.width - 10 - max(text_width(words, small) for words in labels)
        left = 8 + max(text_width(number(t), small) for t in decades(lo_y, hi_y))
        canvas.text(0, y + 6, "GFLOP/s", size=small)
        top = y + 22
        base = top + max(230.0, 80 + (small + 4) * len(every))
        plane = LogPlane(canvas, (left, top, right, base), (lo_x, hi_x), (lo_y, hi_y))
        px, py = plane.x, plane.y
        plane.y_ticks()
        plane.x_ticks()
        plane.axes()
        words = "FLOP/byte at that level"
        canvas.text((left + right) / 2, base + 31, words, ha="center", size=small)
        for name, _, colour, _ in levels:
            begin = max(lo_x, lo_y / slopes[name])
            bend = min(peak / slopes[name], hi_x)
            canvas.line(px(begin), py(begin * slopes[name]), px(bend), py(bend * slopes[name]),
                        colour=colour, lw=2.0)  # fmt: skip
        canvas.line(px(max(peak / max(slopes.values()), lo_x)), py(peak), right, py(peak), lw=2.0)
        canvas.text(right, py(peak) - 9, f"{pipe} {number(peak)}", size=small, ha="right")
        for b in every:
            xs = [px(x) for a, _, x in places if a is b]
            canvas.line(min(xs), py(_rate(b)), max(xs), py(_rate(b)), lw=0.7, alpha=0.5)
        for b, name, x in places:
            _, _, colour, shape_ = next(level for level in levels if level[0] == name)
            binds = b.binding == name
            canvas.axes.plot(
                [px(x)], [py(_rate(b))], shape_, ms=7.0 if binds else 5.5, mec=colour, mew=1.3,
                mfc=colour if binds else "none", clip_on=False,
            )  # fmt: skip
        step, low = small + 3.5, -math.inf
        wanted = [py(_rate(b)) for b in every]
        for b, words, y_rate in zip(every, labels, wanted, strict=True):
            middle = low = max(y_rate, low + step, top)
            canvas.line(max(px(x) for a, _, x in places if a is b) + 5, y_rate, right + 3, middle,
                        lw=0.6, alpha=0.5)  # fmt: skip
            canvas.text(right + 6, middle, words, size=small)
        return canvas.end(max(base + 42, low + 12))

    titles = {name: words for name, words, *_ in levels}
    roofs = "; ".join(f"{words} {number(slopes[name])} GB/s" for name, words in titles.items())
    described = []
    for b in every:
        own = (f"{number(x)} FLOP/byte of {titles[name]}" for a, name, x in places if a is b)
        rate = f"{b.kernel} {number(_rate(b))} GFLOP/s"
        described.append(f"{rate} at {', '.join(own)}, bound by {b.binding}")
    alt = (
        f"Roofline of {card.name} at {shape_text(*every[0].size)} with the roofs of {roofs}; and "
        f"the {pipe}, {number(peak)} GFLOP/s. {'; '.join(described)}."
    )
    caption = (
        f"All roofs of {card.name} at {shape_text(*every[0].size)}. Each kernel stands in one "
        "row, with its FLOP for each byte at each level; the level that binds is filled."
    )
    if any(b.measured is None for b in every):
        caption += " Where nobody measured a kernel, its height is the prediction."
    return both(draw, alt, caption)


def _rate(b: Bounds) -> float:
    """GFLOP/s, measured or else predicted."""
    return b.flop / (b.measured or b.ms) / 1e6


def _label(b: Bounds) -> str:
    return b.kernel + ("" if any(b.binding == name for name, *_ in LEVELS) else "*")
