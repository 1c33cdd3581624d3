"""Find the tile of a kernel for a size and confirm it, and measure the choice of tile on ragged shapes.

Sections "tuned" and "ragged" of data/measurements/<gpu>.json. The search is `sweep`, a loop over the
legal tiles in the order of a prediction: most kernels have hundreds, and a time takes a fraction of a
second, so that the strategies of Kernel Tuner or Optuna, which avoid visiting every point, would save
little and hide the table. Kernel Tuner times one configuration after the other and does not pair them
with a baseline; where a space is too large for a loop, let it search, and confirm its best few here.

The fastest of hundreds of short times is in part the luckiest. So the best few are timed again at full
effort, in turn with the default tile and cuBLAS; the fastest of those is timed once more, and only
these last samples are recorded.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from helpers.errors import ConfigError, TileError, UnknownNameError
from helpers.kernel import Geometry, Kernel, geometry
from helpers.launch import choose, facts
from helpers.measuring import point as points
from helpers.measuring import protocol, record, schema, sweep
from helpers.measuring.gpu import BASELINES, GpuFaultError, Session
from helpers.measuring.replay import DEFAULT_GPU
from helpers.measuring.schema import Point, Size
from helpers.rungs import catalog, find

EFFORT = protocol.RECORD
"""What a confirmation spends on one set of rounds: as much as `record` on a point."""
FINALISTS = 4
"""How many of a sweep's best tiles are timed again."""
RAGGED_SEED, RAGGED_COUNT, RAGGED_EDGES = 13, 20, (500, 6000)
"""The published set of ragged shapes; nothing was fitted to it."""


def ragged_shapes(
    seed: int = RAGGED_SEED, count: int = RAGGED_COUNT, edges: tuple[int, int] = RAGGED_EDGES
) -> list[Size]:
    """`count` shapes (M, N, K), each edge log-uniform between two edges; the same for the same seed."""
    low, high = edges
    draw = random.Random(seed)

    def edge() -> int:
        return round(low * (high / low) ** draw.random())

    return [(edge(), edge(), edge()) for _ in range(count)]


@dataclass(frozen=True)
class Request:
    """What to tune. ragged: the choice of tile on the ragged shapes in place of a size's best tile.

    seconds: stop cleanly before this much time is spent, the sweep included. limit: tiles that the
    sweep times at most, the best predicted. again: confirm what is in the file already, too.
    """

    kernel: str
    size: Size = (4096, 4096, 4096)
    ragged: bool = False
    gpu: str | None = None
    out: Path | None = None
    commit: str | None = None
    seconds: float | None = None
    limit: int | None = None
    finalists: int = FINALISTS
    again: bool = False
    workers: int | None = None


@dataclass
class Outcome:
    """What tuning did: entries recorded and there already, what was refused, and why it stopped."""

    path: Path
    recorded: int = 0
    present: int = 0
    refused: list[str] = field(default_factory=list)
    left: int = 0


