"""Streams, events and what the device says of itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.pretended import clock, machines

_stack = threading.local()


def _rate(dtype):
    """FLOP/s at most, in the pretended GPU's lanes or its Tensor Cores."""
    p = machines.here().properties
    lanes = 64 if (p["major"], p["minor"]) == (7, 5) else 128
    peak = p["multiProcessorCount"] * lanes * 2 * p["clockRate"] * 1e3
    return peak / 7 * {"float16": 6.0, "uint16": 6.0, "float64": 0.05}.get(dtype, 1.0)


def _seconds(name, m, n, k, dtype, library=False):
    """How long a product takes; the larger the less overhead."""
    most = _rate(dtype) * (6.5 if library and dtype != "float64" else 6.0)
    most *= m * n / (m * n + 200.0**2)
    return 4e-6 + 2.0 * m * n * k / clock.rate(most, name, m, n, k)


class Stream:
    """A queue of work. Its end is a moment of the pretended host's clock."""

    _count = 0

    def __init__(self, null=False, non_blocking=False, **_):
        Stream._count += 1
        self.ptr = 0 if null else Stream._count
        self._end = 0
        self.captured: list[Callable[[], None]] | None = None
        _streams[self.ptr] = self

    def _work(self, seconds):
        self._end = max(clock.now(), self._end) + int(1e9 * seconds)

    def _copy(self, nbytes, direction, pinned=False):
        gbs = clock.rate(11.0 if pinned else 4.0, direction, pinned) + 0.4
        self._work(8e-6 + nbytes / gbs / 1e9)

    def __enter__(self):
        _stack.__dict__.setdefault("streams", []).append(self)
        return self

    def __exit__(self, *_):
        _stack.streams.pop()

    def synchronize(self):
        clock.wait_until(self._end)

    def begin_capture(self, mode=None):
        self.captured = []

    def is_capturing(self):
        return self.captured is not None

    def end_capture(self):
        assert self.captured is not None
        made, self.captured = Graph(self.captured), None
        return made

    def wait_event(self, event):
        self._end = max(self._end, event._at)


_streams: dict[int, Stream] = {}


class Graph:
    """Launches that were captured, started together."""

    def __init__(self, work):
        self._work = work

    def launch(self, stream=None):
        for each in self._work:
            each()


class Event:
    """A mark in a stream."""

    def __init__(self, block=False, disable_timing=False, **_):
        self._at, self._recorded = 0, False

    def record(self, stream=None):
        stream = stream or get_current_stream()
        self._at, self._recorded = max(clock.now(), stream._end), True

    def synchronize(self):
        clock.wait_until(self._at)


Stream.null = Stream(null=True)


def get_current_stream():
    streams = getattr(_stack, "streams", [])
    return streams[-1] if streams else Stream.null


def get_elapsed_time(start, end):
    """Milliseconds between two events: as long as it takes, some more, some less, in turn."""
    if not (start._recorded and end._recorded):
        raise RuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
    took = (end._at - start._at) / 1e6
    return took * (1, 1.01, 0.99)[clock.turn(took) % 3]


def set_allocator(allocator=None):
    """Nothing: memory is the host's."""


class PinnedMemory:
    def __init__(self, size, flags=0):
        self.size = size


def PinnedMemoryPointer(mem, offset):
    return bytearray(mem.size - offset)


def alloc_pinned_memory(size):
    return bytearray(size)


from cupy.cuda import device, driver, function, memory, runtime  # noqa: E402
from cupy.cuda.device import Device  # noqa: E402

__all__ = ["Device", "Event", "Stream", "device", "driver", "function", "memory", "runtime"]


def __getattr__(name):
    if name in ("cublas", "compiler"):
        import importlib

        return importlib.import_module(f"cupy.cuda.{name}")
    raise AttributeError(
        f"the pretended cupy.cuda has no {name}; add it in tests/pretended/site/cupy/cuda"
    )
