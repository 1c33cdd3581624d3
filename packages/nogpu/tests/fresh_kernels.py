"""Small kernels over what CUDA C++ offers, and the y that each should leave of x, 256 int32 of which
none lies below 0. i is a thread's number in the launch, t that in its block of 64.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
X = ((np.arange(256, dtype=np.int64) * 7919 + 13) % 1009).astype(np.int32)
BLOCKS = X.reshape(4, 64).astype(np.int64)
WARPS = X.reshape(8, 32).astype(np.int64)


@dataclass(frozen=True)
class Fresh:
    """code: the body of `k(const int* x, T* y, int n)`, after what stands before a line of dashes.

    kind: of y, in C++ and in NumPy. options: of the launch.
    """

    code: str
    want: Callable[[], Any]
    kind: tuple[str, str] = ("int", "i4")
    options: dict[str, Any] | None = None

    @property
    def source(self):
        """The whole text."""
        before, _, body = self.code.rpartition("\n----\n")
        return (
            f'{before}\nextern "C" __global__ void k(const int* x, {self.kind[0]}* y, int n)\n{{\n'
            "    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;\n"
            f"{body}\n}}\n"
        )


FLOAT, UINT = ("float", "f4"), ("unsigned", "u4")
HALF = ("__half", "f2")
HOPPER = {"arch": "sm_90"}


def fibonacci(n):
    """The numbers of Fibonacci, 0 first."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def iterated(c, times):
    """z z + c, again and again from 0."""
    z = np.zeros_like(c)
    for _ in range(times):
        z = z * z + c
    return z


