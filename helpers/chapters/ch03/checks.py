"""Checks for the exercises of chapter 03, the CPU."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from helpers.page.exercises import Check, close_to, exercise, number, same_array

number(
    "03.1",
    "Flat index of element (3, 2) of a 5x7 row-major matrix",
    23,
    tolerance=0,
    what="index",
    mistakes={
        13: "that is column-major",
        17: "a row has 7 elements, not 5",
        24: "count from zero: the first element has index 0",
    },
)


def _one_term(got: Any, a: np.ndarray, b: np.ndarray) -> bool:
    """Whether got is a single outer product: a return inside the loop, or = in place of +=."""
    terms = (np.outer(a[:, k], b[k]) for k in range(a.shape[1]))
    return any(np.array_equal(np.asarray(got), term) for term in terms)


CONTRACTIONS = frozenset({"dot", "inner", "matmul", "tensordot", "einsum", "vdot", "multi_dot"})
"""Functions of NumPy that multiply and add up, in one call what the exercise asks a loop for."""


def _watched(arrays: tuple[np.ndarray, ...]) -> tuple[tuple[Any, ...], list[int], list[str]]:
    """Copies of arrays that note what is done to them: reads of their parts, and whole products.

    The first list gets an entry for each indexing; the second the name of each contraction over
    more than one k. An outer product in the guise of one, (M x 1) @ (1 x N), is none.
    """
    reads: list[int] = []
    whole: list[str] = []

    def note(name: str, operands: tuple[Any, ...]) -> None:
        taken = [o for o in operands if isinstance(o, np.ndarray)]
        if taken and name in CONTRACTIONS and all(1 not in o.shape and o.ndim > 0 for o in taken):
            if not (name == "einsum" and all(o.ndim == 1 for o in taken)):
                whole.append(name)

    class Watched(np.ndarray):
        def __getitem__(self, key: Any) -> Any:
            reads.append(1)
            return super().__getitem__(key)

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
            note(ufunc.__name__, inputs)
            plain = [np.asarray(i) if isinstance(i, Watched) else i for i in inputs]
            out = options.get("out")
            if out is not None:
                options["out"] = tuple(np.asarray(o) if isinstance(o, Watched) else o for o in out)
            return getattr(ufunc, method)(*plain, **options)

        def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            note(func.__name__, tuple(args))
            return super().__array_function__(func, types, args, kwargs)

        def dot(self, other: Any, out: Any = None) -> Any:
            note("dot", (self, other))
            return np.asarray(self).dot(np.asarray(other), out)

    return tuple(array.copy().view(Watched) for array in arrays), reads, whole


@exercise("03.2", kind="python")
def outer_products(answer: Callable[[Any, Any], Any]) -> Iterator[Check]:
    """A product as a sum of outer products, on three shapes."""
    rng = np.random.default_rng(3)
    for m, n, k in ((9, 8, 6), (2, 3, 2), (7, 1, 1)):
        a, b = rng.integers(-5, 6, (m, k)).astype(float), rng.integers(-5, 6, (k, n)).astype(float)
        (seen_a, seen_b), reads, whole = _watched((a, b))
        got = answer(seen_a, seen_b)
        if got is ... or got is None:
            yield Check(
                False,
                "the function returns C",
                got="nothing" if got is None else "...",
                hint="Start from np.zeros((M, N)), add in the loop, return it after the loop.",
            )
            return
        hint = "Only one k was added." if k > 1 and _one_term(got, a, b) else ""
        right = same_array(got, a @ b, what=f"C for {m}x{k} times {k}x{n}", hint=hint)
        yield right
        if right.ok and k > 2:
            yield _by_columns(k, len(reads), whole)


def _by_columns(k: int, reads: int, whole: list[str]) -> Check:
    """Whether a function took a column of A and a row of B for each of K steps."""
    what = "one column of A and one row of B for each k"
    if whole:
        got, hint = whole[0], "Take one k at a time, and add its M x N products to C."
        return Check(False, what, got=f"{got}, which adds up over k by itself", hint=hint)
    hint = "More than one loop: multiply the whole column by the whole row at once."
    hint = "There is no loop over k." if reads < k else hint
    return Check(k <= reads <= 6 * k + 6, what, got=f"{reads} reads of a part", hint=hint)


SETS, LINE = 64, 64
"""Sets of the cache of exercise 03.3, and bytes of a line in it."""

SIZES = (1, 5, 17, 256, 512, 1000, 1024, 1025)
"""Sizes at which no two likely mistakes of exercise 03.3 count alike throughout."""

MISTAKES: tuple[tuple[Callable[[int, int], int], str], ...] = (
    (
        lambda n, r: 4 * n * r // LINE,
        "That is the number of different lines; take them modulo the number of sets.",
    ),
    (lambda n, r: n * r // LINE % SETS, "An address counts bytes: a float has 4."),
    (lambda n, r: n * r // LINE, "A float has 4 bytes, and a line goes to its number modulo 64."),
    (lambda n, r: 4 * r // LINE % SETS, "That walks along a row: row r begins at 4 n r."),
    (lambda n, r: r, "That is the number of rows; several rows share a set."),
    (lambda n, r: 4 * n * r % SETS, "That is a place within a line: divide by its 64 bytes first."),
)
"""What a mistake takes for the set of row r's first element, and the hint that it deserves."""


def _sets(n: int) -> int:
    """Sets that the first column of an n x n matrix of float32 touches."""
    return len({address // LINE % SETS for address in range(0, 4 * n * n, 4 * n)})


def _mistake(answers: Mapping[int, Any]) -> str:
    """The hint for the one mistake that counts as these answers do at every size; empty if none."""
    for taken, hint in MISTAKES:
        counted = {n: len({taken(n, r) for r in range(n)}) for n in answers}
        if all(np.ndim(got) == 0 and got == counted[n] for n, got in answers.items()):
            return hint
    return ""


@exercise("03.3", kind="python")
def sets_used(answer: Callable[[int], Any]) -> Iterator[Check]:
    """Sets of a cache that a column lies in, for eight sizes."""
    answers = {n: answer(n) for n in SIZES}
    if any(got is ... or got is None for got in answers.values()):
        got = next(got for got in answers.values() if got is ... or got is None)
        yield Check(False, "the function returns a number", got=str(got))
        return
    hint = _mistake(answers) or "Put the set of each row's address into a Python set, and count."
    for n, got in answers.items():
        yield close_to(got, _sets(n), tolerance=0, what=f"sets used at n = {n}", hint=hint)
