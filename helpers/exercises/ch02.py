"""Checks for the exercises of chapter 02, measuring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from helpers.exercises import Check, close_to, exercise, one_of


@exercise("02.1", kind="number")
def rate(answer: object) -> Check:
    """Rate of a 4096 product in 22 ms, in TFLOP/s."""
    right = 2 * 4096**3 / 22e-3 / 1e12
    return close_to(
        answer,
        right,
        what="rate",
        unit="TFLOP/s",
        wrong={right * 1e3: "that is GFLOP/s", right / 2: "a multiply-add is two operations"},
    )


@exercise("02.2", kind="choice")
def verdict(answer: object) -> Check:
    """Whether 5 ms at 4096 is possible on a T4."""
    return one_of(
        answer,
        "no",
        options=("yes", "no"),
        what="verdict",
        wrong={"yes": "compute the rate, then look up the FP32 peak of a T4"},
    )


@exercise("02.3", kind="python")
def summary(answer: Callable[[list[float]], Any]) -> Iterator[Check]:
    """Median and interquartile range of three samples, one with an outlier."""
    for times in ([3.0, 1.0, 2.0, 5.0, 4.0], [1.0, 1.0, 1.1, 9.0], [2.5]):
        q1, median, q3 = np.percentile(times, [25, 50, 75])
        got = answer(times)
        yield close_to(got[0], float(median), what=f"median of {times}")
        spread = float(q3 - q1)
        ok = abs(float(got[1]) - spread) <= 1e-6
        yield Check(ok, f"interquartile range of {times}", got=str(got[1]), hint="q3 - q1")
