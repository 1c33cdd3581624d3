"""The colours of every picture, table and check: one palette for light pages and dark ones."""

BLUE, VERMILION, GREEN, PURPLE, GREY = "#0072b2", "#d55e00", "#009e73", "#c26a9c", "#808080"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, GREY)
"""Okabe and Ito's colours, the purple darkened: each has a contrast of at least 3:1 on white and
on the book's dark background, so one picture serves both. Shapes and words always say it too."""


def tint(colour: str, opacity: str) -> str:
    """A colour of the palette as CSS, translucent: it lies over light and dark pages alike."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
