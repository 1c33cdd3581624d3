"""What the five documents print, set against counts, formulas and the record of the H200.

A function, or a few, a document.
"""

import math
from collections.abc import Iterable
from statistics import median
from typing import Any

from helpers.chapters.facts import Facts, counted, gain, printed_rates, recorded
from helpers.ladder import model
from helpers.ladder.launch import trace
from helpers.ladder.streams import bound
from helpers.ladder.usage import resources
from helpers.record import accuracy, costs, load, measure, published, transfers, tuned
from helpers.record.host import cpu_loops
from nogpu import device

SIZE = 8192
"""Edge of document L's matrices: its rate times its time is 2 * 8192^3 operations."""
_SIMT = ("naive", "coalesced", "tiled_16", "tiled_32", "block_1d", "block_2d", "vectorised")
L_RUNGS = (*_SIMT, "warp_tiled", "cublas_fp32")
LAPTOP, H200, T4, RTX = (device.gpu(k) for k in ("rtx3070_laptop", "h200", "t4", "rtx4090"))
Row = dict[str, Any]


def _printed(**wanted: str | int) -> list[Row]:
    return [*published(**wanted)]


def said(document: str, metric: str, **wanted: str | int) -> float:
    """The first number that a document prints of a metric."""
    return float(_printed(document=document, metric=metric, **wanted)[0]["value"])


def sectors(kernel: str, array: str) -> float:
    """Sectors a request of a kernel's loads from an array, in the emulator at 64."""
    every = trace(kernel, M=64, N=64, K=64).by_line()
    rows = [r for r in every if r.space == "global" and r.array == array and r.op == "load"]
    return sum(r.sectors for r in rows) / sum(r.requests for r in rows)


def gap(values: Iterable[float]) -> float:
    """How far the farthest of some ratios is from one."""
    return max(abs(v - 1) for v in values)


def printed() -> Facts:
    """Every number that the documents print, as they print it.

    Names: document, rung (or "card"), metric, as in `l_block_1d_speedup`; _2, _3 where it prints
    several.
    """
    out = Facts()
    for row in _printed():
        name = f"{row['document']}_{row['rung'] or 'card'}_{row['metric']}".lower()
        count = 1
        while (key := name if count == 1 else f"{name}_{count}") in out.numbers:
            count += 1
        out.numbers[key] = str(row["printed"])
    return out


# --- document L ----------------------------------------------------------------------------------


def lab_card() -> Facts:
    """L's GPU, its peaks and the ridge."""
    out = Facts()
    spec = {r["metric"]: r["value"] for r in _printed(document="L", kind="specified")}
    spec = {str(k).removeprefix("spec_"): float(v) for k, v in spec.items()}
    peak, bandwidth = said("L", "peak"), said("L", "bandwidth")
    out.say(
        l_sms=int(spec["sms"]), l_mhz=int(spec["memory_clock"]), l_bus=int(spec["bus_width"]),
        l_gbs=2 * spec["memory_clock"] * spec["bus_width"] / 8e3, l_peak=peak,
        l_lanes=LAPTOP.fp32_lanes_per_sm, l_ints=LAPTOP.fp32_lanes_per_sm // 2,
        l_ridge=said("L", "ridge"), l_ridge_right=1e3 * peak / bandwidth,
        l_ridge_binary=1e12 * peak / (bandwidth * 2**30), l_grid_x=int(spec["max_grid_x"]),
        l_grid_y=int(spec["max_grid_y"]), l_block_z=int(spec["max_block_z"]),
        l_mb=int(spec["global_memory"]),
    )  # fmt: skip
    limits = LAPTOP.limits
    out.check(
        "card",
        (spec["sms"], spec["max_threads_per_sm"], spec["max_warps_per_sm"], spec["l2"] * 1024)
        == (LAPTOP.sms, limits.max_threads_per_sm, limits.max_warps_per_sm, LAPTOP.l2_bytes)
        and (
            spec["shared_per_block"] * 1024,
            spec["shared_per_sm"] * 1024,
            spec["registers_per_block"],
        )
        == (limits.shared_per_block, limits.shared_per_sm, limits.registers_per_sm)
        and abs(LAPTOP.fp32_peak_gflops / 1e3 - peak) < 0.05,
    )
    out.check("ridge", said("L", "ridge") < 0.95 * 1e3 * peak / bandwidth)
    out.check("lanes", LAPTOP.fp32_lanes_per_sm == 128 == 4 * said("L", "fp32_lanes"))
    return out


