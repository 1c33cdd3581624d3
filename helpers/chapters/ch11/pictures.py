"""A picture of chapter 11: the multiply-adds that cover a load on its way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers.colours import BLUE, GREEN, GREY, VERMILION
from helpers.errors import DataError
from helpers.plots.columns import Column
from helpers.plots.figures import Figure, both
from helpers.plots.surface import Canvas, Mark, draw_key, text_width
from helpers.wording import join, number


def load_cover(
    cover: Mapping[str, tuple[int, int]],
    latencies: Mapping[str, float],
    *,
    clocks: float = 4.0,
    caption: str | None = None,
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
            canvas.rect(left, y, whole, thick, fill=GREY, alpha=0.12, edge=GREY, lw=0.8)
            if covered:
                canvas.rect(left, y, width, thick, fill=GREEN, alpha=0.45, edge=GREEN)
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
        y = canvas.lines(
            left + span / 2, y + 27, words, width=at.width - 4, size=at.small, ha="center"
        )
        return canvas.end(y + 9)

    told = [
        f"{name} {covered} of {step} multiply-adds, {number(clocks * covered, 4)} clocks"
        for name, (covered, step) in cover.items()
    ]
    takes = [f"{number(value)} from {name}" for name, value in latencies.items()]
    alt = (
        "Multiply-adds that run between the last load of a tile and the first need of one: "
        f"{'; '.join(told)}."
    )
    if takes:
        alt += f" Clocks that a load takes: about {join(takes)}."
    if caption is None:
        caption = (
            "One step of each kernel, from the moment its last load is sent: how many of its "
            f"multiply-adds run before the data is needed, at {number(clocks)} clocks each."
        )
    return both(draw, alt, caption)
