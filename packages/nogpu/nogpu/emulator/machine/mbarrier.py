"""mbarrier: barriers in shared memory that count arrivals and go from phase to phase.

A barrier is two words of shared memory: arrivals still missing in this phase, and the arrivals that
a phase takes together with the number of the phase. Beside them stands how many bytes a phase still
waits for (`State.tx_count`): those announced less those that copies have brought, which may come
first. A phase is complete when nothing is missing of either. A thread that asks whether a phase is
complete is set aside while it is not, as a slow thread would be; it learns "no" only when nothing
else can run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine import sync
from nogpu.emulator.machine.access import Move, perform
from nogpu.emulator.machine.attribution import Offender, accuse, first_offender, offender_among
from nogpu.emulator.machine.events import Access, Where
from nogpu.emulator.machine.grouping import (
    Group,
    PhaseWait,
    Pool,
    Running,
    Stop,
    answer,
    enter,
    everywhere,
    push,
    same_values,
)
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import Mask, array_of, flat_lanes
from nogpu.emulator.ptx.layout import SHARED_WINDOW
from nogpu.errors import EmulationError

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site


i8, u4 = np.dtype("i8"), np.dtype("u4")
_COUNT_BITS = 29  # of PTX's 20; nvcuda::experimental counts each arrival 2^15 + 1 times
_COUNT = (1 << _COUNT_BITS) - 1
_PHASES = 1 << (32 - _COUNT_BITS)
_ONE = np.ones((1, 1, 1, 1), "i4")
_POLLS = 64  # fruitless questions after which a phase counts as never complete
_COUNTED_POLLS = 2000  # the same where something changes from one to the next


def _touch(
    state: State, number: int, address: Array, mask: Mask | None, op: str, move: Move
) -> Any:
    """Access barriers; gives what `move` gives."""
    site = state.sites[number]
    if site.space == "generic":
        address = _of_shared(state, site, address, mask)
    shared_site = site.as_(space="shared", op=op, strong=op != "store")
    return perform(state, shared_site, address, mask, move=move)


def _of_shared(state: State, site: Site, address: Array, mask: Mask | None) -> Array:
    """Addresses in shared memory of generic ones.

    Who gives an instruction without .shared an address of shared memory is told, and obeyed:
    tcgen05.commit reaches the mbarrier on a GPU, though PTX leaves open what it does.
    """
    base, size = state.launch.program.shared_base, state.launch.shared_bytes
    place = address + (site.offset - base)
    plain = (place >= 0) & (place < size)
    wrong = np.broadcast_to(plain if mask is None else plain & mask.arr, state.shape)
    if wrong.any():
        lane = first_offender(state, wrong)
        accuse(
            "out-of-bounds",
            site.line,
            lane,
            f"{lane} gives an address of shared memory, {lane.value(place) + base:#x}, to an "
            "instruction that takes a generic one. Write .shared::cta (of tcgen05.commit "
            ".shared::cluster) into the instruction, or give it the pointer without "
            "__cvta_generic_to_shared",
        )
    return np.where(plain, address, address - SHARED_WINDOW)


def init_barrier(
    state: State, number: int, address: Array, count: Array, mask: Mask | None
) -> None:
    """mbarrier.init: the first phase, `count` arrivals a phase."""
    _touch(state, number, address, mask, "store", partial(_init, state, count))


def _init(state: State, count: Array, access: Access) -> None:
    where = access.where
    arr = where.lanes
    expected = count.view(u4) & u4.type(_COUNT)
    invalid = ((count.view(u4) != expected) | (expected == 0)) & (True if arr is None else arr)
    if invalid.any():
        raise EmulationError(
            f"line {access.site.line}: mbarrier.init with a count of "
            f"{int(np.broadcast_to(count, invalid.shape)[invalid][0])}: give 1 to {_COUNT} arrivals"
        )
    state.shared.store(where.offset, (expected, expected), arr)
    if state.tx_count is not None:
        state.tx_count[_index(state, *_barriers(state, where))] = 0
    for o in state.observers:
        o.set_up(where, access.site.line)


def end_barrier(state: State, number: int, address: Array, mask: Mask | None) -> None:
    """mbarrier.inval: the memory may be used for something else; nothing is checked."""


def _barriers(state: State, where: Where, *values: Array) -> list[Array]:
    """Of the sound lanes, flat: each one's barrier (its byte offset and its block) and values."""
    owner = state.block_index if where.owner is None else where.owner
    return flat_lanes(state, where.mask, where.offset, owner, *values)


