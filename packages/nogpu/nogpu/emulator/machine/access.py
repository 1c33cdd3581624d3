"""`perform`, the only way to memory: sort by space, check, publish, move the bytes.

An access that faults is not performed by the lanes that fault: a load gives them 0, of shared and
local memory the first word. The others, and the kernel, go on. Observers learn of the sound lanes
before their bytes move.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine import clusters, faults
from nogpu.emulator.machine.events import Access, Stage, Where
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import Mask, array_of
from nogpu.emulator.machine.memory import Buffer
from nogpu.emulator.ptx.layout import (
    LOCAL_WINDOW,
    RANK_SHIFT,
    SHARED_WINDOW,
    SLOT_BITS,
    WINDOW_SIZE,
)
from nogpu.errors import EmulationError

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site


u1, u4, u8 = (np.dtype(t) for t in ("u1", "u4", "u8"))
Move = Callable[[Access], Any]
"""What to do with the sound lanes of an access instead of a plain load or store."""
Make = Callable[[str, Where], Any]
"""How `perform` makes its access to a space at places of sound lanes; gives what that gives."""


# -- parameters ----------------------------------------------------------------------------------


def entry_param(state: State, offset: int, kind: np.dtype[Any]) -> Array:
    """A kernel parameter at a byte offset."""
    raw = state.launch.params
    if offset + kind.itemsize > len(raw):
        raise EmulationError(f"the kernel reads its parameters at byte {offset}, beyond their end")
    return np.frombuffer(raw, kind, 1, offset).reshape(1, 1, 1, 1)


def load_param(frame: dict[str, Any], name: str, offset: int, kind: np.dtype[Any]) -> Array:
    """A parameter or return value of a device function, or a part of one."""
    stored = frame.get(name, {})
    value = stored.get(offset)
    if value is not None and value.dtype.itemsize == kind.itemsize:
        return value.view(kind)
    total, at = np.zeros((1, 1, 1, 1), u8), offset
    while at < offset + kind.itemsize:
        start = max((place for place in stored if place <= at), default=0)
        part = stored.get(start)
        if part is None or start + part.dtype.itemsize <= at:
            raise EmulationError(
                f"a device function reads its argument {name} at byte {at}, which its caller did "
                "not set. Pass plain scalars and pointers"
            )
        bits = part.view(f"u{part.dtype.itemsize}").astype(u8) >> np.uint64(8 * (at - start))
        total = total | bits << np.uint64(8 * (at - offset))
        at = start + part.dtype.itemsize
    return total.astype(f"u{kind.itemsize}").view(kind)


def store_param(frame: dict[str, Any], name: str, offset: int, value: Array) -> None:
    """Set an argument or a return value."""
    frame.setdefault(name, {})[offset] = value


# -- the only way to memory ----------------------------------------------------------------------


def perform(
    state: State,
    site: Site,
    address: Array,
    mask: Mask | None,
    values: tuple[Array, ...] | None = None,
    *,
    length: Array | None = None,
    stage: Stage = Stage.WHOLE,
    move: Move | None = None,
) -> Any:
    """Execute a memory instruction for the lanes of a mask.

    Parameters
    ----------
    address: int64, four axes, without the site's constant offset.
    values: what a store puts there, one array an element; None: a load.
    length: bytes that each lane of a global load reads, 1 to the width; zeros behind them.
    stage: of a cp.async, which is an access when it begins and again when it is waited for.
    move: called in place of the plain load or store with each access to one target.

    Returns
    -------
    Of a load an array, or one for each element of a vector access, with 0 for lanes that fault; of
    a store None. With `move`, what that returns for its lanes.
    """
    if mask is not None and mask.n == 0:
        return _nothing(site)

    def make(space: str, where: Where) -> Any:
        """Publish an access of sound lanes to one target, and do it."""
        access = Access(site, space, where, values, length, stage)
        somebody = where.mask is None or where.mask.n > 0
        if somebody and site.space not in _UNWATCHED:
            state.publish(access)
        if move is not None:
            return move(access)
        if length is not None:
            return _take_ragged(access, length)
        if values is None:
            got = where.target.load(where.offset, site.kind, site.count)
            return got[0] if site.count == 1 else got
        if somebody:
            state.launch.stored(site)
            kind = site.kind
            where.target.store(where.offset, [v.view(kind) for v in values], where.lanes)
        return None

    if site.space == "shared":
        return _shared(state, site, address, mask, stage, make)
    if site.space == "local":
        return make("local", _local(state, site, address, mask))
    if site.space != "generic":
        return _global(state, site, address, mask, length, make)
    state.local_unset, state.local_at, parts = [], [], []
    for space, at, lanes in by_space(state, site, address, mask):
        if space == "shared":
            got = _shared(state, site, at, lanes, stage, make)
        elif space == "local" and move is None:
            got = make("local", _local(state, site, at, lanes))
        else:  # there are no atomics on local memory: no array, say the findings
            at = at + LOCAL_WINDOW if space == "local" else at
            got = _global(state, site, at, lanes, length, make)
        parts.append((array_of(lanes), got))
    return parts[0][1] if len(parts) == 1 else _merged(site, parts)


_UNWATCHED = {"const", "param"}
"""Spaces that hold what nobody writes: checked, not counted."""


def _nothing(site: Site) -> Any:
    zero = np.zeros((1, 1, 1, 1), site.kind)
    return zero if site.count == 1 else (zero,) * site.count


def _merged(site: Site, parts: list[tuple[Array, Any]]) -> Any:
    """The results of several groups of lanes: [(bool of four axes, result)]; None: of a store."""
    total = _nothing(site)
    for lanes, got in parts:
        if got is not None and site.count == 1:
            total = np.where(lanes, got, total)
        elif got is not None:
            total = tuple(np.where(lanes, g, t) for g, t in zip(got, total, strict=True))
    return total


# -- what generated code calls -------------------------------------------------------------------


def load(state: State, number: int, address: Array, mask: Mask | None) -> Any:
    """ld: an array, or one for each element of a vector access."""
    return perform(state, state.sites[number], address, mask)


def store(
    state: State, number: int, address: Array, values: tuple[Array, ...], mask: Mask | None
) -> None:
    """st of one or several elements a lane."""
    perform(state, state.sites[number], address, mask, values)


# -- global memory -------------------------------------------------------------------------------


def _global(
    state: State, site: Site, address: Array, mask: Mask | None, length: Array | None, make: Make
) -> Any:
    nearest = state.launch.nearest
    buffer = nearest.get(site.index)
    if buffer is None:
        buffer = _first_buffer(state, site, address, mask)
        if buffer is not None:
            nearest[site.index] = buffer
    writes = site.op != "load"
    if buffer is not None and buffer.owned is None and length is None:
        offset = address + (site.offset - buffer.base)
        if _clean(offset, site, buffer, mask) and not (writes and buffer.read_only):
            return make("global", Where(buffer, offset, mask))
    parts = []
    for target, offset, sound in _split(state, site, address, mask, length):
        if writes and target.read_only:
            faults.report_read_only(state, site, target)
            continue
        nearest[site.index] = target
        parts.append((sound, make("global", Where(target, offset, state.mask(sound)))))
    return _merged(site, parts)


def _take_ragged(access: Access, length: Array) -> Any:
    """A load of which each lane reads only the first bytes: 32-bit words, zeros behind those."""
    byte = np.arange(access.site.width)
    (read,) = access.where.target.load(access.where.offset[..., None] + byte, u1)
    words = np.ascontiguousarray(np.where(byte < length[..., None], read, u1.type(0))).view(u4)
    if access.site.count == 1:
        return words[..., 0]
    return tuple(words[..., j] for j in range(words.shape[-1]))


def _clean(offset: Array, site: Site, buffer: Buffer, mask: Mask | None) -> bool:
    """Whether every active lane is inside the buffer and aligned."""
    width = site.width
    if width > buffer.nbytes:
        return False
    outside = offset.view(u8) > np.uint64(buffer.nbytes - width)
    if outside.any() and (mask is None or (outside & mask.reduced(outside.shape)).any()):
        return False
    if int(np.bitwise_or.reduce(offset, axis=None)) & (width - 1):
        if mask is None:
            return False
        return not ((offset & (width - 1) != 0) & mask.reduced(offset.shape)).any()
    return True


def _first_buffer(state: State, site: Site, address: Array, mask: Mask | None) -> Buffer | None:
    """The buffer that the first active lane means."""
    here = np.True_ if mask is None else mask.reduced(address.shape)
    first = int(np.argmax(np.broadcast_to(here, address.shape)))
    return state.launch.heap.at(int(address.flat[first]) + site.offset)


def _lanes_of(address: Array, mask: Mask | None) -> tuple[Array, ...]:
    """Address and mask with equal shapes."""
    return np.broadcast_arrays(address, array_of(mask))


def _split(
    state: State, site: Site, address: Array, mask: Mask | None, length: Array | None
) -> list[tuple[Buffer, Array, Array]]:
    """Sort lanes by buffer, report faults: [(buffer, offsets, bool: the sound lanes)]."""
    address, arr = _lanes_of(address, mask)
    width: Any = site.width if length is None else np.broadcast_to(length, address.shape)
    target = address + site.offset
    out = []
    slots = target >> SLOT_BITS
    for slot in np.unique(slots[arr]):
        here = arr & (slots == slot)
        buffer = state.launch.heap.slots.get(int(slot))
        if buffer is None:
            faults.report_wild(state, site, target, here)
            continue
        offset = target - buffer.base
        outside = here & ((offset < 0) | (offset > buffer.nbytes - width))
        if buffer.owned is not None:
            at = np.clip(offset, 0, buffer.nbytes - width)
            outside = here & ~(~outside & buffer.owned[at] & buffer.owned[at + width - 1])
        if outside.any():
            faults.report_outside(state, site, buffer, offset, outside, width)
        misaligned = here & ~outside & (offset & (site.width - 1) != 0)
        if misaligned.any():
            faults.report_misaligned(state, site, buffer, offset, misaligned)
        sound = here & ~outside & ~misaligned
        if sound.any():
            out.append((buffer, offset, sound))
    return out


# -- shared memory -------------------------------------------------------------------------------


def _shared(
    state: State, site: Site, address: Array, mask: Mask | None, stage: Stage, make: Make
) -> Any:
    """Shared memory: the own block's, or that of a peer in the cluster."""
    code = clusters.code_of(address + site.offset) if state.launch.program.clusters else None
    away = None if code is None else state.narrowed(mask, code != 0)
    if code is None or not code.any() or (away is not None and not away.n):
        return make("shared", _own(state, site, address, mask))
    if stage is not Stage.WHOLE:
        raise EmulationError(
            f"line {site.line}: cp.async copies into the shared memory of another block of the "
            "cluster; PTX allows the own block's alone. Store there, or copy in bulk"
        )
    own = state.narrowed(mask, code == 0)
    if own is not None and not own.n:
        return make("shared", _peers(state, site, address, code, away))
    parts = [(array_of(own), make("shared", _own(state, site, address, own)))]
    parts.append((code != 0, make("shared", _peers(state, site, address, code, away))))
    return _merged(site, parts)


