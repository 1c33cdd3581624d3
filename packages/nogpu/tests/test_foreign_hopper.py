"""Hopper kernels in styles that the book does not use, unmodified, each beside one with a fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from foreign_kernels import cuda
from test_emulator_warpgroups import fp8, mma

from nogpu import emulator
from nogpu.emulator import TensorMap

RNG = np.random.default_rng(5)

HEAD = cuda("hopper/head")
F16 = "k16.f32.f16.f16", "f", ", 1, 1, 0, 0"


def run(source, grid, threads, args, shared, **options):
    return emulator.launch(source, "k", grid, threads, args, shared, arch="sm_90a", **options)


def small(*shape):
    """Whole numbers that each type of element holds, and whose products sum without rounding."""
    return RNG.integers(-2, 3, shape).astype("f4")


def twin(source, old, new):
    """The kernel with one fault."""
    assert source.count(old) == 1, (source.count(old), old)
    return source.replace(old, new)


def right(report, got, want):
    assert report.ok, report
    np.testing.assert_array_equal(got, want)


def raced(report):
    assert "race" in {f.kind for f in report.findings}, report


# Two consumers take turns, and each meets at a barrier whose number comes from the warpgroup; rows
# of 64 bytes,
# B by columns.
PING_PONG = HEAD + mma("mma_32", 32, *F16, count=16) + cuda("hopper/ping_pong")


def ping_pong(source):
    A, B = small(128, 96), small(128, 96)
    C = np.zeros((128, 128), "f4")
    maps = [TensorMap(A.astype("f2"), (64, 32), 64), TensorMap(B.astype("f2"), (32, 32), 64)]
    return run(source, 2, 384, [*maps, C, 96, 128, 2], 4 * 6144), C, A @ B.T


def test_ping_pong_and_barriers_by_the_number_of_the_warpgroup():
    right(*ping_pong(PING_PONG))
    raced(ping_pong(twin(PING_PONG, "bar_wait(&turn[c], round & 1);", ""))[0])
    raced(ping_pong(twin(PING_PONG, '"bar.sync %0, 128;" :: "r"(3 + c)', '"" :: "r"(3 + c)'))[0])


# Slices of K add with atomics; columns of 16 bytes with no swizzle; one lane of a warp is elected.
SPLIT_K = HEAD + mma("mma_16", 16, *F16, count=8) + cuda("hopper/split_k")


def split_k(source):
    A, B, C = small(64, 96), small(16, 96), np.zeros((64, 16), "f4")
    maps = [TensorMap(A.astype("f2"), (64, 8)), TensorMap(B.astype("f2"), (16, 8))]
    return run(source, (1, 1, 3), 128, [*maps, C, 32], 0), C, A @ B.T


def test_split_k_with_atomics_and_no_swizzle():
    right(*split_k(SPLIT_K))
    plain = "C[sum_row(j) * 16 + sum_col(j)] += d[j]"
    racy = twin(SPLIT_K, "atomicAdd(C + sum_row(j) * 16 + sum_col(j), d[j])", plain)
    raced(split_k(racy)[0])


# Weights of 8 bits become halves in registers; scales come as one plain row; rows of 32 bytes.
WEIGHTS = (
    "#include <cuda_fp16.h>\n"
    + HEAD
    + mma("mma_rs", 16, "k16.f32.f16.f16", "f", ", 1, 1, 0", count=8, a="regs")
    + cuda("hopper/weights")
)


def weights(source):
    W, X, Y = small(64, 48), small(16, 48), np.zeros((64, 16), "f4")
    scale = 2.0 ** RNG.integers(-3, 4, 64).astype("f4")
    given = [W.astype("i1"), TensorMap(X.astype("f2"), (16, 16), 32), scale, Y, 48]
    return run(source, 1, 128, given, 0), Y, W @ X.T * scale[:, None]


def test_weights_converted_in_registers_and_a_row_of_scales():
    right(*weights(WEIGHTS))
    raced(weights(twin(WEIGHTS, "bar_wait(&rows, 0);", "__syncthreads();"))[0])
    turned = "+ i / 2 * 8) * K + k + col + i % 2 * 8"
    _, Y, want = weights(twin(WEIGHTS, "+ i % 2 * 8) * K + k + col + i / 2 * 8", turned))
    assert not np.array_equal(Y, want), "registers 1 and 2 of A in each other's place"


# Batches by a map of three axes; elements of 8 bits, or TF32: 32 bytes of k an instruction.
BATCHED = cuda("hopper/batched")
E4M3 = {fp8(i, "e4m3"): i for i in range(256)}
KINDS: dict[str, tuple[str, str, str, int, Any]] = {
    "e4m3": ("k32.f32.e4m3.e4m3", ", 1, 1", "float", 1, np.vectorize(E4M3.get, otypes=["u1"])),
    "tf32": ("k8.f32.tf32.tf32", ", 1, 1", "float", 4, lambda x: x),
    "s8": ("k32.s32.s8.s8", "", "int", 1, lambda x: x.astype("i1")),
}


def batched(kind, source):
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


def test_matrices_that_begin_inside_the_pattern_of_their_swizzle():
    """The pattern follows the address, of a box as of a product; a row with no box is another's."""
    plain = "unsigned char a[64 * 32], b[16 * 32];"
    part = "struct { unsigned char pad[128], a[64 * 32], b[16 * 32]; } s; auto &a = s.a; auto &b = s.b;"
    report, C, want = batched("s8", twin(BATCHED, plain, part))
    right(report, C, want)
    assert any("matrix A begins in row 1 of the pattern" in note for note in report.notes)
    report, C, _ = batched("s8", twin(BATCHED, "tile_at(a,", "tile_at(a + 128,"))
    assert {f.kind for f in report.findings} == {"misaligned"} and not np.array_equal(C, want)
    assert "in a row where no box began" in str(report)


