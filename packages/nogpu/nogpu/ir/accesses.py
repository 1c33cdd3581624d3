"""Neighbouring loads and stores as one; products that become part of a sum.

As LLVM's NVPTX back end does: a block's accesses to one row of bytes are one where the first is
aligned to all of it and nothing between them may touch the same memory; and a product whose sum
stands in the same block is rounded once with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from nogpu.ir.spaces import GENERIC, Spaces
from nogpu.ir.text import (
    NAME,
    Block,
    Function,
    Instruction,
    Module,
    aligned,
    bits,
    call,
    cast,
    split,
    take_type,
)
from nogpu.ir.values import Values

MOST_BYTES = 16
Linear = tuple[tuple[tuple[str, int], ...], int]
_PURE = re.compile(r"@llvm\.(?!nvvm\.(?!read\.)|mem|experimental\.(?!noalias)|trap)")


@dataclass(frozen=True)
class Access:
    """Loads or stores as one. members: (type, name or value), from the lowest address on.

    pointer, offset: where the first one lies. align: in bytes, known of it. words: "volatile "?
    """

    op: ClassVar[str] = "access"
    name: ClassVar[str] = ""

    is_store: bool
    members: Sequence[tuple[str, str]]
    pointer: str
    offset: int
    align: int
    words: str
    place: str

    @property
    def rest(self) -> str:
        """The text of what it reads."""
        return " ".join([self.pointer, *(value for _, value in self.members if self.is_store)])


class _Candidate(NamedTuple):
    at: int
    access: Access
    root: tuple[tuple[str, int], ...]
    start: int
    size: int
    element: int


class Joiner:
    """Joins the accesses of a function, block by block."""

    def __init__(self, module: Module, function: Function, spaces: Spaces, values: Values) -> None:
        self._module, self._spaces, self._values = module, spaces, values
        self._linear: dict[tuple[str, bool], Linear] = {}
        self._objects: dict[str, str] = {}
        self._given = {p.name for p in function.parameters}
        # What no other parameter, variable or load points into.
        self._alone = {p.name for p in function.parameters if " noalias " in p.words}
        self._alone |= {ins.name for ins in values.made.values() if ins.op == "alloca"}

    def joined(self, block: Block) -> list[Instruction | Access]:
        """A block's instructions, every load and store an Access."""
        out: list[Instruction | Access | None] = list(block.code)
        open_: list[_Candidate] = []
        for at, ins in enumerate(block.code):
            if ins.op in ("load", "store") and "atomic" not in ins.flags:
                candidate = self._candidate(at, ins)
                out[at] = candidate.access
                if not candidate.access.words:
                    open_.append(candidate)
                    continue
            elif ins.op == "call":
                if _PURE.match(call(ins.rest).function):
                    continue
            elif ins.op not in ("fence", "atomicrmw", "cmpxchg", "load", "store"):
                continue
            self._close(open_, out)
            open_ = []
        self._close(open_, out)
        return [item for item in out if item is not None]

    def _candidate(self, at: int, ins: Instruction) -> _Candidate:
        is_store = ins.op == "store"
        items = split(ins.rest)
        kind, value = take_type(items[0])
        pointer = take_type(items[1])[1]
        align = aligned(ins.rest, self._module.align(kind))
        root, start = self._row(pointer)
        scalars = self._module.scalars(kind)
        widths = {max(bits(k), 8) for _, k in scalars}
        element = widths.pop() // 8 if len(widths) == 1 and kind[0] not in "{[%" else 0
        members = [(kind, value if is_store else ins.name)]
        words = "volatile " if "volatile" in ins.flags else ""
        access = Access(is_store, members, pointer, 0, align, words, ins.place)
        return _Candidate(at, access, root, start, self._module.size(kind), element)

    # -- addresses as sums --

    def _row(self, pointer: str) -> Linear:
        """A pointer as a sum of values times constants, and a constant."""
        if not pointer.startswith("%"):
            part = self._values.parts("ptr", pointer)[0]
            return ((part.text, 1),), part.offset
        return self._sum(pointer)

    def _sum(self, text: str, unsigned: bool = False, depth: int = 0) -> Linear:
        """unsigned: what is widened without its sign, and is not negative."""
        if re.fullmatch(r"-?\d+", text):
            return (), int(text)
        if text[0] != "%":
            return self._row(text)
        key = (text, unsigned)
        if key not in self._linear:
            found = self._summed(text, unsigned, depth + 1) if depth < 40 else None
            self._linear[key] = found or (((text, 1),), 0)
        return self._linear[key]

    def _summed(self, text: str, unsigned: bool, depth: int) -> Linear | None:
        ins = self._values.made.get(text)
        if ins is None:
            return None
        if address := self._values.addresses.get(text):
            terms = [(self._sum(address.base[1], False, depth), 1)]
            terms += [(self._sum(i, False, depth), scale) for _, i, scale in address.terms]
            return _added(terms, address.offset)
        if ins.op in ("sext", "zext"):
            kind, inner, _ = cast(ins.rest)
            if kind != "i32" or (ins.op == "zext" and "nneg" not in ins.flags):
                return None
            return self._sum(inner, ins.op == "zext", depth)
        if ins.op not in ("add", "or", "sub", "shl", "mul"):
            return None
        kind, rest = take_type(ins.rest)
        exact = ("nsw", "disjoint", *(["nuw"] if unsigned else []))
        if ins.op == "or" and "disjoint" not in ins.flags:
            return None
        if kind != "i64" and not any(word in ins.flags for word in exact):
            return None
        a, b = (self._sum(part, unsigned, depth) for part in split(rest))
        if ins.op in ("add", "or", "sub"):
            return _added([(a, 1), (b, -1 if ins.op == "sub" else 1)])
        return None if b[0] else _added([(a, 1 << b[1] if ins.op == "shl" else b[1])])

    # -- one or several --

    def _close(self, found: Sequence[_Candidate], out: list[Instruction | Access | None]) -> None:
        """Join what stands between two instructions that no access is moved over."""
        rows: dict[tuple[object, ...], list[_Candidate]] = {}
        for c in found:
            if c.element:
                rows.setdefault((c.access.is_store, c.element, c.root), []).append(c)
        for row in rows.values():
            for chain in self._chains(row, found):
                for group in _groups(chain):
                    first = min(group, key=lambda c: c.at)
                    place = max(group, key=lambda c: c.at) if first.access.is_store else first
                    for c in group:
                        out[c.at] = None
                    members = [m for c in group for m in c.access.members]
                    out[place.at] = replace(
                        group[0].access,
                        members=members,
                        pointer=place.access.pointer,
                        offset=group[0].start - place.start,
                        place=place.access.place,
                    )

    def _chains(
        self, row: Sequence[_Candidate], between: Sequence[_Candidate]
    ) -> Iterator[list[_Candidate]]:
        """Those of a row that can stand at one place: loads at the first, stores at the last."""
        is_store = row[0].access.is_store
        others = [c for c in between if is_store or c.access.is_store]
        todo = list(row)[::-1] if is_store else list(row)
        while todo:
            chain, rest = [todo[0]], list[_Candidate]()
            for c in todo[1:]:
                low, high = sorted((todo[0].at, c.at))
                moved_over = (o for o in others if low < o.at < high)
                stopped = bool(rest) or any(self._meet(o, c) for o in moved_over)
                (rest if stopped else chain).append(c)
            yield chain
            todo = rest

    def _meet(self, a: _Candidate, b: _Candidate) -> bool:
        """Whether two accesses may touch the same bytes."""
        if a.root == b.root:
            return a.start < b.start + b.size and b.start < a.start + a.size
        where = {self._spaces.of(c.access.pointer) for c in (a, b)}
        if len(where) == 2 and GENERIC not in where:
            return False
        x, y = (self._object(c.access.pointer) for c in (a, b))
        own = [o for o in (x, y) if o[0] == "@" or o in self._alone]
        if x == y or not own:
            return True
        if len(own) == 2:
            return False
        other = y if own[0] == x else x
        return own[0][0] == "@" or other not in self._given

    def _object(self, pointer: str) -> str:
        """What a pointer is derived from: a variable, a parameter, or what made the pointer."""
        if pointer not in self._objects:
            text = pointer
            while ins := self._values.made.get(text):
                if ins.op == "getelementptr":
                    text = take_type(split(ins.rest)[1])[1]
                elif ins.op == "addrspacecast":
                    text = cast(ins.rest)[1]
                else:
                    break
            symbol = re.search(rf"@{NAME}", text) if text[0] != "%" else None
            self._objects[pointer] = symbol[0] if symbol else text
        return self._objects[pointer]


