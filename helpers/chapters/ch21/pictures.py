"""A picture of chapter 21: who holds which sum of a wgmma."""

from __future__ import annotations

from helpers.colours import BLUE, PALETTE, VERMILION
from helpers.draw.columns import INK, Column
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Mark, draw_key, text_width
from nogpu.errors import DataError

ROWS, PIECE = 64, 8
"""Rows of C of an instruction, and the columns after which the pattern of lanes repeats."""


def holder(row: int, col: int) -> tuple[int, int]:
    """Thread of the warpgroup (0 to 127) and index in sum[] of sum (row, col) of m64nNk16.

    Source: PTX ISA, register fragments of wgmma.mma_async, D; kernels/common/wgmma.cuh.
    """
    warp, within = divmod(row, 16)
    lane = within % 8 * 4 + col % PIECE // 2
    return 32 * warp + lane, col // PIECE * 4 + within // 8 * 2 + col % 2


def accumulator(row: int = 26, col: int = 43, *, n: int = 256) -> Figure:
    """Which thread of a warpgroup holds which sum of one wgmma: 64 rows by n columns.

    row, col: the sum that is followed; all sums of its thread are marked. Raises DataError for a
    sum that is not there, and for an n that wgmma has not.
    """
    if not (0 <= row < ROWS and 0 <= col < n and n % PIECE == 0 and PIECE <= n <= 256):
        raise DataError(f"{row=}, {col=}, {n=}: m64n{n}k16 has rows 0 to 63, columns 0 to {n - 1}")
    thread, index = holder(row, col)
    warp, lane = divmod(thread, 32)
    first, piece = 16 * warp + lane // 4, col // PIECE
    marks = [
        Mark(f"sums of lane {lane} of warp {warp}", BLUE, 1.0),
        Mark("the piece drawn below", None, 1.0, VERMILION, lw=2.0),
    ]
    pair = lane % 4 * 2
    mine = [
        f"sum[{4 * piece + 2 * h + i}]: row {first + 8 * h}, column {PIECE * piece + pair + i}"
        for h in (0, 1)
        for i in (0, 1)
    ]

    def draw(at: Column) -> Canvas:
        canvas, small, tiny = Canvas(at), at.small, at.tiny
        left = text_width("rows 48–63", small) + 6
        span = at.width - left - 2
        unit, tall = span / n, 24.0
        y = draw_key(canvas, marks)
        canvas.text(left, y + small / 2, f"C: {ROWS} x {n}", size=small, weight="bold")
        y += small + 6
        for w in range(4):
            top = y + w * tall
            canvas.rect(left, top, span, tall, fill=PALETTE[w], alpha=0.14, lw=0.9)
            words = f"rows {16 * w}–{16 * w + 15}"
            canvas.text(left - 5, top + tall / 2, words, size=small, ha="right")
        top = y + warp * tall
        for p in range(n // PIECE):
            for h in (0, 1):
                x, v = left + (PIECE * p + pair) * unit, top + (lane // 4 + 8 * h) * tall / 16
                canvas.rect(x, v, 2 * unit, tall / 16 + 0.6, fill=BLUE, edge=None)
        for w in range(4):
            if w != warp:
                canvas.centred(left, y + w * tall, span, tall, f"warp {w}", size=small)
        x0 = left + PIECE * piece * unit
        canvas.rect(x0 - 1, top - 1, PIECE * unit + 2, tall + 2, edge=VERMILION, lw=2.0)
        y += 4 * tall + small + 12
        begin = PIECE * piece
        title = f"warp {warp}, columns {begin}–{begin + PIECE - 1}: lanes"
        canvas.text(left, y, title, size=small, weight="bold")
        y += small + 2
        cell, high = (at.width - left - 2) / 4 if at.narrow else 40.0, small + 4.5
        for p in range(4):
            words = f"{begin + 2 * p}, {begin + 2 * p + 1}"
            canvas.text(left + (p + 0.5) * cell, y, words, size=tiny, ha="center")
        y += tiny
        for r in range(16):
            v = y + r * high
            canvas.text(left - 5, v + high / 2, str(16 * warp + r), size=tiny, ha="right")
            for p in range(4):
                of, place = r % 8 * 4 + p, (left + p * cell, v, cell, high)
                fill, alpha, ink = (PALETTE[r // 8 + 1], 0.12, INK)
                if of == lane:
                    fill, alpha, ink = BLUE, 1.0, "#ffffff"
                canvas.rect(*place, fill=fill, alpha=alpha, lw=0.4)
                canvas.centred(*place, of, size=small, colour=ink, bold=of == lane)
        low = y + 16 * high
        canvas.line(left, y + 8 * high, left + 4 * cell, y + 8 * high, lw=1.6)
        x, v = (left, low + small + 4) if at.narrow else (left + 4 * cell + 16, y + small)
        canvas.text(x, v, f"lane {lane} holds here", size=small, weight="bold")
        for words in mine:
            v += small + 6
            canvas.text(x, v, words, size=small)
        v += small + 10
        words = f"and as many of each of the {n // PIECE} pieces: {n // 2} in all"
        v = canvas.lines(x, v, words, width=at.width - x - 2, size=small)
        return canvas.end(max(low, v + small) + 4)

    alt = (
        f"The {ROWS} x {n} sums of one wgmma. Warp 0 of the warpgroup holds rows 0 to 15, warp 1 "
        f"rows 16 to 31, warp 2 rows 32 to 47, warp 3 rows 48 to 63. In each piece of {PIECE} "
        "columns four lanes hold two neighbours each of a row, lanes 0 to 3 in rows 0 and 8 of the "
        f"warp's 16, up to lanes 28 to 31 in rows 7 and 15. Sum ({row}, {col}) is sum[{index}] of "
        f"lane {lane} of warp {warp}, which holds of its piece {'; '.join(mine)}."
    )
    caption = (
        f"The sums of one m64n{n}k16. Sum ({row}, {col}) is sum[{index}] of thread {thread} of the "
        f"warpgroup, lane {lane} of warp {warp}; it holds {n // 2} sums."
    )
    return both(draw, alt, caption)
