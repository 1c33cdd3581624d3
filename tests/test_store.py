"""The files of measurements: typed sections, their checker and their one writer."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from helpers.record import load, store
from helpers.record.entries import Counted, Point, Skipped
from helpers.record.store import (
    Count,
    Entry,
    Key,
    Listed,
    Maybe,
    MaybeTally,
    MaybeText,
    MaybeZero,
    Note,
    NotNegative,
    Positive,
    Tally,
    Text,
    Timeline,
    Words,
)  # fmt: skip
from nogpu.errors import ConfigError, DataError
from tests.common import ROOT, completed
from tests.test_measure import gpu, record
from tools.recorder import campaign, sections
from tools.recorder.steps import Outcome, Request, Section, Step

__all__ = ["gpu"]  # a fixture

NOTE = dict.fromkeys(store.RECORDED) | {"date": "2026-01-01", "commit": "abc"}
FILES = {
    "measurements/h200.json": "",
    "validation/sanitizer.json": "sanitizer",
    "validation/shapes_h200.json": "shapes",
    "validation/mutants_sanitizer.json": "mutants_sanitizer",
}


@pytest.mark.parametrize(("name", "kind"), FILES.items())
def test_the_books_files_come_back_as_they_were_byte_by_byte(name, kind, tmp_path):
    path = ROOT / "data" / name
    record = store.read_validation(path, kind) if kind else store.read(path)
    record.path = tmp_path / path.name
    record.write()
    assert record.path.read_bytes() == path.read_bytes()
    assert sum(map(len, record.data.values())) > 39  # it did hold something
    section, entries = next((n, e) for n, e in reversed(record.data.items()) if e)
    del record.data[section][0]
    record.write()
    assert record.path.read_bytes() != path.read_bytes()  # and what is lost is missed
    assert entries is record.data[section]


def test_every_section_of_the_shipped_record_is_a_class_with_fields():
    record = load("h200")
    assert set(record.data) == set(store.SECTIONS)
    for name, entries in record.data.items():
        assert entries, f"{name} is empty: nothing is tested of it"
        assert {type(e) for e in entries} == {store.SECTIONS[name]}
        assert len({e.about for e in entries}) == len(entries)  # the key tells them apart


# -- the checker -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tried(Entry):
    """For these tests alone: it has no section, so no file knows it."""

    kernel: Key[Text]
    n: Key[Count]
    ms: Positive
    watts: Maybe
    error: NotNegative
    share: MaybeZero
    spills: Tally
    waits: MaybeTally
    words: Words
    note: MaybeText
    times: Timeline
    wrong_at: Listed
    recorded: Note


GOOD: dict[str, Any] = {
    "kernel": "naive", "n": 64, "ms": 1.5, "watts": None, "error": 0.0, "share": None, "spills": 0,
    "waits": None, "words": "", "note": None, "times": [["h2d", 0, 0, 0.0, 0.0]], "wrong_at": (),
    "recorded": NOTE,
}  # fmt: skip


def test_annotations_say_what_fits_and_what_an_entry_is_about():
    entry = Tried(**GOOD)
    assert entry.about == ("naive", 64) == Tried.key_of(n=64, kernel="naive")
    assert entry["ms"] == entry.ms == 1.5 and dict(entry) == GOOD and entry.get("power") is None
    replace(entry, share=0.0, waits=0, n=1, ms=1, watts=0.1, words="x", note="", wrong_at=[1])
    replace(entry, times=[("h2d", 2, 1, 0, 1), ["d2h", 0, 0, 1.0, 2.5]])
    assert list(entry.keys()) == list(GOOD) and entry.get("power", 3) == 3 and entry.get("n") == 64
    assert replace(entry, ms=2).about == entry.about != replace(entry, n=65).about
    with pytest.raises(KeyError):
        entry["about"]  # no field
    assert store.unfit(Tried, GOOD) == "" and "has no 'ms'" in store.unfit(
        Tried, {"kernel": "x", "n": 1}
    )
    assert "'power', which this version of the book" in store.unfit(Tried, GOOD | {"power": 3})


COPIED = ("h2d", 0, 0, 0.0)
WRONG: dict[str, tuple[str, list[Any]]] = {
    "kernel": ("text", ["", 3]),
    "n": ("count", [0, True, 1.0]),
    "ms": ("positive", [0, float("inf"), None, True]),
    "watts": ("maybe", [0.0, "600", -1]),
    "error": ("zero or more", [-0.1, None]),
    "share": ("zero or more, or null", [-0.1, float("nan")]),
    "spills": ("a count or zero", [-1, None]),
    "waits": ("a count, zero or null", [-1]),
    "words": ("text, or empty", [None]),
    "note": ("maybe text", [3]),
    "wrong_at": ("a list", ["abc"]),
    "times": ("a list of", [[], "h2d", [3], [COPIED], [(*COPIED, 1.0, 2.0)], ((*COPIED, 1.0))]),
    "recorded": ("mapping", [3]),
}
"""Of each field what its rule is called, and what breaks it."""
BARS = ((3, 0, 0, 0.0, 1.0), ("h2d", -1, 0, 0.0, 1.0), ("h2d", 0, -1, 0.0, 1.0))
BARS += (("h2d", 0, 0, -0.1, 1.0), ("h2d", 0, 0, 1.1, 1.0), ("h2d", 0, 0, None, 1.0))
BARS += (("h2d", 0, 0, 0.0, float("inf")), ("h2d", 0.5, 0, 0, 1))
"""What is no operation of a time line."""


@pytest.mark.parametrize("field", WRONG)
def test_what_breaks_a_rule_is_no_entry(field):
    words, values = WRONG[field]
    values = values + [[GOOD["times"][0], bar] for bar in BARS if field == "times"]
    for value in values:
        with pytest.raises(DataError, match=re.escape(f"{field}={value!r}, which is not {words}")):
            Tried(**GOOD | {field: value})


def test_who_recorded_it_is_part_of_an_entry():
    every = "does not say its date, commit, driver, cuda, cublas, nvrtc, cupy"
    but_one = {name: value for name, value in NOTE.items() if name != "cuda"}
    for note, why in (({}, every), (but_one, "does not say its cuda")):
        with pytest.raises(DataError, match=why):
            Tried(**GOOD | {"recorded": note})


def test_a_field_without_a_rule_is_a_mistake_in_the_class():
    @dataclass(frozen=True)
    class Loose(Entry):
        kernel: Key[Text]
        ms: float

    with pytest.raises(AssertionError, match="Loose has a field without a rule"):
        Loose("naive", 1.0)


def test_every_section_says_what_its_entries_are_about_and_who_recorded_them():
    for kind in store.SECTIONS.values():
        assert "kernel" in store.form(kind).key or kind.section in ("auto", "l2", "transfers")
        assert [f.name for f in fields(kind)][-1] == "recorded"


def test_an_entry_takes_the_place_of_the_old_one_and_of_its_opposite(tmp_path):
    record = store.empty(tmp_path / "x.json", {"name": "X"})
    about = {"kernel": "naive", "params": {"BX": 32}, "m": 1, "n": 2, "k": 3}
    record.merge(Skipped(**about, reason="slow: so", recorded=NOTE))
    record.merge(Skipped(**{**about, "params": {"BX": 16}}, reason="slow: so", recorded=NOTE))
    measured = replace(load("h200").of(Point)[0], **about)
    record.merge(measured)
    assert record.points == [measured] and [s.params["BX"] for s in record.skipped] == [16]
    record.merge(replace(measured, ms=9.0))
    assert [p.ms for p in record.of(Point)] == [9.0]
    record.merge(Counted(**about, values={}, source=None, recorded=NOTE))
    assert len(record.points) == 1  # another section about the same launch clears nothing


# -- a new section ---------------------------------------------------------------------------------

ENTRY = '''

@dataclass(frozen=True)
class PowerCap(Entry, section="power_cap"):
    """A kernel and its watts."""

    kernel: Key[Text]
    watts: Positive
    recorded: Note
'''

POWER_CAP = '''
"""Section "power_cap": the board power that a kernel draws at most."""

from collections.abc import Iterator

from helpers.record.entries import PowerCap
from tools.recorder.steps import Done, Job, Section, Step


def lacking(job: Job) -> Iterator[Step]:
    def run() -> str:
        job.record.merge(PowerCap("naive", 612.5, dict(job.stamp)))
        return "612.5 W"

    if job.request.again or not job.record.of(PowerCap):
        yield Step("power cap of naive", 1.0, run)


SECTIONS = (Section(PowerCap, lacking, option="the power that a kernel draws", rank=45),)
'''


def test_a_new_section_takes_a_class_and_a_file(tmp_path):
    """A copy with both plans it, offers it as an option, and reads records that lack it."""
    for folder in ("helpers", "tools"):
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=left_out)
    for folder in ("data", "kernels", "packages"):
        (tmp_path / folder).symlink_to(ROOT / folder)

    def helpers(*line):
        env = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = completed([sys.executable, "-m", "helpers", *line], cwd=tmp_path, env=env)
        return done.returncode, done.stdout + done.stderr

    command = ("record", "--no-points", "--power-cap", "--plan")
    assert "unrecognized arguments: --power-cap" in helpers(*command)[1]  # there is no such section
    with (tmp_path / "helpers/record/entries.py").open("a", encoding="utf-8") as entries:
        entries.write(ENTRY)
    (tmp_path / "tools/recorder/sections/power_cap.py").write_text(POWER_CAP, encoding="utf-8")
    status, output = helpers(*command)
    assert status == 0 and "1.0 s  power cap of naive" in output
    assert "the power that a kernel draws" in helpers("record", "--help")[1]
    assert helpers("ladder")[0] == 0  # the shipped record, which lacks it, is read


# -- the loop --------------------------------------------------------------------------------------


def test_the_loop_leaves_out_what_does_not_fit_and_ends_where_a_step_says_so(gpu, monkeypatch):
    """A step too long for the time is left and shorter ones follow; one with a `rest` ends its
    section."""
    ran: list[str] = []

    def steps(rest):
        def lacking(job):
            try:
                for name, seconds in (("a", 1.0), ("b", 1e9), ("c", 1.0)):
                    left = (lambda: ["b", "c"]) if rest and name == "b" else None
                    yield Step(name, seconds, lambda name=name: ran.append(name) or name, rest=left)
            finally:
                ran.append("closed")

        return lacking

    for rest, expected, left in ((False, ["a", "c"], ["b"]), (True, ["a"], ["b", "c"])):
        ran.clear()
        section = Section(Counted, steps(rest), "trying")
        monkeypatch.setattr(campaign.sections, "ALL", {**sections.ALL, "trying": section})
        outcome: Outcome = campaign.run(Request(("trying",), seconds=500.0), lambda _: None)
        assert ran == [*expected, "closed"]
        assert outcome.left == left and outcome.refused == []


def test_an_unknown_section_is_refused(gpu):
    with pytest.raises(ConfigError, match="'points'"):
        campaign.run(Request(("point",)), lambda _: None)
    with pytest.raises(ConfigError, match="no section"):
        campaign.planned(Request(("watts",), gpu="h200"))


def test_a_campaign_that_only_plans_merges_and_opens_nothing(gpu):
    record(kernels=("naive",))
    before, opened = (store.FOLDER / "h200.json").read_bytes(), gpu.opened
    everything = ("points", *sections.OPTIONS)
    assert len(campaign.planned(Request(everything, gpu="h200"))) > 100
    assert (store.FOLDER / "h200.json").read_bytes() == before and gpu.opened == opened


def test_the_order_of_the_sections_is_points_first_and_ncu_alone_at_the_end():
    taken = list(sections.ALL)
    assert taken[0] == "points" and set(taken) >= {"sweep", "tuned", "ragged", "sanitizer"}
    ours = [name for name in taken if not sections.ALL[name].kind]
    assert ours[-2:] == ["counters", "stalls"]
    assert "points" not in sections.OPTIONS


def test_a_record_is_read_once_and_anew_when_its_file_changes(tmp_path, monkeypatch):
    shutil.copy(store.FOLDER / "h200.json", tmp_path / "mine.json")
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    checked: list[Path] = []
    read = store.read
    monkeypatch.setattr(store, "read", lambda path: checked.append(path) or read(path))
    first = load("mine")
    assert load("mine") is first and len(checked) == 1
    own = read(tmp_path / "mine.json")
    own.set_head(note="changed")
    assert own.changed
    own.write()
    assert load("mine").head["note"] == "changed" and len(checked) == 2
    own.set_head(note="changed")
    assert not own.changed, "it says what stands there already"
    own.set_head(note="again")
    own.set_head(note="again")
    assert own.changed, "until it is written"


def test_a_shared_record_refuses_to_be_changed():
    shared, own = load("h200"), store.read(store.FOLDER / "h200.json")
    [entry, *_] = own.of(Point)
    own.merge(entry)
    assert own.changed
    for change in (lambda: shared.merge(entry), lambda: shared.set_head(note="x"), shared.write):
        with pytest.raises(DataError, match=r"store\.read"):
            change()
    with pytest.raises(AttributeError):
        shared.data["points"].append(entry)
    assert load("h200").find("points") == store.read(store.FOLDER / "h200.json").find("points")


def test_an_entry_of_a_file_is_checked_once(monkeypatch):
    calls: list[object] = []
    unfit = store.unfit
    monkeypatch.setattr(store, "unfit", lambda kind, given: calls.append(0) or unfit(kind, given))
    found = store.read(store.FOLDER / "h200.json")
    assert len(calls) == sum(map(len, found.data.values()))


# -- what is asked of a record ---------------------------------------------------------------------


def test_a_record_is_asked_by_section_and_by_values(tmp_path):
    record = store.read(store.FOLDER / "h200.json")
    assert record.key == "h200" and record.gpu["name"] == "NVIDIA H200"
    naive = [p for p in record.points if p.kernel == "naive"]
    assert (
        record.of(Point, kernel="naive")
        == record.find("points", kernel="naive", power=None)
        == naive
    )
    assert (
        record.find("points", power=3) == [] and record.find("points") is not record.data["points"]
    )
    assert record.index(Point)[naive[0].about] is naive[0] and naive[0].size[0] == naive[0].m
    assert record.label(naive[:1]) == store.label("NVIDIA H200", naive[:1])
    assert record.label() == store.label("NVIDIA H200", record.points) != record.label(naive[:1])
    assert load("h200").points is not load("h200").points  # of what all share a list of one's own
    with pytest.raises(AttributeError, match=r"a Record has .*points, .* and no 'watts'"):
        print(record.watts)
    shared = load("h200")
    store.forget()
    assert load("h200") is not shared
    made = store.empty(tmp_path / "x.json", {"name": "X"}, {"clock": "c"})
    assert made.changed and made.head["protocol"] == {"clock": "c"}
    made.write()
    assert not made.changed and store.read(made.path).head == made.head
    assert made.path.read_text().startswith('{\n"schema": 1,\n"gpu": {"name": "X"},\n"protocol": ')
    sections = [name for name, kind in store.SECTIONS.items() if kind.required]
    assert list(json.loads(made.path.read_text())) == ["schema", "gpu", "protocol", *sections]


EMPTY = {"schema": 1, "gpu": {"name": "X"}} | {
    name: [] for name, kind in store.SECTIONS.items() if kind.required
}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({"schema": "1", "gpu": {"name": "X"}}, r"has schema '1'.*git pull"),
        ({"schema": 2, "gpu": {"name": "X"}}, r"has schema 2.*git pull"),
        ({"gpu": {"name": "X"}}, "no schema number"),
        ({"schema": 1}, "does not say which GPU"),
        ({"schema": 0, "gpu": {"name": "X"}}, r"has schema 0.*git checkout -- x.json.*--gpu x$"),
        ({"schema": 1, "gpu": "X"}, "does not say which GPU"),
        ({"schema": 1, "gpu": {"name": 3}}, "does not say which GPU"),
        ({"schema": 1, "gpu": {"name": "X"}, "points": [], "skipped": {}}, "no list 'skipped'"),
        (EMPTY | {"l2": 3}, "no list 'l2'"),
        (EMPTY | {"skipped": [{}, 3]}, "entry 0 of 'skipped' has no 'kernel'"),
        (EMPTY | {"skipped": [3]}, "entry 0 of 'skipped' is not an object"),
        ([1], "is not a measurement file"),
    ],
)
def test_what_is_no_record_is_refused(raw, why):
    with pytest.raises(DataError, match=why):
        store.parsed(Path("x.json"), raw)
    with pytest.raises(DataError, match=r"once more$|git pull$"):
        store.parsed(Path("x.json"), raw, "once more")


def test_a_file_that_is_no_text_is_damaged(tmp_path):
    (tmp_path / "x.json").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"damaged.*git checkout -- x.json"):
        store.read(tmp_path / "x.json")


def test_a_validation_goes_on_where_there_is_a_file(tmp_path):
    """From its own, else from the book's of that name, else from nothing."""
    book = store.read_validation(store.VALIDATION / "shapes_h200.json", "shapes")
    going_on = store.start_validation(tmp_path / "shapes_h200.json", "shapes")
    assert going_on.path == tmp_path / "shapes_h200.json" and going_on.data == book.data
    going_on.data["rows"] = going_on.data["rows"][:2]
    going_on.write()
    assert len(store.start_validation(going_on.path, "shapes").data["rows"]) == 2
    new = store.start_validation(tmp_path / "shapes_x.json", "shapes")
    assert not any(new.data.values()) and new.data.keys() == book.data.keys()
    new.write()
    assert store.read_validation(new.path, "shapes").head == {"schema": 1, "kind": "shapes"}
    for wrong in ({"kind": "sanitizer"}, {"kind": "shapes", "schema": 2}):
        new.head |= wrong
        new.write()
        with pytest.raises(DataError, match="is no file of shapes in schema 1"):
            store.read_validation(new.path, "shapes")
    head = {"schema": 1, "kind": "shapes", "controls": []}
    for wrong, why in (
        ([], "is no file of"),
        (head, "no list 'rows'"),
        ({**head, "rows": 3}, "no list"),
    ):
        new.path.write_text(json.dumps(wrong), encoding="utf-8")
        with pytest.raises(DataError, match=why):
            store.read_validation(new.path, "shapes")


def test_numbers_are_cut_to_six_digits_and_counts_are_not():
    given = {"a": (1.23456789, 67108864.0, 2.0**53 - 1), "b": 2.0**53, "c": -123456.75, "d": None}
    left = {"a": [1.23457, 67108864.0, 2.0**53 - 1], "b": 9.0072e15, "c": -123457.0, "d": None}
    assert store.rounded(given) == left
    assert store.named((1, 2, 3)) == {"m": 1, "n": 2, "k": 3} and store.shape((1, 2, 3)) == "1x2x3"
