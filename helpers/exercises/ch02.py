"""Checks for the exercises of chapter 02, measuring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from helpers.device import gpu
from helpers.exercises import Check, close_to, exercise


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


@exercise("02.2", kind="number")
def shortest(answer: object) -> Check:
    """Shortest time of a 4096 product on a T4 that its FP32 peak allows, in ms."""
    right = 2 * 4096**3 / gpu("t4").fp32_peak_gflops / 1e6
    return close_to(
        answer,
        right,
        tolerance=0.02,
        what="shortest time",
        unit="ms",
        wrong={
            right / 2: "a multiply-add is two operations",
            right / 1e3: "that is in seconds",
            5: "that is the report; compute what the peak allows",
        },
    )


@exercise("02.3", kind="python")
def summary(answer: Callable[[list[float]], Any]) -> Iterator[Check]:
    """Median and interquartile range of three samples, one with an outlier."""
    for times in ([3.0, 1.0, 2.0, 5.0, 4.0], [1.0, 1.0, 1.1, 9.0], [2.5]):
        q1, median, q3 = np.percentile(times, [25, 50, 75])
        got = answer(list(times))
        if not isinstance(got, (tuple, list, np.ndarray)) or len(got) != 2:
            yield Check(
                False,
                "summary(times) returns two numbers",
                got=type(got).__name__,
                hint="Return the median and the range, as in `return median, spread`.",
            )
            return
        yield close_to(
            got[0], float(median), what=f"median of {times}", hint="Sort, then take the middle."
        )
        yield close_to(
            got[1],
            float(q3 - q1),
            what=f"interquartile range of {times}",
            hint="Third quartile minus first.",
            wrong={float(max(times) - min(times)): "that is the whole range, outliers included"},
        )
