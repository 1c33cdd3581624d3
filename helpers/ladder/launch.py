"""Run a kernel of the catalog on arrays: on the GPU, or in the emulator, by the same call."""

import hashlib
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from helpers.ladder import choosing, fitting, model, usage
from helpers.ladder.kernel import Geometry, Kernel, geometry
from helpers.ladder.numbers import (
    STORAGE,
    beyond,
    expected,
    operands,
    poison,
    to_bfloat16,
)
from helpers.ladder.rungs import catalog, find, lay_out
from nogpu import device, toolchain
from nogpu.bfloat16 import BFLOAT16_NAN
from nogpu.emulator import EngineStep, LineAccess, Report
from nogpu.errors import ConfigError, DtypeError, EmulationError, NoGPUError, ShapeError


def _is_cupy(x: object) -> bool:
    return type(x).__module__.split(".")[0] == "cupy"


def _checked_type(name: str, x: Any, kernel: Kernel, dtype: str) -> None:
    """Refuse what is no matrix of this type."""
    if not hasattr(x, "dtype"):
        raise DtypeError(f"{name} is a {type(x).__name__}; give a NumPy or CuPy array of {dtype}")
    if x.ndim != 2:
        raise ShapeError(f"{name} has shape {x.shape}: a matrix has two dimensions; reshape it")
    wanted = STORAGE[dtype]
    if x.dtype != wanted:
        how = "to_bfloat16(x)" if dtype == "bfloat16" else f"x.astype({str(wanted)!r})"
        raise DtypeError(
            f"{name} holds {x.dtype}; {kernel.name} {'gives' if name == 'C' else 'takes'} {dtype}. "
            f"Convert it with {how}, or choose a kernel of that type"
        )
    if x.size == 0:
        raise ShapeError(f"{name} has shape {x.shape}: a matrix needs at least one row and column")


def _checked(name: str, x: Any, kernel: Kernel) -> Any:
    """A contiguous 2-D array of the kernel's dtype, or an error that says what is wrong."""
    _checked_type(name, x, kernel, kernel.dtype)
    if not x.flags.c_contiguous:
        warnings.warn(
            f"{name} is a view that is not contiguous (strides {x.strides}); a row-major copy "
            "was made of it",
            stacklevel=4,
        )
        return x.copy(order="C")
    return x


def facts() -> device.Gpu:
    """The GPU at hand as a row of the GPU table; the H200's where there is none.

    For a GPU that is not in the table, only what `choose` needs is its own: SMs, lanes, limits.
    """
    live, h200 = device.current(), device.gpu("h200")
    if live is None:
        return h200
    lanes = device.FP32_LANES.get(live.arch, 128)
    own = replace(h200, key="", name=live.name, arch=live.arch, sms=live.sms,
                  fp32_lanes_per_sm=lanes)  # fmt: skip
    return live.known or own


def choose(
    kernel: Kernel | str, M: int, N: int, K: int, *, gpu: device.Gpu | None = None
) -> Geometry:
    """The launch with the fewest predicted clocks among the catalog's candidates for this shape.

    gpu: default the one at hand, or the H200 where none is or it does not run the kernel. Each
    candidate is compiled once a process, for the blocks that an SM holds; `model.rounds_of` does
    the rest; slices of K and the Hopper kernels are predicted by `choosing.predicted`, with nothing
    compiled. Its `why` says what was compared. Raises ConfigError where the catalog names no
    candidates or the GPU named is too old for the kernel.
    """
    k = find(kernel)
    if gpu is None:
        gpu = facts()
        if not choosing.runs_on(k, gpu):
            gpu = device.gpu("h200")  # the kernel runs in the emulator then
    if not k.candidates:
        able = ", ".join(name for name, other in catalog.items() if other.candidates)
        raise ConfigError(
            f"{k.name} has one tile for all shapes: leave tile out, or name sizes. A choice by "
            f"shape have: {able}"
        )
    if not choosing.runs_on(k, gpu):
        needed = toolchain.words_for(k.min_arch)
        raise ConfigError(f"{k.name} needs {needed}; the {gpu.name} is {gpu.arch}")
    if "SLICES" in k.params or k.host == "tma":
        return choosing.of((k,), M, N, K, gpu)
    candidates = []
    for change in k.candidates:
        p = geometry(k, M, N, K, **change)
        resident = usage.resources_of(p, gpu.arch).occupancy.blocks
        candidates.append((model.rounds_of(p, gpu, resident), p))
    candidates.sort(key=lambda pair: pair[0].clocks)  # stable: the catalog's order among equals
    reasons = [
        f"{p.tile[0]}x{p.tile[1]}: {r.blocks} blocks, {r.busiest} on the busiest SM, "
        f"{r.clocks / candidates[0][0].clocks:.2f} of the least clocks"
        for r, p in candidates
    ]
    return replace(candidates[0][1], why=f"{M}x{N}x{K} on {gpu.name}. " + "; ".join(reasons))


