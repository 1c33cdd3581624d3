"""A lab tried on itself: solutions have every point, the starter few, twins lose theirs, exploits
gain none.

What is tried lies in labs/NAME/rehearsal/, sealed (`sealing`), and a student's notebook does not
fetch it: sources, rehearsal.toml, which says of each what it should come to, and exam.toml,
questions for an exam with their answers.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nogpu.disk import replace_file
from nogpu.errors import ConfigError, DataError
from tilelabs.labs import sealing
from tilelabs.labs.checking import Checked, check
from tilelabs.labs.rubrics import Lab, changed

FOLDER, TABLE, EXAM = "rehearsal", "rehearsal.toml", "exam.toml"
KINDS = ("solution", "starter", "twin", "exploit")


@dataclass(frozen=True)
class Source:
    """One source to try. kind: one of `KINDS`. expect: points by part, of those that matter. most:
    that it may have in all. words: of what the student is told; exploit: its number in the list of
    known ones, and what it tries.
    """

    name: str
    kind: str
    variant: str
    text: str
    expect: Mapping[str, int] = field(default_factory=dict)
    words: str = ""
    exploit: str = ""
    most: int = 1000


@dataclass(frozen=True)
class Question:
    """One for an exam, as exam.toml has it. minutes: for a student. kernel: that it is about, ""
    for none, and its block. told, found, sums: what a test holds the answer to, which are counts of
    the kernel in the emulator, the kind of its finding, and what lines of the answer come to.
    """

    minutes: int
    ask: str
    answer: str
    kernel: str = ""
    block: int | Sequence[int] = 1
    told: Sequence[tuple[str, str, str, int]] = ()
    found: str = ""
    sums: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class Rehearsed:
    """How a source came out; odd: in what it is not as it should be, "" if in nothing."""

    source: Source
    checked: Checked
    odd: str


def sources(lab: Lab) -> tuple[Source, ...]:
    """All that is tried on a lab: its starter for each variant, and what its rehearsal.toml names.

    Raises DataError where that is damaged or not there, or a change does not fit its file.
    """
    if not (files := texts(lab)):
        raise DataError(
            f"{lab.folder / FOLDER} is empty: a lab's notebook leaves it out; clone the whole book"
        )
    most = sum(part.points for part in lab.parts if not part.by_hand) // 10  # nobody's work
    starters = [
        Source(f"starter, {v.name}", "starter", v.name, lab.starter(v), most=most)
        for v in lab.variants
    ]
    return (*starters, *_sources(lab, files))


def texts(lab: Lab) -> dict[str, str]:
    """All files of its rehearsal by name; none in what a student's notebook fetches."""
    return sealing.texts(lab.folder / FOLDER)


def _sources(lab: Lab, files: Mapping[str, str]) -> list[Source]:
    try:
        return [_source(lab, files, one) for one in _rows(files, TABLE, "sources")]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{lab.folder / FOLDER / TABLE} is damaged: {error}") from None


def _rows(files: Mapping[str, str], file: str, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tomllib.loads(files[file])[name]
    return rows


def exam(lab: Lab) -> list[Question]:
    """Questions for an exam on what a lab is about; none where it has no exam.toml."""
    files = texts(lab)
    return [Question(**one) for one in _rows(files, EXAM, "questions")] if EXAM in files else []


def unpack(labs: Iterable[Lab], folder: Path) -> list[Path]:
    """Write what these labs are rehearsed on as FOLDER/NAME/rehearsal/FILE, for its owner alone.

    Raises ConfigError where one of these files is there with another text.
    """
    found = {
        folder / lab.folder.name / FOLDER / name: text
        for lab in labs
        for name, text in texts(lab).items()
    }
    for path, text in found.items():
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise ConfigError(f"{path} is there with another text: choose another folder")
    for path, text in found.items():
        replace_file(path, text, 0o600)
    return list(found)


def pack(labs: Iterable[Lab], folder: Path) -> list[Path]:
    """Seal what lies in FOLDER/NAME/rehearsal/ into each lab's pack, and take it away where that is
    the lab's own folder.

    A file replaces that of its name; one that rehearsal.toml names no longer falls out. Returns the
    packs. Raises DataError for a rehearsal that is damaged, ConfigError where nothing lies there.
    """
    packs = []
    for lab in labs:
        home, new = lab.folder / FOLDER, sealing.plain(folder / lab.folder.name / FOLDER)
        if not new:
            continue
        files = texts(lab) | {path.name: path.read_text(encoding="utf-8") for path in new}
        _sources(lab, files)
        named = {TABLE, EXAM, *(one["file"] for one in _rows(files, TABLE, "sources"))}
        packs.append(sealing.seal({n: t for n, t in files.items() if n in named}, home))
        for path in new:
            if path.parent.resolve() == home.resolve():
                path.unlink()
    if not packs:
        raise ConfigError(f"no lab's rehearsal lies in {folder}: unpack into it first")
    return packs


def _source(lab: Lab, files: Mapping[str, str], data: dict[str, Any]) -> Source:
    text = changed(
        files[data["file"]], data.get("changes", ()), f"{data['file']} of {data['name']!r}"
    )
    if data["kind"] not in KINDS or data["variant"] not in {v.name for v in lab.variants}:
        raise ValueError(
            f"{data['name']!r} has the kind {data['kind']!r}, the variant {data['variant']!r}"
        )
    rest = {name: data[name] for name in ("expect", "words", "exploit", "most") if name in data}
    return Source(data["name"], data["kind"], data["variant"], text, **rest)


def rehearse(lab: Lab) -> Iterator[Rehearsed]:
    """Each source checked, and what is odd about it."""
    for source in sources(lab):
        yield rehearsed(lab, source)


def rehearsed(lab: Lab, source: Source) -> Rehearsed:
    """One source, checked as a student checks: it has what it should have, no more and no less."""
    found = check(lab.number, source.text, variant=source.variant, gpu=False)
    got = {part.rubric.id: part.points for part in found.parts if not part.rubric.by_hand}
    differing = {n: p for n, p in source.expect.items() if got.get(n) != p}
    odd = ""
    if source.kind == "solution" and not found.ok:
        lost = [part.words for part in found.parts if not (part.full or part.rubric.by_hand)]
        odd = f"it lacks points: {'; '.join(lost) or found.marked.refused}"
    elif source.kind != "solution" and found.ok:
        odd = "it has every point"
    elif found.points > source.most:
        odd = f"it has {found.points} points, and should have {source.most} at most"
    elif differing:
        odd = "; ".join(
            f"{n} has {got.get(n)} points and should have {p}" for n, p in differing.items()
        )
    elif source.words not in str(found):
        odd = f"the student is not told {source.words!r}"
    return Rehearsed(source, found, odd)
