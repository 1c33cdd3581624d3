"""`launch`: compile, translate, run batch by batch, report."""

from __future__ import annotations

import math
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast

import numpy as np

from nogpu import device, disk, project, text, toolchain
from nogpu.emulator.launching import declarations, grids
from nogpu.emulator.launching import request as check
from nogpu.emulator.launching.arguments import bind
from nogpu.emulator.launching.declarations import Formal, base_name
from nogpu.emulator.launching.grids import LANES
from nogpu.emulator.launching.link import give_functions
from nogpu.emulator.launching.report import Report
from nogpu.emulator.launching.request import Request, Triple
from nogpu.emulator.launching.summary import summarise
from nogpu.emulator.launching.vectorized import MachineCode, by_site
from nogpu.emulator.machine import mbarrier, scheduler, sync
from nogpu.emulator.machine.events import Observer
from nogpu.emulator.machine.memory import Buffer, Heap
from nogpu.emulator.machine.specials import Chip
from nogpu.emulator.machine.state import Fault, Launch, State, StepBudgetError
from nogpu.emulator.observe import oracle
from nogpu.emulator.observe.async_copies import AsyncCopyWatch
from nogpu.emulator.observe.clock import MAX_WARPS
from nogpu.emulator.observe.counts import MachineTally, Tally
from nogpu.emulator.observe.early_exit import EarlyExitWatch
from nogpu.emulator.observe.engines import EngineWatch
from nogpu.emulator.observe.initialised import FirstWrites
from nogpu.emulator.observe.races import RaceWatch
from nogpu.emulator.observe.samples import Sampler
from nogpu.emulator.observe.slots import SlotWatch
from nogpu.emulator.observe.stores import LastStores
from nogpu.emulator.observe.tensor_watch import TensorWatch
from nogpu.emulator.ptx import causes, layout
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.blocks import translate
from nogpu.emulator.ptx.layout import GRID_WORKSPACE, PARAM_BASE, SLOT_BITS, SYMBOL_SLOT
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

