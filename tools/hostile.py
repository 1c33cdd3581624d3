"""Sources that are handed in to be marked: an honest one, careless ones, and ones that cheat or
attack.

tools/exploits.py says what may come of the exploits among them, and what would with one defence
switched off.
"""

from __future__ import annotations

import json
from typing import Any

from tilelabs.labs import lab, rehearsing

HONEST = rehearsing.texts(lab("2"))["a_transposed.cu"]
"""C = A B with A given as its transpose, in tiles of 16: right, clean, coalesced."""


def but(*changes: tuple[str, str]) -> str:
    """The honest source with these changes, each of a text that stands in it once."""
    text = HONEST
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def notebook(*texts: str, outputs: str = "", **metadata: Any) -> bytes:
    """A notebook of these code cells below one of words, each with these outputs."""
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "source": "x"}]
    streams = [{"output_type": "stream", "name": "stdout", "text": outputs}] if outputs else []
    for text in texts:
        source = text.splitlines(keepends=True)
        cells.append(
            {"cell_type": "code", "source": source, "outputs": streams, "metadata": metadata}
        )
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4}).encode()


SAFE_LOADS = (
    ("A_tile[k][ty] * B_tile[k][tx]", "ld(&A_tile[k][ty]) * ld(&B_tile[k][tx])"),
    ("A_tile[ty][tx] = a_row", "const float a = a_row"),
    ("B_tile[ty][tx] = k0", "const float b = k0"),
    ("        __syncthreads();  // complete\n", "        st(&A_tile[ty][tx], a);\n        st(&B_tile[ty][tx], b);\n"),
    ("        __syncthreads();  // read\n", ""),
)  # fmt: skip


def accesses(load: str, store: str) -> str:
    """The functions ld and st, of these bodies."""
    return (
        f"__device__ float ld(float* p) {{ {load} }}\n"
        f"__device__ void st(float* p, float v) {{ {store} }}\n"
    )


ACCESSES = {
    "relaxed": accesses(
        'float v; asm volatile("ld.relaxed.cta.f32 %0, [%1];" : "=f"(v) : "l"(p)); return v;',
        'asm volatile("st.relaxed.cta.f32 [%0], %1;" :: "l"(p), "f"(v));',
    ),
    "atomic": accesses("return atomicAdd(p, 0.0f);", "atomicExch(p, v);"),
    "volatile": accesses("return *(volatile float*)p;", "*(volatile float*)p = v;"),
}
"""Accesses that do not race with each other, to take the place of barriers."""
NO_BARRIER = {name: text + but(*SAFE_LOADS) for name, text in ACCESSES.items()} | {
    "none": but(("        __syncthreads();  // complete\n", ""), ("        __syncthreads();  // read\n", "")),
    "syncwarp": but(("__syncthreads();  // complete", "__syncwarp();"), ("__syncthreads();  // read", "__syncwarp();")),
}  # fmt: skip
"""Right in lock step by luck, and only there."""

STRIDED = but(
    ("const int a_row = blockIdx.y * T + tx;", "const int a_row = blockIdx.y * T + ty;"),
    ("A_tile[ty][tx] = a_row < M && k0 + ty < K ? A[(k0 + ty)", "A_tile[tx][ty] = a_row < M && k0 + tx < K ? A[(k0 + tx)"),
    ("A_tile[k][ty] * B", "A_tile[k][ty] * B"),
)  # fmt: skip
"""Right, and each lane fetches A a row apart."""

DILUTED = STRIDED.replace(
    "        __syncthreads();  // complete",
    "        float d = 0.0f;\n        for (int i = 0; i < 12; ++i) d += B[i * 0 + (k0 < K ? 0 : 1)]"
    " * 0.0f; A_tile[tx][ty] += d;\n        __syncthreads();  // complete",
)
"""The same with broadcasts that make the average request look good."""

