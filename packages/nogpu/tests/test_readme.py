"""The package's README is right: its examples and its workflow run, and it has every name."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

import nogpu
from nogpu import pytest_plugin

README = Path(__file__).parents[1] / "README.md"


def blocks(language):
    """Code of the README in a language."""
    return re.findall(rf"(?s)```{language}\n(.*?)```", README.read_text(encoding="utf-8"))


def test_the_example_runs(capsys):
    names = {}
    exec(blocks("python")[0], names)
    assert (names["c"] == 2).all()
    assert "global store" in capsys.readouterr().out


def test_the_fixture_of_the_example_runs(tmp_path, monkeypatch):
    names = {}
    exec(blocks("python")[0], names)
    monkeypatch.chdir(tmp_path)
    exec(blocks("python")[1], names)
    Path("add.cu").write_text(names["source"])
    names["test_add"](pytest_plugin.run)
    Path("add.cu").write_text(names["source"].replace("i < n", "i < n - 1"))
    with pytest.raises(pytest.fail.Exception, match=r"add\.cu:\d+: wrong-result"):
        names["test_add"](pytest_plugin.run)


def test_the_workflow_runs_pytest_in_ten_lines():
    [text] = blocks("yaml")
    assert len(text.splitlines()) <= 10
    [job] = yaml.safe_load(text)["jobs"].values()
    commands = [step["run"].split() for step in job["steps"] if "run" in step]
    assert commands == [
        ["pip", "install", '"nogpu[compiler]"', "pytest"],
        ["python", "-m", "pytest"],
    ]


def undocumented(text):
    """Public names without a row of their own."""
    return set(nogpu.__all__) - set(re.findall(r"(?m)^\| `(\w+)", text))


def test_each_name_has_a_row_and_there_are_at_most_ten():
    text = README.read_text(encoding="utf-8")
    assert len(nogpu.__all__) <= 10 and undocumented(text) == set()
    assert undocumented(text.replace("| `launch", "| `start")) == {"launch"}


def test_what_the_rows_say_is_there():
    code = "__global__ void k(float* a) { a[threadIdx.x] = 1; }"
    report = nogpu.launch(code, "k", 1, 33, [np.zeros(32, np.float32)])
    [finding], [access] = report.findings, report.accesses
    assert isinstance(finding, nogpu.Finding) and finding.kind == "out-of-bounds" and not report.ok
    assert isinstance(access, nogpu.LineAccess) and access.requests == 1
    assert nogpu.compile(code).ptx
    with pytest.raises(nogpu.CompileError) as caught:
        nogpu.compile(code.replace("a[", "aa["))
    assert "aa" in caught.value.log and isinstance(caught.value, nogpu.TileError)
    with pytest.raises(nogpu.EmulationError):
        nogpu.launch(code, "k", 1, 32, [])
