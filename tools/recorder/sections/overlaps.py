"""Section "overlap": copies overlapped with compute, over streams, of a slow and a fast kernel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

from helpers.ladder import rungs
from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog
from helpers.ladder.streams import BASELINE, variant, variants
from helpers.record import overlapping
from helpers.record.entries import Overlapped
from helpers.record.protocol import Effort
from helpers.record.store import Size
from tools.recorder.steps import Job, Section
from tools.recorder.steps import Step as Piece

EDGES = (1024, 2048, 4096, 8192)


def seconds(size: Size, count: int, effort: Effort = overlapping.EFFORT) -> float:
    """Seconds that measuring `count` variants may take, at 10 GB/s of copies and 8 TFLOP/s."""
    M, N, K = size
    copies = 4 * (M * K + K * N + M * N) / 1e10
    runs = effort.pairs + 5  # two are checked and three make the time line
    return 3.0 + effort.seconds + count * runs * (copies + 2 * M * N * K / 8e12)


# -- what a file lacks -----------------------------------------------------------------------------


def _here(job: Job, name: str, n: int) -> list[Overlapped]:
    return [e for e in job.record.of(Overlapped) if (e.kernel, e.m) == (name, n)]


def _measure(job: Job, name: str, n: int) -> str:
    """All variants at one size; they take the place of what was there."""
    job.session.warm_up()
    runs = overlapping.entries(job.session, catalog[name], (n, n, n), recorded=job.stamp)
    older = _here(job, name, n)
    others = [e for e in job.record.of(Overlapped) if e not in older]
    job.record.data[Overlapped.section] = others
    for entry in runs:
        job.record.merge(entry)
    serial = next(e for e in runs if variant(e) == BASELINE)
    best = min(runs, key=lambda e: e.ms)
    return (
        f"serial {serial.ms:.4g} ms, {variant(best).title} {best.ms:.4g} ms, a factor of "
        f"{best.speedup:.2f}"
    )


def lacking(job: Job) -> Iterator[Piece]:
    """A step for each kernel and size of which a variant is not there, or of other code."""
    for n, name in itertools.product(EDGES, overlapping.KERNELS):
        chosen = variants(n, geometry(catalog[name], n, n, n).tile[0])
        recorded = _here(job, name, n)
        today = all(e.source == rungs.fingerprint(name) for e in recorded)
        if job.request.again or not today or not {variant(e) for e in recorded} >= set(chosen):
            cost = seconds((n, n, n), len(chosen))
            yield Piece(f"overlap of {name} at {n}", cost, partial(_measure, job, name, n))


SECTIONS = (
    Section(Overlapped, lacking, option="copies overlapped with compute, over streams", rank=50),
)
