"""A folder of submissions: whose they are, what is judged, how a cut run goes on, the marks."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
import zipfile

import pytest
from classes import LOCK, OVERRIDES, UNLOCKED, course_of, hand_in, lay, line, table
from test_labs import CONFLICT

from helpers import __main__ as cli
from nogpu.errors import ConfigError, DataError, SourceError
from tests.common import ROOT
from tilelabs import apart, labs
from tilelabs.grading import Row, collect, collecting, feedback_zip, fill, grade, judging, report
from tilelabs.grading.collecting import owners
from tilelabs.grading.tables import RECORD, inert
from tilelabs.judging import notebooks
from tilelabs.labs import courses
from tools import classroom, hostile
from tools.hostile import HONEST, notebook

pytestmark = pytest.mark.nvrtc

TWO = labs.lab("2")


def kernel_of(raw, entry):
    return collecting.kernel_of(notebooks.read(raw, "")[0], entry)


# -- whose -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("Ada Lovelace_1234567_assignsubmission_file_/lab2.cu", ("1234567", "Ada Lovelace", False)),
        (
            "Ada Lovelace_1234567_assignsubmission_file/deep/lab2.ipynb",
            ("1234567", "Ada Lovelace", False),
        ),
        ("lovelaceada_4711_99_lab2.cu", ("4711", "lovelaceada", False)),
        ("lovelaceada_LATE_4711_99_lab2-2.ipynb", ("4711", "lovelaceada", True)),
        ("s042/lab2.cu", ("s042", "s042", False)),
        ("s042.cu", ("s042", "s042", False)),
        ("Дарья_7_assignsubmission_file_/lab2.cu", ("7", "Дарья", False)),
    ],
)
def test_whose_a_file_is_the_platform_says(file, found):
    assert owners([file]) == {file: found}


def test_a_folder_and_its_zip_hold_the_same(tmp_path):
    """Of a student's files the last attempt counts, and one that is no kernel is named."""
    none = ("notes.txt", "lab2.zip", "lab2.py", "lab2")
    folder = lay(tmp_path / "download", **{
        "a_1_9_lab2-9.cu": HONEST, "a_1_9_lab2-10.cu": CONFLICT, "a_1_9_lab2.cu": HONEST,
        "b_LATE_2_9_x.ipynb": notebook("%%cuda lab2\n" + HONEST), "c_3_9_lab2.ipynb": notebook("print(1)"),
        "d_4_9_lab2.ipynb": "{", **{f"e_{5 + n}_9_{name}": HONEST for n, name in enumerate(none)},
    })  # fmt: skip
    with zipfile.ZipFile(tmp_path / "download.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, path.name)
    found = collect(folder, "lab2")
    assert found == collect(tmp_path / "download.zip", "lab2")
    assert [s.student for s in found] == [*"12345678"]
    assert [s.late for s in found] == [False, True, *[False] * 6]
    one, two, three, four, *rest = found
    earlier = {"a_1_9_lab2-9.cu", "a_1_9_lab2.cu"}
    assert one.raw == CONFLICT.encode()
    assert set(one.untaken) == {(file, "an earlier kernel") for file in earlier}
    assert one.notes[0].startswith("3 files; a_1_9_lab2-10.cu counts, and not a_1_9_lab2")
    assert "2 different kernels" in one.notes[1]
    assert two.raw == b"\n" + HONEST.encode() and "no cell begins with %%cuda lab2" in three.problem
    assert "no notebook" in four.problem and four.raw is None
    for s, name in zip(rest, none, strict=True):
        assert s.raw is None and f"{name} is no .cu or .ipynb file" in s.problem


def test_nothing_to_collect_is_said(tmp_path):
    with pytest.raises(ConfigError, match="no submissions"):
        collect(tmp_path, "lab2")
    (tmp_path / "x.zip").write_bytes(b"PK no zip")
    with pytest.raises(ConfigError, match="neither a folder nor a zip"):
        collect(tmp_path / "x.zip", "lab2")


def test_a_link_to_another_file_is_no_submission(tmp_path):
    folder = hand_in(tmp_path / "in", s2=HONEST)
    (folder / "s1.cu").symlink_to(hand_in(tmp_path, secret="canary") / "secret.cu")
    one, two = collect(folder, "lab2")
    assert one.raw is None and "is a link" in one.problem and two.raw == HONEST.encode()


def test_the_kernel_is_found_by_its_first_line():
    for head in ("%%cuda lab2", "%%cuda lab2 grid=1", "\n%%cuda  lab2", "%%writefile lab2.cu"):
        # lines as in the file, or as in the cell
        below = HONEST if "writefile" in head else f"\n{HONEST}"
        assert kernel_of(notebook("x = 1", f"{head}\n{HONEST}"), "lab2") == (below, [])
    text, notes = kernel_of(notebook(f"%%cuda lab2\n{CONFLICT}", f"%%cuda lab2\n{HONEST}"), "lab2")
    assert text == f"\n{HONEST}" and notes == ["2 cells begin with %%cuda lab2; the last counts"]
    large = notebook("%%cuda lab2\n" + HONEST, outputs="y" * 5_000_000)
    assert kernel_of(large, "lab2")[0] == f"\n{HONEST}"
    for raw in (
        b"",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        notebook("%%cuda lab22\nx"),
        notebook("# %%cuda lab2\nx"),
    ):
        with pytest.raises(SourceError):
            kernel_of(raw, "lab2")


def test_a_file_too_large_is_not_read(tmp_path):
    (tmp_path / "s2.cu").write_bytes(b"y" * 1_000_000)
    [s] = collect(tmp_path, "lab2")
    assert len(s.raw or b"") == 256_001


# -- courses ---------------------------------------------------------------------------------------


def test_a_course_is_made_once_and_keeps_its_secret(tmp_path):
    one, other = courses.new(tmp_path / "a"), courses.new(tmp_path / "b", 'the "best"')
    assert one.secret != other.secret and other.name == 'the "best"' and len(one.secret) == 32
    assert (tmp_path / "a" / "course.toml").stat().st_mode & 0o77 == 0
    assert (tmp_path / "a" / ".gitignore").read_text() == "*\n"
    for name in courses.TABLES:
        assert (tmp_path / "a" / name).stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "a" / name).read_text() == courses.TABLES[name]
    assert one.secret.hex() not in repr(one)
    with pytest.raises(ConfigError, match="is there already"):
        courses.new(tmp_path / "a")
    assert courses.read(tmp_path / "a") == one
    drawn = {courses.new(tmp_path / f"c{i}").variant(TWO).name for i in range(24)}
    assert len(drawn) > 1


