"""cp.async: copies from global to shared memory that are under way until they are waited for.

The data is copied when the instruction runs, but its place in shared memory counts as pending
until the copying thread has waited for the group. Touching a pending place is a race, for the
copying thread too. When a copy is waited for it becomes an ordinary write of that thread: other
threads still need a barrier. A copy that an mbarrier waits for is complete for those that waited for
the barrier's phase.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.machine import access

if TYPE_CHECKING:
    from helpers.emulator.machine.masks import Mask
    from helpers.emulator.machine.state import State
    from helpers.emulator.ptx.sites import Site

Array = np.ndarray[Any, np.dtype[Any]]


PhaseAt = Callable[["State", Array], Array]


@dataclass(eq=False)
class Copy:
    """One executed cp.async, and the lanes whose copies are still under way (None: all)."""

    site: int
    granule: Array
    span: int
    mask: Mask | None
    group: Array  # groups that each lane had committed before
    values: tuple[Array, ...]


@dataclass(eq=False)
class Tracked:
    """Copies that an mbarrier waits for: done when the phase that the lanes arrived at is over."""

    copies: list[Copy]
    mask: Mask | None
    offset: Array  # of the barrier
    phase: Array


class Copies:
    """Copies under way in a batch of blocks, by group of the copying thread."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.open: list[Copy] = []
        self.commits = np.zeros((1, 1, 1, 1), np.int32)  # groups that each thread has committed
        self.tracked: list[Tracked] = []
        assert state.log is not None
        self.pending = np.zeros((state.log.size, 1), np.int32)

    def _places(self, granule: Array, span: int, mask: Mask | None) -> Array:
        """Flat places in `pending` of the active lanes' granules."""
        state = self.state
        varies = granule.shape[2] * granule.shape[3] > 1 or (
            mask is not None and mask.arr.shape[2] * mask.arr.shape[3] > 1
        )
        if varies and self.pending.shape[1] == 1 and state.blocks > 1:
            self.pending = np.repeat(self.pending, state.blocks, axis=1)
        columns = self.pending.shape[1]
        at = granule * columns
        if columns > 1:
            at = at + state.block_index
        if mask is not None:
            shape = np.broadcast_shapes(at.shape, mask.arr.shape)
            at = np.broadcast_to(at, shape)[np.broadcast_to(mask.arr, shape)]
        at = at.reshape(-1)
        return np.concatenate([at + j * columns for j in range(span)])

    def start(
        self,
        site: int,
        granule: Array,
        span: int,
        mask: Mask | None,
        values: tuple[Array, ...],
    ) -> None:
        """A copy begins."""
        places = self._places(granule, span, mask)
        self.pending.reshape(-1)[places] += 1
        self.open.append(Copy(site, granule, span, mask, self.commits, values))

    def commit(self, mask: Mask | None) -> None:
        """cp.async.commit_group."""
        self.commits = self.commits + (np.int32(1) if mask is None else mask.arr)

    def wait(self, left: int, everything: bool, mask: Mask | None) -> None:
        """cp.async.wait_group: all but the latest `left` groups of each thread are complete."""
        if everything:
            self.commit(mask)
            left = 0
        for copy in list(self.open):
            done = copy.group < self.commits - left
            lanes = self._finish(copy, done if mask is None else done & mask.arr)
            if lanes is None or lanes.n:
                assert self.state.log is not None
                self.state.log.add_copy(
                    copy.site, copy.granule, copy.span, lanes, copy.values, done=True
                )

    def _finish(self, copy: Copy, done: Array) -> Mask | None:
        """The lanes of a copy, among those given, whose bytes have arrived."""
        state = self.state
        lanes = state.narrowed(copy.mask, done)
        if lanes is not None and not lanes.n:
            return lanes
        everyone = state.lanes if copy.mask is None else copy.mask.n
        if lanes is None or lanes.n == everyone:
            self.open.remove(copy)
            lanes = copy.mask
        else:
            copy.mask = state.narrowed(copy.mask, ~done)
        places = self._places(copy.granule, copy.span, lanes)
        np.subtract.at(self.pending.reshape(-1), np.unique(places), 1)
        return lanes

    def track(self, offset: Array, phase: Array, mask: Mask | None) -> None:
        """cp.async.mbarrier.arrive: the barrier waits for what these threads have begun to copy."""
        if self.open:
            self.tracked.append(Tracked(list(self.open), mask, offset, phase))

    def phase_over(self, offset: Array, mask: Mask | None, phase_at: PhaseAt) -> None:
        """Threads know that a phase is complete: the copies that it waited for are."""
        state = self.state
        known = True if mask is None else mask.arr.any(axis=(0, 1), keepdims=True)
        for t in list(self.tracked):
            done = (phase_at(state, t.offset) != t.phase) & known
            if offset.size == 1:
                done = done & (t.offset == offset)
            if t.mask is not None:
                done = done & t.mask.arr
            if not done.any():
                continue
            t.copies = [c for c in t.copies if c in self.open]
            for copy in t.copies:
                self._finish(copy, done)
            rest = state.narrowed(t.mask, ~done)
            if rest is not None and not rest.n:
                self.tracked.remove(t)
            else:
                t.mask = rest

    def check(self, site: Site, granule: Array, span: int, mask: Mask | None) -> None:
        """Report lanes that touch a place whose copy is still under way."""
        if not self.open:
            return
        flat = self._lookup(granule, span)
        if not flat.any():
            return
        if mask is not None:
            flat = flat & mask.arr
            if not flat.any():
                return
        state = self.state
        thread, column, place = access._first(state, granule, flat)
        assert state.log is not None
        name, where = state.shared_name(place * state.log.granule)
        line = self._line_of(place, column)
        state.find(
            "race",
            site.line,
            f"{where}: thread {state.thread_text(thread)} of block {state.block_tuple(column)} "
            f"{'reads' if site.op == 'load' else 'writes'} it while the cp.async of line {line} is "
            "still under way. Wait for its group (cp.async.wait_group), then __syncthreads()",
            int(np.count_nonzero(flat)) * (state.lanes // flat.size),
            array=name,
            index=where,
            threads=(thread,),
            other_line=line,
            block=state.block_tuple(column),
            weight=2,  # what to do about it is to wait for the copy first of all
        )

    def _lookup(self, granule: Array, span: int) -> Array:
        columns = self.pending.shape[1]
        flat = self.pending.reshape(-1)
        at = granule * columns
        if columns > 1:
            at = at + self.state.block_index
        hit = flat[at] > 0
        for j in range(1, span):
            hit = hit | (flat[at + j * columns] > 0)
        return hit

    def _line_of(self, granule: int, column: int) -> int:
        for copy in self.open:
            for j in range(copy.span):
                if (copy.granule + j == granule).any():
                    return self.state.sites[copy.site].line
        return 0

    def not_pending(self, granule: Array, span: int, missing: Array) -> Array:
        """Lanes of `missing` that do not wait for a copy: those are reported as races."""
        return missing & ~self._lookup(granule, span)


def copy_async(
    state: State,
    source: int,
    target: int,
    from_address: Array,
    to_address: Array,
    limit: Array | None,
    mask: Mask | None,
) -> None:
    """cp.async: `limit` bytes are read (None: all), the rest of the access is filled with zeros."""
    if mask is not None and mask.n == 0:
        return
    from_site, to_site = state.sites[source], state.sites[target]
    # The bytes beyond the limit are not read, so they may lie outside.
    reads = mask if limit is None else state.narrowed(mask, limit > 0)
    if limit is None or (limit[...] == from_site.width).all():
        values = access.load_global(state, source, from_address, reads)
    else:
        values = _partial(state, source, from_address, limit, reads)
    if from_site.count == 1 and not isinstance(values, tuple):
        values = (values,)
    if limit is not None:
        values = tuple(v & _leading(limit, 4 * j) for j, v in enumerate(values))
    stats = state.stats[target]
    log, state.log = state.log, None  # the write is judged when it is waited for
    try:
        if log is None:
            access.store_shared(state, target, to_address, values, mask)
            return
        state.log = log
        plan = access._shared_plan(state, to_site, stats, to_address, mask)
        arr = None if plan.mask is None else plan.mask.arr
        assert plan.granule is not None
        span = max(to_site.width >> log.shift, 1)
        if state.copies is None:
            state.copies = Copies(state)
        state.copies.check(to_site, plan.granule, span, plan.mask)
        log.mark(plan.granule, span, arr)
        log.add_copy(target, plan.granule, span, plan.mask, values, done=False)
        state.copies.start(target, plan.granule, span, plan.mask, values)
        for j, value in enumerate(values):
            access.store_words(state.shared, plan.offset + 4 * j, value, arr)
    finally:
        state.log = log


def _partial(
    state: State, source: int, address: Array, limit: Array, mask: Mask | None
) -> tuple[Array, ...]:
    """Loads of which some lanes read fewer bytes than the copy is wide.

    The lanes that read all of it make a request of their own.
    """
    site = state.sites[source]
    values: tuple[Array, ...] = (np.zeros((1, 1, 1, 1), np.uint32),) * site.count
    if mask is not None and mask.n == 0:
        return values
    whole = state.narrowed(mask, limit >= site.width)
    if whole is None or whole.n:
        got = access.load_global(state, source, address, whole)
        values = got if isinstance(got, tuple) else (got,)
    rest = state.narrowed(mask, limit < site.width)
    if rest is None or rest.n:
        ragged = access.load_ragged(state, source, address, limit, rest)
        here = True if rest is None else rest.arr
        values = tuple(np.where(here, r, v) for r, v in zip(ragged, values, strict=True))
    return values


_LEADING = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], np.uint32)


def _leading(limit: Array, at: int) -> Array:
    """Mask of the bytes of the word at byte `at` that lie within the first `limit` bytes."""
    return _LEADING[np.clip(limit.astype(np.int64) - at, 0, 4)]


def commit_group(state: State, mask: Mask | None) -> None:
    """cp.async.commit_group."""
    if state.copies is not None:
        state.copies.commit(mask)


def wait_group(state: State, left: int, everything: bool, mask: Mask | None) -> None:
    """cp.async.wait_group and wait_all."""
    if state.copies is not None:
        state.copies.wait(left, everything, mask)
