"""Jobs for test_apart.py: what a child process may try."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from nogpu.errors import ConfigError


def echo(job):
    return {"got": job, "env": dict(os.environ), "cwd": os.listdir("."), "pid": os.getpid()}


def say(job):
    print(job["text"])
    os.write(1, job["text"].encode())
    return "said"


def refuse(job):
    raise ConfigError(f"no {job['what']}")


def fail(job):
    raise KeyError(job["what"])


def spin(job):
    while True:
        pass


def compute(job):
    began = time.process_time()
    while (spent := time.process_time() - began) < job["seconds"]:
        pass
    return spent


def sleep(job):
    time.sleep(600)


def swell(job):
    chunks = []
    while True:
        chunks.append(bytearray(1 << 29))  # few pages are touched before the limit


def evaluate(job):
    """What a reader of sources must not do."""
    return len(str(eval(job["text"])))


def answer(job):
    return "x" * int(job["size"])


def end_by(job):
    os.kill(os.getpid(), signal.Signals[job["name"]])
    time.sleep(5)


def vanish(job):
    os._exit(7)


def attempt(job):
    """What each forbidden thing comes to: "done", or the name of the error."""
    tries: dict[str, Callable[[], object]] = {
        "read": lambda: Path(job["secret"]).read_text(encoding="utf-8"),
        "environ": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
        "write": lambda: Path(job["folder"], "made").write_text("x", encoding="utf-8"),
        "write_here": lambda: Path("made").write_text("x", encoding="utf-8"),
        "look": lambda: os.listdir(job["folder"]),
        "program": lambda: subprocess.run(["/bin/true"], check=True),
        "connect": lambda: socket.create_connection(("127.0.0.1", job["port"]), 2).close(),
        "listen": lambda: socket.create_server(("127.0.0.1", 0)).close(),
        "allowed": lambda: Path(job["allowed"]).read_text(encoding="utf-8"),
    }
    found = {}
    for name, do in tries.items():
        try:
            do()
            found[name] = "done"
        except Exception as error:
            found[name] = type(error).__name__
    return found