SCHEDULES = check.SCHEDULES
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
    analyse: bool | Literal["counts"] = True,
    samples: bool = False,
    uninitialised: Sequence[str] = (),
    symbols: Mapping[str, Array] | None = None,
    sample_blocks: int | Sequence[Triple] | None = None,
    max_steps: int = MAX_STEPS,
    max_seconds: float = MAX_SECONDS,
    schedule: str = "ascending",
    seed: int = 0,
    lanes: int = LANES,
    cluster: int | Sequence[int] | None = None,
    expect: Mapping[str, oracle.Expectation] | None = None,
    sass: bool = False,
    engines: bool = False,
    cooperative: bool = False,
    variables: dict[str, Array] | None = None,
) -> Report:
    """Run a kernel of CUDA C++ source in the emulator; arrays in `args` are changed in place.

    Threads that wait for others let them run, and all blocks that a GPU holds at a time run
    together, lower ones first; a wait that nothing ends is a finding ("deadlock").

    Parameters
    ----------
    source
        Device code, or a whole program: where that does not compile, its host part (main, launches,
        headers of the host) is left out, line numbers stay, and a note of the report says what was
        left out. Or a module of PTX, whoever wrote it: lines are those that it names by .loc.
    entry
        The kernel's name, or a name expression such as "tiled<16>" for a template.
    grid, block
        Up to three numbers.
    args
        A contiguous NumPy array for each pointer, a number for a scalar, a tuple for a structure:
        its members in order, and for one that is an array, an array or its numbers one by one.
    shared_bytes
        Dynamic shared memory a block.
    name
        What findings show for the file.
    analyse
        False: results only, no counts, races or initialisation. "counts": results and counts, for
        a kernel that is known to be sound.
    samples
        Keep what access maps and `Report.lanes` show, the lanes of each line's first requests, and
        count what the requests would need at best (`ideal_...`).
    uninitialised
        Names of array parameters whose elements count as never written.
    symbols
        Contents of __constant__ and __device__ variables, read back after the launch.
    sample_blocks
        Run only that many blocks, spread over the grid (or those given), for counts of large
        launches. Where it names a block of a cluster, the whole cluster runs.
    max_steps, max_seconds
        PTX instructions until an endless loop is reported, and seconds of the processor, so that a
        busy machine ends no kernel early.
    schedule, seed
        "permuted" runs the warps between two barriers in a random order, which turns races into
        wrong results. A kernel without a fault has no finding in any order; in a faulty one the
        order decides what the threads go on to do, so one may show a finding, its line or its kind
        where another shows another.
    lanes
        Threads run at once.
    cluster
        Blocks a cluster, up to three numbers, as cudaLaunchKernelEx is given them, for kernels
        without __cluster_dims__ (sm_90). Blocks of a cluster run together.
    expect
        What arrays (by the names of parameters and symbols) should hold afterwards, each alone or
        as a pair with the largest absolute error, a number or one for each element. Elements that
        differ become findings of the kind "wrong-result" by the source line and the thread that
        wrote them last. Without an error integers must be equal and floats may be off by sqrt(eps)
        of the array's type times the largest magnitude expected; uint16 beside floats is read as
        bfloat16. The launch runs twice if something is wrong.
    sass
        Count shared accesses as the machine code for `arch` makes them, too: ptxas joins
        neighbouring reads of the PTX (`LineAccess.sass_requests`, `sass_wavefronts`).
    engines
        Keep when the copy engine fills which slot of the first block's shared memory, and when it
        is read (`Report.engine_steps`).
    cooperative
        A launch as by cudaLaunchCooperativeKernel: all blocks run at once, and `this_grid().sync()`
        waits for them.
    variables
        Bytes of __constant__ and __device__ variables by name, from launch to launch: those in it
        are set before, and those that the kernel may have changed are entered afterwards.

    Raises
    ------
    CompileError
        With the compiler's log.
    UnknownNameError
        For the entry, and for names of arrays and symbols.
    ConfigError
        For a launch that no GPU of `arch` accepts.
    EmulationError
        For arguments that do not fit, and for PTX that is not emulated.
    """
    whole_grid = check.geometry("grid", grid)
    return _launch(
        Request(
            source=source,
            entry=entry,
            name=name,
            arch=arch,
            defines=check.macros(defines),
            grid=whole_grid,
            block=check.geometry("block", block),
            args=check.arguments(args),
            shared_bytes=check.whole("shared_bytes", shared_bytes, 0),
            cluster=None if cluster is None else check.geometry("cluster", cluster),
            blocks=check.sample(whole_grid, sample_blocks),
            uninitialised=check.names("uninitialised", uninitialised),
            symbols=check.symbols(symbols),
            variables={} if variables is None else variables,
            expect=check.expectations(expect),
            schedule=check.schedule(schedule),
            seed=check.whole("seed", seed, 0),
            lanes=check.whole("lanes", lanes, 1),
            max_steps=check.whole("max_steps", max_steps, 1),
            max_seconds=check.seconds("max_seconds", max_seconds),
            analyse=analyse if analyse == "counts" else check.switch("analyse", analyse),
            samples=check.switch("samples", samples),
            sass=check.switch("sass", sass),
            engines=check.switch("engines", engines),
            cooperative=check.switch("cooperative", cooperative),
        )
    )


@dataclass(frozen=True)
class _Job:
    """A request whose kernel has compiled, and which the hardware accepts."""

    request: Request
    program: Program
    formals: list[Formal] | None
    shared_bytes: int  # a block, static and dynamic
    cluster: Triple
    blocks: list[Triple] | None  # in whole clusters; None: all


@dataclass(frozen=True)
class _Outcome:
    """What a run leaves: its last batch, how many blocks ran, whether to the end."""

    state: State
    blocks: int
    ended: bool


