"""Checks for the exercises of chapter 13, the registers of a loop."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from helpers.chapters.ch13.pictures import order, shared
from helpers.page.exercises import Check, exercise

PATCHES = ((8, 8), (16, 8), (4, 16), (1, 8), (1, 1))
"""Patches that exercise 13.1 asks about, TM x TN."""


def _slips(rows: int, columns: int, back: bool) -> dict[str, int]:
    """What likely slips in 13.1 give, each with its hint."""
    forth, there_and_back = (sum(shared(order(rows, columns, way))) for way in (False, True))
    return {
        "Every row from left to right: its first multiply-add has another row of A than the one "
        "before, and another column of B.": there_and_back,
        "On the way back the first multiply-add of a row has the column of the one before.": forth,
        "The first multiply-add has none before it.": (forth, there_and_back)[back] + 1,
    }


@exercise("13.1", kind="python")
def predict_reuse(answer: Callable[[int, int, bool], Any]) -> Iterator[Check]:
    """Multiply-adds of one k that share an operand with the one before."""
    cases = [(*patch, back) for patch in PATCHES for back in (False, True)]
    answers = [answer(*case) for case in cases]
    want = [sum(shared(order(*case))) for case in cases]
    fallback = "Follow the numbers in the drawing: which steps change both the row and the column?"
    slips: dict[str, list[int]] = {}
    for case in cases:
        for hint, count in _slips(*case).items():
            slips.setdefault(hint, []).append(count)
    hint = next((hint for hint, counts in slips.items() if counts == answers), fallback)
    for (rows, columns, back), got, right in zip(cases, answers, want, strict=True):
        what = f"{rows}x{columns}, {'back and forth' if back else 'forth only'}"
        yield Check(got == right, what, got=str(got), expected=str(right), hint=hint)


def _of_one_bank(operands: str) -> bool:
    """Whether the three sources of an FFMA are registers of one parity."""
    sources = [source.strip() for source in operands.split(",")[1:]]
    numbers = [re.fullmatch(r"-?\|?R(\d+)(?:\.reuse)?\|?", source) for source in sources]
    return all(numbers) and len({int(match[1]) % 2 for match in numbers if match}) == 1


def _programs() -> Iterator[tuple[str, list[str]]]:
    """Operands of FFMA as a disassembler prints them: by hand, and at random."""
    yield "two banks", ["R48, R75, R61.reuse, R48", "R46, R74.reuse, R61, R46"]
    yield "one bank", ["R7, R3, R5, R7", "R8, R2.reuse, R4, R8"]
    yield "the destination does not count", ["R7, R2, R4, R8", "R6, R3, R5, R6"]
    yield "one register three times", ["R9, R6, R6, R6"]
    yield "a sign and a mark", ["R4, -R2.reuse, R10, -R4", "R5, R3, -R11.reuse, R5"]
    yield "a sign and a mark in the other bank", ["R4, R2, -R11, R4", "R4, R2, R11.reuse, R4"]
    yield "RZ and a constant are in no bank", ["R4, R2, R6, RZ", "R5, R3, c[0x0][0x160], R5"]
    chance = random.Random(13)
    for trial in (1, 2, 3):
        lines = []
        for _ in range(200):
            to, a, b = (chance.randrange(200) for _ in range(3))
            lines.append(f"R{to}, R{a}{chance.choice(['', '.reuse'])}, R{b}, R{to}")
        yield f"two hundred at random, {trial}", lines


@exercise("13.2", kind="python")
def count_one_bank(answer: Callable[[Sequence[str]], Any]) -> Iterator[Check]:
    """FFMA whose three sources lie in registers of one parity."""
    for what, lines in _programs():
        want, got = sum(map(_of_one_bank, lines)), answer(list(lines))
        hint = "The first register is the destination; the three behind it are read."
        if "RZ" in " ".join(lines):
            hint = (
                "RZ is the constant zero, c[...] comes from the constant bank: three registers are "
                "asked for."
            )
        elif "-R" in " ".join(lines):
            hint = "A minus sign or a .reuse does not change which register is read."
        yield Check(got == want, what, got=str(got), expected=str(want), hint=hint)
