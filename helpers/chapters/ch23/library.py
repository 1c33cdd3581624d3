"""What the record holds of cuBLAS: rates, power, errors, by precision."""

from __future__ import annotations

from typing import Any

from helpers.chapters.facts import Facts, recorded
from helpers.record import accuracy, load
from nogpu import device

CALLS = ("cublas_fp32", "cublas_tf32", "cublas_fast_16bf", "cublas_fp16", "cublas_bf16")
SIZES = (512, 1024, 1025, 2048, 4096, 8192)
LEFT = "frobenius_rounded_inputs"
H200 = device.gpu("h200")
Row = dict[str, Any]


def input_formats() -> list[Row]:
    """Formats of the inputs: bits, rounding error, largest number."""
    rows: list[Row] = []
    for name, exponent, significand in (
        ("FP32", 8, 24),
        ("TF32", 8, 11),
        ("FP16", 5, 11),
        ("BF16", 8, 8),
    ):
        off = 2.0**-significand
        rows.append({"format": name, "exponent bits": exponent, "significand bits": significand,
                     "rounding error": off, "largest": 2.0 ** (2 ** (exponent - 1)) * (1 - off)})  # fmt: skip
    return rows


def rates() -> list[Row]:
    """TFLOP/s of each call by size."""
    return [{"call": c, **{str(n): recorded(c, n) / 1e3 for n in SIZES}} for c in CALLS]


def timed_for(call: str, n: int) -> float:
    """How long a call was timed in all: pairs with itself, launches of a sample, in ms."""
    [p] = load("h200").find("points", kernel=call, m=n, n=n, k=n)
    return float(p["pairs"] * p["repeat"] * (p["ms"] + p["baseline_ms"]))


def power() -> list[Row]:
    """At 8192: clock, power, how long it was timed, rate."""
    return [{"call": c, "SM clock (MHz)": recorded(c, 8192, "clock_mhz"), "power "
    "(W)": recorded(c, 8192, "power_w"),
             "run (ms)": timed_for(c, 8192), "TFLOP/s": recorded(c, 8192) / 1e3} for c in CALLS]  # fmt: skip


def errors() -> list[Row]:
    """Errors against float64 by size, and against the product of the rounded inputs."""
    by_call = {(e["kernel"], e["m"]): e for e in accuracy()}
    edges = sorted({n for _, n in by_call})
    return [{"call": c, **{str(n): by_call[c, n]["frobenius"] for n in edges}, "largest": by_call[c, edges[-1]]["max_error"],
             "rounded inputs": by_call[c, edges[-1]][LEFT]} for c in CALLS]  # fmt: skip


