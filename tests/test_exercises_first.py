"""Exercises of chapters 1 to 4: what is accepted, what is not, and what a wrong answer is told."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from helpers.page.exercises import check

REVERSE = 'extern "C" __global__ void reverse(const float* x, float* y, int n) {{ {} }}'
FLAT = (
    'extern "C" __global__ void flat(const float* A, const float* B, float* C, int M, int N, int K)'
    "{{ int t = blockIdx.x * blockDim.x + threadIdx.x; {} }}"
)
NUMBER = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
ELEMENT = (
    "float s = 0; for (int k = 0; k < K; ++k) s += A[r * K + k] * B[k * N + c]; C[r * N + c] = s;"
)


# -- numbers: what the solution prints passes, and each mistake is told ---------------------------


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("01.1", 40),
        ("01.2", 37.1),
        ("01.3", 1),
        ("02.1", 6.25),
        ("02.2", 17),
        ("02.2", 16.9),
        ("03.1", 23),
        ("04.1", 1197),
        ("04.3", 0.21),
    ],
)
def test_the_precision_that_the_page_prints_is_enough(exercise: str, answer: float) -> None:
    assert check(exercise, answer).passed


@pytest.mark.parametrize(
    ("exercise", "answer", "hint"),
    [
        ("01.1", 41, "No thread is left over"),
        ("01.1", 4, "one block"),
        ("01.1", 7, "Count the warps of one block"),
        ("01.3", 1.33, "round down"),
        ("01.3", 1.3, "round down"),
        ("01.3", 2, "count the registers too"),
        ("01.3", 5, "of threads and of registers"),
        ("04.1", (63, 19, 1), "multiply them"),
        ("04.1", [63, 19, 1], "multiply them"),
        ("04.1", 82, "19 by 63"),
        ("04.1", 5, "cover 1000 rows"),
    ],
)
def test_a_wrong_number_gets_a_hint_that_is_true_of_it(
    exercise: str, answer: Any, hint: str
) -> None:
    result = check(exercise, answer)
    assert not result.passed
    assert hint in repr(result)


# -- 01.4 and 04.2: one thread an element ---------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        f"{NUMBER} if (i < n) y[i] = x[n - 1 - i];",
        f"{NUMBER} if (i < n) y[n - 1 - i] = x[i];",
        f"{NUMBER} for (; i < n; i += gridDim.x * blockDim.x) y[i] = x[n - 1 - i];",
    ],
)
def test_a_vector_may_be_turned_around_in_several_ways(body: str) -> None:
    assert check("01.4", REVERSE.format(body)).passed


@pytest.mark.parametrize(
    "body",
    [
        f"{NUMBER} if (i == 0) for (int j = 0; j < n; ++j) y[j] = x[n - 1 - j];",
        "if (threadIdx.x == 0) { int s = blockIdx.x * 256;"
        " for (int j = s; j < min(s + 256, n); ++j) y[j] = x[n - 1 - j]; }",
    ],
)
def test_one_thread_that_turns_the_vector_around_is_refused(body: str) -> None:
    result = check("01.4", REVERSE.format(body))
    assert not result.passed
    assert [c.ok for c in result.checks] == [True, True, True, False]  # right and clean, and yet
    assert "Let no thread do the work of others" in repr(result)


@pytest.mark.parametrize(
    "body",
    [
        f"if (t >= M * N) return; int r = t / N, c = t % N; {ELEMENT}",
        f"if (t < M * N) {{ int r = t % M, c = t / M; {ELEMENT} }}",
        f"for (int e = t; e < M * N; e += gridDim.x * blockDim.x) {{ int r = e / N, c = e % N; {ELEMENT} }}",
        "if (t >= M * N) return; C[t] = 0;"
        " for (int k = 0; k < K; ++k) C[t] += A[t / N * K + k] * B[k * N + t % N];",
    ],
)
def test_a_flat_product_may_be_written_in_several_ways(body: str) -> None:
    assert check("04.2", FLAT.format(body)).passed


@pytest.mark.parametrize(
    "body",
    [
        f"if (t == 0) for (int e = 0; e < M * N; ++e) {{ int r = e / N, c = e % N; {ELEMENT} }}",
        f"if (t < M) for (int c = 0; c < N; ++c) {{ int r = t; {ELEMENT} }}",
        f"if (t < N) for (int r = 0; r < M; ++r) {{ int c = t; {ELEMENT} }}",
    ],
    ids=["one thread", "a thread a row", "a thread a column"],
)
def test_a_thread_that_does_more_than_its_element_is_refused(body: str) -> None:
    result = check("04.2", FLAT.format(body))
    assert not result.passed
    assert "Let no thread do the work of others" in repr(result)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (f"int r = t / N, c = t % N; {ELEMENT}", "out-of-bounds"),
        (f"if (t >= M * N) return; int r = t / M, c = t % M; {ELEMENT}", "differ"),
        ("C[t] = ;", "the source compiles"),
    ],
)
def test_other_faults_of_a_flat_product_are_still_named(body: str, told: str) -> None:
    result = check("04.2", FLAT.format(body))
    assert not result.passed
    assert told in repr(result)


# -- 02.3: quartiles by any usual definition ------------------------------------------------------

Summary = Callable[[list[float]], Any]


def numpys(times: list[float]) -> Any:
    q1, median, q3 = np.percentile(times, [25, 50, 75])
    return median, q3 - q1


def pythons(times: list[float]) -> Any:
    q1, median, q3 = statistics.quantiles(times, n=4)
    return median, q3 - q1


def inclusive(times: list[float]) -> Any:
    q1, median, q3 = statistics.quantiles(times, n=4, method="inclusive")
    return [median, q3 - q1]


def halves(times: list[float]) -> Any:
    ordered, half = sorted(times), len(times) // 2
    return (
        statistics.median(times),
        statistics.median(ordered[-half:]) - statistics.median(ordered[:half]),
    )


@pytest.mark.parametrize("summary", [numpys, pythons, inclusive, halves])
def test_the_usual_quartiles_are_accepted(summary: Summary) -> None:
    assert check("02.3", summary).passed


@pytest.mark.parametrize(
    ("summary", "hint"),
    [
        (lambda t: (np.median(t), max(t) - min(t)), "outliers included"),
        (lambda t: (np.mean(t), numpys(t)[1]), "That is the mean"),
        (lambda t: (np.median(t), np.std(t)), "standard deviation"),
        (lambda t: (np.median(t), numpys(t)[1] / np.median(t)), "over the median"),
        (lambda t: (np.median(t), -numpys(t)[1]), "not the other way round"),
        (lambda t: (np.median(t), numpys(t)[1] / 2), "half of the range"),
        (lambda t: (np.median(t), 0.0), "Subtract the first from the third"),
        (lambda t: (np.median(t), "2"), "one number"),
        (lambda t: np.median(t), "two numbers"),
    ],
)
def test_another_summary_is_told_what_it_is(summary: Summary, hint: str) -> None:
    result = check("02.3", summary)
    assert not result.passed
    assert hint in repr(result)


# -- 03.2: a loop over k, and outer products ------------------------------------------------------


def start(A: Any, B: Any) -> np.ndarray:
    return np.zeros((A.shape[0], B.shape[1]))


def by_outer(A: Any, B: Any) -> Any:
    C = start(A, B)
    for k in range(A.shape[1]):
        C += np.outer(A[:, k], B[k, :])
    return C


def by_broadcast(A: Any, B: Any) -> Any:
    C = 0
    for a, b in zip(A.T, B, strict=True):
        C = C + a[:, None] * b[None, :]
    return C


def by_thin_products(A: Any, B: Any) -> Any:
    return sum(A[:, k : k + 1] @ B[k : k + 1, :] for k in range(A.shape[1]))


def by_einsum_of_vectors(A: Any, B: Any) -> Any:
    return sum(np.einsum("i,j->ij", A[:, k], B[k]) for k in range(A.shape[1]))


@pytest.mark.parametrize(
    "product", [by_outer, by_broadcast, by_thin_products, by_einsum_of_vectors]
)
def test_an_outer_product_may_be_written_in_several_ways(product: Callable[..., Any]) -> None:
    assert check("03.2", product).passed


def by_rows(A: Any, B: Any) -> Any:
    C = start(A, B)
    for i in range(A.shape[0]):
        C[i] = A[i] @ B
    return C


def by_three_loops(A: Any, B: Any) -> Any:
    C = start(A, B)
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]
    return C


def by_two_loops(A: Any, B: Any) -> Any:
    C = start(A, B)
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            C[i] += A[i, k] * B[k]
    return C


@pytest.mark.parametrize(
    ("product", "hint"),
    [
        (lambda A, B: A @ B, "matmul, which adds up over k by itself"),
        (lambda A, B: A.dot(B), "dot, which adds up over k by itself"),
        (lambda A, B: np.dot(A, B), "dot, which adds up over k by itself"),
        (lambda A, B: np.einsum("ik,kj->ij", A, B), "einsum, which adds up"),
        (lambda A, B: np.tensordot(A, B, 1), "tensordot, which adds up"),
        (lambda A, B: np.asarray(A) @ np.asarray(B), "There is no loop over k"),
        (lambda A, B: (A[:, :, None] * B[None]).sum(1), "There is no loop over k"),
        (by_rows, "matmul, which adds up over k by itself"),
        (by_three_loops, "More than one loop"),
        (by_two_loops, "More than one loop"),
        (lambda A, B: np.outer(A[:, 0], B[0]), "Only one k was added"),
    ],
)
def test_a_product_by_other_means_is_refused(product: Callable[..., Any], hint: str) -> None:
    result = check("03.2", product)
    assert not result.passed
    assert hint in repr(result)


# -- 03.3: each mistake gets its own hint ---------------------------------------------------------


@pytest.mark.parametrize(
    ("taken", "hint"),
    [
        (lambda n, r: 4 * n * r // 64, "different lines; take them modulo"),
        (lambda n, r: n * r // 64 % 64, "a float has 4."),
        (lambda n, r: n * r // 64, "A float has 4 bytes, and a line"),
        (lambda n, r: 4 * r // 64 % 64, "walks along a row"),
        (lambda n, r: r, "the number of rows"),
        (lambda n, r: 4 * n * r % 64, "a place within a line"),
        (lambda n, r: 0, "Put the set of each row"),
    ],
)
def test_a_mistake_in_counting_sets_gets_its_own_hint(
    taken: Callable[[int, int], int], hint: str
) -> None:
    result = check("03.3", lambda n: len({taken(n, r) for r in range(n)}))
    failed = [c for c in result.checks if not c.ok]
    assert failed and {c.hint for c in failed} == {failed[0].hint}
    assert hint in failed[0].hint


def test_an_odd_answer_to_the_sets_is_no_mistake_of_the_list() -> None:
    assert "Put the set" in repr(check("03.3", lambda n: n + 0.5))
    assert "Put the set" in repr(check("03.3", lambda n: "4"))
    assert "the function returns a number" in repr(check("03.3", lambda n: None if n > 5 else 1))


def test_the_sets_that_the_page_names_are_the_right_ones() -> None:
    from tests.common import ROOT

    page = (ROOT / "book" / "03_cpu.md").read_text(encoding="utf-8")
    assert "256 uses four sets" in page and "512 uses two and 1024 one" in page
    right = {256: 4, 512: 2, 1024: 1, 1000: 64, 1: 1, 5: 2, 17: 17, 1025: 64}
    assert not check("03.3", lambda n: {**right, 256: 16}[n]).passed
    result = check("03.3", lambda n: right[n])
    assert [c.what for c in result.checks if not c.ok and "17" not in c.what] == []