def matmul(
    *operands: Any,
    kernel: Kernel | str | None = None,
    backend: str | None = None,
    tile: str | None = None,
    **params: int,
) -> Any:
    """C = A B: matmul("tiled_32", A, B), or matmul(A, B, kernel="auto").

    NumPy in, NumPy out; CuPy in, CuPy out. A view that is not contiguous is copied, with a warning.
    kernel: a name of the catalog, or "auto" for the best of the book for the shape, the type and
    the GPU (`choosing.best`). operands: A (M, K) and B (K, N), both in the kernel's dtype (bfloat16
    as uint16 bits). backend: "cuda", "emulator", or None for the GPU where there is one that can
    run the kernel, and the emulator elsewhere. tile: "auto" takes tile sizes from `choose`; params
    override them. Returns C (M, N) in the kernel's out_dtype, with "auto" in that of A and B.
    Raises ShapeError, DtypeError, ConfigError, UnknownKernelError, NoGPUError, and EmulationError
    if the emulator finds a fault in the kernel.
    """
    if kernel is None:
        kernel, operands = (operands or (None,))[0], operands[1:]
    if len(operands) != 2 or not isinstance(kernel, str | Kernel):
        raise ConfigError(
            'matmul takes a kernel and two matrices: matmul("tiled_32", A, B), '
            'or matmul(A, B, kernel="auto")'
        )
    A, B = operands
    if kernel == choosing.AUTO:
        if tile or params:
            raise ConfigError(f'kernel="auto" takes its own tile: leave out {tile=} and {params}')
        return _by_the_best(A, B, backend)
    k = find(kernel)
    A, B = _operands(k, A, B)
    M, N, K = A.shape[0], B.shape[1], A.shape[1]
    if tile not in (None, "auto") or (tile and params):
        raise ConfigError(
            f'{tile=} with {params}: tile is "auto", or left out for sizes of your own'
        )
    p = choose(k, M, N, K) if tile else geometry(k, M, N, K, **params)
    return _product(p, A, B, backend)


def _by_the_best(A: Any, B: Any, backend: str | None) -> Any:
    """A B by the launch that `choosing.best` picks, in the type of A and B."""
    type_of_a = getattr(A, "dtype", type(A).__name__)
    if hasattr(A, "dtype") and getattr(B, "dtype", type_of_a) != type_of_a:
        raise DtypeError(
            f'A holds {type_of_a} and B holds {B.dtype}: kernel="auto" takes both of one type;'
            f" convert one, as with B.astype({str(type_of_a)!r})"
        )
    dtype = next(
        (name for name, storage in STORAGE.items() if storage == type_of_a), str(type_of_a)
    )
    gpu, emulated = facts(), device.current() is None or backend == "emulator"
    A, B = _operands(choosing.contenders(dtype, gpu, emulated=emulated)[0], A, B)
    p = choosing.best(dtype, A.shape[0], B.shape[1], A.shape[1], gpu, emulated=emulated)
    C = _product(p, A, B, backend)
    return C if p.kernel.out_dtype == dtype else _rounded(C, dtype)


def _rounded(C: Any, dtype: str) -> Any:
    """float32 sums in a type of two bytes, rounded to nearest, where they lie."""
    if dtype != "bfloat16":
        return C.astype(STORAGE[dtype])
    if not _is_cupy(C):
        return to_bfloat16(C)
    import cupy

    bits = C.view(np.uint32)
    near = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return cupy.where(cupy.isnan(C), np.uint32(BFLOAT16_NAN), near).astype(np.uint16)


def product(p: Geometry, A: Any, B: Any, *, backend: str | None = None) -> Any:
    """`matmul` by a planned launch.

    Raises its errors, ShapeError if A and B are not of its M, N, K.
    """
    A, B = _operands(p.kernel, A, B)
    _refuse_other_shapes(p, {"A": A, "B": B})
    return _product(p, A, B, backend)


