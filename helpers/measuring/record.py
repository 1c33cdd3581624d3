"""Recording a GPU: every kernel and cuBLAS at every size, into data/measurements/<gpu>.json."""

from __future__ import annotations

import itertools
import math
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from helpers import device, toolchain
from helpers.errors import ConfigError, NoGPUError, TileError, UnknownKernelError, near_matches
from helpers.kernel import Kernel, geometry
from helpers.measuring import ncu, protocol, schema, streams
from helpers.measuring import point as points
from helpers.measuring.gpu import BASELINES, GpuFaultError, Session
from helpers.measuring.schema import Size
from helpers.measuring.telemetry import Telemetry, number, query
from helpers.rungs import catalog

SIZES: tuple[Size, ...] = tuple((n, n, n) for n in (512, 1024, 1025, 2048, 4096, 8192))
COUNTER_SHAPES: tuple[Size, ...] = (
    (64, 64, 64), (128, 128, 64), (96, 160, 64), (160, 96, 32),
    (65, 33, 17), (70, 90, 50), (129, 127, 33),
    (1024, 1024, 1024),
)  # fmt: skip
"""Small shapes to hold against the emulator, whose counts are exact: whole tiles of 32, then ragged
ones; and one that fills the GPU."""
STALL_SHAPE: Size = (4096, 4096, 4096)
"""Where warps are asked what they wait for: the size that the ladder compares."""
COUNTER_BATCH = 24
"""Launches that one process of ncu counts: what it has counted is on disk before the next begins."""
ACCURACY_SIZES = (1024, 4096)
FLAG_KERNELS = ("naive", "coalesced", "tiled_32", "tiled_rect")
FLAG_SIZES = (1024, 4096)
BUILDS: Mapping[str, tuple[tuple[str, ...], str | None]] = {
    "default": ((), None),
    "fast math": (("--use_fast_math",), None),
    "unroll": ((), "#pragma unroll"),
    "no unrolling": ((), "#pragma unroll 1"),
}
"""Builds of one kernel: options of the compiler, and a pragma before its loop over k in the tile."""
SLOW = "slow:"
"""How the reason begins for a point that was left out on purpose."""
TRANSFER_BYTES = tuple(1 << power for power in (16, 18, 20, 22, 24, 26, 28, 29))

PROTOCOL = {
    "clock": "CUDA events on one stream; the host queues ahead behind a spinning kernel",
    "order": "kernel and cuBLAS of the same precision in random order, pair by pair, after warm-up",
    "statistics": "median and quartiles of samples; cublas_ratio is the median of paired ratios",
    "data": "N(0, 1), or integers from -99 to 99 for int32; the same operands for every kernel",
    "cache": "warm: operands that fit in L2 stay there from one launch to the next",
    "check": "output poisoned before, compared after with a float64 product; see helpers.measuring",
    "copies": "pageable host memory, cudaMemcpy, by the host's clock, median of three",
    "overlap": "host arrays to host result by the host's clock, variants in random order, round by round",
    "first_ms": "compile, load and launch with empty caches; CUDA itself already initialised",
}


@dataclass(frozen=True)
class Request:
    """What to record. kernels: names of the catalog or baselines; empty: all that the GPU can run.

    skip_above: kernel -> largest edge to measure it at. seconds: stop cleanly before this much time
    is spent. again: measure even what is already in the file. finish: complete the sections that the
    file has begun, asked for or not.
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
    with_stalls: bool = False
    with_transfers: bool = False
    with_accuracy: bool = False
    with_flags: bool = False
    with_overlap: bool = False
    finish: bool = False
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


Supports = Callable[[str], bool]
"""Whether the GPU is of at least an architecture."""


def names(supports: Supports, wanted: Sequence[str]) -> list[str]:
    """Kernels and baselines to measure, cuBLAS first, so that an early stop leaves the yardstick.

    wanted: names; empty: all that this GPU can run.
    """
    known = [*BASELINES, *catalog]
    return [name for name in known if (name in wanted if wanted else supports(_arch(name)))]


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


def begun(path: Path, key: str) -> dict[str, Any] | None:
    """The record to go on with: the file at path, else the book's own of this GPU, else None."""
    for there in (path, schema.FOLDER / f"{key}.json"):
        if there.exists():
            return schema.read(there)
    return None


