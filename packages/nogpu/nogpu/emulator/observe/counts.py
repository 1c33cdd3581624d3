"""Sectors and wavefronts of warp requests: what the memory system has to serve.

A request is one warp's execution of a memory instruction with at least one active lane.

Sectors (global memory): the distinct 32-byte sectors that a request touches.

Wavefronts (shared memory): 32 banks of 4 bytes each serve one word a wavefront; lanes that want the
same word share it. A request of up to 4 bytes a lane takes as many wavefronts as the most wanted
bank has distinct words. Wider requests are served in phases, each counted by that rule: 8 bytes a
lane in two half-warps, 16 bytes in four quarter-warps. Loads are merged where neighbours agree: if
every active lane i reads the same address as lane i^1 (or, for all lanes, as lane i^2), or that
lane is inactive, then the two halves of an 8-byte load, and the two quarters of each half of a
16-byte load, are one phase. Source of the merging: NVIDIA developer forum, topic 77228 (CC 7.x).

Arrays have the six axes of `machine.lanes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.events import Access, Bulk, Observer, Stage, Where
from nogpu.emulator.machine.lanes import WARP, ActiveLanes, Array, WarpShape, by_warp
from nogpu.emulator.machine.memory import Buffer

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site

SECTOR = 32  # bytes
BANKS = 32
_NONE = np.iinfo(np.int64).max  # stands for an inactive lane when lanes are sorted


def distinct(shape: WarpShape, keys: Array, active: ActiveLanes | None) -> Array:
    """Distinct values among the active lanes of each request: int64 (w1, w2, p, q)."""
    if active is None:
        a = by_warp(keys)
        step = np.diff(a, axis=2)
        if step.min(initial=0) < 0:
            step = np.diff(np.sort(a, axis=2), axis=2)
        return np.count_nonzero(step, axis=2) + 1
    if keys[0, 0, :, :, 0, 0].size == 1:
        # Where keys vary between warps or blocks that the mask does not tell apart, all count.
        return np.broadcast_to(
            active.any.astype(np.int64),
            np.broadcast_shapes(active.any.shape, (*keys.shape[:2], *keys.shape[4:])),
        )
    a = by_warp(shape.spread(keys))
    if active.contiguous:
        step = np.diff(a, axis=2)
        if step.min() >= 0:  # in order: a new value shows beside its neighbour
            return np.count_nonzero((step != 0) & active.pairs, axis=2) + active.any
    a, full = np.broadcast_arrays(a, active.full)
    a = np.sort(np.where(full, a, _NONE), axis=2)
    return np.count_nonzero(np.diff(a, axis=2), axis=2) + (a[:, :, -1] != _NONE)


def _bank_depth(words: Array) -> Array:
    """words: (requests, lanes), _NONE where inactive.

    Most distinct words in one bank, by request.
    """
    n = len(words)
    ordered = np.sort(words, axis=1)
    fresh = ordered != _NONE
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    slot = (np.arange(n)[:, None] * BANKS + (ordered & (BANKS - 1)))[fresh]
    return (
        np.bincount(slot.astype(np.intp, copy=False), minlength=n * BANKS)
        .reshape(n, BANKS)
        .max(axis=1)
    )


def wavefronts(
    shape: WarpShape, byte_address: Array, width: int, active: ActiveLanes | None, load: bool
) -> Array:
    """Wavefronts of each request: int64 (w1, w2, p, q).

    byte_address: int64, from `WarpShape.lanes`. width: bytes a lane. active: None for all lanes.
    load: loads may merge phases, stores do not.
    """
    words = byte_address >> 2
    if words.size > _LARGE:
        return _wavefronts(shape, words, width, active, load)
    # The same lanes a number of words further on take as many: the banks are turned round.
    way = (words - words.flat[0]).tobytes()
    key = (width, load, words.shape, way, b"" if active is None else active.key)
    known = shape.known.get(key)
    if known is None:
        if len(shape.known) >= _MANY:
            shape.known.clear()
        known = shape.known[key] = _wavefronts(shape, words, width, active, load)
    return known


_LARGE = 32_768  # addresses of a request that are not looked up
_MANY = 256  # requests that are remembered


def _wavefronts(
    shape: WarpShape, words: Array, width: int, active: ActiveLanes | None, load: bool
) -> Array:
    """`wavefronts` by the lanes' first words."""
    wide = width > 4
    if wide or active is not None:
        words = shape.spread(words)
    words = by_warp(words)
    if active is not None:
        words, full = np.broadcast_arrays(words, active.full)
        words = np.where(full, words, _NONE)
    requests = (*words.shape[:2], *words.shape[3:])
    if active is None and not wide:
        reach = words.max(axis=2) - words.min(axis=2)
        if reach.max(initial=0) < BANKS:
            return np.ones(requests, np.int64)
    lanes = np.moveaxis(words, 2, -1).reshape(-1, words.shape[2])
    depth = _wide(lanes, width, load) if wide else _bank_depth(lanes)
    return depth.reshape(requests)


