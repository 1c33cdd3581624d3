"""Arithmetic of PTX on NumPy arrays, bit for bit where the PTX ISA defines the bits.

Every function takes and returns arrays of the four axes described in `machine`. float32 and
float16 results are rounded once: products and sums are formed in float64, which holds the product
of two float32 exactly, and the one case in which rounding twice could differ (a float64 sum that
lies halfway between two float32 values) is found and repaired.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from nogpu.bfloat16 import bfloat16_bits, from_bfloat16
from nogpu.emulator.machine.lanes import Array

i1, i2, i4, i8 = (np.dtype(f"i{n}") for n in (1, 2, 4, 8))
u1, u2, u4, u8 = (np.dtype(f"u{n}") for n in (1, 2, 4, 8))
f2, f4, f8 = (np.dtype(f"f{n}") for n in (2, 4, 8))

# Arrays: NumPy takes longer for scalars, which it makes arrays of.
_LOW29 = np.array(0x1FFFFFFF, i8)
_HALF29 = np.array(0x10000000, i8)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b rounded, and the rounding error (Knuth): both exact in float64."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _to_odd(s: Array, e: Array) -> Array:
    """s + e rounded to odd: a later rounding to fewer bits is then as good as a single one."""
    bits = s.view(i8)
    # Towards zero first, then the last bit set whenever something was cut off.
    toward = (e != 0) & ((e < 0) == (s > 0)) & (s != 0)
    bits = np.where(toward, bits - 1, bits)
    return np.where((e != 0) & np.isfinite(s), bits | 1, s.view(i8)).view(f8)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in float32, rounded once to nearest."""
    s = np.multiply(a, b, dtype=f8)
    if s.shape == c.shape or c.size == 1:
        s += c
    else:
        s = s + c
    r = s.astype(f4)
    low = s.view(i8)
    np.bitwise_and(low, _LOW29, out=low)
    tie = low == _HALF29
    if np.count_nonzero(tie):
        at = np.nonzero(tie)
        x, y, z = (np.broadcast_to(v, s.shape)[at] for v in (a, b, c))
        r[at] = fma32_exact(x, y, z).astype(f4)
    return r