# exp(Q K^T) stays in registers as A of the second product; the result leaves by stmatrix and a TMA
# store.
ATTENTION = (
    "#include <cuda_fp16.h>\n"
    + HEAD
    + mma("mma_qk", 16, *F16, count=8)
    + mma("mma_pv", 16, "k16.f32.f16.f16", "f", ", 1, 1, 1", count=8, a="regs")
    + cuda("hopper/attention")
)


def attention(source):
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
    fence = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
    raced(attention(twin(ATTENTION, fence, ""))[0])
    _, out, want = attention(twin(ATTENTION, "sum[i] *= shrink;", ""))
    assert np.abs(out - want).max() > 0.02, "sums of earlier keys keep the old maximum"


# A cluster shares B: each block fetches half for both; a peer's sums are added through
# map_shared_rank.
CLUSTER = (
    "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
    + HEAD
    + mma("mma_32", 32, *F16, count=16)
    + cuda("hopper/cluster")
)


def cluster(source):
    A, B = small(256, 64), small(32, 64)
    C, total = np.zeros((256, 32), "f4"), np.zeros((2, 32), "f4")
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
WRAPPED = (
    "#include <cuda/barrier>\n#include <cuda/ptx>\nnamespace ptx = cuda::ptx;\n"
    + HEAD
    + mma("mma_16", 16, *F16, count=8)
    + cuda("hopper/wrapped")
)


def wrapped(source):
    A, B, C = small(64, 16), small(16, 16), np.zeros((64, 16), "f4")
    maps = [TensorMap(A.astype("f2"), (64, 16), 32), TensorMap(B.astype("f2"), (16, 16), 32)]
    return run(source, 1, 128, [*maps, C], 0), C, A @ B.T


def test_the_wrappers_of_libcu():
    right(*wrapped(WRAPPED))
    raced(wrapped(twin(WRAPPED, "bar.wait(cuda::std::move(token));", "__syncthreads();"))[0])
