"""The numbers that chapter 7 shows, from counts and the H200's record."""

from types import SimpleNamespace

from helpers.ladder import model
from helpers.ladder.launch import trace
from helpers.ladder.usage import instruction_mix, resources
from helpers.record import costs, counters, measure, published
from nogpu import device

NAMES = ("tiled_32", "tiled_padded", "tiled_8", "tiled_rect", "tiled_pad_rows")
THREE = ("tiled_32", "tiled_8", "tiled_rect")
PAIR = ("tiled_32", "tiled_pad_rows")
ARCH = "sm_90"


def of_the_record() -> SimpleNamespace:
    """Shares and gains in percent; clocks and instructions of a step of the tile of 32; what checks
    cost; per_wavefront: multiply-adds a wavefront with padding, as a part of those without. ms,
    wavefront_ms, waiting: of the tile of 32, measured and modelled. conflict_free: of its shared
    accesses. wide, counted: reads of 16 bytes and wavefronts of a step, without and with padding.
    """
    rec, limits = measure(list(NAMES), sizes=4096, gpu="h200"), device.gpu("h200").limits
    step = sum(instruction_mix("tiled_32", arch=ARCH).values())
    places = resources("tiled_32", arch=ARCH).occupancy.warps // model.SCHEDULERS
    latency = costs.little("DRAM", "h200").clocks
    seen = {n: counters(n, 1024)[0] for n in (*THREE, "tiled_pad_rows")}
    filled = [seen[n]["occupancy_percent"] for n in THREE]
    feeds = {n: c["multiply_adds_per_wavefront"] for n, c in seen.items()}
    bound = costs.bounds("tiled_32", 4096, gpu="h200")
    mixes = {n: instruction_mix(n, arch=ARCH) for n in PAIR}
    price = {"LDS": 1, "LDS.128": 2, "STS": 1, "LDG": 1}
    shared = [r for r in trace("tiled_32", 64, 64, 64).by_line() if r.space == "shared"]
    gain = {n: 100 * (rec.gain(n, "tiled_32", 4096) - 1) for n in NAMES[1:]}
    whole = {n: trace(n, 128, 128, 128) for n in ("tiled_32", "tiled_padded")}
    issued = {n: sum(t.report.instructions.values()) for n, t in whole.items()}
    ragged = trace("tiled_32", 129, 129, 129).multiply_adds
    return SimpleNamespace(
        gpu=rec.gpu,
        rate={n: rec.value(n, 4096, "gflops") for n in NAMES},
        share=100 * rec.value("tiled_32", 4096, "cublas_ratio"),
        gain=gain,
        loss={n: -percent for n, percent in gain.items()},
        ms=rec.value("tiled_32", 4096),
        wavefront_ms=bound.ms,
        waiting=bound.waiting or 0.0,
        conflict_free={r.wavefronts_per_request for r in shared} == {1},
        wide={n: mix.get("LDS.128", 0) for n, mix in mixes.items()},
        counted={n: sum(mix.get(op, 0) * price[op] for op in price) for n, mix in mixes.items()},
        step=step,
        places=places,
        others=(places - 1) * step,
        latency=latency,
        enough=1 + latency / step,
        unit=limits.register_alloc_unit,
        kept=limits.shared_reserved_per_block,
        full=min(resources(n, arch=ARCH).occupancy.fraction for n in THREE),
        filled_low=min(filled),
        filled_high=max(filled),
        slower=rec.gain("tiled_32", "tiled_8", 4096),
        check_cost=100 * (issued["tiled_32"] / issued["tiled_padded"] - 1),
        edge_cost=100 * (ragged / whole["tiled_32"].multiply_adds - 1),
        true_work=100 * (129**3 / 128**3 - 1),
        per_wavefront=feeds["tiled_pad_rows"] / feeds["tiled_32"],
    )


def notes() -> SimpleNamespace:
    """Document P's tile and its rectangle: occupancy in percent, and whether the time at 1024 is
    the same to a percent."""

    def printed(metric: str, **where: int) -> dict[str, float]:
        rows = published(document="P", metric=metric, **where)
        return {str(r["rung"]): float(str(r["value"])) for r in rows if r["block"] != "8x8"}

    filled, ms = printed("occupancy"), printed("time_kernel", m=1024)
    same = abs(ms["tiled_rect"] / ms["tiled_32"] - 1) < 0.01
    padded, rect = filled["tiled_padded"], filled["tiled_rect"]
    return SimpleNamespace(p_fill=padded, p_fill_rect=rect, p_same=same)
