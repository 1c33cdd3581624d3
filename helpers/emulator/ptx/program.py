"""PTX functions to Python: basic blocks, one generated Python function each.

A block's code works on local variables; registers that other blocks also use are read from a list
when first needed and stored back at the block's end, for the active threads only. Registers of one
block alone are never masked: nobody reads what the other threads hold there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from helpers.emulator.ptx import ends, flow, opcodes, waits
from helpers.emulator.ptx import parse as P
from helpers.emulator.ptx.lower import LOWER, REFUSED, Emitter, namespace, poll_barrier
from helpers.emulator.ptx.sites import Site
from helpers.errors import EmulationError

TERMINATORS = {"bra", "brx", "ret", "exit", "trap", "gate"}
ORDERING = {"acquire", "release", "acq_rel"}
FUNCTION_BASE = 1 << 59
"""Addresses of device functions, for pointers to them."""
_NUMPY_KIND = {1: "b1", 8: "i2", 16: "i2", 32: "i4", 64: "i8"}


@dataclass(frozen=True)
class SharedSymbol:
    """A variable in shared memory; size 0: the dynamic part."""

    name: str
    start: int
    size: int
    itemsize: int
    shape: tuple[int, ...]

    def index_text(self, offset: int) -> str:
        """`A_tile[3][7]` if the source tells the shape, `A_tile[103]` otherwise."""
        element = offset // self.itemsize
        total = int(np.prod(self.shape)) if self.shape else 0
        if len(self.shape) > 1 and total * self.itemsize == self.size and 0 <= element < total:
            indices = np.unravel_index(element, self.shape)
            return self.name + "".join(f"[{i}]" for i in indices)
        return f"{self.name}[{element}]"


@dataclass(frozen=True)
class Spin:
    """A loop that waits (see `waits`), as the machine needs it. registers: their numbers."""

    head: int
    registers: tuple[int, ...]
    strong: bool
    line: int
    endless: bool


@dataclass
class Block:
    """A basic block. line: of its first instruction; end_line, end_place: of its last.

    What the end does (a barrier, say) is told with its own line. end_place tells barriers of one line
    apart, by where the function that holds them was called (`Instruction.place`).
    """

    number: int
    start: int
    line: int
    cost: int
    end_line: int = 0
    end_place: tuple[str, ...] = ()
    end: ends.End = field(init=False)
    run: Callable[..., Any] = lambda *a: None
    opcodes: dict[str, int] = field(default_factory=dict)
    source: str = ""
    spins: tuple[Spin, ...] | None = None  # loops that this block goes back to the start of


@dataclass
class FunctionProgram:
    """A translated function."""

    name: str
    blocks: dict[int, Block]
    nregisters: int
    kinds: list[str]
    locals_size: int
    exits: tuple[int, ...] = ()  # blocks that hold nothing but a return
    rank: dict[int, int] | None = None  # place of each block in `flow.order`; None: as in the text


@dataclass
class Program:
    """A translated module with one entry."""

    module: P.Module
    entry: P.Function
    sites: list[Site] = field(default_factory=list)
    functions: dict[str, FunctionProgram] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    shared_symbols: list[SharedSymbol] = field(default_factory=list)
    shared_offsets: dict[str, int] = field(default_factory=dict)
    static_shared: int = 0
    granule: int = 4
    local_bytes: int = 0
    dynamic_shared: bool = False
    fences: bool = False
    mbarriers: bool = False
    cooperative: bool = False  # asks whether the launch is
    pointed: set[str] = field(default_factory=set)  # functions that pointers may point to
    waits: bool = False  # some loop waits for other threads
    polls: bool = False  # by reads that are made for synchronisation: perhaps for other blocks
    stored_params: set[int] | None = None  # byte offsets of pointer parameters stored through
    global_symbols: dict[str, tuple[int, int]] = field(default_factory=dict)  # name: (slot, size)
    used: set[str] = field(default_factory=set)  # of these, by the entry: headers bring many more
    param_offsets: dict[str, int] = field(default_factory=dict)
    crowded: frozenset[int] = frozenset()  # lines of the source with more than one barrier

    def function_address(self, name: str) -> int:
        """What a pointer to a device function holds."""
        return FUNCTION_BASE + 16 * list(self.module.functions).index(name)

    def function_at(self, address: int) -> str:
        """The function that a pointer points to, or an empty text."""
        place, rest = divmod(address - FUNCTION_BASE, 16)
        names = list(self.module.functions)
        if rest or not 0 <= place < len(names) or names[place] not in self.functions:
            return ""
        return names[place]

    def run_function(self) -> FunctionProgram:
        """The translated entry."""
        return self.functions[self.entry.name]


def demangle(symbol: str) -> str:
    """The source name of a function-local or plain C++ symbol."""
    if not symbol.startswith("_Z"):
        return symbol
    for found in reversed(list(re.finditer(r"(\d+)", symbol))):
        start = found.end()
        for digits in range(len(found.group(1)), 0, -1):
            length = int(found.group(1)[-digits:])
            name, rest = symbol[start : start + length], symbol[start + length :]
            if (
                len(name) == length
                and re.fullmatch(r"[A-Za-z_]\w*", name)
                and re.fullmatch(r"(E?v|E?_\d+|E|)", rest)
            ):
                return name
    return symbol


def translate(module: P.Module, entry: str) -> Program:
    """Translate an entry and every function that it calls.

    Raises EmulationError naming the first instruction that is not emulated.
    """
    function = module.functions[entry]
    program = Program(module, function)
    _lay_out_params(program)
    program.pointed = _pointed(module)
    reachable = _reachable(module, function, program.pointed)
    _lay_out_shared(program, reachable)
    for slot, variable in enumerate(module.variables.values()):
        if variable.space in ("global", "const") and variable.size:
            program.global_symbols[variable.name] = (slot, variable.size)
    program.used = _used(program, reachable)
    _survey(program, reachable)
    # Lanes come out of a function that waits one by one: whoever called it must not run ahead either.
    gated = any(_waits(f) for f in reachable[1:])
    for f in reachable:
        program.functions[f.name] = _translate_function(program, f, gated)
    program.local_bytes = _local_need(program, function.name, ())
    return program


def _local_need(program: Program, name: str, path: tuple[str, ...]) -> int:
    function = program.functions.get(name)
    if function is None:
        return 0
    named = {i.call[1] for i in program.module.functions[name].code if i.call}
    calls = named | (program.pointed if "" in named else set())
    recursive = bool(calls & {*path, name})
    calls -= {*path, name}
    below = max((_local_need(program, c, (*path, name)) for c in calls), default=0)
    return function.locals_size * (64 if recursive else 1) + below


def _lay_out_params(program: Program) -> None:
    at = 0
    for p in program.entry.params:
        at = -(-at // p.align) * p.align
        program.param_offsets[p.name] = at
        at += p.size


def _reachable(module: P.Module, entry: P.Function, pointed: set[str]) -> list[P.Function]:
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


def _pointed(module: P.Module) -> set[str]:
    """Functions whose address is taken, in code or in tables such as those of virtual functions."""
    linked = {name for v in module.variables.values() for _, name, _ in v.links}
    used = _named(module.functions.values())
    return {n for n, f in module.functions.items() if f.has_body and n in linked | used}


def _named(functions: Iterable[P.Function]) -> set[str]:
    """What the code of functions names: variables, functions, labels."""
    symbols = (o for f in functions for i in f.code for o in _flat(i.operands))
    return {o.name for o in symbols if isinstance(o, P.Symbol)}


def _used(program: Program, functions: list[P.Function]) -> set[str]:
    """Module variables that functions name, or that the contents of such variables point to."""
    variables = program.module.variables
    todo = list(_named(functions))
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name in variables and name not in found:
            found.add(name)
            todo += [target for _, target, _ in variables[name].links]
    return found


def _lay_out_shared(program: Program, functions: list[P.Function]) -> None:
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
    program.static_shared = at
    if dynamic:
        program.dynamic_shared = True
        at = -(-at // dynamic_align) * dynamic_align
        for v in dynamic:
            program.shared_offsets[v.name] = at
        program.shared_symbols.append(SharedSymbol(demangle(dynamic[0].name), at, 0, 4, ()))


def _flat(operands: Any) -> list[Any]:
    out: list[Any] = []
    for o in operands:
        if isinstance(o, P.Vector):
            out += _flat(o.items)
        elif isinstance(o, P.Pair):
            out += _flat((o.first, o.second))
        elif isinstance(o, P.Address):
            out.append(o.base)
        elif isinstance(o, P.Negated):
            out.append(o.operand)
        else:
            out.append(o)
    return out


def _survey(program: Program, functions: list[P.Function]) -> None:
    """Facts about the whole program: smallest shared access, fences, which parameters are stored to."""
    granule = 4
    for f in functions:
        for ins in f.code:
            kinds = [p for p in ins.parts if p in P.BITS]
            if (
                ins.root in ("ld", "st", "atom", "red", "ldu")
                and "param" not in ins.parts
                and kinds
            ):
                granule = min(granule, max(P.BITS[kinds[-1]] // 8, 1))
            if ins.root == "wmma" or ins.root == "stmatrix":
                granule = min(granule, 2)
            program.mbarriers = program.mbarriers or "mbarrier" in ins.parts
            if ins.root in ("membar", "fence") and "proxy" not in ins.parts:
                program.fences = True
            if ins.root in ("ld", "st", "atom", "red") and ORDERING & set(ins.parts):
                program.fences = True
    program.granule = granule
    program.stored_params = _stored_params(program, functions)


def _stored_params(program: Program, functions: list[P.Function]) -> set[int] | None:
    """Offsets of the parameters through whose pointers the entry stores; None if unknown."""
    # Where fences order accesses, flags and locks are looked at too: atomics write them.
    written = ("st", "atom", "red") if program.fences else ("st",)
    for f in functions[1:]:
        for ins in f.code:
            if ins.root in (*written, "wmma") and not {
                "param",
                "local",
                "shared",
                "load",
                "mma",
            } & set(ins.parts):
                return None
    origin: dict[str, frozenset[int]] = {}
    moves = []
    for ins in program.entry.code:
        if not ins.operands or ins.root in ("st", "red", "bra", "bar"):
            continue
        target = ins.operands[0]
        names = [o.name for o in _flat((target,)) if isinstance(o, P.Register)]
        if ins.root == "ld":
            address = ins.operands[1]
            if (
                "param" in ins.parts
                and P.BITS.get(ins.parts[-1]) == 64
                and isinstance(address, P.Address)
                and isinstance(address.base, P.Symbol)
                and address.base.name in program.param_offsets
            ):
                at = program.param_offsets[address.base.name] + address.offset + address.base.offset
                for n in names:
                    origin[n] = frozenset({at})
            continue
        sources = [o.name for o in _flat(ins.operands[1:]) if isinstance(o, P.Register)]
        moves.append((names, sources))
    changed = True
    while changed:
        changed = False
        for names, sources in moves:
            union = frozenset().union(*(origin.get(s, frozenset()) for s in sources))
            for n in names:
                if not union <= origin.get(n, frozenset()):
                    origin[n] = origin.get(n, frozenset()) | union
                    changed = True
    stored: set[int] = set()
    for ins in program.entry.code:
        plain = ins.root in written and not {"param", "local", "shared"} & set(ins.parts)
        matrix = ins.root == "wmma" and "store" in ins.parts and "shared" not in ins.parts
        if not plain and not matrix:
            continue
        address = ins.operands[1 if ins.root == "atom" else 0]
        base = address.base if isinstance(address, P.Address) else None
        if isinstance(base, P.Register):
            found = origin.get(base.name, frozenset())
            if not found:
                return None
            stored |= found
    return stored


def _split_blocks(function: P.Function) -> list[tuple[int, int]]:
    code = function.code
    leaders = {0, *function.labels.values()}
    for i, ins in enumerate(code):
        if ins.root in TERMINATORS or ins.root == "call" or _is_barrier(ins) or _is_poll(ins):
            leaders.add(i + 1)
    starts = sorted(s for s in leaders if s <= len(code))
    pairs = list(zip(starts, [*starts[1:], len(code)], strict=True))
    spans = [(a, b) for a, b in pairs if a < b or a == len(code)]
    # A label at the very end needs a block to jump to.
    return spans if spans[-1][0] == len(code) else [*spans, (len(code), len(code))]


def _is_barrier(ins: P.Instruction) -> bool:
    return ins.root in ("bar", "barrier") and ins.parts[1:2] != ("warp",)


def _is_poll(ins: P.Instruction) -> bool:
    """Whether threads ask here if a phase of an mbarrier is complete."""
    return ins.root == "mbarrier" and ins.parts[1] in ("test_wait", "try_wait")


def _waits(function: P.Function) -> bool:
    touched = [_touched(i) for i in function.code]
    return bool(waits.loops(function, _split_blocks(function), touched))


def _translate_function(program: Program, function: P.Function, gated: bool) -> FunctionProgram:
    """Translate one function. gated: another of the program waits in a loop."""
    spans, touched = _split_blocks(function), [_touched(i) for i in function.code]
    found = waits.loops(function, spans, touched)
    if found:
        program.waits = True
        program.polls = program.polls or any(w.strong for w in found)
    if found or gated:
        whole = waits.gated(function)
        if whole is not function:
            function, touched = whole, [_touched(i) for i in whole.code]
            spans = _split_blocks(function)
            found = waits.loops(function, spans, touched)
    reads = waits.same_reads(function, found) if found else frozenset()
    kinds = _register_kinds(function)
    shared_by_blocks = _cross_block(function, spans, touched)
    numbers = {name: i for i, name in enumerate(sorted(shared_by_blocks))}
    local_at: dict[str, int] = {}
    at = 0
    for v in function.variables:
        if v.space == "local":
            at = -(-at // v.align) * v.align
            local_at[v.name] = at
            at += v.size or 0
    locals_size = -(-at // 16) * 16
    result = FunctionProgram(
        function.name, {}, len(numbers), [kinds[n] for n in sorted(shared_by_blocks)], locals_size
    )
    names = namespace()
    after = {a: b for (a, _), (b, _) in pairwise(spans)}
    sources = []
    for start, end in spans:
        line = function.code[start].line if start < end else 0
        block = Block(len(program.blocks), start, line, end - start + 1)
        if start < end:
            last = function.code[end - 1]
            block.end_line, block.end_place = last.line, last.place
        program.blocks.append(block)
        result.blocks[start] = block
        emitter = Emitter(program, function, kinds, numbers, names, local_at, locals_size)
        emitter.waiting = frozenset(i - start for i in reads)
        _emit_block(emitter, block, function, (start, end), touched, after.get(start, -1))
        name = f"block_{block.number}"
        block.source = emitter.source(name)
        sources.append(block.source)
    try:
        exec(compile("\n".join(sources), f"<ptx {function.name}>", "exec"), names)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise EmulationError(
            f"the PTX of {function.name} could not be translated ({error}). Give PTX as NVRTC "
            "writes it, and smaller unrolled loops if the kernel is very long"
        ) from error
    result.exits = tuple(
        b.start
        for b in result.blocks.values()
        if isinstance(b.end, ends.Exit) and b.end.after < 0 and b.cost <= 2
    )
    for wait in found:
        registers = tuple(sorted(numbers[r] for r in wait.registers if r in numbers))
        spin = Spin(wait.head, registers, wait.strong, wait.line, not wait.reads)
        for start in wait.latches:
            block = result.blocks[start]
            block.spins = (*(block.spins or ()), spin)
    for block in result.blocks.values():
        block.run = names[f"block_{block.number}"]
    ranked = flow.order({b.start: b.end.followers for b in result.blocks.values()}, spans[0][0])
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
        if kind in ("f32", "f64", "f16"):
            kinds[name] = {"f32": "f4", "f64": "f8", "f16": "f2"}[kind]
        else:
            kinds[name] = _NUMPY_KIND[bits]
    floats: dict[str, int] = {}
    for ins in function.code:
        types = [p for p in ins.parts if p in P.BITS]
        if not types or not ins.operands or ins.root in ("st", "setp", "cvt", "wmma", "mma"):
            continue
        kind = types[0]
        for o in _flat(ins.operands[:1]):
            if isinstance(o, P.Register) and function.registers.get(o.name) in ("b32", "b64"):
                wanted = {"f32": "f4", "f64": "f8"}.get(kind)
                same = wanted and P.BITS[kind] == P.BITS[function.registers[o.name]]
                floats[o.name] = floats.get(o.name, 0) + (1 if same else -1)
    for name, votes in floats.items():
        if votes > 0:
            kinds[name] = "f4" if P.BITS[function.registers[name]] == 32 else "f8"
    return kinds


def _touched(ins: P.Instruction) -> tuple[list[str], list[str]]:
    """(registers read, registers written) of an instruction; a guarded write also reads."""
    reads: list[str] = [ins.guard] if ins.guard else []
    writes: list[str] = []
    for position, operand in enumerate(ins.operands):
        registers = [o.name for o in _flat((operand,)) if isinstance(o, P.Register)]
        is_target = position == 0 and not isinstance(operand, P.Address)
        if is_target and ins.root not in (
            "st", "red", "bra", "brx", "bar", "barrier", "ret", "exit", "cp", "membar", "fence",
            "prefetch", "prefetchu", "stmatrix", "call", "discard", "applypriority", "nanosleep", "gate",
        ) and not (ins.root == "wmma" and "store" in ins.parts):  # fmt: skip
            writes += registers
            if ins.guard:
                reads += registers
        elif position == 0 and ins.root in ("bar", "barrier") and "red" in ins.parts:
            writes += registers
        else:
            reads += registers
    return reads, writes


def _cross_block(
    function: P.Function, spans: list[tuple[int, int]], touched: list[tuple[list[str], list[str]]]
) -> set[str]:
    """Registers that more than one block uses, or that a block reads before it writes them."""
    home: dict[str, int] = {}
    out: set[str] = set()
    for number, (start, end) in enumerate(spans):
        written: set[str] = set()
        for ins, (reads, writes) in zip(function.code[start:end], touched[start:end], strict=True):
            for name in reads:
                if home.setdefault(name, number) != number or name not in written:
                    out.add(name)
            for name in writes:
                if home.setdefault(name, number) != number:
                    out.add(name)
                written.add(name)
            if _is_barrier(ins) or _is_poll(ins):
                out.update(writes)  # set when the barrier opens
    return out


def _emit_block(
    emitter: Emitter,
    block: Block,
    function: P.Function,
    span: tuple[int, int],
    touched: list[tuple[list[str], list[str]]],
    after: int,
) -> None:
    """Write a block's Python and say how it ends. after: the next block of the text, -1 if none."""
    start, end = span
    code = function.code[start:end]
    opcodes = block.opcodes
    emitter.plan(code, touched[start:end])
    for position, ins in enumerate(code):
        emitter.begin(ins, position)
        if ins.root != "gate":
            opcodes[ins.opcode] = opcodes.get(ins.opcode, 0) + 1
        if ins.root in TERMINATORS or _is_barrier(ins) or _is_poll(ins):
            block.end = _terminate(emitter, function, ins, after)
            _check_words(ins)
            return
        _lower(emitter, ins)
    block.end = ends.Jump(after) if after >= 0 else ends.Exit()
    emitter.finish("None")


