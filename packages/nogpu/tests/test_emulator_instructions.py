"""Every instruction family of the emulator against a NumPy oracle, through PTX."""

from __future__ import annotations

import itertools
import math
import re
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest

from nogpu import emulator
from nogpu.errors import EmulationError

N = 256
REGISTERS = {"s": "u2", "r": "u4", "l": "u8", "f": "f4", "d": "f8"}
INTEGERS = {
    "s16": ("s", "i2"), "u16": ("s", "u2"), "s32": ("r", "i4"), "u32": ("r", "u4"),
    "s64": ("l", "i8"), "u64": ("l", "u8"),
}  # fmt: skip
FLOATS = {"f32": ("f", "f4"), "f64": ("d", "f8")}
HEAD = """.version 8.6 .target sm_100a .address_size 64
.visible .entry k(.param .u64 given, .param .u64 out) {
.reg .b16 s<20>; .reg .b32 r<20>; .reg .b64 l<20>; .reg .f32 f<20>; .reg .f64 d<20>;
.reg .pred p<20>; .reg .b64 base, at, spare, x; .reg .b32 t, n, i; mov.u32 t, %ctaid.z;
"""
for _axis in ("ctaid.y", "ctaid.x", "tid.z", "tid.y", "tid.x"):
    HEAD += f"mov.u32 n, %n{_axis}; mov.u32 i, %{_axis}; mad.lo.u32 t, t, n, i;\n"
HEAD += "mul.wide.u32 at, t, 8; ld.param.u64 base, [given]; add.s64 base, base, at;\n"
Dims = int | tuple[int, ...]


