"""The oracle of results: which elements came out wrong, which line and which thread wrote them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.ladder import launch
from helpers.ladder.rungs import catalog
from nogpu import emulator
from nogpu.errors import ConfigError, EmulationError, UnknownNameError
from tests.common import twin

ADD = """
__device__ float shift[2];
extern "C" __global__ void add(const float* A, float* C, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] = A[i];
    __syncthreads();
    if (i < n && i % 8 == 3) C[i] += 1.0f;
    if (i == 0) shift[1] = 5.0f;
}
"""


def line_of(source, text):
    return source[: source.index(text)].count("\n") + 1


def run(expect, source=ADD, n=70, **options):
    A = np.arange(80, dtype=np.float32)
    C = np.full(80, -1, np.float32)
    report = emulator.launch(source, "add", 3, 32, [A, C, n], expect=expect, **options)
    return A, C, report


def right(n=70):
    want = np.arange(80, dtype=np.float64)
    want[3::8] += 1
    want[n:] = -1
    return want


def wrong(report):
    return [f for f in report.findings if f.kind == "wrong-result"]


def test_what_is_right_is_no_finding_and_what_is_one_off_is():
    assert run({"C": right()})[2].ok
    assert run(None)[2].ok
    off = right()
    off[40] += 1
    (finding,) = run({"C": off})[2].findings
    assert (finding.kind, finding.count, finding.index) == ("wrong-result", 1, "C[40]")
    assert "C[40] is 40, expected 41" in finding.message
    assert (finding.block, finding.threads) == ((1, 0, 0), ((8, 0, 0),))


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("lanes", [1, 1 << 16])
def test_the_last_writer_is_named_by_line_thread_and_block(schedule, lanes):
    _, C, report = run({"C": right() + 1}, schedule=schedule, lanes=lanes)
    found = {f.line: f for f in wrong(report)}
    first, last = line_of(ADD, "C[i] = A[i]"), line_of(ADD, "C[i] +=")
    nobody = line_of(ADD, "__global__")
    assert {line: f.count for line, f in found.items()} == {first: 61, last: 9, nobody: 10}
    assert found[last].index == "C[3]" and "thread (3, 0, 0) of block (0, 0, 0)" in str(found[last])
    assert found[last].text.strip().endswith("C[i] += 1.0f;")
    assert found[nobody].index == "C[70]" and "no thread wrote it" in found[nobody].message
    assert found[nobody].block is None
    assert "C[4] is" not in found[last].message and "C[11] is 12" in found[last].message
    np.testing.assert_array_equal(C, right())  # the second run leaves the first one's results


def test_an_array_that_the_kernel_reads_and_writes_has_its_first_contents_the_second_time():
    source = 'extern "C" __global__ void twice(int* X) { X[threadIdx.x] = 2 * X[threadIdx.x] + 1; }'
    X = np.arange(40, dtype=np.int32)
    report = emulator.launch(source, "twice", 1, 40, [X], expect={"X": 2 * np.arange(40)})
    np.testing.assert_array_equal(X, 2 * np.arange(40) + 1)
    (finding,) = wrong(report)
    assert finding.count == 40 and "X[0] is 1, expected 0" in finding.message


def test_rows_and_columns_are_those_of_the_array_or_of_the_expectation():
    source = 'extern "C" __global__ void set(float* C) { C[threadIdx.x] = threadIdx.x; }'
    for C, flat in (((4, 6), (4, 6)), (24, (4, 6)), ((4, 6), 24)):
        C, want = np.zeros(C, np.float32), np.arange(24.0).reshape(4, 6)
        want[1:3, 4] = 0
        want = want.reshape(flat)
        report = emulator.launch(source, "set", 1, 24, [C], expect={"C": want})
        (finding,) = wrong(report)
        assert finding.index == "C[1, 4]" and "rows 1 to 2, columns 4 to 4" in finding.message


def test_the_bound_is_one_number_or_one_for_each_element_or_follows_from_the_type():
    near = right() + np.where(np.arange(80) == 9, 0.25, 0)
    assert run({"C": (near, 0.3)})[2].ok
    assert not run({"C": (near, 0.2)})[2].ok
    assert run({"C": (near, np.where(np.arange(80) == 9, 0.3, 0))})[2].ok
    assert not run({"C": (near, np.where(np.arange(80) == 8, 0.3, 0))})[2].ok
    scale = np.sqrt(np.finfo(np.float32).eps) * right().max()
    assert run({"C": right() + 0.9 * scale})[2].ok
    assert not run({"C": right() + 1.1 * scale})[2].ok


@pytest.mark.parametrize(
    ("kind", "dtype", "value", "want", "bound"),
    [
        ("half", "f2", "threadIdx.x / 3.0f", np.arange(64) / 3, ()),
        ("__nv_bfloat16", "u2", "threadIdx.x / 3.0f", np.arange(64) / 3, ()),
        ("long long", "i8", "(1LL << 60) + threadIdx.x", 2**60 + np.arange(64), ()),
        ("float", "f4", 'nanf("")', np.full(64, np.nan), (np.inf,)),  # equals NaN only
    ],
)
def test_values_are_compared_as_numbers_of_their_type(kind, dtype, value, want, bound):
    source = f"""
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void k({kind}* C) {{ C[threadIdx.x] = ({kind})({value}); }}
    """
    off = want.copy()
    off[60] = 0 if bound else want[61] if dtype == "i8" else 25
    for expected, count in ((want, 0), (off, 1)):
        expect = {"C": (expected, *bound) if bound else expected}
        report = emulator.launch(
            source, "k", 1, 64, [np.zeros(64, dtype)], arch="sm_80", expect=expect
        )
        assert [(f.count, f.index) for f in report.findings] == [(1, "C[60]")] * count
    assert dtype not in ("f2", "u2") or "C[60] is 20, expected 25" in str(report)


def test_atomics_and_vector_stores_are_writers_too():
    source = """
    extern "C" __global__ void mix(float* C, int* D, unsigned* E, int* F)
    {
        reinterpret_cast<float4*>(C)[threadIdx.x] = make_float4(1, 2, 3, 4);
        atomicAdd(&D[threadIdx.x / 8], 1);
        atomicCAS(E, threadIdx.x, threadIdx.x + 1);
        atomicCAS(E + 1, 7u, 9u);
        reinterpret_cast<char*>(F)[8 * threadIdx.x + 5] = 1;
    }
    """
    C, D, E = np.zeros(128, np.float32), np.zeros(5, np.int32), np.zeros(2, np.uint32)
    expect = {"C": np.zeros(128), "D": np.full(5, 7), "E": np.array([1, 1]), "F": np.zeros(64)}
    report = emulator.launch(source, "mix", 1, 32, [C, D, E, np.zeros(64, "i4")], expect=expect)
    found = {(f.array, f.line): f for f in wrong(report)}
    nobody = line_of(source, "__global__")
    assert found["C", line_of(source, "float4*")].count == 128
    assert found["D", line_of(source, "atomicAdd")].count == 4
    assert found["D", line_of(source, "atomicAdd")].threads == ((7, 0, 0),)
    assert found["D", nobody].index == "D[4]"
    assert (found["F", line_of(source, "char*")].count, len(found)) == (32, 6)
    assert found["E", line_of(source, "atomicCAS")].threads == ((31, 0, 0),)
    assert found["E", nobody].index == "E[1]"  # a compare-and-swap that fails writes nothing


def test_module_variables_are_expected_by_name():
    shift = np.zeros(2, np.float32)
    report = run({"shift": np.array([0.0, 6.0])}, symbols={"shift": shift})[2]
    (finding,) = wrong(report)
    assert finding.index == "shift[1]" and finding.line == line_of(ADD, "shift[1]")
    np.testing.assert_array_equal(shift, [0, 5])


@pytest.mark.parametrize(
    ("expect", "options", "error", "says"),
    [
        ({"D": np.zeros(80)}, {}, UnknownNameError, "no array 'D'"),
        ({"C": np.zeros(79)}, {}, EmulationError, "79 elements"),
        ({"C": (np.zeros(80), np.zeros(3))}, {}, EmulationError, "bound has shape"),
        ({"C": np.zeros(80)}, {"sample_blocks": 1}, ConfigError, "whole grid"),
    ],
)
def test_an_expectation_that_fits_nothing_is_refused(expect, options, error, says):
    with pytest.raises(error, match=says):
        run(expect, **options)


def test_a_launch_that_was_stopped_is_not_judged():
    source = 'extern "C" __global__ void hang(int* C) { while (true) C[0] = threadIdx.x; }'
    report = emulator.launch(
        source, "hang", 1, 32, [np.zeros(1, np.int32)], expect={"C": [9]}, max_steps=2000
    )
    assert {f.kind for f in report.findings} >= {"step-budget"}
    assert not wrong(report) and "not compared" in str(report)


# -- kernels of the catalog, and twins whose arithmetic alone is wrong -----------------------------

TWINS = [
    ("tiled_16", "k0 < K; k0 += TILE)", "k0 + TILE <= K; k0 += TILE)", "] = sum;"),
    ("tiled_16", "A_tile[ty][k]", "A_tile[k][ty]", "] = sum;"),
    ("tiled_int_32", "T sum = 0;", "T sum = 1;", "] = sum;"),
    ("tiled_16", "blockIdx.y * TILE", "blockIdx.x * TILE", "tiled("),
]


@pytest.mark.parametrize(("name", "text", "instead", "blamed"), TWINS)
def test_a_trace_names_the_line_of_what_only_the_result_shows(name, text, instead, blamed):
    kernel = catalog[name]
    assert blamed in kernel.source and launch.trace(name, 33, 37, 35).ok
    trace = launch.trace(twin(name, (text, instead)), 33, 37, 35)
    (found,) = wrong(trace.report)
    assert found.count == trace.wrong > 0
    assert blamed in found.text
    row, column = map(int, re.findall(r"\d+", found.index))
    tile = kernel.params["TILE"]
    if blamed == "tiled(":
        assert found.block is None and row // tile != column // tile  # nobody's tile
    else:
        assert found.block == (column // tile, row // tile, 0)
        assert found.threads == ((column % tile, row % tile, 0),)
