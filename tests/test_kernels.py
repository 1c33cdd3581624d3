"""The kernels of chapters 04 to 12: right on awkward shapes, no spills, the SASS that is meant."""

from contextlib import nullcontext
from random import Random

import numpy as np
import pytest

from helpers.chapters.ch14.turing import between, loop_of
from helpers.ladder import launch, numbers, usage
from helpers.ladder.kernel import broken_rules, defines
from helpers.ladder.rungs import catalog
from nogpu import toolchain
from nogpu.errors import CompileError, EmulationError
from tests.common import twin

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90")
ONE_ELEMENT = ("naive", "naive_int", "coalesced", "coalesced_int", "unrolled", "coarsened")
TILED = ("tiled_8", "tiled_16", "tiled_32", "tiled_int_32", "tiled_rect", "tiled_pad_rows")
IN_REGISTERS = ("block_1d", "privatised_2", "privatised_4", "block_2d")
IN_FOURS = ("vectorised", "prefetch", "double_buffer", "lane_map", "cp_async")
ANY_SHAPE = (*ONE_ELEMENT, *TILED, *IN_REGISTERS, *IN_FOURS)
ALL = (*ANY_SHAPE, "tiled_padded")

SMALL = {"BM": 32, "BN": 32, "BK": 8, "TM": 4, "TN": 4}
"""Tiles small enough that shapes up to 70 span several blocks, and quick to emulate."""
SMALL_TILES = {
    "block_1d": {"BM": 32, "BN": 32, "BK": 8, "TM": 4},
    "block_2d": {**SMALL, "TM": 4, "TN": 2},
    **dict.fromkeys(IN_FOURS, SMALL),
    "fp32_turing": {**SMALL, "BN": 64, "WM": 32, "WN": 32, "TN": 8, "MIN_BLOCKS": 1},
}


def archs(kernel):
    """The architectures that a kernel compiles for."""
    least = toolchain.arch_number(kernel.min_arch)
    return [arch for arch in ARCHS if toolchain.arch_number(arch) >= least]


# -- what the compiler makes of them ---------------------------------------------------------------


def spills(report):
    return report.spill_stores + report.spill_loads + report.stack


@pytest.mark.parametrize("name", [*ALL, "fp32_turing"])
def test_the_default_tile_spills_nothing_and_fits_an_sm(name):
    for arch in archs(catalog[name]):
        r = usage.resources(name, arch)
        assert spills(r) == 0 and r.occupancy.blocks >= 1, (arch, r)


def test_a_register_limit_that_is_too_tight_is_seen_to_spill():
    tight = twin("vectorised", ("__launch_bounds__(THREADS)", "__launch_bounds__(THREADS, 4)"))
    assert spills(toolchain.compile(tight.source, arch="sm_80").kernels["vectorised"]) > 0


def test_register_blocked_kernels_keep_two_blocks_on_an_sm():
    """At 256 threads a block that is 128 registers a thread, on every SM with room for 512."""
    for name in ("block_2d", *IN_FOURS, "fp32_turing"):
        for arch in archs(catalog[name]):
            r = usage.resources(name, arch)
            assert r.registers <= 128 and r.occupancy.blocks >= 2, (arch, r)
    assert usage.resources("warp_tiled", "sm_75").occupancy.blocks == 1


