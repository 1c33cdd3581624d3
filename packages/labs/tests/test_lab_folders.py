"""A lab is a folder, a teacher's own task without code but its reference; and host functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from nogpu.errors import ConfigError, DataError
from tilelabs import labs
from tilelabs.grading.collecting import Submission
from tilelabs.grading.judging import key_of
from tilelabs.grading.timings import time_class
from tilelabs.judging import running
from tilelabs.judging.marking import cases, mark
from tilelabs.labs import checking, courses, rehearsing, rubrics
from tools.hostile import HONEST

pytestmark = pytest.mark.nvrtc

SECRET = b"a secret of a course"
TASK = """
title = "Pairs"
entry = "lab77"
version = 1
hours = 1
builds_on = []
goals = []
hints = []
task = "t"
block = ["64"]
grid = ["cdiv(n * m, 64)"]
sizes = ["n", "m"]
tile = [16, 8]
work = "n * m"
each = "elements"

[arguments]
x = { dtype = "int32", shape = ["n", "m"] }
twice = { dtype = "int32", shape = ["n", "m"], out = true }
rows = { dtype = "float64", shape = ["n"], out = true, given = true }
n = {}
m = {}
both = { value = "n * m" }

[[shapes]]
sizes = { n = "tiles(2)", m = "tiles(2, 1)" }
counted = true

[[shapes]]
sizes = { n = "1", m = "same(3, 30)" }
kind = "reals"

[[variants]]
name = "only"
words = "w"

[[parts]]
id = "right"
points = 5
words = "r"

[[parts]]
id = "atomics"
points = 5
limit = 1.2
words = "a"
"""
REFERENCE = """
def reference(x, rows):
    return 2 * x, rows + x.sum(axis=1)
"""
KERNEL = """extern "C" __global__ void
lab77(const int* x, int* twice, double* rows, int n, int m, int both)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= both) return;
    twice[i] = 2 * x[i];
    atomicAdd(rows + i / m, double(x[i]));
}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of one lab, which is all that there is."""
    made = tmp_path / "77_pairs"
    made.mkdir()
    monkeypatch.setattr(rubrics, "FOLDER", tmp_path)
    for name, text in (("lab.toml", TASK), ("reference.py", REFERENCE), ("starter.cu", KERNEL)):
        (made / name).write_text(text, encoding="utf-8")
    rubrics._read.cache_clear()
    yield made
    rubrics._read.cache_clear()


def test_a_folder_is_a_lab(folder):
    """Two outputs of other types, one of them added to, and a number made of sizes."""
    found = labs.check("77", KERNEL)
    assert found.ok and found.points == 10, str(found)
    for old, new, words in (
        ("2 * x[i]", "2 * x[i] + (i == 5)", "row 0, column 5 of twice"),
        ("double(x[i])", "double(abs(x[i]))", "of rows: "),
        ("    twice[i]", "    if (i == both - 1) return;\n    twice[i]", "and nothing was written"),
        (
            "    twice[i]",
            "    if (i == 0) const_cast<int*>(x)[1] = 0;\n    twice[i]",
            "writes to x",
        ),
        ("int both)", "float both)", "parameter 6 of lab77 is 'float both'"),
    ):
        wrong = labs.check("77", KERNEL.replace(old, new), every_shape=True)
        assert not wrong.ok and words in str(wrong), str(wrong)
    worse = KERNEL.replace("    atomicAdd", "    atomicAdd(rows + i / m, 0.0);\n    atomicAdd")
    assert labs.check("77", worse).points == 5  # twice as many atomic operations


def test_rules_draw_sizes(folder):
    spec = labs.lab("77").specification(labs.lab("77").variants[0])
    drawn = [cases(spec, SECRET, student) for student in range(20)]
    assert all(c[0]["n"] % 16 == 0 and c[0]["m"] % 8 == 7 and c[0]["n"] >= 48 for c in drawn)
    assert {c[0].work for c in drawn} == {c[0]["n"] * (c[0]["m"] + 1) for c in drawn}
    assert len({c[0].sizes for c in drawn}) > 3  # by student ...
    assert len({c[1]["m"] for c in drawn}) == 1  # ... and by course
    assert len({cases(spec, bytes([n]) * 16, 0)[1]["m"] for n in range(9)}) > 3
    rules, one_of = {"n": "tiles(1)", "m": "tiles(1)"}, {"n": "1", "m": "2"}
    more = replace(spec, shapes=({"sizes": rules, "one_of": one_of},
                                 {"sizes": rules, "when": "aligned > 1"}))  # fmt: skip
    for [one] in (cases(more, SECRET, student) for student in range(20)):
        assert (one["n"] == 1) != (one["m"] == 2)
    assert len(cases(replace(more, aligned=8), SECRET)) == 2
    assert hash(spec) == hash(more) != hash(replace(spec, work="n"))  # so that it can be a key


@pytest.mark.parametrize(("file", "old", "new", "words"), [
    ("lab.toml", "tiles(2, 1)", "tilings(2)", "tilings"),
    ("lab.toml", "tile = [16, 8]", "tile = [16]", "tile|argument"),
    ("lab.toml", "hours = 1", "", "'hours'"),
    ("lab.toml", 'id = "atomics"', 'id = "moons"', "nobody knows how to mark moons"),
    ("lab.toml", "limit = 1.2", "", "nobody knows how to mark atomics"),
    ("lab.toml", "limit = 1.2", "limit = 1.2\nzero = 1.2", "nobody knows how to mark atomics"),
    ("lab.toml", 'name = "only"', 'name = "only"\nchanges = [["none", "x"]]', "'none' stands 0 times"),
    ("lab.toml", "title", "[title", "damaged"),
    ("lab.toml", "out = true, given", "written = true, given", "written"),
    ("lab.toml", "work = ", "works = 3\nwork = ", "'works'"),
    ("reference.py", "2 * x, rows", "x.sum(axis=1), rows", "twice should be"),
    ("reference.py", "2 * x", "2 * x / 0", "reference of lab77's reference.py"),
    ("reference.py", "2 * x, rows", "rows", "lab77's reference.py"),
    ("reference.py", "def reference", "def other", "'reference'"),
])  # fmt: skip
def test_a_damaged_folder_says_so(folder, file, old, new, words):
    """When it is read or, of its reference, when it is tried; never as the student's fault."""
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(DataError, match=words):
        labs.check("77", KERNEL)


