"""The recorded comparison of engines: what its figures must satisfy, and the emulator's own speed."""

import json
import time

import pytest

from helpers import trace
from helpers.catalog import ROOT


def recorded():
    return json.loads((ROOT / "data" / "validation" / "engines.json").read_text(encoding="utf-8"))


def test_the_figures_follow_from_each_other():
    data = recorded()
    rates = []
    for engine in data["engines"]:
        rate = engine["edge"] ** 3 / engine["seconds"]
        assert engine["multiply_adds_per_second"] == pytest.approx(rate, rel=0.02)
        rates.append(rate)
    assert data["ratio"] == pytest.approx(rates[1] / rates[0], rel=0.02) and data["ratio"] > 300


def test_a_tiled_product_of_256_with_every_check_takes_seconds_at_most():
    """One second is the goal on an idle core; tests share theirs, so they allow five."""
    trace("tiled_32", 32, 32, 32)
    started = time.process_time()
    assert trace("tiled_32", 256, 256, 256).ok
    assert time.process_time() - started < 5
