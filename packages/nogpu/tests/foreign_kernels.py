"""Matrix products as other people write them: one kernel for each habit, all written here.

A function of this file takes M, N, K, makes operands, launches its kernel in the emulator and
returns the report, what the kernel computed and what NumPy computes. Operands are small integers,
so that every order of summation gives the same sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nogpu import emulator

Shape = tuple[int, int, int]
Outcome = tuple[emulator.Report, np.ndarray, np.ndarray]

SHAPES: tuple[Shape, ...] = ((1, 1, 1), (17, 33, 19), (40, 35, 70))


@dataclass(frozen=True)
class Foreign:
    """run(M, N, K) launches the kernel. findings: the kinds that must be reported, no others."""

    name: str
    habit: str
    run: Callable[..., Outcome]
    findings: frozenset[str] = frozenset()
    shapes: tuple[Shape, ...] = SHAPES
    exact: bool = True
    """Whether the result is right, be a fault reported or not."""


KERNELS: dict[str, Foreign] = {}


def foreign(habit: str, *findings: str, shapes: tuple[Shape, ...] = SHAPES, exact: bool = True):
    """Enter a kernel."""

    def enter(run: Callable[..., Outcome]) -> Callable[..., Outcome]:
        KERNELS[run.__name__] = Foreign(
            run.__name__, habit, run, frozenset(findings), shapes, exact
        )
        return run

    return enter


def cdiv(a: int, b: int) -> int:
    """Ceiling of a / b."""
    return -(-a // b)


def ints(*shape: int, dtype: Any = np.float32, top: int = 4) -> np.ndarray:
    """Integers from -top to top, the same ones for the same shape."""
    rng = np.random.default_rng(shape)
    return rng.integers(-top, top + 1, shape).astype(dtype)


def empty(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """An output: NaN where the type has one."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -1, dtype)


def plain(
    source: str, entry: str, grid: Any, block: Any, M: int, N: int, K: int, **options: Any
) -> Outcome:
    """Launch (A, B, C, M, N, K), row-major float32."""
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    report = emulator.launch(
        source, entry, grid, block, [A, B, C, M, N, K], **{"uninitialised": ("C",), **options}
    )
    return report, C, A @ B


# -- shared memory in other shapes -----------------------------------------------------------------


@foreign("the tile of A stored transposed")
def transposed_tile(M: int, N: int, K: int) -> Outcome:
    source = """
    #define W 16
    __global__ void mm(float *a, float *b, float *c, int m, int n, int k) {
        __shared__ float at[W][W], bt[W][W];
        int r = blockIdx.y * W + threadIdx.y, q = blockIdx.x * W + threadIdx.x;
        float acc = 0;
        for (int s = 0; s < (k + W - 1) / W; s++) {
            int ka = s * W + threadIdx.x, kb = s * W + threadIdx.y;
            at[threadIdx.x][threadIdx.y] = (r < m && ka < k) ? a[r * k + ka] : 0.f;
            bt[threadIdx.y][threadIdx.x] = (q < n && kb < k) ? b[kb * n + q] : 0.f;
            __syncthreads();
            for (int i = 0; i < W; i++) acc += at[i][threadIdx.y] * bt[i][threadIdx.x];
            __syncthreads();
        }
        if (r < m && q < n) c[r * n + q] = acc;
    }
    """
    return plain(source, "mm", (cdiv(N, 16), cdiv(M, 16)), (16, 16), M, N, K, uninitialised=("c",))


