"""C = A B in cuTile: one block a tile of C, loads and stores of whole tiles by their index.

A is M x K, B is K x N, C is M x N, row-major, of bfloat16; sums are FP32. Any M; N and K are
multiples of 8, which the compiler is told, so that it may take TMA.
"""

import cuda.tile as ct

BM, BN, BK = 128, 128, 64


@ct.kernel
def matmul(A, B, C):
    row, col = ct.bid(1), ct.bid(0)
    total = ct.full((BM, BN), 0, ct.float32)
    for k in range(ct.num_tiles(A, axis=1, shape=(BM, BK))):
        a = ct.load(A, index=(row, k), shape=(BM, BK), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(B, index=(k, col), shape=(BK, BN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(a, b, total)
    ct.store(C, index=(row, col), tile=ct.astype(total, C.dtype))


def built():
    """What a launch has to know, and the PTX that lies beside the machine code of the cubin, as
    text for debuggers: cuTile gives machine code only."""
    import io

    from cuda.tile import compilation as made

    matrix = made.ArrayConstraint(
        ct.bfloat16, 2, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=(),
        may_alias_internally=False, stride_constant=(None, 1), stride_divisible_by=(8, 1),
        base_addr_divisible_by=16)  # fmt: skip
    as_python = made.CallingConvention.cutile_python_v1()
    kind = made.KernelSignature([matrix] * 3, as_python, symbol="matmul")
    cubin = io.BytesIO()
    made.export_kernel(matmul, [kind], cubin, gpu_code="sm_90", output_format="cubin")
    text = cubin.getvalue()
    start = text.index(b".version ")
    ptx = text[start : text.index(b".nv_intermediate_source_section", start)]
    arrays = ["A", *"MKK", "one", "B", *"KNN", "one", "C", *"MNN", "one"]
    return {
        "version": ct.__version__,
        "ptx": ptx.replace(b"\0", b"\n").decode(),
        "block": 256,
        "args": [*arrays, "A_map", "B_map", "C_map"],
    }
