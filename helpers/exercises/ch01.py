"""Checks for the exercises of chapter 01, your GPU."""

from __future__ import annotations

from helpers.exercises import Check, close_to, exercise


@exercise("01.1", kind="number")
def warps(answer: object) -> Check:
    """Warps of a block of 20x20 threads."""
    return close_to(
        answer,
        13,
        tolerance=0,
        what="number of warps",
        wrong={
            12: "the last 16 threads need a warp too",
            12.5: "warps are whole",
            20: "rows are not padded to a warp: threads are numbered through, row after row",
        },
    )


@exercise("01.2", kind="number")
def peak(answer: object) -> Check:
    """FP32 peak of 58 SMs with 128 lanes at 2.5 GHz, in TFLOP/s."""
    right = 58 * 128 * 2 * 2.5e9 / 1e12
    return close_to(
        answer,
        right,
        what="peak",
        unit="TFLOP/s",
        wrong={
            right / 2: "a multiply-add is two operations",
            right * 1e3: "that is GFLOP/s",
            right * 1e12: "that is FLOP/s",
        },
    )


@exercise("01.3", kind="number")
def fits(answer: object) -> Check:
    """Blocks of 768 threads with 64 registers on an SM of 65536 registers and 1536 threads."""
    return close_to(
        answer,
        1,
        tolerance=0,
        what="blocks an SM",
        wrong={
            2: "that is the limit by threads; count the registers too",
            65536 / (768 * 64): "blocks are whole: round down",
        },
    )
