"""Who runs next: groups of threads wait at basic blocks, and the first of them goes on.

The group at the first block (in the order of `ptx.flow`) runs next; groups that reach the same
place merge. When nothing can run, gates and barriers open that are complete; then those go round
once more who wait in a loop; and what is left never will go on, which is a finding.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np

from nogpu.emulator.machine import (
    barriers,
    calls,
    cluster_barriers,
    gates,
    mbarrier,
    ports,
    spinning,
)
from nogpu.emulator.machine.grouping import (
    Group,
    Pool,
    Running,
    Stop,
    enter,
    everywhere,
    first_registers,
    go_on,
    push,
)
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import Mask
from nogpu.emulator.ptx import ends

seconds = getattr(time, "thread_time", time.monotonic)
"""The time that this thread has worked; in a browser, where Python counts no work, what has gone
by."""

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.program import Block, FunctionProgram


def run(state: State, program: FunctionProgram) -> None:
    """Run a kernel from its entry until every thread has left it."""
    scalar = state.launch.program.scalar
    if scalar:
        state.ports, state.scratch = ports.ports_of(state), ports.scratch()
    entry = Running(program, first_registers(program, scalar), {})
    state.frames, state.current = [entry], entry
    go_on(state, entry, [(0, None)])
    try:
        while (running := _runnable(state)) or _next(state):
            if running:
                _run(state, running)
    finally:
        for port in state.ports:
            port.settle()


def _runnable(state: State) -> Running | None:
    """The function to go on with, the innermost first; None if all threads wait or have ended."""
    for running in everywhere(state)[::-1]:
        pools = running.pools
        while pools and not pools[-1]:
            pools.pop()
        if pools:
            enter(state, running)
            return running
        if running.caller is not None:
            calls.give_back(state, running)
    return None


def _run(state: State, running: Running) -> None:
    """Run a function until none of its threads can go on, or some call another."""
    program, pools = running.program, running.pools
    registers, frame = running.registers, running.frame
    launch = state.launch
    counts, rank = launch.counts, program.rank
    while pools:
        pool = pools[-1]
        if not pool:
            pools.pop()
            continue
        at = min(pool) if rank is None else min(pool, key=rank.__getitem__)
        # Threads that have nothing left but to return do so at once: the others then are all that
        # live, and need no mask.
        at = next((e for e in program.exits if e in pool), at)
        mask = pool.pop(at)
        block = program.blocks[at]
        if block.ways is not None:
            block = _straight(state, running, block)
        _spend(state, block)
        active = state.live if mask is None else mask
        counts[block.number] = counts.get(block.number, 0) + state.count_warps(active)
        result = block.run(state, registers, frame, mask, active)
        called = bool(state.calls)
        if called:
            calls.begin(state, running, pool, block, mask)
        else:
            _leave(state, running, pool, block, mask, result)
        if state.completed:
            mbarrier.wake(state)
            enter(state, running)
            if pool:
                state.failed_polls = 0
        if block.spins is not None:
            for spin in block.spins:
                spinning.set_aside(state, running, pool, spin)
        if launch.flagged:
            launch.flagged = False
            if launch.program.waits:
                spinning.hand_on(state, running, active)
        if called:
            return


def _spend(state: State, block: Block) -> None:
    """Count the steps of a block that runs next; stops a launch that may take no more."""
    launch = state.launch
    state.steps += block.cost
    if state.steps > launch.max_steps or (
        not next(launch.turns) & 31 and seconds() > launch.deadline
    ):
        spinning.out_of_steps(state, block.line)


def _straight(state: State, running: Running, block: Block) -> Block:
    """Run the only thread of a launch to a block that ends in neither a jump nor a branch."""
    blocks, registers, frame = running.program.blocks, running.registers, running.frame
    counts = state.launch.counts
    while (ways := block.ways) is not None:
        _spend(state, block)
        counts[block.number] = counts.get(block.number, 0) + 1
        taken = block.run(state, registers, frame, None, None)
        block = blocks[ways[0] if taken else ways[1]]
    return block


def _leave(
    state: State, running: Running, pool: Pool, block: Block, mask: Group, result: Any
) -> None:
    """Send the threads that have run a block where its end says; each of them goes somewhere."""
    match block.end:
        case ends.Jump(to):
            push(state, pool, to, mask)
        case ends.Branch(to, after):
            _branch(state, pool, to, after, mask, result)
        case ends.Exit() as end:
            _exit(state, running, pool, mask, result, end)
        case ends.Barrier(after):
            stop = _stop(after, block)
            if stop.line in state.launch.program.crowded:
                stop = replace(stop, place=(*stop.place, str(block.number)))
            barriers.arrive_at(state, running, pool, stop, mask, result)
        case ends.Table(to):
            _table(state, pool, to, mask, result)
        case ends.Poll(after):
            mbarrier.poll(state, running, pool, _stop(after, block), mask, result)
        case ends.Gate(after, together):
            gates.arrive_at(state, running, pool, _stop(after, block), mask, result, together)
        case _:
            assert_never(block.end)


def _stop(after: int, block: Block) -> Stop:
    return Stop(after, block.end_line, block.end_place)


def _branch(state: State, pool: Pool, target: int, after: int, mask: Group, pred: Array) -> None:
    if pred.size == 1:
        push(state, pool, target if pred.item() else after, mask)
        return
    base = state.live if mask is None else mask
    taken = pred if base is None else base.arr & pred
    n = int(np.count_nonzero(taken)) * (state.lanes // taken.size)
    full = state.count(base)
    if n == full:
        push(state, pool, target, mask)
    elif n == 0:
        push(state, pool, after, mask)
    else:
        rest = ~pred if base is None else base.arr & ~pred
        push(state, pool, target, Mask(state, taken, n))
        push(state, pool, after, Mask(state, rest, full - n))


def _table(state: State, pool: Pool, targets: tuple[int, ...], mask: Group, index: Array) -> None:
    """brx: each thread goes to the block that its index names."""
    base = state.within(mask)
    indices = index
    if base is not None and index.size > 1:
        shape = np.broadcast_shapes(base.arr.shape, index.shape)
        indices = index[np.broadcast_to(base.arr, shape)]
    for value in np.unique(indices):
        part = state.narrowed(base, index == value)
        if state.count(part) == state.count(base):
            part = mask
        if 0 <= int(value) < len(targets):
            push(state, pool, targets[int(value)], part)


def _exit(
    state: State, running: Running, pool: Pool, mask: Group, pred: Array | None, end: ends.Exit
) -> None:
    """Threads leave the function: those whose predicate holds; None: all of them."""
    after = end.after
    base = state.within(mask)
    gone = base
    if pred is not None:
        gone = state.narrowed(base, pred)
        if gone is not None and gone.n == 0:
            push(state, pool, after, mask)
            return
        push(state, pool, after, state.narrowed(base, ~pred))
    if running.caller is not None:
        calls.leave(state, running, gone, end.whole)
    if gone is None:
        state.live = Mask(state, np.zeros((1, 1, 1, 1), bool), 0)
        return
    old = state.live
    n = state.count(old) - gone.n
    state.live = Mask(state, ~gone.arr if old is None else old.arr & ~gone.arr, n)
    if len(pool) == 1 and not running.at_barriers:
        at, only = next(iter(pool.items()))
        if only is not None and only.n == n:
            pool[at] = None


def _next(state: State) -> bool:
    """Nothing runs: open gates and barriers; then let those go round who wait in a loop.

    False if no thread is left.
    """
    frames = everywhere(state)
    parked = any(f.parked for f in frames)
    if not parked and not any(f.at_gates for f in frames):
        return _release(state, stuck=True)
    opened = gates.open_complete(state) or _release(state, stuck=False)
    if opened:
        state.moved = True
        return True
    if parked:
        spinning.judge(state)
        mbarrier.dismiss(state)
        spinning.go_round(state)
    elif any(f.at_mbarriers for f in frames):
        mbarrier.time_out(state)
    else:
        gates.give_up(state)
        state.moved = True
    return True


def _release(state: State, stuck: bool) -> bool:
    """Open the barriers that are complete, report those that never are; false if there are none.

    stuck: whether no thread waits elsewhere, so that those which are not complete never will be.
    """
    frames = everywhere(state)
    waiting = any(f.at_barriers for f in frames)
    if waiting and (barriers.open_complete(state) or cluster_barriers.open_complete(state)):
        return True
    if not stuck:
        return False
    if any(f.at_mbarriers for f in frames):
        mbarrier.time_out(state)
        return True
    if any(w.barrier == ends.CLUSTER for f in frames for w in f.at_barriers):
        cluster_barriers.report(state)
    if waiting and not barriers.give_up(state):
        cluster_barriers.give_up(state)
    return waiting
