"""Checks for the exercises of chapter 25, the summit."""

from __future__ import annotations

from helpers.page.exercises import Check, close_to, exercise, number, unseen

number(
    "25.1",
    "Share of a baseline that a ninefold gain brings to 40 %",
    40 / 9,
    tolerance=0.012,  # 4.4 is right, too
    what="share of cuBLAS",
    unit="%",
    hint="The baseline, nine times faster, is at 40 %.",
    mistakes={
        360: "divide, do not multiply",
        0.4 / 9: "give it in percent",
        31: "a factor is divided by, not subtracted",
        4: "read nine times faster as nine times the rate",
    },
)


@exercise("25.2", kind="number")
def which_limit(answer: object) -> Check:
    """TFLOP/s on an H200 where a turn takes 8 clocks to multiply, 11 to issue and 20 to deliver."""
    turn = 32 * 64 * 132 * 1980e6 / 1e12  # TFLOP/s at a clock a turn
    return close_to(
        answer,
        turn / 20,
        tolerance=0.01,
        what="the bound",
        unit="TFLOP/s",
        hint="A turn takes 32 / 4, 44 / 4 and 20 clocks. They overlap, so the largest counts.",
        mistakes={
            turn / 8: "that is the peak of the multiply-adds; the wavefronts take longer",
            turn / 11: "that is the issue slots' bound; the wavefronts take longer",
            turn / 39: "the three run side by side: the longest counts, not their sum",
            turn / 40: "a multiply-add is two operations",
            turn / 20 / 132: "that is one SM",
            1e3 * turn / 20: "that is in GFLOP/s",
        },
    )


@exercise("25.3", kind="number")
def naive_on_a_t4(answer: object) -> Check:
    """GFLOP/s of the naive kernel on a T4: 33 deliveries a step of a warp, a clock each."""
    clocks = 40 * 1590e6 / 1e9  # of all SMs, in GHz
    step = 33
    return close_to(
        answer,
        clocks * 64 / step,
        tolerance=0.01,
        what="the prediction",
        unit="GFLOP/s",
        hint="SMs times clocks a second, times the operations of a step, over the clocks of a "
        "step.",
        mistakes={
            clocks * 64 / 66: "only a full wavefront takes two clocks; each of these is one word",
            clocks * 64 / 32: "the element of B is delivered, too",
            clocks * 64: "a step takes 33 clocks, not one",
            1.590 * 64 / step: "that is one SM",
            clocks * 64 / step * 1e9: "give it in GFLOP/s",
            clocks * 64 / step / 1e3: "give it in GFLOP/s",
        },
    )


unseen.predictions("25.4", unseen.AT_THE_SUMMIT)
