"""A kernel that a student checks: points by part, and for each part that lacks some where to look
next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from helpers.record import protocol
from helpers.wording import number
from nogpu import device
from nogpu.errors import UnknownNameError, near_matches
from tilelabs.judging.marking import Case, Marked, Run, cases, mark
from tilelabs.judging.timing import Timed, time_on_gpu, words
from tilelabs.labs import comment_tables
from tilelabs.labs.rubrics import RESOURCES, Lab, Rubric, Variant, lab

PRACTICE = b"practice: nobody's course"
"""In place of a course's secret, where a student checks without one. A course draws other cases."""


@dataclass(frozen=True)
class Part:
    """One part of the rubric: points that the facts give (0 for what a person marks), and why.
    unknown: what it needs cannot be told on this machine.
    """

    rubric: Rubric
    points: int
    words: str
    unknown: bool = False

    @property
    def full(self) -> bool:
        """All of its points are there."""
        return self.points == self.rubric.points


@dataclass(frozen=True, repr=False)
class Checked:
    """How a kernel comes out: the facts, and the points that they give.

    Shown as HTML in a notebook, as text elsewhere; both say what `told` holds. timed: on this
    machine's GPU, where there is one and the kernel is right and clean; no part of the points.
    """

    lab: Lab
    variant: Variant
    marked: Marked
    parts: tuple[Part, ...]
    timed: Timed | None = None

    @property
    def points(self) -> int:
        """Those that need no person."""
        return sum(part.points for part in self.parts)

    @property
    def most(self) -> int:
        """The points that need no person, at best, and that can be told here."""
        return sum(p.rubric.points for p in self.parts if not (p.rubric.by_hand or p.unknown))

    @property
    def ok(self) -> bool:
        """All points that need no person."""
        return self.points == self.most

    @property
    def head(self) -> str:
        """Which lab it is."""
        return f"Lab {self.lab.number}, {self.lab.title} ({self.variant.name})"

    @property
    def lines(self) -> tuple[tuple[bool | None, str], ...]:
        """What is said in order, and whether it is good: None where it is neither."""
        m = self.marked
        if m.refused:
            rows: list[tuple[bool | None, str]] = [(False, f"it did not run: {m.refused}")]
        else:
            local = f", {m.stack} bytes of local memory" if m.stack else ""
            used = f": {m.registers} registers a thread{local}" if m.registers else ""
            rows = [(None, f"compiled by {m.compiler}{used}")]
        for part in self.parts:
            mark_ = "by hand" if part.rubric.by_hand else f"{part.points}/{part.rubric.points}"
            good = None if part.rubric.by_hand or part.unknown else part.full
            rows.append((good, f"{mark_:>7}  {part.rubric.id}: {part.words}"))
        if self.timed is not None:
            rows.append((None, f"   time  {words(self.timed)}; not in the points"))
        return tuple(rows)

    @property
    def foot(self) -> str:
        """The points in all."""
        by_hand = sum(part.rubric.points for part in self.parts if part.rubric.by_hand)
        return f"{self.points} of {self.most} points; {by_hand} more are marked by hand"

    def __str__(self) -> str:
        sign = {True: "[x]", False: "[ ]", None: "   "}
        return "\n".join([self.head, *(f"{sign[g]} {text}" for g, text in self.lines), self.foot])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from helpers.notebook.remarks import Remark, as_html

        rows = [Remark(text.strip(), good) for good, text in self.lines]
        return as_html(rows, self.ok, "How your kernel comes out", self.head, self.foot)


def check(
    number: str | int, source: str | bytes, *, variant: str = "", gpu: bool | None = None
) -> Checked:
    """How a kernel comes out on the cases for practice, in seconds and without a GPU.

    The compiler, the emulator and the GPU's driver run in processes of their own, so what the
    kernel does it does to them.

    Parameters
    ----------
    source : text, or the bytes of a file.
    variant : by name; default the first.
    gpu : whether a kernel that is right and clean is timed, too; default where a GPU answers.

    Raises
    ------
    UnknownNameError : a lab or a variant that does not exist; never for a source.
    """
    of = lab(number)
    chosen = variant_of(of, variant)
    spec = of.specification(chosen)
    facts = mark(source, spec, cases(spec, PRACTICE, of.number, of.version), lock=False)
    found = judged(of, chosen, facts)
    everything = facts.clean and len(facts.right) == len({r.case for r in facts.runs})
    if not everything or not (device.current() is not None if gpu is None else gpu):
        return found
    size = (of.size, of.size, of.size)
    timed = time_on_gpu(source, spec, of.reference, size, lock=False, effort=protocol.LIVE)
    return replace(found, timed=timed)


