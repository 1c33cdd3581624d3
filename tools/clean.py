"""No false alarm: every kernel that the emulator runs, on random shapes, under two schedules.

`taskset -c 0 python -m tools.clean --out data/validation/clean.json` draws the shapes, awkward ones
first, runs each kernel of the catalog on them and writes how many findings and wrong results there
were: none is what the kernels deserve. About twelve minutes on one core. A kernel whose tiles are
large runs every other shape with smaller legal tiles, so that the shapes span several blocks; one
whose blocks stay, with so few blocks that each takes several tiles.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from datetime import date
from math import isqrt
from pathlib import Path
from random import Random
from typing import Any

from helpers.ladder import launch
from helpers.ladder.kernel import Kernel, geometry
from helpers.ladder.rungs import catalog, find, fingerprint
from nogpu.emulator.observe import oracle
from nogpu.errors import EmulationError
from tools import mutants_hopper
from tools.mutants import TILES

SHAPES = 50
SCHEDULES = ("ascending", "permuted")


def kernels() -> tuple[str, ...]:
    """Every kernel of the catalog that the emulator runs."""
    return tuple(name for name, k in catalog.items() if k.host in ("plain", "tma"))


def most(kernel: str) -> tuple[int, int, int]:
    """M, N and K up to which shapes are drawn: a few tiles, and for stream-K a long K, which it
    cuts."""
    k = catalog[kernel]
    if k.host == "plain":
        return 70, 70, 70
    return (140, 140, 3100) if mutants_hopper.cuts_tiles(k) else (300, 300, 300)


def shapes(kernel: str, count: int = SHAPES) -> list[tuple[int, int, int]]:
    """M, N, K from 1 on: ones, primes, beside the edges of tiles, whole fours, anything.

    For a kernel that takes whole tiles only, whole tiles.
    """
    rng, top = Random(kernel), most(kernel)
    if kernel == "tiled_padded":
        tile = TILES[kernel]["TILE"]
        every = [(m, n, k) for m in range(1, 5) for n in range(1, 5) for k in range(1, 5)]
        return [(m * tile, n * tile, k * tile) for m, n, k in rng.sample(every, count)]
    primes = [p for p in range(2, max(top) + 1) if all(p % d for d in range(2, isqrt(p) + 1))]
    edges = [e + d for e in (2**i for i in range(2, 12)) for d in (-1, 0, 1)]
    drawn: dict[tuple[int, int, int], None] = {(1, 1, 1): None, (1, top[1], 1): None}

    def awkward(high: int) -> int:
        if rng.random() < 0.1:
            return 1
        near = [e for e in edges if e < high]
        return rng.choice(
            (rng.choice([p for p in primes if p <= high]), rng.choice(near), rng.randint(1, high))
        )

    while len(drawn) < count:
        if len(drawn) % 5 == 3:  # aligned rows, where kernels take their wide accesses
            m, n, k = (4 * rng.randint(1, high // 4) for high in top)
        else:
            m, n, k = (awkward(high) for high in top)
        drawn[m, n, k] = None
    return list(drawn)


def tiles(kernel: str) -> list[dict[str, int]]:
    """The parameters that the shapes take in turn: the kernel's own, and smaller ones."""
    twin = {"mma_naive": "mma_ldmatrix", "mma_turing": "mma_ldmatrix", "fp32_turing": "warp_tiled",
            "mma_pipelined_bf16": "mma_pipelined"}.get(kernel, kernel)  # fmt: skip
    small = dict(TILES.get(twin, {}))
    if mutants_hopper.cuts_tiles(catalog[kernel]):
        small = mutants_hopper.CUT
    elif catalog[kernel].host == "tma" and "SMS" in catalog[kernel].params:
        small = mutants_hopper.FEW
    if kernel == "tiled_padded":
        return [small]
    return [{}, small] if small else [{}]


def run(
    kernel: Kernel | str, todo: list[tuple[int, int, int]], params: list[dict[str, int]]
) -> dict[str, Any]:
    """Findings, wrong elements and refusals over these shapes and both schedules, with examples."""
    k = find(kernel)
    findings = wrong = launches = 0
    alarms: list[str] = []
    for i, (m, n, kk) in enumerate(todo):
        for schedule in SCHEDULES:
            launches += 1
            options: dict[str, Any] = {"seed": i, "schedule": schedule, **params[i % len(params)]}
            try:
                trace = launch.trace(k, m, n, kk, **options)
            except EmulationError as error:
                findings += 1
                alarms.append(f"{m}x{n}x{kk}, {schedule}: {error}")
                continue
            findings += sum(f.kind != oracle.KIND for f in trace.report.findings)
            wrong += trace.wrong
            alarms += [f"{m}x{n}x{kk}, {schedule}: {f}" for f in trace.report.findings]
    return {"launches": launches, "findings": findings, "wrong": wrong, "alarms": alarms[:5]}


def identity(kernel: str) -> dict[str, Any]:
    """What a row is about: the code, how it was compiled, the shapes."""
    k, todo = catalog[kernel], shapes(kernel)
    macros = [dict(geometry(k, *s, **p).defines) for s, p in zip(todo, tiles(kernel), strict=False)]
    return {
        "kernel": kernel, "code": fingerprint(k), "arch": launch.emulator_arch(k),
        "defines": macros, "shapes": ["x".join(map(str, s)) for s in todo],
    }  # fmt: skip


def row(kernel: str) -> dict[str, Any]:
    """One kernel's row of the record."""
    k = catalog[kernel]
    started = time.process_time()
    found = run(k, shapes(kernel), tiles(kernel))
    return {**identity(kernel), **found, "seconds": round(time.process_time() - started, 1)}


def stale(record: Mapping[str, Any]) -> list[str]:
    """What of a record is not of today's kernels, tiles and shapes."""
    rows = {r["kernel"]: r for r in record["kernels"]}
    faults = [f"{name}: not in the record" for name in kernels() if name not in rows]
    for name, r in rows.items():
        if name not in kernels():
            faults.append(f"{name}: the emulator does not run it")
            continue
        now = identity(name)
        faults += [f"{name}: its {what} changed" for what, v in now.items() if r[what] != v]
    return faults


def current_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Rows of a record, by kernel, that are of today's code, tiles and shapes: they are not run
    again."""
    found = json.loads(path.read_text(encoding="utf-8"))["kernels"] if path.exists() else []
    rows = {r["kernel"]: r for r in found if r["kernel"] in kernels()}
    own = {name: identity(name).items() for name in rows}
    return {n: r for n, r in rows.items() if all(r[what] == v for what, v in own[n])}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="where to write the record (JSON)")
    out = parser.parse_args().out
    rows, current = [], current_rows(out)
    for name in kernels():
        rows.append(current.get(name) or row(name))
        short = {n: v for n, v in rows[-1].items() if n not in ("shapes", "defines")}
        print(short, file=sys.stderr, flush=True)
    made = {"date": date.today().isoformat(), "schedules": list(SCHEDULES), "kernels": rows}
    text = json.dumps(made, indent=1)
    out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
