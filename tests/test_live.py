"""Live sliders: what they say and draw, the queue of one, and the widgets without a browser."""

from __future__ import annotations

import math
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from helpers import draw as plots
from helpers import wording
from helpers.ladder.launch import trace
from helpers.ladder.rungs import catalog
from helpers.page import Html, judging, live
from helpers.record import ImplausibleError, Measurement, load, protocol, telemetry
from helpers.record import sources as replaying
from nogpu import device
from nogpu.emulator import Finding
from nogpu.errors import CompileError, ConfigError
from tests.common import ROOT
from tests.test_measure import H200, QUICK, FakeSession

PLACED = {
    "06_tiling": "tiled_32", "deeper_07_latency": "tiled_rect", "08_block_1d": "block_1d",
    "09_block_2d": "block_2d", "10_vectorised": "vectorised", "11_pipelining": "double_buffer",
    "12_lane_map": "lane_map", "13_loop_registers": "warp_tiled", "15_tile_for_shape": "fp32_best",
    "17_tensor_cores": "wmma_tiled", "18_who_holds_what": "mma_swizzle",
    "19_feeding": "mma_pipelined", "20_copy_engine": "mma_tma", "21_wgmma": "hopper_2",
    "22_last_ten_percent": "hopper_5",
}  # fmt: skip
EMULATED = [name for name in PLACED.values() if catalog[name].host == "plain"]
SMALL = {"BM": 16, "BN": 16, "BK": 4, "TM": 4}
"""A legal tile of block_1d that is quick to run."""


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    """A running notebook on a machine without a GPU, whatever this one is."""
    monkeypatch.delenv("TILE_BOOK_BUILD", raising=False)
    monkeypatch.setattr(device, "current", lambda: None)


def measured(kernel, size, *, ms=0.5):
    """What a GPU would have answered."""
    rate = 2 * size**3 / (ms * 1e6)
    row = {"kernel": kernel.name, "m": size, "n": size, "k": size, "ms": ms, "gflops": rate}
    label = "measured now on NVIDIA H200, today"
    return Measurement(True, "NVIDIA H200", "h200", label, (row,))


# --- what is said and drawn -----------------------------------------------------------------------


def test_sliders_take_the_catalog_values():
    assert live.choices(catalog["tiled_32"]) == {"TILE": (4, 8, 16, 32)}
    for name in PLACED.values():
        k = catalog[name]
        for param, values in live.choices(k).items():
            assert k.params[param] in values
            assert set(k.choices[param]) <= set(values)


def test_an_illegal_tile_names_its_rule_and_reason():
    k = catalog["block_2d"].with_params(BM=32, TM=16)
    message = live.broken(k, 1024)
    assert live.words(k) in message and "not run" in message
    # the reason first, and the rule behind it
    assert any(f": {rule.reason} (the rule is `{rule.expr}`)." in message for rule in k.rules)
    assert live.broken(catalog["block_2d"], 1024) == ""


@pytest.mark.parametrize("name", EMULATED)
def test_the_emulator_runs_one_block_and_two_steps(name):
    k = catalog[name]
    m, n, depth = judging.whole_tiles(k)
    assert m * n == math.prod(int(k.params[t]) for t in k.tile)
    assert "in 2 steps along K" in plots.tile_diagram(k, m, n, depth).alt
    shown = live.emulated(k)
    assert f"{m}x{n}x{depth}, one block" in shown and "multiply-adds for each wavefront" in shown
    assert "step 2 of 2" in shown


def test_the_trace_is_that_of_the_tile():
    k = catalog["block_1d"].with_params(**SMALL)
    t = trace(k, *judging.whole_tiles(k))
    shown = live.emulated(k)
    assert f"{t.multiply_adds / t.wavefronts:.2f} multiply-adds" in shown
    rows = live.trace_rows(t)
    assert sum(row["wavefronts"] or 0 for row in rows) == t.wavefronts
    assert sum(row["requests"] for row in rows) == sum(a.requests for a in t.by_line())
    assert all((row["sectors"] is None) != (row["wavefronts"] is None) for row in rows)
    for row in rows:
        assert f">{row['requests']:,}<" in shown
    assert "<svg" in shown and "BM=16" in shown
    assert live.emulated(k.with_params(BM=32, BN=32, TM=8)) != shown


