"""What the record of the H200 says of the naive and the coalesced kernel: numbers and sentences of
chapter 5.
"""

from __future__ import annotations

from collections.abc import Mapping

from helpers.chapters.facts import Facts, counted, gain, recorded
from helpers.record import costs

NAMES = ("naive", "coalesced")


def said(step: Mapping[str, float]) -> Facts:
    """Numbers and conditions: factors at 1024, 1025 and 4096, wavefronts of a step, the shares of
    the bounds.

    step: sectors of a step of the inner loop by kernel, as the emulator counts them: of one request
    for A and one for B. Times, clocks cancelled, and ncu's counters are of the H200's record.
    """
    facts = Facts()
    factor = {n: gain("coalesced", "naive", n) for n in (1024, 1025, 4096)}
    seen = {name: counted(name, 1024) for name in NAMES}
    steps = {n: counted("naive", n)["l1_wavefronts"] / (n**3 / 32) for n in (1024, 1025)}
    explained = {
        name: costs.bounds(name, 4096, gpu="h200").ms / recorded(name, 4096, "ms") for name in NAMES
    }
    binding = {costs.bounds(name, 4096, gpu="h200").binding for name in NAMES}
    fewer = step["naive"] / step["coalesced"]
    sectors = [seen[name]["load_sectors_per_request"] - step[name] / 2 for name in NAMES]
    hits = [seen[name]["l1_hit_percent"] for name in NAMES]
    facts.say(
        fewer=fewer,
        gain={f"n{n}": value for n, value in factor.items()},
        steps={f"n{n}": value for n, value in steps.items()},
        explained=100 * explained["coalesced"],
    )
    times = tuple(factor.values())
    facts.check("slower", min(times) > 1.1, *times)
    facts.check("not the factor", factor[1025] < 0.8 * fewer < 1.25 * fewer < factor[1024], *times)
    facts.check("threefold", factor[1024] / factor[1025] > 3.03, *times)
    facts.check("as counted", all(abs(d) < 0.02 for d in sectors), *sectors)
    facts.check("in L1", min(hits) > 90, *hits)
    facts.check("queue", abs(steps[1024] - 33) < 1, steps[1024])
    facts.check("spread", steps[1025] < 0.3 * steps[1024], *steps.values())
    facts.check("one pipe", binding == {costs.L1})
    facts.check("waits", explained["coalesced"] < 0.9, explained["coalesced"])
    return facts
