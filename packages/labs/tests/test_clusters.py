"""Workers elsewhere: what they are sent and refuse, and that a dead one changes no byte."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
from classes import LOCK, UNLOCKED, course_of, hand_in
from test_grading import CLASS, TWO, files

from helpers import __main__ as cli
from nogpu.errors import ConfigError
from tests.common import ROOT
from tilelabs import apart
from tilelabs.grading import clusters, collect, grade, judging, report
from tilelabs.grading.collecting import Submission
from tools import hostile
from tools.hostile import HONEST

pytestmark = pytest.mark.nvrtc

MORE = CLASS | {"s6": hostile.WRONG["nothing"], "s7": hostile.STRIDED}
MORE |= {"s8": HONEST, "s9": "", "t1": HONEST}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return course_of(tmp_path_factory.mktemp("clusters") / "course")


@pytest.fixture(scope="module")
def here(course, tmp_path_factory):
    """A class, and what comes of it on this machine alone."""
    place = tmp_path_factory.mktemp("here")
    found = collect(hand_in(place / "in", **MORE), "lab2")
    grade(TWO, found, course, place / "out", lock=LOCK)
    return found, place / "out"


@contextmanager
def dask(workers, book=ROOT, **settings):
    """A scheduler's address, and the process ids of its workers of one thread each."""
    pytest.importorskip("distributed", reason="Dask is not installed: this test did not run")
    env = {**os.environ, "PYTHONPATH": str(book), **settings}
    started: list[subprocess.Popen[str]] = []

    def start(*arguments):
        made = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]],
            env=env, cwd=book, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(made)
        return made

    def wait_for(made, pattern):
        assert made.stderr is not None
        for line in made.stderr:
            if found := re.search(pattern, line):
                threading.Thread(target=made.stderr.read, daemon=True).start()  # no pipe fills up
                return found[1]
        raise AssertionError(f"{made.args} ended")

    try:
        local = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        address = wait_for(start("dask_scheduler", *local), r"Scheduler at:\s+(tcp://\S+)")
        hands = [start("dask_worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard",
                       "--host", "127.0.0.1") for _ in range(workers)]  # fmt: skip
        for one in hands:
            wait_for(one, r"(Registered to)")
        yield address, [one.pid for one in hands]
    finally:
        for one in reversed(started):
            with suppress(OSError):
                one.kill()
            one.wait()


def kill_in_the_middle(pid, messages):
    """Kill a worker when the first result is there."""

    def watch():
        while len(messages) < 2:
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


@pytest.mark.slow
def test_two_workers_one_of_them_killed_change_no_byte(tmp_path, course, here):
    (found, alone), messages = here, list[str]()
    with dask(2) as (address, pids), clusters.dask(address) as executor:
        kill_in_the_middle(pids[0], messages)
        there = {"executor": executor, "lock": LOCK, "tell": messages.append}
        grade(TWO, found, course, tmp_path / "there", **there)
        with pytest.raises(ProcessLookupError):  # it was killed, and is gone once it is waited for
            os.waitpid(pids[0], 0)
            os.kill(pids[0], 0)
    assert len(messages) == len(MORE) + 1
    shutil.copytree(alone, tmp_path / "here")
    for place in ("here", "there"):
        report(TWO, course, tmp_path / place)
    assert files(tmp_path / "here") == files(tmp_path / "there")


