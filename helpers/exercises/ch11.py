"""Checks for the exercises of chapter 11, pipelining."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.exercises import (
    Check,
    check_kernel_source,
    close_to,
    exercise,
    without_comments,
)


@exercise("11.1", kind="number")
def under_way(answer: object) -> Check:
    """Tiles under way that cover 800 clocks at 300 clocks a tile."""
    return close_to(
        answer,
        3,
        tolerance=0,
        what="tiles under way",
        wrong={2: "600 clocks are not 800", 4: "the tile in use is not under way any more"},
    )


@exercise("11.2", kind="number")
def shared_kb(answer: object) -> Check:
    """KB of four stages of 128x16 and 16x128 float32 tiles."""
    return close_to(
        answer,
        64,
        tolerance=0,
        what="shared memory",
        unit="KB",
        wrong={16: "that is one stage", 32: "count both tiles", 65536: "give it in KB"},
    )


@exercise("11.3", kind="kernel")
def two_buffers(answer: object) -> Sequence[Check]:
    """A double buffer with exactly one barrier, in the right place."""
    checks = check_kernel_source(
        answer,
        "two_buffers",
        block=("16", "16", "1"),
        grid=("cdiv(N, 16)", "cdiv(M, 16)", "1"),
        require=("__shared__",),
    )
    barriers = without_comments(str(answer)).count("__syncthreads()")
    one = Check(barriers == 1, "one barrier in the loop", got=str(barriers), hint="move it")
    return (*checks, one)
