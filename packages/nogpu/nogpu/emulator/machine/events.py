"""What a kernel does to memory and to the order of its threads, as observers learn it.

The machine publishes; it knows no observer. A batch of blocks tells its observers of each access to
memory before the bytes move, of atomics also when they have been served, and of whatever orders
threads: synchronisations of a warp, barriers, fences, mbarriers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.memory import Buffer, Words
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site

Array = np.ndarray[Any, np.dtype[Any]]


class Stage(Enum):
    """How far an access is. All but cp.async are done at once."""

    WHOLE = "whole"
    BEGUN = "begun"  # cp.async: from here on nobody may touch the place
    WAITED = "waited"  # its own thread has waited for it: now it is a write of that thread
    ARRIVED = "arrived"  # some threads have waited for the mbarrier that it completes


class Where:
    """The places of an access: equal addresses of one instruction share one such object.

    target: the array, or the words of shared or local memory. offset: int64, four axes, bytes from
    the target's start; of lanes outside the mask any number. mask: the sound lanes; None: all.
    owner: int64, four axes: the block (its column in the batch) whose shared memory each lane
    means, where some mean a peer's; None: each its own.
    """

    __slots__ = ("_granule", "mask", "offset", "owner", "target")

    def __init__(
        self, target: Buffer | Words, offset: Array, mask: Mask | None, owner: Array | None = None
    ) -> None:
        self.target, self.offset, self.mask, self.owner = target, offset, mask, owner
        self._granule: Array | None = None

    @property
    def lanes(self) -> Array | None:
        """The sound lanes, bool; None: all."""
        return None if self.mask is None else self.mask.arr

    def granule(self, shift: int) -> Array:
        """Offsets in granules of 2**shift bytes; always asked with one shift."""
        if self._granule is None:
            self._granule = self.offset >> shift if shift else self.offset
        return self._granule


@dataclass(slots=True, eq=False)
class Access:
    """One execution of one memory instruction by the lanes that may perform it."""

    site: Site
    space: str  # global, shared or local: what the addresses mean
    where: Where
    values: tuple[Array, ...] | None = None  # what a store is about to put there
    length: Array | None = None  # bytes that each lane touches; None: the instruction's width
    stage: Stage = Stage.WHOLE


@dataclass(slots=True, eq=False)
class Served:
    """Atomics that have been performed, lane by lane in the order in which they were served."""

    access: Access
    at: Array  # byte offsets of the lanes, flat
    thread: Array  # their threads
    column: Array  # their blocks
    wrote: Array  # those that stored something
    changed: Array  # those that put something else there, if the kernel has anyone who waits for it
    owner: Array | None = None  # of shared memory: whose it is, where that may be another block


@dataclass(slots=True, eq=False)
class Bulk:
    """Pieces of memory that an engine, TMA or the Tensor Cores, reads or writes for threads.

    One row a request. thread, column: who asked, and its block of the batch. owner: the block whose
    shared memory it is; for global memory that of who asked. offset: int64 (requests, pieces),
    bytes from the start of the target. width: bytes a piece. there: bool (requests, pieces), which
    pieces there are; None: all. barrier: where in the owner's shared memory the mbarrier lies that
    counts a copy's bytes, by request; None: none does. meant: of a read, bool (requests, pieces,
    width), the bytes that matter: what lies outside a tensor is read and thrown away; None: all.
    receiver: the blocks in whose shared memory that mbarrier lies: of a read those that it is
    copied to (None: it is not copied to a block), of a write None where they are the owners.
    """

    site: Site
    space: str  # global or shared
    target: Buffer | Words
    writes: bool
    thread: Array
    column: Array
    owner: Array
    offset: Array
    width: int
    there: Array | None = None
    stage: Stage = Stage.WHOLE
    by: str = "copy"  # copy: TMA; product: wgmma; tensor: tcgen05.mma
    barrier: Array | None = None
    receiver: Array | None = None
    meant: Array | None = None

    @property
    def present(self) -> Array:
        """`there`, written out where all are."""
        return np.ones(self.offset.shape, bool) if self.there is None else self.there


@dataclass(slots=True, eq=False)
class TensorAccess:
    """A rectangle of the tensor memory of one block that is read, written or freed.

    does: "reads", "writes" or "frees". by: "load" and "store", of a warp, "product", of a thread,
    or "free". thread, column: who, and its block of the batch. owner: the block whose tensor memory
    it is. shape: what products that add to the same sums have in common; "copy", "refresh" (a copy
    of 4 rows) and "shift" are done by the same unit.
    """

    does: str
    by: str
    line: int
    thread: int
    column: int
    owner: int
    lanes: slice
    columns: slice
    shape: str = ""


class Observer:
    """Watches a launch. Every hook does nothing until it is overridden."""

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""

    def access(self, access: Access) -> None:
        """Lanes are about to access memory."""

    def counts_only(self, site: Site, target: Buffer) -> bool:
        """Whether nothing matters of accesses that the only thread of a launch makes to an array by
        an instruction but their number. Who watches accesses says so, and has `repeated`.
        """
        return type(self).access is Observer.access

    def repeated(self, site: Site, target: Buffer, times: int) -> None:
        """So many accesses of that kind have been made."""

    def bulk(self, bulk: Bulk) -> None:
        """An engine is about to read or write memory for threads, or has been waited for."""

    def proxy(self, space: str, mask: Mask | None) -> None:
        """fence.proxy.async: engines may read what the threads of a mask know to be written in a
        space: shared, global, or generic for both.
        """

    def inits(self, mask: Mask | None) -> None:
        """fence.mbarrier_init: engines may use the mbarriers that these threads have set up."""

    def served(self, served: Served) -> None:
        """Atomics, published as accesses before, have been performed."""

    def unset(self, lanes: Array, does: str, line: int, first: int) -> None:
        """Lanes (bool, four axes) show what a register holds that they have not set.

        does: how, such as "stores". first: the line that uses the variable first.
        """

    def allocated(self, target: Buffer, first: int, nbytes: int) -> None:
        """malloc has given out bytes of the device heap: what was done to them before is over."""

    def warp(self, mask: Mask | None) -> None:
        """The lanes of warps synchronise."""

    def left(self, barrier: int, mask: Mask | None) -> None:
        """Threads are counted at a barrier of their block and go on: bar.arrive."""

    def named(self, groups: Sequence[Mask | None], barrier: int) -> None:
        """A barrier of only some warps of a block opens for these groups, which waited."""

    def interval(self, opened: Array | None, others: bool) -> None:
        """Barriers of whole blocks open. opened: of which blocks (1, 1, p, q); None: of all.

        others: whether threads of other blocks are still under way.
        """

    def fence(self, scope: int, mask: Mask | None) -> None:
        """A fence of the threads of a mask. scope: 0 within the block, 1 within the device."""

    def set_up(self, where: Where, line: int) -> None:
        """mbarriers are initialised."""

    def arrive(self, where: Where, relaxed: bool) -> None:
        """Threads arrive at mbarriers. relaxed: it is no release."""

    def complete(self, barriers: Array) -> None:
        """Phases of mbarriers are complete: bool (words, blocks), true at their first words."""

    def acquire(self, offset: Array, mask: Mask | None, relaxed: bool) -> None:
        """Threads learn that phases of mbarriers are complete. relaxed: it is no acquire."""

    def tensor(self, access: TensorAccess) -> None:
        """Tensor memory is about to be read, written or freed."""

    def tensor_waited(self, by: str, mask: Mask | None) -> None:
        """Warps know that their loads or stores of tensor memory are done."""

    def tensor_fenced(self, side: str, mask: Mask | None) -> None:
        """tcgen05.fence of the threads of a mask: "before" or "after" they meet others."""

    def tensor_committed(self, at: Array, owner: Array, thread: Array, column: Array) -> None:
        """What threads have issued will arrive at mbarriers: flat arrays, one element each."""

    def cluster_arrive(self, mask: Mask | None, relaxed: bool) -> None:
        """Threads arrive at the barrier of their cluster, and go on. relaxed: it is no release."""

    def cluster_complete(self, blocks: Array) -> None:
        """Barriers of clusters open: bool (blocks,)."""

    def cluster_acquire(self, mask: Mask | None) -> None:
        """Threads have waited for the barrier of their cluster, which has opened."""

    def finish(self) -> None:
        """The blocks of the batch have ended."""
