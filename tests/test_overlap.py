"""Copies overlapped with compute: cuts, queues, predictions, and a pretend GPU that runs streams in
any order that CUDA allows, so that a missing wait shows itself."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import re
import sys
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers import catalog, plan
from helpers import draw as plots
from helpers.ladder import binding, numbers, rungs, streams
from helpers.ladder.streams import Operation, Step, Variant
from helpers.page import exercises
from helpers.record import ImplausibleError, load, overlap, overlapping, protocol, sources, store
from helpers.record.entries import Overlapped
from helpers.record.overlapping import Runner
from nogpu import device
from nogpu.errors import ConfigError, DataError
from tests.test_measure import FakeSession, gpu, record
from tools.recorder.sections import overlaps as overlaps_section

__all__ = ["gpu"]  # the pretend GPU of test_measure, a fixture here, too

MS = {"B": 1.0, "A": 2.0, "kernel": 6.0, "C": 2.0}
QUICK = protocol.Effort(pairs=3, max_pairs=3, seconds=0.0)

# -- cutting -----------------------------------------------------------------------------------


def cut_faults(cut, rows, count, multiple):
    """What is wrong with a cut of rows into panels."""
    faults = []
    covered = np.zeros(rows + max(rows, 1), int)
    for first, size in cut:
        covered[first : first + size] += 1
    if (covered[:rows] != 1).any() or covered[rows:].any():
        faults.append("rows")
    if len(cut) != count or min(size for _, size in cut) < 1:
        faults.append("count")
    if any(first % multiple for first, _ in cut):
        faults.append("tiles")
    tiles = [-(-size // multiple) for _, size in cut]
    return faults + ["balance"] * (max(tiles) - min(tiles) > 1)


def naive_cut(rows, count, multiple):
    """As most tutorials do it."""
    size = rows // count
    return tuple((i * size, size) for i in range(count))


@pytest.mark.parametrize("rows", [1, 2, 7, 31, 32, 33, 103, 1000, 1025, 4096])
@pytest.mark.parametrize("multiple", [1, 32, 128])
def test_panels_cover_every_row_once(rows, multiple):
    tiles = -(-rows // multiple)
    for count in range(1, min(tiles, 40) + 1):
        assert cut_faults(streams.panels(rows, count, multiple), rows, count, multiple) == []
    with pytest.raises(ConfigError, match=f"at most {tiles}"):
        streams.panels(rows, tiles + 1, multiple)


def test_a_wrong_cut_is_seen():
    assert cut_faults(naive_cut(1000, 3, 128), 1000, 3, 128) == ["rows", "tiles"]
    assert cut_faults(((0, 384), (384, 616)), 1000, 3, 128) == ["count", "balance"]
    assert cut_faults(((0, 550), (500, 500)), 1000, 2, 50) == ["rows"]
    by_tiles = streams.row_panels(plan(catalog["tiled_32"], 70, 33, 17), 3)
    assert by_tiles == ((0, 32), (32, 32), (64, 6))
    for bad in ((0, 1, 1), (8, 0, 1), (8, 1, 0)):
        with pytest.raises(ConfigError, match="at least 1"):
            streams.panels(*bad)


# -- ordering and predicting -------------------------------------------------------------------


def test_the_schedule_brings_b_first_and_deals_panels_to_streams():
    steps = streams.schedule(5, 2)
    assert steps[0] == Step("B", 0, 0)
    assert [s.stream for s in steps if s.what == "kernel"] == [0, 1, 0, 1, 0]
    assert [s.what for s in steps if s.panel == 3] == ["A", "kernel", "C"]
    assert len(steps) == 1 + 3 * 5
    with pytest.raises(ConfigError, match="at least 1"):
        streams.schedule(0, 1)


@pytest.mark.parametrize("times", [*permutations((2.0, 6.0, 3.0)), (2.0, 2.0, 2.0)])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 32])
def test_ideal_queues_take_what_the_formula_says(times, count):
    ms = dict(zip(("A", "kernel", "C"), times, strict=True)) | {"B": 1.0}
    took = streams.makespan(streams.simulate(streams.schedule(count, 3), (1,) * count, ms))
    formula = 1.0 + sum(times) / count + (count - 1) / count * max(times)
    assert took == pytest.approx(formula)
    assert streams.bound(ms) < took <= sum(ms.values()) + 1e-12
    serial = streams.makespan(streams.simulate(streams.schedule(count, 1), (1,) * count, ms))
    assert serial == pytest.approx(sum(ms.values()))  # one stream hides nothing


def test_no_engine_and_no_stream_does_two_things_at_once():
    found = streams.simulate(streams.schedule(7, 3), (3, 3, 3, 3, 3, 2, 1), MS)
    for place in (lambda o: streams.ENGINE[o.what], lambda o: o.stream):
        for name in {place(o) for o in found}:
            here = sorted((o.start_ms, o.end_ms) for o in found if place(o) == name)
            assert all(a[1] <= b[0] + 1e-12 for a, b in pairwise(here))
    assert streams.parts(found) == pytest.approx(MS)  # ragged panels share the times by rows


A, B, KERNEL, C = (Step(what, 0, 0) for what in ("A", "B", "kernel", "C"))


@pytest.mark.parametrize("steps", [[A, KERNEL, replace(B, stream=1)], [B, KERNEL, A], [B, A, C]])
def test_a_queue_that_computes_what_is_not_there_is_refused(steps):
    with pytest.raises(ConfigError, match="queued before"):
        streams.simulate(steps, (1,), MS)


def test_a_bar_begins_where_its_engine_is_free():
    """All copies were queued at 0, so their first events are stamped there."""
    copies = ("B", 0, 0, 0.0, 1.0), ("A", 0, 0, 0.0, 2.0), ("A", 1, 1, 0.0, 3.0)
    kernels = ("kernel", 0, 0, 2.0, 5.0), ("kernel", 1, 1, 3.0, 6.0)
    stamped = [Operation(*each) for each in (*copies, *kernels)]
    assert [(o.start_ms, o.end_ms) for o in streams.busy(stamped)] == [
        (0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (2.0, 5.0), (5.0, 6.0),
    ]  # fmt: skip
    rows = streams.lanes(stamped, "x")
    assert {row["lane"] for row in rows} == {streams.COPY_IN, streams.COMPUTE}
    assert [row["label"] for row in rows] == ["B", "0", "1", "0", "1"]


def test_the_crossover_is_where_computing_and_copying_take_the_same_time():
    n = streams.crossover(40_000, 50)
    assert n == 1600
    for edge, longer in ((1601, "kernel"), (1599, "copy")):
        kernel, copy = 2 * edge / 40_000e9, 4 / 50e9  # of one element of A, m and K cancelled
        assert (kernel > copy) == (longer == "kernel")
    assert streams.crossover(40_000, 50, itemsize=2) == 800
    with pytest.raises(ConfigError, match="positive"):
        streams.crossover(40_000, 0)


def test_variants_are_what_the_chapter_compares():
    found = streams.variants(4096, 128)
    assert found[0] == streams.BASELINE
    assert [v.panels for v in found if v.streams == min(4, v.panels) and v.memory == "pinned"] == [
        1, 1, 2, 4, 8, 16, 32,
    ]  # fmt: skip
    assert Variant("panels", "pinned", 8, 1) in found
    assert Variant("panels", "pageable", 8, 4) in found
    assert len(set(found)) == len(found)
    assert max(v.panels for v in streams.variants(1024, 128)) == 8  # no more panels than tiles
    assert {v.panels for v in streams.variants(100, 128)} == {1}
    assert len({v.title for v in found}) == len(found)
    assert Variant("panels", "pinned", 1, 1).title == "1 panel, 1 stream"


# -- comparing ---------------------------------------------------------------------------------


class Pretend:
    """A bench whose variants take known times; one may leave a wrong C."""

    def __init__(self, wrong=None):
        self.wrong, self.calls, self.fresh = wrong, list[str](), False

    def run(self, v):
        self.calls.append(v.title)
        return float(v.panels)

    def poison(self):
        self.calls.append("poison")

    def check(self, v):
        assert self.calls[-2:] == ["poison", v.title]
        ratio = 9.0 if v == self.wrong else 0.5
        protocol.refuse_wrong(ratio, v.title, 1.0, "nothing")
        return 1e-6, ratio


def test_variants_take_turns_in_random_order_and_are_checked_before_and_after():
    bench, chosen = Pretend(), streams.variants(4096, 128)
    effort = replace(QUICK, pairs=30, max_pairs=30)
    times, errors = overlapping.compare(bench, chosen, effort=effort, rng=np.random.default_rng(0))
    assert all(times[v] == [float(v.panels)] * 30 for v in chosen)
    assert errors == dict.fromkeys(chosen, (1e-6, 0.5))
    assert bench.calls.count("poison") == 2 * len(chosen)
    n = len(chosen)
    rounds = [tuple(bench.calls[2 * n + i * n : 2 * n + (i + 1) * n]) for i in range(30)]
    assert {frozenset(r) for r in rounds} == {frozenset(v.title for v in chosen)}
    assert len(set(rounds)) > 25


def test_a_wrong_variant_is_refused():
    chosen = streams.variants(4096, 128)
    with pytest.raises(ImplausibleError, match="wrong result"):
        overlapping.compare(Pretend(chosen[5]), chosen, effort=QUICK)


# -- a pretend GPU -----------------------------------------------------------------------------


class DeviceArray(np.ndarray):
    """An array whose pointer is asked for as CuPy's is."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)

    def set(self, host, stream):
        """Queue a copy in."""
        stream.queue.append(("work", lambda: self.__setitem__(..., host)))

    def get(self, out, stream, blocking):
        """Queue a copy out."""
        assert not blocking, "a copy that waits overlaps with nothing"
        stream.queue.append(("work", lambda: out.__setitem__(..., self)))