COPY = {"LDG", "LDG.128", "STS", "STS.128", "LDGSTS", "LDGSTS.128"}
"""Ways for a tile to come into shared memory by threads."""
IN_THIN = {"LDG.128", "FFMA"}
IN_TILES = {"LDS", "LDS.128", "STS", "BAR"}
WIDE = {"LDS.128", "LDG.128", "STS.128"}
MATRICES = {"LDSM", "LDG.128", "STS.128"}
BY_HARDWARE = ({"LDSM", "LDGSTS.128", "HMMA"}, COPY - {"LDGSTS.128"})
IN_16_BYTES = (("", 4), ("_bf16", 8), ("_fp16", 8))
"""Ends of the thin kernels' names, and how many elements 16 bytes hold."""
LOOPS: dict[str, tuple[set[str], set[str], int]] = {
    # What the loop over whole tiles has; what it has not (and its ragged twin has); its products.
    **dict.fromkeys(("naive", "coalesced"), ({"LDG", "FFMA"}, {"LDS", "LDS.128", "BAR"}, 32)),
    **dict.fromkeys(("naive_int", "coalesced_int"), ({"LDG", "IMAD"}, {"LDS", "BAR", "FFMA"}, 0)),
    "unrolled": ({"LDG", "FFMA"}, {"LDS", "BAR"}, 16),
    "coarsened": ({"LDG", "FFMA"}, {"LDS", "BAR"}, 16),
    **dict.fromkeys(("tiled_8", "tiled_16"), (IN_TILES, {"LDG.128"}, 16)),
    **dict.fromkeys(("tiled_32", "tiled_padded", "tiled_rect"), (IN_TILES, {"LDG.128"}, 32)),
    "tiled_int_32": (IN_TILES | {"IMAD"}, {"LDG.128", "FFMA"}, 0),
    # an odd row length forbids wide reads
    "tiled_pad_rows": ({"LDS", "STS", "BAR"}, {"LDS.128", "LDG.128"}, 32),
    "block_1d": ({"LDS.128", "LDG", "STS", "BAR"}, {"LDG.128"}, 64),
    "privatised_2": ({"LDS", "LDG", "STS", "BAR"}, {"LDG.128"}, 32),
    "privatised_4": ({"LDS", "LDG", "STS", "BAR"}, {"LDG.128"}, 64),
    "block_2d": ({"LDS.128", "LDG"}, {"LDS", "LDG.128"}, 512),
    "vectorised": (WIDE | {"STS"}, {"LDS", "LDG"}, 512),
    **dict.fromkeys(("prefetch", "double_buffer", "lane_map"), (WIDE, {"LDS", "LDG"}, 512)),
    "cp_async": ({"LDS.128", "LDGSTS", "LDGSTS.128"}, COPY - {"LDGSTS", "LDGSTS.128"}, 512),
    "warp_tiled": (WIDE, {"LDS", "LDG", "LDGSTS"}, 1024),
    "fp32_turing": (WIDE, {"LDS", "LDG", "LDGSTS"}, 512),
    **dict.fromkeys(
        ("fp32_best", "fp32_sliced"),
        ({"LDS.128", "LDGSTS", "LDGSTS.128"}, COPY - {"LDGSTS", "LDGSTS.128"}, 1024),
    ),
    # eight rows of B under way a warp, or two steps of four rows of A; no element of them is staged
    **{f"thin_rows{t}": (IN_THIN | {"LDS"}, {"LDG", "BAR", "STS"}, 8 * n) for t, n in IN_16_BYTES},
    **{
        f"thin_columns{t}": (IN_THIN | {"LDS.128"}, {"LDG", "LDS", "BAR", "STS"}, 2 * 16 * n)
        for t, n in IN_16_BYTES
    },
    **dict.fromkeys(("wmma_launch_l", "wmma"), ({"LDG", "HMMA"}, {"LDS", "BAR"}, 8)),
    **dict.fromkeys(("wmma_shared", "wmma_tiled"), (MATRICES, {"LDG", "STS"}, 64)),
    "mma_naive": ({"LDS", "LDG.128", "STS.128"}, {"LDG", "STS", "LDSM"}, 64),
    **dict.fromkeys(("mma_ldmatrix", "mma_swizzle"), (MATRICES, {"LDG", "STS", "LDS"}, 64)),
    "mma_turing": (MATRICES, {"LDG", "STS", "LDS"}, 128),
    **dict.fromkeys(("mma_pipelined", "mma_pipelined_bf16"), (*BY_HARDWARE, 64)),
    **dict.fromkeys(("mma_sliced", "mma_sliced_bf16"), (*BY_HARDWARE, 32)),
    "mma_tma": ({"LDSM", "SYNCS", "HMMA"}, COPY, 128),
    "hopper_1": ({"HGMMA", "UTMALDG", "SYNCS"}, COPY | {"HMMA"}, 32),
    "hopper_2": ({"HGMMA", "SYNCS"}, COPY | {"HMMA", "STG", "UTMALDG"}, 16),
    **dict.fromkeys(("hopper_3", "hopper_4"), ({"HGMMA", "SYNCS"}, COPY | {"STG", "UTMALDG"}, 8)),
    # the walk over tiles of C and the one over K are one loop here: it holds the store, too
    **dict.fromkeys(
        ("hopper_5", "hopper_5_fp16", "hopper_6", "hopper_6_fp16"),
        ({"HGMMA", "SYNCS", "STSM", "UTMASTG"}, COPY | {"STG", "UTMALDG"}, 4),
    ),
}


def test_the_main_loop_of_every_kernel_is_described():
    assert set(LOOPS) == set(catalog)


