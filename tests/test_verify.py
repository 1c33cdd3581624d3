"""What is checked on a GPU, with pretend tools in place of compute-sanitizer and of the GPU."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers import page as pages
from helpers.__main__ import main
from helpers.ladder import hopper, launch, numbers
from helpers.ladder import kernel as kernel_room
from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog
from helpers.record import evidence, gpu, store
from helpers.record.entries import CHECKS, SanitizerRun
from nogpu import bfloat16
from nogpu.errors import ConfigError, DataError, ToolchainError, UnknownKernelError
from tests import pretend_tools
from tests.common import completed
from tests.test_measure import H200, FakeSession
from tools.recorder import campaign, sanitizer
from tools.recorder import launcher as one
from tools.recorder.sanitizer import Task, Verdict
from tools.recorder.sections import sanitized as sanitized_section
from tools.recorder.sections import shapes as shapes_section
from tools.recorder.steps import Request

# -- logs ------------------------------------------------------------------------------------------

CLEAN = """========= COMPUTE-SANITIZER
@ {"kernel": "naive", "wrong": 0}
@ {"done": 1}
========= ERROR SUMMARY: 0 errors
"""
DIRTY = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at naive+0x2f0 in /a/folder/of/somebody/04_naive.cu:43
=========     by thread (29,0,0) in block (6,0,0)
=========     Access at 0x7f00 is out of bounds
=========
@ {"kernel": "naive", "wrong": 0}
========= ERROR SUMMARY: 155 errors were not printed. Use --print-limit option to adjust the number
========= ERROR SUMMARY: 160 errors
"""
RACES = """========= COMPUTE-SANITIZER
========= Error: Race reported between Read access at tiled+0x8f0 in /x/06_tiled.cu:47
=========     and Write access at tiled+0x6c0 in /x/06_tiled.cu:41 [16384 hazards]
=========
@ {"kernel": "tiled_16", "wrong": 0}
@ {"done": 1}
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
UNWATCHED = "Target application terminated before first instrumented API call"


def test_logs_are_read():
    assert sanitizer.read_log(CLEAN, "memcheck") == (0, "ERROR SUMMARY: 0 errors")
    assert sanitizer.read_log(DIRTY, "memcheck") == (160, "ERROR SUMMARY: 160 errors")
    errors, summary = sanitizer.read_log(RACES, "racecheck")
    assert errors == 2 and summary.startswith("RACECHECK SUMMARY: 2 hazards")
    assert sanitizer.read_log(CLEAN.replace("0 errors", "1 error"), "initcheck")[0] == 1


BROKEN_LOGS = [
    ("", "memcheck"), (CLEAN, "racecheck"), (RACES, "memcheck"), (CLEAN + CLEAN, "memcheck"),
    (CLEAN.replace("0 errors", "none"), "memcheck"),
    ("========= Error: Device not supported\n" + CLEAN, "memcheck"),
    ("========= Internal Sanitizer Error: out of memory\n" + CLEAN, "synccheck"),
    (f"========= Error: {UNWATCHED}", "memcheck"),
]  # fmt: skip
"""None at all, of another tool, two at once, and what the tool says of its own failure."""


@pytest.mark.parametrize(("text", "check"), BROKEN_LOGS)
def test_a_log_that_is_not_known_is_refused_with_its_text(text, check):
    with pytest.raises(DataError, match=check) as refused:
        sanitizer.read_log(text, check)
    assert text.strip()[-40:] in str(refused.value)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("Invalid __global__ read of size 4 bytes", True),
        ("Uninitialized __global__ memory read of size 4 bytes", True),
        ("Deadlock detected in block (0,0,0)", True),
        ("Error: Potential RAW hazard detected at __shared__ 0x0 in block (0,0,0) :", True),
        ("Warning: (Warp Level Programming) Potential WAR hazard detected at __shared__ 0x8", True),
        (UNWATCHED, False),
        ("RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", False),
    ],
)
def test_every_kind_of_report_is_a_message_and_nothing_else(line, counts):
    assert sanitizer.first_message(f"========= {line}\n") == (line if counts else "")


def test_the_first_message_says_where_and_names_no_folder():
    assert sanitizer.first_message(CLEAN) == ""
    message = sanitizer.first_message(DIRTY)
    assert message == "Invalid __global__ read of size 4 bytes at naive+0x2f0 in 04_naive.cu:43"
    assert "/x/" not in sanitizer.first_message(RACES)
    assert "06_tiled.cu:47" in sanitizer.first_message(RACES)


def test_a_verdict_needs_the_launches_to_have_run():
    def judged(text, status=0, launches=1):
        return sanitizer.judge(text, "memcheck", status, launches)

    assert sanitized_section.fine(judged(CLEAN))
    # the tool counts no error, and the program never came to its launches: that is not clean
    idle = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
    for bad in (judged(idle), judged(CLEAN, launches=2), judged(CLEAN, status=1)):
        assert bad.state == "stopped" and not sanitized_section.fine(bad)
    assert not sanitized_section.fine(judged(CLEAN.replace('"wrong": 0', '"wrong": 1')))
    assert judged(DIRTY, 1).errors == 160
    assert judged("mumble").state == "unknown"
    # killed: what it had reported counts, and it is no clean run
    killed = judged(DIRTY.split("@")[0], None)
    assert (killed.state, killed.errors) == ("not finished", 1)
    assert judged("", None).errors == 0
    late = judged('@ {"late": 10}\n' + CLEAN, 3)
    assert (late.state, late.launches) == ("not finished", ({"kernel": "naive", "wrong": 0},))


# -- running ---------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """A pretend GPU and tools, and an empty folder for records; what was run, so far."""
    log = pretend_tools.install(monkeypatch, tmp_path)
    monkeypatch.setattr(store, "VALIDATION", tmp_path / "validation")
    monkeypatch.setattr(campaign, "RecordingSession", FakeSession)
    monkeypatch.setattr(campaign, "require_gpu", lambda: H200)

    def ran():
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    yield ran


def pretend(tmp_path, *acts, faulty=False):
    """One launch of a pretend kernel."""
    file = tmp_path / f"{'-'.join(acts)}{faulty}.cubin"
    file.write_text(json.dumps({"faulty": faulty, "acts": acts}), encoding="utf-8")
    return sanitized_section.launched("naive", (33, 33, 33), {}, file, "memcheck")


def test_only_options_that_the_tool_offers_are_given(calls):
    tool = sanitizer.tool_path()
    assert sanitizer.version(tool) == "2025.3.1.0"
    line = sanitizer.command(tool, "memcheck", Path("jobs.json"), 3)
    assert line[:3] == [tool, "--tool", "memcheck"]
    assert line[-1] == "jobs.json"
    assert line[line.index("--report-api-errors") + 1] == "no"
    assert "--padding" in line and "--launch-timeout" not in line  # our tool does not list it
    assert "--padding" not in sanitizer.command(tool, "racecheck", Path("jobs.json"))
    lines = (sanitizer.command(tool, "memcheck", Path("j"), slot) for slot in range(12))
    ports = {one[line.index("--port") + 1] for one in lines}
    assert len(ports) == 12 and max(map(int, ports)) + sanitizer.PORTS < 65536


def test_a_help_that_lists_nothing_hides_no_option(calls, monkeypatch):
    monkeypatch.setattr(sanitizer, "_output_of", lambda *_: "usage: see the manual")
    sanitizer._offered.cache_clear()
    line = sanitizer.command(sanitizer.tool_path(), "memcheck", Path("jobs.json"))
    sanitizer._offered.cache_clear()
    assert {"--padding", "--launch-timeout", "--report-api-errors", "--port"} <= set(line)


def test_no_tool_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(sanitizer.shutil, "which", lambda *_, **__: None)
    with pytest.raises(ToolchainError, match="compute-sanitizer"):
        sanitizer.tool_path()


def test_a_run_and_its_launches(calls, tmp_path):
    jobs = (pretend(tmp_path), pretend(tmp_path, "wrong"))
    for check in ("", "memcheck"):
        found = sanitizer.run(Task("two", check, jobs), 0, 30, math.inf)
        assert (found.state, found.errors) == ("ran", 0)
        assert [launch["wrong"] for launch in found.launches] == [0, 7]
        assert not sanitized_section.fine(found)
    bad = sanitizer.run(Task("bad", "racecheck", (pretend(tmp_path, faulty=True),)), 0, 30, 99.0)
    assert (bad.state, bad.errors) == ("ran", 3)
    died = sanitizer.run(Task("died", "", (pretend(tmp_path, "stop"),)), 0, 30, 99.0)
    assert died.state == "stopped" and "/some/folder" not in sanitized_section.last_line(died.log)
    assert "illegal memory access" in sanitized_section.last_line(died.log)


@pytest.mark.parametrize("check", ["", "synccheck"])
def test_a_kernel_that_never_ends_is_ended_and_is_not_caught(calls, tmp_path, monkeypatch, check):
    monkeypatch.setattr(sanitizer, "STARTUP", 0.2)
    task = Task("endless", check, (pretend(tmp_path, "hang"),))
    started = time.monotonic()
    found = sanitizer.run(task, 0, 1.0, math.inf)
    assert time.monotonic() - started < 10
    assert (found.state, found.errors) == ("not finished", 0)
    assert sanitizer.run(task, 0, 30.0, 1.0).state == "cut"  # it had no fair time
    monkeypatch.setattr(sanitizer, "STARTUP", 20.0)
    gave_up = sanitizer.run(Task("late", check, (pretend(tmp_path, "late"),)), 0, 1.0, math.inf)
    assert (gave_up.state, gave_up.errors) == ("not finished", 0)


def test_a_killed_tool_takes_the_program_with_it(tmp_path):
    """As with compute-sanitizer, the endless kernel is in a child of the process started."""
    file = tmp_path / "pid"
    child = f"import os,time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = f"import subprocess,sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert sanitizer._wait([sys.executable, "-c", parent], tmp_path / "log", 3.0) is None
    pid = int(file.read_text())
    for _ in range(50):
        if not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.1)
    os.kill(pid, 9)
    pytest.fail("the program outlived the tool")


def test_runs_side_by_side_keep_to_their_number_and_time():
    now, slots = [0.0], set()

    def do(task, slot, limit, seconds):
        slots.add(slot)
        now[0] += 10.0
        return Verdict("cut" if seconds < 10 else "ran", seconds=10.0)

    tasks = [Task(str(i), "", ()) for i in range(9)]
    ran = sanitizer.side_by_side(tasks, workers=1, limit=60, left=lambda: 60.0 - now[0], do=do)
    done = [task.what for task, _ in ran]
    assert done == ["0", "1", "2", "3"]  # a fifth would end after its time
    assert slots == {0}
    everything = sanitizer.side_by_side(
        tasks, workers=3, limit=60, left=lambda: math.inf, do=lambda *_: Verdict("ran")
    )
    assert sorted(task.what for task, _ in everything) == [str(i) for i in range(9)]
    assert 1 <= sanitizer.workers(None) <= 12 and sanitizer.workers(5) == 5


def test_kernels_are_compiled_side_by_side(tmp_path):
    sources = sanitized_section.control_sources("sm_90")
    paths = sanitizer.compile_all(sources, tmp_path, 2, pretend_tools.threads)
    assert set(paths) == set(sources)
    assert all(path.read_bytes().startswith(b"\x7fELF") for path in paths.values())
    broken = {"bad": ("nonsense", "x.cu", "sm_90", {})}
    with pytest.raises(ToolchainError, match="bad does not compile"):
        sanitizer.compile_all(broken, tmp_path, 2, pretend_tools.threads)


# -- controls --------------------------------------------------------------------------------------


@pytest.mark.parametrize("control", sanitized_section.CONTROLS, ids=lambda c: f"{c.check}-{c.why}")
def test_each_control_has_the_fault_that_it_is_named_for(control):
    """The emulator sees it too, on the same shape cut down; nothing in the kernel without it."""
    kinds = {"memcheck": "out-of-bounds", "racecheck": "race", "synccheck": "divergent-barrier"}
    kind = {**kinds, "initcheck": "uninitialised"}[control.check]
    twin = catalog[control.kernel].with_source(control.source)
    found = launch.trace(twin, 37, 43, 35).report.findings
    assert kind in {finding.kind for finding in found}
    assert not launch.trace(control.kernel, 37, 43, 35).report.findings


def test_every_check_has_a_control():
    assert {c.check for c in sanitized_section.CONTROLS} == set(CHECKS)
    with pytest.raises(ConfigError, match="change this control"):
        _ = replace(sanitized_section.CONTROLS[0], old="no such text").source


@pytest.mark.parametrize("check", CHECKS)
def test_a_tool_that_misses_its_controls_is_not_believed(calls, monkeypatch, check):
    monkeypatch.setenv("PRETEND_BLIND", check)
    outcome = watch(kernels=("naive",))
    assert (outcome.measured, outcome.left) == (6, [])  # the three others
    [why] = outcome.refused
    assert why.startswith(f"{check} reports nothing on a kernel with a known fault")
    assert check not in {r["check"] for r in rows()}
    table = evidence.sanitizer_table()
    assert table is not None and check not in table.rows[0] and check not in table.note
    monkeypatch.delenv("PRETEND_BLIND")
    assert watch(kernels=("naive",)).measured == 2  # believed now: its rows are made
    table = evidence.sanitizer_table()
    assert table is not None and table.rows[0][check] == 0


def test_a_tool_that_does_nothing_leaves_no_record(calls, monkeypatch):
    monkeypatch.setenv("PRETEND_BLIND", ",".join(CHECKS))
    with pytest.raises(ToolchainError, match="no kernel with a known fault is reported"):
        watch(kernels=("naive",))
    assert not (store.VALIDATION / "sanitizer.json").exists()


# -- every kernel under every check ----------------------------------------------------------------

FEW = ("naive", "tiled_padded", "hopper_5")


def watch(**options):
    wanted = {
        "sections": ("sanitizer",), "kernels": FEW, "workers": 4, "commit": "abc", **options
    }  # fmt: skip
    return campaign.run(Request(**wanted), lambda _: None)


def read_record():
    """The record as it lies there."""
    return store.read_validation(store.VALIDATION / "sanitizer.json", "sanitizer")


def rows():
    found: list[SanitizerRun] = read_record().rows
    return found


def test_every_kernel_shape_and_check_has_its_row(calls):
    outcome = watch()
    counts = outcome.measured, outcome.present, outcome.left
    assert counts == (20, 0, []), "tiled_padded has one shape"
    assert outcome.faults == [] and outcome.refused == []
    found = rows()
    assert {(r["kernel"], r["shape"], r["check"]) for r in found} == {
        (k, s, c) for k in FEW for s in sanitized_section.watched_shapes(catalog[k]) for c in CHECKS
    }
    for r in found:
        assert (r["state"], r["errors"]) == ("ran", 0)
        assert "0 errors" in r["summary"]
        assert r["wrong"] == (None if r["check"] == "initcheck" else 0)
        assert r["recorded"]["sanitizer"] == "2025.3.1.0" and r["recorded"]["gpu"] == H200.name
        assert r["recorded"]["commit"] == "abc"
    assert {c.check for c in read_record().controls} == set(CHECKS)
    assert all(c.errors for c in read_record().controls)
    # both shapes of a kernel share one process
    assert len(calls()) == len(sanitized_section.CONTROLS) + len(FEW) * len(CHECKS)


def test_what_is_there_is_not_run_again(calls):
    watch(kernels=("naive",))
    calls()
    assert watch(kernels=("naive",)).present == 8
    assert calls() == []
    assert watch().measured == 12  # the two others
    data = read_record()
    data.rows[0] = replace(data.rows[0], source="older")
    data.write()
    calls()
    assert watch().measured == 1
    assert len(calls()) == len(sanitized_section.CONTROLS) + 1
    assert watch(kernels=("naive",), again=True).measured == 8


def test_another_folder_goes_on_from_the_books_record(calls, tmp_path):
    watch(kernels=("naive",))
    outcome = watch(out=tmp_path / "out")
    assert (outcome.measured, outcome.present) == (12, 8)
    there = store.read_validation(tmp_path / "out" / "sanitizer.json", "sanitizer")
    assert len(there.rows) == 20 and len(rows()) == 8


def changed(monkeypatch, kernel, text):
    """As if the file of a kernel had been edited."""
    path, read = catalog[kernel].path, kernel_room.read_source
    monkeypatch.setattr(kernel_room, "read_source", lambda p: text if p == path else read(p))


def test_a_fault_is_found_and_its_shape_is_named(calls, monkeypatch):
    changed(monkeypatch, "unrolled", catalog["unrolled"].source + "\n// a fault\n// acts: ragged")
    outcome = watch(kernels=("unrolled",))
    found = {(r["shape"], r["check"]): r for r in rows()}
    assert {key for key, r in found.items() if r["errors"]} == {("ragged", c) for c in CHECKS}
    assert found["ragged", "memcheck"]["first"].startswith("Invalid __global__ write")
    assert len(outcome.faults) == 4 and "ragged" in outcome.faults[0]


def test_an_unknown_log_is_refused_and_nothing_of_it_is_recorded(calls, monkeypatch):
    changed(monkeypatch, "unrolled", catalog["unrolled"].source + "// acts: mumble")
    outcome = watch(kernels=("naive", "unrolled"))
    assert len(outcome.refused) == 8 and "Device not supported" in outcome.refused[0]
    assert {r["kernel"] for r in rows()} == {"naive"}


def test_the_watch_keeps_to_its_time(calls):
    with pytest.raises(ToolchainError, match="seconds"):
        watch(seconds=0.0)
    assert not (store.VALIDATION / "sanitizer.json").exists()


def test_watched_shapes_cover_several_tiles():
    for name, k in catalog.items():
        shapes = sanitized_section.watched_shapes(k)
        some = {"aligned"} if name == "tiled_padded" else set(sanitized_section.WATCHED)
        assert set(shapes) == some
        p = geometry(k, *shapes["aligned"], **sanitized_section.watched_params(k))
        assert math.prod(p.grid) > 1
        tiles = -(-p.M // p.tile[0]) * -(-p.N // p.tile[1])
        if "SMS" in k.params:  # persistent: some block takes a second tile, or shares one
            assert tiles > p.grid[0]
        assert all(n % 32 for n in sanitized_section.WATCHED["ragged"])


# -- the program that is watched -------------------------------------------------------------------


@pytest.fixture
def cupy(monkeypatch):
    """NumPy in place of CuPy, and a product in place of every launch."""

    class Array(np.ndarray):
        def get(self):
            return np.array(self)

    def asarray(x):
        return np.array(x).view(Array)

    def empty(*shape):
        return np.zeros(*shape).view(Array)

    stream = SimpleNamespace(synchronize=lambda: None)
    allocators: list[Any] = []
    cuda = SimpleNamespace(get_current_stream=lambda: stream, set_allocator=allocators.append)
    cuda.runtime = SimpleNamespace(deviceSynchronize=lambda: None)
    fake = SimpleNamespace(asarray=asarray, empty=empty, cuda=cuda, allocators=allocators)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


@pytest.fixture
def cubin(tmp_path):
    """A file in place of a compiled kernel."""
    (tmp_path / "x.cubin").write_bytes(b"compiled")
    return tmp_path / "x.cubin"


def multiply(p, A, B, C, cubin=b""):
    """In place of a launch: the right product, in the type that C holds."""
    k = p.kernel
    found = numbers.values(k.dtype, A) @ numbers.values(k.dtype, B)
    C[...] = bfloat16.to_bfloat16(found) if k.out_dtype == "bfloat16" else found.astype(C.dtype)


@pytest.mark.parametrize(
    "name", ["naive", "naive_int", "wmma", "hopper_1", "hopper_5", "hopper_5_fp16"]
)
@pytest.mark.parametrize("size", [(40, 48, 56), (33, 37, 35)])
def test_a_launch_is_compared_with_float64(cupy, monkeypatch, cubin, name, size):
    given: dict[str, Any] = {}

    def launched(p, A, B, C, cubin=b""):
        given.update(A=A, B=B, C=C, cubin=cubin)
        multiply(p, A, B, C)

    monkeypatch.setattr(one, "cuda_launch", launched)
    job = sanitized_section.launched(name, size, catalog[name].params, cubin, "memcheck")
    assert one.launch_once(job)["wrong"] == 0
    assert given["cubin"] == b"compiled"
    if catalog[name].host == "tma":  # as hopper.launch wants them, so that it copies nothing
        maps = ["A", "B"] + ["C"] * ("C_map" in hopper.parameters(catalog[name]))
        assert all(given[m].strides[0] % hopper.ROW_BYTES == 0 for m in maps)
        assert given["C"].flags.c_contiguous or "C" in maps

    def one_wrong(p, A, B, C, cubin=b""):
        multiply(p, A, B, C)
        C[-1, -1] = numbers.poison(p.kernel.out_dtype)

    monkeypatch.setattr(one, "cuda_launch", one_wrong)
    assert one.launch_once(job)["wrong"] == 1


def test_under_initcheck_nobody_writes_or_reads_c_but_the_kernel(cupy, monkeypatch, cubin):
    monkeypatch.setattr(one, "cuda_launch", multiply)
    events: list[str] = []
    monkeypatch.setattr(cupy, "empty", lambda *shape: events.append("empty") or np.zeros(*shape))
    result = one.launch_once(sanitized_section.launched("naive", (9, 9, 9), {}, cubin, "initcheck"))
    assert events == ["empty"] and "wrong" not in result


def test_the_program_says_what_it_did(cupy, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(one, "cuda_launch", multiply)
    watches: list[float] = []

    def timer(seconds, do, _):
        watches.append(seconds)
        assert do is one.give_up
        return SimpleNamespace(start=lambda: None)

    monkeypatch.setattr(one, "threading", SimpleNamespace(Timer=timer))
    file = tmp_path / "jobs.json"
    jobs = [{"kernel": "naive", "M": 5, "N": 4, "K": 3, "params": {}, "check": True}] * 2
    file.write_text(json.dumps({"jobs": jobs, "limit": 7}), encoding="utf-8")
    one.main(str(file))
    entries = sanitizer.reported(capsys.readouterr().out)
    assert [s.get("wrong") for s in entries] == [0, 0, None] and entries[-1] == {"done": 2}
    assert watches == [7] and cupy.allocators == [None]
    file.write_text(json.dumps(jobs[:1]), encoding="utf-8")  # as ncu gives them
    one.main(str(file))
    assert sanitizer.reported(capsys.readouterr().out)[-1] == {"done": 1}


def test_a_program_that_waits_too_long_says_so_and_ends():
    code = (
        "import threading, time; from tools.recorder import launcher as one;"
        "threading.Timer(0.2, one.give_up, (0.2,)).start(); time.sleep(30)"
    )
    done = completed([sys.executable, "-c", code], timeout=25)
    assert done.returncode == 3
    assert sanitizer.reported(done.stdout) == [{"late": 0.2}]


# -- shapes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(catalog))
def test_a_hundred_shapes_and_more_awkward_ones_first(name):
    k = catalog[name]
    found = shapes_section.shapes(k)
    assert len(found) >= 100 and len(set(found)) == len(found)
    assert found == shapes_section.shapes(k) and found != shapes_section.shapes(k, seed=1)
    for size in found:
        geometry(k, *size)
    assert max(max(s) for s in found) > 2000
    if name == "tiled_padded":
        assert all(n % 32 == 0 for s in found for n in s)
        return
    assert (1, 1, 1) in found
    rows, columns = geometry(k, 4096, 4096, 4096).tile
    assert {m for m, _, _ in found} >= {rows - 1, rows, rows + 1} - {0}
    assert {n for _, n, _ in found} >= {columns - 1, columns, columns + 1} - {0}
    assert sum(any(n % 4 for n in s) for s in found) > 80


class NumpySession(gpu.Session):
    """A GPU whose memory is NumPy's: the operands and the comparison are the real ones."""

    def __init__(self):
        pool = SimpleNamespace(free_all_blocks=lambda: None)
        self.cupy = SimpleNamespace(**vars(np), get_default_memory_pool=lambda: pool)
        self.gpu, self.stream = H200, SimpleNamespace(synchronize=lambda: None)
        self._problem = None

    def on_stream(self):
        return contextlib.nullcontext()

    def faults(self, what):
        return contextlib.nullcontext()

    def _gemm64(self, A, B, C):
        np.matmul(A, B, out=C)


