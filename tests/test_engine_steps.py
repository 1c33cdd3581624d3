"""When slots of shared memory are filled and read, as the emulator tells it: order, owners, and
faults that show."""

from __future__ import annotations

from itertools import pairwise

import pytest

from helpers import plan, trace
from helpers.ladder.rungs import catalog
from nogpu import emulator
from nogpu.errors import ConfigError, EmulationError

IN_ORDER = ("copy begun", "copy awaited", "read begun", "read ended")


def by_slot(steps):
    """Of each slot its fills, and of these the order of what happened."""
    fills: dict[int, dict[str, int]] = {}
    slots: dict[int, list[dict[str, int]]] = {}
    for step in steps:
        if step.fill not in fills:
            slots.setdefault(step.at, []).append(fills.setdefault(step.fill, {}))
        fills[step.fill][step.what] = step.order
    return slots


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("name", ["mma_tma", "hopper_1", "hopper_2", "hopper_3"])
def test_slots_are_filled_awaited_read_and_then_filled_again(name, schedule):
    t = trace(name, M=100, N=120, K=600, schedule=schedule, engines=True)
    steps, ring = t.engine_steps(), t.plan.kernel
    assert t.ok and [s.order for s in steps] == sorted(s.order for s in steps)
    slots = by_slot(steps)
    stages = t.plan.params.get("STAGES", 1)
    assert sum(len(fills) for fills in slots.values()) == -(-600 // 64)
    if ring.name != "hopper_1":  # A and B of its one stage lie apart, at one barrier
        assert len(slots) == stages
    for fills in slots.values():
        for fill in fills:
            assert tuple(fill) == IN_ORDER and list(fill.values()) == sorted(fill.values())
        for now, after in pairwise(fills):
            assert now["read ended"] < after["copy begun"]
    lines = ring.source.splitlines()
    assert all(
        "tma_load" in " ".join(lines[s.line - 1 : s.line + 1]) for s in steps if "copy" in s.what
    )


def test_a_slot_that_is_filled_while_products_read_it_shows():
    text = catalog["hopper_2"].source.replace("        wgmma_finish(sum);\n", "")
    late = plan("hopper_2", 100, 120, 600).with_source(text).trace(engines=True)
    assert not late.ok
    slots = by_slot(late.engine_steps()).values()
    pairs = (pair for fills in slots for pair in pairwise(fills))
    early = [b for a, b in pairs if a.get("read ended", 1 << 30) > b["copy begun"]]
    assert early, "the wrong twin hands slots back in time"


def test_only_the_first_block_is_told_of():
    one = trace("hopper_2", M=100, N=120, K=600, engines=True)
    four = trace("hopper_2", M=200, N=240, K=600, engines=True)
    assert four.plan.grid != one.plan.grid
    assert len(four.engine_steps()) == len(one.engine_steps())


def test_what_was_not_asked_for_is_not_there():
    with pytest.raises(EmulationError, match="engines=True"):
        trace("hopper_1", M=8, N=8, K=8).engine_steps()
    assert trace("naive", M=8, N=8, K=8, engines=True).engine_steps() == ()
    with pytest.raises(ConfigError, match="engines"):
        emulator.launch('extern "C" __global__ void k() {}', "k", 1, 1, [], engines=3)
