"""`launch`: compile, translate, run batch by batch, report."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from nogpu import device, disk, project, text, toolchain
from nogpu.emulator.launching import request
from nogpu.emulator.launching.arguments import bind
from nogpu.emulator.launching.declarations import (
    Formal,
    crowded_lines,
    entry_line,
    name_shared,
    signature,
)
from nogpu.emulator.launching.grids import (
    LANES,
    at_a_time,
    batches,
    check_limits,
    cluster_of,
    resident,
    room_for,
    warps_of,
    whole_clusters,
)
from nogpu.emulator.launching.joins import MachineCode, machine_code
from nogpu.emulator.launching.link import give_functions
from nogpu.emulator.launching.report import Report
from nogpu.emulator.launching.summary import summed_up
from nogpu.emulator.machine import mbarrier, scheduler, sync
from nogpu.emulator.machine.events import Observer
from nogpu.emulator.machine.memory import Buffer, Heap
from nogpu.emulator.machine.specials import Chip
from nogpu.emulator.machine.state import Fault, Launch, State, StepBudgetError
from nogpu.emulator.observe import oracle
from nogpu.emulator.observe.clock import MAX_WARPS
from nogpu.emulator.observe.counts import Tally
from nogpu.emulator.observe.engines import EngineWatch
from nogpu.emulator.observe.initialised import FirstWrites
from nogpu.emulator.observe.leaving import Leaving
from nogpu.emulator.observe.machine_code import MachineTally
from nogpu.emulator.observe.pending import UnderWay
from nogpu.emulator.observe.races import RaceWatch
from nogpu.emulator.observe.samples import Sampler
from nogpu.emulator.observe.stores import LastStores
from nogpu.emulator.observe.turns import TurnWatch
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.blocks import translate
from nogpu.emulator.ptx.layout import PARAM_BASE, SLOT_BITS, SYMBOL_SLOT, symbol_address
from nogpu.emulator.ptx.program import Program, demangle
from nogpu.errors import (
    CompileError,
    ConfigError,
    EmulationError,
    TileError,
    ToolchainError,
    UnknownNameError,
    near_matches,
)

Array = np.ndarray[Any, np.dtype[Any]]

SCHEDULES = request.SCHEDULES
MAX_STEPS = 3_000_000  # PTX instructions of one path through the program
MAX_SECONDS = 600.0

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
    samples: bool = False,
    uninitialised: Sequence[str] = (),
    symbols: Mapping[str, Array] | None = None,
    sample_blocks: int | Sequence[tuple[int, int, int]] | None = None,
    max_steps: int = MAX_STEPS,
    max_seconds: float = MAX_SECONDS,
    schedule: str = "ascending",
    seed: int = 0,
    lanes: int = LANES,
    cluster: int | Sequence[int] | None = None,
    expect: Mapping[str, oracle.Expectation] | None = None,
    sass: bool = False,
    engines: bool = False,
) -> Report:
    """Run a kernel of CUDA C++ source in the emulator; arrays in `args` are changed in place.

    source: device code, or a whole program: where that does not compile, its host part (main,
    launches, headers of the host) is left out, line numbers stay, and a note of the report says
    what was left out.

    entry: the kernel's name, or a name expression such as "tiled<16>" for a template. grid, block:
    up to three numbers. args: a contiguous NumPy array for each pointer, a number for each scalar,
    a tuple for a structure. shared_bytes: dynamic shared memory. uninitialised: names of array
    parameters whose elements count as never written. symbols: contents of __constant__ and
    __device__ variables, read back after the launch. sample_blocks: run only that many blocks,
    spread over the grid (or those given), for counts of large launches. max_steps: PTX instructions
    until an endless loop is reported; max_seconds: of the processor, so that a busy machine ends no
    kernel early. schedule "permuted" runs the warps between two barriers in a random order (seed),
    which turns races into wrong results. A kernel without a fault has no finding in any order; in a
    faulty one the order decides what the threads go on to do, so one may show a finding, its line
    or its kind where another shows another. Threads that wait for others let them run, and all
    blocks that a GPU holds at a time run together, lower ones first; a wait that nothing ends is a
    finding ("deadlock"). analyse=False: results only, no counts, races or initialisation.
    samples=True keeps what access maps and `Report.lanes` show, the lanes of each line's first
    requests, and counts what the requests would need at best (`ideal_...`). lanes: threads run at
    once. cluster: blocks a cluster, up to three numbers, as cudaLaunchKernelEx is given them, for
    kernels without __cluster_dims__ (sm_90). Blocks of a cluster run together; where sample_blocks
    names one, its whole cluster runs. expect: what arrays (by the names of parameters and symbols)
    should hold afterwards, each alone or as a pair with the largest absolute error, a number or one
    for each element. Elements that differ become findings of the kind "wrong-result" by the source
    line and the thread that wrote them last. Without an error integers must be equal and floats may
    be off by sqrt(eps) of the array's type times the largest magnitude expected; uint16 beside
    floats is read as bfloat16. The launch runs twice if something is wrong. sass=True: count shared
    accesses as the machine code for `arch` makes them, too: ptxas joins neighbouring reads of the
    PTX (`LineAccess.sass_requests`, `sass_wavefronts`). engines=True keeps when the copy engine
    fills which slot of the first block's shared memory, and when it is read
    (`Report.engine_steps`).

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
    request.switch("sass", sass)
    request.switch("samples", samples)
    request.switch("engines", engines)
    chosen_blocks = request.sample(grid3, sample_blocks)
    wanted = None if cluster is None else request.geometry("cluster", cluster)
    compiler = toolchain.compiler()
    made_of = compiler, *toolchain.header_state(source)
    compiled_as, left_out = _as_it_compiles(
        source, entry, arch, tuple(sorted(chosen.items())), name, made_of
    )
    program, formals = _program(*compiled_as)
    machine = _machine_code(*compiled_as) if sass and analyse else MachineCode()
    total_shared = check_limits(program, grid3, block3, shared_bytes, arch, entry)
    cluster3 = cluster_of(program, grid3, wanted, arch, entry)
    if chosen_blocks is not None:
        chosen_blocks = whole_clusters(chosen_blocks, cluster3)
    if expect and chosen_blocks is not None:
        raise ConfigError("expect needs the whole grid: leave sample_blocks out")
    if samples and not analyse:
        raise ConfigError("samples=True needs counts: leave analyse=False out")
    asked = _Asked(
        program, formals, entry, arch, grid3, block3, tuple(args), shared_bytes, total_shared,
        symbols or {}, uninitialised, expect or {}, chosen_blocks, schedule, seed, lanes, max_steps,
        max_seconds, cluster3, wanted is not None,
    )  # fmt: skip
    before = oracle.kept([*args, *asked.symbols.values()]) if expect else []
    ordered = program.fences and warps_of(grid3, block3) <= MAX_WARPS
    ran = _run(asked, partial(_watchers, asked, analyse, samples, engines, machine, ordered))
    run = ran.state.launch
    if expect and not ran.ended:
        run.notes.append("results were not compared: the launch was stopped")
    elif expect and (wrong := oracle.compare(expect, ran.heap)):
        run.faults |= _who_wrote(asked, wrong, before, entry_line(source, entry))
    if left_out:
        run.notes.append(left_out)
    if analyse and program.fences and not ordered:
        run.notes.append(
            f"the launch has more than {MAX_WARPS:,} warps: the order that fences make was not "
            "kept, and races between blocks in global memory were not judged"
        )
    return summed_up(
        run, source, name, entry, grid3, block3, ran.blocks, schedule, machine, compiler
    )


