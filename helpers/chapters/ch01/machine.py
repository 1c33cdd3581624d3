"""What an SM and a whole GPU hold, from the table of GPUs: the specifications and sentences of
chapter 1."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from helpers.ladder import model
from helpers.ladder.model import Occupancy
from nogpu import device

CARDS = ("t4", "rtx3070_laptop", "rtx4090", "h200")
KB = 1024


def short(key: str) -> str:
    """A GPU's name without the maker's series, for a narrow table."""
    name = device.gpu(key).name.removeprefix("Tesla ").removeprefix("GeForce ")
    return name.split(" SXM")[0]


def specifications(keys: Sequence[str] = CARDS) -> list[dict[str, Any]]:
    """A row for each property, a column for each GPU. Limits follow from the compute capability."""
    rows: dict[str, dict[str, Any]] = {}
    for key in keys:
        g = device.gpu(key)
        limits = g.limits
        for label, value in {
            "compute capability": f"{g.arch.removeprefix('sm_')[:-1]}.{g.arch[-1]}",
            "SMs": g.sms,
            "warp size": device.WARP,
            "max threads per SM": limits.max_threads_per_sm,
            "max warps per SM": limits.max_warps_per_sm,
            "max threads per block": limits.max_threads_per_block,
            "registers per SM": limits.registers_per_sm,
            "shared memory per SM (KB)": limits.shared_per_sm // KB,
            "shared memory per block (KB)": limits.shared_per_block // KB,
            "with opt-in (KB)": limits.shared_per_block_optin // KB,
            "L2 (MB)": g.l2_bytes >> 20,
            "memory (GB)": g.memory_bytes >> 30,
            "memory bandwidth (GB/s)": f"{g.bandwidth_gbs:,.0f}",
            "boost clock (MHz)": g.boost_mhz,
            "FP32 peak (TFLOP/s)": f"{g.fp32_peak_gflops / 1e3:.1f}",
        }.items():
            rows.setdefault(label, {"specification": label})[short(key)] = value
    return list(rows.values())


def occupancy_of(key: str, threads: int) -> Occupancy:
    """Blocks of 40 registers a thread and 8 KB of shared memory on an SM of a GPU."""
    limits = device.gpu(key).limits
    return model.occupancy(limits, threads=threads, registers=40, shared_bytes=8 * KB)


def numbers() -> SimpleNamespace:
    """Lanes, threads and memories of a T4 (t4) and an H200 (h200); registers_kb, all_..._mb: the
    H200's.

    times: threads for each FP32 lane. by_registers: warps that the registers of its SM have room
    for, at 40 a thread; warps_64, shared_kept: held with 64 threads a block. per_float: FP32
    operations for each float from DRAM at the ridge.
    """
    h200 = device.gpu("h200")
    cards = {
        g.key: {
            "sms": g.sms,
            "lanes": g.sms * g.fp32_lanes_per_sm,
            "lanes_sm": g.fp32_lanes_per_sm,
            "threads": g.sms * g.limits.max_threads_per_sm,
            "times": g.limits.max_threads_per_sm / g.fp32_lanes_per_sm,
        }
        for g in (device.gpu("t4"), h200)
    }
    return SimpleNamespace(
        **cards,
        registers_kb=h200.limits.registers_per_sm * 4 / KB,
        all_registers_mb=h200.sms * h200.limits.registers_per_sm * 4 / 2**20,
        all_shared_mb=h200.sms * h200.limits.shared_per_sm / 2**20,
        per_float={key: 4 * device.gpu(key).ridge for key in CARDS},
        n_needed=6 * h200.ridge,
        by_registers=h200.limits.registers_per_sm / (40 * device.WARP),
        warps_64=occupancy_of("h200", 64).warps,
        shared_plain=device.gpu("rtx3070_laptop").limits.shared_per_sm // (8 * KB),
        shared_kept=occupancy_of("rtx3070_laptop", 64).blocks,
    )