def fma32_exact(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of float32 values as a float64 that rounds to the right float32 in any mode."""
    p = np.multiply(a, b, dtype=f8)
    s, e = _two_sum(p, np.broadcast_to(c.astype(f8), np.broadcast_shapes(p.shape, c.shape)))
    return _to_odd(s, np.where(np.isfinite(s), e, 0.0))


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    p = a * b
    split = 134217729.0  # 2^27 + 1 (Veltkamp)
    ah = a * split
    ah = ah - (ah - a)
    al = a - ah
    bh = b * split
    bh = bh - (bh - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in float64, rounded once away from over- and underflow.

    Source: Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    plain = a * b + c
    uh, ul = _two_product(a, b)
    th, tl = _two_sum(c, ul)
    vh, vl = _two_sum(uh, th)
    s, e = _two_sum(tl, vl)
    exact = vh + _to_odd(s, np.where(np.isfinite(e), e, 0.0))
    return np.where(np.isfinite(exact), exact, plain)


def directed(exact: Array, mode: str, kind: np.dtype[Any] = f4) -> Array:
    """A float rounded to a narrower one: to nearest ("rn"), toward zero ("rz"), minus ("rm") or
    plus infinity ("rp").
    """
    r = exact.astype(kind)
    if mode == "rn":
        return r
    back = r.astype(exact.dtype)
    return _moved(r, back > exact, back < exact, mode)


def _moved(nearest: Array, above: Array, below: Array, mode: str) -> Array:
    """What was rounded to nearest, as a directed mode rounds it. above, below: where it lies above
    and below the exact value.
    """
    if mode == "rz":
        wrong, end = np.where(nearest > 0, above, below), 0.0
    else:
        wrong, end = (above, -np.inf) if mode == "rm" else (below, np.inf)
    return np.where(wrong, np.nextafter(nearest, nearest.dtype.type(end)), nearest)


def add32(a: Array, b: Array, mode: str) -> Array:
    """float32 addition in a directed rounding mode."""
    s, e = _two_sum(*np.broadcast_arrays(a.astype(f8), b.astype(f8)))
    return directed(_to_odd(s, np.where(np.isfinite(s), e, 0.0)), mode)


def fma32_mode(a: Array, b: Array, c: Array, mode: str) -> Array:
    """float32 a * b + c in a directed rounding mode."""
    return directed(fma32_exact(a, b, c), mode)


def mul32_mode(a: Array, b: Array, mode: str) -> Array:
    """float32 product in a directed rounding mode."""
    return directed(np.multiply(a, b, dtype=f8), mode)


def div32(a: Array, b: Array) -> Array:
    """float32 quotient. Through float64, which has enough digits for the second rounding."""
    return np.divide(a, b, dtype=f8).astype(f4)


def div32_mode(a: Array, b: Array, mode: str) -> Array:
    """float32 quotient in a directed rounding mode."""
    return directed(np.divide(a, b, dtype=f8), mode)


def _directed64(nearest: Array, error: Array, mode: str, *given: Array) -> Array:
    """Move a float64 that was rounded to nearest, given the sign of what rounding cut off. Of given
    numbers that are all finite an infinite one is too large.
    """
    over = np.isinf(nearest)
    for number in given:
        over = over & np.isfinite(number)
    error = np.where(over, -nearest, np.where(np.isfinite(nearest), error, 0.0))
    return _moved(nearest, error < 0, error > 0, mode)


def add64_mode(a: Array, b: Array, mode: str) -> Array:
    """float64 sum in a directed rounding mode."""
    s, e = _two_sum(*np.broadcast_arrays(a, b))
    return _directed64(s, e, mode, a, b)


def mul64_mode(a: Array, b: Array, mode: str) -> Array:
    """float64 product in a directed rounding mode."""
    p, ((x, i), (y, j)) = a * b, (np.frexp(a), np.frexp(b))
    q, e = _two_product(x, y)  # p and its error, scaled: they neither over- nor underflow
    return _directed64(p, (q - np.ldexp(p, -(i + j))) + e, mode, a, b)


def div64_mode(a: Array, b: Array, mode: str) -> Array:
    """float64 quotient in a directed rounding mode, away from underflow.

    What rounding cut off has the sign of a - q * b (which an fma gives exactly), turned round where
    b is negative.
    """
    a, b = np.broadcast_arrays(a, b)
    q = a / b
    rest = fma64(-q, b, a)
    error = np.where(np.isfinite(rest), np.where(b < 0, -rest, rest), 0.0)
    return _directed64(q, error, mode, a, np.where(b == 0, np.inf, b))


def sqrt64_mode(x: Array, mode: str) -> Array:
    """float64 square root in a directed rounding mode."""
    q = np.sqrt(x)
    rest = fma64(-q, q, x)
    return _directed64(q, np.where(np.isfinite(rest), rest, 0.0), mode)


def fma64_mode(a: Array, b: Array, c: Array, mode: str) -> Array:
    """float64 a * b + c in a directed rounding mode."""
    r = fma64(a, b, c)
    p, e = _two_product(*np.broadcast_arrays(a, b))
    s, t = _two_sum(p, -r)
    rest = (s + c) + (t + e)
    return _directed64(r, np.where(np.isfinite(rest), rest, 0.0), mode, a, b, c)


def flush(x: Array) -> Array:
    """Subnormal values of x's type to zero of the same sign (.ftz)."""
    tiny = np.abs(x) < np.finfo(x.dtype).tiny
    if tiny.any():
        return np.where(tiny, np.copysign(x.dtype.type(0), x), x)
    return x


def flush_bf16(x: Array) -> Array:
    """float64 values that are subnormal as bfloat16 to zero of the same sign (.ftz)."""
    return np.where(np.abs(x) < 2.0**-126, np.copysign(0.0, x), x)


_ZEROS = {
    f: (i, np.array(0, i), np.array(np.iinfo(i).min, i)) for f, i in ((f2, i2), (f4, i4), (f8, i8))
}
"""By type of floats: one of as wide integers, and the bits of +0 and -0."""


def _zeros_in_order(r: Array, a: Array, b: Array, least: bool) -> Array:
    """The least or the greatest of a and b, whose zero is -0 or +0 if either of them is.

    Source: PTX ISA, min and max: +0 > -0; NumPy leaves one or the other. A zero of the other sign
    may be wrong: of what is not clamped at zero there are few.
    """
    if r.dtype.kind != "f":
        return r
    kind, wrong, right = _ZEROS[r.dtype]
    if not least:
        wrong, right = right, wrong
    bits = r.view(kind)
    at = bits == wrong
    if np.count_nonzero(at):
        at &= (a.view(kind) == right) | (b.view(kind) == right)
        if np.count_nonzero(at):
            return np.where(at, right, bits).view(r.dtype)
    return r


def fmin(a: Array, b: Array) -> Array:
    """The lesser of two numbers; beside a NaN the other one."""
    return _zeros_in_order(np.fmin(a, b), a, b, True)


def fmax(a: Array, b: Array) -> Array:
    """The greater of two numbers; beside a NaN the other one."""
    return _zeros_in_order(np.fmax(a, b), a, b, False)


def minimum(a: Array, b: Array) -> Array:
    """The lesser of two numbers, or a NaN if either is one."""
    return _zeros_in_order(np.minimum(a, b), a, b, True)


def maximum(a: Array, b: Array) -> Array:
    """The greater of two numbers, or a NaN if either is one; b may be a NumPy scalar."""
    return _zeros_in_order(np.maximum(a, b), a, b, False)


def xor_signed(function: Any, a: Array, b: Array) -> Array:
    """min or max of magnitudes, with the product's sign (.xorsign.abs); NaN as the function has it.

    Source: PTX ISA, min and max: .xorsign looks at both signs before .abs; both leave a NaN alone.
    """
    r = function(np.abs(a), np.abs(b))
    return np.where(np.signbit(a) ^ np.signbit(b), -r, r)


def saturate(x: Array) -> Array:
    """Clamp to [0, 1]; NaN and -0 become 0 (.sat; an H200)."""
    kind = x.dtype.type
    return np.fmin(fmax(x, kind(0)), kind(1))


def fma16(a: Array, b: Array, c: Array) -> Array:
    """float16 a * b + c, rounded once."""
    return (np.multiply(a, b, dtype=f8) + c).astype(f2)


def bf16_value(bits: Array) -> Array:
    """float32 value of bfloat16 bits held in int16."""
    return from_bfloat16(bits.view(u2))


def bf16_bits(x: Array, mode: str = "rn") -> Array:
    """bfloat16 bits (int16) of float32 or float64 values; modes as for `bfloat16_bits`."""
    return bfloat16_bits(x, mode).view(i2)


_FP8 = {"e4m3": (3, 7, 448.0), "e5m2": (2, 15, 57344.0)}
"""8-bit floats: bits of fraction, exponent bias, largest finite value."""


def fp8_bits(x: Array, kind: str) -> Array:
    """8-bit floats (uint8) of float values: to nearest, ties to even, no larger than the largest.

    Source: OCP 8-bit Floating Point Specification 1.0; NaN becomes 0x7f, as cvt.satfinite has it.
    """
    fraction, bias, largest = _FP8[kind]
    a = np.minimum(np.abs(x.astype(f8)), largest)
    a = np.where(np.isnan(a), 0.0, a)
    exponent = np.where(a == 0, 1 - bias, np.maximum(np.frexp(a)[1] - 1, 1 - bias))
    steps = np.rint(np.ldexp(a, fraction - exponent)).astype(i4)  # up to 2 << fraction: carries
    bits = ((exponent + (bias - 1)) << fraction) + steps
    sign = np.signbit(x).astype(i4) << 7
    return np.where(np.isnan(x), 0x7F, bits | sign).astype(np.uint8)


def fp8_value(bits: Array, kind: str) -> Array:
    """float16 values of 8-bit floats (uint8); every one of them fits."""
    fraction, bias, _ = _FP8[kind]
    if kind == "e5m2":
        return (bits.astype(u2) << u2.type(8)).view(f2)
    magnitude = (bits & 0x7F).astype(i4)
    exponent = np.maximum(magnitude >> fraction, 1)
    steps = magnitude - ((exponent - 1) << fraction)
    value = np.where(magnitude == 0x7F, np.nan, np.ldexp(1.0 * steps, exponent - bias - fraction))
    return np.where(bits >> 7 == 1, -value, value).astype(f2)


def fp8_pair(low: Array, high: Array, kind: str, relu: bool) -> Array:
    """Two 8-bit floats in 16 bits."""
    a, b = (maximum(v, v.dtype.type(0)) if relu else v for v in (low, high))
    both = fp8_bits(a, kind).astype(u2) | fp8_bits(b, kind).astype(u2) << u2.type(8)
    return both.view(i2)


def fp8_halves(pair: Array, kind: str) -> Array:
    """The two float16 values of a pair of 8-bit floats; (..., 2)."""
    both = pair.view(u2)
    parts = np.stack([both & u2.type(255), both >> u2.type(8)], axis=-1).astype(np.uint8)
    return fp8_value(parts, kind)


def tf32_bits(x: Array, mode: str = "rna") -> Array:
    """float32 bits rounded to TF32 (10 bits of fraction): nearest, ties away ("rna") or even."""
    bits = x.view(u4)
    odd = (bits >> u4.type(13)) & u4.type(1)
    more = {"rz": u4.type(0), "rn": u4.type(0xFFF) + odd, "rna": u4.type(0x1000)}[mode]
    out = (bits + more) & u4.type(0xFFFFE000)
    return np.where(np.isfinite(x), out, bits).view(i4)


def tf32_value(bits: Array) -> Array:
    """float32 value that a Tensor Core sees in a TF32 operand: the low 13 bits are ignored."""
    return (bits.view(u4) & u4.type(0xFFFFE000)).view(f4)


def unpack16(x: Array) -> Array:
    """The two 16-bit halves of a 32-bit register as int16, on a new last axis (low first)."""
    return np.ascontiguousarray(x).view(i2).reshape(*x.shape, 2)


def pack16(halves: Array) -> Array:
    """Inverse of `unpack16`, from int16 or float16."""
    return np.ascontiguousarray(halves).view(i4).reshape(halves.shape[:-1])


def half2(x: Array) -> Array:
    """A 32-bit register as two float16 on a new last axis."""
    return unpack16(x).view(f2)


def join16(low: Array, high: Array) -> Array:
    """Two 16-bit registers to one of 32 bits."""
    return (low.view(u2).astype(u4) | (high.view(u2).astype(u4) << u4.type(16))).view(i4)


def join32(low: Array, high: Array) -> Array:
    """Two 32-bit registers to one of 64 bits."""
    return (low.view(u4).astype(u8) | (high.view(u4).astype(u8) << u8.type(32))).view(i8)


def div_int(a: Array, b: Array) -> Array:
    """Integer quotient, truncated toward zero; a division by zero gives all bits one."""
    zero = b == 0
    safe = b | zero
    q = a // safe
    if a.dtype.kind == "i":
        q = q + ((a % safe != 0) & ((a < 0) != (safe < 0)))
    return np.where(zero, np.array(-1).astype(a.dtype), q)


def rem_int(a: Array, b: Array) -> Array:
    """Integer remainder with the sign of the dividend; by zero it is the dividend."""
    zero = b == 0
    return np.where(zero, a, np.fmod(a, b | zero))


def mulhi(a: Array, b: Array) -> Array:
    """High half of an integer product."""
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = i8 if a.dtype.kind == "i" else u8
        return (np.multiply(a, b, dtype=wide) >> wide.type(bits)).astype(a.dtype)
    mask, half = u8.type(0xFFFFFFFF), u8.type(32)
    x, y = a.view(u8), b.view(u8)
    x0, x1, y0, y1 = x & mask, x >> half, y & mask, y >> half
    mid = x1 * y0 + ((x0 * y0) >> half)
    low = (mid & mask) + x0 * y1
    high = x1 * y1 + (mid >> half) + (low >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, u8.type(0)) - np.where(b < 0, x, u8.type(0))
    return high.view(a.dtype)


def shift_left(a: Array, n: Array) -> Array:
    """a << n with shifts of the width and more giving 0; n is unsigned 32-bit."""
    n = n.view(u4)
    bits = a.dtype.itemsize * 8
    amount = np.minimum(n, u4.type(bits)).astype(a.dtype)
    return np.where(n >= bits, a.dtype.type(0), a << np.minimum(amount, a.dtype.type(bits - 1)))


def shift_right(a: Array, n: Array) -> Array:
    """a >> n (arithmetic for signed types) with n clamped to the width; n is unsigned 32-bit."""
    n = n.view(u4)
    bits = a.dtype.itemsize * 8
    shifted = a >> np.minimum(n, u4.type(bits - 1)).astype(a.dtype)
    return shifted if a.dtype.kind == "i" else np.where(n >= bits, a.dtype.type(0), shifted)


def funnel(low: Array, high: Array, n: Array, left: bool, clamp: bool) -> Array:
    """shf.l / shf.r on the 64 bits high:low; n wraps at 32 or is clamped to it."""
    n = n.view(u4)
    n = np.minimum(n, u4.type(32)) if clamp else n & u4.type(31)
    pair = join32(low, high).view(u8)
    if left:
        return ((pair << n.astype(u8)) >> u8.type(32)).astype(u4).view(i4)
    return (pair >> n.astype(u8)).astype(u4).view(i4)


def _low_bits(count: Array, kind: np.dtype[Any]) -> Array:
    """As many of the lowest bits, of an unsigned type."""
    ones = shift_left(np.ones((1, 1, 1, 1), kind), count) - kind.type(1)
    return np.where(count >= kind.itemsize * 8, ~kind.type(0), ones)


def extract(a: Array, start: Array, length: Array) -> Array:
    """bfe: `length` bits from bit `start`, sign-extended for signed types."""
    bits = a.dtype.itemsize * 8
    start, length = start.view(u4) & u4.type(255), length.view(u4) & u4.type(255)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    x = a.view(unsigned)
    out = shift_right(x, start) & _low_bits(length, unsigned)
    if a.dtype.kind == "i":
        last = np.minimum(start + np.maximum(length, u4.type(1)) - u4.type(1), u4.type(bits - 1))
        sign = (shift_right(x, last) & unsigned.type(1)).astype(bool) & (length > 0)
        inside = np.minimum(length, u4.type(bits) - np.minimum(start, u4.type(bits)))
        out = np.where(sign, out | ~_low_bits(inside, unsigned), out)
    return out.view(a.dtype)


def insert(a: Array, b: Array, start: Array, length: Array) -> Array:
    """bfi: the low `length` bits of a put into b at bit `start`."""
    start, length = start.view(u4) & u4.type(255), length.view(u4) & u4.type(255)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    x, y = a.view(unsigned), b.view(unsigned)
    mask = shift_left(_low_bits(length, unsigned), start)
    return ((y & ~mask) | (shift_left(x, start) & mask)).view(a.dtype)


def clamped(n: Array, wrap: bool) -> Array:
    """A position or a width of bmsk and szext: at most 32, or its low five bits; as int32."""
    u = n.view(u4)
    return (u & u4.type(31) if wrap else np.minimum(u, u4.type(32))).view(i4)


def popcount(x: Array) -> Array:
    """Number of bits that are one, as int32."""
    return np.bitwise_count(x.view(np.dtype(f"u{x.dtype.itemsize}"))).astype(i4)


def _smear(x: Array) -> Array:
    bits = x.dtype.itemsize * 8
    shift = 1
    while shift < bits:
        x = x | (x >> x.dtype.type(shift))
        shift *= 2
    return x


def leading_zeros(x: Array) -> Array:
    """Number of zeros above the highest one bit, as int32."""
    x = x.view(np.dtype(f"u{x.dtype.itemsize}"))
    return (x.dtype.itemsize * 8 - popcount(_smear(x))).astype(i4)


def find_leading(a: Array, shift_amount: bool) -> Array:
    """bfind: position of the highest bit that differs from the sign, or -1; as int32."""
    bits = a.dtype.itemsize * 8
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    x = np.where(a < 0, ~a, a).view(unsigned) if a.dtype.kind == "i" else a
    position = (bits - 1 - leading_zeros(x)).astype(i4)
    if shift_amount:
        return np.where(position < 0, i4.type(-1), i4.type(bits - 1) - position)
    return position


def reverse_bits(x: Array) -> Array:
    """brev."""
    kind = np.dtype(f"u{x.dtype.itemsize}")
    out = x.view(kind).byteswap()
    for shift, mask in ((4, 0x0F), (2, 0x33), (1, 0x55)):
        m = kind.type(int.from_bytes(bytes([mask]) * kind.itemsize, "little"))
        out = ((out >> kind.type(shift)) & m) | ((out & m) << kind.type(shift))
    return out.view(x.dtype)


def permute(a: Array, b: Array, selector: Array, mode: str = "") -> Array:
    """prmt: four bytes chosen from the eight of b:a; bit 3 of a selector copies the sign."""
    pair = join32(a, b).view(u8)
    s = selector.view(u4)
    if mode:
        n = s & u4.type(3)
        table = {
            "f4e": [(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)],
            "b4e": [(0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)],
            "rc8": [(0,) * 4, (1,) * 4, (2,) * 4, (3,) * 4],
            "ecl": [(0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)],
            "ecr": [(0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)],
            "rc16": [(0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)],
        }[mode]
        packed = np.array([sum(k << 4 * i for i, k in enumerate(row)) for row in table], u4)
        s = packed[n]
    out = u4.type(0)
    for i in range(4):
        pick = (s >> u4.type(4 * i)) & u4.type(15)
        byte = ((pair >> ((pick & u4.type(7)) * u4.type(8)).astype(u8)) & u8.type(255)).astype(u4)
        sign = np.where(byte & u4.type(128), u4.type(255), u4.type(0))
        byte = np.where(pick & u4.type(8), sign, byte)
        out = out | (byte << u4.type(8 * i))
    return np.asarray(out).view(i4)


def logic3(a: Array, b: Array, c: Array, table: int) -> Array:
    """lop3: any function of three bits, given by its truth table."""
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), i4)
    for k in range(8):
        if table >> k & 1:
            term = (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
            out = out | term
    return out


def dot_bytes(a: Array, b: Array, c: Array, a_signed: bool, b_signed: bool) -> Array:
    """dp4a: dot product of four bytes each, plus c."""
    total = c
    for i in range(4):
        x = (a >> i4.type(8 * i)).astype(i1 if a_signed else u1).astype(i4)
        y = (b >> i4.type(8 * i)).astype(i1 if b_signed else u1).astype(i4)
        total = total + x * y
    return total


def dot_halves(a: Array, b: Array, c: Array, a_signed: bool, b_signed: bool, high: bool) -> Array:
    """dp2a: dot product of two 16-bit values of a with two bytes of b, plus c."""
    total = c
    for i in range(2):
        x = (a >> i4.type(16 * i)).astype(i2 if a_signed else u2).astype(i4)
        y = (b >> i4.type(8 * i + (16 if high else 0))).astype(i1 if b_signed else u1).astype(i4)
        total = total + x * y
    return total


def round_integral(x: Array, mode: str) -> Array:
    """Round to an integral value: rni (ties to even), rzi, rmi, rpi."""
    return {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](x)


def float_to_int(x: Array, kind: np.dtype[Any], mode: str) -> Array:
    """cvt from floating point to an integer type: rounded and clamped. NaN becomes 0; of float64,
    or of 64 bits, the highest bit alone.

    Source: PTX ISA, cvt; an H200.
    """
    r = round_integral(x.astype(f8), mode)
    info = np.iinfo(kind)
    low, high = float(info.min), float(info.max)
    nan = np.isnan(r)
    lone = kind.type(info.min if kind.kind == "i" else 1 << 8 * kind.itemsize - 1)
    inside = np.clip(np.where(nan, 0.0, r), low, high)
    if kind.itemsize == 8:
        # float64 cannot hold the largest 64-bit integers: cap below, then set.
        top = inside >= high
        out = np.where(top, 0.0, inside).astype(kind)
        out = np.where(top, kind.type(info.max), out)
        return np.where(nan, lone, out)
    whole = inside.astype(kind)
    return np.where(nan, lone, whole) if x.dtype == f8 else whole


def saturate_int(x: Array, kind: np.dtype[Any]) -> Array:
    """cvt.sat between integer types: clamp to the range of the narrower type."""
    info, own = np.iinfo(kind), np.iinfo(x.dtype)
    low, high = max(int(info.min), int(own.min)), min(int(info.max), int(own.max))
    return np.clip(x, x.dtype.type(low), x.dtype.type(high)).astype(kind)


def int_to_f32(x: Array, mode: str) -> Array:
    """Integer to float32, rounded once."""
    if mode == "rn":
        return x.astype(f4)
    return directed(int_to_odd(x), mode)


def int_to_odd(x: Array) -> Array:
    """Integer to float64, rounded to odd: rounding that once more rounds the integer."""
    return x.astype(f8) if x.dtype.itemsize < 8 else _to_odd(*_halves64(x))


def int_to_f64(x: Array, mode: str) -> Array:
    """Integer to float64, rounded once."""
    if mode == "rn" or x.dtype.itemsize < 8:
        return x.astype(f8)
    return _directed64(*_halves64(x), mode)


def _halves64(x: Array) -> tuple[Array, Array]:
    """A 64-bit integer as the float64 nearest to it, and what that leaves: exact."""
    low = x & x.dtype.type(0xFFFFFFFF)
    return _two_sum((x - low).astype(f8), low.astype(f8))


def f64_to_f16(x: Array, mode: str) -> Array:
    """Round float64 (or float32) to float16: rn, or rz, rm, rp."""
    return directed(x, mode, f2)


def in32(function: Any, x: Array) -> Array:
    """A special function through float64, rounded to float32: at least as accurate as the GPU's."""
    return function(x.astype(f8)).astype(f4)


def sad(a: Array, b: Array, c: Array) -> Array:
    """c + |a - b|."""
    return c + np.where(a < b, b - a, a - b).view(c.dtype)


def test_property(x: Array, what: str) -> Array:
    """testp."""
    tiny = np.finfo(x.dtype).tiny
    return {
        "finite": lambda: np.isfinite(x),
        "infinite": lambda: np.isinf(x),
        "number": lambda: ~np.isnan(x),
        "notanumber": lambda: np.isnan(x),
        "normal": lambda: np.isfinite(x) & (np.abs(x) >= tiny),
        "subnormal": lambda: (x != 0) & (np.abs(x) < tiny),
    }[what]()


def reciprocal_root(x: Array) -> Array:
    """1 / sqrt(x)."""
    return 1 / np.sqrt(x)


def join_bytes(a: Array, b: Array, c: Array, d: Array) -> Array:
    """Four bytes, lowest first, to one 32-bit register."""
    parts = (x.view(u1).astype(u4) << u4.type(8 * i) for i, x in enumerate((a, b, c, d)))
    return reduce(np.bitwise_or, parts).view(i4)


def add_carry(frame: dict[str, Any], a: Array, b: Array, carry: Array | None) -> Array:
    """Unsigned sum; the carry out is left in the frame."""
    s = a + b
    out = s < a
    if carry is not None:
        t = s + carry.astype(s.dtype)
        out = out | (t < s)
        s = t
    frame["carry"] = out
    return s


def add_carry_in(frame: dict[str, Any], a: Array, b: Array, carry: Array) -> Array:
    """Unsigned sum with the carry; the one in the frame stays."""
    return a + b + carry.astype(a.dtype)


def sub_borrow_in(frame: dict[str, Any], a: Array, b: Array, borrow: Array) -> Array:
    """Unsigned difference with the borrow; the one in the frame stays."""
    return a - b - borrow.astype(a.dtype)


def sub_borrow(frame: dict[str, Any], a: Array, b: Array, borrow: Array | None) -> Array:
    """Unsigned difference; the borrow out is left in the frame."""
    s = a - b
    out = a < b
    if borrow is not None:
        t = s - borrow.astype(s.dtype)
        out = out | (t > s)
        s = t
    frame["carry"] = out
    return s


# -- choices and operands --------------------------------------------------------------------------


def select(p: Array, a: Array, b: Array) -> Array:
    """a where p, else b; keeps a uniform choice uniform."""
    if p.size == 1:
        return a if p.item() else b
    return np.where(p, a, b)