def lab_copies() -> list[Row]:
    """L's two kernels with their copies, and what overlapping could save of each total at most."""
    rows = []
    for rung, name in (("naive", "MatmulXrow"), ("coalesced", "MatmulYrow")):
        part = {p: said("L", f"time_{p}", rung=rung) for p in ("h2d", "kernel", "d2h", "total")}
        half = part["h2d"] / 2
        steps = {"B": half, "A": half, "kernel": part["kernel"], "C": part["d2h"]}
        rows.append({"rung": name, **part, "gflops": said("L", "gflops", rung=rung),
                     "share": 100 * (part["h2d"] + part["d2h"]) / sum(steps.values()),
                     "most": 100 * (1 - bound(steps) / sum(steps.values()))})  # fmt: skip
    return rows


def copies_shown() -> Row:
    """`lab_copies` for a table."""
    return {
        "rows": lab_copies(),
        "caption": "Document L's times in ms (printed), copies in percent of the total, and what "
        "overlapping could save at most (computed).",
        "headers": {"rung": "kernel", "h2d": "copy in", "kernel": "kernel (ms)", "d2h": "copy out",
                    "gflops": "GFLOP/s", "share": "copies (%)", "most": "could save (%)"},
        "formats": {"h2d": ".2f", "kernel": ",.2f", "d2h": ".2f", "total": ",.2f", "gflops": ",.2f",
                    "share": ".1f", "most": ".1f"},
    }  # fmt: skip


def lab_rows() -> Facts:
    """L's MatmulXrow and MatmulYrow, their copies, and integers."""
    out = Facts()
    doc, times = printed_rates("L"), lab_copies()
    flop = doc["naive"] * 1e9 * times[0]["kernel"] * 1e-3
    steps = {"B": times[1]["h2d"] / 2, "A": times[1]["h2d"] / 2, "C": times[1]["d2h"],
             "kernel": model.flops(SIZE, SIZE, SIZE) / doc["warp_tiled"] / 1e6}  # fmt: skip
    into, back = (k * 4 * SIZE**2 / (times[1][p] * 1e6) for k, p in ((2, "h2d"), (1, "d2h")))
    link = [
        t["gbs"] for t in transfers("h200") if t["memory"] == "pageable" and t["direction"] == "h2d"
    ]
    pinned = [
        t["gbs"] for t in transfers("h200") if t["memory"] == "pinned" and t["direction"] == "h2d"
    ]
    warps, flop_step = 33, 64  # a warp's step of naive: 32 words of A in one bank and one row of B
    lookups = {g.key: r * 1e3 * warps / flop_step / g.sms / g.boost_mhz
               for g, r in ((LAPTOP, doc["naive"]), (H200, recorded("naive", SIZE)))}  # fmt: skip
    ints = {n: said("L", "time_total", rung=f"{n}_int") / said("L", "time_total", rung=n)
            for n in ("naive", "coalesced")}  # fmt: skip
    here = {n: gain(n, f"{n}_int", 4096) for n in ints}
    dram_ms = counted("naive")["dram_read_bytes"] / H200.bandwidth_gbs / 1e6
    out.say(
        l_edge=(flop / 2) ** (1 / 3), l_step=doc["coalesced"] / doc["naive"],
        h_step=gain("coalesced", "naive", SIZE), h_step_odd=gain("coalesced", "naive", 1025),
        xrow_a=sectors("naive", "A"), yrow_b=sectors("coalesced", "B"), l_in=into, l_out=back,
        l_most=times[1]["most"], l_in_h=max(link),
        l_pinned_h=max(pinned), l_warp_share=100 * (1 - steps["kernel"] / sum(steps.values())),
        l_warp_most=100 * (1 - bound(steps) / sum(steps.values())), l_lookups=lookups[LAPTOP.key],
        h_lookups=lookups[H200.key], l_int_naive=100 * (ints["naive"] - 1),
        l_int_coalesced=100 * (ints["coalesced"] - 1), h_int_naive=100 * (here["naive"] - 1),
        h_int_coalesced=100 * (here["coalesced"] - 1),
    )  # fmt: skip
    out.check("step", out.numbers["h_step"] > 1.3 * out.numbers["l_step"], recorded("naive", SIZE))
    out.check("odd", gain("coalesced", "naive", 1025) < 0.6 * gain("coalesced", "naive", SIZE))
    out.check("sectors", (sectors("naive", "A"), sectors("coalesced", "B")) == (32, 4))
    out.check(
        "pageable", min(link) < into < max(link) < 0.5 * max(pinned) and times[1]["most"] < 10
    )
    bank = lookups[LAPTOP.key] > 1.05 and 0.93 < lookups[H200.key] < 1.02
    out.check("bank", bank, recorded("naive", SIZE))
    out.check("ints", gap(ints.values()) < 0.05 and gap(here.values()) < 0.02, *here.values())
    out.check(
        "not dram", dram_ms < 0.02 * recorded("naive", 1024, "ms"), dram_ms, recorded("naive", 1024)
    )
    return out


