"""A kernel that a student checks: points by part, and for each part that lacks some where to look
next.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from helpers.record import protocol
from helpers.wording import number
from nogpu import device
from nogpu.errors import UnknownNameError, near_matches
from tilelabs.judging.marking import Marked, Specification, cases, mark
from tilelabs.judging.timing import Timed, time_on_gpu, words
from tilelabs.labs import comment_tables
from tilelabs.labs.rubrics import RESOURCES, Lab, Rubric, Variant, lab

PRACTICE = b"practice: nobody's course"
"""In place of a course's secret, where a student checks without one. A course draws other cases."""


@dataclass(frozen=True)
class Part:
    """One part of the rubric: points that the facts give (0 for what a person marks), and why.
    unknown: what it needs cannot be told on this machine. share: of its points, by what it counts
    alone.
    """

    rubric: Rubric
    points: int
    words: str
    unknown: bool = False
    share: float = 0.0

    @property
    def full(self) -> bool:
        """All of its points are there."""
        return self.points == self.rubric.points


def as_text(self: Any) -> str:
    """Lines, and whether each is good (None: neither), between a head and a foot."""
    sign = {True: "[x]", False: "[ ]", None: "   "}
    lines = (f"{sign[good]} {text}" for good, text in self.lines)
    return "\n".join([*filter(None, [self.head]), *lines, self.foot])


def as_html(self: Any) -> str:
    """The same in a notebook, as `label`."""
    from helpers.notebook import remarks

    rows = [remarks.Remark(text.strip(), good) for good, text in self.lines]
    return remarks.as_html(rows, self.ok, self.label, self.head, self.foot)


@dataclass(frozen=True, repr=False)
class Checked:
    """How a kernel comes out: the facts, and the points that they give.

    timed: on this machine's GPU, where there is one and the kernel is right and clean; no part of
    the points.
    """

    lab: Lab
    variant: Variant
    marked: Marked
    parts: tuple[Part, ...]
    timed: Timed | None = None
    label = "How your kernel comes out"
    __str__ = __repr__ = as_text
    _repr_html_ = as_html

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
        """What is said in order."""
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
        line = f"{self.points} of {self.most} points; {by_hand} more are marked by hand"
        m = self.marked
        if m.runs and len(m.tried) < m.all and not m.runs[-1].ended:
            line += (
                f". Stopped at the first wrong shape, {len(m.tried)} of {m.all}: "
                f'check("{self.lab.number}", every_shape=True) tries all'
            )
        return line


def check(
    number: str | int,
    source: str | bytes,
    *,
    variant: str = "",
    gpu: bool | None = None,
    every_shape: bool = True,
) -> Checked:
    """How a kernel comes out on the cases for practice, in seconds and without a GPU.

    The compiler, the emulator and the GPU's driver run in processes of their own, so what the
    kernel does it does to them. source: text, or the bytes of a file. variant: by name; default the
    first. gpu: whether a kernel that is right and clean is timed, too; default where a GPU answers.
    every_shape: all are tried; or, sooner, those up to the first that is wrong. Raises
    UnknownNameError: a lab or a variant that does not exist; never for a source.
    """
    of = lab(number)
    chosen = variant_of(of, variant)
    spec = of.specification(chosen)
    todo = cases(spec, PRACTICE, of.number, of.version)
    facts = mark(source, spec, todo, lock=False, stop=not every_shape)
    found = judged(of, chosen, facts)
    everything = facts.clean and len(facts.right) == facts.all
    if not (everything and of.rung) or not (device.current() is not None if gpu is None else gpu):
        return found
    size = (of.size, of.size, of.size)
    timed = time_on_gpu(source, spec, of.rung, size, lock=False, effort=protocol.LIVE)
    return replace(found, timed=timed)


def starter_count(of: Lab, variant: Variant, part: Rubric) -> float | None:
    """What a part counts of the starter, as a check says it; None where that is not right yet.

    Raises ToolchainError where nothing compiles here.
    """
    found = _counted(of.starter(variant), of.specification(variant), of.number, of.version)
    return found.worst(part.counts) if len(found.right) == len(found.tried) else None


@cache
def _counted(text: str, spec: Specification, *of: object) -> Marked:
    todo = [case for case in cases(spec, PRACTICE, *of) if case.counted]
    return mark(text, spec, todo, lock=False)