def check(wanted, grid=1, block=N, declared="", options=None, **given):
    """Run PTX, a thread an element, and compare what it leaves in s9, r9, l9, f9 or d9, to the bit.

    wanted: by instructions, the values; a last axis has the halves of a pair; whole numbers of any
    size, of which the register holds the lowest bits; what is masked is not known. One NaN is
    another. given: what registers hold; `spare` is the address of eight bytes for each thread.
    """
    n = int(np.prod(grid) * np.prod(block))
    memory, out = np.zeros((len(given), n), "u8"), np.zeros((len(wanted) + 1, n), "u8")
    body = ""
    for i, (name, values) in enumerate(given.items()):
        width = int(REGISTERS[name[0]][1])
        body += f"ld.global.b{8 * width} {name}, [base+{8 * n * i}];\n"
        memory[i].view(f"u{width}")[:: 8 // width] = values.view(f"u{width}")
    body += f"ld.param.u64 base, [out]; add.s64 base, base, at; {declared}\n"
    body += f"add.s64 spare, base, {8 * n * len(wanted)};\n"
    results = [re.search(r"\b([srlfd])9\b", text)[1] for text in wanted]
    for i, (letter, text) in enumerate(zip(results, wanted, strict=True)):
        bits = 8 * int(REGISTERS[letter][1])
        body += f"{text}; st.global.b{bits} [base+{8 * n * i}], {letter}9;\n"
    options = {"arch": "sm_100a", **(options or {})}
    report = emulator.launch(f"{HEAD}{body} ret; }}", "k", grid, block, [memory, out], **options)
    assert report.ok, report
    for letter, row, (text, values) in zip(results, out, wanted.items(), strict=False):
        width = int(REGISTERS[letter][1])
        want = np.ma.asarray(values)
        if want.dtype == object:
            want = np.ma.array([v & (1 << 8 * width) - 1 for v in values], f"u{width}")
        elif want.ndim == 1:
            want = want.astype(f"{want.dtype.kind.replace('b', 'u')}{width}")
        got = row.view(f"u{width}")[:: 8 // width].copy().view(want.dtype).reshape(want.shape)
        known, want = ~np.ma.getmaskarray(want), want.data
        assert known.sum() > n // 4 or n == 1, text
        np.testing.assert_array_equal(got[known], want[known], err_msg=text)
        if want.dtype.kind == "f":
            known &= ~np.isnan(want)
            np.testing.assert_array_equal(
                np.signbit(got[known]), np.signbit(want[known]), err_msg=text
            )
    return report


def words(seed=0, kind="u4"):
    """Random bits with the edge cases in front."""
    rng = np.random.default_rng(seed)
    bits = 8 * int(kind[1])
    edge = [0, 1, 2, 3, 31, 32, 33, 63, 64, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
    edge = [e & ((1 << bits) - 1) for e in edge]
    raw = rng.integers(0, 1 << min(bits, 63), N, dtype=np.uint64)
    small = raw >> rng.integers(0, bits, N).astype(np.uint64)
    small[: len(edge)] = rng.permutation(np.array(edge, np.uint64))
    return small.astype(f"u{kind[1]}").view(kind)


def floats(seed=0, kind="f4"):
    """Random floats over many magnitudes, with zeros, infinities and NaN in front."""
    rng = np.random.default_rng(seed)
    spread = {"f2": 3, "f4": 12, "f8": 40}[kind]
    x = rng.standard_normal(N) * 10.0 ** rng.integers(-spread, spread, N)
    x[:8] = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5]
    with np.errstate(over="ignore"):
        return rng.permutation(x).astype(kind)


def each(function, *arrays):
    """A function of Python's whole numbers, of any size, element by element."""
    rows = zip(*(a.tolist() for a in arrays), strict=True)
    return np.array([int(function(*row)) for row in rows], object)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def test_one_wrong_bit_sign_or_nan_is_seen():
    given = {"r1": words(1), "f1": floats(1)}
    r1, f1 = given.values()
    zero, nan = np.flatnonzero(f1 == 0)[0], np.flatnonzero(np.isnan(f1))[0]
    for at, wrong in ((9, r1[9] ^ 1), (zero, -f1[zero]), (nan, 0.5)):
        name = "r1" if at == 9 else "f1"
        text, want = f"mov.b32 {name[0]}9, {name}", given[name].copy()
        check({text: want}, **given)
        want[at] = wrong
        with pytest.raises(AssertionError):
            check({text: want}, **given)


# -- integers ------------------------------------------------------------------------------------


def quotient(x, y):
    """Toward zero; by zero all bits are set."""
    return (abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)) if y else -1


def field(x, start, length, bits, signed):
    """The definition of bfe in the PTX ISA, bit by bit."""
    sign_at = min(start + length - 1, bits - 1)
    sign = (x >> sign_at & 1) if signed and length else 0
    out = 0
    for i in range(bits):
        bit = x >> (i + start) & 1 if i < length and i + start < bits else sign
        out |= bit << i
    return out


def inserted(x, y, start, length):
    mask = ((1 << length) - 1) << start
    return (y & ~mask) | ((x << start) & mask)


def ones(where):
    """All bits where something holds, and none elsewhere."""
    return -where.astype("i4")


ORDERED = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_wrap_at_their_width(kind):
    bits, (q, dtype) = int(kind[1:]), INTEGERS[kind]
    a, b, c, amount = words(1, dtype), words(2, dtype), words(3, dtype), words(21, "u4")
    b[60:90] = a[60:90]
    c[::7] = 0
    c[c == -1] = 5  # the lowest value over -1 has no result
    amount[:4] = [0, bits - 1, bits, 2**31]
    place = words(28, "u4") % 80, words(29, "u4") % 80
    two, three = f"{q}9, {q}1, {q}2", f"{q}9, {q}1, {q}2, {q}3"
    wanted = {
        f"add.{kind} {two}": each(lambda x, y: x + y, a, b),
        f"sub.{kind} {two}": each(lambda x, y: x - y, a, b),
        f"min.{kind} {two}": each(min, a, b),
        f"max.{kind} {two}": each(max, a, b),
        f"mul.lo.{kind} {two}": each(lambda x, y: x * y, a, b),
        f"mul.hi.{kind} {two}": each(lambda x, y: x * y >> bits, a, b),
        f"mad.lo.{kind} {three}": each(lambda x, y, z: x * y + z, a, b, c),
        f"mad.hi.{kind} {three}": each(lambda x, y, z: (x * y >> bits) + z, a, b, c),
        f"sad.{kind} {three}": each(lambda x, y, z: abs(x - y) + z, a, b, c),
        f"div.{kind} {q}9, {q}1, {q}3": each(quotient, a, c),
        f"rem.{kind} {q}9, {q}1, {q}3": each(lambda x, y: x - y * quotient(x, y), a, c),
        f"and.b{bits} {two}": a & b,
        f"or.b{bits} {two}": a | b,
        f"xor.b{bits} {two}": a ^ b,
        f"not.b{bits} {q}9, {q}1": ~a,
        f"cnot.b{bits} {q}9, {q}1": a == 0,
        f"shr.{kind} {q}9, {q}1, r4": each(lambda x, n: x >> min(n, 200), a, amount),
        f"shl.b{bits} {q}9, {q}1, r4": each(lambda x, n: x << min(n, 200), a, amount),
    }
    for n in (0, bits - 1, bits, bits + 1):
        wanted[f"shr.{kind} {q}9, {q}1, {n}"] = each(lambda x, n=n: x >> n, a)
        wanted[f"shl.b{bits} {q}9, {q}1, {n}"] = each(lambda x, n=n: x << n, a)
    for op, function in ORDERED.items():
        pair = f"p1, {q}1, {q}2; selp.b32 r9, 1, 0, p1"
        wanted[f"setp.{op}.{kind} {pair}"] = function(a, b)
        unsigned = {"lt": "lo", "le": "ls", "gt": "hi", "ge": "hs"}.get(op)
        if kind[0] == "u" and unsigned:
            wanted[f"setp.{unsigned}.{kind} {pair}"] = function(a, b)
    wider = {}
    if bits < 64:
        wide, sums = {"s": "r", "r": "l"}[q], words(8, f"{dtype[0]}{bits // 4}")
        wanted[f"mul.wide.{kind} {wide}9, {q}1, {q}2"] = each(lambda x, y: x * y, a, b)
        mad = each(lambda x, y, z: x * y + z, a, b, sums)
        wanted[f"mad.wide.{kind} {wide}9, {q}1, {q}2, {wide}7"] = mad
        wider[f"{wide}7"] = sums
    if bits > 16:
        whole = a.view(f"u{bits // 8}")
        signed = kind[0] == "s"
        wanted |= {
            f"popc.b{bits} r9, {q}1": each(int.bit_count, whole),
            f"clz.b{bits} r9, {q}1": each(lambda x: bits - x.bit_length(), whole),
            f"brev.b{bits} {q}9, {q}1": each(lambda x: int(f"{x:0{bits}b}"[::-1], 2), whole),
            f"bfind.{kind} r9, {q}1": each(lambda x: (x ^ x >> bits).bit_length() - 1, a),
            f"bfe.{kind} {q}9, {q}1, r5, r6": each(
                lambda x, s, n: field(x, s, n, bits, signed), whole, *place
            ),
            f"bfi.b{bits} {q}9, {q}1, {q}2, r5, r6": each(inserted, a, b, *place),
        }
    given = {f"{q}1": a, f"{q}2": b, f"{q}3": c}
    check(wanted, **given, r4=amount, r5=place[0], r6=place[1], **wider)


def test_integers_of_32_bits():
    r1, r2, r3 = words(91), words(92), words(93)
    r2[60:90] = r1[60:90]
    x, y, z = (r.view("i4") for r in (r1, r2, r3))
    u, v = ((r.astype("i8") << 40) >> 40 for r in (r1, r2))  # the lowest 24 bits
    least, most = -(2**31), 2**31 - 1

    def permuted(a, b, picks):
        """PTX ISA, prmt: these bytes of the eight of b:a, or their signs."""
        source = (a | b << 32).to_bytes(8, "little")
        chosen = [source[p & 7] if p < 8 else 255 * (source[p & 7] >> 7) for p in picks]
        return int.from_bytes(chosen, "little")

    wanted = {
        "add.sat.s32 r9, r1, r2": np.clip(x.astype("i8") + y, least, most),
        "sub.sat.s32 r9, r1, r2": np.clip(x.astype("i8") - y, least, most),
        "max.relu.s32 r9, r1, r2": np.maximum(np.maximum(x, y), 0),
        "min.relu.s32 r9, r1, r2": np.maximum(np.minimum(x, y), 0),
        "mul24.lo.s32 r9, r1, r2": u * v,
        "mul24.hi.s32 r9, r1, r2": u * v >> 16,
        "mul24.lo.u32 r9, r1, r2": (r1 & 0xFFFFFF) * (r2 & 0xFFFFFF),
        "mad24.lo.s32 r9, r1, r2, r3": u * v + z,
        "mad24.hi.sat.s32 r9, r1, r2, r3": np.clip((u * v >> 16) + z, least, most),
        "mad.hi.sat.s32 r9, r1, r2, r3": np.clip((x.astype("i8") * y >> 32) + z, least, most),
        "bfind.shiftamt.s32 r9, r1": [31 - n if n >= 0 else n for n in each(
            lambda a: (a ^ a >> 31).bit_length() - 1, x)],
        "prmt.b32 r9, r1, r2, r3": each(
            lambda a, b, s: permuted(a, b, [s >> 4 * i & 15 for i in range(4)]), r1, r2, r3),
        "lop3.b32 r9, r1, r2, r3, 0x96": r1 ^ r2 ^ r3,
        "lop3.b32 r9, r1, r2, r3, 0xE8": (r1 & r2) | (r2 & r3) | (r1 & r3),
        "lop3.b32 r9, r1, r2, r3, 0xCA": (r1 & r2) | (~r1 & r3),
        "set.lt.u32.s32 r9, r1, r2": ones(x < y),
        "set.lt.f32.s32 f9, r1, r2": (x < y).astype("f4"),
        "setp.ge.s32 p1, r3, 0; set.eq.and.u32.u32 r9, r1, r2, p1": ones((x == y) & (z >= 0)),
        "setp.ge.s32 p1, r3, 0; set.eq.xor.u32.u32 r9, r1, r2, !p1": ones((x == y) ^ (z < 0)),
        "setp.lt.u32 p3, r1, 1000; setp.lt.and.s32 p1|p2, r1, r2, p3; @p1 mov.u32 r9, 1; "
        "@!p1 mov.u32 r9, 2; @p2 add.u32 r9, r9, 10": np.where((x < y) & (r1 < 1000), 1, 2)
        + np.where((x >= y) & (r1 < 1000), 10, 0),
        "slct.u32.s32 r9, r1, r2, r2": np.where(y >= 0, r1, r2),
    }  # fmt: skip
    for mode, byte in {
        "f4e": lambda n, i: (n + i) % 8,
        "b4e": lambda n, i: (n - i) % 8,
        "rc8": lambda n, i: n,
        "ecl": max,
        "ecr": min,
        "rc16": lambda n, i: 2 * (n % 2) + i % 2,
    }.items():
        picks = [[byte(n & 3, i) for i in range(4)] for n in r3.tolist()]
        wanted[f"prmt.b32.{mode} r9, r1, r2, r3"] = [
            *map(permuted, r1.tolist(), r2.tolist(), picks)
        ]
    for one, other in itertools.product("iu", repeat=2):
        a, b = (r.view(f"{s}1").reshape(-1, 4).astype("i4") for r, s in ((r1, one), (r2, other)))
        h = r1.view(f"{one}2").reshape(-1, 2).astype("i4")
        types = f"{one}32.{other}32 r9, r1, r2, r3".replace("i32", "s32")
        wanted[f"dp4a.{types}"] = (a * b).sum(axis=1) + z
        wanted[f"dp2a.lo.{types}"] = (h * b[:, :2]).sum(axis=1) + z
        wanted[f"dp2a.hi.{types}"] = (h * b[:, 2:]).sum(axis=1) + z
    check(wanted, r1=r1, r2=r2, r3=r3)


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_amounts_wrap_or_are_clamped(mode):
    a, b, x, n = words(22), words(23), words(80), words(79)
    n[:6] = (0, 31, 32, 33, 256, 300)
    a[6:12], n[6:12] = (0, 1, 31, 32, 256, 257), 8

    def width(v):
        return v & 31 if mode == "wrap" else min(v, 32)

    def low(v, n):
        return v & ((1 << width(n)) - 1)

    def signed(v, n):
        n, v = width(n), low(v, n)
        return v - (1 << n) if n and v >> (n - 1) else v

    wanted = {
        f"shf.r.{mode}.b32 r9, r1, r2, r4": each(
            lambda a, b, n: (a | b << 32) >> width(n), a, b, n
        ),
        f"shf.l.{mode}.b32 r9, r1, r2, r4": each(
            lambda a, b, n: (a | b << 32) << width(n) >> 32, a, b, n
        ),
        f"bmsk.{mode}.b32 r9, r1, r4": each(lambda at, n: ((1 << width(n)) - 1) << width(at), a, n),
        f"szext.{mode}.u32 r9, r3, r4": each(low, x, n),
        f"szext.{mode}.s32 r9, r3, r4": each(signed, x, n),
    }
    check(wanted, r1=a, r2=b, r3=x, r4=n)


def test_carries_make_longer_integers():
    """Only .cc leaves a carry."""
    r1, r2, r3, l1, l2, l3 = (words(90 + i, f"u{4 + i // 4 * 4}") for i in range(1, 7))
    wanted = {
        "add.cc.u32 t, r1, r2; addc.cc.u32 t, r2, r3; addc.u32 r9, r1, r1": each(
            lambda a, b, c: (a + b + (b + c << 32) + (a + a << 64)) >> 64, r1, r2, r3),
        "sub.cc.s32 t, r1, r2; subc.cc.s32 t, r2, r3; subc.s32 r9, r1, r3": each(
            lambda a, b, c: (a - b + (b - c << 32) + (a - c << 64)) >> 64, r1, r2, r3),
        "add.cc.u64 x, l1, l2; addc.u64 l9, l2, l3": each(
            lambda a, b, c: (a + b + (b + c << 64)) >> 64, l1, l2, l3),
        "add.cc.u32 t, r1, r2; addc.u32 t, t, t; addc.u32 r9, r2, r1": each(
            lambda a, b: b + a + (a + b >> 32), r1, r2),
        "sub.cc.u32 t, r1, r2; subc.u32 t, t, t; subc.u32 r9, r2, r1": each(
            lambda a, b: b - a - (a < b), r1, r2),
        "add.cc.u32 r9, r1, r2": r1 + r2,
        "sub.cc.u32 r9, r1, r2": r1 - r2,
        "mad.lo.cc.u32 t, r1, r2, r3; madc.lo.cc.u32 t, r3, r3, r1; addc.u32 r9, r2, 0": each(
            lambda a, b, c: ((a * b % 2**32) + c + ((c * c % 2**32) + a << 32) + (b << 64)) >> 64,
            r1, r2, r3),
    }  # fmt: skip
    for kind, (half, shift) in itertools.product("us", (("lo", 0), ("hi", 32))):
        a, b = (r.view("i4") if kind == "s" else r for r in (r1, r2))
        text = f"mad.{half}.cc.{kind}32 t, r1, r2, r3; madc.hi.{kind}32 r9, r1, r2, r3"
        wanted[text] = each(
            lambda x, y, z, s=shift: (x * y >> 32) + z + ((x * y >> s) % 2**32 + z >> 32), a, b, r3
        )
    check(wanted, r1=r1, r2=r2, r3=r3, l1=l1, l2=l2, l3=l3)


# -- floating point ------------------------------------------------------------------------------


MODES = ("rn", "rz", "rm", "rp")


def rounded(exact, digits, mode="rn"):
    """An exact number rounded to so many binary digits: rn (ties to even), rz, rm or rp."""
    if not exact:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** (exponent + 1 - digits)
    whole, rest = divmod(size, unit)
    away = {"rz": False, "rm": exact < 0, "rp": exact > 0}.get(mode)
    if away is None:
        away = rest > unit / 2 or (rest == unit / 2 and whole % 2 == 1)
    value = float((whole + bool(rest and away)) * unit)
    return value if exact > 0 else -value


def exactly(function, *arrays, mode="rn", to="", digits=0):
    """A function in rational arithmetic, rounded once, element by element; masked where what is
    given, or the result, is not finite or not normal."""
    limits = np.finfo(to or arrays[0].dtype)
    out = np.ma.masked_all(len(arrays[0]), limits.dtype)
    for i, row in enumerate(zip(*(a.tolist() for a in arrays), strict=True)):
        with suppress(ValueError, OverflowError, ZeroDivisionError):
            value = rounded(function(*map(Fraction, row)), digits or limits.nmant + 1, mode)
            if limits.tiny <= abs(value) <= limits.max:
                out[i] = value
    return out


def fused(x, y, z):
    return x * y + z


def tiny(x, least=2.0**-126):
    """What is subnormal flushed to a zero of its sign."""
    return np.where(np.abs(x) < least, np.copysign(x.dtype.type(0), x), x)


def saturated(x):
    return np.nan_to_num(np.clip(x, 0, 1), nan=0.0) + x.dtype.type(0)  # -0 becomes 0


def rectified(x):
    return np.maximum(x, 0) + x.dtype.type(0)


def compared(a, b):
    """What each comparison of floats says; the unordered ones are true of NaN."""
    nan = np.isnan(a) | np.isnan(b)
    ordered = {op: function(a, b) & ~nan for op, function in ORDERED.items()}
    return {**ordered, **{f"{op}u": v | nan for op, v in ordered.items()}, "num": ~nan, "nan": nan}


def extreme(op, a, b, nan=""):
    """The lesser or greater of two floats, of which -0 is less than +0; .NaN: or a NaN."""
    out = getattr(np, f"{op}imum" if nan else f"f{op}")(a, b)
    both = (np.logical_or if op == "min" else np.logical_and)(np.signbit(a), np.signbit(b))
    return np.where((a == 0) & (b == 0), np.where(both, -0.0, 0.0), out).astype(out.dtype)


def least_and_greatest(a, b):
    """What each form of min and max leaves; .xorsign gives it the sign of the product."""
    signs, out = np.where(np.signbit(a) ^ np.signbit(b), -1, 1), {}
    for op, nan in itertools.product(("min", "max"), ("", ".NaN")):
        out[f"{op}{nan}.{{}}"] = extreme(op, a, b, nan)
        size = extreme(op, np.abs(a), np.abs(b), nan)
        out[f"{op}{nan}.xorsign.abs.{{}}"] = np.copysign(size, signs)
    return out


@pytest.mark.parametrize("kind", FLOATS)
def test_float_arithmetic_is_ieee(kind):
    q, dtype = FLOATS[kind]
    a, b, c = (floats(seed, dtype) for seed in (1, 2, 3))
    b[60:90] = a[60:90]
    limits = np.finfo(dtype)
    least, small = limits.tiny, limits.smallest_subnormal
    c[:14] = [least, -least, np.nextafter(least, 0), -np.nextafter(least, 0), small, -small,
              0, -0.0, np.inf, -np.inf, np.nan, limits.max, -limits.max, 1.5]  # fmt: skip
    size, two = np.abs(c), f"{q}9, {q}1, {q}2"
    wanted = {
        f"add.rn.{kind} {two}": a + b,
        f"sub.rn.{kind} {two}": a - b,
        f"mul.rn.{kind} {two}": a * b,
        f"div.rn.{kind} {two}": a / b,
        f"min.{kind} {two}": extreme("min", a, b),
        f"max.{kind} {two}": extreme("max", a, b),
        f"copysign.{kind} {two}": np.copysign(b, a),
        f"abs.{kind} {q}9, {q}1": np.abs(a),
        f"neg.{kind} {q}9, {q}1": -a,
        f"sqrt.rn.{kind} {q}9, {q}1": np.sqrt(a),
        f"rcp.rn.{kind} {q}9, {q}3": 1 / c,
    }
    for op, want in least_and_greatest(a, b).items():
        if kind == "f32":
            wanted[op.format(f"f32 {two}")] = want
    for op, want in compared(a, b).items():
        wanted[f"setp.{op}.{kind} p1, {q}1, {q}2; selp.u32 r9, 1, 0, p1"] = want
        wanted[f"set.{op}.s32.{kind} r9, {q}1, {q}2"] = ones(want)
        wanted[f"set.{op}.f32.{kind} f9, {q}1, {q}2"] = want.astype("f4")
    for what, want in {
        "finite": np.isfinite(c),
        "infinite": np.isinf(c),
        "number": ~np.isnan(c),
        "notanumber": np.isnan(c),
        "normal": (size >= least) & np.isfinite(c),
        "subnormal": (size > 0) & (size < least),
    }.items():
        wanted[f"testp.{what}.{kind} p1, {q}3; selp.u32 r9, 1, 0, p1"] = want
    check(wanted, **{f"{q}1": a, f"{q}2": b, f"{q}3": c})


ZEROS = np.array([(a, b) for a in (0, -0.0, 1, -1, np.nan) for b in (0, -0.0)])


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16", "f16x2", "bf16x2"])
def test_of_two_zeros_the_negative_one_is_less(kind):
    """As an H200 has it; of threads enough for any vector of the host, and of one alone."""
    q, dtype = {"f16": ("s", "f2"), "f16x2": ("r", "f2"), **FLOATS}.get(kind, ("r", "f4"))
    q = "s" if kind == "bf16" else q
    for n, first in [(N, 0), *((1, i) for i in range(len(ZEROS)))]:
        a, b = (np.resize(np.roll(ZEROS[:, i], -first), n).astype(dtype) for i in (0, 1))
        pair = [np.stack([x, y], 1) for x, y in ((a, b), (b, a))] if "x2" in kind else [a, b]
        bits = bf16 if "b" in kind else lambda x: x
        given = {f"{q}{i}": bits(x).view(REGISTERS[q]).ravel() for i, x in enumerate(pair, 1)}
        wanted = {}
        for op, nan in itertools.product(("min", "max"), ("", ".NaN") if kind != "f64" else ("",)):
            want = np.ma.masked_invalid(extreme(op, *pair, nan))
            want = np.ma.array(bits(want.data), mask=want.mask)
            wanted[f"{op}{nan}.{kind} {q}9, {q}1, {q}2"] = want
            wanted[f"{op}{nan}.{kind} {q}9, {q}2, {q}1"] = want
        check(wanted, block=n, **given)


@pytest.mark.parametrize("kind", FLOATS)
def test_what_is_rounded_is_the_exact_result(kind):
    q, dtype = FLOATS[kind]
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(N).astype(dtype) for _ in range(2))
    c = (rng.standard_normal(N) * 10.0 ** rng.integers(-12, 4, N)).astype(dtype)
    c[:64] = -(a[:64] * b[:64])  # what is left is the rounding error of the product
    # A tie in float32; what is added is too small for float64 beside it.
    a[:2], b[:2], c[:2] = 1 + 2.0**-12, 1 + 2.0**-12, (2.0**-80, -(2.0**-80))
    wide, wider = (rng.standard_normal(N) * 10.0 ** rng.integers(-9, 9, N) for _ in range(2))
    wide, wider = wide.astype(dtype), wider.astype(dtype)
    wide[:3], wider[:3] = (6, -6, 1), (3, 3, -3)
    root = np.abs(wide)
    root[:3] = (4, 2, 0.25)
    wanted = {}
    for mode in MODES:
        for text, function, arrays in (
            ("add {q}9, {q}1, {q}2", Fraction.__add__, (a, b)),
            ("sub {q}9, {q}1, {q}2", Fraction.__sub__, (a, b)),
            ("mul {q}9, {q}1, {q}2", Fraction.__mul__, (a, b)),
            ("fma {q}9, {q}1, {q}2, {q}3", fused, (a, b, c)),
            ("sub {q}9, {q}5, {q}4", Fraction.__sub__, (wider, wide)),
            ("fma {q}9, {q}4, {q}5, {q}4", fused, (wide, wider, wide)),
            ("div {q}9, {q}4, {q}5", Fraction.__truediv__, (wide, wider)),
            ("rcp {q}9, {q}5", lambda x: 1 / x, (wider,)),
        ):
            op, registers = text.format(q=q).split(" ", 1)
            want = exactly(function, *arrays, mode=mode)
            wanted[f"{op}.{mode}.{kind} {registers}"] = want
        nearest, roots = np.sqrt(root), []
        for near, x in zip(nearest, map(Fraction, root.tolist()), strict=True):
            square, up = Fraction(near.item()) ** 2, mode == "rp"
            inside = mode == "rn" or square == x or (square > x) == up
            roots.append(near if inside else np.nextafter(near, type(near)(math.inf if up else 0)))
        wanted[f"sqrt.{mode}.{kind} {q}9, {q}6"] = np.array(roots)
    letter, bits = ("0f", "u4") if kind == "f32" else ("0d", "u8")
    third, one = np.array([1 / 3, 1.25], dtype)
    x, y = (f"{letter}{v.view(bits):0{2 * v.itemsize}x}" for v in (third, one))
    # Of what all threads hold there is one element.
    wanted[f"fma.rn.{kind} {q}9, {x}, {y}, {q}3"] = exactly(fused, third + 0 * a, one + 0 * a, c)
    wanted[f"fma.rn.{kind} {q}9, {x}, {q}2, {y}"] = exactly(fused, third + 0 * a, b, one + 0 * a)
    given = {f"{q}{i}": v for i, v in enumerate((a, b, c, wide, wider, root), 1)}
    check(wanted, **given)


