"""cp.async: copies from global to shared memory that are under way until they are waited for.

The data is copied when the instruction runs; that its place counts as pending until the copying
thread has waited for the group is for observers to say. They learn when a copy begins,
when its own thread has waited for it (then it is an ordinary write of that thread: others still
need a barrier), and when an mbarrier that waits for it has completed a phase (then it is complete
for those that waited).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.access import perform
from nogpu.emulator.machine.events import Access, Stage, Where
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import Mask, array_of

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site

PhaseAt = Callable[["State", Array], Array]


@dataclass(eq=False)
class Copy:
    """One executed cp.async, and the lanes whose copies are still under way (None: all)."""

    begun: Access
    mask: Mask | None
    group: Array  # groups that each lane had committed before


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

    def start(self, begun: Access) -> None:
        """A copy begins."""
        self.open.append(Copy(begun, begun.where.mask, self.commits))

    def commit(self, mask: Mask | None) -> None:
        """cp.async.commit_group."""
        self.commits = self.commits + (np.int32(1) if mask is None else mask.arr)

    def wait(self, allowed: int, everything: bool, mask: Mask | None) -> None:
        """cp.async.wait_group: all but the latest `allowed` groups of each thread are complete."""
        if everything:
            self.commit(mask)
            allowed = 0
        for copy in list(self.open):
            done = copy.group < self.commits - allowed
            self._finish(copy, done & array_of(mask), Stage.WAITED)

    def _finish(self, copy: Copy, done: Array, stage: Stage) -> None:
        """Those lanes of a copy that are among the given ones have their bytes."""
        state, begun = self.state, copy.begun
        lanes = state.narrowed(copy.mask, done)
        if lanes is not None and not lanes.n:
            return
        everyone = state.lanes if copy.mask is None else copy.mask.n
        if lanes is None or lanes.n == everyone:
            self.open.remove(copy)
            lanes = copy.mask
        else:
            copy.mask = state.narrowed(copy.mask, ~done)
        where = begun.where
        if lanes is not where.mask:
            where = Where(where.target, where.offset, lanes)
        state.publish(Access(begun.site, begun.space, where, begun.values, None, stage))

    def track(self, offset: Array, phase: Array, mask: Mask | None) -> None:
        """cp.async.mbarrier.arrive: the barrier waits for what these threads have begun to copy."""
        if self.open:
            self.tracked.append(Tracked(list(self.open), mask, offset, phase))

    def phase_over(self, offset: Array, mask: Mask | None, phase_at: PhaseAt) -> None:
        """Threads know that a phase is complete: the copies that it waited for are."""
        state = self.state
        known = array_of(mask).any(axis=(0, 1), keepdims=True)
        for t in list(self.tracked):
            done = (phase_at(state, t.offset) != t.phase) & known
            if offset.size == 1:
                done = done & (t.offset == offset)
            done = done & array_of(t.mask)
            if not done.any():
                continue
            t.copies = [c for c in t.copies if c in self.open]
            for copy in t.copies:
                self._finish(copy, done, Stage.ARRIVED)
            rest = state.narrowed(t.mask, ~done)
            if rest is not None and not rest.n:
                self.tracked.remove(t)
            else:
                t.mask = rest


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
    from_site, to_site = state.sites[source], state.sites[target]
    values = _read(state, from_site, from_address, limit, mask)
    if limit is not None:
        left = limit.astype(np.int64)
        values = tuple(v & _LEADING[np.clip(left - 4 * j, 0, 4)] for j, v in enumerate(values))
    if state.observers:
        begin = partial(_begin, state)
        perform(state, to_site, to_address, mask, values, stage=Stage.BEGUN, move=begin)
    else:
        perform(state, to_site, to_address, mask, values)


def _begin(state: State, begun: Access) -> None:
    """Move the bytes of a copy; from here on it is under way."""
    where = begun.where
    if where.mask is not None and not where.mask.n:
        return
    if state.copies is None:
        state.copies = Copies(state)
    state.copies.start(begun)
    state.launch.stored(begun.site)
    where.target.store(where.offset, begun.values or (), where.lanes)


def _read(
    state: State, site: Site, address: Array, limit: Array | None, mask: Mask | None
) -> tuple[Array, ...]:
    """The words that lanes read; those that read fewer bytes than the copy is wide make a request
    of their own. The bytes beyond are not read, so they may lie outside.
    """
    whole = mask if limit is None else state.narrowed(mask, limit >= site.width)
    got = perform(state, site, address, whole)
    values: tuple[Array, ...] = got if site.count > 1 else (got,)
    if limit is None:
        return values
    rest = state.narrowed(mask, (limit > 0) & (limit < site.width))
    if rest is None or rest.n:
        length = np.clip(limit.astype(np.int64), 0, site.width)
        got = perform(state, site, address, rest, length=length)
        ragged = got if site.count > 1 else (got,)
        lanes = array_of(rest)
        values = tuple(np.where(lanes, r, v) for r, v in zip(ragged, values, strict=True))
    return values


_LEADING = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], np.uint32)
"""Masks of the first bytes of a word, by their number."""


def commit_group(state: State, mask: Mask | None) -> None:
    """cp.async.commit_group."""
    if state.copies is not None:
        state.copies.commit(mask)


def wait_group(state: State, allowed: int, everything: bool, mask: Mask | None) -> None:
    """cp.async.wait_group and wait_all."""
    if state.copies is not None:
        state.copies.wait(allowed, everything, mask)
