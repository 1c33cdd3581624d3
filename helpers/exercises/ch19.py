"""Checks for the exercises of chapter 19, the whole ladder."""

from __future__ import annotations

from helpers.exercises import Check, close_to, exercise


@exercise("19.1", kind="number")
def baseline(answer: object) -> Check:
    """Share of a baseline that a ninefold gain brings to 40 %."""
    return close_to(
        answer, 40 / 9, what="share of cuBLAS", unit="%", wrong={360: "divide, do not multiply"}
    )


@exercise("19.2", kind="number")
def of_the_roof(answer: object) -> Check:
    """Share of the T4's roof at 16 FLOP/byte for 4 TFLOP/s."""
    return close_to(
        answer,
        78.125,
        what="share of the roof",
        unit="%",
        wrong={100 * 4 / 8.1: "that is the share of the peak; memory is the lower roof here"},
    )
