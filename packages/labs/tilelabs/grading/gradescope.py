"""One submission judged inside Gradescope's container, and results.json as Gradescope reads it.

Whose it is, and which attempt, says the platform's submission_metadata.json; the file's own name
says nothing there. Every attempt has other cases, since a student sees something of each. Source of
the format: Gradescope's autograder documentation, "Autograder specifications" and "Submission
metadata".
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nogpu.disk import replace_file
from nogpu.errors import ConfigError, DataError
from tilelabs.grading.judging import Result, checked, grade
from tilelabs.grading.preparing import Prepared, prepared
from tilelabs.grading.tables import LOOK
from tilelabs.judging.marking import tidy
from tilelabs.labs.courses import Course
from tilelabs.labs.rubrics import Lab

METADATA = "submission_metadata.json"
"""Beside the folder of the submission."""
_PLAIN = {"output_format": "text", "stdout_visibility": "hidden"}
HIDDEN = "after_published"
"""When a student sees points: once the teacher has published them, and not to try cases out by."""


@dataclass(frozen=True)
class Submitter:
    """Id and name of the student (of a group the lowest id, so that it stays the same), and the
    attempt.
    """

    student: str
    name: str
    attempt: int


def read_submitter(metadata: Path) -> Submitter:
    """What the platform says of a submission. Raises DataError for a file that is damaged."""
    try:
        answer = json.loads(metadata.read_text(encoding="utf-8"))
        first = min(answer["users"], key=lambda user: int(user["id"]))
        before = len(answer["previous_submissions"])
        return Submitter(str(int(first["id"])), tidy(str(first.get("name", ""))), before + 1)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{metadata} does not say whose the submission is ({type(error).__name__}): name the "
            "student by --student"
        ) from None


def judge_one(
    folder: Path,
    lab: Lab,
    course: Course,
    out: Path,
    to: Path,
    submitter: Submitter,
    *,
    lock: bool | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> None:
    """Judge the one submission of a folder and write results.json to a path; the facts lie in out
    as always.

    A folder without a submission is the student's fault and written, in one line; a machine's is
    raised.
    """
    try:
        outcome = prepared(folder, lab, course, student=(submitter.student, submitter.name))
    except ConfigError:
        outcome = Prepared(())
    if not outcome.submissions:
        files = f"{lab.entry}.ipynb and no {lab.entry}.cu"
        words = f"no {files} was handed in: hand in one of them"
        answer = {**_PLAIN, "score": 0, "output": words, "tests": []}
    else:
        how: dict[str, Any] = {"attempt": submitter.attempt, "workers": 1, "lock": lock}
        [one] = grade(lab, outcome.submissions, course, out, tell=tell, **how)
        answer = results_json(lab, one)
    replace_file(to, json.dumps(answer, indent=1) + "\n")


def results_json(lab: Lab, result: Result) -> dict[str, Any]:
    """The facts of a result and the points that follow, as Gradescope shows them.

    What a person marks is no test: it is an item of the assignment's own rubric there. Nothing here
    tells a case, nor anything of the secret.
    """
    outcome = checked(lab, result)
    refused = tidy(result.marked.refused)
    compiles = {
        "name": "It can be judged",
        "score": 0,
        "max_score": 0,
        "status": "failed" if refused else "passed",
        "output_format": "text",
        "visibility": "visible",
        "output": refused or "it compiles, and its head is what is asked",
    }
    parts = [
        {
            "name": f"{p.rubric.id}: {p.rubric.words}",
            "score": p.points,
            "max_score": p.rubric.points,
            "status": "passed" if p.full else "failed",
            "output": tidy(p.words, 600),
            "output_format": "text",
            "visibility": HIDDEN,
        }
        for p in outcome.parts
        if not p.rubric.by_hand
    ]
    by_hand = [f"{p.id} ({p.points} points) is marked by hand" for p in lab.parts if p.by_hand]
    notes = [tidy(note) for note in result.notes if not note.startswith(LOOK)]
    head = f"Lab {lab.number}, version {result.version}, {result.variant}, attempt {result.attempt}"
    facts = {
        name: getattr(result, name) for name in ("lab", "version", "variant", "attempt", "key")
    }
    return {
        **_PLAIN,
        "output": "\n".join([head, *notes, *by_hand]),
        "tests": [compiles, *parts],
        "extra_data": {**facts, "look": [n for n in result.notes if n not in notes]},
    }
