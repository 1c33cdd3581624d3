"""Every kernel of the catalog over many shapes on a GPU: data/validation/shapes_<gpu>.json.

Resumable: what is in the file, of the code as it is now, is not run again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

import numpy as np

from helpers.ladder import launch, numbers, rungs
from helpers.ladder.kernel import Kernel, cdiv, geometry
from helpers.ladder.rungs import catalog, find
from helpers.record import protocol
from helpers.record.entries import ShapesRun
from helpers.record.gpu import Problem, Session
from helpers.record.store import Size
from nogpu.errors import ConfigError
from tools.recorder import sanitizer
from tools.recorder.sanitizer import Task, Verdict
from tools.recorder.sections.sanitized import START_SECONDS, last_line
from tools.recorder.steps import TAKEN, Done, Job, Section, Step, checked_kernels, takes

LIMIT = 180.0
"""Seconds from its first launch after which one process counts as endless; CuPy compiles what
compares the shapes when it is first used."""
COUNT = 120
SEED = 2026
VECTOR = 16
"""Bytes of the widest store of a thread."""


# -- in a process of its own -----------------------------------------------------------------------


def shapes(k: Kernel, count: int = COUNT, seed: int = SEED) -> list[Size]:
    """Awkward shapes (M, N, K) for a kernel, no two alike: 1 and primes; one beside its own tile in
    each dimension; a few large; then random up to 600. Where its rules ask for whole tiles, all are
    rounded up to them. The same seed gives the same list. Raises ConfigError if it takes too few.
    """
    rng = Random(f"{k.name} {seed}")
    p = geometry(k, 4096, 4096, 4096)
    step = p.params.get("BK", p.params.get("TILE", 32))
    beside = (-1, 0, 1)
    first: list[Size] = [(1, 1, 1), (1, 1, 257), (257, 1, 1), (1, 257, 1), (2, 3, 5), (31, 37, 41)]
    first += [(127, 131, 113), (251, 1, 509), (1025, 1023, 1027), (2049, 129, 77), (65, 4097, 255)]
    first += [
        (p.tile[0] + m, p.tile[1] + n, step + kk) for m in beside for n in beside for kk in beside
    ]

    def drawn() -> Size:
        return tuple(int(math.exp(rng.uniform(0.0, math.log(600.0)))) for _ in range(3))  # type: ignore[return-value]

    sizes: dict[Size, None] = {}
    for tried in range(50 * count):
        size = first[tried] if tried < len(first) else drawn()
        size = tuple(max(1, n) for n in size)  # type: ignore[assignment]
        if not takes(k, size):
            size = tuple(cdiv(n, step) * step for n in size)  # type: ignore[assignment]
        if takes(k, size):
            sizes[size] = None
        if len(sizes) == count:
            return list(sizes)
    raise ConfigError(f"{k.name} takes only {len(sizes)} of the shapes drawn; ask for fewer")


def check_shapes(task: Mapping[str, Any]) -> dict[str, Any]:
    """Launch a kernel on every shape of a task and compare with float64: runs in a process of its
    own.

    task: {kernel, shapes, seed, shifted}. shifted: A and B begin one element into their memory, so
    that nothing is aligned to more than an element, and C so at one shape, two elements in at the
    next, and on through every offset of its type in 16 bytes. Returns the largest error over its
    bound (null where an element was never written), how many elements are wrong, and at which
    shapes.
    """
    k, session = find(task["kernel"]), Session()
    worst, wrong, wrong_at, done = 0.0, 0, [], 0
    for M, N, K in task["shapes"]:
        p = geometry(k, M, N, K)
        with session.faults(f"{k.name} at {M}x{N}x{K}"):
            problem = session.problem(k.dtype, M, N, K, task["seed"] + done)
            A, B, C = problem.A, problem.B, session.output(k.out_dtype, M, N)
            if task["shifted"]:
                A, B = (_shifted(session, x) for x in (A, B))
                C = _shifted(session, C, 1 + done % (VECTOR // C.itemsize - 1))
            with session.on_stream():
                launch.cuda_launch(p, A, B, C)
            _, ratio = session.error(problem, C, k.out_dtype)
        worst = ratio if math.isnan(ratio) or ratio > worst else worst  # and NaN stays
        if not ratio <= 1.0:
            wrong += count_wrong(problem, C, k.out_dtype)
            wrong_at.append([M, N, K])
        done += 1
    least = worst if math.isfinite(worst) else None
    outcome = {"shapes": done, "worst": least, "wrong": wrong, "wrong_at": wrong_at}
    return {"kernel": k.name, **outcome}


def _shifted(session: Session, x: Any, by: int = 1) -> Any:
    """The same matrix, beginning `by` elements into its memory."""
    with session.on_stream():
        flat = session.cupy.empty(x.size + by, x.dtype)[by:]
        flat[...] = x.ravel()
        return flat.reshape(x.shape)


def _host(x: Any) -> np.ndarray:
    return x.get() if hasattr(x, "get") else np.asarray(x)


def count_wrong(problem: Problem, C: Any, out_dtype: str) -> int:
    """Elements of C outside the bound of `protocol.tolerance`; what is no number always is."""
    result = numbers.values(out_dtype, _host(C))
    if problem.rows is not None:
        result = result[_host(problem.rows)]
    wanted = _host(problem.reference)
    norms = _host(problem.row_norms), _host(problem.column_norms)
    allowed = protocol.tolerance(problem.dtype, *norms)
    if out_dtype in ("float16", "bfloat16"):
        allowed = allowed + numbers.UNIT_ROUNDOFF[out_dtype] * np.abs(wanted)
        allowed = allowed + numbers.UNDERFLOW.get(out_dtype, 0.0)
    return int(np.count_nonzero(~(np.abs(result - wanted) <= allowed)))


# -- what a file lacks -----------------------------------------------------------------------------


def missing_shapes(job: Job) -> list[Kernel]:
    """Kernels whose row is missing, of other code, of fewer shapes, or not right."""
    rows: Mapping[str, ShapesRun] = {r.kernel: r for r in job.record.data["rows"]}
    count = job.request.count or COUNT

    def lacks(k: Kernel) -> bool:
        r = rows.get(k.name)
        if r is None or job.request.again or r.source != rungs.fingerprint(k):
            return True
        whole = min(r.shapes, r.shifted_shapes) >= count and r.state == "ran"
        return not whole or bool(r.wrong or r.shifted_wrong)

    return [k for k in checked_kernels(job) if lacks(k)]


def lacking(job: Job) -> Iterator[Step]:
    """Each kernel in a process of its own; a step takes what one of them said."""
    lacks, count = missing_shapes(job), job.request.count or COUNT
    present = len(checked_kernels(job)) - len(lacks)
    job.outcome.present += present
    if not lacks:
        job.say(f"shapes: all {present} kernels are in {job.record.path} already")
        return
    workers = sanitizer.workers(job.request.workers)
    job.say(
        f"shapes: {len(lacks)} kernels over {count} shapes each, {workers} at a time -> "
        f"{job.record.path}"
    )
    tasks = {}
    for k in lacks:
        row = {"kernel": k.name, "shapes": shapes(k, count), "seed": SEED}
        jobs = tuple({**row, "shifted": shifted} for shifted in (False, True))
        tasks[k.name] = Task(f"shapes of {k.name}", "", jobs, row)
    limit = max(job.request.limit or 0.0, LIMIT)
    for t, verdict in sanitizer.side_by_side(
        list(tasks.values()), workers=workers, limit=limit, left=job.budget.left
    ):
        del tasks[t.row["kernel"]]
        yield Step(t.what, TAKEN, partial(_keep, job, t, verdict))
    job.outcome.left += [t.what for t in tasks.values()]


def _keep(job: Job, task: Task, verdict: Verdict) -> Done:
    row = shapes_row(task, verdict, job.stamp)
    job.record.merge(row, "rows")
    text = f"{row.wrong} + {row.shifted_wrong} wrong, worst {row.worst} of the bound"
    if row.state != "ran" or row.wrong or row.shifted_wrong:
        fault = f"{task.what}: {row.state}, {text}. {last_line(verdict.log)}"
        job.outcome.faults.append(fault)
    return Done(f"{row.state}, {row.shapes} + {row.shifted_shapes} shapes, {text}")


def shapes_row(task: Task, verdict: Verdict, stamp: Mapping[str, Any]) -> ShapesRun:
    """The row of a kernel's shapes; what a process that stopped did not come to is 0 shapes."""
    k = catalog[task.row["kernel"]]
    nothing: dict[str, Any] = {"shapes": 0, "worst": None, "wrong": 0, "wrong_at": []}
    plain, shifted = (*verdict.launches, nothing, nothing)[:2]
    return ShapesRun(
        kernel=k.name, params=dict(k.params), state=verdict.state, seed=task.row["seed"],
        shapes=plain["shapes"], largest=list(max(task.row["shapes"], key=math.prod)),
        worst=plain["worst"], wrong=plain["wrong"],
        wrong_at=[*plain["wrong_at"], *shifted["wrong_at"]][:20], shifted="A, B and C",
        shifted_shapes=shifted["shapes"], shifted_worst=shifted["worst"],
        shifted_wrong=shifted["wrong"], source=rungs.fingerprint(k), recorded=dict(stamp),
    )  # fmt: skip


def planned(job: Job) -> Iterator[tuple[str, float]]:
    """How many kernels a run would take over the shapes, and about how long that takes."""
    lacks, workers = missing_shapes(job), sanitizer.workers(job.request.workers)
    if lacks:
        each = START_SECONDS + 0.02 * (job.request.count or COUNT)
        yield (
            f"shapes of {len(lacks)} kernels, {workers} at a time",
            20 + each * cdiv(len(lacks), workers),
        )


SECTIONS = (
    Section(
        ShapesRun, lacking, "shapes", rank=90, kind="shapes", file="shapes_{}.json", plan=planned
    ),
)
