"""Jobs for test_apart.py: what a child process may try."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from nogpu.errors import ConfigError


def echo(job: dict[str, Any]) -> dict[str, Any]:
    return {"got": job, "env": dict(os.environ), "cwd": os.listdir("."), "pid": os.getpid()}


def say(job: dict[str, Any]) -> str:
    print(job["text"])
    os.write(1, job["text"].encode())
    return "said"


def refuse(job: dict[str, Any]) -> None:
    raise ConfigError(f"no {job['what']}")


def fail(job: dict[str, Any]) -> None:
    raise KeyError(job["what"])


def spin(job: dict[str, Any]) -> None:
    while True:
        pass


def compute(job: dict[str, Any]) -> float:
    began = time.process_time()
    while (spent := time.process_time() - began) < job["seconds"]:
        pass
    return spent


def sleep(job: dict[str, Any]) -> None:
    time.sleep(600)


def swell(job: dict[str, Any]) -> None:
    held = []
    while True:
        held.append(bytearray(1 << 29))  # few pages are touched before the limit


def evaluate(job: dict[str, Any]) -> int:
    """What a reader of sources must not do."""
    return len(str(eval(job["text"])))


def answer(job: dict[str, Any]) -> str:
    return "x" * int(job["size"])


def end_by(job: dict[str, Any]) -> None:
    os.kill(os.getpid(), signal.Signals[job["name"]])
    time.sleep(5)


def vanish(job: dict[str, Any]) -> None:
    os._exit(7)


def attempt(job: dict[str, Any]) -> dict[str, str]:
    """What each forbidden thing comes to: "done", or the name of the error."""

    def read() -> str:
        return Path(job["secret"]).read_text(encoding="utf-8")

    def environ() -> bytes:
        return Path(f"/proc/{os.getppid()}/environ").read_bytes()

    def write() -> None:
        Path(job["folder"], "made").write_text("x", encoding="utf-8")

    def write_here() -> None:
        Path("made").write_text("x", encoding="utf-8")

    def look() -> list[str]:
        return os.listdir(job["folder"])

    def program() -> None:
        subprocess.run(["/bin/true"], check=True)

    def connect() -> None:
        socket.create_connection(("127.0.0.1", job["port"]), 2).close()

    def listen() -> None:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()

    def allowed() -> str:
        return Path(job["allowed"]).read_text(encoding="utf-8")

    found = {}
    for do in (read, environ, write, write_here, look, program, connect, listen, allowed):
        try:
            do()
            found[do.__name__] = "done"
        except Exception as error:
            found[do.__name__] = type(error).__name__
    return found
