"""Kernels in other people's habits run in the emulator: right, with no finding but their own."""

from __future__ import annotations

import numpy as np
import pytest
from foreign_kernels import KERNELS

CASES = [(name, shape) for name, k in KERNELS.items() for shape in k.shapes]


@pytest.mark.parametrize(("name", "shape"), CASES, ids=[f"{n}-{s}" for n, s in CASES])
def test_it_is_right_and_what_is_wrong_with_it_is_found(name, shape):
    kernel = KERNELS[name]
    report, got, want = kernel.run(*shape)
    assert {f.kind for f in report.findings} == kernel.findings, report
    if kernel.exact:
        np.testing.assert_array_equal(got, want)
    else:
        assert (got != want).any()
