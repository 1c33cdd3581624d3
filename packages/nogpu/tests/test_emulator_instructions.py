"""Every instruction family of the emulator against a NumPy oracle, through inline PTX."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from nogpu import emulator
from nogpu.errors import EmulationError

N = 256
LETTER = {
    "u4": "r", "i4": "r", "u8": "l", "i8": "l", "u2": "h", "i2": "h", "f2": "h", "f4": "f",
    "f8": "d",
}  # fmt: skip
C_TYPE = {
    "u4": "unsigned", "i4": "int", "u8": "unsigned long long", "i8": "long long",
    "u2": "unsigned short", "i2": "short", "f2": "unsigned short", "f4": "float", "f8": "double",
}  # fmt: skip


def run(template: str, out: str, *inputs: np.ndarray, arch: str = "sm_80") -> np.ndarray:
    """One inline PTX instruction applied to arrays, element by element: %0 is the result."""
    kinds = [f"{a.dtype.kind}{a.dtype.itemsize}" for a in inputs]
    params = ", ".join(f"const {C_TYPE[k]}* p{i}" for i, k in enumerate(kinds))
    uses = ", ".join(f'"{LETTER[k]}"(p{i}[t])' for i, k in enumerate(kinds))
    source = (
        f'extern "C" __global__ void op({C_TYPE[out]}* out, {params}) {{\n'
        "  const int t = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  {C_TYPE[out]} r;\n"
        f'  asm volatile("{template}" : "={LETTER[out]}"(r) : {uses});\n'
        "  out[t] = r;\n}\n"
    )
    n = len(inputs[0])
    result = np.zeros(n, "u2" if out == "f2" else out)
    given = [a.view("u2") if a.dtype == np.float16 else a for a in inputs]
    report = emulator.launch(source, "op", n // 64, 64, [result, *given], arch=arch)
    assert report.ok, report
    return result.view(out)


def words(seed: int = 0, kind: str = "u4") -> np.ndarray:
    """Random bits with the edge cases in front."""
    rng = np.random.default_rng(seed)
    bits = 8 * int(kind[1])
    edge = [0, 1, 2, 3, 31, 32, 33, 63, 64, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
    edge = [e & ((1 << bits) - 1) for e in edge]
    raw = rng.integers(0, 1 << min(bits, 63), N, dtype=np.uint64)
    small = raw >> rng.integers(0, bits, N).astype(np.uint64)
    small[: len(edge)] = rng.permutation(np.array(edge, np.uint64))
    return small.astype(f"u{kind[1]}").view(kind)


def floats(seed: int = 0, kind: str = "f4") -> np.ndarray:
    """Random floats over many magnitudes, with zeros, infinities and NaN in front."""
    rng = np.random.default_rng(seed)
    spread = {"f2": 3, "f4": 12, "f8": 40}[kind]
    x = rng.standard_normal(N) * 10.0 ** rng.integers(-spread, spread, N)
    x[:8] = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5]
    with np.errstate(over="ignore"):
        return rng.permutation(x).astype(kind)


def same(got: np.ndarray, want) -> None:
    np.testing.assert_array_equal(got, np.asarray(want).astype(got.dtype))


def dtype_of(kind: str) -> str:
    """NumPy's name of an integer type of PTX."""
    return f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}"


def cut(values, dtype: str) -> np.ndarray:
    """Whole numbers of any size, of which the lowest bits stay."""
    bits = 8 * int(dtype[1])
    return np.array([int(v) & ((1 << bits) - 1) for v in values], f"u{dtype[1]}").view(dtype)


def each(function, *arrays: np.ndarray) -> list:
    """A function of Python's numbers, element by element."""
    return [function(*map(int, row)) for row in zip(*arrays, strict=True)]


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


# -- integers ------------------------------------------------------------------------------------

