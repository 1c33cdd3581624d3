"""The numbers that chapter 7 shows, from counts and the H200's record, and what they bear out."""

from __future__ import annotations

from helpers.chapters.ch07.sweeps import MoreWarps, Patches
from helpers.chapters.facts import Facts
from helpers.ladder import model
from helpers.ladder.launch import trace
from helpers.ladder.usage import instruction_mix, resources
from helpers.record import costs, counters, measure
from nogpu import device

NAMES = ("tiled_32", "tiled_padded", "tiled_8", "tiled_rect", "tiled_pad_rows")
THREE = ("tiled_32", "tiled_8", "tiled_rect")
ARCH = "sm_90"


def of_the_record() -> Facts:
    """Shares and gains in percent; clocks and instructions of a step of the tile of 32; what checks
    cost.
    """
    facts, h200 = Facts(), device.gpu("h200")
    rec = measure(list(NAMES), sizes=4096, gpu="h200")
    rate = {n: rec.value(n, 4096, "gflops") for n in NAMES}
    facts.say(
        gpu=rec.gpu,
        rate=rate,
        share=100 * rec.value("tiled_32", 4096, "cublas_ratio"),
        gain={n: 100 * (rec.gain(n, "tiled_32", 4096) - 1) for n in NAMES[1:]},
    )

    step = sum(instruction_mix("tiled_32", arch=ARCH).values())
    places = resources("tiled_32", arch=ARCH).occupancy.warps // model.SCHEDULERS
    latency, others = costs.little("DRAM", "h200").clocks, (places - 1) * step
    facts.say(step=step, places=places, others=others, latency=latency, enough=1 + latency / step)
    facts.check("hidden", others > 2 * latency)

    limits = h200.limits
    facts.say(
        unit=limits.register_alloc_unit,
        kept=limits.shared_reserved_per_block,
    )
    before = device.limits("sm_75").shared_reserved_per_block
    facts.check("kept", before == 0 < limits.shared_reserved_per_block)

    filled = [counters(n, 1024)[0]["occupancy_percent"] for n in THREE]
    facts.say(
        filled_low=min(filled),
        filled_high=max(filled),
        slower=rec.gain("tiled_32", "tiled_8", 4096),
    )
    full = {resources(n, arch=ARCH).occupancy.fraction for n in THREE}
    facts.check("can fill", full == {1})
    ordered = rate["tiled_32"] > 1.02 * rate["tiled_rect"] > 1.3 * rate["tiled_8"]
    facts.check("not occupancy", max(filled) - min(filled) < 6 and ordered)
    _checks(facts, rate)
    _padding(facts, rec.gain("tiled_pad_rows", "tiled_32", 4096))
    return facts


def _checks(facts: Facts, rate: dict[str, float]) -> None:
    whole = {n: trace(n, 128, 128, 128) for n in ("tiled_32", "tiled_padded")}
    issued = {n: sum(t.report.instructions.values()) for n, t in whole.items()}
    ragged = trace("tiled_32", 129, 129, 129).multiply_adds
    grown = ragged / whole["tiled_32"].multiply_adds
    facts.say(
        check_cost=100 * (issued["tiled_32"] / issued["tiled_padded"] - 1),
        edge_cost=100 * (grown - 1),
        true_work=100 * (129**3 / 128**3 - 1),
    )
    facts.check("zeros", grown > 1.8)
    facts.check("no gain", rate["tiled_padded"] < 1.015 * rate["tiled_32"])


def _padding(facts: Facts, gain: float) -> None:
    padded, plain = (
        counters(n, 1024)[0]["multiply_adds_per_wavefront"] for n in ("tiled_pad_rows", "tiled_32")
    )
    facts.check("more wavefronts", padded / plain < 0.95)
    facts.check("rate follows", abs(gain / (padded / plain) - 1) < 0.06)


def of_the_sweeps(patches: Patches, more: MoreWarps) -> Facts:
    """What the recorded tiles of two later kernels say: counts, and fuller in percent of the
    fastest.
    """
    facts = Facts()
    shares = [row["occupancy"] for row in patches.rows]
    doubled = [row["gflops"] / patches.rows[0]["gflops"] for row in patches.rows[2:]]
    facts.say(tiles=patches.tiles, fuller=100 * patches.fuller)
    emptied = shares == sorted(shares, reverse=True) and shares[-1] < 0.3 * shares[0]
    facts.check("doubles", emptied and 1.8 < min(doubled) <= max(doubled) < 2.3)
    facts.check("fuller", patches.fuller < 0.8)

    from_8, from_12 = more.since(8), more.since(12)
    gaining = sum(change > 0 for change in from_12)
    facts.say(gaining=gaining, from_12=len(from_12))
    facts.check("from eight", min(from_8) > 0 and more.sums[8] == {64})
    some = len(from_12) / 2 < gaining < len(from_12)
    facts.check("from twelve", some and min(from_12) < -1)
    return facts