def _operands(k: Kernel, A: Any, B: Any) -> tuple[Any, Any]:
    """A and B as the kernel takes them; an error says what is wrong with them."""
    A, B = _checked("A", A, k), _checked("B", B, k)
    if A.shape[1] != B.shape[0]:
        raise ShapeError(
            f"A is {A.shape[0]}x{A.shape[1]} and B is {B.shape[0]}x{B.shape[1]}: the columns of A "
            "must be as many as the rows of B"
        )
    return A, B


def _refuse_other_shapes(p: Geometry, matrices: Mapping[str, Any]) -> None:
    wanted = {"A": (p.M, p.K), "B": (p.K, p.N), "C": (p.M, p.N)}
    for name, x in matrices.items():
        if x.shape != wanted[name]:
            rows, columns = wanted[name]
            raise ShapeError(
                f"{name} has shape {x.shape}, and this launch of {p.kernel.name} is planned for "
                f"M={p.M}, N={p.N}, K={p.K}: give {name} as {rows}x{columns}, or plan the shape "
                "that you have"
            )


def _backend(k: Kernel, backend: str | None) -> str:
    """ "cuda" or "emulator": as wanted, or the GPU where there is one that can run the kernel."""
    gpu = device.current()
    here = gpu is not None and toolchain.runs(gpu.arch, k.min_arch)
    chosen = backend or ("cuda" if here else "emulator")
    if chosen not in ("cuda", "emulator"):
        raise ConfigError(f'{backend=}: choose "cuda", "emulator", or None for whichever is there')
    return chosen


def _product(p: Geometry, A: Any, B: Any, backend: str | None) -> Any:
    if _backend(p.kernel, backend) == "cuda":
        return _on_gpu(p, A, B)
    C = np.full((p.M, p.N), poison(p.kernel.out_dtype), STORAGE[p.kernel.out_dtype])
    _refuse_faults(p, _emulate(p, _host(A), _host(B), C, uninitialised=("C",)))
    if _is_cupy(A):
        import cupy

        return cupy.asarray(C)
    return C


def _refuse_faults(p: Geometry, report: Report) -> None:
    if report.findings:
        raise EmulationError(f"{p.kernel.name} ran with faults:\n{report}")


def _host(x: Any) -> np.ndarray:
    return x.get() if _is_cupy(x) else x  # type: ignore[no-any-return]


def run(p: Geometry, A: Any, B: Any, C: Any, *, backend: str | None = None) -> None:
    """Launch on arrays that are there: C (M, N) = A (M, K) B (K, N), written in place.

    All three NumPy or all three CuPy, row-major, of the kernel's types. With CuPy arrays the launch
    is in the current stream and is not waited for. backend as for `matmul`; where the arrays lie
    elsewhere they are copied there, and C back. C keeps what the kernel does not write. Raises
    ShapeError, DtypeError, ConfigError, NoGPUError, and EmulationError after C is written if the
    emulator finds a fault.
    """
    on_gpu = existing(p, A, B, C)
    if _backend(p.kernel, backend) == "cuda":
        _run_on_gpu(p, A, B, C)
        return
    if on_gpu:
        written = C.get()
        report = _emulate(p, A.get(), B.get(), written)
        C.set(written)
    else:
        report = _emulate(p, A, B, C)
    _refuse_faults(p, report)


def existing(p: Geometry, A: Any, B: Any, C: Any) -> bool:
    """Whether the arrays of a launch lie on the GPU (CuPy), not in NumPy.

    Raises ShapeError, DtypeError or ConfigError where `run` would refuse them.
    """
    matrices = {"A": A, "B": B, "C": C}
    for name, x in matrices.items():
        dtype = p.kernel.out_dtype if name == "C" else p.kernel.dtype
        _checked_type(name, x, p.kernel, dtype)
        if not x.flags.c_contiguous:
            raise ShapeError(
                f"{name} is a view that is not contiguous (strides {x.strides}), and a launch on "
                "existing arrays copies nothing: give a row-major array, or use matmul"
            )
    _refuse_other_shapes(p, matrices)
    on_gpu = {_is_cupy(x) for x in matrices.values()}
    if len(on_gpu) > 1:
        raise DtypeError("A, B and C must lie together: all three NumPy arrays or all three CuPy")
    if on_gpu == {False} and not C.flags.writeable:
        raise ConfigError("C is read-only: give an array that the launch may write")
    return on_gpu == {True}