def variant_of(of: Lab, name: str) -> Variant:
    """A lab's variant by name; "": the first. Raises UnknownNameError."""
    known = {v.name: v for v in of.variants}
    if name and name not in known:
        near = near_matches(name, known)
        raise UnknownNameError(f"lab {of.number} has no variant {name!r}. {near}")
    return known[name] if name else of.variants[0]


FOUND = 0.7
"""What every part is worth of a kernel in which races, or accesses out of bounds or of nothing
written, are found; `clean` is lost besides."""
WRONG = 4
"""How fast points for work go: by so much of the share of shapes that are wrong."""


def judged(of: Lab, variant: Variant, facts: Marked) -> Checked:
    """Points for facts. `right` and `clean` in proportion to all cases, run or not; work by what it
    counts, less `WRONG` times the share of cases that are wrong, and nothing where a counted one
    is; all of it by `FOUND` where it is not clean. A table counts whatever the kernel does.
    """
    parts: dict[str, Part] = {}
    for rubric in of.parts:
        parts[rubric.id] = _part(rubric, facts, of, parts.get(rubric.after))
    return Checked(of, variant, facts, tuple(parts.values()))


def _part(rubric: Rubric, m: Marked, of: Lab, before: Part | None) -> Part:
    if rubric.by_hand:
        return Part(rubric, 0, rubric.words)
    if rubric.table:
        fault = comment_tables.fault(rubric, m.table, of.constants, m.sizes)
        right_words = f"{rubric.rows} tiles or more, and every column is right"
        return Part(rubric, 0 if fault else rubric.points, fault or right_words)
    right = m.right_in_an_order(of.barriers)
    if not right:
        if rubric.id == "right":
            return Part(rubric, 0, "it did not run" if m.refused else _first_fault(m))
        seen = f"; {_findings(m)}" if rubric.id == "clean" and m.runs and not m.clean else ""
        return Part(rubric, 0, f"counts once a shape is right{seen}")
    share, found = len(right) / m.all, 1.0 if m.clean else FOUND
    if rubric.id == "right":
        both = f"{len(m.right)} of {m.all} shapes"
        if len(m.right) == m.all:
            words_ = f"{both}, both orders of warps{_less(m, 0)}"
        else:
            words_ = f"{both}{_less(m, 0)}. {_first_fault(m)}"
        return Part(rubric, _whole(rubric.points * share * found), words_)
    if rubric.id == "clean":
        return Part(rubric, _whole(rubric.points * share) if m.clean else 0, _findings(m))
    if any(c.counted and c not in right for c in m.tried):
        return Part(rubric, 0, "counts once the shapes in which work is counted are right")
    if rubric.counts in RESOURCES and not m.registers:
        fault = f"{rubric.words}: {m.compiler} does not tell; NVRTC does"
        return Part(rubric, 0, fault, unknown=True)
    got = float(getattr(m, rubric.counts)) if rubric.counts in RESOURCES else m.worst(rubric.counts)
    if rubric.counts == "tensor" and 0 <= m.leans < 1:
        got *= m.leans
    own = rubric.share(got)
    earlier = 1.0 if before is None or before.unknown else before.share
    wrong = m.all - len(right)
    worth = max(0.0, 1 - WRONG * wrong / m.all) * found
    counted = f"{number(got)} {rubric.words} (asked for: {rubric.bound})"
    if own < 1:
        counted = f"{counted}. {_heaviest(m, rubric.counts)}{_look(m, rubric)}"
    elif earlier < 1:
        counted = f"{counted}; as {rubric.after}, {number(100 * earlier, 2)} % of it"
    points = _whole(rubric.points * own * earlier * worth)
    return Part(rubric, points, f"{counted}{_less(m, wrong)}", share=own * earlier)


def _whole(points: float) -> int:
    """Rounded down, but for what a sum of fractions lacks."""
    return int(points + 1e-9)


def _less(m: Marked, wrong: int) -> str:
    """Why a part is worth less than what it counts."""
    why = [f"{wrong} of {m.all} shapes are wrong"] if wrong else []
    why += [] if m.clean else ["it is not clean"]
    return f"; less, since {' and '.join(why)}" if why else ""


