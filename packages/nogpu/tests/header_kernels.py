"""Matrix products written with CUDA's own headers, each with twins that are wrong in one place.

All kernels of an architecture are compiled as one source, twins included: the headers are heavy.
Operands are small integers, so that every order of summation gives the same sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from foreign_kernels import Outcome, Shape, cdiv, empty, ints

from nogpu import emulator

SHAPES: tuple[Shape, ...] = ((1, 1, 1), (17, 33, 19), (40, 35, 70))


@dataclass(frozen=True)
class Twin:
    """One change to a kernel, and the kinds of findings of which at least one must appear."""

    what: str
    old: str
    new: str
    kinds: frozenset[str]


@dataclass(frozen=True)
class HeaderKernel:
    """run(entry, source, (M, N, K), **options) launches the kernel or one of its twins."""

    name: str
    arch: str
    text: str
    run: Callable[..., Outcome]
    twins: tuple[Twin, ...] = field(default=())

    def variant(self, number: int) -> tuple[str, str]:
        """Entry and text of a twin; 0 is the kernel itself."""
        if not number:
            return self.name, self.text
        twin = self.twins[number - 1]
        assert self.text.count(twin.old) == 1, (self.name, twin)
        entry = f"{self.name}_{number}"
        return entry, self.text.replace(twin.old, twin.new).replace(self.name, entry)

    def launch(self, number: int, shape: Shape, **options: Any) -> Outcome:
        """Run the kernel (0) or a twin."""
        entry, _ = self.variant(number)
        return self.run(entry, source(self.arch), shape, arch=self.arch, **options)


HEADERS = """
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_reduce.cuh>
#include <cuComplex.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/mdspan>
#include <cuda_awbarrier_primitives.h>
#include <cuda_fp8.h>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;
"""
KERNELS: dict[str, HeaderKernel] = {}


@cache
def source(arch: str) -> str:
    """All kernels of an architecture and their twins."""
    texts = [HEADERS]
    for k in KERNELS.values():
        if k.arch == arch:
            texts += [k.variant(i)[1] for i in range(len(k.twins) + 1)]
    return "\n".join(texts)


def twin(what: str, old: str, new: str, *kinds: str) -> Twin:
    """A change that must be found."""
    return Twin(what, old, new, frozenset(kinds))


def enter(arch: str, text: str, run: Callable[..., Outcome], *twins: Twin) -> None:
    """Enter a kernel under the name of its entry."""
    name = text.split("__global__ void ", 1)[1].split("(", 1)[0]
    KERNELS[name] = HeaderKernel(name, arch, text, run, twins)


def product(grid: Callable[[int, int], Any], block: Any, *more: Any, **fixed: Any) -> Any:
    """A run of (A, B, C, M, N, K, *more) in float32."""

    def run(entry: str, text: str, shape: Shape, **options: Any) -> Outcome:
        M, N, K = shape
        A, B, C = ints(M, K), ints(K, N), empty(M, N)
        asked = {"uninitialised": ("C",), **fixed, **options}
        args = [A, B, C, M, N, K, *more]
        report = emulator.launch(text, entry, grid(M, N), block, args, **asked)
        return report, C, A @ B

    return run


def tiles(M: int, N: int) -> tuple[int, int]:
    """Blocks of 16 x 16 elements."""
    return cdiv(N, 16), cdiv(M, 16)


# -- cooperative groups ----------------------------------------------------------------------------

enter(
    "sm_75",
    """
// One tile of 16 lanes for each element of C.
extern "C" __global__ void group_dot(const float* A, const float* B, float* C, int M, int N, int K) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int element = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
    if (element >= M * N) return;
    int m = element / N, n = element % N;
    float sum = 0;
    for (int k = tile.thread_rank(); k < K; k += tile.size()) sum += A[m * K + k] * B[k * N + n];
    sum = cg::reduce(tile, sum, cg::plus<float>());
    if (tile.thread_rank() == 0) C[element] = sum;
}
""",
    product(lambda M, N: cdiv(M * N, 8), 128),
    twin(
        "half of the tile reduces",
        "    sum = cg::reduce",
        "    if (tile.thread_rank() < 8) sum = cg::reduce",
        "divergent-barrier",
    ),
)

enter(
    "sm_75",
    """
