"""`launch`: compile, translate, run batch by batch, report."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import numpy as np

from helpers import toolchain
from helpers.device import GPUS, WARP, limits
from helpers.emulator.launching import request
from helpers.emulator.launching.arguments import (
    Formal,
    bind,
    resolve_type,
    signature,
    strip_comments,
)
from helpers.emulator.launching.report import Finding, LineAccess, Report
from helpers.emulator.machine.access import PARAM_BASE, SYMBOL_SLOT, symbol_address
from helpers.emulator.machine.machine import Launch, State, StepBudgetError
from helpers.emulator.machine.memory import SLOT_BITS, Buffer, Heap
from helpers.emulator.observe import oracle
from helpers.emulator.observe.order import MAX_WARPS
from helpers.emulator.ptx import parse as P
from helpers.emulator.ptx.program import Program, SharedSymbol, demangle, translate
from helpers.errors import (
    CompileError,
    ConfigError,
    EmulationError,
    TileError,
    UnknownNameError,
    near_matches,
)

Array = np.ndarray[Any, np.dtype[Any]]

SCHEDULES = request.SCHEDULES
LANES = 1 << 16  # threads that run together: their registers should fit the processor's cache
MAX_STEPS = 3_000_000  # PTX instructions of one path through the program
MAX_SECONDS = 600.0
_SHARED_ROOM = 1 << 26  # bytes of shared memory of the blocks that run together
_LOCAL_ROOM = 1 << 28  # bytes of their local memory
_ORDER_ROOM = 1 << 22  # places times warps whose last accesses are kept
_REGISTER_ROOM = 1 << 26  # elements of their registers that live longer than a basic block

_QUALIFIERS = re.compile(r"__align__\s*\([^)]*\)|alignas\s*\([^)]*\)|extern|volatile|static")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.+?)[ \t]*$", re.M)
_CONSTANT = re.compile(
    r"\b(?:constexpr|const)\s+(?:int|unsigned|size_t|auto)\s+(\w+)\s*=\s*([^;]+);"
)

# What a kernel that the emulator does not model may make NumPy or Python raise.
_INNER = (
    RecursionError, MemoryError, FloatingPointError, ValueError, TypeError, KeyError, IndexError,
    AttributeError, OverflowError, ZeroDivisionError, AssertionError, StopIteration, SyntaxError,
)  # fmt: skip


F = TypeVar("F", bound=Callable[..., Any])


def _timed(function: F) -> F:
    """Append each call's seconds to the file that TILE_EMULATOR_LOG names, if it names one.

    `make book` prints their sum: the emulator's share of the build.
    """

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*args, **options)
        finally:
            if log := os.environ.get("TILE_EMULATOR_LOG"):
                with open(log, "a", encoding="utf-8") as file:
                    file.write(f"{time.perf_counter() - started:.6f}\n")

    return cast("F", call)


@_timed
def launch(
    source: str,
    entry: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    shared_bytes: int = 0,
    defines: Mapping[str, Any] | None = None,
    arch: str = "sm_75",
    *,
    name: str = "kernel.cu",
    analyse: bool = True,
    uninitialised: Sequence[str] = (),
    symbols: Mapping[str, Array] | None = None,
    sample_blocks: int | Sequence[tuple[int, int, int]] | None = None,
    max_steps: int = MAX_STEPS,
    max_seconds: float = MAX_SECONDS,
    schedule: str = "ascending",
    seed: int = 0,
    lanes: int = LANES,
    expect: Mapping[str, oracle.Expectation] | None = None,
) -> Report:
    """Run a kernel of CUDA C++ source in the emulator; arrays in `args` are changed in place.

    entry: the kernel's name, or a name expression such as "tiled<16>" for a template. grid, block:
    up to three numbers. args: a contiguous NumPy array for each pointer, a number for each scalar,
    a tuple for a structure. shared_bytes: dynamic shared memory. uninitialised: names of array
    parameters whose elements count as never written. symbols: contents of __constant__ and
    __device__ variables, read back after the launch. sample_blocks: run only that many blocks,
    spread over the grid (or those given), for counts of large launches. max_steps: PTX
    instructions until an endless loop is reported; max_seconds: wall time. schedule "permuted"
    runs the warps between two barriers in a random order (seed), which turns races into wrong
    results; the findings stay the same, but where flags or locks order threads: there what one order
    hides another may show. Threads that wait for others let them run, and all blocks that a GPU holds
    at a time run together, lower ones first; a wait that nothing ends is a finding ("deadlock").
    analyse=False: results only, no counts, races or
    initialisation. lanes: threads run at once. expect: what arrays (by the names of parameters and
    symbols) should hold afterwards, each alone or as a pair with the largest absolute error, a
    number or one for each element. Elements that differ become findings of the kind "wrong-result"
    by the source line and the thread that wrote them last. Without an error integers must be equal
    and floats may be off by sqrt(eps) of the array's type times the largest magnitude expected;
    uint16 beside floats is read as bfloat16. The launch runs twice if something is wrong.

    Returns a Report. Raises CompileError with the compiler's log, UnknownNameError for the entry,
    ConfigError for a launch that no GPU of `arch` accepts, EmulationError for arguments that do
    not fit and for PTX that is not emulated.
    """
    request.words(source, entry, name, arch)
    chosen = request.macros(defines)
    args = request.arguments(args)
    grid3, block3 = request.geometry("grid", grid), request.geometry("block", block)
    shared_bytes = request.whole("shared_bytes", shared_bytes, 0)
    request.options(uninitialised, symbols, expect, schedule, seed, lanes, max_steps, max_seconds)
    chosen_blocks = request.sample(grid3, sample_blocks)
    compiler = toolchain.compiler()
    program, formals = _program(source, entry, arch, tuple(sorted(chosen.items())), name, compiler)
    total_shared = _check_limits(program, grid3, block3, shared_bytes, arch, entry)
    if expect and chosen_blocks is not None:
        raise ConfigError("expect needs the whole grid: leave sample_blocks out")
    contents = symbols or {}
    total = int(np.prod(grid3 if chosen_blocks is None else [len(chosen_blocks)]))

    def once(analyse: bool, wrong: Sequence[oracle.Wrong] = ()) -> tuple[State, Heap, int, bool]:
        """Run every block; the last batch, the memory, how many blocks ran, whether to the end."""
        heap = Heap()
        params, pointers, named = bind(program.entry, formals, args, heap, entry)
        run = Launch(program, heap)
        run.params = params
        run.analyse = analyse
        run.shared_bytes = total_shared
        run.static_shared = program.static_shared
        run.dynamic_shared = shared_bytes
        run.max_steps = max_steps
        run.schedule = schedule
        run.rng = np.random.default_rng(seed)
        run.order = analyse and program.fences and _warps(grid3, block3) <= MAX_WARPS
        run.sampled = chosen_blocks is not None
        run.keep_samples = analyse
        run.deadline = time.monotonic() + max_seconds
        held = _place_symbols(program, heap, params, contents, entry)
        for buffer in heap.slots.values():
            buffer.granule = min(buffer.itemsize, program.granule)
        _mark_uninitialised(named, uninitialised, entry)
        if program.stored_params is not None:
            slots = {pointers[p].base >> SLOT_BITS for p in program.stored_params if p in pointers}
            run.writable = slots | {s for s in heap.slots if s >= SYMBOL_SLOT}
        oracle.check(expect or {}, heap, entry)
        oracle.watch(wrong, heap)

        ended, blocks_run = True, 0
        with np.errstate(all="ignore"):
            try:
                room = _room(program, total_shared, block3, lanes)
                run.together = _at_a_time(room, block3)
                if program.polls and chosen_blocks is None:
                    room, run.together = _resident(program, total_shared, block3, lanes, arch)
                for bx, by, bz in _batches(grid3, block3, chosen_blocks, room):
                    state = State(run, grid3, block3, bx, by, bz)
                    run.remaining = total - blocks_run - state.blocks
                    state.run(program.run_function(), {})
                    state.finish()
                    blocks_run += state.blocks
            except StepBudgetError:
                ended = False
            except TileError:
                raise
            except _INNER as e:
                raise EmulationError(
                    f"the emulator failed on {entry} ({type(e).__name__}: {e}). The kernel does "
                    "something it does not model; simplify it, or run it on a GPU"
                ) from e
        for symbol, array in held:
            np.copyto(array, symbol.data.view(array.dtype)[: array.size].reshape(array.shape))
        return state, heap, blocks_run, ended

    before = oracle.kept([*args, *contents.values()]) if expect else []
    state, heap, blocks_run, ended = once(analyse)
    run = state.launch
    if expect and not ended:
        run.notes.append("results were not compared: the launch was stopped")
    elif expect and (wrong := oracle.compare(expect, heap)):
        after = oracle.kept(array for array, _ in before)
        oracle.restore(before)
        again, logged, _, ended = once(False, wrong)
        oracle.restore(after)
        oracle.findings(again, wrong, logged, _entry_line(source, entry), ended)
        run.faults |= {k: f for k, f in again.launch.faults.items() if f.kind == oracle.KIND}
    return _report(run, source, name, entry, grid3, block3, blocks_run, schedule, compiler)


def _entry_line(source: str, entry: str) -> int:
    """The line of the kernel's definition; 0 if it is not in this file."""
    base = re.escape(re.split(r"[<(]", entry)[0].split("::")[-1].strip())
    text = strip_comments(source)
    found = re.search(rf"__global__[^;{{}}]*?\b({base})\s*\(", text)
    return text.count("\n", 0, found.start(1)) + 1 if found else 0


