"""Who wrote each element of an array last: kept only where a result is asked after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.events import Access, Bulk, Observer, Served, Stage
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import flat_lanes
from nogpu.emulator.machine.memory import Buffer
from nogpu.emulator.observe.log import NOBODY

if TYPE_CHECKING:
    from nogpu.emulator.machine.memory import Words
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site


class Writers:
    """The last writer of each element of one array."""

    def __init__(self, buffer: Buffer) -> None:
        size = buffer.nbytes // buffer.itemsize
        self.thread = np.full(size, NOBODY, np.int64)  # of the launch
        self.site = np.full(size, NOBODY, np.int32)  # number of the memory instruction


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
        state, where = self.state, access.where
        if access.site.op == "store" and id(where.target) in self.writers:
            at, thread = flat_lanes(state, where.mask, where.offset, state.global_thread)
            self._enter(access.site, where.target, at, thread)

    def bulk(self, bulk: Bulk) -> None:
        """Enter what a copy engine stores for threads."""
        if bulk.writes and bulk.stage is Stage.WHOLE and id(bulk.target) in self.writers:
            there = bulk.present
            gid = np.broadcast_to(self._global(bulk)[:, None], there.shape)
            self._enter(bulk.site, bulk.target, bulk.offset[there], gid[there], bulk.width)

    def served(self, served: Served) -> None:
        """Enter the atomics that stored something."""
        access, wrote = served.access, served.wrote
        if id(access.where.target) in self.writers:
            gid = self._global(served)
            self._enter(access.site, access.where.target, served.at[wrote], gid[wrote])

    def _global(self, who: Bulk | Served) -> Array:
        """Threads of the launch."""
        return self.state.linear_block.ravel()[who.column] * self.state.threads + who.thread

    def _enter(
        self, site: Site, target: Buffer | Words, offset: Array, thread: Array, width: int = 0
    ) -> None:
        """Threads of the launch write bytes, in this order. width: each; 0: the site's."""
        assert isinstance(target, Buffer)
        writers, element = self.of(target), offset // target.itemsize
        for j in range(max((width or site.width) // target.itemsize, 1)):
            writers.thread[element + j] = thread
            writers.site[element + j] = site.index