def variant_of(of: Lab, name: str) -> Variant:
    """A lab's variant by name; "": the first. Raises UnknownNameError."""
    known = {v.name: v for v in of.variants}
    if name and name not in known:
        raise UnknownNameError(
            f"lab {of.number} has no variant {name!r}. {near_matches(name, known)}"
        )
    return known[name] if name else of.variants[0]


def judged(of: Lab, variant: Variant, facts: Marked) -> Checked:
    """Points for facts: right in proportion to the cases, all else whole or not at all.

    What counts work counts only for a kernel that is right, and "clean" only for one that is right
    somewhere. A table counts whatever the kernel does.
    """
    parts: dict[str, Part] = {}
    for rubric in of.parts:
        before = parts.get(rubric.after)
        parts[rubric.id] = (
            Part(rubric, 0, f"counts once {rubric.after} has its points")
            if before is not None and not (before.full or before.unknown)
            else _part(rubric, facts, of)
        )
    return Checked(of, variant, facts, tuple(parts.values()))


def _part(rubric: Rubric, m: Marked, of: Lab) -> Part:
    if rubric.by_hand:
        return Part(rubric, 0, rubric.words)
    if rubric.table:
        told = comment_tables.fault(rubric, m.table, of.constants, m.sizes)
        right_words = f"{rubric.rows} tiles or more, and every column is right"
        return Part(rubric, 0 if told else rubric.points, told or right_words)
    tried = tuple(dict.fromkeys(r.case for r in m.runs))
    right = m.right
    if not right:
        if rubric.id == "right":
            return Part(rubric, 0, "it did not run" if m.refused else _first_fault(m))
        seen = f"; {_findings(m)}" if rubric.id == "clean" and m.runs and not m.clean else ""
        return Part(rubric, 0, f"counts once a shape is right{seen}")
    if rubric.id == "right":
        share = Fraction(len(right), len(tried)) * rubric.points
        if len(right) == len(tried):
            return Part(
                rubric, rubric.points, f"{len(right)} of {len(tried)} shapes, both orders of warps"
            )
        return Part(rubric, int(share), f"{len(right)} of {len(tried)} shapes. {_first_fault(m)}")
    if rubric.id == "clean":
        return Part(rubric, rubric.points if m.clean else 0, _findings(m))
    if len(right) < len(tried):
        return Part(rubric, 0, "counts once every shape is right")
    if rubric.counts in RESOURCES and not m.registers:
        return Part(
            rubric, 0, f"{rubric.words}: {m.compiler} does not tell; NVRTC does", unknown=True
        )
    got = (
        float(getattr(m, rubric.counts))
        if rubric.counts in RESOURCES
        else m.worst(rubric.counts, of.tile)
    )
    counted = f"{number(got)} {rubric.words} (asked for: {rubric.bound})"
    good = got >= rubric.least if rubric.least is not None else got <= (rubric.limit or 0.0)
    if good:
        return Part(rubric, rubric.points, counted)
    return Part(rubric, 0, f"{counted}. {_heaviest(m, rubric.counts)}{_look(m, rubric.counts)}")


def _heaviest(m: Marked, what: str) -> str:
    """Where most of what is counted comes from: the line, its array, and how many a request makes
    there.
    """
    most = m.heaviest(what)
    if not most:
        return ""
    share = f"{number(100 * most['share'], 2)} % of them come from line {most['line']}"
    op = {"load": "reads", "store": "writes"}.get(most["op"], "changes")
    return (
        f"{share}, which {op} {most['array']}: {number(most['each'])} for each request of a warp. "
    )


def _look(m: Marked, what: str) -> str:
    """Where to look; where lanes hardly meet in a bank, it is the number of requests that is too
    large.
    """
    if what == "wavefronts" and not m.heaviest(what).get("meets", True):
        return (
            "Lanes hardly meet in a bank there: look at how many multiply-adds a value serves once"
            " it is read, and at how many values a read brings"
        )
    return LOOK[what]


