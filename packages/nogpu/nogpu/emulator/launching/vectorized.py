"""Which neighbouring shared accesses of the PTX ptxas made one access of the machine code.

The PTX reads two neighbouring words by two instructions; where the address is known to be aligned,
ptxas makes one LDS.64 of them, which a warp's request and its wavefronts are counted of. Both codes
address memory as a base and a constant. So the places of one base in the PTX are laid over those of
one base in the machine code: at some distance the pieces of machine code fill the bytes that the
PTX reads there. A wide load may also read bytes that nobody asked for (the padding of a row, say).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple

from nogpu import toolchain
from nogpu.emulator.launching.report import LineAccess, sass_totals
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.bases import Place, places
from nogpu.emulator.ptx.program import Program


@dataclass(frozen=True)
class Piece:
    """A shared access of the machine code: op, base as written, constant, bytes a lane, line."""

    op: str
    base: str
    offset: int
    width: int
    line: int


class Span(NamedTuple):
    """The machine's access that begins with one of the PTX: bytes a lane (0: it is part of another
    that begins elsewhere), and how many of them lie before the PTX's.
    """

    width: int
    before: int = 0


_NARROW = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_ADDRESS = re.compile(r"\[([^\]]*)\]")
_CONSTANT = re.compile(r"\+?(-?0x[0-9a-f]+)$")


def pieces(code: Iterable[toolchain.SassInstruction]) -> list[Piece]:
    """The plain loads and stores of shared memory (LDS, STS), in their order."""
    out = []
    for i in code:
        kind, *words = i.opcode.split(".")
        address = _ADDRESS.search(i.operands)
        if kind not in ("LDS", "STS") or not address:
            continue
        constant = _CONSTANT.search(address[1])
        base = _CONSTANT.sub("", address[1]).replace(".reuse", "")
        width = next((_NARROW[w] for w in words if w in _NARROW), 4)
        op = "load" if kind == "LDS" else "store"
        out.append(Piece(op, base, int(constant[1], 16) if constant else 0, width, i.line))
    return out


def spans(places: Sequence[Place], code: Sequence[Piece]) -> Mapping[int, Span]:
    """The machine's access that begins with each place, by the place's instruction.

    A place that is missing in the result was not found in the machine code, or is joined in one
    copy of a loop's body and not in another. An access may reach into the next rounds of a loop,
    which ptxas unrolled: then it begins wherever its address is a multiple of its width.
    """
    cover = _Cover(code)
    fits: list[tuple[list[Place], list[_Laid]]] = []
    for group in _groups(places):
        fits += cover.fresh(group) or [(group, cover.lay(group, range(len(code))))]
    clear = cover.clear_lines(fits)
    out: dict[int, Span] = {}
    for group, fit in fits:
        if fit and all((code[n].op, code[n].line) in clear for _, n, _ in fit):
            out.update(dict.fromkeys((place.instruction for place in group), Span(0)))
            for place, number, before in fit:
                out[place.instruction] = Span(code[number].width, before)
    return MappingProxyType(out)


def _groups(places: Sequence[Place]) -> list[list[Place]]:
    """Places of one base by offset; what is accessed again there is in a group of its own."""
    by_base: dict[object, list[dict[int, Place]]] = {}
    for place in places:
        groups = by_base.setdefault(place.base, [])
        group = next((one for one in groups if place.offset not in one), None)
        if group is None:
            groups.append(group := {})
        group[place.offset] = place
    return [[one[o] for o in sorted(one)] for groups in by_base.values() for one in groups]


def _runs(group: Sequence[Place]) -> list[list[Place]]:
    """The places of a group that lie side by side: ptxas may give each run a base of its own."""
    runs: list[list[Place]] = []
    for place in group:
        if runs and runs[-1][-1].offset + runs[-1][-1].width == place.offset:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


class _Laid(NamedTuple):
    """A piece over the places that it fills: the first of them, and the piece's bytes before it."""

    place: Place
    number: int
    before: int


