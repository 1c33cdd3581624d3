"""Loops that wait for other threads: found in the text, so that their threads let others run.

Such a loop can end because of what another thread does: the condition of a branch that leaves it
depends on a value that it reads from memory, or the condition of any branch in it on an atomic
operation or on a volatile, relaxed or acquiring load. Threads that go round one of these without
change are set aside by the machine until nothing else can run.

A function with such a loop, or that waits at an mbarrier, also gets a gate before every instruction
that the lanes of a warp execute together: lanes that go there while others of their warp still wait
must not run ahead. What a warpgroup executes together has a gate in every function: its four warps
may come one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nogpu.emulator.ptx import flow
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.words import STRONG

_PRIVATE = {"param", "local", "const", "nc"}
_WAYS_OUT = ("exit", "trap", "call")
_ALL = P.Immediate(0xFFFFFFFF)


@dataclass(frozen=True)
class Wait:
    """A loop that waits. head: the place of its first block; latches: of those that go back to it.

    strong: it reads what only synchronisation reads. reads: the instructions whose values decide;
    none if it has no end. line: of the first. registers: names of those that it writes.
    """

    head: int
    latches: frozenset[int]
    strong: bool
    line: int
    reads: frozenset[int]
    registers: frozenset[str]


def loops(function: P.Function) -> list[Wait]:
    """The loops of a function that wait."""
    code, after, into = function.code, function.after, flow.inverse(function.after)
    rank = {start: i for i, start in enumerate(flow.order(after, 0))}
    out = []
    for head in after:
        tails = frozenset(start for start in into[head] if rank[head] <= rank[start])
        if not tails:
            continue
        body, todo = {head}, list(tails)
        while todo:
            node = todo.pop()
            if node not in body:
                body.add(node)
                todo += into[node]
        inside = [i for start in body for i in range(start, function.spans[start])]
        strong, plain = _what_it_reads(function, body, inside)
        reads = strong or plain
        leaves = any(n not in body for start in body for n in after[start])
        if reads or not (leaves or any(code[i].op.ends in _WAYS_OUT for i in inside)):
            written = frozenset(r for i in inside for r in code[i].writes)
            line = code[min(reads, default=head)].line
            out.append(Wait(head, tails, bool(strong), line, frozenset(reads), written))
    return out


def polls(function: P.Function) -> bool:
    """Whether threads of a function may wait for the phase of an mbarrier."""
    return any(ins.op.ends == "poll" for ins in function.code)


def _what_it_reads(
    function: P.Function, body: set[int], inside: Sequence[int]
) -> tuple[set[int], set[int]]:
    """Reads that decide over the loop of these blocks, that is instructions: those made for
    synchronisation, and others.
    """
    code = function.code
    strong: set[int] = set()
    plain: set[int] = set()
    if not any(_read_kind(function, code[i]) for i in inside):
        return strong, plain
    writers: dict[str, list[int]] = {}
    for i in inside:
        for name in code[i].writes:
            writers.setdefault(name, []).append(i)
    for start in body:
        last = function.spans[start] - 1
        if last < start or code[last].op.ends not in ("jump", "table", "exit"):
            continue
        leaves = code[last].op.ends == "exit" or any(n not in body for n in function.after[start])
        guard = code[last].guard
        todo = [guard] if guard else list(code[last].reads)
        visited: set[str] = set()
        while todo:
            name = todo.pop()
            if name in visited:
                continue
            visited.add(name)
            for i in writers.get(name, ()):
                kind = _read_kind(function, code[i])
                if kind == "strong":
                    strong.add(i)
                elif kind == "plain" and leaves:
                    plain.add(i)
                todo += code[i].reads
    return strong, plain


def _read_kind(function: P.Function, ins: P.Instruction) -> str:
    """Whether an instruction reads what others may change: "strong", "plain" or ""."""
    if ins.op.touches == "call" or (ins.op.touches == "atomic" and ins.op.writes):
        return "strong"
    if _is_load(ins):
        if STRONG & set(ins.parts):
            return "strong"
        if "param" in ins.parts:
            address = ins.operands[1]
            base = getattr(getattr(address, "base", None), "name", "")
            own = not base or any(p.name == base for p in function.params)
            return "" if own else "strong"  # what a called function returned
        return "" if _PRIVATE & set(ins.parts) else "plain"
    return ""


def _is_load(ins: P.Instruction) -> bool:
    """Whether it reads for one thread what others may write."""
    return ins.op.touches == "load" and not ins.op.whole_warp


def same_reads(function: P.Function, waits: Sequence[Wait]) -> frozenset[int]:
    """The deciding reads of loops, and others like them: compilers put one before the loop."""
    code = function.code
    decide = frozenset(i for w in waits for i in w.reads)
    lines = {code[i].line for i in decide}
    places = [code[i].operands[1] for i in decide if _is_load(code[i])]
    return decide | {
        i
        for i, ins in enumerate(code)
        if _is_load(ins)
        and STRONG & set(ins.parts)
        and (ins.line in lines or ins.operands[1] in places)
    }


def gated(function: P.Function, warps: bool) -> P.Function:
    """The function with a gate before every instruction that threads execute together.

    A warpgroup stays together from its gate to the end of the basic block. warps: whether what the
    lanes of one warp execute together has gates, too.
    """
    firsts = {id(function.code[start]) for start, end in function.spans.items() if start < end}
    together = False  # whether warpgroups are, since the last gate

    def behind_gate(ins: P.Instruction) -> list[P.Instruction]:
        nonlocal together
        together = together and id(ins) not in firsts
        member = _member(ins) if warps else None
        if ins.guard is not None or not (member or (ins.op.warpgroup and not together)):
            return [ins]
        together = ins.op.warpgroup and not together
        parts = ("gate", "warpgroup") if together else ("gate",)
        lanes = _ALL if together else member
        return [P.Instruction("gate", parts, (lanes,), ins.line, text="gate"), ins]

    whole = P.rewritten(function, behind_gate)
    return function if len(whole.code) == len(function.code) else whole


def _member(ins: P.Instruction) -> P.Operand | None:
    """The operand that names the lanes, for instructions of a whole warp; None for others."""
    if ins.op.whole_warp:
        return _ALL
    at = ins.op.member
    if at is None or "sync" not in ins.parts:
        return None
    return ins.operands[at] if at < len(ins.operands) else _ALL
