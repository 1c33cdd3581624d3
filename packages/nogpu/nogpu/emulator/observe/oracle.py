"""The oracle of results: which elements of an array came out wrong, and who wrote them last.

A kernel that computes the wrong thing inside the right arrays breaks no rule of memory. Given what
an array should hold, the oracle compares; only if something differs, the launch is run again from
the same contents with a log of stores, which names the thread and the source line behind each wrong
element. Launches are deterministic, so the second run does what the first did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.bfloat16 import from_bfloat16
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.memory import Buffer, Heap
from nogpu.emulator.observe.stores import LastStores
from nogpu.emulator.ptx.sites import calls_of
from nogpu.errors import EmulationError, UnknownNameError, near_matches

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State

Expectation = Array | tuple[Array, float | Array]
"""What an array should hold after the launch, alone or with the largest error that is allowed."""

KIND = "wrong-result"
_SHOWN = 4  # wrong elements that a finding names


@dataclass(frozen=True)
class Mismatch:
    """The wrong elements of one array: their flat positions, and the values there."""

    name: str
    shape: tuple[int, ...]
    at: Array  # int64, ascending
    got: Array
    want: Array


def check(expect: Mapping[str, Expectation], heap: Heap, entry: str) -> None:
    """Raise UnknownNameError or EmulationError for an expectation that fits no array."""
    buffers = _named(heap)
    for name, expected in expect.items():
        if name not in buffers:
            raise UnknownNameError(
                f"expect: {entry} was given no array {name!r}. {near_matches(name, buffers)}"
            )
        want, bound = parts(expected)
        have = buffers[name].nbytes // buffers[name].itemsize
        if want.size != have:
            raise EmulationError(
                f"expect[{name!r}] has shape {want.shape}, {want.size} elements; {name} of {entry} "
                f"has {have}. Give a value for each element"
            )
        if bound is not None and bound.shape not in ((), want.shape):
            raise EmulationError(
                f"expect[{name!r}]: the bound has shape {bound.shape}, the values {want.shape}. "
                "Give one number, or one for each element"
            )


def compare(expect: Mapping[str, Expectation], heap: Heap) -> list[Mismatch]:
    """The elements that differ from what is expected, array by array."""
    buffers, out = _named(heap), []
    for name, expected in expect.items():
        buffer = buffers[name]
        assert buffer.kind is not None
        want, bound = parts(expected)
        got = buffer.data.view(buffer.kind)
        if got.dtype == np.uint16 and want.dtype.kind == "f":
            got = from_bfloat16(got)
        if bound is None:
            bound = np.asarray(_default_bound(buffer.kind, want))
        at = np.flatnonzero(~_agrees(got, want, bound))
        if at.size:
            shape = want.shape if want.ndim > 1 else buffer.shape or want.shape
            out.append(Mismatch(name, shape, at, got[at], want.ravel()[at]))
    return out


def _named(heap: Heap) -> dict[str, Buffer]:
    """The arrays that the caller gave, by name."""
    return {b.name: b for b in heap.slots.values() if b.kind is not None}


def parts(expected: Expectation) -> tuple[Array, Array | None]:
    want, bound = expected if isinstance(expected, tuple) else (expected, None)
    return np.asarray(want), None if bound is None else np.asarray(bound)


def _agrees(got: Array, want: Array, bound: Array) -> Array:
    """bool, flat: within the bound, or equal, or both NaN."""
    want = want.ravel()
    if got.dtype.kind in "iub" and want.dtype.kind in "iub" and not bound.any():
        return np.asarray(got == want)  # exact beyond what float64 holds
    x, y = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(x - y) <= bound.ravel()
    return np.asarray(near | (x == y) | (np.isnan(x) & np.isnan(y)))


def _default_bound(kind: np.dtype[Any], want: Array) -> float:
    """sqrt(eps) of the array's type times the largest finite magnitude; integers: 0."""
    if want.dtype.kind in "iub" or (kind.kind in "iub" and kind != np.uint16):
        return 0.0
    eps = float(np.finfo(kind).eps) if kind.kind == "f" else 2.0**-7  # else: bfloat16
    values = np.abs(want.astype(np.float64))
    return float(np.sqrt(eps) * values[np.isfinite(values)].max(initial=0.0))


