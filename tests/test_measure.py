"""The measuring protocol, the record and its replay, with a pretend GPU; the CPU loops for real."""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.__main__ import main
from helpers.ladder import kernel as kernel_room
from helpers.ladder import rungs, usage
from helpers.ladder.rungs import catalog
from helpers.page import stall_note
from helpers.record import (
    ImplausibleError,
    accuracy,
    counters,
    flags,
    host,
    known_gpus,
    ladder,
    launches,
    left_out,
    load,
    measure,
    protocol,
    skipped,
    stale,
    stalls,
    stamps,
    store,
    telemetry,
    transfers,
)
from helpers.record import counting as counter_tool
from helpers.record import gpu as gpu_room
from helpers.record.entries import LAUNCH_CASES, HostTime, Point
from helpers.record.measurement import COLUMNS
from nogpu import device, disk
from nogpu.errors import (
    ConfigError,
    DataError,
    NoGPUError,
    ToolchainError,
    UnknownKernelError,
    UnknownNameError,
)
from tools.recorder import campaign as recording
from tools.recorder import cpu_times
from tools.recorder.sections import builds as builds_section
from tools.recorder.sections import counters as counters_section
from tools.recorder.sections import left_out as left_out_section
from tools.recorder.sections import points as points_section
from tools.recorder.steps import Budget, Job, Outcome, Request

QUICK = protocol.Effort(pairs=3, max_pairs=4, seconds=0.0, warm_ms=0.0)
BOTH = ("kernel", "baseline")

# -- the protocol ------------------------------------------------------------------------------


class FakeBench:
    """A bench whose operations take the times that a function says; it notes every call."""

    def __init__(self, ms):
        self.ms, self.calls = ms, list[tuple[str, int]]()

    def sample(self, operation, repeat):
        self.calls.append((operation, repeat))
        return self.ms(operation, len(self.calls))


def steady(kernel, baseline):
    """A bench with constant times in ms."""
    return FakeBench(lambda name, _: kernel if name == "kernel" else baseline)


def test_median_quartiles_and_ratio():
    found = protocol.interleaved(steady(4.0, 1.0), BOTH, effort=QUICK)
    assert protocol.spread(found.ms["kernel"]) == protocol.Spread(4.0, 4.0, 4.0, 3)
    assert protocol.spread(found.ms["baseline"]).median == 1.0
    assert found.ratio(*BOTH) == protocol.Spread(0.25, 0.25, 0.25, 3)
    uneven = np.array([1.0, 2.0, 3.0, 4.0, 100.0])
    assert protocol.spread(uneven) == protocol.Spread(3.0, 2.0, 4.0, 5)


def test_operations_alternate_in_random_order():
    bench = steady(1.0, 1.0)
    effort = replace(QUICK, pairs=40, max_pairs=40, sample_ms=0.0)
    protocol.interleaved(bench, BOTH, effort=effort, rng=np.random.default_rng(1))
    names = [name for name, _ in bench.calls[-80:]]
    pairs = [tuple(names[i : i + 2]) for i in range(0, 80, 2)]
    assert all(set(pair) == {"kernel", "baseline"} for pair in pairs)
    assert 8 < pairs.count(("kernel", "baseline")) < 32


def test_a_paired_ratio_survives_a_falling_clock():
    """A clock that falls to half during the run doubles every time; the ratio must stay 0.5."""
    bench = FakeBench(lambda name, call: (2.0 if name == "kernel" else 1.0) * (1 + call / 80))
    effort = replace(QUICK, pairs=40, max_pairs=40, sample_ms=0.0)
    rng = np.random.default_rng(2)
    found = protocol.interleaved(bench, BOTH, effort=effort, rng=rng)
    assert found.ratio(*BOTH).median == pytest.approx(0.5, rel=0.01)
    own = protocol.spread(found.ms["kernel"])
    assert own.q3 / own.q1 > 1.2  # the times themselves did drift


