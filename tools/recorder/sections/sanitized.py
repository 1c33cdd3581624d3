"""Every kernel of the catalog under compute-sanitizer's four tools: data/validation/sanitizer.json.

Resumable: what is in the file, of the code as it is now, is not run again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from helpers.ladder import rungs
from helpers.ladder.kernel import Kernel, cdiv, defines
from helpers.ladder.rungs import catalog
from helpers.record.entries import CHECKS, ControlRun, SanitizerRun
from helpers.record.evidence import believed
from helpers.record.store import Record, Size, named
from nogpu.errors import ConfigError, DataError, ToolchainError
from tools.recorder import sanitizer
from tools.recorder.sanitizer import Source, Task, Verdict
from tools.recorder.steps import TAKEN, Done, Job, Section, Step, checked_kernels, takes

WATCHED: Mapping[str, Size] = {"aligned": (256, 768, 384), "ragged": (197, 523, 397)}
"""Launches under compute-sanitizer: whole tiles of every kernel, several blocks and steps of k;
neither."""
FEW_SMS = {"SMS": 4}
"""For kernels that fill a number of SMs: so few that blocks take several tiles, and share some."""
LIMIT = 60.0
"""Seconds from its first launch after which one process counts as endless."""
WRITE_EVERY = 3.0
START_SECONDS = 4.0
"""What starting Python, CuPy and the GPU under a tool takes, for estimates."""


# -- kernels with a known fault --------------------------------------------------------------------


@dataclass(frozen=True)
class Control:
    """A kernel with a fault that a check must report, or what it says of others is void."""

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
    Control("racecheck", "tiled_16", "__syncthreads();  // both tiles are complete", "", "a barrier dropped"),
    Control(
        "synccheck", "tiled_16", "__syncthreads();  // both tiles are complete",
        "if (ty < TILE / 2) __syncthreads();", "a barrier for half of the warps",
    ),
    Control("synccheck", "tiled_16", "T sum = 0;", _LEAVE, "threads that leave before a barrier"),
    Control(
        "initcheck", "coalesced", "C[size_t(row) * N + col] = sum;",
        "C[size_t(row) * N + col] += sum;", "C read before it is written",
    ),
)  # fmt: skip
"""Of each check, one control at least must be caught, or it is not believed.

