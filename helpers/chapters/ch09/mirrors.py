"""Patches of block_2d and their mirror images: what a value of A and of B costs, and how fast they
ran.

The prices are the emulator's rule for reads of 16 bytes; the rates are the H200's sweep of tiles at
4096.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helpers.ladder import model
from helpers.record import DEFAULT_GPU, fingerprint, load
from nogpu import device
from nogpu.device import WARP
from nogpu.emulator.observe.counts import wide_load

SMALL, LARGE = "64x64x32", "128x128x32"
SHOWN = (
    ("8 x 4", SMALL), ("4 x 8", SMALL), ("16 x 4", SMALL), ("4 x 16", SMALL),
    ("16 x 8", LARGE), ("8 x 16", LARGE), ("8 x 8", LARGE),
)  # fmt: skip
"""Patch and block tile of the table: three pairs of mirror images, and the square."""


def prices(tile: Mapping[str, int]) -> tuple[float, float]:
    """Wavefronts for a value of A and for one of B, both read in fours, by the first warp.

    tile: BM, BN, BK, TM, TN. A is read along K, B along N, as ptxas joins them.
    """
    places = [divmod(lane, tile["BN"] // tile["TN"]) for lane in range(WARP)]
    a = wide_load([down * tile["TM"] * tile["BK"] for down, _ in places])
    return a / 4, wide_load([across * tile["TN"] for _, across in places]) / 4


@dataclass(frozen=True)
class Patch:
    """One recorded tile of block_2d.

    reads: of shared memory for each multiply-add. a, b: wavefronts for a value of A and of B. cost:
    wavefronts for each multiply-add. roof, rate: TFLOP/s that these allow, and that were measured.
    """

    patch: str
    block: str
    reads: float
    a: float
    b: float
    cost: float
    roof: float
    rate: float


def recorded(gpu: str = DEFAULT_GPU) -> tuple[dict[tuple[str, str], Patch], str]:
    """Every recorded tile whose patch and step are at least four wide, by patch and block; its
    label."""
    swept = load(gpu).find("sweep", kernel="block_2d", source=fingerprint("block_2d"), m=4096)
    patches: dict[tuple[str, str], Patch] = {}
    for e in swept:
        t: Any = e["params"]
        if e["gflops"] and min(t["TM"], t["TN"], t["BK"]) >= 4:
            a, b = prices(t)
            cost = a / t["TN"] + b / t["TM"]
            key = f"{t['TM']} x {t['TN']}", f"{t['BM']}x{t['BN']}x{t['BK']}"
            patches[key] = Patch(
                *key, 1 / t["TM"] + 1 / t["TN"], a, b, cost,
                model.shared_roof(device.gpu(gpu), 1 / cost) / 1e3, e["gflops"] / 1e3,
            )  # fmt: skip
    return patches, load(gpu).label(swept)
