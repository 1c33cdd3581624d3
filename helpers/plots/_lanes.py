"""The lanes of a warp over its part of C, their 16-byte reads phase by phase, and cover for loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.device import WARP
from helpers.emulator.observe.counts import wide_load
from helpers.errors import DataError
from helpers.plots._diagrams import BANKS, WORD, _count, _draw_key, _Mark, recorded
from helpers.plots._svg import (
    BLUE,
    GREEN,
    GREY,
    PURPLE,
    VERMILION,
    Canvas,
    Column,
    Figure,
    both,
    join,
    number,
    text_width,
)

QUARTER, HALF, GROUP = WARP // 4, WARP // 2, 4
"""Lanes of a phase, lanes of two that may pass together, and floats of a 16-byte read."""
COLOURS = (BLUE, VERMILION, GREEN, PURPLE)


@dataclass(frozen=True)
class Phase:
    """Lanes of a 16-byte read that are served together: different groups of four, wavefronts."""

    lanes: range
    groups: int
    wavefronts: int


def phases(words: Sequence[int]) -> tuple[Phase, ...]:
    """How a warp's 16-byte load is served; words: the first word that each of 32 lanes wants.

    Two quarters of a half-warp pass together where the emulator counts less for both than for each.
    """

    def served(lanes: range) -> Phase:
        only = [word if lane in lanes else -1 for lane, word in enumerate(words)]
        return Phase(lanes, len({words[lane] for lane in lanes}), wide_load(only))

    found: list[Phase] = []
    for first in range(0, WARP, HALF):
        middle, end = first + QUARTER, first + HALF
        apart = [served(range(first, middle)), served(range(middle, end))]
        together = served(range(first, end))
        found += (
            [together] if together.wavefronts < sum(phase.wavefronts for phase in apart) else apart
        )
    return tuple(found)


def first_read(report: Any, array: str) -> tuple[int, ...]:
    """The words of shared memory at which 32 lanes begin the first 16-byte read of a tile.

    report: what trace() or emulator.launch() returned. Raises DataError where there is none.
    """
    wide = {
        row.line
        for row in report.by_line()
        if (row.space, row.op, row.array, row.width_bytes) == ("shared", "load", array, 4 * WORD)
    }
    samples = recorded(report)
    reads = [
        [int(at) // WORD for at in warp]
        for line in sorted(wide)
        for name, _, offsets in samples.get((line, "shared", "load"), ())
        if name == array
        for warp in offsets
    ]
    reads = [read for read in reads if min(read) >= 0]
    if not reads:
        raise DataError(f"this launch recorded no 16-byte read of {array} by a whole warp")
    return tuple(min(reads, key=min))


def _lanes_text(lanes: range) -> str:
    return f"lanes {lanes[0]}–{lanes[-1]}"


def _quarters() -> list[_Mark]:
    marks = []
    for i, colour in enumerate(COLOURS):
        lanes = range(i * QUARTER, (i + 1) * QUARTER)
        marks.append(_Mark(_lanes_text(lanes), colour, 0.35, colour))
    return marks


def _strip(canvas: Canvas, y: float, words: Sequence[int], served: Sequence[Phase]) -> float:
    """Lanes side by side with the word that each wants, framed phase by phase; the y below."""
    at = canvas.at
    along = HALF if at.narrow else WARP
    cell, tall = (at.width - 2) / along, at.tiny + 8
    for start in range(0, WARP, along):
        for lane in range(start, start + along):
            x = 1 + (lane - start) * cell
            canvas.rect(x, y, cell, tall, fill=COLOURS[lane // QUARTER], alpha=0.35, edge=None)
            words_ = str(words[lane])
            canvas.text(x + cell / 2, y + tall / 2, words_, size=at.tiny, ha="center")
        for phase in served:
            first, count = phase.lanes[0], len(phase.lanes)
            if not start <= first < start + along:
                continue
            x = 1 + (first - start) * cell
            canvas.rect(x + 0.8, y, count * cell - 1.6, tall, lw=1.6)
            told = f"{_count(phase.groups, 'group')}, {_count(phase.wavefronts, 'wavefront')}"
            middle = x + count * cell / 2
            canvas.text(middle, y + tall + at.small / 2 + 3, told, size=at.small, ha="center")
        y += tall + at.small + 10
    return y


def lane_map(report: Any, *, caption: str | None = None) -> Figure:
    """Which lane of a warp computes which patch of C, and how its reads of A and B are served.

    report: what trace() or emulator.launch() returned of a kernel that reads A_tile (a row holds
    one k) and B_tile 16 bytes at a time; the places of the lanes are those of its first reads.
    Raises DataError where there is no such read.
    """
    rows, columns = first_read(report, "A_tile"), first_read(report, "B_tile")
    down, across = sorted(set(rows)), sorted(set(columns))
    reads = {"A": (rows, phases(rows)), "B": (columns, phases(columns))}
    waves = {name: sum(p.wavefronts for p in served) for name, (_, served) in reads.items()}

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        tiny, tall = at.tiny, at.tiny + 9
        y = _draw_key(canvas, _quarters()) + 2
        left = 8 + max(text_width(str(row), tiny) for row in down)
        cell = min((at.width - left - 1) / len(across), 46.0)
        y = canvas.lines(0, y + 5, "first column of C", width=at.width, size=at.small) + 14
        for j, column in enumerate(across):
            canvas.text(left + (j + 0.5) * cell, y, str(column), size=tiny, ha="center")
        y += 8
        for i, row in enumerate(down):
            canvas.text(left - 5, y + (i + 0.5) * tall, str(row), size=tiny, ha="right")
        for lane, (row, column) in enumerate(zip(rows, columns, strict=True)):
            x0, y0 = left + across.index(column) * cell, y + down.index(row) * tall
            canvas.rect(x0, y0, cell, tall, fill=COLOURS[lane // QUARTER], alpha=0.35, edge=None)
            canvas.text(
                x0 + cell / 2, y0 + tall / 2, str(lane), size=at.small if not at.narrow else tiny,
                ha="center",
            )  # fmt: skip
        low, right = y + len(down) * tall, left + len(across) * cell
        canvas.segments(
            [(left, y + i * tall, right, y + i * tall) for i in range(len(down) + 1)]
            + [(left + j * cell, y, left + j * cell, low) for j in range(len(across) + 1)],
            lw=0.6,
        )
        y = canvas.lines(0, low + 11, "↑ first row of C", width=at.width, size=at.small) + 20
        for name, what in (("A", "row"), ("B", "column")):
            words, served = reads[name]
            title = f"One read of {name}, lane by lane: the {what} that each wants"
            y = canvas.lines(0, y, title, width=at.width, size=at.small + 0.5, weight="bold") + 10
            y = _strip(canvas, y, words, served) + 8
        return canvas.end(y - 6)

    told = []
    for name, (_, served) in reads.items():
        parts = [f"{_lanes_text(p.lanes)} {_count(p.groups, 'group')}" for p in served]
        told.append(f"a read of {name} takes {waves[name]} wavefronts ({', '.join(parts)})")
    finding = "; ".join(told)
    alt = (
        f"A warp's 32 lanes over its part of C, {len(down)} rows of patches by {len(across)} "
        f"columns of patches: lane 0 has row {rows[0]}, column {columns[0]}, lane 1 row {rows[1]}, "
        f"column {columns[1]}, lane 2 row {rows[2]}, column {columns[2]}. "
        f"{finding[0].upper()}{finding[1:]}; a group is four floats."
    )
    if caption is None:
        caption = (
            f"Each lane's first patch. A read brings four floats for every lane: "
            f"{waves['A']} wavefronts for A, {waves['B']} for B."
        )
    return both(draw, alt, caption)


def wide_reads(
    cases: Mapping[str, Any], *, array: str = "B_tile", caption: str | None = None
) -> Figure:
    """The words that half a warp wants in one 16-byte read, over the banks, before and after.

    cases: a title, and what trace() or emulator.launch() returned of the kernel.
    """
    reads = {title: first_read(report, array) for title, report in cases.items()}
    marks = [
        _Mark("lanes 0–7, the first quarter", BLUE, 0.45, BLUE),
        _Mark("lanes 8–15, the second", VERMILION, 0.2, VERMILION),
    ]
    costs = {title: (phases(words), wide_load(words)) for title, words in reads.items()}

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        y = _draw_key(canvas, marks) + 2
        most = max(max(words[:HALF]) for words in reads.values())
        span = f"{most // BANKS * BANKS}–{most // BANKS * BANKS + BANKS - 1}"
        named = "from bank" if at.narrow else "banks"
        left = 8 + max(text_width(words_, at.tiny) for words_ in (span, named))
        tall = at.tiny + 9
        per_line = BANKS // GROUP
        cell = (at.width - 1 - left) / per_line
        for title, words in reads.items():
            y = canvas.lines(0, y + 6, title, width=at.width, size=at.font, weight="bold") + 15
            canvas.text(left - 5, y, named, size=at.tiny, ha="right")
            for j in range(per_line):
                banks = str(GROUP * j) + f"–{GROUP * j + GROUP - 1}" * (not at.narrow)
                canvas.text(left + (j + 0.5) * cell, y, banks, size=at.tiny, ha="center")
            y += 9
            lanes = {words[lane] // GROUP: lane for lane in reversed(range(HALF))}
            for line in sorted({group // per_line for group in lanes}):
                first = line * BANKS
                canvas.text(
                    left - 5, y + tall / 2, f"{first}–{first + BANKS - 1}", size=at.tiny, ha="right"
                )
                for j in range(per_line):
                    lane = lanes.get(line * per_line + j)
                    if lane is not None:
                        mark = marks[lane // QUARTER]
                        canvas.rect(
                            left + j * cell, y, cell, tall, fill=mark.fill, alpha=mark.alpha,
                            edge=None,
                        )  # fmt: skip
                        canvas.text(
                            left + (j + 0.5) * cell, y + tall / 2, str(lane), size=at.tiny + 1,
                            ha="center",
                        )  # fmt: skip
                edges = [left + j * cell for j in range(per_line + 1)]
                canvas.segments([(x, y, x, y + tall) for x in edges], lw=0.5)
                canvas.segments([(left, z, edges[-1], z) for z in (y, y + tall)], lw=0.5)
                y += tall
            served, whole = costs[title]
            waves = _count(served[0].wavefronts, "wavefront")
            words_ = f"{_lanes_text(served[0].lanes)}: {waves}; the warp: {whole}"
            y = canvas.lines(left, y + 11, words_, width=at.width - left, size=at.small) + 14
        return canvas.end(y - 4)

    told = []
    for title, words in reads.items():
        served, whole = costs[title]
        wants = {
            f"{word % BANKS}–{word % BANKS + GROUP - 1}" for word in words[: len(served[0].lanes)]
        }
        banks = join(sorted(wants, key=lambda text: int(text.split("–")[0])))
        told.append(
            f"{title}: {_lanes_text(served[0].lanes)} want {served[0].groups} groups of four words in banks {banks}, "
            f"{_count(served[0].wavefronts, 'wavefront')}; the whole read takes {whole}"
        )
    alt = f"Words of shared memory over the banks, one line for all {BANKS}. {'. '.join(told)}."
    if caption is None:
        caption = (
            "One 16-byte read of a row of B. A line holds 32 words, one for each bank; the number "
            "in a group of four is the lane that wants it. Lanes 16–31 want the same as lanes 0–15."
        )
    return both(draw, alt, caption)


def load_cover(
    cover: Mapping[str, tuple[int, int]],
    latencies: Mapping[str, float],
    *,
    clocks: float = 4.0,
    caption: str | None = None,
) -> Figure:
    """Clocks of multiply-adds between the last load of a tile and the first need of one, by kernel.

    cover: of each kernel, the multiply-adds in between and those of a whole step. latencies: a name
    and clocks, drawn as lines. clocks: of one multiply-add of every warp of a scheduler.
    Raises DataError for a cover that is longer than its step.
    """
    for name, (covered, step) in cover.items():
        if not 0 <= covered <= step or step < 1:
            raise DataError(f"{name}: {covered} of {step} multiply-adds: give 0 to a whole step")
    most = clocks * max(step for _, step in cover.values())
    marks = [
        _Mark("multiply-adds while the load is on its way", GREEN, 0.45, GREEN),
        _Mark("the other multiply-adds of the step", GREY, 0.12, GREY),
        *(
            _Mark(f"a load from {name} takes about {number(value)} clocks", None, 1, colour, lw=1.8)
            for (name, value), colour in zip(latencies.items(), (BLUE, VERMILION), strict=False)
        ),
    ]

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        y = _draw_key(canvas, marks) + 4
        left = 2.0 if at.narrow else 8 + max(text_width(name, at.small) for name in cover)
        span, thick = at.width - left - 8, 17.0
        for name, (covered, step) in cover.items():
            if at.narrow:
                canvas.text(left, y + 7, name, size=at.small)
                y += 16
            else:
                canvas.text(left - 6, y + thick / 2, name, size=at.small, ha="right")
            width, whole = span * clocks * covered / most, span * clocks * step / most
            canvas.rect(left, y, whole, thick, fill=GREY, alpha=0.12, edge=GREY, lw=0.8)
            if covered:
                canvas.rect(left, y, width, thick, fill=GREEN, alpha=0.45, edge=GREEN)
            for value, colour in zip(latencies.values(), (BLUE, VERMILION), strict=False):
                x = left + span * value / most
                canvas.line(x, y - 3, x, y + thick + 3, colour=colour, lw=1.8)
            words = f"{covered} of {step}"
            room = text_width(words, at.small) + 8
            x = max(left + width, left + span * max(latencies.values(), default=0) / most) + 5
            ha: Any = "left"
            if x + room > at.width:
                x, ha = left + width - 5, "right"
            canvas.text(x, y + thick / 2, words, size=at.small, ha=ha)
            y += thick + 8
        canvas.line(left, y, left + span, y, lw=0.8)
        step_ = 1000 if most > 2500 else 500
        for tick in range(0, int(most) + 1, step_):
            x = left + span * tick / most
            canvas.line(x, y, x, y + 4, lw=0.8)
            half = text_width(f"{tick:,}", at.small) / 2
            x = min(max(x, half), at.width - half)
            canvas.text(x, y + 12, f"{tick:,}", size=at.small, ha="center")
        words = "clocks of multiply-adds after the last load of a tile"
        y = canvas.lines(
            left + span / 2, y + 27, words, width=at.width - 4, size=at.small, ha="center"
        )
        return canvas.end(y + 9)

    told = [
        f"{name} {covered} of {step} multiply-adds, {number(clocks * covered, 4)} clocks"
        for name, (covered, step) in cover.items()
    ]
    takes = [f"{number(value)} from {name}" for name, value in latencies.items()]
    alt = (
        "Multiply-adds that run between the last load of a tile and the first need of one: "
        f"{'; '.join(told)}."
    )
    if takes:
        alt += f" Clocks that a load takes: about {join(takes)}."
    if caption is None:
        caption = (
            "One step of each kernel, from the moment its last load is sent: how many of its "
            f"multiply-adds run before the data is needed, at {number(clocks)} clocks each."
        )
    return both(draw, alt, caption)
