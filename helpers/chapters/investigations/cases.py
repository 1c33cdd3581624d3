"""The numbers of each case of the investigations, and which of its sentences they bear out."""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise, product
from typing import Any

from helpers.chapters.facts import Facts, counted, gain, recorded
from helpers.ladder import model
from helpers.ladder.kernel import Kernel
from helpers.ladder.launch import trace
from helpers.ladder.rungs import catalog
from helpers.ladder.usage import instruction_mix, resources
from helpers.record import flags, stalls, supplies
from helpers.record.host import cpu_loops
from nogpu import device
from nogpu.toolchain import compile as build
from nogpu.toolchain import main_loop, sass_instructions

H200 = device.gpu("h200")
Row = dict[str, Any]


# --- a column in the sets of a cache -------------------------------------------------------------


def one_more_column() -> Facts:
    """The CPU loops at 1024 and 1025."""
    out = Facts()
    pairs = [(k, n) for k in ("ijk", "ikj") for n in (1024, 1025)]
    at = {(k, n): cpu_loops(n, gpu="h200").value(k, "gflops") for k, n in pairs}
    for (loop, n), rate in at.items():
        out.say(**{f"{loop}_{n}": rate})
    ijk, ikj = at["ijk", 1025] / at["ijk", 1024], at["ikj", 1025] / at["ikj", 1024]
    out.say(odd_gain=ijk)
    out.check("odd", ijk > 3 and 0.8 < ikj < 1.25)
    return out


# --- inside L1 -----------------------------------------------------------------------------------

STEP: Mapping[str, Callable[[int], tuple[list[int], list[int]]]] = {
    "naive": lambda n: ([4 * lane * n for lane in range(32)], [0] * 32),
    "coarsened": lambda n: ([0] * 32, [16 * lane for lane in range(32)]),
    "coalesced": lambda n: ([0] * 32, [4 * lane for lane in range(32)]),
}
"""Byte addresses in A and in B that the lanes of a warp read in one step, for rows of n floats."""
SIZES = (1024, 1025, 4096)