@dataclass(frozen=True)
class _Bench:
    """A GPU opened for one kernel and shape: operations by tile number, and "cublas"."""

    session: Session
    plans: Sequence[Geometry]
    outputs: Sequence[Any]
    problem: Any
    operations: Mapping[str, Any]

    @staticmethod
    def open(session: Session, k: Kernel, size: Size, tiles: Sequence[Mapping[str, int]]) -> _Bench:
        plans = [geometry(k, *size, **tile) for tile in tiles]
        problem = session.problem(k.dtype, *size)
        outputs = [session.output(k.out_dtype, size[0], size[1]) for _ in plans]
        operations = {}
        for i, (p, C) in enumerate(zip(plans, outputs, strict=True)):
            cubin = sweep.build(k.name, dict(p.params), session.gpu.arch, size).cubin
            operations[str(i)] = session.kernel_operation(p, problem.A, problem.B, C, cubin)
        if k.baseline in BASELINES and session.supports(BASELINES[k.baseline].min_arch):
            D = session.output(k.out_dtype, size[0], size[1])
            operations["cublas"] = session.baseline_operation(
                k.baseline, problem.A, problem.B, D, k.out_dtype
            )
        return _Bench(session, plans, outputs, problem, operations)

    def poison(self) -> None:
        for p, C in zip(self.plans, self.outputs, strict=True):
            self.session.poison(C, p.kernel.out_dtype)

    def rounds(self, names: Sequence[str], rng: np.random.Generator) -> protocol.Rounds:
        """Interleaved samples of these operations; every output is checked after them."""
        chosen = [*names, *(["cublas"] if "cublas" in self.operations else [])]
        done = protocol.interleaved(
            self.session.bench(dict(self.operations)),
            chosen,
            effort=EFFORT,
            rng=rng,
            before=self.poison,
        )
        for name in names:
            self.error(name)
        return done

    def error(self, name: str) -> tuple[float, float]:
        """Largest error of a tile's result, absolute and over its tolerance. Raises ImplausibleError."""
        p, C = self.plans[int(name)], self.outputs[int(name)]
        worst, ratio = self.session.error(self.problem, C, p.kernel.out_dtype)
        what = f"{p.kernel.name} with {sweep._words(p.params)} at {p.M}x{p.N}x{p.K}"
        protocol.refuse_wrong(ratio, what, worst, self.problem.checked)
        return worst, ratio


def confirm(
    session: Session,
    k: Kernel,
    size: Size,
    tiles: Sequence[Mapping[str, int]],
    rng: np.random.Generator,
    *,
    knockout: bool,
) -> Point:
    """Time tiles in turn with the default tile and cuBLAS; the entry of the one that is kept.

    tiles: complete tile sizes. knockout: a first set of rounds finds the fastest of several, which
    must be faster than the default in at least three rounds of four of a second set, or the default
    is kept; without it there is one tile, and it is kept. Raises ImplausibleError for a wrong result
    or an impossible rate.
    """
    default = dict(k.params)
    field_ = [default, *(dict(t) for t in tiles if dict(t) != default)]
    with session.faults(f"{k.name} at {'x'.join(map(str, size))}"):
        bench = _Bench.open(session, k, size, field_)
        others = [str(i) for i in range(1, len(field_))]
        if knockout and len(others) > 1:
            first = bench.rounds(["0", *others], rng)
            others = [min(others, key=lambda name: float(np.median(first.ms[name])))]
        kept = others[0] if others else "0"
        done = bench.rounds(list(dict.fromkeys(["0", kept])), rng)
        gain = done.ratio(kept, "0")
        if knockout and gain.q1 <= 1:
            kept = "0"
        worst, ratio = bench.error(kept)
    ms = protocol.spread(done.ms[kept])
    share = done.ratio(kept, "cublas") if "cublas" in done.ms else None
    rate = protocol.gflops(*size, ms.median)
    protocol.refuse_above_peak(
        f"{k.name} at {size}", rate, session.peak_gflops(points.PRECISION[k.dtype])
    )
    return {
        "kernel": k.name,
        "params": dict(bench.plans[int(kept)].params),
        "default": default,
        **dict(zip("mnk", size, strict=True)),
        "ms": ms.median,
        "q1": ms.q1,
        "q3": ms.q3,
        "gflops": rate,
        "pairs": ms.count,
        "gain": gain.median if kept != "0" else None,
        "gain_q1": gain.q1 if kept != "0" else None,
        "gain_q3": gain.q3 if kept != "0" else None,
        "cublas_ratio": share.median if share else None,
        "ratio_q1": share.q1 if share else None,
        "ratio_q3": share.q3 if share else None,
        "max_error": worst,
        "error_over_tolerance": ratio,
        "checked": bench.problem.checked,
        "source": points.fingerprint(k),
    }


def _same(entry: Point | None, tiles: Sequence[Mapping[str, int]], more: Point) -> bool:
    """Whether an entry answers today's question: as many tiles timed, or the same tile chosen."""
    if entry is None or any(entry[name] != value for name, value in more.items()):
        return False
    return "tiles" in more or entry["params"] == tiles[0]