// One warp for each row of C; its lanes keep a piece of the row of A in shared memory.
extern "C" __global__ void group_rows(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float rows[4][32];
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    float* piece = rows[warp.meta_group_rank()];
    int m = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (m >= M) return;
    for (int n0 = 0; n0 < N; n0 += warp.size()) {
        int n = n0 + warp.thread_rank();
        float sum = 0;
        for (int k0 = 0; k0 < K; k0 += warp.size()) {
            int k = k0 + warp.thread_rank();
            warp.sync();  // the last piece has been read
            piece[warp.thread_rank()] = k < K ? A[m * K + k] : 0.f;
            warp.sync();  // the new one is there
            for (int i = 0; i < 32 && k0 + i < K; ++i)
                if (n < N) sum += piece[i] * B[(k0 + i) * N + n];
        }
        if (n < N) C[m * N + n] = sum;
    }
}
""",
    product(lambda M, N: cdiv(M, 4), 128),
    twin("no sync after the store", "warp.sync();  // the new one is there", "", "race"),
    twin("no sync before the store", "warp.sync();  // the last piece has been read", "", "race"),
)

COPY_AHEAD = """
// Rows of both tiles are copied one step ahead, each by the 16 lanes that own the row.
extern "C" __global__ void copy_ahead(const float* A, const float* B, float* C, int M, int N, int K) {
    constexpr int T = 16;
    __shared__ float a_tile[2][T][T], b_tile[2][T][T];
    auto block = cg::this_thread_block();
    auto row = cg::tiled_partition<T>(block);
    int r = threadIdx.y, c = threadIdx.x, m = blockIdx.y * T + r, n0 = blockIdx.x * T;
    auto fetch = [&](int s, int k0) {
        int ka = m < M ? min(K - k0, T) : 0, nb = k0 + r < K ? min(N - n0, T) : 0;
        if (c >= ka) a_tile[s][r][c] = 0;
        if (c >= nb) b_tile[s][r][c] = 0;
        cg::memcpy_async(row, a_tile[s][r], A + (ka ? m * K + k0 : 0), sizeof(float) * ka);
        cg::memcpy_async(row, b_tile[s][r], B + (nb ? (k0 + r) * N + n0 : 0), sizeof(float) * nb);
    };
    fetch(0, 0);
    float sum = 0;
    for (int k0 = 0, s = 0; k0 < K; k0 += T, s ^= 1) {
        if (k0 + T < K) {
            fetch(s ^ 1, k0 + T);
            cg::wait_prior<2>(row);
        } else {
            cg::wait(row);
        }
        block.sync();
        for (int k = 0; k < T; ++k) sum += a_tile[s][r][k] * b_tile[s][k][c];
        block.sync();  // before this half is filled again
    }
    if (m < M && n0 + c < N) C[m * N + n0 + c] = sum;
}
"""
enter(
    "sm_80",
    COPY_AHEAD,
    product(tiles, (16, 16)),
    twin("the last copy is not waited for", "cg::wait(row);", ";", "race"),
    twin("one copy too many under way", "cg::wait_prior<2>", "cg::wait_prior<3>", "race"),
    twin("filled again too early", "block.sync();  // before", "// before", "race"),
)
enter(
    "sm_75",
    COPY_AHEAD.replace("copy_ahead", "copy_on_turing"),
    product(tiles, (16, 16)),
    twin("filled again too early", "block.sync();  // before", "// before", "race"),
)

# -- cuda::pipeline, cuda::barrier -----------------------------------------------------------------

enter(
    "sm_80",
    """
