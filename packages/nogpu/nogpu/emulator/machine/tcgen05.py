"""tcgen05.mma: one thread has the Tensor Cores multiply matrices in shared or tensor memory.

The sums lie in tensor memory: row r of 128 in lane r, row r of 64 in lane r % 16 + 32 (r // 16),
column n in the column n from the address on, one element in each. Where the lanes hold a product's
rows several times (64 of a pair's 128; 32 or 64 with .ws), each time they hold the next part of the
columns, and A in tensor memory, a copy of it. A lies in shared memory, or in tensor memory with its
rows as those of the sums and 32 bytes of k in eight columns. A float of 4 or 6 bits takes a byte
there; in shared memory 16 of them are packed into the first bytes of 16, but for the kinds mxf4 and
mxf4nvf4, which know no padding. Descriptors of shared memory say what
wgmma's do (see `warpgroup`), with other fixed bits. A product is computed when it is issued; it is
under way until the phase of an mbarrier is over at which tcgen05.commit let it arrive. So are
copies and shifts. Source: PTX ISA 9.0, "TensorCore 5th Generation Instructions"; what it says in
figures alone (layouts of .ws, lanes of a copy of 4 rows, the direction of a shift, where in its
byte an element of 4 or 6 bits lies): CUTLASS's copy_traits_sm100.hpp, mma_traits_sm100_frag.hpp,
its examples for B200 (which say what .ashift does: they ran on one), and mma_traits_sm120.hpp.

How the Tensor Cores of such a GPU round the sums is open: here as an H200's wgmma (see
`sums`), and with scales exactly, rounded to FP32 once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine import arith, clusters, mbarrier, tensor, tensor_memory, warpgroup
from nogpu.emulator.machine.attribution import Offender, accuse
from nogpu.emulator.machine.bulk import PIECE, Requests, requests_of
from nogpu.emulator.machine.lanes import Array
from nogpu.errors import EmulationError

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site

i4 = np.dtype("i4")

_FLOATS = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_TYPES = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _FLOATS,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": _FLOATS,
    "mxf4": {1: "e2m1x2"},
    "mxf4nvf4": {1: "e2m1x2"},
}
"""PTX's types of A and B by the instruction descriptor's number, of each kind."""
_SUMS = {0: "f16", 1: "f32", 2: "s32"}
_SUMS_OF = {"f16": ("f16", "f32"), "tf32": ("f32",), "f8f6f4": ("f16", "f32"), "i8": ("s32",)}
_REACH = (0, 8, 16, 32)
"""Columns that B may be shifted by, by bits 30 and 31 of the instruction descriptor."""
FIXED = 0b001 << 46
_RESERVED = 0b11 << 14 | 0b11 << 30 | 0b110 << 46 | 0xFF << 53 | 1 << 61
"""Bits of a matrix descriptor that are 0 (in shared memory, with strides in bytes)."""
_A_COLUMNS = 8  # of tensor memory, that 32 bytes of k of A take
_SCALED_ROWS = 32  # rows of A, or columns of B, whose scales one column of tensor memory holds


@dataclass(frozen=True)
class Instruction:
    """What an instruction descriptor says.

    kinds: PTX's types of D, A and B. negated, transposed: A, B. scales: of a row of A, and of a
    column of B, for each product; their type (ue8m0, ue4m3), and the byte of a word of tensor
    memory where those of A and of B begin. reach: how far B's columns may be shifted; shift: how
    far they are; zeros: which of the columns are then 0, or empty.
    """

    m: int
    n: int
    kinds: tuple[str, str, str]
    negated: tuple[bool, bool]
    transposed: tuple[bool, bool]
    saturate: bool
    pair: bool
    scales: int = 0
    scale: str = ""
    sub: tuple[int, int] = (0, 0)
    ws: bool = False
    reach: int = 0
    shift: int = 0
    zeros: tuple[bool, ...] = ()

    @property
    def shape(self) -> str:
        """What products that add to the same sums in order have in common."""
        return f"m{self.m}n{self.n} {self.kinds[0]}{' ws' * self.ws}"

    @property
    def half(self) -> bool:
        """Whether every second 16 lanes hold rows, and the others nothing."""
        return self.m == 64 and not self.ws

    @property
    def lanes(self) -> Array:
        """The lanes that hold sums, from the address's on."""
        r = np.arange(64 if self.half else 128)
        return r % 16 + r // 16 * 32 if self.half else r

    @property
    def rows(self) -> int:
        """Rows of A and of the sums in each block."""
        return self.m // (1 + self.pair)

    @property
    def parts(self) -> int:
        """How often the lanes hold those rows, each time for the next part of the columns."""
        return len(self.lanes) // self.rows

    @property
    def columns(self) -> int:
        """Columns of tensor memory that the sums take."""
        return self.n // self.parts


