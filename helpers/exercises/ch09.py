"""Checks for the exercises of chapter 09, 2D register blocking."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.exercises import Check, check_kernel_source, close_to, exercise


@exercise("09.1", kind="number")
def reads(answer: object) -> Check:
    """Shared reads per multiply-add of a 4x16 patch."""
    return close_to(
        answer,
        20 / 64,
        tolerance=1e-3,
        what="reads per multiply-add",
        wrong={
            0.25: "that is the 8x8 patch",
            20: "divide by the multiply-adds",
            1 / 20: "a patch of 4 by 16 has 64 multiply-adds, and they need 4 + 16 reads",
            64 / 20: "that is multiply-adds per read",
        },
    )


@exercise("09.2", kind="kernel")
def patch(answer: object) -> Sequence[Check]:
    """A 2x2 patch a thread, in 16x16 threads."""
    return check_kernel_source(
        answer,
        "patch",
        block=("16", "16", "1"),
        grid=("cdiv(N, 32)", "cdiv(M, 32)", "1"),
        require=("__shared__",),
    )


@exercise("09.3", kind="number")
def blocks(answer: object) -> Check:
    """Blocks of 128x128 tiles for a 2048x2048 C."""
    return close_to(answer, 256, tolerance=0, what="blocks", wrong={16: "that is one direction"})
