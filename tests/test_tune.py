"""Tuning on a pretend H200: the confirmation, what is recorded, and what reads it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from helpers import page as pages
from helpers.ladder.rungs import catalog, fingerprint
from helpers.record import reading, shape_sets, store, tile_times, tiles
from helpers.record.entries import Swept, Tuned
from nogpu.errors import ConfigError
from tests.test_measure import QUICK
from tests.test_sweep import Session, pretend
from tools.recorder import campaign
from tools.recorder.sections import tuned as tuned_section
from tools.recorder.steps import Request

SIZE = (256, 256, 256)
SHIPPED = store.load("h200").of(Tuned, kernel="block_2d", m=4096, n=4096, k=4096)[0]


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A pretend H200 and an empty folder for records. lucky: a tile with first times too short."""

    class Own(Session):
        lucky: dict[str, int] | None = None

        def kernel_operation(self, plan, A, B, C, cubin=b""):
            run = super().kernel_operation(plan, A, B, C, cubin)
            if dict(plan.params) == self.lucky:
                run.ms /= 50
                type(self).lucky = None
            return run

    pretend(monkeypatch, tmp_path, Own)
    monkeypatch.setattr(tuned_section, "EFFORT", QUICK)
    return Own


def run(
    kernel, say=lambda _: None, *, ragged=False,
    **options,
):  # fmt: skip
    section = "ragged" if ragged else "tuned"
    request = Request((section,), kernels=(kernel,), sizes=(SIZE,), workers=1, **options)
    return campaign.tune(request, say)


def read_record():
    """What the file holds now."""
    return store.read(store.FOLDER / "h200.json")


def test_the_best_tile_is_found_confirmed_and_recorded(gpu):
    lines: list[str] = []
    outcome = run("block_1d", lines.append)
    assert (outcome.measured, outcome.refused) == (1, [])
    (entry,) = read_record().of(Tuned)
    assert entry["params"]["TM"] == 16 and entry["default"] == dict(catalog["block_1d"].params)
    assert entry["gain"] == pytest.approx(16 / entry["default"]["TM"], rel=1e-4)
    assert entry["cublas_ratio"] == pytest.approx(3200 / 50000, rel=1e-4)
    assert entry["tiles"] == len(tiles.legal_tiles("block_1d", SIZE))
    assert entry["source"] == fingerprint("block_1d")
    assert shape_sets.describe_tile(entry).startswith("BK=4 TM=16")
    assert any("times as fast as the default tile" in line for line in lines)
    assert run("block_1d").present == 1
    assert run("block_1d", again=True).measured == 1
    assert len(read_record().of(Tuned)) == 1


def test_a_lucky_tile_is_not_recorded_with_its_luck(gpu):
    """It is the fastest of the sweep; rounds with fresh samples put it back, the default stays."""
    lucky = next(t for t in tiles.legal_tiles("block_1d", SIZE) if t["TM"] < 8)
    gpu.lucky, k = lucky, catalog["block_1d"]
    run("block_1d", finalists=1)
    assert tuned_section.finalists(read_record().of(Swept), k, SIZE)[0] == lucky
    (entry,) = read_record().of(Tuned)
    assert entry["params"] == dict(k.params) and entry["gain"] is None
    assert entry["gflops"] == pytest.approx(200 * k.params["TM"], rel=1e-4)


def test_a_wrong_finalist_is_refused(gpu):
    run("tiled_32")
    best = read_record().of(Tuned)[0].params
    gpu.wrong_tile = best
    outcome = run("tiled_32", again=True)
    assert outcome.measured == 0 and "wrong result" in outcome.refused[0]


def test_a_stopped_tuner_goes_on(gpu):
    with pytest.raises(ConfigError, match="--seconds"):
        run("block_1d", seconds=0.0)
    assert run("block_1d", limit=3).measured == 1
    assert read_record().of(Tuned)[0].tiles == 3
    assert run("block_1d").measured == 1  # more tiles are timed now: the question is open again
    assert run("block_1d").present == 1


def test_the_choice_on_ragged_shapes(gpu, monkeypatch):
    shapes = [(256, 512, 64), (100, 70, 33), (70, 300, 40)]
    monkeypatch.setattr(shape_sets, "ragged_shapes", lambda: shapes)
    part = run("fp32_best", ragged=True, seconds=1e-9)
    assert len(part.left) == 3 and reading.ragged() is None
    lines: list[str] = []
    outcome = run("fp32_best", lines.append, ragged=True)
    assert outcome.measured == 3 and "geometric mean" in lines[-1]
    found = reading.ragged()
    assert found is not None and len(found.entries) == 3
    ratios = [e["cublas_ratio"] for e in found.entries]
    assert found.share == pytest.approx(math.prod(ratios) ** (1 / 3))
    assert found.worst == min(ratios) and found.error < 1
    assert run("fp32_best", ragged=True).present == 3
    assert {e["seed"] for e in found.entries} == {shape_sets.RAGGED_SEED}
    path = store.FOLDER / "h200.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["ragged"][0]["source"] = "older code"
    path.write_text(json.dumps(data), encoding="utf-8")
    assert reading.ragged() is None
    with pytest.raises(ConfigError, match="one tile"):
        run("block_1d", ragged=True)


def test_readers_show_a_confirmed_tile_and_nothing_else(gpu):
    k = catalog["block_2d"]
    assert reading.tuned(k) is None and pages.tuned_note(k) is None
    entry = replace(
        SHIPPED, params={**k.params, "BK": 16}, default=dict(k.params), ms=4.0, gain=1.25,
        cublas_ratio=0.667, tiles=608, source=fingerprint(k),
    )  # fmt: skip
    head = {"name": "NVIDIA H200", "arch": "sm_90"}
    path = store.FOLDER / "h200.json"

    def write(**changes):
        made = store.empty(path, head)
        made.merge(replace(entry, **changes))
        made.write()

    write()
    assert reading.tuned(k)["params"]["BK"] == 16
    note = repr(pages.tuned_note(k))
    assert "608 tiles" in note and "BK = 16" in note and "1.25 times" in note and "66.7 %" in note
    assert reading.tuned(k, 2048) is None and reading.tuned("vectorised") is None
    assert reading.tuned(k, gpu="t4") is None
    assert tile_times.times(k, "h200").ms[tuple(entry.params.values())] == 4.0
    write(gain=None, gain_q1=None, gain_q3=None, params=dict(k.params))
    assert "none is faster" in repr(pages.tuned_note(k))
    for stale in ({"source": "older"}, {"default": {**k.params, "BM": 64}}):
        write(**stale)
        assert reading.tuned(k) is None and pages.tuned_note(k) is None