def test_the_last_warm_up_decides_how_often_a_launch_is_repeated():
    """The first call holds start-up costs, and the clock rises: each round is twice as fast."""
    now = iter(np.arange(0.0, 10.0, 0.03))
    cold = {"kernel": 0.8, "baseline": 0.4}
    rounds = FakeBench(lambda name, call: cold[name] / 2 ** ((call - 1) // 2))
    effort = replace(QUICK, warm_ms=50.0)
    found = protocol.interleaved(rounds, BOTH, effort=effort, clock=lambda: float(next(now)))
    assert rounds.calls[:6] == [("kernel", 1), ("baseline", 1)] * 3  # an estimate, two rounds
    assert found.repeat == {"kernel": 1, "baseline": 2}  # 0.2 and 0.1 ms when it is warm
    assert set(rounds.calls[6:]) == {("kernel", 1), ("baseline", 2)}


@pytest.mark.parametrize("effort", [protocol.RECORD, protocol.LIVE])
def test_a_point_takes_as_many_samples_as_the_shipped_record_has(effort):
    """At most where no time passes, at least where all of it is spent, and of what is slow."""
    pairs = [p.pairs for p in load("h200").points]
    most = max(pairs) if effort is protocol.RECORD else 50
    for step, ms, count in ((0.0, 1.0, most), (9.0, 1.0, 5), (0.0, effort.slow_ms, min(pairs))):
        now = itertools.count(0.0, step)
        given = effort if step else replace(effort, warm_ms=0.0)  # else the warm-up had no end
        bench = steady(ms, 1.0)
        found = protocol.interleaved(bench, BOTH, effort=given, clock=partial(next, now))
        assert len(found.ms["kernel"]) == len(found.ms["baseline"]) == count
    assert protocol.repeats(0.0, effort) == max(p.repeat for p in load("h200").points)


def test_what_takes_as_long_as_slow_is_slow_and_is_run_no_more_than_that():
    effort = replace(QUICK, slow_ms=10.0)
    for estimate, ms, calls in ((10.0, 10.0, 3), (9.9, 10.0, 4), (9.9, 9.9, 5)):
        bench = steady(ms, 1.0)
        protocol.interleaved(bench, ["kernel"], effort=effort, estimates={"kernel": estimate})
        assert len(bench.calls) == calls


def test_an_end_that_the_clock_meets_is_an_end():
    now = iter([0.0, 0.5, 2.0, 2.5, 3.0, 9.0])
    effort = replace(QUICK, pairs=1, max_pairs=9, seconds=1.0, warm_ms=500.0)
    bench = steady(1.0, 1.0)
    found = protocol.interleaved(bench, ["kernel"], effort=effort, clock=lambda: next(now))
    assert (len(bench.calls), len(found.ms["kernel"])) == (4, 2)
    assert (found.started, found.ended) == (2.0, 9.0)


def test_a_spread_is_told_under_the_names_of_an_entry():
    spread = protocol.Spread(2.0, 1.0, 3.0, 9)
    assert protocol.fields(spread) == {"ms": 2.0, "q1": 1.0, "q3": 3.0}
    assert protocol.fields(spread, "gain", "gain_") == {"gain": 2.0, "gain_q1": 1.0, "gain_q3": 3.0}
    assert protocol.fields(None) == dict.fromkeys(("ms", "q1", "q3"))


def test_the_output_is_poisoned_after_the_warm_up_and_before_the_samples():
    bench = steady(1.0, 1.0)
    at: list[int] = []
    effort = replace(QUICK, sample_ms=0.0)
    protocol.interleaved(bench, BOTH, effort=effort, before=lambda: at.append(len(bench.calls)))
    assert at == [4]  # an estimate and a warm-up of each operation
    assert len(bench.calls) == 4 + 2 * QUICK.pairs
    assert {repeat for _, repeat in bench.calls} == {1}  # however short a sample may be


def test_impossible_rates_are_refused():
    protocol.refuse_above_peak("fine", 60_000.0, 66_908.0)
    protocol.refuse_above_peak("a rounded clock", 67_500.0, 66_908.0)
    protocol.refuse_above_peak("no peak known", 1e9, None)
    protocol.refuse_above_peak("at the slack", 1.02 * 1e4, 1e4)
    protocol.refuse_wrong(1.0, "within rounding", 0.1, "all")
    for rate in (70_000.0, math.nan, math.inf, 0.0, -1.0):
        with pytest.raises(ImplausibleError, match="measured"):
            protocol.refuse_above_peak("bad", rate, 66_908.0)


def float32_product(A, B):
    """Sums in float32, one product after the other, as a kernel adds them."""
    C = np.zeros((A.shape[0], B.shape[1]), np.float32)
    for k in range(A.shape[1]):
        C += A[:, k : k + 1] * B[k : k + 1, :]
    return C


@pytest.mark.parametrize("K", [1, 7, 64, 1000, 8192])
def test_tolerance_admits_rounding_and_finds_one_missing_product(K):
    rng = np.random.default_rng(K)
    A = rng.standard_normal((24, K), dtype=np.float32)
    B = rng.standard_normal((K, 31), dtype=np.float32)
    exact = A.astype(np.float64) @ B.astype(np.float64)
    allowed = protocol.tolerance(
        "float32", np.linalg.norm(A.astype(np.float64), axis=1), np.linalg.norm(B, axis=0)
    )
    C = float32_product(A, B)
    assert np.all(np.abs(C - exact) <= allowed)
    short = float32_product(A[:, : K - 1], B[: K - 1])
    found = np.abs(short - exact) > allowed
    assert found.mean() > 0.9  # a missing term shows, but for products that are nearly zero


def test_tolerance_grows_with_k_and_is_zero_for_integers():
    norms = [np.full(1, math.sqrt(K)) for K in (64, 4096)]
    small, large = (protocol.tolerance("float32", n, n) for n in norms)
    assert large / small == pytest.approx(64.0)
    assert protocol.tolerance("int32", norms[0], norms[0]) == 0.0
    tf32 = protocol.tolerance("float32", norms[1], norms[1], input_roundoff=2.0**-11, terms=4096)
    assert 10 * large < tf32 < 100 * large


def test_tf32_keeps_ten_bits_of_fraction():
    step = 2.0**-10
    given = np.array([1 + step / 2, 1 + 0.49 * step, -(1 + step / 2), 3.0, 0.0], np.float32)
    wanted = np.array([1 + step, 1.0, -(1 + step), 3.0, 0.0])
    assert np.array_equal(gpu_room.to_tf32(given), wanted)


def test_gflops_counts_two_operations_a_term():
    assert protocol.gflops(1024, 1024, 768, 1.0) == pytest.approx(2 * 1024 * 1024 * 768 / 1e6)


# -- a pretend GPU -----------------------------------------------------------------------------

H200 = device.LiveGpu(
    name="NVIDIA H200", arch="sm_90", sms=132, boost_mhz=1980, memory_bytes=1 << 37,
    l2_bytes=60 << 20, shared_per_block_bytes=49152, shared_per_block_optin_bytes=232448,
    shared_per_sm_bytes=233472, registers_per_block=65536, max_threads_per_sm=2048,
    max_threads_per_block=1024, max_block=(1024, 1024, 64), max_grid=(2147483647, 65535, 65535),
    memory_bus_bits=6144, memory_clock_mhz=3201, driver_cuda="13.0", runtime_cuda="13.0",
)  # fmt: skip
RATES = {"naive": 500.0, "coalesced": 6000.0, "tiled_32": 9000.0, "cublas_fp32": 50000.0}


class FakeSession:
    """What measure needs of a GPU: kernels whose rates are RATES and whose results are right.

    wrong: kernels that compute one element wrong. lost: a kernel that stops the GPU.
    """

    wrong: frozenset[str] = frozenset()
    lost = ""
    rates: dict[str, float] = RATES
    opened = 0

    def __init__(self):
        type(self).opened += 1
        self.gpu, self.bus_id = H200, None
        self.measured: list[str] = []

    def warm_up(self):
        pass

    def boost_mhz(self):
        return 1980

    def peak_gflops(self, precision):
        return device.gpu("h200").peak_gflops(precision)

    def supports(self, min_arch):
        return True

    def versions(self):
        return {
            "driver": "580.1", "cuda": "13.0", "cublas": "13.0.2", "nvrtc": "13.0", "cupy": "17.2",
        }  # fmt: skip

    @contextlib.contextmanager
    def faults(self, what):
        if self.lost and what.startswith(self.lost):
            raise gpu_room.GpuFaultError(f"{what} stopped the GPU")
        yield

    def problem(self, dtype, M, N, K):
        return SimpleNamespace(
            dtype=dtype, M=M, N=N, K=K, A="A", B="B", checked="float64, all rows"
        )

    def output(self, dtype, M, N):
        return {"M": M, "N": N}

    def poison(self, C, dtype):
        C["by"] = None

    def error(self, problem, C, *_):
        if C.get("by") is None:  # nobody wrote it: NaN everywhere
            return math.nan, math.nan
        return (1.0, 1.5) if C["by"] in self.wrong else (1e-6, 0.1)

    def _run(self, name, size, C):
        def run():
            C["by"] = name

        rate = self.rates.get(name, 20_000.0)
        run.ms = protocol.gflops(*size, 1.0) / rate
        return run

    def first_call(self, plan, A, B, C):
        self.measured.append(plan.kernel.name)
        C["by"] = plan.kernel.name
        return 120.0

    def kernel_operation(self, plan, A, B, C):
        return self._run(plan.kernel.name, (plan.M, plan.N, plan.K), C)

    def baseline_operation(self, name, A, B, C, out=""):
        return self._run(name, (C["M"], C["N"], C["M"]), C)

    def bench(self, operations):
        def ms(name, call):
            operations[name]()
            return float(operations[name].ms)

        return FakeBench(ms)

    def serial_run(self, problem, run, C):
        return {"h2d_ms": 2.0, "warm_ms": 1.0, "d2h_ms": 3.0, "total_ms": 6.0}

    def copies(self, nbytes, direction, pinned, count):
        return [nbytes / (5e7 if pinned else 1e7)] * count

    def accuracy(self, name, n):
        errors = {"max_error": 1e-4, "frobenius": 1e-6, "max_error_rounded_inputs": 1e-5}
        return {**errors, "frobenius_rounded_inputs": 1e-7}

    def build_operation(self, plan, source, options, A, B, C):
        return self._run(plan.kernel.name, (plan.M, plan.N, plan.K), C)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A pretend H200 and an empty folder for records."""

    class Session(FakeSession):
        pass

    folder = tmp_path / "measurements"
    monkeypatch.setattr(store, "FOLDER", folder)
    monkeypatch.setattr(protocol, "RECORD", QUICK)
    monkeypatch.setattr(recording, "RecordingSession", Session)
    monkeypatch.setattr(recording, "require_gpu", lambda: H200)
    monkeypatch.setattr(stamps, "query", lambda *_: None)
    monkeypatch.setattr(telemetry, "shutil", SimpleNamespace(which=lambda *_: None))
    yield Session


def quiet(_):
    """Progress lines nobody reads."""


def rewrite(section, change):
    """Write the record anew with other entries in a section."""
    record = store.read(store.FOLDER / "h200.json")
    record.data[section] = change(record.data[section])
    record.write()


def of_old(entries):
    """Entries as another code's."""
    return [replace(entry, source="of old") for entry in entries]


def record(**request):
    """Record with defaults that keep tests short."""
    wanted = {"kernels": ("naive", "tiled_32", "cublas_fp32"), "sections": ("points",), **request}
    if "points" in wanted["sections"]:
        wanted = {"sizes": ((64, 64, 64),), **wanted}
    return recording.run(Request(commit="abc1234", **wanted), quiet)


# -- recording ---------------------------------------------------------------------------------


def test_a_record_holds_what_was_measured(gpu):
    outcome = record(sizes=((64, 64, 64), (1024, 1024, 1024)))
    assert (outcome.measured, outcome.refused, outcome.left) == (6, [], [])
    found = load("h200")
    assert found.gpu["name"] == "NVIDIA H200"
    [point] = found.find("points", kernel="naive", m=1024)
    assert point["gflops"] == pytest.approx(500.0, rel=1e-4)
    assert point["cublas_ratio"] == pytest.approx(0.01, rel=1e-4)
    assert point["baseline"] == "cublas_fp32"
    assert point["params"] == dict(catalog["naive"].params)
    assert point["source"] == rungs.fingerprint("naive")
    assert point["clock_mhz"] is None
    assert "nvidia-smi" in point["clock_note"]
    assert set(store.RECORDED) <= set(point["recorded"])
    assert point["recorded"]["commit"] == "abc1234"
    [itself] = found.find("points", kernel="cublas_fp32", m=1024)
    assert itself["cublas_ratio"] == pytest.approx(1.0)


def test_a_second_run_goes_on_where_the_first_stopped(gpu, monkeypatch):
    record(kernels=("naive",))
    outcome = record(kernels=("naive", "tiled_32"))
    assert (outcome.measured, outcome.present) == (1, 1)
    assert record(again=True).measured == 3
    # other code under the same name is measured again
    monkeypatch.setattr(rungs, "fingerprint", lambda k: "changed")
    assert record().measured == 2
    assert len(load("h200").points) == 3  # replaced, not appended


def test_every_point_is_on_disk_before_the_next_begins(gpu, monkeypatch):
    gpu.lost = "tiled_32"
    with pytest.raises(gpu_room.GpuFaultError, match="tiled_32"):
        record()
    found = load("h200")
    assert [p["kernel"] for p in found.points] == ["cublas_fp32", "naive"]
    assert "stopped the GPU" in found.skipped[0]["reason"]


def test_a_wrong_kernel_is_refused_and_the_others_go_on(gpu):
    gpu.wrong = frozenset({"naive"})
    outcome = record()
    assert outcome.measured == 2
    assert "wrong result" in outcome.refused[0]
    assert not load("h200").find("points", kernel="naive")
    assert "wrong result" in load("h200").find("skipped", kernel="naive")[0]["reason"]
    gpu.wrong = frozenset()
    assert record().measured == 1  # repaired: measured, and the note is gone
    assert not load("h200").skipped


def test_integers_have_no_baseline(gpu):
    record(kernels=("coalesced_int",))
    [point] = load("h200").points
    assert (point["baseline"], point["cublas_ratio"], point["baseline_ms"]) == ("none", None, None)


def test_slow_kernels_may_be_left_out_and_it_is_said(gpu):
    record(sizes=((64, 64, 64), (128, 128, 128)), skip_above={"naive": 64})
    assert [p["m"] for p in load("h200").find("points", kernel="naive")] == [64]
    assert skipped("h200", 128) == ["naive: slow: not measured above 64"]


def test_a_budget_knows_what_a_point_costs():
    budget = Budget(0.0, 10.0, clock=lambda: 4.0)
    assert budget.allows(6.0)
    assert not budget.allows(6.1)
    budget.learn("naive", 500.0)
    slow, fast = (budget.guess("naive", (n, n, n)) for n in (8192, 512))
    assert slow > 6 * 2.2  # each of its runs takes 2.2 s
    assert fast < 1.0


def test_a_size_that_a_rule_forbids_is_left_out_with_the_rule(gpu):
    illegal = ((2**22, 1, 1),)  # more rows of blocks than a grid has
    outcome = record(kernels=("tiled_32",), sizes=illegal)
    assert (outcome.measured, outcome.illegal, outcome.refused) == (0, 1, [])
    assert "breaks the rule" in load("h200").skipped[0]["reason"]


def test_copies_accuracy_and_builds(gpu):
    record(sections=("transfers", "accuracy", "flags"))
    assert {(t["direction"], t["memory"]) for t in transfers()} == {
        ("h2d", "pageable"), ("h2d", "pinned"), ("d2h", "pageable"), ("d2h", "pinned"),
    }  # fmt: skip
    assert {t["gbs"] for t in transfers()} == {10.0, 50.0}
    assert {e["kernel"] for e in accuracy()} == set(gpu_room.BASELINES)
    built = flags()
    assert {row["build"] for row in built.rows} == set(builds_section.BUILDS)
    assert "NVIDIA H200" in built.label


def test_what_a_launch_costs_is_a_time_of_the_host_divided_by_its_products(gpu):
    """Each way in batches that a queue holds, the first batch left out; older code does not."""
    runs: list[tuple[str, int, int]] = []

    def ways(self, plan, A, B, C):
        def ask(way):
            C["by"] = plan.kernel.name if way != "matmul" else C.get("by")
            return way

        products = {"matmul": 1, "bound": 1, "graph": 20}
        return {way: (partial(ask, way), count) for way, count in products.items()}

    def host_times(self, ask, calls, batches):
        runs.append((ask(), calls, batches))
        return [9.0] + [calls * 4e-6 + 1e-7 * i for i in range(batches - 1)]

    gpu.ways_to_launch, gpu.host_times = ways, host_times
    assert record(sections=("launches",), kernels=()).refused == []
    assert set(runs) == {("matmul", 100, 21), ("bound", 100, 21), ("graph", 5, 21)}
    entries = {(e["kernel"], e["m"], e["way"]): e for e in launches().rows}
    assert len(entries) == 3 * len(LAUNCH_CASES)
    assert entries["vectorised", 512, "bound"]["us"] == pytest.approx(4.0, rel=0.01)
    assert entries["hopper_5", 509, "graph"]["us"] == pytest.approx(0.2, rel=0.1)
    assert entries["hopper_5", 509, "graph"]["launches"] == 2000
    assert "NVIDIA H200" in launches().label
    runs.clear()
    record(sections=("launches",), kernels=())
    assert not runs  # all of it is there
    gpu.wrong = frozenset({"vectorised"})
    outcome = record(sections=("launches",), kernels=("vectorised",), again=True)
    assert "wrong result" in outcome.refused[0]
    rewrite("launches", of_old)
    assert launches().rows == ()
    runs.clear()
    gpu.wrong = frozenset()
    record(sections=("launches",), kernels=())
    assert runs


def test_parts_are_left_out_one_at_a_time(gpu):
    """Each build beside the whole kernel, in the same rounds; one of older code counts no more."""
    gpu.rates = {**RATES, "warp_tiled without ZEROS_ADDED": RATES.get("warp_tiled", 20_000.0) / 2}
    assert record(sections=("left_out",)).refused == []
    share = {row["without"]: row["share"] for row in left_out("warp_tiled").rows}
    assert set(share) == set(left_out_section.BUILDS)
    assert share["added zeros"] == pytest.approx(0.5) and share["all"] == 1
    assert share["back and forth"] == pytest.approx(1)
    rewrite("left_out", of_old)
    with pytest.raises(DataError, match="--left-out"):
        left_out("warp_tiled")
    record(sections=("left_out",))
    assert len(left_out("warp_tiled").rows) == len(left_out("fp32_best").rows) == 6


def test_what_is_left_out_changes_the_program():
    builds = left_out_section.plans("warp_tiled")
    cubins = {usage.compile_launch(p, "sm_90").cubin for p in builds.values()}
    assert len(cubins) == len(left_out_section.BUILDS)
    with pytest.raises(ConfigError, match="double_buffer has no macro 'ZEROS_ADDED'"):
        rungs.without("double_buffer", "ZEROS_ADDED")
    with pytest.raises(ConfigError, match="no macro 'BM'"):
        rungs.without("warp_tiled", "BM")


def test_pragmas_go_before_the_loop():
    source = catalog["tiled_32"].source
    text = builds_section.with_pragma(source, "#pragma unroll 1")
    assert "#pragma unroll 1\nfor (int k = 0;" in text
    assert builds_section.with_pragma(source, None) == source
    own = catalog["coalesced"].source  # its loop has a pragma of its own, which is replaced
    assert own.count("#pragma unroll") == 1
    text = builds_section.with_pragma(own, "#pragma unroll 1")
    assert text.count("#pragma unroll") == text.count("#pragma unroll 1\nfor (int k = 0;") == 1
    with pytest.raises(ConfigError, match="no loop"):
        builds_section.with_pragma("int x;", "#pragma unroll")


def test_records_are_not_mixed_up(gpu, tmp_path):
    with pytest.raises(ConfigError, match="lower-case"):
        record(gpu="../h200")
    store.empty(tmp_path / "t4.json", {"name": "Tesla T4"}).write()
    with pytest.raises(ConfigError, match="give another file"):
        record(out=tmp_path / "t4.json")
    assert stamps.slug("NVIDIA RTX A6000") == "rtx_a6000"


def test_a_damaged_file_is_not_written_over(gpu):
    path = store.FOLDER / "h200.json"
    path.parent.mkdir()
    path.write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="damaged"):
        record()
    assert path.read_text(encoding="utf-8") == "{"
    assert gpu.opened == 0


def test_no_gpu_no_record(tmp_path, monkeypatch):
    monkeypatch.setattr(device, "current", lambda: None)
    out = tmp_path / "h200.json"
    with pytest.raises(NoGPUError, match="ladder --gpu h200"):
        recording.run(Request(("points",), out=out), quiet)
    with pytest.raises(NoGPUError, match="none answers"):
        gpu_room.Session()
    assert list(tmp_path.iterdir()) == []


def test_the_commit_comes_from_the_caller_the_environment_or_git(monkeypatch):
    monkeypatch.setenv("TILE_COMMIT", "fromenv")
    assert stamps.commit("given") == "given"
    assert stamps.commit() == "fromenv"
    monkeypatch.delenv("TILE_COMMIT")
    assert stamps.commit()


def test_fingerprints_see_code_and_not_comments(monkeypatch):
    k = catalog["tiled_32"]

    known, read = rungs.fingerprint(k), kernel_room.read_source

    def edited(text):
        """The fingerprint when the kernel's file holds this text."""
        with monkeypatch.context() as patch:
            patch.setattr(kernel_room, "read_source", lambda p: text if p == k.path else read(p))
            return rungs.fingerprint(k)

    assert edited(k.source) == known
    assert edited("// a remark\n" + k.source + "\n\n/* more */") == known
    assert edited(k.source.replace("sum +=", "sum -=")) != known
    assert rungs.fingerprint(k.with_source(k.source)) != known  # a reader's own
    assert rungs.fingerprint("naive") != rungs.fingerprint("naive_int")


# -- the file ----------------------------------------------------------------------------------


def test_writing_is_whole_or_not_at_all(gpu, monkeypatch):
    path = record().path
    before = path.read_bytes()
    record_ = store.read(path)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(disk.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        record_.write()
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["h200.json"]


def test_an_unknown_gpu_lists_the_known_ones(gpu):
    with pytest.raises(UnknownNameError, match="no measurement file at all"):
        load("h200")
    record()
    assert known_gpus() == ["h200"]
    with pytest.raises(UnknownNameError, match="h200"):
        load("h20")
    with pytest.raises(UnknownNameError, match="h200"):
        load("../measurements/h200")


# -- replay ------------------------------------------------------------------------------------


@pytest.fixture
def recorded(gpu):
    """A small record to replay."""
    record(sizes=((64, 64, 64), (1024, 1024, 1024), (96, 64, 32)))
    return gpu


def test_replay(recorded):
    m = measure(["naive", "tiled_32"], [64, 1024], gpu="h200")
    assert not m.live
    assert (m.gpu, m.key, m.missing) == ("NVIDIA H200", "h200", ())
    assert m.kernels() == ("naive", "tiled_32")
    assert m.value("naive", 1024, "gflops") == pytest.approx(500.0, rel=1e-4)
    assert m.value(catalog["tiled_32"], (64, 64, 64)) > 0
    assert m.value("naive", 1024, "h2d_ms") == 2.0
    assert math.isnan(m.value("naive", 1024, "clock_mhz"))
    for part in (
        "recorded on NVIDIA H200", "driver 580.1", "CUDA 13.0", "cuBLAS 13.0.2", "abc1234",
    ):  # fmt: skip
        assert part in m.label
    assert tuple(m.frame.columns) == COLUMNS
    assert "<th></th>" not in m.frame.to_html(), "a header cell without a word is no header"
    assert list(m.frame["m"]) == [64, 1024, 64, 1024]
    assert measure("naive", (96, 64, 32), gpu="h200").rows[0]["k"] == 32


def test_what_was_not_measured_is_said(recorded):
    m = measure(["naive", "coalesced"], [64, 128], gpu="h200")
    assert len(m.rows) == 4
    assert len(m.missing) == 3
    assert math.isnan(m.frame["ms"].iloc[1])
    with pytest.raises(DataError, match=r"naive at 96x64x32, 64, 1024.*record --gpu h200"):
        measure("coalesced", 128, gpu="h200")
    with pytest.raises(ConfigError, match="'cublas_ratio'"):
        m.value("naive", 64, "cublas_ratios")
    with pytest.raises(DataError, match="TILE=16"):
        measure("tiled_32", 64, gpu="h200", TILE=16)


def test_bad_requests(recorded):
    with pytest.raises(UnknownKernelError, match="tiled_32"):
        measure("tiled_23", 64, gpu="h200")
    for size in (0, -1, (64, 64), (64, 64, 0), True):
        with pytest.raises(ConfigError, match="size"):
            measure("naive", size, gpu="h200")
    with pytest.raises(ConfigError, match="at least one"):
        measure([], 64, gpu="h200")
    with pytest.raises(ConfigError, match="TILE"):
        measure("naive", 64, gpu="h200", TILE=8)


def test_times_of_other_code_are_known_as_stale(recorded, monkeypatch):
    assert stale("h200") == []
    [first, old, *others] = load("h200").of(Point)
    old = replace(old, source="of old")
    rewrite("points", lambda _: [first, old, *others, replace(old, kernel="gone")])
    gone = "gone: not in the catalog any more"
    assert stale("h200") == ["naive at 96x64x32: code has changed", gone]
    assert "code of naive has changed since" in measure("naive", (96, 64, 32), gpu="h200").label
    newer = replace(old, source=rungs.fingerprint("naive"), params={"BLOCK": 32})
    rewrite("points", lambda _: [first, old, *others, newer])  # of another tile, beside it
    assert stale("h200") == []
    assert "changed" not in measure("naive", 64, gpu="h200").label


def test_labels_name_every_date_and_commit():
    note = dict.fromkeys(store.RECORDED)
    entries = [
        {"recorded": {**note, "date": "2026-01-02", "commit": "b", "cuda": "13.0"}},
        {"recorded": {**note, "date": "2026-01-01", "commit": "a", "cuda": "13.8"}},
    ]
    text = store.label("X", entries)
    assert text == "recorded on X, 2026-01-01 to 2026-01-02, CUDA 13.0, commits b, a"
    assert store.label("X", []) == "nothing recorded on X yet"
    same = [{"recorded": {**note, "date": "2026-01-01", "commit": c}} for c in "abca"]
    assert store.label("X", same) == "recorded on X, 2026-01-01, commits a, b, c"
    assert store.label("X", same[:1], "run on") == "run on X, 2026-01-01, commit a"
    more = [*same, {"recorded": {**note, "date": "2026-01-01", "commit": "d"}}]
    assert store.label("X", more).endswith("commits a, b, c and others")


# -- counters ----------------------------------------------------------------------------------

NCU = """==PROF== Connected to process 12
==PROF== Profiling "naive" - 0: 0%....50%....100% - 2 passes
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
{rows}
==PROF== Disconnected from process 12
"""


def ncu_output(kernels, leave_out=""):
    rows = [
        f'"{i}","12","python3","host","{name}(const float *, int)","1","7","(32, 32, 1)","(2, 2,'
        f' 1)","0","9.0","Command line profiler metrics","{metric}","","{1000 * i + j:,}"'
        for i, name in enumerate(kernels)
        for j, metric in enumerate(counter_tool.METRICS.values())
        if metric != leave_out
    ]
    return NCU.replace("{rows}", "\n".join(rows))


JOBS = [counter_tool.Job("naive", 64, 64, 64), counter_tool.Job("tiled_32", 64, 64, 64)]


def test_counters_are_read_from_ncu():
    launches = counter_tool.parse(ncu_output(["naive", "tiled"]))
    assert [name for name, _ in launches] == ["naive", "tiled"]
    first, second = counter_tool.assign(JOBS, launches)
    assert first["global_load_requests"] == 0.0
    assert second["global_load_sectors"] == 1001.0  # "1,001"
    assert set(first) == set(counter_tool.METRICS)


def test_counters_that_do_not_fit_the_launches_are_refused():
    with pytest.raises(DataError, match="cannot be told apart"):
        counter_tool.assign(JOBS, counter_tool.parse(ncu_output(["tiled", "naive"])))
    with pytest.raises(DataError, match="profiled 1 launches"):
        counter_tool.assign(JOBS, counter_tool.parse(ncu_output(["naive"])))
    lacking = ncu_output(["naive", "tiled"], counter_tool.METRICS["dram_read_bytes"])
    with pytest.raises(DataError, match="dram_read_bytes"):
        counter_tool.assign(JOBS, counter_tool.parse(lacking))
    with pytest.raises(DataError, match="no table"):
        counter_tool.parse("==ERROR== LibraryNotLoaded")


def test_ncu_is_asked_for_our_kernels_only_and_leaves_the_clocks_alone():
    line = counter_tool.command(JOBS, Path("jobs.json"), ["a", "b"], "ncu")
    assert line[line.index("--clock-control") + 1] == "none"
    assert line[line.index("--kernel-name") + 1] == "regex:^(naive|tiled)$"
    assert line[line.index("--metrics") + 1] == "a,b"
    assert line[-2:] == ["tools.recorder.launcher", "jobs.json"]


def pretend_ncu(monkeypatch, counts, wanted=None):
    """A pretend ncu that counts so of each job, and nothing but what is wanted; its jobs so far."""
    given: list[counter_tool.Job] = []

    def count(jobs, what=None):
        assert wanted is None or what is wanted
        given.extend(jobs)
        return [counts(job) for job in jobs]

    monkeypatch.setattr(counter_tool, "count", count)
    monkeypatch.setattr(counter_tool, "tool_path", lambda: "ncu")
    monkeypatch.setattr(counter_tool, "version", lambda _: "2025.3")
    return given


def rows_of(job):
    """Every counter is the number of rows."""
    return dict.fromkeys(counter_tool.METRICS, float(job.M))


def test_counters_are_recorded_and_replayed(gpu, monkeypatch):
    pretend_ncu(monkeypatch, rows_of)
    record(sections=("counters",))
    [entry] = load("h200").find("counters", kernel="tiled_32", m=64)
    assert entry["values"]["instructions"] == 64.0
    assert entry["recorded"]["ncu"] == "2025.3"
    [row] = counters("tiled_32")
    assert (row["m"], row["load_sectors_per_request"]) == (1024, 1.0)
    assert counters("tiled_32", 64)[0]["instructions"] == 64.0


def test_only_counters_that_the_file_lacks_are_counted(gpu, monkeypatch):
    given = pretend_ncu(monkeypatch, rows_of)
    wanted = {"sections": ("counters",), "kernels": ("naive", "tiled_32")}
    first = record(**wanted, sizes=((64, 64, 64),))
    before = (first.path).read_text(encoding="utf-8")
    given.clear()
    record(**wanted, sizes=((64, 64, 64), (65, 33, 17)))
    assert [(j.kernel, j.M) for j in given] == [("naive", 65), ("tiled_32", 65)]
    kept = [line for line in before.splitlines() if '"values"' in line]
    after = first.path.read_text(encoding="utf-8")
    assert all(line.rstrip(",") in after for line in kept)
    given.clear()
    record(**wanted, sizes=((64, 64, 64), (65, 33, 17)))
    assert given == []


def test_counters_are_counted_in_batches_that_stand_alone(gpu, monkeypatch):
    given = pretend_ncu(monkeypatch, rows_of)
    monkeypatch.setattr(counters_section, "BATCH", 3)
    good = counter_tool.count

    def fail(jobs, **_):
        if any(job.kernel == "coalesced" for job in jobs):
            raise ToolchainError("ncu failed")
        return good(jobs)

    monkeypatch.setattr(counter_tool, "count", fail)
    kernels = ("naive", "coalesced", "tiled_32", "hopper_1")
    shapes = ((64, 64, 64), (65, 33, 17), (96, 96, 96))
    outcome = record(sections=("counters",), kernels=kernels, sizes=shapes)
    [refusal] = outcome.refused
    assert refusal.startswith("counters of ") and refusal.endswith(": ncu failed")
    assert {e["kernel"] for e in load("h200").counters} == {"naive", "tiled_32", "hopper_1"}
    # a TMA kernel runs last
    assert [j.M for j in given if j.kernel == "hopper_1"] == [64, 65, 96]
    assert given[-1].kernel == "hopper_1"


def job(request, record=None):
    """What a section is given on a GPU that runs everything, with this record or an empty one."""
    record = record or store.empty(Path("x.json"), {})
    return Job(request, record, "sm_90", lambda _: True, Budget(0.0, None), Outcome(record.path))


def test_every_kernel_is_counted_at_five_shapes_and_two_of_them_ragged():
    jobs = counters_section.counter_jobs(job(Request(("counters",))))
    assert {job.kernel for job in jobs} == set(catalog)
    for name in catalog:
        shapes = [(j.M, j.N, j.K) for j in jobs if j.kernel == name]
        assert len(shapes) >= 5
        ragged = [s for s in shapes if any(n % 32 for n in s)]
        assert len(ragged) >= 2 or name == "tiled_padded"  # it takes whole tiles alone


def test_a_plain_record_finishes_what_was_begun_and_no_more(gpu, monkeypatch):
    record(sections=("accuracy",))
    rewrite("accuracy", lambda entries: entries[:3])
    record(finish=True)
    found = load("h200")
    assert {e["kernel"] for e in found.accuracy} == set(gpu_room.BASELINES)
    assert not (found.flags or found.transfers or found.counters)


def test_the_plan_is_what_is_then_recorded(gpu):
    wanted = {"kernels": ("naive", "tiled_32", "cublas_fp32"), "sizes": ((64, 64, 64),)}
    record(kernels=("naive",))
    request = Request(("points", "accuracy"), **wanted, gpu="h200")
    steps = recording.planned(request)
    names = [what for what, _ in steps]
    assert names[:2] == ["cublas_fp32 at 64x64x64", "tiled_32 at 64x64x64"]
    assert sum(name.startswith("accuracy") for name in names) == 2 * len(gpu_room.BASELINES)
    assert all(seconds > 0 for _, seconds in steps)
    record(sections=("points", "accuracy"))
    assert recording.planned(request) == []


def test_another_file_goes_on_from_the_gpus_own_record(gpu, tmp_path):
    record(kernels=("naive",))
    own = (store.FOLDER / "h200.json").read_bytes()
    outcome = record(out=tmp_path / "copy.json")
    assert (outcome.measured, outcome.present) == (2, 1)
    assert len(store.read(tmp_path / "copy.json").of(Point)) == 3
    assert (store.FOLDER / "h200.json").read_bytes() == own


def test_what_was_left_out_as_slow_stays_so_unless_it_is_named(gpu):
    sizes = ((128, 128, 128),)
    record(sizes=sizes, kernels=("naive",), skip_above={"naive": 64})

    def left(**options):
        request = Request(("points",), sizes=sizes, **options)
        return {name for name, *_ in points_section.todo(job(request, load("h200")))}

    assert "naive" not in left()
    assert "coalesced" in left()
    assert left(kernels=("naive",)) == {"naive"}
    assert "naive" in left(again=True)


def test_each_thread_uses_its_own_cublas():
    """CuPy ends a thread's handle with the thread: one that is kept fails in the next."""
    session = object.__new__(gpu_room.Session)
    handles = SimpleNamespace(get_cublas_handle=threading.get_ident)
    session.cupy = SimpleNamespace(cuda=SimpleNamespace(device=handles))
    found = [session._handle]
    other = threading.Thread(target=lambda: found.append(session._handle))
    other.start()
    other.join()
    assert found == [threading.get_ident(), other.ident]


def test_counters_are_counted_at_the_sizes_that_were_asked_for(capsys):
    line = ["record", "--gpu", "h200", "--no-points", "--counters", "--again", "--plan"]
    assert main([*line, "--kernels", "naive,tiled_32", "--sizes", "1024,1025"]) == 0
    assert "counters of 4 launches (naive, tiled_32)" in capsys.readouterr().out
    assert main([*line, "--kernels", "naive"]) == 0
    assert f"counters of {len(counters_section.SHAPES)} launches" in capsys.readouterr().out


# -- what warps wait for -----------------------------------------------------------------------

PRETEND_NCU = """#!/bin/sh
# Refuses two metrics by name, as ncu does, and counts the others.
case "$*" in *stalled_gmma_per*|*pipe_tensor_cycles*)
  echo "==ERROR== Failed to find metric smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio"
  echo "==ERROR== Failed to find metric sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
  exit 9;; esac
echo '"ID","Kernel Name","Metric Name","Metric Value"'
for m in $(echo "$6" | tr ',' ' '); do printf '"0","naive(float)","%s","2"\\n' "$m"; done
"""


def test_counters_that_ncu_refuses_by_name_are_left_out_and_no_others(tmp_path, monkeypatch):
    tool = tmp_path / "ncu"
    tool.write_text(PRETEND_NCU)
    tool.chmod(0o755)
    monkeypatch.setattr(counter_tool, "tool_path", lambda: str(tool))
    [found] = counter_tool.count(JOBS[:1], what=counter_tool.WAITING)
    everything = {**counter_tool.ISSUE, **counter_tool.STALLS}
    assert set(found) == set(everything) - {"gmma", "tensor_percent"}
    tool.write_text("#!/bin/sh\necho nothing that we know\nexit 1\n")
    with pytest.raises(ToolchainError, match="nothing that we know"):
        counter_tool.count(JOBS[:1], what=counter_tool.WAITING)


def test_stalls_are_recorded_as_shares_of_a_warps_time(gpu, monkeypatch):
    waits = {"long_scoreboard": 3.0, "barrier": 0.5, "imc_miss": 0.5}
    busy = {"issue_percent": 40.0, "shared_percent": 55.5, "warps": 2.0}
    pretend_ncu(monkeypatch, lambda _: {**busy, **waits}, counter_tool.WAITING)
    record(kernels=("naive",))
    assert stalls("naive") == [] and stall_note(["naive"]) is None
    record(sections=("stalls",), kernels=("naive", "tiled_32"))
    [row] = stalls("naive")
    assert (row["m"], row["issue_percent"]) == (4096, 40.0)
    # One warp issues in 40 of 100 clocks, of two: 20 % of a warp's time; three wait meanwhile.
    assert row["waits"]["issues"] == 20.0
    assert row["waits"]["long_scoreboard"] == pytest.approx(60.0)
    assert sum(row["waits"].values()) == pytest.approx(100.0)
    shown = repr(stall_note(["naive", "tiled_32", "tiled_8"]))
    assert "data from global memory or L1" in shown and "60.0" in shown
    assert "data pipe of L1 and shared memory" in shown and "55.5" in shown
    assert "Tensor Cores" not in shown  # nobody waits for them, nor has their clocks
    assert "FMA pipe" not in shown  # it was not read
    assert "tiled_8" not in shown
    rewrite("stalls", lambda old: [*of_old(old[:1]), *old[1:]])
    assert [r["kernel"] for r in stalls(["naive", "tiled_32"])] == ["tiled_32"]


# -- telemetry ---------------------------------------------------------------------------------


def test_clock_and_power_are_medians_over_the_samples():
    log = telemetry.Telemetry()
    log._reason = None
    for at, line in enumerate(["1980, 120.5", "1950, 600", "1945, 610", "1940, 620", "[N/A], 100"]):
        log.feed(line, float(at))
    log.feed("garbage", 2.0)
    assert log.between(1.0, 3.0) == telemetry.Reading(1945.0, 610.0, None)
    assert log.between(3.9, 4.1).clock_mhz is None
    assert log.between(3.1, 3.2) == telemetry.Reading(1940.0, 620.0, None)  # the nearest one
    assert "no sample" in str(log.between(50.0, 51.0).reason)


def test_where_there_is_no_nvidia_smi_the_reason_is_kept(monkeypatch):
    monkeypatch.setattr(telemetry, "shutil", SimpleNamespace(which=lambda *_: None))
    with telemetry.Telemetry() as log:
        reason = "nvidia-smi is not on the PATH"
        assert log.between(0.0, 1.0) == telemetry.Reading(None, None, reason)
    assert telemetry.query("name") is None


# -- the CPU -----------------------------------------------------------------------------------

needs_compiler = pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")


@needs_compiler
@pytest.mark.parametrize("order", host.ORDERS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 7, 3), (13, 1, 29), (31, 33, 17), (64, 65, 66)])
def test_cpu_loops_are_right_for_any_shape(order, shape):
    m, n, k = shape
    rng = np.random.default_rng(0)
    A = rng.integers(-9, 10, (m, k)).astype(np.float32)
    B = rng.integers(-9, 10, (k, n)).astype(np.float32)
    wanted = A.astype(np.float64) @ B.astype(np.float64)
    C = np.full((m, n), np.nan, np.float32)
    host._function(order, (host.OPTIMISED,))(A, B, C, m, n, k)
    assert np.array_equal(C, wanted)  # integers: exact in any order


