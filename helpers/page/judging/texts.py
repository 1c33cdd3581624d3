"""A text in place of a rung's kernel: compiled, tried on awkward shapes, counted, timed.

It compiles in a process of its own (`tilelabs.judging.compiling.door`), as a lab's kernel does, and
what is right and clean runs once more with its warps in another order.
"""

import re
from dataclasses import replace
from typing import Any

import numpy as np

from helpers.ladder import launch, usage
from helpers.ladder.kernel import Kernel
from helpers.ladder.numbers import STORAGE, error_bound, operands, poison, reference, values
from helpers.ladder.rungs import find
from helpers.page.judging.outcomes import Case, Judged, no_time, unsafe
from helpers.page.judging.trying import Shape, common_tiles, roomy_arch, shapes
from helpers.record.plans import Plan, plan
from nogpu import device, toolchain
from nogpu.emulator.launching.declarations import signature
from nogpu.errors import (
    CompileError,
    ConfigError,
    EmulationError,
    GpuFaultError,
    NoGPUError,
    TileError,
    ToolchainError,
    UnknownKernelError,
)
from tilelabs.apart import room
from tilelabs.judging.compiling import check_text, door

SECONDS = 20.0
"""How long a launch of a reader's kernel may take in the emulator."""


@door()
def judge(
    text: str, kernel: Kernel, *, size: int = 1024, backend: str | None = None,
    seconds: float = SECONDS,
) -> Judged:  # fmt: skip
    """The facts of a text that stands in for `kernel`'s file (with its params as tile sizes).

    What it is compared with is the book's kernel with its own, default tile; a text in place of a
    core is timed beside the whole kernel. size: the edge that a GPU times. backend: "emulator"
    leaves a GPU alone; "cuda" launches on it whatever the emulator found; None: a GPU where there
    is one, unless a finding would stop it. seconds: for one launch in the emulator. Raises
    ConfigError for a text without the kernel's entry, a tile that breaks a rule, another backend;
    NoGPUError for "cuda" where there is no GPU. What is wrong with the text itself is in the
    result.
    """
    gpu = at_hand(backend)
    book = plan(_books(kernel), size)
    own = plan(kernel, size).with_source(text)
    arch = _arch(kernel, gpu)
    outcome = Judged(own, book, arch)
    try:
        outcome = replace(outcome, compiler=toolchain.compiler())
        check_text(text)
        usage.compile_launch(own, arch)
        _check_head(own, book)
    except (CompileError, ConfigError, ToolchainError) as fault:
        return replace(outcome, fault=fault)
    outcome = replace(outcome, resources=(_resources(own, arch), _resources(book, arch)))
    try:
        outcome = _emulated(outcome, seconds)
    except EmulationError as fault:
        if gpu is None or backend == "emulator":
            return replace(outcome, fault=fault, untimed=_why_untimed(kernel, gpu, backend))
        outcome = replace(outcome, fault=fault)
    why = _why_untimed(kernel, gpu, backend) or unsafe(outcome.findings, backend)
    if why:
        return replace(outcome, untimed=why)
    assert gpu is not None
    return _on_gpu(outcome, gpu.name, tuple(c.shape for c in outcome.cases) or shapes(kernel))


def _check_head(own: Plan, book: Plan) -> None:
    """Refuse parameters that the launch, which passes what the book's kernel takes, does not fill.

    Of pointers their number counts, and of numbers the type but for the sign.
    """
    given, expected = (signature(p.kernel.source, p.kernel.entry, p.defines) for p in (own, book))
    if given is None or expected is None:
        return
    if len(given) != len(expected):
        raise ConfigError(f"{own.kernel.entry} has {len(given)} parameters, and is called with "
                          f"{len(expected)}: {', '.join(f.text for f in expected)}")  # fmt: skip
    for mine, books in zip(given, expected, strict=True):
        passed = books.pointers or _PLAIN.sub("", books.type) or "int"
        if passed != (mine.pointers or _PLAIN.sub("", mine.type) or "int"):
            raise ConfigError(
                f"the parameter {mine.text!r} of {own.kernel.entry} is passed as {books.text!r}: "
                "write it so"
            )


_PLAIN = re.compile(r"\b(?:(?:un)?signed\b ?|u?int32_t\b)")


def _books(kernel: Kernel) -> Kernel:
    """The book's kernel of this name, with its own tile."""
    try:
        return find(kernel.name)
    except UnknownKernelError:
        return kernel


def at_hand(backend: str | None) -> device.LiveGpu | None:
    """The GPU.

    Raises ConfigError for another backend, NoGPUError for "cuda" where there is none.
    """
    if backend not in (None, "emulator", "cuda"):
        raise ConfigError(f'{backend=}: choose "cuda", "emulator", or None for whichever is there')
    gpu = device.current()
    if backend == "cuda" and gpu is None:
        raise NoGPUError(
            'backend="cuda" was asked for, and no GPU answers on this machine: leave backend out'
        )
    return gpu


