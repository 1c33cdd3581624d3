"""What a GPU does in a clock, and how long it lets one wait: rates and latencies, each with its
source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from helpers.ladder.model import SCHEDULERS
from nogpu.device import Gpu

L2_PORT = 64
"""Bytes that an SM takes in from L2 in a clock at most: two sectors.

An assumption: no data sheet says it. NVIDIA's A100 whitepaper gives 5,120 bytes a clock for all of
L2, 47 an SM; no kernel of the record takes in more than three fifths of 64, and a test says so. So
it is a bound, and a loose one.
"""
L2_BYTES: Mapping[str, tuple[float, str]] = MappingProxyType(
    {
        "t4": (1270e9, "measured by Jia et al., arXiv 1903.07486, table 3.1"),
    }
)
"""Bytes a second that all SMs together load from L2, where somebody measured it; else their ports
bound it.
"""
WAVEFRONT_CLOCKS: Mapping[str, tuple[float, str]] = MappingProxyType(
    {
        "sm_75": (
            2.0,
            "a full wavefront in two clocks, as measured on a T4 by Jia et al., arXiv 1903.07486",
        )
    }
)
"""Clocks of a wavefront in the data pipe of L1 and shared memory, where it is not one."""
WAVEFRONT = 1.0, "one wavefront a clock and SM (CUDA C++ Programming Guide: 32 banks)"
INTEGER_LANES = 64
"""32-bit integer multiply-adds of an SM a clock, from compute capability 7.5 to 9.0 (CUDA C++
Programming Guide, throughput of arithmetic instructions).
"""


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


def l2(gpu: Gpu) -> Rate:
    """Bytes that the SMs load from L2."""
    if gpu.key in L2_BYTES:
        rate, source = L2_BYTES[gpu.key]
        return Rate(rate / 1e3, source)
    return _a_clock(gpu, L2_PORT, f"{L2_PORT} bytes a clock and SM (assumed: two sectors)")


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


MMA_SYNC: Mapping[str, tuple[float, str]] = MappingProxyType(
    {
        "sm_90": (
            2 / 3,
            "of which mma.sync reaches two thirds on Hopper, six clocks for four (data/tries/mma.md; Luo et "
            "al., arXiv 2402.13499, measure 62.9 % of the data sheet's peak), and wgmma all",
        )
    }
)
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
    share, said = (1.0, "") if wgmma else MMA_SYNC.get(gpu.arch, (1.0, ""))
    words += f", {said}" if said else ""
    return "Tensor pipe", "multiply-adds", _a_clock(gpu, share * flop / 2, words)


@dataclass(frozen=True)
class Latency:
    """Clocks from a request to its data on an unloaded GPU, and who measured them."""

    clocks: float
    source: str


_T4 = "Jia et al., arXiv 1903.07486, on a T4"
_AMPERE = "Luo et al., arXiv 2402.13499, on an A100"
_ADA = "Luo et al., arXiv 2402.13499, on an RTX 4090"
_HOPPER = "Luo et al., arXiv 2402.13499, on an H800"
LATENCIES: Mapping[str, Mapping[str, Latency]] = MappingProxyType(
    {
        "sm_75": {
            "L1": Latency(32, _T4),
            "shared memory": Latency(19, _T4),
            "L2": Latency(188, _T4),
            "DRAM": Latency(296, _T4 + " (a miss of L2 that hits the TLB)"),
        },
        "sm_80": {
            "L1": Latency(38, _AMPERE),
            "shared memory": Latency(29, _AMPERE),
            "L2": Latency(262, _AMPERE),
            "DRAM": Latency(466, _AMPERE),
        },
        "sm_89": {
            "L1": Latency(43, _ADA),
            "shared memory": Latency(30, _ADA),
            "L2": Latency(273, _ADA),
            "DRAM": Latency(542, _ADA),
        },
        "sm_90": {
            "L1": Latency(41, _HOPPER),
            "shared memory": Latency(29, _HOPPER),
            "L2": Latency(263, _HOPPER),
            "DRAM": Latency(479, _HOPPER),
        },
    }
)
"""By architecture and place.

Others take those of a near one, as an assumption (`latency` says so).
"""


def latency(arch: str, place: str) -> Latency:
    """Clocks to "L1", "shared memory", "L2" or "DRAM" on an architecture such as "sm_90a"."""
    known = LATENCIES.get(arch.rstrip("af"))
    if known is not None:
        return known[place]
    other = LATENCIES["sm_80" if arch.rstrip("af") == "sm_86" else "sm_90"][place]
    return Latency(other.clocks, f"{other.source}; assumed for {arch}")


__all__ = ["Latency", "Rate", "arithmetic", "deliveries", "dram", "issue", "l2", "latency"]
