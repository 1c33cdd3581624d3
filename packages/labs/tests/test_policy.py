"""What a teacher decides beside the facts: groups, and who handed nothing in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from classes import GROUPS as G
from classes import OVERRIDES, table

from nogpu.errors import DataError
from tilelabs import labs
from tilelabs.grading import judging, report
from tilelabs.grading.collecting import Submission
from tilelabs.grading.grouping import groups, once
from tilelabs.grading.judging import Result
from tilelabs.judging.marking import Case, Marked, Run
from tilelabs.labs import courses

TWO = labs.lab("2")
RIGHT = Marked(
    compiler="NVRTC", registers=32,
    runs=(Run(Case((("M", 40),), 1, counted=True, work=48**3), "ascending", of=1600, wavefronts=4000),),
)  # fmt: skip
"""Every point that needs no person: 90."""
BANKS = replace(RIGHT, runs=(replace(RIGHT.runs[0], wavefronts=10**6),))
"""36 points."""


def made(student, marked=RIGHT, **more):
    rest = {"version": TWO.version, "variant": TWO.variants[0].name, "attempt": 1, "key": "k"}
    return Result(student, "", f"{student}.cu", "2", marked=marked, **(rest | more))


def write(place, *found, **tables):
    for one in found:
        judging._write(place / "out" / "lab-2" / judging.file_name(one.student), one)
    for name, text in tables.items():
        (place / "course" / f"{name}.csv").write_text(text, encoding="utf-8")


def decide(place, text):
    """Put lines before the tables of course.toml, and tables behind."""
    path = place / "course" / "course.toml"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    own = [line for line in lines if line.startswith(("name =", "secret ="))]
    path.write_text("".join(own) + text, encoding="utf-8")


def reported(place):
    return report(TWO, courses.read(place / "course"), place / "out")


def marks(place):
    reported(place)
    return table(place / "out" / "lab-2-marks.csv")


# -- groups ----------------------------------------------------------------------------------------


def test_a_group_is_judged_once_and_each_member_has_a_row(place):
    write(place, groups=f"{G}s1,one,\ns2,one,\ns3,one,3\ns4,,\n")
    of = groups(courses.read(place / "course"), TWO)
    assert of == {"one": ("s1", "s2")}  # s3 is in it for lab 3, s4 in none
    same = [Submission(s, s, f"{s}.cu", b"x") for s in ("s1", "s2", "s3", "s4")]
    kept_, also = once(same, of)
    assert [s.student for s in kept_] == ["s1", "s3", "s4"] and also == {"s2"}
    assert kept_[0].also == (("s2", "s2.cu"),)
    other = [*same[:1], replace(same[1], raw=b"y"), *same[2:]]
    assert len(once(other, of)[0]) == 4 and not once(same, {})[1]

    write(place, made("s1"), overrides=f"{OVERRIDES}s2,2,written,10,asked\n")
    rows = marks(place)
    assert {s: rows[s]["total"] for s in rows} == {"s1": "100", "s2": "100"}
    assert "group one: handed in by s1" in rows["s2"]["notes"]
    write(place, groups=G)
    # the control: without the group
    with pytest.raises(DataError, match="no student with the id 's2'"):
        marks(place)


def test_of_two_submissions_of_a_group_the_better_counts(place):
    write(place, made("s1"), made("s2", BANKS), groups=f"{G}s1,one,\ns2,one,\n")
    rows = marks(place)
    assert rows["s1"]["total"] == rows["s2"]["total"] == "90"
    assert rows["s2"]["notes"] == (
        "group one: handed in by s1, whose submission counts, with the most points; others: s2"
    )


def test_who_is_in_two_groups_is_named(place):
    write(place, groups=f"{G}s1,one,\ns1,two,\n")
    message = r"groups\.csv, line 3: 's1' is in the groups 'one' and 'two'"
    with pytest.raises(DataError, match=message):
        groups(courses.read(place / "course"), TWO)
    write(place, groups=f"{G}s1,one,2\ns1,two,3\n")
    assert groups(courses.read(place / "course"), TWO) == {"one": ("s1",)}


WHOLE = f'name = "x"\nsecret = "{"00" * 32}"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WHOLE + 'missing = "none"', "missing is 'none', and may be empty or zero"),
        (WHOLE + "[late]\npoints_per_day = 10", "late days are left to the platform"),
        (WHOLE + "variants = 3", "course.toml is damaged"),
        ("", "course.toml is damaged"),
        ("[", "course.toml is damaged"),
        (WHOLE.replace("0", "z"), "course.toml is damaged"),
        (WHOLE.replace("00" * 30, ""), "can be guessed"),
    ],
)
def test_a_course_that_does_not_fit_is_refused_in_one_line(text, message, tmp_path):
    with pytest.raises(DataError, match="course new"):
        courses.read(tmp_path)
    (tmp_path / "course.toml").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"course\.toml") as refused:
        courses.read(tmp_path)
    assert message in str(refused.value) and "\n" not in str(refused.value)


# -- nothing handed in -----------------------------------------------------------------------------


@pytest.mark.parametrize(("choice", "shown"), [("empty", ""), ("zero", "0")])
def test_nothing_handed_in_is_empty_or_zero_by_choice(choice, shown, place):
    write(place, made("s1"), roster="id,name\ns1,Ada\ns9,Nobody\n")
    decide(place, f'missing = "{choice}"\n')
    row = marks(place)["s9"]
    assert {row[c] for c in ("right", "written", "total")} == {shown}
    assert row["notes"] == "no submission" and marks(place)["s1"]["written"] == ""
    words = (place / "out" / "lab-2-feedback" / "s9.txt").read_text(encoding="utf-8")
    assert "no submission" in words
    write(place, overrides=f"{OVERRIDES}s9,2,written,5,oral\n")
    assert marks(place)["s9"]["total"] == "5"
