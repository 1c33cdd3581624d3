"""Every kernel of the catalog checked on a GPU: compute-sanitizer's four tools, and many shapes.

Both are resumable: what is in the file, of the code as it is now, is not run again.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers import launch, numbers, toolchain
from helpers.errors import ConfigError, ToolchainError, UnknownKernelError, near_matches
from helpers.kernel import Kernel, cdiv, defines, geometry
from helpers.measuring import evidence, protocol, record, sanitizer
from helpers.measuring import point as points
from helpers.measuring.sanitizer import CHECKS, Source, Task, Verdict
from helpers.measuring.schema import Size
from helpers.rungs import catalog, find

if TYPE_CHECKING:
    from helpers.measuring.gpu import Problem, Session

WATCHED: Mapping[str, Size] = {"aligned": (256, 768, 384), "ragged": (197, 523, 397)}
"""Launches under compute-sanitizer: whole tiles of every kernel, several blocks and steps of k; neither."""
FEW_SMS = {"SMS": 4}
"""For kernels that fill a number of SMs: so few that blocks take several tiles, and share some."""
LIMIT = 60.0
"""Seconds from its first launch after which one process counts as endless."""
SHAPES_LIMIT = 180.0
"""The same for all shapes of a kernel; CuPy compiles what compares them when it is first used."""
WRITE_EVERY = 3.0
SHAPES = 120
SEED = 2026
START_SECONDS = 4.0
"""What starting Python, CuPy and the GPU under a tool takes, for estimates."""


@dataclass(frozen=True)
class Control:
    """A kernel with a fault that a check must report, or what it says of others counts for nothing."""

    check: str
    kernel: str
    old: str
    new: str
    why: str

    @property
    def source(self) -> str:
        """The kernel's text with the fault in it."""
        text = catalog[self.kernel].source
        if text.count(self.old) != 1:
            raise ConfigError(f"{self.kernel} has no one place {self.old!r}: change this control")
        return text.replace(self.old, self.new)


_LEAVE = "if (row >= M || col >= N) return;\n    T sum = 0;"
CONTROLS = (
    Control("memcheck", "naive", "row >= M || ", "", "rows of C not tested"),
    Control(
        "racecheck",
        "tiled_16",
        "__syncthreads();  // both tiles are complete",
        "",
        "a barrier dropped",
    ),
    Control(
        "synccheck",
        "tiled_16",
        "__syncthreads();  // both tiles are complete",
        "if (ty < TILE / 2) __syncthreads();",
        "a barrier for half of the warps",
    ),
    Control("synccheck", "tiled_16", "T sum = 0;", _LEAVE, "threads that leave before a barrier"),
    Control(
        "initcheck",
        "coalesced",
        "C[size_t(row) * N + col] = sum;",
        "C[size_t(row) * N + col] += sum;",
        "C read before it is written",
    ),
)
"""Of each check, one control at least must be caught, or it is not believed. None can wait for ever."""


@dataclass(frozen=True)
class Request:
    """What to check. kernels: names of the catalog; empty: all that the GPU can run. out: the folder
    of the records. seconds: stop cleanly before this much time is spent. again: run even what is in
    the file. count: shapes for each kernel. limit: seconds that the launches of one process may take.
    """

    kernels: tuple[str, ...] = ()
    gpu: str | None = None
    out: Path | None = None
    commit: str | None = None
    seconds: float | None = None
    workers: int | None = None
    again: bool = False
    with_sanitizer: bool = True
    with_shapes: bool = True
    count: int = SHAPES
    limit: float = LIMIT


@dataclass
class Outcome:
    """What a run did: rows written, already there, and left over for want of time; runs whose log is
    not understood (refused, with the text); and faults that were found in kernels of the catalog.
    """

    done: int = 0
    present: int = 0
    left: int = 0
    refused: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def _kernels(wanted: Sequence[str]) -> list[Kernel]:
    for name in wanted:
        if name not in catalog:
            raise UnknownKernelError(f"no kernel is called {name!r}. {near_matches(name, catalog)}")
    return [k for name, k in catalog.items() if not wanted or name in wanted]


