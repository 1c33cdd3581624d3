"""PTX in place of C++, as another compiler writes it: run, counted by the lines that it names."""

from __future__ import annotations

import numpy as np
import pytest

import nogpu
from nogpu.errors import EmulationError, UnknownNameError
from nogpu.text import is_ptx

SOURCE = """
extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""


def ptx():
    return nogpu.compile(SOURCE, arch="sm_80").ptx


def run(source, n=100):
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    report = nogpu.launch(source, "twice", 2, 64, [x, y, n], arch="sm_80")
    return y, report


def test_ptx_runs_as_its_source_does():
    (y, given), (want, own) = run(ptx()), run(SOURCE)
    assert (y == want).all() and not given.findings
    counts = [(r.line, r.op, r.requests, r.sectors) for r in given.by_line()]
    assert counts == [(r.line, r.op, r.requests, r.sectors) for r in own.by_line()]
    assert given.compiler == "" and {r.text for r in given.by_line()} == {""}
    assert "compiled by" not in str(given)


def test_a_fault_of_ptx_is_found_on_the_line_that_it_names():
    findings = run(ptx(), n=128)[1].findings
    assert len(findings) == 2
    assert {(f.kind, f.line, f.text) for f in findings} == {("out-of-bounds", 4, "")}


def test_ptx_that_lacks_the_kernel_or_is_none():
    with pytest.raises(UnknownNameError, match="no kernel 'thrice'"):
        nogpu.launch(ptx(), "thrice", 1, 32, [], arch="sm_80")
    with pytest.raises(EmulationError):
        run(ptx().replace("mul.f32", "mul.f31").replace("add.f32", "add.f31"))


@pytest.mark.parametrize(
    ("source", "is_one"),
    [
        (".version 8.0\n", True),
        ("//\n// made by\n/* x\n */ .version 8.0\n", True),
        ("// .version 8.0\nint x;", False),
        ('extern "C" __global__ void f() {}', False),
        ("// nothing", False),
        ("", False),
        ("/" * 100_000, False),
    ],
)
def test_what_is_ptx(source, is_one):
    assert is_ptx(source) == is_one
