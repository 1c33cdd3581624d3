"""Operations between the 32 lanes of a warp: shuffle, vote, match, redux.

Lanes outside the mask, and threads that do not exist, take no part; a shuffle from such a lane
gives the reader its own value, as on the hardware it would give an undefined one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from helpers.emulator.machine import Mask, State

Array = np.ndarray[Any, np.dtype[Any]]

i4, i8, u4 = np.dtype("i4"), np.dtype("i8"), np.dtype("u4")


def warps(state: State, a: Array) -> Array:
    """A value of four axes as (warps, 32, blocks)."""
    return state.warp_shape.full(a, (state.p, state.q))


def threads(state: State, a: Array) -> Array:
    """Inverse of `warps`."""
    return state.warp_shape.back(a, (state.p, state.q))


def active_lanes(state: State, mask: Mask | None) -> Array:
    """bool (warps, 32, blocks): lanes that take part."""
    shape = (state.warp_shape.warps, 32, state.blocks)
    if mask is None:
        arr = np.ones((1, 1, 1, 1), bool)
    else:
        arr = mask.arr
    full = np.broadcast_to(arr, state.shape).reshape(state.threads, state.blocks)
    pad = -state.threads % 32
    if pad:
        full = np.concatenate([full, np.zeros((pad, state.blocks), bool)])
    return full.reshape(shape)


def shuffle(
    state: State, mode: str, a: Array, b: Array, c: Array, member: Array | None, mask: Mask | None
) -> tuple[Array, Array]:
    """shfl.sync: (value from the other lane, whether that lane was in range)."""
    value = warps(state, a)
    offset = warps(state, b).astype(i8) & 31
    control = warps(state, c).astype(i8)
    lane = np.arange(32).reshape(1, 32, 1)
    clamp, segment = control & 31, (control >> 8) & 31
    top = (lane & segment) | (clamp & ~segment)
    low = lane & segment
    if mode == "up":
        source = lane - offset
        good = source >= top
    elif mode == "down":
        source = lane + offset
        good = source <= top
    elif mode == "bfly":
        source = lane ^ offset
        good = source <= top
    else:
        source = low | (offset & ~segment)
        good = source <= top
    source = np.where(good, source, lane)
    source = np.broadcast_to(source, value.shape)
    took = np.take_along_axis(value, source & 31, axis=1)
    there = np.take_along_axis(active_lanes(state, mask), source & 31, axis=1)
    state.warp_sync(mask)
    result = np.where(there, took, value)
    good = np.broadcast_to(good, value.shape)
    return threads(state, result), threads(state, good)


def vote(state: State, mode: str, p: Array, mask: Mask | None) -> Array:
    """vote.sync and activemask."""
    here = active_lanes(state, mask)
    true = warps(state, p) & here
    state.warp_sync(mask)
    if mode == "ballot":
        bits = (true * (np.int64(1) << np.arange(32)).reshape(1, 32, 1)).sum(axis=1, keepdims=True)
        return threads(state, np.broadcast_to(bits.astype(i4), here.shape))
    if mode == "any":
        out = true.any(axis=1, keepdims=True)
    elif mode == "all":
        out = (true | ~here).all(axis=1, keepdims=True)
    else:
        count, total = true.sum(axis=1, keepdims=True), here.sum(axis=1, keepdims=True)
        out = (count == 0) | (count == total)
    return threads(state, np.broadcast_to(out, here.shape))


def match_lanes(state: State, mode: str, a: Array, mask: Mask | None) -> tuple[Array, Array]:
    """match.sync: (lanes with an equal value, whether all are equal)."""
    value = warps(state, a)
    here = active_lanes(state, mask)
    bit = (np.int64(1) << np.arange(32)).reshape(1, 1, 32, 1)
    equal = (value[:, :, None, :] == value[:, None, :, :]) & here[:, None, :, :]
    bits = (equal * bit).sum(axis=2)
    state.warp_sync(mask)
    if mode == "any":
        return threads(state, bits.astype(i4)), threads(state, np.ones_like(here))
    everyone = (here * bit[0]).sum(axis=1, keepdims=True)
    same = (bits == everyone) | ~here
    same = np.broadcast_to(same.all(axis=1, keepdims=True), here.shape)
    out = np.where(same, everyone, 0).astype(i4)
    return threads(state, out), threads(state, same)


def reduce_lanes(state: State, operation: str, a: Array, mask: Mask | None) -> Array:
    """redux.sync."""
    value = warps(state, a)
    here = active_lanes(state, mask)
    info = np.iinfo(value.dtype)
    identity = {"add": 0, "or": 0, "xor": 0, "and": -1, "min": info.max, "max": info.min}[operation]
    filled = np.where(here, value, np.array(identity).astype(value.dtype))
    function: Any = {
        "add": np.add, "or": np.bitwise_or, "xor": np.bitwise_xor, "and": np.bitwise_and,
        "min": np.minimum, "max": np.maximum,
    }[operation]  # fmt: skip
    out = function.reduce(filled, axis=1, keepdims=True, dtype=value.dtype)
    state.warp_sync(mask)
    return threads(state, np.broadcast_to(out, here.shape))
