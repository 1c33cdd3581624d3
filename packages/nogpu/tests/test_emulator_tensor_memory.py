"""tcgen05 against NumPy, and launch control."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from foreign_kernels import cuda
from test_emulator_warpgroups import descriptor, k_major, mn_major, operand, stored

from nogpu import emulator, toolchain
from nogpu.errors import CompileError, EmulationError

RNG = np.random.default_rng(5)

# One product: the bytes of both tiles come from the host, every lane of tensor memory goes back.
SOURCE = cuda("tensor_memory/product")
NARROW = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
TYPES = {"f16": 0, "bf16": 1, "tf32": 2, "u8": 0, "s8": 1, **NARROW}
"""Their numbers in an instruction descriptor."""
SUMS = {"f16": 0, "f32": 1, "s32": 2}
KIND = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4",
        "u8": "i8", "s8": "i8"}  # fmt: skip


def source(kind, *, pair=False, ws=False, left="%2", scales="", mask="", then=""):
    """SOURCE for one form of the product, and what follows it in the same thread."""
    words = {
        "RANK": "(int)blockIdx.x" if pair else "0", "KIND": kind, "LEFT": left, "SCALES": scales,
        "MASK": mask, "THEN": then,
    }  # fmt: skip
    text = SOURCE.replace("mma.GROUP", "mma.ws.GROUP") if ws else SOURCE
    for word, says in words.items():
        text = text.replace(word, says)
    return formed(text, pair)


def formed(text, pair):
    """A text for one block, or for a pair of blocks."""
    group, tail = f"cta_group::{1 + pair}", "mbarrier::arrive::one.shared::cluster"
    commit = (
        f'"tcgen05.commit.{group}.{tail}.multicast::cluster.b64 [%0], %1;"'
        if pair
        else f'"tcgen05.commit.{group}.{tail}.b64 [%0];"'
    )
    meet = (
        'asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;");'
        if pair
        else "__syncthreads();"
    )
    return text.replace("GROUP", group).replace("MEET", meet).replace("COMMIT", commit)


def tile(matrix, kind, swizzle, at, major="K"):
    """Words of a tile at an address, and its descriptor with the bits of tcgen05."""
    build = k_major if major == "K" else mn_major
    raw, lead, stride = build(stored(matrix, kind), swizzle, at)
    words = np.ascontiguousarray(raw).view(np.uint32)
    return words, np.uint64(descriptor(at, lead, stride, swizzle) | 1 << 46)


NOWHERE = np.zeros(4, np.uint32), np.uint64(0)
"""The tile of a matrix that lies in tensor memory."""


def in_columns(elements):
    """What the columns from 256 on hold for a matrix A, (128, 32 bytes)."""
    extra = np.zeros((128, 16), np.uint32)
    extra[:, :8] = np.ascontiguousarray(elements).view(np.uint32)
    return extra


def code(m, n, d, a, b, turned=(0, 0)):
    """An instruction descriptor."""
    types = SUMS[d] << 4 | TYPES[a] << 7 | TYPES[b] << 10
    return np.uint32(types | turned[0] << 15 | turned[1] << 16 | n // 8 << 17 | m // 16 << 24)


def launched(text, a, b, what, **other):
    """What lies in tensor memory after a product: uint32 (blocks, lanes, 256)."""
    pair = "cta_group::2" in text
    blocks = 1 + pair
    out = np.zeros((blocks, 128, 256), np.uint32)
    extra = other.get("extra", np.zeros((128, 16), np.uint32))
    report = emulator.launch(
        text, "k", blocks, 128,
        [a[0], b[0], extra, out, a[1], b[1], what, len(a[0]) // blocks, len(b[0]) // blocks,
         other.get("add", 0)],
        arch="sm_100a", cluster=2 if pair else None,
    )  # fmt: skip
    assert not report.findings, str(report.findings[0])
    return out


def sums(words, kind):
    """Words of tensor memory as numbers."""
    if kind == "f16":
        return words.astype(np.uint16).view(np.float16).astype(float)
    return words.view(np.int32 if kind == "s32" else np.float32).astype(float)


FORMS = [
    ("bf16", "bf16", "f32", 128, 128, 128, "K K"), ("f16", "f16", "f16", 64, 24, 64, "K K"),
    ("tf32", "tf32", "f32", 128, 8, 32, "K K"), ("e4m3", "e5m2", "f32", 64, 256, 64, "K K"),
    ("s8", "u8", "s32", 128, 48, 0, "K K"), ("bf16", "bf16", "f32", 64, 16, 0, "K K"),
    *(("f16", "f16", "f32", 128, 64, 128, majors) for majors in ("K MN", "MN K", "MN MN")),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "d", "m", "n", "swizzle", "majors"), FORMS)
def test_products(a, b, d, m, n, swizzle, majors):
    left, right = operand(m, a), operand(n, b)
    of_a, of_b = majors.split()
    out = launched(
        source(f"kind::{KIND[a]}"), tile(left, a, swizzle, 0, of_a), tile(right, b, swizzle, 0, of_b),
        code(m, n, d, a, b, (of_a == "MN", of_b == "MN")), add=1,
    )[0]  # fmt: skip
    rows = np.arange(m) if m == 128 else np.arange(m) % 16 + np.arange(m) // 16 * 32
    assert np.array_equal(sums(out[rows, :n], d), 2 * left @ right.T)  # issued twice, added
    rest = np.ones(out.shape, bool)
    rest[rows, :n] = False
    assert not out[rest].any()


def test_a_matrix_in_tensor_memory_and_lanes_that_stay():
    left, right = operand(128, "f16"), operand(32, "f16")
    text = source("kind::f16", left="[%5]", mask="{%7, %7, %8, %8},")
    text = text.replace('"r"(sums + 264));', '"r"(sums + 264), "r"(0), "r"(0xF0));')
    what = code(128, 32, "f32", "f16", "f16")
    out = launched(
        text, NOWHERE, tile(right, "f16", 64, 0), what, extra=in_columns(stored(left, "f16"))
    )[0]
    stays = np.isin(np.arange(128), [*range(68, 72), *range(100, 104)])
    want = np.where(stays[:, None], 0, left @ right.T)
    assert np.array_equal(sums(out[:, :32], "f32"), want)


@pytest.mark.parametrize(("m", "stays"), [(128, 0), (256, 0), (256, 0xF0)])
def test_a_pair_of_blocks(m, stays):
    """stays: bits of the lanes 64 to 95 of the first block and 96 to 127 of the other that do."""
    n, half = 64, m // 2
    left, right = operand(m, "f16"), operand(n, "f16")
    parts = [tile(left[i : i + half], "f16", 128, 0) for i in (0, half)]
    others = [tile(right[i : i + n // 2], "f16", 128, 0) for i in (0, n // 2)]
    a = np.concatenate([p[0] for p in parts]), parts[0][1]
    b = np.concatenate([p[0] for p in others]), others[0][1]
    text = source("kind::f16", pair=True, mask="{%7, %7, %8, %7, %7, %7, %7, %8}," * bool(stays))
    text = text.replace('"r"(sums + 264));', f'"r"(sums + 264), "r"(0), "r"({stays}));')
    out = launched(text, a, b, code(m, n, "f32", "f16", "f16"))
    got = sums(out, "f32")
    if m == 256:
        want = left @ right.T
        want[[*range(68, 72), *range(128 + 100, 128 + 104)]] *= not stays
        assert np.array_equal(np.concatenate(got[:, :, :n]), want)
        return
    # 64 rows a block: lanes 0 to 63 hold the first half of the columns, the others the second.
    halves = [np.concatenate([g[:64, : n // 2], g[64:, : n // 2]], axis=1) for g in got]
    assert np.array_equal(np.concatenate(halves), left @ right.T)


def test_a_block_of_a_pair_may_end_when_it_has_waited_for_what_arrives_in_it():
    """Without the last barrier of the cluster; and the twin in which the second does not wait."""
    a, b = (tile(np.zeros((rows, 16)), "f16", 128, 0) for rows in (128, 32))
    given = (np.tile(a[0], 2), a[1]), (np.tile(b[0], 2), b[1]), code(256, 64, "f32", "f16", "f16")
    head, meet, tail = source("kind::f16", pair=True).rpartition("barrier.cluster.arrive.release; ")
    early = head + tail.replace("barrier.cluster.wait.acquire;", "bar.sync 0;", 1)
    wait = 'asm volatile("{.reg .pred p; AGAIN'
    assert meet and wait in early
    launched(early, *given)
    with pytest.raises(AssertionError, match="may have ended by then"):
        launched(early.replace(wait, f"if (rank == 0) {wait}"), *given)


# -- B kept, and A shifted -----------------------------------------------------------------------

KEPT = [
    ("kind::f16", "bf16", "f32", 32, 64), ("kind::i8.collector::b1::fill", "s8", "s32", 32, 256),
    ("kind::tf32", "tf32", "f32", 64, 128), ("kind::f16.collector::b3::lastuse", "f16", "f16", 64, 64),
    ("kind::f8f6f4", "e4m3", "f32", 128, 64),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "a", "d", "m", "n"), KEPT)
def test_products_that_keep_b(kind, a, d, m, n):
    left, right = operand(m, a), operand(n, a)
    tiles = tile(left, a, 32, 0), tile(right, a, 32, 0)
    what = code(m, n, d, a, a) | np.uint32(2 << 30)  # columns may be shifted by up to 16
    out = sums(launched(source(kind, ws=True), *tiles, what, add=1)[0], d)
    # PTX, layouts D, E and G: the rows lie in the lanes 128 / M times, each time N M / 128 columns.
    width = n * m // 128
    want = np.zeros((128, 256))
    for r, c in np.ndindex(m, n):
        want[r + m * (c // width), c % width] = 2 * left[r] @ right[c]
    assert np.array_equal(out, want)
    if m == 64:  # without .ws its rows lie elsewhere
        plain = launched(source(kind.partition(".")[0]), *tiles, code(m, n, d, a, a), add=1)[0]
        assert not np.array_equal(sums(plain, d), want)


@pytest.mark.parametrize("m", [32, 64])
def test_copies_of_a_in_tensor_memory(m):
    left, right = operand(m, "f16"), operand(64, "f16")
    extra = in_columns(np.tile(stored(left, "f16"), (128 // m, 1)))
    a, b = NOWHERE, tile(right, "f16", 64, 0)
    text, what = source("kind::f16", ws=True, left="[%5]"), code(m, 64, "f32", "f16", "f16")
    got = sums(launched(text, a, b, what, extra=extra)[0, :, : m // 2], "f32")
    parts = np.concatenate(np.split(got, 128 // m), axis=1)
    assert np.array_equal(parts, left @ right.T)
    extra[m:] = 0
    assert not np.array_equal(sums(launched(text, a, b, what, extra=extra)[0], "f32"), got)


DOWN = ".reg .b32 x; " + "".join(
    f"add.u32 x, %5, {lane << 16}; tcgen05.shift.cta_group::1.down [x];"
    for lane in range(0, 128, 32)
)


@pytest.mark.parametrize(
    ("kind", "then", "moves"),
    [("kind::f16", "", 0), ("kind::f16", DOWN, 1), ("kind::f16.ashift", "", 1)],
    ids=["none", "shifts after each", "by each product"],
)
def test_shifts_of_a_between_two_products(kind, then, moves):
    left, right = operand(128, "f16"), operand(32, "f16")
    given = NOWHERE, tile(right, "f16", 64, 0)
    text, extra = source(kind, left="[%5]", then=then), in_columns(stored(left, "f16"))
    out = launched(text, *given, code(128, 32, "f32", "f16", "f16"), extra=extra, add=1)[0]
    rows = np.arange(128)
    second = left[np.where(rows % 32 < 31, rows + moves, rows)]  # the last row of a warp stays
    assert np.array_equal(sums(out[:, :32], "f32"), (left + second) @ right.T)
    if "ashift" in kind:
        with pytest.raises(EmulationError, match="M = 64; it takes 128 or 256"):
            launched(text, *given, code(64, 32, "f32", "f16", "f16"), extra=extra)


def mask_of(starts, firsts, shift=0, on=1):
    """A zero-column mask descriptor: three columns of zeros, four of B; fields of mask 0 first."""
    out = 2 << 40 | 3 << 48 | shift << 56 | on << 39
    for i, (start, first) in enumerate(zip(starts, firsts, strict=True)):
        out |= start << 8 * i | first << 32 + i
    return out


def masked(mask):
    """A product that keeps B, with a mask of its columns."""
    text = source("kind::f16", ws=True).replace(" p; }", " p, %7; }")
    return text.replace('"r"(sums + 264));', f'"r"(sums + 264), "l"({mask}ull));')


MASKS = [  # M, columns that B may be shifted by, a mask, which columns of 64 are zero
    (128, 0, mask_of((0,), (0,)), "0000111" * 10),
    (128, 0, mask_of((0,), (0,), on=0), "0" * 64),
    (64, 0, mask_of((0, 0), (1, 0)), ("1110000" * 5)[:32] + ("0000111" * 5)[:32]),
    (64, 2, mask_of((0, 0), (1, 0), 7), ("1110000" * 5)[:32] + ("0000111" * 5)[:32]),
    (32, 1, mask_of((0, 1, 2, 1), (1, 1, 0, 0), 2),
     "1110000111000011" "1100001110000111" "0011100001110000" "0001110000111000"),
    (128, 3, mask_of((5,), (1,), 32), ("00111" + "0000111" * 10)),
]  # fmt: skip
"""But for the fourth and the last, the examples of PTX's manual."""


