"""How a basic block ends: where its threads go, or what they wait for.

What the block's code returns belongs to its end: a predicate, an index, or what a barrier asks for.
Blocks are named by their place in the text; `after` is the one that follows there.
"""

from __future__ import annotations

from dataclasses import dataclass

CLUSTER = -1
"""Stands for the barrier of a cluster where barriers of a block have numbers."""


class _End:
    @property
    def followers(self) -> tuple[int, ...]:
        """The blocks that may run next."""
        match self:
            case Jump(to):
                return (to,)
            case Table(to):
                return to
            case Branch(to, after):
                return (to, after)
            case _Stay(after):
                return (after,)
            case Exit(after) if after >= 0:
                return (after,)
        return ()


@dataclass(frozen=True)
class Jump(_End):
    """All threads go to one block."""

    to: int


@dataclass(frozen=True)
class Branch(_End):
    """Threads whose predicate holds go to one block, the others on."""

    to: int
    after: int


@dataclass(frozen=True)
class Table(_End):
    """brx: each thread goes to the block that its index names."""

    to: tuple[int, ...]


@dataclass(frozen=True)
class Exit(_End):
    """ret, exit and trap: threads leave, those whose predicate holds or (after -1) all of them.

    whole: not the function alone, but the kernel.
    """

    after: int = -1
    whole: bool = False


@dataclass(frozen=True)
class _Stay(_End):
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
