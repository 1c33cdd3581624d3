"""How fast the emulator is, beside two others: taskset -c 0 python -m tools.bench_engines

All run the same algorithm on one core, a shared-memory tile of 16x16 on float32: the emulator the
unmodified 06_tiled.cu with race detection and full traces; Numba's CUDA simulator the kernel below,
which it interprets thread by thread and checks for nothing; Oclgrind, which interprets LLVM's code,
tiled.cl with its checks of races, bounds and initialisation. Each result is compared with NumPy's.
Seconds are processor time, so that other programs on the machine disturb little; what is not the
kernel's own (compiling, reading the data) is taken off.

Needs numba (pip install '.[bench]') and oclgrind (apt-get install oclgrind); one that is not
installed is left out, and the command says so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from importlib import metadata, util
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402 - threads are set before NumPy starts

from helpers import trace  # noqa: E402
from helpers.ladder.kernel import ROOT  # noqa: E402
from helpers.record.host import cpu_name  # noqa: E402

TILE = 16
NUMBA_EDGE, OCLGRIND_EDGE, EDGE = 48, 128, 256
ANALYSED = (256, 512)
"""Edges whose time and memory with full analysis are recorded."""
OCLGRIND_CHECKS = ("--data-races", "--uninitialized")
REPEATS = 3


def simulated(n: int) -> tuple[float, float]:
    """Seconds and largest error of an n x n x n product in Numba's CUDA simulator."""
    global cuda, float32  # the simulator swaps its own `cuda` into a kernel's globals
    from numba import cuda, float32

    @cuda.jit
    def tiled(a: Any, b: Any, c: Any) -> None:
        a_tile = cuda.shared.array((TILE, TILE), float32)
        b_tile = cuda.shared.array((TILE, TILE), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        col, row = cuda.grid(2)
        total = float32(0.0)
        for k0 in range(0, a.shape[1], TILE):
            a_tile[ty, tx] = a[row, k0 + tx]
            b_tile[ty, tx] = b[k0 + ty, col]
            cuda.syncthreads()
            for k in range(TILE):
                total += a_tile[ty, k] * b_tile[k, tx]
            cuda.syncthreads()
        c[row, col] = total

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    c = np.zeros((n, n), np.float32)
    started = time.process_time()
    tiled[(n // TILE, n // TILE), (TILE, TILE)](a, b, c)
    seconds = time.process_time() - started
    return seconds, float(np.abs(c - a.astype(np.float64) @ b).max())


def interpreted(
    n: int, source: str | None = None, checks: tuple[str, ...] = OCLGRIND_CHECKS
) -> tuple[float, float, int, int]:
    """Oclgrind: seconds, seconds of its start-up, wrong elements, messages; n x n x n.

    The data are whole numbers, because it prints six digits. Start-up is a run of one work-group on
    the same data: the compiler, the reading of the data and the printing of the result.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        text = source or (ROOT / "tests" / "tiled.cl").read_text(encoding="utf-8")
        (place / "tiled.cl").write_text(text, encoding="utf-8")
        rng = np.random.default_rng(0)
        a, b = (rng.integers(-9, 10, (n, n)) for _ in range(2))
        data = "\n".join(
            f"<size={4 * n * n} float>\n" + "\n".join(" ".join(map(str, row)) for row in matrix)
            for matrix in (a, b)
        )
        data += f"\n<size={4 * n * n} fill=0 dump>\n" + f"<size=4 int>\n{n}\n" * 3
        used, output = [], ""
        for edge in (TILE, n):
            sim = f"tiled.cl tiled\n{edge} {edge} 1\n{TILE} {TILE} 1\n{data}"
            (place / "tiled.sim").write_text(sim, encoding="utf-8")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = ["oclgrind-kernel", "--num-threads", "1", *checks, "tiled.sim"]
            process = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            output = process.stdout
            messages = len(
                re.findall(r"(?m)^(?:Invalid|Uninitialized|\w+-\w+ data race)", process.stderr)
            )
        values = [float(v) for v in re.findall(r"C\[\d+\] = (\S+)", output)]
        wrong = int(np.count_nonzero(np.array(values) != (a @ b).reshape(-1)))
        groups = (n // TILE) ** 2
        kernel = (used[1] - used[0]) * groups / (groups - 1)
        return kernel, used[1] - kernel, wrong, messages


def emulated(n: int) -> dict[str, float]:
    """Seconds, peak memory in bytes and faults of an n x n x n trace of tiled_16, all checks on.

    In a process of its own, for the memory; compiling and translating come before the clock.
    """
    command = [sys.executable, "-m", "tools.bench_engines", "--emulate", str(n)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(process.stdout))


def _emulate(n: int) -> dict[str, float]:
    trace("tiled_16", 32, 32, 32)
    times, faults = [], 0
    for _ in range(REPEATS):
        started = time.process_time()
        t = trace("tiled_16", n, n, n)
        times.append(time.process_time() - started)
        faults += t.wrong + len(t.report.findings)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": min(times), "peak_bytes": peak, "faults": faults}


def _row(engine: str, edge: int, seconds: float, checks: str) -> dict[str, Any]:
    rate = edge**3 / seconds
    return {"engine": engine, "edge": edge, "seconds": round(seconds, 3),
            "multiply_adds_per_second": float(f"{rate:.4g}"), "checks": checks}  # fmt: skip


def compare() -> dict[str, Any]:
    """Every engine that is installed, in multiply-adds a second; the emulator's time and memory."""
    engines, ratios, versions = [], {}, {}
    analysed = []
    for n in sorted({EDGE, *ANALYSED}):
        ours = emulated(n)
        assert not ours["faults"]
        analysed.append({"edge": n, "seconds": round(ours["seconds"], 3),
                         "peak_mib": round(ours["peak_bytes"] / 2**20)})  # fmt: skip
        if n == EDGE:
            checks = "races, bounds, initialisation, full traces"
            engines.append(_row("the emulator", n, ours["seconds"], checks))
    rate = engines[0]["multiply_adds_per_second"]
    if util.find_spec("numba"):
        runs = [simulated(NUMBA_EDGE) for _ in range(REPEATS)]
        assert max(error for _, error in runs) < 1e-4
        engines.insert(0, _row("Numba's CUDA simulator", NUMBA_EDGE, min(runs)[0], "none"))
        ratios["numba"] = float(f"{rate / engines[0]['multiply_adds_per_second']:.4g}")
        versions["numba"] = metadata.version("numba")
    else:
        print("numba is not installed: pip install '.[bench]'", file=sys.stderr)
    if shutil.which("oclgrind-kernel"):
        for checks, named in (((), "bounds"), (OCLGRIND_CHECKS, "races, bounds, initialisation")):
            found = [interpreted(OCLGRIND_EDGE, checks=checks) for _ in range(REPEATS)]
            assert all(wrong == messages == 0 for _, _, wrong, messages in found)
            seconds, start_up, _, _ = min(found)
            row = _row("Oclgrind", OCLGRIND_EDGE, seconds, named)
            engines.insert(-1, {**row, "start_up_seconds": round(start_up, 3)})
        ratios["oclgrind"] = float(f"{rate / row['multiply_adds_per_second']:.4g}")
        output = subprocess.run(["oclgrind-kernel", "--version"], capture_output=True, text=True)
        versions["oclgrind"] = output.stdout.split()[1]
    else:
        print("oclgrind is not installed: apt-get install oclgrind", file=sys.stderr)
    return {
        "cpu": cpu_name(), "date": date.today().isoformat(), "versions": versions,
        "kernel": "tiled_16", "engines": engines, "ratios": ratios, "full_analysis": analysed,
    }  # fmt: skip


def main() -> None:
    """Print the comparison, and write it where --out says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--emulate", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.emulate:
        print(json.dumps(_emulate(options.emulate)))
        return
    text = json.dumps(compare(), indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
