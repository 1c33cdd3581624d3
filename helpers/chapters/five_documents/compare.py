"""What the five documents print, set against counts, formulas and the record of the H200.

A function, or a few, a document; those that end in "shown" give what `table` takes.
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


def quoted(document: str, metric: str, **wanted: str | int) -> float:
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
    rows = _printed(document="L", kind="specified")
    spec = {str(r["metric"]).removeprefix("spec_"): float(r["value"]) for r in rows}
    peak, bandwidth = quoted("L", "peak"), quoted("L", "bandwidth")
    out.say(
        l_sms=int(spec["sms"]), l_mhz=int(spec["memory_clock"]), l_bus=int(spec["bus_width"]),
        l_gbs=2 * spec["memory_clock"] * spec["bus_width"] / 8e3, l_peak=peak,
        l_lanes=LAPTOP.fp32_lanes_per_sm, l_ints=LAPTOP.fp32_lanes_per_sm // 2,
        l_ridge=quoted("L", "ridge"), l_ridge_right=1e3 * peak / bandwidth,
        l_ridge_binary=1e12 * peak / (bandwidth * 2**30), l_grid_x=int(spec["max_grid_x"]),
        l_grid_y=int(spec["max_grid_y"]), l_block_z=int(spec["max_block_z"]),
        l_mb=int(spec["global_memory"]),
    )  # fmt: skip
    limits = LAPTOP.limits
    stated = {
        "sms": LAPTOP.sms, "max_threads_per_sm": limits.max_threads_per_sm,
        "max_warps_per_sm": limits.max_warps_per_sm, "l2": LAPTOP.l2_bytes / 1024,
        "shared_per_block": limits.shared_per_block / 1024,
        "shared_per_sm": limits.shared_per_sm / 1024,
        "registers_per_block": limits.registers_per_sm,
    }  # fmt: skip
    right = stated.items() <= spec.items() and abs(LAPTOP.fp32_peak_gflops / 1e3 - peak) < 0.05
    out.check("card", right)
    out.check("ridge", quoted("L", "ridge") < 0.95 * 1e3 * peak / bandwidth)
    out.check("lanes", LAPTOP.fp32_lanes_per_sm == 128 == 4 * quoted("L", "fp32_lanes"))
    return out


def copies_shown() -> Row:
    """L's two kernels with their copies, and what overlapping could save of each total at most."""
    rows = []
    for rung, name in (("naive", "MatmulXrow"), ("coalesced", "MatmulYrow")):
        part = {p: quoted("L", f"time_{p}", rung=rung) for p in ("h2d", "kernel", "d2h", "total")}
        half = part["h2d"] / 2
        steps = {"B": half, "A": half, "kernel": part["kernel"], "C": part["d2h"]}
        rows.append({"rung": name, **part, "gflops": quoted("L", "gflops", rung=rung),
                     "share": 100 * (part["h2d"] + part["d2h"]) / sum(steps.values()),
                     "most": 100 * (1 - bound(steps) / sum(steps.values()))})  # fmt: skip
    return {
        "rows": rows,
        "caption": "Document L's times in ms (printed), copies in percent of the total, and what "
        "overlapping could save at most (computed).",
        "headers": {"rung": "kernel", "h2d": "copy in", "kernel": "kernel (ms)", "d2h": "copy out",
                    "gflops": "GFLOP/s", "share": "copies (%)", "most": "could save (%)"},
        "formats": {"h2d": ".2f", "kernel": ",.2f", "d2h": ".2f", "total": ",.2f", "gflops": ",.2f",
                    "share": ".1f", "most": ".1f"},
    }  # fmt: skip


