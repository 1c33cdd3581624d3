"""Whom a finding names: the first of the lanes that are at fault, and how many they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine.lanes import Array

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State


def below_zero(place: int) -> int:
    """A byte address that stands for a negative one, because an unsigned index went below zero.

    Such an index of elements of 2^k bytes gives an address below 2^k times 2^32, and not by half of
    it.
    """
    if place < 1 << 31:
        return place
    size = 1
    while place >= size << 32:
        size *= 2
    return place - (size << 32)


@dataclass(frozen=True)
class Offender:
    """One thread of a batch, which stands for `count` lanes. column: its block's place there.

    As text: `thread (x, y, z) of block (x, y, z)`.
    """

    state: State
    thread: int
    column: int
    count: int = 1

    def __str__(self) -> str:
        return f"thread {self.state.thread_text(self.thread)} of block {self.block}"

    @property
    def block(self) -> tuple[int, int, int]:
        """blockIdx."""
        return self.state.block_tuple(self.column)

    def value(self, values: Array) -> int:
        """What this thread holds of an integer value of four axes, or of a block's threads."""
        return int(self.state.by_thread(values)[self.thread, self.column])


def first_offender(state: State, lanes: Array) -> Offender:
    """The lowest block's first of some lanes: a bool array of four axes, true somewhere."""
    full = state.by_thread(lanes)
    column = int(np.argmax(full.any(axis=0)))
    thread = int(np.argmax(full[:, column]))
    return Offender(state, thread, column, int(np.count_nonzero(full)))


def offender_among(state: State, thread: Array, column: Array, bad: Array) -> tuple[int, Offender]:
    """The first bad one of some flat requests: its place, and its thread for all bad ones."""
    i = int(np.argmax(bad))
    return i, Offender(state, int(thread[i]), int(column[i]), int(np.count_nonzero(bad)))


ONE_WARP, TWO_WARPS, UNDER_WAY = range(3)
"""Weights of races: what helps one warp would not help two, and no barrier helps where something is
under way that nobody has waited for."""


def accuse(
    kind: str,
    line: int,
    lane: Offender,
    message: str,
    **details: Any,
) -> None:
    """Enter a fault of the lanes that `lane` stands for; arguments as for `State.find`."""
    lane.state.find(
        kind, line, message, lane.count, threads=(lane.thread,), block=lane.block, **details
    )
