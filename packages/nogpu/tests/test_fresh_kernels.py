"""Small kernels over all that CUDA C++ offers: right, and quiet, in whatever order warps run."""

from __future__ import annotations

import numpy as np
import pytest
from fresh_kernels import KERNELS, X

from nogpu import emulator

pytestmark = pytest.mark.xdist_group("fresh")


def run(name, x=X, schedule="ascending"):
    """Report and y of a kernel."""
    fresh = KERNELS[name]
    options = {"arch": "sm_80", "grid": 4, **(fresh.options or {})}
    grid, y = options.pop("grid"), np.zeros(256, fresh.kind[1])
    given = [x.copy(), y, 256]
    return emulator.launch(fresh.source, "k", grid, 64, given, schedule=schedule, **options), y


@pytest.mark.parametrize("name", KERNELS)
def test_a_fresh_kernel_is_right_and_quiet(name):
    want = np.asarray(KERNELS[name].want())
    for schedule in ("ascending", "permuted"):
        report, y = run(name, schedule=schedule)
        assert report.ok, report
        if y.dtype.kind == "f":
            np.testing.assert_allclose(
                y, want.astype(y.dtype), rtol=2e-6 if y.itemsize > 2 else 1e-3
            )
        else:
            np.testing.assert_array_equal(y, want.astype(np.int64).astype(y.dtype))
    other = run(name, x=X // 3 * 2 + 1)[1]
    assert (other != y).any(), "the check looks at x"
