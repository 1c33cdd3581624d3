"""Checks for the exercises of chapter 01, your GPU."""

from collections.abc import Iterator

import numpy as np

from helpers.ladder.kernel import cdiv
from helpers.page.exercises import (
    Check,
    KernelTask,
    Problem,
    check_kernel_source,
    close_to,
    exercise,
    lanes_together,
)
from nogpu.device import WARP


@exercise("01.1", kind="number")
def requests(answer: object) -> Check:
    """Requests of a load by 1000 threads in blocks of 100."""
    n, block = 1000, 100
    right = cdiv(n, block) * cdiv(block, WARP)
    return close_to(
        answer,
        right,
        tolerance=0,
        what="number of requests",
        hint="Count the warps of one block, rounded up, and multiply by the blocks.",
        mistakes={
            cdiv(block, WARP): "that is the number for one block",
            right + 1: "no thread is left over: 10 blocks of 100 are 1000",
            cdiv(n, WARP): "a warp does not cross the end of its block",
            n / WARP: "warps are whole, and do not cross the end of a block",
            n // block * (block // WARP): "the last threads of a block need a warp too",
            n: "the threads of a warp load together, with one request",
            cdiv(n, block): "that is the number of blocks",
        },
    )


@exercise("01.2", kind="number")
def peak(answer: object) -> Check:
    """FP32 peak of 58 SMs with 128 FP32 lanes each at 2.5 GHz, in TFLOP/s."""
    right = 58 * 128 * 2 * 2.5e9 / 1e12
    mistakes = {right / 2: "a multiply-add is two operations", right * 1e3: "that is GFLOP/s"}
    mistakes[right * 1e12] = "that is FLOP/s"
    return close_to(answer, right, what="peak", unit="TFLOP/s", mistakes=mistakes)


@exercise("01.3", kind="number")
def fits(answer: object) -> Check:
    """Blocks of 768 threads with 64 registers on an SM of 65536 registers and 1536 threads."""
    by_registers = 65536 / (768 * 64)
    return close_to(
        answer,
        1,
        tolerance=0,
        what="blocks an SM",
        hint="Divide what the SM has by what a block takes, of threads and of registers.",
        mistakes={
            2: "that is the limit by threads; count the registers too",
            **dict.fromkeys((by_registers, 1.3, 1.33, 1.333), "blocks are whole: round down"),
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