def _peers(state: State, site: Site, address: Array, code: Array, mask: Mask | None) -> Where:
    """The places of lanes that mean a peer's shared memory. code: its rank plus one, four axes."""
    size = clusters.of(state).size
    nobody = np.broadcast_to(array_of(mask) & (code > size), state.shape)
    if nobody.any():
        faults.report_no_peer(state, site, code - 1, size, nobody)
        mask = state.narrowed(mask, code <= size)
    offset = address + (site.offset - state.launch.program.shared_base) - (code << RANK_SHIFT)
    sound = _check_shared(state, site, offset, mask) if mask is None or mask.n else mask
    arr = array_of(sound)
    column = np.broadcast_to(state.block_index, state.shape)
    rank = np.broadcast_to(code - 1, state.shape)
    owner = np.where(arr, clusters.column_of(state, column, rank), column)
    return Where(state.shared.meant_by(owner), np.where(arr, offset, 0), sound, owner)


def _own(state: State, site: Site, address: Array, mask: Mask | None) -> Where:
    """The places of lanes that mean the shared memory of their own block."""
    if (plan := state.checked.get(site.index)) is not None:
        seen, at, where = plan
        same = seen is site or (seen.width == site.width and seen.op == site.op)
        if at is address and where.mask is mask and same:
            return where
    shift = site.offset - state.launch.program.shared_base
    offset = address + shift if shift else address
    sound = _check_shared(state, site, offset, mask)
    if sound is not mask:  # some lanes fault: not remembered, so that every time is counted
        return Where(state.shared, np.where(array_of(sound), offset, 0), sound)
    where = Where(state.shared, offset, mask)
    state.checked[site.index] = site, address, where
    return where