@dataclass(frozen=True)
class _Asked:
    """A launch as it was asked for, checked: see `launch`."""

    program: Program
    formals: list[Formal] | None
    entry: str
    arch: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[Any, ...]
    dynamic_shared: int
    total_shared: int
    symbols: Mapping[str, Array]
    uninitialised: Sequence[str]
    expect: Mapping[str, oracle.Expectation]
    blocks: list[tuple[int, int, int]] | None
    schedule: str
    seed: int
    lanes: int
    max_steps: int
    max_seconds: float
    cluster: tuple[int, int, int]
    cluster_given: bool  # by the launch


@dataclass(frozen=True)
class _Ran:
    """What is left of a launch: its last batch, its memory, how many blocks ran, whether to the
    end.
    """

    state: State
    heap: Heap
    blocks: int
    ended: bool


Watchers = Callable[[Heap, set[int] | None, list[Buffer]], Sequence[Observer]]
"""Who watches: given the memory, the slots that may be written (None: all), arrays nobody has set.
"""


def _run(asked: _Asked, watchers: Watchers) -> _Ran:
    """Run every block that was asked for."""
    program, heap = asked.program, Heap()
    params, pointers, named = bind(program.entry, asked.formals, asked.args, heap, asked.entry)
    run = Launch(program, heap)
    run.params = params
    run.shared_bytes = asked.total_shared
    run.static_shared = program.static_shared
    run.dynamic_shared = asked.dynamic_shared
    run.cluster = asked.cluster
    run.explicit_cluster = asked.cluster_given or "reqnctapercluster" in program.entry.limits
    run.max_steps = asked.max_steps
    run.schedule = asked.schedule
    run.rng = np.random.default_rng(asked.seed)
    card, limits = device.typical(asked.arch), device.limits(asked.arch)
    run.chip = Chip(card.sms, limits.max_warps_per_sm, card.boost_mhz, asked.seed)
    run.sampled = asked.blocks is not None
    run.deadline = time.thread_time() + asked.max_seconds
    held = _place_symbols(program, heap, params, asked.symbols, asked.entry)
    for buffer in heap.slots.values():
        buffer.granule = min(buffer.itemsize, program.granule)
    unset = _uninitialised(named, asked.uninitialised, asked.entry)
    writable = None  # slots of the arrays that the kernel may write; None: all
    if program.stored_params is not None:
        slots = {pointers[p].base >> SLOT_BITS for p in program.stored_params if p in pointers}
        writable = slots | {s for s in heap.slots if s >= SYMBOL_SLOT}
    oracle.check(asked.expect, heap, asked.entry)
    run.observers = watchers(heap, writable, unset)
    ran = _run_blocks(asked, run, heap)
    for symbol, array in held:
        np.copyto(array, symbol.data.view(array.dtype)[: array.size].reshape(array.shape))
    return ran