def lab_tiles() -> Facts:
    """L's tiles of 16 and 32, their intensities and what was promised of them."""
    out = Facts()
    doc = printed_rates("L")
    names = ("coalesced", "tiled_16", "tiled_32")
    reach = {n: model.arithmetic_intensity(n, SIZE, SIZE, SIZE) for n in names}
    fill = {(n, g.key): resources(n, arch=g.arch).occupancy.fraction
            for n in ("coalesced", "tiled_16", "tiled_32") for g in (LAPTOP, H200)}  # fmt: skip
    observed = doc["coalesced"] / said("L", "bandwidth")
    out.say(
        l_16=doc["tiled_16"] / doc["coalesced"], l_32=doc["tiled_32"] / doc["coalesced"],
        h_16=gain("tiled_16", "coalesced", SIZE), h_32=gain("tiled_32", "coalesced", SIZE),
        l_ahead=100 * (doc["tiled_16"] / doc["tiled_32"] - 1),
        h_ahead=100 * (gain("tiled_32", "tiled_16", SIZE) - 1),
        fill_16=100 * fill["tiled_16", LAPTOP.key], fill_32=100 * fill["tiled_32", LAPTOP.key],
        ai_plain=reach["coalesced"], ai_32=reach["tiled_32"],
        promise_16=reach["tiled_16"] / reach["coalesced"],
        promise_32=reach["tiled_32"] / reach["coalesced"], observed=observed,
        l_gain_32=100 * (doc["tiled_32"] / doc["coalesced"] - 1),
        hits=counted("coalesced")["l1_hit_percent"],
    )  # fmt: skip
    ours = recorded("tiled_32", SIZE) < recorded("tiled_16", SIZE)
    out.check("order", doc["tiled_16"] > doc["tiled_32"] and not ours)
    full = fill["tiled_16", LAPTOP.key] == fill["tiled_32", H200.key] == 1
    part = fill["coalesced", LAPTOP.key] < 0.7 and 0.6 < fill["tiled_32", LAPTOP.key] < 0.7
    out.check("fill", part and full)
    plain, tiled = abs(reach["coalesced"] - 0.48479), abs(reach["tiled_32"] - 7.9844)
    out.check("formula", plain < 5e-6 and tiled < 5e-5)
    out.check("half", 0.48 < reach["tiled_16"] / reach["tiled_32"] < 0.52)
    out.check("observed", observed > 1.1 * reach["coalesced"])
    out.check("caches", not out.numbers["hits"] < 90)
    return out


def lab_ladder() -> list[Row]:
    """L's FP32 rungs beside the record at the same size: rates, the printed gain, three shares."""
    doc = printed_rates("L")
    text = {
        (r["rung"], r["printed_unit"]): str(r["printed"])
        for r in _printed(document="L", metric="speedup")
        if "against Block Tiling 32x32" in str(r["note"]) and r["section"] != "Conclusion"
    }
    rows = []
    for name in L_RUNGS:
        here = recorded(name, SIZE)
        rows.append({
            "rung": name, "l": doc[name],
            "printed": next((p for (rung, _), p in text.items() if rung == name), None),
            "h_over": here / recorded("tiled_32", SIZE),
            "l_peak": 100 * doc[name] / LAPTOP.fp32_peak_gflops,
            "h_peak": 100 * here / H200.fp32_peak_gflops,
            "l_lib": 100 * doc[name] / doc["cublas_fp32"],
            "h_lib": 100 * here / recorded("cublas_fp32", SIZE),
        })  # fmt: skip
    return rows


def ladder_shown() -> Row:
    """`lab_ladder` for a table."""
    shares = {"l_peak": "L: % of peak", "h_peak": "H200: % of peak"}
    shares |= {"l_lib": "L: % of cuBLAS", "h_lib": "H200: % of cuBLAS"}
    return {
        "rows": lab_ladder(),
        "caption": (
            "Document L (RTX 3070 Laptop) and the record (H200) at 8192. A dash: L prints "
            "no such gain."
        ),
        "headers": {
            "l": "L (GFLOP/s)",
            "printed": "over the tile of 32, as L prints it",
            "h_over": "over it, H200",
            **shares,
        },
        "formats": {"l": ",.2f", "h_over": ".2f", **dict.fromkeys(shares, ".1f")},
    }


def lab_points() -> list[Row]:
    """L's FP32 kernels as points for a roofline."""
    return [{"kernel": r["rung"], "size": SIZE, "gflops": r["l"], "origin": "published",
             "source": "published in document L"} for r in lab_ladder()[:-1]]  # fmt: skip