Observers = Callable[[Heap, set[int] | None, list[Buffer]], Sequence[Observer]]
"""Who watches: given the memory, the slots that may be written (None: all), arrays nobody has set.
"""


def _launch(request: Request) -> Report:
    """Compile, run, compare with what is expected, and report."""
    compilation, left_out = _as_it_compiles(
        request.source,
        request.entry,
        request.arch,
        request.defines,
        request.name,
        alone=math.prod(request.grid) * math.prod(request.block) == 1,
    )
    program, formals = _program(compilation)
    machine = _machine_code(compilation) if request.sass and request.analyse else MachineCode()
    shared = grids.check_limits(
        program, request.grid, request.block, request.shared_bytes, request.arch, request.entry
    )
    cluster = grids.cluster_of(program, request.grid, request.cluster, request.arch, request.entry)
    blocks = None if request.blocks is None else grids.whole_clusters(request.blocks, cluster)
    job = _Job(request, program, formals, shared, cluster, blocks)
    plain = _unoptimised(compilation) if request.analyse is True else None
    keep = request.expect or plain
    before = oracle.snapshot([*request.args, *request.symbols.values()]) if keep else []
    ordered = program.fences and grids.warps_of(request.grid, request.block) <= MAX_WARPS
    outcome = _run(job, partial(_observers, job, machine, ordered))
    run = outcome.state.launch
    kept = _variables(program, run.heap)
    if request.expect and not outcome.ended:
        run.notes.append("results were not compared: the launch was stopped")
    elif request.expect and (mismatches := oracle.compare(request.expect, run.heap)):
        module = partial(_module, compilation)
        line = declarations.entry_line(request.source, request.entry)
        faulty = any(f.kind != "race" for f in run.faults.values())
        run.faults |= _attribute(job, mismatches, before, line, module, faulty)
    elif outcome.ended and request.blocks is None:
        watches = [o for o in run.observers if isinstance(o, FirstWrites)]
        run.notes += [gap for watch in watches for gap in watch.gaps()]
    if request.analyse is True:
        _warn(outcome.state, request, _compile(compilation).log)
    if plain and outcome.ended and all(f.kind != "uninitialised" for f in run.faults.values()):
        run.faults |= _unset_before_optimising(replace(job, program=plain), before)
    if left_out:
        run.notes.append(left_out)
    if request.analyse is True and program.fences and not ordered:
        run.notes.append(
            f"the launch has more than {MAX_WARPS:,} warps: the order that fences make was not "
            "kept, and races between blocks in global memory were not judged"
        )
    request.variables.update(kept)
    compiler = "" if text.is_ptx(request.source) else toolchain.compiler()
    return summarise(run, request, outcome.blocks, machine, compiler)


def _run(job: _Job, observers: Observers) -> _Outcome:
    """Run every block that was asked for."""
    request, program, heap = job.request, job.program, Heap()
    params, pointers, by_name = bind(program.entry, job.formals, request.args, heap, request.entry)
    run = Launch(program, heap)
    run.params = params
    run.shared_bytes = job.shared_bytes
    run.static_shared = program.static_shared
    run.dynamic_shared = request.shared_bytes
    run.cluster = job.cluster
    run.explicit_cluster = bool(request.cluster) or "reqnctapercluster" in program.entry.limits
    run.cooperative = request.cooperative
    if request.cooperative:
        workspace = np.zeros(8, np.uint8)
        heap.slots[GRID_WORKSPACE >> SLOT_BITS] = Buffer(
            "the grid's barrier", GRID_WORKSPACE, workspace, 4
        )
    run.max_steps = request.max_steps
    run.schedule = request.schedule
    run.rng = np.random.default_rng(request.seed)
    card, limits = device.typical(request.arch), device.limits(request.arch)
    run.chip = Chip(card.sms, limits.max_warps_per_sm, card.boost_mhz, request.seed)
    run.sampled = job.blocks is not None
    run.deadline = scheduler.seconds() + request.max_seconds
    writable_symbols = _place_symbols(program, heap, params, request)
    for buffer in heap.slots.values():
        buffer.granule = min(buffer.itemsize, program.granule)
    unset = _uninitialised(by_name, request.uninitialised, request.entry)
    writable = None  # slots of the arrays that the kernel may write; None: all
    if program.stored_params is not None:
        slots = {pointers[p].base >> SLOT_BITS for p in program.stored_params if p in pointers}
        writable = slots | {s for s in heap.slots if s >= SYMBOL_SLOT}
    oracle.check(request.expect, heap, request.entry)
    run.observers = observers(heap, writable, unset)
    outcome = _run_blocks(job, run)
    for symbol, array in writable_symbols:
        np.copyto(array, symbol.data.view(array.dtype)[: array.size].reshape(array.shape))
    return outcome


