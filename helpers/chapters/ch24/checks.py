"""Checks for the exercises of chapter 24, streams."""

from collections.abc import Callable, Iterator
from typing import Any

from helpers.ladder.streams import Step, makespan, schedule, simulate
from helpers.page.exercises import Check, exercise, number

STAGES = {"B": 1.0, "A": 2.0, "kernel": 6.0, "C": 2.0}
"""Times in ms of exercise 24.1."""


_FOUR = makespan(simulate(schedule(4, 4), (1, 1, 1, 1), STAGES))
_SERIAL = sum(STAGES.values())

number(
    "24.1",
    "Time of a product in four panels on ideal hardware, in ms",
    _FOUR,
    what="time of four panels",
    unit="ms",
    hint="Which stage never pauses, what has to happen before it starts, and what after it ends?",
    mistakes={
        _SERIAL: "that is the serial time",
        # the time without B's copy is the same number as the limit of many panels
        _FOUR - 1: "with very many panels it would take that long; or B's copy is missing",
        _SERIAL / 4: "B is not cut, and three engines do not work four times as fast",
        1 + 10 / 4: "the kernel has three more panels to go after the first",
        _FOUR - 2 / 4: "the first panel of A comes before the kernel, the last of C after it",
    },
)


@exercise("24.2", kind="python")
def cut(answer: Callable[[int, int, int], Any]) -> Iterator[Check]:
    """Panels that cover every row once, cut between tiles, for ragged matrices."""
    cases = ((4096, 8, 128), (1000, 3, 128), (1025, 8, 32), (7, 7, 1), (33, 2, 32))
    for rows, count, tile in cases:
        panels = [(int(first), int(size)) for first, size in answer(rows, count, tile)]
        fault, hint = _fault(panels, rows, count, tile)
        what = f"{rows} rows in {count} panels, tiles of {tile}"
        yield Check(not fault, what, got=fault, hint=hint)


def _fault(panels: list[tuple[int, int]], rows: int, count: int, tile: int) -> tuple[str, str]:
    """What is wrong with a cut, and what to think about; empty if nothing is."""
    if len(panels) != count:
        return f"{len(panels)} panels", "As many as asked for, please."
    reached = 0
    for first, size in panels:
        if first != reached or size < 1:
            return str(panels), "Each panel has a row, and begins where the last one ended."
        reached += size
    if reached != rows:
        return f"rows up to {reached}", "What becomes of the remainder of the division?"
    split = [first for first, _ in panels if first % tile]
    if split:
        return f"cuts at {split}", "Count in tiles, and multiply by their rows at the end."
    tiles = [-(-size // tile) for _, size in panels]
    if max(tiles) - min(tiles) > 1:
        return f"{tiles} tiles", "Share the tiles that are left over among the first panels."
    return "", ""


@exercise("24.3", kind="python")
def order(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """An order of copies and kernels that overlaps, and computes nothing before it has arrived."""
    for count, streams in ((1, 1), (4, 3), (8, 3)):
        what = f"P = {count}, S = {streams}"
        steps = [
            Step(str(w), int(panel), int(stream)) for w, panel, stream in answer(count, streams)
        ]
        used = {step.stream for step in steps}
        wanted = {("B", 0), *((w, i) for i in range(count) for w in ("A", "kernel", "C"))}
        names = [(step.what, step.panel) for step in steps]
        fault = "" if used <= set(range(streams)) else f"streams {sorted(used)}"
        if len(names) != len(wanted) or set(names) != wanted:
            fault = f"{len(names)} steps; they are B, and A, kernel and C of each panel, once each"
        if fault:
            yield Check(False, f"{what}: the right steps, in streams from 0", got=fault)
            return
        took = makespan(simulate(steps, (1,) * count, STAGES))  # raises if the order is impossible
        best = makespan(simulate(schedule(count, streams), (1,) * count, STAGES))
        yield Check(
            took <= best * (1 + 1e-9),
            f"{what}: the engines work at the same time",
            got=f"{took:.2f} ms on ideal hardware",
            hint="Steps in one stream never overlap, and an engine works in the order of the "
            "queue.",
        )
