"""What a lab asks and what each part is worth, read from labs/NAME/lab.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from helpers.ladder.kernel import ROOT
from helpers.wording import number
from nogpu.errors import DataError, UnknownNameError, near_matches
from nogpu.text import read_source
from tilelabs.judging.marking import Specification

FOLDER = ROOT / "labs"
COUNTED = ("sectors", "requests", "wavefronts", "instructions", "scalar", "tensor")
"""What a part may limit of work: totals over 32 multiply-adds; of "tensor" the share of all
multiply-adds.
"""
RESOURCES = ("registers", "spills", "stack")
"""What a part may limit of what the compiler reports of a thread: registers, bytes of spills, bytes
of local memory (spills among them, and arrays that cannot live in registers).
"""


@dataclass(frozen=True)
class Variant:
    """One form of what a lab asks. transposed, scaled: as in `judging.marking.Specification`.
    words: for students. starter: a file of the lab's folder; "": the lab's own. changes: of that
    file, pairs of a text that stands there once and what replaces it. block, grid: in place of the
    lab's."""

    name: str
    words: str
    transposed: str = ""
    scaled: bool = False
    starter: str = ""
    block: tuple[str, ...] = ()
    grid: tuple[str, ...] = ()
    changes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Rubric:
    """One part of a lab's points. of: what is counted, one of `COUNTED` or `RESOURCES`; default its
    id. limit: the most that it may be, least: the least, over 32 multiply-adds of whole tiles.
    after: another part that must have its points first. by_hand: a person marks it. table: columns
    of a table in a comment of the source by the formula of each, over the lab's constants and the
    columns before; looks: where to look by column; rows: different tiles at least; rule: of a tile;
    ask: what students are asked to write, Markdown.
    """

    id: str
    points: int
    words: str
    of: str = ""
    limit: float | None = None
    least: float | None = None
    after: str = ""
    by_hand: bool = False
    table: Mapping[str, str] = field(default_factory=dict)
    looks: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    rule: str = ""
    ask: str = ""

    @property
    def counts(self) -> str:
        """What it limits; its own id for those that limit nothing."""
        return self.of or self.id

    @property
    def bound(self) -> str:
        """The limit in words, "at most 2.4"; "" without one."""
        if self.least is not None:
            return f"at least {number(self.least)}"
        return "" if self.limit is None else f"at most {number(self.limit)}"


@dataclass(frozen=True)
class Lab:
    """A lab. number: "2". hours: that a student needs. builds_on: pages of the book. version:
    changes with what is asked or with what it is worth. parts add up to `points`. tile: of M, N and
    K, by which work is counted, and just below whose multiples counted shapes end. hints: from
    vague to plain. task: one sentence, what the kernel is to be. constants, dtype, aligned,
    headers, shared: as in `judging.marking.Specification`. reference: the rung that times are taken
    against, size: of M, N and K there.
    """

    number: str
    title: str
    entry: str
    version: int
    hours: int
    builds_on: tuple[str, ...]
    goals: tuple[str, ...]
    task: str
    hints: tuple[str, ...]
    variants: tuple[Variant, ...]
    parts: tuple[Rubric, ...]
    folder: Path
    block: tuple[str, ...]
    grid: tuple[str, ...]
    tile: tuple[int, int, int]
    reference: str
    shared: str = "0"
    dtype: str = "float32"
    constants: tuple[tuple[str, int, int], ...] = ()
    aligned: int = 1
    size: int = 2048
    headers: tuple[str, ...] = ()

    @property
    def points(self) -> int:
        """All of them, those by hand among them."""
        return sum(part.points for part in self.parts)

    def specification(self, variant: Variant) -> Specification:
        """What a kernel is judged by."""
        return Specification(
            self.entry,
            variant.transposed,
            variant.scaled,
            variant.block or self.block,
            variant.grid or self.grid,
            self.shared,
            self.dtype,
            self.constants,
            self.tile,
            self.aligned,
            headers=frozenset(self.headers),
        )

    def starter(self, variant: Variant) -> str:
        """The text that a student begins with, with the parameters that the variant has."""
        file = variant.starter or "starter.cu"
        text = changed(read_source(self.folder / file), variant.changes, file)
        if not variant.scaled or "float alpha" in text:
            return text
        return text.replace("int K)", "int K,\n     float alpha, float beta)", 1)


def changed(text: str, changes: Iterable[Sequence[str]], file: str) -> str:
    """A text with pairs of old and new replaced.

    Raises ValueError where an old one does not stand there once.
    """
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} stands {text.count(old)} times in {file}")
        text = text.replace(old, new)
    return text


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
        data: dict[str, Any] = tomllib.loads((folder / "lab.toml").read_text(encoding="utf-8"))
        made = Lab(
            number=folder.name.split("_")[0],
            title=data["title"],
            entry=data["entry"],
            version=data["version"],
            hours=data["hours"],
            builds_on=tuple(data["builds_on"]),
            goals=tuple(data["goals"]),
            task=data["task"],
            hints=tuple(data["hints"]),
            variants=tuple(_variant(v) for v in data["variants"]),
            parts=tuple(Rubric(**p) for p in data["parts"]),
            folder=folder,
            block=tuple(data["block"]),
            grid=tuple(data["grid"]),
            tile=tuple(data["tile"]),
            reference=data["reference"],
            constants=tuple((name, *span) for name, span in data.get("constants", {}).items()),
            headers=tuple(data.get("headers", ())),
            **{n: data[n] for n in ("shared", "dtype", "aligned", "size") if n in data},
        )
        for variant in made.variants:
            made.starter(variant)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}/lab.toml is damaged: {error}") from None
    if odd := [part.id for part in made.parts if not _known(part)]:
        raise DataError(f"{folder}/lab.toml: nobody knows how to mark {', '.join(odd)}")
    return made


def _variant(data: dict[str, Any]) -> Variant:
    lists: dict[str, Any] = {n: tuple(data[n]) for n in ("block", "grid") if n in data}
    changes = tuple((old, new) for old, new in data.get("changes", ()))
    return Variant(**(data | lists | {"changes": changes}))


def _known(part: Rubric) -> bool:
    """Whether somebody knows how to mark it."""
    if part.by_hand or part.id in ("right", "clean"):
        return True
    if part.table:
        return set(part.table) == set(part.looks) and bool(part.rows and part.rule and part.ask)
    return part.counts in (*COUNTED, *RESOURCES) and (part.limit is None) != (part.least is None)


__all__ = ["COUNTED", "RESOURCES", "Lab", "Rubric", "Variant", "all_labs", "changed", "lab"]
