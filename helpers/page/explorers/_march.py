"""Explorer of chapter 06: the warps of one block walk along K, with their barriers or without."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from helpers.colours import BLUE, GREEN, PURPLE
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice, text
from helpers.page.explorers.fallbacks import rect, svg, words
from helpers.page.explorers.loops import loop, marked
from helpers.wording import join

Array = np.ndarray[Any, np.dtype[np.int64]]
TILE, STEPS = 4, 3
"""Edge of the tiles, which is the warps of the block and the lanes of a warp; tiles along K."""
COPY, LATE, PAUSE = (1, 2, 1, 2), 5, 2
"""Moments that each warp takes to copy; the late one takes; its wait for a turn to multiply."""
LAST = STEPS * (LATE + 1 + PAUSE + TILE + 1)
"""The moment in which all is done: the late warp waits for nobody."""
PAINTS = (BLUE, GREEN, PURPLE)
KEPT = {"12": "both, as in the kernel", "2": "without the first", "1": "without the second"}
KEPT[""] = "without both"
WHY = ("has yet to store that row", "has already stored a later row there")
ACTIONS = {
    "c": "fetching rows for k0 = {k0}",
    "s": "storing rows for k0 = {k0}",
    "1": "at the first barrier",
    "p": "ready to multiply, but not yet chosen",
    "k": "adding products of k0 = {k0}, k = {k}",
    "2": "at the second barrier",
    "C": "storing sums",
    ".": "done",
}
"""What a letter of a schedule says that a warp is doing."""
FIRST_WRONG = (
    "The first wrong read: warp {warp} takes B_tile[{k}][0] = {got} where {want} belongs, because "
    "warp {k} {why}. Its first sum becomes {sum} instead of {true}."
)


def example() -> tuple[Array, Array, Array, Array]:
    """A and B, of numbers up to 4, and what another block left in A_tile and B_tile, from 5 on.

    The seed is one for which the first column of B has another number in each tile.
    """
    rng, k = np.random.default_rng(659), TILE * STEPS
    A, B = rng.integers(1, 5, (TILE, k)), rng.integers(1, 5, (k, TILE))
    return A, B, *rng.integers(5, 10, (2, TILE, TILE))


def schedule(kept: str, late: int) -> tuple[str, ...]:
    """What each warp does, a letter of ACTIONS for each moment from 0 to LAST."""
    done = [""] * TILE

    def meet(barrier: str) -> None:
        longest = max(map(len, done)) + 1
        if barrier in kept:
            done[:] = [d.ljust(longest, barrier) for d in done]

    for _ in range(STEPS):
        for w in range(TILE):
            done[w] += "c" * ((LATE if w == late else COPY[w]) - 1) + "s"
        meet("1")
        for w in range(TILE):
            done[w] += "p" * PAUSE * (w == late) + "k" * TILE
        meet("2")
    return tuple((d + "C").ljust(LAST + 1, ".") for d in done)


def place(row: str, at: int) -> tuple[str, int, int]:
    """What a warp does at a moment, in which tile along K, and at which k of it."""
    tile = max(0, row[: at + 1].count("s") - (row[at] != "c"))
    return row[at], tile, row[:at].count("k") % TILE


def run(kept: str, late: int, at: int) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
    """B_tile, sums, the sums that would be right, and the wrong reads in order, after a moment.

    In each moment stores come first, then reads.
    """
    A, B, A_tile, B_tile = example()
    sums, right = np.zeros((2, TILE, TILE), int)
    origin = [-1] * TILE  # the tile along K that each row of shared memory is of
    wrong = []
    for now in range(at + 1):
        doing = [place(row, now) for row in schedule(kept, late)]
        for w, (what, tile, _) in enumerate(doing):
            if what == "s":
                A_tile[w], B_tile[w] = A[w, tile * TILE :][:TILE], B[tile * TILE + w]
                origin[w] = tile
        for w, (what, tile, k) in enumerate(doing):
            if what == "k":
                wanted = B[tile * TILE + k]
                sums[w] += A_tile[w, k] * B_tile[k]
                right[w] += A[w, tile * TILE + k] * wanted
                if origin[k] != tile:
                    wrong.append({"warp": w, "k": k, "got": B_tile[k, 0], "want": wanted[0],
                                  "sum": sums[w, 0], "true": right[w, 0],
                                  "why": WHY[origin[k] > tile]})  # fmt: skip
    return B_tile, sums, right, wrong


def _doing(rows: Sequence[str], at: int) -> str:
    groups: dict[str, list[str]] = {}
    for w, row in enumerate(rows):
        what, tile, k = place(row, at)
        groups.setdefault(ACTIONS[what].format(k0=tile * TILE, k=k), []).append(str(w))
    if len(groups) == 1:
        return f"All warps are {next(iter(groups))}"
    together = "; ".join(
        f"warp{f's {join(who)} are' if len(who) > 1 else f' {who[0]} is'} {action}"
        for action, who in groups.items()
    )
    return together[0].upper() + together[1:]


def _lines(values: Array) -> str:
    return "; ".join(" ".join(map(str, row)) for row in values.tolist())


def read(state: State) -> Reading:
    """What the warps do at a moment, and what has come of it."""
    kept, late, at = state["barriers"], state["late"], state["at"]
    rows, (B_tile, sums, right, wrong) = schedule(kept, late), run(kept, late, at)
    shown = {
        "doing": _doing(rows, at),
        "wrong": text(len(wrong)),
        "right": f"{(sums == right).sum()} of {TILE * TILE}",
        "waited": text(sum(row[: at + 1].count(b) for row in rows for b in "12")),
        "tile": _lines(B_tile),
        "sums": _lines(sums),
    }
    if wrong:
        first = {name: str(value) for name, value in wrong[0].items()}
        return Reading("end_wrong" if at == LAST else "wrong", shown | first)
    return Reading(("end" if kept == "12" else "lucky") if at == LAST else "walk", shown)


def march() -> Explorer:
    """A block of four warps of four lanes and three tiles along K, moment by moment."""
    A, B, *left = example()
    code = loop("tiled_32_core")
    copy, first, *_, second = marked(code, r"_tile\[ty\]\[tx\]|sync")[1:]
    turn, add = marked(code, r"int k = 0|sum \+=")
    lines = {"c": [copy - 1, copy], "s": [copy - 1, copy], "1": [first], "p": [turn],
             "k": [turn, add], "2": [second], "C": [len(code) - 1], ".": []}  # fmt: skip
    moments = tuple(range(LAST + 1))
    return Explorer(
        kind="march",
        title="The tile's march: who waits for whom?",
        caption=(
            "The kernel with a tile of 4 x 4: a warp of four lanes owns one row of each tile, as"
            " one of 32 lanes does where the edge is 32. Numbers from 5 on were left in shared"
            " memory by another block. From A_tile a warp reads only its own row, so it is B_tile"
            " that goes wrong. In the lowest picture choose any moment."
        ),
        controls=(
            Control(
                "at", "moment", moments, 3, labels=tuple(f"{i} of {LAST}" for i in moments),
                plays=450,
            ),
            choice("barriers", "__syncthreads()", KEPT, "12"),
            Control("late", "which warp is late?", tuple(range(TILE)), 2),
        ),
        labels={
            "right": "sums right so far",
            "wrong": "rows read that were wrong",
            "waited": "moments at barriers, all warps",
            "tile": "B_tile, row by row",
            "sums": "the sums, row by row",
        },
        sentences={
            "walk": "{doing}.",
            "wrong": "{doing}. " + FIRST_WRONG,
            "end": "{doing}. {right} sums are right.",
            "lucky": "{doing}. {right} sums are right, but by luck: each row was stored in time.",
            "end_wrong": "{doing}. {right} sums are right. " + FIRST_WRONG,
        },
        data={
            "tile": TILE,
            **{
                name: ["".join(map(str, row)) for row in values.tolist()]
                for name, values in zip(("A", "B", "A_left", "B_left"), (A, B, *left), strict=True)
            },
            "schedules": {kept: [schedule(kept, w) for w in range(TILE)] for kept in KEPT},
            "actions": ACTIONS,
            "why": WHY,
            "lines": lines,
            "barriers": {"1": first, "2": second},
            "paints": PAINTS,
        },
        compute=read,
        picture=_picture(),
        examples=(
            {},
            {"at": LAST},
            *({"at": LAST, "barriers": kept} for kept in ("2", "1", "")),
            {"at": LAST, "barriers": "2", "late": 3},
        ),
        spoken=("tile", "sums"),
        code=code,
    )  # fmt: skip


def _picture() -> str:
    """All moments of the warps, a row each: copies filled, sums framed, waiting a line."""
    wide, high, body = 6.6, 20, words(0, 12, "■ copies  □ multiplies  — waits")
    for w, row in enumerate(schedule("12", 2)):
        y = 22 + w * high
        body += words(0, y + 11, f"warp {w}")
        for now in range(LAST + 1):
            what, tile, _ = place(row, now)
            x, paint = 46 + now * wide, PAINTS[tile]
            if what in "cs":
                body += rect(x, y, wide, 14, paint)
            elif what == "k":
                body += rect(x + 0.7, y + 0.7, wide - 1.4, 12.6, "none", f'stroke="{paint}"')
            elif what in "12p":
                body += rect(x, y + 6, wide, 2, "currentColor")
    x = 46 + 3 * wide
    body += rect(x, 18, wide, TILE * high, "none", 'stroke="currentColor" stroke-width="1.5"')
    return svg(46 + (LAST + 1) * wide + 2, 24 + TILE * high, body,
               "What each warp does in each moment, one of them marked.")  # fmt: skip
