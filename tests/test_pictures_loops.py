"""Drawings of chapters 13 to 15: a walk through a patch, the order of tiles, tiles dealt to SMs,
and counted operands."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from helpers import catalog
from helpers.chapters.ch13 import pictures as ch13
from helpers.chapters.ch13.register_file import behind, operands, sources
from helpers.chapters.ch14 import pictures as ch14
from helpers.draw import Figure
from helpers.draw import work_per_sm as ch15
from nogpu import device
from nogpu.toolchain import SassInstruction

H200 = device.gpu("h200")


@pytest.mark.parametrize(("rows", "columns"), [(4, 8), (3, 5), (1, 4), (2, 1)])
def test_a_walk_says_what_neighbours_share(rows, columns):
    def by_hand(back):
        last, kept = None, 0
        for i in range(rows):
            for j in range(columns)[:: -1 if back and i % 2 else 1]:
                kept += last is not None and (last[0] == i or last[1] == j)
                last = (i, j)
        return kept

    figure = ch13.walks(rows, columns)
    counts = [int(n) for n in re.findall(r"(\d+) multiply-adds? of", figure.alt)]
    assert counts == [by_hand(False), by_hand(True)]
    assert (counts[0] < counts[1]) is (rows > 1 and columns > 1)


@pytest.mark.parametrize(("size", "sms"), [(1024, 132), (1025, 40), (100, 7)])
def test_tiles_are_dealt_to_every_sm_in_turn(size, sms):
    figure = ch15.tiles_per_sm(size, [(128, 256), (64, 64)], replace(H200, sms=sms))
    for bm, bn in ((128, 256), (64, 64)):
        hands = [0] * sms
        tiles = len(range(0, size, bm)) * len(range(0, size, bn))
        for tile in range(tiles):
            hands[tile % sms] += 1
        words = (
            f"{bm}x{bn} there are {tiles}, the busiest SM has {max(hands)} and {hands.count(0)} SMs"
        )
        assert words in figure.alt


def sass(*lines):
    return [
        SassInstruction(16 * at, *line.split(" ", 1)) for at, line in enumerate(lines)
    ]  # address, opcode, operands


def test_what_is_ready_behind_a_barrier():
    read, far = "LDS.128 R4, [R90]", "FFMA R20, R30, R31, R20"
    need = "FFMA R21, R5, R31, R21"
    assert behind(sass("BAR.SYNC 0x0", read, far, far, need, far)) == 2
    assert behind(sass(need, far, "BAR.SYNC 0x0", read, far)) == 1  # around the loop's end
    assert behind(sass("BAR.SYNC 0x0", read, need)) == 0
    assert sources("R48, R75, -R61.reuse, R48") == [75, 61, 48]
    assert sources("R48, R75, c[0x0][0x160], RZ") == [75]


def test_a_kernel_without_its_zeros_has_sums_in_the_way():
    zeros, none = operands("fp32_best"), operands("fp32_best", ZEROS_ADDED=0)
    assert zeros.ffma == none.ffma and zeros.alike < none.alike
    ahead, late = operands("warp_tiled"), operands("warp_tiled", FRAGMENTS_AHEAD=0)
    assert ahead.behind > late.behind == 0
    one_way = operands("warp_tiled", BACK_AND_FORTH=0)
    assert one_way.reuse < ahead.reuse <= ahead.ffma < ahead.instructions
    assert ahead.share == pytest.approx(100 * ahead.ffma / ahead.instructions)
    assert catalog["warp_tiled"].params["TM"] * 8 * 8 == ahead.ffma


FIGURES: dict[str, Callable[[], Figure]] = {"walks": ch13.walks, "tile order": ch14.tile_order}
FIGURES["dealt"] = lambda: ch15.tiles_per_sm(1024, [(128, 256), (64, 128)], H200)
