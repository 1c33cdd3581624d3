"""Checks for the exercises of chapter 21, wgmma."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from helpers.chapters.ch21.pictures import ROWS, holder
from helpers.exercises import Check, exercise
from helpers.hopper import DESCRIPTOR, wgmma_descriptor


@exercise("21.1", kind="python")
def descriptor(answer: Callable[[int, int, int], Any]) -> Iterator[Check]:
    """The 64 bits that wgmma finds an operand by, from three numbers of bytes."""
    if answer(0x400, 16, 1024) is ...:
        yield Check(False, "the function returns a number", got="...")
        return
    for start, leading, stride in (
        (0x400, 16, 1024),
        (0x4400, 8192, 1024),
        (3 << 24 | 0x4400, 8192, 1024),
        (0x37C20, 64, 512),
    ):
        word, right = int(answer(start, leading, stride)), wgmma_descriptor(start, leading, stride)
        wrong = [f for f in DESCRIPTOR if f.of(word) != f.of(right)]
        what = f"start {start:#x}, leading stride {leading}, stride {stride}"
        if word == right:
            yield Check(True, what, got=f"{word:#018x}")
            continue
        hint = "some bit is set that belongs to no field"
        if wrong:
            field = wrong[0]
            hint = (
                f"bits {field.first} to {field.last}, {field.name}, should hold {field.of(right)}"
            )
            if start >> 18:
                hint += "; the upper bits of this address name the block of the cluster"
        yield Check(False, what, got=f"{word:#018x}", hint=hint)


@exercise("21.2", kind="python")
def sum_holder(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """Thread of the warpgroup and index in its sum[] of each of the 64 x 256 sums of a wgmma."""
    if not isinstance(answer(0, 0), (tuple, list)):
        yield Check(False, "the function returns two numbers", got=str(answer(0, 0)))
        return
    places = [(row, col) for row in range(ROWS) for col in range(256)]
    given = {place: tuple(int(v) for v in answer(*place)) for place in places}
    right = {place: holder(*place) for place in places}
    apart = len(set(given.values())) == len(places)
    yield Check(
        apart,
        "every sum has a register of its own",
        hint="64 x 256 sums are 128 threads times 128 registers: no two may share one",
    )
    hints = {
        "the warp that holds it": (
            lambda held: held[0] // 32,
            "a warp of the group holds 16 rows: warp = row // 16",
        ),
        "the lane of that warp": (
            lambda held: held[0] % 32,
            "four lanes share eight columns of a row, two neighbours each; rows r and r + 8 of the 16 are "
            "held by the same lanes",
        ),
        "its register there": (
            lambda held: held[1],
            "of each eight columns a thread has four registers: two neighbours of the upper row, then "
            "two of the row eight further down",
        ),
    }
    for what, (part, hint) in hints.items():
        off = next((place for place in places if part(given[place]) != part(right[place])), None)
        yield Check(
            off is None,
            what,
            got="" if off is None else f"sum {off}: {part(given[off])}",
            hint=hint,
        )
