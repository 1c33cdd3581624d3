"""Exercises of chapters 8 to 11: what is right in the precision shown, wrong twins, and their
hints.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from helpers.page.exercises import check
from tests.common import ROOT


def solution(number: str) -> str:
    """The kernel of an exercise's solution."""
    [page] = (ROOT / "book").glob(f"{number[:2]}_*.md")
    part = (
        page.read_text(encoding="utf-8").split(f"### Exercise {number}")[1].split("Solution", 1)[1]
    )
    return re.findall(r'(?s)mine = """(.*?)"""', part)[0]


def swapped(source: str, *swaps: tuple[str, str]) -> str:
    for old, new in swaps:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("08.1", 1.78),
        ("08.1", 16 / 9),
        ("09.1", (0.31, 0.19)),
        ("09.1", [0.3125, 0.1875]),
        ("09.1", (5 / 16, 0.188)),
        ("09.3", 256),
        ("10.1", (1024, 1000)),
        ("10.1", {1000, 1024}),
        ("10.2", 16),
        ("11.1", 3),
        ("11.2", 64),
        ("11.2", 64.0),
    ],
)
def test_a_right_answer_passes_in_the_precision_that_the_solution_prints(
    exercise: str, answer: Any
) -> None:
    assert check(exercise, answer).passed


@pytest.mark.parametrize(
    ("exercise", "answer", "hint"),
    [
        ("08.1", 1.6, "TM = 8"),
        ("08.1", 3.2, "only the reads of B"),
        ("08.1", 0.94, "half a wavefront"),
        ("08.1", 0.56, "wavefronts for each multiply-add"),
        ("08.1", 2, "leaves out B"),
        ("08.1", 7, "sixteenth"),
        ("09.1", (0.25, 0.1875), "8x8 patch"),
        ("09.1", (0.3125, 0.31), "That is the reads"),
        ("09.1", (0.3125, 1.0625), "mirror image"),
        ("09.1", (0.3125, 0.28), "not the other way round"),
        ("09.1", (0.19, 0.31), "give the reads first"),
        ("09.1", 0.31, "Give both"),
        ("09.1", (0.3125, 0.5), "half a wavefront"),
        ("09.3", 16, "one direction"),
        ("09.3", 255, "along one edge"),
        ("10.1", [1024], "4000 is 250"),
        ("10.1", [1000, 1022, 1024], "4088"),
        ("10.1", 3, "list of numbers"),
        ("10.1", ["many"], "list of numbers"),
        ("10.2", 4, "without conflicts"),
        ("10.2", 8, "four banks, here at two"),
        ("10.2", 32, "two lanes pass together"),
        ("10.2", 5, "For each phase"),
        ("11.1", 2.67, "round up"),
        ("11.1", 4, "not under way any more"),
        ("11.1", 8, "whole tiles"),
        ("11.2", 65.5, "thousands of bytes"),
        ("11.2", 65536, "in KB"),
        ("11.2", 10, "over 1024"),
    ],
)
def test_a_wrong_answer_gets_a_hint_that_is_true_of_it(
    exercise: str, answer: Any, hint: str
) -> None:
    result = check(exercise, answer)
    assert not result.passed
    assert hint.casefold() in str(result).casefold()


FROM_GLOBAL = (
    "({row} < M && k0 + k < K ? A[({row}) * K + k0 + k] : 0.0f)",
    "(k0 + k < K && {col} < N ? B[(k0 + k) * N + {col}] : 0.0f)",
)


def from_global(row: str, col: str) -> tuple[str, str]:
    a, b = FROM_GLOBAL
    return a.format(row=row), b.format(col=col)


def failed(number: str, source: str) -> str:
    """The one check that an otherwise right kernel fails."""
    result = check(number, source)
    missed = [c for c in result.checks if not c.ok]
    assert len(missed) >= 1 and any("right at" in c.what for c in result.checks if c.ok)
    return " ".join(map(str, missed))


@pytest.mark.parametrize("number", ["08.2", "09.2", "10.3", "11.3"])
def test_the_solution_passes(number: str) -> None:
    result = check(number, solution(number))
    assert result.passed, result


def test_sums_that_take_nothing_from_shared_memory_are_refused() -> None:
    a, b = from_global("row0 + i * T", "col")
    column = swapped(solution("08.2"), ("A_tile[ty + i * T][k] * b;", f"{a} * {b};"))
    assert "come from A_tile and B_tile" in failed("08.2", column)
    a, b = from_global("m0 + ty + i * T", "n0 + tx + j * T")
    patch = swapped(solution("09.2"), ("a[i] * b[j];", f"{a} * {b};"))
    assert "come from A_tile and B_tile" in failed("09.2", patch)
    a, b = from_global("row", "col")
    buffers = swapped(
        solution("11.3"), ("A_tile[buffer][ty][k] * B_tile[buffer][k][tx]", f"{a} * {b}")
    )
    assert "from shared memory" in failed("11.3", buffers)


