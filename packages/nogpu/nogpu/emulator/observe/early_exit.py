"""Blocks that may have ended while others of their cluster still use their shared memory.

A block's shared memory is there until its last thread leaves. An access to it by another block is
safe if one of its own threads knows of it before the end: by a barrier of the cluster, an mbarrier,
or a flag with its fences. An arrival that tcgen05.commit announces comes later and is no thread's:
there the block has to wait for the phase. Source: CUDA C++ Programming Guide, Distributed Shared
Memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.attribution import Offender, accuse
from nogpu.emulator.machine.events import Access, Observer, Stage
from nogpu.emulator.machine.lanes import WARP, Array

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.observe.engines import EngineWatch
    from nogpu.emulator.observe.races import RaceWatch
    from nogpu.emulator.ptx.sites import Site


class EarlyExitWatch(Observer):
    """Keeps of each block when the threads of its peers used its shared memory last."""

    def __init__(self, races: RaceWatch, engines: list[EngineWatch]) -> None:
        """races: whose clock says what a block knows of its peers. engines: who knows of commits.

        Both are told of events after this one.
        """
        self.races, self.engines = races, engines

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""
        self.state = state
        self.stamp: Array | None = None  # (clusters, ranks of the owner, threads); -1: never
        self.site = np.zeros(0, np.int32)  # of that access, the same shape
        self.sites: dict[int, Site] = {}
        self.commits: dict[tuple[int, int], tuple[int, Offender, Site]] = {}  # by unit and owner

    def access(self, access: Access) -> None:
        """Note who uses the shared memory of another block."""
        s, where, view, clock = self.state, access.where, self.races.view, self.races.clock
        if access.site.op == "commit":
            self.commit = access.site
            return
        if where.owner is None or access.stage is not Stage.WHOLE or view is None or clock is None:
            return
        column = np.broadcast_to(s.block_index, s.shape)
        owner = np.broadcast_to(where.owner, s.shape)
        remote = owner != column
        if where.mask is not None:
            remote = remote & where.mask.arr
        if not remote.any():
            return
        if self.stamp is None:
            self.stamp = np.full((view.blocks, view.peers.size, view.threads), -1, np.int64)
            self.site = np.zeros(self.stamp.shape, np.int32)
        cluster = view.peers.number[column[remote]]
        thread = np.broadcast_to(view.thread, s.shape)[remote]
        at = cluster, view.peers.rank[owner[remote]], thread
        # What a fence before it has handed on may be all that its peer gets to know.
        handed = access.site.strong and access.site.op in ("store", "atomic")
        stamp = clock.strong_stamp() if handed else clock.stamp()
        self.stamp[at] = stamp[cluster, thread // WARP]
        self.site[at] = access.site.index
        self.sites[access.site.index] = access.site

    def tensor_committed(self, at: Array, owner: Array, thread: Array, column: Array) -> None:
        """Note who lets products arrive at the barrier of another block."""
        for engines in self.engines:
            for i in np.flatnonzero(owner != column):
                unit = engines.commit_unit(at[i], owner[i])
                lane = Offender(self.state, int(thread[i]), int(column[i]))
                self.commits[unit, int(owner[i])] = engines.time, lane, self.commit

    def finish(self) -> None:
        """The blocks have ended: report those that did not wait for their peers' last access."""
        s, view, clock = self.state, self.races.view, self.races.clock
        if s.waited_in_vain():
            return  # nothing says when these blocks would have ended
        for (unit, owner), (time, lane, site) in self.commits.items():
            if time > self.engines[0].known_in(owner, unit):
                self._accuse(lane, site, owner)
        if self.stamp is None or view is None or clock is None:
            return
        each = view.padded // WARP
        knows = (
            clock.known_of_each()
            .reshape(view.blocks, view.peers.size, each, view.threads)
            .max(axis=2)
        )
        early = self.stamp > knows
        for index in np.unique(self.site[early]):
            cluster, rank, thread = np.nonzero(early & (self.site == index))
            accessor, inside = divmod(int(thread[0]), view.padded)
            members = view.peers.members[cluster[0]]
            lane = Offender(s, inside, int(members[accessor]), len(cluster))
            self._accuse(lane, self.sites[int(index)], int(members[rank[0]]))

    def _accuse(self, lane: Offender, site: Site, owner: int) -> None:
        verbs = dict.fromkeys(["barrier", "commit"], "arrives at an mbarrier in")
        verbs |= {"load": "reads", "store": "writes"}
        message = (
            f"{lane} {verbs.get(site.op, 'updates')} shared memory of block "
            f"{self.state.block_tuple(owner)}, which may have ended by then: it waits for nothing "
            "that comes after. Let all blocks of the cluster meet once more before the kernel "
            "ends: cluster.sync()"
        )
        accuse("race", site.line, lane, message, array="shared")
