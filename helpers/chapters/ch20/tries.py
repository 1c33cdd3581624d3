"""What the record and the notes of the tuning runs (data/tries/mma.md) say of the kernel of chapter
20."""

import json
from typing import Any

import numpy as np

from helpers.chapters.notes import named
from helpers.ladder.rungs import catalog
from helpers.ladder.usage import instruction_mix
from helpers.record import measure, stalls, store
from nogpu import device

PAIR = ("mma_pipelined", "mma_tma")


def noted() -> dict[str, float]:
    """The prediction of mma_tma at 4096, % of cuBLAS, give or take `within`, written before it ran,
    with thousands of clocks: `all` of mma_pipelined, `alone_k` of its multiply-adds, `left` at
    most. `alone`: TFLOP/s of mma.sync m16n8k16 with nothing to feed it."""
    patterns = {
        ("all", "alone_k", "left"): r"copies cost \d+k of (\d+)k cycles.*?alone take (\d+)k\. So\n"
        r"between \d+k and (\d+)k",
        ("percent", "within"): r"fed by TMA [^\n]* \| (\d+) \+- (\d+) \|",
        ("alone",): r"m16n8k16 takes \d+ cycles of a sub-core \(peak (\d+) TFLOP/s",
    }
    return named("mma.md", patterns)


def found() -> dict[str, Any]:
    """Of mma_pipelined and mma_tma, by kernel: instructions of the main loop (`ops`), those that
    multiply (`hmma`, %), `mix` of the first, `copies` by cp.async in the second; `fastest` of
    chapters 18 and 19 at 4096 on an H200; `peak` in TFLOP/s. `waits`: at a barrier (%), and the two
    reasons that cost mma_tma `most`; empty where that is not recorded."""
    before = [n for n, k in catalog.items() if k.chapter in (18, 19) and k.dtype == "float16"]
    rec = measure(before, sizes=[4096], gpu="h200")
    rate = {row["kernel"]: row["gflops"] for row in rec.rows if row["gflops"] == row["gflops"]}
    mix = {n: instruction_mix(n, arch="sm_90a" if n == "mma_tma" else "sm_90") for n in PAIR}
    return {
        "ops": {name: sum(m.values()) for name, m in mix.items()},
        "hmma": {name: 100 * m["HMMA"] / sum(m.values()) for name, m in mix.items()},
        "mix": {op: mix["mma_pipelined"][op] for op in ("HMMA", "LDSM")},
        "copies": sum(count for op, count in mix["mma_tma"].items() if "LDG" in op),
        "fastest": max(rate, key=lambda name: rate[name]),
        "peak": device.gpu("h200").peak_gflops("bf16") / 1e3,
        "waits": _waits(),
    }


def boxes() -> dict[str, Any]:
    """Boxes that an H200 was asked for (tools/boxes_on_a_gpu.py), all at a place of shared memory
    that it takes: how many, those whose kernel it `ended`, and whether these are `just` the ones
    that begin between two chunks of a row, or that are stored and begin before the tensor."""
    record = json.loads((store.VALIDATION / "boxes_h200.json").read_text(encoding="utf-8"))
    rows = [row for row in record["boxes"] if not row["shift"]]

    def breaks(row: dict[str, Any]) -> bool:
        between = row["col"] * np.dtype(row["dtype"]).itemsize % 16 > 0
        return between or (row["does"] != "load" and min(row["row"], row["col"]) < 0)

    ended = [row for row in rows if row["end"] != "ok"]
    just = ended == [row for row in rows if breaks(row)]
    return {"asked": len(rows), "ended": len(ended), "just": just}


def _waits() -> dict[str, Any]:
    rows = {row["kernel"]: row["waits"] for row in stalls(PAIR, gpu="h200")}
    if len(rows) < len(PAIR):
        return {}
    reasons = {why: part for why, part in rows["mma_tma"].items() if why != "issues"}
    most = sorted(reasons, key=lambda why: -reasons[why])[:2]
    return {**{name: waits["barrier"] for name, waits in rows.items()}, "most": " ".join(most)}
