"""Bias, GELU and residual in the product's own launch, and stacks: kernel, launches, record."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from helpers.chapters.ch22 import epilogue
from helpers.chapters.ch22 import epilogue_tables as tables
from helpers.ladder.numbers import values
from nogpu import device, toolchain
from nogpu.bfloat16 import to_bfloat16
from nogpu.errors import CompileError, ConfigError, EmulationError, NoGPUError, ShapeError
from tests.common import joined
from tests.test_hopper_compile import unspilled
from tools import epilogue_on_a_gpu as tool
from tools.epilogue_on_a_gpu import Case

SMALL: dict[str, Any] = {"STAGES": 2, "SMS": 2}
DRAWN: tuple[dict[str, int], ...] = (
    {}, {"BN": 128}, {"BN": 128, "CLUSTER_M": 1, "CLUSTER_N": 2}, {"CLUSTER_M": 1, "SMS": 1},
    {"BM": 256, "BN": 128, "CLUSTER_M": 1, "SMS": 3},
)  # fmt: skip


def drawn(seed):
    """A case, its tile and the order of the warps."""
    rng = np.random.default_rng(seed)
    S, M, N, K = (int(n) for n in rng.integers(1, (4, 160, 280, 140)))
    does = " ".join(word for word in tool.WORDS if rng.random() < 0.5)
    rows = tuple(int(m) for m in rng.integers(0, M + 1, S)) if rng.random() < 0.5 else None
    tile = SMALL | DRAWN[int(rng.integers(len(DRAWN)))]
    case = Case(S, M, N, K, does, rows if rows and any(rows) else None)
    return case, tile, ("ascending", "permuted")[seed % 2]


@pytest.mark.parametrize("seed", range(100))
def test_any_shape_is_right_and_clean(seed):
    case, tile, schedule = drawn(seed)
    given = tool.made(case)
    C, report = epilogue.emulated(epilogue.plan(given, **tile), given, schedule=schedule)
    assert report.findings == () and epilogue.wrong(given, C) == 0, (case, tile)


def test_what_is_drawn_covers_what_there_is():
    cases, tiles, schedules = zip(*(drawn(seed) for seed in range(100)), strict=True)
    assert len({case.does for case in cases}) == 8 and set(schedules) == {"ascending", "permuted"}
    assert {tuple(t.items()) for t in tiles} == {tuple((SMALL | t).items()) for t in DRAWN}
    assert any(0 in (case.rows or ()) for case in cases) and {case.S for case in cases} == {1, 2, 3}


# -- wrong twins -----------------------------------------------------------------------------------

WHOLE = Case(2, 100, 140, 90, "bias residual gelu", (100, 40))


def twin(old, new):
    """The kernel's source with one thing wrong."""
    text = joined(epilogue.KERNEL.source, "common/leaving_tile.cuh", "common/box_store.cuh")
    assert text.count(old) == 1, old
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(chunk ^ group) * 8", "chunk * 8"),
        ("const int box = i / (BOX / 2) % R_COLS", "const int box = 0"),
        ("to[1] += unpacked(two, true, T())", "to[1] += unpacked(two, false, T())"),
        ("i / 2 % 2 * 8;\n        const unsigned two", "0;\n        const unsigned two"),
        ("unpacked(column[j / 4], j % 2, T())", "unpacked(column[j / 4], false, T())"),
        ("static_cast<size_t>(slice.index) * bias_row", "0"),
        ("tma_store_slice(C_map, C_tile, c.slice, m", "tma_store_slice(C_map, C_tile, 0, m"),
        ("full, slice, m0 + m,", "full, 0, m0 + m,"),
        ("rows = rows_of[++index];", "rows = rows_of[++index] / 2;"),
        ("if (m < c.rows) {", "if (m + 16 < c.rows) {"),
        ("m0 + i % BM, n0 + i / BM * BOX, 0", "m0, n0 + i / BM * BOX, 0"),
    ],
)
def test_a_wrong_product_is_found(old, new):
    given = tool.made(WHOLE)
    p = epilogue.plan(given, **SMALL, BN=128)
    C, _ = epilogue.emulated(p, given, source=twin(old, new))
    assert epilogue.wrong(given, C) > 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("                warpgroup_sync();\n", ""),
        ("    tma_store_fence();\n", ""),
        ("                barrier_wait(&full[at.stage], at.parity);\n                add_res",
         "                add_res"),
    ],
)  # fmt: skip
def test_what_is_not_waited_for_is_a_race(old, new):
    given = tool.made(Case(1, 100, 500, 90, "residual"))
    p = epilogue.plan(given, **SMALL)
    _, report = epilogue.emulated(p, given, source=twin(old, new), schedule="permuted")
    assert "race" in {f.kind for f in report.findings}


