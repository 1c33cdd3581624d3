"""What the record and the notes of the tuning runs (data/tries/hopper.md) say of the kernels of
chapter 21."""

import itertools
import re
from typing import Any

from helpers.chapters.notes import numbers, read
from helpers.ladder.rungs import catalog, cores
from helpers.page import judging
from helpers.record import load, measure

STEPS = ("hopper_1", "hopper_2", "hopper_3")


def noted() -> dict[str, float]:
    """Of step 2 with four stages, so one block an SM, and of step 1, % of cuBLAS in one run at 4096
    and 8192; `least` and `most` of step 2 at 8192 in all runs; `beside`: bytes a clock of copies
    beside which wgmma ran no slower."""
    found: dict[str, float] = {}
    for name, words in (
        ("four", r"k2 s4 \d+/\d+ = (\d+)/(\d+) %"),
        ("first", r"k1 \d+/\d+ = (\d+)/(\d+) %"),
    ):
        at_4096, at_8192 = numbers("hopper.md", words)
        found |= {f"{name}_4096": at_4096, f"{name}_8192": at_8192}
    (beside,) = numbers("hopper.md", r"wgmma beside copies at (\d+) bytes a cycle runs no slower")
    runs = re.findall(r"k2 (?:s3 [^=]*= \d+|\d+\.\d)/(\d+(?:\.\d)?)", read("hopper.md"))
    second = [float(percent) for percent in runs]
    return {**found, "beside": beside, "least": min(second), "most": max(second)}


def found() -> dict[str, Any]:
    """Of steps 1 to 3 on an H200: `percent` of cuBLAS at 4096, mma_tma's too, and of step 3 at 8192
    (`large`); points that a step gains over the one before, by kernel and size ("hopper_2_4096");
    `least` and `worst` of their largest errors at 1025; how many `kernels` there are."""
    names = ("mma_tma", *STEPS)
    rec = measure(names, sizes=[4096, 8192], gpu="h200")
    percent = {(n, s): 100 * rec.value(n, s, "cublas_ratio") for n in names for s in (4096, 8192)}
    cube = {"m": 1025, "n": 1025, "k": 1025}
    points = (p for name in STEPS for p in load("h200").find("points", kernel=name, **cube))
    errors = [p["max_error"] for p in points]
    return {
        "percent": {name: percent[name, 4096] for name in names},
        "large": percent["hopper_3", 8192],
        "gain": {
            f"{new}_{size}": percent[new, size] - percent[old, size]
            for old, new in itertools.pairwise(STEPS)
            for size in (4096, 8192)
        },
        "least": min(errors),
        "worst": max(errors),
        "kernels": sum(kernel.chapter == 21 for kernel in catalog.values()),
    }


def unwaited() -> set[str]:
    """Kinds of what the emulator finds in the core of step 1 without its wait for the products."""
    core = cores["hopper_1_core"]
    text = core.source.replace("wgmma_finish(sum);", "")
    return {f.kind for f in judging.judge(text, core, backend="emulator").findings}
