"""The model against the record: every recorded point, and the order of the rungs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from helpers import record as measuring
from helpers.ladder.rungs import catalog, lay_out
from helpers.record.costs.bounding import Bounds, of_plan
from helpers.record.entries import Point
from helpers.record.reading import outdated
from nogpu.errors import DataError

TIE = 0.05
"""Predictions nearer to each other than this are a tie: the model is not finer than that."""


def recorded(gpu: str = "h200", kernels: Sequence[str] | None = None) -> list[Bounds]:
    """The bounds of every recorded point of a GPU whose code is that of now, with its measured
    time.

    kernels: only these. Raises UnknownNameError for a GPU without a record.
    """
    record = measuring.load(gpu)
    found = []
    for e in record.of(Point):
        wanted = e.kernel in catalog and (kernels is None or e.kernel in kernels)
        if wanted and not outdated(e):
            plan = lay_out(e.kernel, e.m, e.n, e.k, **e.params)
            found.append(of_plan(plan, gpu, measured=(e.ms, record.label([e]))))
    return found


@dataclass(frozen=True)
class Ordering:
    """Pairs of kernels whose predicted order is the measured one, is a tie, or is the other way
    round."""

    agree: tuple[tuple[str, str], ...]
    ties: tuple[tuple[str, str], ...]
    against: tuple[tuple[str, str], ...]


def order(every: Sequence[Bounds], *, tie: float = TIE, pure: bool = False) -> Ordering:
    """Compare the predicted order of measured kernels with the measured one, pair by pair.

    Each pair is named slower first, as measured. tie: predictions within this share of the smaller
    are one. pure: order by the bounds alone, without what waiting adds. Raises DataError where one
    has no time.
    """
    lacking = [b.kernel for b in every if b.measured is None]
    if lacking:
        raise DataError(f"{lacking[0]} has no measured time on {every[0].gpu.name}: leave it out")
    kinds: dict[str, list[tuple[str, str]]] = {"agree": [], "ties": [], "against": []}
    for a, b in combinations(sorted(every, key=lambda x: -(x.measured or 0.0)), 2):
        slow, fast = (a.ms, b.ms) if pure else (a.predicted, b.predicted)
        near = abs(slow - fast) <= tie * min(slow, fast)
        kinds["ties" if near else "agree" if slow > fast else "against"].append(
            (a.kernel, b.kernel)
        )
    return Ordering(*(tuple(kinds[name]) for name in ("agree", "ties", "against")))
