"""Clusters: which blocks are peers, and which of them an address of shared memory means.

Blocks of a cluster are numbered by their ranks, x first. An address of a peer's shared memory is
that of the same place in the own block, with the peer's rank plus one from bit `RANK_SHIFT` on;
generic addresses carry it too. Own addresses carry nothing, whichever way they came about. Source:
PTX ISA, Cluster of Cooperative Thread Arrays; State Spaces, shared; mapa; getctarank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.ptx.layout import RANK_SHIFT, RANKS

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State


i4, i8 = np.dtype("i4"), np.dtype("i8")
_HALF = 1 << (RANK_SHIFT - 1)  # addresses a little below a block's memory still are its own


@dataclass(frozen=True)
class Peers:
    """Who is whose peer among the blocks of a batch, which holds whole clusters only.

    size: blocks a cluster. rank, number: int64 (blocks,): each block's rank, and its cluster's
    place among those of the batch. members: int64 (clusters, ranks): the blocks of each, as
    columns. linear: int64 (clusters,): the number of each in the grid.
    """

    size: int
    rank: Array
    number: Array
    members: Array
    linear: Array


def of(state: State) -> Peers:
    """The peers of a batch of blocks, found when first asked for."""
    if state.peers is not None:
        return state.peers
    shape = (1, 1, state.p, state.q)
    x, y, z = (np.broadcast_to(b, shape).ravel().astype(i8) for b in (state.bx, state.by, state.bz))
    cx, cy, cz = state.launch.cluster
    across, down, _ = in_clusters(state)
    rank = (z % cz * cy + y % cy) * cx + x % cx
    linear, number = np.unique((z // cz * down + y // cy) * across + x // cx, return_inverse=True)
    size = cx * cy * cz
    members = np.empty((len(linear), size), i8)
    members[number, rank] = np.arange(state.blocks)
    state.peers = Peers(size, rank, number, members, linear)
    return state.peers


def rank_by_block(state: State) -> Array:
    """The rank of each block, int64 (1, 1, p, q)."""
    return of(state).rank.reshape(1, 1, state.p, state.q)


def in_clusters(state: State) -> tuple[int, int, int]:
    """The grid in clusters: along x, y and z."""
    (gx, gy, gz), (cx, cy, cz) = state.grid, state.launch.cluster
    return gx // cx, gy // cy, gz // cz


def column_of(state: State, column: Array, rank: Array) -> Array:
    """The block of a rank in the cluster of another block; int64, of one shape, blocks by column.

    A rank that the cluster does not have stands for the one nearest to it: check it first.
    """
    peers = of(state)
    return np.asarray(peers.members[peers.number[column], np.clip(rank, 0, peers.size - 1)])


# -- addresses -----------------------------------------------------------------------------------


def code_of(address: Array) -> Array:
    """What an address within shared memory (or a generic one) says of the block: rank + 1, or 0."""
    return np.asarray((address.astype(i8) + _HALF) >> RANK_SHIFT & 0xFF)


def map_rank(state: State, address: Array, rank: Array) -> Array:
    """mapa: the address of the same place in the block of a rank; uint32, or uint64 if generic."""
    wide = address.astype(i8)
    own = wide - (code_of(address) << RANK_SHIFT)
    named = np.minimum(rank.view("u4").astype(i8), RANKS - 1)
    mine = named == rank_by_block(state)
    return np.where(mine, own, own + (named + 1 << RANK_SHIFT)).astype(address.dtype)


def of_the_first(state: State, address: Array) -> Array:
    """The same place in the even block of the pair, of an own address; of others without bit 24."""
    first = rank_by_block(state) & ~1
    own = code_of(address) == 0
    return np.where(
        own, map_rank(state, address, first.astype(i4)), address & i4.type(-(1 << 24) - 1)
    )


def rank_of(state: State, address: Array) -> Array:
    """getctarank: the rank of the block in whose shared memory an address lies, int32."""
    code = code_of(address)
    return np.where(code == 0, rank_by_block(state), code - 1).astype(i4)
