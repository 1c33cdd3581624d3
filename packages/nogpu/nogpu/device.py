"""The GPU at hand, and the table of known GPUs: limits, peaks, bandwidth, and their sources."""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nogpu.errors import ConfigError, GpuFaultError, TileError, UnknownNameError, near_matches

WARP = 32
"""Threads in a warp, on every CUDA GPU so far."""
WORD = 4
"""Bytes of a word: what one of the 32 banks of shared memory holds side by side (CUDA C++
Programming Guide)."""
LINE = 128
"""Bytes of a cache line: four sectors (Nsight Compute, Profiling Guide)."""


@dataclass(frozen=True)
class Limits:
    """What one SM of a compute capability can hold. Bytes for memory, counts otherwise.

    Source: CUDA C++ Programming Guide, Compute Capabilities, technical specifications per compute
    capability; allocation units: the occupancy calculator of Nsight Compute.
    """

    arch: str
    max_threads_per_sm: int
    max_blocks_per_sm: int
    registers_per_sm: int
    shared_per_sm: int
    shared_per_block_optin: int
    shared_reserved_per_block: int
    max_threads_per_block: int = 1024
    max_registers_per_thread: int = 255
    register_alloc_unit: int = 256
    warp_alloc_granularity: int = 4
    shared_per_block: int = 48 * 1024
    shared_alloc_unit: int = 128

    @property
    def max_warps_per_sm(self) -> int:
        """Resident warps of one SM at most."""
        return self.max_threads_per_sm // WARP


def _limits(arch: str, threads: int, blocks: int, shared_sm_kb: int, optin_kb: int) -> Limits:
    turing = arch == "sm_75"
    return Limits(
        arch=arch, max_threads_per_sm=threads, max_blocks_per_sm=blocks, registers_per_sm=65536,
        shared_per_sm=shared_sm_kb * 1024, shared_per_block_optin=optin_kb * 1024,
        shared_reserved_per_block=0 if turing else 1024, shared_alloc_unit=256 if turing else 128,
    )  # fmt: skip


LIMITS: Mapping[str, Limits] = MappingProxyType(
    {
        arch: _limits(arch, *numbers)
        for arch, numbers in {
            "sm_75": (1024, 16, 64, 64),
            "sm_80": (2048, 32, 164, 163),
            "sm_86": (1536, 16, 100, 99),
            "sm_89": (1536, 24, 100, 99),
            "sm_90": (2048, 32, 228, 227),
            "sm_100": (2048, 32, 228, 227),
            "sm_120": (1536, 24, 100, 99),
        }.items()
    }
)


