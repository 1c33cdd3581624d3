"""Each fault that the emulator finds, beside the same kernel without it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from foreign_kernels import cuda, locate

from nogpu import emulator
from nogpu.errors import EmulationError

TILED = cuda("findings/tiled")


def tiled(source=TILED, shape=(40, 50, 33), **options):
    """Run a version of the tiled kernel: (report, whether C is right)."""
    M, N, K = shape
    rng = np.random.default_rng(0)
    A = rng.integers(-4, 5, (M, K)).astype(np.float32)
    B = rng.integers(-4, 5, (K, N)).astype(np.float32)
    C = np.full((M, N), np.nan, np.float32)
    report = emulator.launch(
        source, "tiled", (-(-N // 16), -(-M // 16)), (16, 16), [A, B, C, M, N, K],
        uninitialised=("C",), name="tiled.cu", **options,
    )  # fmt: skip
    return report, bool((C == A @ B).all())


def kinds(report):
    return {f.kind for f in report.findings}


def only(report, kind):
    """The findings, all of which are of one kind."""
    assert kinds(report) == {kind}, report
    return report.findings


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_the_sound_kernel_has_no_findings(schedule):
    report, right = tiled(schedule=schedule)
    assert report.ok, report
    assert right


# -- races ---------------------------------------------------------------------------------------


def test_a_dropped_barrier_after_filling_is_a_race():
    report, right = tiled(TILED.replace("__syncthreads();  // filled", ""))
    found = only(report, "race")
    assert right  # lock step hides it: the detector decides
    assert {(f.line, f.other_line) for f in found} >= {(9, 13), (10, 13)}
    by_array = {f.array: f for f in found}
    assert "__syncthreads()" in by_array["B_tile"].message  # read by other warps
    assert "__syncwarp()" in by_array["A_tile"].message  # a row of A_tile stays within a warp
    first = by_array["B_tile"]
    assert first.index.startswith("B_tile[0][")
    assert len(first.threads) == 2
    assert first.threads[0][1] // 2 != first.threads[1][1] // 2
    assert "A_tile[ty][k] * B_tile[k][tx]" in first.other_text
    assert "tiled.cu:10: race" in str(first)


def test_a_dropped_barrier_after_use_is_a_race_unless_there_is_one_tile():
    source = TILED.replace("__syncthreads();  // used", "")
    found = only(tiled(source)[0], "race")
    assert {(f.line, f.other_line) for f in found} >= {(9, 13), (10, 13)}
    report, right = tiled(source, (16, 16, 16))
    assert report.ok, report
    assert right


def test_a_permuted_schedule_has_the_same_findings_and_wrong_results():
    source = TILED.replace("__syncthreads();  // filled", "")
    plain, _ = tiled(source)
    wrong = 0
    for seed in range(3):
        report, right = tiled(source, schedule="permuted", seed=seed)
        assert [str(f) for f in report.findings] == [str(f) for f in plain.findings]
        wrong += not right
    assert wrong


def one_block(body, threads=64):
    """A kernel of one block on an int array s (shared, 256) and out (global)."""
    source = f"""
