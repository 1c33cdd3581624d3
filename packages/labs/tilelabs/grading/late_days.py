"""Days late, and what they cost: made of the platform's times each time anew, so that no run
depends on them.

The due date is the course's, or the student's own from extensions.csv (student, lab, due). A day
counts once it has begun. Free days are each student's over the whole course and are spent in the
order of the due dates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from nogpu.errors import DataError
from tilelabs.grading.tables import table
from tilelabs.labs.courses import Course
from tilelabs.labs.policies import moment

DAY = 86_400
"""Seconds."""


@dataclass(frozen=True)
class Lateness:
    """days: late. free: of them, without cost. off: points. due: as it holds for this student.
    words: all of it in a sentence.
    """

    days: int
    free: int
    off: float
    due: datetime

    @property
    def words(self) -> str:
        """One line for the student."""
        if not self.days:
            return f"Handed in in time; it was due {self.due:%Y-%m-%d %H:%M %z}"
        days = f"{self.days} day{'s' if self.days > 1 else ''} late"
        free = f", {self.free} of them free" if self.free else ""
        return f"{days}{free}: {self.off:g} points less; it was due {self.due:%Y-%m-%d %H:%M %z}"


def extensions(course: Course) -> dict[tuple[str, str], datetime]:
    """Due dates of single students, by student and lab.

    Raises DataError naming the row that does not fit.
    """
    found = {}
    for where, row in table(course.folder / "extensions.csv", ("student", "lab", "due")):
        try:
            found[row["student"], row["lab"]] = moment(row["due"], course.policy.zone)
        except ValueError as error:
            raise DataError(f"{where}: it is due at {error}") from None
    return found


def days_late(at: datetime, due: datetime) -> int:
    """Days that have begun after the due date."""
    return max(0, math.ceil((at.timestamp() - due.timestamp()) / DAY))


def lateness(
    course: Course,
    number: str,
    student: str,
    times: Mapping[str, Mapping[str, datetime]],
    extended: Mapping[tuple[str, str], datetime],
) -> Lateness | None:
    """How late a student's submission of a lab is; None where it has no due date or nobody says the
    time.

    times: of labs, by number, and of students. Labs that were due earlier spend free days first.
    """
    policy, left = course.policy, course.policy.free_days
    own = {n: extended.get((student, n), due) for n, due in policy.due.items()}
    own |= {n: due for (who, n), due in extended.items() if who == student}
    for n in sorted(own, key=lambda n: (policy.due.get(n, own[n]), n)):
        at = times.get(n, {}).get(student)
        if at is None:
            continue
        days = days_late(at, own[n])
        free = min(days, left)
        left -= free
        if n == number:
            return Lateness(days, free, (days - free) * policy.points_per_day, own[n])
    return None


__all__ = ["Lateness", "days_late", "extensions", "lateness"]