def speed() -> Facts:
    """Rates, clocks and power."""
    out, limit = Facts(), float(load("h200").gpu["power_limit_w"])
    at = {(c, n): recorded(c, n) for c in CALLS for n in SIZES}
    watt = {(c, n): recorded(c, n, "power_w") for c in CALLS for n in (4096, 8192)}
    mhz = {(c, n): recorded(c, n, "clock_mhz") for c in CALLS for n in (4096, 8192)}
    run = {c: timed_for(c, 8192) for c in CALLS}
    joule = {c: at[c, 8192] / watt[c, 8192] for c in CALLS}
    out.say(
        gpu=load("h200").gpu["name"], small_tiles=(512 // 128) ** 2, sms=H200.sms,
        power_limit=limit, small_us=1e3 * recorded("cublas_fp16", 512, "ms"),
        fp32=at["cublas_fp32", 4096] / 1e3,
        fp32_peak=100 * at["cublas_fp32", 4096] / H200.fp32_peak_gflops,
        fp16=at["cublas_fp16", 4096] / 1e3,
        fp16_peak=100 * at["cublas_fp16", 8192] / H200.peak_gflops("fp16"),
        fp16_ratio=at["cublas_fp16", 4096] / at["cublas_fp32", 4096],
        small=100 * at["cublas_fp16", 512] / at["cublas_fp16", 8192],
        ragged=at["cublas_fp16", 1024] / at["cublas_fp16", 1025],
        tf32_4096=at["cublas_tf32", 4096] / 1e3, tf32_8192=at["cublas_tf32", 8192] / 1e3,
        tf32_mhz=mhz["cublas_tf32", 8192], tf32_w=watt["cublas_tf32", 8192], fp32_w=watt["cublas_fp32", 8192],
        tf32_run_4096=timed_for("cublas_tf32", 4096), tf32_run=run["cublas_tf32"],
        fp16_run=run["cublas_fp16"], fp16_w=watt["cublas_fp16", 8192],
        fp16_w_4096=watt["cublas_fp16", 4096], fp32_joule=joule["cublas_fp32"],
        tf32_joule=joule["cublas_tf32"], more_joule=joule["cublas_tf32"] / joule["cublas_fp32"],
    )  # fmt: skip
    out.check("other bits", at["cublas_fp16", 4096] > 10 * at["cublas_fp32", 4096])
    out.check("too few", at["cublas_fp16", 512] < 0.2 * at["cublas_fp16", 8192])
    out.check("ragged", at["cublas_fp16", 1024] > 2 * at["cublas_fp16", 1025])
    out.check("falls", at["cublas_tf32", 8192] < 0.98 * at["cublas_tf32", 4096]
              and run["cublas_tf32"] > 2 * timed_for("cublas_tf32", 4096))  # fmt: skip
    out.check("short runs", max(run[c] for c in CALLS[3:]) < 0.6 * min(run[c] for c in CALLS[:3])
              and min(mhz[c, 8192] for c in CALLS[3:]) >= H200.boost_mhz)  # fmt: skip
    out.check(
        "clock",
        mhz["cublas_tf32", 8192] < 0.95 * mhz["cublas_tf32", 4096]
        and watt["cublas_tf32", 8192] > 0.97 * limit,
    )
    out.check(
        "per watt",
        joule["cublas_tf32"] > 2 * joule["cublas_fp32"]
        and min(watt[c, 8192] for c in CALLS[:2]) > 0.95 * limit,
    )
    out.check("story", all(watt[c, 8192] < 0.8 * watt[c, 4096] for c in CALLS[3:]))
    out.check(
        "not the peak", max(float(out.numbers["fp32_peak"]), float(out.numbers["fp16_peak"])) < 90
    )
    return out


def accurate() -> Facts:
    """Errors of whole products against float64."""
    out = Facts()
    sizes = sorted({e["m"] for e in accuracy()})
    least, most = (
        {e["kernel"]: e for e in accuracy() if e["m"] == n} for n in (sizes[0], sizes[-1])
    )
    err = {c: most[c]["frobenius"] for c in CALLS}
    left = {c: most[c][LEFT] for c in CALLS}
    grow = {c: left[c] / least[c][LEFT] for c in ("cublas_fp32", "cublas_fp16")}
    out.say(
        small_n=sizes[0], err_n=sizes[-1], err_tf32=err["cublas_tf32"] / err["cublas_fp32"],
        err_bf16_fp16=err["cublas_bf16"] / err["cublas_fp16"],
        input_part=err["cublas_fp16"] / left["cublas_fp16"],
        left_fp16=left["cublas_fp16"] / err["cublas_fp32"], left=left["cublas_fp16"],
        grow_fp32=grow["cublas_fp32"], grow_fp16=grow["cublas_fp16"],
        fast_ratio=err["cublas_bf16"] / err["cublas_fast_16bf"],
    )  # fmt: skip
    out.check("loss", err["cublas_tf32"] > 20 * err["cublas_fp32"])
    out.check("three bits", 7 < err["cublas_bf16"] / err["cublas_fp16"] < 9)
    out.check("inputs", all(err[c] > 10 * left[c] for c in CALLS[3:]))
    out.check("same", all(0.95 < err[c] / least[c]["frobenius"] < 1.05 for c in CALLS[1:]))
    out.check("left", left["cublas_fp16"] > 1.5 * err["cublas_fp32"])
    out.check("root", 1.6 < grow["cublas_fp32"] < 2.5)
    out.check("one sign", 3.2 < grow["cublas_fp16"] < 4.8)
    out.check(
        "tf32",
        err["cublas_fast_16bf"] == err["cublas_tf32"]
        and err["cublas_bf16"] > 4 * err["cublas_fast_16bf"],
    )
    return out
