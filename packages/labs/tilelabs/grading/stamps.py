"""When students handed in, as their platform says: never a file's own time, which anybody can set.

Known are a plain table (student, time), Moodle's grading worksheet (Identifier, Last modified
(submission)), and Canvas's submissions as its interface for programs lists them (user_id,
submitted_at).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import datetime, tzinfo
from pathlib import Path

from nogpu.disk import replace_file
from nogpu.errors import DataError
from tilelabs.grading.tables import PRIVATE, table
from tilelabs.labs.policies import moment
from tilelabs.labs.rubrics import Lab

FORMS = (
    ("student", "time"),
    ("Identifier", "Last modified (submission)"),
    ("user_id", "submitted_at"),
)
"""Columns of students and of times, by which a table is known."""

MOODLE = (
    "%A, %d %B %Y, %I:%M %p",
    "%A, %B %d, %Y, %I:%M %p",
    "%A, %d %B %Y, %H:%M",
    "%A, %B %d, %Y, %H:%M",
)
"""How Moodle writes a time in English: day or month first, twelve hours or 24.

It has neither seconds nor an offset, so that a minute counts from its beginning and the zone is the
course's.
"""


def timestamps(path: Path, zone: tzinfo | None) -> dict[str, datetime]:
    """When each student handed in, of several rows the latest; who has no time is left out.

    zone: of times that name none. Raises DataError for a table of no known form, or a time that is
    none.
    """
    if not path.is_file():
        raise DataError(f"{path} is no file: give the table of times that the platform exports")
    heads = _heads(path)
    form = next((f for f in FORMS if set(f) <= set(heads)), None)
    if form is None:
        kinds = "; ".join(", ".join(f) for f in FORMS)
        raise DataError(f"{path} has no columns of times that are known, which are {kinds}")
    found: dict[str, datetime] = {}
    for where, row in table(path, form):
        student, given = row[form[0]].removeprefix("Participant ").strip(), row[form[1]]
        if given in ("", "-") or not student:
            continue
        try:
            at = _moment(given, zone)
        except ValueError as error:
            raise DataError(f"{where}: {error}") from None
        found[student] = max(at, found.get(student, at))
    return found


def _heads(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}. Save it as CSV in UTF-8") from None


def _moment(given: str, zone: tzinfo | None) -> datetime:
    plain = " ".join(given.split())  # Moodle may set a narrow space before PM
    for form in MOODLE:
        try:
            return moment(datetime.strptime(plain, form), zone)
        except ValueError as error:
            if "offset" in str(error):
                raise
    return moment(plain, zone)


def keep(lab: Lab, times: Mapping[str, datetime], out: Path) -> Path:
    """Write out/lab-N-times.csv, so that another report needs no table again."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(FORMS[0])
    rows.writerows((student, at.isoformat()) for student, at in sorted(times.items()))
    path = _kept(lab.number, out)
    replace_file(path, text.getvalue(), PRIVATE)
    return path


def kept(number: str, out: Path) -> dict[str, datetime]:
    """The times that were kept of a lab; none where there are none."""
    path = _kept(number, out)
    return timestamps(path, None) if path.is_file() else {}


def _kept(number: str, out: Path) -> Path:
    return out / f"lab-{number}-times.csv"


__all__ = ["FORMS", "keep", "kept", "timestamps"]
