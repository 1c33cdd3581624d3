"""What is said of lanes whose address is wrong: outside, misaligned, of no array.

An access that faults is not performed by the lanes that fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.errors import ConfigError

if TYPE_CHECKING:
    from helpers.emulator.machine.memory import Buffer
    from helpers.emulator.machine.state import State
    from helpers.emulator.ptx.sites import Site

Array = np.ndarray[Any, np.dtype[Any]]


def number(state: State, chosen: Array) -> int:
    return int(np.count_nonzero(chosen)) * (state.lanes // chosen.size)


def first_place(state: State, offset: Array, chosen: Array) -> tuple[int, int, int]:
    thread, column = state.first_lane(chosen)
    full = np.broadcast_to(offset, state.shape).reshape(state.threads, state.blocks)
    return thread, column, int(full[thread, column])


def verb(site: Site) -> str:
    return {"load": "reads", "store": "writes"}.get(site.op, "updates")


def report_wild(state: State, site: Site, target: Array, chosen: Array) -> None:
    thread, column, place = first_place(state, target, chosen)
    state.find(
        "out-of-bounds",
        site.line,
        f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} {verb(site)} "
        f"address {place:#x}, which belongs to no array",
        number(state, chosen),
        threads=(thread,),
        block=state.block_tuple(column),
    )


def _elements(count: int) -> str:
    return f"{count} element" if count == 1 else f"{count} elements"


def report_outside(
    state: State, site: Site, buffer: Buffer, offset: Array, outside: Array, width: Any
) -> None:
    """width: bytes that each lane touches, an array or one number."""
    thread, column, place = first_place(state, offset, outside)
    wide = np.broadcast_to(width, state.shape).reshape(state.threads, state.blocks)
    end = place + int(wide[thread, column]) - 1
    where = buffer.index_text(place)
    total = buffer.nbytes // buffer.itemsize
    has = f"{buffer.name} has {_elements(total)}"
    arena = state.launch.heap.arena
    if arena is not None and arena.buffer is buffer:
        where, far = f"byte {place} of the device heap", arena.beyond(end)
        has = "malloc and new did not give it out, or it was freed"
    elif place < 0:
        far = f"{_elements(-(place // buffer.itemsize))} before its start"
    else:
        far = f"{_elements(end // buffer.itemsize - total + 1)} past its end"
    state.find(
        "out-of-bounds",
        site.line,
        f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} {verb(site)} "
        f"{where}, {far}: {has}. Guard the access with the bounds",
        number(state, outside),
        array=buffer.name,
        index=where,
        threads=(thread,),
        block=state.block_tuple(column),
    )


def report_read_only(state: State, site: Site, buffer: Buffer) -> None:
    """Stores to an array that cannot be written."""
    state.find(
        "out-of-bounds",
        site.line,
        f"{buffer.name} cannot be written: it is constant memory or a read-only array. Give a "
        "writeable array",
        1,
        array=buffer.name,
    )


def report_misaligned(
    state: State, site: Site, buffer: Buffer, offset: Array, crooked: Array
) -> None:
    thread, column, place = first_place(state, offset, crooked)
    where = buffer.index_text(place)
    state.find(
        "misaligned",
        site.line,
        f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} {verb(site)} "
        f"{site.width} bytes at {where}, byte {place} of {buffer.name}: an access of {site.width} "
        f"bytes needs an address that is a multiple of {site.width}",
        number(state, crooked),
        array=buffer.name,
        index=where,
        threads=(thread,),
        block=state.block_tuple(column),
    )


def report_shared(state: State, site: Site, offset: Array, outside: Array, crooked: Array) -> None:
    """Lanes outside shared memory, and lanes that are inside and misaligned: bool, four axes."""
    width, total = site.width, state.launch.shared_bytes
    if outside.any():
        thread, column, place = first_place(state, offset, outside)
        past = place + width - total
        far = f"{past} byte(s) past its end" if place >= 0 else f"{-place} byte(s) before its start"
        forgotten = _forgotten(state, site)
        state.find(
            "out-of-bounds",
            site.line,
            f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} "
            f"{verb(site)} byte {place} of shared memory, {far}: the block has {total} bytes"
            f"{forgotten}",
            number(state, outside),
            array="shared",
            threads=(thread,),
            block=state.block_tuple(column),
        )
    if crooked.any():
        thread, column, place = first_place(state, offset, crooked)
        name, where = state.shared_name(place)
        state.find(
            "misaligned",
            site.line,
            f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} "
            f"{verb(site)} {width} bytes at {where}, byte {place} of shared memory: an access of "
            f"{width} bytes needs an address that is a multiple of {width}",
            number(state, crooked),
            array=name,
            index=where,
            threads=(thread,),
            block=state.block_tuple(column),
        )


def _forgotten(state: State, site: Site) -> str:
    """What to say of dynamic shared memory that the launch did not ask for; "" if it did.

    Raises ConfigError where the block then has no shared memory at all: nothing that follows would
    be the kernel's fault.
    """
    launch = state.launch
    if not launch.program.dynamic_shared or launch.dynamic_shared:
        return ""
    name = launch.program.shared_symbols[-1].name
    what = (
        f"{name!r} is dynamic shared memory (extern __shared__), and the launch gives none: "
        "shared_bytes=0"
    )
    if not launch.shared_bytes:
        raise ConfigError(
            f"line {site.line} {verb(site)} shared memory, but the block has none: {what}. Give its "
            f"size in bytes: launch(..., shared_bytes=...), as the third number in <<<>>>"
        )
    return f". {what}. Give its size in bytes"


def report_local(state: State, site: Site, offset: Array, fault: Array) -> None:
    """Lanes outside their local memory, or misaligned."""
    size = state.local_memory().nbytes
    thread, column, place = first_place(state, offset, fault)
    crooked = place & (site.width - 1) and 0 <= place <= size - site.width
    state.find(
        "misaligned" if crooked else "out-of-bounds",
        site.line,
        f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} "
        f"{verb(site)} {site.width} bytes at byte {place} of its local memory, which has "
        f"{size} bytes",
        number(state, fault),
        array="local",
        threads=(thread,),
        block=state.block_tuple(column),
    )
