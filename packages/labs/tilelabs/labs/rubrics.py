"""What a lab asks and what each part is worth, read from labs/NAME/lab.toml."""

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
from tilelabs.judging.marking import Argument, Specification, cases

FOLDER = ROOT / "labs"
COUNTED = (
    "sectors", "requests", "atomics", "wavefronts", "conflicts", "instructions", "barriers",
    "scalar", "tensor", "copied", "leaked", "streams",
)  # fmt: skip
"""What a part may limit of work: totals for each 32 of it; of "tensor" the share of all of it, of
"leaked" and "streams" as many as there are.
"""
RESOURCES = ("registers", "spills", "stack")
"""What a part may limit of what the compiler reports of a thread: registers, bytes of spills, bytes
of local memory (spills among them, and arrays that cannot live in registers).
"""


@dataclass(frozen=True)
class Variant:
    """One form of what a lab asks. transposed, does: as in `judging.marking.Specification`.
    words: for students. starter: a file of the lab's folder; "": the lab's own. changes: of that
    file, pairs of a text that stands there once and what replaces it. block, grid: in place of the
    lab's; arguments: what they add to, or change of the lab's."""

    name: str
    words: str
    transposed: str = ""
    does: str = "reference"
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    starter: str = ""
    block: tuple[str, ...] = ()
    grid: tuple[str, ...] = ()
    changes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Rubric:
    """One part of a lab's points. of: what is counted, one of `COUNTED` or `RESOURCES`; default its
    id. limit: the most that it may be for all of the points, least: the least for any, for each 32
    of the lab's work. zero: from which on it has no points; between the two they fall in
    proportion, and without it it is all or nothing. after: another part, whose share of its points
    is this one's, too. by_hand: a person marks it. table: columns of a table in a comment of the
    source by the formula of each, over the lab's constants and the columns before; looks: where to
    look by column; rows: different tiles at least; rule: of a tile; ask: what students are asked to
    write, Markdown. look: where to look, if not as usual.
    """

    id: str
    points: int
    words: str
    of: str = ""
    limit: float | None = None
    least: float | None = None
    zero: float | None = None
    after: str = ""
    by_hand: bool = False
    table: Mapping[str, str] = field(default_factory=dict)
    looks: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    rule: str = ""
    ask: str = ""
    look: str = ""

    @property
    def counts(self) -> str:
        """What it limits; its own id for those that limit nothing."""
        return self.of or self.id

    @property
    def bound(self) -> str:
        """The limit in words, "at most 2.4"; "" without one."""
        least = "" if self.least is None else f"at least {number(self.least)}"
        most = "" if self.limit is None else f"at most {number(self.limit)}"
        none = "" if self.zero is None else f", and none of the points from {number(self.zero)} on"
        return " and ".join(filter(None, (least, most))) + none

    def share(self, got: float) -> float:
        """How much of its points a count is worth, 0 to 1."""
        if self.least is not None and got < self.least:
            return 0.0
        if self.limit is None or got <= self.limit:
            return 1.0
        if self.zero is None:
            return 0.0
        return max(0.0, (self.zero - got) / (self.zero - self.limit))


