"""A student in Colab and their teacher count the same: NVRTC 12.8 and 13.0, on the catalog and on
every lab's solutions (`python -m tools.compiler_counts starter twin exploit`: of the others)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import catalog
from nogpu import toolchain
from tests.common import ROOT
from tilelabs import labs
from tilelabs.labs.rehearsing import sources
from tools import colab
from tools.compiler_counts import KINDS
from tools.environments import NoEnvironmentError

pytestmark = [pytest.mark.slow, pytest.mark.nvrtc, pytest.mark.xdist_group("compiler counts")]

REGISTERS_APART = frozenset({"/catalog, thin_columns/registers"})
"""Where the two allot a few registers more or less, without a spill; its counts are the same."""


@pytest.fixture(scope="module")
def reports():
    """What was counted, by "colab" and "here": both run at the same time, each in one process."""
    try:
        pythons = {"colab": colab.with_compiler(), "here": Path(sys.executable)}
    except NoEnvironmentError as error:
        pytest.skip(f"Colab's compiler cannot be installed here, so this did not run: {error}")
    env = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "TILE_CACHE": "0", "LC_ALL": "C.UTF-8"}
    runs = {
        name: subprocess.Popen(
            [python, "-m", "tools.compiler_counts"], env=env, cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for name, python in pythons.items()
    }  # fmt: skip
    done = {name: run.communicate() for name, run in runs.items()}
    for name, (_, faults) in done.items():
        assert (runs[name].returncode, faults) == (0, ""), name
    return {name: json.loads(text) for name, (text, _) in done.items()}


def differing(one, other, place=""):
    """Each number or word that is not the same in both, by its place."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other}):
            yield from differing(one.get(name), other.get(name), f"{place}/{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, pair in enumerate(zip(one, other, strict=True)):
            yield from differing(*pair, f"{place}/{i}")
    elif one != other:
        yield f"{place}: {one} and {other}"


def test_both_compilers_are_what_they_are_said_to_be(reports):
    assert reports["colab"]["compiler"] == "NVRTC 12.8"
    assert reports["here"]["compiler"] == toolchain.compiler() != "NVRTC 12.8"


def test_colabs_compiler_gives_the_same_counts_and_points(reports):
    one, other = ({**reports[name]["counts"]} for name in ("colab", "here"))
    del one["control"], other["control"]
    found = [d for d in differing(one, other) if d.split(":")[0] not in REGISTERS_APART]
    assert found == []
    tried = [s for lab in labs.all_labs() for s in sources(lab) if s.kind in KINDS]
    assert len(one) == len(tried) + len(catalog) and len(tried) > 20
    for name, found in one.items():
        if "solution" in name:
            assert not found["refused"] and len(found["runs"]) == 2, name
            assert all(run["sectors"] and not run["wrong"] for run in found["runs"]), name
        elif name.startswith("catalog"):
            assert found["sectors"] and found["instructions"] and not found["wrong"], name
    assert {found["registers"] > 0 for found in one.values() if found.get("refused") != "head"} == {
        True
    }


def test_a_kernel_that_differs_by_its_compiler_is_seen(reports):
    """The wrong twin: it loads once more where the compiler is older."""
    one, other = (reports[name]["counts"]["control"] for name in ("colab", "here"))
    found = list(differing(one, other))
    assert [d.split(":")[0] for d in found] == [
        "/instructions", "/requests", "/scalar", "/sectors",
    ]  # fmt: skip
    assert list(differing([1], [1, 2])) and list(differing({"a": 1}, {}))
