"""What is recorded of notebooks and of the loop on a GPU: whole, without a fault, and as a reader
is told."""

from __future__ import annotations

import copy
import json
from importlib import import_module

import pytest

from helpers.ladder.rungs import catalog
from nogpu import device
from nogpu.errors import NoGPUError
from tests.common import ROOT
from tools import on_a_gpu
from tools.notebooks.books import read_book
from tools.recorder import campaign

RECORD = json.loads((ROOT / "data" / "validation" / "live_h100.json").read_text(encoding="utf-8"))
TILED = catalog["tiled_32"].source.splitlines()


def line_of(words):
    """Number of the line in the cell that holds these words: the kernel stands below the magic's
    line."""
    return next(i for i, line in enumerate(TILED, 2) if words in line)


SAYS = {
    "set up": ("GPU: NVIDIA H100",),
    "right": ("Right in the emulator", "Right on the NVIDIA H100", "times as fast as|as fast as tiled_32"),
    "slow": ("Right on the NVIDIA H100", "% of cuBLAS", "wavefronts a request"),
    "racy": ("race", f"line {line_of('A_tile[ty][tx] =')}"),
    "wrong line": (f"({line_of('col] = sum')}): error",),
    "a tile of its own": ("which has TILE=32", "2048x2048x2048 on the NVIDIA H100"),
    "any program": ("Ran on the NVIDIA H100", "ms a launch", "Left out"),
    "slider": ("Done: TILE=16",),
    "measured": ("True NVIDIA H100 80GB HBM3 measured now",),
    "an exercise": ("right on the NVIDIA H100 80GB HBM3 too",),
    "crash, kept away": ("out-of-bounds", "may stop a GPU"),
    "crash, asked for": ("stopped the GPU", "Restart it"),
    "after the crash": ("Right in the emulator", "no longer answers this process"),
}  # fmt: skip


def faults(record):
    """What the record lacks, and what went wrong in it."""
    found = []
    chapters = {page.path.stem for page in read_book().pages.values() if page.is_chapter}
    ran = {entry["notebook"]: entry for entry in record["notebooks"]}
    found += [f"{name} did not run" for name in sorted(chapters - set(ran))]
    found += [f"{name}: {fault}" for name, e in ran.items() for fault in e["faults"]]
    steps = {step["step"]: step for step in record["loop"]}
    for name, words in SAYS.items():
        step = steps.get(name, {"said": "", "error": "there is no such step", "stderr": ""})
        if step["error"] or step["stderr"]:
            found.append(f"{name}: {step['error'] or step['stderr']}")
        text = step["said"].lower()
        lacks = (word for word in words if not any(p.lower() in text for p in word.split("|")))
        found += [f"{name} does not say {word}" for word in lacks]
    return found


def test_everything_ran_on_the_gpu_without_a_fault():
    assert faults(RECORD) == []
    assert RECORD["machine"]["gpu"] and RECORD["machine"]["commit"]
    assert set(on_a_gpu.steps()) == set(SAYS)


def test_a_fault_would_be_told():
    spoiled = copy.deepcopy(RECORD)
    spoiled["notebooks"][3]["faults"].append({"cell": 2, "error": "ConfigError: no"})
    gone = spoiled["notebooks"].pop(5)["notebook"]
    spoiled["loop"][1]["said"] = "Right in the emulator"
    messages = faults(spoiled)
    assert f"{gone} did not run" in messages and any("ConfigError" in t for t in messages)
    assert any(t.startswith("right does not say") for t in messages)


def test_without_a_gpu_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(device, "current", lambda: None)
    monkeypatch.setattr("sys.argv", ["on_a_gpu", "--out", str(tmp_path / "x.json")])
    assert on_a_gpu.main() == 2 and not (tmp_path / "x.json").exists()


@pytest.mark.parametrize(
    "name", ["epilogue", "fp8", "hopper", "languages", "steps", "summit", "sums", "tried", "unseen"]
)
def test_a_tool_without_a_gpu_says_so_and_writes_nothing(name, tmp_path, monkeypatch, capsys):
    def none():
        raise NoGPUError("no GPU answers")

    monkeypatch.setattr(campaign, "require_gpu", none)
    tool = import_module(f"tools.{name}_on_a_gpu")
    assert tool.main(["--out", str(tmp_path / "x.json")]) == 2
    assert "no GPU answers" in capsys.readouterr().err and not list(tmp_path.iterdir())
