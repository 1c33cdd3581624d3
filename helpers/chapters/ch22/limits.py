"""The rows of chapter 22's tables: rounds of tiles, what took how much power, what is left of the peak."""

from __future__ import annotations

from typing import Any

from helpers import device
from helpers.chapters.ch22.pictures import stream_k_share
from helpers.chapters.ch22.tries import said
from helpers.measuring import load, measure, stalls
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
    """Of the record: points that steps `gain`; clocks in which Tensor Cores work (`tensor`, %) at 4096, by
    kernel; `rounds` of tiles by size; microseconds that step 6 takes longer than step 5 at 4096 (`loss`);
    TFLOP/s of cuBLAS `beside` step 5 at 8192; registers of a `packed` tile; `sms` of the GPU."""
    rec, p = (
        measure(["hopper_5", "hopper_6"], sizes=[4096, 8192], gpu="h200"),
        catalog["hopper_5"].params,
    )
    rate, ratio = (rec.value("hopper_5", 8192, what) for what in ("gflops", "cublas_ratio"))
    return {
        "gain": gains(),
        "tensor": {row["kernel"]: row["tensor_percent"] for row in stalls(STEPS, gpu="h200")},
        "rounds": {size: rounds(size) for size in (1024, 4096, 8192)},
        "loss": 1e3 * (rec.value("hopper_6", 4096) - rec.value("hopper_5", 4096)),
        "beside": rate / ratio / 1e3,
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


def runs(size: int = 8192) -> list[dict[str, Any]]:
    """Of each kernel of the climb and of cuBLAS: TFLOP/s, MHz and W as nvidia-smi had them, and
    milliseconds of the run, all pairs with cuBLAS."""
    names = [*STEPS, "hopper_5_fp16", "cublas_bf16", "cublas_fp16"]
    rec = measure(names, sizes=[size], gpu="h200")
    return [
        {"kernel": name, "tflops": rec.value(name, size, "gflops") / 1e3,
         "clock": rec.value(name, size, "clock_mhz"), "power": rec.value(name, size, "power_w"),
         "run": p["pairs"] * p["repeat"] * (p["ms"] + p["baseline_ms"])}
        for name in names
        for p in load("h200").find("points", kernel=name, m=size, n=size, k=size)
    ]  # fmt: skip


def spans(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Of runs: ms of the shortest whose clock had fallen (`warm`), and of the longest whose had not (`cool`),
    and how many of the first drew less than nine tenths of the board's power, or of the second more."""
    warm = [row for row in rows if row["clock"] < H200.boost_mhz]
    cool = [row for row in rows if row["clock"] >= H200.boost_mhz]
    near = 0.9 * H200.watts
    odd = [r for r in warm if r["power"] <= near] + [r for r in cool if r["power"] > near]
    return {
        "warm": min(row["run"] for row in warm), "cool": max(row["run"] for row in cool),
        "odd": len(odd), "watts": H200.watts, "boost": H200.boost_mhz,
    }  # fmt: skip


def left_of_peak(size: int = 8192) -> list[dict[str, Any]]:
    """What remains of the peak, TFLOP/s and %, as the limits of hopper_5 are taken off one by one."""
    rec, notes = measure(["hopper_5"], sizes=[size], gpu="h200"), said()
    peak, clock = H200.peak_gflops("bf16") / 1e3, rec.value("hopper_5", size, "clock_mhz")
    blocks = lay_out("hopper_5", size, size, size).grid[0]
    used = peak * blocks / H200.sms
    counted = used * notes["mhz"] / H200.boost_mhz
    left = (
        ("the peak, at the highest clock", peak),
        (f"on {blocks} of {H200.sms} SMs", used),
        (f"at {clock:.0f} MHz, as nvidia-smi reported", used * clock / H200.boost_mhz),
        (f"at {notes['mhz']:.0f} MHz, as counted in the kernel (notes)", counted),
        (f"{notes['counted']:.0f} clocks a step, not {notes['ideal']:.0f} (notes)",
         counted * notes["ideal"] / notes["counted"]),
        ("measured in the record", rec.value("hopper_5", size, "gflops") / 1e3),
    )  # fmt: skip
    return [{"limit": name, "tflops": rate, "share": 100 * rate / peak} for name, rate in left]