@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize(("m", "reach", "mask", "zeros"), MASKS)
def test_columns_of_b_that_are_zero_or_shifted(m, reach, mask, zeros, major):
    left, right = operand(m, "f16"), operand(64 + 32, "f16")
    text = masked(mask)
    what = code(m, 64, "f32", "f16", "f16", (0, major == "MN")) | np.uint32(reach << 30)
    tiles = tile(left, "f16", 32, 0), tile(right, "f16", 32, 0, major)
    out = sums(launched(text, *tiles, what)[0], "f32")
    shift = mask >> 56
    used = np.array([z == "0" for z in zeros[:64]])
    want = left @ (right[shift : shift + 64] * used[:, None]).T
    parts = np.concatenate(np.split(out[:, : m // 2], 128 // m), axis=1)
    assert np.array_equal(parts, want)
    if mask >> 39 & 1:  # a mask that is not read is seen
        assert not np.array_equal(parts, left @ right[:64].T)


@pytest.mark.parametrize(
    ("m", "reach", "mask", "says"),
    [(64, 2, mask_of((), (), 17), "17 columns.*it may be 16"),
     (32, 3, mask_of((), (), 17), "17 columns.*it may be 16"),
     (64, 0, 1 << 36, "reserved")],
)  # fmt: skip
def test_masks_that_say_nothing_valid(m, reach, mask, says):
    text = masked(mask)
    tiles = [tile(operand(96, "f16"), "f16", 32, 0)] * 2
    with pytest.raises(EmulationError, match=says):
        launched(text, *tiles, code(m, 64, "f32", "f16", "f16") | np.uint32(reach << 30))


# -- floats of 4, 6 and 8 bits -------------------------------------------------------------------

WIDTH = {"e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4}


def numbers(kind):
    """What each pattern of bits of a float means, up to 8: none is too large for a sum."""
    exponents, fractions = int(kind[1]), int(kind[3])
    e, f = np.divmod(np.arange(1 << exponents + fractions), 1 << fractions)
    power = np.maximum(e, 1) - 2 ** (exponents - 1) + 1 - fractions
    known = np.ldexp(f + ((e > 0) << fractions), power)
    return np.asarray(known[known <= 8])


def narrow(rows, kind, k=32):
    """A matrix (rows, k) of a float: (bits, values)."""
    known = numbers(kind)
    bits, minus = RNG.integers(0, len(known), (rows, k)), RNG.integers(0, 2, (rows, k))
    return (bits | minus << WIDTH[kind] - 1).astype(np.uint8), known[bits] * (1 - 2 * minus)


def contained(bits, kind):
    """Rows of bits as they lie in shared memory: sixteen packed, then rubbish up to 16 bytes."""
    width, pieces = WIDTH[kind], (len(bits), bits.shape[1] // 16)
    each = np.unpackbits(bits[..., None], axis=-1, bitorder="little")[..., :width]
    packed = np.packbits(each.reshape(*pieces, 16 * width), axis=-1, bitorder="little")
    rubbish = np.full((*pieces, 16 - 2 * width), 0xA5, np.uint8)
    return np.concatenate([packed, rubbish], axis=-1).reshape(bits.shape)


def narrow_tile(bits, kind, major="K"):
    """`tile` of bits (rows, 32)."""
    packed = contained(bits, kind) if major == "K" else contained(bits.T, kind).T
    return tile(packed.view(np.int8), "s8", 128, 0, major)


def near(got, a, b):
    """Whether sums are those of a product, to the bits that wgmma keeps of 8-bit floats."""
    want = a @ b.T
    largest = np.maximum(np.abs(a[:, None] * b[None]).max(axis=2), np.abs(want))
    return bool((np.abs(got - want) <= 34 * 2.0**-13 * largest).all())


@pytest.mark.parametrize(("a", "b"), list(itertools.product(NARROW, NARROW)))
def test_floats_of_4_6_and_8_bits(a, b):
    (left, x), (right, y) = narrow(128, a), narrow(32, b)
    tiles = narrow_tile(left, a), narrow_tile(right, b)
    form = 32 // 8 << 17 | 128 // 16 << 24

    def product(one, other):
        what = np.uint32(SUMS["f32"] << 4 | one << 7 | other << 10 | form)
        return sums(launched(source("kind::f8f6f4"), *tiles, what)[0, :, :32], "f32")

    assert near(product(NARROW[a], NARROW[b]), x, y)
    wrong = NARROW[b] + 1
    if wrong in NARROW.values():  # the wrong twin: the next type, or a number that is none
        assert not near(product(NARROW[a], wrong), x, y)
    else:
        with pytest.raises(EmulationError, match=f"{wrong} of B"):
            product(NARROW[a], wrong)


def scale_values(bits, kind):
    """The numbers of scales."""
    if kind == "ue8m0":
        return 2.0 ** (bits.astype(int) - 127)
    return np.where(bits < 8, bits / 8 * 2.0**-6, (1 + bits % 8 / 8) * 2.0 ** ((bits >> 3) - 7.0))


SCALED = [  # two types, scales a row, their type, the bytes of their words at which they begin
    *(("mxf8f6f4.block_scale", a, b, 1, "ue8m0", (2, 1))
      for a, b in zip(NARROW, [*NARROW][1:] + [*NARROW][:1], strict=True)),
    ("mxf4.block_scale.scale_vec::2X", "e2m1", "e2m1", 2, "ue8m0", (2, 0)),
    ("mxf4nvf4.block_scale.scale_vec::4X", "e2m1", "e2m1", 4, "ue4m3", (0, 0)),
    ("mxf4nvf4.block_scale.block16", "e2m1", "e2m1", 4, "ue8m0", (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "a", "b", "each", "scale", "sub"), SCALED)
def test_scales(kind, a, b, each, scale, sub):
    m, n, k = 128, 64, 32 if each == 1 else 64
    (left, x), (right, y) = narrow(m, a, k), narrow(n, b, k)
    if each == 1:
        tiles, types = [narrow_tile(left, a), narrow_tile(right, b)], (NARROW[a], NARROW[b])
    else:  # two elements a byte
        packed = [q[:, ::2] | q[:, 1::2] << 4 for q in (left, right)]
        tiles, types = [tile(q.view(np.int8), "s8", 128, 0) for q in packed], (1, 1)
    low, high = (120, 134) if scale == "ue8m0" else (0x28, 0x48)
    of_a, of_b = (RNG.integers(low, high, (rows, each)).astype(np.uint8) for rows in (m, n))
    words = np.zeros((32, 16, 4), np.uint8)  # by lane, column and byte
    for scales, first, at in ((of_a, 0, sub[0]), (of_b, 8, sub[1])):
        by_lane = scales.reshape(-1, 32, each).transpose(1, 0, 2)
        words[:, first : first + len(scales) // 32, at : at + each] = by_lane
    extra = np.tile(words.reshape(32, 64).view(np.uint32), (4, 1))
    what = types[0] << 7 | types[1] << 10 | n // 8 << 17 | m // 128 << 27
    what |= (scale == "ue8m0") << 23 | sub[0] << 29 | sub[1] << 4
    text = source(f"kind::{kind}", scales="[%5], [%6],")
    out = launched(text, *tiles, np.uint32(what), extra=extra)[0]
    of_a, of_b = (np.repeat(scale_values(q, scale), k // each, axis=1) for q in (of_a, of_b))
    want = (x * of_a) @ (y * of_b).T
    assert np.allclose(sums(out[:, :n], "f32"), want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("a", "b"), [("e2m1", "e3m2"), ("e2m3", "e2m1"), ("e5m2", "e2m3")])
def test_narrow_floats_along_m_and_n(a, b):
    (left, x), (right, y) = narrow(128, a), narrow(64, b)
    tiles = narrow_tile(left, a, "MN"), narrow_tile(right, b, "MN")
    out = launched(source("kind::f8f6f4"), *tiles, code(128, 64, "f32", a, b, (1, 1)))[0]
    assert near(sums(out[:, :64], "f32"), x, y)


@pytest.mark.parametrize("kind", ["e2m1", "e2m3", "e3m2"])
def test_narrow_floats_in_tensor_memory_have_a_byte_each(kind):
    (left, x), (right, y) = narrow(128, kind), narrow(32, "e4m3")
    given = NOWHERE, narrow_tile(right, "e4m3"), code(128, 32, "f32", kind, "e4m3")
    for shift in (2 if kind == "e2m1" else 0, 1):  # and the wrong twin
        extra = in_columns((left << shift).astype(np.uint8))
        out = launched(source("kind::f8f6f4", left="[%5]"), *given, extra=extra)[0, :, :32]
        assert near(sums(out, "f32"), x, y) == (shift != 1)


@pytest.mark.parametrize(("kind", "words"), [("e2m1", 2), ("e2m3", 3)])
def test_padding_of_narrow_floats_is_not_read(kind, words):
    tiles = [narrow_tile(narrow(rows, kind)[0], kind) for rows in (128, 32)]
    text = source("kind::f8f6f4").replace("i += blockDim.x) to", "i += blockDim.x) FILLED to")
    given = *tiles, code(128, 32, "f32", kind, kind)
    launched(text.replace("FILLED", f"if (i % 4 < {words})"), *given)
    with pytest.raises(AssertionError, match="uninitialised"):
        launched(text.replace("FILLED", f"if (i % 4 < {words - 1})"), *given)


# -- registers and copies ------------------------------------------------------------------------

MOVES = cuda("tensor_memory/moves")
WORK = """
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        asm volatile("tcgen05.fence::after_thread_sync;");  // the stores
        ISSUED
        asm volatile(COMMIT :: "r"(at(&done)), "h"((unsigned short)3) : "memory");
    }
    asm volatile("{.reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN;}"
        :: "r"(at(&done)) : "memory");
    asm volatile("tcgen05.fence::after_thread_sync;");  // what was issued
"""


ROWS = descriptor(0, 8192, 128, 0) | 1 << 46
"""Of the rows that MOVES has filled: without a swizzle, the second half 8192 bytes further on."""


def moving(shape, first=0, issued=(), pair=False, filled=4):
    """MOVES with statements that one thread issues: %0 is the place, %1 a descriptor."""
    lines = (f'asm volatile("{s}" :: "r"(place), "l"(what));\n' for s in issued)
    text = MOVES.replace("WORK", WORK.replace("ISSUED", "".join(lines)) if issued else "")
    text = text.replace("SHAPE", shape).replace("FIRST", str(first)).replace("FILLED", str(filled))
    return formed(text, pair)


def run(text, what=0):
    """The report, and what each thread loads: uint32 (blocks, 128, 8)."""
    blocks = 1 + ("cta_group::2" in text)
    out = np.zeros((blocks, 128, 8), np.uint32)
    args = [np.arange(4096 * blocks, dtype=np.uint32) | 1 << 31, out, np.uint64(what)]
    cluster = blocks if blocks > 1 else None
    return emulator.launch(text, "k", blocks, 128, args, arch="sm_100a", cluster=cluster), out


def moved(shape, first=0, issued=(), **other):
    """What each thread loads where nothing is found."""
    what = other.pop("what", 0)
    report, out = run(moving(shape, first, issued, **other), what)
    assert not report.findings, str(report.findings[0])
    return out


def locate(shape, lane, i):
    """The lane and the column of tensor memory that register i of a lane means, of eight."""
    return {
        "32x32b.x8": (lane, i),
        "16x64b.x8": (lane // 4 + 8 * (lane % 2), lane // 2 % 2 + 2 * i),
        "16x128b.x4": (lane // 4 + 8 * (i % 2), lane % 4 + 4 * (i // 2)),
        "16x256b.x2": (lane // 4 + 8 * (i // 2 % 2), 2 * (lane % 4) + i % 2 + 8 * (i // 4)),
    }[shape]


@pytest.mark.parametrize(
    ("shape", "first"),
    [("32x32b.x8", 0), *itertools.product(["16x64b.x8", "16x128b.x4", "16x256b.x2"], [0, 16])],
)
def test_registers_of_each_shape(shape, first):
    (got,) = moved(shape, first)
    for t, i in itertools.product(range(128), range(8)):
        row, column = locate(shape, t % 32, i)
        assert got[t, i] == (t // 32 * 32 + first + row << 16) + column


def test_halves_of_two_columns_in_a_register():
    (got,) = moved("32x32b.x8.pack::16b")
    assert (got == 2 * np.arange(8) + (2 * np.arange(8) + 1 << 16)).all()  # the low halves


COPIES = {
    "128x256b": (8, lambda lane: lane),
    "4x256b": (8, lambda lane: lane // 32 if lane % 32 == 0 else -1),
    "128x128b": (4, lambda lane: lane),
    "64x128b.warpx2::02_13": (4, lambda lane: lane % 64),
    "64x128b.warpx2::01_23": (4, lambda lane: lane % 32 + lane // 64 * 32),
    "32x128b.warpx4": (4, lambda lane: lane % 32),
}
"""Of each shape its words a row, and the row that a lane takes; -1: none."""


def unpacked(piece, bits):
    """16 elements of 4 or 6 bits, the lowest first, with the sign in bit 5 of 8 each: four words."""
    number = int.from_bytes(piece.tobytes(), "little")
    each = [(number >> bits * i & (1 << bits) - 1) << 6 - bits for i in range(16)]
    return np.array(each, np.uint8).view(np.uint32)


FORMS_OF_COPIES = [
    *((shape, False, 8) for shape in COPIES), ("128x256b", True, 8), ("4x256b", True, 4),
    ("128x128b", False, 6), ("64x128b.warpx2::01_23", False, 4), ("32x128b.warpx4", False, 6),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "pair", "bits"), FORMS_OF_COPIES)
def test_copies(shape, pair, bits):
    words, row_of = COPIES[shape]
    form = "" if bits == 8 else f".b8x16.b{bits}x16_p{128 - 16 * bits}"
    got = moved(
        "32x32b.x8", issued=(f"tcgen05.cp.cta_group::{1 + pair}.{shape}{form} [%0], %1;",),
        pair=pair, filled=bits // 2, what=ROWS,
    )  # fmt: skip
    lanes = np.arange(128, dtype=np.uint32)[:, None] << 16 | np.arange(8, dtype=np.uint32)
    for block in range(1 + pair):
        want = lanes | np.uint32(block << 30)
        for lane in (lane for lane in range(128) if row_of(lane) >= 0):
            row = row_of(lane)
            for c in range(0, words, 4):
                start = 4096 * block + row // 8 * 32 + row % 8 * 4 + c // 4 * 2048
                piece = np.arange(start, start + 4, dtype=np.uint32) | 1 << 31
                want[lane, c : c + 4] = piece if bits == 8 else unpacked(piece, bits)
        assert np.array_equal(got[block], want)


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("first", [0, 96])
def test_a_shift(first, pair):
    place = f"add.u32 x, %0, {(first << 16) + 4};"
    issued = f"{{.reg .b32 x; {place} tcgen05.shift.cta_group::{1 + pair}.down [x];}}"
    got = moved("32x32b.x8", issued=(issued,), pair=pair)
    for block in range(1 + pair):
        rows = np.arange(128)[:, None] + np.zeros(8, int)
        rows[first : first + 31, 4:] += 1  # columns 4 to 11: a row is 32 bytes
        assert np.array_equal(got[block], (block << 30) + (rows << 16) + np.arange(8))


SHIFT = "tcgen05.shift.cta_group::1.down [%0];"
LAST = "{.reg .b32 x; add.u32 x, %0, 0x1f0000; tcgen05.cp.cta_group::1.4x256b [x], %1;}"
COPY = "tcgen05.cp.cta_group::1.128x256b [%0], %1;"


def test_rows_that_follow_a_shift():
    (got,) = moved("32x32b.x8", issued=(SHIFT, LAST), what=ROWS)
    want = np.arange(1, 33) << 16
    want[31] = 1 << 31  # the first of the four rows
    assert np.array_equal(got[:32, 0], want)


UNSOUND = [
    ((SHIFT, SHIFT), "shift", "race", "while the shift of line"),
    ((SHIFT, COPY), "tcgen05.cp", "race", "while the shift of line"),
    ((COPY, SHIFT), "shift", "race", "while the copy of line"),
    ((SHIFT.replace("[%0]", "[%0 + 0x100000]"),), "shift", "misaligned", "multiple of 32 lanes"),
    ((SHIFT.replace("[%0]", "[%0 + 28]"),), "shift", "out-of-bounds", "shifts columns"),
    ((LAST.replace("0x1f0000", "0x200000"),), "tcgen05.cp", "misaligned", "32 lanes apart"),
    ((COPY.replace("256b", "128b.b8x16.b6x16_p32"),), "tcgen05.cp", "uninitialised", ""),
    ((SHIFT,), "shift", "uninitialised", ""),
]


@pytest.mark.parametrize(("issued", "line", "kind", "says"), UNSOUND)
def test_what_is_out_of_order_or_place(issued, line, kind, says):
    text = moving("32x32b.x8", issued=issued, filled=2 if "b6x16" in issued[0] else 4)
    text = text.replace("c < 32", "c < 4") if kind == "uninitialised" else text
    report, _ = run(text, ROWS)
    (first, *_) = report.findings
    assert first.kind == kind and says in first.message
    assert first.line == max(
        i for i, row in enumerate(text.splitlines(), 1) if f"{line}." in row and "asm" in row
    )


READ = (  # by 8 columns of B
    "{.reg .pred p; .reg .b32 y; setp.ne.b64 p, %1, %1; mov.b32 y, 0x08020010;"
    "tcgen05.mma.cta_group::1.kind::f16 [%0 + 16], [%0], %1, y, p;}"
)
FENCE = 'asm volatile("tcgen05.fence::{}_thread_sync;");  // {}'
STORES = 'asm volatile("tcgen05.fence::{}_thread_sync;");  // the stores'
HANDED = f"""
    if (threadIdx.x == 32) {{
        {FENCE.format("after", "the stores")}
        asm volatile("{COPY}" :: "r"(place), "l"(what));
        {FENCE.format("before", "the copy")}
    }}
    __syncthreads();
    if (threadIdx.x == 0) {FENCE.format("after", "the copy")}
"""
MEETING = """asm volatile("{.reg .b64 t; .reg .pred p; mbarrier.arriveORDER.shared::cta.b64 t, [%0];\\n"
    "MET%=: mbarrier.try_wait.parityORDER.shared::cta.b64 p, [%0], %1; @!p bra MET%=;}"
    :: "r"(at(&met)), "r"(PHASE) : "memory");"""
ORDERS = ["", ".relaxed.cta", ".relaxed.cluster"]


def by_mbarriers(text, order):
    """A text of `moving` with mbarriers of this order for __syncthreads() until the loads."""
    stores = STORES.format("before")
    head, tail = text.split(stores)
    pieces = tail.split("__syncthreads();")
    tail = pieces[0]
    for phase, piece in enumerate(pieces[1:-1]):
        tail += MEETING.replace("ORDER", order).replace("PHASE", str(phase % 2)) + piece
    text = f"{head}{stores}{tail}__syncthreads();{pieces[-1]}"
    text = text.replace("try_wait.parity.shared", f"try_wait.parity{order}.shared")
    text = text.replace("    __shared__ u64 done;", "    __shared__ u64 done, met;")
    init = '"mbarrier.init.shared.b64 [%0], {};" :: "r"(at(&{}))'
    one, all_threads = init.format(1, "done"), init.format(128, "met")
    return text.replace(
        f"if (threadIdx.x == 0) asm volatile({one});",
        f"if (threadIdx.x == 0) {{ asm volatile({one}); asm volatile({all_threads}); }}",
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("gone", ["neither", "before", "after"])
def test_a_thread_multiplies_what_another_has_copied(gone, order):
    text = moving("32x32b.x8", issued=(READ,)).replace(FENCE.format("after", "the stores"), "")
    text = text.replace("    if (threadIdx.x == 0 &&", f"{HANDED}    if (threadIdx.x == 0 &&")
    text = by_mbarriers(text, order).replace(FENCE.format(gone, "the copy"), ";")
    # What has not ended is no matter of release and acquire.
    says = {"before": "while the copy", "after": "::after_thread_sync" if order else ""}.get(
        gone, ""
    )
    report, _ = run(text, ROWS)
    found = [f for f in report.findings if says in f.message and "tcgen05.mma" in f.text]
    assert bool(found) == bool(says) == bool(report.findings), str(report)


def test_two_that_are_in_order_by_what_lies_between():
    issued = (SHIFT, READ, SHIFT)  # 128 rows are multiplied, of which the shifts move 32
    assert moved("32x32b.x8", issued=issued, what=descriptor(0, 128, 256, 0) | 1 << 46).any()


NEXT = f"{{.reg .b32 x; add.u32 x, %0, 0x200000; {SHIFT.replace('%0', 'x')}}}"
"""A shift of what another warp has stored."""
WAIT = "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN;"
MISSING = [
    (COPY, STORES.format("before"), "::before_thread_sync", "tcgen05.cp", (0, 3)),
    (COPY, STORES.format("after"), "::after_thread_sync", "tcgen05.cp", (0, 3)),
    (NEXT, STORES.format("before"), "::before_thread_sync", "tcgen05.shift", (0, 1)),
    (NEXT, WORK.splitlines()[-1].strip(), "::after_thread_sync", "mine + (0 << 16)", (32, 1)),
]
"""Of each: what is issued, the fence that is gone, what the finding says, where, and whose it is and
how often."""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("issued", "gone", "says", "line", "whose"), MISSING)
def test_a_fence_is_missed_where_barriers_are_relaxed(issued, gone, says, line, whose, order):
    whole = by_mbarriers(moving("32x32b.x8", issued=(issued,)), order)
    assert whole.count(gone) == 1
    assert run(whole, ROWS)[0].ok
    report, _ = run(whole.replace(gone, ""), ROWS)
    assert all(f.kind == "race" and says in f.message for f in report.findings), str(report)
    found = [(f.threads[0][0], f.count) for f in report.findings if line in f.text]
    assert found == ([whose] if order else []), str(report)
    assert all(" column 480 of tensor memory" in f.message for f in report.findings)


@pytest.mark.parametrize("issued", [COPY, NEXT])
def test_barriers_of_a_block_release_and_acquire(issued):
    text = moving("32x32b.x8", issued=(issued,))
    for gone in (
        *map(STORES.format, ("before", "after")),
        FENCE.format("after", "what was issued"),
    ):
        text = text.replace(gone, "")
    assert "thread_sync;" not in text
    assert run(text, ROWS)[0].ok


def test_an_address_of_shared_memory_where_a_generic_one_is_due():
    whole = moving("32x32b.x8", issued=(COPY,))
    shared = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
    text = whole.replace(shared, shared.replace(".shared::cluster", ""))
    report, out = run(text, ROWS)
    assert [f.kind for f in report.findings] == ["out-of-bounds"], str(report)
    assert (
        "takes a generic one" in report.findings[0].message and "commit" in report.findings[0].text
    )
    assert (out == run(whole, ROWS)[1]).all()  # as on a GPU
    pointer = text.replace(f'{shared.replace(".shared::cluster", "")} [%0];" :: "r"(at(&done))',
                           f'{shared.replace(".shared::cluster", "")} [%0];" :: "l"(&done)')  # fmt: skip
    assert pointer != text
    assert run(pointer, ROWS)[0].ok


@pytest.mark.parametrize(
    ("issued", "what", "whose"),
    [
        (COPY, "copy", [(0, 4, "reads column 480"), (0, 1, "frees column 480")]),
        (NEXT, "shift", [(32, 1, "reads column 480"), (0, 1, "frees column 480")]),
        (READ, "product", [(0, 2, "frees column 496")]),
    ],
)
def test_a_wait_that_is_missing(issued, what, whose):
    whole = moving("32x32b.x8", issued=(issued,))
    assert whole.count(WAIT) == 1 and run(whole, ROWS)[0].ok
    report, _ = run(whole.replace(WAIT, ""), ROWS)
    first, *races = report.findings
    assert "ends while this product may still be running" in first.message and first.count == 1
    for f, (thread, count, does) in zip(races, whose, strict=True):
        assert (f.array, f.threads, f.count) == ("tensor memory", ((thread, 0, 0),), count)
        assert f" {does} of tensor memory while the {what} of line {first.line}" in f.message


NEW = [
    "tcgen05.shift.cta_group::1.down [%0];",
    "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b1::fill [%0], %1, %1, %0, p;",
    "tcgen05.mma.ws.cta_group::1.kind::i8 [%0], [%0], %1, %0, p, 0;",
    "tcgen05.mma.ws.cta_group::1.kind::f8f6f4 [%0], %1, %1, %0, p, %1;",
    "tcgen05.mma.cta_group::1.kind::f8f6f4.ashift [%0], [%0], %1, %0, p;",
    *(
        f"tcgen05.cp.cta_group::1.{shape}{form} [%0], %1;"
        for shape in COPIES
        for form in ("", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64")
    ),
]


def test_ptxas_accepts_each_form():
    form = 'asm volatile("{{.reg .pred p; setp.ne.b32 p, %0, 0; {}}}" :: "r"(x), "l"(y));'
    body = "".join(map(form.format, NEW))
    text = f'extern "C" __global__ void k(unsigned x, unsigned long long y) {{ {body} }}'
    assert toolchain.compile(text, name="k.cu", arch="sm_100a").kernels
    with pytest.raises(CompileError):
        toolchain.compile(text.replace(".down", ".up"), name="k.cu", arch="sm_100a")


# -- what is allocated ---------------------------------------------------------------------------

BARE = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
.shared .align 4 .b32 place;
.shared .align 8 .b64 bar;
.shared .align 1024 .b8 rows[4096];
.reg .b32 at, t, x, r<8>; .reg .b64 to, far; .reg .pred first, late, one, p;
mov.u32 t, %tid.x;
mov.u32 x, %ctaid.x;
setp.eq.u32 first, x, 0;
setp.ge.u32 late, t, 32;
setp.eq.u32 one, t, 0;
mul.wide.u32 far, t, 32;
ld.param.u64 to, [out];
add.s64 to, to, far;
mov.u32 at, 480;
BODY
ret;
}
"""
WORDS = {
    "alloc": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place],",
    "free": "tcgen05.dealloc.cta_group::1.sync.aligned.b32",
    "give_back": "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
    "store": "tcgen05.st.sync.aligned",
    "load": "tcgen05.ld.sync.aligned",
    "stored": "tcgen05.wait::st.sync.aligned",
    "loaded": "tcgen05.wait::ld.sync.aligned",
}
EIGHT = "{r0, r1, r2, r3, r4, r5, r6, r7}"
FILL = [f"mad.lo.u32 r{i}, t, 8, {i}" for i in range(8)]
GIVE = [f"st.global.b32 [to + {4 * i}], r{i}" for i in range(8)]


def bare(*statements, threads=32, blocks=1, lines=True, pair=False):
    """The report of a kernel of PTX, each statement on a line of its number, and 8 words a thread."""
    body = ""
    for number, statement in enumerate(statements, 1):
        text = re.sub(r"\b[a-z_]+\b", lambda word: WORDS.get(word[0], word[0]), statement)
        body += f".loc 1 {number} 1\n" * lines + text + ";\n"
    body = body.replace("group::1", "group::2") if pair else body
    out = np.zeros((threads, 8), np.uint32)
    return emulator.launch(
        BARE.replace("BODY", body), "k", blocks, threads, [out], arch="sm_100a",
        cluster=2 if pair else None,
    ), out  # fmt: skip


STORE = "store.32x32b.x1.b32 [at], {t}"
LOAD = f"load.32x32b.x8.b32 {EIGHT}, [%s]"
MISPLACED = {
    # statements, and of each line at fault what is said there
    "no power of two": (["alloc 48"], {1: "asks for 48 columns of tensor memory; a power of two"}),
    "too few": (["alloc 16"], {1: "asks for 16 columns"}),
    "after the permit": (
        ["alloc 32", "give_back", "alloc 32", "free 480, 32"], {3: "given back the permit (line 2)"},
    ),
    "the permit of the other block": (
        ["@!first give_back", "alloc 32", "@first free 480, 32"],
        {2: "thread (0, 0, 0) of block (1, 0, 0) asks for tensor memory after"},
    ),
    "what others hold stays": (
        ["alloc 32", "alloc 32", "add.u32 at, at, -32; store.32x32b.x8.b32 [448], " + EIGHT, "stored", "free 480, 32",
         "alloc 32", "alloc 64", LOAD % 448, "loaded", "free 480, 32", "free 384, 64", "free 448, 32"], {},
    ),
    "lanes in what is freed": (
        ["alloc 32", "free 66016, 32", "free 480, 32"], {2: "frees 32 columns of tensor memory from address 0x101e0 on; the block"},
    ),
    "another warp frees": (
        ["@!late alloc 32", "bar.sync 0", "@late free 480, 64", "bar.sync 0", "@!late free 480, 32"],
        {3: "frees columns 480 to 543"},
    ),
    "another warp reads": (
        ["@!late alloc 32", "bar.sync 0", f"@late load.32x32b.x8.b32 {EIGHT}, [0x2001E0]", "loaded", "bar.sync 0",
         "@!late free 480, 32"], {3: "warp 1 of block (0, 0, 0) reads tensor memory that nothing"},
    ),
    "another warp reads elsewhere": (
        [f"@late load.32x32b.x8.b32 {EIGHT}, [0x2001E0]"], {1: "reads columns 480 to 487"},
    ),
    "more than is free": (
        ["alloc 256", "alloc 512", "free 256, 256"], {2: "512 columns of tensor memory where 256 of 512 are free"},
    ),
    "half is freed": (
        ["alloc 256", "free 256, 128"],
        {1: "block (0, 0, 0) ends and has not freed the 256 columns",
         2: "frees 128 columns of tensor memory from address 0x100 on; the block has allocated {256: 256}"},
    ),
    "others are freed": (
        ["alloc 64", "free 416, 64", "free 448, 64"],
        {2: "frees columns 416 to 479 of tensor memory; its block has allocated columns 448 to 511"},
    ),
    "one block does not free": (
        ["alloc 32", "@first free 480, 32"], {1: "block (1, 0, 0) ends and has not freed the 32"},
    ),
    "none": ([LOAD % 0], {1: "reads columns 0 to 7 of tensor memory; its block has allocated none"}),
    "between two": (
        ["alloc 32", "alloc 128", LOAD % 377, "free 256, 128", "free 480, 32"],
        {3: "reads columns 377 to 384 of tensor memory; its block has allocated columns 256 to 383, 480 to 511."},
    ),
    "past the last": (
        ["alloc 32", LOAD % 505, "free 480, 32"], {2: "reads columns 505 to 512"},
    ),
    "what was there before": (
        ["alloc 32", "store.32x32b.x8.b32 [at], " + EIGHT, "stored", LOAD % 480, "loaded", "free 480, 32",
         "alloc 32", LOAD % 480, "loaded", "free 480, 32"],
        {8: "warp 0 of block (0, 0, 0) reads tensor memory that nothing has written since"},
    ),
    "one column of eight": (
        ["alloc 32", STORE, "stored", LOAD % 480, "loaded", "free 480, 32"], {4: "nothing has written"},
    ),
    "another address a lane": (
        ["alloc 32", "add.u32 at, at, t", STORE, "stored", "free 480, 32"],
        {3: "warp 0 of block (0, 0, 0) writes tensor memory and its lanes give different addresses"},
    ),
    "lanes between two warps'": (
        ["alloc 32", "store.16x64b.x1.b32 [at + 0x10000], {t}", "stored", "free 480, 32"],
        {2: "warp 0 of block (0, 0, 0) writes tensor memory from lane 1 on: warp 0 of a warpgroup reaches lanes 0 to 31"},
    ),
    "the second half for the whole": (
        ["alloc 32", "store.32x32b.x1.b32 [at + 0x100000], {t}", "stored", "free 480, 32"], {2: "from lane 16 on"},
    ),
    "a warp that asks wrongly": (
        ["@late alloc 48"], {1: "thread (32, 0, 0) of block (0, 0, 0) asks for 48"},
    ),
    "a warp in the place of another": (
        ["@!late alloc 32", "bar.sync 0", "@late " + STORE, "stored", "bar.sync 0", "@!late free 480, 32"],
        {3: "warp 1 of block (0, 0, 0) writes tensor memory from lane 0 on: warp 1 of a warpgroup reaches lanes 32 to 63"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "found"), MISPLACED.values(), ids=MISPLACED)
def test_columns_that_a_block_or_lanes_that_a_warp_has_not(statements, found):
    text = " ".join(statements)
    report, _ = bare(*statements, threads=32 + 32 * ("late" in text), blocks=1 + ("first" in text))
    assert {f.line: f.count for f in report.findings} == dict.fromkeys(found, 1), str(report)
    for finding in report.findings:
        assert found[finding.line] in finding.message
        assert all(x % 32 == 0 for x, _, _ in finding.threads), "the first of its warp"


@pytest.mark.parametrize("lines", [True, False])
def test_columns_are_taken_from_the_end(lines):
    """Where a GPU takes them is open; whether PTX names lines or not, what is held is not given."""
    keep = "bar.sync 0; ld.shared.b32 x, [place]; st.global.b32 [to + {}], x; bar.sync 0"
    freed = ["free 480, 32", "free 256, 128", "free 448, 32", "free 384, 64"]
    taken: list[str] = []
    for i, columns in enumerate((32, 64, 32, 128, 512)):
        taken += [*(freed if columns == 512 else []), f"alloc {columns}", keep.format(4 * i)]
    report, out = bare(*taken, "free 0, 512", lines=lines)
    assert report.ok, str(report)
    assert out[0].tolist() == [480, 384, 448, 256, 0, 0, 0, 0]


def test_both_blocks_of_a_pair_allocate_and_free():
    assert bare("alloc 32", "free 480, 32", blocks=4, pair=True)[0].ok
    lone = bare("@first alloc 32", "@first free 480, 32", blocks=2, pair=True)[0].findings
    assert [(f.line, f.threads) for f in lone] == [(1, ((0, 0, 0),))], "the other never allocates"
    for guard, block in (("@first ", 1), ("@!first ", 0)):
        report, _ = bare("alloc 32", guard + "free 480, 32", blocks=2, pair=True)
        messages = {f.line: f.message for f in report.findings}
        assert sorted(messages) == [1, 2], str(report)
        assert f"block ({block}, 0, 0) ends and has not freed the 32 columns" in messages[1]
        assert f"a warp of block ({1 - block}, 0, 0) allocates or frees" in messages[2]


@pytest.mark.parametrize(
    "shape", ["32x32b.x8", "16x64b.x8", "16x128b.x4", "16x256b.x2", "32x32b.x8.unpack::16b"]
)
def test_what_each_shape_stores(shape):
    """By warps 1 to 4, the last of which reaches the lanes of the first; eight columns go back."""
    start = 0 if shape == "32x32b.x8" else 4
    own = "shr.u32 x, t, 5; and.b32 x, x, 3; shl.b32 x, x, 21; add.u32 at, x, 448"
    store = f"@late store.{shape}.b32 [at%s], {EIGHT}"
    steps = ["@!late alloc 64", own, "mul.lo.u32 t, t, 0x20001", *FILL, store % ""]
    steps += [store % " + 0x100000"] * shape.startswith("16")
    steps += ["stored", "@late " + LOAD % f"at + {start}", "loaded", *GIVE, "bar.sync 0"]
    report, out = bare(*steps, "@!late free 448, 64", threads=160)
    want = np.zeros((128, 16), np.uint32)
    for t, i in itertools.product(range(32, 160), range(8)):
        value = 8 * 0x20001 * t + i
        if "unpack" in shape:
            want[t - 32, 2 * i : 2 * i + 2] = value & 0xFFFF, value >> 16
        else:
            row, column = locate(shape, t % 32, i)
            want[t // 32 * 32 - 32 + row, column] = value
            if shape.startswith("16"):
                want[t // 32 * 32 - 16 + row, column] = value
    assert report.ok, str(report)
    np.testing.assert_array_equal(out[32:], want[:, start : start + 8])


READY = [
    "alloc 64", "mov.u32 r1, rows; mad.lo.u32 x, t, 16, r1",
    *(f"st.shared.v4.b32 [x + {512 * i}], {{t, t, t, t}}" for i in range(8)),
    "@one mbarrier.init.shared.b64 [bar], 1", "fence.proxy.async.shared::cta; bar.sync 0",
    f"shr.b32 r1, r1, 4; cvt.u64.u32 far, r1; or.b64 far, far, {descriptor(0, 2048, 128, 0) | 1 << 46}",
]  # fmt: skip
"""Columns 448 to 511, and a descriptor of 128 rows of 32 bytes."""
DONE = [
    "@one tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar]",
    "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0; @!p bra AGAIN", "free 448, 64",
]  # fmt: skip
OF_128, OF_64 = (SUMS["f32"] << 4 | 8 // 8 << 17 | m // 16 << 24 for m in (128, 64))
MADE = "@one tcgen05.mma.cta_group::1.kind::f16 [{}], {}, far, {}, {}"
SCALED_BY = (
    "@one tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [448], far, far, {}, [{}], [{}], late"
)
OF_SCALES = 1 << 23 | 40 // 8 << 17 | 1 << 27
CHANGED = "xor.b64 far, far, {}; " + MADE.format(480, "far", OF_128, "late")
PRODUCTS = [
    (MADE.format(480, "far", OF_128, "late"), None, ""),
    (MADE.format(0x1001E0, "far", OF_64, "late"), None, ""),
    (MADE.format(0x1001E0, "far", OF_128, "late"), "misaligned", "writes tensor memory from lane 16 on by a product of 128"),
    (MADE.format(0x2001E0, "far", OF_64, "late"), "misaligned", "from lane 32 on by a product of 64 rows"),
    (MADE.format(505, "far", OF_128, "late"), "out-of-bounds", "writes columns 505 to 512 of tensor memory; its block"),
    (MADE.format(504, "far", OF_128, "late"), None, ""),
    (MADE.format(480, "far", OF_128, "one"), "uninitialised", "adds to columns 480 to 487 of tensor memory, of which"),
    (MADE.format(480, "[500]", OF_128, "late"), "uninitialised", "multiplies columns 500 to 507 of tensor memory, of which"),
    (MADE.format(480, "[508]", OF_128, "late"), "out-of-bounds", "multiplies columns 508 to 515"),
    (SCALED_BY.format(OF_SCALES, 508, 500), "uninitialised", "scales by columns 508 to 511"),
    (SCALED_BY.format(OF_SCALES, 509, 500), "out-of-bounds", "scales by columns 509 to 512"),
    (SCALED_BY.format(OF_SCALES, 500, 511), "out-of-bounds", "scales by columns 511 to 512"),
    (CHANGED.format(1 << 46), "misaligned", "whose bits 46 to 48 are not 0b001"),
    *((CHANGED.format(1 << bit), "out-of-bounds", "in which bits are set that belong to no field") for bit in (14, 15, 30, 31, 47, 48, 53, 60, 61)),
    (CHANGED.format(1 << 52), None, ""),
    (CHANGED.format(1 << 10), "out-of-bounds", "multiplies by a matrix B that lies in bytes 17408 to 19583"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "kind", "says"), PRODUCTS)
def test_where_a_product_finds_what_it_takes(made, kind, says):
    report, _ = bare(*READY, made, *DONE)
    assert bool(kind) != report.ok, str(report)
    if kind:
        count = 1 + ("xor" in made or "508 to 511" in says)  # of A and B alike
        (found,) = [f for f in report.findings if f.kind == kind and says in f.message]
        assert (found.line, found.count, found.threads[0]) == (len(READY) + 1, count, (0, 0, 0))


@pytest.mark.parametrize(
    "made", [MADE.format(448, "far", OF_128, "late"), "@one tcgen05.cp.cta_group::1.128x256b [448], far"]
)  # fmt: skip
def test_what_a_product_or_a_copy_writes_is_there(made):
    """And columns beside it are not."""
    commit, wait, free = DONE
    for at, sound in ((448, True), (449, False)):
        report, _ = bare(*READY, made, commit, wait, LOAD % at, "loaded", free)
        assert report.ok == sound, str(report)
        assert all(f.kind == "uninitialised" for f in report.findings)


# -- what is refused -----------------------------------------------------------------------------

REFUSED = [
    ("mma.cta_group::1.kind::f16 [at], far, far, at, p, 1", "scale-input-d is not"),
    ("mma.ws.sp.cta_group::1.kind::f16 [at], far, far, [at], at, p", "sparse.*without .sp"),
    ("mma.sp.cta_group::1.kind::f16 [at], far, far, [at], at, p", "sparse"),
]


@pytest.mark.parametrize(("form", "says"), REFUSED)
def test_what_is_refused(form, says):
    with pytest.raises(EmulationError, match=says):
        bare(f"tcgen05.{form}")


PLAIN, SCALES = SUMS["f32"] << 4, ", [at], [at]"
TOLD = [
    # the form, bits of its descriptors but M and N; (M, N) that are valid, and those that are not
    ("kind::f16", PLAIN, {64: (8, 16, 256), 128: (8, 248)}, {0: (8,), 32: (64,), 96: (8,), 256: (16,), 64: (0, 264)}),
    ("kind::f16 pair", PLAIN, {128: (16, 256), 256: (32, 240)}, {64: (16,), 192: (16,), 128: (0, 8, 24, 272)}),
    ("ws kind::f16", PLAIN, {32: (64, 128, 256), 64: (64,), 128: (256,)}, {256: (64,), 32: (8, 32, 192)}),
    ("kind::i8", SUMS["s32"] << 4, {64: (8, 24, 32, 48), 128: (16, 256)}, {64: (40, 248)}),
    ("kind::i8 pair", SUMS["s32"] << 4, {128: (32, 64), 256: (256,)}, {128: (16, 48), 256: (240,)}),
    ("ws kind::i8", SUMS["s32"] << 4, {32: (64, 256)}, {32: (32,)}),
    ("kind::mxf8f6f4.block_scale", 1 << 23, {128: (8, 256)}, {0: (8,), 256: (8,), 128: (0, 264)}),
    ("kind::mxf8f6f4.block_scale pair", 1 << 23, {256: (16, 256)}, {128: (16,), 384: (16,), 256: (8, 24)}),
]  # fmt: skip
A_IS, B_IS = 1 << 7, 1 << 10
SAID = [
    # the form, bits that are valid beside M and N, each alone; bits that are not, and what is told
    ("kind::f16", [PLAIN, 0, PLAIN | A_IS, PLAIN | B_IS, PLAIN | 1 << 15, PLAIN | 1 << 16, PLAIN | 3 << 13 | 1 << 3],
     [(PLAIN | 1 << 2, "sparse A"), *((PLAIN | 1 << bit, r"reserved \(0, 1, 6, 23, 29, 30, 31\)") for bit in (0, 1, 6, 23, 29, 30, 31)),
      (SUMS["s32"] << 4, "D takes f16 or f32"), (PLAIN | 2 * A_IS, "2 of A and 0 of B"), (PLAIN | 2 * B_IS, "2 of B")]),
    ("kind::tf32", [PLAIN | 2 * A_IS | 2 * B_IS],
     [(PLAIN | A_IS | 2 * B_IS, "types"), (2 * A_IS | 2 * B_IS, "D takes f32"),
      *((PLAIN | 2 * A_IS | 2 * B_IS | 1 << bit, "transposed matrix of tf32") for bit in (15, 16))]),
    ("kind::f8f6f4", [PLAIN | a * A_IS | (5 - a if a != 3 else 0) * B_IS for a in (0, 1, 3, 4, 5)] + [0],
     [(PLAIN | 2 * A_IS, "types"), (PLAIN | 6 * B_IS, "types"), (3 << 4, "types 3 of D")]),
    ("kind::i8", [SUMS["s32"] << 4 | A_IS, SUMS["s32"] << 4 | B_IS | 1 << 15],
     [(PLAIN, "D takes s32"), (SUMS["s32"] << 4 | 2 * A_IS, "types")]),
    ("ws kind::f16", [PLAIN | 1 << 30, PLAIN | 1 << 31], [(PLAIN | 1 << 29, r"reserved \(0, 1, 6, 23, 29\)")]),
    ("kind::mxf8f6f4.block_scale", [1 << 23 | 3 << 29 | 3 << 4, 1 << 23 | 5 * A_IS | 4 * B_IS | 1 << 15],
     [*((1 << 23 | 1 << bit, r"reserved \(0, 1, 3, 6, 24, 25, 26\)") for bit in (0, 1, 3, 6, 24, 25, 26)),
      (0, "ue4m3 that begin at bytes 0"), (1 << 23 | 2 * A_IS, "D takes f32")]),
    ("kind::mxf4.block_scale.scale_vec::2X", [1 << 23 | A_IS | B_IS | 2 << 29 | 2 << 4],
     [(1 << 23 | A_IS, "types"), (1 << 23 | A_IS | B_IS | 1 << 4, r"bytes 0 \(A\) and 1 \(B\), 2 a row"),
      (1 << 23 | A_IS | B_IS | 1 << 15, "transposed matrix of e2m1x2")]),
    ("kind::mxf4nvf4.block_scale.scale_vec::4X", [A_IS | B_IS, 1 << 23 | A_IS | B_IS],
     [(A_IS | B_IS | 2 << 29, r"bytes 2 \(A\) and 0")]),
]  # fmt: skip


def multiply(form, codes):
    """The report of one thread's products in a block without tensor memory, a descriptor a line."""
    scales, ws = SCALES * ("scale" in form), "ws." * form.startswith("ws")
    form, pair = form.removeprefix("ws ").removesuffix(" pair"), form.endswith(" pair")
    mma = f"tcgen05.mma.{ws}cta_group::1.{form} [at], far, far, r0{scales}, first"
    steps = (f"mov.b32 r0, {what}; {mma}" for what in codes)
    return bare(*steps, threads=1, blocks=1 + pair, pair=pair)[0]


def sized(form, bits, sizes):
    """Descriptors with each of these M and N."""
    at = 27 if "scale" in form else 24
    return [
        bits | n // 8 << 17 | m // (128 if "scale" in form else 16) << at
        for m, columns in sizes.items()
        for n in columns
    ]


@pytest.mark.parametrize(("form", "bits", "valid", "wrong"), TOLD, ids=[t[0] for t in TOLD])
def test_sizes_of_a_product(form, bits, valid, wrong):
    codes = sized(form, bits, valid)
    assert {f.line for f in multiply(form, codes).findings} == {*range(1, len(codes) + 1)}
    for what in sized(form, bits, wrong):
        with pytest.raises(EmulationError, match="says M = "):
            multiply(form, [what])


@pytest.mark.parametrize(("form", "valid", "wrong"), SAID, ids=[t[0] for t in SAID])
def test_fields_of_an_instruction_descriptor(form, valid, wrong):
    size = 64 << 14 | (1 << 27 if "scale" in form else 128 << 20)
    report = multiply(form, [size | bits for bits in valid])
    assert {f.line for f in report.findings} == {*range(1, len(valid) + 1)}, str(report)
    for bits, says in wrong:
        with pytest.raises(EmulationError, match=says):
            multiply(form, [size | bits])


# -- launch control ------------------------------------------------------------------------------

CANCELS = cuda("cancels")


@pytest.mark.parametrize("at_once", [1, 2, 15])
def test_every_block_runs_once_by_whoever_takes_it(at_once):
    done = np.zeros(15, np.int32)
    args = [done, np.int32(5)]
    report = emulator.launch(CANCELS, "k", (5, 3), 32, args, arch="sm_100a", lanes=32 * at_once)
    assert not report.findings and (done == 1).all()


TAKES = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 width, .param .u32 height)
{
.shared .align 16 .b8 answer[32];
.shared .align 8 .b64 bar;
.reg .b32 r, t, x, y, z, w, h, again; .reg .b64 to, far, low, high; .reg .b128 a; .reg .pred asks, one, p;
mov.u32 t, %tid.x; mov.u32 r, %cluster_ctarank; mov.u32 again, 0;
mov.u32 x, %ctaid.x; mov.u32 y, %ctaid.y; mov.u32 z, %ctaid.z;
ld.param.u64 to, [out]; ld.param.u32 w, [width]; ld.param.u32 h, [height];
setp.eq.u32 one, t, 0;
setp.eq.and.u32 asks, r, 0, one;
@one mbarrier.init.shared.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
fence.proxy.async.shared::cta;
MORE:
barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
mad.lo.u32 z, z, h, y; mad.lo.u32 z, z, w, x; mul.wide.u32 far, z, 4; add.s64 far, to, far;
@one red.global.add.u32 [far], 1;
@one mbarrier.arrive.expect_tx.shared::cta.b64 far, [bar], 16;
ASK
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [bar], again; @!p bra AGAIN;
xor.b32 again, again, 1;
ld.shared.b64 low, [answer]; ld.shared.b64 high, [answer + 8];
mov.b128 a, {low, high};
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, a;
@!p bra END;
clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 x, a;
clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 y, a;
clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 z, a;
add.u32 x, x, r;
bra MORE;
END: LATER
ret;
}
"""
ASKS = ".loc 1 8 1\n@asks clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{}.b128 [{}], [bar];"


def taking(grid, cluster, at_once, ask, later=""):
    """The report, and how often the work of each block was done."""
    done = np.zeros(grid[::-1], np.int32)
    text = TAKES.replace("ASK", ask).replace("LATER", later)
    report = emulator.launch(
        text, "k", grid, 32, [done, np.int32(grid[0]), np.int32(grid[1])], arch="sm_100a",
        lanes=32 * at_once, cluster=(cluster, 1, 1),
    )  # fmt: skip
    return report, done


@pytest.mark.parametrize(
    ("grid", "cluster", "at_once"), [((2, 3, 4), 1, 1), ((2, 3, 4), 1, 5), ((4, 3, 2), 2, 2), ((8, 1, 3), 4, 8)],
)  # fmt: skip
def test_a_cluster_takes_the_place_of_another(grid, cluster, at_once):
    """Along each axis; the answer goes to every block, or only the one that asked hears of it."""
    everybody = ".multicast::cluster::all"
    report, done = taking(grid, cluster, at_once, ASKS.format(everybody, "answer"))
    assert report.ok and (done == 1).all(), str(report)
    if cluster > 1:
        lone, done = taking(grid, cluster, at_once, ASKS.format("", "answer"))
        assert "16 bytes that were announced have not come" in str(lone)


@pytest.mark.parametrize(
    ("place", "kind", "says"),
    [("answer + 8", "misaligned", "asks for an answer at byte 8 of shared memory: its 16 bytes"),
     ("answer + 32", "out-of-bounds", "at byte 32 of shared memory: a block has 40 bytes"),
     ("answer - 16", "out-of-bounds", "at byte -16 of"), ("answer + 16", "", "")],
)  # fmt: skip
def test_where_an_answer_may_lie(place, kind, says):
    report, _ = taking((2, 1, 1), 1, 1, ASKS.format("", place))
    found = [f for f in report.findings if "asks for an answer" in f.message]
    assert len(found) == bool(says), str(report)
    for f in found:
        assert (f.kind, f.line, f.count, f.threads) == (kind, 8, 1, ((0, 0, 0),))
        assert says in f.message


def test_asking_on_after_a_refusal():
    again = ASKS.format("", "answer").replace(" 8 1", " 9 1")
    report, _ = taking((3, 1, 1), 1, 1, ASKS.format("", "answer"), again)
    (found,) = [f for f in report.findings if f.line == 9 and "asks for another" in f.message]
    assert "although line 8 has been told" in found.message and found.threads == ((0, 0, 0),)
    assert found.block == (0, 0, 0) and found.count == 1


FIRST_OF_A_PAIR = cuda("tensor_memory/first_of_a_pair")


@pytest.mark.parametrize("mask", ["0xFEFFFFFF", "0xFFFFFFFF"])
def test_an_address_without_bit_24_means_the_first_block_of_a_pair(mask):
    out = np.zeros(1, np.int32)
    text = FIRST_OF_A_PAIR.replace("MASK", mask).replace("threadIdx.x < 0", "out == nullptr")
    report = emulator.launch(text, "k", 2, 32, [out], arch="sm_100a")
    assert bool(report.findings) == (mask == "0xFFFFFFFF")
