"""Shared accesses of a kernel by base and constant: which of them lie side by side for every
thread.

Two addresses are neighbours if they differ by a constant, whatever the registers hold. So each
integer register is written as a constant plus terms: values that are not taken apart, times
factors. What is not a sum (a load, a special register, a division ...) is a term of its own; the
same operation on the same values is the same term. A register that is set in several places is one
term from the start of each basic block on, so nothing is said about two blocks.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from nogpu.emulator.ptx import syntax as P

Terms = tuple[tuple[int, int], ...]  # (number of a value, its factor), by number


@dataclass(frozen=True)
class Place:
    """A load or store of shared memory at `base` + `offset`.

    instruction: its number in the function. base: alike where two places differ by their offsets
    alone and are reached by the same threads. width: bytes a lane. step: how far the base moves
    each time that its basic block is run, where it is a loop of its own; 0: not at all, or not
    known.
    """

    instruction: int
    op: str
    base: tuple[str, int, Hashable, Terms]
    offset: int
    width: int
    line: int
    step: int = 0


@dataclass(frozen=True)
class Sum:
    """A value: constant + terms."""

    constant: int
    terms: Terms = ()

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """self + factor * other."""
        total = dict(self.terms)
        for number, times in other.terms:
            total[number] = total.get(number, 0) + factor * times
        terms = tuple(sorted((n, t) for n, t in total.items() if t))
        return Sum(self.constant + factor * other.constant, terms)

    @property
    def zeros(self) -> int:
        """The largest power of two that is known to divide it, at most 2**32."""
        bits = self.constant | 1 << 32
        for _, factor in self.terms:
            bits |= factor
        return bits & -bits


def places(function: P.Function) -> list[Place]:
    """Every ld.shared and st.shared of a function, in its order."""
    reader = _Reader(function)
    out: list[Place] = []
    for start, end in function.spans.items():
        reader.enter(start)
        here = []
        for at in range(start, end):
            ins = function.code[at]
            if ins.root in ("ld", "st") and "shared" in (p.split("::")[0] for p in ins.parts):
                here.append(reader.place(at, ins))
            reader.follow(at, ins)
        out += [replace(place, step=reader.step(place)) for place in here]
    return out


class _Reader:
    """Reads a function's instructions in order, and knows what their registers hold."""

    def __init__(self, function: P.Function) -> None:
        self.block = 0
        self.values: dict[str, Sum] = {}  # by what was set in this block, or is set only once
        self.numbers: dict[Hashable, int] = {}  # of the terms
        self.entered: dict[int, str] = {}  # terms that are what a register holds as a block begins
        self.times: dict[str, int] = {}  # how often a register is set
        for ins in function.code:
            for name in ins.writes:
                self.times[name] = self.times.get(name, 0) + 1

    def enter(self, start: int) -> None:
        """A basic block begins."""
        self.block = start
        self.values = {n: v for n, v in self.values.items() if self.times[n] == 1}

    def place(self, at: int, ins: P.Instruction) -> Place:
        """The place that a load or store touches."""
        address = ins.operands[1 if ins.root == "ld" else 0]
        data = ins.operands[0 if ins.root == "ld" else 1]
        count = len(data.items) if isinstance(data, P.Vector) else 1
        width = P.BITS[next(p for p in reversed(ins.parts) if p in P.BITS)] // 8 * count
        where = self.operand(address)
        guard = (self._register(ins.guard), ins.guard_negated) if ins.guard else None
        op = "load" if ins.root == "ld" else "store"
        base = (op, self.block, guard, where.terms)
        return Place(at, op, base, where.constant, width, ins.line)

    def operand(self, operand: P.Operand | None) -> Sum:
        """What an operand holds, or the address that it means."""
        if isinstance(operand, P.Immediate):
            return Sum(operand.value) if operand.kind == "int" else self._term(operand)
        if isinstance(operand, P.Address):
            return self.operand(operand.base).plus(Sum(operand.offset))
        if isinstance(operand, P.Symbol):
            return self._term(("symbol", operand.name)).plus(Sum(operand.offset))
        if isinstance(operand, P.Register):
            return self._register(operand.name)
        return self._term(operand)

    def _register(self, name: str) -> Sum:
        value = self.values.get(name)
        if value is None:  # set in another block, perhaps further down
            value = self.values[name] = self._term((name, self.block))
            ((number, _),) = value.terms
            self.entered[number] = name
            self.times.setdefault(name, 1)
        return value

    def _term(self, what: Hashable) -> Sum:
        return Sum(0, ((self.numbers.setdefault(what, len(self.numbers)), 1),))

    def step(self, place: Place) -> int:
        """How far a place moves from one run of the block, which has just ended, to the next."""
        _, _, _, terms = place.base
        return sum(factor * self._moved(number) for number, factor in terms)

    def _moved(self, number: int) -> int:
        name = self.entered.get(number)
        if name is None or name not in self.values:
            return 0
        total = self.values[name]
        return total.constant if total.terms == ((number, 1),) else 0

    def follow(self, at: int, ins: P.Instruction) -> None:
        """Take over what an instruction puts into registers."""
        targets = ins.writes
        if len(targets) != 1 or ins.guard or not isinstance(ins.operands[0], P.Register):
            for name in targets:
                self.values[name] = self._term((name, at))
            return
        values = [self.operand(o) for o in ins.operands[1:]]
        total = _sum(ins, values)
        if total is None:
            pure = ins.root not in ("ld", "ldu", "atom", "shfl", "vote", "activemask", "match")
            pure = pure and "volatile" not in ins.parts and "%clock" not in ins.text
            pure = pure and "%globaltimer" not in ins.text
            total = self._term((ins.opcode, tuple(values)) if pure else (targets[0], at))
        self.values[targets[0]] = total


def _sum(ins: P.Instruction, values: Sequence[Sum]) -> Sum | None:
    """The value of an instruction as a sum; None if it is none.

    Addresses of shared memory are small: sums are taken not to wrap around, and a 32-bit address
    that is cut from a 64-bit one is the same address.
    """
    root, parts = ins.root, ins.parts
    if any(p.startswith("f") or p in ("cc", "sat") for p in parts):
        return None
    to_shared = root == "cvta" and {"to", "shared"} <= set(parts)
    if root == "mov" or to_shared or re.fullmatch(r"cvt\.[us]32\.[us]64", ins.opcode):
        (value,) = values
        return value
    if root in ("add", "sub"):
        return values[0].plus(values[1], 1 if root == "add" else -1)
    if root == "or" and not values[1].terms and 0 <= values[1].constant < values[0].zeros:
        return values[0].plus(values[1])  # into bits that are 0
    if root == "shl" and not values[1].terms and 0 <= values[1].constant < 32:
        return Sum(0).plus(values[0], 1 << values[1].constant)
    wide = "wide" in parts
    if root in ("mul", "mad") and ("lo" in parts or wide):
        constant = next((i for i in (1, 0) if not values[i].terms), None)
        if constant is None:
            return None
        start = values[2] if root == "mad" else Sum(0)
        return start.plus(values[1 - constant], values[constant].constant)
    return None