def test_a_part_left_out_is_found():
    given = tool.made(Case(1, 40, 30, 50, "bias residual gelu"))
    for left_out in ({}, {"gelu": False}, {"bias": None}, {"residual": None}):
        want, _ = epilogue.wanted(dataclasses.replace(given, **left_out))
        assert (epilogue.wrong(given, to_bfloat16(want.astype(np.float32))) > 0) == bool(left_out)


def test_rows_that_do_not_count_are_left_beyond_a_box():
    given = tool.made(Case(2, 100, 64, 20, "", (3, 50)))
    C, _ = epilogue.emulated(epilogue.plan(given, **SMALL), given)
    assert (C[0, 16:] == 0x7FC0).all() and (C[1, 64:] == 0x7FC0).all()
    assert (C[0, :3] != 0x7FC0).all() and (C[1, :50] != 0x7FC0).all()


def test_the_form_of_gelu_is_that_with_tanh():
    x = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
    assert epilogue.gelu(x) == pytest.approx([-0.00363739, -0.15880801, 0, 0.84119199, 2.99636261])
    A = to_bfloat16(np.linspace(-6, 6, 200, dtype=np.float32)[:, None])
    given = epilogue.layer(A, to_bfloat16(np.ones((1, 1), np.float32)), gelu=True)
    C = values("bfloat16", epilogue.multiply(given, backend="emulator", **SMALL))
    want = epilogue.gelu(values("bfloat16", A))
    assert abs(C[0] - want).max() <= 2.0**-8 * 6


# -- the launches ----------------------------------------------------------------------------------


@pytest.mark.parametrize("does", ["bias", "bias gelu", "bias residual"])
def test_the_second_launch_does_the_same_to_rounded_sums(does):
    given = tool.made(Case(1, 50, 37, 60, does))
    product = epilogue.multiply(tool.plain(given), backend="emulator", **SMALL)[0]
    C, report = epilogue.pass_emulated(given, product)
    assert report.findings == ()
    x = values("bfloat16", product).astype(np.float32)
    for more in (given.residual, given.bias):
        x = x if more is None else x + values("bfloat16", more[0]).astype(np.float32)
    want = epilogue.gelu(x) if given.gelu else x
    assert values("bfloat16", C) == pytest.approx(want, rel=2**-8, abs=1e-5)
    assert np.count_nonzero(C != product) > C.size / 2
    fused = epilogue.multiply(given, backend="emulator", **SMALL)[0]
    off = [np.abs(values("bfloat16", c) - epilogue.wanted(given)[0][0]).mean() for c in (fused, C)]
    assert off[0] < off[1], "one rounding is less than two"


def test_layers_that_do_not_fit_are_refused():
    A, B = np.zeros((2, 5, 6), np.uint16), np.zeros((2, 6, 7), np.uint16)
    for changed, words in (
        ({"B": B[0]}, "axes"),
        ({"B": B[:1]}, "B of shape"),
        ({"B": B[:, :5]}, "B of shape"),
        ({"bias": B[0]}, r"takes \(2, 7\)"),
        ({"residual": A}, r"takes \(2, 5, 7\)"),
        ({"rows": (1,)}, "each slice"),
        ({"rows": (1, 6)}, "0 to 5"),
        ({"rows": (0, 0)}, "not all 0"),
    ):
        with pytest.raises(ShapeError, match=words):
            epilogue.layer(**({"A": A, "B": B} | changed))
    given = epilogue.layer(A, B)
    for tile in ({"BM": 96}, {"STAGES": 1}, {"STAGES": 5}, {"CLUSTER_M": 3}):
        with pytest.raises(ConfigError, match="breaks the rule"):
            epilogue.plan(given, **tile)
    with pytest.raises(ShapeError, match="stack of 2"):
        epilogue.pass_on_gpu(given, None)