def test_what_overflows_is_rounded_as_directed():
    """Splitting a factor of 2^1020 in halves overflows; what rounding cut off is still known. What
    is infinite of itself stays so."""
    rng = np.random.default_rng(5)
    d1, d2 = np.ldexp(rng.standard_normal(N), 1020), np.ldexp(rng.standard_normal(N), -500)
    sign = np.resize([1.0, -1.0], N)
    large, small, infinite = np.full(N, 1e200), np.full(N, 1e-200), np.full(N, np.inf)
    special = np.resize([0.0, -0.0, np.inf, np.nan, 1.0, -np.inf], N)
    largest, smallest = np.finfo("f8").max, np.finfo("f8").smallest_subnormal
    wanted = {}
    for mode, away in (("rz", False), ("rm", sign < 0), ("rp", sign > 0)):
        beyond = np.where(away, np.inf, largest) * sign
        wanted |= {
            f"mul.{mode}.f64 d9, d1, d2": exactly(Fraction.__mul__, d1, d2, mode=mode),
            f"mul.{mode}.f64 d9, d3, d4": beyond,
            f"div.{mode}.f64 d9, d3, d5": beyond,
            f"fma.{mode}.f64 d9, d3, d4, d3": beyond,
            f"add.{mode}.f64 d9, d6, d3": beyond,
            f"mul.{mode}.f64 d9, d5, d7": np.where(away, smallest, 0.0) * sign,
            f"add.{mode}.f64 d9, d8, d8": infinite,
            f"mul.{mode}.f64 d9, d8, d8": infinite,
            f"fma.{mode}.f64 d9, d8, d8, d8": infinite,
            f"div.{mode}.f64 d9, 0d3FF0000000000000, d10": 1 / special,
        }
    given = {"d1": d1, "d2": d2, "d3": large * sign, "d4": large, "d5": small, "d6": largest * sign}
    check(wanted, **given, d7=small * sign, d8=infinite, d10=special)


