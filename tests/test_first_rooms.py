"""Rooms of the first pages: what they compute of records and GPUs, and that a changed record is
noticed."""

from __future__ import annotations

import pytest

from helpers import trace
from helpers.chapters.ch01 import machine
from helpers.chapters.ch02 import timing
from helpers.chapters.ch03 import rates
from helpers.chapters.ch05 import inside_l1
from helpers.chapters.ch06 import reuse
from helpers.chapters.intro import climb
from helpers.record import measure
from helpers.record.host import CpuTimes
from nogpu import device
from tests.test_sentences import claimed, refuted

STEP = {"naive": 33.0, "coalesced": 5.0}


def test_rows_of_specifications_are_those_of_the_gpus():
    rows = {row["specification"]: row for row in machine.specifications(("t4", "h200"))}
    assert rows["SMs"]["T4"] == device.gpu("t4").sms == 40
    assert rows["compute capability"]["H200"] == "9.0"
    assert set(rows["L2 (MB)"]) == {"specification", "T4", "H200"}


def test_what_an_sm_holds():
    found = claimed("01")
    assert len(found) == 3 + 5 and all(found.values())
    assert (
        machine.occupancy_of("h200", 1024).fraction
        == 0.5
        != machine.occupancy_of("t4", 1024).fraction
    )


def test_a_table_of_parts_adds_up():
    rec = measure(timing.NAMES, sizes=timing.SIZES, gpu="h200")
    for row in timing.parts(rec):
        assert row["total"] == pytest.approx(row["copy in"] + row["compute"] + row["copy out"])
    assert [row["size"] for row in timing.noise(rec)] == timing.SIZES
    first = timing.lab()[0]
    edge = (first["GFLOP/s"] * 1e6 * first["compute"] / 2) ** (1 / 3)
    assert edge == pytest.approx(8192, rel=1e-3)
    engine, gbs = timing.asked_of_the_copy_engine(), 2 * edge**2 * 4 / first["copy in"] / 1e6
    found = claimed("02", engine=engine, gbs=gbs, ours=timing.ours_gbs())
    assert len(found) == 5 + 7 and all(found.values())
    f = timing.recorded(rec)
    f.spread_worst, f.apart = 1.0, 0.1 * f.copies_apart
    falls = {"one_percent", "between_runs", "deeper.one_percent", "deeper.between_runs"}
    assert refuted("02", f=f) == falls | {"deeper.steadier"}


def test_loops_in_another_order_are_noticed():
    times = rates.recorded_loops()
    assert len(claimed("03")) == 4 + 2 and refuted("03") == set()
    names = {"ijk": "ikj", "ikj": "ijk"}
    swapped = {}
    for n, t in times.items():
        rows = tuple({**r, "kernel": names.get(r["kernel"], r["kernel"])} for r in t.rows)
        swapped[n] = CpuTimes(t.live, t.label, rows)
    assert refuted("03", f=rates.numbers(swapped)) == {
        *("order", "ikj_alike", "several_times"),
        *("deeper.order", "deeper.ikj_alike"),
    }


def test_sectors_of_a_step_are_compared_with_the_counters():
    found = claimed("05", f=inside_l1.numbers(STEP))
    assert len(found) >= 9 + 5 and all(found.values())
    wrong = inside_l1.numbers({"naive": 33.0, "coalesced": 8.0})
    assert refuted("05", f=wrong) == {"not_the_factor", "deeper.as_counted"}


def test_what_a_tile_cuts_and_where_the_rest_went():
    f = reuse.where_it_went()
    names = {"mix": {"FFMA": 1, "LDS.128": 0}, "shared": 1 / f.ratio, "roof": 1e3 * f.roof}
    names |= {"wavefronts": 52}
    found = claimed("06", **names)
    assert len(found) >= 13 + 2
    assert {key for key, is_so in found.items() if not is_so} == {"four_joined"}
    assert refuted("06", **names | {"shared": 0.5}) == {"four_joined", "as_counted"}
    assert refuted("06", **names | {"roof": 900 * f.roof}) == {"four_joined", "delivery"}
    assert refuted("06", **names | {"wavefronts": 68}) == {"four_joined", "two_each"}
    f.near, f.past["tiled_32"] = 70, 0.9 * f.past["tiled_32"]
    falls = {"delivery", "the_same", "deeper.delivery", "deeper.the_same"}
    assert refuted("06", **names, f=f) == falls | {"four_joined"}
    before, after = (trace(name, M=64, N=64, K=64) for name in ("coalesced", "tiled_32"))
    fewer = reuse.fewer(before, after)
    assert fewer["requests"] > fewer["sectors"] > 1
    assert reuse.fewer(after, after) == {"requests": 1.0, "sectors": 1.0}
    assert claimed("06", fewer=fewer)["deeper.requests_fell"]
    assert "deeper.requests_fell" in refuted("06", fewer=reuse.fewer(after, after))


def test_how_blocks_fit():
    names = ["tiled_8", "tiled_16", "tiled_32"]
    fits, turned = reuse.fit(names), reuse.fit(names[::-1])
    assert refuted("06", tiles=fits, fits=fits) == set()
    falls = {"larger", "deeper.larger", "deeper.a_third_empty", "deeper.two_fit"}
    assert refuted("06", tiles=turned, fits=turned) == falls


def test_a_row_for_each_chapter_with_kernels(monkeypatch):
    numbers = vars(climb.numbers())
    assert numbers["c07"]["best"].startswith("tiled") and numbers["c04"]["best"] == "naive"
    assert numbers["c22"]["t4"] == "does not run"
    assert float(numbers["c13"]["t4"]) <= device.gpu("t4").fp32_peak_gflops / 1e3
    assert climb.best()[0] == "naive" and len(climb.best()) == len(climb.CHAPTERS)
    monkeypatch.setattr(climb, "recorded", lambda *a: float("nan"))
    assert climb.row(8) == {"best": "not recorded", "rate": "–", "share": "–", "t4": "–"}
