"""What the record and the notes of the tuning runs (data/tries/mma.md) say of the kernel of chapter 20."""

from __future__ import annotations

import re
from typing import Any

from helpers import device
from helpers.kernel import ROOT
from helpers.measuring import load, measure, stalls
from helpers.rungs import catalog
from helpers.toolchain import instruction_mix

PAIR = ("mma_pipelined", "mma_tma")


def said() -> dict[str, float]:
    """The prediction of mma_tma at 4096, % of cuBLAS, give or take `within`, written before it ran; and
    `alone`, TFLOP/s of mma.sync m16n8k16 with nothing to feed it."""
    notes = (ROOT / "data" / "tries" / "mma.md").read_text(encoding="utf-8")
    predicted = re.search(r"fed by TMA .* \| (\d+) \+- (\d+) \|", notes)
    alone = re.search(r"m16n8k16 takes \d+ cycles of a sub-core \(peak (\d+) TFLOP/s", notes)
    assert predicted and alone, "data/tries/mma.md"
    return {"percent": float(predicted[1]), "within": float(predicted[2]), "alone": float(alone[1])}


def found() -> dict[str, Any]:
    """Of mma_pipelined and mma_tma on an H200, by kernel: instructions of the main loop (`ops`), those that
    multiply (`hmma`, %), `mix` of the first, `copies` by cp.async in the second; clocks in which Tensor Cores
    work (`tensor`, %) at 4096; `waits`: at a barrier (%), and the two reasons that cost mma_tma `most`;
    `sectors` asked of global memory at 1024. `fastest` of chapters 18 and 19 at 4096; `peak` in TFLOP/s.
    """
    before = [n for n, k in catalog.items() if k.chapter in (18, 19) and k.dtype == "float16"]
    rec = measure(before, sizes=[4096], gpu="h200")
    rate = {row["kernel"]: row["gflops"] for row in rec.rows if row["gflops"] == row["gflops"]}
    mix = {n: instruction_mix(n, arch="sm_90a" if n == "mma_tma" else "sm_90") for n in PAIR}
    asked = {row["kernel"]: row for row in stalls(PAIR, gpu="h200")}
    reasons = {why: part for why, part in asked["mma_tma"]["waits"].items() if why != "issues"}
    return {
        "ops": {name: sum(m.values()) for name, m in mix.items()},
        "hmma": {name: 100 * m["HMMA"] / sum(m.values()) for name, m in mix.items()},
        "mix": {op: mix["mma_pipelined"][op] for op in ("HMMA", "LDSM")},
        "copies": sum(count for op, count in mix["mma_tma"].items() if "LDG" in op),
        "tensor": {name: row["tensor_percent"] for name, row in asked.items()},
        "waits": {name: row["waits"]["barrier"] for name, row in asked.items()}
        | {"most": " ".join(sorted(reasons, key=lambda why: -reasons[why])[:2])},
        "sectors": {
            c["kernel"]: c["values"]["global_load_sectors"]
            for c in load("h200").counters
            if c["kernel"] in PAIR and c["m"] == 1024
        },
        "fastest": max(rate, key=lambda name: rate[name]),
        "peak": device.gpu("h200").peak_gflops("bf16") / 1e3,
    }