# -- compiling -----------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _program(
    source: str,
    entry: str,
    arch: str,
    defines: tuple[tuple[str, str], ...],
    name: str,
    compiler: str = "",
) -> tuple[Program, list[Formal] | None]:
    """The translated kernel. compiler: whose PTX it is; another makes another program."""
    given = dict(defines)
    is_expression = not re.fullmatch(r"[A-Za-z_]\w*", entry)
    text, mangled = _compile(source, entry, arch, given, name, is_expression)
    return program_of_ptx(text, mangled, entry, source, given, name)


def _compile(
    source: str, entry: str, arch: str, defines: dict[str, str], name: str, is_expression: bool
) -> tuple[str, str]:
    wanted = (entry,) if is_expression else ()
    try:
        compiled = toolchain.compile(
            source, name=name, arch=arch, defines=defines, name_expressions=wanted
        )
    except CompileError as error:
        place = _DEVICE_LAUNCH.search(error.log)
        if place is None or error.hint:
            raise
        raise EmulationError(
            f"line {place[1]} of {name} launches a kernel with <<<>>>, and kernels that launch kernels "
            "are not emulated. Launch kernels from the host, and use malloc and free for memory; a "
            "launch that is the host's becomes emulator.launch(source, entry, grid, block, args)"
        ) from error
    return compiled.ptx, compiled.name_map[entry] if is_expression else entry


