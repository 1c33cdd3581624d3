"""What a lab asks and what each part is worth, read from labs/NAME/lab.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from helpers.errors import DataError, UnknownNameError, near_matches
from helpers.judging.marking import Asked
from helpers.kernel import ROOT

FOLDER = ROOT / "labs"
COUNTED = ("sectors", "requests", "wavefronts", "instructions")
"""Totals over 32 multiply-adds that a part may limit."""


@dataclass(frozen=True)
class Variant:
    """One form of what a lab asks. transposed, scaled: as in `judging.marking.Asked`. words: for students."""

    name: str
    words: str
    transposed: str = ""
    scaled: bool = False


@dataclass(frozen=True)
class Rubric:
    """One part of a lab's points. limit: of a total over 32 multiply-adds of whole tiles. after: another part
    that must have its points first. by_hand: a person marks it."""

    id: str
    points: int
    words: str
    limit: float | None = None
    after: str = ""
    by_hand: bool = False


@dataclass(frozen=True)
class Lab:
    """A lab. number: "2". hours: that a student needs. builds_on: pages of the book. version: changes with
    what is asked or with what it is worth. parts add up to `points`. tile: of M, N and K, by which work is
    counted."""

    number: str
    title: str
    entry: str
    version: int
    hours: int
    builds_on: tuple[str, ...]
    goals: tuple[str, ...]
    variants: tuple[Variant, ...]
    parts: tuple[Rubric, ...]
    starter: str
    block: tuple[str, ...]
    grid: tuple[str, ...]
    shared: str
    tile: tuple[int, int, int]

    @property
    def points(self) -> int:
        """All of them, those by hand among them."""
        return sum(part.points for part in self.parts)

    def asked(self, variant: Variant) -> Asked:
        """What a kernel is judged by."""
        return Asked(
            self.entry, variant.transposed, variant.scaled, self.block, self.grid, self.shared
        )


def all_labs() -> tuple[Lab, ...]:
    """Every lab, by number. Raises DataError for a folder that is damaged."""
    folders = sorted(path.parent for path in FOLDER.glob("*/lab.toml"))
    return tuple(_read(folder) for folder in folders)


def lab(number: str | int) -> Lab:
    """The lab of that number. Raises UnknownNameError."""
    known = {one.number: one for one in all_labs()}
    if str(number) not in known:
        raise UnknownNameError(f"there is no lab {number!r}. {near_matches(str(number), known)}")
    return known[str(number)]


@cache
def _read(folder: Path) -> Lab:
    try:
        held: dict[str, Any] = tomllib.loads((folder / "lab.toml").read_text(encoding="utf-8"))
        made = Lab(
            number=folder.name.split("_")[0],
            title=held["title"],
            entry=held["entry"],
            version=held["version"],
            hours=held["hours"],
            builds_on=tuple(held["builds_on"]),
            goals=tuple(held["goals"]),
            variants=tuple(Variant(**v) for v in held["variants"]),
            parts=tuple(Rubric(**p) for p in held["parts"]),
            starter=(folder / "starter.cu").read_text(encoding="utf-8"),
            block=tuple(held["block"]),
            grid=tuple(held["grid"]),
            shared=held["shared"],
            tile=tuple(held["tile"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}/lab.toml is damaged: {error}") from None
    odd = [p.id for p in made.parts if not (p.by_hand or p.id in ("right", "clean", *COUNTED))]
    odd += [p.id for p in made.parts if p.id in COUNTED and p.limit is None]
    if odd:
        raise DataError(f"{folder}/lab.toml: nobody knows how to mark {', '.join(odd)}")
    return made


__all__ = ["COUNTED", "Lab", "Rubric", "Variant", "all_labs", "lab"]
