"""Sums, products and functions of numbers, and shifts, as Python."""

from __future__ import annotations

from collections.abc import Sequence

from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.emit import Emitter, flushed, limited, lowers
from nogpu.emulator.ptx.words import HALVES, NUMPY, SIGNLESS, rounding

_SIGNS = {"add": "+", "sub": "-", "mul": "*"}


@lowers("add", "sub", "mul")
def _arithmetic(e: Emitter, ins: P.Instruction) -> None:
    kind = ins.types[-1]
    d, a, b = ins.operands
    symbol = _SIGNS[ins.root]
    if kind in HALVES:
        _half_arithmetic(e, ins, kind)
        return
    numpy = NUMPY[kind]
    if "cc" in ins.parts:
        _with_carry(e, ins)
        return
    if numpy[0] != "f":
        if "sat" in ins.parts:
            wide = f"({e.read(a, 'i4')}.astype(i8) {symbol} {e.read(b, 'i4')})"
            e.write(d, f"saturate_int({wide}, i4)", "i4")
        else:
            e.write(d, *_whole(e, ins, numpy, symbol))
        return
    x, y = flushed(e, ins, a, numpy), flushed(e, ins, b, numpy)
    mode = rounding(ins)
    if mode == "rn" or numpy == "f2":
        expression = f"{x} {symbol} {y}"
    elif ins.root == "mul":
        expression = f"mul{8 * int(numpy[1])}_mode({x}, {y}, {mode!r})"
    else:
        name = "add32" if numpy == "f4" else "add64_mode"
        y = f"-{y}" if ins.root == "sub" else y
        expression = f"{name}({x}, {y}, {mode!r})"
    e.write(d, limited(ins, f"({expression})"), numpy)


def _whole(e: Emitter, ins: P.Instruction, numpy: str, symbol: str = "*") -> tuple[str, str]:
    """A sum or product of integers, and its NumPy type."""
    kind = numpy if {"wide", "hi"} & set(ins.parts) else SIGNLESS.get(numpy, numpy)
    a, b = (e.read(o, kind) for o in ins.operands[1:3])
    if "wide" in ins.parts:
        wide = f"{kind[0]}{2 * int(kind[1])}"
        return f"mul({a}, {b}, dtype={wide})", wide
    return f"mulhi({a}, {b})" if "hi" in ins.parts else f"{a} {symbol} {b}", kind


def _half_arithmetic(e: Emitter, ins: P.Instruction, kind: str) -> None:
    d, *sources = ins.operands
    bits, value, back = HALVES[kind]
    values = [value.format(e.read(o, bits)) for o in sources]
    if "ftz" in ins.parts:
        values = [f"flush({v})" for v in values]
    if ins.root == "fma":
        result = f"{'fma16' if kind == 'f16x2' else 'fma32_exact'}({', '.join(values)})"
    elif ins.root in ("min", "max"):
        result = _least_or_most(e, ins, values)
    elif ins.root in ("neg", "abs"):
        result = f"-{values[0]}" if ins.root == "neg" else f"absolute({values[0]})"
    else:
        result = f"({values[0]} {_SIGNS[ins.root]} {values[1]})"
    if "sat" in ins.parts:
        result = f"saturate({result})"
    if "relu" in ins.parts:
        result = f"maximum({result}, ({result}).dtype.type(0))"
    if "ftz" in ins.parts:
        result = f"flush({result})"
    e.write(d, back.format(result), bits)


@lowers("addc", "subc", "madc")
def _with_carry(e: Emitter, ins: P.Instruction) -> None:
    """The carry of .cc is kept for addc, subc and madc of the same block, which keep it with .cc
    only. mad.cc, madc: half a product is added.
    """
    numpy = NUMPY[ins.types[-1]]
    unsigned = "u" + numpy[1]
    if ins.root.startswith("mad"):
        d, a, b, c = ins.operands
        x, y = e.read(a, numpy), e.read(b, numpy)
        half = f"mulhi({x}, {y})" if "hi" in ins.parts else f"({x} * {y})"
        added = f"{half}.view({unsigned}), {e.read(c, unsigned)}"
    else:
        d, a, b = ins.operands
        added = f"{e.read(a, unsigned)}, {e.read(b, unsigned)}"
    name = "sub_borrow" if ins.root.startswith("sub") else "add_carry"
    name += "" if "cc" in ins.parts else "_in"
    extra = "F['carry']" if ins.root.endswith("c") else "None"
    e.write(d, e.temporary(f"{name}(F, {added}, {extra})"), unsigned)


