"""Facts about a whole program: what is reachable, where variables lie, what is written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nogpu.emulator.ptx import flow
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.layout import GROUPS_SCRATCH, SCRATCH_BYTES
from nogpu.emulator.ptx.program import Program, SharedSymbol, demangle
from nogpu.emulator.ptx.words import space_of, variable_at
from nogpu.errors import EmulationError

_ORDERING = {"acquire", "release", "acq_rel"}


RECURSIONS = 64
"""Calls of itself, one within the other, for which a function has room in local memory."""


def local_need(program: Program, name: str) -> int:
    """Bytes of local memory that a function needs with all that it calls, the deepest way down.

    A function that may come to call itself counts RECURSIONS times, and so does every one on that
    circle. Each circle is looked at once: the ways through a graph of calls may be very many.
    """
    calls = {
        caller: [c for c in _called(program, caller) if c in program.functions]
        for caller in program.functions
    }
    need: dict[str, int] = {}
    for circle in reversed(flow.components(calls)):
        called = {c for m in circle for c in calls[m]}
        below = max((need[c] for c in called.difference(circle)), default=0)
        times = RECURSIONS if called.intersection(circle) else 1
        own = times * sum(program.functions[m].locals_size for m in circle)
        need |= dict.fromkeys(circle, own + below)
    return need[name]


def _called(program: Program, name: str) -> set[str]:
    """Functions that this one calls, by name or by a pointer that may point to them."""
    named = {i.call[1] for i in program.module.functions[name].code if i.call}
    return (named - {""}) | (program.pointed if "" in named else set())


def lay_out_params(program: Program) -> None:
    at = 0
    for p in program.entry.params:
        at = -(-at // p.align) * p.align
        program.param_offsets[p.name] = at
        at += p.size


def reachable(module: P.Module, entry: P.Function, pointed: set[str]) -> list[P.Function]:
    order, todo = [entry], [entry]
    while todo:
        for ins in todo.pop().code:
            if ins.call is None:
                continue
            names = [ins.call[1]] if ins.call[1] else sorted(pointed)
            for name in names:
                callee = module.functions.get(name)
                if callee is None:
                    raise EmulationError(
                        f"line {ins.line}: the kernel calls {name!r}, which has no definition. "
                        "Define the function in this source"
                    )
                if callee.has_body and callee not in order:
                    order.append(callee)
                    todo.append(callee)
    return order


def pointed(module: P.Module) -> set[str]:
    """Functions whose address is taken, in code or in tables such as those of virtual functions."""
    linked = {name for v in module.variables.values() for _, name, _ in v.links}
    used = _named(module.functions.values())
    return {n for n, f in module.functions.items() if f.has_body and n in linked | used}


def _named(functions: Iterable[P.Function]) -> set[str]:
    """What the code of functions names: variables, functions, labels."""
    return {name for f in functions for i in f.code for name in i.symbols}


def used(program: Program, functions: list[P.Function]) -> set[str]:
    """Module variables that functions name, or that the contents of such variables point to."""
    variables = program.module.variables
    todo = list(_named(functions))
    names: set[str] = set()
    while todo:
        name = todo.pop()
        if name in variables and name not in names:
            names.add(name)
            todo += [target for _, target, _ in variables[name].links]
    return names


def _shared_base(target: str) -> int:
    """Where a block's shared memory begins on a target such as "sm_90a": behind what CUDA reserves.

    From compute capability 8.0 on, 1 KiB of each block's shared memory is the system's; it comes
    first from 9.0 on, as the machine code shows that ptxas writes: 0x400 is added to every address.
    An alignment holds for the distance from there: an array aligned to 16 KiB may begin at 1024.
    """
    match = re.match(r"sm_(\d+)", target)
    return 1024 if match and int(match[1]) >= 90 else 0


def lay_out_shared(program: Program, functions: list[P.Function]) -> None:
    program.shared_base = _shared_base(program.module.target)
    used = _named(functions)
    variables = [v for v in program.module.variables.values() if v.space == "shared"]
    variables += [v for f in functions for v in f.variables if v.space == "shared"]
    at = 0
    dynamic_align = 16
    dynamic = []
    for v in variables:
        if v.name not in used:
            continue
        if not v.size:
            dynamic.append(v)
            dynamic_align = max(dynamic_align, v.align)
            continue
        at = -(-at // v.align) * v.align
        program.shared_offsets[v.name] = at
        program.shared_symbols.append(SharedSymbol(demangle(v.name), at, v.size, v.align, ()))
        at += v.size
    if GROUPS_SCRATCH in used:  # a GPU has it in the 1 KiB that CUDA reserves
        at = -(-at // 16) * 16
        program.shared_offsets[GROUPS_SCRATCH] = at
        program.shared_symbols.append(
            SharedSymbol("scratch of cooperative groups", at, SCRATCH_BYTES, 4, ())
        )
        at += SCRATCH_BYTES
    program.static_shared = at
    if dynamic:
        program.dynamic_shared = True
        at = -(-at // dynamic_align) * dynamic_align
        for v in dynamic:
            program.shared_offsets[v.name] = at
        program.shared_symbols.append(SharedSymbol(demangle(dynamic[0].name), at, 0, 4, ()))


def note_facts(program: Program, functions: list[P.Function]) -> None:
    """Facts about the whole program: smallest access, fences, which parameters are stored to."""
    granule = 4
    for f in functions:
        for ins in f.code:
            touches = ins.op.touches
            program.clusters = program.clusters or _of_a_cluster(ins)
            if ins.root == "wgmma":  # reads shared memory for threads that go on meanwhile
                program.engines = program.mbarriers = True
            if ins.root == "tcgen05":
                program.engines = program.mbarriers = program.tensor_memory = True
            program.pairs = program.pairs or "cta_group::2" in ins.parts
            program.cancels = program.cancels or ins.root == "clusterlaunchcontrol"
            if not touches:
                continue
            if ins.op.whole_warp:
                if touches != "shared load":  # ldmatrix, which reads whole words
                    granule = min(granule, 2)
            elif touches in ("load", "constant", "store", "atomic"):
                kinds = ins.types
                if kinds and "param" not in ins.parts:
                    granule = min(granule, max(P.BITS[kinds[-1]] // 8, 1))
                program.fences = program.fences or not _ORDERING.isdisjoint(ins.parts)
            program.mbarriers = program.mbarriers or touches in ("mbarrier", "bulk")
            program.engines = program.engines or touches == "bulk"
            program.fences = program.fences or touches == "fence"
    program.granule = granule
    program.stored_params = _stored_params(program, functions)


_PEERS = {"multicast::cluster", "multicast::cluster::all", "cta_group::2"}


def _of_a_cluster(ins: P.Instruction) -> bool:
    """Whether blocks of a cluster meet by an instruction, or one reaches into another by it."""
    if ins.root in ("bar", "barrier"):
        return "cluster" in ins.parts
    return ins.root == "mapa" or not _PEERS.isdisjoint(ins.parts)


def _stores(ins: P.Instruction, atomics: bool) -> bool:
    """Whether an instruction may write global memory."""
    touches = ins.op.touches
    if touches == "bulk":
        return "bulk_group" in ins.parts
    if touches == "store" or (atomics and touches == "atomic"):
        return space_of(ins) not in ("param", "local", "shared")
    return False


def _stored_params(program: Program, functions: list[P.Function]) -> set[int] | None:
    """Offsets of the parameters through whose pointers the entry stores; None if unknown."""
    # Where fences order accesses, flags and locks are looked at too: atomics write them.
    atomics = program.fences
    if any(_stores(ins, atomics) for f in functions[1:] for ins in f.code):
        return None
    bases: set[str] = set()
    for ins in program.entry.code:
        if not _stores(ins, atomics):
            continue
        if ins.op.touches == "bulk":
            return None  # where a tensor map leads only the launch knows
        address = ins.operands[1 if ins.op.writes else 0]
        if isinstance(address, P.Address) and isinstance(address.base, P.Register):
            bases.add(address.base.name)
    writers: dict[str, list[P.Instruction]] = {}
    for ins in program.entry.code:
        for name in ins.writes:
            writers.setdefault(name, []).append(ins)
    stored: set[int] = set()
    for base in bases:
        origins = _origins(program, base, writers)
        if not origins:
            return None
        stored |= origins
    return stored


def _origins(program: Program, base: str, writers: dict[str, list[P.Instruction]]) -> set[int]:
    """Offsets of the pointer parameters that a register's value may come from."""
    offsets: set[int] = set()
    todo, visited = [base], {base}
    while todo:
        for ins in writers.get(todo.pop(), ()):
            if ins.op.touches in ("load", "constant") and not ins.op.whole_warp:
                offsets |= _pointer(program, ins)
                continue
            fresh = [name for name in ins.reads if name not in visited]
            visited.update(fresh)
            todo += fresh
    return offsets


def _pointer(program: Program, ins: P.Instruction) -> set[int]:
    """The offset of the pointer parameter that a load reads, if it reads one."""
    place = variable_at(ins.operands[1]) if len(ins.operands) > 1 else None
    if place is None or place[0] not in program.param_offsets:
        return set()
    if "param" not in ins.parts or P.BITS.get(ins.parts[-1]) != 64:
        return set()
    return {program.param_offsets[place[0]] + place[1]}
