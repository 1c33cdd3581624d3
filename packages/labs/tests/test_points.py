"""Points rise with the work: a scale in place of steps, a third for a barrier, all cases counted;
and what feedback tells, in which whatever somebody writes stays words."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from test_policy import BANKS, RIGHT, TWO

from tilelabs import labs
from tilelabs.grading.feedback import MOST_FEEDBACK, Feedback, Override, text
from tilelabs.judging import running
from tilelabs.judging.marking import Case, Marked, Run, cases, mark
from tilelabs.labs import checking, working
from tools.hostile import HONEST, WRONG, but

CASES = tuple(Case((("M", 40 + n),), n, counted=n < 2, work=6e4) for n in range(9))
GOOD = {"of": 1600, "wavefronts": 4000, "barriers": 8}
"""A run that is right, with work within each limit of lab 2."""


def facts(*wrong, order="", tried=9, kind="", **work):
    """Facts of nine cases: which are wrong, in which order alone, and a finding in all."""
    found = ((kind, 7, "x"),) if kind else ()
    runs = tuple(
        Run(
            case,
            schedule,
            findings=found,
            wrong=int(n in wrong and order in ("", schedule)),
            **(GOOD | work),
        )
        for n, case in enumerate(CASES[:tried])
        for schedule in running.SCHEDULES
    )
    return Marked(compiler="NVRTC", registers=32, runs=runs, drawn=9)


def points(m):
    return checking.judged(TWO, TWO.variants[0], m).points


def test_a_scale_falls_without_a_step():
    part = labs.Rubric("wavefronts", 40, "x", limit=0.4, zero=1.0)
    assert [part.share(x) for x in (0.1, 0.4, 0.7, 1.0, 2.0)] == pytest.approx([1, 1, 0.5, 0, 0])
    band = replace(part, least=0.25)
    assert band.share(0.2) == 0 and band.share(0.3) == 1
    assert band.bound == "at least 0.25 and at most 0.4, and none of the points from 1 on"
    step = replace(part, zero=None)  # the control: without a zero it is all or nothing
    assert step.share(0.41) == 0
    of_two = [points(facts(wavefronts=n)) for n in (4_000, 15_000, 25_000, 40_000, 90_000)]
    assert of_two == sorted(of_two, reverse=True) and len(set(of_two)) >= 4 and of_two[0] == 90


def test_one_missing_barrier_costs_about_a_third():
    racy = facts(*range(8), order="permuted", kind="race")
    assert 0.6 * 90 <= points(racy) <= 0.7 * 90
    for worse in (
        facts(*range(8), order="permuted"),  # nothing names a race: other means than barriers
        facts(*range(8), order="permuted", kind="race", barriers=0),
        facts(*range(8), kind="race"),  # wrong in both orders
        facts(*range(8), order="permuted", kind="out-of-bounds"),
    ):
        assert points(worse) <= 20
    lone = facts(*range(8), order="permuted", kind="race", barriers=0)
    of = replace(TWO, barriers=1)  # of a lab that needs one, none is left where it lacks
    assert checking.judged(of, TWO.variants[0], lone).points == points(racy)
    assert {one.number for one in labs.all_labs() if one.barriers == 1} == {"6", "7", "8", "9"}


def test_each_wrong_shape_costs_more():
    lost = [points(facts(*range(8, 8 - n, -1))) for n in range(6)]
    assert lost == sorted(lost, reverse=True) and len(set(lost)) == 6 and lost[1] > 55
    assert lost[2] < 45 and points(facts(0)) < 45  # a shape in which work is counted


def test_a_loop_at_the_first_shape_that_one_cannot_do_gains_nothing():
    """Every part is divided by all cases, run or not."""
    ended = replace(facts(2, tried=3), drawn=9)
    returned = facts(*range(2, 9))
    assert points(ended) == points(returned) < 15
    assert points(replace(ended, drawn=3)) > points(ended)  # the control: divided by what ran


@pytest.mark.nvrtc
def test_a_check_stops_at_the_first_wrong_shape_and_goes_on_when_asked():
    wrong = but(("= sum;", "= N > 256 ? -1.0f : sum;"))
    first = labs.check("2", wrong)
    every = labs.check("2", wrong, every_shape=True)
    assert len(first.marked.tried) < len(every.marked.tried) == every.marked.all == 9
    assert "Stopped at the first wrong shape" in first.foot and "every_shape=True" in first.foot
    assert "Stopped" not in every.foot and first.points <= every.points


@pytest.mark.nvrtc
def test_submit_takes_the_last_check_of_what_it_hands_in(tmp_path, monkeypatch):
    ran, own = list[str](), checking.check
    check = lambda *a, **k: (ran.append("x"), own(*a, **k))[1]  # noqa: E731
    monkeypatch.setattr(working.checking, "check", check)
    (tmp_path / "lab2.cu").write_text(WRONG["nothing"])
    found = labs.check("2", folder=tmp_path)
    submission = labs.submit("2", folder=tmp_path)
    assert len(ran) == 1 and f"{found.points} of {found.most} points" in str(submission)
    (tmp_path / "lab2.cu").write_text(WRONG["nothing"] + "// changed")
    labs.submit("2", folder=tmp_path)
    assert len(ran) == 2  # the control


@pytest.mark.nvrtc
def test_no_student_is_told_of_the_machines_inside():
    endless = but(("    float sum = 0.0f;", "    float sum = 0.0f;\n    while (K) sum += 1.0f;"))
    spec = replace(TWO.specification(TWO.variants[0]), seconds=1.0)
    m = mark(endless, spec, cases(spec, b"a secret of a course", 1)[-1:], lock=False)
    words = str(checking.judged(TWO, TWO.variants[0], m))
    assert "does not come to an end" in words and "max_" not in words and HONEST


# -- feedback --------------------------------------------------------------------------------------

VILE = "total\x1b[2J\u202eevil <b> http://x"


def feedback_of(marked=BANKS, **more):
    found = checking.judged(TWO, TWO.variants[0], marked)
    given = {p.rubric.id: None if p.rubric.by_hand else p.points for p in found.parts}
    facts = {"checked": found, "points": given, "given": {}, "notes": ()}
    return Feedback(TWO, **(facts | {"closing": ("Total: 42 of 100 points",)} | more))


def test_whatever_is_written_stays_words():
    plain = text(
        feedback_of(Marked(VILE, "compile", VILE), notes=(VILE, "look: for the teacher"),
             given={"written": Override(7.5, VILE)})
    )  # fmt: skip
    unseen = r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]"
    assert re.search(unseen, VILE) and not re.search(unseen, plain)
    assert plain.count("evil <b>") == 3 and "for the teacher" not in plain


def test_it_tells_every_part_and_what_a_person_gave():
    facts = feedback_of(
        given={"wavefronts": Override(7.5, "explained the banks")}, notes=("2 files",)
    )
    plain = text(facts)
    for part in facts.checked.parts if facts.checked else ():
        assert part.words in plain and part.rubric.id in plain
    for words in ("explained the banks", "2 files", "Total: 42 of 100 points", "attempt 1"):
        assert words in plain
    assert "no submission" in text(feedback_of(checked=None))


def test_long_words_are_cut():
    runs = tuple(replace(RIGHT.runs[0], findings=(("race", 1, "&" * 5000),)) for _ in range(3))
    long = feedback_of(replace(RIGHT, runs=runs), notes=tuple("&" * 5000 for _ in range(2000)))
    many = feedback_of(
        given={p.id: Override(1, "ä" * 10_000) for p in TWO.parts}, notes=("\ud800",) * 30
    )
    for one in (long, many):
        assert 1000 < len(text(one).encode()) <= MOST_FEEDBACK
