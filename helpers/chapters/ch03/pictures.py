"""Pictures of chapter 3: the order of loops, and a column in the sets of a cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from helpers.colours import BLUE, GREEN, VERMILION
from helpers.errors import DataError
from helpers.plots.columns import INK, Column
from helpers.plots.figures import Figure, both
from helpers.plots.surface import Canvas, text_width
from helpers.wording import join

# -- loop orders ---------------------------------------------------------------------------------

_ORDERS: Mapping[str, Mapping[str, str]] = {
    "ijk": {"A": "row", "B": "column", "C": "stays"},
    "ikj": {"A": "stays", "B": "row", "C": "row"},
    "jki": {"A": "column", "B": "stays", "C": "column"},
}


def loop_orders(*, caption: str | None = None) -> Figure:
    """Which way the inner loop of the orders ijk, ikj and jki walks through A, B and C (row-major)."""
    cells, cell = 5, 15.0
    side, mid = cells * cell, 2.5 * cell
    words = {"row": "along a row", "column": "down a column", "stays": "stays"}
    stride = {"row": "1 element", "column": "a whole row", "stays": "none"}
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
                canvas.text(
                    x + side / 2, y - 9, f"{matrix}[{rows}, {cols}]", size=small, ha="center"
                )
                hot = {
                    "row": (0, 2, cells, 1), "column": (2, 0, 1, cells), "stays": (2, 2, 1, 1)
                }[walk]  # fmt: skip
                u, v, across, down = (cell * part for part in hot)
                canvas.rect(x + u, y + v, across, down, fill=colours[walk], alpha=0.45, edge=None)
                steps = [cell * i for i in range(cells + 1)]
                canvas.segments(
                    [(x, y + z, x + side, y + z) for z in steps]
                    + [(x + z, y, x + z, y + side) for z in steps],
                    lw=0.5,
                )
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

    told = [
        f"{order}: " + join([f"{matrix} {words[walk]}" for matrix, walk in walks.items()])
        for order, walks in _ORDERS.items()
    ]
    alt = (
        "Which way the inner loop walks through the row-major matrices. "
        + "; ".join(told)
        + ". Walking along a row touches neighbours in memory; down a column skips a whole row each time."
    )
    if caption is None:
        caption = (
            "One step of the inner loop, for three loop orders. Arrows show which way it walks; "
            "a dot means that the element stays."
        )
    return both(draw, alt, caption)


# -- a column in a cache -------------------------------------------------------------------------


def set_of(address: int, sets: int = 64, line: int = 64) -> int:
    """The set in which a cache keeps the line that holds this address (in bytes)."""
    return address // line % sets


def cache_sets(
    rows: int,
    row_bytes: Sequence[int] = (4096, 4100),
    *,
    sets: int = 64,
    line: int = 64,
    caption: str | None = None,
) -> Figure:
    """In which sets of a cache the first column of a row-major matrix lies, for each row length.

    rows: elements of the column. row_bytes: a panel for each length of a row, in bytes. sets, line:
    the cache's number of sets and bytes of a line; the matrix begins at address 0. Raises DataError
    for a matrix or a cache without a row, a byte or a set.
    """
    if rows < 1 or not row_bytes or min(row_bytes) < 1 or sets < 1 or line < 1:
        raise DataError(f"{rows=}, {row_bytes=}, {sets=}, {line=}: give at least one of each")
    homes = {pitch: [set_of(r * pitch, sets, line) for r in range(rows)] for pitch in row_bytes}
    words = {pitch: _used(rows, pitch, sets, line) for pitch in row_bytes}
    step = -(-rows // 64)  # rows of the matrix in one row of the drawing

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        count = 1 if at.narrow else len(homes)  # panels side by side
        left, gap = text_width(f"row {rows - 1}", small) + 6, 20.0
        wide = (at.width - left - 1 - gap * (count - 1)) / count
        tall = 110.0 if at.narrow else 150.0
        head = 28.0
        for p, (pitch, home) in enumerate(homes.items()):
            x0 = left + p % count * (wide + gap)
            y0 = head + p // count * (tall + head + 34)
            colour = VERMILION if len(set(home)) * 4 < min(sets, rows) else BLUE
            canvas.text(x0, y0 - 12, f"rows of {pitch} bytes", size=small + 0.5, weight="bold")
            canvas.rect(x0, y0, wide, tall, lw=0.8)
            across, down = wide / sets, tall / -(-rows // step)
            for r in range(0, rows, step):
                for s in sorted(set(home[r : r + step])):
                    canvas.rect(x0 + s * across, y0 + r // step * down, max(across, 2.2), down,
                                fill=colour, edge=None)  # fmt: skip
            if p % count == 0:
                canvas.text(x0 - 5, y0 + 6, "row 0", size=small, ha="right")
                canvas.text(x0 - 5, y0 + tall - 6, f"row {rows - 1}", size=small, ha="right")
            canvas.text(x0, y0 + tall + 9, "set 0", size=small)
            canvas.text(x0 + wide, y0 + tall + 9, f"set {sets - 1}", size=small, ha="right")
            canvas.text(x0 + wide / 2, y0 + tall + 24, words[pitch], size=small, ha="center")
        panels = -(-len(homes) // count)
        return canvas.end(head + panels * (tall + head + 34) - head)

    listed = "; ".join(f"with rows of {pitch} bytes, {told}" for pitch, told in words.items())
    alt = (
        f"Where a cache of {sets} sets with lines of {line} bytes puts the {rows} elements of a "
        f"column: {listed}."
    )
    if caption is None:
        lengths = join([str(pitch) for pitch in homes])
        caption = (
            f"The {rows:,} elements of a column, by set (address / {line}, modulo {sets}), for rows "
            f"of {lengths} bytes."
        )
    return both(draw, alt, caption)


def _used(rows: int, pitch: int, sets: int, line: int) -> str:
    """How many sets a column uses, and the most lines that fall into one of them."""
    lines = {r * pitch // line for r in range(rows)}  # neighbours may share a line
    counts = Counter(number % sets for number in lines)
    used, most = len(counts), max(counts.values())
    return (
        f"{used} sets, up to {most:,} lines in each" if used > 1 else f"1 set, {most:,} lines in it"
    )
