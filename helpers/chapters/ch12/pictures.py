"""A picture of chapter 12: a warp's lanes over its part of C, and how their reads are served."""

from collections.abc import Mapping, Sequence
from typing import Any

from helpers.draw import lane_phases
from helpers.draw.figures import Figure, both
from helpers.draw.lane_phases import HALF, QUARTER, Phase, first_read, lanes_text, phases
from helpers.draw.surface import Canvas, Column, Mark, draw_key, text_width
from helpers.wording import counted
from nogpu.device import WARP

QUARTERS = [
    Mark(lanes_text(range(i * QUARTER, (i + 1) * QUARTER)), colour, 0.35, colour)
    for i, colour in enumerate(lane_phases.LANE_COLOURS)
]
"""The look of each quarter of a warp."""


def _strip(canvas: Canvas, y: float, words: Sequence[int], served: Sequence[Phase]) -> float:
    """Lanes side by side with the word that each wants, framed phase by phase; the y below."""
    at = canvas.at
    along = HALF if at.narrow else WARP
    cell, tall = (at.width - 2) / along, at.tiny + 8
    for start in range(0, WARP, along):
        for lane in range(start, start + along):
            box = 1 + (lane - start) * cell, y, cell, tall
            canvas.marked(*box, QUARTERS[lane // QUARTER], edge=None)
            canvas.centred(*box, words[lane], size=at.tiny)
        for phase in served:
            first, count = phase.lanes[0], len(phase.lanes)
            if not start <= first < start + along:
                continue
            x = 1 + (first - start) * cell
            canvas.rect(x + 0.8, y, count * cell - 1.6, tall, lw=1.6)
            cost = f"{counted(phase.groups, 'group')}, {counted(phase.wavefronts, 'wavefront')}"
            middle = x + count * cell / 2
            canvas.text(middle, y + tall + at.small / 2 + 3, cost, size=at.small, ha="center")
        y += tall + at.small + 10
    return y


def _grid(canvas: Canvas, y: float, report: Any) -> float:
    """A warp's lanes over its part of C, and its two reads below; the y below them."""
    at = canvas.at
    rows, columns = first_read(report, "A_tile"), first_read(report, "B_tile")
    down, across = sorted(set(rows)), sorted(set(columns))
    tiny, tall = at.tiny, at.tiny + 9
    left = 8 + max(text_width(str(row), tiny) for row in down)
    cell = min((at.width - left - 1) / len(across), 46.0)
    y = canvas.lines(0, y + 5, "first column of C", width=at.width, size=at.small) + 14
    for j, column in enumerate(across):
        canvas.text(left + (j + 0.5) * cell, y, str(column), size=tiny, ha="center")
    y += 8
    for i, row in enumerate(down):
        canvas.text(left - 5, y + (i + 0.5) * tall, str(row), size=tiny, ha="right")
    for lane, (row, column) in enumerate(zip(rows, columns, strict=True)):
        box = left + across.index(column) * cell, y + down.index(row) * tall, cell, tall
        canvas.marked(*box, QUARTERS[lane // QUARTER], edge=None)
        canvas.centred(*box, lane, size=tiny if at.narrow else at.small)
    low = y + len(down) * tall
    canvas.grid(left, y, (len(across), len(down)), (cell, tall), lw=0.6)
    y = canvas.lines(0, low + 11, "↑ first row of C", width=at.width, size=at.small) + 20
    for name, what, words in (("A", "row", rows), ("B", "column", columns)):
        title = f"One read of {name}, lane by lane: the {what} that each wants"
        y = canvas.lines(0, y, title, width=at.width, size=at.small + 0.5, weight="bold") + 10
        y = _strip(canvas, y, words, phases(words)) + 8
    return y


def _counted(report: Any) -> tuple[str, dict[str, int]]:
    """The finding of a lane map in words, and the wavefronts of a read of A and of B."""
    words = {name: first_read(report, f"{name}_tile") for name in ("A", "B")}
    rows, columns = words.values()
    waves, costs = {}, []
    for name, wanted in words.items():
        served = phases(wanted)
        waves[name] = sum(p.wavefronts for p in served)
        parts = [f"{lanes_text(p.lanes)} {counted(p.groups, 'group')}" for p in served]
        costs.append(f"a read of {name} takes {waves[name]} wavefronts ({', '.join(parts)})")
    finding = "; ".join(costs)
    sentence = (
        f"A warp's 32 lanes over its part of C, {len(set(rows))} rows of thread tiles by"
        f" {len(set(columns))} columns of them: lane 0 has row {rows[0]}, column {columns[0]},"
        f" lane 1 row {rows[1]}, column {columns[1]}, lane 2 row {rows[2]}, column"
        f" {columns[2]}. {finding[0].upper()}{finding[1:]}"
    )
    return sentence, waves


def lane_map(report: Any) -> Figure:
    """Which lane of a warp computes which thread tile of C, and how its reads of A and B are
    served.

    report: what trace() or emulator.launch() returned of a kernel that reads A_tile (a row holds
    one k) and B_tile 16 bytes at a time, or several of them by title, drawn one below the other;
    the places of the lanes are those of its first reads. Raises DataError where there is no such
    read.
    """
    cases = report if isinstance(report, Mapping) else {"": report}
    counted = {title: _counted(each) for title, each in cases.items()}

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        y = draw_key(canvas, QUARTERS) + 2
        for title, each in cases.items():
            if title:
                y = canvas.lines(0, y + 6, title, width=at.width, size=at.font, weight="bold") + 12
            y = _grid(canvas, y, each)
        return canvas.end(y - 6)

    parts = [f"{title}: {words}" if title else words for title, (words, _) in counted.items()]
    alt = f"{'. '.join(parts)}; a group is four floats."
    costs = [
        f"{title}: " * bool(title) + f"{waves['A']} wavefronts for A, {waves['B']} for B"
        for title, (_, waves) in counted.items()
    ]
    caption = (
        "The number in a cell is a lane, and the cell is where its thread tile begins. A read "
        f"brings four floats for every lane. {'; '.join(costs)}."
    )
    return both(draw, alt, caption)
