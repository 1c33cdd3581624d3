"""The judge of global memory: each granule's last writer and its last two readers of different
warps, for the whole launch.

Only arrays that the kernel may write are looked at. Threads of one block are ordered by what the
clock knows, without one by its barriers; threads of different blocks by flags and locks alone. A
flag that one instruction sets for many threads, always to one value, is no race between them.

Accesses that are made for synchronisation (atomic, relaxed, acquire and release ones, volatile
loads and stores) do not race with each other, only with others; two volatile stores do.
Source: PTX ISA, Memory Consistency Model (data races: conflicts that are not morally strong).

What the copy engine stores is under way until its thread has waited for the group, not .read alone.
What a thread stores, the engine reads for its block only behind a fence.proxy.async, as in shared
memory (`engines`); between blocks that is not asked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nogpu.emulator.machine.events import Access, Bulk, Served, Stage
from nogpu.emulator.machine.lanes import Array, pick
from nogpu.emulator.machine.masks import flat_lanes
from nogpu.emulator.machine.memory import SLOT_BITS, Buffer
from nogpu.emulator.observe.clock import SHIFT, Ledger
from nogpu.emulator.observe.log import NOBODY

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.observe.clock import Clock
    from nogpu.emulator.ptx.sites import Site

Flag = Callable[[], bytes | None]
"""Tells what a store puts everywhere, if that is one value."""


class _Readers:
    """One reader of each granule: its thread in the launch, and the stamp of its load."""

    def __init__(self, size: int) -> None:
        self.who = np.full(size, NOBODY, np.int64)
        self.stamp = np.zeros(size, np.int64)


class _Places:
    """The last accesses to each granule of an array.

    readers: the last one, and one of another warp, of another block where there is one: a thread
    that writes what it has read itself may race with those that read it before.
    """

    def __init__(self, buffer: Buffer, flags: bool) -> None:
        """flags: whether fences may order accesses of blocks, so that old copies of them count."""
        size = -(-buffer.nbytes // buffer.granule)
        self.writer = np.full(size, NOBODY, np.int64)  # thread of the launch
        self.writer_stamp = np.zeros(size, np.int64)
        self.writer_site = np.full(size, NOBODY, np.int32)
        self.readers = _Readers(size), _Readers(size)
        self.strong: Array | None = None  # last write: 0 plain, 1 volatile, 2 atomic or relaxed
        # Places that were loaded before they were last written.
        self.copied = np.zeros(size, bool) if flags else None
        self.versions: Array | None = None  # what the value of a place has released (see `clock`)
        # Threads for which an engine may still write (_LANDED: it has), and the instructions; made
        # on first use.
        self.engine = np.zeros(0, np.int64)
        self.engine_site = np.zeros(0, np.int32)


_LANDED = NOBODY - 1
_UNKNOWN = np.zeros(0, np.int64)


class _Lanes(NamedTuple):
    """Lanes that access granules from `at` on: flat arrays.

    gid: their threads in the launch. stamp: of what they do. column, thread: their block in the
    batch and their thread in it; empty where no clock is kept.
    """

    at: Array
    gid: Array
    stamp: Array
    column: Array = _UNKNOWN
    thread: Array = _UNKNOWN

    def only(self, which: Array) -> _Lanes:
        """Some of them."""
        return _Lanes(*(part[which] if len(part) else part for part in self))


class _Now(NamedTuple):
    """What lanes do now, at one granule each."""

    site: Site
    buffer: Buffer
    place: Array
    lanes: _Lanes
    store: bool


class GlobalJudge:
    """Judges accesses to global memory, batch after batch."""

    def __init__(self, writable: set[int] | None, flags: bool) -> None:
        """writable: slots of the arrays that the kernel may write; None: all. flags: fences, flags
        and locks may order threads."""
        self.writable, self.flags = writable, flags
        self.ledger = Ledger()
        self.places: dict[int, _Places] = {}

    def begin(self, state: State, epoch: Array, clock: Clock | None) -> None:
        """A batch of blocks begins, or something else than barriers orders it from here on."""
        self.state, self.clock = state, clock
        self.epoch = epoch
        # Up to which stamps a fence has shown the engines what each unit of a block stored.
        self.shown: Array | None = None

    def allocated(self, target: Buffer, first: int, nbytes: int) -> None:
        """malloc orders those that call it."""
        last = self.places.get(id(target))
        if last is not None:
            granules = slice(first // target.granule, (first + nbytes) // target.granule)
            last.writer[granules] = NOBODY
            last.engine[granules] = NOBODY
            for reader in last.readers:
                reader.who[granules] = NOBODY

    def note(self, access: Access) -> None:
        """Judge a load or a store and enter it."""
        site, buffer = access.site, access.where.target
        assert isinstance(buffer, Buffer)
        if site.op != "store" and not site.strong and not self._written(buffer):
            return
        s, mask = self.state, access.where.mask
        at = access.where.offset // buffer.granule
        if self.clock is None:
            stamp = self.epoch.reshape(1, 1, s.p, s.q) << SHIFT
            lanes = _Lanes(*flat_lanes(s, mask, at, s.global_thread, stamp))
        else:
            lanes = self._timed(site, *flat_lanes(s, mask, at, s.block_index, s.thread))
        # Not of volatile stores: `*count += 1` with a volatile count stores one value for all, and
        # loses what the others added, though such loads and stores are no race with each other.
        flag = None
        if access.values and not site.strong:
            flag = partial(_one_value, access.values, mask, s.shape)
        length = None if access.length is None else flat_lanes(s, mask, access.length)[0]
        self._enter(site, buffer, lanes, site.op == "store", flag, length)
        if not self.flags or self.clock is None or length is not None:
            return
        last, who = self.places[id(buffer)], (lanes.column, lanes.thread >> 5)
        if site.op == "store" and (site.strong or last.versions is not None):
            self.clock.write(self._versions(buffer), lanes.at, *who, site.release, site.strong)
        elif site.op == "load" and site.strong and last.versions is not None:
            self.clock.read(last.versions, lanes.at, *who, site.acquire)

    def bulk(self, bulk: Bulk) -> None:
        """Judge what a copy engine loads or stores for threads, as if they did so; but what it
        stores is there only when they have waited for it (not .read): until then not even they may
        touch it.
        """
        buffer = bulk.target
        assert isinstance(buffer, Buffer)
        if self.clock is None or (not bulk.writes and not self._written(buffer)):
            return
        there = bulk.present
        at = bulk.offset[there] // buffer.granule
        thread, column = (
            np.broadcast_to(a[:, None], there.shape)[there] for a in (bulk.thread, bulk.column)
        )
        lanes = self._timed(bulk.site, at, column, thread)
        if bulk.stage is Stage.WHOLE and (self.flags or bulk.site.op != "atomic"):
            self._enter(bulk.site, buffer, lanes, bulk.writes, engine=True)
        if not bulk.writes:
            return
        last = self._last(buffer)
        if not len(last.engine):
            last.engine = np.full(len(last.writer), NOBODY, np.int64)
            last.engine_site = np.zeros(len(last.writer), np.int32)
        for j in range(bulk.width // buffer.granule):
            place = at + j
            if bulk.stage is Stage.WHOLE:
                last.engine[place], last.engine_site[place] = lanes.gid, bulk.site.index
                continue
            landed = last.engine[place] == lanes.gid
            last.engine[place[landed]] = _LANDED
            landed &= last.writer[place] == lanes.gid
            last.writer_stamp[place[landed]] = lanes.stamp[landed]

    def served(self, served: Served) -> None:
        """Judge and enter atomics in the order in which they were served, if there are fences."""
        site, buffer = served.access.site, served.access.where.target
        assert isinstance(buffer, Buffer)
        if not self.flags or self.clock is None:
            return
        at = served.at // buffer.granule
        lanes = self._timed(site, at, served.column, served.thread)
        self._enter(site, buffer, lanes, True)
        who, scopes = (served.column, served.thread >> 5), (site.acquire, site.release)
        self.clock.update(self._versions(buffer), at, *who, served.changed, scopes)

    def _written(self, buffer: Buffer) -> bool:
        slot = buffer.base >> SLOT_BITS
        return self.writable is None or slot in self.writable or buffer.owned is not None

    def _last(self, buffer: Buffer) -> _Places:
        """The last accesses to an array."""
        last = self.places.get(id(buffer))
        if last is None:
            last = self.places[id(buffer)] = _Places(buffer, self.flags)
        return last

    def _versions(self, buffer: Buffer) -> Array:
        """What the values in an array have released, by granule."""
        last = self.places[id(buffer)]
        if last.versions is None:
            last.versions = self.ledger.places(len(last.writer))
        return last.versions

    def _timed(self, site: Site, at: Array, column: Array, thread: Array) -> _Lanes:
        assert self.clock is not None
        gid = self.state.linear_block.ravel()[column] * self.state.threads + thread
        times = self.clock.strong_stamp() if site.strong else self.clock.stamp()
        return _Lanes(at, gid, times[column, thread >> 5], column, thread)

    def _enter(
        self,
        site: Site,
        buffer: Buffer,
        every: _Lanes,
        store: bool,
        flag: Flag | None = None,
        length: Array | None = None,
        engine: bool = False,
    ) -> None:
        """Check accesses and enter them. length: bytes that each lane touches; None: the width.
        engine: it is the copy engine that makes them.

        Where the same instruction of another thread has put already what `flag` tells, nobody can
        tell who was last: no race, as in shared memory.
        """
        strong = site.strong
        last = self._last(buffer)
        if strong and last.strong is None:
            last.strong = np.zeros(len(last.writer), np.int8)
        kind = 0 if not strong else 1 if site.volatile else 2
        for j in range(site.width // buffer.granule):
            lanes = every if length is None else every.only(length > j * buffer.granule)
            place = lanes.at + j
            before, then = last.writer[place], last.writer_stamp[place]
            fresh = None if last.copied is None or strong else ~last.copied[place]
            bad = self._unordered(before, then, lanes, fresh)
            if strong and last.strong is not None:
                # Two volatile stores: the one that comes first is lost.
                bad = bad & ((last.strong[place] == 0) | (store & (last.strong[place] + kind == 2)))
            put = flag() if flag is not None and bad.any() else None
            if put is not None:
                same = last.writer_site[place] == site.index
                bad = bad & ~(same & _holds(buffer, place, put, j))
            now = _Now(site, buffer, place, lanes, store)
            self._report(now, before, then, bad, "writes")
            if site.read_only:
                self._changed(now, before, (before >= 0) & ~bad)
            if len(last.engine) and site.op != "atomic":
                other = last.engine[place]
                late = (other >= 0) & ~bad
                if engine and store:  # boxes of a thread may overlap
                    late &= other != lanes.gid
                self._against_engines(now, last, late)
            if engine and not store:
                self._against_stores(now, last, before, (before >= 0) & ~bad)
            if store:
                self._overwrite(now, last, flag, kind)
            elif not strong:
                self._read(last, place, lanes)

    def _read(self, last: _Places, place: Array, lanes: _Lanes) -> None:
        """Enter loads: the last lane at a place is its last reader; a lane of another warp, or who
        read it before, may be the other one."""
        newest, other = last.readers
        before, then = newest.who[place], newest.stamp[place]
        newest.who[place], newest.stamp[place] = lanes.gid, lanes.stamp
        threads = self.state.threads

        def apart(a: Array, b: Array) -> tuple[Array, Array]:
            """Whether threads are of two blocks, and whether they are of two warps."""
            blocks = a // threads != b // threads
            return blocks, blocks | (a % threads >> 5 != b % threads >> 5)

        now = newest.who[place]
        aside = apart(lanes.gid, now)[1]
        rival = np.where(aside, lanes.gid, before)
        elsewhere, warps = apart(rival, now)
        known = other.who[place]
        at = (rival >= 0) & warps & (elsewhere | (known < 0) | ~apart(known, now)[0])
        other.who[place[at]] = rival[at]
        other.stamp[place[at]] = np.where(aside, lanes.stamp, then)[at]

    def _overwrite(self, now: _Now, last: _Places, flag: Flag | None, kind: int) -> None:
        """Check a store against the last reads, and against other lanes of itself; enter it."""
        site, place, lanes = now.site, now.place, now.lanes
        reported = np.zeros(len(place), bool)
        for readers in last.readers:
            reader, then = readers.who[place], readers.stamp[place]
            bad = self._unordered(reader, then, lanes, None) & ~reported
            self._report(now, reader, then, bad, "reads")
            reported |= bad
        if last.copied is not None:
            last.copied[place] |= last.readers[0].who[place] >= 0
        last.writer[place] = lanes.gid
        last.writer_stamp[place] = lanes.stamp
        last.writer_site[place] = site.index
        if last.strong is not None:
            last.strong[place] = kind
        if len(last.engine) and site.op != "atomic":
            last.engine[place] = NOBODY
        if site.op != "atomic" and kind != 2:
            after = last.writer[place]
            bad = after != lanes.gid
            if flag is not None and bad.any() and flag() is not None:
                bad = np.zeros_like(bad)
            self._report(now, after, lanes.stamp, bad, "writes")

    def _unordered(self, before: Array, then: Array, lanes: _Lanes, fresh: Array | None) -> Array:
        """Lanes that do not know of the accesses of threads `before` at stamps `then`."""
        other = (before >= 0) & (before != lanes.gid)
        if not other.any():
            return other
        if self.clock is None:
            threads = self.state.threads
            elsewhere = before // threads != lanes.gid // threads
            same_warp = before % threads >> 5 == lanes.gid % threads >> 5
            return other & (elsewhere | ((then == lanes.stamp) & ~same_warp))
        at = np.flatnonzero(other)
        new = None if fresh is None else fresh[at]
        now = lanes.column[at], lanes.thread[at]
        other[at] = ~self.clock.before(before[at], then[at], *now, new)
        return other

    def _against_engines(self, now: _Now, last: _Places, bad: Array) -> None:
        """Bad lanes meet what the copy engine may still write."""
        if not bad.any():
            return
        s, first = self.state, int(np.flatnonzero(bad)[0])
        there = int(now.place[first])
        a, b = int(last.engine[there]), int(now.lanes.gid[first])
        line = s.sites[int(last.engine_site[there])].line
        message = (
            f"thread {s.global_thread_text(b)} {'writes' if now.store else 'reads'} it while the "
            f"copy engine may still write it for the copy of line {line}, of thread "
            f"{s.global_thread_text(a)}. Let that thread wait until its group is written "
            "(cp.async.bulk.wait_group; with .read it waits only until shared memory has been "
            "read), then arrive at a barrier that the others wait for"
        )
        self._find(now, bad, message, a, line)

    def proxy(self, mask: Mask | None) -> None:
        """What these threads know to be written, the engines may read from here on."""
        if self.clock is not None:
            shown = self.clock.show(mask)
            self.shown = shown if self.shown is None else np.maximum(self.shown, shown)

    def _against_stores(self, now: _Now, last: _Places, before: Array, bad: Array) -> None:
        """The engine reads what threads `before` of its block have stored, by an ordinary store
        that no fence has shown it.
        """
        s, place, lanes = self.state, now.place, now.lanes
        assert self.clock is not None
        bad &= before // s.threads == lanes.gid // s.threads
        if len(last.engine):
            bad &= last.engine[place] == NOBODY
        if self.shown is not None:
            unit = before % s.threads // (32 // self.clock.each)
            bad &= last.writer_stamp[place] > self.shown[lanes.column, unit]
        if not bad.any():
            return
        first = int(np.flatnonzero(bad)[0])
        a, b = int(before[first]), int(lanes.gid[first])
        line = s.sites[int(last.writer_site[int(place[first])])].line
        message = (
            f"the copy engine reads it for thread {s.global_thread_text(b)}, and an ordinary store "
            f"of thread {s.global_thread_text(a)} wrote it (line {line}) without a fence between "
            "the two ways to memory: the engine may see what was there before. Put "
            "fence.proxy.async after the stores, before the barrier"
        )
        self._find(now, bad, message, a, line)

    def _report(self, now: _Now, before: Array, then: Array, bad: Array, earlier: str) -> None:
        """Bad lanes meet what threads `before` did at stamps `then`, in no order."""
        if not bad.any():
            return
        s, (_, _, _, lanes, store) = self.state, now
        first = int(np.flatnonzero(bad)[0])
        a, b = int(before[first]), int(lanes.gid[first])
        cure = "Give each element to one thread, or use an atomic operation"
        if self.flags and self.clock is not None:
            column, warp = int(lanes.column[first]), int(lanes.thread[first]) >> 5
            cure = f"{self.clock.what_is_missing(a, int(then[first]), column, warp)}. {_HOW}"
        elif s.launch.program.waits or any(t.op == "atomic" for t in s.sites):
            cure += (
                f". The kernel has no __threadfence(), without which no flag orders them. {_HOW}"
            )
        message = (
            f"thread {s.global_thread_text(b)} {'writes' if store else 'reads'} it and "
            f"thread {s.global_thread_text(a)} {earlier} it in the same launch, in no order. {cure}"
        )
        self._find(now, bad, message, a)

    def _changed(self, now: _Now, before: Array, bad: Array) -> None:
        """Bad lanes take for constant what threads `before` have written, in whatever order."""
        if not bad.any():
            return
        s, first = self.state, int(np.flatnonzero(bad)[0])
        a, b = int(before[first]), int(now.lanes.gid[first])
        writer = "it has" if a == b else f"thread {s.global_thread_text(a)} has"
        message = (
            f"thread {s.global_thread_text(b)} loads it by ld.global.nc, which may assume that "
            f"nobody writes it while the kernel runs, and {writer} written it in the same launch: "
            "the load may give what was there before. Load it without __ldg(), and do not declare "
            "const __restrict__ what points to memory that the kernel writes"
        )
        self._find(now, bad, message, a)

    def _find(self, now: _Now, bad: Array, message: str, other: int, line: int = 0) -> None:
        """Enter a finding of the first bad lane and of another thread of the launch, perhaps with
        the line of what that one did.
        """
        s, first = self.state, int(np.flatnonzero(bad)[0])
        where = now.buffer.index_text(int(now.place[first]) * now.buffer.granule)
        mine = int(now.lanes.gid[first])
        s.find(
            "race",
            now.site.line,
            f"{where}: {message}",
            int(bad.sum()),
            array=now.buffer.name,
            index=where,
            threads=(mine % s.threads, other % s.threads),
            other_line=line,
            block=s.block_of(mine // s.threads),
        )


def _one_value(
    values: tuple[Array, ...], mask: Mask | None, shape: tuple[int, ...]
) -> bytes | None:
    """The bytes that every lane of a store puts, if they are the same for all; None otherwise."""
    raw = []
    for value in values:
        lanes = value.ravel()
        if mask is not None and value.size > 1:
            lanes = np.broadcast_to(value, shape)[np.broadcast_to(mask.arr, shape)]
        bits = np.ascontiguousarray(lanes).view(f"u{lanes.dtype.itemsize}")
        if (bits != bits[0]).any():
            return None
        raw.append(bits[:1].tobytes())
    return b"".join(raw)


def _holds(buffer: Buffer, place: Array, put: bytes, part: int) -> Array:
    """Whether granules hold the given part of what a store puts."""
    kind = np.dtype(f"u{buffer.granule}")
    bits = np.frombuffer(put, kind)[part]
    return np.asarray(pick(buffer.view(kind), place) == bits)


_HOW = (
    "To order blocks by a flag or a lock: store, __syncthreads(), __threadfence() and only then "
    "set the flag by an atomic or a volatile store; read the flag by an atomic or a volatile load, "
    "__threadfence(), __syncthreads(), load"
)
