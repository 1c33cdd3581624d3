"""Copies overlapped with compute: row panels of C over several streams, and what that gains at best.

A panel is a product with fewer rows, so no kernel changes: `panels` cuts the rows, `schedule` says in
which order the host queues the work, `simulate` what ideal hardware makes of it. Only `Runner` touches
the GPU; `compare` decides what it runs, how often and in which order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from helpers import launch, numbers
from helpers.errors import ConfigError
from helpers.kernel import Geometry, Kernel, cdiv, geometry
from helpers.measuring import point as points
from helpers.measuring import protocol
from helpers.measuring.protocol import Effort
from helpers.measuring.schema import Point
from helpers.rungs import find

if TYPE_CHECKING:
    from helpers.measuring.gpu import Session

COPY_IN, COMPUTE, COPY_OUT = "host to device", "kernel", "device to host"
ENGINE: Mapping[str, str] = {"B": COPY_IN, "A": COPY_IN, "kernel": COMPUTE, "C": COPY_OUT}
"""What works on each step: a GPU copies in, computes and copies out with three separate engines."""
STEPS = ("B", "A", "kernel", "C")

KERNELS = ("tiled_32", "vectorised")
"""What is recorded: a slow and a fast kernel, both of which every GPU since sm_75 runs."""
EDGES = (1024, 2048, 4096, 8192)
PANELS = (1, 2, 4, 8, 16, 32)
STREAMS = 4
RECORD = Effort(pairs=7, max_pairs=25, seconds=1.5)
LIVE = Effort(pairs=5, max_pairs=15, seconds=0.5)


# -- pure: cutting, ordering, predicting ---------------------------------------------------------


def panels(rows: int, count: int, multiple: int = 1) -> tuple[tuple[int, int], ...]:
    """First row and number of rows of each of `count` panels that together cover 0 to rows - 1 once.

    Cuts lie on multiples of `multiple` (the rows of a block's tile, so that no tile is split); the
    panels differ by at most one multiple, and the last one ends where the matrix does.
    Raises ConfigError if there are not enough rows for so many panels.
    """
    if rows < 1 or count < 1 or multiple < 1:
        raise ConfigError(f"{rows=}, {count=}, {multiple=}: each must be at least 1")
    tiles = cdiv(rows, multiple)
    if count > tiles:
        raise ConfigError(
            f"{rows} rows in tiles of {multiple} are {tiles} tiles: too few for {count} panels; "
            f"ask for at most {tiles}"
        )
    size, larger = divmod(tiles, count)
    cuts = [min(rows, multiple * (size * i + min(i, larger))) for i in range(count + 1)]
    return tuple((a, b - a) for a, b in pairwise(cuts))


def row_panels(p: Geometry, count: int) -> tuple[tuple[int, int], ...]:
    """The panels of a product's rows, cut between the tiles of its blocks."""
    return panels(p.M, count, p.tile[0])


@dataclass(frozen=True)
class Step:
    """One piece of queued work: "B" or "A" copied in, the "kernel", "C" copied out."""

    what: str
    panel: int
    stream: int


@dataclass(frozen=True)
class Operation:
    """A step with the times in ms at which it began and ended."""

    what: str
    panel: int
    stream: int
    start_ms: float
    end_ms: float


def schedule(count: int, streams: int) -> tuple[Step, ...]:
    """The order in which the host queues: B, then for each panel A in, kernel, C out, stream i % S."""
    if count < 1 or streams < 1:
        raise ConfigError(f"{count=} panels, {streams=}: each must be at least 1")
    steps = [Step("B", 0, 0)]
    for i in range(count):
        steps += [Step(what, i, i % streams) for what in ("A", "kernel", "C")]
    return tuple(steps)


def simulate(
    steps: Iterable[Step], rows: Sequence[int], ms: Mapping[str, float]
) -> tuple[Operation, ...]:
    """When each step runs on ideal hardware; the last end is the time of the whole product.

    rows: of each panel; a panel's share of "A", "kernel" and "C" is its share of the rows. ms: time
    of each of STEPS for the whole product. A step begins when its stream and its engine have done
    what was queued before, and a kernel when B and its own panel of A are there too. Ideal: copies
    and kernels do not slow each other down, and a thin panel is as efficient as the whole.
    Raises ConfigError if a kernel is queued before its operands or a copy out before its kernel.
    """
    total, engine, stream = sum(rows), dict[str, float](), dict[int, float]()
    done: dict[tuple[str, int], float] = {}
    found = []
    for step in steps:
        needs = {"kernel": (("B", 0), ("A", step.panel)), "C": (("kernel", step.panel),)}
        ready = 0.0
        for need in needs.get(step.what, ()):
            if need not in done:
                raise ConfigError(
                    f"{step.what} of panel {step.panel} is queued before {need[0]}, which it needs"
                )
            ready = max(ready, done[need])
        start = max(ready, engine.get(ENGINE[step.what], 0.0), stream.get(step.stream, 0.0))
        share = 1.0 if step.what == "B" else rows[step.panel] / total
        end = start + share * ms[step.what]
        engine[ENGINE[step.what]] = stream[step.stream] = end
        done[step.what, 0 if step.what == "B" else step.panel] = end
        found.append(Operation(step.what, step.panel, step.stream, start, end))
    return tuple(found)


def makespan(operations: Iterable[Operation]) -> float:
    """Milliseconds from 0 to the end of the last operation."""
    return max(operation.end_ms for operation in operations)


def bound(ms: Mapping[str, float]) -> float:
    """Milliseconds that no cut into row panels can beat: B first, then the slowest of the three."""
    return ms["B"] + max(ms["A"], ms["kernel"], ms["C"])


def parts(operations: Iterable[Operation]) -> dict[str, float]:
    """Milliseconds spent on each of STEPS: the `ms` of `simulate`, from the operations of a serial run."""
    spent = dict.fromkeys(STEPS, 0.0)
    for operation in operations:
        spent[operation.what] += operation.end_ms - operation.start_ms
    return spent


def busy(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """The operations as their engines saw them, in order of their ends.

    An event before an operation is stamped when its stream gets there, which may be long before the
    engine does. So an operation begins here no earlier than its engine's last one ended. (Kernels of
    two streams may in truth share the GPU for a while; then this draws one after the other.)
    """
    last: dict[str, float] = {}
    found = []
    for o in sorted(operations, key=lambda o: (o.end_ms, o.start_ms)):
        start = min(o.end_ms, max(o.start_ms, last.get(ENGINE[o.what], 0.0)))
        last[ENGINE[o.what]] = o.end_ms
        found.append(Operation(o.what, o.panel, o.stream, start, o.end_ms))
    return tuple(found)


def lanes(operations: Iterable[Operation], group: str) -> list[dict[str, Any]]:
    """Rows for `plots.gantt`: one lane an engine, each bar called B or by its panel's number."""
    return [
        {
            "group": group,
            "lane": ENGINE[o.what],
            "kind": ENGINE[o.what],
            "label": "B" if o.what == "B" else str(o.panel),
            "start_ms": o.start_ms,
            "end_ms": o.end_ms,
        }
        for o in busy(operations)
    ]


def operations(entry: Mapping[str, Any]) -> tuple[Operation, ...]:
    """The recorded operations of one run."""
    return tuple(Operation(*fields) for fields in entry["timeline"])


# -- what is compared ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """A way to do the product end to end.

    how: "serial" (the host waits after each step, as in chapter 02) or "panels" (queued, one wait at
    the end). memory: "pageable" or "pinned" host arrays.
    """

    how: str
    memory: str
    panels: int = 1
    streams: int = 1

    @property
    def title(self) -> str:
        """In words, for a bar or a table."""
        if self.how == "serial":
            return f"serial, {self.memory}"
        words = f"{self.panels} panel{'s' * (self.panels > 1)}"
        words += f", {self.streams} stream{'s' * (self.streams > 1)}"
        return words if self.memory == "pinned" else f"{words}, {self.memory}"


BASELINE = Variant("serial", "pageable")


def variant(entry: Mapping[str, Any]) -> Variant:
    """The variant that a recorded entry is about."""
    return Variant(entry["how"], entry["memory"], entry["panels"], entry["streams"])


def variants(rows: int, multiple: int) -> tuple[Variant, ...]:
    """All that are measured of a product with so many rows in tiles of `multiple` rows.

    Serial from both kinds of memory; each of PANELS that there are tiles for, over up to STREAMS
    streams; and one number of panels over fewer streams and from pageable memory.
    """
    tiles = cdiv(rows, multiple)
    counts = [count for count in PANELS if count <= tiles]
    middle = max(count for count in counts if count <= 8)
    queued = [("pinned", count, STREAMS) for count in counts]
    queued += [("pinned", middle, 1), ("pinned", middle, 2), ("pageable", middle, STREAMS)]
    cut = (Variant("panels", memory, n, min(s, n)) for memory, n, s in queued)
    return tuple(dict.fromkeys((BASELINE, Variant("serial", "pinned"), *cut)))


class Bench(Protocol):
    """Something that can run a variant, and check what it left in the host's C."""

    def run(self, v: Variant) -> float:
        """Milliseconds from host arrays to host result."""
        ...

    def poison(self) -> None:
        """Fill the copies of A, B and C on the device, and C on the host, with NaN."""
        ...

    def check(self, v: Variant) -> tuple[float, float]:
        """Largest error and error over tolerance. Raises ImplausibleError if C is wrong."""
        ...


def compare(
    bench: Bench,
    chosen: Sequence[Variant],
    *,
    effort: Effort | None = None,
    rng: np.random.Generator | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[dict[Variant, list[float]], dict[Variant, tuple[float, float]]]:
    """Times in ms of each variant, round by round in random order, and the errors of its result.

    Each variant is run and checked on poisoned memory before the first round and after the last.
    """
    effort, order = effort or RECORD, rng or np.random.default_rng()
    errors: dict[Variant, tuple[float, float]] = {}

    def checked() -> None:
        for v in chosen:
            bench.poison()
            bench.run(v)
            errors[v] = bench.check(v)

    checked()
    times: dict[Variant, list[float]] = {v: [] for v in chosen}
    started = clock()
    for done in range(effort.max_pairs):
        if done >= effort.pairs and clock() - started >= effort.seconds:
            break
        for index in order.permutation(len(chosen)):
            v = chosen[int(index)]
            times[v].append(bench.run(v))
    checked()
    return times, errors


# -- the GPU -------------------------------------------------------------------------------------


class Runner:
    """One product on the GPU, from host arrays to host result, in any variant (a `Bench`)."""

    def __init__(self, session: Session, p: Geometry) -> None:
        cp, k = session.cupy, p.kernel
        self.session, self.plan = session, p
        self.problem = session.problem(k.dtype, p.M, p.N, p.K)
        inputs = {"A": self.problem.host_A, "B": self.problem.host_B}
        result = np.zeros((p.M, p.N), numbers.STORAGE[k.out_dtype])  # zeros: its pages are touched
        started = time.perf_counter()
        pinned = {name: self._pinned(x) for name, x in {**inputs, "C": result}.items()}
        self.pin_ms = (time.perf_counter() - started) * 1e3
        for name, x in inputs.items():
            pinned[name][...] = x
        self.host = {"pageable": {**inputs, "C": result}, "pinned": pinned}
        with session.on_stream():
            self.device = {
                name: cp.empty(x.shape, x.dtype) for name, x in self.host["pageable"].items()
            }
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]
        self._arrived = cp.cuda.Event(disable_timing=True)
        self._launches: dict[tuple[int, int], Callable[[], None]] = {}

    def _pinned(self, like: np.ndarray) -> np.ndarray:
        """An array of this shape in page-locked memory of its own, not from CuPy's pool."""
        cuda = self.session.cupy.cuda
        memory = cuda.PinnedMemoryPointer(cuda.PinnedMemory(like.nbytes), 0)
        return np.frombuffer(memory, like.dtype, like.size).reshape(like.shape)

    def _launch(self, row: int, rows: int) -> Callable[[], None]:
        """The kernel on one panel, in the stream that is current when it is called."""
        if (row, rows) not in self._launches:
            whole = self.plan
            p = geometry(whole.kernel, rows, whole.N, whole.K, **whole.params)
            A, C = (self.device[name][row : row + rows] for name in ("A", "C"))
            B = self.device["B"]
            if p.kernel.host != "plain":
                self._launches[row, rows] = lambda: launch.cuda_launch(p, A, B, C)
            else:
                function = launch.cuda_function(p)
                arguments = (A, B, C, np.int32(p.M), np.int32(p.N), np.int32(p.K))
                self._launches[row, rows] = lambda: function(
                    p.grid, p.block, arguments, shared_mem=p.shared_bytes
                )
        return self._launches[row, rows]

    def _copy(self, name: str, row: int, rows: int, memory: str, stream: Any) -> None:
        """Queue the copy of some rows: of A and B to the device, of C to the host."""
        runtime = self.session.cupy.cuda.runtime
        here = self.host[memory][name][row : row + rows]
        there = self.device[name][row : row + rows]
        if name == "C":
            ends, kind = (here.ctypes.data, there.data.ptr), runtime.memcpyDeviceToHost
        else:
            ends, kind = (there.data.ptr, here.ctypes.data), runtime.memcpyHostToDevice
        runtime.memcpyAsync(*ends, here.nbytes, kind, stream.ptr)

    def _wait(self) -> None:
        for stream in (self.session.stream, *self.streams):
            stream.synchronize()

    def _work(self, v: Variant) -> list[tuple[Step, Any, Callable[[], None]]]:
        """Each step of a variant with its stream and the call that queues it, made ready beforehand."""
        cut = row_panels(self.plan, v.panels)
        work = []
        for step in schedule(v.panels, v.streams):
            stream = self.streams[step.stream]
            row, rows = (0, self.plan.K) if step.what == "B" else cut[step.panel]
            if step.what == "kernel":
                queue = self._launch(row, rows)
            else:
                queue = self._copier(step.what, row, rows, v.memory, stream)
            work.append((step, stream, queue))
        return work

    def _copier(
        self, name: str, row: int, rows: int, memory: str, stream: Any
    ) -> Callable[[], None]:
        return lambda: self._copy(name, row, rows, memory, stream)

    def _issue(
        self,
        work: Sequence[tuple[Step, Any, Callable[[], None]]],
        wait_each: bool,
        mark: Callable[[Any], None] | None = None,
    ) -> None:
        """Queue the steps. wait_each: the host waits after each. mark: records an event in a stream."""
        for step, stream, queue in work:
            if step.what == "kernel":
                stream.wait_event(self._arrived)  # B came through another stream
            if mark is not None:
                mark(stream)
            with stream:
                queue()
            if mark is not None:
                mark(stream)
            if step.what == "B":
                self._arrived.record(stream)
            if wait_each:
                stream.synchronize()

    def run(self, v: Variant) -> float:
        """Milliseconds from host arrays to host result, by the host's clock."""
        work = self._work(v)
        self._wait()
        started = time.perf_counter()
        self._issue(work, v.how == "serial")
        self._wait()
        return (time.perf_counter() - started) * 1e3

    def poison(self) -> None:
        """Fill the copies of A, B and C on the device, and C on the host, with NaN.

        Then a panel that is computed before its operands came, or never copied, shows itself.
        """
        dtype, out_dtype = self.plan.kernel.dtype, self.plan.kernel.out_dtype
        for name, x in self.device.items():
            self.session.poison(x, out_dtype if name == "C" else dtype)
        self._wait()
        for arrays in self.host.values():
            arrays["C"].fill(numbers.poison(out_dtype))

    def check(self, v: Variant) -> tuple[float, float]:
        """Largest error of the host's C, and largest error over tolerance; refuses a wrong one."""
        k = self.plan.kernel
        with self.session.on_stream():
            C = self.session.cupy.asarray(self.host[v.memory]["C"])
        worst, ratio = self.session.error(self.problem, C, k.out_dtype)
        what = f"{k.name} at {self.plan.M}x{self.plan.N}x{self.plan.K}, {v.title}"
        protocol.refuse_wrong(ratio, what, worst, self.problem.checked)
        return worst, ratio

    def timeline(self, v: Variant, runs: int = 3) -> tuple[Operation, ...]:
        """The operations of one run by CUDA events, in ms after the first: of `runs`, the median one."""
        return sorted((self._events(v) for _ in range(runs)), key=makespan)[runs // 2]

    def _events(self, v: Variant) -> tuple[Operation, ...]:
        cuda, events = self.session.cupy.cuda, list[Any]()

        def mark(stream: Any) -> None:
            events.append(cuda.Event())
            events[-1].record(stream)

        work = self._work(v)
        self._wait()
        self._issue(work, v.how == "serial", mark)
        self._wait()
        # Never below 0: the first mark of another stream may be stamped a tick before this one.
        at = [max(0.0, float(cuda.get_elapsed_time(events[0], event))) for event in events]
        return tuple(
            Operation(step.what, step.panel, step.stream, start, end)
            for (step, _, _), start, end in zip(work, at[::2], at[1::2], strict=True)
        )

    def copy_engines(self) -> int | None:
        """Copies that this GPU can have under way beside a kernel."""
        found = self.session.cupy.cuda.Device().attributes.get("AsyncEngineCount")
        return int(found) if found else None


def entries(
    session: Session,
    kernel: Kernel | str,
    M: int,
    N: int,
    K: int,
    *,
    recorded: Mapping[str, Any],
    effort: Effort | None = None,
    rng: np.random.Generator | None = None,
) -> list[Point]:
    """Measure every variant of one product: one entry of the section "overlap" each.

    speedup is over the serial run from pageable memory, the median of ratios within a round.
    Raises a TileError, and there are no entries, if a result is wrong or a launch not possible.
    """
    k = find(kernel)
    what = f"overlapped {k.name} at {M}x{N}x{K}"
    if not session.supports(k.min_arch):
        raise ConfigError(f"{k.name} needs {k.min_arch} or later; this GPU is {session.gpu.arch}")
    with session.faults(what):
        p = geometry(k, M, N, K)
        runner = Runner(session, p)
        chosen = variants(M, p.tile[0])
        times, errors = compare(runner, chosen, effort=effort, rng=rng)
        lines = {v: runner.timeline(v) for v in chosen}
        engines = runner.copy_engines()
    found = []
    for v in chosen:
        spread = protocol.spread(np.array(times[v]))
        speedup = protocol.spread(np.array(times[BASELINE]) / np.array(times[v]))
        rate = protocol.gflops(M, N, K, spread.median)
        peak = session.peak_gflops(points.PRECISION[k.dtype])
        protocol.refuse_above_peak(f"{what}, {v.title},", rate, peak)
        found.append(
            {
                "kernel": k.name,
                "params": dict(p.params),
                "how": v.how,
                "memory": v.memory,
                "panels": v.panels,
                "streams": v.streams,
                "m": M,
                "n": N,
                "k": K,
                "ms": spread.median,
                "q1": spread.q1,
                "q3": spread.q3,
                "runs": spread.count,
                "speedup": speedup.median,
                "speedup_q1": speedup.q1,
                "speedup_q3": speedup.q3,
                "pin_ms": runner.pin_ms if v.memory == "pinned" else None,
                "copy_engines": engines,
                "timeline": [[o.what, o.panel, o.stream, o.start_ms, o.end_ms] for o in lines[v]],
                "max_error": errors[v][0],
                "error_over_tolerance": errors[v][1],
                "checked": runner.problem.checked,
                "source": points.fingerprint(k),
                "recorded": dict(recorded),
            }
        )
    return found


def seconds(M: int, N: int, K: int, count: int, effort: Effort = RECORD) -> float:
    """Seconds that measuring `count` variants may take, at 10 GB/s of copies and 8 TFLOP/s."""
    copies = 4 * (M * K + K * N + M * N) / 1e10
    runs = effort.pairs + 5  # two are checked and three make the time line
    return 3.0 + effort.seconds + count * runs * (copies + 2 * M * N * K / 8e12)


def crossover(rate_gflops: float, link_gbs: float, itemsize: int = 4) -> float:
    """Columns N from which computing a panel takes longer than copying it in: N = itemsize F / (2 W).

    A panel of m rows takes 2 m N K / F to compute and itemsize m K / W to copy; m and K cancel.
    rate_gflops: F in GFLOP/s. link_gbs: W, of the link, in GB/s.
    """
    if not (rate_gflops > 0 and link_gbs > 0 and math.isfinite(rate_gflops / link_gbs)):
        raise ConfigError(f"{rate_gflops=}, {link_gbs=}: both rates must be positive")
    return itemsize * rate_gflops / (2 * link_gbs)
