"""Calls through pointers, virtual functions, malloc, and what a launch beside others would do."""

from __future__ import annotations

import numpy as np
import pytest
from foreign_kernels import cuda

from nogpu import emulator
from nogpu.errors import EmulationError

X = np.arange(256, dtype=np.float32) - 100

SOURCE = cuda("calls")


def run(entry, n, **options):
    """Report and y of a kernel of SOURCE for 256 threads."""
    y = np.full(256, np.nan, np.float32)
    return emulator.launch(SOURCE, entry, 1, 256, [X, y, n], **options), y


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_functions_by_pointer(schedule):
    report, y = run("by_table", 3, schedule=schedule)
    assert report.ok, report
    which = np.arange(256) % 3
    np.testing.assert_array_equal(y, np.select([which == 0, which == 1], [X + 3, X * 3], 0 * X + 3))
    for n, want in ((3, X + 3), (2, X * 3)):
        report, y = run("chosen", n)
        assert report.ok, report
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("words", [1, 4, 16])
def test_all_that_a_pointer_to_no_function_gives_back_is_zero(words):
    source = f"""
    struct Many {{ int a[{words}]; }};
    typedef Many (*Op)(int);
    __device__ Op unset[1];
    extern "C" __global__ void k(int* y) {{
        Many many = unset[0](1);
        for (int i = 0; i < {words}; ++i) y[threadIdx.x] += many.a[i] + 1;
    }}"""
    y = np.zeros(32, np.int32)
    (finding,) = emulator.launch(source, "k", 1, 32, [y]).findings
    assert (finding.kind, finding.count) == ("out-of-bounds", 32) and (y == words).all()


def test_virtual_functions():
    report, y = run("by_object", 3)
    assert report.ok, report
    which = np.arange(256) % 3
    np.testing.assert_array_equal(y, np.select([which == 0, which == 1], [X * X, 2 * X - 7], X))


def test_each_thread_may_ask_for_memory():
    report, y = run("own_blocks", 4)
    assert report.ok, report
    np.testing.assert_array_equal(y, 2 * X + 3)


@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        (0, None, ""),
        (1, "uninitialised", "heap"),
        (2, "race", "heap"),
        (3, "out-of-bounds", "it was freed"),
        (4, "out-of-bounds", "Free each block once"),
        (5, "out-of-bounds", "Free each block once"),
    ],
)
def test_memory_for_all_threads_of_a_block(fault, kind, says):
    report, y = run("one_block", fault)
    if kind is None:
        assert report.ok, report
        np.testing.assert_array_equal(y, X[np.arange(256) ^ 37])
    else:
        assert {f.kind for f in report.findings} == {kind}, report
        assert says in report.findings[0].message


def test_the_heap_is_as_large_as_cudas():
    report, y = run("too_much", 4 << 20)
    assert report.ok and y.sum() == 1  # one such block fits, beside its gap
    report, y = run("too_much", 16)
    assert report.ok and y.all()
    report, y = run("again_and_again", 40)  # 2.6 MB in all, but what is freed is used again
    assert report.ok, report
    np.testing.assert_array_equal(y, 40 * X)


def test_a_call_that_does_not_fit_its_function():
    source = """
    __device__ __noinline__ float one(float a) { return a + 1; }
    __device__ float (*table[1])(float) = {one};
    extern "C" __global__ void k(float* y, int n) {
        y[0] = ((float (*)(float, float))table[n])(1.f, 2.f);
    }"""
    with pytest.raises(EmulationError, match=r"line 5.*2 arguments and takes 1"):
        emulator.launch(source, "k", 1, 1, [np.zeros(1, np.float32), 0])


def test_assertions_are_findings():
    source = 'extern "C" __global__ void k(int n) { assert((int)threadIdx.x < n); }'
    assert emulator.launch(source, "k", 1, 64, [64]).ok
    (finding,) = emulator.launch(source, "k", 1, 64, [60]).findings
    assert (finding.kind, finding.count) == ("assert", 4)
    assert "threadIdx.x < n" in finding.message


# -- barriers in functions that are not inlined --------------------------------------------------

