"""The page on teaching: its commands run in their order, as a new teacher types them; its tables;
its container."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
import sys
import zipfile
from html import unescape

import pytest

from helpers.chapters.teaching import facts, starters
from nogpu.errors import DataError
from tests.common import ROOT, completed
from tilelabs import apart
from tilelabs.labs import all_labs, courses, lab, rehearsing
from tools import essays

PAGE = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "requirements" / "grade.Dockerfile").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in re.sub(r" \\\n\s+", " ", block).splitlines()]
HELPERS = [line for line in COMMANDS if line.startswith("python -m helpers")]
OTHERS = ("python3 -m venv ", ".venv/bin/pip install ", ". .venv/bin/activate", "docker ")


def test_every_command_of_the_page_is_known():
    assert len(HELPERS) >= 6
    odd = [c for c in COMMANDS if c not in HELPERS and not c.startswith(OTHERS)]
    assert not odd
    assert [c for c in COMMANDS if c.startswith("docker ")] == [
        line.removeprefix("#     ")
        for line in re.sub(r" \\\n#\s+", " ", DOCKERFILE).splitlines()
        if line.startswith("#     docker")
    ]


def test_the_tables_of_a_course_are_those_that_the_page_names():
    named = re.findall(r"^\| `(\w+\.csv)` \|", PAGE, re.MULTILINE)
    assert set(named) == set(courses.TABLES)
    for name in named:
        [columns] = re.findall(rf"^\| `{name}` \| ([\w, ]+) \|", PAGE, re.MULTILINE)
        assert columns.replace(" ", "") == courses.TABLES[name].strip()


def test_each_lab_is_shown_as_students_begin_it_and_no_solution():
    shown = starters.folded()
    cells = re.findall(r"<pre[^>]*>(.*?)</pre>", shown.html, re.DOTALL)
    assert len(cells) == len(all_labs()) == shown.html.count("<summary")
    for one, cell in zip(all_labs(), map(unescape, cells), strict=True):
        assert cell.strip() == f"%%cuda {one.entry}\n{one.starter(one.variants[0])}".strip()
        assert one.starter(one.variants[0]).strip() in shown.text
        assert not [t for t in rehearsing.texts(one).values() if t.strip() in shown.text]


def test_questions_are_shown_without_their_answers(monkeypatch):
    shown, questions = starters.questions(), [q for one in all_labs() for q in rehearsing.exam(one)]
    assert shown.html.count("<summary") == len(questions) >= 12
    assert all(q.ask in shown.text and q.kernel.strip() in shown.text for q in questions)
    assert not [q.ask for q in questions if unescape(q.answer)[:40] in unescape(shown.html)]
    monkeypatch.setattr(rehearsing, "FOLDER", "not there")  # as in the copy of a notebook
    assert starters.questions().html == "" and len(facts.steps_table()["rows"]) == len(all_labs())


@pytest.mark.parametrize("one", all_labs(), ids=lambda one: one.number)
def test_hours_of_a_lab_are_those_of_its_steps(one):
    minutes = sum(facts.steps(one).values())
    assert abs(60 * one.hours - minutes) <= 30, f"hours = {round(minutes / 60)} in its lab.toml"
    assert facts.RATES["read"] == 1 / essays.WORDS_A_MINUTE


@pytest.mark.parametrize("weeks", facts.READING)
def test_a_lab_is_handed_out_once_its_chapters_are_read(weeks):
    rows, read = facts.calendar(weeks)["rows"], facts.READING[weeks]
    assert len(rows) == weeks and all(0 < float(row["hours"]) <= 6 for row in rows)
    assert any("lab 2, for a week" in row["hand_out"] for row in rows)
    for number, (week, length) in facts.HANDED_OUT[weeks].items():
        before = {page for pages in read[:week] for page in pages.split()}
        assert {page[:2] for page in lab(number).builds_on} <= before, number
        assert week + length - 1 <= weeks


def test_a_table_stands_for_each_record_and_a_missing_one_is_told(tmp_path, monkeypatch):
    tables = (facts.class_table, facts.exploits_table, facts.times_table)
    assert all(len(one()["rows"]) >= 6 for one in tables)
    monkeypatch.setattr(facts, "RECORDS", tmp_path)
    for one in (*tables, facts.inversions):
        with pytest.raises(DataError, match="comes with the repository"):
            one()


# -- as a new teacher ------------------------------------------------------------------------------


def prepared(folder):
    """What a teacher has after a lab: the platform's download and its export.

    The course draws its variant when the page makes it, so every student handed in the solution of
    every variant, under a name of its own.
    """
    two = lab("2")
    solved = {s.variant: s.text for s in rehearsing.sources(two) if s.kind == "solution"}
    with zipfile.ZipFile(folder / "DOWNLOAD.zip", "w") as archive:
        for n, text in enumerate(solved.values()):
            archive.writestr(f"student{n}_10{n}_200{n}_lab2.cu", text)
        archive.writestr("careless_109_2009_lab2.cu", b"\xef\xbb\xbfint x;\r\n")
    rows = "".join(f'"Student, {n}",10{n},S,\r\n' for n in (*range(len(solved)), 9))
    (folder / "EXPORT.csv").write_bytes(f"Student,ID,Section,Lab 2 (77)\r\n{rows}".encode())
    autograder = folder / "autograder"
    (autograder / "submission").mkdir(parents=True)
    (autograder / "results").mkdir()
    handed_in, *_ = solved.values()
    (autograder / "submission" / "lab2.cu").write_text(handed_in, encoding="utf-8")
    whose = {"users": [{"id": 5, "name": "Student"}], "previous_submissions": []}
    (autograder / "submission_metadata.json").write_text(json.dumps(whose), encoding="utf-8")


def ran(folder, *line, box=()):
    """What Python says in a folder, with nothing of this process's environment. box: goes before."""
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return completed([*box, sys.executable, *line], cwd=folder, env=env, timeout=300)


