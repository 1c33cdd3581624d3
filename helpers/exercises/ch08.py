"""Checks for the exercises of chapter 08, 1D register blocking."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.exercises import Check, check_kernel_source, close_to, exercise


@exercise("08.1", kind="number")
def reads(answer: object) -> Check:
    """Shared reads per multiply-add with a column of 16."""
    return close_to(
        answer,
        17 / 16,
        tolerance=1e-3,
        what="reads per multiply-add",
        wrong={2: "that is one element a thread", 17: "divide by the multiply-adds"},
    )


@exercise("08.2", kind="kernel")
def row_blocked(answer: object) -> Sequence[Check]:
    """Four elements of a row a thread, in 16x16 threads."""
    return check_kernel_source(
        answer,
        "row_blocked",
        block=("16", "16", "1"),
        grid=("cdiv(N, 64)", "cdiv(M, 16)", "1"),
        require=("__shared__",),
    )


@exercise("08.3", kind="number")
def threads(answer: object) -> Check:
    """Threads of a 128x128 tile with 16 elements each."""
    return close_to(
        answer, 1024, tolerance=0, what="threads", wrong={16384: "that is one element a thread"}
    )
