"""Sections "points" and "skipped": a kernel of the catalog, or cuBLAS itself, at one size."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.ladder import rungs
from helpers.ladder.kernel import Kernel, geometry
from helpers.ladder.model import is_thin
from helpers.ladder.rungs import catalog, find
from helpers.record import protocol
from helpers.record.gpu import BASELINES
from helpers.record.protocol import Effort
from helpers.record.steps import Done, Job, Section, Step, names, takes
from helpers.record.store import (
    Count,
    Launch,
    Maybe,
    MaybeText,
    Note,
    NotNegative,
    Positive,
    Size,
    Text,
    named,
    shape,
)
from helpers.record.telemetry import Telemetry
from helpers.record.trials import Contender, enter, of_library, of_plan, yardstick
from nogpu.errors import ConfigError, TileError

if TYPE_CHECKING:
    from helpers.record.gpu import Session

SIZES: tuple[Size, ...] = tuple((n, n, n) for n in (512, 1024, 1025, 2048, 4096, 8192))
SLOW = "slow:"
"""How the reason begins for a point that was left out on purpose."""


@dataclass(frozen=True)
class Point(Launch, section="points", required=True, clears="skipped"):
    """One kernel or baseline at one size. Times in ms, rates in GFLOP/s (Gop/s for integers).

    cublas_ratio: the median of paired ratios, with its quartiles; 1 is as fast as `baseline`.
    warm_ms and its neighbours: one product as a program does it, see Session.serial_run.
    """

    ms: Positive
    q1: Positive
    q3: Positive
    gflops: Positive
    pairs: Count
    repeat: Count
    baseline_ms: Maybe
    cublas_ratio: Maybe
    ratio_q1: Maybe
    ratio_q3: Maybe
    h2d_ms: Maybe
    warm_ms: Maybe
    d2h_ms: Maybe
    total_ms: Maybe
    clock_mhz: Maybe
    power_w: Maybe
    clock_note: MaybeText
    dtype: Text
    baseline: Text
    first_ms: Maybe
    source: MaybeText
    max_error: NotNegative
    error_over_tolerance: NotNegative
    checked: Text
    recorded: Note


@dataclass(frozen=True)
class Skipped(Launch, section="skipped", required=True, clears="points"):
    """A point that there is not, and why."""

    reason: Text
    recorded: Note


# -- one point -------------------------------------------------------------------------------------


def point(
    session: Session,
    telemetry: Telemetry,
    kernel: Kernel | str,
    size: Size,
    *,
    effort: Effort | None = None,
    recorded: Mapping[str, Any],
    rng: np.random.Generator | None = None,
    params: Mapping[str, int] | None = None,
) -> Point:
    """Measure one kernel (with tile sizes `params`) or baseline ("cublas_fp32") at one size.

    Raises a TileError, and nothing is recorded, if the result is wrong, the rate impossible or the
    launch illegal; GpuFaultError if the GPU will not answer this process again.
    """
    name = kernel if isinstance(kernel, str) else kernel.name
    what = "{} at {}x{}x{}".format(name, *size)
    effort = effort or protocol.RECORD
    with session.faults(what):
        k = None if name in BASELINES else find(kernel)
        if k is None:
            contenders, tiles, dtype, baseline = _itself(name, what)
        else:
            p = geometry(k, *size, **(params or {}))
            if not session.supports(k.min_arch):
                raise ConfigError(
                    f"{k.name} needs {k.min_arch} or later; this GPU is {session.gpu.arch}"
                )
            contenders = {"kernel": of_plan(p, what, cold=True), **yardstick(session, p, what)}
            tiles, dtype = dict(p.params), k.dtype
            baseline = k.baseline if k.baseline in BASELINES else "none"
        entered = enter(session, size, contenders)
        timed = entered.trial(tuple(contenders), effort, rng)
        runs = 1 if timed.ms["kernel"].median >= effort.slow_ms else 3
        run, C = entered.operations["kernel"], entered.outputs["kernel"]
        serial = [session.serial_run(entered.problem, run, C) for _ in range(runs)]
    parts = {part: statistics.median(run[part] for run in serial) for part in serial[0]}
    reading = telemetry.between(timed.rounds.started, timed.rounds.ended)
    ms, ratio, beside = (
        timed.ms["kernel"],
        timed.ratio("kernel", "baseline"),
        "baseline" in timed.ms,
    )
    worst, over = timed.errors["kernel"]
    return Point(
        name,
        tiles,
        *size,
        ms=ms.median,
        q1=ms.q1,
        q3=ms.q3,
        gflops=timed.rates["kernel"],
        pairs=ms.count,
        repeat=timed.rounds.repeat["kernel"],
        baseline_ms=timed.ms["baseline"].median if beside else None,
        cublas_ratio=ratio.median if ratio else None,
        ratio_q1=ratio.q1 if ratio else None,
        ratio_q3=ratio.q3 if ratio else None,
        h2d_ms=parts["h2d_ms"],
        warm_ms=parts["warm_ms"],
        d2h_ms=parts["d2h_ms"],
        total_ms=parts["total_ms"],
        clock_mhz=reading.clock_mhz,
        power_w=reading.power_w,
        clock_note=reading.reason,
        dtype=dtype,
        baseline=baseline,
        first_ms=entered.first_ms.get("kernel"),
        source=rungs.fingerprint(k) if k else None,
        max_error=worst,
        error_over_tolerance=over,
        checked=entered.problem.checked,
        recorded=dict(recorded),
    )


def _itself(name: str, what: str) -> tuple[dict[str, Contender], dict[str, int], str, str]:
    """cuBLAS timed against itself: the ratio should be 1, and its spread is the protocol's noise."""
    both = {
        "kernel": of_library(name, what, judged=True),
        "baseline": of_library(name, f"{name} beside {what}"),
    }
    return both, {}, BASELINES[name].dtype, name


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
    """Points still to measure, small sizes first, grouped by operand type so that operands are
    shared.
    """
    chosen, here = names(job.supports, job.request.kernels), job.record.index(Point)
    order = {"float32": 0, "int32": 1, "float16": 2, "bfloat16": 3}

    def dtype(name: str) -> str:
        return BASELINES[name].dtype if name in BASELINES else catalog[name].dtype

    for size in sorted(job.wanted(SIZES), key=lambda s: s[0] * s[1] * s[2]):
        for name in sorted(chosen, key=lambda n: order[dtype(n)]):
            k = catalog[name] if name in catalog else None
            if k and is_thin(k) and name not in job.request.kernels:
                continue  # they are for shapes of few rows or columns: section "auto"
            held = here.get(Point.key_of(**_fields(name, k, size)))
            present = held is not None and held.source == (rungs.fingerprint(k) if k else None)
            if not job.request.again and (present or _left_out(job, name, size)):
                job.outcome.present += 1
                continue
            yield name, k, size


def _fields(name: str, k: Kernel | None, size: Size) -> dict[str, Any]:
    return {"kernel": name, "params": dict(k.params) if k else {}, **named(size)}


def _left_out(job: Job, name: str, size: Size) -> bool:
    """Whether the file says that this one is too slow to be measured; naming the kernel overrides
    it.
    """
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
    job: Job,
    telemetry: Telemetry,
    name: str,
    k: Kernel | None,
    size: Size,
    rng: np.random.Generator,
    then: Sequence[Wanted],
) -> Done:
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
