"""What an exercise's checker sees beyond the shapes that everyone can read: each fault, and that it
would pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.page.exercises import KernelTask, check, check_kernel_source, kernels
from helpers.page.exercises.kernels import AWKWARD, drawn_shapes, fractions_problem
from tests.test_exercises import KERNEL, SWAPPED, TILED, TILES_16, but, kernel_faults
from tools import hostile

LIMITED = replace(TILES_16, shapes=((17, 33, 19),), max_sectors={"A": 4, "B": 4, "C": 4})
KNOWN = " || ".join(f"M == {m} && N == {n} && K == {k}" for m, n, k in AWKWARD)
UNFORESEEN = {
    "a table of shapes": but(KERNEL, ("    float sum", f"    if (!({KNOWN})) return;\n    float sum")),
    "K at most 48": but(KERNEL, ("k < K;", "k < (K < 48 ? K : 48);")),
    "whole numbers": but(KERNEL, ("float sum = 0.0f;", "int sum = 0;"), ("sum += A", "sum += (int)A")),
    "signs": but(
        KERNEL,
        ("sum += A[row * K + k] * B[k * N + col]",
         "sum += B[k * N + col] > 0 ? A[row * K + k] : B[k * N + col] < 0 ? -A[row * K + k] : 0.0f"),
    ),
    "relaxed accesses for barriers": hostile.NO_BARRIER["relaxed"].replace("lab2(", "f(").replace(
        "A[(k0 + ty) * M + a_row]", "A[a_row * K + k0 + ty]"),
}  # fmt: skip
"""Right on the public shapes in lock step, and nowhere else."""


@pytest.mark.parametrize("name", UNFORESEEN)
def test_what_is_right_only_where_everyone_looks_is_told(name, monkeypatch):
    [fault] = kernel_faults(UNFORESEEN[name])
    assert "result at M=" in fault, fault
    monkeypatch.setattr(kernels, "_unforeseen", lambda *_: [])  # the control
    assert kernel_faults(UNFORESEEN[name]) == []


@pytest.mark.parametrize("source", [KERNEL, TILED])
def test_a_sound_kernel_passes_and_says_what_it_ran_on(source):
    *_, last = check_kernel_source(source, TILES_16)
    assert last.ok and "drawn from your text, with warps in another order" in last.what
    assert check_kernel_source(source, TILES_16) == check_kernel_source(source, TILES_16)


def test_shapes_follow_from_the_text_and_keep_what_the_task_needs():
    assert drawn_shapes("a", TILES_16) == drawn_shapes("a", TILES_16) != drawn_shapes("b", TILES_16)
    line = KernelTask("f", (256,), ("cdiv(M, 256)",), shapes=((1, 1, 1), (1000, 1, 1)))
    eight = KernelTask("f", (256,), (1,), shapes=((16, 8, 24), (32, 64, 40)))
    for text in map(str, range(20)):
        assert {(n, k) for _, n, k in drawn_shapes(text, line)} == {(1, 1)}
        assert all(size % 8 == 0 for shape in drawn_shapes(text, eight) for size in shape)
    assert all(drawn_shapes(text, TILES_16)[1][2] > 47 for text in "abcdef")


def test_numbers_are_no_whole_numbers_and_sums_are_exact():
    made = fractions_problem(np.random.default_rng(1), 40, 30, 90, "float32")
    A, B = made.args[:2]
    assert (A % 1 != 0).any() and set(np.unique(B)) == set(range(-3, 4))
    assert np.array_equal((A @ B).astype(float), made.outputs[2])
    assert (fractions_problem(np.random.default_rng(1), 4, 3, 9, "int32").args[0] % 1 == 0).all()


def test_an_input_that_is_changed_is_told():
    write = "if (row == 0 && col == 0) const_cast<float*>(B)[K * N - 1] += 1.0f;"
    wrong = but(KERNEL, ("] = sum;", f"] = sum; {write}"))
    faults = kernel_faults(wrong, grid=(1, 1), shapes=((1, 1, 1),), must_be_clean=False)
    assert any("argument 2 is an input" in line and "changed at M=1" in line for line in faults)  # fmt: skip


def test_work_is_counted_in_totals_and_at_a_shape_that_is_drawn():
    """Broadcasts on the same line make an average look good, and a good path for one shape the
    count."""
    many = "A[row * K + k] + 0.0f * A[k]"
    diluted = SWAPPED.replace("A[row * K + k]", f"({many})")
    assert any("sectors of" in line for line in kernel_faults(diluted, LIMITED))
    both = (
        KERNEL.replace('extern "C" __global__ void f', "__device__ void good")
        + SWAPPED.replace('extern "C" __global__ void f', "__device__ void bad")
        + 'extern "C" __global__ void f(const float* A, const float* B, float* C, int M, int N, int'
        " K)\n{ if (M == 64 && N == 64 && K == 64) good(A, B, C, M, N, K); else bad(A, B, C, M,"
        " N, K); }\n"
    )
    checks = check_kernel_source(both, LIMITED)
    assert [c.ok for c in checks if "sectors of A" in c.what] == [True, False]


def test_a_macro_hides_no_barrier():
    """Exercise 11.3 asks for one; two stand behind a name."""
    source = TILED.replace("void f(", "void two_buffers(")
    assert source.count("__syncthreads()") == 2
    hidden = "#define WAIT __syncthreads()\n" + source.replace("__syncthreads();", "WAIT;")
    result: Any = check("11.3", hidden)
    assert "one barrier for each tile, 4 in all, when the kernel runs; got 8" in str(result)


def test_an_endless_kernel_is_run_once():
    faults = kernel_faults(but(KERNEL, ("++k", "k += 0")), max_seconds=1.0)
    assert sum("step-budget" in line for line in faults) == 1
    assert not any("31x65x47" in line or "M=31" in line for line in faults)
