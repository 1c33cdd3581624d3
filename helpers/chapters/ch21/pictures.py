"""Pictures of chapter 21: who holds which sum of a wgmma, and how its operands lie."""

from helpers.colours import BLUE, PALETTE, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import INK, Canvas, Column, Mark, draw_key, text_width
from helpers.ladder.hopper import BOX_BYTES, ROW_SWIZZLE, SWIZZLE_BYTES, wgmma_descriptor
from helpers.ladder.hopper import WGMMA_ROWS as ROWS
from nogpu.emulator.machine import warpgroup
from nogpu.emulator.machine.bulk import PIECE as CHUNK_BYTES
from nogpu.emulator.machine.bulk import swizzled
from nogpu.errors import DataError

PIECE = 8
"""Columns after which the pattern of lanes repeats."""


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


# -- core matrices ---------------------------------------------------------------------------------

COLUMNS = 128
"""Columns of B of the instruction that is drawn: two boxes."""
OPERANDS = {
    "A": (warpgroup.Operand("A", warpgroup.ROWS, "f16", "K"), 16),
    "B": (warpgroup.Operand("B", COLUMNS, "f16", "MN"), BOX_BYTES),
}
"""The operands of m64n128k16 as the kernels have them, and their leading strides in bytes."""


def core_matrices_read(name: str) -> list[tuple[int, int]]:
    """Which core matrices of a tile one instruction reads: (group of eight swizzled rows, chunk of
    16 bytes), the chunks of a second box after those of the first. Each is read whole."""
    operand, leading = OPERANDS[name]
    at = warpgroup.addresses(wgmma_descriptor(SWIZZLE_BYTES, leading, SWIZZLE_BYTES), operand)
    read: dict[tuple[int, int], set[int]] = {}
    for place in swizzled(at, ROW_SWIZZLE) - SWIZZLE_BYTES:
        box, within = divmod(int(place), BOX_BYTES)
        line, chunk = within // ROW_SWIZZLE, within % ROW_SWIZZLE // CHUNK_BYTES
        read.setdefault((line // 8, 8 * box + chunk), set()).add(line % 8)
    assert all(len(lines) == 8 for lines in read.values())
    return sorted(read)


def core_matrices() -> Figure:
    """The tiles of both operands of a wgmma as core matrices of 8 x 16 bytes, those that one
    instruction reads marked, and one core matrix of each enlarged.

    Which are read is what the emulator reads by the descriptors of kernels/common/wgmma.cuh.
    """
    read = {name: core_matrices_read(name) for name in OPERANDS}
    taken = Mark("core matrices that one instruction reads", BLUE, 0.35)
    large = Mark("the one drawn below", None, 1.0, VERMILION, lw=2.0)
    titles = {"A": "A: K-major, one box", "B": f"B: MN-major, {COLUMNS} columns in two boxes"}
    sides = {"A": ("rows", "k"), "B": ("k", "columns")}

    def draw(at: Column) -> Canvas:
        canvas, small, tiny = Canvas(at), at.small, at.tiny
        y = draw_key(canvas, [taken, large])
        left = text_width("56–63", tiny) + 8

        def tile(name: str, x: float, y: float, cell: tuple[float, float]) -> float:
            down, across = sides[name]
            wide, tall = cell
            boxes = 1 if name == "A" else COLUMNS // 64
            canvas.text(x, y + small / 2, titles[name], size=small, weight="bold")
            y += small + 5
            canvas.text(x + left, y + tiny / 2, f"{across}, eight a chunk", size=tiny)
            canvas.text(x, y + tiny / 2, down, size=tiny)
            y += tiny + 4
            for row, chunk in read[name]:
                gap = 6.0 * (chunk // 8)
                place = x + left + chunk * wide + gap, y + row * tall, wide, tall
                canvas.rect(*place, fill=BLUE, alpha=0.35, edge=None)
            for box in range(boxes):
                canvas.grid(x + left + box * (8 * wide + 6), y, (8, 8), cell, lw=0.5)
            canvas.rect(x + left, y, wide, tall, edge=VERMILION, lw=2.0)
            for row in range(8):
                words = f"{8 * row}–{8 * row + 7}"
                canvas.text(x + left - 4, y + (row + 0.5) * tall, words, size=tiny, ha="right")
            y += 8 * tall
            words = f"stride {SWIZZLE_BYTES:,}: down to the next eight {down}"
            if name == "B":
                words += f"; leading stride {BOX_BYTES:,}: to the next box"
            room = left + boxes * 8 * wide + 6 * (boxes - 1)
            return canvas.lines(x, y + small, words, width=room, size=small) + small

        def enlarged(name: str, x: float, y: float, wide: float) -> float:
            down, across = sides[name]
            cell, tall = min((wide - 34) / 8, 24.0), tiny + 5
            title = f"of {name}: {down} down, {across} across"
            canvas.text(x, y + small / 2, title, size=small, weight="bold")
            y += small + 6
            for i in range(8):
                canvas.text(x + 30 + (i + 0.5) * cell, y + tiny / 2, str(i), size=tiny, ha="center")
            y += tiny + 3
            for i in range(8):
                row = x + 30, y + i * tall, 8 * cell, tall - 3
                canvas.rect(*row, fill=BLUE, alpha=0.2, edge=INK, lw=0.9)
                for j in range(1, 8):
                    at_x = x + 30 + j * cell
                    canvas.line(at_x, y + i * tall, at_x, y + (i + 1) * tall - 3, lw=0.4)
                canvas.text(x + 26, y + i * tall + tall / 2 - 1.5, str(i), size=tiny, ha="right")
            return y + 8 * tall + 4

        if at.narrow:
            low = tile("A", 1, y, (20.0, 13.0)) + 8
            low = tile("B", 1, low, ((at.width - left - 9) / 16, 13.0)) + 8
            low = enlarged("A", 1, low, at.width - 2) + 6
            low = enlarged("B", 1, low, at.width - 2)
        else:
            own = (at.width - 2 * left - 24) / 24
            x = 8 * own + left + 14
            low = max(tile("A", 1, y, (own, 14.0)), tile("B", x, y, (own, 14.0))) + 6
            low = max(enlarged("A", 1, low, 200), enlarged("B", 1 + 216, low, 200))
        words = "a row is 16 neighbouring bytes; the next one is 128 bytes further, at its own XOR"
        low = canvas.lines(1, low + small / 2 + 2, words, width=at.width - 2, size=small)
        return canvas.end(low + small)

    count = {name: len(cores) for name, cores in read.items()}
    alt = (
        "Both operands of m64n128k16 as core matrices, each of eight rows of 16 bytes. A is "
        f"K-major: a box of 64 rows by 64 steps of k is 8 by 8 of them, of which one instruction "
        f"reads the first two of each of the eight groups of rows, {count['A']}. B is MN-major: "
        f"two boxes of 64 steps of k by 64 columns, of which it reads the first two groups of "
        f"steps of k across both, {count['B']}. Down, a group of eight follows the other after "
        f"{SWIZZLE_BYTES} bytes; from box to box it is {BOX_BYTES}. A row of a core matrix of A "
        "is eight steps of k, of B eight columns."
    )
    caption = (
        "The tiles as they lie, the swizzle undone: each cell is a core matrix, eight rows of 16 "
        f"bytes. One m64n128k16 reads {count['A']} of A and {count['B']} of B."
    )
    return both(draw, alt, caption)