def test_another_reference_is_judged_anew(folder, tmp_path):
    course, s = courses.new(tmp_path / "course"), Submission("s1", "", "lab77.cu", KERNEL.encode())

    def key(file, old, new):
        text = (folder / file).read_text(encoding="utf-8")
        (folder / file).write_text(text.replace(old, new), encoding="utf-8")
        rubrics._read.cache_clear()
        return key_of(s, labs.lab("77"), course, 1)

    first = key("lab.toml", 'title = "Pairs"', 'title = "Two"')
    assert first == key("lab.toml", 'title = "Two"', 'title = "Pairs"')
    assert first != key("reference.py", "2 * x", "x + x")


def test_a_lab_without_a_rung_is_not_timed(tmp_path):
    with pytest.raises(ConfigError, match="lab 7 names no `rung`"):
        time_class(labs.lab("7"), [], [], courses.new(tmp_path), tmp_path)


# -- what is right ---------------------------------------------------------------------------------


def softmax(x):
    third = np.exp((x - x.mean(axis=1, keepdims=True)) / 3)  # its cube is what is meant
    return third**3 / (third**3).sum(axis=1, keepdims=True)


def stencil(beyond, X, a, b):
    total = a * X
    for axis, step, edge in ((0, 1, 0), (0, -1, -1), (1, 1, 0), (1, -1, -1)):
        near = np.roll(X, step, axis)
        at: tuple[Any, Any] = (edge, slice(None)) if axis == 0 else (slice(None), edge)
        near[at] = {"around": near[at], "zeros": 0, "clamped": X[at]}[beyond]
        total = total + b * near
    return total


def product(A, B, C, alpha=1, beta=0):
    return alpha * np.einsum("ik,kj", A, B) + (beta * C if beta else 0)


