"""Grids of blocks: what the hardware refuses of them, and which blocks run together here."""

from __future__ import annotations

import math
import re
from collections import deque
from typing import Any

import numpy as np

from nogpu.device import GPUS, WARP, limits
from nogpu.emulator.launching.request import Triple
from nogpu.emulator.ptx.program import Program
from nogpu.errors import ConfigError

MAX_CLUSTER = 8  # blocks; more are not portable (CUDA C++ Programming Guide, Thread Block Clusters)
LANES = 1 << 16  # threads that run together: their registers should fit the processor's cache
_SHARED_ROOM = int(64e6)  # bytes of shared memory of the blocks that run together
_LOCAL_ROOM = int(256e6)  # bytes of their local memory
_ORDER_ROOM = int(16e6)  # places times warps whose last accesses are kept, of those that are used
_WAITING_ROOM = int(512e6)  # the same where blocks wait for others, which must run together
_REGISTER_ROOM = int(64e6)  # elements of their registers that live longer than a basic block


def check_limits(
    program: Program, grid: Triple, block: Triple, dynamic: int, arch: str, entry: str
) -> int:
    """Total shared memory in bytes. Raises ConfigError for what the hardware refuses."""
    device = limits(arch)
    threads = math.prod(block)
    if threads > device.max_threads_per_block:
        raise ConfigError(
            f"{block=} has {threads} threads; a block holds at most "
            f"{device.max_threads_per_block}. Use a smaller block and more of them"
        )
    if block[2] > 64:
        raise ConfigError(f"{block=}: blockDim.z is at most 64. Use x and y")
    if grid[1] > 65535 or grid[2] > 65535 or grid[0] > 2**31 - 1:
        raise ConfigError(
            f"{grid=}: gridDim.y and gridDim.z are at most 65535. Use x for the longest dimension"
        )
    required = program.entry.limits.get("reqntid")
    if required and (*required, 1, 1)[:3] != block:
        raise ConfigError(f"{entry} requires a block of {required}; {block=} was given")
    bounds = program.entry.limits.get("maxntid")
    if bounds and threads > math.prod(bounds):
        raise ConfigError(
            f"{entry} is compiled for at most {math.prod(bounds)} threads a block "
            f"(__launch_bounds__); {block=} has {threads}. Launch fewer, or raise the bound"
        )
    static = program.static_shared
    start = max(program.shared_offsets.values()) if program.dynamic_shared else 0
    total = max(start, static) + dynamic
    optin = device.shared_per_block_optin
    if static > device.shared_per_block or total > optin:
        raise ConfigError(
            f"{entry} asks for {total} bytes of shared memory a block ({static} static, {dynamic} "
            f"dynamic); {arch} has {optin} ({device.shared_per_block} of them static). Use smaller "
            "tiles"
        )
    return total


def cluster_of(
    program: Program, grid: Triple, requested: Triple | None, arch: str, entry: str
) -> Triple:
    """Blocks a cluster, by axis: as the kernel says (__cluster_dims__), or the launch; else 1.

    requested: by the launch. Raises ConfigError for what no GPU of `arch` accepts. Source: CUDA C++
    Programming Guide, Thread Block Clusters.
    """
    own = program.entry.limits.get("reqnctapercluster")
    required = (*own, 1, 1)[:3] if own else None
    if required and requested and required != requested:
        raise ConfigError(
            f"cluster={requested}: {entry} is compiled for clusters of {required} "
            "(__cluster_dims__). Leave cluster= out, or take __cluster_dims__ out of the source"
        )
    x, y, z = size = required or requested or (1, 1, 1)
    match = re.match(r"sm_(\d+)", arch)
    if requested and match and int(match[1]) < 90:
        raise ConfigError(
            f"cluster={requested}: clusters come with sm_90, and {arch=} has none. Compile for "
            "sm_90"
        )
    if math.prod(size) > MAX_CLUSTER:
        raise ConfigError(
            f"a cluster of {size} has {math.prod(size)} blocks; {MAX_CLUSTER} is the most that "
            "every GPU with clusters runs. Use a smaller one"
        )
    if any(g % c for g, c in zip(grid, size, strict=True)):
        raise ConfigError(
            f"{grid=} is no multiple of the cluster {size} of {entry} along each axis. Round the "
            "grid up to whole clusters, and guard what the blocks beyond the end do"
        )
    return x, y, z


def whole_clusters(blocks: list[Triple], cluster: Triple) -> list[Triple]:
    """The blocks of all clusters of which some block is chosen, cluster by cluster."""
    cx, cy, cz = cluster
    first = dict.fromkeys((x - x % cx, y - y % cy, z - z % cz) for x, y, z in blocks)
    return [
        (x + i, y + j, z + k)
        for x, y, z in first
        for k in range(cz)
        for j in range(cy)
        for i in range(cx)
    ]


