"""Pictures of chapter 11: what covers a load on its way, and a ring of tiles over time."""

from collections.abc import Mapping
from typing import Any

from helpers.colours import BLUE, GREEN, GREY, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column, Mark, draw_key, text_width
from helpers.wording import counted, join, number
from nogpu.errors import DataError


def load_cover(
    cover: Mapping[str, tuple[int, int]], latencies: Mapping[str, float], *, clocks: float = 4.0
) -> Figure:
    """Clocks of multiply-adds between the last load of a tile and the first need of one, by kernel.

    cover: of each kernel, the multiply-adds in between and those of a whole step. latencies: a name
    and clocks, drawn as lines. clocks: of one multiply-add of every warp of a scheduler.
    Raises DataError for a cover that is longer than its step.
    """
    for name, (covered, step) in cover.items():
        if not 0 <= covered <= step or step < 1:
            raise DataError(f"{name}: {covered} of {step} multiply-adds: give 0 to a whole step")
    most = clocks * max(step for _, step in cover.values())
    marks = [
        Mark("multiply-adds while the load is on its way", GREEN, 0.45, GREEN),
        Mark("the other multiply-adds of the step", GREY, 0.12, GREY),
        *(
            Mark(f"a load from {name} takes about {number(value)} clocks", None, 1, colour, lw=1.8)
            for (name, value), colour in zip(latencies.items(), (BLUE, VERMILION), strict=False)
        ),
    ]

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        y = draw_key(canvas, marks) + 4
        left = 2.0 if at.narrow else 8 + max(text_width(name, at.small) for name in cover)
        span, thick = at.width - left - 8, 17.0
        for name, (covered, step) in cover.items():
            if at.narrow:
                canvas.text(left, y + 7, name, size=at.small)
                y += 16
            else:
                canvas.text(left - 6, y + thick / 2, name, size=at.small, ha="right")
            width, whole = span * clocks * covered / most, span * clocks * step / most
            canvas.marked(left, y, whole, thick, marks[1], lw=0.8)
            if covered:
                canvas.marked(left, y, width, thick, marks[0])
            for value, colour in zip(latencies.values(), (BLUE, VERMILION), strict=False):
                x = left + span * value / most
                canvas.line(x, y - 3, x, y + thick + 3, colour=colour, lw=1.8)
            words = f"{covered} of {step}"
            room = text_width(words, at.small) + 8
            x = max(left + width, left + span * max(latencies.values(), default=0) / most) + 5
            ha: Any = "left"
            if x + room > at.width:
                x, ha = left + width - 5, "right"
            canvas.text(x, y + thick / 2, words, size=at.small, ha=ha)
            y += thick + 8
        canvas.line(left, y, left + span, y, lw=0.8)
        step_ = 1000 if most > 2500 else 500
        for tick in range(0, int(most) + 1, step_):
            x = left + span * tick / most
            canvas.line(x, y, x, y + 4, lw=0.8)
            half = text_width(f"{tick:,}", at.small) / 2
            x = min(max(x, half), at.width - half)
            canvas.text(x, y + 12, f"{tick:,}", size=at.small, ha="center")
        words = "clocks of multiply-adds after the last load of a tile"
        middle, width = left + span / 2, at.width - 4
        y = canvas.lines(middle, y + 27, words, width=width, size=at.small, ha="center")
        return canvas.end(y + 9)

    parts = [
        f"{name} {covered} of {step} multiply-adds, {number(clocks * covered, 4)} clocks"
        for name, (covered, step) in cover.items()
    ]
    takes = [f"{number(value)} from {name}" for name, value in latencies.items()]
    alt = (
        "Multiply-adds that run between the last load of a tile and the first need of one: "
        f"{'; '.join(parts)}." + f" Clocks that a load takes: about {join(takes)}." * bool(takes)
    )
    caption = (
        "One step of each kernel, from the moment its last load is sent: how many of its "
        f"multiply-adds run before the data is needed, at {number(clocks)} clocks each."
    )
    return both(draw, alt, caption)


def ring_over_time(stages: int, steps: int) -> Figure:
    """Which tile lies in which stage of a ring, step by step: in use, arriving, or just asked for.

    stages: buffers of the ring, 2 or more. steps: tiles along K, at least one. As the loop of
    cp_async runs: at step t it waits for tile t, uses it, and asks for tile t + stages - 1. Raises
    DataError.
    """
    if stages < 2 or steps < 1:
        raise DataError(f"{stages=}, {steps=}: a ring has two stages or more, and a step at least")
    marks = (
        Mark("the tile in use", GREEN, 0.5, GREEN),
        Mark("may still be under way", GREY, 0.15, GREY, "////"),
        Mark("asked for in this step", BLUE, 0.4, BLUE),
    )

    def state(step: int, stage: int) -> tuple[int, Mark] | None:
        """The tile in a stage at a step, and how it is drawn."""
        for ahead in range(stages):
            tile = step + ahead
            if tile % stages == stage and tile < steps:
                return tile, marks[0 if ahead == 0 else 2 if ahead == stages - 1 else 1]
        return None

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        y = draw_key(canvas, marks) + 6
        left = text_width("stage 0", at.font) + 10
        cell = min((at.width - left - 2) / steps, 64.0)
        for step in range(steps):
            words = f"step {step}" if cell > 44 else str(step)
            canvas.text(left + (step + 0.5) * cell, y, words, size=at.small, ha="center")
        y += 12
        for stage in range(stages):
            canvas.text(0, y + 13, f"stage {stage}", size=at.font)
            for step in range(steps):
                content = state(step, stage)
                box = left + step * cell + 1, y, cell - 2, 26.0
                if content is None:
                    canvas.rect(*box, lw=0.6, dash=True)
                    continue
                tile, mark = content
                canvas.marked(*box, mark)
                canvas.centred(*box, tile, size=at.font, bold=True)
            y += 32
        canvas.text(left, y + 2, "numbers are tiles along K", size=at.small)
        return canvas.end(y + 12)

    events = [
        f"at step {step} tile {step} is in use"
        + (f" and tile {step + stages - 1} is asked for" if step + stages - 1 < steps else "")
        for step in range(steps)
    ]
    alt = f"A ring of {stages} stages over {steps} steps: {'; '.join(events)}."
    waits = "its groups" if stages == 2 else f"but the latest {counted(stages - 2, 'group')}"
    caption = (
        f"A ring of {stages} stages. At each step the thread waits until all {waits} have arrived, "
        f"uses one tile and asks for the one {stages - 1} further on."
    )
    return both(draw, alt, caption)