// A pipeline of the whole block with two stages.
extern "C" __global__ void two_stages(const float* A, const float* B, float* C, int M, int N, int K) {
    constexpr int T = 16;
    __shared__ float a_tile[2][T][T], b_tile[2][T][T];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(cg::this_thread_block(), &state);
    int r = threadIdx.y, c = threadIdx.x, m = blockIdx.y * T + r, n = blockIdx.x * T + c;
    auto one = cuda::aligned_size_t<4>(4);
    auto fetch = [&](int k0) {
        int s = k0 / T % 2;
        pipe.producer_acquire();
        if (m < M && k0 + c < K) cuda::memcpy_async(&a_tile[s][r][c], A + m * K + k0 + c, one, pipe);
        else a_tile[s][r][c] = 0;
        if (k0 + r < K && n < N) cuda::memcpy_async(&b_tile[s][r][c], B + (k0 + r) * N + n, one, pipe);
        else b_tile[s][r][c] = 0;
        pipe.producer_commit();
    };
    fetch(0);
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += T) {
        if (k0 + T < K) fetch(k0 + T);
        pipe.consumer_wait();
        for (int k = 0; k < T; ++k) sum += a_tile[k0 / T % 2][r][k] * b_tile[k0 / T % 2][k][c];
        pipe.consumer_release();
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
""",
    product(tiles, (16, 16)),
    twin("the stage is not waited for", "pipe.consumer_wait();", "", "race"),
    twin("a stage is filled while it is read", "pipe.producer_acquire();", "", "race"),
)

enter(
    "sm_80",
    """
// Four warps copy, four multiply; two barriers for each stage pass it back and forth.
extern "C" __global__ void copy_and_multiply(const float* A, const float* B, float* C,
                                             int M, int N, int K) {
    constexpr int T = 16, HALF = 128;
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ float a_tile[2][T][T], b_tile[2][T][T];
    __shared__ barrier full[2], empty[2];
    if (threadIdx.x < 2) {
        init(&full[threadIdx.x], 2 * HALF);
        init(&empty[threadIdx.x], 2 * HALF);
    }
    __syncthreads();  // the barriers are set up
    int t = threadIdx.x % HALF, m0 = blockIdx.y * T, n0 = blockIdx.x * T, steps = (K + T - 1) / T;
    if (threadIdx.x >= HALF) {
        for (int i = 0; i < steps; ++i) {
            int s = i % 2, k0 = i * T;
            if (i >= 2) empty[s].arrive_and_wait();  // it has been used
            for (int e = t; e < T * T; e += HALF) {
                int r = e / T, c = e % T;
                auto one = cuda::aligned_size_t<4>(4);
                if (m0 + r < M && k0 + c < K)
                    cuda::memcpy_async(&a_tile[s][r][c], A + (m0 + r) * K + k0 + c, one, full[s]);
                else a_tile[s][r][c] = 0;
                if (k0 + r < K && n0 + c < N)
                    cuda::memcpy_async(&b_tile[s][r][c], B + (k0 + r) * N + n0 + c, one, full[s]);
                else b_tile[s][r][c] = 0;
            }
            (void)full[s].arrive();
        }
    } else {
        float sum[2] = {};
        for (int i = 0; i < steps; ++i) {
            int s = i % 2;
            full[s].arrive_and_wait();  // it has been filled
            for (int e = 0; e < 2; ++e)
                for (int k = 0; k < T; ++k)
                    sum[e] += a_tile[s][t / T + 8 * e][k] * b_tile[s][k][t % T];
            if (i + 2 < steps) (void)empty[s].arrive();
        }
        for (int e = 0; e < 2; ++e) {
            int m = m0 + t / T + 8 * e, n = n0 + t % T;
            if (m < M && n < N) C[m * N + n] = sum[e];
        }
    }
}
""",
    product(tiles, 256),
    twin(
        "used before it is filled",
        "full[s].arrive_and_wait();  // it has been filled",
        "(void)full[s].arrive();",
        "race",
    ),
    twin(
        "filled before it is used",
        "if (i >= 2) empty[s].arrive_and_wait();",
        "if (i >= 2) (void)empty[s].arrive();",
        "race",
    ),
    twin(
        "one arrival too many expected",
        "init(&full[threadIdx.x], 2 * HALF);",
        "init(&full[threadIdx.x], 2 * HALF + 1);",
        "divergent-barrier",
    ),
    twin("used before it is set up", "__syncthreads();  // the barriers are", "// are", "race"),
)

enter(
    "sm_80",
    """
// One lane arrives for its warp: the others must be done before it does.
extern "C" __global__ void one_arrives(const float* A, const float* B, float* C, int M, int N, int K) {
    constexpr int T = 16;
    __shared__ float a_tile[T][T], b_tile[T][T];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int r = threadIdx.y, c = threadIdx.x, m = blockIdx.y * T + r, n = blockIdx.x * T + c;
    if (block.thread_rank() == 0) init(&bar, warp.meta_group_size());
    block.sync();
    bool phase = false;
    auto everyone = [&] {
        warp.sync();  // all lanes are done
        if (warp.thread_rank() == 0) (void)bar.arrive();
        bar.wait_parity(phase);
        phase = !phase;
    };
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += T) {
        a_tile[r][c] = m < M && k0 + c < K ? A[m * K + k0 + c] : 0.f;
        b_tile[r][c] = k0 + r < K && n < N ? B[(k0 + r) * N + n] : 0.f;
        everyone();
        for (int k = 0; k < T; ++k) sum += a_tile[r][k] * b_tile[k][c];
        everyone();
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
""",
    product(tiles, (16, 16)),
    twin("the lane does not wait for its warp", "warp.sync();  // all lanes are done", "", "race"),
    twin("nobody waits", "bar.wait_parity(phase);", "", "race"),
)

enter(
    "sm_80",
    """
// The C functions: copies arrive at a barrier of their own accord.
extern "C" __global__ void arrive_by_hand(const float* A, const float* B, float* C,
                                          int M, int N, int K) {
    constexpr int T = 16;
    __shared__ float a_tile[T][T], b_tile[T][T];
    __shared__ __mbarrier_t bar;
    int r = threadIdx.y, c = threadIdx.x, m = blockIdx.y * T + r, n = blockIdx.x * T + c;
    if (r == 0 && c == 0) __mbarrier_init(&bar, T * T);
    __syncthreads();
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += T) {
        bool a = m < M && k0 + c < K, b = k0 + r < K && n < N;
        __pipeline_memcpy_async(&a_tile[r][c], a ? A + m * K + k0 + c : A, 4, a ? 0 : 4);
        __pipeline_memcpy_async(&b_tile[r][c], b ? B + (k0 + r) * N + n : B, 4, b ? 0 : 4);
        __pipeline_arrive_on(&bar);
        auto token = __mbarrier_arrive(&bar);
        while (!__mbarrier_test_wait(&bar, token)) {}
        for (int k = 0; k < T; ++k) sum += a_tile[r][k] * b_tile[k][c];
        __syncthreads();
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
""",
    product(tiles, (16, 16)),
    twin("nobody waits", "while (!__mbarrier_test_wait(&bar, token)) {}", "", "race"),
    twin("the copies do not arrive", "__pipeline_arrive_on(&bar);", "", "race"),
)

enter(
    "sm_80",
    """
// The C functions of cp.async, filling with zeros beyond the edges.
extern "C" __global__ void zero_filled(const float* A, const float* B, float* C, int M, int N, int K) {
    constexpr int T = 16;
    __shared__ float a_tile[2][T][T], b_tile[2][T][T];
    int r = threadIdx.y, c = threadIdx.x, m = blockIdx.y * T + r, n = blockIdx.x * T + c;
    auto fetch = [&](int s, int k0) {
        bool a = m < M && k0 + c < K, b = k0 + r < K && n < N;
        __pipeline_memcpy_async(&a_tile[s][r][c], a ? A + m * K + k0 + c : A, 4, a ? 0 : 4);
        __pipeline_memcpy_async(&b_tile[s][r][c], b ? B + (k0 + r) * N + n : B, 4, b ? 0 : 4);
        __pipeline_commit();
    };
    fetch(0, 0);
    float sum = 0;
    for (int k0 = 0, s = 0; k0 < K; k0 += T, s ^= 1) {
        fetch(s ^ 1, k0 + T);  // beyond the end: zeros
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int k = 0; k < T; ++k) sum += a_tile[s][r][k] * b_tile[s][k][c];
        __syncthreads();
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
""",
    product(tiles, (16, 16)),
    twin("one group too many under way", "wait_prior(1)", "wait_prior(2)", "race"),
)

# -- libcu++ and CUB -------------------------------------------------------------------------------

enter(
    "sm_75",
    """
// Matrices with their shapes.
extern "C" __global__ void with_shapes(const float* A, const float* B, float* C, int M, int N, int K) {
    using matrix = cuda::std::mdspan<float, cuda::std::dextents<int, 2>>;
    using constant = cuda::std::mdspan<const float, cuda::std::dextents<int, 2>>;
    using tile = cuda::std::mdspan<float, cuda::std::extents<int, 16, 16>>;
    constant a(A, M, K), b(B, K, N);
    matrix c(C, M, N);
    __shared__ float a_data[256], b_data[256];
    tile a_tile(a_data), b_tile(b_data);
    int i = threadIdx.y, j = threadIdx.x, m = blockIdx.y * 16 + i, n = blockIdx.x * 16 + j;
    float sum = 0;
    for (int k0 = 0; k0 < a.extent(1); k0 += 16) {
        a_tile(i, j) = m < a.extent(0) && k0 + j < a.extent(1) ? a(m, k0 + j) : 0.f;
        b_tile(i, j) = k0 + i < b.extent(0) && n < b.extent(1) ? b(k0 + i, n) : 0.f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += a_tile(i, k) * b_tile(k, j);
        __syncthreads();
    }
    if (m < c.extent(0) && n < c.extent(1)) c(m, n) = sum;
}
""",
    product(tiles, (16, 16)),
    twin("rows are not guarded", "m < a.extent(0) && k0 + j", "k0 + j", "out-of-bounds"),
)

enter(
    "sm_75",
    """
// A block for every two elements of a row: its threads split K, and CUB adds them up.
extern "C" __global__ void split_by_cub(const float* A, const float* B, float* C, int M, int N, int K) {
    using Reduce = cub::BlockReduce<float, 64>;
    __shared__ typename Reduce::TempStorage scratch;
    int m = blockIdx.y;
    for (int n = 2 * blockIdx.x; n < min(2 * (int)blockIdx.x + 2, N); ++n) {
        float sum = 0;
        for (int k = threadIdx.x; k < K; k += 64) sum += A[m * K + k] * B[k * N + n];
        sum = Reduce(scratch).Sum(sum);
        if (threadIdx.x == 0) C[m * N + n] = sum;
        __syncthreads();  // scratch is used again
    }
}
""",
    product(lambda M, N: (cdiv(N, 2), M), 64),
    twin("scratch is used again too early", "__syncthreads();  // scratch", "// scratch", "race"),
)

enter(
    "sm_75",
    """
// Blocks along z split K and add to C.
extern "C" __global__ void split_by_atomics(const float* A, const float* B, float* C,
                                            int M, int N, int K) {
    int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0;
    for (int k = blockIdx.z; k < K; k += gridDim.z) sum += A[m * K + k] * B[k * N + n];
    cuda::atomic_ref<float, cuda::thread_scope_device> c(C[m * N + n]);
    c.fetch_add(sum, cuda::memory_order_relaxed);
}
""",
    lambda entry, text, shape, **options: _added(entry, text, shape, **options),
    twin("added without atomics", "c.fetch_add(sum, cuda::memory_order_relaxed)",
         "C[m * N + n] += sum", "race"),
)  # fmt: skip


def _added(entry: str, text: str, shape: Shape, **options: Any) -> Outcome:
    M, N, K = shape
    A, B, C = ints(M, K), ints(K, N), np.zeros((M, N), np.float32)
    grid = (*tiles(M, N), 3)
    report = emulator.launch(text, entry, grid, (16, 16), [A, B, C, M, N, K], **options)
    return report, C, A @ B


enter(
    "sm_75",
    """
// Complex numbers, interleaved.
extern "C" __global__ void complex_tiles(const cuFloatComplex* A, const cuFloatComplex* B,
                                         cuFloatComplex* C, int M, int N, int K) {
    __shared__ cuFloatComplex a_tile[16][16], b_tile[16][16];
    int i = threadIdx.y, j = threadIdx.x, m = blockIdx.y * 16 + i, n = blockIdx.x * 16 + j;
    cuFloatComplex sum = make_cuFloatComplex(0, 0), zero = sum;
    for (int k0 = 0; k0 < K; k0 += 16) {
        a_tile[i][j] = m < M && k0 + j < K ? A[m * K + k0 + j] : zero;
        b_tile[i][j] = k0 + i < K && n < N ? B[(k0 + i) * N + n] : zero;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum = cuCfmaf(a_tile[i][k], b_tile[k][j], sum);
        __syncthreads();  // all have multiplied
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
""",
    lambda entry, text, shape, **options: _complex(entry, text, shape, **options),
    twin("filled again too early", "__syncthreads();  // all have", "// all have", "race"),
)


def _complex(entry: str, text: str, shape: Shape, **options: Any) -> Outcome:
    M, N, K = shape
    A, B = (ints(*s, 2).view(np.complex64)[..., 0] for s in ((M, K), (K, N)))
    C = np.full((M, N), np.nan, np.complex64)
    args = [A.copy(), B.copy(), C, M, N, K]
    report = emulator.launch(text, entry, tiles(M, N), (16, 16), args, **options)
    return report, C, A @ B


# -- pointers to functions, objects, 8-bit floats --------------------------------------------------

enter(
    "sm_75",
    """
namespace NAME_of {
__device__ __noinline__ float keep(float x) { return x; }
__device__ __noinline__ float relu(float x) { return x > 0 ? x : 0; }
__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ float (*const epilogues[3])(float) = {keep, relu, twice};
}
// What is done to each element is chosen at run time.
extern "C" __global__ void epilogue_table(const float* A, const float* B, float* C, int M, int N, int K,
                                          int which) {
    int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[m * K + k] * B[k * N + n];
    C[m * N + n] = NAME_of::epilogues[(which + n) % 3](sum);
}
""".replace("NAME", "epilogue_table"),
    lambda entry, text, shape, **options: _epilogues(entry, text, shape, **options),
    twin("a place beyond the table", "(which + n) % 3]", "which + 3]", "out-of-bounds"),
)


def _epilogues(entry: str, text: str, shape: Shape, **options: Any) -> Outcome:
    M, N, K = shape
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    args = [A, B, C, M, N, K, 1]
    report = emulator.launch(text, entry, tiles(M, N), (16, 16), args, **options)
    want = A @ B
    which = (1 + np.arange(N)) % 3
    return report, C, np.select([which == 0, which == 1], [want, np.maximum(want, 0)], 2 * want)


enter(
    "sm_75",
    """
struct NAME_base {
    __device__ virtual float apply(float x, int n) const = 0;
    __device__ virtual ~NAME_base() {}
};
struct NAME_bias : NAME_base {
    float* values;
    __device__ NAME_bias(int N) : values(new float[N]) {
        for (int n = 0; n < N; ++n) values[n] = n % 5;
    }
    __device__ __noinline__ float apply(float x, int n) const override { return x + values[n]; }
    __device__ __noinline__ ~NAME_bias() override { delete[] values; }
};
struct NAME_sign : NAME_base {
    __device__ __noinline__ float apply(float x, int) const override { return x < 0 ? -1 : 1; }
};
__device__ __noinline__ NAME_base* NAME_make(int odd, int N) {
    return odd ? (NAME_base*)new NAME_sign : (NAME_base*)new NAME_bias(N);
}
// Each block makes the object that ends its elements.
extern "C" __global__ void epilogue_object(const float* A, const float* B, float* C,
                                           int M, int N, int K) {
    __shared__ NAME_base* end;
    int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
    bool first = threadIdx.x == 0 && threadIdx.y == 0;
    if (first) end = NAME_make(blockIdx.x % 2, N);
    __syncthreads();
    if (m < M && n < N) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[m * K + k] * B[k * N + n];
        C[m * N + n] = end->apply(sum, n);
    }
    __syncthreads();
    if (first) delete end;
}
""".replace("NAME", "epilogue_object"),
    lambda entry, text, shape, **options: _object(entry, text, shape, **options),
    twin("freed before it is used", "    __syncthreads();\n    if (m < M", "    __syncthreads();\n"
         "    if (first) delete end;\n    __syncthreads();\n    if (m < M", "out-of-bounds"),
    twin("too small a block", "new float[N])", "new float[N - 1])", "out-of-bounds"),
)  # fmt: skip


def _object(entry: str, text: str, shape: Shape, **options: Any) -> Outcome:
    M, N, K = shape
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    args = [A, B, C, M, N, K]
    report = emulator.launch(text, entry, tiles(M, N), (16, 16), args, **options)
    want, n = A @ B, np.arange(N)
    return report, C, np.where(n // 16 % 2 == 0, want + n % 5, np.where(want < 0, -1, 1))


enter(
    "sm_89",
    """
// One warp for 16 x 8 elements of C: both formats of 8-bit floats in one product.
extern "C" __global__ void eight_bits(const float* A, const float* B, float* C, int M, int N, int K) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4, m0 = blockIdx.y * 16, n0 = blockIdx.x * 8;
    auto a_bits = [&](int m, int k) -> unsigned {
        float v = m < M && k < K ? A[m * K + k] : 0.f;
        return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
    };
    auto b_bits = [&](int k, int n) -> unsigned {
        float v = k < K && n < N ? B[k * N + n] : 0.f;
        return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2);
    };
    float c[4] = {};
    for (int k0 = 0; k0 < K; k0 += 32) {
        unsigned a[4] = {}, b[2] = {};
        for (int i = 0; i < 4; ++i)
            for (int e = 0; e < 4; ++e)
                a[i] |= a_bits(m0 + g + 8 * (i % 2), k0 + 4 * t + e + 16 * (i / 2)) << 8 * e;
        for (int i = 0; i < 2; ++i)
            for (int e = 0; e < 4; ++e) b[i] |= b_bits(k0 + 4 * t + e + 16 * i, n0 + g) << 8 * e;
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    for (int i = 0; i < 4; ++i) {
        int m = m0 + g + 8 * (i / 2), n = n0 + 2 * t + i % 2;
        if (m < M && n < N) C[m * N + n] = c[i];
    }
}
""",
    product(lambda M, N: (cdiv(N, 8), cdiv(M, 16)), 32),
    twin("rows are not guarded", "m < M && k < K ?", "k < K ?", "out-of-bounds"),
)
