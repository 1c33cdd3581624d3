"""What was tried on hopper_5: right in the emulator, and what an H100 said of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from helpers.ladder.kernel import geometry
from helpers.ladder.launch import trace_of
from helpers.ladder.rungs import fingerprint
from nogpu.errors import ConfigError
from tests.common import ROOT
from tools import tried_on_a_gpu as tool

CHANGED = [name for name, change in tool.CHANGES.items() if change.edits]


def traced(name, *, old="", new=""):
    """A change on four tiles, or two, with a piece of its text changed once more."""
    change = tool.CHANGES[name]
    k = change.at(4096).kernel
    assert not old or k.source.count(old)
    shape = (512, 512, 64) if name == "Hilbert" else (512, 256, 640)
    p = geometry(replace(k, text=k.source.replace(old, new)), *shape, **change.sizes, SMS=2)
    return trace_of(p)


@pytest.mark.parametrize("name", CHANGED)
def test_a_change_leaves_the_product_as_it_is(name):
    found = traced(name)
    assert found.ok, found.report


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("Hilbert", "hilbert_at<GROUP_M>(index, rows", "hilbert_at<GROUP_M>(index / 2, rows"),
        ("a box every 4 steps", "box = step / 4", "box = step / 8"),
    ],
)
def test_a_wrong_change_is_found(name, old, new):
    assert not traced(name, old=old, new=new).ok


def test_an_edit_that_finds_nothing_is_refused():
    with pytest.raises(ConfigError, match="write the edit anew"):
        tool.Change({}, (("no such words", ""),)).at(4096)


def test_the_record_is_of_the_kernel_as_it_is():
    path = ROOT / "data" / "validation" / "tried_h200.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["source"] == fingerprint(tool.KERNEL)
    assert [(row["size"], row["change"]) for row in record["rows"]] == [
        (size, name) for size in tool.SIZES for name in tool.CHANGES
    ]
    assert all(row["gain"] == 1 for row in record["rows"] if row["change"] == "as it is")