def _run_on_gpu(p: Geometry, A: Any, B: Any, C: Any) -> None:
    if device.current() is None:
        cuda_function(p)  # raises NoGPUError with what to do
    if _is_cupy(C):
        cuda_launch(p, A, B, C)
        return
    import cupy

    with device.faults(_what(p)):
        there = cupy.asarray(C)
        cuda_launch(p, cupy.asarray(A), cupy.asarray(B), there)
        C[...] = there.get()  # waits for the launch


def emulator_arch(kernel: Kernel) -> str:
    """Architecture that the emulator compiles a kernel for: its oldest."""
    return kernel.min_arch


def _emulate(
    p: Geometry, A: np.ndarray, B: np.ndarray, C: np.ndarray, arch: str = "", **options: Any
) -> Report:
    """Run a launch in the emulator; C is written in place."""
    from nogpu import emulator

    k, watched = p.kernel, tuple(options.pop("uninitialised", ()))
    if tma := k.host == "tma":
        from helpers.ladder import hopper

        ready = hopper.described(p, A, B, C)
        arguments, counters = [*ready.arguments], {"its counters": ready.counters}
        watched = tuple(ready.output if name == "C" else name for name in watched)
        if expected := options.pop("expect", None):
            want, bound = expected["C"]
            options["expect"] = {ready.output: (ready.wide(want, np.nan), ready.wide(bound, 0.0))}
    else:
        arguments = emulator_arguments(p, A, B, C)
        rooms = list(zip(k.room, arguments[3 + len(p.numbers) :], strict=True))
        counters = {room.name: array for room, array in rooms if room.dtype == "int32"}
        watched += tuple(room.name for room, _ in rooms if room.name not in counters)
    report = emulator.launch(
        k.source,
        k.entry,
        p.grid,
        p.block,
        arguments,
        uninitialised=watched,
        shared_bytes=p.shared_bytes,
        defines=p.defines,
        arch=arch or emulator_arch(k),
        name=k.source_name,
        **options,
    )
    if tma:
        C[...] = ready.written[:, : p.N]
    left = [name for name, counts in counters.items() if counts is not None and counts.any()]
    if left and not report.findings:
        raise EmulationError(
            f"{k.name} leaves {left[0]} other than zero, as before the launch: the next one counts "
            "from there"
        )
    return report


