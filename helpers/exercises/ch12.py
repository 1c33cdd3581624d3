"""Checks for the exercises of chapter 12, warp tiling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from helpers.exercises import Check, close_to, exercise


@exercise("12.1", kind="number")
def values(answer: object) -> Check:
    """Different operands of a 32x64 warp tile for one k."""
    return close_to(
        answer,
        96,
        tolerance=0,
        what="different values",
        wrong={2048: "that is the multiply-adds"},
    )


@exercise("12.2", kind="number")
def lane_row(answer: object) -> Check:
    """First row of lane 13's 8x16 thread tile in an 8x4 grid of lanes."""
    return close_to(
        answer,
        24,
        tolerance=0,
        what="row",
        wrong={
            3: "that is the row of thread tiles; each is eight rows tall",
            8: "lanes run along rows",
        },
    )


@exercise("12.3", kind="python")
def split(answer: Callable[[int, int, int], Any]) -> Iterator[Check]:
    """Warp tiles of a block that need the fewest operands for each k."""
    for bm, bn, warps, best in (
        (128, 128, 4, 128),
        (128, 256, 8, 128),
        (64, 256, 8, 96),
        (32, 32, 1, 64),
    ):
        wm, wn = answer(bm, bn, warps)
        fills = bm % wm == 0 and bn % wn == 0 and (bm // wm) * (bn // wn) == warps
        case = f"{warps} warps in {bm}x{bn}"
        yield Check(fills, f"tiles fill the block: {case}", got=f"{wm}x{wn}")
        yield Check(wm + wn == best, f"fewest values: {case}", got=f"{wm + wn} for each k")
