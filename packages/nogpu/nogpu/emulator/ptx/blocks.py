"""PTX functions to Python: basic blocks, one generated Python function each.

A block's code works on local variables; registers that other blocks also use are read from a list
when first needed and stored back at the block's end, for the active threads only. Registers of one
block alone are never masked: nobody reads what the other threads hold there.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from dataclasses import replace

from nogpu.emulator.ptx import (
    accesses,
    accumulators,
    arithmetic,
    bulk,
    control,
    conversions,
    ends,
    flow,
    loading,
    scalars,
    survey,
    tensor_memory,
    unset,
    waits,
    warpgroups,
    warps,
)
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.emit import Emitter
from nogpu.emulator.ptx.program import Block, FunctionProgram, Program, Spin, block_name
from nogpu.emulator.ptx.words import NUMPY
from nogpu.errors import EmulationError

SUBJECTS = (
    *(accesses, arithmetic, bulk, control, conversions, tensor_memory, unset, warpgroups, warps),
)
"""The modules that lower instructions: importing them registers their functions."""

_NUMPY_KIND = {1: "b1", 8: "i2", 16: "i2", 32: "i4", 64: "i8"}


def translate(module: P.Module, entry: str, *, alone: bool = False) -> Program:
    """Translate an entry and every function that it calls.

    alone: for a launch of one thread, by `scalars` where that suits the program.

    Raises EmulationError naming the first instruction that is not emulated.
    """
    function = module.functions[entry]
    program = Program(module, function)
    survey.lay_out_params(program)
    program.pointed = survey.pointed(module)
    reachable = survey.reachable(module, function, program.pointed)
    survey.lay_out_shared(program, reachable)
    for slot, variable in enumerate(module.variables.values()):
        if variable.space in ("global", "const") and variable.size:
            program.global_symbols[variable.name] = (slot, variable.size)
    program.used = survey.used(program, reachable)
    survey.note_facts(program, reachable)
    # Lanes come out of a function that waits one by one: whoever called it must not run ahead
    # either.
    gated = any(waits.loops(f) or waits.polls(f) for f in reachable[1:])
    suits = alone and not program.clusters and scalars.suits(reachable)
    program.scalar = suits and not waits.loops(function)
    for f in reachable:
        program.functions[f.name] = _translate_function(program, f, gated)
    program.local_bytes = survey.local_need(program, function.name)
    program.module = _without_code(module)
    program.entry = program.module.functions[entry]
    return program


def _without_code(module: P.Module) -> P.Module:
    """The declarations of a module: its instructions have become Python and take much memory."""
    bare = {
        name: replace(f, code=[], labels={}, tables={}, registers={}, variables=[])
        for name, f in module.functions.items()
    }
    return replace(module, functions=bare)


def _translate_function(program: Program, function: P.Function, gated: bool) -> FunctionProgram:
    """Translate one function. gated: another of the program waits in a loop."""
    function = unset.shadowed(function)
    notes = [ins for ins in function.code if unset.is_note(ins)]
    program.follows_local |= any(ins.parts[1] == "local" for ins in notes)
    program.unset |= any(ins.parts[1] == "or" and unset.UNSET in ins.operands for ins in notes)
    function = loading.shadowed(function)
    loops = waits.loops(function)
    program.waits |= bool(loops)
    program.polls |= any(w.strong for w in loops)
    function = waits.gated(function, warps=bool(loops or gated or waits.polls(function)))
    loops = waits.loops(function) if loops else loops
    reads = waits.same_reads(function, loops) if loops else frozenset()
    touched = accumulators.touches(function)
    kinds = _register_kinds(function)
    shared_by_blocks = sorted(_cross_block(function))
    numbers = {name: i for i, name in enumerate(shared_by_blocks)}
    local_at: dict[str, int] = {}
    at = 0
    for v in function.variables:
        if v.space == "local":
            at = -(-at // v.align) * v.align
            local_at[v.name] = at
            at += v.size or 0
    locals_size = -(-at // 16) * 16
    result = FunctionProgram(function.name, {}, [kinds[n] for n in shared_by_blocks], locals_size)
    sources = []
    for start, end in function.spans.items():
        line = function.code[start].line if start < end else 0
        own = sum(not unset.is_note(ins) for ins in function.code[start:end])
        block = Block(len(program.blocks), start, line, own + 1)
        if start < end:
            last = function.code[end - 1]
            block.end_line, block.end_place = last.line, last.place
        program.blocks.append(block)
        result.blocks[start] = block
        write = scalars.ScalarEmitter if program.scalar else Emitter
        waiting = frozenset(i - start for i in reads)
        emitter = write(program, function, kinds, numbers, local_at, locals_size, waiting)
        touches = {i - start: touched[i] for i in range(start, end) if i in touched}
        after = end if start < end else -1
        _emit_block(emitter, block, function.code[start:end], after, touches)
        if program.scalar and isinstance(block.end, ends.Jump | ends.Branch):
            ways = function.after[start]
            block.ways = ways[0], ways[-1]
        sources.append(emitter.source(block_name(block.number)))
    try:
        code = compile("\n".join(sources), f"<ptx {function.name}>", "exec")
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise EmulationError(
            f"the PTX of {function.name} could not be translated ({error}). Give PTX as NVRTC "
            "writes it, and smaller unrolled loops if the kernel is very long"
        ) from error
    result.code = marshal.dumps(code)
    result.exits = tuple(
        b.start
        for b in result.blocks.values()
        if isinstance(b.end, ends.Exit) and b.end.after < 0 and b.cost <= 2
    )
    for wait in loops:
        registers = tuple(sorted(numbers[r] for r in wait.registers if r in numbers))
        spin = Spin(wait.head, registers, wait.strong, wait.line, not wait.reads)
        for start in wait.latches:
            block = result.blocks[start]
            block.spins = (*(block.spins or ()), spin)
    ranked = flow.order(function.after, 0)
    if ranked != sorted(ranked):
        result.rank = {start: i for i, start in enumerate(ranked)}
    return result


def _register_kinds(function: P.Function) -> dict[str, str]:
    """NumPy type that holds each register: by its declared type, or by what is first put there."""
    kinds: dict[str, str] = {}
    for name, kind in function.registers.items():
        bits = P.BITS.get(kind, 0)
        if bits not in _NUMPY_KIND:
            raise EmulationError(
                f"{function.name} uses registers of type .{kind}, which are not emulated. "
                "Use 8- to 64-bit types"
            )
        kinds[name] = NUMPY[kind] if kind in ("f32", "f64", "f16") else _NUMPY_KIND[bits]
    floats: dict[str, int] = {}
    for ins in function.code:
        types = ins.types
        if not types or ins.root in ("cvt", "wmma", "mma", "wgmma"):
            continue
        typed = {"f32": "b32", "f64": "b64"}.get(types[0])
        for name in ins.writes:
            if (own := function.registers.get(name)) in ("b32", "b64"):
                floats[name] = floats.get(name, 0) + (1 if own == typed else -1)
    for name, votes in floats.items():
        if votes > 0:
            kinds[name] = "f4" if P.BITS[function.registers[name]] == 32 else "f8"
    return kinds


def _cross_block(function: P.Function) -> set[str]:
    """Registers that more than one block uses, or that a block reads before it writes them."""
    home: dict[str, int] = {}
    out: set[str] = set()
    for number, (start, end) in enumerate(function.spans.items()):
        written: set[str] = set()
        for ins in function.code[start:end]:
            for name in ins.reads:
                if home.setdefault(name, number) != number or name not in written:
                    out.add(name)
            for name in ins.writes:
                if home.setdefault(name, number) != number:
                    out.add(name)
                written.add(name)
            if ins.op.ends in ("barrier", "poll"):
                out.update(ins.writes)  # set when the barrier opens
    return out


def _emit_block(
    emitter: Emitter,
    block: Block,
    code: list[P.Instruction],
    after: int,
    touches: Mapping[int, accumulators.Touch],
) -> None:
    """Write a block's Python and say how it ends. after: the next block of the text, -1 if none.

    touches: what instructions do to registers of wgmma, by place in the block.
    """
    opcodes = block.opcodes
    emitter.plan(code)
    for position, ins in enumerate(code):
        emitter.begin(ins, position)
        warpgroups.report_touch(emitter, ins, touches.get(position))
        if ins.op.ends != "gate" and not unset.is_note(ins):
            opcodes[ins.opcode] = opcodes.get(ins.opcode, 0) + 1
        if ins.op.ends not in ("", "call"):
            block.end = control.terminate(emitter, ins, after)
            return
        emitter.instruction(ins)
    warpgroups.report_writes(emitter)
    block.end = ends.Jump(after) if after >= 0 else ends.Exit()
    emitter.finish("None")