@dataclass(frozen=True)
class Lab:
    """A lab. number: "2". hours: that a student needs. builds_on: pages of the book. version:
    changes with what is asked or with what it is worth. parts add up to `points`. hints: from vague
    to plain. task: one sentence, what the kernel is to be. asked: what does not differ between
    variants of `judging.marking.Specification`, by name. each: what `work` counts, in words. rung:
    that times are taken against, "" without times; size: of M, N and K there. barriers: that a
    block needs at least.
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
    arguments: Mapping[str, Mapping[str, Any]]
    specified: Mapping[str, Any]
    each: str
    rung: str = ""
    size: int = 2048
    barriers: int = 2

    @property
    def constants(self) -> tuple[tuple[str, int, int], ...]:
        """Those that a source sets, as in `judging.marking.Specification`."""
        return self.specified["constants"]  # type: ignore[no-any-return]

    @property
    def points(self) -> int:
        """All of them, those by hand among them."""
        return sum(part.points for part in self.parts)

    def specification(self, variant: Variant) -> Specification:
        """What a kernel is judged by."""
        names = dict.fromkeys([*self.arguments, *variant.arguments])
        arguments = (
            {"name": n, **self.arguments.get(n, {}), **variant.arguments.get(n, {})} for n in names
        )
        own = {n: v for n in ("block", "grid") if (v := getattr(variant, n))}
        return Specification(
            entry=self.entry,
            arguments=tuple(Argument(**_tuples(a)) for a in arguments),
            transposed=variant.transposed,
            does=variant.does,
            **{**self.specified, **own},
        )

    def starter(self, variant: Variant) -> str:
        """The text that a student begins with."""
        file = variant.starter or "starter.cu"
        return changed(read_source(self.folder / file), variant.changes, file)


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
    folders = [path.parent for path in FOLDER.glob("*_*/lab.toml")]
    return tuple(map(_read, sorted(folders, key=lambda f: (len(f.name.split("_")[0]), f.name))))


def lab(number: str | int) -> Lab:
    """The lab of that number. Raises UnknownNameError."""
    known = {one.number: one for one in all_labs()}
    if str(number) not in known:
        raise UnknownNameError(f"there is no lab {number!r}. {near_matches(str(number), known)}")
    return known[str(number)]


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    """With a tuple for each list."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}


_ASKED = ("block", "grid", "shared", "host", "roundings", "exact", "aligned", "work")
"""What lab.toml says of `Specification` under the same name."""
_OWN = {"like", "tile", "sizes", "shapes", "constants", "headers", "arguments", "variants", "parts"}
"""What it says of neither under the same name."""


@cache
def _read(folder: Path) -> Lab:
    """A lab. What it is `like` is another folder, whose task.toml says what the lab itself does
    not, and whose reference.py is the lab's where it has none of its own.
    """
    try:
        data: dict[str, Any] = tomllib.loads((folder / "lab.toml").read_text(encoding="utf-8"))
        arguments, reference = data.get("arguments", {}), folder / "reference.py"
        if like := data.get("like"):
            shared = folder.parent / like
            base = tomllib.loads((shared / "task.toml").read_text(encoding="utf-8"))
            own, common = arguments, base["arguments"]
            arguments = {n: common.get(n, {}) | own.get(n, {}) for n in [*common, *own]}
            data = base | data
            reference = reference if reference.is_file() else shared / "reference.py"
        made = Lab(
            number=folder.name.split("_")[0],
            variants=tuple(_variant(v) for v in data["variants"]),
            parts=tuple(Rubric(**p) for p in data["parts"]),
            folder=folder,
            arguments=arguments,
            specified={
                "tile": dict(zip(data["sizes"], data["tile"], strict=True)),
                "shapes": tuple(data["shapes"]),
                "reference": reference.read_text(encoding="utf-8"),
                "constants": tuple((n, *span) for n, span in data.get("constants", {}).items()),
                "headers": frozenset(data.get("headers", ())),
                **_tuples({n: data[n] for n in _ASKED if n in data}),
            },
            **_tuples({n: v for n, v in data.items() if n not in _OWN.union(_ASKED)}),
        )
        for variant in made.variants:
            made.starter(variant)
            cases(made.specification(variant), bytes(16))
    except (OSError, ValueError, KeyError, TypeError, NameError, SyntaxError) as error:
        raise DataError(f"{folder}/lab.toml is damaged: {error}") from None
    if odd := [part.id for part in made.parts if not _known(part)]:
        raise DataError(f"{folder}/lab.toml: nobody knows how to mark {', '.join(odd)}")
    return made


def _variant(data: dict[str, Any]) -> Variant:
    changes = tuple((old, new) for old, new in data.get("changes", ()))
    return Variant(**{**_tuples(data), "changes": changes})


def _known(part: Rubric) -> bool:
    """Whether somebody knows how to mark it."""
    if part.by_hand or part.id in ("right", "clean"):
        return True
    if part.table:
        return set(part.table) == set(part.looks) and bool(part.rows and part.rule and part.ask)
    if part.zero is not None and not (part.limit is not None and part.limit < part.zero):
        return False
    return part.counts in (*COUNTED, *RESOURCES) and not (part.limit is part.least is None)
