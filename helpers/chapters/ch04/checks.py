"""Checks for the exercises of chapter 04, the first kernel."""

from collections.abc import Iterator
from dataclasses import replace

from helpers.ladder.model import compulsory_bytes, flops
from helpers.page.exercises import (
    AWKWARD,
    Check,
    KernelTask,
    check_kernel_source,
    close_to,
    exercise,
    lanes_together,
)
from nogpu.device import gpu


@exercise("04.1", kind="number")
def cover(answer: object) -> Check:
    """Blocks of 16x16 that cover 1000 rows and 300 columns."""
    if isinstance(answer, (tuple, list)):
        return Check(
            False, "number of blocks", got=str(answer), expected="one number",
            hint="A grid says how many blocks stand in each direction; multiply them.",
        )  # fmt: skip
    return close_to(
        answer,
        19 * 63,
        tolerance=0,
        what="number of blocks",
        hint="Count the blocks that cover 1000 rows, those that cover 300 columns, and multiply.",
        mistakes={
            18 * 62: "rounding down leaves rows and columns without a thread",
            1172: "round up in each direction, then multiply: a block is 16 x 16, not 256 loose "
            "threads",
            1000 * 300: "that is the number of threads",
            19 + 63: "the grid is 19 by 63 blocks",
        },
    )


@exercise("04.2", kind="kernel")
def flat(answer: object) -> Iterator[Check]:
    """One thread an element on a one-dimensional grid."""
    task = KernelTask("flat", block=("256", "1", "1"), grid=("cdiv(M * N, 256)", "1", "1"))
    shared = lanes_together(answer, task, ((3, 67, 5), (67, 3, 5)))
    alone = shared is not None and not shared.ok  # then the larger shapes take long
    yield from check_kernel_source(answer, replace(task, shapes=AWKWARD[:1]) if alone else task)
    if shared:
        yield shared


@exercise("04.3", kind="number")
def floor(answer: object) -> Check:
    """Least time of a 4096x4096 matrix times a vector on a T4, in ms."""
    card, n = gpu("t4"), 4096
    by_bytes = compulsory_bytes(n, 1, n) / (card.bandwidth_gbs * 1e6)
    by_flop = flops(n, 1, n) / (card.fp32_peak_gflops * 1e6)
    return close_to(
        answer,
        max(by_bytes, by_flop),
        what="time",
        unit="ms",
        mistakes={
            by_flop: "that is the floor of the arithmetic; the other one is higher",
            by_bytes + by_flop: "the two may overlap: the larger one is the floor",
            max(by_bytes, by_flop) / 1e3: "that is in seconds",
            compulsory_bytes(n, n, n) / (card.bandwidth_gbs * 1e6): "B and C have one column",
        },
    )
