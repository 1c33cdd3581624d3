"""Memory instructions of a program, as the machine needs them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np


class Line(int):
    """A line of the source. called: the lines of the calls that led to it where functions were
    inlined, innermost first.
    """

    called: tuple[int, ...]

    def __new__(cls, number: int, called: tuple[int, ...] = ()) -> Line:
        line = super().__new__(cls, number)
        line.called = called
        return line

    def __repr__(self) -> str:
        """How generated code names it: see `line_of_name`."""
        return "_".join(["at", str(self), *map(str, self.called)]) if self.called else str(self)

    def __str__(self) -> str:
        return int.__repr__(self)

    def __reduce__(self) -> tuple[type[Line], tuple[int, tuple[int, ...]]]:
        return Line, (int(self), self.called)


def line_of_name(name: str) -> Line | None:
    """The line that generated code names so, or None for another name."""
    match = re.fullmatch(r"at_(\d+)((?:_\d+)+)", name)
    return Line(int(match[1]), tuple(map(int, match[2].split("_")[1:]))) if match else None


def calls_of(line: int) -> tuple[int, ...]:
    """The lines of the calls that led to a line, innermost first."""
    return line.called if isinstance(line, Line) else ()


def place_of(line: int) -> str:
    """Such as `line 12, called from line 40`."""
    return ", called from ".join(f"line {n}" for n in (line, *calls_of(line)))


@dataclass(frozen=True)
class Site:
    """A memory instruction: where it stands and what it accesses."""

    index: int
    line: int
    text: str
    space: str  # global, shared, local, generic
    op: str  # load, store, atomic
    kind: np.dtype[Any]  # of one element
    count: int  # elements a lane
    offset: int  # constant added to the address register
    strong: bool = False  # volatile, relaxed, acquire, release: made for synchronisation
    acquire: int | None = None  # scope of an acquire: 0 the block, 1 the device
    release: int | None = None
    waits: bool = False  # a read in a loop that waits for other threads
    volatile: bool = False  # strong, but no atomic: what two such stores put there may be lost
    relaxed: bool = False  # orders nothing itself
    read_only: bool = False  # ld.global.nc: of what nobody writes while the kernel runs

    @property
    def width(self) -> int:
        """Bytes a lane."""
        return self.kind.itemsize * self.count

    def as_(self, **changes: Any) -> Site:
        """One of the accesses that this instruction makes: of another space, op, kind or count."""
        return _changed(self, tuple(changes.items()))


@lru_cache(maxsize=4096)
def _changed(site: Site, changes: tuple[tuple[str, Any], ...]) -> Site:
    return replace(site, **dict(changes))
