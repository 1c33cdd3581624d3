"""Products written with CUDA's headers are right and clean; with one thing wrong they are not."""

from __future__ import annotations

import numpy as np
import pytest
from header_kernels import KERNELS, SHAPES

pytestmark = pytest.mark.xdist_group("headers")  # one worker compiles their sources once
TWINS = [(name, i + 1) for name, k in KERNELS.items() for i in range(len(k.twins))]


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_it_is_right_and_nothing_is_found(name, shape, schedule):
    report, got, want = KERNELS[name].launch(0, shape, schedule=schedule, seed=3)
    assert report.ok, report
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("name", "number"), TWINS, ids=[f"{n}-{i}" for n, i in TWINS])
def test_what_is_wrong_with_its_twin_is_found(name, number):
    kernel = KERNELS[name]
    twin = kernel.twins[number - 1]
    report, _, _ = kernel.launch(number, SHAPES[-1])
    assert twin.kind in {f.kind for f in report.findings}, (twin.what, report)