@pytest.mark.parametrize("params", [{"BM": 96}, {"STAGES": 5}, {"CLUSTER_N": 4}])
def test_the_source_has_the_rules_too(params):
    tile = {name: str(size) for name, size in {**epilogue.KERNEL.params, **params}.items()}
    with pytest.raises(CompileError, match="static assertion"):
        toolchain.ptx(epilogue.KERNEL.source, name="22_epilogue.cu", arch="sm_90a", defines=tile)


def test_multiply_runs_where_it_can():
    given = tool.made(Case(2, 5, 9, 30, "bias"))
    C = epilogue.multiply(given, **SMALL)
    assert C.shape == (2, 5, 9) and C.dtype == np.uint16 and epilogue.wrong(given, C) == 0
    with pytest.raises(NoGPUError):
        epilogue.multiply(given, backend="cuda")


def test_multiply_refuses_faults(monkeypatch):
    bad = twin("    tma_store_fence();\n", "")
    monkeypatch.setattr(epilogue, "KERNEL", epilogue.KERNEL.with_source(bad))
    with pytest.raises(EmulationError, match="race"):
        epilogue.multiply(tool.made(Case(1, 5, 9, 30)), backend="emulator", **SMALL)


@pytest.mark.parametrize("tile", [*tool.NARROW, tool.TILES[1]])
@pytest.mark.parametrize("does", ["", *tool.EPILOGUES])
def test_no_register_is_spilled(tile, does):
    unspilled(epilogue.KERNEL, tile, **tool.made(Case(1, 1, 1, 1, does)).macros)


# -- the record ------------------------------------------------------------------------------------


def test_experts_share_the_rows_and_differ():
    for case in tool.EXPERTS:
        shared = tool.expert(case)
        assert sum(shared.rows or ()) == case.M and shared.M == max(shared.rows or ())
        assert len(set(shared.rows or ())) > 1


def test_the_record_is_of_the_cases_of_its_tool():
    kept = tables.record()
    assert kept["command"] == "python -m tools.epilogue_on_a_gpu"
    launched = [(*(r[n] for n in "smnk"), r["does"], r["params"]) for r in kept["shapes"]]
    assert launched == [(*case[:5], tile) for case in tool.CASES for tile in tool.TILES]
    assert {(r["m"], r["n"], r["k"], r["does"]) for r in kept["layers"]} == {
        (*size, does) for size in tool.SIZES for does in tool.EPILOGUES
    }
    experts = [tool.expert(case) for case in tool.EXPERTS]
    for section, cases in (("stacks", list(tool.STACKS)), ("experts", experts)):
        taken = [tuple(r[n] for n in "smnk") for r in kept[section] if r["kernel"] == "stack"]
        assert taken == [case[:4] for case in cases]
    for row in (*kept["layers"], *kept["stacks"], *kept["experts"]):
        rate = 2 * sum(row["rows"]) * row["n"] * row["k"] / row["ms"] / 1e9
        assert row["tflops"] == pytest.approx(rate) and row["q1"] <= row["ms"] <= row["q3"]
    assert set(kept["sanitizer"]) == {"memcheck", "racecheck", "synccheck", "initcheck"}


def test_what_is_counted_of_a_second_launch():
    """At K = 4096 and 4096 x 4096: bytes over bandwidth, over operations over the peak."""
    gpu = device.gpu("h200")
    [row] = [row for row in tables.counted() if row["k"] == 4096]
    seconds = 4 * 4096**2 / (gpu.bandwidth_gbs * 1e9), 2 * 4096**3 / (gpu.peak_gflops("bf16") * 1e9)
    assert row["launch"] == pytest.approx(100 * seconds[0] / seconds[1])
    clocks = 4096**2 / 16 / gpu.sms, seconds[1] * gpu.boost_mhz * 1e6
    assert row["gelu"] == pytest.approx(100 * clocks[0] / clocks[1], rel=0.01)
