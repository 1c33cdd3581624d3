"""How the threads of a block fall into warps.

Arrays have six axes here: two that number the warps of a block, two that number the lanes of a
warp (so that a value shared by all lanes keeps size one), and the two of the blocks.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
"""Of any shape and type: which ones, the docstrings say."""

WARP = 32


def pick(data: Array, index: Array) -> Array:
    """The elements of a row of them at these places; outside of it the nearest one.

    Where places are numbered by 32 bits (in a browser) NumPy takes no others.
    """
    if index.dtype != np.intp:
        index = index.clip(0, len(data) - 1).astype(np.intp)
    return data.take(index, mode="clip")


def spread_to(a: Array, shape: tuple[int, ...]) -> Array:
    """`np.broadcast_to`, which takes microseconds even for what has this shape already."""
    return a if a.shape == shape else np.broadcast_to(a, shape)


class WarpShape:
    """How the threads of a block fall into warps: (rows, x, ...) to (warp, lane, ...)."""

    def __init__(self, rows: int, x: int) -> None:
        self.rows, self.x = rows, x
        self.threads = rows * x
        self.warps = -(-self.threads // WARP)
        self.group = WARP // x if WARP % x == 0 else 0
        self.known: dict[Hashable, Array] = {}  # what observers counted for such warps before
        if x % WARP == 0:
            self.mode = "split"
        elif self.group and rows % self.group == 0:
            self.mode = "group"
        else:
            self.mode = "pad"
            padded = np.minimum(np.arange(self.warps * WARP), self.threads - 1)
            self.index = padded.reshape(self.warps, WARP)
            self.exists = np.arange(self.warps * WARP).reshape(self.warps, WARP) < self.threads

    def lanes(self, a: Array, is_mask: bool = False) -> Array:
        """(rows, x, p, q), axes of size one kept, to (w1, w2, g, l, p, q).

        Lanes beyond the last thread repeat it, or are False in a mask.
        """
        r, x, p, q = a.shape
        if self.mode == "split":
            return a.reshape(r, x // WARP or 1, 1, WARP if x > 1 else 1, p, q)
        if self.mode == "group":
            g = self.group
            return a.reshape(r // g or 1, 1, g if r > 1 else 1, x, p, q)
        if r == 1 and x == 1 and not (is_mask and self.threads % WARP):
            return a.reshape(1, 1, 1, 1, p, q)
        full = spread_to(a, (self.rows, self.x, p, q)).reshape(self.threads, p, q)
        out = full[self.index]
        if is_mask:
            out &= self.exists[:, :, None, None]
        return out.reshape(self.warps, 1, 1, WARP, p, q)

    def spread(self, six: Array) -> Array:
        """The lane axes of `lanes` at full size: every lane of a warp stands for itself."""
        w1, w2, _, _, p, q = six.shape
        sizes = (self.group, self.x) if self.mode == "group" else (1, WARP)
        return spread_to(six, (w1, w2, *sizes, p, q))


def by_warp(a: Array) -> Array:
    """Join the two lane axes: (w1, w2, lanes, p, q)."""
    w1, w2, g, x, p, q = a.shape
    return a.reshape(w1, w2, g * x, p, q)


class ActiveLanes:
    """The lanes of a mask by warp, with what `distinct` asks of it again and again."""

    def __init__(self, shape: WarpShape, mask: Array) -> None:
        """mask: bool (rows, x, p, q)."""
        self.lanes = shape.lanes(mask, is_mask=True)
        self.full = by_warp(shape.spread(self.lanes))
        self.any = self.full.any(axis=2)  # (w1, w2, p, q)
        self.pairs = self.full[:, :, 1:] & self.full[:, :, :-1]
        starts = np.count_nonzero(self.full[:, :, 1:] & ~self.full[:, :, :-1], axis=2)
        self.contiguous = bool((starts + self.full[:, :, 0] <= 1).all())

    @cached_property
    def key(self) -> tuple[tuple[int, ...], bytes]:
        """What tells sets of lanes apart."""
        return self.full.shape, self.full.tobytes()
