"""Facts of every submission, one file each: whatever is judged stays judged until it changes.

A result's key is made of the source, the lab's version, this code and the cases. A run that was cut off
goes on where it was; files are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from helpers.disk import code_of, replace_file
from helpers.errors import DataError
from helpers.grading.collecting import Submission
from helpers.judging import compiling, marking, running
from helpers.judging.marking import Case, Marked, Run, cases, mark
from helpers.labs.courses import Course
from helpers.labs.rubrics import Lab

_JUDGE = code_of(*(Path(m.__file__ or "") for m in (marking, compiling, running)))


@dataclass(frozen=True)
class Result:
    """The facts of one submission. key: of all that decided them. attempt: which set of cases was drawn."""

    student: str
    name: str
    file: str
    lab: str
    version: int
    variant: str
    attempt: int
    key: str
    marked: Marked
    notes: tuple[str, ...] = ()
    late: bool = False


def grade(
    lab: Lab,
    submissions: Sequence[Submission],
    course: Course,
    out: Path,
    *,
    attempt: int = 1,
    workers: int | None = None,
    executor: Executor | None = None,
    lock: bool | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[Result, ...]:
    """Judge what has not been judged yet, into out/lab-N/; all results, in the order of the submissions.

    attempt: another one draws other cases for everybody. workers: submissions at a time (default: cores).
    executor: any of concurrent.futures in place of threads; each submission has two processes of its own
    in any case. lock: as in `judging.marking.mark`. Raises DataError where out cannot be written.
    """
    folder = out / f"lab-{lab.number}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be made: {error.strerror}") from None
    held = {s.student: _held(folder, s, lab, course, attempt) for s in submissions}
    todo = [s for s in submissions if held[s.student] is None]
    tell(f"{len(submissions)} submissions, {len(submissions) - len(todo)} judged before")
    own = executor or ThreadPoolExecutor(workers or os.cpu_count() or 1)
    try:
        waiting = {own.submit(judged, s, lab, course, attempt, lock): s for s in todo}
        for n, done in enumerate(as_completed(waiting), 1):
            result = done.result()
            _write(folder / _name(result.student), result)
            held[result.student] = result
            tell(
                f"{n}/{len(todo)} {result.student}: {result.marked.refused or _short(result.marked)}"
            )
    finally:
        if executor is None:
            own.shutdown(cancel_futures=True)
    return tuple(r for s in submissions if (r := held[s.student]) is not None)


def judged(
    s: Submission, lab: Lab, course: Course, attempt: int, lock: bool | None = None
) -> Result:
    """The facts of one submission: it alone, whatever the others do."""
    variant = course.variant(lab)
    asked = lab.asked(variant)
    if s.raw is None:
        facts = Marked(marking.tidy(s.problem), "bytes")
    else:
        facts = mark(s.raw, asked, _cases(s, lab, course, attempt), lock=lock)
        facts = replace(facts, seconds=0.0)  # a result says nothing of the machine's load
    return Result(
        s.student, s.name, s.file, lab.number, lab.version, variant.name, attempt,
        key_of(s, lab, course, attempt), facts, s.notes, s.late,
    )  # fmt: skip


def _cases(s: Submission, lab: Lab, course: Course, attempt: int) -> tuple[Case, ...]:
    asked = lab.asked(course.variant(lab))
    return cases(asked, course.secret, lab.number, lab.version, s.student, attempt)


def key_of(s: Submission, lab: Lab, course: Course, attempt: int) -> str:
    """A name for all that decides a result. The secret is in it by the cases, and cannot be read from it."""
    parts = [
        s.raw if s.raw is not None else s.problem.encode(),
        repr((s.student, s.name, s.file, s.notes, s.late)).encode(),
        repr((lab.number, lab.version, course.variant(lab).name, attempt, _JUDGE)).encode(),
        repr(_cases(s, lab, course, attempt)).encode(),
    ]
    return hashlib.sha256(b"".join(hashlib.sha256(p).digest() for p in parts)).hexdigest()


def _short(m: Marked) -> str:
    tried = {r.case for r in m.runs}
    return f"{len(m.right)} of {len(tried)} shapes right"


# -- files -------------------------------------------------------------------------------------------


def _name(student: str) -> str:
    """A file's name for a student, whatever the platform calls them."""
    return hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:16] + ".json"


def _write(path: Path, result: Result) -> None:
    replace_file(path, json.dumps(asdict(result), indent=1, sort_keys=True) + "\n", 0o600)


def _held(folder: Path, s: Submission, lab: Lab, course: Course, attempt: int) -> Result | None:
    """What was judged before of exactly this; None where there is nothing, or it cannot be read."""
    try:
        told = json.loads((folder / _name(s.student)).read_text(encoding="utf-8"))
        result = _result(told)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return result if result.key == key_of(s, lab, course, attempt) else None


def _result(told: Mapping[str, Any]) -> Result:
    facts = dict(told["marked"])
    runs = tuple(_run(r) for r in facts.pop("runs"))
    rest = {k: v for k, v in told.items() if k not in ("marked", "notes")}
    return Result(**rest, notes=tuple(told["notes"]), marked=Marked(runs=runs, **facts))


def _run(told: Mapping[str, Any]) -> Run:
    rest = {k: v for k, v in told.items() if k not in ("case", "changed", "findings")}
    return Run(
        Case(**told["case"]), changed=tuple(told["changed"]),
        findings=tuple((k, int(line), m) for k, line, m in told["findings"]), **rest,
    )  # fmt: skip


def results(out: Path, lab: Lab) -> tuple[Result, ...]:
    """All that has been judged of a lab, by student. Raises DataError where there is nothing."""
    found = []
    for path in sorted((out / f"lab-{lab.number}").glob("*.json")):
        try:
            found.append(_result(json.loads(path.read_text(encoding="utf-8"))))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged ({error}): delete it and grade again") from None
    if not found:
        raise DataError(f"{out} holds no results of lab {lab.number}: run grade first")
    return tuple(sorted(found, key=lambda r: r.student))


__all__ = ["Result", "grade", "judged", "key_of", "results"]
