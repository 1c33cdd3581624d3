"""The worked examples: their numbers are those of the kernels, the emulator and the formulas."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from helpers import matmul
from helpers.chapters.ch06 import pictures as ch06
from helpers.chapters.investigations import pictures as investigations
from helpers.draw import Figure
from helpers.ladder import launch
from tests.common import twin
from tests.test_pictures_lanes import shared_read, wavefronts

A = np.array([[1, 2, 3, 1], [2, 1, 1, 3], [4, 1, 2, 2], [1, 3, 1, 2]], np.float32)
B = np.array([[1, 2, 2, 1], [3, 1, 1, 2], [2, 2, 1, 3], [1, 1, 4, 1]], np.float32)


FIGURES: dict[str, Callable[[], Figure]] = {
    "phases": lambda: ch06.tile_phases(A, B, block=(0, 1)),
    "ragged phases": lambda: ch06.tile_phases(
        A[:3, :3], B[:3], tile=2, block=(1, 1), thread=(0, 1)
    ),
    "phases of three": lambda: ch06.tile_phases(np.ones((6, 6)), np.ones((6, 6)), tile=3),
    "barriers": ch06.barriers,
    "three warps": lambda: ch06.barriers(fetch=(2, 3, 4), multiply=(3, 5, 4), steps=3),
    "queues": investigations.line_queues,
    "one queue": lambda: investigations.line_queues((132,)),
    "three queues": lambda: investigations.line_queues((128, 144, 4100)),
}


# -- phases ---------------------------------------------------------------------------------------


def as_the_kernel(phases, row, col):
    """Whether the sums after each phase are those of the kernel, stopped there, in the emulator."""

    def until(phase):
        deep = phase.k0 + len(phase.a_tile)
        return matmul("tiled_32", A[:, :deep].copy(), B[:deep].copy(), backend="emulator", TILE=2)

    place = np.s_[2 * row : 2 * row + 2, 2 * col : 2 * col + 2]
    return all((phase.after == until(phase)[place]).all() for phase in phases)


@pytest.mark.parametrize(("row", "col"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_the_sums_are_those_of_the_tiled_kernel(row, col):
    phases = ch06._phases(A, B, 2, (row, col))
    assert [phase.k0 for phase in phases] == [0, 2]
    assert as_the_kernel(phases, row, col)
    assert not as_the_kernel(ch06._phases(A, B.T, 2, (row, col)), row, col)
    assert not as_the_kernel(phases, 1 - row, col)


def test_what_is_drawn_is_what_was_computed():
    figure = FIGURES["phases"]()
    phases = ch06._phases(A, B, 2, (0, 1))
    assert ch06._sum_in_words(phases[0], 1, 0) == "0 + 2·2 + 1·1 = 5"
    for phase in phases:
        words = ch06._sum_in_words(phase, 1, 0)
        for text in (figure.svg, figure.narrow, figure.alt):
            assert words in text
            assert ch06._sum_in_words(phase, 0, 1) not in text
    # the numbers of every matrix, each drawn once a phase
    shown = sorted(re.findall(r">(\d+)</text>", figure.svg), key=int)
    wanted = [A, B, *(m for p in phases for m in (p.a_tile, p.b_tile, p.after)), A, B]
    assert shown == sorted((f"{v:g}" for m in wanted for v in m.flat), key=int)


def test_a_tile_that_leaves_the_matrix_is_filled_with_zeros():
    phases = ch06._phases(A[:3, :3], B[:3], 2, (1, 1))
    assert (phases[1].a_tile == [[2, 0], [0, 0]]).all()
    assert (phases[1].b_tile == [[1, 3], [0, 0]]).all()
    assert (phases[1].after[0] == (A[:3, :3] @ B[:3])[2, 2:]).all()
    assert (phases[1].after[1] == 0).all()


# -- barriers -------------------------------------------------------------------------------------

FIRST = "__syncthreads();  // both tiles are complete"
SECOND = "__syncthreads();  // everyone has read the tiles: they may be overwritten"


def races(*missing):
    """Races that the emulator finds in the tiled kernel without these barriers."""
    kernel = twin("tiled_32", *((barrier, "") for barrier in missing))
    return len(launch.trace(kernel, 64, 64, 64).report.findings)


@pytest.mark.parametrize(
    ("first", "second", "missing"),
    [(True, True, ()), (False, True, (FIRST,)), (True, False, (SECOND,))],
)
def test_the_model_clashes_where_the_emulator_finds_races(first, second, missing):
    _, _, clashes = ch06._two_warps((2, 4), (3, 5), 2, first=first, second=second)
    assert bool(clashes) == bool(races(*missing)) == bool(missing)
    assert {clash.early for clash in clashes} == ({not first} if missing else set())


def test_warps_wait_for_the_slowest_and_clash_when_they_say():
    spans, met, clashes = ch06._two_warps((2, 4), (3, 5), 2, first=True, second=True)
    assert (met, clashes) == ([4, 9, 13], [])
    ends = {(s.warp, s.kind, s.step): (s.begin, s.end) for s in spans}
    assert ends[0, "wait", 0] in ((2, 4), (7, 9)) and ends[1, "multiply", 1] == (13, 18)
    _, met, clashes = ch06._two_warps((2, 4), (3, 5), 2, first=False, second=True)
    assert met == [9]
    assert clashes == [ch06.Clash(0, 1, 0, True, 2, 4), ch06.Clash(0, 1, 1, True, 11, 13)]
    _, met, clashes = ch06._two_warps((2, 4), (3, 5), 2, first=True, second=False)
    assert (met, clashes) == ([4, 13], [ch06.Clash(1, 0, 0, False, 7, 9)])
    # equal warps never clash: without a barrier it may work by luck
    assert not ch06._two_warps((2, 2), (3, 3), 2, first=False, second=False)[2]


def test_the_barriers_tell_what_goes_wrong():
    alt = FIGURES["barriers"]().alt
    both, first, second = re.split(r"Without the (?:first|second): ", alt)
    assert "No word is read too early" in both
    assert "Warp 0 multiplies tiles 0 and 1 while warp 1 still fetches them" in first
    assert "Warp 0 fetches over tile 0 while warp 1 still multiplies it" in second
    assert "fetches over" not in first and "still fetches" not in second


# -- queues ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pitch", "deepest"), [(32, 32), (33, 1), (34, 2), (36, 4), (48, 16)])
def test_a_queue_is_as_deep_as_the_emulators_wavefronts(pitch, deepest):
    lines, _, counts = investigations._column(4 * pitch)
    assert wavefronts(shared_read(pitch * np.arange(32), 4)) == max(counts) == deepest
    assert len(set(lines)) == 32 and sum(counts) == 32
    assert max(investigations._column(4 * pitch + 4)[2]) != deepest


def test_the_queues_are_counted():
    alt = FIGURES["queues"]().alt
    assert "ows of 4,096 bytes: 32 lines, 1 of 32 banks, 32 words in the busiest" in alt
    assert "rows of 4,100 bytes: 32 lines, every word in a bank of its own" in alt
    assert "hypothesis" in FIGURES["queues"]().caption
    assert "32 words wait for bank 0" in FIGURES["queues"]().narrow
    assert "8 of 32 banks, 4 words in the busiest" in FIGURES["three queues"]().alt
