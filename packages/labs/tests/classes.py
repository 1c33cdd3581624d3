"""What tests of a class share: a course, what its students hand in, a table that comes of it."""

from __future__ import annotations

import csv

from tilelabs import apart
from tilelabs.labs import courses, rehearsing

LOCK = None if apart.landlock() else False
UNLOCKED = [] if apart.landlock() else ["--without-landlock"]
"""Judging locked where this kernel can, by call and at the terminal."""
OVERRIDES = "student,lab,part,points,reason\n"
FIXES = "student,lab,old,new,reason\n"
GROUPS = "student,group,lab\n"
"""Heads of a course's tables."""


def course_of(folder, variant="A transposed"):
    """A new course whose lab 2 is this variant, not a drawn one."""
    return courses.new(folder, variants={"2": variant})


def solutions(lab):
    """The first text that solves each variant."""
    found: dict[str, str] = {}
    for source in rehearsing.sources(lab):
        if source.kind == "solution":
            found.setdefault(source.variant, source.text)
    return found


def line(place, *words):
    """A command line with the course and the results of a place."""
    return [*words, "--course", str(place / "course"), "--out", str(place / "out")]


def lay(folder, **files):
    """Files by name below a folder, which may lie in folders of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def hand_in(folder, **sources):
    """A kernel of each of these students."""
    return lay(folder, **{f"{student}.cu": text for student, text in sources.items()})


def table(path, key="id"):
    """Rows of a CSV file by what stands in a column."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row[key]: row for row in csv.DictReader(file)}
