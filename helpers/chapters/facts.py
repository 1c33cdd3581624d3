"""Numbers of a page and the conditions of its sentences, from the H200's record where it has them.

A page's own room fills `Facts`; the page glues `numbers` and ties its sentences to `true`. A time
that the record lacks is NaN. A sentence that rests on it is neither borne out nor refuted, and is
left standing until there is one.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from helpers.record import counters, measure, published
from helpers.record.store import Size
from nogpu.errors import DataError


@dataclass
class Facts:
    """numbers: what the page shows, by name. true: whether a sentence holds, by a word for it."""

    numbers: dict[str, Any] = field(default_factory=dict)
    true: dict[str, bool] = field(default_factory=dict)

    def say(self, **numbers: Any) -> None:
        """Keep numbers under these names."""
        self.numbers |= numbers

    def ends(self, **values: Iterable[float]) -> None:
        """Keep the least and the most of some numbers, as name_low and name_high."""
        for name, found in values.items():
            self.numbers |= {f"{name}_low": min(found), f"{name}_high": max(found)}

    def check(self, word: str, condition: bool, *needed: float) -> None:
        """Keep a condition under a word; if one of the numbers it needs is NaN it stands."""
        self.true[word] = any(math.isnan(x) for x in needed) or bool(condition)


@cache
def recorded(kernel: str, size: int | Size, column: str = "gflops") -> float:
    """A column of the H200's record for a kernel or a baseline at a size; NaN where it has none."""
    try:
        return float(measure(kernel, sizes=[size], gpu="h200").value(kernel, size, column))
    except DataError:
        return math.nan


def gain(new: str, old: str, size: int) -> float:
    """How many times as fast, the clock cancelled; NaN where the record lacks one of the two."""
    try:
        return measure([new, old], sizes=[size], gpu="h200").gain(new, old, size)
    except DataError:
        return math.nan


def printed_rates(document: str) -> dict[str, float]:
    """GFLOP/s that one of the five documents prints, by rung."""
    rows = published(document=document, metric="gflops")
    return {str(r["rung"]): float(str(r["value"])) for r in rows}


def at_8192(new: str, old: str) -> dict[str, float]:
    """How many times as fast a rung is as another at 8192: by the rates of document L (l_gain), and
    in the record of the H200 (h_gain)."""
    doc = printed_rates("L")
    return {"l_gain": doc[new] / doc[old], "h_gain": gain(new, old, 8192)}


class _Unknown(dict[str, float]):
    def __missing__(self, key: str) -> float:
        return math.nan


def counted(kernel: str, size: int = 1024) -> Mapping[str, float]:
    """The hardware's counters of a kernel on the H200; every one NaN where none is recorded."""
    try:
        return _Unknown(counters(kernel, size)[0])
    except DataError:
        return _Unknown()