def _heaviest(m: Marked, what: str) -> str:
    """Where most of what is counted comes from: the line, its array, and how many a request makes
    there.
    """
    most = m.heaviest(what)
    if not most:
        return ""
    share = f"{number(100 * most['share'], 2)} % of them come from line {most['line']}"
    does = {"load": "reads", "store": "writes"}.get(most["op"], "changes")
    each = number(most["each"])
    return f"{share}, which {does} {most['array']}: {each} for each request of a warp. "


def _look(m: Marked, rubric: Rubric) -> str:
    """Where to look; where lanes hardly meet in a bank, it is the number of requests that is too
    large.
    """
    what = rubric.counts
    if rubric.look:
        return rubric.look
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
    "conflicts": "Look at the banks that lanes meet in, above all in the stores that turn a tile",
    "atomics": "Look at how much each atomic operation brings: who adds up before it",
    "barriers": "Look at which barriers order nothing that another does not order",
    "copied": "Look at which bytes go over the bus, in which direction, and how often",
    "leaked": "Look at what was asked for and is never given back: arrays, streams",
    "streams": "Look at which streams both copy and launch",
    "requests": "Look at how many bytes each load and each store of a warp moves",
    "instructions": "Look at what the innermost loop does besides multiplying",
    "scalar": "Look at which products are still made by threads, one at a time",
    "tensor": "Look at which products go to the Tensor Cores, and which do not",
    "registers": "Look at how many values a thread holds from one step to the next",
    "stack": (
        "Look at arrays whose indices the compiler cannot know, and at how many values a "
        "thread holds"
    ),
}
LOOK["spills"] = LOOK["stack"]
"""Where to look when a total is beyond its limit."""


def _first_fault(m: Marked) -> str:
    """The first case that came out wrong, in words; what to look at, and not what to write."""
    run = next(r for r in m.runs if not r.right)
    where = run.case
    if run.ended:
        return f"At {where} the kernel does not come to an end: {run.ended}"
    if run.changed:
        return f"At {where} it writes to {' and '.join(run.changed)}, which are inputs"
    fault = f"At {where} {run.wrong} of {run.of} elements are wrong"
    if run.first:
        f = run.first
        place = "row {}, column {}" if len(f["at"]) == 2 else "element {}"
        fault += f", the first in {place.format(*f['at'])} of {f['array']}: "
        fault += f"{number(f['expected'], 7)} expected, {_got(f['got'])}"
    firsts = [r.first for r in m.runs if not r.right and r.first]
    # One that is off by less than a twentieth tells little; most of them tell of rounding.
    near = sum(abs(float(f["got"]) - f["expected"]) < 0.05 * abs(f["expected"]) for f in firsts)
    hint = "Look at who computes this element, over what it sums, and what it loads at the edge"
    if any(r.case == run.case and r.right for r in m.runs):
        hint = "In another order of the warps it is right: look at what a warp reads before it was "
        hint += "written, or writes before all have read"
    elif m.clean and firsts and near >= 0.75 * len(firsts):
        hint = "That is close: look at how precisely each product and each sum is kept"
    return f"{fault}. {hint}"


def _got(text: str) -> str:
    if text == "nan":
        return "and nothing was written there, or NaN"
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
    return f"{f'line {line}, ' if line else ''}{kind}: {fact}, at {case}{more}. {hint}"


LOOK_AT = {
    "divergent-barrier": "Look at which threads reach this barrier, and which have left before it",
    "race": "Look at what orders, or bounds, these accesses",
    "out-of-bounds": "Look at what bounds this access at the edge of a matrix, or of a tile",
    "misaligned": (
        "Look at which sizes, of a matrix and of a tile's rows, make its address such a "
        "multiple, and at what the kernel does where they do not"
    ),
    "wrong-direction": "Look at who owns each of the two",
    "refused-launch": "Look at the blocks, threads and arguments that it is launched with",
    "unsynchronised": "Look at what waits for the streams before the function returns",
    "invalid-free": "Look at which call frees what, and how often",
    "not-followed": "Write it so that it follows from the parameters: sizes, pointers, loops",
    "uninitialised": "Look at who writes this before it is read",
    "step-budget": "Look at what ends this loop",
    "deadlock": "Look at which threads reach this, and which never do",
    **dict.fromkeys(("trap", "assert"), "Look at which threads reach this, and why"),
}
"""Where to look when something of a kind was found."""