def lab_rows() -> Facts:
    """L's MatmulXrow and MatmulYrow, their copies, and integers."""
    out, doc = Facts(), printed_rates("L")
    by_column, by_row = copies_shown()["rows"]
    flop = doc["naive"] * 1e9 * by_column["kernel"] * 1e-3
    steps = {"B": by_row["h2d"] / 2, "A": by_row["h2d"] / 2, "C": by_row["d2h"],
             "kernel": model.flops(SIZE, SIZE, SIZE) / doc["warp_tiled"] / 1e6}  # fmt: skip
    into, back = (k * 4 * SIZE**2 / (by_row[p] * 1e6) for k, p in ((2, "h2d"), (1, "d2h")))
    copied = [t for t in transfers("h200") if t["direction"] == "h2d"]
    link, pinned = (
        [t["gbs"] for t in copied if t["memory"] == memory] for memory in ("pageable", "pinned")
    )
    warps, flop_step = 33, 64  # a warp's step of naive: 32 words of A in one bank and one row of B
    lookups = {g.key: r * 1e3 * warps / flop_step / g.sms / g.boost_mhz
               for g, r in ((LAPTOP, doc["naive"]), (H200, recorded("naive", SIZE)))}  # fmt: skip
    ints = {n: quoted("L", "time_total", rung=f"{n}_int") / quoted("L", "time_total", rung=n)
            for n in ("naive", "coalesced")}  # fmt: skip
    here = {n: gain(n, f"{n}_int", 4096) for n in ints}
    dram_ms = counted("naive")["dram_read_bytes"] / H200.bandwidth_gbs / 1e6
    step, step_odd = (gain("coalesced", "naive", n) for n in (SIZE, 1025))
    out.say(
        l_edge=(flop / 2) ** (1 / 3), l_step=doc["coalesced"] / doc["naive"], h_step=step,
        h_step_odd=step_odd, xrow_a=sectors("naive", "A"), yrow_b=sectors("coalesced", "B"),
        l_in=into, l_out=back, l_most=by_row["most"], l_in_h=max(link), l_pinned_h=max(pinned),
        l_warp_share=100 * (1 - steps["kernel"] / sum(steps.values())),
        l_warp_most=100 * (1 - bound(steps) / sum(steps.values())), l_lookups=lookups[LAPTOP.key],
        h_lookups=lookups[H200.key],
    )  # fmt: skip
    for whose, ratios in (("l", ints), ("h", here)):
        out.say(**{f"{whose}_int_{n}": 100 * (ratio - 1) for n, ratio in ratios.items()})
    out.check("step", step > 1.3 * out.numbers["l_step"], recorded("naive", SIZE))
    out.check("odd", step_odd < 0.6 * step)
    out.check("sectors", (out.numbers["xrow_a"], out.numbers["yrow_b"]) == (32, 4))
    slow = min(link) < into < max(link) < 0.5 * max(pinned)
    out.check("pageable", slow and by_row["most"] < 10)
    bank = lookups[LAPTOP.key] > 1.05 and 0.93 < lookups[H200.key] < 1.02
    out.check("bank", bank, recorded("naive", SIZE))
    out.check("ints", gap(ints.values()) < 0.05 and gap(here.values()) < 0.02, *here.values())
    took = recorded("naive", 1024, "ms")
    out.check("not dram", dram_ms < 0.02 * took, dram_ms, took)
    return out


def lab_tiles() -> Facts:
    """L's tiles of 16 and 32, their intensities and what was promised of them."""
    out, doc = Facts(), printed_rates("L")
    names = ("coalesced", "tiled_16", "tiled_32")
    plain, small, large = (model.arithmetic_intensity(n, SIZE, SIZE, SIZE) for n in names)
    fill = {(n, g.key): resources(n, arch=g.arch).occupancy.fraction
            for n in names for g in (LAPTOP, H200)}  # fmt: skip
    observed = doc["coalesced"] / quoted("L", "bandwidth")
    out.say(
        l_32=doc["tiled_32"] / doc["coalesced"],
        h_16=gain("tiled_16", "coalesced", SIZE), h_32=gain("tiled_32", "coalesced", SIZE),
        l_ahead=100 * (doc["tiled_16"] / doc["tiled_32"] - 1),
        h_ahead=100 * (gain("tiled_32", "tiled_16", SIZE) - 1),
        fill_16=100 * fill["tiled_16", LAPTOP.key], fill_32=100 * fill["tiled_32", LAPTOP.key],
        ai_plain=plain, ai_32=large, promise_16=small / plain, promise_32=large / plain,
        l_gain_32=100 * (doc["tiled_32"] / doc["coalesced"] - 1),
        hits=counted("coalesced")["l1_hit_percent"],
    )  # fmt: skip
    ours = recorded("tiled_32", SIZE) < recorded("tiled_16", SIZE)
    out.check("order", doc["tiled_16"] > doc["tiled_32"] and not ours)
    full = fill["tiled_16", LAPTOP.key] == fill["tiled_32", H200.key] == 1
    part = fill["coalesced", LAPTOP.key] < 0.7 and 0.6 < fill["tiled_32", LAPTOP.key] < 0.7
    out.check("fill", part and full)
    out.check("formula", abs(plain - 0.48479) < 5e-6 and abs(large - 7.9844) < 5e-5)
    out.check("half", 0.48 < small / large < 0.52)
    out.check("observed", observed > 1.1 * plain)
    out.check("caches", not out.numbers["hits"] < 90)
    return out


