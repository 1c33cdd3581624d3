"""What a machine needs that grades alone: the extra `grade`, without CuPy and Jupyter."""

from __future__ import annotations

import os
import tomllib

import pytest
from classes import UNLOCKED, course_of, hand_in, table

from tests.common import ROOT, completed
from tools.environments import NoEnvironmentError, environment
from tools.hostile import HONEST

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRA: list[str] = PROJECT["optional-dependencies"]["grade"]
ABSENT = ("cupy", "jupyter", "IPython", "matplotlib", "pandas", "ipywidgets")


def test_the_extra_asks_for_nothing_that_the_book_does_not():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").replace('"', "'").splitlines()
    beside = [line for line in EXTRA if line not in lines]  # comes with jupyter-book there
    assert len(EXTRA) == 7 and [line.split(">")[0] for line in beside] == ["PyYAML"]
    assert not {line.replace("13.0", "12.9") for line in EXTRA} <= set(lines)


@pytest.fixture(scope="module")
def python():
    """The Python of an environment with the core and the extra alone."""
    try:
        return environment("grade", [*PROJECT["dependencies"], *EXTRA])
    except NoEnvironmentError as error:
        pytest.skip(f"the wheels cannot be installed here, so this did not run: {error}")


def ran(python, *arguments, **more):
    env = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "TILE_CACHE": "0", "LC_ALL": "C.UTF-8"}
    return completed([str(python), *map(str, arguments)], env=env | more)


@pytest.mark.slow
def test_a_course_is_graded_with_the_extra_alone(python, tmp_path):
    code = f"import importlib.util as u; print([n for n in {ABSENT!r} if u.find_spec(n)])"
    assert ran(python, "-c", code).stdout.strip() == "[]"
    course, out = tmp_path / "course", tmp_path / "out"
    folder = hand_in(tmp_path / "in", s1=HONEST, s2="")
    place = ("--course", course, "--out", out)
    assert ran(python, "-m", "helpers", "course", "new", tmp_path / "new").returncode == 0
    course_of(course)
    for command in (
        ("handout", "2", "--course", course, "--out", tmp_path / "lab2.ipynb"),
        ("grade", "2", folder, *place, *UNLOCKED),
        ("report", "2", *place),
        ("similar", "2", folder, "--out", out),
    ):
        done = ran(python, "-m", "helpers", *command)
        assert (done.returncode, done.stderr) == (0, ""), command
    assert [r["total"] for r in table(out / "lab-2-marks.csv").values()] == ["90", "0"]


@pytest.mark.slow
def test_without_a_compiler_that_is_said(python, tmp_path):
    """The control: what the extra brings is what grading stands on."""
    course = tmp_path / "course"
    assert ran(python, "-m", "helpers", "course", "new", course).returncode == 0
    folder, out = hand_in(tmp_path / "in", s1=HONEST), tmp_path / "out"
    command = ("-m", "helpers", "grade", "2", folder, "--course", course, "--out", out)
    done = ran(python, *command, "--without-landlock", TILE_COMPILER="clang")
    assert done.returncode == 2 and done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr and not list((out / "lab-2").glob("*.json"))