@foreign("one linear shared array for both tiles")
def linear_shared(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        const int T = 8;
        __shared__ float pool[2 * T * T];
        float* left = pool;
        float* right = &pool[T * T];
        int t = threadIdx.x, i = t / T, j = t % T;
        int row = blockIdx.y * T + i, col = blockIdx.x * T + j;
        float v = 0.0f;
        for (int base = 0; base < K; base += T) {
            left[t] = row < M && base + j < K ? A[row * K + base + j] : 0.0f;
            right[t] = base + i < K && col < N ? B[(base + i) * N + col] : 0.0f;
            __syncthreads();
            #pragma unroll
            for (int x = 0; x < T; ++x) v = fmaf(left[i * T + x], right[x * T + j], v);
            __syncthreads();
        }
        if (row < M && col < N) C[row * N + col] = v;
    }
    """
    return plain(source, "mm", (cdiv(N, 8), cdiv(M, 8)), 64, M, N, K)


@foreign("an extra column against bank conflicts, rows loaded down the columns")
def extra_column(M: int, N: int, K: int) -> Outcome:
    source = """
    template <int S> __device__ float dot(const float (&x)[S][S + 1], const float (&y)[S][S + 1]) {
        float d = 0;
        for (int i = 0; i < S; ++i) d += x[threadIdx.y][i] * y[threadIdx.x][i];
        return d;
    }
    extern "C" __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        __shared__ float x[16][17];
        __shared__ float y[16][17];  // y[column][k]
        const int m = blockIdx.y * 16 + threadIdx.y, n = blockIdx.x * 16 + threadIdx.x;
        float sum = 0;
        for (int k = 0; k < K; k += 16) {
            x[threadIdx.y][threadIdx.x] = 0; y[threadIdx.x][threadIdx.y] = 0;
            if (m < M && k + threadIdx.x < K) x[threadIdx.y][threadIdx.x] = A[m * K + k + threadIdx.x];
            if (n < N && k + threadIdx.y < K) y[threadIdx.x][threadIdx.y] = B[(k + threadIdx.y) * N + n];
            __syncthreads();
            sum += dot<16>(x, y);
            __syncthreads();
        }
        if (m < M && n < N) C[m * N + n] = sum;
    }
    """
    return plain(source, "mm", (cdiv(N, 16), cdiv(M, 16)), (16, 16), M, N, K)


@foreign("two buffers whose pointers are swapped")
def pointer_swap(M: int, N: int, K: int) -> Outcome:
    source = """
    #define T 8
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        __shared__ float a0[T * T], a1[T * T], b0[T * T], b1[T * T];
        float *now_a = a0, *next_a = a1, *now_b = b0, *next_b = b1;
        const int x = threadIdx.x, y = threadIdx.y, at = y * T + x;
        const int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
        auto fetch = [&](float* a, float* b, int k) {
            a[at] = row < M && k + x < K ? A[row * K + k + x] : 0.0f;
            b[at] = k + y < K && col < N ? B[(k + y) * N + col] : 0.0f;
        };
        fetch(now_a, now_b, 0);
        __syncthreads();
        float sum = 0;
        for (int k = 0; k < K; k += T) {
            if (k + T < K) fetch(next_a, next_b, k + T);
            for (int i = 0; i < T; ++i) sum += now_a[y * T + i] * now_b[i * T + x];
            __syncthreads();
            float* swap = now_a; now_a = next_a; next_a = swap;
            swap = now_b; now_b = next_b; next_b = swap;
        }
        if (row < M && col < N) C[row * N + col] = sum;
    }
    """
    return plain(source, "mm", (cdiv(N, 8), cdiv(M, 8)), (8, 8), M, N, K)


@foreign("dynamic shared memory, the tile's edge given at run time")
def dynamic_shared(M: int, N: int, K: int) -> Outcome:
    source = """
    extern __shared__ char raw[];
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K, int edge) {
        float* a = (float*)raw;
        float* b = a + edge * (edge + 1);
        const int tx = threadIdx.x, ty = threadIdx.y;
        const int r = blockIdx.y * edge + ty, c = blockIdx.x * edge + tx;
        float s = 0;
        for (int k = 0; k < K; k += edge) {
            a[ty * (edge + 1) + tx] = r < M && k + tx < K ? A[r * K + k + tx] : 0;
            b[ty * edge + tx] = c < N && k + ty < K ? B[(k + ty) * N + c] : 0;
            __syncthreads();
            for (int i = 0; i < edge; ++i) s += a[ty * (edge + 1) + i] * b[i * edge + tx];
            __syncthreads();
        }
        if (r < M && c < N) C[r * N + c] = s;
    }
    """
    edge = 12
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    report = emulator.launch(
        source, "mm", (cdiv(N, edge), cdiv(M, edge)), (edge, edge), [A, B, C, M, N, K, edge],
        shared_bytes=4 * edge * (2 * edge + 1), uninitialised=("C",),
    )  # fmt: skip
    return report, C, A @ B


@foreign("columns of a shared tile permuted by XOR instead of padded")
def xor_swizzle(M: int, N: int, K: int) -> Outcome:
    source = """
    __device__ __forceinline__ int spot(int row, int col) { return row * 16 + (col ^ row); }
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        __shared__ float At[256], Bs[256];
        int x = threadIdx.x & 15, y = threadIdx.x >> 4;
        int m = blockIdx.y << 4 | y, n = blockIdx.x << 4 | x;
        float sum = 0;
        for (int k = 0; k < K; k += 16) {
            At[spot(x, y)] = m < M && k + x < K ? A[m * K + k + x] : 0;
            Bs[spot(y, x)] = n < N && k + y < K ? B[(k + y) * N + n] : 0;
            __syncthreads();
            for (int i = 0; i != 16; ++i) sum += At[spot(i, y)] * Bs[spot(i, x)];
            __syncthreads();
        }
        if (m < M && n < N) C[m * N + n] = sum;
    }
    """
    return plain(source, "mm", (cdiv(N, 16), cdiv(M, 16)), 256, M, N, K)


@foreign("rank-1 updates: one column of A and one row of B in shared memory at a time")
def outer_products(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        __shared__ float column[16];
        __shared__ float line[16];
        const int m0 = blockIdx.y * 16, n0 = blockIdx.x * 16;
        float sum = 0;
        for (int k = 0; k < K; ++k) {
            if (threadIdx.y == 0) {
                column[threadIdx.x] = m0 + threadIdx.x < M ? A[(m0 + threadIdx.x) * K + k] : 0;
            } else if (threadIdx.y == 8) {
                line[threadIdx.x] = n0 + threadIdx.x < N ? B[k * N + n0 + threadIdx.x] : 0;
            }
            __syncthreads();
            sum += column[threadIdx.y] * line[threadIdx.x];
            __syncthreads();
        }
        const int m = m0 + threadIdx.y, n = n0 + threadIdx.x;
        if (m < M && n < N) C[m * N + n] = sum;
    }
    """
    return plain(source, "mm", (cdiv(N, 16), cdiv(M, 16)), (16, 16), M, N, K)


