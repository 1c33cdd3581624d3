"""The only part of measuring that touches CuPy: buffers, launches, events, copies, cuBLAS.

Everything runs on one stream. CuPy is imported when a `Session` is opened, never before.
"""

from __future__ import annotations

import contextlib
import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from helpers.ladder import binding, fitting, launch, numbers
from helpers.ladder.kernel import Geometry, Kernel
from helpers.record import protocol, telemetry
from nogpu import device, disk, toolchain
from nogpu.errors import ConfigError, GpuFaultError, NoGPUError

# cudaDataType and cublasComputeType_t, as in library_types.h and cublas_api.h.
_CUDA_TYPE = {"float32": 0, "float16": 2, "bfloat16": 14, "float64": 1}
_COMPUTE_32F, _COMPUTE_64F = 68, 70
_FAST_16BF, _FAST_TF32 = 75, 77
_DEFAULT_ALGORITHM = -1


PRECISION: Mapping[str, str] = {
    "float32": "fp32", "int32": "int32", "float16": "fp16", "bfloat16": "bf16",
}  # fmt: skip
"""Whose peak bounds the rate of a kernel on operands of a type."""


@dataclass(frozen=True)
class Baseline:
    """A cuBLAS product with FP32 accumulation: what the matrices hold and how it may round them."""

    name: str
    title: str
    dtype: str
    precision: str
    compute: int
    min_arch: str = "sm_75"
    input_roundoff: float = 0.0
    """Unit roundoff of the type that its inputs are rounded to inside the call; 0: not rounded."""


BASELINES: Mapping[str, Baseline] = {
    b.name: b
    for b in (
        Baseline("cublas_fp32", "cuBLAS FP32", "float32", "fp32", _COMPUTE_32F),
        Baseline(
            "cublas_tf32", "cuBLAS TF32", "float32", "tf32", _FAST_TF32, "sm_80", 2.0**-11
        ),
        Baseline(
            "cublas_fast_16bf", "cuBLAS FP32, BF16 allowed (CUBLAS_COMPUTE_32F_FAST_16BF)",
            "float32", "bf16", _FAST_16BF, "sm_80", 2.0**-8,
        ),
        Baseline("cublas_fp16", "cuBLAS FP16", "float16", "fp16", _COMPUTE_32F),
        Baseline("cublas_bf16", "cuBLAS BF16", "bfloat16", "bf16", _COMPUTE_32F, "sm_80"),
    )
}  # fmt: skip

SPIN = """
// Holds the stream while the host queues the launches of a sample, so that none of them waits for
// the host: what the two events enclose is then device time alone.
extern "C" __global__ void spin(long long nanoseconds)
{
    long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}
"""

_FAST_FP64 = ("sm_80", "sm_90", "sm_100")
SAMPLED_ROWS = 512
"""Rows of C that are checked where float64 is slow and the product is large."""


@dataclass
class Problem:
    """Operands of one size and type on the host and the device, and the float64 product.

    rows: the rows of C that reference holds, or None for all of them.
    """

    dtype: str
    M: int
    N: int
    K: int
    host_A: np.ndarray
    host_B: np.ndarray
    A: Any
    B: Any
    reference: Any
    row_norms: Any
    column_norms: Any
    rows: Any

    @property
    def checked(self) -> str:
        """What a result of this problem is compared with, in words."""
        against = "float64 product by cuBLAS DGEMM on the GPU of the same inputs"
        which = "all rows" if self.rows is None else f"{SAMPLED_ROWS} random rows"
        return f"{against}, {which}"


class EventBench:
    """Times operations with CUDA events on one stream (a `protocol.Bench`)."""

    def __init__(self, session: Session, operations: Mapping[str, Callable[[], None]]) -> None:
        self._session = session
        self._operations = dict(operations)
        self._spin_ns: dict[tuple[str, int], int] = {}
        self._start, self._end = session.cupy.cuda.Event(), session.cupy.cuda.Event()

    def sample(self, operation: str, repeat: int) -> float:
        """Milliseconds a launch between two events around `repeat` launches."""
        run, key = self._operations[operation], (operation, repeat)
        for _ in range(4):
            spin_ns = self._spin_ns.setdefault(key, 50_000 + 20_000 * repeat)
            self._session.spin(spin_ns)
            queued = time.perf_counter_ns()
            self._start.record(self._session.stream)
            for _ in range(repeat):
                run()
            self._end.record(self._session.stream)
            queued = time.perf_counter_ns() - queued
            self._end.synchronize()
            ms: float = self._session.cupy.cuda.get_elapsed_time(self._start, self._end)
            # If the host was still queuing when the device began, the device may have waited:
            # spin for longer and take the sample again. A long kernel hides its own queuing.
            if queued < max(spin_ns, 0.01e6 * ms):
                break
            self._spin_ns[key] = 2 * queued
        return ms / repeat


