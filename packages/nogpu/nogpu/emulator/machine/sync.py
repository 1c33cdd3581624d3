"""What orders threads, told to those who watch: barriers, operations of a warp, fences, mbarriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine.events import Where
from nogpu.emulator.machine.grouping import BarrierWait, Group

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State

Array = np.ndarray[Any, np.dtype[Any]]


def warp_sync(state: State, mask: Group) -> None:
    """__syncwarp and the other warp operations that order the lanes of a warp."""
    for o in state.observers:
        o.warp(mask)


def fence(state: State, scope: int, mask: Group) -> None:
    """membar and fence. scope: 0 for the block, 1 for the device and beyond."""
    for o in state.observers:
        o.fence(scope, mask)


def interval(state: State, opened: Array | None, others: bool) -> None:
    """A barrier of whole blocks opens. opened: which blocks (1, 1, p, q), None for all.

    others: whether threads of other blocks still wait.
    """
    for o in state.observers:
        o.interval(opened, others)


def left(state: State, barrier: int, mask: Group) -> None:
    """bar.arrive: what these threads did is known to those who wait, once the barrier opens."""
    for o in state.observers:
        o.left(barrier, mask)


def join(state: State, ready: Sequence[BarrierWait]) -> None:
    """A barrier of some warps opens: what each did before it is now known to those that waited."""
    by_barrier: dict[int, list[Group]] = {}
    for w in ready:
        by_barrier.setdefault(w.barrier, []).append(w.threads)
    for o in state.observers:
        for barrier, groups in by_barrier.items():
            o.named(groups, barrier)


def set_up(state: State, where: Where, line: int) -> None:
    """mbarriers are initialised."""
    for o in state.observers:
        o.set_up(where, line)


def arrived(state: State, where: Where) -> None:
    """Threads arrive at mbarriers."""
    for o in state.observers:
        o.arrive(where)


def completed(state: State, barriers: Array) -> None:
    """Phases of mbarriers are complete: bool (words, blocks)."""
    for o in state.observers:
        o.complete(barriers)


def acquired(state: State, offset: Array, mask: Group) -> None:
    """Threads learn that the phases of the mbarriers at these offsets are complete."""
    for o in state.observers:
        o.acquire(offset, mask)


def cluster_arrived(state: State, mask: Group) -> None:
    """Threads arrive at the barrier of their cluster."""
    for o in state.observers:
        o.cluster_arrive(mask)


def cluster_completed(state: State, blocks: Array) -> None:
    """Barriers of clusters open: bool (blocks,)."""
    for o in state.observers:
        o.cluster_complete(blocks)


def cluster_acquired(state: State, mask: Group) -> None:
    """Threads have waited for the barrier of their cluster."""
    for o in state.observers:
        o.cluster_acquire(mask)


def finish(state: State) -> None:
    """The blocks of a batch have ended."""
    if state.products is not None:
        state.products.end()
    for o in state.observers:
        o.finish()
