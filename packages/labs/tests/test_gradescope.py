"""One submission in Gradescope's container."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from classes import UNLOCKED, course_of, hand_in
from test_policy import BANKS, RIGHT, TWO, made, reported, write

from helpers import __main__ as cli
from helpers.record.protocol import Spread
from tilelabs.grading.gradescope import Submitter, read_submitter, results_json
from tilelabs.grading.timings import FOLDER
from tilelabs.judging.timing import Timed
from tilelabs.labs import courses
from tools.hostile import HONEST, SECRET

TELLS = {
    "id": 123, "created_at": "2026-11-22T14:22:32.365935-07:00", "submission_method": "upload",
    "users": [{"email": "b@example.org", "id": 77, "name": "Bo"}, {"email": "a@example.org", "id": 9, "name": "Ada"}],
    "previous_submissions": [{"score": 0.0}, {"score": 1.0}],
}  # fmt: skip
FORMAT: dict[str, tuple[type, ...]] = {
    "score": (int, float), "execution_time": (int, float), "output": (str,), "output_format": (str,),
    "test_output_format": (str,), "test_name_format": (str,), "visibility": (str,),
    "stdout_visibility": (str,), "extra_data": (dict,), "tests": (list,), "leaderboard": (list,),
}  # fmt: skip
OF_A_TEST: dict[str, tuple[type, ...]] = {
    "score": (int, float), "max_score": (int, float), "status": (str,), "name": (str,),
    "name_format": (str,), "number": (str,), "output": (str,), "output_format": (str,), "tags": (list,),
    "visibility": (str,), "extra_data": (dict,),
}  # fmt: skip
"""What Gradescope's documentation names, and of which kind."""
SEEN = ("hidden", "after_due_date", "after_published", "visible")


def faults(results):
    """In what a results.json is not as it is documented."""
    found = [f"{n} of {n!r}" for n, v in results.items() if not isinstance(v, FORMAT.get(n, ()))]
    if "score" not in results and not all("score" in t for t in results["tests"]):
        found.append("no score")
    for one in results["tests"]:
        found += [n for n, v in one.items() if not isinstance(v, OF_A_TEST.get(n, ()))]
        found += ["visibility"] * (one.get("visibility", "visible") not in SEEN)
        found += ["status"] * (one.get("status", "passed") not in ("passed", "failed"))
    return found


@pytest.fixture
def container(tmp_path):
    """As Gradescope lays it out."""
    course_of(tmp_path / "source" / "course")
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission_metadata.json").write_text(json.dumps(TELLS), encoding="utf-8")
    return tmp_path


def command(container, *more):
    return [
        "grade", "2", str(container / "submission"), "--course", str(container / "source" / "course"),
        "--out", str(container / "out"), "--gradescope", str(container / "results" / "results.json"),
        *UNLOCKED, *more,
    ]  # fmt: skip


def read_results(container):
    results: dict[str, Any] = json.loads(
        (container / "results" / "results.json").read_text("utf-8")
    )
    assert faults(results) == []
    return results


@pytest.mark.nvrtc
def test_a_submission_is_judged_in_the_container(container):
    secret = courses.read(container / "source" / "course").secret.hex()
    hand_in(container / "submission", lab2=HONEST)
    assert cli.main(command(container)) == 0
    results = read_results(container)
    assert sum(t["score"] for t in results["tests"]) == 90
    assert sum(t["max_score"] for t in results["tests"]) == 90
    assert results["tests"][0]["visibility"] == "visible"
    assert results["stdout_visibility"] == "hidden"
    assert {t["visibility"] for t in results["tests"][1:]} == {"after_published"}
    assert results["extra_data"]["attempt"] == 3
    assert "written (10 points) is marked by hand" in results["output"]
    assert secret not in json.dumps(results) and SECRET not in json.dumps(results)
    hand_in(container / "submission", lab2='#include "/etc/passwd"\n' + HONEST)
    assert cli.main(command(container)) == 0
    first = read_results(container)["tests"][0]
    assert first["status"] == "failed" and "/etc/passwd" in first["output"]


def test_whose_and_which_attempt_the_platform_says(container, judge, capsys):
    assert read_submitter(container / "submission_metadata.json") == Submitter("9", "Ada", 3)
    hand_in(container / "submission", lab2=HONEST)
    cases: list[Any] = []
    judge(BANKS, lambda of: cases.append(of.cases))
    assert cli.main(command(container)) == 0
    more = TELLS | {"previous_submissions": [{}] * 3}
    (container / "submission_metadata.json").write_text(json.dumps(more), encoding="utf-8")
    assert cli.main(command(container)) == 0
    assert len(cases) == 2 and cases[0] != cases[1]
    assert read_results(container)["extra_data"]["attempt"] == 4
    (container / "submission_metadata.json").write_text("{}", encoding="utf-8")
    capsys.readouterr()
    assert cli.main(command(container)) == 2
    assert "does not say whose" in (error := capsys.readouterr().err) and error.count("\n") == 1
    assert cli.main(command(container, "--student", "8", "--attempt", "3")) == 0
    assert cases[2] not in cases[:2]  # another student's


def test_the_secret_is_gone_before_anything_is_compiled(container, judge, capsys):
    toml = container / "source" / "course" / "course.toml"
    there: list[bool] = []
    judge(RIGHT, lambda of: there.append(toml.exists()))
    hand_in(container / "submission", lab2=HONEST)
    kept = toml.read_bytes()
    assert cli.main(command(container)) == 0 and there == [True] and toml.exists()  # control
    assert cli.main(command(container, "--forget-course", "--student", "9", "--attempt", "7")) == 0
    assert there == [True, False] and not toml.exists()
    toml.write_bytes(kept)
    at_home = [a for a in command(container, "--forget-course") if "results.json" not in a]
    at_home.remove("--gradescope")
    assert cli.main(at_home) == 2 and toml.exists()
    assert "in a container of its own" in capsys.readouterr().err


def test_nothing_handed_in_is_a_line(container):
    assert cli.main(command(container)) == 0
    results = read_results(container)
    assert results["score"] == 0 and "hand in one of them" in results["output"]
    assert str(container) not in json.dumps(results)


def test_what_is_not_as_documented_is_seen():
    good = results_json(TWO, made("s1", BANKS, notes=("2 files", "look: s7")))
    assert faults(good) == [] and good["extra_data"]["look"] == ["look: s7"]
    assert "s7" not in good["output"] and "2 files" in good["output"]
    assert faults(good | {"tests": [{"name": "x"}]}) == ["no score"]
    assert faults(good | {"points": 3}) and faults(good | {"output": 3})
    assert faults(good | {"tests": [good["tests"][0] | {"visibility": "later"}]}) == ["visibility"]


def test_a_time_of_an_earlier_submission_is_left_out(place):
    write(place, made("s1", source="new"), made("s2", source="same"))
    folder = place / "out" / "lab-2" / FOLDER
    folder.mkdir()
    timed = asdict(Timed(gpu="H200", rung="tiled_16", ms={"yours": Spread(1.0, 1.0, 1.0, 9)}))
    for student, source in (("s1", "old"), ("s2", "same")):
        record = {"student": student, "key": "k", "source": source, "timed": timed}
        (folder / f"{student}.json").write_text(json.dumps(record), encoding="utf-8")
    assert [row.timed is not None for row in reported(place)] == [False, True]