def test_a_tile_too_large_for_the_oldest_gpu_is_compiled_for_a_newer():
    k = catalog["wmma_tiled"]
    large = k.with_params(BM=128, BN=128, BK=64, PAD=24, WM=32)
    assert (judging.roomy_arch(k), judging.roomy_arch(large)) == ("sm_75", "sm_80")
    assert judging.roomy_arch(catalog["hopper_1"]) == "sm_90a"  # code for it runs nowhere else
    assert "sm_" not in live.emulated(k)
    with pytest.raises(ConfigError, match="shared memory"):
        trace(large, *judging.whole_tiles(large))
    shown = live.emulated(large)
    assert "compiled for sm_80" in shown and "multiply-adds for each wavefront" in shown


def test_findings_are_shown_as_text(monkeypatch):
    k = catalog["tiled_32"].with_params(TILE=8)
    clean = trace(k, *judging.whole_tiles(k))
    finding = Finding("race", 7, "A_tile[i] < 1", "read and written without a barrier", 1)
    faulty = replace(clean, wrong=3, report=replace(clean.report, findings=(finding,)))
    monkeypatch.setattr(live, "trace", lambda *_, **__: faulty)
    shown = live.emulated(k)
    assert "3 wrong elements" in shown
    assert "without a barrier" in shown
    assert "A_tile[i] < 1" not in shown  # escaped
    assert "3 wrong" not in live.verdict(clean)


def timed(monkeypatch, *kernels):
    """What a GPU that answers at once gives of tiles at 1024: the rows, and the last measurement."""
    with monkeypatch.context() as patch:
        patch.setattr(live, "measure", measured)
        found = [live.timed(kernel, 1024) for kernel in kernels]
    return [row for row, _ in found], found[-1][1]


def test_times_stand_beside_the_record(monkeypatch):
    k = catalog["tiled_32"]
    rows, m = timed(monkeypatch, k.with_params(TILE=8), k.with_params(TILE=16))
    assert [row["kernel"] for row in rows] == ["TILE=8", "TILE=16"]
    assert rows[1]["intensity"] == pytest.approx(2 * rows[0]["intensity"], rel=0.02)
    shown = live.times(k, 1024, rows, m)
    for words in ("TILE=16 at 1024: 0.500 ms", "recorded on NVIDIA H200", "Roofline", "Bar chart"):
        assert words in shown, words
    alone = live.times(k, 1000, [{**row, "m": 1000, "n": 1000, "k": 1000} for row in rows], m)
    assert "Bar chart" in alone and "recorded default" not in alone


@pytest.mark.parametrize(
    ("name", "peak"), [("fp32_best", "FP32"), ("wmma_tiled", "FP16"), ("hopper_2", "BF16")]
)
def test_a_tile_stands_under_the_roof_of_its_precision(monkeypatch, name, peak):
    shown = live.times(catalog[name], 1024, *timed(monkeypatch, catalog[name]))
    known = device.gpu("h200").peak_gflops(peak.lower())
    assert f"{peak} peak of {wording.number(known)} GFLOP/s" in shown


@pytest.mark.parametrize("name", ["mma_tma", "hopper_2", "hopper_5"])
def test_a_kernel_for_one_gpu_alone_is_emulated_elsewhere(name):
    """Without sm_90 it runs once round its ring."""
    assert "compute capability 9.0 compiles and times" in str(live.promise(catalog[name]))
    shown = live.emulated(catalog[name])
    stages = catalog[name].params["STAGES"]
    assert f"x{64 * (stages + 1)}, one block" in shown and "0.00 multiply-adds" not in shown
    assert ("no wavefronts are counted" in shown) == name.startswith("hopper")


@pytest.mark.parametrize(
    ("name", "arch", "timed"),
    [
        ("hopper_2", None, False), ("hopper_2", "sm_75", False), ("hopper_2", "sm_90", True),
        ("hopper_2", "sm_100", False),  # a later GPU lacks wgmma too
        ("mma_pipelined", "sm_75", False), ("mma_pipelined", "sm_80", True),
    ],
)  # fmt: skip
def test_a_gpu_that_lacks_an_instruction_leaves_a_kernel_to_the_emulator(
    monkeypatch, name, arch, timed
):
    monkeypatch.setattr(device, "current", lambda: arch and replace(H200, arch=arch))
    status = "timed at 1024 on the GPU" if timed else "is run in the emulator"
    assert status in Page(name).status.value


