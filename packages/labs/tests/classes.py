"""What tests of a class share: a course, what its students hand in, a table that comes of it."""

from __future__ import annotations

import csv
from pathlib import Path

from tilelabs import apart
from tilelabs.labs import Lab, courses, rehearsing

LOCK = None if apart.landlock() else False
UNLOCKED = [] if apart.landlock() else ["--without-landlock"]
"""Judging locked where this kernel can, by call and at the terminal."""
OVERRIDES = "student,lab,part,points,reason\n"
FIXES = "student,lab,old,new,reason\n"
GROUPS = "student,group,lab\n"
"""Heads of a course's tables."""


def course_of(folder: Path, variant: str = "A transposed") -> courses.Course:
    """A new course whose lab 2 is this variant, not a drawn one."""
    return courses.new(folder, variants={"2": variant})


def solutions(lab: Lab) -> dict[str, str]:
    """The first text that solves each variant."""
    found: dict[str, str] = {}
    for source in rehearsing.sources(lab):
        if source.kind == "solution":
            found.setdefault(source.variant, source.text)
    return found


def line(place: Path, *words: str) -> list[str]:
    """A command line with the course and the results of a place."""
    return [*words, "--course", str(place / "course"), "--out", str(place / "out")]


def lay(folder: Path, **files: str | bytes) -> Path:
    """Files by name below a folder, which may lie in folders of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def hand_in(folder: Path, **sources: str) -> Path:
    """A kernel of each of these students."""
    return lay(folder, **{f"{student}.cu": text for student, text in sources.items()})


def table(path: Path, key: str = "id") -> dict[str, dict[str, str]]:
    """Rows of a CSV file by what stands in a column."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row[key]: row for row in csv.DictReader(file)}