def lab_gains() -> list[Row]:
    """Rows for plots.bars: each rate over that of the coalesced kernel, L's and the record's."""
    doc = printed_rates("L")
    here = measure(list(L_RUNGS), sizes=[SIZE], gpu="h200")
    out: list[Row] = []
    for origin, source, of in (
        ("recorded", here.label, {n: recorded(n, SIZE) for n in L_RUNGS}),
        ("published", "published in document L", doc),
    ):
        gains = [(n, {"gain_over_coalesced": of[n] / of["coalesced"]}) for n in L_RUNGS]
        told = {"origin": origin, "source": source}
        out += [{"kernel": n, "size": SIZE, **gain, **told} for n, gain in gains]
    return [row for row in out if not math.isnan(row["gain_over_coalesced"])]


def lab_registers() -> Facts:
    """L's four kernels of Part 2 and its conclusion."""
    out = Facts()
    doc = printed_rates("L")
    pairs = {"block_1d": "tiled_32", "block_2d": "block_1d"}
    pairs |= {"vectorised": "block_2d", "warp_tiled": "vectorised"}
    for new, old in pairs.items():
        out.say(**{f"l_{new}": doc[new] / doc[old], f"h_{new}": gain(new, old, SIZE)})
    reuse = {n: counted(n)["multiply_adds_per_wavefront"] for n in ("tiled_32", "block_1d")}
    here = {n: recorded(n, SIZE) for n in (*L_RUNGS, "tiled_32")}

    def against(rungs: Iterable[str], base: str) -> dict[str, list[float]]:
        """L's rates and the record's over those of one of the rungs."""
        return {of: [r[n] / r[base] for n in rungs] for of, r in (("l", doc), ("h", here))}

    over, row = (against(L_RUNGS[4:8], base) for base in ("tiled_32", "coalesced"))
    lib = against(L_RUNGS[:-1], "cublas_fp32")
    listed = ", ".join
    out.say(
        l_tile_gains=listed(f"{x:.1f}" for x in over["l"]),
        h_tile_gains=listed(f"{x:.1f}" for x in over["h"]),
        l_row_gains=listed(f"{x:.1f}" for x in row["l"]),
        roof_tile=model.shared_roof(LAPTOP, reuse["tiled_32"]) / 1e3,
        roof_1d=model.shared_roof(LAPTOP, reuse["block_1d"]) / 1e3,
        exact_1d=doc["block_1d"] / doc["tiled_32"],
        l_of_lib=100 * doc["warp_tiled"] / doc["cublas_fp32"],
        h_of_lib=100 * recorded("warp_tiled", SIZE) / recorded("cublas_fp32", SIZE),
        l_span=doc["cublas_fp32"] / doc["naive"],
        h_span=recorded("cublas_fp32", SIZE) / recorded("naive", SIZE),
        l_lib_peak=100 * doc["cublas_fp32"] / LAPTOP.fp32_peak_gflops,
        h_lib_peak=100 * recorded("cublas_fp32", SIZE) / H200.fp32_peak_gflops,
        l_naive_peak=100 * doc["naive"] / LAPTOP.fp32_peak_gflops,
        h_naive_peak=100 * recorded("naive", SIZE) / H200.fp32_peak_gflops,
        l_row_peak=100 * doc["coalesced"] / LAPTOP.fp32_peak_gflops,
        h_row_peak=100 * recorded("coalesced", SIZE) / H200.fp32_peak_gflops,
    )  # fmt: skip
    flat = [x for pair in (over, row, lib) for x in pair["h"]]
    out.check("leads", all(a > b for a, b in zip(over["l"], over["h"], strict=True))
              and all(a > b for a, b in zip(row["l"], row["h"], strict=True)), *flat)  # fmt: skip
    tail = all(h > a for a, h in zip(lib["l"][1:], lib["h"][1:], strict=True))
    out.check("library", lib["h"][0] < lib["l"][0] and tail, *flat)
    out.check("cut", 2.935 < doc["block_1d"] / doc["tiled_32"] < 2.945)
    roofs = reuse["block_1d"] / reuse["tiled_32"]
    out.check("roofs", 1.5 < roofs < 0.95 * doc["block_1d"] / doc["tiled_32"], roofs)
    slope = {n: doc[n] / LAPTOP.bandwidth_gbs / model.arithmetic_intensity(n, SIZE, SIZE, SIZE)
             for n in ("tiled_16", "tiled_32")}  # fmt: skip
    out.say(l_slope=100 * slope["tiled_16"])
    out.check("slope", 0.7 < slope["tiled_16"] < 1 and doc["tiled_32"] < doc["tiled_16"])
    steps = [float(out.numbers[f"h_{n}"]) for n in ("block_2d", "vectorised")]
    out.check("larger", doc["block_2d"] / doc["block_1d"] > 1.03 * steps[0], *steps)
    n = out.numbers
    out.check(
        "ends",
        float(n["h_span"]) > 1.1 * float(n["l_span"])
        and 0.93 < float(n["h_lib_peak"]) / float(n["l_lib_peak"]) < 1.07
        and float(n["h_naive_peak"]) < 0.9 * float(n["l_naive_peak"]),
        float(n["h_span"]),
    )
    return out


