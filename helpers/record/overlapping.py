"""Section "overlap": products from host arrays to host result, their copies overlapped with
compute.

Only `Runner` touches the GPU; `compare` decides what it runs, how often and in which order. What is
run is planned in helpers.ladder.streams.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from helpers.ladder import binding, numbers, rungs, streams
from helpers.ladder.kernel import Geometry, Kernel, geometry
from helpers.ladder.rungs import find
from helpers.ladder.streams import BASELINE, STREAMS, Operation, Step, Variant, makespan, variants
from helpers.record import protocol
from helpers.record.entries import Overlapped
from helpers.record.gpu import PRECISION, Session
from helpers.record.protocol import Effort
from helpers.record.store import Size, shape
from nogpu.errors import ConfigError

KERNELS = ("tiled_32", "vectorised")
"""What is recorded: a slow and a fast kernel, both of which every GPU since sm_75 runs."""
EFFORT = Effort(pairs=7, max_pairs=25, seconds=1.5)
LIVE = Effort(pairs=5, max_pairs=15, seconds=0.5)


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
    bench: Bench, chosen: Sequence[Variant], *, effort: Effort | None = None,
    rng: np.random.Generator | None = None, clock: Callable[[], float] = time.monotonic,
) -> tuple[dict[Variant, list[float]], dict[Variant, tuple[float, float]]]:  # fmt: skip
    """Times in ms of each variant, round by round in random order, and the errors of its result.

    Each variant is run and checked on poisoned memory before the first round and after the last.
    """
    effort, order = effort or EFFORT, rng or np.random.default_rng()
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
        self._launches: dict[tuple[int, int], Callable[..., None]] = {}

    def _pinned(self, like: np.ndarray) -> np.ndarray:
        """An array of this shape in page-locked memory of its own, not from CuPy's pool."""
        cuda = self.session.cupy.cuda
        memory = cuda.PinnedMemoryPointer(cuda.PinnedMemory(like.nbytes), 0)
        return np.frombuffer(memory, like.dtype, like.size).reshape(like.shape)

    def _launch(self, row: int, rows: int) -> Callable[..., None]:
        """The kernel on one panel, in the stream that is current when it is called."""
        if (row, rows) not in self._launches:
            whole = self.plan
            p = geometry(whole.kernel, rows, whole.N, whole.K, **whole.params)
            A, C = (self.device[name][row : row + rows] for name in ("A", "C"))
            B = self.device["B"]
            self._launches[row, rows] = binding.on_gpu(p, A, B, C)
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
        """Each step of a variant with its stream and the call that queues it, made beforehand."""
        cut = streams.row_panels(self.plan, v.panels)
        work = []
        for step in streams.schedule(v.panels, v.streams):
            stream = self.streams[step.stream]
            row, rows = (0, self.plan.K) if step.what == "B" else cut[step.panel]
            if step.what == "kernel":
                queue = self._launch(row, rows)
            else:
                queue = partial(self._copy, step.what, row, rows, v.memory, stream)
            work.append((step, stream, queue))
        return work

    def _issue(
        self,
        work: Sequence[tuple[Step, Any, Callable[[], None]]],
        wait_each: bool,
        mark: Callable[[Any], None] | None = None,
    ) -> None:
        """Queue the steps. wait_each: the host waits after each. mark: records an event."""
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
        """The operations of one run by CUDA events, in ms after the first: of `runs`, the median
        one."""
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
        engines = self.session.cupy.cuda.Device().attributes.get("AsyncEngineCount")
        return int(engines) if engines else None


def entries(
    session: Session, kernel: Kernel | str, size: Size, *, recorded: Mapping[str, Any],
    effort: Effort | None = None, rng: np.random.Generator | None = None,
) -> list[Overlapped]:  # fmt: skip
    """Measure every variant of one product: one entry each.

    Raises a TileError, and there are no entries, if a result is wrong or a launch not possible.
    """
    k = find(kernel)
    what = f"overlapped {k.name} at {shape(size)}"
    if not session.supports(k.min_arch):
        raise ConfigError(f"{k.name} needs {k.min_arch} or later; this GPU is {session.gpu.arch}")
    with session.faults(what):
        p = geometry(k, *size)
        runner = Runner(session, p)
        chosen = variants(p.M, p.tile[0])
        times, errors = compare(runner, chosen, effort=effort, rng=rng)
        lines = {v: runner.timeline(v) for v in chosen}
        engines = runner.copy_engines()
    made = []
    for v in chosen:
        ms = protocol.spread(np.array(times[v]))
        gain = protocol.spread(np.array(times[BASELINE]) / np.array(times[v]))
        rate, peak = protocol.gflops(*size, ms.median), session.peak_gflops(PRECISION[k.dtype])
        protocol.refuse_above_peak(f"{what}, {v.title},", rate, peak)
        entry = Overlapped(
            k.name, dict(p.params), *(v.how, v.memory, v.panels, v.streams), *size,
            *(ms.median, ms.q1, ms.q3), ms.count, *(gain.median, gain.q1, gain.q3),
            pin_ms=runner.pin_ms if v.memory == "pinned" else None, copy_engines=engines,
            timeline=[[o.what, o.panel, o.stream, o.start_ms, o.end_ms] for o in lines[v]],
            max_error=errors[v][0], error_over_tolerance=errors[v][1],
            checked=runner.problem.checked, source=rungs.fingerprint(k), recorded=dict(recorded),
        )  # fmt: skip
        made.append(entry)
    return made
