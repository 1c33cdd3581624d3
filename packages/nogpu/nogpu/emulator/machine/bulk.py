"""The copy engine of Hopper (TMA): boxes of tensors, and rows of bytes, between global and shared
memory, and rows between the shared memories of a cluster.

One thread asks; the engine copies. The bytes move when the instruction runs; that they are under
way until they have been waited for is for observers to say. A copy to shared memory counts
its bytes at an mbarrier, whose phase it keeps open; a copy from shared memory belongs to a group of
its thread, which waits for it. Source: PTX ISA, "Data Movement and Conversion Instructions:
Asynchronous copy, bulk and tensor".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine import clusters, faults, mbarrier
from nogpu.emulator.machine.atomics import apply
from nogpu.emulator.machine.attribution import Offender, accuse, offender_among
from nogpu.emulator.machine.events import Bulk, Stage
from nogpu.emulator.machine.lanes import Array, pick
from nogpu.emulator.machine.masks import Mask, array_of, flat_lanes
from nogpu.emulator.machine.tensor_maps import Placed, map_at
from nogpu.emulator.ptx import words as words_ptx
from nogpu.emulator.ptx.layout import RANK_SHIFT, SHARED_WINDOW
from nogpu.errors import EmulationError

if TYPE_CHECKING:
    from nogpu.emulator.machine.memory import Buffer
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site


PIECE = 16
"""Bytes of the chunks in which the engine moves memory: a swizzle keeps them whole."""
_ALIGNED = 128  # bytes: where a box may begin in shared memory
ROW_BITS = {0: 0, 32: 1, 64: 3, 128: 7}
"""By the bytes of a swizzle: which bits of (address / 128) are added to the chunk's number, modulo
2.
"""


def swizzled(address: Array, swizzle: int) -> Array:
    """Where the byte at an address lies in a pattern of `swizzle` bytes: in another chunk.

    Source: PTX ISA, "Tensor swizzling modes": of 128 bytes, bits 4 to 6 take bits 7 to 9 by
    exclusive or; of 64, bits 4 and 5 bits 7 and 8; of 32, bit 4 bit 7.
    """
    return address ^ ((address >> 7 & ROW_BITS[swizzle]) << 4)


@dataclass(frozen=True)
class Requests:
    """Threads that ask for a copy: flat arrays, and for each of them its values."""

    thread: Array
    column: Array
    values: tuple[Array, ...]

    def only(self, chosen: Array) -> Requests:
        """Some of them."""
        return Requests(
            self.thread[chosen], self.column[chosen], tuple(v[chosen] for v in self.values)
        )

    def offender(self, state: State, bad: Array) -> tuple[int, Offender]:
        """The first bad one: its place, and its thread for all bad ones."""
        return offender_among(state, self.thread, self.column, bad)


def requests_of(state: State, mask: Mask | None, *values: Array) -> Requests:
    thread, column, *rest = (
        v.astype(np.int64)
        for v in flat_lanes(state, mask, state.thread, state.block_index, *values)
    )
    return Requests(thread, column, tuple(rest))


def shared_event(
    state: State, site: Site, requests: Requests, offset: Array, owner: Array | None = None,
    barrier: Array | None = None, receiver: Array | None = None,
) -> Bulk:  # fmt: skip
    """A copy that begins to write pieces of the shared memory of `owner`; None: that reads those of
    its own block's.
    """
    writes = owner is not None
    part = site.as_(space="shared", op="store" if writes else "load")
    thread, column = requests.thread, requests.column
    place = thread, column, column if owner is None else owner, offset, PIECE, None, Stage.BEGUN
    return Bulk(part, "shared", state.shared, writes, *place, barrier=barrier, receiver=receiver)


def _global_event(
    site: Site,
    buffer: Buffer,
    requests: Requests,
    offset: Array,
    there: Array | None = None,
    operation: str | None = None,
) -> Bulk:
    """A read of pieces of an array; with an operation ("": a copy) what is written there."""
    writes = operation is not None
    part = site.as_(space="global", op="store" if writes else "load")
    if operation:
        part = part.as_(op="atomic", strong=True)
    thread, column = requests.thread, requests.column
    return Bulk(part, "global", buffer, writes, thread, column, column, offset, PIECE, there)


def in_shared(state: State, site: Site, address: Array) -> tuple[Array, Array, Array]:
    """Bytes from the start of a block's shared memory, absolute address, and rank + 1 of the block
    (0: own).
    """
    at = address + site.offset
    if site.space == "generic":
        at = at - SHARED_WINDOW
    code = clusters.code_of(at)
    within = at - (code << RANK_SHIFT)
    return within - state.launch.program.shared_base, within, code


def receivers(
    state: State, site: Site, requests: Requests, code: Array, targets: Array, several: bool
) -> tuple[Array, Array]:
    """(which request, whose shared memory) of each copy that requests make: flat.

    code: the block's rank in the cluster + 1, 0 for the own block. several: to every block of the
    cluster whose bit is set in `targets`. A block that the cluster does not have is a finding, and
    gets nothing.
    """
    request, rank = np.arange(len(code)), code - 1
    if several:
        bits = targets[:, None] >> np.arange(16) & 1
        request, rank = np.nonzero(bits)
    if not several and not code.any():
        return request, requests.column
    size = clusters.of(state).size
    nobody = rank >= size
    if nobody.any():
        i, lane = requests.only(request).offender(state, nobody)
        accuse(
            "out-of-bounds",
            site.line,
            lane,
            f"{lane} copies to the block of rank {int(rank[i])} of its cluster, which has {size} "
            "blocks",
        )
        request, rank = request[~nobody], rank[~nobody]
    column = requests.column[request]
    owner = clusters.column_of(state, column, rank)
    return request, np.where(rank < 0, column, owner)


# -- groups --------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Open:
    """Copies that are under way, and the groups that their threads had closed before."""

    event: Bulk
    group: Array


class Stores:
    """Copies from shared memory under way in a batch of blocks, by group of their thread."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.open: list[_Open] = []  # that read shared memory
        self.writing: list[_Open] = []  # that write global memory, if anybody watches
        self.commits = np.zeros((state.threads, state.blocks), np.int64)

    def start(self, event: Bulk) -> None:
        """Copies begin."""
        self.open.append(_Open(event, self.commits[event.thread, event.column]))

    def writes(self, event: Bulk) -> None:
        """Copies begin to write."""
        self.state.publish_bulk(event)
        if self.state.observers:
            self.writing.append(_Open(event, self.commits[event.thread, event.column]))

    def commit(self, chosen: Array) -> None:
        """Threads (bool, threads x blocks) close a group."""
        self.commits = self.commits + chosen

    def wait(self, allowed: int, read: bool, chosen: Array) -> None:
        """All but the latest `allowed` groups of these threads have read their shared memory, and
        unless `read` have written.
        """
        self._over(self.open, allowed, chosen)
        if not read:
            self._over(self.writing, allowed, chosen)

    def _over(self, under_way: list[_Open], allowed: int, chosen: Array) -> None:
        for copy in list(under_way):
            e = copy.event
            now = self.commits[e.thread, e.column]
            done = chosen[e.thread, e.column] & (copy.group < now - allowed)
            if not done.any():
                continue
            self.state.publish_bulk(rows_of(e, done, Stage.WAITED))
            if done.all():
                under_way.remove(copy)
            else:
                copy.event, copy.group = rows_of(e, ~done, e.stage), copy.group[~done]

    def never_waited(self) -> None:
        """The blocks end: report copies that may still read their shared memory."""
        for copy in self.open:
            e, s = copy.event, self.state
            lane = Offender(s, int(e.thread[0]), int(e.column[0]), len(e.thread))
            what = "closed its group (cp.async.bulk.commit_group)"
            if (copy.group < self.commits[e.thread, e.column]).any():
                what = "waited for it (cp.async.bulk.wait_group)"
            accuse(
                "race",
                e.site.line,
                lane,
                f"{lane} ends while the copy engine still reads shared memory for it: nobody has "
                f"{what}. The shared memory of a block that has ended is another's. Wait for the "
                "group before the end",
            )


