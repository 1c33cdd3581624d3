"""mbarrier: barriers in shared memory that count arrivals and go from phase to phase.

A barrier is two words of shared memory: arrivals still missing in this phase, and the arrivals that
a phase takes together with the number of the phase. A thread that asks whether a phase is complete
is set aside while it is not, as a slow thread would be; it learns "no" only when nothing else can run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.machine import sync
from helpers.emulator.machine.access import Move, perform
from helpers.emulator.machine.accused import accuse, who
from helpers.emulator.machine.events import Access, Where
from helpers.emulator.machine.grouping import (
    Asking,
    Group,
    Pool,
    Running,
    Stop,
    answer,
    enter,
    everywhere,
    push,
    same_values,
)
from helpers.emulator.machine.masks import array_of
from helpers.emulator.machine.memory import SHARED_WINDOW, load_words, store_words
from helpers.errors import EmulationError

if TYPE_CHECKING:
    from helpers.emulator.machine.masks import Mask
    from helpers.emulator.machine.state import State

Array = np.ndarray[Any, np.dtype[Any]]

i8, u4 = np.dtype("i8"), np.dtype("u4")
_COUNT_BITS = 29  # of PTX's 20; nvcuda::experimental counts each arrival 2^15 + 1 times
_COUNT = (1 << _COUNT_BITS) - 1
_PHASES = 1 << (32 - _COUNT_BITS)
_POLLS = 64  # fruitless questions after which a phase counts as never complete
_COUNTED_POLLS = 2000  # the same where something changes from one to the next


def _touch(
    state: State, number: int, address: Array, mask: Mask | None, op: str, move: Move
) -> Any:
    """Access barriers: all but an initialisation need one that is set up. Gives what `move` gives."""
    site = state.sites[number]
    if site.space == "generic":
        address = address - SHARED_WINDOW
    meant = site.as_(space="shared", op=op, strong=op != "store")
    return perform(state, meant, address, mask, move=move)


def init_barrier(
    state: State, number: int, address: Array, count: Array, mask: Mask | None
) -> None:
    """mbarrier.init: the first phase, `count` arrivals a phase."""
    if mask is not None and mask.n == 0:
        return
    _touch(state, number, address, mask, "store", partial(_init, state, count))


def _init(state: State, count: Array, access: Access) -> None:
    where = access.where
    arr = None if where.mask is None else where.mask.arr
    expected = count.view(u4) & u4.type(_COUNT)
    wrong = count.view(u4) != expected
    wrong = wrong | (expected == 0)
    if (wrong if arr is None else wrong & arr).any():
        raise EmulationError(
            f"line {access.site.line}: mbarrier.init with a count of "
            f"{int(count[wrong].reshape(-1)[0])}: give 1 to {_COUNT} arrivals"
        )
    store_words(state.shared, where.offset, expected, arr)
    store_words(state.shared, where.offset + 4, expected, arr)
    sync.set_up(state, where)


def end_barrier(state: State, number: int, address: Array, mask: Mask | None) -> None:
    """mbarrier.inval: the memory may be used for something else; nothing is checked."""


def _flat(state: State, where: Where, *values: Array) -> list[Array]:
    """Values of the sound lanes, thread after thread."""
    full = (np.broadcast_to(v, state.shape) for v in values)
    if where.mask is None:
        return [v.reshape(-1) for v in full]
    chosen = np.broadcast_to(where.mask.arr, state.shape)
    return [v[chosen] for v in full]


def arrive(
    state: State,
    number: int,
    address: Array,
    count: Array,
    drop: bool,
    mask: Mask | None,
) -> Array:
    """mbarrier.arrive and arrive_drop: the token of the phase that each thread arrived at."""
    if mask is not None and mask.n == 0:
        return np.zeros((1, 1, 1, 1), i8)
    move = partial(_arrive, state, count, drop)
    token: Array = _touch(state, number, address, mask, "barrier", move)
    return token


def _arrive(state: State, count: Array, drop: bool, access: Access) -> Array:
    where = access.where
    full = np.zeros(state.shape, i8)
    at, block, n = _flat(state, where, where.offset, state.block_index, count.astype(i8))
    if not len(at):
        return full
    sync.arrived(state, where)
    memory = state.shared
    place = (at >> 2) * memory.ncolumns + block
    order = np.argsort(place, kind="stable")  # barrier by barrier, thread by thread
    fresh = np.r_[True, place[order][1:] != place[order][:-1]]
    first, group = np.flatnonzero(fresh), np.cumsum(fresh) - 1
    barrier = place[order][first]
    amount = n[order]
    before = np.cumsum(amount) - amount
    before -= before[first][group]
    pending = memory.flat[barrier].astype(i8)
    state_word = memory.flat[barrier + memory.ncolumns].astype(i8)
    expected, phase = state_word & _COUNT, state_word >> _COUNT_BITS
    total = np.add.reduceat(amount, first)
    if drop:
        expected = np.maximum(expected - total, 0)
    whole = np.maximum(expected, 1)
    done = np.where(total < pending, 0, 1 + (total - pending) // whole)
    left = np.where(done > 0, expected - (total - pending) % whole, pending - total)
    mine = before - pending[group]
    own = phase[group] + np.where(mine < 0, 0, 1 + mine // whole[group])
    memory.flat[barrier] = left.astype(u4)
    memory.flat[barrier + memory.ncolumns] = (
        expected | ((phase + done) % _PHASES << _COUNT_BITS)
    ).astype(u4)
    # What was missing before each arrival: of those past the end of a phase, in the one that follows.
    missing = np.where(mine < 0, -mine, whole[group] - mine % whole[group])
    token = np.empty(len(order), i8)
    token[order] = (own % _PHASES) << 32 | missing
    if done.any():
        complete = np.zeros(memory.flat.shape, bool)
        complete[barrier] = done > 0
        state.completed = True
        sync.completed(state, complete.reshape(memory.data.shape))
    if where.mask is None:
        full[...] = token.reshape(state.shape)
    else:
        full[np.broadcast_to(where.mask.arr, state.shape)] = token
    return full


def pending_count(token: Array) -> Array:
    """mbarrier.pending_count: arrivals that were missing when the token was given."""
    return (token & 0xFFFFFFFF).astype("i4")


def async_arrive(
    state: State, number: int, address: Array, counted: bool, mask: Mask | None
) -> None:
    """cp.async.mbarrier.arrive: the phase is not complete before the thread's copies are.

    counted: .noinc, the arrival is one of those that the barrier counts; else it comes on top of
    them, and the phase waits for it.
    """
    if mask is not None and mask.n == 0:
        return
    one = np.ones((1, 1, 1, 1), "i4")
    _touch(state, number, address, mask, "barrier", partial(_track, state, one, counted))


def _track(state: State, one: Array, counted: bool, access: Access) -> None:
    where = access.where
    if counted:
        phase = _arrive(state, one, False, access) >> 32
    else:
        phase = _phase(state, where.offset)
        sync.arrived(state, where)
    if state.copies is not None:
        state.copies.track(where.offset, phase, where.mask)


def _phase(state: State, offset: Array) -> Array:
    word = load_words(state.shared, offset + 4, u4)
    return word.astype(i8) >> _COUNT_BITS


def _complete(state: State, asking: Asking) -> Array:
    now = _phase(state, asking.offset)
    if asking.parity:
        return np.asarray((now & 1) != (asking.want & 1))
    return np.asarray(now != (asking.want >> 32))


def poll(
    state: State,
    running: Running,
    pool: Pool,
    stop: Stop,
    mask: Group,
    result: tuple[int, Array, Array, bool, int],
) -> None:
    """mbarrier.test_wait and try_wait: threads whose phase is complete go on, others are set aside."""
    number, address, want, parity, register = result
    offset: Array = _touch(
        state, number, address, state.within(mask), "barrier", lambda a: a.where.offset
    )
    _sort(state, running, pool, Asking(stop, mask, offset, want.astype(i8), parity, register))


def _sort(state: State, running: Running, pool: Pool, asking: Asking) -> None:
    base = state.within(asking.mask)
    done = _complete(state, asking)
    go = state.narrowed(base, done)
    if go is not None and go.n == 0:
        running.asking.append(asking)
        return
    if state.count(go) == state.count(base):
        _resume(state, running, pool, asking, asking.mask)
        return
    _resume(state, running, pool, asking, go)
    running.asking.append(replace(asking, mask=state.narrowed(base, ~done)))


def _resume(state: State, running: Running, pool: Pool, asking: Asking, mask: Group) -> None:
    """Threads learn that their phase is complete."""
    base = state.within(mask)
    if state.copies is not None:
        state.copies.phase_over(asking.offset, base, _phase)
    sync.acquired(state, asking.offset, base)
    answer(running, asking.register, mask, np.ones((1, 1, 1, 1), bool))
    push(state, pool, asking.stop.resume, mask)


def wake(state: State) -> bool:
    """A phase was completed: threads that waited for it go on; false if none did."""
    state.completed = False
    woken = False
    for running in everywhere(state):
        if running.asking:
            enter(state, running)
            asking, running.asking = running.asking, []
            if not running.pools:
                running.pools.append({})
            pool = running.pools[-1]
            for p in asking:
                _sort(state, running, pool, p)
            woken = woken or bool(pool)
    if woken:
        state.fruitless = 0
    return woken


def time_out(state: State) -> None:
    """Nothing else can run: threads that wait learn that their phase is not complete.

    If they come back again and again as they were it never will be: that is a finding, and they go on.
    Threads that count how often they asked have more patience.
    """
    registers = [value for running in everywhere(state) for value in running.registers]
    changed = state.fruitless == 0 or not same_values(state.asked_with, registers)
    state.asked_with = registers
    state.fruitless += 1
    state.alike = 1 if changed else state.alike + 1
    never = state.alike > _POLLS or state.fruitless > _COUNTED_POLLS
    if never:
        state.fruitless = 0
    dismiss(state, never)


def dismiss(state: State, never: bool = False) -> None:
    """Threads that wait go on as if their phase were not complete; or as if it were, with a finding."""
    for running in everywhere(state):
        if not running.asking:
            continue
        enter(state, running)
        asking, running.asking = running.asking, []
        pool: Pool = {}
        for p in asking:
            if never:
                _report(state, p)
            answer(running, p.register, state.within(p.mask), np.full((1, 1, 1, 1), never))
            push(state, pool, p.stop.resume, p.mask)
        running.pools.append(pool)


def _report(state: State, asking: Asking) -> None:
    lane = who(state, array_of(asking.mask))
    at = lane.value(asking.offset)
    words = state.shared.data[at >> 2 : (at >> 2) + 2, lane.column]
    name, where = state.shared_name(at)
    missing, takes = int(words[0]), int(words[1]) & _COUNT
    accuse(
        "divergent-barrier",
        asking.stop.line,
        lane,
        f"{lane} waits at {where} for a phase that never completes: {missing} of its {takes} arrivals "
        "are missing. Let as many threads arrive as the barrier was initialised with, before they wait "
        "for others",
        array=name,
        index=where,
    )
