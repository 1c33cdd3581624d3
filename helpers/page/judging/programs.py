"""Any kernel of any source, on any arrays: in the emulator, and on the GPU where there is one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from helpers.ladder import launch
from helpers.page.judging.outcomes import Tried, no_time, unsafe
from helpers.page.judging.texts import SECONDS, at_hand
from helpers.record.protocol import Spread, spread
from nogpu import device, emulator, toolchain
from nogpu.emulator import Prepared, Report
from nogpu.emulator.launching.request import geometry
from nogpu.errors import CompileError, EmulationError, GpuFaultError, TileError, ToolchainError
from nogpu.text import device_code
from tilelabs.apart import room
from tilelabs.judging.compiling import check_text, door

SAMPLES, WARM = 20, 3
"""Launches that are timed on a GPU, and launches before them."""


def sole_entry(source: str) -> str:
    """The name of the only kernel of a source.

    Raises EmulationError where there is none, or more.
    """
    names = device_code(source).kernels
    if len(names) != 1:
        has = f"{len(names)} kernels ({', '.join(names)})" if names else "no __global__ function"
        raise EmulationError(
            f"the source has {has}: name one with entry=... (of a template, tile<8>)"
        )
    return names[0]


@door()
def try_program(
    source: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    entry: str = "",
    expect: Mapping[str, Any] | None = None,
    shared_bytes: int = 0,
    defines: Mapping[str, Any] | None = None,
    arch: str = "",
    backend: str | None = None,
    seconds: float = SECONDS,
) -> Tried:
    """Run a kernel of a source; arrays in `args` (NumPy or CuPy) are changed in place.

    Arguments as for `emulator.launch`; entry may be left out where the source has one kernel.
    expect: what arrays should hold afterwards, by the names of parameters. arch: default the GPU's,
    or "sm_75". backend, seconds: as for `judge`. Raises ConfigError and EmulationError for a launch
    that does not fit; what is wrong with the source itself is in the result.
    """
    gpu = at_hand(backend)
    entry = entry or sole_entry(source)
    arch = arch or (gpu.arch if gpu else "sm_75")
    outcome = Tried(entry, arch)
    options = {"arch": arch, "defines": defines, "name": "your.cu"}
    try:
        outcome = replace(outcome, compiler=toolchain.compiler())
        check_text(source)
        made = emulator.prepared(source, entry, **options)  # type: ignore[arg-type]
    except (CompileError, ToolchainError) as fault:
        return replace(outcome, fault=fault)
    except (
        EmulationError
    ) as fault:  # it compiles, and the emulator does not know what it compiles to
        if gpu is None or backend == "emulator":
            return replace(outcome, fault=fault, untimed=no_time(gpu, backend))
        return replace(
            outcome, fault=fault, untimed="only the emulator reads a kernel's parameters"
        )
    outcome = replace(outcome, left_out=made.left_out, resources=_resources(made, arch, defines))
    inputs = [_host(x) for x in args]
    report, unread = _report(
        source, entry, grid, block, inputs, shared_bytes=shared_bytes, expect=expect,
        max_seconds=seconds, **options,
    )  # fmt: skip
    outcome = replace(outcome, report=report, refused=str(unread or ""))
    why = no_time(gpu, backend) or unsafe(report.findings if report else (), backend)
    if why:
        if report is None:
            return replace(outcome, fault=unread, refused="", untimed=why)
        for x, y in zip(args, inputs, strict=True):
            _give_back(x, y)
        return replace(outcome, where="emulator", untimed=why)
    assert gpu is not None
    try:
        ms = _timed(made, outcome, grid, block, args, shared_bytes, defines)
        differs = made.mismatches([_host(x) for x in args], expect) if expect else []
    except GpuFaultError as fault:
        return replace(outcome, lost=str(fault))
    except TileError as fault:
        return replace(outcome, fault=fault)
    return replace(outcome, where=gpu.name, differs=tuple(differs), ms=ms)


def _resources(made: Prepared, arch: str, defines: Mapping[str, Any] | None) -> Any:
    try:
        return _compiled(made, arch, defines).kernels[made.entry]
    except (ToolchainError, KeyError):
        return None


def _compiled(made: Prepared, arch: str, defines: Mapping[str, Any] | None) -> toolchain.Compiled:
    wanted = () if made.name.isidentifier() else (made.name,)
    macros = {key: str(value) for key, value in (defines or {}).items()}
    return toolchain.compile(
        made.source, name="your.cu", arch=arch, defines=macros, options=made.options,
        name_expressions=wanted,
    )  # fmt: skip


def _host(x: Any) -> Any:
    """A copy on the host, to try on; what is no array as it is."""
    if isinstance(x, np.ndarray):
        return x.copy()
    return x.get() if hasattr(x, "get") and hasattr(x, "dtype") else x


def _give_back(array: Any, computed: Any) -> None:
    """What the emulator computed, into the caller's array."""
    if isinstance(array, np.ndarray):
        if array.flags.writeable:
            array[...] = computed
    elif hasattr(array, "set") and hasattr(array, "dtype"):
        array.set(computed)