@needs_compiler
def test_cpu_times_are_measured_where_there_is_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    host._function.cache_clear()
    times = host.cpu_loops((40, 30, 20), unoptimised=True)
    assert times.live
    assert [row["kernel"] for row in times.rows] == [
        "ijk", "ikj", "jki", "ijk_unoptimised", "numpy",
    ]  # fmt: skip
    assert all(row["q1"] <= row["ms"] <= row["q3"] for row in times.rows)
    assert times.value("ikj", "gflops") > 0
    assert "one core" in times.label
    made = list((tmp_path / "tile-by-tile").glob("*.so"))
    assert len(made) == 2  # -O3 and -O0, nothing half-made
    with pytest.raises(DataError, match="ikj"):
        times.value("kij")
    with pytest.raises(ConfigError, match="size"):
        host.cpu_loops((1, 2))


def test_cpu_times_are_replayed_where_there_is_no_compiler(gpu, monkeypatch):
    record()
    row = {"ms": 1.0, "q1": 1.0, "q3": 1.0, "runs": 3, "gflops": 2.0}
    note = {**dict.fromkeys(store.RECORDED), "date": "2026-01-01", "commit": "abc", "numpy": "2.5"}
    about = {"m": 256, "n": 256, "k": 256, "cpu": "Some CPU", "threads": 1, "compiler": "g++ 13"}
    names = cpu_times.KERNEL_NAMES
    times = [HostTime(kernel=name, **about, **row, recorded=note) for name in names]
    rewrite("host", lambda _: times)
    monkeypatch.setattr(host, "compiler", lambda: None)
    times = host.cpu_loops(256)
    assert not times.live
    assert "recorded on Some CPU" in times.label
    assert [r["kernel"] for r in times.rows] == ["ijk", "ikj", "jki", "numpy"]
    assert times.value("numpy", "gflops") == pytest.approx(protocol.gflops(256, 256, 256, 1.0))
    with pytest.raises(DataError, match="256x256x256"):
        host.cpu_loops(300)
    with pytest.raises(ToolchainError, match="apt install"):
        host.build()


