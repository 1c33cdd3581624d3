"""Hopper kernels in styles that the book does not use: each runs unmodified, and beside it one with
one fault.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_emulator_warpgroups import fp8, mma

from nogpu import emulator
from nogpu.emulator import Report, TensorMap

RNG = np.random.default_rng(5)

HEAD = """
typedef unsigned long long u64;
struct alignas(64) Map { u64 opaque[16]; };
#define SMEM(p) ((unsigned)__cvta_generic_to_shared(p))
#define TMA(n) "cp.async.bulk.tensor." #n "d.shared::cluster.global.mbarrier::complete_tx::bytes"
__device__ void bar_init(u64* b, int n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(SMEM(b)), "r"(n)); }
__device__ void bars_ready() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void bar_tx(u64* b, int n) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(SMEM(b)), "r"(n) : "memory");
}
__device__ void bar_arrive(u64* b) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(SMEM(b)) : "memory");
}
__device__ bool bar_try(u64* b, unsigned phase) {
    unsigned done;
    asm volatile("{ .reg .pred q; mbarrier.try_wait.parity.shared.b64 q, [%1], %2; selp.b32 %0, 1, 0, q; }"
                 : "=r"(done) : "r"(SMEM(b)), "r"(phase) : "memory");
    return done;
}
__device__ void bar_wait(u64* b, unsigned phase) { while (!bar_try(b, phase)) { } }
__device__ void tma2(void* to, const Map* map, u64* b, int x, int y) {
    asm volatile(TMA(2) " [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(SMEM(to)), "l"(map), "r"(SMEM(b)), "r"(x), "r"(y) : "memory");
}
__device__ void tma3(void* to, const Map* map, u64* b, int x, int y, int z) {
    asm volatile(TMA(3) " [%0], [%1, {%3, %4, %5}], [%2];"
                 :: "r"(SMEM(to)), "l"(map), "r"(SMEM(b)), "r"(x), "r"(y), "r"(z) : "memory");
}
// mode: 0 no swizzle, 1 of 128, 2 of 64, 3 of 32 bytes.
__device__ u64 tile_at(const void* p, u64 lead, u64 stride, u64 mode) {
    return (SMEM(p) & 0x3ffff) >> 4 | lead >> 4 << 16 | stride >> 4 << 32 | mode << 62;
}
__device__ void mma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void mma_end() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
__device__ int sum_row(int i) { return threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8; }
__device__ int sum_col(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }
"""
ENTRY = 'extern "C" __global__ void __launch_bounds__'
F16 = "k16.f32.f16.f16", "f", ", 1, 1, 0, 0"


def run(
    source: str, grid: Any, threads: int, args: list[Any], shared: int, **options: Any
) -> Report:
    return emulator.launch(source, "k", grid, threads, args, shared, arch="sm_90a", **options)


def small(*shape: int) -> np.ndarray:
    """Whole numbers that each type of element holds, and whose products sum without rounding."""
    return RNG.integers(-2, 3, shape).astype("f4")


def twin(source: str, old: str, new: str) -> str:
    """The kernel with one fault."""
    assert source.count(old) == 1, (source.count(old), old)
    return source.replace(old, new)


def right(report: Report, got: np.ndarray, want: np.ndarray) -> None:
    assert report.ok, report
    np.testing.assert_array_equal(got, want)


def raced(report: Report) -> None:
    assert "race" in {f.kind for f in report.findings}, report


# Two consumers take turns, and each meets at a barrier whose number comes from the warpgroup; rows
# of 64 bytes,
# B by columns.
PING_PONG = HEAD + mma("mma_32", 32, *F16, count=16) + ENTRY + """(384)
k(const __grid_constant__ Map A, const __grid_constant__ Map B, float* C, int K, int N, int rounds)
{
    extern __shared__ __align__(1024) unsigned char ring[];  // [consumer][stage]: 4096 bytes of A, 2048 of B
    __shared__ u64 full[2][2], empty[2][2], turn[2];
    __shared__ float out[64 * 32];
    const int group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; ++i) { bar_init(&full[0][0] + i, 1); bar_init(&empty[0][0] + i, 128); }
        for (int c = 0; c < 2; ++c) bar_init(&turn[c], 128);
        bars_ready();
    }
    __syncthreads();
    const int steps = K / 32;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            for (int i = 0; i < rounds * steps; ++i) {
                for (int c = 0; c < 2; ++c) {
                    const int s = i % 2, x = i % steps * 32, tile = i / steps * 2 + c;
                    bar_wait(&empty[c][s], (i / 2 & 1) ^ 1);
                    bar_tx(&full[c][s], 6144);
                    unsigned char* to = ring + (c * 2 + s) * 6144;
                    tma2(to, &A, &full[c][s], x, blockIdx.x * 64);
                    tma2(to + 4096, &B, &full[c][s], x, tile * 32);
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int c = group - 1;
        if (c == 1) bar_arrive(&turn[0]);
        int i = 0;
        for (int round = 0; round < rounds; ++round) {
            float d[16] = {};
            bar_wait(&turn[c], round & 1);
            for (int step = 0; step < steps; ++step, ++i) {
                const unsigned char* a = ring + (c * 2 + i % 2) * 6144;
                bar_wait(&full[c][i % 2], i / 2 & 1);
                mma_begin();
                for (int k = 0; k < 64; k += 32)
                    mma_32(d, tile_at(a + k, 16, 512, 2), tile_at(a + 4096 + k, 16, 512, 2), 1);
                mma_end();
                bar_arrive(&empty[c][i % 2]);
            }
            for (int j = 0; j < 16; ++j) out[sum_row(j) * 32 + sum_col(j)] = d[j];
            asm volatile("bar.sync %0, 128;" :: "r"(3 + c) : "memory");
            for (int j = threadIdx.x % 128; j < 64 * 32; j += 128)
                C[(blockIdx.x * 64 + j / 32) * N + (round * 2 + c) * 32 + j % 32] = out[j];
            bar_arrive(&turn[1 - c]);
        }
    }
}
"""  # fmt: skip


def ping_pong(source: str) -> tuple[Report, np.ndarray, np.ndarray]:
    A, B = small(128, 96), small(128, 96)
    C = np.zeros((128, 128), "f4")
    maps = [TensorMap(A.astype("f2"), (64, 32), 64), TensorMap(B.astype("f2"), (32, 32), 64)]
    return run(source, 2, 384, [*maps, C, 96, 128, 2], 4 * 6144), C, A @ B.T


def test_ping_pong_and_barriers_by_the_number_of_the_warpgroup():
    right(*ping_pong(PING_PONG))
    raced(ping_pong(twin(PING_PONG, "bar_wait(&turn[c], round & 1);", ""))[0])
    raced(ping_pong(twin(PING_PONG, '"bar.sync %0, 128;" :: "r"(3 + c)', '"" :: "r"(3 + c)'))[0])


# Slices of K add with atomics; columns of 16 bytes with no swizzle; one lane of a warp is elected.
SPLIT_K = HEAD + mma("mma_16", 16, *F16, count=8) + ENTRY + """(128)
k(const __grid_constant__ Map A, const __grid_constant__ Map B, float* C, int slice)
{
    __shared__ __align__(128) unsigned char a[2048], b[512];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { bar_init(&bar, 1); bars_ready(); }
    __syncthreads();
    float d[8] = {};
    for (int i = 0; i < slice / 16; ++i) {
        if (threadIdx.x / 32 == 1) {
            unsigned chosen;
            asm volatile("{ .reg .pred q; elect.sync _|q, 0xffffffff; selp.b32 %0, 1, 0, q; }" : "=r"(chosen));
            if (chosen) {
                bar_tx(&bar, 2560);
                for (int h = 0; h < 2; ++h) {
                    const int x = blockIdx.z * slice + i * 16 + h * 8;
                    tma2(a + h * 1024, &A, &bar, x, 0);
                    tma2(b + h * 256, &B, &bar, x, 0);
                }
            }
        }
        bar_wait(&bar, i & 1);
        mma_begin();
        mma_16(d, tile_at(a, 1024, 128, 0), tile_at(b, 256, 128, 0), 1);
        mma_end();
        __syncthreads();
    }
    for (int j = 0; j < 8; ++j) atomicAdd(C + sum_row(j) * 16 + sum_col(j), d[j]);
}
"""  # fmt: skip


def split_k(source: str) -> tuple[Report, np.ndarray, np.ndarray]:
    A, B, C = small(64, 96), small(16, 96), np.zeros((64, 16), "f4")
    maps = [TensorMap(A.astype("f2"), (64, 8)), TensorMap(B.astype("f2"), (16, 8))]
    return run(source, (1, 1, 3), 128, [*maps, C, 32], 0), C, A @ B.T


def test_split_k_with_atomics_and_no_swizzle():
    right(*split_k(SPLIT_K))
    raced(split_k(twin(SPLIT_K, "atomicAdd(C + sum_row(j) * 16 + sum_col(j), d[j])",
                       "C[sum_row(j) * 16 + sum_col(j)] += d[j]"))[0])  # fmt: skip


# Weights of 8 bits become halves in registers; scales come as one plain row; rows of 32 bytes.
WEIGHTS = "#include <cuda_fp16.h>\n" + HEAD + mma(
    "mma_rs", 16, "k16.f32.f16.f16", "f", ", 1, 1, 0", count=8, a="regs") + ENTRY + """(128)
