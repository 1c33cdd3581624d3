"""Exercises by their number: registered by their chapter, found and checked by the reader."""

import ast
import importlib
import inspect
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any, Literal

from helpers.page.claims import BOOK, PAGE
from helpers.page.exercises.answers import close_to
from helpers.page.exercises.results import Check, Result, raised
from nogpu.errors import UnknownNameError, near_matches

Kind = Literal["number", "kernel", "repair", "python", "choice"]

ADVICE: Mapping[str, str] = {
    "number": "Replace ... by a number.",
    "kernel": "Give the CUDA source as text.",
    "repair": "Give the CUDA source as text, mended.",
    "python": "Replace ... by your answer.",
    "choice": "Replace ... by your choice.",
}

LOOK = "Open the hint below the exercise, and work it out in steps."
"""What a wrong number or choice is told where no more is known of the mistake."""
Checker = Callable[..., Check | Iterable[Check]]


@dataclass(frozen=True)
class Exercise:
    """A registered exercise: its id "NN.i", what kind of answer it takes, and its checker."""

    id: str
    kind: Kind
    title: str
    checker: Checker


_known: dict[str, Exercise] = {}
_ID = re.compile(r"(\d\d)\.([1-9]\d*)")


def exercise(id: str, *, kind: Kind) -> Callable[[Checker], Checker]:
    """Register the decorated function as the checker of exercise `id`, such as "05.1".

    The function takes the answer and returns a Check or several. The first line of its docstring is
    the exercise's title. Raises UnknownNameError on a bad id and ValueError on an id used twice.
    """
    if not _ID.fullmatch(id):
        raise UnknownNameError(
            f'{id=}: an exercise is called "NN.i", chapter and number, as "05.1"'
        )
    if kind not in ADVICE:
        raise ValueError(f"{kind=} is not one of {', '.join(ADVICE)}")

    def register(checker: Checker) -> Checker:
        known = _known.get(id)
        if known and known.checker.__qualname__ != checker.__qualname__:
            raise ValueError(
                f"exercise {id} is checked by {known.checker.__qualname__} already; "
                f"give {checker.__qualname__} another number"
            )
        title = (checker.__doc__ or id).strip().splitlines()[0].rstrip(".")
        _known[id] = Exercise(id, kind, title, checker)
        return checker

    return register


def number(id: str, title: str, right: float, **options: Any) -> None:
    """Register an exercise whose answer is this number; options: of `close_to`, which judges it."""

    def checker(answer: object) -> Check:
        return close_to(answer, right, **options)

    checker.__qualname__ = checker.__doc__ = title
    exercise(id, kind="number")(checker)


CHAPTERS = BOOK.parent / "helpers" / "chapters"
"""Where chapters keep their checks.

They are found here by their place, as they stand above this room and are named nowhere in it.
"""


def chapters() -> tuple[str, ...]:
    """Numbers of the chapters that have exercises, such as "05"."""
    return tuple(sorted(path.parent.name[2:] for path in CHAPTERS.glob("ch[0-9][0-9]/checks.py")))


def load(chapter: str) -> tuple[Exercise, ...]:
    """The exercises of one chapter, in order. An empty tuple if it has none."""
    if chapter in chapters():
        importlib.import_module(f"helpers.chapters.ch{chapter}.checks")
    of_chapter = (e for e in _known.values() if e.id.startswith(f"{chapter}."))
    return tuple(sorted(of_chapter, key=lambda e: int(e.id.split(".")[1])))


def find(id: str) -> Exercise:
    """The exercise of that id, its chapter imported if need be. Raises UnknownNameError."""
    match = _ID.fullmatch(str(id))
    if match:
        load(match[1])
    if id not in _known:
        for chapter in chapters():
            load(chapter)
        known = near_matches(str(id), _known) if _known else "No exercise is registered."
        raise UnknownNameError(f"no exercise is called {id!r}. {known}")
    return _known[id]


def check(id: str, answer: Any, **options: Any) -> Result:
    """Check an answer and say what holds and what does not.

    Never raises for a wrong answer: an exception out of the answer becomes a failed check with its
    message. Raises UnknownNameError for an unknown id. options go to the checker.
    """
    task = find(id)
    if answer is ... or answer is None:
        return Result(id, (Check(False, task.title, hint=ADVICE[task.kind]),), answered=False)
    try:
        returned = task.checker(answer, **options)
        checks = (returned,) if isinstance(returned, Check) else tuple(returned)
    except Exception as error:  # a reader's function may raise anything
        checks = (raised("the answer runs", error),)
    checks = checks or (Check(False, "nothing was checked"),)
    if not all(c.ok for c in checks) and untouched(id, answer):
        return Result(id, checks, answered=False, starter=True)
    if task.kind in ("number", "choice"):
        checks = tuple(c if c.ok or c.hint else replace(c, hint=LOOK) for c in checks)
    return Result(id, checks)


def untouched(id: str, answer: Any) -> bool:
    """Whether an answer is the starter of the exercise's cell: CUDA source, a function, a dict."""
    if isinstance(answer, dict | list | tuple):
        return len(answer) > 1 and any(answer == value for value in _literals(starter(id)))
    if isinstance(answer, str):
        text = answer
    elif callable(answer):
        try:
            text = inspect.getsource(answer)
        except (OSError, TypeError):  # typed where no source is kept
            return False
    else:
        return False
    text = textwrap.dedent(text).strip()
    return len(text.splitlines()) > 1 and text in starter(id)


def _literals(page: str) -> Iterator[Any]:
    """The values that cells of a page assign and that are written out there."""
    for code in re.findall(r"(?ms)^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*(.*?)^```$", page):
        for node in ast.parse(code).body:
            if isinstance(node, ast.Assign):
                with suppress(ValueError):  # not a literal
                    yield ast.literal_eval(node.value)


@cache
def starter(id: str) -> str:
    """The exercise as its page gives it, up to the first hint or solution; empty without a page."""
    chapter = id.split(".")[0]
    here = BOOK / os.environ.get(PAGE, "-")
    # The folder is listed last: a page that has listed it runs again with every new page.
    for page in chain([here] * here.is_file(), BOOK.glob(f"*{chapter}_*.md")):
        parts = page.read_text(encoding="utf-8").split(f"\n### Exercise {id}")
        if len(parts) > 1:
            return re.split(r"(?m)^(?::::\{dropdown\}|#{2,3} )", parts[1])[0]
    return ""