extern "C" __global__ void k(int* out)
{{
    __shared__ int s[256];
    const int t = threadIdx.x;
    {body}
}}
"""
    return emulator.launch(source, "k", 2, threads, [np.zeros(256, np.int32)], arch="sm_80")


def test_within_a_warp_a_warp_barrier_is_enough():
    body = "s[t] = t; {} if (blockIdx.x == 0) out[t] = s[t ^ 1];"
    assert one_block(body.format("__syncwarp();")).ok
    assert one_block(body.format("__shfl_sync(~0u, t, 0);")).ok
    found = only(one_block(body.format("")), "race")
    assert "__syncwarp()" in found[0].message
    second = "{} if (t >= 32) {{ s[t] = t; out[t + 64 * blockIdx.x] = s[t ^ 1]; }}"
    for before in ("", "__syncwarp();"):
        report = one_block(second.format(before))
        assert locate(report) == [("s", "s[32]", ((32, 0, 0), (33, 0, 0)), (0, 0, 0), 64)], report
    across = "s[t] = t; __syncwarp(); if (blockIdx.x == 0) out[t] = s[t ^ 32];"
    assert "__syncthreads()" in only(one_block(across), "race")[0].message


PAIR = 'if (t >= 64) {{ asm volatile("bar.sync 2, 64;" ::: "memory"); }}'


@pytest.mark.parametrize("order", ["", PAIR, "__threadfence();"])
def test_a_race_says_who_met_whom_and_where(order):
    """By barriers of the block alone, and where a clock is kept: warps 0 and 1 end beside 2."""
    body = f"""const int i = 37 + out[255]; {order.format()}
    if (blockIdx.x == 1) {{ if (t == 70) s[i] = 1; if (t == 5) out[0] = s[i]; }}"""
    report = one_block(body, threads=128)
    assert locate(report) == [("s", "s[37]", ((70, 0, 0), (5, 0, 0)), (1, 0, 0), 1)], report


def test_races_of_all_blocks_and_places_are_counted():
    report = one_block("s[t] = t; out[t + blockIdx.x * 128] = s[t ^ 32];", threads=128)
    assert locate(report) == [("s", "s[0]", ((0, 0, 0), (32, 0, 0)), (0, 0, 0), 256)]
    report = one_block("if (blockDim.y > 1) s[t] = 1; out[t + blockIdx.x * 64] = s[t ^ 32];")
    assert locate(report) == [("s", "s[32]", ((0, 0, 0),), (0, 0, 0), 128)]


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_block_that_misses_a_barrier_goes_on_with_its_interval(left):
    """Blocks 0 and 1 come to it, but one of them."""
    met = f"if (blockIdx.x != {left}) __syncthreads();"
    race = ("s", "s[0]", ((0, 0, 0), (32, 0, 0)), (left, 0, 0), 64)
    report = one_block(f"s[t] = t; {met} out[t + 64 * blockIdx.x] = s[t ^ 32];")
    assert locate(report) == ([race] if left < 2 else [])
    report = one_block(f"const int v = s[t ^ 32]; {met} s[t] = v; out[t + 64 * blockIdx.x] = v;")
    unset = ("s", "s[32]", ((0, 0, 0),), (int(left == 0), 0, 0), 64 if left < 2 else 128)
    assert locate(report) == ([race, unset] if left < 2 else [unset])


def test_all_threads_may_write_one_and_the_same_value():
    same = "s[0] = {}; __syncthreads(); out[t + 64 * blockIdx.x] = s[0]; __syncthreads();"
    assert one_block(same.format("7")).ok
    assert one_block(same.format("blockIdx.x")).ok
    only(one_block(same.format("blockIdx.x * t")), "race")  # in the second block alone
    often = "for (int i = 0; i < 3; ++i) {" + same + "}"
    assert one_block(often.replace("{}", "i")).ok
    only(one_block(often.replace("{}", "i == 1 ? t : 7")), "race")  # where they were equal before


def test_many_intervals_with_races_are_one_finding_whose_count_ends():
    """Of each other places race, so that each interval is looked at: 64 of them, no more."""
    body = """for (int i = 0; i < {}; ++i) {{ s[(t + i) % 256] = t; out[t + 64 * blockIdx.x] =
    s[((t ^ 32) + i) % 256]; __syncthreads(); }}"""
    counts = [locate(one_block(body.format(n)))[0][-1] for n in (1, 63, 64, 65, 90)]
    assert counts == [128, 63 * 128, 64 * 128, 64 * 128, 64 * 128]


def test_named_barriers_order_the_warps_that_meet_there():
    """Warps 0 and 1 exchange through barrier 1, warps 2 and 3 through barrier 2."""
    body = """
    s[t] = t;
    {0}
    if (blockIdx.x == 0) out[t] = s[t ^ {1}];
    """
    bar = 'asm volatile("bar.sync %0, 64;" :: "r"(1 + t / 64) : "memory");'
    bars = (
        'if (t < 64) { asm volatile("bar.sync 1, 64;" ::: "memory"); } '
        'else { asm volatile("bar.sync 2, 64;" ::: "memory"); }'
    )
    assert one_block(body.format(bars, 32), threads=128).ok
    only(one_block(body.format(bars, 64), threads=128), "race")
    assert one_block(body.format(bar, 32), threads=128).ok
    only(one_block(body.format(bar, 64), threads=128), "race")
    again = body.format(bar, 32) + "s[t] = 0;"
    only(one_block(again, threads=128), "race")
    assert one_block(again.replace("s[t] = 0", f"{bar} s[t] = 0"), threads=128).ok
    only(one_block(body.format("", 32) + bar, threads=128), "race")  # before the first of them
    rounds = f"""for (int i = 0; i < 3; ++i) {{ s[t] = i; if (i != SKIPPED) {bar}
    out[t + blockIdx.x * 128] = s[t ^ 32]; __syncthreads(); }}"""
    assert one_block(rounds.replace("SKIPPED", "3"), threads=128).ok
    only(one_block(rounds.replace("SKIPPED", "1"), threads=128), "race")  # ordered before
    assert one_block(body.format(bar, 32) + "s[200] = 7;", threads=128).ok
    only(one_block(body.format(bar, 32) + "s[200] = t;", threads=128), "race")
    one = body.format(bar.replace("1 + t / 64", "1"), 32)  # which two warps meet is left to chance
    (found,) = only(one_block(one, threads=128), "divergent-barrier")
    assert "128 threads of block (0, 0, 0) wait at barrier 1, which takes 64" in found.message


def test_the_number_of_a_named_barrier_is_one_for_a_warp_and_one_that_there_is():
    bar = 'asm volatile("bar.sync %0, 64;" :: "r"({0}) : "memory"); if (!blockIdx.x) out[t] = t;'
    report = one_block(bar.format("t % 2"), threads=64)
    assert {f.kind for f in report.findings} == {"divergent-barrier"}
    assert "name different barriers" in report.findings[0].message
    with pytest.raises(EmulationError, match="a block has 16, 0 to 15"):
        one_block(bar.format("14 + t / 32 * 2"), threads=64)
    threads = bar.replace("64", "%1").format('14 + t / 64), "r"(t < 64 ? 64 : 32')
    assert one_block(threads, threads=96).ok, "the number of threads may differ, too"


@pytest.mark.parametrize(("grid", "block"), [(4, 64), (1, 256), (128, 2)])
@pytest.mark.parametrize("sum_of", ["x[i] + x[j]", "x[j] + x[i]", "x[j] + x[k] + x[i]"])
def test_a_sum_in_place_races_whichever_neighbour_is_read_last(sum_of, grid, block):
    source = f"""
