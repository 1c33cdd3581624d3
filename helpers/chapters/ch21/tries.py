"""What the notes of the tuning runs say of the kernels of chapter 21 (data/tries/hopper.md)."""

from __future__ import annotations

import re

from helpers.kernel import ROOT


def said() -> dict[str, float]:
    """Of step 2 with four stages, so one block an SM, and of step 1, % of cuBLAS in one run at 4096 and
    8192; `beside`: bytes a clock of copies beside which wgmma ran no slower."""
    notes = (ROOT / "data" / "tries" / "hopper.md").read_text(encoding="utf-8")
    found: dict[str, float] = {}
    for name, words in (
        ("four", r"k2 s4 \d+/\d+ = (\d+)/(\d+) %"),
        ("first", r"k1 \d+/\d+ = (\d+)/(\d+) %"),
    ):
        at = re.search(words, notes)
        assert at, "data/tries/hopper.md"
        found |= {f"{name}_4096": float(at[1]), f"{name}_8192": float(at[2])}
    beside = re.search(r"wgmma beside copies at (\d+) bytes a cycle runs no slower", notes)
    assert beside, "data/tries/hopper.md"
    return {**found, "beside": float(beside[1])}
