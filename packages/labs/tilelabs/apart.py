"""A job in a process of its own: what it wastes, it wastes of that process.

    done = run("tilelabs.judging.compiling:compiled", {"source": text}, readable=folders)
    done.value if not done.fault else done.fault

The child starts from nothing: its own session, an empty folder as its working directory, a few
words of environment, limits on memory, processor time and files. What it is told comes in by a pipe
as JSON and goes out so, with a limit on its size; the parent decides what to make of it. Where the
kernel has Landlock, the child can be locked first: it reads below the folders that it is given,
writes nowhere, starts no program and opens no TCP connection. Linux has all of it; macOS enforces
no limit on memory, Windows has neither.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nogpu.errors import ConfigError, TileError

MB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What a job may use: bytes of address space, seconds of processor time and by the clock on the
    wall, bytes of what it answers, and of each file that it writes into its own folder (0: it
    writes none); files that are open at a time.
    """

    memory: int = 2048 * MB
    seconds: int = 20
    wall: float = 60.0
    answer: int = 16 * MB
    files: int = 0
    opened: int = 64


@dataclass(frozen=True)
class Done:
    """How a job ended: its value, or a fault in a sentence; seconds by the clock on the wall.

    ended: "" if the job answered (also with an error of its own), else what ended it: "time",
    "memory", "signal", "answer" or "silence". kind: the name of an error's class.
    """

    value: Any
    fault: str = ""
    ended: str = ""
    kind: str = ""
    seconds: float = 0.0


_BOOT = (
    "import json, sys; head = json.loads(sys.stdin.buffer.readline()); sys.path[:] = "
    "head['path']; from tilelabs.apart import serve; serve(head)"
)


def run(
    call: str,
    job: Mapping[str, Any],
    limits: Limits | None = None,
    *,
    readable: Iterable[Path | str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Done:
    """Call a function ("module:function") with a job in a process of its own, and wait for it.

    Its module's `ready()`, where it has one, is called before the lock. An exception here, such as
    KeyboardInterrupt, ends the child.

    Parameters
    ----------
    job : what JSON can say, and so is what the function returns.
    readable : files and folders that it may read, all else is locked; None: no lock.
    environment : variables beside those of `_environment`.

    Raises
    ------
    ConfigError : no "module:function", or a lock where this machine has none.
    """
    limits = limits or Limits()
    if call.count(":") != 1:
        raise ConfigError(f"{call!r} names no function to call apart: write module:function")
    if readable is not None and not landlock():
        raise ConfigError(
            "this machine cannot lock a process into folders (Landlock, Linux 5.13 or newer): "
            "run without the lock, on a machine where nothing else is worth reading"
        )
    head = {
        "path": [os.path.abspath(p) if p else os.getcwd() for p in sys.path],
        "call": call,
        "limits": asdict(limits),
        "readable": None if readable is None else [os.fspath(p) for p in readable],
    }
    text = json.dumps(head).encode() + b"\n" + json.dumps(job).encode()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="apart-") as nowhere:
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=nowhere,
            env=_environment(nowhere) | dict(environment or {}),
            start_new_session=True,
        )
        try:
            answer, ended = _talk(child, text, limits, began + limits.wall)
            status = child.wait() if not ended else None
        finally:
            _end(child)
    return _done(answer, ended, status, limits, time.monotonic() - began)


