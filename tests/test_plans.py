"""The noun: a planned launch, what may be asked of it, and the same for a reader's own text."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import helpers
from helpers import Plan, catalog, plan
from helpers import record as measuring
from helpers.ladder import kernel as kernel_room
from helpers.ladder import launch, model, numbers
from helpers.ladder.kernel import OWN, Geometry, geometry
from nogpu import bfloat16, device, project, toolchain
from nogpu import text as text_room
from nogpu.errors import (
    CompileError,
    ConfigError,
    DataError,
    DtypeError,
    EmulationError,
    NoGPUError,
    ShapeError,
    UnknownNameError,
)

GUARD = "if (row < M && col < N) {"
TILED = catalog["tiled_32"].source
assert GUARD in TILED


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(device, "current", lambda: None)


# -- the noun --------------------------------------------------------------------------------------


def test_a_plan_is_the_geometry_and_more():
    p = plan("tiled_32", 4096, 1000, 70, TILE=16)
    g = geometry(catalog["tiled_32"], 4096, 1000, 70, TILE=16)
    for name in ("kernel", "params", "M", "N", "K", "grid", "block", "shared_bytes", "threads"):
        assert getattr(p, name) == getattr(g, name), name
    assert (p.tile, p.defines) == (g.tile, g.defines) == ((16, 16), {"TILE": "16"})
    assert isinstance(p, Plan) and isinstance(p, Geometry)
    with pytest.raises(AttributeError):
        p.M = 3
    assert repr(p) == "tiled_32, TILE=16, M=4096, N=1000, K=70: 63x256x1 blocks of 16x16x1 threads"
    assert "98304 bytes" in repr(plan("mma_pipelined", 64))


def test_one_size_stands_for_a_cube():
    assert (
        plan("naive", 96) == plan("naive", 96, 96, 96) == plan(catalog["naive"], M=96, N=96, K=96)
    )
    for wrong in ({"N": 5}, {"K": 5}):
        with pytest.raises(ShapeError, match="give all three, or M alone"):
            plan("naive", 96, **wrong)


def test_a_shape_is_named_only_where_the_rule_is_about_it():
    with pytest.raises(ConfigError) as about_a_tile:
        plan("warp_tiled", 64, BN=1)  # BN // 4 is 0, and other rules divide by it
    assert ", M=64" not in str(about_a_tile.value) and "BN % WN == 0" in str(about_a_tile.value)
    with pytest.raises(ConfigError, match="M=33, N=64, K=64 breaks the rule M % TILE"):
        plan("tiled_padded", 33, 64, 64)


def test_it_says_what_the_short_cuts_say():
    at, tile = (130, 66, 20), {"TM": 4, "TN": 4}
    p = plan("block_2d", *at, **tile)
    assert p.resources("sm_80") == helpers.resources("block_2d", "sm_80", **tile)
    assert p.resources("sm_80").params == p.params and p.resources("sm_80").threads == 1024
    assert p.instruction_mix("sm_90") == helpers.instruction_mix("block_2d", "sm_90", **tile)
    assert p.traffic == model.traffic("block_2d", *at, **tile)
    how: Any = {"seed": 3, "schedule": "permuted"}
    mine, short = p.trace(**how), helpers.trace("block_2d", *at, **how, **tile)
    assert (
        mine.plan == p
        and mine.by_line() == short.by_line()
        and mine.ok
        and (mine.C == short.C).all()
    )
    A, B = numbers.operands("block_2d", *at)
    assert (p.matmul(A, B, backend="emulator") == helpers.matmul("block_2d", A, B, **tile)).all()


def test_without_an_arch_the_gpu_at_hand_or_the_h200(monkeypatch):
    monkeypatch.setattr(device, "current", lambda: None)
    assert plan("tiled_32", 64).resources().arch == "sm_90"
    assert plan("hopper_1", 64).resources().arch == "sm_90a"
    t4 = SimpleNamespace(name="T4", arch="sm_75", sms=40, known=device.gpu("t4"))
    monkeypatch.setattr(device, "current", lambda: t4)
    assert plan("tiled_32", 64).resources().arch == "sm_75"


def test_limits_say_what_binds_by_gpu():
    limits = plan("tiled_32", 4096).limits
    assert limits["t4"] == helpers.resources("tiled_32", "sm_75").occupancy
    assert limits["sm_86"].by == helpers.resources("tiled_32", "sm_86").occupancy.by
    assert set(limits) == set(device.GPUS) == set(dict(limits)) and len(limits) == len(device.GPUS)
    assert "h200 (sm_90): 2 blocks, 64 warps an SM (100 %), limited by" in repr(limits)
    with pytest.raises(UnknownNameError, match="h200"):
        _ = limits["h2000"]


def test_limits_leave_out_what_is_too_old_or_too_new():
    newer = plan("cp_async", 64).limits
    assert "t4" not in newer and "h200" in newer
    with pytest.raises(ConfigError, match="sm_80 or later"):
        _ = newer["t4"]
    assert {device.gpu(key).arch for key in plan("hopper_1", 64).limits} == {"sm_90"}


# -- results ---------------------------------------------------------------------------------------


def test_matmul_takes_its_own_shape_only():
    p = plan("tiled_16", 33, 17, 9)
    A, B = numbers.operands("tiled_16", 33, 17, 9)
    assert numbers.wrong_elements("tiled_16", A, B, p.matmul(A, B)) == 0
    A, B = numbers.operands("tiled_16", 33, 16, 9)
    with pytest.raises(ShapeError, match=r"B has shape \(9, 16\).*M=33, N=17, K=9: give B as 9x17"):
        p.matmul(A, B)
    with pytest.raises(ShapeError, match="columns of A"):
        p.matmul(A, A)


def test_launch_writes_c_in_place_and_nothing_else():
    p = plan("tiled_16", 20, 40, 9)
    A, B = numbers.operands("tiled_16", 20, 40, 9)
    room = np.full((24, 40), 7, np.float32)
    C = room[2:22]
    kept = A.copy(), B.copy()
    assert p.launch(A, B, C, backend="emulator") is None
    assert numbers.wrong_elements("tiled_16", A, B, C) == 0
    assert (room[:2] == 7).all() and (room[22:] == 7).all()
    assert (A == kept[0]).all() and (B == kept[1]).all()


def test_launch_refuses_a_c_that_may_not_be_written():
    A, B = numbers.operands("naive", 4, 4, 4)
    C = np.zeros((4, 4), np.float32)
    C.flags.writeable = False
    with pytest.raises(ConfigError, match="read-only"):
        plan("naive", 4).launch(A, B, C)


def test_launch_tells_what_the_emulator_found():
    p = plan("tiled_16", 5).with_source(TILED.replace(GUARD, "{"))
    A, B = numbers.operands("tiled_16", 5, 5, 5)
    with pytest.raises(EmulationError, match="out-of-bounds"):
        p.launch(A, B, np.zeros((5, 5), np.float32), backend="emulator")


# -- a text of one's own ---------------------------------------------------------------------------


def test_a_text_of_ones_own_is_run_traced_and_compiled():
    p = plan("tiled_32", 20, 33, 17, TILE=8)
    twice = p.with_source(TILED.replace("] = sum;", "] = 2 * sum;"))
    A, B = numbers.operands("tiled_32", 20, 33, 17)
    assert np.array_equal(twice.matmul(A, B, backend="emulator"), 2 * p.matmul(A, B))
    C = np.empty((20, 33), np.float32)
    twice.launch(A, B, C, backend="emulator")
    assert np.array_equal(C, twice.matmul(A, B, backend="emulator"))
    found = twice.trace()
    assert found.wrong > 600 and not found.ok and found.by_line() and p.trace().ok
    assert (twice.grid, twice.block, twice.params, twice.M) == (p.grid, p.block, p.params, p.M)
    assert twice.kernel.entry == p.kernel.entry
    more = p.with_source(TILED.replace("T sum = 0;", "T sum = 0; __shared__ float idle[256];"
                                       " idle[threadIdx.x] = sum; sum = idle[threadIdx.x];"))  # fmt: skip
    assert more.resources("sm_75").shared_bytes == p.resources("sm_75").shared_bytes + 1024


def test_its_name_is_marked_and_its_code_is_not_the_recorded_ones():
    own = catalog["tiled_32"].with_source(TILED)
    assert own.name == f"tiled_32{OWN}" and own.source_name == "your_06_tiled.cu"
    assert own.name not in catalog and own != catalog["tiled_32"]
    assert own.with_params(TILE=8).name == own.name and own.with_source(TILED) == own
    assert measuring.fingerprint(own) != measuring.fingerprint("tiled_32")  # the very same text
    assert kernel_room.Kernel(**{**vars(catalog["naive"]), "text": "x"}).name.endswith(OWN)


def test_nothing_recorded_is_replayed_for_it(monkeypatch):
    monkeypatch.setattr(device, "current", lambda: None)
    p = plan("tiled_32", 4096)
    assert p.measure().value("tiled_32", 4096) > 0
    own = p.with_source(TILED)
    with pytest.raises(NoGPUError, match=r"your own text.*with an NVIDIA GPU"):
        own.measure()
    with pytest.raises(DataError, match=r"no measurement of tiled_32 \(yours\)"):
        measuring.measure(own.kernel, 4096)  # by the short cut
    monkeypatch.setattr(device, "current", lambda: SimpleNamespace(arch="sm_90", name="some GPU"))
    with pytest.raises(NoGPUError, match="leave gpu out"):
        own.measure(gpu="h200")
    monkeypatch.setattr(device, "current", lambda: SimpleNamespace(arch="sm_75", name="a T4"))
    newer = plan("cp_async", 4096).with_source(catalog["cp_async"].source)
    with pytest.raises(ConfigError, match=r"cp_async \(yours\) needs sm_80 or later.*sm_75"):
        newer.measure()


def test_its_text_must_hold_the_entry():
    with pytest.raises(ConfigError, match=r'begin it with extern "C" __global__ void tiled'):
        plan("tiled_32", 64).with_source(TILED.replace("tiled(", "mine("))
    mangled = plan("tiled_32", 64).with_source(TILED.replace('extern "C" ', ""))
    with pytest.raises(ConfigError, match=r"your_06_tiled.cu has no kernel tiled, but _Z5tiled"):
        mangled.resources("sm_75")


def test_a_fault_in_it_is_told_under_its_own_name():
    own = plan("tiled_32", 64).with_source(TILED.replace("T sum = 0;", "T sum = zero;"))
    with pytest.raises(CompileError, match=r"your_06_tiled.cu\(\d+\)"):
        own.resources("sm_75")
    with pytest.raises(CompileError, match="zero"):
        own.trace()


# -- measuring -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_gpu")
def test_a_tile_that_only_the_sweep_timed_is_told_as_such():
    m = plan("block_2d", 4096, TM=4).measure()
    [entry] = measuring.load("h200").find(
        "sweep", kernel="block_2d", params={"BM": 128, "BN": 128, "BK": 8, "TM": 4, "TN": 8}
    )
    assert m.value("block_2d", 4096) == entry["ms"] and "from a sweep of tiles" in m.label
    assert f"{entry['pairs']} samples" in m.label and len(m.rows) == 1
    assert "sweep" not in plan("block_2d", 4096).measure().label


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(("size", "tile"), [(1000, {}), (1000, {"TM": 4}), (4096, {"TILE": 2})])
def test_what_nobody_measured_is_not_shown(size, tile):
    kernel = "tiled_32" if "TILE" in tile else "block_2d"
    with pytest.raises(DataError, match=f"no measurement of {kernel} at {size}"):
        plan(kernel, size, **tile).measure()


# -- files that are edited -------------------------------------------------------------------------


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A copy of kernels/ that may be edited."""
    folder = tmp_path / "kernels"
    shutil.copytree(kernel_room.KERNELS, folder)
    monkeypatch.setattr(kernel_room, "KERNELS", folder)
    monkeypatch.setattr(project, "include_folders", [folder])
    return folder


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_an_edited_kernel_is_seen_without_a_restart(kernels):
    p = plan("tiled_32", 20, 20, 20, TILE=8)
    before = p.kernel.source
    known = measuring.fingerprint("tiled_32")
    assert p.trace().ok and p.kernel.source is before  # read once
    edit(kernels / "06_tiled.cu", "] = sum;", "] = 2 * sum;")
    assert "2 * sum" in p.kernel.source and p.trace().wrong == 400
    assert measuring.fingerprint("tiled_32") != known
    edit(kernels / "06_tiled.cu", "] = 2 * sum;", "] = sum;")
    assert p.trace().ok


