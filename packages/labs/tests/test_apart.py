"""A job in a process of its own: what it may use, what it may see, and how its end is told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from nogpu.errors import ConfigError, EmulationError
from tests.common import ROOT
from tilelabs import apart
from tilelabs.apart import Limits, kept, room, run

JOBS = "apart_jobs:"
SMALL = Limits(memory=1 << 30, seconds=2, wall=20)


def test_a_job_gets_what_it_is_given_and_nothing_else(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "canary-in-the-environment")
    done = run(f"{JOBS}echo", {"x": [1, "é", None]})
    assert not done.fault and not done.ended and done.value["got"] == {"x": [1, "é", None]}
    env = done.value["env"]
    assert "canary" not in str(env) and len(set(env) - set(apart.HANDED_ON)) <= 6
    assert done.value["cwd"] == []


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone limits what a process takes")
def test_what_takes_too_much_room_ends_here_and_leaves_no_limit():
    """As in the process of a notebook, whose own arrays it does not count."""
    ours, much = bytearray(1 << 28), 1 << 28
    for _ in range(2):
        with pytest.raises(EmulationError, match="more than 64 MB of memory"), room(64 << 20):
            bytearray(much)
        with room(64 << 20):
            assert len(bytearray(1 << 20)) == 1 << 20  # what fits passes
    assert len(bytearray(much)) == len(ours)
    with pytest.raises(EmulationError, match="misaligned"), room():
        raise EmulationError("misaligned")


def test_what_a_job_prints_is_no_answer():
    forged = '{"value": "forged", "fault": "", "ended": "", "kind": ""}'
    assert run(f"{JOBS}say", {"text": forged}).value == "said"


@pytest.mark.parametrize(
    ("job", "given", "ended", "kind", "words"),
    [
        ("refuse", {"what": "tile"}, "", "ConfigError", "no tile"),
        ("fail", {"what": "key"}, "", "KeyError", "KeyError: 'key'"),
        ("spin", {}, "time", "", "more than 2 s of processor time"),
        ("swell", {}, "memory", "", "more than 1,024 MB of memory"),
        ("answer", {"size": 20 << 20}, "answer", "", "more than 16 MB"),
        ("end_by", {"name": "SIGSEGV"}, "signal", "", "ended by SIGSEGV"),
        ("end_by", {"name": "SIGABRT"}, "signal", "", "ended by SIGABRT"),
        ("vanish", {}, "silence", "", "(status 7) and said nothing"),
        ("nothing", {}, "", "AttributeError", "nothing"),
    ],
)
def test_every_end_is_told(job, given, ended, kind, words):
    done = run(f"{JOBS}{job}", given, SMALL)
    assert (done.ended, done.kind, done.value) == (ended, kind, None) and words in done.fault
    assert done.seconds < SMALL.wall


def test_a_job_that_sleeps_is_ended_with_all_that_it_started():
    began = time.monotonic()
    done = run(f"{JOBS}sleep", {}, Limits(wall=2))
    assert done.ended == "time" and "for 2 s" in done.fault and time.monotonic() - began < 9


def test_a_job_that_computes_longer_than_the_clock_allows_is_not_ended():
    """A busy machine: what counts is the job's own time."""
    done = run(f"{JOBS}compute", {"seconds": 2.0}, Limits(seconds=20, wall=0.5))
    assert not done.ended and done.value >= 2.0 and done.seconds > 4 * 0.5


def test_a_process_that_is_kept_serves_job_after_job_until_one_fails():
    def pid():
        return int(kept(f"{JOBS}echo", {}, SMALL, readable=None).value["pid"])

    assert pid() == pid() != run(f"{JOBS}echo", {}).value["pid"]
    for _ in range(2):  # each has its own two seconds
        assert not kept(f"{JOBS}compute", {"seconds": 1.3}, SMALL, readable=None).fault
    first = pid()
    assert kept(f"{JOBS}spin", {}, SMALL, readable=None).ended == "time" and pid() == first
    assert kept(f"{JOBS}spin", {}, SMALL, readable=None).ended == "time"  # by one that is new
    os.kill(first, signal.SIGKILL)
    time.sleep(0.2)
    assert pid() != first and kept(f"{JOBS}fail", {"what": 1}, SMALL, readable=None).fault


def test_a_call_is_a_module_and_a_function():
    with pytest.raises(ConfigError, match="module:function"):
        run("apart_jobs.echo", {})


STOPPED = """
import signal, sys
from tilelabs.apart import run
sys.path.insert(0, "packages/labs/tests")
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may have turned it off
print("ready", flush=True)
try:
    run("apart_jobs:sleep", {})
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def test_stop_ends_the_job_and_not_the_one_who_waits():
    line = [sys.executable, "-c", STOPPED]
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "stopped\n" and process.returncode == 0


# -- the lock --------------------------------------------------------------------------------------

needs_landlock = pytest.mark.skipif(not apart.landlock(), reason="this kernel has no Landlock")


@pytest.fixture
def listening():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def tried(folder, port, locked):
    (folder / "secret").write_text("canary", encoding="utf-8")
    (folder / "open").mkdir(exist_ok=True)
    (folder / "open" / "allowed").write_text("yes", encoding="utf-8")
    places = {"secret": folder / "secret", "allowed": folder / "open" / "allowed", "folder": folder}
    job = {"port": port} | {name: os.fspath(path) for name, path in places.items()}
    readable = [sys.prefix, sys.base_prefix, ROOT / "tests", folder / "open"] if locked else None
    done = run(f"{JOBS}attempt", job, readable=readable)
    assert not done.fault, done.fault
    return dict(done.value)


@needs_landlock
def test_a_locked_job_reads_what_it_may_and_touches_nothing_else(tmp_path, listening):
    found = tried(tmp_path, listening, True)
    assert found.pop("allowed") == "done"
    network = found.pop("connect")
    assert network == ("PermissionError" if apart.landlock() >= 4 else "done")
    assert set(found.values()) <= {"PermissionError", "OSError"}, found
    assert sorted(p.name for p in tmp_path.iterdir()) == ["open", "secret"]


def test_without_the_lock_the_same_job_reads_and_runs(tmp_path, listening):
    """The wrong twin: what the lock keeps from it. Files have no room in either."""
    found = tried(tmp_path, listening, False)
    for what in ("read", "environ", "look", "program", "connect", "allowed"):
        assert found[what] == "done", found
    assert found["write_here"] != "done" and (tmp_path / "made").stat().st_size == 0


def test_a_lock_that_cannot_be_had_is_said(monkeypatch):
    monkeypatch.setattr(apart, "landlock", lambda: 0)
    with pytest.raises(ConfigError, match="Landlock"):
        run(f"{JOBS}echo", {}, readable=[ROOT])
