"""Rooms of the first pages: what they compute of records and GPUs, and that a changed record is
noticed.
"""

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


def test_rows_of_specifications_are_those_of_the_gpus() -> None:
    rows = {row["specification"]: row for row in machine.specifications(("t4", "h200"))}
    assert rows["SMs"]["T4"] == device.gpu("t4").sms == 40
    assert rows["compute capability"]["H200"] == "9.0"
    assert set(rows["L2 (MB)"]) == {"specification", "T4", "H200"}


def test_what_an_sm_holds() -> None:
    found = claimed("01", f=machine.said(), machine=machine)
    assert len(found) == 6 and all(found.values())
    assert machine.held("h200", 1024).fraction == 0.5 != machine.held("t4", 1024).fraction


def test_a_table_of_parts_adds_up() -> None:
    rec = measure(timing.NAMES, sizes=timing.SIZES, gpu="h200")
    for row in timing.parts(rec):
        assert row["total"] == pytest.approx(row["copy in"] + row["compute"] + row["copy out"])
    assert [row["size"] for row in timing.noise(rec)] == timing.SIZES
    names = {"f": timing.recorded(rec), "engine": timing.asked_of_the_copy_engine()}
    found = claimed("02", **names)
    assert len(found) == 8 and all(found.values())
    first = timing.lab()[0]
    edge = (first["GFLOP/s"] * 1e6 * first["compute"] / 2) ** (1 / 3)
    assert edge == pytest.approx(8192, rel=1e-3)


def test_loops_in_another_order_are_noticed() -> None:
    times = rates.recorded_loops()
    assert refuted("03", f=rates.said(times)) == set()
    names = {"ijk": "ikj", "ikj": "ijk"}
    swapped = {
        n: CpuTimes(
            t.live,
            t.label,
            tuple({**r, "kernel": names.get(r["kernel"], r["kernel"])} for r in t.rows),
        )
        for n, t in times.items()
    }
    assert {"order", "ikj_alike", "several_times"} <= refuted("03", f=rates.said(swapped))


def test_sectors_of_a_step_are_compared_with_the_counters() -> None:
    assert refuted("05", f=inside_l1.said(STEP)) == set()
    wrong = refuted("05", f=inside_l1.said({"naive": 33.0, "coalesced": 8.0}))
    assert "as_counted" in wrong and "in_l1" not in wrong


def test_what_a_tile_cuts_and_where_the_rest_went() -> None:
    found = {"less": reuse.cut(), "f": reuse.where_it_went(), "mix": {"FFMA": 1, "LDS.128": 0}}
    assert refuted("06", **found, per_turn=1 / found["f"].ratio) == {"four_joined"}
    assert refuted("06", **found, per_turn=0.5) == {"four_joined", "as_counted"}
    before, after = (trace(name, M=64, N=64, K=64) for name in ("coalesced", "tiled_32"))
    fewer = reuse.fewer(before, after)
    assert fewer["requests"] > fewer["sectors"] > 1
    assert reuse.fewer(after, after) == {"requests": 1.0, "sectors": 1.0}


def test_how_blocks_fit() -> None:
    names = ["tiled_8", "tiled_16", "tiled_32"]
    assert refuted("06", fits=reuse.fit(names)) == set()
    assert "larger" in refuted("06", fits=reuse.fit(names[::-1]))


def test_a_row_for_each_chapter_with_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = vars(climb.said())
    assert numbers["c07"]["best"].startswith("tiled") and numbers["c04"]["best"] == "naive"
    assert numbers["c22"]["t4"] == "does not run"
    assert float(numbers["c13"]["t4"]) <= device.gpu("t4").fp32_peak_gflops / 1e3
    assert climb.best()[0] == "naive" and len(climb.best()) == len(climb.CHAPTERS)
    monkeypatch.setattr(climb, "recorded", lambda *a: float("nan"))
    assert climb.row(8) == {"best": "not recorded", "rate": "–", "share": "–", "t4": "–"}
