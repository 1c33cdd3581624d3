"""Registers of tcgen05.ld used before tcgen05.wait::ld: told on their line, beside a sound twin."""

from __future__ import annotations

import re

import numpy as np
import pytest
from foreign_kernels import cuda

from nogpu import emulator, toolchain

SOURCE = cuda("tensor_memory/loading")


def source(body, defined=""):
    """SOURCE with a body, a statement a line."""
    return SOURCE.replace("DEFINED", defined).replace("BODY", body)


def findings(text, n=0):
    """What is found of a launch of one warp."""
    return emulator.launch(text, "k", 1, 32, [np.zeros(64, np.uint32), n], arch="sm_100a").findings


FAULTS = {
    "no wait": "LOAD(a, 0);\ny[i] = a;  // early",
    "a late wait": "LOAD(a, 0);\ny[i] = a;  // early\nWAIT;",
    "an early wait": "WAIT;\nLOAD(a, 0);\ny[i] = a + 1;  // early",
    "the other load": "LOAD(a, 0);\nWAIT;\nLOAD(b, 1);\ny[i] = a;\ny[i + 32] = b;  // early",
    "the next round": "for (int c = 0; c < 3; ++c) {\nif (c) WAIT;\nLOAD(a, c);\n"
    "y[i] = a;  // early\n}",
    "in shared memory": "LOAD(a, 0);\nt[i] = a;  // early\nWAIT;\ny[i] = t[i];",
    "an address": "LOAD(a, 0);\ny[a % 32] = i;  // early",
    "a branch": "LOAD(a, 0);\nif (a > 5)  // early\ny[i] = 1;",
    "stored in tensor memory": "LOAD(a, 0);\n"
    'asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};"\n'
    ':: "r"(mine + 1), "r"(a));  // early\n'
    'asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");',
    "moved, then used": "LOAD(a, 0);\n"
    'asm volatile("{.reg .b64 d; mov.b64 d, {%1, %1}; mov.b64 {%0, _}, d;}" : "=r"(b) : "r"(a));\n'
    "y[i] = b;  // early",
    "perhaps another value": "LOAD(a, 0);\n"
    'asm volatile("{.reg .pred p; setp.gt.s32 p, %1, 3; @p mov.u32 %0, 7;}" : "+r"(a) : "r"(n));\n'
    "y[i] = a;  // early",
}


@pytest.mark.parametrize("body", FAULTS.values(), ids=FAULTS)
def test_what_is_used_too_early_is_told_on_its_line(body):
    text = source(body)
    (found,) = {(f.kind, f.line) for f in findings(text)}
    early = next(i for i, line in enumerate(text.splitlines(), 1) if "// early" in line)
    assert found == ("race", early)
    timely = re.sub(r"(LOAD\(\w, \w\);)", r"\1 WAIT;", body)
    assert not findings(source(timely))


STORED = 'asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");'


def test_who_reads_or_frees_what_is_still_being_stored_is_told():
    text = source("LOAD(a, 0);\nWAIT;\ny[i] = a;")
    assert not findings(text)
    found = findings(text.replace(STORED, ""))
    assert {f.kind for f in found} == {"race"}
    assert ["LOAD(" in f.text or "dealloc" in f.text for f in found] == [True, True]


GUARDED = (
    'asm volatile("{.reg .pred p; setp.gt.s32 p, %0, 3; @p tcgen05.wait::ld.sync.aligned;}" '
    ':: "r"(n));'
)


@pytest.mark.parametrize("wait", ["if (n > 3) WAIT;", GUARDED])
def test_a_wait_in_one_branch_counts_where_that_branch_is_taken(wait):
    text = source(f"LOAD(a, 0);\n{wait}\ny[i] = a;  // early")
    assert not findings(text, n=5)
    (found,) = findings(text, n=0)
    assert "// early" in found.text and found.count == 32


def test_what_is_used_in_the_next_round_counts_from_the_second_one_on():
    loop = "#pragma unroll 1\nfor (int c = 0; c < 3; ++c) {\nif (i > 15) y[i] = a;\nLOAD(a, c);\n}"
    (found,) = findings(source(loop))
    assert found.count == 2 * 16
    assert not findings(source(loop.replace("c);", "c); WAIT;")))


def test_only_lanes_that_use_it_are_told():
    (found,) = findings(source("LOAD(a, 0);\nif (i > 27) y[i] = a;"))
    assert found.count == 4 and found.threads[0] == (28, 0, 0)


QUIET = {
    "a move": "LOAD(a, 0);\n"
    'asm volatile("{.reg .b64 d; mov.b64 d, {%1, %1}; mov.b64 {%0, _}, d;}" : "=r"(b) : "r"(a));\n'
    "WAIT;\ny[i] = b;",
    "two of one condition": "if (n > 3) LOAD(a, 0);\nif (n > 3) WAIT;\ny[i] = a;",
    "another value": "LOAD(a, 0);\na = n;\ny[i] = a;\nWAIT;",
    "in local memory": "unsigned r[2];\nLOAD(r[0], 0);\nLOAD(r[1], 1);\nWAIT;\ny[i] = r[n & 1];",
    "never used": "LOAD(a, 0);\ny[i] = n;",
}


@pytest.mark.parametrize("n", [0, 5])
@pytest.mark.parametrize("body", QUIET.values(), ids=QUIET)
def test_what_is_no_use_is_quiet(body, n):
    assert not findings(source(body), n)


CALLED = """__device__ __noinline__ void wait() { WAIT; }
__device__ __noinline__ unsigned later(unsigned r) { WAIT; return r + 1; }"""
GIVEN = "__device__ void load(unsigned& r, unsigned mine) { LOAD(r, 0); }"


@pytest.mark.parametrize("rest", ["wait();\ny[i] = a;", "y[i] = later(a);"])
def test_a_function_may_wait(rest):
    assert not findings(source(f"LOAD(a, 0);\n{rest}", CALLED))


@pytest.mark.parametrize("wait", ["WAIT;", ""])
def test_what_is_compiled_without_optimising_is_quiet(wait):
    """There every value goes through local memory, which is not followed."""
    text = source(f"load(a, mine);\n{wait}\ny[i] = a;", GIVEN)
    plain = toolchain.compile(text, arch="sm_100a", options=["--device-debug"]).ptx
    assert not findings(plain)
    assert bool(findings(text)) == (not wait)
