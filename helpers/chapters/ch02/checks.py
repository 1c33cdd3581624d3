"""Checks for the exercises of chapter 02, measuring."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from helpers.page.exercises import Check, close_to, exercise, number
from nogpu.device import gpu

RATE = 2 * 4096**3 / 22e-3 / 1e12

number(
    "02.1", "Rate of a 4096 product in 22 ms, in TFLOP/s", RATE, what="rate", unit="TFLOP/s",
    mistakes={RATE * 1e3: "that is GFLOP/s", RATE / 2: "a multiply-add is two operations"},
)  # fmt: skip


SHORTEST = 2 * 4096**3 / gpu("t4").fp32_peak_gflops / 1e6

number(
    "02.2",
    "Shortest time of a 4096 product on a T4 that its FP32 peak allows, in ms",
    SHORTEST,
    tolerance=0.02,
    what="shortest time",
    unit="ms",
    mistakes={
        SHORTEST / 2: "a multiply-add is two operations",
        SHORTEST / 1e3: "that is in seconds",
        5: "that is the report; compute what the peak allows",
    },
)


METHODS = ("linear", "weibull", "hazen", "median_unbiased", "normal_unbiased")
"""NumPy's names of the continuous definitions; weibull is that of Python's statistics.quantiles."""


def _ranges(times: list[float]) -> list[float]:
    """Interquartile ranges of a list by the usual definitions, NumPy's default first."""
    by_method = [np.subtract(*np.percentile(times, [75, 25], method=m)) for m in METHODS]  # type: ignore[call-overload]
    ordered, half = sorted(times), len(times) // 2
    hinges = [  # without and with the median in both halves
        np.median(ordered[-part:]) - np.median(ordered[:part]) for part in (half, len(times) - half)
    ]
    return [float(value) for value in (*by_method, *hinges)]


@exercise("02.3", kind="python")
def summary(answer: Callable[[list[float]], Any]) -> Iterator[Check]:
    """Median and interquartile range of three samples, two with an outlier."""
    steady = [1.0 + 0.01 * i for i in range(19)]
    for times in ([3.0, 1.0, 2.0, 5.0, 4.0], [1.0, 1.0, 1.1, 9.0], [*steady, 9.0]):
        median = float(np.median(times))
        got = answer(list(times))
        if not isinstance(got, (tuple, list, np.ndarray)) or len(got) != 2:
            what = "summary(times) returns two numbers"
            hint = "Return the median and the range, as in `return median, spread`."
            yield Check(False, what, got=type(got).__name__, hint=hint)
            return
        shown = str(times) if len(times) < 9 else f"{len(times)} times, one of them slow"
        yield close_to(
            got[0], median, what=f"median of {shown}", hint="Sort, then take the middle.",
            mistakes={float(np.mean(times)): "that is the mean, which one slow run pulls away"},
        )  # fmt: skip
        right = _ranges(times)
        nearest = min(right, key=lambda value: abs(value - _float(got[1])))
        yield close_to(
            got[1],
            nearest,
            what=f"interquartile range of {shown}",
            hint="A quarter of the times lie below the first quartile, and a quarter above the "
            "third. Subtract the first from the third.",
            mistakes={
                float(max(times) - min(times)): "that is the whole range, outliers included",
                right[0] / median: "that is the range over the median; return the range itself",
                right[0] / 2: "that is half of the range",
                -right[0]: "third quartile minus first, not the other way round",
                float(np.std(times)): "that is the standard deviation",
                float(np.std(times, ddof=1)): "that is the standard deviation",
            },
        )


def _float(value: Any) -> float:
    """A number to look for the nearest of; 0 for what is none, which close_to then refuses."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0