BINARY = {
    "add": np.add, "sub": np.subtract, "mul.lo": np.multiply, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64", "s16", "u16"])
@pytest.mark.parametrize("op", BINARY)
def test_integer_arithmetic_wraps_at_its_width(op, kind):
    dtype = dtype_of(kind)
    a, b = words(1, dtype), words(2, dtype)
    same(run(f"{op}.{kind} %0, %1, %2;", dtype, a, b), BINARY[op](a, b))


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_division_truncates_toward_zero(kind):
    dtype = dtype_of(kind)
    a, b = words(3, dtype), words(4, dtype)
    b = np.where(b == 0, b.dtype.type(7), b)
    if kind[0] == "s":
        b = np.where(b == -1, b.dtype.type(5), b)  # the lowest value over -1 has no result
    want = each(lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1), a, b)
    same(run(f"div.{kind} %0, %1, %2;", dtype, a, b), cut(want, dtype))
    same(run(f"rem.{kind} %0, %1, %2;", dtype, a, b), np.fmod(a, b))


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_division_by_zero_does_not_stop_the_launch(kind):
    a = words(5, dtype_of(kind))
    b = a * 0
    b[::3] = 2
    zero = b == 0
    quotients = run(f"div.{kind} %0, %1, %2;", a.dtype.str[1:], a, b)
    assert (quotients[zero] == np.array(-1).astype(a.dtype)).all()
    same(
        quotients[~zero], cut([int(v) // 2 + (v < 0 and v % 2) for v in a[~zero]], a.dtype.str[1:])
    )
    same(run(f"rem.{kind} %0, %1, %2;", a.dtype.str[1:], a, b), np.where(zero, a, np.fmod(a, 2)))


@pytest.mark.parametrize("kind", ["s32", "u32"])
def test_wide_and_high_products(kind):
    dtype = dtype_of(kind)
    wide = dtype[0] + "8"
    a, b = words(6, dtype), words(7, dtype)
    product = a.astype(wide) * b.astype(wide)
    same(run(f"mul.wide.{kind} %0, %1, %2;", wide, a, b), product)
    same(run(f"mul.hi.{kind} %0, %1, %2;", dtype, a, b), (product >> 32).astype(dtype))
    c = words(8, wide)
    same(run(f"mad.wide.{kind} %0, %1, %2, %3;", wide, a, b, c), product + c)
    d = words(9, dtype)
    same(run(f"mad.lo.{kind} %0, %1, %2, %3;", dtype, a, b, d), a * b + d)
    same(run(f"mad.hi.{kind} %0, %1, %2, %3;", dtype, a, b, d), (product >> 32).astype(dtype) + d)


@pytest.mark.parametrize("kind", ["s64", "u64"])
def test_high_product_of_64_bits(kind):
    dtype = dtype_of(kind)
    a, b = words(10, dtype), words(11, dtype)
    want = each(lambda x, y: x * y >> 64, a, b)
    same(run(f"mul.hi.{kind} %0, %1, %2;", dtype, a, b), cut(want, dtype))


def test_saturating_and_24_bit_arithmetic():
    a, b = words(12, "i4"), words(13, "i4")
    exact = a.astype("i8") + b
    same(run("add.sat.s32 %0, %1, %2;", "i4", a, b), np.clip(exact, -(2**31), 2**31 - 1))
    x, y = ((v << 8) >> 8 for v in (a, b))
    same(run("mul24.lo.s32 %0, %1, %2;", "i4", a, b), (x.astype("i8") * y).astype("i4"))


@pytest.mark.parametrize("op", ["add", "sub"])
def test_carry_chains_make_128_bit_sums(op):
    a, b, c, d = (words(s, "u4") for s in (14, 15, 16, 17))
    low = run(f"{{.reg .u32 t; {op}.cc.u32 %0, %1, %2; {op}c.u32 t, %3, %4;}}", "u4", a, b, c, d)
    high = run(f"{{.reg .u32 t; {op}.cc.u32 t, %1, %2; {op}c.u32 %0, %3, %4;}}", "u4", a, b, c, d)
    whole = (a + (c.astype("u8") << 32)), (b + (d.astype("u8") << 32))
    same(low.astype("u8") | (high.astype("u8") << 32), BINARY[op](*whole))


@pytest.mark.parametrize(
    ("op", "function"), [("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)]
)
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_bitwise_logic(op, function, bits):
    dtype = f"u{bits // 8}"
    a, b = words(18, dtype), words(19, dtype)
    same(run(f"{op}.b{bits} %0, %1, %2;", dtype, a, b), function(a, b))
    same(run(f"not.b{bits} %0, %1;", dtype, a), ~a)
    same(run(f"cnot.b{bits} %0, %1;", dtype, a), (a == 0).astype(dtype))


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64", "u16", "s16"])
def test_shifts_clamp_at_the_width(kind):
    bits, dtype = int(kind[1:]), dtype_of(kind)
    a, n = words(20, dtype), words(21, "u4")
    n[:4] = [0, bits - 1, bits, 2**31]
    right, left = (each(f, a, np.minimum(n, 200)) for f in (int.__rshift__, int.__lshift__))
    same(run(f"shr.{kind} %0, %1, %2;", dtype, a, n), cut(right, dtype))
    same(run(f"shl.b{bits} %0, %1, %2;", dtype, a, n), cut(left, dtype))
    for amount in (0, bits - 1, bits, bits + 1):  # written out
        right, left = (each(f, a, n * 0 + amount) for f in (int.__rshift__, int.__lshift__))
        same(run(f"shr.{kind} %0, %1, {amount};", dtype, a), cut(right, dtype))
        same(run(f"shl.b{bits} %0, %1, {amount};", dtype, a), cut(left, dtype))


@pytest.mark.parametrize("direction", ["l", "r"])
@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shifts(direction, mode):
    a, b, n = words(22), words(23), words(24)
    amount = np.minimum(n, 32) if mode == "clamp" else n & 31
    pair = a.astype("u8") | (b.astype("u8") << 32)
    want = each(lambda p, k: p >> k if direction == "r" else p << k >> 32, pair, amount)
    same(run(f"shf.{direction}.{mode}.b32 %0, %1, %2, %3;", "u4", a, b, n), cut(want, "u4"))


@pytest.mark.parametrize("dtype", ["u4", "u8"])
def test_bit_counts_and_reversal(dtype):
    bits, a = 8 * int(dtype[1]), words(25, dtype)
    same(run(f"popc.b{bits} %0, %1;", "u4", a), each(int.bit_count, a))
    same(run(f"clz.b{bits} %0, %1;", "u4", a), each(lambda x: bits - x.bit_length(), a))
    want = each(lambda x: int(f"{x:0{bits}b}"[::-1], 2), a)
    same(run(f"brev.b{bits} %0, %1;", dtype, a), cut(want, dtype))
    same(run(f"bfind.u{bits} %0, %1;", "i4", a), each(lambda x: x.bit_length() - 1, a))


def _field(x: int, start: int, length: int, bits: int, signed: bool) -> int:
    """The definition of bfe in the PTX ISA, bit by bit."""
    start, length = start & 255, length & 255
    sign_at = min(start + length - 1, bits - 1)
    sign = (x >> sign_at & 1) if signed and length else 0
    out = 0
    for i in range(bits):
        bit = x >> (i + start) & 1 if i < length and i + start < bits else sign
        out |= bit << i
    return out


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_fields(kind):
    bits, dtype = int(kind[1:]), f"u{int(kind[1:]) // 8}"
    a, b = words(26, dtype), words(27, dtype)
    place = words(28, "u4") % 80, words(29, "u4") % 80
    want = each(lambda x, s, n: _field(x, s, n, bits, kind[0] == "s"), a, *place)
    same(run(f"bfe.{kind} %0, %1, %2, %3;", dtype, a, *place), cut(want, dtype))

    def put(x: int, y: int, start: int, length: int) -> int:
        mask = ((1 << length) - 1) << start
        return (y & ~mask) | ((x << start) & mask)

    got = run(f"bfi.b{bits} %0, %1, %2, %3, %4;", dtype, a, b, *place)
    same(got, cut(each(put, a, b, *place), dtype))


def test_byte_permutes():
    a, b, s = words(30), words(31), words(32)

    def permuted(x: int, y: int, sel: int) -> int:
        source = (x | y << 32).to_bytes(8, "little")
        out = 0
        for i in range(4):
            pick = sel >> 4 * i & 15
            byte = source[pick & 7]
            if pick & 8:
                byte = 255 if byte & 128 else 0
            out |= byte << 8 * i
        return out

    same(run("prmt.b32 %0, %1, %2, %3;", "u4", a, b, s), cut(each(permuted, a, b, s), "u4"))


@pytest.mark.parametrize(
    ("mode", "byte"),
    [
        ("f4e", lambda n, i: (n + i) % 8),
        ("b4e", lambda n, i: (n - i) % 8),
        ("rc8", lambda n, i: n),
        ("ecl", lambda n, i: max(n, i)),
        ("ecr", lambda n, i: min(n, i)),
        ("rc16", lambda n, i: 2 * (n % 2) + i % 2),
    ],
)
def test_every_mode_of_byte_permutation(mode, byte):
    """PTX ISA, prmt: byte i of the result is this one of the eight of b:a."""
    a, b = np.full(64, 0x33221100, "u4"), np.full(64, 0x77665544, "u4")
    n = np.arange(64, dtype="u4") % 4
    want = [sum(0x11 * byte(k, i) << 8 * i for i in range(4)) for k in n.tolist()]
    same(run(f"prmt.b32.{mode} %0, %1, %2, %3;", "u4", a, b, n), np.array(want, "u4"))


def test_three_input_logic_and_byte_dot_products():
    a, b, c = words(33), words(34), words(35)
    same(run("lop3.b32 %0, %1, %2, %3, 0x96;", "u4", a, b, c), a ^ b ^ c)
    same(run("lop3.b32 %0, %1, %2, %3, 0xE8;", "u4", a, b, c), (a & b) | (b & c) | (a & c))
    of = {"s": "i", "u": "u"}
    for one, other in itertools.product(of, repeat=2):
        x, y = (v.view(f"{of[k]}1").reshape(-1, 4).astype("i4") for v, k in ((a, one), (b, other)))
        want = (x * y).sum(axis=1, dtype="i4") + c.view("i4")
        same(run(f"dp4a.{one}32.{other}32 %0, %1, %2, %3;", "i4", a, b, c), want)
        h = a.view(f"{of[one]}2").reshape(-1, 2).astype("i4")
        for part, half in (("lo", y[:, :2]), ("hi", y[:, 2:])):
            want = (h * half).sum(axis=1, dtype="i4") + c.view("i4")
            same(run(f"dp2a.{part}.{one}32.{other}32 %0, %1, %2, %3;", "i4", a, b, c), want)
    same(run("sad.u32 %0, %1, %2, %3;", "u4", a, b, c), np.where(a > b, a - b, b - a) + c)


# -- floating point ------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "dtype"), [("f32", "f4"), ("f64", "f8")])
def test_float_arithmetic_is_ieee(kind, dtype):
    a, b = floats(1, dtype), floats(2, dtype)
    ops = {"add.rn": np.add, "sub.rn": np.subtract, "mul.rn": np.multiply, "div.rn": np.divide}
    for op, f in ops.items():
        same(run(f"{op}.{kind} %0, %1, %2;", dtype, a, b), f(a, b))
    same(run(f"min.{kind} %0, %1, %2;", dtype, a, b), np.fmin(a, b))
    same(run(f"max.{kind} %0, %1, %2;", dtype, a, b), np.fmax(a, b))
    same(run(f"abs.{kind} %0, %1;", dtype, a), np.abs(a))
    same(run(f"neg.{kind} %0, %1;", dtype, a), -a)
    same(run(f"sqrt.rn.{kind} %0, %1;", dtype, np.abs(a)), np.sqrt(np.abs(a)))
    same(run(f"rcp.rn.{kind} %0, %1;", dtype, a), (1 / a.astype("f8")).astype(dtype))
    same(run(f"copysign.{kind} %0, %1, %2;", dtype, a, b), np.copysign(b, a))


def rounded(exact: Fraction, digits: int, mode: str = "rn") -> float:
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


def exactly(function, *arrays: np.ndarray, mode: str = "rn") -> list[float]:
    """A function in rational arithmetic, rounded once, element by element."""
    digits = {"f4": 24, "f8": 53}[arrays[0].dtype.str[1:]]
    rows = zip(*(map(Fraction, a.astype("f8").tolist()) for a in arrays), strict=True)
    return [rounded(function(*row), digits, mode) for row in rows]


def fused(x: Fraction, y: Fraction, z: Fraction) -> Fraction:
    return x * y + z


@pytest.mark.parametrize(("kind", "dtype"), [("f32", "f4"), ("f64", "f8")])
def test_fma_rounds_once(kind, dtype):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(N).astype(dtype) for _ in range(2))
    c = (rng.standard_normal(N) * 10.0 ** rng.integers(-12, 4, N)).astype(dtype)
    c[:64] = -(a[:64] * b[:64])  # what is left is the rounding error of the product
    same(run(f"fma.rn.{kind} %0, %1, %2, %3;", dtype, a, b, c), exactly(fused, a, b, c))
    third, one = np.array([1 / 3, 1.25]).astype(dtype)
    third, one = third + 0 * a, one + 0 * a
    sign, bits = ("0f", "u4") if kind == "f32" else ("0d", "u8")
    x, y = (f"{sign}{v.view(bits)[0]:0{2 * v.itemsize}x}" for v in (third, one))
    # Of what all threads hold there is one element.
    same(run(f"fma.rn.{kind} %0, {x}, {y}, %1;", dtype, c), exactly(fused, third, one, c))
    same(run(f"fma.rn.{kind} %0, {x}, %1, {y};", dtype, b), exactly(fused, third, b, one))


def test_fma_of_a_sum_that_lies_halfway_in_float64():
    """Rounding to float64 first would lose the bit that decides."""
    a = np.full(64, np.float32(1 + 2.0**-12))
    b = np.full(64, np.float32(1 + 2.0**-12))  # a b = 1 + 2^-11 + 2^-24: a tie in float32
    c = np.full(64, np.float32(2.0**-80))  # too small for float64 beside it
    same(run("fma.rn.f32 %0, %1, %2, %3;", "f4", a, b, c), exactly(fused, a, b, c))
    same(run("fma.rn.f32 %0, %1, %2, %3;", "f4", a, b, -c), exactly(fused, a, b, -c))


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_directed_rounding_is_that_of_the_exact_result(mode, kind):
    rng = np.random.default_rng(4)
    a, b, c = (rng.standard_normal(N).astype(f"f{int(kind[1:]) // 8}") for _ in range(3))
    for template, function, given in (
        (f"add.{mode}.{kind} %0, %1, %2;", Fraction.__add__, (a, b)),
        (f"mul.{mode}.{kind} %0, %1, %2;", Fraction.__mul__, (a, b)),
        (f"fma.{mode}.{kind} %0, %1, %2, %3;", fused, (a, b, c)),
        (f"div.{mode}.{kind} %0, %1, %2;", Fraction.__truediv__, (a, b)),
        (f"rcp.{mode}.{kind} %0, %1;", lambda x: 1 / x, (a,)),
    ):
        got = run(template, a.dtype.str[1:], *given)
        same(got, exactly(function, *given, mode=mode))


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_what_overflows_is_rounded_as_directed(mode):
    """Splitting a factor of 2^1020 in halves overflows; what rounding cut off is still known. What is
    infinite of itself stays so."""
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, N))
    a, b = np.ldexp(a, 1020), np.ldexp(b, -500)
    same(run(f"mul.{mode}.f64 %0, %1, %2;", "f8", a, b), exactly(Fraction.__mul__, a, b, mode=mode))
    largest, tiny = np.finfo("f8").max, np.finfo("f8").smallest_subnormal
    over, under = np.array([1e200, -1e200] * 32), np.array([1e-200, -1e-200] * 32)
    away = {"rz": (False, False), "rm": (False, True), "rp": (True, False)}[mode] * 32
    beyond = np.where(away, np.inf, largest) * np.sign(over)
    same(run(f"mul.{mode}.f64 %0, %1, %2;", "f8", over, np.abs(over)), beyond)
    same(run(f"div.{mode}.f64 %0, %1, %2;", "f8", over, np.abs(under)), beyond)
    same(run(f"fma.{mode}.f64 %0, %1, %2, %1;", "f8", over, np.abs(over)), beyond)
    same(run(f"add.{mode}.f64 %0, %1, %2;", "f8", np.sign(over) * largest, over * 1e100), beyond)
    zero, infinite = np.zeros_like(over), over * np.inf
    for exact in ("add.{}.f64 %0, %1, %1", "mul.{}.f64 %0, %1, %1", "fma.{}.f64 %0, %1, %1, %1"):
        same(run(exact.format(mode) + ";", "f8", np.abs(infinite)), np.abs(infinite))
    same(run(f"div.{mode}.f64 %0, %1, %2;", "f8", over, zero), infinite)
    below = np.where(away, tiny, 0.0) * np.sign(under)
    same(run(f"mul.{mode}.f64 %0, %1, %2;", "f8", under, np.abs(under)), below)


def test_flush_to_zero_and_saturation():
    x = np.array([1e-39, -1e-39, 2.0**-126, 0.25, 2.0, -3.0, np.nan, -(2.0**-126)] * 8, "f4")
    one = np.ones_like(x)
    got = run("mul.rn.ftz.f32 %0, %1, %2;", "f4", x, one)
    same(got, np.where(np.abs(x) < 2.0**-126, np.copysign(0, x), x))
    assert np.signbit(got[1])
    same(run("add.rn.sat.f32 %0, %1, %2;", "f4", x, one * 0), np.nan_to_num(np.clip(x, 0, 1)))


@pytest.mark.parametrize(
    ("template", "f", "ulp"),
    [
        ("ex2.approx.f32", np.exp2, 2),
        ("lg2.approx.f32", np.log2, 2),
        ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x), 2),
        ("rcp.approx.f32", lambda x: 1 / x, 1),
        ("sqrt.approx.f32", np.sqrt, 1),
        ("sin.approx.f32", np.sin, 2),
        ("cos.approx.f32", np.cos, 2),
        ("tanh.approx.f32", np.tanh, 2),
    ],
)
def test_special_functions(template, f, ulp):
    x = np.abs(np.random.default_rng(5).standard_normal(N)).astype("f4") + np.float32(0.01)
    want = f(x.astype("f8")).astype("f4")
    got = run(f"{template} %0, %1;", "f4", x)
    assert (np.abs(got - want) <= ulp * np.spacing(np.abs(want))).all()


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_unordered_comparisons_know_nan(kind):
    dtype = "f4" if kind == "f32" else "f8"
    a, b = floats(6, dtype), floats(7, dtype)
    b[:40] = a[:40]
    nan = np.isnan(a) | np.isnan(b)
    ordered = {"eq": a == b, "ne": (a != b) & ~nan, "lt": a < b, "le": a <= b}
    ordered |= {"gt": a > b, "ge": a >= b}
    cases = {**ordered, **{f"{k}u": v | nan for k, v in ordered.items()}, "num": ~nan, "nan": nan}
    for op, want in cases.items():
        template = f"{{.reg .pred p; setp.{op}.{kind} p, %1, %2; selp.u32 %0, 1, 0, p;}}"
        same(run(template, "u4", a, b), want.astype("u4"))


