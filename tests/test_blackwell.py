"""Kernels for Blackwell: right in the emulator, accepted by ptxas, faults found on their line."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.chapters.ch25 import blackwell as model
from helpers.chapters.ch25 import blackwell_tries as tries
from helpers.chapters.ch25 import scaled
from helpers.ladder import usage
from helpers.ladder.chains import BLACKWELL
from helpers.ladder.kernel import KERNELS, geometry
from helpers.ladder.launch import trace, trace_of
from helpers.ladder.rungs import blackwell
from nogpu.errors import ConfigError, ShapeError
from tests.test_hopper_compile import unspilled
from tools import steps_on_a_gpu as tool

SHAPES = [
    (1, 1, 1), (128, 128, 64), (256, 256, 128), (129, 127, 65), (257, 300, 1), (1, 520, 200),
    (384, 64, 320), (200, 136, 264), (512, 384, 64), (77, 513, 130), (300, 260, 328),
    (640, 128, 192),
]  # fmt: skip


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", blackwell)
def test_right_and_nothing_found(name, shape, schedule):
    found = trace(name, *shape, schedule=schedule)
    assert found.ok, found.report


@pytest.mark.parametrize("case", range(240))
@pytest.mark.parametrize("name", blackwell)
def test_no_false_word_in_a_thousand_launches(name, case):
    rng = Random(f"{name} {case}")
    k = blackwell[name]
    sizes = {size: rng.choice(choices) for size, choices in k.choices.items()}
    shape = rng.randint(1, 300), rng.randint(1, 400), rng.randint(1, 300)
    try:
        p = geometry(k, *shape, **sizes)
    except ConfigError:
        p = geometry(k, *shape)
    found = trace_of(p, schedule=("ascending", "permuted")[case % 2], seed=case)
    assert found.ok, found.report


@pytest.mark.parametrize("columns", [128, 256])
@pytest.mark.parametrize("name", [*blackwell, "scaled"])
def test_ptxas_accepts_and_spills_nothing(name, columns):
    k = scaled.KERNEL if name == "scaled" else blackwell[name]
    sizes = {"BN": columns, "STAGES": 3} if "STAGES" in k.params else {"BN": columns}
    unspilled(k, sizes, "sm_100a")


# -- planted faults ------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", tries.FAULTS, ids=[fault[0] for fault in tries.FAULTS])
def test_a_planted_fault_stands_on_its_line(fault):
    _, name, old, new, line = fault
    text = blackwell[name].source
    assert old in text
    wrong = text.replace(old, new)
    report = tries.tried(name, wrong).report
    assert tries.on_its_line(report, wrong, line), report


def test_the_same_texts_without_a_fault_are_quiet():
    for name in {fault[1] for fault in tries.FAULTS}:
        assert tries.tried(name, blackwell[name].source).ok


# -- four bits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("shape", [(128, 128, 256), (1, 1, 1), (130, 200, 321), (256, 400, 600)])
def test_four_bits_with_scales(shape, schedule):
    A, B = scaled.operands(*shape)
    C, report = scaled.emulated(A, B, schedule=schedule, BN=128, STAGES=2)
    want = A.values @ B.values.T
    assert not report.findings, report
    assert (np.abs(C - want) <= 2.0**-8 * np.abs(want) + 1e-5 * np.abs(want).max()).all()


def test_other_scales_and_no_scales_are_found():
    A, B = scaled.operands(128, 128, 256)
    text = scaled.KERNEL.source
    turned = text.replace("b_scales + step * B_BLOCKS * SCALES_COLUMNS", "b_scales")
    C, _ = scaled.emulated(A, B, source=turned, BN=128, STAGES=2)
    want = A.values @ B.values.T
    assert np.abs(C - want).max() > 0.05 * np.abs(want).max()
    left_out = text.replace(
        "copy_scales(a_scales + step", "if (step > 0) copy_scales(a_scales + step"
    )
    _, report = scaled.emulated(A, B, source=left_out, BN=128, STAGES=2)
    assert any("scales by columns" in f.message for f in report.findings)


def test_what_four_bits_refuse():
    with pytest.raises(ShapeError, match="two axes"):
        scaled.quantised(np.zeros(3))
    A, B = scaled.operands(2, 2, 64)[0], scaled.operands(2, 2, 32)[1]
    with pytest.raises(ShapeError, match=r"64.*32"):
        scaled.emulated(A, B)


# -- what the cost model counts -----------------------------------------------------------------


def emulated(name, shape, source=""):
    """What the emulator counts of a launch, and what ptxas was given to allocate."""
    p = model.plan(name, *shape)
    if name == "scaled":
        report = scaled.emulated(*scaled.operands(*shape), source=source)[1]
    else:
        k = p.kernel.with_source(source) if source else p.kernel
        report = trace_of(geometry(k, *shape)).report
    rows = report.by_line()
    engines = [r for r in rows if r.array == "shared" and r.space == "shared"]
    copied = sum(r.bytes for r in engines if r.op == "store")
    reads = [r for r in engines if r.op == "load"]
    operands = sum(r.requests for r in reads if r.width_bytes > 512)  # 512: scales
    w = model.work(p)
    announced = [r for r in rows if "barrier_arrive_expect" in r.text and "answer" not in r.text]
    ptx = usage.compile_launch(p, "sm_100a").ptx
    return {
        "copied": copied, "read": sum(r.bytes for r in reads),
        "stored": sum(r.bytes for r in rows if r.array == "C"),
        "steps": sum(r.requests for r in announced) * w.together // w.blocks,
        "products": operands // (2 * w.together),
        "allocated": int(re.findall(r"tcgen05\.alloc[^;]*, (\d+);", ptx)[0]),
    }  # fmt: skip


def counted(name, shape):
    """The same by closed formulas."""
    w = model.work(model.plan(name, *shape))
    return {
        "copied": w.copied, "read": w.copied, "stored": 2 * shape[0] * shape[1], "steps": w.steps,
        "products": w.products, "allocated": w.allocated,
    }  # fmt: skip


@pytest.mark.parametrize("shape", [(257, 130, 200), (256, 512, 600)])
@pytest.mark.parametrize("name", [*blackwell, "scaled"])
def test_the_cost_model_counts_what_the_emulator_counts(name, shape):
    assert emulated(name, shape) == counted(name, shape)


@pytest.mark.parametrize("name", [*blackwell, "scaled"])
def test_a_kernel_that_copies_or_steps_otherwise_is_counted_otherwise(name):
    """The wrong twins: boxes copied twice, and steps of half a stage."""
    text, shape = (scaled.KERNEL if name == "scaled" else blackwell[name]).source, (128, 128, 512)
    twice = emulated(name, shape, text.replace("m < BM; m += BOX", "m < BM; m += BOX / 2"))
    assert twice["copied"] > counted(name, shape)["copied"]
    short = text.replace("k0 += BK", "k0 += BK / 2").replace("/ BK;", "/ (BK / 2);")
    assert emulated(name, shape, short)["steps"] >= 2 * counted(name, shape)["steps"]


def test_blocks_of_an_sm_by_what_each_resource_allows():
    """Columns that a block allocates are a limit of their own: without it six blocks would fit."""
    occupancy = model.occupancy(model.plan("tensor_memory", 4096, 4096, 4096))
    assert occupancy.limited_by == ("tensor memory",) and occupancy.blocks == 512 // 128
    assert min(n for name, n in occupancy.by.items() if name != "tensor memory") > occupancy.blocks
    wide = model.occupancy(model.plan("tensor_memory", 4096, 4096, 4096, BN=256))
    assert wide.by["tensor memory"] == 2


def test_a_prediction_is_a_count_over_a_published_peak():
    """At the clock that the peak gives, so that one full round of tiles takes the peak's time."""
    edge = 256 * 37  # with four tiles across, two rounds of 74 pairs
    b = model.predicted(model.plan("tensor_pair", edge, 1024, 4096))
    assert b.waves.factor == 1 and b.binding == "Tensor pipe" and b.missing
    assert b.gflops == pytest.approx(1e3 * model.PEAKS["bf16"], rel=1e-3)
    ragged = model.predicted(model.plan("tensor_pair", edge + 1, 1024, 4096))
    assert ragged.waves.factor > 1 and ragged.gflops < b.gflops
    flat = model.predicted(model.plan("tensor_pair", 4096, 4096, 64))
    assert flat.binding == "DRAM"


