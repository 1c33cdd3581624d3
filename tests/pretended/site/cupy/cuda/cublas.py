"""cuBLAS's product, by NumPy."""

from __future__ import annotations

import ctypes

import numpy as np

from tests.pretended import machines, products

CUBLAS_OP_N = 0
_OF_CODE = {0: np.float32, 1: np.float64, 2: np.float16, 14: np.uint16}
_TYPES = {code: np.dtype(kind) for code, kind in _OF_CODE.items()}


class CUBLASError(RuntimeError):
    def __init__(self, status):
        self.status = status
        super().__init__("CUBLAS_STATUS_NOT_SUPPORTED")


def create():
    return 1


def getVersion(_):
    return 120804


def _matrix(address, rows, cols, kind):
    dtype = _TYPES[kind]
    memory = (ctypes.c_char * (rows * cols * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype).reshape(rows, cols)


def gemmEx(
    handle, ta, tb, m, n, k, alpha, A, a_type, lda,
    B, b_type, ldb, beta, C, c_type, ldc, compute, algo,
):  # fmt: skip
    """C^T = B^T A^T as cuBLAS sees it: here the row-major product (n, k) by (k, m)."""
    from cupy import cuda

    if (ta, tb) != (CUBLAS_OP_N, CUBLAS_OP_N) or (lda, ldb, ldc) != (m, k, m):
        raise CUBLASError(15)
    if machines.here().properties["major"] < 8 and (14 in (a_type, b_type) or compute in (75, 77)):
        raise CUBLASError(15)
    left, right = _matrix(B, n, k, b_type), _matrix(A, k, m, a_type)
    products.multiply(left, right, _matrix(C, n, m, c_type), bfloat16=a_type == 14)
    cuda.get_current_stream()._work(
        cuda._seconds(f"cublas {compute}", n, m, k, str(_TYPES[a_type]), library=True)
    )
