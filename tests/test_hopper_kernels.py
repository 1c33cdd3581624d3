"""The Hopper kernels in the emulator: in rounds, and counted, beside an H200 and closed formulas.

`test_clean` runs each over awkward shapes, `test_mutants_hopper` with more faults.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from helpers import plan
from helpers.ladder import hopper, launch, numbers
from helpers.ladder.kernel import cdiv
from helpers.ladder.launch import trace
from helpers.ladder.rungs import catalog, fingerprint
from helpers.record import DEFAULT_GPU, agree, counters, load
from nogpu.emulator.launching import grids
from tests.common import ROOT
from tools import hopper_on_a_gpu, mutants_hopper
from tools.recorder.sections import counters as counters_section

HOPPER = [name for name, kernel in catalog.items() if kernel.host == "tma"]


def sound(found):
    """Right, and nothing found."""
    return found.wrong == 0 and not found.report.findings


def test_several_rounds_of_a_ring_and_of_tiles():
    """More steps than slots, and more tiles than blocks."""
    assert sound(trace("hopper_3", 300, 520, 700, SMS=2))
    assert sound(trace("hopper_5", 300, 520, 450, SMS=2))


def test_stream_k_runs_with_its_own_tile_on_all_sms(monkeypatch):
    """Its blocks wait for each other, all of one tile: they run together, each with all of an SM's
    shared memory."""
    found = trace("hopper_6", 1, 18, 1867)
    assert sound(found), found.report
    assert found.report.blocks_total > 50
    monkeypatch.setattr(grids, "_WAITING_ROOM", 1 << 22)
    (alone,) = trace("hopper_6", 1, 18, 1867).report.findings
    assert alone.kind == "deadlock" and "runs 2 blocks of this kernel at a time" in alone.message


def test_the_same_bits_by_every_step():
    """The steps sum in one order: 16 values of k an instruction, one after the other."""
    A, B = numbers.operands("hopper_1", 200, 312, 136)
    first = launch.matmul("hopper_1", A, B, backend="emulator")
    for name in ("hopper_2", "hopper_3", "hopper_4", "hopper_5"):
        assert (launch.matmul(name, A, B, backend="emulator") == first).all(), name


FAULTS = (
    ("hopper_1", "fewer bytes announced"),
    ("hopper_1", "parity of the other phase"),
    ("mma_tma", "no wait for an empty slot"),
)
"""Of those of `tools.mutants_hopper` such as `test_mutants_hopper` does not run again."""


@pytest.mark.parametrize(("kernel", "fault"), FAULTS)
def test_a_fault_is_found(kernel, fault):
    made = mutants_hopper.mutants()
    mutant = next(m for m in made if (m.kernel, m.fault) == (kernel, fault))
    assert mutants_hopper.run(mutant)["found"]


# -- counts ----------------------------------------------------------------------------------------


def boxes(p):
    """Bytes that TMA brings into shared memory: every tile's share of A and B, whole boxes."""
    rows, cols = p.tile
    tiles = cdiv(p.M, rows) * cdiv(p.N, cols)
    return tiles * cdiv(p.K, 64) * 64 * (rows + cols) * 2


@pytest.mark.parametrize("name", ["mma_tma", "hopper_1", "hopper_2", "hopper_3"])
@pytest.mark.parametrize("shape", [(256, 512, 128), (200, 312, 136)])
def test_bytes_of_the_copy_engine_are_those_of_the_tiles(name, shape):
    found = trace(name, *shape)
    rows = [a for a in found.by_line() if a.array in ("A_map", "B_map")]
    total = sum(a.requests * a.width_bytes for a in rows)
    assert total == boxes(found.plan)
    inside = sum(a.bytes for a in rows)
    assert inside == total if shape == (256, 512, 128) else inside < total
    assert all(a.sectors * 32 >= a.bytes for a in rows)
    stores = (a for a in found.by_line() if a.space == "shared" and a.op == "store")
    stored = [a for a in stores if a.width_bytes == hopper.BOX_BYTES]
    assert sum(a.bytes for a in stored) == total, "zeros beyond the edge are written, too"