SIZES = [(1, 1, 1), (9, 7, 5), (33, 17, 64)]


def checked(name, shifted, monkeypatch, do=multiply):
    monkeypatch.setattr(shapes_section, "Session", NumpySession)
    monkeypatch.setattr(launch, "cuda_launch", do)
    task = {"kernel": name, "shapes": SIZES, "seed": 1, "shifted": shifted}
    return shapes_section.check_shapes(task)


@pytest.mark.parametrize("name", ["naive", "naive_int", "mma_pipelined_bf16", "hopper_5"])
@pytest.mark.parametrize("shifted", [False, True])
def test_right_results_pass(name, shifted, monkeypatch):
    found = checked(name, shifted, monkeypatch)
    assert (found["shapes"], found["wrong"], found["wrong_at"]) == (3, 0, [])
    assert 0.0 <= found["worst"] <= 1.0


def test_a_wrong_and_an_unwritten_element_are_counted(monkeypatch):
    def short(p, A, B, C, cubin=b""):
        multiply(p, A[:, :-1], B[:-1], C)

    def forgetful(p, A, B, C, cubin=b""):
        if p.M == 9:
            multiply(p, A[:-1], B, C[:-1])
        else:
            multiply(p, A, B, C)

    found = checked("naive", False, monkeypatch, short)
    assert found["wrong"] > 500 and len(found["wrong_at"]) == 3 and found["worst"] > 1
    found = checked("naive", False, monkeypatch, forgetful)
    assert (found["wrong"], found["wrong_at"], found["worst"]) == (7, [[9, 7, 5]], None)
    integers = checked("naive_int", False, monkeypatch, short)
    assert integers["wrong"] > 500 and integers["worst"] is None  # infinitely over a bound of 0