def lab_tensor() -> Facts:
    """L's Tensor Core kernel and cuBLAS."""
    out = Facts()
    doc = printed_rates("L")
    ratio = {g.key: g.peak_gflops("fp16") / g.fp32_peak_gflops for g in (LAPTOP, H200)}
    # FP32 sums: a 16x16x16 product of 2 * 16^3 FLOP on the four Tensor Cores of an SM of L's card.
    clocks = 2 * 16**3 / LAPTOP.tensor_fp16_flop_per_clock_per_sm
    error = {(e["kernel"], e["m"]): e["frobenius"] for e in accuracy("h200")}
    worse = error["cublas_fp16", 4096] / error["cublas_fp32", 4096]
    tf32 = error["cublas_fast_16bf", 4096] / error["cublas_tf32", 4096]
    mixed, own = doc["cublas_fast_16bf"], doc["wmma_launch_l"]
    names = ("tiled_16", "wmma_launch_l", "warp_tiled")
    watt = {n: recorded(n, 4096) / recorded(n, 4096, "power_w") for n in names}
    best_tile = tuned("wmma_tiled", 4096) or {"cublas_ratio": math.nan, "tiles": 0}
    best, tiles = 100 * float(best_tile["cublas_ratio"]), int(best_tile["tiles"])
    moved = {n: trace(n, M=64, N=64, K=128).sectors() - trace(n, M=64, N=64, K=64).sectors()
             for n in ("tiled_16", "wmma")}  # fmt: skip
    out.say(
        tile_clocks=clocks, l_steps=ratio[LAPTOP.key], h_steps=ratio[H200.key], worse=worse,
        l_over=own / doc["tiled_16"],
        h_over=recorded("wmma_launch_l", SIZE) / recorded("tiled_16", SIZE),
        l_of_peak=100 * own / LAPTOP.peak_gflops("fp16"), l_half=100 * own / doc["cublas_fp32"],
        l_of_mixed=100 * own / mixed, l_mixed=mixed / 1e3, l_tf32=LAPTOP.peak_gflops("tf32") / 1e3,
        l_mixed_over=mixed / doc["cublas_fp32"],
        h_mixed_over=recorded("cublas_fast_16bf", SIZE) / recorded("cublas_fp32", SIZE),
        watt_own=watt["wmma_launch_l"], watt_tile=watt["tiled_16"], watt_warp=watt["warp_tiled"],
        h_lib_16=recorded("cublas_fp32", SIZE) / recorded("tiled_16", SIZE),
        h_mixed_16=recorded("cublas_fast_16bf", SIZE) / recorded("tiled_16", SIZE), wmma_best=best,
        wmma_tiles=tiles, l_lib=doc["cublas_fp32"] / doc["warp_tiled"],
        h_lib=recorded("cublas_fp32", SIZE) / recorded("warp_tiled", SIZE),
    )  # fmt: skip
    out.check("clocks", clocks > 4)
    out.check("accuracy", worse > 100)
    out.check("bytes", 0.98 < moved["wmma"] / moved["tiled_16"] < 1.02)
    out.check("idle", own < 0.3 * LAPTOP.peak_gflops("fp16"))
    tile, wmma, warp = watt.values()
    out.check("watts", wmma > 2 * tile and wmma < 0.95 * warp, *watt.values())
    lead = out.numbers["l_over"] > 1.2 * out.numbers["h_over"]
    out.check("over", lead and ratio[LAPTOP.key] < ratio[H200.key], out.numbers["h_over"])
    out.check("half", 0.45 < own / doc["cublas_fp32"] < 0.55 and own < 0.3 * mixed)
    out.check("bf16", mixed > LAPTOP.peak_gflops("tf32") and 0.99 < tf32 < 1.01)
    out.check("choosing", best < 60, best)
    return out


# --- document B ----------------------------------------------------------------------------------


def blog() -> Facts:
    """B's three times, on a CPU and on a T4."""
    out = Facts()
    ms = {str(r["rung"]): float(r["value"]) for r in _printed(document="B")}
    flop = 2 * 1024 * 1024 * 768 / 1e6
    at = cpu_loops((1024, 1024, 768), unoptimised=True, gpu="h200")
    loops = {n: at.value(n, "gflops") for n in ("ijk", "ijk_unoptimised", "numpy")}
    out.say(
        b_cpu=flop / ms["cpu_ijk"], b_fast=loops["ijk"], b_slow=loops["ijk_unoptimised"],
        b_numpy=loops["numpy"], b_plain=flop / ms["coalesced"], b_tile=flop / ms["tiled_16"],
        b_gain=ms["coalesced"] / ms["tiled_16"],
        b_plain_peak=100 * flop / ms["coalesced"] / T4.fp32_peak_gflops,
        h_gain=gain("tiled_16", "coalesced", 1024), b_claim=ms["cpu_ijk"] / ms["coalesced"],
    )  # fmt: skip
    out.check("cpu", flop / ms["cpu_ijk"] < min(loops["ijk"], loops["ijk_unoptimised"]))
    out.check("numpy", loops["numpy"] > 50 * loops["ijk"] > 50 * loops["ijk_unoptimised"])
    out.check("low", flop / ms["tiled_16"] < 0.1 * T4.fp32_peak_gflops)
    return out