def limits(arch: str) -> Limits:
    """Limits of an architecture such as "sm_75"; a suffix as in "sm_90a" is ignored."""
    base = arch.rstrip("af")
    if base not in LIMITS:
        raise UnknownNameError(
            f"no limits are known for {arch=}. {near_matches(base, LIMITS)} "
            "Compute capabilities below 7.5 are not supported by current CUDA compilers."
        )
    return LIMITS[base]


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks and warps of one SM, their share of the maximum, and the limits reached.

    limited_by holds every resource that allows no further block: "warps", "blocks", "registers",
    "shared memory". by maps each of them to the blocks it would allow alone.
    """

    blocks: int
    warps: int
    fraction: float
    limited_by: tuple[str, ...]
    by: dict[str, int]


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(limits: Limits, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Resident warps of one SM over its maximum, and what limits them.

    threads: per block. registers: per thread. shared_bytes: per block, static plus dynamic.
    Raises ConfigError if the block cannot launch at all.
    Source: CUDA C++ Programming Guide, Compute Capabilities (technical specifications); allocation
    units from the occupancy calculator of Nsight Compute.
    """
    if not 1 <= threads <= limits.max_threads_per_block:
        raise ConfigError(
            f"a block of {threads} threads: {limits.arch} takes 1 to {limits.max_threads_per_block}"
        )
    if registers > limits.max_registers_per_thread:
        raise ConfigError(
            f"{registers} registers a thread: {limits.arch} has {limits.max_registers_per_thread}"
        )
    if shared_bytes > limits.shared_per_block_optin:
        raise ConfigError(
            f"{shared_bytes} bytes of shared memory a block: {limits.arch} has at most "
            f"{limits.shared_per_block_optin}"
        )
    warps = -(-threads // WARP)
    per_warp = _round_up(max(registers, 1) * WARP, limits.register_alloc_unit)
    warps_by_registers = limits.registers_per_sm // per_warp
    warps_by_registers -= warps_by_registers % limits.warp_alloc_granularity
    shared = _round_up(shared_bytes + limits.shared_reserved_per_block, limits.shared_alloc_unit)
    by = {
        "warps": limits.max_warps_per_sm // warps,
        "blocks": limits.max_blocks_per_sm,
        "registers": warps_by_registers // warps,
        "shared memory": limits.shared_per_sm // shared if shared else limits.max_blocks_per_sm,
    }
    blocks = min(by.values())
    if blocks == 0:
        raise ConfigError(
            f"a block of {threads} threads with {registers} registers each needs "
            f"{warps * per_warp} registers; an SM of {limits.arch} has {limits.registers_per_sm}"
        )
    return Occupancy(
        blocks=blocks, warps=blocks * warps, fraction=blocks * warps / limits.max_warps_per_sm,
        limited_by=tuple(name for name, n in by.items() if n == blocks), by=by,
    )  # fmt: skip


@dataclass(frozen=True)
class Gpu:
    """One GPU model. Clocks in MHz, bandwidth in GB/s, sizes in bytes, rates per SM and clock."""

    key: str
    name: str
    arch: str
    sms: int
    boost_mhz: int
    fp32_lanes_per_sm: int
    tensor_fp16_flop_per_clock_per_sm: int
    bandwidth_gbs: float
    l2_bytes: int
    memory_bytes: int
    watts: int
    source: str

    @property
    def limits(self) -> Limits:
        """Per-SM limits of the GPU's compute capability."""
        return limits(self.arch)

    @property
    def fp32_peak_gflops(self) -> float:
        """FP32 peak in GFLOP/s: SMs x lanes x 2 (a fused multiply-add) x boost clock."""
        return self.sms * self.fp32_lanes_per_sm * 2 * self.boost_mhz / 1e3

    @property
    def fp16_tensor_peak_gflops(self) -> float:
        """Dense FP16 or BF16 Tensor Core peak in GFLOP/s, FP32 accumulation, at the boost clock."""
        return self.sms * self.tensor_fp16_flop_per_clock_per_sm * self.boost_mhz / 1e3

    def peak_gflops(self, precision: str) -> float:
        """Peak for "fp32", "int32", "tf32", "fp16" or "bf16", in GFLOP/s (int32: in Gop/s)."""
        if precision in ("fp32", "float32", "int32"):
            return self.fp32_peak_gflops
        if precision == "tf32":
            return self.fp16_tensor_peak_gflops / 2
        if precision in ("fp16", "bf16", "float16", "bfloat16"):
            return self.fp16_tensor_peak_gflops
        raise ConfigError(f"{precision=} is not one of fp32, int32, tf32, fp16, bf16")

    @property
    def ridge(self) -> float:
        """FP32 ridge point in FLOP/byte: the intensity at which the two roofs of the GPU meet."""
        return self.fp32_peak_gflops / self.bandwidth_gbs


_CARDS: dict[str, Gpu] = {
    row[0]: Gpu(*row)
    for row in (
        ("t4", "Tesla T4", "sm_75", 40, 1590, 64, 1024, 320.0, 4 << 20, 16 << 30, 70,
         "NVIDIA T4 datasheet; NVIDIA Turing GPU Architecture whitepaper"),
        ("a100", "A100 SXM 80 GB", "sm_80", 108, 1410, 64, 2048, 2039.0, 40 << 20, 80 << 30, 400,
         "NVIDIA A100 datasheet; NVIDIA A100 Tensor Core GPU Architecture whitepaper"),
        ("rtx3070_laptop", "GeForce RTX 3070 Laptop", "sm_86",
         40, 1620, 128, 512, 448.0, 4 << 20, 8 << 30, 125,
         "document L for SMs, memory and bandwidth; NVIDIA product page for the boost clock"),
        ("rtx3090", "GeForce RTX 3090", "sm_86",
         82, 1695, 128, 512, 936.2, 6 << 20, 24 << 30, 350,
         "NVIDIA Ampere GA102 GPU Architecture whitepaper"),
        ("rtx4090", "GeForce RTX 4090", "sm_89",
         128, 2520, 128, 512, 1008.0, 72 << 20, 24 << 30, 450,
         "NVIDIA Ada GPU Architecture whitepaper"),
        ("h100", "H100 SXM 80 GB", "sm_90",
         132, 1980, 128, 4096, 3352.0, 50 << 20, 80 << 30, 700,
         "NVIDIA H100 datasheet; NVIDIA H100 GPU Architecture whitepaper; clock computed from "
         "the FP32 peak that they print"),
        ("h200", "H200 SXM 141 GB", "sm_90",
         132, 1980, 128, 4096, 4800.0, 60 << 20, 141 << 30, 700,
         "NVIDIA H200 datasheet; L2 size and clock read from the device"),
    )
}  # fmt: skip
"""The fields of `Gpu` in order, a row to a card."""
GPUS: Mapping[str, Gpu] = MappingProxyType(_CARDS)
"""Every card that is known: those above, and those with a record of their own."""

TABLED = tuple(_CARDS)
"""Keys of the cards above. A record of a reader's may not take one of them for another card."""
FP32_LANES: Mapping[str, int] = MappingProxyType(
    {arch: 64 if arch in ("sm_75", "sm_80") else 128 for arch in LIMITS}
)
"""FP32 lanes of an SM (CUDA C++ Programming Guide, throughput of arithmetic instructions)."""
TENSOR_FP16: Mapping[str, int] = MappingProxyType(
    {
        "sm_75": 1024, "sm_80": 2048, "sm_86": 1024, "sm_89": 1024, "sm_90": 4096, "sm_100": 8192,
        "sm_120": 1024,
    }
)  # fmt: skip
"""FP16 operations a clock of an SM's Tensor Cores with FP32 sums, of the fastest cards of an
architecture: GeForce cards of sm_86, sm_89 and sm_120 do half (NVIDIA's architecture whitepapers).
"""


def typical(arch: str) -> Gpu:
    """A card of the table with this architecture, the first one; of one that the table lacks, the
    nearest below.

    arch: such as "sm_75" or "sm_90a". Raises UnknownNameError for an architecture without limits.
    """
    number = int(limits(arch).arch.removeprefix("sm_"))
    tabled = [_CARDS[key] for key in reversed(TABLED)]
    numbered = {int(g.arch.removeprefix("sm_")): g for g in tabled}
    return numbered[max(n for n in numbered if n <= number)]


def describe(key: str, facts: Mapping[str, Any]) -> Gpu:
    """A GPU that the table lacks, from what a record says of it.

    facts: "name", "arch", "sms", "max_clock_mhz", "bandwidth_gbs", "memory_bytes", "l2_bytes", and
    "power_limit_w" where it is known. Lanes and Tensor Cores are those of its architecture. Raises
    ConfigError naming what is missing.
    """
    needed = ("name", "arch", "sms", "max_clock_mhz", "bandwidth_gbs", "memory_bytes", "l2_bytes")
    missing = [name for name in needed if not facts.get(name)]
    if missing:
        raise ConfigError(
            f"{facts.get('name') or key} is not in the table of GPUs, and its {', '.join(missing)} "
            "is not told: its driver tells it, so record it with this version of the book"
        )
    arch = str(facts["arch"])
    return Gpu(
        key, str(facts["name"]), arch, int(facts["sms"]), int(facts["max_clock_mhz"]),
        FP32_LANES.get(arch, 128), TENSOR_FP16.get(arch, 0),
        float(facts["bandwidth_gbs"]), int(facts["l2_bytes"]),
        int(facts["memory_bytes"]), int(facts.get("power_limit_w") or 0),
        "its own driver, in data/measurements; lanes and Tensor Cores are those of its "
        "architecture, at most",
    )  # fmt: skip


def card_of(key: str, facts: Mapping[str, Any]) -> Gpu:
    """The card of a record under the record's name: as the table has it, or as the record describes
    it."""
    known = named(str(facts.get("name", "")))
    if known is not None and (known.arch, known.sms) == (facts.get("arch"), facts.get("sms")):
        return replace(known, key=key)
    return describe(key, facts)


def admit(card: Gpu) -> None:
    """Put a card into GPUS, unless one of that key stands there."""
    _CARDS.setdefault(card.key, card)


def admit_recorded(folder: Path) -> None:
    """Put the cards into GPUS that have a record in this folder (KEY.json) and describe themselves
    in it."""
    for path in sorted(folder.glob("*.json")):
        if path.stem in _CARDS:
            continue
        # A damaged record, or one without these facts, is told by who reads it.
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, TileError):
            card = card_of(path.stem, json.loads(path.read_text(encoding="utf-8"))["gpu"])
            limits(card.arch)  # an explorer asks for them
            admit(card)


