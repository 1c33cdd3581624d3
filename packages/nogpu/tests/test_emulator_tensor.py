"""ldmatrix, mma.sync and wmma against matrix products in NumPy."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from foreign_kernels import cuda
from test_emulator_warpgroups import stored

from nogpu import emulator
from nogpu.errors import EmulationError

RNG = np.random.default_rng(0)


def integers(shape, dtype=np.float16, low=-4, high=5):
    """Small integers: exact in every format, in any order of summation."""
    return RNG.integers(low, high, shape).astype(dtype)


# -- mma.sync ------------------------------------------------------------------------------------

GROUP, MEMBER = np.divmod(np.arange(32)[:, None], 4)
TYPES = {"f16": np.float16, "f32": np.float32, "s32": np.int32, "f64": np.float64}


def by_registers(instruction, a, b, c, out):
    """D of one instruction of a warp: (32, `out`) registers. a, b, c: by lane, (32, elements).

    Registers are as wide as those of C: 64 bits of float64, else 32.
    """
    word = np.dtype(f"u{8 if c.dtype == np.float64 else 4}")
    given = [np.ascontiguousarray(x).view(word).reshape(32, -1) for x in (a, b, c)]
    counts = [out, *(x.shape[1] for x in given)]
    names = [[f"{letter}{i}" for i in range(n)] for letter, n in zip("dabc", counts, strict=True)]
    kind, step = f"b{8 * word.itemsize}", 32 * word.itemsize
    moves = [
        f"ld.global.{kind} {name}, [to + {step * i}];"
        for i, name in enumerate(itertools.chain(*names[1:]))
    ]
    moves.append(f"{instruction} " + ", ".join("{" + ", ".join(n) + "}" for n in names) + ";")
    moves += [f"st.global.{kind} [to + {step * i}], {name};" for i, name in enumerate(names[0])]
    text = f""".version 8.6
    .target sm_90
    .address_size 64
    .visible .entry k(.param .u64 words) {{
    .reg .b32 t; .reg .{kind} {", ".join(itertools.chain(*names))}; .reg .b64 to, far;
    mov.u32 t, %tid.x; ld.param.u64 to, [words];
    mul.wide.u32 far, t, {word.itemsize}; add.s64 to, to, far;
    {" ".join(moves)}
    ret; }}"""
    words = np.ascontiguousarray(np.concatenate(given, axis=1).T)
    report = emulator.launch(text, "k", 1, 32, [words], arch="sm_90")
    assert report.ok, report
    return np.ascontiguousarray(words[:out].T)


def fragment(matrix, kind):
    """What each lane holds of A, or of B by its columns: PTX ISA, matrix fragments for mma."""
    elements = matrix.astype(np.float64) if kind == "f64" else stored(matrix, kind)
    unit, halves = max(4 // elements.itemsize, 1), len(matrix) // 8
    i = np.arange(matrix.size // 32)
    chunk, half = np.divmod(i // unit, halves)
    return elements[GROUP + 8 * half, unit * MEMBER + i % unit + 4 * unit * chunk]


PRODUCTS = [
    *(("m16n8k8", d, t, t) for d, t in (("f32", "f16"), ("f32", "bf16"), ("f32", "tf32"), ("f16", "f16"))),
    *(("m16n8k16", "f32", t, t) for t in ("f16", "bf16")),
    *(("m16n8k32", d, *t) for d in ("f32", "f16") for t in (("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e5m2", "e5m2"))),
    ("m16n8k4", "f32", "tf32", "tf32"), ("m8n8k16", "s32", "s8", "s8"), ("m16n8k16", "s32", "s8", "s8"),
    ("m16n8k32", "s32", "u8", "u8"), ("m8n8k4", "f64", "f64", "f64"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "d", "a", "b"), PRODUCTS)
def test_mma(shape, d, a, b):
    m, n, k = map(int, re.findall(r"\d+", shape))
    low = 0 if a == "u8" else -3
    A, B, C = integers((m, k), int, low, 4), integers((k, n), int, low, 4), integers((m, n), int)
    i = np.arange(m * n // 32)
    places = GROUP + 8 * (i // 2), 2 * MEMBER + i % 2
    out = by_registers(
        f"mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{d}", fragment(A, a), fragment(B.T, b),
        C[places].astype(TYPES[d]), len(i) // (2 if d == "f16" else 1),
    )  # fmt: skip
    np.testing.assert_array_equal(out.view(TYPES[d]), (A @ B + C)[places])


@pytest.mark.parametrize(("d", "c"), [("f32", "f32"), ("f16", "f16"), ("f32", "f16")])
@pytest.mark.parametrize("left", ["row", "col"])
@pytest.mark.parametrize("right", ["row", "col"])
def test_mma_of_volta_makes_four_products(left, right, d, c):
    """m8n8k4: lanes 4q..4q+3 and 16+4q..16+4q+3 form product q."""
    A, B, C = integers((4, 8, 4)), integers((4, 4, 8)), integers((4, 8, 8))
    lane, four, eight = np.arange(32)[:, None], np.arange(4), np.arange(8)
    q, high = lane // 4 % 4, lane // 16
    own = lane % 4 + 4 * high
    a = A[q, own, four] if left == "row" else A[q, four + 4 * high, lane % 4]
    b = B[q, four, own] if right == "col" else B[q, lane % 4, four + 4 * high]
    places = {
        "f16": (q, own, eight),
        "f32": (q, lane % 2 + eight // 2 % 2 * 2 + 4 * high, eight // 4 * 4 + lane // 2 % 2 * 2 + eight % 2),
    }  # fmt: skip
    form = f"mma.sync.aligned.m8n8k4.{left}.{right}.{d}.f16.f16.{c}"
    out = by_registers(form, a, b, C[places[c]].astype(TYPES[c]), 4 if d == "f16" else 8)
    np.testing.assert_array_equal(
        out.view(TYPES[d]), (A.astype(int) @ B.astype(int) + C)[places[d]]
    )


def test_a_sum_of_another_type_than_the_old_one():
    """C and D of wmma lie alike, two float16 or one float32 a register."""
    zeros, C = np.zeros((32, 8), np.uint32), integers((32, 8))
    form = "wmma.mma.sync.aligned.row.col.m16n16k16"
    wide = by_registers(f"{form}.f32.f16", zeros, zeros, C, 8).view(np.float32)
    np.testing.assert_array_equal(wide, C)
    back = by_registers(f"{form}.f16.f32", zeros, zeros, wide, 4).view(np.float16)
    np.testing.assert_array_equal(back, C)


@pytest.mark.parametrize("words", ["", ".satfinite"])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_of_mma_wrap_or_saturate(words, sign):
    """16 products of 127 and 127 (or -127): past the end of int32 either way."""
    a, b = np.full((32, 4), 127, np.int8), np.full((32, 4), 127 * sign, np.int8)
    c = np.full((32, 2), sign * (2**31 - 5), np.int32)
    form = f"mma.sync.aligned.m8n8k16.row.col{words}.s32.s8.s8.s32"
    out = by_registers(form, a, b, c, 2).view(np.int32)
    total = sign * (2**31 - 5 + 16 * 127**2)
    end = 2**31 - 1 if sign > 0 else -(2**31)
    assert (out == (end if words else total - sign * 2**32)).all()


# -- ldmatrix ------------------------------------------------------------------------------------

LDMATRIX = """
extern "C" __global__ void k(const unsigned short* in, unsigned* out)
{
    __shared__ __align__(16) unsigned short s[64 * LD];
    for (int i = threadIdx.x; i < 64 * LD; i += 32) s[i] = in[i];
    __syncthreads();
    unsigned r[4] = {0, 0, 0, 0};
    const unsigned at = __cvta_generic_to_shared(&s[threadIdx.x % ROWS * LD]);
    ASM
    for (int i = 0; i < COUNT; ++i) out[i * 32 + threadIdx.x] = r[i];
}
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize(("ld", "waves"), [(8, 1), (64, 8), (72, 1)])
def test_ldmatrix(count, trans, ld, waves):
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    places = ", ".join(f"%{i}" for i in range(count))
    asm = (
        f'asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{".trans" if trans else ""}.shared.b16 '
        f'{{{places}}}, [%{count}];" : {outputs} : "r"(at));'
    )
    source = LDMATRIX.replace("ASM", asm).replace("COUNT", str(count))
    x = RNG.integers(0, 2**16, (64, ld)).astype(np.uint16)
    out = np.zeros((count, 32), np.uint32)
    report = emulator.launch(
        source, "k", 1, 32, [x, out], defines={"LD": ld, "ROWS": 8 * count}, arch="sm_75"
    )
    assert report.ok, report
    for i in range(count):
        tile = x[8 * i : 8 * i + 8, :8]
        tile = tile.T if trans else tile
        want = np.ascontiguousarray(tile).view(np.uint32).reshape(-1)
        np.testing.assert_array_equal(out[i], want)
    load = next(a for a in report.by_line() if a.line == 9 and a.space == "shared")
    assert (load.requests, load.wavefronts) == (1, waves * count)


