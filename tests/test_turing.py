"""What chapter 14 predicts for a T4: counts of the machine code for sm_75, and nothing measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.chapters.ch14 import bands, sweeps, turing
from helpers.ladder import usage
from helpers.ladder.rungs import catalog, lay_out
from helpers.record import costs
from nogpu import device

pytestmark = pytest.mark.nvrtc
T4 = device.gpu("t4")


def test_the_table_says_what_the_cost_model_and_the_compiler_say():
    facts = turing.facts()
    for row, tile in ((facts.rows[2], turing.LARGER), (facts.rows[3], {})):
        b = costs.bounds("fp32_turing", 4096, gpu="t4", **tile)
        r = usage.resources_of(lay_out("fp32_turing", 4096, 4096, 4096, **tile), "sm_75")
        assert row["registers a thread"] == r.registers
        assert row["blocks an SM"] == r.occupancy.blocks == 2
        assert row[costs.L1] == pytest.approx(100 * b[costs.L1].ms / b.ms)
        assert row["TFLOP/s at most"] <= b.gflops / 1e3 < T4.peak_gflops("fp32") / 1e3
    assert set(turing.FORMATS) < set(facts.rows[0])
    assert facts.late < 16 < 32 < facts.early and facts.tile != (128, 128)


def test_with_twice_the_lanes_the_small_patch_is_bound_by_its_slots():
    """The wrong twin of "the FMA pipe binds": the same kernel on an H200."""
    assert costs.bounds("fp32_turing", 4096, gpu="t4").pipe == "FMA pipe"
    assert costs.bounds("fp32_turing", 4096, gpu="t4").binding == "FMA pipe"
    assert costs.bounds("fp32_turing", 4096, gpu="h200").binding == costs.ISSUE


def test_bands_ask_less_of_the_memory_where_a_row_has_many_tiles():
    """80 blocks of 128x128 at 8192, 64 tiles to a row: two rows, or ten columns of eight."""
    assert bands.elements("fp32_turing", 8192, 1, running=80) == 128 * (2 + 64)
    assert bands.elements("fp32_turing", 8192, 8, running=80) == 128 * (8 + 10)
    by_rows, in_bands = turing.dram_share(8192, 1), turing.dram_share(8192)
    assert by_rows / in_bands == pytest.approx(66 / 18)
    clocks = 80 * 128 * 128 / (40 * 64)  # of the products of one k
    share = 4 * 128 * 18 / clocks * T4.boost_mhz * 1e6 / (T4.bandwidth_gbs * 1e9)
    assert in_bands == pytest.approx(100 * share)


def test_a_t4_has_no_room_for_two_blocks_of_a_deeper_tile():
    deeper = lay_out("fp32_turing", 4096, 4096, 4096, BK=16)
    occupancy = usage.resources_of(deeper, "sm_75").occupancy
    assert occupancy.blocks == 1 and occupancy.limited_by == ("shared memory",)


def test_the_record_holds_no_time_of_a_t4():
    """When it does, the page and its caption must say so."""
    assert costs.bounds("fp32_turing", 4096, gpu="t4").measured is None


def test_the_sweep_of_one_number_is_that_of_todays_code(monkeypatch):
    alone = sweeps.alone("h200")
    assert len(alone.rows) == sum(len(catalog["fp32_best"].choices[n]) for n in sweeps.NAMES)
    monkeypatch.setattr(sweeps, "fingerprint", lambda name: "0" * 12)
    changed = sweeps.alone("h200")
    assert not changed.known and changed.spread == {}
    assert {row["of cuBLAS (%)"] for row in changed.rows} == {None}


def test_a_loop_may_begin_behind_its_stores():
    """The barrier at the loop's beginning: the stores before it stand at its end."""
    loop = turing.loop_of("fp32_turing")
    at = next(n for n, i in enumerate(loop) if i.opcode.startswith("BAR"))
    turned = [*loop[at:], *loop[:at]]
    assert turing.between(turned, "STS", "BAR") == turing.between(loop, "STS", "BAR")
    moved = [replace(i, opcode="STS") if n == at - 1 else i for n, i in enumerate(loop)]
    assert turing.between(moved, "STS", "BAR") == 0
