"""Checks for the exercises of chapter 03, the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from helpers.exercises import Check, close_to, exercise, same_array


@exercise("03.1", kind="number")
def address(answer: object) -> Check:
    """Flat index of element (3, 2) of a 5x7 row-major matrix."""
    return close_to(
        answer,
        23,
        tolerance=0,
        what="index",
        wrong={
            13: "that is column-major",
            17: "a row has 7 elements, not 5",
            24: "count from zero: the first element has index 0",
        },
    )


def _one_term(got: Any, a: np.ndarray, b: np.ndarray) -> bool:
    """Whether got is a single outer product: a return inside the loop, or = in place of +=."""
    terms = (np.outer(a[:, k], b[k]) for k in range(a.shape[1]))
    return any(np.array_equal(np.asarray(got), term) for term in terms)


@exercise("03.2", kind="python")
def outer_products(answer: Callable[[Any, Any], Any]) -> Iterator[Check]:
    """A product as a sum of outer products, on three shapes."""
    rng = np.random.default_rng(3)
    for m, n, k in ((4, 5, 6), (1, 3, 2), (7, 1, 1)):
        a, b = rng.integers(-5, 6, (m, k)).astype(float), rng.integers(-5, 6, (k, n)).astype(float)
        got = answer(a, b)
        if got is ... or got is None:
            yield Check(
                False,
                "the function returns C",
                got="nothing" if got is None else "...",
                hint="Start from np.zeros((M, N)), add in the loop, return it after the loop.",
            )
            return
        hint = "Only one k was added." if k > 1 and _one_term(got, a, b) else ""
        yield same_array(got, a @ b, what=f"C for {m}x{k} times {k}x{n}", hint=hint)


@exercise("03.3", kind="number")
def operations(answer: object) -> Check:
    """Operations of a 1024x768 by 768x1024 product, in GFLOP."""
    return close_to(
        answer,
        2 * 1024 * 1024 * 768 / 1e9,
        what="operations",
        unit="GFLOP",
        wrong={
            1024 * 1024 * 768 / 1e9: "a multiply and an add are two operations",
            2 * 1024 * 1024 * 768: "that is in operations; a GFLOP is a billion",
            2 * 1024 * 768 * 768 / 1e9: "C is 1024 x 1024, and each sum has 768 terms",
        },
    )
