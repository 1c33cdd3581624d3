"""C = A B in Triton: one program a tile of C, written with pointers and masks.

A is M x K, B is K x N, C is M x N, row-major, of bfloat16; sums are FP32. Any M; N and K are
multiples of 8, which the compiler is told, so that copies are 16 bytes wide.
"""

import triton
import triton.language as tl


@triton.jit
def matmul(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(1) * BM + tl.arange(0, BM)
    col = tl.program_id(0) * BN + tl.arange(0, BN)
    in_m, in_n = (row < M)[:, None], (col < N)[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        a = tl.load(A + row[:, None] * K + k[None, :], mask=in_m & (k < K)[None, :], other=0.0)
        b = tl.load(B + k[:, None] * N + col[None, :], mask=(k < K)[:, None] & in_n, other=0.0)
        total = tl.dot(a, b, total)
    tl.store(C + row[:, None] * N + col[None, :], total.to(tl.bfloat16), mask=in_m & in_n)


def built():
    """PTX for an H100, and what a launch has to know; without a GPU."""
    from triton.backends.compiler import GPUTarget

    kinds = dict.fromkeys("ABC", "*bf16") | dict.fromkeys("MNK", "i32")
    tile = {"BM": 128, "BN": 128, "BK": 64}
    wide = {(i,): [["tt.divisibility", 16 if i < 3 else 8]] for i in (0, 1, 2, 4, 5)}
    source = triton.compiler.ASTSource(
        matmul, kinds | dict.fromkeys(tile, "constexpr"), constexprs=tile, attrs=wide
    )
    done = triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 3}
    )
    return {
        "version": triton.__version__,
        "ptx": done.asm["ptx"],
        "block": 128,
        "shared": done.metadata.shared,
        "args": [*"ABCMNK", "null", "null"],
    }