def test_shifted_operands_begin_one_element_and_c_at_every_offset_into_their_memory(monkeypatch):
    seen: dict[str, list[int]] = {}

    def look(p, A, B, C, cubin=b""):
        for name, x in (("A", A), ("B", B), ("C", C)):
            owner = x if x.base is None else x.base
            seen.setdefault(name, []).append(x.ctypes.data - owner.ctypes.data)
            assert x.flags.c_contiguous
        multiply(p, A, B, C)

    checked("naive", True, monkeypatch, look)
    assert seen == {"A": [4] * 3, "B": [4] * 3, "C": [4, 8, 12]}
    seen.clear()
    checked("hopper_1", True, monkeypatch, look)
    assert seen["A"] == [2] * 3 and seen["C"] == [2, 4, 6]
    seen.clear()
    checked("naive", False, monkeypatch, look)
    assert seen["A"] == [0] * 3


def test_shapes_are_recorded_once(calls):
    def go(**options):
        wanted = {"kernels": ("naive", "hopper_1"), "workers": 2, **options}
        return campaign.run(Request(("shapes",), **wanted), lambda _: None)

    outcome = go()
    assert (outcome.measured, outcome.present, outcome.faults) == (2, 0, [])
    path = store.VALIDATION / "shapes_h200.json"
    by_kernel = {r.kernel: r for r in store.read_validation(path, "shapes").rows}
    r = by_kernel["naive"]
    assert (r["shapes"], r["shifted_shapes"], r["wrong"], r["state"]) == (120, 120, 0, "ran")
    assert (r["shifted"], by_kernel["hopper_1"]["shifted"]) == ("A, B and C", "A, B and C")
    assert len(calls()) == 2
    assert go().present == 2 and calls() == []
    assert go(count=130).measured == 2  # more shapes than before
    assert len(go(seconds=0.0, again=True).left) == 2
    data = store.read_validation(path, "shapes")
    data.rows[0] = replace(data.rows[0], wrong=1)
    data.write()
    assert go(count=130).measured == 1  # what was wrong is tried again


