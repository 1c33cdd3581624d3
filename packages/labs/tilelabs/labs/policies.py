"""What a course decides about time: when labs are due, what a late day costs, and what nothing is
worth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

MISSING = ("empty", "zero")
_LATE = ("points_per_day", "free_days")


@dataclass(frozen=True)
class Policy:
    """due: of labs, by number. points_per_day: taken for each day that has begun after it.
    free_days: of each student over the whole course, spent before points are. missing: what who
    handed nothing in gets, "empty" cells or "zero" points. zone: of times that name none
    themselves.
    """

    due: Mapping[str, datetime] = field(default_factory=dict)
    points_per_day: float = 0.0
    free_days: int = 0
    missing: str = "empty"
    zone: tzinfo | None = None


def policy(held: Mapping[str, Any]) -> Policy:
    """The policy in a course's file.

    Raises ValueError, with what is wrong, for what does not fit.
    """
    zone = _zone(held["timezone"]) if "timezone" in held else None
    late, missing = held.get("late", {}), held.get("missing", "empty")
    if missing not in MISSING:
        raise ValueError(f"missing is {missing!r}, and may be {' or '.join(MISSING)}")
    if odd := [name for name in late if name not in _LATE]:
        raise ValueError(f"[late] has no {', '.join(odd)}; it has {', '.join(_LATE)}")
    numbers = {name: late.get(name, 0) for name in _LATE}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e6:
            raise ValueError(f"{name} is {value!r}, and should be a number from 0 on")
    if numbers["free_days"] != int(numbers["free_days"]):
        raise ValueError(f"free_days is {numbers['free_days']!r}, and days are whole")
    due = {}
    for number, given in held.get("due", {}).items():
        try:
            due[str(number)] = moment(given, zone)
        except ValueError as error:
            raise ValueError(f"lab {number} is due at {error}") from None
    return Policy(
        due, float(numbers["points_per_day"]), int(numbers["free_days"]), missing, zone
    )  # fmt: skip


def moment(given: object, zone: tzinfo | None = None) -> datetime:
    """A time with its offset, of a datetime or of ISO 8601 text. zone: of one that names none.

    Raises ValueError, with what was given and what to write.
    """
    found = given
    if isinstance(given, str):
        plain = re.sub(r"\s+(?=[+-]\d\d:?\d\d$|Z$)", "", given.strip().removesuffix(" UTC"))
        utc = "+00:00" if given.strip().endswith(" UTC") else ""
        try:
            found = datetime.fromisoformat(plain + utc) if ":" in plain else None
        except ValueError:
            found = None
    if not isinstance(found, datetime):
        raise ValueError(f"{str(given)[:60]!r}, which is no time such as 2026-12-01T23:59+01:00")
    if found.tzinfo is None and zone is None:
        raise ValueError(
            f"{str(given)[:60]!r}, which names no offset (+01:00): add it, or timezone = \"Europe/Berlin\" to course.toml"
        )  # fmt: skip
    return found if found.tzinfo else found.replace(tzinfo=zone)


def _zone(name: object) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(str(name))
    except (OSError, ValueError, LookupError):
        raise ValueError(
            f"timezone is {name!r}, and this machine knows none of that name: write one such as Europe/Berlin"
        ) from None


__all__ = ["MISSING", "Policy", "moment", "policy"]