def _environment(home: str) -> dict[str, str]:
    """All that the child knows of this machine by name. Its cache of programs is off."""
    own = {n: os.environ[n] for n in ("TILE_COMPILER", "SYSTEMROOT") if n in os.environ}
    return own | {
        "PATH": os.defpath,
        "HOME": home,
        "TMPDIR": home,
        "LC_ALL": "C.UTF-8",
        "TILE_CACHE": "0",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _talk(
    child: subprocess.Popen[bytes], text: bytes, limits: Limits, until: float
) -> tuple[bytes, str]:
    """Give the child its text and hear its answer; what ended that, if the parent did."""
    assert child.stdin is not None and child.stdout is not None

    def tell(to: Any = child.stdin) -> None:
        with suppress(OSError):
            to.write(text)
        with suppress(OSError):
            to.close()

    threading.Thread(target=tell, daemon=True).start()
    heard: list[bytes] = []
    size = 0
    with selectors.DefaultSelector() as waiting:
        waiting.register(child.stdout, selectors.EVENT_READ)
        while True:
            left = until - time.monotonic()
            if left <= 0 or not waiting.select(left):
                return b"", "time"
            piece = os.read(child.stdout.fileno(), 1 << 16)
            if not piece:
                return b"".join(heard), ""
            heard.append(piece)
            size += len(piece)
            if size > limits.answer:
                return b"", "answer"


def _end(child: subprocess.Popen[bytes]) -> None:
    """Nothing of the child stays: its whole session ends."""
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        with suppress(OSError, AttributeError):
            pipe.close()  # type: ignore[union-attr]


def _done(answer: bytes, ended: str, status: int | None, limits: Limits, took: float) -> Done:
    if ended == "time":
        return Done(None, f"it was not done after {limits.wall:g} s", ended, seconds=took)
    if ended == "answer":
        return Done(None, f"it answered more than {limits.answer // MB} MB", ended, seconds=took)
    if status is not None and status < 0:
        name = signal.Signals(-status).name
        if name in ("SIGXCPU", "SIGKILL"):
            return Done(
                None,
                f"it took more than {limits.seconds} s of processor time",
                "time",
                seconds=took,
            )
        return Done(
            None,
            f"its process ended by {name}, as it does for want of memory",
            "signal",
            seconds=took,
        )
    try:
        reply = json.loads(answer)
        return Done(reply.get("value"), reply["fault"], reply["ended"], reply["kind"], took)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Done(
            None, f"its process ended (status {status}) and said nothing", "silence", seconds=took
        )


# -- in the child ----------------------------------------------------------------------------------


def serve(head: Mapping[str, Any]) -> None:
    """What the child does: take its limits, load the function, lock itself, and answer once."""
    limits = Limits(**head["limits"])
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _die_with_the_parent()
    _limit(limits)
    fault = kind = ended = ""
    value = None
    try:
        module, name = head["call"].split(":")
        home = importlib.import_module(module)
        getattr(home, "ready", lambda: None)()
        if head["readable"] is not None:
            lock(head["readable"])
        function: Callable[[Any], Any] = getattr(home, name)
        value = function(json.loads(sys.stdin.buffer.read()))
        json.dumps(value)
    except MemoryError:
        fault, ended, value = (
            f"it needed more than {limits.memory // MB:,} MB of memory",
            "memory",
            None,
        )
    except TileError as error:
        fault, kind = str(error), type(error).__name__
    except Exception as error:
        fault, kind, value = f"{type(error).__name__}: {error}", type(error).__name__, None
    reply = {"value": value, "fault": fault, "ended": ended, "kind": kind}
    text = memoryview(json.dumps(reply).encode())
    while text:
        text = text[os.write(out, text) :]
    os._exit(0)


def _limit(limits: Limits) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    for what, value in (
        (resource.RLIMIT_AS, limits.memory),
        (resource.RLIMIT_CPU, limits.seconds),
        (resource.RLIMIT_FSIZE, limits.files),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, limits.opened),
    ):
        hard = resource.getrlimit(what)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with suppress(ValueError, OSError):  # macOS refuses some
            resource.setrlimit(what, (most, most))


_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


def _die_with_the_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


# -- Landlock: three system calls, by number the same on every architecture ------------------------

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""How many rights about files each version of the interface knows: one bit each, from 0."""


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def landlock() -> int:
    """The version of Landlock that this machine's kernel has; 0 where it has none.

    Source: linux/landlock.h and the kernel's documentation, userspace-api/landlock.
    """
    if sys.platform != "linux":
        return 0
    found = ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, ctypes.c_size_t(0), 1)
    return max(int(found), 0)


def lock(readable: Iterable[str]) -> None:
    """From here on this process reads below these paths, and else touches no file, program or TCP
    port.

    Files that are open, and libraries that are loaded, stay so. A path that does not exist is left
    out. Raises OSError where the kernel refuses.
    """
    version = landlock()
    libc = ctypes.CDLL(None, use_errno=True)
    bits = max(n for v, n in _RIGHTS.items() if v <= max(version, 1))
    rules = _Ruleset((1 << bits) - 1, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _checked(libc.syscall(_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), 0))
    for path in readable:
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rights = _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)
        below = _Beneath(rights, opened)
        _checked(libc.syscall(_ADD, ruleset, 1, ctypes.byref(below), 0))
        os.close(opened)
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.syscall(_RESTRICT, ruleset, 0))
    os.close(ruleset)


def _checked(status: int) -> int:
    if status < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return status


__all__ = ["Done", "Limits", "landlock", "lock", "run", "serve"]
