"""A picture of chapter 13: two walks through a thread's patch, and which steps share an operand."""

from collections.abc import Sequence
from itertools import pairwise

from helpers.colours import GREEN, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import INK, Canvas, Column, Mark, draw_key, text_width
from helpers.wording import counted
from nogpu.errors import ConfigError

Place = tuple[int, int]


def order(rows: int, columns: int, back: bool) -> list[Place]:
    """(row, column) of the multiply-adds of one k, in the order of the source.

    back: every second row from right to left, as the kernel goes; else every row from left to
    right.
    """
    across = range(columns)
    return [(i, j) for i in range(rows) for j in (reversed(across) if back and i % 2 else across)]


def shared(walk: Sequence[Place]) -> list[bool]:
    """Whether each multiply-add takes a row of A or a column of B that the one before it took."""
    return [False, *(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(walk))]


def walks(rows: int = 4, columns: int = 8) -> Figure:
    """A patch of rows x columns sums walked forth only, and back and forth; new starts are marked.

    Raises ConfigError for a patch without a row or a column.
    """
    if rows < 1 or columns < 1:
        raise ConfigError(f"{rows=}, {columns=}: a patch has at least one row and one column")
    ways = (("forth only", False), ("back and forth", True))
    panels = [(title, order(rows, columns, back)) for title, back in ways]
    marks = [
        Mark("shares an operand with the one before", GREEN, 0.35, GREEN),
        Mark("shares none", VERMILION, 0.5, VERMILION),
    ]

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        top = draw_key(canvas, marks) + 4
        side, left = 22.0, 8 + text_width("a0", at.small)
        panel = at.width if at.narrow else (at.width - side) / 2
        cell = min((panel - left - 2) / columns, 30.0)
        low = top
        for p, (title, walk) in enumerate(panels):
            x0 = 0.0 if at.narrow else p * (panel + side)
            y0 = low + 14 if at.narrow and p else top
            canvas.text(x0 + left, y0 + 6, title, size=at.small + 0.5, weight="bold")
            y = y0 + 28
            for j in range(columns):
                canvas.text(x0 + left + (j + 0.5) * cell, y - 7, f"b{j}", size=at.tiny, ha="center")
            for i in range(rows):
                canvas.text(x0 + left - 5, y + (i + 0.5) * cell, f"a{i}", size=at.tiny, ha="right")
            for step, ((i, j), same) in enumerate(zip(walk, shared(walk), strict=True)):
                box = x0 + left + j * cell, y + i * cell, cell, cell
                canvas.marked(*box, marks[0] if same else marks[1], edge=INK, lw=0.6)
                canvas.centred(*box, step, size=at.tiny)
            low = y + rows * cell + 6
        return canvas.end(low)

    counts = [
        f"{title}, {counted(sum(shared(walk)), 'multiply-add')} of {len(walk)}"
        for title, walk in panels
    ]
    alt = (
        f"A patch of {rows} by {columns} sums, its multiply-adds numbered in their order. Sharing "
        f"an operand with the one before: {counts[0]}; {counts[1]}."
    )
    caption = (
        f"One k of a patch of {rows}x{columns}: {counts[0]} share an operand with the one before; "
        f"{counts[1]}."
    )
    return both(draw, alt, caption)
