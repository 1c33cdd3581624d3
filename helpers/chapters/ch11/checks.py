"""Checks for the exercises of chapter 11, pipelining."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from helpers.page.exercises import (
    Axis,
    Check,
    KernelTask,
    check_chart,
    check_kernel_source,
    exercise,
    matmul_problem,
    number,
)
from nogpu import emulator
from nogpu.text import without_comments

number(
    "11.1",
    "Tiles under way that cover 800 clocks at 300 clocks a tile",
    3,
    tolerance=0.005,
    what="tiles under way",
    mistakes={
        1: "one tile covers 300 of the 800 clocks",
        2: "600 clocks are not 800",
        800 / 300: "a tile is under way or it is not: round up",
        4: "the tile in use is not under way any more",
    },
    hint="So many whole tiles must be under way that their computation takes 800 clocks or more.",
)


number(
    "11.2",
    "KB of four stages of 128x16 and 16x128 float32 tiles",
    64,
    tolerance=1e-3,
    what="shared memory",
    unit="KB",
    mistakes={
        16: "that is one stage",
        32: "count both tiles",
        48: "that is three stages, or what a block gets without asking; count four",
        65.536: "that is in thousands of bytes; here 1 KB is 1024 bytes",
        65536: "give it in KB",
        16384: "that is the floats of all stages: four bytes each, in KB",
        128: "that is eight bytes an element; a float32 has four",
    },
    hint="Elements of both tiles, times four bytes, times four stages, over 1024.",
)


def _for_the_block(check: Check) -> Check:
    """A finding that asks for a warp's barrier, forbidden here, asks for the block's."""
    asks = r"(?:The two threads are of one warp: )?[Pp]ut __syncwarp\(\)"
    return replace(check, what=re.sub(asks, "Put __syncthreads()", check.what))


@exercise("11.3", kind="kernel")
def two_buffers(answer: object) -> Iterator[Check]:
    """A double buffer with exactly one barrier, in the right place."""
    checks = check_kernel_source(
        answer,
        KernelTask(
            "two_buffers", block=("16", "16", "1"), grid=("cdiv(N, 16)", "cdiv(M, 16)", "1"),
            require=("__shared__",), forbid=("__syncwarp", "asm"),
        ),
    )  # fmt: skip
    yield from (_for_the_block(c) for c in checks)
    code = without_comments(str(answer))
    barriers = len(re.findall(r"__syncthreads\w*\s*\(", code))
    yield Check(
        barriers == 1,
        "one barrier in the loop",
        got=str(barriers),
        hint="Without a barrier nobody knows when the tiles are complete: one belongs between the "
        "stores and the reads."
        if barriers == 0
        else "Keep the one between the stores and the reads: before a buffer is written again, its "
        "readers have passed the next barrier.",
    )
    if barriers != 1 or not all(c.ok for c in checks):
        return
    edge = 64
    made = matmul_problem(np.random.default_rng(11), edge, edge, edge, "float32")
    report = emulator.launch(code, "two_buffers", (4, 4, 1), (16, 16, 1), list(made.args))
    tiles, warps = edge // 16, 16 * 8
    met = sum(n for name, n in report.instructions.items() if name.startswith(("bar", "barrier")))
    if met > (tiles + 1) * warps:  # a macro may hold more than one
        what = f"one barrier for each tile, {tiles} in all, when the kernel runs"
        yield Check(False, what, got=f"{met / warps:g}")
    loads = [a for a in report.by_line() if a.op == "load"]
    shared, copied = (
        sum(a.requests * a.width_bytes / 4 for a in loads if a.space == space) / (edge**3 / 32)
        for space in ("shared", "global")
    )
    yield Check(
        shared > 0 and copied <= 0.15,
        "the sums take their operands from shared memory",
        got=f"{shared:.2f} reads of it and {copied:.2f} of global memory for each multiply-add",
        hint="Keep the stores and the reads of the starter; only the barrier moves.",
    )


@exercise("11.4", kind="python")
def deep_enough(answer: Any) -> Iterator[Check]:
    """Clocks of eight tiles against the stages of the ring, for two copies."""
    from helpers.page import explorers

    def clocks(stages: int, copy: int) -> float:
        read = explorers.pipeline().read(stages=stages, copy=copy, compute=300)
        return float(read.text["total"].replace(",", ""))

    yield from check_chart(
        answer,
        Axis("stages", ("stage|buffer",)),
        Axis("time of eight tiles (clocks)", ("clock|cycle",)),
        {str(copy): {n: clocks(n, copy) for n in range(1, 6)} for copy in (400, 800)},
        hint="`clocks(stages, copy)` gives each of them.",
    )
