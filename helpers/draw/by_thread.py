"""One thread's two jobs in a step along K: what it copies of A and B, what it computes of C."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import numpy as np

from helpers.colours import GREEN, VERMILION
from helpers.draw.columns import Column
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Mark, draw_key
from helpers.draw.tilings import _Product
from helpers.ladder.jobs import Duties, Place, duties
from helpers.ladder.kernel import Kernel
from helpers.wording import counted
from nogpu.device import WARP

Box = tuple[int, int, int, int]  # row, column, rows, columns


def boxes(places: Iterable[Place]) -> list[Box]:
    """The places as rectangles: runs along a row, and equal runs of rows below each other."""
    runs: dict[Place, list[int]] = {}
    for row, mine in groupby(sorted(set(places)), key=lambda at: at[0]):
        for first, length in _runs([col for _, col in mine]):
            runs.setdefault((first, length), []).append(row)
    return sorted(
        (top, col, high, wide) for (col, wide), rows in runs.items() for top, high in _runs(rows)
    )


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
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


def said(places: Iterable[Place]) -> str:
    """The places in words: "rows 0–7, column 37", pieces joined by "and"; many pieces by the first."""
    found = boxes(places)

    def words(box: Box) -> str:
        row, col, high, wide = box
        rows, cols = ("row" + "s" * (n > 1) for n in (high, wide))
        return f"{rows} {_span(row, high)}, {cols.replace('row', 'column')} {_span(col, wide)}"

    if len(found) <= 2:
        return " and ".join(map(words, found))
    return f"{len(found)} pieces, the first at {words(found[0])}, the last at {words(found[-1])}"


def _fetched(d: Duties, array: str, threads: Iterable[int]) -> list[Place]:
    return [(int(r), int(c)) for t in threads for r, c in np.reshape(d.fetched[array][t], (-1, 2))]


def two_jobs(
    kernel: Kernel | str, *, thread: int = 37, caption: str | None = None, **params: int
) -> Figure:
    """What one thread copies of the tiles of A and B, and what it computes of the tile of C.

    Its warp's part is drawn lightly. kernel: one that stages FP32 tiles, such as "block_1d_core".
    All of it is read off a run in the emulator. Raises ConfigError for another kernel or thread,
    DataError where the jobs cannot be read off.
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
    gap, side, over = 26.0, 22.0, 20.0

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        head = draw_key(canvas, marks)
        scale = min((at.width - side - gap - 4) / (k + n), 330 / (k + m))
        left = (at.width - ((k + n) * scale + gap)) / 2 + side / 2
        p = _Product(canvas, left, head + over, m, n, k, scale, gap)
        for name, light, own in (
            ("A", beside["A"], copied["A"]),
            ("B", beside["B"], copied["B"]),
            ("C", together, computed),
        ):
            colour = GREEN if name == "C" else VERMILION
            for row, col, high, wide in boxes(light):
                p.box(name, row, col, high, wide, fill=colour, alpha=0.25, edge=None)
            for row, col, high, wide in boxes(own):
                p.box(name, row, col, high, wide, fill=colour, edge=colour, lw=1)
        # what the thread reads at each k lies beside the rows of A and below the columns of B
        for row, count in _runs(list(d.reads["A"][thread])):
            canvas.rect(
                p.ax + k * scale + 4, p.ay + row * scale, 5, max(count * scale, 1.5),
                fill=GREEN, edge=None,
            )  # fmt: skip
        for col, count in _runs(list(d.reads["B"][thread])):
            canvas.rect(
                p.bx + col * scale, p.by + k * scale + 4, max(count * scale, 1.5), 5,
                fill=GREEN, edge=None,
            )  # fmt: skip
        p.outlines()
        p.names(f"{m} rows", f"{n} columns", f"{k} steps of k")
        return canvas.end(head + over + (k + m) * scale + gap + 8)

    name = d.launch.kernel.name
    rows, cols = len(d.reads["A"][thread]), len(d.reads["B"][thread])
    finding = (
        f"Thread {thread} of a block of {name} copies {counted(len(copied['A']), 'element')} of A "
        f"({said(copied['A'])}) and {counted(len(copied['B']), 'element')} of B ({said(copied['B'])}). "
        f"It computes {counted(len(computed), 'element')} of C ({said(computed)}), and reads for that, at "
        f"each k, {counted(rows, 'element')} of the tile of A and {counted(cols, 'element')} of the tile of B."
    )
    alt = f"The tiles of A, B and C of one block in one step along K, to proportion. {finding}"
    alt += f" Its warp copies {said(beside['A'])} of A, {said(beside['B'])} of B."
    return both(draw, alt, finding if caption is None else caption)
