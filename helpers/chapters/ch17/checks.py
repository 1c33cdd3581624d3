"""Checks for the exercises of chapter 17, Tensor Cores through WMMA."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from helpers.ladder.kernel import cdiv
from helpers.page.exercises import Check, exercise, number
from nogpu import emulator

SCALAR = r"st\.global|(fma|mad|mul|add)\S*\.(f16|f16x2|bf16|f32|f64)$"
"""Instructions by which single lanes would multiply, add or store in place of a warp."""


@exercise("17.1", kind="python")
def grid(answer: Callable[[int, int, int], Any]) -> Iterator[Check]:
    """Blocks in x and y for a tile a warp, and the warps that find none."""
    for m, n, warps in ((8192, 8192, 32), (100, 100, 32), (16, 528, 32), (1, 1, 1), (33, 64, 4)):
        x, y = cdiv(m, 16), cdiv(n, 16 * warps)
        right = (x, y, x * (y * warps - cdiv(n, 16)))
        returned = answer(m, n, warps)
        got = tuple(returned) if isinstance(returned, (tuple, list)) else returned
        hint = "return three numbers: blocks in x, blocks in y, warps without a tile"
        if isinstance(got, tuple) and len(got) == 3:
            if got[0] != right[0]:
                hint = "x counts tiles down the rows of C: M over 16, a part of one counts whole"
            elif got[1] != right[1]:
                hint = "how many columns of C does a block cover?"
            else:
                hint = "of the warps that start, take off one for each tile of C"
        yield Check(
            got == right, f"{m} x {n}, {warps} warps a block", got=f"{got}", expected=f"{right}",
            hint=hint,
        )  # fmt: skip


number(
    "17.2",
    "Matrix instructions for each fragment loaded, 4x2 fragments",
    8 / 6,
    what="instructions per load",
    hint="how many pairs of a fragment of A and one of B are there, and how many fragments?",
    mistakes={
        8: "divide by the loads",
        6: "these are the loads; divide the multiply instructions by them",
        6 / 8: "the other way round: instructions for each load",
        0.5: "each fragment is loaded once and kept for all its products",
    },
)


@exercise("17.3", kind="kernel")
def two_tiles(answer: object) -> Iterator[Check]:
    """Two 16x16 tiles of C a warp, and every fragment of A loaded once."""
    rng = np.random.default_rng(14)
    loads = {"a": 0, "b": 0}
    work = multiplies = alone = 0
    for m, n, k in ((32, 32, 32), (64, 32, 64), (32, 96, 32)):
        a = rng.integers(-8, 9, (m, k)).astype(np.float16)
        b = rng.integers(-8, 9, (k, n)).astype(np.float16)
        c = np.full((m, n), np.nan, np.float32)
        shape = (n // 32, m // 16, 1)
        report = emulator.launch(str(answer), "two_tiles", shape, (32, 1, 1), [a, b, c, m, n, k])
        differ = int((c != a.astype(np.float64) @ b.astype(np.float64)).sum())
        never = int(np.isnan(c).sum())
        got = f"{differ} wrong elements of {c.size}"
        hint = "which leading dimension has each matrix?"
        if differ:
            got += f", {never} of them never stored" if never else ""
            if never == c.size:
                hint = "store c at the end"
            elif never:
                hint = "each warp has 32 columns: where do they begin, and are both tiles stored?"
            elif (m, n, k) == (32, 32, 32):
                hint = "does c start at zero, and is every step along K added?"
        yield Check(differ == 0, f"{m}x{n}x{k} is right", got=got, hint=hint)
        faults = "; ".join(str(f) for f in report.findings)
        yield Check(not report.findings, f"no fault on {m}x{n}x{k}", got=faults)
        work += m * n * k // 16**3
        for op, count in report.instructions.items():
            for operand in loads:
                loads[operand] += count * op.startswith(f"wmma.load.{operand}")
            multiplies += count * op.startswith("wmma.mma")
            alone += count * (re.match(SCALAR, op) is not None)
    yield Check(
        multiplies == work and alone == 0,
        "the Tensor Cores do the work",
        got=f"{multiplies} calls of mma_sync, {alone} stores and products by single lanes",
        hint="let mma_sync form every product, once, and store_matrix_sync write C"
        if multiplies
        else "use wmma::mma_sync",
    )
    all_loads = loads["a"] + loads["b"]
    yield Check(
        work == multiplies == loads["b"] == 2 * loads["a"],
        "two multiplies for three loads",
        got=f"{all_loads} loads, {multiplies} multiplies",
        hint="a fragment of A serves both tiles: load it once a step"
        if loads["a"] > work // 2
        else "a step loads one fragment of A and two of B, and multiplies twice",
    )