def opened(path: Path, key: str) -> tuple[Session, dict[str, Any]]:
    """This machine's GPU, and the record to go on with or an empty one.

    A damaged file is told before the GPU is opened. Raises DataError, NoGPUError, and ConfigError for
    a record of another GPU.
    """
    data = begun(path, key)
    session = Session()
    if data is None:
        return session, schema.empty(gpu_facts(session), PROTOCOL)
    if data["gpu"]["name"] != session.gpu.name:
        raise ConfigError(
            f"{path} holds times of a {data['gpu']['name']}, and this machine has a "
            f"{session.gpu.name}: give another file with --out"
        )
    return session, data


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
    started = time.monotonic()
    session, data = opened(path, key)
    data["gpu"], data["protocol"] = gpu_facts(session), PROTOCOL
    stamp = points.stamp(session.versions(), points.commit(request.commit))
    outcome = Outcome(path)
    budget = Budget(started, request.seconds)
    budget.learn_from(data)
    with Telemetry(session.bus_id) as telemetry:
        say(
            f"{session.gpu.name}, driver {stamp['driver']}, CUDA {stamp['cuda']}, cuBLAS "
            f"{stamp['cublas']}, NVRTC {stamp['nvrtc']}, commit {stamp['commit']} -> {path}"
        )
        if request.with_points:
            session.warm_up()
            _points(session, telemetry, request, data, stamp, outcome, budget, say)
        _steps(session, request, data, stamp, outcome, budget, say, BESIDE)
    _steps(session, request, data, stamp, outcome, budget, say, ALONE)
    schema.write(path, data)
    return outcome


@dataclass(frozen=True)
class Step:
    """A piece of a section that the file lacks: what it is, its seconds by estimate, and `run`, which
    takes it, merges it into the file's data and says what came of it.
    """

    what: str
    seconds: float
    run: Callable[[Session, Mapping[str, Any]], str]


def lacking(
    request: Request, data: dict[str, Any], supports: Supports, section: str
) -> Iterator[Step]:
    """The steps of a section that was asked for, or is to be finished, and that the file lacks."""
    wanted = getattr(request, f"with_{section}") or (request.finish and data[section])
    return SECTIONS[section](request, data, supports) if wanted else iter(())


def _steps(
    session: Session,
    request: Request,
    data: dict[str, Any],
    stamp: Mapping[str, Any],
    outcome: Outcome,
    budget: Budget,
    say: Callable[[str], None],
    sections: Sequence[str],
) -> None:
    """Take the steps that the file lacks, as far as the time goes; one that fails stops no other."""
    for section in sections:
        for step in list(lacking(request, data, session.supports, section)):
            if not budget.allows(step.seconds):
                outcome.left.append(step.what)
                continue
            try:
                with session.faults(step.what):
                    say(f"{step.what}: {step.run(session, stamp)}")
            except GpuFaultError:
                raise
            except TileError as fault:
                outcome.refused.append(f"{step.what}: {fault}")
                say(f"{step.what}: REFUSED: {fault}")
            schema.write(outcome.path, data)


def planned(request: Request) -> list[tuple[str, float]]:
    """What `record` would measure on the GPU that a record names, and seconds for each, by estimate.

    Needs no GPU: whose record it is says request.gpu, or is the H200. Raises the errors of `record`.
    """
    key = request.gpu or "h200"
    check_names([*request.kernels, *request.skip_above])
    path = output_path(request, key)
    data = begun(path, key) or schema.empty({"name": key, "arch": device.gpu(key).arch})
    arch = toolchain.arch_number(data["gpu"]["arch"])
    budget = Budget(0.0, None)
    budget.learn_from(data)

    def supports(least: str) -> bool:
        return arch >= toolchain.arch_number(least)

    out = []
    if request.with_points:
        for name, k, size in todo(supports, request, data, Outcome(path)):
            limit = request.skip_above.get(name)
            if (limit is None or max(size) <= limit) and (k is None or _allowed(k, size)):
                out.append(("{} at {}x{}x{}".format(name, *size), budget.guess(name, size)))
    for section in (*BESIDE, *ALONE):
        steps = lacking(request, data, supports, section)
        out += [(step.what, step.seconds) for step in steps]
    return out


