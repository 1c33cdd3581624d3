"""The judge of shared memory in kernels whose barriers are of whole blocks, and of what fences
order.

When an interval ends (from one barrier of the block to the next), every granule's lowest and
highest writing and reading thread are formed; they tell whether two threads met there, at least one
of them writing, in whatever order the emulator ran them. Only then are the accesses looked at one
by one: two threads of one warp are ordered by a warp synchronisation between them, threads of
different warps by nothing, or by what the clock says where named barriers or fences order them. An
interval with the same accesses as one already found clean is not repeated.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nogpu.emulator.machine.events import Access, Stage
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import array_of
from nogpu.emulator.observe.clock import SHIFT
from nogpu.emulator.observe.log import (
    ATOMIC,
    CONFLICTS,
    FLAG,
    NOBODY,
    READ,
    WARP_SYNC,
    WRITE,
    Entry,
    Log,
    kind_of,
    lanes_of,
    varies,
)
from nogpu.emulator.ptx.sites import place_of

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.observe.clock import Clock
    from nogpu.emulator.observe.initialised import FirstWrites

_MEMO = 64  # clean intervals remembered
_MAX_MEMO = 1_000_000  # bytes of the largest of them
_MAX_EXAMINED = 64  # intervals with races that are looked at in detail
MAX_LOG = 64_000_000
"""Bytes that the log of an interval may keep alive before it is summarised."""
_NO_THREAD = np.iinfo(np.int32).max
_SAMPLE = 32  # granules looked at one by one when a race is reported


Lines = tuple[int, int]
"""Of a race: the line that writes, and the other one."""


class _Example(NamedTuple):
    """Two threads that meet at a place. kind: of what the other does. lines: where, with the calls
    that led there.
    """

    place: int
    writer: int
    other: int
    kind: int
    lines: Lines

    @property
    def one_warp(self) -> bool:
        """Whether the two threads are of one warp."""
        return self.writer // 32 == self.other // 32


Pair = tuple[_Example, int]
"""Races between two lines: one of them, and at how many places."""


class _Race(NamedTuple):
    """Conflicts of an interval between two source lines."""

    example: _Example
    times: int
    columns: int


class IntervalJudge:
    """Judges the accesses of a batch of blocks, interval by interval."""

    def __init__(self, state: State, first: FirstWrites) -> None:
        """first: told when an interval ends, and who wrote where in it."""
        self.state, self.first = state, first
        self.clock: Clock | None = None  # once more than barriers of the block orders threads
        self.granule = state.launch.program.granule
        self.shift = self.granule.bit_length() - 1
        self.size = -(-state.launch.shared_bytes // self.granule)
        self.log = Log()
        # Intervals seen before: their log (its arrays stay alive, so their ids stay theirs) and
        # the races found in them.
        self.seen: dict[tuple[tuple[int, int, int], ...], tuple[list[Entry], list[_Race]]] = {}
        self.examined = 0
        self.forgiven = False
        self.ordered = False  # what is judged was done when a clock was kept

    def note(self, access: Access) -> None:
        """Log an access; a copy when it begins, and once more when it has been waited for."""
        site, where = access.site, access.where
        copied = access.stage is not Stage.WHOLE
        kind = WRITE if copied else kind_of(site)
        self.log.written = self.log.written or site.op in ("store", "atomic")
        granule, span = where.granule(self.shift), site.width >> self.shift
        view = None if self.clock is None else self.clock.view()
        self.log.add(
            Entry(site.index, kind, granule, span, where.mask, access.values, view, copied)
        )
        if self.log.nbytes > MAX_LOG:
            if self.clock is None:
                self._summarise()
            else:
                self._judge_early()

    def warp(self, mask: Mask | None) -> None:
        """Lanes of warps synchronise."""
        if self.log.entries:
            self.log.add(Entry(-1, WARP_SYNC, None, 0, mask, None))

    def _judge_early(self) -> None:
        """A very long interval with a clock: judge what there is, and go on with an empty log."""
        unset, self.first.suspects = self.first.suspects, []
        log, self.log = self.log, Log()
        for race in self._judge(log.entries):
            self._finding(race)
        self.first.suspects = unset

    def _summarise(self) -> None:
        """Of a very long interval keep the first and last thread at each place, by instruction."""
        columns = self.state.blocks
        synced = any(a.kind == WARP_SYNC or a.synced for a in self.log.entries)
        sums: dict[tuple[int, int], tuple[Array, Array]] = {}
        for access in self.log.entries:
            if access.kind == WARP_SYNC:
                continue
            key = (access.site, access.kind)
            if key not in sums:
                sums[key] = self._nobody(columns)
            self._spread(access, columns, *sums[key])
        written, self.log = self.log.written, Log()
        self.log.written = written
        self.log.entries = [
            Entry(site, kind, None, 1, None, None, bounds=bounds, synced=synced)
            for (site, kind), bounds in sums.items()
        ]

    def _nobody(self, columns: int) -> tuple[Array, Array]:
        """The lowest and the highest thread at each place, of none."""
        size = self.size * columns
        return np.full(size, _NO_THREAD, np.int32), np.full(size, NOBODY, np.int32)

    def end(self, but: Array | None = None) -> None:
        """A barrier of the whole block: judge the log and start a new one.

        but: blocks (bool, four axes) that have not come to it: their interval goes on.
        """
        if but is None:
            self._end()
            return
        entries, unset = self.log.of(self.state, but), self.first.hand_on(but)
        self._end()
        self.first.suspects = unset
        for entry in entries:
            self.log.add(entry)
            self.log.written = self.log.written or entry.kind in (WRITE, FLAG, ATOMIC)

    def _end(self) -> None:
        log, self.log = self.log, Log()
        entries = log.entries
        if not log.written:
            self.first.judge()
            return
        key = tuple((a.site, id(a.granule), id(a.mask)) for a in entries)
        seen = self.seen if self.clock is None else {}
        known = seen.get(key)
        if known is not None and not self.first.suspects:
            for race in known[1]:
                self._finding(race)
            return
        self.forgiven = False
        races = self._judge(entries)
        for race in races:
            self._finding(race)
        if log.nbytes < _MAX_MEMO and not self.forgiven:
            for access in entries:
                access.values = None
            if len(seen) >= _MEMO:
                seen.pop(next(iter(seen)))
            seen[key] = (entries, races)

    def _judge(self, log: list[Entry]) -> list[_Race]:
        """The places of an interval at which two threads conflict, by pair of lines."""
        differ = any(a.bounds is not None or varies(a.granule, a.mask) for a in log)
        columns = self.state.blocks if differ else 1
        bounds = [self._nobody(columns) for _ in (READ, WRITE, ATOMIC)]
        for access in log:
            if access.kind != WARP_SYNC:
                kind = WRITE if access.kind == FLAG else access.kind
                self._spread(access, columns, *bounds[kind])
        lowest = reduce(np.minimum, (low for low, _ in bounds))
        highest = reduce(np.maximum, (high for _, high in bounds))
        written, updated = bounds[WRITE][1] >= 0, bounds[ATOMIC][1] >= 0
        conflict = (lowest != highest) & (written | (updated & (bounds[READ][1] >= 0)))
        examined = self.examined < _MAX_EXAMINED
        races = self._report(log, np.flatnonzero(conflict), columns) if conflict.any() else []
        if self.first.suspects:
            lines = {line for race in races for line in race.example.lines}
            self.first.judge(bounds[WRITE], columns, lines if examined else None)
        return races

    def _spread(self, access: Entry, columns: int, low: Array, high: Array) -> None:
        """Enter the threads of an access into the lowest and highest thread of each granule."""
        if access.bounds is not None:
            np.minimum(low, access.bounds[0], out=low)
            np.maximum(high, access.bounds[1], out=high)
            return
        at, tid = lanes_of(self.state, access, columns)
        for j in range(access.count):
            place = at + j * columns
            # Threads ascend, and of equal places the last assignment stands.
            low[place[::-1]] = np.minimum(low[place], tid)[::-1]
            high[place] = np.maximum(high[place], tid)

    def _report(self, log: list[Entry], places: Array, columns: int) -> list[_Race]:
        """Look at the accesses to conflicting places one by one: which are races?"""
        if self.examined >= _MAX_EXAMINED:
            return []  # the same lines have been reported many times by now
        self.ordered = any(a.view is not None for a in log)  # a clock was kept
        column = places % columns
        apart = (places[column == c] for c in np.unique(column))
        for here in [places] if self.ordered else apart:
            if pairs := self._examine(log, here, columns):
                self.examined += 1
                # The blocks that are not looked at do what this one did.
                scale = self.state.blocks if columns == 1 else len(places) / len(here)
                return [_Race(example, int(hits * scale), columns) for example, hits in pairs]
        return []

    def _examine(self, log: list[Entry], places: Array, columns: int) -> list[Pair]:
        """The races at some places, by their lines."""
        conflicting = np.zeros(self.size * columns, bool)
        conflicting[places] = True
        nwarps = self.state.warp_shape.warps
        epoch = np.zeros((nwarps, columns), np.int32)
        rows: list[Array] = []
        for sequence, access in enumerate(log):
            if access.kind == WARP_SYNC:
                active = self.state.warps_active(access.mask)
                epoch += active[:, :columns] if columns > 1 else active[:, :1]
                continue
            at, tid = lanes_of(self.state, access, columns)
            for j in range(access.count):
                place = at + j * columns
                sel = conflicting[place]
                if sel.any():
                    p, t = place[sel], tid[sel]
                    warp = t // 32
                    row = p, sequence, t, access.kind, warp, epoch[warp, p % columns]
                    rows.append(np.stack(np.broadcast_arrays(*row)))
        table = np.concatenate(rows, axis=1)
        self._read_flags(table, log)
        if self.ordered:
            return self._unordered_by_clock(table, log, columns)
        across, within = self._unordered(table, any(a.synced for a in log))
        racing = self._not_harmless(table, np.union1d(across, within), log, columns)
        if not len(racing):
            return []
        return self._pairs(table, racing, racing[np.isin(racing, across)], log)

    def _read_flags(self, table: Array, log: list[Entry]) -> None:
        """Volatile reads of what others wait for are made for synchronisation too (ATOMIC)."""
        sites = [self.state.sites[a.site] for a in log]
        strong = np.array([s.strong and s.op == "load" for s in sites])
        if strong.any():
            place, sequence, _, kind = table[:4]
            waits = strong[sequence] & (kind == ATOMIC)
            kind[strong[sequence] & (kind == READ) & np.isin(place, place[waits])] = ATOMIC

    def _not_harmless(self, table: Array, racing: Array, log: list[Entry], columns: int) -> Array:
        """Leave out places where one instruction of several threads wrote one value."""
        if not len(racing):
            return racing
        order = np.argsort(table[0], kind="stable")
        place, sequence, thread, kind = (row[order] for row in table[:4])
        writes = (kind == WRITE) | (kind == FLAG)
        start = np.flatnonzero(np.r_[True, place[1:] != place[:-1]])
        first = np.minimum.reduceat(np.where(writes, sequence, len(log)), start)
        last = np.maximum.reduceat(np.where(writes, sequence, NOBODY), start)
        alone = np.logical_and.reduceat(writes, start)
        alone |= np.minimum.reduceat(thread, start) == np.maximum.reduceat(thread, start)
        # A copy is entered twice, when it begins and when it is complete.
        copied = np.array([*(a.copied for a in log), False])
        once = (first == last) | (copied[first] & copied[last])
        end = np.r_[start[1:], len(place)]
        keep, looked_at = [], racing[: _SAMPLE * 64]
        for here, i in zip(looked_at, np.searchsorted(place[start], looked_at), strict=True):
            if alone[i] and once[i]:
                rows = slice(start[i], end[i])
                made = [log[q] for q in np.unique(sequence[rows][writes[rows]])]
                if len(made) <= 2 and self._same(made, here, columns):
                    self.forgiven = True  # for these values: the next may differ
                    continue
            keep.append(here)
        return np.array([*keep, *racing[_SAMPLE * 64 :]], np.int64) if keep else racing[:0]

    def _of_one_value(
        self, table: Array, i: Array, j: Array, open_: Array, log: list[Entry], columns: int
    ) -> Array:
        """Pairs (i, j) of accesses, of the open ones, by which one instruction put one value."""
        place, sequence, _, kind = table[:4]
        alike = open_ & (sequence[i] == sequence[j]) & np.isin(kind[i], (WRITE, FLAG))
        known: dict[tuple[int, int], bool] = {}
        for n in np.flatnonzero(alike):
            key = int(sequence[i[n]]), int(place[i[n]])
            if key not in known:
                known[key] = len(known) < _SAMPLE * 64 and self._same(
                    [log[key[0]]], key[1], columns
                )
            alike[n] = known[key]
        self.forgiven = self.forgiven or bool(alike.any())
        return alike

    def _same(self, writes: list[Entry], place: int, columns: int) -> bool:
        """Whether all lanes of writes put the same value at a place."""
        s = self.state
        granule, column = place // columns, place % columns
        seen: dict[int, set[bytes]] = {}  # values by block
        for access in writes:
            if access.values is None or access.granule is None or access.bounds is not None:
                return False
            size = access.values[0].dtype.itemsize
            arr = array_of(access.mask)
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

    def _unordered(self, table: Array, summarised: bool) -> tuple[Array, Array]:
        """Places at which two threads truly meet unordered (order-free over the interval).

        First those where they are of two warps, then those where they are of one. summarised: which
        synchronisation of a warp came first is no longer known.
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
                lows[what] = np.minimum.reduceat(np.where(mine, who[order], _NO_THREAD), start)
                highs[what] = np.maximum.reduceat(np.where(mine, who[order], NOBODY), start)
            for a, b in CONFLICTS:
                both = (highs[a] >= 0) & (highs[b] >= 0)
                differ = (lows[a] != highs[b]) | (highs[a] != lows[b])
                out |= both & differ
            return k[start[out]]

        across = mixed(place, warp)
        if summarised:
            return across, across[:0]
        stride = int(max(warp.max(), epoch.max())) + 1
        fine = (place * stride + warp) * stride + epoch
        within = mixed(fine, tid) // (stride * stride)
        return across, within

    def _unordered_by_clock(self, table: Array, log: list[Entry], columns: int) -> list[Pair]:
        """Pairs of accesses that neither a warp's order nor the clock keeps apart, by lines.

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
        meet: list[tuple[Array, Array]] = []  # earlier and later accesses
        for target in (np.isin(kind, (WRITE, FLAG)), kind == ATOMIC):
            before = np.r_[-1, np.maximum.accumulate(np.where(target, at, -1))[:-1]]
            after = np.r_[np.minimum.accumulate(np.where(target, at, n)[::-1])[::-1][1:], n]
            one, other = before >= start, after <= end
            meet += [(before[one], at[one]), (at[other], after[other])]
        i, j = map(np.concatenate, zip(*meet, strict=True))
        conflicts = np.zeros((5, 5), bool)
        for a, b in CONFLICTS:
            conflicts[a, b] = conflicts[b, a] = True
        keep = conflicts[kind[i], kind[j]] & (tid[i] != tid[j])
        i, j = i[keep], j[keep]
        stamps, column = np.zeros(n, np.int64), place % columns
        assert self.clock is not None
        # Before anything but barriers of the block ordered threads nobody knew of anybody.
        nb, nw = self.clock.blocks, self.clock.warps
        begun = (
            np.repeat(self.clock.epoch.reshape(-1, 1) << SHIFT, nw, axis=1),
            np.full((nb, nw, nw), NOBODY, np.int64),
        )
        each_view = [begun if a.view is None else a.view for a in log]
        views = {id(v): v for v in each_view}
        of = np.array([id(v) for v in each_view])[sequence]
        for number, view in views.items():
            sel = of == number
            stamps[sel] = view[0][column[sel], warp[sel]]
        ordered = (warp[i] == warp[j]) & (epoch[i] != epoch[j])
        for number, view in views.items():
            sel = (of[j] == number) & (warp[i] != warp[j])
            a, b = i[sel], j[sel]
            ordered[sel] = stamps[a] <= view[1][column[b], warp[b], warp[a]]
        ordered |= self._of_one_value(t, i, j, ~ordered, log, columns)
        i, j = i[~ordered], j[~ordered]
        racing = self._not_harmless(t, np.unique(place[i]), log, columns)
        keep = np.isin(place[i], racing)
        pairs: dict[Lines, tuple[_Example, set[int]]] = {}
        lines = [self.state.sites[a.site].line for a in log]
        for a, b in zip(i[keep], j[keep], strict=True):
            if (int(kind[a]), int(kind[b])) not in CONFLICTS:
                a, b = b, a  # the writing one first
            pair = (lines[sequence[a]], lines[sequence[b]])
            if kind[b] in (WRITE, FLAG):
                pair = (max(pair), min(pair))
            example = _Example(int(place[a]), int(tid[a]), int(tid[b]), int(kind[b]), pair)
            old, where = pairs.get(pair, (example, set()))
            where.add(int(place[a]))
            better = old.one_warp and not example.one_warp
            pairs[pair] = (example if better else old, where)
        return [(example, len(where)) for _, (example, where) in sorted(pairs.items())]

    def _pairs(self, table: Array, racing: Array, across: Array, log: list[Entry]) -> list[Pair]:
        """Group the races by the two source lines, with one example each.

        across: the places where two warps meet. They are looked at too, for their examples, so that
        the advice is never one for a single warp where that would not do.
        """
        lines = [self.state.sites[a.site].line for a in log]
        pairs: dict[Lines, list[Any]] = {}
        sample = _spread_sample(racing)
        others = np.setdiff1d(_spread_sample(across), sample)
        for number, place in enumerate([*sample, *others]):
            for pair, example in self._meetings(table, int(place), lines).items():
                entry = pairs.setdefault(pair, [example, 0])
                entry[1] += number < len(sample)
                if entry[0].one_warp and not example.one_warp:
                    entry[0] = example
        return [
            (example, max(hits * len(racing) // len(sample), 1))
            for _, (example, hits) in sorted(pairs.items())
        ]

    def _meetings(self, table: Array, place: int, lines: list[int]) -> dict[Lines, _Example]:
        """Who meets whom at a place, by pair of lines."""
        rows = table[:, table[0] == place].T
        # One access a thread, line, kind and epoch is enough to tell who met whom.
        items = sorted({(lines[r[1]], int(r[3]), int(r[2]), int(r[4]), int(r[5])) for r in rows})
        here: dict[Lines, _Example] = {}
        for w in [i for i in items if i[1] != READ][:128]:
            for o in items:
                if o[2] == w[2] or (w[1], o[1]) not in CONFLICTS:
                    continue  # no conflict, or reported from the other side
                if o[3] == w[3] and o[4] != w[4]:
                    continue  # one warp, synchronised in between
                pair = (w[0], o[0])
                if o[1] in (WRITE, FLAG):
                    pair = (max(pair), min(pair))
                example = _Example(place, w[2], o[2], o[1], pair)
                old = here.get(pair)
                if old is None or (o[3] != w[3] and old.one_warp):
                    here[pair] = example  # threads of two warps make the better example
        return here

    def _finding(self, race: _Race) -> None:
        s = self.state
        place, writer, other, kind, pair = race.example
        name, where = s.shared_name(place // race.columns * self.granule)
        verb = {READ: "reads", ATOMIC: "accesses"}.get(kind, "writes")
        warp = race.example.one_warp
        cure = (
            "The two threads are of one warp: put __syncwarp() between the accesses"
            if warp
            else "Put __syncthreads() between the accesses"
        )
        if not warp and s.launch.program.waits:
            cure += (
                ", or let the second wait for a volatile flag or a lock that the first sets, with "
                "__threadfence_block() before it is set and after it is read"
            )
        s.find(
            "race",
            pair[0],
            f"{where}: thread {s.thread_text(writer)} writes it and thread {s.thread_text(other)} "
            f"{verb} it ({place_of(pair[1])}) with no barrier in between. {cure}",
            race.times,
            array=name,
            index=where,
            threads=(writer, other),
            other_line=pair[1],
            block=s.block_tuple(place % race.columns),
            weight=int(not warp),  # __syncwarp() would not help threads of two warps
        )


def _spread_sample(places: Array) -> Array:
    """A few places, from first to last."""
    if not len(places):
        return places
    return places[np.unique(np.linspace(0, len(places) - 1, _SAMPLE).astype(np.int64))]
