"""Which neighbouring shared accesses of the PTX ptxas made one access of the machine code.

The PTX reads two neighbouring words by two instructions; where the address is known to be aligned,
ptxas makes one LDS.64 of them, which a warp's request and its wavefronts are counted of. Both codes
address memory as a base and a constant. So the places of one base in the PTX are laid over those of
one base in the machine code: at some distance the pieces of machine code fill exactly the bytes
that the PTX reads there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from helpers import toolchain
from helpers.emulator.launching.report import LineAccess
from helpers.emulator.ptx.bases import Place, places
from helpers.emulator.ptx.program import Program, split_blocks
from helpers.errors import ToolchainError


@dataclass(frozen=True)
class Piece:
    """A shared access of the machine code: op, base as written, constant, bytes a lane, line."""

    op: str
    base: str
    offset: int
    width: int
    line: int


_NARROW = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_ADDRESS = re.compile(r"\[([^\]]*)\]")
_CONSTANT = re.compile(r"\+?(-?0x[0-9a-f]+)$")


def pieces(code: Iterable[toolchain.SassInstruction]) -> list[Piece]:
    """The plain loads and stores of shared memory (LDS, STS), in their order."""
    out = []
    for i in code:
        kind, *words = i.opcode.split(".")
        found = _ADDRESS.search(i.operands)
        if kind not in ("LDS", "STS") or not found:
            continue
        constant = _CONSTANT.search(found[1])
        base = _CONSTANT.sub("", found[1]).replace(".reuse", "")
        width = next((_NARROW[w] for w in words if w in _NARROW), 4)
        op = "load" if kind == "LDS" else "store"
        out.append(Piece(op, base, int(constant[1], 16) if constant else 0, width, i.line))
    return out


def widths(places: Sequence[Place], found: Sequence[Piece]) -> Mapping[int, int]:
    """Bytes a lane of the machine's access that begins with each place, by its instruction.

    0: the place is part of an access that begins with another. A place that is missing in the result
    was not found in the machine code. An access may reach into the next rounds of a loop, which ptxas
    unrolled: then it begins wherever the place's address is a multiple of its width.
    """
    out: dict[int, int] = {}
    cover = _Cover(found)
    for group in _groups(places):
        chosen = cover.lay(group) or cover.lay_unrolled(group)
        parts = [group] if chosen else _runs(group)
        for part in parts:
            fit = chosen or cover.lay(part)
            if fit:
                out.update(dict.fromkeys((place.instruction for place in part), 0))
                out.update({place.instruction: found[number].width for place, number in fit})
    return MappingProxyType(out)


def _groups(places: Sequence[Place]) -> list[list[Place]]:
    """Places of one base by their offsets; what is accessed again there is in a group of its own."""
    groups: dict[tuple[object, int], dict[int, Place]] = {}
    for place in places:
        turn = 0
        while place.offset in groups.setdefault((place.base, turn), {}):
            turn += 1
        groups[place.base, turn][place.offset] = place
    return [[group[offset] for offset in sorted(group)] for group in groups.values()]


def _runs(group: Sequence[Place]) -> list[list[Place]]:
    """The places of a group that lie side by side: ptxas may have given each run a base of its own."""
    runs: list[list[Place]] = []
    for place in group:
        if runs and runs[-1][-1].offset + runs[-1][-1].width == place.offset:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


Fit = list[tuple[Place, int]]
"""For each piece the place that it begins with, and its number."""


class _Cover:
    """Pieces of machine code to lay over places, and how often each was used."""

    def __init__(self, found: Sequence[Piece]) -> None:
        self.found = found
        self.used = [0] * len(found)
        self.bases: dict[tuple[str, str], dict[int, list[int]]] = {}  # numbers by offset, by base
        for number, piece in enumerate(found):
            base = self.bases.setdefault((piece.op, piece.base), {})
            base.setdefault(piece.offset, []).append(number)

    def lay(self, group: Sequence[Place]) -> Fit:
        """The best way to fill the places of a group by pieces of one base; empty if there is none.

        Pieces of the places' own lines come first, then those that nothing was filled with yet.
        """
        best, best_score = [], (-1, -1)
        for (op, _), at in self.bases.items():
            if op != group[0].op:
                continue
            for distance in {offset - group[0].offset for offset in at}:
                fit, score = self._at(group, at, distance)
                if fit and score > best_score:
                    best, best_score = fit, score
        for _, number in best:
            self.used[number] += 1
        return best

    def lay_unrolled(self, group: Sequence[Place]) -> Fit:
        """The same for a loop that ptxas unrolled: the places of several rounds, one after the other."""
        step = group[0].step
        here = {place.line for place in group}
        op, asked = group[0].op, sum(place.width for place in group)
        have = sum(p.width for p in self.found if p.op == op and p.line in here)
        if not step or have % asked or have == asked:
            return []
        rounds = [
            replace(place, offset=place.offset + turn * step)
            for turn in range(have // asked)
            for place in group
        ]
        if len({place.offset for place in rounds}) < len(rounds):
            return []
        fit = self.lay(sorted(rounds, key=lambda place: place.offset))
        # What is counted as the loop runs must be what was found: a place begins an access of one
        # width, in those rounds in which its address is a multiple of that.
        found = {(place.instruction, place.offset): self.found[number] for place, number in fit}
        wide = {instruction: piece.width for (instruction, _), piece in found.items()}
        for (instruction, offset), piece in found.items():
            if wide[instruction] != piece.width:
                return []
            for place in rounds:
                if place.instruction == instruction:
                    begins = (place.offset - offset) % piece.width == 0
                    if begins != ((instruction, place.offset) in found):
                        return []
        return fit

    def _at(
        self, group: Sequence[Place], at: Mapping[int, Sequence[int]], distance: int
    ) -> tuple[Fit, tuple[int, int]]:
        """Lay pieces at one distance from the group: the fit (empty: none), and how good it is."""
        fit: Fit = []
        lines = fresh = first = 0
        while first < len(group):
            best: tuple[bool, bool, int, int] | None = None
            for number in at.get(group[first].offset + distance, ()):
                taken = _taken(group, first, self.found[number].width)
                if taken:
                    line = self.found[number].line
                    own = any(place.line == line for place in group[first : first + taken])
                    score = (own, not self.used[number], taken, -number)
                    best = max(best or score, score)
            if best is None:
                return [], (0, 0)
            own, new, taken, number = best
            fit.append((group[first], -number))
            lines, fresh = lines + own * taken, fresh + new * taken
            first += taken
        return fit, (lines, fresh)


def _taken(group: Sequence[Place], first: int, width: int) -> int:
    """How many places from the first on fill `width` bytes; 0 if none do exactly."""
    end = group[first].offset
    for number in range(first, len(group)):
        if group[number].offset != end:
            return 0
        end += group[number].width
        if end - group[first].offset >= width:
            return number - first + 1 if end - group[first].offset == width else 0
    return 0


@dataclass(frozen=True)
class MachineCode:
    """The shared accesses of one compilation's machine code, for `arch` ("": nobody asked).

    widths: see `by_site`. missing: why there are none.
    """

    arch: str = ""
    widths: Mapping[int, int] = field(default_factory=dict)
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
                f"shared accesses of line {which} were not found in the machine code of {self.arch}"
            ]
        said = []
        for op in ("load", "store"):
            rows = [a for a in shared if a.op == op]
            requests, waves = (sum(getattr(a, w) or 0 for a in rows) for w in _SASS)
            if rows:
                said.append(
                    f"shared {op}s: {sum(a.requests for a in rows)} requests and "
                    f"{sum(a.wavefronts for a in rows)} wavefronts in PTX, {requests} and {waves} in "
                    f"the machine code of {self.arch}"
                )
        return said


_SASS = ("sass_requests", "sass_wavefronts")


def machine_code(program: Program, compiled: toolchain.Compiled, file: str) -> MachineCode:
    """Read the machine code of a program; where there is no disassembler, say so."""
    try:
        return MachineCode(compiled.arch, by_site(program, compiled, file))
    except ToolchainError as error:
        return MachineCode(compiled.arch, missing=str(error))


def by_site(program: Program, compiled: toolchain.Compiled, file: str) -> Mapping[int, int]:
    """`widths` of a program by the number of its memory instruction (`Site`), of all shared accesses.

    Where one PTX instruction is one of the machine code (ldmatrix, atomics, cp.async, generic
    addresses) the width is its own. A plain access that was not found, a wmma load or store, and what
    device functions do that are not inlined are left out: it is not known how many accesses they are.
    Raises ToolchainError where there is no disassembler.
    """
    entry = program.entry
    spans = [start for start, _ in split_blocks(entry)]
    reached = places(entry, spans)
    code, _ = toolchain.sass_instructions(compiled.cubin, entry.name, file)
    found = widths(reached, pieces(code))
    left = [(entry.code[p.instruction].text, found.get(p.instruction)) for p in reached]
    out: dict[int, int] = {}
    for site in program.sites:
        root = site.text.split(".")[0].split()[-1]
        if root in ("ld", "st") and site.space == "shared":
            text, width = left.pop(0) if left else ("", None)
            if width is not None and text == site.text:
                out[site.index] = width
        elif root != "wmma":
            out[site.index] = site.width
    return MappingProxyType(out)
