"""Numbers out of the notes of the tuning runs, data/tries/*.md: found by the words around them."""

import re
from collections.abc import Mapping

from helpers.ladder.kernel import ROOT
from nogpu.errors import DataError

TRIES = ROOT / "data" / "tries"


def read(file: str) -> str:
    """The notes of that name. Raises DataError where there are none."""
    path = TRIES / file
    if not path.is_file():
        raise DataError(f"data/tries has no {file}: get it anew from the repository")
    return path.read_text(encoding="utf-8")


def numbers(file: str, pattern: str, text: str | None = None) -> tuple[float, ...]:
    """What the groups of a regular expression (. is any character) match at its first place in the
    notes.

    text: the notes, where they are at hand. Raises DataError where nothing matches.
    """
    found = re.search(pattern, read(file) if text is None else text, re.DOTALL)
    if found is None:
        raise DataError(f"data/tries/{file} has nothing like {pattern!r}: the notes have changed")
    return tuple(float(number) for number in found.groups())


def named(file: str, patterns: Mapping[tuple[str, ...], str]) -> dict[str, float]:
    """The numbers of several patterns, by a name for each group."""
    every = ((names, numbers(file, pattern)) for names, pattern in patterns.items())
    return {name: n for names, found in every for name, n in zip(names, found, strict=True)}
