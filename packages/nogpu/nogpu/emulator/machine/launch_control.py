"""clusterlaunchcontrol: a block takes over the work of a cluster that has not started yet.

The answer is 16 bytes of shared memory that the hardware writes and counts at an mbarrier: here the
index of the cluster's first block along x, y and z, and 1, or zeros where none is left. Source: PTX
ISA 9.0, "clusterlaunchcontrol.try_cancel".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine import bulk, clusters
from nogpu.emulator.machine.attribution import Offender, accuse
from nogpu.emulator.machine.lanes import Array

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State

_BYTES = 16


def try_cancel(
    state: State,
    number: int,
    address: Array,
    barrier_number: int,
    barrier: Array,
    everybody: bool,
    mask: Mask | None,
) -> None:
    """clusterlaunchcontrol.try_cancel.async.

    everybody: .multicast::cluster::all, the answer goes to each block of the cluster.
    """
    site, at_barrier = state.sites[number], state.sites[barrier_number]
    every = bulk.requests_of(state, mask, address, barrier)
    size = clusters.of(state).size if everybody else 1
    words = np.zeros((len(every.thread), 4), np.uint32)
    for i, column in enumerate(every.column):
        if column in state.refused:
            lane = Offender(state, int(every.thread[i]), int(column))
            accuse(
                "divergent-barrier",
                site.line,
                lane,
                f"{lane} asks for another cluster although line {state.refused[column]} has been "
                "told that none is left: what it gets then is undefined. Leave the loop when "
                "query_cancel.is_canceled is false",
            )
        if state.launch.pending:
            words[i] = (*state.launch.pending.popleft(), 1)
        else:
            state.refused[int(column)] = site.line
    request, rank = np.divmod(np.arange(len(words) * size), size)
    some = every.only(request)
    owner = clusters.column_of(state, some.column, rank) if everybody else some.column
    into = bulk.in_shared(state, site, some.values[0])[0]
    counts_at = bulk.in_shared(state, at_barrier, some.values[1])[0]
    odd, total = into % _BYTES != 0, state.launch.shared_bytes
    bad = odd | (into < 0) | (into + _BYTES > total)
    if bad.any():
        i, lane = some.offender(state, bad)
        kind, why = "out-of-bounds", f"a block has {total} bytes of it"
        if odd[i]:
            kind, why = "misaligned", "its 16 bytes lie at a multiple of 16. Give alignas(16)"
        message = f"{lane} asks for an answer at byte {into[i]} of shared memory: {why}"
        accuse(kind, site.line, lane, message)
        return
    event = bulk.shared_event(state, site, some, into[:, None], owner, counts_at)
    bulk.put_shared(state, event, words[request][:, None])
    bulk.land(state, at_barrier, some, counts_at, owner, _BYTES)


def cancelled(high: Array) -> Array:
    """clusterlaunchcontrol.query_cancel.is_canceled. high: the answer's upper half, int64."""
    return np.asarray(high >> np.int64(32) != 0)


def first_block(low: Array, high: Array, axis: int) -> Array:
    """clusterlaunchcontrol.query_cancel.get_first_ctaid: along x, y or z (0 to 2), int32."""
    word = high if axis == 2 else low >> np.int64(32 * axis)
    return word.astype(np.int32)
