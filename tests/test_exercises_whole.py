"""Exercises of chapters 23 to 25: right answers in any form, and a true hint for each wrong one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.chapters.ch24 import checks
from helpers.ladder.streams import makespan, schedule, simulate
from helpers.page import exercises


def passes(name: str, answer: Any) -> bool:
    return exercises.check(name, answer).passed


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("23.1", "FP16"),
        ("23.1", " fp16 "),
        ("23.1", ["FP16"]),
        ("23.1", ("fp16",)),
        ("23.1", {"FP16"}),
        ("24.1", 8),
        ("24.1", 8.0),
        ("25.1", 40 / 9),
        ("25.1", 4.44),
        ("25.1", 4.4),
        ("25.2", 26.76),
        ("25.2", 26.8),
        ("25.2", 32 * 64 / 20 * 132 * 1980e6 / 1e12),
        ("25.3", 123.3),
        ("25.3", 123.34),
    ],
)
def test_a_right_answer_passes_in_the_precision_that_is_printed(name: str, answer: Any) -> None:
    assert passes(name, answer)


@pytest.mark.parametrize(
    ("name", "answer", "hint"),
    [
        ("23.1", "BF16", "It has the exponent of FP32."),
        ("23.1", ["TF32"], "It has the exponent of FP32."),
        ("23.1", ["FP16", "BF16"], "One of them is right."),
        ("23.1", "FP8", "one of FP16, BF16, TF32"),
        ("23.1", [], "one of FP16, BF16, TF32"),
        ("23.1", 16, "one of FP16, BF16, TF32"),
        ("24.1", 11, "serial"),
        ("24.1", 7, "B's copy is missing"),
        ("24.1", 2.75, "B is not cut"),
        ("24.1", 3.5, "three more panels"),
        ("24.1", 7.5, "the last of C"),
        ("24.1", 42, "Which stage never pauses"),
        ("25.1", 360, "Divide"),
        ("25.1", 0.0444, "in percent"),
        ("25.1", 31, "not subtracted"),
        ("25.1", 4, "nine times the rate"),
        ("25.1", 17, "is at 40 %"),
        ("25.2", 66.9, "the multiply-adds"),
        ("25.2", 48.7, "issue slots' bound"),
        ("25.2", 13.72, "not their sum"),
        ("25.2", 13.38, "two operations"),
        ("25.2", 0.2027, "one SM"),
        ("25.2", 26763, "in GFLOP/s"),
        ("25.2", 60, "the largest counts"),
        ("25.3", 61.67, "two clocks"),
        ("25.3", 127.2, "element of B"),
        ("25.3", 0.1233, "in GFLOP/s"),
        ("25.3", 3.083, "one SM"),
        ("25.3", 5, "over the clocks of a step"),
    ],
)
def test_a_wrong_answer_gets_a_hint_that_is_true_of_it(name: str, answer: Any, hint: str) -> None:
    result = exercises.check(name, answer)
    assert not result.passed
    assert hint in repr(result)


def test_the_hints_of_18_1_name_what_those_numbers_are() -> None:
    """7 ms is both the time without B's copy and the limit of many panels; 8 ms is the answer."""
    stages, even = checks.STAGES, (1, 1, 1, 1)
    assert makespan(simulate(schedule(4, 4), even, stages)) == 8
    assert makespan(simulate(schedule(4, 4), even, {**stages, "B": 0.0})) == 7
    assert stages["B"] + max(stages["A"], stages["kernel"], stages["C"]) == 7


def cut_off(x: np.ndarray, bits: int) -> np.ndarray:
    return (x.view(np.uint32) & np.uint32(2**32 - 2 ** (24 - bits))).view(np.float32)


def rounded(x: np.ndarray, bits: int) -> np.ndarray:
    half = np.uint32(2 ** (23 - bits))
    return cut_off((x.view(np.uint32) + half).view(np.float32), bits)


def test_rounding_passes_cutting_gets_its_hint_and_a_shifted_mask_another() -> None:
    assert passes("23.3", rounded)
    cut = exercises.check("23.3", cut_off)
    assert not cut.passed and "Add half of a step" in repr(cut)

    def too_short(x: np.ndarray, bits: int) -> np.ndarray:
        return cut_off(x, bits - 3)

    short = exercises.check("23.3", too_short)
    assert not short.passed and "Only the lowest bits go" in repr(short)


def test_a_product_with_a_transposition_is_right_and_refused() -> None:
    def transposed(A: np.ndarray, B: np.ndarray, library: Any) -> np.ndarray:
        (M, K), N = A.shape, B.shape[1]
        flat, _, _ = library((A.ravel(order="F"), M, K), (B.ravel(order="F"), K, N))
        return np.asarray(flat).reshape(N, M).T

    result = exercises.check("23.2", transposed)
    assert not result.passed
    assert [c.ok for c in result.checks if c.what.startswith("C for")] == [True] * 3
    assert not passes("23.2", lambda A, B, library: A @ B)


def test_operands_that_the_library_cannot_multiply_get_a_hint_and_no_traceback() -> None:
    def right(A: np.ndarray, B: np.ndarray, library: Any) -> np.ndarray:
        (M, K), N = A.shape, B.shape[1]
        flat, _, _ = library((B.ravel(), N, K), (A.ravel(), K, M))
        return np.asarray(flat).reshape(M, N)

    def wrong_order(A: np.ndarray, B: np.ndarray, library: Any) -> np.ndarray:
        (M, K), N = A.shape, B.shape[1]
        return np.asarray(library((A.ravel(), K, M), (B.ravel(), N, K))[0]).reshape(M, N)

    def wrong_shapes(A: np.ndarray, B: np.ndarray, library: Any) -> np.ndarray:
        return np.asarray(library((B.ravel(), *A.shape), (A.ravel(), *A.shape))[0])

    assert passes("23.2", right)
    for answer, got in ((wrong_order, "X has 2 columns"), (wrong_shapes, "12 elements, not 2 x 4")):
        said = repr(exercises.check("23.2", answer))
        assert "the library sees transposes" in said.lower() and got in said
        assert "gufunc" not in said and "ValueError" not in said
