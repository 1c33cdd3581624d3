"""The top as one call, what times it, and the figure that its record makes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from helpers.chapters import summit
from helpers.chapters.ch22 import epilogue, fp8
from helpers.page.workbench import Verdict
from nogpu.bfloat16 import to_bfloat16
from nogpu.errors import DtypeError, NoGPUError, ShapeError
from tools import summit_on_a_gpu as tool
from tools.summit_on_a_gpu import Case

FEW = ((7, 5, 3), (130, 137, 70))


@pytest.mark.parametrize("form", ["bfloat16", "e4m3"])
@pytest.mark.parametrize(
    ("shape", "does"), [(FEW[0], "bias"), (FEW[1], "residual gelu"), (FEW[1], "")]
)
def test_one_call_gives_every_form_and_end(shape, does, form):
    A, B, end = tool.made(Case(*shape, form, does))
    C = summit.matmul(A, B, bias=end.bias, residual=end.residual, gelu=end.gelu)
    assert C.shape == shape[:2] and C.dtype == np.uint16 and tool.wrong(A, B, end, C) == 0
    other = epilogue.End(end.bias, end.residual, not end.gelu)
    assert tool.wrong(A, B, other, C) > 0, "with another end it would be wrong"


def test_stacks_and_what_it_refuses():
    rng = np.random.default_rng(0)
    A, B = (to_bfloat16(rng.standard_normal(s, dtype=np.float32)) for s in ((2, 5, 6), (2, 6, 7)))
    C = summit.matmul(A, B)
    assert C.shape == (2, 5, 7) and epilogue.wrong(epilogue.layer(A, B), C) == 0
    assert np.array_equal(C[1], summit.matmul(A[1], B[1]))
    with pytest.raises(DtypeError, match="to_bfloat16"):
        summit.matmul(A[0].astype(np.float32), B[0])
    with pytest.raises(DtypeError, match="B is Scaled"):
        summit.matmul(A[0], fp8.scaled(np.ones((7, 6)), fp8.BLOCK))
    with pytest.raises(ShapeError, match="bias"):
        summit.matmul(A[0], B[0], bias=A[0, 0])
    with pytest.raises(NoGPUError):
        summit.matmul(A[0], B[0], backend="cuda")


def test_repeated_rows_are_those_that_were_drawn():
    x = fp8.scaled(np.random.default_rng(0).standard_normal((256, 300)), fp8.BLOCK)
    more = tool.repeated(x, 600)
    assert more.rows == 600 and (more.values()[512:] == x.values()[:88]).all()


def test_the_record_is_of_the_cases_of_its_tool():
    kept = summit.record()
    assert kept["command"] == "python -m tools.summit_on_a_gpu"
    assert len(kept["shapes"]) == len(tool.SHAPES) * len(summit.FORMS)
    assert sum(row["wrong"] for row in kept["shapes"]) == 0
    rows = summit.times()
    assert {(r["m"], r["n"], r["k"], r["form"], r["does"]) for r in rows} == set(tool.CASES)
    for row in rows:
        rate = 2 * row["m"] * row["n"] * row["k"] / row["ms"] / 1e9
        assert row["tflops"] == pytest.approx(rate) and row["q1"] <= row["ms"] <= row["q3"]
        assert row["tried"] >= 1 and row["error_percent"] < 1
    libraries = [r for r in rows if r["kernel"] == summit.LIBRARY and r["form"] == "bfloat16"]
    assert all(r["tried"] > 1 for r in libraries) and len(libraries) == 6


def test_the_figure_shows_the_record():
    """Every bar is a row of the record."""
    text = summit.chart()._repr_html_()
    for row in (*summit.times("bfloat16", ""), *summit.times("e4m3", "")):
        if row["m"] == row["n"] == row["k"]:
            name = summit.named(row)
            assert f">{name}<" in text and f">{1e3 * row['tflops']:,.0f}<" in text, name
    assert "best of 1<" not in text


def test_a_reader_s_rung_stands_among_them():
    own = {"kernel": "mine", "m": 4096, "n": 4096, "k": 4096, "ms": 1.0, "gflops": 137439.0,
           "origin": "measured", "source": "measured here, a GPU"}  # fmt: skip
    timed = SimpleNamespace(facts=SimpleNamespace(timed=SimpleNamespace(rows=lambda: [own])))
    text = summit.chart(cast(Verdict, timed))._repr_html_()
    assert "mine" in text and "measured here" in text and "137" in text
    seen: Any = SimpleNamespace(facts=SimpleNamespace(timed=None), ok=False)
    assert "not right" in summit.chart(seen)._repr_html_()
    seen.ok = True
    assert "right and clean" in summit.chart(seen)._repr_html_()


def test_shares_are_of_the_library_s_best():
    rows = summit.shares()
    assert len(rows) == len([case for case in tool.CASES if case.form != "float32"])
    for row in rows:
        if row["library"] is not None:
            assert math.isclose(row["share"], 100 * row["call"] / row["library"], rel_tol=0.03)