def over_a_cpu() -> list[Row]:
    """The first kernels of B and P and of the record, over CPU loops: the same GPU, any factor."""
    b = {str(r["rung"]): float(r["value"]) for r in _printed(document="B")}
    p = {(r["rung"], r["block"]): float(r["value"]) for r in _printed(document="P")
         if r["m"] == 1024 and r["unit"] == "ms"}  # fmt: skip
    host = {r["kernel"]: r["ms"] for r in load("h200").find("host", m=1024, n=1024, k=1024)}
    here = recorded("coalesced", 1024, "ms")
    rows: list[Row] = [
        {"who": "B, T4", "cpu": "C++ loop", "cpu_ms": b["cpu_ijk"], "gpu_ms": b["coalesced"]},
        {"who": "P, RTX 4090", "cpu": "C++ "
        "loop", "cpu_ms": p["cpu_ijk", ""], "gpu_ms": p["tiled_32", "32x32"]},
    ]  # fmt: skip
    loops = {"ijk": "C++ loop, the same order", "ikj": "C++ loop, good order", "numpy": "NumPy"}
    for key, name in loops.items():
        rows.append({"who": "the record, H200", "cpu": name, "cpu_ms": host[key], "gpu_ms": here})
    return [{**r, "factor": r["cpu_ms"] / r["gpu_ms"]} for r in rows]


# --- document S ----------------------------------------------------------------------------------

S_NAMES = {
    "coalesced": "V1", "unrolled": "V2", "tiled": "V3", "coarsened": "V4",
    "privatised_2": "V5, two", "privatised_4": "V5, four", "tiled_pad_rows": "V6",
}  # fmt: skip


def _study() -> dict[tuple[str, str, int], float]:
    """S's rates by rung ("tiled" for both of its tiles), block and size."""
    out = {}
    for r in _printed(document="S", metric="gflops"):
        rung = "tiled" if r["rung"] in ("tiled_16", "tiled_32") else str(r["rung"])
        out[rung, str(r["block"]), int(r["m"])] = float(r["value"])
    return out


def _here(rung: str, size: int) -> float:
    return recorded("tiled_32" if rung == "tiled" else rung, size)


def study_table() -> list[Row]:
    """S's seven tables in GFLOP/s, by block and size; beside them the H200 at 2048, over V1."""
    doc = _study()
    rows = []
    for rung, name in S_NAMES.items():
        row: Row = {"rung": f"{name}: {rung}"}
        for block in ("16x16", "32x32"):
            row |= {f"{block} {n}": doc[rung, block, n] for n in (512, 1024, 2048)}
        row["s"] = doc[rung, "32x32", 2048] / doc["coalesced", "32x32", 2048]
        row["h"] = _here(rung, 2048) / _here("coalesced", 2048)
        rows.append(row)
    return rows


def study_shown() -> Row:
    """`study_table` for a table."""
    columns = [f"{block} {n}" for block in ("16x16", "32x32") for n in (512, 1024, 2048)]
    return {
        "rows": study_table(),
        "caption": (
            "Document S in GFLOP/s by block and size; the last two columns are times V1 at "
            "2048: S with 32x32, and the H200."
        ),
        "headers": {"rung": "version", "s": "S: x V1", "h": "H200: x V1"},
        "formats": dict.fromkeys([*columns, "s", "h"], ".2f"),
    }


