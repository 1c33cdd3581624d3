"""A teacher's repair of a submission, in place of a silent zero: fixes.csv (student, lab, old, new,
reason).

`old` is text of the submission and `new` takes its place, in the cell or file where it stands; a
name alone is replaced wherever it stands as a whole word, so that old = mine, new = lab2 renames a
kernel. What was fixed is noted in the table and in the feedback, and changes the source that is
judged, and its result's key.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nogpu.errors import DataError
from tilelabs.grading.tables import LOOK, table
from tilelabs.judging.marking import tidy
from tilelabs.labs.courses import Course
from tilelabs.labs.rubrics import Lab

_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Fix:
    """Text and what takes its place. where: its row. reason: in the teacher's words."""

    where: str
    old: str
    new: str
    reason: str

    @property
    def words(self) -> str:
        """What was done, for the teacher and the student."""
        reason = f": {tidy(self.reason)}" if self.reason else ""
        return f"fixed by a person, {tidy(self.old, 60)!r} became {tidy(self.new, 60)!r}{reason}"


def fixes(course: Course, lab: Lab) -> Mapping[str, tuple[Fix, ...]]:
    """The fixes of a lab, by student, in the table's order.

    Raises DataError for one without old text.
    """
    found: dict[str, list[Fix]] = {}
    for where, row in table(
        course.folder / "fixes.csv", ("student", "lab", "old", "new"), ("reason",)
    ):
        if row["lab"] != lab.number:
            continue
        old, new = (row[c].replace("\r\n", "\n").replace("\r", "\n") for c in ("old", "new"))
        if not old:
            raise DataError(f"{where}: no old text, and a fix says what becomes what")
        found.setdefault(row["student"], []).append(Fix(where, old, new, row["reason"]))
    return {student: tuple(rows) for student, rows in found.items()}


def fixed(texts: Sequence[str], todo: Sequence[Fix]) -> tuple[list[str], list[str]]:
    """The texts of a submission with its fixes applied, one after the other, and a note for each.

    One that fits nowhere changes nothing, and its note says so: the student may have repaired it
    meanwhile.
    """
    made, notes = list(texts), list[str]()
    for fix in todo:
        name = _NAME.fullmatch(fix.old)
        what = re.compile(rf"\b{fix.old}\b" if name else re.escape(fix.old))
        done = [what.subn(lambda _, new=fix.new: new, text, 0 if name else 1) for text in made]
        if any(count for _, count in done):
            made = [text for text, _ in done]
            notes.append(fix.words)
        else:
            notes.append(
                f"{LOOK}{fix.where} does not fit: {tidy(fix.old, 60)!r} stands nowhere in it"
            )
    return made, notes