class Stream:
    """A queue. An operation is (kind, payload); nothing runs until someone waits."""

    def __init__(self, world):
        self.world, self.queue = world, list[tuple[str, Any]]()
        world.streams.append(self)
        self.ptr = len(world.streams) - 1

    def __enter__(self):
        self.world.current.append(self)
        return self

    def __exit__(self, *_):
        self.world.current.pop()

    def synchronize(self):
        self.world.run_until(self)

    def wait_event(self, event):
        if event.recorded:  # an event that was never recorded counts as done
            self.queue.append(("wait", (event, event.recorded)))


class Event:
    """A mark in a stream; each record() is one more version of it."""

    def __init__(self, world):
        self.world, self.recorded, self.reached, self.at = world, 0, 0, 0.0

    def record(self, stream):
        self.recorded += 1
        stream.queue.append(("record", (self, self.recorded)))


@dataclass
class World:
    """A GPU that takes the head of any stream that may run, at random; a clock ticks with it."""

    rng: np.random.Generator
    streams: list[Stream] = field(default_factory=list)
    current: list[Stream] = field(default_factory=list)
    clock: float = 0.0

    def run_until(self, wanted):
        """Run operations of random streams until this one is empty."""
        while wanted.queue:
            ready = [s for s in self.streams if s.queue and self._may_run(s.queue[0])]
            assert ready, "every stream waits for another"
            self._do(ready[int(self.rng.integers(len(ready)))].queue.pop(0))

    @staticmethod
    def _may_run(operation):
        kind, payload = operation
        return kind != "wait" or payload[0].reached >= payload[1]

    def _do(self, operation):
        kind, payload = operation
        if kind == "record":
            payload[0].reached, payload[0].at = payload[1], self.clock
        elif kind == "work":
            self.clock += 1.0
            payload()

    def queue(self, work):
        """Queue work in the current stream."""
        self.current[-1].queue.append(("work", work))