# -- who computes what -----------------------------------------------------------------------------


@foreign("split-K, partial sums added by atomics")
def split_k_atomics(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K, int share) {
        const int n = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y * blockDim.y + threadIdx.y;
        if (m >= M || n >= N) return;
        const int end = min(K, int(blockIdx.z + 1) * share);
        float part = 0;
        for (int k = blockIdx.z * share; k < end; ++k) part += A[m * K + k] * B[k * N + n];
        atomicAdd(C + m * N + n, part);
    }
    """
    A, B, C = ints(M, K), ints(K, N), np.zeros((M, N), np.float32)
    grid = (cdiv(N, 16), cdiv(M, 4), cdiv(K, 13))
    report = emulator.launch(source, "mm", grid, (16, 4), [A, B, C, M, N, K, 13])
    return report, C, A @ B


@foreign("split-K in two kernels: a workspace, then its reduction")
def split_k_workspace(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void partial(const float* A, const float* B, float* W, int M, int N, int K, int parts) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= M * N * parts) return;
        int part = i / (M * N), m = i % (M * N) / N, n = i % N;
        float sum = 0;
        for (int k = part; k < K; k += parts) sum += A[m * K + k] * B[k * N + n];
        W[i] = sum;
    }
    __global__ void reduce(const float* W, float* C, int MN, int parts) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < MN) { float s = 0; for (int p = 0; p < parts; ++p) s += W[p * MN + i]; C[i] = s; }
    }
    """
    A, B, C, W = ints(M, K), ints(K, N), empty(M, N), empty(3, M, N)
    first = emulator.launch(
        source, "partial", cdiv(3 * M * N, 128), 128, [A, B, W, M, N, K, 3], uninitialised=("W",)
    )
    assert first.ok, first
    report = emulator.launch(
        source, "reduce", cdiv(M * N, 128), 128, [W, C, M * N, 3], uninitialised=("C",)
    )
    return report, C, A @ B


@foreign("a warp for each element, reduced by shuffles")
def warp_shuffle_dot(M: int, N: int, K: int) -> Outcome:
    source = """
    __inline__ __device__ float total(float v) {
        for (int d = warpSize / 2; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
        return v;
    }
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
        if (warp >= M * N) return;
        const int m = warp / N, n = warp % N;
        float sum = 0;
        for (int k = lane; k < K; k += 32) sum += A[m * K + k] * B[k * N + n];
        sum = total(sum);
        if (lane == 0) C[warp] = sum;
    }
    """
    return plain(source, "mm", cdiv(M * N, 4), 128, M, N, K)


@foreign("a warp loads together and hands values round with shuffles, no shared memory")
def cooperative_warp(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* __restrict__ A, const float* __restrict__ B,
                       float* __restrict__ C, int M, int N, int K) {
        const int lane = threadIdx.x, n = blockIdx.x * 32 + lane, m = blockIdx.y * 4 + threadIdx.y;
        float sum = 0;
        for (int k0 = 0; k0 < K; k0 += 32) {
            const float mine = m < M && k0 + lane < K ? __ldg(&A[m * K + k0 + lane]) : 0.0f;
            const int stop = min(32, K - k0);
            for (int i = 0; i < stop; ++i) {
                const float a = __shfl_sync(~0u, mine, i);
                if (n < N) sum += a * __ldg(&B[(k0 + i) * N + n]);
            }
        }
        if (m < M && n < N) C[m * N + n] = sum;
    }
    """
    return plain(source, "mm", (cdiv(N, 32), cdiv(M, 4)), (32, 4), M, N, K)


@foreign("one dimension for grid and block, rows and columns by / and %")
def linear_grid(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, unsigned M, unsigned N, unsigned K) {
        const unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
        const unsigned row = id / N, col = id % N;
        if (row < M) {
            float acc = 0.f;
            for (unsigned i = 0; i < K; i++) acc += A[row * K + i] * B[i * N + col];
            C[id] = acc;
        }
    }
    """
    return plain(source, "mm", cdiv(M * N, 96), 96, M, N, K)