k(const signed char* W, const __grid_constant__ Map X, const float* scale, float* Y, int K)
{
    __shared__ __align__(256) unsigned char x[512];
    __shared__ __align__(16) float scales[64];
    __shared__ u64 bar, rows;
    if (threadIdx.x == 0) { bar_init(&bar, 1); bar_init(&rows, 1); bars_ready(); }
    __syncthreads();
    if (threadIdx.x == 0) {
        bar_tx(&rows, sizeof scales);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
            :: "r"(SMEM(scales)), "l"(scale), "r"((int)sizeof scales), "r"(SMEM(&rows)) : "memory");
    }
    float d[8] = {};
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;
    for (int k = 0; k < K; k += 16) {
        if (threadIdx.x == 0) { bar_tx(&bar, 512); tma2(x, &X, &bar, k, 0); }
        unsigned a[4];
        for (int i = 0; i < 4; ++i) {
            const char2 w = *reinterpret_cast<const char2*>(W + (row + i % 2 * 8) * K + k + col + i / 2 * 8);
            const __half2 h = __halves2half2(__int2half_rn(w.x), __int2half_rn(w.y));
            a[i] = *reinterpret_cast<const unsigned*>(&h);
        }
        bar_wait(&bar, k / 16 & 1);
        mma_begin();
        mma_rs(d, a, tile_at(x, 16, 256, 3), 1);
        mma_end();
        __syncthreads();
    }
    bar_wait(&rows, 0);
    for (int j = 0; j < 8; ++j) Y[sum_row(j) * 16 + sum_col(j)] = d[j] * scales[sum_row(j)];
}
"""  # fmt: skip


def weights(source: str) -> tuple[Report, np.ndarray, np.ndarray]:
    W, X, Y = small(64, 48), small(16, 48), np.zeros((64, 16), "f4")
    scale = 2.0 ** RNG.integers(-3, 4, 64).astype("f4")
    given = [W.astype("i1"), TensorMap(X.astype("f2"), (16, 16), 32), scale, Y, 48]
    return run(source, 1, 128, given, 0), Y, W @ X.T * scale[:, None]


def test_weights_converted_in_registers_and_a_row_of_scales():
    right(*weights(WEIGHTS))
    raced(weights(twin(WEIGHTS, "bar_wait(&rows, 0);", "__syncthreads();"))[0])
    _, Y, want = weights(
        twin(
            WEIGHTS,
            "+ i % 2 * 8) * K + k + col + i / 2 * 8",
            "+ i / 2 * 8) * K + k + col + i % 2 * 8",
        )
    )
    assert not np.array_equal(Y, want), "registers 1 and 2 of A in each other's place"


# Batches by a map of three axes; elements of 8 bits, or TF32: 32 bytes of k an instruction.
BATCHED = ENTRY + """(128)
k(const __grid_constant__ Map A, const __grid_constant__ Map B, SUM* C, int K)
{
    __shared__ __align__(1024) unsigned char a[64 * 32], b[16 * 32];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { bar_init(&bar, 1); bars_ready(); }
    __syncthreads();
    REG d[8] = {};
    for (int k = 0, i = 0; k < K; k += 32 / SIZE, ++i) {
        if (threadIdx.x == 0) {
            bar_tx(&bar, sizeof a + sizeof b);
            tma3(a, &A, &bar, k, 0, blockIdx.y);
            tma3(b, &B, &bar, k, 0, blockIdx.y);
        }
        bar_wait(&bar, i & 1);
        mma_begin();
        multiply(d, tile_at(a, 16, 256, 3), tile_at(b, 16, 256, 3), 1);
        mma_end();
        __syncthreads();
    }
    for (int j = 0; j < 8; ++j) C[(blockIdx.y * 64 + sum_row(j)) * 16 + sum_col(j)] = d[j];
}
"""  # fmt: skip
E4M3 = {fp8(i, "e4m3"): i for i in range(256)}
KINDS: dict[str, tuple[str, str, str, int, Any]] = {
    "e4m3": ("k32.f32.e4m3.e4m3", ", 1, 1", "float", 1, np.vectorize(E4M3.get, otypes=["u1"])),
    "tf32": ("k8.f32.tf32.tf32", ", 1, 1", "float", 4, lambda x: x),
    "s8": ("k32.s32.s8.s8", "", "int", 1, lambda x: x.astype("i1")),
}


def batched(kind: str, source: str) -> tuple[Report, np.ndarray, np.ndarray]:
    words, tail, out, size, to = KINDS[kind]
    A, B = small(3, 64, 64), small(3, 16, 64)
    C = np.zeros((3, 64, 16), "f4" if out == "float" else "i4")
    letter = "f" if out == "float" else "r"
    source = HEAD + mma("multiply", 16, words, letter, tail, count=8) + source
    maps = [TensorMap(to(x), (1, n, 32 // size), 32) for x, n in ((A, 64), (B, 16))]
    defines = {"SUM": out, "REG": "unsigned" if letter == "r" else out, "SIZE": size}
    return run(source, (1, 3), 128, [*maps, C, 64], 0, defines=defines), C, A @ B.transpose(0, 2, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_by_a_map_of_three_axes(kind):
    right(*batched(kind, BATCHED))
    raced(batched(kind, twin(BATCHED, "bar_wait(&bar, i & 1);", "__syncthreads();"))[0])
    _, C, want = batched(
        kind, twin(BATCHED, "tma3(b, &B, &bar, k, 0, blockIdx.y)", "tma3(b, &B, &bar, k, 0, 0)")
    )
    assert not np.array_equal(C, want)


# exp(Q K^T) stays in registers as A of the second product; the result leaves by stmatrix and a TMA
# store.
ATTENTION = "#include <cuda_fp16.h>\n" + HEAD + mma("mma_qk", 16, *F16, count=8) + mma(
    "mma_pv", 16, "k16.f32.f16.f16", "f", ", 1, 1, 1", count=8, a="regs") + ENTRY + """(128)
