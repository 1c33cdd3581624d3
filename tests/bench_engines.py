"""How fast the emulator is, beside Numba's CUDA simulator: python -m tests.bench_engines [--out FILE]

Both run the same algorithm on one core, a shared-memory tile of 16x16 on float32: the emulator the
unmodified 06_tiled.cu with race detection and full traces, Numba's simulator the kernel below, which
it interprets thread by thread and checks for nothing. Needs numba (pip install '.[bench]').
"""

from __future__ import annotations

import argparse
import json
import os
import time
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402 - threads are set before NumPy starts

from helpers import trace  # noqa: E402
from helpers.host import cpu_name  # noqa: E402

TILE = 16
NUMBA_EDGE, EDGE = 48, 256


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
    started = time.perf_counter()
    tiled[(n // TILE, n // TILE), (TILE, TILE)](a, b, c)
    seconds = time.perf_counter() - started
    return seconds, float(np.abs(c - a.astype(np.float64) @ b).max())


def emulated(n: int) -> tuple[float, int]:
    """Seconds and wrong elements of an n x n x n trace of tiled_16 in the emulator, all checks on."""
    trace("tiled_16", 32, 32, 32)  # compiling and translating are not what is compared
    started = time.perf_counter()
    t = trace("tiled_16", n, n, n)
    assert t.ok
    return time.perf_counter() - started, t.wrong


def compare() -> dict[str, Any]:
    """Both engines, in multiply-adds a second."""
    theirs, error = simulated(NUMBA_EDGE)
    assert error < 1e-4
    ours = min(emulated(EDGE)[0] for _ in range(3))
    rates = NUMBA_EDGE**3 / theirs, EDGE**3 / ours
    return {
        "cpu": cpu_name(),
        "date": date.today().isoformat(),
        "numba": metadata.version("numba"),
        "engines": [
            {"engine": "Numba's CUDA simulator", "edge": NUMBA_EDGE, "seconds": round(theirs, 3),
             "multiply_adds_per_second": float(f"{rates[0]:.4g}"), "checks": "none"},
            {"engine": "the emulator", "edge": EDGE, "seconds": round(ours, 3),
             "multiply_adds_per_second": float(f"{rates[1]:.4g}"),
             "checks": "races, bounds, initialisation, full traces"},
        ],
        "ratio": float(f"{rates[1] / rates[0]:.4g}"),
    }  # fmt: skip


def main() -> None:
    """Print the comparison, and write it where --out says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    text = json.dumps(compare(), indent=1)
    print(text)
    if out:
        out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
