"""A picture of chapter 10: the words of a 16-byte read over the banks, before and after."""

from collections.abc import Mapping
from typing import Any

from helpers.colours import BLUE, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.lane_phases import GROUP, HALF, QUARTER, first_read, lanes_text, phases
from helpers.draw.surface import Canvas, Column, Mark, draw_key, text_width
from helpers.wording import counted, join
from nogpu.emulator.observe.counts import BANKS, wide_load


def wide_reads(cases: Mapping[str, Any], *, array: str = "B_tile") -> Figure:
    """The words that half a warp wants in one 16-byte read, over the banks, before and after.

    cases: a title, and what trace() or emulator.launch() returned of the kernel.
    """
    reads = {title: first_read(report, array) for title, report in cases.items()}
    marks = [
        Mark("lanes 0–7, the first quarter", BLUE, 0.45, BLUE),
        Mark("lanes 8–15, the second", VERMILION, 0.2, VERMILION),
    ]
    costs = {title: (phases(words), wide_load(words)) for title, words in reads.items()}

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        y = draw_key(canvas, marks) + 2
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
                span = f"{line * BANKS}–{line * BANKS + BANKS - 1}"
                canvas.text(left - 5, y + tall / 2, span, size=at.tiny, ha="right")
                for j in range(per_line):
                    lane = lanes.get(line * per_line + j)
                    if lane is not None:
                        box = left + j * cell, y, cell, tall
                        canvas.marked(*box, marks[lane // QUARTER], edge=None)
                        canvas.centred(*box, lane, size=at.tiny + 1)
                edges = [left + j * cell for j in range(per_line + 1)]
                canvas.segments([(x, y, x, y + tall) for x in edges], lw=0.5)
                canvas.segments([(left, z, edges[-1], z) for z in (y, y + tall)], lw=0.5)
                y += tall
            served, whole = costs[title]
            waves = counted(served[0].wavefronts, "wavefront")
            words_ = f"{lanes_text(served[0].lanes)}: {waves}; the warp: {whole}"
            y = canvas.lines(left, y + 11, words_, width=at.width - left, size=at.small) + 14
        return canvas.end(y - 4)

    parts = []
    for title, words in reads.items():
        served, whole = costs[title]
        firsts = sorted({word % BANKS for word in words[: len(served[0].lanes)]})
        banks = join([f"{bank}–{bank + GROUP - 1}" for bank in firsts])
        parts.append(
            f"{title}: {lanes_text(served[0].lanes)} want {served[0].groups} groups of four words "
            f"in banks {banks}, {counted(served[0].wavefronts, 'wavefront')}; the whole read takes "
            f"{whole}"
        )
    alt = f"Words of shared memory over the banks, one line for all {BANKS}. {'. '.join(parts)}."
    caption = (
        "One 16-byte read of a row of B. A line holds 32 words, one for each bank; the number "
        "in a group of four is the lane that wants it. Lanes 16–31 want the same as lanes 0–15."
    )
    return both(draw, alt, caption)