def test_integer_comparisons_and_predicate_logic():
    a, b = words(36, "u4"), words(37, "u4")
    b[:50] = a[:50]
    s, t = a.view("i4"), b.view("i4")
    for op, want in {"lt.s32": s < t, "ge.s32": s >= t, "lo.u32": a < b, "hs.u32": a >= b,
                     "hi.u32": a > b, "ls.u32": a <= b, "eq.s32": a == b, "ne.u32": a != b}.items():  # fmt: skip
        template = f"{{.reg .pred p; setp.{op} p, %1, %2; selp.u32 %0, 1, 0, p;}}"
        same(run(template, "u4", a, b), want.astype("u4"))
    template = (
        "{.reg .pred p, q, r; setp.lt.u32 r, %1, 1000; setp.lt.and.s32 p|q, %1, %2, r; "
        "@p mov.u32 %0, 1; @!p mov.u32 %0, 2; @q add.u32 %0, %0, 10;}"
    )
    r = a < 1000
    want = np.where((s < t) & r, 1, 2) + np.where(~(s < t) & r, 10, 0)
    same(run(template, "u4", a, b), want.astype("u4"))
    same(run("set.lt.u32.s32 %0, %1, %2;", "u4", a, b), np.where(s < t, 0xFFFFFFFF, 0).astype("u4"))
    same(run("slct.u32.s32 %0, %1, %2, %2;", "u4", a, b), np.where(t >= 0, a, b))


# -- half precision ------------------------------------------------------------------------------


def bf16(x: np.ndarray) -> np.ndarray:
    """float32 to bfloat16 bits, ties to even."""
    bits = np.asarray(x, "f4").view("u4")
    out = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")
    return np.where(np.isnan(x), 0x7FFF, out).astype("u2")


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype("u4") << 16).view("f4")


def moderate(seed: int, kind: str) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(N).astype(kind)


def test_half_precision_scalars():
    a, b, c = (moderate(s, "f2") for s in (8, 9, 10))
    for op, f in (("add.rn.f16", np.add), ("sub.rn.f16", np.subtract), ("mul.rn.f16", np.multiply)):
        same(run(f"{op} %0, %1, %2;", "f2", a, b), f(a, b))
    want = (a.astype("f8") * b.astype("f8") + c.astype("f8")).astype("f2")
    same(run("fma.rn.f16 %0, %1, %2, %3;", "f2", a, b, c), want)
    same(run("max.f16 %0, %1, %2;", "f2", a, b), np.fmax(a, b))
    same(run("neg.f16 %0, %1;", "f2", a), -a)


def test_half_precision_pairs():
    a, b, c = (np.stack([moderate(s, "f2"), moderate(s + 5, "f2")], 1) for s in (11, 12, 13))
    pack = [np.ascontiguousarray(v).view("u4").reshape(-1) for v in (a, b, c)]
    want = (a.astype("f8") * b.astype("f8") + c.astype("f8")).astype("f2")
    got = run("fma.rn.f16x2 %0, %1, %2, %3;", "u4", *pack)
    same(got.view("f2").reshape(-1, 2), want)
    got = run("add.rn.f16x2 %0, %1, %2;", "u4", *pack[:2])
    same(got.view("f2").reshape(-1, 2), a + b)
    got = run("set.gt.f16x2.f16x2 %0, %1, %2;", "u4", *pack[:2])
    same(got.view("f2").reshape(-1, 2), (a > b).astype("f2"))


def test_bfloat16_scalars_and_pairs():
    a, b, c = (bf16(moderate(s, "f4")) for s in (14, 15, 16))
    x, y, z = (from_bf16(v).astype("f8") for v in (a, b, c))
    same(run("fma.rn.bf16 %0, %1, %2, %3;", "u2", a, b, c), bf16((x * y + z).astype("f4")))
    pairs = [np.stack([v, v[::-1]], 1) for v in (a, b, c)]
    packed = [np.ascontiguousarray(p).view("u4").reshape(-1) for p in pairs]
    got = run("fma.rn.bf16x2 %0, %1, %2, %3;", "u4", *packed)
    x, y, z = (from_bf16(p).astype("f8") for p in pairs)
    same(got.view("u2").reshape(-1, 2), bf16((x * y + z).astype("f4")))


# -- conversions ---------------------------------------------------------------------------------


