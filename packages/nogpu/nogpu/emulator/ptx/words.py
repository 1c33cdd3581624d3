"""What the words of an instruction say: types, rounding, space; and how Python holds the types."""

from __future__ import annotations

from nogpu.emulator.ptx import syntax as P

NUMPY = {
    "pred": "b1", "b8": "i1", "s8": "i1", "u8": "u1", "b16": "i2", "s16": "i2", "u16": "u2",
    "b32": "i4", "s32": "i4", "u32": "u4", "b64": "i8", "s64": "i8", "u64": "u8",
    "f16": "f2", "f32": "f4", "f64": "f8", "bf16": "i2", "f16x2": "i4", "bf16x2": "i4",
    "tf32": "i4",
}  # fmt: skip
"""NumPy type of the values of a PTX type; packed and bfloat16 values are kept as their bits."""

SIGNLESS = {"u1": "i1", "u2": "i2", "u4": "i4", "u8": "i8"}
"""Integers whose bits are the same with a sign: sums and moves need no other type."""

STRONG = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}
"""Words of accesses that are made for synchronisation."""

COMPARE = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
    "equ": "==", "neu": "!=", "ltu": "<", "leu": "<=", "gtu": ">", "geu": ">=",
}  # fmt: skip
"""Python's sign of a comparison; of floats, those that end in u are true of NaN, too."""
OPPOSITE = {"ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
"""The sign of which such a comparison is the contrary."""
UNSIGNED = ("lo", "ls", "hi", "hs")
"""Comparisons of unsigned integers, whatever the type says."""

HALVES = {
    "bf16": ("i2", "bf16_value({})", "bf16_bits({})"),
    "f16x2": ("i4", "half2({})", "pack16({})"),
    "bf16x2": ("i4", "bf16_value(unpack16({}))", "pack16(bf16_bits({}))"),
}
"""Of floats that are kept as bits: NumPy type of the bits, expressions of the values, and back."""

_SPACES = ("global", "shared", "local", "const", "param")


def rounding(ins: P.Instruction) -> str:
    """How it rounds; to nearest if it does not say."""
    return next((p for p in ins.parts if p in ("rn", "rz", "rm", "rp", "rna")), "rn")


def space_of(ins: P.Instruction) -> str:
    """The memory that it names, or "generic"."""
    for part in ins.parts[1:]:
        base = part.split("::")[0]
        if base in _SPACES:
            return base
    return "generic"


def items(operand: P.Operand | None) -> tuple[P.Operand | None, ...]:
    """The elements of a vector operand, or the operand alone."""
    return operand.items if isinstance(operand, P.Vector) else (operand,)


def variable_at(operand: P.Operand | None) -> tuple[str, int] | None:
    """The variable and the byte within it that an address names, if it names one."""
    if isinstance(operand, P.Address) and isinstance(operand.base, P.Symbol):
        return operand.base.name, operand.base.offset + operand.offset
    return None
