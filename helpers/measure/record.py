"""Recording a GPU: every kernel and cuBLAS at every size, into data/measurements/<gpu>.json."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from helpers import device
from helpers.catalog import Kernel, catalog, plan
from helpers.errors import ConfigError, NoGPUError, TileError, UnknownKernelError, near_matches
from helpers.measure import ncu, protocol, schema, streams
from helpers.measure import point as points
from helpers.measure.gpu import BASELINES, GpuFaultError, Session
from helpers.measure.schema import Size
from helpers.measure.telemetry import Telemetry, number, query

SIZES: tuple[Size, ...] = tuple((n, n, n) for n in (512, 1024, 1025, 2048, 4096, 8192))
COUNTER_SHAPES: tuple[Size, ...] = ((64, 64, 64), (65, 33, 17), (1024, 1024, 1024))
"""Small shapes to hold against the emulator, whose counts are exact, and one that fills the GPU."""
ACCURACY_SIZES = (1024, 4096)
FLAG_KERNELS = ("tiled_32", "tiled_rect")
FLAG_SIZES = (1024, 4096)
BUILDS: Mapping[str, tuple[tuple[str, ...], str | None]] = {
    "default": ((), None),
    "fast math": (("--use_fast_math",), None),
    "unroll": ((), "#pragma unroll"),
    "no unrolling": ((), "#pragma unroll 1"),
}
"""Builds of one kernel: options of the compiler, and a pragma before its loop over k in the tile."""
TRANSFER_BYTES = tuple(1 << power for power in (16, 18, 20, 22, 24, 26, 28, 29))

PROTOCOL = {
    "clock": "CUDA events on one stream; the host queues ahead behind a spinning kernel",
    "order": "kernel and cuBLAS of the same precision in random order, pair by pair, after warm-up",
    "statistics": "median and quartiles of samples; cublas_ratio is the median of paired ratios",
    "data": "N(0, 1), or integers from -99 to 99 for int32; the same operands for every kernel",
    "cache": "warm: operands that fit in L2 stay there from one launch to the next",
    "check": "output poisoned before, compared after with a float64 product; see helpers.measure",
    "copies": "pageable host memory, cudaMemcpy, by the host's clock, median of three",
    "overlap": "host arrays to host result by the host's clock, variants in random order, round by round",
    "first_ms": "compile, load and launch with empty caches; CUDA itself already initialised",
}


@dataclass(frozen=True)
class Request:
    """What to record. kernels: names of the catalog or baselines; empty: all that the GPU can run.

    skip_above: kernel -> largest edge to measure it at. seconds: stop cleanly before this much time
    is spent. again: measure even what is already in the file.
    """

    gpu: str | None = None
    sizes: tuple[Size, ...] = SIZES
    kernels: tuple[str, ...] = ()
    skip_above: Mapping[str, int] = field(default_factory=dict)
    out: Path | None = None
    commit: str | None = None
    seconds: float | None = None
    again: bool = False
    with_points: bool = True
    with_counters: bool = False
    with_transfers: bool = False
    with_accuracy: bool = False
    with_flags: bool = False
    with_overlap: bool = False
    counter_shapes: tuple[Size, ...] = COUNTER_SHAPES


@dataclass
class Outcome:
    """What a recording did: points measured, already there, not allowed at that size by a rule,
    refused as wrong or impossible (with the reason), and left over for want of time.
    """

    path: Path
    measured: int = 0
    present: int = 0
    illegal: int = 0
    refused: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def slug(name: str) -> str:
    """A file name for a GPU that is not in the table: "NVIDIA RTX A6000" -> "rtx_a6000"."""
    words = re.findall(r"[a-z0-9]+", name.lower().replace("nvidia", "").replace("geforce", ""))
    return "_".join(words) or "gpu"


def gpu_key(live: device.LiveGpu, given: str | None) -> str:
    """The record's name for the GPU at hand. Raises ConfigError if another GPU's name is given."""
    known = live.known
    own = known.key if known else slug(live.name)
    if given is not None and given in device.GPUS and given != own:
        raise ConfigError(
            f"--gpu {given} was asked for, and this machine has a {live.name}: its times would "
            f"stand under the wrong name. Use --gpu {own}, or leave --gpu out"
        )
    if given is not None and not re.fullmatch(r"[a-z0-9_]+", given):
        raise ConfigError(f"--gpu {given!r}: use lower-case letters, digits and _ (a file name)")
    return given or own


def check_names(wanted: Sequence[str]) -> None:
    """Raise UnknownKernelError, with near matches, unless each is a kernel or a baseline."""
    known = [*BASELINES, *catalog]
    for name in wanted:
        if name not in known:
            raise UnknownKernelError(f"no kernel is called {name!r}. {near_matches(name, known)}")


def names(session: Session, wanted: Sequence[str]) -> list[str]:
    """Kernels and baselines to measure, cuBLAS first, so that an early stop leaves the yardstick.

    wanted: names; empty: all that this GPU can run.
    """
    known = [*BASELINES, *catalog]
    return [name for name in known if (name in wanted if wanted else session.supports(_arch(name)))]


def _arch(name: str) -> str:
    return BASELINES[name].min_arch if name in BASELINES else catalog[name].min_arch


def gpu_facts(session: Session) -> dict[str, Any]:
    """What the file says about its GPU."""
    live = session.gpu
    limit = query("power.limit", session.bus_id)
    return {
        "name": live.name,
        "arch": live.arch,
        "sms": live.sms,
        "max_clock_mhz": session.boost_mhz(),
        "memory_bytes": live.memory_bytes,
        "l2_bytes": live.l2_bytes,
        "power_limit_w": number(limit[0]) if limit else None,
        "fp32_peak_gflops": session.peak_gflops("fp32"),
    }


def require_gpu() -> device.LiveGpu:
    """The GPU at hand. Raises NoGPUError, saying what to do, before anything is read or written."""
    found = device.current()
    if found is None:
        raise NoGPUError(
            "recording needs an NVIDIA GPU, its driver and CuPy, and none answers on this machine. "
            "Nothing was written. Run the same command on one (in Colab: Runtime, Change runtime "
            "type, T4 GPU), or see what is recorded with: python -m helpers ladder --gpu h200"
        )
    return found


def output_path(request: Request, key: str) -> Path:
    """Where the record goes: --out, or data/measurements/<gpu>.json."""
    return request.out or schema.FOLDER / f"{key}.json"


def record(request: Request, say: Callable[[str], None] = print) -> Outcome:
    """Measure what the request asks for and merge it into the file, after every single point.

    What is in the file already, measured with the same code, is not measured again, so a recording
    that was cut off goes on where it stopped. Raises NoGPUError, DataError (the file that is there
    is damaged), ConfigError, UnknownKernelError, GpuFaultError (the GPU stopped); a kernel that is wrong or illegal at a size is
    listed in the outcome and noted as skipped in the file, and the others go on.
    """
    key = gpu_key(require_gpu(), request.gpu)
    check_names([*request.kernels, *request.skip_above])
    path = output_path(request, key)
    data = schema.read(path) if path.exists() else None
    started = time.monotonic()
    session = Session()
    if data is None:
        data = schema.empty(gpu_facts(session), PROTOCOL)
    elif data["gpu"]["name"] != session.gpu.name:
        raise ConfigError(
            f"{path} holds times of a {data['gpu']['name']}, and this machine has a "
            f"{session.gpu.name}: give another file with --out"
        )
    data["gpu"], data["protocol"] = gpu_facts(session), PROTOCOL
    stamp = points.stamp(session.versions(), points.commit(request.commit))
    outcome = Outcome(path)
    budget = Budget(started, request.seconds)
    with Telemetry(session.bus_id) as telemetry:
        say(
            f"{session.gpu.name}, driver {stamp['driver']}, CUDA {stamp['cuda']}, cuBLAS "
            f"{stamp['cublas']}, NVRTC {stamp['nvrtc']}, commit {stamp['commit']} -> {path}"
        )
        if request.with_points:
            session.warm_up()
            _points(session, telemetry, request, data, stamp, outcome, budget, say)
        for name, wanted, step in (
            ("accuracy", request.with_accuracy, _accuracy),
            ("builds", request.with_flags, _flags),
            ("transfers", request.with_transfers, _transfers),
            ("overlap", request.with_overlap, _overlap),
        ):
            if not wanted:
                continue
            try:
                with session.faults(name):
                    step(session, request, data, stamp, outcome, budget, say)
            except GpuFaultError:
                raise
            except TileError as fault:  # the other steps go on
                outcome.refused.append(f"{name}: {fault}")
                say(f"{name}: REFUSED: {fault}")
    if request.with_counters:
        _counters(session, request, data, stamp, outcome, budget, say)
    schema.write(path, data)
    return outcome


class Budget:
    """Time spent and left, in seconds, and what the next step may cost."""

    def __init__(
        self,
        started: float,
        seconds: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._started, self._seconds, self._clock = started, seconds, clock
        self._rates: dict[str, float] = {}

    def elapsed(self) -> float:
        """Seconds since the recording began."""
        return self._clock() - self._started

    def allows(self, seconds: float) -> bool:
        """Whether a step of this length still fits."""
        return self._seconds is None or self.elapsed() + seconds <= self._seconds

    def learn(self, name: str, gflops: float) -> None:
        """Remember how fast a kernel was."""
        self._rates[name] = gflops

    def guess(self, name: str, size: Size) -> float:
        """Seconds that a point of this kernel will take: fixed costs and its launches."""
        ms = protocol.gflops(*size, 1.0) / self._rates.get(name, 300.0)
        launches = 3 + protocol.RECORD.slow_pairs if ms >= protocol.RECORD.slow_ms else 10
        operands = 1.2e-8 * (size[0] * size[2] + size[2] * size[1])
        return 0.7 + operands + launches * ms / 1e3


def todo(
    session: Session, request: Request, data: Mapping[str, Any], outcome: Outcome
) -> Iterator[tuple[str, Kernel | None, Size]]:
    """Points still to measure, small sizes first, grouped by operand type so that operands are shared."""
    chosen = names(session, request.kernels)
    order = {"float32": 0, "int32": 1, "float16": 2, "bfloat16": 3}

    def dtype(name: str) -> str:
        return BASELINES[name].dtype if name in BASELINES else catalog[name].dtype

    for size in sorted(request.sizes, key=lambda s: s[0] * s[1] * s[2]):
        for name in sorted(chosen, key=lambda n: order[dtype(n)]):
            k = catalog[name] if name in catalog else None
            if not request.again and _present(data, name, k, size):
                outcome.present += 1
                continue
            yield name, k, size


def _present(data: Mapping[str, Any], name: str, k: Kernel | None, size: Size) -> bool:
    params = dict(k.params) if k else {}
    wanted = schema.key(
        {"kernel": name, "params": params, "m": size[0], "n": size[1], "k": size[2]}
    )
    source = points.fingerprint(k) if k else None
    return any(schema.key(e) == wanted and e["source"] == source for e in data["points"])


def _points(
    session: Session,
    telemetry: Telemetry,
    request: Request,
    data: dict[str, Any],
    stamp: Mapping[str, Any],
    outcome: Outcome,
    budget: Budget,
    say: Callable[[str], None],
) -> None:
    plans = list(todo(session, request, data, outcome))
    rng = np.random.default_rng()
    for index, (name, k, size) in enumerate(plans):
        m, n, kk = size
        what = f"{name} at {m}x{n}x{kk}"
        head = f"[{index + 1:3d}/{len(plans)}] {name:16s} {m}x{n}x{kk}"
        expected = budget.guess(name, size)
        limit = request.skip_above.get(name)
        if limit is not None and max(size) > limit:
            _skip(data, name, k, size, f"slow: not measured above {limit}", stamp)
            say(f"{head}  left out above {limit}")
            schema.write(outcome.path, data)
            continue
        if not budget.allows(expected):
            outcome.left.append(what)
            continue
        began = time.monotonic()
        try:
            entry = points.point(session, telemetry, k or name, m, n, kk, recorded=stamp, rng=rng)
        except GpuFaultError as fault:
            _skip(data, name, k, size, " ".join(str(fault).split()), stamp)
            schema.write(outcome.path, data)
            raise
        except ConfigError as fault:  # a rule of the catalog, or more than this GPU has
            _skip(data, name, k, size, " ".join(str(fault).split()), stamp)
            outcome.illegal += 1
            say(f"{head}  left out: {fault}")
        except TileError as fault:
            _skip(data, name, k, size, " ".join(str(fault).split()), stamp)
            outcome.refused.append(str(fault))
            say(f"{head}  REFUSED: {fault}")
        else:
            schema.merge(data, "points", entry)
            outcome.measured += 1
            budget.learn(name, entry["gflops"])
            left = sum(budget.guess(n2, s2) for n2, _, s2 in plans[index + 1 :])
            say(
                f"{head} {points.describe(entry)}  {time.monotonic() - began:4.1f} s, "
                f"about {left:.0f} s to go"
            )
        schema.write(outcome.path, data)


def _skip(
    data: dict[str, Any],
    name: str,
    k: Kernel | None,
    size: Size,
    reason: str,
    stamp: Mapping[str, Any],
) -> None:
    schema.merge(
        data,
        "skipped",
        {
            "kernel": name,
            "params": dict(k.params) if k else {},
            "m": size[0],
            "n": size[1],
            "k": size[2],
            "reason": reason,
            "recorded": dict(stamp),
        },
    )


# -- copies, accuracy, counters ------------------------------------------------------------------


def _transfers(
    session: Session,
    request: Request,
    data: dict[str, Any],
    stamp: Mapping[str, Any],
    outcome: Outcome,
    budget: Budget,
    say: Callable[[str], None],
) -> None:
    """Bandwidth of copies in both directions, from pageable and from pinned host memory."""
    if data["transfers"] and not request.again:
        say("transfers: in the file already")
        return
    if not budget.allows(10.0):
        outcome.left.append("transfers")
        return
    for direction in ("h2d", "d2h"):
        for memory in ("pageable", "pinned"):
            for nbytes in TRANSFER_BYTES:
                copies = session.copies(nbytes, direction, memory == "pinned", 7)
                found = protocol.spread(np.array(copies[1:]))  # the first one warms up
                entry = {
                    "direction": direction,
                    "memory": memory,
                    "bytes": nbytes,
                    "ms": found.median,
                    "q1": found.q1,
                    "q3": found.q3,
                    "gbs": nbytes / found.median / 1e6,
                    "recorded": dict(stamp),
                }
                schema.merge(data, "transfers", entry)
            say(
                f"transfers: {direction} {memory:8s} {entry['gbs']:6.1f} GB/s at {nbytes >> 20} MiB"
            )
    schema.write(outcome.path, data)


def _accuracy(
    session: Session,
    request: Request,
    data: dict[str, Any],
    stamp: Mapping[str, Any],
    outcome: Outcome,
    budget: Budget,
    say: Callable[[str], None],
) -> None:
    """Errors of every cuBLAS precision against float64."""
    for n in ACCURACY_SIZES:
        for name in BASELINES:
            present = [e for e in data["accuracy"] if (e["kernel"], e["m"]) == (name, n)]
            if not session.supports(BASELINES[name].min_arch) or (present and not request.again):
                continue
            if not budget.allows(2.0):
                outcome.left.append(f"accuracy of {name} at {n}")
                continue
            errors = session.accuracy(name, n)
            entry = {"kernel": name, "m": n, "n": n, "k": n, **errors, "recorded": dict(stamp)}
            schema.merge(data, "accuracy", entry)
            say(f"accuracy: {name:16s} {n}: relative error {errors['frobenius']:.2e} (Frobenius)")
    schema.write(outcome.path, data)


def with_pragma(source: str, pragma: str | None) -> str:
    """Source with a pragma before each loop `for (int k = 0; ...`. Raises ConfigError if it has none."""
    if pragma is None:
        return source
    loop = "for (int k = 0;"
    if loop not in source:
        raise ConfigError(f"there is no loop {loop!r} to put {pragma!r} before")
    return source.replace(loop, f"\n{pragma}\n{loop}")


def _flags(
    session: Session,
    request: Request,
    data: dict[str, Any],
    stamp: Mapping[str, Any],
    outcome: Outcome,
    budget: Budget,
    say: Callable[[str], None],
) -> None:
    """The builds of BUILDS, each paired with the default build of the same kernel."""
    for name in FLAG_KERNELS:
        if name not in catalog:
            continue
        k = catalog[name]
        for n in FLAG_SIZES:
            here = [e for e in data["flags"] if (e["kernel"], e["m"]) == (name, n)]
            same = all(e["source"] == points.fingerprint(k) for e in here)
            if len(here) >= len(BUILDS) and same and not request.again:
                continue
            if not budget.allows(1.0 * len(BUILDS)):
                outcome.left.append(f"builds of {name} at {n}")
                continue
            for build, (options, pragma) in BUILDS.items():
                p = plan(k, n, n, n)
                timed = session.compare_build(p, with_pragma(k.source, pragma), options)
                assert timed.ratio is not None  # compare_build always has a baseline
                speedup = timed.ratio
                entry = {
                    "kernel": name,
                    "params": dict(p.params),
                    "build": build,
                    "m": n,
                    "n": n,
                    "k": n,
                    "ms": timed.ms.median,
                    "q1": timed.ms.q1,
                    "q3": timed.ms.q3,
                    "gflops": protocol.gflops(n, n, n, timed.ms.median),
                    "speedup": speedup.median,
                    "speedup_q1": speedup.q1,
                    "speedup_q3": speedup.q3,
                    "source": points.fingerprint(k),
                    "recorded": dict(stamp),
                }
                schema.merge(data, "flags", entry)
                say(f"builds: {name} at {n}, {build:12s} {100 * speedup.median:6.1f} % of default")
            schema.write(outcome.path, data)


def _overlap(
    session: Session,
    request: Request,
    data: dict[str, Any],
    stamp: Mapping[str, Any],
    outcome: Outcome,
    budget: Budget,
    say: Callable[[str], None],
) -> None:
    """Products from host arrays to host result, serial and in row panels over several streams."""
    session.warm_up()
    for n in streams.EDGES:
        for name in streams.KERNELS:
            k, what = catalog[name], f"overlap of {name} at {n}"
            here = [e for e in data["overlap"] if (e["kernel"], e["m"]) == (name, n)]
            chosen = streams.variants(n, plan(k, n, n, n).tile[0])
            same = all(e["source"] == points.fingerprint(k) for e in here)
            if same and {streams.variant(e) for e in here} >= set(chosen) and not request.again:
                continue
            if not budget.allows(streams.seconds(n, n, n, len(chosen))):
                outcome.left.append(what)
                continue
            found = streams.entries(session, k, n, n, n, recorded=stamp)
            data["overlap"] = [e for e in data["overlap"] if e not in here] + found
            serial = next(e for e in found if streams.variant(e) == streams.BASELINE)
            best = min(found, key=lambda e: e["ms"])
            say(
                f"{what}: serial {serial['ms']:.4g} ms, {streams.variant(best).title} "
                f"{best['ms']:.4g} ms, a factor of {best['speedup']:.2f}"
            )
            schema.write(outcome.path, data)


def counter_jobs(session: Session, request: Request, data: Mapping[str, Any]) -> list[ncu.Job]:
    """Launches to count: every kernel with plain pointers, at every counter shape it may run at."""
    jobs = []
    for name in names(session, request.kernels):
        k = catalog[name] if name in catalog else None
        if k is None or k.host != "plain":
            continue
        for m, n, kk in request.counter_shapes:
            try:
                tiles = dict(plan(k, m, n, kk).params)
            except TileError:
                continue
            wanted = schema.key({"kernel": name, "params": tiles, "m": m, "n": n, "k": kk})
            here = [e for e in data["counters"] if schema.key(e) == wanted]
            if here and here[0]["source"] == points.fingerprint(k) and not request.again:
                continue
            jobs.append(ncu.Job(name, m, n, kk, tiles))
    return jobs


def _counters(
    session: Session,
    request: Request,
    data: dict[str, Any],
    stamp: Mapping[str, Any],
    outcome: Outcome,
    budget: Budget,
    say: Callable[[str], None],
) -> None:
    """Hardware counters of the catalog's kernels; ncu runs once for all of them."""
    jobs = counter_jobs(session, request, data)
    if not jobs:
        say("counters: in the file already")
        return
    if not budget.allows(10.0 + 0.5 * len(jobs)):
        outcome.left.append(f"counters of {len(jobs)} launches")
        return
    say(f"counters: ncu profiles {len(jobs)} launches")
    try:
        counted = ncu.count(jobs)
        tool = ncu.version(ncu.tool_path())
    except TileError as fault:  # the times stand without them
        outcome.refused.append(f"counters: {fault}")
        say(f"counters: REFUSED: {fault}")
        return
    for job, values in zip(jobs, counted, strict=True):
        entry = {
            "kernel": job.kernel,
            "params": dict(job.params),
            "m": job.M,
            "n": job.N,
            "k": job.K,
            "values": values,
            "source": points.fingerprint(job.kernel),
            "recorded": {**stamp, "ncu": tool},
        }
        schema.merge(data, "counters", entry)
    occupied = [values["occupancy_percent"] for values in counted]
    say(f"counters: done, median occupancy {statistics.median(occupied):.0f} %")
    schema.write(outcome.path, data)
