"""The runner of the mutants on a GPU, with pretend tools; and its record, where there is one."""

from __future__ import annotations

import json
import math

import pytest

from helpers import page as pages
from helpers.record import evidence, store
from helpers.record.entries import CHECKS, ControlRun
from nogpu import device
from nogpu.errors import ToolchainError
from tests.common import ROOT
from tests.test_verify import calls
from tools import mutants
from tools import mutants_sanitizer as ms
from tools.recorder import sanitizer
from tools.recorder.sanitizer import Task, Verdict

__all__ = ["calls"]  # a fixture

RECORD = ROOT / "data" / "validation" / "mutants_sanitizer.json"


def of(kernel, fault, at=0):
    """A mutant of a class, or (fault "") a clean kernel."""
    return [s for s in ms.subjects() if (s.kernel, s.fault) == (kernel, fault)][at]


def acting(subject, acts):
    """The same mutant, which does something that the pretend tools know."""
    return ms.Subject(subject.name, subject.kernel, subject.fault, f"{subject.text}// acts: {acts}")


def name(kernel, fault, at=0):
    return of(kernel, fault, at).name


@pytest.fixture
def few(calls, monkeypatch):
    """Two clean kernels and four mutants: one plain, one endless, one wrong, one that stops."""
    chosen = (
        of("naive", ""),
        of("tiled_16", ""),
        of("tiled_16", "barrier dropped"),
        acting(of("tiled_16", "barrier dropped", 1), "hang"),
        acting(of("tiled_16", "indices swapped"), "wrong"),
        acting(of("naive", "bound dropped"), "stop"),
    )
    monkeypatch.setattr(ms, "subjects", lambda: chosen)
    monkeypatch.setattr(sanitizer, "STARTUP", 4.0)
    return chosen


def go(out, **options):
    return ms.run(out, workers=4, limit=1.0, commit="abc", say=lambda _: None, **options)


def rows(out):
    runs = store.read_validation(out, ms.KIND).rows
    return {(r.name, r.check): r for r in runs}


NOTE = dict.fromkeys(store.RECORDED)


def test_every_mutant_and_every_clean_kernel_is_a_subject():
    names = [s.name for s in ms.subjects()]
    assert len(set(names)) == len(names)
    assert {s.name for s in ms.subjects() if s.fault} == {m.name for m in mutants.mutants()}
    assert {s.kernel for s in ms.subjects() if not s.fault} == set(mutants.TILES)
    assert len({s.source for s in ms.subjects()}) == len(names)
    assert dict(of("cp_async", "").params)["STAGES"] == 3  # the tiles of the emulator's record


def test_the_shapes_are_those_of_the_emulators_record(tmp_path):
    task = ms.task(of("tiled_16", ""), "memcheck", tmp_path)
    sizes = [(j["M"], j["N"], j["K"]) for j in task.jobs]
    assert sizes == [mutants.RAGGED, mutants.ALIGNED]
    assert len(ms.task(of("tiled_padded", ""), "", tmp_path).jobs) == 1
    assert all(j["check"] for j in task.jobs)
    assert not any(j["check"] for j in ms.task(of("naive", ""), "initcheck", tmp_path).jobs)


def test_each_mutant_runs_under_each_tool_and_alone(few, tmp_path):
    out = tmp_path / "m.json"
    assert go(out) == []
    found = rows(out)
    assert set(found) == {(s.name, check) for s in few for check in ms.RUNS}
    plain, endless, wrong, stops = (s.name for s in few[2:])
    assert all(found[few[1].name, check]["errors"] == 0 for check in CHECKS)
    assert all(found[plain, check]["errors"] == 6 for check in CHECKS)
    assert found[plain, "racecheck"]["first"].startswith("Error: Race reported")
    assert (found[plain, ""]["state"], found[plain, ""]["errors"]) == ("ran", 0)
    assert {found[endless, check]["state"] for check in ms.RUNS} == {"not finished"}
    assert found[wrong, ""]["wrong"] == 14 and found[plain, ""]["wrong"] == 0
    assert found[stops, ""]["state"] == "stopped"
    assert "illegal memory access" in found[stops, ""]["first"]
    data = store.read_validation(out, ms.KIND)
    assert {c.check for c in data.controls} == set(CHECKS)

    caught = evidence.caught_by(data.rows)
    assert caught["memcheck"] >= {plain, wrong, stops}
    assert caught["result"] == {wrong, stops}


def test_it_goes_on_where_it_stopped(few, calls, tmp_path):
    out = tmp_path / "m.json"
    few = few[:3]
    with pytest.raises(ToolchainError, match="seconds"):
        go(out, chosen=few, seconds=0.0)
    assert not out.exists()
    go(out, chosen=few[:2])
    calls()
    go(out, chosen=few)
    assert len([c for c in calls() if "launch" in c or "sanitizer" in c]) == 5 + 5  # and controls
    go(out, chosen=few)
    assert calls() == []


