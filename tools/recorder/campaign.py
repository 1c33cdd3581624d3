"""The campaign: fill the sections of a GPU's record that a request names, step by step, within its
time.

One loop for points, sweeps, tuning, checks and counters. What is in a file already, measured with
the code as it is now, is not measured again, so a campaign that was cut off goes on where it
stopped.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from helpers.ladder.rungs import catalog
from helpers.record import store
from helpers.record.gpu import BASELINES
from helpers.record.protocol import PROTOCOL
from helpers.record.stamps import commit, gpu_facts, slug, stamp
from helpers.record.store import Record
from nogpu import device, toolchain
from nogpu.errors import (
    ConfigError,
    GpuFaultError,
    NoGPUError,
    TileError,
    UnknownKernelError,
    near_matches,
)
from tools.recorder import sections
from tools.recorder.session import RecordingSession
from tools.recorder.steps import Budget, Done, Job, Outcome, Request, Section, Step


def gpu_key(live: device.LiveGpu, name: str | None) -> str:
    """The record's name for the GPU at hand. Raises ConfigError if another GPU's name is given."""
    known = live.known
    own = known.key if known else slug(live.name)
    if name is not None and name in device.TABLED and name != own:
        raise ConfigError(
            f"--gpu {name} was asked for, and this machine has a {live.name}: its times would "
            f"stand under the wrong name. Use --gpu {own}, or leave --gpu out"
        )
    if name is not None and not re.fullmatch(r"[a-z0-9_]+", name):
        raise ConfigError(f"--gpu {name!r}: use lower-case letters, digits and _ (a file name)")
    return name or own


def check_names(wanted: Sequence[str]) -> None:
    """Raise UnknownKernelError, with near matches, unless each is a kernel or a baseline."""
    known = [*BASELINES, *catalog]
    for name in wanted:
        if name not in known:
            raise UnknownKernelError(f"no kernel is called {name!r}. {near_matches(name, known)}")


def require_gpu() -> device.LiveGpu:
    """The GPU at hand. Raises NoGPUError, saying what to do, before anything is read or written."""
    live = device.current()
    if live is None:
        raise NoGPUError(
            "recording needs an NVIDIA GPU, its driver and CuPy, and none answers on this machine. "
            "Nothing was written. Run the same command on one (in Colab: Runtime, Change runtime "
            "type, T4 GPU), or see what is recorded with: python -m helpers ladder --gpu h200"
        )
    return live


def begun(path: Path, key: str) -> Record | None:
    """The record to go on with: the file at path, else the book's own of this GPU, else None."""
    for there in (path, store.FOLDER / f"{key}.json"):
        if there.exists():
            record = store.read(there)
            record.path, record.changed = path, there != path
            return record
    return None


# -- the loop --------------------------------------------------------------------------------------


def run(
    request: Request, say: Callable[[str], None] = print, started: float | None = None
) -> Outcome:
    """Measure what a request asks for and merge it into its files.

    started: by time.monotonic, where its time counts from; default now. Raises NoGPUError,
    DataError (a file that is there is damaged), ConfigError, UnknownKernelError, ToolchainError,
    GpuFaultError (the GPU stopped). A step that is wrong or impossible is listed in the outcome,
    and the others go on.
    """
    key = gpu_key(require_gpu(), request.gpu)
    check_names([*request.kernels, *request.skip_above])
    budget = Budget(time.monotonic() if started is None else started, request.seconds)
    path, begun_record = _measurements(
        request, key
    )  # a damaged file is told before the GPU is opened
    session = RecordingSession()
    measured = _of_this_gpu(begun_record, path, session) if path else None
    chosen = _chosen(request, measured)
    note: dict[str, Any] = stamp(session.versions(), commit(request.commit))
    outcome = Outcome(path or request.out or store.VALIDATION)
    say(
        f"{session.gpu.name}, driver {note['driver']}, CUDA {note['cuda']}, cuBLAS "
        f"{note['cublas']}, NVRTC {note['nvrtc']}, commit {note['commit']} -> {outcome.path}"
    )
    for section in chosen:
        record = _record_of(section, request, key, measured)
        budget.learn_from(record)
        job = Job(request, record, session.gpu.arch, session.supports, budget, outcome)
        job.stamp = {**note, "gpu": session.gpu.name} if section.kind else note
        job.opened, job.say = session, say
        _take(section, job)
    if measured is not None and measured.changed:
        measured.write()
    return outcome


def _measurements(request: Request, key: str) -> tuple[Path | None, Record | None]:
    """Where the measurement file lies, and what is in it; nothing where none is asked for."""
    if request.sections and all(_section(name).kind for name in request.sections):
        return None, None
    path = request.out or store.FOLDER / f"{key}.json"
    return path, begun(path, key)


