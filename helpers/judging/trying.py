"""Shapes that a kernel is tried on: small for the emulator, awkward for the kernel."""

from __future__ import annotations

from math import lcm

from helpers.errors import ConfigError
from helpers.kernel import Kernel, geometry

Shape = tuple[int, int, int]


def depth(kernel: Kernel) -> int:
    """How far one step along K goes: the catalog's tile size of that name, else 8."""
    for name in ("BK", "TILE", "TILE_ROWS"):
        if name in kernel.params:
            return kernel.params[name]
    return 8


def whole_tiles(kernel: Kernel) -> Shape:
    """M, N, K of one block's tile of C and two steps along K: what is counted."""
    return *geometry(kernel, 4096, 4096, 4096).tile, 2 * depth(kernel)


def common_tiles(one: Kernel, other: Kernel) -> Shape:
    """The smallest M, N, K that are whole tiles of both, two steps along K or more."""
    m, n, k = (lcm(a, b) for a, b in zip(whole_tiles(one), whole_tiles(other), strict=True))
    return m, n, k


def shapes(kernel: Kernel) -> tuple[Shape, ...]:
    """Whole tiles; a ragged shape just beyond a tile in M, N and K; one element.

    Left out are those that the kernel's own rules refuse; where that leaves whole tiles alone, two by
    two blocks of them are tried too.
    """
    m, n, k = whole_tiles(kernel)
    asked = [(m, n, k), (m + 1, n + 3, k + 5), (1, 1, 1)]
    taken = [shape for shape in asked if _takes(kernel, shape)]
    if len(taken) == 1:
        taken += [shape for shape in ((2 * m, 2 * n, k),) if _takes(kernel, shape)]
    return tuple(taken)


def _takes(kernel: Kernel, shape: Shape) -> bool:
    try:
        geometry(kernel, *shape)
    except ConfigError:
        return False
    return True
