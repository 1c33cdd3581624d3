"""Who has a slot of shared memory when: the copy engine that fills it, or those who read it.

A slot is what copies fill whose bytes one mbarrier counts. Its turns are told in the order in which
the emulator comes to them, which is one that a GPU may take; they say nothing about time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.bulk import PIECE
from nogpu.emulator.machine.events import Access, Bulk, Observer, Stage
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import array_of

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State


BEGUN, AWAITED, READ, DONE = "copy begun", "copy awaited", "read begun", "read ended"


@dataclass(frozen=True)
class EngineStep:
    """A slot of shared memory changes hands.

    order: counts these events, from 0. at: the slot's first byte in shared memory. fill: how many
    fills of slots began before this one. what: "copy begun"; "copy awaited", when a thread first
    knows that it has landed; "read begun" and "read ended", by loads or by products, which end when
    they have been waited for. line: of the source, of the copy or of who reads.
    """

    order: int
    at: int
    fill: int
    what: str
    line: int


@dataclass
class _Fill:
    """A slot from one copy to the next: how many fills began before, and when what happened first
    or last.
    """

    number: int
    at: int
    steps: dict[str, tuple[int, int]]  # (tick, line)


class SlotWatch(Observer):
    """Keeps the turns of the slots of the first block."""

    def __init__(self) -> None:
        self.fills: list[_Fill] = []

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""
        self.state = state
        self.first = int(state.linear_block.ravel()[0]) == 0
        self.tick = 0
        self.now: dict[int, _Fill] = {}  # by mbarrier
        # The mbarrier that counted the last copy to each piece of the first block's shared memory.
        self.counted = np.full(-(-state.launch.shared_bytes // PIECE), -1, np.int64)

    def bulk(self, bulk: Bulk) -> None:
        """The copy engine fills, or products read or have read."""
        mine = bulk.owner == 0
        if not self.first or bulk.space != "shared" or not mine.any():
            return
        self.tick += 1
        offset = bulk.offset[mine]
        if bulk.writes and bulk.barrier is not None:
            for barrier in (int(b) for b in np.unique(bulk.barrier[mine])):
                places = offset[bulk.barrier[mine] == barrier]
                self.counted[places.ravel() // PIECE] = barrier
                self._fill(barrier, int(places.min()), int(bulk.site.line))
        elif not bulk.writes:
            over = bulk.stage is Stage.WAITED
            self._read(offset, int(bulk.site.line), begins=not over, ends=over)

    def _fill(self, barrier: int, at: int, line: int) -> None:
        """A copy into a slot: the first after somebody waited for the last ones begins a fill."""
        fill = self.now.get(barrier)
        if fill is None or AWAITED in fill.steps:
            fill = _Fill(len(self.fills), at, {BEGUN: (self.tick, line)})
            self.now[barrier] = fill
            self.fills.append(fill)
        fill.at = min(fill.at, at)

    def _read(self, offset: Array, line: int, begins: bool, ends: bool) -> None:
        """Slots are read. begins, ends: whether that is so from now on, and up to now."""
        for barrier in (int(b) for b in np.unique(self.counted[offset.ravel() // PIECE])):
            if barrier >= 0:
                steps = self.now[barrier].steps
                if begins:
                    steps.setdefault(READ, (self.tick, line))
                    steps.pop(DONE, None)
                if ends:
                    steps[DONE] = (self.tick, line)

    def access(self, access: Access) -> None:
        """Threads of the first block load from a slot."""
        site, s, where = access.site, self.state, access.where
        if not self.first or not self.now or access.space != "shared" or site.op != "load":
            return
        mine = self._mine(where.mask, where.owner)
        if mine.any():
            self.tick += 1
            self._read(np.broadcast_to(where.offset, s.shape)[mine], int(site.line), True, True)

    def _mine(self, mask: Mask | None, owner: Array | None = None) -> Array:
        """The threads of a mask that mean the first block. owner: as of a `Where`."""
        s = self.state
        mine = np.broadcast_to((s.block_index if owner is None else owner) == 0, s.shape)
        return np.asarray(mine & np.broadcast_to(array_of(mask), s.shape))

    def acquire(self, offset: Array, mask: Mask | None, relaxed: bool) -> None:
        """Threads of the first block know that copies have landed."""
        if not self.first or not self.now:
            return
        mine = self._mine(mask)
        self.tick += 1
        for barrier in np.unique(np.broadcast_to(offset, self.state.shape)[mine]):
            if (fill := self.now.get(int(barrier))) is not None:
                fill.steps.setdefault(AWAITED, (self.tick, fill.steps[BEGUN][1]))

    def steps(self) -> tuple[EngineStep, ...]:
        """What was kept, in order."""
        steps = [
            EngineStep(tick, fill.at, fill.number, what, line)
            for fill in self.fills
            for what, (tick, line) in fill.steps.items()
        ]
        order = {tick: i for i, tick in enumerate(sorted({step.order for step in steps}))}
        ordered = sorted(steps, key=lambda step: step.order)
        return tuple(replace(step, order=order[step.order]) for step in ordered)
