"""Marks into a learning platform's own table, and feedback into the folders that it handed out.

A platform rejects columns that it did not export, so its own export is filled in: one column of the students
that were judged, and no other cell.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from helpers.disk import replace_file
from helpers.errors import DataError
from helpers.grading.reporting import PRIVATE, Row
from helpers.labs.rubrics import Lab

PLATFORMS: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "Canvas": (("Student", "ID", "Section"), "ID", ""),
    "Moodle": (("Identifier", "Full name", "Grade"), "Identifier", "Grade"),
}
"""Columns that tell a platform's export, the one that names students, and the one of points ("": the
assignment's). Canvas: its gradebook's CSV. Moodle: the assignment's grading worksheet."""


@dataclass(frozen=True)
class Filled:
    """What was filled in: the file, the column, how many students; those of the table without marks, and those
    with marks that the table lacks."""

    path: Path
    column: str
    students: int
    without: tuple[str, ...]
    unknown: tuple[str, ...]


def fill(lab: Lab, rows: Sequence[Row], export: Path, out: Path, *, column: str = "") -> Filled:
    """Write out/lab-N-gradebook.csv: the export with each student's total in one column, all else as it was.

    column: its name, or how it begins; default the platform's, or the only one that names the lab ("Lab 2").
    A cell is left alone where a part is still to be marked by hand. Raises DataError for a table of no known
    platform, or where the column is not there or not the only one.
    """
    raw = _read(export)
    table = list(csv.reader(io.StringIO(raw.removeprefix("\ufeff"))))
    heads = table[0] if table else []
    known = next((p for p in PLATFORMS.values() if set(p[0]) <= set(heads)), None)
    if known is None:
        kinds = "; ".join(f"{name}: {', '.join(p[0])}" for name, p in PLATFORMS.items())
        raise DataError(
            f"{export} is the export of no platform that is known by its columns ({kinds})"
        )
    ids, at = heads.index(known[1]), _column(export, heads, column or known[2], lab)
    totals = {row.student: row for row in rows}
    seen: dict[str, bool] = {}
    for cells in table[1:]:
        student = (
            cells[ids].removeprefix("Participant ").strip() if len(cells) > max(ids, at) else ""
        )
        row = totals.get(student)
        if row is None:
            seen |= {student: False} if student.isdigit() else {}
        elif None not in row.parts.values():
            cells[at] = f"{row.total:g}"
            seen[student] = True
        else:
            seen[student] = False
    text = io.StringIO()
    ends = "\r\n" if "\r\n" in raw else "\n"
    csv.writer(text, lineterminator=ends).writerows(table)
    path = out / f"lab-{lab.number}-gradebook.csv"
    replace_file(path, ("\ufeff" if raw.startswith("\ufeff") else "") + text.getvalue(), PRIVATE)
    return Filled(
        path,
        heads[at],
        sum(seen.values()),
        tuple(s for s, done in seen.items() if not done),
        tuple(sorted(set(totals) - set(seen))),
    )


def _read(export: Path) -> str:
    try:
        return export.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{export} cannot be read: {error}. It should be CSV in UTF-8") from None


def _column(export: Path, heads: Sequence[str], name: str, lab: Lab) -> int:
    wanted = name or f"lab {lab.number}"
    found = [i for i, head in enumerate(heads) if head.lower().startswith(wanted.lower())]
    if len(found) != 1:
        what = "no column begins" if not found else f"{len(found)} columns begin"
        raise DataError(f"{export}: {what} with {wanted!r}; name one of them: {', '.join(heads)}")
    return found[0]


def feedback_zip(lab: Lab, rows: Sequence[Row], files: Mapping[str, str], out: Path) -> Path:
    """out/lab-N-feedback.zip: each student's text in the folder that the platform handed out.

    files: where each student's submission lay in the download. The same bytes for the same words.
    """
    path = out / f"lab-{lab.number}-feedback.zip"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as held:
        for row in rows:
            if row.student in files:
                lay = PurePosixPath(files[row.student])
                folder = lay.parts[0] if len(lay.parts) > 1 else lay.stem
                info = zipfile.ZipInfo(f"{folder}/lab-{lab.number}-feedback.txt")
                held.writestr(info, row.feedback)
    replace_file(path, made.getvalue(), PRIVATE)
    return path


__all__ = ["PLATFORMS", "Filled", "feedback_zip", "fill"]
