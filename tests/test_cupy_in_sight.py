"""What the chapters show of CuPy, here or on their Deeper pages, runs: these cells with a GPU at
hand, on a CuPy that is pretended.

It refuses what CuPy refuses: an array of the host as an argument, a kernel that the text does not
have, an event that was not recorded. It refuses a Python integer, too, which CuPy passes as 64
bits. Kernels run in the emulator. On a machine with a GPU the same cells run on it.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from nogpu import device, emulator
from tests.common import texts_of
from tests.test_measure import H200
from tools.reading import run_cell, steps


class DeviceArray:
    """A copy in the GPU's memory: it can be fetched, and given to a kernel."""

    def __init__(self, host: np.ndarray) -> None:
        self.memory = np.array(host, order="C")

    def get(self) -> np.ndarray:
        return self.memory.copy()


class RawKernel:
    """cupy.RawKernel, as it is called."""

    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()) -> None:
        assert isinstance(code, str) and isinstance(options, tuple)
        self.code, self.name = code, name

    def __call__(self, grid: Any, block: Any, args: tuple[Any, ...], shared_mem: int = 0) -> None:
        given: list[Any] = []
        for arg in args:
            if isinstance(arg, DeviceArray):
                given.append(arg.memory)
            elif isinstance(arg, np.generic):
                given.append(arg)
            elif isinstance(arg, int):
                raise TypeError(f"{arg}: CuPy passes a Python integer as 64 bits")
            else:
                raise TypeError(f"Unsupported type {type(arg)}")
        whole = [tuple(size) + (1,) * (3 - len(size)) for size in (grid, block)]
        report = emulator.launch(self.code, self.name, whole[0], whole[1], given)
        assert not report.findings, report


class RawModule:
    """cupy.RawModule of a text."""

    def __init__(self, *, code: str) -> None:
        self.code = code

    def get_function(self, name: str) -> RawKernel:
        return RawKernel(self.code, name)


class Event:
    """cupy.cuda.Event: a mark that the device passes when it gets there."""

    at: float | None = None

    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        assert self.at is not None


def elapsed(start: Event, stop: Event) -> float:
    """cupy.cuda.get_elapsed_time."""
    if start.at is None or stop.at is None:
        raise RuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
    return 1e3 * (stop.at - start.at)


def pretended() -> ModuleType:
    """A module that stands for cupy."""
    cupy = ModuleType("cupy")
    stream = SimpleNamespace(synchronize=lambda: None)
    cuda = SimpleNamespace(Event=Event, get_elapsed_time=elapsed, get_current_stream=lambda: stream)
    cupy.__dict__.update(RawKernel=RawKernel, RawModule=RawModule, asarray=DeviceArray, cuda=cuda)
    return cupy


@contextmanager
def gpu_at_hand() -> Iterator[None]:
    """A GPU and its CuPy: the one of this machine, or pretended ones."""
    if device.current() is not None:
        yield
        return
    with (
        mock.patch.object(device, "current", lambda: H200),
        mock.patch.dict(sys.modules, cupy=pretended()),
    ):
        yield


@cache
def until(chapter: str, word: str) -> tuple[str, dict[str, Any]]:
    """The visible cell that holds a word, on the one page of a chapter that has it, and the names
    of that page before it, without a GPU."""
    every = (steps(text) for text in texts_of(chapter))
    pages = [[(code, tags) for kind, code, tags in page if kind == "code"] for page in every]
    [cells] = [page for page in pages if any(word in code for code, _ in page)]
    at = next(i for i, (code, _) in enumerate(cells) if word in code)
    code, tags = cells[at]
    assert not tags, f"the cell with {word} is hidden"
    names: dict[str, Any] = {"__name__": "__page__"}
    with mock.patch.object(device, "current", lambda: None):
        for before, _ in cells[:at]:
            run_cell(before, names, chapter)
    return code, names


def told(chapter: str, word: str, *changes: tuple[str, str]) -> tuple[str, dict[str, Any]]:
    """What that cell prints with a GPU at hand, and its page's names after it.

    changes: each a part of the cell's code, and what stands there instead.
    """
    code, before = until(chapter, word)
    for there, instead in changes:
        assert there in code
        code = code.replace(there, instead)
    names = dict(before)
    with gpu_at_hand():
        return run_cell(code, names, chapter)[0], names


def test_the_first_kernel_is_launched_by_cupy() -> None:
    said, names = told("01", "cupy.RawKernel")
    assert "c is a + b: True  c[515] = 515.5" in said
    assert isinstance(names["add"], RawKernel) or device.current()
    if device.current() is None:
        with pytest.raises(TypeError, match="64 bits"):
            told("01", "cupy.RawKernel", ("np.int32(n)", "n"))
    with pytest.raises(TypeError, match=r"Unsupported type|numpy\.ndarray of shape"):
        told("01", "cupy.RawKernel", ("(a_gpu,", "(a,"))


def test_events_time_a_kernel() -> None:
    smaller = [("n = 1024", "n = 32")] if device.current() is None else []
    said, names = told("02", "get_elapsed_time", *smaller)
    times = [float(ms) for ms in re.findall(r"(\d+\.\d{3}) ms", said)]
    assert len(times) == 3 and times[1] >= times[0] > 0 and times[2] > 0
    C = names["C"].get()
    wanted = names["A"].get().astype(np.float64) @ names["B"].get()
    assert np.abs(C - wanted).max() < 1e-6 * len(C)
    with pytest.raises(Exception, match="invalid resource handle"):
        told("02", "get_elapsed_time", *smaller, ("    start.record()\n", ""))


def test_without_a_gpu_the_cell_names_the_record() -> None:
    code, before = until("02", "get_elapsed_time")
    names = dict(before)
    with mock.patch.object(device, "current", lambda: None):
        said, _ = run_cell(code, names, "02")
    assert "No GPU here" in said and "in the record of the NVIDIA H200" in said
    assert f"{names['rec'].value('tiled_32', 1024):.3f} ms" in said


def test_a_text_becomes_a_module_and_is_launched() -> None:
    said, names = told("04", "cupy.RawModule")
    assert float(said.split()[-1]) < 1e-4
    assert np.isfinite(names["C"]).all() and names["C"].shape == (1000, 70)
    left_out, _ = told("04", "cupy.RawModule", ("C = C_gpu.get()", ""))
    assert "nan" in left_out
    with pytest.raises(Exception, match=r"prod_uct|not found"):
        told("04", "cupy.RawModule", ('("product")', '("prod_uct")'))
