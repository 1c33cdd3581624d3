"""Bars, markers and legends in the looks of the points that they stand for."""

from collections.abc import Callable, Mapping

from helpers.draw.series import Look
from helpers.draw.surface import INK, Canvas


def draw_legend(canvas: Canvas, entries: Mapping[str, Look], markers: bool) -> float:
    """Draw the legend; returns the y below it."""

    def patch(look: Look) -> Callable[[float, float], None]:
        if markers:
            return lambda x, y: draw_marker(canvas, x + 6, y + 5, look)
        return lambda x, y: draw_bar(canvas, x, y, 14, 10, look)

    return canvas.legend([(name, patch(look)) for name, look in entries.items()])


PREDICTED = Look("none", "D", None)
"""What the roof allows: a hollow diamond in the ink of the page."""


def draw_marker(canvas: Canvas, x: float, y: float, look: Look) -> None:
    """A marker with its middle at this point."""
    hollow = look is PREDICTED
    canvas.axes.plot(
        [x], [y], look.marker, ms=6.5 if hollow else 7.5, mfc=look.colour, mec=INK,
        mew=1.2 if hollow else 0, clip_on=False,
    )  # fmt: skip


def draw_bar(canvas: Canvas, x: float, y: float, w: float, h: float, look: Look) -> None:
    """A bar from its upper left corner."""
    if look.hatch:
        canvas.rect(x, y, w, h, fill=look.colour, alpha=0.28, edge=look.colour, hatch=look.hatch)
    else:
        canvas.rect(x, y, w, h, fill=look.colour, edge=None)