def rows_of(event: Bulk, chosen: Array, stage: Stage) -> Bulk:
    """Some requests of an event."""
    each = {name: getattr(event, name) for name in _BY_REQUEST}
    part = {name: value[chosen] for name, value in each.items() if value is not None}
    return replace(event, **part, stage=stage)


_BY_REQUEST = ("thread", "column", "owner", "offset", "there", "barrier", "receiver")


def commit_bulk(state: State, mask: Mask | None) -> None:
    """cp.async.bulk.commit_group."""
    if state.stores is not None:
        state.stores.commit(state.by_thread(array_of(mask)))


def wait_bulk(state: State, allowed: int, read: bool, mask: Mask | None) -> None:
    """cp.async.bulk.wait_group; .read: only the sources of all but the latest groups are read."""
    if state.stores is not None:
        state.stores.wait(allowed, read, state.by_thread(array_of(mask)))


# -- boxes of tensors ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Boxes:
    """Where the elements of boxes lie: of `n` requests, boxes of `rows` rows of `chunks` pieces.

    element: byte offset in the array of each element, (n, rows, columns); inside: whether it is one
    of the tensor. shared: byte offset of each piece in the shared memory of a block, (n, rows *
    chunks).
    """

    element: Array
    inside: Array
    shared: Array


def _boxes(placed: Placed, start: Sequence[Array], base: Array, absolute: Array) -> _Boxes:
    """start: first element along each axis, the fastest first. base, absolute: in shared memory."""
    m, n = placed.description, len(base)
    axes = [
        s[:, None] + np.arange(b) for s, b in zip(start[::-1], m.box, strict=True)
    ]  # slowest axis first, as in NumPy
    offset, inside = np.full((n, 1), m.first, np.int64), np.ones((n, 1), bool)
    for at, size, stride in zip(axes, m.sizes, m.array.strides, strict=True):
        offset = (offset[:, :, None] + at[:, None, :] * stride).reshape(n, -1)
        inside = (inside[:, :, None] & ((at >= 0) & (at < size))[:, None, :]).reshape(n, -1)
    columns = m.box[-1]
    row = columns * placed.itemsize
    rows = int(np.prod(m.box[:-1]))
    piece = (np.arange(rows)[:, None] * placed.pitch + np.arange(0, row, PIECE)).ravel()
    linear = absolute[:, None] + piece
    shared = swizzled(linear, m.swizzle) - absolute[:, None] + base[:, None]
    shape = n, rows, columns
    return _Boxes(offset.reshape(shape), inside.reshape(shape), shared)


