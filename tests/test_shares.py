"""Tiles of several heights that fill whole rounds: the count in Python, and the kernel in the
emulator, which must store the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.ladder import choosing, shares
from helpers.ladder.kernel import cdiv
from helpers.ladder.launch import trace
from helpers.ladder.rungs import lay_out
from nogpu import device

H200 = device.gpu("h200")


@settings(max_examples=200)
@given(st.integers(1, 9000), st.integers(1, 9000), st.integers(1, 66), st.sampled_from((192, 240)))
def test_every_row_of_c_is_in_one_share_and_no_cluster_has_more_than_its_rounds(
    M, N, clusters, low
):
    p = lay_out("even_shares", M, N, 64, SMS=2 * clusters, LOW=low)
    found = shares.of(p)
    cols = cdiv(N, 256)
    rounds = cdiv(cdiv(M, 256) * cols, len(found))
    assert max(map(len, found)) <= rounds
    for col in range(cols):
        own = sorted((s.m0, s.rows) for cluster in found for s in cluster if s.col == col)
        ends = [m0 + rows for m0, rows in own]
        assert [m0 for m0, _ in own] == [0, *ends[:-1]] and ends[-1] >= M > own[-1][0]
        assert all(low <= rows <= 256 and rows % 8 == 0 for _, rows in own)


def test_at_4096_four_rounds_are_full_and_at_5120_seven():
    four, seven = (shares.of(lay_out("even_shares", n, n, n)) for n in (4096, 5120))
    assert {len(own) for own in four} == {4} and {len(own) for own in seven} == {7}
    assert max(sum(s.rows for s in own) for own in four) == 1000 < 4 * 256
    assert max(sum(s.rows for s in own) for own in seven) < 0.9 * 7 * 256


SHAPES = ((1700, 260, 72, 14), (700, 1000, 40, 34), (4100, 300, 130, 26), (500, 300, 100, 4))


@pytest.mark.parametrize(("M", "N", "K", "sms"), SHAPES)
def test_the_kernel_stores_the_boxes_of_these_shares(M, N, K, sms):
    found = trace("even_shares", M, N, K, SMS=sms, schedule="permuted")
    assert found.ok, found.report
    stores = [a for a in found.by_line() if a.array == "C_map"]
    boxes = sum(cdiv(s.rows, 16) for own in shares.of(found.plan) for s in own)
    assert sum(a.requests for a in stores) == 4 * boxes  # two blocks of two consumers


def test_the_prediction_prefers_it_where_rounds_are_not_full():
    def clocks(name, *shape):
        return choosing.predicted(lay_out(name, *shape), H200)

    # full rounds: nothing to gain
    assert clocks("hopper_5", 2048, 2048, 4096) < clocks("even_shares", 2048, 2048, 4096)
    # a seventh round for a few tiles: much to gain, but by rows of half sectors nothing
    gain = clocks("hopper_5", 5120, 5120, 5120) / clocks("even_shares", 5120, 5120, 5120)
    assert 1.07 < gain < 1.15
    assert clocks("hopper_5", 5120, 5112, 5120) < clocks("even_shares", 5120, 5112, 5120)


def test_a_product_that_no_memory_holds_is_predicted_at_once():
    """Of many rounds the busiest cluster has next to the mean."""
    laid_out, mean = (
        choosing.predicted(lay_out("even_shares", rows, 65536, 64), H200)
        for rows in (65_000, 67_000)
    )
    assert 1.02 < mean / laid_out < 1.04
    assert choosing.predicted(lay_out("even_shares", 10**7, 10**7, 64), H200) > 1e3 * mean
