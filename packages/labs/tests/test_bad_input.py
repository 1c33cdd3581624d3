"""Whatever is handed in: one clear line for the teacher and the student, and never a traceback."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from classes import LOCK, course_of, lay, table
from hypothesis import given, settings
from hypothesis import strategies as st
from test_labs import CONFLICT
from test_policy import TWO, made, reported, write

from nogpu.errors import DataError, TileError
from tilelabs import apart
from tilelabs.grading import report
from tilelabs.grading.collecting import Submission, collect
from tilelabs.grading.gradebooks import feedback_zip
from tilelabs.grading.grouping import groups
from tilelabs.grading.judging import grade
from tilelabs.grading.preparing import prepared
from tilelabs.grading.reporting import overrides
from tilelabs.judging import marking
from tilelabs.judging.marking import tidy
from tilelabs.labs import courses
from tools.hostile import HEADS, HONEST, notebook

CELL = f"%%cuda lab2\n{HONEST}"
RUNS = {
    "bom.cu": b"\xef\xbb\xbf" + HONEST.encode(),
    "crlf.cu": HONEST.replace("\n", "\r\n").encode(),
    "cr.cu": HONEST.replace("\n", "\r").encode(),
    "bidi.cu": f"// \u202e}} // \u2066\n{HONEST}".encode(),
    "outputs.ipynb": notebook(CELL, outputs="y" * 15_000_000),
    "bom_notebook.ipynb": b"\xef\xbb\xbf" + notebook(CELL),
    "two.ipynb": notebook(f"%%cuda lab2\n{CONFLICT}", CELL),
    "bom_in_cell.ipynb": notebook("%%cuda lab2\n\ufeff" + HONEST.replace("\n", "\r\n")),
}
"""Odd, and right: each has all 90 points."""
REFUSED = {
    "utf16.cu": (HONEST.encode("utf-16"), "the source is UTF-16 text: save it as UTF-8"),
    "latin1.cu": (f"// \xe4\n{HONEST}".encode("latin-1"), "not UTF-8: line 1 has the byte 0xe4"),
    "nul.cu": (HONEST.encode() + b"\0", "has a NUL byte in line"),
    "empty.cu": (b"", "the source is empty"),
    "spaces.cu": (b"\xef\xbb\xbf \r\n\t", "the source is empty"),
    "large.cu": (b"x" * 300_000, "hand in the kernel alone"),
    "none.ipynb": (notebook("x = 1"), "no cell begins with %%cuda lab2"),
    "homoglyph.ipynb": (notebook(f"%%\u0441uda lab2\n{HONEST}"), "no cell begins with %%cuda lab2"),
    "empty_cell.ipynb": (notebook("%%cuda lab2"), "the cell is empty"),
    "nul_cell.ipynb": (notebook(f"%%cuda lab2\nx\0{HONEST}"), "the cell has a NUL byte"),
    "surrogate.ipynb": (notebook("%%cuda lab2\n\ud800"), "the cell is not UTF-8"),
    "outputs_of_50_mb.ipynb": (notebook(CELL, outputs="y" * 50_000_000), "larger than 20 MB"),
    "no_json.ipynb": (b"{", "no notebook that can be read"),
    "utf16.ipynb": (notebook(CELL).decode().encode("utf-16"), "no notebook that can be read"),
    **{f"head{n}.cu": (text.encode(), reason) for n, (text, reason) in enumerate(HEADS.values())},
}
"""And what is said of it."""


@pytest.fixture(scope="module")
def handed(tmp_path_factory):
    """A class of them, judged and reported: the folder, and the table by id."""
    place = tmp_path_factory.mktemp("bad")
    course = course_of(place / "course")
    every = RUNS | {name: raw for name, (raw, _) in REFUSED.items()}
    lay(place / "in", **{f"{whose(name)}/{name}": raw for name, raw in every.items()})
    grade(TWO, prepared(place / "in", TWO, course).submissions, course, place / "out", lock=LOCK)
    report(TWO, course, place / "out")
    return place, table(place / "out" / "lab-2-marks.csv")


def whose(name):
    """The folder, and so the id, of a file: its name, two of which differ in kind alone."""
    return Path(name).stem.replace("utf16", f"utf16{Path(name).suffix[1:]}")


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", RUNS)
def test_what_is_odd_and_right_has_its_points(name, handed):
    place, rows = handed
    row = rows[whose(name)]
    assert row["total"] == "90", row["notes"]
    words = (place / "out" / "lab-2-feedback" / f"{whose(name)}.txt").read_text(encoding="utf-8")
    assert "Total: 90 of 100" in words
    if name == "two.ipynb":
        note = "2 cells begin with %%cuda lab2; the last counts"
        assert note in row["notes"] and note in words


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_judged_is_one_clear_line(name, handed):
    place, rows = handed
    row, reason = rows[whose(name)], REFUSED[name][1]
    assert reason in row["notes"] and "\n" not in row["notes"] and row["total"] == "0"
    base = place / "out" / "lab-2-feedback" / whose(name)
    words = base.with_suffix(".txt").read_text(encoding="utf-8")
    [line] = [line for line in words.splitlines() if reason in line]
    assert line.startswith("[ ] it did not run: ") and len(line) < 340
    assert not any(odd in words + row["notes"] for odd in ("Traceback", "Error", "Exception"))


# -- anything at all -------------------------------------------------------------------------------


def through(name, raw):
    """Collect, judge without a compiler, and report a file: nothing but lines."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        place = Path(folder)
        course = courses.new(place / "course")
        (place / "in").mkdir()
        (place / "in" / name).write_bytes(raw)
        patch.setattr(marking.apart, "run", lambda *a, **k: apart.Done(None, "no compiler here"))
        found = prepared(place / "in", TWO, course).submissions
        assert all(s.problem == tidy(s.problem, 10_000) for s in found)
        [one] = grade(TWO, found, course, place / "out", lock=False)
        assert one.marked.refused and one.marked.refused == tidy(one.marked.refused)
        [row] = report(TWO, course, place / "out")
        for words in (row.feedback, *row.notes):
            assert not any(ord(c) < 32 and c != "\n" for c in words)
            assert len(words.encode()) <= 20_000
        assert len((place / "out" / "lab-2-marks.csv").read_text("utf-8").splitlines()) == 2


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace")))
def test_any_bytes_are_one_line(raw):
    through("s1.cu", raw)
    through("s2.ipynb", raw)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)
