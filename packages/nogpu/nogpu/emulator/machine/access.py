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
from nogpu.emulator.machine.lanes import Array, pick, spread_to
from nogpu.emulator.machine.masks import Mask, array_of
from nogpu.emulator.machine.memory import Buffer, PeerWords, load_words, store_words
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


# -- parameters ----------------------------------------------------------------------------------


def entry_param(state: State, offset: int, kind: np.dtype[Any]) -> Array:
    """A kernel parameter at a byte offset."""
    raw = state.launch.params
    if offset + kind.itemsize > len(raw):
        raise EmulationError(f"the kernel reads its parameters at byte {offset}, beyond their end")
    return np.frombuffer(raw, kind, 1, offset).reshape(1, 1, 1, 1)


def load_param(frame: dict[str, Any], name: str, offset: int, kind: np.dtype[Any]) -> Array:
    """A parameter or return value of a device function."""
    stored = frame.get(name, {})
    value = stored.get(offset)
    if value is not None and value.dtype.itemsize == kind.itemsize:
        return value.view(kind)
    if value is not None and value.dtype.itemsize > kind.itemsize:
        return value.view(f"u{value.dtype.itemsize}").astype(f"u{kind.itemsize}").view(kind)
    # Put together from smaller parts.
    total: Array | None = None
    at = offset
    while at < offset + kind.itemsize:
        part = stored.get(at)
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
    if site.space == "shared":
        return _shared(state, site, address, mask, values, stage, move)
    if site.space == "local":
        return _local(state, site, address, mask, values)
    if site.space != "generic":
        return _global(state, site, address, mask, values, length, move)
    parts = by_space(state, site, address, mask)
    state.local_unset, state.local_at, results = [], [], []
    for space, at, part in parts:
        if space == "shared":
            got = _shared(state, site, at, part, values, stage, move)
        elif space == "local" and move is None:
            got = _local(state, site, at, part, values)
        elif space == "local":  # there are no atomics on local memory: no array, say the findings
            got = _global(state, site, at + LOCAL_WINDOW, part, values, length, move)
        else:
            got = _global(state, site, at, part, values, length, move)
        if len(parts) == 1:
            return got
        results.append((part, got))
    if values is not None:
        return None
    return _merged(site, [(part.arr, got) for part, got in results if part is not None])


def _carry(state: State, access: Access, move: Move | None) -> Any:
    """Publish an access of sound lanes to one target, and do it."""
    mask = access.where.mask
    if mask is not None and mask.n == 0:  # nobody is left: nothing to publish or store
        if move is not None:
            return move(access)
        return None if access.values is not None else _take_words(access)
    if access.site.space not in _UNWATCHED:
        state.publish(access)
    if move is not None:
        return move(access)
    if isinstance(access.where.target, Buffer):
        if access.values is not None:
            _put(state, access)
            return None
        return _take(access) if access.length is None else _take_ragged(access)
    if access.values is not None:
        _put_words(state, access)
        return None
    return _take_words(access)


_UNWATCHED = {"const", "param"}
"""Spaces that hold what nobody writes: checked, not counted."""


def _nothing(site: Site) -> Any:
    zero = np.zeros((1, 1, 1, 1), site.kind)
    return zero if site.count == 1 else (zero,) * site.count


def _merged(site: Site, parts: list[tuple[Array, Any]]) -> Any:
    """The results of several groups of lanes: [(bool of four axes, result)]."""
    total = _nothing(site)
    total = [total] if site.count == 1 else list(total)
    for lanes, got in parts:
        got = [got] if site.count == 1 else got
        total = [np.where(lanes, g, t) for g, t in zip(got, total, strict=True)]
    return total[0] if site.count == 1 else tuple(total)


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
    state: State,
    site: Site,
    address: Array,
    mask: Mask | None,
    values: tuple[Array, ...] | None,
    length: Array | None,
    move: Move | None,
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
            return _carry(state, Access(site, "global", Where(buffer, offset, mask), values), move)
    results = []
    for target, offset, sound_mask, sound in _split(state, site, address, mask, length):
        if writes and target.read_only:
            faults.report_read_only(state, site, target)
            continue
        nearest[site.index] = target
        access = Access(site, "global", Where(target, offset, sound_mask), values, length)
        results.append((sound, _carry(state, access, move)))
    return None if values is not None else _merged(site, results)


