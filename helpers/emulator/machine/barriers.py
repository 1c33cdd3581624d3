"""Barriers of a block: who waits at which, when they open, and what is wrong if they never do.

A barrier holds its threads until nothing else can run, then opens for every block that is complete.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.machine import sync
from helpers.emulator.machine.grouping import (
    Group,
    Pool,
    Running,
    Stop,
    Waiting,
    answer,
    everywhere,
    go_on,
    push,
)

if TYPE_CHECKING:
    from helpers.emulator.machine.state import State

Array = np.ndarray[Any, np.dtype[Any]]

i4 = np.dtype("i4")


def come(state: State, running: Running, pool: Pool, stop: Stop, mask: Group, result: Any) -> None:
    """Threads come to a barrier: they wait there, or (bar.arrive) are counted and go on."""
    barrier, expected, arrive, reduce = result
    if arrive:
        warps = state.warps_active(state.within(mask)).sum(axis=0)
        warps = warps.reshape(1, 1, state.p, state.q) * 32
        state.arrived[barrier] = state.arrived.get(barrier, 0) + warps
        push(state, pool, stop.resume, mask)
    else:
        running.waiting.append(Waiting(barrier, running, stop, mask, expected, reduce))


def _waiting(state: State) -> list[Waiting]:
    """All that wait at barriers, in the kernel and in the functions that it calls."""
    return [w for running in everywhere(state) for w in running.waiting]


def open_complete(state: State) -> bool:
    """Open the barriers whose threads have all come; false if there are none."""
    waiting = _waiting(state)
    if len(waiting) == 1 and waiting[0].threads is None and waiting[0].expected is None:
        waiting[0].running.waiting = []
        _open(state, waiting, None)
        return True
    ready: list[Waiting] = []
    opened = np.zeros((1, 1, state.p, state.q), bool)
    partial = False
    everyone = state.by_block(state.alive)
    for barrier in sorted({w.barrier for w in waiting}):
        here = [w for w in waiting if w.barrier == barrier]
        arrived, needed = _counted(state, barrier, here)
        done = (arrived >= needed) & (arrived > 0)
        if done.any():
            ready += _take(state, here, done)
            opened |= done
            partial = partial or bool((needed < everyone)[done].any())
            if barrier in state.arrived:
                state.arrived[barrier] = np.where(done, 0, state.arrived[barrier])
    if not ready:
        return False
    _judge_lines(state, ready)
    if partial:
        sync.join(state, ready)
        opened = np.zeros_like(opened)
    _open(state, ready, opened)
    return True


def _counted(state: State, barrier: int, here: list[Waiting]) -> tuple[Array, Array]:
    """(threads that have come to a barrier, threads that it takes), by block: (1, 1, p, q)."""
    arrived = _together(state, here)
    needed = state.by_block(state.alive)
    for w in here:
        if w.expected is not None:
            needed = np.broadcast_to(w.expected, arrived.shape)
            warps = sum(
                (state.warps_active(v.threads) for v in here),
                start=np.zeros((state.warp_shape.warps, state.blocks), bool),
            )
            # bar counts whole warps: a warp that arrives adds all of its threads.
            arrived = (warps > 0).sum(axis=0).reshape(arrived.shape) * 32
            arrived = arrived + state.arrived.get(barrier, 0)
    return arrived, needed


def _together(state: State, here: list[Waiting]) -> Array:
    """Threads of all these, by block: int64 (1, 1, p, q)."""
    return sum(
        (state.by_block(w.threads) for w in here),
        start=np.zeros((1, 1, state.p, state.q), np.int64),
    )


def give_up(state: State) -> None:
    """Some threads wait for others that never come: say so, and let them go on."""
    ready = _waiting(state)
    for w in ready:
        waits = state.by_block(w.threads)
        column = _first(waits > 0)
        _diverged(
            state,
            w.stop.line,
            waits > 0,
            f"{waits.reshape(-1)[column]} of {state.threads} threads of block "
            f"{state.block_tuple(column)} wait at this barrier; the others wait elsewhere or never "
            "come. Every thread of the block must reach the same barrier",
        )
        w.running.waiting = []
    _open(state, ready, None)


def _take(state: State, here: list[Waiting], done: Array) -> list[Waiting]:
    """Remove the threads of the opened blocks from the barrier; return them as groups."""
    out = []
    for w in here:
        if done.all():
            out.append(w)
            w.running.waiting.remove(w)
            continue
        base = w.threads
        go, stay = state.narrowed(base, done), state.narrowed(base, ~done)
        if go is not None and go.n == 0:
            continue
        w.running.waiting.remove(w)
        out.append(replace(w, mask=go))
        if stay is None or stay.n:
            w.running.waiting.append(replace(w, mask=stay))
    return out


def _judge_lines(state: State, ready: list[Waiting]) -> None:
    """Barriers that opened: all threads of a block should have come, to the same one.

    CUDA asks for the same __syncthreads() of the source; which of its copies the compiler made
    (by unrolling a loop, say) does not matter. So barriers are told apart by their place there.
    """
    whole = [w for w in ready if w.expected is None]
    for barrier in sorted({w.barrier for w in whole}):
        here = [w for w in whole if w.barrier == barrier]
        counts: dict[tuple[int, tuple[str, ...]], Array] = {}
        for w in here:
            n = state.by_block(w.threads)
            key = (w.stop.line, w.stop.place + w.running.place)
            counts[key] = counts.get(key, np.zeros_like(n)) + n
        _judge_meeting(state, counts)


def _judge_meeting(state: State, counts: dict[tuple[int, tuple[str, ...]], Array]) -> None:
    """Judge one barrier number. counts: threads by block (1, 1, p, q), by line and place."""
    (first, _), *others = sorted(counts)
    total = sum(counts.values(), start=np.zeros((1, 1, state.p, state.q), np.int64))
    for line, place in others:
        n = counts[line, place]
        mixed = (n > 0) & (n < total)
        if not mixed.any():
            continue
        where = f"at line {first}" if line != first else "at another one of this line"
        _diverged(
            state,
            line,
            mixed,
            f"threads of block {state.block_tuple(_first(mixed))} meet here and {where}: they wait at "
            "different barriers. Every thread of the block must reach the same one",
            other_line=first,
        )
    gone = (total > 0) & (total < state.threads)
    if gone.any():
        column = _first(gone)
        _diverged(
            state,
            first,
            gone,
            f"{state.threads - total.reshape(-1)[column]} of {state.threads} threads of block "
            f"{state.block_tuple(column)} have returned and never reach this barrier. Keep every "
            "thread of the block to the end, and guard its loads and stores instead",
        )


def _first(blocks: Array) -> int:
    """The first true one of some blocks (1, 1, p, q), as its place in the batch."""
    return int(np.flatnonzero(blocks.reshape(-1))[0])


def _diverged(state: State, line: int, blocks: Array, message: str, other_line: int = 0) -> None:
    """A finding about some blocks, bool (1, 1, p, q)."""
    state.find(
        "divergent-barrier",
        line,
        message,
        int(np.count_nonzero(blocks)),
        other_line=other_line,
        block=state.block_tuple(_first(blocks)),
    )


def _open(state: State, ready: list[Waiting], opened: Array | None) -> None:
    """Resume the threads of open barriers. opened: blocks whose interval ends (None: all)."""
    state.fruitless = 0
    frames = everywhere(state)
    if opened is None or opened.any():
        sync.interval(state, opened, any(f.waiting or f.parked or f.held for f in frames))
    for w in ready:
        if w.reduce is not None:
            _reduce(state, ready, w)
    for running in frames:
        groups = [(w.stop.resume, w.mask) for w in ready if w.running is running]
        if groups:
            go_on(state, running, groups)


def _reduce(state: State, ready: list[Waiting], w: Waiting) -> None:
    """bar.red: combine the predicates of all threads of each block at this barrier."""
    assert w.reduce is not None
    operation, register, _ = w.reduce
    together = [v for v in ready if v.barrier == w.barrier and v.reduce is not None]
    total = np.zeros((1, 1, state.p, state.q), np.int64)
    for v in together:
        base = v.threads
        assert v.reduce is not None
        pred = v.reduce[2] if base is None else base.arr & v.reduce[2]
        pred = np.broadcast_to(pred, state.shape)
        total = total + np.count_nonzero(pred, axis=(0, 1), keepdims=True)
    every = _together(state, together)
    value: Array
    if operation == "popc":
        value = total.astype(i4)
    else:
        value = total == every if operation == "and" else total > 0
    answer(w.running, register, w.mask, value)