class Session:
    """A GPU opened for measuring.

    Raises NoGPUError where there is none, ToolchainError where cuBLAS is missing or the compiler
    does not fit the driver.
    """

    def __init__(self) -> None:
        live = device.current()
        if live is None:
            raise NoGPUError(
                "measuring needs an NVIDIA GPU, its driver and CuPy, and none answers on this "
                "machine. Run the command on one (in Colab: Runtime, Change runtime type, T4 GPU), "
                "or look at the recorded figures with: python -m helpers ladder --gpu h200"
            )
        import cupy

        fitting.refuse_unfit_compiler()
        self._cublas = fitting.cublas()
        self.cupy = cupy
        self.gpu = live
        self.stream = cupy.cuda.Stream(non_blocking=True)
        bus_id: str = cupy.cuda.Device().pci_bus_id
        self.bus_id = bus_id if telemetry.query("name", bus_id) else None
        self._one = np.ones(1, np.float32)
        self._zero = np.zeros(1, np.float32)
        self._one64 = np.ones(1, np.float64)
        self._zero64 = np.zeros(1, np.float64)
        self._spin = self._load_spin()
        self._problem: Problem | None = None

    @property
    def _handle(self) -> int:
        """This thread's cuBLAS: CuPy keeps one for each thread, and ends it with the thread."""
        return int(self.cupy.cuda.device.get_cublas_handle())

    def _load_spin(self) -> Any:
        compiled = toolchain.compile(SPIN, name="spin.cu", arch=self.gpu.arch)
        module = self.cupy.cuda.function.Module()
        module.load(compiled.cubin)
        self._spin_module = module  # the function dies with its module
        return module.get_function("spin")

    def spin(self, nanoseconds: int) -> None:
        """Queue a kernel that does nothing for this long."""
        with self.stream:
            self._spin((1, 1, 1), (1, 1, 1), (np.int64(nanoseconds),))

    @contextlib.contextmanager
    def on_stream(self) -> Iterator[None]:
        """Make the session's stream CuPy's current one."""
        with self.stream:
            yield

    @contextlib.contextmanager
    def faults(self, what: str) -> Iterator[None]:
        """Turn what CUDA, cuBLAS and CuPy raise into errors of this package that say what to do."""
        cuda = self.cupy.cuda
        try:
            yield
        except cuda.memory.OutOfMemoryError as fault:
            self._problem = None
            self.cupy.get_default_memory_pool().free_all_blocks()
            raise ConfigError(f"{what} does not fit in the GPU's memory: {fault}") from fault
        except self._cublas.CUBLASError as fault:
            raise ConfigError(f"cuBLAS refuses {what} on this GPU: {fault}") from fault
        except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as fault:
            try:
                self.stream.synchronize()
            except Exception as lost:
                raise GpuFaultError(
                    f"{what} stopped the GPU ({fault}), and this process cannot go on. What was "
                    "measured is in the file. Find the fault with compute-sanitizer or in the "
                    "emulator; to record the others now, leave this kernel out with --kernels"
                ) from lost
            raise ConfigError(f"{what} cannot be launched: {fault}") from fault

    # -- what is installed ---------------------------------------------------------------------

    def boost_mhz(self) -> int:
        """Highest SM clock: the largest that the driver, CUDA and the GPU table report."""
        smi = telemetry.query("clocks.max.sm", self.bus_id)
        reported = telemetry.number(smi[0]) if smi else None
        known = self.gpu.known.boost_mhz if self.gpu.known else 0
        return max(self.gpu.boost_mhz, int(reported or 0), known)

    def peak_gflops(self, precision: str) -> float | None:
        """Peak rate of this GPU for a precision, at its highest clock; None if unknown."""
        known, clock = self.gpu.known, self.boost_mhz()
        if not clock:
            return None
        if known is not None:
            return known.peak_gflops(precision) * clock / known.boost_mhz
        if precision not in ("fp32", "int32"):
            return None
        lanes = device.FP32_LANES.get(self.gpu.arch, 128)
        return self.gpu.sms * lanes * 2 * clock / 1e3

    def versions(self) -> dict[str, str | None]:
        """Driver, CUDA, cuBLAS, NVRTC, CuPy, NumPy and Python versions."""
        smi = telemetry.query("driver_version", self.bus_id)
        cublas = int(self._cublas.getVersion(self._handle))
        return {
            "driver": smi[0] if smi else None,
            "cuda": self.gpu.runtime_cuda,
            "cublas": f"{cublas // 10000}.{cublas // 100 % 100}.{cublas % 100}",
            "nvrtc": ".".join(str(part) for part in toolchain.nvrtc().version),
            "cupy": str(self.cupy.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
        }

    def supports(self, min_arch: str) -> bool:
        """Whether this GPU can run what needs an architecture; see `runs`."""
        return toolchain.runs(self.gpu.arch, min_arch)

    # -- data ----------------------------------------------------------------------------------

    def problem(self, dtype: str, M: int, N: int, K: int, seed: int = 0) -> Problem:
        """Operands and reference of a size.

        The last one is kept, for the next kernel at that size.
        """
        last = self._problem
        if last is not None and (last.dtype, last.M, last.N, last.K) == (dtype, M, N, K):
            return last
        self._problem = last = None
        self.cupy.get_default_memory_pool().free_all_blocks()
        host_A, host_B = host_operands(dtype, M, N, K, seed)
        with self.on_stream():
            A, B = self.cupy.asarray(host_A), self.cupy.asarray(host_B)
            A64, B64 = self._float64(A, dtype), self._float64(B, dtype)
            row_norms = self.cupy.sqrt(self.cupy.square(A64).sum(axis=1))
            column_norms = self.cupy.sqrt(self.cupy.square(B64).sum(axis=0))
            rows = None
            if self.gpu.arch not in _FAST_FP64 and 2 * M * N * K > 1 << 35 and M > SAMPLED_ROWS:
                picked = np.random.default_rng(seed).permutation(M)[:SAMPLED_ROWS]
                rows = self.cupy.asarray(np.sort(picked))
                A64, row_norms = A64[rows], row_norms[rows]
            reference = self.cupy.empty((A64.shape[0], N), np.float64)
            self._gemm64(A64, B64, reference)
            self.stream.synchronize()
        self._problem = Problem(
            dtype, M, N, K, host_A, host_B, A, B, reference, row_norms, column_norms, rows
        )
        return self._problem

    def _float64(self, x: Any, dtype: str) -> Any:
        if dtype == "bfloat16":  # its bits travel as uint16, the upper half of a float32
            x = (x.astype(np.uint32) << 16).view(np.float32)
        return x.astype(np.float64)

    def output(self, dtype: str, M: int, N: int) -> Any:
        """An output matrix, poisoned."""
        with self.on_stream():
            C = self.cupy.empty((M, N), numbers.STORAGE[dtype])
        self.poison(C, dtype)
        return C

    def poison(self, C: Any, dtype: str) -> None:
        """Fill C with NaN, or with the smallest integer: an element nobody writes shows itself."""
        with self.on_stream():
            C.fill(numbers.poison(dtype))

    def error(
        self, problem: Problem, C: Any, out_dtype: str, input_roundoff: float = 0.0
    ) -> tuple[float, float]:
        """Largest absolute error of C, and largest ratio of error to tolerance (above 1: wrong).

        Both are NaN where C holds NaN. input_roundoff: see `protocol.tolerance`.
        """
        dtype = problem.dtype
        cp, worst, worst_ratio = self.cupy, 0.0, 0.0
        with self.on_stream():
            result = C if problem.rows is None else C[problem.rows]
            for r0 in range(0, result.shape[0], 1024):  # in bands, so that temporaries stay small
                band = slice(r0, r0 + 1024)
                values = self._float64(result[band], out_dtype)
                wanted = problem.reference[band]
                if bool(cp.isnan(values).any()):
                    return math.nan, math.nan
                error = cp.abs(values - wanted)
                allowed = protocol.tolerance(
                    dtype, problem.row_norms[band], problem.column_norms,
                    input_roundoff=input_roundoff, terms=problem.K,
                )  # fmt: skip
                if out_dtype in ("float16", "bfloat16"):
                    allowed = allowed + numbers.UNIT_ROUNDOFF[out_dtype] * cp.abs(wanted)
                    allowed = allowed + numbers.UNDERFLOW.get(out_dtype, 0.0)
                ratio = error / allowed if dtype != "int32" else cp.where(error == 0, 0.0, cp.inf)
                worst = max(worst, float(error.max()))
                worst_ratio = max(worst_ratio, float(ratio.max()))
            if problem.rows is not None and out_dtype == "float32" and bool(cp.isnan(C).any()):
                return math.nan, math.nan
        return worst, worst_ratio

    # -- operations ----------------------------------------------------------------------------

    def kernel_operation(
        self, plan: Geometry, A: Any, B: Any, C: Any, cubin: bytes = b""
    ) -> Callable[[], None]:
        """A function that launches a plan on the session's stream with as little host time as can
        be.

        cubin: the plan's kernel, where it is compiled already.
        """
        with self.stream:
            start = binding.on_gpu(plan, A, B, C, cubin)
        return partial(start, self.stream)

    def baseline_operation(
        self, name: str, A: Any, B: Any, C: Any, out_dtype: str = "float32"
    ) -> Callable[[], None]:
        """A function that runs cuBLAS on the same row-major matrices.

        Raises ConfigError on an old GPU.
        """
        baseline = BASELINES[name]
        if not self.supports(baseline.min_arch):
            raise ConfigError(
                f"{baseline.title} needs {toolchain.words_for(baseline.min_arch)}; this GPU is"
                f" {self.gpu.arch}"
            )
        in_type, out_type = _CUDA_TYPE[baseline.dtype], _CUDA_TYPE[out_dtype]

        def multiply() -> None:
            with self.stream:
                self._gemm(A, B, C, in_type, out_type, baseline.compute, self._one, self._zero)

        return multiply

    def _gemm(
        self, A: Any, B: Any, C: Any, in_type: int, out_type: int, compute: int, one: np.ndarray,
        zero: np.ndarray,
    ) -> None:  # fmt: skip
        # cuBLAS is column-major: it sees the row-major A, B, C transposed, and C^T = B^T A^T.
        (m, k), n = A.shape, B.shape[1]
        self._cublas.gemmEx(
            self._handle, self._cublas.CUBLAS_OP_N, self._cublas.CUBLAS_OP_N, n, m, k,
            one.ctypes.data, B.data.ptr, in_type, n, A.data.ptr, in_type, k, zero.ctypes.data,
            C.data.ptr, out_type, n, compute, _DEFAULT_ALGORITHM,
        )  # fmt: skip

    def _gemm64(self, A: Any, B: Any, C: Any) -> None:
        double = _CUDA_TYPE["float64"]
        self._gemm(A, B, C, double, double, _COMPUTE_64F, self._one64, self._zero64)

    def bench(self, operations: Mapping[str, Callable[[], None]]) -> protocol.Bench:
        """A bench that times these operations with events on the session's stream."""
        return EventBench(self, operations)

    def warm_up(self, seconds: float = 0.5, edge: int = 2048) -> None:
        """Keep the GPU busy for a while, so that it has left its idle clock when timing begins."""
        with self.on_stream():
            A, B, C = (self.cupy.ones((edge, edge), np.float32) for _ in range(3))
        multiply = self.baseline_operation("cublas_fp32", A, B, C)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(10):
                multiply()
            self.stream.synchronize()

    # -- timings outside the pairs -------------------------------------------------------------

    def first_call(self, plan: Geometry, A: Any, B: Any, C: Any) -> float:
        """Milliseconds of a first call by the host's clock: compile, load and launch, until C is
        there.

        With nothing kept from earlier calls, in memory or on the disk.
        """
        toolchain._compile.cache_clear()
        launch._module.cache_clear()
        launch._kept_function.cache_clear()
        with disk.set_aside():
            started = time.perf_counter()
            self.kernel_operation(plan, A, B, C)()
            self.stream.synchronize()
            return (time.perf_counter() - started) * 1e3

    def serial_run(self, problem: Problem, run: Callable[[], None], C: Any) -> dict[str, float]:
        """One product as a program does it: A and B to the device, the kernel, C back, in turn.

        From pageable memory, by the host's clock. Keys h2d_ms, warm_ms (the call), d2h_ms,
        total_ms.
        """
        host_C = np.empty(C.shape, C.dtype)
        host_C.fill(0)  # touch its pages: first use of memory is no part of a copy
        runtime = self.cupy.cuda.runtime
        self.stream.synchronize()
        t0 = time.perf_counter()
        for ours, theirs in ((problem.A, problem.host_A), (problem.B, problem.host_B)):
            runtime.memcpy(
                ours.data.ptr, theirs.ctypes.data, theirs.nbytes, runtime.memcpyHostToDevice
            )
        runtime.deviceSynchronize()  # a pageable copy may return before its last bytes arrive
        t1 = time.perf_counter()
        run()
        self.stream.synchronize()
        t2 = time.perf_counter()
        runtime.memcpy(host_C.ctypes.data, C.data.ptr, host_C.nbytes, runtime.memcpyDeviceToHost)
        t3 = time.perf_counter()
        parts = {"h2d_ms": t1 - t0, "warm_ms": t2 - t1, "d2h_ms": t3 - t2, "total_ms": t3 - t0}
        return {name: value * 1e3 for name, value in parts.items()}


def to_tf32(x: np.ndarray) -> np.ndarray:
    """float32 values rounded to TF32's 10 bits of fraction, ties away from zero.

    Source: PTX ISA, cvt.rna.tf32.f32.
    """
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32)


def host_operands(
    dtype: str, M: int, N: int, K: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """A (M, K) and B (K, N) as `numbers.operands` makes them, for a dtype rather than a kernel."""
    stand_in = Kernel("", "", "", "", 0, ("1", "1", "1"), ("1", "1", "1"), dtype=dtype)
    return numbers.operands(stand_in, M, N, K, seed)
