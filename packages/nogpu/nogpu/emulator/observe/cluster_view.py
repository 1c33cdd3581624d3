"""A batch of clusters as the judges of races see it: each cluster as one large block.

Threads are numbered through the blocks of a cluster by rank, each block padded to whole warps: so a
clock that knows what the warps of a block know of each other knows it of the warps of a cluster.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nogpu.emulator.machine import clusters
from nogpu.emulator.machine.barriers import BARRIERS
from nogpu.emulator.machine.lanes import WARP, Array
from nogpu.emulator.observe.clock import Clock
from nogpu.emulator.ptx.layout import RANK_SHIFT

if TYPE_CHECKING:
    from collections.abc import Callable

    from nogpu.emulator.machine.events import Bulk, Served
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.observe.clock import Ledger

    What = TypeVar("What", Bulk, Served)

CLUSTER = -1
"""Stands for the barrier of the cluster where mbarriers have offsets."""
_OFFSET = (1 << RANK_SHIFT) - 1


class ClusterView:
    """What a judge asks of a batch, with clusters in place of blocks; all else the batch itself
    answers.

    blocks: clusters of the batch. threads: numbers of threads in a cluster, with those that pad its
    blocks. thread: int64, four axes: each thread's number in its cluster; block_index: its cluster.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.peers = clusters.of(state)
        peers, warps = self.peers, state.warp_shape.warps
        self.padded = warps * WARP
        self.blocks = len(peers.linear)
        self.threads = peers.size * self.padded
        self.warp_shape = SimpleNamespace(warps=peers.size * warps)
        self.grid = clusters.in_clusters(state)
        lanes = (1, 1, state.p, state.q)
        self.rank = peers.rank.reshape(lanes)
        self.block_index = peers.number.reshape(lanes)
        self.thread = state.thread + self.rank * self.padded
        self.linear_block = peers.linear  # flat: by cluster, not by place in the batch
        self.global_thread = peers.linear[peers.number].reshape(lanes) * self.threads + self.thread

    def __getattr__(self, name: str) -> Any:
        return getattr(self.state, name)

    # -- from blocks to clusters -----------------------------------------------------------------

    def by_cluster(self, values: Array) -> Array:
        """(blocks, n) to (clusters, ranks * n)."""
        return np.asarray(values[self.peers.members].reshape(self.blocks, -1))

    def warps_active(self, mask: Mask | None) -> Array:
        """bool (warps of a cluster, clusters): which warps have a thread in the mask."""
        return self.by_cluster(self.state.warps_active(mask).T).T

    def by_rank(self, which: Array) -> list[Array]:
        """Warps, bool (clusters, warps), apart by the rank of the block that they are of."""
        rank = np.arange(which.shape[1]) // (self.padded // WARP)
        return [which & (rank == r) for r in range(self.peers.size)]

    def completed(self, barriers: Array, at: int) -> Array:
        """Where, by cluster, the phase of an mbarrier is complete, of bool (words, blocks)."""
        return np.asarray(barriers[(at & _OFFSET) >> 2][self.peers.members[:, at >> RANK_SHIFT]])

    def coded(self, offset: Array, owner: Array | None) -> Array:
        """Offsets in shared memory with the rank of their block; for owner None, each its own."""
        rank = self.rank if owner is None else self.peers.rank[owner]
        return offset + (rank << RANK_SHIFT)

    def numbered(self, thread: Array, column: Array) -> tuple[Array, Array]:
        """Threads in their clusters, and these, of threads in their blocks."""
        return thread + self.peers.rank[column] * self.padded, self.peers.number[column]

    def in_cluster(self, what: What) -> What:
        """What an engine does, or atomics, asked by threads of clusters in place of blocks."""
        thread, cluster = self.numbered(what.thread, what.column)
        return replace(what, thread=thread, column=cluster)

    # -- words -----------------------------------------------------------------------------------

    def thread_text(self, thread: int) -> str:
        """threadIdx, and whose."""
        inside = self.state.thread_text(thread % self.padded)
        return f"{inside} of the block of rank {thread // self.padded}"

    def block_of(self, linear: int) -> tuple[int, int, int]:
        """blockIdx of the first block of a cluster of the grid."""
        across, down, _ = self.grid
        cx, cy, cz = self.state.launch.cluster
        x, y, z = linear % across, linear // across % down, linear // (across * down)
        return x * cx, y * cy, z * cz

    def block_tuple(self, column: int) -> tuple[int, int, int]:
        """blockIdx of the first block of a cluster of this batch."""
        return self.block_of(int(self.peers.linear[column]))

    def global_thread_text(self, gid: int) -> str:
        """threadIdx and blockIdx of a thread of the launch."""
        cx, cy, _ = self.state.launch.cluster
        x, y, z = self.block_of(gid // self.threads)
        rank, inside = divmod(gid % self.threads, self.padded)
        block = x + rank % cx, y + rank // cx % cy, z + rank // (cx * cy)
        return f"{self.state.thread_text(inside)} of block {block}"

    def find(self, *fault: Any, threads: tuple[int, ...] = (), **more: Any) -> None:
        """Enter a fault, as `State.find` does."""
        self.state.find(*fault, threads=tuple(t % self.padded for t in threads), **more)


class ClusterClock(Clock):
    """Who knows what of whom among the warps of clusters: their barrier is one more that threads
    arrive at.

    The barrier of a block orders the threads of that block alone; so it is one of some warps of the
    cluster. Relaxed arrivals are taken to hand on what releasing ones do: a fence may stand before
    them.
    """

    def __init__(
        self,
        view: ClusterView,
        ledger: Ledger,
        *,
        flags: bool,
        synchronise: Callable[[Mask | None], None],
    ) -> None:
        """flags, synchronise: as for `Clock`. Single threads are ordered."""
        self.cluster_view = view
        epoch = np.zeros(view.blocks, np.int64)
        state: Any = view
        super().__init__(state, ledger, epoch, threads=True, flags=flags, synchronise=synchronise)

    def _by_lane(self, values: Array, nobody: int) -> Array:
        s, view = self.cluster_view.state, self.cluster_view
        full = np.full((s.blocks, view.padded), nobody, values.dtype)
        full[:, : s.threads] = np.broadcast_to(values, s.shape).reshape(s.threads, s.blocks).T
        return view.by_cluster(full).reshape(self.blocks, self.warps, WARP)

    def _where(self, barriers: Array, at: int) -> Array:
        none = np.zeros(self.blocks, bool)
        return none if at == CLUSTER else self.cluster_view.completed(barriers, at)

    def forget(self, offset: Array) -> None:
        """mbarriers are set up anew, in every block."""
        ranks = np.arange(self.cluster_view.peers.size) << RANK_SHIFT
        super().forget(np.add.outer(ranks, np.unique(offset)))

    # -- barriers --------------------------------------------------------------------------------

    def interval(self, opened: Array | None) -> None:
        """A barrier of whole blocks opens: bool, of which (None: of all)."""
        view = self.cluster_view
        blocks = np.ones(view.state.blocks, bool) if opened is None else opened.ravel()
        whole = np.repeat(blocks[:, None], view.padded // WARP, axis=1)
        for here in view.by_rank(view.by_cluster(whole)):
            if here.any():
                self._meet(here)

    def _by_block(self, which: Array, barrier: int) -> list[tuple[int, Array]]:
        apart = enumerate(self.cluster_view.by_rank(which))
        return [(barrier + BARRIERS * rank, here) for rank, here in apart if here.any()]

    def cluster_arrive(self, mask: Mask | None) -> None:
        """Threads arrive at the barrier of their cluster: what they did and knew goes there."""
        self._give(CLUSTER, self.threads_of(mask))

    def cluster_complete(self, blocks: Array) -> None:
        """Barriers of clusters open: bool (blocks,)."""
        if CLUSTER in self.arriving:
            self._completed(CLUSTER, blocks[self.cluster_view.peers.members[:, 0]])

    def cluster_acquire(self, mask: Mask | None) -> None:
        """Threads have waited: they know what was done before the others arrived."""
        self._take(CLUSTER, self.threads_of(mask))
