"""Marks out of facts: points by part, what a person gave, and words for each student. Instant, and again.

Nothing is judged here. Overrides are applied last, so that what a person decided outlives a regrade.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.disk import replace_file
from helpers.errors import DataError
from helpers.grading.judging import Result, results
from helpers.judging.marking import tidy
from helpers.labs.checking import Checked, judged
from helpers.labs.courses import Course
from helpers.labs.rubrics import Lab, Rubric

MOST_FEEDBACK = 20_000
"""Characters of one student's feedback."""


@dataclass(frozen=True)
class Given:
    """What a person gives for a part in place of what was counted, or for one that is marked by hand."""

    points: float
    reason: str


@dataclass(frozen=True)
class Row:
    """One student's marks: points by part (None: nobody has given them yet), and the words."""

    student: str
    name: str
    parts: Mapping[str, float | None]
    late: bool
    notes: tuple[str, ...]
    feedback: str

    @property
    def total(self) -> float:
        """All points that were given so far."""
        return sum(points for points in self.parts.values() if points is not None)


def report(lab: Lab, course: Course, out: Path) -> tuple[Row, ...]:
    """Write out/lab-N-marks.csv and out/lab-N-feedback/, whole or not at all; the rows, by student.

    Students of the course's roster.csv who handed nothing in have a row without points. Raises DataError for
    tables that do not fit: a row of overrides.csv for a part that does not exist, or too many points.
    """
    every = {r.student: r for r in results(out, lab)}
    roster = {
        row["id"]: row["name"] for row in _table(course.folder / "roster.csv", ("id", "name"))
    }
    given = overrides(course, lab, set(every) | set(roster))
    rows = tuple(
        _row(lab, every.get(student), student, roster.get(student, ""), given.get(student, {}))
        for student in sorted(set(every) | set(roster))
    )
    folder = out / f"lab-{lab.number}-feedback"
    folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        replace_file(folder / f"{_safe_name(row.student)}.txt", row.feedback, PRIVATE)
    replace_file(out / f"lab-{lab.number}-marks.csv", _csv(lab, rows), PRIVATE)
    return rows


def overrides(course: Course, lab: Lab, students: set[str]) -> dict[str, dict[str, Given]]:
    """What persons gave, by student and part. Raises DataError naming the row that does not fit."""
    path = course.folder / "overrides.csv"
    parts = {part.id: part for part in lab.parts}
    found: dict[str, dict[str, Given]] = {}
    for n, row in enumerate(_table(path, ("student", "lab", "part", "points", "reason")), 2):
        if row["lab"] != lab.number:
            continue
        where = f"{path}, line {n}"
        part = parts.get(row["part"])
        if part is None:
            raise DataError(
                f"{where}: lab {lab.number} has no part {row['part']!r}; it has {', '.join(parts)}"
            )
        if row["student"] not in students:
            raise DataError(
                f"{where}: {row['student']!r} handed nothing in and is not in the roster"
            )
        try:
            points = float(row["points"])
        except ValueError:
            points = -1.0
        if not 0 <= points <= part.points:
            raise DataError(f"{where}: {row['points']!r} points; {part.id} has 0 to {part.points}")
        found.setdefault(row["student"], {})[part.id] = Given(points, row["reason"])
    return found


def _row(
    lab: Lab, result: Result | None, student: str, name: str, given: Mapping[str, Given]
) -> Row:
    if result is None:
        parts: dict[str, float | None] = {part.id: None for part in lab.parts}
        parts |= {n: g.points for n, g in given.items()}
        return Row(
            student, name, parts, False, ("no submission",), f"Lab {lab.number}: no submission.\n"
        )
    variant = next((v for v in lab.variants if v.name == result.variant), None)
    if variant is None or result.version != lab.version:
        raise DataError(
            f"{student} was judged by version {result.version} ({result.variant}), and lab {lab.number} is of "
            f"version {lab.version}: run grade again"
        )
    found = judged(lab, variant, result.marked)
    points: dict[str, float | None] = {
        p.rubric.id: None if p.rubric.by_hand else p.points for p in found.parts
    }
    points |= {n: g.points for n, g in given.items()}
    feedback = _feedback(found, points, given, result.notes)
    return Row(student, name or result.name, points, result.late, result.notes, feedback)


def _feedback(
    found: Checked,
    points: Mapping[str, float | None],
    given: Mapping[str, Given],
    notes: Sequence[str],
) -> str:
    lines = [str(found).rsplit("\n", 1)[0], ""]
    for part in found.lab.parts:
        if part.id in given:
            was = next(p.points for p in found.parts if p.rubric.id == part.id)
            lines.append(_by_a_person(part, was, given[part.id]))
    total = sum(p for p in points.values() if p is not None)
    lines += [f"Note: {tidy(note)}" for note in notes]
    open_ = [n for n, p in points.items() if p is None]
    still = f"; {', '.join(open_)} not marked yet" if open_ else ""
    lines.append(f"Total: {total:g} of {found.lab.points} points{still}")
    text = "\n".join(lines) + "\n"
    return text if len(text) <= MOST_FEEDBACK else text[: MOST_FEEDBACK - 5] + " ...\n"


def _by_a_person(part: Rubric, counted: int, given: Given) -> str:
    was = "" if part.by_hand else f" (counted: {counted})"
    reason = f": {tidy(given.reason)}" if given.reason.strip() else ""
    return f"By a person: {part.id} {given.points:g}/{part.points}{was}{reason}"


# -- tables ------------------------------------------------------------------------------------------


def _table(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Rows of a CSV file with these columns; none where there is no file. Raises DataError."""
    if not path.is_file():
        return []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}. Save it as CSV in UTF-8") from None
    for n, row in enumerate(rows, 2):
        if missing := [c for c in columns if row.get(c) is None]:
            raise DataError(
                f"{path}, line {n}: no {', '.join(missing)}; its columns are {', '.join(columns)}"
            )
    return [{c: row[c].strip() for c in columns} for row in rows]


def _csv(lab: Lab, rows: Sequence[Row]) -> str:
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["id", "name", *(part.id for part in lab.parts), "total", "late", "notes"])
    for row in rows:
        cells = [row.parts.get(part.id) for part in lab.parts]
        points = ["" if p is None else f"{p:g}" for p in cells]
        late = "late" if row.late else ""
        out.writerow(
            [
                inert(row.student),
                inert(row.name),
                *points,
                f"{row.total:g}",
                late,
                inert("; ".join(row.notes)),
            ]
        )
    return text.getvalue()


def inert(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    plain = tidy(cell)
    return f"'{plain}" if plain[:1] in tuple("=+-@") else plain


def _safe_name(student: str) -> str:
    """A file's name: the student's, with nothing in it that leads elsewhere."""
    plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in student)[:80]
    if plain == student:
        return plain
    return f"{plain}-{hashlib.sha256(student.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


PRIVATE = 0o600
"""Of what is written about students: to be read by its owner."""


__all__ = ["Given", "Row", "inert", "overrides", "report"]