def deliveries(addresses: list[int]) -> int:
    """Wavefronts of one request: different words wanted from the busiest bank."""
    words = {address // 4 for address in addresses}
    return max(sum(word % 32 == bank for word in words) for bank in range(32))


def steps_table() -> list[Row]:
    """Kernel and size: clocks of an SM of the H200 for one step of one warp, two loads and a
    multiply-add, and deliveries, both as predicted and as taken or counted. Predicted are the
    longer of look-up and delivery, for A and for B."""
    rows = []
    for kernel, n in product(STEP, SIZES):
        ms, mhz = recorded(kernel, n, "ms"), recorded(kernel, n, "clock_mhz")
        rows.append(
            {
                "kernel": kernel, "n": n, "clocks": sum(map(model.l1_clocks, STEP[kernel](n))),
                "took": ms * 1e-3 * mhz * 1e6 * H200.sms * 32 / n**3,
                "deliveries": sum(map(deliveries, STEP[kernel](n))),
                "counted": counted(kernel, n)["l1_wavefronts"] / (n**3 / 32),
            }
        )  # fmt: skip
    return rows


def inside_l1() -> Facts:
    """What caches and the data pipe say of the naive and the coalesced kernel."""
    out = Facts()
    hit = {k: counted(k) for k in ("naive", "coalesced")}
    rows = {(r["kernel"], r["n"]): r for r in steps_table()}
    known = [r for r in rows.values() if not math.isnan(r["took"])]
    at_1024, at_1025 = (rows["naive", n] for n in (1024, 1025))
    dram = max(c["dram_read_bytes"] for c in hit.values()) / (2 * 4 * 1024**2)
    dram_ms = hit["naive"]["dram_read_bytes"] / H200.bandwidth_gbs / 1e6
    hits = [c["l1_hit_percent"] for c in hit.values()]
    out.say(
        hit_naive=hits[0], hit_coalesced=hits[1], dram_times=dram, clocks_naive=at_1024["took"],
        clocks_1025=at_1025["took"], least_naive=at_1024["clocks"],
        worst=max((r["took"] - r["clocks"] for r in rows.values()), default=math.nan),
        counted_1024=at_1024["counted"], counted_1025=at_1025["counted"],
    )  # fmt: skip
    out.check("hits", min(hits) > 90, *hits)
    small = dram_ms < 0.02 * recorded("naive", 1024, "ms")
    out.check("dram", 0.98 < dram < 1.05 and small, dram, recorded("naive", 1024))
    out.check("bound", all(r["took"] > r["clocks"] for r in known))
    queue = at_1024["counted"] / at_1024["deliveries"]
    out.check("queue", abs(queue - 1) < 0.03, queue)
    share = at_1025["counted"] / at_1025["clocks"]
    out.check("look-up", share < 0.3, share)
    return out


def waits() -> Facts:
    """What the warps of both kernels wait for at 4096, from the recorded stalls."""
    out = Facts()
    warps = {row["kernel"]: row for row in stalls(["naive", "coalesced"], gpu="h200")}
    if len(warps) < 2:
        out.say(pipe=math.nan, issue=math.nan, loads=math.nan)
        out.true |= dict.fromkeys(("full", "none full", "loads"), True)
        return out
    naive, coalesced = warps["naive"], warps["coalesced"]
    loads = [coalesced["waits"][why] for why in ("long_scoreboard", "lg_throttle")]
    out.say(pipe=coalesced["shared_percent"], issue=coalesced["issue_percent"], loads=sum(loads))
    queue = naive["waits"]["lg_throttle"] > 90 and naive["issue_percent"] < 6
    out.check("full", naive["shared_percent"] > 95 and queue)
    busiest = max(coalesced[unit] for unit in ("shared_percent", "issue_percent", "fma_percent"))
    out.check("none full", busiest < 85)
    out.check("loads", min(loads) > 25 and sum(loads) > 70)
    return out


def integers() -> Facts:
    """int32 against float32 at 4096."""
    out = Facts()
    by = {n: gain(n, f"{n}_int", 4096) - 1 for n in ("naive", "coalesced")}
    out.say(int_naive=100 * by["naive"], int_coalesced=100 * by["coalesced"])
    out.check("same", max(map(abs, by.values())) < 0.02, *by.values())
    return out


# --- unrolling and coarsening --------------------------------------------------------------------


def loop_of(source: str, kernel: Kernel, arch: str = "sm_90", **options: Any) -> list[str]:
    """Opcodes of the main loop of a changed source of a kernel, in order, with their modifiers."""
    values = {n: str(v) for n, v in kernel.params.items()}
    built = build(source, name=kernel.file, arch=arch, defines=values, **options)
    return [i.opcode for i in main_loop(*sass_instructions(built.cubin, kernel.entry))]


def unrolling() -> tuple[list[Row], Facts]:
    """The loop of `coalesced` with and without unrolling: its instructions, and their worth."""
    out = Facts()
    k, by_hand, pragma = catalog["coalesced"], catalog["unrolled"], "#pragma unroll UNROLL"
    loops = {
        "one step": loop_of(k.source.replace(pragma, "#pragma unroll 1"), k),
        "no pragma": loop_of(k.source.replace(pragma, ""), k),
        "coalesced": loop_of(k.source, k),
        "unrolled by hand": loop_of(by_hand.source, by_hand),
    }
    rows: list[Row] = []
    for name, loop in loops.items():
        ops = [op.split(".")[0] for op in loop]
        rows.append(
            {
                "build": name, "ffma": ops.count("FFMA"), "ldg": ops.count("LDG"),
                "per": len(ops) / ops.count("FFMA"), "ahead": ops[: ops.index("FFMA")].count("LDG"),
            }
        )  # fmt: skip
    one_step, no_pragma, plain, hand = rows
    at_4096 = [r for r in flags().rows if (r["build"], r["m"]) == ("no unrolling", 4096)]
    none = dict.fromkeys(("naive", "coalesced"), math.nan)
    speedups = none | {r["kernel"]: r["speedup"] for r in at_4096}
    naive, kept = speedups["naive"], speedups["coalesced"]
    won = gain("unrolled", "coalesced", 4096) - 1
    fewer = one_step["per"] / plain["per"]
    out.say(
        one_step=one_step["per"], auto_steps=no_pragma["ffma"], by_hand=100 * won,
        kept_coalesced=100 * kept, kept_naive=100 * naive, fewer=fewer, longer=1 / kept,
        ahead=plain["ahead"],
    )  # fmt: skip
    out.check("own", no_pragma["ffma"] >= 4)
    out.check("loads", all(r["ldg"] == 2 * r["ffma"] for r in rows))
    out.check("late", won < 0.02 and hand["per"] > 0.98 * plain["per"], won)
    out.check("worth", 1 / kept > 1.2 * fewer, kept)
    out.check("ahead", one_step["ahead"] == 2 and plain["ahead"] >= 6)
    out.check("naive", abs(naive - 1) < 0.02 and kept < 0.8, *speedups.values())
    return rows, out


def coarsening() -> Facts:
    """`coarsened` beside `coalesced`: sectors, instructions, registers, time."""
    out, b = Facts(), {}
    for name in ("coalesced", "coarsened"):
        rows = trace(name, M=64, N=128, K=16).by_line()
        [b[name]] = [r.sectors_per_request for r in rows if (r.array, r.op) == ("B", "load")]
    r = resources("coarsened", arch="sm_90")
    spilled, loss = r.spill_stores + r.spill_loads, gain("coalesced", "coarsened", 4096)
    done = {n: counted(n)["instructions"] for n in b}
    out.say(
        coarse_loss=loss, coarse_b=b["coarsened"], plain_b=b["coalesced"],
        coarse_registers=r.registers, coarse_spills=spilled,
    )  # fmt: skip
    out.check("slower", loss > 1.2, loss)
    out.check("fewer", done["coarsened"] < 0.97 * done["coalesced"], *done.values())
    out.check("sectors", b["coarsened"] == 4 * b["coalesced"])
    out.check("spills", spilled == 0 and r.registers <= 64)
    return out


# --- wide reads of shared memory -----------------------------------------------------------------


def wide_reads() -> Facts:
    """What a 16-byte read of shared memory costs `tiled_32`, by its machine code and counters."""
    out = Facts()
    mix, hardware = instruction_mix("tiled_32", arch="sm_90"), counted("tiled_32")
    turn = mix["FFMA"] / hardware["multiply_adds_per_wavefront"]
    each = (turn - mix["LDS"] - mix["STS"]) / mix["LDS.128"]
    out.say(
        ffma=mix["FFMA"], lds=mix["LDS"], lds_wide=mix["LDS.128"], sts=mix["STS"], turn=turn,
        left=turn - mix["LDS"] - mix["STS"], each=each,
        per_wave=hardware["multiply_adds_per_wavefront"],
    )  # fmt: skip
    out.check("joined", 4 * mix["LDS.128"] == mix["FFMA"] and mix["BRA"] == 1)
    out.check("two", abs(each - 2) < 0.1, each)
    return out


# --- three tiles ---------------------------------------------------------------------------------

TILES = ("tiled_32", "tiled_8", "tiled_rect")


def a_clock(name: str, *counters: str) -> float:
    """How much of some counters, added up, an SM did in each clock of the kernel at 1024."""
    took = recorded(name, 1024, "ms") * 1e-3 * recorded(name, 1024, "clock_mhz") * 1e6
    return sum(counted(name)[counter] for counter in counters) / (took * H200.sms)


def each_global(name: str) -> float:
    """Wavefronts of the data pipe that are not shared memory's, for a load from global memory."""
    c = counted(name)
    rest = c["l1_wavefronts"] - c["shared_load_wavefronts"] - c["shared_store_wavefronts"]
    return rest / c["global_load_requests"]


def tiles_table() -> list[Row]:
    """A row a quantity, a column a tile: what an SM does in a clock at 1024."""
    names = ("shared_load_wavefronts", "shared_store_wavefronts")
    each: Mapping[str, tuple[tuple[str, ...], str]] = {
        "instructions issued a clock, of 4": (("instructions",), ".2f"),
        "bytes from L2 a clock": (("l2_bytes",), ".1f"),
        "wavefronts of shared memory a clock, of 1": (names, ".2f"),
        "wavefronts of L1 and shared memory a clock, of 1": (("l1_wavefronts",), ".2f"),
    }
    filled = {n: f"{counted(n)['occupancy_percent']:.0f}" for n in TILES}
    return [
        {"what": "occupancy, achieved (%)", **filled},
        *(
            {"what": what, **{n: format(a_clock(n, *counters), spec) for n in TILES}}
            for what, (counters, spec) in each.items()
        ),
        {
            "what": "wavefronts for a load from global memory",
            **{n: f"{each_global(n):.1f}" for n in TILES},
        },
    ]


def small_tile() -> Facts:
    """Why a tile of 8 is slower than a tile of 32 on an H200."""
    out = Facts()
    lines = {n: trace(n, M=128, N=128, K=64).by_line() for n in TILES}
    loads = {n: [r for r in of if (r.space, r.op) == ("global", "load")] for n, of in lines.items()}
    sent = {n: sum(r.requests for r in loads[n]) for n in TILES}
    busy, issue, l2 = (
        {n: a_clock(n, counter) for n in TILES}
        for counter in ("l1_wavefronts", "instructions", "l2_bytes")
    )
    took = {n: recorded(n, 1024, "ms") for n in TILES}
    waves = {n: counted(n)["l1_wavefronts"] for n in TILES}
    pipes = [row["shared_percent"] for row in stalls(TILES, gpu="h200")] or [math.nan]
    filled = [counted(n)["occupancy_percent"] for n in TILES]
    rate = {n: recorded(n, 4096) for n in TILES}
    small, square = each_global("tiled_8"), each_global("tiled_32")
    out.say(
        slower=gain("tiled_32", "tiled_8", 4096), sent_more=sent["tiled_8"] / sent["tiled_32"],
        each_load=sum(r.sectors for r in loads["tiled_8"]) / sent["tiled_8"],
        each_small=small, each_square=square,
    )  # fmt: skip
    for name in ("small", "rect"):
        tile = "tiled_8" if name == "small" else "tiled_rect"
        out.say(**{f"{name}_waves": waves[tile] / waves["tiled_32"],
                   f"{name}_took": took[tile] / took["tiled_32"]})  # fmt: skip
    out.ends(busy=[100 * share for share in busy.values()], pipe=pipes, filled=filled)
    rates = rate["tiled_32"] > 1.02 * rate["tiled_rect"] > 1.3 * rate["tiled_8"]
    out.check("occupancy", max(filled) - min(filled) < 6 and rates, *filled, *rate.values())
    out.check("sectors", all(r.sectors == 4 * r.requests for n in TILES for r in loads[n]))
    between = sent["tiled_32"] < sent["tiled_rect"] < sent["tiled_8"]
    out.check("four", sent["tiled_8"] == 4 * sent["tiled_32"] and between)
    more = all(of["tiled_rect"] > by * of["tiled_8"] for of, by in ((issue, 1.1), (l2, 1.05)))
    slower = took["tiled_rect"] < took["tiled_8"]
    out.check("neither", more and slower, *issue.values(), *l2.values())
    full = min(*busy.values(), min(pipes) / 100) > 0.85
    alike = max(busy.values()) < 1.05 * min(busy.values())
    out.check("full", full and alike, *busy.values(), *pipes)
    out.check("loads", small > 3 * square and small >= 4, small)
    return out


# --- compiler flags ------------------------------------------------------------------------------


def flag_builds() -> tuple[list[Row], Facts]:
    """`tiled_rect` built four ways: its loop in machine code, and its rate on the H200 at 4096."""
    out, k = Facts(), catalog["tiled_rect"]
    at = {(r["kernel"], r["build"]): r["gflops"] for r in flags().rows if r["m"] == 4096}
    rows = []
    for label, options, pragma in (
        ("default", (), ""),
        ("fast math", ("--use_fast_math",), ""),
        ("unroll", (), "#pragma unroll\n"),
        ("no unrolling", (), "#pragma unroll 1\n"),
    ):
        text = k.source.replace("for (int k = 0;", f"{pragma}        for (int k = 0;")
        loop = loop_of(text, k, "sm_89", options=options)
        rows.append(
            {
                "build": label, "loop": len(loop),
                "ffma": sum(op.startswith("FFMA") for op in loop), "ftz": loop.count("FFMA.FTZ"),
                "wide": loop.count("LDS.128"),
                **{name: at.get((name, label), math.nan) for name in ("tiled_32", "tiled_rect")},
            }
        )  # fmt: skip
    default, fast, unrolled, rolled = rows
    same = [r[n] / default[n] for r in (fast, unrolled) for n in ("tiled_32", "tiled_rect")]
    out.say(
        flag_ffma=default["ffma"], rolled=rolled["loop"],
        fast_math=100 * (fast["tiled_rect"] / default["tiled_rect"] - 1),
        no_unrolling=100 * (rolled["tiled_rect"] / default["tiled_rect"] - 1),
    )  # fmt: skip
    alike = fast["ftz"] == fast["ffma"] == default["ffma"] and fast["loop"] == default["loop"]
    out.check("ftz", default["ftz"] == 0 and alike)
    near = all(abs(r - 1) < 0.015 for r in same)
    out.check("same", near and unrolled["loop"] == default["loop"], *same)
    out.check("joined", default["wide"] > 0 == rolled["wide"])
    out.check("pays", rolled["tiled_rect"] < 0.95 * default["tiled_rect"], rolled["tiled_rect"])
    return rows, out


# --- private sums --------------------------------------------------------------------------------

PRIVATE = ("tiled_32", "privatised_2", "privatised_4", "block_1d")


def private_sums() -> tuple[list[Row], Facts]:
    """Private sums along a row of C beside a column of them."""
    out = Facts()
    reuse = {n: counted(n)["multiply_adds_per_wavefront"] for n in PRIVATE}
    rate = {n: recorded(n, 4096) for n in PRIVATE}
    built = {n: resources(n, arch="sm_90") for n in PRIVATE}
    rows = [
        {"kernel": n, "ratio": reuse[n], "registers": built[n].registers, "gflops": rate[n],
         "occupancy": 100 * built[n].occupancy.fraction}
        for n in PRIVATE
    ]  # fmt: skip
    four = counted("privatised_4")
    reads = four["ffma_thread_instructions"] / 32 / four["shared_load_wavefronts"]
    a, b = 2 / 4, 1  # wavefronts for a value of A (two for four) and of B
    every = reuse["privatised_4"]
    out.say(column_4=1 / (a + b / 4), row_4=1 / (a / 4 + b), row_4_reads=reads, row_4_all=every)
    pairs = list(pairwise(PRIVATE))
    rising = all(reuse[x] < reuse[y] and rate[x] < rate[y] for x, y in pairs)
    far = reuse["block_1d"] > 1.5 * reuse["privatised_4"]
    out.check("order", rising and far, *reuse.values(), *rate.values())
    out.check("reads", abs(reads * (a / 4 + b) - 1) < 0.02, reads)
    out.check("stores", reuse["privatised_4"] < 0.95 * reads, reads)
    return rows, out


def supply(gpu: str) -> dict[str, Any]:
    """What L2 delivers on a GPU, in bytes a clock and SM, and what that bears out.

    numbers: `apart`, each SM with bytes of its own; `together`, the most where SMs share them;
    `skewed`, TMA boxes where all SMs share and neighbours are `skew` KB apart; `multicast`. even:
    all ways are alike where nothing is shared; boxes: sharing by a few SMs gains TMA boxes nothing;
    multicast_even: its rate does not depend on who else shares.
    """
    level = [e for e in supplies(gpu) if e.skew == 0]
    apart = [e.per_clock for e in level if e.sharing == 1]
    few = [e.per_clock for e in level if e.way == "TMA boxes" and 1 < e.sharing <= 6]
    pairs = [e.per_clock for e in level if e.way == "multicast"]
    boxes = (e for e in supplies(gpu) if e.way == "TMA boxes")
    (far,) = [e for e in boxes if e.skew == 4 * 32 * 1024 and e.sharing > 100]
    return {
        "numbers": {
            "apart": max(apart), "together": max(e.per_clock for e in level),
            "skew": far.skew / 1024, "skewed": far.per_clock, "multicast": sum(pairs) / len(pairs),
        },
        "even": max(apart) < 1.1 * min(apart),
        "boxes": max(few) < 1.1 * max(apart),
        "multicast_even": max(pairs) < 1.1 * min(pairs) and min(pairs) > 1.5 * max(apart),
    }  # fmt: skip
