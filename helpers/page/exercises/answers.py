"""Checks of an answer that is a number, a choice or an array."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from helpers.page.exercises.results import Check, ended


def _number(answer: Any) -> float | None:
    if isinstance(answer, (bool, str, bytes)):
        return None
    try:
        return float(answer)
    except (TypeError, ValueError, OverflowError):
        return None


def _near(value: float, target: float, tolerance: float) -> bool:
    return math.isclose(value, target, rel_tol=max(tolerance, 1e-12), abs_tol=1e-12)


def close_to(
    answer: Any, expected: float, *, tolerance: float = 0.01, what: str = "the number",
    unit: str = "", hint: str = "", mistakes: Mapping[float, str] | None = None,
) -> Check:  # fmt: skip
    """A number within a relative tolerance of the expected one; 0 asks for equality.

    mistakes maps likely mistakes to the hint that each deserves. A failed check does not give the
    expected value away.
    """
    value = _number(answer)
    if value is None:
        kind = "text" if isinstance(answer, str) else type(answer).__name__
        return Check(False, what, got=kind, expected="one number", hint=hint)
    shown = f"{value:,.6g}" if abs(value) < 1e15 else f"{value:.6g}"
    got = f"{shown} {unit}".strip()
    if _near(value, expected, tolerance):
        return Check(True, what, got=got)
    for mistake, why in (mistakes or {}).items():
        if _near(value, mistake, tolerance):
            return Check(False, what, got=got, hint=_sentence(why))
    return Check(False, what, got=got, hint=hint)


def _sentence(text: str) -> str:
    text = text.strip()
    return ended(text[:1].upper() + text[1:])


def one_of(
    answer: Any, correct: str | Sequence[str], *, options: Sequence[str] | None = None,
    what: str = "the choice", hint: str = "", mistakes: Mapping[str, str] | None = None,
) -> Check:  # fmt: skip
    """A choice; compared as text without regard to case and outer spaces."""

    def plain(text: Any) -> str:
        return str(text).strip().casefold()

    right = {plain(correct)} if isinstance(correct, str) else {plain(c) for c in correct}
    if plain(answer) in right:
        return Check(True, what, got=str(answer))
    if options is not None and plain(answer) not in {plain(o) for o in options}:
        return Check(False, what, got=repr(answer), expected="one of " + ", ".join(options))
    reasons = {plain(option): why for option, why in (mistakes or {}).items()}
    why = reasons.get(plain(answer), "")
    return Check(False, what, got=str(answer), hint=_sentence(why) if why else hint)


def same_array(
    answer: Any, expected: Any, *, what: str = "the array", tolerance: float = 0.0, hint: str = ""
) -> Check:
    """An array of the expected shape and values; NaN is never equal. tolerance: relative."""
    got, want = np.asarray(answer), np.asarray(expected)
    if got.shape != want.shape:
        return Check(False, what, f"shape {got.shape}", f"shape {want.shape}", hint)
    if got.dtype == object or not np.issubdtype(got.dtype, np.number):
        return Check(False, what, f"elements of {got.dtype}", "numbers", hint)
    error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    bad = ~(error <= tolerance * np.abs(want))
    if not bad.any():
        return Check(True, what)
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    if np.isnan(got[at]) and not hint:
        hint = (
            "NaN here: nothing wrote the element, or it was read, as by +=, before it was written."
        )
    what = f"{what}: {np.count_nonzero(bad)} of {bad.size} elements differ"
    return Check(False, what, f"{got[at]:g} at {list(at)}", f"{want[at]:g}", hint)