def emulator_arguments(p: Geometry, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> list[Any]:
    """What the emulator launches a "plain" kernel with: arrays, numbers, room (zeros, or NaN)."""
    rooms = (
        np.zeros(count, dtype) if dtype == "int32" else np.full(count, np.nan, dtype)
        for _, dtype, count in p.rooms
    )
    return [A, B, C, *p.numbers, *rooms]


@dataclass(frozen=True)
class Trace:
    """What a launch in the emulator did to memory, line by line, and whether C came out right.

    wrong: elements of C beyond the bound. changed: those of "A" and "B" that were written to.
    """

    plan: Geometry
    report: Report
    C: np.ndarray
    wrong: int
    changed: str = ""

    @property
    def ok(self) -> bool:
        """No wrong element and no finding."""
        return not (self.wrong or self.changed or self.report.findings)

    @property
    def multiply_adds(self) -> int:
        """Warp-level multiply-adds of matrix elements: fma and mma, mad if the elements are int32.

        Address arithmetic (mad of a float kernel) and the loads and stores of wmma do not count.
        """
        integers = self.plan.kernel.dtype == "int32"
        kinds = ("mad.",) if integers else ("fma.", "mma.", "wmma.mma.")
        return sum(n for op, n in self.report.instructions.items() if op.startswith(kinds))

    @property
    def wavefronts(self) -> int:
        """Shared-memory wavefronts of all loads and stores."""
        return sum(row.wavefronts for row in self.by_line() if row.space == "shared")

    def requests(self, space: str, op: str = "load") -> int:
        """Warp-level loads (or stores) of one space: "global" or "shared"."""
        return sum(r.requests for r in self.by_line() if r.space == space and r.op == op)

    def sectors(self, op: str = "load") -> int:
        """32-byte sectors of global memory that all loads (or stores) touched."""
        return sum(r.sectors for r in self.by_line() if r.space == "global" and r.op == op)

    def by_line(self) -> tuple[LineAccess, ...]:
        """Requests, sectors and wavefronts of each source line that touches memory."""
        return self.report.by_line()

    def frame(self) -> Any:
        """by_line() as a pandas DataFrame."""
        return self.report.frame()

    def lanes(self, line: int, space: str = "global", op: str = "load", request: int = 0) -> Any:
        """Array name and element index of each of 32 lanes in one recorded request of a line."""
        return self.report.lanes(line, space, op, request)

    def engine_steps(self) -> tuple[EngineStep, ...]:
        """When slots of shared memory were filled and read, of a trace with engines=True."""
        return self.report.engine_steps()

    def __repr__(self) -> str:
        p = self.plan
        return f"trace of {p.kernel.name}, M={p.M}, N={p.N}, K={p.K}\n{self.report}"


def trace(
    kernel: Kernel | str,
    M: int,
    N: int,
    K: int,
    *,
    seed: int = 0,
    schedule: str = "ascending",
    arch: str = "",
    sass: bool = False,
    samples: bool = False,
    engines: bool = False,
    **params: int,
) -> Trace:
    """Run a kernel in the emulator on random operands and report its memory accesses.

    Elements of C beyond `error_bound` are findings of the kind "wrong-result": which they are, and
    which line and thread wrote them last. Raises the errors of `matmul`, except that faults are
    returned in the report. seed, schedule: of the operands; the order of warps, as for
    `emulator.launch`. arch: what to compile for; default: the kernel's oldest. sass: count shared
    accesses also as that architecture's machine code makes them (`LineAccess.sass_wavefronts`).
    samples: keep what access maps and `lanes` show, and count what each line's requests would need
    at best. engines: keep what `engine_steps` shows.
    """
    options = {"schedule": schedule, "sass": sass, "samples": samples, "engines": engines}
    return trace_of(lay_out(kernel, M, N, K, **params), seed=seed, arch=arch, **options)


def trace_of(p: Geometry, *, seed: int = 0, arch: str = "", **options: Any) -> Trace:
    """`trace` of a planned launch.

    options: schedule, sass, samples and engines of `trace`; analyse, max_seconds and max_steps, as
    for `emulator.launch`.
    """
    k = p.kernel
    A, B = operands(k, p.M, p.N, p.K, seed)
    before = A.copy(), B.copy()
    want, bound = expected(k, A, B, seed)
    C = np.full((p.M, p.N), poison(k.out_dtype), STORAGE[k.out_dtype])
    expect = {"C": (want, bound)}
    report = _emulate(p, A, B, C, arch, uninitialised=("C",), expect=expect, **options)
    pairs = zip("AB", before, (A, B), strict=True)
    changed = "".join(name for name, old, new in pairs if not np.array_equal(old, new))
    return Trace(p, report, C, beyond(k, C, want, bound), changed)


# -- GPU -----------------------------------------------------------------------------------------


@cache
def _cubins() -> tempfile.TemporaryDirectory[str]:
    """Where compiled kernels lie until this process ends."""
    return tempfile.TemporaryDirectory(prefix="tile-by-tile-")


@lru_cache(maxsize=256)
def _module(cubin: bytes) -> Any:
    """A cubin for this device, loaded once. A cubin never depends on the driver's PTX version."""
    return _load(cubin)


def _load(cubin: bytes) -> Any:
    import cupy

    path = Path(_cubins().name) / f"{hashlib.sha256(cubin).hexdigest()}.cubin"
    path.write_bytes(cubin)
    return cupy.RawModule(path=str(path))  # reads the file when a function is first asked for


def cuda_function(p: Geometry, cubin: bytes = b"") -> Any:
    """The compiled kernel of a plan as a CuPy function, ready to launch on the current GPU.

    cubin: the kernel as compiled before for this GPU; empty: compile it now. Raises NoGPUError,
    ConfigError for a GPU that does not run it, and ToolchainError where the compiler is of a later
    CUDA than the driver takes.
    """
    gpu = device.current()
    if gpu is None:
        raise NoGPUError(
            f'{p.kernel.name} was to run with backend="cuda", but no GPU answers on this machine. '
            'Use backend="emulator", or leave backend out'
        )
    k = p.kernel
    if not toolchain.runs(gpu.arch, k.min_arch):
        needed = toolchain.words_for(k.min_arch)
        raise ConfigError(f"{k.name} needs {needed}; this GPU is {gpu.arch}")
    arch = gpu.arch + ("a" if k.min_arch.endswith("a") else "")
    if cubin:
        return _function(_load(cubin), k.entry, p.shared_bytes)
    return cuda_entry(usage.compile_launch(p, arch).cubin, k.entry, p.shared_bytes)


def cuda_entry(cubin: bytes, entry: str, shared_bytes: int = 0) -> Any:
    """A kernel of a cubin that was compiled here, as a CuPy function, loaded once.

    entry: its name in the machine code. Raises ToolchainError where the compiler does not fit the
    driver.
    """
    fitting.refuse_unfit_compiler()
    return _kept_function(_module(cubin), entry, shared_bytes)


def _function(module: Any, entry: str, shared_bytes: int) -> Any:
    function = module.get_function(entry)
    # Of one machine code there is one limit: a launch that needs less leaves it where it is.
    if shared_bytes > 48 * 1024 and shared_bytes > function.max_dynamic_shared_size_bytes:
        function.max_dynamic_shared_size_bytes = shared_bytes
    return function


@lru_cache(maxsize=256)
def _kept_function(module: Any, entry: str, shared_bytes: int) -> Any:
    """A function with its limit set, looked up once for each module."""
    return _function(module, entry, shared_bytes)


def cuda_launch(p: Geometry, A: Any, B: Any, C: Any, cubin: bytes = b"") -> None:
    """Launch a plan on CuPy arrays, in the current stream, without waiting for it.

    cubin: as for `cuda_function`.
    """
    function = cuda_function(p, cubin) if cubin else cuda_function(p)
    if p.kernel.host == "tma":
        from helpers.ladder import hopper

        hopper.launch(p, function, A, B, C)
        return
    function(p.grid, p.block, cuda_arguments(p, A, B, C), shared_mem=p.shared_bytes)


def cuda_arguments(p: Geometry, A: Any, B: Any, C: Any) -> tuple[Any, ...]:
    """The arguments of a "plain" kernel's launch in the current stream: pointers, numbers, room.

    Raises ConfigError for a kernel with room while the stream is captured.
    """
    rooms: tuple[Any, ...] = ()
    if p.kernel.room:
        here = device.stream_at_hand(p.kernel.name)
        new = _room.__wrapped__ if p.kernel.text is not None else _room
        rooms = tuple(new(*here, name, dtype, _steps(count)) for name, dtype, count in p.rooms)
    return passed(p, A, B, C, rooms)


def passed(p: Geometry, A: Any, B: Any, C: Any, rooms: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a "plain" kernel, in order, with these arrays as its room."""
    return (A, B, C, *(np.int32(n) for n in p.numbers), *rooms)


def own_rooms(p: Geometry) -> tuple[Any, ...]:
    """Room of a "plain" kernel for one bound launch alone: CuPy arrays, counters zero."""
    return tuple(_room.__wrapped__(0, 0, 0, name, dtype, count) for name, dtype, count in p.rooms)


def _steps(count: int) -> int:
    """The next power of two, so that few sizes of room are ever made."""
    return 1 << (count - 1).bit_length()


@lru_cache(maxsize=32)
def _room(device: int, stream: int, thread: int, name: str, dtype: str, count: int) -> Any:
    """An array that launches of one stream use one after the other; counters are zero, and stay so.

    device, stream, thread: as `device.stream_at_hand` says them; CuPy's pool gives memory back in
    the same stream.

    A reader's own text has new ones in every launch: it may not leave its counters so.
    """
    import cupy

    return cupy.zeros(count, dtype) if dtype == "int32" else cupy.empty(count, dtype)


def _on_gpu(p: Geometry, A: Any, B: Any) -> Any:
    if device.current() is None:
        cuda_function(p)  # raises NoGPUError with what to do
    import cupy

    with device.faults(_what(p)):
        a, b = cupy.asarray(A), cupy.asarray(B)
        C = cupy.full((p.M, p.N), poison(p.kernel.out_dtype), dtype=STORAGE[p.kernel.out_dtype])
        cuda_launch(p, a, b, C)
        cupy.cuda.get_current_stream().synchronize()
    return C if _is_cupy(A) else C.get()


def _what(p: Geometry) -> str:
    return f"{p.kernel.name} at {p.M}x{p.N}x{p.K}"