def _run_blocks(job: _Job, run: Launch) -> _Outcome:
    """Batch by batch, until all blocks have run or a finding stops the launch."""
    request, program, block = job.request, job.program, job.request.block
    total = math.prod(request.grid) if job.blocks is None else len(job.blocks)
    ended, done = True, 0
    with np.errstate(all="ignore"):
        try:
            room = grids.room_for(program, job.shared_bytes, block, request.lanes, job.cluster)
            run.together = grids.at_a_time(room, block)
            if (program.polls or request.cooperative) and job.blocks is None:
                room, run.together = grids.resident(
                    program, job.shared_bytes, block, request.lanes, request.arch, job.cluster
                )
            if request.cooperative and total > room // math.prod(block):
                raise ConfigError(
                    f"cooperative=True with {total} blocks: all must run at once, and "
                    f"{run.together}. Launch fewer, and let each do more"
                )
            order = grids.batches(request.grid, block, job.blocks, room, job.cluster)
            if program.cancels:
                order = grids.cancellable(
                    request.grid, block, job.blocks, room, job.cluster, run.pending
                )
            for bx, by, bz in order:
                state = State(run, request.grid, block, bx, by, bz)
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
                f"the emulator failed on {request.entry} ({type(e).__name__}: {e}). The kernel "
                "does something it does not model; simplify it, or run it on a GPU"
            ) from e
    return _Outcome(state, done, ended)


def _observers(
    job: _Job,
    machine: MachineCode,
    ordered: bool,
    heap: Heap,
    writable: set[int] | None,
    unset: list[Buffer],
) -> list[Observer]:
    """Those who watch, as the caller asks. ordered: keep the order that fences make."""
    request, program = job.request, job.program
    sites = len(program.sites)
    extra: list[Observer] = [Sampler(sites)] if request.samples else []
    extra += [SlotWatch()] if request.engines else []
    if not request.analyse:
        return extra
    extra = [Tally(sites), *([MachineTally(machine.spans)] if machine.spans else []), *extra]
    if request.analyse == "counts":
        return extra
    copies = AsyncCopyWatch()
    first = FirstWrites(copies, unset)
    races = RaceWatch(first, writable, ordered)
    engines = [EngineWatch(races, first)] if program.engines else []
    tensors = [TensorWatch(e) for e in engines if program.tensor_memory]
    exits = [EarlyExitWatch(races, engines)] if program.clusters else []
    return [*extra, first, copies, *exits, races, *engines, *tensors]


def _warn(state: State, request: Request, log: str) -> None:
    """Enter what the compiler warns of and then leaves out, so that no thread shows it."""
    seen = [(f.line, f.details["other_line"]) for f in state.launch.faults.values()]
    entry = base_name(request.entry)
    for line, variable, when in declarations.unset_variables(
        log, request.source, entry, request.name
    ):
        if when:
            state.launch.notes.append(
                f"line {line}: the variable {variable!r} is used without a value {when}, says the "
                "compiler, which may take any number for it"
            )
        elif not any(line in lines for lines in seen):
            state.find(
                "uninitialised",
                line,
                f"the variable {variable!r} is used before it has a value, says the compiler, "
                "which may then leave out whatever is made of it. Set it where it is declared",
                1,
                array=variable,
            )