ONE = 'asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(at + SHIFT));'


@pytest.mark.parametrize(
    ("shift", "barrier", "kinds"),
    [(0, True, set()), (2, True, {"misaligned"}), (1024 - 32, True, {"out-of-bounds"}), (0, False, {"race"})],
)  # fmt: skip
def test_ldmatrix_rows_must_be_aligned_inside_and_there(shift, barrier, kinds):
    source = LDMATRIX.replace("ASM", ONE).replace("COUNT", "1")
    source = source if barrier else source.replace("__syncthreads();", "")
    x, out = np.zeros((64, 8), np.uint16), np.zeros(32, np.uint32)
    defines = {"LD": 8, "ROWS": 8, "SHIFT": shift}
    report = emulator.launch(source, "k", 1, 32, [x, out], defines=defines)
    assert {f.kind for f in report.findings} == kinds, report


# -- wmma ----------------------------------------------------------------------------------------

WMMA = cuda("tensor/wmma")

PTX = {
    "__half": "f16", "__nv_bfloat16": "bf16", "float": "tf32", "signed char": "s8",
    "unsigned char": "u8",
}  # fmt: skip
SHAPES = (16, 16, 16), (32, 8, 16), (8, 32, 16)
CASES = [
    *((shape, kind, "float") for shape in SHAPES for kind in ("__half", "__nv_bfloat16")),
    ((16, 16, 16), "__half", "__half"), ((16, 16, 16), "signed char", "int"),
    ((32, 8, 16), "signed char", "int"), ((8, 32, 16), "unsigned char", "int"),
    ((16, 16, 8), "float", "float"),
]  # fmt: skip
LAYOUTS = [
    ("row", "row", "row"), ("row", "col", "col"), ("col", "row", "row"), ("col", "col", "col"),
]  # fmt: skip