def test_a_kernel_that_stops_the_gpu_has_a_row_that_says_so():
    task = Task("x", "", (), {"kernel": "naive", "shapes": SIZES, "seed": 1})
    first = {"shapes": 3, "worst": 0.1, "wrong": 0, "wrong_at": []}
    r = shapes_section.shapes_row(task, Verdict("stopped", launches=(first,)), NOTE)
    values = (r["state"], r["shapes"], r["shifted_shapes"], r["shifted_worst"])
    assert values == ("stopped", 3, 0, None)


# -- the records and their tables ------------------------------------------------------------------


def test_a_page_shows_nothing_of_a_record_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr(store, "VALIDATION", tmp_path)
    assert evidence.sanitizer_table() is None and evidence.shapes_table() is None
    assert evidence.mutants_table() is None
    for of in ("sanitizer", "shapes", "mutants"):
        assert pages.evidence(of) is None
    assert repr(pages.evidence("mutants", "Not run.")) == "Not run."
    with pytest.raises(LookupError, match="sanitizer"):
        pages.evidence("sanitiser")


def test_a_page_shows_the_records_that_are_there(calls):
    watch(sections=("shapes", "sanitizer"))
    shown = repr(pages.evidence("sanitizer"))
    lines = {line.split()[0]: line.split() for line in shown.splitlines()}
    assert lines["naive"][-4:] == ["0"] * 4 and lines["tiled_padded"][-4:] == ["0"] * 4
    for part in ("256x768x384, 197x523x397", "NVIDIA H200", "2025.3.1.0", "a barrier dropped: 3"):
        assert part in shown
    shapes = repr(pages.evidence("shapes"))
    assert "0.250" in shapes and "hopper_5" in shapes and "NVIDIA H200" in shapes