def _pieces(boxes: _Boxes, itemsize: int) -> tuple[Array, Array]:
    """Of each piece, (n, pieces): byte offset in the array, and whether any element is inside."""
    each = PIECE // itemsize
    n = len(boxes.element)
    first = boxes.element.reshape(n, -1, each)[..., 0]
    there = np.asarray(boxes.inside.reshape(n, -1, each).any(axis=2))
    return first // PIECE * PIECE, there


def _fits(
    state: State, site: Site, requests: Requests, base: Array, absolute: Array, placed: Placed,
    start: Sequence[Array], stores: bool,
) -> Array:  # fmt: skip
    """Which boxes begin where the engine takes them, in the tensor and in a block's shared memory;
    the others are findings.

    start: first element along each axis, the fastest first. stores: to the tensor. Source of both
    rules of the tensor: an H200, which ends a kernel that breaks one with "illegal instruction".
    """
    total, size, room = state.launch.shared_bytes, placed.box_bytes, placed.room
    outside = (base < 0) | (base + room > total)
    misaligned = ~outside & (absolute % _ALIGNED != 0)
    far = f"it reaches outside the {total} bytes of shared memory of the block"
    if room > size:
        far += f": a swizzle of {placed.pitch} bytes gives each of its rows so many"
    _accuse(state, site, requests, base, outside, "out-of-bounds", f"a box of {size}", far)
    odd = f"it does not begin at a multiple of {_ALIGNED} bytes"
    _accuse(state, site, requests, base, misaligned, "misaligned", f"a box of {size}", odd)
    between = start[0] * placed.itemsize % PIECE != 0
    before = np.any([s < 0 for s in start], axis=0) & stores
    rules = {
        "misaligned": (between, f"its rows must begin at multiples of {PIECE} bytes"),
        "out-of-bounds": (before, "a box that is stored must not begin before the tensor"),
    }
    for kind, (bad, why) in rules.items():
        if bad.any():
            i, lane = requests.offender(state, bad)
            name = placed.buffer.name
            where = f"{name}[{', '.join(str(s[i]) for s in start[::-1])}]"
            message = f"{lane} copies a box that begins at {where}: {why}"
            accuse(kind, site.line, lane, message, array=name, index=where)
    return np.asarray(~(outside | misaligned | between | before))


