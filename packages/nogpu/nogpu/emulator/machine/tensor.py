"""Matrix instructions of a warp: ldmatrix, stmatrix, mma.sync, wmma.

Fragments follow the PTX ISA's layouts for mma.sync; wmma, whose layout is open, uses the same ones,
as ptxas does. Sums of floats are formed as an H200 forms them, to the bit (`sums`); those of
integers and of float64 in NumPy.

How wmma reaches memory is what ptxas makes of it: 8- and 16-bit matrices are read in blocks of 8
rows of 16 bytes, one 4-byte load a lane for each block (global memory) or one ldmatrix for up to
four blocks (shared memory); accumulators move two neighbours at a time where they are contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine import arith, sums
from nogpu.emulator.machine.access import by_space, perform
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import array_of
from nogpu.emulator.machine.warp import threads, warps

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site


i1, i2, i4, i8, u1, u4 = (np.dtype(t) for t in ("i1", "i2", "i4", "i8", "u1", "u4"))
f2, f4, f8 = (np.dtype(t) for t in ("f2", "f4", "f8"))

LANE = np.arange(32)
GROUP, MEMBER = LANE >> 2, LANE & 3

_UNIT = {"f16": 2, "bf16": 2, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4, "tf32": 1, "f64": 1}
_BYTES = {"f16": 2, "bf16": 2, "s8": 1, "u8": 1, "tf32": 4, "f64": 8, "f32": 4, "s32": 4}

SMALL = {"e2m1": 4, "e2m3": 6, "e3m2": 6}
"""Bits of the floats that are narrower than a byte. In one of its own the sign is bit 5."""


# -- layouts -------------------------------------------------------------------------------------


def _steps(*counts: int) -> Array:
    """The numbers of nested loops, the last one fastest: (loops, steps, 1)."""
    return np.indices(counts).reshape(len(counts), -1, 1)


@lru_cache
def a_layout(m: int, k: int, kind: str) -> tuple[Array, Array]:
    """(row, column) of element i of lane l of A: arrays (elements, 32)."""
    unit = _UNIT[kind]
    row = 4 * unit  # of four lanes
    tile, chunk, half, e = _steps(max(m // 16, 1), k // row, 2 if m >= 16 else 1, unit)
    return GROUP + 8 * half + 16 * tile, MEMBER * unit + e + row * chunk


@lru_cache
def _b_layout(k: int, n: int, kind: str) -> tuple[Array, Array]:
    """(row, column) of element i of lane l of B."""
    unit = _UNIT[kind]
    row = 4 * unit
    tile, chunk, e = _steps(n // 8, k // row, unit)
    return MEMBER * unit + e + row * chunk, GROUP + 8 * tile


@lru_cache
def c_layout(m: int, n: int) -> tuple[Array, Array]:
    """(row, column) of element i of lane l of C and D."""
    tile, column, half, e = _steps(max(m // 16, 1), n // 8, 2 if m >= 16 else 1, 2)
    return GROUP + 8 * half + 16 * tile, MEMBER * 2 + e + 8 * column


# -- registers and matrices ----------------------------------------------------------------------


@lru_cache
def _small_values(kind: str) -> Array:
    """Every number of a narrow float, by its bits. Source: OCP Microscaling Formats 1.0."""
    exponent_bits, fraction_bits = int(kind[1]), int(kind[3])
    exponent, fraction = np.divmod(np.arange(1 << SMALL[kind] - 1), 1 << fraction_bits)
    whole = fraction + ((exponent > 0) << fraction_bits)
    bias = (1 << exponent_bits - 1) - 1
    values = np.ldexp(whole.astype(f8), np.maximum(exponent, 1) - bias - fraction_bits)
    return np.concatenate([values, -values])


def values_in(words: Array, kind: str) -> list[Array]:
    """The elements that words hold, the lowest first: arrays of the words' shape, float64 or int64.

    words: int32, or float32 and float64 for elements of those types. kind: PTX's name of the type;
    e2m1x2 has two in a byte, the other narrow floats a byte each.
    """
    if kind in ("f16", "bf16"):
        halves = arith.unpack16(words)
        values = halves.view(f2) if kind == "f16" else arith.bf16_value(halves)
        values = values.astype(f8)
        return [values[..., 0], values[..., 1]]
    if kind == "tf32":
        return [arith.tf32_value(words).astype(f8)]
    if kind in ("s8", "u8"):
        part = i1 if kind == "s8" else u1
        return [(words >> i4.type(8 * e)).astype(part).astype(i8) for e in range(4)]
    if kind in ("e4m3", "e5m2"):
        values = arith.fp8_value(np.arange(256, dtype=u1), kind).astype(f8)
        return [values[(words >> i4.type(8 * e)).astype(u1)] for e in range(4)]
    if kind == "e2m1x2":
        return [_small_values("e2m1")[words >> i4.type(4 * e) & i4.type(15)] for e in range(8)]
    if kind in SMALL:
        bits = SMALL[kind]
        last = i4.type((1 << bits) - 1)
        return [_small_values(kind)[words >> i4.type(8 * e + 6 - bits) & last] for e in range(4)]
    return [words.astype(i8 if kind == "s32" else f8)]


def elements_of(state: State, registers: tuple[Array, ...], kind: str, repeat: int) -> Array:
    """Values held in fragment registers: (elements, warps, 32, blocks), float64 or int64.

    repeat: registers after this many are copies and left out.
    """
    words = np.stack([warps(state, r) for r in registers[:repeat]])
    return np.stack(values_in(words, kind), axis=1).reshape(-1, *words.shape[1:])


def matrix_of(elements: Array, layout: tuple[Array, ...], shape: tuple[int, ...]) -> Array:
    """Fragment elements to matrices: (warps, blocks, *shape). layout: where they lie in it."""
    _, w, _, b = elements.shape
    out = np.zeros((w, b, *shape), elements.dtype)
    where: Any = (..., *layout)
    out[where] = elements.transpose(1, 3, 0, 2)
    return out


def registers_of(state: State, matrix: Array, layout: tuple[Array, ...], kind: str) -> list[Array]:
    """Matrices back to fragment registers of four axes; layout as for `matrix_of`."""
    where: Any = (..., *layout)
    values = matrix[where].transpose(2, 0, 3, 1)  # (elements, w, 32, b)
    own = {"f16": f2, "s32": i4, "f64": f8}.get(kind, f4)
    return _packed(state, values.astype(own, order="C"), i4 if kind == "f16" else own)


def _packed(state: State, values: Array, register: np.dtype[Any]) -> list[Array]:
    """Elements (elements, warps, 32, blocks) as registers; narrow ones share one, in order."""
    parts = values.reshape(-1, register.itemsize // values.itemsize, *values.shape[1:])
    words = np.ascontiguousarray(parts.transpose(0, 2, 3, 4, 1)).view(register).squeeze(-1)
    return [threads(state, w) for w in words]


def multiply_add(
    a: Array, b: Array, c: Array, kinds: tuple[str, str], saturate: bool, asynchronous: bool = False
) -> Array:
    """a b + c of matrices. kinds: PTX's types of the result and of a. asynchronous: wgmma."""
    kind, factor = kinds
    if factor in sums.FLOATS:
        return sums.accumulate(a, b, c, kinds, asynchronous=asynchronous)
    total: Array = np.matmul(a, b) + c
    if kind == "s32":
        whole = total.astype(i8)
        return np.clip(whole, -(2**31), 2**31 - 1) if saturate else whole.astype(i4).astype(i8)
    return total