KERNELS: dict[str, Fresh] = {
    # -- loops, calls, memory of a thread
    "recursion": Fresh(
        "__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n"
        "----\ny[i] = fib(x[i] % 12);",
        lambda: [fibonacci(int(v) % 12) for v in X],
    ),
    "union": Fresh(
        "union Bits { float f; unsigned u; };\n----\nBits b; b.f = float(x[i]); y[i] = b.u;",
        lambda: X.astype("f4").view("u4"),
        UINT,
    ),
    "bit fields": Fresh(
        "struct Packed { unsigned a : 5, b : 11, c : 16; };\n"
        "----\nPacked p; p.a = x[i]; p.b = x[i] * 3; p.c = i;\ny[i] = p.a + 100 * p.b + 7 * p.c;",
        lambda: X % 32 + 100 * (X * 3 % 2048) + 7 * np.arange(256),
    ),
    "local array": Fresh(
        "int a[8] = {};\nfor (int j = 0; j < 20; ++j) a[(x[i] + j * j) % 8] += j;\ny[i] = a[i % 8];",
        lambda: [
            np.bincount([(v + j * j) % 8 for j in range(20)], range(20), 8)[i % 8]
            for i, v in enumerate(X)
        ],
    ),
    "switch": Fresh(
        "switch (x[i] % 7) { case 0: y[i] = 5; break; case 1: case 2: y[i] = i; break;\n"
        "case 3: y[i] = -1; case 4: y[i] = 8; break; case 6: y[i] = x[i]; break; default: y[i] = 0; }",
        lambda: np.choose(X % 7, [5, np.arange(256), np.arange(256), 8, 8, 0, X]),
    ),
    "goto": Fresh(
        "int v = x[i], c = 0;\nagain: if (v) { v &= v - 1; ++c; goto again; }\ny[i] = c;",
        lambda: [int(v).bit_count() for v in X],
    ),
    "malloc": Fresh(
        "int* p = (int*)malloc(3 * sizeof(int));\np[0] = x[i]; p[1] = i; p[2] = 4;\n"
        "y[i] = p[0] + p[1] * p[2]; free(p);",
        lambda: X + 4 * np.arange(256),
    ),
    "new": Fresh(
        "struct Node { int v; Node* next; };\n----\nNode* head = nullptr;\n"
        "for (int j = 0; j < 4; ++j) head = new Node{x[i] + j, head};\nint s = 0;\n"
        "while (head) { s = 10 * s + head->v % 10; Node* h = head; head = head->next; delete h; }\n"
        "y[i] = s;",
        lambda: sum((X + j) % 10 * 10**j for j in range(4)),
    ),
    # -- shared memory
    "Blelloch's scan": Fresh(
        "__shared__ int s[64];\ns[t] = x[i]; __syncthreads();\n"
        "for (int d = 1; d < 64; d *= 2) {\n    int j = (t + 1) * 2 * d - 1;\n"
        "    if (j < 64) s[j] += s[j - d];\n    __syncthreads();\n}\n"
        "if (t == 0) s[63] = 0;\n__syncthreads();\n"
        "for (int d = 32; d; d /= 2) {\n    int j = (t + 1) * 2 * d - 1;\n"
        "    if (j < 64) { int v = s[j - d]; s[j - d] = s[j]; s[j] += v; }\n    __syncthreads();\n}\n"
        "y[i] = s[t];",
        lambda: (BLOCKS.cumsum(1) - BLOCKS).reshape(-1),
    ),
    "bitonic sort": Fresh(
        "__shared__ int s[64];\ns[t] = x[i]; __syncthreads();\n"
        "for (int k = 2; k <= 64; k *= 2) for (int j = k / 2; j; j /= 2) {\n    int o = t ^ j;\n"
        "    if (o > t && (s[t] > s[o]) == ((t & k) == 0)) { int v = s[t]; s[t] = s[o]; s[o] = v; }\n"
        "    __syncthreads();\n}\ny[i] = s[t];",
        lambda: np.sort(BLOCKS, axis=1).reshape(-1),
    ),
    "dynamic shared memory": Fresh(
        "extern __shared__ int room[];\n----\nint* a = room; short* b = (short*)(room + 64);\n"
        "a[t] = x[i]; b[t] = t; __syncthreads(); y[i] = a[63 - t] + b[(t + 1) % 64];",
        lambda: (BLOCKS[:, ::-1] + (np.arange(64) + 1) % 64).reshape(-1),
        options={"shared_bytes": 384},
    ),
    # -- warps
    "lanes that diverge": Fresh(
        "int v = 0;\nif (x[i] & 1) { unsigned m = __activemask(); v = __popc(m); } else v = -1;\n__syncwarp();\n"
        "y[i] = v == -1 ? 0 : 1;",
        lambda: X % 2,
    ),
    "compaction": Fresh(
        "bool keep = x[i] % 4 == 1; unsigned b = __ballot_sync(~0u, keep);\ny[i] = -1; __syncwarp();\n"
        "if (keep) y[i - t % 32 + __popc(b & ((1u << t % 32) - 1))] = x[i];",
        lambda: [v for w in WARPS for v in ([u for u in w if u % 4 == 1] + [-1] * 32)[:32]],
    ),
    # -- atomics, and who waits for whom
    "volatile flag": Fresh(
        "__shared__ volatile int flag; __shared__ int v;\nif (t == 0) flag = 0;\n__syncthreads();\n"
        "if (t == 32) { v = x[i]; __threadfence_block(); flag = 1; }\n"
        "if (t == 0) { while (!flag) ; __threadfence_block(); y[blockIdx.x] = v; }",
        lambda: [*BLOCKS[:, 32], *[0] * 252],
    ),
    # -- Hopper
    "bulk copy": Fresh(
        "#include <cuda/barrier>\n#include <cuda/ptx>\nnamespace ptx = cuda::ptx;\n----\n"
        "__shared__ alignas(16) int s[64]; __shared__ cuda::barrier<cuda::thread_scope_block> b;\n"
        "if (t == 0) { init(&b, 64); ptx::fence_proxy_async(ptx::space_shared); }\n__syncthreads();\n"
        "cuda::barrier<cuda::thread_scope_block>::arrival_token k;\n"
        "if (t == 0) { cuda::device::memcpy_async_tx(s, x + i, cuda::aligned_size_t<16>(256), b); k = cuda::device::barrier_arrive_tx(b, 1, 256); }\n"
        "else k = b.arrive();\nb.wait(std::move(k));\ny[i] = s[63 - t];",
        lambda: BLOCKS[:, ::-1].reshape(-1),
        options=HOPPER,
    ),
    # -- what people write
    "decoupled look-back": Fresh(
        "__device__ volatile int state[4], sums[4];\n----\n__shared__ int s[64], before;\n"
        "s[t] = x[i]; __syncthreads();\n"
        "for (int d = 1; d < 64; d *= 2) { int v = t >= d ? s[t - d] : 0; __syncthreads(); s[t] += v; __syncthreads(); }\n"
        "if (t == 0) {\n    int b = blockIdx.x, v = 0;\n"
        "    if (b) { while (!state[b - 1]) ; __threadfence(); v = sums[b - 1]; }\n"
        "    sums[b] = v + s[63]; __threadfence(); state[b] = 1; before = v;\n}\n__syncthreads();\ny[i] = before + s[t];",
        lambda: X.cumsum(),
    ),
    "radix sort": Fresh(
        "__shared__ int s[64], o[64], zeros;\ns[t] = x[i]; __syncthreads();\nfor (int b = 0; b < 10; ++b) {\n"
        "    int bit = s[t] >> b & 1; unsigned m = __ballot_sync(~0u, !bit);\n    __shared__ int w[2];\n"
        "    if (t % 32 == 0) w[t / 32] = __popc(m);\n    __syncthreads();\n"
        "    int r = __popc(m & ((1u << t % 32) - 1)) + (t / 32 ? w[0] : 0);\n    if (t == 0) zeros = w[0] + w[1];\n    __syncthreads();\n"
        "    o[bit ? zeros + t - r : r] = s[t]; __syncthreads(); s[t] = o[t]; __syncthreads();\n}\ny[i] = s[t];",
        lambda: np.sort(BLOCKS, axis=1).reshape(-1),
    ),
    "softmax": Fresh(
        "__shared__ float s[64];\nfloat v = x[i] * 0.01f; s[t] = v; __syncthreads();\nfloat m = -3.4e38f;\n"
        "for (int j = 0; j < 64; ++j) m = fmaxf(m, s[j]);\n__syncthreads(); s[t] = expf(v - m); __syncthreads();\n"
        "float sum = 0; for (int j = 0; j < 64; ++j) sum += s[j];\ny[i] = s[t] / sum;",
        lambda: (
            (e := np.exp(BLOCKS * 0.01 - (BLOCKS * 0.01).max(1, keepdims=True)))
            / e.sum(1, keepdims=True)
        ).reshape(-1),
        FLOAT,
    ),
    "warp-aggregated atomic": Fresh(
        "__device__ int count = 0;\n----\nif (x[i] % 2) {\n    unsigned m = __activemask(); int first = __ffs(m) - 1, base;\n"
        "    if (t % 32 == first) base = atomicAdd(&count, __popc(m));\n    base = __shfl_sync(m, base, first);\n"
        "    y[base + __popc(m & ((1u << t % 32) - 1))] = 1;\n}",
        lambda: np.arange(256) < (X % 2).sum(),
    ),
    "early exit and a mask": Fresh(
        "if (t % 32 >= 20) { y[i] = -3; return; }\nint v = x[i];\n"
        "for (int d = 1; d < 20; d *= 2) { int o = __shfl_up_sync(0xFFFFF, v, d); if (t % 32 >= d) v += o; }\ny[i] = v;",
        lambda: np.where(np.arange(32) < 20, WARPS.cumsum(1), -3).reshape(-1),
    ),
    "half of a warp": Fresh(
        "__shared__ int s[64];\ns[t] = x[i];\nif (t % 32 < 16) { __syncwarp(0xFFFF); y[i] = s[t ^ 15]; }\n"
        "else { __syncwarp(0xFFFF0000); y[i] = s[t ^ 1]; }",
        lambda: np.where(
            np.arange(64) % 32 < 16, BLOCKS[:, np.arange(64) ^ 15], BLOCKS[:, np.arange(64) ^ 1]
        ).reshape(-1),
    ),
    "checksum": Fresh(
        "unsigned c = ~0u;\nfor (int b = 0; b < 4; ++b) { c ^= x[i] >> 8 * b & 255; for (int j = 0; j < 8; ++j) c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0); }\n"
        "y[i] = ~c;",
        lambda: [zlib.crc32(int(v).to_bytes(4, "little")) for v in X],
        UINT,
    ),
    "structure by value": Fresh(
        "struct Pair { int a; short b; double c; };\n__device__ __noinline__ Pair swap(Pair p) { return {p.b, short(p.a), p.c * 2}; }\n"
        "----\nPair p = swap(Pair{x[i], short(i), 1.5}); y[i] = p.a * 10000 + p.b + int(p.c);",
        lambda: np.arange(256) * 10000 + X + 3,
    ),
    "sums of halves by atomics": Fresh(
        "#include <cuda_fp16.h>\n----\natomicAdd(&y[x[i] % 16], __int2half_rn(x[i] % 3));",
        lambda: np.r_[np.bincount(X % 16, X % 3, 16), np.zeros(240)],
        HALF,
    ),
    "atomics of a block": Fresh(
        "atomicAdd_block(&y[blockIdx.x], x[i]); atomicSub(&y[100], 1); atomicMin(&y[101], -x[i]);",
        lambda: [*BLOCKS.sum(1), *[0] * 96, -256, -X.max(), *[0] * 154],
    ),
    "types of the standard library": Fresh(
        "#include <cuda/std/array>\n#include <cuda/std/tuple>\n#include <cuda/std/optional>\n----\n"
        "cuda::std::array<int, 3> a = {x[i], i, 3}; cuda::std::optional<int> o;\nif (x[i] % 2) o = a[0] * 2;\n"
        "auto [p, q] = cuda::std::make_tuple(a[1], o.value_or(-1)); y[i] = p * 5 + q + a.size();",
        lambda: np.arange(256) * 5 + np.where(X % 2, 2 * X, -1) + 3,
    ),
    "complex numbers": Fresh(
        "#include <cuda/std/complex>\n----\ncuda::std::complex<float> z(0, 0), c(x[i] % 5 * 0.25f - 1, x[i] % 7 * 0.125f);\n"
        "for (int j = 0; j < 4; ++j) z = z * z + c;\ny[i] = z.real() - 2 * z.imag();",
        lambda: (z := iterated(X % 5 * 0.25 - 1 + 1j * (X % 7) * 0.125, 4)).real - 2 * z.imag,
        FLOAT,
    ),
}