extern "C" __global__ void k(int* x, int shift)
{{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int j = (i + shift) % 256, k = (i + 256 - shift) % 256;
    x[i] = {sum_of};
}}
"""
    assert emulator.launch(source, "k", grid, block, [np.zeros(256, np.int32), 0]).ok
    report = emulator.launch(source, "k", grid, block, [np.zeros(256, np.int32), 64])
    (found,) = only(report, "race")
    assert (found.line, found.index, found.count) == (6, "x[0]", 256)


ONE_PLACE = [
    # what every thread stores to y[0], or does there, and whether that is a race
    ('asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(y), "r"(i) : "memory");', False),
    ('asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(y), "r"(i) : "memory");', False),
    ('asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(y), "r"(i)); atomicAdd(y, 1);', False),
    ('asm volatile("st.volatile.global.u32 [%0], %1;" :: "l"(y), "r"(i) : "memory");', True),
    ("y[0] = i;", True),
    ('if (i > 31) asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(y), "r"(i)); else if (!i) y[0] = 5;', True),
]  # fmt: skip


@pytest.mark.parametrize(("grid", "block"), [(1, 64), (2, 32), (64, 1)])
@pytest.mark.parametrize(("body", "races"), ONE_PLACE)
def test_atomic_stores_to_one_place_do_not_race_with_each_other(body, races, grid, block):
    """Source: PTX ISA, Memory Consistency Model: morally strong operations are no data race."""
    source = f"""extern "C" __global__ void k(int* y)
    {{ int i = blockIdx.x * blockDim.x + threadIdx.x; {body} }}"""
    for schedule in ("ascending", "permuted"):
        y = np.zeros(1, np.int32)
        report = emulator.launch(source, "k", grid, block, [y], arch="sm_80", schedule=schedule)
        assert kinds(report) == ({"race"} if races else set()), report


READ_ONLY = [
    # a body over x and y of 64, what is passed as y, and words of the finding
    ("x[t] = t; __syncthreads(); y[t] = x[63 - t];", "y", ""),
    ("x[t] = t; __syncthreads(); y[t] = __ldg(x + 63 - t);", "y", "thread (63, 0, 0) of block (0, 0, 0) has written"),
    ("x[t] = t; y[t] = __ldg(x + t);", "y", "and it has written"),
    ("y[t] = __ldg(x + t) + 1;", "y", ""),
    ("y[t] = __ldg(x + t) + 1;", "x", ""),
    ("x[t] = __ldg(x + t) + 1;", "y", ""),
    ("x[t] = t; y[t] = __ldg(x + 63 - t);", "y", "in no order"),
    ("y[t] = t; __syncthreads(); y[t] += __ldg(x + 63 - t);", "x", "Load it without __ldg()"),
    ("y[t] = t; __syncthreads(); y[t] += __ldg(x + 63 - t);", "y", ""),
]  # fmt: skip


@pytest.mark.parametrize(("body", "second", "says"), READ_ONLY)
def test_what_a_kernel_has_written_is_not_loaded_as_constant(body, second, says):
    """Source: PTX ISA, ld.global.nc; CUDA C++ Programming Guide, __ldg()."""
    source = f"""extern "C" __global__ void k(int* x, int* y) {{ int t = threadIdx.x; {body} }}"""
    arrays = {"x": np.zeros(64, np.int32), "y": np.zeros(64, np.int32)}
    report = emulator.launch(source, "k", 1, 64, [arrays["x"], arrays[second]], arch="sm_80")
    assert kinds(report) == ({"race"} if says else set()), report
    assert says in str([f.message for f in report.findings])


def test_the_last_thread_writes_what_all_have_read():
    source = """