FORMULAS: dict[tuple[str, str], Callable[..., Any]] = {
    ("1", "by columns, scaled"): product,
    ("2", "A transposed"): product,
    ("5", "A and C transposed"): product,
    ("7", "sum"): lambda x, s: s + math.fsum(x),
    ("7", "squares"): lambda x, s: s + x @ x,
    ("7", "sizes"): lambda x, s: s + np.linalg.norm(x, 1),
    ("8", "softmax"): lambda X, Y: softmax(X),
    ("8", "softmin"): lambda X, Y: softmax(-X),
    ("8", "with a temperature"): lambda X, Y, t: softmax(t * X),
    **{("9", name): lambda X, Y, a, b, name=name: stencil(name, X, a, b)
       for name in ("zeros", "clamped", "around")},
    ("10", "a x + y"): lambda x, y, a: y + x * a,
    ("10", "a x y"): lambda x, y, a: y * x * a,
    ("10", "the larger"): lambda x, y, a: np.where(a * x > y, a * x, y),
}  # fmt: skip


@pytest.mark.parametrize(("number", "name"), FORMULAS)
def test_a_reference_is_what_the_lab_says(number, name):
    """Beside a formula that stands nowhere else; what is off by a hundredth is beyond the bound."""
    lab = labs.lab(number)
    spec = lab.specification(checking.variant_of(lab, name))
    case = next(c for c in cases(spec, SECRET, "r") if c.kind == "reals")
    made = running.operands(spec.as_data, asdict(case))
    sizes = dict(case.sizes)
    given = {n: np.asarray(x.T if n in spec.transposed else x, float)
             for n, x in made["given"].items() if n not in sizes}  # fmt: skip
    want, [bound] = FORMULAS[number, name](**given), made["bound"].values()
    [found] = made["want"].values()
    assert (abs(found - want) <= bound).all() and not (abs(1.01 * found - want) <= bound).all()


def test_whole_numbers_are_exact_where_the_lab_says_so():
    two, eight = (labs.lab(n).specification(labs.lab(n).variants[0]) for n in ("2", "8"))
    for spec, exact in ((two, True), (eight, False)):
        case = next(c for c in cases(spec, SECRET) if c.kind == "integers")
        [bound] = running.operands(spec.as_data, asdict(case))["bound"].values()
        assert bool((bound == 0).all()) == exact


# -- a host function -------------------------------------------------------------------------------

TEN = labs.lab("10")
PLAIN, TWO = ({s.name: s.text for s in rehearsing.sources(TEN)}[name]
              for name in ("all at once", "solution, a x + y"))  # fmt: skip
SPEC = TEN.specification(TEN.variants[0])
FEW = cases(SPEC, SECRET)[:1]


@pytest.mark.parametrize(("old", "new", "kind"), [
    ("cudaMalloc(&dx, bytes)", "cudaMalloc(&dx, bytes / 2)", "out-of-bounds"),
    ("256>>>(dx", "2048>>>(dx", "refused-launch"),
    ("dy, n, a);", "dy, n);", "refused-launch"),
])  # fmt: skip
def test_what_a_host_function_launches_wrong_is_found(old, new, kind):
    """What else it may do wrong stands in test_hosting.py."""
    assert old in PLAIN
    found = mark(PLAIN.replace(old, new), SPEC, FEW, lock=False)
    assert kind in {kind for run in found.runs for kind, _, _ in run.findings} and not found.clean


@pytest.mark.parametrize(("text", "streams"), [(PLAIN, 0), (TWO, 2)], ids=["plain", "streams"])
def test_an_honest_host_function_raises_no_alarm(text, streams):
    found = mark(text, SPEC, FEW, lock=False)
    assert found.clean and found.right == FEW, found.runs
    [one, _] = found.runs
    assert (one.copied, one.leaked, one.streams) == (12 * FEW[0]["n"], 0, streams) and one.sectors


def test_a_kernel_in_place_of_a_host_function_has_no_points():
    assert checking.judged(TEN, TEN.variants[0], mark(HONEST, SPEC, FEW, lock=False)).points == 0
