"""How a warp's 16-byte reads of shared memory are served, a phase of lanes at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from helpers.colours import BLUE, GREEN, PURPLE, VERMILION
from helpers.draw.access_maps import recorded
from nogpu.device import WARP, WORD
from nogpu.emulator.observe.counts import wide_load
from nogpu.errors import DataError

QUARTER, HALF, GROUP = WARP // 4, WARP // 2, 4
"""Lanes of a phase, lanes of two that may pass together, and floats of a 16-byte read."""
LANE_COLOURS = (BLUE, VERMILION, GREEN, PURPLE)


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

    in_order: list[Phase] = []
    for first in range(0, WARP, HALF):
        middle, end = first + QUARTER, first + HALF
        apart = [served(range(first, middle)), served(range(middle, end))]
        together = served(range(first, end))
        less = together.wavefronts < sum(phase.wavefronts for phase in apart)
        in_order += [together] if less else apart
    return tuple(in_order)


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
    every = (row for line in sorted(wide) for row in samples.get((line, "shared", "load"), ()))
    warps = (warp for name, _, offsets in every if name == array for warp in offsets)
    reads = [[int(at) // WORD for at in warp] for warp in warps]
    reads = [read for read in reads if min(read) >= 0]
    if not reads:
        raise DataError(f"this launch recorded no 16-byte read of {array} by a whole warp")
    return tuple(min(reads, key=min))


def lanes_text(lanes: range) -> str:
    """ "lanes 0–7"."""
    return f"lanes {lanes[0]}–{lanes[-1]}"
