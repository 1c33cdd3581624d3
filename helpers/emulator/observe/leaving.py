"""Blocks that may have ended while others of their cluster still use their shared memory.

A block's shared memory is there until its last thread leaves. An access to it by another block is safe if a
barrier of the cluster follows at which that thread arrives and for which the block waits. Kernels with
mbarriers or loops that wait have other ways to hold a block back: of those nothing is said. Source: CUDA C++
Programming Guide, Distributed Shared Memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.machine.events import Access, Observer, Stage

if TYPE_CHECKING:
    from helpers.emulator.machine.state import State

Array = np.ndarray[Any, np.dtype[Any]]


class Leaving(Observer):
    """Keeps of each block which barrier of the cluster it must wait for before it may end."""

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""
        self.state = state
        program = state.launch.program
        self.watches = program.clusters and not (program.mbarriers or program.waits)
        self.needed = np.zeros(state.blocks, np.int64)  # barriers of the cluster to wait for
        self.lane = np.zeros(
            state.blocks, np.int64
        )  # of the latest access: thread * blocks + column
        self.site = np.zeros(state.blocks, np.int64)

    def access(self, access: Access) -> None:
        """Note who uses the shared memory of another block."""
        s, where = self.state, access.where
        if where.owner is None or not self.watches or access.stage is not Stage.WHOLE:
            return
        column = np.broadcast_to(s.block_index, s.shape)
        chosen = np.broadcast_to(where.owner, s.shape) != column
        if where.mask is not None:
            chosen = chosen & where.mask.arr
        owner = np.broadcast_to(where.owner, s.shape)[chosen]
        lane = (s.thread * s.blocks + column)[chosen]
        needed = np.ones(len(owner), np.int64)
        if s.meetings is not None:
            needed += s.meetings.arrivals[chosen]
        more = np.flatnonzero(needed > self.needed[owner])
        more = more[np.argsort(needed[more], kind="stable")]  # the last of each block stays
        self.needed[owner[more]] = needed[more]
        self.lane[owner[more]] = lane[more]
        self.site[owner[more]] = access.site.index

    def finish(self) -> None:
        """The blocks have ended: report those that did not wait for the last access of their peers."""
        s = self.state
        waits = np.zeros(s.blocks, np.int64)
        if s.meetings is not None:
            waits = s.meetings.waits.max(axis=(0, 1)).reshape(-1)
        for index in np.unique(self.site[self.needed > waits]):
            early = np.flatnonzero((self.needed > waits) & (self.site == index))
            thread, column = divmod(int(self.lane[early[0]]), s.blocks)
            site = s.sites[int(index)]
            verb = {"load": "reads", "store": "writes"}.get(site.op, "updates")
            s.find(
                "race",
                site.line,
                f"thread {s.thread_text(thread)} of block {s.block_tuple(column)} {verb} shared memory of "
                f"block {s.block_tuple(int(early[0]))}, which may have ended by then: no barrier of the "
                "cluster follows that both use. Let all blocks of the cluster meet once more before the "
                "kernel ends: cluster.sync()",
                len(early),
                array="shared",
                threads=(thread,),
                block=s.block_tuple(column),
            )
