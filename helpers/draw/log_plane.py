"""Two logarithmic axes, as rooflines have them."""

import math
from dataclasses import dataclass

from helpers.draw.surface import Canvas, text_width
from helpers.wording import number

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""


def decades(low: float, high: float) -> list[float]:
    """The powers of ten from low to high."""
    return [10.0**e for e in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


@dataclass(frozen=True)
class LogPlane:
    """A frame of a canvas between the smallest and largest value of each axis."""

    canvas: Canvas
    frame: Box
    xs: tuple[float, float]
    ys: tuple[float, float]

    def x(self, value: float) -> float:
        """The pixel of a value of the x axis."""
        (low, high), (left, _, right, _) = self.xs, self.frame
        return left + (right - left) * math.log(value / low) / math.log(high / low)

    def y(self, value: float) -> float:
        """The pixel of a value of the y axis."""
        (low, high), (_, top, _, base) = self.ys, self.frame
        return base - (base - top) * math.log(value / low) / math.log(high / low)

    def x_ticks(self) -> None:
        """A line for each power of ten of the x axis, and its number where there is room."""
        canvas, size, (_, top, _, base) = self.canvas, self.canvas.at.small, self.frame
        free = 0.0
        for tick in decades(*self.xs):
            canvas.line(self.x(tick), base, self.x(tick), top, alpha=0.14, lw=0.8)
            words = number(tick)
            half = text_width(words, size) / 2
            middle = min(self.x(tick), canvas.width - half)  # inside the picture
            if middle - half > free:
                canvas.text(middle, base + 5, words, size=size, ha="center", va="top")
                free = middle + half + 3

    def y_ticks(self) -> None:
        """A line and a number for each power of ten of the y axis."""
        canvas, (left, _, right, _) = self.canvas, self.frame
        for tick in decades(*self.ys):
            y = self.y(tick)
            canvas.line(left, y, right, y, alpha=0.14, lw=0.8)
            canvas.text(left - 5, y, number(tick), size=canvas.at.small, ha="right")

    def axes(self) -> None:
        """The lines of both axes."""
        left, top, right, base = self.frame
        self.canvas.line(left, base, right, base, lw=0.8)
        self.canvas.line(left, base, left, top, lw=0.8)
