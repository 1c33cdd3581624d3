"""One measured point: a kernel of the catalog, or cuBLAS itself, at one size, under the protocol."""

from __future__ import annotations

import hashlib
import os
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.errors import ConfigError
from helpers.kernel import KERNELS, ROOT, Geometry, Kernel, geometry
from helpers.measuring import protocol
from helpers.measuring.gpu import BASELINES
from helpers.measuring.protocol import Effort
from helpers.measuring.schema import Point
from helpers.rungs import find

if TYPE_CHECKING:
    from helpers.measuring.gpu import Session
    from helpers.measuring.telemetry import Telemetry

PRECISION: Mapping[str, str] = {
    "float32": "fp32",
    "int32": "int32",
    "float16": "fp16",
    "bfloat16": "bf16",
}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'#include\s+"([^"]+)"')


def fingerprint(kernel: Kernel | str) -> str:
    """Short hash of a kernel's code and of our headers that it includes; comments do not count.

    A point keeps it, so that a figure measured with other code than the file now holds is known.
    """
    k, seen, texts = find(kernel), set(), []
    queue = [k.source]
    while queue:
        text = queue.pop()
        texts.append(" ".join(_COMMENT.sub(" ", text).split()))
        for name in _INCLUDE.findall(text):
            path = KERNELS / name
            if name not in seen and path.is_file():
                seen.add(name)
                queue.append(path.read_text(encoding="utf-8"))
    texts.append(repr(sorted(k.defines.items())))
    if k.text is not None:
        texts.append("a reader's own")  # never taken for what a record holds
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:12]


def commit(given: str | None = None) -> str:
    """The commit that is measured: as given, TILE_COMMIT, or git's; "unknown" where none says."""
    told = given or os.environ.get("TILE_COMMIT")
    if told:
        return told
    try:
        git = ["git", "-C", str(ROOT)]
        head = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        )
        dirty = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("-dirty" if dirty.stdout.strip() else "")


def stamp(versions: Mapping[str, str | None], commit_id: str) -> dict[str, str | None]:
    """Where a number comes from: date (UTC), commit and versions."""
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "commit": commit_id, **versions}


def point(
    session: Session,
    telemetry: Telemetry,
    kernel: Kernel | str,
    M: int,
    N: int,
    K: int,
    *,
    effort: Effort | None = None,
    recorded: Mapping[str, Any],
    rng: np.random.Generator | None = None,
    params: Mapping[str, int] | None = None,
) -> Point:
    """Measure one kernel (with tile sizes `params`) or baseline ("cublas_fp32") at one size.

    Raises a TileError, and nothing is recorded, if the result is wrong, the rate impossible or the
    launch illegal; GpuFaultError if the GPU will not answer this process again.
    """
    name = kernel if isinstance(kernel, str) else kernel.name
    effort = effort or protocol.RECORD
    with session.faults(f"{name} at {M}x{N}x{K}"):
        if isinstance(kernel, str) and kernel in BASELINES:
            return _baseline_point(session, telemetry, kernel, M, N, K, effort, recorded, rng)
        p = geometry(find(kernel), M, N, K, **(params or {}))
        return _kernel_point(session, telemetry, p, effort, recorded, rng)


def _kernel_point(
    session: Session,
    telemetry: Telemetry,
    p: Geometry,
    effort: Effort,
    recorded: Mapping[str, Any],
    rng: np.random.Generator | None,
) -> Point:
    k, M, N, K = p.kernel, p.M, p.N, p.K
    if not session.supports(k.min_arch):
        raise ConfigError(f"{k.name} needs {k.min_arch} or later; this GPU is {session.gpu.arch}")
    problem = session.problem(k.dtype, M, N, K)
    C = session.output(k.out_dtype, M, N)
    first_ms = session.first_call(p, problem.A, problem.B, C)
    what = f"{k.name} at {M}x{N}x{K}"
    worst, ratio = session.error(problem, C, k.out_dtype)
    protocol.refuse_wrong(ratio, what, worst, problem.checked)

    run = session.kernel_operation(p, problem.A, problem.B, C)
    operations: dict[str, Callable[[], None]] = {"kernel": run}
    baseline = k.baseline if k.baseline in BASELINES else None
    if baseline and session.supports(BASELINES[baseline].min_arch):
        D = session.output(k.out_dtype, M, N)
        operations["baseline"] = session.baseline_operation(
            baseline, problem.A, problem.B, D, k.out_dtype
        )
    timed = protocol.paired(
        session.bench(operations),
        "kernel",
        "baseline" if "baseline" in operations else None,
        effort=effort,
        rng=rng,
        estimate_ms=first_ms if first_ms > 3 * effort.slow_ms else None,
        before=lambda: session.poison(C, k.out_dtype),
    )
    worst, ratio = session.error(problem, C, k.out_dtype)
    protocol.refuse_wrong(
        ratio, f"{what}, after {timed.ms.count} timed samples,", worst, problem.checked
    )
    serial = [session.serial_run(problem, run, C) for _ in range(_runs(timed, effort))]
    entry = {
        "kernel": k.name,
        "params": dict(p.params),
        "dtype": k.dtype,
        "baseline": baseline or "none",
        "first_ms": first_ms,
        "source": fingerprint(k),
        "max_error": worst,
        "error_over_tolerance": ratio,
        "checked": problem.checked,
    }
    return _complete(
        session, telemetry, entry, PRECISION[k.dtype], (M, N, K), timed, serial, recorded
    )


