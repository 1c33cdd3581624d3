"""The judge of what engines do to shared memory: the copy engine, and the Tensor Cores of wgmma.

An engine works on while its threads go on. Who may touch a place is what those know who
waited: for the mbarrier that counts a copy's bytes, for the group of a copy that reads, for the
group of a product. Each such stream of work is a unit with a clock of its own (one for each
mbarrier, each thread that stores, each warpgroup that multiplies); of each unit every warp knows a
time, which mbarriers and barriers hand on. Lanes of a warp count as one here.

Between ordinary stores and an engine that reads what they wrote stands a proxy fence: by who wrote,
or by whoever knows of it. Source: PTX ISA, "Memory Consistency Model: Proxies" and
"fence.proxy.async".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nogpu.emulator.machine.attribution import TWO_WARPS, Offender, accuse
from nogpu.emulator.machine.bulk import PIECE
from nogpu.emulator.machine.events import Access, Bulk, Observer, Stage, Where
from nogpu.emulator.machine.lanes import WARP, Array
from nogpu.emulator.machine.masks import flat_lanes
from nogpu.emulator.observe.cluster_view import CLUSTER
from nogpu.emulator.observe.initialised import requester
from nogpu.emulator.observe.last_access import LastAccessJudge
from nogpu.emulator.observe.log import NOBODY
from nogpu.emulator.ptx.layout import RANK_SHIFT

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.observe.initialised import FirstWrites
    from nogpu.emulator.observe.races import RaceWatch
    from nogpu.emulator.observe.tensor_watch import TensorWatch

_BY_PRODUCT = "the product of line {line} may still read it"
_BY_COPY = "the copy engine may still read it for the copy of line {line}"
_MAY_READ = {
    "product": (
        _BY_PRODUCT,
        "Let the warpgroup wait for its products (wgmma.wait_group), then arrive at a barrier that "
        "the writer waits for",
    ),
    "tensor": (
        _BY_PRODUCT,
        "Wait for the phase of an mbarrier at which tcgen05.commit lets it arrive",
    ),
    "copy": (
        _BY_COPY,
        "The mbarrier of the block that receives it counts its bytes: let that block wait for the "
        "phase and then arrive at a barrier that the writer waits for",
    ),
    "store": (_BY_COPY, "Wait for the group of that copy first (cp.async.bulk.wait_group.read)"),
}
"""By the kind of a unit that reads: why nobody may write there, and what to do."""
_UNITS = 64  # that a batch begins with
_OFFSET = (1 << RANK_SHIFT) - 1


class _Touch(NamedTuple):
    """Pieces of shared memory, flat places, that threads of blocks touch, or have an engine touch:
    arrays of one shape. does: what they do there, with its object.
    """

    what: Access | Bulk
    place: Array
    thread: Array
    column: Array
    does: str


def _wider(known: Array) -> Array:
    """What is known, with room for twice as many units."""
    return np.concatenate([known, np.zeros_like(known)], axis=-1)


class EngineWatch(Observer):
    """Judges what engines and threads do to each other's shared memory."""

    def __init__(self, races: RaceWatch, first: FirstWrites) -> None:
        """races: who judges threads among themselves. first: who knows what is written."""
        self.races, self.first = races, first
        self.of_tensors: TensorWatch | None = None

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""
        self.state = s = state
        self.time = 0
        self.new: Array | None = None  # lines that set up mbarriers which no fence has shown
        self.view = self.races.view
        self.columns = s.blocks
        self.pieces = -(-s.launch.shared_bytes // PIECE)
        size = self.pieces * s.blocks
        self.units: dict[tuple[str, int], int] = {}
        self.wrote_unit = np.full(size, NOBODY, np.int16)  # of the last copy to each piece
        self.wrote_time = np.zeros(size, np.int64)
        self.wrote_site = np.zeros(size, np.int32)
        # The last read of each piece by unit, and those that are under way still.
        self.read_time: dict[int, Array] = {}
        self.read_site: dict[int, Array] = {}
        seen: Any = s if self.view is None else self.view
        # By barrier and rank: what those know that it has counted.
        self.counted: dict[tuple[int, int], Array] = {}
        # By unit of products and block: those of other threads that they follow in order.
        self.follows: dict[tuple[int, int], dict[int, int]] = {}
        self.known = np.zeros((seen.blocks, seen.warp_shape.warps, _UNITS), np.int64)
        # By mbarrier, or of the cluster's barrier: (blocks, units).
        self.arriving: dict[int, Array] = {}
        self.over: dict[int, Array] = {}
        self.relaxed: set[int] = set()  # mbarriers of which an arrival was no release
        self.granule = s.launch.program.granule
        self.shift = self.granule.bit_length() - 1
        # Granules that threads wrote and no proxy fence has shown to the engines.
        self.unfenced = np.zeros(-(-s.launch.shared_bytes // self.granule) * s.blocks, bool)

    # -- a cluster as one large block ------------------------------------------------------------

    def _seen(self, thread: Array, column: Array) -> tuple[Array, Array]:
        """Threads and blocks as the judges number them: through the blocks of a cluster where there
        are any.
        """
        return (thread, column) if self.view is None else self.view.numbered(thread, column)

    def _coded(self, offset: Array, owner: Array) -> Array:
        """Offsets of mbarriers with the rank of the block they lie in."""
        return offset if self.view is None else self.view.coded(offset, owner)

    def _unit(self, kind: str, number: int) -> int:
        """The number of a unit; a new one may move what is known to larger arrays."""
        unit = self.units.setdefault((kind, number), len(self.units))
        if unit == self.known.shape[-1]:
            self.known = _wider(self.known)
            tables: list[dict[Any, Array]] = [self.arriving, self.over, self.counted]
            for table in tables:
                table.update({at: _wider(known) for at, known in table.items()})
            if self.of_tensors is not None:
                self.of_tensors.fenced = _wider(self.of_tensors.fenced)
        return unit

    # -- engines ---------------------------------------------------------------------------------

    def bulk(self, bulk: Bulk) -> None:
        """An engine begins, or has been waited for."""
        if bulk.space != "shared":
            return
        if bulk.stage is Stage.WAITED:
            self._waited(bulk)
            return
        self.time += 1
        place = self._places(bulk)
        thread, column = (
            np.broadcast_to(a[:, None], place.shape) for a in (bulk.thread, bulk.column)
        )
        does = "copies it" if bulk.by == "copy" else "multiplies it"
        touch = _Touch(bulk, place, thread, column, "copies to it" if bulk.writes else does)
        act = self._write if bulk.writes else self._read
        act(bulk, touch)

    def _places(self, bulk: Bulk) -> Array:
        """Pieces by request: flat places (requests, pieces)."""
        return bulk.offset // PIECE * self.columns + bulk.owner[:, None]

    def _of_threads(self, bulk: Bulk) -> tuple[LastAccessJudge, Array, Array, Array] | None:
        """Who judges threads, the granules of each request, and of each granule, flat, the thread
        and block as the judges number them; None where no thread may have been: mostly so.
        """
        judge, each = self.races.shared, np.arange(bulk.width >> self.shift)
        granule = (bulk.offset >> self.shift)[:, :, None] + each
        granule = granule * self.columns + bulk.owner[:, None, None]
        if not isinstance(judge, LastAccessJudge):
            return None
        if not judge.met(granule) and not self.unfenced.any():
            return None
        n = granule.shape[1] * granule.shape[2]
        thread, column = (np.repeat(a, n) for a in self._seen(bulk.thread, bulk.column))
        return judge, granule.reshape(-1, n), thread, column

    def _write(self, bulk: Bulk, touch: _Touch) -> None:
        """A copy into shared memory begins."""
        self._against_copies(touch)
        self._against_reads(touch)
        if met := self._of_threads(bulk):
            judge, granule, *who = met
            judge.engine_writes(bulk.site, granule.ravel(), *who)
            self.unfenced[granule] = False
        assert bulk.barrier is not None
        home = bulk.owner if bulk.receiver is None else bulk.receiver
        self._against_inits(bulk, bulk.barrier >> 3, home)
        self._against_inits_of_peers(bulk, bulk.barrier, home)
        coded = self._coded(bulk.barrier, home)
        cluster = self._seen(bulk.thread, home)[1]
        for at in np.unique(coded):
            which = coded == at
            unit = self._unit("copy", int(at))
            places = touch.place[which].ravel()
            self.wrote_unit[places] = unit
            self.wrote_time[places] = self.time
            self.wrote_site[places] = bulk.site.index
            into = self.arriving.setdefault(int(at), np.zeros_like(self.known[:, 0]))
            into[cluster[which], unit] = self.time
        self.first.engine_wrote(bulk)

    def _read(self, bulk: Bulk, touch: _Touch) -> None:
        """A product or a copy out of shared memory begins."""
        self.first.engine_reads(bulk)
        self._against_copies(touch)
        if met := self._of_threads(bulk):
            judge, granule, *who = met
            judge.engine_reads(bulk.site, granule.ravel(), *who)
            self._proxies(bulk, judge, granule, touch.does)
        for unit, rows in self._by_unit(bulk):
            if unit not in self.read_time:
                self.read_time[unit] = np.zeros(self.pieces * self.columns, np.int64)
                self.read_site[unit] = np.zeros(self.pieces * self.columns, np.int32)
            places = touch.place[rows].ravel()
            self.read_time[unit][places] = self.time
            self.read_site[unit][places] = bulk.site.index

    def _by_unit(self, bulk: Bulk) -> list[tuple[int, Array]]:
        """Requests that read, by their unit: a warpgroup that multiplies, a thread that stores, or
        the mbarrier that counts what is copied to another block.
        """
        if bulk.receiver is not None and bulk.barrier is not None:
            coded = self._coded(bulk.barrier, bulk.receiver)
            return [(self._unit("copy", int(c)), coded == c) for c in np.unique(coded)]
        thread = self._seen(bulk.thread, bulk.column)[0]
        kind = "store" if bulk.by == "copy" else bulk.by
        number = thread // 128 if kind == "product" else thread
        return [(self._unit(kind, int(n)), number == n) for n in np.unique(number)]

    def _waited(self, bulk: Bulk) -> None:
        """Threads have waited for what read shared memory: their warps know that it is done."""
        place = self._places(bulk)
        thread, column = self._seen(bulk.thread, bulk.column)
        for unit, rows in self._by_unit(bulk):
            times = self.read_time[unit][place[rows]].max(axis=1)
            np.maximum.at(self.known[:, :, unit], (column[rows], thread[rows] >> 5), times)

    # -- threads ---------------------------------------------------------------------------------

    def access(self, access: Access) -> None:
        """A thread touches shared memory that engines work on."""
        if access.space != "shared" or access.site.op in ("barrier", "commit"):
            return
        s, where = self.state, access.where
        home = s.block_index if where.owner is None else where.owner
        offset, column, owner, thread = flat_lanes(
            s, where.mask, where.offset, s.block_index, home, s.thread
        )
        if not len(offset):
            return
        place = offset // PIECE * self.columns + owner
        loads = access.site.op == "load"
        touch = _Touch(access, place, thread, column, "reads it" if loads else "writes it")
        self._against_copies(touch)
        if loads:
            return
        self._against_reads(touch)
        self.wrote_unit[place] = NOBODY
        at = (offset >> self.shift) * self.columns + owner
        for j in range(access.site.width >> self.shift):
            self.unfenced[at + j * self.columns] = True

    def inits(self, mask: Mask | None) -> None:
        """The mbarriers of these threads' blocks may be used: it is not asked which of them set one
        up.
        """
        if self.new is not None:
            self.new[:, self.state.warps_active(mask).any(axis=0)] = 0

    def proxy(self, space: str, mask: Mask | None) -> None:
        """What these threads know to be written, the engines may read from here on."""
        if space == "global":
            return
        self.inits(mask)
        judge = self.races.shared
        if not isinstance(judge, LastAccessJudge):
            return
        place = np.flatnonzero(self.unfenced)
        if not len(place):
            return
        column = self._seen(place, place % self.columns)[1]
        lanes = judge.clock.threads_of(mask)  # (blocks, warps, 32)
        fenced = lanes.reshape(len(lanes), -1)
        writer, time, _ = judge.written(place)
        shown = writer < 0
        rest = np.flatnonzero(~shown)
        shown[rest] = fenced[column[rest], writer[rest]]
        for warp in np.flatnonzero(lanes.any(axis=(0, 2))):
            some = np.asarray(lanes[:, warp].any(axis=1))
            rest = np.flatnonzero(~shown & some[column])
            if len(rest):
                thread = warp * 32 + np.argmax(lanes[:, warp], axis=1)[column[rest]]
                shown[rest] = judge.clock.knows(writer[rest], time[rest], column[rest], thread)
        self.unfenced[place[shown]] = False

    # -- what they may not do --------------------------------------------------------------------

    def _against_copies(self, touch: _Touch) -> None:
        """Places whose last copy the warp does not know to have landed."""
        place = touch.place
        unit = self.wrote_unit[place]
        bad = np.asarray(unit >= 0)
        if not bad.any():
            return
        who, block = self._seen(touch.thread, touch.column)
        bad &= self.known[block, who >> 5, unit] < self.wrote_time[place]
        if bad.any():
            reason = "the copy engine's copy of line {line} to it may still be under way"
            cure = "Wait for the phase of the mbarrier that counts its bytes"
            self._find(touch, bad, self.wrote_site, reason, cure)

    def _against_reads(self, touch: _Touch) -> None:
        """Places that an engine may still read for others."""
        who, block = self._seen(touch.thread, touch.column)
        for (kind, _), unit in self.units.items():
            times = self.read_time.get(unit)
            if times is None:
                continue
            bad = np.asarray(times[touch.place] > self.known[block, who >> 5, unit])
            if bad.any():
                self._find(touch, bad, self.read_site[unit], *_MAY_READ[kind])

    def _against_inits(self, bulk: Bulk, barrier: Array, home: Array) -> None:
        """An engine may count at an mbarrier only after a fence has shown it that there is one."""
        if self.new is None:
            return
        barrier = np.minimum(barrier, len(self.new) - 1)  # where none can lie, none is new
        lines = self.new[barrier, home]
        if not lines.any():
            return
        line = int(lines.max())
        lane = requester(self.state, bulk, lines)
        message = (
            f"the bytes of this copy of {lane} are counted at an mbarrier that line {line} has "
            "initialised, and no fence stands between: the engine may not see it yet. Put "
            "fence.mbarrier_init or fence.proxy.async after mbarrier.init, before the barrier of "
            "the block"
        )
        accuse("race", bulk.site.line, lane, message, other_line=line)
        self.new[barrier, home] = 0  # said once

    def _against_inits_of_peers(self, bulk: Bulk, barrier: Array, home: Array) -> None:
        """An engine counts at an mbarrier of another block for those who know that it is set up."""
        judge, s = self.races.shared, self.state
        inside = (barrier >= 0) & (barrier + 8 <= s.launch.shared_bytes)
        far = np.flatnonzero(inside & (home != bulk.column))
        if not len(far) or not isinstance(judge, LastAccessJudge):
            return
        writer, time, wrote = judge.written((barrier[far] >> self.shift) * self.columns + home[far])
        who = self._seen(bulk.thread[far], bulk.column[far])
        bad = (writer >= 0) & ~judge.clock.knows(writer, time, who[1], who[0])
        if not bad.any():
            return
        i, line = int(far[bad][0]), s.sites[int(wrote[bad][0])].line
        lane = Offender(s, int(bulk.thread[i]), int(bulk.column[i]), int(np.count_nonzero(bad)))
        name, where = s.shared_name(int(barrier[i]))
        message = (
            f"the bytes of this copy of {lane} are counted at {where} of block "
            f"{s.block_tuple(int(home[i]))}, which line {line} initialises, and nothing says that "
            "this has been done: __syncthreads() waits for the threads of one block alone. Let the "
            "blocks of the cluster meet after mbarrier.init and its fence: cluster.sync()"
        )
        accuse("race", bulk.site.line, lane, message, array=name, index=where, other_line=line)

    def _proxies(self, bulk: Bulk, judge: LastAccessJudge, granule: Array, verb: str) -> None:
        """Places that threads wrote without a fence that shows it to the engines."""
        bad = np.asarray(self.unfenced[granule], bool)
        if not bad.any():
            return
        s, site, place = self.state, bulk.site, int(granule[bad][0])
        writer, _, wrote = (int(x[0]) for x in judge.written(np.array([place])))
        line = s.sites[wrote].line if writer >= 0 else 0
        name, where = s.shared_name(place // self.columns * self.granule)
        lane = requester(s, bulk, bad)
        by = f"an ordinary store wrote it (line {line})" if line else "an atomic wrote it"
        message = (
            f"{where}: an engine {verb} for {lane}, and {by} "
            "without a fence between the two ways to memory: the engine may see what was there "
            "before. Put fence.proxy.async after the stores, before the barrier"
        )
        accuse(
            "race",
            site.line,
            lane,
            message,
            array=name,
            index=where,
            other_line=line,
            weight=TWO_WARPS,
        )
        self.unfenced[granule[bad]] = False  # said once

    def _find(self, touch: _Touch, bad: Array, sites: Array, reason: str, cure: str) -> None:
        """Report the first bad one. sites: of what an engine did at each place."""
        what, place, thread, column, does = touch
        s, site = self.state, what.site
        at = tuple(int(x) for x in np.argwhere(bad)[0])
        there = int(place[at])
        line = s.sites[int(sites[there])].line
        lane = Offender(s, int(thread[at]), int(column[at]), int(np.count_nonzero(bad)))
        name, where = s.shared_name(there // self.columns * PIECE)
        by = f"{lane} " if isinstance(what, Access) else f"an engine, asked by {lane}, "
        message = f"{where}: {by}{does} while {reason.format(line=line)}. {cure}"
        accuse("race", site.line, lane, message, array=name, index=where, other_line=line)

    # -- what orders -----------------------------------------------------------------------------

    def _warps(self, mask: Mask | None) -> Array:
        """bool (blocks, warps)."""
        seen: Any = self.state if self.view is None else self.view
        return np.asarray(seen.warps_active(mask).T)

    def _by_barrier(
        self, offset: Array, owner: Array | None, mask: Mask | None
    ) -> list[tuple[int, Array]]:
        """Each mbarrier that is meant, and which warps mean it: bool (blocks, warps)."""
        if offset.size == 1 and self.view is None:
            return [(int(offset.reshape(())), self._warps(mask))]
        s = self.state
        home = s.block_index if owner is None else owner
        at, home, thread, column = flat_lanes(s, mask, offset, home, s.thread, s.block_index)
        at = self._coded(at, home)
        thread, block = self._seen(thread, column)
        out = []
        for one in np.unique(at):
            which = np.zeros(self.known.shape[:2], bool)
            here = at == one
            which[block[here], thread[here] >> 5] = True
            out.append((int(one), which))
        return out

    def set_up(self, where: Where, line: int) -> None:
        """mbarriers are initialised."""
        s = self.state
        if self.new is None:
            self.new = np.zeros((s.launch.shared_bytes // 8 + 1, s.blocks), np.int32)
        place, block = flat_lanes(s, where.mask, where.offset >> 3, s.block_index)
        self.new[place, block] = line
        for at in (int(at) for at in np.unique(where.offset)):
            for table in (self.arriving, self.over):
                for key in [k for k in table if k & _OFFSET == at]:
                    del table[key]

    def arrive(self, where: Where, relaxed: bool) -> None:
        """What warps know goes to the mbarriers that they arrive at."""
        for at, which in self._by_barrier(where.offset, where.owner, where.mask):
            if relaxed:
                self.relaxed.add(at)
            else:
                self._released(which)
            self._gather(self.arriving, at, which)

    def _gather(self, at_barriers: dict[Any, Array], at: Any, which: Array) -> None:
        """What warps, bool (blocks, warps), know stays at a barrier."""
        gathered = np.where(which[:, :, None], self.known, 0).max(axis=1)
        into = at_barriers.setdefault(at, gathered)
        np.maximum(into, gathered, out=into)

    def behind(self, offset: Array, owner: Array, thread: Array, column: Array) -> None:
        """Products that threads have issued arrive at mbarriers when complete: flat arrays.

        What the threads know of engines is over by then, too.
        """
        who, block = self._seen(thread, column)
        for at, mine, cluster in zip(self._coded(offset, owner), who, block, strict=True):
            unit, commit = self._unit("tensor", int(mine)), self._unit("commit", int(at))
            into = self.arriving.setdefault(int(at), np.zeros_like(self.known[:, 0]))
            np.maximum(into[cluster], self.known[cluster, mine >> 5], out=into[cluster])
            into[cluster, unit] = self.time
            follows = self.follows.setdefault((unit, int(cluster)), {})
            follows[commit] = self.time  # a thread's arrive in turn
            for other, time in follows.items():
                into[cluster, other] = max(into[cluster, other], time)

    def commit_unit(self, offset: Array, owner: Array) -> int:
        """The unit of what arrives at one mbarrier behind products."""
        return self._unit("commit", int(self._coded(offset, owner)))

    def known_in(self, column: int, unit: int) -> int:
        """What the best informed warp of a block knows of a unit."""
        thread, block = self._seen(np.zeros(1, int), np.array([column]))
        each = self.state.warp_shape.warps
        first = int(thread[0]) // WARP
        return int(self.known[block[0], first : first + each, unit].max())

    def complete(self, barriers: Array) -> None:
        """Phases are complete: bool (words, blocks)."""
        for at in [at for at in self.arriving if at != CLUSTER]:
            here = barriers[at >> 2] if self.view is None else self.view.completed(barriers, at)
            if here.any():
                self._complete(at, here)

    def _complete(self, at: int, here: Array) -> None:
        """A phase is complete. here: in which blocks."""
        arrived = self.arriving[at]
        old = self.over.setdefault(at, np.zeros_like(arrived))
        np.maximum(old, np.where(here[:, None], arrived, 0), out=old)

    def acquire(self, offset: Array, mask: Mask | None, relaxed: bool) -> None:
        """Warps know what was known when a phase was complete, its copies among it."""
        for at, which in self._by_barrier(offset, None, mask):
            got = self.over.get(at)
            if got is not None:
                self._learn(which, got, not relaxed and at not in self.relaxed)

    def _released(self, which: Array) -> None:
        """Warps, bool (blocks, warps), are about to release what they know."""
        if self.of_tensors is not None:
            self.of_tensors.released(which)

    def _learn(self, which: Array, what: Array, acquires: bool = True) -> None:
        """Warps, bool (blocks, warps), know what is known by block and unit. acquires: what they
        do comes after that.
        """
        gain = np.where(which[:, :, None], what[:, None, :], 0)
        np.maximum(self.known, gain, out=self.known)
        if acquires and self.of_tensors is not None:
            fenced = self.of_tensors.fenced
            np.maximum(fenced, gain, out=fenced)

    def _meet(self, which: Array) -> None:
        """Some warps of each block: what one knew, all know."""
        self._released(which)
        self._learn(which, np.where(which[:, :, None], self.known, 0).max(axis=1))

    def interval(self, opened: Array | None, others: bool) -> None:
        """Whole blocks have met."""
        s, view = self.state, self.view
        blocks = np.ones(s.blocks, bool) if opened is None else opened.ravel()
        whole = np.repeat(blocks[:, None], s.warp_shape.warps, axis=1)
        for which in self._by_rank(whole if view is None else view.by_cluster(whole)):
            self._meet(which)

    def _by_rank(self, which: Array) -> list[Array]:
        """Warps, bool (blocks, warps), by the block of a cluster that they are of."""
        return [which] if self.view is None else self.view.by_rank(which)

    def left(self, barrier: int, mask: Mask | None) -> None:
        """Warps are counted at a barrier, and go on: what they know stays there."""
        for rank, which in enumerate(self._by_rank(self._warps(mask))):
            self._released(which)
            self._gather(self.counted, (barrier, rank), which)

    def named(self, groups: Sequence[Mask | None], barrier: int) -> None:
        """Some warps of blocks have met."""
        every = np.any([self._warps(m) for m in groups], axis=0)
        for rank, which in enumerate(self._by_rank(every)):
            self._meet(which)
            if (counted := self.counted.get((barrier, rank))) is not None:
                self._learn(which, counted)
                counted[which.any(axis=1)] = 0

    def cluster_arrive(self, mask: Mask | None, relaxed: bool) -> None:
        """Threads arrive at the barrier of their cluster."""
        which = self._warps(mask)
        if not relaxed:
            self._released(which)
        self._gather(self.arriving, CLUSTER, which)

    def cluster_complete(self, blocks: Array) -> None:
        """Barriers of clusters open: bool (blocks,)."""
        if self.view is not None and CLUSTER in self.arriving:
            self._complete(CLUSTER, blocks[self.view.peers.members[:, 0]])

    def cluster_acquire(self, mask: Mask | None) -> None:
        """Threads have waited for the barrier of their cluster, which has opened."""
        if (opened := self.over.get(CLUSTER)) is not None:
            self._learn(self._warps(mask), opened)

    def finish(self) -> None:
        """The blocks have ended: report copies into their shared memory, or from there to peers,
        that nobody in them knows to be done. Those that read for threads `Stores.never_waited`
        reports.
        """
        if self.state.waited_in_vain():
            return
        place = np.flatnonzero(self.wrote_unit >= 0)
        self._report_unfinished(
            place, self.wrote_unit[place], self.wrote_time[place], self.wrote_site,
            "may still write it: no thread of the block has waited for the phase of the mbarrier "
            "that counts its bytes. The shared memory of a block that has ended is another's. "
            "Wait for every copy before the end",
        )  # fmt: skip
        for (kind, _), unit in self.units.items():
            times = self.read_time.get(unit)
            if kind == "copy" and times is not None:
                place = np.flatnonzero(times)
                self._report_unfinished(
                    place, np.full(len(place), unit), times[place], self.read_site[unit],
                    "may still read it for another block: nobody has told this one that the bytes "
                    "are there. Let the blocks of the cluster meet after the wait for them: "
                    "cluster.sync()",
                )  # fmt: skip

    def _report_unfinished(
        self, place: Array, unit: Array, time: Array, sites: Array, says: str
    ) -> None:
        """Places that engines still work on when no warp of their block knows better."""
        s = self.state
        owner = place % self.columns
        thread, column = self._seen(np.zeros_like(owner), owner)
        each = s.warp_shape.warps
        known = self.known.reshape(len(self.known), -1, each, self.known.shape[-1]).max(axis=2)
        late = time > known[column, thread // WARP // each, unit]
        explained = {other for *_, other in s.launch.faults}  # lines of copies already reported
        for index in np.unique(sites[place[late]]):
            line = s.sites[int(index)].line
            if line in explained:
                continue
            at = np.flatnonzero(late & (sites[place] == index))
            block = s.block_tuple(int(owner[at[0]]))
            name, where = s.shared_name(int(place[at[0]]) // self.columns * PIECE)
            message = f"{where}: block {block} ends while the copy engine {says}"
            s.find("race", line, message, len(at), array=name, index=where, block=block)
