"""What orders threads, told to observers, where more than one place of the machine does so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nogpu.emulator.machine.events import Access
from nogpu.emulator.machine.grouping import BarrierWait, Group

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State


def warp_sync(state: State, mask: Group) -> None:
    """__syncwarp and the other warp operations that order the lanes of a warp."""
    for o in state.observers:
        o.warp(mask)


def fence(state: State, scope: int, mask: Group) -> None:
    """membar and fence. scope: 0 for the block, 1 for the device and beyond."""
    for o in state.observers:
        o.fence(scope, mask)


def join(state: State, ready: Sequence[BarrierWait]) -> None:
    """A barrier of some warps opens: what each did before it is now known to those that waited."""
    by_barrier: dict[int, list[Group]] = {}
    for w in ready:
        by_barrier.setdefault(w.barrier, []).append(w.threads)
    for o in state.observers:
        for barrier, groups in by_barrier.items():
            o.named(groups, barrier)


def arrived(state: State, access: Access) -> None:
    """Threads arrive at mbarriers."""
    for o in state.observers:
        o.arrive(access.where, access.site.relaxed)


def finish(state: State) -> None:
    """The blocks of a batch have ended."""
    if state.products is not None:
        state.products.end()
    for o in state.observers:
        o.finish()