def finalists(entries: Iterable[Point], k: Kernel, size: Size) -> list[dict[str, int]]:
    """The tiles with the shortest times in a sweep of today's code, the fastest first."""
    source = points.fingerprint(k)
    timed = [
        e
        for e in entries
        if e["kernel"] == k.name and _shape(e) == size and e["source"] == source and e["ms"]
    ]
    return [dict(e["params"]) for e in sorted(timed, key=lambda e: float(e["ms"]))]


def _shape(entry: Mapping[str, Any]) -> Size:
    return entry["m"], entry["n"], entry["k"]


def _put(data: dict[str, Any], section: str, entry: Point) -> None:
    """One entry a kernel and shape: what an earlier run found gives way."""
    same = (entry["kernel"], _shape(entry))
    data[section] = [e for e in data[section] if (e["kernel"], _shape(e)) != same]
    data[section].append(entry)


def _have(data: Mapping[str, Any], section: str, k: Kernel, size: Size) -> Point | None:
    source = points.fingerprint(k)
    return next(
        (
            e
            for e in data[section]
            if e["kernel"] == k.name and _shape(e) == size and e["source"] == source
        ),
        None,
    )


def tune(
    request: Request,
    say: Callable[[str], None] = print,
    pool: Callable[[int], Executor] = sweep._pool,
) -> Outcome:
    """Do what a request asks for and merge it into the GPU's measurement file.

    For a size: sweep (what is in the file is not timed again), then `confirm` the best few. Ragged:
    `confirm` the tile that `launch.choose` picks, shape by shape. Raises NoGPUError, ConfigError,
    UnknownKernelError, DataError, GpuFaultError.
    """
    k = find(request.kernel)
    began = time.monotonic()
    key = record.gpu_key(record.require_gpu(), request.gpu)
    path = request.out or schema.FOLDER / f"{key}.json"
    outcome = Outcome(path)
    if request.ragged:
        choose(k, *request.size)  # raises ConfigError for a kernel with one tile
        jobs = ragged_shapes()
    else:
        jobs = [request.size]
        _sweep(request, say, pool)
    session, data = record.opened(path, key)
    data["protocol"] = data["protocol"] or record.PROTOCOL
    stamp = points.stamp(session.versions(), points.commit(request.commit))
    section = "ragged" if request.ragged else "tuned"
    rng, each, started = np.random.default_rng(), 0.0, time.monotonic()
    session.warm_up()
    for done, size in enumerate(jobs):
        words = "x".join(map(str, size))
        if request.ragged:
            tiles = [dict(choose(k, *size, gpu=facts()).params)]
            more: Point = {"seed": RAGGED_SEED}
        else:
            timed = finalists(data["sweep"], k, size)
            tiles, more = timed[: request.finalists], {"tiles": len(timed)}
            if not tiles:
                raise ConfigError(f"no tile of {k.name} is timed at {words}: give more --seconds")
        if not request.again and _same(_have(data, section, k, size), tiles, more):
            outcome.present += 1
            say(f"{k.name} at {words}: confirmed in {path} already")
            continue
        if request.seconds is not None and time.monotonic() - began + each > request.seconds:
            outcome.left = len(jobs) - done
            break
        try:
            entry = confirm(session, k, size, tiles, rng, knockout=not request.ragged)
        except TileError as fault:
            outcome.refused.append(" ".join(str(fault).split()))
            say(f"{k.name} at {words}: REFUSED: {fault}")
            if isinstance(fault, GpuFaultError):
                raise
            continue
        _put(data, section, {**entry, **more, "recorded": dict(stamp)})
        schema.write(path, data)
        outcome.recorded += 1
        say(f"{k.name} at {words}: {describe(entry)}")
        each = (time.monotonic() - started) / (done + 1)
    found = ragged_result(data, k.name) if request.ragged else None
    if found:
        say(str(found))
    return outcome