def test_an_edit_of_the_same_length_is_seen(kernels):
    path = kernels / "06_tiled.cu"
    kernel = catalog["tiled_32"]
    before = kernel.source
    edit(path, "T sum = 0;", "T sum = 1;")
    later = path.stat().st_mtime_ns + 1_000_000
    os.utime(path, ns=(later, later))
    assert len(kernel.source) == len(before) and "T sum = 1;" in kernel.source


def test_an_edited_header_is_seen_even_through_another(kernels):
    """18_mma_swizzle includes swizzle.cuh, and mma_turing chunks.cuh by way of it."""
    p = plan("mma_turing", 32, 32, 16, BM=64, BN=64, WM=32, WN=32)
    names = {path.name for path in text_room.headers(p.kernel.source)}
    assert {"fragments.cuh", "swizzle.cuh", "chunks.cuh"} <= names
    assert p.trace().ok
    state = toolchain.header_state(p.kernel.source)
    assert {Path(path).parent for path, _, _ in state} == {kernels / "common"}  # of this folder
    edit(kernels / "common" / "swizzle.cuh", "return row * COLS +", "return row * COLS + 0 *")
    assert toolchain.header_state(p.kernel.source) != state
    assert not p.trace().ok
    edit(kernels / "common" / "swizzle.cuh", "return row * COLS + 0 *", "return row * COLS +")
    assert p.trace().ok


