"""What the recorded sweeps of tiles say about occupancy: tables of chapter 7.

Each entry of a sweep is one tile of one kernel, timed at 4096 on one GPU; those with spills are
left out.
"""

from dataclasses import dataclass
from statistics import median
from typing import Any

from helpers.record import DEFAULT_GPU, load
from nogpu import device

PATCHES = ((2, 2), (4, 4), (8, 4), (8, 8), (16, 8))


def _swept(kernel: str, gpu: str) -> list[Any]:
    entries = load(gpu).find("sweep", m=4096)
    return [r for r in entries if r["kernel"] == kernel and r["ms"] and not r["spill_bytes"]]


def warps_at_once(entry: Any) -> int:
    """Warps on an SM with the tile of one entry of a sweep."""
    p = entry["params"]
    a_warp = p["WM"] * p["WN"] if "WM" in p else device.WARP * p["TM"] * p["TN"]
    return int(entry["blocks_per_sm"] * -(-p["BM"] * p["BN"] // a_warp))


@dataclass(frozen=True)
class Patches:
    """The fastest tile of each patch of block_2d. fuller: the rate of the fastest tile that fills
    more than half of an SM, over that of the fastest of all. tiles: how many were timed."""

    rows: list[dict[str, Any]]
    fuller: float
    tiles: int
    label: str


def by_patch(gpu: str = DEFAULT_GPU) -> Patches:
    """Rate and occupancy of block_2d by the patch of a thread, from the sweep of its tiles."""
    entries = _swept("block_2d", gpu)
    places = device.gpu(gpu).limits.max_warps_per_sm
    best: dict[tuple[int, int], tuple[float, float]] = {}
    for r in entries:
        of = r["params"]["TM"], r["params"]["TN"]
        best[of] = max(best.get(of, (0.0, 0.0)), (r["gflops"], 100 * warps_at_once(r) / places))
    names = {(tm, tn): {"patch": f"{tm}x{tn}", "sums": tm * tn} for tm, tn in PATCHES}
    rows = [{**row, "occupancy": best[p][1], "gflops": best[p][0]} for p, row in names.items()]
    fuller = max(r["gflops"] for r in entries if warps_at_once(r) > places / 2)
    return Patches(rows, fuller / max(best.values())[0], len(entries), load(gpu).label(entries))


@dataclass(frozen=True)
class MoreWarps:
    """Tiles of warp_tiled that were timed with fewer and with more warps on an SM.

    changes: of the rate in percent, by warps before and after. sums: those of a thread, by warps
    before.
    """

    changes: dict[tuple[int, int], list[float]]
    sums: dict[int, set[int]]
    label: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each step from some warps to more."""
        return [
            {"step": f"{low} to {high}", "tiles": len(changes), "least": min(changes),
             "median": median(changes), "most": max(changes)}
            for (low, high), changes in sorted(self.changes.items())
        ]  # fmt: skip

    def since(self, warps: int) -> list[float]:
        """Changes of the rate in percent of all tiles that had so many warps before."""
        return [c for (low, _), changes in self.changes.items() if low == warps for c in changes]


def with_more_warps(gpu: str = DEFAULT_GPU) -> MoreWarps:
    """What more warps on an SM do to one tile of warp_tiled, from the sweep over MIN_BLOCKS."""
    entries = _swept("warp_tiled", gpu)
    by_tile: dict[tuple[tuple[str, int], ...], dict[int, float]] = {}
    for r in entries:
        tile = tuple((name, v) for name, v in r["params"].items() if name != "MIN_BLOCKS")
        rates = by_tile.setdefault(tile, {})
        rates[warps_at_once(r)] = max(rates.get(warps_at_once(r), 0.0), r["gflops"])
    changes: dict[tuple[int, int], list[float]] = {}
    sums: dict[int, set[int]] = {}
    for tile, rates in by_tile.items():
        if len(rates) > 1:
            low, high, p = min(rates), max(rates), dict(tile)
            changes.setdefault((low, high), []).append(100 * (rates[high] / rates[low] - 1))
            sums.setdefault(low, set()).add(p["WM"] * p["WN"] // device.WARP)
    return MoreWarps(changes, sums, load(gpu).label(entries))
