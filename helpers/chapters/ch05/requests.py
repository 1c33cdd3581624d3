"""What one request of a warp costs, by the words that its lanes want: sectors and wavefronts."""

from __future__ import annotations

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


def price_list(touched: Mapping[str, int], patterns: Mapping[str, Any]) -> dict[str, Any]:
    """What `table` takes to show the sectors of patterns of addresses, and how much of them is used.

    touched: sectors by name. patterns: the floats that the lanes want, by the same names.
    """
    return {
        "rows": [
            {
                "the lanes read": name,
                "sectors": n,
                "bytes fetched": SECTOR * n,
                "used (%)": 100 * WORD * len(np.unique(patterns[name])) / (SECTOR * n),
            }
            for name, n in touched.items()
        ],
        "caption": "One request of 32 lanes: sectors touched, by pattern of addresses.",
        "formats": {"used (%)": ".1f"},
    }
