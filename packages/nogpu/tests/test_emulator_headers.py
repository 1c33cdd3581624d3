"""CUDA's own headers in the emulator: what their functions return, and what is refused by name."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from foreign_kernels import cuda

from nogpu import emulator, toolchain
from nogpu.errors import CompileError, ConfigError

pytestmark = pytest.mark.xdist_group("headers")

GROUPS = cuda("groups")
X = (np.arange(256, dtype=np.int32) * 37) % 101


@cache
def _tiles(size):
    return X.reshape(-1, size).astype(np.int64)


@pytest.fixture(params=["ascending", "permuted"])
def groups(request):
    """Runs a kernel of GROUPS for 256 threads, in either order of warps: report and y."""

    def run(entry, per_thread=1, n=256, arch="sm_80", blocks=1):
        y = np.full(256 * per_thread * blocks, -7, np.int32)
        report = emulator.launch(
            GROUPS, entry, blocks, 256, [X, y, n], arch=arch, schedule=request.param
        )
        return report, y.reshape(-1, per_thread) if per_thread > 1 else y

    return run


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_tiles_exchange_values(groups, arch):
    report, y = groups("shuffles", 8, arch=arch)
    assert report.ok, report
    t, lane = _tiles(16), np.arange(16)
    bit = 1 << lane
    same = ((t & 3)[:, :, None] == (t & 3)[:, None, :]) * bit
    want = [
        np.repeat(t[:, 5:6], 16, axis=1),
        t[:, np.minimum(lane + 3, 15) * (lane + 3 < 16) + lane * (lane + 3 >= 16)],
        t[:, np.where(lane >= 2, lane - 2, lane)],
        t[:, lane ^ 9],
        np.repeat(((t & 1) * bit).sum(axis=1, keepdims=True), 16, axis=1),
        same.sum(axis=2),
        np.repeat(2 * (t == 7).any(axis=1, keepdims=True) + 1, 16, axis=1),
        1000 * np.arange(16)[:, None] + lane,
    ]
    for column, values in enumerate(want):
        np.testing.assert_array_equal(y[:, column], values.reshape(-1), err_msg=str(column))


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_tiles_reduce_and_scan(groups, arch):
    report, y = groups("sums", 4, arch=arch)
    assert report.ok, report
    t = _tiles(8)
    scan = np.cumsum(t, axis=1)
    for column, values in enumerate(
        (t.sum(1, keepdims=True) + 0 * t, t.max(1, keepdims=True) + 0 * t, scan, scan - t)
    ):
        np.testing.assert_array_equal(y[:, column], values.reshape(-1))


@pytest.mark.parametrize("size", [1, 4, 32])
def test_tiles_whose_size_is_known_at_run_time(groups, size):
    report, y = groups("sizes_at_run_time", n=size)
    assert report.ok, report
    np.testing.assert_array_equal(y, 100 * size + np.arange(256) % size)


def test_threads_that_are_together(groups):
    report, y = groups("together")
    assert report.ok, report
    i = np.arange(256)
    want = np.full(256, -1)
    for warp in range(8):
        here = i[32 * warp : 32 * warp + 32]
        here = here[X[here] % 3 == 0]
        head = 10000 * here[0] + 100 * len(here) + 1000000 * (X[here].sum() % 100)
        want[here] = head + np.arange(len(here))
    np.testing.assert_array_equal(y, want)


def test_labelled_and_binary_partitions(groups):
    report, y = groups("partitions")
    assert report.ok, report
    w = _tiles(32)
    same = (w % 5)[:, :, None] == (w % 5)[:, None, :]
    two = (w % 7 < 3)[:, :, None] == (w % 7 < 3)[:, None, :]
    want = 10000 * (same * w[:, None, :]).sum(2) + 100 * same.sum(2) + two.sum(2)
    np.testing.assert_array_equal(y, want.reshape(-1))


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_copies_and_split_barriers(groups, arch):
    report, y = groups("copied", arch=arch)
    assert report.ok, report
    np.testing.assert_array_equal(y, X[::-1])
    assert any("cp.async" in op for op in report.instructions) == (arch == "sm_80")
    report, y = groups("arrive_and_wait", arch=arch)
    assert report.ok, report
    np.testing.assert_array_equal(y, X[np.arange(256) ^ 37] + 2 * X)
    report, _ = groups("arrive_only", arch=arch)  # its last store is not ordered after the loads
    assert {f.kind for f in report.findings} == {"race"}


def test_a_grid_cannot_wait_for_itself_in_a_normal_launch(groups):
    report, y = groups("whole_grid", n=0, blocks=3)
    assert report.ok and (y == 130).all()  # is_valid() is false: this is no cooperative launch
    report, _ = groups("whole_grid", n=1, blocks=3)
    (finding,) = report.findings
    assert finding.kind == "trap" and "grid.sync()" in finding.text
    assert "cooperative launch" in finding.message and "second one" in finding.message


MEETS = cuda("grid_meets")


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_the_grid_of_a_cooperative_launch_waits_for_itself(arch, schedule):
    x = np.arange(256, dtype=np.int32)
    want = 2 * x[::-1]
    for _ in range(3):
        want = np.roll(np.roll(want, -1) + 1, -7)
    for sync, sound in (("grid.sync()", True), ("grid.sync(); grid.sync()", True), ("", False)):
        part, y = np.zeros((2, 256), np.int32)
        report = emulator.launch(
            MEETS.replace("SYNC", sync), "k", 8, 32, [x, part, y],
            arch=arch, schedule=schedule, cooperative=True,
        )  # fmt: skip
        assert report.ok is sound, report
        assert {f.kind for f in report.findings} <= {"race"}
        assert not sound or (y == want).all()


def test_a_cooperative_launch_of_more_blocks_than_run_at_once_is_refused():
    arrays = [np.zeros(1 << 17, np.int32) for _ in range(3)]
    given = ("k", 1 << 12, 32, arrays)
    with pytest.raises(ConfigError, match=r"4096 blocks: all must run at once.*at most \d+ blocks"):
        emulator.launch(MEETS.replace("SYNC", "grid.sync()"), *given, cooperative=True)
    with pytest.raises(ConfigError, match="leave sample_blocks out"):
        emulator.launch(MEETS, *given, cooperative=True, sample_blocks=2)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_tiles_of_more_than_a_warp(groups, arch):
    """Their lanes store one value together, and no warp knows of the others but by a flag."""
    report, y = groups("wide_tile", arch=arch)
    assert report.ok, report
    np.testing.assert_array_equal(y, np.repeat(_tiles(64).sum(axis=1), 64))
    y = np.zeros(256, np.int32)
    early = GROUPS.replace("y[threadIdx.x] = cg::reduce(tile,", "__shared__ int s[256];"
        " s[threadIdx.x] = x[threadIdx.x]; y[threadIdx.x] = s[threadIdx.x ^ 32] + 0 * cg::reduce(tile,")  # fmt: skip
    assert {
        f.kind for f in emulator.launch(early, "wide_tile", 1, 256, [X, y, 0], arch=arch).findings
    } == {"race"}


# -- headers that are not there --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "hidden", "says"),
    [
        (
            "cooperative_groups.h",
            "cccl",
            r'cuda/std/type_traits .*"nvidia-cuda-cccl==\d+\.\d+\.\*"',
        ),
        ("cub/block/block_reduce.cuh", "cccl", r"nvidia-cuda-cccl"),
        ("cuda_fp8.h", "", r"nvidia-cuda-runtime"),
        ("my_own.h", "cccl", None),
        ("cuda/not_in_this_version", "nothing", None),
        ("cub/cub.cuh", "nothing", r"include what the kernel uses alone"),
        ("cassert", "nothing", r"no <cassert>: leave it out"),
    ],
)
def test_a_header_that_cannot_be_had_says_what_to_do(header, hidden, says, monkeypatch):
    tool = toolchain.nvrtc()
    left = tuple(f for f in tool.includes if hidden and hidden not in f)
    found = toolchain.Nvrtc(tool.library, tool.version, left, tool.release)
    monkeypatch.setattr(toolchain, "nvrtc", lambda: found)
    toolchain._compile.cache_clear()
    source = f"#include <{header}>\n__global__ void missing() {{}}"
    with pytest.raises(CompileError) as caught:
        toolchain.compile(source, arch="sm_80")
    first = str(caught.value).splitlines()[0]
    if says is None:
        assert "pip install" not in str(caught.value)
    else:
        assert re.search(says, first), first
