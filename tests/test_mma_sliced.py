"""Slices of K on Tensor Cores: right and quiet wherever rows start, the same to the bit, and chosen
where it helps."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.ladder import choosing, launch, model, usage
from helpers.ladder.kernel import KERNELS, geometry
from helpers.ladder.rungs import catalog
from nogpu import device
from nogpu.errors import EmulationError

NAMES = ("mma_sliced", "mma_sliced_bf16")
H200, A100 = device.gpu("h200"), device.gpu("a100")
SMALL = {"BM": 32, "BN": 64, "BK": 32, "WM": 16, "STAGES": 3, "MIN_BLOCKS": 1}
DEEP = {**SMALL, "BK": 128}
THIN = {"BM": 16, "BN": 128, "WM": 16}
NARROW = {"BM": 128, "BN": 32, "MIN_BLOCKS": 2}

SHAPES = [(1, 1, 1), (3, 72, 264), (33, 65, 47), (64, 31, 130), (17, 137, 300), (130, 7, 77)]
SHAPES += [(20, 40, 64), (5, 6, 400)]
"""Rows of A and B that start at 16 bytes, at 4 and at 2, and each of these beside each."""


@pytest.mark.parametrize("tile", [SMALL, DEEP, THIN, NARROW], ids=lambda t: f"{t['BM']}x{t['BN']}")
@pytest.mark.parametrize("slices", [1, 2, 5])
def test_right_and_quiet_on_awkward_shapes(tile, slices):
    for i, shape in enumerate(SHAPES):
        schedule = ("ascending", "permuted")[i % 2]
        p = geometry(catalog[NAMES[(i + slices) % 2]], *shape, **tile, SLICES=slices)
        found = launch.trace_of(p, schedule=schedule, seed=i)
        assert found.ok, (shape, found.report)


@pytest.mark.parametrize(("M", "N", "K"), [(40, 60, 333), (33, 72, 256)])
def test_c_is_the_same_to_the_bit_in_whatever_order_blocks_come(M, N, K):
    runs = [
        launch.trace("mma_sliced", M, N, K, schedule=schedule, **SMALL, SLICES=4).C
        for schedule in ("ascending", "permuted")
    ]
    assert np.array_equal(runs[0].view(np.uint16), runs[1].view(np.uint16))


def with_header(kernel, *changes):
    """The kernel with its header of shifted rows in its own text, changed."""
    include, text = '#include "common/shifted_rows.cuh"', kernel.source
    header = (KERNELS / "common/shifted_rows.cuh").read_text(encoding="utf-8")
    header = header.replace("#pragma once", "").replace('#include "', '#include "common/')
    text = text.replace(include, header)
    for old, new in changes:
        assert old in text, f"the kernel changed: change its twin as well ({old})"
        text = text.replace(old, new)
    return kernel.with_source(text)


def test_a_matrix_that_starts_between_sixteen_bytes_is_gathered():
    """The emulator's arrays all start at 16 bytes: here the kernel is told that none does."""
    twin = with_header(
        catalog["mma_sliced"], ("reinterpret_cast<size_t>(matrix) % 16 != 0", "matrix != nullptr")
    )
    for shape in ((33, 65, 47), (17, 137, 300), (20, 40, 64)):
        found = launch.trace_of(geometry(twin, *shape, **SMALL, SLICES=2))
        assert found.ok, (shape, found.report)


def test_rows_that_start_anywhere_are_read_sixteen_bytes_at_a_time():
    """A line of a tile is copied as eight lanes' chunks and one: no element is fetched alone."""
    M, N, K = 64, 101, 203
    trace = launch.trace("mma_sliced", M, N, K)
    rows = [r for r in trace.by_line() if r.array in ("A", "B") and r.space == "global"]
    assert {r.op for r in rows} == {"load"}
    lines = M * -(-K // 64) + K * -(-N // 64)
    chunks = 9 * (64 * -(-K // 64) + -(-K // 64) * 64 * -(-N // 64))
    assert lines < sum(r.requests for r in rows) * 32 <= 8 * chunks


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tile", catalog["mma_sliced"].candidates)
@pytest.mark.parametrize(("arch", "gpu"), [("sm_80", A100), ("sm_90", H200)])
def test_every_tile_to_choose_from_keeps_its_sums_in_registers(name, tile, arch, gpu):
    p = geometry(catalog[name], 4096, 4096, 4096, **tile)
    r = usage.resources_of(p, arch)
    assert r.spill_stores + r.spill_loads + r.stack == 0
    assert 1 <= model.resident_blocks(p, gpu) <= r.occupancy.blocks


# Each is what the kernel would be with one thing forgotten: the checks above must refuse it.
BROKEN = [
    ("rows_end - row", "1 << 20", "rows beyond the matrix"),
    ("cols_end - col + shift", "cols_end - col", "the end of a shifted row"),
    ("chunk + CHUNK, left - CHUNK)", "chunk + CHUNK, CHUNK)", "beyond"),
    ("finish(place, left);", "finish(place, CHUNK);", "beyond the end of the matrix"),
    ("(shift & 1) * 16", "0", "an odd shift"),
    ("__syncwarp();  // the row is in registers", "", "a row is overwritten while it is read"),
    ("__syncwarp();  // the copies of the row's other lanes", "//", "copies are not waited for"),
    ("__syncthreads();  // the first tiles are complete", "", "no barrier before fragments"),
    ("__syncthreads();  // the tile is complete", "", "no barrier before C leaves"),
    ("s < slices; ++s", "s < slices - 1; ++s", "the last slice"),
    ("slice + 1) / slices) * BK)", "slice + 1) / slices) * BK) - 1", "the last step of a slice"),
    ("min(BM, M - m0)", "BM", "rows of C"),
    ("n0, min(BM, M - m0), N - n0", "n0, min(BM, M - m0), BN", "columns of C"),
]


@pytest.mark.parametrize(("old", "new", "why"), BROKEN, ids=[b[2] for b in BROKEN])
def test_the_same_check_refuses_a_broken_twin(old, new, why):
    twin = with_header(catalog["mma_sliced"], (old, new))
    quiet = []
    for shape in ((33, 65, 147), (17, 77, 203)):
        for schedule in ("ascending", "permuted"):
            try:
                p = geometry(twin, *shape, **SMALL, SLICES=2)
                quiet.append(launch.trace_of(p, schedule=schedule).ok)
            except EmulationError:
                quiet.append(False)
    assert not all(quiet), why


def test_few_rows_and_odd_rows_are_given_to_it_and_a_large_square_is_not():
    for shape in ((16, 4096, 4096), (900, 60, 3001), (1501, 2903, 21)):
        entry = choosing.best("bfloat16", *shape, H200).kernel.entry
        assert entry in ("mma_sliced", "mma_pieces", "mma_short"), shape
    for shape in ((4096, 4096, 4096), (1024, 1024, 16384)):
        assert choosing.best("bfloat16", *shape, H200).kernel.host == "tma", shape
    assert choosing.best("float16", 64, 64, 8192, A100).params["SLICES"] > 1
