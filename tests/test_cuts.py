"""Tiles cut along k among workers: the walk of the kernels, the protocol of handing sums over, and
its clocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.chapters.ch22 import limits
from helpers.ladder import cuts, hopper, launch
from helpers.ladder.cuts import Division, Piece, Sharers, Walk
from helpers.ladder.kernel import KERNELS
from helpers.ladder.rungs import catalog, lay_out
from helpers.record.costs import bounding
from nogpu import device, emulator
from nogpu.errors import ConfigError

H200 = device.gpu("h200")


@st.composite
def walks(choose):
    """Any work, by any division that is possible."""
    workers, tiles = choose(st.integers(1, 40)), choose(st.integers(1, 90))
    steps = choose(st.sampled_from((1, 2, 3, 5, 7, 8, 9, 13, 16, 31, 64, 257)))
    ways = [*cuts.possible(workers, tiles, steps), cuts.even(tiles, workers, steps)]
    return Walk(workers, tiles, steps, choose(st.sampled_from(ways)))


# -- the walk --------------------------------------------------------------------------------------


def faults_of(walk):
    """What is wrong with a walk and its sharers; nothing of a sound one."""
    found = []
    covered: Counter[tuple[int, int]] = Counter()
    of_tile: dict[int, list[tuple[int, Piece, bool]]] = {}
    for worker in range(walk.workers):
        pieces = walk.pieces(worker)
        for piece in pieces:
            covered.update((piece.tile, step) for step in range(piece.begin, piece.end))
            of_tile.setdefault(piece.tile, []).append((worker, piece, piece is pieces[-1]))
            thin = piece.end - piece.begin < cuts.LEAST_STEPS
            if thin and (piece.begin, piece.end) != (0, walk.steps):
                found.append(f"{piece} is thin")
    if set(covered.values()) != {1} or len(covered) != walk.tiles * walk.steps:
        found.append("some step is taken twice, or never")
    begun = Counter(of_tile[tile][0][0] for tile in of_tile if len(of_tile[tile]) > 1)
    if begun and max(begun.values()) > 1:
        found.append("a worker begins two tiles that are cut: their counts would be one")
    for tile in range(walk.division.whole, walk.tiles):
        shared, who = walk.sharers(tile), of_tile[tile]
        workers = [worker for worker, *_ in who]
        if workers != list(range(shared.first, shared.first + shared.parts)):
            found.append(f"{tile=}: {shared} are not {workers}")
        owners = [worker for worker, _, last in who if last]
        if shared.parts > 1 and (owners != workers[: shared.owners] or not owners):
            found.append(f"{tile=}: its owners {owners} go on to other tiles, or are none")
        if [p.begin for _, p, _ in who] != sorted(p.begin for _, p, _ in who):
            found.append(f"{tile=}: parts are not in the order of k")
    return found


@settings(max_examples=300, deadline=None)
@given(walks())
def test_every_step_is_taken_once_and_sharers_are_who_has_pieces(walk):
    assert not faults_of(walk)


class _Careless(Walk):
    """A twin: cuts lie where the division puts them, however thin the pieces."""

    def begin_of(self, number):
        return self.left * number // self.division.ranges


class _Deaf(Walk):
    """A twin: who has the end of a tile owns a share, even if it goes on to another tile."""

    def sharers(self, tile):
        found = super().sharers(tile)
        return replace(found, owners=found.parts)


@pytest.mark.parametrize("twin", [_Careless, _Deaf])
def test_a_careless_walk_is_found(twin):
    of = [(7, 3, 40), (5, 2, 33), (9, 13, 16), (66, 50, 64)]
    assert any(faults_of(twin(w, t, s, cuts.even(t, w, s))) for w, t, s in of)


def test_pieces_by_default_are_shared_evenly():
    pieces = [cuts.stream_k_pieces(w, 6, 2, 24) for w in range(6)]
    assert [p for [p] in pieces] == [Piece(t, 8 * n, 8 * n + 8) for t in (0, 1) for n in range(3)]
    for nobody in ((4, 4, 5, 8), (-1, 4, 5, 8), (0, 1, 0, 8), (0, 1, 5, 0), (0, 0, 5, 8)):
        with pytest.raises(ConfigError):
            cuts.stream_k_pieces(*nobody)


@pytest.mark.parametrize(
    ("tiles", "whole", "ranges"),
    [(8, 8, 0), (9, 4, 4), (13, 8, 4), (3, 0, 4), (1, 1, 0), (4, 4, 0)],
)
def test_even_shares_cut_the_last_one_to_two_rounds(tiles, whole, ranges):
    """Of four workers and eight steps: a tile by itself would be in pieces of two."""
    assert cuts.even(tiles, 4, 8 if tiles < 3 else 16) == Division(whole, ranges)
    assert cuts.even(5, 8, 8) == Division(5, 0)  # as many ranges of eight steps as tiles


def test_ways_to_share_out_are_told_from_the_fewest_cuts_on():
    of_two = [Division(2, 0), *(Division(0, ranges) for ranges in (4, 6, 8))]
    assert cuts.possible(8, 2, 64) == tuple(of_two)
    assert cuts.possible(4, 10, 16) == (Division(10, 0), Division(8, 4), Division(4, 4))
    assert cuts.possible(4, 8, 16) == (Division(8, 0),)


def test_a_spread_tells_of_the_busiest_and_of_tiles_in_parts():
    """66 steps in five ranges, 13 or 14 each; then a round of whole tiles, and the sixth in two."""
    found = cuts.spread(5, 2, 33, Division(0, 5))
    assert (found.busiest, found.parts) == (14, {0: 3, 1: 3})
    assert found.pieces[2] == (Piece(0, 26, 33), Piece(1, 0, 6))
    found = cuts.spread(5, 6, 16, Division(5, 2))
    assert (found.busiest, found.parts) == (24, {5: 2})


def test_the_thinnest_ranges_and_the_most_steps_that_are_taken():
    assert Walk(4, 4, 2, Division(0, 4)).pieces(1) == (Piece(1, 0, 2),)  # whole tiles
    assert Walk(4, 1, 16, Division(0, 1)).sharers(0) == Sharers(0, 1, 1)
    Walk(128, 1, (1 << 24) - 1, Division(0, 128))
    for steps, division in (
        (1 << 24, Division(0, 128)),
        (16, Division(0, 0)),
        (16, Division(-1, 1)),
    ):
        with pytest.raises(ConfigError, match="below 2"):
            Walk(128, 1, steps, division)


def test_what_cannot_be_shared_out_is_refused():
    for workers, tiles, steps, division in (
        (0, 1, 1, Division(1, 0)), (1, 0, 1, Division(0, 0)), (1, 1, 0, Division(1, 0)),
        (4, 1, 16, Division(0, 4)), (4, 1, 64, Division(0, 5)), (4, 2, 64, Division(2, 1)),
        (132, 100, 200_000, Division(0, 132)),
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            Walk(workers, tiles, steps, division)
    walk = Walk(4, 5, 8, cuts.even(5, 4, 8))
    for ask, nobody in ((walk.pieces, -1), (walk.pieces, 4), (walk.sharers, 5)):
        with pytest.raises(ConfigError):
            ask(nobody)


# -- the protocol, as the kernel has it ------------------------------------------------------------

BARRIER = '"r"(1 + threadIdx.x / WARPGROUP)'
ADD = """
extern "C" __global__ void add(const float* A, float* C, int* stored, float4* partial, int* arrived,
                               int tiles, int steps, int whole, int ranges)
{
    StreamK walk(blockIdx.x, gridDim.x, tiles, steps, whole, ranges);
    Piece piece;
    while (walk.take(piece, steps)) {
        float sum[1][2 * BOX_SUMS];
        for (int i = 0; i < 2 * BOX_SUMS; ++i) {
            sum[0][i] = 0;
            for (int k = piece.begin; k < piece.end; ++k)
                sum[0][i] += A[piece.tile * steps + k] * (i + 2 * BOX_SUMS * threadIdx.x);
        }
        unsigned boxes = 3;
        if (piece.end - piece.begin < steps) {
            const Sharers sharers = walk.sharers(piece);
            const auto slot = [&](int part) {
                return partial + (2 * (sharers.first + part) + (part == 0)) * (BOX_SUMS / 2) * WARPGROUP;
            };
            boxes = add_up(sum, sharers, static_cast<int>(blockIdx.x) - sharers.first, 3u,
                           arrived + sharers.first, slot);
        }
        for (int i = 0; i < 2 * BOX_SUMS; ++i) {
            if (boxes >> i / BOX_SUMS & 1) {
                const int at = (piece.tile * WARPGROUP + threadIdx.x) * 2 * BOX_SUMS + i;
                C[at] = sum[0][i];
                stored[at] += 1;
            }
        }
    }
}
"""
"""One warpgroup a block whose sums are whole numbers, so that they are exact in any order."""


def add_up(walk, old="", new="", schedule="ascending"):
    """Run kernels/common/hand_over.cuh in the emulator, `old` in it replaced: right, report."""
    text = (KERNELS / "common" / "hand_over.cuh").read_text(encoding="utf-8")
    assert text.count(BARRIER) == 1 and (not old or text.count(old) == 1), old
    source = text.replace(BARRIER, '"n"(1)').replace(old, new) + ADD  # the emulator wants a literal
    A = np.arange(walk.tiles * walk.steps, dtype=np.float32) % 7
    C = np.zeros((walk.tiles, 128 * 64), np.float32)
    stored, arrived = np.zeros(C.shape, np.int32), np.zeros(walk.workers, np.int32)
    partial = np.full((walk.workers * 2 * 16 * 128, 4), np.nan, np.float32)
    d = walk.division
    report = emulator.launch(
        source, "add", walk.workers, 128,
        [A, C, stored, partial, arrived, walk.tiles, walk.steps, d.whole, d.ranges],
        uninitialised=("C", "partial"), max_seconds=60, schedule=schedule,
    )  # fmt: skip
    want = A.reshape(walk.tiles, -1).sum(axis=1)[:, None] * np.arange(128 * 64)
    return bool((want == C).all() and (stored == 1).all() and not arrived.any()), report


@pytest.mark.parametrize(
    "walk",
    [
        Walk(4, 1, 32, Division(0, 4)),  # a part a worker
        Walk(5, 2, 33, Division(0, 5)),  # one worker has parts of two tiles
        Walk(6, 8, 16, Division(0, 6)),  # two parts, one owner
        Walk(5, 6, 16, Division(5, 2)),  # whole tiles, then one cut
        Walk(12, 1, 96, Division(0, 12)),  # more parts than shares
        Walk(7, 4, 40, cuts.even(4, 7, 40)),  # owners that go on to another tile
    ],
)
@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_the_kernels_own_hand_over(walk, schedule):
    right, report = add_up(walk, schedule=schedule)
    assert right and not report.findings, report.findings


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    __threadfence();  // the sums", "    // the sums"),
        ("    warpgroup_sync();\n    const bool", "    const bool"),
        ("< sharers.parts)", "< sharers.parts - 1)"),
        ("sharers.parts + sharers.owners - 1", "sharers.parts + sharers.owners"),
        ("other != part", "other > part"),
        ("boxes & ~owned", "boxes & owned"),
    ],
)
def test_twins_of_the_hand_over_are_found(old, new):
    right, report = add_up(Walk(5, 2, 33, Division(0, 5)), old, new)
    assert not right or report.findings


WALK = """
#include "common/stream_k.cuh"

