"""Sets of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.lanes import ActiveLanes, Array, spread_to

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State


class Mask:
    """A set of threads: a bool array of four axes, its size, and how many warps it touches."""

    __slots__ = ("_active", "_reduced", "_warps", "arr", "n", "state", "whole")

    def __init__(self, state: State, arr: Array, n: int) -> None:
        self.state = state
        self.arr = arr
        self.n = n
        self.whole = False  # known to hold all lanes of each warp that it touches
        self._warps: int | None = None
        self._active: ActiveLanes | None = None
        self._reduced: dict[tuple[int, ...], Array] = {}

    @property
    def warps(self) -> int:
        """Warps with at least one thread in the set."""
        if self._warps is None:
            s = self.state
            lanes = s.warp_shape.lanes(self.arr, is_mask=True).any(axis=(2, 3))
            self._warps = int(np.count_nonzero(lanes)) * (s.total_warps // lanes.size)
        return self._warps

    @property
    def active(self) -> ActiveLanes:
        """The lanes of each warp, for counting."""
        if self._active is None:
            self._active = ActiveLanes(self.state.warp_shape, self.arr)
        return self._active

    def reduced(self, shape: tuple[int, ...]) -> Array:
        """Whether any thread is in the set, along the axes where an array of `shape` varies."""
        if shape not in self._reduced:
            axes = tuple(i for i in range(4) if shape[i] == 1 and self.arr.shape[i] > 1)
            reduced = np.any(self.arr, axis=axes, keepdims=True) if axes else self.arr
            self._reduced[shape] = np.asarray(reduced)
        return self._reduced[shape]


def array_of(mask: Mask | None) -> Array:
    """The bool array of a mask; one true element if it is None, which stands for every thread."""
    return np.ones((1, 1, 1, 1), bool) if mask is None else mask.arr


def flat_lanes(state: State, mask: Mask | None, *values: Array) -> list[Array]:
    """Values of four axes at the lanes of a mask (None: of all threads): flat, in one order."""
    if mask is None:
        return [spread_to(v, state.shape).ravel() for v in values]
    active = spread_to(mask.arr, state.shape)
    return [spread_to(v, state.shape)[active] for v in values]
