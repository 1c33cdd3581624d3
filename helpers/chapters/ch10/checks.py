"""Checks for the exercises of chapter 10, vectorised access."""

from collections.abc import Iterator

import numpy as np

from helpers.page.exercises import Check, exercise, number
from nogpu import emulator


@exercise("10.1", kind="choice")
def aligned(answer: object) -> Check:
    """Row lengths whose rows all start on 16 bytes."""
    try:
        sizes = sorted({int(n) for n in answer})  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        return Check(False, "the list of sizes", got=repr(answer), hint="Give a list of numbers.")
    if {1022, 1026} & set(sizes):
        odd = min({1022, 1026} & set(sizes))
        hint = (
            f"Row 1 of {odd} columns starts at byte 4 · {odd} = {4 * odd}, which 16 does not "
            "divide."
        )
    elif set(sizes) < {1000, 1024}:
        missing = min({1000, 1024} - set(sizes))
        hint = f"One is missing: 4 · {missing} = {4 * missing} is {4 * missing // 16} · 16."
    else:
        hint = "Take the sizes of the question for which 16 divides 4 · N."
    return Check(sizes == [1000, 1024], "the list of sizes", got=str(sizes), hint=hint)


number(
    "10.2",
    "Wavefronts of a 16-byte read with a stride of 16 floats",
    16,
    tolerance=0,
    what="wavefronts",
    mistakes={
        1: "128 different words are wanted, and a wavefront brings at most 32",
        2: "that is what it takes when all lanes want the same four words",
        4: "that is without conflicts",
        8: "a stride of 8 takes that: there the lanes of a phase start at four banks, here at two",
        32: "that is one lane at a time, but in a phase two lanes pass together: those at bank "
        "0 and at bank 16 do not collide",
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
        faults = [str(f) for f in report.findings]
        differ = int((x != y).sum())
        if differ:
            faults.append(f"{differ} are not copied, the first is element {int((x != y).argmax())}")
        yield Check(not faults, f"{n} floats are copied, without a fault", got="; ".join(faults))
        if n == 1024:
            rows = [r for r in report.by_line() if r.requests]
            wide = all(r.width_bytes == 16 for r in rows)
            yield Check(wide, "1024 floats move 16 bytes at a time", hint="Use float4.")
            requests = sum(r.requests for r in rows)
            yield Check(
                requests <= 2 * n // 128,
                "1024 floats take 8 requests to load and 8 to store",
                got=f"{requests} in all",
                hint="Each thread moves the four floats from 4·t on, and no others.",
            )
