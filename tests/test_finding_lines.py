"""A finding names its line: each barrier of each kernel of chapters 6 to 18, in turn."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers import catalog, plan
from helpers.ladder import launch
from helpers.ladder.numbers import STORAGE, operands
from nogpu import emulator
from tools.mutants import TILES

BARRIER = "__syncthreads();"
SMALL = {"mma_naive": TILES["mma_ldmatrix"], "mma_turing": TILES["mma_ldmatrix"]}
SHAPES = {
    "tiled_padded": [(48, 64, 64)],
    # each way has barriers of its own
    "wmma_tiled": [(45, 83, 75), (64, 128, 96)],
    "fp32_sliced": [(40, 71, 72), (40, 72, 72)],
}
_PLAIN = (k for k in catalog.values() if k.host == "plain" and BARRIER in k.source)
KERNELS = [k.name for k in _PLAIN if k.params != {"TILE": 8}]


def places(kernel):
    """Numbers of the lines of a kernel's file with a barrier of the block."""
    return [
        i for i, line in enumerate(kernel.source.splitlines(), 1) if BARRIER in line.split("//")[0]
    ]


def changed(kernel, line, new):
    lines = kernel.source.splitlines()
    lines[line - 1] = lines[line - 1].replace(BARRIER, new)
    return "\n".join(lines) + "\n"


def findings(kernel, source):
    """What is found in a changed kernel, on a shape of several blocks and steps."""
    tiles = {**kernel.params, **TILES.get(kernel.name, SMALL.get(kernel.name, {}))}
    tiles = {name: value for name, value in tiles.items() if name in kernel.params}
    found = []
    for M, N, K in SHAPES.get(kernel.name, [(40, 72, 72)]):
        p = plan(kernel, M, N, K, **tiles)
        A, B = operands(kernel, M, N, K, 0)
        C = np.zeros((M, N), STORAGE[kernel.out_dtype])
        report = emulator.launch(
            source, kernel.entry, p.grid, p.block, launch.emulator_arguments(p, A, B, C),
            shared_bytes=p.shared_bytes, defines=p.defines, arch=kernel.min_arch, name=kernel.file,
        )  # fmt: skip
        found += report.findings
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_a_barrier_that_some_threads_skip_is_named_by_its_own_line(name):
    kernel = catalog[name]
    lines = places(kernel)
    assert lines
    for line in lines:
        source = changed(kernel, line, f"if ((threadIdx.x + threadIdx.y) % 2 == 0) {BARRIER}")
        divergent = [f for f in findings(kernel, source) if f.kind == "divergent-barrier"]
        # Threads that skip a barrier meet the others at the next one: both lines are named. What a
        # whole warp must execute together, as a product of Tensor Cores or a shuffle, is told
        # beside it.
        whole_warp = [f for f in divergent if "come to" in f.message or "__shfl" in f.text]
        at_barriers = [f for f in divergent if f not in whole_warp]
        assert {f.line for f in at_barriers} <= set(lines), (line, at_barriers)
        assert line in {n for f in at_barriers for n in (f.line, f.other_line)}, (line, divergent)


@pytest.mark.parametrize("name", KERNELS)
def test_a_race_is_named_by_lines_that_touch_memory(name):
    kernel = catalog[name]
    text = kernel.source.splitlines()
    last = places(kernel)[-1]
    races = [f for f in findings(kernel, changed(kernel, last, ";")) if f.kind == "race"]
    assert races
    for race in races:
        if race.file and race.file != kernel.file:
            continue  # in a header of kernels/common
        assert re.search(
            r"_tile|read|write|copy|load|store|fetch|stage|smem|ring|reinterpret_cast|\[",
            text[race.line - 1],
        ), race
        assert BARRIER not in text[race.line - 1]
