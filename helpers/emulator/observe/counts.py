"""Sectors and wavefronts of warp requests: what the memory system has to serve.

A request is one warp's execution of a memory instruction with at least one active lane.

Sectors (global memory): the distinct 32-byte sectors that a request touches.

Wavefronts (shared memory): 32 banks of 4 bytes each serve one word a wavefront; lanes that want
the same word share it. A request of up to 4 bytes a lane takes as many wavefronts as the most
wanted bank has distinct words. Wider requests are served in phases, each counted by that rule:
8 bytes a lane in two half-warps, 16 bytes in four quarter-warps. Loads are merged where neighbours
agree: if every active lane i reads the same address as lane i^1 (or, for all lanes, as lane i^2),
or that lane is inactive, then the two halves of an 8-byte load, and the two quarters of each half
of a 16-byte load, are one phase. Source of the merging: NVIDIA developer forum, topic 77228 (CC 7.x).

Arrays have six axes here: two that number the warps of a block, two that number the lanes of a
warp (so that a value shared by all lanes keeps size one), and the two of the blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

WARP = 32
SECTOR = 32  # bytes
BANKS = 32
_NONE = np.int64(1) << np.int64(62)  # stands for an inactive lane when lanes are sorted


class WarpShape:
    """How the threads of a block fall into warps: reshapes (rows, x, ...) into (warp, lane, ...)."""

    def __init__(self, rows: int, x: int) -> None:
        self.rows, self.x = rows, x
        self.threads = rows * x
        self.warps = -(-self.threads // WARP)
        self.group = WARP // x if WARP % x == 0 else 0
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
        full = np.broadcast_to(a, (self.rows, self.x, p, q)).reshape(self.threads, p, q)
        out = full[self.index]
        if is_mask:
            out &= self.exists[:, :, None, None]
        return out.reshape(self.warps, 1, 1, WARP, p, q)

    def spread(self, six: Array) -> Array:
        """The lane axes of `lanes` at full size: every lane of a warp stands for itself."""
        w1, w2, _, _, p, q = six.shape
        sizes = (self.group, self.x) if self.mode == "group" else (1, WARP)
        return np.broadcast_to(six, (w1, w2, *sizes, p, q))

    def full(self, a: Array, blocks: tuple[int, int]) -> Array:
        """(rows, x, p, q) to (warps, 32, p * q); lanes beyond the last thread repeat it."""
        p, q = blocks
        whole = np.broadcast_to(a, (self.rows, self.x, p, q)).reshape(self.threads, p * q)
        if self.threads % WARP:
            whole = whole[np.minimum(np.arange(self.warps * WARP), self.threads - 1)]
        return whole.reshape(self.warps, WARP, p * q)

    def back(self, a: Array, blocks: tuple[int, int]) -> Array:
        """Inverse of `full`."""
        flat = a.reshape(self.warps * WARP, -1)[: self.threads]
        return flat.reshape(self.rows, self.x, *blocks)


def _merged(a: Array) -> Array:
    """Join the two lane axes: (w1, w2, lanes, p, q)."""
    w1, w2, g, x, p, q = a.shape
    return a.reshape(w1, w2, g * x, p, q)


class ActiveLanes:
    """The lanes of a mask by warp, with what `distinct` asks of it again and again."""

    def __init__(self, shape: WarpShape, mask: Array) -> None:
        """mask: bool (rows, x, p, q)."""
        self.lanes = shape.lanes(mask, is_mask=True)
        self.full = _merged(shape.spread(self.lanes))
        self.any = self.full.any(axis=2)  # (w1, w2, p, q)
        self.pairs = self.full[:, :, 1:] & self.full[:, :, :-1]
        starts = np.count_nonzero(self.full[:, :, 1:] & ~self.full[:, :, :-1], axis=2)
        self.contiguous = bool((starts + self.full[:, :, 0] <= 1).all())


def distinct(shape: WarpShape, keys: Array, active: ActiveLanes | None) -> Array:
    """Distinct values among the active lanes of each request: int64 (w1, w2, p, q)."""
    one = keys.shape[2] * keys.shape[3] == 1
    if active is None:
        a = _merged(keys)
        if one:
            return np.ones((*a.shape[:2], *a.shape[3:]), np.int64)
        step = np.diff(a, axis=2)
        if step.min() < 0:
            step = np.diff(np.sort(a, axis=2), axis=2)
        return np.count_nonzero(step, axis=2) + 1
    if one:
        # Where keys vary between warps or blocks that the mask does not tell apart, all count.
        return np.broadcast_to(
            active.any.astype(np.int64),
            np.broadcast_shapes(active.any.shape, (*keys.shape[:2], *keys.shape[4:])),
        )
    a = _merged(shape.spread(keys))
    if active.contiguous:
        step = np.diff(a, axis=2)
        if step.min() >= 0:  # in order: a new value shows beside its neighbour
            return np.count_nonzero((step != 0) & active.pairs, axis=2) + active.any
    a, full = np.broadcast_arrays(a, active.full)
    a = np.sort(np.where(full, a, _NONE), axis=2)
    return np.count_nonzero(np.diff(a, axis=2), axis=2) + (a[:, :, -1] != _NONE)


def _bank_depth(words: Array) -> Array:
    """words: (requests, lanes), _NONE where inactive. Most distinct words in one bank, by request."""
    n = len(words)
    ordered = np.sort(words, axis=1)
    fresh = ordered != _NONE
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    slot = (np.arange(n)[:, None] * BANKS + (ordered & (BANKS - 1)))[fresh]
    return np.bincount(slot, minlength=n * BANKS).reshape(n, BANKS).max(axis=1)


def wavefronts(
    shape: WarpShape, byte_address: Array, width: int, active: ActiveLanes | None, load: bool
) -> Array:
    """Wavefronts of each request: int64 (w1, w2, p, q).

    byte_address: int64 from `WarpShape.lanes`. active: None for all lanes. width: bytes a lane.
    load: loads may merge phases, stores do not.
    """
    words = byte_address >> 2
    if width > 4 or active is not None:
        words = shape.spread(words)
    words = _merged(words)
    if active is not None:
        words, full = np.broadcast_arrays(words, active.full)
        words = np.where(full, words, _NONE)
    if active is None and width <= 4:
        narrow = words.shape[2] == 1 or (
            (words.max(axis=2) - words.min(axis=2)).max(initial=0) < BANKS
        )
        if narrow:
            return np.ones((*words.shape[:2], *words.shape[3:]), np.int64)
    requests = (*words.shape[:2], *words.shape[3:])
    lanes = np.moveaxis(words, 2, -1).reshape(-1, words.shape[2])
    depth = _bank_depth(lanes) if width <= 4 else _wide(lanes, width, load)
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
