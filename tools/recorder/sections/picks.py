"""Section "auto": the launch that `choosing.best` picks, of all kernels of the book, beside cuBLAS,
shape by shape.

The shapes are drawn anew, with seeds on which next to nothing was tuned (`shape_sets`); beside them
stand a few that are long or thin, the same in every record.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from helpers.ladder import choosing, rungs
from helpers.ladder.kernel import Geometry
from helpers.ladder.launch import facts
from helpers.ladder.rungs import find
from helpers.record import protocol
from helpers.record.entries import Pick
from helpers.record.shape_sets import NAMED_SHAPES, drawn_shapes
from helpers.record.store import Record, named, shape
from helpers.record.trials import enter, of_plan, yardstick
from nogpu.errors import ConfigError, DtypeError
from tools.recorder.steps import Done, Job, Section, Step

EFFORT = protocol.RECORD


def picked(job: Job, p: Geometry, seed: int, rng: np.random.Generator) -> Pick:
    """Time a launch in turn with cuBLAS, and judge its result. Raises ImplausibleError."""
    size, k, session = (p.M, p.N, p.K), p.kernel, job.session
    what = f"{choosing.words(p)} at {shape(size)}"
    with session.faults(what):
        beside = yardstick(session, p, what)
        entered = enter(session, size, {"own": of_plan(p, what), **beside})
        done = entered.trial(["own", *beside], EFFORT, rng)
    return Pick(
        dtype=k.dtype, **named(size), seed=seed, kernel=k.name, params=dict(p.params),
        predicted=choosing.predicted(p, facts()) / facts().boost_mhz, **done.fields("own"),
        checked=entered.problem.checked, source=rungs.fingerprint(k), recorded=dict(job.stamp),
    )  # fmt: skip


def current(record: Record, p: Geometry) -> Pick | None:
    """The entry of a launch, if the same one was measured, with the code as it is now."""
    key = Pick.key_of(dtype=p.kernel.dtype, **named((p.M, p.N, p.K)))
    pick = record.index(Pick).get(key)
    same = pick and pick.kernel == p.kernel.name and pick.params == dict(p.params)
    return pick if same and pick and pick.source == rungs.fingerprint(p.kernel) else None


def _types(job: Job) -> list[str]:
    """Types that some kernel of the catalog takes on this GPU."""
    able = []
    for dtype in NAMED_SHAPES:
        try:
            choosing.contenders(dtype, facts())
        except (ConfigError, DtypeError):
            continue
        able.append(dtype)
    return able


def _lacking(job: Job) -> Iterator[Step]:
    rng = np.random.default_rng()
    todo = [(dtype, seed, size) for dtype in _types(job) for seed, size in drawn_shapes(dtype)]
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


def describe(entry: Pick) -> str:
    """An entry in a line."""
    p = find(entry.kernel)
    text = choosing.words(rungs.lay_out(p, entry.m, entry.n, entry.k, **entry.params))
    share = "" if entry.cublas_ratio is None else f", {100 * entry.cublas_ratio:.1f} % of cuBLAS"
    return f"{text}: {1e3 * entry.ms:.1f} us, predicted {entry.predicted:.1f}{share}"


SECTIONS = (
    Section(
        Pick, _lacking, option="the best kernel by shape, FP32 and BF16, beside cuBLAS", rank=63
    ),
)
