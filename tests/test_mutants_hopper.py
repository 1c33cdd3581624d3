"""The record of faults in the Hopper kernels: of today's kernels, enough of them, and true when run
again."""

from __future__ import annotations

import json
from functools import cache

import pytest

from helpers.ladder import hopper, launch
from helpers.ladder.rungs import catalog
from tests.test_hopper_kernels import sound
from tools import mutants_hopper

AGAIN = (
    "no wait for a filled slot", "more bytes announced", "no wait for the products",
    "no fence before the engine reads", "the cluster does not meet first",
    "the cluster does not meet last",
)  # fmt: skip
"""Faults of which one mutant runs again here."""


@cache
def record():
    return json.loads(mutants_hopper.FILE.read_text(encoding="utf-8"))


def rows():
    return {row["name"]: row for row in record()["mutants"]}


def test_the_record_is_of_todays_kernels_and_rules():
    """Whoever changes a kernel or a rule writes it again: python -m tools.mutants_hopper --out."""
    now = mutants_hopper.identity()
    assert {name: record()[name] for name in now} == now
    assert set(rows()) == set(now["made"])
    assert record()["classes"] == mutants_hopper.summary(record()["mutants"])


def test_a_stale_record_is_seen():
    now = mutants_hopper.identity()
    assert {**now, "code": {**now["code"], "hopper_1": "other"}} != {n: record()[n] for n in now}


def test_there_are_enough_of_every_kind():
    made = mutants_hopper.mutants()
    assert len(made) >= 60
    assert len({m.text for m in made}) == len(made) == len({m.name for m in made})
    assert len({m.fault for m in made}) >= 20
    assert {m.kernel for m in made} == set(mutants_hopper.KERNELS_OF)


def test_what_nobody_notices_has_its_reason():
    silent = [r for r in record()["mutants"] if not r["found"] and not r["wrong"]]
    assert [r["name"] for r in silent if not r["equivalent"]] == []


@pytest.mark.parametrize("fault", AGAIN)
def test_a_mutant_is_found_as_it_was(fault):
    mutant = next(m for m in mutants_hopper.mutants() if m.fault == fault)
    found = mutants_hopper.run(mutant)
    assert found == rows()[mutant.name]
    assert found["found"]


@pytest.mark.parametrize("kernel", ["hopper_2", "hopper_5", "hopper_6"])
def test_the_kernel_without_a_fault_is_quiet_on_the_same_runs(kernel):
    shape, schedule = mutants_hopper.runs(catalog[kernel])[2]
    assert sound(launch.trace_of(mutants_hopper.planned(catalog[kernel], shape), schedule=schedule))


def test_sums_are_handed_over_in_the_runs_of_stream_k():
    for shape in mutants_hopper.LONG:
        p = mutants_hopper.planned(catalog["hopper_6"], shape)
        assert hopper.division(p).ranges > 1, shape