LOOK = {
    "sectors": (
        "Look at the addresses of neighbouring lanes in each load and store, and at how "
        "often an element is loaded"
    ),
    "wavefronts": "Look at the banks that the lanes of a warp meet in, at each access to a tile",
    "requests": "Look at how many bytes each load and each store of a warp moves",
    "instructions": "Look at what the innermost loop does besides multiplying",
    "scalar": "Look at which products are still made by threads, one at a time",
    "tensor": "Look at which products go to the Tensor Cores, and which do not",
    "registers": "Look at how many values a thread holds from one step to the next",
    "stack": (
        "Look at arrays whose indices the compiler cannot know, and at how many values a "
        "thread holds"
    ),
    "spills": (
        "Look at arrays whose indices the compiler cannot know, and at how many values a "
        "thread holds"
    ),
}
"""Where to look when a total is beyond its limit."""


def _shape(c: Case) -> str:
    return f"M={c.M} N={c.N} K={c.K}"


def _first_fault(m: Marked) -> str:
    """The first case that came out wrong, in words; what to look at, and not what to write."""
    run = next(r for r in m.runs if not r.right)
    where = _shape(run.case)
    if run.ended:
        return f"At {where} the kernel does not come to an end: {run.ended}"
    if run.changed:
        return f"At {where} it writes to {' and '.join(run.changed)}, which are inputs"
    fault = f"At {where} {run.wrong} of {run.of} elements are wrong"
    if run.first:
        f = run.first
        fault += f", the first in row {f['row']}, column {f['column']} of C: "
        fault += f"{number(f['expected'], 7)} expected, {_got(f['got'])}"
    firsts = [r.first for r in m.runs if not r.right and r.first]
    near = sum(_close(f["expected"], float(f["got"])) for f in firsts)
    hint = "Look at who computes this element, over which k it sums, and what it loads at the edge"
    if _other_order(m, run):
        hint = "In another order of the warps it is right: look at what a warp reads before it was "
        hint += "written, or writes before all have read"
    elif m.clean and firsts and near >= 0.75 * len(firsts):
        hint = "That is close: look at how precisely each product and each sum is kept"
    return f"{fault}. {hint}"


def _close(expected: float, got: float) -> bool:
    """Whether a wrong element is off by less than a twentieth: one alone tells little, most of them
    that numbers were rounded, and none is missing.
    """
    return abs(got - expected) < 0.05 * abs(expected)


def _other_order(m: Marked, run: Run) -> bool:
    """Whether the same case is right under the other schedule."""
    return any(r.case == run.case and r.right for r in m.runs)


def _got(text: str) -> str:
    if text == "nan":
        return "and nothing was written there"
    return f"{number(float(text), 7) if math.isfinite(float(text)) else text} found"


def _findings(m: Marked) -> str:
    found = dict.fromkeys(
        (kind, line, words, run.case)
        for run in m.runs
        for kind, line, words in run.findings
        if kind != "wrong-result"
    )
    if not found:
        return "nothing found"
    kind, line, words, case = next(iter(found))
    more = f"; {len(found) - 1} more" if len(found) > 1 else ""
    fact = words.split(". ")[0]  # what follows says what to write
    hint = LOOK_AT.get(kind, LOOK_AT["race"])
    return f"line {line}, {kind}: {fact}, at {_shape(case)}{more}. {hint}"


LOOK_AT = {
    "divergent-barrier": "Look at which threads reach this barrier, and which have left before it",
    "race": "Look at what orders, or bounds, these accesses",
    "out-of-bounds": "Look at what bounds this access at the edge of a matrix, or of a tile",
    "misaligned": (
        "Look at which sizes, of a matrix and of a tile's rows, make its address such a "
        "multiple, and at what the kernel does where they do not"
    ),
    "uninitialised": "Look at who writes this before it is read",
    "step-budget": "Look at what ends this loop",
    "deadlock": "Look at which threads reach this, and which never do",
}
"""Where to look when something of a kind was found."""


__all__ = ["Checked", "Part", "check", "judged", "variant_of"]