# -- judging ---------------------------------------------------------------------------------------

CLASS = {
    "s1": HONEST,
    "s2": CONFLICT,
    "s3": hostile.WRONG["edge"],
    "s4": hostile.READS["the environment"],
    "s5": hostile.HEADS["float M"][0],
}


def files(out):
    every = (p.relative_to(out) for p in out.rglob("*") if p.is_file() and p.name != RECORD)
    return {p.as_posix(): (out / p).read_bytes() for p in every if p.parent.name != "history"}


def test_a_class_is_judged_reported_and_judged_again_only_where_it_changed(
    tmp_path, course, monkeypatch
):
    monkeypatch.setenv("SECRET_TOKEN", hostile.SECRET)
    folder, out, messages = hand_in(tmp_path / "in", **CLASS), tmp_path / "out", list[str]()
    (course.folder / "roster.csv").write_text("id,name\ns1,Ada\ns2,=cmd()\ns9,Nobody\n")
    found = grade(TWO, collect(folder, "lab2"), course, out, lock=LOCK, tell=messages.append)
    assert [r.student for r in found] == list(CLASS)
    assert messages[0] == "5 submissions, 0 judged before"
    rows = {r.student: r for r in report(TWO, course, out)}
    some = [rows[s].total for s in ("s2", "s3")]
    assert [rows[s].total for s in CLASS] == [90, *some, 0, 0] and 55 < some[0] < 75
    assert 5 < rows["s3"].total < 55 and rows["s9"].total == 0
    assert rows["s9"].notes == ("no submission",)
    one, two, *_, nobody = table(out / "lab-2-marks.csv").values()
    assert (one["total"], one["written"], one["name"]) == ("90", "", "Ada")
    assert two["name"] == "'=cmd()" and nobody["right"] == ""
    words = (out / "lab-2-feedback" / "s5.txt").read_text(encoding="utf-8")
    assert "parameter 4 of lab2 is 'float rows'" in words and "written not marked yet" in words
    everything = b"".join(files(out).values()).decode()
    assert hostile.SECRET not in everything and course.secret.hex() not in everything

    before = files(out)
    grade(TWO, collect(folder, "lab2"), course, out, lock=LOCK, tell=messages.append)
    assert messages[-1] == "5 submissions, 5 judged before" and files(out) == before
    hand_in(folder, s3=HONEST)
    grade(TWO, collect(folder, "lab2"), course, out, lock=LOCK, tell=messages.append)
    assert messages[-3:-1] == ["5 submissions, 4 judged before", "1/1 s3: 9 of 9 shapes right"]
    report(TWO, course, out)
    changed = {name for name, raw in files(out).items() if raw != before[name]}
    result = f"lab-2/{judging.file_name('s3')}"
    assert changed == {result, "lab-2-marks.csv", "lab-2-feedback/s3.txt"}


