"""Numbers of a reader's GPU: live beside replayed, gains no throttle moves, files, add-record."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import pytest

from helpers import __main__ as cli
from helpers import draw as plots
from helpers.ladder.rungs import catalog
from helpers.page import explorers, format_glued, provenance
from helpers.page.explorers import points as explored
from helpers.record import (
    ImplausibleError,
    known_gpus,
    load,
    measure,
    protocol,
    sources,
    stamps,
    store,
)
from helpers.record.adding import add_record
from helpers.record.telemetry import Reading
from nogpu import device
from nogpu.errors import ConfigError
from nogpu.toolchain import runs
from tests.common import ROOT, completed
from tests.test_measure import H200, QUICK, FakeBench, FakeSession
from tests.test_measure import gpu as pretend_gpu
from tools import reading

gpu = pretend_gpu
BOOK = store.FOLDER
T4 = replace(
    H200, name="Tesla T4", arch="sm_75", sms=40, boost_mhz=1590, memory_bytes=15 << 30,
    l2_bytes=4 << 20, memory_bus_bits=256, memory_clock_mhz=5001,
)  # fmt: skip
L4 = replace(
    H200, name="NVIDIA L4", arch="sm_89", sms=58, boost_mhz=2040, memory_bytes=23 << 30,
    l2_bytes=48 << 20, memory_bus_bits=192, memory_clock_mhz=6251,
)  # fmt: skip
RATES = {
    "naive": 120.0, "coalesced": 600.0, "tiled_32": 900.0, "naive_int": 110.0,
    "coalesced_int": 500.0, "mine": 600.0, "cublas_fp32": 4000.0, "cublas_fp16": 22_000.0,
}  # fmt: skip


class Slow(dict[str, float]):
    """Rates of every kernel that no card is above."""

    def get(self, name, default=None):
        return dict.get(self, name, 700.0)


class Card(FakeSession):
    """A pretended card whose SM clock depends on what it runs: `slowed` runs at half of it.

    tells_clock: whether nvidia-smi tells the clock.
    """

    card = T4
    slowed: frozenset[str] = frozenset()
    tells_clock = True
    rates = RATES

    def __init__(self):
        super().__init__()
        self.gpu, self.mhz = self.card, 1500.0

    def boost_mhz(self):
        return self.card.boost_mhz

    def peak_gflops(self, precision):
        return self.card.known.peak_gflops(precision) if self.card.known else None

    def supports(self, min_arch):
        return runs(self.card.arch, min_arch)

    def first_call(self, plan, A, B, C):
        self.mhz = 750.0 if plan.kernel.name in self.slowed else 1500.0
        return super().first_call(plan, A, B, C)

    def bench(self, operations):
        def ms(name, call):
            operations[name]()
            return float(operations[name].ms) * 1500.0 / self.mhz

        return FakeBench(ms)


@pytest.fixture
def at_hand(monkeypatch):
    """Makes measure() believe in a pretended card; only measuring does, kernels are emulated."""

    def plug_in(**about):
        session = type("Plugged", (Card,), about)()
        untold = Reading(None, None, "nvidia-smi is not on the PATH")
        read_clock = lambda *_: Reading(session.mhz, 70.0, None) if session.tells_clock else untold  # noqa: E731
        monkeypatch.setattr(sources, "_session", lambda: session)
        monkeypatch.setattr(
            sources, "Telemetry", lambda _: nullcontext(SimpleNamespace(between=read_clock))
        )
        monkeypatch.setattr(sources, "device", SimpleNamespace(current=lambda: session.gpu))
        monkeypatch.setattr(stamps, "query", lambda *_: None)
        monkeypatch.setattr(protocol, "LIVE", QUICK)
        return session

    yield plug_in


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A folder of records with the book's own in it; the table of GPUs as it was afterwards."""
    own = tmp_path / "measurements"
    own.mkdir()
    shutil.copy(BOOK / "h200.json", own)
    monkeypatch.setattr(store, "FOLDER", own)
    before = set(device.GPUS)
    yield own
    for key in set(device.GPUS) - before:
        del device._CARDS[key]


# -- live beside replayed ----------------------------------------------------------------------