def _sweep(request: Request, say: Callable[[str], None], pool: Callable[[int], Executor]) -> None:
    seconds = None if request.seconds is None else 0.8 * request.seconds  # the rest is to confirm
    sweep.sweep(
        sweep.Request(
            kernels=(request.kernel,),
            size=request.size,
            gpu=request.gpu,
            out=request.out,
            commit=request.commit,
            seconds=seconds,
            limit=request.limit,
            workers=request.workers,
        ),
        say,
        pool,
    )


def describe(entry: Mapping[str, Any]) -> str:
    """A confirmed tile in a line: sizes, time, gain over the default tile, share of cuBLAS."""
    text = f"{sweep._words(_changed(entry)) or 'the default tile'}, {entry['ms']:.4g} ms"
    if entry["gain"] is not None:
        text += f", {entry['gain']:.3f} times as fast as the default tile"
    if entry["cublas_ratio"] is not None:
        text += f", {100 * entry['cublas_ratio']:.1f} % of cuBLAS"
    return text


def _changed(entry: Mapping[str, Any]) -> dict[str, int]:
    """The sizes in which a confirmed tile differs from the default."""
    return {n: v for n, v in entry["params"].items() if entry["default"].get(n) != v}


# -- what is recorded, for the catalog's readers ---------------------------------------------------


def tuned(kernel: Kernel | str, size: int | Size = 4096, gpu: str = DEFAULT_GPU) -> Point | None:
    """The confirmed best tile of a kernel at a size on a GPU, or None where none is recorded.

    Keys as in section "tuned": params (complete, for `matmul` or `measure`), default, ms, gain,
    cublas_ratio and so on. What was found with other code or another default does not count.
    """
    k = find(kernel)
    wanted = (size, size, size) if isinstance(size, int) else size
    try:
        data = schema.load(gpu).data
    except UnknownNameError:
        return None
    found = _have(data, "tuned", k, wanted)
    return found if found and found["default"] == dict(k.params) else None


@dataclass(frozen=True)
class Ragged:
    """The choice of tile over the ragged set. share: geometric mean of the paired ratios to cuBLAS.

    default: that of the default tile, from the same rounds. worst: the lowest ratio. error: the
    largest error over its tolerance: a shape with a wrong element is refused, so it is below 1.
    """

    kernel: str
    entries: tuple[Point, ...]
    share: float
    default: float
    worst: float
    error: float

    def __str__(self) -> str:
        return (
            f"{self.kernel} over {len(self.entries)} ragged shapes: {100 * self.share:.1f} % of cuBLAS "
            f"(geometric mean; {100 * self.default:.1f} % with the default tile alone), the worst "
            f"{100 * self.worst:.1f} %; every element right, the largest error {self.error:.2f} of its "
            "tolerance"
        )


def ragged_result(data: Mapping[str, Any], kernel: str = "fp32_best") -> Ragged | None:
    """What a measurement file says about a kernel on the ragged set; None unless it is complete."""
    k = catalog[kernel]
    found = [_have(data, "ragged", k, size) for size in ragged_shapes()]
    entries = [e for e in found if e is not None and e["cublas_ratio"] is not None]
    if len(entries) < len(found):
        return None

    def mean(ratios: Iterable[float]) -> float:
        logs = [math.log(r) for r in ratios]
        return math.exp(sum(logs) / len(logs))

    return Ragged(
        kernel,
        tuple(entries),
        mean(e["cublas_ratio"] for e in entries),
        mean(e["cublas_ratio"] / (e["gain"] or 1.0) for e in entries),
        min(e["cublas_ratio"] for e in entries),
        max(e["error_over_tolerance"] for e in entries),
    )


def ragged(kernel: str = "fp32_best", gpu: str = DEFAULT_GPU) -> Ragged | None:
    """The recorded choice of tile over the ragged set on a GPU, or None where it is not complete."""
    try:
        return ragged_result(schema.load(gpu).data, kernel)
    except UnknownNameError:
        return None
