"""Who runs next: groups of threads wait at basic blocks, and the first of them goes on.

The group at the first block (in the order of `ptx.flow`) runs next; groups that reach the same place
merge. When nothing can run, gates and barriers open that are complete; then those go round once more
who wait in a loop; and what is left never will go on, which is a finding.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np

from helpers.emulator.machine import barriers, gates, mbarrier, spinning
from helpers.emulator.machine.grouping import Group, Pool, Running, Stop, go_on, push
from helpers.emulator.machine.masks import Mask, array_of
from helpers.emulator.ptx import ends

if TYPE_CHECKING:
    from helpers.emulator.machine.state import State
    from helpers.emulator.ptx.program import Block, FunctionProgram

Array = np.ndarray[Any, np.dtype[Any]]

_ZERO = {kind: np.zeros((1, 1, 1, 1), kind) for kind in ("b1", "i2", "f2", "i4", "f4", "i8", "f8")}


def run(state: State, program: FunctionProgram, frame: dict[str, Any]) -> None:
    """Run a function from its entry until every thread has left it. frame: its parameters."""
    running = Running([_ZERO[kind] for kind in program.kinds])
    registers = running.registers
    pools = go_on(state, [(0, None)])
    launch = state.launch
    counts, budget, rank = launch.counts, launch.max_steps, program.rank
    while pools:
        pool = pools[-1]
        if not pool:
            pools.pop()
            if not pools:
                pools = _next(state, running)
            continue
        at = min(pool) if rank is None else min(pool, key=rank.__getitem__)
        if len(pool) > 1:
            # Threads that have nothing left but to return do so at once: the others then are
            # all that live, and need no mask.
            at = next((e for e in program.exits if e in pool), at)
        mask = pool.pop(at)
        block = program.blocks[at]
        state.steps += block.cost
        if state.steps > budget or time.monotonic() > launch.deadline:
            spinning.out_of_steps(state, running, block.line)
        active = state.live if mask is None else mask
        counts[block.number] = counts.get(block.number, 0) + state.count_warps(active)
        result = block.run(state, registers, frame, mask, active)
        if state.ended is not None:
            mask = _without_ended(state, mask)
            if state.live is not None and state.live.n == 0:
                continue
            if mask is not None and mask.n == 0:
                continue
        _leave(state, running, pool, block, mask, result)
        if state.completed:
            mbarrier.wake(state, running, pool)
        if block.spins is not None:
            for spin in block.spins:
                spinning.set_aside(state, running, pool, spin)
        if launch.flagged:
            launch.flagged = False
            if launch.program.waits:
                spinning.hand_on(state, running, pools, active)


def _leave(
    state: State, running: Running, pool: Pool, block: Block, mask: Group, result: Any
) -> None:
    """Send the threads that have run a block where its end says; each of them goes somewhere."""
    match block.end:
        case ends.Jump(to):
            push(state, pool, to, mask)
        case ends.Branch(to, after):
            _branch(state, pool, to, after, mask, result)
        case ends.Exit(after, whole):
            if whole and state.depth:
                _end_threads(state, mask, result)
            _exit(state, running, pool, mask, result, after)
        case ends.Barrier(after):
            barriers.come(state, running, pool, _stop(after, block), mask, result)
        case ends.Table(to):
            _table(state, pool, to, mask, result)
        case ends.Poll(after):
            mbarrier.poll(state, running, pool, _stop(after, block), mask, result)
        case ends.Gate(after):
            gates.come(state, running, pool, _stop(after, block), mask, result)
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
    meant = index
    if base is not None and index.size > 1:
        shape = np.broadcast_shapes(base.arr.shape, index.shape)
        meant = index[np.broadcast_to(base.arr, shape)]
    for value in np.unique(meant):
        part = state.narrowed(base, index == value)
        if part is not None and part.n == 0:
            continue
        if state.count(part) == state.count(base):
            part = mask
        if 0 <= int(value) < len(targets):
            push(state, pool, targets[int(value)], part)


def _exit(
    state: State, running: Running, pool: Pool, mask: Group, pred: Array | None, after: int
) -> None:
    """Threads leave the function: those whose predicate holds; None: all of them."""
    base = state.within(mask)
    gone = base
    if pred is not None:
        gone = state.narrowed(base, pred)
        if gone is not None and gone.n == 0:
            push(state, pool, after, mask)
            return
        stay = state.narrowed(base, ~pred)
        if stay is None or stay.n:
            push(state, pool, after, stay)
    if gone is None:
        state.live = Mask(state, np.zeros((1, 1, 1, 1), bool), 0)
        return
    old = state.live
    n = state.count(old) - gone.n
    state.live = Mask(state, ~gone.arr if old is None else old.arr & ~gone.arr, n)
    if pred is not None and len(pool) == 1 and next(iter(pool)) == after:
        stay = pool[after]
        if stay is not None and stay.n == n and not running.waiting:
            pool[after] = None
    elif len(pool) == 1 and not running.waiting:
        at, only = next(iter(pool.items()))
        if only is not None and only.n == n:
            pool[at] = None


def _end_threads(state: State, mask: Group, pred: Array | None) -> None:
    """exit or trap in a device function: the callers lose these threads too."""
    base = state.within(mask)
    every = array_of(base if pred is None else state.narrowed(base, pred))
    state.ended = every if state.ended is None else state.ended | every


def _without_ended(state: State, mask: Group) -> Group:
    """Take threads that ended inside a call out of this frame."""
    assert state.ended is not None
    stay = ~state.ended
    state.live = state.narrowed(state.live, stay)
    if state.depth == 0:
        state.ended = None
    return None if mask is None else state.narrowed(mask, stay)


def _next(state: State, running: Running) -> list[Pool]:
    """Nothing runs: open gates and barriers; then let those go round who wait in a loop."""
    if not running.parked and not running.held:
        return _release(state, running, stuck=True)
    pools = gates.open_complete(state, running) or _release(state, running, stuck=False)
    if not pools and not running.parked:
        pools = gates.give_up(state, running)
    if pools:
        state.moved = True
        return pools
    return go_on(state, list(spinning.go_round(state, running).items()))


def _release(state: State, running: Running, stuck: bool) -> list[Pool]:
    """Open the barriers that are complete, report those that never are.

    stuck: whether no thread waits elsewhere, so that those which are not complete never will be.
    """
    pools = barriers.open_complete(state, running) if running.waiting else []
    if pools or not stuck:
        return pools
    if running.asking:
        return mbarrier.time_out(state, running)
    return barriers.give_up(state, running) if running.waiting else []