def test_a_run_that_is_killed_goes_on_and_ends_with_the_same_bytes(tmp_path, course):
    """Beside bombs, which change no byte of their neighbours."""
    honest = dict(list(CLASS.items())[:4])
    bombs = {"t1": hostile.BOMBS["parentheses"], "t2": hostile.BOMBS["printf"]}
    loud = hand_in(tmp_path / "loud", **honest, **bombs)
    killed = classroom.graded_by_killed_runs(loud, course.folder, tmp_path / "cut", 3, after=1)
    assert killed >= 3
    quiet = collect(hand_in(tmp_path / "quiet", **honest), "lab2")
    grade(TWO, quiet, course, tmp_path / "whole", lock=LOCK)
    for place in ("whole", "cut"):
        report(TWO, course, tmp_path / place)
    cut, whole = (files(tmp_path / place) for place in ("cut", "whole"))
    for name, raw in whole.items():
        same = cut[name][: len(raw)] if name.endswith(".csv") else cut[name]  # bombs have rows
        assert same == raw, name


# -- marks -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    place = tmp_path_factory.mktemp("graded")
    course = course_of(place / "course")
    found = collect(hand_in(place / "in", s1=HONEST, s2=CONFLICT), "lab2")
    grade(TWO, found, course, place / "out", lock=LOCK)
    return course, place / "out"


def given(course, *rows):
    lay(course.folder, **{"overrides.csv": OVERRIDES + "".join(f"{row}\n" for row in rows)})


