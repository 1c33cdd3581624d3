"""A launch of one thread, whose registers are numbers: the same bits, counts and words as arrays.
What differs is a fault of `ptx.scalars` or `machine.ports`.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from nogpu import emulator
from nogpu.emulator.launching import run
from nogpu.emulator.launching.report import Report
from nogpu.emulator.machine import ports
from nogpu.emulator.ptx import blocks, syntax, unset

Array = np.ndarray[Any, np.dtype[Any]]

STATEMENTS, ROUNDS = 40, 24
SEEDS = (0, 1, 2, 3, 4, 5, 6, 8, 9, 10)  # 7 adds two NaN, and nobody says whose bits the sum has
TYPES = {
    "int": "i4", "unsigned": "u4", "long long": "i8", "unsigned long long": "u8", "short": "i2",
    "unsigned short": "u2", "signed char": "i1", "unsigned char": "u1", "float": "f4",
    "double": "f8",
}  # fmt: skip


def statement(rng):
    """A statement over two variables of each type."""
    kind = rng.choice(list(TYPES))
    a, b, c, d = (f"{TYPES[kind]}_{rng.randrange(2)}" for _ in range(4))
    other = f"{rng.choice(list(TYPES.values()))}_{rng.randrange(2)}"
    compared = rng.choice(("<", "<=", "==", "!=", ">", ">="))
    forms = [
        f"{d} = {a} {rng.choice('+-*/')} {b};",
        f"{d} = {a} < {b} ? {a} : {b}; {c} = {c} > {a} ? {c} : {a};",
        f"if ({a} {compared} {b}) {d} = {c};",
        f"if (!({a} < {b} && {b} != {c}) || {d} {compared} {a}) {d} = {a} - {c};",
        f"{d} = ({kind}){other};",
    ]
    if TYPES[kind][0] == "f":
        forms += [
            f"{d} = fma({a}, {b}, {c}); {d} = fma({d}, {b}, {a});",
            f"{d} = fmin({a}, {b}); {c} = fmax({b}, {c});",
            f"{d} = sqrt(fabs({a})); {c} = -{b};",
        ]
    else:
        n = rng.randrange(8 * int(TYPES[kind][1]))
        forms += [
            f"{d} = {a} {rng.choice('%&|^')} {b}; {c} = ~{b};",
            f"{d} = {a} * {b} + {c}; {c} = -{a};",
            f"{d} = {a} / {rng.choice((3, 7, 10))}; {c} = {b} % {rng.choice((3, 8, 10))};",
            f"{d} = {a} << {n}; {c} = {a} >> {n};",
            f"{d} = {a} << ({b} & 31); {c} = {a} >> ({b} & 7);",
        ]
    if kind in ("int", "unsigned"):
        u = kind[0].replace("i", "")
        forms += [
            f"{d} = __{u}mulhi({a}, {b}); {c} = __brev({c}) + __popc({a}) + __clz({b});",
            "i8_0 += (long long)i4_0 * i4_1; u8_0 += (unsigned long long)u4_0 * u4_1;",
            f"f4_0 = __int_as_float({a}); {d} = __float_as_int(f4_1);",
            f"{d} = atomicAdd(&{u}ints[i], {a});",
            f"few[{a} & 7] = {b}; {d} = few[({c} + 1) & 7];",
            f"tile[{a} & 15] = {b}; {d} = tile[{a} & 15];",
        ]
    return rng.choice(forms)


def kernel(seed):
    """A kernel over an array of each type, in which loops and conditions end blocks."""
    rng = Random(seed)
    params = ", ".join(f"{kind}* {t}s" for kind, t in TYPES.items())
    loads = " ".join(f"{kind} {t}_0 = {t}s[i], {t}_1 = {t}s[i + 1];" for kind, t in TYPES.items())
    stores = " ".join(f"{t}s[i] = {t}_0; {t}s[i + n] = {t}_1;" for t in TYPES.values())
    body = "\n        ".join(statement(rng) for _ in range(STATEMENTS))
    return f"""