def ladder_shown() -> Row:
    """L's FP32 rungs beside the record at the same size: rates, the printed gain, three shares."""
    doc, here = printed_rates("L"), {n: recorded(n, SIZE) for n in L_RUNGS}
    text = {
        r["rung"]: str(r["printed"])
        for r in reversed(_printed(document="L", metric="speedup"))
        if "against Block Tiling 32x32" in str(r["note"]) and r["section"] != "Conclusion"
    }
    rows = [
        {
            "rung": name, "l": doc[name], "printed": text.get(name),
            "h_over": here[name] / here["tiled_32"],
            "l_peak": 100 * doc[name] / LAPTOP.fp32_peak_gflops,
            "h_peak": 100 * here[name] / H200.fp32_peak_gflops,
            "l_lib": 100 * doc[name] / doc["cublas_fp32"],
            "h_lib": 100 * here[name] / here["cublas_fp32"],
        }
        for name in L_RUNGS
    ]  # fmt: skip
    shares = {"l_peak": "L: % of peak", "h_peak": "H200: % of peak"}
    shares |= {"l_lib": "L: % of cuBLAS", "h_lib": "H200: % of cuBLAS"}
    gains = {"printed": "over the tile of 32, as L prints it", "h_over": "over it, H200"}
    return {
        "rows": rows,
        "caption": "Document L (RTX 3070 Laptop) and the record (H200) at 8192. A dash: L prints "
        "no such gain.",
        "headers": {"l": "L (GFLOP/s)", **gains, **shares},
        "formats": {"l": ",.2f", "h_over": ".2f", **dict.fromkeys(shares, ".1f")},
    }


def lab_points() -> list[Row]:
    """L's FP32 kernels as points for a roofline."""
    doc, source = printed_rates("L"), {"origin": "published", "source": "published in document L"}
    return [{"kernel": n, "size": SIZE, "gflops": doc[n], **source} for n in L_RUNGS[:-1]]


def lab_gains() -> list[Row]:
    """Rows for plots.bars: each rate over that of the coalesced kernel, L's and the record's."""
    here = measure(list(L_RUNGS), sizes=[SIZE], gpu="h200")
    out: list[Row] = []
    for origin, source, of in (
        ("recorded", here.label, {n: recorded(n, SIZE) for n in L_RUNGS}),
        ("published", "published in document L", printed_rates("L")),
    ):
        common = {"size": SIZE, "origin": origin, "source": source}
        gains = {n: of[n] / of["coalesced"] for n in L_RUNGS}
        known = {n: gain for n, gain in gains.items() if not math.isnan(gain)}
        out += [{"kernel": n, "gain_over_coalesced": gain, **common} for n, gain in known.items()]
    return out