WRONG = {
    "edge": but(("col < N ? B[", "col < N + 0 && col % 61 != 60 ? B[")),
    "destroys A": but(
        ("    if (row < M && col < N) C", "    __syncthreads();\n    if (row < M && col < N) const_cast<float*>(A)[0] = 9.0f;\n    if (row < M && col < N) C")
    ),
    "reads C": but(("C[row * N + col] = sum", "C[row * N + col] += sum")),
    "short indices": but(("const int row = blockIdx.y * T + ty, col", "const short row = blockIdx.y * T + ty, col"),
                         ("C[row * N + col] = sum", "C[short(row * N + col)] = sum")),
    "K at most 48": but(("k0 < K; k0 += T", "k0 < min(K, 48); k0 += T")),
    "whole numbers": but(("float sum = 0.0f", "int sum = 0"), ("sum += A_tile", "sum += int(A_tile"), ("B_tile[k][tx];", "B_tile[k][tx]);")),
    "a sign for a product": but(("sum += A_tile[k][ty] * B_tile[k][tx]", "sum += B_tile[k][tx] > 0 ? A_tile[k][ty] : B_tile[k][tx] < 0 ? -A_tile[k][ty] : 0.0f")),
    "a table of known shapes": but(("    float sum = 0.0f;", "    if (!(M == 33 && N == 17 && K == 5 || M == 16 && N == 48 && K == 32)) return;\n    float sum = 0.0f;")),
    "half precision": but(("A_tile[ty][tx] = a_row < M && k0 + ty < K ? A[(k0 + ty) * M + a_row]",
                           "A_tile[ty][tx] = a_row < M && k0 + ty < K ? __half2float(__float2half(A[(k0 + ty) * M + a_row]))")).replace('extern "C"', '#include <cuda_fp16.h>\nextern "C"'),
    "nothing": but(("C[row * N + col] = sum;", ";")),
}  # fmt: skip
"""Wrong for some shapes or numbers, most of them on purpose."""

HEADS = {
    "float M": (but(("int M,", "float rows,"), ("const int T = 16;", "const int T = 16, M = int(rows);")), "parameter 4 of lab2 is 'float rows'"),
    "long long M": (but(("int M,", "long long M,")), "parameter 4 of lab2 is 'long long M'"),
    "double*": (but(("const float* B,", "const double* B,")), "parameter 2 of lab2 is 'const double* B'"),
    "fewer": (but((", int K)", ")"), ("    const int T = 16;", "    const int T = 16, K = M;")), "5 parameters"),
    "more": (but(("int K)", "int K, int q)")), "7 parameters"),
    "renamed": (but(("lab2(", "mine(")), "no kernel called lab2"),
    "no extern C": (but(('extern "C" ', "")), 'lab2 is not extern "C"'),
    "static": (but(('extern "C" __global__', "static __global__")), "lab2"),
    "no kernel": ("int x = 3;\n", "no kernel called lab2"),
}  # fmt: skip
"""Kernels with another head, and words of what is said."""

SECRET = "canary-7c1f"
READS = {
    "the environment": '#include "/proc/self/environ"\n' + HONEST,
    "as data": 'const char s[] = {\n#include "FILE"\n};\n' + HONEST,
    "stringified": (
        '#define S(...) #__VA_ARGS__\nconst char* s = S(\n#include "FILE"\n);\n' + HONEST
    ),
    "the book's own kernel": '#define tiled lab2\n#include "06_tiled.cu"\n',
    "a file beside it": '#include "solution.cu"\n' + HONEST,
}
"""Sources that read what they should not; FILE stands for a file with a secret."""

BOMBS = {
    "templates": "template <int N, int M> struct T { static const int v = T<N - 1, M>::v + T<N - 1, M + 1>::v; };\n"
    "template <int M> struct T<0, M> { static const int v = M; };\n"
    + but(("const int T = 16;", "const int T = 16; if (T<800, 0>::v == 1) return;")).replace("const int T = 16; if (T<", "if (::T<", 1).replace("return;\n", "return;\n    const int T = 16;\n", 1),
    "macros": "#define a0 x + x\n" + "".join(f"#define a{i} a{i - 1} + a{i - 1}\n" for i in range(1, 28))
    + but(("    float sum = 0.0f;", "    int x = K; if (a27 == 1) return;\n    float sum = 0.0f;")),
    "parentheses": but(("    float sum = 0.0f;", "    float sum = " + "(" * 100_000 + "0.0f" + ")" * 100_000 + ";")),
    "endless": but(("k0 += T", "k0 += 0")),
    "printf": but(("    float sum = 0.0f;", '    printf("%2000000000d", K);\n    float sum = 0.0f;')),
}  # fmt: skip
"""Sources that would take all memory, all time, or the process with them."""
