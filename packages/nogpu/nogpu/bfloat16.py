"""bfloat16, which NumPy lacks: its bits travel as uint16."""

from __future__ import annotations

import numpy as np

BFLOAT16_NAN = 0x7FFF
"""The one NaN that a conversion to bfloat16 gives, whatever the sign and payload of what it was
given.

Source: PTX ISA, cvt, and __float2bfloat16 of cuda_bf16.hpp, which does the same on the host.
"""


def bfloat16_bits(x: np.ndarray, mode: str = "rn") -> np.ndarray:
    """Bits (uint16) of float32 or float64 values as bfloat16, rounded once.

    Modes: "rn" to nearest, ties to even; "rz" toward zero, "rm" minus, "rp" plus infinity. A NaN
    becomes BFLOAT16_NAN.
    """
    u4 = np.uint32
    if x.dtype == np.float64:
        with np.errstate(over="ignore", invalid="ignore"):
            near = x.astype(np.float32)
            error = x - near
        # Odd where inexact, so that the second rounding cannot mistake it for a tie.
        toward = (error != 0) & ((error < 0) == (near > 0)) & (near != 0)
        bits = near.view(u4)
        bits = np.where(toward, bits - u4(1), bits)
        bits = np.where((error != 0) & np.isfinite(near), bits | u4(1), near.view(u4))
    else:
        bits = x.view(u4)
    if mode == "rz":
        out = bits >> u4(16)
    elif mode in ("rm", "rp"):
        away = (bits >> u4(31) == (mode == "rm")) & (bits & u4(0xFFFF) != 0)
        out = (bits >> u4(16)) + away.astype(u4)
    else:
        out = (bits + u4(0x7FFF) + ((bits >> u4(16)) & u4(1))) >> u4(16)
    return np.where(np.isnan(x), u4(BFLOAT16_NAN), out).astype(np.uint16)


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    """Round float32 values to bfloat16, ties to even; the result is the bits as uint16."""
    return bfloat16_bits(np.ascontiguousarray(x, np.float32))


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """float32 values of bfloat16 bits given as uint16."""
    return (np.asarray(bits, np.uint32) << 16).view(np.float32)
