"""Device functions that were not inlined, printf, assert and trap."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.machine.memory import LOCAL_WINDOW
from helpers.errors import EmulationError

if TYPE_CHECKING:
    from helpers.emulator.machine.machine import State
    from helpers.emulator.machine.masks import Mask

Array = np.ndarray[Any, np.dtype[Any]]

_MAX_DEPTH = 32
_MAX_OUTPUT = 200  # printed lines that are kept


def call_function(
    state: State,
    frame: dict[str, Any],
    name: str,
    formal: tuple[str, ...],
    actual: tuple[str, ...],
    formal_returns: tuple[str, ...],
    returns: tuple[str, ...],
    locals_size: int,
    mask: Mask | None,
) -> None:
    """Run a device function for the threads of a mask, to its end."""
    if mask is not None and mask.n == 0:
        for r in returns:
            frame[r] = {k * 4: np.zeros((1, 1, 1, 1), "i4") for k in range(16)}
        return
    if state.depth >= _MAX_DEPTH:
        raise EmulationError(
            f"device functions call each other {_MAX_DEPTH} levels deep at {name!r}. Use a loop "
            "instead of recursion"
        )
    inner: dict[str, Any] = {f: frame.get(a, {}) for f, a in zip(formal, actual, strict=False)}
    program = state.launch.program.functions[name]
    live = state.live
    state.live = mask
    state.depth += 1
    state.local_base += locals_size
    try:
        state.run(program, inner)
    finally:
        state.local_base -= locals_size
        state.depth -= 1
        state.live = live
    for r, f in zip(returns, formal_returns, strict=False):
        frame[r] = inner.get(f, {})


def call_pointed(
    state: State,
    frame: dict[str, Any],
    pointer: Array,
    actual: tuple[str, ...],
    returns: tuple[str, ...],
    locals_size: int,
    line: int,
    mask: Mask | None,
) -> None:
    """A call through a pointer or of a virtual function: one call for each function meant."""
    held: dict[str, dict[int, Array]] = {r: {} for r in returns}
    arr = np.ones((1, 1, 1, 1), bool) if mask is None else mask.arr
    both, here = np.broadcast_arrays(pointer, arr)
    for address in np.unique(both[here]):
        lanes = state.narrowed(mask, pointer == address)
        name = state.launch.program.function_at(int(address))
        if not name:
            _no_function(state, int(address), line, lanes)
            continue
        callee = state.launch.program.module.functions[name]
        if (len(callee.params), len(callee.returns)) != (len(actual), len(returns)):
            raise EmulationError(
                f"line {line}: {name!r} is called through a pointer with {len(actual)} arguments and "
                f"takes {len(callee.params)}. Cast the pointer to the function's own type"
            )
        formal = tuple(p.name for p in callee.params)
        formal_returns = tuple(p.name for p in callee.returns)
        call_function(
            state, frame, name, formal, actual, formal_returns, returns, locals_size, lanes
        )
        for r in returns:
            for at, value in frame[r].items():
                old = held[r].get(at)
                if old is not None and old.itemsize == value.itemsize:
                    value = value.view(
                        old.dtype
                    )  # bits: another function may have held them otherwise
                merged = value if old is None or lanes is None else np.where(lanes.arr, value, old)
                held[r][at] = merged
    for r in returns:
        frame[r] = held[r] or {k * 4: np.zeros((1, 1, 1, 1), "i4") for k in range(16)}


def _no_function(state: State, address: int, line: int, mask: Mask | None) -> None:
    arr = np.ones((1, 1, 1, 1), bool) if mask is None else mask.arr
    thread, column = state.first_lane(arr)
    state.find(
        "out-of-bounds",
        line,
        f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} calls through a "
        f"pointer that holds {address:#x}, which is no device function. Set the pointer in device "
        "code: an address taken on the host means nothing there",
        int(np.count_nonzero(arr)) * (state.lanes // arr.size),
        threads=(thread,),
        block=state.block_tuple(column),
    )


_FORMAT = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t|L)?([a-zA-Z%])")


def print_formatted(
    state: State,
    frame: dict[str, Any],
    actual: tuple[str, ...],
    returns: tuple[str, ...],
    mask: Mask | None,
) -> None:
    """vprintf: text into the report, block by block, thread by thread."""
    for r in returns:
        frame[r] = {0: np.zeros((1, 1, 1, 1), "i4")}
    if mask is not None and mask.n == 0:
        return
    output = state.launch.output
    arr = np.ones((1, 1, 1, 1), bool) if mask is None else mask.arr
    chosen = np.broadcast_to(arr, state.shape).reshape(state.threads, state.blocks)
    text_at = np.broadcast_to(frame[actual[0]][0], state.shape).reshape(chosen.shape)
    args_at = np.broadcast_to(frame[actual[1]][0], state.shape).reshape(chosen.shape)
    memory = state.local_memory()
    for column in range(state.blocks):
        for thread in np.flatnonzero(chosen[:, column]):
            if len(output) >= _MAX_OUTPUT:
                return
            pattern = _c_string(state, int(text_at[thread, column]))
            place = int(args_at[thread, column]) - LOCAL_WINDOW
            lane = int(thread) * state.blocks + column
            output.append(_formatted(state, pattern, memory, place, lane))


def _c_string(state: State, address: int) -> str:
    buffer = state.launch.heap.at(address)
    if buffer is None:
        return "(text outside any array)"
    raw = bytes(buffer.data[address - buffer.base :])
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _formatted(state: State, pattern: str, memory: Any, place: int, lane: int) -> str:
    def word(at: int) -> int:
        return int(memory.data[at >> 2, lane]) if 0 <= at <= memory.nbytes - 4 else 0

    def replace(found: re.Match[str]) -> str:
        nonlocal place
        letter, spec = found.group(1), found.group(0)
        if letter == "%":
            return "%"
        flags = re.sub(r"(hh|h|ll|l|z|j|t|L)(?=[a-zA-Z]$)", "", spec)
        wide = letter in "fFeEgGaAsp" or re.search(r"(ll|l|z|j|t)[a-zA-Z]$", spec)
        size = 8 if wide else 4
        place = -(-place // size) * size
        bits = word(place) | (word(place + 4) << 32 if wide else 0)
        place += size
        if letter in "fFeEgG":
            value: Any = np.array([bits], "u8").view("f8")[0]
            return flags % float(value)
        if letter in "aA":
            return float(np.array([bits], "u8").view("f8")[0]).hex()
        if letter == "s":
            return flags % _c_string(state, bits)
        if letter == "p":
            return f"{bits:#x}"
        if letter in "di":
            sign = 1 << (8 * size - 1)
            return (flags[:-1] + "d") % ((bits ^ sign) - sign)
        if letter == "c":
            return chr(bits & 255)
        return (flags[:-1] + ("d" if letter == "u" else letter)) % bits

    try:
        return _FORMAT.sub(replace, pattern)
    except (TypeError, ValueError, OverflowError):
        return pattern


def assert_failed(
    state: State, frame: dict[str, Any], actual: tuple[str, ...], line: int, mask: Mask | None
) -> None:
    """assert(): a finding, and the threads go on."""
    if mask is not None and mask.n == 0:
        return
    arr = np.ones((1, 1, 1, 1), bool) if mask is None else mask.arr
    thread, column = state.first_lane(arr)
    text_at = np.broadcast_to(frame[actual[0]][0], state.shape).reshape(state.threads, -1)
    text = _c_string(state, int(text_at[thread, column]))
    state.find(
        "assert",
        line,
        f"assert({text}) fails for thread {state.thread_text(thread)} of block "
        f"{state.block_tuple(column)}",
        int(np.count_nonzero(arr)) * (state.lanes // arr.size),
        threads=(thread,),
        block=state.block_tuple(column),
    )


def trapped(state: State, line: int, mask: Mask | None) -> None:
    """trap: a finding; these threads end, the others go on."""
    if mask is not None and mask.n == 0:
        return
    arr = np.ones((1, 1, 1, 1), bool) if mask is None else mask.arr
    thread, column = state.first_lane(arr)
    why = (
        "this_grid().sync() needs a cooperative launch, and this is a normal one, as <<<>>> makes it. "
        "End the kernel there, and launch a second one for what follows"
        if state.launch.program.cooperative
        else "A GPU stops the launch with an error here"
    )
    state.find(
        "trap",
        line,
        f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} comes to a trap. "
        f"{why}",
        int(np.count_nonzero(arr)) * (state.lanes // arr.size),
        threads=(thread,),
        block=state.block_tuple(column),
    )