_NO_NUMBER = re.compile("0f7FC00000|0d7FF8000000000000")  # computed with no value
_BARE = re.compile(
    r"(?:^|[;{])\s*(?!(?:return|goto|using|typedef|struct|class|enum|namespace|extern|else)\b)"
    r"(?:unsigned\s+)?[A-Za-z_][\w:]*\s+\w+(?:\s*,[^;(){}]*)?;",
    re.M,
)  # a declaration that gives its variable no value


@lru_cache(maxsize=256)
def _unoptimised(compilation: Compilation) -> Program | None:
    """The program as it is written, if some way through it reads a variable that it has not set.

    An optimising compiler takes any number for such a variable, and then nothing is left to see.
    """
    compiler = str(compilation.compiler_state[0])
    if text.is_ptx(compilation.source) or not re.fullmatch(r"NVRTC [\d.]+", compiler):
        return None
    folded = _NO_NUMBER.search(_compile(compilation).ptx)
    if not folded and not _BARE.search(compilation.source):
        return None
    options = (*compilation.options, "--device-debug")
    try:
        program, _ = _program(compilation._replace(options=options))
    except (CompileError, EmulationError):  # what optimising alone makes a constant, say
        return None
    return program if program.unset or (folded and program.follows_local) else None


def _unset_before_optimising(
    job: _Job, before: list[tuple[Array, Array]]
) -> dict[tuple[Any, ...], Fault]:
    """Findings of another run about variables without a value. before: what arrays held."""
    after = oracle.snapshot(array for array, _ in before)
    oracle.restore(before)
    job = replace(job, request=replace(job.request, max_seconds=_PATIENCE))
    copies = AsyncCopyWatch()
    try:
        found = _run(job, lambda *_: [FirstWrites(copies, []), copies]).state.launch.faults
    except TileError:
        found = {}
    oracle.restore(after)
    return {k: f for k, f in found.items() if f.kind == "uninitialised" and not f.details["array"]}


def _attribute(
    job: _Job,
    mismatches: Sequence[oracle.Mismatch],
    before: list[tuple[Array, Array]],
    line: int,
    module: Callable[[], P.Module],
    faulty: bool,
) -> dict[tuple[Any, ...], Fault]:
    """Findings about wrong elements: the launch runs again, and every store to them is kept.

    module: the program's text. faulty: whether there are other findings that explain them; a race
    seldom does, since warps run in one order here.
    """
    after, began = oracle.snapshot(array for array, _ in before), scheduler.seconds()
    oracle.restore(before)
    outcome = _run(job, lambda heap, *_: [oracle.store_log(mismatches, heap)])
    state, run = outcome.state, outcome.state.launch
    (log,) = state.observers
    assert isinstance(log, LastStores)
    oracle.report(state, mismatches, log, run.heap, line, outcome.ended)
    if outcome.ended and not faulty:
        _name_cause(job, state, before, module, scheduler.seconds() - began)
    oracle.restore(after)
    return {k: f for k, f in run.faults.items() if f.kind == oracle.KIND}


_PATIENCE = 2.0  # seconds in which causes are looked for, or longer:
_TIMES = 5.0  # times as long as the launch took


def _name_cause(
    job: _Job,
    state: State,
    before: list[tuple[Array, Array]],
    module: Callable[[], P.Module],
    took: float,
) -> None:
    """Enter the instruction with another form of which all results are as expected, if one is."""
    until = scheduler.seconds() + max(_PATIENCE, _TIMES * took)
    for change in causes.changes(module()):
        if scheduler.seconds() > until:
            return
        oracle.restore(before)
        program = give_functions(translate(change.module, job.program.entry.name))
        try:
            outcome = _run(replace(job, program=program), lambda *_: [])
        except TileError:
            continue
        if outcome.ended and not oracle.compare(job.request.expect, outcome.state.launch.heap):
            says = f"Every result would be as expected if {change.says} here"
            state.find(oracle.KIND, change.line, says, 1)
            return


