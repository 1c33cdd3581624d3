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


SETS, LINE = 64, 64
"""Sets of the cache of exercise 03.3, and bytes of a line in it."""


def _sets(n: int) -> int:
    """Sets that the first column of an n x n matrix of float32 touches."""
    return len({address // LINE % SETS for address in range(0, 4 * n * n, 4 * n)})


@exercise("03.3", kind="python")
def sets_used(answer: Callable[[int], Any]) -> Iterator[Check]:
    """Sets of a cache that a column lies in, for seven sizes."""
    for n in (1, 17, 256, 512, 1000, 1024, 1025):
        got = answer(n)
        if got is ... or got is None:
            yield Check(False, "the function returns a number", got=str(got))
            return
        lines = len({address // LINE for address in range(0, 4 * n * n, 4 * n)})
        wrong: dict[float, str] = {
            lines: "that is the number of different lines; take them modulo the number of sets",
            len({r * n // LINE % SETS for r in range(n)}): "an address counts bytes: a float has 4",
            len({4 * r // LINE % SETS for r in range(n)}): "that walks along a row",
        }
        wrong.pop(_sets(n), None)
        yield close_to(got, _sets(n), tolerance=0, what=f"sets used at n = {n}", wrong=wrong)