def test_floats_flushed_saturated_and_approximated():
    f1, f2, f3 = floats(97), floats(98), floats(99)
    f3[:8] = [1e-39, -1e-39, 0.25, 2.0**-126, 2, -(2.0**-126), -3, -0.0]
    f1[40:60] = f2[40:60] = np.arange(20) / 8 - 1
    x = np.abs(np.random.default_rng(5).standard_normal(N)).astype("f4") + np.float32(0.01)
    d1 = floats(101, "f8")
    wanted = {
        "mul.rn.ftz.f32 f9, f3, 0f3F800000": tiny(f3),
        "add.rn.sat.f32 f9, f3, 0f00000000": saturated(f3),
        "max.ftz.f32 f9, f1, f3": extreme("max", tiny(f1), tiny(f3)),
        "set.le.ftz.s32.f32 r9, f1, f3": ones(tiny(f1) <= tiny(f3)),
        "slct.ftz.b32.f32 r9, f1, f2, f3": np.where(tiny(f3) >= 0, f1, f2).view("u4"),
        "div.full.ftz.f32 f9, f1, f3": tiny(tiny(f1) / tiny(f3)),
        "sqrt.approx.ftz.f32 f9, f3": np.sqrt(tiny(f3)),
        "rsqrt.approx.f64 d9, d1": 1 / np.sqrt(d1),
        "rcp.approx.ftz.f64 d9, d1": tiny(1 / d1, 2.0**-1022),
    }
    for op, function in {
        "ex2": np.exp2,
        "lg2": np.log2,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "rcp": lambda x: 1 / x,
        "sqrt": np.sqrt,
        "sin": np.sin,
        "cos": np.cos,
        "tanh": np.tanh,
    }.items():
        wanted[f"{op}.approx.f32 f9, f4"] = function(x.astype("f8"))
    check(wanted, f1=f1, f2=f2, f3=f3, f4=x, d1=d1)


