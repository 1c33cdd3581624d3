"""What the record of the H200 and the compiler say of a tile in shared memory: chapter 6."""

from collections.abc import Sequence
from types import SimpleNamespace

from helpers.chapters.facts import at_8192
from helpers.ladder import model
from helpers.ladder.launch import Trace
from helpers.ladder.rungs import catalog
from helpers.ladder.usage import instruction_mix, resources
from helpers.record import costs, counters, measure, published
from nogpu import device

PAIR = ("coalesced", "tiled_32")


def cut() -> SimpleNamespace:
    """What tiling cuts and gains at 4096: bytes asked of global memory, FLOP for each, the rate.

    cut: bytes that warps ask for without tiles over those with tiles of 32. gain: recorded, clock
    cancelled. reads_each: loads of one element of B without tiles, one for each row of C.
    """
    traffic = {name: model.traffic(name, 4096, 4096, 4096).block for name in PAIR}
    rec = measure(list(PAIR), sizes=4096, gpu="h200")
    return SimpleNamespace(
        cut=traffic["coalesced"] / traffic["tiled_32"],
        gain=rec.gain("tiled_32", "coalesced", 4096),
        intensity={name: model.arithmetic_intensity(name, 4096, 4096, 4096) for name in PAIR},
        reads_each=4096,
    )


def fewer(before: Trace, after: Trace) -> dict[str, float]:
    """How many times fewer requests and sectors the loads of global memory make in `after`."""

    def total(t: Trace, what: str) -> float:
        lines = (r for r in t.by_line() if (r.space, r.op) == ("global", "load"))
        return float(sum(getattr(r, what) for r in lines))

    return {what: total(before, what) / total(after, what) for what in ("requests", "sectors")}


def reported(t: Trace) -> float:
    """Multiply-adds of a warp for each wavefront of shared memory, each read counted alone."""
    shared = sum(r.wavefronts for r in t.by_line() if r.space == "shared")
    return t.multiply_adds / shared


def where_it_went() -> SimpleNamespace:
    """Why the gain is smaller than the cut: what L1 had kept, and what binds with tiles.

    ratio: multiply-adds for a wavefront of shared memory, by ncu. hits: of L1, in percent. past:
    sectors of loads that go past it at 1024, in millions. roof: TFLOP/s; near: percent of it that
    is reached, near_before: by the coalesced kernel; roofs, nearer: the two factors of the gain.
    classic: percent of the lower of the two roofs of a classic roofline. mix: the coalesced
    kernel's loop. is_l1: whether L1 binds both."""
    h200 = device.gpu("h200")
    slope = h200.bandwidth_gbs * model.arithmetic_intensity("tiled_32", 4096, 4096, 4096)
    bounds = {name: costs.bounds(name, 4096, gpu="h200") for name in PAIR}
    seen = {name: counters(name, 1024)[0] for name in PAIR}
    hits = {name: seen[name]["l1_hit_percent"] for name in PAIR}
    rec = measure(list(PAIR), sizes=4096, gpu="h200")
    rates = {name: rec.value(name, 4096, "gflops") for name in PAIR}
    near = {name: 100 * b.ms / rec.value(name, 4096) for name, b in bounds.items()}
    roofs = bounds["coalesced"].ms / bounds["tiled_32"].ms
    return SimpleNamespace(
        ratio=seen["tiled_32"]["multiply_adds_per_wavefront"],
        tflops={name: rate / 1e3 for name, rate in rates.items()}, near=near["tiled_32"],
        near_before=near["coalesced"], roofs=roofs,
        nearer=rec.gain("tiled_32", "coalesced", 4096) / roofs,
        classic=100 * rates["tiled_32"] / min(slope, h200.fp32_peak_gflops),
        is_l1={b.binding for b in bounds.values()} == {costs.L1},
        mix=instruction_mix("coalesced", arch="sm_90"), roof=bounds["tiled_32"].gflops / 1e3,
        peak=h200.fp32_peak_gflops / 1e3, hits=hits,
        past={n: seen[n]["global_load_sectors"] * (1 - hits[n] / 100) / 1e6 for n in PAIR},
    )  # fmt: skip


def fit(names: Sequence[str]) -> SimpleNamespace:
    """How blocks of these kernels, ordered by their tile, fill an SM of sm_86 (fill, percent) and
    how many of the largest fit one (large), their rates at 4096, and which tile is the fastest."""
    rec = measure(list(names), sizes=4096, gpu="h200")
    rates = {name: rec.value(name, 4096, "gflops") for name in names}
    return SimpleNamespace(
        fill={n: 100 * resources(n, arch="sm_86").occupancy.fraction for n in names},
        large={a: resources(names[-1], arch=a).occupancy.blocks for a in ("sm_86", "sm_90")},
        rates=rates,
        best=catalog[max(rates, key=lambda n: rates[n])].params["TILE"],
    )


def lab_report() -> SimpleNamespace:
    """How many times as fast as the coalesced kernel tiles of 16 and 32 are at 8192: in document L
    (l_), and in the record of the H200 (h_)."""
    tiles = {n: at_8192(f"tiled_{n}", "coalesced") for n in (16, 32)}
    return SimpleNamespace(**{f"{of}_{n}": tiles[n][f"{of}_gain"] for n in tiles for of in "lh"})


def blog_on_a_t4() -> SimpleNamespace:
    """Document B's two times at 1024 on a T4, beside what the cost model allows there at most.

    plain, tiled: ms that it prints; least: by kernel the bound in ms; times: by kernel how many
    times as long B's kernels take; gain: of its tile of 16.
    """
    rows = published(document="B", metric="time_kernel")
    printed = {str(r["rung"]): float(str(r["value"])) for r in rows}
    plain, tiled = printed["coalesced"], printed["tiled_16"]
    least = {n: costs.bounds(n, 1024, gpu="t4").ms for n in ("coalesced", "tiled_16")}
    times = {n: printed[n] / ms for n, ms in least.items()}
    return SimpleNamespace(plain=plain, tiled=tiled, gain=plain / tiled, least=least, times=times)
