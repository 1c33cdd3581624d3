"""Pictures of chapter 20: the turns of a ring as it ran, a box and the bits of its addresses, two
ways to shared memory, and the call for a tensor map."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from helpers.colours import BLUE, GREY, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import INK, Canvas, Column, Mark, draw_key
from helpers.ladder import hopper
from helpers.ladder.hopper import BOX_COLS, ITEM_BYTES
from helpers.ladder.launch import Trace
from helpers.wording import join
from nogpu.emulator import EngineStep
from nogpu.emulator.machine.bulk import swizzled
from nogpu.errors import DataError

# -- the turns of a ring, as the emulator took them ------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """One fill of a stage: its number among all, and when what happened, in steps of the emulator.

    An end that did not come is that of the picture.
    """

    fill: int
    issued: int
    landed: int
    read: int
    done: int


def _turns(steps: Sequence[EngineStep]) -> dict[int, list[Turn]]:
    """The fills of each stage, by its first byte."""
    end = steps[-1].order + 1
    when: dict[int, dict[str, int]] = {}
    stage = {}
    for step in steps:
        when.setdefault(step.fill, {})[step.what] = step.order
        stage[step.fill] = step.at
    turns: dict[int, list[Turn]] = {at: [] for at in sorted(stage.values())}
    for fill, at in sorted(stage.items()):
        names = ("copy begun", "copy awaited", "read begun", "read ended")
        turns[at].append(Turn(fill, *(when[fill].get(name, end) for name in names)))
    return turns


def turns(trace: Trace) -> Figure:
    """Stage by stage, when the copy engine filled it and when it was read, in the emulator's order.

    trace: of a kernel with the copy engine, made with engines=True; its first block is drawn. The
    axis counts what happened to stages: an order that a GPU may take, too, and no time. Raises
    DataError where nothing copied, and EmulationError for a trace without engines=True.
    """
    steps = trace.engine_steps()
    if not steps:
        raise DataError(
            f"the copy engine brings nothing in {trace.plan.kernel.name}: choose a TMA kernel"
        )
    stages, last = _turns(steps), steps[-1].order + 1
    copies = Mark("copy asked for", BLUE, 0.28, BLUE)
    waits = Mark("known to be there", None, 1.0, GREY)
    reads = Mark("is read", VERMILION, 0.4, VERMILION)

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        thick, gap = 16.0, 4.0
        left = 2.0 if at.narrow else 56.0  # on a phone a stage's name stands over it
        span = at.width - left - 8
        top = y = draw_key(canvas, [copies, waits, reads])

        def bar(mark: Mark, begin: int, end: int, words: str) -> None:
            if end > begin:
                x, w = left + span * begin / last, span * (end - begin) / last
                canvas.marked(x, y, w, thick, mark, lw=0.9)
                canvas.fitted(x, y, w, thick, words)

        for i, of_stage in enumerate(stages.values()):
            y = canvas.row_name(left, y, thick, f"stage {i}")
            for turn in of_stage:
                bar(copies, turn.issued, turn.landed, str(turn.fill))
                bar(waits, turn.landed, turn.read, "")
                bar(reads, turn.read, turn.done, str(turn.fill))
            y += thick + gap
        canvas.line(left, top - 3, left, y, lw=0.8)
        canvas.line(left, y, left + span, y, lw=0.8)
        words = "the emulator's order of steps, no clocks"
        canvas.text(left + span / 2, y + small + 2, words, size=small, ha="center")
        return canvas.end(y + 2 * small + 4)

    name = trace.plan.kernel.name
    filled = "; ".join(
        f"stage {i} by fills {join([str(t.fill) for t in of_stage])}"
        for i, of_stage in enumerate(stages.values())
    )
    all_of = [turn for of_stage in stages.values() for turn in of_stage]
    first = min(turn.read for turn in all_of)
    early = sum(
        now.done > after.issued for of_stage in stages.values() for now, after in pairwise(of_stage)
    )
    alt = (
        f"The ring of a block of {name} in the emulator, in the order of its steps: {filled}. "
        f"{sum(turn.issued < first for turn in all_of)} copies are asked for before the first "
        f"stage is read. {early or 'No'} stage{'s are' if early > 1 else ' is'} asked for again "
        "before the reads of what lay there have ended."
    )
    caption = (
        f"A block of {name} in the emulator; bars of a stage carry the number of its fill. Left to "
        "right is the order in which the emulator came to it. A GPU may take another, and no "
        "length is a time."
    )
    return both(draw, alt, caption)


# -- a box in swizzled shared memory ---------------------------------------------------------------

CHUNKS = BOX_COLS * ITEM_BYTES // 16
"""Chunks of 16 bytes in a row of a box, and rows after which the pattern repeats."""


def box(chunk: int = 2) -> Figure:
    """Eight rows of a box of 64 two-byte columns: as in the matrix, and as TMA puts it down.

    chunk: the column of 16-byte chunks that is followed. Position p of row r holds chunk p XOR r,
    by the 128-byte swizzle (kernels/common/tma.cuh). Raises DataError for a chunk that a row has
    not.
    """
    if not 0 <= chunk < CHUNKS:
        raise DataError(f"{chunk=}: a row of a box has chunks 0 to {CHUNKS - 1}")
    lanes = [[p ^ r for p in range(CHUNKS)] for r in range(CHUNKS)]
    plain = [list(range(CHUNKS)) for _ in range(CHUNKS)]
    places = [row.index(chunk) for row in lanes]

    def draw(at: Column) -> Canvas:
        canvas, small, tiny = Canvas(at), at.small, at.tiny
        left, gap = 2 * small + 6, 22.0
        cell = (at.width - 2 - left) / CHUNKS if at.narrow else (at.width - left - gap) / 16.5
        cell = min(cell, 34.0)
        tall = max(cell * 0.62, tiny + 6)
        key = Mark(f"chunk {chunk} of each row", VERMILION, 0.4, VERMILION)
        head = draw_key(canvas, [key, Mark("16 bytes, 8 elements", None, 1.0, INK)])

        def grid(x: float, y: float, rows: list[list[int]], title: str) -> float:
            canvas.text(x, y + small, title, size=small, weight="bold")
            y += 2 * small + 4
            for p in range(CHUNKS):
                canvas.text(x + (p + 0.5) * cell, y, str(4 * p), size=tiny, ha="center")
            y += tiny
            for r, row in enumerate(rows):
                for p, c in enumerate(row):
                    place = x + p * cell, y + r * tall, cell, tall
                    if c == chunk:
                        canvas.marked(*place, key, edge=None)
                    canvas.centred(*place, c, size=small, bold=c == chunk)
                canvas.text(x - 5, y + (r + 0.5) * tall, str(r), size=small, ha="right")
            canvas.grid(x, y, (CHUNKS, CHUNKS), (cell, tall), lw=0.5)
            return y + CHUNKS * tall

        low = grid(left, head, plain, "plain rows, over them the first bank")
        x, y = (left, low + 10) if at.narrow else (left + CHUNKS * cell + gap, head)
        low = grid(x, y, lanes, "swizzled, as the copy engine does")
        return canvas.end(low + 4)

    positions = join([str(p) for p in places])
    alt = (
        f"Two grids of {CHUNKS} rows by {CHUNKS} chunks of 16 bytes, over each column its four "
        f"banks. In plain rows chunk {chunk} of all rows stands at position {chunk}, in banks "
        f"{4 * chunk} to {4 * chunk + 3}. Swizzled, it stands at positions {positions} of rows 0 "
        f"to {CHUNKS - 1}: in every bank once."
    )
    caption = (
        "Eight rows of a box; the number in a cell is the chunk that lies there. In plain rows the "
        f"eight chunks {chunk} share four banks; swizzled, they lie at positions {positions}, in "
        "all 32."
    )
    return both(draw, alt, caption)


# -- the swizzle, bit by bit -----------------------------------------------------------------------

BITS = 13
"""Bits of an address within a box: 64 rows of 128 bytes."""
CHUNK_BITS, ROW_BITS = (4, 5, 6), (7, 8, 9)
"""Bits that say which chunk of a swizzled row, and which row of eight."""


def _mixed(address: int, swizzle: int) -> int:
    return int(swizzled(np.array(address), swizzle))


def crossings(swizzle: int = 128) -> dict[int, int]:
    """Of a swizzle of so many bytes: which bit of an address takes which other by exclusive or."""
    mixed = {bit: _mixed(1 << bit, swizzle) ^ 1 << bit for bit in range(BITS)}
    return {to.bit_length() - 1: bit for bit, to in mixed.items() if to}


def address_bits(row: int = 5, col: int = 20) -> Figure:
    """An address in plain rows of 64 two-byte elements, and what the 128-byte swizzle makes of it.

    row, col: of the element whose address is followed; bits are computed as the emulator's copy
    engine has them. Raises DataError for an element that a box has not.
    """
    if not (0 <= row < 64 and 0 <= col < BOX_COLS):
        raise DataError(f"{row=}, {col=}: a box has rows 0 to 63 and columns 0 to {BOX_COLS - 1}")
    plain = CHUNKS * 16 * row + ITEM_BYTES * col
    mixed, takes = _mixed(plain, 128), crossings()
    chunk = Mark("chunk of 16 bytes", BLUE, 0.28, INK)
    line = Mark("row of eight", VERMILION, 0.28, INK)

    def draw(at: Column) -> Canvas:
        canvas, small, tiny = Canvas(at), at.small, at.tiny
        y = draw_key(canvas, [chunk, line])
        cell, tall, rise = (at.width - 2) / BITS, small + 9, small + 1
        middle = [1 + (BITS - 1 - bit + 0.5) * cell for bit in range(BITS)]

        def word(y: float, value: int, title: str) -> float:
            canvas.text(1, y + small / 2, title, size=small, weight="bold")
            y += small + 6
            for bit in range(BITS):
                canvas.text(middle[bit], y + tiny / 2, str(bit), size=tiny, ha="center")
            y += tiny + 3
            for bit in range(BITS):
                mark = chunk if bit in CHUNK_BITS else line if bit in ROW_BITS else Mark("", None)
                place = middle[bit] - cell / 2, y, cell, tall
                canvas.marked(*place, mark, lw=0.8)
                canvas.centred(*place, value >> bit & 1, size=small, bold=bit in takes)
            return y + tall

        y = word(y, plain, f"row {row}, column {col} in plain rows: byte {plain:,}")
        below = y + rise * (len(takes) + 1)
        for turn, (to, source) in enumerate(sorted(takes.items(), reverse=True)):
            level = y + rise * (turn + 0.6)
            canvas.line(middle[source], y, middle[source], level, colour=VERMILION, lw=1.4)
            canvas.arrow(middle[source], level, middle[to] + 2, level, colour=VERMILION, lw=1.4)
            canvas.arrow(middle[to], y, middle[to], below, colour=BLUE, lw=1.4)
        canvas.text(1, (y + below) / 2, "exclusive or", size=small)
        y = word(below + 2, mixed, f"swizzled: byte {mixed:,}")
        return canvas.end(y + 4)

    pairs = join([f"bit {to} takes bit {source}" for to, source in sorted(takes.items())])
    was, line_of, now = plain >> 4 & 7, plain >> 7 & 7, mixed >> 4 & 7
    alt = (
        f"The {BITS} bits of an address within a box. Bits 0 to 3 are the byte of a chunk, 4 to 6 "
        f"the chunk of a row, 7 to 9 the row of eight, the others the group of eight rows. In the "
        f"128-byte swizzle {pairs} by exclusive or; all others stay. Row {row}, column {col} is "
        f"byte {plain} in plain rows and byte {mixed} swizzled: chunk {was} XOR {line_of} is {now}."
    )
    caption = (
        f"The 128-byte swizzle as bits of an address: {pairs}, by exclusive or. Chunk {was} of row "
        f"{row} goes to place {now}."
    )
    return both(draw, alt, caption)


# -- two ways to shared memory ---------------------------------------------------------------------

CASES = (
    ("threads store", "TMA copies it out, or wgmma multiplies it", "fence.proxy.async, a barrier"),
    ("a thread sets up an mbarrier", "TMA counts bytes there", "fence.mbarrier_init, a barrier"),
    ("TMA has filled a stage", "threads read it", "the mbarrier's phase"),
    ("wgmma has read a stage", "TMA fills it again", "wgmma's wait, an arrival at empty"),
)
"""What comes first, what then, and what must stand between, by who goes which way."""
GENERIC_FIRST, GENERIC_LAST = (0, 1), (2,)


def two_ways() -> Figure:
    """Who reaches shared memory the generic way and who the asynchronous, and what joins the two.

    One message for each case: from the way of what comes first to that of what comes then.
    """
    fence = Mark("an order that you must write", VERMILION, 0.3, VERMILION)
    done = Mark("an order that a wait brings with it", BLUE, 0.28, BLUE)

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        y, line, pad = draw_key(canvas, [fence, done]), at.small + 4, 6.0
        ways = (("generic way", "threads: st, ld, stmatrix, ldmatrix"),
                ("asynchronous way", "engines: TMA, wgmma"))  # fmt: skip
        half = (at.width - 12) / 2
        xs = [1 + half / 2, 11 + half * 1.5]
        top, low = y, y
        for x, (name, who) in zip(xs, ways, strict=True):
            canvas.text(x, top + line / 2 + 2, name, size=small, ha="center", weight="bold")
            low = max(low, canvas.lines(x, top + 1.5 * line + 2, who, width=half - 8, size=small,
                                        ha="center"))  # fmt: skip
        low += line / 2 + 3
        for x in xs:
            canvas.rect(x - half / 2, top, half, low - top, lw=1.0)
        y = low + pad
        for i, (first, then, between) in enumerate(CASES):
            source = xs[0 if i in GENERIC_FIRST else 1]
            target = xs[0 if i in GENERIC_LAST else 1]
            mark = fence if i in GENERIC_FIRST else done
            y = canvas.lines(1, y + line / 2, f"{i + 1}. {first}; then {then}", width=at.width - 2,
                             size=small) + line / 2 + 4  # fmt: skip
            x, wide = xs[0] + 8, xs[1] - xs[0] - 16
            end = canvas.lines(x + wide / 2, y + line / 2 + 1, between, width=wide - 6, size=small,
                               ha="center") + line / 2 + 1  # fmt: skip
            canvas.marked(x, y, wide, end - y, mark)
            reach, colour = end + 9, str(mark.fill)
            for of in xs:
                canvas.line(of, y, of, reach + 3, colour=GREY, dash=True)
            if source == target:  # out to the left and back, a little lower
                out = source - 60
                canvas.line(source, reach, out, reach, colour=colour, lw=1.6)
                canvas.line(out, reach, out, reach + 7, colour=colour, lw=1.6)
                canvas.arrow(out, reach + 7, source, reach + 7, colour=colour, lw=1.6)
            else:
                canvas.arrow(source, reach, target, reach, colour=colour, lw=1.6)
            y = reach + (11 if source != target else 16)
        return canvas.end(y)

    words = "; ".join(f"{first}, then {then}: {between}" for first, then, between in CASES)
    alt = (
        "Two ways to shared memory: the generic one of threads and the asynchronous one of TMA and "
        f"wgmma. Four orders between them. {words}. The first two must be written as a fence; the "
        "other two come with the wait."
    )
    caption = "Two ways to the same memory, and what must stand between a first use and a second."
    return both(draw, alt, caption)


# -- the call that describes a matrix --------------------------------------------------------------


def host_call() -> str:
    """The lines of helpers/ladder/hopper.py that fill a tensor map, as they stand there."""
    source = inspect.getsource(hopper._encode.__wrapped__)
    return inspect.cleandoc(
        "\n" + source[source.index("    status, tensor_map") : source.index("    if int(status)")]
    )
