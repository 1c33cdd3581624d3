"""The rows of chapter 22's tables: rounds of tiles, one kernel at two powers, what is left of the
peak."""

import math
from collections import Counter
from typing import Any

from helpers.chapters import steps
from helpers.chapters.ch22.tries import noted
from helpers.chapters.facts import recorded
from helpers.ladder import cuts, hopper, shares
from helpers.ladder.rungs import catalog, lay_out
from helpers.record import costs, everywhere, stalls
from nogpu import device

H200 = device.gpu("h200")
STEPS = tuple(f"hopper_{i}" for i in range(1, 7))


def percent(name: str, size: int) -> float:
    """A kernel's share of cuBLAS at a size in the record of the H200, in percent."""
    return 100 * recorded(name, size, "cublas_ratio")


def gains(sizes: tuple[int, ...] = (4096, 8192)) -> dict[str, float]:
    """Points of cuBLAS that steps 4 and 5 give over the one before, by step and size: "5_4096"."""
    pairs = ((i, size) for i in (4, 5) for size in sizes)
    return {f"{i}_{n}": percent(f"hopper_{i}", n) - percent(f"hopper_{i - 1}", n) for i, n in pairs}


def found() -> dict[str, Any]:
    """Of the record: points that steps `gain`; `rounds` of tiles by size; registers of a `packed`
    tile; `sms` of the GPU; percent of step 3's time in which its Tensor Cores are `busy` by ncu,
    and would be `needed` at their peak."""
    p = catalog["hopper_5"].params
    three, [waits] = costs.bounds("hopper_3", 4096, gpu="h200"), stalls("hopper_3")
    return {
        "gain": gains(), "busy": waits["tensor_percent"], "needed": 100 * (three.share or 0),
        "rounds": {size: rounds(size) for size in (1024, 4096, 8192)},
        "packed": p["BM"] // 128 * p["BN"] // 4, "sms": H200.sms,
    }  # fmt: skip


