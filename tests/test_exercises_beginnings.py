"""Likely mistakes in the exercises of the first chapters, and the hint that each deserves."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.page.exercises import check

REVERSE = 'extern "C" __global__ void reverse(const float* x, float* y, int n) {{ {} }}'
NUMBER = "int i = blockIdx.x * blockDim.x + threadIdx.x;"


@pytest.mark.parametrize(
    ("exercise", "answer", "hint"),
    [
        ("01.1", 32, "does not cross the end of its block"),
        ("01.1", 30, "last threads of a block need a warp"),
        ("01.1", 1000, "load together"),
        ("01.4", REVERSE.format(f"{NUMBER} y[i] = x[n - 1 - i];"), "out-of-bounds"),
        ("01.4", REVERSE.format(f"{NUMBER} if (i < n) y[i] = x[n - i];"), "differ"),
        ("01.4", REVERSE.format("int i = threadIdx.x; if (i < n) y[i] = x[n - 1 - i];"), "differ"),
        ("03.3", lambda n: len({4 * n * r // 64 for r in range(n)}), "modulo"),
        ("03.3", lambda n: len({n * r // 64 % 64 for r in range(n)}), "a float has 4"),
        ("03.3", lambda n: 1, "not yet"),
        ("04.3", 2 * 4096**2 / (40 * 64 * 2 * 1590e6) * 1e3, "other one is higher"),
        ("04.3", (4096**2 + 2 * 4096) * 4 / 320e9, "seconds"),
    ],
)
def test_a_mistake_is_told(exercise: str, answer: Any, hint: str) -> None:
    result = check(exercise, answer)
    assert not result.passed
    assert hint in repr(result)


def test_right_answers_pass() -> None:
    assert check("01.1", 40).passed
    assert check("01.4", REVERSE.format(f"{NUMBER} if (i < n) y[n - 1 - i] = x[i];")).passed
    assert check("03.3", lambda n: len({4 * n * r // 64 % 64 for r in range(n)})).passed
    assert check("04.3", (4096**2 + 2 * 4096) * 4 / 320e9 * 1e3).passed
