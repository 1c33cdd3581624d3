"""Loads and stores of every space: bounds, alignment, counting, then the data.

An access that faults is not performed by the lanes that fault: a load gives them 0. The others,
and the kernel, go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.machine.accused import below_zero
from helpers.emulator.machine.masks import Mask
from helpers.emulator.machine.memory import (
    HEAP_SLOT,
    HEAPS,
    LOCAL_WINDOW,
    SHARED_WINDOW,
    SLOT_BITS,
    WINDOW_SIZE,
    Buffer,
    load_words,
    store_words,
)
from helpers.emulator.observe import counts
from helpers.emulator.observe.races import track_global
from helpers.errors import ConfigError, EmulationError

if TYPE_CHECKING:
    from helpers.emulator.launching.report import SiteStats
    from helpers.emulator.machine.state import State
    from helpers.emulator.ptx.sites import Site

Array = np.ndarray[Any, np.dtype[Any]]

u4 = np.dtype("u4")
u8 = np.dtype("u8")
i8 = np.dtype("i8")
SYMBOL_SLOT = 1 << 16
"""Module variables live in slots from here on: their addresses are known when translating."""
PARAM_BASE = 1 << 58
"""Kernel parameters, for code that takes their address."""
_SAMPLES = 256  # requests of a line that are kept for access maps


def symbol_address(slot: int) -> int:
    """Address of the module variable with this number."""
    return ((SYMBOL_SLOT + slot) << SLOT_BITS) + (1 << (SLOT_BITS - 1))


# -- parameters ----------------------------------------------------------------------------------


def entry_param(state: State, offset: int, kind: np.dtype[Any]) -> Array:
    """A kernel parameter at a byte offset."""
    raw = state.launch.params
    if offset + kind.itemsize > len(raw):
        raise EmulationError(f"the kernel reads its parameters at byte {offset}, beyond their end")
    return np.frombuffer(raw, kind, 1, offset).reshape(1, 1, 1, 1)


def load_param(frame: dict[str, Any], name: str, offset: int, kind: np.dtype[Any]) -> Array:
    """A parameter or return value of a device function."""
    held = frame.get(name, {})
    found = held.get(offset)
    if found is not None and found.dtype.itemsize == kind.itemsize:
        return found.view(kind)
    if found is not None and found.dtype.itemsize > kind.itemsize:
        return found.view(f"u{found.dtype.itemsize}").astype(f"u{kind.itemsize}").view(kind)
    # Put together from smaller parts.
    total: Array | None = None
    at = offset
    while at < offset + kind.itemsize:
        part = held.get(at)
        if part is None:
            raise EmulationError(
                f"a device function reads its argument {name} at byte {at}, which its caller did "
                "not set. Pass plain scalars and pointers"
            )
        size = part.dtype.itemsize
        bits = part.view(f"u{size}").astype("u8") << np.uint64(8 * (at - offset))
        total = bits if total is None else total | bits
        at += size
    assert total is not None
    return total.astype(f"u{kind.itemsize}").view(kind)


def store_param(frame: dict[str, Any], name: str, offset: int, value: Array) -> None:
    """Set an argument or a return value."""
    frame.setdefault(name, {})[offset] = value


# -- global memory -------------------------------------------------------------------------------


def load_global(state: State, number: int, address: Array, mask: Mask | None) -> Any:
    """ld.global: an array, or one for each element of a vector access."""
    site, stats = state.sites[number], state.stats[number]
    if mask is not None and mask.n == 0:
        return _nothing(site)
    buffer: Buffer | None = stats.buffer
    if buffer is None:
        buffer = stats.buffer = _first_buffer(state, site, address, mask)
    if buffer is None or buffer.initialised is not None:
        return _load_checked(state, site, stats, address, mask)
    offset = address + (site.offset - buffer.base)
    if not _clean(offset, site, buffer, mask):
        return _load_checked(state, site, stats, address, mask)
    if state.analyse:
        _count_global(state, site, stats, buffer, offset, mask)
        if site.strong or _tracked(state, buffer):
            track_global(state, number, buffer, offset, site.width, mask, False)
    return _take(buffer, site, offset)


def _take(buffer: Buffer, site: Site, offset: Array) -> Any:
    size = site.kind.itemsize
    data = buffer.view(site.kind)
    index = offset >> (size.bit_length() - 1) if size > 1 else offset
    # Lanes outside the mask may hold any address: clip keeps them harmless.
    if site.count == 1:
        return data.take(index, mode="clip")
    return tuple(data.take(index + j, mode="clip") for j in range(site.count))


def _nothing(site: Site) -> Any:
    zero = np.zeros((1, 1, 1, 1), site.kind)
    return zero if site.count == 1 else (zero,) * site.count


def _clean(offset: Array, site: Site, buffer: Buffer, mask: Mask | None) -> bool:
    """Whether every active lane is inside the buffer and aligned."""
    width = site.width
    if width > buffer.nbytes:
        return False
    outside = offset.view(u8) > np.uint64(buffer.nbytes - width)
    if outside.any() and (mask is None or (outside & mask.reduced(outside.shape)).any()):
        return False
    if width > 1 and int(np.bitwise_or.reduce(offset, axis=None)) & (width - 1):
        if mask is None:
            return False
        return not ((offset & (width - 1) != 0) & mask.reduced(offset.shape)).any()
    return True


def _first_buffer(state: State, site: Site, address: Array, mask: Mask | None) -> Buffer | None:
    """The buffer that the first active lane means."""
    if mask is None:
        first = int(address.reshape(-1)[0])
    else:
        reduced = mask.reduced(address.shape)
        a, r = np.broadcast_arrays(address, reduced)
        first = int(a.reshape(-1)[int(np.argmax(r.reshape(-1)))])
    return state.launch.heap.at(first + site.offset)


def _tracked(state: State, buffer: Buffer) -> bool:
    writable = state.launch.writable
    return writable is None or (buffer.base >> SLOT_BITS) in writable


def _count_global(
    state: State, site: Site, stats: SiteStats, buffer: Buffer, offset: Array, mask: Mask | None
) -> None:
    shape = state.warp_shape
    six = shape.lanes(offset)
    width = site.width
    if mask is None:
        requests, lanes, active = state.total_warps, state.lanes, None
    else:
        requests, lanes, active = mask.warps, mask.n, mask.active
    stats.requests += requests
    stats.lanes += lanes
    if six.shape[2] * six.shape[3] == 1:  # one address a warp
        stats.sectors += requests * max(width // 32, 1)
        stats.ideal_sectors += requests * max(width // 32, 1)
    else:
        sectors = counts.distinct(shape, six >> 5, active)
        stats.sectors += int(sectors.sum()) * (state.total_warps // sectors.size)
        elements = counts.distinct(
            shape, six >> (width.bit_length() - 1) if width > 1 else six, active
        )
        ideal = -(-elements * width // counts.SECTOR)
        stats.ideal_sectors += int(ideal.sum()) * (state.total_warps // elements.size)
    if buffer.name not in stats.arrays:
        stats.arrays.append(buffer.name)
    if stats.sampled < _SAMPLES and state.launch.keep_samples:
        _sample(state, stats, buffer.name, buffer.itemsize, offset, mask)


def _sample(
    state: State, stats: SiteStats, name: str, itemsize: int, offset: Array, mask: Mask | None
) -> None:
    """Keep the lanes of the first block's requests, for access maps."""
    if int(state.linear_block.reshape(-1)[0]) != 0:
        return
    shape = (state.rows, state.x)
    pad = -state.threads % 32
    at = np.broadcast_to(offset[:, :, 0, 0], shape).reshape(-1)
    if mask is not None:
        at = np.where(np.broadcast_to(mask.arr[:, :, 0, 0], shape).reshape(-1), at, -1)
    rows = np.concatenate([at, np.full(pad, -1, np.int64)]).reshape(-1, 32)
    rows = rows[(rows >= 0).any(axis=1)]
    if len(rows):
        stats.samples.append((name, itemsize, rows))
        stats.sampled += len(rows)


