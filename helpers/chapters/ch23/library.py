"""What the record holds of cuBLAS: rates, power, errors, by precision."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from helpers.chapters.facts import recorded
from helpers.record import accuracy, load
from helpers.record.gpu import to_tf32
from nogpu import device
from nogpu.bfloat16 import from_bfloat16, to_bfloat16

CALLS = ("cublas_fp32", "cublas_tf32", "cublas_fast_16bf", "cublas_fp16", "cublas_bf16")
SIZES = (512, 1024, 1025, 2048, 4096, 8192)
LEFT = "frobenius_rounded_inputs"
H200 = device.gpu("h200")
Row = dict[str, Any]


def rates() -> list[Row]:
    """TFLOP/s of each call by size."""
    return [{"call": c, **{str(n): recorded(c, n) / 1e3 for n in SIZES}} for c in CALLS]


def timed_for(call: str, n: int) -> float:
    """How long a call was timed in all: pairs with itself, launches of a sample, in ms."""
    [p] = load("h200").find("points", kernel=call, m=n, n=n, k=n)
    return float(p["pairs"] * p["repeat"] * (p["ms"] + p["baseline_ms"]))


def power() -> list[Row]:
    """At 8192: clock, power, how long it was timed, rate."""
    return [
        {
            "call": c,
            "SM clock (MHz)": recorded(c, 8192, "clock_mhz"),
            "power (W)": recorded(c, 8192, "power_w"),
            "run (ms)": timed_for(c, 8192),
            "TFLOP/s": recorded(c, 8192) / 1e3,
        }
        for c in CALLS
    ]


def speed() -> SimpleNamespace:
    """Rates in TFLOP/s by call and size (at), clocks (mhz), power (watt), how long a call ran in ms
    (run), and what a watt brings (joule) at 8192."""
    at = {(c, n): recorded(c, n) / 1e3 for c in CALLS for n in SIZES}
    watt = {(c, n): recorded(c, n, "power_w") for c in CALLS for n in (4096, 8192)}
    mhz = {(c, n): recorded(c, n, "clock_mhz") for c in CALLS for n in (4096, 8192)}
    run = {(c, n): timed_for(c, n) for c in CALLS for n in (4096, 8192)}
    joule = {c: 1e3 * at[c, 8192] / watt[c, 8192] for c in CALLS}
    return SimpleNamespace(
        gpu=load("h200").gpu["name"], small_tiles=(512 // 128) ** 2, sms=H200.sms,
        power_limit=float(load("h200").gpu["power_limit_w"]), at=at, watt=watt, mhz=mhz, run=run,
        joule=joule, small_us=1e3 * recorded("cublas_fp16", 512, "ms"),
        fp32=at["cublas_fp32", 4096],
        fp32_peak=1e5 * at["cublas_fp32", 4096] / H200.fp32_peak_gflops,
        fp16=at["cublas_fp16", 4096],
        fp16_peak=1e5 * at["cublas_fp16", 8192] / H200.peak_gflops("fp16"),
        fp16_ratio=at["cublas_fp16", 4096] / at["cublas_fp32", 4096],
        small=100 * at["cublas_fp16", 512] / at["cublas_fp16", 8192],
        ragged=at["cublas_fp16", 1024] / at["cublas_fp16", 1025], tf32_4096=at["cublas_tf32", 4096],
        tf32_8192=at["cublas_tf32", 8192], tf32_mhz=mhz["cublas_tf32", 8192],
        tf32_w=watt["cublas_tf32", 8192], fp32_w=watt["cublas_fp32", 8192],
        tf32_run_4096=run["cublas_tf32", 4096], tf32_run=run["cublas_tf32", 8192],
        fp16_run=run["cublas_fp16", 8192], fp16_w=watt["cublas_fp16", 8192],
        fp16_w_4096=watt["cublas_fp16", 4096], fp32_joule=joule["cublas_fp32"],
        tf32_joule=joule["cublas_tf32"], more_joule=joule["cublas_tf32"] / joule["cublas_fp32"],
    )  # fmt: skip


def accurate() -> SimpleNamespace:
    """Errors of whole products against float64: error by call at the largest size (err), what is
    left for rounded inputs (remains), and both over those at the smallest size."""
    found = {(e["kernel"], e["m"]): e for e in accuracy()}
    low, high = min(n for _, n in found), max(n for _, n in found)
    err = {c: found[c, high]["frobenius"] for c in CALLS}
    left = {c: found[c, high][LEFT] for c in CALLS}
    grow = {c: left[c] / found[c, low][LEFT] for c in ("cublas_fp32", "cublas_fp16")}
    return SimpleNamespace(
        small_n=low, err_n=high, err=err, remains=left,
        err_grows={c: err[c] / found[c, low]["frobenius"] for c in CALLS},
        err_tf32=err["cublas_tf32"] / err["cublas_fp32"],
        err_bf16_fp16=err["cublas_bf16"] / err["cublas_fp16"],
        input_part=err["cublas_fp16"] / left["cublas_fp16"],
        left_fp16=left["cublas_fp16"] / err["cublas_fp32"], left=left["cublas_fp16"],
        grow_fp32=grow["cublas_fp32"], grow_fp16=grow["cublas_fp16"],
        fast_ratio=err["cublas_bf16"] / err["cublas_fast_16bf"],
    )  # fmt: skip


def runnable() -> list[str]:
    """The calls that the GPU at hand can run, by its compute capability; all of them without one.

    FP32 runs everywhere, FP16 from 7.0 on, TF32 and BF16 from 8.0 on.
    """
    here = device.current()
    number = 90 if here is None else int(here.arch.removeprefix("sm_"))
    needs = {"cublas_fp32": 0, "cublas_fp16": 70}
    return [name for name in CALLS if number >= needs.get(name, 80)]


SHORTENED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "TF32": to_tf32,
    "FP16": lambda X: X.astype(np.float16),
    "BF16": lambda X: from_bfloat16(to_bfloat16(X)),
}
"""By format: float32 values rounded to it."""


def errs_like(error: Callable[[Callable[[np.ndarray], np.ndarray], int], float]) -> bool:
    """Whether the recorded errors at 4096 are those of exact products of rounded inputs.

    error: relative error by format of SHORTENED and K.
    """
    err = accurate().err
    ratios = [err[f"cublas_{name.lower()}"] / error(f, 4096) for name, f in SHORTENED.items()]
    return all(0.9 < ratio < 1.1 for ratio in ratios)


def half_as_fast() -> bool:
    """Whether TF32 at 4096 has about half the rate of FP16 and of BF16."""
    tf32, *two_bytes = (recorded(f"cublas_{name.lower()}", 4096) for name in SHORTENED)
    return all(1.6 < rate / tf32 < 2.2 for rate in two_bytes)


def errors_shown() -> Row:
    """For a table: errors against float64 by size, and against the product of rounded inputs."""
    by_call = {(e["kernel"], e["m"]): e for e in accuracy()}
    edges = sorted({n for _, n in by_call})
    rows = [
        {
            "call": c,
            **{str(n): by_call[c, n]["frobenius"] for n in edges},
            "largest": by_call[c, edges[-1]]["max_error"],
            "rounded inputs": by_call[c, edges[-1]][LEFT],
        }
        for c in CALLS
    ]
    return {
        "rows": rows,
        "formats": dict.fromkeys(list(rows[0])[1:], ".1e"),
        "caption": (
            "Error against float64 for N(0, 1) matrices: relative (Frobenius norm), by "
            "size; at the larger also the largest absolute error, and the relative one against the "
            "product of the rounded inputs."
        ),
    }


def formats_shown() -> Row:
    """Formats of the inputs for a table: bits, rounding error, largest number."""
    rows: list[Row] = []
    bits = {"FP32": (8, 24), "TF32": (8, 11), "FP16": (5, 11), "BF16": (8, 8)}
    for name, (exponent, significand) in bits.items():
        off = 2.0**-significand
        row = {"format": name, "exponent bits": exponent, "significand bits": significand}
        largest = 2.0 ** (2 ** (exponent - 1)) * (1 - off)
        rows.append({**row, "rounding error": off, "largest": largest})
    caption = "Formats of the inputs. The significand counts the leading one."
    formats = {"rounding error": ".1e", "largest": ".2g"}
    return {"rows": rows, "formats": formats, "caption": caption}
