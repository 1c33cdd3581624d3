"""Kernels whose threads wait for each other: right and quiet as they stand, else caught."""

from __future__ import annotations

import numpy as np
import pytest
from foreign_waits import KERNELS, SHAPES

SCHEDULES = ("ascending", "permuted")
_PAIRS = [(name, twin) for name, kernel in KERNELS.items() for twin in kernel.twins]
TWINS = [(name, twin, schedule) for name, twin in _PAIRS for schedule in twin.schedules]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_it_is_right_and_nothing_is_found(name, shape, schedule):
    kernel = KERNELS[name]
    report, got, want = kernel.run(kernel.source, *shape, schedule=schedule)
    assert report.ok, report
    # Where one block does all steps of a tile, its workspace is not touched.
    assert not [note for note in report.notes if not note.startswith("parts: no thread wrote 448")]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("name", "twin", "schedule"), TWINS, ids=[f"{n}-{t.name}-{s}" for n, t, s in TWINS]
)
def test_its_wrong_twin_is_found(name, twin, schedule):
    kernel = KERNELS[name]
    source = kernel.source.replace(twin.old, twin.new)
    report, *_ = kernel.run(source, *kernel.shape, schedule=schedule)
    found = [f for f in report.findings if f.kind == twin.kind]
    assert found, report
    assert any(twin.says in f.message for f in found), report
    assert all(f.line for f in found)
