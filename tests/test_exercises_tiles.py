"""Exercises of chapters 05 to 07: right answers pass, each likely mistake gets a hint true of it,
and no kernel exercise is passed without doing what it asks.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from helpers.page.exercises import check
from tests.common import ROOT

PAGES = {"05": "05_coalescing", "06": "06_tiling", "07": "07_latency"}


def solution(exercise: str) -> str:
    """The kernel of an exercise's solution."""
    text = (ROOT / "book" / f"{PAGES[exercise[:2]]}.md").read_text(encoding="utf-8")
    part = text.split(f"### Exercise {exercise}")[1].split("Solution", 1)[1]
    return re.findall(r'(?s)mine = """(.*?)"""', part)[0]


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("05.1", 12),
        ("05.1", 12.0),
        ("05.3", 25),
        ("05.3", 25.0),
        ("06.1", 6.4),
        ("06.1", 6.36),  # in another precision: within 1 %
        ("06.3", 64),
        ("07.1", 4),
        ("07.2", 3),
    ],
)
def test_right_answers_pass(exercise: str, answer: Any) -> None:
    assert check(exercise, answer).passed


@pytest.mark.parametrize(
    ("exercise", "answer", "hint"),
    [
        ("05.1", 4, "side by side"),
        ("05.1", 11, "last float"),
        ("05.1", 13, "x starts at a sector boundary"),
        ("05.1", 24, "eight floats, not four"),
        ("05.1", 32, "neighbours share sectors"),
        ("05.1", 94, "first to the last"),
        ("05.1", 7, "lane 31"),
        ("05.3", 12.5, "a double has 8 bytes"),
        ("05.3", 0.25, "percentage"),
        ("05.3", 6.25, "line of 128 bytes"),
        ("05.3", 100, "1000 doubles apart"),
        ("05.3", 33, "fetched for one lane"),
        ("06.1", 3.2, "two operations"),
        ("06.1", 12.8, "four bytes"),
        ("06.1", 16, "square tile"),
        ("06.1", 1, "one step along K"),
        ("06.3", 128, "128 KB"),
        ("06.3", 78, "power of two"),
        ("06.3", 16, "larger power of two"),
        ("06.3", 50, "Two tiles"),
        ("07.1", 32, "32 words a row"),
        ("07.1", 36, "width of a row"),
        ("07.1", 5, "busiest bank"),
        ("07.2", 3.2, "round down"),
        ("07.2", 6, "by registers"),
        ("07.2", 4, "80 KB"),
        ("07.2", 12, "warps"),
        ("07.2", 7, "the least counts"),
    ],
)
def test_a_wrong_number_gets_a_hint_that_is_true_of_it(
    exercise: str, answer: Any, hint: str
) -> None:
    result = check(exercise, answer)
    assert not result.passed
    assert hint in repr(result)


@pytest.mark.parametrize("exercise", ["05.2", "06.2", "07.3"])
def test_the_kernels_of_the_solutions_pass(exercise: str) -> None:
    assert check(exercise, solution(exercise)).passed


ONE_THREAD = """
extern "C" __global__ void fixed_grid(const float* A, const float* B, float* C, int M, int N, int K)
{
    if (threadIdx.x || threadIdx.y) return;
    for (int row = blockIdx.x * 32; row < M && row < blockIdx.x * 32 + 32; ++row)
        for (int col = blockIdx.y * 8; col < N && col < blockIdx.y * 8 + 8; ++col) {
            float sum = 0.0f;
            for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
            C[row * N + col] = sum;
        }
}
"""


def test_05_2_is_not_passed_by_one_thread() -> None:
    result = check("05.2", ONE_THREAD)
    assert not result.passed
    assert result.checks[0].ok  # right, and few sectors a request, which totals see through
    assert "ask together" in repr(result)