HOPPER_PRINTED_TENSOR_GFLOPS = 989_400.0
"""Dense FP16 and BF16 peak, FP32 accumulation, that NVIDIA prints for the H100 and H200 SXM.

It is computed at a lower clock than the boost clock, with which this table computes every peak.
Source: NVIDIA H100 Tensor Core GPU Architecture whitepaper, table of peak rates.
"""


def gpu(key: str) -> Gpu:
    """A GPU of the table by its key, such as "t4". Raises UnknownNameError with near matches."""
    if key not in GPUS:
        raise UnknownNameError(f"no GPU is called {key!r}. {near_matches(key, GPUS)}")
    return GPUS[key]


def named(name: str) -> Gpu | None:
    """The row of GPUS that a GPU is by the name that its driver gives, or None."""
    plain = name.lower().replace("nvidia", "").replace("geforce", "").strip()
    candidates: list[tuple[int, Gpu]] = []
    for candidate in GPUS.values():
        words = candidate.name.lower().replace("nvidia", "").replace("geforce", "").split()
        words = [w for w in words if w not in ("sxm", "80", "141", "gb")]
        if all(w in plain.split() for w in words):
            candidates.append((len(words), candidate))
    # the longest name: an "H100 PCIe" with a record of its own is no H100
    return max(candidates, key=lambda pair: pair[0])[1] if candidates else None


