"""malloc, new, free and delete in device code: blocks of one bounded heap.

The heap lives as long as the launch, which a GPU's outlives: what a later one reads of it is a
finding. What is not freed is none.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine.attribution import accuse, first_offender
from nogpu.emulator.machine.masks import Mask, array_of
from nogpu.emulator.machine.memory import Buffer
from nogpu.emulator.ptx.layout import HEAP_SLOT, HEAPS, SLOT_BITS

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State


_HEAPS = count()


class Arena:
    """The device heap, of the size that CUDA gives it: what malloc and new return lies in it."""

    SIZE = 8 << 20
    ALIGN = 16

    def __init__(self, granule: int) -> None:
        # Another slot in each launch: what an earlier one kept is then known to be gone.
        slot = HEAP_SLOT + next(_HEAPS) % HEAPS
        base = (slot << SLOT_BITS) + (1 << (SLOT_BITS - 1))
        self.buffer = Buffer("heap", base, np.zeros(self.SIZE, np.uint8), 1)
        self.buffer.granule = granule
        self.owned = self.buffer.owned = np.zeros(self.SIZE, bool)
        self.sizes: dict[int, int] = {}  # of the blocks given out, by offset
        self.spare: dict[int, list[int]] = {}  # offsets of freed blocks, by the room they take
        self.top = 0

    def allocate(self, size: int) -> int:
        """The address of a new block; 0 where the heap is full."""
        if size < 0:  # as a size_t far beyond the heap
            return 0
        room = self.room(size)
        if self.spare.get(room):
            at = self.spare[room].pop()
        elif self.top + room <= self.SIZE:
            at, self.top = self.top, self.top + room
        else:
            return 0
        self.sizes[at] = size
        self.owned[at : at + size] = True
        return self.buffer.base + at

    def release(self, address: int) -> bool:
        """Take a block back; false where there is none at this address."""
        at = address - self.buffer.base
        size = self.sizes.pop(at, None)
        if size is None:
            return False
        self.owned[at : at + size] = False
        self.spare.setdefault(self.room(size), []).append(at)
        return True

    def room(self, size: int) -> int:
        """Bytes that a block takes, with a gap behind it."""
        return -(-size // self.ALIGN) * self.ALIGN + self.ALIGN

    def beyond(self, at: int) -> str:
        """Where an offset lies that no block holds."""
        before = max((b for b in self.sizes if b <= at), default=None)
        if before is None or at - before > self.sizes[before] + 4 * self.ALIGN:
            return "in no block"
        past = at - before - self.sizes[before] + 1
        return f"{past} byte(s) past the end of a block of {self.sizes[before]} bytes"


def _arena(state: State) -> Arena:
    launch = state.launch
    if launch.heap.arena is None:
        arena = launch.heap.arena = Arena(launch.program.granule)
        launch.heap.slots[arena.buffer.base >> SLOT_BITS] = arena.buffer
    return launch.heap.arena


def device_malloc(
    state: State,
    frame: dict[str, Any],
    actual: tuple[str, ...],
    returns: tuple[str, ...],
    mask: Mask | None,
) -> None:
    """malloc and new of each thread: an address in the device heap, or 0 if it is full."""
    size = np.broadcast_to(frame[actual[0]][0].view("i8"), state.shape)
    arr = np.broadcast_to(array_of(mask), state.shape)
    result = np.zeros(state.shape, "i8")
    if arr.any():
        arena = _arena(state)
        result[arr] = [arena.allocate(int(n)) for n in size[arr]]
        for address in result[arr & (result != 0)]:
            first = int(address) - arena.buffer.base
            for o in state.observers:
                o.allocated(arena.buffer, first, arena.room(arena.sizes[first]))
    frame[returns[0]] = {0: result}


def device_free(
    state: State, frame: dict[str, Any], actual: tuple[str, ...], line: int, mask: Mask | None
) -> None:
    """free and delete: a finding for what malloc did not return, or what was freed before."""
    address = np.broadcast_to(frame[actual[0]][0].view("i8"), state.shape)
    arr = np.broadcast_to(array_of(mask), state.shape) & (address != 0)
    if not arr.any():
        return
    arena = _arena(state)
    refused = np.zeros(state.shape, bool)
    refused[arr] = [not arena.release(int(a)) for a in address[arr]]
    if refused.any():
        lane = first_offender(state, refused)
        accuse(
            "out-of-bounds",
            line,
            lane,
            f"{lane} frees an address that malloc or new has not returned, or that was freed "
            "before. Free each block once",
            array="heap",
        )
