"""Races in shared memory where more than barriers of the block orders the threads.

Kernels with mbarriers order single threads: what a thread did before it arrived is known to those
that waited for the phase. So every access is judged when it is made, against the last write and the
last reads of the same place: the other thread's access must be known to this one.

Time is counted by warp. `known[w, u]` is the time up to which all lanes of warp w know what thread
u did. Where only some lanes of a warp waited, the others learn of it at the next synchronisation of
the warp: until then `some_know` holds for those lanes alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.observe.races import ATOMIC, READ, WARP_SYNC, WRITE, SharedLog

if TYPE_CHECKING:
    from helpers.emulator.machine.masks import Mask
    from helpers.emulator.machine.state import State

Array = np.ndarray[Any, np.dtype[Any]]

i4 = np.dtype("i4")


class _Last:
    """The last accesses of a kind to each place: thread, its time, the instruction."""

    def __init__(self, *shape: int) -> None:
        self.thread = np.full(shape, -1, np.int16)
        self.time = np.zeros(shape, i4)
        self.site = np.zeros(shape, i4)


class OrderedLog(SharedLog):
    """Judges accesses as they come; takes the place of SharedLog in programs with mbarriers."""

    def __init__(self, state: State, nbytes: int, granule: int) -> None:
        super().__init__(state, nbytes, granule)
        self.log = [None]  # type: ignore[list-item]  # never empty: warp synchronisation counts
        nwarps, columns = state.warp_shape.warps, state.blocks
        self.padded = nwarps * 32
        self.known = np.zeros((nwarps, self.padded, columns), i4)
        self.some_know = np.zeros_like(self.known)
        self.some = np.zeros((self.padded, columns), bool)
        self.anyone = False  # whether `some` holds any lane
        self.now = np.ones((nwarps, columns), i4)
        self.places = self.size * columns
        self.writes = _Last(self.places)
        self.reads = _Last(nwarps, self.places)
        self.atomics: _Last | None = None
        self.arriving: dict[int, Array] = {}  # by barrier: what those that arrived knew
        self.complete_: dict[int, Array] = {}  # the same when its last phase was completed

    # -- who is meant ----------------------------------------------------------------------------

    def _lanes_of(self, mask: Mask | None) -> Array:
        """bool (warps, 32, blocks)."""
        s = self.state
        arr = np.ones((1, 1, 1, 1), bool) if mask is None else mask.arr
        full = np.zeros((self.padded, s.blocks), bool)
        full[: s.threads] = np.broadcast_to(arr, s.shape).reshape(s.threads, s.blocks)
        return full.reshape(-1, 32, s.blocks)

    def _by_barrier(self, offset: Array, mask: Mask | None) -> list[tuple[int, Array]]:
        """Each barrier that is meant, with the lanes that mean it."""
        lanes = self._lanes_of(mask)
        if offset.size == 1:
            return [(int(offset.reshape(())), lanes)]
        s = self.state
        full = np.full((self.padded, s.blocks), -1, np.int64)
        full[: s.threads] = np.broadcast_to(offset, s.shape).reshape(s.threads, s.blocks)
        full = full.reshape(lanes.shape)
        return [(int(at), lanes & (full == at)) for at in np.unique(full[lanes])]

    # -- order -----------------------------------------------------------------------------------

    def release(self, offset: Array, mask: Mask | None) -> None:
        """Threads arrive at barriers: what they did and knew goes there."""
        for at, lanes in self._by_barrier(offset, mask):
            zero = np.zeros((self.padded, self.state.blocks), i4)
            self._give(self.arriving.setdefault(at, zero), lanes)

    def _give(self, into: Array, lanes: Array) -> None:
        for warp, here in enumerate(lanes):
            act = here.any(axis=0)
            if not act.any():
                continue
            rows = slice(32 * warp, 32 * warp + 32)
            know = self.known[warp]
            if self.anyone:
                wiser = (here & self.some[rows]).any(axis=0)
                know = np.where(wiser, np.maximum(know, self.some_know[warp]), know)
            know = know.copy()
            know[rows] = np.where(here, self.now[warp], know[rows])
            np.maximum(into, np.where(act, know, 0), out=into)
            self.now[warp] += act

    def complete(self, barriers: Array) -> None:
        """Phases are complete: bool (words, blocks), true at the first word of the barrier."""
        for at, arrived in self.arriving.items():
            here = barriers[at >> 2]
            if here.any():
                old = self.complete_.setdefault(at, np.zeros_like(arrived))
                np.maximum(old, np.where(here, arrived, 0), out=old)

    def acquire(self, offset: Array, mask: Mask | None) -> None:
        """Threads learn that a phase is complete, and with it what was done before it."""
        for at, lanes in self._by_barrier(offset, mask):
            got = self.complete_.get(at)
            if got is not None:
                self._take(got, lanes)

    def _take(self, got: Array, lanes: Array) -> None:
        live = self._lanes_of(self.state.alive)
        for warp, here in enumerate(lanes):
            act = here.any(axis=0)
            if not act.any():
                continue
            full = act & (here | ~live[warp]).all(axis=0)
            known = self.known[warp]
            np.maximum(known, np.where(full, got, 0), out=known)
            if full.sum() < act.sum():
                partly = act & ~full
                rows = slice(32 * warp, 32 * warp + 32)
                some = self.some_know[warp]
                np.maximum(some, np.where(partly, got, 0), out=some)
                self.some[rows] |= here & partly
                self.anyone = True

    def forget(self, offset: Array) -> None:
        """A barrier is set up anew."""
        for at in np.unique(offset):
            self.arriving.pop(int(at), None)
            self.complete_.pop(int(at), None)

    def join(self, masks: list[Mask | None]) -> None:
        """A barrier of some warps: what each did before it is now known to the others."""
        lanes = np.zeros((self.padded // 32, 32, self.state.blocks), bool)
        for mask in masks:
            lanes |= self._lanes_of(mask)
        met = np.zeros((self.padded, self.state.blocks), i4)
        self._give(met, lanes)
        self._take(met, lanes)

    def _warp_sync(self, mask: Mask | None) -> None:
        lanes = self._lanes_of(mask)
        live = self._lanes_of(self.state.alive) if self.anyone else None
        for warp, here in enumerate(lanes):
            act = here.any(axis=0)
            rows = slice(32 * warp, 32 * warp + 32)
            known = self.known[warp]
            known[rows] = np.where(here, self.now[warp], known[rows])
            if live is not None:
                full = act & (here | ~live[warp]).all(axis=0)
                np.maximum(known, np.where(full, self.some_know[warp], 0), out=known)
                self.some[rows] &= ~full
            self.now[warp] += act
        if live is not None:
            self.anyone = bool(self.some.any())

    def end_interval(self, but: Array | None = None) -> None:
        """A barrier of the whole block: everybody knows everything. but: not in these blocks."""
        self._judge_unset(None, None, 1)
        here = np.ones(self.state.blocks, bool) if but is None else ~but.reshape(-1)
        self.known[..., here] = np.repeat(self.now, 32, axis=0)[..., here]
        self.some[:, here] = False
        self.anyone = bool(self.some.any())
        self.now[:, here] += 1

    # -- accesses --------------------------------------------------------------------------------

    def add(
        self,
        site: int,
        kind: int,
        granule: Array | None,
        count: int,
        mask: Mask | None,
        values: tuple[Array, ...] | None = None,
    ) -> None:
        """Judge an access and enter it."""
        if kind == WARP_SYNC:
            self._warp_sync(mask)
            return
        s = self.state
        assert granule is not None
        kind = kind if kind in (READ, WRITE) else ATOMIC
        at, thread, column, chosen = self._flat(granule, mask)
        if not len(at):
            return
        for j in range(count):
            place = at + j * s.blocks
            self._compare(site, kind, place, thread, column)
            self._enter(site, kind, place, thread, column)
            if kind == WRITE and values is not None:
                met = self.writes.thread[place] != thread
                if met.any():
                    value = values[j * self.granule // values[0].dtype.itemsize]
                    full = np.broadcast_to(value, s.shape)
                    flat = full.reshape(-1) if chosen is None else full[chosen]
                    self._collision(site, place, thread, column, met, flat)

    def _flat(self, granule: Array, mask: Mask | None) -> tuple[Array, Array, Array, Array | None]:
        """Places, threads and blocks of the active lanes, and which lanes they are (None: all)."""
        s = self.state
        column = np.broadcast_to(s.block_index, s.shape)
        at = np.broadcast_to(granule, s.shape) * s.blocks + column
        thread = np.broadcast_to(s.thread, s.shape)
        if mask is None:
            return at.reshape(-1), thread.reshape(-1), column.reshape(-1), None
        chosen = np.broadcast_to(mask.arr, s.shape)
        return at[chosen], thread[chosen], column[chosen], chosen

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
        """Judge that cp.async begins to write; when it has, the write happens at that time."""
        if not done:
            self.add(site, WRITE, granule, count, mask, values)
            return
        at, thread, column, _ = self._flat(granule, mask)
        for j in range(count):
            place = at + j * self.state.blocks
            # Where its own beginning was the last write, several lanes may copy the same bytes.
            new = self.writes.site[place] != site
            self._compare(site, WRITE, place[new], thread[new], column[new])
            self._enter(site, WRITE, place, thread, column)

    def _compare(self, site: int, kind: int, place: Array, thread: Array, column: Array) -> None:
        self._against(self.writes, place, site, kind, WRITE, place, thread, column)
        if kind != READ:
            for warp in range(len(self.now)):
                index = warp * self.places + place
                self._against(self.reads, index, site, kind, READ, place, thread, column)
        if kind != ATOMIC and self.atomics is not None:
            for warp in range(len(self.now)):
                index = warp * self.places + place
                self._against(self.atomics, index, site, kind, ATOMIC, place, thread, column)

    def _against(
        self,
        last: _Last,
        index: Array,
        site: int,
        kind: int,
        other_kind: int,
        place: Array,
        thread: Array,
        column: Array,
    ) -> None:
        """Earlier accesses of others that this thread does not know of."""
        other = last.thread.reshape(-1)[index]
        open_ = (other >= 0) & (other != thread)
        if not open_.any():
            return
        time = last.time.reshape(-1)[index]
        who = other.astype(np.int64)
        where = ((thread >> 5) * self.padded + who) * self.state.blocks + column
        open_ &= self.known.reshape(-1)[where] < time
        if self.anyone and open_.any():
            wise = self.some.reshape(-1)[thread * self.state.blocks + column]
            open_ &= ~(wise & (self.some_know.reshape(-1)[where] >= time))
        if open_.any():
            self._race(last, index, site, kind, other_kind, place, thread, column, open_)

    def _race(
        self,
        last: _Last,
        index: Array,
        site: int,
        kind: int,
        other_kind: int,
        place: Array,
        thread: Array,
        column: Array,
        bad: Array,
    ) -> None:
        s = self.state
        others = last.thread.reshape(-1)[index].astype(np.int64)
        apart = bad & (others >> 5 != thread >> 5)  # of two warps: the better example
        i = int(np.flatnonzero(apart if apart.any() else bad)[0])
        mine, other = int(thread[i]), int(others[i])
        before = s.sites[int(last.site.reshape(-1)[index[i]])].line
        name, where = s.shared_name(int(place[i]) // s.blocks * self.granule)
        verbs = {READ: "reads", WRITE: "writes", ATOMIC: "updates"}
        line = s.sites[site].line
        same = mine // 32 == other // 32
        cure = (
            "The two threads are of one warp: put __syncwarp() between the accesses"
            if same
            else "Let the first arrive at a barrier after its access, and the second wait for it"
        )
        s.find(
            "race",
            line,
            f"{where}: thread {s.thread_text(mine)} {verbs[kind]} it and thread "
            f"{s.thread_text(other)} {verbs[other_kind]} it (line {before}), and neither knows that "
            f"the other has done so: no barrier that both used lies in between. {cure}",
            int(np.count_nonzero(bad)),
            array=name,
            index=where,
            threads=(mine, other),
            other_line=before,
            block=s.block_tuple(int(column[i])),
            weight=int(not same),
        )

    def _collision(
        self, site: int, place: Array, thread: Array, column: Array, met: Array, value: Array
    ) -> None:
        """Threads of one store met: a race, unless they stored the same value."""
        bits = value.view(f"u{value.dtype.itemsize}") if value.dtype.kind == "f" else value
        stands = np.zeros(self.places, bits.dtype)
        stands[place] = bits
        met = met & (stands[place] != bits)
        if met.any():
            self._race(self.writes, place, site, WRITE, WRITE, place, thread, column, met)

    def _enter(self, site: int, kind: int, place: Array, thread: Array, column: Array) -> None:
        time = self.now.reshape(-1)[(thread >> 5) * self.state.blocks + column]
        if kind == WRITE:
            last, index = self.writes, place
        else:
            if kind == ATOMIC and self.atomics is None:
                self.atomics = _Last(len(self.now), self.places)
            last = self.reads if kind == READ else self.atomics  # type: ignore[assignment]
            index = (thread >> 5) * self.places + place
        last.thread.reshape(-1)[index] = thread
        last.time.reshape(-1)[index] = time
        last.site.reshape(-1)[index] = site
