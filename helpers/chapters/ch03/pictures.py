"""The picture of chapter 3: the order of loops."""

from collections.abc import Mapping

from helpers.colours import BLUE, GREEN, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import INK, Canvas, Column
from helpers.wording import join

# -- loop orders ---------------------------------------------------------------------------------

_ORDERS: Mapping[str, Mapping[str, str]] = {
    "ijk": {"A": "row", "B": "column", "C": "stays"},
    "ikj": {"A": "stays", "B": "row", "C": "row"},
    "jki": {"A": "column", "B": "stays", "C": "column"},
}


def loop_orders() -> Figure:
    """Which way the inner loop of the orders ijk, ikj and jki walks through row-major A, B, C."""
    cells, cell = 5, 15.0
    side, mid = cells * cell, 2.5 * cell
    words = {"row": "along a row", "column": "down a column", "stays": "stays"}
    stride = {"row": "1 element", "column": "a whole row", "stays": "none"}
    touched = {"row": (0, 2, cells, 1), "column": (2, 0, 1, cells), "stays": (2, 2, 1, 1)}
    colours = {"row": GREEN, "column": VERMILION, "stays": BLUE}

    def draw(at: Column) -> Canvas:
        canvas, small, tiny = Canvas(at), at.small, at.tiny + 0.5 * (not at.narrow)
        # on a phone an order's name stands over its matrices
        left, gap, over = (17.0, 31.0, 24.0) if at.narrow else (66.0, 46.0, 0.0)
        pitch = side + over + 44 + small + tiny
        for i, (order, walks) in enumerate(_ORDERS.items()):
            y = 24.0 + over + i * pitch
            inner = f"inner loop: {order[-1]}"
            if at.narrow:
                canvas.text(0, y - 38, order, size=at.font + 2, weight="bold")
                canvas.text(36, y - 38, inner, size=small)
            else:
                canvas.text(0, y + side / 2 - 8, order, size=at.font + 2, weight="bold")
                canvas.text(0, y + side / 2 + 8, inner, size=tiny + 0.5)
            for j, matrix in enumerate("ABC"):
                x = left + j * (side + gap)
                walk = walks[matrix]
                rows, cols = {"A": ("i", "k"), "B": ("k", "j"), "C": ("i", "j")}[matrix]
                title = f"{matrix}[{rows}, {cols}]"
                canvas.text(x + side / 2, y - 9, title, size=small, ha="center")
                u, v, across, down = (cell * part for part in touched[walk])
                canvas.rect(x + u, y + v, across, down, fill=colours[walk], alpha=0.45, edge=None)
                canvas.grid(x, y, (cells, cells), (cell, cell), lw=0.5)
                if walk == "row":
                    canvas.arrow(x + 3, y + mid, x + side - 3, y + mid, lw=1.6)
                elif walk == "column":
                    canvas.arrow(x + mid, y + 3, x + mid, y + side - 3, lw=1.6)
                else:
                    canvas.axes.plot([x + mid], [y + mid], "o", ms=6, color=INK, mew=0)
                low = y + side + 10
                canvas.text(x + side / 2, low, words[walk], size=small, ha="center")
                low += small + 2.5
                canvas.text(x + side / 2, low, f"stride: {stride[walk]}", size=tiny, ha="center")
        return canvas.end(len(_ORDERS) * pitch + 8)

    parts = [
        f"{order}: " + join([f"{matrix} {words[walk]}" for matrix, walk in walks.items()])
        for order, walks in _ORDERS.items()
    ]
    alt = (
        f"Which way the inner loop walks through the row-major matrices. {'; '.join(parts)}. "
        "Walking along a row touches neighbours in memory; down a column skips a whole row each "
        "time."
    )
    caption = (
        "One step of the inner loop, for three loop orders. Arrows show which way it walks; "
        "a dot means that the element stays."
    )
    return both(draw, alt, caption)
