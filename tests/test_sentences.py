"""What chapters 7 to 11 say by the record: all of it is true of the record, and of another it is
not.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from helpers.chapters.ch07 import sentences as ch07
from helpers.chapters.ch07 import sweeps
from helpers.chapters.ch08 import sentences as ch08
from helpers.chapters.ch09 import sentences as ch09
from helpers.chapters.ch10 import sentences as ch10
from helpers.chapters.ch11 import sentences as ch11
from helpers.chapters.ch11 import steps

PAGES = {
    "07": (ch07.of_the_record, 8),
    "08": (ch08.of_the_record, 12),
    "09": (ch09.of_the_record, 7),
    "09 mirrors": (ch09.of_the_mirrors, 9),
    "10": (ch10.of_the_record, 12),
    "11": (lambda: ch11.of_the_record(steps.recorded(ch11.NAMES)), 20),
}


@pytest.mark.parametrize("page", PAGES)
def test_every_condition_holds_on_the_record(page: str) -> None:
    made, least = PAGES[page]
    facts = made()
    assert len(facts.true) >= least
    assert [word for word, true in facts.true.items() if true is not True] == []
    assert facts.numbers


@pytest.mark.parametrize(
    ("module", "column", "factor", "falls"),
    [
        (ch07, "multiply_adds_per_wavefront", {"tiled_pad_rows": 1.5}, {"more wavefronts", "rate follows"}),
        (ch07, "occupancy_percent", {"tiled_8": 0.5}, {"not occupancy"}),
        (ch08, "multiply_adds_per_wavefront", {"tiled_32": 2.0}, {"less than one", "complete"}),
        (ch08, "multiply_adds_per_wavefront", {"block_1d": 0.5}, {"predicted"}),
        (ch09, "shared_load_conflicts", {"block_2d": 0.1}, {"collide"}),
        (ch09, "store_sectors_per_request", {"block_2d": 0.1}, {"stores"}),
        (ch10, "shared_load_instructions", {"vectorised": 0.25}, {"each", "as many reads"}),
        (ch10, "global_load_requests", {"vectorised": 4.0}, {"fewer"}),
    ],
)  # fmt: skip
def test_other_counters_refute_what_rests_on_them_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, module: Any, column: str, factor: dict[str, float], falls: set[str]
) -> None:  # fmt: skip
    counted = module.counters

    def other(kernel: str, size: int) -> list[dict[str, float]]:
        [row] = counted(kernel, size)
        return [dict(row) | {column: row[column] * factor.get(kernel, 1)}]

    monkeypatch.setattr(module, "counters", other)
    true = module.of_the_record().true
    assert {word for word, holds in true.items() if not holds} == falls


@pytest.mark.parametrize(
    ("kernel", "bk", "share", "falls"),
    [
        ("cp_async", 8, 90.0, {"behind"}),
        ("cp_async", 16, 80.0, {"buys the step"}),
        ("prefetch", 16, 84.0, {"both lose"}),
        ("vectorised", 16, 70.0, {"every step"}),
    ],
)
def test_other_steps_refute_what_rests_on_them(
    kernel: str, bk: int, share: float, falls: set[str]
) -> None:
    known = steps.recorded(ch11.NAMES)
    other = dataclasses.replace(known, share=known.share | {(kernel, bk): share})
    true = ch11.of_the_record(other).true
    assert falls <= {word for word, holds in true.items() if not holds}


def test_other_sweeps_refute_what_rests_on_them() -> None:
    patches, more = sweeps.by_patch("h200"), sweeps.with_more_warps("h200")
    assert all(ch07.of_the_sweeps(patches, more).true.values())
    turned = dataclasses.replace(patches, rows=patches.rows[::-1], fuller=0.9)
    lost = {steps_: [-abs(c) for c in found] for steps_, found in more.changes.items()}
    true = ch07.of_the_sweeps(turned, dataclasses.replace(more, changes=lost)).true
    assert not any(true.values())