# -- keeping and restoring what the launch changes -----------------------------------------------


def snapshot(args: Iterable[Any]) -> list[tuple[Array, Array]]:
    """Every writeable array in the arguments, with a copy of its contents."""
    copies = []
    for value in args:
        if isinstance(value, tuple | list):
            copies += snapshot(value)
        elif isinstance(value, np.ndarray) and value.flags.writeable:
            copies.append((value, value.copy()))
    return copies


def restore(copies: Sequence[tuple[Array, Array]]) -> None:
    """Put these contents back."""
    for array, contents in copies:
        np.copyto(array, contents)


# -- the second run ------------------------------------------------------------------------------


def store_log(mismatches: Sequence[Mismatch], heap: Heap) -> LastStores:
    """Who logs the stores to the arrays of wrong elements."""
    buffers = _named(heap)
    return LastStores([buffers[w.name] for w in mismatches])


def report(
    state: State,
    mismatches: Sequence[Mismatch],
    log: LastStores,
    heap: Heap,
    line: int,
    ended: bool,
) -> None:
    """Enter findings about wrong elements, by array and writing line.

    state: any batch of the logged run, for its words. line: of the kernel, for what nobody wrote.
    ended: whether the logged run came to its end; if not, a writer may be missing.
    """
    buffers = _named(heap)
    for w in mismatches:
        stores = log.of(buffers[w.name])
        sites = [(s.line, calls_of(s.line)) for s in state.launch.program.sites]
        sites.append((-1, ()))  # nobody's site is the last one
        lines = sorted(set(sites))
        number = np.array([lines.index(line) for line in sites])
        writers = number[stores.site[w.at]]
        for each in np.unique(writers):
            writer = lines[each][0]
            here = np.flatnonzero(writers == each)
            first = int(here[0])
            thread = int(stores.thread[w.at[first]])
            if writer >= 0:
                who = f"thread {state.global_thread_text(thread)} wrote it last, here"
            else:
                who = "no thread wrote it" if ended else "who wrote it was not found in time"
            place = _index(w, first)
            state.find(
                KIND,
                writer if writer >= 0 else line,
                f"{_comparison(w, first)}; {who}. {_extent(w, here)}",
                len(here),
                array=w.name,
                index=place,
                threads=(thread % state.threads,) if writer >= 0 else (),
                block=state.block_of(thread // state.threads) if writer >= 0 else None,
            )


def describe(w: Mismatch) -> str:
    """The wrong elements of an array in words; nobody saw who wrote them."""
    return f"{_comparison(w, 0)}. {_extent(w, np.arange(w.at.size))}"


def _index(w: Mismatch, number: int) -> str:
    at = int(w.at[number])
    where = np.unravel_index(at, w.shape) if len(w.shape) > 1 else (at,)
    return f"{w.name}[{', '.join(str(int(i)) for i in where)}]"


def _comparison(w: Mismatch, number: int) -> str:
    got, want = (
        str(int(v)) if v.dtype.kind in "iub" else f"{float(v):.6g}"
        for v in (w.got[number], w.want[number])
    )
    return f"{_index(w, number)} is {got}, expected {want}"


def _extent(w: Mismatch, here: Array) -> str:
    """How many elements are wrong, between which rows and columns, and the next few by name."""
    at = w.at[here]
    if len(w.shape) == 2:
        rows, columns = np.unravel_index(at, w.shape)
        where = f"rows {rows.min()} to {rows.max()}, columns {columns.min()} to {columns.max()}"
    else:
        where = f"places {at.min()} to {at.max()}"
    text = f"Such are {len(here)} of {int(np.prod(w.shape))} elements, {where}"
    more = [_comparison(w, int(i)) for i in here[1:_SHOWN]]
    return text + ("; the next: " + "; ".join(more) if more else "")
