"""The account of chapter 19: what it reads in the notes, and what it makes of it."""

from __future__ import annotations

import pytest

from helpers.chapters.ch19 import account
from nogpu import device
from nogpu.errors import DataError

H200 = device.gpu("h200")
NOTES = account.NOTES.read_text(encoding="utf-8")


def test_the_rows_lose_what_lies_between_them():
    paid = account.of_the_ring(H200)
    rates = [row["TFLOP/s"] for row in paid.rows]
    assert rates == sorted(rates, reverse=True) and rates[-1] == paid.rate
    kept = 1.0
    for share in paid.lost.values():
        kept *= 1 - share / 100
    assert rates[0] * kept == pytest.approx(paid.rate)
    assert rates[0] == pytest.approx(H200.peak_gflops("fp16") / 1e3, rel=1e-3)
    assert paid.rows[-1]["1000 clocks"] / paid.ghz == pytest.approx(2 * 4096**3 / paid.rate / 1e6)


def test_the_page_is_true_of_the_notes():
    """Sentences of the page that rest on the notes alone."""
    paid = account.of_the_ring(H200)
    assert paid.lost["instruction"] == max(
        paid.lost.values()
    )  # "the instruction itself costs most"
    assert max(paid.saved["ldmatrix"], paid.saved["wait"]) < 0.02 * paid.whole  # "next to nothing"
    assert 0.85 * paid.all_saved < paid.saved["copies"] < paid.all_saved  # "nearly the"
    assert paid.summed > 1.2 * paid.all_saved  # "They overlap"
    assert len(paid.saved) == 5 and paid.only > 1e-3 * paid.each * 2 * 4096**3 / account.FLOP / 528
    slower = account.of_the_ring(H200, NOTES.replace("no copies 460k", "no copies 510k"))
    assert slower.saved["copies"] < 0.85 * slower.all_saved


@pytest.mark.parametrize("words", ["no copies 460k; ", "HMMA math pipe busy", "ISSUING the copies"])
def test_notes_that_say_less_are_refused(words):
    assert words in NOTES
    with pytest.raises(DataError, match="the notes have changed"):
        account.of_the_ring(H200, NOTES.replace(words, ""))