@pytest.mark.parametrize("name", ["lane_map", "mma_swizzle", "mma_tma", "hopper_5", "tiled_32"])
def test_what_the_emulator_cannot_time_is_recorded_or_not_known(name):
    """The time of the same tile, and of no other: a tile that nobody timed has none."""
    k, record = catalog[name], load("h200")
    text = live.recorded(k)
    cube = {"kernel": name, "m": 4096, "n": 4096, "k": 4096}
    rows = (record.find(section, **cube) for section in ("points", "sweep", "tuned"))
    entries = [e for some in rows for e in some if e["params"] == dict(k.params)]
    assert "takes no time" in text and "at 4096, recorded on NVIDIA H200" in text
    assert any(f"{entry['ms']:.3f} ms" in text for entry in entries)
    assert text in live.emulated(k)
    untimed = replace(k, params={n: v + 1000 for n, v in k.params.items()})
    assert live.recorded(untimed).endswith("and no time of this tile is recorded.")


def test_a_tile_goes_through_the_protocol(monkeypatch):
    """The chosen tile sizes reach the session that launches, and a wrong result is refused."""
    tiles = []

    class Session(FakeSession):
        def first_call(self, plan, A, B, C):
            tiles.append(dict(plan.params))
            return super().first_call(plan, A, B, C)

    monkeypatch.setattr(replaying, "_session", Session)
    monkeypatch.setattr(device, "current", lambda: H200)
    monkeypatch.setattr(protocol, "LIVE", QUICK)
    monkeypatch.setattr(telemetry, "shutil", SimpleNamespace(which=lambda *_: None))
    row, m = live.timed(catalog["tiled_32"].with_params(TILE=8), 64)
    assert tiles == [{"TILE": 8}]
    assert m.live and row["kernel"] == "TILE=8" and row["ms"] > 0
    Session.wrong = frozenset({"tiled_32"})
    with pytest.raises(ImplausibleError, match="wrong result"):
        live.timed(catalog["tiled_32"], 64)


def test_a_label_fits_its_bar():
    assert live.bar_name(catalog["tiled_32"]) == "TILE=32"
    assert live.bar_name(catalog["warp_tiled"]) == "128/256/8/64/64/16/8/1"


# --- one at a time, the latest wins -----------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_crash_does_not_stop_the_queue():
    done = []

    def work(kernel):
        done.append(kernel.name)
        raise RuntimeError("the page was closed")

    runner = live.Latest(work)
    for _ in range(2):
        assert runner.submit(catalog["tiled_8"])
        runner.wait()
    assert done == ["tiled_8", "tiled_8"]


# --- the book ---------------------------------------------------------------------------------


