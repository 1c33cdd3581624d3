"""Run a kernel of the catalog on arrays: on the GPU, or in the emulator, by the same call."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers import device, model, toolchain
from helpers.errors import ConfigError, DtypeError, EmulationError, NoGPUError, ShapeError
from helpers.kernel import Kernel, Plan, plan
from helpers.rungs import catalog, find

if TYPE_CHECKING:
    from helpers.emulator import LineAccess, Report

STORAGE: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "int32": np.dtype(np.int32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),  # NumPy has no bfloat16: its bits travel as uint16
}
UNIT_ROUNDOFF: Mapping[str, float] = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Largest relative rounding error of one operation, round to nearest (IEEE 754)."""


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    """Round float32 values to bfloat16, ties to even; the result is the bits as uint16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """float32 values of bfloat16 bits given as uint16."""
    return (np.asarray(bits, np.uint32) << 16).view(np.float32)


def values(dtype: str, x: np.ndarray) -> np.ndarray:
    """float64 values of an array stored for a kernel dtype."""
    return (from_bfloat16(x) if dtype == "bfloat16" else np.asarray(x)).astype(np.float64)


def operands(
    kernel: Kernel | str, M: int, N: int, K: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Random A (M, K) and B (K, N) in the kernel's dtype: N(0, 1), or integers from -99 to 99."""
    dtype = find(kernel).dtype
    rng = np.random.default_rng(seed)
    if dtype == "int32":
        return (
            rng.integers(-99, 100, (M, K), dtype=np.int32),
            rng.integers(-99, 100, (K, N), dtype=np.int32),
        )
    a = rng.standard_normal((M, K), dtype=np.float32)
    b = rng.standard_normal((K, N), dtype=np.float32)
    if dtype == "bfloat16":
        return to_bfloat16(a), to_bfloat16(b)
    return a.astype(STORAGE[dtype]), b.astype(STORAGE[dtype])


