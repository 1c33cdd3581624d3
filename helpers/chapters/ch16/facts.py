"""What the sentences of chapter 16 stand on: counts of tiles, bits and stores, and what the record
says."""

import math
from statistics import median
from types import SimpleNamespace

from helpers.ladder import choosing, model
from helpers.ladder.kernel import cdiv
from helpers.ladder.launch import Trace, trace_of
from helpers.ladder.rungs import catalog, lay_out
from helpers.ladder.usage import instruction_mix
from helpers.record import load
from helpers.record.shape_sets import Everywhere
from nogpu.device import Gpu

SMALL = {"BM": 32, "BN": 32, "BK": 16, "WM": 16, "WN": 32, "TM": 4, "TN": 4}
"""A tile of 32x32 with two warps, for runs in the emulator."""


def tiles(n: int) -> dict[tuple[int, int], int]:
    """How many tiles of each size an n x n product has."""
    return {(bm, bn): cdiv(n, bm) * cdiv(n, bn) for bm, bn in ((128, 256), (64, 64), (32, 32))}


def full_chip(gpu: Gpu) -> float:
    """How many times the clocks of the default tile fp32_sliced takes with 32x32 at 4096, as
    predicted."""
    tiles_of_it = catalog["fp32_sliced"].candidates
    small = next(t for t in tiles_of_it if (t.get("BM"), t.get("BN")) == (32, 32))
    least, most = (
        choosing.predicted(lay_out("fp32_sliced", 4096, 4096, 4096, **tile), gpu)
        for tile in ({}, small)
    )
    return most / least


def whole_steps(gpu: Gpu) -> bool:
    """Whether fp32_sliced is predicted the same for all K of one step of BK, more for the next."""
    one, all_of_it, more = (
        choosing.predicted(lay_out("fp32_sliced", 64, 64, k, **SMALL), gpu) for k in (1, 16, 17)
    )
    return one == all_of_it < more


def same(first: Trace, second: Trace) -> bool:
    """Whether two runs gave the same bits, without a finding."""
    equal = first.C.tobytes() == second.C.tobytes()
    return equal and not first.report.findings and not second.report.findings


def times_the_stores() -> float:
    """Requests that store C where its rows start anywhere, over those where on 16 bytes."""
    whole, odd = (trace_of(lay_out("fp32_sliced", 64, n, 32, **SMALL)) for n in (64, 63))
    return odd.requests("global", "store") / whole.requests("global", "store")


def thin(gpu: Gpu) -> SimpleNamespace:
    """What thin_rows keeps under way, counted in the loop of its machine code for sm_90, for eight
    warps of 512 bytes a read: rows of B asked for ahead, KB a block in flight, and what Little's
    law asks for, KB an SM.

    staged: whether its loop writes to shared memory. row: blocks that a row of 4096 columns of C
    makes.
    """
    loop = instruction_mix("thin_rows", "sm_90")
    clocks = model.LOAD_CLOCKS / gpu.boost_mhz
    return SimpleNamespace(
        ahead=loop["LDG.128"],
        flight=512 * 8 * loop["LDG.128"] / 1024,
        littles=gpu.bandwidth_gbs / gpu.sms * clocks * 1e3 / 1024,
        staged="STS" in loop or "LDGSTS" in loop,
        row=lay_out("thin_rows", 1, 4096, 4096).grid[0],
    )


def sixteen(gpu: Gpu) -> bool:
    """Whether a product of bfloat16 is given thin kernels as well as those of chapters 17 to 22,
    `mma_sliced` or `mma_pieces` where rows are few or do not start on 16 bytes and `mma_short`
    where K is short, but one of wgmma for a large product of whole tiles.
    """
    found = choosing.contenders("bfloat16", gpu)
    few, odd, short, large = (
        choosing.best("bfloat16", *shape, gpu).kernel.entry
        for shape in ((16, 4096, 4096), (301, 501, 2701), (500, 500, 20), (4096, 4096, 4096))
    )
    rungs = {16} < {k.chapter for k in found} <= {16, *range(17, 23)}
    sliced = {few, odd} <= {"mma_sliced", "mma_pieces"}
    return rungs and sliced and short == "mma_short" and large.startswith("wgmma")


def source(found: Everywhere) -> str:
    """Where, when and with what the picks were measured, in a line."""
    return load("h200").label(found.entries)


def in_words(found: Everywhere | None, library: str) -> str:
    """What a record says of the drawn shapes, in a sentence; "" without one."""
    if found is None:
        return ""
    worst, every = found.worst, (*found.entries, *found.named)
    whole = all(e.checked.endswith("all rows") and e.error_over_tolerance <= 1 for e in every)
    right = "Every element is within what rounding may bring. " if whole else ""
    short = sum(e.predicted < 1e3 * e.ms for e in found.entries)
    missing = median(1e3 * e.ms - e.predicted for e in found.entries)
    signed = (
        f" So the error has a sign: the count leaves something out, in the median {missing:.1f} µs"
        " a call. What it is, no launch here tells; the first loads, which nothing covers, and the"
        " last blocks, which end one by one, are suspects."
        if short > 0.9 * len(found.entries)
        else ""
    )
    return (
        f"Over {len(found.entries)} shapes the geometric mean is {100 * found.share:.0f} % of"
        f" {library}, the worst {100 * (worst.cublas_ratio or math.nan):.0f} % at"
        f" {worst.m}x{worst.n}x{worst.k}. {right}The prediction is off by a factor of"
        f" {math.exp(found.off):.2f} (the root mean square of the logarithms of time over"
        f" prediction), and too short for {short} of them.{signed}"
    )
