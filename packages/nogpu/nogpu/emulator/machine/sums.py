"""How a Tensor Core adds the products of one instruction to a sum, as an H200 does it, to the bit.

The products are exact. All of them and the sum are shifted to the largest exponent among them (that
of a product is the sum of its factors' exponents), cut off ALIGNED_BITS bits below it, and added
exactly; the total is cut off to float32. So the order of the products does not matter, and small
ones lose bits toward zero. Of 8-bit floats wgmma keeps FP8_ALIGNED_BITS bits, of the total too
where it is float32. mma.sync has no such products there: it multiplies their values as float16, in
each group of four k the first two, then the others, and adds the old sum at the end, rounded to
nearest.

All this was found by comparing bits with an H200's (tools/sums_on_a_gpu.py,
data/validation/sums_h200.json, tests/test_sums.py). That low bits are cut off, and how many earlier
GPUs keep: Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores" (2021).
One rule stands here for all architectures.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nogpu.emulator.machine import arith
from nogpu.emulator.machine.lanes import Array, spread_to

f4, f8 = np.dtype("f4"), np.dtype("f8")

ALIGNED_BITS = 25
"""Bits below the largest exponent that a shifted product keeps."""
FP8_ALIGNED_BITS = 13
"""The same of wgmma's products of 8-bit floats."""
EIGHT = frozenset({"e4m3", "e5m2", "e2m3", "e3m2", "e2m1"})
"""8-bit floats, and those that tcgen05 multiplies in their place."""
FLOATS = frozenset({"f16", "bf16", "tf32"}) | EIGHT
"""Types of A and B whose products are added so."""
_NARROW = EIGHT | {"f16"}  # products, and what ALIGNED_BITS makes of them, fit float32
_AT_ONCE = 1 << 17  # products that are formed together: they should fit the processor's cache


def accumulate(
    a: Array, b: Array, c: Array, kinds: tuple[str, str], *, asynchronous: bool = False
) -> Array:
    """a b + c as a Tensor Core adds it.

    Parameters
    ----------
    a, b: float64 (..., m, k) and (..., k, n).
    c: float64 (..., m, n) of float32 values.
    kinds: PTX's types of the result and of a and b, the latter one of FLOATS.
    asynchronous: wgmma, not mma.sync or wmma.

    Returns
    -------
    float64 (..., m, n) that hold float32 values, or what is yet to be rounded to float16. Where a
    factor or the sum is not finite, that of a float64 sum.
    """
    kind, factor = kinds
    work = f4 if factor in _NARROW else f8
    if factor not in EIGHT:
        out = arith.directed(_shifted(a, b, c, ALIGNED_BITS, work), "rz").astype(f8)
    elif asynchronous:
        out = _shifted(a, b, c, FP8_ALIGNED_BITS, work)
        if kind == "f32":
            grain = _power(out, f8) * 2.0**-FP8_ALIGNED_BITS
            out = np.trunc(out / np.where(grain == 0, 1.0, grain)) * grain
    else:
        late = np.arange(a.shape[-1]) % 4 >= 2
        half = np.zeros_like(c)
        for part in (~late, late):
            half = arith.directed(
                _shifted(a[..., part], b[..., part, :], half, ALIGNED_BITS, work), "rz"
            ).astype(f8)
        out = (half + c).astype(f4).astype(f8)
    if all(np.isfinite(x).all() for x in (a, b, c)):
        return out
    with np.errstate(invalid="ignore"):
        plain = np.matmul(a, b) + c
    return np.where(np.isfinite(plain), out, plain)


def _power(x: Array, work: np.dtype[Any]) -> Array:
    """The power of two at or below |x|, 0 for 0."""
    _, exponent = np.frexp(x)
    return np.where(x == 0, 0, np.ldexp(np.ones((), work), exponent - 1)).astype(work)


def _shifted(a: Array, b: Array, c: Array, bits: int, work: np.dtype[Any]) -> Array:
    """The exact total of products and sum that were cut off `bits` below the largest exponent."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    a3, b3, c3 = (
        spread_to(x, (*lead, *x.shape[-2:])).reshape(-1, *x.shape[-2:]) for x in (a, b, c)
    )
    out = np.empty((len(a3), m, n), f8)
    each = max(1, _AT_ONCE // (m * n * k))
    with np.errstate(all="ignore"):  # what is not finite is replaced
        for at in range(0, len(a3), each):
            part = slice(at, at + each)
            out[part] = _piece(a3[part], b3[part], c3[part], bits, work)
    return out.reshape(*lead, m, n)


def _piece(a: Array, b: Array, c: Array, bits: int, work: np.dtype[Any]) -> Array:
    """The same of a (t, m, k), b (t, k, n), c (t, m, n)."""
    # k first: NumPy adds whole arrays faster than a few numbers that lie side by side.
    a = np.ascontiguousarray(a.transpose(2, 0, 1), work)[..., None]  # (k, t, m, 1)
    b = np.ascontiguousarray(b.transpose(1, 0, 2), work)[:, :, None]  # (k, t, 1, n)
    largest = (_power(a, work) * _power(b, work)).max(axis=0)
    largest = np.maximum(largest.astype(f8), _power(c, f8))
    scale = np.ldexp(1.0, bits) / np.where(largest == 0, 1.0, largest)
    terms = a * b  # exact
    # Nonzero products of narrow types need far less: this keeps 0 times the scale a number.
    terms *= np.minimum(scale, 2.0**100).astype(work)
    np.trunc(terms, out=terms)
    total: Array = terms.sum(axis=0, dtype=f8) + np.trunc(c * scale)
    return total / scale