def _lower(emitter: Emitter, ins: P.Instruction) -> None:
    """Emit an instruction. Raises EmulationError for one that is not emulated, or not with a word."""
    reason = REFUSED.get(ins.root)
    lower = LOWER.get(ins.root)
    if lower is None or reason:
        what = reason or "it is not among the instructions that the emulator knows"
        raise EmulationError(
            f"line {ins.line}: the PTX instruction {ins.opcode!r} is not emulated: {what}"
        )
    try:
        lower(emitter, ins)
    except (IndexError, KeyError, ValueError, AttributeError, TypeError, AssertionError) as e:
        _check_words(ins)
        raise EmulationError(
            f"line {ins.line}: cannot translate the PTX instruction {ins.text!r} "
            f"({type(e).__name__}: {e}). Rewrite that line with plainer operations"
        ) from e
    _check_words(ins)  # after the lowering, which says of some words what to use instead


def _check_words(ins: P.Instruction) -> None:
    """Raise EmulationError if the instruction has a word that its lowering would ignore."""
    if ins.root != "gate" and (reason := opcodes.unknown(ins.parts)):
        raise EmulationError(
            f"line {ins.line}: the PTX instruction {ins.opcode!r} is not emulated: {reason}"
        )


def _terminate(emitter: Emitter, function: P.Function, ins: P.Instruction, after: int) -> ends.End:
    """Write what the last instruction of a block gives, and say how the block ends."""
    guard = emitter.guard()
    if ins.root == "bra":
        target = _label(function, ins, ins.operands[0])
        emitter.finish(guard or "None")
        return ends.Branch(target, after) if guard else ends.Jump(target)
    if ins.root in ("ret", "exit", "trap"):
        if ins.root == "trap":
            emitter.emit(f"trapped(S, {ins.line}, {emitter.active()})")
        emitter.finish(guard or "None")
        return ends.Exit(after if guard else -1, whole=ins.root != "ret")
    if ins.root == "gate":
        emitter.finish(emitter.read(ins.operands[0], "i4"))
        return ends.Gate(after)
    if ins.root == "brx":
        table = ins.operands[1]
        if guard or not isinstance(table, P.Symbol) or table.name not in function.tables:
            raise EmulationError(
                f"line {ins.line}: cannot follow {ins.text!r}: its branch table is missing"
            )
        names = function.tables[table.name]
        emitter.finish(emitter.read(ins.operands[0], "i4"))
        return ends.Table(tuple(function.labels[n] for n in names if n in function.labels))
    if _is_poll(ins):
        emitter.finish(poll_barrier(emitter, ins))
        return ends.Poll(after)
    _barrier(emitter, ins, guard)
    return ends.Barrier(after)


