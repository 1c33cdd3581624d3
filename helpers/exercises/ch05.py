"""Checks for the exercises of chapter 05, coalescing."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.exercises import Check, check_kernel_source, close_to, exercise


@exercise("05.1", kind="number")
def stride_of_three(answer: object) -> Check:
    """Sectors of one request when lanes read every third float."""
    return close_to(
        answer,
        12,
        tolerance=0,
        what="sectors of the request",
        wrong={
            4: "four sectors hold 32 floats side by side",
            11: "count the sector that holds the last float too",
            11.75: "sectors are whole",
            32: "a sector holds eight floats, and lanes are three apart",
        },
    )


@exercise("05.2", kind="kernel")
def fixed_grid(answer: object) -> Sequence[Check]:
    """A 32x8 block on a grid over rows, coalesced by renumbering its threads."""
    return check_kernel_source(
        answer,
        "fixed_grid",
        block=("32", "8", "1"),
        grid=("cdiv(M, 32)", "cdiv(N, 8)", "1"),
        max_sectors={"A": 4, "B": 4, "C": 4},
    )


@exercise("05.3", kind="number")
def column_of_doubles(answer: object) -> Check:
    """Share of fetched bytes used when each lane reads one double of a column, in percent."""
    return close_to(
        answer,
        25,
        what="share of bytes used",
        unit="%",
        wrong={12.5: "that is a float; a double has 8 bytes", 0.25: "give it as a percentage"},
    )
