"""Checks for the exercises of chapter 16, Hopper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from helpers.exercises import Check, close_to, exercise

BOX_COLS = 64
CHUNK = 8
"""Elements of two bytes in the 16 bytes that the swizzle moves as one."""


def _walk(stages: int, steps: int) -> Iterator[tuple[int, int, int]]:
    """Stage and both parities of each step, counted as kernels/common/mbarrier.cuh counts them."""
    stage, parity = 0, 0
    for _ in range(steps):
        yield stage, parity, parity ^ 1
        stage += 1
        if stage == stages:
            stage, parity = 0, parity ^ 1


@exercise("16.1", kind="python")
def ring_place(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """Where a step lies in the ring, and the parities that its two waits name."""
    if answer(0, 2) is ...:
        yield Check(False, "the function returns three numbers", got="...")
        return
    for stages in (2, 3, 4):
        wrong = ""
        for step, right in enumerate(_walk(stages, 3 * stages + 1)):
            got = tuple(int(value) for value in answer(step, stages))
            if got != right:
                wrong = f"step {step}: {got}"
                hint = (
                    "the producer's first round must not wait: it names the phase before the first"
                    if got[:2] == right[:2]
                    else "the parity changes once a round, not once a step"
                )
                yield Check(False, f"a ring of {stages}", got=wrong, hint=hint)
                break
        if not wrong:
            yield Check(True, f"a ring of {stages}, three rounds and a step")


def _swizzled(row: int, col: int) -> int:
    """Byte offset of an element of a swizzled box (kernels/common/tma.cuh)."""
    chunk = col // CHUNK ^ row % 8
    return 2 * (row * BOX_COLS + chunk * CHUNK + col % CHUNK)


@exercise("16.2", kind="python")
def swizzled_offset(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """The 128-byte swizzle of a box of 64 x 64 elements of two bytes."""
    places = [(row, col) for row in range(64) for col in range(BOX_COLS)]
    given = {place: int(answer(*place)) for place in places}
    apart = len(set(given.values())) == len(places)
    yield Check(apart, "every element has a place of its own", hint="move chunks, not elements")
    stays = all(given[row, col] // 128 == row for row, col in places)
    yield Check(stays, "an element stays in its row", hint="a row is 128 bytes")
    banks = {given[row, 0] % 128 // 16 for row in range(8)}
    yield Check(
        len(banks) == 8,
        "the first chunks of eight rows lie in eight different groups of banks",
        got=f"{len(banks)} different",
        hint="exclusive or with the row",
    )
    off = next((place for place in places if given[place] != _swizzled(*place)), None)
    yield Check(
        off is None,
        "the copy engine puts every element there, too",
        got="" if off is None else f"element {off} at byte {given[off]}",
        hint="chunk c of row r lies at chunk c ^ (r % 8)",
    )


@exercise("16.3", kind="number")
def stages_that_fit(answer: object) -> Check:
    """Stages of 128x64 and 64x256 two-byte tiles in 225 KB, beside 32 KB for C."""
    return close_to(
        answer,
        4,
        tolerance=0,
        what="stages",
        wrong={
            2: "an element has two bytes, not four",
            14: "a stage holds a tile of A and one of B",
            6: "a stage holds a tile of A, too",
            9: "count in bytes: 1 KB is 1024 bytes, an element takes two",
        },
    )


@exercise("16.4", kind="number")
def last_round(answer: object) -> Check:
    """Percent of the SMs' time with work: 5120 cubed, clusters of two 128x256 tiles, 66 clusters."""
    return close_to(
        answer,
        100 * 400 / (7 * 66),
        tolerance=0.005,
        what="time with work",
        unit="%",
        wrong={
            400 / (7 * 66): "give it in percent",
            100 * (400 % 66) / 66: "that is the last round alone",
            100: "the last round takes as long as a full one",
            100 * 400 / (6 * 66): "six rounds do not hold all tiles",
        },
    )
