"""Checks for the exercises of chapter 04, the first kernel."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.exercises import Check, check_kernel_source, close_to, exercise


@exercise("04.1", kind="number")
def cover(answer: object) -> Check:
    """Blocks of 16x16 that cover 1000 rows and 300 columns."""
    return close_to(
        answer,
        19 * 63,
        tolerance=0,
        what="number of blocks",
        wrong={
            18 * 62: "rounding down leaves rows and columns without a thread",
            1172: "round up in each direction, then multiply: a block is 16 x 16, not 256 loose threads",
            1000 * 300: "that is the number of threads",
            19 + 63: "the grid is 19 by 63 blocks",
        },
    )


@exercise("04.2", kind="kernel")
def flat(answer: object) -> Sequence[Check]:
    """One thread an element on a one-dimensional grid."""
    return check_kernel_source(
        answer, "flat", block=("256", "1", "1"), grid=("cdiv(M * N, 256)", "1", "1")
    )


@exercise("04.3", kind="number")
def eightfold(answer: object) -> Check:
    """Time when all three dimensions double at a constant rate."""
    return close_to(
        answer,
        520,
        what="time",
        unit="ms",
        wrong={
            260: "C has four times the elements, and each sum is twice as long",
            130: "that is linear in the dimension",
            1040: "eight times, not sixteen: C four times, each sum twice",
        },
    )