def lab_registers() -> Facts:
    """L's four kernels of Part 2 and its conclusion."""
    out, doc = Facts(), printed_rates("L")
    here = {n: recorded(n, SIZE) for n in L_RUNGS}
    pairs = {"block_1d": "tiled_32", "block_2d": "block_1d"}
    pairs |= {"vectorised": "block_2d", "warp_tiled": "vectorised"}
    for new, old in pairs.items():
        out.say(**{f"l_{new}": doc[new] / doc[old], f"h_{new}": gain(new, old, SIZE)})
    reuse = {n: counted(n)["multiply_adds_per_wavefront"] for n in ("tiled_32", "block_1d")}

    def against(rungs: Iterable[str], base: str) -> dict[str, list[float]]:
        """L's rates and the record's over those of one of the rungs."""
        return {of: [r[n] / r[base] for n in rungs] for of, r in (("l", doc), ("h", here))}

    over, row = (against(L_RUNGS[4:8], base) for base in ("tiled_32", "coalesced"))
    lib = against(L_RUNGS[:-1], "cublas_fp32")
    for whose, rates, card in (("l", doc, LAPTOP), ("h", here, H200)):
        for name, rung in (("lib", "cublas_fp32"), ("naive", "naive"), ("row", "coalesced")):
            out.say(**{f"{whose}_{name}_peak": 100 * rates[rung] / card.fp32_peak_gflops})
        out.say(**{
            f"{whose}_of_lib": 100 * rates["warp_tiled"] / rates["cublas_fp32"],
            f"{whose}_span": rates["cublas_fp32"] / rates["naive"],
            f"{whose}_tile_gains": ", ".join(f"{x:.1f}" for x in over[whose]),
        })  # fmt: skip
    slope = {n: doc[n] / LAPTOP.bandwidth_gbs / model.arithmetic_intensity(n, SIZE, SIZE, SIZE)
             for n in ("tiled_16", "tiled_32")}  # fmt: skip
    exact = doc["block_1d"] / doc["tiled_32"]
    out.say(
        l_row_gains=", ".join(f"{x:.1f}" for x in row["l"]), exact_1d=exact,
        roof_tile=model.shared_roof(LAPTOP, reuse["tiled_32"]) / 1e3,
        roof_1d=model.shared_roof(LAPTOP, reuse["block_1d"]) / 1e3,
        l_slope=100 * slope["tiled_16"],
    )  # fmt: skip
    flat = [x for pair in (over, row, lib) for x in pair["h"]]
    leads = (a > b for ratios in (over, row) for a, b in zip(*ratios.values(), strict=True))
    out.check("leads", all(leads), *flat)
    behind, *ahead = (h > a for a, h in zip(lib["l"], lib["h"], strict=True))
    out.check("library", not behind and all(ahead), *flat)
    out.check("cut", 2.935 < exact < 2.945)
    roofs = reuse["block_1d"] / reuse["tiled_32"]
    out.check("roofs", 1.5 < roofs < 0.95 * exact, roofs)
    out.check("slope", 0.7 < slope["tiled_16"] < 1 and doc["tiled_32"] < doc["tiled_16"])
    n = out.numbers
    steps = n["h_block_2d"], n["h_vectorised"]
    out.check("larger", doc["block_2d"] / doc["block_1d"] > 1.03 * steps[0], *steps)
    alike = 0.93 < n["h_lib_peak"] / n["l_lib_peak"] < 1.07
    wider = n["h_span"] > 1.1 * n["l_span"] and n["h_naive_peak"] < 0.9 * n["l_naive_peak"]
    out.check("ends", wider and alike, n["h_span"])
    return out


def lab_tensor() -> Facts:
    """L's Tensor Core kernel and cuBLAS."""
    out, doc = Facts(), printed_rates("L")
    names = ("tiled_16", "warp_tiled", "wmma_launch_l", "cublas_fp32", "cublas_fast_16bf")
    here = {n: recorded(n, SIZE) for n in names}
    ratio = {g.key: g.peak_gflops("fp16") / g.fp32_peak_gflops for g in (LAPTOP, H200)}
    # FP32 sums: a 16x16x16 product of 2 * 16^3 FLOP on the four Tensor Cores of an SM of L's card.
    clocks = 2 * 16**3 / LAPTOP.tensor_fp16_flop_per_clock_per_sm
    error = {e["kernel"]: e["frobenius"] for e in accuracy("h200") if e["m"] == 4096}
    worse = error["cublas_fp16"] / error["cublas_fp32"]
    mixed, own, half = doc["cublas_fast_16bf"], doc["wmma_launch_l"], LAPTOP.peak_gflops("fp16")
    watt = {n: recorded(n, 4096) / recorded(n, 4096, "power_w") for n in names[:3]}
    tile, warp, wmma = watt.values()
    best_tile = tuned("wmma_tiled", 4096) or {"cublas_ratio": math.nan, "tiles": 0}
    best, tiles = 100 * float(best_tile["cublas_ratio"]), int(best_tile["tiles"])
    moved = {n: trace(n, M=64, N=64, K=128).sectors() - trace(n, M=64, N=64, K=64).sectors()
             for n in ("tiled_16", "wmma")}  # fmt: skip
    over = here["wmma_launch_l"] / here["tiled_16"]
    out.say(
        tile_clocks=clocks, l_steps=ratio[LAPTOP.key], h_steps=ratio[H200.key], worse=worse,
        l_over=own / doc["tiled_16"], h_over=over, l_of_peak=100 * own / half,
        l_half=100 * own / doc["cublas_fp32"], l_of_mixed=100 * own / mixed, l_mixed=mixed / 1e3,
        l_tf32=LAPTOP.peak_gflops("tf32") / 1e3, l_mixed_over=mixed / doc["cublas_fp32"],
        h_mixed_over=here["cublas_fast_16bf"] / here["cublas_fp32"], watt_own=wmma, watt_tile=tile,
        watt_warp=warp, h_lib_16=here["cublas_fp32"] / here["tiled_16"],
        h_mixed_16=here["cublas_fast_16bf"] / here["tiled_16"], wmma_best=best, wmma_tiles=tiles,
        h_lib=here["cublas_fp32"] / here["warp_tiled"],
    )  # fmt: skip
    out.check("clocks", clocks > 4)
    out.check("accuracy", worse > 100)
    out.check("bytes", 0.98 < moved["wmma"] / moved["tiled_16"] < 1.02)
    out.check("idle", own < 0.3 * half)
    out.check("watts", wmma > 2 * tile and wmma < 0.95 * warp, *watt.values())
    lead = out.numbers["l_over"] > 1.2 * over
    out.check("over", lead and ratio[LAPTOP.key] < ratio[H200.key], over)
    out.check("half", 0.45 < own / doc["cublas_fp32"] < 0.55 and own < 0.3 * mixed)
    alike = 0.99 < error["cublas_fast_16bf"] / error["cublas_tf32"] < 1.01
    out.check("bf16", mixed > LAPTOP.peak_gflops("tf32") and alike)
    out.check("choosing", best < 60, best)
    return out