@lowers("fma", "mad")
def _multiply_add(e: Emitter, ins: P.Instruction) -> None:
    kind = ins.types[-1]
    d, a, b, c = ins.operands
    if kind in HALVES:
        _half_arithmetic(e, ins, kind)
        return
    numpy = NUMPY[kind]
    if numpy[0] == "f":
        mode, name = rounding(ins), f"fma{8 * int(numpy[1])}"
        values = ", ".join(flushed(e, ins, o, numpy) for o in (a, b, c))
        plain = mode == "rn" or numpy == "f2"
        call = f"{name}({values})" if plain else f"{name}_mode({values}, {mode!r})"
        result = limited(ins, call)
        if "relu" in ins.parts:
            result = f"maximum({result}, {e.constant(0, numpy)})"
        e.write(d, result, numpy)
        return
    if "cc" in ins.parts:
        _with_carry(e, ins)
        return
    product, numpy = _whole(e, ins, numpy)
    e.write(d, _sum_int(e, ins, product, c, numpy), numpy)


def _sum_int(e: Emitter, ins: P.Instruction, product: str, c: P.Operand | None, kind: str) -> str:
    """product + c; with .sat no more than the type holds."""
    if "sat" in ins.parts:
        return f"saturate_int({product}.astype(i8) + {e.read(c, kind)}, {kind})"
    return f"{product} + {e.read(c, kind)}"


@lowers("mul24", "mad24")
def _mul24(e: Emitter, ins: P.Instruction) -> None:
    kind = NUMPY[ins.types[-1]]
    eight = f"{kind}.type(8)"
    x, y = (f"(({e.read(o, kind)} << {eight}) >> {eight})" for o in ins.operands[1:3])
    wide = kind[0] + "8"
    product = f"mul({x}, {y}, dtype={wide})"
    if "hi" in ins.parts:
        product = f"({product} >> {wide}.type(16))"
    result = f"{product}.astype({kind})"
    if ins.root == "mad24":
        result = _sum_int(e, ins, result, ins.operands[3], kind)
    e.write(ins.operands[0], result, kind)