def rounds(size: int) -> dict[str, Any]:
    """Pairs of tiles of hopper_5 over the clusters that an H200 has room for: rounds and busy share
    (%), whole and cut; MB of sums that cut tiles hand over. A model: handing over takes no time."""
    p, room = catalog["hopper_5"].params, H200.sms // 2
    pairs = -(-size // (2 * p["BM"])) * -(-size // p["BN"])
    steps = -(-size // cuts.BK)
    ways = {"whole": cuts.Division(pairs, 0), "cut": cuts.even(pairs, room, steps)}
    spread = {way: cuts.spread(room, pairs, steps, division) for way, division in ways.items()}
    whole, cut = (found.busiest / steps for found in spread.values())
    return {
        "size": size, "pairs": pairs, "whole": whole, "cut": cut, "saved": whole - cut,
        "whole_busy": 100 * pairs / (whole * room), "cut_busy": 100 * pairs / (cut * room),
        "blocks": lay_out("hopper_5", size, size, size).grid[0],
        "handed": len(spread["cut"].parts) * 2 * p["BM"] * p["BN"] * 4 / 1e6,
    }  # fmt: skip


def even(size: int) -> dict[str, Any]:
    """Pairs of tiles at M = N = K, side by side, on the clusters of an H200: how many there are and
    the rounds have room for; into how many even_shares cuts each of the columns of C, and how many
    of these into one more; the highest and the lowest tile's rows, and columns; rows of the cluster
    that has most, with whole tiles and with shares, and percent fewer."""
    p = lay_out("even_shares", size, size, size)
    found, most = shares.of(p), p.params["BM"]
    pairs = -(-size // most) * -(-size // (p.params["BN"] * p.params["CLUSTER_N"]))
    rounds = -(-pairs // len(found))
    rows = max(sum(share.rows for share in own) for own in found)
    columns = Counter(share.col for own in found for share in own)
    per = min(columns.values())
    return {
        "size": size, "pairs": pairs, "rounds": rounds, "room": rounds * len(found),
        "columns": len(columns), "per": per, "longer": sum(n > per for n in columns.values()),
        "tall": most, "wide": p.params["BN"], "low": p.params["LOW"],
        "lowest": min(share.rows for own in found for share in own),
        "whole": rounds * most, "even": rows, "saved": 100 * (1 - rows / (rounds * most)),
    }  # fmt: skip


def gained() -> list[float]:
    """Percent that equal shares gain over tiles of one height, at 4096 and at 8192."""
    return [steps.gains("22, even shares", size)[-1] for size in (4096, 8192)]


FEW = ((1024, 1024, 16384), (512, 4096, 4096), (128, 8192, 4096), (16, 4096, 4096))
"""Shapes with fewer tiles than SMs."""


def few() -> list[dict[str, Any]]:
    """What the count says of few tiles, by the candidate of hopper_6 that it finds best.

    SMs with a tile where tiles are whole; parts of a tile; steps of k on the busiest SM, whole and
    cut; KB of sums that the busiest block moves where one owner adds up, and where each owns a
    share; clocks predicted, cut over whole. Where it is recorded: what the choice by shape takes,
    and its share of cuBLAS.
    """
    rows, picks = [], everywhere("bfloat16")
    timed = {(e.m, e.n, e.k): e for e in (picks.named if picks else ())}
    for shape in FEW:
        ways = [lay_out("hopper_6", *shape, **tile) for tile in catalog["hopper_6"].candidates]
        p = min(ways, key=lambda way: cuts.cheapest(cuts.work_of(way, H200)).clocks)
        work, taken = cuts.work_of(p, H200), timed.get(shape)
        best, whole = cuts.cheapest(work), cuts.cost(work, cuts.Division(work.tiles, 0))
        parts = max(1, best.division.ranges // work.tiles)
        rows.append(
            {
                "M x N x K": " x ".join(map(str, shape)),
                "tile": " x ".join(map(str, p.tile)),
                "SMs with a tile": work.tiles * (p.grid[0] // work.workers),
                "parts of a tile": parts,
                "steps, whole": whole.steps,
                "steps, cut": best.steps,
                "KB, one owner": round((parts - 1) * work.sums / 1024),
                "KB, shares": round(sum(cuts.handed(work, best.division)) / 1024),
                "clocks, cut (% of whole)": round(100 * best.clocks / whole.clocks),
                "taken": taken and taken.kernel,
                "of cuBLAS (%)": taken and 100 * (taken.cublas_ratio or math.nan),
            }
        )
    return rows


def cut_at(size: int) -> bool:
    """Whether hopper_6 cuts any tile of a product of this size, by the count."""
    return hopper.division(lay_out("hopper_6", size, size, size)).ranges > 0


def twice() -> list[dict[str, Any]]:
    """Step 5 at 8192 as it was recorded, and launched without a pause in the tuning notes: TFLOP/s,
    MHz and W as nvidia-smi had them, % of cuBLAS."""
    notes = noted()
    rate, clock, power = (
        recorded("hopper_5", 8192, column) for column in ("gflops", "clock_mhz", "power_w")
    )
    return [
        {"protocol": "recorded", "tflops": rate / 1e3, "clock": clock, "power": power,
         "share": percent("hopper_5", 8192)},
        {"protocol": "without a pause (notes)", "tflops": notes["sustained"],
         "clock": notes["sustained_mhz"], "power": notes["sustained_w"],
         "share": 100 * notes["sustained"] / notes["library"]},
    ]  # fmt: skip


def at_clock(mhz: float) -> float:
    """TFLOP/s of hopper_5 at 8192, were each clock of its SMs as the one that the notes counted."""
    notes, blocks = noted(), lay_out("hopper_5", 8192, 8192, 8192).grid[0]
    peak = H200.peak_gflops("bf16") / 1e3 * mhz / H200.boost_mhz
    return peak * blocks / H200.sms * notes["ideal"] / notes["counted"]


def left_of_peak() -> list[dict[str, Any]]:
    """What remains of the peak, TFLOP/s and %, as the limits of hopper_5 at 8192 are taken off one
    by one, in the run in which it counted its clocks."""
    notes, peak = noted(), H200.peak_gflops("bf16") / 1e3
    blocks = lay_out("hopper_5", 8192, 8192, 8192).grid[0]
    used = peak * blocks / H200.sms
    left = (
        ("the peak, at the highest clock", peak),
        (f"on {blocks} of {H200.sms} SMs", used),
        (f"at {notes['mhz']:.0f} MHz, as counted", used * notes["mhz"] / H200.boost_mhz),
        (f"{notes['counted']:.0f} clocks a step, not {notes['ideal']:.0f}", at_clock(notes["mhz"])),
        ("measured in that run", notes["then"]),
    )
    return [{"limit": name, "tflops": rate, "share": 100 * rate / peak} for name, rate in left]


def left_shown() -> dict[str, Any]:
    """What `left_of_peak` gives, as a table takes it."""
    return {
        "rows": left_of_peak(),
        "caption": "hopper_5 at 8192: what its limits leave of the peak, one by one.",
        "headers": {"tflops": "TFLOP/s", "share": "% of peak"},
        "formats": {"tflops": ".0f", "share": ".0f"},
    }
