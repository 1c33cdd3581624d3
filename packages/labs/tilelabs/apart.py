"""A job in a process of its own: what it wastes, it wastes of that process.

    done = run("tilelabs.judging.compiling:compiled", {"source": text}, readable=folders)
    done.value if not done.fault else done.fault

`kept` does the same in a process that stays for the next job. The child starts from nothing: its
own session, an empty folder as its working directory, a few words of environment, limits on memory,
processor time and files. What it is told comes in by a pipe as lines of JSON and goes out so, with
a limit on its size; the parent decides what to make of it. Where the kernel has Landlock, the child
can be locked first: it reads below the folders that it is given, writes nowhere, starts no program
and opens no TCP connection. Linux has all of it; macOS enforces no limit on memory, Windows has
neither.
"""

import atexit
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from nogpu.errors import ConfigError, EmulationError, TileError

MB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What a job may use: bytes of address space, seconds of processor time, bytes of what it
    answers, and of each file that it writes into its own folder (0: it writes none); files that are
    open at a time.

    wall: seconds by the clock after which a job that waits is ended; one that computes is given as
    many again, so that a busy machine costs nobody anything.
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
    KeyboardInterrupt, ends the child. job: what JSON can say, and so is what the function returns.
    readable: files and folders that it may read, all else is locked; None: no lock. environment:
    variables beside those of `_environment`. Raises ConfigError: no "module:function", or a lock
    where this machine has none.
    """
    limits = limits or Limits()
    child = _started(call, limits, readable, environment, once=True)
    try:
        return _answered(child, job, limits)
    finally:
        _end(child)


def here(call: str, job: Mapping[str, Any], *_: object, **__: object) -> Done:
    """The same in this process, without any limit: for where there are no others, as in a browser,
    and for what tests one other defence.
    """
    module, name = call.split(":")
    function = getattr(importlib.import_module(module), name)
    reply = _tried(partial(_call, function, json.dumps(job).encode()), Limits())[1]
    return Done(**json.loads(json.dumps(reply)))


def kept(
    call: str, job: Mapping[str, Any], limits: Limits, *, readable: Iterable[Path | str] | None
) -> Done:
    """The same in a process that lives on for the next such job, if this one came to its end in it.

    Each job has the processor time of `limits` anew; what it leaves in the memory of that process
    stays there, so that all jobs of it are one reader's. Errors as of `run`.
    """
    locked = None if readable is None else tuple(os.fspath(path) for path in readable)
    key = (os.getpid(), call, limits, locked)  # a copy of this process has children of its own
    with _ONE_AT_A_TIME:
        child = _CHILDREN.pop(key, None)
        if child is None or child.process.poll() is not None:
            child = _started(call, limits, locked, None, once=False)
        try:
            done = _answered(child, job, limits)
        except BaseException:
            _end(child)
            raise
        if done.ended or done.fault:
            _end(child)
        else:
            _CHILDREN[key] = child
        return done


@dataclass(frozen=True)
class _Child:
    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]


_CHILDREN: dict[tuple[object, ...], _Child] = {}
_ONE_AT_A_TIME = threading.Lock()


@atexit.register
def _end_all() -> None:
    for key, child in _CHILDREN.items():
        if key[0] == os.getpid():
            _end(child)


def _started(
    call: str,
    limits: Limits,
    readable: Iterable[Path | str] | None,
    environment: Mapping[str, str] | None,
    once: bool,
) -> _Child:
    """A child that loads its function, locks itself and waits for jobs, a line each."""
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
        "once": once,
    }
    folder = tempfile.TemporaryDirectory(prefix="apart-")
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _BOOT, call],  # by name in a list of processes
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder.name,
        env=_environment(folder.name) | dict(environment or {}),
        start_new_session=True,
    )
    _write(process, json.dumps(head).encode() + b"\n")
    return _Child(process, folder)


HANDED_ON = (
    "TILE_COMPILER", "SYSTEMROOT", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH"
)  # fmt: skip


def _environment(home: str) -> dict[str, str]:
    """All that the child knows of this machine by name: what its compiler is found by. Its cache of
    programs is off.
    """
    own = {n: os.environ[n] for n in HANDED_ON if n in os.environ}
    return own | {
        "PATH": os.defpath,
        "HOME": home,
        "TMPDIR": home,
        "LC_ALL": "C.UTF-8",
        "TILE_CACHE": "0",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _write(process: subprocess.Popen[bytes], text: bytes) -> None:
    assert process.stdin is not None
    with suppress(OSError, ValueError):  # it has ended, and why is told when it is heard
        process.stdin.write(text)
        process.stdin.flush()


def _answered(child: _Child, job: Mapping[str, Any], limits: Limits) -> Done:
    """Give a child a job, and hear its answer."""
    began = time.monotonic()
    line = json.dumps(job).encode() + b"\n"
    threading.Thread(target=_write, args=(child.process, line), daemon=True).start()
    answer, ended = _heard(child.process, limits)
    whole = ended or answer.endswith(b"\n")
    status = None if whole else child.process.wait()
    return _done(answer, ended, status, limits, time.monotonic() - began)


def _heard(process: subprocess.Popen[bytes], limits: Limits) -> tuple[bytes, str]:
    """A line from a child; what ended that, if it was us."""
    assert process.stdout is not None
    heard: list[bytes] = []
    size, until = 0, time.monotonic() + limits.wall
    first = spent = _spent(process.pid)
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while True:
            left = until - time.monotonic()
            if left <= 0 or not waiting.select(left):
                now = _spent(process.pid)
                if now - spent < LEAST * limits.wall or now - first > 2 * limits.seconds + 2:
                    return b"", "time"
                spent, until = now, time.monotonic() + limits.wall
                continue
            piece = os.read(process.stdout.fileno(), 1 << 16)
            heard.append(piece)
            size += len(piece)
            if size > limits.answer:
                return b"", "answer"
            if not piece or piece.endswith(b"\n"):
                return b"".join(heard), ""


LEAST = 0.01
"""Of the time by the clock: who computes for less waits for something that does not come."""


def _spent(pid: int) -> float:
    """Seconds of processor time of a process so far; 0 where nobody tells (no /proc)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return 0.0