def mma(
    state: State,
    shape: str,
    types: tuple[str, ...],
    layouts: tuple[str, ...],
    a: tuple[Array, ...],
    b: tuple[Array, ...],
    c: tuple[Array, ...],
    saturate: bool,
    mask: Mask | None,
) -> list[Array]:
    """mma.sync, or wmma.mma, whose fragments may have more registers: the registers of D."""
    if shape == "m8n8k4" and types[1] == "f16":
        return _mma_quads(state, types, layouts, a, b, c)
    matrices = []
    for matrix, registers, kind in (("a", a, types[1]), ("b", b, types[2]), ("c", c, types[3])):
        layout, size = _layout(matrix, shape, kind)
        per_register = _UNIT[kind] if matrix in "ab" else (2 if kind == "f16" else 1)
        elements = elements_of(state, registers, kind, len(layout[0]) // per_register)
        matrices.append(matrix_of(elements, layout, size))
    ma, mb, mc = matrices
    total = multiply_add(ma, mb, mc, (types[0], types[1]), saturate)
    return registers_of(state, total, layout, types[0])  # D lies as C does


def _mma_quads(
    state: State,
    types: tuple[str, ...],
    layouts: tuple[str, ...],
    a: tuple[Array, ...],
    b: tuple[Array, ...],
    c: tuple[Array, ...],
) -> list[Array]:
    """mma.m8n8k4 of float16: four products a warp, each by lanes 4q..4q+3 and 16+4q..16+4q+3."""
    quad, high = LANE // 4 % 4, LANE // 16
    four = np.arange(4)[:, None]
    eight = np.arange(8)[:, None]
    own = LANE % 4 + 4 * high
    along, across = (own, four), (four + 4 * high, LANE % 4)  # what a lane holds of a row or column
    at_a = along if layouts[0] == "row" else across
    at_b = across[::-1] if layouts[1] == "row" else along[::-1]

    def accumulator(kind: str) -> tuple[Array, ...]:
        if kind == "f16":
            return quad, own, eight
        row = (LANE & 1) + (eight & 2) + 4 * high
        return quad, row, (eight & 4) + (LANE & 2) + (eight & 1)

    ma = matrix_of(elements_of(state, a, "f16", 2), (quad, *at_a), (4, 8, 4))
    mb = matrix_of(elements_of(state, b, "f16", 2), (quad, *at_b), (4, 4, 8))
    mc = matrix_of(elements_of(state, c, types[3], len(c)), accumulator(types[3]), (4, 8, 8))
    total = sums.accumulate(ma, mb, mc, ("f32", "f16"))
    return registers_of(state, total, accumulator(types[0]), types[0])


# -- wmma ----------------------------------------------------------------------------------------


@lru_cache
def _layout(matrix: str, shape: str, kind: str) -> tuple[tuple[Array, Array], tuple[int, int]]:
    """Which elements each lane holds, and rows and columns; shape: such as "m16n8k16"."""
    m, n, k = map(int, shape[1:].replace("n", "k").split("k"))
    if matrix == "a":
        return a_layout(m, k, kind), (m, k)
    if matrix == "b":
        return _b_layout(k, n, kind), (k, n)
    return c_layout(m, n), (m, n)


@lru_cache
def _requests(rows: int, cols: int, kind: str, is_row: bool, accumulator: bool) -> list[Any]:
    """The loads or stores of a wmma matrix: [(row by lane, column by lane, elements, along rows)].

    Elements of one lane follow each other along the contiguous dimension.
    """
    size = _BYTES[kind]
    out = []
    if accumulator:
        r, c = c_layout(rows, cols)
        each = 2 if is_row else 1
        return [(r[i], c[i], each, not is_row) for i in range(0, len(r), each)]
    per_word = max(4 // size, 1)
    width = 4 * per_word  # elements in a row of 16 bytes (f64: 4 elements of 8 bytes)
    long, short = (cols, rows) if is_row else (rows, cols)
    for outer in range(0, short, 8):
        for inner in range(0, long, width):
            # A matrix whose rows are shorter than 16 bytes: lanes repeat.
            across, along = GROUP + outer, (MEMBER * per_word + inner) % long
            r, c = (across, along) if is_row else (along, across)
            out.append((r, c, per_word, not is_row))
    return out


def _spaces(
    state: State, site: Site, base: Array, mask: Mask | None
) -> list[tuple[Site, Array, Mask | None]]:
    """The active lanes of a wmma by the space that their address means."""
    if site.space != "generic":
        return [(site, base, mask)]
    return [(site.as_(space=s), at, lanes) for s, at, lanes in by_space(state, site, base, mask)]


@dataclass(frozen=True)
class _Tile:
    """How a wmma matrix lies in memory: bytes of an element, elements from line to line."""

    state: State
    matrix: str
    shape: str
    kind: str
    is_row: bool
    stride: Array | None

    @cached_property
    def layout(self) -> tuple[tuple[Array, Array], tuple[int, int]]:
        """Which elements each lane holds, and rows and columns."""
        return _layout(self.matrix, self.shape, self.kind)

    @property
    def size(self) -> int:
        return _BYTES[self.kind]

    @cached_property
    def step(self) -> Array:
        rows, cols = self.layout[1]
        step = np.array(cols if self.is_row else rows) if self.stride is None else self.stride
        return step.astype(i8)

    def requests(self) -> list[Any]:
        """See `_requests`."""
        rows, cols = self.layout[1]
        return _requests(rows, cols, self.kind, self.is_row, self.matrix in ("c", "d"))

    def place(self, r: Array, c: Array) -> Array:
        """Bytes from the first element to the one of each lane in a row and a column."""
        lane = self.state.thread % 32
        line, along = (r[lane], c[lane]) if self.is_row else (c[lane], r[lane])
        return np.asarray((line * self.step + along) * self.size)


def wmma_load(
    state: State, number: int, matrix: str, shape: str, layout: str, kind: str, base: Array,
    stride: Array | None, count: int, mask: Mask | None,
) -> list[Array]:  # fmt: skip
    """wmma.load: the registers of a fragment."""
    words: list[Array] = []
    tile = _Tile(state, matrix, shape, kind, layout == "row", stride)
    for site, at, lanes in _spaces(state, state.sites[number], base, mask):
        got = _load_tile(tile, site, at, count, lanes)
        if words:
            got = [np.where(array_of(lanes), g, w) for g, w in zip(got, words, strict=True)]
        words = got
    none = np.zeros((1, 1, 1, 1), {"f32": f4, "f64": f8}.get(kind, i4))
    return words or [none] * count


def _load_tile(tile: _Tile, site: Site, base: Array, count: int, mask: Mask | None) -> list[Array]:
    """The same of lanes that mean one space, shared or global."""
    state, size, (fragment, (rows, cols)) = tile.state, tile.size, tile.layout
    raw = np.zeros((state.warp_shape.warps, state.blocks, rows, cols), np.dtype(f"u{size}"))
    requests = tile.requests()
    fused = site.space == "shared" and tile.matrix in "ab" and size <= 2
    lines: list[Array] = []  # of a fused load: the words of its rows
    for index, (r, c, elements, down) in enumerate(requests):
        if fused:
            if index % 4 == 0:
                lines = _blocks(tile, site, base, requests[index : index + 4], mask)
            along = (c - c[::4][GROUP] if tile.is_row else r - r[::4][GROUP]) * size // 4
            words = np.stack(lines)[along, :, 8 * (index % 4) + GROUP].transpose(1, 0, 2)
            value: tuple[Array, ...] = (words.view(u4),)
        else:
            value = _fetch(state, site, base + tile.place(r, c), elements * size, mask)
        whole = np.ascontiguousarray(np.stack(value, axis=-1)).view(raw.dtype)
        for e in range(elements):
            rr, cc = (r + e, c) if down else (r, c + e)
            raw[:, :, rr, cc] = whole[..., e].transpose(0, 2, 1)
    values = raw[:, :, *fragment].transpose(2, 0, 3, 1)
    registers = _packed(state, values, {"f32": f4, "f64": f8}.get(tile.kind, i4))
    return [registers[i % len(registers)] for i in range(count)]


def _fetch(
    state: State, site: Site, address: Array, width: int, mask: Mask | None
) -> tuple[Array, ...]:
    """`width` bytes a lane, as 32-bit words or one narrower value: (warps, 32, blocks) each."""
    kind = np.dtype(f"u{min(width, 4)}")
    value = perform(state, site.as_(kind=kind, count=max(width // 4, 1)), address, mask)
    return tuple(warps(state, v) for v in (value if isinstance(value, tuple) else (value,)))


def _blocks(
    tile: _Tile, site: Site, base: Array, group: list[Any], mask: Mask | None
) -> list[Array]:
    """One ldmatrix for up to four blocks: lane 8j + i addresses row i of block j."""
    rows, cols = (np.resize([each[i][::4] for each in group], 32) for i in (0, 1))
    return _rows(tile.state, site, base + tile.place(rows, cols), len(group), mask)


def _rows(state: State, site: Site, address: Array, count: int, mask: Mask | None) -> list[Array]:
    """The 16-byte rows that the first 8 * count lanes address: four words, (warps, 32, blocks)."""
    lanes = state.first_lanes(mask, 8 * count)
    words = perform(state, site.as_(kind=i4, count=4), address, lanes)
    return [warps(state, w) for w in words]


def wmma_store(
    state: State, number: int, shape: str, layout: str, kind: str, base: Array,
    values: tuple[Array, ...], stride: Array | None, mask: Mask | None,
) -> None:  # fmt: skip
    """wmma.store of an accumulator."""
    tile, registers = _Tile(state, "d", shape, kind, layout == "row", stride), list[Array]()
    for v in values:
        w = warps(state, v)
        if kind == "f16":
            halves = arith.unpack16(w)
            registers += [halves[..., 0], halves[..., 1]]
        else:
            registers.append(w)
    for site, start, lanes in _spaces(state, state.sites[number], base, mask):
        at = 0
        for r, c, elements, _ in tile.requests():
            parts = tuple(threads(state, registers[at + e]) for e in range(elements))
            at += elements
            narrow = site.as_(kind=parts[0].dtype, count=len(parts))
            perform(state, narrow, start + tile.place(r, c), lanes, parts)


# -- ldmatrix ------------------------------------------------------------------------------------


def _matrix_in(word: Array) -> Array:
    """The 8x8 matrix of 16-bit elements whose row r lanes 4r to 4r + 3 hold, two each: from
    (warps, 32, blocks) to (warps, blocks, 8, 8).
    """
    halves = arith.unpack16(word.transpose(0, 2, 1))
    return halves.reshape(*halves.shape[:2], 8, 8)


def _word_of(matrix: Array) -> Array:
    """Inverse of `_matrix_in`."""
    word = arith.pack16(matrix.reshape(*matrix.shape[:2], 32, 2))
    return np.ascontiguousarray(word.transpose(0, 2, 1))


def load_matrix(
    state: State, number: int, address: Array, count: int, transposed: bool, mask: Mask | None
) -> list[Array]:
    """ldmatrix.x1, .x2, .x4, optionally .trans."""
    words = np.stack(_rows(state, state.sites[number], address, count, mask), axis=-1)
    rows = arith.unpack16(words.transpose(0, 2, 1, 3))  # (warps, blocks, 32, 4, 2)
    matrices = rows.reshape(*rows.shape[:2], 4, 8, 8)  # rows 8j to 8j + 7 are those of matrix j
    if transposed:
        matrices = matrices.swapaxes(3, 4)
    return [threads(state, _word_of(matrices[:, :, j])) for j in range(count)]


def store_matrix(
    state: State,
    number: int,
    address: Array,
    values: tuple[Array, ...],
    transposed: bool,
    mask: Mask | None,
) -> None:
    """stmatrix.x1, .x2, .x4, optionally .trans."""
    matrices = np.zeros((state.warp_shape.warps, state.blocks, 4, 8, 8), i2)
    for j, value in enumerate(values):
        matrix = _matrix_in(warps(state, value))
        matrices[:, :, j] = matrix.swapaxes(2, 3) if transposed else matrix
    words = arith.pack16(matrices.reshape(*matrices.shape[:2], 32, 4, 2)).transpose(3, 0, 2, 1)
    lanes = state.first_lanes(mask, 8 * len(values))
    site = state.sites[number].as_(kind=i4, count=4)
    perform(state, site, address, lanes, tuple(threads(state, w) for w in words))


def transpose_matrix(state: State, a: Array, mask: Mask | None) -> Array:
    """movmatrix.trans of an 8x8 matrix of 16-bit elements."""
    return threads(state, _word_of(_matrix_in(warps(state, a)).swapaxes(2, 3)))