@dataclass(frozen=True)
class LiveGpu:
    """The GPU of this machine as its driver reports it (CUDA runtime, device properties)."""

    name: str
    arch: str
    sms: int
    boost_mhz: int
    memory_bytes: int
    l2_bytes: int
    shared_per_block_bytes: int
    shared_per_block_optin_bytes: int
    shared_per_sm_bytes: int
    registers_per_block: int
    max_threads_per_sm: int
    max_threads_per_block: int
    max_block: tuple[int, int, int]
    max_grid: tuple[int, int, int]
    memory_bus_bits: int
    memory_clock_mhz: int
    driver_cuda: str
    runtime_cuda: str

    @property
    def bandwidth_gbs(self) -> float | None:
        """Bandwidth in GB/s: the table's, else bus width times twice the memory clock; or None."""
        computed = self.memory_bus_bits / 8 * 2 * self.memory_clock_mhz / 1e3
        return self.known.bandwidth_gbs if self.known else computed or None

    @property
    def known(self) -> Gpu | None:
        """The row of GPUS that this device is, or None."""
        return named(self.name)


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _driver_library() -> ctypes.CDLL | None:
    """The NVIDIA driver's library for CUDA, which comes with no toolkit and no wheel."""
    try:
        return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None


@cache
def driver_cuda() -> tuple[int, int] | None:
    """The CUDA version that this machine's NVIDIA driver was made for, such as (12, 4); None: no
    driver.

    Source: CUDA driver API, cuDriverGetVersion (1000 x major + 10 x minor; asks no GPU).
    """
    library, number = _driver_library(), ctypes.c_int()
    if library is None or library.cuDriverGetVersion(ctypes.byref(number)) or not number.value:
        return None
    return number.value // 1000, number.value % 1000 // 10


@cache
def driver_sees_gpus() -> int:
    """How many GPUs the driver sees, whether or not there is a CuPy to use them."""
    library, count = _driver_library(), ctypes.c_int()
    if library is None or library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