_DEVICE_LAUNCH = re.compile(r"\((\d+)\): error: a?\s*device-side kernel launch")
_parsed = lru_cache(maxsize=4)(P.parse)  # the kernels of a source share its module


def program_of_ptx(
    text: str, mangled: str, entry: str, source: str, defines: Mapping[str, str], name: str
) -> tuple[Program, list[Formal] | None]:
    """Parse and translate PTX; the parameters are named after the CUDA source."""
    try:
        module = _parsed(text, name)
        kernels = {n: f for n, f in module.functions.items() if f.is_entry and f.has_body}
        if mangled not in kernels:
            plain = {_plain_name(n): n for n in kernels}
            if not plain:
                raise UnknownNameError(
                    f"{name} has no kernel {entry!r}, nor any other. Mark one with __global__; a "
                    "template needs its arguments: 'tile<16>'"
                )
            if mangled not in plain:
                raise UnknownNameError(
                    f"{name} has no kernel {entry!r}. {near_matches(entry, sorted(plain))}"
                )
            mangled = plain[mangled]
        program = translate(module, mangled)
    except TileError:
        raise
    except _INNER as e:
        raise EmulationError(
            f"the PTX of {name} cannot be read ({type(e).__name__}: {e}). Give PTX as NVRTC writes it"
        ) from e
    _name_shared(program, source, defines)
    base = re.split(r"[<(]", entry)[0].split("::")[-1].strip()
    return program, signature(source, base, defines)


def _plain_name(mangled: str) -> str:
    found = re.match(r"_Z(\d+)", mangled)
    if found:
        start, length = found.end(), int(found.group(1))
        return mangled[start : start + length]
    return mangled


