"""Chapter 11's record: what a longer step is worth to each kernel, and each kernel's best tile.

Shares are percent of cuBLAS at 4096, from the record's points (default tiles) and sweeps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.ladder.rungs import catalog
from helpers.record import DEFAULT_GPU, fingerprint, load, measure, tuned
from nogpu import toolchain

SIDES = ("BM", "BN", "TM", "TN")


@dataclass(frozen=True)
class Steps:
    """share: percent of cuBLAS by (kernel, BK), for the block and patch of the vectorised kernel
    and two buffers. swept: every recorded tile. label: whose they are."""

    share: dict[tuple[str, int], float]
    swept: list[Any]
    label: str

    def best(self, kernel: str) -> float:
        """The best share of a kernel over its steps."""
        return max(v for (name, _), v in self.share.items() if name == kernel)

    def alike(self, one: str, other: str) -> list[float]:
        """Rate of `one` over that of `other`, for tiles with BK = 8 and two buffers alike."""
        rates = [
            {
                (*(e["params"][n] for n in SIDES), e["blocks_per_sm"]): e["cublas_ratio"]
                for e in self.swept
                if e["kernel"] == k and e["params"]["BK"] == 8 and e["params"].get("STAGES", 2) == 2
            }
            for k in (one, other)
        ]
        return [rates[0][tile] / rates[1][tile] for tile in rates[0] if tile in rates[1]]

    def top(self, kernel: str, sums: int) -> float:
        """Percent of cuBLAS of the fastest recorded tile with so many sums a thread; NaN if there
        is none."""
        found = [
            100 * e["cublas_ratio"] for e in self.swept
            if e["kernel"] == kernel and e["params"]["TM"] * e["params"]["TN"] == sums
        ]  # fmt: skip
        return max(found, default=float("nan"))


def cover(kernels: Sequence[str], arch: str = "sm_90") -> dict[str, tuple[int, int]]:
    """Multiply-adds of a warp from the last load of a tile to the first instruction that needs one,
    and those of a whole step, in each kernel's machine code.

    What needs a tile is a store to shared memory, or the end of the step, where cp.async is waited
    for.
    """
    found = {}
    for name in kernels:
        k = catalog[name]
        values = {n: str(v) for n, v in k.params.items()}
        made = toolchain.compile(k.source, name=k.file, arch=arch, defines=values)
        code = toolchain.main_loop(*toolchain.sass_instructions(made.cubin, k.entry))
        ops = [i.opcode.split(".")[0] for i in code]
        last_load = max(i for i, op in enumerate(ops) if op in ("LDG", "LDGSTS"))
        around = ops[last_load + 1 :] + (ops[:last_load] if "STS" in ops else [])
        needed = around.index("STS") if "STS" in around else len(around)
        found[name] = around[:needed].count("FFMA"), ops.count("FFMA")
    return found


def recorded(kernels: Sequence[str], gpu: str = DEFAULT_GPU) -> Steps:
    """What is recorded of these kernels' steps and tiles on a GPU, of their code as it stands."""
    shape = {n: catalog["vectorised"].params[n] for n in SIDES}
    record, points = load(gpu), measure(list(kernels), sizes=4096, gpu=gpu)
    swept = [
        e for k in kernels for e in record.find("sweep", kernel=k, source=fingerprint(k), m=4096)
        if e["cublas_ratio"]
    ]  # fmt: skip
    share = {
        (e["kernel"], e["params"]["BK"]): 100 * e["cublas_ratio"] for e in swept
        if shape.items() <= e["params"].items() and e["params"].get("STAGES", 2) == 2
    }  # fmt: skip
    for k in kernels:
        ratio = points.value(k, 4096, "cublas_ratio")
        if shape.items() <= catalog[k].params.items() and np.isfinite(ratio):
            share[k, catalog[k].params["BK"]] = 100 * ratio
    return Steps(share, swept, record.label(swept))


def tuned_rows(
    kernels: Sequence[str], steps: Steps, gpu: str = DEFAULT_GPU
) -> list[dict[str, Any]]:
    """A row for each kernel: fastest tile with 64 and with 128 sums, and the best, timed again."""
    rows = []
    for k in kernels:
        best = tuned(k, 4096, gpu)
        if best is None:
            continue
        t = best["params"]
        rows.append(
            {
                "kernel": k, "tiles": best["tiles"], "small": steps.top(k, 64),
                "large": steps.top(k, 128), "best": 100 * best["cublas_ratio"],
                "tile": f"{t['BM']}x{t['BN']}x{t['BK']}, {t['TM']}x{t['TN']}",
            }
        )  # fmt: skip
    return rows
