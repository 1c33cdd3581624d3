"""Checks for the exercises of chapter 06, tiling."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.exercises import Check, check_kernel_source, close_to, exercise


@exercise("06.1", kind="number")
def rectangle(answer: object) -> Check:
    """Arithmetic intensity of a 64x16 tile of C, FLOP per byte."""
    return close_to(
        answer,
        64 * 16 / (2 * (64 + 16)),
        what="intensity",
        unit="FLOP/byte",
        wrong={
            3.2: "a multiply-add is two operations",
            12.8: "a float has four bytes, and a multiply-add is two operations",
            25.6: "that is FLOP per float; a float has four bytes",
            8: "that is the square tile of the same area",
        },
    )


@exercise("06.2", kind="kernel")
def repaired(answer: object) -> Sequence[Check]:
    """A tiled kernel with three faults, to be made right for every shape."""
    return check_kernel_source(
        answer,
        "repaired",
        block=("16", "16", "1"),
        grid=("cdiv(N, 16)", "cdiv(M, 16)", "1"),
        require=("__shared__",),
    )


@exercise("06.3", kind="number")
def largest_tile(answer: object) -> Check:
    """Largest power of two T with two TxT float tiles in 48 KB."""
    return close_to(
        answer,
        64,
        tolerance=0,
        what="largest tile edge",
        wrong={
            128: "two tiles of 128x128 floats take 128 KB",
            78: "that fits, but is not a power of two",
            110: "one tile of 110x110 fits; there are two",
            32: "that is the limit by threads; the question is about memory",
        },
    )