@pytest.mark.slow
def test_where_a_dead_worker_takes_its_task_along_that_is_said_and_the_rest_is_judged_later(
    tmp_path, course, here
):
    """The control: without Dask's second chance the kill is felt, in one sentence."""
    (found, alone), messages = here, list[str]()
    with (
        dask(2, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as (address, pids),
        pytest.raises(ConfigError, match="died again and again"),
        clusters.dask(address) as executor,
    ):
        kill_in_the_middle(pids[0], messages)
        there = {"executor": executor, "lock": LOCK, "tell": messages.append}
        grade(TWO, found, course, tmp_path / "there", **there)
    assert 1 <= len(files(tmp_path / "there")) < len(MORE)
    grade(TWO, found, course, tmp_path / "there", lock=LOCK)
    assert files(alone) == files(tmp_path / "there")


@pytest.mark.slow
def test_at_the_terminal_a_cluster_works_or_says_why_not_in_one_line(
    tmp_path, course, capsys, monkeypatch
):
    command = ["grade", "2", str(hand_in(tmp_path / "in", s1=HONEST)), *UNLOCKED]
    command += ["--course", str(course.folder), "--out", str(tmp_path / "out"), "--dask"]

    def fail_at(address):
        assert cli.main([*command, address]) == 2
        error = capsys.readouterr().err.strip()
        assert error.startswith("error: ") and "Traceback" not in error
        return error

    with dask(1) as (address, _):
        assert cli.main([*command, address]) == 0
    assert "1/1 s1: 9 of 9 shapes right" in capsys.readouterr().out
    hand_in(tmp_path / "in", s2=HONEST)
    monkeypatch.setattr(clusters, "PATIENCE", 1.0)
    with dask(0) as (address, _):
        assert "has no worker" in fail_at(address)
    assert "no Dask scheduler answers at" in fail_at(address)
    assert "no Dask scheduler answers at nonsense" in fail_at("nonsense")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "helpers.py").write_text("raise ImportError('another package')")
    with dask(1, tmp_path / "other") as (address, _):
        assert "install this book there" in fail_at(address)
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "pip install -e '.[cluster]'" in fail_at(address)


# -- what is sent, and what a worker refuses -------------------------------------------------------


def test_a_task_holds_neither_the_secret_nor_a_name(course):
    s = Submission("4711", "Lovelace, Ada", "lovelaceada_4711_9_lab2.cu", HONEST.encode())
    sent = pickle.dumps(judging.task(s, TWO, course, 1))
    private = [course.secret, course.secret.hex().encode(), b"4711", b"ovelace"]
    private.append(str(course.folder).encode())
    assert HONEST.encode() in sent and not [p for p in private if p in sent]
    both = pickle.dumps((s, course))
    assert {p for p in private if p in both} >= {course.secret, b"4711", b"ovelace"}


def test_facts_are_plain_data(course):
    def plain(x):
        if isinstance(x, dict):
            return all(isinstance(k, str) and plain(v) for k, v in x.items())
        return all(map(plain, x)) if isinstance(x, (list, tuple)) else type(x) in (str, int, float, bool, type(None))  # fmt: skip

    s = Submission("s1", "s1", "s1.cu", hostile.WRONG["edge"].encode())
    facts = judging.facts(judging.task(s, TWO, course, 1, LOCK))
    assert plain(facts) and facts["runs"] and not plain({"x": course})
    assert judging._marked(facts) == judging.judged(s, TWO, course, 1, LOCK).marked


def test_a_worker_with_another_book_refuses(course):
    s = Submission("s1", "s1", "s1.cu", None, "no kernel")
    task = judging.task(s, TWO, course, 1)
    assert judging.facts(task)["refused"] == "no kernel"
    with pytest.raises(ConfigError, match="another state of the book"):
        judging.facts(replace(task, book="0" * 64))


def test_a_worker_that_cannot_lock_refuses_unless_it_is_told_not_to(course, monkeypatch):
    s = Submission("s1", "s1", "s1.cu", HONEST.encode())
    monkeypatch.setattr(apart, "landlock", lambda: 0)
    with pytest.raises(ConfigError, match="--without-landlock"):
        judging.facts(judging.task(s, TWO, course, 1, lock=True))
    facts = judging.facts(judging.task(s, TWO, course, 1, lock=False))
    assert facts["locked"] is False and facts["runs"]
    if LOCK is None:
        monkeypatch.undo()
        assert judging.facts(judging.task(s, TWO, course, 1, lock=True))["locked"] is True