k(const __grid_constant__ Map Q, const __grid_constant__ Map K, const __grid_constant__ Map V,
  const __grid_constant__ Map O, int keys)
{
    __shared__ __align__(1024) unsigned char q[64 * 32], key[16 * 32], v[16 * 32], o[64 * 32];
    __shared__ u64 bar;
    if (threadIdx.x == 0) {
        bar_init(&bar, 1);
        bars_ready();
        bar_tx(&bar, sizeof q);
        tma2(q, &Q, &bar, 0, 0);
    }
    __syncthreads();
    bar_wait(&bar, 0);
    float sum[8] = {}, most[2] = {-1e30f, -1e30f}, total[2] = {};
    for (int j = 0, phase = 1; j < keys; j += 16, phase ^= 1) {
        if (threadIdx.x == 0) {
            bar_tx(&bar, sizeof key + sizeof v);
            tma2(key, &K, &bar, 0, j);
            tma2(v, &V, &bar, 0, j);
        }
        bar_wait(&bar, phase);
        float s[8];
        mma_begin();
        mma_qk(s, tile_at(q, 16, 256, 3), tile_at(key, 16, 256, 3), 0);
        mma_end();
        for (int h = 0; h < 2; ++h) {
            float top = most[h];
            for (int i = 0; i < 8; ++i) if (i / 2 % 2 == h) top = fmaxf(top, s[i]);
            for (int x = 1; x < 4; x *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, x));
            const float shrink = __expf(most[h] - top);
            total[h] *= shrink;
            for (int i = 0; i < 8; ++i) if (i / 2 % 2 == h) {
                sum[i] *= shrink;
                s[i] = __expf(s[i] - top);
                total[h] += s[i];
            }
            most[h] = top;
        }
        unsigned p[4];
        for (int i = 0; i < 4; ++i) {
            const __half2 two = __floats2half2_rn(s[2 * i], s[2 * i + 1]);
            p[i] = *reinterpret_cast<const unsigned*>(&two);
        }
        mma_begin();
        mma_pv(sum, p, tile_at(v, 512, 256, 3), 1);
        mma_end();
        __syncthreads();
    }
    for (int h = 0; h < 2; ++h)
        for (int x = 1; x < 4; x *= 2) total[h] += __shfl_xor_sync(~0u, total[h], x);
    unsigned r[4];
    for (int i = 0; i < 4; ++i) {
        const __half2 two = __floats2half2_rn(sum[2 * i] / total[i % 2], sum[2 * i + 1] / total[i % 2]);
        r[i] = *reinterpret_cast<const unsigned*>(&two);
    }
    const int lane = threadIdx.x % 32;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
        :: "r"(SMEM(o) + (threadIdx.x / 32 * 16 + lane % 16) * 32 + lane / 16 * 16),
           "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
            :: "l"(&O), "r"(SMEM(o)), "r"(0), "r"(0) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}
