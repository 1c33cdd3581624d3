"""The record of the mutants: enough of them, made from today's kernels, and true when run again."""

from __future__ import annotations

import json
from functools import cache

import pytest

from tests.common import ROOT
from tools import mutants

RECORD = ROOT / "data" / "validation" / "mutants.json"


@cache
def record():
    return json.loads(RECORD.read_text(encoding="utf-8"))


@cache
def rows():
    return {row["name"]: row for row in record()["mutants"]}


def sample():
    """One mutant of each class, of different kernels as far as there are."""
    chosen: dict[str, mutants.Mutant] = {}
    used: set[str] = set()
    for mutant in mutants.mutants():
        old = chosen.get(mutant.fault)
        if old is None or (old.kernel in used and mutant.kernel not in used):
            chosen[mutant.fault] = mutant
        used |= {m.kernel for f, m in chosen.items() if f != mutant.fault}
    return list(chosen.values())


def test_the_record_holds_the_mutants_of_today():
    """Whoever changes a kernel or a rule writes the record again: python -m tools.mutants --out."""
    made = {m.name: (m.fault, m.kernel, m.line, m.old, m.new) for m in mutants.mutants()}
    recorded = {
        name: (r["fault"], r["kernel"], r["line"], r["old"], r["new"]) for name, r in rows().items()
    }
    assert made == recorded
    assert len(record()["mutants"]) == len(made)


def test_there_are_a_hundred_in_eight_classes_and_each_class_is_executed():
    ran = [r for r in rows().values() if r["state"] == "ran" and r["executed"]]
    assert len(ran) >= 100
    assert len({r["fault"] for r in ran}) >= 8
    assert len({r["kernel"] for r in ran}) >= 15
    assert {c["fault"] for c in record()["classes"]} == {r["fault"] for r in ran}
    assert record()["classes"] == mutants.summary(record()["mutants"])


@pytest.mark.parametrize("fault", sorted({r.fault for r in mutants.RULES} - mutants.ARITHMETIC))
def test_what_breaks_a_rule_of_memory_is_found_wherever_the_result_shows_it(fault):
    of_class = [r for r in rows().values() if r["fault"] == fault]
    assert of_class
    missed = [r["name"] for r in of_class if r["wrong_result"] and not r["found"]]
    assert missed == []
    assert sum(r["found"] for r in of_class) >= sum(r["wrong_result"] for r in of_class)


def test_no_mutant_passes_unseen_once_the_product_is_known():
    """Findings of memory and barriers, and the oracle's, made together, miss none."""
    changed = [r for r in rows().values() if r["state"] == "ran" and r["executed"]]
    unseen = [r["name"] for r in changed if not (r["found"] or r["oracle"])]
    assert unseen == []
    for c in record()["classes"]:
        assert c["mutants"] >= c["with_oracle"] >= max(c["emulator"], c["result_check"]), c


def test_the_oracle_speaks_if_and_only_if_the_result_is_wrong():
    assert [n for n, r in rows().items() if bool(r["oracle"]) != r["wrong_result"]] == []
    assert {bool(r["oracle"]) for r in rows().values()} == {True, False}


def test_arithmetic_that_is_only_wrong_breaks_no_rule_of_memory():
    """The other half: what needs the oracle, so that nobody thinks that it needs none."""
    silent = [r for r in rows().values() if r["wrong_result"] and not r["found"]]
    assert silent
    assert {r["fault"] for r in silent} == mutants.ARITHMETIC


@pytest.mark.parametrize("mutant", sample(), ids=lambda m: m.name)
def test_a_sample_run_again_gives_what_is_recorded(mutant):
    assert mutants.run(mutant) == rows()[mutant.name]


@pytest.mark.parametrize("kernel", mutants.TILES)
def test_the_kernels_themselves_raise_no_alarm(kernel):
    for shape in mutants.shapes(kernel):
        for schedule in mutants.SCHEDULES:
            trace = mutants.clean(kernel, shape, schedule)
            assert trace.ok, trace