@pytest.mark.parametrize("name", list(catalog))
def test_the_main_loop_is_the_one_over_whole_tiles(name):
    has, has_not, products = LOOPS[name]
    newest = "sm_90a" if catalog[name].min_arch == "sm_90a" else "sm_90"
    mix = usage.instruction_mix(name, newest)
    assert has <= set(mix), mix
    assert not has_not & set(mix), mix
    assert sum(mix.get(op, 0) for op in toolchain.MATH) == products


@pytest.mark.parametrize("name", ["coalesced", "tiled_32", "block_2d", "vectorised", "prefetch"])
def test_the_main_loop_holds_the_accesses_that_are_meant_on_turing(name):
    has, has_not, _ = LOOPS[name]
    mix = usage.instruction_mix(name, "sm_75")
    assert has <= set(mix), mix
    assert not has_not & set(mix), mix


def test_a_loop_unrolled_further_for_ragged_tiles_is_not_the_main_loop():
    """Two loops over K: one short and full of products, one with twice as many, twice as long."""
    source = """
    extern "C" __global__ void two(const float* A, float* C, int n, int whole) {
        float s[16] = {};
        if (whole) {
            #pragma unroll 1
            for (int k = 0; k < n; ++k)
                #pragma unroll
                for (int i = 0; i < 16; ++i) s[i] += A[k] * (threadIdx.x + i);
        } else {
            #pragma unroll 1
            for (int k = 0; k < n; ++k)
                #pragma unroll
                for (int i = 0; i < 31; ++i)
                    if (k + i < n) s[i % 16] += A[k + i] * A[threadIdx.x + i * n];
        }
        #pragma unroll
        for (int i = 0; i < 16; ++i) C[i * blockDim.x + threadIdx.x] = s[i];
    }
    """
    read = toolchain.sass_instructions(toolchain.compile(source, arch="sm_80").cubin, "two")
    loop = toolchain.main_loop(*read)
    assert sum(i.opcode == "FFMA" for i in loop) == 16
    assert sum(i.opcode == "FFMA" for i in read[0]) == 16 + 31


def test_a_tile_costs_the_barriers_that_are_claimed():
    barriers = {n: usage.instruction_mix(n, "sm_90")["BAR"] for n in IN_FOURS}
    assert barriers == dict.fromkeys(IN_FOURS, 1) | {"vectorised": 2, "prefetch": 2}


def test_what_is_fetched_is_put_down_well_before_the_barrier_on_turing():
    """A warp's multiply-adds of half a step of k and more, at two clocks each."""
    assert between(loop_of("fp32_turing"), "STS", "BAR") >= 32
    assert between(loop_of("fp32_turing"), "LDG", "STS") >= 128
    late = twin("fp32_turing", ("PUT_DOWN = BK - 3;", "PUT_DOWN = BK - 2;"))
    assert between(loop_of("fp32_turing", late.source), "STS", "BAR") < 16
    assert between(loop_of("warp_tiled"), "STS", "BAR") < 16


def test_the_t4s_kernel_turns_a_on_its_way_without_a_conflict():
    """Stores of four of a row into four rows: none takes more wavefronts than its words need."""
    assert per_request("fp32_turing", "store") == {"A_tile": 1, "B_tile": 4}
    assert per_request("fp32_turing") == {"A_tile": 2, "B_tile": 2}
    unpadded = twin("fp32_turing", ("A_PAD = VEC;", "A_PAD = 0;"))
    assert per_request(unpadded, "store")["A_tile"] > 1


def per_request(kernel, op="load", **tile):
    """Wavefronts to an access of each tile in shared memory, over one block of whole tiles."""
    trace = launch.trace(kernel, 128, 128, 32, **tile)
    assert trace.ok
    rows = [r for r in trace.by_line() if (r.space, r.op) == ("shared", op)]
    return {row.array: row.wavefronts_per_request for row in rows}


def test_the_lane_map_reads_both_tiles_in_two_wavefronts():
    assert per_request("double_buffer") == {"A_tile": 2, "B_tile": 4}
    assert per_request("lane_map") == {"A_tile": 2, "B_tile": 2}


def test_the_squares_and_the_rows_in_pieces_of_four_belong_together():
    """With squares alone a thread's rows are neighbours: four times 16 of them meet in two banks'
    fours, four times 8 do not."""
    alone = twin(
        "lane_map",
        ("LANES_M + lane_m) * VEC", "LANES_M + lane_m) * TM"),
        ("c_row + i / VEC * ROW_STEP", "c_row + i"),
        ("c_row + i + i % VEC", "c_row + i"),
    )
    assert per_request(alone) == {"A_tile": 2, "B_tile": 2}
    assert per_request(alone, TM=16) == {"A_tile": 4, "B_tile": 2}
    assert per_request("lane_map", TM=16) == {"A_tile": 2, "B_tile": 2}


