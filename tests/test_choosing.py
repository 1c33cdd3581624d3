"""The choice of kernel, tile and slices: from counts alone, right on each shape, and as it says."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.ladder import choosing, launch, model, numbers, usage
from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog
from helpers.record import everywhere
from helpers.record.plans import choose, plan
from helpers.record.shape_sets import DRAWN, DRAWN_SEED, NAMED_SHAPES, drawn_shapes
from nogpu import bfloat16, device
from nogpu.errors import ConfigError, DtypeError, ShapeError, UnknownNameError
from tests.common import twin

H200, T4, A100 = (device.gpu(name) for name in ("h200", "t4", "a100"))
SMALL = {"BM": 32, "BN": 32, "BK": 16, "WM": 16, "WN": 32, "TM": 4, "TN": 4}


def sliced(M, N, K, **params):
    return geometry(catalog["fp32_sliced"], M, N, K, **SMALL, **params)


# -- slices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 65, 47), (64, 31, 130), (1, 70, 300)])
@pytest.mark.parametrize("cut", [{"SLICES": 3}, {"SLICES": 5, "CUT": 1}, {"SLICES": 16}])
def test_slices_are_right_and_the_same_to_the_bit(shape, schedule, cut):
    found = launch.trace_of(sliced(*shape, **cut), schedule=schedule)
    assert found.ok, found.report
    again = launch.trace_of(sliced(*shape, **cut), schedule="ascending")
    assert (found.C.view(np.uint32) == again.C.view(np.uint32)).all()


FENCE = "    __threadfence();  // the sums are visible before the arrival\n"


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (FENCE, "", "race"),
        ("piece.slices - 1;", "piece.slices - 2;", "uninitialised"),  # an arrival too few
        ("s < piece.slices; ++s", "s < piece.slices - 1; ++s", "wrong-result"),
    ],
)
def test_a_wrong_hand_over_is_found(old, new, kind):
    wrong = twin("fp32_sliced", (old, new))
    given = replace(sliced(40, 40, 100, SLICES=3), kernel=wrong)
    traces = (launch.trace_of(given, schedule=s) for s in ("ascending", "permuted"))
    kinds = {f.kind for trace in traces for f in trace.report.findings}
    assert kind in kinds or kinds & {"race", "uninitialised", "uninitialised-read"}, kinds


def test_counters_that_stay_are_refused():
    wrong = twin("fp32_sliced", ("if (last) *arrived = 0;", ""))
    left = replace(sliced(40, 40, 100, SLICES=3), kernel=wrong)
    with pytest.raises(Exception, match="leaves arrived other than zero"):
        launch.trace_of(left)


def test_only_the_last_tiles_are_cut():
    p = sliced(96, 64, 200, SLICES=4, CUT=2)
    assert p.grid == (4 + 2 * 4, 1, 1)
    assert p.rooms == (("partial", "float32", 2 * 4 * 32 * 32), ("arrived", "int32", 2))
    assert p.numbers == (96, 64, 200, 2, 4)
    assert "SLICES" not in p.defines and p.defines["BM"] == "32"


# -- the formula -----------------------------------------------------------------------------------


def test_without_slices_it_is_the_rounds_and_what_they_leave_out():
    p = geometry(catalog["fp32_best"], 128 * 11, 256 * 12, 1000)
    rounds = model.rounds_of(p, H200, 1).clocks
    bandwidth = H200.bandwidth_gbs * 1e3 / H200.boost_mhz / H200.sms
    stores = 4 * 128 * 256 / bandwidth
    whole = model.sliced_rounds(p, H200, 1)
    steps = model.STEP_CLOCKS * 1000 / p.params["BK"]
    assert whole.clocks == pytest.approx(model.START_CLOCKS + rounds + steps + stores)
    odd = geometry(catalog["fp32_best"], 128 * 11, 256 * 12 - 1, 1000)
    assert model.sliced_rounds(odd, H200, 1).clocks - whole.clocks == pytest.approx(3 * stores)
    turned = geometry(catalog["fp32_sliced"], 128 * 11, 256 * 12 - 1, 1000)
    longer = model.sliced_rounds(turned, H200, 1).clocks - whole.clocks
    assert longer == pytest.approx((model.TURNED_STORES - 1) * stores) and longer < 3 * stores


@pytest.mark.parametrize("tile", catalog["fp32_sliced"].candidates)
def test_the_blocks_that_are_counted_on_fit(tile):
    p = geometry(catalog["fp32_sliced"], 4096, 4096, 4096, **tile)
    assert 1 <= model.resident_blocks(p, H200) <= usage.resources_of(p, "sm_90").occupancy.blocks


# -- the choice ------------------------------------------------------------------------------------


SHAPES = [
    (1, 1, 1), (3, 500, 7), (500, 500, 6000), (1024, 1024, 16384), (4096, 4096, 4096),
    (1, 4096, 4096),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gpu", [T4, A100, H200], ids=lambda g: g.key)
def test_it_takes_the_fewest_clocks_of_all(shape, gpu):
    p = choose("auto", *shape, gpu=gpu)
    every = [
        q for k in choosing.contenders("float32", gpu) for q in choosing.launches(k, *shape, gpu)
    ]
    least = min(choosing.predicted(q, gpu) for q in every)
    assert choosing.predicted(p, gpu) == least < math.inf
    assert choosing.runs_on(p.kernel, gpu) and (p.M, p.N, p.K) == shape
    assert p.why.startswith(f"{'x'.join(map(str, shape))} of float32 on {gpu.name}")
    assert f"{choosing.words(p)}: 1.00" in p.why


def test_few_tiles_are_cut_and_a_large_square_is_not():
    assert choose("auto", 512, 512, 16384, gpu=H200).params["SLICES"] > 1
    large = choose("auto", 4096, 4096, 4096, gpu=H200)
    assert (choosing.words(large), large.params["SLICES"]) == ("fp32_sliced 128x256", 1)


def test_a_ring_of_two_is_weighed_for_short_k_alone():
    short, longer = (
        {p.params["STAGES"] for p in choosing.launches(catalog["fp32_sliced"], 900, 900, k, H200)}
        for k in (choosing.SHORT_K, choosing.SHORT_K + 1)
    )
    assert 2 in short and 2 not in longer
    assert choose("auto", 3359, 595, 20, gpu=H200).params["BK"] == 8


def test_a_gpu_gets_what_runs_there():
    with pytest.raises(ConfigError, match=r"T4 is sm_75, and the kernels for bfloat16"):
        choose("auto", 64, 64, 64, gpu=T4, dtype="bfloat16")
    with pytest.raises(DtypeError, match="no kernel is chosen by itself for float64"):
        choose("auto", 64, 64, 64, gpu=H200, dtype="float64")
    with pytest.raises(ShapeError):
        choose("auto", 0, 64, 64, gpu=H200)
    emulated = choosing.contenders("float32", H200, emulated=True)
    assert emulated and all(k.host == "plain" for k in emulated)


@pytest.mark.parametrize("shape", [(1, 1, 1), (40, 30, 500), (129, 3, 65), (2, 300, 40)])
def test_a_product_by_the_best_is_right(shape):
    A, B = numbers.operands("naive", *shape)
    for C in (launch.matmul(A, B, kernel="auto"), launch.matmul("auto", A, B)):
        assert C.dtype == np.float32 and numbers.wrong_elements("naive", A, B, C) == 0


@pytest.mark.parametrize("edge", [0, -3, True, 2.5, math.nan, math.inf, "8", None, 2**31])
@pytest.mark.parametrize("name", ["auto", "tiled_32"])
def test_an_edge_is_a_whole_number_that_32_bits_hold(edge, name):
    """True and 1 are one key of a cache, so a caller would get the launch of the one before."""
    choosing.best.cache_clear()
    make = plan if name != "auto" else choose
    for shape in ((edge, 5, 5), (5, edge, 5), (5, 5, edge)):
        with pytest.raises(ShapeError):
            make(name, *shape)
    found = choose("auto", np.int64(1), 4.0, 5, gpu=H200)
    assert [type(x) for x in (found.M, found.N, found.K)] == [int] * 3
    assert found.why.startswith("1x4x5 of float32")


def test_long_rows_are_no_grid_of_another_kernel():
    """What naive cannot launch says nothing of the others."""
    assert choose("auto", 1, 4_000_000, 64, gpu=H200).grid[1:] == (1, 1)


def test_a_gpu_by_its_key_and_a_type_by_its_name():
    assert choose("auto", 300, 300, 300, gpu="t4") == choose("auto", 300, 300, 300, gpu=T4)
    assert (
        choose("hopper_5", 300, 300, 300, gpu="h200", dtype="bfloat16").kernel.dtype == "bfloat16"
    )
    with pytest.raises(UnknownNameError, match="no GPU is called 't5'"):
        choose("auto", 300, 300, 300, gpu="t5")
    with pytest.raises(DtypeError, match="fp32_best takes float32"):
        choose("fp32_best", 300, 300, 300, gpu=H200, dtype="float16")
    for dtype in (np.float32, np.dtype("float32"), ["float32"]):
        with pytest.raises(DtypeError, match='give its name, such as dtype="float32"'):
            choose("auto", 300, 300, 300, gpu=H200, dtype=dtype)


def test_code_for_hopper_is_refused_unbuilt(monkeypatch):
    later = SimpleNamespace(name="NVIDIA B200", arch="sm_100", known=None)
    monkeypatch.setattr(device, "current", lambda: later)
    for name, arch in (("hopper_5", "sm_100"), ("fp32_sliced", "sm_75")):
        later.arch = arch
        says = rf"{name} needs sm_\S+ (and nothing|or) later.*{arch}"
        with pytest.raises(ConfigError, match=says):
            launch.cuda_function(plan(name, 64))
    with pytest.raises(ConfigError, match="needs sm_80 or later; the Tesla T4 is sm_75"):
        choose("fp32_sliced", 64, 64, 64, gpu=T4)


def test_a_gpu_whose_limits_nobody_wrote_down_is_chosen_for_too():
    newer = replace(H200, key="", name="NVIDIA GB10", arch="sm_121", sms=48)
    assert newer.arch not in device.LIMITS
    p = choose("auto", 500, 500, 6000, gpu=newer)
    assert p.params["SLICES"] > 1 and "NVIDIA GB10" in p.why


def test_no_more_blocks_wait_for_each_other_than_there_are_sms():
    """An H100 of 114 SMs: nine clusters of 66 would find none, others wait for their parts."""
    fewer = replace(H200, key="", name="NVIDIA H100 PCIe", sms=114)
    p = choose("hopper_6", 128, 256, 1 << 20, gpu=fewer)
    assert p.grid[0] <= fewer.sms and p.params["SMS"] == fewer.sms
    assert choose("hopper_6", 128, 256, 1 << 20, gpu=H200).params["SMS"] == 132
    assert choose("hopper_6", 512, 4096, 4096, gpu=fewer).grid[0] > 100


def test_whole_tiles_have_no_room_for_sums():
    """A slice each is a whole tile: nobody meets, and C is not held twice."""
    p = geometry(catalog["fp32_sliced"], 4096, 4096, 64)
    assert {name: count for name, _, count in p.rooms}["partial"] == 1
    assert launch.trace_of(sliced(40, 70, 33)).ok
    cut = geometry(catalog["fp32_sliced"], 4096, 4096, 64, SLICES=2)
    assert cut.rooms[0][2] == 2 * 4096 * 4096


@pytest.mark.parametrize(
    ("cut", "ending"),
    [
        ({}, ""),
        ({"SLICES": 4}, " in 4 slices"),
        ({"SLICES": 4, "CUT": 2}, " in 4 slices of the last 2 tiles"),
    ],
)
def test_a_launch_in_words(cut, ending):
    assert choosing.words(sliced(96, 64, 200, **cut)) == f"fp32_sliced 32x32{ending}"


@pytest.mark.parametrize("name", ["mma_pipelined", "mma_pipelined_bf16"])
def test_two_bytes_in_are_two_bytes_out(name):
    """Rounded once: what the float32 of another kernel is, rounded, that adds on Tensor Cores in
    the same order."""
    k, shape = catalog[name], (100, 150, 60)
    entry = choosing.best(k.dtype, *shape, H200, emulated=True).kernel.entry
    assert entry in ("mma_sliced", "mma_pieces", "mma_short")
    A, B = numbers.operands(k, *shape)
    C, sums = launch.matmul(A, B, kernel="auto", backend="emulator"), launch.matmul(k, A, B)
    assert C.dtype == A.dtype
    rounded = bfloat16.to_bfloat16(sums) if k.dtype == "bfloat16" else sums.astype(np.float16)
    assert (C == rounded).all()


def test_an_older_kernel_is_weighed_only_where_its_successor_does_not_run():
    for older, newer in choosing.INSTEAD.items():
        dtype = catalog[older].dtype
        assert catalog[newer].dtype == dtype
        names = {g.key: [k.name for k in choosing.contenders(dtype, g)] for g in (A100, H200)}
        assert all(
            (older in found) != (newer in found) or older not in found for found in names.values()
        )
    on_t4 = [k.name for k in choosing.contenders("float16", T4) if not model.is_thin(k)]
    assert on_t4 == ["mma_turing"]


# -- the recorded shapes ---------------------------------------------------------------------------

HERE, OF_C = 100_000_000, 2_500_000
"""Multiply-adds, and elements of C, of the largest recorded shape that is run here, in the
emulator: seconds each.
"""
RECORDED = [
    (dtype, size)
    for dtype in NAMED_SHAPES
    for _, size in drawn_shapes(dtype, DRAWN_SEED)
    if math.prod(size) <= HERE and size[0] * size[1] <= OF_C
]


@pytest.mark.parametrize(("dtype", "shape"), RECORDED, ids=lambda x: str(x).replace(", ", "x"))
def test_what_is_recorded_is_clean_in_the_emulator(dtype, shape):
    p = choosing.best(dtype, *shape, H200)
    if p.kernel.host != "plain":
        p = choosing.best(dtype, *shape, H200, emulated=True)
    found = launch.trace_of(p)
    assert found.ok, found.report


@pytest.mark.parametrize("seed", DRAWN)
@pytest.mark.parametrize("dtype", NAMED_SHAPES)
def test_the_record_holds_what_is_picked_today(dtype, seed):
    """Whoever changes a formula records the shapes anew: python -m helpers record --no-points
    --auto.
    """
    found = everywhere(dtype, seed=seed)
    assert found is not None
    for e in (*found.entries, *found.named):
        p = choosing.best(dtype, e.m, e.n, e.k, device.gpu("h200"))
        assert (p.kernel.name, dict(p.params)) == (e.kernel, dict(e.params)), (e.m, e.n, e.k)
        assert e.error_over_tolerance <= 1 and e.pairs >= 5