def test_what_the_gpu_can_run_is_timed_and_the_rest_is_replayed_beside_it(at_hand):
    session = at_hand()
    m = measure(["mma_turing", "mma_pipelined", "cublas_fp16"], [1024, 2048])
    assert m.live and (m.gpu, m.key, m.missing) == ("Tesla T4", "t4", ())
    assert m.recorded is not None and not m.recorded.live and m.recorded.recorded is None
    assert set(session.measured) == {"mma_turing"}
    whose = {row["kernel"]: (row["gpu"], row["live"], row["record"]) for row in m.rows}
    assert whose == {
        "mma_turing": ("Tesla T4", True, ""),
        "mma_pipelined": ("NVIDIA H200", False, "h200"),
        "cublas_fp16": ("Tesla T4", True, ""),
    }
    book = measure("mma_pipelined", [1024, 2048], gpu="h200")
    for n in (1024, 2048):
        assert m.value("mma_pipelined", n) == book.value("mma_pipelined", n)
        assert m.value("mma_pipelined", n, "gpu") == "NVIDIA H200"
        assert m.value("cublas_fp16", n, "gflops") == pytest.approx(22_000, rel=1e-3)
    assert list(m.frame["gpu"]) == [row["gpu"] for row in m.rows]
    assert list(m.frame["record"]) == ["", "", "h200", "h200", "", ""]
    why = "mma_pipelined replayed from the record of the NVIDIA H200, since sm_80 is needed"
    assert m.label.startswith("measured now on Tesla T4") and why in m.label
    assert why in m.replayed[0] and "this Tesla T4 is sm_75" in m.label
    text = provenance(m).text
    assert "Measured here, now: measured now on Tesla T4" in text and why in text
    assert "Replayed from a record, not measured here: recorded on NVIDIA H200" in text


def test_a_gpu_that_can_run_none_replays_all_and_says_so(at_hand):
    session = at_hand()
    m = measure(["cp_async", "hopper_5"], 4096)
    assert not m.live and not session.measured and m.gpu == "NVIDIA H200"
    assert "this Tesla T4 (sm_75) cannot run cp_async (needs sm_80), hopper_5" in m.label
    assert all(row["record"] == "h200" and not row["live"] for row in m.rows)


def test_code_for_hopper_runs_on_hopper_alone():
    assert runs("sm_90", "sm_90a") and not runs("sm_100", "sm_90a") and not runs("sm_80", "sm_90a")
    assert runs("sm_100", "sm_80") and runs("sm_75", "sm_75") and not runs("sm_75", "sm_80")


def test_a_size_that_this_gpu_does_not_hold_is_replayed_with_the_reason(at_hand, monkeypatch):
    session = at_hand()
    real = session.problem

    def small(dtype, M, N, K):
        if M > 2048:
            raise ConfigError("the matrices need 9 GB and this GPU has 4")
        return real(dtype, M, N, K)

    monkeypatch.setattr(session, "problem", small)
    m = measure("coalesced", [1024, 4096])
    assert [row["record"] for row in m.rows] == ["", "h200"]
    assert "coalesced at 4096x4096x4096 replayed from" in m.label and "need 9 GB" in m.label
    alone = measure("coalesced", 4096)
    assert not alone.live and alone.gpu == "NVIDIA H200" and "need 9 GB" in alone.label
    own = replace(catalog["coalesced"], name="mine")  # of which there is no record
    with pytest.raises(ConfigError, match="9 GB"):
        measure(own, 4096)
    both = measure([own, "coalesced"], [1024, 4096])
    assert both.missing == ("mine at 4096x4096x4096 (the matrices need 9 GB and this GPU has 4)",)
    assert both.rows[1]["gpu"] == "" and math.isnan(both.rows[1]["ms"])
    assert measure(own, 1024).recorded is None


def test_a_live_ladder_is_of_what_the_gpu_runs_and_a_wrong_result_is_refused(at_hand):
    at_hand(rates=Slow(RATES))
    names = {row["kernel"] for row in sources.live_ladder(64)}
    assert {"naive", "cublas_fp32"} <= names and "cp_async" not in names
    at_hand(wrong=frozenset({"naive"}))
    with pytest.raises(ImplausibleError, match="wrong result"):
        measure("naive", 64)