def legal(case, layouts):
    """CUDA asks for rows of a multiple of 16 bytes: 8 bytes of an 8-bit matrix are too few."""
    (m, n, k), kind, _ = case
    strides = (k if layouts[0] == "row" else m, n if layouts[1] == "row" else k)
    return "char" not in kind or min(strides) >= 16


@pytest.mark.parametrize(
    ("case", "layouts"), [(c, order) for c in CASES for order in LAYOUTS if legal(c, order)]
)
@pytest.mark.parametrize("shared", [0, 1])
def test_wmma(case, layouts, shared):
    shape, kind, out = case
    la, lb, lc = layouts
    m, n, k = shape
    low = 0 if kind == "unsigned char" else -4
    A, B = integers((m, k), np.int32, low), integers((k, n), np.int32, low)
    put_a, put_b = (
        np.ascontiguousarray(stored(x if way == "row" else x.T, PTX[kind]))
        for x, way in ((A, la), (B, lb))
    )
    C = np.zeros(
        (m, n) if lc == "row" else (n, m), {"float": "f4", "__half": "f2", "int": "i4"}[out]
    )
    defines = {
        "M": m, "N": n, "K": k, "IN": kind, "OUT": out, "SHARED": shared,
        "FRAG": "wmma::precision::tf32" if kind == "float" else kind,
        "LAYOUT_A": f"{la}_major", "LAYOUT_B": f"{lb}_major", "LAYOUT_C": f"mem_{lc}_major",
    }  # fmt: skip
    strides = [put_a.shape[1], put_b.shape[1], C.shape[1]]
    report = emulator.launch(
        WMMA, "k", 1, 32, [put_a, put_b, C, *strides], arch="sm_80",
        shared_bytes=8192, defines=defines, uninitialised=("C",),
    )  # fmt: skip
    assert report.ok, report
    np.testing.assert_array_equal(C if lc == "row" else C.T, 2 * (A @ B + 1))


PLAIN = {
    "M": 16, "N": 16, "K": 16, "IN": "__half", "OUT": "float", "SHARED": 0, "FRAG": "__half",
    "LAYOUT_A": "row_major", "LAYOUT_B": "row_major", "LAYOUT_C": "mem_row_major",
}  # fmt: skip


def test_wmma_requests_are_those_of_the_machine_code():
    """Blocks of 8 rows of 16 bytes: 4 loads of 8 sectors, and stores of two neighbours."""
    A, B = integers((16, 64)), integers((16, 64))
    C = np.zeros((16, 64), np.float32)
    report = emulator.launch(
        WMMA, "k", 1, 32, [A, B, C, 64, 64, 64], shared_bytes=8192, defines=PLAIN
    )
    rows = {(a.op, a.array): a for a in report.by_line()}
    for name in ("A", "B"):
        assert (rows["load", name].requests, rows["load", name].sectors) == (4, 32)
    assert (rows["store", "C"].requests, rows["store", "C"].sectors) == (4, 32)


