"""A picture of chapter 17: a warp's fragments, and which products they make."""

from helpers.colours import BLUE, GREEN, PURPLE, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import INK, Canvas, Column, Mark, draw_key
from helpers.ladder.kernel import Kernel
from helpers.ladder.rungs import find
from nogpu.errors import ConfigError

EDGE = 16
"""Rows and columns of a WMMA fragment."""


def warp_fragments(kernel: str | Kernel) -> Figure:
    """The fragments of A and of B that a warp loads for 16 values of k, and the products they make.

    kernel: one with a warp tile WM x WN. One fragment of A is marked, with the row of products that
    use it. Raises ConfigError for a kernel without a warp tile of whole fragments.
    """
    params = find(kernel).params
    wm, wn = params.get("WM", 0), params.get("WN", 0)
    if not wm or not wn or wm % EDGE or wn % EDGE:
        raise ConfigError(
            f"{find(kernel).name} has no warp tile of {EDGE} x {EDGE} fragments; give a kernel "
            "with WM and WN"
        )
    down, across = wm // EDGE, wn // EDGE
    products = down * across
    marks = [
        Mark(f"fragments of A, loaded: {down}", BLUE, 0.35, BLUE),
        Mark(f"fragments of B, loaded: {across}", VERMILION, 0.25, VERMILION),
        Mark(f"products, one mma_sync each: {products}", GREEN, 0.3, GREEN),
        Mark(f"one fragment of A and its {across} uses", None, 1, PURPLE, lw=2.4),
    ]

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        top = draw_key(canvas, marks) + at.small + 10
        gap = 12.0
        cell = min(58.0, (at.width - gap - 4) / (across + 1))
        left = (at.width - (across + 1) * cell - gap) / 2
        right, low = left + cell + gap, top + cell + gap
        size = at.small

        def box(x: float, y: float, words: str, mark: Mark) -> None:
            canvas.marked(x, y, cell, cell, mark, edge=INK, lw=0.8)
            canvas.centred(x, y, cell, cell, words, size=size)

        for j in range(across):
            box(right + j * cell, top, f"B{j}", marks[1])
        for i in range(down):
            box(left, low + i * cell, f"A{i}", marks[0])
            for j in range(across):
                box(right + j * cell, low + i * cell, f"A{i}·B{j}", marks[2])
        chosen = min(1, down - 1)
        y = low + chosen * cell
        canvas.rect(left, y, cell, cell, edge=PURPLE, lw=2.6)
        canvas.rect(right, y, across * cell, cell, edge=PURPLE, lw=2.6)
        canvas.text(right, top - 8, f"{wn} columns of C", size=size)
        end = low + down * cell + size + 4
        canvas.text(right, end, f"{wm} x {wn} of C: sums that stay in registers", size=size)
        return canvas.end(end + size)

    alt = (
        f"One step of a warp with a tile of {wm} x {wn}: {down} fragments of A on the left, "
        f"{across} of B on top, and {products} products in a grid, each the product of its row's "
        f"and its column's fragment. Fragment A{min(1, down - 1)} is marked with the {across} "
        "products that use it."
    )
    caption = (
        f"One step of 16 values of k in `{find(kernel).name}`: {down} + {across} loads, {products} "
        f"products. Each fragment of A is used {across} times, each of B {down} times."
    )
    return both(draw, alt, caption)
