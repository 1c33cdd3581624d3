"""Shapes that a kernel is tried on: few for the emulator, awkward for the kernel."""

import hashlib
from itertools import islice
from math import lcm
from random import Random

from helpers.ladder import hopper
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
    kernel hands back too early, or never, shows only then."""
    if "STAGES" not in kernel.params:
        return []
    m, n, k = whole_tiles(kernel)
    return [(m, n, k // 2 * (kernel.params["STAGES"] + 2))]


def _cut_along_k(kernel: Kernel) -> list[Shape]:
    """One tile of C, of the fewest steps along K that a launch cuts (stream-K): none has less to
    add up in global memory."""
    if "partial" not in kernel.source:
        return []
    m, n, _ = whole_tiles(kernel)
    depths = range(BOX_COLS, BOX_COLS * 128, BOX_COLS)
    cut = (k for k in depths if hopper.division(geometry(kernel, m, n, k)).ranges)
    return [(m, n, k) for k in islice(cut, 1)]


def common_tiles(one: Kernel, other: Kernel) -> Shape:
    """The smallest M, N, K that are whole tiles of both, two steps along K or more."""
    m, n, k = (lcm(a, b) for a, b in zip(whole_tiles(one), whole_tiles(other), strict=True))
    return m, n, k


def shapes(kernel: Kernel) -> tuple[Shape, ...]:
    """Whole tiles; once round a ring; a tile that is cut along K; M or N beyond 256, with more
    elements than a short index reaches; a K of many steps; one element.

    Which of them, and how far beyond, is drawn from the source, so that a text with a table of
    shapes has other ones. Where the kernel's own rules refuse what is ragged it is whole tiles, or
    what is just beyond one.
    """
    (m, n, k), ring = whole_tiles(kernel), _round_the_ring(kernel)
    rng = Random(hashlib.sha256(kernel.source.encode(errors="replace")).digest())
    large = rng.choice([(max(256, m), max(128, n)), (max(128, m), max(256, n))])
    over = [rng.randint(1, 15) for _ in range(4)]
    deep = max(256 if m * n <= 64 * 64 else 96, k)
    beyond = [
        [(large[0] + over[0], large[1] + over[1], k // 2 + 5), (m + 1, n + 3, k + 5),
         (max(2, 256 // m) * m, max(2, 256 // n) * n, k)],
        [(min(m, over[2]), max(1, n - over[3]), deep + 5), *ring, (m, n, deep // k * k + k)],
    ]  # fmt: skip
    ragged = [next(filter(lambda s: _takes(kernel, s), wanted), (0, 0, 0)) for wanted in beyond]
    wanted = [(m, n, k), *ring, *_cut_along_k(kernel), *ragged, (1, 1, 1)]
    return tuple(dict.fromkeys(shape for shape in wanted if _takes(kernel, shape)))


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
