"""Checks for the exercises of chapter 08, 1D register blocking."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from helpers import emulator
from helpers.exercises import Check, check_kernel_source, close_to, exercise, matmul_problem


@exercise("08.1", kind="number")
def reads(answer: object) -> Check:
    """Shared reads per multiply-add with a column of 16."""
    return close_to(
        answer,
        17 / 16,
        tolerance=1e-3,
        what="reads per multiply-add",
        wrong={
            2: "that is one element a thread",
            17: "divide by the multiply-adds",
            1 / 16: "the values of A are read, too",
        },
    )


@exercise("08.2", kind="kernel")
def column(answer: object) -> Iterator[Check]:
    """Four elements of a column a thread, 16 rows apart, in 16x16 threads."""
    checks = check_kernel_source(
        answer,
        "column",
        block=("16", "16", "1"),
        grid=("cdiv(N, 16)", "cdiv(M, 64)", "1"),
        require=("__shared__",),
    )
    yield from checks
    if not all(c.ok for c in checks):
        return
    edge = 64
    made = matmul_problem(np.random.default_rng(8), edge, edge, edge, "float32")
    report = emulator.launch(
        str(answer), "column", (edge // 16, edge // 64, 1), (16, 16, 1), list(made.args)
    )
    shared = [a for a in report.by_line() if a.space == "shared" and a.op == "load"]
    per = sum(a.requests for a in shared) / (edge**3 / 32)
    yield Check(
        per <= 1.25,
        "shared reads for each multiply-add, at most (4 + 1) / 4",
        got=f"{per:.2f}",
        hint="walk through K once, and use each value of B_tile for all four sums",
    )


@exercise("08.3", kind="number")
def threads(answer: object) -> Check:
    """Threads of a 128x128 tile with 16 elements each."""
    return close_to(
        answer, 1024, tolerance=0, what="threads", wrong={16384: "that is one element a thread"}
    )