def _added(terms: Sequence[tuple[Linear, int]], constant: int = 0) -> Linear:
    total: dict[str, int] = {}
    for (names, own), factor in terms:
        constant += own * factor
        for name, count in names:
            total[name] = total.get(name, 0) + count * factor
    return tuple(sorted((n, c) for n, c in total.items() if c)), constant


def _groups(chain: Sequence[_Candidate]) -> Iterator[list[_Candidate]]:
    """Runs of a chain that fill 2, 4, 8 or 16 bytes and begin where that is aligned."""
    row = sorted(chain, key=lambda c: c.start)
    while row:
        first, end = row[0], 1
        size, best = first.size, 1
        while end < len(row) and row[end].start == first.start + size:
            size += row[end].size
            end += 1
            if size > MOST_BYTES:
                break
            whole = size & (size - 1) == 0
            if whole and first.access.align % size == 0:
                best = end
        if best > 1:
            yield row[:best]
        row = row[best:]


# -- products in sums ------------------------------------------------------------------------------


def fused(block: Block, values: Values) -> dict[str, Instruction]:
    """The sums of a block that a product becomes part of, by name, as `op type a, b, c`.

    op: "mad" or "fma" for a * b + c, "fms" for a * b - c, "fnma" for c - a * b.

    Of two products of floats it is the one of fewer uses, else the left one; one of integers has no
    other use. Source: LLVM's DAGCombiner, visitFADDForFMACombine, with aggressive fusion, as NVPTX
    asks for.
    """
    kinds = {i.name: i.op[0] for i in block.code if i.op in ("fmul", "mul")}
    if not kinds:
        return {}
    sums, uses = [], dict.fromkeys(kinds, 0)
    for ins in block.code:
        if ins.op in ("fadd", "fsub", "add"):
            sides = split(take_type(ins.rest)[1])
            sums.append((ins, sides))
            for side in sides:
                if side in uses:
                    uses[side] += 1
    chosen = {}
    for ins, sides in sums:
        if ins.op[0] == "f":
            at = [i for i, side in enumerate(sides) if kinds.get(side) == "f"]
        else:
            at = [i for i, side in enumerate(sides) if kinds.get(side) and values.once(side)]
        if len(at) == 2 and uses[sides[0]] > uses[sides[1]]:
            at = [1]
        if at:
            kind, factors = take_type(values.made[sides[at[0]]].rest)
            op = {"add": "mad", "fadd": "fma", "fsub": ("fms", "fnma")[at[0]]}[ins.op]
            chosen[ins.name] = ins._replace(op=op, rest=f"{kind} {factors}, {sides[1 - at[0]]}")
    return chosen
