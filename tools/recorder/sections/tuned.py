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

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from helpers.ladder import rungs
from helpers.ladder.kernel import Kernel, geometry
from helpers.ladder.launch import choose, facts
from helpers.ladder.rungs import find
from helpers.record import protocol, shape_sets, tiles
from helpers.record.entries import Chosen, Swept, Tuned
from helpers.record.gpu import Session
from helpers.record.shape_sets import RAGGED_SEED, C, current_entry, describe_tile, ragged_result
from helpers.record.store import Size, named, shape
from helpers.record.trials import enter, of_plan, yardstick
from nogpu.errors import ConfigError
from tools.recorder import tile_builds
from tools.recorder.sections.sweep import timed
from tools.recorder.steps import MATRIX, Done, Job, Section, Step

EFFORT = protocol.RECORD
"""What a confirmation spends on one set of rounds: as much as `record` on a point."""
FINALISTS = 4
"""How many of a sweep's best tiles are timed again."""


# -- confirming ------------------------------------------------------------------------------------


def confirm(
    session: Session, k: Kernel, size: Size, tried: Sequence[Mapping[str, int]],
    rng: np.random.Generator, *, knockout: bool,
) -> dict[str, Any]:  # fmt: skip
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
            cubin = tile_builds.build(k.name, dict(p.params), session.gpu.arch, size).cubin
            contenders[str(i)] = of_plan(p, what, cubin=cubin)
        others = [name for name in contenders if name != "0"]
        beside = yardstick(session, plans[0], f"{k.name} at {shape(size)}")
        entered = enter(session, size, contenders | beside)
        if knockout and len(others) > 1:
            first = entered.trial([*contenders, *beside], EFFORT, rng)
            others = [min(others, key=lambda name: first.ms[name].median)]
        best = others[0] if others else "0"
        last = entered.trial([*dict.fromkeys(["0", best]), *beside], EFFORT, rng)
    gain = last.rounds.ratio(best, "0")
    if knockout and gain.q1 <= 1:
        best = "0"
    return {
        "kernel": k.name, "params": dict(plans[int(best)].params), "default": default,
        **named(size), **last.fields(best),
        **protocol.fields(gain if best != "0" else None, "gain", "gain_"),
        "checked": entered.problem.checked, "source": rungs.fingerprint(k),
    }  # fmt: skip


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
    job: Job, kind: type[C], size: Size, tried: Sequence[Mapping[str, int]],
    more: Mapping[str, int], seconds: float, rest: Sequence[Size], rng: np.random.Generator,
) -> Step | None:  # fmt: skip
    """Confirm one shape; None if the file's entry answers today's question: as many tiles timed, or
    the same tile chosen."""
    k = _kernel(job)
    what, entry_now = f"{k.name} at {shape(size)}", current_entry(job.record, kind, k, size)
    same = entry_now is not None and all(entry_now[name] == value for name, value in more.items())
    if same and not job.request.again and entry_now is not None:
        if kind is Tuned or entry_now.params == tried[0]:
            job.outcome.present += 1
            job.say(f"{what}: confirmed in {job.record.path} already")
            return None

    def run() -> Done:
        fields = confirm(job.session, k, size, tried, rng, knockout=kind is Tuned)
        entry = kind(**{**fields, **more, "recorded": dict(job.stamp)})
        job.record.merge(entry)
        return Done(describe_tile(entry))

    left = [f"{k.name} at {shape(s)}" for s in rest]
    return Step(what, seconds, run, rest=lambda: left)


def _tuned(job: Job) -> Iterator[Step]:
    """Confirm the best few tiles that the sweep of a size has timed."""
    job.session.warm_up()
    (size, *_), k = job.wanted((MATRIX,)), _kernel(job)
    fastest = finalists(job.record.of(Swept), k, size)
    if not fastest:
        raise ConfigError(f"no tile of {k.name} is timed at {shape(size)}: give more --seconds")
    tried, more = fastest[: job.request.finalists or FINALISTS], {"tiles": len(fastest)}
    step = _step(job, Tuned, size, tried, more, 0.0, [size], np.random.default_rng())
    if step:
        yield step


def _ragged(job: Job) -> Iterator[Step]:
    """Confirm the tile that `launch.choose` picks, shape by shape."""
    k, rng, shapes = _kernel(job), np.random.default_rng(), shape_sets.ragged_shapes()
    choose(k, *MATRIX)  # raises ConfigError for a kernel with one tile
    job.session.warm_up()
    started, more = time.monotonic(), {"seed": RAGGED_SEED}
    for done, size in enumerate(shapes):
        tried = [dict(choose(k, *size, gpu=facts()).params)]
        each = (time.monotonic() - started) / max(1, done)
        step = _step(job, Chosen, size, tried, more, each if done else 0.0, shapes[done:], rng)
        if step:
            yield step
    if result := ragged_result(job.record, k.name):
        job.say(str(result))


SECTIONS = (Section(Tuned, _tuned, rank=61), Section(Chosen, _ragged, rank=62))
