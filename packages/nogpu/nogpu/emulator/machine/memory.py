"""The memories of a launch: global arrays behind guard gaps, and word-addressed shared and local.

Where things lie in the addresses of a program `ptx.layout` says. Shared and local memory hold
32-bit words with one column for every block (or thread): a word that all blocks read at the same
address is one contiguous row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine.lanes import Array, spread_to
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
    granule: int = 4  # bytes that observers tell apart
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

    def index_text(self, byte_offset: int) -> str:
        """`A[3, 7]` for a place inside, `A[4100]` for one outside (elements)."""
        element = byte_offset // self.itemsize
        if 0 <= byte_offset < self.nbytes and len(self.shape) > 1:
            where = ", ".join(str(i) for i in np.unravel_index(element, self.shape))
            return f"{self.name}[{where}]"
        return f"{self.name}[{element}]"


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
        self.rows = -(-nbytes // 4) or 1
        self.columns = columns
        self.ncolumns = int(columns.max()) + 1
        self.data = np.zeros((self.rows, self.ncolumns), u4)
        self.flat = self.data.reshape(-1)
        self.inner = tuple(n for n in columns.shape)
        self.per_block = columns.shape[0] == 1 and columns.shape[1] == 1

    def gather(self, word: Array) -> Array:
        """uint32 words at row indices `word` (four axes), for every thread that they vary over."""
        r, x, p, q = word.shape
        if self.per_block and p == 1 and q == 1:
            rows = self.data.take(word.reshape(-1).astype(np.intp, copy=False), axis=0)
            return rows.reshape(r, x, *self.inner[2:])
        if word.size == 1:
            # A copy: what was loaded stays as it is when the word is written again.
            return self.data[int(word.reshape(()))].reshape(self.inner).copy()
        return self.flat.take((word * self.ncolumns + self.columns).astype(np.intp, copy=False))

    def scatter(self, word: Array, value: Array, mask: Array | None) -> None:
        """Store uint32 values; where lanes collide, the highest thread wins."""
        if mask is None:
            r, x, p, q = word.shape
            if self.per_block and p == 1 and q == 1:
                vr, vx = max(r, value.shape[0]), max(x, value.shape[1])
                rows = spread_to(word, (vr, vx, 1, 1)).reshape(-1)
                shape = (vr, vx, *self.inner[2:])
                whole = spread_to(value, shape)
                self.data[rows] = whole.reshape(vr * vx, self.ncolumns)
                return
            if word.size == 1:
                self.data[int(word.reshape(()))] = spread_to(value, self.inner).reshape(-1)
                return
            at = word * self.ncolumns + self.columns
            shape = np.broadcast_shapes(at.shape, value.shape)
            self.flat[spread_to(at, shape)] = value
            return
        at = word * self.ncolumns + self.columns
        shape = np.broadcast_shapes(at.shape, value.shape, mask.shape)
        chosen = spread_to(mask, shape)
        self.flat[spread_to(at, shape)[chosen]] = spread_to(value, shape)[chosen]


class PeerWords(Words):
    """The shared memory of a batch, as lanes see it that mean other blocks than their own."""

    def __init__(self, memory: Words, owner: Array) -> None:
        """memory: where the words are. owner: int64, four axes: the column that each lane means."""
        self.nbytes, self.rows, self.ncolumns = memory.nbytes, memory.rows, memory.ncolumns
        self.data, self.flat = memory.data, memory.flat
        self.columns, self.per_block = owner, False

    def gather(self, word: Array) -> Array:
        """uint32 words at row indices `word` (four axes), of the blocks that the lanes mean."""
        return self.flat.take((word * self.ncolumns + self.columns).astype(np.intp, copy=False))

    def scatter(self, word: Array, value: Array, mask: Array | None) -> None:
        """Store uint32 values; of colliding lanes the highest thread of the highest block wins."""
        every = np.ones((1, 1, 1, 1), bool) if mask is None else mask
        at = word * self.ncolumns + self.columns
        shape = np.broadcast_shapes(at.shape, value.shape, every.shape)
        chosen = spread_to(every, shape)
        self.flat[spread_to(at, shape)[chosen]] = spread_to(value, shape)[chosen]


def load_words(memory: Words, offset: Array, kind: np.dtype[Any]) -> Array:
    """Elements of a type at byte offsets (aligned, inside) of word memory."""
    size = kind.itemsize
    word = offset >> 2
    if size == 4:
        return memory.gather(word).view(kind)
    if size == 8:
        low, high = memory.gather(word), memory.gather(word + 1)
        return (low.astype(u8) | (high.astype(u8) << u8.type(32))).view(kind)
    shift = ((offset & 3) << 3).astype(u4)
    narrow = memory.gather(word) >> shift
    return narrow.astype(u2 if size == 2 else u1).view(kind)


def store_words(memory: Words, offset: Array, value: Array, mask: Array | None) -> None:
    """Store elements at byte offsets (aligned, inside) of word memory."""
    size = value.dtype.itemsize
    word = offset >> 2
    if size == 4:
        memory.scatter(word, value.view(u4), mask)
        return
    if size == 8:
        bits = value.view(u8)
        memory.scatter(word, bits.astype(u4), mask)
        memory.scatter(word + 1, (bits >> u8.type(32)).astype(u4), mask)
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
        old = memory.gather(word)
        new = (old & ~(full << shift)) | ((bits & full) << shift)
        memory.scatter(word, new, None if chosen.all() else chosen)