None can wait for ever.
"""


def watch_controls(
    cubins: Mapping[str, Path], workers: int, limit: float, left: Callable[[], float]
) -> list[ControlRun]:
    """Run the controls: a row of each. Raises ToolchainError, with the logs, if none is caught."""
    tasks = [
        Task(
            f"{c.check} on {c.kernel}, {c.why}",
            c.check,
            (
                launched(
                    c.kernel, WATCHED["ragged"], catalog[c.kernel].params, cubins[c.why], c.check
                ),
            ),
            {"check": c.check, "kernel": c.kernel, "why": c.why},
        )
        for c in CONTROLS
    ]
    verdicts = list(sanitizer.side_by_side(tasks, workers=workers, limit=limit, left=left))
    if len(verdicts) < len(tasks):
        raise ToolchainError(
            "there was not enough time for the kernels with a known fault; give more --seconds"
        )
    if not any(v.errors for _, v in verdicts):
        logs = "\n\n".join(v.log.strip()[-1000:] for _, v in verdicts)
        raise ToolchainError(f"no kernel with a known fault is reported. The logs say:\n{logs}")
    rows = []
    for t, v in verdicts:
        first = v.first or ("" if v.errors else sanitizer.without_folders(v.log)[-1000:])
        rows.append(ControlRun(**t.row, state=v.state, errors=v.errors, first=first))
    return sorted(rows, key=lambda r: (CHECKS.index(r.check), r.why))


def not_believed(controls: Sequence[ControlRun]) -> dict[str, str]:
    """Checks that report none of their controls, and what to say of each."""
    trusted = believed(controls)
    return {
        check: (
            f"{check} reports nothing on a kernel with a known fault, so its silence on others "
            "would say nothing: nothing of it is recorded. It said: "
            + " ... ".join(c.first for c in controls if c.check == check)
        )
        for check in CHECKS
        if check not in trusted
    }


def control_sources(arch: str) -> dict[str, Source]:
    """What to compile for the controls, by their `why`."""
    return {
        c.why: source(catalog[c.kernel], c.source, arch, catalog[c.kernel].params) for c in CONTROLS
    }


# -- what is launched ------------------------------------------------------------------------------


def watched_params(k: Kernel) -> dict[str, int]:
    """Tile sizes that a kernel is watched with: its own, on few SMs where it can be told."""
    return {**k.params, **(FEW_SMS if "SMS" in k.params else {})}


def watched_shapes(k: Kernel) -> dict[str, Size]:
    """The shapes of WATCHED that a kernel takes."""
    return {name: size for name, size in WATCHED.items() if takes(k, size, watched_params(k))}


def launched(
    kernel: str, size: Size, params: Mapping[str, int], cubin: Path, check: str
) -> dict[str, Any]:
    """One launch for tools.recorder.launcher.

    Under initcheck C stays unwritten, and nobody reads it back.
    """
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


Missing = tuple[Kernel, str, dict[str, Size]]
"""Kernel, check and shapes that the record lacks, or has of other code."""


def missing_checks(chosen: Sequence[Kernel], record: Record, again: bool) -> list[Missing]:
    """What is to be run, check by check."""
    sources = {e.about: e.source for e in record.data["rows"]}
    out = []
    for check in CHECKS:
        for k in chosen:
            now = rungs.fingerprint(k)
            lacks = {
                name: size
                for name, size in watched_shapes(k).items()
                if again
                or sources.get(SanitizerRun.key_of(kernel=k.name, shape=name, check=check)) != now
            }
            if lacks:
                out.append((k, check, lacks))
    return out


def _shapes(lacks: Sequence[Missing]) -> list[str]:
    return [f"{k.name} under {check} at {name}" for k, check, at in lacks for name in at]


def lacking(job: Job) -> Iterator[Step]:
    """Launch every kernel under every check of compute-sanitizer, the controls first.

    The processes run side by side; a step takes what one of them said. A tool that misses its
    controls is refused, and nothing of it is recorded. Raises ToolchainError where there is no
    tool, or none of them reports any fault.
    """
    chosen = checked_kernels(job)
    lacks = missing_checks(chosen, job.record, job.request.again)
    rows = sum(len(watched_shapes(k)) for k in chosen) * len(CHECKS)
    job.outcome.present += rows - len(_shapes(lacks))
    if not lacks:
        job.say(f"compute-sanitizer: all {rows} rows are in {job.record.path} already")
        return
    tool = sanitizer.tool_path()
    stamp = {**job.stamp, "sanitizer": sanitizer.version(tool)}
    workers, limit = sanitizer.workers(job.request.workers), job.request.limit or LIMIT
    job.say(
        f"compute-sanitizer {stamp['sanitizer']}: {len(lacks)} processes to start, {workers} at a "
        f"time -> {job.record.path}"
    )
    with tempfile.TemporaryDirectory(prefix="tile-by-tile-") as name:
        sources = control_sources(job.arch)
        for k in {k.name: k for k, *_ in lacks}.values():
            sources[k.name] = source(k, k.source, job.arch, watched_params(k))
        cubins = sanitizer.compile_all(sources, Path(name), workers)
        controls = watch_controls(cubins, workers, limit, job.budget.left)
        job.record.data["controls"], job.record.changed = controls, True
        for c in controls:
            job.say(f"control: {c.check:10s} {c.kernel:10s} {c.why}: {c.errors} reported")
        doubted = not_believed(controls)
        job.outcome.refused += doubted.values()
        lacks = [t for t in lacks if t[1] not in doubted]

        def task(k: Kernel, check: str, shapes: Mapping[str, Size]) -> Task:
            params = watched_params(k)
            jobs = tuple(
                launched(k.name, s, params, cubins[k.name], check) for s in shapes.values()
            )
            row = {"kernel": k.name, "params": params, "check": check, "shapes": dict(shapes)}
            return Task(f"{k.name} under {check}", check, jobs, row)

        open_ = dict.fromkeys(_shapes(lacks))  # what nothing is known of yet
        waiting = [task(*t) for t in lacks]
        while waiting:
            alone: list[Task] = []
            for t, verdict in sanitizer.side_by_side(
                waiting, workers=workers, limit=limit, left=job.budget.left
            ):
                shapes = t.row["shapes"]
                if len(shapes) > 1 and not fine(verdict):  # which of them was it?
                    k = catalog[t.row["kernel"]]
                    alone += [task(k, t.check, {n: s}) for n, s in shapes.items()]
                    continue
                for shape in shapes:
                    open_.pop(f"{t.what} at {shape}", None)
                yield Step(t.what, TAKEN, partial(_keep, job, t, verdict, stamp))
            waiting = alone
        job.outcome.left += open_


def fine(verdict: Verdict) -> bool:
    """Whether a run ended as it should, with nothing reported and no wrong element."""
    wrong = any(report.get("wrong") for report in verdict.launches)
    return verdict.state == "ran" and not verdict.errors and not wrong


def _keep(job: Job, task: Task, verdict: Verdict, stamp: Mapping[str, Any]) -> Done:
    """Put what a run said into the record, a row for each shape.

    Raises DataError for an unknown log.
    """
    if verdict.state == "unknown":
        raise DataError(verdict.log)
    shapes: Mapping[str, Size] = task.row["shapes"]
    for at, (shape, size) in enumerate(shapes.items()):
        report = verdict.launches[at] if at < len(verdict.launches) else {}
        row = SanitizerRun(
            kernel=task.row["kernel"], params=dict(task.row["params"]), shape=shape, **named(size),
            check=task.check, state=verdict.state, errors=verdict.errors, summary=verdict.summary,
            first=verdict.first, wrong=report.get("wrong"), seconds=verdict.seconds,
            source=rungs.fingerprint(task.row["kernel"]), recorded=dict(stamp),
        )  # fmt: skip
        job.record.merge(row, "rows")
    ran = verdict.state == "ran"
    text = f"{verdict.errors} errors" if ran else f"{verdict.state}, {verdict.errors} errors"
    if not fine(verdict):
        why = verdict.first or last_line(verdict.log)
        job.outcome.faults.append(f"{task.what} at {', '.join(shapes)}: {text}. {why}")
    return Done(f"at {', '.join(shapes)}: {text} ({verdict.seconds:.1f} s)", count=len(shapes))


def last_line(log: str) -> str:
    """The last line of a program's output, without folders: what a traceback ends in."""
    lines = [line for line in log.strip().splitlines() if not line.startswith("@ ")]
    return sanitizer.without_folders(lines[-1])[:300] if lines else ""


def planned(job: Job) -> Iterator[tuple[str, float]]:
    """How many processes a run would start, and about how long they take."""
    lacks = missing_checks(checked_kernels(job), job.record, job.request.again)
    if lacks:
        count, workers = len(lacks) + len(CONTROLS), sanitizer.workers(job.request.workers)
        seconds = 10 + START_SECONDS * cdiv(count, workers)
        yield f"compute-sanitizer in {count} processes, {workers} at a time", seconds


SECTIONS = (
    Section(
        SanitizerRun, lacking, "sanitizer", rank=91, kind="sanitizer", file="sanitizer.json",
        write_every=WRITE_EVERY, plan=planned,
    ),
)  # fmt: skip