def _take(access: Access) -> Any:
    site, where = access.site, access.where
    size = site.kind.itemsize
    data = where.target.view(site.kind)  # type: ignore[union-attr]
    index = where.offset >> (size.bit_length() - 1) if size > 1 else where.offset
    # Lanes outside the mask may hold any address: `pick` keeps them harmless.
    if site.count == 1:
        return pick(data, index)
    return tuple(pick(data, index + j) for j in range(site.count))


def _take_ragged(access: Access) -> Any:
    """A load of which each lane reads only the first bytes: 32-bit words, zeros behind those."""
    where, length = access.where, access.length
    assert length is not None
    byte = np.arange(access.site.width)
    data = where.target.view(u1)  # type: ignore[union-attr]
    read = pick(data, where.offset[..., None] + byte)
    words = np.ascontiguousarray(np.where(byte < length[..., None], read, u1.type(0))).view(u4)
    if access.site.count == 1:
        return words[..., 0]
    return tuple(words[..., j] for j in range(words.shape[-1]))


def _put(state: State, access: Access) -> None:
    """Scatter in thread order: where threads collide, the highest one wins."""
    site, where = access.site, access.where
    state.launch.stored(site)
    size = site.kind.itemsize
    data = where.target.view(site.kind)  # type: ignore[union-attr]
    index = where.offset >> (size.bit_length() - 1) if size > 1 else where.offset
    arr = None if where.mask is None else where.mask.arr
    for j, value in enumerate(access.values or ()):
        _scatter(data, index + j if j else index, value.view(site.kind), arr)


def _scatter(data: Array, index: Array, value: Array, arr: Array | None) -> None:
    shape = np.broadcast_shapes(index.shape, value.shape, () if arr is None else arr.shape)
    index, value = spread_to(index, shape), spread_to(value, shape)
    if arr is None:
        data[index] = value
        return
    chosen = spread_to(arr, shape)
    data[index[chosen]] = value[chosen]


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


def _lanes_of(address: Array, mask: Mask | None) -> tuple[Array, Array]:
    """Address and mask with equal shapes."""
    arr = np.ones((1, 1, 1, 1), bool) if mask is None else mask.arr
    shape = np.broadcast_shapes(address.shape, arr.shape)
    return np.broadcast_to(address, shape), np.broadcast_to(arr, shape)


def _split(
    state: State, site: Site, address: Array, mask: Mask | None, length: Array | None
) -> list[tuple[Buffer, Array, Mask | None, Array]]:
    """Sort lanes by buffer, report faults: [(buffer, offsets, mask of the sound lanes, bool)]."""
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
            at = np.clip(offset, 0, np.maximum(buffer.nbytes - width, 0))
            last = np.minimum(at + width, buffer.nbytes) - 1
            outside = here & ~(~outside & buffer.owned[at] & buffer.owned[last])
        if outside.any():
            faults.report_outside(state, site, buffer, offset, outside, width)
        misaligned = here & ~outside & (offset & (site.width - 1) != 0)
        if misaligned.any():
            faults.report_misaligned(state, site, buffer, offset, misaligned)
        sound = here & ~outside & ~misaligned
        if sound.any():
            out.append((buffer, offset, state.mask(sound), sound))
    return out


# -- shared memory -------------------------------------------------------------------------------


class Checked:
    """A shared access whose addresses were seen before: nothing to check again."""

    __slots__ = ("address", "mask", "site", "where")

    def __init__(self, site: Site, address: Array, mask: Mask | None, where: Where) -> None:
        self.site, self.address, self.mask, self.where = site, address, mask, where