# -- what the owner of a card runs ------------------------------------------------------------------


def test_every_file_is_entered_and_linked():
    there = {path.relative_to(KERNELS).as_posix() for path in (KERNELS / "blackwell").glob("*")}
    assert {k.file for k in blackwell.values()} | {scaled.KERNEL.file} == there
    assert [link.kernel for link in BLACKWELL] == list(blackwell)
    for link in BLACKWELL:
        for tile in link.tiles:
            geometry(link.at(tile), 4096, 4096, 4096)


def pretended(monkeypatch):
    """A card of compute capability 10.0 on which the emulator runs and every time is a second."""
    gpu = SimpleNamespace(arch="sm_100", name="NVIDIA B200", key="b200")

    watch = SimpleNamespace(between=lambda *_: SimpleNamespace(clock_mhz=1000, power_w=1))
    session = SimpleNamespace(gpu=gpu, bus_id="", warm_up=lambda: None, versions=dict)

    def trial(_, size, contenders, *rest):
        one = SimpleNamespace(median=1000.0, q1=1000.0, q3=1000.0, count=1)
        rounds = SimpleNamespace(started=0, ended=1, ratio=lambda *_: SimpleNamespace(median=1.0))
        ms, rates = dict.fromkeys(contenders, one), dict.fromkeys(contenders, 1.0)
        return SimpleNamespace(ms=ms, rates=rates, rounds=rounds)

    def compared(k):
        wrong = sum(trace(k.name, *shape).wrong for shape in SHAPES[1:3])
        return {"kernel": k.name, "shapes": 2, "wrong": wrong, "shifted_wrong": 0}

    monkeypatch.setattr(tool.campaign, "require_gpu", lambda: None)
    monkeypatch.setattr(tool.campaign, "gpu_key", lambda *_: "b200")
    monkeypatch.setattr(tool, "Session", lambda: session)
    monkeypatch.setattr(tool, "Telemetry", lambda *_: nullcontext(watch))
    monkeypatch.setattr(tool.stamps, "gpu_facts", lambda _: {"name": gpu.name})
    monkeypatch.setattr(tool.stamps, "stamp", lambda *_: {"commit": "pretended"})
    monkeypatch.setattr(tool.trials, "trial", trial)
    monkeypatch.setattr(tool.trials, "of_plan", lambda p, label: p)
    monkeypatch.setattr(tool.trials, "yardstick", lambda *_: {"cuBLAS": None})
    monkeypatch.setattr(tool, "compared", compared)
    monkeypatch.setattr(tool, "watched", lambda arch, kernels: ([], []))


def test_the_one_command_on_a_pretended_card(monkeypatch, tmp_path, capsys):
    pretended(monkeypatch)
    out = tmp_path / "steps_b200.json"
    assert tool.main(["--out", str(out)]) == 0
    record = json.loads(out.read_text(encoding="utf-8"))
    assert {row["kernel"] for row in record["shapes"]} == set(blackwell)
    labels = {row["label"] for row in record["times"]}
    assert labels == {*blackwell, "cuBLAS"} and len(record["times"]) == 5 * len(tool.SIZES)
    assert tool.main(["--out", str(out), "--chapter", "21"]) == 2
    assert "(sm_100) times 25" in capsys.readouterr().err
