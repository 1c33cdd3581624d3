"""The numbers that chapter 11 shows from the H200's record, and the conditions of its sentences."""

from __future__ import annotations

import numpy as np

from helpers.chapters.ch11.steps import Steps, tuned_rows
from helpers.chapters.facts import Facts
from helpers.ladder.rungs import catalog
from helpers.ladder.usage import resources
from helpers.record import costs, counters, measure, stalls

NAMES = ("vectorised", "prefetch", "double_buffer", "cp_async")
REGISTERS = ("prefetch", "double_buffer")
"""The two that fetch the next tile into registers."""
ARCH = "sm_90"


def of_the_record(known: Steps) -> Facts:
    """Rates and gains at 4096, in percent; what a longer step and the best tile bring; what warps
    wait for.

    known: the recorded steps and tiles of `NAMES`.
    """
    facts = Facts()
    rec = measure(list(NAMES), sizes=4096, gpu="h200")
    rate = {n: rec.value(n, 4096, "gflops") for n in NAMES}
    facts.say(
        gpu=rec.gpu,
        percent={n: 100 * rec.value(n, 4096, "cublas_ratio") for n in NAMES},
        gain={n: 100 * (rec.gain(n, "vectorised", 4096) - 1) for n in NAMES},
        BK=catalog["double_buffer"].params["BK"],
    )
    facts.check(
        "all gain",
        rate["double_buffer"] > rate["prefetch"]
        and min(rate["prefetch"], rate["cp_async"]) > 1.05 * rate["vectorised"],
    )
    facts.check("same tiles", len({str(_shape(n)) for n in NAMES}) == 1)
    _longer(facts, known)
    _tuned(facts, known)
    _waits(facts)
    _left(facts, rec.value("double_buffer", 4096))
    return facts


def _shape(kernel: str) -> dict[str, int]:
    return {n: catalog[kernel].params[n] for n in ("BM", "BN", "BK", "TM", "TN")}


def _longer(facts: Facts, known: Steps) -> None:
    share, plain = known.share, known.best("vectorised")
    longest = max(bk for name, bk in share if name == "vectorised")
    fit = {(n, bk): resources(n, arch=ARCH, BK=bk) for n in NAMES for bk in (8, 16)}
    blocks = {key: r.occupancy.blocks for key, r in fit.items()}
    pairs = known.alike("cp_async", "double_buffer")
    warps = resources("vectorised", arch=ARCH).occupancy
    facts.say(
        room={"blocks": warps.blocks, "warps": warps.warps},
        longest=longest,
        tuned_share=share["vectorised", longest],
        wants={n: fit[n, 16].registers for n in REGISTERS},
        falls={n: 100 * (1 - share[n, 16] / share[n, 8]) for n in REGISTERS},
        at={n: {f"bk{bk}": share[n, bk] for bk in (8, 16)} for n in ("cp_async", "double_buffer")},
        alike=len(pairs),
        ahead=sum(ratio > 1 for ratio in pairs),
    )
    each = {resources(n, arch=ARCH).occupancy.blocks for n in NAMES}
    facts.check("room", each == {2})
    each = {resources(n, arch=ARCH).occupancy.blocks for n in NAMES}
    facts.check("room", each == {2})
    facts.check("step alone", plain == share["vectorised", longest] > 1.05 * share["vectorised", 8])
    facts.check(
        "every step", share["vectorised", 8] < share["vectorised", 16] < share["vectorised", 32]
    )
    facts.check(
        "level",
        abs(plain / known.best("double_buffer") - 1) < 0.02
        and plain > 1.01 * known.best("prefetch"),
    )
    facts.check("a block lost", all((blocks[n, 8], blocks[n, 16]) == (2, 1) for n in REGISTERS))
    facts.check("both lose", all(share[n, 16] < 0.97 * share[n, 8] for n in REGISTERS))
    facts.check("two blocks", blocks["cp_async", 8] == blocks["cp_async", 16] == 2)
    behind = share["cp_async", 8] < 0.99 * share["double_buffer", 8]
    facts.check("behind", share["vectorised", 8] < share["cp_async", 8] and behind)
    ahead = float(np.mean(np.array(pairs) > 1))
    facts.check("half is enough", abs(float(np.median(pairs)) - 1) < 0.03 and 0.3 < ahead < 0.6)
    facts.check("buys the step", share["cp_async", 16] > 1.03 * share["double_buffer", 8])


def _tuned(facts: Facts, known: Steps) -> None:
    top = {row["kernel"]: row for row in tuned_rows(NAMES, known)}
    plain, found = top["vectorised"], [row["best"] for n, row in top.items() if n != "vectorised"]
    facts.say(
        ahead_least=100 * (min(found) / plain["best"] - 1),
        ahead_most=100 * (max(found) / plain["best"] - 1),
    )
    facts.check("three ahead", len(found) == 3 and min(found) > 1.05 * plain["best"])
    facts.check("close", max(found) < 1.04 * min(found))
    facts.check(
        "larger patches",
        all(
            top[n]["small"] < 1.04 * plain["small"] and top[n]["large"] > 1.05 * top[n]["small"]
            for n in REGISTERS
        ),
    )
    facts.check("no larger patch", plain["large"] < plain["small"])
    facts.check("64 sums", top["cp_async"]["small"] > 1.05 * plain["small"])


def _waits(facts: Facts) -> None:
    asked = {row["kernel"]: row for row in stalls(list(NAMES), gpu="h200")}
    waits = {n: row["waits"]["long_scoreboard"] for n, row in asked.items()}
    gates = {n: row["waits"]["barrier"] for n, row in asked.items()}
    held = [asked[n]["waits"]["dispatch_stall"] for n in NAMES[1:]]
    issues = {n: row["issue_percent"] for n, row in asked.items()}
    facts.say(waits=waits, gates=gates, issues=issues, held_least=min(held), held_most=max(held))
    facts.check("memory", waits["vectorised"] > 2 * waits["prefetch"] > 4 * waits["double_buffer"])
    facts.check(
        "barriers",
        gates["double_buffer"] < 0.5 * gates["vectorised"] and waits["double_buffer"] < 2,
    )
    facts.check("issue", issues["cp_async"] > 1.1 * issues["vectorised"])
    facts.check(
        "turns",
        all(max(row["waits"], key=row["waits"].get) == "not_selected" for row in asked.values()),
    )


def _left(facts: Facts, ms: float) -> None:
    card, tile = costs.bounds("double_buffer", 4096, gpu="h200"), catalog["double_buffer"].params
    facts.say(
        ratio=counters("double_buffer", 1024)[0]["multiply_adds_per_wavefront"],
        delivered=100 * card[costs.L1].ms / ms,
        across=tile["BN"] // tile["TN"],
    )