extern "C" __global__ void k(float* x, float* y, int last)
{
    const float v = x[last];
    y[threadIdx.x] = v;
    if (threadIdx.x == last) x[last] = v + 1;
}
"""
    x, y = np.zeros(96, np.float32), np.zeros(96, np.float32)
    assert emulator.launch(source, "k", 1, 32, [x, y, 31]).ok
    for last in (0, 40, 95):
        (found,) = only(emulator.launch(source, "k", 1, 96, [x, y, last]), "race")
        assert found.index == f"x[{last}]"


# -- bounds and alignment ------------------------------------------------------------------------


def test_a_bound_that_is_off_by_one():
    report, _ = tiled(TILED.replace("row < M && k0 + tx < K", "row < M && k0 + tx <= K"))
    found = only(report, "out-of-bounds")
    assert {(f.line, f.array) for f in found} == {(9, "A")}
    assert "1 element past its end" in found[0].message
    assert found[0].index == f"A[{40 * 33}]"


def test_before_the_beginning_and_far_away():
    source = """
extern "C" __global__ void k(const float* x, float* y, long long where) { y[threadIdx.x] = x[where + threadIdx.x]; }
"""

    def at(where, shape=(64,)):
        x, y = np.ones(shape, np.float32), np.full(32, 5, np.float32)
        return emulator.launch(source, "k", 1, 32, [x, y, where]), y

    assert at(32)[0].ok
    report, y = at(-3)
    found = only(report, "out-of-bounds")[0]
    assert (found.index, found.count) == ("x[-3]", 3)
    assert "3 elements before its start" in found.message
    np.testing.assert_array_equal(y, [0] * 3 + [1] * 29)  # a load that faults gives 0
    report, _ = at(-3, (8, 8))
    assert only(report, "out-of-bounds")[0].index == "x[-3]"
    report, _ = at(63, (8, 8))
    (found,) = only(report, "out-of-bounds")
    assert (found.index, found.count) == ("x[64]", 31) and "x has 64 elements" in found.message
    report, _ = at(-30, (1,))
    assert "30 elements before its start: x has 1 element." in str(report)
    report, _ = at(10**9)
    assert only(report, "out-of-bounds")[0].array == "x"
    report, _ = at(-(2**45))
    assert "belongs to no array" in only(report, "out-of-bounds")[0].message


def test_a_store_outside_is_not_performed():
    source = (
        'extern "C" __global__ void k(float* x, float* y) { x[threadIdx.x] = 1; y[threadIdx.x] ='
        " 2; }"
    )
    x, y = np.zeros(16, np.float32), np.zeros(16, np.float32)
    report = emulator.launch(source, "k", 1, 32, [x, y])
    assert {f.array for f in only(report, "out-of-bounds")} == {"x", "y"}
    assert (x == 1).all()
    assert (y == 2).all()


PLACES = {  # of shared memory: what is declared, what is read of it, and how a finding names that
    "a": ("float a[4][8]", "a[2][3]", "a[2][3]"),
    "b": ("T b[ROWS][TWICE + 1][(4 - 1) * 2 / 3]", "b[2][8][1]", "b[2][8][1]"),
    "c": ("__align__(16) double c[PADDED - 2][2 * N]", "c[1][2]", f"c[{16 + 2}]"),
    "d": ("int other[4], d[2][5]", "d[1][3]", "d[1][3]"),
    "e": ("unsigned char e[N]", "e[5]", "e[5]"),
    "f": ("unsigned long long int f[N]", "f[5]", "f[5]"),
    "g": ("volatile unsigned short g[N]", "g[5]", "g[5]"),
    "h": ("uint4 h[N]", "h[5].y", "h[5]"),
    "i": ("alignas(16) half2 i[N]", "i[5]", "i[5]"),
    "j": ("Pair j[2][3]", "j[1][2].y", "j[1][2]"),
    "k": ("Row k[3]", "k[2][4]", "k[2][4]"),
    "l": ("__nv_bfloat16 l", "l", "l[0]"),
    "m": ("Of<N> m[N]", "m[1].y", "m[3]"),  # by words of 4 bytes, where nothing else is known
    "n": ("float n[2][sizeof(float)]", "n[1][2]", "n[6]"),
    "p": ("int p[2][ITSELF]", "p[1][2]", "p[6]"),
    "r": ("float2 r[N]", "r[5].y", "r[5]"),
    "s": ("int8_t s[N]", "s[5]", "s[5]"),
    "q": ("extern float4 q[]", "q[2].x", "q[2]"),
}
PLACED = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define ROWS 3
#define TWICE (2 * COLS)
#define ITSELF ITSELF
constexpr int COLS = 4;
const unsigned PADDED = COLS + 1;
enum { ITSELF = 4 };
using T = half;
using Row = float[PADDED];
typedef signed char int8_t;
struct Pair { int x, y; };
template <int N> struct Of { int x, y; };
"""


