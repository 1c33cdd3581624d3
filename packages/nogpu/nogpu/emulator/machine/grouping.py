"""Groups of threads: at which basic block they are, or what they wait for.

A group is a mask; None stands for all threads that live in the function that is run. Blocks are
named by their place in the text of the function.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import Mask

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.program import Block, FunctionProgram, Spin

Group = Mask | None
Pool = dict[int, Group]
"""The groups that may run, by the block that comes next; those that reach one place are one."""


@dataclass(frozen=True)
class Stop:
    """Where threads wait. resume: the block that they go on to; line, place: where that is in the
    source.
    """

    resume: int
    line: int
    place: tuple[str, ...] = ()  # as `Block.end_place`


@dataclass(eq=False)
class BarrierWait:
    """Threads that wait at a barrier."""

    barrier: int  # its number
    running: Running
    stop: Stop
    mask: Group
    expected: Array | None  # threads it takes, or None for all of the block
    reduce: tuple[str, int, Array] | None = None  # (operation, register, predicate)

    @property
    def threads(self) -> Group:
        """Who waits; None: every thread of the batch."""
        return self.running.live if self.mask is None else self.mask


@dataclass
class PhaseWait:
    """Threads that wait for a phase of an mbarrier."""

    stop: Stop
    mask: Group
    offset: Array  # of the barrier
    want: Array  # the phase's token or parity
    parity: bool
    register: int  # that takes the answer
    relaxed: bool  # to know it orders nothing


@dataclass
class GateWait:
    """Lanes that wait where whole warps act together. member: the lanes that each names.

    together: consecutive warps that act together; with more than one, they name all their lanes.
    """

    stop: Stop
    mask: Group
    member: Array  # int64 (warps, 32, blocks)
    together: int


@dataclass
class Round:
    """The last time that threads went round a loop that waits: who, with what, how often so far."""

    arr: Array
    values: list[Array]
    count: int


@dataclass(frozen=True)
class Call:
    """A call that threads have come to, by name. returns: where the values of `results` go."""

    name: str
    parameters: dict[str, dict[int, Array]]  # values by name and byte
    results: tuple[str, ...]  # what the function calls them
    returns: tuple[str, ...]  # what the caller calls them
    locals_size: int  # of the caller
    mask: Group


@dataclass(eq=False)
class Running:
    """One function that is run, from one place: its registers, its threads, and those that wait.

    A call is run as if the function stood in its place: whoever comes to the call later joins those
    who are still in it. So a function that waits holds up nobody but those who called it.
    """

    program: FunctionProgram
    registers: list[Any]
    frame: dict[str, dict[int, Array]]  # parameters and returned values
    live: Group = None  # its threads; of the function that runs now, `State.live` is up to date
    caller: Running | None = None
    call: Call | None = None
    block: Block | None = None  # of the caller, which ends with the call
    depth: int = 0
    local_base: int = 0
    returned: list[Group] = field(default_factory=list)  # have left, and not yet gone on
    callees: dict[tuple[int, str], Running] = field(default_factory=dict)  # by block and name
    pools: list[Pool] = field(default_factory=list)  # the last is run first
    at_barriers: list[BarrierWait] = field(default_factory=list)  # at barriers
    at_mbarriers: list[PhaseWait] = field(default_factory=list)  # for phases of mbarriers
    at_gates: list[GateWait] = field(default_factory=list)  # for lanes of their warp
    parked: Pool = field(default_factory=dict)  # in loops that wait, by their head
    spins: dict[int, Spin] = field(default_factory=dict)  # these loops, by their head
    rounds: dict[int, Round] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, ...]:
        """Where the function was called, and the one that called it, and so on."""
        if self.caller is None or self.block is None:
            return ()
        return (str(self.block.end_line), *self.block.end_place, *self.caller.place)


_ZERO = {kind: np.zeros((1, 1, 1, 1), kind) for kind in ("b1", "i2", "f2", "i4", "f4", "i8", "f8")}


_NUMBER: dict[str, Any] = {"b1": False, "i2": 0, "i4": 0, "i8": 0, "f4": 0.0, "f8": 0.0}


def first_registers(program: FunctionProgram, scalar: bool = False) -> list[Any]:
    """Registers of a function before it runs. scalar: numbers, as `ptx.scalars` has them."""
    return [_NUMBER.get(kind, _ZERO[kind]) if scalar else _ZERO[kind] for kind in program.kinds]


def enter(state: State, running: Running) -> None:
    """Let the state speak of another function that is run."""
    now = state.current
    if now is not running:
        if now is not None:
            now.live = state.live
        state.current = running
        state.live, state.local_base = running.live, running.local_base


def everywhere(state: State) -> list[Running]:
    """All functions that are run, callers first, each with the threads that live in it."""
    if state.current is not None:
        state.current.live = state.live
    return list(state.frames)


def name_threads(running: Running) -> None:
    """Give every group its mask, before more threads come into the function."""
    live = running.live
    for pool in (*running.pools, running.parked):
        pool.update({at: live for at, mask in pool.items() if mask is None})
    groups: list[BarrierWait | PhaseWait | GateWait] = [
        *running.at_barriers,
        *running.at_mbarriers,
        *running.at_gates,
    ]
    for group in groups:
        if group.mask is None:
            group.mask = live


def push(state: State, pool: Pool, at: int, mask: Group) -> None:
    """Send threads, if there are any, to a block, to those that are there already."""
    if mask is not None and not mask.n:
        return
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


def go_on(state: State, running: Running, groups: list[tuple[int, Group]]) -> None:
    """Let groups of a function run: together, or under another schedule some warps after others."""
    enter(state, running)
    if state.launch.schedule != "ascending":
        running.pools += _by_warps(state, groups)
        return
    pool: Pool = {}
    for at, mask in groups:
        push(state, pool, at, mask)
    running.pools.append(pool)


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
            push(state, pool, at, state.narrowed(state.within(mask), choice == k))
        if pool:
            pools.append(pool)
    return pools


def same_bits(a: Array, b: Array) -> Array:
    """Where two values of one register are the same; NaN equals itself."""
    kind = "u1" if a.dtype == bool else f"u{a.dtype.itemsize}"
    return np.asarray(a.view(kind) == b.view(kind))


def same_values(a: list[Array], b: list[Array]) -> bool:
    """Whether all of some registers hold what they held."""
    return len(a) == len(b) and all(
        x is y or bool(same_bits(x, y).all()) for x, y in zip(a, b, strict=True)
    )


def same_group(a: Group, b: Group) -> bool:
    """Whether two groups are the same threads."""
    if a is None or b is None:
        return a is b
    return a is b or (a.n == b.n and bool((a.arr == b.arr).all()))
