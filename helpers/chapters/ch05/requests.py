"""What one request of a warp costs, by the words that its lanes want: sectors and wavefronts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from helpers import emulator
from nogpu.device import WORD
from nogpu.emulator.observe.counts import BANKS, SECTOR

READ = """
extern "C" __global__ void read(const float* x, const int* where, float* out)
{
    const int i = threadIdx.x;
    const int at = where[i];
    out[i] = x[at];
}
"""
"""One warp reads at positions of our choice."""
FLOATS = 4096
"""Floats that there are to be read."""
LANE = np.arange(32)
PATTERNS: Mapping[str, npt.NDArray[np.int64]] = {
    "neighbours": LANE, "neighbours, starting one float later": LANE + 1,
    "every second float": 2 * LANE, "every eighth float": 8 * LANE, "every 32nd float": 32 * LANE,
    "all the same float": 0 * LANE, "neighbours in reverse": 31 - LANE,
    "random": np.random.default_rng(5).permutation(FLOATS)[:32],
}  # fmt: skip
"""What the lanes of a warp read: the float of each lane, by the pattern's name."""


def sectors(where: npt.ArrayLike) -> int:
    """Sectors of the one request in which lane i reads x[where[i]], counted in the emulator."""
    x = np.arange(FLOATS, dtype=np.float32)
    out = np.zeros(32, np.float32)
    at = np.asarray(where, np.int32)
    report = emulator.launch(READ, "read", (1, 1, 1), (32, 1, 1), [x, at, out])
    if not (out == x[at]).all():
        raise AssertionError("the kernel read something else")
    return next(row.sectors for row in report.by_line() if row.array == "x")


def wavefronts(where: npt.ArrayLike) -> int:
    """Deliveries of that request: the different words of the bank that has most of them."""
    words = np.unique(np.asarray(where, np.int64))
    return int(np.bincount(words % BANKS).max())


def touched() -> dict[str, int]:
    """Sectors of a request by pattern."""
    return {name: sectors(where) for name, where in PATTERNS.items()}


def price_list() -> dict[str, Any]:
    """What `table` takes to show the sectors of the patterns, and how much of them is used."""
    rows = []
    for name, n in touched().items():
        used = 100 * WORD * len(np.unique(PATTERNS[name])) / (SECTOR * n)
        fetched = {"sectors": n, "bytes fetched": SECTOR * n, "used (%)": used}
        rows.append({"the lanes read": name, **fetched})
    return {
        "rows": rows,
        "caption": "One request of 32 lanes: sectors touched, by pattern of addresses.",
        "formats": {"used (%)": ".1f"},
    }