extern "C" __global__ void k({params}, int* ints, unsigned* uints, int n) {{
    __shared__ int tile[16];
    int few[8];
    for (int i = 0; i < 8; ++i) {{ few[i] = i * n; tile[i] = tile[i + 8] = few[i]; }}
    for (int i = 0; i < n; ++i) {{
        {loads}
        {body}
        {stores}
        i4_0 ^= few[i4_1 & 7] + tile[u4_1 & 15];
        if (i % 5 == 1) __syncthreads();
    }}
}}"""


def operands(seed):
    """Arrays of each type: small numbers, ends of the range, NaN of both kinds, subnormals."""
    rng = np.random.default_rng(seed)
    out: list[Any] = []
    for kind in map(np.dtype, TYPES.values()):
        size = 2 * ROUNDS + 1
        if kind.kind == "f":
            whole = np.dtype(f"u{kind.itemsize}")
            some = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 3e38, 16777217], kind)
            quiet = rng.integers(0, 1 << 63, size, "u8").astype(whole).view(kind)
            values = np.where(rng.random(size) < 0.4, rng.choice(some, size), quiet)
            values = np.where(
                rng.random(size) < 0.5, rng.standard_normal(size).astype(kind), values
            )
            if kind == "f4":
                values.view("u4")[:3] = 0x7F800001, 0xFFA00000, 0x7FC00123
        else:
            ends = np.iinfo(kind)
            some = np.array([0, 1, 2, ends.max, ends.min, ends.max - 1], kind)
            drawn = rng.integers(ends.min, ends.max, size, kind, endpoint=True)
            values = np.where(rng.random(size) < 0.5, rng.choice(some, size), drawn)
        out.append(values.astype(kind))
    return [*out, np.zeros(ROUNDS, "i4"), np.zeros(ROUNDS, "u4"), ROUNDS]


Launch = Callable[..., Report]


@pytest.fixture
def usual(monkeypatch):
    """`launch` by the code that is made for many threads."""
    whole = run._as_it_compiles

    def launch(*args, **options):
        with monkeypatch.context() as m:
            m.setattr(run, "_as_it_compiles", lambda *a, alone=False: whole(*a))
            return emulator.launch(*args, **options)

    return launch


def same(launch, source, args, **options):
    """Whether a kernel does the same by both ways: arrays to the bit, and the whole report."""
    copies = [[a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2)]
    quick = emulator.launch(source, "k", 1, 1, copies[0], **options)
    slow = launch(source, "k", 1, 1, copies[1], **options)
    pairs = [(a, b) for a, b in zip(*copies, strict=True) if isinstance(a, np.ndarray)]
    bits = all(a.tobytes() == b.tobytes() for a, b in pairs)
    assert repr(quick.samples) == repr(slow.samples)
    return bits and replace(quick, samples=None) == replace(slow, samples=None)


def program(source):
    """What the launch of one thread runs."""
    compilation, _ = run._as_it_compiles(source, "k", "sm_75", {}, "kernel.cu", alone=True)
    return run._program(compilation)[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_kernels_do_the_same(seed, usual):
    source = kernel(seed)
    assert program(source).scalar
    assert same(usual, source, operands(seed))


def without_repair(a, b, c):
    return float(np.float32(a * b + c))


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("quotient", lambda a, b: a // b if b else -1, "div.s32 r9, r1, r2"),
        ("remainder", lambda a, b: a % b if b else a, "rem.s32 r9, r1, r2"),
        ("divided", lambda a, b: a * b, "div.rn.f32 f9, f1, f2"),
        ("unbox_i4", lambda array: abs(array.item()), "add.sat.s32 r9, r1, r2"),
        ("box_i4", lambda value: np.full((1,) * 4, value & 0x7FFFFFFF, "i4"), "popc.b32 r9, r1"),
    ],
)
def test_a_wrong_operation_is_noticed(name, wrong, text, usual, monkeypatch):
    assert same(usual, listed([text]), given_to([text]))
    monkeypatch.setitem(ports.FUNCTIONS, name, wrong)
    assert not same(usual, f"{listed([text])} // {name}", given_to([text]))  # linked anew


def test_a_nan_that_loses_its_bits_is_noticed(usual, monkeypatch):
    monkeypatch.setattr(ports, "_nan_of", lambda array: float(array.item()))
    assert not all(same(usual, kernel(seed), operands(seed)) for seed in range(3))


HALFWAY = """extern "C" __global__ void k(const float* x, float* y) {
    y[0] = fmaf(x[0], x[1], x[2]); y[1] = fmaf(x[0], x[1], -x[2]);
}"""


@pytest.mark.parametrize("right", [True, False])
def test_a_sum_that_float64_rounds_to_halfway_is_rounded_once(right, monkeypatch):
    if not right:
        monkeypatch.setitem(ports.FUNCTIONS, "fused", without_repair)
    x = np.array([1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60], "f4")
    y = np.zeros(2, "f4")
    emulator.launch(f"{HALFWAY} // {right}", "k", 1, 1, [x, y])
    above, below = 1 + 2.0**-11 + 2.0**-23, 1 + 2.0**-11
    assert (y.tolist() == [above, below]) is right


FAULTS = """extern "C" __global__ void k(float* x, double* y, int n) {
    __shared__ float s[4];
    for (int i = 0; i < n; ++i) x[i] = s[i & 3] + y[i & 7];
    for (int i = 0; i < n; ++i) { s[i & 3] = x[i * 3]; *(double*)((char*)y + 4) = 1; }
    float4 v = ((float4*)x)[n - 18]; x[1] = v.x + v.w;
    while (x[0] == x[0]) x[2] += 1;
}"""


@pytest.mark.parametrize("options", [{}, {"samples": True}, {"engines": True}, {"analyse": False}])
def test_faults_and_counts_are_told_alike(options, usual):
    args = [np.ones(20, "f4"), np.ones(8), 20]
    options = {**options, "max_steps": 20_000, "uninitialised": ["y"]}
    assert emulator.launch(FAULTS, "k", 1, 1, args, **options).findings
    assert same(usual, FAULTS, [np.ones(20, "f4"), np.ones(8), 20], **options)


def test_accesses_that_nobody_tells_are_noticed(usual, monkeypatch):
    monkeypatch.setattr(ports.Port, "settle", lambda self: None)
    assert not same(usual, kernel(0), operands(0))


# One instruction each, of registers 1 to 3 of their kinds: s of 16 bits, r of 32, l of 64, f and d
# floats, p predicates. Numbers take these, and arrays those below.
NUMBERS = [
    *(f"{op}.{t} L9, L1, L2" for op in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max")
      for t in ("s16", "u16", "s32", "u32", "s64", "u64")),
    *(f"{op}.{t} L9, L1" for op in ("neg", "abs") for t in ("s16", "s32", "s64", "f32", "f64")),
    *(f"{op}.{t} L9, L1, L2" for op in ("and", "or", "xor") for t in ("b16", "b32", "b64", "pred")),
    *(f"not.{t} L9, L1" for t in ("b16", "b32", "b64", "pred")),
    *(f"{op}.{t} L9, L1, {n}" for n in ("r2", "r3", "0", "7", "31", "64", "-1") for op, t in (
        ("shl", "b16"), ("shl", "b32"), ("shl", "b64"), ("shr", "b16"), ("shr", "b32"), ("shr", "u64"),
        ("shr", "s16"), ("shr", "s32"), ("shr", "s64"), ("shr", "u32"))),
    "mul.wide.s16 r9, s1, s2", "mul.wide.u16 r9, s1, s2", "mul.wide.s32 l9, r1, r2",
    "mul.wide.u32 l9, r1, r2", "mul.wide.s32 l9, r1, -3", "mad.wide.s32 l9, r1, r2, l3",
    "mad.wide.u32 l9, r1, r2, l3", "mad.wide.u16 r9, s1, s2, r3", "mad.lo.s32 r9, r1, r2, r3",
    "mad.lo.u16 s9, s1, s2, s3", "mad.lo.s64 l9, l1, l2, l3", "mad.hi.s32 r9, r1, r2, r3",
    "mad.hi.u32 r9, r1, r2, r3", "add.s32 r9, r1, 2147483647", "add.s64 l9, l1, -1",
    *(f"{op}.{t} L9, L1, L2" for op in ("add", "sub", "mul", "add.rn") for t in ("f32", "f64")),
    "fma.rn.f32 f9, f1, f2, f3", "fma.rn.f32 f9, f1, 0f40400000, f3", "div.rn.f32 f9, f1, f2",
    "div.full.f32 f9, f1, f2", "div.approx.f32 f9, f1, f2", "add.f64 d9, d1, 0dBFF8000000000000",
    *(f"setp.{op}.{t} p9, L1, L2" for op in ("eq", "ne", "lt", "le", "gt", "ge")
      for t in ("s16", "u16", "s32", "u32", "s64", "u64", "f32", "f64")),
    *(f"setp.{op}.{t} p9, L1, L2" for op in ("lo", "ls", "hi", "hs") for t in ("u32", "u64", "u16")),
    *(f"setp.{op}.{t} p9, L1, L2" for op in ("neu", "ltu", "leu", "gtu", "geu") for t in ("f32", "f64")),
    *(f"setp.lt.{op}.s32 p9|p8, r1, r2, {p}" for op in ("and", "or", "xor") for p in ("p3", "!p3")),
    "setp.gt.and.f32 p9, f1, f2, p3", "setp.eq.s32 p8|p9, r1, r2", "setp.eq.u32 p9|_, r1, 3",
    "@p3 mov.b32 r6, r1; mov.b32 r9, r6", "@!p3 mov.f64 d6, d1; mov.f64 d9, d6", "@p3 mov.pred p6, p1; not.pred p9, p6",
    "setp.hi.u32 p9, r1, 3", "setp.lo.s32 p9, r1, -3",
    *(f"selp.{t} L9, L1, L2, p3" for t in ("b16", "b32", "u64", "f32", "f64")),
    *(f"mov.{t} L9, L1" for t in ("b16", "b32", "b64", "f32", "f64", "pred")),
    "mov.u32 r9, 4294967295", "mov.b32 r9, -5", "mov.f32 f9, 0fC0490FDB", "mov.f64 d9, 0d400921FB54442D18",
    "mov.b32 r9, %tid.y", "mov.u32 r9, %ntid.x", "mov.u32 r9, %nctaid.z", "mov.u32 r9, %laneid",
    "mov.u64 l9, table", "mov.u64 l9, table+8", "cvta.to.global.u64 l9, l1", "mov.u16 s9, 65535",
    *(f"cvt.{a}.{b} {d}9, {s}1" for d, to in (("s", "su8 su16"), ("r", "su8 su16 su32"), ("l", "su32 su64"))
      for a in (f"{k}{t[2:]}" for t in to.split() for k in "su")
      for s, frm in (("s", "su8 su16"), ("r", "su16 su32"), ("l", "su8 su32 su64"))
      for b in (f"{k}{t[2:]}" for t in frm.split() for k in "su")),
    *(f"cvt.rn.{a}.{b} {a[0] == 'f' and 'fd'[a[1:] == '64']}9, {s}1" for a in ("f32", "f64")
      for b, s in (("s32", "r"), ("u32", "r"), ("s16", "s"), ("u8", "s"))),
    "cvt.f64.f32 d9, f1", "cvt.rn.f32.f64 f9, d1",
    "@p3 add.s32 r9, r1, r2", "@!p3 mov.b32 r9, r1", "@p3 mul.f64 d9, d1, d2", "@p3 setp.lt.s32 p9, r1, r2",
    *(f"ld.{g}.{t} {d}9, [{a}]" for g in ("global", "const") for a in ("table", "table+8") for t, d in (
        ("u8", "s"), ("s8", "r"), ("b8", "r"), ("s8", "l"), ("u16", "r"), ("s16", "l"), ("b16", "s"),
        ("b32", "r"), ("u32", "l"), ("s32", "l"), ("f32", "f"), ("b64", "l"), ("f64", "d"))),
    "ld.global.v2.b32 {r9, r8}, [l0+8]", "ld.global.v4.f32 {f9, _, f8, f7}, [l0]", "ld.b32 r9, [l0+4]",
    "ld.global.v2.b64 {_, l9}, [l0]", "st.global.v2.b32 [l0], {r1, r2}; mov.b32 r9, r1",
    "st.global.b16 [l0+2], s1; mov.b16 s9, s1", "st.b64 [l0], l1; mov.b64 l9, l1", "st.local.b32 [8], r1; ld.local.b32 r9, [8]",
]  # fmt: skip
ARRAYS = [
    "add.rz.f32 f9, f1, f2", "add.ftz.f32 f9, f1, f2", "mul.sat.f32 f9, f1, f2", "fma.rn.f64 d9, d1, d2, d3",
    "add.sat.s32 r9, r1, r2", "div.rn.f64 d9, d1, d2", "div.rz.f32 f9, f1, f2", "min.f32 f9, f1, f2",
    "max.f64 d9, d1, d2", "setp.equ.f32 p9, f1, f2", "setp.num.f64 p9, d1, d2", "setp.lt.ftz.f32 p9, f1, f2",
    "cvt.rn.f32.s64 f9, l1", "cvt.rn.f64.u64 d9, l1", "cvt.rzi.s32.f32 r9, f1", "cvt.rni.f32.f32 f9, f1",
    "cvt.sat.u8.s32 r9, r1", "cvt.rz.f32.s32 f9, r1", "mov.b32 r9, f1", "mov.b64 l9, d1",
    "mov.b64 l9, {r1, r2}", "popc.b32 r9, r1", "mov.b32 r9, %lanemask_lt", "mov.f32 f9, 0f7F800000",
    "cvta.to.shared.u64 l9, l1", "cvta.shared.u64 l9, l1", "abs.ftz.f32 f9, f1", "neg.ftz.f32 f9, f1",
    "ld.shared.b32 r9, [tile+4]", "ld.shared.v2.b32 {_, r9}, [tile]",
    "setp.lt.bf16 p9, s1, s2", "setp.lt.f16x2 p9|p8, r1, r2",
    *(f"{op}.s16 r9, s1, s2" for op in ("add", "div")), "shl.b16 r9, s1, 3", "neg.s16 r9, s1", "mul.wide.s16 l9, s1, s2",
    "sqrt.rn.f32 f9, f1", "st.shared.b32 [tile], r1; ld.shared.b32 r9, [tile]",
]  # fmt: skip
LETTERS = {"b16": "s", "s16": "s", "u16": "s", "f32": "f", "f64": "d", "pred": "p"}
MOVES = {"s": "b16", "r": "b32", "l": "b64", "f": "f32", "d": "f64"}
DECLARED = """.version 8.0 .target sm_80 .address_size 64
.global .align 8 .b32 table[4] = {0x8081F2F3, 0x12345678, 0x89ABCDEF, 0xFEDC1234}; .shared .b32 tile[4];
.entry k(.param .u64 us, .param .u64 ls, .param .u64 ss, .param .u64 fs, .param .u64 ds, .param .u64 out, .param .u32 n) {
.reg .b16 s<10>; .reg .b32 r<10>; .reg .b64 l<10>, at, o, given; .reg .f32 f<10>; .reg .f64 d<10>; .reg .pred p<10>, again;
.reg .b32 i, bit, last; .local .align 8 .b8 own[32];
"""


def line(text):
    """An instruction of the table, with the registers of its type."""
    kind = text.partition(" ")[0].rpartition(".")[2]
    return text.replace("L", LETTERS.get(kind, "l" if kind[1:] == "64" else "r"))


def called(*texts):
    """Functions that the Python of these instructions names."""
    body = "; ".join(["mov.u64 l0, table", *map(line, texts)])
    made = blocks.translate(syntax.parse(f"{DECLARED} {body}; }}"), "k", alone=True)
    code = marshal.loads(made.functions["k"].code)
    return {name for c in code.co_consts for name in getattr(c, "co_names", ())}


def boxed(*texts):
    """Whether arrays are made for these instructions."""
    return any("box_" in name for name in called(*texts))


def test_plain_instructions_need_no_arrays(monkeypatch):
    """Arrays are slow; a form that numbers do not know is left to them."""
    monkeypatch.setattr(unset, "shadowed", lambda function: function)
    assert not boxed(*NUMBERS), [text for text in NUMBERS if boxed(text)]
    assert [text for text in ARRAYS if not boxed(text)] == []
    one = "ld.global.b32 r9, [l0]", "ld.global.f32 f9, [l0]", "st.global.b32 [l0], r1"
    several = "ld.global.v2.b32 {r9, r8}, [l0]", "st.global.v2.b32 [l0], {r1, r2}"
    assert {"load_number", "load_float", "store"} <= called(*one)
    assert called(*one, *several) - called(*one) == {"load_all", "store_all"}


def listed(table):
    """A kernel that runs these for elements of arrays, and stores what each leaves."""
    kinds = dict(zip("rlsfd", ("us", "ls", "ss", "fs", "ds"), strict=True))
    loads = [
        f"ld.param.u64 given, [{array}]; add.s64 given, given, at; "
        + " ".join(f"ld.global.{MOVES[letter]} {letter}{j}, [given+{8 * j}];" for j in (1, 2, 3))
        for letter, array in kinds.items()
    ]
    stores = []
    for k, text in enumerate(map(line, table)):
        letter = text.split("9")[0][-1]
        keep = "selp.b32 r9, 5, 7, p9;" if letter == "p" else ""
        letter = "r" if letter == "p" else letter
        reset = "mov.b32 r9, 1; mov.f64 d9, 0d0000000000000000; setp.eq.s32 p9, r1, r1;"
        stores.append(f"{reset} {text}; {keep} st.global.{MOVES[letter]} [o+{8 * k}], {letter}9;")
    return f"""{DECLARED} mov.b32 i, 0; ld.param.u64 o, [out];
    AGAIN: mul.wide.u32 at, i, 8; mov.u64 l0, table; {" ".join(loads)}
    and.b32 bit, r1, 2; setp.ne.s32 p3, bit, 0; setp.lt.s32 p1, r1, r2; setp.lt.s32 p2, r2, r3;
    {" ".join(stores)}
    add.s64 o, o, {8 * len(table)}; add.s32 i, i, 1; ld.param.u32 last, [n]; setp.lt.u32 again, i, last;
    @again bra AGAIN; ret; }}"""


def given_to(table):
    """Arguments of the kernel of `listed`."""
    by_kind = dict(zip(TYPES.values(), operands(3), strict=False))
    by_kind["f4"][1] = 1.5  # of a sum of two NaN nobody says whose bits it has
    wide = []
    for kind in ("u4", "u8", "u2", "f4", "f8"):
        wide.append(np.zeros(2 * ROUNDS, "u8"))
        wide[-1].view(kind)[:: 8 // int(kind[1])] = np.resize(by_kind[kind], 2 * ROUNDS)
    return [*wide, np.zeros(ROUNDS * len(table), "u8"), ROUNDS]


def test_each_instruction_does_the_same(usual):
    table = NUMBERS + ARRAYS
    assert program(listed(table)).scalar
    assert same(usual, listed(table), given_to(table))


def test_what_waits_or_calls_is_left_to_arrays():
    waits = """extern "C" __global__ void k(volatile int* x) { while (x[0] == 0) x[1] += 1; }"""
    calls = """__noinline__ __device__ int f(int* x) { return x[0] * x[1] + *x; }
extern "C" __global__ void k(int* x) { x[2] = f(x); }"""
    assert program(kernel(0)).scalar
    assert not program(waits).scalar
    assert not program(calls).scalar
    ways = "{ .reg .b32 w; mov.b32 w, 0; way: .branchtargets A, B; brx.idx w, way; A: B: }"
    for text in (
        ways, "mbarrier.init.shared.b64 [tile], 1;", "bar.red.popc.u32 r1, 0, p1;", "wgmma.fence.sync.aligned;",
        "mbarrier.try_wait.shared.b64 p1, [tile], l1;", "cp.async.bulk.commit_group;",
        "cp.async.bulk.global.shared::cta.bulk_group [table], [tile], 16;",
    ):  # fmt: skip
        module = syntax.parse(f"{DECLARED} {text} ret; }}".replace("sm_80", "sm_90a"))
        alone = blocks.translate(module, "k", alone=True)
        assert alone.scalar == ("commit" in text), text