def test_a_multicast_is_fetched_once():
    alone, shared = (trace(name, 256, 512, 128) for name in ("hopper_3", "hopper_4"))

    def fetched(t):
        return sum(a.bytes for a in t.by_line() if a.array in ("A_map", "B_map"))

    assert fetched(shared) < fetched(alone)
    landed = [
        sum(a.bytes for a in t.by_line() if a.space == "shared" and a.op == "store")
        for t in (alone, shared)
    ]
    assert landed[0] == landed[1]


def test_ldmatrix_of_the_fed_kernel_has_no_conflict():
    """Wavefronts of ldmatrix as ncu counted them on an H200 at 1024, from a launch of one tile."""
    found = trace("mma_tma", 128, 256, 1024)
    waves = sum(a.wavefronts for a in found.by_line() if a.space == "shared" and a.op == "load")
    measured = counters("mma_tma", 1024, gpu="h200")[0]["shared_load_wavefronts"]
    tiles = 1024 // 128 * (1024 // 256)
    # The launch of one tile reads the first fragments of a tile once more: of 1024, 1 in 32 steps.
    assert math.isclose(waves * tiles, measured, rel_tol=0.03)


def test_an_untouched_padding_is_what_it_was():
    """Rows of 313 elements are copied into longer ones, of which only the columns are stored."""
    A, B = numbers.operands("hopper_5", 64, 313, 70)
    C = np.full((64, 313), numbers.poison("bfloat16"), numbers.STORAGE["bfloat16"])
    ready = hopper.described(plan("hopper_5", 64, 313, 70), A, B, C)
    before = ready.written.copy()
    assert ready.written.shape == (64, 320)
    assert (ready.wide(np.zeros((64, 313)), np.nan)[:, 313:] != 0).all()
    assert (before == ready.written).all()


# -- beside an H200 --------------------------------------------------------------------------------


def test_of_every_kernel_no_bit_is_another_on_the_gpu():
    """Whoever changes a TMA kernel records it again: python -m tools.hopper_on_a_gpu --out."""
    rows = json.loads((ROOT / "data" / "validation" / "hopper_h200.json").read_text())["rows"]
    assert {(r["kernel"], (r["m"], r["n"], r["k"])) for r in rows} == {
        (name, shape) for name in HOPPER for shape in hopper_on_a_gpu.SHAPES
    }
    for r in rows:
        where = f"{r['kernel']} at {r['m']}x{r['n']}x{r['k']}"
        assert r["source"] == fingerprint(r["kernel"]), f"{where}: recorded of other code"
        p = hopper_on_a_gpu.launched(r["kernel"], (r["m"], r["n"], r["k"]))
        assert r["params"] == dict(p.params), where
        assert r["differ"] == r["wrong"] == r["emulator_wrong"] == 0 and r["same_again"], where
        assert not r["findings"] and not r["error"], where


def test_some_recorded_launch_hands_sums_over():
    p = hopper_on_a_gpu.launched("hopper_6", (130, 70, 3000))
    assert hopper.division(p).ranges > 1


def test_neighbouring_floats_are_one_apart():
    x = np.array([1.0, np.nextafter(np.float32(1), 2), -0.0, 0.0, -(2.0**-149)], np.float32)
    order = hopper_on_a_gpu.ordered(x.view(np.uint32))
    assert order[1] - order[0] == 1 and order[2] == order[3] == 0 and order[4] == -1


def test_bytes_and_wavefronts_are_those_that_ncu_counts():
    """At four shapes a kernel: where tiles are whole every byte; at edges sectors that are not all
    of a row more."""
    moved = agree.of_engines(load(DEFAULT_GPU).counters, most=300 * 520 * 450)
    assert {(r["kernel"], r["launch"]) for r in moved} >= {
        (name, "x".join(map(str, shape)))
        for name in HOPPER if "hopper_6" not in name
        for shape in counters_section.ENGINE_SHAPES[:-1]
    }  # fmt: skip
    for r in moved:
        assert r["right"], r
        assert (
            r["arrived"] == r["landed"] if r["whole"] else 1 < r["arrived"] / r["landed"] < 1.2
        ), r
        assert 0.98 * r["stored"] <= r["left"] <= r["stored"], r
        assert 0 <= r["hardware_wavefronts"] - r["wavefronts"] <= 1, r
