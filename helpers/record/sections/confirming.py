"""Sections "tuned" and "ragged": the tile of a kernel for a size, confirmed, and the choice of tile
by shape.

The search is section "sweep", a loop over the legal tiles in the order of a prediction: most
kernels have hundreds, and a time takes a fraction of a second, so that the strategies of Kernel
Tuner or Optuna, which avoid visiting every point, would save little and hide the table. Kernel
Tuner times one configuration after the other and does not pair them with a baseline; where a space
is too large for a loop, let it search, and confirm its best few here.

The fastest of hundreds of short times is in part the luckiest. So the best few are timed again at
full effort, in turn with the default tile and cuBLAS; the fastest of those is timed once more, and
only these last samples are recorded.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from helpers.ladder import rungs
from helpers.ladder.kernel import Kernel, geometry
from helpers.ladder.launch import choose, facts
from helpers.ladder.rungs import catalog, find
from helpers.record import protocol, tiles
from helpers.record.gpu import Session
from helpers.record.sections.sweeping import Swept, timed
from helpers.record.steps import MATRIX, Done, Job, Section, Step
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
    Text,
    named,
    shape,
)
from helpers.record.trials import enter, of_plan, yardstick
from nogpu.errors import ConfigError

EFFORT = protocol.RECORD
"""What a confirmation spends on one set of rounds: as much as `record` on a point."""
FINALISTS = 4
"""How many of a sweep's best tiles are timed again."""
RAGGED_SEED, RAGGED_COUNT, RAGGED_EDGES = 13, 20, (500, 6000)
"""The published set of ragged shapes; nothing was fitted to it."""


@dataclass(frozen=True)
class Confirmed(Entry):
    """A tile against the default tile (gain: null where it is the default) and against cuBLAS."""

    kernel: Key[Text]
    params: Params
    default: Params
    m: Key[Count]
    n: Key[Count]
    k: Key[Count]
    ms: Positive
    q1: Positive
    q3: Positive
    gflops: Positive
    pairs: Count
    gain: Maybe
    gain_q1: Maybe
    gain_q3: Maybe
    cublas_ratio: Maybe
    ratio_q1: Maybe
    ratio_q3: Maybe
    max_error: NotNegative
    error_over_tolerance: NotNegative
    checked: Text
    source: MaybeText


@dataclass(frozen=True)
class Tuned(Confirmed, section="tuned"):
    """The best of `tiles` timed tiles of a kernel at a size."""

    tiles: Count
    recorded: Note


@dataclass(frozen=True)
class Chosen(Confirmed, section="ragged"):
    """The tile that `launch.choose` picks for one of the ragged shapes of a seed."""

    seed: Count
    recorded: Note


C = TypeVar("C", bound=Confirmed)


def ragged_shapes(
    seed: int = RAGGED_SEED, count: int = RAGGED_COUNT, edges: tuple[int, int] = RAGGED_EDGES
) -> list[Size]:
    """`count` shapes (M, N, K), each edge log-uniform between two edges; the same for the same
    seed.
    """
    low, high = edges
    draw = random.Random(seed)

    def edge() -> int:
        return round(low * (high / low) ** draw.random())

    return [(edge(), edge(), edge()) for _ in range(count)]


# -- confirming ------------------------------------------------------------------------------------


