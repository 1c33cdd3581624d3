"""NVIDIA's compute-sanitizer: its command line, its log, and many runs of it side by side.

Each run is a process of its own, so that a kernel that faults or never ends spoils no other.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from helpers.ladder.kernel import ROOT
from nogpu import toolchain
from nogpu.errors import DataError, TileError, ToolchainError
from tools.recorder import tile_builds

PROGRAM: tuple[str, ...] = (sys.executable, "-m", "tools.recorder.launcher")
"""What launches the kernels of a job file."""
PORTS = 64
"""Ports that one run may try for the talk between the tool and the program."""
STARTUP = 60.0
"""Seconds that a program may take to reach its first launch, and to end after its last."""
_OPTIONS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "": (
        # Calls that CuPy makes only to ask what a driver can do fail by design, and are no fault.
        ("--report-api-errors", "no"),
        ("--check-exit-code", "no"),
        ("--target-processes", "all"),
        ("--launch-timeout", "120"),
        ("--show-backtrace", "device"),
        ("--print-limit", "20"),
    ),
    # An access beyond one matrix must not land in the next one.
    "memcheck": (("--padding", "1048576"),),
}
"""Options for every tool, and for one.

Where a version's --help lists options, only those are given.
"""


def tool_path() -> str:
    """The path of compute-sanitizer. Raises ToolchainError where there is none."""
    name = "compute-sanitizer"
    path = shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")
    if not path:
        raise ToolchainError(
            "checking kernels on a GPU needs compute-sanitizer, and it is not on the PATH. Install "
            "it with the CUDA toolkit"
        )
    return path


def _output_of(*line: str) -> str:
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@cache
def version(tool: str) -> str:
    """The tool's version, such as "2025.3.1.0". Raises ToolchainError if it does not say."""
    output = _output_of(tool, "--version")
    match = re.search(r"Version:?\s+(\S+)", output, re.IGNORECASE)
    if not match:
        raise ToolchainError(f"{tool} does not say its version. It said:\n{output.strip()[-1000:]}")
    return match[1]


@cache
def _offered(tool: str) -> frozenset[str]:
    """The options that a tool's help lists; none where it lists nothing that we know."""
    options = frozenset(re.findall(r"--[a-z][a-z-]+", _output_of(tool, "--help")))
    return options if "--tool" in options else frozenset()


def command(tool: str, check: str, job_file: Path, slot: int = 0) -> list[str]:
    """The command line of one check. slot: which of the runs side by side; with its own ports."""
    ports = (("--port", str(49152 + PORTS * slot)), ("--max-connections", str(PORTS)))
    chosen = [
        word
        for option in (*_OPTIONS[""], *_OPTIONS.get(check, ()), *ports)
        if not _offered(tool) or option[0] in _offered(tool)
        for word in option
    ]
    return [tool, "--tool", check, *chosen, *PROGRAM, str(job_file)]


# -- reading a log ---------------------------------------------------------------------------------

_ERRORS = re.compile(r"^=+ ERROR SUMMARY: (\d+) errors?\s*$", re.MULTILINE)
_RACES = re.compile(
    r"^=+ RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?, (\d+) warnings?\)",
    re.MULTILINE,
)
_MESSAGE = re.compile(
    r"^=+ ((?:Invalid|Misaligned|Uninitialized|Barrier error|Deadlock detected|Host API"
    r" (?:uninit|memory)"
    r"|(?:Error: |Warning: )?(?:Race reported|(?:\(Warp Level Programming\) )?Potential)"
    r"|Hardware|Fatal|Kernel hit)[^\n]*)"
    r"(?:\n=+ +(at [^\n]*))?",
    re.MULTILINE,
)
_BROKEN = re.compile(
    r"^=+ [^\n]*(Internal Sanitizer Error|[Dd]evice not supported|first instrumented API call"
    r"|No attachable process|[Uu]nable to find injection|Failed to"
    r" (?:initialize|connect)|timed-out)",
    re.MULTILINE,
)
_FOLDERS = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+")


