"""The record of clean kernels: of today's code, complete, quiet, and true when run again."""

from __future__ import annotations

import copy
import json
from functools import cache

import pytest

from helpers.ladder.rungs import catalog
from tests.common import ROOT
from tools import clean

CHAPTERS = {k.chapter for k in catalog.values() if k.host in ("plain", "tma")}


@cache
def record():
    path = ROOT / "data" / "validation" / "clean.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_record_is_of_every_kernel_as_it_is_today():
    """Whoever changes a kernel writes it again: python -m tools.clean --out."""
    assert clean.stale(record()) == []


@pytest.mark.parametrize(
    ("what", "instead"), [("code", "0" * 12), ("arch", "sm_90"), ("shapes", []), ("kernel", "x")]
)
def test_a_record_of_other_code_is_seen(what, instead):
    twin = copy.deepcopy(record())
    twin["kernels"][3][what] = instead
    assert clean.stale(twin)


def test_there_are_fifty_shapes_a_kernel_and_no_alarm():
    for r in record()["kernels"]:
        assert len(set(r["shapes"])) >= 50
        assert r["launches"] == len(r["shapes"]) * len(record()["schedules"])
        assert (r["findings"], r["wrong"], r["alarms"]) == (0, 0, []), r["kernel"]
    assert {catalog[r["kernel"]].chapter for r in record()["kernels"]} == CHAPTERS


@pytest.mark.parametrize("kernel", clean.kernels())
def test_a_few_shapes_run_again_are_as_quiet(kernel):
    todo = clean.shapes(kernel)
    found = clean.run(kernel, todo[2:4] + todo[-2:], clean.tiles(kernel))
    assert found == {"launches": 8, "findings": 0, "wrong": 0, "alarms": []}


@pytest.mark.parametrize(
    ("kernel", "text", "instead", "which"),
    [
        ("mma_ldmatrix", "__syncthreads();", ";", "findings"),
        ("tiled_16", "k0 < K; k0 += TILE)", "k0 + TILE <= K; k0 += TILE)", "wrong"),
    ],
)
def test_a_kernel_with_a_fault_is_not_quiet(kernel, text, instead, which):
    assert text in catalog[kernel].source
    twin = catalog[kernel].with_source(catalog[kernel].source.replace(text, instead))
    found = clean.run(twin, clean.shapes(kernel)[:6], clean.tiles(kernel))
    assert found[which] > 0 and found["alarms"]