def reference(kernel: Kernel | str, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The product in float64 (exact for integers), of the values that A and B hold."""
    dtype = find(kernel).dtype
    return values(dtype, A) @ values(dtype, B)


def error_bound(kernel: Kernel | str, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Largest error that any summation order allows, element by element; it grows with K.

    |C - AB| <= g |A||B| with g = n u / (1 - n u), n = K + 1, u the unit roundoff of float32
    accumulation (doubled for Tensor Cores, which truncate), plus the rounding of the output.
    Integers: 0. Source: Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.
    """
    k = find(kernel)
    if k.dtype == "int32":
        return np.zeros((A.shape[0], B.shape[1]))
    magnitude = np.abs(values(k.dtype, A)) @ np.abs(values(k.dtype, B))
    u = UNIT_ROUNDOFF["float32"] * (1 if k.dtype == "float32" else 4)
    n = A.shape[1] + 1
    bound = n * u / (1 - n * u) * magnitude
    if k.out_dtype != "float32":
        bound = bound + UNIT_ROUNDOFF[k.out_dtype] * (np.abs(reference(k, A, B)) + bound)
    return bound


def wrong_elements(kernel: Kernel | str, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> int:
    """How many elements of C lie outside the error bound; NaN always does."""
    return _beyond(find(kernel), C, reference(kernel, A, B), error_bound(kernel, A, B))


def _beyond(k: Kernel, C: np.ndarray, want: np.ndarray, bound: np.ndarray) -> int:
    return int(np.count_nonzero(~(np.abs(values(k.out_dtype, C) - want) <= bound)))


def _is_cupy(x: object) -> bool:
    return type(x).__module__.split(".")[0] == "cupy"


def _checked(name: str, x: Any, kernel: Kernel) -> Any:
    """A contiguous 2-D array of the kernel's dtype, or an error that says what is wrong."""
    if not hasattr(x, "dtype"):
        raise DtypeError(
            f"{name} is a {type(x).__name__}; give a NumPy or CuPy array of {kernel.dtype}"
        )
    if x.ndim != 2:
        raise ShapeError(f"{name} has shape {x.shape}: a matrix has two dimensions; reshape it")
    wanted = STORAGE[kernel.dtype]
    if x.dtype != wanted:
        how = "to_bfloat16(x)" if kernel.dtype == "bfloat16" else f"x.astype({str(wanted)!r})"
        raise DtypeError(
            f"{name} holds {x.dtype}; {kernel.name} takes {kernel.dtype}. Convert it with {how}, "
            "or choose a kernel of that type"
        )
    if x.size == 0:
        raise ShapeError(f"{name} has shape {x.shape}: a matrix needs at least one row and column")
    if not x.flags.c_contiguous:
        warnings.warn(
            f"{name} is a view that is not contiguous (strides {x.strides}); a row-major copy "
            "was made of it",
            stacklevel=3,
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
    lanes = 64 if live.arch in ("sm_75", "sm_80") else 128
    own = replace(h200, key="", name=live.name, arch=live.arch, sms=live.sms,
                  fp32_lanes_per_sm=lanes)  # fmt: skip
    return live.known or own


def choose(kernel: Kernel | str, M: int, N: int, K: int, *, gpu: device.Gpu | None = None) -> Plan:
    """The plan with the fewest predicted clocks among the catalog's candidates for this shape.

    gpu: default the one at hand, or the H200. Each candidate is compiled once a process, for the
    blocks that an SM holds; `model.rounds` does the rest. plan.why says what was compared. Raises
    ConfigError where the catalog names no candidates or the GPU is too old for the kernel.
    """
    k, gpu = find(kernel), gpu or facts()
    if not k.candidates:
        able = ", ".join(name for name, other in catalog.items() if other.candidates)
        raise ConfigError(
            f"{k.name} has one tile for all shapes: leave tile out, or name sizes. A choice by "
            f"shape have: {able}"
        )
    found = []
    for change in k.candidates:
        p = plan(k, M, N, K, **change)
        resident = toolchain.resources(k, gpu.arch, **change).occupancy.blocks
        found.append((model.rounds(k, M, N, K, gpu=gpu, resident=resident, **change), p))
    found.sort(key=lambda pair: pair[0].clocks)  # stable: the catalog's order among equals
    said = [
        f"{p.tile[0]}x{p.tile[1]}: {r.blocks} blocks, {r.busiest} on the busiest SM, "
        f"{r.clocks / found[0][0].clocks:.2f} of the least clocks"
        for r, p in found
    ]
    return replace(found[0][1], why=f"{M}x{N}x{K} on {gpu.name}. " + "; ".join(said))


def matmul(
    kernel: Kernel | str,
    A: Any,
    B: Any,
    *,
    backend: str | None = None,
    tile: str | None = None,
    **params: int,
) -> Any:
    """C = A B by a kernel of the catalog. NumPy in, NumPy out; CuPy in, CuPy out.

    A: (M, K), B: (K, N), both in the kernel's dtype (bfloat16 as uint16 bits); C: (M, N) in its
    out_dtype. params override tile sizes; tile="auto" takes them from `choose`. backend: "cuda", "emulator", or None for the GPU where
    there is one that can run the kernel, and the emulator elsewhere. A view that is not contiguous is copied, with
    a warning. Raises ShapeError, DtypeError, ConfigError, UnknownKernelError, NoGPUError, and
    EmulationError if the emulator finds a fault in the kernel.
    """
    k = find(kernel)
    A, B = _checked("A", A, k), _checked("B", B, k)
    if A.shape[1] != B.shape[0]:
        raise ShapeError(
            f"A is {A.shape[0]}x{A.shape[1]} and B is {B.shape[0]}x{B.shape[1]}: the columns of A "
            "must be as many as the rows of B"
        )
    M, N, K = A.shape[0], B.shape[1], A.shape[1]
    if tile not in (None, "auto") or (tile and params):
        raise ConfigError(
            f'{tile=} with {params}: tile is "auto", or left out for sizes of your own'
        )
    p = choose(k, M, N, K) if tile else plan(k, M, N, K, **params)
    chosen = backend or ("cuda" if _runs_on(device.current(), k) else "emulator")
    if chosen == "cuda":
        return _on_gpu(p, A, B)
    if chosen != "emulator":
        raise ConfigError(f'{backend=}: choose "cuda", "emulator", or None for whichever is there')
    host = [x.get() if _is_cupy(x) else x for x in (A, B)]
    C, report = _emulate(p, *host)
    if report.findings:
        raise EmulationError(f"{k.name} ran with faults:\n{report}")
    if _is_cupy(A):
        import cupy

        return cupy.asarray(C)
    return C


def _runs_on(gpu: device.LiveGpu | None, kernel: Kernel) -> bool:
    """Whether this GPU can run a kernel, or nothing else can: the emulator runs no TMA kernel."""
    if gpu is None:
        return False
    new_enough = toolchain.arch_number(gpu.arch) >= toolchain.arch_number(kernel.min_arch)
    return new_enough or kernel.host != "plain"


def emulator_arch(kernel: Kernel) -> str:
    """Architecture that the emulator compiles a kernel for: its oldest."""
    return kernel.min_arch


def _emulate(p: Plan, A: np.ndarray, B: np.ndarray, **options: Any) -> tuple[np.ndarray, Report]:
    from helpers import emulator

    k = p.kernel
    if k.host != "plain":
        raise EmulationError(
            f"{k.name} uses TMA and wgmma, which the emulator does not run. It is compiled here and "
            "measured on the H200; use a kernel of chapters 4 to 15 to trace one"
        )
    C = np.full((p.M, p.N), poison(k.out_dtype), STORAGE[k.out_dtype])
    report = emulator.launch(
        k.source,
        k.entry,
        p.grid,
        p.block,
        [A, B, C, p.M, p.N, p.K],
        shared_bytes=p.shared_bytes,
        defines=p.defines,
        arch=emulator_arch(k),
        name=k.file,
        **{"uninitialised": ("C",), **options},
    )
    return C, report


def poison(dtype: str) -> Any:
    """What an output holds before a launch, so that an element nobody writes shows itself."""
    if dtype == "bfloat16":
        return 0x7FC0
    return np.iinfo(np.int32).min if dtype == "int32" else np.nan


@dataclass(frozen=True)
class Trace:
    """What a launch in the emulator did to memory, line by line, and whether C came out right."""

    plan: Plan
    report: Report
    C: np.ndarray
    wrong: int

    @property
    def ok(self) -> bool:
        """No wrong element and no finding."""
        return self.wrong == 0 and not self.report.findings

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
    samples: bool = False,
    **params: int,
) -> Trace:
    """Run a kernel in the emulator on random operands and report its memory accesses.

    Elements of C beyond `error_bound` are findings of the kind "wrong-result": which they are, and
    which line and thread wrote them last. samples: keep what access maps and `lanes` show, and count what
    each line's requests would need at best. Raises the errors of `matmul`, except that faults are returned
    in the report.
    """
    k = find(kernel)
    p = plan(k, M, N, K, **params)
    A, B = operands(k, M, N, K, seed)
    want, bound = reference(k, A, B), error_bound(k, A, B)
    expect = {"C": (want, bound)}
    C, report = _emulate(p, A, B, schedule=schedule, samples=samples, expect=expect)
    return Trace(p, report, C, _beyond(k, C, want, bound))


# -- GPU -----------------------------------------------------------------------------------------


@cache
def _cubins() -> tempfile.TemporaryDirectory[str]:
    """Where compiled kernels lie until this process ends."""
    return tempfile.TemporaryDirectory(prefix="tile-by-tile-")


@lru_cache(maxsize=256)
def _module(source: str, name: str, arch: str, defines: tuple[tuple[str, str], ...]) -> Any:
    """A cubin for this device, loaded by CuPy. A cubin never depends on the driver's PTX version."""
    return _load(toolchain.compile(source, name=name, arch=arch, defines=dict(defines)).cubin)


def _load(cubin: bytes) -> Any:
    import cupy

    path = Path(_cubins().name) / f"{hashlib.sha256(cubin).hexdigest()}.cubin"
    path.write_bytes(cubin)
    return cupy.RawModule(path=str(path))  # reads the file when a function is first asked for


def cuda_function(p: Plan, cubin: bytes = b"") -> Any:
    """The compiled kernel of a plan as a CuPy function, ready to launch on the current GPU.

    cubin: the kernel as compiled before for this GPU; empty: compile it now.
    """
    gpu = device.current()
    if gpu is None:
        raise NoGPUError(
            f'{p.kernel.name} was to run with backend="cuda", but no GPU answers on this machine. '
            'Use backend="emulator", or leave backend out'
        )
    k = p.kernel
    if toolchain.arch_number(gpu.arch) < toolchain.arch_number(k.min_arch):
        raise ConfigError(f"{k.name} needs {k.min_arch} or later; this GPU is {gpu.arch}")
    arch = gpu.arch + ("a" if k.min_arch.endswith("a") else "")
    macros = tuple(sorted(p.defines.items()))
    module = _load(cubin) if cubin else _module(k.source, k.file, arch, macros)
    function = module.get_function(k.entry)
    if p.shared_bytes > 48 * 1024:
        function.max_dynamic_shared_size_bytes = p.shared_bytes
    return function


def cuda_launch(p: Plan, A: Any, B: Any, C: Any, cubin: bytes = b"") -> None:
    """Launch a plan on CuPy arrays, in the current stream, without waiting for it.

    cubin: as for `cuda_function`.
    """
    function = cuda_function(p, cubin) if cubin else cuda_function(p)
    if p.kernel.host == "tma":
        from helpers import hopper

        hopper.launch(p, function, A, B, C)
        return
    arguments = (A, B, C, np.int32(p.M), np.int32(p.N), np.int32(p.K))
    function(p.grid, p.block, arguments, shared_mem=p.shared_bytes)


def _on_gpu(p: Plan, A: Any, B: Any) -> Any:
    if device.current() is None:
        cuda_function(p)  # raises NoGPUError with what to do
    import cupy

    a, b = cupy.asarray(A), cupy.asarray(B)
    C = cupy.full((p.M, p.N), poison(p.kernel.out_dtype), dtype=STORAGE[p.kernel.out_dtype])
    cuda_launch(p, a, b, C)
    cupy.cuda.get_current_stream().synchronize()
    return C if _is_cupy(A) else C.get()
