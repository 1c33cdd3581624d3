"""Shapes that a kernel is tried on: small for the emulator, awkward for the kernel."""

from __future__ import annotations

from math import lcm

from helpers.ladder.hopper import BOX_COLS
from helpers.ladder.kernel import DEPTHS, Kernel, geometry
from nogpu import device
from nogpu.errors import ConfigError
from nogpu.toolchain import arch_number

Shape = tuple[int, int, int]


def whole_tiles(kernel: Kernel) -> Shape:
    """M, N, K of one block's tile of C and two steps along K: what is counted."""
    m, n = geometry(kernel, 4096, 4096, 4096).tile
    sizes = [kernel.params[name] for name in DEPTHS if name in kernel.params]
    # A kernel without such a size takes any K, or whole boxes of the copy engine.
    step = sizes[0] if sizes else 8 if _takes(kernel, (m, n, 16)) else BOX_COLS
    return m, n, 2 * step


def _round_the_ring(kernel: Kernel) -> list[Shape]:
    """Whole tiles of so many steps along K that each slot of a ring is filled a second time: what a
    kernel hands back too early, or never, shows only then.
    """
    if "STAGES" not in kernel.params:
        return []
    m, n, k = whole_tiles(kernel)
    return [(m, n, k // 2 * (kernel.params["STAGES"] + 2))]


def common_tiles(one: Kernel, other: Kernel) -> Shape:
    """The smallest M, N, K that are whole tiles of both, two steps along K or more."""
    m, n, k = (lcm(a, b) for a, b in zip(whole_tiles(one), whole_tiles(other), strict=True))
    return m, n, k


def shapes(kernel: Kernel) -> tuple[Shape, ...]:
    """Whole tiles; once round a ring; a ragged shape just beyond a tile in M, N and K; one element.

    Left out are those that the kernel's own rules refuse; where that leaves whole tiles alone, two
    by two blocks of them are tried too.
    """
    m, n, k = whole_tiles(kernel)
    wanted = [(m, n, k), *_round_the_ring(kernel), (m + 1, n + 3, k + 5), (1, 1, 1)]
    taken = [shape for shape in wanted if _takes(kernel, shape)]
    if (m + 1, n + 3, k + 5) not in taken and (1, 1, 1) not in taken:
        taken += [shape for shape in ((2 * m, 2 * n, k),) if _takes(kernel, shape)]
    return tuple(taken)


def _takes(kernel: Kernel, shape: Shape) -> bool:
    try:
        geometry(kernel, *shape)
    except ConfigError:
        return False
    return True


def roomy_arch(kernel: Kernel) -> str:
    """The oldest architecture that runs the kernel and whose SM can hold a block of this tile.

    Code for sm_90a runs on that one alone. Where none can, the kernel's own, whose error says so.
    """
    if kernel.min_arch.endswith("a"):
        return kernel.min_arch
    least, wanted = arch_number(kernel.min_arch), geometry(kernel, 4096, 4096, 4096).shared_bytes
    able = (
        arch
        for arch, limits in device.LIMITS.items()
        if arch_number(arch) >= least and limits.shared_per_block_optin >= wanted
    )
    return next(able, kernel.min_arch)
