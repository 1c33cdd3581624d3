"""What pictures are drawn on: a page's columns, a canvas in pixels, text that fits, legends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

INK = "#010203"
"""Stands for the colour of the text around the figure; becomes currentColor in the SVG."""


@dataclass(frozen=True)
class Column:
    """A column of a page that a picture is drawn for: its width and its sizes of text, in pixels.

    On the narrow one, labels stand over what they name, and panels below each other.
    """

    width: float
    font: float
    small: float
    tiny: float
    narrow: bool = False


DESK = Column(440, 11.5, 9.5, 7.5)
PHONE = Column(320, 12.5, 11.5, 10.8, narrow=True)
"""A phone 360 pixels wide leaves a figure 300 to 330 of them: no text may be under 10 there."""
FONT = DESK.font

Align = Literal["left", "center", "right"]


@lru_cache(maxsize=4096)
def text_width(text: str, size: float = FONT, weight: str = "normal") -> float:
    """Pixels that a line of text takes at most in the fonts that a page may use."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return float(TextToPath().get_text_width_height_descent(text, font, ismath=False)[0])


def wrap(words: str, size: float, width: float, weight: str = "normal") -> list[str]:
    """Words broken into lines that are at most so many pixels wide, where they have spaces."""
    lines: list[str] = []
    for word in words.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, weight) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


@dataclass(frozen=True)
class Mark:
    """One entry of a diagram's legend: how the patch looks, and its words."""

    words: str
    fill: str | None = None
    alpha: float = 1.0
    edge: str | None = INK
    hatch: str | None = None
    lw: float = 1.0


