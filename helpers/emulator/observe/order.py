"""What happens before what: fences, flags and locks that order threads without a barrier.

A release is a fence and then a strong write (an atomic, or a volatile, relaxed or releasing store);
an acquire is a strong read that sees such a write, or an atomic one that followed it, and then a
fence. What came before the release then happens before what comes after the acquire. A barrier of
the block stands between: what its threads did before it counts for each of them after it, fences
too. Warps are the unit; the lanes of a warp count as one.

The fence of an acquire is not asked for where a GPU does without it, as much working code does:
within a block, and for data of other blocks that nobody has loaded before they were written, so that
no cache of an SM (L1) can hold an older copy of them.

An access has a stamp: the barriers of its block so far, and the fences of its warp. What a warp
knows of another is the highest stamp of which it knows: of the warps of its own block always (`known`),
of all others only after it acquired something (`far`). A release keeps a copy of both, as of the
fence. Nothing of this exists in kernels without fences.

Source: PTX ISA, Memory Consistency Model (release and acquire patterns, causality order).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from helpers.emulator.machine.masks import Mask
    from helpers.emulator.machine.state import State
    from helpers.emulator.observe.races import RaceWatch

Array = np.ndarray[Any, np.dtype[Any]]

_SHIFT = 32  # bits of a stamp that count fences
_MAX_KEPT = 1 << 26  # bytes of released knowledge; beyond, what no place holds is dropped
MAX_WARPS = 1 << 18
"""Warps of a launch for which order between blocks is kept."""


class Released:
    """What a strong write published: the knowledge of its warp at the fence before it."""

    def __init__(
        self, block: int, warp: int, near: Array, near_far: Array | None, row: Array | None
    ) -> None:
        """near: stamps of the block's warps, for readers of the same block (and near_far, of all
        warps of the launch); row: stamps of all warps, for other blocks; None: nothing."""
        self.block = block
        self.warp = warp
        self.near = near
        self.near_far = near_far
        self.row = row

    @property
    def nbytes(self) -> int:
        """Memory held, about."""
        return self.near.nbytes + (0 if self.row is None else self.row.nbytes) + 200


class Ledger:
    """What all batches of a launch share: the released knowledge, by number."""

    def __init__(self) -> None:
        self.items: dict[int, Released] = {}
        self.count = 0
        self.held = 0
        self.versions: list[Array] = []  # by place of a memory: number of what its value released

    def places(self, size: int) -> Array:
        """Versions of a memory of this many places."""
        made = np.full(size, -1, np.int32)
        self.versions.append(made)
        return made

    def forget(self) -> bool:
        """Drop the knowledge that no place holds any more, if all of it takes much memory."""
        if self.held <= _MAX_KEPT:
            return False
        alive = {int(n) for v in self.versions for n in np.unique(v)}
        self.items = {n: i for n, i in self.items.items() if n in alive}
        self.held = sum(i.nbytes for i in self.items.values())
        return True

    def enter(self, item: Released) -> int:
        """Give knowledge a number."""
        self.count += 1
        self.items[self.count] = item
        self.held += item.nbytes
        return self.count


def _joined(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None or a is b:
        return b if a is None else a
    return np.maximum(a, b)


class Order:
    """Order among the warps of a batch, and with those of the batches before it."""

    def __init__(self, watch: RaceWatch, state: State, ledger: Ledger) -> None:
        self.watch, self.state = watch, state
        self.ledger = ledger
        nb, nw = state.blocks, state.warp_shape.warps
        self.blocks, self.warps = nb, nw
        self.linear = state.linear_block.reshape(-1)
        gx, gy, gz = state.grid
        self.total = gx * gy * gz * nw
        self.fences = np.zeros((nb, nw), np.int64)
        self.known = np.full((nb, nw, nw), -1, np.int64)
        self.far = np.empty((nb, nw), object)
        self.seen = np.empty((nb, nw), object)  # as far, but without a fence on the reading side
        # As of the last fence, by its scope: 0 the block, 1 the device.
        self.near_out = [np.full((nb, nw, nw), -1, np.int64) for _ in range(2)]
        self.far_out = [np.empty((nb, nw), object) for _ in range(2)]
        self.pending: dict[tuple[int, int], dict[int, Released]] = {}
        self.last = np.full((nb, nw), -1, np.int32)  # what each warp read last
        self.dirty = np.zeros(nb, bool)  # blocks with something for their barrier to hand on
        self.cache: dict[tuple[int, int, int], int] = {}
        self.shared: Array | None = None  # versions of shared memory: (granule, block), flat
        self.viewed: tuple[Array, Array] | None = None

    # -- stamps ----------------------------------------------------------------------------------

    def stamp(self) -> Array:
        """Stamp of what each warp does now: int64 (blocks, warps)."""
        return (self.watch.epoch.reshape(-1, 1).astype(np.int64) << _SHIFT) + self.fences

    def strong_stamp(self) -> Array:
        """Stamp of a strong write: that of the fence it belongs to, if there was one."""
        own = np.arange(self.warps)
        fenced = self.near_out[0][:, own, own]
        return np.where(fenced >= 0, fenced, self.stamp())

    def view(self) -> tuple[Array, Array]:
        """(stamps, what each warp knows of its block's others), not to be changed."""
        if self.viewed is None:
            self.viewed = (self.stamp(), self.known)
        return self.viewed

    # -- what the kernel does --------------------------------------------------------------------

    def _lanes(self, mask: Mask | None) -> Array:
        return self.state.warps_active(mask).T

    def fence(self, scope: int, mask: Mask | None) -> None:
        """A fence of the threads of a mask. scope: 0 within the block, 1 within the device."""
        active = self._lanes(mask)
        self._acquire(active, scope)
        self._release(active, scope)

    def _release(self, active: Array, scope: int) -> None:
        own = np.arange(self.warps)
        epoch = self.watch.epoch.reshape(-1, 1, 1).astype(np.int64)
        limit = np.maximum(self.known, (epoch << _SHIFT) - 1)  # all before the last barrier
        limit[:, own, own] = self.stamp()
        for s in range(scope + 1):
            out = self.near_out[s]
            self.near_out[s] = np.where(active[:, :, None], np.maximum(out, limit), out)
            self.far_out[s][active] = self.far[active]
        self.fences = self.fences + active
        self.dirty |= active.any(axis=1)
        self.cache = {}
        self.viewed = None

    def _acquire(self, active: Array, scope: int) -> None:
        for at in [k for k in self.pending if active[k]]:
            later = {}
            for number, item in self.pending.pop(at).items():
                if scope == 0 and item.block != self.linear[at[0]]:
                    later[number] = item  # a fence of the block does not order other blocks
                else:
                    self._learn(at, item, scope)
            if later:
                self.pending[at] = later

    def _learn(self, at: tuple[int, int], item: Released, scope: int) -> None:
        """A fence after a read: the warp knows what was released."""
        if item.block == self.linear[at[0]]:
            self.far[at] = _joined(self.far[at], item.near_far)
        if scope == 1:
            self.far[at] = _joined(self.far[at], item.row)
        self.dirty[at[0]] = True

    def _see(self, at: tuple[int, int], item: Released) -> None:
        """A strong read: the warp has seen what was released."""
        column, warp = at
        if self.viewed is not None:
            self.known, self.viewed = self.known.copy(), None
        near = self.known[column, warp]
        if item.row is not None:
            np.maximum(near, item.row[self._own(column)], out=near)
        seen = _joined(self.seen[at], item.row)
        if item.block == self.linear[column]:
            np.maximum(near, item.near, out=near)
            seen = _joined(seen, item.near_far)
            if item.warp == warp and self.watch.log is not None:
                self._hand_over(column, warp)
        self.seen[at] = seen
        self.dirty[column] = True

    def _own(self, column: int) -> slice:
        first = int(self.linear[column]) * self.warps
        return slice(first, first + self.warps)

    def _hand_over(self, column: int, warp: int) -> None:
        """One lane of a warp released, another acquired: what a warp synchronisation does."""
        s = self.state
        here = (s.thread // 32 == warp) & (s.block_index == column)
        self.watch.warp(s.mask(here))

    def _publish(self, column: int, warp: int, before: int) -> int:
        """Number of what a strong write of a warp releases. before: what the place held, or -1."""
        key = (column, warp, before)
        found = self.cache.get(key)
        if found is not None:
            return found
        block, own = int(self.linear[column]), self._own(column)
        near, row = self.near_out[0][column, warp].copy(), None
        near_far = self.far_out[0][column, warp]
        if self.near_out[1][column, warp, warp] >= 0:
            far = self.far_out[1][column, warp]
            row = np.full(self.total, -1, np.int64) if far is None else far.copy()
            row[own] = np.maximum(row[own], self.near_out[1][column, warp])
        old = self.ledger.items.get(before)
        if old is not None:
            if old.block == block:
                np.maximum(near, old.near, out=near)
                near_far = _joined(near_far, old.near_far)
            elif old.row is not None:
                np.maximum(near, old.row[own], out=near)
            row = _joined(row, old.row)
        number = self.ledger.enter(Released(block, warp, near, near_far, row))
        self.cache[key] = number
        self.cache[(column, warp, number)] = number
        return number

    def _has_fenced(self, column: Array, warp: Array) -> Array:
        return np.asarray(self.near_out[0][column, warp, warp] >= 0)

    def read(
        self, versions: Array, place: Array, column: Array, warp: Array, scope: int | None
    ) -> None:
        """A strong read of places (flat, with block and warp of each lane). scope: of an acquire."""
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
            active = np.zeros((self.blocks, self.warps), bool)
            active[column, warp] = True
            self._acquire(active, scope)

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
        """A store to places. scope: of a release. A plain store ends what the value had released."""
        if not strong:
            versions[place] = -1
            return
        if scope is not None:
            active = np.zeros((self.blocks, self.warps), bool)
            active[column, warp] = True
            self._release(active, scope)
        if self.ledger.forget():
            self.cache = {}
        fenced = self._has_fenced(column, warp)
        versions[place[~fenced]] = -1
        if fenced.any():
            numbers = np.full((self.blocks, self.warps), -1, np.int32)
            column, warp = column[fenced], warp[fenced]
            for c, w in {(int(c), int(w)) for c, w in zip(column, warp, strict=True)}:
                numbers[c, w] = self._publish(c, w, -1)
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
        active = np.zeros((self.blocks, self.warps), bool)
        active[column, warp] = True
        if release is not None:
            self._release(active, release)
        if self.ledger.forget():
            self.cache = {}
        fenced = self._has_fenced(column, warp)
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

    def join(self, which: Array, whole: bool) -> None:
        """A barrier of warps: bool (blocks, warps). whole: of all that live, which end an interval."""
        columns = np.flatnonzero(which.any(axis=1) & (self.dirty | (not whole)))
        if not len(columns):
            return
        self.known = self.known.copy()
        stamp = self.stamp()
        for c in (int(c) for c in columns):
            warps = np.flatnonzero(which[c])
            square = np.ix_(warps, np.arange(self.warps))
            if not whole:
                best = self.known[c][warps].max(axis=0)
                best[warps] = stamp[c, warps]
                self.known[c][square] = best
            for s in range(2):
                self.near_out[s][c][square] = self.near_out[s][c][warps].max(axis=0)
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
        if not whole:
            self.fences = self.fences + which
        self.cache = {}
        self.viewed = None

    # -- what is ordered -------------------------------------------------------------------------

    def before(
        self, gid: Array, stamp: Array, column: Array, warp: Array, fresh: Array | None
    ) -> Array:
        """Whether accesses of threads `gid` of the launch happen before what warps do now.

        fresh: places of which no cache can hold an older copy; None: all of them.
        """
        s = self.state
        block, other = gid // s.threads, gid % s.threads // 32
        here = block == self.linear[column]
        then = stamp >> _SHIFT
        out = here & ((then < self.watch.epoch.reshape(-1)[column]) | (other == warp))
        near = here & ~out
        if near.any():
            c, w = column[near], warp[near]
            out[near] = stamp[near] <= self.known[c, w, other[near]]
        apart = np.flatnonzero(~here)
        if len(apart):
            mine = column[apart] * self.warps + warp[apart]
            theirs = block[apart] * self.warps + other[apart]
            self._by_fences(out, apart, mine, theirs, stamp, self.far)
            if fresh is None or fresh.any():
                left = np.flatnonzero(~out[apart] & (True if fresh is None else fresh[apart]))
                self._by_fences(out, apart[left], mine[left], theirs[left], stamp, self.seen)
        return np.asarray(out)

    def _by_fences(
        self, out: Array, lanes: Array, mine: Array, theirs: Array, stamp: Array, what: Array
    ) -> None:
        """Set those of `out` at `lanes` whose warp's row of `what` knows of the other's stamp."""
        if not len(lanes):
            return
        rows = what.reshape(-1)
        numbers: dict[int, int] = {}
        group = np.full(len(rows), -1, np.int64)
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
                "__threadfence() stands between that read and this access: a cache of its SM may hold "
                "an older value"
            )
        block, other = gid // s.threads, gid % s.threads // 32
        at = np.flatnonzero(self.linear == block)
        if len(at) and self.near_out[1][at[0], :, other].max() < stamp:
            return (
                "The first has made no __threadfence() since, so a flag or a lock that its block sets "
                "does not say that the data are there"
            )
        return "The second has not seen, by a flag or a lock and __syncthreads(), that the first is done"
