"""The columns of a page that a picture is drawn for, and the ink it is drawn in."""

from dataclasses import dataclass

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