def test_a_place_of_shared_memory_is_named_as_its_declaration_shows():
    lines = [PLACED, "template <int N> __global__ void k(int* o) {"]
    lines += [f"__shared__ {declared};" for declared, *_ in PLACES.values()]
    lines += [f"o[{i}] = *(volatile const char*)&{p[1]};" for i, p in enumerate(PLACES.values())]
    source = "\n".join(lines).replace("__shared__ extern", "extern __shared__") + "}"
    out = np.zeros(len(PLACES), np.int32)
    report = emulator.launch(source, "k<8>", 1, 1, [out], shared_bytes=64)
    assert {f.kind for f in report.findings} == {"uninitialised"}
    assert [f.index for f in report.findings] == [place[2] for place in PLACES.values()]


def test_beyond_dynamic_shared_memory():
    source = """
extern "C" __global__ void k() { extern __shared__ float d[]; d[threadIdx.x] = 1; }
"""
    assert emulator.launch(source, "k", 1, 64, [], shared_bytes=256).ok
    only(emulator.launch(source, "k", 1, 65, [], shared_bytes=256), "out-of-bounds")


@pytest.mark.parametrize("threads", [1, 32])
def test_a_null_pointer(threads):
    source = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = 1; }'
    report = emulator.launch(source, "k", 1, threads, [None])
    assert "belongs to no array" in only(report, "out-of-bounds")[0].message


# -- uninitialised memory ------------------------------------------------------------------------


@pytest.mark.parametrize("axis", "xy")
@pytest.mark.parametrize("guard", ["", "if (threadIdx.x == 0)"])
def test_what_another_block_wrote_to_its_own_memory_is_not_written_here(axis, guard):
    source = """
    __global__ void k(int* out, int other)
    {
        __shared__ int s[2];
        GUARD s[blockIdx.AXIS] = 1;
        __syncthreads();
        out[(blockIdx.y * 2 + blockIdx.x) * 32 + threadIdx.x] = s[blockIdx.AXIS ^ other];
    }
    """.replace("GUARD", guard).replace("AXIS", axis)
    out = np.zeros(128, np.int32)
    assert emulator.launch(source, "k", (2, 2), 32, [out, 0]).ok
    only(emulator.launch(source, "k", (2, 2), 32, [out, 1]), "uninitialised")


def test_an_output_that_is_read_before_it_is_written():
    report, _ = tiled(TILED.replace("C[row * N + col] = sum;", "C[row * N + col] += sum;"))
    found = only(report, "uninitialised")[0]
    assert (found.line, found.array, found.index) == (18, "C", "C[0, 0]")
    assert found.count == 40 * 50