def test_integer_conversions_extend_and_cut():
    a = words(38, "u4")
    same(run("cvt.s32.s8 %0, %1;", "i4", a), a.astype("u1").view("i1").astype("i4"))
    same(run("cvt.u32.u16 %0, %1;", "u4", a), a & 0xFFFF)
    same(run("cvt.s64.s32 %0, %1;", "i8", a), a.view("i4").astype("i8"))
    same(run("cvt.u64.u32 %0, %1;", "u8", a), a.astype("u8"))
    same(run("cvt.sat.s8.s32 %0, %1;", "i4", a), np.clip(a.view("i4"), -128, 127))
    same(run("cvt.sat.u8.s32 %0, %1;", "u4", a), np.clip(a.view("i4"), 0, 255))
    b = words(39, "u8")
    same(run("cvt.u32.u64 %0, %1;", "u4", b), b.astype("u4"))


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_float_to_integer_rounds_and_clamps(mode):
    rounding = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode]
    x = floats(17, "f4")
    x[20:60] = np.arange(-20, 20) / 2
    r = np.nan_to_num(rounding(x.astype("f8")), nan=0.0, posinf=1e300, neginf=-1e300)
    same(
        run(f"cvt.{mode}.s32.f32 %0, %1;", "i4", x),
        np.clip(r, -(2.0**31), 2.0**31 - 1).astype("i4"),
    )
    same(run(f"cvt.{mode}.u32.f32 %0, %1;", "u4", x), np.clip(r, 0, 2.0**32 - 1).astype("u4"))
    finite = np.where(np.abs(x) < 2.0**62, x, 1.5).astype("f4")
    same(
        run(f"cvt.{mode}.s64.f32 %0, %1;", "i8", finite), rounding(finite.astype("f8")).astype("i8")
    )
    same(run(f"cvt.{mode}.f32.f32 %0, %1;", "f4", x), rounding(x))


def test_floats_beyond_64_bits_are_clamped():
    """A NaN has the highest bit alone."""
    x = np.array([np.inf, -np.inf, np.nan, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1], "f4")
    low, high, whole = -(2**63), 2**63 - 1, 2**64 - 1
    signed = [high, low, low, high, low, high, high, -1]
    unsigned = [whole, 0, 1 << 63, 1 << 63, 0, whole, whole, 0]
    same(run("cvt.rni.s64.f32 %0, %1;", "i8", np.tile(x, 8)), np.tile(np.array(signed), 8))
    same(run("cvt.rni.u64.f32 %0, %1;", "u8", np.tile(x, 8)), np.tile(np.array(unsigned, "u8"), 8))


@pytest.mark.parametrize(("kind", "dtype"), [("f32", "f4"), ("f64", "f8")])
def test_a_float_is_tested_for_what_it_is(kind, dtype):
    tiny, least = np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal
    x = np.array([0, 1.5, tiny, np.nextafter(tiny, 0), least, np.inf, np.nan, 3e38], dtype)
    x = np.concatenate([x, -x] * 4).astype(dtype)
    size = np.abs(x)
    for what, want in {
        "finite": np.isfinite(x), "infinite": np.isinf(x), "number": ~np.isnan(x),
        "notanumber": np.isnan(x), "normal": (size >= tiny) & np.isfinite(x),
        "subnormal": (size > 0) & (size < tiny),
    }.items():  # fmt: skip
        code = f"{{.reg .pred p; testp.{what}.{kind} p, %1; selp.u32 %0, 1, 0, p;}}"
        same(run(code, "u4", x), want)


def test_integer_to_float_and_between_floats():
    a = words(40, "i4")
    same(run("cvt.rn.f32.s32 %0, %1;", "f4", a), a.astype("f4"))
    same(run("cvt.rn.f64.s32 %0, %1;", "f8", a), a.astype("f8"))
    b = words(41, "u8")
    same(run("cvt.rn.f32.u64 %0, %1;", "f4", b), b.astype("f4"))
    down = run("cvt.rz.f32.s32 %0, %1;", "f4", a)
    assert (np.abs(down.astype("f8")) <= np.abs(a.astype("f8"))).all()
    d = floats(18, "f8")
    same(run("cvt.rn.f32.f64 %0, %1;", "f4", d), d.astype("f4"))
    x = floats(19, "f4")
    same(run("cvt.f64.f32 %0, %1;", "f8", x), x.astype("f8"))
    same(run("cvt.rn.f16.f32 %0, %1;", "f2", x), x.astype("f2"))
    h = floats(20, "f2")
    same(run("cvt.f32.f16 %0, %1;", "f4", h), h.astype("f4"))
    same(run("cvt.sat.f32.f32 %0, %1;", "f4", x), np.nan_to_num(np.clip(x, 0, 1)))
    y = floats(21, "f4")
    both = run("cvt.rn.f16x2.f32 %0, %1, %2;", "u4", x, y).view("f2").reshape(-1, 2)
    same(both, np.stack([y, x], 1).astype("f2"))
    fine = np.where(np.isnan(x), 1, x).astype("f4")
    same(run("cvt.rn.bf16.f32 %0, %1;", "u2", fine), bf16(fine))
    rounded = run("cvt.rna.tf32.f32 %0, %1;", "u4", fine)
    assert (rounded & 0x1FFF == 0)[np.isfinite(fine)].all()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(("to", "digits"), [("f32", 24), ("f64", 53)])
@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_integers_become_floats_in_every_rounding_mode(kind, to, digits, mode):
    a = words(60, dtype_of(kind))
    a[-2:] = [(1 << 24) + 1, (1 << 30) + 1]
    got = run(f"cvt.{mode}.{to}.{kind} %0, %1;", f"f{int(to[1:]) // 8}", a)
    same(got, each(lambda v: rounded(Fraction(v), digits, mode), a))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("kind", ["f32", "s64", "u64"])
def test_numbers_become_bfloat16_in_every_rounding_mode(kind, mode):
    a = floats(61) if kind == "f32" else words(62, dtype_of(kind))
    a = np.where(np.isfinite(a), a, 1).astype(a.dtype)
    if kind != "f32":
        a[-1] = (1 << 60) + (1 << 52) + 1  # just above the middle of two: float64 loses the 1
    got = run(f"cvt.{mode}.bf16.{kind} %0, %1;", "u2", a, arch="sm_90").astype("u4") << 16
    want = [rounded(Fraction(v.item()), 8, mode) for v in a]
    normal = np.abs(np.array(want)) >= 2.0**-126
    assert normal.sum() > N // 2
    same(got.view("f4")[normal], np.array(want)[normal])


def test_bfloat16_rounds_to_whole_numbers():
    x = np.clip(np.nan_to_num(floats(63)), -300, 300).astype("f4")
    bits = bf16(x)
    value = (bits.astype("u4") << 16).view("f4")
    for mode, function in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor)):
        got = run(f"cvt.{mode}.bf16.bf16 %0, %1;", "u2", bits, arch="sm_90").astype("u4") << 16
        same(got.view("f4"), function(value))


def test_relu_keeps_nan():
    x = np.resize(np.array([np.nan, -1, 2, -0.5], "f4"), 64)
    one, zero = np.ones(64, "f2"), np.zeros(64, "f2")
    got = run("fma.rn.relu.f16 %0, %1, %2, %3;", "f2", x.astype("f2"), one, zero)
    same(got, np.where(np.isnan(x), np.nan, np.maximum(x, 0)))
    same(run("cvt.rn.relu.f16.f32 %0, %1;", "f2", x), got)


@pytest.mark.parametrize("ptx", ["u32", "s32"])
@pytest.mark.parametrize("half", ["lo", "hi"])
def test_products_with_carry(ptx, half):
    a, b, c = (words(seed, dtype_of(ptx)) for seed in (64, 65, 66))
    got = run(
        f"{{.reg .b32 t; mad.{half}.cc.{ptx} t, %1, %2, %3; madc.hi.{ptx} %0, %1, %2, %3;}}",
        "u4", a, b, c,
    )  # fmt: skip

    def carried(x: int, y: int, z: int) -> int:
        product, low = x * y, z & 0xFFFFFFFF
        part = (product if half == "lo" else product >> 32) & 0xFFFFFFFF
        return ((product >> 32) + low + ((part + low) >> 32)) & 0xFFFFFFFF

    same(got, each(carried, a, b, c))


FP8 = """
#include <cuda_fp8.h>
extern "C" __global__ void k(const float* x, unsigned char* bits, float* back)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    const __nv_fp8_e4m3 a(x[t]), h(__float2half(x[t]));
    const __nv_fp8_e5m2 b(x[t]);
    bits[t] = a.__x, bits[n + t] = b.__x, bits[2 * n + t] = h.__x;
    back[t] = float(a), back[n + t] = float(b);
    const __nv_fp8x2_e5m2 two(make_float2(x[t], x[n - 1 - t]));
    const float2 both = float2(two);
    back[2 * n + t] = both.x, back[3 * n + t] = both.y;
}
"""


