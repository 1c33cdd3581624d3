"""What a value is made of: registers, constants, addresses.

A value of LLVM is one or more parts (`Module.parts`). Each part is a unit, which an instruction
makes, or a constant; taking values apart and putting them together makes nothing. An address keeps
the bytes that are added to it apart, for loads and stores add them by themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nogpu.ir.spaces import OWN, Spaces
from nogpu.ir.text import (
    BITS,
    NAME,
    Function,
    Instruction,
    Module,
    Refused,
    bits,
    call,
    cast,
    float_bits,
    operands,
    repeated,
    split,
    take_type,
    within,
)

Unit = tuple[str, int]
CLASSES = {"i1": "p", "float": "f", "double": "fd", "pair": "r"}
"""Families of registers of the types that are not kept by their width."""
FLOATS = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
CONVERSIONS = {
    *("trunc", "zext", "sext", "fptrunc", "fpext", "fptosi", "fptoui", "sitofp", "uitofp")
}
"""Of numbers."""
CASTS = {*CONVERSIONS, "bitcast", "addrspacecast", "inttoptr", "ptrtoint"}


class Part(NamedTuple):
    """A unit, or where that is None the text of a constant; and bytes added to it."""

    unit: Unit | None
    text: str = ""
    offset: int = 0


def family(kind: str) -> str:
    """The registers that a part of a type is kept in: p, rs, r, rd, f or fd."""
    if kind in CLASSES:
        return CLASSES[kind]
    width = BITS.get(kind) or int(kind[1:])
    if width > 64:
        raise Refused(f"the type {kind}")
    return "rs" if width <= 16 else "r" if width <= 32 else "rd"


def memory_type(kind: str) -> str:
    """What loads, stores and parameters call a scalar."""
    if kind in ("float", "double"):
        return FLOATS[kind]
    width = max(bits(kind), 8)
    if width not in (8, 16, 32, 64):
        raise Refused(f"an access to {kind}")
    return f"b{width}" if kind in BITS and kind != "ptr" else f"u{width}"


class Address(NamedTuple):
    """getelementptr: base, bytes, and what is added to it: (type, text, scale)."""

    base: tuple[str, str]
    offset: int
    terms: tuple[tuple[str, str, int], ...]


class Values:
    """The values of a function. placed: symbols and offsets of what lies in memory, by name.

    made: the instructions that make values; addresses: what each getelementptr adds up.
    """

    def __init__(
        self, module: Module, function: Function, spaces: Spaces, placed: Mapping[str, Part]
    ) -> None:
        self._module, self._spaces = module, spaces
        self.made: dict[str, Instruction] = {}
        self.types: dict[str, str] = {p.name: p.type for p in function.parameters}
        self._parts = {name: [part] for name, part in placed.items()}
        self.addresses: dict[str, Address] = {}
        self._named = Counter[str]()
        for block in function.blocks:
            for name, kind, by_block in block.phis:
                self._named.update(by_block.values())
                self.types[name] = kind
            for ins in block.code:
                self._named.update(re.findall(rf"%{NAME}", ins.rest))
                if ins.name:
                    self.made[ins.name] = ins
        for ins in self.made.values():
            self.types[ins.name] = self._type(ins)
        for name in self.made:
            self.resolved(name)

    def _type(self, ins: Instruction) -> str:
        if ins.op in ("icmp", "fcmp"):
            kind = take_type(ins.rest.split(None, 1)[1])[0]
            return f"<{repeated(kind)[0]} x i1>" if kind[0] == "<" else "i1"
        if ins.op == "alloca":
            return "ptr"
        if ins.op in ("getelementptr", "select"):
            return take_type(split(ins.rest)[1])[0]
        if ins.op == "call":
            return call(ins.rest).returns
        if ins.op in CASTS:
            return cast(ins.rest)[2]
        kind = take_type(ins.rest)[0]
        if ins.op == "extractvalue":
            return self._member(kind, split(ins.rest)[1:])[2]
        if ins.op == "extractelement":
            return repeated(kind)[1]
        if ins.op == "shufflevector":
            mask = take_type(split(ins.rest)[2])[0]
            return f"<{repeated(mask)[0]} x {repeated(kind)[1]}>"
        if ins.op == "atomicrmw":
            return operands(ins.rest.split(None, 1)[1])[1][0]
        if ins.op == "cmpxchg":
            return f"{{ {operands(ins.rest)[1][0]}, i1 }}"
        return kind

    def _member(self, kind: str, indices: Sequence[str]) -> tuple[int, int, str]:
        """Where the parts of a member begin and end, and its type."""
        start = 0
        for index in indices:
            fields = self._module.fields(kind)
            start += sum(len(self._module.parts(f)) for f in fields[: int(index)])
            kind = fields[int(index)]
        return start, start + len(self._module.parts(kind)), kind

    # -- parts --

    def parts(self, kind: str, text: str) -> list[Part]:
        """The parts of an operand."""
        if text.startswith("%"):
            return self.resolved(text)
        kinds = self._module.parts(kind)
        if text in ("undef", "poison", "zeroinitializer", "null", "none"):
            return [Part(None, "0")] * len(kinds)
        if text.startswith("splat ("):
            text = "<" + ", ".join([text[7:-1]] * repeated(kind)[0]) + ">"
        if text[0] in "<{[":
            items = [take_type(item) for item in within(text)]
            if kinds[:1] == ["pair"]:
                low, high = ([_bits(*item) for item in items[at::2]] for at in (0, 1))
                return [Part(None, str(a | b << 16)) for a, b in zip(low, high, strict=True)]
            return [p for item in items for p in self.parts(*item)]
        if kinds == ["ptr"]:
            return [self._constant_address(text)]
        return [Part(None, text)]

    def _constant_address(self, text: str) -> Part:
        if text.startswith("addrspacecast"):
            return self.parts(*cast(text[text.index("(") + 1 : -1])[:2])[0]
        if text.startswith("getelementptr"):
            address = self.address(text[text.index("(") + 1 : -1])
            if address.terms:
                raise Refused(f"the address {text}")
            base = self.parts(*address.base)[0]
            return base._replace(offset=base.offset + address.offset)
        if text.startswith("inttoptr"):
            return Part(None, re.search(r"i64 (-?\d+)", text)[1])  # type: ignore[index]
        return Part(None, text)

    def resolved(self, name: str) -> list[Part]:
        """The parts of a named value."""
        if name not in self._parts:
            ins = self.made.get(name)
            parts = self._alias(ins) if ins else None
            if parts is None:
                kind = self.types.get(name)
                if kind is None:
                    raise Refused(f"the value {name}")
                parts = [Part((name, i)) for i in range(len(self._module.parts(kind)))]
            self._parts[name] = parts
        return self._parts[name]

    def _alias(self, ins: Instruction) -> list[Part] | None:
        """The parts of a value that no instruction has to make; None where one has."""
        if ins.op in ("extractvalue", "insertvalue", "extractelement", "insertelement"):
            return self._taken(ins)
        if ins.op == "shufflevector":
            (kind, a), (_, b), (mask, picks) = operands(ins.rest)
            if self._module.parts(kind)[0] == "pair" or repeated(mask)[0] == 0:
                return None
            both = [*self.parts(kind, a), *self.parts(kind, b)]
            return [both[i] for i in picked(mask, picks)]
        if ins.op == "getelementptr":
            address = self.addresses[ins.name] = self.address(ins.rest)
            base = self.parts(*address.base)[0]
            offset = base.offset + address.offset
            if address.terms:
                return [Part((ins.name, 0), "", offset)]
            return [base._replace(offset=offset)]
        if ins.op == "freeze":
            return self.parts(*take_type(ins.rest))
        if ins.op == "bitcast":
            kind, text, to = cast(ins.rest)
            before, after = ([family(k) for k in self._module.parts(t)] for t in (kind, to))
            return self.parts(kind, text) if before == after else None
        if ins.op == "addrspacecast":
            kind, text, _ = cast(ins.rest)
            have, want = self._spaces.of(text), self._spaces.of(ins.name)
            moves = have != want and (have in OWN or want in OWN)  # their numbers count apart
            return None if moves else self.parts(kind, text)
        return None

    def _taken(self, ins: Instruction) -> list[Part] | None:
        items = split(ins.rest)
        kind, text = take_type(items[0])
        if ins.op == "extractvalue":
            start, end, _ = self._member(kind, items[1:])
            return self.parts(kind, text)[start:end]
        if ins.op == "insertvalue":
            start, end, _ = self._member(kind, items[2:])
            parts = list(self.parts(kind, text))
            parts[start:end] = self.parts(*take_type(items[1]))
            return parts
        index = take_type(items[-1])[1]
        if self._module.parts(kind)[0] == "pair":
            return None
        if not index.isdecimal():
            raise Refused(f"{ins.op} at a place that is not known beforehand")
        parts = list(self.parts(kind, text))
        if ins.op == "extractelement":
            return [parts[int(index)]]
        parts[int(index)] = self.parts(*take_type(items[1]))[0]
        return parts

    def address(self, rest: str) -> Address:
        """What a getelementptr adds up."""
        items = split(rest)
        here = take_type(items[0])[0]
        constant, terms = 0, list[tuple[str, str, int]]()
        for i, item in enumerate(items[2:]):
            kind, index = take_type(item)
            if i and self._module.is_structure(here):
                constant += self._module.offsets(here)[int(index)]
                here = self._module.fields(here)[int(index)]
                continue
            if i:
                here = repeated(here)[1]
            scale = self._module.size(here)
            if re.fullmatch(r"-?\d+", index):
                constant += int(index) * scale
            elif index not in ("zeroinitializer", "undef", "poison"):
                terms.append((kind, index, scale))
        return Address(take_type(items[1]), constant, tuple(terms))

    def once(self, name: str) -> bool:
        """Whether a value is named only once, and is a scalar of at least 16 bits."""
        return self._named[name] == 1 and self.types[name] in ("i16", "i32", "i64")

    def units(self, text: str) -> list[Unit]:
        """The units that a text names."""
        names = (n for n in re.findall(rf"%{NAME}", text) if n in self.types)
        return [p.unit for n in names for p in self.resolved(n) if p.unit]


def _bits(kind: str, text: str) -> int:
    """The 16 bits of a constant."""
    if text in ("undef", "poison"):
        return 0
    return float_bits(kind, text) if kind in BITS else int(text) & 0xFFFF


def picked(mask: str, picks: str) -> list[int]:
    """The places that a shuffle takes its elements from."""
    if not picks.startswith("<"):
        return [0] * repeated(mask)[0]
    words = (take_type(item)[1] for item in split(picks[1:-1]))
    return [int(w) if w.isdecimal() else 0 for w in words]