def test_nothing_is_measured_where_replay_is_asked_for(monkeypatch):
    monkeypatch.setattr(host, "compiler", lambda: "a compiler")
    monkeypatch.setattr(host, "compiler_version", lambda _: "1")
    monkeypatch.setattr(host, "_time_loops", lambda *_: [])
    monkeypatch.setattr(host, "_time_numpy", lambda _: {})
    assert host.cpu_loops(512).live
    monkeypatch.setenv("TILE_REPLAY", "1")
    assert not host.cpu_loops(512).live
    with pytest.raises(ConfigError, match="unset it"):
        cpu_times.record_host(Path("any.json"), "abc", say=quiet)


@pytest.mark.parametrize(("answer", "found"), [("echo clang 17", True), ("exit 1", False)])
def test_a_compiler_that_does_not_answer_is_none(answer, found, monkeypatch, tmp_path):
    """As /usr/bin/g++ on a Mac without the command line tools."""
    stub = tmp_path / "g++"
    stub.write_text(f"#!/bin/sh\n{answer}\n", encoding="utf-8")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert host.compiler() == (str(stub) if found else None)
    assert host.compiler_version(str(stub)) == ("clang 17" if found else "g++")


@needs_compiler
def test_cpu_times_are_recorded(gpu):
    path = record().path
    assert cpu_times.record_host(path, "abc", sizes=[(20, 20, 20)], say=quiet) == 1
    assert {e["kernel"] for e in load("h200").host} == set(cpu_times.KERNEL_NAMES)
    assert cpu_times.record_host(path, "abc", sizes=[(20, 20, 20)], say=quiet) == 0
    assert not host.cpu_loops(20, gpu="h200").live
    with pytest.raises(DataError, match="does not exist"):
        cpu_times.record_host(path.with_name("none.json"), "abc", say=quiet)