def confirm(
    session: Session,
    k: Kernel,
    size: Size,
    tried: Sequence[Mapping[str, int]],
    rng: np.random.Generator,
    *,
    knockout: bool,
) -> dict[str, Any]:
    """Time tiles in turn with the default tile and cuBLAS; the fields of the one that is kept.

    tried: complete tile sizes. knockout: a first set of rounds finds the fastest of several, which
    must be faster than the default in at least three rounds of four of a second set, or the default
    is kept; without it there is one tile, and it is kept. Raises ImplausibleError for a wrong
    result or an impossible rate.
    """
    default = dict(k.params)
    plans = [
        geometry(k, *size, **tile)
        for tile in (default, *(dict(t) for t in tried if dict(t) != default))
    ]
    contenders = {}
    with session.faults(f"{k.name} at {shape(size)}"):
        for i, p in enumerate(plans):
            what = f"{k.name} with {tiles.words(p.params)} at {shape(size)}"
            cubin = tiles.build(k.name, dict(p.params), session.gpu.arch, size).cubin
            contenders[str(i)] = of_plan(p, what, cubin=cubin)
        others = [name for name in contenders if name != "0"]
        beside = yardstick(session, plans[0], f"{k.name} at {shape(size)}")
        entered = enter(session, size, contenders | beside)
        if knockout and len(others) > 1:
            first = entered.trial([*contenders, *beside], EFFORT, rng)
            others = [min(others, key=lambda name: first.ms[name].median)]
        kept = others[0] if others else "0"
        last = entered.trial([*dict.fromkeys(["0", kept]), *beside], EFFORT, rng)
    gain = last.rounds.ratio(kept, "0")
    if knockout and gain.q1 <= 1:
        kept = "0"
    ms, share = last.ms[kept], last.ratio(kept, "baseline")
    worst, over = last.errors[kept]
    other = kept != "0"
    return {
        "kernel": k.name,
        "params": dict(plans[int(kept)].params),
        "default": default,
        **named(size),
        "ms": ms.median,
        "q1": ms.q1,
        "q3": ms.q3,
        "gflops": last.rates[kept],
        "pairs": ms.count,
        "gain": gain.median if other else None,
        "gain_q1": gain.q1 if other else None,
        "gain_q3": gain.q3 if other else None,
        "cublas_ratio": share.median if share else None,
        "ratio_q1": share.q1 if share else None,
        "ratio_q3": share.q3 if share else None,
        "max_error": worst,
        "error_over_tolerance": over,
        "checked": entered.problem.checked,
        "source": rungs.fingerprint(k),
    }


def describe(entry: Confirmed) -> str:
    """A confirmed tile in a line: sizes, time, gain over the default tile, share of cuBLAS."""
    changed = {n: v for n, v in entry.params.items() if entry.default.get(n) != v}
    text = f"{tiles.words(changed) or 'the default tile'}, {entry.ms:.4g} ms"
    if entry.gain is not None:
        text += f", {entry.gain:.3f} times as fast as the default tile"
    if entry.cublas_ratio is not None:
        text += f", {100 * entry.cublas_ratio:.1f} % of cuBLAS"
    return text


def current(record: Record, kind: type[C], k: Kernel, size: Size) -> C | None:
    """The entry of a kernel and shape, if it was measured with the code as it is now."""
    found = record.index(kind).get(kind.key_of(kernel=k.name, **named(size)))
    return found if found and found.source == rungs.fingerprint(k) else None


def finalists(entries: Iterable[Swept], k: Kernel, size: Size) -> list[dict[str, int]]:
    """The tiles with the shortest times in a sweep of today's code, the fastest first."""
    source = rungs.fingerprint(k)
    today = [e for e in entries if e.source == source]
    return [dict(e.params) for e in timed(today, k.name, size)]


# -- what a file lacks -----------------------------------------------------------------------------


def _kernel(job: Job) -> Kernel:
    """The kernel that is tuned: one at a time."""
    if len(job.request.kernels) != 1:
        raise ConfigError(f"one kernel is tuned at a time, not {len(job.request.kernels)}")
    return find(job.request.kernels[0])