@pytest.mark.nvrtc
@pytest.mark.skipif(not apart.landlock(), reason="this kernel has no Landlock")
def test_a_new_teacher_gets_from_the_page_to_marks(tmp_path):
    prepared(tmp_path)
    for line in HELPERS:
        if "--rehearse" in line or "--dask" in line:
            continue  # tests/test_labs.py rehearses each lab; tests of workers have a scheduler
        line = line.replace(" /autograder/", " autograder/")
        done = ran(tmp_path, *shlex.split(line)[1:])
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert not (tmp_path / "COURSE" / courses.FILE).exists(), "--forget-course"
    results = json.loads((tmp_path / "autograder/results/results.json").read_text(encoding="utf-8"))
    assert {test["visibility"] for test in results["tests"]} <= {"after_published", "visible"}
    out = tmp_path / "RESULTS"
    for name in re.findall(r"^\| `(lab-2-[\w./-]+)` \|", PAGE, re.MULTILINE):
        assert (out / name).exists(), name
    book, marks = (
        list(csv.DictReader((out / f"lab-2-{name}.csv").read_text("utf-8").splitlines()))
        for name in ("gradebook", "marks")
    )
    totals = {row["id"]: float(row["total"] or 0) for row in marks}
    assert {row["ID"] for row in book} == set(totals) and totals["109"] == 0
    assert max(totals.values()) == 90, "one of the variants was the course's"


# -- in a container --------------------------------------------------------------------------------


def test_the_container_installs_what_the_page_says():
    [install] = [c for c in COMMANDS if c.startswith(".venv/bin/pip")]
    assert install.removeprefix(".venv/bin/pip install ") in DOCKERFILE
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".venv", "_build"} <= set(ignored)


@pytest.mark.nvrtc
@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("unshare") is None,
    reason="no unshare: no box without a network",
)
def test_grading_needs_no_network(tmp_path):
    """As in the container: no interface but its own, which is down."""
    two = lab("2")
    course = courses.new(tmp_path / "COURSE")
    solutions = [s for s in rehearsing.sources(two) if s.kind == "solution"]
    [text] = [s.text for s in solutions if s.variant == course.variant(two).name]
    (tmp_path / "in" / "s1").mkdir(parents=True)
    (tmp_path / "in" / "s1" / "lab2.cu").write_text(text, encoding="utf-8")
    box = ["unshare", "--user", "--map-root-user", "--net"]
    if completed([*box, "true"]).returncode:
        pytest.skip("this kernel lets nobody make a network of its own")
    probe = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
    assert completed([*box, sys.executable, "-c", probe]).returncode
    lock = [] if apart.landlock() else ["--without-landlock"]
    command = ["grade", "2", "in", "--course", "COURSE", "--out", "R", *lock]
    done = ran(tmp_path, "-m", "helpers", *command, box=box)
    assert done.returncode == 0 and "9 of 9 shapes right" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("docker") is None or completed(["docker", "info"]).returncode != 0,
    reason="no Docker answers here: the container did not run",
)
def test_the_container_grades(tmp_path):
    prepared(tmp_path)
    courses.new(tmp_path / "COURSE")
    build, run = (shlex.split(c) for c in COMMANDS if c.startswith("docker "))
    completed(build, cwd=ROOT, check=True, timeout=1800)
    run[run.index("-v") + 1] = f"{tmp_path}:/class"
    completed(run, cwd=tmp_path, check=True, timeout=600)
    assert list((tmp_path / "RESULTS" / "lab-2").glob("*.json"))