@foreign("a grid-stride loop over the elements of C")
def grid_stride(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < (long long)M * N;
             i += (long long)gridDim.x * blockDim.x) {
            const float* a = A + i / N * K;
            const float* b = B + i % N;
            float s = 0;
            for (int k = K; k--; ++a, b += N) s += *a * *b;
            C[i] = s;
        }
    }
    """
    return plain(source, "mm", 3, 64, M, N, K)


@foreign("blocks that stay and draw tile numbers from a counter")
def persistent(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K, int* next) {
        __shared__ int tile;
        const int across = (N + 15) / 16, tiles = across * ((M + 7) / 8);
        for (;;) {
            if (threadIdx.x == 0) tile = atomicAdd(next, 1);
            __syncthreads();
            const int mine = tile;
            __syncthreads();
            if (mine >= tiles) break;
            const int m = mine / across * 8 + threadIdx.x / 16, n = mine % across * 16 + threadIdx.x % 16;
            if (m < M && n < N) {
                float s = 0;
                for (int k = 0; k < K; ++k) s += A[m * K + k] * B[k * N + n];
                C[m * N + n] = s;
            }
        }
    }
    """
    A, B, C, counter = ints(M, K), ints(K, N), empty(M, N), np.zeros(1, np.int32)
    report = emulator.launch(
        source, "mm", 4, 128, [A, B, C, M, N, K, counter], uninitialised=("C",)
    )
    assert counter[0] == 4 + cdiv(N, 16) * cdiv(M, 8)
    return report, C, A @ B


@foreign("a thread keeps several rows of one column in registers")
def rows_in_registers(M: int, N: int, K: int) -> Outcome:
    source = """
    template <int ROWS> struct Column { float v[ROWS]; };
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        constexpr int ROWS = 5;
        const int n = blockIdx.x * blockDim.x + threadIdx.x, m0 = blockIdx.y * ROWS;
        if (n >= N) return;
        Column<ROWS> c{};
        for (int k = 0; k < K; ++k) {
            const float b = B[k * N + n];
            #pragma unroll
            for (int r = 0; r < ROWS; ++r) if (m0 + r < M) c.v[r] += A[(m0 + r) * K + k] * b;
        }
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) if (m0 + r < M) C[(m0 + r) * N + n] = c.v[r];
    }
    """
    return plain(source, "mm", (cdiv(N, 32), cdiv(M, 5)), 32, M, N, K)


@foreign("a batch of matrices along z of the grid")
def batched(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K,
                       long long stride_a, long long stride_b, long long stride_c) {
        const int n = blockIdx.x * 8 + threadIdx.x, m = blockIdx.y * 8 + threadIdx.y;
        A += blockIdx.z * stride_a; B += blockIdx.z * stride_b; C += blockIdx.z * stride_c;
        if (m >= M || n >= N) return;
        float s = 0;
        for (int k = 0; k < K; ++k) s += A[m * K + k] * B[k * N + n];
        C[m * N + n] = s;
    }
    """
    A, B, C = ints(3, M, K), ints(3, K, N), empty(3, M, N)
    report = emulator.launch(
        source, "mm", (cdiv(N, 8), cdiv(M, 8), 3), (8, 8),
        [A, B, C, M, N, K, M * K, K * N, M * N], uninitialised=("C",),
    )  # fmt: skip
    return report, C, A @ B


@foreign("threadIdx.z splits k, the layers meet in shared memory")
def layers_of_threads(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        __shared__ float part[4][8][8];
        const int n = blockIdx.x * 8 + threadIdx.x, m = blockIdx.y * 8 + threadIdx.y;
        float s = 0;
        if (m < M && n < N)
            for (int k = threadIdx.z; k < K; k += blockDim.z) s += A[m * K + k] * B[k * N + n];
        part[threadIdx.z][threadIdx.y][threadIdx.x] = s;
        for (int half = 2; half; half >>= 1) {
            __syncthreads();
            if (threadIdx.z < half)
                part[threadIdx.z][threadIdx.y][threadIdx.x] +=
                    part[threadIdx.z + half][threadIdx.y][threadIdx.x];
        }
        if (threadIdx.z == 0 && m < M && n < N) C[m * N + n] = part[0][threadIdx.y][threadIdx.x];
    }
    """
    return plain(source, "mm", (cdiv(N, 8), cdiv(M, 8)), (8, 8, 4), M, N, K)