def test_a_tile_that_is_filled_in_part():
    source = TILED.replace(
        "? A[row * K + k0 + tx] : 0.0f;", "? A[row * K + k0 + tx] : A_tile[ty][tx];"
    )
    assert "uninitialised" in kinds(tiled(source)[0])
    ragged = TILED.replace("A_tile[ty][tx] = row < M &&", "if (row < M) A_tile[ty][tx] =")
    report, _ = tiled(ragged)
    found = only(report, "uninitialised")
    assert {(f.line, f.array) for f in found} == {(13, "A_tile")}
    assert tiled(ragged, (32, 50, 33))[0].ok  # only a ragged edge shows it


def test_a_later_write_behind_a_warp_barrier_does_not_excuse_the_read():
    """The read comes first, whatever the order of the warps: no race, but nothing was there."""
    body = """
    {} if (t < 32) {{ const int v = s[t ^ 1]; __syncwarp(); s[t] = v + t; __syncwarp();
    if (!blockIdx.x) out[t] = s[t]; }}
    """
    assert one_block(body.format("if (t < 32) s[t] = t; __syncwarp();")).ok
    found = only(one_block(body.format("")), "uninitialised")[0]
    assert "no thread of the block has written it" in found.message


# -- barriers ------------------------------------------------------------------------------------


def of_blocks(body, schedule):
    """Findings and out of a kernel of 3 x 2 blocks of 96 threads, in which `odd` are the blocks of
    the second column."""
    source = f"""
extern "C" __global__ void k(int* out) {{
    int t = threadIdx.x, got = 0, odd = blockIdx.x == 1;
    {body}
    out[(blockIdx.y * 3 + blockIdx.x) * 96 + t] = got;
}}"""
    out = np.zeros((2, 3, 96), np.int32)
    return emulator.launch(source, "k", (3, 2), 96, [out], schedule=schedule).findings, out


BAR = 'asm volatile("bar.sync %0, %1;" :: "r"({}), "r"({}) : "memory");'


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("if (!odd || t < 40) __syncthreads();", ["56 of 96 threads of block {} never reach this"]),
        (
            "if (odd && t < 40) {\n__syncthreads(); got = 1; } else\n__syncthreads();",
            ["threads of block {} meet here and at line 5"],
        ),
        (
            f"if (!odd || t < 32) {{\n{BAR.format(1, 'odd ? 64 : 96')} got = 1; }} else\n{BAR.format(2, 96)}",
            ["32 of 96 threads of block {} wait at this", "64 of 96 threads of block {} wait at this"],
        ),
        (BAR.format(1, "odd ? 64 : 96"), ["96 threads of block {} wait at barrier 1, which takes 64"]),
        (
            BAR.format(
                "odd && t / 32 == 2 ? 1 + t % 2 : 0", "!odd ? 96 : t / 32 == 2 ? 32 : 64"
            ),
            ["lanes of warp 2 of block {} name different barriers"],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_at_a_barrier_is_said_of_the_first_block_and_counted_by_blocks(
    body, says, schedule
):
    found, _ = of_blocks(body, schedule)
    assert not of_blocks(body.replace("odd", "(0 * odd)"), schedule)[0]
    named = [f for f in found if any(s.format((1, 0, 0)) in f.message for s in says)]
    assert len(named) == len(says), found
    for f in named:
        assert (f.kind, f.block) == ("divergent-barrier", (1, 0, 0)), f
        assert f.other_line == (5 if "at line 5" in f.message else 0)
        assert f.count == 2 or (schedule == "permuted" and f.count % 2 == 0)  # warps come apart


def test_the_only_thread_of_a_block_waits_for_nobody():
    source = """
extern "C" __global__ void k(int* out) { if (blockIdx.x % 2) __syncthreads(); out[blockIdx.x] = 1; }
"""
    out = np.zeros(4, np.int32)
    assert emulator.launch(source, "k", 4, 1, [out]).ok and out.all()


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("few", [0, 1, 95, 96])
def test_a_barrier_tells_its_threads_how_many_say_yes(few, schedule):
    """`few` threads of an odd block say yes; named barriers ask the first warp, or the others."""
    whole = (
        "int yes = odd ? t < FEW : t == 50; got = __syncthreads_count(yes) + 1000 *"
        " __syncthreads_and(yes) + 10000 * __syncthreads_or(yes);"
    ).replace("FEW", str(few))
    parts = f"""int yes = odd ? t < {few} : t == 50, all, any; asm volatile("{{.reg .pred p, q, r;
        setp.ne.u32 p, %3, 0; bar.red.popc.u32 %0, %4, %5, p; bar.red.and.pred q, %4, %5, p;
        bar.red.or.pred r, %4, %5, p; selp.u32 %1, 1000, 0, q; selp.u32 %2, 10000, 0, r;}}"
        : "=r"(got), "=r"(all), "=r"(any) : "r"(yes), "r"(1 + (t < 32)), "r"(t < 32 ? 32 : 64) :
        "memory"); got += all + any;"""
    yes = np.zeros((2, 3, 96), bool)
    yes[:, ::2, 50], yes[:, 1, :few] = True, True
    for body, edges in ((whole, (0, 96)), (parts, (0, 32, 96))):
        found, out = of_blocks(body.replace("\n", " "), schedule)
        assert not found, found
        for first, last in itertools.pairwise(edges):
            those = yes[..., first:last]
            want = those.sum(2) + 1000 * those.all(2) + 10000 * those.any(2)
            assert (out[..., first:last] == want[..., None]).all()


# -- cp.async ------------------------------------------------------------------------------------

ASYNC = cuda("findings/async")


def copied(source, n=128, size=128):
    x, y = np.arange(size, dtype=np.float32), np.zeros(128, np.float32)
    report = emulator.launch(source, "k", 1, 64, [x, y, n], arch="sm_80")
    return report, y


def test_asynchronous_copies_arrive_and_fill_with_zeros():
    report, y = copied(ASYNC)
    assert report.ok, report
    np.testing.assert_array_equal(y, np.r_[np.arange(64)[::-1], np.arange(64, 128)[::-1]])
    report, y = copied(ASYNC, n=100, size=100)
    assert report.ok, report
    np.testing.assert_array_equal(y[64:], np.r_[np.arange(64, 100), np.zeros(28)][::-1])


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('asm volatile("cp.async.wait_group 1;");', "", 16),
        ("wait_group 1", "wait_group 2", 16),
        ('asm volatile("cp.async.wait_group 0;");', "", 19),
        ("__syncthreads();  // first", "", None),
        ("__syncthreads();  // second", "", None),
    ],
)
def test_a_wait_or_a_barrier_dropped_is_a_race(old, new, line):
    found = only(copied(ASYNC.replace(old, new))[0], "race")
    if line:
        assert any(f.line == line and "cp.async" in f.message for f in found)


