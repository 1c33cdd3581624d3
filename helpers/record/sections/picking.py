"""Section "auto": the launch that `choosing.best` picks, of all kernels of the book, beside cuBLAS,
shape by shape.

The shapes are drawn anew, with seeds that no kernel and no formula was tuned on; beside them stand
a few that are long or thin, the same in every record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from helpers.ladder import choosing, rungs
from helpers.ladder.kernel import Geometry
from helpers.ladder.launch import facts
from helpers.ladder.rungs import find
from helpers.record import protocol
from helpers.record.sections.confirming import ragged_shapes
from helpers.record.steps import Done, Job, Section, Step
from helpers.record.store import (
    Count,
    Entry,
    Key,
    Maybe,
    MaybeText,
    Note,
    NotNegative,
    Params,
    Positive,
    Record,
    Size,
    Tally,
    Text,
    named,
    shape,
)
from helpers.record.trials import enter, of_plan, yardstick
from nogpu.errors import ConfigError, DtypeError

SEED, COUNT, EDGES = 1511, 40, (1, 8192)
"""The published set: log-uniform edges. Nothing was fitted to it."""
NAMED: Mapping[str, tuple[Size, ...]] = {
    "float32": ((1024, 1024, 16384), (1, 4096, 4096), (16, 4096, 4096), (4096, 1, 4096)),
    "bfloat16": ((1024, 1024, 16384), (128, 8192, 4096), (512, 4096, 4096), (16, 4096, 4096)),
}
"""Long and thin shapes for each type, with the seed 0."""
EFFORT = protocol.RECORD


@dataclass(frozen=True)
class Picked(Entry, section="auto"):
    """A launch that was picked for a shape, beside cuBLAS. seed: of the shape; 0: a named one.

    predicted: microseconds by the formula that picked it. ratio: cuBLAS's time over its own, pair
    by pair.
    """

    dtype: Key[Text]
    m: Key[Count]
    n: Key[Count]
    k: Key[Count]
    seed: Tally
    kernel: Text
    params: Params
    predicted: Positive
    ms: Positive
    q1: Positive
    q3: Positive
    gflops: Positive
    pairs: Count
    cublas_ratio: Maybe
    ratio_q1: Maybe
    ratio_q3: Maybe
    max_error: NotNegative
    error_over_tolerance: NotNegative
    checked: Text
    source: MaybeText
    recorded: Note


def drawn(dtype: str) -> list[tuple[int, Size]]:
    """The shapes of a type, each with its seed: the named ones first."""
    ragged = ragged_shapes(SEED, COUNT, EDGES)
    return [(0, size) for size in NAMED[dtype]] + [(SEED, size) for size in ragged]


def picked(job: Job, p: Geometry, seed: int, rng: np.random.Generator) -> Picked:
    """Time a launch in turn with cuBLAS, and judge its result. Raises ImplausibleError."""
    size, k, session = (p.M, p.N, p.K), p.kernel, job.session
    what = f"{choosing.words(p)} at {shape(size)}"
    with session.faults(what):
        beside = yardstick(session, p, what)
        entered = enter(session, size, {"own": of_plan(p, what), **beside})
        done = entered.trial(["own", *beside], EFFORT, rng)
    ms, share = done.ms["own"], done.ratio("own", "baseline")
    worst, over = done.errors["own"]
    clock = facts().boost_mhz
    return Picked(
        dtype=k.dtype, **named(size), seed=seed, kernel=k.name, params=dict(p.params),
        predicted=choosing.predicted(p, facts()) / clock, ms=ms.median, q1=ms.q1, q3=ms.q3,
        gflops=done.rates["own"], pairs=ms.count,
        cublas_ratio=share.median if share else None,
        ratio_q1=share.q1 if share else None, ratio_q3=share.q3 if share else None,
        max_error=worst, error_over_tolerance=over, checked=entered.problem.checked,
        source=rungs.fingerprint(k), recorded=dict(job.stamp),
    )  # fmt: skip


def current(record: Record, p: Geometry) -> Picked | None:
    """The entry of a launch, if the same one was measured, with the code as it is now."""
    key = Picked.key_of(dtype=p.kernel.dtype, **named((p.M, p.N, p.K)))
    found = record.index(Picked).get(key)
    same = found and found.kernel == p.kernel.name and found.params == dict(p.params)
    return found if same and found and found.source == rungs.fingerprint(p.kernel) else None


def _types(job: Job) -> list[str]:
    """Types that some kernel of the catalog takes on this GPU."""
    able = []
    for dtype in NAMED:
        try:
            choosing.contenders(dtype, facts())
        except (ConfigError, DtypeError):
            continue
        able.append(dtype)
    return able


def _lacking(job: Job) -> Iterator[Step]:
    rng = np.random.default_rng()
    todo = [(dtype, seed, size) for dtype in _types(job) for seed, size in drawn(dtype)]
    for number, (dtype, seed, size) in enumerate(todo):
        p = choosing.best(dtype, *size, facts())
        what = f"{dtype} at {shape(size)}"
        if not job.request.again and current(job.record, p):
            job.outcome.present += 1
            continue

        def run(p: Geometry = p, seed: int = seed) -> Done:
            entry = picked(job, p, seed, rng)
            job.record.merge(entry)
            return Done(describe(entry))

        def rest(number: int = number) -> list[str]:
            return [f"{d} at {shape(s)}" for d, _, s in todo[number:]]

        yield Step(what, job.budget.guess("fp32_best", size), run, rest=rest)


def describe(entry: Picked) -> str:
    """An entry in a line."""
    p = find(entry.kernel)
    said = choosing.words(rungs.lay_out(p, entry.m, entry.n, entry.k, **entry.params))
    share = "" if entry.cublas_ratio is None else f", {100 * entry.cublas_ratio:.1f} % of cuBLAS"
    return f"{said}: {1e3 * entry.ms:.1f} us, predicted {entry.predicted:.1f}{share}"


SECTIONS = (
    Section(
        Picked, _lacking, option="the best kernel by shape, FP32 and BF16, beside cuBLAS", rank=63
    ),
)


@dataclass(frozen=True)
class Everywhere:
    """The picks over the drawn set of a type. share: geometric mean of the ratios to cuBLAS; worst:
    the lowest.

    named: the entries of the long and thin shapes. off: the root of the mean square of ln(measured
    / predicted).
    """

    dtype: str
    entries: tuple[Picked, ...]
    named: tuple[Picked, ...]
    share: float
    worst: Picked
    off: float


def everywhere(record: Record, dtype: str) -> Everywhere | None:
    """What a record says of a type; None unless every shape is there, measured with today's
    kernels.
    """
    held = {(e.m, e.n, e.k): e for e in record.of(Picked) if e.dtype == dtype}
    entries = []
    for seed, size in drawn(dtype):
        e = held.get(size)
        if e is None or e.cublas_ratio is None or e.source != rungs.fingerprint(e.kernel):
            return None
        entries.append((seed, e))
    ragged = [e for seed, e in entries if seed]
    logs = [math.log(e.cublas_ratio or math.nan) for e in ragged]
    off = np.sqrt(np.mean([math.log(1e3 * e.ms / e.predicted) ** 2 for e in ragged]))
    worst = min(ragged, key=lambda e: e.cublas_ratio or math.inf)
    return Everywhere(
        dtype,
        tuple(ragged),
        tuple(e for seed, e in entries if not seed),
        math.exp(sum(logs) / len(logs)),
        worst,
        float(off),
    )
