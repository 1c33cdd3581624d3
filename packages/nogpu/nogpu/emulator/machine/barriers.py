"""Barriers of a block: who waits at which, when they open, and what is wrong if they never do.

A barrier holds its threads until nothing else can run, then opens for every block that is complete.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine import sync
from nogpu.emulator.machine.grouping import (
    BarrierWait,
    Group,
    Pool,
    Running,
    Stop,
    answer,
    everywhere,
    go_on,
    push,
)
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import array_of
from nogpu.emulator.ptx.ends import CLUSTER
from nogpu.errors import EmulationError

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State


i4, i8 = np.dtype("i4"), np.dtype("i8")
BARRIERS = 16
"""Barriers of a block (PTX ISA, barrier)."""


def arrive_at(
    state: State, running: Running, pool: Pool, stop: Stop, mask: Group, result: Any
) -> None:
    """Threads come to a barrier: they wait there, or (bar.arrive) are counted and go on.

    Numbers and threads may differ between warps, as where each warpgroup waits for its turn; who
    names another barrier waits apart. Source: PTX ISA, barrier.

    Parameters
    ----------
    stop: the barrier's place, and where threads go on.
    mask: who comes.
    result: the number of the barrier, the threads that it takes (None: all of the block), whether
        this is bar.arrive, what bar.red combines, and whether all lanes of a warp name one barrier
        (.aligned).
    """
    number, expected, arrive, reduce, aligned = result
    if isinstance(number, int):  # of the cluster
        running.at_barriers.append(BarrierWait(number, running, stop, mask, None))
        return
    parts = _parts(state, stop, mask, number, expected)
    if aligned and len(parts) > 1:
        _judge_warps(state, stop, [group for _, _, group in parts])
    for barrier, threads, group in parts:
        if arrive:
            warps = state.warps_active(state.within(group)).sum(axis=0)
            warps = warps.reshape(1, 1, state.p, state.q) * 32
            state.arrived[barrier] = state.arrived.get(barrier, 0) + warps
            for o in state.observers:
                o.left(barrier, group)
            push(state, pool, stop.resume, group)
        else:
            running.at_barriers.append(BarrierWait(barrier, running, stop, group, threads, reduce))


def _parts(
    state: State, stop: Stop, mask: Group, number: Array, expected: Array | None
) -> list[tuple[int, Array | None, Group]]:
    """(number, threads that it takes, who comes) of each barrier that some threads name."""
    if number.size == 1 and (expected is None or expected.shape[:2] == (1, 1)):
        return [(_checked(stop, number.item()), expected, mask)]
    base = state.within(mask)
    # Who names one barrier and one number of threads has one sum; either has 32 bits of its own.
    pairs = (number.astype(i8) << 32) + (0 if expected is None else expected)
    pairs, here = np.broadcast_arrays(pairs, array_of(base))
    named = np.unique(pairs[here])
    parts = []
    for pair in named:
        barrier = int(pair) >> 32
        threads = np.full((1, 1, 1, 1), pair - (barrier << 32), i8)
        group = mask if len(named) == 1 else state.narrowed(base, pairs == pair)
        parts.append((_checked(stop, barrier), None if expected is None else threads, group))
    return parts


def _checked(stop: Stop, number: int) -> int:
    """The number of a barrier, one of those that a block has."""
    if not 0 <= number < BARRIERS:
        raise EmulationError(
            f"line {stop.line}: a barrier with the number {number}: a block has {BARRIERS}, 0 to "
            f"{BARRIERS - 1}. Count them from 0 on, and give the number of a barrier before the "
            "number of its threads"
        )
    return number


def _judge_warps(state: State, stop: Stop, groups: list[Group]) -> None:
    """Lanes of one warp may not name different barriers at once."""
    split = np.sum([state.warps_active(group) for group in groups], axis=0) > 1
    if split.any():
        column = int(np.argmax(split.any(axis=0)))
        warp = int(np.argmax(split[:, column]))
        _diverged(
            state,
            stop.line,
            split.any(axis=0).reshape(1, 1, state.p, state.q),
            f"lanes of warp {warp} of block {state.block_tuple(column)} name different barriers, "
            "or different numbers of threads. All lanes of a warp must name one (bar.sync, "
            "barrier.sync.aligned); compute the number from threadIdx.x / 32, not from the lane",
        )


def _waiting(state: State) -> list[BarrierWait]:
    """All that wait at barriers of their block, in the kernel or a function that it calls."""
    return [w for f in everywhere(state) for w in f.at_barriers if w.barrier != CLUSTER]


def open_complete(state: State) -> bool:
    """Open the barriers whose threads have all come; false if there are none."""
    match waiting := _waiting(state):
        case [all_] if all_.threads is None and all_.expected is None:
            all_.running.at_barriers = []
            _open(state, waiting, None)
            return True
    ready: list[BarrierWait] = []
    opened = np.zeros((1, 1, state.p, state.q), bool)
    partial = False
    for barrier in sorted({w.barrier for w in waiting}):
        here = [w for w in waiting if w.barrier == barrier]
        arrived, needed = _counted(state, barrier, here)
        done = (arrived >= needed) & (arrived > 0)
        if done.any():
            ready += take(state, here, done)
            opened |= done
            _judge_crowd(state, barrier, here, done, arrived, needed)
            # Of those that a count leaves out some may have ended: that does not order them.
            if any(w.expected is not None for w in here):
                partial = partial or bool((needed < state.threads)[done].any())
            if barrier in state.arrived:
                partial = partial or bool(state.arrived[barrier][done].any())
                state.arrived[barrier] = np.where(done, 0, state.arrived[barrier])
    if not ready:
        return False
    _judge_lines(state, ready)
    if partial:
        sync.join(state, ready)
        opened = np.zeros_like(opened)
    _open(state, ready, opened)
    return True


def _judge_crowd(
    state: State, barrier: int, here: list[BarrierWait], done: Array, arrived: Array, needed: Array
) -> None:
    """More threads wait at a barrier than it takes: which of them meet is left to chance."""
    waiting = arrived - state.arrived.get(barrier, 0)
    crowded = done & (waiting > needed)
    if here[0].expected is not None and crowded.any():
        at = _first(crowded)
        _diverged(
            state,
            here[0].stop.line,
            crowded,
            f"{waiting.flat[at]} threads of block {state.block_tuple(at)} wait at barrier "
            f"{barrier}, which takes {needed.flat[at]}: who of them meet is left to chance. "
            "Give each group of threads a barrier number of its own, or count all who meet",
        )


def _counted(state: State, barrier: int, here: list[BarrierWait]) -> tuple[Array, Array]:
    """(threads that have come to a barrier, threads that it takes), by block: (1, 1, p, q)."""
    expected = next((w.expected for w in reversed(here) if w.expected is not None), None)
    if expected is None:
        return _together(state, here), state.by_block(state.alive)
    # bar counts whole warps: a warp that arrives adds all of its threads.
    warps = np.any([state.warps_active(w.threads) for w in here], axis=0).sum(axis=0)
    arrived = warps.reshape(1, 1, state.p, state.q) * 32 + state.arrived.get(barrier, 0)
    return arrived, np.broadcast_to(expected, arrived.shape)


def _together(state: State, here: list[BarrierWait]) -> Array:
    """Threads of all these, by block: int64 (1, 1, p, q)."""
    return np.asarray(np.sum([state.by_block(w.threads) for w in here], axis=0))


def give_up(state: State) -> bool:
    """Some wait for others that never come: say so, and let them go on; false if there are none."""
    ready = _waiting(state)
    if not ready:
        return False
    for w in ready:
        waits = state.by_block(w.threads)
        column = _first(waits > 0)
        _diverged(
            state,
            w.stop.line,
            waits > 0,
            f"{waits.flat[column]} of {state.threads} threads of block "
            f"{state.block_tuple(column)} wait at this barrier; the others wait elsewhere or never "
            "come. Every thread of the block must reach the same barrier",
        )
        w.running.at_barriers.remove(w)
    _open(state, ready, None)
    return True


def take(state: State, here: list[BarrierWait], done: Array) -> list[BarrierWait]:
    """Remove those threads from their barrier that may go on; return them as groups.

    done: bool, by block (1, 1, p, q) or by thread (four axes).
    """
    out = []
    for w in here:
        if done.all():
            out.append(w)
            w.running.at_barriers.remove(w)
            continue
        base = w.threads
        go, stay = state.narrowed(base, done), state.narrowed(base, ~done)
        if go is not None and go.n == 0:
            continue
        w.running.at_barriers.remove(w)
        out.append(replace(w, mask=go))
        if stay is None or stay.n:
            w.running.at_barriers.append(replace(w, mask=stay))
    return out


def _judge_lines(state: State, ready: list[BarrierWait]) -> None:
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
    total = np.sum(list(counts.values()), axis=0)
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
            f"threads of block {state.block_tuple(_first(mixed))} meet here and {where}: they wait "
            "at different barriers. Every thread of the block must reach the same one",
            other_line=first,
        )
    gone = (total > 0) & (total < state.threads)
    if gone.any():
        column = _first(gone)
        returned = "they have returned, or " if state.launch.program.returns else ""
        _diverged(
            state,
            first,
            gone,
            f"{state.threads - total.flat[column]} of {state.threads} threads of block "
            f"{state.block_tuple(column)} never reach this barrier: {returned}an if or the "
            "end of a loop led them past it. Every thread of the block must reach it: guard its "
            "loads and stores instead",
        )


def _first(blocks: Array) -> int:
    """The first true one of some blocks (1, 1, p, q), as its place in the batch."""
    return int(np.argmax(blocks))


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


def _open(state: State, ready: list[BarrierWait], opened: Array | None) -> None:
    """Resume the threads of open barriers. opened: blocks whose interval ends (None: all)."""
    frames = everywhere(state)
    if opened is None or opened.any():
        others = any(f.at_barriers or f.parked or f.at_gates for f in frames)
        for o in state.observers:
            o.interval(opened, others)
    for w in ready:
        if w.reduce is not None:
            _reduce(state, ready, w)
    resume(state, ready)


def resume(state: State, ready: list[BarrierWait]) -> None:
    """Let groups that have waited go on behind their barrier."""
    state.failed_polls = 0
    for running in everywhere(state):
        groups = [(w.stop.resume, w.mask) for w in ready if w.running is running]
        if groups:
            go_on(state, running, groups)


def _reduce(state: State, ready: list[BarrierWait], w: BarrierWait) -> None:
    """bar.red: combine the predicates of all threads of each block at this barrier."""
    assert w.reduce is not None
    operation, register, _ = w.reduce
    together = [v for v in ready if v.barrier == w.barrier and v.reduce is not None]
    true = [state.narrowed(v.threads, v.reduce[2]) for v in together if v.reduce is not None]
    total = np.sum([state.by_block(t) for t in true], axis=0)
    every = _together(state, together)
    value: Array
    if operation == "popc":
        value = total.astype(i4)
    else:
        value = total == every if operation == "and" else total > 0
    answer(w.running, register, w.mask, value)
