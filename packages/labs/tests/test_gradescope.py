"""One submission in Gradescope's container, and the leaderboard that students choose to be on."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from test_policy import BANKS, RIGHT, TWO, made, write

from helpers import __main__ as cli
from helpers.record.protocol import Spread
from nogpu.errors import DataError
from tilelabs import apart
from tilelabs.grading import judging, report
from tilelabs.grading.gradescope import Whose, results_json, whose_is
from tilelabs.grading.leaderboards import leaderboard, pseudonyms
from tilelabs.grading.timings import FOLDER
from tilelabs.judging.marking import Marked
from tilelabs.judging.timing import Timed
from tilelabs.labs import courses
from tools.hostile import HONEST, SECRET

LOCK = [] if apart.landlock() else ["--without-landlock"]
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


def faults(told: dict[str, Any]) -> list[str]:
    """In what a results.json is not as it is documented."""
    found = [f"{n} of {n!r}" for n, v in told.items() if not isinstance(v, FORMAT.get(n, ()))]
    if "score" not in told and not all("score" in t for t in told["tests"]):
        found.append("no score")
    for one in told["tests"]:
        found += [n for n, v in one.items() if not isinstance(v, OF_A_TEST.get(n, ()))]
        found += ["visibility"] * (one.get("visibility", "visible") not in SEEN)
        found += ["status"] * (one.get("status", "passed") not in ("passed", "failed"))
    return found


@pytest.fixture
def container(tmp_path: Path) -> Path:
    """As Gradescope lays it out."""
    courses.new(tmp_path / "source" / "course")
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission_metadata.json").write_text(json.dumps(TELLS), encoding="utf-8")
    return tmp_path


def asked(container: Path, *more: str) -> list[str]:
    return [
        "grade", "2", str(container / "submission"), "--course", str(container / "source" / "course"),
        "--out", str(container / "out"), "--gradescope", str(container / "results" / "results.json"),
        *LOCK, *more,
    ]  # fmt: skip


def told(container: Path) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((container / "results" / "results.json").read_text("utf-8"))
    assert faults(held) == []
    return held


def finds(monkeypatch: pytest.MonkeyPatch, marked: Marked, look: Callable[[Any], None]) -> None:
    def facts(of: Any) -> Any:
        look(of)
        return json.loads(json.dumps(asdict(marked)))

    monkeypatch.setattr(judging, "facts", facts)


@pytest.mark.nvrtc
def test_a_submission_is_judged_in_the_container(container: Path) -> None:
    course = container / "source" / "course"
    toml = course / "course.toml"
    toml.write_text(toml.read_text(encoding="utf-8") + '2 = "A transposed"\n', encoding="utf-8")
    secret = courses.read(course).secret.hex()
    (container / "submission" / "lab2.cu").write_text(HONEST, encoding="utf-8")
    assert cli.main(asked(container)) == 0
    held = told(container)
    assert sum(t["score"] for t in held["tests"]) == 90
    assert sum(t["max_score"] for t in held["tests"]) == 90
    assert held["tests"][0]["visibility"] == "visible" and held["stdout_visibility"] == "hidden"
    assert {t["visibility"] for t in held["tests"][1:]} == {"after_published"}
    assert (
        held["extra_data"]["attempt"] == 3
        and "written (10 points) is marked by hand" in held["output"]
    )
    assert secret not in json.dumps(held) and SECRET not in json.dumps(held)
    (container / "submission" / "lab2.cu").write_text('#include "/etc/passwd"\n' + HONEST)
    assert cli.main(asked(container)) == 0
    first = told(container)["tests"][0]
    assert first["status"] == "failed" and "/etc/passwd" in first["output"]


def test_whose_and_which_attempt_the_platform_says(
    container: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert whose_is(container / "submission_metadata.json") == Whose("9", "Ada", 3)
    (container / "submission" / "lab2.cu").write_text(HONEST, encoding="utf-8")
    cases: list[Any] = []
    finds(monkeypatch, BANKS, lambda of: cases.append(of.cases))
    assert cli.main(asked(container)) == 0
    more = TELLS | {"previous_submissions": [{}] * 3}
    (container / "submission_metadata.json").write_text(json.dumps(more), encoding="utf-8")
    assert cli.main(asked(container)) == 0
    assert (
        len(cases) == 2 and cases[0] != cases[1] and told(container)["extra_data"]["attempt"] == 4
    )
    (container / "submission_metadata.json").write_text("{}", encoding="utf-8")
    capsys.readouterr()
    assert cli.main(asked(container)) == 2
    assert "does not say whose" in (said := capsys.readouterr().err) and said.count("\n") == 1
    assert cli.main(asked(container, "--student", "9")) == 0


def test_the_secret_is_gone_before_anything_is_compiled(
    container: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = container / "source" / "course" / "course.toml"
    there: list[bool] = []
    finds(monkeypatch, RIGHT, lambda of: there.append(toml.exists()))
    (container / "submission" / "lab2.cu").write_text(HONEST, encoding="utf-8")
    kept = toml.read_bytes()
    assert cli.main(asked(container)) == 0 and there == [True] and toml.exists()  # control
    assert cli.main(asked(container, "--forget-course", "--student", "9", "--attempt", "7")) == 0
    assert there == [True, False] and not toml.exists()
    toml.write_bytes(kept)
    at_home = [a for a in asked(container, "--forget-course") if "results.json" not in a]
    at_home.remove("--gradescope")
    assert cli.main(at_home) == 2 and toml.exists()
    assert "in a container of its own" in capsys.readouterr().err


def test_nothing_handed_in_is_a_line(container: Path) -> None:
    assert cli.main(asked(container)) == 0
    held = told(container)
    assert held["score"] == 0 and "hand in one of them" in held["output"]
    assert str(container) not in json.dumps(held)


def test_what_is_not_as_documented_is_seen() -> None:
    good = results_json(TWO, made("s1", BANKS, notes=("2 files", "look: s7")))
    assert faults(good) == [] and good["extra_data"]["look"] == ["look: s7"]
    assert "s7" not in good["output"] and "2 files" in good["output"]
    assert faults(good | {"tests": [{"name": "x"}]}) == ["no score"]
    assert faults(good | {"points": 3}) and faults(good | {"output": 3})
    assert faults(good | {"tests": [good["tests"][0] | {"visibility": "later"}]}) == ["visibility"]


# -- leaderboard -------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    courses.new(tmp_path / "course")
    return tmp_path


def shown(place: Path) -> list[dict[str, str]]:
    course = courses.read(place / "course")
    page, n = leaderboard(TWO, course, place / "out", report(TWO, course, place / "out"))
    with page.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    text = page.read_text(encoding="utf-8") + page.with_suffix(".csv").read_text(encoding="utf-8")
    assert len(rows) == n and not any(word in text for word in ("s1", "s2", "s3", "s4", "Ada"))
    return rows


P = "student,pseudonym\n"


def test_only_who_chose_a_pseudonym_is_on_it_and_work_ranks(place: Path) -> None:
    less = replace(RIGHT, runs=(replace(RIGHT.runs[0], instructions=3000, wavefronts=100),))
    more = replace(RIGHT, runs=(replace(RIGHT.runs[0], instructions=9000, wavefronts=100),))
    write(place, made("s1", more), made("s2", less), made("s3", BANKS), made("s4"),
          roster="id,name\ns1,Ada\ns2,\ns9,Nobody\n",
          pseudonyms=f"{P}s1,=Hopper\ns2,<b>Wilkes\ns3,Zuse\ns4,\ns9,Turing\n")  # fmt: skip
    rows = shown(place)
    assert [r["pseudonym"] for r in rows] == ["<b>Wilkes", "'=Hopper", "Zuse"]
    assert [r["points"] for r in rows] == ["90", "90", "75"] and rows[0]["rank"] == "1"
    assert "<b>" not in (place / "out" / "lab-2-leaderboard.html").read_text(encoding="utf-8")


def test_times_rank_before_counts(place: Path) -> None:
    write(place, *(made(f"s{n}") for n in (1, 2, 3, 4)),
          pseudonyms=f"{P}s1,one\ns2,two\ns3,three\ns4,four\n")  # fmt: skip
    course = courses.read(place / "course")

    def spread(x: float) -> Spread:
        return Spread(x, x, x, 1)

    timed = {"s1": Timed(gpu="H200", over_rung=spread(1.5)), "s2": Timed(gpu="H200", over_rung=spread(2.5)),
             "s3": Timed("no"), "s4": Timed(gpu="H200", wrong=1, over_rung=spread(9.0))}  # fmt: skip
    rows = [replace(r, timed=timed[r.student]) for r in report(TWO, course, place / "out")]
    page, _ = leaderboard(TWO, course, place / "out", rows)
    lines = page.with_suffix(".csv").read_text(encoding="utf-8").splitlines()[1:]
    assert [line.split(",")[1] for line in lines] == ["two", "one", "four", "three"]
    assert lines[0].split(",")[2:4] == ["2.5", "H200"] and lines[2].split(",")[2:4] == ["", ""]


def test_a_time_of_an_earlier_submission_is_left_out(place: Path) -> None:
    write(place, made("s1", source="new"), made("s2", source="same"))
    folder = place / "out" / "lab-2" / FOLDER
    folder.mkdir()
    timed = asdict(Timed(gpu="H200", rung="tiled_16", ms={"yours": Spread(1.0, 1.0, 1.0, 9)}))
    for student, source in (("s1", "old"), ("s2", "same")):
        held = {"student": student, "key": "k", "source": source, "timed": timed}
        (folder / f"{student}.json").write_text(json.dumps(held), encoding="utf-8")
    rows = report(TWO, courses.read(place / "course"), place / "out")
    assert [row.timed is not None for row in rows] == [False, True]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s1,Ada\n", "'Ada' is somebody's name or id"),
        ("s2,S1\n", "'S1' is somebody's name or id"),
        ("s1,x\ns2,X\n", "line 3: 'X' is chosen twice"),
        ("s1\n", "line 2: no pseudonym"),
    ],
)
def test_a_pseudonym_that_tells_who_it_is_is_refused(text: str, words: str, place: Path) -> None:
    write(place, pseudonyms=P + text)
    with pytest.raises(DataError, match=r"pseudonyms\.csv") as refused:
        pseudonyms(courses.read(place / "course"), {"s1": "Ada", "s2": ""})
    assert words in str(refused.value)


def test_the_leaderboard_is_asked_for_at_the_terminal(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(place, made("s1"), pseudonyms=f"{P}s1,Zuse\n")
    words = ["report", "2", "--course", str(place / "course"), "--out", str(place / "out")]
    assert cli.main(words) == 0 and not (place / "out" / "lab-2-leaderboard.csv").exists()
    assert cli.main([*words, "--leaderboard"]) == 0
    assert "1 student under a pseudonym" in capsys.readouterr().out
