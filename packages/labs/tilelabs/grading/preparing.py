"""From a download to what is judged: collected, repaired by the teacher, one of each group, and
compared with the course that it says it is of.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nogpu.errors import ConfigError
from tilelabs.grading.collecting import Submission, collect
from tilelabs.grading.fixing import fixes
from tilelabs.grading.grouping import groups, once
from tilelabs.grading.tables import LOOK, table, unknown_student
from tilelabs.judging.marking import tidy
from tilelabs.labs.courses import Course
from tilelabs.labs.rubrics import Lab


@dataclass(frozen=True)
class Prepared:
    """submissions: to judge. same: students whose own bytes another member of their group stands
    for. unused: what a teacher should know of fixes for nobody. strangers: how many of them name
    nobody of the class. files: every file of the download, its student, and "counts" or why not.
    """

    submissions: tuple[Submission, ...]
    same: frozenset[str] = frozenset()
    unused: tuple[str, ...] = ()
    strangers: int = 0
    files: tuple[tuple[str, str, str], ...] = ()


def prepared(
    path: Path, lab: Lab, course: Course, *, student: tuple[str, str] = ("", "")
) -> Prepared:
    """What is to be judged of a folder or a zip.

    student: id and name, where all files are one student's and no name of a file says whose. Raises
    ConfigError where there are no submissions, DataError for tables that do not fit.
    """
    todo = fixes(course, lab)
    every = collect(path, lab.entry, fixes=todo, student=student)
    noted = tuple(replace(s, notes=(*s.notes, *differences(s, lab, course))) for s in every)
    found, same = once(noted, groups(course, lab))
    nobody = sorted(set(todo) - {s.student for s in every})
    listed = {
        row["id"]: row["name"] for _, row in table(course.folder / "roster.csv", ("id", "name"))
    }
    names = {s.student: s.name for s in every} | listed
    strangers = [s for s in nobody if s not in names]
    remarks = {s: unknown_student(s, names) for s in strangers}
    unused = tuple(
        f"{todo[s][0].where}: {remarks.get(s, f'{s!r} handed nothing in')}" for s in nobody
    )
    files = tuple(
        (file, s.student, what)
        for s in every
        for file, what in sorted(((s.file, s.problem or "counts"), *s.untaken))
    )
    return Prepared(found, same, unused, len(strangers), files)


def only(found: Prepared, students: Sequence[str]) -> Prepared:
    """Of what was prepared these students' alone, and of groups what stands for them.

    Raises ConfigError.
    """
    if not students:
        return found
    known = {student: s for s in found.submissions for student in (s.student, *dict(s.also))}
    if lacks := [s for s in students if s not in known]:
        raise ConfigError(f"{', '.join(map(repr, lacks))} handed nothing in: name students by id")
    chosen = dict.fromkeys(known[s].student for s in students)
    return replace(
        found, submissions=tuple(s for s in found.submissions if s.student in chosen), unused=(),
        same=frozenset(), strangers=0,
    )  # fmt: skip


def differences(s: Submission, lab: Lab, course: Course) -> tuple[str, ...]:
    """In what a notebook says that it is of something else than it was handed in for; nothing where
    it says nothing. Whose it is the platform says, and what the file says of that is for the
    teacher to look at.
    """
    wanted = {
        "lab": lab.number, "version": str(lab.version), "variant": course.variant(lab).name,
        "tag": course.tag,
    }  # fmt: skip
    remarks = [
        f"the notebook is of {what} {tidy(s.declared[what], 60)!r}, and the course's is "
        f"{expected!r}"
        for what, expected in wanted.items()
        if expected and s.declared.get(what, expected) != expected
    ]
    own = s.declared.get("student", s.student)
    if own != s.student:
        remarks.append(f"{LOOK}the notebook says that it is of student {tidy(own, 60)!r}")
    return tuple(remarks)
