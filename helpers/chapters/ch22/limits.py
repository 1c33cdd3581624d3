"""The rows of chapter 22's tables: rounds of tiles, one kernel at two powers, what is left of the peak."""

from __future__ import annotations

from typing import Any

from helpers import costs, device
from helpers.chapters.ch22.pictures import stream_k_share
from helpers.chapters.ch22.tries import said
from helpers.measuring import measure, stalls
from helpers.rungs import catalog, lay_out

H200 = device.gpu("h200")
STEPS = tuple(f"hopper_{i}" for i in range(1, 7))


def percent(name: str, size: int) -> float:
    """A kernel's share of cuBLAS at a size in the record of the H200, in percent."""
    return 100 * measure([name], sizes=[size], gpu="h200").value(name, size, "cublas_ratio")


def gains(sizes: tuple[int, ...] = (4096, 8192)) -> dict[str, float]:
    """Points of cuBLAS that steps 4, 5 and 6 give over the one before, by step and size: "5_4096"."""
    return {
        f"{i}_{size}": percent(f"hopper_{i}", size) - percent(f"hopper_{i - 1}", size)
        for i in (4, 5, 6)
        for size in sizes
    }


def found() -> dict[str, Any]:
    """Of the record: points that steps `gain`; `rounds` of tiles by size; microseconds that step 6 takes
    longer than step 5 at 4096 (`loss`); registers of a `packed` tile; `sms` of the GPU; percent of step 3's
    time in which its Tensor Cores are `busy` by ncu, and would be `needed` at their peak."""
    rec, p = (
        measure(["hopper_5", "hopper_6"], sizes=[4096, 8192], gpu="h200"),
        catalog["hopper_5"].params,
    )
    three, [waits] = costs.bounds("hopper_3", 4096, gpu="h200"), stalls("hopper_3")
    return {
        "gain": gains(),
        "busy": waits["tensor_percent"],
        "needed": 100 * (three.share or 0),
        "rounds": {size: rounds(size) for size in (1024, 4096, 8192)},
        "loss": 1e3 * (rec.value("hopper_6", 4096) - rec.value("hopper_5", 4096)),
        "packed": p["BM"] // 128 * p["BN"] // 4,
        "sms": H200.sms,
    }


def rounds(size: int) -> dict[str, Any]:
    """Pairs of tiles of hopper_5 over the clusters that an H200 has room for: rounds and busy share (%),
    whole and cut; MB of sums that cut tiles hand over. A model: handing over takes no time."""
    p, room = catalog["hopper_5"].params, H200.sms // 2
    pairs = -(-size // (2 * p["BM"])) * -(-size // p["BN"])
    found = stream_k_share(pairs, room, -(-size // 64))
    return {
        "size": size, "pairs": pairs, "whole": found["whole"], "cut": found["cut"],
        "saved": found["whole"] - found["cut"], "whole_busy": 100 * found["whole_busy"],
        "cut_busy": 100 * found["cut_busy"], "blocks": lay_out("hopper_5", size, size, size).grid[0],
        "handed": found["cut_tiles"] * 2 * p["BM"] * p["BN"] * 4 / 1e6,
    }  # fmt: skip


def twice() -> list[dict[str, Any]]:
    """Step 5 at 8192 as it was recorded, and launched without a pause in the tuning notes: TFLOP/s, MHz and W
    as nvidia-smi had them, % of cuBLAS."""
    rec, notes = measure(["hopper_5"], sizes=[8192], gpu="h200"), said()
    return [
        {"protocol": "recorded", "tflops": rec.value("hopper_5", 8192, "gflops") / 1e3,
         "clock": rec.value("hopper_5", 8192, "clock_mhz"),
         "power": rec.value("hopper_5", 8192, "power_w"), "share": percent("hopper_5", 8192)},
        {"protocol": "without a pause (notes)", "tflops": notes["sustained"],
         "clock": notes["sustained_mhz"], "power": notes["sustained_w"],
         "share": 100 * notes["sustained"] / notes["library"]},
    ]  # fmt: skip


def at_clock(mhz: float) -> float:
    """TFLOP/s of hopper_5 at 8192, were every clock of its SMs as the one that the notes counted."""
    notes, blocks = said(), lay_out("hopper_5", 8192, 8192, 8192).grid[0]
    peak = H200.peak_gflops("bf16") / 1e3 * mhz / H200.boost_mhz
    return peak * blocks / H200.sms * notes["ideal"] / notes["counted"]


def left_of_peak() -> list[dict[str, Any]]:
    """What remains of the peak, TFLOP/s and %, as the limits of hopper_5 at 8192 are taken off one by one,
    in the run in which it counted its clocks."""
    notes, peak = said(), H200.peak_gflops("bf16") / 1e3
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