# --- document B ----------------------------------------------------------------------------------


def blog() -> Facts:
    """B's three times, on a CPU and on a T4."""
    out = Facts()
    ms = {str(r["rung"]): float(r["value"]) for r in _printed(document="B")}
    flop = 2 * 1024 * 1024 * 768 / 1e6
    at = cpu_loops((1024, 1024, 768), unoptimised=True, gpu="h200")
    fast, slow, numpy = (at.value(n, "gflops") for n in ("ijk", "ijk_unoptimised", "numpy"))
    out.say(
        b_cpu=flop / ms["cpu_ijk"], b_fast=fast, b_slow=slow, b_numpy=numpy,
        b_plain=flop / ms["coalesced"], b_gain=ms["coalesced"] / ms["tiled_16"],
        b_plain_peak=100 * flop / ms["coalesced"] / T4.fp32_peak_gflops,
        h_gain=gain("tiled_16", "coalesced", 1024), b_claim=ms["cpu_ijk"] / ms["coalesced"],
    )  # fmt: skip
    out.check("cpu", flop / ms["cpu_ijk"] < min(fast, slow))
    out.check("numpy", numpy > 50 * fast > 50 * slow)
    out.check("low", flop / ms["tiled_16"] < 0.1 * T4.fp32_peak_gflops)
    return out


def over_a_cpu() -> list[Row]:
    """The first kernels of B and P and of the record, over CPU loops: the same GPU, any factor."""
    b = {str(r["rung"]): float(r["value"]) for r in _printed(document="B")}
    p = {(r["rung"], r["block"]): float(r["value"]) for r in _printed(document="P")
         if r["m"] == 1024 and r["unit"] == "ms"}  # fmt: skip
    host = {r["kernel"]: r["ms"] for r in load("h200").find("host", m=1024, n=1024, k=1024)}
    here = recorded("coalesced", 1024, "ms")
    loops = {"ijk": "C++ loop, the same order", "ikj": "C++ loop, good order", "numpy": "NumPy"}
    rows = [
        ("B, T4", "C++ loop", b["cpu_ijk"], b["coalesced"]),
        ("P, RTX 4090", "C++ loop", p["cpu_ijk", ""], p["tiled_32", "32x32"]),
        *(("the record, H200", name, host[key], here) for key, name in loops.items()),
    ]
    return [
        {"who": who, "cpu": loop, "cpu_ms": cpu, "gpu_ms": gpu, "factor": cpu / gpu}
        for who, loop, cpu, gpu in rows
    ]


# --- document S ----------------------------------------------------------------------------------

S_NAMES = {
    "coalesced": "V1", "unrolled": "V2", "tiled": "V3", "coarsened": "V4",
    "privatised_2": "V5, two", "privatised_4": "V5, four", "tiled_pad_rows": "V6",
}  # fmt: skip
S_BLOCKS, S_SIZES = ("16x16", "32x32"), (512, 1024, 2048)


