"""Sections "counters" and "stalls": what the hardware counts of single launches, by ncu."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from helpers.ladder import rungs
from helpers.ladder.kernel import Kernel
from helpers.ladder.rungs import catalog
from helpers.record import counting as ncu
from helpers.record.entries import Counted, Stalled
from helpers.record.selection import runnable_names
from helpers.record.store import Size, named
from tools.recorder.steps import Job, Section, Step, takes

SHAPES: tuple[Size, ...] = (
    (64, 64, 64), (128, 128, 64), (96, 160, 64), (160, 96, 32),
    (65, 33, 17), (70, 90, 50), (129, 127, 33),
    (1024, 1024, 1024),
)  # fmt: skip
"""Small shapes to hold against the emulator, whose counts are exact: whole tiles of 32, then ragged
ones; and one that fills the GPU."""
ENGINE_SHAPES: tuple[Size, ...] = (
    (256, 512, 128), (512, 512, 256), (200, 312, 136), (300, 520, 450), (1024, 1024, 1024),
)  # fmt: skip
"""The same for kernels with tensor maps, whose tiles are larger: whole tiles, ragged ones, a GPU's
worth."""
STALL_SHAPE: Size = (4096, 4096, 4096)
"""Where warps are asked what they wait for: the size that the ladder compares."""
BATCH = 24
"""Launches that one process of ncu counts: what it has counted is on disk before the next begins.
"""
HEADLINE = ("occupancy_percent", "issue_percent")
"""The counter of a set that a line on the screen tells."""


def _plain_first(job: Job) -> list[Kernel]:
    chosen = [
        catalog[name]
        for name in runnable_names(job.supports, job.request.kernels)
        if name in catalog
    ]
    return sorted(chosen, key=lambda k: k.host != "plain")


def counter_jobs(job: Job) -> list[ncu.Job]:
    """Launches to count: every kernel at every counter shape that it may run at.

    Those with tensor maps come last. Sizes that are asked for count here where no points are.
    """
    sizes = () if "points" in job.request.sections else job.request.sizes
    of = ((k, sizes or (SHAPES if k.host == "plain" else ENGINE_SHAPES)) for k in _plain_first(job))
    launches = [(k, size) for k, some in of for size in some]
    return _uncounted(Counted, launches, job)


def stall_jobs(job: Job) -> list[ncu.Job]:
    """Launches to ask what their warps wait for: every kernel at STALL_SHAPE, integers left out."""
    launches = [(k, STALL_SHAPE) for k in _plain_first(job) if k.dtype != "int32"]
    return _uncounted(Stalled, launches, job)


def _uncounted(
    kind: type[Counted], launches: Iterable[tuple[Kernel, Size]], job: Job
) -> list[ncu.Job]:
    """Those legal launches that a section lacks, or holds of other code."""
    here, jobs = job.record.index(kind), []
    for k, size in launches:
        params = dict(k.params)
        entry = here.get(kind.key_of(kernel=k.name, params=params, **named(size)))
        current = entry is not None and entry.source == rungs.fingerprint(k)
        if takes(k, size) and (job.request.again or not current):
            jobs.append(ncu.Job(k.name, *size, params))
    return jobs


def _steps(
    kind: type[Counted], jobs: Iterable[ncu.Job], what: ncu.Counters, job: Job, each: float
) -> Iterator[Step]:
    """A batch of launches at a time. each: seconds a launch."""

    def run(batch: Sequence[ncu.Job]) -> str:
        counted = ncu.count(batch, what=what)
        stamp = {**job.stamp, "ncu": ncu.version(ncu.tool_path())}
        for j, values in zip(batch, counted, strict=True):
            source = rungs.fingerprint(j.kernel)
            size = (j.M, j.N, j.K)
            job.record.merge(kind(j.kernel, dict(j.params), *size, values, source, dict(stamp)))
        name = next(n for n in HEADLINE if n in what.required)
        return f"median {name} {statistics.median(c[name] for c in counted):.0f}"

    for _, group in itertools.groupby(jobs, lambda j: catalog[j.kernel].host):
        alike = list(group)
        for at in range(0, len(alike), BATCH):
            batch = alike[at : at + BATCH]
            kernels = ", ".join(dict.fromkeys(j.kernel for j in batch))
            title = f"{kind.section} of {len(batch)} launches ({kernels})"
            yield Step(title, 5.0 + each * len(batch), partial(run, batch))


def _counters(job: Job) -> Iterator[Step]:
    """Requests, sectors, wavefronts, instructions and bytes, as the hardware counts them."""
    return _steps(Counted, counter_jobs(job), ncu.TRAFFIC, job, 0.6)


def _stalls(job: Job) -> Iterator[Step]:
    """What warps wait for, and how often their schedulers issue."""
    return _steps(Stalled, stall_jobs(job), ncu.WAITING, job, 1.5)


# After all others, when nothing else runs on the GPU.
SECTIONS = (
    Section(Counted, _counters, option="hardware counters, by ncu", rank=80),
    Section(Stalled, _stalls, option="what warps wait for, by ncu", rank=81),
)