def test_what_a_person_gives_is_applied_last_and_stays(graded):
    course, out = graded
    override = "s2,2,wavefronts,7.5,asked in the lab: explained the banks"
    given(course, override, "s1,2,written,9,", "s1,3,right,0,another lab")
    first = {r.student: r for r in report(TWO, course, out)}
    counted = int(re.search(r"wavefronts 7.5/8 \(counted: (\d+)\): asked", first["s2"].feedback)[1])
    assert first["s1"].total == 99 and 0 < counted < 8
    grade(TWO, collect(out.parent / "in", "lab2"), course, out, lock=LOCK, attempt=2)
    again = {r.student: r.total for r in report(TWO, course, out)}
    assert again["s1"] == 99 and abs(again["s2"] - first["s2"].total) <= 4
    given(course)
    rest = {r.student: r.total for r in report(TWO, course, out)}
    assert rest["s1"] == 90 and rest["s2"] != again["s2"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("s1,2,speed,3,", "line 2: lab 2 has no part 'speed'"),
        ("s1,2,right,25,", "'25' points; right has 0 to 20"),
        ("s1,2,right,many,", "'many' points"),
        ("s1,2,right,nan,", "'nan' points"),
        ("s7,2,right,3,", "no student with the id 's7'; did you mean s"),
        ("s1,2", "line 2: no part, points, reason"),
    ],
)
def test_an_override_that_does_not_fit_is_refused_and_nothing_is_written(row, message, graded):
    course, out = graded
    given(course)
    report(TWO, course, out)
    before = files(out)
    given(course, row)
    with pytest.raises(DataError, match=r"overrides\.csv") as refused:
        report(TWO, course, out)
    assert message in str(refused.value) and files(out) == before
    given(course)


def test_cells_are_inert():
    for cell in ("=1+1", "+cmd", "-2", "@x", "\t=1", "\r=1"):
        assert inert(cell).startswith("'")
    assert inert("Ada = x") == "Ada = x"


# -- at the terminal -------------------------------------------------------------------------------


def test_from_a_new_course_to_marks_at_the_terminal(tmp_path, capsys):
    place, out = tmp_path / "course", tmp_path / "out"
    folder = hand_in(tmp_path / "in", s1=HONEST)
    assert cli.main(["course", "new", str(place)]) == 0
    assert "keep it to yourself" in capsys.readouterr().out
    assert cli.main(["course", "new", str(place)]) == 2
    assert cli.main(line(tmp_path, "report", "2")) == 2
    assert "run grade first" in capsys.readouterr().err
    assert cli.main(line(tmp_path, "grade", "2", str(folder), *UNLOCKED)) == 0
    assert "1/1 s1" in capsys.readouterr().out
    assert cli.main(line(tmp_path, "report", "2")) == 0
    assert "1 student" in capsys.readouterr().out and (out / "lab-2-marks.csv").is_file()
    (tmp_path / "export.csv").write_text(MOODLE.replace("Participant 1", "s1"), encoding="utf-8")
    assert cli.main(line(tmp_path, "report", "2", "--gradebook", str(tmp_path / "export.csv"))) == 0
    output = capsys.readouterr().out
    assert "0 students in the column 'Grade'" in output and "written not marked yet: s1" in output
    assert (out / "lab-2-feedback.zip").is_file() and (out / "lab-2-gradebook.csv").is_file()


def test_without_a_lock_grading_is_asked_for_in_words(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(apart, "landlock", lambda: 0)
    courses.new(tmp_path / "course")
    command = line(tmp_path, "grade", "2", str(hand_in(tmp_path / "in", s1=HONEST)))
    assert cli.main(command) == 2
    assert "--without-landlock" in capsys.readouterr().err
    assert cli.main([*command, "--without-landlock"]) == 0


def test_labs_know_nothing_of_grading():
    code = "import sys, tilelabs.labs.courses; print([m for m in sys.modules if 'grading' in m])"
    output = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    assert output.strip() == "[]"


# -- gradebooks ------------------------------------------------------------------------------------

CANVAS = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Lab 1 (11),Lab 2 (12),Final Score\r\n    Points"
    ' Possible,,,,,100,100,(read only)\r\n"Lovelace, Ada",1,u1,ada,"A, early",50,,3\r\n"Babbage,'
    ' Charles",2,u2,cb,A,,7,\r\nNobody,9,u9,nb,A,1,2,3\r\n'
)
MOODLE = (
    "\ufeffIdentifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be"
    " changed,Feedback comments\nParticipant 1,Ada"
    " Lovelace,a@example.org,Submitted,,100,Yes,\nParticipant 2,Charles"
    " Babbage,c@example.org,Submitted,,100,Yes,kept\nParticipant 9,Nobody,n@example.org,No"
    " submission,,100,Yes,\n"
)


