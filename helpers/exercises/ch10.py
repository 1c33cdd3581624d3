"""Checks for the exercises of chapter 10, vectorised access."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from helpers import emulator
from helpers.exercises import Check, close_to, exercise


@exercise("10.1", kind="choice")
def aligned(answer: object) -> Check:
    """Row lengths whose rows all start on 16 bytes."""
    try:
        given = sorted(int(n) for n in answer)  # type: ignore[attr-defined]
    except TypeError:
        return Check(False, "the list of sizes", got=repr(answer), hint="give a list of numbers")
    return Check(given == [1000, 1024], "the list of sizes", got=str(given), hint="4·i·N bytes")


@exercise("10.2", kind="number")
def phases(answer: object) -> Check:
    """Wavefronts of a 16-byte read with a stride of 16 floats."""
    return close_to(
        answer,
        16,
        tolerance=0,
        what="wavefronts",
        wrong={4: "that is without conflicts", 32: "a broadcast and two banks still help"},
    )


@exercise("10.3", kind="kernel")
def copy(answer: object) -> Iterator[Check]:
    """A copy of any length, four floats at a time."""
    source = str(answer)
    for n in (1, 3, 4, 5, 255, 1024, 1027):
        x = np.arange(1, n + 1, dtype=np.float32)
        y = np.zeros(n, np.float32)
        blocks = -(-n // (4 * 256))
        report = emulator.launch(source, "copy", (blocks, 1, 1), (256, 1, 1), [x, y, n])
        told = [str(f) for f in report.findings]
        wrong = int((x != y).sum())
        if wrong:
            told.append(f"{wrong} are not copied, the first is element {int((x != y).argmax())}")
        yield Check(not told, f"{n} floats are copied, without a fault", got="; ".join(told))
        if n == 1024:
            wide = all(r.width_bytes == 16 for r in report.by_line() if r.requests > 1)
            yield Check(wide, "1024 floats move 16 bytes at a time", hint="use float4")
