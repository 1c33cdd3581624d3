"""Hardware counters of single launches, read by Nsight Compute (ncu) in a process of its own."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from helpers.ladder.kernel import ROOT, geometry
from helpers.ladder.rungs import find
from helpers.record.ncu import ISSUE, METRICS, OPTIONAL, STALLS
from nogpu.errors import DataError, ToolchainError


@dataclass(frozen=True)
class Counters:
    """A set of counters to read together: ours -> ncu's. required: their absence is an error."""

    required: Mapping[str, str]
    optional: Mapping[str, str]


TRAFFIC = Counters(METRICS, OPTIONAL)
WAITING = Counters(ISSUE, STALLS)


@dataclass(frozen=True)
class Job:
    """One launch to count: a kernel of the catalog at a shape."""

    kernel: str
    M: int
    N: int
    K: int
    params: Mapping[str, int] = field(default_factory=dict)


def command(jobs: Sequence[Job], job_file: Path, metrics: Sequence[str], tool: str) -> list[str]:
    """The ncu command line: one process, every job launched once, only our kernels profiled.

    --clock-control none leaves the clocks alone; counts do not depend on them.
    """
    entries = sorted({find(job.kernel).entry for job in jobs})
    kernels = f"regex:^({'|'.join(map(re.escape, entries))})$"
    leave_alone = ["--clock-control", "none", "--target-processes", "all"]
    what = ["--metrics", ",".join(metrics), "--kernel-name", kernels, "--csv"]
    program = [sys.executable, "-m", "tools.recorder.launcher", str(job_file)]
    return [tool, *leave_alone, *what, "--print-units", "base", *program]


def parse(text: str) -> list[tuple[str, dict[str, float]]]:
    """ncu's CSV output: for each profiled launch, in order, the kernel's name and metric -> value.

    Lines before the table (==PROF== and what the program printed) are skipped. Raises DataError if
    there is no table.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise DataError(f"ncu printed no table of counters. It said:\n{text.strip()[-2000:]}")
    launches: dict[str, tuple[str, dict[str, float]]] = {}
    table = [line for line in lines[start:] if line.startswith('"')]
    for row in csv.DictReader(io.StringIO("\n".join(table))):
        name = row["Kernel Name"].split("(")[0].split("<")[0].strip()
        values = launches.setdefault(row["ID"], (name, {}))[1]
        try:
            values[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
        except ValueError:  # "n/a": this GPU does not count it
            continue
    return list(launches.values())


def assign(
    jobs: Sequence[Job],
    launches: Sequence[tuple[str, Mapping[str, float]]],
    what: Counters = TRAFFIC,
) -> list[dict[str, float]]:
    """Counters of each job under our names. Raises DataError unless the launches are the jobs'."""
    wanted = [find(job.kernel).entry for job in jobs]
    profiled = [name for name, _ in launches]
    if profiled != wanted:
        raise DataError(
            f"ncu profiled {len(profiled)} launches ({', '.join(profiled[:5])} ...), and the jobs"
            f" are {len(wanted)} ({', '.join(wanted[:5])} ...): they cannot be told apart"
        )
    names = {metric: name for name, metric in {**what.required, **what.optional}.items()}
    counted = [
        {names[metric]: value for metric, value in values.items() if metric in names}
        for _, values in launches
    ]
    for job, values in zip(jobs, counted, strict=True):
        absent = [name for name in what.required if name not in values]
        if absent:
            raise DataError(
                f"ncu gave no value of {', '.join(absent)} for {job.kernel}; the GPU may not allow "
                "its counters to be read (see ERR_NVGPUCTRPERM in NVIDIA's documentation)"
            )
    return counted


def tool_path() -> str:
    """The path of ncu. Raises ToolchainError where there is none."""
    path = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if not path:
        raise ToolchainError(
            "hardware counters need Nsight Compute, and ncu is not on the PATH. Install it with the"
            " CUDA toolkit, or record without --counters"
        )
    return path


def version(tool: str) -> str | None:
    """ncu's version, such as "2025.3.1.0"."""
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"Version (\S+)", done.stdout)
    return match[1] if match else None


def _refused(what: Counters, output: str) -> dict[str, str]:
    """The optional counters that are left after a refusal: without those it names, or none."""
    named = {
        n for n, metric in what.optional.items() if re.search(rf"{re.escape(metric)}\b", output)
    }
    return {n: m for n, m in what.optional.items() if n not in named} if named else {}


def count(
    jobs: Sequence[Job], seconds: float = 300.0, what: Counters = TRAFFIC
) -> list[dict[str, float]]:
    """Run every job once under ncu on this machine's GPU and return its counters, in order.

    Optional counters that ncu refuses by name are left out, all of them if it names none. Raises
    ToolchainError where ncu is missing or fails, DataError if its output is not as expected.
    """
    tool = tool_path()
    for job in jobs:  # an illegal launch is an error here, not in the profiled process
        geometry(find(job.kernel), job.M, job.N, job.K, **job.params)
    environment = {**os.environ, "PYTHONPATH": _python_path()}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jobs.json"
        file.write_text(json.dumps([asdict(job) for job in jobs]), encoding="utf-8")
        optional: Mapping[str, str] | None = what.optional
        while optional is not None:
            line = command(jobs, file, [*what.required.values(), *optional.values()], tool)
            try:
                done = subprocess.run(
                    line, capture_output=True, text=True, timeout=seconds, cwd=ROOT,
                    env=environment, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired as late:
                raise ToolchainError(
                    f"ncu did not finish {len(jobs)} launches in {seconds:.0f} s; count fewer"
                ) from late
            if done.returncode == 0 and '"ID"' in done.stdout:
                return assign(jobs, parse(done.stdout), what)
            output = done.stdout + done.stderr
            optional = _refused(Counters(what.required, optional), output) if optional else None
    raise ToolchainError(f"ncu failed (exit {done.returncode}). It said:\n{output.strip()[-3000:]}")


def _python_path() -> str:
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(ROOT), *([inherited] if inherited else [])])
