"""A lab tried on itself: solutions have every point, the starter few, twins lose theirs, exploits
gain none.

What is tried lies in labs/NAME/rehearsal/, which a student's notebook does not fetch: sources, and
rehearsal.toml, which says of each what it should come to.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nogpu.errors import DataError
from tilelabs.labs.checking import Checked, check
from tilelabs.labs.rubrics import Lab, changed

FOLDER = "rehearsal"
KINDS = ("solution", "starter", "twin", "exploit")


@dataclass(frozen=True)
class Source:
    """One source to try. kind: one of `KINDS`. expect: points by part, of those that matter. words:
    of what the student is told; exploit: its number in the list of known ones, and what it tries.
    """

    name: str
    kind: str
    variant: str
    text: str
    expect: Mapping[str, int] = field(default_factory=dict)
    words: str = ""
    exploit: str = ""


@dataclass(frozen=True)
class Rehearsed:
    """How a source came out; odd: in what it is not as it should be, "" if in nothing."""

    source: Source
    checked: Checked
    odd: str


def sources(lab: Lab) -> tuple[Source, ...]:
    """All that is tried on a lab: its starter for each variant, and what its rehearsal.toml names.

    Raises DataError where that is damaged, or a change does not fit its file.
    """
    path = lab.folder / FOLDER / "rehearsal.toml"
    starters = [
        Source(f"starter, {v.name}", "starter", v.name, lab.starter(v)) for v in lab.variants
    ]
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))["sources"]
        return (*starters, *(_source(lab, one) for one in data))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}") from None


def _source(lab: Lab, data: dict[str, Any]) -> Source:
    text = (lab.folder / FOLDER / data["file"]).read_text(encoding="utf-8")
    text = changed(text, data.get("changes", ()), f"{data['file']} of {data['name']!r}")
    if data["kind"] not in KINDS or data["variant"] not in {v.name for v in lab.variants}:
        raise ValueError(
            f"{data['name']!r} has the kind {data['kind']!r}, the variant {data['variant']!r}"
        )
    rest = {name: data[name] for name in ("expect", "words", "exploit") if name in data}
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
    elif differing:
        odd = "; ".join(
            f"{n} has {got.get(n)} points and should have {p}" for n, p in differing.items()
        )
    elif source.words not in str(found):
        odd = f"the student is not told {source.words!r}"
    return Rehearsed(source, found, odd)


__all__ = ["FOLDER", "KINDS", "Rehearsed", "Source", "rehearse", "rehearsed", "sources"]
