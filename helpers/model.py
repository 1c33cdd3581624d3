"""Closed formulas: occupancy, bytes, arithmetic intensity, roofline. Nothing here is measured."""

from __future__ import annotations

from dataclasses import dataclass

from helpers.catalog import ITEM_BYTES, Kernel, find, plan
from helpers.device import WARP, Gpu, Limits
from helpers.errors import ConfigError


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
        blocks=blocks,
        warps=blocks * warps,
        fraction=blocks * warps / limits.max_warps_per_sm,
        limited_by=tuple(name for name, n in by.items() if n == blocks),
        by=by,
    )


def flops(M: int, N: int, K: int) -> int:
    """Operations of an MxK by KxN product: a multiply and an add per term."""
    return 2 * M * N * K


def compulsory_bytes(M: int, N: int, K: int, itemsize: int = 4, out_itemsize: int = 4) -> int:
    """Fewest bytes through device memory: A and B read once, C written once."""
    return (M * K + K * N) * itemsize + M * N * out_itemsize


@dataclass(frozen=True)
class Traffic:
    """Bytes that a kernel asks of global memory if no cache served it.

    thread: each thread's own loads and stores, added up. warp: an element that several lanes of a
    warp load together counted once. block: what the kernel's blocks fetch, an element shared
    through shared memory counted once a block (equal to warp where nothing is staged).
    """

    thread: int
    warp: int
    block: int


def traffic(kernel: Kernel | str, M: int, N: int, K: int, **params: int) -> Traffic:
    """Closed formulas for the bytes of one product, for shapes that the tile divides.

    An output element needs 2K loads. A warp of r rows by c columns of C needs r + c different
    elements a k; a block tile BM x BN staged in shared memory needs BM + BN.
    """
    k = find(kernel)
    p = plan(k, M, N, K, **params)
    item, out = ITEM_BYTES[k.dtype], ITEM_BYTES[k.out_dtype]
    stores = M * N * out
    bm, bn = p.tile
    thread = 2 * M * N * K * item + stores
    staged = int(M * N * K * (1 / bm + 1 / bn) * item) + stores
    if k.reuse == "warp":
        x = min(p.block[0], WARP)
        other = max(1, WARP // x)
        warp = int(M * N * K * (x + other) / (x * other) * item) + stores
        return Traffic(thread, warp, warp)
    return Traffic(thread, thread, staged)


def arithmetic_intensity(kernel: Kernel | str, M: int, N: int, K: int, **params: int) -> float:
    """FLOP per byte that leaves for L2 with no cache hit: flops over `traffic(...).block`."""
    return flops(M, N, K) / traffic(kernel, M, N, K, **params).block


def compulsory_intensity(M: int, N: int, K: int, itemsize: int = 4, out_itemsize: int = 4) -> float:
    """FLOP per compulsory byte: the most that any kernel can reach."""
    return flops(M, N, K) / compulsory_bytes(M, N, K, itemsize, out_itemsize)


def roofline(gpu: Gpu, intensity: float, precision: str = "fp32") -> float:
    """Attainable GFLOP/s at an arithmetic intensity (FLOP/byte): the lower of the two roofs.

    Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.
    """
    if intensity <= 0:
        raise ConfigError(f"{intensity=}: an arithmetic intensity is above 0 FLOP/byte")
    return min(gpu.peak_gflops(precision), intensity * gpu.bandwidth_gbs)


def shared_roof(gpu: Gpu, fma_per_wavefront: float) -> float:
    """GFLOP/s that shared memory can feed: an SM delivers one wavefront a clock.

    fma_per_wavefront: warp-level multiply-adds done for each shared-memory wavefront, as counted by
    the emulator. A warp-level multiply-add is 32 lanes x 2 FLOP.
    Source: 32 banks of 4 bytes a clock, CUDA C++ Programming Guide, shared memory.
    """
    if fma_per_wavefront <= 0:
        raise ConfigError(f"{fma_per_wavefront=}: multiply-adds for a wavefront must be above 0")
    rate = gpu.sms * gpu.boost_mhz / 1e3 * WARP * 2 * fma_per_wavefront
    return min(rate, gpu.fp32_peak_gflops)


def waves(gpu: Gpu, blocks: int, blocks_per_sm: int) -> float:
    """Rounds of resident blocks that a grid takes on this GPU; the last may be partly empty."""
    return blocks / (gpu.sms * blocks_per_sm)
