"""Special registers: where a thread is in its warp, its block and the grid, on what SM, and at what
time.

Time is of the emulator's own: it goes on with each instruction, begins somewhere that the seed
decides, and is the same in every run of the same launch. A kernel that reads it finds no number by
which it could tell this machine from a GPU; how long something takes on a GPU it does not say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine import clusters
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.ptx.layout import GRID_WORKSPACE

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State


i4, i8 = np.dtype("i4"), np.dtype("i8")


@dataclass(frozen=True)
class Chip:
    """The GPU that a launch believes to be on. sms: its SMs. warps: that an SM holds. mhz: its
    clock. seed: where its clocks begin.
    """

    sms: int
    warps: int
    mhz: int
    seed: int


CYCLES = 4
"""Clocks from one instruction to the next: what a dependent multiply-add takes from sm_70 on (Jia
et al., Dissecting the NVIDIA Turing T4 GPU via Microbenchmarking, table of latencies).
"""
TICK = 32
"""Nanoseconds in which %globaltimer goes on."""
_SOMEWHERE = 1_750_000_000_000_000_000
"""Nanoseconds since 1970, about when a GPU's %globaltimer may begin to be read."""
TIMED = frozenset(
    {"clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"}
)
"""Registers with another value at each reading."""
LONG = frozenset({"clock64", "globaltimer", "gridid"})
"""Registers of 64 bits."""
IDENTIFYING = TIMED | {"smid", "nsmid", "gridid", "warpid", "nwarpid"}
"""Registers that no product needs: by them a kernel could ask where it runs."""


def _sm(state: State) -> Array:
    """The SM of each block: one after the other, as a GPU hands out the blocks of a small grid."""
    return np.asarray((state.linear_block + state.launch.chip.seed) % state.launch.chip.sms)


def now(state: State, name: str) -> Array:
    """What each thread reads now from one of `TIMED`: SMs' clocks differ, and warps take turns."""
    launch, chip = state.launch, state.launch.chip
    launch.readings += 1
    began = np.random.default_rng(chip.seed).integers(1 << 34, 1 << 35, chip.sms)
    passed = CYCLES * (launch.before + state.steps + launch.readings)
    if name.startswith("globaltimer"):
        value = np.array(_SOMEWHERE + began[0] + passed * 1000 // chip.mhz).reshape(1, 1, 1, 1)
        value = value // TICK * TICK
    else:
        value = began[_sm(state)] + passed + state.thread // 32
    if name.endswith("_hi"):
        value = value >> 32
    return np.asarray(value if name in LONG else (value & 0xFFFFFFFF).astype(i4))


def _uniform(value: int, kind: np.dtype[Any] = i4) -> Array:
    return np.array(value, "i8").astype(kind).reshape(1, 1, 1, 1)


def value(state: State, name: str) -> Array:
    """The value of a special register such as tid.x or smid, by threads; of `TIMED` see `now`."""
    base, _, axis = name.partition(".")
    which = "xyzw".find(axis)  # x where there is no axis
    launch = state.launch
    block = _uniform(0) if axis == "w" else (state.bx, state.by, state.bz)[which]
    size = (*launch.cluster, 1)[which]
    one, full = np.int64(1), np.int64(0xFFFFFFFF)

    def lane() -> Array:
        return state.thread % 32

    values: dict[str, Callable[[], Array]] = {
        "tid": lambda: (state.tid_x, state.tid_y, state.tid_z, _uniform(0))[which],
        "ctaid": lambda: block,
        "ntid": lambda: _uniform((*state.block, 1)[which]),
        "nctaid": lambda: _uniform((*state.grid, 1)[which]),
        "cluster_ctaid": lambda: block % size,
        "clusterid": lambda: block // size,
        "cluster_nctaid": lambda: _uniform(size),
        "nclusterid": lambda: _uniform((*clusters.in_clusters(state), 1)[which]),
        "cluster_ctarank": lambda: clusters.rank_by_block(state).astype(i4),
        "cluster_nctarank": lambda: _uniform(clusters.of(state).size),
        "is_explicit_cluster": lambda: _uniform(launch.explicit_cluster, np.dtype(bool)),
        "laneid": lambda: lane().astype(i4),
        "warpid": lambda: (state.thread // 32).astype(i4),
        "nwarpid": lambda: _uniform(launch.chip.warps),
        "smid": lambda: _sm(state).astype(i4),
        "nsmid": lambda: _uniform(launch.chip.sms),
        "gridid": lambda: _uniform(launch.chip.seed % 1000 + 1, i8),
        "lanemask_eq": lambda: (one << lane()).astype(i4),
        "lanemask_lt": lambda: ((one << lane()) - 1).astype(i4),
        "lanemask_le": lambda: ((one << lane() + 1) - 1).astype(i4),
        "lanemask_gt": lambda: (full & ~((one << lane() + 1) - 1)).astype(i4),
        "lanemask_ge": lambda: (full & ~((one << lane()) - 1)).astype(i4),
        "envreg1": lambda: _uniform(GRID_WORKSPACE >> 32 if launch.cooperative else 0),
        "envreg2": lambda: _uniform(GRID_WORKSPACE & 0xFFFFFFFF if launch.cooperative else 0),
        "dynamic_smem_size": lambda: _uniform(launch.shared_bytes - launch.static_shared),
        "total_smem_size": lambda: _uniform(launch.shared_bytes),
        "aggr_smem_size": lambda: _uniform(launch.shared_bytes),
    }
    return values.get(base, lambda: _uniform(0))()  # other words of the driver's