def _run_blocks(asked: _Asked, run: Launch, heap: Heap) -> _Ran:
    """Batch by batch, until all blocks have run or a finding stops the launch."""
    total = int(np.prod(asked.grid if asked.blocks is None else [len(asked.blocks)]))
    ended, done, program, block = True, 0, asked.program, asked.block
    with np.errstate(all="ignore"):
        try:
            room = room_for(program, asked.total_shared, block, asked.lanes, asked.cluster)
            run.together = at_a_time(room, block)
            if program.polls and asked.blocks is None:
                room, run.together = resident(
                    program, asked.total_shared, block, asked.lanes, asked.arch, asked.cluster
                )
            for bx, by, bz in batches(asked.grid, block, asked.blocks, room, asked.cluster):
                state = State(run, asked.grid, block, bx, by, bz)
                run.remaining = total - done - state.blocks
                scheduler.run(state, program.run_function())
                run.steps = max(run.steps, state.steps)
                run.before += state.steps
                mbarrier.report_missing_bytes(state)
                if state.stores is not None:
                    state.stores.never_waited()
                sync.finish(state)
                done += state.blocks
        except StepBudgetError:
            ended = False
        except TileError:
            raise
        except _INNER as e:
            raise EmulationError(
                f"the emulator failed on {asked.entry} ({type(e).__name__}: {e}). The kernel does "
                "something it does not model; simplify it, or run it on a GPU"
            ) from e
    return _Ran(state, heap, done, ended)


def _watchers(
    asked: _Asked,
    analyse: bool,
    samples: bool,
    turns: bool,
    machine: MachineCode,
    ordered: bool,
    heap: Heap,
    writable: set[int] | None,
    unset: list[Buffer],
) -> list[Observer]:
    """Those who watch, as the caller asks. ordered: keep the order that fences make."""
    sites = len(asked.program.sites)
    sampler: list[Observer] = [Sampler(sites)] if samples else []
    sampler += [TurnWatch()] if turns else []
    if not analyse:
        return sampler
    pending = UnderWay()
    first = FirstWrites(pending, unset)
    joined = [MachineTally(machine.spans)] if machine.spans else []
    races = RaceWatch(first, writable, ordered)
    engines = [EngineWatch(races, first)] if asked.program.engines else []
    leaving = [Leaving(races)] if asked.program.clusters else []
    return [Tally(sites), *joined, *sampler, first, pending, *leaving, races, *engines]