def _section(name: str) -> Section:
    if name not in sections.ALL:
        known = near_matches(name, sections.ALL)
        raise ConfigError(f"no section of a record is called {name!r}. {known}")
    return sections.ALL[name]


def _chosen(request: Request, measured: Record | None) -> list[Section]:
    """The sections that were asked for, or are to be finished, in order."""
    wanted = {_section(name).title for name in request.sections}
    if request.finish and measured is not None:
        wanted |= {name for name in sections.OPTIONS if measured.data[name]}
    return [section for name, section in sections.ALL.items() if name in wanted]


def _of_this_gpu(record: Record | None, path: Path, session: RecordingSession) -> Record:
    """The record with the facts of the GPU at hand, or an empty one.

    Raises ConfigError for another's.
    """
    if record is None:
        return store.empty(path, gpu_facts(session), PROTOCOL)
    if record.gpu["name"] != session.gpu.name:
        raise ConfigError(
            f"{path} holds times of a {record.gpu['name']}, and this machine has a "
            f"{session.gpu.name}: give another file with --out"
        )
    record.set_head(gpu=gpu_facts(session), protocol=PROTOCOL)
    return record


def _record_of(section: Section, request: Request, key: str, measured: Record | None) -> Record:
    """The file of a section, to go on with. --out names one of measurements, a folder of others."""
    if measured is not None and not section.kind:
        return measured
    folder = request.out or store.VALIDATION
    return store.start_validation(folder / section.file.format(key), section.kind)


def _take(section: Section, job: Job) -> None:
    """Take the steps that a section lacks, as far as the time goes; a failure stops no other."""
    wrote = time.monotonic()
    try:
        with closing(section.lacking(job)) as steps:  # type: ignore[type-var]
            for step in steps:
                if not job.budget.allows(step.seconds):
                    job.outcome.left += step.rest() if step.rest else [step.what]
                    if step.rest:
                        break
                    continue
                _try(step, job)
                if time.monotonic() - wrote >= section.write_every:
                    job.record.write()
                    wrote = time.monotonic()
    finally:
        if job.record.changed:
            job.record.write()


def _try(step: Step, job: Job) -> None:
    """Run one step, count what came of it and say so. Raises GpuFaultError."""
    head = step.head or f"{step.what}:"
    try:
        done = step.run()
    except TileError as fault:
        text = " ".join(str(fault).split())
        line = text if text.startswith(step.what) else f"{step.what}: {text}"
        job.outcome.refused.append(line)
        job.say(f"{head} REFUSED: {fault}")
        if isinstance(fault, GpuFaultError):
            raise
        return
    if isinstance(done, Done):
        setattr(job.outcome, done.tally, getattr(job.outcome, done.tally) + done.count)
    job.say(f"{head} {done.text if isinstance(done, Done) else done}")


def planned(request: Request) -> list[tuple[str, float]]:
    """What a campaign would measure on the GPU that a record names, and seconds for each, by
    estimate.

    Needs no GPU: whose record it is says request.gpu, or is the H200. Raises the errors of `run`.
    """
    key = request.gpu or "h200"
    check_names([*request.kernels, *request.skip_above])
    path, measured = _measurements(request, key)
    if path is not None and measured is None:
        measured = store.empty(path, {"name": key, "arch": device.gpu(key).arch})
    arch = measured.gpu["arch"] if measured else device.gpu(key).arch
    budget = Budget(0.0, None)

    def supports(least: str) -> bool:
        return toolchain.runs(arch, least)

    def steps(section: Section) -> Iterator[tuple[str, float]]:
        record = _record_of(section, request, key, measured)
        budget.learn_from(record)
        job = Job(request, record, arch, supports, budget, Outcome(record.path))
        if section.plan is not None:
            return section.plan(job)
        return ((step.what, step.seconds) for step in section.lacking(job))

    return [step for section in _chosen(request, measured) for step in steps(section)]


# -- tuning: two campaigns -------------------------------------------------------------------------


def tune(request: Request, say: Callable[[str], None] = print) -> Outcome:
    """Confirm tiles: of a size the best of a sweep, which goes before (what is in the file is not
    timed again); of the ragged shapes the chosen ones.

    The last fifth of the time is for confirming. Raises as `run`.
    """
    started = time.monotonic()
    if request.sections == ("tuned",):
        share = None if request.seconds is None else 0.8 * request.seconds
        run(replace(request, sections=("sweep",), seconds=share, again=False), say, started)
    return run(request, say, started)
