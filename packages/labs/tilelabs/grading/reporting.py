"""Marks out of facts: points by part, what a person gave, and words for each student.

Instant, and again: nothing is judged here. Overrides are applied last, so that what a person
decided outlives a regrade.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from helpers.wording import counted
from nogpu.errors import DataError
from tilelabs.grading.answers import tidied
from tilelabs.grading.feedback import Feedback, Override, closing, text
from tilelabs.grading.grouping import Entry, entries, groups
from tilelabs.grading.judging import Result, checked, results
from tilelabs.grading.tables import (
    LOOK,
    changed,
    inert,
    inert_text,
    keep,
    safe_name,
    table,
    unknown_student,
)
from tilelabs.grading.timings import times
from tilelabs.judging.timing import YOURS, Timed, words
from tilelabs.labs.courses import Course
from tilelabs.labs.rubrics import Lab


@dataclass(frozen=True)
class Row:
    """One student's marks: points by part (None: nobody has given them yet), and the words. late:
    the platform says so. version: of the lab, 0 where nothing was handed in. given: what persons
    gave. answers: by part that a person marks. file: where what counts lay in the download."""

    student: str
    name: str
    parts: Mapping[str, float | None]
    late: bool
    notes: tuple[str, ...]
    feedback: str
    timed: Timed | None = None
    version: int = 0
    attempt: int = 0
    given: Mapping[str, Override] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
    file: str = ""

    @property
    def total(self) -> float:
        """All points that were given so far."""
        return sum(points for points in self.parts.values() if points is not None)

    @property
    def empty(self) -> bool:
        """Nobody has given any part."""
        return all(points is None for points in self.parts.values())


def report(
    lab: Lab, course: Course, out: Path, *, tell: Callable[[str], None] = lambda line: None
) -> tuple[Row, ...]:
    """Write out/lab-N-marks.csv, out/lab-N-written.csv and out/lab-N-feedback/, whole or not at
    all; the rows, by student.

    Points that stand in lab-N-written.csv are read from there. A file that a person changed stays,
    and what is new lies beside it, which `tell` is told.
    Every member of a group has a row, and the points that a person gave one member for a part that
    is marked by hand, where nobody gave them their own. Students of the course's roster.csv who
    handed nothing in have one without points, or with 0, as the course says. Raises DataError for
    tables that do not fit: a row of overrides.csv for a part that does not exist, or too many
    points.
    """
    came = counting(lab, course, out)
    listed = table(course.folder / "roster.csv", ("id", "name"))
    roster = {row["id"]: row["name"] for _, row in listed}
    students = sorted(set(came) | set(roster))
    named = {s: roster.get(s) or _name(came.get(s), s) for s in students}
    of = groups(course, lab)
    typed, given = by_hand(lab, out, named), overrides(course, lab, named)
    given = {s: {**typed.get(s, {}), **given.get(s, {})} for s in {*typed, *given}}
    given = _shared(lab, given, came, of)
    answers = _answers(lab, results(out, lab), came, of)
    timed = times(out, lab, [c.result for c in came.values()])
    rows = tuple(
        replace(
            _row(lab, course, came.get(s), s, roster.get(s, ""), given.get(s, {}), timed),
            answers=answers.get(s, {}),
        )
        for s in students
    )
    folder = out / f"lab-{lab.number}-feedback"
    folder.mkdir(parents=True, exist_ok=True)
    made = [keep(folder / f"{safe_name(row.student)}.txt", row.feedback) for row in rows]
    made.append(keep(out / f"lab-{lab.number}-marks.csv", _csv(lab, rows)))
    hands = {
        (cells["student"], cells["part"], cells["answer"])
        for path in _changed(lab, out)
        for _, cells in table(path, ("student", "part", "answer"))
    }
    cells = _written(lab, rows)
    lacking = [c for c in cells if (c[0], c[2], c[3].strip()) not in hands]
    if lacking or not cells:
        made.append(keep(out / f"lab-{lab.number}-written.csv", _lines(WRITTEN, lacking)))
    for path in made:
        if path.suffixes[:-1]:
            tell(f"{path}: beside a file of before, which a person changed and which stays")
    return rows


def write_files(lab: Lab, files: Sequence[tuple[str, str, str]], out: Path) -> str:
    """Write out/lab-N-files.csv: every file of a download, whose it is, and "counts" or why it
    does not; a line about them.
    """
    path = keep(
        out / f"lab-{lab.number}-files.csv",
        _lines(("file", "student", "what"), ([inert(cell) for cell in row] for row in files)),
    )
    count, students = sum(what == "counts" for *_, what in files), len({s for _, s, _ in files})
    rest = len(files) - count
    return (
        f"{path}: {counted(len(files), 'file')} of {counted(students, 'student')}: "
        f"{count} count{'s' * (count == 1)}, {rest} do{'es' * (rest == 1)} not"
    )


def _changed(lab: Lab, out: Path) -> list[Path]:
    return [p for p in sorted(out.glob(f"lab-{lab.number}-written*.csv")) if changed(p)]


def by_hand(lab: Lab, out: Path, students: Mapping[str, str]) -> dict[str, dict[str, Override]]:
    """Points that a person typed into lab-N-written.csv, by student and part.

    students: names by id. Raises DataError naming the row that does not fit.
    """
    ids = {inert(s): s for s in students}
    rows = (
        (where, {**row, "student": ids.get(row["student"], row["student"])})
        for path in _changed(lab, out)
        for where, row in table(path, ("student", "part", "points"), ("reason",))
        if row["points"]
    )
    return _given(lab, rows, students)


def _shared(
    lab: Lab,
    given: Mapping[str, Mapping[str, Override]],
    came: Mapping[str, Entry],
    of: Mapping[str, Sequence[str]],
) -> dict[str, dict[str, Override]]:
    """What persons gave, and for parts marked by hand what they gave another member of the group.

    Of several members with points of their own it is what the one has whose submission counts;
    where that one has none and the others differ, nothing: a person decides.
    """
    found = {student: dict(parts) for student, parts in given.items()}
    for part in (p.id for p in lab.parts if p.by_hand):
        for members in of.values():
            own = {m: given[m][part] for m in members if part in given.get(m, {})}
            first = next((came[m].result.student for m in members if m in came), "")
            of_all = own.get(first) or (
                next(iter(own.values())) if len({g.points for g in own.values()}) == 1 else None
            )
            if of_all:
                for member in members:
                    found.setdefault(member, {}).setdefault(part, of_all)
    return found


def _answers(
    lab: Lab, every: Sequence[Result], came: Mapping[str, Entry], of: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, str]]:
    """Answers by student and part that a person marks: the student's own, or else that of the
    member of the group whose submission counts, or else any member's.
    """
    own = {(who, part): text for r in every for who, part, text in r.answers}
    members = {m: group for group in of.values() for m in group}
    found: dict[str, dict[str, str]] = {}
    for student, handed_in in came.items():
        for part in (p.id for p in lab.parts if p.by_hand):
            candidates = (student, handed_in.result.student, *members.get(student, ()))
            answer = next((own[who, part] for who in candidates if (who, part) in own), "")
            found.setdefault(student, {})[part] = answer
    return found


def _name(came: Entry | None, student: str) -> str:
    """What the platform calls a student; "" for a member of a group who handed nothing in."""
    return came.result.name if came and came.result.student == student else ""


def overrides(
    course: Course, lab: Lab, students: Mapping[str, str]
) -> dict[str, dict[str, Override]]:
    """What persons gave, by student and part. students: names by id.

    Raises DataError naming the row that does not fit.
    """
    path = course.folder / "overrides.csv"
    rows = table(path, ("student", "lab", "part", "points", "reason"))
    return _given(lab, (pair for pair in rows if pair[1]["lab"] == lab.number), students)


def _given(
    lab: Lab, rows: Iterable[tuple[str, Mapping[str, str]]], students: Mapping[str, str]
) -> dict[str, dict[str, Override]]:
    parts = {part.id: part for part in lab.parts}
    found: dict[str, dict[str, Override]] = {}
    for where, row in rows:
        part = parts.get(row["part"])
        if part is None:
            raise DataError(
                f"{where}: lab {lab.number} has no part {row['part']!r}; it has {', '.join(parts)}"
            )
        if row["student"] not in students:
            raise DataError(f"{where}: {unknown_student(row['student'], students)}")
        try:
            points = float(row["points"].replace(",", "."))
        except ValueError:
            points = -1.0
        if not 0 <= points <= part.points:
            raise DataError(f"{where}: {row['points']!r} points; {part.id} has 0 to {part.points}")
        found.setdefault(row["student"], {})[part.id] = Override(points, row["reason"])
    return found


def counting(lab: Lab, course: Course, out: Path) -> dict[str, Entry]:
    """What counts for each student, members of groups among them."""
    return entries(results(out, lab), groups(course, lab), lambda r: checked(lab, r).points)


def _row(
    lab: Lab,
    course: Course,
    came: Entry | None,
    student: str,
    name: str,
    given: Mapping[str, Override],
    timed: Mapping[str, Timed],
) -> Row:
    """A student's row. name: in the roster, "" where it lacks them."""
    nothing = 0.0 if course.missing == "zero" else None
    points: dict[str, float | None] = {part.id: nothing for part in lab.parts}
    found, notes = None, list[str]()
    row = Row(student, name, points, False, ("no submission",), "", given=given)
    if came:
        r, fast = came.result, timed.get(came.result.student)
        found = replace(checked(lab, r), timed=fast)
        points = {p.rubric.id: None if p.rubric.by_hand else p.points for p in found.parts}
        notes = [*r.notes, *came.notes]
        if r.marked.asks:  # for a person to look at
            asks = ", ".join(r.marked.asks)
            notes.append(f"{LOOK}it asks where it runs, by {asks}; no point depends on it")
        refused = [f"it did not run: {r.marked.refused}"] if r.marked.refused else []
        row = replace(
            row, name=name or _name(came, student), late=r.late, version=r.version, timed=fast,
            attempt=r.attempt, file=r.file, notes=(*refused, *notes),
        )  # fmt: skip
    points |= {n: g.points for n, g in given.items()}
    message = Feedback(lab, found, points, given, notes, closing(lab, points), row.attempt)
    return replace(row, parts=points, feedback=text(message))