def _arch(kernel: Kernel, gpu: device.LiveGpu | None) -> str:
    """What to compile for: the GPU at hand if it can run the kernel, else the oldest that can."""
    if gpu is None or not toolchain.runs(gpu.arch, kernel.min_arch):
        return roomy_arch(kernel)
    return gpu.arch + ("a" if kernel.min_arch.endswith("a") else "")


def _resources(p: Plan, arch: str) -> usage.Resources | None:
    """None where the compiler makes no machine code, or the block would not fit."""
    try:
        return p.resources(arch)
    except (ToolchainError, ConfigError):
        return None


# -- in the emulator -------------------------------------------------------------------------------


@room()
def _emulated(outcome: Judged, seconds: float) -> Judged:
    """Every shape in turn, up to one that is wrong or does not end, and what two kernels ask of
    memory; then the first shape in another order of warps, where nothing is wrong yet.
    """
    own, book, cases = outcome.plan, outcome.book, list[Case]()
    at, counted, tried = common_tiles(own.kernel, book.kernel), None, shapes(own.kernel)

    def traced(shape: Shape, **options: Any) -> launch.Trace:
        options |= {"arch": outcome.arch, "max_seconds": seconds}
        return launch.trace_of(plan(own.kernel, *shape), **options)

    for shape in tried:
        t = traced(shape)
        cases.append(_case(shape, t))
        if any(f.kind in ("step-budget", "deadlock") for f in t.report.findings):
            break
        if counted is None:
            mine = t if shape == at else traced(at)
            counted = mine, _of_the_book(plan(book.kernel, *at), outcome.arch)
        if not cases[-1].right:  # the first is what is told
            break
    outcome = replace(outcome, cases=tuple(cases), counted=counted)
    if outcome.ok:
        turned = _case(tried[0], traced(tried[0], schedule="permuted", analyse=False))
        if not turned.right or turned.findings:
            outcome = replace(outcome, cases=(*cases, replace(turned, turned=True)))
    return outcome


def _case(shape: Shape, t: launch.Trace) -> Case:
    differ = [f for f in t.report.findings if f.kind == "wrong-result"]
    first = differ[0].message if differ else ""
    return Case(shape, "emulator", t.wrong, first, t.report.findings, t.changed)


_KEPT: dict[tuple[object, ...], launch.Trace] = {}
"""Traces of the book's kernels, the last four: each text of a reader is held against the same."""


def _of_the_book(p: Plan, arch: str) -> launch.Trace:
    k = p.kernel
    key = (
        *(k.name, k.source, *p.params.items(), p.M, p.N, p.K, arch, toolchain.compiler()),
        *toolchain.header_state(k.source),
    )
    if key not in _KEPT:
        if len(_KEPT) == 4:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[key] = launch.trace_of(p, arch=arch)
    return _KEPT[key]


# -- on the GPU ------------------------------------------------------------------------------------


def _why_untimed(kernel: Kernel, gpu: device.LiveGpu | None, backend: str | None) -> str:
    why = no_time(gpu, backend)
    if gpu is None or why or toolchain.runs(gpu.arch, kernel.min_arch):
        return why
    needed = toolchain.words_for(kernel.min_arch)
    return f"{kernel.name} needs {needed}, and this {gpu.name} is {gpu.arch}"


def _on_gpu(outcome: Judged, name: str, tried: tuple[Shape, ...]) -> Judged:
    """The same shapes on the GPU, and, if right, the time in turn with the book's kernel."""
    from helpers.record.turns import in_turn

    own = outcome.plan
    cases = list(outcome.cases)
    try:
        for shape in tried:
            cases.append(_run(plan(own.kernel, *shape), name))
        outcome = replace(outcome, cases=tuple(cases))
        if outcome.wrong_case:
            return replace(outcome, untimed="a wrong result is not timed")
        return replace(outcome, timed=in_turn(own, outcome.rival))
    except GpuFaultError as fault:
        return replace(outcome, cases=tuple(cases), lost=str(fault))
    except TileError as fault:  # too large for this GPU, wrong at the large size, above the peak
        return replace(outcome, cases=tuple(cases), untimed=str(fault))


def _run(p: Plan, name: str) -> Case:
    """One shape on the GPU, compared with float64."""
    k = p.kernel
    A, B = operands(k, p.M, p.N, p.K)
    C = np.full((p.M, p.N), poison(k.out_dtype), STORAGE[k.out_dtype])
    p.launch(A, B, C, backend="cuda")
    want, got = reference(k, A, B), values(k.out_dtype, C)
    off = ~(np.abs(got - want) <= error_bound(k, A, B))
    return Case((p.M, p.N, p.K), name, int(off.sum()), _first(off, got, want))


def _first(off: Any, got: np.ndarray, want: np.ndarray) -> str:
    """The first wrong element in words, like the emulator's: nobody saw who wrote it."""
    at = np.argwhere(off)
    if not len(at):
        return ""
    i, j = map(int, at[0])
    rows, columns = at[:, 0], at[:, 1]
    return (
        f"C[{i}, {j}] is {got[i, j]:.6g}, expected {want[i, j]:.6g}. Such are {len(at)} of "
        f"{off.size} elements, rows {rows.min()} to {rows.max()}, columns {columns.min()} to "
        f"{columns.max()}"
    )
