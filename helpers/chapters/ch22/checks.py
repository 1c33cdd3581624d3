"""Checks for the exercises of chapter 22, the last ten percent."""

from collections.abc import Callable, Iterator
from typing import Any

from helpers.chapters.ch22.fp8 import LARGEST
from helpers.ladder import cuts
from helpers.ladder.hopper import BOX_COLS
from helpers.page.exercises import Check, close_to, exercise, number
from nogpu.device import gpu


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
            hint="its own part is not all that lands: the other block's part counts at this "
            "barrier, too"
            if announced == fetched
            else "a stage holds BM x 64 elements of A and 64 x BN of B, two bytes each",
        )
        deepest = (225 * 1024 - c_bytes) // stage  # beside the boxes of C, by the catalog's rule
        yield Check(
            stages == deepest,
            f"deepest ring, {what}",
            got=str(stages),
            hint="one more would not fit beside C"
            if stages > deepest
            else "a whole tile of A and of B lies in each block's stage, whoever fetched it",
        )


@exercise("22.2", kind="python")
def adding_up(answer: Callable[[int, float], Any]) -> Iterator[Check]:
    """KB that the busiest block moves to add up a tile of several parts: one owner, or shares."""
    if not isinstance(answer(2, 128.0), (tuple, list)):
        yield Check(False, "the function returns two numbers", got=str(answer(2, 128.0)))
        return
    for parts, tile in ((3, 96.0), (2, 128.0), (4, 128.0), (8, 64.0)):
        one, shares = (float(value) for value in answer(parts, tile))
        what, one_owner = f"{parts} parts of {tile:g} KB", (parts - 1) * tile
        yield close_to(
            one,
            one_owner,
            what=f"{what}, one owner",
            hint="the owner has its own part in registers, and takes all the others",
            mistakes={
                parts * tile: "the owner need not fetch its own part",
                tile: "it takes a tile from each",
            },
        )
        moved = cuts.Work(parts, 1, 64 * parts, 1.0, 0.0, round(1024 * tile), parts, True)
        yield close_to(
            shares,
            sum(cuts.handed(moved, cuts.Division(0, parts))) / 1024,
            what=f"{what}, a share each",
            hint="a block leaves what the others own, and takes its share from each of them",
            mistakes={
                one_owner / parts: "that is what it takes; it leaves as much",
                2 * tile: "what it owns itself, it need not leave",
                2 * one_owner: "a share is one of as many pieces of a tile as there are parts",
            },
        )


number(
    "22.3",
    "SM time with a tile, of 400 pairs on 66 clusters in whole rounds",
    100 * 400 / (7 * 66),
    tolerance=0.005,
    what="SM time with a tile",
    unit="%",
    hint="400 pairs take seven rounds of 66 clusters, and the last round is not full.",
    mistakes={
        400 / (7 * 66): "give it in percent",
        100 - 100 * 400 / (7 * 66): "that is the time without a tile",
        100 * 4 / 66: "that is the last round alone",
        100 * 400 / (4 * 132): "a cluster takes two SMs: 66 pairs a round",
    },
)


number(
    "22.4",
    "Largest over another element of a block that keeps its fraction, in e4m3",
    LARGEST / 2**-6,
    tolerance=0.001,
    what="the largest over the other",
    hint="the other must be a normal number after it is divided by the scale",
    mistakes={
        LARGEST / 2**-9: "that one is the least of all, and has one bit left",
        LARGEST: "numbers below one have normal exponents, too",
        2**14: "448 is almost two to the power of nine",
        2**15: "448 is less than two to the power of nine",
    },
)


_H200 = gpu("h200")
_SHORT = 2 * _H200.peak_gflops("bf16") / _H200.bandwidth_gbs  # K where both take the same time

number(
    "22.5",
    "K from which on a second launch takes less than a twentieth of the product, H200",
    20 * _SHORT,
    tolerance=0.01,
    what="K",
    hint="M and N cancel: 2 M N K floating-point operations, and 4 M N bytes",
    mistakes={
        10 * _SHORT: "C is read and written",
        40 * _SHORT: "a multiply-add is two operations",
        _SHORT: "there the second launch takes as long as the product",
    },
)
