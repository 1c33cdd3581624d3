"""Pictures of the first chapters: what they show equals what the addresses and the launch say."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import colours
from helpers.chapters.ch01 import pictures as ch01
from helpers.chapters.investigations import pictures as investigations
from nogpu import emulator
from tests.test_pictures_tensor import texts

FIGURES = {
    "blocks of a vector": lambda: ch01.vector_blocks(1000, 256, thread=(2, 3)),
    "sets of a cache": lambda: investigations.cache_sets(1024),
}
NUMBER = """
extern "C" __global__ void number(int* i, int* block, int* thread, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) { i[t] = t; block[t] = blockIdx.x; thread[t] = threadIdx.x; }
}
"""


@pytest.mark.parametrize(("n", "block"), [(1000, 256), (7, 3), (12, 4), (1, 32)])
def test_the_marked_thread_has_the_number_that_a_launch_gives_it(n, block):
    i, blocks, threads = (np.full(n, -1, np.int32) for _ in range(3))
    grid = -(-n // block)
    emulator.launch(NUMBER, "number", (grid, 1, 1), (block, 1, 1), [i, blocks, threads, n])
    last = n - 1
    marked = (int(blocks[last]), int(threads[last]))
    figure = ch01.vector_blocks(n, block, thread=marked)
    assert f"has i = {marked[0]} times {block} plus {marked[1]} = {i[last]}." in figure.alt
    idle = grid * block - n
    assert (f"The last {idle} threads have no element" in figure.alt) == (idle > 0)
    for drawn in map(list, map(texts, (figure.svg, figure.narrow))):
        assert f"grid: {grid} × {block} = {grid * block:,} threads" in drawn
        assert str(i[last]) in drawn
        assert any(text.endswith(f"= {i[last]}") for text in drawn)
        assert any("have none" in text for text in drawn) == (idle > 0)
    wrong = ch01.vector_blocks(n, block + 1, thread=(0, 0))
    assert wrong.alt != figure.alt and f"blocks of {block} threads" not in wrong.alt


def cache(rows, pitch, sets, line):
    """The lines of a column by set, kept as a cache does: one address after the other."""
    by_set: dict[int, set[int]] = {}
    for address in range(0, rows * pitch, pitch):
        number, _ = divmod(address, line)
        by_set.setdefault(number & (sets - 1), set()).add(number)  # sets: a power of two
    return by_set


@pytest.mark.parametrize("rows", [1, 100, 512, 1024, 1025])
@pytest.mark.parametrize("pitch", [4, 64, 2048, 4096, 4100])
def test_sets_and_lines_are_those_of_a_cache(rows, pitch):
    by_set = cache(rows, pitch, 64, 64)
    most = max(map(len, by_set.values()))
    figure = investigations.cache_sets(rows, (pitch,))
    label = f"{len(by_set)} sets, up to {most:,} lines in each"
    label = label if len(by_set) > 1 else f"1 set, {most:,} lines in it"
    assert label in figure.alt
    assert all(label in drawn for drawn in map(list, map(texts, (figure.svg, figure.narrow))))
    assert label not in investigations.cache_sets(rows + 4096, (pitch,)).alt
    assert {investigations.set_of(r * pitch) for r in range(rows)} == set(by_set)


def test_the_odd_column_is_of_another_colour():
    odd, even = investigations.cache_sets(1024), investigations.cache_sets(1024, (4100,))
    assert "with rows of 4096 bytes, 1 set, 1,024 lines in it" in odd.alt
    for svg in (odd.svg, odd.narrow):
        assert colours.VERMILION in svg and colours.BLUE in svg
    assert colours.VERMILION not in even.svg