def _who_wrote(
    asked: _Asked, wrong: Sequence[oracle.Wrong], before: list[tuple[Array, Array]], line: int
) -> dict[tuple[Any, ...], Fault]:
    """Findings about wrong elements: the launch runs again, and every store to them is kept."""
    after = oracle.kept(array for array, _ in before)
    oracle.restore(before)
    ran = _run(asked, lambda heap, *_: [oracle.logged(wrong, heap)])
    oracle.restore(after)
    (log,) = ran.state.observers
    assert isinstance(log, LastStores)
    oracle.findings(ran.state, wrong, log, ran.heap, line, ran.ended)
    return {k: f for k, f in ran.state.launch.faults.items() if f.kind == oracle.KIND}


# -- compiling -----------------------------------------------------------------------------------


Key = tuple[str, str, str, tuple[tuple[str, str], ...], str, tuple[Any, ...], tuple[str, ...]]
"""What a program is compiled from: source, entry, arch, macros, name, compiler and headers,
options.
"""


def _as_it_compiles(
    source: str,
    entry: str,
    arch: str,
    defines: tuple[tuple[str, str], ...],
    name: str,
    made_of: tuple[Any, ...],
) -> tuple[Key, str]:
    """The source as it stands or, where that does not compile, without its host part; what was left
    out.
    """
    rest = entry, arch, defines, name, made_of
    try:
        _program(source, *rest, ())
    except (CompileError, EmulationError):
        cut = text.device_code(source, (str(Path(name).parent), *map(str, project.include_folders)))
        if not cut.left_out:
            raise
        return (cut.text, *rest, toolchain.prelude()), cut.note
    return (source, *rest, ()), ""


@dataclass(frozen=True)
class Prepared:
    """A kernel as it compiles, for who launches it elsewhere, on a GPU say: see `prepared`.

    source, options: what to compile with which options beside the macros. left_out: what of a whole
    program is not compiled, in words. entry: the kernel's name in the machine code.
    """

    source: str
    options: tuple[str, ...]
    left_out: str
    entry: str
    name: str
    _params: tuple[P.Parameter, ...]
    _formals: tuple[Formal, ...]

    def by_value(self, args: Sequence[Any]) -> list[bytes | None]:
        """For each argument its bytes, or None where the parameter is a pointer.

        Raises EmulationError if the arguments do not fit the signature, as `launch` does.
        """
        raw, pointers = self._bound(args, Heap())
        found: list[bytes | None] = []
        at = 0
        for param in self._params:
            at += -at % param.align
            if param.type == "bytes" and any(at <= p < at + param.size for p in pointers):
                raise EmulationError(
                    f"{self.name} takes a structure that holds a pointer, and only the emulator is "
                    "given those: pass the pointer as a parameter of its own to run it on a GPU"
                )
            found.append(None if at in pointers else raw[at : at + param.size])
            at += param.size
        return found

    def wrong(self, args: Sequence[Any], expect: Mapping[str, oracle.Expectation]) -> list[str]:
        """What of the arrays, as they are now, differs from `expect`, a sentence an array.

        expect, errors: as for `launch`.
        """
        heap = Heap()
        self._bound(args, heap)
        oracle.check(expect, heap, self.name)
        return [oracle.said(w) for w in oracle.compare(expect, heap)]

    def _bound(self, args: Sequence[Any], heap: Heap) -> tuple[bytes, dict[int, Buffer]]:
        entry = P.Function(self.entry, True, list(self._params), [])
        raw, pointers, _ = bind(entry, list(self._formals) or None, args, heap, self.name)
        return raw, pointers


def prepared(
    source: str,
    entry: str,
    *,
    arch: str = "sm_75",
    defines: Mapping[str, Any] | None = None,
    name: str = "kernel.cu",
) -> Prepared:
    """How a source compiles: as it stands, or without its host part. Raises as `launch` does."""
    request.words(source, entry, name, arch)
    made_of = toolchain.compiler(), *toolchain.header_state(source)
    macros = tuple(sorted(request.macros(defines).items()))
    key, left_out = _as_it_compiles(source, entry, arch, macros, name, made_of)
    program, formals = _program(*key)
    code = program.entry
    return Prepared(
        key[0], key[-1], left_out, code.name, entry, tuple(code.params), tuple(formals or ())
    )


