"""C = A B in TileLang: one block a tile of C, its buffers named and placed.

A is M x K, B is K x N, C is M x N, row-major, of bfloat16; sums are FP32. Any M; N and K are
multiples of 8, since the compiler takes TMA, whose rows start at 16 bytes.
"""

import tilelang
import tilelang.language as T

BM, BN, BK, BF16 = 128, 128, 64, "bfloat16"
M, N, K = (T.dynamic(name) for name in "MNK")


@T.prim_func
def matmul(A: T.Tensor((M, K), BF16), B: T.Tensor((K, N), BF16), C: T.Tensor((M, N), BF16)):
    with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (col, row):
        a_tile = T.alloc_shared((BM, BK), BF16)
        b_tile = T.alloc_shared((BK, BN), BF16)
        total = T.alloc_fragment((BM, BN), "float32")
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(K, BK), num_stages=3):
            T.copy(A[row * BM, k * BK], a_tile)
            T.copy(B[k * BK, col * BN], b_tile)
            T.gemm(a_tile, b_tile, total)
        T.copy(total, C[row * BM, col * BN])


def built():
    """PTX for an H100 (nvcc makes it of the C++ that TileLang writes), and what a launch needs."""
    import subprocess
    import tempfile
    from pathlib import Path

    target = tilelang.tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
    with target, tempfile.TemporaryDirectory() as folder:
        source = tilelang.lower(matmul, target=target).kernel_source
        home, file = Path(tilelang.__file__).parent, Path(folder, "matmul.cu")
        file.write_text(source)
        subprocess.run(
            ["nvcc", "-ptx", "-std=c++17", "-arch=sm_90a", "-lineinfo", f"-I{home / 'src'}",
             f"-I{home / '3rdparty' / 'cutlass' / 'include'}", str(file), "-o", f"{file}.ptx"],
            check=True, capture_output=True)  # fmt: skip
        ptx = Path(f"{file}.ptx").read_text()
    return {
        "version": tilelang.__version__,
        "ptx": ptx,
        "block": 256,
        "shared": 98304,
        "args": ["A_map", "B_map", *"CKMN"],
    }
