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
        wrong={13: "that is column-major", 17: "a row has 7 elements, not 5"},
    )


@exercise("03.2", kind="python")
def outer_products(answer: Callable[[Any, Any], Any]) -> Iterator[Check]:
    """A product as a sum of outer products, on three shapes."""
    rng = np.random.default_rng(3)
    for m, n, k in ((4, 5, 6), (1, 3, 2), (7, 1, 1)):
        a, b = rng.integers(-5, 6, (m, k)).astype(float), rng.integers(-5, 6, (k, n)).astype(float)
        yield same_array(answer(a, b), a @ b, what=f"C for {m}x{k} times {k}x{n}")


@exercise("03.3", kind="number")
def operations(answer: object) -> Check:
    """Operations of a 1024x768 by 768x1024 product, in GFLOP."""
    return close_to(
        answer,
        2 * 1024 * 1024 * 768 / 1e9,
        what="operations",
        unit="GFLOP",
        wrong={1024 * 1024 * 768 / 1e9: "a multiply and an add are two operations"},
    )