def _lanes_of(state: State, address: Array, mask: Mask | None) -> tuple[Array, Array]:
    """Address and mask with equal shapes."""
    arr = np.ones((1, 1, 1, 1), bool) if mask is None else mask.arr
    shape = np.broadcast_shapes(address.shape, arr.shape)
    return np.broadcast_to(address, shape), np.broadcast_to(arr, shape)


def _split(
    state: State, site: Site, address: Array, mask: Mask | None, reads: Array | None = None
) -> list[tuple[Buffer, Array, Mask | None, Array]]:
    """Sort lanes by buffer, report faults: [(buffer, offsets, mask of the sound lanes, bool)].

    reads: bytes that each lane touches, 1 or more (None: all of the access's width).
    """
    address, arr = _lanes_of(state, address, mask)
    width: Any = site.width if reads is None else np.broadcast_to(reads, address.shape)
    target = address + site.offset
    out = []
    slots = target >> SLOT_BITS
    for slot in np.unique(slots[arr]):
        here = arr & (slots == slot)
        buffer = state.launch.heap.slots.get(int(slot))
        if buffer is None:
            _report_wild(state, site, target, here)
            continue
        offset = target - buffer.base
        outside = here & ((offset < 0) | (offset > buffer.nbytes - width))
        if buffer.owned is not None:
            at = np.clip(offset, 0, np.maximum(buffer.nbytes - width, 0))
            last = np.minimum(at + width, buffer.nbytes) - 1
            outside = here & ~(~outside & buffer.owned[at] & buffer.owned[last])
        if outside.any():
            _report_outside(state, site, buffer, offset, outside, width)
        crooked = here & ~outside & (offset & (site.width - 1) != 0)
        if crooked.any():
            _report_misaligned(state, site, buffer, offset, crooked)
        sound = here & ~outside & ~crooked
        if sound.any():
            out.append((buffer, offset, state.mask(sound), sound))
    return out


