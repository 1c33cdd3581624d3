"""Tiles of several heights, so that every cluster gets the same share of C: what
kernels/steps/22_even_shares.cu computes, and the clocks that it takes."""

from collections.abc import Mapping
from dataclasses import dataclass

from helpers.ladder import cuts
from helpers.ladder.kernel import ITEM_BYTES, Geometry, cdiv
from nogpu.device import Gpu

UNIT = 8
"""Rows of C by which heights differ, since N of wgmma is a multiple of 8 (PTX ISA, wgmma)."""
FIXED = 1 / 3
"""The part of a step's clocks that a lower tile does not spare: a fit to 43 shapes on an H200
(data/tries/hopper.md, run 8). Its cause was not shown."""
TURNED_START = 1000
"""Clocks more than `cuts.START`: a consumer's warps write each box of C together. The same fit."""
SECTOR_BYTES = 32
"""Where rows of B do not start at multiples of it, no lower tile was quicker, in the same fit."""
MANY = 1000
"""Rounds up to which `clocks` lays out every share; of more, the busiest cluster has the mean."""


@dataclass(frozen=True)
class Share:
    """A cluster's tile of C: its column among them, its first row, and its rows."""

    col: int
    m0: int
    rows: int


def of(launch: Geometry) -> list[list[Share]]:
    """What each cluster computes, in order.

    As many shares as the rounds have room for, if none is lower than LOW: all columns of tiles have
    `per` of them, the last `cut` columns one more. In a column those at the end are a UNIT higher.
    """
    p, clusters = launch.params, launch.grid[0] // launch.params["CLUSTER_N"]
    units, cols = cdiv(launch.M, UNIT), cdiv(launch.N, p["BN"] * p["CLUSTER_N"])
    least = cdiv(launch.M, p["BM"])
    most = max(least, units * UNIT // p["LOW"])
    room = cdiv(least * cols, clusters) * clusters
    per = max(least, min(room // cols, most))
    cut = room - per * cols if per < most else 0
    walk = [
        share
        for first, count, tiles in ((0, cols - cut, per), (cols - cut, cut, per + 1))
        for share in _walk(first, count, tiles, units, p)
    ]
    return [walk[cluster::clusters] for cluster in range(clusters)]


def _walk(first: int, cols: int, tiles: int, units: int, p: Mapping[str, int]) -> list[Share]:
    """Columns of so many tiles each, in bands (kernels/common/tile_order.cuh)."""
    height, higher = divmod(units, tiles)
    found = []
    for number, band in enumerate(range(0, cols, p["GROUP_M"])):
        for at in range(tiles)[:: -1 if number % 2 else 1]:
            late = at - (tiles - higher)
            m0, rows = (at * height + max(0, late)) * UNIT, (height + (late >= 0)) * UNIT
            if height * UNIT < p["LOW"]:
                m0, rows = at * p["BM"], p["BM"]
            wide = min(p["GROUP_M"], cols - band)
            found += [Share(first + band + col, m0, rows) for col in range(wide)]
    return found


def clocks(launch: Geometry, gpu: Gpu) -> float:
    """SM clocks of a launch: of the cluster with the most rows, or what device memory takes."""
    work = cuts.work_of(launch, gpu)
    p, clusters = launch.params, launch.grid[0] // launch.params["CLUSTER_N"]
    rounds = cdiv(cdiv(launch.M, p["BM"]) * cdiv(launch.N, p["BN"] * p["CLUSTER_N"]), clusters)
    if rounds <= MANY:
        busiest = max(of(launch), key=lambda own: sum(share.rows for share in own))
        rounds, rows = len(busiest), sum(share.rows for share in busiest)
    else:
        rows = cdiv(launch.M * cdiv(launch.N, p["BN"] * p["CLUSTER_N"]), clusters)
    straddles = launch.N * ITEM_BYTES[launch.kernel.dtype] % SECTOR_BYTES
    fixed = 1.0 if straddles else FIXED
    each = fixed * rounds + (1 - fixed) * rows / p["BM"]
    start = cuts.START + TURNED_START + cuts.aligning(launch, gpu)
    return start + max(work.steps * work.step * each, work.least)
