"""The fixture `cuda`: a right kernel passes, and each kind of wrong one fails in words alone."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from textwrap import dedent

import pytest

pytest_plugins = "pytester"

ADD = """
__global__ void add(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i] + 1;
}
"""
TURN = """
__global__ void turn(float* a, int fenced) {
    __shared__ float t[64];
    t[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = t[63 - threadIdx.x];
}
"""
# One warp alone takes turns with nobody: in ascending order the last block wins.
LAST = """
__global__ void last(int* a) {
    if (threadIdx.x % 32 == 0) atomicExch(a, (int)threadIdx.x / 32);
}
"""


def outcome(pytester, source, call, name="k.cu"):
    """Run a test of one call of the fixture, in a folder with the source beside it."""
    pytester.path.joinpath(name).write_text(source)
    pytester.makepyfile(
        dedent(f"""
        import numpy as np
        from pathlib import Path

        def test_kernel(cuda):
            a, b = np.ones(100, np.float32), np.zeros(100, np.float32)
            i = np.zeros(1, np.int32)
            report = {call}
            print("returned", type(report).__name__, report.file)
    """)
    )
    installed = any(e.value == "nogpu.pytest_plugin" for e in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "nogpu.pytest_plugin"]
    return pytester.runpytest_inprocess("-rP", "-p", "no:cacheprovider", *plugin)


@pytest.mark.parametrize("given", ["'k.cu'", "Path('k.cu')", "Path('k.cu').read_text()"])
def test_a_right_kernel_passes_and_gives_its_report(pytester, given):
    call = f"cuda({given}, 'add', 1, 128, a, b, 100, expect={{'b': a + 1}}, both=True)"
    run = outcome(pytester, ADD, call)
    run.assert_outcomes(passed=1)
    run.stdout.fnmatch_lines(["returned Report k*.cu"])


@pytest.mark.parametrize(
    ("source", "call", "words"),
    [
        pytest.param(ADD.replace("i < n", "i <= n"), "cuda('k.cu', 'add', 1, 128, a, b, 100)",
                     ["add: 2 finding(s)", "k.cu:4: out-of-bounds: *reads a[[]100]*"], id="bound"),
        pytest.param(ADD, "cuda('k.cu', 'add', 1, 128, a, b, 100, expect={'b': a + 2})",
                     ["add: 1 finding(s)", "k.cu:4: wrong-result (100 times): b[[]0] is 2, expected 3*"], id="expect"),
        pytest.param(TURN.replace("__syncthreads();", ""), "cuda('k.cu', 'turn', 1, 64, a, 0)",
                     ["k.cu:4: race (*no barrier in between*"], id="barrier"),
        pytest.param(ADD.replace("a[i]", "aa[i]"), "cuda('k.cu', 'add', 1, 128, a, b, 100)",
                     ["k.cu(4): error: *aa*"], id="name"),
        pytest.param(ADD, "cuda('k.cu', 'add', 1, 2048, a, b, 100)",
                     ["add: block=*at most 1024*"], id="block"),
        pytest.param(ADD, "cuda('k.cu', 'add', 1, 128, a.astype(float), b, 100)",
                     ["add: *float64*"], id="float64"),
        pytest.param(ADD, "cuda('none.cu', 'add', 1, 128, a, b, 100)",
                     ["add: none.cu is no file*"], id="file"),
        pytest.param(LAST, "cuda('k.cu', 'last', 1, 256, i, expect={'i' if False else 'a': i + 7}, both=True)",
                     ["last: 1 finding(s), warps in permuted order", "k.cu:3: wrong-result*"], id="order"),
    ],
)  # fmt: skip
def test_a_wrong_one_fails_in_words(pytester, source, call, words):
    run = outcome(pytester, source, call)
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(words)
    for ours in ("pytest_plugin.py", "Traceback", "def launch", "During handling"):
        run.stdout.no_fnmatch_line(f"*{ours}*")


def test_one_order_alone_does_not_see_what_depends_on_it(pytester):
    outcome(pytester, LAST, "cuda('k.cu', 'last', 1, 256, i, expect={'a': i + 7})").assert_outcomes(
        passed=1
    )


def test_a_finding_names_the_file_that_its_line_is_of(pytester):
    pytester.path.joinpath("add.cuh").write_text(ADD.replace("i < n", "i <= n"))
    run = outcome(
        pytester, '// one\n#include "add.cuh"\n', "cuda('k.cu', 'add', 1, 128, a, b, 100)"
    )
    run.stdout.fnmatch_lines(["add.cuh:4: out-of-bounds*"])


def test_nogpu_does_without_pytest():
    code = "import sys, nogpu, nogpu.command.line; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert subprocess.run([sys.executable, "-c", f"import pytest, sys; {code}"]).returncode == 1
