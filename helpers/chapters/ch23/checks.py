"""Checks for the exercises of chapter 23, cuBLAS."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from helpers.page.exercises import Check, exercise, one_of, same_array


@exercise("23.1", kind="choice")
def overflow(answer: object) -> Check:
    """The format that cannot hold 100,000."""
    names = [answer] if isinstance(answer, str) or not isinstance(answer, Iterable) else [*answer]
    chosen = {str(name).strip().upper() for name in names}
    if "FP16" in chosen and len(chosen) > 1:
        hint = "One of them is right. The others have the exponent of FP32."
        return Check(False, "format", got=", ".join(sorted(chosen)), hint=hint)
    return one_of(
        names[0] if len(names) == 1 else str(answer), "FP16", options=("FP16", "BF16", "TF32"),
        what="format", hint="See the column of the largest numbers.",
        mistakes={"BF16": "it has the exponent of FP32", "TF32": "it has the exponent of FP32"},
    )  # fmt: skip


class _ShapeError(ValueError):
    """Operands that the column-major library of exercise 23.2 cannot take."""


def _as_matrix(flat: np.ndarray, rows: int, columns: int, name: str) -> np.ndarray:
    if np.size(flat) != rows * columns:
        raise _ShapeError(f"{name} has {np.size(flat)} elements, not {rows} x {columns}")
    return np.asarray(flat).reshape(rows, columns, order="F")


def _column_major_gemm(
    x: tuple[np.ndarray, int, int], y: tuple[np.ndarray, int, int]
) -> tuple[np.ndarray, int, int]:
    a, b = (_as_matrix(*operand, name) for operand, name in ((x, "X"), (y, "Y")))
    if a.shape[1] != b.shape[0]:
        raise _ShapeError(
            f"X has {a.shape[1]} columns and Y {b.shape[0]} rows; to multiply they must be as many"
        )
    c = a @ b
    return c.ravel(order="F"), c.shape[0], c.shape[1]


@exercise("23.2", kind="python")
def row_major(answer: Callable[..., Any]) -> Iterator[Check]:
    """A row-major product through a column-major one."""
    rng = np.random.default_rng(17)
    for m, n, k in ((2, 3, 4), (5, 1, 2), (1, 1, 6)):
        a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
        passed: list[np.ndarray] = []

        def library(x: Any, y: Any, seen: list[np.ndarray] = passed) -> Any:
            seen += [np.asarray(x[0]), np.asarray(y[0])]
            return _column_major_gemm(x, y)

        case = f"{m}x{k} times {k}x{n}"
        try:
            got = answer(a, b, library)
        except _ShapeError as error:
            what = f"the library can multiply what it gets, for {case}"
            hint = "the library sees transposes: of which shapes, and which of them comes first?"
            yield Check(False, what, got=str(error), hint=hint)
            return
        product = same_array(got, a @ b, what=f"C for {case}")
        yield product
        if not product.ok:
            continue
        moved = [x for x in passed if not any(np.array_equal(x, y.ravel()) for y in (a, b))]
        yield Check(
            bool(passed) and not moved,
            f"the library gets the elements in the order in which they lie, for {case}",
            hint="pass `A.ravel()` and `B.ravel()`; nothing needs transposing",
        )


@exercise("23.3", kind="python")
def shorten(answer: Callable[[np.ndarray, int], np.ndarray]) -> Iterator[Check]:
    """Rounding of float32 to fewer bits, to the nearest."""
    x = np.random.default_rng(17).standard_normal(1000).astype(np.float32)
    for name, bits in (("TF32", 11), ("BF16", 8)):
        got = np.asarray(answer(x.copy(), bits))
        if got.shape != x.shape or got.dtype != np.float32:
            yield Check(False, f"{name}: float32 in, float32 out", got=f"{got.dtype} {got.shape}")
            return
        spare = got.view(np.uint32) & np.uint32(2 ** (24 - bits) - 1)
        yield Check(not spare.any(), f"{name}: {24 - bits} low bits are zero")
        step = 2.0 ** (np.floor(np.log2(np.abs(x.astype(np.float64)))) + 1 - bits)
        off = np.abs(got.astype(np.float64) - x) / step
        yield Check(
            bool((off <= 0.5).all()),
            f"{name}: rounded to the nearest",
            got=f"off by up to {off.max():.2f} of a step",
            hint="Add half of a step before you cut."
            if off.max() <= 1
            else "Only the lowest bits go: sign, exponent and the bits above stay as they are.",
        )
