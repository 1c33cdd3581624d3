"""The numbers that chapter 10 shows, from counts and the H200's record."""

from types import SimpleNamespace
from typing import Any

from helpers.chapters.facts import gain
from helpers.ladder.rungs import catalog
from helpers.ladder.usage import instruction_mix, resources
from helpers.record import costs, counters, measure, published, stalls, tuned
from helpers.record.plans import plan

NAMES = ("block_2d", "vectorised")
Access = tuple[str, str, str]
COUNTED = (
    "global_load_requests", "global_store_requests", "shared_store_instructions",
    "shared_load_instructions", "shared_load_wavefronts", "instructions",
)  # fmt: skip


def lines(trace: Any) -> dict[Access, Any]:
    """The rows of a trace's table by (array, space, "load" or "store")."""
    return {(r.array, r.space, r.op): r for r in trace.by_line()}


def dealt() -> dict[str, Any]:
    """Traces of this chapter's kernel at 128: with the columns of chapter 9's, and with its own."""
    plain = plan("vectorised", 128, 128, 128)
    source = catalog["vectorised"].source
    far = source.replace("% (BN / TN) * VEC;", "% (BN / TN) * TN;")
    far = far.replace("COL_STEP = VEC * (BN / TN);", "COL_STEP = VEC;")
    cases = {"Eight neighbouring columns a thread": far, "Two groups of four": source}
    return {title: plain.with_source(s).trace(samples=True) for title, s in cases.items()}


def of_the_record() -> SimpleNamespace:
    """Shares and gains in percent, rates in TFLOP/s, conflicts in a thousand, wavefronts for a
    read; falls: what the hardware counts of the second kernel, as a part of the first's."""
    rec = measure(list(NAMES), sizes=[1024, 1025, 4096], gpu="h200")
    bound = costs.bounds("vectorised", 4096, gpu="h200")
    mixes = {n: instruction_mix(n, arch="sm_90") for n in NAMES}
    seen = {n: counters(n, 1024)[0] for n in NAMES}
    was, now = seen.values()
    loads = {n: rec.value(n, 1025, "gflops") / rec.value(n, 1024, "gflops") for n in NAMES}
    best, [row] = tuned("vectorised"), stalls("vectorised", gpu="h200")
    larger = [n for n, v in best["params"].items() if v > best["default"][n]] if best else []
    return SimpleNamespace(
        gpu=rec.gpu,
        each={
            n: c["shared_load_wavefronts"] / c["shared_load_instructions"] for n, c in seen.items()
        },
        conflicts=1000 * was["shared_load_conflicts"] / was["shared_load_wavefronts"],
        left=now["shared_load_conflicts"] / now["shared_load_wavefronts"],
        falls={name: now[name] / was[name] for name in COUNTED},
        fewer=100 * (1 - now["instructions"] / was["instructions"]),
        executed=now["shared_load_instructions"],
        wide_copies=mixes["block_2d"].get("LDG.128", 0),
        share={n: 100 * rec.value(n, 4096, "cublas_ratio") for n in NAMES},
        tflops={n: rec.value(n, 4096, "gflops") / 1e3 for n in NAMES},
        ffma={n: 100 * mix["FFMA"] / sum(mix.values()) for n, mix in mixes.items()},
        gain=100 * (rec.gain("vectorised", "block_2d", 4096) - 1),
        keeps={n: 100 * part for n, part in loads.items()},
        best_gain=100 * (best["gain"] - 1) if best and best["gain"] else 0.0,
        best_changes="".join(larger),
        idle=100 - row["issue_percent"],
        waits=100 - 100 * bound.ms / rec.value("vectorised", 4096),
        binding=bound.binding,
        ms=bound.measured,
        issue_ms=bound[costs.ISSUE].ms,
        l1_ms=bound[costs.L1].ms,
        fit=resources("vectorised", arch="sm_90").occupancy.blocks,
    )


def of_the_documents() -> SimpleNamespace:
    """How many times as fast as the kernel before at 8192: as document L prints it, and here."""
    rows = published(document="L", rung="vectorised", metric="speedup")
    printed = [row["printed"] for row in rows if row["note"] == "against 2D block tiling"]
    return SimpleNamespace(l_gain=printed[0], h_gain=gain("vectorised", "block_2d", 8192))