def room_for(
    program: Program,
    shared: int,
    block: Triple,
    lanes: int,
    cluster: Triple,
    order: int = _ORDER_ROOM,
) -> int:
    """Threads that may run together so that memory stays bounded: those of one cluster, or more.

    shared: bytes of shared memory a block. lanes: threads at most. order: for how many places times
    warps the last accesses may be kept.
    """
    size, threads = math.prod(cluster), math.prod(block)
    registers = sum(len(f.kinds) for f in program.functions.values())
    limit = min(lanes, _REGISTER_ROOM // max(registers, 1))
    if shared:
        limit = min(limit, _SHARED_ROOM // shared * threads)
    if program.local_bytes:
        limit = min(limit, _LOCAL_ROOM // program.local_bytes)
    if program.mbarriers or program.clusters:
        # The last accesses to each place are kept, warp by warp of the cluster.
        limit = min(limit, order // max(shared // program.granule, 1) * 32 // size)
    return max(limit, threads * size)


def warps_of(grid: Triple, block: Triple) -> int:
    """Warps of a launch."""
    return math.prod(grid) * -(-math.prod(block) // WARP)


def resident(
    program: Program,
    shared: int,
    block: Triple,
    lanes: int,
    arch: str,
    cluster: Triple,
) -> tuple[int, str]:
    """Threads that run together in a kernel that waits for other blocks; and why no more, in words.

    As many blocks as the largest known GPU of the architecture holds at a time, so far as threads
    and shared memory decide (registers may allow fewer), if the memory here allows. lanes: as many
    threads at most, if the caller chose another number than `LANES`.
    """
    device, threads = limits(arch), math.prod(block)
    gpus = [g for g in GPUS.values() if g.arch == device.arch]
    each = min(device.max_blocks_per_sm, device.max_warps_per_sm // -(-threads // WARP))
    if shared:
        each = min(each, device.shared_per_sm // (shared + device.shared_reserved_per_block))
    gpu = max(gpus, key=lambda g: g.sms, default=None)
    capacity = each * gpu.sms if gpu else lanes // threads
    room = room_for(program, shared, block, capacity * threads, cluster, _WAITING_ROOM)
    if lanes != LANES:
        room = max(min(room, lanes), threads * math.prod(cluster))
    if gpu and room // threads >= capacity:
        return room, f"a {gpu.name} holds at most {capacity} blocks of this kernel at a time"
    return room, at_a_time(room, block)


def at_a_time(room: int, block: Triple) -> str:
    """Why no more blocks run together than those of `room` threads, in words."""
    return f"the emulator runs {room // math.prod(block)} blocks of this kernel at a time"


def batches(
    grid: Triple,
    block: Triple,
    blocks: list[Triple] | None,
    lanes: int,
    cluster: Triple,
) -> Any:
    """Blocks that run together, as index arrays over the axes p and q: whole clusters.

    blocks: only these, cluster by cluster (see `whole_clusters`).
    """
    _, cy, cz = cluster
    size = math.prod(cluster)
    per_batch = max(1, lanes // math.prod(block) // size) * size
    if blocks is not None:
        for start in range(0, len(blocks), per_batch):
            part = np.array(blocks[start : start + per_batch], np.int32)
            yield tuple(axis[None, None, :, None] for axis in part.T)
        return
    gx, gy, gz = grid
    high = cy * cz  # rows of blocks that a cluster takes
    across = min(gx, per_batch // high)
    down = min(gy * gz, per_batch // across) // high * high if across == gx else high
    # blockIdx.z * gridDim.y + blockIdx.y, those of a cluster together
    every = np.arange(gy * gz, dtype=np.int32).reshape(gz // cz, cz, gy // cy, cy)
    in_order = every.transpose(0, 2, 1, 3).ravel()
    for row in range(0, gy * gz, down):
        rows = in_order[row : row + down][None, None, :, None]
        by, bz = rows % gy, rows // gy
        if gz == 1:
            bz = np.zeros((1, 1, 1, 1), np.int32)
        for column in range(0, gx, across):
            bx = np.arange(column, min(column + across, gx), dtype=np.int32)
            yield bx[None, None, None], by, bz


def cancellable(
    grid: Triple,
    block: Triple,
    blocks: list[Triple] | None,
    lanes: int,
    cluster: Triple,
    pending: deque[Triple],
) -> Any:
    """The same of a kernel that takes over clusters before they start. pending: the first blocks of
    those that have not started, which the kernel may take away.
    """
    gx, gy, gz = grid
    every = blocks or [(x, y, z) for z in range(gz) for y in range(gy) for x in range(gx)]
    size = math.prod(cluster)
    pending.extend(whole_clusters(every, cluster)[::size])
    at_once = max(1, lanes // math.prod(block) // size)
    while pending:
        first = [pending.popleft() for _ in range(min(at_once, len(pending)))]
        yield from batches(grid, block, whole_clusters(first, cluster), lanes, cluster)