def _allowed(k: Kernel, size: Size) -> bool:
    try:
        geometry(k, *size)
    except TileError:
        return False
    return True


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

    def learn_from(self, data: Mapping[str, Any]) -> None:
        """Remember the rates in a file: of each kernel, that at its largest size."""
        for entry in sorted(data["points"], key=lambda e: e["m"] * e["n"] * e["k"]):
            self.learn(entry["kernel"], entry["gflops"])

    def guess(self, name: str, size: Size) -> float:
        """Seconds that a point of this kernel will take: fixed costs and its launches."""
        ms = protocol.gflops(*size, 1.0) / self._rates.get(name, 300.0)
        launches = 3 + protocol.RECORD.slow_pairs if ms >= protocol.RECORD.slow_ms else 10
        operands = 1.2e-8 * (size[0] * size[2] + size[2] * size[1])
        return 0.7 + operands + launches * ms / 1e3


def todo(
    supports: Supports, request: Request, data: Mapping[str, Any], outcome: Outcome
) -> Iterator[tuple[str, Kernel | None, Size]]:
    """Points still to measure, small sizes first, grouped by operand type so that operands are shared."""
    chosen = names(supports, request.kernels)
    order = {"float32": 0, "int32": 1, "float16": 2, "bfloat16": 3}

    def dtype(name: str) -> str:
        return BASELINES[name].dtype if name in BASELINES else catalog[name].dtype

    for size in sorted(request.sizes, key=lambda s: s[0] * s[1] * s[2]):
        for name in sorted(chosen, key=lambda n: order[dtype(n)]):
            k = catalog[name] if name in catalog else None
            if not request.again and (
                _present(data, name, k, size) or _left_out(request, data, name, size)
            ):
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


def _left_out(request: Request, data: Mapping[str, Any], name: str, size: Size) -> bool:
    """Whether the file says that this one is too slow to be measured; naming the kernel overrides it."""
    return name not in request.kernels and any(
        (e["kernel"], e["m"], e["n"], e["k"]) == (name, *size) and e["reason"].startswith(SLOW)
        for e in data["skipped"]
    )


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
    plans = list(todo(session.supports, request, data, outcome))
    rng = np.random.default_rng()
    for index, (name, k, size) in enumerate(plans):
        m, n, kk = size
        what = f"{name} at {m}x{n}x{kk}"
        head = f"[{index + 1:3d}/{len(plans)}] {name:16s} {m}x{n}x{kk}"
        expected = budget.guess(name, size)
        limit = request.skip_above.get(name)
        if limit is not None and max(size) > limit:
            _skip(data, name, k, size, f"{SLOW} not measured above {limit}", stamp)
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


# -- sections beside the points ------------------------------------------------------------------


def _transfers(request: Request, data: dict[str, Any], supports: Supports) -> Iterator[Step]:
    """Bandwidth of copies in both directions, from pageable and from pinned host memory."""

    def run(session: Session, stamp: Mapping[str, Any]) -> str:
        rates = []
        for direction, memory in itertools.product(("h2d", "d2h"), ("pageable", "pinned")):
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
            rates.append(f"{direction} {memory} {entry['gbs']:.1f} GB/s")
        return f"{', '.join(rates)} at {nbytes >> 20} MiB"

    if request.again or not data["transfers"]:
        yield Step("transfers", 10.0, run)


