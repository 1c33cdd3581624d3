"""Pictures of chapter 20: the turns of a ring as it ran, a box, and the call for a tensor map."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from helpers.colours import BLUE, GREY, VERMILION
from helpers.draw.columns import INK, Column
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Mark, draw_key
from helpers.ladder import hopper
from helpers.ladder.hopper import BOX_COLS, ITEM_BYTES
from helpers.wording import join
from nogpu.errors import DataError

if TYPE_CHECKING:
    from helpers.ladder.launch import Trace
    from nogpu.emulator import EngineStep

# -- the turns of a ring, as the emulator took them ------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """One fill of a stage: its number among all, and when what happened, in steps of the emulator.

    An end that did not come is that of the picture.
    """

    fill: int
    asked: int
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
                bar(copies, turn.asked, turn.landed, str(turn.fill))
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
        now.done > after.asked for of_stage in stages.values() for now, after in pairwise(of_stage)
    )
    alt = (
        f"The ring of a block of {name} in the emulator, in the order of its steps: {filled}. "
        f"{sum(turn.asked < first for turn in all_of)} copies are asked for before the first stage "
        f"is read. {early or 'No'} stage{'s are' if early > 1 else ' is'} asked for again before "
        "the reads of what lay there have ended."
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


# -- the call that describes a matrix --------------------------------------------------------------


def host_call() -> str:
    """The lines of helpers/ladder/hopper.py that fill a tensor map, as they stand there."""
    source = inspect.getsource(hopper._encode.__wrapped__)
    return inspect.cleandoc(
        "\n" + source[source.index("    status, tensor_map") : source.index("    if int(status)")]
    )