def test_the_book_has_a_sentence_and_no_widget(monkeypatch):
    monkeypatch.setenv("TILE_BOOK_BUILD", "1")
    for name in [n for n in sys.modules if n.split(".")[0] == "ipywidgets"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    found = live.tile("tiled_32")
    assert type(found) is Html
    slide = 'data-slide="live.tile(&quot;tiled_32&quot;, size=1024)"'
    assert found._repr_html_() == f'<div class="tile-note" {slide}><p>{found}</p></div>'
    assert str(found).count(".") == 1 and "TILE of tiled_32" in str(found)

    monkeypatch.delenv("TILE_BOOK_BUILD")  # ipywidgets alone is missing
    assert type(live.tile("tiled_32")) is Html


def test_make_book_says_that_it_builds_the_book():
    assert "book: export TILE_BOOK_BUILD := 1" in (ROOT / "Makefile").read_text().splitlines()


@pytest.mark.parametrize(("stem", "name"), PLACED.items())
def test_chapters_have_their_sliders(stem, name):
    for path in (f"book/{stem}.md", f"book/{stem}.ipynb"):
        call = 'live.tile("' + name + '"'  # and perhaps a size
        text = (ROOT / path).read_text(encoding="utf-8").replace('\\"', '"')
        assert text.count(call) == 1, path


# --- the widgets ------------------------------------------------------------------------------


class Page:
    """The parts of a box of live sliders."""

    def __init__(self, name, size=1024):
        pytest.importorskip("ipywidgets", reason="ipywidgets is not installed: this did not run")
        self.box: Any = live.tile(name, size)
        *sliders, self.rule, self.button, self.status, self.result = self.box.children
        self.sliders = {slider.description: slider for slider in sliders}

    def run(self, **tile):
        """Move sliders, click, and wait."""
        for name, value in tile.items():
            self.sliders[name].value = value
        self.button.click()
        self.box.runner.wait()


def test_a_click_runs_the_emulator():
    page = Page("block_1d")
    assert list(page.sliders) == ["BM", "BN", "BK", "TM"]
    assert "Nothing runs yet" in page.status.value and "emulator" in page.status.value
    assert "is legal" in page.rule.value and page.result.value == ""
    page.run(**SMALL)
    assert page.result.value == live.emulated(catalog["block_1d"].with_params(**SMALL))
    assert page.status.value.startswith("<p role='status'>Done: BM=16, BN=16, BK=4, TM=4")


def test_an_illegal_tile_is_not_run(monkeypatch):
    page = Page("block_1d")
    monkeypatch.setattr(live, "emulated", lambda kernel: pytest.fail("it ran"))
    page.sliders["TM"].value = 4
    assert "(the rule is <code>" in page.rule.value  # before any click
    page.run()
    assert "not run" in page.rule.value
    assert page.result.value == "" and "Nothing runs yet" in page.status.value


def test_the_page_says_what_runs_and_what_is_next(monkeypatch):
    go, begun, ran = threading.Event(), threading.Event(), []

    def slow(kernel):
        begun.set()
        assert go.wait(10)
        ran.append(kernel.params["TILE"])
        return f"result of {kernel.params['TILE']}"

    monkeypatch.setattr(live, "emulated", slow)
    page = Page("tiled_32")
    page.button.click()  # returns at once
    assert begun.wait(10)
    assert "Running: TILE=32" in page.status.value
    for tile in (4, 8):
        page.sliders["TILE"].value = tile
        page.button.click()
        assert f"TILE={tile} is next" in page.rule.value
    go.set()
    page.box.runner.wait()
    assert ran == [32, 8]
    assert page.result.value == "result of 8"
    assert "Done: TILE=8" in page.status.value and "is legal" in page.rule.value
    page.run(TILE=16)  # and it begins again
    assert ran == [32, 8, 16]


def test_an_error_is_shown_and_the_next_run_works(monkeypatch):
    page = Page("tiled_32")
    with monkeypatch.context() as patch:
        log = "06_tiled.cu(9): error: no <y>"
        patch.setattr(live, "emulated", lambda k: (_ for _ in ()).throw(CompileError(log, log)))
        page.run(TILE=8)
    assert "Failed: TILE=8" in page.status.value and "CompileError" in page.result.value
    assert "06_tiled.cu(9): error: no &lt;y&gt;" in page.result.value
    page.run(TILE=4)
    assert "Done: TILE=4" in page.status.value and "<table" in page.result.value


def test_a_gpu_times_tile_after_tile(monkeypatch):
    replayed = live.measure
    calls: list[tuple[int, int]] = []

    def measure(kernel, size, gpu=None):
        if gpu is not None:
            return replayed(kernel, size, gpu=gpu)
        calls.append((kernel.params["TILE"], size))
        return measured(kernel, size, ms=1 / len(calls))

    monkeypatch.setattr(live, "measure", measure)
    monkeypatch.setattr(device, "current", lambda: H200)
    page = Page("tiled_32")
    assert "timed at 1024 on the GPU" in page.status.value
    page.run(TILE=8)
    assert "TILE=8 at 1024: 1.000 ms" in page.result.value
    page.run(TILE=16)
    page.run(TILE=8)
    assert calls == [(8, 1024), (16, 1024), (8, 1024)]
    shown = page.result.value
    assert "TILE=8 at 1024: 0.333 ms" in shown
    assert "TILE=16" in shown and "recorded on NVIDIA H200" in shown and "Roofline" in shown
