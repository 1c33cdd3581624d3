"""Facts of every submission, one file each: whatever is judged stays judged until it changes.

A result's key is made of the source, the lab's version, this code and the cases. A run that was cut
off goes on where it was; files are written whole or not at all.
"""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from helpers.wording import counted
from nogpu.disk import code_of, digest, replace_file
from nogpu.errors import ConfigError, DataError
from tilelabs import apart
from tilelabs.grading.collecting import Submission
from tilelabs.grading.tables import PRIVATE
from tilelabs.judging import compiling, marking, running
from tilelabs.judging.marking import Case, Marked, Specification, cases, mark, run_of
from tilelabs.labs import checking
from tilelabs.labs.courses import Course
from tilelabs.labs.rubrics import Lab

_JUDGE = code_of(
    *(Path(m.__file__ or "") for m in (marking, compiling, running)),
    Path(running.__file__ or "").with_name("hosting.py"),
)


@dataclass(frozen=True)
class Result:
    """The facts of one submission. key: of all that decided them; source, judge: of the bytes that
    were judged and of the judge's own code. attempt: which set of cases was drawn. also, answers:
    as in `Submission`; no fact depends on the answers, which are kept for a person.
    """

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
    also: tuple[tuple[str, str], ...] = ()
    source: str = ""
    judge: str = ""
    answers: tuple[tuple[str, str, str], ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """Where it lay in the download, by each student who handed it in."""
        return {self.student: self.file, **dict(self.also)}


def grade(
    lab: Lab,
    submissions: Sequence[Submission],
    course: Course,
    out: Path,
    *,
    attempt: int | None = None,
    again: bool = False,
    workers: int | None = None,
    executor: Executor | None = None,
    lock: bool | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[Result, ...]:
    """Judge what has not been judged yet, into out/lab-N/; all results, in the submissions' order.

    A result that takes another's place leaves it in out/lab-N/history/, and `tell` is given what
    became of the points, and why. Each submission has two processes of its own. attempt: another
    one draws other cases; default that of a student's earlier result, the next one where the source
    has changed, or 1. again: judge what has been judged, too. workers: submissions at a time;
    default the number of cores. executor: of concurrent.futures, in place of threads, also with
    workers elsewhere (see `Task`). lock: as in `judging.marking.mark`. Raises DataError: out cannot
    be written; ConfigError: a worker must not judge.
    """
    folder = out / f"lab-{lab.number}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be made: {error.strerror}") from None
    before = {s.student: _before(folder, s) for s in submissions}
    tries = {s.student: attempt or _attempt(before[s.student], s) for s in submissions}
    outcome: dict[str, Result | None] = {}
    for s in submissions:
        old = before[s.student]
        same = old is not None and old.key == key_of(s, lab, course, tries[s.student])
        outcome[s.student] = _refreshed(folder, old, s) if old and same and not again else None
    todo = [s for s in submissions if outcome[s.student] is None]
    tell(f"{counted(len(submissions), 'submission')}, {len(submissions) - len(todo)} judged before")
    own = executor or ThreadPoolExecutor(workers or os.cpu_count() or 1)
    try:
        waiting = {own.submit(facts, task(s, lab, course, tries[s.student], lock)): s for s in todo}
        for n, done in enumerate(as_completed(waiting), 1):
            s = waiting[done]
            result = _of(s, lab, course, tries[s.student], done.result())
            old = before[s.student]
            new = old is not None and (old.key, old.marked) != (result.key, result.marked)
            if new:
                _put_by(folder / file_name(result.student))
            _write(folder / file_name(result.student), result)
            outcome[result.student] = result
            m = result.marked
            verdict = m.refused or f"{len(m.right)} of {m.all} shapes right"
            tell(f"{n}/{len(todo)} {result.student}: {verdict}")
            if old and new:
                tell(f"  {_compared(lab, old, result)}")
    finally:
        if executor is None:
            own.shutdown(cancel_futures=True)
    return tuple(r for s in submissions if (r := outcome[s.student]) is not None)


def judged(
    s: Submission, lab: Lab, course: Course, attempt: int, lock: bool | None = None
) -> Result:
    """The facts of one submission: it alone, whatever the others do."""
    return _of(s, lab, course, attempt, facts(task(s, lab, course, attempt, lock)))


@dataclass(frozen=True)
class Task:
    """All that a worker needs to judge one source, wherever it is.

    Neither the course's secret is in it nor whose the source is, but the cases are: who sees a task
    knows what this one submission is tried on, and until the next attempt no more. problem: why
    there is no source. book: the book of who asks (`book`).
    """

    raw: bytes | None
    problem: str
    spec: Specification
    cases: tuple[Case, ...]
    lock: bool | None
    book: str


def task(s: Submission, lab: Lab, course: Course, attempt: int, lock: bool | None = None) -> Task:
    """What is asked about a submission."""
    spec = lab.specification(course.variant(lab))
    return Task(s.raw, s.problem, spec, _cases(s, lab, course, attempt), lock, book())


def facts(of: Task) -> dict[str, Any]:
    """The facts of a source as plain data: what `Marked` holds, without the seconds, which tell of
    load alone.

    Runs on a worker, which locks its own two processes. Raises ConfigError where it has another
    book than who asks, or is to lock and cannot.
    """
    if of.book != book():
        raise ConfigError(
            f"the worker on {platform.node()} has another state of the book: install there what "
            "is installed here"
        )
    if of.lock and not apart.landlock():
        raise ConfigError(
            f"the worker on {platform.node()} cannot lock the compiler into folders (Landlock, "
            "Linux 5.13 or newer): leave it out, or add --without-landlock where there is "
            "nothing worth reading"
        )
    if of.raw is None:
        return asdict(Marked(marking.tidy(of.problem), "bytes"))
    return asdict(replace(mark(of.raw, of.spec, of.cases, lock=of.lock), seconds=0.0))


@cache
def book() -> str:
    """A name for the state of the book's code, by what its files hold."""
    files = [
        (p.relative_to(home.parent).as_posix(), p.read_bytes())
        for home in marking.CODE
        for kind in ("*.py", "*.h")
        for p in sorted(home.rglob(kind))
    ]
    return digest([x for pair in files for x in pair])


def _of(s: Submission, lab: Lab, course: Course, attempt: int, data: Mapping[str, Any]) -> Result:
    return Result(
        s.student, s.name, s.file, lab.number, lab.version, course.variant(lab).name, attempt,
        key_of(s, lab, course, attempt), _marked(data), s.notes, s.late, s.also,
        _source(s), _JUDGE, s.answers,
    )  # fmt: skip


def _cases(s: Submission, lab: Lab, course: Course, attempt: int) -> tuple[Case, ...]:
    spec = lab.specification(course.variant(lab))
    return cases(spec, course.secret, lab.number, lab.version, s.student, attempt)


def key_of(s: Submission, lab: Lab, course: Course, attempt: int) -> str:
    """A name for all that decides the facts, and so not the file's name or notes.

    The secret is in it by the cases, and cannot be read from it.
    """
    parts = [
        s.raw if s.raw is not None else s.problem.encode(),
        s.student.encode("utf-8", "surrogatepass"),
        repr((lab.number, lab.version, course.variant(lab).name, attempt, _JUDGE)).encode(),
        repr(_cases(s, lab, course, attempt)).encode(),
        json.dumps(lab.specification(course.variant(lab)).as_data).encode(),
    ]
    return hashlib.sha256(b"".join(hashlib.sha256(p).digest() for p in parts)).hexdigest()


# -- files -----------------------------------------------------------------------------------------


def file_name(student: str) -> str:
    """A file's name for a student, whatever the platform calls them."""
    return hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:16] + ".json"