def test_floats_of_8_bits_are_those_of_cudas_own_software():
    """For sm_75 the header converts with integers; for sm_89 it names the instructions."""
    rng = np.random.default_rng(67)
    x = np.concatenate(
        [floats(68)[:100], rng.standard_normal(140) * 10.0 ** rng.integers(-4, 5, 140)]
    )
    edge = [448, 464, 465, 57344, 61440, 7e4, 2.0**-9, 2.0**-10, 3 * 2.0**-11, 1.5 * 2.0**-17]
    x = np.concatenate([x, edge, [np.nan, np.inf, -np.inf, -0.0, 17, 19]]).astype("f4")
    got = {}
    for arch in ("sm_75", "sm_89"):
        bits, back = np.zeros(3 * N, "u1"), np.zeros(4 * N, "f4")
        assert emulator.launch(FP8, "k", N // 64, 64, [x, bits, back], arch=arch).ok
        got[arch] = bits, back
    np.testing.assert_array_equal(got["sm_89"][0], got["sm_75"][0])
    np.testing.assert_array_equal(got["sm_89"][1], got["sm_75"][1])
    one, first, second = got["sm_89"][1].reshape(4, N)[1:]
    np.testing.assert_array_equal(first, one)
    np.testing.assert_array_equal(second, one[::-1])
    assert len(np.unique(got["sm_89"][0])) > 150


HALF_FUNCTIONS = """
#include <cuda_fp16.h>
extern "C" __global__ void k(const half2* x, half2* y)
{
    const int t = threadIdx.x;
    const half2 a = __habs2(x[t]);
    y[t] = h2sqrt(a), y[32 + t] = h2rcp(a), y[64 + t] = h2exp(a), y[96 + t] = h2log2(a);
    y[128 + t] = h2rsqrt(a), y[160 + t] = h2sin(a), y[192 + t] = h2cos(a);
}
"""


def test_functions_of_half_precision():
    """Their inline PTX declares registers in ways that no other PTX does."""
    x = np.random.default_rng(69).uniform(0.1, 3, 64).astype("f2")
    y = np.zeros((7, 64), "f2")
    assert emulator.launch(HALF_FUNCTIONS, "k", 1, 32, [x, y]).ok
    v = x.astype("f8")
    want = [np.sqrt(v), 1 / v, np.exp(v), np.log2(v), v**-0.5, np.sin(v), np.cos(v)]
    np.testing.assert_allclose(y.astype("f8"), np.array(want), rtol=2e-3, atol=1e-3)


def test_moves_pack_and_unpack():
    a, b = words(42), words(43)
    same(run("mov.b64 %0, {%1, %2};", "u8", a, b), a.astype("u8") | (b.astype("u8") << 32))
    wide = words(44, "u8")
    same(run("{.reg .b32 t; mov.b64 {t, %0}, %1;}", "u4", wide), (wide >> 32).astype("u4"))
    same(
        run("{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, l};}", "u4", a),
        (a >> 16) | (a << 16),
    )
    turned = "{.reg .b8 p, q, r, s; mov.b32 {p, q, r, s}, %1; mov.b32 %0, {s, r, q, p};}"
    same(run(turned, "u4", a), a.byteswap())
    x = floats(22, "f4")
    same(run("mov.b32 %0, %1;", "u4", x), x.view("u4"))


# -- what is not emulated ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "out", "says"),
    [
        ("multimem.ld_reduce.relaxed.sys.global.add.u64 %0, [%1];", "u8", "TMA, wgmma, clusters"),
        ("fns.b32 %0, %1, 0, 1;", "u4", "not emulated"),
    ],
)
def test_what_is_not_emulated_is_named_with_its_line(template, out, says):
    with pytest.raises(EmulationError, match=says) as caught:
        run(template, out, words(45, out), arch="sm_90")
    assert template.split(" ")[0] in str(caught.value) and "line 4" in str(caught.value)


# -- modifiers that change the result -------------------------------------------------------------


def xorsign(op: str, a: np.ndarray, b: np.ndarray, nan: bool) -> np.ndarray:
    """min or max of |a| and |b| with the sign of the product, element by element."""
    out = []
    for x, y in zip(a.astype("f8"), b.astype("f8"), strict=True):
        p, q = abs(x), abs(y)
        if np.isnan(p) or np.isnan(q):
            value = np.nan if nan or (np.isnan(p) and np.isnan(q)) else (q if np.isnan(p) else p)
        else:
            value = min(p, q) if op == "min" else max(p, q)
        out.append(-value if np.signbit(x) != np.signbit(y) else value)
    return np.array(out)


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("nan", ["", ".NaN"])
def test_the_sign_of_the_product_beside_the_least_magnitude(op, nan):
    for kind, dtype in (("f32", "f4"), ("f16", "f2")):
        a, b = floats(70, dtype), floats(71, dtype)
        got = run(f"{op}{nan}.xorsign.abs.{kind} %0, %1, %2;", dtype, a, b, arch="sm_90")
        want = xorsign(op, a, b, bool(nan)).astype(dtype)
        same(got, want)
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])
        assert (got[number] != run(f"{op}{nan}.{kind} %0, %1, %2;", dtype, a, b)[number]).any()
    a, b = words(72), words(73)
    x, y = (v.view("f2").astype("f8") for v in (a, b))
    got = run(f"{op}{nan}.xorsign.abs.f16x2 %0, %1, %2;", "u4", a, b, arch="sm_90").view("f2")
    same(got, xorsign(op, x, y, bool(nan)))
    x, y = ((v.view("u2").astype("u4") << 16).view("f4") for v in (a, b))
    got = run(f"{op}{nan}.xorsign.abs.bf16x2 %0, %1, %2;", "u4", a, b, arch="sm_90").view("u2")
    same((got.astype("u4") << 16).view("f4"), xorsign(op, x, y, bool(nan)))


def test_the_high_half_of_a_product_saturates_when_something_is_added():
    a, b, c = words(74, "i4"), words(75, "i4"), words(76, "i4")

    def low24(v: int) -> int:
        return (v & 0xFFFFFF) - ((v & 0x800000) << 1)

    for op, high in (
        ("mad.hi", lambda x, y, z: (x * y >> 32) + z),
        ("mad24.hi", lambda x, y, z: (low24(x) * low24(y) >> 16) + z),
    ):
        top = np.array(each(high, a, b, c))
        want = np.clip(top, -(2**31), 2**31 - 1)
        assert (want != top).any()
        same(run(f"{op}.sat.s32 %0, %1, %2, %3;", "i4", a, b, c), want)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_float64_quotients_and_roots_round_as_they_are_told(mode):
    rng = np.random.default_rng(77)
    a, b = (rng.standard_normal(N) * 10.0 ** rng.integers(-9, 9, N) for _ in range(2))
    a[:3], b[:3] = (6, -6, 1), (3, 3, -3)
    same(
        run(f"div.{mode}.f64 %0, %1, %2;", "f8", a, b),
        exactly(Fraction.__truediv__, a, b, mode=mode),
    )
    same(run(f"rcp.{mode}.f64 %0, %1;", "f8", b), exactly(lambda y: 1 / y, b, mode=mode))
    x = np.abs(a)
    x[:3] = (4, 2, 0)
    roots = run(f"sqrt.{mode}.f64 %0, %1;", "f8", x)
    beyond = np.nextafter(roots, 0.0 if mode == "rp" else np.inf)
    for root, off, v in zip(
        roots.tolist(), beyond.tolist(), map(Fraction, x.tolist()), strict=True
    ):
        if mode == "rp":
            assert Fraction(off) ** 2 <= v <= Fraction(root) ** 2
        else:
            assert Fraction(root) ** 2 <= v < Fraction(off) ** 2
    special = np.resize(np.array([0.0, -0.0, np.inf, np.nan, 1.0, -np.inf]), 64)
    one = np.ones(64)
    same(run(f"div.{mode}.f64 %0, %1, %2;", "f8", one, special), one / special)


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_widths_of_masks_and_extensions_are_clamped_or_wrap(mode):
    a, b, x = words(78), words(79), words(80)
    b[:6] = (0, 31, 32, 33, 256, 300)
    a[6:12], b[6:12] = (0, 1, 31, 32, 256, 257), 8

    def width(v: int) -> int:
        return v & 31 if mode == "wrap" else min(v, 32)

    def low(v: int, n: int) -> int:
        return v & ((1 << width(n)) - 1)

    def signed(v: int, n: int) -> int:
        n, v = width(n), low(v, n)
        return v - (1 << n) if n and v >> (n - 1) else v

    masks = each(lambda at, n: ((1 << width(n)) - 1) << width(at) & 0xFFFFFFFF, a, b)
    same(run(f"bmsk.{mode}.b32 %0, %1, %2;", "u4", a, b), masks)
    same(run(f"szext.{mode}.u32 %0, %1, %2;", "u4", x, b), each(low, x, b))
    same(run(f"szext.{mode}.s32 %0, %1, %2;", "i4", x, b), each(signed, x, b))


@pytest.mark.parametrize("op", ["add", "sub"])
def test_only_cc_leaves_a_carry(op):
    a, b = words(81), words(82)
    code = f"{op}.cc.u32 t, %1, %2; {op}c.u32 t, t, t; {op}c.u32 %0, %2, %1;"
    got = run(f"{{ .reg .b32 t; {code} }}", "u4", a, b)
    x, y = a.astype("i8"), b.astype("i8")
    carry = (x + y > 0xFFFFFFFF) if op == "add" else (x < y)
    same(got, (y + x + carry if op == "add" else y - x - carry) & 0xFFFFFFFF)


