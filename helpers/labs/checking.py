"""A kernel that a student checks: points by part, and for each part that lacks some where to look next."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from helpers.judging.marking import Case, Marked, Run, cases, mark
from helpers.labs.rubrics import Lab, Rubric, Variant, lab
from helpers.wording import number

PRACTICE = b"practice: nobody's course"
"""In place of a course's secret, where a student checks without one. A course draws other cases."""


@dataclass(frozen=True)
class Part:
    """One part of the rubric: points that the facts give (0 for what a person marks), and why."""

    rubric: Rubric
    points: int
    words: str

    @property
    def full(self) -> bool:
        """All of its points are there."""
        return self.points == self.rubric.points


@dataclass(frozen=True)
class Checked:
    """How a kernel comes out: the facts, and the points that they give. print() says it."""

    lab: Lab
    variant: Variant
    marked: Marked
    parts: tuple[Part, ...]

    @property
    def points(self) -> int:
        """Those that need no person."""
        return sum(part.points for part in self.parts)

    @property
    def most(self) -> int:
        """The points that need no person, at best."""
        return sum(part.rubric.points for part in self.parts if not part.rubric.by_hand)

    @property
    def ok(self) -> bool:
        """All points that need no person."""
        return self.points == self.most

    def __str__(self) -> str:
        lines = [f"Lab {self.lab.number}, {self.lab.title} ({self.variant.name})"]
        m = self.marked
        if m.refused:
            lines.append(f"[ ] it did not run: {m.refused}")
        else:
            spilled = f", {m.spills} bytes of spills" if m.spills else ""
            used = f": {m.registers} registers{spilled}" if m.registers else ""
            lines.append(f"    compiled by {m.compiler}{used}")
        for part in self.parts:
            mark_ = "by hand" if part.rubric.by_hand else f"{part.points}/{part.rubric.points}"
            sign = "   " if part.rubric.by_hand else "[x]" if part.full else "[ ]"
            lines.append(f"{sign} {mark_:>7}  {part.rubric.id}: {part.words}")
        by_hand = self.lab.points - self.most
        lines.append(f"{self.points} of {self.most} points; {by_hand} more are marked by hand")
        return "\n".join(lines)


def check(number: str | int, source: str | bytes, *, variant: str = "") -> Checked:
    """How a kernel comes out on the cases for practice, in seconds and without a GPU.

    number: of the lab. source: text, or the bytes of a file. variant: by name; default the first. The
    compiler and the emulator run in processes of their own, so what the kernel does it does to them. Raises
    UnknownNameError for a lab or a variant that does not exist; never for a source.
    """
    from helpers.errors import UnknownNameError, near_matches

    of = lab(number)
    known = {v.name: v for v in of.variants}
    chosen = variant or of.variants[0].name
    if chosen not in known:
        raise UnknownNameError(
            f"lab {of.number} has no variant {chosen!r}. {near_matches(chosen, known)}"
        )
    asked = of.asked(known[chosen])
    facts = mark(source, asked, cases(asked, PRACTICE, of.number, of.version), lock=False)
    return judged(of, known[chosen], facts)


def judged(of: Lab, variant: Variant, facts: Marked) -> Checked:
    """Points for facts: right in proportion to the cases, all else whole or not at all.

    What counts work counts only for a kernel that is right, and "clean" only for one that is right somewhere.
    """
    parts: dict[str, Part] = {}
    for rubric in of.parts:
        before = parts.get(rubric.after)
        parts[rubric.id] = (
            Part(rubric, 0, f"counts once {rubric.after} has its points")
            if before is not None and not before.full
            else _part(rubric, facts, of.tile)
        )
    return Checked(of, variant, facts, tuple(parts.values()))


def _part(rubric: Rubric, m: Marked, tile: tuple[int, int, int]) -> Part:
    if rubric.by_hand:
        return Part(rubric, 0, rubric.words)
    tried = tuple(dict.fromkeys(r.case for r in m.runs))
    right = m.right
    if not right:
        why = "it did not run" if m.refused else _wrong(m)
        return Part(rubric, 0, why if rubric.id == "right" else "counts once a shape is right")
    if rubric.id == "right":
        share = Fraction(len(right), len(tried)) * rubric.points
        if len(right) == len(tried):
            return Part(
                rubric, rubric.points, f"{len(right)} of {len(tried)} shapes, both orders of warps"
            )
        return Part(rubric, int(share), f"{len(right)} of {len(tried)} shapes. {_wrong(m)}")
    if rubric.id == "clean":
        return Part(rubric, rubric.points if m.clean else 0, _findings(m))
    if len(right) < len(tried):
        return Part(rubric, 0, "counts once every shape is right")
    worst, limit = m.worst(rubric.id, tile), rubric.limit or 0.0
    counted = f"{number(worst)} {rubric.words}, at most {number(limit)} are allowed"
    if worst <= limit:
        return Part(rubric, rubric.points, counted)
    return Part(rubric, 0, f"{counted}. {LOOK[rubric.id]}")


LOOK = {
    "sectors": "Look at the addresses of neighbouring lanes in each load, and at how often an element is loaded",
    "wavefronts": "Look at the banks that the lanes of a warp meet in, at each access to a tile",
    "requests": "Look at what each load of a warp brings",
    "instructions": "Look at what the innermost loop does besides multiplying",
}
"""Where to look when a total is above its limit."""


def _shape(c: Case) -> str:
    return f"M={c.M} N={c.N} K={c.K}"


def _wrong(m: Marked) -> str:
    """The first case that came out wrong, in words; what to look at, and not what to write."""
    run = next(r for r in m.runs if not r.right)
    where = _shape(run.case)
    if run.ended:
        return f"At {where} the kernel does not come to an end: {run.ended}"
    if run.changed:
        return f"At {where} it writes to {' and '.join(run.changed)}, which are inputs"
    told = f"At {where} {run.wrong} of {run.of} elements are wrong"
    if run.first:
        f = run.first
        told += f", the first C[{f['row']}][{f['column']}]: {number(f['expected'])} expected, {_got(f['got'])}"
    if _other_order(m, run):
        return f"{told}. In another order of the warps it is right: look at what a warp reads before it was written"
    return f"{told}. Look at who computes this element, and what it loads at the edge"


def _other_order(m: Marked, run: Run) -> bool:
    """Whether the same case is right under the other schedule."""
    return any(r.case == run.case and r.right for r in m.runs)


def _got(text: str) -> str:
    return "and nothing was written there" if text == "nan" else f"{text} found"


def _findings(m: Marked) -> str:
    found = list(
        dict.fromkeys(
            (kind, line, words)
            for r in m.runs
            for kind, line, words in r.findings
            if kind != "wrong-result"
        )
    )
    if not found:
        return "nothing found"
    kind, line, words = found[0]
    more = f"; {len(found) - 1} more" if len(found) > 1 else ""
    fact = words.split(". ")[0]  # what follows says what to write
    return f"line {line}, {kind}: {fact}{more}. Look at what orders, or bounds, these accesses"


__all__ = ["Checked", "Part", "check", "judged"]
