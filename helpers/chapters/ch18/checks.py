"""Checks for the exercises of chapter 18, mma.sync: fragments, swizzle, ldmatrix."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from helpers.page.exercises import Check, exercise
from nogpu import emulator

PARTS = (
    "lane 4g + t holds elements 2t and 2t + 1 of row g: here a row of B, and its columns",
    "register 0 holds the matrix of rows 0 to 7, register 1 the one of rows 8 to 15",
    "half 0 is the first of the two neighbouring columns",
)
"""What to think of where a lane, a register or a half is wrong, in exercise 18.1."""


@exercise("18.1", kind="python")
def holder(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """(lane, register, half) of each element of a 16x8 fragment read by ldmatrix without .trans."""
    if not isinstance(answer(0, 0), (tuple, list)) or len(answer(0, 0)) != 3:
        yield Check(False, "the function returns (lane, register, half)", got=str(answer(0, 0)))
        return
    places = {}
    for k, col in np.ndindex(16, 8):
        lane, register, half = answer(k, col)
        places[k, col] = (int(lane), int(register), int(half))
    yield Check(
        len(set(places.values())) == 16 * 8,
        "no two elements share a place",
        got=f"{len(set(places.values()))} different places for {16 * 8} elements",
        hint="32 lanes, two registers and two halves are as many places as B has elements",
    )
    # What ldmatrix.x2 does: lane l receives elements 2t, 2t+1 of row g of matrix i in register i.
    slots = ((lane, i, half) for lane in range(32) for i in range(2) for half in range(2))
    loaded = {(n, i, half): (8 * i + n // 4, n % 4 * 2 + half) for n, i, half in slots}
    misplaced = [element for element, place in places.items() if loaded.get(place) != element]
    at = misplaced[0] if misplaced else None
    first = f"B[{at[0]}, {at[1]}] is not at {places[at]}" if at else ""
    right = {element: place for place, element in loaded.items()}
    # the first of the three numbers that is ever wrong
    off = (i for i in range(3) if any(places[e][i] != right[e][i] for e in misplaced))
    wrong_part = PARTS[next(off, 0)]
    exchanged = all(  # the layout that mma.sync wants, which .trans would give
        place == (col * 4 + k % 8 // 2, k // 8, k % 2) for (k, col), place in places.items()
    )
    yield Check(
        not misplaced,
        "every element is where ldmatrix puts it",
        got=first,
        hint="that is B as mma.sync wants it; without .trans a lane holds two neighbours of a row "
        "of B"
        if exchanged
        else wrong_part,
    )


@exercise("18.2", kind="python")
def place(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """A conflict-free layout of rows of 32 two-byte elements, two rows in a line of 128 bytes."""
    rows, cols = 16, 32
    index = np.array([[int(answer(r, c)) for c in range(cols)] for r in range(rows)])
    own = (index // cols == np.arange(rows)[:, None]).all()
    hint = "row r keeps the indices from 32r on: only chunks within it change places"
    yield Check(bool(own), "every row stays within its own 32 elements", hint=hint)
    whole = len(np.unique(index)) == index.size
    hint = "an XOR of the chunk with a number below four keeps chunks apart"
    yield Check(whole, "no two elements share a place", hint=hint)
    first = index[:, ::8]
    whole_chunks = (index.reshape(rows, -1, 8) == first[:, :, None] + np.arange(8)).all()
    aligned = (first % 8 == 0).all()
    what = "chunks of eight stay whole and aligned to 16 bytes"
    hint = "only the number of the chunk, col // 8, changes; col % 8 stays"
    yield Check(bool(whole_chunks and aligned), what, hint=hint)
    groups = (first // 8 % 8).reshape(rows // 8, 8, -1)  # groups of four banks, by eight rows
    columns = (groups[i, :, c] for i in range(groups.shape[0]) for c in range(groups.shape[2]))
    most = max(int(np.bincount(column).max()) for column in columns)
    yield Check(
        most == 1,
        "eight neighbouring rows of a chunk lie in 32 different banks",
        got=f"up to {most} of them in the same four banks",
        hint="two rows share a line of 128 bytes: the number to XOR with belongs to the line, not "
        "to the row",
    )


@exercise("18.3", kind="kernel")
def fragments(answer: object) -> Iterator[Check]:
    """Four fragments of a 16x64 tile by ldmatrix, four wavefronts for each read and each store."""
    x = np.random.default_rng(15).integers(0, 1 << 16, (16, 64)).astype(np.uint16)
    out = np.zeros((4, 32, 4), np.uint32)
    report = emulator.launch(
        str(answer), "fragments", (1, 1, 1), (32, 1, 1), [x.view(np.uint32).reshape(-1, 4), out]
    )
    expected = np.zeros((4, 32, 4, 2), np.uint16)
    for step, lane, i, half in np.ndindex(expected.shape):
        row = lane // 4 + i % 2 * 8
        expected[step, lane, i, half] = x[row, step * 16 + i // 2 * 8 + lane % 4 * 2 + half]
    differ = int((out.view(np.uint16).reshape(expected.shape) != expected).sum())
    got, hint = f"{differ} wrong elements", "a chunk must be read from where it was stored"
    yield Check(differ == 0, "every lane gets its elements", got=got, hint=hint)
    faults = "; ".join(str(f) for f in report.findings)
    yield Check(not report.findings, "no fault", got=faults)
    by_ldmatrix = sum(n for op, n in report.instructions.items() if op.startswith("ldmatrix"))
    other = sum(n for op, n in report.instructions.items() if op.startswith("ld.shared"))
    fetched = sum(a.sectors for a in report.by_line() if (a.space, a.op) == ("global", "load"))
    yield Check(
        by_ldmatrix >= 4 and other == 0 and fetched == x.nbytes // 32,
        "ldmatrix does the reading",
        got=f"{by_ldmatrix} calls of ldmatrix and {other} other reads of shared memory; {fetched} "
        f"sectors from global memory for a tile of {x.nbytes // 32}",
        hint="stage x once, and read all four fragments with ldmatrix_x4",
    )
    for op, words in (("load", "read"), ("store", "store")):
        accesses = [a for a in report.by_line() if a.space == "shared" and a.op == op]
        most = max((a.wavefronts_per_request for a in accesses), default=0.0)
        what, got = f"at most four wavefronts for each {words}", f"{most:g} wavefronts for each"
        hint = "where do the chunks of eight neighbouring rows lie?"
        yield Check(0 < most <= 4, what, got=got, hint=hint)