def _accuse(
    state: State, site: Site, requests: Requests, shared: Array, bad: Array, kind: str,
    size: Array | str, why: str,
) -> None:  # fmt: skip
    """Report copies from or to places in shared memory, if some are bad. size: of each, or all."""
    if bad.any():
        i, lane = requests.offender(state, bad)
        name, where = state.shared_name(int(shared[i]))
        much = size if isinstance(size, str) else size[i]
        message = f"{lane} copies {much} bytes at {where}: {why}"
        accuse(kind, site.line, lane, message, array=name, index=where)


def _by_map(state: State, line: int, requests: Requests) -> list[tuple[Placed, Requests]]:
    """Requests by the tensor map that they name, their first value."""
    address = requests.values[0]
    return [
        (map_at(state.launch, int(a), line), requests.only(address == a))
        for a in np.unique(address)
    ]


def load_box(
    state: State,
    number: int,
    to: Array,
    tensor_map: Array,
    start: tuple[Array, ...],
    barrier_number: int,
    barrier: Array,
    targets: Array | None,
    pair: bool,
    mask: Mask | None,
) -> None:
    """cp.async.bulk.tensor from global to shared memory: a box, counted at an mbarrier.

    What lies outside the tensor arrives as the map's fill, and counts.

    Parameters
    ----------
    number, barrier_number: of the sites that write shared memory and count at the mbarrier.
    to, barrier: addresses in shared memory.
    tensor_map: its generic address.
    start: first element along each axis, the fastest first.
    targets: blocks of the cluster, a bit each; None: the own one.
    pair: .cta_group::2, the mbarrier may lie in the other block of the pair.
    """
    site, at_barrier = state.sites[number], state.sites[barrier_number]
    everyone = np.zeros((1, 1, 1, 1), np.int64) if targets is None else targets
    every = requests_of(state, mask, tensor_map, to, barrier, everyone, *start)
    for placed, requests in _by_map(state, site.line, every):
        _right_axes(placed, len(start), site)
        into, absolute, code = in_shared(state, site, requests.values[1])
        first = requests.values[4:]
        fits = _fits(state, site, requests, into, absolute, placed, first, stores=False)
        if placed.description.swizzle:
            state.launch.box_rows.update((absolute >> 7 & 7).tolist())
        boxes = _boxes(placed, first, into, absolute)
        values = _elements_of(placed, boxes)
        offset, there = _pieces(boxes, placed.itemsize)
        state.publish_bulk(_global_event(site, placed.buffer, requests, offset, there))
        at, _, at_code = in_shared(state, at_barrier, requests.values[2])
        request, owner = receivers(
            state, site, requests, code, requests.values[3], targets is not None
        )
        home = owner
        if targets is None and (at_code != code).any():
            if pair:
                home = receivers(state, site, requests, at_code, requests.values[3], False)[1]
            if not pair or (home ^ owner > 1).any():
                raise EmulationError(
                    f"line {site.line}: the box goes to one block of the cluster and its bytes are "
                    "counted in another: the mbarrier lies in the shared memory that the box is "
                    "copied to, or with .cta_group::2 in that of the other block of the pair"
                )
        sound = fits[request]
        which = request[sound]
        issued, pieces = requests.only(which), boxes.shared[which]
        counted = None if home is owner else home[sound]
        event = shared_event(state, site, issued, pieces, owner[sound], at[which], counted)
        put_shared(state, event, values[which])
        land(state, at_barrier, requests.only(request), at[request], home, placed.box_bytes)


def _right_axes(placed: Placed, count: int, site: Site) -> None:
    have = len(placed.description.box)
    if count != have:
        raise EmulationError(
            f"line {site.line}: the copy names a place by {count} coordinates, and its tensor map "
            f"describes an array of {have} axes ({placed.buffer.name})"
        )


