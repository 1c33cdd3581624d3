"""The judge of accesses one by one: the last ones to each place, and what the clock says of them.

Shared memory in kernels with mbarriers, which order single threads, and of clusters: every access
is judged when it is made, against the last write and the last reads of the same place. Global
memory: the last writer and reader of each granule are kept for the whole launch, for the arrays
that the kernel may write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nogpu.emulator.machine.events import Access, Stage
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import flat_lanes
from nogpu.emulator.observe.log import ATOMIC, FLAG, NOBODY, READ, WRITE, kind_of
from nogpu.emulator.ptx.sites import place_of

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.observe.clock import Clock
    from nogpu.emulator.observe.initialised import FirstWrites
    from nogpu.emulator.ptx.sites import Site


_CHUNK = 256


class _Last:
    """The last accesses of a kind to each place: thread, its time, the instruction; in rows, one
    for each warp.

    Places are kept by chunks, those that somebody has used: engines fill most of the shared memory
    of the kernels that have the most of it, and threads touch little.
    """

    def __init__(self, rows: int, places: int) -> None:
        self.each = -(-places // _CHUNK)  # chunks of a row
        self.slot = np.zeros(rows * self.each, np.int32)  # of each chunk; 0: nobody was there
        self.touched = np.zeros(self.each, bool)  # chunks in which somebody was, in any row
        self.count = 1
        self.thread = np.full(_CHUNK, NOBODY, np.int16)
        self.time = np.zeros(_CHUNK, np.int64)
        self.site = np.zeros(_CHUNK, np.int32)

    def at(self, place: Array, row: Array | int = 0) -> Array:
        """Where places of rows stand in `thread`, `time` and `site`: below _CHUNK for those that
        nobody used.
        """
        chunk = place // _CHUNK
        return self.slot[row * self.each + chunk] * _CHUNK + (place - chunk * _CHUNK)

    def enter(self, place: Array, row: Array | int, thread: Array, time: Array, site: int) -> None:
        """These threads come to places at these times."""
        chunk = row * self.each + place // _CHUNK
        fresh = np.unique(chunk[self.slot[chunk] == 0])
        if len(fresh):
            self._grow(fresh)
        at = self.at(place, row)
        self.thread[at], self.time[at], self.site[at] = thread, time, site

    def _grow(self, chunks: Array) -> None:
        self.slot[chunks] = np.arange(self.count, self.count + len(chunks))
        self.touched[chunks % self.each] = True
        self.count += len(chunks)
        if self.count * _CHUNK > len(self.thread):
            more = self.count * _CHUNK
            self.thread = np.append(self.thread, np.full(more, NOBODY, np.int16))
            self.time = np.append(self.time, np.zeros(more, np.int64))
            self.site = np.append(self.site, np.zeros(more, np.int32))

    def rows(self, place: Array) -> Array:
        """The rows in which somebody may have been at one of these places, or near it."""
        if self.count == 1:
            return np.zeros(0, np.intp)
        chunk = place // _CHUNK
        near = np.unique(chunk[self.touched[chunk]])
        return np.flatnonzero(self.slot.reshape(-1, self.each)[:, near].any(axis=1))

    def forget(self, place: Array) -> None:
        """Nobody was at these places, in no row."""
        for row in self.rows(place):
            at = self.at(place, int(row))
            self.thread[at[at >= _CHUNK]] = NOBODY


class _Now(NamedTuple):
    """Accesses that are judged: flat arrays."""

    site: Site
    kind: int
    place: Array
    thread: Array
    column: Array


class LastAccessJudge:
    """Judges accesses to the shared memory of a batch of blocks as they come."""

    def __init__(
        self, state: State, first: FirstWrites, clock: Clock, memory: Array, each: int = 0
    ) -> None:
        """Judge a batch of blocks, or of clusters.

        state: the batch; a view of clusters where there are any. first: who is to judge
        uninitialised reads when an interval ends. memory: int64 (1, 1, p, q), which of as many
        shared memories each block's is. each: in clusters the numbers of threads that one block
        takes.
        """
        self.state, self.first, self.clock = state, first, clock
        self.granule = state.launch.program.granule
        self.shift = self.granule.bit_length() - 1
        self.memory, self.memories, self.each = memory, memory.size, each
        self.places = -(-state.launch.shared_bytes // self.granule) * self.memories
        warps = state.warp_shape.warps
        rows = {WRITE: 1, READ: warps, ATOMIC: warps}
        self.last = {kind: _Last(n, self.places) for kind, n in rows.items()}
        self.writes = self.last[WRITE]

    def end(self, but: Array | None = None) -> None:
        """A barrier of the whole block."""
        self.first.judge()

    def note(self, access: Access) -> None:
        """Judge an access and enter it."""
        site, where, s = access.site, access.where, self.state
        granule, span = where.granule(self.shift), site.width >> self.shift
        kind = kind_of(site) if access.stage is Stage.WHOLE else WRITE
        kind = ATOMIC if kind == FLAG else kind
        memory = self.memory if where.owner is None else where.owner
        at = granule * self.memories + memory
        at, thread, column = flat_lanes(s, where.mask, at, s.thread, s.block_index)
        values = access.values
        for j in range(span):
            place = at + j * self.memories
            if access.stage is Stage.WAITED:
                # Where its own beginning was the last write, several lanes may copy the same bytes.
                new = self.writes.site[self.writes.at(place)] != site.index
                self._compare(_Now(site, WRITE, place[new], thread[new], column[new]))
                self._enter(site, WRITE, place, thread, column)
                continue
            self._compare(_Now(site, kind, place, thread, column))
            self._enter(site, kind, place, thread, column)
            if kind == WRITE and values is not None:
                met = self.writes.thread[self.writes.at(place)] != thread
                if met.any():
                    value = values[j * self.granule // values[0].dtype.itemsize]
                    (stored,) = flat_lanes(s, where.mask, value)
                    self._collision(site, place, thread, column, met, stored)

    def met(self, place: Array) -> bool:
        """Whether a thread may have been at one of these places, or near it."""
        chunk = place // _CHUNK
        return any(bool(last.touched[chunk].any()) for last in self.last.values())

    def engine_writes(self, site: Site, place: Array, thread: Array, column: Array) -> None:
        """A copy engine writes granules for threads: flat arrays.

        From here on it is the last writer, and this judge does not know it.
        """
        self._compare(_Now(site, WRITE, place, thread, column))
        for last in self.last.values():
            last.forget(place)

    def engine_reads(self, site: Site, place: Array, thread: Array, column: Array) -> None:
        """An engine reads granules for threads: flat arrays."""
        self._against(self.writes, 0, WRITE, _Now(site, READ, place, thread, column))

    def written(self, place: Array) -> tuple[Array, Array, Array]:
        """Of each place the thread that wrote it last (-1: none, or an engine), its time, and its
        instruction.
        """
        at, last = self.writes.at(place), self.writes
        return last.thread[at].astype(np.int64), last.time[at], last.site[at]

    def _compare(self, now: _Now) -> None:
        self._against(self.writes, 0, WRITE, now)
        for kind in (READ, ATOMIC):
            if now.kind != kind:
                for warp in self.last[kind].rows(now.place):
                    self._against(self.last[kind], int(warp), kind, now)

    def _against(self, last: _Last, row: int, other_kind: int, now: _Now) -> None:
        """Earlier accesses that this thread does not know of. row: of `last`, one for each warp."""
        index = last.at(now.place, row)
        other = last.thread[index]
        open_ = (other >= 0) & (other != now.thread)
        if not open_.any():
            return
        at = np.flatnonzero(open_)
        stamp = last.time[index[at]]
        who = other[at].astype(np.int64)
        open_[at] = ~self.clock.knows(who, stamp, now.column[at], now.thread[at])
        if open_.any():
            self._race(last, index, other_kind, now, open_)

    def _race(self, last: _Last, index: Array, other_kind: int, now: _Now, bad: Array) -> None:
        s, (site, kind, place, thread, column) = self.state, now
        others = last.thread[index].astype(np.int64)
        apart = bad & (others >> 5 != thread >> 5)  # of two warps: the better example
        i = int(np.flatnonzero(apart if apart.any() else bad)[0])
        mine, other = int(thread[i]), int(others[i])
        before = s.sites[int(last.site[index[i]])].line
        name, where = s.shared_name(int(place[i]) // self.memories * self.granule)
        verbs = {READ: "reads", WRITE: "writes", ATOMIC: "updates"}
        line = site.line
        same = mine // 32 == other // 32
        cure = (
            "The two threads are of one warp: put __syncwarp() between the accesses"
            if same
            else "Let the first arrive at a barrier after its access, and the second wait for it"
        )
        if self.each and mine // self.each != other // self.each:
            cure += (
                ". All threads of both blocks meet at the barrier of their cluster: cluster.sync()"
            )
        s.find(
            "race",
            line,
            f"{where}: thread {s.thread_text(mine)} {verbs[kind]} it and thread "
            f"{s.thread_text(other)} {verbs[other_kind]} it ({place_of(before)}), and neither "
            f"knows that the other has done so: no barrier that both used lies in between. {cure}",
            int(np.count_nonzero(bad)),
            array=name,
            index=where,
            threads=(mine, other),
            other_line=before,
            block=s.block_tuple(int(column[i])),
            weight=int(not same),
        )

    def _collision(
        self, site: Site, place: Array, thread: Array, column: Array, met: Array, value: Array
    ) -> None:
        """Threads of one store met: a race, unless they stored the same value."""
        bits = value.view(f"u{value.dtype.itemsize}") if value.dtype.kind == "f" else value
        stands = np.zeros(self.places, bits.dtype)
        stands[place] = bits
        met = met & (stands[place] != bits)
        if met.any():
            at = self.writes.at(place)
            now = _Now(site, WRITE, place, thread, column)
            self._race(self.writes, at, WRITE, now, met)

    def _enter(self, site: Site, kind: int, place: Array, thread: Array, column: Array) -> None:
        time = self.clock.stamp()[column, thread >> 5]
        row = 0 if kind == WRITE else thread >> 5
        self.last[kind].enter(place, row, thread, time, site.index)
