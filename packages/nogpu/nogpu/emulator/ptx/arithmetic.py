"""Sums, products and functions of numbers, and shifts, as Python."""

from __future__ import annotations

from collections.abc import Sequence

from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.emit import Emitter, flushed, limited, lowers
from nogpu.emulator.ptx.words import NUMPY, SIGNLESS, rounding, types_of

_PACKED_OPS = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}"}


@lowers("add", "sub", "mul")
def _arithmetic(e: Emitter, ins: P.Instruction) -> None:
    kind = types_of(ins)[-1]
    d, a, b = ins.operands
    symbol = {"add": "+", "sub": "-", "mul": "*"}[ins.root]
    if kind in ("f16x2", "bf16x2", "bf16"):
        _half_arithmetic(e, ins, kind)
        return
    numpy = NUMPY[kind]
    if "wide" in ins.parts:
        wide = ("i" if numpy[0] == "i" else "u") + str(2 * int(numpy[1]))
        e.write(d, f"mul({e.read(a, numpy)}, {e.read(b, numpy)}, dtype={wide})", wide)
        return
    if "hi" in ins.parts:
        e.write(d, f"mulhi({e.read(a, numpy)}, {e.read(b, numpy)})", numpy)
        return
    if "cc" in ins.parts:
        _carry(e, ins, numpy)
        return
    if numpy[0] != "f":
        if "sat" in ins.parts:
            wide = f"({e.read(a, 'i4')}.astype(i8) {symbol} {e.read(b, 'i4')})"
            e.write(d, f"saturate_int({wide}, i4)", "i4")
            return
        numpy = SIGNLESS.get(numpy, numpy)
        e.write(d, f"{e.read(a, numpy)} {symbol} {e.read(b, numpy)}", numpy)
        return
    x, y = flushed(e, ins, a, numpy), flushed(e, ins, b, numpy)
    mode = rounding(ins)
    if mode == "rn" or numpy == "f2":
        expression = f"{x} {symbol} {y}"
    elif ins.root == "mul":
        name = "mul32_mode" if numpy == "f4" else "mul64_mode"
        expression = f"{name}({x}, {y}, {mode!r})"
    else:
        name = "add32" if numpy == "f4" else "add64_mode"
        y = f"-{y}" if ins.root == "sub" else y
        expression = f"{name}({x}, {y}, {mode!r})"
    e.write(d, limited(ins, f"({expression})"), numpy)


def _half_arithmetic(e: Emitter, ins: P.Instruction, kind: str) -> None:
    d, *sources = ins.operands
    if kind == "bf16x2":
        values = [f"bf16_value(unpack16({e.read(o, 'i4')}))" for o in sources]
    elif kind == "f16x2":
        values = [f"half2({e.read(o, 'i4')})" for o in sources]
    else:
        values = [f"bf16_value({e.read(o, 'i2')})" for o in sources]
    if "ftz" in ins.parts:
        values = [f"flush({v})" for v in values]
    if ins.root == "fma":
        if kind == "f16x2":
            result = f"fma16({', '.join(values)})"
        else:
            result = f"fma32_exact({', '.join(values)})"
    elif ins.root in ("min", "max"):
        result = _least_or_most(e, ins, values)
    elif ins.root in ("neg", "abs"):
        result = f"-{values[0]}" if ins.root == "neg" else f"absolute({values[0]})"
    else:
        result = "(" + _PACKED_OPS[ins.root].format(*values) + ")"
    if "sat" in ins.parts:
        result = f"saturate({result})"
    if "relu" in ins.parts:
        result = f"maximum({result}, ({result}).dtype.type(0))"
    if "ftz" in ins.parts:
        result = f"flush({result})"
    if kind == "f16x2":
        e.write(d, f"pack16({result})", "i4")
    elif kind == "bf16x2":
        e.write(d, f"pack16(bf16_bits({result}))", "i4")
    else:
        e.write(d, f"bf16_bits({result})", "i2")


def _carry(e: Emitter, ins: P.Instruction, numpy: str) -> None:
    """add.cc, sub.cc: the carry is kept for addc, subc of the same block, which keep it with .cc
    only.
    """
    unsigned = "u" + numpy[1]
    a, b = (e.read(o, unsigned) for o in ins.operands[1:3])
    extra = "F['carry']" if ins.root in ("addc", "subc") else "None"
    name = "add_carry" if ins.root.startswith("add") else "sub_borrow"
    if "cc" not in ins.parts:
        name += "_in"
    value = e.temporary(f"{name}(F, {a}, {b}, {extra})")
    e.write(ins.operands[0], value, unsigned)


@lowers("addc", "subc")
def _with_carry(e: Emitter, ins: P.Instruction) -> None:
    _carry(e, ins, NUMPY[types_of(ins)[-1]])


def _multiply_carry(e: Emitter, ins: P.Instruction, numpy: str) -> None:
    """mad.cc, madc: half a product is added with carry."""
    a, b = (e.read(o, numpy) for o in ins.operands[1:3])
    half = f"mulhi({a}, {b})" if "hi" in ins.parts else f"({a} * {b})"
    unsigned = "u" + numpy[1]
    extra = "F['carry']" if ins.root == "madc" else "None"
    added = f"{half}.view({unsigned}), {e.read(ins.operands[3], unsigned)}, {extra}"
    name = "add_carry" if "cc" in ins.parts else "add_carry_in"
    e.write(ins.operands[0], e.temporary(f"{name}(F, {added})"), unsigned)


