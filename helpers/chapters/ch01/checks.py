"""Checks for the exercises of chapter 01, your GPU."""

from collections.abc import Iterator

import numpy as np

from helpers.page.exercises import (
    Check,
    KernelTask,
    Problem,
    check_kernel_source,
    exercise,
    lanes_together,
    number,
)

number(
    "01.1",
    "Requests of a load by 1000 threads in blocks of 100",
    40,
    tolerance=0,
    what="number of requests",
    hint="Count the warps of one block, rounded up, and multiply by the blocks.",
    mistakes={
        4: "that is the number for one block",
        41: "no thread is left over: 10 blocks of 100 are 1000",
        32: "a warp does not cross the end of its block",
        1000 / 32: "warps are whole, and do not cross the end of a block",
        30: "the last threads of a block need a warp too",
        1000: "the threads of a warp load together, with one request",
        10: "that is the number of blocks",
    },
)


PEAK = 58 * 128 * 2 * 2.5e9 / 1e12

number(
    "01.2",
    "FP32 peak of 58 SMs with 128 FP32 lanes each at 2.5 GHz, in TFLOP/s",
    PEAK,
    what="peak",
    unit="TFLOP/s",
    mistakes={
        PEAK / 2: "a multiply-add is two operations",
        PEAK * 1e3: "that is GFLOP/s",
        PEAK * 1e12: "that is FLOP/s",
    },
)


number(
    "01.3",
    "Blocks of 768 threads with 64 registers on an SM of 65536 registers and 1536 threads",
    1,
    tolerance=0,
    what="blocks an SM",
    hint="Divide what the SM has by what a block takes, of threads and of registers.",
    mistakes={
        2: "that is the limit by threads; count the registers too",
        **dict.fromkeys((65536 / (768 * 64), 1.3, 1.33, 1.333), "blocks are whole: round down"),
    },
)


def _vector(rng: np.random.Generator, M: int, N: int, K: int, dtype: str) -> Problem:
    """Arguments x, y, n of `reverse` for n = M, with y poisoned."""
    x = rng.permutation(M).astype(dtype)
    return Problem((x, np.full(M, np.nan, dtype), M), {1: x[::-1].copy()})


@exercise("01.4", kind="kernel")
def reverse(answer: object) -> Iterator[Check]:
    """A vector turned around, one thread an element."""
    task = KernelTask(
        "reverse", block=("256", "1", "1"), grid=("cdiv(M, 256)", "1", "1"),
        shapes=tuple((n, 1, 1) for n in (1, 31, 256, 257, 1000)), problem=_vector,
    )  # fmt: skip
    yield from check_kernel_source(answer, task)
    shared = lanes_together(answer, task, ((1000, 1, 1),))
    if shared:
        yield shared
