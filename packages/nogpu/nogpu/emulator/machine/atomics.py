"""Atomic operations on global and shared memory, in the order of the threads.

Lanes that meet at one address are served one after the other: in rounds, each of which takes the
first waiting lane of every address.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine import arith
from nogpu.emulator.machine.access import perform
from nogpu.emulator.machine.events import Access, Served
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.memory import Buffer, Words

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State


def apply(operation: str, kind: str, old: Array, b: Array, c: Array) -> Array:
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
        choose = arith.fmin if operation == "min" else arith.fmax
        if kind == "bf16":
            return arith.bf16_bits(choose(arith.bf16_value(old), arith.bf16_value(b)))
        return choose(old, b)
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
    if not len(index):
        return old
    # Rounds: the k-th lane of every address goes in round k.
    order = np.argsort(index, kind="stable")
    sorted_index = index[order]
    fresh = np.r_[True, sorted_index[1:] != sorted_index[:-1]]
    start = np.flatnonzero(fresh)
    group = np.cumsum(fresh) - 1
    rank = np.arange(len(index)) - start[group]
    if operation == "add" and "f" not in kind:
        # Integer sums are exact in any order: running totals, address by address.
        total = np.cumsum(b[order], dtype=data.dtype)
        before = total - b[order]
        base = before[start][group]
        old[order] = data[sorted_index] + (before - base)
        data[sorted_index] = old[order] + b[order]  # of each address the last one stays
        return old
    by_round = np.argsort(rank, kind="stable")
    edges = np.flatnonzero(np.diff(rank[by_round])) + 1
    for lanes in np.split(order[by_round], edges):
        at = index[lanes]
        old[lanes] = data[at]
        data[at] = apply(operation, kind, old[lanes], b[lanes], c[lanes])
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
    update = partial(_update, state, operation, kind, b, b if c is None else c)
    old: Array = perform(state, state.sites[number], address, mask, move=update)
    return old


def _update(state: State, operation: str, kind: str, b: Array, c: Array, access: Access) -> Array:
    """Serve the lanes of an access one after the other, and say so."""
    where = access.where
    owners = state.block_index if where.owner is None else where.owner
    here: Any = slice(None) if where.mask is None else state.by_thread(where.mask.arr).T
    lanes = (where.offset, state.block_index, owners, state.thread, b, c)
    at, column, owner, thread, x, y = (state.by_thread(v).T[here].ravel() for v in lanes)
    old = _at(where.target, access.site.kind, at, owner, operation, kind, x, y)
    changed = _changed(state, operation, kind, old, x, y)
    wrote = old == x if operation == "cas" else np.ones(old.shape, bool)
    state.publish_served(Served(access, at, thread, column, wrote, changed, owner))
    full = np.zeros((state.blocks, state.threads), old.dtype)
    full[here] = old if where.mask is not None else old.reshape(full.shape)
    return full.T.reshape(state.shape)


def _at(
    target: Buffer | Words,
    own: np.dtype[Any],
    at: Array,
    column: Array,
    operation: str,
    kind: str,
    x: Array,
    y: Array,
) -> Array:
    """Old values at byte offsets of an array, or of the shared memory of blocks."""
    size = own.itemsize
    if isinstance(target, Buffer):
        return _serve(target.view(own), at // size, operation, kind, x, y)
    if size == 4:
        index = (at >> 2) * target.ncolumns + column
        return _serve(target.flat.view(own), index, operation, kind, x, y)
    # Other widths: through a copy of the words in the order of each block's bytes.
    whole = np.ascontiguousarray(target.data.T)
    flat = whole.ravel().view(own)
    old = _serve(flat, (column * target.rows * 4 + at) // size, operation, kind, x, y)
    target.data[:] = whole.T
    return old


def _changed(state: State, operation: str, kind: str, old: Array, b: Array, c: Array) -> Array:
    """Lanes that put something else in place of the value they found, or all if nobody asks."""
    launch, waits = state.launch, state.launch.program.waits
    changed = apply(operation, kind, old, b, c) != old
    if waits and changed.any():
        launch.memory, launch.flagged = object(), True
    if operation == "cas":
        return old == b
    return changed if waits and operation != "exch" else np.ones(old.shape, bool)