def verify(request: Request, say: Callable[[str], None] = print) -> Outcome:
    """Run the checks that a request asks for and write their records.

    A tool that misses its controls is refused, and nothing of it is recorded. Raises NoGPUError,
    ToolchainError (no compute-sanitizer, or one that reports no fault at all), UnknownKernelError,
    ConfigError, DataError.
    """
    key = record.gpu_key(record.require_gpu(), request.gpu)
    chosen = _kernels(request.kernels)
    started = time.monotonic()
    session = record.Session()
    chosen = [k for k in chosen if session.supports(k.min_arch)]
    stamp = points.stamp(session.versions(), points.commit(request.commit))
    stamp["gpu"] = session.gpu.name
    folder = request.out or evidence.FOLDER
    arch, outcome = session.gpu.arch, Outcome()

    def left() -> float:
        spent = time.monotonic() - started
        return math.inf if request.seconds is None else request.seconds - spent

    if request.with_shapes:
        check_shapes_of(chosen, folder / f"shapes_{key}.json", request, stamp, outcome, left, say)
    if request.with_sanitizer:
        watch(chosen, folder / "sanitizer.json", arch, request, stamp, outcome, left, say)
    return outcome


# -- compute-sanitizer -----------------------------------------------------------------------------


def watched_params(k: Kernel) -> dict[str, int]:
    """Tile sizes that a kernel is watched with: its own, on few SMs where it can be told."""
    return {**k.params, **(FEW_SMS if "SMS" in k.params else {})}


def watched_shapes(k: Kernel) -> dict[str, Size]:
    """The shapes of WATCHED that a kernel takes."""
    return {name: size for name, size in WATCHED.items() if _takes(k, size, watched_params(k))}


def _takes(k: Kernel, size: Size, params: Mapping[str, int]) -> bool:
    try:
        geometry(k, *size, **params)
    except ConfigError:
        return False
    return True


def job(
    kernel: str, size: Size, params: Mapping[str, int], cubin: Path, check: str
) -> dict[str, Any]:
    """One launch for helpers.measuring.one. Under initcheck C stays unwritten, and nobody reads it back."""
    named = dict(zip("MNK", size, strict=True))
    unread = check == "initcheck"
    return {
        "kernel": kernel, **named, "params": dict(params), "cubin": str(cubin), "check": not unread,
    }  # fmt: skip


def for_arch(arch: str, k: Kernel) -> str:
    """The architecture to compile a kernel for on a GPU of this one."""
    return arch + ("a" if k.min_arch.endswith("a") else "")


def source(k: Kernel, text: str, arch: str, params: Mapping[str, int]) -> Source:
    """What to compile: a kernel's text, or a changed one, with these tile sizes for this GPU."""
    return text, k.file, for_arch(arch, k), defines(k, params)


def watch_controls(
    cubins: Mapping[str, Path], workers: int, limit: float, left: Callable[[], float]
) -> list[dict[str, Any]]:
    """Run the controls: a row of each. Raises ToolchainError, with the logs, if none is caught."""
    tasks = [
        Task(
            f"{c.check} on {c.kernel}, {c.why}",
            c.check,
            (job(c.kernel, WATCHED["ragged"], catalog[c.kernel].params, cubins[c.why], c.check),),
            {"check": c.check, "kernel": c.kernel, "why": c.why},
        )
        for c in CONTROLS
    ]
    found = list(sanitizer.side_by_side(tasks, workers=workers, limit=limit, left=left))
    if len(found) < len(tasks):
        raise ToolchainError(
            "there was not enough time for the kernels with a known fault; give more --seconds"
        )
    if not any(v.errors for _, v in found):
        logs = "\n\n".join(v.log.strip()[-1000:] for _, v in found)
        raise ToolchainError(f"no kernel with a known fault is reported. The logs say:\n{logs}")
    rows = [
        {
            **t.row,
            "state": v.state,
            "errors": v.errors,
            "first": v.first or ("" if v.errors else sanitizer.without_folders(v.log)[-1000:]),
        }
        for t, v in found
    ]
    return sorted(rows, key=lambda r: (CHECKS.index(r["check"]), r["why"]))