MIXED = ["mma_turing", "mma_pipelined"]


@pytest.mark.parametrize("draw", [plots.bars, plots.ladder, plots.roofline, plots.timeline])
def test_charts_never_give_a_point_another_gpus_name(draw, at_hand):
    """A kernel that is replayed stands under the record's legend alone; so does every mixture."""
    at_hand()
    m = measure(MIXED, [1024])
    rec = measure(["mma_turing"], [1024], gpu="h200")
    recorded = plots.series.legend_of(measure(MIXED, [1024], gpu="h200"))
    for given in (m, [m, m.recorded], [m, rec]):
        found = plots.series.points(given)
        whose = {(p.kernel, p.legend.split(",")[0], p.gpu) for p in found}
        assert whose == {
            ("mma_turing", "measured here", "t4"),
            ("mma_turing", "recorded on NVIDIA H200", "h200"),
            ("mma_pipelined", "recorded on NVIDIA H200", "h200"),
        }
        assert len(found) == 3
        alt = draw(given).alt
        assert "measured here, Tesla T4" in alt and "recorded on NVIDIA H200" in alt
    assert {p.legend for p in plots.series.points(m)} == {"measured here, Tesla T4", recorded}
    naive_twin = replace(m, rows=tuple({**r, "record": "", "live": True} for r in m.rows))
    twin = {(p.kernel, p.legend) for p in plots.series.points(naive_twin)}
    assert ("mma_pipelined", "measured here, Tesla T4") in twin  # what the columns prevent


def test_a_frame_and_roofs_are_under_the_names_of_the_rows(at_hand):
    at_hand()
    m = measure(MIXED, [1024])
    alt = plots.bars(m.frame).alt
    assert "mma_turing (measured here, Tesla T4)" in alt
    assert "mma_pipelined (recorded on NVIDIA H200)" in alt
    for given in (m, m.frame):
        assert "Roofline of Tesla T4" in plots.roofline(given, precision="fp16").alt
    only = plots.roofline(m, precision="fp16", kernels=["mma_pipelined"])
    assert (
        f"Roofline of {device.gpu('h200').name}" in only.alt and "T4" not in only.svg + only.caption
    )


# -- a clock that nobody tells -----------------------------------------------------------------


def test_a_clock_that_is_not_told_is_said_in_words(at_hand):
    at_hand(tells_clock=False)
    m = measure("naive", 1024)
    assert format_glued(m.value("naive", 1024, "clock_mhz"), ",.0f") == "nan"  # no page may show it
    assert "no SM clock was read: nvidia-smi is not on the PATH" in provenance(m).text
    at_hand()
    m = measure(["naive", "cublas_fp32"], 1024)
    assert m.live and m.replayed == () and "no SM clock" not in m.label


@pytest.mark.parametrize("page", ["02", "05"])
def test_pages_show_no_number_that_is_none(page, at_hand, monkeypatch):
    """Where nvidia-smi tells no clock: a word in the caption, a dash in the table, never "nan"."""
    at_hand(tells_clock=False, rates=Slow(RATES))
    if page == "02":  # it asks for the card's bandwidth; its cells of CuPy have tests of their own
        monkeypatch.setattr(device, "current", lambda: T4)
        every = reading.steps
        own = re.compile(r"import cupy|bind\(A, B, C\)")
        lacking = lambda text: (s for s in every(text) if not own.search(s[1]))  # noqa: E731
        monkeypatch.setattr(reading, "steps", lacking)
    read = reading.run(page)
    shown = [text for kind, text in read if kind != "code"]
    assert not [text for text in shown if re.search(r"\bnan\b", text)]
    assert any("no SM clock was read" in text for text in shown)
    assert any("measured here, Tesla T4" in text for text in shown)


# -- gains -------------------------------------------------------------------------------------


def naive_gain(m, new, old, n):
    """The wrong twin: a quotient of two medians, each with its own clock in it."""
    return m.value(old, n) / m.value(new, n)


