"""The Hopper kernels on a GPU beside the emulator, element by element:
data/validation/hopper_<gpu>.json.

    python -m tools.hopper_on_a_gpu --out data/validation/hopper_h200.json

Runs every TMA kernel of the catalog at SHAPES, on the GPU and in the emulator under two orders of
the warps, with the same operands and the same launch, and writes how many elements of C have other
bits, by how much they differ at most, and what the emulator found. The emulator's runs go on side
by side, in processes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers.ladder import launch, numbers
from helpers.ladder.kernel import Geometry
from helpers.ladder.rungs import catalog, fingerprint
from helpers.record import stamps
from nogpu.disk import replace_file
from nogpu.errors import EmulationError, TileError
from tools import beside, mutants_hopper
from tools.recorder import campaign

Shape = tuple[int, int, int]
SHAPES: tuple[Shape, ...] = (
    (1, 1, 1), (7, 5, 3), (64, 64, 64), (65, 33, 17), (128, 256, 64), (129, 257, 65),
    (200, 312, 136), (256, 512, 128), (300, 520, 330), (1, 640, 96), (640, 1, 96), (130, 70, 3000),
)  # fmt: skip
"""M, N, K: one element, less than a tile, whole tiles, edges of each kind, rows that TMA cannot
describe, long K."""
ORDERS = ("ascending", "permuted")
KERNELS = tuple(name for name, kernel in catalog.items() if kernel.host == "tma")
MOST_STEPS = 4_000_000


def launched(name: str, shape: Shape) -> Geometry:
    """The launch of a kernel at a shape, the same on both sides."""
    return mutants_hopper.planned(catalog[name], shape)


@dataclass(frozen=True)
class Emulated:
    """What the emulator says: C as the kernel stores it, kinds of findings, wrong elements; or its
    error."""

    C: np.ndarray
    kinds: tuple[str, ...]
    wrong: int
    error: str


def emulated(name: str, shape: Shape) -> Emulated:
    """A launch under each order of the warps."""
    kinds: set[str] = set()
    wrong, error = 0, ""
    p = launched(name, shape)
    for order in ORDERS:
        try:
            found = launch.trace_of(p, schedule=order, max_steps=MOST_STEPS)
        except EmulationError as fault:
            error = str(fault).split("\n", 1)[0][:200]
            continue
        kinds |= {f.kind for f in found.report.findings}
        wrong += found.wrong
    A, B = numbers.operands(p.kernel, p.M, p.N, p.K)
    C = np.zeros((0, 0)) if error else launch.product(p, A, B, backend="emulator")
    return Emulated(C, tuple(sorted(kinds)), wrong, error)


def compared(name: str, shape: Shape, here: Emulated) -> dict[str, Any]:
    """The row of a launch. differ: elements whose bits are others; apart: the largest difference,
    in units of the last place of the larger of the two; wrong: elements that are beyond the bound
    on the GPU."""
    p = launched(name, shape)
    k = p.kernel
    A, B = numbers.operands(k, p.M, p.N, p.K)
    C = launch.product(p, A, B, backend="cuda")
    again = launch.product(p, A, B, backend="cuda")
    want, bound = numbers.reference(k, A, B), numbers.error_bound(k, A, B)
    row: dict[str, Any] = {
        "kernel": name, "m": p.M, "n": p.N, "k": p.K, "params": dict(p.params),
        "elements": int(C.size), "wrong": int(numbers.beyond(k, C, want, bound)),
        "same_again": bool((C.view(np.uint8) == again.view(np.uint8)).all()),
        "emulator_wrong": here.wrong, "findings": list(here.kinds), "error": here.error,
        "source": fingerprint(name),
    }  # fmt: skip
    if here.C.shape == C.shape:
        bits = [np.ascontiguousarray(x).view(f"u{x.itemsize}") for x in (C, here.C)]
        differ = bits[0] != bits[1]
        row["differ"] = int(differ.sum())
        row["apart"] = int(max(np.abs(ordered(bits[0]) - ordered(bits[1])).max(), 0))
    return row


def ordered(bits: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats that have these bits: neighbours are one apart."""
    wide = bits.astype(np.int64)
    sign = np.int64(1) << (8 * bits.itemsize - 1)
    return np.where(wide & sign, sign - wide, wide)


def run(
    out: Path, kernels: Sequence[str] = KERNELS, shapes: Sequence[Shape] = SHAPES
) -> list[dict[str, Any]]:
    """Compare and write the record; its rows. Raises NoGPUError where there is none."""
    campaign.require_gpu()
    session = campaign.RecordingSession()
    stamp = stamps.stamp(session.versions(), stamps.commit())
    todo = [(name, shape) for name in kernels for shape in shapes]
    started = time.monotonic()
    here = beside.side_by_side(emulated, todo)
    print(f"{len(todo)} launches in the emulator: {time.monotonic() - started:.0f} s", flush=True)
    rows = [compared(name, shape, e) for (name, shape), e in zip(todo, here, strict=True)]
    record = {"gpu": session.gpu.name, "orders": list(ORDERS), "recorded": stamp, "rows": rows}
    replace_file(out, json.dumps(record, indent=1) + "\n")
    return rows


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """A line a kernel."""
    for name in dict.fromkeys(r["kernel"] for r in rows):
        own = [r for r in rows if r["kernel"] == name]
        print(
            f"{name:16s} {len(own):3d} shapes, {sum(r['elements'] for r in own):7d} elements, "
            f"{sum(r.get('differ', 0) for r in own):6d} with other bits, at most "
            f"{max(r.get('apart', 0) for r in own)} apart, {sum(r['wrong'] for r in own)} wrong, "
            f"not compared {sum('differ' not in r for r in own)}, "
            f"findings {sorted({f for r in own for f in r['findings']})}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.hopper_on_a_gpu", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the record (JSON)")
    parser.add_argument("--kernels", nargs="+", default=list(KERNELS), choices=KERNELS)
    options = parser.parse_args(arguments)
    try:
        show(run(options.out, options.kernels))
    except TileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