"""  # fmt: skip


def attention(source: str) -> tuple[Report, np.ndarray, np.ndarray]:
    Q, K, V = (RNG.standard_normal((n, 16)).astype("f2") for n in (64, 48, 48))
    out = np.zeros((64, 16), "f2")
    maps = [
        TensorMap(x, (n, 16), s)
        for x, n, s in ((Q, 64, 32), (K, 16, 32), (V, 16, 32), (out, 64, 0))
    ]
    report = run(source, 1, 128, [*maps, 48], 0)
    P = np.exp(Q.astype("f8") @ K.T.astype("f8"))
    return report, out, P / P.sum(axis=1, keepdims=True) @ V.astype("f8")


def test_attention_with_p_in_registers_and_a_tma_store():
    report, out, want = attention(ATTENTION)
    assert report.ok, report
    np.testing.assert_allclose(out, want, atol=4e-3)
    raced(
        attention(
            twin(ATTENTION, 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");', "")
        )[0]
    )
    _, out, want = attention(twin(ATTENTION, "sum[i] *= shrink;", ""))
    assert np.abs(out - want).max() > 0.02, "sums of earlier keys keep the old maximum"


# A cluster shares B: each block fetches half for both; a peer's sums are added through
# map_shared_rank.
CLUSTER = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n" + HEAD + mma(
    "mma_32", 32, *F16, count=16) + ENTRY + """(128) __cluster_dims__(2, 1, 1)
