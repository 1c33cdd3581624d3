"""Groups of threads: at which basic block they are, or what they wait for.

A group is a mask; None stands for all threads that live in the function that is run. Blocks are named
by their place in the text of the function.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.machine.masks import Mask

if TYPE_CHECKING:
    from helpers.emulator.machine.state import State
    from helpers.emulator.ptx.program import Spin

Array = np.ndarray[Any, np.dtype[Any]]
Group = Mask | None
Pool = dict[int, Group]
"""The groups that may run, by the block that comes next; those that reach one place are one."""


@dataclass(frozen=True)
class Stop:
    """Where threads wait. resume: the block that they go on to; line, place: where that is in the source."""

    resume: int
    line: int
    place: tuple[str, ...] = ()  # as `Block.end_place`


@dataclass(eq=False)
class Waiting:
    """Threads that wait at a barrier."""

    barrier: int  # its number
    stop: Stop
    mask: Group
    expected: Array | None  # threads it takes, or None for all of the block
    reduce: tuple[str, int, Array] | None = None  # (operation, register, predicate)


@dataclass
class Asking:
    """Threads that wait for a phase of an mbarrier."""

    stop: Stop
    mask: Group
    offset: Array  # of the barrier
    want: Array  # the phase's token or parity
    parity: bool
    register: int  # that takes the answer


@dataclass
class Held:
    """Lanes that wait where their whole warp acts together. member: the lanes that each names."""

    stop: Stop
    mask: Group
    member: Array  # int64 (warps, 32, blocks)


@dataclass
class Round:
    """The last time that threads went round a loop that waits: who, with what, how often so far."""

    arr: Array
    values: list[Array]
    count: int


@dataclass
class Running:
    """One function that is run: its registers, and its threads that wait."""

    registers: list[Any]
    waiting: list[Waiting] = field(default_factory=list)  # at barriers
    asking: list[Asking] = field(default_factory=list)  # for phases of mbarriers
    held: list[Held] = field(default_factory=list)  # for lanes of their warp
    parked: Pool = field(default_factory=dict)  # in loops that wait, by their head
    spins: dict[int, Spin] = field(default_factory=dict)  # these loops, by their head
    rounds: dict[int, Round] = field(default_factory=dict)
    still: tuple[Any, ...] | None = None  # all there was when they last went round


def push(state: State, pool: Pool, at: int, mask: Group) -> None:
    """Send threads to a block, to those that are there already."""
    if at not in pool:
        pool[at] = mask
        return
    other = pool[at]
    if mask is None or other is None:
        pool[at] = None
        return
    union = Mask(state, mask.arr | other.arr, mask.n + other.n)
    pool[at] = None if union.n == state.count(state.live) else union


def answer(running: Running, register: int, mask: Group, value: Array) -> None:
    """Put a value into a register of the threads of a mask."""
    registers = running.registers
    registers[register] = value if mask is None else np.where(mask.arr, value, registers[register])


def go_on(state: State, groups: list[tuple[int, Group]]) -> list[Pool]:
    """Pools for groups that may run again: one, or under another schedule one for each set of warps."""
    if state.launch.schedule != "ascending" and state.depth == 0:
        return _by_warps(state, groups)
    pool: Pool = {}
    for at, mask in groups:
        push(state, pool, at, mask)
    return [pool]


def _by_warps(state: State, groups: list[tuple[int, Group]]) -> list[Pool]:
    """Split groups by warp into a few sets that run one after the other, in random order."""
    warps = state.warp_shape.warps
    sets = min(4, warps)
    order = state.launch.rng.permutation(np.arange(warps) % sets)
    choice = order[np.arange(state.warp_shape.threads) // 32].reshape(state.rows, state.x, 1, 1)
    pools: list[Pool] = []
    for k in range(sets):
        pool: Pool = {}
        for at, mask in groups:
            part = state.narrowed(state.within(mask), choice == k)
            if part is None or part.n:
                push(state, pool, at, part)
        if pool:
            pools.append(pool)
    return pools
