"""Memory instructions of a program, as the machine needs them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Site:
    """A memory instruction: where it stands and what it accesses."""

    index: int
    line: int
    text: str
    space: str  # global, shared, local, generic
    op: str  # load, store, atomic
    kind: np.dtype[Any]  # of one element
    count: int  # elements a lane
    offset: int  # constant added to the address register
    strong: bool = False  # volatile, relaxed, acquire, release: made for synchronisation
    acquire: int | None = None  # scope of an acquire: 0 the block, 1 the device
    release: int | None = None
    waits: bool = False  # a read in a loop that waits for other threads
    volatile: bool = False  # strong, but no atomic: what two such stores put there may be lost

    @property
    def width(self) -> int:
        """Bytes a lane."""
        return self.kind.itemsize * self.count

    def as_(self, **changes: Any) -> Site:
        """One of the accesses that this instruction makes: of another space, op, kind or count."""
        return _changed(self, tuple(changes.items()))


@lru_cache(maxsize=4096)
def _changed(site: Site, changes: tuple[tuple[str, Any], ...]) -> Site:
    return replace(site, **dict(changes))
