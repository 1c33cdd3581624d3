"""Checks for the exercises of chapter 07: banks, occupancy, a transpose."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from helpers import emulator
from helpers.exercises import Check, close_to, exercise


@exercise("07.1", kind="number")
def column_of_36(answer: object) -> Check:
    """Wavefronts of a column read with 36 words a row."""
    return close_to(
        answer,
        4,
        tolerance=0,
        what="wavefronts",
        wrong={1: "36·i modulo 32 takes only eight values", 32: "that is with 32 words a row"},
    )


@exercise("07.2", kind="number")
def t4_blocks(answer: object) -> Check:
    """Blocks of 128 threads, 80 registers and 20 KB on an SM of a T4."""
    return close_to(
        answer,
        3,
        tolerance=0,
        what="blocks an SM",
        wrong={8: "that is by threads alone", 6: "that is by registers; count shared memory too"},
    )


@exercise("07.3", kind="kernel")
def transpose(answer: object) -> Iterator[Check]:
    """A transpose of any shape, coalesced both ways and free of bank conflicts."""
    for rows, cols in ((64, 64), (33, 70), (1, 40), (95, 2)):
        x = np.arange(rows * cols, dtype=np.float32).reshape(rows, cols) + 1
        y = np.zeros((cols, rows), np.float32)
        grid = (-(-cols // 32), -(-rows // 32), 1)
        report = emulator.launch(str(answer), "transpose", grid, (32, 32, 1), [x, y, rows, cols])
        wrong = int((y != x.T).sum())
        yield Check(
            wrong == 0, f"{rows}x{cols} comes out transposed", got=f"{wrong} wrong elements"
        )
        faults = "; ".join(str(f) for f in report.findings)
        yield Check(not report.findings, f"no fault on {rows}x{cols}", got=faults)
        if (rows, cols) == (64, 64):
            for r in report.by_line():
                cost = r.sectors_per_request if r.space == "global" else r.wavefronts_per_request
                least = 4 if r.space == "global" else 1
                unit = "sectors" if r.space == "global" else "wavefronts"
                yield Check(
                    cost <= least,
                    f"{r.space} {r.op} on line {r.line}: {least} {unit} a request",
                    got=f"{cost:g}",
                )
