"""What the record of the H200 and the compiler say of a tile in shared memory: sentences of chapter
6.
"""

from __future__ import annotations

from collections.abc import Sequence

from helpers.chapters.facts import Facts, counted, gain, recorded
from helpers.ladder import model
from helpers.ladder.launch import Trace
from helpers.ladder.rungs import catalog
from helpers.ladder.usage import resources
from helpers.record import costs
from nogpu import device

PAIR = ("coalesced", "tiled_32")


def cut() -> Facts:
    """What tiling cuts and gains at 4096: bytes asked of global memory, FLOP for each, the rate.

    cut: bytes that warps ask for without tiles over those with tiles of 32. gain: recorded, clock
    cancelled. reads_each: loads of one element of B without tiles, one for each row of C.
    """
    facts = Facts()
    asked = {name: model.traffic(name, 4096, 4096, 4096).block for name in PAIR}
    less, faster = asked["coalesced"] / asked["tiled_32"], gain("tiled_32", "coalesced", 4096)
    intensity = {name: model.arithmetic_intensity(name, 4096, 4096, 4096) for name in PAIR}
    facts.say(cut=less, gain=faster, intensity=intensity, reads_each=4096)
    facts.check("sixteenfold", 15.5 < less < 16.5)
    facts.check("smaller", 1 < faster < 0.5 * less, faster)
    return facts


def fewer(before: Trace, after: Trace) -> dict[str, float]:
    """How many times fewer requests and sectors the loads of global memory make in `after`."""

    def total(t: Trace, what: str) -> float:
        lines = (r for r in t.by_line() if (r.space, r.op) == ("global", "load"))
        return float(sum(getattr(r, what) for r in lines))

    return {what: total(before, what) / total(after, what) for what in ("requests", "sectors")}


def where_it_went(per_wavefront: float) -> Facts:
    """Why the gain is smaller than the cut: what L1 had kept, and what binds with tiles.

    per_wavefront: multiply-adds for a wavefront of shared memory, counted in the machine code.
    past: sectors of loads that go past L1 at 1024, in millions. near: percent of the bound that is
    reached.
    """
    facts = Facts()
    bounds = {name: costs.bounds(name, 4096, gpu="h200") for name in PAIR}
    seen = {name: counted(name, 1024) for name in PAIR}
    hits = {name: seen[name]["l1_hit_percent"] for name in PAIR}
    past = {name: seen[name]["global_load_sectors"] * (1 - hits[name] / 100) for name in PAIR}
    ratio = seen["tiled_32"]["multiply_adds_per_wavefront"]
    near = bounds["tiled_32"].ms / recorded("tiled_32", 4096, "ms")
    facts.say(
        ratio=ratio,
        near=100 * near,
        peak=device.gpu("h200").fp32_peak_gflops / 1e3,
        roof=bounds["tiled_32"].gflops / 1e3,
        past={name: sectors / 1e6 for name, sectors in past.items()},
    )
    facts.check("as counted", abs(per_wavefront / ratio - 1) < 0.03, ratio)
    facts.check("delivery", {b.binding for b in bounds.values()} == {costs.L1})
    facts.check("near", 0.75 < near <= 1, near)
    facts.check("under one", ratio < 0.97, ratio)
    facts.check("the same", abs(past["coalesced"] / past["tiled_32"] - 1) < 0.04, *past.values())
    facts.check("kept", hits["coalesced"] > 90 > 10 > hits["tiled_32"], *hits.values())
    return facts


def fit(names: Sequence[str]) -> Facts:
    """How blocks of these kernels, ordered by their tile, fill an SM, and which tile is fastest at
    4096.
    """
    facts = Facts()
    held = {arch: [resources(n, arch=arch).occupancy for n in names] for arch in ("sm_86", "sm_90")}
    rates = [recorded(name, 4096) for name in names]
    fill = {name: 100 * one.fraction for name, one in zip(names, held["sm_86"], strict=True)}
    facts.say(fill=fill, best=catalog[names[rates.index(max(rates))]].params["TILE"])
    large = held["sm_86"][-1]
    facts.check("a third empty", large.blocks == 1 and abs(large.fraction - 2 / 3) < 0.01)
    facts.check("filled", held["sm_86"][-2].fraction == 1)
    facts.check("two fit", held["sm_90"][-1].blocks == 2)
    facts.check("larger", rates == sorted(rates), *rates)
    return facts