def study() -> Facts:
    """S's six versions."""
    out = Facts()
    doc = _study()
    blocks, sizes = ("16x16", "32x32"), (512, 1024, 2048)
    over = {(r, b): doc[r, b, 2048] / doc["coalesced", b, 2048] for r in S_NAMES for b in blocks}
    here = {r: _here(r, 2048) / _here("coalesced", 2048) for r in S_NAMES}
    moved = {(n, b): doc["unrolled", b, n] / doc["coalesced", b, n] for n in sizes for b in blocks}
    odd = moved.pop((1024, "16x16"))
    losses = [doc["coalesced", b, n] / doc["coarsened", b, n] for n in sizes for b in blocks]
    halves = [doc["privatised_2", b, n] / doc["privatised_4", b, n] for n in sizes for b in blocks]
    at_2048 = [doc["privatised_2", b, 2048] / doc["privatised_4", b, 2048] for b in blocks]
    below = [
        doc["privatised_2", b, n] / doc["privatised_4", b, n] for n in (512, 1024) for b in blocks
    ]
    six = [doc["tiled_pad_rows", b, n] / doc["tiled", b, n] for n in sizes for b in blocks]
    grows = [
        8 * doc["coalesced", b, n] / doc["coalesced", b, 2 * n] for n in (512, 1024) for b in blocks
    ]
    banks = H200.sms * H200.boost_mhz * 128 / 1e3
    built = [resources(n, arch="sm_90") for n in ("coarsened", "privatised_2", "privatised_4")]
    spilled = sum(r.spill_stores + r.spill_loads for r in built)
    out.say(
        s_sms=int(said("S", "spec_sms")),
        s_odd=100 * (1 - odd),
        s_loss_low=min(losses),
        s_loss_high=max(losses),
        h_loss=1 / here["coarsened"],
        s_grows_low=min(grows),
        s_grows_high=max(grows),
        s_32=doc["tiled", "32x32", 2048],
        s_16=doc["tiled", "16x16", 2048],
        s_v6=doc["tiled_pad_rows", "32x32", 2048],
        s_half_low=min(halves),
        s_half_high=max(halves),
        s_half=median(halves),
        s_b=sectors("coarsened", "B"),
        banks_tbs=banks / 1e3,
        dram_tbs=H200.bandwidth_gbs / 1e3,
        banks_over=banks / H200.bandwidth_gbs,
        s_tile=over["tiled", "32x32"],
        h_tile=here["tiled"],
        s_half_2048_low=min(at_2048),
        s_half_2048_high=max(at_2048),
        s_half_rest_low=min(below),
        s_half_rest_high=max(below),
        latency_over=costs.little("DRAM", H200).clocks / costs.little("shared memory", H200).clocks,
    )
    out.check(
        "unrolled",
        gap(moved.values()) < 0.08 and 0.6 < odd < 0.72 and not gap([here["unrolled"]]) > 0.1,
    )
    out.check(
        "coarsened", all(over["coarsened", b] < 0.6 for b in blocks) and not here["coarsened"] > 0.6
    )
    out.check("cubic", min(grows) > 6.5 and max(grows) < 9.5)
    out.check(
        "tile",
        all((doc["tiled", "32x32", n] < doc["tiled", "16x16", n]) == (n == 2048) for n in sizes)
        and doc["tiled_pad_rows", "32x32", 2048] > doc["tiled", "16x16", 2048],
    )
    out.check("less", here["tiled"] < min(over["tiled", b] for b in blocks), here["tiled"])
    out.check(
        "v5",
        all(
            doc[f"privatised_{r}", b, n] < doc["tiled", b, n]
            for r in (2, 4)
            for b in blocks
            for n in sizes
        )
        and 1.8 < median(halves) < 2.2
        and not here["privatised_4"] < 1.1,
    )
    out.check("least", max(at_2048) < min(below))
    out.check("32", all(doc["tiled", "32x32", n] >= doc["tiled", "16x16", n] for n in (512, 1024)))
    out.check("spills", spilled == 0)
    ahead = over["tiled_pad_rows", "32x32"] > over["tiled", "32x32"]
    mine = here["tiled_pad_rows"] > here["tiled"]
    out.check("v6", sum(x < 1 for x in six) == 1 and ahead and not mine)
    out.check("high", all(doc["tiled", b, n] > 500 for b in blocks for n in (512, 1024)))
    return out


# --- document P ----------------------------------------------------------------------------------


def tuning_table() -> list[Row]:
    """P's tiles: its times read as microseconds, what its profiler said, and the record at 1024."""
    doc = _printed(document="P")
    beside = {("tiled_32", "32x32"): "tiled_32", ("tiled_padded", "32x32"): "tiled_padded",
              ("tiled_padded", "8x8"): "tiled_8", ("tiled_rect", "8x32"): "tiled_rect"}  # fmt: skip
    rows = []
    for (rung, block), name in beside.items():
        mine = [r for r in doc if (r["rung"], r["block"]) == (rung, block)]
        us = {r["m"]: 1e3 * r["value"] for r in mine if r["metric"] == "time_kernel"}
        profile = {r["metric"]: r["value"] for r in mine if r["m"] is None}
        rows.append({
            "tile": block, "padded": "no" if rung == "tiled_32" else "yes", "a": us[1024],
            "b": us[1025], "filled": profile.get("occupancy"), "busy": profile.get("sm_throughput"),
            "p_peak": 100 * 2 * 1024**3 / us[1024] / 1e3 / RTX.fp32_peak_gflops, "kernel": name,
            "h_peak": 100 * recorded(name, 1024) / H200.fp32_peak_gflops,
        })  # fmt: skip
    return rows


