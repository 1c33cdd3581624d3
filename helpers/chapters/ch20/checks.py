"""Checks for the exercises of chapter 20, the copy engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from helpers import emulator
from helpers.errors import TileError
from helpers.exercises import Check, exercise
from helpers.exercises.results import raised
from helpers.hopper import BOX_BYTES, BOX_COLS
from helpers.text import without_comments

CHUNK = 8
"""Elements of two bytes in the 16 bytes that the swizzle moves as one."""


BOX_ROWS = 64


def _swizzled(row: int, col: int) -> int:
    """Byte offset of an element of a tile of B, box after box (kernels/common/tma.cuh)."""
    box, col = divmod(col, BOX_COLS)
    chunk = col // CHUNK ^ row % 8
    return BOX_BYTES * box + 2 * (row * BOX_COLS + chunk * CHUNK + col % CHUNK)


@exercise("20.1", kind="python")
def swizzled_offset(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """A 64 x 256 tile of two-byte elements: four boxes with the 128-byte swizzle."""
    if answer(0, 0) is ...:
        yield Check(False, "the function returns a number of bytes", got="...")
        return
    places = [(row, col) for row in range(BOX_ROWS) for col in range(4 * BOX_COLS)]
    given = {place: int(answer(*place)) for place in places}
    apart = len(set(given.values())) == len(places)
    yield Check(
        apart,
        "every element has a place of its own",
        hint="an element keeps its place within its chunk, col % 8, and an XOR keeps the chunks apart",
    )
    elements = all(2 * given[place] == _swizzled(*place) for place in places)
    boxes = all(given[row, col] // BOX_BYTES == col // BOX_COLS for row, col in places)
    yield Check(
        boxes,
        "a box is whole before the next one begins",
        hint="count bytes: an element has two"
        if elements
        else "64 columns are a box of 64 rows of 128 bytes; the next 64 lie behind all of them",
    )
    stays = all(given[row, col] % BOX_BYTES // 128 == row for row, col in places)
    yield Check(stays, "an element stays in its row of the box", hint="a row is 128 bytes")
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


STEPS = 7
"""More than twice around the ring of two slots."""


@exercise("20.2", kind="kernel")
def relay(answer: object) -> Iterator[Check]:
    """A warp fills a ring of two slots, another empties it: numbers pass in order, doubled."""
    x = np.random.default_rng(20).standard_normal(32 * STEPS).astype(np.float32)
    y = np.full_like(x, np.nan)
    source = str(answer)
    try:
        report = emulator.launch(
            source, "relay", (1, 1, 1), (64, 1, 1), [x, y, STEPS], arch="sm_90", name="relay.cu", max_seconds=20
        )  # fmt: skip
    except TileError as error:
        yield raised("the kernel runs", error)
        return
    found = sorted(report.findings, key=lambda finding: finding.kind != "divergent-barrier")
    kinds = {finding.kind for finding in found}
    hint = ""
    if "divergent-barrier" in kinds:
        hint = (
            "somebody waits for a phase that does not end. The producer's first round must not wait, and as many "
            "threads must arrive as the barrier was set up for"
        )
    elif "race" in kinds:
        hint = (
            "a slot is overwritten that the other warp may still read, or read before it is full: the producer "
            "waits for empty, where the consumer arrives when it has read; the consumer waits for full"
        )
    yield Check(
        not report.findings,
        "no slot is overwritten before it was read, and nobody waits for ever",
        got="; ".join(f"line {f.line}, {f.kind}" for f in found[:2]),
        hint=hint,
    )
    yield Check(
        bool(np.array_equal(y, 2 * x)),
        f"{STEPS} steps arrive in order, doubled",
        hint="both warps go through the slots in the same order, one step at a time",
    )
    bars = without_comments(source).count("__syncthreads")
    yield Check(
        bars == 1,
        "the whole block meets once, when the barriers are set up",
        got=f"{bars} times in the text",
        hint="the two warps meet at full and empty alone, so that one may be a slot ahead",
    )