def _field(code: int, at: int, bits: int) -> int:
    """So many bits of a descriptor, from one on."""
    return code >> at & (1 << bits) - 1


@lru_cache
def instruction(code: int, kind: str, pair: bool, ws: bool, scales: int, line: int) -> Instruction:
    """Read an instruction descriptor.

    pair: .cta_group::2. ws: B stays in the Tensor Cores. scales: of .block_scale, for each row; 0:
    none. Raises EmulationError for one that says nothing valid.
    """
    field = partial(_field, code)

    def wrong(why: str) -> EmulationError:
        return EmulationError(
            f"line {line}: the instruction descriptor {code:#010x} of "
            f"tcgen05.mma{'.ws' * ws}.kind::{kind} "
            f"{why}. Its fields: {_fields(bool(scales))}"
        )

    if field(2, 1):
        raise wrong("asks for a sparse A, which is not emulated")
    reserved = (0, 1, 3, 6, 24, 25, 26) if scales else (0, 1, 6, 23, 29, *(() if ws else (30, 31)))
    if any(field(at, 1) for at in reserved):
        raise wrong(f"sets bits that are reserved ({', '.join(map(str, reserved))})")
    m, n = field(27, 2) << 7 if scales else field(24, 5) << 4, field(17, 6) << 3
    rows = ((256,) if pair else (128,)) if scales else (128, 256) if pair else (64, 128)
    rows = (32, *rows) if ws else rows
    least = 16 if pair else 8
    wide = n in (64, 128, 256) if ws else not n % least and least <= n <= 256
    if kind == "i8" and not ws:
        wide = wide and (not n % 32 if pair else n <= 32 or not n % 16)
    if m not in rows or not wide:
        raise wrong(
            f"says M = {m} and N = {n}; with .cta_group::{1 + pair} M is "
            f"{' or '.join(map(str, rows))}, and N "
            + ("64, 128 or 256" if ws else f"a multiple of {least} up to 256")
            + (" (of i8 of 32 with a pair, of 16 beyond 32)" if kind == "i8" and not ws else "")
        )
    d = "f32" if scales else _SUMS.get(field(4, 2), "")
    a, b = (_TYPES[kind].get(field(at, 3), "") for at in (7, 10))
    if d not in _SUMS_OF.get(kind, ("f32",)) or not a or not b:
        raise wrong(
            f"says types {field(4, 2)} of D, {field(7, 3)} of A and {field(10, 3)} of B. D takes "
            f"{' or '.join(_SUMS_OF.get(kind, ('f32',)))}; A and B take {_TYPES[kind]}"
        )
    turned = bool(field(15, 1)), bool(field(16, 1))
    if any(turned) and kind in ("tf32", "mxf4", "mxf4nvf4"):
        raise wrong(f"asks for a transposed matrix of {a}, which is not emulated")
    signs = bool(field(13, 1)), bool(field(14, 1))
    plain = Instruction(m, n, (d, a, b), signs, turned, bool(field(3, 1)), pair, ws=ws)
    if not scales:
        return replace(plain, reach=_REACH[field(30, 2)])
    scale, sub = "ue8m0" if code & 1 << 23 else "ue4m3", (field(29, 2), field(4, 2))
    if (scale == "ue4m3") > (scales == 4) or any(i % scales for i in sub):
        raise wrong(
            f"says scales of {scale} that begin at bytes {sub[0]} (A) and {sub[1]} (B), {scales} a "
            "row: ue4m3 comes four a row, and they begin at a multiple of their number"
        )
    return replace(plain, saturate=False, scales=scales, scale=scale, sub=sub)


