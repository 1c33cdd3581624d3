"""A picture of chapter 4: a launch from the grid to the lanes of a warp."""

import math
from typing import Any

from helpers.colours import BLUE, GREEN, GREY, PURPLE, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column
from helpers.ladder.kernel import Geometry
from nogpu.device import WARP


def thread_hierarchy(p: Geometry) -> Figure:
    """A launch from the grid to a warp's lanes: blocks of the grid, threads of a block by warp.

    Blocks and threads are drawn where their elements of C lie: where the grid's x counts rows of C,
    x runs down.
    """
    gx, gy, gz = p.grid
    bx, by, bz = p.block
    threads = bx * by * bz
    warps = math.ceil(threads / WARP)
    lanes = min(WARP, threads)
    down = by * bz > 1 and "M" in p.kernel.grid[0] and "N" not in p.kernel.grid[0]
    # lines of a block along x: as it is numbered, or 32 a line where it has one dimension
    line_of = bx if by * bz > 1 else min(bx, WARP)
    lines = math.ceil(threads / line_of)
    cols, rows = (lines, line_of) if down else (line_of, lines)
    across, along_y = (gy, gx) if down else (gx, gy)
    shown_x, shown_y, shown_rows = min(across, 12), min(along_y, 12), min(rows, 40)

    def draw(at: Column) -> Canvas:
        canvas, left, top = Canvas(at), 4.0 * (not at.narrow), 20.0
        tiny, title = at.tiny + 0.5, at.small + 0.5
        edge = min(150 / max(shown_x, shown_y), 30.0)
        cell = min(240 / cols, 240 / shown_rows, 16.0)
        grid_h, block_h = shown_y * edge, shown_rows * cell
        bx0 = at.width - max(cols * cell, 150)
        words = f"grid: {gx} × {gy}{f' × {gz}' if gz > 1 else ''} blocks"
        canvas.text(left, 8, words, size=title, weight="bold")
        for i in range(shown_y):
            for j in range(shown_x):
                fill, alpha, lw = (GREY, 0.18, 0.7) if i or j else (BLUE, 0.5, 1.4)
                x, y = left + j * edge, top + i * edge
                canvas.rect(x, y, edge - 2, edge - 2, fill=fill, alpha=alpha, lw=lw)
        low = top + grid_h
        if shown_x < across or shown_y < along_y:
            canvas.text(left, low + 8, f"{shown_y} × {shown_x} of them drawn", size=tiny)
            low += at.tiny + 3
        words = "x runs down, y to the right" if down else "x runs to the right"
        canvas.text(left, low + 8, words, size=tiny)
        low += 8
        words = f"block: {bx} × {by}{f' × {bz}' if bz > 1 else ''} = {threads} threads"
        from_x, from_y = left + edge - 2, top + edge - 2
        if at.narrow:  # the block stands below the grid
            bx0, top = 0.0, low + 38
        else:
            canvas.line(from_x, from_y - edge + 2, bx0 - 3, top, lw=0.7, alpha=0.5)
            canvas.line(from_x, from_y, bx0 - 3, top + block_h, lw=0.7, alpha=0.5)
        canvas.text(bx0, top - 12, words, size=title, weight="bold")
        shown = threads if down else min(threads, shown_rows * cols)
        for warp in range(math.ceil(shown / WARP)):
            t, end = warp * WARP, min((warp + 1) * WARP, shown)
            while t < end:  # a warp is drawn as the pieces of lines that it covers
                count = min(line_of - t % line_of, end - t)
                at_x, at_y, wide, high = t % line_of, t // line_of, count, 1
                if down:
                    at_x, at_y, wide, high = at_y, at_x, 1, min(count, max(0, shown_rows - at_x))
                fill, alpha = (BLUE, VERMILION, GREEN, PURPLE)[warp % 4], 0.35 if warp else 0.9
                x, y, w, h = (cell * n for n in (at_x, at_y, wide, high))
                canvas.rect(bx0 + x, top + y, w, h, fill=fill, alpha=alpha, edge=None)
                t += count
        if cell >= 5:
            edges = [bx0 + j * cell for j in range(cols + 1)]
            canvas.segments([(x, top, x, top + block_h) for x in edges], lw=0.3, alpha=0.4)
        edges = [top + i * cell for i in range(shown_rows + 1)]
        canvas.segments([(bx0, y, bx0 + cols * cell, y) for y in edges], lw=0.3, alpha=0.5)
        part = shown_rows < rows and not down
        note = f"{warps} warps" + f", {shown_rows * cols // WARP} drawn" * part
        note += "; colours change from warp to warp" + "; x runs down" * down
        low = max(low, canvas.lines(bx0, top + block_h + 8, note, width=at.width - bx0, size=tiny))
        words = f"warp 0: {lanes} lanes that run together (lane number; threadIdx.x, threadIdx.y)"
        room = at.width if at.narrow else math.inf
        y = canvas.lines(0, low + 30, words, width=room, size=title, weight="bold") + 10
        line = WARP // 2 if at.narrow else WARP  # lanes drawn side by side
        lane_cell, tall = at.width / line, at.tiny + 8.5
        for first in range(0, lanes, line):
            last = min(first + line, lanes) - 1
            for lane in range(first, last + 1):
                x = (lane - first) * lane_cell
                canvas.rect(x, y, lane_cell, tall, fill=BLUE, alpha=0.9, edge=None)
                canvas.centred(x, y, lane_cell, tall, lane, size=tiny, colour="#ffffff")
                canvas.line(x, y, x, y + tall, lw=0.5, alpha=0.6)
            middle = (first, lanes // 2) if lanes > 2 and line == WARP else (first,)
            for lane in dict.fromkeys((*middle, last)):
                ha: Any = "left" if lane == first else "right" if lane == last else "center"
                where = {"left": 0.0, "right": 1.0, "center": 0.5}[ha]
                x = (lane - first + where) * lane_cell
                canvas.text(x, y + tall + 10, f"({lane % bx}, {lane // bx})", size=tiny, ha=ha)
            y += tall + 22
        return canvas.end(y - 2)

    along = (
        "32 neighbours in x" if bx % WARP == 0
        else f"{WARP // bx} rows of {bx} threads" if WARP % bx == 0
        else "32 threads in the order of their numbers, across rows"
    )  # fmt: skip
    alt = (
        f"Launch of {p.kernel.name} for M = {p.M}, N = {p.N}, K = {p.K}: a grid of {gx} by {gy} "
        f"blocks, each of {bx} by {by} threads, {threads} in all, in {warps} warps of 32. Warp 0 "
        f"is threads 0 to {lanes - 1}: {along}."
        + (" x counts rows of C and is drawn downwards." if down else "")
    )
    caption = (
        f"{p.kernel.name} for M = {p.M}, N = {p.N}: {gx * gy * gz} blocks of {warps} warps. "
        f"threadIdx.x counts fastest, so a warp is {along}"
        + (", which this kernel lays down a column of C." if down else ".")
    )
    return both(draw, alt, caption)
