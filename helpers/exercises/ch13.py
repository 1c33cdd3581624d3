"""Checks for the exercises of chapter 13, autotuning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from helpers.exercises import Check, close_to, exercise


@exercise("13.1", kind="number")
def wave_share(answer: object) -> Check:
    """Share of an H200 that has work with 128x256 tiles at 3072, in percent."""
    return close_to(
        answer,
        100 * 288 / (3 * 132),
        what="share in percent",
        wrong={
            100 * 288 / 132: "that is the waves, times a hundred; the last one is not full",
            288 / (3 * 132): "in percent",
            100 * 24 / 132: "that is the last wave alone",
        },
    )


@exercise("13.2", kind="python")
def fits(answer: Callable[[int, int, int, int], Any]) -> Iterator[Check]:
    """Whether a thread's tile fits in the registers that it may have."""
    for tm, tn, threads, blocks, right, why in (
        (16, 8, 256, 1, True, "the default"),
        (16, 8, 256, 2, False, "two such blocks share the file"),
        (8, 8, 256, 2, True, "exactly as many as there are"),
        (16, 16, 128, 1, False, "no thread has that many"),
        (16, 8, 128, 2, True, "smaller blocks, two of them"),
        (4, 4, 1024, 1, True, "many threads with little each"),
        (8, 8, 1024, 1, False, "the largest block"),
    ):
        case = f"{tm}x{tn} a thread, {threads} threads, {blocks} blocks ({why})"
        got = answer(tm, tn, threads, blocks)
        yield Check(got is not ... and bool(got) == right, case, got=f"{got}", expected=f"{right}")


@exercise("13.3", kind="python")
def best_tile(answer: Callable[[list[tuple[int, int]], int, int, int], Any]) -> Iterator[Check]:
    """The tile with which the busiest SM has the least to do."""
    tiles = [(128, 256), (128, 128), (64, 128), (64, 64)]
    for m, n, sms, right, why in (
        (4096, 4096, 132, (128, 256), "several share the least work: take the largest"),
        (1024, 1024, 132, (64, 128), "few blocks"),
        (512, 512, 132, (64, 64), "hardly a block for every second SM"),
        (2048, 2048, 40, (64, 128), "a GPU with 40 SMs"),
        (4097, 4097, 132, (64, 64), "one row and one column too many"),
    ):
        got = answer(list(tiles), m, n, sms)
        tile = tuple(got) if isinstance(got, (tuple, list)) else got
        yield Check(
            tile == right, f"{m} x {n} on {sms} SMs ({why})", got=f"{got}", expected=f"{right}"
        )