# -- how it is written -----------------------------------------------------------------------------


@foreign("float4 by reinterpret_cast where it fits, elements at the edge")
def float4_with_edges(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        const int n = (blockIdx.x * 16 + threadIdx.x) * 4, m = blockIdx.y * 8 + threadIdx.y;
        if (m >= M || n >= N) return;
        float4 acc = {0, 0, 0, 0};
        const bool whole = n + 3 < N && N % 4 == 0;
        for (int k = 0; k < K; ++k) {
            const float a = A[m * K + k];
            float4 b = {0, 0, 0, 0};
            if (whole) b = reinterpret_cast<const float4*>(B + k * N + n)[0];
            else for (int j = 0; j < 4 && n + j < N; ++j) (&b.x)[j] = B[k * N + n + j];
            acc.x += a * b.x; acc.y += a * b.y; acc.z += a * b.z; acc.w += a * b.w;
        }
        if (whole) *(float4*)&C[m * N + n] = acc;
        else for (int j = 0; j < 4 && n + j < N; ++j) C[m * N + n + j] = (&acc.x)[j];
    }
    """
    return plain(source, "mm", (cdiv(N, 64), cdiv(M, 8)), (16, 8), M, N, K)


@foreign(
    "float4 without asking for alignment: right only where rows are multiples of 16 bytes",
    "misaligned",
    shapes=((5, 18, 7),),
    exact=False,
)
def float4_blindly(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        const int n = threadIdx.x * 4, m = blockIdx.x;
        if (n + 3 >= N) return;
        float4 s = make_float4(0, 0, 0, 0);
        for (int k = 0; k < K; ++k) {
            const float4 b = *reinterpret_cast<const float4*>(&B[k * N + n]);
            s.x += A[m * K + k] * b.x; s.y += A[m * K + k] * b.y;
            s.z += A[m * K + k] * b.z; s.w += A[m * K + k] * b.w;
        }
        for (int j = 0; j < 4; ++j) C[m * N + n + j] = (&s.x)[j];
    }
    """
    return plain(source, "mm", M, 32, M, N, K)


@foreign("matrices as structures with a stride, sub-matrices by a device function")
def matrix_structures(M: int, N: int, K: int) -> Outcome:
    source = """
    struct View { int rows; int cols; int pitch; float* data; };
    __device__ float at(const View v, int r, int c) {
        return r < v.rows && c < v.cols ? v.data[r * v.pitch + c] : 0.0f;
    }
    __device__ View part(View v, int r, int c, int edge) {
        View p;
        p.rows = min(edge, v.rows - r); p.cols = min(edge, v.cols - c);
        p.pitch = v.pitch; p.data = v.data + r * v.pitch + c;
        return p;
    }
    __global__ void mm(View a, View b, View c) {
        __shared__ float as[8][8], bs[8][8];
        const int x = threadIdx.x, y = threadIdx.y;
        View out = part(c, blockIdx.y * 8, blockIdx.x * 8, 8);
        float sum = 0;
        for (int k = 0; k < a.cols; k += 8) {
            as[y][x] = at(part(a, blockIdx.y * 8, k, 8), y, x);
            bs[y][x] = at(part(b, k, blockIdx.x * 8, 8), y, x);
            __syncthreads();
            for (int i = 0; i < 8; ++i) sum += as[y][i] * bs[i][x];
            __syncthreads();
        }
        if (y < out.rows && x < out.cols) out.data[y * out.pitch + x] = sum;
    }
    """
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    report = emulator.launch(
        source, "mm", (cdiv(N, 8), cdiv(M, 8)), (8, 8),
        [(M, K, K, A), (K, N, N, B), (M, N, N, C)],
    )  # fmt: skip
    return report, C, A @ B


