"""Checks for the exercises of chapter 22, the last ten percent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from helpers.exercises import Check, close_to, exercise
from helpers.hopper import BOX_COLS, stream_k_pieces


def _deepest(stage_bytes: int, c_bytes: int) -> int:
    """Stages that fit beside the boxes of C, by the rule that the catalog states."""
    return (225 * 1024 - c_bytes) // stage_bytes


@exercise("22.1", kind="python")
def announced_and_deepest(answer: Callable[[int, int, int, int], Any]) -> Iterator[Check]:
    """Bytes that a producer announces for a stage, and the deepest ring that fits."""
    if not isinstance(answer(128, 128, 1, 0), (tuple, list)):
        yield Check(False, "the function returns two numbers", got=str(answer(128, 128, 1, 0)))
        return
    for bm, bn, cluster, c_bytes in (
        (128, 128, 1, 0),
        (128, 256, 1, 0),
        (128, 256, 2, 0),
        (128, 256, 2, 32 * 1024),
        (64, 256, 2, 16 * 1024),
        (128, 128, 1, 32 * 1024),  # the bytes for C cost a stage
    ):
        announced, stages = (int(value) for value in answer(bm, bn, cluster, c_bytes))
        stage = 2 * BOX_COLS * (bm + bn)
        what = (
            f"{bm} x {bn}, {cluster} block{'s' * (cluster > 1)} a cluster, {c_bytes:,} bytes for C"
        )
        fetched = 2 * BOX_COLS * (bm + bn // cluster)
        yield Check(
            announced == stage,
            f"bytes announced, {what}",
            got=f"{announced:,}",
            hint="its own part is not all that lands: the other block's part counts at this barrier, too"
            if announced == fetched
            else "a stage holds BM x 64 elements of A and 64 x BN of B, two bytes each",
        )
        deepest = _deepest(stage, c_bytes)
        yield Check(
            stages == deepest,
            f"deepest ring, {what}",
            got=str(stages),
            hint="one more would not fit beside C"
            if stages > deepest
            else "a whole tile of A and of B lies in each block's stage, whoever fetched it",
        )


@exercise("22.2", kind="python")
def rounds(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """Time of tiles over workers, in tiles: whole, and with the last ones cut along k."""
    if not isinstance(answer(5, 4), (tuple, list)):
        yield Check(False, "the function returns two numbers", got=str(answer(5, 4)))
        return
    for tiles, workers in ((5, 4), (3, 4), (8, 4), (400, 66), (2048, 132)):
        whole, cut = (float(value) for value in answer(tiles, workers))
        what = f"{tiles} tiles on {workers}"
        yield close_to(
            whole,
            -(-tiles // workers),
            tolerance=0,
            what=f"{what}, whole",
            hint="how many tiles does the busiest worker get?",
            wrong={
                tiles / workers: "a tile that has begun takes its whole time: round up",
                tiles // workers: "the last round is not full, and takes its time all the same",
            },
        )
        steps = 64 * workers  # of k in a tile: as many as divide evenly
        longest = max(
            sum(piece.end - piece.begin for piece in stream_k_pieces(w, workers, tiles, steps))
            for w in range(workers)
        )
        yield close_to(
            cut,
            longest / steps,
            what=f"{what}, cut",
            hint="all the tiles, shared evenly among the workers",
            wrong={
                tiles / workers: "with no more tiles than workers nothing is cut",
                float(-(-tiles // workers)): "all get an equal share, and nobody waits",
            },
        )