def _end(child: _Child) -> None:
    """Nothing of the child stays: its whole session ends."""
    with suppress(OSError):
        os.killpg(child.process.pid, signal.SIGKILL)
    child.process.wait()
    for pipe in (child.process.stdin, child.process.stdout):
        with suppress(OSError, AttributeError):
            pipe.close()  # type: ignore[union-attr]
    child.folder.cleanup()


def _done(answer: bytes, ended: str, status: int | None, limits: Limits, took: float) -> Done:
    if ended == "time":
        fault = f"it computed nothing for {limits.wall:g} s"
    elif ended == "answer":
        fault = f"it answered more than {limits.answer // MB} MB"
    elif status is not None and status < 0:
        name = signal.Signals(-status).name
        ended = "time" if name in ("SIGXCPU", "SIGKILL") else "signal"
        fault = f"its process ended by {name}, as it does for want of memory"
        if ended == "time":
            fault = f"it took more than {limits.seconds} s of processor time"
    else:
        try:
            return Done(**json.loads(answer), seconds=took)
        except (ValueError, TypeError):
            ended, fault = "silence", f"its process ended (status {status}) and said nothing"
    return Done(None, fault, ended, seconds=took)


# -- in the child ----------------------------------------------------------------------------------


def serve(head: Mapping[str, Any]) -> None:
    """What the child does: take its limits, load the function, lock itself, and answer each job."""
    limits, once = Limits(**head["limits"]), bool(head["once"])
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _die_with_the_parent()
    _limit("AS", limits.memory)
    _limit("FSIZE", limits.files)
    _limit("CORE", 0)
    _limit("NOFILE", limits.opened)
    module, name = head["call"].split(":")

    def limit_time() -> None:
        _limit("CPU", round(time.process_time()) + limits.seconds, for_good=once)

    def ready() -> Callable[[Any], Any]:
        limit_time()
        home = importlib.import_module(module)
        getattr(home, "ready", lambda: None)()
        if head["readable"] is not None:
            lock(head["readable"])
        return cast("Callable[[Any], Any]", getattr(home, name))

    function, failed = _tried(ready, limits)
    for line in sys.stdin.buffer:
        if function is None:
            _answer(out, failed)
            break
        limit_time()
        _answer(out, _tried(partial(_call, function, line), limits)[1])
    os._exit(0)


def _call(function: Callable[[Any], Any], line: bytes) -> Any:
    """What a function makes of a job. Raises TypeError or ValueError where JSON cannot say it."""
    value = function(json.loads(line))
    json.dumps(value)
    return value


def _tried(call: Callable[[], Any], limits: Limits) -> tuple[Any, dict[str, Any]]:
    """What a call gives, and how that is told; None and why where it raises."""
    fault = kind = ended = ""
    value = None
    try:
        value = call()
    except MemoryError:
        fault, ended = f"it needed more than {limits.memory // MB:,} MB of memory", "memory"
    except TileError as error:
        fault, kind = str(error), type(error).__name__
    except Exception as error:
        fault, kind = f"{type(error).__name__}: {error}", type(error).__name__
    return value, {"value": value, "fault": fault, "ended": ended, "kind": kind}


def _answer(out: int, reply: Mapping[str, Any]) -> None:
    text = memoryview(json.dumps(reply).encode() + b"\n")
    while text:
        text = text[os.write(out, text) :]


def _limit(what: str, most: int, *, for_good: bool = True) -> None:
    """One of this process's limits, by its name; or one that it may raise again."""
    try:
        import resource
    except ImportError:  # Windows
        return
    name = getattr(resource, f"RLIMIT_{what}")
    hard = resource.getrlimit(name)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with suppress(ValueError, OSError):  # macOS refuses some
        resource.setrlimit(name, (most, most if for_good else hard))


ROOM = 4096 * MB
"""What a reader's kernel may make the emulator take in the process of their notebook."""


@contextmanager
def room(most: int = ROOM) -> Iterator[None]:
    """Within it this process takes at most so much more memory. Raises EmulationError where it
    would take more; Linux alone enforces that (macOS limits no address space, Windows has no such
    limit).
    """
    try:
        import resource

        taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError):
        yield
        return
    limits = resource.getrlimit(resource.RLIMIT_AS)
    _limit("AS", taken * resource.getpagesize() + most, for_good=False)
    try:
        yield
    except (MemoryError, EmulationError) as error:
        if not isinstance(error.__cause__ or error, MemoryError):  # the emulator names its cause
            raise
        raise EmulationError(
            f"the emulator was stopped, since it would have needed more than {most // MB:,} MB of "
            "memory: make the kernel's arrays smaller, or its grid"
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


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
