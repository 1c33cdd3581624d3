"""Tiles over workers, whole or cut along k (stream-K): who computes what, in how many clocks."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from helpers.ladder.kernel import ITEM_BYTES, Geometry, cdiv
from helpers.ladder.model import Rounds, compulsory_bytes
from nogpu.device import Gpu
from nogpu.errors import ConfigError

BK = 64
"""Steps of k that a stage of a Hopper kernel holds: "a step" here (kernels/common/tma.cuh, BOX)."""
LEAST_STEPS = 4
"""No cut lies nearer to an end of its tile (kernels/common/stream_k.cuh)."""
CONSUMERS = 2
"""Warpgroups of a block that hold sums (kernels/common/cluster_tiles.cuh)."""


@dataclass(frozen=True)
class Piece:
    """Steps begin to end, the last one not included, of the k loop of one tile."""

    tile: int
    begin: int
    end: int


@dataclass(frozen=True)
class Sharers:
    """The workers with pieces of one tile: `parts` from `first` on; the first `owners` store it."""

    first: int
    parts: int
    owners: int


@dataclass(frozen=True)
class Division:
    """Tiles 0 to `whole` go round whole; the others' steps are cut into `ranges`, one a worker."""

    whole: int
    ranges: int


def _check(workers: int, tiles: int, steps: int) -> None:
    if min(workers, tiles, steps) < 1:
        raise ConfigError(
            f"{workers=}, {tiles=}, {steps=}: give at least one worker, one tile and one step"
        )


