"""Which instructions may touch the registers of a wgmma that is under way: found in the text.

Few do in a kernel: those that set sums to zero, copies that the compiler puts around assembly, and
what uses the sums before everything has been waited for. Only these tell the machine, which knows
what is under way (see `machine.products`); all others run as if there were no such registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import or_

from nogpu.emulator.ptx import flow
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.words import items

NUMBER = "#"
"""Stands for a literal that a mov puts into a register."""
_IN_NO_GROUP, _IN_A_GROUP = 1, 2  # where products that may be under way are


@dataclass(frozen=True)
class Touch:
    """What an instruction does to such registers. reads: their names.

    writes: names, each with the register that is copied into it, NUMBER, or "" for any other value.
    """

    reads: tuple[str, ...]
    writes: tuple[tuple[str, str], ...]


def touches(function: P.Function) -> dict[int, Touch]:
    """What instructions do to registers of wgmma, by place."""
    code = function.code
    watched = _watched(code)
    if not watched:
        return {}
    touched: dict[int, Touch] = {}
    for start, state in flow.on_entry(function, 0, _after, or_).items():
        for i in range(start, function.spans[start]):
            ins = code[i]
            if not _multiplies(ins) and not ins.op.ends:
                sets = ins.root == "mov" and isinstance(ins.operands[-1], P.Immediate)
                source = NUMBER if sets else _copied(ins)
                overwritten = set() if not ins.guard else set(ins.writes)
                names = [n for n in ins.reads if n in watched and n not in overwritten]
                reads = tuple(names) if state and source is None else ()
                writes = tuple((n, source or "") for n in ins.writes if n in watched)
                if reads or writes:
                    touched[i] = Touch(reads, writes)
            state = _after(ins, state)
    return touched


def _multiplies(ins: P.Instruction) -> bool:
    return ins.root == "wgmma" and "mma_async" in ins.parts


def _copied(ins: P.Instruction) -> str | None:
    """The register that a mov copies whole into another; None for other instructions."""
    if ins.root != "mov" or len(ins.operands) != 2:
        return None
    to, source = ins.operands
    return source.name if isinstance(to, P.Register) and isinstance(source, P.Register) else None


def _watched(code: Sequence[P.Instruction]) -> set[str]:
    """The registers of products, those that are copied into them, and their copies."""
    registers: set[str] = set()
    for ins in code:
        if _multiplies(ins):
            for operand in ins.operands[:2]:
                if isinstance(operand, P.Vector):
                    registers |= {o.name for o in items(operand) if isinstance(o, P.Register)}
    if not registers:
        return registers
    copies = [(ins.writes[0], s) for ins in code if (s := _copied(ins)) and ins.writes]
    for into, out_of in ((0, 1), (1, 0)):
        while fresh := {c[out_of] for c in copies if c[into] in registers} - registers:
            registers |= fresh
    return registers


def _after(ins: P.Instruction, state: int) -> int:
    """Where products may be under way after an instruction."""
    if ins.root != "wgmma":
        return state
    if "mma_async" in ins.parts:
        return state | _IN_NO_GROUP
    if ins.guard:  # some threads may not execute it
        return state | (_IN_A_GROUP if state and "commit_group" in ins.parts else 0)
    if "commit_group" in ins.parts:
        return _IN_A_GROUP if state else 0
    count = ins.operands[0] if "wait_group" in ins.parts else None
    if isinstance(count, P.Immediate) and count.value == 0:
        return state & ~_IN_A_GROUP
    return state
