"""What the emulator counts for the catalog and for all that the labs are tried on, by the compiler
that is here.

`python -m tools.compiler_counts [KIND ...]` prints it as JSON: of the catalog every kernel, of the
labs the sources of these kinds (`rehearsing.KINDS`; default solutions). It needs NumPy and a
compiler alone, so that it runs wherever a student's does; tests/test_compiler_counts.py compares
two of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import helpers
from helpers.ladder.kernel import Kernel
from nogpu import toolchain
from tilelabs import labs
from tilelabs.judging import compiling, running
from tilelabs.judging.marking import cases, mark
from tilelabs.labs.checking import judged
from tilelabs.labs.rehearsing import Source, sources
from tilelabs.labs.rubrics import Lab

SECRET = b"which compiler is here"
SIDE = 96
KINDS = ("solution",)
ASKS = """extern "C" __global__ void asks(const float* A, float* C) {
    C[threadIdx.x] = A[threadIdx.x];
#if __CUDACC_VER_MAJOR__ < 13
    C[threadIdx.x] += A[threadIdx.x * 8];
#endif
}
"""
"""The control: a kernel that asks which compiler it is, and does more work for one of them."""


def of_lab(lab: Lab, source: Source) -> dict[str, Any]:
    """Resources, counts and points of a source, on the first case in which work counts."""
    variant = next(v for v in lab.variants if v.name == source.variant)
    spec = lab.specification(variant)
    counted = [c for c in cases(spec, SECRET, lab.number, lab.version) if c.counted][:1]
    found = mark(source.text, spec, counted, lock=False)
    parts = judged(lab, variant, found).parts
    return {
        **_used(found.registers, found.spills, found.stack),
        "refused": found.stage,
        "runs": [asdict(run) for run in found.runs],
        "points": {part.rubric.id: part.points for part in parts},
    }


def of_kernel(kernel: Kernel) -> dict[str, Any]:
    """Resources and counts of a kernel of the catalog."""
    plan = helpers.plan(kernel.name, SIDE, SIDE, SIDE)
    trace = plan.trace(arch=kernel.min_arch)
    used = plan.resources(kernel.min_arch)
    return {
        **_used(used.registers, used.spill_stores + used.spill_loads, used.stack),
        "wrong": trace.wrong,
        **running.counted([trace.report]),
    }


def of_control() -> dict[str, Any]:
    """Counts of `ASKS`."""
    import numpy as np

    from nogpu import emulator

    A, C = np.ones(256, np.float32), np.zeros(32, np.float32)
    return running.counted([emulator.launch(ASKS, "asks", 1, 32, [A, C], arch="sm_75")])


def _used(registers: int, spills: int, stack: int) -> dict[str, int]:
    return {"registers": registers, "spills": spills, "stack": stack}


def everything(kinds: tuple[str, ...] = KINDS) -> Iterator[tuple[str, dict[str, Any]]]:
    """All of it, by name."""
    yield "control", of_control()
    for kernel in helpers.catalog.values():
        yield f"catalog, {kernel.name}", of_kernel(kernel)
    for lab in labs.all_labs():
        for source in sources(lab):
            if source.kind in kinds:
                yield f"lab {lab.number}, {source.kind}, {source.name}", of_lab(lab, source)


if __name__ == "__main__":
    compiling.ready()
    counts = dict(everything(tuple(sys.argv[1:]) or KINDS))
    print(json.dumps({"compiler": toolchain.compiler(), "counts": counts}))
