"""A source that nobody trusts, timed on this machine's GPU, in a process of its own.

What is timed is what is checked: every timed launch has operands drawn from several sets, in an
order that nobody knows beforehand, and an output that was poisoned; each of its elements is
compared. So a kernel gains nothing by keeping what it computed, or by looking whether it did. The
other contenders, a rung of the book and cuBLAS, run in turn with it, so that a clock that changes
cancels in the ratio.
"""

import base64
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from helpers.ladder.kernel import evaluate
from helpers.record import protocol
from helpers.record.protocol import Effort, Spread
from helpers.wording import number
from nogpu import device
from nogpu.errors import NoGPUError
from tilelabs import apart
from tilelabs.apart import Limits
from tilelabs.judging.marking import COMPILE, Specification, compiled, tidy
from tilelabs.judging.running import operands

GPU = Limits(memory=sys.maxsize, seconds=240, wall=300.0, files=256 * apart.MB, opened=1024)
"""Address space is CUDA's to spend: it reserves more than there is memory."""
SETS = 3
PRECISION = {"float32": "fp32", "float16": "fp16"}
YOURS, RUNG, LIBRARY = CONTENDERS = "yours", "rung", "library"
_HANDED_ON = ("CUDA_VISIBLE_DEVICES", "CUPY_CACHE_DIR")


@dataclass(frozen=True)
class Timed:
    """What came of it. refused: why there is no time. wrong: launches, of `launches`, with a wrong
    element.

    ms: of one launch, by contender. over_rung: time of the book's kernel over its own, pair by
    pair: above 1 it is the faster; over_library: the same of cuBLAS. size: M, N, K. versions: of
    driver and libraries.
    """

    refused: str = ""
    gpu: str = ""
    size: tuple[int, int, int] = (0, 0, 0)
    rung: str = ""
    wrong: int = 0
    launches: int = 0
    ms: Mapping[str, Spread] = field(default_factory=dict)
    over_rung: Spread | None = None
    over_library: Spread | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)


def time_on_gpu(
    source: str | bytes,
    spec: Specification,
    rung: str,
    size: tuple[int, int, int],
    *,
    lock: bool | None = None,
    effort: Effort = protocol.RECORD,
) -> Timed:
    """Times of a source beside a rung of the book and cuBLAS, at one size, on operands drawn here.

    Time only what is right and clean in the emulator: a fault on a GPU costs at most this call, and
    says less. rung: of the catalog, which runs in turn with the source. size: M, N, K. lock: of the
    compiler, as in `marking.mark`; no native code of a source runs on the host. Raises NoGPUError:
    no GPU answers; ToolchainError: nothing compiles here; never for a source.
    """
    gpu = device.current()
    if gpu is None:
        raise NoGPUError("no NVIDIA GPU answers on this machine: time it on one that has it")
    lock = bool(apart.landlock()) if lock is None else lock
    refused, job = compiled(source, spec, lock, COMPILE, arch=gpu.arch, cubin=True)
    if refused is not None:
        return Timed(refused.refused)
    job |= {"rung": rung, "size": list(size)}
    job |= {"seed": list(secrets.token_bytes()), "effort": asdict(effort)}
    done = apart.run("tilelabs.judging.timing:timed", job, GPU, environment=_environment())
    return timed_from(done.value or {"refused": done.fault})


def _environment() -> dict[str, str]:
    """What CUDA's libraries and CuPy's cache are found by."""
    handed_on = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
    return {"CUPY_CACHE_DIR": str(Path.home() / ".cupy" / "kernel_cache")} | handed_on


def timed_from(data: Mapping[str, Any]) -> Timed:
    """What `timed` said, or what was kept of it as JSON."""

    def spread(of: Any) -> Spread | None:
        return None if of is None else Spread(**of)

    if data.get("refused"):
        return Timed(tidy(str(data["refused"])))
    ms = {name: Spread(**of) for name, of in data["ms"].items()}
    return Timed(
        "", data["gpu"], tuple(data["size"]), data["rung"], data["wrong"], data["launches"], ms,
        spread(data["over_rung"]), spread(data["over_library"]), data["versions"],
    )  # fmt: skip


def words(timed: Timed) -> str:
    """One line for people."""
    if timed.refused:
        return f"not timed: {timed.refused}"
    M, N, K = timed.size
    where = f"on {timed.gpu}, {M} x {N} x {K}"
    if timed.wrong:
        return f"wrong in {timed.wrong} of {timed.launches} launches {where}"
    timed_from = f"{number(timed.ms[YOURS].median)} ms {where}"
    for name, ratio in ((timed.rung, timed.over_rung), ("cuBLAS", timed.over_library)):
        if ratio is not None:
            spread = f"quartiles {number(ratio.q1)} to {number(ratio.q3)}"
            timed_from += f"; {number(ratio.median)} times as fast as {name} ({spread})"
    return timed_from


# -- in the process that has the GPU ---------------------------------------------------------------


