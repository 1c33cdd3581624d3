"""Sectors and wavefronts, counted by hand or by a plain loop over the definition."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from nogpu import emulator
from nogpu.errors import EmulationError


def row(report, op, array=None, space="global"):
    """The one line access of that kind."""
    rows = [
        a for a in report.by_line()
        if a.op == op and a.space == space and (array is None or a.array == array)
    ]  # fmt: skip
    assert len(rows) == 1, report
    return rows[0]


@pytest.mark.parametrize(
    ("width", "kind"), [(8, "float2"), (16, "float4"), (2, "short"), (1, "char")]
)
def test_other_widths(width, kind):
    body = "{ y[threadIdx.x] = x[threadIdx.x]; }"
    source = f'extern "C" __global__ void k(const {kind}* x, {kind}* y) {body}'
    dtype = {"short": np.int16, "char": np.int8}.get(kind, np.float32)
    x = np.zeros(64 * width // np.dtype(dtype).itemsize, dtype)
    report = emulator.launch(source, "k", 1, 64, [x, x.copy()])
    load = row(report, "load")
    assert (load.requests, load.sectors, load.bytes) == (2, 2 * width, 64 * width)
    assert load.width_bytes == width


def by_definition(block, grid, index, n):
    """Requests and sectors of loads x[index(thread, block)] where below n, warp by warp."""
    bx, by = block
    requests = sectors = 0
    for blk in range(grid[0] * grid[1]):
        where = (blk % grid[0], blk // grid[0])
        for warp in range(0, bx * by, 32):
            at = [
                index((t % bx, t // bx), where)
                for t in range(warp, min(warp + 32, bx * by))
            ]  # fmt: skip
            at = [i for i in at if i < n]
            requests += bool(at)
            sectors += len({i // 8 for i in at})
    return requests, sectors


@pytest.mark.parametrize(
    "block", [(32, 4), (16, 16), (8, 8), (64, 2), (5, 7), (12, 10), (1, 40), (33, 3), (4, 64)]
)
def test_every_block_shape_against_the_definition(block):
    """Values that vary along some axes only must count like ones written out for every thread."""
    source = """
    extern "C" __global__ void k(const float* x, float* y, int n)
    {
        const int row = blockIdx.y * blockDim.y + threadIdx.y;
        const int col = blockIdx.x * blockDim.x + threadIdx.x;
        float s = x[row];
        s += x[col * 3];
        s += x[row * 7 + col * 2];
        if (row * 5 + col < n) s += x[row * 5 + col];
        y[0] = s;
    }
    """
    grid = (3, 2)
    x = np.zeros(20000, np.float32)
    n = 100
    report = emulator.launch(source, "k", grid, block, [x, np.zeros(1, "f4"), n])
    lines = {a.line: a for a in report.by_line() if a.op == "load"}
    bx, by = block
    cases = {
        6: lambda t, b: b[1] * by + t[1],
        7: lambda t, b: 3 * (b[0] * bx + t[0]),
        8: lambda t, b: 7 * (b[1] * by + t[1]) + 2 * (b[0] * bx + t[0]),
        9: lambda t, b: 5 * (b[1] * by + t[1]) + b[0] * bx + t[0],
    }
    for line, index in cases.items():
        want = by_definition(block, grid, index, n if line == 9 else 10**9)
        assert (lines[line].requests, lines[line].sectors) == want, (line, lines[line])


# -- shared memory -------------------------------------------------------------------------------

L = np.arange(32)


BANKS = {
    "float": [
        (L, 1),
        (L * 0 + 5, 1),  # one word for all: broadcast
        (L * 2, 2),
        (L * 3, 1),
        (L * 4, 4),
        (L * 8, 8),
        (L * 16, 16),
        (L * 31, 1),
        (L * 32 % 1024, 32),  # a column of a 32-wide tile
        (L * 33 % 1024, 1),  # a column of a padded tile
        (L // 2, 1),
        (L ^ 21, 1),
        (np.where(L < 16, L, L + 16), 2),
        (np.where(L < 16, L * 32, -1), 16),  # half of the lanes inactive
        (np.where(L == 3, 7, -1), 1),
    ],
    "float2": [
        (L, 2),  # 256 bytes
        (L * 0, 1),
        (L // 2, 1),  # neighbours agree: one phase
        (L // 4, 1),
        (L % 16, 2),  # the halves agree with each other, but not the neighbours
        (L * 2, 4),
        (L * 16, 32),
        (L * 17 % 1024, 2),
    ],
    "float4": [
        (L, 4),  # 512 bytes
        (L * 0, 2),
        (L // 2, 2),
        (L // 8, 2),
        (L * 8, 32),
        (L * 9 % 1024, 4),  # rows of 36 words: conflict-free
        (np.where(L < 8, L, -1), 1),
    ],
}
"""Elements that the lanes of a warp take, and wavefronts of a load, counted by hand."""


TRANSPOSE = """
extern "C" __global__ void transpose(const float* x, float* y, int n)
{
    __shared__ float tile[32][32 + PAD];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * n + threadIdx.x];
    __syncthreads();
    y[threadIdx.y * n + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
"""


@pytest.mark.parametrize(("pad", "want"), [(0, 32), (1, 1), (2, 2), (4, 4)])
def test_padding_a_tile_moves_its_columns_to_other_banks(pad, want):
    x, y = np.random.default_rng(0).random((32, 32), np.float32), np.zeros((32, 32), np.float32)
    report = emulator.launch(
        TRANSPOSE, "transpose", 1, (32, 32), [x, y, 32], defines={"PAD": pad}, samples=True
    )
    assert report.ok, report
    np.testing.assert_array_equal(y, x.T)
    load = row(report, "load", "tile", "shared")
    assert load.wavefronts_per_request == want
    assert load.ideal_wavefronts_per_request == 1
    assert load.requests == 32
    array, elements = report.lanes(7, "shared", "load", 2)
    assert array == "tile"
    np.testing.assert_array_equal(elements, L * (32 + pad) + 2)


@pytest.mark.parametrize("block", [(8, 8), (16, 4), (7, 9), (32, 2), (64, 1)])
def test_wavefronts_of_every_block_shape_against_the_definition(block):
    source = """
    extern "C" __global__ void k(float* y)
    {
        __shared__ float s[4096];
        const int t = threadIdx.y * blockDim.x + threadIdx.x;
        for (int i = t; i < 4096; i += blockDim.x * blockDim.y) s[i] = i;
        __syncthreads();
        float v = s[threadIdx.x * 8];
        v += s[threadIdx.y * 16];
        v += s[threadIdx.x * 32 + threadIdx.y];
        y[t] = v;
    }
    """
    bx, by = block
    threads = bx * by
    report = emulator.launch(source, "k", 2, block, [np.zeros(threads, np.float32)])
    lines = {a.line: a for a in report.by_line() if a.op == "load"}
    t = np.arange(threads)
    cases = {8: t % bx * 8, 9: t // bx * 16, 10: t % bx * 32 + t // bx}
    for line, words in cases.items():
        want = 0
        for warp in range(0, threads, 32):
            distinct = np.unique(words[warp : warp + 32])
            want += np.bincount(distinct % 32).max()
        assert lines[line].wavefronts == 2 * want, (line, lines[line])


# -- the kernels of the book ---------------------------------------------------------------------


ACROSS_BLOCKS = """
extern "C" __global__ void k(const float* x, float* y, int n)
{
    __shared__ float s[256];
    const int t = threadIdx.x;
    s[t] = 1;
    __syncthreads();
    float v = x[3 * t];
    if (t < n) v += x[2 * t] + s[(5 * t) % 256];
    if (t % 7 == 0) v += x[t];
    y[64 * blockIdx.x + t] = v;
}
"""


@pytest.mark.parametrize("blocks", [1, 2, 5])
@pytest.mark.parametrize("lanes", [64, 1 << 16])
def test_what_all_blocks_do_alike_counts_for_each_of_them(blocks, lanes):
    """Addresses that no block changes are looked at once; the sums are of all blocks."""
    x, y = np.zeros(256, np.float32), np.zeros(64 * blocks, np.float32)
    report = emulator.launch(ACROSS_BLOCKS, "k", blocks, 64, [x, y, 40], lanes=lanes, samples=True)
    got = {}
    for a in report.by_line():
        got.setdefault((a.line, a.space, a.op), []).append(a)
    requests = {(8, "global"): 2, (9, "global"): 2, (9, "shared"): 2, (10, "global"): 2}
    # By warp: 32 elements of 4 bytes; 32 and 8; those of 0, 7, .. 28 and of 35, 42, .. 63.
    sectors = {(8, "global"): (24, 8), (9, "global"): (10, 5), (10, "global"): (8, 2)}
    for (line, space), count in requests.items():
        (a,) = got[line, space, "load"]
        assert a.requests == count * blocks
        if space == "global":
            assert (a.sectors, a.ideal_sectors) == tuple(blocks * n for n in sectors[line, space])
        else:
            assert (a.wavefronts, a.ideal_wavefronts) == (2 * blocks, 2 * blocks)


def test_one_thread_is_counted_and_sampled_like_a_warp_of_one_lane():
    """Its accesses to arrays are added up without being looked at, once enough are kept."""
    source = """
    extern "C" __global__ void k(const float4* x, float4* y, int n)
    {
        #pragma unroll 1
        for (int i = 0; i < n; ++i) if (threadIdx.x == 0) y[i % 4] = x[i];
    }
    """
    for threads in (1, 32):
        x, y = np.zeros(1200, np.float32), np.zeros(16, np.float32)
        report = emulator.launch(source, "k", 1, threads, [x, y, 300], samples=True)
        for a in report.by_line():
            assert (a.requests, a.sectors, a.ideal_sectors, a.bytes) == (300, 300, 300, 4800)
            with pytest.raises(EmulationError, match="give 0 to 255"):
                report.lanes(a.line, op=a.op, request=256)
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    late = 'extern "C" __global__ void k(float* x) { if (threadIdx.x > 39) x[threadIdx.x] = 1; }'
    report = emulator.launch(late, "k", 1, 64, [x], samples=True)
    assert report.lanes(1, "global", "store")[1].tolist() == [-1] * 8 + list(range(40, 64))


@pytest.mark.parametrize(("last", "waves"), [(31, 1), (32, 2), (33, 2), (63, 1), (64, 2)])
@pytest.mark.parametrize("whole", [True, False])
def test_words_that_are_as_far_apart_as_there_are_banks_conflict(last, waves, whole):
    """Lanes 0 to 30 take words 0 to 30, lane 31 the last: in the bank of another, or not."""
    source = """
extern "C" __global__ void k(float* y, int last, int n)
{
    __shared__ float s[128];
    const int t = threadIdx.x;
    for (int i = t; i < 128; i += 32) s[i] = i;
    __syncthreads();
    if (t < n) y[t] = s[t == 31 ? last : t];
}
"""
    threads = 32 if whole else 40  # with lanes that do not take part, another way of counting
    report = emulator.launch(source, "k", 1, threads, [np.zeros(40, np.float32), last, 32])
    assert row(report, "load", "s", "shared").wavefronts == waves


LANES = """
extern "C" __global__ void k(const int* at, const KIND* x, KIND* out, int n)
{
    __shared__ __align__(16) KIND s[1024];
    const int t = blockIdx.x * blockDim.x + threadIdx.x, a = at[t], same = at[t + n];
    if (GUARD) {
        s[a] = x[a];
        out[t] = s[same];
    }
}
"""


def lanes(rng, rows):
    """Elements of 1024 by rows of 32 lanes, -1 where a lane is inactive: neighbours often agree."""
    at = rng.integers(0, 1024, (rows, 32))
    group = 1 << rng.integers(0, 6, (rows, 1))  # as many lanes that follow each other, or alternate
    near, apart = np.arange(32) // group, np.arange(32) % group
    at = np.take_along_axis(at, np.where(rng.integers(0, 2, (rows, 1)), near, apart), axis=1)
    at = np.where(rng.integers(0, 2, (rows, 1)), at, at % 64)
    return np.where(rng.random((rows, 32)) < rng.choice([0.1, 0.5, 1], (rows, 1)), at, -1)


def most_wanted(lanes):
    """Distinct words of the bank that has the most of them."""
    return max(Counter(w % 32 for w in {w for lane in lanes for w in lane}).values(), default=0)


def waves_by_definition(row, size, load):
    """Wavefronts of a warp whose lanes take elements of so many words: half-warps, quarters."""
    words = [[size * a + j for j in range(size)] if a >= 0 else [] for a in row]
    waves = 0
    for first in range(0, 32, 64 // max(size, 2)):
        part = words[first : first + 64 // max(size, 2)]
        pairs = [[(w, part[i ^ d]) for i, w in enumerate(part)] for d in (1, 2)]
        agree = any(all(v == w or not v or not w for v, w in each) for each in pairs)
        step = len(part) if size == 1 or (load and agree) else len(part) // 2
        waves += sum(most_wanted(part[i : i + step]) for i in range(0, len(part), step))
    return waves


SIZES = {"float": 1, "float2": 2, "float4": 4}
"""Words of an element."""


@pytest.mark.parametrize("kind", BANKS)
def test_the_definition_counts_what_is_counted_by_hand(kind):
    size = SIZES[kind]
    assert [waves_by_definition(at, size, True) for at, _ in BANKS[kind]] == [
        n for _, n in BANKS[kind]
    ]
    assert waves_by_definition(L, size, False) == size, "stores of several words do not merge"


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("guard", ["a >= 0", "true", "t % 64 < 20"])
def test_lanes_anywhere_are_counted_by_the_definition(kind, guard):
    size = SIZES[kind]
    by_hand = np.stack([at for at, _ in BANKS[kind]])
    at = np.vstack([by_hand, lanes(np.random.default_rng(size), 64 - len(by_hand))])
    if guard != "a >= 0":
        here = np.arange(64 * 32).reshape(64, 32) % 64 < (20 if "%" in guard else 64)
        at = np.where(here, at % 1024, -1)
    x, out = np.zeros(4096, np.float32), np.zeros(64 * 32 * size, np.float32)
    source = LANES.replace("KIND", kind).replace("GUARD", guard)
    report = emulator.launch(
        source, "k", 32, 64, [at.astype(np.int32), x, out, 0], analyse="counts"
    )
    sectors = sum(len({int(a) * size // 8 for a in row if a >= 0}) for row in at)
    assert row(report, "load", "x").sectors == sectors
    for op in ("load", "store"):
        got = row(report, op, "s", "shared")
        assert got.requests == (at >= 0).any(axis=1).sum()
        assert got.wavefronts == sum(waves_by_definition(r, size, op == "load") for r in at)
