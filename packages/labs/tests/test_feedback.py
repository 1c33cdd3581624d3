"""A student's feedback: what it tells, and that whatever somebody writes stays words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from test_policy import BANKS, RIGHT, TWO

from tilelabs.grading.feedback import MOST_FEEDBACK, Feedback, Override, text
from tilelabs.judging.marking import Marked
from tilelabs.labs.checking import judged

VILE = "total\x1b[2J\u202eevil <b> http://x"


def told(marked: Marked = BANKS, **more: Any) -> Feedback:
    found = judged(TWO, TWO.variants[0], marked)
    points: dict[str, float | None] = {
        p.rubric.id: None if p.rubric.by_hand else p.points for p in found.parts
    }
    facts = {"checked": found, "points": points, "given": {}, "notes": ()}
    return Feedback(TWO, **(facts | {"closing": ("Total: 42 of 100 points",)} | more))


def test_whatever_is_written_stays_words() -> None:
    plain = text(
        told(Marked(VILE, "compile", VILE), notes=(VILE, "look: for the teacher"),
             given={"written": Override(7.5, VILE)})
    )  # fmt: skip
    unseen = r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]"
    assert re.search(unseen, VILE) and not re.search(unseen, plain)
    assert plain.count("evil <b>") == 3 and "for the teacher" not in plain


def test_it_tells_every_part_and_what_a_person_gave() -> None:
    facts = told(given={"wavefronts": Override(7.5, "explained the banks")}, notes=("2 files",))
    plain = text(facts)
    for part in facts.checked.parts if facts.checked else ():
        assert part.words in plain and part.rubric.id in plain
    for words in ("explained the banks", "2 files", "Total: 42 of 100 points", "attempt 1"):
        assert words in plain
    assert "no submission" in text(told(checked=None))


def test_long_words_are_cut() -> None:
    runs = tuple(replace(RIGHT.runs[0], findings=(("race", 1, "&" * 5000),)) for _ in range(3))
    long = told(replace(RIGHT, runs=runs), notes=tuple("&" * 5000 for _ in range(2000)))
    many = told(given={p.id: Override(1, "ä" * 10_000) for p in TWO.parts}, notes=("\ud800",) * 30)
    for one in (long, many):
        assert 1000 < len(text(one).encode()) <= MOST_FEEDBACK