@lru_cache
def zeroed(form: Instruction, code: int, line: int) -> Instruction:
    """A product with the columns of B that a zero-column mask descriptor says.

    Source: PTX ISA 9.0, "Zero-Column Mask Descriptor". Its table describes the two spans the wrong
    way round: their names, its examples and CUTLASS's mma_sm100_desc.hpp agree, and are followed.

    Raises EmulationError for one that says nothing valid.
    """
    field = partial(_field, code)
    shift, most = field(56, 6), min(form.reach, 16 if form.m == 32 else 32)
    if field(36, 3) or field(62, 2) or shift > most:
        raise EmulationError(
            f"line {line}: the zero-column mask descriptor {code:#018x} of tcgen05.mma.ws "
            + (
                f"shifts B by {shift} columns. With M = {form.m}, and bits 30 and 31 of the "
                f"instruction descriptor as they are, it may be {most}"
                if shift > most
                else "sets bits that are reserved (36 to 38, 62, 63)"
            )
        )
    skip, use = field(40, 8) + 1, field(48, 8) + 1
    zeros: list[bool] = []
    for part in range(form.parts):
        # One of the two spans, then the other, again and again; fewer of the first one.
        at = np.arange(form.columns) + field(8 * part, 8)
        first = bool(field(32 + part, 1))
        other = at % (skip + use) >= (skip if first else use)
        zeros += (other != first).tolist()
    return replace(form, shift=shift, zeros=tuple(zeros) if field(39, 1) else ())


def _fields(scaled: bool) -> str:
    """Where the fields of an instruction descriptor lie, in words."""
    if scaled:
        return (
            "bits 4-5 and 29-30 the byte of the scales of B and A, 7-9 and 10-12 the types of A "
            "and B, 17-22 N / 8, 23 the type of the scales, 27-28 M / 128"
        )
    return "bits 4-5 the type of D, 7-9 and 10-12 those of A and B, 17-22 N / 8, 24-28 M / 16"


def _turns(requests: Requests) -> list[Requests]:
    """Requests one after the other within a block: the first of each, the second of each."""
    order = np.argsort(requests.column, kind="stable")
    column = requests.column[order]
    place = np.arange(len(column)) - np.searchsorted(column, column)
    return [requests.only(order[place == turn]) for turn in range(int(place.max(initial=-1)) + 1)]


def tensor_mma(
    state: State,
    sites: tuple[int, int],
    kind: str,
    pair: bool,
    ws: bool,
    shifts: bool,
    scales: tuple[int, Array, Array] | None,
    line: int,
    operands: tuple[Array, Array, Array, Array, Array],
    kept: tuple[Array, ...],
    mask: Mask | None,
) -> None:
    """tcgen05.mma.

    Parameters
    ----------
    sites: of A (-1: in tensor memory) and of B in shared memory.
    pair: .cta_group::2, two blocks of a cluster hold half of A, of B and of the sums each.
    ws: B stays in the Tensor Cores.
    shifts: .ashift, behind the product A is shifted as by four tcgen05.shift.
    scales: how many a row, and the addresses of A's and B's in tensor memory.
    operands: D's address, A's descriptor or address, B's descriptor, the instruction descriptor,
        and whether D is added; four axes.
    kept: words of the lanes whose sums stay as they are, or none; of ws its zero-column mask
        descriptor, or none.
    """
    count, *places = scales or (0,)
    every = requests_of(state, mask, *operands, *places, *kept)
    for turn in _turns(every):
        codes = turn.values[3] & 0xFFFFFFFF
        masks = turn.values[-1] if ws and kept else 0 * codes
        for code, zeros in sorted({*zip(codes.tolist(), masks.tolist(), strict=True)}):
            form = instruction(code, kind, pair, ws, count, line)
            form = zeroed(form, zeros & 0xFFFFFFFFFFFFFFFF, line) if zeros else form
            if shifts and form.m < 128:
                raise EmulationError(
                    f"line {line}: tcgen05.mma.ashift says M = {form.m}; it takes 128 or 256"
                )
            some = turn.only((codes == code) & (masks == zeros))
            done, blocks = _multiply(state, sites, form, line, some)
            for block, i in product(blocks, range(len(done.thread) if shifts else 0)):
                lane = Offender(state, int(done.thread[i]), int(done.column[i]))
                for first in range(0, tensor_memory.LANES, _QUARTER):
                    _shift(state, lane, line, int(done.values[1][i]) + (first << 16), int(block[i]))


