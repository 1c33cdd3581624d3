"""What a matrix's elements are: stored, rounded and filled how, and how far a sum may err."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from helpers.ladder.kernel import Kernel
from helpers.ladder.rungs import find
from nogpu.bfloat16 import from_bfloat16, to_bfloat16

STORAGE: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "int32": np.dtype(np.int32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),  # NumPy has no bfloat16: its bits travel as uint16
}
UNIT_ROUNDOFF: Mapping[str, float] = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Largest relative rounding error of one operation, round to nearest (IEEE 754)."""
UNDERFLOW: Mapping[str, float] = {"float16": 2.0**-25}
"""Largest error of rounding to a subnormal number: half of their distance (IEEE 754).

In other types too small to see.
"""


def poison(dtype: str) -> Any:
    """What an output holds before a launch, so that an element nobody writes shows itself.

    Floats: a NaN, for bfloat16 another than the one that instructions give.
    """
    if dtype == "bfloat16":
        return 0x7FC0
    return np.iinfo(np.int32).min if dtype == "int32" else np.nan


def values(dtype: str, x: np.ndarray) -> np.ndarray:
    """float64 values of an array stored for a kernel dtype."""
    return (from_bfloat16(x) if dtype == "bfloat16" else np.asarray(x)).astype(np.float64)


def operands(
    kernel: Kernel | str, M: int, N: int, K: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Random A (M, K) and B (K, N) in the kernel's dtype: N(0, 1), or integers from -99 to 99."""
    dtype = find(kernel).dtype
    rng = np.random.default_rng(seed)
    if dtype == "int32":
        return (
            rng.integers(-99, 100, (M, K), dtype=np.int32),
            rng.integers(-99, 100, (K, N), dtype=np.int32),
        )
    a = rng.standard_normal((M, K), dtype=np.float32)
    b = rng.standard_normal((K, N), dtype=np.float32)
    if dtype == "bfloat16":
        return to_bfloat16(a), to_bfloat16(b)
    return a.astype(STORAGE[dtype]), b.astype(STORAGE[dtype])


def reference(kernel: Kernel | str, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The product in float64 (exact for integers), of the values that A and B hold."""
    dtype = find(kernel).dtype
    return values(dtype, A) @ values(dtype, B)


def error_bound(kernel: Kernel | str, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Largest error that any summation order allows, element by element; it grows with K.

    |C - AB| <= g |A||B| with g = n u / (1 - n u), n = K + 1, u the unit roundoff of float32
    accumulation (four times that for Tensor Cores, which truncate), plus the output's rounding.
    Integers: 0. Source: Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.
    """
    k = find(kernel)
    if k.dtype == "int32":
        return np.zeros((A.shape[0], B.shape[1]))
    magnitude = np.abs(values(k.dtype, A)) @ np.abs(values(k.dtype, B))
    u = UNIT_ROUNDOFF["float32"] * (1 if k.dtype == "float32" else 4)
    n = A.shape[1] + 1
    bound = n * u / (1 - n * u) * magnitude
    if k.out_dtype != "float32":
        rounding = UNIT_ROUNDOFF[k.out_dtype] * (np.abs(reference(k, A, B)) + bound)
        bound = bound + rounding + UNDERFLOW.get(k.out_dtype, 0.0)
    return bound


_KEPT: dict[tuple[Any, ...], tuple[np.ndarray, np.ndarray]] = {}
_KEPT_CASES, _KEPT_ELEMENTS = 12, 1 << 18


def expected(
    kernel: Kernel | str, A: np.ndarray, B: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """`reference` and `error_bound` of the operands of a seed, not to be written to.

    Those of small products are kept, the last twelve: each text of a reader meets the same.
    """
    k = find(kernel)
    key = k.dtype, k.out_dtype, A.shape, B.shape, seed
    if (found := _KEPT.get(key)) is not None:
        return found
    found = reference(k, A, B), error_bound(k, A, B)
    for array in found:
        array.flags.writeable = False
    if found[0].size <= _KEPT_ELEMENTS:
        if len(_KEPT) == _KEPT_CASES:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[key] = found
    return found


def wrong_elements(kernel: Kernel | str, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> int:
    """How many elements of C lie outside the error bound; NaN always does."""
    return beyond(find(kernel), C, reference(kernel, A, B), error_bound(kernel, A, B))


def beyond(kernel: Kernel, C: np.ndarray, want: np.ndarray, bound: np.ndarray) -> int:
    """How many elements of C lie further than `bound` from `want`; NaN always does."""
    return int(np.count_nonzero(~(np.abs(values(kernel.out_dtype, C) - want) <= bound)))