def test_half_precision_flushes_what_is_subnormal():
    x = np.resize(np.array([3e-6, -3e-6, 1e-4, -1.5, 7e-5, -5e-5, 2.0**-14], "f2"), 64)
    one = np.ones(64, "f2")
    flushed = np.where(np.abs(x) < 2.0**-14, np.copysign(np.float16(0), x), x)
    assert (flushed != x).any()
    for template, want in (
        ("add.ftz.f16 %0, %1, %2;", flushed + one),
        ("mul.ftz.f16 %0, %1, %2;", flushed),
        ("fma.rn.ftz.f16 %0, %1, %2, %1;", flushed * 2),
        ("neg.ftz.f16 %0, %1;", -flushed),
        ("max.ftz.f16 %0, %1, %1;", flushed),
    ):
        got = run(template, "f2", x, one)
        same(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
        assert (got != run(template.replace(".ftz", ""), "f2", x, one)).any() or "add" in template
    packed = np.stack([x, -x], 1).view("u4")[:, 0]
    got = run("neg.ftz.f16x2 %0, %1;", "u4", packed).view("f2").reshape(-1, 2)
    same(got, np.stack([-flushed, flushed], 1))
    below = run(
        "{.reg .pred p; setp.gt.ftz.f16 p, %1, %2; selp.u32 %0, 1, 0, p;}", "u4", x, one * 0
    )
    same(below, flushed > 0)


def test_packed_comparisons_take_a_third_predicate():
    a, b = floats(83, "f2"), floats(84, "f2")
    pair, other = (np.stack([v, v[::-1]], 1).view("u4")[:, 0] for v in (a, b))
    third = np.arange(N, dtype="u4") % 2
    want = ((a < b) + 2 * (a[::-1] < b[::-1])) * third
    for r in "rp":  # one that the instruction itself sets, too
        got = run(
            f"{{.reg .pred p, q, r; setp.ne.u32 {r}, %3, 0; setp.lt.and.f16x2 p|q, %1, %2, {r};"
            "selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2;}",
            "u4", pair, other, third,
        )  # fmt: skip
        same(got, want)
    got = run(
        "{.reg .pred r; setp.ne.u32 r, %3, 0; set.lt.or.f16x2.f16x2 %0, %1, %2, r;}",
        "u4", pair, other, third,
    ).view("f2").reshape(-1, 2)  # fmt: skip
    either = np.stack([a < b, a[::-1] < b[::-1]], 1) | (third == 1)[:, None]
    same(got, either.astype("f2"))


def test_constants_and_registers_of_every_width_are_stored_bit_by_bit():
    source = """
    extern "C" __global__ void k(unsigned long long* y, double d, float f, short h)
    {
        asm volatile("st.global.b32 [%0], 7;" :: "l"(y) : "memory");
        asm volatile("st.global.b64 [%0], %1;" :: "l"(y + 1), "d"(d) : "memory");
        asm volatile("st.global.b64 [%0], 0x3ff0000000000001;" :: "l"(y + 2) : "memory");
        asm volatile("st.global.b32 [%0], %1;" :: "l"(y + 3), "f"(f) : "memory");
        asm volatile("st.global.v2.b32 [%0], {%1, %1};" :: "l"(y + 4), "f"(f) : "memory");
        asm volatile("st.global.b16 [%0], %1;" :: "l"(y + 5), "h"(h) : "memory");
    }
    """
    y = np.zeros(6, np.uint64)
    assert emulator.launch(source, "k", 1, 1, [y, 0.1, -2.5, -2]).ok
    double, single = int(np.float64(0.1).view("u8")), int(np.float32(-2.5).view("u4"))
    assert y.tolist() == [7, double, 0x3FF0000000000001, single, single << 32 | single, 0xFFFE]


# -- rarer forms, by PTX that is written here -----------------------------------------------------

REGISTERS = {"s": "u2", "r": "u4", "l": "u8", "f": "f4", "d": "f8"}
FORMS_HEAD = """.version 8.6 .target sm_100a .address_size 64
.visible .entry k(.param .u64 given, .param .u64 out) {
.reg .b16 s<20>; .reg .b32 r<20>; .reg .b64 l<20>; .reg .f32 f<20>; .reg .f64 d<20>; .reg .pred p<20>;
.reg .b64 base, at; .reg .b32 t; .reg .f32 g; .reg .b64 x;
mov.u32 t, %tid.x; mul.wide.u32 at, t, 8; ld.param.u64 base, [given]; add.s64 base, base, at;
"""


def forms() -> dict[str, np.ndarray]:
    """What registers 1 to 3 of each kind hold, element by element."""
    given = {}
    for j in (1, 2, 3):
        given |= {f"r{j}": words(90 + j), f"l{j}": words(93 + j, "u8"), f"f{j}": floats(96 + j)}
        given |= {f"d{j}": floats(100 + j, "f8"), f"s{j}": moderate(103 + j, "f2").view("u2")}
    given["f3"][:8] = [1e-39, -1e-39, 0.25, 0.75, 2, -2, 1 + 2**-11, -0.0]
    given["f1"][40:60] = given["f2"][40:60] = np.arange(20) / 8 - 1
    given["r2"][60:90] = given["r1"][60:90]
    return given


def pairs(bits: np.ndarray) -> np.ndarray:
    return bits.view("f2").reshape(-1, 2)


def bf(bits: np.ndarray) -> np.ndarray:
    """Values of bfloat16, or of pairs of them."""
    halves = bits.view("u2").reshape(-1, 2) if bits.itemsize == 4 else bits
    return from_bf16(halves)


def tiny(x: np.ndarray, least: float = 2.0**-126) -> np.ndarray:
    """What is subnormal flushed to a zero of its sign."""
    return np.where(np.abs(x) < least, np.copysign(x.dtype.type(0), x), x)


def s4(x: np.ndarray) -> np.ndarray:
    return x.view("i4").astype("i8")


def low24(x: np.ndarray) -> np.ndarray:
    return (x.astype("i8") << 40) >> 40


def ones(where: np.ndarray, dtype: str) -> np.ndarray:
    return np.where(where, np.array(-1).astype(dtype), np.array(0, dtype))


def saturated(x: np.ndarray) -> np.ndarray:
    return np.nan_to_num(np.clip(x, 0, 1), nan=0.0)


FORMS = {
    "st.global.L2::cache_hint.u32 [base], r1, l1; ld.global.L2::cache_hint.u32 r9, [base], l1": lambda v: v["r1"],
    "sub.sat.s32 r9, r1, r2": lambda v: np.clip(s4(v["r1"]) - s4(v["r2"]), -(2**31), 2**31 - 1).astype("i4"),
    "mul24.lo.u32 r9, r1, r2": lambda v: (v["r1"] & 0xFFFFFF) * (v["r2"] & 0xFFFFFF),
    "mul24.hi.s32 r9, r1, r2": lambda v: (low24(v["r1"]) * low24(v["r2"]) >> 16).astype("i4"),
    "mad24.lo.s32 r9, r1, r2, r3": lambda v: (low24(v["r1"]) * low24(v["r2"]) + v["r3"]).astype("i4"),
    "max.relu.s32 r9, r1, r2": lambda v: np.maximum(np.maximum(s4(v["r1"]), s4(v["r2"])), 0).astype("i4"),
    "min.relu.s32 r9, r1, r2": lambda v: np.maximum(np.minimum(s4(v["r1"]), s4(v["r2"])), 0).astype("i4"),
    "min.NaN.f32 f9, f1, f2": lambda v: np.minimum(v["f1"], v["f2"]),
    "max.ftz.f32 f9, f1, f3": lambda v: np.fmax(tiny(v["f1"]), tiny(v["f3"])),
    "min.f16x2 r9, r1, r2": lambda v: np.fmin(pairs(v["r1"]), pairs(v["r2"])),
    "max.NaN.f16x2 r9, r1, r2": lambda v: np.maximum(pairs(v["r1"]), pairs(v["r2"])),
    "abs.f16x2 r9, r1": lambda v: np.abs(pairs(v["r1"])), "neg.f16x2 r9, r1": lambda v: -pairs(v["r1"]),
    "mul.rn.f16x2 r9, r1, r2": lambda v: pairs(v["r1"]) * pairs(v["r2"]),
    "sub.rn.sat.f16x2 r9, r1, r2": lambda v: saturated(pairs(v["r1"]) - pairs(v["r2"])),
    "sub.rn.ftz.f16x2 r9, r1, r2": lambda v: tiny(tiny(pairs(v["r1"]), 2**-14) - tiny(pairs(v["r2"]), 2**-14), 2**-14),
    "add.rn.sat.f16 s9, s1, s2": lambda v: saturated(v["s1"].view("f2") + v["s2"].view("f2")),
    "mul.rn.bf16 s9, s1, s2": lambda v: bf16(bf(v["s1"]) * bf(v["s2"])),
    "sub.rn.bf16x2 r9, r1, r2": lambda v: bf16(bf(v["r1"]) - bf(v["r2"])),
    "fma.rn.relu.bf16 s9, s1, s2, s3": lambda v: bf16(
        np.maximum((bf(v["s1"]).astype("f8") * bf(v["s2"]) + bf(v["s3"])).astype("f4"), 0)),
    "sub.rz.f32 f9, f1, f2": lambda v: directed(Fraction.__sub__, "rz", v["f1"], v["f2"]),
    "sub.rp.f64 d9, d1, d2": lambda v: directed(Fraction.__sub__, "rp", v["d1"], v["d2"]),
    "div.rm.f32 f9, f1, f3": lambda v: directed(Fraction.__truediv__, "rm", v["f1"], v["f3"]),
    "div.full.ftz.f32 f9, f1, f3": lambda v: tiny(tiny(v["f1"]) / tiny(v["f3"])),
    "rcp.rz.f32 f9, f3": lambda v: directed(lambda x: 1 / x, "rz", v["f3"]),
    "fma.rp.f32 f9, f1, f2, f3": lambda v: directed(fused, "rp", v["f1"], v["f2"], v["f3"]),
    "sqrt.approx.ftz.f32 f9, f3": lambda v: np.sqrt(tiny(v["f3"])),
    "add.cc.u32 t, r1, r2; addc.cc.u32 t, r2, r3; addc.u32 r9, r1, r1": lambda v: cut(each(
        lambda a, b, c: (a + b + (b + c << 32) + (a + a << 64)) >> 64, v["r1"], v["r2"], v["r3"]), "u4"),
    "sub.cc.s32 t, r1, r2; subc.cc.s32 t, r2, r3; subc.s32 r9, r1, r3": lambda v: cut(each(
        lambda a, b, c: (a - b + (b - c << 32) + (a - c << 64)) >> 64, v["r1"], v["r2"], v["r3"]), "u4"),
    "add.cc.u64 x, l1, l2; addc.u64 l9, l2, l3": lambda v: cut(each(
        lambda a, b, c: (a + b + (b + c << 64)) >> 64, v["l1"], v["l2"], v["l3"]), "u8"),
    "mad.lo.cc.u32 t, r1, r2, r3; madc.lo.cc.u32 t, r3, r3, r1; addc.u32 r9, r2, 0": lambda v: cut(each(
        lambda a, b, c: ((a * b & 0xFFFFFFFF) + c + ((c * c & 0xFFFFFFFF) + a << 32) + (b << 64)) >> 64,
        v["r1"], v["r2"], v["r3"]), "u4"),
    "set.lt.f32.s32 f9, r1, r2": lambda v: (v["r1"].view("i4") < v["r2"].view("i4")).astype("f4"),
    "set.le.ftz.s32.f32 r9, f1, f3": lambda v: ones(tiny(v["f1"]) <= tiny(v["f3"]), "i4"),
    "set.gt.f16.f16 s9, s1, s2": lambda v: (v["s1"].view("f2") > v["s2"].view("f2")).astype("f2"),
    "set.gt.bf16.bf16 s9, s1, s2": lambda v: bf16((bf(v["s1"]) > bf(v["s2"])).astype("f4")),
    "set.neu.u32.f16x2 r9, r1, r2": lambda v: ones(
        ~(pairs(v["r1"]) == pairs(v["r2"])), "u2").view("u2"),
    "set.geu.bf16x2.bf16x2 r9, r1, r2": lambda v: bf16((~(bf(v["r1"]) < bf(v["r2"]))).astype("f4")),
    "setp.ge.s32 p1, r3, 0; set.eq.and.u32.u32 r9, r1, r2, p1": lambda v: ones(
        (v["r1"] == v["r2"]) & (v["r3"].view("i4") >= 0), "u4"),
    "setp.ge.s32 p1, r3, 0; set.eq.xor.u32.u32 r9, r1, r2, !p1": lambda v: ones(
        (v["r1"] == v["r2"]) ^ (v["r3"].view("i4") < 0), "u4"),
    "setp.equ.f16x2 p1|p2, r1, r2; selp.b32 r9, 1, 0, p1; @p2 add.u32 r9, r9, 2": lambda v: (
        ~((pairs(v["r1"]) < pairs(v["r2"])) | (pairs(v["r1"]) > pairs(v["r2"])))) @ np.array([1, 2], "u4"),
    "setp.num.bf16 p1, s1, s2; selp.b16 s9, 1, 0, p1": lambda v: (
        ~(np.isnan(bf(v["s1"])) | np.isnan(bf(v["s2"])))).astype("u2"),
    "slct.ftz.b32.f32 r9, r1, r2, f3": lambda v: np.where(tiny(v["f3"]) >= 0, v["r1"], v["r2"]),
    "slct.f64.s32 d9, d1, d2, r3": lambda v: np.where(v["r3"].view("i4") >= 0, v["d1"], v["d2"]),
    "mov.b64 l9, {s1, s2, s3, s1}": lambda v: np.stack([v["s1"], v["s2"], v["s3"], v["s1"]], 1).view("u8")[:, 0],
    "mov.b64 {s5, _, _, s9}, l1; xor.b16 s9, s9, s5": lambda v: v["l1"].view("u2")[3::4] ^ v["l1"].view("u2")[::4],
    "mov.b32 r9, {s1, s3}": lambda v: np.stack([v["s1"], v["s3"]], 1).view("u4")[:, 0],
    "cvt.rn.relu.f16x2.f32 r9, f1, f2": lambda v: np.maximum(np.stack([v["f2"], v["f1"]], 1).astype("f2"), 0),
    "cvt.rn.relu.bf16x2.f32 r9, f1, f2": lambda v: bf16(np.maximum(np.stack([v["f2"], v["f1"]], 1), 0)),
    "cvt.rn.ftz.f16.f32 s9, f3": lambda v: tiny(v["f3"]).astype("f2"),
    "cvt.ftz.f32.f32 f9, f3": lambda v: tiny(v["f3"]), "cvt.ftz.f64.f32 d9, f3": lambda v: tiny(v["f3"]).astype("f8"),
    "cvt.rn.ftz.f32.f64 f9, d1": lambda v: tiny(v["d1"].astype("f4")),
    "cvt.f32.f16 f9, s1": lambda v: v["s1"].view("f2").astype("f4"),
    "cvt.f64.f16 d9, s1": lambda v: v["s1"].view("f2").astype("f8"),
    "cvt.rni.f16.f16 s9, s1": lambda v: np.rint(v["s1"].view("f2")),
    "cvt.rn.f16.f64 s9, d1": lambda v: v["d1"].astype("f2"),
    "cvt.rn.f16.s32 s9, r1": lambda v: v["r1"].view("i4").astype("f8").astype("f2"),
    "cvt.sat.f16.f32 s9, f1": lambda v: saturated(v["f1"]).astype("f2"),
    "cvt.rn.sat.f32.s32 f9, r1": lambda v: saturated(v["r1"].view("i4").astype("f4")),
    "cvt.f32.bf16 f9, s1": lambda v: bf(v["s1"]), "cvt.rn.relu.bf16.f32 s9, f1": lambda v: bf16(np.maximum(v["f1"], 0)),
    "cvt.rpi.bf16.bf16 s9, s1": lambda v: bf16(np.ceil(bf(v["s1"]))),
    "cvt.rna.tf32.f32 r9, f3": lambda v: v["f3"].view("u4") + 0x1000 & 0xFFFFE000,
    "cvt.rz.tf32.f32 r9, f3": lambda v: v["f3"].view("u4") & 0xFFFFE000,
    "cvt.rzi.u16.f32 s9, f1": lambda v: np.clip(np.trunc(np.nan_to_num(v["f1"], nan=0)), 0, 65535).astype("u2"),
    "cvt.rmi.s64.f64 l9, d3": lambda v: np.array([int(np.clip(np.floor(x), -(2.0**63), 2**63)) if x < 2.0**63
        else 2**63 - 1 if x == x else -(2**63) for x in v["d3"].tolist()], "i8"),
    "tanh.approx.f16 s9, s1": lambda v: np.tanh(v["s1"].view("f2").astype("f8")).astype("f2"),
    "ex2.approx.f16x2 r9, r1": lambda v: np.exp2(pairs(v["r1"]).astype("f8")).astype("f2"),
    "ex2.approx.ftz.bf16 s9, s1": lambda v: bf16(np.exp2(bf(v["s1"]).astype("f8")).astype("f4")),
    "tanh.approx.bf16x2 r9, r1": lambda v: bf16(np.tanh(bf(v["r1"]).astype("f8")).astype("f4")),
    "rsqrt.approx.f64 d9, d1": lambda v: 1 / np.sqrt(v["d1"]),
    "rcp.approx.ftz.f64 d9, d1": lambda v: tiny(1 / v["d1"], 2.0**-1022),
    "testp.subnormal.f32 p1, f3; selp.b32 r9, 1, 0, p1": lambda v: (
        (np.abs(v["f3"]) < 2.0**-126) & (v["f3"] != 0)).astype("u4"),
    "copysign.f32 f9, f1, f3": lambda v: np.copysign(v["f3"], v["f1"]),
    "bfind.shiftamt.s32 r9, r1": lambda v: np.array([31 - n if n >= 0 else n for n in (
        (x ^ x >> 31).bit_length() - 1 for x in v["r1"].view("i4").tolist())], "i4"),
    "sad.s16 s9, s1, s2, s3": lambda v: cut(each(lambda a, b, c: abs(a - b) + c, *(
        v[s].view("i2") for s in ("s1", "s2", "s3"))), "u2"),
    "lop3.b32 r9, r1, r2, r3, 0xCA": lambda v: (v["r1"] & v["r2"]) | (~v["r1"] & v["r3"]),
    "add.u32 r9, r1, WARP_SZ": lambda v: v["r1"] + np.uint32(32), "xor.b16 s9, s1, -1": lambda v: ~v["s1"],
    "add.f32 f9, f1, 1.5": lambda v: v["f1"] + np.float32(1.5), "mul.f64 d9, d1, 0.1": lambda v: v["d1"] * 0.1,
    "add.f32 f9, f1, 0d3FF8000000000000": lambda v: v["f1"] + np.float32(1.5),
    "add.f32 f9, f1, 0x40000000": lambda v: v["f1"] + np.float32(2),
    "add.f16 s9, s1, 0x3C00": lambda v: v["s1"].view("f2") + np.float16(1),
    "add.f16 s9, s1, 0f3F800000": lambda v: v["s1"].view("f2") + np.float16(1),
    "add.f16 s9, s1, 1.0": lambda v: v["s1"].view("f2") + np.float16(1),
    "xor.b32 r9, r1, 0f3F800000": lambda v: v["r1"] ^ np.uint32(0x3F800000),
    "xor.b64 l9, l1, 0d3FF0000000000000": lambda v: v["l1"] ^ np.uint64(0x3FF0000000000000),
    "cvt.u64.s16 l9, s1": lambda v: v["s1"].view("i2").astype("i8"), "cvt.u16.u32 s9, r1": lambda v: v["r1"].astype("u2"),
    "cvt.u8.u32 s9, r1": lambda v: (v["r1"] & 255).astype("u2"), "cvt.s8.s32 s9, r1": lambda v: v["r1"].astype("i1").astype("i2"),
    "cvta.shared.u64 l9, l1; cvta.to.shared.u64 l9, l9; isspacep.shared p1, l9; selp.b64 l9, 0, l9, p1": lambda v: v["l1"],
    "cvta.local.u64 l9, l1; cvta.shared.u64 x, l1; sub.u64 l9, l9, x": lambda v: np.full(N, 1 << 56, "u8"),
    "cvta.global.u64 l9, l1; cvta.to.global.u64 l9, l9": lambda v: v["l1"], "mov.u64 l9, %clock64; mov.b64 l9, 3": lambda v: np.full(N, 3, "u8"),
    "mov.b32 r9, %laneid; add.u32 r9, r9, %ntid.x": lambda v: np.arange(N, dtype="u4") % 32 + N,
    "setp.ne.s32 p1, r1, 0; selp.f64 d9, d1, d2, p1": lambda v: np.where(v["r1"] != 0, v["d1"], v["d2"]),
}  # fmt: skip


def directed(function, mode: str, *arrays: np.ndarray) -> np.ndarray:
    """A function in rational arithmetic, rounded once; NaN where it is not finite or not normal."""
    dtype = arrays[0].dtype
    least, most = (float(x) for x in (np.finfo(dtype).tiny, np.finfo(dtype).max))
    out = []
    for row in zip(*(a.tolist() for a in arrays), strict=True):
        try:
            value = exactly(function, *(np.array([x], dtype) for x in row), mode=mode)[0]
        except (ValueError, OverflowError, ZeroDivisionError):
            value = np.nan
        out.append(value if least <= abs(value) <= most else np.nan)
    return np.array(out, dtype)


def test_rarer_forms_do_what_the_ptx_isa_says():
    given = forms()
    loads = " ".join(
        f"ld.global.{'f' if k in 'fd' else 'b'}{8 * int(REGISTERS[k][1])} {name}, [base+{8 * N * i}];"
        for i, name in enumerate(given)
        for k in name[0]
    )
    body = ""
    for i, text in enumerate(FORMS):
        kind = text.split("9")[0][-1]
        body += f"{text}; st.global.b{8 * int(REGISTERS[kind][1])} [base+{8 * N * i}], {kind}9;\n"
    text = f"{FORMS_HEAD}{loads} ld.param.u64 base, [out]; add.s64 base, base, at;\n{body} ret; }}"
    held = np.zeros((len(given), N), "u8")
    for row, values in zip(held, given.values(), strict=True):
        row.view(values.dtype)[:: 8 // values.itemsize] = values
    out = np.zeros((len(FORMS), N), "u8")
    report = emulator.launch(text, "k", 1, N, [held, out], arch="sm_100a")
    assert report.ok, report
    for row, (form, function) in zip(out, FORMS.items(), strict=True):
        want = function(given)
        got = np.ascontiguousarray(row.view("u1").reshape(N, 8)[:, : want.nbytes // N])
        got = got.view(want.dtype).reshape(want.shape)
        loose = "rz." in form or "rm." in form or "rp." in form
        where = ~np.isnan(want) if want.dtype.kind == "f" and loose else np.ones(want.shape, bool)
        assert where.sum() > N // 4, form
        np.testing.assert_array_equal(got[where], want[where], err_msg=form)
        if want.dtype.kind == "f":
            number = where & ~np.isnan(want)
            open_ = any(
                word in form for word in ("max", "min", "sat", "relu")
            )  # the sign of a zero
            assert open_ or (np.signbit(got[number]) == np.signbit(want[number])).all(), form


# -- atomics, against a loop over the threads -----------------------------------------------------

ATOMICS = {
    "u32": "add min max inc dec", "s32": "add min max", "u64": "add min max", "s64": "min max",
    "b32": "and or xor exch cas", "b64": "and or xor exch cas", "b16": "cas", "f32": "add",
    "f64": "add", "f16": "add", "bf16": "add", "f16x2": "add", "bf16x2": "add",
}  # fmt: skip


def as_numbers(kind: str, bits: np.ndarray) -> np.ndarray:
    """Bits as numbers of a PTX type; pairs on a last axis."""
    if kind.startswith("bf16"):
        return from_bf16(bits.view("u2"))
    if kind[0] == "f":
        return bits.view(f"f{int(kind[1:3]) // 8}")
    return bits.view(f"{'i' if kind[0] == 's' else 'u'}{bits.itemsize}")


def updated(kind: str, op: str, old: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
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
    dtype = f"{'f' if kind in ('f32', 'f64') else 'u'}{size}"
    letter, ctype, bits = LETTER[dtype], C_TYPE[dtype], f"u{size}"
    body = ""
    for o, (op, space) in enumerate(itertools.product(ops, ("global", "shared"))):
        third = f', "{letter}"(c[i])' if op == "cas" else ""
        noftz = ".noftz" if "16" in kind and kind != "b16" else ""
        body += f"""
        if (here[i]) asm volatile("atom.{space}.{op}{noftz}.{kind} %0, [%1], %2{", %3" if third else ""};"
            : "={letter}"(v) : "l"({space}_ + {5 * (o // 2)} + at[i]), "{letter}"(b[i]){third} : "memory");
        old[{o} * 160 + i] = v;"""
    source = f"""extern "C" __global__ void k({ctype}* memory, {ctype}* old, const {ctype}* b,
        const {ctype}* c, const int* at, const int* here) {{
        __shared__ {ctype} s[{5 * len(ops)}];
        int t = threadIdx.y * 16 + threadIdx.x, i = blockIdx.x * 80 + t;
        {ctype}* global_ = memory;
        unsigned long long shared = __cvta_generic_to_shared(s);
        {ctype}* shared_ = ({ctype}*)shared;
        if (t < {5 * len(ops)}) s[t] = memory[{5 * len(ops)} + t];
        __syncthreads();
        {ctype} v = 0;{body}
        __syncthreads();
        if (t < {5 * len(ops)}) memory[{5 * len(ops)} * (1 + blockIdx.x) + t] = s[t];
    }}"""
    if "f" in kind:  # whole numbers, of which sums are exact
        whole = rng.integers(-3, 4, 2000).astype("f4")
        halves = bf16(whole) if kind[0] == "b" else whole.astype(f"f{int(kind[1:3]) // 8}")
        drawn = halves.view(bits)
    else:
        drawn = rng.integers(0, 2 if "cas" in ops else 9, 600).astype(bits)
        drawn = np.where(rng.random(600) < 0.5, drawn, ~drawn if "cas" not in ops else drawn)
    b, c, start = drawn[:160], drawn[160:320], np.tile(drawn[320 : 320 + 5 * len(ops)], 3)
    at, here = rng.integers(0, places, 160).astype("i4"), (np.arange(160) % 9 > 1).astype("i4")
    memory, old = start.copy(), np.zeros((len(ops), 2, 160), bits)
    arrays = [memory.view(dtype), old.view(dtype), b.view(dtype), c.view(dtype), at, here]
    report = emulator.launch(source, "k", 2, (16, 5), arrays, arch="sm_90")
    assert {f.kind for f in report.findings} <= {"race"}, report  # of what both blocks put back
    for o, op in enumerate(ops):
        rows = start.reshape(3, -1, 5)[:, o].copy()
        seen = np.zeros((2, 160), bits)
        for i, place in enumerate(at):
            for space, row in enumerate((rows[0], rows[1 + i // 80])):
                if here[i]:
                    seen[space, i] = row[place]
                    cell = slice(place, place + 1)
                    row[cell] = updated(kind, op, row[cell], b[i : i + 1], c[i : i + 1])
        wait = here == 1
        np.testing.assert_array_equal(old[o][:, wait], seen[:, wait], op)
        np.testing.assert_array_equal(memory.reshape(3, -1, 5)[:, o], rows, op)
