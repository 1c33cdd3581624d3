"""What the records say to chapters: the shipped ones, and small ones made by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from helpers.ladder import rungs
from helpers.ladder.rungs import catalog
from helpers.record import load, measure, reading, store
from helpers.record.entries import Counted, LeftOut, Point, Skipped, Stalled, Tuned
from helpers.record.gpu import BASELINES
from helpers.record.measurement import Measurement, gap, provenance_of, row_of
from nogpu.errors import ConfigError, DataError, UnknownNameError

NOTE = dict.fromkeys(store.RECORDED) | {"date": "2026-01-01", "commit": "abc"}
SHIPPED = load("h200")


@pytest.fixture
def record(monkeypatch, tmp_path):
    """An empty record of a GPU "x"; what is merged is read where it is written."""
    made = store.empty(tmp_path / "x.json", {"name": "NVIDIA X"})
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    yield made


def about(name, *size):
    """What an entry is about, and of which code it is."""
    launch = {"kernel": name, "params": dict(catalog[name].params)}
    launch |= dict(zip("mnk", size, strict=True))
    return {**launch, "source": rungs.fingerprint(name), "recorded": NOTE}


# -- counters and stalls ---------------------------------------------------------------------------

COUNTS = {
    "global_load_sectors": 40.0, "global_load_requests": 10.0, "global_store_sectors": 30.0,
    "global_store_requests": 5.0, "shared_load_wavefronts": 12.0, "shared_load_instructions": 4.0,
    "shared_store_wavefronts": 8.0, "shared_store_instructions": 8.0, "ffma_thread_instructions": 6400.0,
}  # fmt: skip


def test_counters_are_of_the_largest_shape_with_what_a_request_costs(record):
    bare = {"global_load_requests": 0.0, "global_load_sectors": 1.0}
    bare["ffma_thread_instructions"] = 64.0
    few = {"shared_load_wavefronts": 4.0}
    for size, values in (((20, 1, 1), few), ((10, 20, 15), COUNTS), ((9, 9, 9), bare)):
        record.merge(Counted(**about("naive", *size), values=values))
    record.write()
    ratios = {
        "load_sectors_per_request": 4.0, "store_sectors_per_request": 6.0,
        "load_wavefronts_per_request": 3.0, "store_wavefronts_per_request": 1.0,
        "multiply_adds_per_wavefront": 10.0,
    }  # fmt: skip
    for size, wanted in ((None, COUNTS | ratios), (9, bare), ((20, 1, 1), few)):
        [row] = reading.counters("naive", size, gpu="x")
        at = {None: (10, 20, 15), 9: (9, 9, 9)}.get(size, size)
        assert row == {"kernel": "naive", **dict(zip("mnk", at, strict=True)), **wanted}
    lacking = r"no counters of naive at 7x7x7\. It has: naive at .*--counters --kernels naive"
    with pytest.raises(DataError, match=lacking):
        reading.counters("naive", 7, gpu="x")
    with pytest.raises(DataError, match=r"no counters of tiled_8\. It has"):
        reading.counters(["naive", "tiled_8"], gpu="x")


def test_stalls_without_warps_or_of_other_code_are_left_out(record):
    values = {"warps": 4.0, "issue_percent": 40.0, "barrier": 2.0, "long_scoreboard": 1.0}
    record.merge(Stalled(**about("naive", 8, 8, 8), values=values))
    record.merge(Stalled(**about("naive", 9, 9, 9), values=values | {"warps": 0.0}))
    record.merge(Stalled(**about("naive", 7, 7, 7) | {"source": "old"}, values=values))
    record.write()
    [row] = reading.stalls("naive", gpu="x")
    assert row == {
        "kernel": "naive", "m": 8, "n": 8, "k": 8, "warps": 4.0, "issue_percent": 40.0,
        "waits": {"issues": 10.0, "barrier": 20.0, "long_scoreboard": 10.0},
    }  # fmt: skip


# -- the ladder, and what is beside it -------------------------------------------------------------


def test_the_ladder_is_in_the_catalogs_order_with_its_own_tiles():
    rows = reading.ladder()
    assert rows == reading.ladder("h200", 4096) == reading.ladder(size=(4096, 4096, 4096))
    names = [row["kernel"] for row in rows]
    assert names == [n for n in (*catalog, *BASELINES) if n in names] and names[-1] in BASELINES
    for row in rows:
        tile = catalog[row["kernel"]].params if row["kernel"] in catalog else {}
        [point] = SHIPPED.of(Point, kernel=row["kernel"], params=tile, m=4096, n=4096, k=4096)
        assert row["ms"] == point.ms
    with pytest.raises(DataError, match=r"no times at 3x3x3. It has times at: .*4096x4096x4096"):
        reading.ladder("h200", 3)


def test_a_ladder_of_few_points(record):
    [point, *_] = SHIPPED.of(Point, kernel="naive", m=4096)
    record.write()
    with pytest.raises(DataError, match="It has times at: no size yet"):
        reading.ladder("x")
    shapes = ((4, 4, 4), (4, 4, 5), (4, 5, 4), (5, 4, 4))
    for m, n, k in shapes:
        record.merge(replace(point, m=m, n=n, k=k))
    record.merge(Skipped("naive", {}, 6, 6, 7, "slow", NOTE))
    record.merge(Skipped("tiled_8", {}, 6, 6, 7, "no", NOTE))
    record.write()
    sizes = [reading.ladder("x", shape)[0]["size"] for shape in shapes]
    assert sizes == [4, *map(list, shapes[1:])]
    assert reading.skipped("x", (6, 6, 7)) == ["naive: slow", "tiled_8: no"]
    assert reading.skipped("x", (6, 7, 6)) == reading.skipped("x", (7, 6, 6)) == []
    assert reading.ladder_notes(reading.ladder("x", 4), (6, 6, 7), "x") == [
        "not measured here: naive: slow", "not measured here: tiled_8: no", "recorded GPUs: x",
    ]  # fmt: skip


def test_a_ladder_says_where_it_comes_from_and_which_tiles_were_found():
    size = (4096,) * 3
    rows = reading.ladder()
    lines = reading.ladder_notes(rows, size, "h200")
    notes = "\n".join(lines)
    assert lines[-1] == "recorded GPUs: h200" and notes.count("recorded GPUs") == 1
    assert "tuned: tiled_32: the default tile" in notes and "tuned: naive" not in notes
    assert f"tile chosen by shape: {reading.ragged()}" in notes
    note = {"gpu": "X", "driver": "1", "cuda": "2", "cublas": "3"}
    days = [{"recorded": {**note, "date": f"2026-01-0{n}", "commit": f"c{n}"}} for n in (2, 3, 1)]
    title = "M x N x K = 1 x 2 x 3, recorded on X, 2026-01-01 to 2026-01-03, driver 1, CUDA 2, "
    assert reading.ladder_title(days, (1, 2, 3)) == f"{title}cuBLAS 3, commit c3"
    now = reading.ladder_title(days[:1], (1, 2, 3), live=True)
    assert "measured now on X, 2026-01-02, driver" in now


def test_builds_are_of_one_kernel_and_of_todays_code(record):
    record.write()
    with pytest.raises(DataError, match="no builds with other compiler flags"):
        reading.flags("x")
    [part, *_] = SHIPPED.of(LeftOut, kernel="fp32_best")
    part = replace(part, source=rungs.fingerprint("fp32_best"))
    record.merge(part)
    record.merge(replace(part, m=3, source="old"))
    record.merge(replace(part, kernel="warp_tiled"))
    record.write()
    assert reading.left_out("fp32_best", "x").rows == (part,)
    with pytest.raises(DataError, match="no warp_tiled without its parts"):
        reading.left_out("warp_tiled", "x")
    assert reading.launches("x").rows == ()
    assert reading.transfers("x") == reading.accuracy("x") == []


def test_what_is_not_recorded_is_none_and_no_fault(record):
    assert reading.tuned("fp32_best", gpu="y") is None and reading.supplies("y") == []
    assert reading.ragged(gpu="y") is reading.everywhere(gpu="y") is None
    [best] = SHIPPED.of(Tuned, kernel="fp32_best", m=4096, n=4096, k=4096)
    k = catalog["fp32_best"]
    best = replace(best, source=rungs.fingerprint(k), default=dict(k.params))
    record.merge(best)
    record.merge(replace(best, m=5, default={"BM": 1}))
    record.merge(replace(best, m=6, source="old"))
    record.write()
    assert reading.tuned(k, gpu="x") == best == reading.tuned("fp32_best", (4096,) * 3, "x")
    for size in ((5, 4096, 4096), (6, 4096, 4096), 7):
        assert reading.tuned("fp32_best", size, "x") is None
    assert reading.ragged(gpu="x") is reading.everywhere(gpu="x") is None
    assert reading.supplies("x") == []
    with pytest.raises(UnknownNameError):
        reading.transfers("y")


def test_the_shipped_records_have_what_chapters_draw():
    assert reading.ragged() is not None and len(reading.supplies()) == 68
    assert reading.everywhere() == reading.everywhere(gpu="h200") is not None
    assert len(reading.transfers()) and len(reading.accuracy()) and len(reading.flags().rows)


# -- a measurement ---------------------------------------------------------------------------------


def row(kernel, ms=1.0, ratio=math.nan, mhz=math.nan, **more):
    known = {"ms": ms, "cublas_ratio": ratio, "clock_mhz": mhz, "baseline": "cublas_fp32"}
    return gap(kernel, (8, 8, 8)) | {"gpu": "X", "record": "x"} | known | more


def gain(new, old):
    m = Measurement(False, "X", "x", "said", (row("naive", **new), row("tiled_32", **old)))
    return m.gain("naive", "tiled_32", 8)


@pytest.mark.parametrize(
    ("new", "old", "found"),
    [
        ({"ms": 2, "ratio": 0.5}, {"ms": 9, "ratio": 0.2}, 2.5),
        ({"ms": 2, "ratio": 0.5, "mhz": 1000}, {"ms": 8, "ratio": 0.0, "mhz": 500}, 2.0),
        ({"ms": 2, "ratio": 0.0}, {"ms": 8, "ratio": 0.5}, 4.0),
        ({"ms": 2, "ratio": 0.5}, {"ms": 8, "ratio": 0.2, "baseline": "cublas_fp16"}, 4.0),
        ({"ms": 2, "mhz": 1000}, {"ms": 8, "mhz": 0}, 4.0), ({"ms": 2, "mhz": 0}, {"ms": 8, "mhz": 9}, 4.0),
        ({"ms": 2, "mhz": 1000}, {"ms": 8}, 4.0), ({"ms": 2, "mhz": 1000}, {"ms": 8, "mhz": 1500}, 6.0), ({"ms": 2, "mhz": 1}, {"ms": 8, "mhz": 0.5}, 2.0),
    ],
)  # fmt: skip
def test_a_gain_is_of_ratios_else_of_clocks_else_of_times(new, old, found):
    assert gain(new, old) == pytest.approx(found)


def test_no_gain_is_between_two_records():
    now = {"gpu": "Y", "record": "", "live": True}
    for other, whose in (({"record": "y"}, "X (recorded)"), (now, "Y (here, now)")):
        with pytest.raises(ConfigError, match=r'X \(recorded\).*make no gain.*gpu="x"') as caught:
            gain({}, other)
        assert f"tiled_32 on {whose}" in str(caught.value)


def test_a_row_is_found_by_its_kernel_and_size():
    rows = tuple(
        gap("naive", size) | {"gpu": "X", "ms": float(n)}
        for n, size in enumerate(((8, 8, 8), (9, 8, 8), (8, 9, 8), (8, 8, 9)), 1)
    )
    both = (*rows, gap("tiled_8", (8, 8, 8)))
    m = Measurement(False, "Z", "x", "said", both, ("tiled_8 (why)", "b"))
    assert [m.value("naive", size) for size in (8, (9, 8, 8), (8, 9, 8), (8, 8, 9))] == [1, 2, 3, 4]
    assert math.isnan(m.value("naive", 8, "gflops")) and m.kernels() == ("naive", "tiled_8")
    without = r"no time of tiled_8 at 8x8x8 \(said\): tiled_8 \(why\); b"
    nowhere = "7x7x7 is not in this measurement. It has: naive at 8, 9x8x8, 8x9x8, 8x8x9"
    for name, size, why in (("tiled_8", 8, without), ("naive", 7, nowhere)):
        with pytest.raises(DataError, match=why):
            m.value(name, size)
    assert m.gpus == "X" and replace(m, rows=m.rows[4:]).gpus == "Z"
    assert m.taken_on("naive", 8) == {}
    assert replace(m, rows=(*rows, rows[0] | {"gpu": "Y"}, rows[0])).gpus == "X and Y"
    two = replace(m, rows=(rows[0], rows[1] | {"record": "x"}, rows[2] | {"live": True}))
    assert two.taken_on("naive", 8) == {"taken on": "X, recorded"}
    assert two.taken_on("naive", (8, 9, 8)) == {"taken on": "X"}
    fields = {"m": 1, "n": 2, "k": 3, "gpu": "", "live": False, "record": ""}
    beside = {"naive": "cublas_fp32", "cublas_fp16": "cublas_fp16", "mine": "none"}
    for name, baseline in beside.items():
        found = gap(name, (1, 2, 3))
        assert found["baseline"] == baseline and {n: found[n] for n in fields} == fields


def test_a_row_of_a_point_has_its_numbers_and_where_they_are_from():
    point = load("h200").of(Point, kernel="naive")[0]
    row = row_of(replace(point, clock_mhz=None), "X", "x")
    assert (row["ms"], row["gpu"], row["live"], row["record"]) == (point.ms, "X", False, "x")
    assert math.isnan(row["clock_mhz"]) and row_of(point, "X")["live"] is True


def test_provenance_is_a_sentence_for_each_and_for_what_is_drawn_beside():
    one = Measurement(False, "X", "x", " said. ", (), ("a", "b"))
    live = Measurement(True, "Y", "y", "now", (), ("c",), recorded=one)
    own = "Replayed from a record, not measured here: said. Not in the record: a; b."
    assert provenance_of(one, one) == own
    now = "Measured here, now: now. Neither measured here nor in the record: c."
    assert provenance_of(live) == f"{now} {own}"
    assert not any(f"{name}=" in repr(live) for name in ("entries", "facts"))
    assert provenance_of() == "" and replace(live, recorded=None).missing == ("c",)
    with pytest.raises(ConfigError, match=r"kernels was measured here \(now\)"):
        live.save("m.json")
    with pytest.raises(ConfigError, match="measured here but text of your own"):
        replace(live, entries=(replace(load("h200").of(Point)[0], kernel="mine"),)).save("m.json")


def test_what_was_measured_is_saved_beside_what_is_there(tmp_path):
    points = tuple(load("h200").of(Point)[:2])
    facts = {"name": "NVIDIA X"}
    m = Measurement(True, "NVIDIA X", "x", "now", (), entries=points[:1], facts=facts)
    path = m.save(tmp_path / "m.json")
    assert store.read(path).of(Point) == [points[0]]
    replace(m, entries=points[1:]).save(str(path))
    assert store.read(path).of(Point) == list(points)
    with pytest.raises(ConfigError, match="holds times of a NVIDIA X, and these are of a Y"):
        replace(m, gpu="Y").save(path)
    with pytest.raises(ConfigError, match="lies among the records"):
        m.save(store.FOLDER / "mine.json")
    replayed = measure("naive", 4096, gpu="h200")
    counted = reading.counters("naive", 1024)
    assert replayed.counters("naive", 1024) == counted != replayed.counters()
