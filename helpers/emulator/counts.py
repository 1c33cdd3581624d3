"""Sectors and wavefronts of warp requests: what the memory system has to serve.

A request is one warp's execution of a memory instruction with at least one active lane.

Sectors (global memory): the distinct 32-byte sectors that a request touches.

Wavefronts (shared memory): 32 banks of 4 bytes each serve one word a wavefront; lanes that want
the same word share it. A request of up to 4 bytes a lane takes as many wavefronts as the most
wanted bank has distinct words. Wider requests are served in phases, each counted by that rule:
8 bytes a lane in two half-warps, 16 bytes in four quarter-warps. Two half-warp phases of an
8-byte request, and the two phases of each half of a 16-byte request, are merged into one
wavefront where the merged phase wants no more than one word of any bank.

Arrays have six axes here: two that number the warps of a block, two that number the lanes of a
warp (so that a value shared by all lanes keeps size one), and the two of the blocks.
"""

from __future__ import annotations

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


def distinct(keys: Array, mask: Array | None) -> Array:
    """Distinct values among the active lanes of each request: int64 (w1, w2, p, q)."""
    if mask is None:
        a = _merged(keys)
        if a.shape[2] == 1:
            return np.ones((a.shape[0], a.shape[1], a.shape[3], a.shape[4]), np.int64)
        step = np.diff(a, axis=2)
        if step.min() < 0:
            step = np.diff(np.sort(a, axis=2), axis=2)
        return np.count_nonzero(step, axis=2) + 1
    keys, mask = np.broadcast_arrays(keys, mask)
    a = np.sort(_merged(np.where(mask, keys, _NONE)), axis=2)
    if a.shape[2] == 1:
        return (a[:, :, 0] != _NONE).astype(np.int64)
    return np.count_nonzero(np.diff(a, axis=2), axis=2) + (a[:, :, -1] != _NONE)


def _bank_depth(words: Array) -> Array:
    """words: (requests, lanes), _NONE where inactive. Most distinct words in one bank, by request."""
    n = len(words)
    ordered = np.sort(words, axis=1)
    fresh = ordered != _NONE
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    slot = (np.arange(n)[:, None] * BANKS + (ordered & (BANKS - 1)))[fresh]
    return np.bincount(slot, minlength=n * BANKS).reshape(n, BANKS).max(axis=1)


def wavefronts(byte_address: Array, width: int, mask: Array | None) -> Array:
    """Wavefronts of each request: int64 (w1, w2, p, q). byte_address: int64, six axes.

    width: bytes a lane; mask as byte_address or None.
    """
    if mask is not None:
        byte_address, mask = np.broadcast_arrays(byte_address, mask)
        words = _merged(np.where(mask, byte_address >> 2, _NONE))
    else:
        words = _merged(byte_address >> 2)
        if words.shape[2] == 1:
            return np.ones((*words.shape[:2], *words.shape[3:]), np.int64)
        if width <= 4 and (words.max(axis=2) - words.min(axis=2)).max(initial=0) < BANKS:
            return np.ones((*words.shape[:2], *words.shape[3:]), np.int64)
    shape = (*words.shape[:2], *words.shape[3:])
    lanes = np.moveaxis(words, 2, -1).reshape(-1, words.shape[2])
    if width <= 4:
        return _bank_depth(lanes).reshape(shape)
    if lanes.shape[1] < WARP:  # few distinct lanes, repeated over the warp by the caller's shape
        return _wide(lanes[:, np.arange(WARP) % lanes.shape[1]], width).reshape(shape)
    return _wide(lanes, width).reshape(shape)


def _wide(lanes: Array, width: int) -> Array:
    """Wavefronts of 8- and 16-byte requests; lanes: (requests, 32) first words."""
    n = len(lanes)
    per_lane = width // 4
    words = lanes[:, :, None] + np.arange(per_lane)
    words = np.where(lanes[:, :, None] == _NONE, _NONE, words)
    phases = 2 if per_lane == 2 else 4
    by_phase = words.reshape(n * phases, -1)
    depth = _bank_depth(by_phase).reshape(n, phases)
    pairs = _bank_depth(words.reshape(n * phases // 2, -1)).reshape(n, phases // 2)
    split = depth.reshape(n, phases // 2, 2).sum(axis=2)
    return np.where(pairs <= 1, pairs, split).sum(axis=1)