# -- the record that the book ships ------------------------------------------------------------


def test_the_shipped_record_has_every_size_of_the_first_climb():
    names = ["naive", "coalesced", "coalesced_int", "tiled_8", "tiled_16", "tiled_32"]
    sizes = [512, 1024, 1025, 2048, 4096, 8192]
    m = measure(names, sizes, gpu="h200")
    assert m.missing == ()
    assert measure("cublas_fp32", sizes, gpu="h200").missing == ()
    assert all(row["q1"] <= row["ms"] <= row["q3"] for row in m.rows)
    assert all(row["total_ms"] > row["h2d_ms"] + row["d2h_ms"] for row in m.rows)


def test_the_shipped_ladder_stands_where_the_book_says():
    rows = {row["kernel"]: row for row in ladder("h200", 4096)}
    assert rows["coalesced"]["cublas_ratio"] >= 0.12
    assert rows["tiled_32"]["cublas_ratio"] >= 0.175
    assert rows["cublas_fp32"]["cublas_ratio"] == pytest.approx(1.0, abs=0.02)
    assert rows["naive"]["gflops"] < rows["coalesced"]["gflops"] < rows["tiled_32"]["gflops"]


# -- with a GPU --------------------------------------------------------------------------------


@pytest.mark.gpu
def test_a_live_measurement():
    m = measure(["coalesced", "tiled_16"], [256, (129, 65, 33)])
    assert m.live
    assert "measured now on" in m.label
    assert m.missing == ()
    assert all(row["ms"] > 0 and row["cublas_ratio"] > 0 for row in m.rows)


@pytest.mark.gpu
def test_a_kernel_that_leaves_a_term_out_is_refused_on_the_gpu():
    k = catalog["coalesced"]
    k = k.with_source(k.source.replace("k < K;", "k < K - 1;"))
    assert k.source != catalog["coalesced"].source
    with pytest.raises(ImplausibleError, match="wrong result"):
        measure(k, 512)
