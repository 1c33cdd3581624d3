"""Pictures for the first chapters: a vector cut into blocks of threads, a column in a cache's sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from helpers.errors import DataError
from helpers.plots._svg import (
    BLUE,
    GREY,
    VERMILION,
    Canvas,
    Column,
    Figure,
    both,
    join,
    text_width,
)


def vector_blocks(
    n: int, block: int, *, thread: tuple[int, int] = (0, 0), caption: str | None = None
) -> Figure:
    """A vector of n elements cut into blocks of so many threads, and the number i of one thread.

    thread: (blockIdx.x, threadIdx.x) of the one that is marked. Raises DataError for an empty vector
    or block, and for a thread that the launch does not have.
    """
    if n < 1 or block < 1:
        raise DataError(f"{n=}, {block=}: give at least one element and one thread")
    blocks = -(-n // block)
    b, t = thread
    if not (0 <= b < blocks and 0 <= t < block):
        raise DataError(f"{thread=}: the launch has {blocks} blocks of {block} threads")
    total, i = blocks * block, b * block + t
    shown = [x for x in range(max(0, t - 3), t + 3) if x < block]  # the marked one among neighbours

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        tall, top = 30.0, 24.0
        edge = (at.width - 2) / total  # a thread's width in the upper row
        canvas.text(
            1, 8, f"grid: {blocks} × {block} = {total:,} threads", size=small, weight="bold"
        )
        for j in range(blocks):
            x = 1 + j * block * edge
            used = min(block, n - j * block)
            mine = j == b
            canvas.rect(x, top, used * edge, tall, fill=BLUE if mine else GREY,
                        alpha=0.5 if mine else 0.18, edge=None)  # fmt: skip
            if used < block:
                canvas.rect(x + used * edge, top, (block - used) * edge, tall, fill=VERMILION,
                            alpha=0.35, edge=VERMILION, lw=0, hatch="////")  # fmt: skip
            canvas.rect(x, top, block * edge, tall, lw=1.1)
            words = f"block {j}" if block * edge > text_width("block 00", at.font) else str(j)
            if block * edge > text_width(words, at.font):
                canvas.text(x + used * edge / 2, top + tall / 2, words, size=at.font, ha="center")
            first = str(j * block)
            if block * edge > text_width(first, small) + 6:
                canvas.text(x, top + tall + 9, first, size=small)
        y = top + tall + 26
        canvas.text(1, y, f"i below {n:,}: one element each", size=small)
        if total > n:
            x = 1.0 if at.narrow else at.width / 2
            y += 17 * at.narrow
            canvas.rect(x, y - 5, 13, 10, fill=VERMILION, alpha=0.35, edge=VERMILION, lw=0,
                        hatch="////")  # fmt: skip
            canvas.text(x + 19, y, f"{total - n} threads have none", size=small)
        # the marked thread and its neighbours
        y += 26
        names = ("threadIdx.x", "i")
        left = max(text_width(name, small) for name in names) + 8
        cell = (at.width - left - 1) / (len(shown) + 1)
        canvas.text(1, y, f"in block {b}:", size=small, weight="bold")
        y += 12
        for k, x in enumerate(shown):
            mine = x == t
            canvas.rect(left + k * cell, y, cell, 44, fill=BLUE if mine else None, alpha=0.5,
                        edge=None if not mine else BLUE, lw=1.6)  # fmt: skip
            for row, value in enumerate((x, b * block + x)):
                canvas.text(left + (k + 0.5) * cell, y + 12 + 21 * row, str(value), size=at.font,
                            ha="center", weight="bold" if mine else "normal")  # fmt: skip
        for row, name in enumerate(names):
            canvas.text(1, y + 12 + 21 * row, name, size=small)
            canvas.text(at.width - cell / 2, y + 12 + 21 * row, "…", size=at.font, ha="center")
        canvas.line(left, y + 22, at.width - 1, y + 22, lw=0.6, alpha=0.6)
        y += 62
        canvas.text(1, y, "i = blockIdx.x · blockDim.x + threadIdx.x", size=small)
        canvas.text(1, y + small + 5, f"  = {b} · {block} + {t} = {i}", size=small)
        return canvas.end(y + small + 15)

    idle = f" The last {total - n} threads have no element." if total > n else ""
    alt = (
        f"A vector of {n} elements and {blocks} blocks of {block} threads, {total} in all, side by "
        f"side: block 0 begins at element 0, each next one {block} further.{idle} "
        f"Thread {t} of block {b} has i = {b} times {block} plus {t} = {i}."
    )
    if caption is None:
        caption = (
            f"{blocks} blocks of {block} threads over {n:,} elements. Thread {t} of block {b} is "
            f"number {i} of the grid."
        )
    return both(draw, alt, caption)


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