def _barrier(emitter: Emitter, ins: P.Instruction, guard: str | None) -> None:
    if guard:
        raise EmulationError(
            f"line {ins.line}: a barrier under a predicate ({ins.text!r}) is not emulated. Put the "
            "barrier outside the condition, as CUDA requires"
        )
    if "cluster" in ins.parts:
        raise EmulationError(f"line {ins.line}: {ins.opcode!r}: {REFUSED['mapa']}")
    parts = set(ins.parts)
    operands = list(ins.operands)
    reduce = "None"
    if "red" in parts:
        target, predicate = operands[0], operands[-1]
        operands = operands[1:-1]
        operation = next(p for p in ("popc", "and", "or") if p in parts)
        assert isinstance(target, P.Register)
        number = emitter.numbers[target.name]
        reduce = f"({operation!r}, {number}, {emitter.read(predicate, 'b1')})"
    barrier = emitter.read(operands[0], "i4") if operands else emitter.constant(0, "i4")
    expected = f"{emitter.read(operands[1], 'i8')}" if len(operands) > 1 else "None"
    emitter.finish(f"(uniform_int({barrier}), {expected}, {'arrive' in parts}, {reduce})")


def _label(function: P.Function, ins: P.Instruction, operand: Any) -> int:
    name = operand.name if isinstance(operand, P.Symbol) else ""
    if name not in function.labels:
        raise EmulationError(f"line {ins.line}: the PTX label {name!r} does not exist")
    return function.labels[name]
