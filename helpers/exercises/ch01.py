"""Checks for the exercises of chapter 01, your GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from helpers import emulator
from helpers.device import WARP
from helpers.errors import TileError
from helpers.exercises import Check, Problem, Shape, check_kernel_source, close_to, exercise
from helpers.kernel import cdiv


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
        wrong={
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
    by_registers = 65536 / (768 * 64)
    return close_to(
        answer,
        1,
        tolerance=0,
        what="blocks an SM",
        hint="Divide what the SM has by what a block takes, of threads and of registers.",
        wrong={
            2: "that is the limit by threads; count the registers too",
            **dict.fromkeys((by_registers, 1.3, 1.33, 1.333), "blocks are whole: round down"),
        },
    )


def _vector(rng: np.random.Generator, M: int, N: int, K: int, dtype: str) -> Problem:
    """Arguments x, y, n of `reverse` for n = M, with y poisoned."""
    x = rng.permutation(M).astype(dtype)
    return Problem((x, np.full(M, np.nan, dtype), M), {1: x[::-1].copy()})


def lanes_together(
    source: object,
    entry: str,
    shapes: Sequence[Shape],
    grid: Callable[[int, int, int], int],
    problem: Callable[[np.random.Generator, int, int, int, str], Problem],
) -> Check | None:
    """Whether lanes share the work: how many of a warp store together, on average, at each shape.

    grid: the blocks of 256 threads for a shape. None if the kernel does not run or its result is
    wrong, which other checks report.
    """
    fewest = float(WARP)
    for M, N, K in shapes:
        made = problem(np.random.default_rng(1), M, N, K, "float32")
        try:
            launched = emulator.launch(
                str(source), entry, (grid(M, N, K), 1, 1), (256, 1, 1), list(made.args)
            )
        except TileError:
            return None
        stores = [row for row in launched.by_line() if row.op == "store" and row.space == "global"]
        right = all(np.array_equal(made.args[at], want) for at, want in made.outputs.items())
        if not right or not stores:
            return None
        elements = sum(row.bytes / row.width_bytes for row in stores)
        fewest = min(fewest, elements / sum(row.requests for row in stores))
    return Check(
        fewest >= 0.75 * WARP,
        "each thread has an element of its own: lanes that store together",
        got=f"{fewest:.1f}",
        expected=f"about {WARP}",
        hint="Let no thread do the work of others: its number says which one element is its own.",
    )


@exercise("01.4", kind="kernel")
def reverse(answer: object) -> Iterator[Check]:
    """A vector turned around, one thread an element."""
    lengths = (1, 31, 256, 257, 1000)
    yield from check_kernel_source(
        answer,
        "reverse",
        block=("256", "1", "1"),
        grid=("cdiv(M, 256)", "1", "1"),
        shapes=tuple((n, 1, 1) for n in lengths),
        problem=_vector,
    )
    shared = lanes_together(
        answer, "reverse", ((1000, 1, 1),), lambda M, N, K: cdiv(M, 256), _vector
    )
    if shared:
        yield shared
