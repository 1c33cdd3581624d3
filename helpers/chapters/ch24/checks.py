"""Checks for the exercises of chapter 24, the whole ladder."""

from __future__ import annotations

from helpers.exercises import Check, close_to, exercise


@exercise("24.1", kind="number")
def baseline(answer: object) -> Check:
    """Share of a baseline that a ninefold gain brings to 40 %."""
    return close_to(
        answer,
        40 / 9,
        tolerance=0.012,  # 4.4 is right, too
        what="share of cuBLAS",
        unit="%",
        hint="The baseline, nine times faster, is at 40 %.",
        wrong={
            360: "divide, do not multiply",
            0.4 / 9: "give it in percent",
            31: "a factor is divided by, not subtracted",
            4: "read nine times faster as nine times the rate",
        },
    )


@exercise("24.2", kind="number")
def of_the_roof(answer: object) -> Check:
    """Share of the T4's roof at 16 FLOP/byte for 4 TFLOP/s."""
    return close_to(
        answer,
        78.125,
        what="share of the roof",
        unit="%",
        hint="First the roof: the lower of the peak and intensity times bandwidth, in the same unit.",
        wrong={
            100 * 4 / 8.1: "that is the share of the peak; memory is the lower roof here",
            4 / 8.1: "that is the share of the peak, and not in percent",
            0.78125: "give it in percent",
            128: "the other way round: what it reaches over what it could reach",
            5.12: "that is the roof, in TFLOP/s",
            5120: "that is the roof, in GFLOP/s",
        },
    )


@exercise("24.3", kind="number")
def naive_on_a_t4(answer: object) -> Check:
    """GFLOP/s of the naive kernel on a T4 at one delivery of L1 a clock, 33 a step of a warp."""
    clocks = 40 * 1590e6 / 1e9  # of all SMs, in GHz
    return close_to(
        answer,
        clocks * 64 / 33,
        tolerance=0.01,
        what="the prediction",
        unit="GFLOP/s",
        hint="SMs times clocks a second, times the operations of a step, over the clocks of a step.",
        wrong={
            clocks * 32 / 33: "a multiply-add is two operations",
            clocks * 64 / 32: "the row of B is delivered, too",
            clocks * 64: "a step takes 33 clocks, not one",
            1.590 * 64 / 33: "that is one SM",
            clocks * 64 / 33 * 1e9: "give it in GFLOP/s",
            clocks * 64 / 33 / 1e3: "give it in GFLOP/s",
        },
    )
