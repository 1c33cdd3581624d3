"""Checks for the exercises of chapter 10, vectorised access."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from helpers.page.exercises import Check, close_to, exercise
from nogpu import emulator


@exercise("10.1", kind="choice")
def aligned(answer: object) -> Check:
    """Row lengths whose rows all start on 16 bytes."""
    try:
        given = sorted({int(n) for n in answer})  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        return Check(False, "the list of sizes", got=repr(answer), hint="Give a list of numbers.")
    if {1022, 1026} & set(given):
        odd = min({1022, 1026} & set(given))
        hint = f"Row 1 of {odd} columns starts at byte 4 · {odd} = {4 * odd}, which 16 does not divide."
    elif set(given) < {1000, 1024}:
        missing = min({1000, 1024} - set(given))
        hint = f"One is missing: 4 · {missing} = {4 * missing} is {4 * missing // 16} · 16."
    else:
        hint = "Take the sizes of the question for which 16 divides 4 · N."
    return Check(given == [1000, 1024], "the list of sizes", got=str(given), hint=hint)


@exercise("10.2", kind="number")
def phases(answer: object) -> Check:
    """Wavefronts of a 16-byte read with a stride of 16 floats."""
    return close_to(
        answer,
        16,
        tolerance=0,
        what="wavefronts",
        wrong={
            1: "128 different words are wanted, and a wavefront brings at most 32",
            2: "that is what it takes when all lanes want the same four words",
            4: "that is without conflicts",
            8: "a stride of 8 takes that: there the lanes of a phase start at four banks, here at two",
            32: "that is one lane at a time, but in a phase two lanes pass together: those at bank 0 "
            "and at bank 16 do not collide",
        },
        hint="For each phase of eight lanes: how many of them start at the same bank?",
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
            rows = [r for r in report.by_line() if r.requests]
            wide = all(r.width_bytes == 16 for r in rows)
            yield Check(wide, "1024 floats move 16 bytes at a time", hint="Use float4.")
            asked = sum(r.requests for r in rows)
            yield Check(
                asked <= 2 * n // 128,
                "1024 floats take 8 requests to load and 8 to store",
                got=f"{asked} in all",
                hint="Each thread moves the four floats from 4·t on, and no others.",
            )
