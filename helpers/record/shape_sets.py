"""The two drawn sets of shapes, and what a record says over a whole set.

The ragged shapes hold the choice of tile of one kernel against cuBLAS, the larger set the choice
among all kernels. Nothing was fitted to them but `model.SINGLES` and `model.SHORT_NEXT`, which a
few of the larger set gave.
"""

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from helpers.ladder import rungs
from helpers.ladder.kernel import Kernel
from helpers.ladder.rungs import catalog
from helpers.record import tiles
from helpers.record.entries import Chosen, Confirmed, Pick
from helpers.record.store import Record, Size, named

RAGGED_SEED, RAGGED_COUNT, RAGGED_EDGES = 13, 20, (500, 6000)
"""The published set of ragged shapes; nothing was fitted to it."""


def ragged_shapes(
    seed: int = RAGGED_SEED, count: int = RAGGED_COUNT, edges: tuple[int, int] = RAGGED_EDGES
) -> list[Size]:
    """`count` shapes (M, N, K), log-uniform between two edges; the same for the same seed."""
    low, high = edges
    draw = random.Random(seed)

    def edge() -> int:
        return round(low * (high / low) ** draw.random())

    return [(edge(), edge(), edge()) for _ in range(count)]


C = TypeVar("C", bound=Confirmed)


def current_entry(record: Record, kind: type[C], k: Kernel, size: Size) -> C | None:
    """The entry of a kernel and shape, if it was measured with the code as it is now."""
    entry = record.index(kind).get(kind.key_of(kernel=k.name, **named(size)))
    return entry if entry and entry.source == rungs.fingerprint(k) else None


def describe_tile(entry: Confirmed) -> str:
    """A confirmed tile in a line: sizes, time, gain over the default tile, share of cuBLAS."""
    changed = {n: v for n, v in entry.params.items() if entry.default.get(n) != v}
    text = f"{tiles.words(changed) or 'the default tile'}, {entry.ms:.4g} ms"
    if entry.gain is not None:
        text += f", {entry.gain:.3f} times as fast as the default tile"
    if entry.cublas_ratio is not None:
        text += f", {100 * entry.cublas_ratio:.1f} % of cuBLAS"
    return text


# -- the choice over the whole set -----------------------------------------------------------------


@dataclass(frozen=True)
class Ragged:
    """The choice of tile over the ragged set. share: geometric mean of the paired ratios to cuBLAS.

    default: that of the default tile, from the same rounds. worst: the lowest ratio. error: the
    largest error over its tolerance: a shape with a wrong element is refused, so it is below 1.
    """

    kernel: str
    entries: tuple[Chosen, ...]
    share: float
    default: float
    worst: float
    error: float

    def __str__(self) -> str:
        return (
            f"{self.kernel} over {len(self.entries)} ragged shapes: {100 * self.share:.1f} % of"
            f" cuBLAS (geometric mean; {100 * self.default:.1f} % with the default tile alone), the"
            f" worst {100 * self.worst:.1f} %; every element right, the largest error"
            f" {self.error:.2f} of its tolerance"
        )


def ragged_result(record: Record, kernel: str = "fp32_best") -> Ragged | None:
    """What a measurement file says about a kernel on the ragged set; None unless it is complete."""
    tiles_now = [current_entry(record, Chosen, catalog[kernel], size) for size in ragged_shapes()]
    entries = [e for e in tiles_now if e is not None and e.cublas_ratio is not None]
    if len(entries) < len(tiles_now):
        return None

    def mean(ratios: Iterable[float]) -> float:
        logs = [math.log(r) for r in ratios]
        return math.exp(sum(logs) / len(logs))

    shares = [e.cublas_ratio or math.nan for e in entries]
    return Ragged(
        kernel, tuple(entries), mean(shares),
        mean(share / (e.gain or 1.0) for share, e in zip(shares, entries, strict=True)),
        min(shares), max(e.error_over_tolerance for e in entries),
    )  # fmt: skip


DRAWN_SEED, LARGER_SEED = 1511, 2811
DRAWN: Mapping[int, tuple[int, tuple[int, int]]] = {
    DRAWN_SEED: (40, (1, 8192)),
    LARGER_SEED: (60, (16, 6200)),
}
"""The published sets by seed: how many shapes, and between which edges."""
NAMED_SHAPES: Mapping[str, tuple[Size, ...]] = {
    "float32": ((1024, 1024, 16384), (1, 4096, 4096), (16, 4096, 4096), (4096, 1, 4096)),
    "bfloat16": ((1024, 1024, 16384), (128, 8192, 4096), (512, 4096, 4096), (16, 4096, 4096)),
}
"""Long and thin shapes for each type, with the seed 0."""


def drawn_shapes(dtype: str, *seeds: int) -> list[tuple[int, Size]]:
    """The shapes of a type, each with its seed: the named ones, and those of some sets, or all."""
    drawn = [(seed, size) for seed in seeds or DRAWN for size in ragged_shapes(seed, *DRAWN[seed])]
    return [(0, size) for size in NAMED_SHAPES[dtype]] + drawn


@dataclass(frozen=True)
class Everywhere:
    """The picks over the drawn set of a type. share: geometric mean of the ratios to cuBLAS; worst:
    the lowest.

    named: the entries of the long and thin shapes. off: the root of the mean square of ln(measured
    / predicted).
    """

    dtype: str
    entries: tuple[Pick, ...]
    named: tuple[Pick, ...]
    share: float
    worst: Pick
    off: float


def everywhere(record: Record, dtype: str, seed: int = DRAWN_SEED) -> Everywhere | None:
    """What a record says of a type over a set; None unless every shape is there, measured with
    today's kernels.
    """
    picks = {(e.m, e.n, e.k): e for e in record.of(Pick) if e.dtype == dtype}
    entries = []
    for of, size in drawn_shapes(dtype, seed):
        e = picks.get(size)
        if e is None or e.cublas_ratio is None or e.source != rungs.fingerprint(e.kernel):
            return None
        entries.append((of, e))
    ragged = [e for of, e in entries if of]
    logs = [math.log(e.cublas_ratio or math.nan) for e in ragged]
    off = np.sqrt(np.mean([math.log(1e3 * e.ms / e.predicted) ** 2 for e in ragged]))
    worst = min(ragged, key=lambda e: e.cublas_ratio or math.inf)
    special = tuple(e for of, e in entries if not of)
    share = math.exp(sum(logs) / len(logs))
    return Everywhere(dtype, tuple(ragged), special, share, worst, float(off))