def test_wmma_by_a_pointer_that_means_another_space_in_each_warp():
    source = """
    #include <mma.h>
    #include <cuda_fp16.h>
    using namespace nvcuda;
    extern "C" __global__ void k(const half* A, const float* C, float* D)
    {
        __shared__ __align__(32) half a_tile[256];
        __shared__ __align__(32) float sums[256];
        const int warp = threadIdx.x / 32;
        A += 768 * blockIdx.x, C += 768 * blockIdx.x, D += 768 * blockIdx.x;
        for (int i = threadIdx.x; i < 256; i += 96) { a_tile[i] = A[i]; sums[i] = C[i]; }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
        wmma::load_matrix_sync(a, warp == 1 ? a_tile : A + 256 * warp, 16);
        wmma::load_matrix_sync(b, warp == 2 ? a_tile : A + 256 * warp, 16);
        wmma::load_matrix_sync(c, warp == 0 ? sums : C + 256 * warp, 16, wmma::mem_row_major);
        __syncthreads();
        wmma::mma_sync(c, a, b, c);
        wmma::store_matrix_sync(warp == 1 ? sums : D + 256 * warp, c, 16, wmma::mem_row_major);
        __syncthreads();
        for (int i = threadIdx.x; i < 256; i += 96) D[256 + i] = sums[i];
    }
    """
    A, C = integers((2, 3, 16, 16)), integers((2, 3, 16, 16), np.float32)
    D = np.zeros_like(C)
    report = emulator.launch(source, "k", 2, 96, [A, C, D])
    assert report.ok, report
    left, right = A[:, [0, 0, 2]].astype(int), A[:, [0, 1, 0]].astype(int)
    np.testing.assert_array_equal(D, C + left @ right.transpose(0, 1, 3, 2))


def test_wmma_outside_its_matrix_is_found():
    A, B, C = integers((16, 16)), integers((16, 15)), np.zeros((16, 16), np.float32)
    report = emulator.launch(
        WMMA, "k", 1, 32, [A, B, C, 16, 16, 16], shared_bytes=8192, defines=PLAIN
    )
    assert {(f.kind, f.array) for f in report.findings} == {("out-of-bounds", "B")}, report


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%0, %0}, {%0}, {%0}, {%0, %0}",
         r"line 4.*m8n8k32.*m16n8k16.*m16n8k32 e4m3/e5m2/s8/u8"),
        ("tensormap.replace.tile.rank.global.b1024.b32 [%1], %0", r"tensormap\.replace.*in tensor memory, but not this"),
    ],
)  # fmt: skip
def test_what_is_not_emulated_says_what_is(statement, says):
    source = f"""
    extern "C" __global__ void k() {{
        int d = 0;
        asm volatile("{statement};" : "+r"(d) : "l"(0ll));
    }}"""
    with pytest.raises(EmulationError, match=says):
        emulator.launch(source, "k", 1, 128, [], arch="sm_100a")


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix_is_the_inverse_of_ldmatrix(count, trans):
    places = ", ".join(f"%{i + 1}" for i in range(count))
    inputs = ", ".join(f'"r"(in[{i} * 32 + threadIdx.x])' for i in range(count))
    source = f"""
    extern "C" __global__ void k(const unsigned* in, unsigned* out)
    {{
        __shared__ __align__(16) unsigned s[8 * {count} * 4];
        const unsigned at = __cvta_generic_to_shared(&s[threadIdx.x % (8 * {count}) * 4]);
        asm volatile("stmatrix.sync.aligned.m8n8.x{count}{".trans" if trans else ""}.shared.b16 [%0], {{{places}}};"
                     :: "r"(at), {inputs} : "memory");
        __syncthreads();
        for (int i = 0; i < {count}; ++i) out[i * 32 + threadIdx.x] = s[i * 32 + threadIdx.x];
    }}
    """
    x = RNG.integers(0, 2**16, (count, 8, 8)).astype(np.uint16)
    out = np.zeros((count, 8, 8), np.uint16)
    report = emulator.launch(source, "k", 1, 32, [x.view("u4"), out.view("u4")], arch="sm_90")
    assert report.ok, report
    np.testing.assert_array_equal(out, x.transpose(0, 2, 1) if trans else x)


def test_movmatrix_transposes():
    source = """
    extern "C" __global__ void k(const unsigned* in, unsigned* out)
    {
        unsigned r;
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(in[threadIdx.x]));
        out[threadIdx.x] = r;
    }
    """
    x = RNG.integers(0, 2**16, (8, 8)).astype(np.uint16)
    out = np.zeros_like(x)
    assert emulator.launch(source, "k", 1, 32, [x.view("u4"), out.view("u4")], arch="sm_75").ok
    np.testing.assert_array_equal(out, x.T)