SUM = cuda("barrier_in_a_function")
MEET = """
__device__ __noinline__ void meet(int* out, int n)
{
    if (threadIdx.x < INSIDE) __syncthreads();
    out[threadIdx.x] = n;
}
extern "C" __global__ void k(int* out)
{
    if (threadIdx.x >= FIRST) return;
    if (threadIdx.x < CALL) meet(out, 1);
    OTHERWISE
}
"""


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_barriers_in_a_function_hold_the_whole_block(schedule):
    out = np.zeros(64, np.int32)
    report = emulator.launch(SUM, "k", 1, 64, [out], schedule=schedule)
    assert report.ok and (out == 64 * 63 // 2 + 64).all(), report
    twin = SUM.replace("        __syncthreads();\n    }", "    }")
    report = emulator.launch(twin, "k", 1, 64, [out], schedule=schedule)
    assert {f.kind for f in report.findings} == {"race"}


def test_a_function_with_a_barrier_may_call_itself():
    source = """
    __device__ __noinline__ int f(int* s, int t, int depth)
    {
        s[t] += 1;
        __syncthreads();
        int other = s[t ^ 33];
        __syncthreads();
        return depth ? f(s, t, depth - 1) + other : other;
    }
    extern "C" __global__ void k(int* out)
    {
        __shared__ int s[64];
        int t = threadIdx.x;
        s[t] = t;
        out[t] = f(s, t, 3);
    }
    """
    out, t = np.zeros(64, np.int32), np.arange(64)
    for schedule in ("ascending", "permuted"):
        assert emulator.launch(source, "k", 1, 64, [out], schedule=schedule).ok
        np.testing.assert_array_equal(out, 4 * (t ^ 33) + 10)


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize(
    ("changes", "line", "words"),
    [
        ({}, 0, ""),
        ({"CALL": 40}, 4, "24 of 64 threads of block (0, 0, 0) never reach this barrier"),
        ({"INSIDE": 40}, 4, "24 of 64 threads of block (0, 0, 0) never reach this barrier"),
        ({"FIRST": 40}, 4, "24 of 64 threads of block (0, 0, 0) never reach this barrier"),
        ({"CALL": 32, "OTHERWISE": "else __syncthreads();"}, 11, "meet here and at line 4"),
        ({"CALL": 32, "OTHERWISE": "__syncthreads();"}, 11, "meet here and at line 4"),
    ],
)
def test_threads_that_do_not_come_to_a_barrier_in_a_function(schedule, changes, line, words):
    defines = {"INSIDE": 64, "FIRST": 64, "CALL": 64, "OTHERWISE": "", **changes}
    out = np.zeros(64, np.int32)
    report = emulator.launch(MEET, "k", 1, 64, [out], defines=defines, schedule=schedule)
    found = [(f.kind, f.line) for f in report.findings]
    assert found[:1] == ([("divergent-barrier", line)] if line else []), report
    assert words in str(report)
    came = np.arange(64) < min(defines["FIRST"], defines["CALL"])
    assert (out == came).all()


@pytest.mark.parametrize("how", ["__noinline__", "__forceinline__"])
def test_lanes_that_do_not_come_to_a_shuffle_in_a_function(how):
    source = f"""
    __device__ {how} int swap(int t) {{ return __shfl_sync(0xffffffff, t, 31 - t % 32); }}
    extern "C" __global__ void k(int* out)
    {{
        int t = threadIdx.x, got = 7;
        if (t % 32 < LANES) got = swap(t);
        out[t] = got;
    }}"""
    out = np.zeros(64, np.int32)
    assert emulator.launch(source, "k", 1, 64, [out], defines={"LANES": 32}).ok
    (found,) = emulator.launch(source, "k", 1, 64, [out], defines={"LANES": 30}).findings
    assert (found.kind, found.line) == ("divergent-barrier", 2)
    assert "names lanes that are not here (30, 31)" in found.message


def test_who_calls_nothing_gets_nothing_of_the_call_before():
    source = """
    typedef int (*Op)(int);
    __device__ __noinline__ int more(int t) { return t + 100; }
    __device__ Op table[2];
    extern "C" __global__ void k(int* out, int bad) {
        int t = threadIdx.x;
        if (t == 0) table[0] = more;
        __syncthreads();
        int total = 0;
        for (int i = 0; i < 2; ++i) total = total * 1000 + table[i == 1 && t >= bad](t);
        out[t] = total;
    }"""
    out, t = np.zeros(64, np.int32), np.arange(64)
    assert emulator.launch(source, "k", 1, 64, [out, 64]).ok
    np.testing.assert_array_equal(out, (t + 100) * 1001)
    (found,) = emulator.launch(source, "k", 1, 64, [out, 60]).findings
    assert (found.kind, found.count) == ("out-of-bounds", 4)
    assert "0x0, which is no device function" in found.message
    np.testing.assert_array_equal(out, (t + 100) * 1000 + np.where(t < 60, t + 100, 0))


def test_a_packed_structure_is_given_and_given_back():
    """NVRTC stores its members whole, and loads them byte by byte."""
    source = """
    struct __attribute__((packed)) Odd { char a; int b; short c; double d; };
    __device__ __noinline__ Odd make(int t) {
        Odd o; o.a = t + 1; o.b = 100000 * t; o.c = -t; o.d = t / 4.0;
        return o;
    }
    __device__ __noinline__ double sum(Odd o) { return o.a + o.b + o.c + o.d; }
    extern "C" __global__ void k(double* out) {
        Odd o = make(threadIdx.x);
        out[2 * threadIdx.x] = sum(o);
        out[2 * threadIdx.x + 1] = o.d;
    }"""
    out, t = np.zeros((64, 2)), np.arange(64)
    assert emulator.launch(source, "k", 1, 64, [out]).ok
    np.testing.assert_array_equal(out.T, [t + 1 + 100000 * t - t + t / 4, t / 4])


def test_what_is_given_out_again_holds_nothing_and_orders_what_was_before():
    source = """
    __global__ void k(int* out)
    {
        int* p = (int*)malloc(64);
        p[3] = 7;
        p[out[0]] = out[0];
        out[1] = p[3];
        free(p);
        int* q = (int*)malloc(64);
        FIRST
        out[2] = q[3];
        free(q);
    }"""
    for first, found in (("q[3] = 2;", []), ("q[2] = 2;", ["uninitialised"])):
        text = source.replace("FIRST", first)
        report = emulator.launch(text, "k", 1, 1, [np.zeros(3, np.int32)])
        assert [f.kind for f in report.findings] == found, report