def _shared(
    state: State,
    site: Site,
    address: Array,
    mask: Mask | None,
    values: tuple[Array, ...] | None,
    stage: Stage,
    move: Move | None,
) -> Any:
    """Shared memory: the own block's, or that of a peer in the cluster."""
    if not state.launch.program.clusters:
        return _own(state, site, address, mask, values, stage, move)
    code = clusters.code_of(address + site.offset)
    if not code.any():
        return _own(state, site, address, mask, values, stage, move)
    own, away = state.narrowed(mask, code == 0), state.narrowed(mask, code != 0)
    if away is not None and not away.n:
        return _own(state, site, address, mask, values, stage, move)
    results = []
    if own is not None and own.n:
        results.append((own.arr, _own(state, site, address, own, values, stage, move)))
    got = _peers(state, site, address, code, away, values, stage, move)
    if values is not None:
        return None
    if not results:
        return got
    return _merged(site, [*results, (code != 0, got)])


def _peers(
    state: State,
    site: Site,
    address: Array,
    code: Array,
    mask: Mask | None,
    values: tuple[Array, ...] | None,
    stage: Stage,
    move: Move | None,
) -> Any:
    """Lanes that mean the shared memory of a peer. code: its rank plus one, four axes."""
    if stage is not Stage.WHOLE:
        raise EmulationError(
            f"line {site.line}: cp.async copies into the shared memory of another block of the "
            "cluster; PTX allows the own block's alone. Store there, or copy in bulk"
        )
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
    owner = clusters.column_of(state, column.reshape(-1), rank.reshape(-1)).reshape(state.shape)
    owner = np.where(arr, owner, column)
    where = Where(PeerWords(state.shared, owner), np.where(arr, offset, 0), sound, owner)
    access = Access(site, "shared", where, values)
    return _carry(state, access, move)


def _own(
    state: State,
    site: Site,
    address: Array,
    mask: Mask | None,
    values: tuple[Array, ...] | None,
    stage: Stage,
    move: Move | None,
) -> Any:
    plan = state.checked.get(site.index)
    if (
        plan is not None
        and plan.address is address
        and plan.mask is mask
        and (plan.site is site or (plan.site.width == site.width and plan.site.op == site.op))
    ):
        where = plan.where
    else:
        shift = site.offset - state.launch.program.shared_base
        offset = address + shift if shift else address
        sound = _check_shared(state, site, offset, mask)
        if sound is mask:
            where = Where(state.shared, offset, mask)
            state.checked[site.index] = Checked(site, address, mask, where)
        else:  # some lanes fault: not remembered, so that every time is counted
            assert sound is not None
            where = Where(state.shared, np.where(sound.arr, offset, 0), sound)
    access = Access(site, "shared", where, values, None, stage)
    return _carry(state, access, move)


def _check_shared(state: State, site: Site, offset: Array, mask: Mask | None) -> Mask | None:
    """Report lanes outside shared memory or misaligned; the mask of the others."""
    width, total = site.width, state.launch.shared_bytes
    outside = (offset < 0) | (offset > total - width)
    misaligned = offset & (width - 1) != 0 if width > 1 else np.zeros_like(outside)
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


def _take_words(access: Access) -> Any:
    """What lanes read of shared or local memory."""
    site, where = access.site, access.where
    size = site.kind.itemsize
    memory: Any = where.target
    if site.count == 1:
        return load_words(memory, where.offset, site.kind)
    return tuple(
        load_words(memory, where.offset + j * size if j else where.offset, site.kind)
        for j in range(site.count)
    )


def _put_words(state: State, access: Access) -> None:
    """Store to shared or local memory."""
    site, where = access.site, access.where
    state.launch.stored(site)
    size = site.kind.itemsize
    memory: Any = where.target
    arr = None if where.mask is None else where.mask.arr
    for j, value in enumerate(access.values or ()):
        offset = where.offset + j * size if j else where.offset
        store_words(memory, offset, value.view(site.kind), arr)


# -- local memory --------------------------------------------------------------------------------


def _local(
    state: State, site: Site, address: Array, mask: Mask | None, values: tuple[Array, ...] | None
) -> Any:
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
    return _carry(state, Access(site, "local", Where(memory, offset, mask), values), None)