def test_a_mutant_that_changed_is_run_again_and_its_old_row_goes(few, tmp_path, monkeypatch):
    out = tmp_path / "m.json"
    go(out, chosen=few[:3])
    old = rows(out)[few[2].name, ""]["source"]
    again = ms.Subject(few[2].name, few[2].kernel, few[2].fault, few[2].text + "\n;")
    monkeypatch.setattr(ms, "subjects", lambda: (*few[:2], again))
    go(out)
    assert rows(out)[again.name, ""]["source"] == again.source != old


def test_what_no_tool_has_reported_comes_first(tmp_path):
    chosen = [of("tiled_16", "barrier dropped"), of("naive", "bound dropped"), of("naive", "")]
    data = store.start_validation(tmp_path / "m.json", ms.KIND)
    order: list[list[tuple[str, str]]] = []
    for todo in ms.rounds(data, chosen):
        order.append([(s.name, check) for s, check in todo])
        for s, check in todo:
            errors = 1 if check == "memcheck" and s.kernel == "naive" and s.fault else 0
            found = Verdict("ran", errors)
            data.merge(ms.row(s, check, found, NOTE | {"gpu": "x"}), "rows")
    barrier, bound, clean = (s.name for s in chosen)
    assert order[0] == [(barrier, ""), (bound, ""), (clean, "")]
    assert order[1] == [(clean, check) for check in CHECKS]
    assert order[2] == [(barrier, "memcheck"), (bound, "memcheck")]
    assert order[3:6] == [[(barrier, check)] for check in CHECKS[1:]]
    assert order[6] == [(bound, check) for check in CHECKS[1:]]
    assert not any(ms.rounds(data, chosen))


def test_an_unknown_log_is_not_taken_for_silence(few, tmp_path, monkeypatch):
    out, chosen = tmp_path / "m.json", (few[0], acting(few[2], "mumble"))
    monkeypatch.setattr(ms, "subjects", lambda: chosen)
    refused = go(out)
    assert len(refused) == 4 and "Device not supported" in refused[0]
    assert (chosen[1].name, "") in rows(out) and (chosen[1].name, "memcheck") not in rows(out)


# -- the merged table ------------------------------------------------------------------------------


def recorded(tmp_path, results, checks=CHECKS):
    """A record: (name, check) -> state, errors, wrong elements."""
    path = tmp_path / "mutants_sanitizer.json"
    head, none = {"schema": 1, "kind": ms.KIND}, {"controls": [], "rows": []}
    data = store.Record(path, head, none, store.KINDS[ms.KIND])
    for check in checks:
        data.merge(ControlRun(check, "naive", "a known fault", "ran", 1, ""), "controls")
    named = {s.name: s for s in ms.subjects()}
    stamp = NOTE | {"gpu": "NVIDIA H200", "date": "2026-11-20", "commit": "abc", "sanitizer": "1.0"}
    for (name, check), (state, errors, wrong) in results.items():
        launches = ({"wrong": wrong},) if wrong else ()
        found = Verdict(state, errors, launches=launches)
        data.merge(ms.row(named[name], check, found, stamp), "rows")
    data.write()
    return path


def all_runs(name, errors, state="ran", wrong=0):
    out = {(name, check): ("ran", errors.get(check, 0), 0) for check in CHECKS}
    return out | {(name, ""): (state, 0, wrong)}


def test_the_three_are_merged_by_class(tmp_path):
    race, silent = (name("tiled_16", "barrier dropped", at) for at in (0, 1))
    results = all_runs(name("tiled_16", ""), {}) | all_runs(name("naive", ""), {})
    results |= all_runs(race, {"racecheck": 5}) | all_runs(silent, {}, wrong=3)
    results |= all_runs(name("naive", "bound dropped"), {"memcheck": 2}, state="stopped")
    half, rest = name("naive", "loop wrong"), name("naive", "indices swapped")
    results[half, "memcheck"] = ("ran", 1, 0)  # its result is missing
    results[rest, ""] = ("ran", 0, 9)  # and of this one all tools are
    early = name("naive", "bound dropped", 1)  # reported by the first tool: the others can wait
    results |= {(early, ""): ("ran", 0, 0), (early, "memcheck"): ("ran", 4, 0)}
    table = evidence.mutants_table(recorded(tmp_path, results))
    assert table is not None
    by_class = {r["fault"]: r for r in table.rows}
    barrier = by_class["barrier dropped"]
    record = json.loads((ROOT / "data/validation/mutants.json").read_text(encoding="utf-8"))
    emulator = {m["name"]: m["found"] for m in record["mutants"]}
    assert barrier["mutants"] == 2 and barrier["emulator"] == emulator[race] + emulator[silent]
    assert (barrier["sanitizer"], barrier["racecheck"], barrier["memcheck"]) == (1, 1, 0)
    assert (barrier["result"], barrier["either"]) == (1, 2)
    assert by_class["bound dropped"]["memcheck"] == 2 and by_class["bound dropped"]["result"] == 1
    assert not {"loop wrong", "indices swapped"} & set(by_class)
    assert by_class["all"]["mutants"] == 4 and by_class["all"]["either"] == 4
    assert "1 mutants that one tool reports were not given to all" in table.note
    assert "more mutants have not been run on the GPU" in table.note


