"""Groups: one submission, one run, a row for each member.

groups.csv has a row for each student: student, group, lab (empty: every lab). Members who hand in
the same bytes are judged once. Of different submissions of one group each is judged, and the one
with the most points counts for all members.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nogpu.errors import DataError
from tilelabs.grading.collecting import Submission
from tilelabs.grading.judging import Result
from tilelabs.grading.tables import table
from tilelabs.labs.courses import Course
from tilelabs.labs.rubrics import Lab


@dataclass(frozen=True)
class Entry:
    """What counts for a student: a result, and what to note."""

    result: Result
    notes: tuple[str, ...] = ()


def groups(course: Course, lab: Lab) -> dict[str, tuple[str, ...]]:
    """Members by group, of a lab. Raises DataError for a student in two groups."""
    found: dict[str, list[str]] = {}
    member: dict[str, str] = {}
    for where, row in table(course.folder / "groups.csv", ("student", "group"), ("lab",)):
        student, group = row["student"], row["group"]
        if row["lab"] not in ("", lab.number) or not group or not student:
            continue
        if member.setdefault(student, group) != group:
            raise DataError(
                f"{where}: {student!r} is in the groups {member[student]!r} and {group!r}; one of "
                "them counts: delete the other, or name the lab of each"
            )
        if student not in found.setdefault(group, []):
            found[group].append(student)
    return {group: tuple(sorted(members)) for group, members in sorted(found.items())}


def once(
    submissions: Sequence[Submission], of: Mapping[str, Sequence[str]]
) -> tuple[tuple[Submission, ...], frozenset[str]]:
    """The submissions to judge, and the students whose own are the same bytes as another member's.

    The first of the same, by student, stands for them and says so in `also`.
    """
    group = {student: name for name, members in of.items() for student in members}
    first: dict[object, Submission] = {}
    for s in sorted(submissions, key=lambda s: s.student):
        what: object = s.student  # who is in no group stands for nobody else
        if s.student in group and s.raw is not None:
            what = (group[s.student], s.raw)
        if earlier := first.get(what):
            also = (*earlier.also, (s.student, s.file))
            s = replace(earlier, also=also, answers=(*earlier.answers, *s.answers))
        first[what] = s
    same = frozenset(student for s in first.values() for student, _ in s.also)
    return tuple(sorted(first.values(), key=lambda s: s.student)), same


def entries(
    every: Iterable[Result], of: Mapping[str, Sequence[str]], points: Callable[[Result], float]
) -> dict[str, Entry]:
    """What counts for each student, by student; for members of a group the same."""
    found = {r.student: Entry(r) for r in every}
    for group, members in of.items():
        own = [found[m] for m in members if m in found]
        if not own:
            continue
        best = max(own, key=lambda h: (points(h.result), h.result.student))
        note = f"group {group}: handed in by {best.result.student}"
        if others := ", ".join(h.result.student for h in own if h is not best):
            note += f", whose submission counts, with the most points; others: {others}"
        found |= {member: Entry(best.result, (note,)) for member in members}
    return found
