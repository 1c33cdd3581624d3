"""Races and uninitialised reads: what two threads may not do between two barriers.

Shared memory. All accesses of an interval (from one barrier of the block to the next) are logged.
When the interval ends, every granule's lowest and highest writing and reading thread are formed;
they tell whether two threads met there, at least one of them writing, in whatever order the
emulator ran them. Only then are the accesses looked at one by one: two threads of one warp are
ordered by a warp synchronisation between them, threads of different warps only by a named barrier
that both passed. An interval with the same accesses as one already found clean is not repeated.

Global memory. The last writer and reader of each granule are kept for the whole launch, for the
arrays that the kernel may write. Threads of one block are ordered by its barriers, threads of
different blocks by nothing. A flag that one instruction sets for many threads, always to one value,
is no race between them.

In kernels with fences, flags and locks order threads too, within blocks and between them (`order`).
Accesses that are made for synchronisation (atomic, relaxed, acquire and release ones; in global
memory also volatile loads and stores, in shared memory those of places that a loop waits for) do not
race with each other, only with others; two volatile stores do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.machine.memory import Buffer

if TYPE_CHECKING:
    from helpers.emulator.machine.masks import Mask
    from helpers.emulator.machine.state import State
    from helpers.emulator.ptx.sites import Site

Array = np.ndarray[Any, np.dtype[Any]]

READ, WRITE, ATOMIC, WARP_SYNC, FLAG = 0, 1, 2, 3, 4
"""Kinds of accesses. FLAG: a volatile write, a race with all but those who wait for it (ATOMIC)."""
_CONFLICTS = (
    (WRITE, WRITE), (WRITE, READ), (WRITE, ATOMIC), (ATOMIC, READ),
    (FLAG, FLAG), (FLAG, WRITE), (FLAG, READ),
)  # fmt: skip
_MEMO = 64  # clean intervals remembered
_MAX_MEMO = 1 << 20  # bytes of the largest of them
_MAX_EXAMINED = 64  # intervals with races that are looked at in detail
_MAX_LOG = 1 << 26  # bytes that the log of an interval may keep alive before it is summarised
_NO_THREAD = np.int32(2**31 - 1)
_SAMPLE = 32  # granules looked at one by one when a race is reported


@dataclass
class Access:
    """One execution of one shared-memory instruction by all lanes of a mask."""

    site: int
    kind: int
    granule: Array | None  # first granule of each lane
    count: int  # granules a lane
    mask: Mask | None
    values: tuple[Array, ...] | None  # what a write stored, to tell harmless duplicates
    clocks: Array | None  # vector clocks of the warps, once named barriers are in use
    bounds: tuple[Array, Array] | None = None  # of many accesses: first and last thread by place
    synced: bool = False  # there were warp synchronisations among these many
    copied: bool = False  # by a cp.async
    view: tuple[Array, Array] | None = None  # stamps and knowledge of the warps, if fences order

    @property
    def nbytes(self) -> int:
        """Memory that this entry keeps alive, about."""
        held = (self.granule, *(self.values or ()))
        return 200 + sum(a.nbytes for a in held if a is not None)


@dataclass(frozen=True)
class _Race:
    """Conflicts of an interval between two source lines."""

    lines: tuple[int, int]
    example: tuple[int, int, int, int]  # place, writing thread, other thread, whether it writes too
    count: int
    column: int
    columns: int


class SharedLog:
    """Log of one batch of blocks, and which granules of shared memory hold something."""

    def __init__(self, state: State, nbytes: int, granule: int) -> None:
        self.state = state
        self.granule = granule
        self.shift = granule.bit_length() - 1
        self.size = -(-nbytes // granule)
        self.log: list[Access] = []
        self.has_write = False
        # Intervals seen before: their log (its arrays stay alive, so their ids stay theirs) and
        # the races found in them.
        self.seen: dict[tuple[tuple[int, int, int], ...], tuple[list[Access], list[_Race]]] = {}
        self.examined = 0
        self.forgiven = False
        self.initialised = np.zeros((self.size, 1), bool)
        self.all_initialised = self.size == 0
        self.clocks: Array | None = None
        self.summarised = False
        self.held = 0  # bytes that the log keeps alive
        self.unset: list[tuple[int, Array, Array, int]] = []  # site, lanes, granule, granules
        self.ordered = False  # the last interval was judged with the order that fences make

    # -- initialised -----------------------------------------------------------------------------

    def mark(self, granule: Array, count: int, mask: Array | None) -> None:
        """Note that lanes wrote `count` granules each from `granule` on."""
        if self.all_initialised:
            return
        blocks = self.state.blocks
        varies = granule.shape[2] * granule.shape[3] > 1 or (
            mask is not None and mask.shape[2] * mask.shape[3] > 1
        )
        if varies and self.initialised.shape[1] == 1 and blocks > 1:
            self.initialised = np.repeat(self.initialised, blocks, axis=1)
        columns = self.initialised.shape[1]
        if columns == 1:
            at = granule
            if mask is not None:
                shape = _both(granule, mask)
                at = np.broadcast_to(granule, shape)[np.broadcast_to(mask, shape)]
            at = at.reshape(-1)
            for j in range(count):
                self.initialised[at + j, 0] = True
        else:
            at = granule * columns + self.state.block_index
            if mask is not None:
                shape = _both(at, mask)
                at = np.broadcast_to(at, shape)[np.broadcast_to(mask, shape)]
            flat = self.initialised.reshape(-1)
            for j in range(count):
                flat[at + j * columns] = True
        self.all_initialised = bool(self.initialised.all())

    def missing(self, granule: Array, count: int) -> Array | None:
        """Lanes that read a granule nobody wrote (bool, four axes), or None if there are none."""
        if self.all_initialised:
            return None
        columns = self.initialised.shape[1]
        if columns == 1:
            have = self.initialised[:, 0]
            ok = have[granule]
            for j in range(1, count):
                ok &= have[granule + j]
        else:
            flat = self.initialised.reshape(-1)
            at = granule * columns + self.state.block_index
            ok = flat[at]
            for j in range(1, count):
                ok &= flat[at + j * columns]
        return None if ok.all() else ~ok

    def suspect(self, site: int, lanes: Array, granule: Array, count: int) -> None:
        """Lanes read what nobody has written yet: judged at the end of the interval.

        If another thread writes there before the barrier it is a race, in whatever order they ran.
        """
        self.unset.append((site, lanes, granule, count))

    def _judge_unset(
        self,
        low: Array | None,
        high: Array | None,
        columns: int,
        racing_lines: set[int] | None = None,
    ) -> None:
        """Report suspects, but those that a race explains.

        low, high: the first and last thread that wrote each place in this interval. racing_lines:
        those with a race, None if they are not known. A write that a warp barrier keeps after the
        read is no race, and no excuse for the read.
        """
        s = self.state
        for site, lanes, granule, count in self.unset:
            bad = np.broadcast_to(lanes, s.shape)
            explained = racing_lines is None or s.sites[site].line in racing_lines
            if low is not None and high is not None and explained:
                at = np.broadcast_to(granule, s.shape) * columns
                if columns > 1:
                    at = at + s.block_index
                tid = s.thread.astype(np.int32)
                raced = np.zeros(s.shape, bool)
                for j in range(count):
                    place = np.minimum(at + j * columns, len(low) - 1)
                    raced |= (high[place] >= 0) & ((low[place] != tid) | (high[place] != tid))
                bad = bad & ~raced
            if not bad.any():
                continue
            thread, column = s.first_lane(bad)
            full = np.broadcast_to(granule, s.shape).reshape(s.threads, s.blocks)
            name, where = s.shared_name(int(full[thread, column]) * self.granule)
            s.find(
                "uninitialised",
                s.sites[site].line,
                f"{where} is read by thread {s.thread_text(thread)} of block "
                f"{s.block_tuple(column)}, but no thread of the block has written it. Set it first",
                int(np.count_nonzero(bad)),
                array=name,
                index=where,
                threads=(thread,),
                block=s.block_tuple(column),
            )
        self.unset = []

    # -- races -----------------------------------------------------------------------------------

    def add(
        self,
        site: int,
        kind: int,
        granule: Array | None,
        count: int,
        mask: Mask | None,
        values: tuple[Array, ...] | None = None,
    ) -> None:
        """Log an access of the current interval."""
        self._keep(site, kind, granule, count, mask, values, copied=False)

    def add_copy(
        self,
        site: int,
        granule: Array,
        count: int,
        mask: Mask | None,
        values: tuple[Array, ...] | None,
        *,
        done: bool,
    ) -> None:
        """Log that cp.async begins to write, or has written."""
        self._keep(site, WRITE, granule, count, mask, values, copied=True)

    def _keep(
        self,
        site: int,
        kind: int,
        granule: Array | None,
        count: int,
        mask: Mask | None,
        values: tuple[Array, ...] | None,
        *,
        copied: bool,
    ) -> None:
        if kind in (WRITE, FLAG):
            self.has_write = True
        access = Access(site, kind, granule, count, mask, values, self.clocks, copied=copied)
        if self.state.order is not None:
            access.view = self.state.order.view()
        self.log.append(access)
        self.held += access.nbytes
        if self.held > _MAX_LOG:
            if self.state.order is None:
                self._summarise()
            else:
                self._judge_early()

    def load(self, site: Site, granule: Array, count: int, mask: Mask | None) -> None:
        """Log a load. One that is made for synchronisation may acquire."""
        if not site.strong:
            self.add(site.index, READ, granule, count, mask)
            return
        waits = site.waits or "volatile" not in site.text
        self.add(site.index, ATOMIC if waits else READ, granule, count, mask)
        order = self.state.order
        if order is not None and order.shared is not None:
            order.read(order.shared, *self._whose(granule, mask), site.acquire)

    def store(
        self,
        site: Site,
        granule: Array,
        count: int,
        mask: Mask | None,
        values: tuple[Array, ...] | None,
    ) -> None:
        """Log a store. One that is made for synchronisation may release."""
        kind = WRITE if not site.strong else FLAG if "volatile" in site.text else ATOMIC
        self.has_write = True
        self.add(site.index, kind, granule, count, mask, values)
        order = self.state.order
        if order is not None and (site.strong or order.shared is not None):
            versions = self.versions()
            order.write(versions, *self._whose(granule, mask), site.release, site.strong)

    def versions(self) -> Array:
        """What the values in shared memory have released, by granule and block, flat."""
        order = self.state.order
        assert order is not None
        if order.shared is None:
            order.shared = order.ledger.places(self.size * self.state.blocks)
        return order.shared

    def _whose(self, granule: Array, mask: Mask | None) -> tuple[Array, Array, Array]:
        """(place in `versions`, block, warp) of each active lane, flat."""
        s = self.state
        chosen = np.broadcast_to(True if mask is None else mask.arr, s.shape)
        column = np.broadcast_to(s.block_index, s.shape)[chosen]
        warp = np.broadcast_to(s.thread // 32, s.shape)[chosen]
        return np.broadcast_to(granule, s.shape)[chosen] * s.blocks + column, column, warp

    def _judge_early(self) -> None:
        """A very long interval with fences: judge what there is, and go on with an empty log."""
        unset, self.unset = self.unset, []
        for race in self._judge(self.log):
            self._finding(race)
        self.log, self.unset, self.held = [], unset, 0

    def _summarise(self) -> None:
        """A very long interval: keep the lowest and highest thread of each place, by instruction."""
        columns = self.state.blocks
        synced = any(a.kind == WARP_SYNC or a.synced for a in self.log)
        sums: dict[tuple[int, int], tuple[Array, Array]] = {}
        for access in self.log:
            if access.kind == WARP_SYNC:
                continue
            key = (access.site, access.kind)
            if key not in sums:
                sums[key] = (
                    np.full(self.size * columns, _NO_THREAD, np.int32),
                    np.full(self.size * columns, -1, np.int32),
                )
            self._spread(access, columns, *sums[key])
        self.log = [
            Access(site, kind, None, 1, None, None, self.clocks, bounds, synced)
            for (site, kind), bounds in sums.items()
        ]
        self.held = 0

    def _kept(self, blocks: Array) -> tuple[list[Access], list[tuple[int, Array, Array, int]]]:
        """The log and the suspects of blocks (bool, four axes) whose interval goes on."""
        log, unset = [], []
        for a in self.log:
            mask = self.state.narrowed(a.mask or self.state.alive, blocks)
            if a.bounds is None and (mask is None or mask.n):
                log.append(
                    Access(
                        a.site, a.kind, a.granule, a.count, mask, a.values, a.clocks, view=a.view
                    )
                )
        for site, lanes, granule, count in self.unset:
            if (lanes & blocks).any():
                unset.append((site, lanes & blocks, granule, count))
        self.unset = [(s, a & ~blocks, g, c) for s, a, g, c in self.unset]
        return log, unset

    def end_interval(self, but: Array | None = None) -> None:
        """A barrier of the whole block: judge the log and start a new one.

        but: blocks (bool, four axes) that have not come to it: their interval goes on.
        """
        if but is None:
            self._end_interval()
            return
        log, unset = self._kept(but)
        self._end_interval()
        self.log, self.unset = log, unset
        self.has_write = any(a.kind in (WRITE, FLAG) for a in log)
        self.held = sum(a.nbytes for a in log)

    def _end_interval(self) -> None:
        log, self.log = self.log, []
        held, self.held = self.held, 0
        self.clocks = None
        if not self.has_write:
            self._judge_unset(None, None, 1)
            return
        self.has_write = False
        key = tuple((a.site, id(a.granule), id(a.mask)) for a in log)
        known = self.seen.get(key)
        if known is not None and not self.unset:
            for race in known[1]:
                self._finding(race)
            return
        self.forgiven = self.ordered = False
        races = self._judge(log)
        for race in races:
            self._finding(race)
        if held < _MAX_MEMO and not self.forgiven and not self.ordered:
            for access in log:
                access.values = None
            if len(self.seen) >= _MEMO:
                self.seen.pop(next(iter(self.seen)))
            self.seen[key] = (log, races)

    def _judge(self, log: list[Access]) -> list[_Race]:
        """The places of an interval at which two threads conflict, by pair of lines."""
        varies = any(
            a.bounds is not None
            or (a.granule is not None and a.granule.shape[2] * a.granule.shape[3] > 1)
            or (a.mask is not None and a.mask.arr.shape[2] * a.mask.arr.shape[3] > 1)
            for a in log
        )
        columns = self.state.blocks if varies else 1
        bounds = [
            (
                np.full(self.size * columns, _NO_THREAD, np.int32),
                np.full(self.size * columns, -1, np.int32),
            )
            for _ in range(3)
        ]
        for access in log:
            if access.kind != WARP_SYNC:
                kind = WRITE if access.kind == FLAG else access.kind
                self._spread(access, columns, *bounds[kind])
        (w0, w1), (a0, a1) = bounds[WRITE], bounds[ATOMIC]
        r0, r1 = bounds[READ]
        written = w1 >= 0
        conflict = written & (w0 != w1)
        conflict |= written & (r1 >= 0) & ((r0 != w0) | (r1 != w1))
        if (a1 >= 0).any():
            conflict |= written & (a1 >= 0) & ((a0 != w0) | (a1 != w1))
            conflict |= (a1 >= 0) & (r1 >= 0) & ((r0 != a0) | (r1 != a1) | (a0 != a1))
        examined = self.examined < _MAX_EXAMINED
        races = self._report(log, np.flatnonzero(conflict), columns) if conflict.any() else []
        if self.unset:
            lines = {line for race in races for line in race.lines}
            self._judge_unset(w0, w1, columns, lines if examined else None)
        return races

    def _spread(self, access: Access, columns: int, low: Array, high: Array) -> None:
        """Enter the threads of an access into the lowest and highest thread of each granule."""
        s = self.state
        if access.bounds is not None:
            np.minimum(low, access.bounds[0], out=low)
            np.maximum(high, access.bounds[1], out=high)
            return
        granule = access.granule
        assert granule is not None
        if access.mask is None and granule.shape[2] * granule.shape[3] == 1 and columns == 1:
            r, x = granule.shape[:2]
            first = (np.arange(r)[:, None] * s.x + np.arange(x)).reshape(-1).astype(np.int32)
            last = first + np.int32((s.x - 1 if x == 1 else 0) + (s.rows - 1) * s.x * (r == 1))
            at = granule.reshape(-1)
        else:
            at, first = self._lanes(access, columns)[:2]
            last = first
        for j in range(access.count):
            place = at + j * columns
            smallest = np.minimum(low[place], first)
            low[place[::-1]] = smallest[::-1]  # of equal places the last assignment stands
            high[place] = np.maximum(high[place], last)

    def _lanes(self, access: Access, columns: int) -> tuple[Array, Array]:
        """Flat (granule, block) places and threads of the active lanes, in thread order."""
        s = self.state
        if access.bounds is not None:
            low, high = access.bounds
            at = np.flatnonzero(high >= 0)
            return np.concatenate([at, at]), np.concatenate([low[at], high[at]]).astype(np.int64)
        assert access.granule is not None
        at = access.granule * columns
        if columns > 1:
            at = at + s.block_index
        shape = (s.rows, s.x, *((s.p, s.q) if columns > 1 else (1, 1)))
        at = np.broadcast_to(at, shape)
        tid = np.broadcast_to(s.thread, shape)
        if access.mask is None:
            return at.reshape(-1), tid.reshape(-1)
        chosen = np.broadcast_to(access.mask.arr, shape)
        return at[chosen], tid[chosen]

    def _report(self, log: list[Access], places: Array, columns: int) -> list[_Race]:
        """Look at the accesses to conflicting places one by one: which are races?"""
        if self.examined >= _MAX_EXAMINED:
            return []  # the same lines have been reported many times by now
        if self.state.order is not None:
            self.ordered = True
            found = self._examine(log, places, columns)
            self.examined += bool(found)
            scale = self.state.blocks if columns == 1 else 1
            return [
                _Race(pair, example, hits * scale, example[0] % columns, columns)
                for pair, example, hits in found
            ]
        by_column = places % columns
        for column in np.unique(by_column):
            here = places[by_column == column]
            found = self._examine(log, here, columns)
            if found:
                self.examined += 1
                # The blocks that are not looked at do what this one did.
                scale = self.state.blocks if columns == 1 else len(places) / len(here)
                return [
                    _Race(pair, example, int(hits * scale), int(column), columns)
                    for pair, example, hits in found
                ]
        return []

    def _examine(
        self, log: list[Access], places: Array, columns: int
    ) -> list[tuple[tuple[int, int], tuple[int, int, int, int], int]]:
        """[((write line, other line), (place, writer, other, same instruction), places)]."""
        wanted = np.zeros(self.size * columns, bool)
        wanted[places] = True
        nwarps = self.state.warp_shape.warps
        epoch = np.zeros((nwarps, columns), np.int32)
        rows: list[Array] = []
        for sequence, access in enumerate(log):
            if access.kind == WARP_SYNC:
                active = self.state.warps_active(access.mask)
                epoch += active[:, :columns] if columns > 1 else active[:, :1]
                continue
            at, tid = self._lanes(access, columns)
            for j in range(access.count):
                place = at + j * columns
                sel = wanted[place]
                if sel.any():
                    p, t = place[sel], tid[sel]
                    warp = t // 32
                    rows.append(
                        np.stack(
                            [
                                p,
                                np.full(len(p), sequence),
                                t,
                                np.full(len(p), access.kind),
                                warp,
                                epoch[warp, p % columns],
                            ]
                        )
                    )
        table = np.concatenate(rows, axis=1)
        self._read_flags(table, log)
        if self.state.order is not None:
            return self._unordered_by_fences(table, log, columns)
        named = any(a.clocks is not None for a in log)
        self.summarised = any(a.synced for a in log)
        across, within = self._unordered(table, log if named else None)
        racing = self._not_harmless(table, np.union1d(across, within), log, columns)
        if not len(racing):
            return []
        return self._pairs(table, racing, racing[np.isin(racing, across)], log)

    def _read_flags(self, table: Array, log: list[Access]) -> None:
        """Volatile reads of what others wait for are made for synchronisation too (ATOMIC)."""
        sites = [self.state.sites[a.site] for a in log]
        strong = np.array([s.strong and s.op == "load" for s in sites])
        if strong.any():
            place, sequence, _, kind = table[:4]
            waits = strong[sequence] & (kind == ATOMIC)
            kind[strong[sequence] & (kind == READ) & np.isin(place, place[waits])] = ATOMIC

    def _not_harmless(self, table: Array, racing: Array, log: list[Access], columns: int) -> Array:
        """Leave out places where one instruction of several threads wrote one and the same value."""
        if not len(racing):
            return racing
        keep = []
        order = np.argsort(table[0], kind="stable")
        places = table[0][order]
        for place in racing[: _SAMPLE * 64]:
            rows = order[np.searchsorted(places, place) : np.searchsorted(places, place, "right")]
            written = np.isin(table[3][rows], (WRITE, FLAG))
            writes = [log[q] for q in np.unique(table[1][rows[written]])]
            others = (~written).any() and len(np.unique(table[2][rows])) > 1
            # A copy is entered twice, when it begins and when it is complete.
            once = len(writes) == 1 or (len(writes) == 2 and all(w.copied for w in writes))
            if once and not others and self._same(writes, place, columns):
                self.forgiven = True  # for these values: the next may differ
                continue
            keep.append(place)
        return np.array([*keep, *racing[_SAMPLE * 64 :]], np.int64) if keep else racing[:0]

    def _same(self, writes: list[Access], place: int, columns: int) -> bool:
        """Whether all lanes of writes put the same value at a place."""
        s = self.state
        granule, column = place // columns, place % columns
        seen: dict[int, set[bytes]] = {}  # values by block
        for access in writes:
            if access.values is None or access.granule is None or access.bounds is not None:
                return False
            size = access.values[0].dtype.itemsize
            arr = np.ones((1, 1, 1, 1), bool) if access.mask is None else access.mask.arr
            for j in range(access.count):
                here = np.broadcast_to(access.granule + j == granule, s.shape) & arr
                value = np.broadcast_to(access.values[j * self.granule // size], s.shape)[here]
                where = np.broadcast_to(s.block_index, s.shape)[here]
                if columns > 1:
                    value = value[where == column]
                    where = where[where == column]
                for block in np.unique(where)[:4]:
                    mine = seen.setdefault(int(block), set())
                    mine |= {v.tobytes() for v in value[where == block]}
                    if len(mine) > 1:
                        return False
        return True

    def _unordered(self, table: Array, log: list[Access] | None) -> tuple[Array, Array]:
        """Places at which two threads truly meet unordered (order-free over the interval).

        First those where they are of two warps, then those where they are of one.
        """
        place, _, tid, kind, warp, epoch = table

        def mixed(key: Array, who: Array) -> Array:
            """Keys whose accesses conflict, told by who made them."""
            order = np.argsort(key, kind="stable")
            k = key[order]
            start = np.flatnonzero(np.r_[True, k[1:] != k[:-1]])
            out = np.zeros(len(start), bool)
            lows, highs = {}, {}
            for what in (READ, WRITE, ATOMIC, FLAG):
                mine = kind[order] == what
                lows[what] = np.minimum.reduceat(np.where(mine, who[order], 1 << 40), start)
                highs[what] = np.maximum.reduceat(np.where(mine, who[order], -1), start)
            for a, b in _CONFLICTS:
                both = (highs[a] >= 0) & (highs[b] >= 0)
                differ = (lows[a] != highs[b]) | (highs[a] != lows[b])
                out |= both & differ
            return k[start[out]]

        if log is None:
            across = mixed(place, warp)
        else:
            across = self._across_named(table, log)
        if self.summarised:
            return across, across[:0]  # which synchronisation came first is no longer known
        stride = int(max(warp.max(), epoch.max())) + 1
        fine = (place * stride + warp) * stride + epoch
        within = mixed(fine, tid) // (stride * stride)
        return across, within

    def _across_named(self, table: Array, log: list[Access]) -> Array:
        """Places at which threads of two warps meet, neither ordered by a named barrier."""
        out = []
        order = np.lexsort((table[1], table[0]))
        t = table[:, order]
        edges = np.flatnonzero(np.r_[True, t[0, 1:] != t[0, :-1], True])
        zero = np.eye(self.state.warp_shape.warps, dtype=np.int32)
        for low, high in zip(edges[:-1][: _SAMPLE * 64], edges[1:], strict=False):
            seen = {(int(s), int(k), int(w)) for s, k, w in t[[1, 3, 4], low:high].T}
            items = sorted(seen)
            if any(
                wa != wb
                and ((ka, kb) in _CONFLICTS or (kb, ka) in _CONFLICTS)
                and self._clock(log[sb], zero)[wb, wa] < self._clock(log[sa], zero)[wa, wa]
                for i, (sa, ka, wa) in enumerate(items)
                for sb, kb, wb in items[i + 1 :]
            ):
                out.append(int(t[0, low]))
        return np.array(out, np.int64)

    @staticmethod
    def _clock(access: Access, zero: Array) -> Array:
        return zero if access.clocks is None else access.clocks

    def _unordered_by_fences(
        self, table: Array, log: list[Access], columns: int
    ) -> list[tuple[tuple[int, int], tuple[int, int, int, int], int]]:
        """Pairs of accesses that neither a warp's nor a fence's order keeps apart, by lines.

        Each access is held against the last write before it and the first one after it, in the
        order in which the emulator ran them: if all these are ordered, then all accesses are.
        """
        t = table[:, np.lexsort((table[2], table[1], table[0]))]
        place, sequence, tid, kind, warp, epoch = t
        n = len(place)
        at = np.arange(n)
        start = np.maximum.accumulate(np.where(np.r_[True, place[1:] != place[:-1]], at, 0))
        last = np.r_[place[1:] != place[:-1], True]
        end = np.minimum.accumulate(np.where(last, at, n)[::-1])[::-1]
        earlier: list[Array] = []
        later: list[Array] = []
        for target in (np.isin(kind, (WRITE, FLAG)), kind == ATOMIC):
            before = np.r_[-1, np.maximum.accumulate(np.where(target, at, -1))[:-1]]
            after = np.r_[np.minimum.accumulate(np.where(target, at, n)[::-1])[::-1][1:], n]
            some = before >= start
            earlier.append(before[some])
            later.append(at[some])
            some = after <= end
            earlier.append(at[some])
            later.append(after[some])
        i, j = np.concatenate(earlier), np.concatenate(later)
        conflicts = np.zeros((5, 5), bool)
        for a, b in _CONFLICTS:
            conflicts[a, b] = conflicts[b, a] = True
        keep = conflicts[kind[i], kind[j]] & (tid[i] != tid[j])
        i, j = i[keep], j[keep]
        stamps, column = np.zeros(n, np.int64), place % columns
        views = {id(a.view): a.view for a in log if a.view is not None}
        of = np.array([id(a.view) for a in log])[sequence]
        for number, view in views.items():
            sel = of == number
            stamps[sel] = view[0][column[sel], warp[sel]]
        ordered = (warp[i] == warp[j]) & (epoch[i] != epoch[j])
        for number, view in views.items():
            sel = (of[j] == number) & (warp[i] != warp[j])
            a, b = i[sel], j[sel]
            ordered[sel] = stamps[a] <= view[1][column[b], warp[b], warp[a]]
        i, j = i[~ordered], j[~ordered]
        racing = self._not_harmless(t, np.unique(place[i]), log, columns)
        keep = np.isin(place[i], racing)
        found: dict[tuple[int, int], tuple[tuple[int, int, int, int], set[int]]] = {}
        lines = np.array([self.state.sites[a.site].line for a in log])
        for a, b in zip(i[keep], j[keep], strict=True):
            if (int(kind[a]), int(kind[b])) not in _CONFLICTS:
                a, b = b, a  # the writing one first
            pair = (int(lines[sequence[a]]), int(lines[sequence[b]]))
            both = kind[b] in (WRITE, FLAG)
            if both:
                pair = (max(pair), min(pair))
            example = (int(place[a]), int(tid[a]), int(tid[b]), int(both))
            old, where = found.get(pair, (example, set()))
            where.add(int(place[a]))
            better = _one_warp(old) and not _one_warp(example)
            found[pair] = (example if better else old, where)
        return [(pair, example, len(where)) for pair, (example, where) in sorted(found.items())]

    def _pairs(
        self, table: Array, racing: Array, across: Array, log: list[Access]
    ) -> list[tuple[tuple[int, int], tuple[int, int, int, int], int]]:
        """Group the races by the two source lines, with one example each.

        across: the places where two warps meet. They are looked at too, for their examples, so that
        the advice is never one for a single warp where that would not do.
        """
        lines = np.array([self.state.sites[a.site].line for a in log])
        found: dict[tuple[int, int], list[Any]] = {}
        sample = _spread_sample(racing)
        for place in sample:
            for pair, example in self._meetings(table, int(place), lines).items():
                entry = found.setdefault(pair, [example, 0])
                entry[1] += 1
                if _one_warp(entry[0]) and not _one_warp(example):
                    entry[0] = example
        for place in np.setdiff1d(_spread_sample(across), sample):
            for pair, example in self._meetings(table, int(place), lines).items():
                entry = found.setdefault(pair, [example, 0])
                if _one_warp(entry[0]) and not _one_warp(example):
                    entry[0] = example
        return [
            (pair, example, max(hits * len(racing) // len(sample), 1))
            for pair, (example, hits) in sorted(found.items())
        ]

    def _meetings(
        self, table: Array, place: int, lines: Array
    ) -> dict[tuple[int, int], tuple[int, int, int, int]]:
        """Who meets whom at a place, by pair of lines: (place, writer, other, whether it writes too)."""
        rows = table[:, table[0] == place].T
        # One access a thread, line, kind and epoch is enough to tell who met whom.
        items = sorted(
            {(int(lines[r[1]]), int(r[3]), int(r[2]), int(r[4]), int(r[5])) for r in rows}
        )
        here: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        for w in [i for i in items if i[1] != READ][:128]:
            for o in items:
                if o[2] == w[2] or (w[1], o[1]) not in _CONFLICTS:
                    continue  # no conflict, or reported from the other side
                if o[3] == w[3] and o[4] != w[4]:
                    continue  # one warp, synchronised in between
                pair = (w[0], o[0])
                both = o[1] in (WRITE, FLAG)
                if both:
                    pair = (max(pair), min(pair))
                example = (place, w[2], o[2], int(both))
                old = here.get(pair)
                if old is None or (o[3] != w[3] and _one_warp(old)):
                    here[pair] = example  # threads of two warps make the better example
        return here

    def _finding(self, race: _Race) -> None:
        s = self.state
        place, writer, other, both_write = race.example
        pair, count, column = race.lines, race.count, race.column
        address = (place // race.columns) * self.granule
        name, where = s.shared_name(address)
        verb = "writes" if both_write else "accesses"
        warp = writer // 32 == other // 32
        cure = (
            "The two threads are of one warp: put __syncwarp() between the accesses"
            if warp
            else "Put __syncthreads() between the accesses"
        )
        program = s.launch.program
        if not warp and program.waits:
            cure += (
                ", or let the second wait for a volatile flag or a lock that the first sets, with "
                "__threadfence_block() before it is set and after it is read"
            )
        s.find(
            "race",
            pair[0],
            f"{where}: thread {s.thread_text(writer)} writes it and thread "
            f"{s.thread_text(other)} {verb} it (line {pair[1]}) with no barrier in between. {cure}",
            count,
            array=name,
            index=where,
            threads=(writer, other),
            other_line=pair[1],
            block=s.block_tuple(column),
            weight=int(not warp),  # __syncwarp() would not help threads of two warps
        )


def _one_warp(example: tuple[int, int, int, int]) -> bool:
    """Whether the two threads of an example are of one warp."""
    return example[1] // 32 == example[2] // 32


def _spread_sample(places: Array) -> Array:
    """A few places, from first to last."""
    if not len(places):
        return places
    return places[np.unique(np.linspace(0, len(places) - 1, _SAMPLE).astype(np.int64))]


def _both(a: Array, b: Array) -> tuple[int, ...]:
    return np.broadcast_shapes(a.shape, b.shape)


# -- global memory -------------------------------------------------------------------------------


def track_global(
    state: State,
    site: int,
    buffer: Buffer,
    offset: Array,
    width: int,
    mask: Mask | None,
    store: bool,
    values: tuple[Array, ...] = (),
) -> None:
    """Check an access to a writable array against earlier ones of other threads, and enter it.

    values: what a store is about to put there.
    """
    s = state
    shape = (s.rows, s.x, s.p, s.q)
    at = np.broadcast_to(offset // buffer.granule, shape)
    gid = np.broadcast_to(s.global_thread, shape)
    epoch = np.broadcast_to(s.epoch, shape)
    if mask is not None:
        chosen = np.broadcast_to(mask.arr, shape)
        at, gid, epoch = at[chosen], gid[chosen], epoch[chosen]
    else:
        at, gid, epoch = at.reshape(-1), gid.reshape(-1), epoch.reshape(-1)
    strong = s.sites[site].strong
    who = None
    if s.order is not None:
        thread = np.broadcast_to(s.thread, shape)
        column = np.broadcast_to(s.block_index, shape)
        if mask is not None:
            thread, column = thread[chosen], column[chosen]
        who = column.reshape(-1), thread.reshape(-1) // 32
    # Not of volatile stores: `*count += 1` with a volatile count stores one value for all, and loses
    # what the others added, though such loads and stores are no race with each other.
    flag = partial(_one_value, values, mask, shape) if values and not strong else None
    _enter(s, site, buffer, at, width, gid, epoch, who, store, strong, flag)


def _one_value(
    values: tuple[Array, ...], mask: Mask | None, shape: tuple[int, ...]
) -> bytes | None:
    """The bytes that every lane of a store puts, where they are the same for all; None otherwise."""
    raw = []
    for value in values:
        lanes = value.reshape(-1)
        if mask is not None and value.size > 1:
            lanes = np.broadcast_to(value, shape)[np.broadcast_to(mask.arr, shape)]
        bits = np.ascontiguousarray(lanes).view(f"u{lanes.dtype.itemsize}")
        if (bits != bits[0]).any():
            return None
        raw.append(bits[:1].tobytes())
    return b"".join(raw)


def track_atomic(
    state: State, site: Site, buffer: Buffer, at: Array, thread: Array, column: Array, wrote: Array
) -> None:
    """Check and enter atomics in the order in which they were served, in a kernel with fences.

    at: byte offsets of the lanes, flat; wrote: those that changed the value.
    """
    s = state
    assert s.order is not None
    gid = s.linear_block.reshape(-1)[column] * s.threads + thread
    epoch = s.epoch.reshape(-1)[column]
    place, who = at // buffer.granule, (column, thread // 32)
    _enter(s, site.index, buffer, place, site.width, gid, epoch, who, True, True)
    order = s.order
    order.update(_versions(s, buffer), place, *who, wrote, (site.acquire, site.release))


def _versions(s: State, buffer: Buffer) -> Array:
    """What the values in an array have released, by granule."""
    if buffer.versions is None:
        buffer.versions = s.launch.ledger.places(-(-buffer.nbytes // buffer.granule))
    return buffer.versions


def _enter(
    s: State,
    site: int,
    buffer: Buffer,
    at: Array,
    width: int,
    gid: Array,
    epoch: Array,
    who: tuple[Array, Array] | None,
    store: bool,
    strong: bool,
    flag: Callable[[], bytes | None] | None = None,
) -> None:
    """Check accesses to granules from `at` on, flat, and enter them. who: block and warp of each.

    flag: tells what a store puts everywhere, if that is one value. Where the same instruction of
    another thread has put it already, nobody can tell who was last: no race, as in shared memory.
    """
    order = s.order
    if buffer.writer is None:
        size = -(-buffer.nbytes // buffer.granule)
        wide = np.int32 if order is None else np.int64
        buffer.writer = np.full(size, -1, np.int64)
        buffer.writer_epoch = np.zeros(size, wide)
        buffer.writer_site = np.full(size, -1, np.int32)
        buffer.reader = np.full(size, -1, np.int64)
        buffer.reader_epoch = np.zeros(size, wide)
        if order is not None:
            buffer.copied = np.zeros(size, bool)
    assert buffer.writer is not None
    assert buffer.writer_epoch is not None
    assert buffer.writer_site is not None
    assert buffer.reader is not None
    assert buffer.reader_epoch is not None
    if strong and buffer.strong is None:
        buffer.strong = np.zeros(len(buffer.writer), np.int8)
    stamp = epoch
    if order is not None:
        assert who is not None
        stamp = (order.strong_stamp() if strong else order.stamp())[who]
    atomic = s.sites[site].op == "atomic"
    kind = 0 if not strong else 1 if "volatile" in s.sites[site].text else 2
    for j in range(max(width // buffer.granule, 1)):
        place = at + j
        before, then = buffer.writer[place], buffer.writer_epoch[place]
        fresh = None if buffer.copied is None or strong else ~buffer.copied[place]
        bad = _unordered_global(s, before, then, gid, epoch, who, fresh)
        if strong and buffer.strong is not None:
            # Two volatile stores: the one that comes first is lost.
            bad = bad & ((buffer.strong[place] == 0) | (store & (buffer.strong[place] + kind == 2)))
        put = flag() if flag is not None and bad.any() else None
        if put is not None:
            bad = bad & ~((buffer.writer_site[place] == site) & _holds(buffer, place, put, j))
        _global_race(s, site, buffer, place, before, then, gid, bad, who, "writes", store)
        if store:
            reader, then = buffer.reader[place], buffer.reader_epoch[place]
            bad = _unordered_global(s, reader, then, gid, epoch, who, None)
            if buffer.copied is not None:
                buffer.copied[place] |= reader >= 0
            _global_race(s, site, buffer, place, reader, then, gid, bad, who, "reads", True)
            buffer.writer[place] = gid
            buffer.writer_epoch[place] = stamp
            buffer.writer_site[place] = site
            if buffer.strong is not None:
                buffer.strong[place] = kind
            if not atomic:
                after, bad = buffer.writer[place], buffer.writer[place] != gid
                if flag is not None and bad.any() and flag() is not None:
                    bad = np.zeros_like(bad)
                _global_race(s, site, buffer, place, after, stamp, gid, bad, who, "writes", True)
        elif not strong:
            buffer.reader[place] = gid
            buffer.reader_epoch[place] = stamp
    if order is None or atomic or who is None:
        return
    described = s.sites[site]
    if store and (strong or buffer.versions is not None):
        order.write(_versions(s, buffer), at, *who, described.release, strong)
    elif strong and buffer.versions is not None:
        order.read(buffer.versions, at, *who, described.acquire)


def _holds(buffer: Buffer, place: Array, put: bytes, part: int) -> Array:
    """Whether granules hold the given part of what a store puts."""
    kind = np.dtype(f"u{buffer.granule}")
    wanted = np.frombuffer(put, kind)[part]
    return np.asarray(buffer.view(kind).take(place, mode="clip") == wanted)


def _unordered_global(
    s: State,
    before: Array,
    before_epoch: Array,
    gid: Array,
    epoch: Array,
    who: tuple[Array, Array] | None,
    fresh: Array | None,
) -> Array:
    other = (before >= 0) & (before != gid)
    if not other.any():
        return other
    if s.order is not None:
        assert who is not None
        at = np.flatnonzero(other)
        column, warp = who
        other[at] = ~s.order.before(
            before[at],
            before_epoch[at],
            column[at],
            warp[at],
            None if fresh is None else fresh[at],
        )
        return other
    threads = s.threads
    elsewhere = before // threads != gid // threads
    same_warp = ~elsewhere & (before % threads // 32 == gid % threads // 32)
    return other & (elsewhere | ((before_epoch == epoch) & ~same_warp))


def _global_race(
    s: State,
    site: int,
    buffer: Buffer,
    place: Array,
    before: Array,
    then: Array,
    gid: Array,
    bad: Array,
    who: tuple[Array, Array] | None,
    earlier: str,
    store: bool,
) -> None:
    if not bad.any():
        return
    first = int(np.flatnonzero(bad)[0])
    where = buffer.index_text(int(place[first]) * buffer.granule)
    a, b = int(before[first]), int(gid[first])
    cure = "Give each element to one thread, or use an atomic operation"
    program = s.launch.program
    if s.order is not None and who is not None:
        missing = s.order.what_is_missing(
            a, int(then[first]), int(who[0][first]), int(who[1][first])
        )
        cure = f"{missing}. {_HOW}"
    elif program.waits or any(t.op == "atomic" for t in s.sites):
        cure += f". The kernel has no __threadfence(), without which no flag orders them. {_HOW}"
    s.find(
        "race",
        s.sites[site].line,
        f"{where}: thread {s.global_thread_text(b)} {'writes' if store else 'reads'} it and thread "
        f"{s.global_thread_text(a)} {earlier} it in the same launch, in no order. {cure}",
        int(bad.sum()),
        array=buffer.name,
        index=where,
        threads=(b % s.threads, a % s.threads),
        block=s.block_of(b // s.threads),
    )


_HOW = (
    "To order blocks by a flag or a lock: store, __syncthreads(), __threadfence() and only then set "
    "the flag by an atomic or a volatile store; read the flag by an atomic or a volatile load, "
    "__threadfence(), __syncthreads(), load"
)