def _runs(timed: protocol.Paired, effort: Effort) -> int:
    return 1 if timed.ms.median >= effort.slow_ms else 3


def _baseline_point(
    session: Session,
    telemetry: Telemetry,
    name: str,
    M: int,
    N: int,
    K: int,
    effort: Effort,
    recorded: Mapping[str, Any],
    rng: np.random.Generator | None,
) -> Point:
    """cuBLAS timed against itself: the ratio should be 1, and its spread is the protocol's noise."""
    b = BASELINES[name]
    problem = session.problem(b.dtype, M, N, K)
    C, D = session.output("float32", M, N), session.output("float32", M, N)
    run = session.baseline_operation(name, problem.A, problem.B, C)
    again = session.baseline_operation(name, problem.A, problem.B, D)
    timed = protocol.paired(
        session.bench({"kernel": run, "baseline": again}),
        "kernel",
        "baseline",
        effort=effort,
        rng=rng,
        before=lambda: session.poison(C, "float32"),
    )
    worst, ratio = session.error(problem, C, "float32", b.input_roundoff)
    protocol.refuse_wrong(ratio, f"{b.title} at {M}x{N}x{K}", worst, problem.checked)
    serial = [session.serial_run(problem, run, C) for _ in range(_runs(timed, effort))]
    entry: dict[str, Any] = {
        "kernel": name,
        "params": {},
        "dtype": b.dtype,
        "baseline": name,
        "first_ms": None,
        "source": None,
        "max_error": worst,
        "error_over_tolerance": ratio,
        "checked": problem.checked,
    }
    return _complete(session, telemetry, entry, b.precision, (M, N, K), timed, serial, recorded)


def _complete(
    session: Session,
    telemetry: Telemetry,
    entry: dict[str, Any],
    precision: str,
    size: tuple[int, int, int],
    timed: protocol.Paired,
    serial: list[dict[str, float]],
    recorded: Mapping[str, Any],
) -> Point:
    M, N, K = size
    peak, what = session.peak_gflops(precision), f"{entry['kernel']} at {M}x{N}x{K}"
    rate = protocol.gflops(M, N, K, timed.ms.median)
    protocol.refuse_above_peak(what, rate, peak)
    if timed.baseline_ms is not None:
        other = protocol.gflops(M, N, K, timed.baseline_ms.median)
        protocol.refuse_above_peak(f"{entry['baseline']} beside {what}", other, peak)
    reading = telemetry.between(timed.started, timed.ended)
    ratio = timed.ratio
    return {
        "kernel": entry.pop("kernel"),
        "params": entry.pop("params"),
        "m": M,
        "n": N,
        "k": K,
        "ms": timed.ms.median,
        "q1": timed.ms.q1,
        "q3": timed.ms.q3,
        "gflops": rate,
        "pairs": timed.ms.count,
        "repeat": timed.repeat,
        "baseline_ms": timed.baseline_ms.median if timed.baseline_ms else None,
        "cublas_ratio": ratio.median if ratio else None,
        "ratio_q1": ratio.q1 if ratio else None,
        "ratio_q3": ratio.q3 if ratio else None,
        **{name: statistics.median(run[name] for run in serial) for name in serial[0]},
        "clock_mhz": reading.clock_mhz,
        "power_w": reading.power_w,
        "clock_note": reading.reason,
        **entry,
        "recorded": dict(recorded),
    }


def describe(entry: Point) -> str:
    """One line of progress for a point."""
    rate, ratio = entry["gflops"] / 1e3, entry["cublas_ratio"]
    unit = "Top/s" if entry["dtype"] == "int32" else "TFLOP/s"
    text = f"{entry['ms']:10.4g} ms {rate:8.3g} {unit}"
    if ratio is not None:
        text += f" {100 * ratio:6.1f} % of {entry['baseline']}"
    return text
