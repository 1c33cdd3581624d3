"""What the record of the H200 says of the naive and the coalesced kernel: numbers of chapter 5."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from helpers.record import costs, counters, measure

NAMES = ("naive", "coalesced")
SECTORS = {"naive": {"A": 32, "B": 1}, "coalesced": {"A": 1, "B": 4}}
"""Sectors of a request of the inner loop, by kernel and array, as the page says them."""


def of_a_step(traces: Mapping[str, Any]) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Sectors of a request of the loop by kernel and array; and those of a step, by kernel."""
    loads = {name: [r for r in t.by_line() if r.op == "load"] for name, t in traces.items()}
    each = {name: {r.array: r.sectors_per_request for r in rows} for name, rows in loads.items()}
    return each, {name: sum(of.values()) for name, of in each.items()}


def numbers(step: Mapping[str, float]) -> SimpleNamespace:
    """Factors at 1024, 1025 and 4096, clocks cancelled; wavefronts of a step; what ncu counts.

    step: sectors of a step of the inner loop by kernel, as the emulator counts them: of one request
    for A and one for B. sectors: those of a request by ncu, as a part of the emulator's. explained:
    percent of the coalesced kernel's time that its bound explains.
    """
    rec = measure(list(NAMES), sizes=[1024, 1025, 4096], gpu="h200")
    seen = {name: counters(name, 1024)[0] for name in NAMES}
    bound = {name: costs.bounds(name, 4096, gpu="h200") for name in NAMES}
    return SimpleNamespace(
        fewer=step["naive"] / step["coalesced"],
        gain={f"n{n}": rec.gain("coalesced", "naive", n) for n in (1024, 1025, 4096)},
        steps={
            f"n{n}": counters("naive", n)[0]["l1_wavefronts"] / (n**3 / 32) for n in (1024, 1025)
        },
        sectors={n: 2 * seen[n]["load_sectors_per_request"] / step[n] for n in NAMES},
        hits={name: seen[name]["l1_hit_percent"] for name in NAMES},
        binding={name: b.binding for name, b in bound.items()},
        explained=100 * bound["coalesced"].ms / rec.value("coalesced", 4096),
    )
