"""The log of shared memory: what was done between two barriers of a block, in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.lanes import Array, spread_to

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site


NOBODY = -1
"""The thread of what was never done; the unit, too."""
READ, WRITE, ATOMIC, WARP_SYNC, FLAG = range(5)
"""Kinds of accesses. FLAG: a volatile write, a race with all but those who wait for it (ATOMIC)."""
CONFLICTS = (
    (WRITE, WRITE), (WRITE, READ), (WRITE, ATOMIC), (ATOMIC, READ),
    (FLAG, FLAG), (FLAG, WRITE), (FLAG, READ),
)  # fmt: skip


def kind_of(site: Site) -> int:
    """What an access is to the judges."""
    if site.op == "load":
        return ATOMIC if site.strong and (site.waits or not site.volatile) else READ
    if site.op == "store":
        return WRITE if not site.strong else FLAG if site.volatile else ATOMIC
    return ATOMIC


@dataclass
class Entry:
    """One execution of one shared-memory instruction by all lanes of a mask."""

    site: int
    kind: int
    granule: Array | None  # first granule of each lane
    count: int  # granules a lane
    mask: Mask | None
    values: tuple[Array, ...] | None  # what a write stored, to tell harmless duplicates
    view: tuple[Array, Array] | None = None  # stamps and knowledge of the warps, if a clock is kept
    copied: bool = False  # by a cp.async
    bounds: tuple[Array, Array] | None = None  # of many accesses: first and last thread by place
    synced: bool = False  # there were warp synchronisations among these many

    @property
    def nbytes(self) -> int:
        """Memory that this entry keeps alive, about."""
        arrays = (self.granule, *(self.values or ()))
        return 200 + sum(a.nbytes for a in arrays if a is not None)


class ByGranule:
    """A value for each granule of shared memory, in one column as long as all blocks are alike."""

    def __init__(self, state: State, kind: type) -> None:
        self.state = state
        granule = state.launch.program.granule
        self.values: Array = np.zeros((-(-state.launch.shared_bytes // granule), 1), kind)

    def flat(self) -> Array:
        """The values, by granule and block."""
        return self.values.ravel()

    def part(self) -> None:
        """Give each block a column of its own."""
        if self.values.shape[1] < self.state.blocks:
            self.values = np.repeat(self.values, self.state.blocks, axis=1)

    def _at(self, granule: Array, owner: Array | None) -> Array:
        columns = self.values.shape[1]
        if columns == 1:
            return granule
        return granule * columns + (self.state.block_index if owner is None else owner)

    def of(self, granule: Array, span: int, join: np.ufunc, owner: Array | None = None) -> Array:
        """What lanes find, of `span` granules each joined. owner: as of a `Where`."""
        flat, at = self.flat(), self._at(granule, owner)
        found = flat[at]
        for j in range(1, span):
            found = join(found, flat[at + j * self.values.shape[1]])
        return found

    def lanes_at(
        self, granule: Array, span: int, mask: Mask | None, owner: Array | None = None
    ) -> Array:
        """Places in `flat` that active lanes change; where blocks differ in them they part, and
        only then is `flat` what these places are of.
        """
        if owner is not None or varies(granule, mask):
            self.part()
        at = self._at(granule, owner)
        if mask is not None:
            shape = np.broadcast_shapes(at.shape, mask.arr.shape)
            at = spread_to(at, shape)[spread_to(mask.arr, shape)]
        at = at.ravel()
        return np.concatenate([at + j * self.values.shape[1] for j in range(span)])


class Log:
    """The accesses of an interval."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.written = False  # there is a store or an atomic among them
        self.nbytes = 0  # bytes that they keep alive

    def add(self, entry: Entry) -> None:
        """Append an access, or a synchronisation of warps."""
        self.entries.append(entry)
        self.nbytes += entry.nbytes

    def of(self, state: State, blocks: Array) -> list[Entry]:
        """Copies of the entries of some blocks (bool, four axes)."""
        out = []
        for a in self.entries:
            mask = state.narrowed(a.mask, blocks)
            if a.bounds is None and (mask is None or mask.n):
                out.append(replace(a, mask=mask))
        return out


def varies(granule: Array | None, mask: Mask | None) -> bool:
    """Whether blocks differ in the places of an access."""
    arrays = granule, None if mask is None else mask.arr
    return any(a is not None and a.shape[2] * a.shape[3] > 1 for a in arrays)


def lanes_of(state: State, entry: Entry, columns: int) -> tuple[Array, Array]:
    """Flat (granule, block) places and threads of the active lanes, in thread order."""
    if entry.bounds is not None:
        low, high = entry.bounds
        at = np.flatnonzero(high >= 0)
        return np.concatenate([at, at]), np.concatenate([low[at], high[at]]).astype(np.int64)
    assert entry.granule is not None
    at = entry.granule * columns
    if columns > 1:
        at = at + state.block_index
    shape = (state.rows, state.x, *((state.p, state.q) if columns > 1 else (1, 1)))
    at = spread_to(at, shape)
    tid = spread_to(state.thread, shape)
    if entry.mask is None:
        return at.ravel(), tid.ravel()
    active = spread_to(entry.mask.arr, shape)
    return at[active], tid[active]