# -- half precision ------------------------------------------------------------------------------


def bf16(x):
    """float32 to bfloat16 bits, ties to even."""
    bits = np.asarray(x, "f4").view("u4")
    out = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")
    return np.where(np.isnan(x), 0x7FFF, out).astype("u2")


def bf(bits):
    """Values of bfloat16, or of pairs of them."""
    halves = bits.view("u2").reshape(-1, 2) if bits.itemsize == 4 else bits
    return (halves.astype("u4") << 16).view("f4")


def pairs(bits):
    return bits.view("f2").reshape(-1, 2)


def halves(seed, kind):
    """Bits of halves or pairs: moderate numbers, and a few of any kind."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, 2)).astype("f4")
    x[20:40] *= 10.0 ** rng.integers(-6, 6, (20, 2))
    x[:8, 0] = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -0.5]
    x[8:16, 0] = [3e-6, -3e-6, 1e-4, 7e-5, -5e-5, 2.0**-14, 6e4, -6e4]
    x[:, 1] = np.where(np.arange(N) < 16, rng.permutation(x[:, 0]), x[:, 1])
    bits = x.astype("f2").view("u2") if kind.startswith("f16") else bf16(x)
    return bits.view("u4")[:, 0] if kind.endswith("x2") else bits[:, 0].copy()


@pytest.mark.parametrize("kind", ["f16", "f16x2", "bf16", "bf16x2"])
def test_half_precision(kind):
    pair, short = kind.endswith("x2"), kind.startswith("f16")
    q = "r" if pair else "s"
    values = (pairs if pair else lambda v: v.view("f2")) if short else bf
    least = 2.0**-14 if short else 2.0**-126

    def half(x):
        return x.astype("f2") if short else bf16(x.astype("f4"))

    bits = [halves(seed, kind) for seed in (8, 9, 10)]
    bits[1][60:90] = bits[0][60:90]
    a, b, c = (values(v).astype("f8") for v in bits)
    two, three = f"{kind} {q}9, {q}1, {q}2", f"{kind} {q}9, {q}1, {q}2, {q}3"
    wanted = {
        f"add.rn.{two}": half(a + b),
        f"sub.rn.{two}": half(a - b),
        f"mul.rn.{two}": half(a * b),
        f"fma.rn.{three}": half(a * b + c),
        f"fma.rn.relu.{three}": half(rectified(a * b + c)),
        f"abs.{kind} {q}9, {q}1": half(np.abs(a)),
        f"neg.{kind} {q}9, {q}1": half(-a),
    }
    wanted |= {op.format(two): half(want) for op, want in least_and_greatest(a, b).items()}
    if short:
        x, y = (tiny(v, least) for v in (a, b))
        wanted |= {
            f"add.rn.sat.{two}": half(saturated(a + b)),
            f"sub.rn.sat.{two}": half(saturated(a - b)),
            f"add.ftz.{two}": half(tiny(half(x + y), least)),
            f"sub.rn.ftz.{two}": half(tiny(half(x - y), least)),
            f"mul.ftz.{two}": half(tiny(half(x * y), least)),
            f"fma.rn.ftz.{kind} {q}9, {q}1, {q}2, {q}1": half(tiny(half(x * y + x), least)),
            f"neg.ftz.{kind} {q}9, {q}1": half(-x),
            f"max.ftz.{two}": half(extreme("max", x, y)),
        }
        if not pair:
            wanted["setp.gt.ftz.f16 p1, s1, 0f00000000; selp.u32 r9, 1, 0, p1"] = x > 0

    def counted(where):
        """Of a pair 1 where the low half holds, and 2 more where the high one does."""
        return where @ np.array([1, 2]) if pair else where

    both, chosen = ("p1|p2", "; @p2 add.u32 r9, r9, 2") if pair else ("p1", "")
    chosen = f"{both}, {q}1, {q}2{{}}; selp.b32 r9, 1, 0, p1{chosen}"
    for op, want in compared(a, b).items():
        wanted[f"setp.{op}.{kind} {chosen.format('')}"] = counted(want)
        wanted[f"set.{op}.{kind}.{two}"] = half(want)
    third = np.arange(N, dtype="u4") % 2
    for p in ("p1", "p3"):  # one that the instruction itself sets, too
        text = f"setp.ne.u32 {p}, r4, 0; setp.lt.and.{kind} {chosen.format(f', {p}')}"
        wanted[text] = counted(a < b) * third
    either = (a < b) | (third.reshape(-1, *[1] * pair) == 1)
    wanted |= {
        f"set.neu.u32.{kind} r9, {q}1, {q}2": ones(~(a == b)).astype("i2" if pair else "i4"),
        f"setp.ne.u32 p1, r4, 0; set.lt.or.{kind}.{two}, p1": half(either),
    }
    check(wanted, **{f"{q}{i}": v for i, v in enumerate(bits, 1)}, r4=third)


# -- conversions and moves -----------------------------------------------------------------------


def test_integers_are_cut_extended_and_clamped():
    given = {"s1": words(42, "u2"), "r1": words(38), "l1": words(39, "u8")}
    kinds, wanted = {"s8": ("s", "i1"), "u8": ("s", "u1"), **INTEGERS}, {}
    for (to, (q, own)), (source, (p, dtype)) in itertools.product(kinds.items(), repeat=2):
        x = given[f"{p}1"].astype(dtype)
        limits = np.iinfo(own)
        wanted[f"cvt.{to}.{source} {q}9, {p}1"] = x.astype(own)
        wanted[f"cvt.sat.{to}.{source} {q}9, {p}1"] = np.array(
            [min(max(v, limits.min), limits.max) for v in x.tolist()], object
        )
    check(wanted, **given)


def test_floats_become_integers():
    """What is beyond the type is clamped. NaN is 0; of float64 or 64 bits the highest bit alone."""
    f1, d1 = floats(17), floats(18, "f8")
    f1[20:60] = np.arange(-20, 20) / 2
    f1[60:66] = [2.0**63, -(2.0**63), 2.0**64, 1e30, -1, 65535.5]
    d1[20:60], d1[60], f1[66] = np.arange(-20, 20) / 2, np.nan, np.nan
    s1 = np.arange(N, dtype="f2") / 4 - 32
    s2 = bf16(s1.astype("f4") / 3)
    wanted = {}
    modes = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
    whole = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    for mode, function in modes.items():
        for kind, (source, name, x) in itertools.product(
            INTEGERS, (("f32", "f1", f1), ("f64", "d1", d1))
        ):
            q, dtype = INTEGERS[kind]
            low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
            bits = 8 * np.dtype(dtype).itemsize
            nan = 1 << bits - 1 if source == "f64" or bits == 64 else 0
            cut = np.clip(x, -1e30, 1e30).tolist()
            want = [nan if v != v else min(max(function(v), low), high) for v in cut]
            wanted[f"cvt.{mode}.{kind}.{source} {q}9, {name}"] = np.array(want, object)
        wanted |= {
            f"cvt.{mode}.f32.f32 f9, f1": whole[mode](f1),
            f"cvt.{mode}.f16.f16 s9, s1": whole[mode](s1),
            f"cvt.{mode}.bf16.bf16 s9, s2": bf16(whole[mode](bf(s2))),
        }
    check(wanted, f1=f1, d1=d1, s1=s1, s2=s2)


def test_integers_become_floats_in_every_rounding_mode():
    given, wanted = {}, {}
    to = {
        "f32": (24, "f9, {}"), "f64": (53, "d9, {}"), "bf16": (8, "s5, {}; cvt.f32.bf16 f9, s5"),
    }  # fmt: skip
    for i, (kind, (q, dtype)) in enumerate(INTEGERS.items()):
        name, a = f"{q}{1 + i % 2}", words(60 + i, dtype)
        # Just above the middle of two bfloat16: float64 loses the 1.
        a[-3:] = np.array([(1 << 60) + (1 << 52) + 1, (1 << 24) + 1, (1 << 30) + 1]).astype(dtype)
        given[name] = a
        for mode, (float_, (digits, out)) in itertools.product(MODES, to.items()):
            want = np.array([rounded(Fraction(v), digits, mode) for v in a.tolist()])
            wanted[f"cvt.{mode}.{float_}.{kind} {out.format(name)}"] = want
    wanted["cvt.rn.f16.s32 s9, r1"] = given["r1"].astype("f8").astype("f2")
    wanted["cvt.rn.sat.f32.s32 f9, r1"] = saturated(given["r1"].astype("f4"))
    check(wanted, **given)


def test_floats_are_converted():
    f1, f2, f3 = floats(19), floats(21), floats(99)
    f3[:8] = [1e-39, -1e-39, 0.25, 0.75, 2, -2, 1 + 2**-11, -0.0]
    d1, s1 = floats(18, "f8"), floats(20, "f2")
    f1[50:150], d1[50:180] = f1[50:150] % 9, d1[50:180] % 7
    one = np.clip(f1, -3, 3).astype("f2")
    both = np.stack([f2, f1], 1)
    wanted = {
        "cvt.rn.f32.f64 f9, d1": d1.astype("f4"),
        "cvt.rn.ftz.f32.f64 f9, d1": tiny(d1.astype("f4")),
        "cvt.f64.f32 d9, f1": f1,
        "cvt.ftz.f64.f32 d9, f3": tiny(f3),
        "cvt.ftz.f32.f32 f9, f3": tiny(f3),
        "cvt.sat.f32.f32 f9, f1": saturated(f1),
        "cvt.rn.f16.f32 s9, f1": f1.astype("f2"),
        "cvt.rn.ftz.f16.f32 s9, f3": tiny(f3).astype("f2"),
        "cvt.sat.f16.f32 s9, f1": saturated(f1).astype("f2"),
        "cvt.rn.relu.f16.f32 s9, f1": rectified(f1).astype("f2"),
        "cvt.rn.f16.f64 s9, d1": d1.astype("f2"),
        "cvt.f32.f16 f9, s1": s1,
        "cvt.f64.f16 d9, s1": s1,
        "cvt.rn.f16x2.f32 r9, f1, f2": both.astype("f2"),
        "cvt.rn.relu.f16x2.f32 r9, f1, f2": rectified(both).astype("f2"),
        "cvt.rn.bf16.f32 s9, f1": bf16(f1),
        "cvt.rn.relu.bf16.f32 s9, f1": bf16(rectified(f1)),
        "cvt.rn.relu.bf16x2.f32 r9, f1, f2": bf16(rectified(both)),
        "cvt.f32.bf16 f9, s2": bf(one.view("u2")),
        "cvt.rna.tf32.f32 r9, f3": f3.view("u4") + 0x1000 & 0xFFFFE000,
        "cvt.rz.tf32.f32 r9, f3": f3.view("u4") & 0xFFFFE000,
        "tanh.approx.f16 s9, s1": np.tanh(s1.astype("f8")).astype("f2"),
        "tanh.approx.bf16x2 r9, r1": bf16(np.tanh(bf(words(43)).astype("f8"))),
        "ex2.approx.f16x2 r9, r1": np.exp2(pairs(words(43)).astype("f8")).astype("f2"),
        "ex2.approx.ftz.bf16 s9, s2": bf16(np.exp2(bf(one.view("u2")).astype("f8"))),
        # As cuda_fp16.h writes its functions: registers of bits that hold floats.
        """{.reg.b16         hl, hu; .reg.b32         fl,fu,C,nZ; mov.b32         {hl, hu}, r1;
        mov.b32 C, 0X3F000000U; mov.b32 nZ, 0x80000000U; cvt.f32.f16 fl, hl; cvt.f32.f16 fu, hu;
        fma.rn.f32 fl,fl,C,nZ; fma.rn.f32 fu,fu,C,nZ; cvt.rn.f16.f32 hl, fl; cvt.rn.f16.f32 hu, fu;
        mov.b32 r9, {hl, hu};}""": pairs(words(43)) / np.float16(2),
    }
    for mode in MODES:
        for source, name, x in (("f32", "f1", f1), ("f64", "d1", d1)):
            want = exactly(lambda x: x, x, mode=mode, to="f4", digits=8)
            wanted[f"cvt.{mode}.bf16.{source} s5, {name}; cvt.f32.bf16 f9, s5"] = want
            wanted[f"cvt.{mode}.f16.{source} s9, {name}"] = exactly(
                lambda x: x, x, mode=mode, to="f2"
            )
        wanted[f"cvt.{mode}.f32.f64 f9, d1"] = exactly(lambda x: x, d1, mode=mode, to="f4")
    check(wanted, f1=f1, f2=f2, f3=f3, d1=d1, s1=s1, s2=one, r1=words(43))


def test_moves_constants_and_addresses():
    s1, s2, s3 = (words(seed, "u2") for seed in (41, 42, 43))
    r1, r2, l1 = words(44), words(45), words(46, "u8")
    f1, d1, d2, h = floats(97), floats(101, "f8"), floats(102, "f8"), floats(103, "f2")
    wanted = {
        "mov.b64 l9, {r1, r2}": r1 | (r2.astype("u8") << 32),
        "mov.b64 {t, r9}, l1": l1 >> 32,
        "mov.b32 {s5, s6}, r1; mov.b32 r9, {s6, s5}": (r1 >> 16) | (r1 << 16),
        "{.reg .b8 a, b, c, e; mov.b32 {a, b, c, e}, r1; mov.b32 r9, {e, c, b, a};}": r1.byteswap(),
        "mov.b64 l9, {s1, s2, s3, s1}": np.stack([s1, s2, s3, s1], 1).view("u8")[:, 0],
        "mov.b64 {s5, _, _, s9}, l1; xor.b16 s9, s9, s5": (l1 >> 48) ^ l1,
        "mov.b32 r9, {s1, s3}": np.stack([s1, s3], 1).view("u4")[:, 0],
        "mov.b32 r9, f1": f1.view("u4"),
        "setp.ne.s32 p1, r1, 0; selp.f64 d9, d1, d2, p1": np.where(r1 != 0, d1, d2),
        "slct.f64.s32 d9, d1, d2, r2": np.where(r2.view("i4") >= 0, d1, d2),
        "add.u32 r9, r1, WARP_SZ": r1 + np.uint32(32),
        "xor.b16 s9, s1, -1": ~s1,
        "add.f32 f9, f1, 1.5": f1 + np.float32(1.5),
        "add.f32 f9, f1, 0d3FF8000000000000": f1 + np.float32(1.5),
        "add.f32 f9, f1, 0x40000000": f1 + np.float32(2),
        "mul.f64 d9, d1, 0.1": d1 * 0.1,
        "add.f16 s9, s4, 0x3C00": h + np.float16(1),
        "add.f16 s9, s4, 0f3F800000": h + np.float16(1),
        "add.f16 s9, s4, 1.0": h + np.float16(1),
        "xor.b32 r9, r1, 0f3F800000": r1 ^ np.uint32(0x3F800000),
        "xor.b64 l9, l1, 0d3FF0000000000000": l1 ^ np.uint64(0x3FF0000000000000),
        "cvta.shared.u64 l9, l1; cvta.to.shared.u64 l9, l9; isspacep.shared p1, l9; "
        "selp.b64 l9, 0, l9, p1": l1,
        "cvta.local.u64 l9, l1; cvta.shared.u64 x, l1; sub.u64 l9, l9, x": np.full(N, 1 << 56),
        "cvta.global.u64 l9, l1; cvta.to.global.u64 l9, l9": l1,
        "st.global.L2::cache_hint.u32 [spare], r1, l1; "
        "ld.global.L2::cache_hint.u32 r9, [spare], l1": r1,
        "st.global.b32 [spare], 7; ld.global.b32 r9, [spare]": np.full(N, 7),
        "st.global.b64 [spare], d1; ld.global.b64 l9, [spare]": d1.view("u8"),
        "st.global.b64 [spare], 0x3ff0000000000001; ld.global.b64 l9, [spare]": np.full(
            N, 0x3FF0000000000001
        ),
        "st.global.b32 [spare], f1; ld.global.b32 r9, [spare]": f1.view("u4"),
        "st.global.v2.b32 [spare], {r1, f1}; ld.global.b64 l9, [spare]": (
            r1 | f1.view("u4").astype("u8") << 32
        ),
        "st.global.b16 [spare], s1; ld.global.b16 s9, [spare]": s1,
        "mov.u64 l9, %clock64; mov.b64 l9, 3": np.full(N, 3),
        # The launch before has ended.
        "griddepcontrol.wait; griddepcontrol.launch_dependents; mov.b32 r9, 3": np.full(N, 3),
        "mov.b32 r9, %laneid; add.u32 r9, r9, %ntid.x": np.arange(N) % 32 + N,
    }
    check(wanted, s1=s1, s2=s2, s3=s3, s4=h, r1=r1, r2=r2, l1=l1, f1=f1, d1=d1, d2=d2)


@pytest.mark.parametrize(("kind", "fraction", "bias"), [("e4m3", 3, 7), ("e5m2", 2, 15)])
def test_floats_of_8_bits(kind, fraction, bias):
    """OCP 8-bit Floating Point Specification: to the nearest, ties to even, at most the largest."""
    code = np.arange(128)
    exponent, rest = code >> fraction, (code & (1 << fraction) - 1) / (1 << fraction)
    values = ((exponent > 0) + rest) * 2.0 ** (np.maximum(exponent, 1) - bias)
    values[-1 if kind == "e4m3" else -3 :] = np.nan
    values[-4] = values[-4] if kind == "e4m3" else np.inf
    finite = values[np.isfinite(values)]

    def encoded(x):
        far = np.abs(finite - np.minimum(np.abs(x.astype("f8")), finite[-1])[:, None])
        even = far - 1e-9 * far * (np.arange(len(finite)) % 2 == 0)
        return np.where(np.isnan(x), 0x7F, even.argmin(axis=1) + 128 * np.signbit(x))

    f1, f2 = (floats(seed) for seed in (67, 68))
    f1[20:150] *= 2.0 ** np.random.default_rng(67).integers(-30, 10, 130)
    f1[150:170] = (finite[40:60] + finite[41:61]) / 2
    f1[170:174], f1[174:200] = (448, 464, 465, 61440), (finite[:26] + finite[1:27]) / 2
    pair, both = words(70, "u2"), np.stack([f2, f1], 1).astype("f2")
    of = {low: np.concatenate([values, -values])[pair >> 8 * low & 255] for low in (0, 1)}
    wanted = {
        f"cvt.rn.satfinite.{kind}x2.f32 s9, f1, f2": encoded(f1) << 8 | encoded(f2),
        f"cvt.rn.satfinite.relu.{kind}x2.f32 s9, f1, f2": (
            encoded(rectified(f1)) << 8 | encoded(rectified(f2))
        ),
        f"cvt.rn.satfinite.{kind}x2.f16x2 s9, r1": encoded(both[:, 1]) << 8 | encoded(both[:, 0]),
        f"cvt.rn.f16x2.{kind}x2 r9, s1": np.stack([of[0], of[1]], 1).astype("f2"),
    }
    check(wanted, f1=f1, f2=f2, s1=pair, r1=both.view("u4")[:, 0])


# -- what is not emulated ------------------------------------------------------------------------


def test_what_is_not_emulated_is_named_with_its_line():
    text = "multimem.ld_reduce.relaxed.sys.global.add.u64 x, [%0];"
    source = f"""__global__ void k(int* p)
    {{
        asm volatile("{{.reg .b64 x; {text}}}" :: "l"(p));
    }}"""
    with pytest.raises(EmulationError, match=r"line 3.*multimem.*TMA, wgmma, clusters"):
        emulator.launch(source, "k", 1, 1, [words()], arch="sm_90")


# -- atomics, against a loop over the threads -----------------------------------------------------

ATOMICS = {
    "u32": "add min max inc dec", "s32": "add min max", "u64": "add min max", "s64": "min max",
    "b32": "and or xor exch cas", "b64": "and or xor exch cas", "b16": "cas", "f32": "add",
    "f64": "add", "f16": "add", "bf16": "add", "f16x2": "add", "bf16x2": "add",
}  # fmt: skip


def as_numbers(kind, bits):
    """Bits as numbers of a PTX type; pairs on a last axis."""
    if kind.startswith("bf16"):
        return bf(bits.view("u2"))
    if kind[0] == "f":
        return bits.view(f"f{int(kind[1:3]) // 8}")
    return bits.view(f"{'i' if kind[0] == 's' else 'u'}{bits.itemsize}")


def updated(kind, op, old, b, c):
    """The bits that an atomic puts in place of others. Source: PTX ISA, atom."""
    x, y = as_numbers(kind, old), as_numbers(kind, b)
    new = {
        "add": lambda: x + y, "min": lambda: np.minimum(x, y), "max": lambda: np.maximum(x, y),
        "and": lambda: x & y, "or": lambda: x | y, "xor": lambda: x ^ y, "exch": lambda: y,
        "inc": lambda: np.where(x >= y, 0, x + 1), "cas": lambda: np.where(x == y, c, x),
        "dec": lambda: np.where((x == 0) | (x > y), y, x - 1),
    }[op]()  # fmt: skip
    return (bf16(new) if kind.startswith("bf16") else new.astype(x.dtype)).view(old.dtype)


@pytest.mark.parametrize("places", [1, 5])
@pytest.mark.parametrize("kind", ATOMICS)
def test_atomics_are_served_in_the_order_of_the_threads(kind, places):
    """Two blocks of 80 threads, of which two in nine take no part; on global and shared memory."""
    ops, rng = ATOMICS[kind].split(), np.random.default_rng(places)
    size = {"f16x2": 4, "bf16x2": 4, "bf16": 2}.get(kind) or int(kind[1:]) // 8
    q, bits = {"f32": "f", "f64": "d"}.get(kind, {2: "s", 4: "r", 8: "l"}[size]), f"u{size}"
    if "f" in kind:  # whole numbers, of which sums are exact
        whole = rng.integers(-3, 4, 2000).astype("f4")
        drawn = (bf16(whole) if kind[0] == "b" else whole.astype(f"f{int(kind[1:3]) // 8}")).view(
            bits
        )
    else:
        drawn = rng.integers(0, 2 if "cas" in ops else 9, 600).astype(bits)
        drawn = np.where(rng.random(600) < 0.5, drawn, ~drawn if "cas" not in ops else drawn)
    cells = 5 * len(ops)
    b, c, start = drawn[:160], drawn[160:320], drawn[320 : 320 + cells]
    at, here = rng.integers(0, places, 160).astype("u4"), np.arange(160) % 9 > 1
    memory, own = np.zeros(160, "u8"), np.resize(np.resize(start, 80), 160)
    memory.view(bits)[: cells * (8 // size) : 8 // size] = start
    declared = f""".shared .align 8 .b8 own[{8 * cells}]; mov.u32 r15, own; mov.b{8 * size} {q}9, 0;
    mov.u32 r13, %tid.x; mov.u32 r14, %tid.y; mad.lo.u32 r13, r14, 16, r13;
    setp.lt.u32 p1, r13, {cells}; mad.lo.u32 r14, r13, 8, r15;
    @p1 st.shared.b{8 * size} [r14], {q}3;
    mad.lo.u32 r15, r12, 8, r15; ld.param.u64 x, [given]; mad.wide.u32 l15, r12, 8, x;
    setp.ne.u32 p1, r11, 0; bar.sync 0;"""
    wanted = {}
    noftz = ".noftz" if "16" in kind and kind != "b16" else ""
    for (o, op), space in itertools.product(enumerate(ops), ("global", "shared")):
        place = f"[{'l15' if space == 'global' else 'r15'}+{40 * o}]"
        rows = np.tile(start[5 * o : 5 * o + 5], (2, 1))
        seen = np.ma.array(np.zeros(160, bits), mask=~here)
        for i in np.flatnonzero(here):
            cell = rows[i // 80 if space == "shared" else 0, at[i] : at[i] + 1]
            seen[i] = cell[0]
            cell[:] = updated(kind, op, cell, b[i : i + 1], c[i : i + 1])
        left = rows[np.arange(160) // 80 if space == "shared" else 0, at]
        third = f", {q}2" if op == "cas" else ""
        text = f"@p1 atom.{space}.{op}{noftz}.{kind} {q}9, {place}, {q}1{third}"
        wanted[text] = seen.view(REGISTERS[q])
        load = "relaxed.gpu.global" if space == "global" else "shared"
        wanted[f"bar.sync 0; ld.{load}.b{8 * size} {q}9, {place}"] = left.view(REGISTERS[q])
    given = {f"{q}{i}": v for i, v in enumerate((b, c, own), 1)}
    check(wanted, 2, (16, 5), declared, l10=memory, r11=here.astype("u4"), r12=at, **given)
