"""Section "launches": microseconds of the host that one launch costs, by the way in which it is
asked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from helpers.ladder import rungs
from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog
from helpers.record import protocol
from helpers.record.entries import LAUNCH_CASES, LaunchCost
from helpers.record.store import Size, shape
from tools.recorder.steps import Job, Section, Step

IN_FLIGHT = 100
"""Products queued before the host waits: with copies fewer than a stream's queue takes at once."""
BATCHES = 20
"""So many times, after one that warms up."""


def _ask(job: Job, what: str, name: str, size: Size) -> str:
    """Every way of one case, judged by what it left in C."""
    k, session, costs = catalog[name], job.session, []
    p = geometry(k, *size)
    with session.faults(what):
        problem, C = session.problem(k.dtype, *size), session.output(k.out_dtype, *size[:2])
        for way, (ask, products) in session.ways_to_launch(p, problem.A, problem.B, C).items():
            session.poison(C, k.out_dtype)
            calls = IN_FLIGHT // products
            times = session.host_times(ask, calls, 1 + BATCHES)[1:]
            if way != "matmul":  # which writes no C of ours
                worst, ratio = session.error(problem, C, k.out_dtype)
                protocol.refuse_wrong(ratio, f"{what} by {way}", worst, problem.checked)
            s = protocol.spread(1e6 * np.array(times) / (calls * products))
            spread, count = (s.median, s.q1, s.q3), BATCHES * calls * products
            note = rungs.fingerprint(k), dict(job.stamp)
            job.record.merge(LaunchCost(name, dict(p.params), *size, way, *spread, count, *note))
            costs.append(f"{way} {s.median:.1f} us")
    return ", ".join(costs)


def lacking(job: Job) -> Iterator[Step]:
    """A step for each case that this GPU can run and that is not there, or of other code."""
    wanted = job.request.kernels
    for name, size in LAUNCH_CASES:
        k = catalog[name]
        if not job.runs(k) or (wanted and name not in wanted):
            continue
        here = [e for e in job.record.of(LaunchCost, kernel=name) if e.size == size]
        today = [e for e in here if e.source == rungs.fingerprint(k)]
        if job.request.again or not today:
            what = f"launches of {name} at {shape(size)}"
            yield Step(what, 3.0, partial(_ask, job, what, name, size))


SECTIONS = (
    Section(LaunchCost, lacking, option="what one launch costs the host, in several ways", rank=35),
)
