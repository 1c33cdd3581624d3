"""Sections "points" and "skipped": a kernel of the catalog, or cuBLAS itself, at one size."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from helpers.ladder import rungs
from helpers.ladder.kernel import Kernel
from helpers.ladder.model import is_thin
from helpers.ladder.rungs import catalog
from helpers.record.entries import Point, Skipped
from helpers.record.points import point
from helpers.record.selection import either, runnable_names
from helpers.record.store import Size, named, shape
from helpers.record.telemetry import Telemetry
from nogpu.errors import ConfigError, TileError
from tools.recorder.steps import Done, Job, Section, Step, takes

SIZES: tuple[Size, ...] = tuple((n, n, n) for n in (512, 1024, 1025, 2048, 4096, 8192))
SLOW = "slow:"
"""How the reason begins for a point that was left out on purpose."""


def describe(entry: Point) -> str:
    """One line of progress for a point."""
    unit = "Top/s" if entry.dtype == "int32" else "TFLOP/s"
    text = f"{entry.ms:10.4g} ms {entry.gflops / 1e3:8.3g} {unit}"
    if entry.cublas_ratio is not None:
        text += f" {100 * entry.cublas_ratio:6.1f} % of {entry.baseline}"
    return text


# -- what a file lacks -----------------------------------------------------------------------------

Wanted = tuple[str, Kernel | None, Size]
"""A kernel or baseline by name, the kernel, and a size."""


def todo(job: Job) -> Iterator[Wanted]:
    """Points still to measure, small sizes first, by operand type so that operands are shared."""
    chosen, here = runnable_names(job.supports, job.request.kernels), job.record.index(Point)
    order = {"float32": 0, "int32": 1, "float16": 2, "bfloat16": 3}
    for size in sorted(job.wanted(SIZES), key=lambda s: s[0] * s[1] * s[2]):
        for name in sorted(chosen, key=lambda n: order[either(n).dtype]):
            k = catalog[name] if name in catalog else None
            if k and is_thin(k) and name not in job.request.kernels:
                continue  # they are for shapes of few rows or columns: section "auto"
            entry = here.get(Point.key_of(**_fields(name, k, size)))
            present = entry is not None and entry.source == (rungs.fingerprint(k) if k else None)
            if not job.request.again and (present or _left_out(job, name, size)):
                job.outcome.present += 1
                continue
            yield name, k, size


def _fields(name: str, k: Kernel | None, size: Size) -> dict[str, Any]:
    return {"kernel": name, "params": dict(k.params) if k else {}, **named(size)}


def _left_out(job: Job, name: str, size: Size) -> bool:
    """Whether the file says that this one is too slow to be measured; naming it overrides this."""
    return name not in job.request.kernels and any(
        (e.kernel, e.size) == (name, size) and e.reason.startswith(SLOW)
        for e in job.record.of(Skipped)
    )


def lacking(job: Job) -> Iterator[Step]:
    """A step for each point; what a rule forbids or the GPU refuses is noted as skipped."""
    wanted = list(todo(job))
    if not job.live:
        yield from _planned(job, wanted)
        return
    job.session.warm_up()
    rng = np.random.default_rng()
    with Telemetry(job.session.bus_id) as telemetry:
        for index, (name, k, size) in enumerate(wanted):
            head = f"[{index + 1:3d}/{len(wanted)}] {name:16s} {shape(size)}"
            limit = job.request.skip_above.get(name)
            if limit is not None and max(size) > limit:
                _skip(job, name, k, size, f"{SLOW} not measured above {limit}")
                job.record.write()
                job.say(f"{head}  left out above {limit}")
                continue
            run = partial(_measure, job, telemetry, name, k, size, rng, wanted[index + 1 :])
            yield Step(f"{name} at {shape(size)}", job.budget.guess(name, size), run, head)


def _planned(job: Job, wanted: Sequence[Wanted]) -> Iterator[Step]:
    for name, k, size in wanted:
        limit = job.request.skip_above.get(name)
        if (limit is None or max(size) <= limit) and (k is None or takes(k, size)):
            yield Step(f"{name} at {shape(size)}", job.budget.guess(name, size), lambda: "")


def _measure(
    job: Job, telemetry: Telemetry, name: str, k: Kernel | None, size: Size,
    rng: np.random.Generator, then: Sequence[Wanted],
) -> Done:  # fmt: skip
    """Measure a point into the record, or note why there is none. then: what is still to come."""
    began = time.monotonic()
    try:
        entry = point(job.session, telemetry, k or name, size, recorded=job.stamp, rng=rng)
    except TileError as fault:
        _skip(job, name, k, size, " ".join(str(fault).split()))
        if isinstance(fault, ConfigError):  # a rule of the catalog, or more than this GPU has
            return Done(f" left out: {fault}", "illegal")
        raise
    job.record.merge(entry)
    job.budget.learn(name, entry.gflops)
    left = sum(job.budget.guess(n, s) for n, _, s in then)
    spent = time.monotonic() - began
    return Done(f"{describe(entry)}  {spent:4.1f} s, about {left:.0f} s to go")


def _skip(job: Job, name: str, k: Kernel | None, size: Size, reason: str) -> None:
    job.record.merge(Skipped(**_fields(name, k, size), reason=reason, recorded=dict(job.stamp)))


SECTIONS = (Section(Point, lacking, rank=10),)