class PretendGpu:
    """What Runner needs of a Session, over NumPy."""

    def __init__(self, seed=0):
        self.world = world = World(np.random.default_rng(seed))
        cuda = SimpleNamespace(
            Stream=lambda non_blocking: Stream(world),
            Event=lambda disable_timing=False: Event(world),
            PinnedMemory=lambda nbytes: np.zeros(nbytes, np.uint8),
            PinnedMemoryPointer=lambda memory, offset: memory,
            get_elapsed_time=lambda a, b: b.at - a.at,
            Device=lambda: SimpleNamespace(attributes={"AsyncEngineCount": 3}),
            runtime=SimpleNamespace(
                memcpyAsync=self._memcpy, memcpyHostToDevice=1, memcpyDeviceToHost=2
            ),
        )

        def empty(shape, dtype):
            return np.zeros(shape, dtype).view(DeviceArray)

        self.cupy = SimpleNamespace(cuda=cuda, empty=empty, asarray=np.array)
        self.stream = Stream(world)
        self.gpu = SimpleNamespace(arch="sm_90")

    def _memcpy(self, to, of, nbytes, kind, stream):
        self.world.streams[stream].queue.append(("work", lambda: ctypes.memmove(to, of, nbytes)))

    def supports(self, arch):
        return arch <= "sm_90"

    def peak_gflops(self, precision):
        return 1e12

    @contextlib.contextmanager
    def on_stream(self):
        with self.stream:
            yield

    @contextlib.contextmanager
    def faults(self, what):
        yield

    def problem(self, dtype, M, N, K):
        A, B = numbers.operands("tiled_32", M, N, K)
        return SimpleNamespace(host_A=A, host_B=B, checked="float64 on the host")

    def poison(self, x, dtype):
        with self.stream:
            self.world.queue(lambda: x.fill(np.nan))

    def error(self, problem, C, dtype):
        bound = numbers.error_bound("tiled_32", problem.host_A, problem.host_B)
        wanted = numbers.reference("tiled_32", problem.host_A, problem.host_B)
        error = np.abs(C - wanted)
        return float(error.max()), float((error / bound).max())