def test_05_2_takes_a_kernel_that_keeps_a_tile_in_shared_memory() -> None:
    source = solution("05.2").replace(
        "float sum = 0.0f;", "__shared__ float kept[256];\n    float sum = 0.0f;"
    )
    source = source.replace(
        "C[row * N + col] = sum;", "kept[t] = sum;\n    C[row * N + col] = kept[t];"
    )
    assert check("05.2", source).passed


WITHOUT_TILES = """
extern "C" __global__ void repaired(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    A_tile[threadIdx.y][threadIdx.x] = 0.0f;
    __syncthreads();
    if (row >= M || col >= N) return;
    float sum = A_tile[threadIdx.y][0];
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
"""


def test_06_2_is_not_passed_without_the_tiles() -> None:
    result = check("06.2", WITHOUT_TILES)
    assert not result.passed
    assert all(c.ok for c in result.checks[:2])  # it is right on every shape, and clean
    assert "read the operands of the product from there" in repr(result)


def test_06_2_is_not_passed_with_one_operand_from_global_memory() -> None:
    half = solution("06.2").replace(
        "sum += A_tile[ty][k] * B_tile[k][tx]",
        "if (row < M && k0 + k < K) sum += A[row * K + k0 + k] * B_tile[k][tx]",
    )
    assert not check("06.2", half).passed


@pytest.mark.parametrize(
    ("fault", "repair", "told"),
    [
        ("float sum", "if (row >= M || col >= N) return;\n    float sum", "divergent-barrier"),
        ("row < M && k0", "ty < M && k0", "Guard the access"),
        ("col < N && k0", "tx < N && k0", "Guard the access"),
        ("\n        __syncthreads();\n    }", "\n    }", "__syncthreads"),
    ],
)
def test_06_2_tells_each_of_its_faults(fault: str, repair: str, told: str) -> None:
    source = solution("06.2")
    assert source.count(fault) == 1
    result = check("06.2", source.replace(fault, repair))
    assert not result.passed
    assert told in repr(result)


STORE = "if (yr < cols && yc < rows) y[yr * rows + yc]"


@pytest.mark.parametrize(
    ("written", "instead", "hint"),
    [
        # the blocks stay in their places
        (
            "int yr = blockIdx.x * 32 + threadIdx.y, yc = blockIdx.y * 32 + threadIdx.x;",
            "int yr = blockIdx.y * 32 + threadIdx.y, yc = blockIdx.x * 32 + threadIdx.x;",
            "Swap blockIdx.x and blockIdx.y",
        ),
        # the bounds of x for the store to y
        (STORE, STORE.replace("yr < cols && yc < rows", "yr < rows && yc < cols"), "bounds of y"),
        (STORE, "if (r < rows && c < cols) y[yr * rows + yc]", "bounds of y"),
        # the tile is not turned
        ("tile[threadIdx.x][threadIdx.y];", "tile[threadIdx.y][threadIdx.x];", "belongs in row c"),
        # the padding is missing
        ("tile[32][33]", "tile[32][32]", "give its rows a word more"),
    ],
)
def test_07_3_gives_each_fault_its_hint(written: str, instead: str, hint: str) -> None:
    source = solution("07.3")
    assert source.count(written) == 1
    result = check("07.3", source.replace(written, instead))
    assert not result.passed
    assert hint in repr(result)
    others = {"Swap blockIdx.x", "bounds of y", "belongs in row c", "a word more"}
    assert not any(o in repr(result) for o in others if o not in hint and hint not in o)


BY_ONE_THREAD = """
extern "C" __global__ void transpose(const float* x, float* y, int rows, int cols)
{
    if (threadIdx.x || threadIdx.y) return;
    for (int r = blockIdx.y * 32; r < rows && r < blockIdx.y * 32 + 32; ++r)
        for (int c = blockIdx.x * 32; c < cols && c < blockIdx.x * 32 + 32; ++c)
            y[c * rows + r] = x[r * cols + c];
}
"""


def test_07_3_is_not_passed_by_one_thread() -> None:
    result = check("07.3", BY_ONE_THREAD)
    assert not result.passed
    assert all(c.ok for c in result.checks[:-1])
    assert "ask together" in repr(result)
