"""Copies, kernels and their noise, from a measurement and the H200's record: numbers of chapter
2."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from helpers.chapters.facts import recorded as in_record
from helpers.ladder import hopper
from helpers.ladder.kernel import ITEM_BYTES
from helpers.ladder.rungs import catalog
from helpers.record import Measurement, launches, load, published
from helpers.record.entries import LAUNCH_CASES
from nogpu import device

NAMES = ("naive", "coalesced", "tiled_32")
SIZES = [512, 1024, 2048, 4096]
LAB = {
    "time_h2d": "copy in", "time_kernel": "compute", "time_d2h": "copy out", "time_total": "total",
    "gflops": "GFLOP/s",
}  # fmt: skip


def total(of: Measurement, kernel: str, size: int) -> float:
    """Copies and kernel together, in ms."""
    return sum(of.value(kernel, size, column) for column in ("h2d_ms", "ms", "d2h_ms"))


def parts(of: Measurement, sizes: Sequence[int] = (1024, 4096)) -> list[dict[str, Any]]:
    """Copy in, kernel, copy out and their sum in ms, by kernel and size."""
    columns = {"copy in": "h2d_ms", "compute": "ms", "copy out": "d2h_ms"}

    def at(name: str, n: int) -> dict[str, float]:
        """Of a kernel at a size, its columns by their titles."""
        return {title: of.value(name, n, column) for title, column in columns.items()}

    pairs = [(name, n) for n in sizes for name in NAMES]
    return [{"kernel": k, "size": n, **at(k, n), "total": total(of, k, n)} for k, n in pairs]


def spread(of: Measurement, size: int, kernel: str = "coalesced") -> float:
    """Interquartile range of a kernel's times over their median, in percent."""
    q1, q3, median = (of.value(kernel, size, column) for column in ("q1", "q3", "ms"))
    return 100 * (q3 - q1) / median


def noise(of: Measurement) -> list[dict[str, Any]]:
    """Of the coalesced kernel by size: median in ms, spread in percent, SM clock in MHz, power in
    W."""

    def value(n: int, column: str) -> float:
        return of.value("coalesced", n, column)

    return [
        {"size": n, "median (ms)": value(n, "ms"), "spread (%)": spread(of, n),
         "clock (MHz)": value(n, "clock_mhz"), "power (W)": value(n, "power_w")}
        for n in SIZES
    ]  # fmt: skip


def numbers(of: Measurement) -> dict[str, Any]:
    """What the text says of a measurement: times in ms, shares of the kernel in percent, copies in
    GB/s."""
    kernel, first = (of.value("tiled_32", 1024, column) for column in ("ms", "first_ms"))
    copied, took = 2 * 4096**2 * 4 / 1e6, of.value("coalesced", 4096, "h2d_ms")
    card = device.current() if of.live else device.gpu("h200")
    known = card.bandwidth_gbs if card else None
    return {
        "gpu": of.gpu,
        "kernel_ms": kernel,
        "total_ms": total(of, "tiled_32", 1024),
        "first_ms": first,
        "first_ratio": first / kernel,
        "copied_mb": copied,
        "copied_ms": took,
        "copied_gbs": copied / took,
        "dram_gbs": f"{known:,.0f}" if known else "a number that its driver does not tell, in",
        "kernel_share": {k: 100 * of.value(k, 4096, "ms") / total(of, k, 4096) for k in NAMES},
    }


def recorded(rec: Measurement) -> SimpleNamespace:
    """What the H200's record says of copies, of a library that is timed again and again, and of
    noise.

    copies: number of medians at 4096, the shortest (low) and longest (high) copy in of float32, in
    ms, and how they correlate with the kernels' times; library: the same of cuBLAS; apart,
    copies_apart: in percent. rec: the record of NAMES at SIZES.
    """
    points = load("h200").find("points", m=4096, n=4096, k=4096)
    floats = [p for p in points if p["dtype"] == "float32"]
    copies = [p["h2d_ms"] for p in floats]
    library = [p["baseline_ms"] for p in points if p["baseline"] == "cublas_fp32"]
    both = {"copies": copies, "library": library}
    return SimpleNamespace(
        **{n: {"n": len(ms), "low": min(ms), "high": max(ms)} for n, ms in both.items()},
        apart=100 * (max(library) / min(library) - 1),
        copies_apart=100 * (max(copies) / min(copies) - 1),
        related=float(np.corrcoef(copies, np.log([p["ms"] for p in floats]))[0, 1]),
        spread_worst=max(spread(rec, n) for n in SIZES),
        clock_low=min(rec.value("coalesced", n, "clock_mhz") for n in SIZES),
        times={name: rec.value(name, 4096, "ms") for name in NAMES},
        shares={name: rec.value(name, 4096, "ms") / total(rec, name, 4096) for name in NAMES},
    )


def lab() -> list[dict[str, Any]]:
    """A lab report's table without a size: ms and GFLOP/s of its first kernels, as printed."""
    rows: dict[str, dict[str, Any]] = {}
    for r in published(document="L"):
        if str(r["metric"]) in LAB and str(r["section"]).startswith("2. MatmulXrow"):
            kernel = str(r["kernel"])
            rows.setdefault(kernel, {"kernel": kernel})[LAB[str(r["metric"])]] = r["value"]
    order = ("kernel", *LAB.values())
    return [{name: row[name] for name in order if name in row} for row in rows.values()]


def ours_gbs() -> float:
    """Rate of copies from ordinary host memory to the H200 at 4096, in GB/s."""
    return 2 * 4096**2 * 4 / in_record("coalesced", 4096, "h2d_ms") / 1e6


WAYS = {
    "matmul": "matmul, waiting", "run": "looked up", "cupy": "by CuPy", "bound": "bound",
    "graph": "in a graph",
}  # fmt: skip
"""The ways of asking for a launch, and the columns of their table."""


def launch_costs() -> tuple[list[dict[str, Any]], str]:
    """Microseconds of the host for a launch, by kernel and size, a column for each way; and the
    label.

    "kernel alone" is the kernel's own time in the record, where it has that size. No rows where
    none is recorded.
    """
    found = launches("h200")
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for e in found.rows:
        none = {"kernel": e["kernel"], "N": e["m"]} | dict.fromkeys(WAYS.values())
        row = rows.setdefault((e["kernel"], e["m"]), none)
        row[WAYS[e["way"]]] = e["us"]
        row["kernel alone"] = 1e3 * in_record(e["kernel"], e["m"], "ms")
    return list(rows.values()), found.label


def asked_of_the_copy_engine() -> dict[str, Any]:
    """The size whose rows a TMA kernel has copied (odd), the bytes of one, and what the kernel is
    given: arrays that are copied around one product."""
    name, size = next((name, size) for name, size in LAUNCH_CASES if size[0] % 2)
    k = catalog[name]
    row = size[0] * ITEM_BYTES[k.dtype]
    return {"odd": size[0], "row_bytes": row, "maps": " ".join(hopper.parameters(k)[:3])}