class _Cover:
    """Pieces of machine code to lay over places, and which were used."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.used: set[int] = set()

    def fresh(self, group: list[Place]) -> list[tuple[list[Place], list[_Laid]]] | None:
        """Lay pieces over a group that were laid over nothing before: over the whole, over several
        rounds of it, or, each on a line of its own places, over its runs. None: there is no such
        way.
        """
        unused = [n for n in range(len(self.pieces)) if n not in self.used]
        if whole := self.lay(group, unused) or self.lay_unrolled(group, unused):
            return [(group, whole)]
        before, fits = set(self.used), []
        for run in _runs(group):
            lines = {place.line for place in run}
            near = [n for n in unused if n not in self.used and self.pieces[n].line in lines]
            fits.append((run, self.lay(run, near)))
        if all(laid for _, laid in fits):
            return fits
        self.used = before
        return None

    def lay(self, group: Sequence[Place], numbers: Iterable[int]) -> list[_Laid]:
        """The best way to fill the places of a group by pieces of one base; empty if there is none.

        Of the pieces with these numbers, those of the places' own lines come first, then those that
        nothing was filled with yet, then those that fill no other bytes.
        """
        first, *_ = group
        bases: dict[str, list[int]] = {}
        for number in numbers:
            if self.pieces[number].op == first.op:
                bases.setdefault(self.pieces[number].base, []).append(number)
        ways = []
        for at in bases.values():
            pieces = [self.pieces[n] for n in at]
            begins = {p.offset + b for p in pieces for b in range(0, p.width, first.width)}
            ways += [self._at(group, at, begin - first.offset) for begin in sorted(begins)]
        laid = max(filter(None, ways), key=lambda way: way[0], default=((), list[_Laid]()))[1]
        self.used.update(number for _, number, _ in laid)
        return laid

    def lay_unrolled(self, group: Sequence[Place], numbers: Sequence[int]) -> list[_Laid] | None:
        """The same for a loop that ptxas unrolled: the places of several rounds, one after the
        other.
        """
        first, *_ = group
        here = {place.line for place in group}
        candidates = (self.pieces[n] for n in numbers)
        have = sum(p.width for p in candidates if p.op == first.op and p.line in here)
        turns, rest = divmod(have, sum(place.width for place in group))
        if rest or not turns:
            return None
        rounds = [
            replace(place, offset=place.offset + turn * first.step)
            for turn in range(turns)
            for place in group
        ]
        if len({place.offset for place in rounds}) < len(rounds):
            return None
        laid = self.lay(sorted(rounds, key=lambda place: place.offset), numbers)
        # What is counted as the loop runs must be what was laid: a place begins an access of one
        # width, in those rounds in which its address is a multiple of that.
        starts = {(x.place.instruction, x.place.offset): x for x in laid}
        for place in rounds:
            for x in laid:
                if x.place.instruction != place.instruction:
                    continue
                width = self.pieces[x.number].width
                mine = starts.get((place.instruction, place.offset))
                if (mine is not None) != ((place.offset - x.place.offset) % width == 0):
                    return None
                if mine and (self.pieces[mine.number].width, mine.before) != (width, x.before):
                    return None
        return laid

    def clear_lines(self, fits: Iterable[tuple[list[Place], list[_Laid]]]) -> set[tuple[str, int]]:
        """Op and line of the pieces of which those that were laid stand for all.

        The others there are further copies: nothing is joined in any, or there are as many of each
        width.
        """
        widths_of: dict[tuple[str, int], set[int]] = {}
        laid: dict[int, tuple[str, int]] = {}  # op and line of each piece that was laid
        for group, over in fits:
            for _, number, _ in over:
                key = laid[number] = self.pieces[number].op, self.pieces[number].line
                widths_of.setdefault(key, set()).update(place.width for place in group)
        clear = set()
        for key, widths in widths_of.items():
            every = Counter(p.width for p in self.pieces if (p.op, p.line) == key)
            some = Counter(self.pieces[n].width for n, where in laid.items() if where == key)
            copies, rest = divmod(every.total(), some.total())
            alike = not rest and every == Counter({w: n * copies for w, n in some.items()})
            if alike or (set(every) == widths and len(widths) == 1):
                clear.add(key)
        return clear

    def _at(
        self, group: Sequence[Place], numbers: Iterable[int], distance: int
    ) -> tuple[tuple[int, ...], list[_Laid]] | None:
        """Lay pieces of one base at a distance from the group: how well, and how. None: they do not
        fill it.
        """
        fits: dict[int, list[tuple[tuple[int, ...], int]]] = {}  # by the number of the first place
        offsets = [place.offset + distance for place in group]
        for number in numbers:
            first = bisect_left(offsets, self.pieces[number].offset)
            if fit := self._fit(group[first:], number, distance):
                fits.setdefault(first, []).append((fit, number))
        laid: list[_Laid] = []
        lines = fresh = beyond = first = 0
        end = -math.inf  # of the last piece
        while first < len(group):
            apart = [one for one in fits.get(first, ()) if self.pieces[one[1]].offset >= end]
            if not apart:
                return None
            (own, new, beside, count), number = max(apart, key=lambda one: one[0])
            piece = self.pieces[number]
            laid.append(_Laid(group[first], number, offsets[first] - piece.offset))
            lines, fresh, beyond = lines + own * count, fresh + new * count, beyond + beside
            end = piece.offset + piece.width
            first += count
        return (lines, fresh, beyond), laid

    def _fit(
        self, group: Sequence[Place], number: int, distance: int
    ) -> tuple[bool, bool, int, int] | None:
        """How well a piece holds the first places: whether it is of their lines, and new; minus its
        bytes beside them; how many it holds. None: it holds none, or only a part of one.
        """
        piece = self.pieces[number]
        end = piece.offset + piece.width
        inside = list(takewhile(lambda place: place.offset + distance < end, group))
        beside = piece.width - sum(place.width for place in inside)
        if not inside or inside[-1].offset + distance + inside[-1].width > end:
            return None
        if beside and piece.op == "store":
            return None
        own = any(place.line == piece.line for place in inside)
        return own, number not in self.used, -beside, len(inside)


@dataclass(frozen=True)
class MachineCode:
    """The shared accesses of one compilation's machine code, for `arch` ("": nobody asked).

    spans: see `by_site`. missing: why there are none.
    """

    arch: str = ""
    spans: Mapping[int, Span] = field(default_factory=dict)
    missing: str = ""

    def notes(self, accesses: Sequence[LineAccess]) -> list[str]:
        """What a report says of the counts: both sums, and which lines are not known."""
        shared = [a for a in accesses if a.space == "shared"]
        if not self.arch or not shared:
            return []
        if self.missing:
            return [f"shared accesses of the machine code are not counted: {self.missing}"]
        lines = sorted({a.line for a in shared if a.sass_wavefronts is None})
        if lines:
            which = ", ".join(map(str, lines))
            return [
                f"how many shared accesses line {which} makes is not clear from the machine code "
                f"of {self.arch}: they are hidden in one instruction of the PTX, or joined "
                "differently in copies of a loop"
            ]
        sentences = []
        for op in ("load", "store"):
            rows = [a for a in shared if a.op == op]
            totals = sass_totals(rows, op)
            if rows and totals:
                sentences.append(
                    f"shared {op}s: {sum(a.requests for a in rows)} requests and "
                    f"{sum(a.wavefronts for a in rows)} wavefronts in PTX, {totals[0]} and "
                    f"{totals[1]} in the machine code of {self.arch}"
                )
        return sentences


def by_site(
    program: Program, entry: P.Function, compiled: toolchain.Compiled, file: str
) -> Mapping[int, Span]:
    """`spans` of a program by the number of its memory instruction (`Site`): all shared accesses.

    Where one PTX instruction is one of the machine code (ldmatrix, atomics, cp.async, generic
    addresses) it is its own. A plain access that was not found, a wmma load or store, and what
    device functions do that are not inlined are left out: it is not known how many accesses they
    are. entry: the parsed PTX of the program's kernel. Raises ToolchainError where there is no
    disassembler.
    """
    accessed = places(entry)
    code, _ = toolchain.sass_instructions(compiled.cubin, entry.name, file)
    by_place = spans(accessed, pieces(code))
    queue = [(entry.code[p.instruction].text, by_place.get(p.instruction)) for p in accessed]
    out: dict[int, Span] = {}
    for site in program.sites:
        root = site.text.split(".")[0].split()[-1]
        if root in ("ld", "st") and site.space == "shared":
            text, span = queue.pop(0) if queue else ("", None)
            if span is not None and text == site.text:
                out[site.index] = span
        elif root != "wmma":
            out[site.index] = Span(site.width)
    return MappingProxyType(out)