@pytest.fixture
def kernels(monkeypatch):
    """Kernels that multiply with NumPy when their turn comes; the worlds that they run in."""
    worlds: list[World] = []

    def on_gpu(p, A, B, C):
        assert A.shape == (p.M, p.K) and B.shape == (p.K, p.N) and C.shape == (p.M, p.N)

        def multiply():
            C[...] = np.asarray(A, np.float64) @ np.asarray(B, np.float64)

        return lambda: worlds[-1].queue(multiply)

    monkeypatch.setattr(binding, "on_gpu", on_gpu)
    return worlds


def runner(worlds, seed, shape=(103, 45, 37)):
    """A runner on a pretend GPU of its own."""
    session = PretendGpu(seed)
    worlds.append(session.world)
    return Runner(session, plan(catalog["tiled_32"], *shape))


def outcome(r, v):
    """Error over tolerance after one run on poisoned memory."""
    r.poison()
    r.run(v)
    return r.check(v)[1]


@pytest.mark.parametrize("shape", [(103, 45, 37), (1, 1, 1), (33, 7, 64), (130, 40, 5)])
def test_every_variant_gives_the_product(kernels, shape):
    for seed in range(5):
        r = runner(kernels, seed, shape)
        for v in streams.variants(shape[0], r.plan.tile[0]):
            assert outcome(r, v) <= 1.0


def broken(kernels):
    """How often, of 20 tries, a run in panels is found out to be wrong."""
    count = 0
    for seed in range(20):
        try:
            outcome(runner(kernels, seed), Variant("panels", "pinned", 4, 3))
        except ImplausibleError:
            count += 1
    return count


def without(what):
    """A schedule that lacks a step of the first panel."""
    first = (what, 0)
    return lambda right: lambda *of: tuple(s for s in right(*of) if (s.what, s.panel) != first)