def _name_shared(program: Program, source: str, defines: Mapping[str, str]) -> None:
    """Give shared variables the element size and the shape that their declaration shows."""
    text = strip_comments(source)
    values = _constants(text, defines)
    itemsizes = {"float": 4, "int": 4, "unsigned": 4, "double": 8, "half": 2, "__half": 2,
                 "char": 1, "__nv_bfloat16": 2, "float4": 16, "float2": 8, "int8_t": 1,
                 "uint8_t": 1}  # fmt: skip
    for i, symbol in enumerate(program.shared_symbols):
        found = re.search(
            rf"__shared__([^;]*?)\b{re.escape(symbol.name)}\s*((?:\[[^\]]*\]\s*)*)", text
        )
        if not found:
            continue
        words = _QUALIFIERS.sub(" ", found.group(1)).split(",")[0].split()
        kind = resolve_type(" ".join(words[:1]), text, defines) if words else ""
        base, _, alias = kind.partition("[")  # an alias may itself be an array type
        itemsize = itemsizes.get(resolve_type(base.strip(), text, defines), min(symbol.itemsize, 4))
        shape: list[int] = []
        dimensions = found.group(2) + (f"[{alias}" if alias else "")
        for dimension in re.findall(r"\[([^\]]*)\]", dimensions):
            value = _evaluate(dimension, values)
            if value is None:
                shape = []
                break
            shape.append(value)
        program.shared_symbols[i] = SharedSymbol(
            symbol.name, symbol.start, symbol.size, itemsize, tuple(shape)
        )


def _constants(text: str, defines: Mapping[str, str]) -> dict[str, str]:
    values = dict(_MACRO.findall(text)) | dict(_CONSTANT.findall(text))
    return values | dict(defines)


def _evaluate(expression: str, values: Mapping[str, str], depth: int = 0) -> int | None:
    """An integer constant expression of names and + - * / ( ), or None."""
    if depth > 8:
        return None
    expression = expression.strip()
    for word in set(re.findall(r"[A-Za-z_]\w*", expression)):
        inner = _evaluate(values[word], values, depth + 1) if word in values else None
        if inner is None:
            return None
        expression = re.sub(rf"\b{word}\b", str(inner), expression)
    if not re.fullmatch(r"[\d\s+\-*/()]+", expression) or len(expression) > 200:
        return None
    try:
        return int(eval(expression.replace("/", "//"), {"__builtins__": {}}))  # digits only
    except (SyntaxError, ZeroDivisionError, ValueError, OverflowError):
        return None


# -- geometry ------------------------------------------------------------------------------------


def _check_limits(
    program: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    dynamic: int,
    arch: str,
    entry: str,
) -> int:
    """Total shared memory in bytes. Raises ConfigError for what the hardware refuses."""
    device = limits(arch)
    threads = block[0] * block[1] * block[2]
    if threads > device.max_threads_per_block:
        raise ConfigError(
            f"{block=} has {threads} threads; a block holds at most {device.max_threads_per_block}. "
            "Use a smaller block and more of them"
        )
    if block[2] > 64:
        raise ConfigError(f"{block=}: blockDim.z is at most 64. Use x and y")
    if grid[1] > 65535 or grid[2] > 65535 or grid[0] > 2**31 - 1:
        raise ConfigError(
            f"{grid=}: gridDim.y and gridDim.z are at most 65535. Use x for the longest dimension"
        )
    required = program.entry.limits.get("reqntid")
    if required and tuple((*required, 1, 1)[:3]) != block:
        raise ConfigError(f"{entry} requires a block of {required}; {block=} was given")
    bounds = program.entry.limits.get("maxntid")
    if bounds and threads > int(np.prod(bounds)):
        raise ConfigError(
            f"{entry} is compiled for at most {int(np.prod(bounds))} threads a block "
            f"(__launch_bounds__); {block=} has {threads}. Launch fewer, or raise the bound"
        )
    static = program.static_shared
    if program.dynamic_shared:
        start = max(program.shared_offsets.values())
        total = max(start, static) + dynamic
    else:
        total = static + dynamic
    optin = device.shared_per_block_optin
    if static > device.shared_per_block or total > optin:
        raise ConfigError(
            f"{entry} asks for {total} bytes of shared memory a block ({static} static, {dynamic} "
            f"dynamic); {arch} has {optin} ({device.shared_per_block} of them static). Use smaller "
            "tiles"
        )
    return total