PER_THREAD_STREAM = 2
"""The number of the default stream that is another one in each thread (CUDA runtime API,
cudaStreamPerThread)."""


def stream_at_hand(what: str) -> tuple[int, int, int]:
    """Device, CuPy's current stream, and the thread where that stream's number stands for one in
    each (else 0).

    What is kept for these three is used by one launch after the other. what: is launched, for the
    error. Raises ConfigError while the stream is captured: zeros would then be written when the
    graph runs and not now, and the graph would go on using what is kept for others.
    """
    import cupy

    stream = cupy.cuda.get_current_stream()
    if stream.ptr and stream.is_capturing():
        raise ConfigError(
            f"{what} works in memory that is kept for its stream, and the stream is being "
            "captured: bind the launch "
            "before, start = plan(...).bind(A, B, C), and call start() within the capture"
        )
    thread = threading.get_ident() if stream.ptr == PER_THREAD_STREAM else 0
    return cupy.cuda.Device().id, stream.ptr, thread


def _clock_mhz(runtime: Any, properties: dict[str, Any], name: str, attribute: int) -> int:
    """A device property or, where CUDA 13 dropped it, the cudaDeviceAttr that replaces it."""
    khz = properties.get(name) or runtime.deviceGetAttribute(attribute, runtime.getDevice())
    return int(khz) // 1000


@cache
def current() -> LiveGpu | None:
    """The GPU that CuPy would use, or None where there is no GPU, driver or CuPy."""
    try:
        import cupy

        runtime = cupy.cuda.runtime
        p: dict[str, Any] = runtime.getDeviceProperties(runtime.getDevice())
        driver, own = _version(runtime.driverGetVersion()), _version(runtime.runtimeGetVersion())
    except Exception:  # no CuPy, no driver, no device: each raises its own type
        return None
    name = p["name"].decode() if isinstance(p["name"], bytes) else str(p["name"])
    return LiveGpu(
        name=name, arch=f"sm_{p['major']}{p['minor']}", sms=p["multiProcessorCount"],
        boost_mhz=_clock_mhz(runtime, p, "clockRate", 13),
        memory_bytes=p["totalGlobalMem"], l2_bytes=p["l2CacheSize"],
        shared_per_block_bytes=p["sharedMemPerBlock"],
        shared_per_block_optin_bytes=p["sharedMemPerBlockOptin"],
        shared_per_sm_bytes=p["sharedMemPerMultiprocessor"], registers_per_block=p["regsPerBlock"],
        max_threads_per_sm=p["maxThreadsPerMultiProcessor"],
        max_threads_per_block=p["maxThreadsPerBlock"], max_block=tuple(p["maxThreadsDim"]),
        max_grid=tuple(p["maxGridSize"]), memory_bus_bits=p["memoryBusWidth"],
        memory_clock_mhz=_clock_mhz(runtime, p, "memoryClockRate", 36), driver_cuda=driver,
        runtime_cuda=own,
    )  # fmt: skip


RESTART = (
    "This Python process cannot use the GPU any more. Restart it (Jupyter and VS Code: Kernel, "
    "Restart; Colab: Runtime, Restart session), mend the kernel, and run from the top. To see the "
    "line that does "
    'it, ask the emulator, with backend="emulator" or trace(...): that still works here.'
)
"""How to go on after a crash: a CUDA context does not recover from one."""
_lost: list[str] = []


def lost() -> str:
    """What CUDA said when the GPU stopped answering this process; empty while it answers."""
    return _lost[-1] if _lost else ""


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turn what CUDA raises inside into an error that says how to go on.

    Wait for the launch inside: a fault of a kernel shows when somebody waits for it. Raises
    GpuFaultError where the GPU will not answer this process again, ConfigError where it does.
    """
    try:
        yield
    except Exception as fault:
        if not type(fault).__module__.startswith(("cupy.", "cupy_backends.")):
            raise
        import cupy

        message = str(fault).split("\n")[0]
        try:
            cupy.cuda.runtime.deviceSynchronize()
        except Exception as gone:
            _lost.append(message)
            raise GpuFaultError(f"{what} stopped the GPU ({message}). {RESTART}") from gone
        raise ConfigError(f"{what} cannot be launched: {message}") from fault