@pytest.mark.parametrize(
    ("about", "new", "old", "gain", "naive"),
    [
        ({"slowed": frozenset({"tiled_32"})}, "tiled_32", "coalesced", 900 / 600, 450 / 600),
        ({"slowed": frozenset({"tiled_32"})}, "coalesced", "tiled_32", 600 / 900, 600 / 450),
        # without cuBLAS the clocks are counted; without a clock the times are all there is
        ({"slowed": frozenset({"coalesced_int"})}, "coalesced_int", "naive_int", 50 / 11, 25 / 11),
        ({"tells_clock": False}, "coalesced_int", "naive_int", 50 / 11, 50 / 11),
    ],
)  # fmt: skip
def test_a_gain_is_the_same_at_any_clock(about, new, old, gain, naive, at_hand):
    at_hand(**about)
    m = measure([old, new], 1024)
    assert m.gain(new, old, 1024) == pytest.approx(gain)
    assert naive_gain(m, new, old, 1024) == pytest.approx(naive)


def test_two_sizes_are_compared_by_clocks(at_hand):
    at_hand()
    m = measure("tiled_32", [1024, 1025])
    slower = m.gain("tiled_32", "tiled_32", 1024, old_size=1025)
    assert slower == pytest.approx((1025 / 1024) ** 3)


@pytest.mark.parametrize(("new", "old"), [("tiled_32", "coalesced"), ("block_1d", "tiled_32")])
def test_on_the_record_the_gain_is_the_quotient_of_the_rates(new, old):
    """The H200 keeps its clock with these kernels: both ways must tell the same there."""
    m = measure([new, old], 4096, gpu="h200")
    assert m.gain(new, old, 4096) == pytest.approx(naive_gain(m, new, old, 4096), rel=0.01)


# -- files -------------------------------------------------------------------------------------


def saved(at_hand, path, card=T4, **about):
    """A file of three kernels at 256 and 1024, as a page writes it on a pretended card."""
    at_hand(card=card, **about)
    return measure(["coalesced", "tiled_32", "cublas_fp32"], [256, 1024]).save(path)


def test_a_page_saves_what_it_measured_and_nothing_replayed(at_hand, folder, tmp_path):
    at_hand()
    path = tmp_path / "mine.json"
    assert measure(MIXED, 1024).save(path) == path
    assert {p.kernel for p in store.read(path).points} == {"mma_turing"}
    assert store.read(path).gpu["name"] == "Tesla T4"
    measure("naive", 256).save(path)  # another page adds to it
    assert {p.kernel for p in store.read(path).points} == {"mma_turing", "naive"}
    with pytest.raises(ConfigError, match="nothing of the book's kernels was measured here"):
        measure("naive", 1024, gpu="h200").save(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="among the records"):
        measure("naive", 256).save(folder / "t4.json")
    at_hand(card=L4)
    with pytest.raises(ConfigError, match=r"times of a Tesla T4.*NVIDIA L4"):
        measure("naive", 256).save(path)
    assert not (tmp_path / "none.json").exists() and not (folder / "t4.json").exists()


def command(capsys, *given):
    """Status and what `python -m helpers` writes, in this process."""
    status = cli.main(given)
    return (status, *capsys.readouterr())


def test_add_record_takes_a_readers_file(at_hand, folder, tmp_path, capsys):
    path = saved(at_hand, tmp_path / "mine.json")
    status, out, err = command(capsys, "add-record", str(path))
    assert (status, err) == (0, "") and "6 new, 0 in place of older ones, of the Tesla T4" in out
    assert known_gpus() == ["h200", "t4"]
    replayed = measure(["coalesced", "tiled_32"], 1024, gpu="t4")
    assert not replayed.live and replayed.gpu == "Tesla T4"
    assert replayed.gain("tiled_32", "coalesced", 1024) == pytest.approx(1.5, rel=1e-4)
    status, out, _ = command(capsys, "ladder", "--gpu", "t4", "--size", "1024")
    assert status == 0 and "recorded on Tesla T4" in out and "tiled_32" in out
    assert "Tesla T4, recorded" in explored.sources()["t4"][0]
    assert "Tesla T4, recorded" in explorers.ladder()._repr_html_()
    status, out, _ = command(capsys, "add-record", str(path))
    assert status == 0 and "0 new, 6 in place of older ones" in out


