"""Regrades that lose nothing, a teacher's fixes, and what a notebook says that it is of."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from classes import FIXES, GROUPS, OVERRIDES, UNLOCKED, hand_in, lay, line
from test_policy import BANKS, RIGHT, TWO

from helpers import __main__ as cli
from nogpu.errors import ConfigError, DataError
from tilelabs.grading import judging, report
from tilelabs.grading.collecting import collect
from tilelabs.grading.fixing import Fix, fixed, fixes
from tilelabs.grading.judging import Result, grade, results
from tilelabs.grading.preparing import only, prepared
from tilelabs.labs import courses, handout
from tools.hostile import HONEST, notebook


def judge_all(course, folder, out, **more):
    lines: list[str] = []
    found = prepared(folder, TWO, course).submissions
    grade(TWO, found, course, out, tell=lines.append, **more)
    return lines


def table(course, name, text):
    lay(course.folder, **{f"{name}.csv": text})


# -- regrade ---------------------------------------------------------------------------------------


def test_a_changed_result_says_old_new_and_why_and_the_earlier_one_is_kept(
    tmp_path, course, judge, monkeypatch
):
    folder, out = hand_in(tmp_path / "in", s1="one", s2="one"), tmp_path / "out"
    table(course, "overrides", f"{OVERRIDES}s1,2,written,7,oral\n")
    path = out / "lab-2" / judging.file_name("s1")
    judge(BANKS)
    assert not any("->" in line for line in judge_all(course, folder, out))
    first = path.read_bytes()
    assert judge_all(course, folder, out) == ["2 submissions, 2 judged before"]
    judge(RIGHT)
    assert judge_all(course, folder, out) == ["2 submissions, 2 judged before"]  # control
    (folder / "s1.cu").write_text("two")
    lines = judge_all(course, folder, out)
    assert "  s1: 36 -> 90 points (source changed, attempt 1 -> 2)" in lines
    kept = path.parent / judging.HISTORY / f"{path.stem}-1.json"
    assert kept.read_bytes() == first and kept.stat().st_mode & 0o77 == 0
    assert {r.student: r.total for r in report(TWO, course, out)} == {"s1": 97, "s2": 36}

    lines = judge_all(course, folder, out, again=True)
    assert "  s2: 36 -> 90 points (judged again)" in lines and not any("s1: 9" in t for t in lines)
    judge(BANKS)
    assert "  s1: 90 -> 36 points (attempt 2 -> 3)" in judge_all(course, folder, out, attempt=3)
    assert judge_all(course, folder, out) == ["2 submissions, 2 judged before"]  # attempt 2 stays
    judge(RIGHT)
    monkeypatch.setattr(judging, "_JUDGE", "other code")
    lines = judge_all(course, folder, out)
    assert "  s1: 36 -> 90 points (the judge's code changed)" in lines
    assert len(list((path.parent / judging.HISTORY).glob(f"{path.stem}-*.json"))) == 3
    later = replace(TWO, version=TWO.version + 1)
    again = grade(
        later, prepared(folder, later, course).submissions, course, out, tell=lines.append
    )
    assert again[0].version == 3
    assert "  s1: points of another version -> 90 points (lab version 2 -> 3)" in lines
    assert len(results(out, later)) == 2  # history is no result


def test_one_student_is_judged_alone(tmp_path, course, judge, capsys):
    folder, out = hand_in(tmp_path / "in", s1="same", s2="same", s3="other"), tmp_path / "out"
    table(course, "groups", f"{GROUPS}s1,one,\ns2,one,\n")
    judge(RIGHT)
    command = line(tmp_path, "grade", "2", str(folder), *UNLOCKED)
    assert cli.main([*command, "--only", "s3"]) == 0
    assert [r.student for r in results(out, TWO)] == ["s3"]
    assert cli.main([*command, "--only", "s2", "--again"]) == 0  # s1's stands for it
    found = results(out, TWO)
    assert [r.student for r in found] == ["s1", "s3"] and found[0].also == (("s2", "s2.cu"),)
    capsys.readouterr()
    assert cli.main([*command, "--only", "s7"]) == 2
    assert "'s7' handed nothing in" in capsys.readouterr().err
    (folder / "s2.cu").write_text("its own")
    assert cli.main(command) == 0 and len(results(out, TWO)) == 3
    (folder / "s2.cu").write_text("same")
    assert cli.main(command) == 0  # s2's own result no longer counts, and is not lost
    assert [r.student for r in results(out, TWO)] == ["s1", "s3"]
    assert list((out / "lab-2" / judging.HISTORY).glob("*.json"))


def test_another_name_or_note_needs_no_run(tmp_path, course, judge):
    folder, out = hand_in(tmp_path / "in", ada_1_9_lab2="one"), tmp_path / "out"
    judge(RIGHT)
    judge_all(course, folder, out)
    (folder / "ada_1_9_lab2.cu").rename(folder / "ada_LATE_1_10_lab2.cu")
    judge(BANKS)  # would be seen
    assert judge_all(course, folder, out) == ["1 submission, 1 judged before"]
    [r] = results(out, TWO)
    assert r.late and r.file == "ada_LATE_1_10_lab2.cu" and r.marked == RIGHT


# -- fixes -----------------------------------------------------------------------------------------


def test_a_fix_is_applied_before_judging_and_noted(tmp_path, course, judge):
    source = HONEST.replace("lab2", "mine") + "// determine\n"
    folder, out = hand_in(tmp_path / "in", s1=source), tmp_path / "out"
    judge(RIGHT)
    judge_all(course, folder, out)
    [before] = results(out, TWO)
    table(course, "fixes", f'{FIXES}s1,2,mine,lab2,"renamed, and\n=said"\ns1,3,x,y,\ns8,2,a,b,\n')
    ready = prepared(folder, TWO, course)
    [s] = ready.submissions
    assert s.raw == (HONEST + "// determine\n").encode()  # whole words alone
    [unused] = ready.unused
    assert unused.endswith("fixes.csv, line 5: no student with the id 's8'; did you mean s1?")
    lines = judge_all(course, folder, out)
    [after] = results(out, TWO)
    assert before.key != after.key and any("source changed" in line for line in lines)
    [row] = [r for r in report(TWO, course, out) if r.student == "s1"]
    words = "fixed by a person, 'mine' became 'lab2': renamed, and =said"
    assert words in row.notes and words in row.feedback
    assert words in (out / "lab-2-marks.csv").read_text(encoding="utf-8")


def test_a_fix_reaches_the_cells_of_a_notebook(tmp_path, course):
    folder = lay(tmp_path / "in", **{"s1.ipynb": notebook("x = 1", f"%%cuda mine\n{HONEST}")})
    assert "no cell begins" in prepared(folder, TWO, course).submissions[0].problem
    table(course, "fixes", f"{FIXES}s1,2,%%cuda mine,%%cuda lab2,\n")
    [s] = prepared(tmp_path / "in", TWO, course).submissions
    assert (s.raw or b"").decode().strip() == HONEST.strip() and not s.problem


def test_a_fix_that_does_not_fit_is_said_to_the_teacher_alone(tmp_path, course, judge):
    hand_in(tmp_path / "in", s1="int a; a = 1; // a.b")
    table(course, "fixes", f"{FIXES}s1,2,mine,lab2,\ns1,2,int a;,int c;,\ns1,2,a.b,c,\n")
    judge(RIGHT)
    judge_all(course, tmp_path / "in", tmp_path / "out")
    [row] = report(TWO, course, tmp_path / "out")
    assert any("line 2 does not fit: 'mine' stands nowhere in it" in n for n in row.notes)
    assert "does not fit" not in row.feedback
    [s] = prepared(tmp_path / "in", TWO, course).submissions
    assert s.raw == b"int c; a = 1; // c"
    table(course, "fixes", f"{FIXES}s1,2,,lab2,\n")
    with pytest.raises(DataError, match=r"fixes\.csv, line 2: no old text"):
        fixes(course, TWO)


def test_text_that_looks_like_a_pattern_is_text():
    made, notes = fixed(["a(b) c\\d"], [Fix("w", "a(b)", r"\1\g<0>", "")])
    assert made == [r"\1\g<0> c\d"] and "a(b)" in notes[0]


# -- what a notebook declares ----------------------------------------------------------------------


def declaring(**of):
    return notebook(f"%%cuda lab2\n{HONEST}", tile_by_tile=of)


def test_a_notebook_of_something_else_is_noted(tmp_path, course):
    course, folder = replace(course, tag="v1"), tmp_path / "in"
    right = {"lab": "2", "version": TWO.version, "variant": "A transposed"}
    right |= {"tag": "v1", "student": "s1"}
    lay(folder, **{"s1.ipynb": declaring(**right)})
    assert prepared(folder, TWO, course).submissions[0].notes == ()
    for what, value, note in (
        ("tag", "v0", "the notebook is of tag 'v0', and the course's is 'v1'"),
        ("version", 3, "of version '3', and the course's is '2'"),
        ("variant", "B transposed", "of variant 'B transposed', and the course's is 'A transposed'"),
        ("lab", "4", "of lab '4', and the course's is '2'"),
        ("student", "s7", "look: the notebook says that it is of student 's7'"),
    ):  # fmt: skip
        lay(folder, **{"s1.ipynb": declaring(**(right | {what: value}))})
        [s] = prepared(folder, TWO, course).submissions
        assert len(s.notes) == 1 and note in s.notes[0] and s.student == "s1"
    lay(folder, **{"s1.ipynb": declaring(**(right | {"tag": "=cmd()\x1b" * 999}))})
    [s] = prepared(folder, TWO, course).submissions
    assert len(s.notes[0]) < 200 and "\x1b" not in s.notes[0]


def test_the_notebook_that_is_handed_out_is_of_its_course(tmp_path, course):
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "s1.ipynb"
    path.write_text(json.dumps(handout(TWO, course)), encoding="utf-8")
    [s] = prepared(tmp_path / "in", TWO, course).submissions
    assert s.notes == () and s.declared["variant"] == "A transposed" and s.raw
    other = replace(course, variants={"2": "B transposed"})
    path.write_text(json.dumps(handout(TWO, other)), encoding="utf-8")
    [s] = prepared(tmp_path / "in", TWO, course).submissions
    assert "of variant 'B transposed'" in s.notes[0]


def test_all_files_of_a_folder_may_be_one_students(tmp_path):
    hand_in(tmp_path, lab2=HONEST, older="x")
    [s] = collect(tmp_path, "lab2", student=("77", "Ada"))
    assert (s.student, s.name) == ("77", "Ada") and "2 files" in s.notes[0]
    assert [x.student for x in collect(tmp_path, "lab2")] == ["lab2", "older"]  # control
    with pytest.raises(ConfigError):
        only(prepared(tmp_path, TWO, courses.new(tmp_path / "c")), ["nobody"])


def test_results_of_before_are_still_read():
    made = Result("s", "", "f", "2", 1, "v", 1, "k", RIGHT)
    record = json.loads(json.dumps(asdict(made)))
    for name in ("also", "answers", "source", "judge"):
        del record[name]
    assert judging._result(record) == made
