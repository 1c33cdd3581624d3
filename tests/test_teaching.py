"""The page on teaching: its commands run in their order, as a new teacher types them; its tables;
its container.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from helpers.chapters.teaching import facts
from nogpu.errors import DataError
from tests.common import ROOT
from tilelabs import apart
from tilelabs.labs import courses, lab, rehearsing

PAGE = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "requirements" / "grade.Dockerfile").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in re.sub(r" \\\n\s+", " ", block).splitlines()]
HELPERS = [line for line in COMMANDS if line.startswith("python -m helpers")]
OTHERS = ("python3 -m venv ", ".venv/bin/pip install ", ". .venv/bin/activate", "docker ")


def test_every_command_of_the_page_is_known() -> None:
    assert len(HELPERS) >= 6
    odd = [c for c in COMMANDS if c not in HELPERS and not c.startswith(OTHERS)]
    assert not odd
    assert [c for c in COMMANDS if c.startswith("docker ")] == [
        line.removeprefix("#     ")
        for line in re.sub(r" \\\n#\s+", " ", DOCKERFILE).splitlines()
        if line.startswith("#     docker")
    ]


def test_the_tables_of_a_course_are_those_that_the_page_names() -> None:
    named = re.findall(r"^\| `(\w+\.csv)` \|", PAGE, re.MULTILINE)
    assert set(named) == set(courses.TABLES)
    for name in named:
        [said] = re.findall(rf"^\| `{name}` \| ([\w, ]+) \|", PAGE, re.MULTILINE)
        assert said.replace(" ", "") == courses.TABLES[name].strip()


def test_a_table_stands_for_each_record_and_a_missing_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = (facts.class_table, facts.exploits_table, facts.times_table)
    assert all(len(one()["rows"]) >= 6 for one in tables)
    monkeypatch.setattr(facts, "RECORDS", tmp_path)
    for one in (*tables, facts.inversions):
        with pytest.raises(DataError, match="comes with the repository"):
            one()


# -- as a new teacher ------------------------------------------------------------------------------


def prepared(folder: Path) -> None:
    """What a teacher has after a lab: the platform's download and its export.

    The course draws its variant when the page makes it, so every student handed in the solution of
    every variant, under a name of its own.
    """
    two = lab("2")
    solved = {s.variant: s.text for s in rehearsing.sources(two) if s.kind == "solution"}
    with zipfile.ZipFile(folder / "DOWNLOAD.zip", "w") as held:
        for n, text in enumerate(solved.values()):
            held.writestr(f"student{n}_10{n}_200{n}_lab2.cu", text)
        held.writestr("careless_109_2009_lab2.cu", b"\xef\xbb\xbfint x;\r\n")
    rows = "".join(f'"Student, {n}",10{n},S,\r\n' for n in (*range(len(solved)), 9))
    (folder / "EXPORT.csv").write_bytes(f"Student,ID,Section,Lab 2 (77)\r\n{rows}".encode())
    autograder = folder / "autograder"
    (autograder / "submission").mkdir(parents=True)
    (autograder / "results").mkdir()
    (autograder / "submission" / "lab2.cu").write_text(
        next(iter(solved.values())), encoding="utf-8"
    )
    whose = {"users": [{"id": 5, "name": "Student"}], "previous_submissions": []}
    (autograder / "submission_metadata.json").write_text(json.dumps(whose), encoding="utf-8")


@pytest.mark.nvrtc
@pytest.mark.skipif(not apart.landlock(), reason="this kernel has no Landlock")
def test_a_new_teacher_gets_from_the_page_to_marks(tmp_path: Path) -> None:
    prepared(tmp_path)
    for line in HELPERS:
        if "--rehearse" in line or "--dask" in line:
            continue  # tests/test_labs.py rehearses each lab; tests of workers have a scheduler
        line = line.replace(" /autograder/", " autograder/")
        done = subprocess.run(
            [sys.executable, *shlex.split(line)[1:]],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert not (tmp_path / "COURSE" / courses.FILE).exists(), "--forget-course"
    told = json.loads(
        (tmp_path / "autograder" / "results" / "results.json").read_text(encoding="utf-8")
    )
    assert {test["visibility"] for test in told["tests"]} <= {
        "after_published",
        "visible",
        "hidden",
    }
    out = tmp_path / "RESULTS"
    for name in re.findall(r"^\| `(lab-2-[\w./-]+)` \|", PAGE, re.MULTILINE):
        assert (out / name).exists(), name
    with (out / "lab-2-gradebook.csv").open(encoding="utf-8", newline="") as file:
        table = {row["ID"]: row["Lab 2 (77)"] for row in csv.DictReader(file)}
    with (out / "lab-2-marks.csv").open(encoding="utf-8", newline="") as file:
        marks = {row["id"]: row for row in csv.DictReader(file)}
    assert set(table) == set(marks) and marks["109"]["total"] == "0"
    assert max(float(row["total"] or 0) for row in marks.values()) == 90, (
        "one of the variants was the course's"
    )


# -- in a container --------------------------------------------------------------------------------


def test_the_container_installs_what_the_page_says() -> None:
    [install] = [c for c in COMMANDS if c.startswith(".venv/bin/pip")]
    assert install.removeprefix(".venv/bin/pip install ") in DOCKERFILE
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".venv", "_build"} <= set(ignored)


@pytest.mark.nvrtc
@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("unshare") is None,
    reason="no unshare: no box without a network",
)
def test_grading_needs_no_network(tmp_path: Path) -> None:
    """As in the container: no interface but its own, which is down."""
    two = lab("2")
    course = courses.new(tmp_path / "COURSE")
    [text] = [
        s.text
        for s in rehearsing.sources(two)
        if s.kind == "solution" and s.variant == course.variant(two).name
    ]
    (tmp_path / "in" / "s1").mkdir(parents=True)
    (tmp_path / "in" / "s1" / "lab2.cu").write_text(text, encoding="utf-8")
    box = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*box, "true"], capture_output=True).returncode:
        pytest.skip("this kernel lets nobody make a network of its own")
    probe = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
    assert subprocess.run([*box, sys.executable, "-c", probe], capture_output=True).returncode
    lock = [] if apart.landlock() else ["--without-landlock"]
    asked = ["grade", "2", "in", "--course", "COURSE", "--out", "R", *lock]
    done = subprocess.run(
        [*box, sys.executable, "-m", "helpers", *asked],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0 and "9 of 9 shapes right" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "info"], capture_output=True).returncode != 0,
    reason="no Docker answers here: the container did not run",
)
def test_the_container_grades(tmp_path: Path) -> None:
    prepared(tmp_path)
    courses.new(tmp_path / "COURSE")
    build, run = (shlex.split(c) for c in COMMANDS if c.startswith("docker "))
    subprocess.run(build, cwd=ROOT, check=True, timeout=1800)
    run[run.index("-v") + 1] = f"{tmp_path}:/class"
    subprocess.run(run, cwd=tmp_path, check=True, timeout=600)
    assert list((tmp_path / "RESULTS" / "lab-2").glob("*.json"))