def _wide(lanes: Array, width: int, load: bool) -> Array:
    """Wavefronts of 8- and 16-byte requests; lanes: (requests, 32) first words."""
    n = len(lanes)
    per_lane = width // 4
    words = np.where(lanes[:, :, None] == _NONE, _NONE, lanes[:, :, None] + np.arange(per_lane))
    phases = per_lane  # two half-warps, or four quarter-warps
    depth = _bank_depth(words.reshape(n * phases, -1)).reshape(n, phases // 2, 2).sum(axis=2)
    if load:
        groups = lanes.reshape(n, phases // 2, -1)  # the warp, or its halves
        index = np.arange(groups.shape[2])
        agree = np.zeros(groups.shape[:2], bool)
        for distance in (1, 2):
            other = groups[:, :, index ^ distance]
            same = (groups == other) | (groups == _NONE) | (other == _NONE)
            agree |= same.all(axis=2)
        merged = _bank_depth(words.reshape(n * phases // 2, -1)).reshape(n, phases // 2)
        depth = np.where(agree, merged, depth)
    return depth.sum(axis=1)


def wide_load(words: Sequence[int]) -> int:
    """Wavefronts of one 16-byte load by a warp; words: each lane's first, below 0 if inactive."""
    lanes = np.asarray(words, np.int64).reshape(1, WARP)
    return int(_wide(np.where(lanes < 0, _NONE, lanes), 16, True)[0])


# -- of a launch ---------------------------------------------------------------------------------

COUNTED = (Stage.WHOLE, Stage.BEGUN)
"""When an access is added up: a copy when it begins."""


def bank_requests(
    state: State, offset: Array, mask: Mask | None, width: int, load: bool
) -> tuple[int, int]:
    """(requests, wavefronts) of an access to shared memory, `width` bytes a lane."""
    shape, active = state.warp_shape, None if mask is None else mask.active
    waves = wavefronts(shape, shape.lanes(offset), width, active, load)
    requests = state.total_warps if mask is None else mask.warps
    return requests, int(waves.sum()) * (state.total_warps // waves.size)


class BankWatch(Observer):
    """Knows what the last shared access of each instruction took: many go the same way again."""

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""
        self.state = state
        self.before: dict[int, tuple[Where, tuple[int, ...]]] = {}

    def taken(self, access: Access) -> tuple[int, ...]:
        """What `_take` says of an access."""
        known = self.before.get(access.site.index)
        if known is None or known[0] is not access.where:
            known = self.before[access.site.index] = (access.where, self._take(access))
        return known[1]

    def _take(self, access: Access) -> tuple[int, ...]:
        raise NotImplementedError


@dataclass
class SiteStats:
    """Running sums of one memory instruction."""

    requests: int = 0
    sectors: int = 0
    wavefronts: int = 0
    lanes: int = 0
    arrays: list[str] = field(default_factory=list)


@dataclass
class BulkStats:
    """Running sums of what engines did for one instruction in one space."""

    width: int = 0  # bytes of one: of a box, also where part of it lies outside the tensor
    requests: int = 0
    sectors: int = 0
    bytes: int = 0
    arrays: list[str] = field(default_factory=list)


class Tally(BankWatch):
    """Counts what every memory instruction asks of global and of shared memory."""

    def __init__(self, sites: int) -> None:
        """sites: memory instructions of the program."""
        self.stats = [SiteStats() for _ in range(sites)]
        self.engines: dict[tuple[int, str, str], BulkStats] = {}  # by site, space, load or store

    def access(self, access: Access) -> None:
        """Add up an access."""
        if access.stage not in COUNTED:
            return
        if access.space == "global":
            self._global(access)
        elif access.space == "shared":
            stats = self.stats[access.site.index]
            requests, waves, lanes = self.taken(access)
            stats.requests += requests
            stats.wavefronts += waves
            stats.lanes += lanes

    def bulk(self, bulk: Bulk) -> None:
        """Add up what engines do: requests, bytes, and sectors of global memory."""
        if bulk.stage is Stage.WAITED or not len(bulk.thread):
            return
        key = (bulk.site.index, bulk.space, bulk.site.op)
        stats = self.engines.setdefault(key, BulkStats(bulk.offset.shape[1] * bulk.width))
        # The four warps of a warpgroup ask for one product together.
        stats.requests += len(bulk.thread) // 4 if bulk.by == "product" else len(bulk.thread)
        there = bulk.present
        pieces = int(np.count_nonzero(there))
        stats.bytes += pieces * bulk.width // (4 if bulk.by == "product" else 1)
        name = ""
        if isinstance(bulk.target, Buffer):
            name = bulk.target.name
            sectors = np.where(there, bulk.offset >> 5, -1)
            ordered = np.sort(sectors, axis=1)
            fresh = np.diff(ordered, axis=1, prepend=-1) != 0
            stats.sectors += int(np.count_nonzero(fresh & (ordered >= 0)))
        elif (symbol := self.state.shared_symbol(int(bulk.offset[0, 0]))) is not None:
            name = symbol.name
        if name and name not in stats.arrays:
            stats.arrays.append(name)

    def _global(self, access: Access) -> None:
        state, where = self.state, access.where
        stats, mask = self.stats[access.site.index], where.mask
        requests = state.total_warps if mask is None else mask.warps
        stats.requests += requests
        stats.lanes += state.lanes if mask is None else mask.n
        six = state.warp_shape.lanes(where.offset)
        sectors = distinct(state.warp_shape, six >> 5, None if mask is None else mask.active)
        stats.sectors += int(sectors.sum()) * (state.total_warps // sectors.size)
        assert isinstance(where.target, Buffer)
        if where.target.name not in stats.arrays:
            stats.arrays.append(where.target.name)

    def counts_only(self, site: Site, target: Buffer) -> bool:
        """One thread's addresses need no sorting."""
        return True

    def repeated(self, site: Site, target: Buffer, times: int) -> None:
        """Add up accesses of one lane."""
        stats = self.stats[site.index]
        stats.requests += times
        stats.lanes += times
        stats.sectors += times
        if target.name not in stats.arrays:
            stats.arrays.append(target.name)

    def _take(self, access: Access) -> tuple[int, int, int]:
        """(requests, wavefronts, lanes) of a shared access; its variable is noted."""
        state, site, where = self.state, access.site, access.where
        symbol, arrays = state.shared_symbol(first_offset(where)), self.stats[site.index].arrays
        if symbol is not None and symbol.name not in arrays:
            arrays.append(symbol.name)
        lanes = state.lanes if where.mask is None else where.mask.n
        load = site.op == "load"
        return *bank_requests(state, where.offset, where.mask, site.width, load), lanes


class MachineTally(BankWatch):
    """Counts requests and wavefronts of shared accesses as the machine code makes them, which joins
    neighbouring ones of the PTX.

    spans: of a memory instruction of the PTX, the access of the machine code that begins with it:
    its bytes a lane (0: it is part of one that begins elsewhere), and how many of them lie before.
    """

    def __init__(self, spans: Mapping[int, tuple[int, int]]) -> None:
        self.spans = spans
        self.totals: dict[int, tuple[int, int]] = {}
        """(requests, wavefronts) by memory instruction."""

    def access(self, access: Access) -> None:
        """Add up an access to shared memory."""
        if access.space != "shared" or access.stage not in COUNTED:
            return
        before, more = self.totals.get(access.site.index, (0, 0)), self.taken(access)
        self.totals[access.site.index] = before[0] + more[0], before[1] + more[1]

    def counts_only(self, site: Site, target: Buffer) -> bool:
        """Of arrays nothing is counted here."""
        return True

    def _take(self, access: Access) -> tuple[int, int]:
        """Requests and wavefronts of the accesses of the machine code that begin with this one.

        An access that is wider than the PTX's begins where its address is a multiple of its width:
        in an unrolled loop the others are part of one that began before.
        """
        state, site, where = self.state, access.site, access.where
        width, before = self.spans.get(site.index, (0, 0))
        if not width:
            return 0, 0
        start = where.offset - before if before else where.offset
        begins = start & (width - 1) == 0
        whole = width <= site.width or begins.all()
        mask = where.mask if whole else state.narrowed(where.mask, begins)
        if mask is not None and mask.n == 0:
            return 0, 0
        return bank_requests(state, start, mask, width, site.op == "load")


def first_offset(where: Where) -> int:
    """Where the first lane of an access goes."""
    if where.mask is None:
        return int(where.offset.ravel()[0])
    a, m = np.broadcast_arrays(where.offset, where.mask.arr)
    return int(a.ravel()[int(np.argmax(m.ravel()))])