def marks(student, written):
    parts = {"right": 40.0, "clean": 15.0, "sectors": 20.0, "wavefronts": 7.5, "written": written}
    return Row(student, "", parts, False, (), f"words for {student}\n")


ROWS = (marks("1", 9.0), marks("2", 0.0), marks("7", 3.0))


@pytest.mark.parametrize(
    ("export", "column"), [(CANVAS, "Lab 2 (12)"), (MOODLE, "Grade")], ids=["Canvas", "Moodle"]
)
def test_a_gradebook_is_filled_in_and_nothing_else_changes(export, column, tmp_path):
    (tmp_path / "export.csv").write_bytes(export.encode())
    filled = fill(TWO, ROWS, tmp_path / "export.csv", tmp_path)
    assert (filled.column, filled.students) == (column, 2)
    assert (filled.without, filled.unknown) == (("9",), ("7",))
    text = filled.path.read_bytes().decode()
    assert text.startswith("\ufeff") == export.startswith("\ufeff")
    assert ("\r\n" in text) == ("\r\n" in export)

    def cells(of):
        return list(csv.reader(io.StringIO(of.removeprefix("\ufeff"))))

    before, after = cells(export), cells(text)
    at = before[0].index(column)
    rest = [[row[:at] + row[at + 1 :] for row in of] for of in (before, after)]
    assert rest[0] == rest[1]
    who = before[0].index("ID" if "ID" in before[0] else "Identifier")
    points = {row[who].removeprefix("Participant "): row[at] for row in after[1:]}
    assert (points["1"], points["2"]) == ("91.5", "82.5")


def test_what_is_not_marked_by_hand_yet_is_left_alone(tmp_path):
    (tmp_path / "export.csv").write_bytes(CANVAS.encode())
    filled = fill(TWO, (marks("1", None), marks("2", 1.0)), tmp_path / "export.csv", tmp_path)
    assert filled.students == 1 and "1" in filled.without
    assert filled.left == {"written not marked yet": ("1",), "nothing handed in": ("9",)}
    assert '"Lovelace, Ada",1,u1,ada,"A, early",50,,3' in filled.path.read_text(encoding="utf-8")
    nothing = Row("2", "", dict.fromkeys(marks("2", 0).parts), False, ("no submission",), "")
    filled = fill(TWO, (marks("1", 1.0), nothing), tmp_path / "export.csv", tmp_path)
    assert filled.left == {"nothing handed in": ("2", "9")}


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a,b\n1,2\n", "", "no platform that is known"),
        ("", "", "no platform that is known"),
        (CANVAS, "Lab", "2 columns begin with 'Lab'"),
        (CANVAS, "Exam", "no column begins with 'Exam'"),
        (CANVAS.replace("Lab 2", "Week 2"), "", "no column begins with 'lab 2'"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(text, column, message, tmp_path):
    (tmp_path / "export.csv").write_bytes(text.encode())
    with pytest.raises(DataError, match=r"export\.csv") as refused:
        fill(TWO, ROWS, tmp_path / "export.csv", tmp_path, column=column)
    assert message in str(refused.value) and not (tmp_path / "lab-2-gradebook.csv").exists()


def test_feedback_goes_back_into_the_folders_of_the_download(tmp_path):
    lay = {"1": "Ada_1_assignsubmission_file_/lab2.cu", "2": "b_2_9_lab2.cu"}
    once = feedback_zip(TWO, ROWS, lay, tmp_path).read_bytes()
    assert feedback_zip(TWO, ROWS, lay, tmp_path).read_bytes() == once
    with zipfile.ZipFile(io.BytesIO(once)) as archive:
        folders = ("Ada_1_assignsubmission_file_", "b_2_9_lab2")
        assert archive.namelist() == [f"{folder}/lab-2-feedback.txt" for folder in folders]
        assert archive.read(archive.namelist()[0]) == b"words for 1\n"