def test_rows_of_older_code_are_not_shown(calls, monkeypatch):
    watch(kernels=("naive", "coalesced"))
    changed(monkeypatch, "naive", catalog["naive"].source.replace("sum = 0", "sum = 1"))
    table = evidence.sanitizer_table()
    assert table is not None and [r["kernel"] for r in table.rows] == ["coalesced"]


NOTE = dict.fromkeys(store.RECORDED) | {"gpu": "x"}


def test_what_did_not_run_to_its_end_is_said():
    def row(state, errors):
        return SanitizerRun(
            "naive", {}, "ragged", 1, 1, 1, "memcheck", state, errors, "", "", None, 0.0, "x", NOTE
        )

    ran = row("ran", 0)
    assert evidence.error_count([ran, ran]) == 0
    assert evidence.error_count([ran, row("ran", 4)]) == 4
    assert evidence.error_count([ran, row("not finished", 0)]) == "0, not finished"
    assert evidence.error_count([]) is None


# -- the command -----------------------------------------------------------------------------------


def test_the_command(calls, capsys, monkeypatch):
    assert main(["verify", "--plan", "--kernels", "naive", "--workers", "12"]) == 0
    assert "9 processes" in capsys.readouterr().out
    arguments = ["verify", "--kernels", "naive", "--workers", "4", "--commit", "abc"]
    assert main(arguments) == 0
    assert "9 rows recorded, 0 there already, 0 with a fault" in capsys.readouterr().out
    assert main([*arguments, "--plan"]) == 0
    assert capsys.readouterr().out.split() == ["0.0", "s", "in", "all,", "by", "estimate"]
    changed(monkeypatch, "naive", catalog["naive"].source + "\n// a fault")
    assert main([*arguments, "--sanitizer"]) == 0  # only a comment changed: the same code
    changed(monkeypatch, "naive", catalog["naive"].source + "\n;")
    assert main([*arguments, "--sanitizer"]) == 1
    assert "Invalid __global__ write" in capsys.readouterr().err
    assert main(["verify", "--kernels", "naiv"]) == 2
    with pytest.raises(UnknownKernelError, match="naive"):
        campaign.run(Request(("sanitizer",), kernels=("naiv",)), lambda _: None)