def test_headers_are_found_as_the_compiler_finds_them():
    text = '#include "common/swizzle.cuh"\n#include <cuda_fp16.h>\n#include "not/there.cuh"\n'
    found = [path.name for path in text_room.headers(text)]
    assert found == ["swizzle.cuh", "chunks.cuh"]
    assert len(toolchain.header_state(text)) == 2 and toolchain.header_state("int x;") == ()


# -- on a GPU --------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_on_a_gpu_launch_writes_in_place_and_own_text_is_timed():
    import cupy

    p = plan("tiled_32", 100, 70, 50)
    host = numbers.operands("tiled_32", 100, 70, 50)
    A, B, C = *map(cupy.asarray, host), cupy.zeros((100, 70), np.float32)
    p.launch(A, B, C)
    assert numbers.wrong_elements("tiled_32", *host, C.get()) == 0
    there = np.zeros((100, 70), np.float32)
    p.launch(*host, there)
    assert np.array_equal(there, C.get())
    with pytest.raises(DtypeError, match="lie together"):
        p.launch(*host, C)
    twice = p.with_source(TILED.replace("] = sum;", "] = 2 * sum;"))
    assert np.array_equal(twice.matmul(*host, backend="cuda"), 2 * there)
    own = plan("tiled_32", 512).with_source(TILED)
    timed = own.measure()
    assert timed.live and timed.recorded is None and timed.value(own.kernel, 512) > 0


@pytest.mark.gpu
def test_on_a_gpu_a_nan_becomes_the_bfloat16_that_is_written_here():
    import cupy

    source = """#include <cuda_bf16.h>
    extern "C" __global__ void rounded(const float* x, unsigned short* y, int n) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = __bfloat16_as_ushort(__float2bfloat16(x[i]));
    }"""
    x = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    x[:6] = [np.nan, -np.nan, np.inf, -np.inf, 3.4e38, 1e-45]
    arch = device.current().arch
    function = launch._load(toolchain.compile(source, arch=arch).cubin).get_function("rounded")
    y = cupy.zeros(x.size, cupy.uint16)
    function((256,), (256,), (cupy.asarray(x), y, np.int32(x.size)))
    assert np.array_equal(y.get(), bfloat16.to_bfloat16(x))