def apart(right):
    """A schedule that copies A in another stream than that of its kernel."""
    return lambda count, over: tuple(
        replace(s, stream=(s.stream + 1) % over) if s.what == "A" else s for s in right(count, over)
    )


FAULTS: dict[str, tuple[Any, str, Any, int]] = {
    "no wait for B": (Stream, "wait_event", lambda _: lambda *_: None, 10),
    "A in another stream": (streams, "schedule", apart, 10),
    "rows lost": (streams, "row_panels", lambda _: lambda p, count: naive_cut(p.M, count, 1), 20),
    **{f"no {what}": (streams, "schedule", without(what), 20) for what in MS},
}
"""What is replaced by what, and how often it is found out at least: luck saves the others."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_run_in_panels_is_found_out(fault, kernels, monkeypatch):
    """The operands of the run before are still there, so only the poison tells of a lost step."""
    owner, name, twin, least = FAULTS[fault]
    monkeypatch.setattr(owner, name, twin(getattr(owner, name)))
    assert broken(kernels) >= least


def chapters_program():
    """The program that chapter 24 prints: its cell alone, with nothing of this book imported."""
    text = (Path(__file__).parent.parent / "book" / "24_streams.md").read_text(encoding="utf-8")
    [cell] = re.findall(r"(?ms)^```{code-cell} ipython3\n(def product_in_panels.*?)^```$", text)
    assert "helpers" not in cell
    names: dict[str, Any] = {}
    exec(compile(cell, "chapter 24", "exec"), names)
    return names["product_in_panels"]


def run_the_program(seed, monkeypatch, rows=103):
    """Wrong elements after the chapter's program has run on a pretend GPU of its own."""
    session = PretendGpu(seed)
    world, cuda = session.world, session.cupy.cuda

    def empty(shape, dtype):
        return np.full(shape, np.nan, dtype).view(DeviceArray)

    def dot(a, b, out):
        def multiply():
            out[...] = np.asarray(a, np.float64) @ np.asarray(b, np.float64)

        world.queue(multiply)

    session.cupy.empty, session.cupy.dot = empty, dot
    cuda.get_current_stream = lambda: session.stream
    monkeypatch.setitem(sys.modules, "cupy", session.cupy)
    A, B = numbers.operands("tiled_32", rows, 45, 37)
    C = np.full((rows, 45), np.nan, np.float32)
    chapters_program()(A, B, C, count=4, streams=3)
    return numbers.wrong_elements("tiled_32", A, B, C)


@pytest.mark.parametrize("rows", [103, 1, 4, 5, 100])
def test_the_program_of_the_chapter_is_right(rows, monkeypatch):
    assert [run_the_program(seed, monkeypatch, rows) for seed in range(20)] == [0] * 20


@pytest.mark.parametrize("broken", ["wait_event", "synchronize", "record"])
def test_the_program_without_one_of_its_calls_is_found_out(broken, monkeypatch):
    owner = Event if broken == "record" else Stream
    monkeypatch.setattr(owner, broken, lambda *_: None)
    assert sum(run_the_program(seed, monkeypatch) > 0 for seed in range(20)) >= 10


def test_every_call_of_the_program_is_one_of_cupys():
    """Names and keywords, against the CuPy that is installed; no GPU is asked for."""
    cupy = pytest.importorskip("cupy")
    import cupyx

    stream, event = cupy.cuda.Stream, cupy.cuda.Event
    for owner, name in ((stream, "synchronize"), (stream, "wait_event"), (stream, "__enter__"),
                        (event, "record"), (cupy.cuda, "get_current_stream"), (cupyx, "empty_pinned")):  # fmt: skip
        assert callable(getattr(owner, name))
    assert "out" in inspect.signature(cupy.dot).parameters
    docs = {name: str(getattr(cupy.ndarray, name).__doc__) for name in ("get", "set")}
    assert all(word in docs["get"] for word in ("stream", "out", "blocking"))
    assert "stream" in docs["set"]
    assert "blocked" not in docs["set"]  # a keyword that there is not


