"""From a download to marks, nothing is lost and nothing is false: each of these was lost once."""

from __future__ import annotations

import csv
import zipfile
from dataclasses import replace

import pytest
from classes import OVERRIDES, lay, line, table
from test_policy import RIGHT, TWO, made, reported, write

from helpers import __main__ as cli
from nogpu.errors import ConfigError, DataError
from tilelabs.grading import collect, feedback_zip
from tilelabs.labs import courses
from tools.hostile import HONEST, WRONG, notebook

GOOD, BAD = HONEST.encode(), WRONG["nothing"].encode()


def zipped(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in files.items():
            archive.writestr(name, raw)
    return path


# -- which file counts -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "files",
    [
        {"s1/lab2_submission.ipynb": notebook(f"%%cuda lab2\n{HONEST}"), "s1/scratch.ipynb": notebook("x = 1")},
        {"s1/lab2.cu": GOOD, "s1/lab3_submission.ipynb": notebook("%%cuda lab3\nlab3(")},
        {"s1/lab2.cu": GOOD, "s1/zz.cu": b"int other() { return 2; }"},
        {"s1/lab2.cu": GOOD, "s1/zz.txt": b"notes"},
    ],
    ids=["a notebook without a kernel", "another lab", "another kernel", "notes"],
)  # fmt: skip
def test_the_file_with_this_labs_kernel_counts(files, tmp_path):
    [s] = collect(zipped(tmp_path / "all.zip", files), "lab2")
    right, other = sorted(files, key=lambda f: "lab2" not in f)
    assert s.raw is not None and s.raw.strip() == GOOD.strip() and s.file == right
    assert [file for file, _ in s.untaken] == [other] and other in s.notes[0]


def test_what_systems_leave_is_nobodys(tmp_path):
    kept = {"s1/lab2.cu": GOOD, "s2/lab2.cu": GOOD}
    junk = {
        "__MACOSX/s1/._lab2.cu": BAD, "s1/._lab2.cu": BAD, "s2/.ipynb_checkpoints/lab2.ipynb": BAD,
        "s2/.DS_Store": b"x",
    }  # fmt: skip
    found = collect(zipped(tmp_path / "all.zip", kept | junk), "lab2")
    assert [s.student for s in found] == ["s1", "s2"] and not any(s.untaken for s in found)
    assert [s.file for s in found] == [*kept]


# -- whose it is -----------------------------------------------------------------------------------


@pytest.mark.parametrize("top", ["submissions/", "a/b/"])
def test_a_folder_on_top_is_no_student(top, tmp_path):
    named = {
        "plain": ["ann/lab2.cu", "ben/lab2.cu"],
        "canvas": ["ann_1_9_lab2.cu", "ben_2_9_lab2.cu"],
        "moodle": ["Ann_1_assignsubmission_file_/lab2.cu", "Ben_2_assignsubmission_file_/x.cu"],
    }
    for names in named.values():
        found = collect(zipped(tmp_path / "all.zip", {f"{top}{n}": GOOD for n in names}), "lab2")
        assert [s.student for s in found] in (["ann", "ben"], ["1", "2"])
        assert [s.file for s in found] == names  # as the platform wants feedback back


def test_many_that_come_out_as_one_are_an_error(tmp_path):
    files = {"lab/ann.cu": GOOD, "lab/ben.cu": BAD, "lab/cy.cu": GOOD + b"// cy"}
    with pytest.raises(ConfigError, match="comes out as one student, 'lab'"):
        collect(zipped(tmp_path / "all.zip", files), "lab2")
    own = collect(zipped(tmp_path / "one.zip", files), "lab2", student=("7", "Ann"))
    assert [s.student for s in own] == ["7"]  # of one student it is right


@pytest.mark.parametrize(
    "forged",
    [
        "1099/x_1006_1_lab2.cu",
        "Gus_1006_assignsubmission_file_/lab2.cu",
        "1099/Gus_1006_assignsubmission_file_/lab2.cu",
    ],
)
def test_nobody_replaces_anothers_work_by_a_name(forged, tmp_path):
    folder = lay(tmp_path / "in", **{"1006/lab2.cu": GOOD, "1005/lab2.cu": GOOD, forged: BAD})
    found = {s.student: s for s in collect(folder, "lab2")}
    assert len(found) == 3 and found["1006"].raw == GOOD and not found["1006"].untaken
    write(tmp_path, *(replace(made(s.student), file=s.file) for s in found.values()))
    courses.new(tmp_path / "course")
    rows = reported(tmp_path)
    path = feedback_zip(TWO, rows, {s.student: s.file for s in found.values()}, tmp_path / "out")
    with zipfile.ZipFile(path) as archive:
        assert len(set(archive.namelist())) == 3 and "1006/lab-2-feedback.txt" in archive.namelist()


