"""Checks for the exercises of chapter 09, 2D register blocking."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from helpers.page.exercises import (
    Check,
    KernelTask,
    checked_report,
    close_to,
    exercise,
    from_tiles,
    matmul_problem,
    number,
    unseen,
)
from nogpu import emulator
from nogpu.errors import TileError


@exercise("09.1", kind="python")
def two_prices(answer: Any) -> Iterator[Check]:
    """A pair, (reads, wavefronts), for each multiply-add of a patch of 16 by 4."""
    try:
        reads, wavefronts = answer
    except (TypeError, ValueError):
        what, hint = "two numbers, reads and wavefronts", "Give both, as in (reads, wavefronts)."
        yield Check(False, what, got=f"{answer!r}"[:80], hint=hint)
        return
    yield close_to(
        reads,
        20 / 64,
        tolerance=0.015,
        what="reads per multiply-add",
        mistakes={
            0.25: "that is the 8x8 patch",
            20: "divide by the multiply-adds",
            64: "that is the multiply-adds; the reads are the values of A and B",
            1 / 20: "a patch of 16 by 4 has 64 multiply-adds, and they need 16 + 4 reads",
            64 / 20: "that is multiply-adds per read",
            12 / 64: "that is the wavefronts: give the reads first",
        },
        hint="TM + TN values are read for TM · TN multiply-adds.",
    )
    yield close_to(
        wavefronts,
        12 / 64,
        tolerance=0.015,
        what="wavefronts per multiply-add",
        mistakes={
            12: "divide by the multiply-adds",
            64 / 12: "that is multiply-adds per wavefront",
            20 / 64: "that is the reads: a value of A costs only half a wavefront",
            68 / 64: "that is the mirror image, TM = 4 and TN = 16",
            9 / 32: "a value of A is used TN times and one of B TM times, not the other way round",
            1.5: "that is one value of each: they are used for many multiply-adds",
        },
        hint="16 values of A at half a wavefront and 4 of B at one, for 64 multiply-adds.",
    )


EDGE, T = 64, 16
"""Edge of the matrices on which requests are counted, and of the exercise's block of threads."""


def sums_right(answer: object) -> int:
    """How many of a thread's four sums are right, in every thread; 0 if the kernel does not run."""
    made = matmul_problem(np.random.default_rng(9), EDGE, EDGE, EDGE, "float32")
    grid = (EDGE // (2 * T), EDGE // (2 * T), 1)
    try:
        emulator.launch(str(answer), "patch", grid, (T, T, 1), list(made.args))
    except TileError:
        return 0
    ok = made.args[2] == made.outputs[2]
    places = ok.reshape(EDGE // (2 * T), 2, T, EDGE // (2 * T), 2, T)
    return int(places.all(axis=(0, 2, 3, 5)).sum())


@exercise("09.2", kind="kernel")
def patch(answer: object) -> Iterator[Check]:
    """A 2x2 patch a thread, in 16x16 threads."""
    grid = ("cdiv(N, 32)", "cdiv(M, 32)", "1")
    task = KernelTask("patch", block=(T, T), grid=grid, require=("__shared__",))
    report = yield from checked_report(answer, task, (EDGE, EDGE, EDGE))
    if report is None:
        right = sums_right(answer)
        if 0 < right < 4:
            hint = "Four sums, four multiply-adds: each value of A goes with each value of B."
            yield Check(False, "the four sums of a thread", got=f"{right} of 4 right", hint=hint)
        return
    yield from from_tiles(
        report,
        EDGE**3 / 32,
        1.0,
        "(2 + 2) / (2 · 2)",
        reads="Read two values of A_tile and two of B_tile for each k, and use each of them twice.",
        loads="The loads into the tiles are written already: take the operands from there.",
    )


number(
    "09.3",
    "Blocks of 128x128 tiles for a 2048x2048 C",
    256,
    tolerance=0,
    what="blocks",
    mistakes={
        16: "that is one direction",
        32: "multiply the two directions, do not add them",
        132: "that is the SMs of an H200: the grid follows from the size of C",
        128: "that is the edge of a tile",
        2048 * 2048: "that is the elements of C: a block computes 128 · 128 of them",
    },
    hint="How many tiles fit along one edge of C, and along both?",
)


unseen.predictions("09.4", unseen.AFTER_PATCHES)
