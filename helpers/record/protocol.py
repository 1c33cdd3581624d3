"""How a time is taken: warm-up, random interleaving, paired ratios, quartiles. No GPU code here.

A `Bench` runs an operation by name and says how long it took; everything that decides what to run,
how often and in which order, and what the samples amount to, is in this file, so that it can be
tested with a bench that only pretends.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from helpers.ladder.model import flops
from nogpu.errors import TileError

PROTOCOL = {
    "clock": "CUDA events on one stream; the host queues ahead behind a spinning kernel",
    "order": "kernel and cuBLAS of the same precision in random order, pair by pair, after warm-up",
    "statistics": "median and quartiles of samples; cublas_ratio is the median of paired ratios",
    "data": "N(0, 1), or integers from -99 to 99 for int32; the same operands for every kernel",
    "cache": "warm: operands that fit in L2 stay there from one launch to the next",
    "check": "output poisoned before, compared after with a float64 product; see helpers.record",
    "copies": "pageable host memory, cudaMemcpy, by the host's clock, median of three",
    "overlap": (
        "host arrays to host result by the host's clock, variants in random order, round by round"
    ),
    "first_ms": "compile, load and launch with empty caches; CUDA itself already initialised",
}
"""How the numbers of a record were taken, in its own words."""

PEAK_SLACK = 1.02
"""Rates up to 2 % above the computed peak pass: the clock that peak is computed from is rounded."""


class ImplausibleError(TileError):
    """A time that the hardware cannot reach, or a result that is wrong: nothing is recorded."""


class Bench(Protocol):
    """Something that can run named operations and time them."""

    def sample(self, operation: str, repeat: int) -> float:
        """Milliseconds a launch, the mean of `repeat` launches back to back."""
        ...


@dataclass(frozen=True)
class Effort:
    """How much time one point may take. Times in milliseconds unless a name says otherwise."""

    pairs: int = 5
    """Samples of each operation at least."""
    max_pairs: int = 100
    seconds: float = 0.3
    """Sampling goes on until this much time is spent or max_pairs is reached."""
    warm_ms: float = 100.0
    """Both operations run this long, untimed, before the first sample."""
    sample_ms: float = 0.2
    """A sample repeats a short kernel until it lasts this long, so that launch gaps do not count.
    """
    max_repeat: int = 20
    slow_ms: float = 500.0
    """From here on an operation counts as slow: slow_pairs samples, and no extra warm-up."""
    slow_pairs: int = 3


RECORD = Effort()
"""What `python -m helpers record` spends on a point."""
LIVE = Effort(seconds=0.15, max_pairs=50, slow_ms=200.0)
"""What a chapter's cell spends on a point."""


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of a set of samples, in the unit of the samples."""

    median: float
    q1: float
    q3: float
    count: int


def fields(of: Spread | None, median: str = "ms", prefix: str = "") -> dict[str, Any]:
    """Median and quartiles under the names that an entry has for them: ms, q1 and q3; or, as with
    "gain" and "gain_", gain, gain_q1 and gain_q3. None each where there is no spread."""
    names = (median, f"{prefix}q1", f"{prefix}q3")
    return dict(zip(names, (of.median, of.q1, of.q3) if of else (None,) * 3, strict=True))


def spread(samples: np.ndarray) -> Spread:
    """Median and quartiles. Source: linear interpolation between order statistics (NumPy)."""
    q1, median, q3 = np.percentile(samples, [25, 50, 75])
    return Spread(float(median), float(q1), float(q3), len(samples))


def repeats(estimate_ms: float, effort: Effort) -> int:
    """Launches a sample needs to last sample_ms, within 1 and max_repeat."""
    wanted = math.ceil(effort.sample_ms / max(estimate_ms, 1e-6))
    return max(1, min(effort.max_repeat, wanted))


@dataclass(frozen=True)
class Rounds:
    """Samples of several operations, taken in turn: ms[name][i] is of round i, for every name.

    Milliseconds a launch. repeat: launches in one sample of an operation. started, ended: seconds
    by the clock that was given.
    """

    ms: Mapping[str, np.ndarray]
    repeat: Mapping[str, int]
    started: float
    ended: float

    def ratio(self, name: str, to: str) -> Spread:
        """Time of `to` over time of `name`, round by round: above 1, `name` is the faster."""
        return spread(self.ms[to] / self.ms[name])


def interleaved(
    bench: Bench, names: Sequence[str], *, effort: Effort | None = None,
    rng: np.random.Generator | None = None, estimates: Mapping[str, float] | None = None,
    before: Callable[[], None] | None = None, clock: Callable[[], float] = time.monotonic,
) -> Rounds:  # fmt: skip
    """Time operations interleaved: rounds of one sample each, every round in random order.

    estimates: earlier times in ms, where known; they spare a slow kernel a run. before: called
    after the warm-up and before the first sample (poison the output there).
    """
    effort = effort or RECORD
    order = rng or np.random.default_rng()
    estimate = dict(estimates or {})
    for name in names:
        if name not in estimate or estimate[name] < effort.slow_ms:
            estimate[name] = bench.sample(name, 1)
    slow = max(estimate.values()) >= effort.slow_ms
    repeat = {name: repeats(estimate[name], effort) for name in names}
    if not slow:
        warm_until = clock() + effort.warm_ms / 1e3
        while True:
            for name in names:
                estimate[name] = bench.sample(name, repeat[name])
            if clock() >= warm_until:
                break
        # The first estimate held start-up costs; now that everything is warm, decide again.
        repeat = {name: repeats(estimate[name], effort) for name in names}
    if before is not None:
        before()

    samples: dict[str, list[float]] = {name: [] for name in names}
    least, most = (effort.slow_pairs,) * 2 if slow else (effort.pairs, effort.max_pairs)
    started = clock()
    for done in range(most):
        if done >= least and clock() - started >= effort.seconds:
            break
        for index in order.permutation(len(names)):
            name = names[int(index)]
            samples[name].append(bench.sample(name, repeat[name]))
    ms = {name: np.array(values) for name, values in samples.items()}
    return Rounds(ms, repeat, started, clock())


def gflops(M: int, N: int, K: int, ms: float) -> float:
    """GFLOP/s (Gop/s for integers) of an MxK by KxN product that took ms milliseconds."""
    return flops(M, N, K) / ms / 1e6


def refuse_above_peak(what: str, rate_gflops: float, peak_gflops: float | None) -> None:
    """Raise ImplausibleError if a rate is above what the hardware can do (peak None: unknown)."""
    if not math.isfinite(rate_gflops) or rate_gflops <= 0:
        raise ImplausibleError(
            f"{what} measured {rate_gflops} GFLOP/s: a rate is a positive number. The launch "
            "probably failed; run it once under compute-sanitizer"
        )
    if peak_gflops is not None and rate_gflops > PEAK_SLACK * peak_gflops:
        raise ImplausibleError(
            f"{what} measured {rate_gflops:.0f} GFLOP/s, and the hardware's peak is "
            f"{peak_gflops:.0f}: the kernel cannot have done the work. Check that it was compiled "
            "for this GPU and that its launch covers the whole of C"
        )


def refuse_wrong(ratio: float, what: str, worst: float, checked: str) -> None:
    """Raise ImplausibleError if a result is outside its tolerance; NaN always is."""
    if not ratio <= 1.0:
        raise ImplausibleError(
            f"{what} gives a wrong result: an element is off by {worst:.3g}, {ratio:.3g} "
            f"times what rounding allows (checked against: {checked}). Nothing is recorded; run it "
            "on a small matrix in the emulator to see where it goes wrong"
        )


ACCUMULATION = 2.0**-24
"""Unit roundoff of the float32 sums that every floating-point kernel here accumulates in."""
SAFETY: dict[str, float] = {"int32": 0.0, "float32": 16.0, "float16": 64.0, "bfloat16": 64.0}
"""How many times the typical rounding error a result may be off; Tensor Cores truncate, so more."""


def tolerance(
    dtype: str, row_norms: np.ndarray, column_norms: np.ndarray, *, input_roundoff: float = 0.0,
    terms: int = 1,
) -> np.ndarray:  # fmt: skip
    """Largest accepted error of each element of C, from the norms of A's rows and B's columns.

    Rounding a float32 sum of K terms of either sign is off by about 0.4 u |a||b|, u the unit
    roundoff, |a| and |b| the norms of the row and the column; for N(0, 1) data |a||b| is about K,
    so the bound grows with K. Even so it is far below one product of the sum: a single term left
    out is found, where the worst-case bound K u |a||b| would let it pass at K in the thousands.
    Integers: 0. A product that rounds its inputs (TF32) is off by input_roundoff |a||b| / sqrt(K)
    more; terms is K then. row_norms: (M,), column_norms: (N,); returns (M, N). Works on NumPy and
    CuPy arrays. Source: Higham, Accuracy and Stability of Numerical Algorithms, section 2.8
    (statistical bounds).
    """
    factor = SAFETY[dtype] * ACCUMULATION + 8.0 * input_roundoff / math.sqrt(terms)
    return factor * row_norms[:, None] * column_norms[None, :]