def _accuracy(request: Request, data: dict[str, Any], supports: Supports) -> Iterator[Step]:
    """Errors of every cuBLAS precision against float64."""

    def run(session: Session, stamp: Mapping[str, Any], name: str, n: int) -> str:
        errors = session.accuracy(name, n)
        entry = {"kernel": name, "m": n, "n": n, "k": n, **errors, "recorded": dict(stamp)}
        schema.merge(data, "accuracy", entry)
        return f"relative error {errors['frobenius']:.2e} (Frobenius)"

    for n, name in itertools.product(ACCURACY_SIZES, BASELINES):
        present = any((e["kernel"], e["m"]) == (name, n) for e in data["accuracy"])
        if supports(BASELINES[name].min_arch) and (request.again or not present):
            yield Step(f"accuracy of {name} at {n}", 2.0, partial(run, name=name, n=n))


def with_pragma(source: str, pragma: str | None) -> str:
    """Source with a pragma before each loop `for (int k = 0; ...`, in place of one that stands there.

    Raises ConfigError if it has no such loop.
    """
    if pragma is None:
        return source
    loop = "for (int k = 0;"
    if loop not in source:
        raise ConfigError(f"there is no loop {loop!r} to put {pragma!r} before")
    bare = re.sub(rf"(?m)^[ \t]*#pragma unroll\b[^\n]*\n(?=[ \t]*{re.escape(loop)})", "", source)
    return bare.replace(loop, f"\n{pragma}\n{loop}")


