"""wgmma against matrix products in NumPy: types, layouts, descriptors, and what is under way."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from foreign_kernels import cuda

from nogpu import emulator
from nogpu.emulator.machine.events import Stage
from nogpu.emulator.machine.state import State
from nogpu.emulator.ptx import blocks, syntax
from nogpu.errors import EmulationError

RNG = np.random.default_rng(0)
SWIZZLES = (0, 32, 64, 128)
BITS = {0: 0, 128: 1, 64: 2, 32: 3}  # of a descriptor, that say so
BASE = 1024  # address of a block's first byte of shared memory: see test_shared_base

# Operands come as the bytes of a tile, built here in NumPy. Each launch copies them into shared
# memory, multiplies, and writes the sums by the PTX ISA's layout of D, written out once more.
HEAD = cuda("warpgroups/head")


def mma(name, n, words, letter, tail, *, count, a="desc"):
    """A function of one wgmma.mma_async. letter: of D's registers; tail: the last numbers."""
    regs = 4 if a == "regs" else 1
    kind = {"f": "float", "r": "unsigned"}[letter]
    places = [f"%{i}" for i in range(count)]
    left = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}" if a == "regs" else f"%{count}"
    after = count + regs
    given = ", ".join(f'"r"(a[{i}])' for i in range(4)) if a == "regs" else '"l"(a)'
    takes = "const unsigned (&a)[4]" if a == "regs" else "u64 a"
    return f"""
    __device__ void {name}({kind} (&d)[{count}], {takes}, u64 b, int add) {{
        asm volatile("{{.reg .pred p; setp.ne.b32 p, %{after + 1}, 0;\\n"
            "wgmma.mma_async.sync.aligned.m64n{n}{words} {{{", ".join(places)}}}, "
            "{left}, %{after}, p{tail};}}"
            : {", ".join(f'"+{letter}"(d[{i}])' for i in range(count))}
            : {given}, "l"(b), "r"(add));
    }}
    """


# -- tiles ---------------------------------------------------------------------------------------


def swizzled(address, swizzle):
    """Where what has this address in a plain tile lies in a swizzled one."""
    chunk, rows = {0: (0, 0), 32: (1, 1), 64: (2, 3), 128: (3, 7)}[swizzle]
    return address ^ (((address >> 7) & rows) << 4) if chunk else address


def k_major(matrix, swizzle, at):
    """The bytes of a matrix (rows, k) whose k are neighbours; its LBO and SBO.

    at: the address where the tile begins.
    """
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(len(matrix), 32)
    rows = len(matrix)
    lead, stride = (rows * 16, 128) if not swizzle else (16, 8 * swizzle)
    tile = np.zeros(rows * (swizzle or 32), np.uint8)
    for r, b in itertools.product(range(rows), range(32)):
        if swizzle:
            place = r // 8 * stride + r % 8 * swizzle + b
        else:
            place = b // 16 * lead + r // 8 * stride + r % 8 * 16 + b % 16
        tile[swizzled(at + place, swizzle) - at] = raw[r, b]
    return tile, lead, stride