@pytest.mark.gpu
def test_every_variant_is_right_on_a_gpu():
    import cupyx

    from helpers.record.gpu import Session

    session = Session()
    for name, shape in (("tiled_32", (1000, 701, 333)), ("vectorised", (1024, 512, 256))):
        r = Runner(session, plan(catalog[name], *shape))
        for v in streams.variants(shape[0], r.plan.tile[0]):
            assert outcome(r, v) <= 1.0
            assert len(r.timeline(v, runs=1)) == 1 + 3 * v.panels
    A, B = numbers.operands("vectorised", 1000, 900, 700)
    hosts = [cupyx.empty_pinned(s, np.float32) for s in (A.shape, B.shape, (1000, 900))]
    hosts[0][...], hosts[1][...], hosts[2][...] = A, B, np.nan
    chapters_program()(*hosts, count=3, streams=3)
    assert numbers.wrong_elements("vectorised", A, B, hosts[2]) == 0


def test_the_time_line_has_every_operation_from_zero_on(kernels):
    r = runner(kernels, 1)
    for v in (streams.BASELINE, Variant("panels", "pinned", 4, 3)):
        found = r.timeline(v)
        assert [Step(o.what, o.panel, o.stream) for o in found] == list(
            streams.schedule(v.panels, v.streams)
        )
        assert min(o.start_ms for o in found) == 0.0
        assert all(o.start_ms <= o.end_ms for o in found)
        for panel in range(v.panels):
            ends = [o.end_ms for o in found if o.panel == panel and o.what != "B"]
            assert ends == sorted(ends)


def test_entries_keep_what_was_measured(kernels, tmp_path):
    session: Any = PretendGpu()
    kernels.append(session.world)
    note = {**dict.fromkeys(store.RECORDED), "date": "2026-01-01", "commit": "abc"}
    found = overlapping.entries(session, "tiled_32", (103, 45, 37), recorded=note, effort=QUICK)
    assert {streams.variant(e) for e in found} == set(streams.variants(103, 32))
    assert found[0].speedup == 1.0
    assert all(e.copy_engines == 3 and e.runs == 3 for e in found)
    assert all((e.pin_ms is None) == (e.memory == "pageable") for e in found)
    record = store.empty(tmp_path / "x.json", {"name": "X"})
    for entry in found:
        record.merge(entry)
    record.write()
    again = next(e for e in store.read(tmp_path / "x.json").of(Overlapped) if e.panels == 4)
    assert streams.operations(again)[0].what == "B"
    newer = replace(catalog["tiled_32"], min_arch="sm_99")
    with pytest.raises(ConfigError, match="sm_99"):
        overlapping.entries(session, newer, (64, 64, 64), recorded=note)


# -- the record --------------------------------------------------------------------------------


SHIPPED = load("h200").of(Overlapped, kernel="tiled_32", m=1024)


def made_up(session, kernel, size, *, recorded, **_):
    """Entries as overlapping.entries returns them: the book's, as if they were of this product."""
    about = {"kernel": kernel.name, "params": dict(kernel.params), **store.named(size)}
    own = {"source": rungs.fingerprint(kernel), "recorded": dict(recorded)}
    return [replace(entry, **about, **own) for entry in SHIPPED]


@pytest.fixture
def overlapped(gpu, monkeypatch):
    """A pretend H200 on which overlapping is measured; the calls of overlapping.entries."""
    calls: list[str] = []

    def entries(session, kernel, size, **options):
        calls.append(f"{kernel.name} {size[0]}")
        return made_up(session, kernel, size, **options)

    monkeypatch.setattr(overlapping, "entries", entries)
    monkeypatch.setattr(overlaps_section, "EDGES", (1024, 2048))
    return calls