@foreign("a template over type and tile, named by an expression")
def template_by_name(M: int, N: int, K: int) -> Outcome:
    source = """
    template <typename Scalar, int EDGE>
    __global__ void mm(const Scalar* A, const Scalar* B, Scalar* C, int M, int N, int K) {
        __shared__ Scalar a[EDGE][EDGE], b[EDGE][EDGE];
        const int m = blockIdx.y * EDGE + threadIdx.y, n = blockIdx.x * EDGE + threadIdx.x;
        Scalar sum{};
        for (int k = 0; k < K; k += EDGE) {
            a[threadIdx.y][threadIdx.x] = m < M && k + threadIdx.x < K ? A[m * K + k + threadIdx.x] : Scalar{};
            b[threadIdx.y][threadIdx.x] = n < N && k + threadIdx.y < K ? B[(k + threadIdx.y) * N + n] : Scalar{};
            __syncthreads();
            for (int i = 0; i < EDGE; ++i) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
            __syncthreads();
        }
        if (m < M && n < N) C[m * N + n] = sum;
    }
    """
    A, B, C = ints(M, K, dtype="f8"), ints(K, N, dtype="f8"), empty(M, N, dtype="f8")
    report = emulator.launch(
        source, "mm<double, 12>", (cdiv(N, 12), cdiv(M, 12)), (12, 12), [A, B, C, M, N, K]
    )
    return report, C, A @ B


@foreign("device functions that are called, not inlined")
def called_functions(M: int, N: int, K: int) -> Outcome:
    source = """
    __device__ __noinline__ float element(const float* x, int ld, int r, int c, int rows, int cols) {
        return (unsigned)r < (unsigned)rows && (unsigned)c < (unsigned)cols ? x[r * ld + c] : 0.0f;
    }
    __device__ __noinline__ void accumulate(float* into, float a, float b) { *into += a * b; }
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        const int m = blockIdx.y * 8 + threadIdx.y, n = blockIdx.x * 16 + threadIdx.x;
        float sum = 0;
        for (int k = 0; k < K; ++k)
            accumulate(&sum, element(A, K, m, k, M, K), element(B, N, k, n, K, N));
        if (m < M && n < N) C[m * N + n] = sum;
    }
    """
    return plain(source, "mm", (cdiv(N, 16), cdiv(M, 8)), (16, 8), M, N, K)


@foreign("halves in pairs: half2 arithmetic")
def half2_pairs(M: int, N: int, K: int) -> Outcome:
    source = """
    #include <cuda_fp16.h>
    __global__ void mm(const __half* A, const __half* B, __half* C, int M, int N, int K) {
        const int n = 2 * (blockIdx.x * 16 + threadIdx.x), m = blockIdx.y * 4 + threadIdx.y;
        if (m >= M || n >= N) return;
        __half2 sum = __float2half2_rn(0.0f);
        for (int k = 0; k < K; ++k) {
            const __half low = B[k * N + n], high = n + 1 < N ? B[k * N + n + 1] : __half(0.0f);
            sum = __hfma2(__half2half2(A[m * K + k]), __halves2half2(low, high), sum);
        }
        C[m * N + n] = __low2half(sum);
        if (n + 1 < N) C[m * N + n + 1] = __high2half(sum);
    }
    """
    A, B, C = ints(M, K, dtype="f2", top=2), ints(K, N, dtype="f2", top=2), empty(M, N, dtype="f2")
    report = emulator.launch(
        source, "mm", (cdiv(N, 32), cdiv(M, 4)), (16, 4), [A, B, C, M, N, K], uninitialised=("C",)
    )
    return report, C, (A.astype("f4") @ B.astype("f4")).astype("f2")


