"""A student's feedback: plain text, for a file or a platform's comment field.

What a student or a compiler wrote is tidied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilelabs.grading.tables import LOOK
from tilelabs.judging.marking import tidy
from tilelabs.labs.checking import Checked
from tilelabs.labs.rubrics import Lab

MOST_FEEDBACK = 20_000
"""Bytes of one student's text."""


@dataclass(frozen=True)
class Override:
    """What a person gives for a part in place of what was counted, or for one that is marked by
    hand.
    """

    points: float
    reason: str


@dataclass(frozen=True)
class Feedback:
    """What a student is told. checked: None where nothing was handed in. points: by part (None:
    nobody has given them yet). closing: lines below, such as the total.
    """

    lab: Lab
    checked: Checked | None
    points: Mapping[str, float | None]
    given: Mapping[str, Override]
    notes: Sequence[str]
    closing: Sequence[str]
    attempt: int = 1


def closing(lab: Lab, points: Mapping[str, float | None]) -> list[str]:
    """The total in words, and what is not marked yet."""
    total = sum(p for p in points.values() if p is not None)
    open_ = [n for n, p in points.items() if p is None]
    still = f"; {', '.join(open_)} not marked yet" if open_ else ""
    return [f"Total: {total:g} of {lab.points} points{still}"]


def text(facts: Feedback) -> str:
    """The feedback as plain text."""
    if facts.checked is None:
        lines = [f"Lab {facts.lab.number}, {facts.lab.title}: no submission."]
    else:
        listed = [_with_points(facts, line) for line in str(facts.checked).split("\n")[:-1]]
        judged_by = f"Lab version {facts.lab.version}, attempt {facts.attempt}"
        lines = [*map(_line, listed), judged_by, ""]
        was = {p.rubric.id: p.points for p in facts.checked.parts}
    for part in facts.lab.parts:
        if part.id in facts.given:
            counted = "" if part.by_hand or not facts.checked else f" (counted: {was[part.id]})"
            given = facts.given[part.id]
            reason = f": {tidy(given.reason)}" if given.reason.strip() else ""
            points = f"{given.points:g}/{part.points}"
            lines.append(f"By a person: {part.id} {points}{counted}{reason}")
    lines += [f"Note: {tidy(note)}" for note in facts.notes if not note.startswith(LOOK)]
    return _cut("\n".join([*lines, *facts.closing]) + "\n")


def _with_points(facts: Feedback, line: str) -> str:
    """A line of the list, with what a person gave in place of "by hand"."""
    for part in facts.lab.parts:
        if part.by_hand and (given := facts.given.get(part.id)):
            before, found, words = line.partition(f"by hand  {part.id}: ")
            if found and not before.strip():
                return f"{before}{f'{given.points:g}/{part.points}':>7}  {part.id}: {words}"
    return line


def _line(line: str) -> str:
    """A line as it is indented, and nothing in it but words."""
    return line[: len(line) - len(line.lstrip(" "))] + tidy(line, 600)


def _cut(facts: str) -> str:
    raw = facts.encode("utf-8", "replace")
    if len(raw) <= MOST_FEEDBACK:
        return raw.decode()
    return raw[: MOST_FEEDBACK - 5].decode("utf-8", "ignore") + " ...\n"
