"""Checks for the exercises of chapter 14, a ring of tiles."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from helpers.chapters.ch14.turing import clocks
from helpers.ladder import model
from helpers.page.exercises import Check, exercise


def _numbers(answer: object, count: int) -> tuple[int, ...] | None:
    """What a reader's function returned, as so many whole numbers; None if it is not that."""
    if (
        not isinstance(answer, (tuple, list))
        or len(answer) != count
        or ... in answer
        or None in answer
    ):
        return None
    return tuple(int(number) for number in answer)


@exercise("14.1", kind="python")
def trace_a_ring(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """Tile and stage in use, tile and stage asked for, of every step of a ring."""
    for stages in (3, 2, 4):
        answers = [_numbers(answer(step, stages), 4) for step in range(3 * stages)]
        if None in answers:
            what = "the function returns (tile in use, its place, tile asked for, its place)"
            yield Check(False, what, got=str(answer(0, stages)))
            return
        got: Sequence[tuple[int, ...]] = [each for each in answers if each is not None]
        want = [(t, t % stages, t + stages - 1, (t - 1) % stages) for t in range(3 * stages)]
        mistake = next((t for t, (g, w) in enumerate(zip(got, want, strict=True)) if g != w), None)
        hint = "" if mistake is None else _why(got, want, mistake, stages)
        seen = "" if mistake is None else f"{got[mistake]} in step {mistake}"
        what = f"a ring of {stages}, {3 * stages} steps"
        yield Check(mistake is None, what, got=seen, hint=hint)


def _why(
    got: Sequence[tuple[int, ...]], want: Sequence[tuple[int, ...]], step: int, stages: int
) -> str:
    """The hint for the first number that is ever wrong."""
    if any(g[0] != w[0] for g, w in zip(got, want, strict=True)):
        return "Step t multiplies tile t."
    if any(g[1] != w[1] for g, w in zip(got, want, strict=True)):
        return "The stages are taken in turn: after the last comes the first."
    if all(g[2] == w[2] + 1 for g, w in zip(got, want, strict=True)):
        return (
            "That tile's stage is still in use: STAGES - 1 tiles ahead is as far as a ring reaches."
        )
    if any(g[2] != w[2] for g, w in zip(got, want, strict=True)):
        return (
            "Before the loop STAGES - 1 tiles were asked for, 0 to STAGES - 2. Which is the next?"
        )
    return f"In step {step} the stage that step {step - 1} used is free, and no other."


def _needs(rows: int, columns: int, group: int, running: int) -> tuple[int, int]:
    together = model.tile_order(rows, columns, group)[:running]
    return len({row for row, _ in together}), len({column for _, column in together})


@exercise("14.2", kind="python")
def what_a_band_needs(answer: Callable[[int, int, int, int], Any]) -> Iterator[Check]:
    """Tile rows of A and tile columns of B that the first blocks need, by a band's height."""
    cases = (
        (8, 8, 4, 12, "the drawing of this chapter"),
        (8, 8, 1, 12, "row by row"),
        (32, 16, 8, 132, "4096 on 132 SMs"),
        (64, 32, 8, 132, "8192 on 132 SMs"),
        (6, 5, 4, 24, "the last band has fewer rows"),
        (3, 4, 8, 5, "a band that is higher than C"),
    )
    along = lambda r, c, g, n: (min(g, r), -(-n // min(g, r)))  # noqa: E731
    answers = [_numbers(answer(*case[:4]), 2) for case in cases]
    if None in answers:
        yield Check(False, "the function returns (rows, columns)", got=str(answer(*cases[0][:4])))
        return
    rows_first = [_needs(r, c, 1, n) for r, c, _, n, _ in cases]
    hint = (
        "Number the tiles of a band column by column: the rows of the band first, then the next "
        "column."
    )
    if answers == rows_first:
        hint = "That is the order row by row. In a band the next block is one row further down."
    elif all(got == along(*case[:4]) for got, case in zip(answers, cases, strict=True)):
        hint = "When a band is full the next one begins, and the last band may be lower."
    for (*shape, why), got in zip(cases, answers, strict=True):
        want = _needs(*shape)
        r, c, g, n = shape
        what = f"{n} of {r} x {c} tiles in bands of {g} ({why})"
        yield Check(got == want, what, got=str(got), expected=str(want), hint=hint)


PATCHES = {"8x8": (8, 8), "4x4": (4, 4)}
READS = (2, 4)
"""Wavefronts of a 16-byte read of A and of B without the lane map (chapter 12)."""


@exercise("14.3", kind="choice")
def what_binds_on_a_t4(answer: object) -> Iterator[Check]:
    """The resource that takes most clocks of a T4's SM, for two patches of the double buffer."""
    if not isinstance(answer, dict):
        hint = 'Give a dict: {"8x8": "...", "4x4": "..."}.'
        yield Check(False, "what binds", got=repr(answer), hint=hint)
        return
    for name, patch in PATCHES.items():
        each = clocks(*patch, READS)
        want = max(each, key=lambda resource: each[resource])
        choice = answer.get(name)
        if choice not in each:
            hint = f"Choose one of {', '.join(map(repr, each))}."
        elif choice == "issue slots":
            hint = (
                "An FFMA takes one slot of four a clock, and holds a scheduler's 16 lanes for two "
                "clocks: the lanes are busy when half of the slots are."
            )
        else:
            lanes, words = each["FMA pipe"], each["shared memory"]
            hint = (
                f"Products: {lanes:g} clocks of the SM. Reads: {words:g}, two for each wavefront."
            )
        yield Check(choice == want, f"a patch of {name}", got=repr(choice), hint=hint)
