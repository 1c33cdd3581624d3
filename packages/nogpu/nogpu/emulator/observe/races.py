"""Races: what two threads may not do unless something orders them.

One log and one clock, two judges: accesses to shared memory are logged and judged when an interval
ends (`interval`); where mbarriers order single threads, and in global memory, they are judged one
by one against the last ones to the same place (`last_access`, `global_memory`). A clock is kept
once more than barriers of the whole block orders threads: named barriers, mbarriers, or fences with
flags and locks. Where blocks form clusters, a cluster is judged as one large block
(`cluster_view`), and accesses one by one.

Accesses that are made for synchronisation (atomic, relaxed, acquire and release ones; in global
memory also volatile loads and stores, in shared memory those of places that a loop waits for) do
not race with each other, only with others; two volatile stores do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine.events import Access, Bulk, Observer, Served, Stage, Where
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import flat_lanes
from nogpu.emulator.machine.memory import Buffer
from nogpu.emulator.observe.clock import Clock
from nogpu.emulator.observe.cluster_view import ClusterClock, ClusterView
from nogpu.emulator.observe.global_memory import GlobalJudge
from nogpu.emulator.observe.interval import IntervalJudge
from nogpu.emulator.observe.last_access import LastAccessJudge

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.observe.initialised import FirstWrites
    from nogpu.emulator.ptx.sites import Site


class RaceWatch(Observer):
    """Judges which accesses of a launch are ordered, in shared and in global memory."""

    def __init__(self, first: FirstWrites, writable: set[int] | None, flags: bool) -> None:
        """Judge by barriers until something else orders threads.

        first: who is to judge uninitialised reads when an interval ends. writable: slots of the
        arrays that the kernel may write; None: all. flags: whether fences, flags and locks may
        order threads.
        """
        self.first, self.flags = first, flags
        self.arrays = GlobalJudge(writable, flags)

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""
        self.state = state
        self.epoch = np.zeros(state.blocks, np.int64)  # barriers of each block so far
        self.clock: Clock | None = None
        self.versions: Array | None = None  # what values in shared memory have released, flat
        self.shared: IntervalJudge | LastAccessJudge | None = None
        program = state.launch.program
        self.view = ClusterView(state) if program.clusters else None
        if state.launch.shared_bytes and not (program.mbarriers or program.clusters):
            self.shared = IntervalJudge(state, self.first)
        self.arrays.begin(state, self.epoch, None)
        if self.flags or program.mbarriers or program.clusters:
            self._need_clock()

    def _need_clock(self) -> Clock:
        """The clock, which begins to count when it is first asked for."""
        if self.clock is not None:
            return self.clock
        state, view, ledger = self.state, self.view, self.arrays.ledger
        orders: Any = {"flags": self.flags, "synchronise": self.warp}
        if view is None:
            threads = state.launch.program.mbarriers
            self.clock = Clock(state, ledger, self.epoch, threads=threads, **orders)
        else:
            self.clock = ClusterClock(view, ledger, **orders)
        seen: Any = state if view is None else view
        if isinstance(self.shared, IntervalJudge):
            self.shared.clock = self.clock
        elif state.launch.shared_bytes:
            own = state.block_index, 0 if view is None else view.padded
            self.shared = LastAccessJudge(seen, self.first, self.clock, *own)
        self.arrays.begin(seen, self.epoch, self.clock)
        return self.clock

    # -- accesses --------------------------------------------------------------------------------

    def access(self, access: Access) -> None:
        """Judge an access, or log it until its interval ends."""
        if access.space == "shared":
            if access.stage is not Stage.ARRIVED and self.shared is not None:
                self.shared.note(access)
                self._hand_on(access)
        elif access.space == "global" and access.site.op != "atomic":
            self.arrays.note(access)

    def counts_only(self, site: Site, target: Buffer) -> bool:
        """One thread races with nobody."""
        return True

    def bulk(self, bulk: Bulk) -> None:
        """What an engine does to global memory; of shared memory `engines` judges."""
        if bulk.space == "global":
            if bulk.writes:
                self._need_clock()
            self.arrays.bulk(bulk if self.view is None else self.view.in_cluster(bulk))

    def _hand_on(self, access: Access) -> None:
        """A store to shared memory may release, and a load acquire."""
        site, where = access.site, access.where
        if not self.flags or self.clock is None or access.stage is not Stage.WHOLE:
            return
        if site.op == "load" and site.strong and self.versions is not None:
            self.clock.read(self.versions, *self._lane_places(where), site.acquire)
        elif site.op == "store" and (site.strong or self.versions is not None):
            places = self._lane_places(where)
            self.clock.write(self._released(), *places, site.release, site.strong)

    def served(self, served: Served) -> None:
        """Atomics are judged in the order in which they were served, in a kernel with fences."""
        owner = served.column if served.owner is None else served.owner
        if self.view is not None:
            served = self.view.in_cluster(served)
        if served.access.space == "global":
            self.arrays.served(served)
        elif self.flags and self.clock is not None and self.shared is not None:
            site = served.access.site
            place = (served.at >> self.shared.shift) * self.state.blocks + owner
            scopes = (site.acquire, site.release)
            who = served.column, served.thread >> 5
            self.clock.update(self._released(), place, *who, served.changed, scopes)

    def _released(self) -> Array:
        """What the values in shared memory have released, by granule and block, flat."""
        if self.versions is None:
            launch = self.state.launch
            size = -(-launch.shared_bytes // launch.program.granule)
            self.versions = self.arrays.ledger.places(size * self.state.blocks)
        return self.versions

    def _lane_places(self, where: Where) -> tuple[Array, Array, Array]:
        """(place in `versions`, block, warp) of each active lane, flat."""
        s: Any = self.state if self.view is None else self.view
        assert self.shared is not None
        owner = self.state.block_index if where.owner is None else where.owner
        place = where.granule(self.shared.shift) * self.state.blocks + owner
        place, column, warp = flat_lanes(s, where.mask, place, s.block_index, s.thread >> 5)
        return place, column, warp

    def allocated(self, target: Buffer, first: int, nbytes: int) -> None:
        """malloc orders those that call it."""
        self.arrays.allocated(target, first, nbytes)

    # -- what orders -----------------------------------------------------------------------------

    def warp(self, mask: Mask | None) -> None:
        """Lanes of warps synchronise."""
        if isinstance(self.shared, IntervalJudge):
            self.shared.warp(mask)
        if self.clock is not None:
            self.clock.warp(mask)

    def fence(self, scope: int, mask: Mask | None) -> None:
        """membar and fence."""
        if self.clock is not None:
            self.clock.fence(scope, mask)

    def proxy(self, space: str, mask: Mask | None) -> None:
        """fence.proxy.async; of shared memory `engines` judges."""
        if space != "shared":
            self.arrays.proxy(mask)

    def interval(self, opened: Array | None, others: bool) -> None:
        """Whole blocks have met: judge what they did since they last did so."""
        if self.shared is not None:
            self.shared.end(~opened if others and opened is not None else None)
        if self.clock is not None:
            self.clock.interval(opened)
        self.epoch += 1 if opened is None else opened.ravel()

    def left(self, barrier: int, mask: Mask | None) -> None:
        """Threads are counted at a barrier, and go on."""
        self._need_clock().leave(barrier, mask)

    def named(self, groups: Sequence[Mask | None], barrier: int) -> None:
        """Some warps have met."""
        self._need_clock().join(groups, barrier)

    def set_up(self, where: Where, line: int) -> None:
        """mbarriers are initialised."""
        self._need_clock().forget(where.offset)

    def arrive(self, where: Where, relaxed: bool) -> None:
        """Threads arrive at mbarriers."""
        # A fence may stand before it: where those are not followed, and in clusters, it counts as
        # a release (there who waits knows at least that its peer has arrived: see `early_exit`).
        followed = self.flags or not self.state.launch.program.fences
        relaxed = relaxed and followed and self.view is None
        at = self._coded(where.offset, where.owner)
        self._need_clock().arrive(at, where.mask, relaxed)

    def complete(self, barriers: Array) -> None:
        """Phases of mbarriers are complete."""
        self._need_clock().complete(barriers)

    def acquire(self, offset: Array, mask: Mask | None, relaxed: bool) -> None:
        """Threads know that phases are complete."""
        self._need_clock().acquire(self._coded(offset, None), mask)

    def _coded(self, offset: Array, owner: Array | None) -> Array:
        """Where mbarriers lie, as the clock tells them apart."""
        return offset if self.view is None else self.view.coded(offset, owner)

    def cluster_arrive(self, mask: Mask | None, relaxed: bool) -> None:
        """Threads arrive at the barrier of their cluster."""
        if isinstance(self.clock, ClusterClock):
            self.clock.cluster_arrive(mask)

    def cluster_complete(self, blocks: Array) -> None:
        """Barriers of clusters open."""
        if isinstance(self.clock, ClusterClock):
            self.clock.cluster_complete(blocks)

    def cluster_acquire(self, mask: Mask | None) -> None:
        """Threads have waited for the barrier of their cluster."""
        if isinstance(self.clock, ClusterClock):
            self.clock.cluster_acquire(mask)

    def finish(self) -> None:
        """The blocks have ended: judge the last interval."""
        if self.shared is not None:
            self.shared.end()