@lowers("div")
def _divide(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[ins.types[-1]]
    d, a, b = ins.operands
    if numpy[0] != "f":
        e.write(d, f"div_int({e.read(a, numpy)}, {e.read(b, numpy)})", numpy)
        return
    x, y = flushed(e, ins, a, numpy), flushed(e, ins, b, numpy)
    mode = rounding(ins)
    if mode == "rn":
        result = f"{x} / {y}" if numpy == "f8" else f"div32({x}, {y})"
    else:
        result = f"div{8 * int(numpy[1])}_mode({x}, {y}, {mode!r})"
    e.write(d, limited(ins, result), numpy)


@lowers("abs", "neg")
def _unary(e: Emitter, ins: P.Instruction) -> None:
    kind = ins.types[-1]
    if kind in HALVES:
        _half_arithmetic(e, ins, kind)
        return
    numpy = NUMPY[kind]
    d, a = ins.operands
    value = flushed(e, ins, a, numpy)
    e.write(d, f"absolute({value})" if ins.root == "abs" else f"-{value}", numpy)


@lowers("min", "max")
def _extreme(e: Emitter, ins: P.Instruction) -> None:
    kind = ins.types[-1]
    if kind in HALVES:
        _half_arithmetic(e, ins, kind)
        return
    numpy = NUMPY[kind]
    d, *sources = ins.operands
    if len(sources) != 2:
        raise e.fail("the minimum of three values is not emulated; take two after each other")
    result = _least_or_most(e, ins, [flushed(e, ins, o, numpy) for o in sources])
    if "relu" in ins.parts:
        result = f"maximum({result}, {e.constant(0, numpy)})"
    e.write(d, limited(ins, result), numpy)


def _least_or_most(e: Emitter, ins: P.Instruction, values: Sequence[str]) -> str:
    """Expression of min or max of two values, integers or floats."""
    whole = ins.types[-1][0] in "su"
    if whole or "NaN" in ins.parts:
        name = "minimum" if ins.root == "min" else "maximum"
    else:
        name = f"f{ins.root}"
    if ("xorsign" in ins.parts) != ("abs" in ins.parts):
        raise e.fail(".xorsign and .abs are emulated together only, as two values have them")
    call = f"xor_signed({name}, " if "xorsign" in ins.parts else f"{name}("
    return f"{call}{values[0]}, {values[1]})"


@lowers("lop3")
def _lop3(e: Emitter, ins: P.Instruction) -> None:
    d, a, b, c, table = ins.operands[:5]
    if not isinstance(table, P.Immediate) or "BoolOp" in ins.parts or isinstance(d, P.Pair):
        raise e.fail("this form of lop3 is not emulated; use and, or, xor")
    args = ", ".join(e.read(o, "i4") for o in (a, b, c))
    e.write(d, f"logic3({args}, {table.value})", "i4")


@lowers("shl", "shr")
def _shift(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[ins.types[-1]]
    if ins.root == "shl":
        numpy = SIGNLESS.get(numpy, numpy)
    elif ins.types[-1].startswith("b"):
        numpy = "u" + numpy[1]
    d, a, n = ins.operands
    symbol = "<<" if ins.root == "shl" else ">>"
    bits = 8 * int(numpy[1])
    if isinstance(n, P.Immediate):
        amount = n.value & 0xFFFFFFFF
        if amount >= bits and not (ins.root == "shr" and numpy[0] == "i"):
            e.write(d, f"{e.read(a, numpy)} & {e.constant(0, numpy)}", numpy)
        else:
            shift = e.constant(min(amount, bits - 1), numpy)
            e.write(d, f"{e.read(a, numpy)} {symbol} {shift}", numpy)
        return
    name = "shift_left" if ins.root == "shl" else "shift_right"
    e.write(d, f"{name}({e.read(a, numpy)}, {e.read(n, 'i4')})", numpy)


# -- special functions ---------------------------------------------------------------------------

_SPECIAL32 = {
    "sin": "np.sin",
    "cos": "np.cos",
    "ex2": "np.exp2",
    "lg2": "np.log2",
    "tanh": "np.tanh",
    "sqrt": "np.sqrt",
    "rcp": "np.reciprocal",
    "rsqrt": "reciprocal_root",
}


@lowers(*_SPECIAL32)
def _special(e: Emitter, ins: P.Instruction) -> None:
    kind = ins.types[-1]
    d, a = ins.operands
    name = _SPECIAL32[ins.root]
    if kind == "f64":
        e.write(d, _special64(e, ins, name), "f8")
    elif kind == "f16":
        e.write(d, f"{name}({e.read(a, 'f2')}.astype(f8)).astype(f2)", "f2")
    elif kind in HALVES:
        bits, wrap, back = HALVES[kind]
        value = f"{wrap.format(e.read(a, bits))}.astype(f8)"
        if kind == "f16x2":
            result = f"{name}({value}).astype(f2)"
        elif "ftz" in ins.parts:
            result = f"flush_bf16({name}(flush_bf16({value})))"
        else:
            result = f"{name}({value})"
        e.write(d, back.format(result), bits)
    else:
        value, mode = flushed(e, ins, a, "f4"), rounding(ins)
        if mode == "rn":
            result = f"in32({name}, {value})"
        else:
            result = f"directed({name}({value}.astype(f8)), {mode!r})"
        e.write(d, limited(ins, result), "f4")


def _special64(e: Emitter, ins: P.Instruction, name: str) -> str:
    """rcp, sqrt and rsqrt of float64."""
    value, mode = flushed(e, ins, ins.operands[1], "f8"), rounding(ins)
    if mode == "rn":
        return limited(ins, f"{name}({value})")
    if ins.root == "sqrt":
        return f"sqrt64_mode({value}, {mode!r})"
    return f"div64_mode({e.constant(1, 'f8')}, {value}, {mode!r})"