COPY = """asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
    :: "r"((unsigned)__cvta_generic_to_shared(s + {})), "l"(out + t) : "memory");"""
COMMIT, WAIT = (
    f'asm volatile("cp.async.{how};" ::: "memory");' for how in ("commit_group", "wait_all")
)


@pytest.mark.parametrize(
    "body",
    [
        f"{COPY} {COMMIT} {COPY} {COMMIT} {WAIT.replace('all', 'group 1')}",  # the second of two
        # Two lanes copy to one place and wait one by one: both have, before the next copy begins.
        COPY.replace("{}", "t / 2")
        + f"if (t % 2) {WAIT} if (t % 2 == 0) {WAIT} __syncwarp(); {COPY}",
    ],
)  # fmt: skip
def test_each_copy_to_a_place_is_waited_for(body):
    for wait, late in (("", 1), (WAIT, 0)):
        report = one_block(body.replace("{}", "t") + wait + " const int v = s[t]; out[t] = v;")
        reads = [f.count for f in report.findings if "reads it while the cp.async" in f.message]
        assert reads == [128] * late, report


def test_of_two_copies_under_way_the_one_is_named_whose_place_it_is():
    body = f"""{COPY.format("t")}
    {COPY.format("64 + t")}
    const int v = s[t ^ 32];
    out[t + 64 * blockIdx.x] = v + s[64 + t];"""
    report = one_block(body)
    lines = [(f.line, f.other_line) for f in report.findings if "while the cp.async" in f.message]
    first = lines[0][1]
    assert lines == [(10, first), (11, first + 2)], report


def test_a_copy_under_way_is_told_before_a_barrier_that_is_missing():
    """Once the copy has been waited for, and then no more: between the same two lines."""
    body = f"""
    for (int i = 0; i < 2; ++i) {{
        {COPY.format("t")}
        if (i == WAITED) {WAIT}
        s[t ^ 32] = i;
        {WAIT}
        __syncthreads();
        if (!blockIdx.x) out[t + 64] = s[t];
    }}"""
    for waited in (0, 1):
        report = one_block(body.replace("WAITED", str(waited)))
        (found,) = (f for f in report.findings if f.array == "s" and f.line > f.other_line)
        assert f"while the cp.async of line {found.other_line:d} is still" in found.message, found


