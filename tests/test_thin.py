"""Kernels for few rows of A or few columns of B: right, quiet, the same to the bit, each element
read once."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from helpers.ladder import choosing, launch, model, usage
from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog
from nogpu import device
from nogpu.errors import EmulationError
from tests.common import twin

THIN = tuple(name for name, k in catalog.items() if model.is_thin(k))
H200 = device.gpu("h200")
SECTOR = 32
"""Bytes of global memory that are fetched together."""

SHAPES = [(1, 1, 1), (1, 1, 8192), (3, 513, 9), (8, 1025, 77), (300, 5, 40), (2, 132, 264)]
SHAPES += [(5, 64, 300), (33, 3, 520)]
CUT = ({}, {"SLICES": 2}, {"SLICES": 5})


def tiles(kernel):
    """The candidates that differ in what a block computes, smallest and largest."""
    return [{}, dict(kernel.candidates[0]), dict(kernel.candidates[-1])]


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("name", THIN)
def test_right_and_quiet_on_awkward_shapes(name, schedule):
    kernel = catalog[name]
    for i, (M, N, K) in enumerate(SHAPES):
        params = {**tiles(kernel)[i % 3], **CUT[i // 2 % 3]}
        found = launch.trace(kernel, M, N, K, schedule=schedule, seed=i, **params)
        assert found.ok, (M, N, K, params, found.report)


@pytest.mark.parametrize("name", ["thin_rows", "thin_columns"])
@pytest.mark.parametrize(("M", "N", "K"), [(3, 200, 700), (70, 3, 701)])
def test_c_is_the_same_to_the_bit_in_whatever_order_blocks_come(name, M, N, K):
    orders = ("ascending", "permuted")
    runs = [launch.trace(name, M, N, K, schedule=order, SLICES=4).C for order in orders]
    assert np.array_equal(runs[0].view(np.uint32), runs[1].view(np.uint32))


def sectors(trace, array):
    """Sectors of one array in global memory that all loads touched."""
    found = (array, "global", "load")
    return sum(r.sectors for r in trace.by_line() if (r.array, r.space, r.op) == found)


@pytest.mark.parametrize(
    ("name", "large", "shape", "params"),
    [
        ("thin_rows", "B", (1, 512, 200), {}),
        ("thin_rows", "B", (7, 512, 200), {"ROWS": 8, "SLICES": 3}),
        ("thin_rows_bf16", "B", (2, 512, 200), {"ROWS": 2}),
        ("thin_columns", "A", (40, 1, 512), {"COLUMNS": 1}),
        ("thin_columns", "A", (40, 7, 512), {"COLUMNS": 8, "SLICES": 3}),
        ("thin_columns_fp16", "A", (40, 3, 512), {}),
    ],
)
def test_each_element_of_the_large_matrix_is_read_once(name, large, shape, params):
    trace = launch.trace(name, *shape, **params)
    M, N, K = shape
    size = 2 if "16" in name else 4
    elements = K * N if large == "B" else M * K
    assert sectors(trace, large) == elements * size // SECTOR
    lines = [r for r in trace.by_line() if r.array == large and r.space == "global"]
    assert sum(r.requests for r in lines) == elements * size // 512  # sixteen bytes a lane
    twice = launch.trace(name, *shape, **{**params, "ROWS": 1, "COLUMNS": 1}) if N == 7 else None
    assert twice is None or sectors(twice, large) > sectors(trace, large)


@pytest.mark.parametrize("name", THIN)
def test_every_tile_to_choose_from_keeps_its_sums_in_registers(name):
    kernel = catalog[name]
    for tile in kernel.candidates:
        p = geometry(kernel, 4096, 4096, 4096, **tile)
        r = usage.resources_of(p, "sm_90")
        assert r.spill_stores + r.spill_loads + r.stack == 0, tile
        assert r.occupancy.blocks >= p.params["MIN_BLOCKS"] == model.resident_blocks(p, H200), tile


# Each is what a kernel would be with one thing forgotten: the checks above must refuse it.
BROKEN = [
    ("thin_rows", "b_row < end ? N - col : 0", "N - col", "rows of B beyond the slice"),
    ("thin_rows", "inside ? float(*A_src) : 0.0f", "float(*A_src)", "A beyond its edges"),
    ("thin_rows", "m0 + row < M && n0 + col < N", "m0 + row < M", "columns of C"),
    ("thin_rows", "s < slices; s += WARPS", "s + 1 < slices; s += WARPS", "the last slice"),
    ("thin_rows", "__syncthreads();  // the chunk is complete", "", "no barrier before A is read"),
    ("thin_rows", "__syncthreads();  // the sums of all warps", "//", "sums are not waited for"),
    ("thin_columns", "a_row + i < M ? end - a_col : 0", "end - a_col", "rows of A"),
    ("thin_columns", "k0 + k < end && n0 + col < N", "k0 + k < end", "columns of B"),
    ("thin_columns", "if (row < M && col < N)", "if (row < M)", "columns of C"),
    ("thin_columns", "__syncthreads();  // the chunk is complete", "", "no barrier"),
    ("thin_columns", "s < slices; s += 32", "s + 1 < slices; s += 32", "the last slice"),
    ("thin_columns", "upper ? sum[i] : sum[i + COUNT / 2]", "sum[i]", "the wrong half is given"),
]


@pytest.mark.parametrize(
    ("name", "text", "instead", "why"), BROKEN, ids=[f"{b[0]}: {b[3]}" for b in BROKEN]
)
def test_the_same_check_refuses_a_broken_twin(name, text, instead, why):
    broken = twin(name, (text, instead))

    def quiet(*shape):
        with suppress(EmulationError):
            return launch.trace(broken, *shape, SLICES=3).ok
        return False

    assert not (quiet(3, 133, 77) and quiet(35, 3, 301)), why


def test_a_thin_product_is_given_to_a_thin_kernel_and_no_other_is():
    for shape, name in {
        (1, 4096, 4096): "thin_rows", (4096, 1, 4096): "thin_columns", (8, 4096, 4096): "thin_rows",
        (4096, 7, 4000): "thin_columns", (4096, 7, 4001): "fp32_sliced",
        (4096, 4096, 4096): "fp32_sliced",
    }.items():  # fmt: skip
        assert choosing.best("float32", *shape, H200).kernel.name == name, shape


def test_the_prediction_knows_slices_bytes_and_the_memory():
    def clocks(kernel, M, N, K, **params):
        return model.thin_clocks(geometry(catalog[kernel], M, N, K, **params), H200)

    # few blocks: slices help, until their meeting costs more than they bring
    by_slices = [clocks("thin_rows", 1, 512, 8192, SLICES=s) for s in (1, 16, 4096)]
    assert by_slices[1] < min(by_slices[0], by_slices[2])
    # where all SMs are busy, a row too many is one more pass over B, from L2
    eight, nine = (clocks("thin_rows", M, 8192, 8192, ROWS=8, SLICES=8) for M in (8, 9))
    assert nine > 1.2 * eight
    # no launch beats the memory, and elements of half the size take less
    for name in THIN:
        item = 2 if "16" in name else 4
        M, N = (1, 8192) if "rows" in name else (8192, 1)
        least = item * 8192 * 8192 / H200.bandwidth_gbs * H200.boost_mhz / 1e3
        assert least < clocks(name, M, N, 8192, SLICES=8) < 2 * least + model.START_CLOCKS