def _study() -> dict[tuple[str, str, int], float]:
    """S's rates by rung ("tiled" for both of its tiles), block and size."""
    out = {}
    for r in _printed(document="S", metric="gflops"):
        rung = "tiled" if r["rung"] in ("tiled_16", "tiled_32") else str(r["rung"])
        out[rung, str(r["block"]), int(r["m"])] = float(r["value"])
    return out


def _here() -> dict[str, float]:
    """Rates of the H200 at 2048 over that of V1, by S's rungs."""
    at = {rung: recorded("tiled_32" if rung == "tiled" else rung, 2048) for rung in S_NAMES}
    return {rung: rate / at["coalesced"] for rung, rate in at.items()}


def study_shown() -> Row:
    """S's seven tables in GFLOP/s, by block and size; beside them the H200 at 2048, over V1."""
    doc, here = _study(), _here()
    columns = {f"{block} {n}": (block, n) for block in S_BLOCKS for n in S_SIZES}
    return {
        "rows": [
            {
                "rung": f"{name}: {rung}",
                **{column: doc[rung, *at] for column, at in columns.items()},
                "s": doc[rung, "32x32", 2048] / doc["coalesced", "32x32", 2048],
                "h": here[rung],
            }
            for rung, name in S_NAMES.items()
        ],
        "caption": "Document S in GFLOP/s by block and size; the last two columns are times V1 at "
        "2048: S with 32x32, and the H200.",
        "headers": {"rung": "version", "s": "S: x V1", "h": "H200: x V1"},
        "formats": dict.fromkeys([*columns, "s", "h"], ".2f"),
    }


def study() -> Facts:
    """S's six versions."""
    out, doc, here = Facts(), _study(), _here()

    def over(rung: str, base: str, sizes: Iterable[int] = S_SIZES) -> dict[Any, float]:
        """One rung's rates over another's, by size and block."""
        return {(n, b): doc[rung, b, n] / doc[base, b, n] for n in sizes for b in S_BLOCKS}

    moved = over("unrolled", "coalesced")
    odd = moved.pop((1024, "16x16"))
    halves = over("privatised_2", "privatised_4")
    at_2048 = [ratio for (n, _), ratio in halves.items() if n == 2048]
    below = [ratio for (n, _), ratio in halves.items() if n < 2048]
    grows = [8 * doc["coalesced", b, n] / doc["coalesced", b, 2 * n]
             for n in (512, 1024) for b in S_BLOCKS]  # fmt: skip
    tile = {(n, b): doc["tiled", b, n] for n in S_SIZES for b in S_BLOCKS}
    tile_over, six = over("tiled", "coalesced", [2048]), over("tiled_pad_rows", "tiled")
    banks = H200.sms * H200.boost_mhz * 128 / 1e3
    built = [resources(n, arch="sm_90") for n in ("coarsened", "privatised_2", "privatised_4")]
    six_large = doc["tiled_pad_rows", "32x32", 2048]
    out.say(
        s_sms=int(quoted("S", "spec_sms")), s_odd=100 * (1 - odd), h_loss=1 / here["coarsened"],
        s_32=tile[2048, "32x32"], s_16=tile[2048, "16x16"], s_v6=six_large,
        s_half=median(halves.values()), s_b=sectors("coarsened", "B"), banks_tbs=banks / 1e3,
        dram_tbs=H200.bandwidth_gbs / 1e3, banks_over=banks / H200.bandwidth_gbs,
        s_tile=tile_over[2048, "32x32"], h_tile=here["tiled"],
        latency_over=costs.little("DRAM", H200).clocks / costs.little("shared memory", H200).clocks,
    )  # fmt: skip
    out.ends(
        s_loss=over("coalesced", "coarsened").values(), s_grows=grows, s_half=halves.values(),
        s_half_2048=at_2048, s_half_rest=below,
    )  # fmt: skip
    same = gap(moved.values()) < 0.08 and not gap([here["unrolled"]]) > 0.1
    out.check("unrolled", same and 0.6 < odd < 0.72)
    slow = max(over("coarsened", "coalesced", [2048]).values()) < 0.6
    out.check("coarsened", slow and not here["coarsened"] > 0.6)
    out.check("cubic", min(grows) > 6.5 and max(grows) < 9.5)
    behind = [tile[n, "32x32"] < tile[n, "16x16"] for n in S_SIZES]
    out.check("tile", behind == [False, False, True] and six_large > tile[2048, "16x16"])
    out.check("less", here["tiled"] < min(tile_over.values()), here["tiled"])
    fifth = max(max(over(f"privatised_{r}", "tiled").values()) for r in (2, 4))
    twice = 1.8 < median(halves.values()) < 2.2
    out.check("v5", fifth < 1 and twice and not here["privatised_4"] < 1.1)
    out.check("least", max(at_2048) < min(below))
    out.check("32", not any(behind[:2]))
    out.check("spills", sum(r.spill_stores + r.spill_loads for r in built) == 0)
    mine = here["tiled_pad_rows"] > here["tiled"]
    ahead = six[2048, "32x32"] > 1 and sum(ratio < 1 for ratio in six.values()) == 1
    out.check("v6", ahead and not mine)
    out.check("high", all(rate > 500 for (n, _), rate in tile.items() if n < 2048))
    return out


