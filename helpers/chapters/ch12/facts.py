"""The numbers of chapter 12: what its map saves, and what the last ten percent consist of."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from helpers.chapters.facts import at_8192
from helpers.ladder.launch import trace
from helpers.record import costs, left_out, measure

BOTH = ("double_buffer", "lane_map")
CLIMB = (*BOTH, "warp_tiled", "fp32_best")
TRICKS = ("fragments ahead", "back and forth", "added zeros")


def two_maps() -> dict[str, Any]:
    """Traces of the two kernels, by what their lanes look like."""
    titles = ("Numbered row by row", "Numbered in squares")
    return {
        title: trace(name, M=256, N=256, K=16, samples=True)
        for title, name in zip(titles, BOTH, strict=True)
    }


def reads(traces: Mapping[str, Any]) -> list[tuple[float, ...]]:
    """Wavefronts of a read of A and of one of B, of each trace."""
    found: list[tuple[float, ...]] = []
    for each in traces.values():
        rows = (row for row in each.by_line() if (row.space, row.op) == ("shared", "load"))
        waves = {row.array: row.wavefronts_per_request for row in rows}
        found.append((waves["A_tile"], waves["B_tile"]))
    return found


def the_record() -> SimpleNamespace:
    """Shares of cuBLAS and gains at 4096 in percent, times of resources in ms, what is lost in
    percent without one of chapter 13's tricks, and document L's gain by warp tiles."""
    climb = measure(list(CLIMB), sizes=4096, gpu="h200")
    before, after = (costs.bounds(name, 4096, gpu="h200") for name in BOTH)
    lost = [100 * (1 - r["share"]) for r in left_out("fp32_best").rows if r["without"] in TRICKS]
    same = after.binding == before.binding == costs.ISSUE and abs(after.ms / before.ms - 1) < 0.01
    return SimpleNamespace(
        climb=climb,
        share={name: 100 * climb.value(name, 4096, "cublas_ratio") for name in CLIMB},
        gain=100 * (climb.gain("lane_map", "double_buffer", 4096) - 1),
        deliveries=100 * before[costs.L1].ms / climb.value("double_buffer", 4096),
        l1={name: b[costs.L1].ms for name, b in zip(BOTH, (before, after), strict=True)},
        issue=before[costs.ISSUE].ms,
        same_bound=same,
        trick_least=min(lost),
        trick_most=max(lost),
        **at_8192("warp_tiled", "vectorised"),
    )