def _flags(request: Request, data: dict[str, Any], supports: Supports) -> Iterator[Step]:
    """The builds of BUILDS, each paired with the default build of the same kernel."""

    def run(session: Session, stamp: Mapping[str, Any], k: Kernel, n: int) -> str:
        shares = []
        for build, (options, pragma) in BUILDS.items():
            p = geometry(k, n, n, n)
            timed = session.compare_build(p, with_pragma(k.source, pragma), options)
            assert timed.ratio is not None  # compare_build always has a baseline
            speedup = timed.ratio
            entry = {
                "kernel": k.name,
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
            shares.append(f"{build} {100 * speedup.median:.1f} %")
        return ", ".join(shares)

    for name, n in itertools.product(FLAG_KERNELS, FLAG_SIZES):
        here = [e for e in data["flags"] if (e["kernel"], e["m"]) == (name, n)]
        whole = len(here) >= len(BUILDS) and _same_code(here, name)
        if request.again or not whole:
            do = partial(run, k=catalog[name], n=n)
            yield Step(f"builds of {name} at {n}", 1.0 * len(BUILDS), do)


def _same_code(entries: Sequence[Mapping[str, Any]], name: str) -> bool:
    return all(e["source"] == points.fingerprint(name) for e in entries)


def _overlap(request: Request, data: dict[str, Any], supports: Supports) -> Iterator[Step]:
    """Products from host arrays to host result, serial and in row panels over several streams."""

    def here(name: str, n: int) -> list[dict[str, Any]]:
        return [e for e in data["overlap"] if (e["kernel"], e["m"]) == (name, n)]

    def run(session: Session, stamp: Mapping[str, Any], name: str, n: int) -> str:
        session.warm_up()
        found = streams.entries(session, catalog[name], n, n, n, recorded=stamp)
        older = here(name, n)
        data["overlap"] = [e for e in data["overlap"] if e not in older] + found
        serial = next(e for e in found if streams.variant(e) == streams.BASELINE)
        best = min(found, key=lambda e: e["ms"])
        return (
            f"serial {serial['ms']:.4g} ms, {streams.variant(best).title} "
            f"{best['ms']:.4g} ms, a factor of {best['speedup']:.2f}"
        )

    for n, name in itertools.product(streams.EDGES, streams.KERNELS):
        chosen = streams.variants(n, geometry(catalog[name], n, n, n).tile[0])
        held = here(name, n)
        whole = {streams.variant(e) for e in held} >= set(chosen) and _same_code(held, name)
        if request.again or not whole:
            seconds = streams.seconds(n, n, n, len(chosen))
            yield Step(f"overlap of {name} at {n}", seconds, partial(run, name=name, n=n))


def counter_jobs(supports: Supports, request: Request, data: Mapping[str, Any]) -> list[ncu.Job]:
    """Launches to count: every kernel at every counter shape that it may run at.

    Those with tensor maps come last and at the largest shape alone: the emulator has no counts to
    hold against theirs.
    """
    chosen = [catalog[name] for name in names(supports, request.kernels) if name in catalog]
    largest = max(request.counter_shapes, key=math.prod, default=None)
    launches = [
        (k, size)
        for k in sorted(chosen, key=lambda k: k.host != "plain")
        for size in request.counter_shapes
        if k.host == "plain" or size == largest
    ]
    return _uncounted("counters", launches, request, data)


def stall_jobs(supports: Supports, request: Request, data: Mapping[str, Any]) -> list[ncu.Job]:
    """Launches to ask what their warps wait for: every kernel at STALL_SHAPE, integers left out."""
    chosen = [catalog[name] for name in names(supports, request.kernels) if name in catalog]
    launches = [
        (k, STALL_SHAPE)
        for k in sorted(chosen, key=lambda k: k.host != "plain")
        if k.dtype != "int32"
    ]
    return _uncounted("stalls", launches, request, data)


def _uncounted(
    section: str,
    launches: Iterable[tuple[Kernel, Size]],
    request: Request,
    data: Mapping[str, Any],
) -> list[ncu.Job]:
    """Those legal launches that a section lacks, or holds of other code."""
    jobs = []
    for k, size in launches:
        if not _allowed(k, size):
            continue
        m, n, kk = size
        wanted = schema.key({"kernel": k.name, "params": dict(k.params), "m": m, "n": n, "k": kk})
        here = [e for e in data[section] if schema.key(e) == wanted]
        if request.again or not here or not _same_code(here, k.name):
            jobs.append(ncu.Job(k.name, m, n, kk, dict(k.params)))
    return jobs


def _counted(
    section: str, jobs: Iterable[ncu.Job], what: ncu.Counters, data: dict[str, Any], each: float
) -> Iterator[Step]:
    """Counters of single launches, by ncu, a batch of launches at a time. each: seconds a launch."""

    def run(session: Session, stamp: Mapping[str, Any], jobs: Sequence[ncu.Job]) -> str:
        counted = ncu.count(jobs, what=what)
        tool = ncu.version(ncu.tool_path())
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
            schema.merge(data, section, entry)
        name = next(n for n in HEADLINE if n in what.required)
        return f"median {name} {statistics.median(c[name] for c in counted):.0f}"

    for _, group in itertools.groupby(jobs, lambda job: catalog[job.kernel].host):
        alike = list(group)
        for at in range(0, len(alike), COUNTER_BATCH):
            batch = alike[at : at + COUNTER_BATCH]
            kernels = ", ".join(dict.fromkeys(job.kernel for job in batch))
            title = f"{section} of {len(batch)} launches ({kernels})"
            yield Step(title, 5.0 + each * len(batch), partial(run, jobs=batch))


def _counters(request: Request, data: dict[str, Any], supports: Supports) -> Iterator[Step]:
    """Requests, sectors, wavefronts, instructions and bytes, as the hardware counts them."""
    jobs = counter_jobs(supports, request, data)
    return _counted("counters", jobs, ncu.TRAFFIC, data, 0.6)


def _stalls(request: Request, data: dict[str, Any], supports: Supports) -> Iterator[Step]:
    """What warps wait for, and how often their schedulers issue."""
    jobs = stall_jobs(supports, request, data)
    return _counted("stalls", jobs, ncu.WAITING, data, 1.5)


HEADLINE = ("occupancy_percent", "issue_percent")
"""The counter of a set that a line on the screen tells."""


SECTIONS: Mapping[str, Callable[[Request, dict[str, Any], Supports], Iterator[Step]]] = {
    "accuracy": _accuracy,
    "flags": _flags,
    "transfers": _transfers,
    "overlap": _overlap,
    "counters": _counters,
    "stalls": _stalls,
}
"""Sections beside the points: what each of them lacks in a file."""
BESIDE = ("accuracy", "flags", "transfers", "overlap")
"""Those that this process measures."""
ALONE = ("counters", "stalls")
"""Those that ncu counts, after all others, when nothing else runs on the GPU."""
