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
    number,
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


_T4, _N = gpu("t4"), 4096
_BY_BYTES = compulsory_bytes(_N, 1, _N) / (_T4.bandwidth_gbs * 1e6)
_BY_FLOP = flops(_N, 1, _N) / (_T4.fp32_peak_gflops * 1e6)

number(
    "04.3",
    "Least time of a 4096x4096 matrix times a vector on a T4, in ms",
    _BY_BYTES,
    what="time",
    unit="ms",
    mistakes={
        _BY_FLOP: "that is the floor of the arithmetic; the other one is higher",
        _BY_BYTES + _BY_FLOP: "the two may overlap: the larger one is the floor",
        _BY_BYTES / 1e3: "that is in seconds",
        compulsory_bytes(_N, _N, _N) / (_T4.bandwidth_gbs * 1e6): "B and C have one column",
    },
)