# -- other ---------------------------------------------------------------------------------------


def test_findings_are_counted_not_repeated():
    report, _ = tiled(TILED.replace("row < M && k0 + tx < K", "k0 + tx < K"), (20, 20, 64))
    assert len(report.findings) == 1
    assert report.findings[0].count == 12 * 64 * 2


HELPED = cuda("findings/helped")


def test_a_finding_in_an_inlined_function_names_its_call():
    y = np.zeros(8, np.float32)
    report = emulator.launch(HELPED, "k", 1, 8, [y, 100])
    outside = {f.called_from: f for f in report.findings if f.kind == "out-of-bounds"}
    assert set(outside) == {(5, 12), (6, 12), (5, 15), (6, 15)}
    for calls, finding in outside.items():
        assert (finding.line, finding.text.strip()) == (2, "y[i] = 1;")
        assert f"In put(), called from line {calls[0]}, called from line {calls[1]}" in str(finding)
        assert f"y[{(100 if calls[1] == 12 else 200) + calls[0] - 5}]" in str(finding)
    (barrier,) = (f for f in report.findings if f.kind == "divergent-barrier")
    assert (barrier.line, barrier.called_from) == (9, (18,))
    sound = HELPED.replace("if (threadIdx.x < 3) ", "")
    report = emulator.launch(sound, "k", 1, 8, [y, 2])
    assert report.ok
    assert [(repr(a.line), a.requests) for a in report.accesses] == [("2", 3)]  # of all calls
    own = emulator.launch(sound.replace("y[0]", "y[99]"), "k", 1, 8, [y, 4])
    assert [f.called_from for f in own.findings if f.line == 14] == [()]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("#line 100\n", "", {101: "y[i] = 1;", 108: "if (threadIdx.x < 3) __syncthreads();"}),
        ('# 1 "written.cu"\n\n', "", {3: "y[i] = 1;", 10: "if (threadIdx.x < 3) __syncthreads();"}),
        ("", "#line 40\n", {2: "y[i] = 1;", 9: "if (threadIdx.x < 3) __syncthreads();"}),
        ("", "#line 1\n", {2: "", 9: ""}),  # two lines have this number
    ],
)
def test_the_text_beside_a_line_that_a_directive_numbers_is_its_own(before, after, lines):
    source = before + HELPED.replace("extern", after + "extern")
    report = emulator.launch(source, "k", 1, 8, [np.zeros(8, np.float32), 100])
    assert {f.line: f.text.strip() for f in report.findings} == lines
    named = "In put(), called" in str(report)
    assert named is bool(lines.get(2) or before)


MEETING = """extern "C" __global__ void k(int* out)
{
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    if (threadIdx.x < 40) {
        __syncthreads();
    }
    out[threadIdx.x] = s[threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("source", "returned"),
    [
        (MEETING, False),
        (MEETING.replace("if (threadIdx.x < 40) {", "if (threadIdx.x >= 40) return; {"), True),
    ],
)
def test_threads_that_miss_a_barrier_have_returned_only_where_something_returns(source, returned):
    (finding,) = emulator.launch(source, "k", 1, 64, [np.zeros(64, np.int32)]).findings
    assert finding.kind == "divergent-barrier"
    assert "24 of 64 threads" in finding.message
    assert ("they have returned, or an if" in finding.message) is returned


PASSING = """__device__ __forceinline__ void put(int* s, int i) {
    s[i] = i;
}
extern "C" __global__ void k(int* out)
{
    __shared__ int s[64];
    put(s, threadIdx.x);
    CHANGE
    out[threadIdx.x] = s[63 - threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("change", "verb", "line"),
    [("", "reads", "line 9"), ("put(s, 63 - threadIdx.x);", "writes", "line 2, called from line")],
)
def test_a_race_says_what_the_other_thread_does_and_where_it_was_called(change, verb, line):
    source = PASSING.replace("CHANGE", change)
    report = emulator.launch(source, "k", 1, 64, [np.zeros(64, np.int32)])
    assert any(f" {verb} it ({line}" in f.message for f in only(report, "race"))
    assert all("In put(), called from line" in f.message for f in report.findings)
    synchronised = source.replace("out[", "__syncthreads(); out[").replace(
        "put(s, 63", "__syncthreads(); put(s, 63"
    )
    assert emulator.launch(synchronised, "k", 1, 64, [np.zeros(64, np.int32)]).ok