def read_log(text: str, check: str) -> tuple[int, str]:
    """Errors (racecheck: hazards of any severity) that a log reports, and its summary line.

    Raises DataError, with the text, if the log is not one of a run that the tool watched to its
    end.
    """
    if broken := _BROKEN.search(text):
        raise DataError(
            f"{check} did not watch the program ({broken[1]!r}). It said:\n{_end(text)}"
        )
    summaries = list((_RACES if check == "racecheck" else _ERRORS).finditer(text))
    if len(summaries) != 1:
        raise DataError(
            f"the log of {check} has {len(summaries)} summaries of the known form. It"
            f" says:\n{_end(text)}"
        )
    summary = summaries[0][0].lstrip("= ").strip()
    if check == "racecheck":
        hazards = max(int(summaries[0][1]), int(summaries[0][2]) + int(summaries[0][3]))
        return hazards, summary
    return int(summaries[0][1]), summary


def first_message(text: str) -> str:
    """What the log's first report says and where, with no folder of this machine in it; or ""."""
    match = _MESSAGE.search(text)
    if not match:
        return ""
    words = " ".join(part.strip() for part in match.groups() if part)
    return without_folders(words)[:300]


def without_folders(text: str) -> str:
    """The text with the folders of every path in it left out: they say nothing elsewhere."""
    return _FOLDERS.sub("", text)


def _end(text: str) -> str:
    return text.strip()[-3000:]


# -- compiling before the GPU waits ----------------------------------------------------------------

Source = tuple[str, str, str, Mapping[str, str]]
"""Text, file name, architecture and macros of a kernel to compile."""


def _compile(source: Source, path: str) -> str:
    """Compile to a file, in a worker process; the error, or ""."""
    text, name, arch, defines = source
    try:
        cubin = toolchain.compile(text, name=name, arch=arch, defines=defines).cubin
    except TileError as fault:
        return str(fault)
    Path(path).write_bytes(cubin)
    return ""


def compile_all(
    sources: Mapping[str, Source],
    folder: Path,
    count: int,
    pool: Callable[[int], Executor] = tile_builds.pool,
) -> dict[str, Path]:
    """Compile kernels side by side into a folder: name -> file.

    Raises ToolchainError on a refusal.
    """
    paths = {name: folder / f"{i}.cubin" for i, name in enumerate(sources)}
    with pool(min(count, max(1, len(sources)))) as executor:
        faults = executor.map(_compile, sources.values(), map(str, paths.values()), chunksize=4)
        for name, fault in zip(sources, faults, strict=True):
            if fault:
                raise ToolchainError(f"{name} does not compile: {fault}")
    return paths