def _check_shared(state: State, site: Site, offset: Array, mask: Mask | None) -> Mask | None:
    """Report lanes outside shared memory or misaligned; the mask of the others."""
    width, total = site.width, state.launch.shared_bytes
    outside = (offset < 0) | (offset > total - width)
    misaligned = offset & (width - 1) != 0
    if not outside.any() and not misaligned.any():
        return mask
    _, arr = _lanes_of(offset, mask)
    bad = arr & (outside | misaligned)
    if bad.any():
        faults.report_shared(state, site, offset, arr & outside, arr & misaligned & ~outside)
    return _shield(state, arr, outside | misaligned)


def _shield(state: State, arr: Array, bad: Array) -> Mask:
    """A mask without the bad lanes, even if it then equals the old one in number."""
    sound = arr & ~bad
    n = int(np.count_nonzero(sound)) * (state.lanes // sound.size)
    return Mask(state, sound, n)


# -- local memory --------------------------------------------------------------------------------


def _local(state: State, site: Site, address: Array, mask: Mask | None) -> Where:
    """The places of lanes in their local memory."""
    memory = state.local_memory()
    offset = address + site.offset
    size = memory.nbytes
    bad = (offset < 0) | (offset > size - site.width) | (offset & (site.width - 1) != 0)
    if bad.any():
        _, arr = _lanes_of(offset, mask)
        fault = arr & bad
        if fault.any():
            faults.report_local(state, site, offset, fault)
        mask = _shield(state, arr, bad)
        offset = np.where(mask.arr, offset, 0)
    if state.observers:
        _note_local(state, site, offset, mask)
    return Where(memory, offset, mask)


def _note_local(state: State, site: Site, offset: Array, mask: Mask | None) -> None:
    """Note which words of local memory lanes write, or which elements of a load nobody wrote."""
    have = state.local_set
    if have is None:
        have = state.local_set = np.zeros((state.local_memory().rows, *state.shape), bool)
    lanes = tuple(np.indices(state.shape, sparse=True))
    each = max(site.kind.itemsize // 4, 1)
    first = (np.broadcast_to(offset, state.shape) >> 2)[None] + np.arange(each).reshape(
        -1, 1, 1, 1, 1
    )
    if site.op == "load":
        state.local_unset = [
            ~have[(first + j * site.kind.itemsize // 4, *lanes)].any(axis=0) & array_of(mask)
            for j in range(site.count)
        ]
        return
    state.local_at = [(first + j * site.kind.itemsize // 4, *lanes) for j in range(site.count)]
    for at in state.local_at:
        have[at] |= array_of(mask)


def local_kept(state: State, element: int, lanes: Array, mask: Mask | None) -> None:
    """Of some lanes an element of the last store to local memory has no value."""
    if state.local_set is not None and element < len(state.local_at):
        state.local_set[state.local_at[element]] &= ~(lanes & array_of(mask))


def local_unset(state: State, element: int) -> Array:
    """Of which lanes an element of the last load from local memory was never written."""
    known = state.local_unset
    return known[element] if element < len(known) else np.zeros((1, 1, 1, 1), bool)


# -- generic addresses ---------------------------------------------------------------------------


def is_space(address: Array, space: str) -> Array:
    """isspacep. space: shared (also shared::cta) the own block's, shared::cluster a peer's, too."""
    name, _, which = space.partition("::")
    inside = _in_window(address, name)
    if name != "shared" or which == "cluster":
        return inside
    return inside & (clusters.code_of(address) == 0)


_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}


def _in_window(address: Array, space: str) -> Array:
    """Which generic addresses lie in the window of a space; shared: of any block's."""
    if space in _WINDOWS:
        return (address >= _WINDOWS[space]) & (address < _WINDOWS[space] + WINDOW_SIZE)
    if space == "global":
        return ~(_in_window(address, "shared") | _in_window(address, "local"))
    return np.zeros_like(address, bool)


def by_space(
    state: State, site: Site, address: Array, mask: Mask | None
) -> list[tuple[str, Array, Mask | None]]:
    """Sort the lanes of a generic access by space: [(space, addresses within it, lanes)]."""
    target = address + site.offset
    shared, local = _in_window(target, "shared"), _in_window(target, "local")
    if not shared.any() and not local.any():
        return [("global", address, mask)]
    out: list[tuple[str, Array, Mask | None]] = []
    for name, here in (("shared", shared), ("local", local), ("global", ~(shared | local))):
        part = state.narrowed(mask, here)
        if part is None or part.n:
            everyone = part is None or (mask is not None and part.n == mask.n)
            at = address - _WINDOWS[name] if name in _WINDOWS else address
            out.append((name, at, mask if everyone else part))
    return out


def unset_shown(
    state: State, lanes: Array, does: str, line: int, first: int, mask: Mask | None
) -> None:
    """Tell of lanes that show what a register holds which they have not set."""
    lanes = lanes & array_of(mask)
    if lanes.any():
        for o in state.observers:
            o.unset(lanes, does, line, first)