extern "C" __global__ void walk(int* out, int* who, int tiles, int steps, int whole, int ranges)
{
    StreamK walk(threadIdx.x, blockDim.x, tiles, steps, whole, ranges);
    Piece piece;
    for (int i = 0; walk.take(piece, steps); ++i) {
        int* to = out + (threadIdx.x * 16 + i) * 3;
        to[0] = piece.tile;
        to[1] = piece.begin;
        to[2] = piece.end;
        if (ranges > 0 && piece.tile >= whole && piece.begin == 0) {
            const Sharers s = walk.sharers(piece);
            who[piece.tile * 3] = s.first;
            who[piece.tile * 3 + 1] = s.parts;
            who[piece.tile * 3 + 2] = s.owners;
        }
    }
}
"""


@pytest.mark.parametrize(
    ("tiles", "workers", "steps"),
    [(5, 4, 8), (7, 3, 64), (256, 66, 64), (3, 4, 5), (8, 4, 2), (67, 66, 1), (16, 66, 256), (50, 66, 63), (1, 132, 1100)],
)  # fmt: skip
def test_pieces_are_the_kernels(tiles, workers, steps):
    ways = {*cuts.possible(workers, tiles, steps), cuts.even(tiles, workers, steps)}
    for division in sorted(ways, key=repr)[:: max(1, len(ways) // 6)]:
        walk = Walk(workers, tiles, steps, division)
        out, who = np.full((workers, 16, 3), -1, np.int32), np.zeros((tiles, 3), np.int32)
        emulator.launch(
            WALK, "walk", 1, workers, [out, who, tiles, steps, division.whole, division.ranges]
        )
        for worker in range(workers):
            pieces = [tuple(int(v) for v in row) for row in out[worker] if row[0] >= 0]
            assert pieces == [(p.tile, p.begin, p.end) for p in walk.pieces(worker)]
        for tile in range(division.whole, tiles):
            assert Sharers(*map(int, who[tile])) == walk.sharers(tile)


# -- clocks ----------------------------------------------------------------------------------------


def counted(walk, work):
    """Bytes that the busiest worker leaves and takes, counted over all pieces, shares as equal as
    they may be."""
    leaves: Counter[int] = Counter()
    takes: Counter[int] = Counter()
    for tile in range(walk.division.whole, walk.tiles):
        s = walk.sharers(tile)
        for part in range(s.parts if s.parts > 1 else 0):
            owned = 1 / min(s.owners, work.shares) if part < s.owners else 0.0
            leaves[s.first + part] += (1 - owned) * work.sums
            takes[s.first + part] += owned * (s.parts - 1) * work.sums
    return max(leaves.values(), default=0), max(takes.values(), default=0)


@settings(max_examples=200, deadline=None)
@given(walks(), st.sampled_from((8, 16)))
def test_the_model_counts_no_less_than_is_handed_over(walk, shares):
    work = cuts.Work(walk.workers, walk.tiles, walk.steps, 1024, 0, 131072, shares, True)
    predicted, found = cuts.handed(work, walk.division), counted(walk, work)
    assert all(a >= b - 1e-6 for a, b in zip(predicted, found, strict=True)), (predicted, found)
    longest = max(sum(p.end - p.begin for p in walk.pieces(w)) for w in range(walk.workers))
    assert longest <= cuts.cost(work, walk.division).steps + 2 * (cuts.LEAST_STEPS - 1)


HANDED = [
    (3, 8, 16, 8, Division(3, 0), 0, 0),  # nothing is cut
    (4, 8, 16, 8, Division(0, 2), 0, 0),  # two whole tiles each
    (2, 8, 64, 8, Division(0, 8), 0.75, 0.75),  # four parts, each of which stores a quarter
    (2, 24, 96, 8, Division(0, 24), 1, 11 / 8),  # twelve parts, of which eight store
    (2, 5, 33, 8, Division(0, 5), 1.75, 1),  # ranges of 7 steps at least: in all five of them
    (2, 5, 33, 2, Division(0, 5), 1.5, 2),  # of which two store
    (4, 7, 40, 8, Division(0, 7), 5 / 3, 1),  # ranges of 16 steps at least: four
    (8, 6, 16, 8, Division(0, 6), 1, 1),  # of 15: two, and the first stores
    (66, 50, 3, 8, Division(50, 11), 1.5, 1),  # ranges of a step at least: three
    (66, 50, 1, 8, Division(50, 11), 1, 0),  # one step in one range
]
"""Tiles, workers, steps, shares, division; tiles of sums that a block leaves and takes at most."""


@pytest.mark.parametrize(
    ("tiles", "workers", "steps", "shares", "division", "left", "taken"), HANDED
)
def test_sums_are_handed_over_by_whoever_does_not_store_them(
    tiles, workers, steps, shares, division, left, taken
):
    work = cuts.Work(workers, tiles, steps, 1024, 0, 131072, shares, True)
    handed = cuts.handed(work, division)
    assert handed == pytest.approx((left * work.sums, taken * work.sums))


PREDICTED = """
hopper_3      900x4096x1000   25884.0 1 128   0
hopper_5      2903x500x36     29492.8 1  24   0
hopper_5      4096x4096x512   42268.0 4 128   0 CLUSTER_M=2 CLUSTER_N=2
hopper_6      128x1x8192      36044.3 1   0  16 BN=128 STAGES=6 CLUSTER_M=1
hopper_6      16x4096x4096    28678.1 1   0 128 BN=128 STAGES=6 CLUSTER_M=1
hopper_6      1200x2048x8192 126140.0 1   0  66
hopper_6_fp16 2000x1500x8192 205333.1 2  66  60 BN=128 STAGES=6
hopper_6_fp16 1500x2903x36    41616.2 3 276   0 BN=128 STAGES=6 CLUSTER_M=1
hopper_6_fp16 16x1000x2903    24584.0 1   0  40 BN=128 STAGES=6
hopper_6_fp16 2903x129x2000   41558.7 1  46   0 BN=128 STAGES=6 CLUSTER_M=1
hopper_6      4100x4100x8192 789489.2 5 198  66
hopper_6      2048x2100x8192 260654.5 2  66  66
"""
"""Kernel, shape, SM clocks, tiles of the busiest SM, division, tile: launches on an H200."""


@pytest.mark.parametrize("line", PREDICTED.strip().splitlines())
def test_a_launch_is_predicted_as_before(line):
    name, shape, clocks, busiest, whole, ranges, *tile = line.split()
    sizes = {size: int(value) for size, value in (word.split("=") for word in tile)}
    p = lay_out(name, *map(int, shape.split("x")), **sizes)
    rounds = cuts.rounds_of(p, H200)
    assert rounds.clocks == pytest.approx(float(clocks), abs=0.06)
    assert (rounds.busiest, rounds.resident) == (int(busiest), 1)
    assert rounds.blocks == -(-p.M // p.tile[0]) * -(-p.N // p.tile[1])
    peak = H200.tensor_fp16_flop_per_clock_per_sm / 2 * H200.sms
    assert rounds.peak == pytest.approx(p.M * p.N * p.K / peak / rounds.clocks)
    division = cuts.cheapest(cuts.work_of(p, H200)).division
    assert division == Division(int(whole), int(ranges))


@pytest.mark.parametrize("tile", [{}, *catalog["hopper_6"].candidates], ids=str)
def test_a_tile_has_a_share_for_each_box_of_a_consumer(tile):
    """Boxes of 16 rows and 64 columns, and two consumers."""
    p = lay_out("hopper_6", 1024, 1024, 16384, **tile)
    assert 2 * 16 * 64 * cuts.work_of(p, H200).shares == p.tile[0] * p.tile[1]


FEW = ((1024, 1024, 16384), (128, 8192, 4096), (512, 4096, 4096), (16, 4096, 4096))


def test_the_pages_few_tiles_are_fewer_than_the_sms():
    rows = limits.few()
    assert all(row["SMs with a tile"] < H200.sms for row in rows)
    assert all(row["steps, cut"] <= row["steps, whole"] for row in rows)
    assert all(row["KB, shares"] <= row["KB, one owner"] for row in rows)


def test_the_cost_model_shares_cut_tiles_evenly_and_whole_ones_not():
    cut = ((1024, 1024, 16384), (16, 4096, 4096))
    for shape, is_cut in (*((one, True) for one in cut), ((4096,) * 3, False)):
        p = lay_out("hopper_6", *shape)
        assert (hopper.division(p).ranges > 0) == is_cut
        busiest = bounding.spread(p, H200, 1).busiest
        even = shape[0] * shape[1] / (p.tile[0] * p.tile[1]) / H200.sms
        assert busiest == even if is_cut else busiest > even


@pytest.mark.parametrize("name", ["hopper_5", "hopper_6", "hopper_5_fp16", "hopper_6_fp16"])
def test_a_tile_is_chosen_by_shape(name):
    """With nothing compiled; few rows are not given to clusters of two blocks, stacked."""
    for shape in FEW:
        p = launch.choose(name, *shape, gpu=H200)
        assert p.kernel.name == name and p.why and (p.M, p.N, p.K) == shape
        laid_out = (lay_out(name, *shape, **w) for w in catalog[name].candidates)
        least = min(cuts.rounds_of(one, H200).clocks for one in laid_out)
        assert cuts.rounds_of(p, H200).clocks == least
    if "hopper_6" in name:
        assert launch.choose(name, 16, 4096, 4096, gpu=H200).params["CLUSTER_M"] == 1
    with pytest.raises(ConfigError, match="sm_90a"):
        launch.choose(name, 512, 512, 512, gpu=device.gpu("t4"))
