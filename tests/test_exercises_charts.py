"""Exercises that are answered with a chart or a table: right ones pass in any form, and of a wrong
one is told what is missing and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.page.exercises import Axis, check, check_chart, check_table
from tests.test_exercises import solved

plt = pytest.importorskip("matplotlib.pyplot")
pd = pytest.importorskip("pandas")


@pytest.fixture(autouse=True)
def closed():
    """No window, and no figure of one test in another."""
    plt.switch_backend("Agg")
    yield
    plt.close("all")


# -- the exercises of the pages --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "old", "new"),
    [
        ("05.4", 'check("05.4", ax)', 'check("05.4", fig)'),
        ("05.4", "ax.plot(strides, ", "ax.scatter(strides, "),
        ("05.4", "[1, 2, 4,", "[1, 2, 3, 4,"),
        ("05.4", "ax.legend()", "ax.legend(reverse=True)"),
        ("05.4", "ax.legend()", "ax.axvline(8, color='grey')\nfig.legend()"),
        ("05.4", "label=name", "label=name.upper()"),
        ("07.5", 'check("07.5", frame)', 'check("07.5", frame.set_index("padding (floats)"))'),
        ("07.5", 'check("07.5", frame)', 'check("07.5", frame.to_dict("records"))'),
        ("07.5", "np.arange(5), ", "np.arange(9), "),
        ("11.4", "ax.plot(stages, ", "ax.scatter(stages, "),
        ("11.4", 'ax.set_xlabel("stages")', 'ax.set_xlabel("buffers")\nax.set_xticks(stages)'),
        ("15.4", ', xlabel="N"', ""),  # pandas writes the name of the column, m
        ("15.4", "100 * rec.frame", "100.4 * rec.frame"),
    ],
)
def test_a_right_chart_passes_in_any_form(id, old, new):
    result = solved(id, (old, new))
    assert result.passed, result


@pytest.mark.parametrize(
    ("id", "old", "new", "message"),
    [
        ("05.4", 'ax.set_xscale("log", base=2)\n', "", 'ax.set_xscale("log")'),
        ("05.4", 'ax.set_yscale("log", base=2)\n', "", "the y axis is logarithmic; got a linear"),
        ("05.4", "ax.legend()\n", "", "a legend says which is which. Give each a `label=`"),
        ("05.4", "label=name", 'label="of one"', "sectors is in the chart"),
        ("05.4", "label=name", "label=name[:4]", 'label="wavefronts"'),
        ("05.4", '"stride (floats)"', '"stride"', 'ax.set_xlabel("stride (floats)")'),
        ("05.4", 'ax.set_ylabel("sectors, wavefronts of a request")\n', "", "got no label"),
        ("05.4", "count(s * lanes)", "count(s + lanes)", "wavefronts at stride (floats) = 2, and 4 more"),
        ("05.4", "16, 32]", "16]", "= 32; got no value"),
        ("05.4", "ax.legend()", 'ax.legend(["wavefronts", "sectors"])', "wavefronts at stride"),
        ("05.4", 'check("05.4", ax)', 'check("05.4", fig.get_axes)', "the answer is a chart"),
        ("05.4", 'check("05.4", ax)', 'check("05.4", [1, 2])', "got list; expected an Axes"),
        ("07.5", "(32 + p) % 32", "(32 + p) % 31", "wavefronts at padding (floats) = 0"),
        ("07.5", "padding, lanes = np.arange(5)", "padding, lanes = np.arange(4)", "= 4; got no value"),
        ("07.5", '"tile (bytes)"', '"tile"', "as in `tile (bytes)`"),
        ("07.5", "(32 + padding) * 4", "(32 + padding)", "Each is 0.25 times what it should be"),
        ("07.5", '"padding (floats)": padding', '"pad": padding', "a column for padding (floats)"),
        ("07.5", 'check("07.5", frame)', 'check("07.5", frame.plot())', "the answer is a table"),
        ("11.4", 'f"copy of {copy}"', 'f"copy of {1200 - copy}"', "400 at stages = 1, and 4 more"),
        ("11.4", "clocks(s, copy)", "clocks(s, copy, 200)", "`clocks(stages, copy)` gives each"),
        ("11.4", "(clocks)", "", 'ax.set_ylabel("time of eight tiles (clocks)")'),
        ("15.4", "100 * rec", "rec", "Each is 0.01 times what it should be: look at the unit"),
        ("15.4", "logx=True", "logx=False", "the x axis is logarithmic"),
        ("15.4", "% of cuBLAS", "of cuBLAS", "the y axis says what it shows"),
        ("15.4", '["cp_async", ', '["warp_tiled", ', "cp_async is in the chart; got fp32_best, warp_tiled"),
        ("15.4", "cublas_ratio", "gflops", "the record `gpu="),
    ],
)  # fmt: skip
def test_a_wrong_chart_is_told_what_to_do(id, old, new, message):
    result = solved(id, (old, new))
    assert not result.passed and message in str(result), result


# -- reading an Axes and a frame -------------------------------------------------------------------

X, Y = Axis("N", ("n",)), Axis("time (ms)", ("time", "ms"))
TWO: dict[str, dict[float, float]] = {"old": {1: 2.0, 8: 16.0}, "new": {1: 1.0, 8: 4.0}}
FRAME = {"old": [2.0, 16.0], "new": [1.0, 4.0]}


def faults(checks):
    return [str(one) for one in checks if not one.ok]


@pytest.mark.parametrize("kind", ["line", "bar"])
def test_lines_and_bars_of_pandas_are_read_by_their_numbers(kind):
    """Bars stand at 0, 1, 2 and so on, beside each other, under the numbers of their rows."""
    axes = pd.DataFrame(FRAME, index=[1, 8]).plot(kind=kind, xlabel="N", ylabel="time (ms)")
    assert faults(check_chart(axes, X, Y, TWO)) == []
    other = pd.DataFrame(FRAME, index=[1, 9]).plot(kind=kind, xlabel="N", ylabel="time (ms)")
    assert faults(check_chart(other, X, Y, TWO)) == [
        f"not yet: {name} at N = 8; got no value. Add what is missing." for name in TWO
    ]


def test_categories_of_matplotlib_are_numbers_where_they_name_some():
    _, axes = plt.subplots()
    axes.plot(["1", "8"], TWO["old"].values())
    axes.set(xlabel="N", ylabel="time (ms)")
    assert faults(check_chart(axes, X, Y, {"old": TWO["old"]})) == []
    assert faults(check_chart(axes, X, Y, {"old": {0: 2.0, 1: 16.0}})) != []


def test_bars_where_ticks_are_numbers_stand_where_they_stand():
    _, axes = plt.subplots()
    axes.bar([1, 8], [2.0, 16.0])
    axes.set(xlabel="N", ylabel="time (ms)")
    assert faults(check_chart(axes, X, Y, {"old": TWO["old"]})) == []
    axes.set_xticks([1, 8], ["1", "8"])
    assert faults(check_chart(axes, X, Y, {"old": TWO["old"]})) == []
    assert faults(check_chart(axes, X, Y, {"old": {0: 2.0, 1: 16.0}})) != []


def test_one_series_needs_no_name_and_an_empty_chart_has_none():
    _, axes = plt.subplots()
    axes.set(xlabel="N", ylabel="time (ms)")
    one = {"old": TWO["old"]}
    assert "old is in the chart; got nothing drawn" in faults(check_chart(axes, X, Y, one))[0]
    axes.plot([1, 8], [2, np.nan])
    assert "N = 8; got no value" in faults(check_chart(axes, X, Y, one))[0]
    axes.plot([1, 8], [2, 16], label="old")
    assert faults(check_chart(axes, X, Y, one)) == []
    axes.plot([1, 8], [1, 4], label="new")
    assert "legend" in faults(check_chart(axes, X, Y, one))[0]
    _, both = plt.subplots(2)
    assert "ndarray" in faults(check_chart(both, X, Y, one))[0]


def test_a_table_is_found_by_what_its_columns_say():
    wanted = {Y: TWO["old"]}
    rows: list[dict[str, Any]] = [{"N": 1, "time, ms": 2}, {"N": 8, "time, ms": "16"}]
    assert "time (ms) at N = 8; got no value" in faults(check_table(rows, X, wanted))[0]
    rows[1]["time, ms"] = 16
    assert faults(check_table(rows, X, wanted)) == []
    assert faults(check_table(pd.DataFrame(rows).set_index("N"), X, wanted)) == []
    nothing: list[Any] = [[], [1], {"N": 1}, "N", plt.figure()]
    for none in nothing:
        assert "the answer is a table" in faults(check_table(none, X, wanted))[0]


def test_an_answer_that_is_missing_is_no_wrong_one():
    for id in ("05.4", "07.5", "11.4", "15.4"):
        assert check(id, ...).verdict == "not answered yet"
