"""The numbers that chapter 7 shows, from counts and the H200's record."""

from __future__ import annotations

from types import SimpleNamespace

from helpers.ladder import model
from helpers.ladder.launch import trace
from helpers.ladder.usage import instruction_mix, resources
from helpers.record import costs, counters, measure
from nogpu import device

NAMES = ("tiled_32", "tiled_padded", "tiled_8", "tiled_rect", "tiled_pad_rows")
THREE = ("tiled_32", "tiled_8", "tiled_rect")
ARCH = "sm_90"


def of_the_record() -> SimpleNamespace:
    """Shares and gains in percent; clocks and instructions of a step of the tile of 32; what checks
    cost; per_wavefront: multiply-adds a wavefront with padding, as a part of those without.
    """
    rec, limits = measure(list(NAMES), sizes=4096, gpu="h200"), device.gpu("h200").limits
    step = sum(instruction_mix("tiled_32", arch=ARCH).values())
    places = resources("tiled_32", arch=ARCH).occupancy.warps // model.SCHEDULERS
    latency = costs.little("DRAM", "h200").clocks
    counted = {n: counters(n, 1024)[0] for n in (*THREE, "tiled_pad_rows")}
    filled = [counted[n]["occupancy_percent"] for n in THREE]
    feeds = {n: c["multiply_adds_per_wavefront"] for n, c in counted.items()}
    whole = {n: trace(n, 128, 128, 128) for n in ("tiled_32", "tiled_padded")}
    issued = {n: sum(t.report.instructions.values()) for n, t in whole.items()}
    ragged = trace("tiled_32", 129, 129, 129).multiply_adds
    return SimpleNamespace(
        gpu=rec.gpu,
        rate={n: rec.value(n, 4096, "gflops") for n in NAMES},
        share=100 * rec.value("tiled_32", 4096, "cublas_ratio"),
        gain={n: 100 * (rec.gain(n, "tiled_32", 4096) - 1) for n in NAMES[1:]},
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