def _index(state: State, at: Array, block: Array) -> Array:
    """Places of barriers, by byte offset and block, in shared memory as one row of words."""
    return (at >> 2) * state.shared.ncolumns + block


def _counts(state: State, barrier: Array) -> tuple[Array, Array, Array]:
    """By `_index`: arrivals missing, those that a phase takes, number of the phase; int64."""
    memory = state.shared
    second = memory.flat[barrier + memory.ncolumns].astype(i8)
    return memory.flat[barrier].astype(i8), second & _COUNT, second >> _COUNT_BITS


def _set_counts(state: State, barrier: Array, missing: Array, takes: Array, phase: Array) -> None:
    """Inverse of `_counts`."""
    memory = state.shared
    memory.flat[barrier] = missing.astype(u4)
    memory.flat[barrier + memory.ncolumns] = (takes | phase % _PHASES << _COUNT_BITS).astype(u4)


def arrive(
    state: State, number: int, address: Array, count: Array, drop: bool, mask: Mask | None
) -> Array:
    """mbarrier.arrive and arrive_drop: the token of the phase that each thread arrived at."""
    move = partial(_arrive, state, count, drop)
    token: Array = _touch(state, number, address, mask, "barrier", move)
    return token


def arrive_behind(state: State, number: int, address: Array, mask: Mask | None) -> None:
    """tcgen05.commit: one arrival behind the products that each thread has issued.

    It is theirs, not the thread's: what that knows does not go with it.
    """

    def move(access: Access) -> None:
        who = _barriers(state, access.where, state.thread, state.block_index)
        for o in state.observers:
            o.tensor_committed(*who)
        _arrive(state, _ONE, False, access, own=False)

    _touch(state, number, address, mask, "commit", move)


