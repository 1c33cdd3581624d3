"""The recorded comparison of engines: what its figures satisfy, and the emulator's own speed."""

import json
import shutil
import time

import pytest

from helpers import trace
from helpers.ladder.kernel import ROOT
from tools import bench_engines


def recorded():
    return json.loads((ROOT / "data" / "validation" / "engines.json").read_text(encoding="utf-8"))


def test_the_figures_follow_from_each_other_and_reach_the_goals():
    data = recorded()
    rates = {}
    for engine in data["engines"]:
        rate = engine["edge"] ** 3 / engine["seconds"]
        assert engine["multiply_adds_per_second"] == pytest.approx(rate, rel=0.02)
        rates[engine["engine"], engine["checks"]] = rate
    (ours,) = (r for (name, _), r in rates.items() if name == "the emulator")
    numba = rates["Numba's CUDA simulator", "none"]
    oclgrind = rates["Oclgrind", "races, bounds, initialisation"]
    assert data["ratios"]["numba"] == pytest.approx(ours / numba, rel=0.02) and ours / numba > 300
    assert data["ratios"]["oclgrind"] == pytest.approx(ours / oclgrind, rel=0.02)
    assert ours / oclgrind > 5
    assert {"numba", "oclgrind"} <= set(data["versions"])


def test_the_recorded_traces_are_within_a_second_six_and_a_gibibyte():
    limits = {256: 1, 512: 6}
    rows = {r["edge"]: r for r in recorded()["full_analysis"]}
    assert set(rows) == set(limits)
    for edge, seconds in limits.items():
        assert 0 < rows[edge]["seconds"] <= seconds
        assert 0 < rows[edge]["peak_mib"] < 1024


BARRIER = "barrier(CLK_LOCAL_MEM_FENCE);"


@pytest.mark.skipif(not shutil.which("oclgrind-kernel"), reason="oclgrind is not installed")
@pytest.mark.parametrize(
    ("text", "instead", "wrong", "messages"),
    [("", "", False, False), (BARRIER, ";", True, True), ("sum += ", "sum -= ", True, False)],
)
def test_oclgrind_runs_the_same_kernel_and_sees_a_broken_twin(text, instead, wrong, messages):
    source = (ROOT / "tests" / "tiled.cl").read_text(encoding="utf-8")
    assert text in source
    found = bench_engines.interpreted(48, source.replace(text, instead, 1))
    assert (found[2] > 0, found[3] > 0) == (wrong, messages)
    assert found[0] > 0


def test_an_engine_that_is_not_installed_is_left_out_and_named(monkeypatch, capsys):
    monkeypatch.setattr(bench_engines.shutil, "which", lambda name: None)
    monkeypatch.setattr(bench_engines.util, "find_spec", lambda name: None)
    monkeypatch.setattr(
        bench_engines, "emulated", lambda n: {"seconds": 1.0, "peak_bytes": 1e8, "faults": 0}
    )
    made = bench_engines.compare()
    assert [e["engine"] for e in made["engines"]] == ["the emulator"] and not made["ratios"]
    stderr = capsys.readouterr().err
    assert "numba is not installed" in stderr and "oclgrind is not installed" in stderr


def test_a_tiled_product_of_256_with_every_check_takes_seconds_at_most():
    """One second is the goal on an idle core; tests share theirs, so they allow five."""
    trace("tiled_32", 32, 32, 32)
    started = time.process_time()
    assert trace("tiled_32", 256, 256, 256).ok
    assert time.process_time() - started < 5