# -- compiling -----------------------------------------------------------------------------------


class Compilation(NamedTuple):
    """What a program is compiled from: source, kernel, macros, the name of the file, the state of
    the compiler and the headers, options beside the macros.
    """

    source: str
    entry: str
    arch: str
    defines: tuple[tuple[str, str], ...]
    name: str
    compiler_state: tuple[Any, ...] = ()
    options: tuple[str, ...] = ()
    alone: bool = False  # for a launch of one thread

    @property
    def is_expression(self) -> bool:
        """Whether `entry` names an instance of a template, such as tile<8>."""
        return not re.fullmatch(r"[A-Za-z_]\w*", self.entry)


def _as_it_compiles(
    source: str, entry: str, arch: str, defines: Mapping[str, str], name: str, alone: bool = False
) -> tuple[Compilation, str]:
    """The source as it stands or, where that does not compile, without its host part; what was left
    out. alone: for a launch of one thread.
    """
    compiler_state = toolchain.compiler(), *toolchain.header_state(source)
    macros = tuple(sorted(defines.items()))
    whole = Compilation(source, entry, arch, macros, name, compiler_state, alone=alone)
    try:
        _program(whole)
    except (CompileError, EmulationError) as error:
        cut = text.device_code(source, (str(Path(name).parent), *map(str, project.include_folders)))
        if not cut.left_out and (isinstance(error, EmulationError) or toolchain.stored()):
            raise
        pasted = whole._replace(source=cut.text, options=toolchain.prelude())
        if not cut.left_out:
            _program(pasted)  # it may lack no more than the names that nvcc's headers bring
        return pasted, cut.note
    return whole, ""


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
        out: list[bytes | None] = []
        at = 0
        for param in self._params:
            at += -at % param.align
            if param.type == "bytes" and any(at <= p < at + param.size for p in pointers):
                raise EmulationError(
                    f"{self.name} takes a structure that holds a pointer, and only the emulator is "
                    "given those: pass the pointer as a parameter of its own to run it on a GPU"
                )
            out.append(None if at in pointers else raw[at : at + param.size])
            at += param.size
        return out

    def mismatches(
        self, args: Sequence[Any], expect: Mapping[str, oracle.Expectation]
    ) -> list[str]:
        """What of the arrays, as they are now, differs from `expect`, a sentence an array.

        expect, errors: as for `launch`.
        """
        heap = Heap()
        self._bound(args, heap)
        oracle.check(expect, heap, self.name)
        return [oracle.describe(w) for w in oracle.compare(expect, heap)]

    def _bound(self, args: Sequence[Any], heap: Heap) -> tuple[bytes, dict[int, Buffer]]:
        entry = P.Function(self.entry, True, list(self._params), [])
        raw, pointers, _ = bind(entry, list(self._formals), args, heap, self.name)
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
    check.check_texts(source, entry, name, arch)
    compilation, left_out = _as_it_compiles(source, entry, arch, check.macros(defines), name)
    program, formals = _program(compilation)
    return Prepared(
        compilation.source,
        compilation.options,
        left_out,
        program.entry.name,
        entry,
        tuple(program.entry.params),
        tuple(formals or ()),
    )


@disk.bounded(1 << 28, lambda made: int(made[0].weight))
def _program(compilation: Compilation) -> tuple[Program, list[Formal] | None]:
    """Compiled and translated once for each compiler and each state of the headers it includes."""
    source, entry, _, defines, name, *_ = compilation
    compiled = _compile(compilation)
    if not compiled.ptx:
        raise ToolchainError(toolchain.not_stored(name))
    mangled = compiled.name_map[entry] if compilation.is_expression else entry
    return program_of_ptx(
        compiled.ptx, mangled, entry, source, dict(defines), name, alone=compilation.alone
    )