def _step(
    job: Job,
    kind: type[C],
    size: Size,
    tried: Sequence[Mapping[str, int]],
    more: Mapping[str, int],
    seconds: float,
    rest: Sequence[Size],
    rng: np.random.Generator,
) -> Step | None:
    """Confirm one shape; None if the file's entry answers today's question: as many tiles timed, or
    the same tile chosen.
    """
    k = _kernel(job)
    what, held = f"{k.name} at {shape(size)}", current(job.record, kind, k, size)
    same = held is not None and all(held[name] == value for name, value in more.items())
    if same and not job.request.again and held is not None:
        if kind is Tuned or held.params == tried[0]:
            job.outcome.present += 1
            job.say(f"{what}: confirmed in {job.record.path} already")
            return None

    def run() -> Done:
        found = confirm(job.session, k, size, tried, rng, knockout=kind is Tuned)
        entry = kind(**{**found, **more, "recorded": dict(job.stamp)})
        job.record.merge(entry)
        return Done(describe(entry))

    left = [f"{k.name} at {shape(s)}" for s in rest]
    return Step(what, seconds, run, rest=lambda: left)


def _tuned(job: Job) -> Iterator[Step]:
    """Confirm the best few tiles that the sweep of a size has timed."""
    job.session.warm_up()
    (size, *_), k = job.wanted((MATRIX,)), _kernel(job)
    found = finalists(job.record.of(Swept), k, size)
    if not found:
        raise ConfigError(f"no tile of {k.name} is timed at {shape(size)}: give more --seconds")
    tried, more = found[: job.request.finalists or FINALISTS], {"tiles": len(found)}
    step = _step(job, Tuned, size, tried, more, 0.0, [size], np.random.default_rng())
    if step:
        yield step


def _ragged(job: Job) -> Iterator[Step]:
    """Confirm the tile that `launch.choose` picks, shape by shape."""
    k, rng, shapes = _kernel(job), np.random.default_rng(), ragged_shapes()
    choose(k, *MATRIX)  # raises ConfigError for a kernel with one tile
    job.session.warm_up()
    started, more = time.monotonic(), {"seed": RAGGED_SEED}
    for done, size in enumerate(shapes):
        tried = [dict(choose(k, *size, gpu=facts()).params)]
        each = (time.monotonic() - started) / max(1, done)
        step = _step(job, Chosen, size, tried, more, each if done else 0.0, shapes[done:], rng)
        if step:
            yield step
    if found := ragged_result(job.record, k.name):
        job.say(str(found))


SECTIONS = (
    Section(Tuned, _tuned, rank=61),
    Section(Chosen, _ragged, rank=62),
)

# -- the choice over the whole set -----------------------------------------------------------------


@dataclass(frozen=True)
class Ragged:
    """The choice of tile over the ragged set. share: geometric mean of the paired ratios to cuBLAS.

    default: that of the default tile, from the same rounds. worst: the lowest ratio. error: the
    largest error over its tolerance: a shape with a wrong element is refused, so it is below 1.
    """

    kernel: str
    entries: tuple[Chosen, ...]
    share: float
    default: float
    worst: float
    error: float

    def __str__(self) -> str:
        return (
            f"{self.kernel} over {len(self.entries)} ragged shapes: {100 * self.share:.1f} % of cuBLAS "
            f"(geometric mean; {100 * self.default:.1f} % with the default tile alone), the worst "
            f"{100 * self.worst:.1f} %; every element right, the largest error {self.error:.2f} of its "
            "tolerance"
        )


def ragged_result(record: Record, kernel: str = "fp32_best") -> Ragged | None:
    """What a measurement file says about a kernel on the ragged set; None unless it is complete."""
    found = [current(record, Chosen, catalog[kernel], size) for size in ragged_shapes()]
    entries = [e for e in found if e is not None and e.cublas_ratio is not None]
    if len(entries) < len(found):
        return None

    def mean(ratios: Iterable[float]) -> float:
        logs = [math.log(r) for r in ratios]
        return math.exp(sum(logs) / len(logs))

    shares = [e.cublas_ratio or math.nan for e in entries]
    return Ragged(
        kernel,
        tuple(entries),
        mean(shares),
        mean(share / (e.gain or 1.0) for share, e in zip(shares, entries, strict=True)),
        min(shares),
        max(e.error_over_tolerance for e in entries),
    )
