"""Loops that wait: their threads are set aside, go round again, or wait for ever.

Threads that go round a loop which waits for others (see `ptx.waits`) are set aside when nothing has
changed for them, and go round again when nothing else can run: so all threads of a launch get on,
whoever waits for whom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine import warp
from nogpu.emulator.machine.attribution import first_offender
from nogpu.emulator.machine.grouping import (
    Group,
    Pool,
    Round,
    Running,
    everywhere,
    go_on,
    push,
    same_bits,
    same_group,
    same_values,
)
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import array_of
from nogpu.emulator.machine.state import State, StepBudgetError

if TYPE_CHECKING:
    from nogpu.emulator.ptx.program import Spin


_PATIENCE = 64  # rounds of a loop made for waiting after which its threads let others run
_IDLE = 20_000  # rounds in which threads wait, count, and nothing else happens


@dataclass(frozen=True)
class Snapshot:
    """All there is when threads go round a loop: memory, who waits where, registers."""

    memory: object
    groups: list[tuple[Running, int, Group]]
    registers: list[Array]

    def alike(self, other: Snapshot) -> bool:
        """Whether the same threads wait at the same places, and memory is as it was."""
        return (
            self.memory is other.memory
            and len(self.registers) == len(other.registers)
            and len(self.groups) == len(other.groups)
            and all(
                f is g and at == there and same_group(a, b)
                for (f, at, a), (g, there, b) in zip(self.groups, other.groups, strict=True)
            )
        )


def set_aside(state: State, running: Running, pool: Pool, spin: Spin) -> None:
    """Threads have gone back to the start of a loop that waits: set aside those it did not change.

    What their registers held a round ago they hold now, so they go on only when another thread
    has changed memory. Loops that also count (tries, a growing pause) have some patience.
    """
    if spin.head not in pool:
        running.rounds.pop(spin.head, None)
        return
    base = state.within(pool[spin.head])
    arr = array_of(base)
    values = [running.registers[n] for n in spin.registers]
    old = running.rounds.get(spin.head)
    count = 1 if old is None else old.count + 1
    running.rounds[spin.head] = Round(arr, values, count)
    if old is None:
        return
    same = arr
    if not spin.strong or count <= _PATIENCE:
        same = arr & old.arr
        for now, then in zip(values, old.values, strict=True):
            if now is not then:
                same = same & same_bits(now, then)
            if not same.any():
                return
    aside = state.narrowed(base, same)
    if aside is not None and aside.n == 0:
        return
    push(state, running.parked, spin.head, aside)
    running.spins[spin.head] = spin
    del pool[spin.head]
    if aside is not None:
        push(state, pool, spin.head, state.narrowed(base, ~same))


def hand_on(state: State, running: Running, mask: Group) -> None:
    """A flag was set: the other warps go on first, above all those that wait for flags.

    So what they do comes before what the setter does next, and accesses that only the setter's
    haste would keep apart meet.
    """
    if state.launch.schedule != "ascending" and state.launch.rng.random() < 0.5:
        return
    own = state.lanes_active(mask).any(axis=1, keepdims=True)
    shape = (state.warp_shape.warps, 32, state.blocks)
    others = ~warp.threads(state, np.broadcast_to(own, shape))
    first, running.parked = running.parked, {}
    pools = running.pools
    pool = pools[-1]
    for at, group in list(pool.items()):
        base = state.within(group)
        part = state.narrowed(base, others)
        if part is not None and part.n == 0:
            continue
        push(state, first, at, part)
        del pool[at]
        push(state, pool, at, state.narrowed(base, ~others))
    if first:
        pools.append(first)


def judge(state: State) -> None:
    """Nothing else can run but those who wait in loops.

    Raises StepBudgetError, with a finding, if their last round has changed nothing.
    """
    frames = everywhere(state)
    groups = [
        *((f, at, mask) for f in frames for at, mask in f.parked.items()),
        *((f, p.stop.resume, p.mask) for f in frames for p in f.at_mbarriers),
    ]
    now = Snapshot(state.launch.memory, groups, [v for f in frames for v in f.registers])
    if _nothing_changed(state, now) and state.idle in (1, _IDLE):
        _deadlock(state)
    state.snapshot, state.moved = now, False


def go_round(state: State) -> None:
    """Let those who wait in loops go round once more."""
    for running in everywhere(state):
        if running.parked:
            groups, running.parked = running.parked, {}
            go_on(state, running, list(groups.items()))


def _nothing_changed(state: State, now: Snapshot) -> bool:
    """Whether all is as it was a round ago. Sets idle: 1 if to the last bit, else rounds so far
    in which only registers changed."""
    then = state.snapshot
    if then is None or state.moved or not then.alike(now):
        state.idle = 0
        return False
    state.idle = 1 if same_values(then.registers, now.registers) else max(state.idle, 1) + 1
    return True


def _who_waits(state: State) -> tuple[int, str]:
    """(line, words): which threads wait, and where."""
    parts, line = [], 0
    frames = everywhere(state)
    places = [
        (f.spins[at].line, "in the loop at", f, m) for f in frames for at, m in f.parked.items()
    ]
    places += [(h.stop.line, "for their warp at", f, h.mask) for f in frames for h in f.at_gates]
    places += [(w.stop.line, "at the barrier of", f, w.mask) for f in frames for w in f.at_barriers]
    places += [
        (p.stop.line, "for an mbarrier at", f, p.mask) for f in frames for p in f.at_mbarriers
    ]
    for at, where, running, mask in places:
        lane = first_offender(state, array_of(running.live if mask is None else mask))
        more = f" and {lane.count - 1} more" if lane.count > 1 else ""
        parts.append(f"{lane}{more} {where} line {at}")
        line = line or at
    return line, "; ".join(parts)


def _deadlock(state: State) -> None:
    """Threads wait for what nobody does: say who, and stop."""
    line, those = _who_waits(state)
    launch = state.launch
    frames = everywhere(state)
    masks = [f.live if m is None else m for f in frames for m in f.parked.values()]
    block = first_offender(state, array_of(masks[0])).block
    stopped = "The launch was stopped; its results are incomplete"
    if any(f.spins[at].endless for f in frames for at in f.parked):
        state.find(
            "step-budget",
            line,
            f"an endless loop, which nothing leads out of: {those}. If it is to wait for a flag, "
            "the compiler has read that once, before the loop: declare it volatile, or read it by "
            f"an atomic operation. {stopped}",
            1,
            block=block,
        )
        raise StepBudgetError
    why = "No thread that runs changes what they wait for"
    if launch.sampled:
        why += (
            ". Only a sample of the blocks was run: the one that does may not be among them. "
            "Run the whole grid"
        )
    elif launch.remaining:
        why += (
            f", and {launch.remaining} blocks of higher index have not been started: "
            f"{launch.together}. A block may wait for a higher one only if a GPU holds both at "
            "the same time. Launch no more blocks than it does, or wait for lower ones"
        )
    else:
        why += ". Check who sets the flag or gives the lock back, and whether it can get there"
    state.find(
        "deadlock",
        line,
        f"all threads that are left wait: {those}. {why}. {stopped}",
        1,
        block=block,
    )
    raise StepBudgetError


def _hint_of_few_threads(state: State) -> str:
    """What to say of a launch of less than a warp."""
    if state.lanes >= 32 or state.launch.remaining:
        return ""
    return (
        f", but a step takes as long for {state.lanes} thread(s) as for thousands: share the loops "
        "among more threads, or make them shorter"
    )


def out_of_steps(state: State, line: int) -> None:
    """The budget of the launch is used up: say where, and stop."""
    launch = state.launch
    what, limit = (
        (f"more than {launch.max_steps} instructions were run one after the other", "max_steps")
        if state.steps > launch.max_steps
        else ("the time limit is reached", "max_seconds")
    )
    waits = any(f.parked or f.at_gates for f in everywhere(state))
    state.find(
        "step-budget",
        line,
        f"{what} and the threads are still here: an endless loop, or a launch too large. The "
        "launch was stopped; its results are incomplete. If it is no endless loop, give "
        f"a larger {limit}"
        + _hint_of_few_threads(state)
        + (f". Waiting: {_who_waits(state)[1]}" if waits else ""),
        1,
    )
    raise StepBudgetError