def _module(compilation: Compilation) -> P.Module:
    """The text of a program, read once more: who runs it has thrown it away."""
    return _parsed(_compile(compilation).ptx, compilation.name)


@lru_cache(maxsize=256)
def _machine_code(compilation: Compilation) -> MachineCode:
    """What the machine code of `_program` does to shared memory; without a disassembler, why that
    is not known.
    """
    program, _ = _program(compilation)
    compiled, entry = _compile(compilation), _module(compilation).functions[program.entry.name]
    try:
        spans = by_site(program, entry, compiled, compilation.name)
    except ToolchainError as error:
        return MachineCode(compiled.arch, missing=str(error))
    return MachineCode(compiled.arch, spans)


def _compile(compilation: Compilation) -> toolchain.Compiled:
    source, entry, arch, defines, name, _, options, _ = compilation
    if text.is_ptx(source):
        return toolchain.Compiled(arch, source, b"", "", toolchain.Unassembled(), {})
    try:
        return toolchain.compile(
            source,
            name=name,
            arch=arch,
            defines=dict(defines),
            options=options,
            name_expressions=(entry,) if compilation.is_expression else (),
        )
    except CompileError as error:
        place = _DEVICE_LAUNCH.search(error.log)
        if place is None or error.hint:
            raise
        raise EmulationError(
            f"line {place[1]} of {name} launches a kernel with <<<>>>, and kernels that launch "
            "kernels are not emulated. Launch kernels from the host, and use malloc and free for "
            "memory; a launch that is the host's becomes emulator.launch(source, entry, grid, "
            "block, args)"
        ) from error


_DEVICE_LAUNCH = re.compile(r"\((\d+)\): error: a?\s*device-side kernel launch")
_parsed = lru_cache(maxsize=2)(P.parse)  # the kernels of a source share its module


def program_of_ptx(
    text: str,
    mangled: str,
    entry: str,
    source: str,
    defines: Mapping[str, str],
    name: str,
    *,
    alone: bool = False,
) -> tuple[Program, list[Formal] | None]:
    """Parse and translate PTX; the parameters are named after the CUDA source.

    mangled: the kernel's name in the PTX. alone: for a launch of one thread. Raises
    UnknownNameError where the PTX has no such kernel, EmulationError for PTX that is not emulated.
    """
    identity = disk.digest([_TRANSLATOR, text, mangled, name, *(["alone"] if alone else [])])
    translated = disk.load_or_make(
        "translated", identity, lambda: _translated(text, mangled, entry, name, alone)
    )
    program = give_functions(translated)
    declarations.name_shared(program, source, defines)
    program.crowded = declarations.crowded_lines(source)
    program.returns = declarations.returns_early(source, base_name(entry))
    return program, declarations.signature(source, base_name(entry), defines)


_PTX_ROOM = Path(__file__).parent.parent / "ptx"
_TRANSLATOR = disk.code_of(Path(__file__), *_PTX_ROOM.glob("*.py")) + np.__version__
"""What decides, beside the PTX, how a program is translated: the code as it was loaded."""


def _translated(text: str, mangled: str, entry: str, name: str, alone: bool) -> Program:
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
        return translate(module, mangled, alone=alone)
    except TileError:
        raise
    except _INNER as e:
        raise EmulationError(
            f"the PTX of {name} cannot be read ({type(e).__name__}: {e}). Give PTX as NVRTC writes "
            "it"
        ) from e


def _plain_name(mangled: str) -> str:
    """The name of a function without its namespaces; what has no C++ name as it is."""
    at = re.match(r"_ZN?", mangled)
    name, rest = mangled, mangled[at.end() :] if at else ""
    # One length and name for each namespace, then the function's.
    while length := re.match(r"\d+", rest):
        name = rest[length.end() : length.end() + int(length[0])]
        rest = rest[length.end() + int(length[0]) :]
        if at and at[0] == "_Z":
            break
    return name


