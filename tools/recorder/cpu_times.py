"""Section "host": this machine's CPU loops and NumPy, merged into a measurement file."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from helpers.record import store
from helpers.record.entries import HostTime
from helpers.record.host import (
    OPTIMISED,
    ORDERS,
    UNOPTIMISED,
    build,
    compiler,
    compiler_version,
    cpu_loops,
    cpu_name,
)
from helpers.record.stamps import stamp
from nogpu.errors import ConfigError, DataError

RECORD_SIZES: tuple[store.Size, ...] = tuple((n, n, n) for n in (256, 512, 1024, 1025)) + (
    (1024, 1024, 768),
)
"""Sizes that are recorded for machines with no compiler; the last one is document B's."""
KERNEL_NAMES = (*ORDERS, "numpy", "ijk_unoptimised")
"""Names of the CPU times: the orders compiled with -O3, NumPy, and ijk compiled with -O0."""


def record_host(
    path: Path, commit_id: str, *, sizes: Iterable[store.Size] = RECORD_SIZES, again: bool = False,
    say: Callable[[str], None] = print,
) -> int:  # fmt: skip
    """Merge this machine's CPU times into a measurement file; the number of sizes measured.

    Raises DataError if the file does not exist or is damaged, ToolchainError with no compiler,
    ConfigError where TILE_REPLAY is set.
    """
    if os.environ.get("TILE_REPLAY"):
        raise ConfigError("TILE_REPLAY is set, under which nothing is measured: unset it to record")
    if not path.is_file():
        raise DataError(f"{path} does not exist: record the GPU's times into it first")
    record = store.read(path)
    build()  # fail before measuring if there is no compiler
    tool = compiler() or ""
    measured = 0
    nothing = dict.fromkeys(("driver", "cuda", "cublas", "nvrtc", "cupy"))
    recorded = stamp(
        {**nothing, "numpy": np.__version__, "python": platform.python_version()}, commit_id
    )
    for size in sizes:
        here = {e.kernel for e in record.of(HostTime, **store.named(size))}
        if here >= set(KERNEL_NAMES) and not again:
            continue
        times = cpu_loops(size, unoptimised=True)
        for row in times.rows:
            entry = {name: value for name, value in row.items() if name != "size"}
            flag = UNOPTIMISED if row["kernel"] == "ijk_unoptimised" else OPTIMISED
            built = "none" if row["kernel"] == "numpy" else f"{compiler_version(tool)} {flag}"
            entry |= {"cpu": cpu_name(), "threads": 1, "compiler": built, "recorded": recorded}
            record.merge(HostTime(**entry))
        measured += 1
        record.write()
        rates = ", ".join(f"{row['kernel']} {row['gflops']:.2f}" for row in times.rows)
        say(f"CPU at {store.shape(size)}: {rates} GFLOP/s")
    return measured
