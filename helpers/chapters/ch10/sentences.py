"""The numbers that chapter 10 shows, from counts and the H200's record, and what they bear out."""

from __future__ import annotations

from typing import Any

from helpers.chapters.facts import Facts
from helpers.ladder.usage import instruction_mix, resources
from helpers.record import costs, counters, measure, stalls, tuned

NAMES = ("block_2d", "vectorised")
Access = tuple[str, str, str]
COPIES = ("global_load_requests", "global_store_requests", "shared_store_instructions")


def lines(trace: Any) -> dict[Access, Any]:
    """The rows of a trace's table by (array, space, "load" or "store")."""
    return {(r.array, r.space, r.op): r for r in trace.by_line()}


def of_the_record() -> Facts:
    """Shares and gains in percent, rates in TFLOP/s, conflicts in a thousand, wavefronts for a
    read.
    """
    facts = Facts()
    rec = measure(list(NAMES), sizes=[1024, 1025, 4096], gpu="h200")
    bound = {n: costs.bounds(n, 4096, gpu="h200") for n in NAMES}
    mixes = {n: instruction_mix(n, arch="sm_90") for n in NAMES}
    ffma = {n: mix["FFMA"] / sum(mix.values()) for n, mix in mixes.items()}
    rate = {n: rec.value(n, 4096, "gflops") for n in NAMES}
    was, now = (counters(n, 1024)[0] for n in NAMES)
    each = {
        n: c["shared_load_wavefronts"] / c["shared_load_instructions"]
        for n, c in zip(NAMES, (was, now), strict=True)
    }
    collided = was["shared_load_conflicts"] / was["shared_load_wavefronts"]
    facts.say(
        gpu=rec.gpu,
        each=each,
        conflicts=1000 * collided,
        share={n: 100 * rec.value(n, 4096, "cublas_ratio") for n in NAMES},
        tflops={n: r / 1e3 for n, r in rate.items()},
        ffma={n: 100 * part for n, part in ffma.items()},
        gain=100 * (rec.gain("vectorised", "block_2d", 4096) - 1),
        executed=now["shared_load_instructions"],
        fewer=100 * (1 - now["instructions"] / was["instructions"]),
    )
    facts.check("collide", collided > 0.2)
    loads = mixes["block_2d"]
    facts.check("no wide copies", loads.get("LDG.128", 0) == 0 < loads.get("LDG", 0))
    facts.check("each", abs(each["block_2d"] - 5) < 0.1 and abs(each["vectorised"] - 3) < 0.1)
    reads = now["shared_load_instructions"] / was["shared_load_instructions"]
    facts.check("as many reads", abs(reads - 1) < 0.01)
    left = now["shared_load_conflicts"] < 0.02 * now["shared_load_wavefronts"]
    facts.check(
        "no conflicts",
        left and now["shared_load_wavefronts"] < 0.7 * was["shared_load_wavefronts"],
    )
    copies = all(now[n] < 0.7 * was[n] for n in COPIES)
    facts.check("fewer", copies and now["instructions"] < 0.97 * was["instructions"])
    facts.check("more FFMA", ffma["vectorised"] > 1.03 * ffma["block_2d"])

    keeps = {n: rec.value(n, 1025, "gflops") / rec.value(n, 1024, "gflops") for n in NAMES}
    facts.say(keeps={n: 100 * part for n, part in keeps.items()})
    facts.check("gain", rate["vectorised"] > 1.1 * rate["block_2d"])
    facts.check("keeps", keeps["vectorised"] < 0.97 * keeps["block_2d"])

    best, [row] = tuned("vectorised"), stalls("vectorised", gpu="h200")
    card, ms = bound["vectorised"], rec.value("vectorised", 4096)
    gain, longer, changed = 0.0, False, set[str]()
    if best and best["gain"]:
        gain, longer = best["gain"], best["params"]["BK"] > best["default"]["BK"]
        changed = {n for n, v in best["params"].items() if v != best["default"][n]}
    facts.say(
        best_gain=100 * (gain - 1) if gain else 0.0,
        idle=100 - row["issue_percent"],
        waits=100 - 100 * card.ms / ms,
        fit=resources("vectorised", arch="sm_90").occupancy.blocks,
    )
    facts.check("longer step", gain > 1.08 and longer and changed == {"BK"})
    facts.check("waits", card.ms < 0.8 * ms)
    facts.check("no delivery", card.binding != costs.L1)
    return facts
