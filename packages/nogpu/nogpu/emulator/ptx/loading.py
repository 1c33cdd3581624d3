"""Registers that tcgen05.ld is still loading: who uses one before tcgen05.wait::ld.

Where that may be, on some way through a function, is found in the text. Only there a predicate "of
this lane it is still being loaded" stands beside each such register, and a check before each use
(as in `unset`), so that what counts is the way that was taken. Compilers put moves between: a mov
hands the predicate on and is no use, nor is a store to a thread's own memory, or a call's argument.
What goes through these is not followed, and a called function may wait.
"""

from __future__ import annotations

from collections.abc import Mapping

from nogpu.emulator.ptx import flow, unset
from nogpu.emulator.ptx import syntax as P

Lines = dict[str, int]
"""The line of the load, by register."""


def shadowed(function: P.Function) -> P.Function:
    """The function with predicates beside what is loaded, and checks; itself if nothing is used
    too early.
    """
    if not any(_is(ins, "ld") for ins in function.code):
        return function
    early: dict[int, Lines] = {}  # by identity: what an instruction may use too early
    loaded: Lines = {}
    for start, now in flow.on_entry(function, Lines(), _after, lambda a, b: b | a).items():
        for ins in function.code[start : function.spans[start]]:
            if used := {name: now[name] for name in _uses(ins) if name in now}:
                early[id(ins)] = used
            now = _after(ins, now)
            loaded |= now
    if not early:
        return function

    def checked(ins: P.Instruction) -> list[P.Instruction]:
        used, stored = _split(ins, early.get(id(ins), {}))
        behind = [*_check(unset.LOADING_ELSEWHERE, ins, stored), *_shades(ins, loaded)]
        return [*_check(unset.LOADING, ins, used), ins, *behind]

    return P.rewritten(function, checked, {_beside(name).name: "pred" for name in loaded})


def _beside(name: str) -> P.Register:
    return P.Register(f"{name}#loading")


def _is(ins: P.Instruction, what: str) -> bool:
    return ins.parts[:2] == ("tcgen05", what)


def _ends(ins: P.Instruction) -> bool:
    """Whether what was being loaded has come."""
    return _is(ins, "wait::ld") or ins.op.touches == "call"


def _sources(ins: P.Instruction) -> list[str]:
    """Registers whose values an instruction takes."""
    names = [name for names in ins.operand_registers[ins.has_target :] for name in names]
    return [*names, *(ins.writes if ins.op.keeps else ())]


def _uses(ins: P.Instruction) -> list[str]:
    """Registers whose values must have come."""
    if ins.root == "mov" or unset.is_note(ins):
        return []
    if ins.root == "st" and {"local", "param"} & set(ins.parts):
        return list(ins.operand_registers[0])
    return _sources(ins)


def _after(ins: P.Instruction, before: Lines) -> Lines:
    """What may still be being loaded after an instruction."""
    if _ends(ins):
        return before if ins.guard else {}
    if not ins.writes or unset.is_note(ins):
        return before
    if _is(ins, "ld"):
        return {**before, **dict.fromkeys(ins.writes, ins.line)}
    moved = _sources(ins) if ins.root == "mov" else ()
    line = next((before[name] for name in moved if name in before), None)
    if line is not None:
        return {**before, **dict.fromkeys(ins.writes, line)}
    if ins.guard or before.keys().isdisjoint(ins.writes):
        return before
    return {name: line for name, line in before.items() if name not in ins.writes}


def _check(what: str, ins: P.Instruction, early: Lines) -> list[P.Instruction]:
    """A check of registers that an instruction may use too early."""
    if not early:
        return []
    first = P.Immediate(min(early.values()))
    return [unset.note(what, [first, *map(_beside, early)], ins)]


def _split(ins: P.Instruction, early: Lines) -> tuple[Lines, Lines]:
    """What is used, and what is stored by an address that may be of local memory."""
    anywhere = ins.root == "st" and unset.OTHER_SPACES.isdisjoint(ins.parts)
    place = ins.operand_registers[0] if anywhere else early
    return (
        {name: line for name, line in early.items() if name in place},
        {name: line for name, line in early.items() if name not in place},
    )


def _shades(ins: P.Instruction, loaded: Mapping[str, int]) -> list[P.Instruction]:
    """What becomes of the predicates behind an instruction."""
    if _ends(ins):
        return [unset.note("or", [_beside(name), unset.SET], ins) for name in loaded]
    if unset.is_note(ins):
        return []
    moved = _sources(ins) if ins.root == "mov" else ()
    made: list[P.Operand | None] = [_beside(name) for name in moved if name in loaded]
    if _is(ins, "ld"):
        made = [unset.UNSET]
    return [
        unset.note("or", [_beside(name), *(made or [unset.SET])], ins)
        for name in ins.writes
        if name in loaded
    ]
