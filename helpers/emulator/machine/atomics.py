"""Atomic operations on global and shared memory, in the order of the threads.

Lanes that meet at one address are served one after the other: in rounds, each of which takes the
first waiting lane of every address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.machine import access, arith
from helpers.emulator.observe.races import ATOMIC, track_atomic

if TYPE_CHECKING:
    from helpers.emulator.machine.masks import Mask
    from helpers.emulator.machine.state import State

Array = np.ndarray[Any, np.dtype[Any]]


def _apply(operation: str, kind: str, old: Array, b: Array, c: Array) -> Array:
    """The new value at each address."""
    if operation == "add":
        if kind == "bf16x2":
            total = arith.bf16_value(arith.unpack16(old)) + arith.bf16_value(arith.unpack16(b))
            return arith.pack16(arith.bf16_bits(total))
        if kind == "f16x2":
            return arith.pack16(arith.half2(old) + arith.half2(b))
        if kind == "bf16":
            return arith.bf16_bits(arith.bf16_value(old) + arith.bf16_value(b))
        return old + b
    if operation in ("min", "max"):
        return (np.fmin if operation == "min" else np.fmax)(old, b)
    if operation == "inc":
        return np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1))
    if operation == "dec":
        return np.where((old == 0) | (old > b), b, old - old.dtype.type(1))
    if operation == "and":
        return old & b
    if operation == "or":
        return old | b
    if operation == "xor":
        return old ^ b
    if operation == "exch":
        return b
    return np.where(old == b, c, old)  # cas: compare with b, swap in c


def _serve(data: Array, index: Array, operation: str, kind: str, b: Array, c: Array) -> Array:
    """Run the lanes in order on data[index]; the old value that each lane saw."""
    old = np.empty(len(index), data.dtype)
    # Rounds: the k-th lane of every address goes in round k.
    order = np.argsort(index, kind="stable")
    sorted_index = index[order]
    fresh = np.r_[True, sorted_index[1:] != sorted_index[:-1]]
    start = np.flatnonzero(fresh)
    group = np.cumsum(fresh) - 1
    rank = np.arange(len(index)) - start[group]
    rounds = int(rank.max()) + 1 if len(index) else 0
    if rounds > 64 and operation == "add" and data.dtype.kind in "iu":
        # Integer sums are exact in any order: running totals, address by address.
        total = np.cumsum(b[order], dtype=data.dtype)
        before = total - b[order]
        base = before[start][group]
        old[order] = data[sorted_index] + (before - base)
        last = np.r_[start[1:], len(index)] - 1
        data[sorted_index[last]] = old[order][last] + b[order][last]
        return old
    by_round = np.argsort(rank, kind="stable")
    edges = np.searchsorted(rank[by_round], np.arange(rounds + 1))
    for k in range(rounds):
        lanes = order[by_round[edges[k] : edges[k + 1]]]
        at = index[lanes]
        old[lanes] = data[at]
        data[at] = _apply(operation, kind, old[lanes], b[lanes], c[lanes])
    return old


def atomic(
    state: State,
    number: int,
    operation: str,
    kind: str,
    address: Array,
    b: Array,
    c: Array | None,
    mask: Mask | None,
    wants_old: bool,
) -> Array:
    """atom and red: the old value of each lane."""
    site = state.sites[number]
    zero = np.zeros((1, 1, 1, 1), site.kind)
    if mask is not None and mask.n == 0:
        return zero
    if site.space == "shared":
        return _shared(state, number, operation, kind, address, b, c, mask)
    if site.space == "generic":
        parts = access._by_space(state, site, address, mask)
        result = zero
        for name, at, part in parts:
            function = _shared if name == "shared" else _global
            got = function(state, number, operation, kind, at, b, c, part)
            result = got if part is None else np.where(part.arr, got, result)
        return result
    return _global(state, number, operation, kind, address, b, c, mask)


def _changed(state: State, operation: str, kind: str, old: Array, b: Array, c: Array) -> Array:
    """Lanes that put something else in place of the value they found, or all if nobody asks."""
    launch = state.launch
    if operation == "cas":
        wrote = old == b
    elif operation == "exch" or not launch.program.waits:
        wrote = np.ones(old.shape, bool)
    else:
        wrote = _apply(operation, kind, old, b, c) != old
    if launch.program.waits:
        after = c if operation == "cas" else b
        changed = wrote & (old != after) if operation in ("cas", "exch") else wrote
        if changed.any():
            launch.writes += 1
            launch.flagged = True
    return wrote


def _flat(state: State, mask: Mask | None, *values: Array) -> list[Array]:
    out = []
    for v in values:
        full = np.broadcast_to(v, state.shape)
        # Blocks outermost: block by block, thread by thread.
        full = np.moveaxis(full.reshape(state.threads, state.blocks), 1, 0)
        if mask is None:
            out.append(full.reshape(-1))
        else:
            arr = np.broadcast_to(mask.arr, state.shape).reshape(state.threads, state.blocks)
            out.append(full[np.moveaxis(arr, 1, 0)])
    return out


def _unflat(state: State, mask: Mask | None, old: Array) -> Array:
    full = np.zeros((state.blocks, state.threads), old.dtype)
    if mask is None:
        full[:] = old.reshape(full.shape)
    else:
        arr = np.broadcast_to(mask.arr, state.shape).reshape(state.threads, state.blocks)
        full[np.moveaxis(arr, 1, 0)] = old
    return np.moveaxis(full, 0, 1).reshape(state.shape)


def _global(
    state: State,
    number: int,
    operation: str,
    kind: str,
    address: Array,
    b: Array,
    c: Array | None,
    mask: Mask | None,
) -> Array:
    site, stats = state.sites[number], state.stats[number]
    result: Array = np.zeros((1, 1, 1, 1), site.kind)
    for buffer, offset, sound, arr in access._split(state, site, address, mask):
        if state.analyse:
            access._count_global(state, site, stats, buffer, offset, sound)
            if buffer.initialised is not None:
                access._check_global_init(state, site, buffer, offset, arr, site.width)
        at, x, y = _flat(state, sound, offset, b, b if c is None else c)
        if state.order is not None:
            thread, column = _flat(state, sound, state.thread, state.block_index)
        old = _serve(buffer.view(site.kind), at // site.kind.itemsize, operation, kind, x, y)
        changed = _changed(state, operation, kind, old, x, y)
        if state.order is not None:
            track_atomic(state, site, buffer, at, thread, column, changed)
        if buffer.stores is not None:
            wrote = old == x if operation == "cas" else np.ones(old.shape, bool)
            (thread,) = _flat(state, sound, state.global_thread)
            element, span = at[wrote] // buffer.itemsize, max(site.width // buffer.itemsize, 1)
            buffer.stores.add(element, span, thread[wrote], number)
        result = np.where(arr, _unflat(state, sound, old), result)
    return result


def _shared(
    state: State,
    number: int,
    operation: str,
    kind: str,
    address: Array,
    b: Array,
    c: Array | None,
    mask: Mask | None,
) -> Array:
    site, stats = state.sites[number], state.stats[number]
    plan = access._shared_plan(state, site, stats, address, mask)
    if plan.mask is not None and plan.mask.n == 0:
        return np.zeros((1, 1, 1, 1), site.kind)
    log = state.log
    if log is not None:
        assert plan.granule is not None
        span = max(site.width >> log.shift, 1)
        if not plan.initialised:
            plan.initialised = access._check_init(state, site, plan, span)
        log.mark(plan.granule, span, None if plan.mask is None else plan.mask.arr)
        log.add(number, ATOMIC, plan.granule, span, plan.mask)
        if state.order is not None:
            granule, thread = _flat(state, plan.mask, plan.granule, state.thread)
        if state.copies is not None:
            state.copies.check(site, plan.granule, span, plan.mask)
    size = site.kind.itemsize
    blocks = np.broadcast_to(state.block_index, state.shape)
    at, column, x, y = _flat(state, plan.mask, plan.offset, blocks, b, b if c is None else c)
    memory = state.shared
    if size == 4:
        index = (at >> 2) * memory.ncolumns + column
        old = _serve(memory.flat.view(site.kind), index, operation, kind, x, y)
    else:
        # Other widths: through a copy of the words in the order of each block's bytes.
        whole = np.ascontiguousarray(memory.data.T)
        flat = whole.reshape(-1).view(site.kind)
        old = _serve(flat, (column * memory.rows * 4 + at) // size, operation, kind, x, y)
        memory.data[:] = whole.T
    wrote = _changed(state, operation, kind, old, x, y)
    if log is not None and state.order is not None:
        state.order.update(
            log.versions(),
            granule * state.blocks + column,
            column,
            thread // 32,
            wrote,
            (site.acquire, site.release),
        )
    return _unflat(state, plan.mask, old)
