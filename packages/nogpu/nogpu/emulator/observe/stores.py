"""Who wrote each element of an array last: kept only where a result is asked after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine.events import Access, Bulk, Observer, Served
from nogpu.emulator.machine.masks import flat_lanes
from nogpu.emulator.machine.memory import Buffer

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State

Array = np.ndarray[Any, np.dtype[Any]]


class Writers:
    """The last writer of each element of one array."""

    def __init__(self, buffer: Buffer) -> None:
        size = buffer.nbytes // buffer.itemsize
        self.thread = np.full(size, -1, np.int64)  # of the launch; -1: nobody
        self.site = np.full(size, -1, np.int32)  # number of the memory instruction

    def add(self, element: Array, span: int, thread: Array, site: int) -> None:
        """`span` elements from each place in `element` are written, in this order."""
        for j in range(span):
            self.thread[element + j] = thread
            self.site[element + j] = site


class LastStores(Observer):
    """Logs the stores and atomics to some arrays."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.writers = {id(b): Writers(b) for b in buffers}

    def of(self, buffer: Buffer) -> Writers:
        """The last writers of an array that is watched."""
        return self.writers[id(buffer)]

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""
        self.state = state

    def access(self, access: Access) -> None:
        """Enter a store."""
        where, target = access.where, access.where.target
        writers = self.writers.get(id(target))
        if writers is None or access.site.op != "store" or not isinstance(target, Buffer):
            return
        element = where.offset // target.itemsize
        element, thread = flat_lanes(self.state, where.mask, element, self.state.global_thread)
        span = max(access.site.width // target.itemsize, 1)
        writers.add(element, span, thread, access.site.index)

    def bulk(self, bulk: Bulk) -> None:
        """Enter what a copy engine stores for threads."""
        target = bulk.target
        writers = self.writers.get(id(target))
        if writers is None or not bulk.writes or not isinstance(target, Buffer):
            return
        s = self.state
        gid = s.linear_block.reshape(-1)[bulk.column] * s.threads + bulk.thread
        there = np.ones(bulk.offset.shape, bool) if bulk.there is None else bulk.there
        element = bulk.offset[there] // target.itemsize
        thread = np.broadcast_to(gid[:, None], there.shape)[there]
        writers.add(element, max(bulk.width // target.itemsize, 1), thread, bulk.site.index)

    def served(self, served: Served) -> None:
        """Enter the atomics that stored something."""
        access, target = served.access, served.access.where.target
        writers = self.writers.get(id(target))
        if writers is None or not isinstance(target, Buffer):
            return
        s, wrote = self.state, served.wrote
        thread = s.linear_block.reshape(-1)[served.column] * s.threads + served.thread
        span = max(access.site.width // target.itemsize, 1)
        element = served.at[wrote] // target.itemsize
        writers.add(element, span, thread[wrote], access.site.index)