def timed(job: dict[str, Any]) -> dict[str, Any]:
    """Times of job["cubin"] in turn with its rung and cuBLAS; or "refused", why there are none.

    job: as `marking.compiled` gives it, cubin (base64), rung, size (M, N, K), seed, effort.
    """
    from helpers.record.gpu import Session

    session = Session()
    session.warm_up()
    bench = _Bench(session, job)
    with session.faults(f"{job['entry']} at {'x'.join(map(str, job['size']))}"):
        done = protocol.interleaved(
            bench, CONTENDERS, effort=Effort(**job["effort"] | {"sample_ms": 0.0})
        )
    if not bench.wrong:
        M, N, K = job["size"]
        rate = protocol.gflops(M, N, K, float(np.median(done.ms[YOURS])))
        precision = PRECISION[job["arguments"][0]["dtype"]]
        protocol.refuse_above_peak(job["entry"], rate, session.peak_gflops(precision))
    return {
        "gpu": session.gpu.name, "size": job["size"], "rung": job["rung"], "wrong": bench.wrong,
        "launches": bench.launches,
        "ms": {name: asdict(protocol.spread(done.ms[name])) for name in CONTENDERS},
        "over_rung": asdict(done.ratio(YOURS, RUNG)), "versions": session.versions(),
        "over_library": asdict(done.ratio(YOURS, LIBRARY)),
    }  # fmt: skip


class _Bench:
    """One launch a sample (a `protocol.Bench`), on operands and an output that it cannot know."""

    def __init__(self, session: Any, job: dict[str, Any]) -> None:
        from helpers.ladder.kernel import geometry
        from helpers.ladder.launch import cuda_entry
        from helpers.ladder.rungs import find

        self._session, self._cupy = session, session.cupy
        self._rng = np.random.default_rng(job["seed"])
        self.wrong = self.launches = 0
        M, N, K = job["size"]
        sizes = {"M": M, "N": N, "K": K, **job["constants"]}
        grid = tuple(evaluate(e, sizes) for e in job["grid"])
        block = tuple(evaluate(e, sizes) for e in job["block"])
        shared = evaluate(job["shared"], sizes)
        kernel = cuda_entry(base64.b64decode(job["cubin"]), job["entry"], shared)
        rung = find(job["rung"])
        plan = geometry(rung, M, N, K)
        library = f"cublas_{PRECISION[job['arguments'][0]['dtype']]}"
        self._sets = [_Set(session, job, self._rng) for _ in range(SETS)]
        self._run: list[dict[str, Any]] = []
        for one in self._sets:
            arguments = [one.given["A"], one.given["B"], one.C[YOURS], *one.scalars]

            def launch(arguments: tuple[Any, ...] = tuple(arguments)) -> None:
                with session.stream:
                    kernel(grid, block, arguments, shared_mem=shared)

            runs = {YOURS: launch, RUNG: session.kernel_operation(plan, one.A, one.B, one.C[RUNG])}
            runs[LIBRARY] = session.baseline_operation(library, one.A, one.B, one.C[LIBRARY])
            self._run.append(runs)
        self._start, self._end = (self._cupy.cuda.Event() for _ in range(2))

    def sample(self, operation: str, repeat: int) -> float:
        """Milliseconds of one launch; repeat is not heeded, since each launch is judged."""
        at = int(self._rng.integers(SETS))
        one, run = self._sets[at], self._run[at][operation]
        one.renew(operation)
        self._session.stream.synchronize()
        self._session.spin(60_000)  # the host has queued all before the device begins
        self._start.record(self._session.stream)
        run()
        self._end.record(self._session.stream)
        self._end.synchronize()
        if operation == YOURS:
            self.launches += 1
            self.wrong += one.off()
        return float(self._cupy.cuda.get_elapsed_time(self._start, self._end))


class _Set:
    """One set of operands on the GPU, an output for each contender, and what it should hold."""

    def __init__(self, session: Any, job: dict[str, Any], rng: np.random.Generator) -> None:
        self._session, cp = session, session.cupy
        M, N, K = job["size"]
        sizes = [("M", M), ("N", N), ("K", K)]
        case = {"sizes": sizes, "seed": int(rng.random() * 1e9), "kind": "reals"}
        self._turned = "C" in job["transposed"]
        with session.on_stream():
            drawn = operands(job, case, cp.asarray)
            given = drawn["given"]
            self.given = {name: cp.asarray(given[name]) for name in "ABC"}
            self.scalars = [
                np.int32(x) if isinstance(x, int) else x for x in list(given.values())[3:]
            ]
            A, B = (self.given[n].T if n in job["transposed"] else self.given[n] for n in "AB")
            self.A, self.B = cp.ascontiguousarray(A), cp.ascontiguousarray(B)
            self._want, self._bound = (drawn[n]["C"] for n in ("want", "bound"))
            self.C = {YOURS: self.given["C"].copy()}
            self.C |= {name: cp.empty((M, N), np.float32) for name in (RUNG, LIBRARY)}

    def renew(self, name: str) -> None:
        """The output as it was before any launch: poisoned, or what beta scales."""
        with self._session.on_stream():
            if name == YOURS:
                self.C[name][...] = self.given["C"]
            else:
                self.C[name].fill(np.nan)

    def off(self) -> bool:
        """Whether any element of the last launch is off by more than rounding allows."""
        with self._session.on_stream():
            C = self.C[YOURS].T if self._turned else self.C[YOURS]
            near = self._session.cupy.abs(C - self._want) <= self._bound
            return not bool(near.all())