# --- document P ----------------------------------------------------------------------------------


def tuning_shown() -> Row:
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
    return {
        "rows": rows,
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
    first, padded, small, rect = tuning_shown()["rows"]
    host = load("h200").find("host", m=1024, n=1024, k=1024)
    one_core = max(r["gflops"] for r in host if r["kernel"] in ("ijk", "ikj", "jki"))
    cpu = {r["m"]: r for r in _printed(document="P", rung="cpu_ijk")}
    loop = {n: model.flops(n, n, n) / cpu[n]["value"] / 1e6 for n in (1024, 1025)}
    ijk = {n: cpu_loops(n, gpu="h200").value("ijk", "gflops") for n in (1024, 1025)}
    profile = {(r["metric"], r["block"]): r["value"] for r in _printed(document="P")}
    slope = RTX.bandwidth_gbs * model.arithmetic_intensity("tiled_32", 1024, 1024, 1024)
    rows = trace("tiled_8", M=64, N=64, K=64).by_line()
    loads = [r for r in rows if r.space == "global" and r.op == "load"]
    flop, resident = 2 * 1024**3, resources("tiled_32", arch="sm_89").occupancy
    minutes = float(str(cpu[1024]["printed"])) / 6e4
    out.say(
        p_printed=first["a"], p_slow=flop / first["a"] / 1e6, p_fast=flop / first["a"] / 1e3,
        p_core=one_core, p_peak=first["p_peak"], h_peak=first["h_peak"],
        p_slope=100 * flop / first["a"] / 1e3 / slope, p_minutes=minutes, p_loop=loop[1024],
        ijk_1024=ijk[1024], ijk_1025=ijk[1025], p_pad_1024=100 * (first["a"] / padded["a"] - 1),
        p_pad_1025=100 * (first["b"] / padded["b"] - 1),
        h_pad=100 * (gain("tiled_padded", "tiled_32", 1024) - 1), p_fill=padded["filled"],
        p_fill_rect=rect["filled"], p_formula=100 * resident.fraction, p_busy=padded["busy"],
        p_by_shared=resident.by["shared memory"], p_busy_rect=rect["busy"],
        p_l1=profile["l1_throughput", "8x8"], p_fill_8=profile["occupancy", "8x8"],
        p_warps=int(profile["theoretical_warps", "8x8"]),
        p_blocks=int(profile["blocks_per_sm", "8x32"]), p_times=6e4 * minutes / first["a"],
    )  # fmt: skip
    twins = {"tiled_padded": padded, "tiled_8": small, "tiled_rect": rect}
    over = {name: first["a"] / row["a"] for name, row in twins.items()}
    here = {name: gain(name, "tiled_32", 1024) for name in twins}
    out.check("microseconds", flop / first["a"] / 1e6 < one_core)
    slow = flop / first["a"] / 1e3 < 0.6 * slope
    out.check("level", first["p_peak"] < 0.4 * first["h_peak"] and slow, first["h_peak"])
    out.check("loop", ijk[1024] < loop[1024] < ijk[1025] and loop[1025] < 1.05 * loop[1024])
    alike = gap([over["tiled_padded"], here["tiled_padded"]]) < 0.03
    out.check("padding", alike, here["tiled_padded"])
    out.check("small", max(over["tiled_8"], here["tiled_8"]) < 0.92, here["tiled_8"])
    same = gap([over["tiled_rect"]]) < 0.01 and rect["b"] < min(first["b"], padded["b"])
    out.check("rect", same and here["tiled_rect"] < 0.96, here["tiled_rect"])
    out.check("used", sum(r.bytes for r in loads) == 32 * sum(r.sectors for r in loads))
    out.check("swapped", small["b"] < small["a"])
    return out
