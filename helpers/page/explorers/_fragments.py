"""Explorer of chapter 18: which lane of a warp holds which element of one mma.sync.m16n8k16."""

from itertools import groupby

from helpers.colours import BLUE
from helpers.ladder.fragments import OPERANDS
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice
from helpers.page.explorers.fallbacks import rect, svg, words

FIRST = {"A": 0, "B": 8, "C": 12}
"""The first of an operand's slots, where all that a lane holds is numbered from 0 to 15."""
LANE = 9  # with which it begins
HALVES = ("lower", "upper")

Element = tuple[int, int]


def _register(name: str, slot: int) -> int:
    """Two elements of A or B share a register; one of C, a float, fills it."""
    return slot if name == "C" else slot // 2


def _label(name: str, slot: int) -> str:
    half = "" if name == "C" else f", {HALVES[slot % 2]} half"
    return f"{name}, register {_register(name, slot)}{half}"


_COUNTS = {"A": 8, "B": 4, "C": 4}
SLOTS = {FIRST[n] + slot: _label(n, slot) for n, most in _COUNTS.items() for slot in range(most)}
HELD: dict[tuple[int, int], tuple[str, Element]] = {
    (holder(row, col)[0], FIRST[name] + holder(row, col)[1]): (name, (row, col))
    for name, (rows, cols, holder) in OPERANDS.items()
    for row in range(rows)
    for col in range(cols)
}
"""Operand and element by lane and slot, of the 16."""


def span(numbers: list[int]) -> str:
    """ "2–3", or "2" where all are the same."""
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–\u2060{high}"


def holds(lane: int, name: str) -> str:
    """What a lane holds of an operand, by register: "r0 [2, 2–3], r1 [10, 2–3]"."""
    own = [(s - FIRST[name], at) for s in SLOTS for of, at in [HELD[lane, s]] if of == name]
    parts = []
    for register, group in groupby(own, lambda pair: _register(name, pair[0])):
        at = [element for _, element in group]
        parts.append(f"r{register}\xa0[{span([r for r, _ in at])},\xa0{span([c for _, c in at])}]")
    return ", ".join(parts)


def read(state: State) -> Reading:
    """Where an element is held, and all that its lane holds."""
    lane, slot = state["lane"], state["slot"]
    name, (row, col) = HELD[lane, slot]
    own = slot - FIRST[name]
    shown = {
        "element": f"{name}[{row}, {col}]", "lane": str(lane), "half": HALVES[own % 2],
        "register": str(_register(name, own)), "g": str(lane // 4), "t": str(lane % 4),
    }  # fmt: skip
    return Reading("whole" if name == "C" else "packed", shown | {n: holds(lane, n) for n in "ABC"})


def _picture() -> str:
    """A above B and C; in each pair of neighbours its lane, and in blue what one lane holds."""
    body, w, h = "", 19.5, 14
    for name, left, top in (("A", 1, 14), ("B", 1, 258), ("C", 163, 258)):
        rows, cols, holder = OPERANDS[name]
        body += words(left, top - 4, f"{name}: {rows} x {cols}")
        for r, c in ((r, c) for r in range(rows) for c in range(cols)):
            own, slot = holder(r, c)
            if slot % 2 == 0:
                down, x, y = name == "B", left + c * w, top + r * h
                box = (w, 2 * h) if down else (2 * w, h)
                lit = BLUE if own == LANE else "none"
                body += rect(x, y, *box, lit, 'stroke="currentColor" stroke-width=".5"')
                ink = 'fill="#fff"' if own == LANE else 'fill="currentColor"'
                body += (
                    f'<text x="{x + box[0] / 2:g}" y="{y + box[1] / 2 + 4:g}" font-size="10.5" '
                    f'text-anchor="middle" {ink}>{own}</text>'
                )
    return svg(321, 484, body, f"A, B and C of one mma, and in them the elements of lane {LANE}.")


def fragments() -> Explorer:
    """Which lane and register hold which element of A, B and C of an m16n8k16."""
    tables: dict[str, list[int]] = {name: [] for name in OPERANDS}
    for name, (rows, cols, holder) in OPERANDS.items():
        for own, at in (holder(r, c) for r in range(rows) for c in range(cols)):
            tables[name].append(own * 16 + FIRST[name] + at)
    return Explorer(
        kind="fragments",
        title="Who holds what?",
        caption=(
            "In each pair of neighbours stands its lane, and in the blue elements of the chosen "
            "lane their register: the two of a pair share one in A and B, and have one each in C. "
            "Each tint is a matrix of 8 x 8. The sentence is about the element in the second "
            "colour; choose another by a click on it."
        ),
        controls=(
            choice("slot", "one of its elements", SLOTS, 0),
            Control("lane", "lane", tuple(range(32)), LANE, plays=700),
        ),
        labels={name: f"it holds of {name}" for name in OPERANDS},
        sentences={
            "packed": "{element} lies in the {half} half of register {register} of lane {lane}, "
            "which has g = {g} and t = {t}.",
            "whole": "{element} fills register {register} of lane {lane}, which has g = {g} and "
            "t = {t}.",
        },
        data={
            "tables": tables,
            "cols": {name: cols for name, (_, cols, _) in OPERANDS.items()},
            "holds": [{name: holds(at, name) for name in OPERANDS} for at in range(32)],
        },
        compute=read,
        picture=_picture(),
        examples=tuple({"lane": at} for at in (0, 1, 4, LANE, 31)),
    )