def _write(path: Path, result: Result) -> None:
    replace_file(path, json.dumps(asdict(result), indent=1, sort_keys=True) + "\n", PRIVATE)


def _before(folder: Path, s: Submission) -> Result | None:
    """What was judged before of this student; None where there is nothing, or it cannot be read."""
    try:
        return _result(json.loads((folder / file_name(s.student)).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _attempt(old: Result | None, s: Submission) -> int:
    """As before; of another source the next, since feedback named a shape of the last."""
    return 1 if old is None else old.attempt + (bool(old.source) and old.source != _source(s))


def _refreshed(folder: Path, old: Result, s: Submission) -> Result:
    """The same facts under the names and notes that the submission has now: those need no run."""
    new = replace(
        old, name=s.name, file=s.file, notes=s.notes, late=s.late, also=s.also, answers=s.answers
    )
    if new != old:
        _write(folder / file_name(s.student), new)
    return new


def _source(s: Submission) -> str:
    raw = s.raw if s.raw is not None else s.problem.encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).hexdigest()


HISTORY = "history"
"""The folder beside the results of those whose place another took: NAME-1.json is the earliest."""


def _put_by(path: Path) -> None:
    """Keep what a result's file holds before something else takes its place."""
    if path.is_file():
        folder = path.parent / HISTORY
        n = len(list(folder.glob(f"{path.stem}-*.json"))) + 1
        replace_file(folder / f"{path.stem}-{n}.json", path.read_bytes(), PRIVATE)


def _compared(lab: Lab, old: Result, new: Result) -> str:
    """One line: points before and now, and what of the things that decide them is another."""
    changed = {
        "source changed": old.source != new.source,
        f"lab version {old.version} -> {new.version}": old.version != new.version,
        f"variant {old.variant!r} -> {new.variant!r}": old.variant != new.variant,
        f"attempt {old.attempt} -> {new.attempt}": old.attempt != new.attempt,
        "the judge's code changed": old.judge != new.judge,
    }
    why = ", ".join(words for words, is_so in changed.items() if is_so)
    why = why or ("other cases" if old.key != new.key else "judged again")
    was, now = (_points(lab, r) for r in (old, new))
    return f"{new.student}: {was} -> {now} points ({why})"


def _points(lab: Lab, r: Result) -> str:
    try:
        return f"{checked(lab, r).points:g}"
    except DataError:
        return "points of another version"


def checked(lab: Lab, result: Result) -> checking.Checked:
    """The points of a result. Raises DataError for one of another version of the lab."""
    variant = next((v for v in lab.variants if v.name == result.variant), None)
    if variant is None or result.version != lab.version:
        raise DataError(
            f"{result.student} was judged by version {result.version} ({result.variant}), and lab "
            f"{lab.number} is of version {lab.version}: run grade again"
        )
    return checking.judged(lab, variant, result.marked)


def retire(out: Path, lab: Lab, students: Iterable[str]) -> None:
    """Put results by that no longer count: of students for whom another member of their group
    stands.
    """
    for student in students:
        path = out / f"lab-{lab.number}" / file_name(student)
        _put_by(path)
        path.unlink(missing_ok=True)


def _result(data: Mapping[str, Any]) -> Result:
    lists = {name: tuple(map(tuple, data.get(name, ()))) for name in ("also", "answers")}
    more = {"notes": tuple(data["notes"]), "marked": _marked(data["marked"])}
    return Result(**{**data, **lists, **more})


def _marked(data: Mapping[str, Any]) -> Marked:
    asks, runs = tuple(data.get("asks", ())), tuple(map(run_of, data["runs"]))
    return Marked(**{**data, "asks": asks, "runs": runs})


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