def even(tiles: int, workers: int, steps: int) -> Division:
    """Every worker gets an equal share, whatever handing sums over costs.

    Whole tiles where they divide evenly; else the last one to two rounds are cut, so that no tile
    has more than two pieces there; fewer tiles than workers are all cut, into fewer ranges where
    those would be thin. Raises ConfigError if there is no worker, tile or step.
    """
    _check(workers, tiles, steps)
    if tiles % workers == 0:
        return Division(tiles, 0)
    if tiles > workers:
        return Division((tiles // workers - 1) * workers, workers)
    ranges = min(workers, tiles * steps // (2 * LEAST_STEPS))
    return Division(0, ranges) if ranges > tiles else Division(tiles, 0)


@dataclass(frozen=True)
class Walk:
    """Where StreamK in kernels/common/stream_k.cuh cuts, and who shares a tile: its arithmetic.

    Raises ConfigError if there is no worker, tile or step, for ranges that are no whole tiles and
    shorter than two of the thinnest pieces, and where 32 bits do not hold the steps times the
    ranges.
    """

    workers: int
    tiles: int
    steps: int
    division: Division

    def __post_init__(self) -> None:
        _check(self.workers, self.tiles, self.steps)
        if self.division != Division(self.tiles, 0) and self.division not in _possible(
            self.division.whole, self.workers, self.tiles, self.steps, {self.division.ranges}
        ):
            raise ConfigError(
                f"{self}: ranges are at most as many as the workers, each at least "
                f"{2 * LEAST_STEPS} steps or a whole tile, and all steps times all ranges below "
                "2^31"
            )

    @property
    def left(self) -> int:
        """Steps of the tiles that are cut."""
        return (self.tiles - self.division.whole) * self.steps

    def begin_of(self, number: int) -> int:
        """Where a range begins, in steps from the first tile that is cut."""
        begin = self.left * number // self.division.ranges
        within = begin % self.steps
        if within < LEAST_STEPS:
            return begin - within
        return begin + self.steps - within if self.steps - within < LEAST_STEPS else begin

    def pieces(self, worker: int) -> tuple[Piece, ...]:
        """What one worker does, in order: whole tiles, one a round, then its range."""
        if not 0 <= worker < self.workers:
            raise ConfigError(f"{worker=} of {self.workers}: give one of them")
        whole, steps = self.division.whole, self.steps
        own = [Piece(tile, 0, steps) for tile in range(worker, whole, self.workers)]
        if worker < self.division.ranges:
            at, end = self.begin_of(worker), self.begin_of(worker + 1)
            while at < end:
                begin = at % steps
                piece = Piece(whole + at // steps, begin, min(steps, begin + end - at))
                own.append(piece)
                at += piece.end - piece.begin
        return tuple(own)

    def _range_of(self, step: int) -> int:
        return bisect_right(range(self.division.ranges), step, key=self.begin_of) - 1

    def sharers(self, tile: int) -> Sharers:
        """Who has pieces of a tile in the ranges; `owners` has a meaning where they are several."""
        if not self.division.whole <= tile < self.tiles:
            raise ConfigError(f"{tile=}: tiles {self.division.whole} to {self.tiles - 1} are cut")
        begin = (tile - self.division.whole) * self.steps
        first, last = self._range_of(begin), self._range_of(begin + self.steps - 1)
        ends = self.begin_of(last + 1) == begin + self.steps
        return Sharers(first, last - first + 1, last - first + ends)


def stream_k_pieces(
    worker: int, workers: int, tiles: int, steps: int, division: Division | None = None
) -> tuple[Piece, ...]:
    """What one worker (a block or a cluster) does, in order, when the last tiles are cut along k.

    division: default `even`. Raises ConfigError if there is no such worker, no tile or no step.
    """
    return Walk(workers, tiles, steps, division or even(tiles, workers, steps)).pieces(worker)


@dataclass(frozen=True)
class Spread:
    """Pieces by worker; steps of the busiest one; by tile of several pieces, how many."""

    pieces: tuple[tuple[Piece, ...], ...]
    busiest: int
    parts: dict[int, int]


def spread(workers: int, tiles: int, steps: int, division: Division | None = None) -> Spread:
    """All that the workers do by a division, default `even`: `stream_k_pieces` of each."""
    pieces = tuple(stream_k_pieces(w, workers, tiles, steps, division) for w in range(workers))
    count = Counter(piece.tile for own in pieces for piece in own)
    busiest = max(sum(piece.end - piece.begin for piece in own) for own in pieces)
    return Spread(pieces, busiest, {tile: n for tile, n in sorted(count.items()) if n > 1})


def _possible(
    whole: int, workers: int, tiles: int, steps: int, ranges: set[int]
) -> Iterator[Division]:
    """Those of the ranges into which the tiles from `whole` on may be cut."""
    left = tiles - whole
    for count in sorted(ranges):
        thick = left * steps >= 2 * LEAST_STEPS * count or left >= count
        if 0 <= whole < tiles and 1 <= count <= workers and thick and left * steps * count < 2**31:
            yield Division(whole, count)


def possible(workers: int, tiles: int, steps: int) -> tuple[Division, ...]:
    """Ways to share tiles out: all whole; the last round cut; the last two rounds cut.

    The last round is cut into equal parts of each tile, or into as many ranges as there are
    workers.
    """
    divisions, rest = [Division(tiles, 0)], tiles % workers
    if rest:
        parts = {*range(2 * rest, workers, rest), workers}
        divisions += _possible(tiles - rest, workers, tiles, steps, parts)
        divisions += _possible(tiles - rest - workers, workers, tiles, steps, {workers})
    return tuple(divisions)


# -- clocks ----------------------------------------------------------------------------------------

FEED = 50
"""Bytes of A and B a clock that an SM takes in from L2, multicast or not: a fit to the notes of one
run on an H200, in which hopper_5 with tiles of 128 x 128 has at 2048 89 % of cuBLAS where 128 x 256
has 95 % (data/tries/hopper.md, run 5), and to the recorded hopper_2 at 4096. For other GPUs it is
assumed."""
SHARE_FEED = 10
"""Bytes of sums a clock that an SM hands over, or takes, while all the others do. hopper_6, as it
was first recorded, wrote and read 2 x 128 KB an SM at 4096 in what comes to about as much; that has
in it what clusters out of step lose in L2. A fit, with MEETING and ALIGNING, to 31 launches of
hopper_5 and hopper_6 on an H200, 16 of them cut (data/tries/slices.md, run 3): root mean square of
ln(measured / predicted) 0.16."""
MEETING = 4000
"""Clocks until a part's sums are visible, counted, and seen by the owners.

The same launches, which went to the GPU one by one, fit 6000; in a CUDA graph it is less: at
128x8192x4096 in BF16 two parts a tile took 26.9 us, whole tiles 34.8. Four ways to L2 and back at
263 (helpers/record/costs/rates.py) are a quarter of it.
"""
START = 9500
"""Clocks of a launch besides its steps: start, first copies, last store.

A fit: what the recorded hopper_5 at 512 takes beyond half of the difference to 1024, on an H200, is
8000; launches over drawn shapes on an H100 take 1500 more (data/tries/slices.md, run 5).
"""


ALIGNING = 4500
"""Clocks of a launch that copies a matrix into one whose rows start on 16 bytes, beside the bytes;
a fit to the same launches as SHARE_FEED. They went to the GPU one by one: in a CUDA graph it takes
less."""
ALIGNING_PASSES = 4
"""How often a copied matrix takes its bytes' time at the memory's bandwidth; a fit to the same
launches. To be read and written is two: copies run at half of the bandwidth."""

WORTH = 1.03
"""A cut is made where it saves this factor at least.

At 8192, where it was to save two percent, the recorded hopper_6 took longer than hopper_5: at the
limit of its power a board with more SMs at work lowers its clock.
"""


ALIKE = 1.01
"""Divisions within this factor are alike: of these the one that spreads the steps most is taken."""


@dataclass(frozen=True)
class Cost:
    """SM clocks of a launch by a division: steps of the busiest worker, sums handed over, all."""

    division: Division
    steps: int
    handing: float
    clocks: float


@dataclass(frozen=True)
class Work:
    """A launch as this model sees it.

    tiles: of a worker (a block or a cluster). steps: of k in each. step: clocks of one. least:
    clocks in which device memory delivers what the product must read and write. sums: bytes of a
    block's sums that lie in C. shares: into how many shares a tile falls at most. cuts: whether the
    kernel can cut tiles.
    """

    workers: int
    tiles: int
    steps: int
    step: float
    least: float
    sums: int
    shares: int
    cuts: bool


def work_of(launch: Geometry, gpu: Gpu) -> Work:
    """What a launch of a Hopper kernel has to do.

    A step takes the longer of two times: its products on the Tensor Cores, or its operands at FEED.
    """
    p, item = launch.params, ITEM_BYTES[launch.kernel.dtype]
    bm, bn = launch.tile
    down, along = p.get("CLUSTER_M", 1), p.get("CLUSTER_N", 1)
    multiply_adds = bm * bn * BK / (gpu.tensor_fp16_flop_per_clock_per_sm / 2)
    out = ITEM_BYTES[launch.kernel.out_dtype]
    nanoseconds = compulsory_bytes(launch.M, launch.N, launch.K, item, out) / gpu.bandwidth_gbs
    # Boxes of 16 rows and 64 columns that lie outside C are not handed over.
    rows, cols = min(bm, cdiv(launch.M, 16) * 16), min(bn, cdiv(launch.N, BK) * BK)
    return Work(
        workers=launch.grid[0] // (down * along),
        tiles=cdiv(launch.M, bm * down) * cdiv(launch.N, bn * along),
        steps=cdiv(launch.K, BK),
        step=max(multiply_adds, (min(bm, launch.M) + min(bn, launch.N)) * BK * item / FEED),
        least=nanoseconds * gpu.boost_mhz / 1e3,
        sums=4 * rows * cols,
        shares=bm // CONSUMERS // 16 * (bn // BK),
        cuts="partial" in launch.kernel.source,
    )


def handed(work: Work, division: Division) -> tuple[float, float]:
    """Bytes of sums that a block leaves at most, and takes at most."""
    cut, ranges = work.tiles - division.whole, division.ranges
    if cut == 0 or cut % ranges == 0:
        return 0.0, 0.0  # whole tiles
    if ranges % cut == 0:  # each tile in equal parts, all of them owners
        parts = ranges // cut
        owners = min(parts, work.shares)
        leaves = 1 - 1 / parts if parts == owners else 1.0
    else:
        # In how many ranges a tile lies at most; of these the last goes on to another tile.
        shortest = max(1, cut * work.steps // ranges - 2 * (LEAST_STEPS - 1))
        parts = min(cdiv(work.steps - 1, shortest) + 1, ranges)
        owners = min(max(1, parts - 1), work.shares)
        leaves = 2 - 1 / owners
    return leaves * work.sums, (parts - 1) / owners * work.sums


def cost(work: Work, division: Division) -> Cost:
    """Clocks by one division.

    It knows nothing of power, nor of what clusters out of step lose in L2.
    """
    steps = cdiv(division.whole, work.workers) * work.steps
    if division.ranges:
        steps += cdiv((work.tiles - division.whole) * work.steps, division.ranges)
    moved = sum(handed(work, division))
    handing = MEETING + moved / SHARE_FEED if moved else 0.0
    return Cost(division, steps, handing, START + max(steps * work.step, work.least) + handing)


@lru_cache(maxsize=4096)
def cheapest(work: Work) -> Cost:
    """The division of fewest clocks; whole tiles unless another saves the factor WORTH."""
    whole = cost(work, Division(work.tiles, 0))
    if not work.cuts:
        return whole
    ways = [cost(work, d) for d in possible(work.workers, work.tiles, work.steps)]
    near = ALIKE * min(way.clocks for way in ways)
    best = min((way for way in ways if way.clocks <= near), key=lambda way: way.steps)
    return best if best.clocks * WORTH <= whole.clocks else whole


def aligning(launch: Geometry, gpu: Gpu) -> float:
    """Clocks of copying matrices whose rows start beside 16 bytes: A, B, and C if TMA stores it."""
    item, clock = ITEM_BYTES[launch.kernel.dtype], gpu.boost_mhz / 1e3 / gpu.bandwidth_gbs
    matrices = [(launch.M, launch.K), (launch.K, launch.N)]
    if "C_map" in launch.kernel.source:
        matrices.append((launch.M, launch.N))
    odd = [rows * cols for rows, cols in matrices if cols * item % 16]
    return sum(ALIGNING + ALIGNING_PASSES * item * elements * clock for elements in odd)


def rounds_of(launch: Geometry, gpu: Gpu, resident: int = 1) -> Rounds:
    """Predict a product of hopper_3 to hopper_6 by the division that `cheapest` finds.

    As `model.rounds_of` has it for FP32; busiest: tiles of the busiest SM, rounded up; peak: of the
    Tensor Cores.
    """
    work = work_of(launch, gpu)
    cost = cheapest(work)
    clocks = cost.clocks + aligning(launch, gpu)
    least = launch.M * launch.N * launch.K / (gpu.tensor_fp16_flop_per_clock_per_sm / 2 * gpu.sms)
    blocks = cdiv(launch.M, launch.tile[0]) * cdiv(launch.N, launch.tile[1])
    busiest = cdiv(cost.steps, work.steps)
    return Rounds(blocks, busiest, resident, clocks, least / clocks)