@lowers("fma", "mad", "madc")
def _multiply_add(e: Emitter, ins: P.Instruction) -> None:
    kind = types_of(ins)[-1]
    d, a, b, c = ins.operands
    if kind in ("f16x2", "bf16x2", "bf16"):
        _half_arithmetic(e, ins, kind)
        return
    numpy = NUMPY[kind]
    if numpy[0] == "f":
        mode = rounding(ins)
        x, y, z = (flushed(e, ins, o, numpy) for o in (a, b, c))
        if numpy == "f4":
            call = (
                f"fma32({x}, {y}, {z})" if mode == "rn" else f"fma32_mode({x}, {y}, {z}, {mode!r})"
            )
        elif numpy == "f8":
            call = (
                f"fma64({x}, {y}, {z})" if mode == "rn" else f"fma64_mode({x}, {y}, {z}, {mode!r})"
            )
        else:
            call = f"fma16({x}, {y}, {z})"
        result = limited(ins, call)
        if "relu" in ins.parts:
            result = f"maximum({result}, {e.constant(0, numpy)})"
        e.write(d, result, numpy)
        return
    if "cc" in ins.parts or ins.root == "madc":
        _multiply_carry(e, ins, numpy)
        return
    if "wide" in ins.parts:
        wide = ("i" if numpy[0] == "i" else "u") + str(2 * int(numpy[1]))
        product = f"mul({e.read(a, numpy)}, {e.read(b, numpy)}, dtype={wide})"
        e.write(d, f"{product} + {e.read(c, wide)}", wide)
        return
    if "hi" in ins.parts:
        product = f"mulhi({e.read(a, numpy)}, {e.read(b, numpy)})"
        e.write(d, _sum_int(e, ins, product, c, numpy), numpy)
        return
    numpy = SIGNLESS.get(numpy, numpy)
    e.write(d, f"{e.read(a, numpy)} * {e.read(b, numpy)} + {e.read(c, numpy)}", numpy)


def _sum_int(e: Emitter, ins: P.Instruction, product: str, c: P.Operand | None, kind: str) -> str:
    """product + c; with .sat no more than the type holds."""
    if "sat" in ins.parts:
        return f"saturate_int({product}.astype(i8) + {e.read(c, kind)}, {kind})"
    return f"{product} + {e.read(c, kind)}"


@lowers("mul24", "mad24")
def _mul24(e: Emitter, ins: P.Instruction) -> None:
    kind = NUMPY[types_of(ins)[-1]]
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
    numpy = NUMPY[types_of(ins)[-1]]
    d, a, b = ins.operands
    if numpy[0] != "f":
        e.write(d, f"div_int({e.read(a, numpy)}, {e.read(b, numpy)})", numpy)
        return
    x, y = flushed(e, ins, a, numpy), flushed(e, ins, b, numpy)
    mode = rounding(ins)
    if numpy == "f8":
        e.write(d, f"{x} / {y}" if mode == "rn" else f"div64_mode({x}, {y}, {mode!r})", "f8")
    elif mode == "rn":
        e.write(d, limited(ins, f"div32({x}, {y})"), "f4")
    else:
        e.write(d, limited(ins, f"div32_mode({x}, {y}, {mode!r})"), "f4")


@lowers("abs", "neg")
def _unary(e: Emitter, ins: P.Instruction) -> None:
    kind = types_of(ins)[-1]
    if kind in ("f16x2", "bf16x2", "bf16"):
        _half_arithmetic(e, ins, kind)
        return
    numpy = NUMPY[kind]
    d, a = ins.operands
    value = flushed(e, ins, a, numpy)
    e.write(d, f"absolute({value})" if ins.root == "abs" else f"-{value}", numpy)


@lowers("min", "max")
def _extreme(e: Emitter, ins: P.Instruction) -> None:
    kind = types_of(ins)[-1]
    if kind in ("f16x2", "bf16x2", "bf16"):
        _half_arithmetic(e, ins, kind)
        return
    if kind in ("s16x2", "u16x2"):
        raise e.fail("packed 16-bit minimum is not emulated; use the scalar one")
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
    whole = types_of(ins)[-1][0] in "su"
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
    numpy = NUMPY[types_of(ins)[-1]]
    if ins.root == "shl":
        numpy = SIGNLESS.get(numpy, numpy)
    elif types_of(ins)[-1].startswith("b"):
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
    kind = types_of(ins)[-1]
    d, a = ins.operands
    name = _SPECIAL32[ins.root]
    if kind == "f64":
        e.write(d, _special64(e, ins, name), "f8")
    elif kind == "f16":
        e.write(d, f"{name}({e.read(a, 'f2')}.astype(f8)).astype(f2)", "f2")
    elif kind == "f16x2":
        e.write(d, f"pack16({name}(half2({e.read(a, 'i4')}).astype(f8)).astype(f2))", "i4")
    elif kind in ("bf16", "bf16x2"):
        bits = e.read(a, "i2") if kind == "bf16" else f"unpack16({e.read(a, 'i4')})"
        value = f"bf16_value({bits}).astype(f8)"
        if "ftz" in ins.parts:
            result = f"bf16_bits(flush_bf16({name}(flush_bf16({value}))))"
        else:
            result = f"bf16_bits({name}({value}))"
        e.write(
            d, result if kind == "bf16" else f"pack16({result})", "i2" if kind == "bf16" else "i4"
        )
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