def _arrive(state: State, count: Array, drop: bool, access: Access, own: bool = True) -> Array:
    """own: the threads arrive, and what they know with them."""
    where = access.where
    full = np.zeros(state.shape, i8)
    at, block, n = _barriers(state, where, count.astype(i8))
    if not len(at):
        return full
    place = _index(state, at, block)
    order = np.argsort(place, kind="stable")  # barrier by barrier, thread by thread
    fresh = np.r_[True, place[order][1:] != place[order][:-1]]
    first, group = np.flatnonzero(fresh), np.cumsum(fresh) - 1
    barrier = place[order][first]
    amount = n[order]
    before = np.cumsum(amount) - amount
    before -= before[first][group]
    pending, expected, phase = _counts(state, barrier)
    total = np.add.reduceat(amount, first)
    if drop:
        expected = np.maximum(expected - total, 0)
    whole = np.maximum(expected, 1)
    done = np.where(total < pending, 0, 1 + (total - pending) // whole)
    remaining = np.where(done > 0, expected - (total - pending) % whole, pending - total)
    if state.tx_count is not None:
        # All have arrived and bytes are missing: the phase waits for them with no arrival left to
        # come.
        waits = (state.tx_count[barrier] != 0) & (total >= pending)
        _too_many(state, access, waits & (total > pending), order[first], where)
        done, remaining = np.where(waits, 0, done), np.where(waits, 0, remaining)
    mine = before - pending[group]
    later = np.where(mine < 0, 0, 1 + mine // whole[group])  # phases after the one under way
    _set_counts(state, barrier, remaining, expected, phase + done)
    # What was missing before each arrival: of those past the end of a phase, in the one that
    # follows.
    missing = np.where(mine < 0, -mine, whole[group] - mine % whole[group])
    token = np.empty(len(order), i8)
    token[order] = ((phase[group] + later) % _PHASES) << 32 | missing
    over = done > 0
    late = np.empty(len(order), bool)  # arrivals of a phase that goes on where others are over
    late[order] = over[group] & (later >= done[group])
    if own and not late.any():
        sync.arrived(state, access)
    elif own and not late.all():
        sync.arrived(state, _of_lanes(state, access, ~late))
    if over.any():
        _over(state, barrier[over])
    if own and late.any():
        sync.arrived(state, _of_lanes(state, access, late))
    _to_lanes(state, where.mask, full, token)
    return full


def _to_lanes(state: State, mask: Mask | None, full: Array, values: Array) -> None:
    """Put flat values, one a lane of a mask, into an array of four axes."""
    if mask is None:
        full[...] = values.reshape(state.shape)
    else:
        full[np.broadcast_to(mask.arr, state.shape)] = values


def _of_lanes(state: State, access: Access, which: Array) -> Access:
    """An access by some of its sound lanes alone: bool, flat."""
    lanes, where = np.zeros(state.shape, bool), access.where
    _to_lanes(state, where.mask, lanes, which)
    return replace(access, where=Where(where.target, where.offset, state.mask(lanes), where.owner))


def _over(state: State, places: Array) -> None:
    """Phases of barriers, by `_index`, are complete: those who wait may look again."""
    complete = np.zeros(state.shared.flat.shape, bool)
    complete[places] = True
    state.completed = True
    for o in state.observers:
        o.complete(complete.reshape(state.shared.data.shape))


def _too_many(state: State, access: Access, bad: Array, lane: Array, where: Where) -> None:
    """More threads arrive in a phase than it takes, while bytes are missing."""
    if not bad.any():
        return
    thread, column, at = flat_lanes(
        state, where.mask, state.thread, state.block_index, where.offset
    )
    i = int(lane[int(np.argmax(bad))])
    one = Offender(state, int(thread[i]), int(column[i]), int(np.count_nonzero(bad)))
    name, place = state.shared_name(int(at[i]))
    accuse(
        "divergent-barrier",
        access.site.line,
        one,
        f"{one} arrives at {place} although all arrivals of this phase have come and bytes that "
        "were announced have not: a phase takes as many arrivals as mbarrier.init said. Wait for "
        "the phase before you arrive again",
        array=name,
        index=place,
    )


# -- bytes ---------------------------------------------------------------------------------------

_MOST_BYTES = (1 << 20) - 1
"""What the count of bytes of a phase may reach (PTX ISA, mbarrier: Tracking asynchronous
operations, tx-count).
"""


def _tx_counts(state: State) -> Array:
    if state.tx_count is None:
        state.tx_count = np.zeros(state.shared.flat.shape, i8)
    return state.tx_count


def _announced(state: State, access: Access, count: Array) -> list[Array]:
    """Barrier and its block, bytes, thread and its block, of the sound lanes: flat."""
    nbytes = count.view(u4).astype(i8)
    return _barriers(state, access.where, nbytes, state.thread, state.block_index)


def expect_bytes(
    state: State, number: int, address: Array, count: Array, mask: Mask | None
) -> None:
    """mbarrier.expect_tx: the phase waits for so many more bytes."""
    _touch(state, number, address, mask, "barrier", partial(_expect, state, count))


def arrive_expecting(
    state: State, number: int, address: Array, count: Array, mask: Mask | None
) -> Array:
    """mbarrier.arrive.expect_tx: announces bytes, then arrives once; the token of the phase."""

    def move(access: Access) -> Array:
        _expect(state, count, access)
        return _arrive(state, _ONE, False, access)

    token: Array = _touch(state, number, address, mask, "barrier", move)
    return token


def _expect(state: State, count: Array, access: Access) -> None:
    at, block, n, thread, column = _announced(state, access, count)
    if not len(at):
        return
    place, waiting = _index(state, at, block), _tx_counts(state)
    np.add.at(waiting, place, n)
    state.tx_lines |= dict.fromkeys(at.tolist(), access.site.line)
    bad = (n > _MOST_BYTES) | (np.abs(waiting[place]) > _MOST_BYTES)
    if bad.any():
        i, lane = offender_among(state, thread, column, bad)
        name, index = state.shared_name(int(at[i]))
        accuse(
            "divergent-barrier",
            access.site.line,
            lane,
            f"{lane} announces {n[i]} bytes at {index}, which makes {waiting[place[i]]} in this "
            f"phase: the count of a barrier holds at most {_MOST_BYTES}. Announce the bytes of "
            "one slot a phase",
            array=name,
            index=index,
        )


def complete_bytes(
    state: State, site: Site, at: Array, block: Array, count: Array, thread: Array, column: Array
) -> None:
    """Copies have brought bytes: flat arrays of the barriers' offsets and blocks, the bytes, and
    who asked. Phases of which nothing is missing any more are complete.
    """
    bad = (at < 0) | (at + 8 > state.launch.shared_bytes) | (at % 8 != 0)
    if bad.any():
        i, lane = offender_among(state, thread, column, bad)
        accuse(
            "out-of-bounds",
            site.line,
            lane,
            f"{lane} names an mbarrier at byte {at[i]} of shared memory: one lies at a multiple of "
            f"8 bytes inside the {state.launch.shared_bytes} of the block",
        )
        at, block, count = at[~bad], block[~bad], count[~bad]
    waiting, place = _tx_counts(state), _index(state, at, block)
    np.subtract.at(waiting, place, count)
    place = np.unique(place)
    missing, takes, _ = _counts(state, place)
    done = place[(waiting[place] == 0) & (missing == 0) & (takes > 0)]
    if len(done):
        _, takes, phase = _counts(state, done)
        _set_counts(state, done, takes, takes, phase + 1)
        _over(state, done)


def complete_tx(state: State, number: int, address: Array, count: Array, mask: Mask | None) -> None:
    """mbarrier.complete_tx: as if a copy had brought so many bytes."""

    def move(access: Access) -> None:
        at, block, n, thread, column = _announced(state, access, count)
        sync.arrived(state, access)
        complete_bytes(state, access.site, at, block, n, thread, column)

    _touch(state, number, address, mask, "barrier", move)


def report_missing_bytes(state: State) -> None:
    """The blocks end: report counts of bytes that are not zero, so were announced wrongly."""
    if state.tx_count is None or not state.tx_count.any():
        return
    for place in np.flatnonzero(state.tx_count):
        row, column = divmod(int(place), state.shared.ncolumns)
        at, missing = 4 * row, int(state.tx_count[place])
        line = state.tx_lines.get(at, 0)
        name, index = state.shared_name(at)
        what = _bytes_off(missing)
        if missing < 0:
            what += ": a phase ended before all its bytes had landed"
        state.find(
            "divergent-barrier",
            line,
            f"{index} of block {state.block_tuple(column)}: at the end of the block {what}. "
            "Announce the bytes of the copies that name this barrier, no more and no fewer "
            "(mbarrier.expect_tx)",
            1,
            array=name,
            index=index,
            block=state.block_tuple(column),
        )


def _bytes_off(missing: int) -> str:
    """What is wrong with a count of bytes that is not zero."""
    if missing > 0:
        return f"{missing} bytes that were announced have not come"
    return f"{-missing} bytes more have come than were announced"


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
    _touch(state, number, address, mask, "barrier", partial(_track, state, counted))


def _track(state: State, counted: bool, access: Access) -> None:
    where = access.where
    if counted:
        phase = _arrive(state, _ONE, False, access) >> 32
    else:
        phase = _phase(state, where.offset)
        sync.arrived(state, access)
    if state.copies is not None:
        state.copies.track(where.offset, phase, where.mask)


def _phase(state: State, offset: Array) -> Array:
    (word,) = state.shared.load(offset + 4, u4)
    return word.astype(i8) >> _COUNT_BITS


def _complete(state: State, wait: PhaseWait) -> Array:
    now = _phase(state, wait.offset)
    return np.asarray((now & 1 != wait.want & 1) if wait.parity else now != wait.want >> 32)


def poll(
    state: State,
    running: Running,
    pool: Pool,
    stop: Stop,
    mask: Group,
    result: tuple[int, Array, Array, bool, int],
) -> None:
    """mbarrier.test_wait and try_wait: threads go on if their phase is complete, else wait."""
    number, address, want, parity, register = result
    offset: Array = _touch(
        state, number, address, state.within(mask), "barrier", lambda a: a.where.offset
    )
    relaxed = state.sites[number].relaxed
    wait = PhaseWait(stop, mask, offset, want.astype(i8), parity, register, relaxed)
    _sort(state, running, pool, wait)


def _sort(state: State, running: Running, pool: Pool, wait: PhaseWait) -> None:
    base = state.within(wait.mask)
    done = _complete(state, wait)
    go = state.narrowed(base, done)
    if go is not None and go.n == 0:
        running.at_mbarriers.append(wait)
        return
    everyone = state.count(go) == state.count(base)
    _resume(state, running, pool, wait, wait.mask if everyone else go)
    if not everyone:
        running.at_mbarriers.append(replace(wait, mask=state.narrowed(base, ~done)))


def _resume(state: State, running: Running, pool: Pool, wait: PhaseWait, mask: Group) -> None:
    """Threads learn that their phase is complete."""
    base = state.within(mask)
    if state.copies is not None:
        state.copies.phase_over(wait.offset, base, _phase)
    for o in state.observers:
        o.acquire(wait.offset, base, wait.relaxed)
    answer(running, wait.register, mask, np.ones((1, 1, 1, 1), bool))
    push(state, pool, wait.stop.resume, mask)


def wake(state: State) -> None:
    """A phase was completed: threads that waited for it go on."""
    state.completed = False
    for running in everywhere(state):
        if running.at_mbarriers:
            enter(state, running)
            waits, running.at_mbarriers = running.at_mbarriers, []
            if not running.pools:
                running.pools.append({})
            pool = running.pools[-1]
            for p in waits:
                _sort(state, running, pool, p)
            if pool:
                state.failed_polls = 0


def time_out(state: State) -> None:
    """Nothing else can run: threads that wait learn that their phase is not complete.

    If they come back again and again as they were it never will be: that is a finding, and they go
    on. Threads that count how often they asked have more patience.
    """
    registers = [value for running in everywhere(state) for value in running.registers]
    changed = state.failed_polls == 0 or not same_values(state.last_registers, registers)
    state.last_registers = registers
    state.failed_polls += 1
    state.unchanged_polls = 1 if changed else state.unchanged_polls + 1
    never = state.unchanged_polls > _POLLS or state.failed_polls > _COUNTED_POLLS
    if never:
        state.failed_polls = 0
    dismiss(state, never)


def dismiss(state: State, never: bool = False) -> None:
    """Threads that wait go on as if their phase were not complete; never: as if it were."""
    for running in everywhere(state):
        if not running.at_mbarriers:
            continue
        enter(state, running)
        waits, running.at_mbarriers = running.at_mbarriers, []
        pool: Pool = {}
        for p in waits:
            if never:
                _report(state, p)
            answer(running, p.register, state.within(p.mask), np.full((1, 1, 1, 1), never))
            push(state, pool, p.stop.resume, p.mask)
        running.pools.append(pool)


def _report(state: State, wait: PhaseWait) -> None:
    lane = first_offender(state, array_of(state.within(wait.mask)))
    at = lane.value(wait.offset)
    words = state.shared.data[at >> 2 : (at >> 2) + 2, lane.column]
    name, where = state.shared_name(at)
    missing, takes = int(words[0]), int(words[1]) & _COUNT
    bytes_missing = 0
    if state.tx_count is not None:
        bytes_missing = int(state.tx_count[(at >> 2) * state.shared.ncolumns + lane.column])
    cure = (
        "Let as many threads arrive as the barrier was initialised with, before they wait for "
        "others"
    )
    lacks = f"{missing} of its {takes} arrivals are missing"
    if bytes_missing:
        lacks += f", and {_bytes_off(bytes_missing)}"
        cure = (
            "Announce in each phase the bytes that the copies naming this barrier bring: of whole "
            "boxes, also where they reach over the edge"
        )
    accuse(
        "divergent-barrier",
        wait.stop.line,
        lane,
        f"{lane} waits at {where} for a phase that never completes: {lacks}. {cure}",
        array=name,
        index=where,
    )
