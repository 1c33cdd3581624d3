"""The memories of a launch: global arrays behind guard gaps, and word-addressed shared and local.

Where things lie in the addresses of a program `ptx.layout` says. Shared and local memory hold
32-bit words with one column for every block (or thread): a word that all blocks read at the same
address is one contiguous row.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine.lanes import Array, pick, spread_to
from nogpu.emulator.ptx.layout import SLOT_BITS

if TYPE_CHECKING:
    from nogpu.emulator.machine.arena import Arena
    from nogpu.emulator.machine.tensor_maps import Placed


i4, i8, u1, u2, u4, u8 = (np.dtype(t) for t in ("i4", "i8", "u1", "u2", "u4", "u8"))


@dataclass
class Buffer:
    """One array of global memory. `data` is its bytes as a flat uint8 view."""

    name: str
    base: int
    data: Array
    itemsize: int
    shape: tuple[int, ...] = ()
    read_only: bool = False
    views: dict[np.dtype[Any], Array] = field(default_factory=dict)
    granule: int = field(init=False)  # bytes that observers tell apart
    kind: np.dtype[Any] | None = None  # element type of the caller's array
    owned: Array | None = None  # bool by byte, of the device heap: what malloc gave out

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.data.nbytes

    def view(self, kind: np.dtype[Any]) -> Array:
        """The bytes as elements of a type; a ragged end is left out."""
        elements = self.views.get(kind)
        if elements is None:
            whole = self.data[: self.nbytes // kind.itemsize * kind.itemsize]
            elements = self.views[kind] = whole.view(kind)
        return elements

    def load(self, offset: Array, kind: np.dtype[Any], count: int = 1) -> tuple[Array, ...]:
        """Elements of a type, `count` side by side, at byte offsets; any that lie inside for lanes
        whose offset does not.
        """
        data, index = self.view(kind), offset >> (kind.itemsize.bit_length() - 1)
        if count == 1:
            return (pick(data, index),)
        return tuple(pick(data, index + j) for j in range(count))

    def store(self, offset: Array, values: Iterable[Array], mask: Array | None) -> None:
        """Store elements of one type side by side at byte offsets (aligned, inside)."""
        for j, value in enumerate(values):
            index = offset >> (value.itemsize.bit_length() - 1)
            put(self.view(value.dtype), index + j if j else index, value, mask)

    def index_text(self, byte_offset: int) -> str:
        """`A[3, 7]` for a place inside, `A[4100]` for one outside (elements)."""
        element = byte_offset // self.itemsize
        if 0 <= byte_offset < self.nbytes and len(self.shape) > 1:
            where = ", ".join(str(i) for i in np.unravel_index(element, self.shape))
            return f"{self.name}[{where}]"
        return f"{self.name}[{element}]"


def put(data: Array, at: Array, value: Array, mask: Array | None) -> None:
    """Store at flat places in thread order: where lanes collide, the highest one wins."""
    shape = np.broadcast_shapes(at.shape, value.shape, () if mask is None else mask.shape)
    at, value = spread_to(at, shape), spread_to(value, shape)
    if mask is None:
        data[at] = value
        return
    chosen = spread_to(mask, shape)
    data[at[chosen]] = value[chosen]


class Heap:
    """All global buffers of a launch, by slot."""

    def __init__(self) -> None:
        self.slots: dict[int, Buffer] = {}
        self.arena: Arena | None = None  # of malloc, made when first asked
        self.maps: list[Placed] = []  # tensor maps of the launch, by number

    def add(self, name: str, data: Array, itemsize: int, shape: tuple[int, ...] = ()) -> Buffer:
        """Give a flat uint8 array an address (512-byte aligned)."""
        slot = len(self.slots) + 1
        base = (slot << SLOT_BITS) + (1 << (SLOT_BITS - 1))
        buffer = Buffer(name, base, data, itemsize, shape)
        self.slots[slot] = buffer
        return buffer

    def at(self, address: int) -> Buffer | None:
        """The buffer in whose slot an address lies."""
        return self.slots.get(address >> SLOT_BITS)


class Words:
    """Word-addressed memory: `words` rows of 32 bits, one column per block or per thread."""

    def __init__(self, nbytes: int, columns: Array) -> None:
        """columns: int64 (r, x, p, q), the column that each thread of the batch owns."""
        self.nbytes = nbytes
        least = 4  # lanes that fault load up to 16 bytes of the first
        self.rows = max(-(-nbytes // 4), least)
        self.columns, self.shape = columns, columns.shape
        self.ncolumns = int(columns.max()) + 1
        self.data = np.zeros((self.rows, self.ncolumns), u4)
        self.flat = self.data.ravel()
        self.own = True  # each thread means its own column: a row is in the order of the threads
        self.per_block = columns.shape[:2] == (1, 1)

    def meant_by(self, owner: Array) -> Words:
        """The same words for lanes that mean other columns than their own: int64, four axes."""
        other = copy(self)
        other.columns, other.own, other.per_block = owner, False, False
        return other

    def gather(self, word: Array) -> Array:
        """uint32 words at row indices `word` (four axes), for every thread that they vary over."""
        r, x, p, q = word.shape
        if self.per_block and p == 1 and q == 1:
            rows = self.data.take(word.ravel().astype(np.intp, copy=False), axis=0)
            return rows.reshape(r, x, *self.shape[2:])
        if self.own and word.size == 1:
            # A copy: what was loaded stays as it is when the word is written again.
            return self.data[int(word.reshape(()))].reshape(self.shape).copy()
        return self.flat.take((word * self.ncolumns + self.columns).astype(np.intp, copy=False))

    def scatter(self, word: Array, value: Array, mask: Array | None) -> None:
        """Store uint32 values; where lanes collide, the highest thread of the highest block
        wins."""
        r, x, p, q = word.shape
        if mask is None and self.per_block and p == 1 and q == 1:
            r, x = max(r, value.shape[0]), max(x, value.shape[1])
            whole = spread_to(value, (r, x, *self.shape[2:]))
            self.data[spread_to(word, (r, x, 1, 1)).ravel()] = whole.reshape(r * x, -1)
        elif mask is None and self.own and word.size == 1:
            self.data[int(word.reshape(()))] = spread_to(value, self.shape).ravel()
        else:
            put(self.flat, word * self.ncolumns + self.columns, value, mask)

    def load(self, offset: Array, kind: np.dtype[Any], count: int = 1) -> tuple[Array, ...]:
        """Elements of a type, `count` side by side, at byte offsets (aligned, inside)."""
        if count == 1:
            return (self._load(offset, kind),)
        return tuple(self._load(offset + j * kind.itemsize, kind) for j in range(count))

    def _load(self, offset: Array, kind: np.dtype[Any]) -> Array:
        size = kind.itemsize
        word = offset >> 2
        if size == 4:
            return self.gather(word).view(kind)
        if size == 8:
            low, high = self.gather(word), self.gather(word + 1)
            return (low.astype(u8) | (high.astype(u8) << u8.type(32))).view(kind)
        shift = ((offset & 3) << 3).astype(u4)
        narrow = self.gather(word) >> shift
        return narrow.astype(u2 if size == 2 else u1).view(kind)

    def store(self, offset: Array, values: Iterable[Array], mask: Array | None) -> None:
        """Store elements of one type side by side at byte offsets (aligned, inside)."""
        for j, value in enumerate(values):
            self._store(offset + j * value.itemsize if j else offset, value, mask)

    def _store(self, offset: Array, value: Array, mask: Array | None) -> None:
        size = value.itemsize
        word = offset >> 2
        if size == 4:
            self.scatter(word, value.view(u4), mask)
            return
        if size == 8:
            bits = value.view(u8)
            self.scatter(word, bits.astype(u4), mask)
            self.scatter(word + 1, (bits >> u8.type(32)).astype(u4), mask)
            return
        # Several lanes may write parts of one word: merge part by part.
        bits = value.view(u2 if size == 2 else u1).astype(u4)
        full = u4.type((1 << 8 * size) - 1)
        part = offset & 3
        for position in range(0, 4, size):
            here = part == position
            if not here.any():
                continue
            chosen = here if mask is None else here & mask
            shift = u4.type(8 * position)
            new = (self.gather(word) & ~(full << shift)) | ((bits & full) << shift)
            self.scatter(word, new, None if chosen.all() else chosen)