def test_an_alarm_on_the_clean_kernel_makes_its_reports_worthless(tmp_path):
    race = name("tiled_16", "barrier dropped")
    results = all_runs(name("tiled_16", ""), {"racecheck": 1}) | all_runs(race, {"racecheck": 5})
    table = evidence.mutants_table(recorded(tmp_path, results))
    assert table is not None
    assert table.rows[0]["racecheck"] == table.rows[0]["sanitizer"] == 0
    assert "tiled_16 under racecheck" in table.note


def test_a_tool_that_is_not_believed_has_no_column(tmp_path):
    race = name("tiled_16", "barrier dropped")
    results = all_runs(name("tiled_16", ""), {}) | all_runs(race, {"synccheck": 5})
    del results[race, "racecheck"]
    table = evidence.mutants_table(recorded(tmp_path, results, ("memcheck", "initcheck")))
    assert table is not None and not {"racecheck", "synccheck"} & set(table.rows[0])
    assert table.rows[0]["sanitizer"] == 0
    assert evidence.mutants_table(recorded(tmp_path, results, ())) is None


def test_a_blind_tool_is_left_out(few, tmp_path, monkeypatch):
    monkeypatch.setenv("PRETEND_BLIND", "initcheck")
    out = tmp_path / "m.json"
    [why] = go(out, chosen=few[:3])
    assert why.startswith("initcheck reports nothing")
    assert {r["check"] for r in rows(out).values()} == {"", *CHECKS} - {"initcheck"}


def test_an_endless_run_is_said_and_not_counted(tmp_path):
    race = name("tiled_16", "barrier dropped")
    results = all_runs(name("tiled_16", ""), {}) | all_runs(race, {})
    results[race, ""] = ("not finished", 0, 0)
    table = evidence.mutants_table(recorded(tmp_path, results))
    assert table is not None and table.rows[0]["result"] == 0
    assert "1 mutants did not end" in table.note


def test_the_page_shows_it_when_it_is_there(tmp_path, monkeypatch):
    ours = (store.VALIDATION / "mutants.json").read_bytes()
    monkeypatch.setattr(store, "VALIDATION", tmp_path)
    (tmp_path / "mutants.json").write_bytes(ours)
    assert repr(pages.evidence("mutants", "Not run.")) == "Not run."
    names = (name("tiled_16", fault) for fault in ("", "barrier dropped"))
    results = {key: found for name in names for key, found in all_runs(name, {}).items()}
    recorded(tmp_path, results)
    shown = repr(pages.evidence("mutants", "Not run."))
    assert "Not run" not in shown and "any tool of compute-sanitizer" in shown


def test_the_command_needs_a_gpu_or_plans(tmp_path, capsys, monkeypatch):
    assert ms.main(["--out", str(tmp_path / "x.json"), "--plan", "--workers", "12"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ms.RUNS)
    if device.current() is None:
        assert ms.main(["--out", str(tmp_path / "x.json")]) == 2
        assert "needs an NVIDIA GPU" in capsys.readouterr().err


def test_a_run_that_is_cut_is_not_recorded():
    tasks = [Task("a", "memcheck", ()), Task("b", "memcheck", ())]
    states = iter(["cut", "not finished"])
    ran = sanitizer.side_by_side(
        tasks, workers=1, limit=9, left=lambda: math.inf, do=lambda *_: Verdict(next(states))
    )
    assert [task.what for task, _ in ran] == ["b"]


# -- the record that the book ships ----------------------------------------------------------------


@pytest.mark.skipif(not RECORD.exists(), reason="the mutants have not been run on a GPU yet")
def test_the_record_is_of_todays_mutants():
    data = store.read_validation(RECORD, ms.KIND)
    known = {s.name: s.source for s in ms.subjects()}
    assert {r.name for r in data.rows if known.get(r.name) != r.source} == set()
    assert {c.check for c in data.controls if c.errors} == set(CHECKS)
    assert evidence.mutants_table(RECORD) is not None