# -- rules of the catalog and static_asserts of the files say the same -----------------------------


HOPPER = [n for n, k in catalog.items() if k.host == "tma" and not n.endswith("_fp16")]


@pytest.mark.parametrize(
    "name", [*(n for n in ALL if n not in ("naive_int", "coalesced_int")), *HOPPER]
)
def test_rules_and_static_asserts_agree(name):
    """A tile compiles if and only if the catalog allows it."""
    kernel = catalog[name]
    rng = Random(name)
    seen = {True: 0, False: 0}
    for _ in range(200 if name in HOPPER else 60):
        params = {p: rng.choice(values) for p, values in kernel.choices.items()}
        legal = not broken_rules(kernel, **params)
        if seen[legal] >= (3 if name in HOPPER else 4):
            continue
        seen[legal] += 1
        with nullcontext() if legal else pytest.raises(CompileError):
            toolchain.compile(
                kernel.source, name=kernel.file, arch=kernel.min_arch,
                defines=defines(kernel, params),
            )  # fmt: skip
    assert seen[True] and (seen[False] or name not in HOPPER)


def test_cp_async_on_an_older_gpu_says_what_to_use():
    with pytest.raises(CompileError) as refused:
        toolchain.compile(catalog["cp_async"].source, arch="sm_75")
    assert "11_double_buffer.cu" in refused.value.log


# -- results, in the emulator ----------------------------------------------------------------------


