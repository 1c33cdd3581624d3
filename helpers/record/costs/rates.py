"""What a GPU does in a clock, and how long it lets one wait: rates and latencies, each with its
source."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from helpers import record as measuring
from helpers.ladder.model import SCHEDULERS
from nogpu import device
from nogpu.device import Gpu

SAME_CHIP: Mapping[str, str] = {"h100": "h200"}
"""GPUs whose L2 was measured on another card of the same chip, GH100 here (NVIDIA's datasheets)."""
PUBLISHED_L2: Mapping[str, tuple[float, str]] = {
    "t4": (1270e9, "measured by Jia et al., arXiv 1903.07486, table 3.1"),
    "a100": (5.47e12, "measured by gpu-benches (gpu-l2-cache/a100_80.txt, commit 1c36d50)"),
}
"""Bytes a second that all SMs together load from L2, where others measured it: no two SMs are said
to ask for the same bytes at the same time."""
WAVEFRONT_CLOCKS: Mapping[str, tuple[float, str]] = {
    "sm_75": (
        2.0,
        "a full wavefront in two clocks, as measured on a T4 by Jia et al., arXiv 1903.07486",
    )
}
"""Clocks of a wavefront in the data pipe of L1 and shared memory, where it is not one."""
WAVEFRONT = 1.0, "one wavefront a clock and SM (CUDA C++ Programming Guide: 32 banks)"
INTEGER_LANES = 64
"""32-bit integer multiply-adds of an SM a clock, from compute capability 7.5 to 9.0 (CUDA C++
Programming Guide, throughput of arithmetic instructions)."""


@dataclass(frozen=True)
class Rate:
    """How much of something a GPU does in a millisecond, all SMs together, and who says so."""

    per_ms: float
    source: str


def _a_clock(gpu: Gpu, amount: float, words: str) -> Rate:
    """A rate that every SM has in every clock, at the boost clock."""
    return Rate(
        amount * gpu.sms * gpu.boost_mhz * 1e3,
        f"{words}, {gpu.sms} SMs at {gpu.boost_mhz} MHz (boost)",
    )


def dram(gpu: Gpu) -> Rate:
    """Bytes of device memory."""
    return Rate(gpu.bandwidth_gbs * 1e6, f"{gpu.bandwidth_gbs:g} GB/s: {gpu.source}")


@dataclass(frozen=True)
class Supply:
    """Bytes that L2 delivers to the SMs, by whether they want the same ones at about the same time.

    apart: each SM asks for bytes of its own. together: many ask for the same; None where nobody
    measured it.
    """

    apart: Rate
    together: Rate | None


def l2(gpu: Gpu) -> Supply | None:
    """What L2 delivers, from the record of the GPU or of its chip, or as published; None: unknown.

    Of every way to ask (loads, bulk copies, TMA boxes, multicast) the fastest, so that no kernel
    gets more.
    """
    measured = SAME_CHIP.get(gpu.key, gpu.key)
    entries = [e for e in measuring.supplies(measured) if e.skew == 0]
    if not entries:
        if gpu.key not in PUBLISHED_L2:
            return None
        rate, source = PUBLISHED_L2[gpu.key]
        return Supply(Rate(rate / 1e3, source), None)
    whose = f"measured on {device.gpu(measured).name}" + (
        ", which has the same chip" if measured != gpu.key else ""
    )
    own = max(e.per_clock for e in entries if e.sharing == 1)
    most = max(e.per_clock for e in entries if e.way != "multicast")
    return Supply(
        _a_clock(gpu, own, f"{own:.0f} bytes a clock and SM where each asks for its own, {whose}"),
        _a_clock(
            gpu, most, f"{most:.0f} bytes a clock and SM where many ask for the same, {whose}"
        ),
    )


def deliveries(gpu: Gpu) -> Rate:
    """Wavefronts of the data pipe that L1 and shared memory have in common: 32 words of 4 bytes
    each.

    Source: CUDA C++ Programming Guide (32 banks, a word a clock); that L1 delivers through the same
    pipe is ncu's (l1tex__data_pipe_lsu_wavefronts), and the recorded counters agree.
    """
    clocks, words = WAVEFRONT_CLOCKS.get(gpu.arch, WAVEFRONT)
    return _a_clock(gpu, 1 / clocks, words)


def wavefront_clocks(gpu: Gpu) -> float:
    """Clocks that a full wavefront takes in that pipe."""
    return WAVEFRONT_CLOCKS.get(gpu.arch, WAVEFRONT)[0]


def issue(gpu: Gpu) -> Rate:
    """Warp instructions: every scheduler issues one a clock (architecture whitepapers)."""
    return _a_clock(gpu, SCHEDULERS, f"{SCHEDULERS} schedulers an SM, one instruction a clock each")


MMA_SYNC: Mapping[str, tuple[float, str]] = {
    "sm_90": (
        2 / 3,
        (
            "of which mma.sync reaches two thirds on Hopper, six clocks for four"
            " (data/tries/mma.md; Luo et al., arXiv 2402.13499, measure 62.9 % of the data"
            " sheet's peak), and wgmma all"
        ),
    )
}
"""Share of the Tensor Cores' rate that mma.sync (and WMMA, made of it) reaches, where it is not 1.
"""


def arithmetic(gpu: Gpu, dtype: str, *, wgmma: bool = False) -> tuple[str, str, Rate]:
    """The unit that multiplies elements of this type: its name, what it counts, and its rate.

    Multiply-adds of single lanes; on Tensor Cores too, two FLOP each. wgmma: whether they are
    driven by it.
    """
    if dtype == "int32":
        rate = _a_clock(gpu, INTEGER_LANES, f"{INTEGER_LANES} products of integers a clock and SM")
        return "integer pipe", "multiply-adds", rate
    if dtype == "float32":
        lanes = gpu.fp32_lanes_per_sm
        return "FMA pipe", "multiply-adds", _a_clock(gpu, lanes, f"{lanes} FP32 lanes an SM")
    flop = gpu.tensor_fp16_flop_per_clock_per_sm
    words = f"{flop} FLOP a clock and SM with FP32 sums ({gpu.source})"
    share, note = (1.0, "") if wgmma else MMA_SYNC.get(gpu.arch, (1.0, ""))
    words += f", {note}" if note else ""
    return "Tensor pipe", "multiply-adds", _a_clock(gpu, share * flop / 2, words)


SUSTAINED: Mapping[tuple[str, str], tuple[float, str]] = {
    ("t4", "float16"): (
        24e3,
        "cuBLAS sustains in FP16 at 4096, by NVIDIA's forum, thread 264462",
    ),
    ("t4", "float32"): (
        5.73e3,
        "cuBLAS 12.1 sustains in FP32 at 4096 on a T4 of Google Cloud, by others",
    ),
}
"""GFLOP/s that cuBLAS is reported to sustain on a card whose power limit decides, by its key and
the type of the operands."""


def sustained(gpu: Gpu, dtype: str) -> tuple[Gpu, str] | None:
    """The GPU at the clock that its power limit leaves under a long product, and who says so.

    The clock at which the card's peak is what cuBLAS is reported to sustain: a kernel that draws
    less power, or runs for a moment only, may hold a higher one. None where nobody reported it.
    """
    if (gpu.key, dtype) not in SUSTAINED:
        return None
    rate, source = SUSTAINED[gpu.key, dtype]
    peak = gpu.peak_gflops("fp32" if dtype == "float32" else "fp16")
    return replace(gpu, boost_mhz=round(gpu.boost_mhz * rate / peak)), source


@dataclass(frozen=True)
class Latency:
    """Clocks from a request to its data on an unloaded GPU, and who measured them."""

    clocks: float
    source: str


_PLACES = ("L1", "shared memory", "L2", "DRAM")
_LUO = "Luo et al., arXiv 2402.13499, on an"
_JIA = "Jia et al., arXiv 1903.07486, on a T4"
LATENCIES: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "sm_75": (_JIA, dict(zip(_PLACES, (32, 19, 188, 296), strict=True))),
    "sm_80": (f"{_LUO} A100", dict(zip(_PLACES, (38, 29, 262, 466), strict=True))),
    "sm_89": (f"{_LUO} RTX 4090", dict(zip(_PLACES, (43, 30, 273, 542), strict=True))),
    "sm_90": (f"{_LUO} H800", dict(zip(_PLACES, (41, 29, 263, 479), strict=True))),
}
"""By architecture: who measured them, and the clocks by place.

Others take those of a near one, as an assumption (`latency` says so).
"""


def latency(arch: str, place: str) -> Latency:
    """Clocks to "L1", "shared memory", "L2" or "DRAM" on an architecture such as "sm_90a"."""
    plain = arch.rstrip("af")
    known = plain if plain in LATENCIES else "sm_80" if plain == "sm_86" else "sm_90"
    source, clocks = LATENCIES[known]
    if (known, place) == ("sm_75", "DRAM"):
        source += " (a miss of L2 that hits the TLB)"
    return Latency(clocks[place], source if known == plain else f"{source}; assumed for {arch}")
