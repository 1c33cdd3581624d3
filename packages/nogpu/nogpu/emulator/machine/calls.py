"""Device functions that were not inlined, printf, assert and trap.

A call ends its basic block. Its threads go into the function as if it stood in the place of the
call; who has left it goes on in the caller once nobody inside can run (see `grouping.Running`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine import spinning
from nogpu.emulator.machine.attribution import accuse, first_offender
from nogpu.emulator.machine.grouping import (
    Call,
    Group,
    Pool,
    Running,
    enter,
    first_registers,
    name_threads,
    push,
)
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import Mask, array_of
from nogpu.emulator.ptx import ends
from nogpu.emulator.ptx.layout import LOCAL_WINDOW
from nogpu.errors import EmulationError

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.program import Block


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
    """Threads come to the call of a device function, which runs when the block has ended."""
    if mask is not None and mask.n == 0:
        for r in returns:
            frame.setdefault(r, _nothing())
        return
    values = {f: dict(frame.get(a, {})) for f, a in zip(formal, actual, strict=False)}
    state.calls.append(Call(name, values, formal_returns, returns, locals_size, mask))


def begin(state: State, running: Running, pool: Pool, block: Block, mask: Group) -> None:
    """The threads of a block that called go into what they called, the others on."""
    to, state.calls = state.calls, []
    assert isinstance(block.end, ends.Jump)
    rest = state.within(mask)
    for call in to:
        rest = state.narrowed(rest, ~array_of(call.mask))
        _enter(state, running, block, call)
    push(state, pool, block.end.to, rest)


def _enter(state: State, caller: Running, block: Block, call: Call) -> None:
    """Threads come into a function, as the first or to others who are still in it."""
    inside = caller.callees.get((block.start, call.name))
    if inside is not None:
        name_threads(inside)
        mine = array_of(call.mask)
        for name, values in call.parameters.items():
            _put(inside.frame.setdefault(name, {}), values, mine)
        inside.live = state.mask(array_of(inside.live) | mine)
        inside.pools.append({0: call.mask})
        return
    depth = caller.depth + 1
    if depth > _MAX_DEPTH:
        raise EmulationError(
            f"device functions call each other {_MAX_DEPTH} levels deep at {call.name!r}. Use a "
            "loop instead of recursion"
        )
    program = state.launch.program.functions[call.name]
    inside = Running(
        program,
        first_registers(program),
        call.parameters,
        live=call.mask,
        caller=caller,
        call=call,
        block=block,
        depth=depth,
        local_base=caller.local_base + call.locals_size,
        pools=[{0: None}],
    )
    caller.callees[block.start, call.name] = inside
    state.frames.append(inside)


def _put(into: dict[int, Array], values: dict[int, Array], lanes: Array) -> None:
    """Set values, by byte, for some lanes; others keep what they have."""
    for at, value in values.items():
        old = into.get(at)
        if old is None:
            into[at] = value
            continue
        size = max(old.dtype.itemsize, value.dtype.itemsize)
        now, then = (v.view(f"u{v.dtype.itemsize}").astype(f"u{size}") for v in (value, old))
        into[at] = np.where(lanes, now, then)


def leave(state: State, running: Running, gone: Group, whole: bool) -> None:
    """Threads leave a function for the one that called it, or the kernel as a whole."""
    caller, call = running.caller, running.call
    assert caller is not None and call is not None
    lanes = array_of(gone)
    if whole:
        outer: Running | None = caller
        while outer is not None:
            outer.live = state.narrowed(outer.live, ~lanes)
            outer = outer.caller
        return
    running.returned.append(gone)
    everyone = state.count(gone) == state.count(caller.live)
    for name, result in zip(call.returns, call.results, strict=False):
        values = running.frame.get(result, {})
        if everyone:
            caller.frame[name] = dict(values)
        else:
            _put(caller.frame.setdefault(name, {}), values, lanes)


def give_back(state: State, running: Running) -> None:
    """Nobody in a function can run: those who have left it go on where they called it."""
    caller, call, block = running.caller, running.call, running.block
    assert caller is not None and call is not None and block is not None
    if running.live is not None and running.live.n == 0:
        state.frames.remove(running)
        del caller.callees[block.start, call.name]
    if not running.returned:
        return
    enter(state, caller)
    if not caller.pools:
        caller.pools.append({})
    pool = caller.pools[-1]
    assert isinstance(block.end, ends.Jump)
    for gone in running.returned:
        whole = state.count(gone) == state.count(state.live)
        push(state, pool, block.end.to, None if whole else gone)
    running.returned = []
    for spin in block.spins or ():
        spinning.set_aside(state, caller, pool, spin)


def _nothing() -> dict[int, Array]:
    """The result of a call that was not made."""
    return {k * 4: np.zeros((1, 1, 1, 1), "i4") for k in range(16)}


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
    both, here = np.broadcast_arrays(pointer, array_of(mask))
    for r in returns:  # what those get who call nothing
        _put(frame.setdefault(r, {}), _nothing(), here)
    for address in np.unique(both[here]):
        lanes = state.narrowed(mask, pointer == address)
        name = state.launch.program.function_at(int(address))
        if not name:
            lane = first_offender(state, array_of(lanes))
            accuse(
                "out-of-bounds",
                line,
                lane,
                f"{lane} calls through a pointer that holds {int(address):#x}, which is no device "
                "function. Set the pointer in device code: an address taken on the host means "
                "nothing there",
            )
            continue
        callee = state.launch.program.module.functions[name]
        if (len(callee.params), len(callee.returns)) != (len(actual), len(returns)):
            raise EmulationError(
                f"line {line}: {name!r} is called through a pointer with {len(actual)} arguments "
                f"and takes {len(callee.params)}. Cast the pointer to the function's own type"
            )
        formal = tuple(p.name for p in callee.params)
        formal_returns = tuple(p.name for p in callee.returns)
        call_function(
            state, frame, name, formal, actual, formal_returns, returns, locals_size, lanes
        )


_FORMAT = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t|L)?([a-zA-Z%])")
_SIZE = re.compile(r"\d+")
_MAX_FIELD, _MAX_LINE = 1_000, 2_000
"""Characters of one value, by its width or precision, and of one printf: a report is to be read."""


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
    chosen = state.by_thread(array_of(mask))
    text_at, args_at = (state.by_thread(frame[name][0]) for name in actual[:2])
    memory = state.local_memory()
    for column in range(state.blocks):
        for thread in np.flatnonzero(chosen[:, column]):
            if len(output) >= _MAX_OUTPUT:
                return
            pattern = _c_string(state, int(text_at[thread, column]))
            place = int(args_at[thread, column]) - LOCAL_WINDOW
            lane = int(thread) * state.blocks + column
            text = _formatted(state, pattern, memory, place, lane)
            cut = f" ... (cut: {len(text):,} characters)\n" if len(text) > _MAX_LINE else ""
            output.append(text[:_MAX_LINE] + cut)


def _c_string(state: State, address: int) -> str:
    buffer = state.launch.heap.at(address)
    if buffer is None:
        return "(text outside any array)"
    raw = bytes(buffer.data[address - buffer.base :])
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _formatted(state: State, pattern: str, memory: Any, place: int, lane: int) -> str:
    def word(at: int) -> int:
        return int(memory.data[at >> 2, lane]) if 0 <= at <= memory.nbytes - 4 else 0

    def star(_: re.Match[str]) -> str:
        """A width or a precision that is an argument."""
        nonlocal place
        place = -(-place // 4) * 4 + 4
        return str((word(place - 4) ^ 1 << 31) - (1 << 31))

    def replace(match: re.Match[str]) -> str:
        nonlocal place
        letter = match.group(1)
        if letter == "%":
            return "%"
        spec = re.sub(r"\.-\d+", "", re.sub(r"\*", star, match.group(0)))  # below zero: none
        flags = re.sub(r"(hh|h|ll|l|z|j|t|L)(?=[a-zA-Z]$)", "", spec)
        if any(len(n) > 4 or int(n) > _MAX_FIELD for n in _SIZE.findall(flags)):
            raise ValueError(f"{spec}: more than {_MAX_FIELD} characters")
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
    lane = first_offender(state, array_of(mask))
    text = _c_string(state, lane.value(frame[actual[0]][0]))
    accuse("assert", line, lane, f"assert({text}) fails for {lane}")


def trapped(state: State, line: int, mask: Mask | None) -> None:
    """trap: a finding; these threads end, the others go on."""
    if mask is not None and mask.n == 0:
        return
    lane = first_offender(state, array_of(mask))
    why = (
        "this_grid().sync() needs a cooperative launch, and this is a normal one, as <<<>>> makes "
        "it. Launch it so (cudaLaunchCooperativeKernel; here: cooperative=True), or end the kernel "
        "there and launch a second one for what follows"
        if state.launch.program.cooperative and not state.launch.cooperative
        else "A GPU stops the launch with an error here"
    )
    accuse("trap", line, lane, f"{lane} comes to a trap. {why}")