def _load_checked(
    state: State, site: Site, stats: SiteStats, address: Array, mask: Mask | None
) -> Any:
    """The careful way: lanes that fault, several arrays, or arrays with uninitialised elements."""
    parts = _split(state, site, address, mask)
    if len(parts) == 1 and parts[0][0] is not stats.buffer:
        stats.buffer = parts[0][0]
    values: list[Array] | None = None
    for buffer, offset, sound_mask, sound in parts:
        if state.analyse:
            _count_global(state, site, stats, buffer, offset, sound_mask)
        _watch(state, site, buffer, offset, site.width, sound_mask)
        got = _take(buffer, site, offset)
        got = [got] if site.count == 1 else list(got)
        zero = np.zeros((1, 1, 1, 1), site.kind)
        old = values or [zero] * site.count
        values = [np.where(sound, g, v) for g, v in zip(got, old, strict=True)]
    if values is None:
        return _nothing(site)
    return values[0] if site.count == 1 else tuple(values)


def load_ragged(
    state: State, number: int, address: Array, reads: Array, mask: Mask | None
) -> tuple[Array, ...]:
    """A load of which each lane reads only the first bytes: 32-bit words, zeros behind those.

    reads: how many bytes, 1 to the access's width (four axes). The address must be a multiple of the
    whole width, as for any access of this instruction.
    """
    site, stats = state.sites[number], state.stats[number]
    reads = reads.astype(np.int64)
    values = [np.zeros((1, 1, 1, 1), u4)] * (site.width // 4)
    for buffer, offset, sound_mask, _ in _split(state, site, address, mask, reads):
        if state.analyse:
            _count_global(state, site, stats, buffer, offset, sound_mask)
        for at in range(0, site.width, 4):
            lanes = state.narrowed(sound_mask, reads > at)
            if lanes is None or lanes.n:
                word = _read_word(state, site, buffer, offset + at, reads - at, lanes)
                here = True if lanes is None else lanes.arr
                values[at // 4] = np.where(here, word, values[at // 4])
    return tuple(values)


def _read_word(
    state: State, site: Site, buffer: Buffer, offset: Array, reads: Array, mask: Mask | None
) -> Array:
    """The first `reads` bytes of a word, by lane: at once where every lane reads all four."""
    short = reads < 4
    if mask is not None:
        short = short & mask.reduced(short.shape)
    if not short.any():
        _watch(state, site, buffer, offset, 4, mask)
        return buffer.view(u4).take(offset >> 2, mode="clip")
    data, word = buffer.view(np.dtype("u1")), np.zeros((1, 1, 1, 1), u4)
    for at in range(4):
        lanes = state.narrowed(mask, reads > at)
        if lanes is None or lanes.n:
            if at % buffer.granule == 0:
                _watch(state, site, buffer, offset + at, 1, lanes)
            byte = data.take(offset + at, mode="clip").astype(u4) << u4.type(8 * at)
            word = word | np.where(True if lanes is None else lanes.arr, byte, u4.type(0))
    return word


def _watch(
    state: State, site: Site, buffer: Buffer, offset: Array, width: int, mask: Mask | None
) -> None:
    """Watch a load of `width` bytes for races and for elements that nobody wrote."""
    if not state.analyse:
        return
    if site.strong or _tracked(state, buffer):
        track_global(state, site.index, buffer, offset, width, mask, False)
    if buffer.initialised is not None:
        offset, sound = _lanes_of(state, offset, mask)
        _check_global_init(state, site, buffer, offset, sound, width)


def _check_global_init(
    state: State, site: Site, buffer: Buffer, offset: Array, sound: Array, width: int
) -> None:
    """Report lanes that read `width` bytes, not all of which were written before."""
    assert buffer.initialised is not None
    at = np.where(sound, offset, 0) // buffer.granule
    have = buffer.initialised[at]
    for j in range(1, width // buffer.granule):
        have = have & buffer.initialised[at + j]
    missing = sound & ~have
    if missing.any():
        thread, column, place = _first(state, offset, missing)
        where = buffer.index_text(place)
        state.find(
            "uninitialised",
            site.line,
            f"{where} is read by thread {state.thread_text(thread)} of block "
            f"{state.block_tuple(column)}, but nobody has written it. Set it first",
            _number(state, missing),
            array=buffer.name,
            index=where,
            threads=(thread,),
            block=state.block_tuple(column),
        )


def store_global(
    state: State, number: int, address: Array, values: tuple[Array, ...], mask: Mask | None
) -> None:
    """st.global of one or several elements a lane."""
    site, stats = state.sites[number], state.stats[number]
    if mask is not None and mask.n == 0:
        return
    buffer: Buffer | None = stats.buffer
    if buffer is None:
        buffer = stats.buffer = _first_buffer(state, site, address, mask)
    if buffer is not None and not buffer.read_only and buffer.owned is None:
        offset = address + (site.offset - buffer.base)
        if _clean(offset, site, buffer, mask):
            _store_sound(state, site, stats, buffer, offset, values, mask)
            return
    for target, offset, sound_mask, _ in _split(state, site, address, mask):
        if target.read_only:
            state.find(
                "out-of-bounds",
                site.line,
                f"{target.name} cannot be written: it is constant memory or a read-only array. Give a "
                "writeable array",
                1,
                array=target.name,
            )
            continue
        stats.buffer = target
        _store_sound(state, site, stats, target, offset, values, sound_mask)


def _store_sound(
    state: State,
    site: Site,
    stats: SiteStats,
    buffer: Buffer,
    offset: Array,
    values: tuple[Array, ...],
    mask: Mask | None,
) -> None:
    if state.analyse:
        _count_global(state, site, stats, buffer, offset, mask)
        track_global(state, site.index, buffer, offset, site.width, mask, True, values)
    state.launch.writes += 1
    if site.strong:
        state.launch.flagged = True
    size = site.kind.itemsize
    data = buffer.view(site.kind)
    index = offset >> (size.bit_length() - 1) if size > 1 else offset
    for j, value in enumerate(values):
        value = value.view(site.kind)
        _put(data, index + j if j else index, value, mask, state)
    if buffer.stores is not None:
        everyone = np.broadcast_to(True if mask is None else mask.arr, state.shape)
        element = np.broadcast_to(offset // buffer.itemsize, state.shape)[everyone]
        thread = np.broadcast_to(state.global_thread, state.shape)[everyone]
        buffer.stores.add(element, max(site.width // buffer.itemsize, 1), thread, site.index)
    if buffer.initialised is not None:
        shape = np.broadcast_shapes(offset.shape, *((mask.arr.shape,) if mask else ()))
        at = np.broadcast_to(offset // buffer.granule, shape)
        at = at[np.broadcast_to(mask.arr, shape)] if mask else at.reshape(-1)
        for j in range(max(site.width // buffer.granule, 1)):
            buffer.initialised[at + j] = True
        if buffer.initialised.all():
            buffer.initialised = None


def _put(data: Array, index: Array, value: Array, mask: Mask | None, state: State) -> None:
    """Scatter in thread order: where threads collide, the highest one wins."""
    shapes = [index.shape, value.shape] + ([mask.arr.shape] if mask is not None else [])
    shape = np.broadcast_shapes(*shapes)
    index = np.broadcast_to(index, shape)
    value = np.broadcast_to(value, shape)
    if mask is None:
        data[index] = value
        return
    chosen = np.broadcast_to(mask.arr, shape)
    data[index[chosen]] = value[chosen]


# -- faults --------------------------------------------------------------------------------------


def _number(state: State, chosen: Array) -> int:
    return int(np.count_nonzero(chosen)) * (state.lanes // chosen.size)


def _first(state: State, offset: Array, chosen: Array) -> tuple[int, int, int]:
    thread, column = state.first_lane(chosen)
    full = np.broadcast_to(offset, state.shape).reshape(state.threads, state.blocks)
    return thread, column, int(full[thread, column])


def _verb(site: Site) -> str:
    return {"load": "reads", "store": "writes"}.get(site.op, "updates")


def _report_wild(state: State, site: Site, target: Array, chosen: Array) -> None:
    thread, column, place = _first(state, target, chosen)
    state.find(
        "out-of-bounds",
        site.line,
        f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} {_verb(site)} "
        f"address {place:#x}, which belongs to no array{_of_a_heap(place)}",
        _number(state, chosen),
        threads=(thread,),
        block=state.block_tuple(column),
    )


def _of_a_heap(address: int) -> str:
    """What to say of an address that malloc or new may have given out in an earlier launch."""
    if not 0 <= (address >> SLOT_BITS) - HEAP_SLOT < HEAPS:
        return ""
    return (
        ". It lies where the device heap of an earlier launch was: what malloc and new give out lasts "
        "as long as the launch here. Keep what the next launch needs in an array"
    )


def _elements(count: int) -> str:
    return f"{count} element" if count == 1 else f"{count} elements"


def _report_outside(
    state: State, site: Site, buffer: Buffer, offset: Array, outside: Array, width: Any
) -> None:
    """width: bytes that each lane touches, an array or one number."""
    thread, column, place = _first(state, offset, outside)
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
        f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} {_verb(site)} "
        f"{where}, {far}: {has}. Guard the access with the bounds",
        _number(state, outside),
        array=buffer.name,
        index=where,
        threads=(thread,),
        block=state.block_tuple(column),
    )


def _report_misaligned(
    state: State, site: Site, buffer: Buffer, offset: Array, crooked: Array
) -> None:
    thread, column, place = _first(state, offset, crooked)
    where = buffer.index_text(place)
    state.find(
        "misaligned",
        site.line,
        f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} {_verb(site)} "
        f"{site.width} bytes at {where}, byte {place} of {buffer.name}: an access of {site.width} "
        f"bytes needs an address that is a multiple of {site.width}",
        _number(state, crooked),
        array=buffer.name,
        index=where,
        threads=(thread,),
        block=state.block_tuple(column),
    )


# -- constant memory -----------------------------------------------------------------------------


def load_const(state: State, number: int, address: Array, mask: Mask | None) -> Any:
    """ld.const and parameters by address: checked, not counted."""
    site, stats = state.sites[number], state.stats[number]
    if mask is not None and mask.n == 0:
        return _nothing(site)
    buffer: Buffer | None = stats.buffer
    if buffer is None:
        buffer = stats.buffer = _first_buffer(state, site, address, mask)
    if buffer is not None:
        offset = address + (site.offset - buffer.base)
        if _clean(offset, site, buffer, mask):
            return _take(buffer, site, offset)
    analyse, state.analyse = state.analyse, False
    try:
        return _load_checked(state, site, stats, address, mask)
    finally:
        state.analyse = analyse


# -- shared memory -------------------------------------------------------------------------------


class _Plan:
    """A shared access whose addresses were seen before: nothing to check again."""

    __slots__ = ("address", "granule", "initialised", "lanes", "mask", "offset", "waves")

    def __init__(self, address: Array, mask: Mask | None, offset: Array) -> None:
        self.address = address
        self.mask = mask
        self.offset = offset
        self.granule: Array | None = None
        self.initialised = False
        self.waves = (0, 0, 0)
        self.lanes = 0


def _shared_plan(
    state: State, site: Site, stats: SiteStats, address: Array, mask: Mask | None
) -> _Plan:
    """Check and count a shared access; the plan holds the sound lanes."""
    plan: _Plan | None = stats.memo
    if plan is None or plan.address is not address or plan.mask is not mask:
        offset = address + site.offset if site.offset else address
        mask_now = _check_shared(state, site, offset, mask)
        plan = _Plan(address, mask, offset)
        if mask_now is not mask:
            # Some lanes fault: not remembered, so that every time is counted.
            plan = _Plan(address, mask_now, np.where(mask_now.arr, offset, 0))  # type: ignore[union-attr]
            plan.address = np.empty(0)
        if state.analyse:
            shape = state.warp_shape
            active = None if plan.mask is None else plan.mask.active
            waves = counts.wavefronts(
                shape, shape.lanes(plan.offset), site.width, active, site.op == "load"
            )
            requests = state.total_warps if plan.mask is None else plan.mask.warps
            scale = state.total_warps // waves.size
            ideal = _ideal_waves(state, site, plan.offset, active)
            plan.waves = (requests, int(waves.sum()) * scale, ideal)
            plan.lanes = state.lanes if plan.mask is None else plan.mask.n
            if state.log is not None:  # none where the launch has no shared memory at all
                plan.granule = plan.offset >> state.log.shift if state.log.shift else plan.offset
        stats.memo = plan
    if state.analyse:
        requests, waves_sum, ideal_sum = plan.waves
        stats.requests += requests
        stats.wavefronts += waves_sum
        stats.ideal_wavefronts += ideal_sum
        stats.lanes += plan.lanes
        if stats.sampled < _SAMPLES and state.launch.keep_samples:
            _sample_shared(state, site, stats, plan)
    return plan


def _ideal_waves(state: State, site: Site, offset: Array, active: counts.ActiveLanes | None) -> int:
    """Wavefronts if the distinct words lay side by side."""
    six = state.warp_shape.lanes(offset)
    width = site.width
    keys = six >> (width.bit_length() - 1) if width > 1 else six
    elements = counts.distinct(state.warp_shape, keys, active)
    waves = -(-elements * width // (counts.BANKS * 4))
    return int(waves.sum()) * (state.total_warps // elements.size)


def _sample_shared(state: State, site: Site, stats: SiteStats, plan: _Plan) -> None:
    first = int(plan.offset.reshape(-1)[0])
    if plan.mask is not None:
        a, m = np.broadcast_arrays(plan.offset, plan.mask.arr)
        first = int(a.reshape(-1)[int(np.argmax(m.reshape(-1)))])
    for symbol in state.launch.program.shared_symbols:
        end = symbol.start + symbol.size if symbol.size else state.launch.shared_bytes
        if symbol.start <= first < end:
            if symbol.name not in stats.arrays:
                stats.arrays.append(symbol.name)
            offset = plan.offset - symbol.start
            _sample(state, stats, symbol.name, symbol.itemsize, offset, plan.mask)
            return


def _check_shared(state: State, site: Site, offset: Array, mask: Mask | None) -> Mask | None:
    """Report lanes outside shared memory or misaligned; the mask of the others."""
    width, total = site.width, state.launch.shared_bytes
    outside = (offset < 0) | (offset > total - width)
    crooked = offset & (width - 1) != 0 if width > 1 else np.zeros_like(outside)
    if not outside.any() and not crooked.any():
        return mask
    _, arr = _lanes_of(state, offset, mask)
    bad = arr & (outside | crooked)
    if not bad.any():
        return _shield(state, mask, arr, outside | crooked)
    out = arr & outside
    if out.any():
        thread, column, place = _first(state, offset, out)
        place = below_zero(place)
        past = place + width - total
        far = f"{past} byte(s) past its end" if place >= 0 else f"{-place} byte(s) before its start"
        forgotten = _forgotten(state, site)
        state.find(
            "out-of-bounds",
            site.line,
            f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} "
            f"{_verb(site)} byte {place} of shared memory, {far}: the block has {total} bytes"
            f"{forgotten}",
            _number(state, out),
            array="shared",
            threads=(thread,),
            block=state.block_tuple(column),
        )
    odd = arr & crooked & ~outside
    if odd.any():
        thread, column, place = _first(state, offset, odd)
        name, where = state.shared_name(place)
        state.find(
            "misaligned",
            site.line,
            f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} "
            f"{_verb(site)} {width} bytes at {where}, byte {place} of shared memory: an access of "
            f"{width} bytes needs an address that is a multiple of {width}",
            _number(state, odd),
            array=name,
            index=where,
            threads=(thread,),
            block=state.block_tuple(column),
        )
    return _shield(state, mask, arr, outside | crooked)


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
            f"line {site.line} {_verb(site)} shared memory, but the block has none: {what}. Give its "
            f"size in bytes: launch(..., shared_bytes=...), as the third number in <<<>>>"
        )
    return f". {what}. Give its size in bytes"


def _shield(state: State, mask: Mask | None, arr: Array, bad: Array) -> Mask:
    """A mask without the bad lanes, even if it then equals the old one in number."""
    sound = arr & ~bad
    n = int(np.count_nonzero(sound)) * (state.lanes // sound.size)
    return Mask(state, sound, n)


def load_shared(state: State, number: int, address: Array, mask: Mask | None) -> Any:
    """ld.shared."""
    site, stats = state.sites[number], state.stats[number]
    if mask is not None and mask.n == 0:
        return _nothing(site)
    plan = _shared_plan(state, site, stats, address, mask)
    log = state.log
    if log is not None:
        assert plan.granule is not None
        span = max(site.width >> log.shift, 1)
        if not plan.initialised:
            plan.initialised = _check_init(state, site, plan, span)
        if state.copies is not None:
            state.copies.check(site, plan.granule, span, plan.mask)
        log.load(site, plan.granule, span, plan.mask)
    if site.count == 1:
        return load_words(state.shared, plan.offset, site.kind)
    size = site.kind.itemsize
    return tuple(
        load_words(state.shared, plan.offset + j * size if j else plan.offset, site.kind)
        for j in range(site.count)
    )


def _check_init(state: State, site: Site, plan: _Plan, span: int) -> bool:
    assert state.log is not None
    assert plan.granule is not None
    missing = state.log.missing(plan.granule, span)
    if missing is None:
        return True
    if plan.mask is not None:
        missing = missing & plan.mask.arr
        if not missing.any():
            return False
    if state.copies is not None:
        missing = state.copies.not_pending(plan.granule, span, missing)
        if not missing.any():
            return False
    state.log.suspect(site.index, missing, plan.granule, span)
    return False


def store_shared(
    state: State, number: int, address: Array, values: tuple[Array, ...], mask: Mask | None
) -> None:
    """st.shared."""
    site, stats = state.sites[number], state.stats[number]
    if mask is not None and mask.n == 0:
        return
    plan = _shared_plan(state, site, stats, address, mask)
    arr = None if plan.mask is None else plan.mask.arr
    log = state.log
    if log is not None:
        assert plan.granule is not None
        span = max(site.width >> log.shift, 1)
        log.mark(plan.granule, span, arr)
        if state.copies is not None:
            state.copies.check(site, plan.granule, span, plan.mask)
        log.store(site, plan.granule, span, plan.mask, values)
    state.launch.writes += 1
    if site.strong:
        state.launch.flagged = True
    size = site.kind.itemsize
    for j, value in enumerate(values):
        offset = plan.offset + j * size if j else plan.offset
        store_words(state.shared, offset, value.view(site.kind), arr)


# -- local memory --------------------------------------------------------------------------------


def _local_mask(state: State, site: Site, offset: Array, mask: Mask | None) -> Mask | None:
    size = state.local_memory().nbytes
    bad = (offset < 0) | (offset > size - site.width) | (offset & (site.width - 1) != 0)
    if not bad.any():
        return mask
    _, arr = _lanes_of(state, offset, mask)
    fault = arr & bad
    if fault.any():
        thread, column, place = _first(state, offset, fault)
        place = below_zero(place)
        crooked = place & (site.width - 1) and 0 <= place <= size - site.width
        state.find(
            "misaligned" if crooked else "out-of-bounds",
            site.line,
            f"thread {state.thread_text(thread)} of block {state.block_tuple(column)} "
            f"{_verb(site)} {site.width} bytes at byte {place} of its local memory, which has "
            f"{size} bytes",
            _number(state, fault),
            array="local",
            threads=(thread,),
            block=state.block_tuple(column),
        )
    return _shield(state, mask, arr, bad)


def load_local(state: State, number: int, address: Array, mask: Mask | None) -> Any:
    """ld.local."""
    site = state.sites[number]
    if mask is not None and mask.n == 0:
        return _nothing(site)
    memory = state.local_memory()
    offset = address + site.offset
    sound = _local_mask(state, site, offset, mask)
    if sound is not mask:
        offset = np.where(sound.arr, offset, 0)  # type: ignore[union-attr]
    size = site.kind.itemsize
    got = tuple(load_words(memory, offset + j * size, site.kind) for j in range(site.count))
    return got[0] if site.count == 1 else got


def store_local(
    state: State, number: int, address: Array, values: tuple[Array, ...], mask: Mask | None
) -> None:
    """st.local."""
    site = state.sites[number]
    if mask is not None and mask.n == 0:
        return
    memory = state.local_memory()
    offset = address + site.offset
    sound = _local_mask(state, site, offset, mask)
    if sound is not mask:
        offset = np.where(sound.arr, offset, 0)  # type: ignore[union-attr]
    size = site.kind.itemsize
    state.launch.writes += 1
    arr = None if sound is None else sound.arr
    for j, value in enumerate(values):
        store_words(memory, offset + j * size, value.view(site.kind), arr)


# -- generic addresses ---------------------------------------------------------------------------


def is_space(address: Array, space: str) -> Array:
    """isspacep."""
    shared = (address >= SHARED_WINDOW) & (address < SHARED_WINDOW + WINDOW_SIZE)
    local = (address >= LOCAL_WINDOW) & (address < LOCAL_WINDOW + WINDOW_SIZE)
    if space == "shared":
        return shared
    if space == "local":
        return local
    if space == "global":
        return ~(shared | local)
    return np.zeros_like(shared)


def _by_space(
    state: State, site: Site, address: Array, mask: Mask | None
) -> list[tuple[str, Array, Mask | None]]:
    """Sort the lanes of a generic access by space."""
    target = address + site.offset
    shared, local = is_space(target, "shared"), is_space(target, "local")
    if not shared.any() and not local.any():
        return [("global", address, mask)]
    if mask is None and shared.all():
        return [("shared", address - SHARED_WINDOW, None)]
    if mask is None and local.all():
        return [("local", address - LOCAL_WINDOW, None)]
    out = []
    for name, here, window in (
        ("shared", shared, SHARED_WINDOW),
        ("local", local, LOCAL_WINDOW),
        ("global", ~(shared | local), 0),
    ):
        part = state.narrowed(mask, here)
        if part is None or part.n:
            out.append((name, address - window if window else address, part))
    return out


_LOADS = {"global": load_global, "shared": load_shared, "local": load_local}
_STORES = {"global": store_global, "shared": store_shared, "local": store_local}


def load_generic(state: State, number: int, address: Array, mask: Mask | None) -> Any:
    """ld with a generic address."""
    site = state.sites[number]
    if mask is not None and mask.n == 0:
        return _nothing(site)
    parts = _by_space(state, site, address, mask)
    if len(parts) == 1:
        name, at, part = parts[0]
        return _LOADS[name](state, number, at, part)
    total: list[Array] = [np.zeros((1, 1, 1, 1), site.kind)] * site.count
    for name, at, part in parts:
        state.stats[number].buffer = None
        got = _LOADS[name](state, number, at, part)
        got = [got] if site.count == 1 else got
        assert part is not None
        total = [np.where(part.arr, g, t) for g, t in zip(got, total, strict=True)]
    return total[0] if site.count == 1 else tuple(total)


def store_generic(
    state: State, number: int, address: Array, values: tuple[Array, ...], mask: Mask | None
) -> None:
    """st with a generic address."""
    if mask is not None and mask.n == 0:
        return
    for name, at, part in _by_space(state, state.sites[number], address, mask):
        _STORES[name](state, number, at, values, part)