def test_what_record_writes_is_taken_too(gpu, folder, tmp_path, capsys):
    path = tmp_path / "recorded.json"
    arguments = ("--kernels", "naive,cublas_fp32", "--sizes", "64", "--out", str(path))
    assert command(capsys, "record", "--commit", "abc", *arguments)[0] == 0
    before = (folder / "h200.json").read_bytes()
    status, out, err = command(capsys, "add-record", str(path))
    assert (status, out) == (2, "")
    assert "the book's own record" in err and "--published" in err and "--gpu my_h200" in err
    assert (folder / "h200.json").read_bytes() == before
    for _ in range(2):  # its name stands in the table of GPUs from the first time on
        assert command(capsys, "add-record", str(path), "--gpu", "my_h200")[0] == 0
    own = {p.kernel for p in load("my_h200").points}
    assert own == {"naive", "cublas_fp32"}  # none of the book's
    assert measure("naive", 64, gpu="my_h200").gpu == "NVIDIA H200"
    assert (folder / "h200.json").read_bytes() == before
    assert command(capsys, "add-record", str(path), "--published")[0] == 0
    assert measure("naive", 64, gpu="h200").value("naive", 64) > 0
    points = len(load("h200").points)
    assert points == 2 + len(store.read(BOOK / "h200.json").points)  # nothing of it is lost


def test_the_books_own_times_are_not_taken_for_a_readers(folder, tmp_path, capsys):
    """`record --out` on an H200 goes on from the book's record, and writes it into the file."""
    path = shutil.copy(folder / "h200.json", tmp_path / "mine.json")
    status, _, err = command(capsys, "add-record", str(path), "--gpu", "my_h200")
    assert status == 2 and "the book's own times of the NVIDIA H200 and no other" in err
    assert known_gpus() == ["h200"]


def test_a_card_that_the_table_lacks_describes_itself(at_hand, folder, tmp_path, capsys):
    path = saved(at_hand, tmp_path / "mine.json", card=L4)
    assert "l4" not in device.GPUS
    assert command(capsys, "add-record", str(path))[0] == 0
    facts, own = store.read(path).gpu, device.gpu("l4")
    names = {f.name for f in fields(device.LiveGpu)} & set(facts)
    assert {"name", "arch", "sms", "memory_bytes", "l2_bytes"} <= names
    assert all(facts[name] == getattr(L4, name) for name in names)
    assert (own.name, own.sms, own.boost_mhz, own.fp32_lanes_per_sm) == ("NVIDIA L4", 58, 2040, 128)
    assert own.bandwidth_gbs == pytest.approx(300, rel=0.01)
    assert L4.known == own  # live times are now drawn under its name and its roofs
    alt = plots.roofline(measure("tiled_32", 1024, gpu="l4")).alt
    assert "Roofline of NVIDIA L4" in alt
    assert explored.peak("l4", "fp32") == pytest.approx(58 * 128 * 2 * 2.04)


def test_another_process_sees_it_by_the_command_alone(at_hand, tmp_path):
    """In a copy of the book, as a reader has it: add a file, then ask."""
    path = saved(at_hand, tmp_path / "mine.json", card=L4)
    copy = tmp_path / "copy"
    away = shutil.ignore_patterns("__pycache__")
    for part in ("helpers", "packages", "kernels", "data"):
        shutil.copytree(ROOT / part, copy / part, ignore=away)

    def ask(*line):
        return completed([sys.executable, *line], cwd=copy, check=True).stdout

    assert "6 new" in ask("-m", "helpers", "add-record", str(path))
    assert "recorded on NVIDIA L4" in ask("-m", "helpers", "ladder", "--gpu", "l4", "--size", "256")
    assert "record:    l4: 6 points" in ask("-m", "helpers", "info")
    code = "from helpers import device, explorers as e; print(device.gpu('l4').sms, e.occupancy())"
    assert ask("-c", code).startswith("58 ")
    assert not (BOOK / "l4.json").exists()


def changed(**values):
    """What sets fields of a file's first point."""
    return lambda raw: raw["points"][0].update(values)


def of_gpu(**values):
    """What sets facts of a file's GPU."""
    return lambda raw: raw["gpu"].update(values)


