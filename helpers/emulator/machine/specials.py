"""Special registers: where a thread is in its warp, its block and the grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from helpers.emulator.machine.state import State

Array = np.ndarray[Any, np.dtype[Any]]

i4, i8 = np.dtype("i4"), np.dtype("i8")


def _uniform(value: int, kind: np.dtype[Any] = i4) -> Array:
    return np.array(value, "i8").astype(kind).reshape(1, 1, 1, 1)


def value(state: State, name: str) -> Array:
    """The value of a special register such as tid.x or clock64, by threads."""
    base, _, axis = name.partition(".")
    which = "xyzw".find(axis) if axis else 0
    if base == "tid":
        return (state.tid_x, state.tid_y, state.tid_z, _uniform(0))[which]
    if base == "ctaid":
        return (state.bx, state.by, state.bz, _uniform(0))[which]
    if base == "ntid":
        return _uniform((*state.block, 1)[which])
    if base == "nctaid":
        return _uniform((*state.grid, 1)[which])
    lane = (state.thread % 32).astype(i4)
    one, full = np.int64(1), np.int64(0xFFFFFFFF)
    launch = state.launch
    values: dict[str, Callable[[], Array]] = {
        "laneid": lambda: lane,
        "warpid": lambda: (state.thread // 32).astype(i4),
        "nwarpid": lambda: _uniform(state.warp_shape.warps),
        "smid": lambda: _uniform(0),
        "nsmid": lambda: _uniform(1),
        "gridid": lambda: _uniform(0, i8),
        # Time does not exist here: clocks are defined to stand still.
        "clock": lambda: _uniform(0),
        "clock_hi": lambda: _uniform(0),
        "clock64": lambda: _uniform(0, i8),
        "globaltimer": lambda: _uniform(0, i8),
        "globaltimer_lo": lambda: _uniform(0),
        "globaltimer_hi": lambda: _uniform(0),
        "lanemask_eq": lambda: (one << lane.astype(i8)).astype(i4),
        "lanemask_lt": lambda: ((one << lane.astype(i8)) - 1).astype(i4),
        "lanemask_le": lambda: ((one << (lane.astype(i8) + 1)) - 1).astype(i4),
        "lanemask_gt": lambda: (full & ~((one << (lane.astype(i8) + 1)) - 1)).astype(i4),
        "lanemask_ge": lambda: (full & ~((one << lane.astype(i8)) - 1)).astype(i4),
        "dynamic_smem_size": lambda: _uniform(launch.shared_bytes - launch.static_shared),
        "total_smem_size": lambda: _uniform(launch.shared_bytes),
        "aggr_smem_size": lambda: _uniform(launch.shared_bytes),
    }
    return values[base]()
