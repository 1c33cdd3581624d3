"""Section "accuracy": errors of every cuBLAS precision against float64."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

from helpers.record.entries import Accuracy
from helpers.record.gpu import BASELINES
from tools.recorder.steps import Job, Section, Step

SIZES = (1024, 4096)


def lacking(job: Job) -> Iterator[Step]:
    """Each precision that this GPU has, at each size."""

    def run(what: str, name: str, n: int) -> str:
        with job.session.faults(what):
            errors = job.session.accuracy(name, n)
        job.record.merge(Accuracy(name, n, n, n, **errors, recorded=dict(job.stamp)))  # type: ignore[arg-type]
        return f"relative error {errors['frobenius']:.2e} (Frobenius)"

    here = {(e.kernel, e.m) for e in job.record.of(Accuracy)}
    for n, name in itertools.product(SIZES, BASELINES):
        if job.supports(BASELINES[name].min_arch) and (job.request.again or (name, n) not in here):
            what = f"accuracy of {name} at {n}"
            yield Step(what, 2.0, partial(run, what, name, n))


SECTIONS = (
    Section(Accuracy, lacking, option="errors of each cuBLAS precision against float64", rank=20),
)
