"""Checks for the exercises of chapter 12, the lane map."""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from helpers.draw.lane_phases import first_read
from helpers.ladder.launch import Trace
from helpers.ladder.rungs import catalog
from helpers.page.exercises import Check, exercise, number, unseen
from helpers.record.plans import plan
from nogpu.emulator.observe.counts import wide_load
from nogpu.errors import ConfigError

number(
    "12.1",
    "Wavefronts for each k of a warp that is one row of 32 patches of 16x8",
    16,
    tolerance=0,
    what="wavefronts",
    hint="A lane reads 16/4 times from A and 8/4 times from B. How many wavefronts has each read?",
    mistakes={
        12: "that takes squares of lanes, and one row of lanes has none",
        6: "those are the reads",
        8: "that is what A takes, or B; the warp reads both",
        20: "it is A that all lanes want alike, and of B each wants another group",
        24: "all lanes want the same of A: two quarters pass together",
    },
)


def _maps() -> Iterator[tuple[str, list[int]]]:
    """Groups that 32 lanes want: those of lane maps, and some at random."""
    yield "all alike", [0] * 32
    yield "all different", list(range(32))
    yield "rows of eight lanes", [lane % 8 for lane in range(32)]
    yield "rows of two lanes", [lane % 2 for lane in range(32)]
    yield "rows of A in squares", [lane // 2 % 4 for lane in range(32)]
    yield "columns of B in squares", [lane // 8 * 2 + lane % 2 for lane in range(32)]
    yield "every second group", [2 * lane for lane in range(32)]
    yield "pairs of alike, far apart", [4 * (lane // 2) for lane in range(32)]
    chance = random.Random(12)
    for trial in (1, 2, 3):
        yield f"random groups, {trial}", [chance.randrange(12) for _ in range(32)]
    yield "one half in pairs", [lane // 2 if lane < 16 else lane for lane in range(32)]


@exercise("12.2", kind="python")
def count_a_read(answer: Callable[[list[int]], Any]) -> Iterator[Check]:
    """Wavefronts of a 16-byte read, against the emulator's count."""
    for what, groups in _maps():
        want, got = wide_load([4 * group for group in groups]), answer(list(groups))
        hint = f"the emulator counts {want}; lanes want {groups}"
        yield Check(got == want, f"wavefronts: {what}", got=str(got), hint=hint)


def _cost(groups: Sequence[int]) -> int:
    return wide_load([4 * group for group in groups])


@exercise("12.3", kind="python")
def place(answer: Callable[[int, int, int], Any]) -> Iterator[Check]:
    """A lane map in squares for every even shape of a warp."""
    for down, across in ((2, 16), (4, 8), (8, 4), (16, 2)):
        case = f"{down} x {across} lanes"
        places = [tuple(answer(lane, down, across)) for lane in range(32)]
        every = {(row, column) for row in range(down) for column in range(across)}
        yield Check(
            set(places) == every,
            f"every place is taken once: {case}",
            got=f"{len(set(places) & every)} of 32 places",
            hint=f"32 lanes, 32 places: rows from 0 to {down - 1}, columns from 0 to {across - 1}",
        )
        rows, columns = ([int(at[i]) for at in places] for i in (0, 1))
        cost = _cost(rows), _cost(columns)
        what, got = f"two wavefronts for A and for B: {case}", f"{cost[0]} and {cost[1]}"
        hint = "Every four lanes must form a square of two by two patches."
        yield Check(cost == (2, 2), what, got=got, hint=hint)


NAMES = ("lane_m", "lane_n")
"""The two lines of 12_lane_map.cu that say where a lane computes."""


def with_map(source: str, places: Mapping[str, str]) -> str:
    """The kernel's text with other expressions for lane_m and lane_n.

    Raises ConfigError if it has none.
    """
    for name in NAMES:
        parts = re.split(rf"(const int {name} =)[^;]*;", source)
        if len(parts) != 3:
            raise ConfigError(f"the kernel has no one line that begins with const int {name} =")
        source = f"{parts[0]}{parts[1]} {places[name]};{parts[2]}"
    return source


def _places(t: Trace) -> list[tuple[int, int]]:
    """(row, column) in C of the first element of each lane of the first warp."""
    return list(zip(first_read(t, "A_tile"), first_read(t, "B_tile"), strict=True))


@exercise("12.4", kind="python")
def run_a_map(answer: Mapping[str, str]) -> Iterator[Check]:
    """Another lane map in squares, run in the kernel."""
    if not isinstance(answer, Mapping) or set(answer) != set(NAMES):
        what = "a dict with two expressions in CUDA, lane_m and lane_n"
        yield Check(False, what, got=str(answer))
        return
    source = with_map(catalog["lane_map"].source, {name: str(answer[name]) for name in NAMES})
    for shape in ((128, 128, 16), (130, 259, 17)):
        t = plan("lane_map", *shape).with_source(source).trace(samples=True)
        yield Check(
            t.ok,
            f"the product is right at {'x'.join(map(str, shape))}, and nothing races",
            got="" if t.ok else f"{t.wrong} wrong elements, {len(t.report.findings)} findings",
            hint="lane_m goes from 0 to 3 and lane_n from 0 to 7, and every pair is taken once",
        )
        if not t.ok:
            return
    own = plan("lane_map", 128, 128, 16).trace(samples=True)
    t = plan("lane_map", 128, 128, 16).with_source(source).trace(samples=True)
    reads = {r.array: r.wavefronts_per_request for r in t.by_line()
             if (r.space, r.op) == ("shared", "load")}  # fmt: skip
    yield Check(
        set(reads.values()) == {2.0},
        "a read of A and a read of B take two wavefronts",
        got=", ".join(f"{array} {count:g}" for array, count in reads.items()),
        hint="every four lanes in a row must form a square of two by two",
    )
    hint = "number the squares along the rows, or exchange what bits 0 and 1 choose"
    yield Check(_places(t) != _places(own), "it is another map than the kernel's", hint=hint)


unseen.predictions("12.5", unseen.AFTER_LANES)
