"""Checks for the exercises of chapter 14, Tensor Cores through WMMA."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from helpers import emulator
from helpers.exercises import Check, close_to, exercise


@exercise("14.1", kind="number")
def instructions(answer: object) -> Check:
    """Millions of 16x16x16 instructions for a product at 4096."""
    right = 256**3 / 1e6
    return close_to(
        answer,
        right,
        what="instructions",
        unit="million",
        wrong={
            2 * right: "count multiply-adds, not operations",
            256**3: "give it in millions",
            256**2 / 1e6: "those are the tiles of C; each takes steps along K, too",
            4096**3 / 32 / 1e6: "that is FP32: a step of WMMA does 16 x 16 x 16",
        },
    )


@exercise("14.2", kind="number")
def per_load(answer: object) -> Check:
    """Matrix instructions for each fragment loaded, 4x2 fragments."""
    return close_to(
        answer,
        8 / 6,
        what="instructions per load",
        wrong={
            8: "divide by the loads",
            6 / 8: "the other way round: instructions for each load",
            0.5: "each fragment is loaded once and kept for all its products",
        },
    )


@exercise("14.3", kind="kernel")
def one_tile(answer: object) -> Iterator[Check]:
    """One 16x16 tile of C a warp, on sizes that are multiples of 16."""
    rng = np.random.default_rng(14)
    used = False
    for m, n, k in ((16, 16, 16), (48, 32, 64), (16, 80, 32)):
        a = rng.integers(-8, 9, (m, k)).astype(np.float16)
        b = rng.integers(-8, 9, (k, n)).astype(np.float16)
        c = np.full((m, n), np.nan, np.float32)
        grid = (n // 16, m // 16, 1)
        report = emulator.launch(str(answer), "one_tile", grid, (32, 1, 1), [a, b, c, m, n, k])
        wrong = int((c != a.astype(np.float64) @ b.astype(np.float64)).sum())
        never = int(np.isnan(c).sum())
        got, hint = (
            f"{wrong} wrong elements of {c.size}",
            "which leading dimension has each matrix?",
        )
        if wrong:
            got += f", {never} of them never stored" if never else ""
            if never == c.size:
                hint = "store c at the end"
            elif (m, n, k) == (16, 16, 16):
                hint = "does c start at zero, and is every step along K added?"
        yield Check(wrong == 0, f"{m}x{n}x{k} is right", got=got, hint=hint)
        faults = "; ".join(str(f) for f in report.findings)
        yield Check(not report.findings, f"no fault on {m}x{n}x{k}", got=faults)
        used = used or any(op.startswith("wmma.mma") for op in report.instructions)
    yield Check(used, "the Tensor Cores do the work", hint="use wmma::mma_sync")