def _elements_of(placed: Placed, boxes: _Boxes) -> Array:
    """The words of boxes, piece after piece: uint32 (n, pieces, 4)."""
    unit = np.dtype(f"u{placed.itemsize}")
    data = placed.buffer.view(unit)
    got = pick(data, boxes.element // placed.itemsize)
    got = np.where(boxes.inside, got, unit.type(placed.blank))
    return np.ascontiguousarray(got.reshape(len(got), -1)).view(np.uint32).reshape(len(got), -1, 4)


def put_shared(state: State, event: Bulk, words: Array) -> None:
    """Tell of a copy into shared memory, and make it. words: uint32 (requests, pieces, 4)."""
    if not len(event.thread):
        return
    state.publish_bulk(event)
    state.launch.stored(event.site)
    row = (event.offset >> 2)[:, :, None] + np.arange(4)
    state.shared.data[row, event.owner[:, None, None]] = words


def land(
    state: State, site: Site, requests: Requests, barrier: Array, owner: Array, nbytes: int
) -> None:
    """The bytes of copies are there: count them at the mbarriers of the blocks that got them."""
    counts = np.full(len(owner), nbytes)
    mbarrier.complete_bytes(state, site, barrier, owner, counts, requests.thread, requests.column)


def _read_shared(state: State, event: Bulk) -> Array:
    """Words that a copy reads: uint32 (requests, pieces, 4)."""
    row = (event.offset >> 2)[:, :, None] + np.arange(4)
    return np.asarray(state.shared.data[row, event.owner[:, None, None]])


def _begin_store(state: State, event: Bulk, write: Bulk) -> Array:
    """Tell of a copy that reads shared memory and what it writes; from here on it is under way.
    Returns its words.
    """
    state.publish_bulk(event)
    if state.stores is None:
        state.stores = Stores(state)
    state.stores.start(event)
    state.stores.writes(write)
    return _read_shared(state, event)


_KINDS = {
    "f2": "f16", "u2": "bf16", "f4": "f32", "f8": "f64", "i4": "s32", "u4": "u32", "i8": "s64",
    "u8": "u64",
}  # fmt: skip
"""By NumPy's type of an array: that of its elements in a reduction.

Two bytes that are no float16 are bfloat16.
"""
_FLOATS = ("f16", "bf16", "f32", "f64")


def _kind_of(placed: Placed, site: Site, operation: str) -> str:
    """PTX's type of a tensor's elements, in which a reduction works; "" for a copy."""
    if not operation:
        return ""
    dtype = placed.description.array.dtype
    kind = _KINDS.get(dtype.str[1:], "")
    sums, floats = operation == "add", kind in _FLOATS
    fits = kind and (
        not floats or sums or (operation in ("min", "max") and kind in ("f16", "bf16"))
    )
    if not fits or (operation in ("inc", "dec") and kind != "u32"):
        raise EmulationError(
            f"line {site.line}: the copy engine does not do .{operation} with {dtype} "
            f"({placed.buffer.name}). Floats take .add, those of two bytes .min and .max too, "
            "whole numbers of four or eight bytes all but .inc and .dec, which take uint32"
        )
    return kind


def _write(data: Array, at: Array, values: Array, operation: str, kind: str) -> None:
    """A copy to the elements at `at`; with an operation, they and the values become one."""
    data[at] = apply(operation, kind, data[at], values, values) if operation else values


def store_box(
    state: State,
    number: int,
    tensor_map: Array,
    start: tuple[Array, ...],
    source: Array,
    mask: Mask | None,
    operation: str,
) -> None:
    """cp.async.bulk.tensor from shared to global memory: what of a box lies inside the tensor.

    operation: of cp.reduce.async.bulk.tensor, what becomes of what lies there; "": a copy.
    """
    site = state.sites[number]
    for placed, every in _by_map(
        state, site.line, requests_of(state, mask, tensor_map, source, *start)
    ):
        _right_axes(placed, len(start), site)
        if placed.buffer.read_only:
            faults.report_read_only(state, site, placed.buffer)
            continue
        at, absolute, _ = in_shared(state, site, every.values[1])
        fits = _fits(state, site, every, at, absolute, placed, every.values[2:], stores=True)
        requests, at, absolute = every.only(fits), at[fits], absolute[fits]
        if not len(at):
            continue
        boxes = _boxes(placed, requests.values[2:], at, absolute)
        event = shared_event(state, site, requests, boxes.shared)
        if not boxes.inside.all():
            each = np.repeat(boxes.inside, placed.itemsize, axis=2)
            event.meant = each.reshape(*event.offset.shape, event.width)
        place = _pieces(boxes, placed.itemsize)
        write = _global_event(site, placed.buffer, requests, *place, operation)
        words = _begin_store(state, event, write)
        state.launch.stored(site)
        kind = _kind_of(placed, site, operation)
        unit = words_ptx.NUMPY[kind] if kind else f"u{placed.itemsize}"
        values = np.ascontiguousarray(words).view(unit).reshape(boxes.element.shape)
        data = placed.buffer.view(np.dtype(unit))
        at = boxes.element // placed.itemsize
        if not operation:
            data[at[boxes.inside]] = values[boxes.inside]
            continue
        for places, value, inside in zip(at, values, boxes.inside, strict=True):
            _write(data, places[inside], value[inside], operation, kind)


# -- rows of bytes -------------------------------------------------------------------------------


def _rows(
    state: State, site: Site, requests: Requests, shared: Array, size: Array
) -> list[tuple[int, Array]]:
    """Requests by their size in bytes; sizes and places that do not fit are findings, left out."""
    total = state.launch.shared_bytes
    misaligned = (size % PIECE != 0) | (shared % PIECE != 0)
    outside = ~misaligned & ((shared < 0) | (shared + size > total))
    odd = f"size and address are multiples of {PIECE}"
    _accuse(state, site, requests, shared, misaligned, "misaligned", size, odd)
    far = f"a block has {total} bytes of shared memory"
    _accuse(state, site, requests, shared, outside, "out-of-bounds", size, far)
    sound = ~(misaligned | outside) & (size > 0)
    return [(int(n), np.flatnonzero(sound & (size == n))) for n in np.unique(size[sound])]


def _buffers(
    state: State, site: Site, requests: Requests, address: Array, size: int, writes: bool
) -> list[tuple[Buffer, Array, Array]]:
    """[(array, which requests mean it, byte offsets)]; what does not begin at a chunk, or lies
    outside an array, is a finding. Source: an H200, which ends a kernel with "misaligned address".
    """
    parts = []
    slots = np.array([id(state.launch.heap.at(int(a))) for a in address])
    for slot in np.unique(slots):
        here = np.flatnonzero(slots == slot)
        buffer = state.launch.heap.at(int(address[here[0]]))
        offset = address[here] - (buffer.base if buffer else 0)
        odd = address[here] % PIECE != 0
        away = ~odd
        why = ", which belongs to no array"
        if buffer is not None:
            away &= (offset < 0) | (offset + size > buffer.nbytes)
            why = f", which do not lie in {buffer.name} ({buffer.nbytes} bytes)"
        does = "write" if writes else "read"
        for kind, bad, rule in (
            ("misaligned", odd, f": the engine {does}s arrays at multiples of {PIECE} bytes alone"),
            ("out-of-bounds", away, why),
        ):
            if bad.any():
                place, lane = requests.only(here).offender(state, bad)
                at = int(address[here[place]])
                name = buffer.name if buffer else ""
                index = buffer.index_text(at - buffer.base) if buffer else ""
                copied = f"copies {size} bytes {'to' if writes else 'from'} {index or hex(at)}"
                accuse(kind, site.line, lane, f"{lane} {copied}{rule}", array=name, index=index)
        bad = odd | away
        if buffer is not None and not bad.all():
            parts.append((buffer, here[~bad], offset[~bad]))
    return parts


def _rows_in_arrays(
    state: State,
    site: Site,
    requests: Requests,
    shared: Array,
    size: Array,
    address: Array,
    writes: bool,
) -> Iterator[tuple[Requests, Array, Buffer, Array]]:
    """Sound requests of one size to one array: these, where their pieces lie in shared memory, the
    array, and where they lie there; bytes, (requests, pieces). writes: to the array.
    """
    for count, which in _rows(state, site, requests, shared, size):
        part, piece = requests.only(which), np.arange(0, count, PIECE)
        for buffer, here, offset in _buffers(state, site, part, address[which], count, writes):
            at = shared[which][here]
            yield part.only(here), at[:, None] + piece, buffer, offset[:, None] + piece


def load_row(
    state: State,
    number: int,
    to: Array,
    from_number: int,
    source: Array,
    size: Array,
    barrier_number: int,
    barrier: Array,
    targets: Array | None,
    mask: Mask | None,
) -> None:
    """cp.async.bulk from global to shared memory: `size` bytes in a row, counted at an mbarrier."""
    site, at_barrier = state.sites[number], state.sites[barrier_number]
    everyone = np.zeros((1, 1, 1, 1), np.int64) if targets is None else targets
    every = requests_of(state, mask, source, to, size, barrier, everyone)
    into = in_shared(state, site, every.values[1])[0]
    address = every.values[0] + state.sites[from_number].offset
    for row in _rows_in_arrays(state, site, every, into, every.values[2], address, False):
        requests, pieces, buffer, offset = row
        state.publish_bulk(_global_event(site, buffer, requests, offset))
        words = pick(buffer.view(np.dtype("u4")), (offset >> 2)[:, :, None] + np.arange(4))
        counts_at, _, code = in_shared(state, at_barrier, requests.values[3])
        several = targets is not None
        request, owner = receivers(state, site, requests, code, requests.values[4], several)
        requests, counts_at = requests.only(request), counts_at[request]
        event = shared_event(state, site, requests, pieces[request], owner, counts_at)
        put_shared(state, event, words[request])
        land(state, at_barrier, requests, counts_at, owner, PIECE * pieces.shape[1])


def store_row(
    state: State,
    number: int,
    to: Array,
    from_number: int,
    source: Array,
    size: Array,
    mask: Mask | None,
    operation: str,
    kind: str,
) -> None:
    """cp.async.bulk from shared to global memory: `size` bytes that lie side by side.

    operation, kind: of cp.reduce.async.bulk, what becomes of what lies there; "": a copy.
    """
    site, reads = state.sites[number], state.sites[from_number]
    every = requests_of(state, mask, to, source, size)
    at = in_shared(state, reads, every.values[1])[0]
    address = every.values[0] + site.offset
    for row in _rows_in_arrays(state, site, every, at, every.values[2], address, True):
        requests, pieces, buffer, offset = row
        if buffer.read_only:
            faults.report_read_only(state, site, buffer)
            continue
        event = shared_event(state, site, requests, pieces)
        write = _global_event(site, buffer, requests, offset, None, operation)
        words = _begin_store(state, event, write)
        state.launch.stored(site)
        unit = np.dtype(words_ptx.NUMPY[kind] if operation else "u1")
        values = np.ascontiguousarray(words).reshape(len(words), -1).view(unit)
        data, each = buffer.view(unit), np.arange(values.shape[1])
        for first, value in zip(offset[:, 0] // unit.itemsize, values, strict=True):
            _write(data, first + each, value, operation, kind)


def pass_row(
    state: State,
    number: int,
    to: Array,
    from_number: int,
    source: Array,
    size: Array,
    barrier_number: int,
    barrier: Array,
    mask: Mask | None,
) -> None:
    """cp.async.bulk from a block's shared memory to that of a block of its cluster, counted at an
    mbarrier there.
    """
    site, reads, at_barrier = (state.sites[n] for n in (number, from_number, barrier_number))
    every = requests_of(state, mask, source, to, size, barrier)
    away = in_shared(state, reads, every.values[0])[0]
    into, _, code = in_shared(state, site, every.values[1])
    counts_at, _, counted_in = in_shared(state, at_barrier, every.values[3])
    if (counted_in != code).any():
        raise EmulationError(
            f"line {site.line}: the bytes go to one block of the cluster and are counted in "
            "another: the mbarrier lies in the shared memory that they are copied to. Take both "
            "addresses from mapa with the same rank"
        )
    fits = {int(i) for _, which in _rows(state, site, every, into, every.values[2]) for i in which}
    nowhere = np.zeros_like(code)
    for count, sound in _rows(state, site, every, away, every.values[2]):
        which = np.array([i for i in sound if int(i) in fits], np.int64)
        requests = every.only(which)
        request, owner = receivers(state, site, requests, code[which], nowhere, False)
        if not len(request):
            continue
        requests, which = requests.only(request), which[request]
        piece = np.arange(0, count, PIECE)
        barriers = counts_at[which]
        pieces = away[which][:, None] + piece
        read = shared_event(state, reads, requests, pieces, None, barriers, owner)
        state.publish_bulk(read)
        words = _read_shared(state, read)
        pieces = into[which][:, None] + piece
        event = shared_event(state, site, requests, pieces, owner, barriers)
        put_shared(state, event, words)
        land(state, at_barrier, requests, barriers, owner, count)


def init_fence(state: State, mask: Mask | None) -> None:
    """fence.mbarrier_init: engines and peers may use the mbarriers that these threads set up."""
    for o in state.observers:
        o.inits(mask)


def proxy_fence(state: State, space: str, mask: Mask | None) -> None:
    """fence.proxy.async: what threads know to be written, the engines may read. space: generic
    where the instruction names none.
    """
    for o in state.observers:
        o.proxy(space, mask)