# -- memory --------------------------------------------------------------------------------------


def _known_as(program: Program) -> dict[str, str]:
    """What the source calls each module variable, by its name in PTX; of two alike that name."""
    plain = {name: demangle(name) for name in program.global_symbols}
    times = Counter(plain.values())
    return {name: known if times[known] == 1 else name for name, known in plain.items()}


def _variables(program: Program, heap: Heap) -> dict[str, Array]:
    """The bytes of the module variables that a kernel may have changed."""
    slots, names = program.global_symbols, _known_as(program)
    placed = {n: heap.slots.get(SYMBOL_SLOT + slots[n][0]) for n in names}
    return {
        names[n]: b.data.view(b.kind or np.uint8).copy()
        for n, b in placed.items() if b and not b.read_only
    }  # fmt: skip


def _place_symbols(
    program: Program, heap: Heap, params: bytes, request: Request
) -> list[tuple[Buffer, Array]]:
    """Put module variables at their addresses, filled as the source or the caller says."""
    writable = list[tuple[Buffer, Array]]()
    contents, entry = request.symbols, request.entry
    known_as = _known_as(program)
    names = {demangle(n): n for n in program.global_symbols} if contents else {}
    for name in contents:
        if name not in names:
            raise UnknownNameError(
                f"symbols: {entry} has no __constant__ or __device__ variable {name!r}. "
                + near_matches(name, names)
            )
    needed = {names[name] for name in contents}
    for mangled, (slot, size) in program.global_symbols.items():
        if mangled not in program.used and mangled not in needed:
            continue
        variable = program.module.variables[mangled]
        data = np.zeros(size, np.uint8)
        raw = bytearray(variable.data[:size])
        for at, target, offset in variable.links:
            if target in program.global_symbols:
                address = layout.symbol_address(program.global_symbols[target][0]) + offset
                raw[at : at + 8] = address.to_bytes(8, "little")
            elif target in program.pointed:
                raw[at : at + 8] = program.function_address(target).to_bytes(8, "little")
        data[: len(raw)] = np.frombuffer(bytes(raw), np.uint8)
        left = request.variables.get(known_as[mangled])
        if left is not None:
            data[: left.nbytes] = left.view(np.uint8)[:size]
        plain = demangle(mangled)
        itemsize = variable.align if size % variable.align == 0 else 1
        base = layout.symbol_address(slot)
        buffer = Buffer(plain, base, data, itemsize, read_only=variable.space == "const")
        if left is not None and size % left.itemsize == 0:
            buffer.kind = left.dtype
        if plain in contents:
            value = contents[plain]
            array = np.ascontiguousarray(value)
            if array.nbytes > size:
                raise EmulationError(
                    f"symbols[{plain!r}] has {array.nbytes} bytes, the variable {size}. Give an "
                    "array of its size"
                )
            data[: array.nbytes] = array.reshape(-1).view(np.uint8)
            buffer.itemsize = array.dtype.itemsize
            buffer.kind = array.dtype
            if isinstance(value, np.ndarray) and value.flags.writeable and not buffer.read_only:
                writable.append((buffer, value))
        heap.slots[SYMBOL_SLOT + slot] = buffer
    if params:
        at = PARAM_BASE >> SLOT_BITS
        data = np.frombuffer(params, np.uint8)
        heap.slots[at] = Buffer("parameters", PARAM_BASE, data, 4, read_only=True)
    return writable


def _uninitialised(by_name: Mapping[str, Buffer], names: Sequence[str], entry: str) -> list[Buffer]:
    """The arrays that these parameters name."""
    buffers = []
    for name in names:
        buffer = by_name.get(name)
        if buffer is None:
            raise UnknownNameError(
                f"uninitialised: {entry} has no array parameter {name!r}. "
                + near_matches(name, by_name)
            )
        buffers.append(buffer)
    return buffers
