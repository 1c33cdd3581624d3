"""Times of a class's kernels, no part of points; NumPy and a clock stand for CuPy and the GPU."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from classes import course_of, hand_in, table

from helpers.ladder import launch
from helpers.record import gpu as measuring_gpu
from helpers.record.protocol import Effort, Spread
from nogpu import device
from nogpu.errors import DataError, NoGPUError
from tilelabs import labs
from tilelabs.grading import collect, grade, report
from tilelabs.grading.timings import time_class, times
from tilelabs.judging import timing
from tilelabs.judging.timing import Timed, time_on_gpu, timed_from, words
from tilelabs.labs import checking
from tools.hostile import HONEST

Launch = Callable[..., None]
TWO = labs.lab("2")
ASKED = TWO.specification(TWO.variants[0])
SCALED = {"arguments": TWO.specification(TWO.variants[3]).as_data["arguments"]}


class Pretended:
    """A session whose clock says 1 ms for ours, 2 for the rung and 0.5 for the library."""

    def __init__(self):
        self.took = 0.0
        self.did: list[str] = []
        self.stream = contextlib.nullcontext()
        self.stream.synchronize = self._does("all is done")
        names = itertools.cycle(("start", "end"))

        def event():
            name = next(names)
            return SimpleNamespace(
                record=self._does(name), synchronize=self._does(f"waits for {name}")
            )

        events = SimpleNamespace(Event=event, get_elapsed_time=lambda start, end: self.took)
        self.cupy = SimpleNamespace(
            cuda=events, asarray=np.array, ascontiguousarray=np.ascontiguousarray, empty=np.empty, abs=np.abs
        )  # fmt: skip
        self.gpu = SimpleNamespace(name="NVIDIA Pretended", arch="sm_75")
        self.on_stream = contextlib.nullcontext
        self.faults = lambda what: contextlib.nullcontext()
        self.warm_up, self.spin = self._does("warms up"), self._does("spins")
        self.peaks = list[str]()
        self.peak_gflops = lambda precision: self.peaks.append(precision) or 8000.0
        self.versions = lambda: {"driver": "1"}
        self.kernel_operation, self.baseline_operation = self._takes(2.0), self._takes(0.5)

    def _does(self, what):
        return lambda *_: self.did.append(what)

    def _takes(self, ms):
        """What makes an operation that the clock says takes so long; it says where nobody poisoned its output."""

        def made(what, A, B, C):
            def run():
                name = what if isinstance(what, str) else what.kernel.name
                self.did.append(f"runs {name}" + " again" * (not np.isnan(C).all()))
                C[...] = A @ B
                self.took = ms

            return run

        return made


@pytest.fixture
def pretended(monkeypatch):
    session = Pretended()
    monkeypatch.setattr(measuring_gpu, "Session", lambda: session)
    yield session


JOB = {
    **ASKED.as_data, "cubin": "", "constants": {}, "grid": ["1"], "block": ["1"], "rung": "tiled_16", "size": [48, 32, 40], "seed": 7,
    "effort": asdict(Effort(pairs=9, max_pairs=9, warm_ms=1.0)),
}  # fmt: skip


@pytest.fixture
def run(pretended, monkeypatch):
    """What `timed` says of a kernel that is a function of A, B, C and the rest."""

    def timed(kernel, **more):
        def launched(grid, block, arguments, shared_mem=0):
            pretended.took = 1.0
            pretended.did.append(f"runs {grid} {block} {shared_mem}")
            kernel(*arguments)

        def entry(cubin, name, shared):
            pretended.did.append(f"loads {cubin!r} {name} {shared}")
            return launched

        monkeypatch.setattr(launch, "cuda_entry", entry)
        return timing.timed({**JOB, **more})

    return timed


def honest(A, B, C, M, N, K):
    C[...] = A.T @ B


def keeps_its_first():
    kept: list[Any] = []

    def kernel(A, B, C, *_):
        kept.append(A.T @ B)
        C[...] = kept[0]

    return kernel


def only_once():
    seen: set[int] = set()

    def kernel(A, B, C, *_):
        if id(C) not in seen:
            C[...] = A.T @ B
        seen.add(id(C))

    return kernel


def writes_where_poisoned(A, B, C, *_):
    """Honest work, and no gain: the output is always as before the first launch."""
    if np.isnan(C).any():
        C[...] = A.T @ B


def test_an_honest_kernel_is_timed(run):
    found = timed_from(run(honest))
    assert found.wrong == 0 and found.launches >= 10 and not found.refused
    assert found.over_rung is not None and found.over_rung.median == 2.0
    assert found.over_library is not None and found.over_library.median == 0.5
    assert "1 ms on NVIDIA Pretended, 48 x 32 x 40; 2 times as fast as tiled_16" in words(found)
    assert timed_from(json.loads(json.dumps(asdict(found)))) == found


def test_each_launch_is_timed_alone_with_its_shared_memory(pretended, run):
    """Between two events, behind a spinning kernel, each beside cuBLAS of the same precision."""
    effort = asdict(Effort(pairs=9, max_pairs=9, warm_ms=0.0))
    half = [*SCALED["arguments"][:3], *JOB["arguments"][3:]]
    half[0], half[1] = ({**one, "dtype": "float16"} for one in half[:2])
    more: dict[str, Any] = {"grid": ["M", "2"], "block": ["K", "1"], "shared": "1000 * M"}
    more |= {"arguments": half, "cubin": "QQ=="}
    found = run(lambda A, B, C, *_: None, effort=effort, **more)
    assert found["launches"] == found["wrong"] == 9 + 2 and pretended.peaks == []
    own = "runs (48, 2) (40, 1) 48000"
    assert pretended.did[:2] == ["warms up", "loads b'A' lab2 48000"]
    each = [pretended.did[n : n + 6] for n in range(2, len(pretended.did), 6)]
    assert {ran for *_, ran, _, _ in each} == {own, "runs tiled_16", "runs cublas_fp16"}
    steps = ["all is done", "spins", "start", "end", "waits for end"]
    assert len(each) == 33 and all([*one[:3], *one[4:]] == steps for one in each)
    found = run(lambda A, B, C, *_: np.copyto(C, A.T.astype(float) @ B), effort=effort, **more)
    assert pretended.peaks == ["fp16"]
    assert found["wrong"] == 0 and found["versions"] == {"driver": "1"}


@pytest.mark.parametrize("make", [keeps_its_first, only_once], ids=lambda f: f.__name__)
def test_a_kernel_gains_nothing_by_what_it_keeps(make, run, monkeypatch):
    found = timed_from(run(make()))
    assert found.wrong > 0
    assert words(found).startswith(f"wrong in {found.wrong} of {found.launches} launches")
    monkeypatch.setattr(timing, "SETS", 1)  # the control: one set of operands ...
    monkeypatch.setattr(timing._Set, "renew", lambda self, name: None)  # ... and no poison
    assert timed_from(run(make())).wrong == 0
    assert timed_from(run(writes_where_poisoned)).wrong == 0


def test_scaled_outputs_and_turned_ones_are_judged_as_they_lie(run):
    def scaled(A, B, C, M, N, K, alpha, beta):
        C[...] = alpha * (A.T @ B) + beta * C

    def turned(A, B, C, *_):
        C[...] = (A @ B).T

    assert run(scaled, **SCALED)["wrong"] == 0
    assert run(turned, transposed="C")["wrong"] == 0
    assert run(turned, transposed="C", size=[48, 32, 41])["wrong"] == 0
    assert run(lambda A, B, C, *_: None)["wrong"] > 0


def test_a_rate_above_the_peak_is_refused(pretended, run):
    pretended.peak_gflops = lambda precision: 1e-9
    with pytest.raises(Exception, match="the hardware's peak"):
        run(honest)


def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr(device, "current", lambda: None)
    with pytest.raises(NoGPUError, match="no NVIDIA GPU"):
        time_on_gpu(HONEST, ASKED, "tiled_16", (64, 64, 64))


# -- a class ---------------------------------------------------------------------------------------

FOUND = Timed(
    "", "NVIDIA Pretended", (2048,) * 3, "tiled_16", 0, 30, {"yours": Spread(3.0, 2.9, 3.1, 9)},
    Spread(1.25, 1.2, 1.3, 9), Spread(0.31, 0.3, 0.32, 9), {"driver": "1"},
)  # fmt: skip


@pytest.fixture
def timer(monkeypatch):
    """A GPU that says the same of every source, and which were sent to it."""
    sent: list[bytes] = []

    def pretend(source, spec, *_, **__):
        sent.append(source)
        return FOUND

    monkeypatch.setattr(
        device, "current", lambda: SimpleNamespace(name="NVIDIA Pretended", arch="sm_75")
    )
    for home in ("tilelabs.grading.timings", "tilelabs.labs.checking"):
        monkeypatch.setattr(f"{home}.time_on_gpu", pretend)
    return sent


@pytest.mark.nvrtc
def test_a_class_is_timed_once_and_points_stay(tmp_path, timer):
    course, out = course_of(tmp_path / "course"), tmp_path / "out"
    wrong = HONEST.replace("k0 < K", "k0 < K - 1")
    handed_in = collect(hand_in(tmp_path / "in", s1=HONEST, s2=wrong, s3="no kernel"), "lab2")
    found = grade(TWO, handed_in, course, out, lock=False)
    before = {row.student: row.total for row in report(TWO, course, out)}
    lines: list[str] = []
    time_class(TWO, handed_in, found, course, out, tell=lines.append)
    assert timer == [HONEST.encode()], "what is wrong, or does not compile, does not run on a GPU"
    assert lines[0].startswith("1 of 3 submissions are right and clean")
    time_class(TWO, handed_in, found, course, out)
    assert len(timer) == 1, "what is timed stays timed"
    rows = report(TWO, course, out)
    assert {row.student: row.total for row in rows} == before
    one, two, three = table(out / "lab-2-marks.csv").values()
    assert one["times_as_fast_as_rung"] == "1.25" and one["gpu"] == "NVIDIA Pretended"
    assert two["ms"] == three["ms"] == ""
    assert "not in the points" in (out / "lab-2-feedback" / "s1.txt").read_text(encoding="utf-8")
    [path] = (out / "lab-2" / "times").glob("*.json")
    path.write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="time again"):
        times(out, TWO)


@pytest.mark.nvrtc
def test_a_student_sees_the_time_where_there_is_a_gpu(timer):
    found = checking.check("2", HONEST)
    assert found.timed == FOUND and "1.25 times as fast as tiled_16" in str(found)
    assert found.points == checking.check("2", HONEST, gpu=False).points
    wrong = checking.check("2", HONEST.replace("k0 < K", "k0 < K - 1"))
    assert wrong.timed is None and len(timer) == 1
