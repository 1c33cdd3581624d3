"""What is said of lanes whose address is wrong: outside, misaligned, of no array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine.attribution import Offender, accuse, below_zero, first_offender
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.ptx.layout import HEAP_SLOT, HEAPS, SLOT_BITS
from nogpu.errors import ConfigError

if TYPE_CHECKING:
    from nogpu.emulator.machine.memory import Buffer
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site


def verb(site: Site) -> str:
    """What an instruction does to memory, in a sentence about a thread."""
    return {"load": "reads", "store": "writes"}.get(site.op, "updates")


def report_wild(state: State, site: Site, target: Array, lanes: Array) -> None:
    """Lanes (bool, four axes) whose address lies in no array."""
    lane = first_offender(state, lanes)
    place = lane.value(target)
    address = f"address {place:#x}, which belongs to no array{_of_a_heap(place)}"
    accuse("out-of-bounds", site.line, lane, f"{lane} {verb(site)} {address}")


def _of_a_heap(address: int) -> str:
    """What to say of an address that malloc or new may have given out in an earlier launch."""
    if not 0 <= (address >> SLOT_BITS) - HEAP_SLOT < HEAPS:
        return ""
    return (
        ". It lies where the device heap of an earlier launch was: what malloc and new give out "
        "lasts as long as the launch here. Keep what the next launch needs in an array"
    )


def _elements(count: int) -> str:
    return f"{count} element" if count == 1 else f"{count} elements"


def report_outside(
    state: State, site: Site, buffer: Buffer, offset: Array, lanes: Array, width: Any
) -> None:
    """Lanes outside an array. width: bytes that each lane touches, an array or one number."""
    lane = first_offender(state, lanes)
    place = lane.value(offset)
    end = place + lane.value(np.asarray(width)) - 1
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
    accuse(
        "out-of-bounds",
        site.line,
        lane,
        f"{lane} {verb(site)} {where}, {far}: {has}. Guard the access with the bounds",
        array=buffer.name,
        index=where,
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
    state: State, site: Site, buffer: Buffer, offset: Array, lanes: Array
) -> None:
    """Lanes inside an array whose address is no multiple of the width."""
    lane = first_offender(state, lanes)
    place = lane.value(offset)
    where = buffer.index_text(place)
    _misaligned(site, lane, buffer.name, where, f"byte {place} of {buffer.name}")


def _misaligned(site: Site, lane: Offender, array: str, where: str, place: str) -> None:
    width = site.width
    accuse(
        "misaligned",
        site.line,
        lane,
        f"{lane} {verb(site)} {width} bytes at {where}, {place}: an access of {width} bytes needs "
        f"an address that is a multiple of {width}",
        array=array,
        index=where,
    )


def report_shared(
    state: State, site: Site, offset: Array, outside: Array, misaligned: Array
) -> None:
    """Lanes outside shared memory, and lanes that are inside and misaligned: bool, four axes."""
    total = state.launch.shared_bytes
    if outside.any():
        lane = first_offender(state, outside)
        place = below_zero(lane.value(offset))
        past = place + site.width - total
        far = f"{past} byte(s) past its end" if place >= 0 else f"{-place} byte(s) before its start"
        accuse(
            "out-of-bounds",
            site.line,
            lane,
            f"{lane} {verb(site)} byte {place} of shared memory, {far}: the block has {total} bytes"
            f"{_hint_of_dynamic(state, site)}",
            array="shared",
        )
    if misaligned.any():
        lane = first_offender(state, misaligned)
        place = lane.value(offset)
        name, where = state.shared_name(place)
        _misaligned(site, lane, name, where, f"byte {place} of shared memory")


def report_no_peer(state: State, site: Site, rank: Array, size: int, lanes: Array) -> None:
    """Lanes (bool, four axes) that mean the shared memory of a rank that their cluster lacks."""
    lane = first_offender(state, lanes)
    accuse(
        "out-of-bounds",
        site.line,
        lane,
        f"{lane} {verb(site)} shared memory of the block of rank {lane.value(rank)}: its cluster "
        f"has {size} block(s), of ranks 0 to {size - 1}. Map to a rank below cluster.num_blocks()",
        array="shared",
    )


def _hint_of_dynamic(state: State, site: Site) -> str:
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
            f"line {site.line} {verb(site)} shared memory, but the block has none: {what}. Give "
            "its size in bytes: launch(..., shared_bytes=...), as the third number in <<<>>>"
        )
    return f". {what}. Give its size in bytes"


def report_local(state: State, site: Site, offset: Array, lanes: Array) -> None:
    """Lanes outside their local memory, or misaligned."""
    size = state.local_memory().nbytes
    lane = first_offender(state, lanes)
    place = below_zero(lane.value(offset))
    misaligned = place & (site.width - 1) and 0 <= place <= size - site.width
    accuse(
        "misaligned" if misaligned else "out-of-bounds",
        site.line,
        lane,
        f"{lane} {verb(site)} {site.width} bytes at byte {place} of its local memory, which has "
        f"{size} bytes",
        array="local",
    )