def _blocks(state: State, pair: bool, column: Array, line: int) -> list[Array]:
    """The blocks that hold the parts of each product, the even one of a pair first."""
    if not pair:
        return [column]
    peers = clusters.of(state)
    if peers.size % 2:
        raise EmulationError(
            f"line {line}: tcgen05 with .cta_group::2 takes two blocks of a cluster, and this "
            f"launch has clusters of {peers.size}. Give cluster=(2, 1, 1), or "
            "__cluster_dims__(2, 1, 1)"
        )
    rank = peers.rank[column]
    return [clusters.column_of(state, column, rank & ~1 | odd) for odd in (0, 1)]


def _multiply(
    state: State, sites: tuple[int, int], form: Instruction, line: int, requests: Requests
) -> tuple[Requests, list[Array]]:
    """The products of some blocks, one each. Returns those that are sound, and their blocks."""
    memory = tensor_memory.of(state)
    blocks = _blocks(state, form.pair, requests.column, line)
    sound = [
        # Of both blocks, also where the first is not sound: each is told of.
        min([_sound(state, sites, form, line, requests, i, int(b[i])) for b in blocks])
        for i in range(len(requests.thread))
    ]
    requests, blocks = requests.only(np.array(sound)), [b[sound] for b in blocks]
    if not any(sound):
        return requests, blocks
    d, a, b, _, add, *rest = requests.values
    scaled, kept = (rest[:2], rest[2:]) if form.scales else ([], [] if form.ws else rest)
    _, a_kind, b_kind = form.kinds
    majors = ["MN" if turned else "K" for turned in form.transposed]
    more = form.shift if majors[1] == "K" else -(-form.shift // PIECE) * PIECE  # whole pieces
    b_operand = warpgroup.Operand("B", form.n // len(blocks) + more, b_kind, majors[1])
    a_operand = warpgroup.Operand("A", form.rows, a_kind, majors[0])
    left: list[list[Array]] = []
    right = []
    for block in blocks:
        right.append(_matrix(state, state.sites[sites[1]], b_operand, b, requests, block))
        if sites[0] != -1:
            matrix = _matrix(state, state.sites[sites[0]], a_operand, a, requests, block)
            left.append([matrix] * form.parts)
            continue
        place = _place(form, block, a, _A_COLUMNS)
        elements = tensor.values_in(memory.data[place].view("i4"), a_kind)
        rows = np.stack(elements, axis=-1).astype("f8").reshape(len(block), len(form.lanes), -1)
        left.append(np.split(rows, form.parts, axis=1))
    factor = np.concatenate(right, axis=1)[:, form.shift : form.shift + form.n]
    if form.zeros:
        factor = np.where(np.array(form.zeros)[:, None], 0, factor)
    factor = -factor if form.negated[1] else factor
    for i, (block, copies) in enumerate(zip(blocks, left, strict=True)):
        copies = [-mine for mine in copies] if form.negated[0] else copies
        place = _place(form, block, d, form.columns)
        before = _sums(memory.data[place], form.kinds[0])
        before = np.where((add != 0)[:, None, None], before, 0)
        if form.scales:
            mine = _scaled(state, form, copies[0], block, scaled[0], form.sub[0])
            other = _scaled(state, form, factor, block, scaled[1], form.sub[1])
            total = np.matmul(mine, other.transpose(0, 2, 1)) + before
        else:
            parts = [np.split(x, form.parts, axis=1) for x in (factor, before)]
            totals = [
                tensor.multiply_add(
                    mine, some.transpose(0, 2, 1), old, form.kinds[:2], form.saturate, True
                )
                for mine, some, old in zip(copies, *parts, strict=True)
            ]
            total = np.concatenate(totals, axis=1)
        new = _words(total, form.kinds[0])
        if kept:
            masks, lane = np.stack(kept, axis=1), place[1][:, :, 0]
            disabled = np.take_along_axis(masks, 4 * i + (lane >> 5), axis=1) >> (lane & 31) & 1
            new = np.where(disabled[:, :, None] != 0, memory.data[place], new)
        memory.data[place] = new
        memory.written[place] = True
    return requests, blocks


def _place(form: Instruction, block: Array, address: Array, columns: int) -> tuple[Array, ...]:
    """Where the lanes of products lie in tensor memory: to index (blocks, lanes, columns)."""
    return (
        block[:, None, None],
        (form.lanes + (address >> 16 & 0xFFFF)[:, None])[:, :, None],
        (address & 0xFFFF)[:, None, None] + np.arange(columns),
    )


def _scaled(
    state: State, form: Instruction, matrix: Array, block: Array, address: Array, sub: int
) -> Array:
    """A matrix (blocks, rows, k) times the scales of its rows: row r's lie in lane r % 32 and the
    column r // 32 from the address on, a byte each.
    """
    rows = np.arange(matrix.shape[1])
    words = tensor_memory.of(state).data[
        block[:, None],
        rows % _SCALED_ROWS,
        address[:, None] + rows // _SCALED_ROWS,
    ]
    each = [words >> 8 * (sub + i) & 0xFF for i in range(form.scales)]
    bits = np.stack(each, axis=-1).astype("u1")
    if form.scale == "ue8m0":
        values = np.where(bits == 0xFF, np.nan, np.ldexp(1.0, bits.astype(int) - 127))
    else:
        values = arith.fp8_value(bits & 0x7F, "e4m3").astype("f8")
    length = matrix.shape[2] // form.scales
    return np.asarray(matrix * np.repeat(values, length, axis=2))


def _sums(words: Array, kind: str) -> Array:
    """The sums that words of tensor memory hold, float64 or int64."""
    if kind == "f16":
        return words.astype("u2").view("f2").astype("f8")
    return words.view("i4" if kind == "s32" else "f4").astype("i8" if kind == "s32" else "f8")


def _words(values: Array, kind: str) -> Array:
    """Inverse of `_sums`."""
    if kind == "f16":
        return values.astype("f2").view("u2").astype("u4")
    return values.astype("i4" if kind == "s32" else "f4").view("u4")


def _sound(
    state: State,
    sites: tuple[int, int],
    form: Instruction,
    line: int,
    requests: Requests,
    i: int,
    block: int,
) -> bool:
    """Whether one product lies inside what a block has; its accesses are told to observers."""
    memory = tensor_memory.of(state)
    lane = Offender(state, int(requests.thread[i]), int(requests.column[i]))
    d, a, _, _, add, *scaled = (int(v[i]) for v in requests.values)
    places = [("writes", d, form.columns)]
    if sites[0] == -1:
        places.insert(0, ("multiplies", a, _A_COLUMNS))
    if form.scales:
        counts = -(-form.rows // _SCALED_ROWS), -(-form.n // _SCALED_ROWS)
        places += [("scales by", at, n) for at, n in zip(scaled[:2], counts, strict=True)]
    for does, at, count in places:
        first, start = at >> 16 & 0xFFFF, at & 0xFFFF
        if first not in ((0, 16) if form.half else (0,)):
            tensor_memory.report(
                "misaligned",
                line,
                lane,
                f"{lane} {does} tensor memory from lane {first} on by a product of {form.m} rows: "
                "it begins at lane 0, one of 64 rows without .ws at lane 0 or 16",
            )
            return False
        if not memory.inside(lane, line, start, count, does, block):
            return False
        columns = slice(start, start + count)
        there = memory.written[block, form.lanes + first, columns]
        if (does != "writes" or add) and not there.all():
            cure = (
                "Let the first product of a tile leave out what was there (enable-input-d false)"
                if does == "writes"
                else "Copy it there first (tcgen05.cp, tcgen05.st); scales to all 128 lanes"
            )
            tensor_memory.report(
                "uninitialised",
                line,
                lane,
                f"{lane} {'adds to' if does == 'writes' else does} columns {start} to "
                f"{start + count - 1} of tensor memory, of which nothing has written some since "
                f"they were allocated. {cure}",
            )
        lanes = slice(first, tensor_memory.LANES, 32 if form.half else 1)
        what = "writes" if does == "writes" else "reads"
        tensor_memory.publish(lane, line, what, "product", block, lanes, columns, form.shape)
    return True


def _matrix(
    state: State,
    site: Site,
    operand: warpgroup.Operand,
    value: Array,
    requests: Requests,
    block: Array,
) -> Array:
    """A matrix in the shared memory of blocks, float64 (requests, m or n, k)."""
    bits = tensor.SMALL.get(operand.kind, 8)
    words = _words_of(state, site, operand, value, requests, block, 2 * bits)
    return warpgroup.values_of(_unpacked(words, bits), operand)


def _words_of(
    state: State,
    site: Site,
    operand: warpgroup.Operand,
    value: Array,
    requests: Requests,
    block: Array,
    width: int = PIECE,
) -> Array:
    """The words of its pieces, uint32 (requests, pieces, 4). width: bytes of each that matter."""

    def judge(descriptor: int, lane: Offender) -> None:
        plain = descriptor & ~FIXED
        if plain == descriptor:
            accuse(
                "misaligned",
                site.line,
                lane,
                f"{lane} describes matrix {operand.name} by {descriptor:#018x}, whose bits 46 to "
                "48 are not 0b001, as a descriptor of tcgen05 has them",
                array="shared",
            )
        warpgroup.judge_descriptor(state, site, operand, plain, lane, _RESERVED)

    words, pieces = warpgroup.matrix_at(
        state, site, operand, value.view("u8"), requests, block, judge
    )
    who = requests.thread, requests.column, block
    for distinct in pieces:
        state.publish_bulk(warpgroup.read_event(state, site, *who, *distinct, width))
    return words


_COPIED = {
    "128x256b": (128, 32, np.arange(128)[:, None]),
    "4x256b": (4, 32, 32 * np.arange(4)[:, None]),
    "128x128b": (128, 16, np.arange(128)[:, None]),
    "64x128b.02_13": (64, 16, np.add.outer(np.arange(64) % 32 + np.arange(64) // 32 * 32, [0, 64])),
    "64x128b.01_23": (64, 16, np.add.outer(np.arange(64) % 32 + np.arange(64) // 32 * 64, [0, 32])),
    "32x128b": (32, 16, np.add.outer(np.arange(32), 32 * np.arange(4))),
}
"""Of each shape of tcgen05.cp: rows, bytes of a row, and the lanes that each row goes to."""
_QUARTER = 32  # lanes that a warp reaches, that a shift takes, that 4 copied rows lie apart


def _unpacked(words: Array, bits: int) -> Array:
    """Pieces of 16 elements of 4 or 6 bits and padding, each element in a byte with its first bit
    in bit 5: uint32, of the same shape. Of 8 bits: as they are.
    """
    if bits == 8:
        return words
    packed = np.ascontiguousarray(words).view("u1")[..., : 2 * bits]
    each = np.unpackbits(packed, axis=-1, bitorder="little").reshape(*words.shape[:-1], 16, bits)
    bytes_ = np.zeros((*each.shape[:-1], 8), "u1")
    bytes_[..., 6 - bits : 6] = each
    return np.packbits(bytes_, axis=-1, bitorder="little")[..., 0].view("u4")


def _begins(
    state: State,
    lane: Offender,
    line: int,
    address: int,
    block: int,
    lanes: slice,
    count: int,
    shape: str,
) -> slice | None:
    """The columns of a copy or a shift, told to observers; None where a block lacks them."""
    start = address & 0xFFFF
    does = "shifts" if shape == "shift" else "copies to"
    if not tensor_memory.of(state).inside(lane, line, start, count, does, block):
        return None
    columns = slice(start, start + count)
    tensor_memory.publish(lane, line, "writes", "product", block, lanes, columns, shape)
    return columns


def tensor_copy(
    state: State,
    number: int,
    shape: str,
    bits: int,
    pair: bool,
    line: int,
    address: Array,
    descriptor: Array,
    mask: Mask | None,
) -> None:
    """tcgen05.cp: rows of shared memory, of each block of a pair its own, go to tensor memory.

    bits: of an element that is unpacked to 8; 8: none is.
    """
    memory = tensor_memory.of(state)
    rows, width, lanes = _COPIED[shape]
    operand = warpgroup.Operand("of scales or rows", rows, "u8", "K", width)
    for turn in _turns(requests_of(state, mask, address, descriptor)):
        at = turn.values[0]
        for block in _blocks(state, pair, turn.column, line):
            words = _words_of(
                state, state.sites[number], operand, turn.values[1], turn, block, 2 * bits
            )
            words = _unpacked(words, bits).reshape(len(at), rows, -1)
            for i in range(len(at)):
                lane = Offender(state, int(turn.thread[i]), int(turn.column[i]))
                first = int(at[i]) >> 16 & 0xFFFF
                if first >= (_QUARTER if rows == 4 else 1):
                    tensor_memory.report(
                        "misaligned",
                        line,
                        lane,
                        f"{lane} copies to tensor memory from lane {first} on: a copy begins at "
                        f"lane 0, one of 4 rows, {_QUARTER} lanes apart, at one of the first "
                        f"{_QUARTER}",
                    )
                    continue
                reached = slice(first, tensor_memory.LANES, _QUARTER if rows == 4 else 1)
                what, count = "refresh" if rows == 4 else "copy", words.shape[2]
                columns = _begins(
                    state, lane, line, int(at[i]), int(block[i]), reached, count, what
                )
                if columns is not None:
                    memory.data[block[i], lanes + first, columns] = words[i][:, None]
                    memory.written[block[i], lanes + first, columns] = True


def tensor_shift(state: State, pair: bool, line: int, address: Array, mask: Mask | None) -> None:
    """tcgen05.shift, in each block of a pair."""
    for turn in _turns(requests_of(state, mask, address)):
        for block in _blocks(state, pair, turn.column, line):
            for i, at in enumerate(turn.values[0]):
                lane = Offender(state, int(turn.thread[i]), int(turn.column[i]))
                _shift(state, lane, line, int(at), int(block[i]))


def _shift(state: State, lane: Offender, line: int, address: int, block: int) -> None:
    """Of 32 lanes each but the last takes the 32 bytes of the next."""
    memory = tensor_memory.of(state)
    first = address >> 16 & 0xFFFF
    if first % _QUARTER or first >= tensor_memory.LANES:
        tensor_memory.report(
            "misaligned",
            line,
            lane,
            f"{lane} shifts tensor memory from lane {first} on: a shift begins at a multiple of "
            f"{_QUARTER} lanes",
        )
        return
    lanes = slice(first, first + _QUARTER)
    columns = _begins(state, lane, line, address, block, lanes, _A_COLUMNS, "shift")
    if columns is None:
        return
    rows = block, slice(first + 1, first + _QUARTER), columns
    if not memory.written[rows].all():
        tensor_memory.report(
            "uninitialised",
            line,
            lane,
            f"{lane} shifts columns {columns.start} to {columns.stop - 1} of tensor memory, of "
            "which nothing has written some since they were allocated. Copy or store the rows "
            "there first",
        )
    to = block, slice(first, first + _QUARTER - 1), columns
    memory.data[to] = memory.data[rows].copy()
    memory.written[to] = True


def tensor_commit(
    state: State, number: int, address: Array, targets: Array | None, mask: Mask | None
) -> None:
    """tcgen05.commit: an arrival at an mbarrier when all that these threads have issued is done.

    targets: blocks of the cluster, a bit each, at whose mbarriers; None: at the one named.
    """
    if targets is None:
        mbarrier.arrive_behind(state, number, address, mask)
        return
    for rank in range(clusters.of(state).size):
        lanes = state.narrowed(mask, targets >> i4.type(rank) & 1 != 0)
        if lanes is None or lanes.n:
            there = clusters.map_rank(state, address.view("u8"), np.full((1, 1, 1, 1), rank, i4))
            mbarrier.arrive_behind(state, number, there.view("i8"), lanes)
