"""wgmma: the four warps of a warpgroup multiply matrices that lie in shared memory.

A descriptor of 64 bits says of a matrix in shared memory where it begins, two strides, and how its
rows are swizzled. The element (row r, byte b of a row of k) of a K-major matrix lies, from the
start, at

  no swizzle   16 (r % 8) + SBO (r // 8) + LBO (b // 16) + b % 16
  S bytes      S (r % 8) + SBO (r // 8) + b

and (byte b of a column of m or n, k) of an MN-major one at

  no swizzle   b % 16 + SBO (b // 16) + 16 (k % 8) + LBO (k // 8)
  S bytes      b % S + LBO (b // S) + S (k % 8) + SBO (k // 8)

with the leading byte offset LBO and the stride byte offset SBO; a swizzle then changes bits 4 to 6
(128 bytes), 4 to 5 (64) or 4 (32) of the address in shared memory by exclusive or with as many bits
from bit 7 on. Both it and the copy engine take the bits from the address, so a matrix may begin in
any row of the pattern where its box begins: a descriptor's base offset is of the pattern, not of
the matrix. An H200 multiplies so from all eight rows (hopper_1 with its tiles 128 to 896 bytes
further on, 2026-11-28). Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions":
shared memory matrix layout, strides, matrix descriptor format, register fragments. The numbers are
as for mma.sync (see `tensor`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine import tensor
from nogpu.emulator.machine.attribution import Offender, accuse
from nogpu.emulator.machine.bulk import PIECE, ROW_BITS, Requests
from nogpu.emulator.machine.events import Bulk, Stage
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import Mask, array_of
from nogpu.emulator.machine.products import under_way
from nogpu.emulator.machine.warp import warps

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site


i4, i8, f8 = np.dtype("i4"), np.dtype("i8"), np.dtype("f8")

WARPS = 4  # of a warpgroup
THREADS = 32 * WARPS
ROWS = 64  # of A, and of the sums
K_BYTES = 32  # of a row of k
SWIZZLE = {0: 0, 1: 128, 2: 64, 3: 32}
"""Bytes of a swizzle, by the descriptor's top bits."""
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, **dict.fromkeys(("s8", "u8", "e4m3", "e5m2"), 8)}
_BITS |= {"e2m1x2": 4, **dict.fromkeys(tensor.SMALL, 8)}
_RESERVED = 0b11 << 14 | 0b11 << 30 | 0b111 << 46 | 0x3FF << 52
"""Bits of a descriptor that mean nothing: what stands there was too wide for the field below."""


@dataclass(frozen=True)
class Operand:
    """A matrix of one product. name: A or B; count: its rows or columns; kind: of its elements.

    major: "K", where neighbours in memory are neighbours along k, or "MN". row: bytes along k.
    """

    name: str
    count: int
    kind: str
    major: str
    row: int = K_BYTES

    @property
    def k(self) -> int:
        """Elements along k."""
        return 8 * self.row // _BITS[self.kind]


@dataclass(frozen=True)
class Multiply:
    """What the words and numbers of one wgmma.mma_async say.

    kinds: PTX's types of D, A and B. negated: whether A, B are taken with the other sign.
    transposed: whether A, B are MN-major. sums, factors: the names of the registers of D and, if it
    is in registers, of A.
    """

    n: int
    kinds: tuple[str, str, str]
    negated: tuple[bool, bool]
    transposed: tuple[bool, bool]
    saturate: bool
    line: int
    sums: tuple[str, ...]
    factors: tuple[str, ...]

    @property
    def shape(self) -> str:
        """What products that add to the same sums have in common."""
        return f"n{self.n} {self.kinds}"


def _by_group(by_warp: Array) -> Array:
    """(warps, ...) as (warpgroups, 4, ...), with zeros for warps that the block does not have."""
    if missing := -len(by_warp) % WARPS:
        none = np.zeros((missing, *by_warp.shape[1:]), by_warp.dtype)
        by_warp = np.concatenate([by_warp, none])
    return by_warp.reshape(-1, WARPS, *by_warp.shape[1:])


def whole_warpgroups(state: State, what: str, line: int, mask: Mask | None) -> None:
    """Report warpgroups of which only some threads come to an instruction that takes all 128."""
    products = under_way(state)
    if (mask is None and state.threads % THREADS == 0) or (
        mask is not None and products.whole is mask
    ):
        return
    count = _by_group(state.lanes_active(mask)).sum(axis=(1, 2))  # (warpgroups, blocks)
    partial = (count > 0) & (count < THREADS)
    if not partial.any():
        products.whole = mask
        return
    group, column = (int(i[0]) for i in np.nonzero(partial))
    block = state.block_tuple(column)
    state.find(
        "divergent-barrier",
        line,
        f"{int(count[group, column])} of 128 threads of warps {WARPS * group} to "
        f"{WARPS * group + 3} of block {block} come to {what}, which the four warps of a warpgroup "
        "execute together. Keep them together here, and give the block a multiple of 128 threads",
        int(np.count_nonzero(partial)),
        block=block,
    )