def _room(program: Program, shared: int, block: tuple[int, int, int], lanes: int) -> int:
    """Threads that may run together so that memory stays bounded."""
    threads = block[0] * block[1] * block[2]
    registers = sum(f.nregisters for f in program.functions.values())
    limit = min(lanes, _REGISTER_ROOM // max(registers, 1))
    if shared:
        limit = min(limit, _SHARED_ROOM // shared * threads)
    if program.local_bytes:
        limit = min(limit, _LOCAL_ROOM // program.local_bytes)
    if program.mbarriers:  # the last accesses to each place are kept, warp by warp
        limit = min(limit, _ORDER_ROOM // max(shared // program.granule, 1) * 32)
    return max(limit, threads)


def _warps(grid: tuple[int, int, int], block: tuple[int, int, int]) -> int:
    """Warps of a launch."""
    return int(np.prod(grid)) * -(-int(np.prod(block)) // WARP)


def _resident(
    program: Program, shared: int, block: tuple[int, int, int], lanes: int, arch: str
) -> tuple[int, str]:
    """Threads that run together in a kernel that waits for other blocks; and why no more, in words.

    As many blocks as the largest known GPU of the architecture holds at a time, so far as threads
    and shared memory decide (registers may allow fewer), if the memory here allows. lanes: as many
    threads at most, if the caller chose another number than `LANES`.
    """
    device, threads = limits(arch), block[0] * block[1] * block[2]
    gpus = [g for g in GPUS.values() if g.arch == device.arch]
    each = min(device.max_blocks_per_sm, device.max_warps_per_sm // -(-threads // WARP))
    if shared:
        each = min(each, device.shared_per_sm // (shared + device.shared_reserved_per_block))
    gpu = max(gpus, key=lambda g: g.sms, default=None)
    held = max(each, 1) * gpu.sms if gpu else max(lanes // threads, 1)
    room = _room(program, shared, block, held * threads)
    if lanes != LANES:
        room = max(min(room, lanes), threads)
    if gpu and room // threads >= held:
        return room, f"a {gpu.name} holds at most {held} blocks of this kernel at a time"
    return room, _at_a_time(room, block)


def _at_a_time(room: int, block: tuple[int, int, int]) -> str:
    return f"the emulator runs {room // int(np.prod(block))} blocks of this kernel at a time"


def _batches(
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    chosen: list[tuple[int, int, int]] | None,
    lanes: int,
) -> Any:
    """Blocks that run together, as index arrays over the axes p and q."""
    per_batch = max(1, lanes // (block[0] * block[1] * block[2]))
    if chosen is not None:
        for start in range(0, len(chosen), per_batch):
            part = np.array(chosen[start : start + per_batch], np.int32)
            yield tuple(part[:, i].reshape(1, 1, -1, 1) for i in range(3))
        return
    gx, gy, gz = grid
    across = min(gx, per_batch)
    down = max(1, min(gy * gz, per_batch // across)) if across == gx else 1
    for row in range(0, gy * gz, down):
        rows = np.arange(row, min(row + down, gy * gz), dtype=np.int32).reshape(1, 1, -1, 1)
        by, bz = rows % gy, rows // gy
        if gz == 1:
            bz = np.zeros((1, 1, 1, 1), np.int32)
        for column in range(0, gx, across):
            bx = np.arange(column, min(column + across, gx), dtype=np.int32).reshape(1, 1, 1, -1)
            yield bx, by, bz


# -- memory --------------------------------------------------------------------------------------


def _place_symbols(
    program: Program, heap: Heap, params: bytes, contents: Mapping[str, Array], entry: str
) -> list[tuple[Buffer, Array]]:
    """Put module variables at their addresses, filled as the source or the caller says."""
    held = []
    names = {demangle(n): n for n in program.global_symbols} if contents else {}
    for wanted in contents:
        if wanted not in names:
            raise UnknownNameError(
                f"symbols: {entry} has no __constant__ or __device__ variable {wanted!r}. "
                + near_matches(wanted, names)
            )
    asked = {names[wanted] for wanted in contents}
    for mangled, (slot, size) in program.global_symbols.items():
        if mangled not in program.used and mangled not in asked:
            continue
        variable = program.module.variables[mangled]
        data = np.zeros(-(-size // 16) * 16, np.uint8)[:size]
        raw = bytearray(variable.data[:size])
        for at, target, offset in variable.links:
            if target in program.global_symbols:
                address = symbol_address(program.global_symbols[target][0]) + offset
                raw[at : at + 8] = address.to_bytes(8, "little")
            elif target in program.pointed:
                raw[at : at + 8] = program.function_address(target).to_bytes(8, "little")
        data[: len(raw)] = np.frombuffer(bytes(raw), np.uint8)
        plain = demangle(mangled)
        itemsize = variable.align if size % variable.align == 0 else 1
        base = symbol_address(slot)
        buffer = Buffer(plain, base, data, itemsize, read_only=variable.space == "const")
        if plain in contents:
            given = contents[plain]
            array = np.ascontiguousarray(given)
            if array.nbytes > size:
                raise EmulationError(
                    f"symbols[{plain!r}] has {array.nbytes} bytes, the variable {size}. Give an "
                    "array of its size"
                )
            data[: array.nbytes] = array.reshape(-1).view(np.uint8)
            buffer.itemsize = array.dtype.itemsize
            buffer.kind = array.dtype
            if isinstance(given, np.ndarray) and given.flags.writeable and not buffer.read_only:
                held.append((buffer, given))
        heap.slots[SYMBOL_SLOT + slot] = buffer
    if params:
        at = PARAM_BASE >> SLOT_BITS
        data = np.frombuffer(params, np.uint8)
        heap.slots[at] = Buffer("parameters", PARAM_BASE, data, 4, read_only=True)
    return held


def _mark_uninitialised(by_name: Mapping[str, Buffer], names: Sequence[str], entry: str) -> None:
    for wanted in [names] if isinstance(names, str) else names:
        buffer = by_name.get(wanted)
        if buffer is None:
            raise UnknownNameError(
                f"uninitialised: {entry} has no array parameter {wanted!r}. "
                + near_matches(wanted, by_name)
            )
        buffer.initialised = np.zeros(-(-buffer.nbytes // buffer.granule), bool)


# -- reporting -----------------------------------------------------------------------------------


def _report(
    run: Launch,
    source: str,
    name: str,
    entry: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    blocks_run: int,
    schedule: str,
    compiler: str,
) -> Report:
    lines = source.split("\n")

    def text(line: int) -> str:
        return lines[line - 1] if 0 < line <= len(lines) else ""

    findings = [
        Finding(
            f.kind, f.line, text(f.line), f.message, f.count, name,
            f.details["array"], f.details["index"], f.details["block"], f.details["threads"],
            f.details["other_line"], text(f.details["other_line"]),
        )
        for f in run.faults.values()
    ]  # fmt: skip
    findings.sort(key=lambda f: (f.line, f.kind, f.array, f.other_line))
    instructions: dict[str, int] = {}
    for block_program in run.program.blocks:
        times = run.counts.get(block_program.number, 0)
        if times:
            for opcode, n in block_program.opcodes.items():
                instructions[opcode] = instructions.get(opcode, 0) + n * times
    total = grid[0] * grid[1] * grid[2]
    notes = list(run.notes)
    if blocks_run < total and blocks_run:
        notes.append(
            f"counts are of {blocks_run} of {total} blocks; the others were not run and their "
            "results are missing"
        )
    if run.analyse and run.program.fences and not run.order:
        notes.append(
            f"the launch has more than {MAX_WARPS:,} warps: the order that fences make was not "
            "kept, and races between blocks in global memory were not judged"
        )
    return Report(
        kernel=entry,
        file=name,
        grid=grid,
        block=block,
        findings=tuple(findings),
        accesses=_line_accesses(run, text),
        instructions=dict(sorted(instructions.items(), key=lambda i: (-i[1], i[0]))),
        blocks_run=blocks_run,
        blocks_total=total,
        schedule=schedule,
        output="".join(run.output),
        notes=tuple(notes),
        steps=run.steps,
        samples=_samples(run),
        compiler=compiler,
    )


def _line_accesses(run: Launch, text: Any) -> tuple[LineAccess, ...]:
    sums: dict[tuple[int, str, str, str, int], list[int]] = {}
    for site, stats in zip(run.program.sites, run.stats, strict=True):
        if not stats.requests:
            continue
        space = "shared" if stats.wavefronts and site.space in ("shared", "generic") else "global"
        array = ", ".join(stats.arrays)
        key = (site.line, space, site.op, array, site.width)
        row = sums.setdefault(key, [0] * 6)
        for i, value in enumerate(
            (
                stats.requests,
                stats.sectors,
                stats.wavefronts,
                stats.lanes * site.width,
                stats.ideal_sectors,
                stats.ideal_wavefronts,
            )
        ):
            row[i] += value
    return tuple(
        LineAccess(line, text(line), space, op, width, array, *row)
        for (line, space, op, array, width), row in sorted(sums.items())
    )


def _samples(run: Launch) -> dict[tuple[int, str, str], tuple[tuple[str, int, Array], ...]]:
    out: dict[tuple[int, str, str], list[tuple[str, int, Array]]] = {}
    for site, stats in zip(run.program.sites, run.stats, strict=True):
        if stats.samples:
            space = "shared" if stats.wavefronts and site.space != "global" else "global"
            out.setdefault((site.line, space, site.op), []).extend(stats.samples)
    return {k: tuple(v) for k, v in out.items()}
