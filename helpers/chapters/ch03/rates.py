"""What the recorded times of the CPU loops say: numbers and sentences of chapter 3."""

from types import SimpleNamespace
from typing import Any

from helpers.record.host import CpuTimes, cpu_loops

LOOPS = ("ijk", "ikj", "jki")
SIZES = (256, 512, 1024, 1025)


def recorded_loops() -> dict[int, CpuTimes]:
    """Times of the loops by size, of one core of the CPU beside the H200."""
    return {n: cpu_loops(n, gpu="h200") for n in SIZES}


def table_rows(times: dict[int, CpuTimes]) -> list[dict[str, Any]]:
    """Kernel, size, ms and GFLOP/s of all of them."""
    return [row for n in times for row in times[n].rows]


def numbers(times: dict[int, CpuTimes]) -> SimpleNamespace:
    """Rates in GFLOP/s by size (n512, n1024, n1025) and kernel, and how they compare.

    spread: the best loop over the worst at 512; numpy_gain: NumPy over the best loop there. odd:
    the rate at 1025 over that at 1024, by loop.
    """
    rate = {n: {k: times[n].value(k, "gflops") for k in (*LOOPS, "numpy")} for n in times}
    order = sorted(LOOPS, key=lambda name: rate[512][name])
    return SimpleNamespace(
        **{f"n{n}": rate[n] for n in SIZES},
        worst=order[0],
        best=order[-1],
        spread=rate[512][order[-1]] / rate[512][order[0]],
        numpy_gain=rate[512]["numpy"] / rate[512][order[-1]],
        odd={name: rate[1025][name] / rate[1024][name] for name in LOOPS},
    )
