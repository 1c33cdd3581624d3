"""Pictures of chapter 5: a warp laid over three matrices; a column in the lines and at the banks of L1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from helpers.colours import BLUE, VERMILION
from helpers.device import LINE, WARP, WORD
from helpers.emulator.observe.counts import BANKS, SECTOR
from helpers.errors import DataError
from helpers.plots.access_maps import recorded
from helpers.plots.columns import Column
from helpers.plots.figures import Figure, both
from helpers.plots.surface import Canvas, Mark, draw_key, text_width
from helpers.wording import counted


def _column(pitch: int) -> tuple[list[int], list[int], list[int]]:
    """Lane by lane: the line and the word in it that holds x[lane][0]; and the words of each bank.

    pitch: bytes from one row of x to the next.
    """
    at = [lane * pitch for lane in range(WARP)]
    words = [byte % LINE // WORD for byte in at]
    return [byte // LINE for byte in at], words, [words.count(bank) for bank in range(BANKS)]


def _queue_in_words(counts: Sequence[int]) -> str:
    deepest = max(counts)
    busy = sum(count == deepest for count in counts)
    if deepest == 1:
        return "1 word each"
    return f"{deepest} words " + ("each" if busy > 1 else f"wait for bank {counts.index(deepest)}")


def line_queues(pitches: Sequence[int] = (4096, 4100), *, caption: str | None = None) -> Figure:
    """A warp reads a column of a matrix: the line each lane needs, and the queues at L1's banks.

    pitches: bytes from one row of the matrix to the next, one drawing each. That L1 delivers a word
    of each of 32 banks a clock, as shared memory does, is a hypothesis: the figure counts words.
    Raises DataError if a pitch is below a line or not a whole number of words.
    """
    if not pitches or any(p < LINE or p % WORD for p in pitches):
        raise DataError(f"{pitches=}: give bytes, multiples of {WORD}, at least {LINE}")
    drawn = [(pitch, *_column(pitch)) for pitch in pitches]
    marks = [
        Mark("the word that a lane reads", BLUE, edge=BLUE),
        Mark("queue at its bank", VERMILION, 0.45, VERMILION),
    ]

    def draw(at: Column) -> Canvas:
        canvas, small, tiny = Canvas(at), at.small, at.tiny + 0.5
        top = draw_key(canvas, marks) + 6
        left = text_width("lane 31", tiny) + 6
        between = 22.0
        side = 1 if at.narrow else min(2, len(drawn))
        wide = (at.width - 2 - left - between * (side - 1)) / side
        cell, high, unit = wide / BANKS, 4.4, 1.6
        y = low = top
        for i, (pitch, _, words, counts) in enumerate(drawn):
            if i % side == 0:
                y = low + 10 * bool(i)
            x = left + (i % side) * (wide + between)
            title = f"Rows of {pitch:,} bytes"
            canvas.text(x, y + 4, title, size=at.font, weight="bold")
            v = y + 17
            if i % side == 0:
                for lane in (0, WARP - 1):
                    middle = v + (lane + 0.5) * high
                    canvas.text(left - 5, middle, f"lane {lane}", size=tiny, ha="right")
            for lane, word in enumerate(words):
                canvas.rect(x + word * cell, v + lane * high, cell, high, fill=BLUE, edge=None)
            rows = [(x, v + r * high, x + wide, v + r * high) for r in range(1, WARP)]
            canvas.segments(rows, lw=0.4, alpha=0.35)
            per = SECTOR // WORD
            sectors = [
                (x + c * cell, v, x + c * cell, v + WARP * high) for c in range(per, BANKS, per)
            ]
            canvas.segments(sectors, lw=0.6, alpha=0.6)
            canvas.rect(x, v, wide, WARP * high, lw=1.1)
            v += WARP * high
            for bank in (0, 8, 16, 24, BANKS - 1):
                middle = x + (bank + 0.5) * cell
                middle = min(max(middle, x + 3), x + wide - text_width(str(bank), tiny) / 2)
                canvas.text(middle, v + 8, str(bank), size=tiny, ha="center")
            if i % side == 0:
                canvas.text(left - 5, v + 8, "bank", size=tiny, ha="right")
            v += 16
            for bank, count in enumerate(counts):
                if count:
                    canvas.rect(
                        x + bank * cell + 0.5, v, cell - 1, max(count * unit, 2.5), fill=VERMILION,
                        alpha=0.45, edge=VERMILION, lw=0.7,
                    )  # fmt: skip
            canvas.line(x, v, x + wide, v, lw=0.9)
            if i % side == 0:
                canvas.text(left - 5, v + 6, "queue", size=tiny, ha="right")
            start = x + (counts.index(max(counts)) + 1) * cell + 6 if max(counts) > 3 else x
            drop = v + (12 if max(counts) > 3 else max(counts) * unit + 11)
            canvas.text(start, drop, _queue_in_words(counts), size=small)
            low = max(low, v + max(max(counts) * unit, 20) + 4)
        return canvas.end(low + 4)

    told = [
        f"rows of {pitch:,} bytes: {len(set(lines))} lines, "
        + (
            "every word in a bank of its own"
            if max(counts) == 1
            else f"{sum(map(bool, counts))} of {BANKS} banks, {max(counts)} words in the busiest"
        )
        for pitch, lines, _, counts in drawn
    ]
    said = "; ".join(told)
    said = said[0].upper() + said[1:]
    alt = (
        f"{WARP} lanes read one column of a matrix, a word in each of {WARP} rows; drawn are the "
        f"{LINE}-byte lines that hold them, and the words that each of {BANKS} banks has to deliver. "
        f"{said}."
    )
    if caption is None:
        caption = (
            f"One request for a column of a matrix. Each row of the picture is the {LINE}-byte line "
            f"that a lane needs. {said}. Queues at banks of L1 are a hypothesis, counted below."
        )
    return both(draw, alt, caption)


def warp_over_operands(t: Any, *, caption: str | None = None) -> Figure:
    """One warp laid over A, B and C: the elements of its first requests, and the sectors they lie in.

    t: a trace of a product with samples (`trace(..., samples=True)`), of a kernel whose threads read A
    and B from global memory. A stands left of C and B above it, so that rows and columns line up.
    Raises DataError if the trace kept no request of one of the three.
    """
    plan, first = t.plan, {}
    for (_, space, op), kept in sorted(recorded(t).items()):
        for name, size, offsets in kept:
            if space == "global" and op == ("store" if name == "C" else "load"):
                first.setdefault(
                    name, sorted({int(at) // int(size) for at in offsets[0] if at >= 0})
                )
    missing = [name for name in "ABC" if name not in first]
    if missing:
        raise DataError(f"the trace kept no request for {missing[0]}: give samples=True")
    shapes = {"A": (plan.M, plan.K), "B": (plan.K, plan.N), "C": (plan.M, plan.N)}
    a_sector = SECTOR // WORD
    marks = (
        Mark("element that a lane wants", fill=VERMILION, alpha=0.9, edge=VERMILION),
        Mark("sector that comes with it", fill=BLUE, alpha=0.35, edge=BLUE),
    )
    sectors = {name: sorted({e // a_sector for e in first[name]}) for name in "ABC"}

    def matrix(canvas: Canvas, name: str, x: float, y: float, cell: float) -> None:
        rows, cols = shapes[name]
        for s in sectors[name]:
            row, col = divmod(s * a_sector, cols)
            wide = min(a_sector, cols - col) * cell
            canvas.rect(
                x + col * cell, y + row * cell, wide, cell, fill=BLUE, alpha=0.35, edge=None
            )
        for e in first[name]:
            row, col = divmod(e, cols)
            canvas.rect(
                x + col * cell, y + row * cell, cell, cell, fill=VERMILION, alpha=0.9, edge=None
            )
        canvas.rect(x, y, cols * cell, rows * cell, lw=1.1)

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        top = draw_key(canvas, marks) + 4
        gap, words = 14.0, at.small + 6
        (m, k), (_, n) = shapes["A"], shapes["B"]
        cell = min((at.width - gap - 2) / (k + n), 3.2)
        left = 1 + k * cell + gap
        said = {name: f"{name}: {counted(len(sectors[name]), 'sector')}" for name in "ABC"}
        canvas.text(left, top + words / 2, said["B"], size=at.small, weight="bold")
        matrix(canvas, "B", left, top + words, cell)
        low = top + words + k * cell + gap
        for name, x in (("A", 1.0), ("C", left)):
            canvas.text(x, low + words / 2, said[name], size=at.small, weight="bold")
            matrix(canvas, name, x, low + words, cell)
        return canvas.end(low + words + m * cell + 3)

    told = ", ".join(
        f"{counted(len(first[name]), 'element')} of {name} in {counted(len(sectors[name]), 'sector')}"
        for name in "ABC"
    )
    kernel = plan.kernel.name
    alt = f"One warp of {kernel} over the three matrices, A left of C and B above it. It asks for {told}."
    if caption is None:
        caption = f"{kernel}: the first request of one warp for A and B, and its store to C, from the emulator."
    return both(draw, alt, caption)