@disk.bounded(1 << 28, lambda made: int(made[0].weight))
def _program(
    source: str,
    entry: str,
    arch: str,
    defines: tuple[tuple[str, str], ...],
    name: str,
    _made_of: tuple[Any, ...] = (),
    options: tuple[str, ...] = (),
) -> tuple[Program, list[Formal] | None]:
    """Compiled and translated once for each compiler and each state of the headers it includes."""
    given = dict(defines)
    ptx, mangled = _compile(source, entry, arch, given, name, _is_expression(entry), options)
    return program_of_ptx(ptx, mangled, entry, source, given, name)


@lru_cache(maxsize=256)
def _machine_code(
    source: str,
    entry: str,
    arch: str,
    defines: tuple[tuple[str, str], ...],
    name: str,
    made_of: tuple[Any, ...] = (),
    options: tuple[str, ...] = (),
) -> MachineCode:
    """What the machine code of `_program` does to shared memory."""
    program, _ = _program(source, entry, arch, defines, name, made_of, options)
    wanted = (entry,) if _is_expression(entry) else ()
    compiled = toolchain.compile(
        source,
        name=name,
        arch=arch,
        defines=dict(defines),
        options=options,
        name_expressions=wanted,
    )
    code = _parsed(compiled.ptx, name).functions[program.entry.name]
    return machine_code(program, code, compiled, name)


def _is_expression(entry: str) -> bool:
    """Whether it names an instance of a template, such as tile<8>."""
    return not re.fullmatch(r"[A-Za-z_]\w*", entry)


def _compile(
    source: str,
    entry: str,
    arch: str,
    defines: dict[str, str],
    name: str,
    is_expression: bool,
    options: tuple[str, ...],
) -> tuple[str, str]:
    wanted = (entry,) if is_expression else ()
    try:
        compiled = toolchain.compile(
            source, name=name, arch=arch, defines=defines, options=options, name_expressions=wanted
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
    if not compiled.ptx:
        raise ToolchainError(toolchain.not_stored(name))
    return compiled.ptx, compiled.name_map[entry] if is_expression else entry


_DEVICE_LAUNCH = re.compile(r"\((\d+)\): error: a?\s*device-side kernel launch")
_parsed = lru_cache(maxsize=2)(P.parse)  # the kernels of a source share its module


def program_of_ptx(
    text: str, mangled: str, entry: str, source: str, defines: Mapping[str, str], name: str
) -> tuple[Program, list[Formal] | None]:
    """Parse and translate PTX; the parameters are named after the CUDA source."""
    identity = disk.digest([_TRANSLATOR, text, mangled, name])
    translated = disk.load_or_make("translated", identity, lambda: _translated(text, mangled, entry, name))
    program = give_functions(translated)
    name_shared(program, source, defines)
    program.crowded = crowded_lines(source)
    base = re.split(r"[<(]", entry)[0].split("::")[-1].strip()
    return program, signature(source, base, defines)


_PTX_ROOM = Path(__file__).parent.parent / "ptx"
_TRANSLATOR = disk.code_of(Path(__file__), *_PTX_ROOM.glob("*.py")) + np.__version__
"""What decides, beside the PTX, how a program is translated: the code as it was loaded."""


def _translated(text: str, mangled: str, entry: str, name: str) -> Program:
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
        return translate(module, mangled)
    except TileError:
        raise
    except _INNER as e:
        raise EmulationError(
            f"the PTX of {name} cannot be read ({type(e).__name__}: {e}). Give PTX as NVRTC writes it"
        ) from e


def _plain_name(mangled: str) -> str:
    """The name of a function without its namespaces; what has no C++ name as it is."""
    at = re.match(r"_ZN?", mangled)
    name, rest = mangled, mangled[at.end() :] if at else ""
    while found := re.match(
        r"\d+", rest
    ):  # one length and name for each namespace, then the function's
        name = rest[found.end() : found.end() + int(found[0])]
        rest = rest[found.end() + int(found[0]) :]
        if at and at[0] == "_Z":
            break
    return name


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


def _uninitialised(by_name: Mapping[str, Buffer], names: Sequence[str], entry: str) -> list[Buffer]:
    """The arrays that these parameters name."""
    found = []
    for wanted in [names] if isinstance(names, str) else names:
        buffer = by_name.get(wanted)
        if buffer is None:
            raise UnknownNameError(
                f"uninitialised: {entry} has no array parameter {wanted!r}. "
                + near_matches(wanted, by_name)
            )
        found.append(buffer)
    return found