def mn_major(matrix, swizzle, at):
    """The bytes of a matrix (rows, k) whose rows are neighbours; its LBO and SBO."""
    depth = matrix.shape[1]
    raw = np.ascontiguousarray(matrix.T).view(np.uint8).reshape(depth, -1)
    length = raw.shape[1]  # bytes of a row of m or n
    if swizzle:
        bands = -(-length // swizzle)
        stride, lead = 8 * swizzle, depth * swizzle
        tile = np.zeros(bands * lead, np.uint8)
    else:
        stride, lead = 128, length * 8
        tile = np.zeros(length * depth, np.uint8)
    for k, b in itertools.product(range(depth), range(length)):
        if swizzle:
            place = b // swizzle * lead + k // 8 * stride + k % 8 * swizzle + b % swizzle
        else:
            place = k // 8 * lead + b // 16 * stride + k % 8 * 16 + b % 16
        tile[swizzled(at + place, swizzle) - at] = raw[k, b]
    return tile, lead, stride


def descriptor(at, lead, stride, swizzle):
    """The 64 bits that describe a tile at an address."""
    return (at & 0x3FFFF) >> 4 | lead >> 4 << 16 | stride >> 4 << 32 | BITS[swizzle] << 62


def stored(values, kind):
    """Small integers as elements of a PTX type."""
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if kind in ("e4m3", "e5m2"):
        table = {v: i for i in range(255, -1, -1) if (v := fp8(i, kind)) is not None}
        return np.vectorize(table.__getitem__, otypes=[np.uint8])(values.astype(float))
    return values.astype({"f16": "f2", "tf32": "f4", "s8": "i1", "u8": "u1"}[kind])


def fp8(bits, kind):
    """The value of an 8-bit float; None for those that are none."""
    mantissa = {"e4m3": 3, "e5m2": 2}[kind]
    bias = {"e4m3": 7, "e5m2": 15}[kind]
    exponent, rest = bits >> mantissa & (1 << 7 - mantissa) - 1, bits & (1 << mantissa) - 1
    if (kind == "e4m3" and bits & 127 == 127) or (kind == "e5m2" and exponent == 31):
        return None
    if bits == 128:
        return None
    size = (1 + rest / 2**mantissa) * 2.0 ** (exponent - bias)
    size = size if exponent else rest / 2**mantissa * 2.0 ** (1 - bias)
    return -size if bits >> 7 else size


K = {"f16": 16, "bf16": 16, "tf32": 8, "s8": 32, "u8": 32, "e4m3": 32, "e5m2": 32}


def operand(rows, kind):
    """Small integers, (rows, k)."""
    low = 0 if kind == "u8" else -3
    return RNG.integers(low, 4, (rows, K[kind]))


KERNEL = cuda("warpgroups/product")
STORES = {
    "f32": "for (int i = 0; i < COUNT; ++i) D[row_of(i) * N + column_of(i)] = d[i];",
    "f16": (
        "for (int i = 0; i < COUNT; ++i)"
        " *reinterpret_cast<unsigned*>(D + row_of(2 * i) * N + column_of(2 * i)) = d[i];"
    ),
    "s32": "for (int i = 0; i < COUNT; ++i) D[row_of(i) * N + column_of(i)] = d[i];",
}
OUTPUT = {"f32": ("float", "float", "f", "f4"), "f16": ("unsigned short", "unsigned", "r", "f2"),
          "s32": ("int", "unsigned", "r", "i4")}  # fmt: skip


def multiplied(
    kinds, n, *, left=0, right=0, a_turn=0, b_turn=0, signs=(1, 1), add=1, start=1, change=None, extra=0, pad=0,
    words="", values=None, block=(128, 1, 1), kernel=KERNEL, head=HEAD,
    **options,
):  # fmt: skip
    """(report, D, A, B) of one wgmma. left, right: swizzles. change: of (a, b) descriptors.

    extra: bytes of shared memory behind the tiles. pad: bytes before that of B, which is swizzled
    without.
    """
    d_kind, a_kind, b_kind = kinds
    A, B = values or (operand(64, a_kind), operand(n, b_kind))
    make_a, make_b = (mn_major if t else k_major for t in (a_turn, b_turn))
    a_tile, a_lead, a_stride = make_a(stored(A, a_kind), left, BASE)
    room = -(-len(a_tile) // 1024) * 1024
    b_tile, b_lead, b_stride = make_b(stored(B, b_kind), right, BASE + room)
    b_tile = np.concatenate([np.zeros(pad, "u1"), b_tile])
    a = descriptor(BASE, a_lead, a_stride, left)
    b = descriptor(BASE + room + pad, b_lead, b_stride, right)
    if change:
        a, b = change(a, b)
    out, reg, letter, numpy = OUTPUT[d_kind]
    count = n // 4 if d_kind == "f16" else n // 2
    tail = ", ".join(map(str, signs)) if d_kind != "s32" else ""
    if a_kind in ("f16", "bf16"):
        tail += f", {a_turn}, {b_turn}"
    full = f"k{K[a_kind]}{words}.{d_kind}.{a_kind}.{b_kind}"
    source = head + mma("multiply", n, full, letter, f", {tail}" if tail else "", count=count)
    kernel = kernel.replace("STORE", STORES[d_kind])
    first = {"f32": f"{start}", "s32": f"{start}", "f16": "0x3c003c00u" if start else "0"}[d_kind]
    for name, value in {
        "A_WORDS": len(a_tile) // 4, "B_WORDS": len(b_tile) // 4, "A_ROOM": room, "OUT": out, "REG": reg,
        "COUNT": count, "START": first, "N": n,
    }.items():  # fmt: skip
        kernel = kernel.replace(name, str(value))
    D = np.zeros((64, n), numpy)
    report = emulator.launch(
        source + kernel, "k", 1, block,
        [a_tile.view("u4"), b_tile.view("u4"), np.uint64(a), np.uint64(b), add,
         D.view("u2") if d_kind == "f16" else D],
        arch="sm_90a", shared_bytes=room + len(b_tile) + extra, **options,
    )  # fmt: skip
    return report, D, A, B


TYPES = [
    ("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"),
    *((d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
]  # fmt: skip


@pytest.mark.parametrize("kinds", TYPES, ids="-".join)
def test_each_type(kinds):
    report, D, A, B = multiplied(kinds, 32, right=32)
    assert report.ok, report
    np.testing.assert_array_equal(D, A @ B.T + 1)
    assert not np.array_equal(D, A @ B.T)


TILES = [
    # types, n, whether A and B are turned, bytes before an unswizzled B
    *(("f16", n, (0, 0), 0) for n in (8, 16, 64, 200, 256)),
    *((t, n, turns, 0) for t in ("f16", "bf16") for n in (64, 256) for turns in ((1, 0), (0, 1), (1, 1))),
    ("f16", 16, (0, 0), 16), ("f16", 16, (0, 0), 48),
]  # fmt: skip


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize(("kind", "n", "turns", "pad"), TILES)
def test_tiles_of_each_swizzle(kind, n, turns, pad, swizzle):
    """A swizzle of S bytes with a row of S bytes, of which the product takes the first 32; without
    one a tile begins at any 16 bytes.
    """
    report, D, A, B = multiplied(
        ("f32", kind, kind), n, left=swizzle, right=0 if pad else swizzle, a_turn=turns[0],
        b_turn=turns[1], pad=pad,
    )  # fmt: skip
    assert report.ok, report
    np.testing.assert_array_equal(D, A @ B.T + 1)


def test_a_tile_taken_with_another_swizzle_is_wrong():
    """The wrong twin of the tests above: the bits of the descriptor matter, each of them."""
    for given, meant in itertools.permutations(SWIZZLES, 2):
        flip = (BITS[given] ^ BITS[meant]) << 62
        _, D, A, B = multiplied(
            ("f32", "f16", "f16"), 64, right=meant, change=lambda a, b, f=flip: (a, b ^ f),
            extra=16384,
        )  # fmt: skip
        assert not np.array_equal(D, A @ B.T + 1), (given, meant)


def test_each_stride_counts():
    for turn, swizzle, field in itertools.product((0, 1), SWIZZLES, (16, 32)):
        if field == 16 and swizzle and not turn:
            continue  # a swizzled row of k has no leading byte offset
        _, D, A, B = multiplied(
            ("f32", "f16", "f16"), 128, right=swizzle, b_turn=turn, extra=16384,
            change=lambda a, b, f=field: (a, b + (16 << f)),
        )  # fmt: skip
        assert not np.array_equal(D, A @ B.T + 1), (turn, swizzle, field)


# -- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kinds", [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("s32", "s8", "u8")]
)
def test_without_scale_d_the_sums_begin_at_zero(kinds):
    for add in (0, 1):
        report, D, A, B = multiplied(kinds, 16, right=32, add=add, start=1)
        assert report.ok, report
        assert np.array_equal(D, A @ B.T) == (not add)


def test_scales_of_minus_one():
    for signs in itertools.product((1, -1), repeat=2):
        report, D, A, B = multiplied(("f32", "tf32", "tf32"), 16, right=32, signs=signs)
        assert report.ok, report
        np.testing.assert_array_equal(D, signs[0] * signs[1] * (A @ B.T) + 1)


@pytest.mark.parametrize("words", ["", ".satfinite"])
def test_integers_wrap_or_saturate(words):
    A, B = np.full((64, 32), 127), np.full((16, 32), 127)
    report, D, _, _ = multiplied(
        ("s32", "s8", "s8"), 16, right=32, words=words, values=(A, B), start=2**31 - 10
    )
    assert report.ok, report
    total = 2**31 - 10 + 32 * 127 * 127
    assert (D == (2**31 - 1 if words else total - 2**32)).all()


# -- several warpgroups, several blocks ----------------------------------------------------------

SEVERAL = cuda("warpgroups/several")


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize(("threads", "part"), [(256, 2), (384, 2), (256, 1)])
@pytest.mark.parametrize(
    "spread", ["", 'if (threadIdx.x % 64 < 32) asm volatile("bar.sync 1, SOME;");']
)
def test_warpgroups_and_blocks(schedule, threads, part, spread):
    """Warps of a warpgroup that come at different times are waited for."""
    A, B = RNG.integers(-3, 4, (3, 2, 64, 16)), RNG.integers(-3, 4, (16, 16))
    halves = [[k_major(t.astype("f2"), 0, 0) for t in block] for block in A]
    a_tiles = np.concatenate([t[0] for block in halves for t in block])
    b_tile, b_lead, b_stride = k_major(B.astype("f2"), 0, 0)
    _, lead, stride = halves[0][0]
    D = np.zeros((3, 2, 64, 16), "f4")
    source = SEVERAL.replace("SPREAD", spread).replace("SOME", str(64 * part))
    source = source.replace("PART", str(part))
    report = emulator.launch(
        HEAD + mma("multiply", 16, "k16.f32.f16.f16", "f", ", 1, 1, 0, 0", count=8) + source,
        "k", 3, threads,
        [a_tiles.view("u4"), b_tile.view("u4"), np.uint64(descriptor(BASE, lead, stride, 0)),
         np.uint64(descriptor(BASE + 4096, b_lead, b_stride, 0)), D],
        arch="sm_90a", shared_bytes=4608, schedule=schedule,
    )  # fmt: skip
    assert report.ok, report
    want = A @ B.T + np.arange(2)[:, None, None]
    want[:, part:] = 0
    np.testing.assert_array_equal(D, want)


@pytest.mark.parametrize("analyse", [True, False])
@pytest.mark.parametrize("block", [(32, 4, 1), (64, 1, 2), (16, 4, 2)])
def test_blocks_of_other_shapes(block, analyse):
    """Warps are counted along x, then y, then z; whether somebody watches or not."""
    x, y, _ = block
    thread = f"(threadIdx.x + {x} * (threadIdx.y + {y} * threadIdx.z))"
    head = HEAD.replace("threadIdx.x", thread).replace("blockDim.x", "128")
    given = {"right": 32, "block": block, "head": head, "analyse": analyse}
    report, D, A, B = multiplied(("f32", "f16", "f16"), 24, **given)
    assert report.ok, report
    np.testing.assert_array_equal(D, A @ B.T + 1)


GUARDED = cuda("warpgroups/guarded")


@pytest.mark.parametrize("groups", [0, 1, 2])
def test_a_product_under_a_guard(groups):
    """The predicate that otherwise is scale-d says who multiplies."""
    A, B = RNG.integers(-3, 4, (64, 16)), RNG.integers(-3, 4, (16, 16))
    (a_tile, lead, stride), (b_tile, b_lead, b_stride) = (
        k_major(t.astype("f2"), 0, 0) for t in (A, B)
    )
    D = np.zeros((2, 64, 16), "f4")
    made = mma("multiply", 16, "k16.f32.f16.f16", "f", ", 1, 1, 0, 0", count=8)
    made = made.replace('"wgmma.mma', '"@p wgmma.mma').replace(
        ".reg .pred p;", ".reg .pred p, q; setp.eq.b32 q, 0, 0;"
    )
    report = emulator.launch(
        HEAD + made.replace(", p, 1", ", q, 1") + GUARDED, "k", 1, 256,
        [a_tile.view("u4"), b_tile.view("u4"), np.uint64(descriptor(BASE, lead, stride, 0)),
         np.uint64(descriptor(BASE + 2048, b_lead, b_stride, 0)), groups, D],
        arch="sm_90a", shared_bytes=2560,
    )  # fmt: skip
    assert report.ok, report
    active = (np.arange(2) < groups)[:, None, None]
    np.testing.assert_array_equal(D, np.arange(2)[:, None, None] + active * (A @ B.T))


# -- what is under way ---------------------------------------------------------------------------

UNDER_WAY = """
extern "C" __global__ void k(const unsigned* A, const unsigned* B, u64 a, u64 b, int add, float* D)
{
    extern __shared__ __align__(1024) unsigned tiles[];
    fill(tiles, A, A_WORDS);
    fill(tiles + A_ROOM / 4, B, B_WORDS);
    settled();
    float d[COUNT] = {}, e[COUNT] = {};
    float x = add;
    BODY
    for (int i = 0; i < COUNT; ++i) D[row_of(i) * N + column_of(i)] = d[i];
}
"""
FIRST, SECOND = "multiply(d, a, b, 1);", "multiply(e, a, b, 1);"
SCALE = "for (int i = 0; i < COUNT; ++i) d[i] *= x;"


def under_way(body, **options):
    """(report, D, A B) of a kernel with two arrays of sums, d and e, of which it gives back d."""
    kernel = UNDER_WAY.replace("BODY", body)
    report, D, A, B = multiplied(("f32", "f16", "f16"), 16, right=32, kernel=kernel, **options)
    return report, D, A @ B.T


UNDER_WAY_OR_NOT = {
    # a body, and what is told
    "two groups, the first awaited": (
        f"fence(); {FIRST} commit(); {SECOND} commit(); wait<1>(); {SCALE} wait<0>();", "",
    ),
    "sums of one shape follow each other": (
        f"fence(); {FIRST} {FIRST} commit(); wait<0>(); {SCALE.replace('x', 'x / 2')}", "",
    ),
    "a loop": (
        f"for (int i = 0; i < 2; ++i) {{ fence(); {FIRST} commit(); wait<1>(); }} wait<0>();"
        f"{SCALE.replace('x', 'x / 2')}", "",
    ),
    "sums changed between two, with a fence": (
        f"fence(); {FIRST} commit(); wait<0>(); {SCALE} fence(); {FIRST} commit(); wait<0>();", "",
    ),
    "what the product does not touch": (
        f"fence(); {FIRST} commit(); for (int i = 0; i < COUNT; ++i) e[i] = x + i; wait<0>();"
        "for (float y : e) d[0] += 0.f * y;", "",
    ),
    "read before the wait": (
        f"fence(); {FIRST} commit(); {SCALE} wait<0>();", "reads a sum while the product of line",
    ),
    "only the other group awaited": (
        f"fence(); {SECOND} commit(); {FIRST} commit(); wait<1>(); {SCALE} wait<0>();",
        "reads a sum while the product of line",
    ),
    "awaited before the commit": (
        f"fence(); {FIRST} wait<0>(); {SCALE} commit(); wait<0>();", "reads a sum while the product of line",
    ),
    "no fence at all": (f"{FIRST} commit(); wait<0>();", "no wgmma.fence stands between"),
    "sums changed, and no fence": (
        f"fence(); {FIRST} commit(); wait<0>(); {SCALE} {FIRST} commit(); wait<0>();",
        "no wgmma.fence stands between",
    ),
    "never awaited": (f"fence(); {FIRST} commit();", "reads a sum while"),
    "the other never awaited": (f"fence(); {FIRST} commit(); {SECOND} commit(); wait<1>();", "wait_group covers"),
    "the other in no group": (f"fence(); {FIRST} commit(); {SECOND} wait<0>();", "is in no group"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDER_WAY_OR_NOT)
def test_products_under_way(name):
    body, says = UNDER_WAY_OR_NOT[name]
    report, D, product = under_way(body)
    assert report.ok != bool(says), report
    if not says:
        np.testing.assert_array_equal(D, product * (2 if "with a fence" in name else 1))
        return
    race = next(f for f in report.findings if f.kind == "race" and says in f.message)
    assert race.threads[0] == (0, 0, 0)  # eight registers of 128 threads, or their product
    assert race.count == (8 * 128 if "reads" in says else 128), race
    assert "multiply" in race.called_from or '"l"(a), "l"(b)' in race.text + race.other_text
    assert all("fence" not in f.message for f in report.findings) or "fence" in name


# No mbarrier anywhere: fences, waits and barriers of the block order threads and products.
REFILLED = f"fence(); {FIRST} commit(); wait<0>(); __syncthreads(); fill(tiles, A, A_WORDS);"


@pytest.mark.parametrize(
    ("left_out", "says"),
    [("", ""), ('asm volatile("fence.proxy.async.shared::cta;" ::: "memory");', "two ways to"),
     ("wait<0>(); __syncthreads();", "may still read it")],
    ids=["nothing", "stores are not shown", "a tile is refilled while it is read"],
)  # fmt: skip
def test_what_products_read_in_a_kernel_without_mbarriers(left_out, says):
    assert not says or (HEAD + REFILLED).count(left_out) == 1
    body = REFILLED.replace(left_out, "") + "wait<0>();"
    report, D, product = under_way(body, head=HEAD.replace(left_out, ""))
    if says:
        assert any(f.kind == "race" and says in f.message for f in report.findings), report
    else:
        assert report.ok, report
        np.testing.assert_array_equal(D, product)


RELOADED = cuda("warpgroups/reloaded")


def test_a_in_registers_is_not_written_while_it_is_read():
    A, B = RNG.integers(-3, 4, (3, 64, 16)), RNG.integers(-3, 4, (16, 16))
    tile, lead, stride = k_major(B.astype("f2"), 0, 0)
    head = HEAD + mma("multiply", 16, "k16.f32.f16.f16", "f", ", 1, 1, 0", count=8, a="regs")
    for inside in ("wait<0>();", ""):
        D = np.zeros((64, 16), "f4")
        described = np.uint64(descriptor(BASE, lead, stride, 0))
        given = [A.astype("f2").view("u4"), tile.view("u4"), described, D, 3]
        source = head + RELOADED.replace("INSIDE", inside)
        report = emulator.launch(source, "k", 1, 128, given, arch="sm_90a", shared_bytes=512)
        if inside:
            assert report.ok, report
            np.testing.assert_array_equal(D, A.sum(axis=0) @ B.T)
        else:
            assert {f.kind for f in report.findings} == {"race"}, report
            assert "writes a register of matrix A while the product of line" in str(report)


def test_sums_of_another_shape_need_a_wait():
    other = mma("half_of_it", 8, "k16.f32.f16.f16", "f", ", 1, 1, 0, 0", count=4)
    for between in ("wait<0>(); fence();", ""):
        body = f"fence(); {FIRST} commit(); {between} float (&h)[4] = *reinterpret_cast<float (*)[4]>(d);" \
               "half_of_it(h, a, b, 1); commit(); wait<0>();"  # fmt: skip
        report, D, product = under_way(body, head=HEAD + other)
        if between:
            assert report.ok, report
            np.testing.assert_array_equal(D, product * np.where(np.arange(16) < 8, 2, 1))
        else:
            assert any("a product of another shape" in f.message for f in report.findings), report


# -- what does not fit ---------------------------------------------------------------------------


STORED_BY_THE_FIRST = "if (threadIdx.x < 128)"  # warpgroup: a body's end, before D is stored


@pytest.mark.parametrize(
    ("threads", "come", "says"), [(128, 128, ""), (128, 96, "0 to 3"), (256, 224, "4 to 7")]
)
def test_a_block_without_whole_warpgroups(threads, come, says):
    body = f"if (threadIdx.x >= {come}) return; fence(); {FIRST} commit(); wait<0>();"
    report, _, _ = under_way(body + STORED_BY_THE_FIRST, block=(threads, 1, 1))
    assert {f.kind for f in report.findings} == ({"divergent-barrier"} if says else set()), report
    message = f"96 of 128 threads of warps {says} of block (0, 0, 0) come to wgmma.fence"
    assert (message in str(report)) == bool(says) and all(f.count == 1 for f in report.findings)


@pytest.mark.parametrize("waits", ["", "if (threadIdx.x < 128) wait<0>(); __syncthreads();"])
def test_the_warpgroup_that_reads_too_early_is_named(waits):
    """Whether the other has waited or not."""
    body = f"fence(); {FIRST} commit(); {waits} if (threadIdx.x >= 128) D[threadIdx.x] = d[3]; wait<0>();"
    report, _, _ = under_way(body + STORED_BY_THE_FIRST, block=(256, 1, 1))
    (finding,) = (f for f in report.findings if "reads a sum while the product" in f.message)
    assert finding.threads[0] == (128, 0, 0) and finding.count == 128, finding


def test_warps_that_go_different_ways():
    one = f"fence(); {FIRST} commit(); wait<0>();"
    body = f"if (threadIdx.x < 64) {{ {one} }} else {{ {one} d[0] += 0.f; }}"
    report, _, _ = under_way(body)
    assert {f.kind for f in report.findings} == {"divergent-barrier"}
    assert "64 of 128 threads" in str(report)
    report, D, product = under_way(
        f"if (threadIdx.x < 512) {{ {one} }} else {{ {one} d[0] += 0.f; }}"
    )
    assert report.ok, report
    np.testing.assert_array_equal(D, product)


def test_descriptors_that_differ_within_a_warpgroup():
    body = "fence(); multiply(d, a, b + (threadIdx.x / WARPS ? 8 : 0), 1); commit(); wait<0>();"
    report, _, _ = under_way(body.replace("WARPS", "64"), extra=512)
    (finding,) = report.findings
    assert finding.kind == "divergent-barrier" and "(64, 0, 0)" in finding.message, finding
    assert "all 128 threads must give one descriptor" in finding.message
    assert finding.count == 64
    lone = body.replace("threadIdx.x / WARPS", "threadIdx.x == 70")
    (finding,) = under_way(lone, extra=512)[0].findings
    assert finding.count == 1 and finding.threads == ((70, 0, 0),), finding
    report, D, product = under_way(body.replace("WARPS", "128"), extra=512)
    assert report.ok, report
    np.testing.assert_array_equal(D, product)


@pytest.mark.parametrize(
    ("kind", "says", "change"),
    [
        ("out-of-bounds", "matrix B that lies in bytes 2048 to 2815 of shared memory, 256 byte(s) past its end: the block "
         "has 2560 bytes. Its descriptor says a leading byte offset of 16 and a stride byte offset of 512.",
         lambda a, b: (a, b + (16 << 32))),
        ("out-of-bounds", "matrix A that lies in bytes 0 to 10239 of shared memory, 7680 byte(s) past its end",
         lambda a, b: (a + (512 << 16), b)),
        ("out-of-bounds", "bytes -1024 to -513 of shared memory, 1024 byte(s) before its start", lambda a, b: (a, b & ~0x3FFF)),
        ("misaligned", "repeats every 256 bytes", lambda a, b: (a, b + 8)),
        *(("out-of-bounds", "14 bits each", lambda a, b, at=at: (a, b | 1 << at)) for at in (14, 15, 30, 31, 46, 48, 52, 61)),
        ("out-of-bounds", "describes matrix A by 0x", lambda a, b: (a | 1 << 14, b)),
    ],
)  # fmt: skip
def test_a_descriptor_that_does_not_fit(kind, says, change):
    extra = 2048 if kind == "misaligned" else 0
    report, _, _, _ = multiplied(("f32", "f16", "f16"), 16, right=32, change=change, extra=extra)
    found = [f for f in report.findings if f.kind == kind and says in f.message]
    assert found, report
    assert '"l"(a), "l"(b)' in found[0].text and found[0].count == 128, found[0]
    report, _, _, _ = multiplied(("f32", "f16", "f16"), 16, right=32, extra=extra)
    assert report.ok, report


@pytest.mark.parametrize("swizzle", SWIZZLES[1:])
def test_a_base_offset_says_where_a_pattern_begins(swizzle):
    """A tile from the second 128 bytes of a pattern on, swizzled as if the pattern began there."""
    for offset in (1, 0):
        report, D, A, B = multiplied(
            ("f32", "f16", "f16"), 16, right=swizzle, pad=128,
            change=lambda a, b, o=offset: (a, b | o << 49),
        )  # fmt: skip
        assert {f.kind for f in report.findings} == (set() if offset else {"misaligned"})
        for f in report.findings:
            assert f"with a swizzle of {swizzle} bytes from address" in f.message
            assert f"Begin at a multiple of {8 * swizzle} bytes" in f.message and f.count == 128
        assert np.array_equal(D, A @ B.T + 1) == bool(offset)
    if swizzle > 32:  # two rows of 128 bytes further on
        change = {"pad": 128, "change": lambda a, b: (a, b | 3 << 49)}
        report, *_ = multiplied(("f32", "f16", "f16"), 16, right=swizzle, **change)
        assert [f.kind for f in report.findings] == ["misaligned"]
        assert "with a base offset of 3, in a row" in report.findings[0].message


@pytest.mark.parametrize(
    ("words", "tail", "count", "says"),
    [
        ("k16.f32.f16.bf16", ", 1, 1, 0, 0", 8, "does not multiply f16 by bf16"),
        ("k16.f16.bf16.bf16", ", 1, 1, 0, 0", 4, "are f32, not f16"),
        ("k32.f32.f16.f16", ", 1, 1, 0, 0", 8, "is k16 long, not k32"),
        ("k16.f32.f16.f16", ", 1, 1", 8, "4 numbers are expected"),
        ("k16.f32.f16.f16", ", 2, 1, 0, 0", 8, "are 1 or -1"),
        ("k8.f32.tf32.tf32", ", 1, 1, 0, 0", 8, "2 numbers are expected"),
        ("k16.f32.f16.f16", ", 1, 1, 0, 0", 6, "has 8 registers"),
        ("sp k32.f32.f16.f16", ", 0, 1, 1, 0, 0", 8, r"sparse matrices are not emulated.*without \.sp"),
    ],
)  # fmt: skip
def test_forms_that_ptx_has_not(words, tail, count, says):
    """NVRTC refuses them, too; clang does not."""
    registers = ", ".join(f"%r{i}" if ".f16." in words[:8] else f"%f{i}" for i in range(count))
    sparse, _, words = words.rpartition(" ")
    text = f""".version 8.0
    .target sm_90a
    .address_size 64
    .visible .entry k() {{
    .reg .f32 %f<9>; .reg .b32 %r<9>; .reg .b64 %rd<2>; .reg .pred %p<2>;
    wgmma.mma_async{"." * bool(sparse)}{sparse}.sync.aligned.m64n16{words} {{{registers}}}, %rd1, %rd1, %p1{tail};
    ret;
    }}
    """
    with pytest.raises(EmulationError, match=says):
        blocks.translate(syntax.parse(text), "k")


# -- what those who watch are told ---------------------------------------------------------------


def test_the_pieces_that_a_product_reads_are_told(monkeypatch):
    """At issue, and again when the group has been awaited: by warp, 16 bytes each, each once."""
    bulks = []
    monkeypatch.setattr(State, "publish_bulk", lambda self, bulk: bulks.append(bulk))
    body = f"fence(); {FIRST} commit(); {SECOND} commit(); wait<1>(); wait<0>();"
    report, _, _ = under_way(body)
    assert report.ok, report
    stages = [(b.stage, b.offset.shape, sorted(b.thread.tolist())) for b in bulks]
    assert stages == [
        (stage, (4, pieces), [0, 32, 64, 96])
        for stage in (Stage.BEGUN, Stage.WAITED)
        for pieces in (128, 32) * 2
    ]
    for bulk, first, size in ((bulks[0], 0, 2048), (bulks[1], 2048, 512)):
        assert (bulk.offset == np.arange(first, first + size, 16)).all()
        assert bulk.there is None and not bulk.writes and bulk.by == "product" and bulk.width == 16
        assert (bulk.column == 0).all() and (bulk.owner == 0).all()
    bulks.clear()
    under_way(body, change=lambda a, b: (a, b & ~(0x3FFF << 32)))  # rows 8 to 15 are 0 to 7
    assert bulks[0].there is None and bulks[1].there.sum(axis=1).tolist() == [16] * 4
    read = bulks[1].offset[0][bulks[1].there[0]]
    assert (read == np.arange(2048, 2048 + 256, 16)).all()
