"""The barrier of a cluster: threads arrive and go on, and wait for all others of the cluster later.

Those who wait are held until nothing else can run. Threads that have left the kernel count as
arrived. Source: PTX ISA, barrier.cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine import barriers, clusters
from nogpu.emulator.machine.attribution import accuse, first_offender
from nogpu.emulator.machine.grouping import BarrierWait, everywhere
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import Mask, array_of
from nogpu.emulator.ptx.ends import CLUSTER

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State


_NONE = -1


@dataclass
class Meetings:
    """The barriers of the clusters of a batch.

    phase: int64 (blocks,): how often the barrier of each block's cluster has opened. ticket: int64,
    four axes: the phase at which each thread has arrived and not yet waited; -1: it has not
    arrived.
    """

    phase: Array
    ticket: Array


def of(state: State) -> Meetings:
    """The barriers of a batch, made when first asked for."""
    if state.meetings is None:
        state.meetings = Meetings(
            np.zeros(state.blocks, np.int64), np.full(state.shape, _NONE, np.int64)
        )
    return state.meetings


def cluster_arrive(state: State, relaxed: bool, line: int, mask: Mask | None) -> None:
    """barrier.cluster.arrive: the threads of a mask have come; they go on."""
    if mask is not None and mask.n == 0:
        return
    m = of(state)
    here = np.broadcast_to(array_of(mask), state.shape)
    twice = here & (m.ticket != _NONE)
    if twice.any():
        lane = first_offender(state, twice)
        accuse(
            "divergent-barrier",
            line,
            lane,
            f"{lane} arrives at the barrier of its cluster again, and has not waited since it "
            "arrived last. Let each barrier.cluster.arrive be followed by one "
            "barrier.cluster.wait of the same thread",
        )
    m.ticket = np.where(here, _by_block(state, m.phase), m.ticket)
    for o in state.observers:
        o.cluster_arrive(mask, relaxed)
    _complete(state, m)


def _by_block(state: State, values: Array) -> Array:
    return values.reshape(1, 1, state.p, state.q)


def _complete(state: State, m: Meetings) -> None:
    """Open the barriers of clusters whose living threads all have arrived."""
    peers = clusters.of(state)
    come = m.ticket == _by_block(state, m.phase)
    alive = array_of(state.alive)
    every = (come | ~alive).all(axis=(0, 1)).ravel()[peers.members].all(axis=1)
    some = come.any(axis=(0, 1)).ravel()[peers.members].any(axis=1)
    done = (every & some)[peers.number]
    if done.any():
        m.phase = m.phase + done
        for o in state.observers:
            o.cluster_complete(done)


def _waiting(state: State) -> list[BarrierWait]:
    return [w for f in everywhere(state) for w in f.at_barriers if w.barrier == CLUSTER]


def open_complete(state: State) -> bool:
    """Nothing else can run: let those go on whose barrier has opened; false if there are none."""
    here = _waiting(state)
    if not here:
        return False
    m = of(state)
    _complete(state, m)  # threads may have left since the last one arrived
    for w in here:  # who never arrived waits for nothing: that is a finding, and the thread goes on
        lost = np.broadcast_to(array_of(w.threads), state.shape) & (m.ticket == _NONE)
        if lost.any():
            lane = first_offender(state, lost)
            accuse(
                "divergent-barrier",
                w.stop.line,
                lane,
                f"{lane} waits at the barrier of its cluster and has not arrived there. Put one "
                "barrier.cluster.arrive before each barrier.cluster.wait",
            )
    done = (m.ticket < _by_block(state, m.phase)) | (m.ticket == _NONE)
    ready = barriers.take(state, here, done)
    _release(state, m, ready)
    return bool(ready)


def _release(state: State, m: Meetings, ready: list[BarrierWait]) -> None:
    for w in ready:
        here = array_of(w.threads)
        m.ticket = np.where(here, _NONE, m.ticket)
        for o in state.observers:
            o.cluster_acquire(w.threads)
    if ready:
        barriers.resume(state, ready)


def report(state: State) -> None:
    """Nothing gets on: say who waits for others of their cluster that do not arrive."""
    m, peers = of(state), clusters.of(state)
    come = (m.ticket == _by_block(state, m.phase)).sum(axis=(0, 1)).ravel()
    for w in _waiting(state):
        lane = first_offender(state, array_of(w.threads))
        together = int(come[peers.members[peers.number[lane.column]]].sum())
        accuse(
            "divergent-barrier",
            w.stop.line,
            lane,
            f"{lane} waits at the barrier of its cluster, where {together} of "
            f"{state.threads * peers.size} threads have arrived; the others wait elsewhere or "
            "never come. Every thread of every block of the cluster must arrive",
        )


def give_up(state: State) -> None:
    """Those who wait go on, though others have not arrived."""
    ready = _waiting(state)
    for w in ready:
        w.running.at_barriers.remove(w)
    _release(state, of(state), ready)
