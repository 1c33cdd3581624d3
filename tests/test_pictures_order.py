"""The order of tiles: the model's against the kernel's own, and what the drawing says of it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers import catalog, plan
from helpers.chapters.ch14 import pictures
from helpers.ladder import model, numbers
from nogpu import emulator
from tests.test_pictures_tensor import texts


def of_the_kernel(rows, columns, group):
    """The tile that each block of fp32_best writes, found by starting one block more each time."""
    k, tile = catalog["fp32_best"], dict(catalog["fp32_best"].candidates[3], GROUP_M=group)
    M, N, K = 32 * rows - 3, 32 * columns - 5, 1
    p = plan(k, M, N, K, **tile)
    assert p.tile == (32, 32) and p.grid == (rows * columns, 1, 1)
    A, B = numbers.operands(k, M, N, K)
    found, before = [], np.zeros((M, N), bool)
    for blocks in range(1, rows * columns + 1):
        C = np.full((M, N), np.nan, np.float32)
        emulator.launch(
            k.source, k.entry, (blocks, 1, 1), p.block, [A, B, C, M, N, K],
            shared_bytes=p.shared_bytes, defines=p.defines, arch=k.min_arch, name=k.file,
        )  # fmt: skip
        new = np.argwhere(~np.isnan(C) & ~before) // 32
        [where] = {(int(row), int(column)) for row, column in new}
        found.append(where)
        before = ~np.isnan(C)
    return found


FIGURES = {"tile order": pictures.tile_order}
SHAPES = [(5, 3, 2), (3, 4, 1), (2, 3, 4)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_order_is_that_of_the_kernel(shape):
    assert list(model.tile_order(*shape)) == of_the_kernel(*shape)


def test_another_order_is_seen():
    """Bands whose tiles run along the rows, and bands that turn back."""
    along = [(row, column) for band in range(0, 5, 2) for row in range(band, min(band + 2, 5))
             for column in range(3)]  # fmt: skip
    assert sorted(along) == sorted(model.tile_order(5, 3, 2))
    assert along != of_the_kernel(5, 3, 2)
    turned = model.tile_order(5, 3, 2, turn=True)
    assert turned[:6] == model.tile_order(5, 3, 2)[:6]
    assert turned[6:8] == ((2, 2), (3, 2))  # tile_order.cuh: odd bands begin at the last column
    assert list(turned) != of_the_kernel(5, 3, 2)


def needs(rows, columns, group, running):
    """Tile rows of A and tile columns of B of the first blocks, by marking them."""
    marked = np.zeros((rows, columns), bool)
    for row, column in model.tile_order(rows, columns, group)[:running]:
        marked[row, column] = True
    return int(marked.any(axis=1).sum()), int(marked.any(axis=0).sum())


@pytest.mark.parametrize(
    ("rows", "columns", "running", "groups"), [(8, 8, 12, (1, 4)), (5, 4, 7, (2, 1, 4))]
)
def test_the_drawing_says_what_the_blocks_need(rows, columns, running, groups):
    figure = pictures.tile_order(rows, columns, running=running, groups=groups)
    counted = [needs(rows, columns, group, running) for group in groups]
    pairs = re.findall(r"need (\d+) tile rows? of A and (\d+) tile columns? of B", figure.alt)
    assert [(int(a), int(b)) for a, b in pairs] == counted
    assert pairs == re.findall(r"need (\d+) tile rows? of A and (\d+) tile", figure.caption)
    for svg in (figure.svg, figure.narrow):
        drawn = list(texts(svg))
        for a, b in counted:
            assert any(text.endswith(f"= {a + b}") for text in [" ".join(drawn), *drawn])
        numbers = [int(text) for text in drawn if text.isdigit()]
        orders = (model.tile_order(rows, columns, g) for g in groups)
        inner = [{tile: block for block, tile in enumerate(order)} for order in orders]
        assert sorted(numbers) == sorted(n for order in inner for n in order.values())


def test_a_drawing_of_another_number_of_blocks_says_something_else():
    """The wrong twin: row by row and in bands, the need depends on how many blocks run."""
    assert needs(8, 8, 1, 12) == (2, 8) and needs(8, 8, 4, 12) == (4, 3)
    assert needs(8, 8, 1, 8) == (1, 8)
    assert pictures.tile_order(running=8).alt != pictures.tile_order().alt
    assert pictures.tile_order(groups=(1, 2)).alt != pictures.tile_order().alt
