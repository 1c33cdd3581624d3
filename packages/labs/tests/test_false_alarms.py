"""Honest kernels of every lab in twenty random orders of warps: nothing wrong, nothing found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilelabs import labs
from tilelabs.judging import marking, running
from tilelabs.judging.marking import cases
from tilelabs.labs import rehearsing
from tools import hostile
from tools.exploits import off

pytestmark = pytest.mark.nvrtc

SEEDS = 20
SOLUTIONS = [
    pytest.param(lab, source, id=f"{lab.number} {source.name}")
    for lab in labs.all_labs()
    for source in rehearsing.sources(lab)
    if source.kind == "solution"
]


def alarms(lab, source):
    """What was found and wrong in twenty orders; a student's smaller cases take their turns."""
    variant = next(v for v in lab.variants if v.name == source.variant)
    spec, found = lab.specification(variant), []
    small = sorted(cases(spec, b"a secret of a course", "alarms"), key=lambda c: c.work)
    for seed in range(SEEDS):
        case = replace(small[1 + seed % 4], seed=seed)
        with off(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(running, "SCHEDULES", ("permuted",))
            result = marking.mark(source.text, spec, (case,), lock=False)
        found += [result.refused] * bool(result.refused)
        odd = (r for r in result.runs if not r.right or r.findings)
        found += [f"{case}: {r.wrong} wrong, {r.findings}" for r in odd]
    return found


@pytest.mark.parametrize(("lab", "source"), SOLUTIONS)
def test_an_honest_kernel_raises_no_alarm_in_any_order(lab, source):
    assert alarms(lab, source) == []


def test_a_kernel_without_barriers_raises_one():
    """The wrong twin."""
    two = labs.lab("2")
    wrong = rehearsing.Source("x", "solution", two.variants[0].name, hostile.NO_BARRIER["relaxed"])
    assert len(alarms(two, wrong)) >= SEEDS // 2
