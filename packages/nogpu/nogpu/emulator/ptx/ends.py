"""How a basic block ends: where its threads go, or what they wait for.

What the block's code returns belongs to its end: a predicate, an index, or what a barrier asks for.
Blocks are named by their place in the text; `after` is the one that follows there.
"""

from __future__ import annotations

from dataclasses import dataclass

CLUSTER = -1
"""Stands for the barrier of a cluster where barriers of a block have numbers."""


@dataclass(frozen=True)
class Jump:
    """All threads go to one block."""

    to: int


@dataclass(frozen=True)
class Branch:
    """Threads whose predicate holds go to one block, the others on."""

    to: int
    after: int


@dataclass(frozen=True)
class Table:
    """brx: each thread goes to the block that its index names."""

    to: tuple[int, ...]


@dataclass(frozen=True)
class Exit:
    """ret, exit and trap: threads leave, those whose predicate holds or (after -1) all of them.

    whole: not the function alone, but the kernel.
    """

    after: int = -1
    whole: bool = False


@dataclass(frozen=True)
class _Stay:
    """Threads go on to the next block, perhaps not at once."""

    after: int


@dataclass(frozen=True)
class Barrier(_Stay):
    """bar.sync, bar.red, bar.arrive, barrier.cluster.wait."""


@dataclass(frozen=True)
class Poll(_Stay):
    """The question whether a phase of an mbarrier is complete."""


@dataclass(frozen=True)
class Gate(_Stay):
    """Lanes wait for those of their warp that act together with them (see `waits`).

    together: consecutive warps that do, from a multiple of this number on; 4 for a warpgroup.
    """

    together: int = 1


End = Jump | Branch | Table | Exit | Barrier | Poll | Gate
