"""The product on the CPU: three C++ loop orders, compiled where there is a compiler, and NumPy."""

import ctypes
import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from helpers.ladder.kernel import KERNELS, ROOT
from helpers.record import protocol, store
from helpers.record.entries import HostTime
from helpers.record.selection import size_of
from nogpu import disk
from nogpu.errors import (
    CompileError,
    DataError,
    ToolchainError,
)

SOURCE = KERNELS / "03_cpu_loops.cpp"
ORDERS = ("ijk", "ikj", "jki")
"""Loop orders of 03_cpu_loops.cpp, outermost loop first."""
OPTIMISED, UNOPTIMISED = "-O3", "-O0"
COMPILERS = ("g++", "c++", "clang++")
EFFORT = protocol.Effort(pairs=3, max_pairs=20, seconds=0.3, warm_ms=0.0, slow_ms=300.0)

SLOW_SECONDS = 3.0
"""No further run of a loop is started after this long: a page has to be built meanwhile."""

_THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
)  # fmt: skip


def compiler() -> str | None:
    """Path of a C++ compiler (the variable CXX, then g++, c++, clang++) that answers, or None.

    On a Mac without the command line tools /usr/bin/g++ is there and says only how to install them.
    """
    for name in (os.environ.get("CXX", ""), *COMPILERS):
        path = shutil.which(name) if name else None
        if path and _version_of(path):
            return path
    return None


@lru_cache
def _version_of(path: str) -> str | None:
    """What a compiler answers to --version, or None if it fails."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return None if done.returncode else done.stdout or Path(path).name


def compiler_version(path: str) -> str:
    """First line of the compiler's --version."""
    return ((_version_of(path) or "").splitlines() or [Path(path).name])[0].strip()