def not_believed(controls: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Checks that report none of their controls, and what to say of each."""
    trusted = evidence.believed({"controls": controls})
    return {
        check: f"{check} reports nothing on a kernel with a known fault, so its silence on others "
        "would say nothing: nothing of it is recorded. It said: "
        + " ... ".join(c["first"] for c in controls if c["check"] == check)
        for check in CHECKS
        if check not in trusted
    }


def control_sources(arch: str) -> dict[str, Source]:
    """What to compile for the controls, by their `why`."""
    return {
        c.why: source(catalog[c.kernel], c.source, arch, catalog[c.kernel].params) for c in CONTROLS
    }


def missing_checks(
    chosen: Sequence[Kernel], data: Mapping[str, Any], again: bool
) -> list[tuple[Kernel, str, dict[str, Size]]]:
    """Kernel, check and shapes that the record lacks, or has of other code; check by check."""
    held = {(r["kernel"], r["shape"], r["check"]): r["source"] for r in data["rows"]}
    out = []
    for check in CHECKS:
        for k in chosen:
            now = points.fingerprint(k)
            lacking = {
                name: size
                for name, size in watched_shapes(k).items()
                if again or held.get((k.name, name, check)) != now
            }
            if lacking:
                out.append((k, check, lacking))
    return out


def watch(
    chosen: Sequence[Kernel],
    path: Path,
    arch: str,
    request: Request,
    stamp: Mapping[str, Any],
    outcome: Outcome,
    left: Callable[[], float],
    say: Callable[[str], None],
) -> None:
    """Launch every kernel under every check of compute-sanitizer, the controls first."""
    data = evidence.start(path, "sanitizer")
    wanted = sum(len(watched_shapes(k)) for k in chosen) * len(CHECKS)
    todo = missing_checks(chosen, data, request.again)
    lacking = sum(len(shapes) for *_, shapes in todo)
    outcome.present += wanted - lacking
    if not todo:
        say(f"compute-sanitizer: all {wanted} rows are in {path} already")
        return
    tool = sanitizer.tool_path()
    stamp = {**stamp, "sanitizer": sanitizer.version(tool)}
    workers = sanitizer.workers(request.workers)
    say(
        f"compute-sanitizer {stamp['sanitizer']}: {len(todo)} processes to start, {workers} at a "
        f"time -> {path}"
    )
    with tempfile.TemporaryDirectory(prefix="tile-by-tile-") as name:
        sources = control_sources(arch)
        for k in {k.name: k for k, *_ in todo}.values():
            sources[k.name] = source(k, k.source, arch, watched_params(k))
        cubins = sanitizer.compile_all(sources, Path(name), workers)
        data["controls"] = watch_controls(cubins, workers, request.limit, left)
        for c in data["controls"]:
            say(f"control: {c['check']:10s} {c['kernel']:10s} {c['why']}: {c['errors']} reported")
        doubted = not_believed(data["controls"])
        outcome.refused += doubted.values()
        todo = [t for t in todo if t[1] not in doubted]
        lacking = sum(len(shapes) for *_, shapes in todo)

        def task(k: Kernel, check: str, shapes: Mapping[str, Size]) -> Task:
            params = watched_params(k)
            jobs = tuple(job(k.name, s, params, cubins[k.name], check) for s in shapes.values())
            row = {"kernel": k.name, "params": params, "check": check, "shapes": dict(shapes)}
            return Task(f"{k.name} under {check}", check, jobs, row)

        waiting, done, wrote = [task(*t) for t in todo], 0, time.monotonic()
        try:
            while waiting:
                alone: list[Task] = []
                for t, found in sanitizer.side_by_side(
                    waiting, workers=workers, limit=request.limit, left=left
                ):
                    shapes = t.row["shapes"]
                    if len(shapes) > 1 and not fine(found):  # which of them was it?
                        k = catalog[t.row["kernel"]]
                        alone += [task(k, t.check, {n: s}) for n, s in shapes.items()]
                        continue
                    done += _keep(data, t, found, stamp, outcome, say)
                    if time.monotonic() - wrote > WRITE_EVERY:
                        evidence.write(path, data)
                        wrote = time.monotonic()
                waiting = alone
        finally:
            evidence.write(path, data)
    outcome.done += done
    unknown = len(outcome.refused) - len(doubted)
    outcome.left += max(0, lacking - done - unknown)


def fine(found: Verdict) -> bool:
    """Whether a run ended as it should, with nothing reported and no wrong element."""
    wrong = any(said.get("wrong") for said in found.launches)
    return found.state == "ran" and not found.errors and not wrong


def _keep(
    data: dict[str, Any],
    task: Task,
    found: Verdict,
    stamp: Mapping[str, Any],
    outcome: Outcome,
    say: Callable[[str], None],
) -> int:
    """Put what a run said into data, a row for each shape; how many rows."""
    if found.state == "unknown":
        outcome.refused.append(f"{task.what}: {found.log}")
        say(f"{task.what}: REFUSED: {found.log.splitlines()[0]}")
        return 0
    shapes = task.row["shapes"]
    for at, (shape, size) in enumerate(shapes.items()):
        launched = found.launches[at] if at < len(found.launches) else {}
        evidence.merge(
            data,
            {
                "kernel": task.row["kernel"],
                "params": dict(task.row["params"]),
                "shape": shape,
                **dict(zip("mnk", size, strict=True)),
                "check": task.check,
                "state": found.state,
                "errors": found.errors,
                "summary": found.summary,
                "first": found.first,
                "wrong": launched.get("wrong"),
                "seconds": found.seconds,
                "source": points.fingerprint(task.row["kernel"]),
                "recorded": dict(stamp),
            },
        )
    text = (
        f"{found.errors} errors"
        if found.state == "ran"
        else f"{found.state}, {found.errors} errors"
    )
    say(f"{task.what} at {', '.join(shapes)}: {text} ({found.seconds:.1f} s)")
    if not fine(found):
        why = found.first or last_line(found.log)
        outcome.faults.append(f"{task.what} at {', '.join(shapes)}: {text}. {why}")
    return len(shapes)


def last_line(log: str) -> str:
    """The last line of a program's output, without folders: what a traceback ends in."""
    lines = [line for line in log.strip().splitlines() if not line.startswith("@ ")]
    return sanitizer.without_folders(lines[-1])[:300] if lines else ""


# -- shapes ----------------------------------------------------------------------------------------


def shapes(k: Kernel, count: int = SHAPES, seed: int = SEED) -> list[Size]:
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

    found: dict[Size, None] = {}
    for tried in range(50 * count):
        size = first[tried] if tried < len(first) else drawn()
        size = tuple(max(1, n) for n in size)  # type: ignore[assignment]
        if not _takes(k, size, {}):
            size = tuple(cdiv(n, step) * step for n in size)  # type: ignore[assignment]
        if _takes(k, size, {}):
            found[size] = None
        if len(found) == count:
            return list(found)
    raise ConfigError(f"{k.name} takes only {len(found)} of the shapes drawn; ask for fewer")


def check_shapes(task: Mapping[str, Any]) -> dict[str, Any]:
    """Launch a kernel on every shape of a task and compare with float64: runs in a process of its own.

    task: {kernel, shapes, seed, shifted}. shifted: the operands begin one element into their memory,
    so that nothing is aligned to more than an element; and C, unless a tensor-map kernel stores to it
    directly. Returns the largest error over its bound (null where an element was never written), how
    many elements are wrong, and at which shapes.
    """
    k, session = find(task["kernel"]), record.Session()
    worst, wrong, wrong_at, done = 0.0, 0, [], 0
    for M, N, K in task["shapes"]:
        p = geometry(k, M, N, K)
        with session.faults(f"{k.name} at {M}x{N}x{K}"):
            problem = session.problem(k.dtype, M, N, K, task["seed"] + done)
            A, B, C = problem.A, problem.B, session.output(k.out_dtype, M, N)
            if task["shifted"]:
                A, B = (_shifted(session, x) for x in (A, B))
                C = _shifted(session, C) if _any_output(k) else C
            with session.on_stream():
                launch.cuda_launch(p, A, B, C)
            _, ratio = session.error(problem, C, k.out_dtype)
        worst = ratio if math.isnan(ratio) or ratio > worst else worst  # and NaN stays
        if not ratio <= 1.0:
            wrong += count_wrong(problem, C, k.out_dtype)
            wrong_at.append([M, N, K])
        done += 1
    return {
        "kernel": k.name,
        "shapes": done,
        "worst": worst if math.isfinite(worst) else None,
        "wrong": wrong,
        "wrong_at": wrong_at,
    }


def _any_output(k: Kernel) -> bool:
    """Whether C, too, may begin anywhere: not where a tensor-map kernel stores pairs to it itself."""
    from helpers import hopper

    return k.host == "plain" or "C_map" in hopper.parameters(k)


def _shifted(session: Session, x: Any) -> Any:
    """The same matrix, beginning one element into its memory."""
    with session.on_stream():
        flat = session.cupy.empty(x.size + 1, x.dtype)[1:]
        flat[...] = x.ravel()
        return flat.reshape(x.shape)


def _host(x: Any) -> np.ndarray:
    return x.get() if hasattr(x, "get") else np.asarray(x)


def count_wrong(problem: Problem, C: Any, out_dtype: str) -> int:
    """Elements of C outside the bound of `protocol.tolerance`; one that is not a number always is."""
    found = numbers.values(out_dtype, _host(C))
    if problem.rows is not None:
        found = found[_host(problem.rows)]
    wanted = _host(problem.reference)
    norms = _host(problem.row_norms), _host(problem.column_norms)
    allowed = protocol.tolerance(problem.dtype, *norms)
    if out_dtype in ("float16", "bfloat16"):
        allowed = allowed + numbers.UNIT_ROUNDOFF[out_dtype] * np.abs(wanted)
    return int(np.count_nonzero(~(np.abs(found - wanted) <= allowed)))


def missing_shapes(
    chosen: Sequence[Kernel], data: Mapping[str, Any], request: Request
) -> list[Kernel]:
    """Kernels whose row is missing, of other code, of fewer shapes, or not right."""
    held = {r["kernel"]: r for r in data["rows"]}

    def lacks(k: Kernel) -> bool:
        r = held.get(k.name)
        if r is None or request.again or r["source"] != points.fingerprint(k):
            return True
        whole = min(r["shapes"], r["shifted_shapes"]) >= request.count and r["state"] == "ran"
        return not whole or bool(r["wrong"] or r["shifted_wrong"])

    return [k for k in chosen if lacks(k)]


def check_shapes_of(
    chosen: Sequence[Kernel],
    path: Path,
    request: Request,
    stamp: Mapping[str, Any],
    outcome: Outcome,
    left: Callable[[], float],
    say: Callable[[str], None],
) -> None:
    """Each kernel over many shapes, aligned and shifted, in a process for each kernel."""
    data = evidence.start(path, "shapes")
    todo = missing_shapes(chosen, data, request)
    outcome.present += len(chosen) - len(todo)
    if not todo:
        say(f"shapes: all {len(chosen)} kernels are in {path} already")
        return
    workers = sanitizer.workers(request.workers)
    say(
        f"shapes: {len(todo)} kernels over {request.count} shapes each, {workers} at a time -> {path}"
    )
    tasks = []
    for k in todo:
        given = {"kernel": k.name, "shapes": shapes(k, request.count), "seed": SEED}
        jobs = tuple({**given, "shifted": shifted} for shifted in (False, True))
        tasks.append(Task(f"shapes of {k.name}", "", jobs, given))
    done = 0
    limit = max(request.limit, SHAPES_LIMIT)
    for t, found in sanitizer.side_by_side(tasks, workers=workers, limit=limit, left=left):
        row = shapes_row(t, found, stamp)
        evidence.merge(data, row)
        evidence.write(path, data)
        done += 1
        text = f"{row['wrong']} + {row['shifted_wrong']} wrong, worst {row['worst']} of the bound"
        say(f"{t.what}: {row['state']}, {row['shapes']} + {row['shifted_shapes']} shapes, {text}")
        if row["state"] != "ran" or row["wrong"] or row["shifted_wrong"]:
            outcome.faults.append(f"{t.what}: {row['state']}, {text}. {last_line(found.log)}")
    outcome.done += done
    outcome.left += len(todo) - done


def shapes_row(task: Task, found: Verdict, stamp: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a kernel's shapes; what a process that stopped did not come to is 0 shapes."""
    k = catalog[task.row["kernel"]]
    nothing: dict[str, Any] = {"shapes": 0, "worst": None, "wrong": 0, "wrong_at": []}
    plain, shifted = (*found.launches, nothing, nothing)[:2]
    return {
        "kernel": k.name,
        "params": dict(k.params),
        "state": found.state,
        "seed": task.row["seed"],
        "shapes": plain["shapes"],
        "largest": max(task.row["shapes"], key=math.prod),
        "worst": plain["worst"],
        "wrong": plain["wrong"],
        "wrong_at": [*plain["wrong_at"], *shifted["wrong_at"]][:20],
        "shifted": "A, B and C" if _any_output(k) else "A and B",
        "shifted_shapes": shifted["shapes"],
        "shifted_worst": shifted["worst"],
        "shifted_wrong": shifted["wrong"],
        "source": points.fingerprint(k),
        "recorded": dict(stamp),
    }


# -- what would be run -----------------------------------------------------------------------------


def planned(request: Request, key: str = "h200", arch: str = "sm_90") -> list[tuple[str, float]]:
    """What a run of `verify` would do on this GPU, and seconds for each, by estimate. Needs no GPU."""
    least = toolchain.arch_number
    chosen = [k for k in _kernels(request.kernels) if least(k.min_arch) <= least(arch)]
    folder, workers = request.out or evidence.FOLDER, sanitizer.workers(request.workers)
    out = []
    if request.with_shapes:
        data = evidence.start(folder / f"shapes_{key}.json", "shapes")
        todo = missing_shapes(chosen, data, request)
        each = START_SECONDS + 0.02 * request.count
        if todo:
            seconds = 20 + each * cdiv(len(todo), workers)
            out.append((f"shapes of {len(todo)} kernels, {workers} at a time", seconds))
    if request.with_sanitizer:
        data = evidence.start(folder / "sanitizer.json", "sanitizer")
        lacking = missing_checks(chosen, data, request.again)
        if lacking:
            count = len(lacking) + len(CONTROLS)
            seconds = 10 + START_SECONDS * cdiv(count, workers)
            what = f"compute-sanitizer in {count} processes, {workers} at a time"
            out.append((what, seconds))
    return out