# -- tables ----------------------------------------------------------------------------------------


def _csv(lab: Lab, rows: Sequence[Row]) -> str:
    ids = [part.id for part in lab.parts]
    head = ["id", "name", *ids, "total", "late", "version", "attempt", "notes", *TIMES]
    return _lines(head, (_cells(ids, row) for row in rows))


def _cells(ids: Sequence[str], row: Row) -> list[object]:
    points = [row.parts.get(part) for part in ids]
    return [
        inert(row.student),
        inert(row.name),
        *("" if p is None else f"{p:g}" for p in points),
        "" if row.empty else f"{row.total:g}",
        "late" if row.late else "",
        row.version or "",
        row.attempt or "",
        inert("; ".join(row.notes)),
        *_times(row.timed),
    ]


WRITTEN = ("student", "name", "part", "answer", "points", "reason")


def _written(lab: Lab, rows: Sequence[Row]) -> list[list[str]]:
    """A row for each student and part that a person marks: what was answered, and the points and
    the reason, if given.
    """
    made = []
    for row in rows:
        for part in (p.id for p in lab.parts if p.by_hand):
            given = row.given.get(part)
            cells = [f"{given.points:g}", inert_text(given.reason)] if given else ["", ""]
            answer = inert_text(tidied(row.answers.get(part, "")))
            made.append([inert(row.student), inert(row.name), part, answer, *cells])
    return made


def _lines(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows([head, *rows])
    return made.getvalue()


TIMES = ("ms", "times_as_fast_as_rung", "times_as_fast_as_cublas", "gpu")
"""Columns beside the points: on a GPU, where one timed it."""


def _times(timed: Timed | None) -> list[str]:
    if timed is None or timed.refused or timed.wrong:
        shown = "" if timed is None else inert(words(timed))
        return ["", "", "", shown]
    ratios = (timed.over_rung, timed.over_library)
    faster = ["" if r is None else f"{r.median:.4g}" for r in ratios]
    return [f"{timed.ms[YOURS].median:.4g}", *faster, timed.gpu]