# -- running ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """One process to run: launches, with a check of compute-sanitizer watching, or with none ("").

    jobs: what tools.recorder.launcher is told. what: for messages. row: the caller's note of what
    it is."""

    what: str
    check: str
    jobs: tuple[Mapping[str, Any], ...] = field(repr=False)
    row: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Verdict:
    """What came of a task.

    state: "ran", the program ended as it should; "stopped", it died on the way; "not finished", a
    launch did not end in its time; "unknown", the log is not one that we know; "cut", there was no
    time left. errors and summary: as `read_log`; a task with no check has none. launches: what the
    program said of each launch. log: all that was said, for messages.
    """

    state: str
    errors: int = 0
    summary: str = ""
    first: str = ""
    launches: tuple[Mapping[str, Any], ...] = ()
    seconds: float = 0.0
    log: str = field(default="", repr=False)


def reported(text: str) -> list[dict[str, Any]]:
    """The lines "@ {...}" that tools.recorder.launcher prints, one a launch, among other output."""
    return [json.loads(line[2:]) for line in text.splitlines() if line.startswith("@ {")]


def judge(text: str, check: str, status: int | None, launches: int) -> Verdict:
    """The verdict on a run by its output. status: of its end; None if it had to be killed."""
    launched = tuple(row for row in reported(text) if not {"done", "late"} & set(row))
    whole = any(row.get("done") == launches for row in reported(text))
    first = first_message(text) if check else ""
    if status is None or any("late" in row for row in reported(text)):
        # Killed: no summary, but what was reported until then was reported.
        count = len(_MESSAGE.findall(text)) if check else 0
        return Verdict("not finished", count, "", first, launched, log=text)
    errors, summary = 0, ""
    if check:
        try:
            errors, summary = read_log(text, check)
        except DataError as fault:
            return Verdict("unknown", 0, "", first, launched, log=str(fault))
    state = "ran" if whole and (status == 0 or errors) else "stopped"
    return Verdict(state, errors, summary, first, launched, log=text)


def run(task: Task, slot: int, limit: float, seconds: float) -> Verdict:
    """Run one task. limit: seconds from its first launch after which it counts as endless. seconds:
    those that are left for the whole run."""
    with tempfile.TemporaryDirectory(prefix="tile-by-tile-") as name:
        folder, allowed = Path(name), limit + STARTUP
        jobs = [dict(job) for job in task.jobs]
        file, log = folder / "jobs.json", folder / "log"
        file.write_text(json.dumps({"jobs": jobs, "limit": limit}), encoding="utf-8")
        line = [*PROGRAM, str(file)]
        if task.check:
            line = command(tool_path(), task.check, file, slot)
        started = time.monotonic()
        status = _wait(line, log, max(0.0, min(allowed, seconds)))
        spent = time.monotonic() - started
        text = log.read_text(encoding="utf-8", errors="replace")
    if status is None and seconds < allowed:
        return Verdict("cut", seconds=spent, log=text)
    return replace(judge(text, task.check, status, len(jobs)), seconds=spent)


def _wait(line: Sequence[str], log: Path, seconds: float) -> int | None:
    """Exit status of a command, its output in a file; None if it had to be killed."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **one_thread, "PYTHONPATH": os.pathsep.join(path)}
    with log.open("wb") as out:
        process = subprocess.Popen(
            line,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env=environment,
            start_new_session=True,  # the tool and the program that it started end together
        )
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=STARTUP)  # a driver may take its time to end a busy kernel


def side_by_side(
    tasks: Iterable[Task], *, workers: int, limit: float, left: Callable[[], float],
    do: Callable[[Task, int, float, float], Verdict] = run,
) -> Iterator[tuple[Task, Verdict]]:  # fmt: skip
    """Run tasks, `workers` at a time, and yield each with its verdict as it ends.

    limit: see `run`. left: seconds until none may still run; tasks that find too few of them are
    not begun, and one that is cut short is not yielded.
    """
    slots: queue.SimpleQueue[int] = queue.SimpleQueue()
    for slot in range(workers):
        slots.put(slot)
    typical, done = 2.0, 0

    def one(task: Task) -> Verdict:
        slot = slots.get()
        try:
            return do(task, slot, limit, left())
        finally:
            slots.put(slot)

    rest = iter(tasks)
    with ThreadPoolExecutor(workers) as pool:
        waiting: dict[Future[Verdict], Task] = {}
        while True:
            while len(waiting) < workers and left() > 2 * typical:
                task = next(rest, None)
                if task is None:
                    break
                waiting[pool.submit(one, task)] = task
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                task, verdict = waiting.pop(future), future.result()
                if verdict.state != "cut":
                    done += 1
                    typical += (verdict.seconds - typical) / min(done, 50)
                    yield task, verdict


def workers(wanted: int | None) -> int:
    """How many runs side by side: as asked, or three quarters of the cores, at most 12."""
    return wanted or max(1, min(12, 3 * (os.cpu_count() or 2) // 4))
