"""Times of the kernels of the predictions: shown beside what is right, and above their bound."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from helpers.page.exercises import unseen
from tools.unseen_on_a_gpu import KERNELS

ROWS = json.loads(unseen.MEASURED.read_text(encoding="utf-8"))["rows"]


def test_each_kernel_was_timed_and_none_is_faster_than_its_bound():
    assert [row["kernel"] for row in ROWS] == [kernel.name for kernel in KERNELS]
    for kernel, row in zip(KERNELS, ROWS, strict=True):
        assert row["bound_ms"] == pytest.approx(unseen.facts(kernel, "h200").ms)
        assert row["ms"] >= row["q1"] > row["bound_ms"], row


def test_the_time_stands_beside_a_right_prediction_alone():
    kernels = unseen.AT_THE_SUMMIT
    right = {kernel.name: asdict(unseen.facts(kernel)) for kernel in kernels}
    checks = [str(check) for check in unseen.judged(kernels, right) if "the clock of" in check.what]
    assert len(checks) == 3 and all(f"{row['ms']:.3f} ms" in " ".join(checks) for row in ROWS[-3:])
    right["thin_patch"]["ms"] *= 2
    checks = [check.what for check in unseen.judged(kernels, right) if "the clock of" in check.what]
    assert len(checks) == 2 and not any(what.startswith("thin_patch") for what in checks)
    del right["matrix_vector"]["ms"]
    checks = [check.what for check in unseen.judged(kernels, right) if "the clock of" in check.what]
    assert [what.split(":")[0] for what in checks] == ["every_other"]