def faster(raw):
    """Times of a card ten times as fast, each figure fitting the others."""
    for point in raw["points"]:
        for name in ("ms", "q1", "q3", "baseline_ms"):
            point[name] /= 10
        point["gflops"] *= 10


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "above the peak": (faster, "the hardware's peak is"),
    "another version": (lambda raw: raw.update(schema=2), "schema 2"),
    "no schema": (lambda raw: raw.pop("schema"), "no schema number"),
    "no GPU": (lambda raw: raw.pop("gpu"), "which GPU"),
    "another's name": (of_gpu(sms=132, arch="sm_90"), "architecture sm_90 and not sm_75, SMs 132"),
    "another's clock": (of_gpu(max_clock_mhz=9999), "clock of 9999 MHz and not 1590"),
    "no clock": (of_gpu(max_clock_mhz=0), "does not say the max_clock_mhz"),
    "an unknown card without facts": (of_gpu(name="NVIDIA Z9", bandwidth_gbs=None), "bandwidth_gbs is not told"),
    "an unknown architecture": (of_gpu(name="NVIDIA Z9", arch="sm_60"), "no limits are known"),
    "a field of the wrong kind": (changed(ms=-1.0), "ms=-1.0, which is not positive"),
    "an unknown kernel": (changed(kernel="coalesce"), "Did you mean 'coalesced'"),
    "an illegal tile": (changed(params={"TILE": 7}), "TILE"),
    "a rate of another time": (changed(gflops=1.0), "says 1 GFLOP/s"),
    "quartiles elsewhere": (changed(q1=1e9), "quartiles"),
    "a wrong result": (changed(error_over_tolerance=3.0), "wrong result"),
    "a ratio of other times": (changed(cublas_ratio=0.9), "says 0.9 of cublas_fp32"),
    "operands of another type": (changed(dtype="float16"), "takes float32"),
    "a day to come": (lambda raw: raw["points"][0]["recorded"].update(date="2999-01-01"), "no day of the past"),
    "no versions": (lambda raw: raw["points"][0]["recorded"].pop("cuda"), "does not say its cuda"),
    "no measurement": (lambda raw: raw.update(points=[]), "holds no measurement"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_what_cannot_be_is_refused_and_nothing_is_written(fault, at_hand, folder, tmp_path, capsys):
    path = saved(at_hand, tmp_path / "mine.json")
    raw = json.loads(path.read_text(encoding="utf-8"))
    spoil, words = REFUSED[fault]
    spoil(raw)
    path.write_text(json.dumps(raw), encoding="utf-8")
    status, out, err = command(capsys, "add-record", str(path))
    assert (status, out) == (2, "") and err.startswith("error: ") and words in err
    assert sorted(p.name for p in folder.iterdir()) == ["h200.json"]
    assert "git checkout" not in err  # the file is the reader's, not the repository's


def test_a_name_that_is_not_the_cards_own_is_refused(at_hand, folder, tmp_path, capsys):
    path = saved(at_hand, tmp_path / "mine.json")
    for given, words in (("h200", "wrong name. Use --gpu t4"), ("My T4", "lower-case letters")):
        status, _, err = command(capsys, "add-record", str(path), "--gpu", given)
        assert status == 2 and words in err
    assert "there is no file" in command(capsys, "add-record", str(tmp_path / "no.json"))[2]
    path.write_text("{", encoding="utf-8")
    assert "damaged" in command(capsys, "add-record", str(path))[2]
    assert known_gpus() == ["h200"]


def test_a_longer_name_may_be_another_card(at_hand, folder, tmp_path):
    """An H100 PCIe has fewer SMs than the H100 of the table: it describes itself."""
    pcie = replace(H200, name="NVIDIA H100 PCIe", sms=114, boost_mhz=1755)
    path = saved(at_hand, tmp_path / "mine.json", card=pcie)
    assert add_record(path).key == "h100_pcie"
    assert device.gpu("h100_pcie").sms == 114 and pcie.known == device.gpu("h100_pcie")
    sxm = replace(H200, name="NVIDIA H100 80GB HBM3")
    assert sxm.known == device.gpu("h100")
