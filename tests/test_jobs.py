"""One thread's two jobs: read off a run, the same as the formulas of the kernels, and drawn."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers import draw as plots
from helpers.draw.thread_jobs import boxes, places_text
from helpers.ladder.jobs import duties
from helpers.ladder.rungs import cores, find
from nogpu.errors import ConfigError, DataError

STAGED = [name for name in cores if find(name).reuse == "block" and find(name).dtype == "float32"]


@pytest.mark.parametrize("name", STAGED)
def test_threads_share_the_tiles_and_compute_each_element_once(name):
    d = duties(name)
    (m, n), k = d.launch.tile, d.depth
    for array, rows, columns in (("A", m, k), ("B", k, n)):
        copied = np.concatenate([np.reshape(f, (-1, 2)) for f in d.fetched[array]])
        assert len(copied) == rows * columns == len({(r, c) for r, c in copied.tolist()})
        assert copied.max(axis=0).tolist() == [rows - 1, columns - 1]
    cells = [at for mine in d.computes for at in mine]
    assert len(cells) == m * n == len(set(cells))
    assert all(
        set(mine) == {(i, j) for i in d.reads["A"][t] for j in d.reads["B"][t]}
        for t, mine in enumerate(d.computes)
    )


def test_jobs_are_those_of_the_text():
    """By the formulas of 08_block_1d.cu and 10_vectorised.cu, for every thread."""
    one, four = duties("block_1d_core"), duties("vectorised_core")
    for t in range(one.threads):
        assert one.fetched["A"][t].tolist() == [[[t // 8, t % 8]]]
        assert one.fetched["B"][t].tolist() == [[[t // 64, t % 64]]]
        assert one.computes[t] == tuple((t // 64 * 8 + i, t % 64) for i in range(8))
    for t in range(four.threads):
        at = [[t // 2, t % 2 * 4 + i] for i in range(4)]
        assert four.fetched["A"][t].tolist() == [at]
        columns = [t % 16 * 4 + j for j in range(4)] + [t % 16 * 4 + 64 + j for j in range(4)]
        assert four.reads["B"][t] == tuple(columns)
    assert one.lands("A", 4, 5) == "A_tile[4][5]"
    assert four.lands("A", 18, 4) == "A_tile[4][18]" and four.lands("B", 1, 20) == "B_tile[1][20]"


def test_a_whole_kernel_has_the_jobs_of_its_core():
    for name in ("vectorised", "double_buffer", "lane_map", "warp_tiled"):
        whole, core = duties(name), duties(f"{name}_core")
        assert whole.computes == core.computes and whole.reads == core.reads
        assert whole.place == core.place
        both = zip(whole.fetched["A"], core.fetched["A"], strict=True)
        same = (np.array_equal(*pair) for pair in both)
        assert all(same)
    assert duties("block_1d", BM=128, BN=128, TM=16).launch.tile == (128, 128)
    with pytest.raises(ConfigError, match="16 threads, which are no whole warps of 32"):
        duties("tiled_32", TILE=4)
    with pytest.raises(ConfigError, match="threads 0 to"):
        duties("block_1d_core").check("a")


def test_a_kernel_that_reads_other_elements_than_it_computes_is_not_drawn():
    """The wrong twin: the sums of the neighbouring column."""
    text = find("block_1d_core").source
    twin = find("block_1d_core").with_source(
        text.replace("B_tile[k][c_col]", "B_tile[k][c_col ^ 1]")
    )
    with pytest.raises(DataError, match="cannot be read off"):
        duties(twin)


def test_places_are_put_together_to_rectangles():
    patch = [(i, j) for i in range(2, 5) for j in (7, 8)]
    assert boxes(patch) == [(2, 7, 3, 2)]
    assert boxes([*patch, (9, 0)]) == [(2, 7, 3, 2), (9, 0, 1, 1)]
    assert places_text(patch) == "rows 2–4, columns 7–8"
    assert (
        places_text([(0, 1), (2, 1), (4, 1)])
        == "3 pieces, the first at row 0, column 1, the last at row 4, column 1"
    )


def test_the_picture_says_what_it_draws():
    figure = plots.two_jobs("block_1d_core", thread=70)
    sentence = "Thread 70 of a block of block_1d_core copies 1 element of A (row 8, column 6)"
    assert sentence in figure.alt
    assert "computes 8 elements of C (rows 8–15, column 6)" in figure.caption
    own = {"#009e73", "#d55e00"}
    for svg in (figure.svg, figure.narrow):
        assert own <= set(re.findall(r"fill:\s?(#\w{6})", svg))
    assert figure.alt != plots.two_jobs("block_1d_core", thread=71).alt