def _report(
    source: str, entry: str, grid: Any, block: Any, inputs: list[Any], **options: Any
) -> tuple[Report | None, EmulationError | None]:
    """The emulator's report, or why it does not model this kernel."""
    try:
        with room():
            return emulator.launch(source, entry, grid, block, inputs, **options), None
    except EmulationError as fault:
        return None, fault


# -- on the GPU ------------------------------------------------------------------------------------


def launch_on_gpu(
    source: str,
    entry: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    shared_bytes: int = 0,
    defines: Mapping[str, Any] | None = None,
) -> Spread:
    """Milliseconds of a launch on this GPU; arrays in `args` hold what the first one computed.

    For kernels that the emulator has run without a finding. Raises the errors of `emulator.launch`,
    NoGPUError, GpuFaultError, ConfigError for what this GPU does not launch.
    """
    gpu = at_hand("cuda")
    assert gpu is not None
    made = emulator.prepared(source, entry, arch=gpu.arch, defines=defines, name="your.cu")
    return _timed(made, Tried(entry, gpu.arch), grid, block, args, shared_bytes, defines)


def _timed(made: Prepared, of: Tried, *launched: Any) -> Spread:
    """launched: grid, block, arguments, bytes of shared memory, macros."""
    grid, block, args, shared_bytes, defines = launched
    cubin = _compiled(made, of.arch, defines).cubin
    with device.faults(of.entry):
        function = launch.cuda_entry(cubin, made.entry, shared_bytes)
        return spread(np.array(_ran(function, made, grid, block, args, shared_bytes)))


def _ran(
    function: Any, made: Prepared, grid: Any, block: Any, args: Sequence[Any], shared_bytes: int
) -> list[float]:
    """Launch once on the caller's arrays, then on copies of them; milliseconds of the latter."""
    import cupy

    plain = made.by_value([_host(x) for x in args])
    pairs = list(zip(args, plain, strict=True))
    there = [cupy.asarray(x) if raw is None else _number(raw) for x, raw in pairs]
    spare = [x.copy() if raw is None else x for x, raw in zip(there, plain, strict=True)]
    shape = geometry("grid", grid), geometry("block", block)

    def once(operands: Sequence[Any]) -> None:
        function(*shape, tuple(operands), shared_mem=shared_bytes)

    once(there)
    cupy.cuda.get_current_stream().synchronize()
    for (x, raw), y in zip(pairs, there, strict=True):
        if raw is None and isinstance(x, np.ndarray) and x.flags.writeable:
            x[...] = y.get()
    begin, end, samples = cupy.cuda.Event(), cupy.cuda.Event(), []
    for i in range(WARM + SAMPLES):
        begin.record()
        once(spare)
        end.record()
        end.synchronize()
        if i >= WARM:
            samples.append(float(cupy.cuda.get_elapsed_time(begin, end)))
    return samples


def _number(raw: bytes | None) -> Any:
    """Bytes of an argument by value as a number of that size, which is how CuPy passes them."""
    assert raw is not None
    kinds = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}
    if len(raw) not in kinds:
        raise EmulationError(
            f"a structure of {len(raw)} bytes is passed by value, and CuPy passes 1, 2, 4, 8 or 16:"
            ' give its members one by one, or backend="emulator"'
        )
    return np.frombuffer(raw, kinds[len(raw)])[0]