k(const __grid_constant__ Map A, const __grid_constant__ Map B, float* C, float* total)
{
    __shared__ __align__(1024) unsigned char a[64 * 128], b[32 * 128];
    __shared__ u64 bar;
    __shared__ float column[32];
    cg::cluster_group cluster = cg::this_cluster();
    const int rank = cluster.block_rank();
    if (threadIdx.x == 0) { bar_init(&bar, 1); bars_ready(); }
    if (threadIdx.x < 32) column[threadIdx.x] = 0;
    cluster.sync();
    if (threadIdx.x == 0) {
        bar_tx(&bar, sizeof a + sizeof b);
        tma2(a, &A, &bar, 0, blockIdx.x * 64);
        asm volatile(TMA(2) ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
            :: "r"(SMEM(b + rank * 2048)), "l"(&B), "r"(SMEM(&bar)), "r"(0), "r"(rank * 16), "h"((short)3) : "memory");
    }
    bar_wait(&bar, 0);
    float d[16] = {};
    mma_begin();
    for (int k = 0; k < 128; k += 32) mma_32(d, tile_at(a + k, 16, 1024, 1), tile_at(b + k, 16, 1024, 1), 1);
    mma_end();
    for (int j = 0; j < 16; ++j) {
        C[(blockIdx.x * 64 + sum_row(j)) * 32 + sum_col(j)] = d[j];
        atomicAdd(column + sum_col(j), d[j]);
    }
    cluster.sync();  // sums are there
    if (rank == 0 && threadIdx.x < 32) {
        const float* peer = cluster.map_shared_rank(column, 1);
        total[blockIdx.x / 2 * 32 + threadIdx.x] = column[threadIdx.x] + peer[threadIdx.x];
    }
    cluster.sync();  // nobody leaves before
}
"""  # fmt: skip


def cluster(source: str) -> tuple[Report, np.ndarray, np.ndarray]:
    A, B, C, total = (
        small(256, 64),
        small(32, 64),
        np.zeros((256, 32), "f4"),
        np.zeros((2, 32), "f4"),
    )
    maps = [TensorMap(A.astype("f2"), (64, 64), 128), TensorMap(B.astype("f2"), (16, 64), 128)]
    report = run(source, 4, 128, [*maps, C, total], 0)
    product = A @ B.T
    want = np.vstack([product, product.reshape(2, 128, 32).sum(axis=1)])
    return report, np.vstack([C, total]), want


def test_a_cluster_shares_b_and_adds_a_peers_sums():
    right(*cluster(CLUSTER))
    raced(cluster(twin(CLUSTER, "cluster.sync();  // sums are there", "__syncthreads();"))[0])
    report, got, want = cluster(twin(CLUSTER, '"h"((short)3)', '"h"((short)(1 << rank))'))
    assert not report.ok and not np.array_equal(got, want), "half of B never comes"
    raced(cluster(twin(CLUSTER, "cluster.sync();  // nobody leaves before", ""))[0])


# The same copies by the wrappers of libcu++.
WRAPPED = "#include <cuda/barrier>\n#include <cuda/ptx>\nnamespace ptx = cuda::ptx;\n" + HEAD + mma(
    "mma_16", 16, *F16, count=8) + ENTRY + """(128)
