"""Checks for the exercises of chapter 25, the summit, and of its page on Blackwell."""

from collections.abc import Iterator, Sequence

import numpy as np

from helpers.page.exercises import Check, exercise, number, unseen
from helpers.page.exercises.results import raised
from nogpu import emulator
from nogpu.bfloat16 import from_bfloat16, to_bfloat16
from nogpu.errors import TileError

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


TURN = 32 * 64 * 132 * 1980e6 / 1e12
"""TFLOP/s of an H200 at a clock a turn, in exercise 25.2."""

number(
    "25.2",
    "TFLOP/s on an H200 where a turn takes 8 clocks to multiply, 11 to issue and 20 to deliver",
    TURN / 20,
    tolerance=0.01,
    what="the bound",
    unit="TFLOP/s",
    hint="A turn takes 32 / 4, 44 / 4 and 20 clocks. They overlap, so the largest counts.",
    mistakes={
        TURN / 8: "that is the peak of the multiply-adds; the wavefronts take longer",
        TURN / 11: "that is the issue slots' bound; the wavefronts take longer",
        TURN / 39: "the three run side by side: the longest counts, not their sum",
        TURN / 40: "a multiply-add is two operations",
        TURN / 20 / 132: "that is one SM",
        1e3 * TURN / 20: "that is in GFLOP/s",
    },
)


CLOCKS = 40 * 1590e6 / 1e9
"""Of all SMs of a T4, in GHz, and clocks of a step of a warp, in exercise 25.3."""
STEP = 33

number(
    "25.3",
    "GFLOP/s of the naive kernel on a T4: 33 deliveries a step of a warp, a clock each",
    CLOCKS * 64 / STEP,
    tolerance=0.01,
    what="the prediction",
    unit="GFLOP/s",
    hint="SMs times clocks a second, times the operations of a step, over the clocks of a step.",
    mistakes={
        CLOCKS * 64 / 66: "only a full wavefront takes two clocks; each of these is one word",
        CLOCKS * 64 / 32: "the element of B is delivered, too",
        CLOCKS * 64: "a step takes 33 clocks, not one",
        1.590 * 64 / STEP: "that is one SM",
        CLOCKS * 64 / STEP * 1e9: "give it in GFLOP/s",
        CLOCKS * 64 / STEP / 1e3: "give it in GFLOP/s",
    },
)


unseen.predictions("25.4", unseen.AT_THE_SUMMIT)

number(
    "25.5",
    "Columns of tensor memory for sums and scales",
    256,
    what="columns",
    hint="128 of sums, and for each of four stages 16 and 16 of scales. Only powers of two can be "
    "allocated.",
    mistakes={
        160: "each of the four stages has scales of its own",
        192: "A and B both have scales",
        512: "the sum is a power of two already",
    },
)


SIDE = 128
"""Rows that a block multiplies, and columns of the product, in exercises 25.6 and 25.7."""
Hints = Sequence[tuple[str, str]]
"""Words of a finding, and what they hint at; the first that fits is said."""


def _product(answer: object, blocks: int, hints: Hints, wrong: str) -> Iterator[Check]:
    """A kernel `product` in whole numbers, at one step of k and at five, in two orders of warps.

    wrong: the hint where C is not right and nothing is found.
    """
    try:
        for depth, schedule in ((64, "ascending"), (320, "permuted")):
            report, columns = _launched(str(answer), blocks, depth, schedule)
            if report.findings or columns:
                break
    except TileError as error:
        yield raised("the kernel runs", error)
        return
    messages = " ".join(f.message for f in report.findings)
    words, hint = next(((w, h) for w, h in hints if w in messages), ("", ""))
    first = [f for f in report.findings if words in f.message][:1]
    yield Check(
        not report.findings,
        "nothing is read, refilled or freed too early, and nobody waits for ever",
        got="".join(f"line {f.line}, {f.kind}: {f.message}" for f in first),
        hint=hint or "the finding says what to wait for",
    )
    yield Check(
        not columns,
        f"C is right, {blocks * SIDE} x {SIDE}",
        got=f"columns {columns[0]} to {columns[-1]} are not" if columns else "",
        hint="first what is found" if report.findings else wrong,
    )


def _launched(
    source: str, blocks: int, depth: int, schedule: str
) -> tuple[emulator.Report, list[int]]:
    """The report of a launch, and columns of C that are wrong."""
    rng = np.random.default_rng(depth)
    # Small whole numbers: their sums are exact in any order, and C rounds once.
    A, B = (
        rng.integers(-3, 4, shape).astype(np.float32)
        for shape in ((blocks * SIDE, depth), (depth, SIDE))
    )
    maps = [emulator.TensorMap(to_bfloat16(x), (64, 64), 128) for x in (A, B)]
    C = np.full((blocks * SIDE, SIDE), 0x7FC0, np.uint16)
    report = emulator.launch(
        source, "product", blocks, 128, [*maps, C, depth], arch="sm_100a", name="product.cu",
        shared_bytes=66 * 1024, schedule=schedule, max_seconds=20,
    )  # fmt: skip
    right = from_bfloat16(C) == from_bfloat16(to_bfloat16(A @ B))
    return report, np.flatnonzero(~right.all(axis=0)).tolist()


@exercise("25.6", kind="repair")
def one_thread(answer: object) -> Iterator[Check]:
    """One thread copies and multiplies over a ring of two stages, and all threads store."""
    yield from _product(
        answer,
        1,
        (
            ("its block has allocated", "allocate as many columns as the sums have"),
            (
                "nothing has written",
                "columns hold whatever lay there before: the first product must overwrite them",
            ),
            (
                "while the product of line",
                "that a product is issued does not say that it has run. An arrival of the thread "
                "says the first; which instruction lets the products arrive themselves?",
            ),
            (
                "while the load of line",
                "tcgen05.ld goes on by itself. A warp learns by a wait that its sums are there and "
                "that their columns may go",
            ),
        ),
        "which steps of k does the flag of a product keep?",
    )


@exercise("25.7", kind="repair")
def a_pair(answer: object) -> Iterator[Check]:
    """Two blocks of a cluster multiply as one, by a single stage."""
    yield from _product(
        answer,
        2,
        (
            (
                "more have come than were announced",
                "the copies of both blocks count at the first block's barrier: how many bytes are "
                "that for a step?",
            ),
            (
                "of block (1, 0, 0) waits at empty",
                "a commit arrives in the blocks whose bits its mask has, and both wait",
            ),
            (
                "which may have ended",
                "the pair ends together: one block still arrives at the other's barriers",
            ),
        ),
        "the blocks hold different columns of B: which are those of the second?",
    )