class Canvas:
    """A drawing surface in pixels for diagrams and charts, y downwards; it grows with its content.

    Use inside drawing(). Colours default to the ink of the page.
    """

    def __init__(self, at: Column) -> None:
        from matplotlib.figure import Figure as MplFigure

        self.at, self.width = at, at.width
        self.figure = MplFigure(dpi=72)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set_xlim(0, at.width)
        self.figure.patch.set_visible(False)

    def end(self, height: float) -> Canvas:
        """Itself, cut off at this height. Call it when everything is drawn."""
        self.figure.set_size_inches(self.width / 72, height / 72)
        self.axes.set_ylim(height, 0)
        return self

    def rect(
        self, x: float, y: float, w: float, h: float, *, fill: str | None = None,
        alpha: float = 1.0, edge: str | None = INK, lw: float = 1.0, hatch: str | None = None,
        dash: bool = False,
    ) -> None:  # fmt: skip
        """A rectangle; fill under the given opacity, then hatch and outline in the edge colour."""
        from matplotlib.patches import Rectangle

        where: dict[str, Any] = {"xy": (x, y), "width": w, "height": h, "clip_on": False}
        if fill:
            self.axes.add_patch(Rectangle(**where, facecolor=fill, alpha=alpha, lw=0))
        if hatch:
            line = edge or fill or INK
            self.axes.add_patch(
                Rectangle(**where, fill=False, edgecolor=line, lw=0, hatch=hatch)  # lw 0: no frame
            )
        if edge and lw:
            style = (0, (3, 2)) if dash else "-"
            self.axes.add_patch(
                Rectangle(**where, fill=False, edgecolor=edge, lw=lw, linestyle=style)
            )

    def marked(self, x: float, y: float, w: float, h: float, mark: Mark, **changes: Any) -> None:
        """A rectangle in the look of a legend's entry, but for what `changes` says of `rect`."""
        look = {name: getattr(mark, name) for name in ("fill", "alpha", "edge", "hatch", "lw")}
        self.rect(x, y, w, h, **{**look, **changes})

    def centred(
        self, x: float, y: float, w: float, h: float, words: object, *, size: float,
        bold: bool = False, colour: str = INK,
    ) -> None:  # fmt: skip
        """Words in the middle of a rectangle that is drawn, or not, by itself."""
        weight = "bold" if bold else "normal"
        x, y = x + w / 2, y + h / 2
        self.text(x, y, str(words), size=size, ha="center", colour=colour, weight=weight)

    def fitted(self, x: float, y: float, w: float, h: float, words: str, room: float = 3) -> None:
        """Small words in the middle of a rectangle, where they fit beside so much room."""
        if w >= text_width(words, self.at.small) + room:
            self.centred(x, y, w, h, words, size=self.at.small)

    def grid(
        self, x: float, y: float, cells: tuple[int, int], cell: tuple[float, float], **style: Any
    ) -> None:
        """The lines of a grid: its cells across and down, and the width and height of one."""
        (across, down), (wide, tall) = cells, cell
        right, low = x + across * wide, y + down * tall
        self.segments(
            [(x, y + i * tall, right, y + i * tall) for i in range(down + 1)]
            + [(x + j * wide, y, x + j * wide, low) for j in range(across + 1)],
            **style,
        )

    def row_name(self, left: float, y: float, thick: float, name: str) -> float:
        """The name of a bar that begins at `left`, beside it, or above on a phone; the bar's y."""
        if self.at.narrow:
            self.text(left + 3, y + 6, name, size=self.at.small)
            return y + 15
        self.text(left - 6, y + thick / 2, name, size=self.at.small, ha="right")
        return y

    def text(
        self, x: float, y: float, words: str, *, size: float = FONT, ha: Align = "left",
        va: str = "center", colour: str = INK, weight: str = "normal", rotation: float = 0,
    ) -> None:  # fmt: skip
        """A line of text at a point."""
        # central baseline by hand: the browser's font has other ascents than matplotlib's
        shift = {"center": 0.36 * size, "top": 0.8 * size, "bottom": -0.2 * size}.get(va, 0.0)
        dx, dy = (shift, 0.0) if rotation == 90 else (0.0, shift)
        self.axes.text(
            x + dx, y + dy, words, fontsize=size, ha=ha, va="baseline", color=colour,
            fontweight=weight, rotation=rotation, rotation_mode="anchor", clip_on=False,
        )  # fmt: skip

    def lines(
        self, x: float, y: float, words: str, *, width: float, size: float, ha: Align = "left",
        weight: str = "normal",
    ) -> float:  # fmt: skip
        """Text in lines that fit a width, the first with its middle at y; the y of the last one."""
        for i, part in enumerate(wrap(words, size, width, weight)):
            y += (size + 4) * bool(i)
            self.text(x, y, part, size=size, ha=ha, weight=weight)
        return y

    def legend(self, entries: Sequence[tuple[str, Callable[[float, float], None]]]) -> float:
        """Patches with words at the top, in as many rows as they need; returns the y below.

        Each entry: its words, and what draws its patch, 14 by 10 pixels, at a corner.
        """
        size, x, y = self.at.small, 1.0, 2.0
        for words, patch in entries:
            room = self.width - 20 - 1
            if x > 1 and x + 19 + text_width(words, size) > self.width:
                x, y = 1.0, y + size + 6.5
            patch(x, y)
            low = self.lines(x + 19, y + 5, words, width=room, size=size)
            x += 29 + text_width(words, size)
            if low > y + 5:
                x, y = self.width, low - 5
        return y + size + 10.5

    def line(
        self, x0: float, y0: float, x1: float, y1: float, *, colour: str = INK, lw: float = 1.0,
        dash: bool = False, alpha: float = 1.0,
    ) -> None:  # fmt: skip
        """A straight line between two points."""
        style = (0, (3, 2)) if dash else "-"
        self.axes.plot(
            [x0, x1], [y0, y1], color=colour, lw=lw, linestyle=style, alpha=alpha, clip_on=False
        )

    def segments(self, parts: Sequence[tuple[float, float, float, float]], **style: Any) -> None:
        """Straight lines of one style, as x0, y0, x1, y1: one path, however many there are."""
        gap = math.nan
        if parts:
            xs = [x for x0, _, x1, _ in parts for x in (x0, x1, gap)]
            ys = [y for _, y0, _, y1 in parts for y in (y0, y1, gap)]
            colour = style.pop("colour", INK)
            self.axes.plot(xs, ys, color=colour, linestyle="-", clip_on=False, **style)

    def arrow(
        self, x0: float, y0: float, x1: float, y1: float, *, colour: str = INK, lw: float = 1.2,
        both: bool = False,
    ) -> None:  # fmt: skip
        """A line from the first point to the second with a head at its end, or at both ends."""
        self.line(x0, y0, x1, y1, colour=colour, lw=lw)
        length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-9)
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        for (x, y), sign in (((x1, y1), 1.0), ((x0, y0), -1.0))[: 2 if both else 1]:
            back, side = 5.5 * sign, 2.8
            head = [
                (x, y),
                (x - ux * back - uy * side, y - uy * back + ux * side),
                (x - ux * back + uy * side, y - uy * back - ux * side),
            ]
            self.axes.fill(*zip(*head, strict=True), color=colour, lw=0, clip_on=False)


def draw_key(canvas: Canvas, marks: Sequence[Mark]) -> float:
    """Draw a legend; returns the y below it."""

    def patch(mark: Mark) -> Callable[[float, float], None]:
        return lambda x, y: canvas.marked(x, y, 13, 10, mark)

    return canvas.legend([(mark.words, patch(mark)) for mark in marks]) + 2