def tuning_shown() -> Row:
    """`tuning_table` for a table."""
    return {
        "rows": tuning_table(),
        "caption": "Document P's tiles: times in microseconds (printed as ms) at 1024 and 1025; by "
        "its profiler occupancy and throughput of the SM (%); % of peak at 1024, and the record's "
        "nearest kernel.",
        "headers": {
            "a": "1024", "b": "1025", "filled": "occ.", "busy": "SM", "p_peak": "peak: P",
            "kernel": "here", "h_peak": "peak: H200",
        },
        "formats": {
            "a": ",.1f", "b": ",.1f", "filled": ".2f", "busy": ".2f", "p_peak": ".1f",
            "h_peak": ".1f",
        },
    }  # fmt: skip


def tuning() -> Facts:
    """P's steps on an RTX 4090."""
    out = Facts()
    first, padded, small, rect = tuning_table()
    host = load("h200").find("host", m=1024, n=1024, k=1024)
    one_core = max(r["gflops"] for r in host if r["kernel"] in ("ijk", "ikj", "jki"))
    cpu = {r["m"]: r for r in _printed(document="P", rung="cpu_ijk")}
    loop = {n: model.flops(n, n, n) / cpu[n]["value"] / 1e6 for n in (1024, 1025)}
    ijk = {n: cpu_loops(n, gpu="h200").value("ijk", "gflops") for n in (1024, 1025)}
    profile = {(r["metric"], r["block"]): r["value"] for r in _printed(document="P")}
    slope = RTX.bandwidth_gbs * model.arithmetic_intensity("tiled_32", 1024, 1024, 1024)
    rows = trace("tiled_8", M=64, N=64, K=64).by_line()
    loads = [r for r in rows if r.space == "global" and r.op == "load"]
    out.say(
        p_printed=first["a"], p_slow=2 * 1024**3 / first["a"] / 1e6,
        p_fast=2 * 1024**3 / first["a"] / 1e3, p_core=one_core, p_peak=first["p_peak"],
        h_peak=first["h_peak"], p_slope=100 * 2 * 1024**3 / first["a"] / 1e3 / slope,
        p_minutes=float(str(cpu[1024]["printed"])) / 6e4, p_loop=loop[1024], ijk_1024=ijk[1024],
        ijk_1025=ijk[1025], p_pad_1024=100 * (first["a"] / padded["a"] - 1),
        p_pad_1025=100 * (first["b"] / padded["b"] - 1),
        h_pad=100 * (gain("tiled_padded", "tiled_32", 1024) - 1), p_fill=padded["filled"],
        p_fill_rect=rect["filled"],
        p_formula=100 * resources("tiled_32", arch="sm_89").occupancy.fraction,
        p_busy=padded["busy"],
        p_by_shared=resources("tiled_32", arch="sm_89").occupancy.by["shared memory"],
        p_busy_rect=rect["busy"], p_l1=profile["l1_throughput", "8x8"],
        p_fill_8=profile["occupancy", "8x8"], p_warps=int(profile["theoretical_warps", "8x8"]),
        p_blocks=int(profile["blocks_per_sm", "8x32"]),
        p_used=100 * sum(r.bytes for r in loads) / (32 * sum(r.sectors for r in loads)),
        p_times=float(str(cpu[1024]["printed"])) / first["a"],
    )  # fmt: skip
    over = {
        k: first["a"] / r["a"] for k, r in (("padded", padded), ("small", small), ("rect", rect))
    }
    twins = {"padded": "tiled_padded", "small": "tiled_8", "rect": "tiled_rect"}
    here = {k: gain(n, "tiled_32", 1024) for k, n in twins.items()}
    out.check("microseconds", 2 * 1024**3 / first["a"] / 1e6 < one_core)
    slow = 2 * 1024**3 / first["a"] / 1e3 < 0.6 * slope
    out.check("level", first["p_peak"] < 0.4 * first["h_peak"] and slow, first["h_peak"])
    out.check("loop", ijk[1024] < loop[1024] < ijk[1025] and loop[1025] < 1.05 * loop[1024])
    out.check(
        "padding", 0.97 < over["padded"] < 1.03 and 0.97 < here["padded"] < 1.03, here["padded"]
    )
    out.check("small", over["small"] < 0.92 and here["small"] < 0.92, here["small"])
    least = min(first["b"], padded["b"])
    rect_ok = 0.99 < over["rect"] < 1.01 and rect["b"] < least and here["rect"] < 0.96
    out.check("rect", rect_ok, here["rect"])
    out.check("used", out.numbers["p_used"] == 100)
    out.check("swapped", small["b"] < small["a"])
    return out
