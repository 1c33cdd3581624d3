"""What chapter 18 counts: a tile that one ldmatrix reads, and the wavefronts of its kernels."""

from typing import Any

import numpy as np

from helpers.chapters.facts import recorded
from helpers.ladder.launch import Trace, trace
from helpers.ladder.rungs import catalog
from helpers.record import load, stalls
from nogpu import device, emulator

STEPS = ("mma_naive", "mma_ldmatrix", "mma_swizzle")
SIZE = 4096

READ = """
#include "common/ldmatrix.cuh"

__device__ int place(int row, int col) { return RULE; }

extern "C" __global__ void read(const unsigned short* x, unsigned* out)
{
    __shared__ __align__(128) unsigned short tile[16 * 72];
    const int lane = threadIdx.x;
    for (int i = lane; i < 16 * 64; i += 32)
        tile[place(i / 64, i % 64 / 8 * 8) + i % 8] = x[i];
    __syncthreads();
    unsigned r[4];
    ldmatrix_x4(r, shared_address(&tile[place(lane % 16, lane / 16 * 8)]));
    for (int i = 0; i < 4; ++i) out[lane * 4 + i] = r[i];
}
"""
"""One warp puts sixteen rows of 64 elements into shared memory and reads four 8 x 8 matrices."""


def read_tile(rule: str) -> tuple[emulator.Report, np.ndarray]:
    """The report of READ, and the eight elements that each lane got, as (32, 8) of uint16.

    rule: where the chunk of eight elements at (row, col) lies, in C++; col is a multiple of 8.
    Element (row, col) of the tile is the number 64 row + col.
    """
    x, out = np.arange(16 * 64, dtype=np.uint16), np.zeros((32, 4), np.uint32)
    source = READ.replace("RULE", rule)
    report = emulator.launch(source, "read", (1, 1, 1), (32, 1, 1), [x, out], samples=True)
    return report, out.view(np.uint16)


def wavefronts(report: emulator.Report) -> float:
    """Wavefronts of the ldmatrix of READ."""
    rows = [r for r in report.by_line() if (r.space, r.op) == ("shared", "load")]
    return rows[0].wavefronts


def count(name: str) -> dict[str, Any]:
    """Shared memory for one m16n8k16 of a kernel: requests to read, and wavefronts.

    Counted at two depths K, and the difference taken, so that beginning and end drop out.
    """
    p = catalog[name].params
    one, two = (trace(name, M=p["BM"], N=p["BN"], K=n * p["BK"]) for n in (1, 2))
    work = p["BM"] * p["BN"] * p["BK"] / (16 * 8 * 16)

    def more(op: str, what: str) -> float:
        def total(t: Trace) -> float:
            rows = (r for r in t.by_line() if (r.space, r.op) == ("shared", op))
            return sum(getattr(row, what) for row in rows)

        return (total(two) - total(one)) / work

    of_loads = {"requests": more("load", "requests"), "reads": more("load", "wavefronts")}
    return {"kernel": name, **of_loads, "writes": more("store", "wavefronts")}


def counts() -> list[dict[str, Any]]:
    """`count` of the three kernels, with the roof that it sets and the H200's record at 4096.

    An SM of an H200 does one m16n8k16 a clock at its peak, and serves one wavefront a clock: so
    the roof, in TFLOP/s, is the peak divided by the wavefronts.
    """
    rows = [count(name) for name in STEPS]
    for row in rows:
        row["waves"] = row["reads"] + row["writes"]
        row["roof"] = device.gpu("h200").peak_gflops("fp16") / 1e3 / max(1, row["waves"])
        row["tflops"] = recorded(row["kernel"], SIZE) / 1e3
    return rows


def searched(name: str, **tile: int) -> list[float]:
    """% of cuBLAS of a kernel's tiles with these sizes, in the recorded search at 4096."""
    found = load("h200").find("sweep", kernel=name, m=SIZE)
    found = [e for e in found if e["cublas_ratio"] and tile.items() <= e["params"].items()]
    return [100 * e["cublas_ratio"] for e in found]


def longest_waits() -> list[str]:
    """What the warps of each of the three kernels waited for most, by ncu; [] if not recorded."""
    waits = {row["kernel"]: row["waits"] for row in stalls([*STEPS], gpu="h200")}
    if not waits.keys() >= {*STEPS}:
        return []
    return [max(waits[name].keys() - {"issues"}, key=waits[name].get) for name in STEPS]


def glued() -> dict[str, Any]:
    """The numbers of the page.

    step: `counts` by kernel; ldmatrix_gain: of `mma_ldmatrix` over `mma_naive`, in percent;
    swizzle_gain: `mma_swizzle` over `mma_ldmatrix`; best: % of cuBLAS of the best tile.
    """
    rows = counts()
    naive, fetched, mixed = (row["tflops"] for row in rows)
    return {
        "step": {row["kernel"]: row for row in rows},
        "ldmatrix_gain": 100 * (fetched / naive - 1),
        "swizzle_gain": mixed / fetched,
        "best": {name: max(searched(name)) for name in ("mma_swizzle", "wmma_tiled")},
    }


def cured() -> bool:
    """Whether plain rows of 64 take eight times four wavefronts, swizzled or padded ones four."""
    rules = ("row * 64 + col", "row * 64 + (col / 8 ^ row % 8) * 8", "row * 72 + col")
    return [wavefronts(read_tile(rule)[0]) for rule in rules] == [32, 4, 4]


def wait_moves() -> bool:
    """Whether the longest wait is a full queue, then shared, then global memory, where recorded."""
    first = longest_waits()
    return not first or (
        first[0] in ("mio_throttle", "lg_throttle")
        and first[1:] == ["short_scoreboard", "long_scoreboard"]
    )
