"""A whole class: its cost, kills at every result, neighbours who change nothing, its record."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.common import ROOT
from tilelabs.grading import collect, judging
from tilelabs.labs import courses
from tools import classroom
from tools.classroom import LAB, changed, download, students

pytestmark = pytest.mark.nvrtc

RECORD = ROOT / "data" / "validation" / "classroom.json"


def test_a_class_is_the_same_every_time_and_a_tenth_of_it_is_hostile(tmp_path):
    every = students(200, tmp_path / "course.toml")
    assert every == students(200, tmp_path / "course.toml")
    assert len({s.id for s in every}) == 200 and sum(s.kind == "hostile" for s in every) == 20
    assert {s.kind for s in every} == {"solution", "twin", "starter", "careless", "hostile"}
    found = collect(download(every, tmp_path / "all.zip"), "lab2")
    assert [s.student for s in found] == sorted(s.id for s in every)
    assert any(s.late for s in found) and any(s.file.endswith(".ipynb") for s in found)
    own = [s.raw for s in every if s.kind in ("solution", "twin", "starter")]
    assert len(set(own)) == len(own) and str(tmp_path).encode() in b"".join(s.raw for s in every)


@pytest.mark.slow
def test_a_class_of_twenty_beside_hostile_neighbours(tmp_path):
    # In a process of its own, which no other test's children made large.
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        record = alone.submit(classroom.run, 20, tmp_path).result()
    assert record["changed"] == [] and record["leaks"] == []
    assert record["kinds"]["hostile"] == 2 and record["killed"] >= 1
    assert record["cpu_seconds_a_submission"] < 30 * 60 * 2 / 120  # half an hour on two cores
    assert record["largest_process_mb"] < 2200

    course, one, other = tmp_path / "course", tmp_path / "all", tmp_path / "quiet"
    every = students(20, course / "course.toml")
    honest = [s for s in every if s.kind != "hostile"]
    lines = classroom.marks(course, one)
    full = [s for s in honest if s.kind == "solution"]
    assert full and all(",90," in lines[s.id] for s in full)
    assert not [s for s in honest if s.kind in ("twin", "starter") and ",90," in lines[s.id]]
    assert set(lines) >= {s.id for s in every}

    # the control: one byte of one result, a result that is gone, and the secret in a file, are seen
    paths = [other / "lab-2" / judging.file_name(s.id) for s in full[:2]]
    paths[0].write_bytes(paths[0].read_bytes().replace(b'"file": "student', b'"file": "Student'))
    paths[1].unlink()
    assert changed(honest, course, one, other) == sorted(s.id for s in full[:2])
    (one / "told.txt").write_text(courses.read(course).secret.hex())
    assert classroom.leaks(course, one) == [str(one / "told.txt")]


def test_the_record_is_of_a_whole_class_and_nobody_was_changed():
    """Whoever changes what lab 2 asks writes it again: python -m tools.classroom --out."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert (record["lab"], record["version"]) == (LAB.number, LAB.version)
    assert record["students"] == 120 == sum(record["kinds"].values())
    assert record["kinds"]["hostile"] == 12
    assert record["changed"] == [] and record["leaks"] == [] and record["killed"] >= 10
    assert record["minutes"] < 30 and (record["workers"], record["cores"]) == (2, 2)
    assert record["cpu_seconds_a_submission"] < 30 * 60 * 2 / 120
