"""Gates: lanes wait where their whole warp acts together, for those of it that they name.

Where a warpgroup acts together, its warps wait for each other, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine import warp
from nogpu.emulator.machine.grouping import (
    GateWait,
    Group,
    Pool,
    Running,
    Stop,
    enter,
    everywhere,
    push,
)
from nogpu.emulator.machine.lanes import Array

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State


i8 = np.dtype("i8")


def arrive_at(
    state: State,
    running: Running,
    pool: Pool,
    stop: Stop,
    mask: Group,
    member: Array,
    together: int,
) -> None:
    """Lanes come to a gate: hold them until those that they name come. stop: the gate.

    together: consecutive warps that wait for each other.
    """
    if running.caller is not None:
        mask = state.within(mask)  # others of the warp may yet come into the function
    if mask is None:
        push(state, pool, stop.resume, mask)
        return
    named = warp.warps(state, member).astype(i8) & 0xFFFFFFFF
    shape = (state.warp_shape.warps, 32, state.blocks)
    wait = GateWait(stop, mask, np.broadcast_to(named, shape), together)
    go = _complete(state, wait, [wait])
    stay, part = state.narrowed(mask, ~go), state.narrowed(mask, go)
    if stay is None or stay.n:
        wait.mask = stay
        running.at_gates.append(wait)
    push(state, pool, stop.resume, part)


def _complete(state: State, wait: GateWait, together: list[GateWait]) -> Array:
    """bool (four axes): held lanes that name no living lane but those that are held together."""
    away = state.lanes_active(state.alive)
    for other in together:
        away = away & ~state.lanes_active(other.mask)
    absent = (away * warp.BIT).sum(axis=1, keepdims=True)
    if wait.together > 1:
        missing = warp.of_any(absent[:, 0] != 0, wait.together)
        return warp.threads(state, np.broadcast_to(~missing[:, None], wait.member.shape))
    return warp.threads(state, (wait.member & absent) == 0)


def open_complete(state: State) -> bool:
    """Let go on whose warps have come together; false if none have."""
    opened = False
    for running in everywhere(state):
        if running.at_gates:
            enter(state, running)
            opened = _open(state, running) or opened
    return opened


def _open(state: State, running: Running) -> bool:
    pool: Pool = {}
    waiting, keep = running.at_gates, []
    for wait, go in [
        (h, _complete(state, h, [o for o in waiting if o.stop.resume == h.stop.resume]))
        for h in waiting
    ]:
        part, stay = state.narrowed(wait.mask, go), state.narrowed(wait.mask, ~go)
        push(state, pool, wait.stop.resume, part)
        if part is not None and (stay is None or stay.n):
            wait.mask = stay
            keep.append(wait)
    running.at_gates = keep
    if pool:
        running.pools.append(pool)
    return bool(pool)


def give_up(state: State) -> None:
    """Lanes wait for others of their warp that never come: they go on without them.

    The operation that they come to says so.
    """
    for running in everywhere(state):
        if running.at_gates:
            enter(state, running)
            pool: Pool = {}
            for wait in running.at_gates:
                push(state, pool, wait.stop.resume, wait.mask)
            running.at_gates = []
            running.pools.append(pool)
