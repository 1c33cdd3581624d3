"""Marks into a learning platform's own table, and feedback into the folders that it handed out.

A platform rejects columns that it did not export, so its own export is filled in: one column of the
students that were judged, and no other cell.
"""

import csv
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nogpu.errors import DataError
from tilelabs.grading.collecting import MOODLE
from tilelabs.grading.reporting import Row
from tilelabs.grading.tables import keep, safe_name
from tilelabs.labs.rubrics import Lab

PLATFORMS: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "Canvas": (("Student", "ID", "Section"), "ID", ""),
    "Moodle": (("Identifier", "Full name", "Grade"), "Identifier", "Grade"),
}
"""Columns that tell a platform's export, the one that names students, and the one of points ("":
the assignment's). Canvas: its gradebook's CSV. Moodle: the assignment's grading worksheet.
"""


@dataclass(frozen=True)
class Filled:
    """What was filled in: the file, the column, how many students; those of the table without
    marks, by the reason, and those with marks that the table lacks.
    """

    path: Path
    column: str
    students: int
    left: Mapping[str, tuple[str, ...]]
    unknown: tuple[str, ...]

    @property
    def without(self) -> tuple[str, ...]:
        """Whose cells are as they were."""
        return tuple(student for students in self.left.values() for student in students)


def fill(lab: Lab, rows: Sequence[Row], export: Path, out: Path, *, column: str = "") -> Filled:
    """Write out/lab-N-gradebook.csv: the export with each student's points in one column.

    A cell is left alone where a part is still to be marked by hand. export: the platform's own
    table. column: its name, or how it begins; default the platform's, or the only one that names
    the lab. Raises DataError: a table of no known platform, or a column that is not there or not
    the only one.
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
    seen: dict[str, str] = {}  # why a student's cell is left alone, or ""
    for cells in table[1:]:
        whose = cells[ids] if len(cells) > max(ids, at) else ""
        student = whose.removeprefix("Participant ").strip()
        row = totals.get(student)
        if row is None:
            seen |= {student: NOTHING} if student.isdigit() else {}
            continue
        seen[student] = _open(lab, row)
        if not seen[student]:
            cells[at] = f"{row.total:g}"
    text = io.StringIO()
    ends = "\r\n" if "\r\n" in raw else "\n"
    csv.writer(text, lineterminator=ends).writerows(table)
    mark = "\ufeff" if raw.startswith("\ufeff") else ""
    path = keep(out / f"lab-{lab.number}-gradebook.csv", mark + text.getvalue())
    reasons = sorted(set(seen.values()) - {""})
    left = {why: tuple(s for s in seen if seen[s] == why) for why in reasons}
    filled = sum(not why for why in seen.values())
    return Filled(path, heads[at], filled, left, tuple(sorted(set(totals) - set(seen))))


NOTHING = "nothing handed in"


def _open(lab: Lab, row: Row) -> str:
    """Why a row has no mark yet; "" where every part has its points."""
    open_ = [part for part, points in row.parts.items() if points is None]
    if not open_:
        return ""
    by_hand = {part.id for part in lab.parts if part.by_hand}
    return f"{', '.join(open_)} not marked yet" if by_hand.issuperset(open_) else NOTHING


def _read(export: Path) -> str:
    try:
        return export.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{export} cannot be read: {error}. It should be CSV in UTF-8") from None


def _column(export: Path, heads: Sequence[str], name: str, lab: Lab) -> int:
    wanted = name or f"lab {lab.number}"
    same = [i for i, head in enumerate(heads) if head.lower() == wanted.lower()]
    found = same or [i for i, head in enumerate(heads) if head.lower().startswith(wanted.lower())]
    if len(found) != 1:
        what = "no column begins" if not found else f"{len(found)} columns begin"
        raise DataError(f"{export}: {what} with {wanted!r}; name one of them: {', '.join(heads)}")
    return found[0]


def feedback_zip(lab: Lab, rows: Sequence[Row], files: Mapping[str, str], out: Path) -> Path:
    """out/lab-N-feedback.zip: each student's text in the folder that the platform handed
    out.

    files: where each student's submission lay in the download. The same bytes for the same words.
    """
    into = folders(rows, files)
    path = out / f"lab-{lab.number}-feedback.zip"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for row in rows:
            if folder := into.get(row.student):
                info = zipfile.ZipInfo(f"{folder}/lab-{lab.number}-feedback.txt")
                archive.writestr(info, row.feedback)
    return keep(path, made.getvalue())


def folders(rows: Sequence[Row], files: Mapping[str, str]) -> dict[str, str]:
    """The folder for each student's feedback, by student; a student may have none.

    A member of a group who handed nothing in has one of their own, as Moodle would name it, where
    the download is Moodle's and the roster has their number and name; nobody's lies in another
    member's folder, since who has that folder would read the other's points.
    """
    found = {}
    for row in rows:
        if row.student in files:
            folder = _folder(files[row.student])
            leads = folder in ("..", "/") or "\\" in folder  # on Windows, that too
            found[row.student] = safe_name(row.student) if leads else folder
        elif row.file and MOODLE.match(_folder(row.file)) and row.student.isdecimal():
            name = " ".join(re.sub(r"[^\w .'-]|_", " ", row.name).split()).strip(".")
            if name:
                found[row.student] = f"{name}_{row.student}_assignsubmission_file_"
    return found


def _folder(file: str) -> str:
    lay = PurePosixPath(file)
    return lay.parts[0] if len(lay.parts) > 1 else lay.stem
