"""ldmatrix, mma.sync and wmma against matrix products in NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from foreign_kernels import cuda

from nogpu import emulator
from nogpu.errors import EmulationError

RNG = np.random.default_rng(0)


def integers(shape, dtype=np.float16, low=-4, high=5):
    """Small integers: exact in every format, in any order of summation."""
    return RNG.integers(low, high, shape).astype(dtype)


def bf16(x):
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


# -- mma.sync ------------------------------------------------------------------------------------
# Each lane gathers its fragment from A and B in global memory by the layouts of the PTX ISA
# (section on matrix fragments for mma), written out here once more and independently in CUDA.

MMA = cuda("tensor/mma")

PAIRS = {
    "ROW_A": "G + 8 * (i / 2 % 2)", "COL_A": "2 * T + i % 2 + 8 * (i / 4)",
    "ROW_B": "2 * T + i % 2 + 8 * (i / 2)", "COL_B": "G",
}  # fmt: skip
BYTES = {
    "ROW_A": "G + 8 * (i / 4 % 2)", "COL_A": "4 * T + i % 4 + 16 * (i / 8)",
    "ROW_B": "4 * T + i % 4 + 16 * (i / 4)", "COL_B": "G",
}  # fmt: skip
SINGLES = {"ROW_A": "G + 8 * (i % 2)", "COL_A": "T + 4 * (i / 2)", "ROW_B": "T + 4 * i"}
SINGLES["COL_B"] = "G"


@pytest.mark.parametrize(
    ("shape", "kinds", "layout", "na", "nb", "nc"),
    [
        ((16, 8, 8), "f32.f16.f16.f32", PAIRS, 2, 1, 4),
        ((16, 8, 16), "f32.f16.f16.f32", PAIRS, 4, 2, 4),
        ((16, 8, 8), "f32.bf16.bf16.f32", PAIRS, 2, 1, 4),
        ((16, 8, 16), "f32.bf16.bf16.f32", PAIRS, 4, 2, 4),
        ((16, 8, 4), "f32.tf32.tf32.f32", SINGLES, 2, 1, 4),
        ((16, 8, 8), "f32.tf32.tf32.f32", SINGLES, 4, 2, 4),
        ((8, 8, 16), "s32.s8.s8.s32", BYTES, 1, 1, 2),
        ((16, 8, 16), "s32.s8.s8.s32", BYTES, 2, 1, 4),
        ((16, 8, 32), "s32.u8.u8.s32", BYTES, 4, 2, 4),
    ],
)
def test_mma(shape, kinds, layout, na, nb, nc):
    m, n, k = shape
    source_type = kinds.split(".")[1]
    c_in = {
        "f16": "unsigned short", "bf16": "unsigned short", "tf32": "float", "s8": "signed char",
        "u8": "unsigned char",
    }[source_type]  # fmt: skip
    out, letter = ("float", "f") if kinds.startswith("f32") else ("int", "r")
    places = [f"%{i}" for i in range(2 * nc + na + nb)]
    d, a, b, c = np.split(np.array(places, object), np.cumsum([nc, na, nb]))
    groups = ", ".join("{" + ", ".join(g) + "}" for g in (d, a, b, c))
    asm = (
        f'asm volatile("mma.sync.aligned.m{m}n{n}k{k}.row.col.{kinds} {groups};" : '
        + ", ".join(f'"={letter}"(d[{i}])' for i in range(nc)) + " : "
        + ", ".join(f'"r"(a[{i}])' for i in range(na)) + ", "
        + ", ".join(f'"r"(b[{i}])' for i in range(nb)) + ", "
        + ", ".join(f'"{letter}"(c[{i}])' for i in range(nc)) + ");"
    )  # fmt: skip
    source = MMA
    values = {
        "IN": c_in, "OUT": out, "NA": str(na), "NB": str(nb), "NC": str(nc), "ASM": asm,
        "PER": {"unsigned short": "2", "float": "1"}.get(c_in, "4"), **layout,
    }  # fmt: skip
    for name in ("ROW_A", "COL_A", "ROW_B", "COL_B", "ASM", "PER", "IN", "OUT", "NA", "NB", "NC"):
        source = source.replace(name, values[name])
    low = 0 if source_type == "u8" else -4
    A, B = integers((m, k), np.int32, low), integers((k, n), np.int32, low)
    C = integers((m, n), np.float32 if out == "float" else np.int32)
    D = np.zeros_like(C)
    stored = {
        "f16": lambda x: x.astype(np.float16).view(np.uint16), "bf16": bf16,
        "tf32": lambda x: x.astype(np.float32), "s8": lambda x: x.astype(np.int8),
        "u8": lambda x: x.astype(np.uint8),
    }[source_type]  # fmt: skip
    report = emulator.launch(
        source, "k", 1, 32, [stored(A), stored(B), C, D], arch="sm_80", defines={"K": k, "N": n}
    )
    assert report.ok, report
    np.testing.assert_array_equal(D, A @ B + C)


def test_mma_with_half_accumulators():
    source = """
    #include <cuda_fp16.h>
    extern "C" __global__ void k(const unsigned* A, const unsigned* B, unsigned* D)
    {
        const int g = threadIdx.x / 4, t = threadIdx.x % 4;
        unsigned a0 = A[g * 4 + t], a1 = A[(g + 8) * 4 + t], b0 = B[g * 4 + t], d0, d1;
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%5, %5};"
                     : "=r"(d0), "=r"(d1) : "r"(a0), "r"(a1), "r"(b0), "r"(0));
        D[g * 4 + t] = d0; D[(g + 8) * 4 + t] = d1;
    }
    """
    A, Bt, D = integers((16, 8)), integers((8, 8)), np.zeros((16, 8), np.float16)
    report = emulator.launch(source, "k", 1, 32, [A.view("u4"), Bt.view("u4"), D.view("u4")])
    assert report.ok
    np.testing.assert_array_equal(D, A.astype(int) @ Bt.T.astype(int))


def by_registers(instruction, a, b, c, out):
    """D of one instruction of a warp: (32, `out`) words. a, b, c: uint32 (32, registers), by lane."""
    given = [np.ascontiguousarray(x).view(np.uint32).reshape(32, -1) for x in (a, b, c)]
    counts = [out, *(x.shape[1] for x in given)]
    names = [[f"{letter}{i}" for i in range(n)] for letter, n in zip("dabc", counts, strict=True)]
    moves = [
        f"ld.global.b32 {name}, [to + {128 * i}];"
        for i, name in enumerate(itertools.chain(*names[1:]))
    ]
    moves.append(f"{instruction} " + ", ".join("{" + ", ".join(n) + "}" for n in names) + ";")
    moves += [f"st.global.b32 [to + {128 * i}], {name};" for i, name in enumerate(names[0])]
    text = f""".version 8.6
    .target sm_80
    .address_size 64
    .visible .entry k(.param .u64 words) {{
    .reg .b32 t, {", ".join(itertools.chain(*names))}; .reg .b64 to, far;
    mov.u32 t, %tid.x; ld.param.u64 to, [words]; mul.wide.u32 far, t, 4; add.s64 to, to, far;
    {" ".join(moves)}
    ret; }}"""
    words = np.ascontiguousarray(np.concatenate(given, axis=1).T)
    report = emulator.launch(text, "k", 1, 32, [words], arch="sm_80")
    assert report.ok, report
    return np.ascontiguousarray(words[:out].T)


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
    held = {
        "f16": (q, own, eight),
        "f32": (q, lane % 2 + eight // 2 % 2 * 2 + 4 * high, eight // 4 * 4 + lane // 2 % 2 * 2 + eight % 2),
    }  # fmt: skip
    form = f"mma.sync.aligned.m8n8k4.{left}.{right}.{d}.f16.f16.{c}"
    kinds = {"f16": np.float16, "f32": np.float32}
    out = by_registers(form, a, b, C[held[c]].astype(kinds[c]), 4 if d == "f16" else 8)
    np.testing.assert_array_equal(out.view(kinds[d]), (A.astype(int) @ B.astype(int) + C)[held[d]])


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


def test_ldmatrix_rows_must_be_aligned_and_inside():
    source = LDMATRIX.replace("ASM", ONE).replace("COUNT", "1")
    x, out = np.zeros((64, 8), np.uint16), np.zeros(32, np.uint32)
    for shift, kind in ((2, "misaligned"), (1024 - 32, "out-of-bounds")):
        report = emulator.launch(
            source, "k", 1, 32, [x, out], defines={"LD": 8, "ROWS": 8, "SHIFT": shift}
        )
        assert {f.kind for f in report.findings} == {kind}, report


def test_a_barrier_missing_before_ldmatrix_is_a_race():
    source = LDMATRIX.replace("ASM", ONE).replace("COUNT", "1").replace("__syncthreads();", "")
    x, out = np.zeros((64, 8), np.uint16), np.zeros(32, np.uint32)
    report = emulator.launch(source, "k", 1, 32, [x, out], defines={"LD": 8, "ROWS": 8, "SHIFT": 0})
    assert {f.kind for f in report.findings} == {"race"}, report


# -- wmma ----------------------------------------------------------------------------------------

WMMA = cuda("tensor/wmma")

CASES = [
    ((16, 16, 16), "__half", "float"),
    ((16, 16, 16), "__half", "__half"),
    ((32, 8, 16), "__half", "float"),
    ((8, 32, 16), "__half", "float"),
    ((16, 16, 16), "__nv_bfloat16", "float"),
    ((32, 8, 16), "__nv_bfloat16", "float"),
    ((8, 32, 16), "__nv_bfloat16", "float"),
    ((16, 16, 16), "signed char", "int"),
    ((32, 8, 16), "signed char", "int"),
    ((8, 32, 16), "unsigned char", "int"),
    ((16, 16, 8), "float", "float"),
]


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
    store = {
        "__half": lambda x: x.astype(np.float16), "__nv_bfloat16": bf16,
        "float": lambda x: x.astype(np.float32), "signed char": lambda x: x.astype(np.int8),
        "unsigned char": lambda x: x.astype(np.uint8),
    }[kind]  # fmt: skip
    put_a = np.ascontiguousarray(A if la == "row" else A.T)
    put_b = np.ascontiguousarray(B if lb == "row" else B.T)
    dtype = {"float": np.float32, "__half": np.float16, "int": np.int32}[out]
    C = np.zeros((m, n) if lc == "row" else (n, m), dtype)
    defines = {
        "M": m, "N": n, "K": k, "IN": kind, "OUT": out, "SHARED": shared,
        "FRAG": "wmma::precision::tf32" if kind == "float" else kind,
        "LAYOUT_A": f"{la}_major", "LAYOUT_B": f"{lb}_major", "LAYOUT_C": f"mem_{lc}_major",
    }  # fmt: skip
    strides = [put_a.shape[1], put_b.shape[1], C.shape[1]]
    report = emulator.launch(
        WMMA, "k", 1, 32, [store(put_a), store(put_b), C, *strides], arch="sm_80",
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
    A, C, D = integers((3, 16, 16)), integers((3, 16, 16), np.float32), np.zeros((3, 16, 16), "f4")
    report = emulator.launch(source, "k", 1, 96, [A, C, D])
    assert report.ok, report
    whole = A.astype(int)
    left, right = whole[[0, 0, 2]], whole[[0, 1, 0]]
    np.testing.assert_array_equal(D, C + left @ right.transpose(0, 2, 1))


def test_wmma_outside_its_matrix_is_found():
    A, B, C = integers((16, 16)), integers((16, 15)), np.zeros((16, 16), np.float32)
    report = emulator.launch(
        WMMA, "k", 1, 32, [A, B, C, 16, 16, 16], shared_bytes=8192, defines=PLAIN
    )
    assert {(f.kind, f.array) for f in report.findings} == {("out-of-bounds", "B")}, report


def test_shapes_and_types_that_are_not_emulated_say_which_are():
    source = """
    extern "C" __global__ void k(unsigned* x)
    {
        int d0, d1;
        asm volatile("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%0, %1}, {%2}, {%3}, {%4, %4};"
                     : "=r"(d0), "=r"(d1) : "r"(x[0]), "r"(x[1]), "r"(0));
        x[threadIdx.x] = d0 + d1;
    }
    """
    with pytest.raises(
        EmulationError, match=r"line 6.*m8n8k32.*m16n8k16.*m16n8k32 e4m3/e5m2/s8/u8"
    ):
        emulator.launch(source, "k", 1, 32, [np.zeros(32, np.uint32)], arch="sm_80")


def test_a_newer_instruction_that_is_not_emulated_is_refused_by_name():
    source = """
    extern "C" __global__ void k() {
        asm volatile("tensormap.replace.tile.rank.global.b1024.b32 [%0], %1;" :: "l"(0ll), "r"(0));
    }
    """
    with pytest.raises(EmulationError, match=r"tensormap\.replace.*in tensor memory, but not this"):
        emulator.launch(source, "k", 1, 128, [], arch="sm_100a")


def test_double_precision_mma():
    source = """
    extern "C" __global__ void k(const double* A, const double* B, double* D)
    {
        const int g = threadIdx.x / 4, t = threadIdx.x % 4;
        double d0, d1;
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %4};"
                     : "=d"(d0), "=d"(d1) : "d"(A[g * 4 + t]), "d"(B[t * 8 + g]), "d"(0.5));
        D[g * 8 + 2 * t] = d0; D[g * 8 + 2 * t + 1] = d1;
    }
    """
    A, B, D = RNG.standard_normal((8, 4)), RNG.standard_normal((4, 8)), np.zeros((8, 8))
    report = emulator.launch(source, "k", 1, 32, [A, B, D], arch="sm_80")
    assert report.ok, report
    np.testing.assert_allclose(D, A @ B + 0.5, rtol=1e-14)


def test_an_accumulator_is_loaded_and_accumulated_over_warps_and_blocks():
    source = """
    #include <mma.h>
    #include <cuda_fp16.h>
    using namespace nvcuda;
    extern "C" __global__ void k(const half* A, const half* B, float* C, int N, int K)
    {
        const int m0 = blockIdx.y * 16, n0 = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 16;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
        wmma::load_matrix_sync(c, C + m0 * N + n0, N, wmma::mem_row_major);
        for (int k = 0; k < K; k += 16) {
            wmma::load_matrix_sync(a, A + m0 * K + k, K);
            wmma::load_matrix_sync(b, B + k * N + n0, N);
            wmma::mma_sync(c, a, b, c);
        }
        wmma::store_matrix_sync(C + m0 * N + n0, c, N, wmma::mem_row_major);
    }
    """
    A, B = integers((48, 64)), integers((64, 128))
    C = integers((48, 128), np.float32)
    want = C + A.astype(int) @ B.astype(int)
    report = emulator.launch(source, "k", (2, 3), 128, [A, B, C, 128, 64])
    assert report.ok, report
    np.testing.assert_array_equal(C, want)


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


FP8 = """
extern "C" __global__ void k(const unsigned* A, const unsigned* B, OUT* D) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;  // rows of A and columns of B are 8 words long
    unsigned a[4] = {A[8 * g + t], A[8 * (g + 8) + t], A[8 * g + t + 4], A[8 * (g + 8) + t + 4]};
    unsigned b[2] = {B[8 * g + t], B[8 * g + t + 4]};
    ASM
    STORE
}
"""


@pytest.mark.parametrize(("left", "right"), [("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e5m2", "e5m2")])
@pytest.mark.parametrize("out", ["f32", "f16"])
def test_mma_of_eight_bit_floats(left, right, out):
    """Every finite bit pattern, beside values built from exponent and fraction by the format."""

    def values(kind):
        fraction, bias = (3, 7) if kind == "e4m3" else (2, 15)
        bits = np.arange(256)
        exponent, rest = bits >> fraction & (1 << 7 - fraction) - 1, bits & (1 << fraction) - 1
        normal = np.ldexp(1.0 + rest / (1 << fraction), exponent - bias)
        value = np.where(exponent == 0, np.ldexp(rest / (1 << fraction), 1 - bias), normal)
        return np.where(bits > 127, -value, value)

    small = {"e4m3": 0x50, "e5m2": 0x48}  # magnitudes below: sums stay in the range of float16
    rng = np.random.default_rng(4)

    def matrix(rows, kind):
        magnitude = rng.integers(0, small[kind], (rows, 32))
        return (magnitude | rng.integers(0, 2, (rows, 32)) << 7).astype(np.uint8)

    A, B = matrix(16, left), matrix(8, right)
    registers = 4 if out == "f32" else 2
    names = [f"%{i}" for i in range(registers + 6)]
    d, a, b = names[:registers], names[registers : registers + 4], names[registers + 4 :]
    zero = ["0f00000000"] * 4 if out == "f32" else [f"%{registers + 6}"] * 2
    groups = ", ".join("{" + ", ".join(g) + "}" for g in (d, a, b, zero))
    letter = "f" if out == "f32" else "r"
    asm = (
        f"{'float' if out == 'f32' else 'unsigned'} d[{registers}];"
        f'asm volatile("{{mma.sync.aligned.m16n8k32.row.col.{out}.{left}.{right}.{out} {groups};}}" : '
        + ", ".join(f'"={letter}"(d[{i}])' for i in range(registers)) + " : "
        + ", ".join(f'"r"(a[{i}])' for i in range(4)) + ', "r"(b[0]), "r"(b[1]), "r"(0));'
    )  # fmt: skip
    if out == "f32":
        store = "for (int i = 0; i < 4; ++i) D[8 * (g + 8 * (i / 2)) + 2 * t + i % 2] = d[i];"
        D = np.zeros((16, 8), np.float32)
    else:
        store = "for (int i = 0; i < 2; ++i) D[4 * (g + 8 * i) + t] = d[i];"
        D = np.zeros((16, 8), np.float16)
    source = FP8.replace("ASM", asm).replace("STORE", store)
    source = source.replace("OUT", "float" if out == "f32" else "unsigned")
    words = D if out == "f32" else D.view(np.uint32)
    args = [A.view(np.uint32), B.view(np.uint32), words]
    report = emulator.launch(source, "k", 1, 32, args, arch="sm_89")
    assert report.ok, report
    want = values(left)[A] @ values(right)[B].T
    sizes = np.abs(values(left)[A]) @ np.abs(values(right)[B]).T  # test_sums.py has the bits
    np.testing.assert_allclose(
        D, want, rtol=0 if out == "f32" else 2**-11, atol=sizes.max() * 2**-23
    )
