"""Boxes of tensors: the emulator takes those that an H200 takes, and names the fault of those that
end a kernel there (tools/boxes_on_a_gpu.py)."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from nogpu.emulator.machine import bulk
from tools import boxes_on_a_gpu as tool

ENDS = {
    tool.Box(**{n: r[n] for n in asdict(tool.CASES[0])}): r["end"] for r in tool.read()["boxes"]
}
KINDS = {
    "ok": [],
    "illegal instruction": ["misaligned", "out-of-bounds"],
    "misaligned address": ["misaligned"],
}


def kinds(case):
    report = tool.in_the_emulator(case)
    assert report.ok == (not report.findings)
    return [f.kind for f in report.findings]


def test_the_record_has_every_case_and_says_whose_it_is():
    assert set(ENDS) == set(tool.CASES) and set(ENDS.values()) == {"ok", *tool.ENDS.values()}
    assert tool.read()["gpu"] and all(
        tool.read()["recorded"][n] for n in ("commit", "date", "driver")
    )


@pytest.mark.parametrize(
    "case", ENDS, ids=lambda c: f"{c.does}-{c.dtype}-{c.row},{c.col}-{c.swizzle}-{c.shift}"
)
def test_a_box_is_taken_where_the_gpu_takes_it(case):
    found = kinds(case)
    assert bool(found) == (ENDS[case] != "ok") and set(found) <= set(KINDS[ENDS[case]])


@pytest.mark.parametrize("end", tool.ENDS.values())
def test_an_emulator_that_takes_every_box_is_seen(end, monkeypatch):
    monkeypatch.setattr(
        bulk, "_fits", lambda state, site, requests, base, *_, **__: np.ones(len(base), bool)
    )
    case = next(c for c, e in ENDS.items() if e == end and c.does == "store" and not c.swizzle)
    assert not kinds(case)
