"""What happens before what: one clock, which knows what every warp knows of the others.

Barriers of the whole block, named barriers, mbarriers, fences with flags and locks: all of them
hand on what threads have done. A release is a fence and then a strong write (an atomic, or a
volatile, relaxed or releasing store); an acquire is a strong read that sees such a write, or an
atomic one that followed it, and then a fence. What came before the release then happens before what
comes after the acquire. A barrier of the block stands between: what its threads did before it
counts for each of them after it, fences too.

The fence of an acquire is not asked for where a GPU does without it, as much working code does:
within a block, and for data of other blocks that nobody has loaded before they were written, so
that no cache of an SM (L1) can hold an older copy of them.

An access has a stamp: the barriers of its block so far, and what its warp has handed on since. What
a warp knows of another thread is the highest stamp of which it knows: of its own block always
(`known`), of others only after it acquired something (`far`). A release keeps a copy of both, as of
the fence. Known are whole warps, whose lanes count as one; in kernels with mbarriers, which order
single threads, single threads. Where only some lanes of a warp waited for an mbarrier, the others
learn of it at the next synchronisation of the warp: until then `lane_known` holds for those lanes
alone.

Source: PTX ISA, Memory Consistency Model (release and acquire patterns, causality order).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import array_of

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State

SHIFT = 32  # bits of a stamp that count what a warp has handed on
_NOTHING = -1  # was done, is known or was released
_ALWAYS = np.iinfo(np.int64).max  # known of threads that do not exist
_MAX_RELEASED = 64_000_000  # bytes of released knowledge; beyond, what no place holds is dropped
MAX_WARPS = 262_144
"""Warps of a launch for which order between blocks is kept."""


@dataclass(eq=False)
class Released:
    """What a strong write published: the knowledge of its warp at the fence before it."""

    block: int
    warp: int
    near: Array  # stamps of the block's threads, for readers of the same block
    near_far: Array | None  # the same of all warps of the launch; None: nothing
    row: Array | None  # stamps of all warps, for other blocks; None: nothing

    @property
    def nbytes(self) -> int:
        """Memory held, about."""
        return self.near.nbytes + (0 if self.row is None else self.row.nbytes) + 200


class Ledger:
    """What all batches of a launch share: the released knowledge, by number."""

    def __init__(self) -> None:
        self.items: dict[int, Released] = {}
        self.count = 0
        self.nbytes = 0
        self.versions: list[Array] = []  # by place of a memory: number of what its value released

    def places(self, size: int) -> Array:
        """Versions of a memory of this many places."""
        versions = np.full(size, _NOTHING, np.int32)
        self.versions.append(versions)
        return versions

    def forget(self) -> bool:
        """Drop the knowledge that no place holds any more, if all of it takes much memory."""
        if self.nbytes <= _MAX_RELEASED:
            return False
        alive = {int(n) for v in self.versions for n in np.unique(v)}
        self.items = {n: i for n, i in self.items.items() if n in alive}
        self.nbytes = sum(i.nbytes for i in self.items.values())
        return True

    def enter(self, item: Released) -> int:
        """Give knowledge a number."""
        self.count += 1
        self.items[self.count] = item
        self.nbytes += item.nbytes
        return self.count


def _joined(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None or a is b:
        return b if a is None else a
    return np.maximum(a, b)


def _any_lane(lanes: Array) -> Array:
    """bool (blocks, warps) of (blocks, warps, 32)."""
    return np.asarray(lanes.any(axis=2))


@dataclass(eq=False)
class _Far:
    """What is handed on about other blocks: stamps with and without a fence, what awaits one."""

    far: Array | None = None
    seen: Array | None = None
    pending: dict[int, Released] = field(default_factory=dict)

    def join(self, far: Array | None, seen: Array | None, pending: dict[int, Released]) -> None:
        """Add to it."""
        self.far, self.seen = _joined(self.far, far), _joined(self.seen, seen)
        self.pending = self.pending | pending


class Clock:
    """Who knows what of whom among the warps of a batch, and of those of the batches before it."""

    def __init__(
        self,
        state: State,
        ledger: Ledger,
        epoch: Array,
        *,
        threads: bool,
        flags: bool,
        synchronise: Callable[[Mask | None], None],
    ) -> None:
        """Nobody knows of anybody yet.

        epoch: barriers of each block so far, int64 (blocks,). threads: whether single threads are
        ordered, not warps alone. flags: whether fences, flags and locks order, blocks too.
        synchronise: called where one lane of a warp hands on to another.
        """
        self.state, self.ledger = state, ledger
        self.threads, self.flags, self.synchronise = threads, flags, synchronise
        nb, nw = state.blocks, state.warp_shape.warps
        self.blocks, self.warps = nb, nw
        self.each = 32 if threads else 1  # units of a warp whose time is known apart
        self.linear = state.linear_block.ravel()
        gx, gy, gz = state.grid
        self.total = gx * gy * gz * nw
        self.epoch = epoch.astype(np.int64)
        self.ticks = np.zeros((nb, nw), np.int64)
        self.known = np.full((nb, nw, nw * self.each), _NOTHING, np.int64)
        if threads:
            self.known[..., ~self.threads_of(None)[0].ravel()] = _ALWAYS
        # As of the last fence, by its scope: 0 the block, 1 the device.
        self.near_out = [self.known.copy(), self.known.copy()] if flags else []
        self.far_out = [np.empty((nb, nw), object) for _ in self.near_out]
        self.far = np.empty((nb, nw), object)
        self.seen = np.empty((nb, nw), object)  # as far, but without a fence on the reading side
        self.pending: dict[tuple[int, int], dict[int, Released]] = {}
        self.last = np.full((nb, nw), _NOTHING, np.int32)  # what each warp read last
        self.dirty = np.zeros(nb, bool)  # blocks with something for their barrier to hand on
        self.cache: dict[tuple[int, int, int], int] = {}
        self.viewed: tuple[Array, Array] | None = None
        self.lane_known = self.known.copy() if threads else None
        self.lanes_ahead = np.zeros((nb, nw, 32), bool)  # lanes for which lane_known holds
        self.any_ahead = False  # whether there is one
        # By barrier and block: what those did and knew that bar.arrive counted, units and _Far.
        self.at_barrier: dict[tuple[int, int], Array] = {}
        self.far_at_barrier: dict[tuple[int, int], _Far] = {}
        self.arriving: dict[int, Array] = {}  # by mbarrier: what those that arrived knew
        self.last_phase: dict[int, Array] = {}  # the same when its last phase was completed
        # The same of other blocks, by mbarrier and block.
        self.far_arriving: dict[tuple[int, int], _Far] = {}
        self.far_of_last_phase: dict[tuple[int, int], _Far] = {}

    # -- stamps ----------------------------------------------------------------------------------

    def stamp(self) -> Array:
        """Stamp of what each warp does now: int64 (blocks, warps)."""
        return (self.epoch.reshape(-1, 1) << SHIFT) + self.ticks

    def strong_stamp(self) -> Array:
        """Stamp of a strong write: that of the fence it belongs to, if there was one."""
        if not self.flags:
            return self.stamp()
        fenced = self._own_fence()
        return np.where(fenced >= 0, fenced, self.stamp())

    def _own_fence(self) -> Array:
        """Stamp of each warp's last fence, -1 if there was none: (blocks, warps)."""
        warp = np.arange(self.warps)
        return self.near_out[0][:, warp, warp * self.each]

    def _units(self, stamp: Array) -> Array:
        """(blocks, warps) to (blocks, threads or warps)."""
        return np.repeat(stamp, self.each, axis=-1)

    def _own_units(self) -> Array:
        """bool (warps, threads or warps): whose unit is whose."""
        return np.repeat(np.eye(self.warps, dtype=bool), self.each, axis=1)

    def view(self) -> tuple[Array, Array]:
        """(stamps, what each warp knows of its block's others), not to be changed."""
        if self.viewed is None:
            self.viewed = (self.stamp(), self.known)
        return self.viewed

    def known_of_each(self, lanes: Array | None = None) -> Array:
        """What some thread of each warp, of `lanes` alone if given, knows of all: stamps, int64
        (blocks, warps, threads or warps).
        """
        if self.lane_known is None or not self.any_ahead:
            return self.known
        ahead = self.lanes_ahead if lanes is None else lanes & self.lanes_ahead
        waiters = _any_lane(ahead)[..., None]
        return np.where(waiters, np.maximum(self.known, self.lane_known), self.known)

    # -- what the kernel does --------------------------------------------------------------------

    def _lanes(self, mask: Mask | None) -> Array:
        return self.state.warps_active(mask).T

    def fence(self, scope: int, mask: Mask | None) -> None:
        """A fence of the threads of a mask. scope: 0 within the block, 1 within the device."""
        if not self.flags:
            return
        active = self._lanes(mask)
        self._acquire(active, scope)
        self._release(active, scope)

    def _release(self, active: Array, scope: int) -> None:
        limit = np.maximum(self.known, (self.epoch.reshape(-1, 1, 1) << SHIFT) - 1)
        own = self._own_units()
        limit = np.where(own & (limit < _ALWAYS), self._units(self.stamp())[:, None, :], limit)
        for s in range(scope + 1):
            out = self.near_out[s]
            self.near_out[s] = np.where(active[:, :, None], np.maximum(out, limit), out)
            self.far_out[s][active] = self.far[active]
        self.dirty |= active.any(axis=1)
        self._tick(active)

    def show(self, mask: Mask | None) -> Array:
        """The latest stamps of which the threads of a mask know, their warps' own among them, by
        block and thread or warp; what they do from here on comes later.
        """
        lanes = self.threads_of(mask)
        active = _any_lane(lanes)
        known = np.maximum(self.known_of_each(lanes), (self.epoch.reshape(-1, 1, 1) << SHIFT) - 1)
        best = np.where(active[:, :, None], known, _NOTHING).max(axis=1)
        own = self._units(np.where(active, self.stamp(), _NOTHING))
        self._tick(active)
        return np.maximum(best, own)

    def _tick(self, which: Array) -> None:
        """What warps do from here on comes after what they have handed on."""
        self.ticks = self.ticks + which
        self.cache = {}
        self.viewed = None

    def _acquire(self, active: Array, scope: int) -> None:
        """A fence after reads: warps know what was released."""
        for at in [k for k in self.pending if active[k]]:
            later = {}
            for number, item in self.pending.pop(at).items():
                own = item.block == self.linear[at[0]]
                if scope == 0 and not own:
                    later[number] = item  # a fence of the block does not order other blocks
                    continue
                if own:
                    self.far[at] = _joined(self.far[at], item.near_far)
                if scope == 1:
                    self.far[at] = _joined(self.far[at], item.row)
                self.dirty[at[0]] = True
            if later:
                self.pending[at] = later

    def _see(self, at: tuple[int, int], item: Released) -> None:
        """A strong read: the warp has seen what was released."""
        column, warp = at
        if self.viewed is not None:
            self.known, self.viewed = self.known.copy(), None
        near = self.known[column, warp]
        if item.row is not None:
            np.maximum(near, self._units(item.row[self._own(column)]), out=near)
        seen = _joined(self.seen[at], item.row)
        if item.block == self.linear[column]:
            np.maximum(near, item.near, out=near)
            seen = _joined(seen, item.near_far)
            if item.warp == warp:  # one lane released, another acquired: they synchronise
                s = self.state
                here = (s.thread // 32 == warp) & (s.block_index == column)
                self.synchronise(s.mask(here))
        self.seen[at] = seen
        self.dirty[column] = True

    def _own(self, column: int) -> slice:
        first = int(self.linear[column]) * self.warps
        return slice(first, first + self.warps)

    def _publish(self, column: int, warp: int, before: int) -> int:
        """Number of what a strong write of a warp releases. before: what the place held, or -1."""
        key = (column, warp, before)
        cached = self.cache.get(key)
        if cached is not None:
            return cached
        block, own = int(self.linear[column]), self._own(column)
        near, row = self.near_out[0][column, warp].copy(), None
        near_far = self.far_out[0][column, warp]
        if self.near_out[1][column, warp, warp * self.each] >= 0:
            far = self.far_out[1][column, warp]
            row = np.full(self.total, _NOTHING, np.int64) if far is None else far.copy()
            whole = self.near_out[1][column, warp].reshape(self.warps, self.each).min(axis=1)
            row[own] = np.maximum(row[own], whole)
        old = self.ledger.items.get(before)
        if old is not None:
            if old.block == block:
                np.maximum(near, old.near, out=near)
                near_far = _joined(near_far, old.near_far)
            elif old.row is not None:
                np.maximum(near, self._units(old.row[own]), out=near)
            row = _joined(row, old.row)
        number = self.ledger.enter(Released(block, warp, near, near_far, row))
        self.cache[key] = number
        self.cache[(column, warp, number)] = number
        return number

    def _warps_of(self, column: Array, warp: Array) -> Array:
        """bool (blocks, warps): these."""
        active = np.zeros((self.blocks, self.warps), bool)
        active[column, warp] = True
        return active

    def read(
        self, versions: Array, place: Array, column: Array, warp: Array, scope: int | None
    ) -> None:
        """A strong read of places: flat, with each lane's block and warp. scope: of an acquire."""
        numbers = versions[place]
        fresh = (numbers >= 0) & (numbers != self.last[column, warp])
        if not fresh.any():
            return
        who = {
            (int(c), int(w), int(n))
            for c, w, n in zip(column[fresh], warp[fresh], numbers[fresh], strict=True)
        }
        self._pend(who)
        if scope is not None:
            self._acquire(self._warps_of(column, warp), scope)

    def _pend(self, who: set[tuple[int, int, int]]) -> None:
        for c, w, n in who:
            item = self.ledger.items[n]
            self.pending.setdefault((c, w), {})[n] = item
            self.last[c, w] = n
            self._see((c, w), item)

    def write(
        self,
        versions: Array,
        place: Array,
        column: Array,
        warp: Array,
        scope: int | None,
        strong: bool,
    ) -> None:
        """A store to places. scope: of a release.

        A plain store ends what the value had released.
        """
        if not strong:
            versions[place] = _NOTHING
            return
        if scope is not None:
            self._release(self._warps_of(column, warp), scope)
        if self.ledger.forget():
            self.cache = {}
        fenced = self._own_fence()[column, warp] >= 0
        versions[place[~fenced]] = _NOTHING
        if fenced.any():
            numbers = np.full((self.blocks, self.warps), _NOTHING, np.int32)
            column, warp = column[fenced], warp[fenced]
            for c, w in {(int(c), int(w)) for c, w in zip(column, warp, strict=True)}:
                numbers[c, w] = self._publish(c, w, _NOTHING)
            versions[place[fenced]] = numbers[column, warp]

    def update(
        self,
        versions: Array,
        place: Array,
        column: Array,
        warp: Array,
        wrote: Array,
        scopes: tuple[int | None, int | None],
    ) -> None:
        """Atomics in the order in which they are served. scopes: of their acquire and release."""
        acquire, release = scopes
        active = self._warps_of(column, warp)
        if release is not None:
            self._release(active, release)
        if self.ledger.forget():
            self.cache = {}
        fenced = self._own_fence()[column, warp] >= 0
        concerned = versions[place] >= 0
        if fenced.any():
            concerned |= np.isin(place, place[fenced])
        who = set()
        for lane in np.flatnonzero(concerned):
            p, c, w = int(place[lane]), int(column[lane]), int(warp[lane])
            before = int(versions[p])
            if before >= 0:
                who.add((c, w, before))
            if wrote[lane] and fenced[lane]:
                versions[p] = self._publish(c, w, before)
        self._pend(who)
        if acquire is not None:
            self._acquire(active, acquire)

    # -- barriers --------------------------------------------------------------------------------

    def interval(self, opened: Array | None) -> None:
        """A barrier of whole blocks opens: bool, of which (None: of all)."""
        every = np.ones((self.blocks, self.warps), bool)
        blocks = np.ones(self.blocks, bool) if opened is None else opened.ravel()
        self._share(every & blocks.reshape(-1, 1), np.flatnonzero(blocks & self.dirty), True)
        self.lanes_ahead[blocks] = False
        self.any_ahead = bool(self.lanes_ahead.any())
        self.epoch = self.epoch + blocks
        self.viewed = None

    def leave(self, barrier: int, mask: Mask | None) -> None:
        """bar.arrive: what threads did and knew stays at a barrier, for those that wait there."""
        for at, which in self._by_block(self._lanes(mask), barrier):
            for c in (int(c) for c in np.flatnonzero(which.any(axis=1))):
                warps = np.flatnonzero(which[c])
                best = self._best(c, warps)
                old = self.at_barrier.get((at, c))
                self.at_barrier[at, c] = best if old is None else np.maximum(old, best)
                for w in (int(w) for w in warps) if self.flags else ():
                    far = self.far_at_barrier.setdefault((at, c), _Far())
                    far.join(self.far[c, w], self.seen[c, w], self.pending.get((c, w), {}))
            self._tick(which)

    def join(self, groups: Sequence[Mask | None], barrier: int) -> None:
        """A barrier of some warps: what each did before it is now known to those that waited."""
        which = np.any([self._lanes(m) for m in groups], axis=0)
        for at, here in self._by_block(which, barrier):
            self._meet(here, at)

    def _by_block(self, which: Array, barrier: int) -> list[tuple[int, Array]]:
        """Warps by the barriers of that number that they mean: each block of a cluster has one."""
        return [(barrier, which)]

    def _best(self, c: int, warps: Array) -> Array:
        """What some warps of a block know together, their own doings included: (units,)."""
        best: Array = self.known[c][warps].max(axis=0)
        if self.lane_known is not None:
            waiters = warps[self.lanes_ahead[c, warps].any(axis=1)]
            best = np.maximum(best, self.lane_known[c][waiters].max(axis=0, initial=_NOTHING))
        own = self._own_units()[warps].any(axis=0) & (best < _ALWAYS)
        best[own] = self._units(self.stamp()[c])[own]
        return best

    def _meet(self, which: Array, at: int = -1) -> None:
        """Warps, bool (blocks, warps), meet. at: a barrier where others may have been counted; -1:
        none.
        """
        self.known = self.known.copy()
        for c in (int(c) for c in np.flatnonzero(which.any(axis=1))):
            warps = np.flatnonzero(which[c])
            best = self._best(c, warps)
            self.known[c][warps] = _joined(best, self.at_barrier.pop((at, c), None))
            if far := self.far_at_barrier.pop((at, c), None):
                self._take_far(far, c, warps)
        self._share(which, np.flatnonzero(which.any(axis=1)), False)
        self._tick(which)

    def _share(self, which: Array, columns: Array, whole: bool) -> None:
        """What some warps of blocks have fenced and learnt of other blocks, they all have."""
        for c in (int(c) for c in columns) if self.flags else ():
            warps = np.flatnonzero(which[c])
            for s in range(2):
                self.near_out[s][c][warps] = self.near_out[s][c][warps].max(axis=0)
            for rows in (self.far, self.seen, *self.far_out):
                joint = None
                for w in warps:
                    joint = _joined(joint, rows[c, w])
                for w in warps:
                    rows[c, w] = joint
            seen: dict[int, Released] = {}
            for w in warps:
                seen |= self.pending.get((c, int(w)), {})
            if seen:
                self.pending |= {(c, int(w)): dict(seen) for w in warps}
            self.dirty[c] = not whole
        if len(columns):
            self.cache = {}

    def warp(self, mask: Mask | None) -> None:
        """The lanes of warps synchronise: what each did, and knows, all know."""
        if self.lane_known is None:
            return
        here = self.threads_of(mask)
        stamp = self.stamp()
        known = self.known.reshape(self.blocks, self.warps, self.warps, 32)
        own = np.arange(self.warps)
        known[:, own, own] = np.where(here, stamp[..., None], known[:, own, own])
        act = _any_lane(here)
        if self.any_ahead:
            full = act & ~_any_lane(~here & self.threads_of(self.state.alive))
            np.maximum(
                self.known, np.where(full[..., None], self.lane_known, _NOTHING), out=self.known
            )
            self.lanes_ahead &= ~full[..., None]
            self.any_ahead = bool(self.lanes_ahead.any())
        self.ticks = self.ticks + act

    # -- mbarriers -------------------------------------------------------------------------------

    def _by_lane(self, values: Array, nobody: int) -> Array:
        """Values of four axes to (blocks, warps, 32). nobody: of threads that do not exist."""
        s = self.state
        full = np.full((self.blocks, self.warps * 32), nobody, values.dtype)
        full[:, : s.threads] = np.broadcast_to(values, s.shape).reshape(s.threads, s.blocks).T
        return full.reshape(self.blocks, self.warps, 32)

    def threads_of(self, mask: Mask | None) -> Array:
        """bool (blocks, warps, 32): the threads of a mask."""
        return self._by_lane(array_of(mask), False)

    def _by_barrier(self, offset: Array, mask: Mask | None) -> list[tuple[int, Array]]:
        """Each mbarrier that is meant, with the lanes that mean it."""
        lanes = self.threads_of(mask)
        if offset.size == 1:
            return [(int(offset.reshape(())), lanes)]
        full = self._by_lane(offset, -1)
        return [(int(at), lanes & (full == at)) for at in np.unique(full[lanes])]

    def arrive(self, offset: Array, mask: Mask | None, relaxed: bool) -> None:
        """Threads arrive at mbarriers: what they did and knew goes there. relaxed: it is no
        release, so only a fence before it hands that on.
        """
        for at, lanes in self._by_barrier(offset, mask):
            self._give(at, lanes, relaxed)

    def _give(self, at: int, lanes: Array, relaxed: bool = False) -> None:
        """What those that arrive (bool, (blocks, warps, 32)) did and knew is added to what others
        did. relaxed: as of the last fence of their warps.
        """
        own, act = np.arange(self.warps), _any_lane(lanes)
        know = self.known_of_each(lanes).copy().reshape(self.blocks, self.warps, self.warps, 32)
        know[:, own, own] = np.where(lanes, self.stamp()[..., None], know[:, own, own])
        self.ticks = self.ticks + act
        self.viewed = None
        if relaxed:
            fence = self._own_fence() if self.flags else np.full(act.shape, _NOTHING)
            mine = know[:, own, own]
            fenced = np.minimum(mine, fence[..., None])
            know[:, own, own] = np.where(mine < _ALWAYS, fenced, mine)
            act = act & (fence >= 0)
        gathered = np.where(act[..., None], know.reshape(self.known.shape), _NOTHING).max(axis=1)
        for c, w in np.argwhere(act) if self.flags else ():
            far = self.far_arriving.setdefault((at, int(c)), _Far())
            far.join(self.far[c, w], self.seen[c, w], self.pending.get((int(c), int(w)), {}))
        into = self.arriving.get(at, gathered)
        self.arriving[at] = np.maximum(into, gathered)

    def complete(self, barriers: Array) -> None:
        """Phases are complete: bool (words, blocks), true at the first word of the mbarrier."""
        for at in self.arriving:
            here = self._where(barriers, at)
            if here.any():
                self._completed(at, here)

    def _where(self, barriers: Array, at: int) -> Array:
        """In which blocks the phase of the mbarrier at an offset is complete."""
        return np.asarray(barriers[at >> 2])

    def _completed(self, at: int, here: Array) -> None:
        """A phase of the mbarriers at an offset is complete. here: in which blocks."""
        arrived = self.arriving[at]
        old = self.last_phase.setdefault(at, np.full_like(arrived, _NOTHING))
        np.maximum(old, np.where(here[:, None], arrived, _NOTHING), out=old)
        for c in (int(c) for c in np.flatnonzero(here)):
            if arriving := self.far_arriving.get((at, c)):
                done = self.far_of_last_phase.setdefault((at, c), _Far())
                done.join(arriving.far, arriving.seen, arriving.pending)

    def acquire(self, offset: Array, mask: Mask | None) -> None:
        """Threads learn that a phase is complete, and with it what was done before it."""
        for at, lanes in self._by_barrier(offset, mask):
            self._take(at, lanes)

    def _take(self, at: int, lanes: Array) -> None:
        """Threads, bool (blocks, warps, 32), learn what the last phase has gathered, if any was
        complete; of other blocks all lanes of a warp learn as one.
        """
        got = self.last_phase.get(at)  # (blocks, threads)
        if got is None:
            return
        assert self.lane_known is not None
        live, act = self.threads_of(self.state.alive), _any_lane(lanes)
        for c in (int(c) for c in np.flatnonzero(act.any(axis=1))) if self.flags else ():
            done = self.far_of_last_phase.get((at, c))
            if done is not None:
                self._take_far(done, c, np.flatnonzero(act[c]))
        full = act & ~_any_lane(~lanes & live)
        gain = np.where(full[..., None], got[:, None, :], _NOTHING)
        np.maximum(self.known, gain, out=self.known)
        partly = act & ~full
        if partly.any():
            gain = np.where(partly[..., None], got[:, None, :], _NOTHING)
            np.maximum(self.lane_known, gain, out=self.lane_known)
            self.lanes_ahead |= lanes & partly[..., None]
            self.any_ahead = True

    def _take_far(self, done: _Far, c: int, warps: Array) -> None:
        """Warps of a block learn of other blocks what was left for them."""
        for w in (int(w) for w in warps):
            self.far[c, w] = _joined(self.far[c, w], done.far)
            self.seen[c, w] = _joined(self.seen[c, w], done.seen)
            if done.pending:
                self.pending.setdefault((c, w), {}).update(done.pending)
        self.dirty[c] = True

    def forget(self, offset: Array) -> None:
        """mbarriers are set up anew."""
        for at in (int(at) for at in np.unique(offset)):
            self.arriving.pop(at, None)
            self.last_phase.pop(at, None)
            for table in (self.far_arriving, self.far_of_last_phase):
                for key in [k for k in table if k[0] == at]:
                    del table[key]

    # -- what is ordered -------------------------------------------------------------------------

    def knows(self, other: Array, stamp: Array, column: Array, thread: Array) -> Array:
        """Whether threads know what others of their block did at these stamps. All flat."""
        warp = thread >> 5
        unit = other if self.threads else other >> 5
        out = (stamp >> SHIFT) < self.epoch[column]
        out |= stamp <= self.known[column, warp, unit]
        if self.any_ahead and not out.all():
            assert self.lane_known is not None
            waiters = self.lanes_ahead[column, warp, thread & 31]
            out |= waiters & (stamp <= self.lane_known[column, warp, unit])
        return np.asarray(out)

    def before(
        self, gid: Array, stamp: Array, column: Array, thread: Array, fresh: Array | None
    ) -> Array:
        """Whether earlier accesses happen before what threads do now: bool, flat as all of these.

        The lanes of one warp are not told apart. gid, stamp: threads of the launch that made the
        earlier accesses, and when. column, thread: block of the batch and thread in it that access
        the same place now. fresh: places of which no cache can hold an older copy; None: all.
        """
        block, other = gid // self.state.threads, gid % self.state.threads
        here = block == self.linear[column]
        out = here & (other >> 5 == thread >> 5)
        near = np.flatnonzero(here & ~out)
        if len(near):
            out[near] = self.knows(other[near], stamp[near], column[near], thread[near])
        apart = np.flatnonzero(~here)
        if len(apart) and self.flags:
            mine = column[apart] * self.warps + (thread[apart] >> 5)
            theirs = block[apart] * self.warps + (other[apart] >> 5)
            self._by_fences(out, apart, mine, theirs, stamp, self.far)
            if fresh is None or fresh.any():
                rest = np.flatnonzero(~out[apart] & (True if fresh is None else fresh[apart]))
                self._by_fences(out, apart[rest], mine[rest], theirs[rest], stamp, self.seen)
        return np.asarray(out)

    def _by_fences(
        self, out: Array, lanes: Array, mine: Array, theirs: Array, stamp: Array, what: Array
    ) -> None:
        """Set those of `out` at `lanes` whose warp's row of `what` knows of the other's stamp."""
        if not len(lanes):
            return
        rows = what.ravel()
        numbers: dict[int, int] = {}
        group = np.full(len(rows), _NOTHING, np.int64)
        for w in np.unique(mine):
            if rows[w] is not None:
                group[w] = numbers.setdefault(id(rows[w]), int(w))
        of = group[mine]
        order = np.argsort(of, kind="stable")
        edges = np.flatnonzero(np.diff(of[order], prepend=-2, append=-2))
        for low, high in pairwise(edges):
            sel = order[low:high]
            if of[sel[0]] >= 0:
                at = lanes[sel]
                out[at] = stamp[at] <= rows[of[sel[0]]][theirs[sel]]

    def what_is_missing(self, gid: int, stamp: int, column: int, warp: int) -> str:
        """Which half of a release and acquire two accesses lack, in words; "" if none was begun."""
        s = self.state
        if self.pending.get((column, warp)):
            return (
                "The second has read a flag or a lock that another block had set, but no "
                "__threadfence() stands between that read and this access: a cache of its SM may "
                "hold an older value"
            )
        block, other = gid // s.threads, gid % s.threads // 32
        at = np.flatnonzero(self.linear == block)
        if len(at) and self.near_out[1][at[0], :, other * self.each].max() < stamp:
            return (
                "The first has made no __threadfence() since, so a flag or a lock that its block "
                "sets does not say that the data are there"
            )
        return (
            "The second has not seen, by a flag or a lock and __syncthreads(), that the first is "
            "done"
        )