# -- matrices in shared memory -------------------------------------------------------------------


@lru_cache
def places(operand: Operand, swizzle: int) -> list[Array]:
    """Of each piece of a matrix: its distance from the start but for how often LBO and SBO count.

    int64, (rows, pieces of k) of a K-major matrix, (k, pieces along m or n) of an MN-major one.
    """
    if operand.major == "K":
        r = np.arange(operand.count)[:, None]
        j = np.arange(operand.row // PIECE)
        found = (r % 8 * swizzle + PIECE * j, 0, r // 8) if swizzle else (r % 8 * PIECE, j, r // 8)
    else:
        k = np.arange(operand.k)[:, None]
        j = np.arange(operand.count * _BITS[operand.kind] // (8 * PIECE))
        b = PIECE * j
        swizzled = swizzle and (b % swizzle + k % 8 * swizzle, b // swizzle, k // 8)
        found = swizzled or (k % 8 * PIECE, k // 8, j)
    return list(np.broadcast_arrays(*found))


def addresses(descriptor: int, operand: Operand) -> Array:
    """Addresses in shared memory of a matrix's pieces: int64, flat, in the order of `places`."""
    start, leading, stride = ((descriptor >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    swizzle = SWIZZLE[descriptor >> 62 & 3]
    fixed, leads, strides = places(operand, swizzle)
    address = (start + fixed + leads * leading + strides * stride).ravel()
    row = (address >> 7) - (descriptor >> 49 & 7)
    return np.asarray(address ^ (row & ROW_BITS[swizzle]) << 4)


def begins_mid_pattern(descriptor: int) -> bool:
    """Whether a matrix begins in another row of its swizzle's pattern than the base offset says."""
    rows = ROW_BITS[SWIZZLE[descriptor >> 62 & 3]]
    row = (descriptor & 0x3FFF) << 4 >> 7
    return bool((row ^ descriptor >> 49) & rows)


def judge_descriptor(
    state: State,
    site: Site,
    operand: Operand,
    descriptor: int,
    lane: Offender,
    reserved: int = _RESERVED,
) -> None:
    """Report a descriptor that cannot be meant. lane: who has it.

    One that begins in the middle of its swizzle's pattern can, where a box began in such a row.
    """
    swizzle = SWIZZLE[descriptor >> 62 & 3]
    start, base = (descriptor & 0x3FFF) << 4, descriptor >> 49 & 7
    row = start >> 7 & ROW_BITS[swizzle]
    if descriptor & reserved:
        accuse(
            "out-of-bounds",
            site.line,
            lane,
            f"{lane} describes matrix {operand.name} by {descriptor:#018x}, in which bits are set "
            "that belong to no field: the start address and the two byte offsets have 14 bits "
            "each, and hold bits 4 to 17 of a number of bytes. Write ((bytes & 0x3FFFF) >> 4) "
            "into each",
            array="shared",
        )
    elif begins_mid_pattern(descriptor):
        if not base and row in {r & ROW_BITS[swizzle] for r in state.launch.box_rows}:
            state.launch.remark(
                f"line {int(site.line)}: matrix {operand.name} begins in row {row} of the pattern "
                "of its swizzle, and so did a box: the copy engine and the product both take the "
                "pattern from the address. A thread that reads or writes there must, too"
            )
            return
        accuse(
            "misaligned",
            site.line,
            lane,
            f"{lane} describes matrix {operand.name} with a swizzle of {swizzle} bytes from "
            f"address {start} of shared memory on: the pattern repeats every {8 * swizzle} bytes, "
            f"and the matrix begins in the middle of it, with a base offset of {base}, in a row "
            f"where no box began. Begin at a multiple of {8 * swizzle} bytes, and step inside a "
            "row only",
            array="shared",
        )


def _descriptors(
    state: State, site: Site, operand: Operand, value: Array, here: Array, groups: Requests
) -> Array:
    """The descriptor of each warpgroup, uint64; threads that have another one are reported.

    value: int64, four axes. here: bool (warps, 32, blocks).
    """
    if value.size == 1:
        return np.broadcast_to(value.ravel().view("u8"), groups.thread.shape)
    full = warps(state, value).view("u8")
    first = full[::WARPS, 0]  # (warpgroups, blocks)
    other = here & (full != np.repeat(first, WARPS, axis=0)[: len(full), None])
    if other.any():
        warp, lane, column = (int(i[0]) for i in np.nonzero(other))
        who = Offender(state, 32 * warp + lane, column, int(np.count_nonzero(other)))
        accuse(
            "divergent-barrier",
            site.line,
            who,
            f"{who} describes matrix {operand.name} by {int(full[warp, lane, column]):#018x}, and "
            f"the first thread of its warpgroup by {int(first[warp // WARPS, column]):#018x}: all "
            "128 threads must give one descriptor. Compute it from what they have in common, such "
            "as threadIdx.x / 128",
        )
    return np.asarray(first[groups.thread // THREADS, groups.column])


def _matrix(
    state: State, number: int, operand: Operand, value: Array, here: Array, groups: Requests
) -> tuple[Array, list[Bulk]]:
    """A matrix in shared memory, float64 (warpgroups, m or n, k), and the event of its read."""
    site = state.sites[number]
    descriptors = _descriptors(state, site, operand, value, here, groups)
    judge = partial(judge_descriptor, state, site, operand)
    words, pieces = matrix_at(
        state, site, operand, descriptors, groups, groups.column, judge, THREADS
    )
    return values_of(words, operand), [_read_event(state, site, groups, *p) for p in pieces]


def matrix_at(
    state: State,
    site: Site,
    operand: Operand,
    descriptors: Array,
    requests: Requests,
    column: Array,
    judge: Callable[[int, Offender], None],
    lanes: int = 1,
) -> tuple[Array, list[tuple[Array, Array]]]:
    """A matrix in shared memory, as descriptors say, and which pieces are read.

    Parameters
    ----------
    descriptors, column: of each request, uint64, and the block that it reads.
    judge: reports a descriptor that cannot be meant.
    lanes: that make a request together.

    Returns
    -------
    The words of its pieces, uint32 (requests, pieces, 4); and for observers, if there are any,
    their distinct offsets and which of these there are, (requests, pieces).
    """

    def who(which: Array) -> Offender:
        i = int(which[0])
        return Offender(state, int(requests.thread[i]), int(requests.column[i]), lanes * len(which))

    distinct, which = np.unique(descriptors, return_inverse=True)
    base, total = state.launch.program.shared_base, state.launch.shared_bytes
    offset = np.stack([addresses(int(d), operand) for d in distinct]) - base
    for i, descriptor in enumerate(distinct):
        judge(int(descriptor), who(np.flatnonzero(which == i)))
    outside = (offset < 0) | (offset > total - PIECE)
    for i in np.flatnonzero(outside.any(axis=1)).tolist():
        lane = who(np.flatnonzero(which == i))
        _report_outside(state, site, operand, int(distinct[i]), offset[i], lane)
    offset = np.where(outside, 0, offset)[which]
    there = ~outside[which]
    words = state.shared.data[(offset >> 2)[:, :, None] + np.arange(4), column[:, None, None]]
    if outside.any():
        words = np.where(there[:, :, None], words, np.uint32(0))
    return words, [_distinct_pieces(offset, there)] if state.observers else []


def values_of(words: Array, operand: Operand) -> Array:
    """The elements of matrices, float64 (requests, m or n, k), out of the words of their pieces."""
    values = np.stack(tensor.values_in(words.view(i4), operand.kind), axis=-1).astype(f8)
    if operand.major == "K":
        return values.reshape(len(words), operand.count, operand.k)
    return values.reshape(len(words), operand.k, operand.count).transpose(0, 2, 1)


def _report_outside(
    state: State, site: Site, operand: Operand, descriptor: int, offset: Array, lane: Offender
) -> None:
    """A matrix reaches outside shared memory. offset: of its pieces."""
    total = state.launch.shared_bytes
    low, high = int(offset.min()), int(offset.max()) + PIECE
    past = high > total
    far = f"{high - total} byte(s) past its end" if past else f"{-low} byte(s) before its start"
    leading, stride = ((descriptor >> at & 0x3FFF) << 4 for at in (16, 32))
    accuse(
        "out-of-bounds",
        site.line,
        lane,
        f"{lane} multiplies by a matrix {operand.name} that lies in bytes {low} to {high - 1} of "
        f"shared memory, {far}: the block has {total} bytes. Its descriptor says a leading byte "
        f"offset of {leading} and a stride byte offset of {stride}. Compare them with how the tile "
        "was stored",
        array="shared",
    )


def _distinct_pieces(offset: Array, there: Array) -> tuple[Array, Array]:
    """Pieces in order, and which of them there are: those named twice by a request count once."""
    order = np.argsort(offset, axis=1, kind="stable")
    offset = np.take_along_axis(offset, order, axis=1)
    there = np.take_along_axis(there, order, axis=1)
    # A piece outside stands at 0, where another one may be: the sound one of two equal ones comes
    # to count.
    fresh = np.ones_like(there)
    fresh[:, 1:] = (offset[:, 1:] != offset[:, :-1]) | (there[:, 1:] & ~there[:, :-1])
    return offset, there & fresh


def _read_event(state: State, site: Site, groups: Requests, offset: Array, there: Array) -> Bulk:
    """The four warps of each warpgroup read pieces."""
    thread = (groups.thread[:, None] + np.arange(0, THREADS, 32)).ravel()
    exists = thread < state.threads
    column, offset, there = (
        np.repeat(v, WARPS, axis=0)[exists] for v in (groups.column, offset, there)
    )
    return read_event(state, site, thread[exists], column, column, offset, there, by="product")


def read_event(
    state: State,
    site: Site,
    thread: Array,
    column: Array,
    owner: Array,
    offset: Array,
    there: Array,
    width: int = PIECE,
    by: str = "tensor",
) -> Bulk:
    """The Tensor Cores read pieces of shared memory; arguments as for `Bulk`."""
    whole = None if there.all() else there
    place = thread, column, owner, offset, width, whole
    return Bulk(site, "shared", state.shared, False, *place, Stage.BEGUN, by)


# -- the product ---------------------------------------------------------------------------------


def wgmma(
    state: State,
    fields: tuple[Any, ...],
    sites: tuple[int, int],
    a: tuple[Array, ...],
    b: Array,
    add: Array,
    d: tuple[Array, ...],
    mask: Mask | None,
) -> list[Array]:
    """wgmma.mma_async: the registers of D, for warpgroups that take no part as they were.

    Parameters
    ----------
    fields: of `Multiply`.
    sites: of A (-1: in registers) and of B.
    a, b: A's registers or its descriptor, B's descriptor; int64, four axes.
    add: bool, whether D is added to the product.
    d: the registers of D as they are.
    """
    m = Multiply(*fields)
    here = state.lanes_active(mask)
    at = np.asarray(here.any(axis=1))  # (warps, blocks)
    if not at.any():  # under a guard that holds for nobody
        return list(d)
    number, column = np.nonzero(_by_group(at).any(axis=1))
    groups = Requests(number * THREADS, column, ())
    n, (kind, a_kind, b_kind) = m.n, m.kinds
    reads: list[Bulk] = []
    if sites[0] != -1:
        a_operand = Operand("A", ROWS, a_kind, "MN" if m.transposed[0] else "K")
        left, reads = _matrix(state, sites[0], a_operand, a[0], here, groups)
    else:
        k = 8 * K_BYTES // _BITS[a_kind]
        tiles = _tiles(state, a, a_kind, tensor.a_layout(16, k, a_kind), k).astype(f8)
        left = tiles[number, :, column].reshape(len(number), ROWS, k)
    b_operand = Operand("B", n, b_kind, "MN" if m.transposed[1] else "K")
    right, more = _matrix(state, sites[1], b_operand, b, here, groups)
    for bulk in (reads := reads + more):
        state.publish_bulk(bulk)
    under_way(state).start(m.line, m.shape, at, m.sums, m.factors, reads)
    left = -left if m.negated[0] else left
    right = -right if m.negated[1] else right
    layout = tensor.c_layout(16, n)
    total = _tiles(state, d, kind, layout, n)
    before = total[number, :, column]
    if not add.all():
        adds = _by_group(warps(state, add)[:, 0])[number, :, column]
        before = np.where(adds[:, :, None, None], before, np.zeros((), before.dtype))
    products = tensor.multiply_add(
        left, right.transpose(0, 2, 1), before.reshape(len(number), ROWS, n), (kind, a_kind),
        m.saturate, True,
    )  # fmt: skip
    total[number, :, column] = products.reshape(before.shape)
    by_warp = total.reshape(-1, *total.shape[2:])[: len(at)]
    registers = tensor.registers_of(state, by_warp, layout, kind)
    if bool(at.all()):
        return registers
    lanes = array_of(mask)
    return [
        np.where(lanes, new, old.view(new.dtype)) for new, old in zip(registers, d, strict=True)
    ]


def _tiles(
    state: State, registers: tuple[Array, ...], kind: str, layout: tuple[Array, Array], columns: int
) -> Array:
    """Fragments of 16 rows, warp after warp, as matrices (warpgroups, 4, blocks, 16, columns)."""
    elements = tensor.elements_of(state, registers, kind, len(registers))
    return _by_group(tensor.matrix_of(elements, layout, (16, columns)))
