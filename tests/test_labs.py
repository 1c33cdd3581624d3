"""Labs: their rubrics, and how kernels come out: solutions, the starter, wrong twins, at the terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers import __main__ as cli
from helpers import apart, clang, labs
from helpers.apart import Done
from helpers.errors import ConfigError, DataError, ToolchainError, UnknownNameError
from helpers.grading import collect
from helpers.grading.judging import judged
from helpers.judging.marking import cases, mark
from helpers.labs import checking, courses, rubrics
from helpers.notebooks.running import executed
from tests import hostile
from tests.conftest import ROOT
from tests.hostile import HONEST

pytestmark = pytest.mark.nvrtc

SCALED = (
    ("int K)", "int K, float alpha, float beta)"),
    ("= sum;", "= alpha * sum + beta * C[row * N + col];"),
)
PLAIN_A = (
    ("A_tile[ty][tx] = a_row < M && k0 + ty < K ? A[(k0 + ty) * M + a_row]",
     "A_tile[tx][ty] = row < M && k0 + tx < K ? A[row * K + k0 + tx]"),
)  # fmt: skip
TURNED_B = (
    ("B_tile[T][T];", "B_tile[T][T + 1];"),
    ("B_tile[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col]",
     "B_tile[tx][ty] = k0 + tx < K && b_row < N ? B[b_row * K + k0 + tx]"),
    ("    float sum", "    const int b_row = blockIdx.x * T + ty;\n    float sum"),
)  # fmt: skip
SOLUTIONS = {
    "A transposed": HONEST,
    "B transposed": hostile.but(*PLAIN_A, *TURNED_B),
    "both transposed": hostile.but(*TURNED_B),
    "A transposed, scaled": hostile.but(*SCALED),
}
UNTILED = """
extern "C" __global__ void lab2(const float* A, const float* B, float* C, int M, int N, int K)
{
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[k * M + row] * B[k * N + col];
    C[row * N + col] = sum;
}
"""
CONFLICT = hostile.but(
    ("A_tile[T][T + 1]", "A_tile[T][T]"), ("A_tile[ty][tx] =", "A_tile[tx][ty] ="), ("A_tile[k][ty]", "A_tile[ty][k]")
)  # fmt: skip


def points(found: labs.Checked) -> dict[str, int]:
    return {p.rubric.id: p.points for p in found.parts if not p.rubric.by_hand}


# -- rubrics -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lab", labs.all_labs(), ids=lambda one: one.number)
def test_a_lab_adds_up_and_is_whole(lab: labs.Lab) -> None:
    assert lab.points == 100 and any(part.by_hand for part in lab.parts)
    assert len({part.id for part in lab.parts}) == len(lab.parts)
    assert {part.after for part in lab.parts} <= {"", *(part.id for part in lab.parts)}
    assert len({v.name for v in lab.variants}) == len(lab.variants) >= 3
    assert all((ROOT / "book" / f"{page}.md").is_file() for page in lab.builds_on)
    assert lab.goals and lab.hours > 0 and f"{lab.entry}(" in lab.starter


def test_a_damaged_lab_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "7_odd"
    folder.mkdir()
    text = (rubrics.FOLDER / "2_tiling" / "lab.toml").read_text(encoding="utf-8")
    (folder / "starter.cu").write_text("x", encoding="utf-8")
    monkeypatch.setattr(rubrics, "FOLDER", tmp_path)
    for broken, told in (
        (text.replace("hours = 3", ""), "'hours'"),
        (text.replace('id = "sectors"', 'id = "speed"'), "nobody knows how to mark speed"),
        (text.replace("limit = 1.0", ""), "nobody knows how to mark sectors"),
        (text + "[", "damaged"),
    ):
        (folder / "lab.toml").write_text(broken, encoding="utf-8")
        rubrics._read.cache_clear()
        with pytest.raises(DataError, match=told):
            labs.all_labs()
    rubrics._read.cache_clear()


def test_unknown_labs_and_variants_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="no lab '9'"):
        labs.check("9", HONEST)
    with pytest.raises(UnknownNameError, match="A transposed"):
        labs.check("2", HONEST, variant="A transpose")


# -- how kernels come out ----------------------------------------------------------------------------


@pytest.mark.parametrize("variant", SOLUTIONS)
def test_a_solution_has_every_point(variant: str) -> None:
    found = labs.check("2", SOLUTIONS[variant], variant=variant)
    assert found.ok and found.points == found.most == 90, str(found)
    assert "10 more are marked by hand" in str(found)


def test_there_is_a_solution_to_every_variant_and_it_solves_no_other() -> None:
    two = labs.lab("2")
    assert set(SOLUTIONS) == {v.name for v in two.variants}
    other = labs.check("2", SOLUTIONS["A transposed"], variant="B transposed")
    assert points(other)["right"] < 40 and not other.ok


TWINS = {
    "the starter": (labs.lab("2").starter, {"right": 0, "clean": 0, "sectors": 0, "wavefronts": 0}, "nothing was written"),
    "no tiles": (UNTILED, {"right": 40, "clean": 15, "sectors": 0, "wavefronts": 0}, "neighbouring lanes"),
    "strided": (hostile.STRIDED, {"right": 40, "clean": 15, "sectors": 0, "wavefronts": 0}, "neighbouring lanes"),
    "diluted": (hostile.DILUTED, {"right": 40, "clean": 15, "sectors": 0, "wavefronts": 0}, "neighbouring lanes"),
    "conflict": (CONFLICT, {"right": 40, "clean": 15, "sectors": 20, "wavefronts": 0}, "the banks"),
    "one edge": (hostile.WRONG["edge"], {"clean": 15, "sectors": 0, "wavefronts": 0}, "expected, 0.0 found"),
    "no barrier": (hostile.NO_BARRIER["relaxed"], {"sectors": 0, "wavefronts": 0}, "In another order of the warps"),
    "race": (hostile.NO_BARRIER["none"], {"clean": 0, "sectors": 0, "wavefronts": 0}, "race"),
    "destroys A": (hostile.WRONG["destroys A"], {"right": 0, "sectors": 0}, "writes to A, which are inputs"),
    "does not compile": (HONEST.replace("sum =", "sun ="), {"right": 0, "clean": 0}, "it does not compile: line 16"),
    "another head": (hostile.HEADS["renamed"][0], {"right": 0, "clean": 0}, "no kernel called lab2"),
}  # fmt: skip


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_loses_its_points_and_is_told_where_to_look(name: str) -> None:
    source, expected, words = TWINS[name]
    found = labs.check("2", source)
    got = points(found)
    assert {part: got[part] for part in expected} == expected, str(found)
    assert not found.ok and words in str(found), str(found)
    assert "Put __syncthreads" not in str(found)


@pytest.mark.parametrize("student", range(4))
def test_limits_are_fair_whatever_shapes_are_drawn(student: int) -> None:
    """A good kernel keeps them for every student, one that strides for none."""
    two = labs.lab("2")
    variant = two.variants[0]
    asked = two.asked(variant)
    drawn = cases(asked, b"a secret of a course", two.number, student)[:2]
    for source, full in ((HONEST, True), (hostile.STRIDED, False)):
        found = checking.judged(two, variant, mark(source, asked, drawn, lock=False))
        assert (points(found)["sectors"] == 20) is full, str(found)


# -- at the terminal ---------------------------------------------------------------------------------


def test_labs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["labs"]) == 0
    told = capsys.readouterr().out
    assert "Lab 2: Shared-memory tiles for any shape" in told and "3 hours, 100 points" in told
    assert cli.main(["labs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["points"] == 100


def test_a_file_is_checked_at_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lab2.cu"
    file.write_bytes(b"\xef\xbb\xbf" + HONEST.replace("\n", "\r\n").encode())
    assert cli.main(["check", "2", str(file)]) == 0
    assert "90 of 90 points" in capsys.readouterr().out
    file.write_text(CONFLICT, encoding="utf-8")
    assert cli.main(["check", "2", str(file), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["points"] == 75 and told["parts"]["wavefronts"]["points"] == 0
    file.write_bytes(HONEST.encode("utf-16"))
    assert cli.main(["check", "2", str(file)]) == 1
    assert "UTF-16 text: save it as UTF-8" in capsys.readouterr().out
    assert cli.main(["check", "2", str(tmp_path / "none.cu")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert cli.main(["check", "9", str(file)]) == 2


# -- the student's notebook --------------------------------------------------------------------------


def put(notebook: dict[str, Any], cell: str, text: str) -> None:
    [found] = [c for c in notebook["cells"] if "".join(c["source"]).startswith(cell)]
    found["source"] = text


@pytest.mark.slow
def test_the_notebook_is_handed_out_worked_on_and_collected(tmp_path: Path) -> None:
    """As a student: run all, write a solution, check it; and as the teacher: collect and judge it."""
    course = courses.new(tmp_path / "course")
    two = labs.lab("2")
    out = tmp_path / "students" / "lab2.ipynb"
    out.parent.mkdir()
    assert cli.main(["handout", "2", "--course", str(course.folder), "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    variant = course.variant(two)
    assert variant.name in text and course.secret.hex() not in text and two.title in text
    notebook = json.loads(text)
    assert len({c["id"] for c in notebook["cells"]}) == len(notebook["cells"])
    told = executed(notebook, out.parent)
    shown = json.dumps([c.get("outputs") for c in told["cells"]])
    assert "\n0 of 90 points" in shown.replace("\\n", "\n") or '"0 of 90 points' in shown
    put(notebook, "%%writefile", f"%%writefile lab2.cu\n{SOLUTIONS[variant.name]}")
    told = executed(notebook, out.parent)
    assert "90 of 90 points" in json.dumps([c.get("outputs") for c in told["cells"]])
    out.write_text(json.dumps(notebook), encoding="utf-8")
    (out.parent / "lab2.cu").unlink()
    [s] = collect(out.parent, "lab2")
    assert s.raw == SOLUTIONS[variant.name].encode()
    assert len(judged(s, two, course, 1, lock=False).marked.right) == 7


def test_every_variant_has_a_starter_that_compiles_and_the_tag_of_its_course(
    tmp_path: Path,
) -> None:
    made = courses.new(tmp_path / "course")
    for lab in labs.all_labs():
        for variant in lab.variants:
            course = replace(made, variants={lab.number: variant.name}, tag="v9")
            text = json.dumps(labs.handout(lab, course))
            assert (
                variant.words in json.loads(f'"{json.dumps(variant.words)[1:-1]}"') and "v9" in text
            )
            found = labs.check(lab.number, labs.starter(lab, variant), variant=variant.name)
            assert not found.marked.refused and not found.ok


# -- other machines ----------------------------------------------------------------------------------


@pytest.mark.skipif(not clang.available(), reason="no clang here")
def test_clang_compiles_a_students_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a Mac: no NVRTC, no registers to tell, and no lock."""
    monkeypatch.setenv("TILE_COMPILER", "clang")
    found = labs.check("2", HONEST)
    assert found.ok and "clang" in str(found) and "registers" not in str(found)
    asked = found.lab.asked(found.variant)
    assert not mark(HONEST, asked, cases(asked, b"a secret of a course")[-1:]).locked
    with pytest.raises(ConfigError, match="install NVRTC"):
        mark(HONEST, asked, (), lock=True)


def test_where_nothing_compiles_no_student_loses_points(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Done(None, "there is no compiler", kind="ToolchainError")
    monkeypatch.setattr(apart, "run", lambda *_, **__: gone)
    with pytest.raises(ToolchainError, match="no compiler"):
        labs.check("2", HONEST)


def test_the_handed_out_notebook_sets_up_a_runtime_without_a_gpu(tmp_path: Path) -> None:
    """Colab's runtime without a GPU may lack the compiler, which `start` installs."""
    cells = labs.handout(labs.lab("2"), courses.new(tmp_path / "course"))["cells"]
    [setup] = ["".join(c["source"]) for c in cells if c["id"] == "setup"]
    assert setup.endswith("from helpers.notebooks import start\n\nstart()")