NAMES = st.text(max_size=8)
ANY = st.recursive(
    PLAIN, lambda x: st.lists(x, max_size=3) | st.dictionaries(NAMES, x, max_size=3), max_leaves=8
)


def some(**fields):
    """Anything, or an object with some of these fields, each as it should be or anything."""
    strategies = {name: field | ANY for name, field in fields.items()}
    return ANY | st.fixed_dictionaries({}, optional=strategies)


LINES = st.sampled_from(["%%cuda lab2\n", "%%cuda lab2", HONEST, "\ud800", "\0", "\n", "x"])
KINDS = st.sampled_from(["code", "markdown"])
CELLS = st.lists(some(cell_type=KINDS, source=st.lists(LINES), outputs=ANY), max_size=4)
NOTEBOOKS = some(cells=CELLS, metadata=some(tile_by_tile=ANY))


@settings(max_examples=80, deadline=None)
@given(NOTEBOOKS)
def test_any_notebook_is_one_line(made_up):
    through("s1.ipynb", json.dumps(made_up).encode())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6), st.integers(0, 400)
)
def test_any_zip_is_submissions_or_one_line(changes, end):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a_1_9_lab2.cu", HONEST)
        archive.writestr("../b.ipynb", notebook(CELL))
    raw = bytearray(whole.getvalue())
    for at, value in changes:
        raw[at * len(raw) // 401] = value
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.zip"
        path.write_bytes(bytes(raw) if end > 40 else bytes(raw[: end * 20]))
        with suppress(TileError):
            found = collect(path, "lab2")
            assert all(isinstance(s, Submission) for s in found)
            words = feedback_zip(TWO, [], {}, Path(folder))
            assert words.is_file()


def test_a_traceback_would_be_seen(monkeypatch):
    def fail(*a):
        raise AttributeError

    monkeypatch.setattr("tilelabs.grading.collecting.notebooks.read", fail)
    with pytest.raises(AttributeError):
        through("s1.ipynb", b"{}")


def test_a_folder_that_leads_elsewhere_is_not_written_to(tmp_path):
    courses.new(tmp_path / "course")
    write(tmp_path, made("s1"))
    rows = reported(tmp_path)
    for path in ("../../x.cu", "/etc/x.cu", "..\\..\\win/x.cu"):
        with zipfile.ZipFile(feedback_zip(TWO, rows, {"s1": path}, tmp_path)) as archive:
            assert archive.namelist()[0] == "s1/lab-2-feedback.txt"


TABLES = {"groups": lambda c: groups(c, TWO), "overrides": lambda c: overrides(c, TWO, {"s1"})}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(TABLES)), st.binary(max_size=60) | st.text(max_size=60).map(str.encode)
)
def test_any_table_is_read_or_one_line(name, raw):
    with tempfile.TemporaryDirectory() as folder:
        course = courses.new(Path(folder) / "course")
        path = course.folder / f"{name}.csv"
        for head in (b"", path.read_bytes()):
            path.write_bytes(head + raw)
            try:
                TABLES[name](course)
            except DataError as error:
                assert str(path) in str(error) and "\n" not in str(error)
