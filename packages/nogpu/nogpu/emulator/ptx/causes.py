"""Changes of single instructions that say how a tile lies in shared memory.

Nobody is at fault who asks for a tile in another layout than it has: the sums are wrong, and that
shows only where they are stored. These are the changes to try in its place: `.trans` of ldmatrix
and stmatrix; transposition, swizzle and stride byte offset of what wgmma reads. One with which all
results come out as expected is the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from nogpu.emulator.ptx import syntax as P

_SWIZZLES = {1: "of 128 bytes", 2: "of 64 bytes", 3: "of 32 bytes", 0: "of 0 bytes"}
"""By the two top bits of a descriptor."""
_STRIDES = (1024, 512, 256, 128)
"""Of eight rows of 128, 64, 32 and 16 bytes."""


@dataclass(frozen=True)
class Change:
    """line: of the instructions. says: what is so with the change. module: the program with it."""

    line: int
    says: str
    module: P.Module


Becomes = Callable[[P.Instruction], Sequence[P.Instruction]]


def changes(module: P.Module) -> Iterator[Change]:
    """Changes to try, the likelier ones first: those of all instructions of one line together."""
    ways = {i.line: i for f in module.functions.values() for i in f.code if _concerned(i)}
    for line, ins in sorted(ways.items()):
        if ins.root != "wgmma":
            says = f"{ins.root} had {'no ' * ('trans' in ins.parts)}.trans"
            yield Change(line, says, _with(module, line, _turned))
    for line, ins in sorted(ways.items()):
        for says, becomes in _other_descriptors() if ins.root == "wgmma" else ():
            yield Change(line, says, _with(module, line, becomes))


def _concerned(ins: P.Instruction) -> bool:
    return ins.root in ("ldmatrix", "stmatrix") or (
        ins.root == "wgmma" and "mma_async" in ins.parts
    )


def _with(module: P.Module, line: int, becomes: Becomes) -> P.Module:
    """A module with a change at the concerned instructions of a line."""
    registers = {f"{name}#{i}": "b64" for name in ("a", "b") for i in range(2)}

    def here(ins: P.Instruction) -> Sequence[P.Instruction]:
        return becomes(ins) if ins.line == line and _concerned(ins) else (ins,)

    functions = {n: P.rewritten(f, here, registers) for n, f in module.functions.items()}
    return replace(module, functions=functions)


def _turned(ins: P.Instruction) -> Sequence[P.Instruction]:
    """ldmatrix or stmatrix with .trans where it has none, and without where it has."""
    parts = tuple(p for p in ins.parts if p != "trans")
    if parts == ins.parts:
        parts = (*parts[:-2], "trans", *parts[-2:])
    return (_of(ins, parts, ins.operands),)


def _of(
    ins: P.Instruction, parts: tuple[str, ...], operands: Sequence[P.Operand | None]
) -> P.Instruction:
    return replace(ins, opcode=".".join(parts), parts=parts, operands=tuple(operands))


def _other_descriptors() -> Iterator[tuple[str, Becomes]]:
    """Other descriptors of B, of A and of both, in words and as what a product becomes."""
    swizzles = [(f"a swizzle {words}", ((62, 3, bits),)) for bits, words in _SWIZZLES.items()]
    strides = [(f"a stride byte offset of {n}", ((32, 0x3FFF, n >> 4),)) for n in _STRIDES]
    alike = list(zip(swizzles, strides, strict=True))
    both = [(f"{x} and {y}", (*a, *b)) for (x, a), (y, b) in alike]
    for says, fields in [*(one for pair in alike for one in pair), *both]:
        for name, places in (("B", (2,)), ("A", (1,)), ("A and of B", (1, 2))):
            of = f"the descriptor{'s' * (len(places) > 1)} of {name}"
            yield f"{of} said {says}", _described(places, fields)
    for name, place in (("B", 2), ("A", 1)):
        yield f"{name} had the other of 0 and 1 for imm-trans-{name.lower()}", _transposed(place)


def _described(places: Sequence[int], fields: Sequence[tuple[int, int, int]]) -> Becomes:
    """Other fields of the descriptors among the operands: (lowest bit, mask, value) each."""

    def becomes(ins: P.Instruction) -> Sequence[P.Instruction]:
        before: list[P.Instruction] = []
        operands = list(ins.operands)
        for place in places:
            value, name = operands[place], "ab"[place - 1]
            if not isinstance(value, P.Register):
                continue  # A in registers
            for low, mask, field in fields:
                kept, to = P.Register(f"{name}#0"), P.Register(f"{name}#1")
                without = P.Immediate(~(mask << low) & (1 << 64) - 1)
                before += [
                    _of(ins, ("and", "b64"), [kept, value, without]),
                    _of(ins, ("or", "b64"), [to, kept, P.Immediate(field << low)]),
                ]
                value = to
            operands[place] = value
        return (*before, _of(ins, ins.parts, operands))

    return becomes


def _transposed(place: int) -> Becomes:
    """A product that takes the other of K-major and MN-major; itself where its types have one."""

    def becomes(ins: P.Instruction) -> Sequence[P.Instruction]:
        operands = list(ins.operands)
        turns = {0: 0, 3: 1, 4: 2}.get(len(operands) - 4, 0)
        if turns < 3 - place:
            return (ins,)
        at = len(operands) - (1 if place == 2 else 2)
        old = operands[at]
        assert isinstance(old, P.Immediate)
        operands[at] = P.Immediate(1 - old.value)
        return (_of(ins, ins.parts, operands),)

    return becomes
