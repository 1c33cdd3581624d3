"""Operations between the 32 lanes of a warp: shuffle, vote, match, redux; and who takes part.

Lanes that name the same member mask act together. Lanes that are not there, and threads that do not
exist, take no part; a shuffle from such a lane gives 0, as an H200 does. Findings are: a lane that
the mask names and that runs elsewhere, a caller that its own mask leaves out, and a shuffle from a
lane that is not there or that the mask does not name.

Source: PTX ISA, shfl.sync, vote.sync, match.sync, redux.sync and bar.warp.sync: the behaviour is
undefined for a thread outside its membermask, and so is a value from an inactive thread or from one
that is not in the membermask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine import sync
from nogpu.emulator.machine.lanes import Array, spread_to

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State


i4, i8, u4 = np.dtype("i4"), np.dtype("i8"), np.dtype("u4")
_ALL = 0xFFFFFFFF
_LANE = np.arange(32).reshape(1, 32, 1)
BIT = np.int64(1) << _LANE
"""Of each lane its bit in a mask: int64 (1, 32, 1)."""


def warps(state: State, a: Array) -> Array:
    """A value of four axes as (warps, 32, blocks); lanes beyond the last thread repeat it."""
    whole = spread_to(a, state.shape).reshape(state.threads, state.blocks)
    if state.threads % 32:
        return whole[state.warp_shape.index]
    return whole.reshape(-1, 32, state.blocks)


def threads(state: State, a: Array) -> Array:
    """Inverse of `warps`."""
    return a.reshape(-1, state.blocks)[: state.threads].reshape(state.shape)


def of_any(flags: Array, together: int) -> Array:
    """bool (warps, blocks): whether a flag holds for any of so many consecutive warps."""
    first = np.arange(0, len(flags), together)
    return np.logical_or.reduceat(flags, first, axis=0).repeat(together, axis=0)[: len(flags)]


def _groups(
    state: State, member: Array | None, mask: Mask | None, line: int
) -> list[tuple[int, Array]]:
    """Member masks, and the active lanes of each: bool (warps, 32, blocks).

    member None: whoever is there (activemask).
    """
    here = state.lanes_active(mask)
    if member is None:
        return [(_ALL, here)]
    if member.size == 1:
        number = int(member.reshape(())) & _ALL
        groups = [(number, here)]
    else:
        named = warps(state, member).astype(i8) & _ALL
        groups = [(int(m), here & (named == m)) for m in np.unique(named[here])]
    partial = mask is not None and mask is not state.alive
    out = []
    for number, lanes in groups:
        inside = (number >> _LANE) & 1 == 1
        if number != _ALL and (unnamed := lanes & ~inside).any():
            _report_unnamed(state, number, unnamed, line)
        if partial or len(groups) > 1:
            alive = state.lanes_active(state.alive)
            missing = inside & alive & ~lanes & lanes.any(axis=1, keepdims=True)
            if missing.any():
                _report_absent(state, number, missing, line)
        out.append((number, lanes & inside if number != _ALL else lanes))
    return out


def _report_absent(state: State, number: int, missing: Array, line: int) -> None:
    place, listed, column = _where(state, missing)
    _diverged(
        state,
        line,
        column,
        f"{place}: the mask 0x{number:08x} names lanes that are not here ({listed}). On a GPU the "
        "warp waits for them, or what it reads is undefined. Let every lane that the mask names "
        "come here, or name only those that do",
        int(np.count_nonzero(missing.any(axis=1))),
    )


def _where(state: State, lanes: Array) -> tuple[str, str, int]:
    """The first true lane's warp, and the true lanes of that, both in words; its block's column."""
    warp, _, column = (int(i[0]) for i in np.nonzero(lanes))
    listed = ", ".join(str(int(lane)) for lane in np.flatnonzero(lanes[warp, :, column]))
    return f"warp {warp} of block {state.block_tuple(column)}", listed, column


def _diverged(state: State, line: int, column: int, message: str, count: int) -> None:
    """A finding about warps, of which one of this column is described."""
    block = state.block_tuple(column)
    state.find("divergent-barrier", line, message, count, block=block)


def _report_unnamed(state: State, number: int, lanes: Array, line: int) -> None:
    """Lanes call with a mask that does not name them."""
    place, listed, column = _where(state, lanes)
    _diverged(
        state,
        line,
        column,
        f"{place}: lanes {listed} come here, and their own mask 0x{number:08x} does not name "
        "them. What they get, and whether they wait for others, is undefined. Name every lane "
        "that comes here",
        int(np.count_nonzero(lanes.any(axis=1))),
    )


def sync_lanes(state: State, member: Array, mask: Mask | None, line: int) -> None:
    """bar.warp.sync.

    Lanes that it names may come to it elsewhere in the text, so they are not missed.
    """
    if member.size > 1 or int(member.reshape(())) & _ALL != _ALL:
        named = warps(state, member).astype(i8) & _ALL
        unnamed = state.lanes_active(mask) & ((named >> _LANE) & 1 == 0)
        if unnamed.any():
            number = int(np.broadcast_to(named, unnamed.shape)[unnamed][0])
            _report_unnamed(state, number, unnamed, line)
    sync.warp_sync(state, mask)


def _judge_sources(
    state: State, member: Array | None, mask: Mask | None, source: Array, there: Array, line: int
) -> None:
    """Report lanes that read from one that has ended, does not exist, or is not in their mask.

    source, there: (warps, 32, blocks), the lane that each reads from and whether it is active.
    Lanes that are named and run elsewhere have been reported.
    """
    here = state.lanes_active(mask)
    if member is None:
        named = np.ones((1, 1, 1), bool)
    else:
        named = ((warps(state, member).astype(i8) & _ALL) >> source) & 1 == 1
    if there.all() and named.all():
        return
    alive = np.take_along_axis(state.lanes_active(state.alive), source, axis=1)
    bad = here & (source != _LANE) & (~named | ~alive)
    if not bad.any():
        return
    place, _, _ = _where(state, bad)
    warp, lane, column = (int(i[0]) for i in np.nonzero(bad))
    other = int(source[warp, lane, column])
    if not np.broadcast_to(named, bad.shape)[warp, lane, column]:
        why = "which its own mask does not name"
    elif 32 * warp + other >= state.threads:
        why = f"which does not exist: the block has {state.threads} threads"
    else:
        why = "which has ended"
    _diverged(
        state,
        line,
        column,
        f"{place}: lane {lane} reads from lane {other}, {why}. The value is undefined (an H200 "
        "gives 0 for a lane that is not active). Keep every lane to the end of the shuffles, and "
        "give those that have nothing a neutral value",
        int(np.count_nonzero(bad)),
    )


def whole_warps(state: State, what: str, line: int, mask: Mask | None) -> None:
    """Report warps of which only some lanes come to a matrix instruction, which takes all 32."""
    if (mask is None and state.threads % 32 == 0) or (mask is not None and mask.whole):
        return
    here = state.lanes_active(mask)
    count = here.sum(axis=1)
    partial = (count > 0) & (count < 32)
    if mask is not None:
        mask.whole = not partial.any()
    if not partial.any():
        return
    warp, column = (int(i[0]) for i in np.nonzero(partial))
    _diverged(
        state,
        line,
        column,
        f"{int(count[warp, column])} of 32 lanes of warp {warp} of block "
        f"{state.block_tuple(column)} come to {what}, which a whole warp executes together. Keep "
        "its lanes together here, and give the block a multiple of 32 threads",
        int(np.count_nonzero(partial)),
    )


def shuffle(
    state: State,
    mode: str,
    a: Array,
    b: Array,
    c: Array,
    member: Array | None,
    mask: Mask | None,
    line: int,
) -> tuple[Array, Array]:
    """shfl.sync: (value from the other lane, whether that lane was in range)."""
    value = warps(state, a)
    offset = warps(state, b).astype(i8) & 31
    control = warps(state, c).astype(i8)
    lane = _LANE
    clamp, segment = control & 31, (control >> 8) & 31
    top = (lane & segment) | (clamp & ~segment)
    if mode == "up":
        source = lane - offset
    elif mode == "down":
        source = lane + offset
    elif mode == "bfly":
        source = lane ^ offset
    else:
        source = (lane & segment) | (offset & ~segment)
    good = source >= top if mode == "up" else source <= top
    source = np.where(good, source, lane)
    source = np.broadcast_to(source, value.shape)
    taken = np.take_along_axis(value, source & 31, axis=1)
    there = np.take_along_axis(state.lanes_active(mask), source & 31, axis=1)
    _groups(state, member, mask, line)
    _judge_sources(state, member, mask, source & 31, there, line)
    sync.warp_sync(state, mask)
    result = np.where(there, taken, np.zeros_like(taken))
    good = np.broadcast_to(good, value.shape)
    return threads(state, result), threads(state, good)


def vote(
    state: State, mode: str, p: Array, member: Array | None, mask: Mask | None, line: int
) -> Array:
    """vote.sync, and activemask (member None)."""
    parts = []
    for _, here in _groups(state, member, mask, line):
        true = warps(state, p) & here
        if mode == "ballot":
            out = (true * BIT).sum(axis=1, keepdims=True).astype(i4)
        elif mode == "any":
            out = true.any(axis=1, keepdims=True)
        elif mode == "all":
            out = (true | ~here).all(axis=1, keepdims=True)
        else:
            count, total = true.sum(axis=1, keepdims=True), here.sum(axis=1, keepdims=True)
            out = (count == 0) | (count == total)
        parts.append((here, out))
    sync.warp_sync(state, mask)
    return threads(state, _joined(parts))


def _joined(parts: list[tuple[Array, Array]]) -> Array:
    """Each group's result at its lanes; (warps, 32, blocks)."""
    here, out = parts[0]
    total = np.broadcast_to(out, here.shape)
    for here, out in parts[1:]:
        total = np.where(here, out, total)
    return total