def shapes(seed, count, most=70):
    """Awkward (M, N, K): 1, primes, one beside a tile edge, whole fours, anything."""
    rng = Random(str(seed))
    primes = [p for p in range(2, most + 1) if all(p % d for d in range(2, p))]
    edges = [e + d for e in (4, 8, 16, 32, 64) for d in (-1, 0, 1)]
    four = lambda: 4 * rng.randint(1, most // 4)  # noqa: E731
    picks = (lambda: rng.choice(primes), lambda: rng.choice(edges))
    kinds = (lambda: 1, *picks, four, lambda: rng.randint(1, most))
    drawn = [tuple(rng.choice(kinds)() for _ in range(3)) for _ in range(count)]
    fours = [tuple(four() for _ in range(3)) for _ in range(count // 4)]
    return [(1, 1, 1), *fours, *drawn][:count]


def wrong_on(kernel, todo, **params):
    """What is wrong with a kernel on these shapes: elements outside the bound, or a fault."""
    wrong = []
    for M, N, K in todo:
        A, B = numbers.operands(kernel, M, N, K, seed=M * 10_000 + N * 100 + K)
        try:
            C = launch.matmul(kernel, A, B, backend="emulator", **params)
        except EmulationError as fault:
            wrong.append(f"{M}x{N}x{K}: {fault}")
            continue
        if count := numbers.wrong_elements(kernel, A, B, C):
            wrong.append(f"{M}x{N}x{K}: {count} elements outside the bound")
    return wrong


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", (*ANY_SHAPE, "fp32_turing"))
def test_right_on_random_shapes(name, part):
    """200 shapes a kernel of one element a thread, 100 of the others; float64 is the judge."""
    count = 50 if name in (*ONE_ELEMENT, *TILED) else 25
    todo = shapes((name, part), count)
    assert wrong_on(catalog[name], todo, **SMALL_TILES.get(name, {})) == []


EDGES = [(1, 1, 1), (130, 3, 9), (131, 132, 20), (64, 260, 12)]
WHOLE = [(32, 32, 32), (64, 32, 96), (32, 96, 64)]
"""Whole tiles of tiled_padded, which takes no others."""


@pytest.mark.parametrize("name", [*IN_REGISTERS, *IN_FOURS, "fp32_turing", "tiled_padded"])
def test_right_with_the_default_tile(name):
    assert wrong_on(catalog[name], WHOLE if name == "tiled_padded" else EDGES) == []


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_cp_async_is_right_with_any_number_of_stages(stages):
    """Fewer tiles than stages, as many, one more, and a last tile that is not whole."""
    todo = [(5, 4, 8 * tiles + rest) for tiles in (0, 1, stages, stages + 1) for rest in (1, 4)]
    params = {**SMALL, "STAGES": stages}
    assert wrong_on(catalog["cp_async"], todo, **params) == []


# Each of these is what a kernel would be with one thing forgotten: the checks above must refuse it.
BROKEN = [
    ("naive", "row >= M || ", "", "rows of C are not checked"),
    ("coalesced", " || col >= N", "", "columns of C are not checked"),
    ("coalesced_int", "T sum = 0;", "T sum = 1;", "one off"),
    ("unrolled", "k <= K - UNROLL", "k < K", "the last four steps run over the end"),
    ("coarsened", "if (col < N)", "if (first_col < N)", "only the first column is checked"),
    ("tiled_16", "row < M ? K - tx : 0", "K - tx", "rows of A are not checked"),
    ("tiled_16", "row < M ? K - tx : 0", "row < M ? K : 0", "the tail of K is not checked in A"),
    ("tiled_16", "col < N ? K - ty : 0", "tx < N ? K - ty : 0", "local index, as in document B"),
    ("tiled_32", "__syncthreads();  // both tiles are complete", "", "no barrier before reading"),
    ("tiled_8", "__syncthreads();  // everyone has read", "//", "no barrier before overwriting"),
    ("tiled_rect", "k0 + r < b_end", "k0 < b_end", "only the first row of B is checked"),
    ("tiled_pad_rows", "row < M && col < N", "col < N", "rows of C are not checked"),
    ("block_1d", "m0 + a_row < M ? K - a_col : 0", "K - a_col", "rows of A are not checked"),
    ("privatised_2", "col + r * TILE < N && k0 + ty < K", "col < N && k0 + ty < K", "first column"),
    ("block_2d", "i < rows_left && ", "", "rows of A are not checked"),
    ("vectorised", "K - (k0 + a_col)", "4", "the tail of K is not checked"),
    ("vectorised", "row < M ? N - col : 0", "N - col", "rows of C are not checked"),
    ("prefetch", "__syncthreads();  // everyone has read", "//", "no barrier before overwriting"),
    ("double_buffer", "__syncthreads();  // the other buffer", "//", "no barrier at all"),
    ("double_buffer", "put_down(1 - buffer)", "put_down(buffer)", "the buffer in use overwritten"),
    ("fp32_turing", "rest - a_col : 0", "K - a_col : 0", "the tail of K is not checked in A"),
    ("fp32_turing", "< rest ? b_cols", "< K ? b_cols", "the tail of K is not checked in B"),
    ("fp32_turing", "put_down(1 - buffer)", "put_down(buffer)", "the buffer in use overwritten"),
    ("fp32_turing", "__syncthreads();  // the other buffer", "//", "no barrier in the loop"),
    ("fp32_turing", "within % height", "within % GROUP_M", "the last band is lower"),
    ("cp_async", "wait_groups<STAGES - 2>();", "", "copies are not waited for"),
    ("cp_async", "__syncthreads();            // everyone's", "//", "others are not waited for"),
]


@pytest.mark.parametrize(
    ("name", "text", "instead", "why"), BROKEN, ids=[f"{b[0]}: {b[3]}" for b in BROKEN]
)
def test_the_same_check_refuses_a_broken_twin(name, text, instead, why):
    todo = [(33, 37, 35), (34, 36, 40), (66, 68, 70)]
    assert wrong_on(twin(name, (text, instead)), todo, **SMALL_TILES.get(name, {})), why


# -- on a GPU --------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("name", ANY_SHAPE)
def test_right_on_the_gpu(name):
    kernel = catalog[name]
    for M, N, K in [*shapes((name, "gpu"), 100, most=300), (1025, 1023, 1027)]:
        A, B = numbers.operands(kernel, M, N, K, seed=K)
        C = launch.matmul(kernel, A, B, backend="cuda")
        assert numbers.wrong_elements(kernel, A, B, C) == 0, (M, N, K)


@pytest.mark.gpu
@pytest.mark.parametrize("name", IN_FOURS)
def test_right_on_the_gpu_where_rows_do_not_start_on_16_bytes(name):
    import cupy

    kernel = catalog[name]
    A, B = numbers.operands(kernel, 132, 136, 140)
    shifted = cupy.empty(A.size + 1, np.float32)[1:].reshape(A.shape)  # 4 bytes off
    shifted[:] = cupy.asarray(A)
    C = launch.matmul(kernel, shifted, cupy.asarray(B), backend="cuda")
    assert numbers.wrong_elements(kernel, A, B, C.get()) == 0
