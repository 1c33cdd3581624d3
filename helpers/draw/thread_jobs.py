"""One thread's two jobs in a step along K: what it copies of A and B, what it computes of C."""

from collections.abc import Iterable
from itertools import groupby

import numpy as np

from helpers.colours import GREEN, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column, Mark, draw_key
from helpers.draw.tilings import OVER, Box, Product
from helpers.ladder.jobs import Duties, Place, duties
from helpers.ladder.kernel import Kernel
from helpers.wording import counted
from nogpu.device import WARP


def boxes(places: Iterable[Place]) -> list[Box]:
    """The places as rectangles: runs along a row, and equal runs of rows below each other."""
    below: dict[Place, list[int]] = {}
    for row, mine in groupby(sorted(set(places)), key=lambda at: at[0]):
        for first, length in runs([col for _, col in mine]):
            below.setdefault((first, length), []).append(row)
    return sorted(
        (top, col, high, wide) for (col, wide), rows in below.items() for top, high in runs(rows)
    )


def runs(numbers: list[int]) -> list[tuple[int, int]]:
    """First and length of each run of neighbours."""
    found: list[tuple[int, int]] = []
    for n in sorted(numbers):
        if found and n == sum(found[-1]):
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((n, 1))
    return found


def _span(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}–{first + count - 1}"


def places_text(places: Iterable[Place]) -> str:
    """The places in words: "rows 0–7, column 37", pieces joined by "and"; many by the first."""
    rectangles = boxes(places)

    def words(box: Box) -> str:
        row, col, high, wide = box
        rows, cols = ("row" + "s" * (n > 1) for n in (high, wide))
        return f"{rows} {_span(row, high)}, {cols.replace('row', 'column')} {_span(col, wide)}"

    if len(rectangles) <= 2:
        return " and ".join(map(words, rectangles))
    return (
        f"{len(rectangles)} pieces, the first at {words(rectangles[0])}, the last at "
        f"{words(rectangles[-1])}"
    )


def _fetched(d: Duties, array: str, threads: Iterable[int]) -> list[Place]:
    return [(int(r), int(c)) for t in threads for r, c in np.reshape(d.fetched[array][t], (-1, 2))]


def two_jobs(kernel: Kernel | str, *, thread: int = 37, **params: int) -> Figure:
    """What one thread copies of the tiles of A and B, and what it computes of the tile of C.

    Its warp's part is drawn lightly. All of it is read off a run in the emulator. kernel: one that
    stages FP32 tiles, such as "block_1d_core". thread: its number in the block. Raises ConfigError:
    for another kernel or thread; DataError: the jobs cannot be read off.
    """
    d = duties(kernel, **params)
    warp = range(d.check(thread) // WARP * WARP, thread // WARP * WARP + WARP)
    (m, n), k = d.launch.tile, d.depth
    copied = {name: _fetched(d, name, [thread]) for name in "AB"}
    beside = {name: _fetched(d, name, warp) for name in "AB"}
    computed, together = d.computes[thread], [at for t in warp for at in d.computes[t]]
    marks = [
        Mark("this thread copies", VERMILION, edge=VERMILION),
        Mark("its warp copies", VERMILION, 0.25, None),
        Mark("this thread computes, and what it reads for that", GREEN, edge=GREEN),
        Mark("its warp computes", GREEN, 0.25, None),
    ]

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        p = Product.fitting(canvas, draw_key(canvas, marks) + OVER, (m, n, k), 330, gap=26.0)
        scale = p.scale
        operands = ((name, beside[name], copied[name]) for name in "AB")
        for name, light, own in (*operands, ("C", together, computed)):
            colour = GREEN if name == "C" else VERMILION
            for row, col, high, wide in boxes(light):
                p.box(name, row, col, high, wide, fill=colour, alpha=0.25, edge=None)
            for row, col, high, wide in boxes(own):
                p.box(name, row, col, high, wide, fill=colour, edge=colour, lw=1)
        # what the thread reads at each k lies beside the rows of A and below the columns of B
        for row, count in runs(list(d.reads["A"][thread])):
            y, tall = p.ay + row * scale, max(count * scale, 1.5)
            canvas.rect(p.ax + k * scale + 4, y, 5, tall, fill=GREEN, edge=None)
        for col, count in runs(list(d.reads["B"][thread])):
            x, width = p.bx + col * scale, max(count * scale, 1.5)
            canvas.rect(x, p.by + k * scale + 4, width, 5, fill=GREEN, edge=None)
        p.outlines()
        p.names(f"{m} rows", f"{n} columns", f"{k} steps of k")
        return canvas.end(p.low + 8)

    name = d.launch.kernel.name
    rows, cols = len(d.reads["A"][thread]), len(d.reads["B"][thread])
    finding = (
        f"Thread {thread} of a block of {name} copies {counted(len(copied['A']), 'element')} of A "
        f"({places_text(copied['A'])}) and {counted(len(copied['B']), 'element')} of B "
        f"({places_text(copied['B'])}). It computes {counted(len(computed), 'element')} of C "
        f"({places_text(computed)}), and reads for that, at each k, {counted(rows, 'element')} of "
        f"the tile of A and {counted(cols, 'element')} of the tile of B."
    )
    alt = f"The tiles of A, B and C of one block in one step along K, to proportion. {finding}"
    alt += f" Its warp copies {places_text(beside['A'])} of A, {places_text(beside['B'])} of B."
    return both(draw, alt, finding)