@foreign("bytes four at a time: __dp4a with int32 sums")
def packed_bytes(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const int* A4, const int* Bt4, int* C, int M, int N, int K4) {
        const int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 4 + threadIdx.y;
        if (m >= M || n >= N) return;
        int sum = 0;
        for (int k = 0; k < K4; ++k) sum = __dp4a(A4[m * K4 + k], Bt4[n * K4 + k], sum);
        C[m * N + n] = sum;
    }
    """
    K4 = cdiv(K, 4)
    A, B = np.zeros((M, 4 * K4), np.int8), np.zeros((N, 4 * K4), np.int8)
    A[:, :K], B[:, :K] = ints(M, K, dtype=np.int8, top=100), ints(N, K, dtype=np.int8, top=100)
    C = empty(M, N, dtype=np.int32)
    report = emulator.launch(
        source, "mm", (cdiv(N, 16), cdiv(M, 4)), (16, 4),
        [A.view(np.int32), B.view(np.int32), C, M, N, K4], uninitialised=("C",),
    )  # fmt: skip
    return report, C, A.astype(np.int32) @ B.T.astype(np.int32)


@foreign("the small factor in constant memory")
def constant_memory(M: int, N: int, K: int) -> Outcome:
    source = """
    __constant__ float factor[4096];
    __global__ void mm(const float* A, float* C, int M, int N, int K) {
        const int n = blockIdx.x * 32 + threadIdx.x, m = blockIdx.y * 4 + threadIdx.y;
        if (m >= M || n >= N) return;
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[m * K + k] * factor[k * N + n];
        C[m * N + n] = sum;
    }
    """
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    report = emulator.launch(
        source, "mm", (cdiv(N, 32), cdiv(M, 4)), (32, 4), [A, C, M, N, K],
        symbols={"factor": B}, uninitialised=("C",),
    )  # fmt: skip
    return report, C, A @ B


@foreign("both factors stored transposed")
def transposed_inputs(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* At, const float* Bt, float* C, int M, int N, int K) {
        __shared__ float a[16][16 + 1], b[16][16 + 1];
        const int x = threadIdx.x, y = threadIdx.y, m0 = blockIdx.y * 16, n0 = blockIdx.x * 16;
        float sum = 0;
        for (int k = 0; k < K; k += 16) {
            a[y][x] = k + y < K && m0 + x < M ? At[(k + y) * M + m0 + x] : 0;  // a[k][m]
            b[y][x] = n0 + y < N && k + x < K ? Bt[(n0 + y) * K + k + x] : 0;  // b[n][k]
            __syncthreads();
            for (int i = 0; i < 16; ++i) sum += a[i][y] * b[x][i];
            __syncthreads();
        }
        if (m0 + y < M && n0 + x < N) C[(m0 + y) * N + n0 + x] = sum;
    }
    """
    At, Bt, C = ints(K, M), ints(N, K), empty(M, N)
    report = emulator.launch(
        source, "mm", (cdiv(N, 16), cdiv(M, 16)), (16, 16), [At, Bt, C, M, N, K],
        uninitialised=("C",),
    )  # fmt: skip
    return report, C, At.T @ Bt.T


@foreign("columns first, with leading dimensions, alpha and beta")
def column_major_gemm(M: int, N: int, K: int) -> Outcome:
    source = """
    #define AT(p, i, j, ld) p[(j) * (ld) + (i)]
    __global__ void gemm(int m, int n, int k, float alpha, const float* a, int lda, const float* b,
                         int ldb, float beta, float* c, int ldc) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
        if (i < m && j < n) {
            float s = 0;
            for (int p = 0; p < k; ++p) s += AT(a, i, p, lda) * AT(b, p, j, ldb);
            AT(c, i, j, ldc) = alpha * s + beta * AT(c, i, j, ldc);
        }
    }
    """
    lda, ldb, ldc = M + 3, K + 1, M + 2
    A, B, C = ints(K, lda), ints(N, ldb), ints(N, ldc)
    want = C.copy()
    want[:, :M] = 2 * (A[:, :M].T @ B[:, :K].T).T - 3 * C[:, :M]
    report = emulator.launch(
        source, "gemm", (cdiv(M, 32), cdiv(N, 4)), (32, 4),
        [M, N, K, 2.0, A, lda, B, ldb, -3.0, C, ldc],
    )  # fmt: skip
    return report, C, want


@foreign("unrolled by hand, the rest through a switch without breaks")
def switch_for_the_rest(M: int, N: int, K: int) -> Outcome:
    source = """
    #define STEP s += a[k] * b[k * N]; ++k;
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        const int n = blockIdx.x * 32 + threadIdx.x, m = blockIdx.y * 4 + threadIdx.y;
        if (m >= M || n >= N) return;
        const float *a = A + m * K, *b = B + n;
        float s = 0;
        int k = 0;
        switch (K & 7) {
            case 7: STEP
            case 6: STEP
            case 5: STEP
            case 4: STEP
            case 3: STEP
            case 2: STEP
            case 1: STEP
            default: break;
        }
        while (k < K) { STEP STEP STEP STEP STEP STEP STEP STEP }
        C[m * N + n] = s;
    }
    """
    return plain(source, "mm", (cdiv(N, 32), cdiv(M, 4)), (32, 4), M, N, K)


