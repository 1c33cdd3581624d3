"""What a teacher decides beside the facts: groups, due dates, late days, extensions, and who handed
nothing in.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from helpers import __main__ as cli
from nogpu.errors import DataError
from tilelabs import labs
from tilelabs.grading import judging, report
from tilelabs.grading.collecting import Submission
from tilelabs.grading.grouping import groups, once
from tilelabs.grading.judging import Result
from tilelabs.grading.stamps import keep, kept, timestamps
from tilelabs.judging.marking import Case, Marked, Run
from tilelabs.labs import courses
from tilelabs.labs.policies import moment

TWO = labs.lab("2")
RIGHT = Marked(
    compiler="NVRTC", registers=32,
    runs=(Run(Case(40, 40, 40, 1, counted=True), "ascending", of=1600),),
)  # fmt: skip
"""Every point that needs no person: 90."""
BANKS = replace(RIGHT, runs=(replace(RIGHT.runs[0], wavefronts=10**6),))
"""75 points."""


def made(student: str, marked: Marked = RIGHT, **more: object) -> Result:
    rest = {"version": TWO.version, "variant": TWO.variants[0].name, "attempt": 1, "key": "k"}
    return Result(student, "", f"{student}.cu", "2", marked=marked, **(rest | more))  # type: ignore[arg-type]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    courses.new(tmp_path / "course")
    return tmp_path


def write(place: Path, *found: Result, **tables: str) -> None:
    for one in found:
        judging._write(place / "out" / "lab-2" / judging.file_name(one.student), one)
    for name, text in tables.items():
        (place / "course" / f"{name}.csv").write_text(text, encoding="utf-8")


def decide(place: Path, text: str) -> None:
    """Put lines before the tables of course.toml, and tables behind."""
    path = place / "course" / "course.toml"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    own = [line for line in lines if line.startswith(("name =", "secret ="))]
    path.write_text("".join(own) + text, encoding="utf-8")


def marks(place: Path) -> dict[str, dict[str, str]]:
    report(TWO, courses.read(place / "course"), place / "out")
    with (place / "out" / "lab-2-marks.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def times(place: Path, **at: str) -> None:
    keep(TWO, {s: moment(text, UTC) for s, text in at.items()}, place / "out")


# -- groups
# ------------------------------------------------------------------------------------------

G = "student,group,lab\n"


def test_a_group_is_judged_once_and_each_member_has_a_row(place: Path) -> None:
    write(place, groups=f"{G}s1,one,\ns2,one,\ns3,one,3\ns4,,\n")
    of = groups(courses.read(place / "course"), TWO)
    assert of == {"one": ("s1", "s2")}  # s3 is in it for lab 3, s4 in none
    same = [Submission(s, s, f"{s}.cu", b"x") for s in ("s1", "s2", "s3", "s4")]
    kept_, also = once(same, of)
    assert [s.student for s in kept_] == ["s1", "s3", "s4"] and also == {"s2"}
    assert kept_[0].also == (("s2", "s2.cu"),)
    other = [*same[:1], replace(same[1], raw=b"y"), *same[2:]]
    assert len(once(other, of)[0]) == 4 and not once(same, {})[1]

    write(place, made("s1"), overrides="student,lab,part,points,reason\ns2,2,written,10,asked\n")
    rows = marks(place)
    assert {s: rows[s]["raw"] for s in rows} == {"s1": "100", "s2": "100"}
    assert "group one: handed in by s1" in rows["s2"]["notes"]
    write(place, groups=G)
    with pytest.raises(
        DataError, match="no student with the id 's2'"
    ):  # control: without the group
        marks(place)


def test_of_two_submissions_of_a_group_the_latest_counts_or_else_the_better(place: Path) -> None:
    write(place, made("s1"), made("s2", BANKS), groups=f"{G}s1,one,\ns2,one,\n")
    rows = marks(place)
    assert rows["s1"]["raw"] == rows["s2"]["raw"] == "90"
    assert rows["s2"]["notes"] == (
        "group one: handed in by s1, whose submission counts, with the most points; others: s2"
    )
    times(place, s1="2026-12-01T10:00", s2="2026-12-01T11:00")
    rows = marks(place)
    assert rows["s1"]["raw"] == rows["s2"]["raw"] == "75" and "the latest" in rows["s1"]["notes"]
    times(place, s2="2026-12-01T11:00")  # of one nobody says: the better again
    assert marks(place)["s1"]["raw"] == "90"


def test_who_is_in_two_groups_is_named(place: Path) -> None:
    write(place, groups=f"{G}s1,one,\ns1,two,\n")
    with pytest.raises(
        DataError, match=r"groups\.csv, line 3: 's1' is in the groups 'one' and 'two'"
    ):
        groups(courses.read(place / "course"), TWO)
    write(place, groups=f"{G}s1,one,2\ns1,two,3\n")
    assert groups(courses.read(place / "course"), TWO) == {"one": ("s1",)}


# -- late days
# ---------------------------------------------------------------------------------------

DUE = 'timezone = "Europe/Berlin"\n[due]\n2 = "2026-12-01T23:59+01:00"\n'


def test_a_changed_due_date_changes_final_alone(place: Path) -> None:
    write(place, *(made(s) for s in ("s1", "s2", "s3")))
    before = {p: p.read_bytes() for p in (place / "out" / "lab-2").iterdir()}
    at = {"s1": "2026-12-01T22:59:00", "s2": "2026-12-01T22:59:01", "s3": "2026-12-03T23:00"}
    times(place, **at)
    plain = marks(place)
    assert {r["final"] for r in plain.values()} == {"90"} and plain["s3"]["days late"] == ""
    decide(place, DUE)
    rows = marks(place)
    assert [rows[s]["days late"] for s in at] == ["0", "1", "3"] and rows["s3"]["final"] == "90"
    decide(place, f"{DUE}[late]\npoints_per_day = 10\n")
    rows = marks(place)
    assert [rows[s]["final"] for s in at] == ["90", "80", "60"]
    assert {r["raw"] for r in rows.values()} == {"90"}
    words = (place / "out" / "lab-2-feedback" / "s3.txt").read_text(encoding="utf-8")
    assert "3 days late: 30 points less" in words and "Final: 60 of 100 points" in words
    decide(place, f"{DUE.replace('01T', '02T')}[late]\npoints_per_day = 10\n")
    later = marks(place)
    assert [later[s]["final"] for s in at] == ["90", "90", "70"]
    for s in at:
        moved = {c for c in rows[s] if rows[s][c] != later[s][c]}
        assert moved <= {"final", "days late"}
    assert {p: p.read_bytes() for p in (place / "out" / "lab-2").iterdir()} == before


def test_an_extension_is_one_students_due_date(place: Path) -> None:
    write(place, made("s1"), made("s2"), groups=f"{G}s1,one,\ns2,one,\n")
    times(place, s1="2026-12-03T12:00Z", s2="2026-12-02T12:00Z")
    decide(place, f"{DUE}[late]\npoints_per_day = 10\n")
    write(place, extensions="student,lab,due\ns2,2,2026-12-03T23:59\ns1,3,2027-01-01T00:00Z\n")
    rows = marks(place)
    assert (rows["s1"]["final"], rows["s2"]["final"]) == ("70", "90")
    write(place, extensions="student,lab,due\ns2,2,soon\n")
    with pytest.raises(
        DataError, match=r"extensions\.csv, line 2: it is due at 'soon', which is no time"
    ):
        marks(place)


def test_free_days_are_spent_over_the_course_and_first(place: Path) -> None:
    write(place, made("s1"), made("s2"))
    times(place, s1="2026-12-03T12:00Z", s2="2026-12-03T12:00Z")  # two days late
    decide(place, f'{DUE}1 = "2026-11-01T00:00Z"\n[late]\npoints_per_day = 10\nfree_days = 3\n')
    rows = marks(place)
    assert rows["s1"]["final"] == "90" and rows["s1"]["days late"] == "2"
    one = labs.lab("2")  # an earlier lab of the same folder, in which s1 spent two of three
    earlier = replace(one, number="1")
    judging._write(place / "out" / "lab-1" / judging.file_name("s1"), replace(made("s1"), lab="1"))
    keep(earlier, {"s1": moment("2026-11-02T12:00Z")}, place / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tilelabs.grading.reporting.lab", lambda n: earlier if n == "1" else one)
        rows = marks(place)
    assert (rows["s1"]["final"], rows["s2"]["final"]) == ("80", "90")


def test_points_never_fall_below_nothing(place: Path) -> None:
    write(place, made("s1"))
    times(place, s1="2027-12-03T12:00Z")
    decide(place, f"{DUE}[late]\npoints_per_day = 10\n")
    assert marks(place)["s1"]["final"] == "0"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[due]\n2 = "2026-12-01"', "lab 2 is due at '2026-12-01', which is no time such as"),
        ('[due]\n2 = "2026-12-01T23:59"', "which names no offset"),
        ("[due]\n2 = 2026-12-01", "which is no time such as"),
        ("[due]\n2 = 7", "which is no time such as"),
        ("[late]\npoints_per_days = 3", "[late] has no points_per_days"),
        ("[late]\npoints_per_day = -3", "points_per_day is -3"),
        ("[late]\nfree_days = 1.5", "days are whole"),
        ("[late]\nfree_days = true", "free_days is True"),
        ('missing = "none"', "missing is 'none', and may be empty or zero"),
        ('timezone = "Mars"', "this machine knows none of that name"),
        ("late = 3", "course.toml is damaged"),
        ("due = 3", "course.toml is damaged"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused_in_one_line(
    text: str, told: str, place: Path
) -> None:
    decide(place, text + "\n")
    with pytest.raises(DataError, match=r"course\.toml") as refused:
        courses.read(place / "course")
    assert told in str(refused.value) and "\n" not in str(refused.value)


# -- times
# -------------------------------------------------------------------------------------------

HEAD = "Identifier,Full name,Status,Grade,Maximum grade,Last modified (submission),Last modified (grade)\n"


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("student,time\n1,2026-06-10T14:14+02:00\n2,\n", 10),
        ("student,time\n1,2026-06-10 12:14:00 UTC\n1,2026-06-09T12:14:00Z\n", 10),
        ("id,user_id,submitted_at\n7,1,2026-06-10T12:14:00Z\n8,2,\n", 10),
        (f'\ufeff{HEAD}Participant 1,Ada,Submitted,,100,"Wednesday, 10 June 2026, 2:14 PM",-\n', 10),
        (f'{HEAD}Participant 1,Ada,Submitted,,100,"Wednesday, June 10, 2026, 2:14\u202fPM",-\n', 10),
        (f'{HEAD}Participant 1,Ada,Submitted,,100,"Wednesday, 10 June 2026, 14:14",-\nParticipant 2,B,No submission,,100,-,-\n', 10),
    ],
)  # fmt: skip
def test_times_of_platforms_are_read(text: str, day: int, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    zone = courses.policy({"timezone": "Europe/Berlin"}).zone
    found = timestamps(tmp_path / "t.csv", zone)
    assert set(found) == {"1"}
    assert found["1"].astimezone(UTC) == datetime(2026, 6, day, 12, 14, tzinfo=UTC)
    keep(TWO, found, tmp_path)
    assert (
        kept("2", tmp_path) == found and (tmp_path / "lab-2-times.csv").stat().st_mode & 0o77 == 0
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n", "no columns of times that are known"),
        ("", "no columns of times that are known"),
        ("student,time\n1,yesterday\n", "line 2: 'yesterday', which is no time"),
        ("student,time\n1,2026-06-10T14:14\n", "names no offset"),
        (f'{HEAD}Participant 1,A,S,,100,"mercredi 10 mars 2026, 14:14",-\n', "which is no time such as"),
        (f'{HEAD}Participant 1,A,S,,100,"Wednesday, 10 June 2026, 14:14",-\n', "names no offset"),
        ("student,time\n1\n", "line 2: no time"),
        ("student,time\n\x00,1\n", "t.csv"),
    ],
)  # fmt: skip
def test_times_that_do_not_fit_are_refused(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"t\.csv") as refused:
        timestamps(tmp_path / "t.csv", None)
    assert told in str(refused.value) and "\n" not in str(refused.value)


def test_a_table_in_another_encoding_is_one_line(tmp_path: Path) -> None:
    for encoding in ("utf-16", "latin-1"):
        (tmp_path / "t.csv").write_bytes("student,time\n\xe4,2026-06-10T14:14Z\n".encode(encoding))
        with pytest.raises(DataError, match="Save it as CSV in UTF-8"):
            timestamps(tmp_path / "t.csv", None)
    with pytest.raises(DataError, match="is no file"):
        timestamps(tmp_path / "none.csv", None)


def test_times_are_given_once_at_the_terminal(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(place, made("s1"))
    decide(place, f"{DUE}[late]\npoints_per_day = 10\n")
    (place / "t.csv").write_text("student,time\ns1,2026-12-02T12:00+01:00\n", encoding="utf-8")
    asked = ["report", "2", "--course", str(place / "course"), "--out", str(place / "out")]
    assert cli.main(asked) == 0 and "--timestamps" in capsys.readouterr().out
    assert cli.main([*asked, "--timestamps", str(place / "t.csv")]) == 0
    assert "nothing comes off" not in capsys.readouterr().out
    assert cli.main(asked) == 0 and marks(place)["s1"]["final"] == "80"


# -- nothing handed in
# -------------------------------------------------------------------------------


@pytest.mark.parametrize(("choice", "shown"), [("empty", ""), ("zero", "0")])
def test_nothing_handed_in_is_empty_or_zero_by_choice(choice: str, shown: str, place: Path) -> None:
    write(place, made("s1"), roster="id,name\ns1,Ada\ns9,Nobody\n")
    decide(place, f'missing = "{choice}"\n')
    row = marks(place)["s9"]
    assert {row[c] for c in ("right", "written", "raw", "final")} == {shown}
    assert row["notes"] == "no submission" and marks(place)["s1"]["written"] == ""
    words = (place / "out" / "lab-2-feedback" / "s9.txt").read_text(encoding="utf-8")
    assert "no submission" in words
    write(place, overrides="student,lab,part,points,reason\ns9,2,written,5,oral\n")
    assert marks(place)["s9"]["raw"] == "5"