def test_overlap_is_recorded_once_and_replayed(overlapped, monkeypatch):
    found = record(sections=("overlap",))
    assert found.refused == []
    assert overlapped == [f"{k} {n}" for n in (1024, 2048) for k in overlapping.KERNELS]
    record(sections=("overlap",))
    assert len(overlapped) == 4  # it is in the file
    small, large = (overlaps_section.seconds((n, n, n), 12) for n in (1024, 8192))
    assert large > small > 3.0
    replayed = overlap(gpu="h200")
    assert not replayed.live
    assert "NVIDIA H200" in replayed.label and "abc1234" in replayed.label
    assert {r["m"] for r in replayed.rows} == {1024, 2048}
    assert {r["kernel"] for r in overlap(["vectorised"], [1024], gpu="h200").rows} == {"vectorised"}
    with pytest.raises(DataError, match=r"tiled_32 at 1024, 2048.*--no-points --overlap"):
        overlap(["naive"], gpu="h200")
    # other code under the same name is measured again, and replaces what was there
    monkeypatch.setattr(rungs, "fingerprint", lambda k: "changed")
    assert "has changed since" in overlap(gpu="h200").label
    record(sections=("overlap",))
    assert len(overlapped) == 8
    assert len(overlap(gpu="h200").rows) == len(replayed.rows)


def test_overlap_is_measured_where_there_is_a_gpu(overlapped, monkeypatch):
    def named(session, kernel, size, **options):
        assert options.pop("effort") == overlapping.LIVE
        return made_up(session, kernel, size, **options)

    monkeypatch.setattr(overlapping, "entries", named)
    monkeypatch.setattr(sources, "_session", type("Own", (FakeSession,), {}))
    monkeypatch.setattr(device, "current", lambda: SimpleNamespace(name="H200", arch="sm_90"))
    found = overlap(["vectorised"], [512])
    assert found.live
    assert found.label.startswith("measured now on NVIDIA H200")
    assert {(r["kernel"], r["m"]) for r in found.rows} == {("vectorised", 512)}


# -- the picture -------------------------------------------------------------------------------


def drawn(**change):
    rows = streams.lanes(streams.simulate(streams.schedule(4, 3), (1,) * 4, MS), "4 panels")
    rows += streams.lanes(streams.simulate(streams.schedule(1, 1), (1,), MS), "serial")
    rows[0] |= change
    return plots.gantt(rows, source="made up.")


def test_the_picture_says_what_each_engine_does():
    figure = drawn()
    assert "4 panels: 9.5 ms" not in figure.alt
    assert "4 panels: 8 ms in all, host to device busy for 3 ms in 5 pieces" in figure.alt
    assert "serial: 11 ms in all" in figure.alt
    assert "kernel busy for 6 ms in 1 piece" in figure.alt
    assert figure.alt.endswith("Source: made up.")
    assert "made up." in figure.caption
    for words in ("host to device", "kernel", "device to host", "serial", ">B<"):
        assert words in figure.svg
    assert figure == drawn()


def test_bars_that_cannot_be_are_refused():
    with pytest.raises(DataError, match="no operation"):
        plots.gantt([])
    with pytest.raises(DataError, match="kind='coffee'"):
        drawn(kind="coffee")
    for change in ({"end_ms": -1.0}, {"start_ms": -1.0}, {"end_ms": float("nan")}):
        with pytest.raises(DataError, match="a bar begins"):
            drawn(**change)


# -- the exercises -----------------------------------------------------------------------------


def passes(name, answer):
    return exercises.check(name, answer).passed


def test_exercises_admit_what_is_right_and_refuse_what_is_not():
    assert passes("24.2", streams.panels)
    assert not passes("24.2", naive_cut)
    assert not passes("24.2", lambda rows, count, tile: [(0, rows)])
    assert not passes("24.2", lambda rows, count, tile: [(0, rows)] * count)

    def listed(count, over):
        return [(s.what, s.panel, s.stream) for s in streams.schedule(count, over)]

    assert passes("24.3", listed)
    assert not passes("24.3", lambda count, over: listed(count, 1))
    assert not passes("24.3", lambda count, over: listed(count, over)[1:])
    assert not passes("24.3", lambda count, over: listed(count, over)[::-1])
    assert not passes("24.3", lambda count, over: listed(count, 8))
