"""Checks for the exercises of chapter 17, cuBLAS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from helpers.exercises import Check, exercise, one_of, same_array


@exercise("17.1", kind="choice")
def overflow(answer: object) -> Check:
    """The format that cannot hold 100,000."""
    return one_of(
        answer,
        "FP16",
        options=("FP16", "BF16", "TF32"),
        what="format",
        wrong={"BF16": "it has the exponent of FP32", "TF32": "it has the exponent of FP32"},
    )


def _column_major_gemm(
    x: tuple[np.ndarray, int, int], y: tuple[np.ndarray, int, int]
) -> tuple[np.ndarray, int, int]:
    a = np.asarray(x[0]).reshape(x[1], x[2], order="F")
    b = np.asarray(y[0]).reshape(y[1], y[2], order="F")
    c = a @ b
    return c.ravel(order="F"), c.shape[0], c.shape[1]


@exercise("17.2", kind="python")
def row_major(answer: Callable[..., Any]) -> Iterator[Check]:
    """A row-major product through a column-major one."""
    rng = np.random.default_rng(17)
    for m, n, k in ((2, 3, 4), (5, 1, 2), (1, 1, 6)):
        a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
        got = answer(a, b, _column_major_gemm)
        yield same_array(got, a @ b, what=f"C for {m}x{k} times {k}x{n}")
