"""What the notes of the tuning runs say of the kernel of chapter 20 (data/tries/mma.md)."""

from __future__ import annotations

import re

from helpers.kernel import ROOT


def said() -> dict[str, float]:
    """The prediction of mma_tma at 4096, % of cuBLAS, give or take `within`, written before it ran; and
    `alone`, TFLOP/s of mma.sync m16n8k16 with nothing to feed it."""
    notes = (ROOT / "data" / "tries" / "mma.md").read_text(encoding="utf-8")
    predicted = re.search(r"fed by TMA .* \| (\d+) \+- (\d+) \|", notes)
    alone = re.search(r"m16n8k16 takes \d+ cycles of a sub-core \(peak (\d+) TFLOP/s", notes)
    assert predicted and alone, "data/tries/mma.md"
    return {"percent": float(predicted[1]), "within": float(predicted[2]), "alone": float(alone[1])}
