"""What orders threads, as those who watch are told: barriers, operations of a warp, fences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.machine.grouping import Group, Waiting
from helpers.emulator.observe.ordered import OrderedLog
from helpers.emulator.observe.races import WARP_SYNC

if TYPE_CHECKING:
    from helpers.emulator.machine.state import State

Array = np.ndarray[Any, np.dtype[Any]]


def warp_sync(state: State, mask: Group) -> None:
    """__syncwarp and the other warp operations that order the lanes of a warp."""
    if state.log is not None and state.log.log:
        state.log.add(-1, WARP_SYNC, None, 0, mask)


def fence(state: State, scope: int, mask: Group) -> None:
    """membar and fence. scope: 0 for the block, 1 for the device and beyond."""
    if state.order is not None:
        state.order.fence(scope, mask)


def interval(state: State, opened: Array | None, others: bool) -> None:
    """A barrier of whole blocks opens. opened: which blocks (1, 1, p, q), None for all.

    others: whether threads of other blocks still wait.
    """
    if state.log is not None:
        state.log.end_interval(~opened if others and opened is not None else None)
    if state.order is not None:
        every = np.ones((state.blocks, state.warp_shape.warps), bool)
        state.order.join(every if opened is None else every & opened.reshape(-1, 1), True)
    state.epoch = state.epoch + (1 if opened is None else opened.astype(np.int32))
    if state.order is not None:
        state.order.viewed = None


def join(state: State, ready: Sequence[Waiting]) -> None:
    """A barrier of some warps: what each did before it is now known to the others."""
    if state.order is not None:
        for barrier in {w.barrier for w in ready}:
            masks = (w.threads for w in ready if w.barrier == barrier)
            state.order.join(np.any([state.warps_active(m) for m in masks], axis=0).T, False)
    if state.log is None:
        return
    if isinstance(state.log, OrderedLog):
        for barrier in {w.barrier for w in ready}:
            state.log.join([w.threads for w in ready if w.barrier == barrier])
        return
    nwarps = state.warp_shape.warps
    clocks = state.log.clocks
    clocks = np.eye(nwarps, dtype=np.int32) if clocks is None else clocks.copy()
    for barrier in {w.barrier for w in ready}:
        warps = np.zeros(nwarps, bool)
        for w in ready:
            if w.barrier == barrier:
                warps |= state.warps_active(w.threads).any(axis=1)
        together = np.flatnonzero(warps)
        joint = clocks[together].max(axis=0)
        clocks[together] = joint
        clocks[together, together] += 1
    state.log.clocks = clocks


def finish(state: State) -> None:
    """The blocks of a batch have ended: judge the last interval."""
    if state.log is not None:
        state.log.end_interval()
