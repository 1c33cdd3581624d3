"""Time every legal tile of a kernel: section "sweep" of data/measurements/<gpu>.json.

The catalog says which tiles are legal, the compiler which fit; the best by a simple prediction come
first, so that a sweep cut short has timed those. Compiling runs in other processes, ahead of timing.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from helpers import device, model, toolchain
from helpers.errors import ConfigError, TileError
from helpers.kernel import Kernel, broken_rules, geometry
from helpers.measuring import point as points
from helpers.measuring import protocol, record, schema
from helpers.measuring.gpu import BASELINES, GpuFaultError, Session
from helpers.measuring.schema import Point, Size
from helpers.rungs import catalog, find

Params = dict[str, int]
EFFORT = protocol.Effort(
    pairs=5, max_pairs=15, seconds=0.04, warm_ms=12.0, slow_ms=40.0, slow_pairs=3
)
"""What one tile may take: there are hundreds. The best are told apart by more than its spread."""
KERNELS = ("tiled_32", "block_1d", "block_2d", "vectorised", "warp_tiled")
"""What is swept where no kernel is named: those of them that the catalog has."""
MOST_SUMS = 224
"""Sums that a thread can keep: 255 registers less those for addresses and fragments."""
MOST_SPILLS = 256
"""Bytes of spills, stores and loads together, from which on a tile is not timed."""
REPEAT = 0.05
"""What a tile falls back in the order for each tile before it that has the same merit."""
WRITE_EVERY = 5.0
"""Seconds between two writes of the file; it is written at the end, too."""


@dataclass(frozen=True)
class Built:
    """One compiled tile. reason: why it is not timed, or "". Bytes for spills and shared memory."""

    registers: int = 0
    spill_bytes: int = 0
    shared_bytes: int = 0
    blocks_per_sm: int = 0
    cubin: bytes = b""
    reason: str = ""


@dataclass(frozen=True)
class Request:
    """What to sweep. seconds: stop cleanly before this much time is spent. again: measure even what
    is in the file. limit: at most so many tiles of each kernel, the best predicted.
    """

    kernels: tuple[str, ...] = ()
    size: Size = (4096, 4096, 4096)
    gpu: str | None = None
    out: Path | None = None
    commit: str | None = None
    seconds: float | None = None
    limit: int | None = None
    again: bool = False
    workers: int | None = None


@dataclass
class Outcome:
    """What a sweep did: tiles timed, already there, pruned by their resources, refused as wrong
    (with the reason), and left over for want of time.
    """

    path: Path
    measured: int = 0
    present: int = 0
    pruned: int = 0
    refused: list[str] = field(default_factory=list)
    left: int = 0


def legal_tiles(kernel: Kernel | str, size: Size = (4096, 4096, 4096)) -> list[Params]:
    """Every combination of the catalog's choices that its rules and a block's threads allow."""
    k = find(kernel)
    named = [{**k.params, **dict(zip(k.choices, v, strict=True))} for v in _product(k)]
    m, n, kk = size
    return [tile for tile in named if not broken_rules(k, m, n, kk, **tile)]


def _product(k: Kernel) -> Iterator[tuple[int, ...]]:
    return itertools.product(*k.choices.values())


def merit(kernel: Kernel | str, size: Size, gpu: device.Gpu, tile: Mapping[str, int]) -> float:
    """Predicted share of the FP32 peak: what to try first, no claim about the hardware.

    Between 0 and 1 for FP32; of a kernel for Tensor Cores only the order means something.

    The rounds of blocks (`model.rounds_of`, with a guess at the registers); then, unless the kernel reads
    its fragments ahead as those with warp tiles do, the wavefronts of shared memory for each
    multiply-add; a fifth of it for a tile that will spill.
    """
    k = find(kernel)
    p = geometry(k, *size, **tile)
    rows, columns = tile.get("TM", 1), tile.get("TN", 1)
    sums = rows * columns
    wide = 2 if "TN" in tile else 1  # several values a load
    shared = 0.0
    if "WM" not in tile:
        shared = gpu.fp32_lanes_per_sm / device.WARP * (rows + columns) / (wide * sums)
    warps = math.ceil(p.threads / device.WARP)
    registers = min(255, 40 + sums + rows + columns)
    fit = gpu.limits.registers_per_sm // (registers * device.WARP * warps)
    fit = max(fit, tile.get("MIN_BLOCKS", 1))
    blocks = max(1, min(fit, gpu.limits.max_warps_per_sm // warps, gpu.limits.max_blocks_per_sm))
    peak = model.rounds_of(p, gpu, blocks).peak
    spill = 0.2 if 40 + sums + rows + columns > 255 else 1.0
    return spill / (1 / peak + shared)


def build(name: str, tile: Params, arch: str, size: Size) -> Built:
    """Compile one tile and say whether it is worth timing. Runs in a worker process."""
    k = find(name)
    if tile.get("TM", 1) * tile.get("TN", 1) > MOST_SUMS:
        return Built(reason="a thread's TM x TN sums do not fit in 255 registers")
    p = geometry(k, *size, **tile)
    try:
        compiled = toolchain.compile(k.source, name=k.file, arch=arch, defines=p.defines)
        r = compiled.kernels[k.entry]
    except TileError as fault:
        return Built(reason=" ".join(str(fault).split())[:300])
    spilled, shared = r.spill_stores + r.spill_loads, r.shared_bytes + p.shared_bytes
    try:
        blocks = model.occupancy(device.limits(arch), p.threads, r.registers, shared).blocks
    except ConfigError as fault:
        return Built(r.registers, spilled, shared, reason=str(fault))
    why = f"{spilled} bytes of spills: registers do not hold the tile"
    why = why if spilled > MOST_SPILLS else ""
    return Built(r.registers, spilled, shared, blocks, b"" if why else compiled.cubin, why)


def order(
    kernels: Sequence[str], size: Size, gpu: device.Gpu, limit: int | None = None
) -> list[tuple[str, Params]]:
    """Tiles of several kernels, best predicted first, the kernels in turn; defaults before all.

    `merit` cannot tell some tiles apart (stages, the depth of a tile). Of those that share a merit the
    nearest to the default comes first, and each further one waits for tiles that are REPEAT worse, so
    that a limit does not fill up with variants of one shape.
    """
    ranked: list[tuple[float, str, Params]] = []
    for name in kernels:
        default = dict(catalog[name].params)
        groups: dict[float, list[Params]] = {}
        for tile in legal_tiles(name, size):
            groups.setdefault(round(merit(name, size, gpu, tile), 9), []).append(tile)
        scored = [
            (value * (1 - REPEAT) ** i, tile)
            for value, group in groups.items()
            for i, tile in enumerate(sorted(group, key=lambda t: _changes(t, default)))
        ]
        scored.sort(key=lambda row: -row[0])
        tiles = [default, *(tile for _, tile in scored if tile != default)][:limit]
        ranked += [(i / len(tiles), name, tile) for i, tile in enumerate(tiles)]
    ranked.sort(key=lambda row: row[0])
    return [(name, tile) for _, name, tile in ranked]


def _changes(tile: Params, default: Params) -> int:
    return sum(default[name] != value for name, value in tile.items())


def _key(name: str, tile: Params, size: Size) -> tuple[Any, ...]:
    return schema.key({"kernel": name, "params": tile, **dict(zip("mnk", size, strict=True))})


def _todo(
    request: Request, chosen: Sequence[str], data: Mapping[str, Any], gpu: device.Gpu, out: Outcome
) -> list[tuple[str, Params]]:
    """The tiles still to time: those in the file, timed or pruned with the same code, are not."""
    have = {schema.key(e): e["source"] for e in data["sweep"]}
    sources = {name: points.fingerprint(name) for name in chosen}
    found = []
    for name, tile in order(chosen, request.size, gpu, request.limit):
        if not request.again and have.get(_key(name, tile, request.size)) == sources[name]:
            out.present += 1
        else:
            found.append((name, tile))
    return found


def _ahead(
    jobs: Sequence[tuple[str, Params]], arch: str, size: Size, pool: Executor, depth: int
) -> Generator[tuple[str, Params, Built], None, None]:
    """Each job with its compiled tile, in order; `depth` of them are being compiled ahead."""
    waiting: deque[tuple[str, Params, Future[Built]]] = deque()
    rest = iter(jobs)
    try:
        while True:
            for name, tile in itertools.islice(rest, depth - len(waiting)):
                waiting.append((name, tile, pool.submit(build, name, tile, arch, size)))
            if not waiting:
                return
            name, tile, future = waiting.popleft()
            yield name, tile, future.result()
    finally:
        for *_, future in waiting:
            future.cancel()


def time_tile(
    session: Session, name: str, tile: Params, size: Size, built: Built, rng: np.random.Generator
) -> Point:
    """Check and time one compiled tile beside cuBLAS: the fields of a sweep entry that say how fast.

    Raises ImplausibleError if the result is wrong or the rate impossible, ConfigError if it cannot
    be launched.
    """
    k = catalog[name]
    p = geometry(k, *size, **tile)
    what = f"{name} with {_words(tile)}"
    with session.faults(what):
        problem = session.problem(k.dtype, *size)
        C = session.output(k.out_dtype, p.M, p.N)
        run = session.kernel_operation(p, problem.A, problem.B, C, built.cubin)
        operations = {"kernel": run}
        if k.baseline in BASELINES:
            D = session.output(k.out_dtype, p.M, p.N)
            operations["baseline"] = session.baseline_operation(
                k.baseline, problem.A, problem.B, D, k.out_dtype
            )
        timed = protocol.paired(
            session.bench(operations),
            "kernel",
            "baseline" if "baseline" in operations else None,
            effort=EFFORT,
            rng=rng,
            before=lambda: session.poison(C, k.out_dtype),
        )
        worst, ratio = session.error(problem, C, k.out_dtype)
        protocol.refuse_wrong(ratio, what, worst, problem.checked)
    rate = protocol.gflops(*size, timed.ms.median)
    protocol.refuse_above_peak(what, rate, session.peak_gflops(points.PRECISION[k.dtype]))
    return {
        "ms": timed.ms.median,
        "q1": timed.ms.q1,
        "q3": timed.ms.q3,
        "gflops": rate,
        "pairs": timed.ms.count,
        "cublas_ratio": timed.ratio.median if timed.ratio else None,
    }


_NOT_TIMED: Point = dict.fromkeys(("ms", "q1", "q3", "gflops", "pairs", "cublas_ratio"))


def _words(tile: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in tile.items())


def _entry(
    name: str, tile: Params, size: Size, built: Built, times: Point, why: str, stamp: Any
) -> Point:
    return {
        "kernel": name,
        "params": dict(tile),
        **dict(zip("mnk", size, strict=True)),
        **times,
        "registers": built.registers,
        "spill_bytes": built.spill_bytes,
        "shared_bytes": built.shared_bytes,
        "blocks_per_sm": built.blocks_per_sm,
        "reason": why or None,
        "source": points.fingerprint(name),
        "recorded": dict(stamp),
    }


def chosen_kernels(wanted: Sequence[str]) -> list[str]:
    """The kernels to sweep. Raises UnknownKernelError, or ConfigError for one without tile choices."""
    names = list(wanted) or [name for name in KERNELS if name in catalog]
    for name in names:
        if not catalog[name].choices or catalog[name].host != "plain":
            raise ConfigError(f"{name} has no tile sizes to choose from: there is nothing to sweep")
    return names


def _workers(wanted: int | None) -> int:
    return wanted or max(1, min(15, (os.cpu_count() or 2) - 1))


def _step_back() -> None:
    """A compiling process gives way to the one that queues launches."""
    os.nice(10)


def _pool(workers: int) -> Executor:
    # Spawned, not forked: a forked child would inherit the CUDA context of this process.
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=spawn, initializer=_step_back)


def sweep(
    request: Request, say: Callable[[str], None] = print, pool: Callable[[int], Executor] = _pool
) -> Outcome:
    """Time the tiles that a request asks for and merge them into the GPU's measurement file.

    A tile in the file, timed with the same code, is not timed again, so a sweep that was cut off goes
    on where it stopped. Raises NoGPUError, UnknownKernelError, ConfigError, DataError, GpuFaultError.
    """
    chosen = chosen_kernels(request.kernels)
    key = record.gpu_key(record.require_gpu(), request.gpu)
    path = request.out or schema.FOLDER / f"{key}.json"
    started = time.monotonic()
    session, data = record.opened(path, key)
    data["protocol"] = data["protocol"] or record.PROTOCOL
    stamp = points.stamp(session.versions(), points.commit(request.commit))
    table = session.gpu.known or device.gpu("h200")
    outcome = Outcome(path)
    jobs = _todo(request, chosen, data, table, outcome)
    workers = _workers(request.workers)
    say(
        f"{session.gpu.name}: {len(jobs)} tiles of {', '.join(chosen)} to compile and time, "
        f"{outcome.present} in {path} already; {workers} compiling processes"
    )
    rng, began, wrote, done = np.random.default_rng(), time.monotonic(), time.monotonic(), 0
    with pool(workers) as executor:
        session.warm_up()
        ahead = _ahead(jobs, session.gpu.arch, request.size, executor, 6 * workers)
        try:
            for name, tile, built in ahead:
                each = (time.monotonic() - began) / max(1, done)
                spent = time.monotonic() - started
                if request.seconds is not None and spent + 2 * each + 1 > request.seconds:
                    outcome.left = len(jobs) - done
                    break
                done += 1
                text = _one(session, request.size, name, tile, built, data, stamp, outcome, rng)
                say(
                    f"[{done:4d}/{len(jobs)}] {name:12s} {_words(tile):44s} {text}"
                    f"  {each * (len(jobs) - done):4.0f} s to go"
                )
                if time.monotonic() - wrote > WRITE_EVERY:
                    schema.write(path, data)
                    wrote = time.monotonic()
        finally:
            ahead.close()
            executor.shutdown(wait=False, cancel_futures=True)
            schema.write(path, data)
    for line in summary(data["sweep"], chosen, request.size):
        say(line)
    return outcome


def _one(
    session: Session,
    size: Size,
    name: str,
    tile: Params,
    built: Built,
    data: dict[str, Any],
    stamp: Mapping[str, Any],
    outcome: Outcome,
    rng: np.random.Generator,
) -> str:
    """Time one tile into data; what happened, in words. Raises GpuFaultError."""
    times, why = dict(_NOT_TIMED), built.reason
    if why:
        outcome.pruned += 1
    else:
        try:
            times = time_tile(session, name, tile, size, built, rng)
        except TileError as fault:
            why = " ".join(str(fault).split())
            outcome.refused.append(why)
            if isinstance(fault, GpuFaultError):
                schema.merge(data, "sweep", _entry(name, tile, size, built, times, why, stamp))
                raise
        else:
            outcome.measured += 1
    schema.merge(data, "sweep", _entry(name, tile, size, built, times, why, stamp))
    if why:
        return f"not timed: {why[:80]}"
    share = times["cublas_ratio"]
    text = f"{times['ms']:9.4g} ms {times['gflops'] / 1e3:6.2f} TFLOP/s"
    return text + (f" {100 * share:5.1f} % of cuBLAS" if share is not None else "")


def summary(entries: Sequence[Point], kernels: Sequence[str], size: Size) -> list[str]:
    """One line a kernel: its best tile, and the gain over its default tile."""
    lines = []
    for name in kernels:
        default, best = default_and_best(entries, name, size)
        if best is None:
            lines.append(f"{name}: no tile timed")
            continue
        gain = f", {default['ms'] / best['ms']:.3f} times the default" if default else ""
        lines.append(f"{name}: best {_words(best['params'])}, {best['ms']:.4g} ms{gain}")
    return lines


def default_and_best(
    entries: Sequence[Point], name: str, size: Size
) -> tuple[Point | None, Point | None]:
    """The timed entries of a kernel's default tile and of its fastest; None where not timed."""
    timed = [
        e
        for e in entries
        if e["kernel"] == name and (e["m"], e["n"], e["k"]) == tuple(size) and e["ms"] is not None
    ]
    default = next((e for e in timed if e["params"] == dict(catalog[name].params)), None)
    return default, min(timed, key=lambda e: e["ms"], default=None)