k(const __grid_constant__ Map A, const __grid_constant__ Map B, float* C)
{
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ __align__(1024) unsigned char a[64 * 32], b[16 * 32];
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    Barrier::arrival_token token;
    if (threadIdx.x == 0) {
        u64* const native = cuda::device::barrier_native_handle(bar);
        const int zero[2] = {0, 0};
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, a, &A, zero, native);
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, b, &B, zero, native);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof a + sizeof b);
    } else {
        token = bar.arrive();
    }
    bar.wait(cuda::std::move(token));
    float d[8] = {};
    mma_begin();
    mma_16(d, tile_at(a, 16, 256, 3), tile_at(b, 16, 256, 3), 1);
    mma_end();
    for (int j = 0; j < 8; ++j) C[sum_row(j) * 16 + sum_col(j)] = d[j];
}
"""  # fmt: skip


def wrapped(source: str) -> tuple[Report, np.ndarray, np.ndarray]:
    A, B, C = small(64, 16), small(16, 16), np.zeros((64, 16), "f4")
    maps = [TensorMap(A.astype("f2"), (64, 16), 32), TensorMap(B.astype("f2"), (16, 16), 32)]
    return run(source, 1, 128, [*maps, C], 0), C, A @ B.T


def test_the_wrappers_of_libcu():
    right(*wrapped(WRAPPED))
    raced(wrapped(twin(WRAPPED, "bar.wait(cuda::std::move(token));", "__syncthreads();"))[0])