def match_lanes(
    state: State, mode: str, a: Array, member: Array, mask: Mask | None, line: int
) -> tuple[Array, Array]:
    """match.sync: (lanes with an equal value, whether all are equal)."""
    value = warps(state, a)
    lanes, equals = [], []
    for _, here in _groups(state, member, mask, line):
        equal = (value[:, :, None, :] == value[:, None, :, :]) & here[:, None, :, :]
        bits = (equal * BIT).sum(axis=2)
        everyone = (here * BIT).sum(axis=1, keepdims=True)
        same = ((bits == everyone) | ~here).all(axis=1, keepdims=True)
        lanes.append((here, (bits if mode == "any" else np.where(same, everyone, 0)).astype(i4)))
        equals.append((here, same))
    sync.warp_sync(state, mask)
    return threads(state, _joined(lanes)), threads(state, _joined(equals))


def elect_lane(state: State, member: Array, mask: Mask | None, line: int) -> tuple[Array, Array]:
    """elect.sync: (the lane elected, whether it is this one); the lowest of those named."""
    leaders = []
    for _, here in _groups(state, member, mask, line):
        leaders.append((here, here.argmax(axis=1, keepdims=True).astype(i4)))
    sync.warp_sync(state, mask)
    leader = threads(state, _joined(leaders))
    return leader, leader == state.thread % 32


def reduce_lanes(
    state: State, operation: str, a: Array, member: Array, mask: Mask | None, line: int
) -> Array:
    """redux.sync."""
    value = warps(state, a)
    info = np.iinfo(value.dtype)
    function: Any
    function, identity = {
        "add": (np.add, 0), "or": (np.bitwise_or, 0), "xor": (np.bitwise_xor, 0),
        "and": (np.bitwise_and, -1), "min": (np.minimum, info.max), "max": (np.maximum, info.min),
    }[operation]  # fmt: skip
    parts = []
    for _, here in _groups(state, member, mask, line):
        filled = np.where(here, value, np.array(identity).astype(value.dtype))
        out = function.reduce(filled, axis=1, keepdims=True, dtype=value.dtype)
        parts.append((here, out))
    sync.warp_sync(state, mask)
    return threads(state, _joined(parts))