@lru_cache
def cpu_name() -> str:
    """The processor's name as the system reports it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    if sys.platform == "darwin":
        query = ["sysctl", "-n", "machdep.cpu.brand_string"]
        done = subprocess.run(query, capture_output=True, text=True, check=False)
        if not done.returncode and done.stdout.strip():
            return done.stdout.strip()
    return platform.processor() or platform.machine() or "unknown CPU"


def build(flags: Sequence[str] = (OPTIMISED,)) -> Path:
    """Compile the loops into a shared library, once per source, compiler and flags.

    Raises ToolchainError where there is no C++ compiler, CompileError with its messages.
    """
    tool = compiler()
    if tool is None:
        raise ToolchainError(
            f"no C++ compiler was found (looked for CXX, {', '.join(COMPILERS)}). Install one "
            "(Debian and Ubuntu: apt install g++), or use the recorded times: cpu_loops(size) does"
        )
    options = [*flags, "-std=c++17", "-shared", "-fPIC"]
    text = SOURCE.read_text(encoding="utf-8")
    identity = "\n".join([text, tool, compiler_version(tool), *options, platform.machine()])
    name = f"cpu_loops_{hashlib.sha256(identity.encode()).hexdigest()[:16]}.so"
    try:
        folder = disk.user_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # no home folder, or a read-only one
        folder = Path(tempfile.gettempdir()) / f"tile-by-tile-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / name
    if not library.is_file():
        with tempfile.TemporaryDirectory(dir=folder) as work:
            made = Path(work) / name
            command = [tool, *options, "-o", str(made), str(SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise CompileError(
                    f"{tool} refuses {SOURCE.name}:\n{done.stderr.strip()}",
                    done.stderr,
                    SOURCE.name,
                )
            os.replace(made, library)  # whole or not at all, if two builds run at once
    return library


@lru_cache
def _function(order: str, flags: tuple[str, ...]) -> Callable[..., None]:
    function = getattr(ctypes.CDLL(str(build(flags))), f"matmul_{order}")
    pointer = np.ctypeslib.ndpointer(np.float32, ndim=2, flags="C_CONTIGUOUS")
    function.argtypes = [pointer, pointer, pointer, ctypes.c_int, ctypes.c_int, ctypes.c_int]
    function.restype = None
    return function  # type: ignore[no-any-return]


@dataclass(frozen=True)
class CpuTimes:
    """Times of the CPU products at one size, on one core.

    rows: dicts with kernel ("ijk", "ikj", "jki", "numpy", perhaps "ijk_unoptimised"), size, m, n,
    k, ms, q1, q3 (median and quartiles), runs (how many there were) and gflops. live: whether they
    were measured now; label says where they come from.
    """

    live: bool
    label: str
    rows: tuple[dict[str, Any], ...]

    def value(self, kernel: str, column: str = "ms") -> float:
        """One number. Raises DataError listing what is there."""
        for row in self.rows:
            if row["kernel"] == kernel:
                return float(row[column])
        raise DataError(
            f"no CPU time is called {kernel!r} here; there are "
            f"{', '.join(row['kernel'] for row in self.rows)}"
        )


def _sample(run: Callable[[], Any]) -> protocol.Spread:
    """Milliseconds of a call. The first call warms up, unless it is slow: then it counts.

    A slow one runs three times, or once if a single run takes SLOW_SECONDS or more.
    """

    def once() -> float:
        started = time.perf_counter()
        run()
        return (time.perf_counter() - started) * 1e3

    first = once()
    if first >= EFFORT.slow_ms:
        samples = [first]
        while len(samples) < EFFORT.pairs and sum(samples) < SLOW_SECONDS * 1e3:
            samples.append(once())
    else:
        samples = []
        while len(samples) < EFFORT.pairs or (
            len(samples) < EFFORT.max_pairs and sum(samples) < EFFORT.seconds * 1e3
        ):
            samples.append(once())
    return protocol.spread(np.array(samples))


def _row(kernel: str, size: store.Size, spread: protocol.Spread) -> dict[str, Any]:
    m, n, k = size
    return {
        "kernel": kernel, "size": m if m == n == k else f"{m}x{n}x{k}", "m": m, "n": n, "k": k,
        "ms": spread.median, "q1": spread.q1, "q3": spread.q3, "runs": spread.count,
        "gflops": protocol.gflops(m, n, k, spread.median),
    }  # fmt: skip


def _data(size: store.Size) -> tuple[np.ndarray, np.ndarray]:
    m, n, k = size
    rng = np.random.default_rng(0)
    return rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)


def _time_loops(size: store.Size, unoptimised: bool) -> list[dict[str, Any]]:
    A, B = _data(size)
    wanted = A.astype(np.float64) @ B.astype(np.float64)
    allowed = protocol.tolerance(
        "float32", np.linalg.norm(A.astype(np.float64), axis=1), np.linalg.norm(B, axis=0)
    )
    runs = [(order, order, OPTIMISED) for order in ORDERS]
    runs += [("ijk_unoptimised", "ijk", UNOPTIMISED)] if unoptimised else []
    rows = []
    for name, order, flag in runs:
        C = np.full_like(wanted, np.nan, dtype=np.float32)
        run = _function(order, (flag,))
        spread = _sample(partial(run, A, B, C, *size))
        if not np.all(np.abs(C - wanted) <= allowed):
            raise protocol.ImplausibleError(
                f"the loop {order} compiled with {flag} gives a wrong product at {size}: its time "
                "is not used. Try another compiler with the variable CXX"
            )
        rows.append(_row(name, size, spread))
    return rows


def _time_numpy(size: store.Size) -> dict[str, Any]:
    """NumPy's product on one thread, in its own process: the thread count is fixed at import."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    one = dict.fromkeys(_THREAD_VARIABLES, "1")
    environment = {**os.environ, **one, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-m", "helpers.record.host", *map(str, size)], capture_output=True,
        text=True, env=environment, cwd=ROOT, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ToolchainError(
            f"timing NumPy in another process failed: {done.stderr.strip()[-500:]}"
        )
    return _row("numpy", size, protocol.Spread(**json.loads(done.stdout)))


def cpu_loops(
    size: int | store.Size, *, unoptimised: bool = False, gpu: str | None = None
) -> CpuTimes:
    """Times of the three loop orders and of NumPy at a size, all on one core in float32.

    Compiled and measured here where there is a C++ compiler; otherwise, or if gpu names a record
    such as "h200", or where TILE_REPLAY is set, replayed from what was recorded on that machine's
    CPU. unoptimised adds the loop ijk compiled with -O0. Raises DataError, listing the recorded
    sizes, if there is nothing to replay.
    """
    shape = size_of(size)
    tool = None if os.environ.get("TILE_REPLAY") else compiler()
    if gpu is None and tool is not None:
        rows = [*_time_loops(shape, unoptimised), _time_numpy(shape)]
        label = (
            f"measured now on {cpu_name()}, one core, {compiler_version(tool)} {OPTIMISED}, "
            f"NumPy {np.__version__}"
        )
        return CpuTimes(True, label, tuple(rows))
    return _replay(shape, unoptimised, gpu or "h200")


def _replay(shape: store.Size, unoptimised: bool, gpu: str) -> CpuTimes:
    record = store.load(gpu)
    m, n, k = shape
    entries = record.of(HostTime, m=m, n=n, k=k)
    if not unoptimised:
        entries = [entry for entry in entries if entry.kernel != "ijk_unoptimised"]
    if not entries:
        sizes = dict.fromkeys(store.shape((e.m, e.n, e.k)) for e in record.of(HostTime))
        raise DataError(
            f"{record.path.name} has no CPU times at {m}x{n}x{k}. It has: "
            f"{', '.join(sizes) or 'none'}. Choose one of these, or install a C++ compiler to "
            "measure here"
        )
    first = entries[0]
    label = (
        f"recorded on {first.cpu}, one core, {first.recorded['date']}, {first.compiler}, "
        f"NumPy {first.recorded.get('numpy')}, commit {first.recorded['commit']}"
    )
    rows = [_row(e.kernel, shape, protocol.Spread(e.ms, e.q1, e.q3, e.runs)) for e in entries]
    return CpuTimes(False, label, tuple(rows))


def _main() -> None:
    """Time NumPy in this process and print the spread as JSON (called by _time_numpy)."""
    m, n, k = (int(text) for text in sys.argv[1:4])
    A, B = _data((m, n, k))
    C = np.empty((m, n), np.float32)
    spread = _sample(lambda: np.matmul(A, B, out=C))
    if not math.isfinite(float(C.sum())):
        raise SystemExit("NumPy's product is not finite")
    print(json.dumps(spread.__dict__))


if __name__ == "__main__":
    _main()