@foreign("fragments in warps of 8 x 4 lanes, unrolled by template recursion")
def recursive_unrolling(M: int, N: int, K: int) -> Outcome:
    source = """
    template <int I> struct Steps {
        static __device__ void run(float (&acc)[2][2], const float (*a)[4], const float (*b)[16], int y, int x) {
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) acc[i][j] += a[y * 2 + i][I - 1] * b[I - 1][x * 2 + j];
            Steps<I - 1>::run(acc, a, b, y, x);
        }
    };
    template <> struct Steps<0> {
        static __device__ void run(float (&)[2][2], const float (*)[4], const float (*)[16], int, int) {}
    };
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        __shared__ float a[8][4], b[4][16];
        const int t = threadIdx.x, y = t / 8, x = t % 8, m0 = blockIdx.y * 8, n0 = blockIdx.x * 16;
        float acc[2][2] = {};
        for (int k = 0; k < K; k += 4) {
            a[t / 4][t % 4] = m0 + t / 4 < M && k + t % 4 < K ? A[(m0 + t / 4) * K + k + t % 4] : 0;
            for (int i = t; i < 64; i += 32)
                b[i / 16][i % 16] = k + i / 16 < K && n0 + i % 16 < N ? B[(k + i / 16) * N + n0 + i % 16] : 0;
            __syncwarp();
            Steps<4>::run(acc, a, b, y, x);
            __syncwarp();
        }
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) {
                const int m = m0 + y * 2 + i, n = n0 + x * 2 + j;
                if (m < M && n < N) C[m * N + n] = acc[i][j];
            }
    }
    """
    return plain(source, "mm", (cdiv(N, 16), cdiv(M, 8)), 32, M, N, K)


@foreign("dot products gathered by atomics in shared memory")
def shared_atomics(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        __shared__ float sums[32];
        const int n = blockIdx.x * 32 + threadIdx.x, m = blockIdx.y;
        if (threadIdx.y == 0) sums[threadIdx.x] = 0;
        __syncthreads();
        if (n < N)
            for (int k = threadIdx.y; k < K; k += blockDim.y)
                atomicAdd(&sums[threadIdx.x], A[m * K + k] * B[k * N + n]);
        __syncthreads();
        if (threadIdx.y == 0 && n < N) C[m * N + n] = sums[threadIdx.x];
    }
    """
    return plain(source, "mm", (cdiv(N, 32), M), (32, 4), M, N, K)


# -- with the faults that such code has
# --------------------------------------------------------------

_REDUCTION = """
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ volatile float part[64];
    const int t = threadIdx.x, m = blockIdx.y, n = blockIdx.x;
    float s = 0;
    for (int k = t; k < K; k += 64) s += A[m * K + k] * B[k * N + n];
    part[t] = s;
    __syncthreads();
    if (t < 32) {
        for (int d = 32; d; d >>= 1) {
            const float v = part[t + d];
            SYNC
            part[t] = part[t] + v;
            SYNC
        }
    }
    if (t == 0) C[m * N + n] = part[0];
}
"""


@foreign("a warp-synchronous reduction with __syncwarp", shapes=SHAPES[:2])
def warp_synchronous(M: int, N: int, K: int) -> Outcome:
    return plain(_REDUCTION.replace("SYNC", "__syncwarp();"), "mm", (N, M), 64, M, N, K)


@foreign("the same with volatile alone, as before Volta", "race", shapes=SHAPES[:2])
def volatile_alone(M: int, N: int, K: int) -> Outcome:
    return plain(_REDUCTION.replace("SYNC", ""), "mm", (N, M), 64, M, N, K)


@foreign(
    "threads outside C return before the barrier",
    "divergent-barrier",
    "uninitialised",
    shapes=((17, 33, 19),),
    exact=False,
)
def return_before_the_barrier(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        __shared__ float a[16][16], b[16][16];
        const int m = blockIdx.y * 16 + threadIdx.y, n = blockIdx.x * 16 + threadIdx.x;
        if (m >= M || n >= N) return;
        float sum = 0;
        for (int k = 0; k < K; k += 16) {
            a[threadIdx.y][threadIdx.x] = k + threadIdx.x < K ? A[m * K + k + threadIdx.x] : 0;
            b[threadIdx.y][threadIdx.x] = k + threadIdx.y < K ? B[(k + threadIdx.y) * N + n] : 0;
            __syncthreads();
            for (int i = 0; i < 16; ++i) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
            __syncthreads();
        }
        C[m * N + n] = sum;
    }
    """
    return plain(source, "mm", (cdiv(N, 16), cdiv(M, 16)), (16, 16), M, N, K)


@foreign(
    "split-K without atomics: blocks overwrite each other",
    "race",
    shapes=((9, 8, 40),),
    exact=False,
)
def split_k_without_atomics(M: int, N: int, K: int) -> Outcome:
    source = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        const int n = threadIdx.x, m = blockIdx.y;
        float s = 0;
        for (int k = blockIdx.x * 20; k < min(K, int(blockIdx.x + 1) * 20); ++k) s += A[m * K + k] * B[k * N + n];
        C[m * N + n] += s;
    }
    """
    A, B, C = ints(M, K), ints(K, N), np.zeros((M, N), np.float32)
    report = emulator.launch(source, "mm", (cdiv(K, 20), M), N, [A, B, C, M, N, K])
    return report, C, A @ B