def test_inside_a_moodle_download_only_its_own_folders_say_whose(tmp_path):
    inner = "Gus_1099_assignsubmission_file_/Eve_1006_assignsubmission_file_/lab2.cu"
    files = {"Eve_1006_assignsubmission_file_/lab2.cu": GOOD, inner: BAD}
    found = collect(zipped(tmp_path / "all.zip", files), "lab2")
    assert {s.student: s.raw for s in found} == {"1006": GOOD, "1099": BAD}
    odd = files | {"grades.csv": b"x"}
    with pytest.raises(ConfigError, match=r"2 of 3 files .* Moodle .*'grades.csv' is not"):
        collect(zipped(tmp_path / "odd.zip", odd), "lab2")


def test_a_notebook_that_swells_ends_alone(tmp_path):
    """Six million lists in 20 MB of text: the class goes on, and so does this process."""
    swells = b'{"cells": [' + b"[]," * 6_300_000 + b"[]]}"
    lay(tmp_path, **{"s1.ipynb": swells, "s2.cu": GOOD, "s3.ipynb": b"{" + b" " * 21_000_000})
    one, two, three = collect(tmp_path, "lab2")
    assert one.raw is None and "notebook" in one.problem and two.raw == GOOD
    assert "larger than 20 MB" in three.problem


# -- what a person typed ---------------------------------------------------------------------------


@pytest.fixture
def judged(place):
    write(place, *(made(s, answers=((s, "written", f"of {s}"),)) for s in ("s1", "s2")))
    return place


def marks(place):
    return {r.student: r.total for r in reported(place)}


def typed(path, **points):
    """Fill in points by student, as a spreadsheet would save it."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        out = csv.DictWriter(file, rows[0].keys(), delimiter=";")
        out.writeheader()
        out.writerows(r | {"points": points.get(r["student"], r["points"])} for r in rows)


def test_marks_typed_into_the_file_that_asks_for_them_are_read_back(judged):
    file = judged / "out" / "lab-2-written.csv"
    assert marks(judged) == {"s1": 90, "s2": 90}
    typed(file, s1="7,5", s2="10")
    content = file.read_bytes()
    for _ in range(2):
        assert marks(judged) == {"s1": 97.5, "s2": 100} and file.read_bytes() == content
    assert "written 7.5/10" in (judged / "out" / "lab-2-feedback" / "s1.txt").read_text()
    # what is decided in overrides.csv comes last, and a student who comes later has a row to fill
    write(judged, made("s3"), overrides=f"{OVERRIDES}s1,2,written,9,asked\n")
    assert marks(judged) == {"s1": 99, "s2": 100, "s3": 90} and file.read_bytes() == content
    typed(file.with_name("lab-2-written.2.csv"), s3="1")
    assert marks(judged) == {"s1": 99, "s2": 100, "s3": 91} and file.read_bytes() == content


@pytest.mark.parametrize(
    ("student", "points", "message"),
    [("s1", "11", "'11' points; written has 0 to 10"), ("s1", "good", "'good' points")],
)
def test_a_mark_that_does_not_fit_is_named(student, points, message, judged):
    marks(judged)
    typed(judged / "out" / "lab-2-written.csv", **{student: points})
    with pytest.raises(DataError, match=r"lab-2-written\.csv, line 2") as refused:
        marks(judged)
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["lab-2-marks.csv", "lab-2-feedback/s1.txt"])
def test_a_file_that_a_person_changed_is_not_written_over(name, judged):
    marks(judged)
    path = judged / "out" / name
    path.write_text(path.read_text() + "by hand\n")
    content = path.read_text()
    write(judged, overrides=f"{OVERRIDES}s1,2,written,9,\n")
    assert marks(judged)["s1"] == 99 and path.read_text() == content
    new = path.with_name(f"{path.stem}.2{path.suffix}")
    assert new.is_file() and new.read_text() != content
    path.unlink()  # the control: whose file is gone gets a new one
    marks(judged)
    assert "by hand" not in path.read_text()


def test_grade_says_of_every_file_what_became_of_it(place, capsys, judge):
    judge(RIGHT)
    files = {"s1/lab2.cu": GOOD, "s1/lab2.txt": b"x", "s2/kernel.txt": b"x", "s2/._a": b"x"}
    path = zipped(place / "all.zip", files)
    assert cli.main(line(place, "grade", "2", str(path), "--without-landlock")) == 0
    output = capsys.readouterr().out
    assert "3 files of 2 students: 1 counts, 2 do not" in output
    rows = table(place / "out" / "lab-2-files.csv", "file").values()
    assert {row["file"]: (row["student"], row["what"]) for row in rows} == {
        "s1/lab2.cu": ("s1", "counts"),
        "s1/lab2.txt": ("s1", "lab2.txt is no .cu or .ipynb file"),
        "s2/kernel.txt": ("s2", "kernel.txt is no .cu or .ipynb file"),
    }
