"""What the page on FP8 shows: errors by how operands are scaled, and the record of an H200."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from helpers.chapters import validated
from helpers.chapters.ch22 import fp8
from helpers.chapters.notes import numbers
from helpers.ladder.kernel import ROOT
from nogpu import device
from nogpu.errors import DataError

RECORD = ROOT / "data" / "validation" / "fp8_h200.json"
"""Written by `python -m tools.fp8_on_a_gpu`."""
record, stamp = partial(validated.record, RECORD), partial(validated.stamp, RECORD)
NOTES = "fp8.md"
SHAPE = (128, 128, 1024)
"""M, N, K of the products whose errors are counted."""
OUTLIER, FAR = 2.0**10, 2.0**16
"""How much larger than the others a column of A is."""
NORMAL, SMALL, COLUMN, MADE_UP = DATA = ("normal", "small", "column", "made_up")
TITLES = {
    NORMAL: "N(0, 1)",
    SMALL: f"A {OUTLIER:,.0f} times smaller",
    COLUMN: f"a column of A {OUTLIER:,.0f} times larger",
    MADE_UP: f"a column of A {FAR:,.0f} times larger, its row of B as much smaller",
}
WAYS = {"none": "no scale", "matrix": "one for the matrix", "row": "by row", "block": "by 1 x 128"}
"""How A is scaled; B has one for 128 x 128 where A has one for 1 x 128, one for its 128 columns
where A has one a row."""


def with_one_arrival() -> str:
    """The kernel's source, wrong: one thread says for its warpgroup that a stage has been read."""
    text = fp8.KERNEL.source.replace(
        "barrier_init(&empty[s], WARPS)", "barrier_init(&empty[s], CONSUMERS)"
    )
    by_warp = "if (lane == 0) {\n                            barrier_arrive"
    head, found, tail = text.partition(by_warp)
    if not found:
        raise DataError(f"{fp8.KERNEL.file} has no line that says {by_warp!r}")
    return head + by_warp.replace("lane", "threadIdx.x % WARPGROUP") + tail


def distance(C: np.ndarray, want: np.ndarray) -> float:
    """Norm of the difference over the norm of what is wanted, in percent."""
    return float(100 * np.linalg.norm(C - want) / np.linalg.norm(want))


def operands(data: str) -> tuple[np.ndarray, np.ndarray]:
    """A (M, K) and B (N, K), by columns, of one of DATA."""
    M, N, K = SHAPE
    rng = np.random.default_rng(22)
    A, B = rng.standard_normal((M, K)), rng.standard_normal((N, K))
    if data == SMALL:
        A /= OUTLIER
    elif data != NORMAL:
        larger = OUTLIER if data == COLUMN else FAR
        A[:, K // 3] *= larger
        B[:, K // 3] /= larger if data == MADE_UP else 1
    return A, B


def scaled(way: str, A: np.ndarray, B: np.ndarray) -> tuple[fp8.Scaled, fp8.Scaled]:
    """A and B in e4m3, scaled in one of WAYS."""
    if way == "none":
        return fp8.unscaled(A), fp8.unscaled(B)
    K = A.shape[1]
    tall = {"matrix": (len(A), len(B)), "row": (1, fp8.BLOCK), "block": (1, fp8.BLOCK)}[way]
    wide = fp8.BLOCK if way == "block" else K
    return fp8.scaled(A, tall[0], wide), fp8.scaled(B, tall[1], wide)


def errors() -> dict[str, dict[str, float]]:
    """By data and way: how far the product of the e4m3 is from that of A and B, in percent."""
    found: dict[str, dict[str, float]] = {}
    for data in DATA:
        A, B = operands(data)
        products = {way: fp8.reference(*scaled(way, A, B)) for way in WAYS}
        found[data] = {way: distance(C, A @ B.T) for way, C in products.items()}
    return found


def checked(file: Path = RECORD) -> dict[str, int]:
    """Launches that were compared on the H200, their elements, and how many of these were wrong,
    had other bits in a second run (`again`), or in the emulator (`differ`)."""
    rows = validated.record(file)["shapes"]
    return {"launches": len(rows)} | {
        what: sum(row[what] for row in rows) for what in ("elements", "wrong", "again", "differ")
    }


def times() -> list[dict[str, Any]]:
    """A row a shape: TFLOP/s of the kernel, of cuBLASLt with the same scales and with one a matrix,
    and of hopper_5; percent of the library with the same scales, and times hopper_5, from pairs."""
    names = ("fp8", "cublaslt_block", "cublaslt", "hopper_5")
    return [
        {
            "shape": " x ".join(map(str, shape[:1] if len(set(shape)) == 1 else shape)),
            "square": len(set(shape)) == 1,
            **{name: of[name]["tflops"] for name in names},
            "share": 100 * of["fp8"]["ratio"]["cublaslt_block"],
            "times": of["fp8"]["ratio"]["hopper_5"],
            "library": 100 * of["cublaslt_block"]["ratio"]["cublaslt"],
            "error": of["fp8"]["error_percent"],
            "clock": of["fp8"]["clock_mhz"],
        }
        for shape, of in validated.by_kernel(record()["times"], "m", "n", "k").items()
    ]


def noted() -> dict[str, float]:
    """What the notes of the tuning runs say of 4096, in percent of the kernel's time: what went
    when scales came through the `ring`; what would go without `promotion`, without `scales` and
    without the `store`; what comes where `pairs` share a tile, at 8192 too.
    """
    (before,) = numbers(NOTES, r"## 2\..*?4096: as it is ([\d.]+)")
    now, bare, constant = numbers(
        NOTES, r"## 3\..*?4096: as it is ([\d.]+);.*?promoted ([\d.]+); scales constant ([\d.]+)"
    )
    shared = r"## 4\..*?{}: as it is ([\d.]+);.*?share A ([\d.]+);.*?not stored ([\d.]+)"
    (base, pairs, bare_c), (base_8192, pairs_8192, _) = (
        numbers(NOTES, shared.format(size)) for size in (4096, 8192)
    )
    return {
        "store": 100 * (1 - bare_c / base),
        "pairs": 100 * (pairs / base - 1),
        "pairs_8192": 100 * (pairs_8192 / base_8192 - 1),
        "ring": 100 * (1 - now / before),
        "promotion": 100 * (1 - bare / now),
        "scales": 100 * (1 - constant / now),
    }


def promotion() -> list[dict[str, Any]]:
    """Error of C in percent by data and K: promoted every 128 of k, every 512, never; and what
    rounding to e4m3 costs there."""
    return sorted(record()["promotion"], key=lambda row: (row["data"], row["k"]))


def feed(rows: int) -> dict[str, float]:
    """Bytes a clock of shared memory if the Tensor Cores never waited, for blocks of so many rows:
    read by wgmma, 64 rows by 128 columns at a time, and written by the copy engine."""
    per_clock = device.gpu("h200").tensor_fp16_flop_per_clock_per_sm  # twice BF16's multiply-adds
    clocks = rows * fp8.BLOCK / per_clock  # for one step of k
    read = (rows // 64) * (64 + fp8.BLOCK) / clocks
    written = (rows + fp8.BLOCK) / clocks
    return {"rows": rows, "read": read, "written": written, "together": read + written}