def _note_local(state: State, site: Site, offset: Array, mask: Mask | None) -> None:
    """Note which words of local memory lanes write, or which elements of a load nobody wrote."""
    have = state.local_set
    if have is None:
        shape = -(-state.local_memory().nbytes // 4), *state.shape
        have = state.local_set = np.zeros(shape, bool)
    lanes = tuple(np.indices(state.shape, sparse=True))
    each = max(site.kind.itemsize // 4, 1)
    first = (np.broadcast_to(offset, state.shape) >> 2)[None] + np.arange(each).reshape(
        -1, 1, 1, 1, 1
    )
    if site.op == "load":
        state.local_unset = [
            ~have[(first + j * site.kind.itemsize // 4, *lanes)].any(axis=0)
            & (True if mask is None else mask.arr)
            for j in range(site.count)
        ]
        return
    state.local_at = [(first + j * site.kind.itemsize // 4, *lanes) for j in range(site.count)]
    for at in state.local_at:
        have[at] |= True if mask is None else mask.arr


def local_kept(state: State, element: int, lanes: Array, mask: Mask | None) -> None:
    """Of some lanes an element of the last store to local memory has no value."""
    if state.local_set is not None and element < len(state.local_at):
        lanes = lanes if mask is None else lanes & mask.arr
        state.local_set[state.local_at[element]] &= ~lanes


def local_unset(state: State, element: int) -> Array:
    """Of which lanes an element of the last load from local memory was never written."""
    known = state.local_unset
    return known[element] if element < len(known) else np.zeros((1, 1, 1, 1), bool)


# -- generic addresses ---------------------------------------------------------------------------


def is_space(address: Array, space: str) -> Array:
    """isspacep. space: shared and shared::cta for the own block's, shared::cluster for a peer's
    too.
    """
    if space.startswith("shared"):
        inside = (address >= SHARED_WINDOW) & (address < SHARED_WINDOW + WINDOW_SIZE)
        return inside if space == "shared::cluster" else inside & (clusters.code_of(address) == 0)
    return _in_window(address, space)


def _in_window(address: Array, space: str) -> Array:
    """Which generic addresses lie in the window of a space; shared: of any block's."""
    shared = (address >= SHARED_WINDOW) & (address < SHARED_WINDOW + WINDOW_SIZE)
    local = (address >= LOCAL_WINDOW) & (address < LOCAL_WINDOW + WINDOW_SIZE)
    if space == "shared":
        return shared
    if space == "local":
        return local
    if space == "global":
        return ~(shared | local)
    return np.zeros_like(shared)


def by_space(
    state: State, site: Site, address: Array, mask: Mask | None
) -> list[tuple[str, Array, Mask | None]]:
    """Sort the lanes of a generic access by space: [(space, addresses within it, lanes)]."""
    target = address + site.offset
    shared, local = _in_window(target, "shared"), _in_window(target, "local")
    if not shared.any() and not local.any():
        return [("global", address, mask)]
    if mask is None and shared.all():
        return [("shared", address - SHARED_WINDOW, None)]
    if mask is None and local.all():
        return [("local", address - LOCAL_WINDOW, None)]
    out: list[tuple[str, Array, Mask | None]] = []
    for name, here, window in (
        ("shared", shared, SHARED_WINDOW),
        ("local", local, LOCAL_WINDOW),
        ("global", ~(shared | local), 0),
    ):
        part = state.narrowed(mask, here)
        if part is None or part.n:
            everyone = part is None or (mask is not None and part.n == mask.n)
            out.append((name, address - window if window else address, mask if everyone else part))
    return out


def unset_shown(
    state: State, lanes: Array, does: str, line: int, first: int, mask: Mask | None
) -> None:
    """Tell of lanes that show what a register holds which they have not set."""
    if mask is not None:
        lanes = lanes & mask.arr
    if lanes.any():
        for o in state.observers:
            o.unset(lanes, does, line, first)