def test_one_operand_from_global_memory_is_refused() -> None:
    _, b = from_global("", "n0 + tx + j * T")
    patch = swapped(solution("09.2"), ("a[i] * b[j];", f"a[i] * {b};"))
    assert "global loads for each multiply-add" in failed("09.2", patch)


def test_a_read_for_each_use_is_refused() -> None:
    """The compiler merges plain reads of one value; `volatile` keeps all eight."""
    source = swapped(
        solution("09.2"),
        ("__shared__ float A_tile", "__shared__ volatile float A_tile"),
        ("__shared__ float B_tile", "__shared__ volatile float B_tile"),
        ("a[i] * b[j];", "A_tile[ty + i * T][k] * B_tile[k][tx + j * T];"),
    )
    assert "use each of them twice" in failed("09.2", source)


@pytest.mark.parametrize(
    "half",
    ["for (int i = 0; i < 2; ++i) sum[i][i] += a[i] * b[i];", "sum[0][0] += a[0] * b[0]; sum[0][1] += a[0] * b[1];"],
)  # fmt: skip
def test_half_an_outer_product_is_told_what_it_leaves_out(half: str) -> None:
    whole = re.findall(
        r"for \(int i = 0; i < 2; \+\+i\)\n +for \(int j = 0; j < 2; \+\+j\) sum.*",
        solution("09.2"),
    )
    [product] = whole
    told = failed_checks("09.2", swapped(solution("09.2"), (product, half)))
    assert "2 of 4 right" in told and "each value of A goes with each value of B" in told
    # where all four are wrong, that is not what is missing
    none = failed_checks("09.2", swapped(solution("09.2"), ("a[i] * b[j];", "a[i] - b[j];")))
    assert "four sums" not in none.casefold()


def failed_checks(number: str, source: str) -> str:
    return " ".join(str(c) for c in check(number, source).checks if not c.ok)


def test_a_tile_that_breaks_a_rule_is_shown_its_counts() -> None:
    told = str(check("08.3", {"BM": 32, "BN": 128, "BK": 8, "TM": 16}))
    assert "BM * BK = 256, BK * BN = 1024, threads 256" in told and "The rule: " in told
    assert check("08.3", {"BM": 64, "BN": 64, "BK": 4, "TM": 16}).passed


def test_a_copy_by_one_thread_is_refused_though_it_moves_fours() -> None:
    source = """
extern "C" __global__ void copy(const float* x, float* y, int n)
{
    if (blockIdx.x + threadIdx.x) return;
    for (int i = 0; i < n; i += 4) {
        if (i + 3 < n) *reinterpret_cast<float4*>(y + i) = *reinterpret_cast<const float4*>(x + i);
        else for (int j = i; j < n; ++j) y[j] = x[j];
    }
}
"""
    result = check("10.3", source)
    assert [c.what for c in result.checks if not c.ok] == [
        "1024 floats take 8 requests to load and 8 to store"
    ]


@pytest.mark.parametrize(
    ("place", "barrier"),
    [("        for (int k = 0;", ""), ("        A_tile[buffer]", "__syncthreads();")],
)
def test_a_race_within_a_warp_asks_for_no_barrier_that_the_exercise_forbids(
    place: str, barrier: str
) -> None:
    """B is stored before the barrier and A after it, or both without one."""
    source = swapped(solution("11.3"), ("        __syncthreads();\n", ""))
    [b_store] = re.findall(r" {8}B_tile\[buffer\]\[ty\]\[tx\] =[^;]*;\n", source)
    source = swapped(source, (b_store, ""))
    source = swapped(source, (place, f"{b_store}        {barrier}\n{place}"))
    result = check("11.3", source)
    assert not result.passed
    assert "race" in str(result) and "Put __syncthreads()" in str(result)
    assert "syncwarp" not in str(result)


@pytest.mark.parametrize(
    ("swap", "hint"),
    [
        ("", "one belongs between the stores and the reads"),
        ("__syncthreads(); __syncthreads();", "Keep the one between"),
        ("__syncthreads(); __syncwarp();", "__syncwarp is not used"),
        ("__syncthreads_count(1);", ""),
    ],
)
def test_barriers_of_the_double_buffer(swap: str, hint: str) -> None:
    result = check("11.3", swapped(solution("11.3"), ("__syncthreads();", swap)))
    assert result.passed is (not hint)
    assert hint in str(result)
