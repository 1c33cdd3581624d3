"""A result that takes another's place: the earlier one stays, and what changed is noted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nogpu.disk import replace_file
from tilelabs.grading.tables import PRIVATE
from tilelabs.labs.checking import judged
from tilelabs.labs.rubrics import Lab

if TYPE_CHECKING:
    from tilelabs.grading.judging import Result

HISTORY = "history"
"""The folder beside the results: NAME-1.json is the earliest."""


def put_by(path: Path) -> None:
    """Keep what a result's file holds, in the folder history beside it, before something else takes
    its place.
    """
    if not path.is_file():
        return
    folder = path.parent / HISTORY
    n = len(list(folder.glob(f"{path.stem}-*.json"))) + 1
    replace_file(folder / f"{path.stem}-{n}.json", path.read_bytes(), PRIVATE)


def why(old: Result, new: Result) -> str:
    """What of the things that decide a result is another than before."""
    changed = {
        "source changed": old.source != new.source,
        f"lab version {old.version} -> {new.version}": old.version != new.version,
        f"variant {old.variant!r} -> {new.variant!r}": old.variant != new.variant,
        f"attempt {old.attempt} -> {new.attempt}": old.attempt != new.attempt,
        "the judge's code changed": old.judge != new.judge,
    }
    found = [words for words, is_so in changed.items() if is_so]
    return ", ".join(found) or ("other cases" if old.key != new.key else "judged again")


def compared(lab: Lab, old: Result, new: Result) -> str:
    """One line: points before and now, and why."""
    return f"{new.student}: {_points(lab, old)} -> {_points(lab, new)} points ({why(old, new)})"


def _points(lab: Lab, r: Result) -> str:
    variant = next((v for v in lab.variants if v.name == r.variant), None)
    if variant is None or r.version != lab.version:
        return "points of another version"
    return f"{judged(lab, variant, r.marked).points:g}"


__all__ = ["HISTORY", "compared", "put_by", "why"]
