"""Comparisons, choices, moves and conversions, as Python."""

from __future__ import annotations

from typing import Any

from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx import words
from nogpu.emulator.ptx.emit import Emitter, flushed, limited, lowers, own_kind
from nogpu.emulator.ptx.layout import LOCAL_WINDOW, SHARED_WINDOW
from nogpu.emulator.ptx.words import HALVES, NUMPY, SIGNLESS, rounding, space_of

# -- predicates and moves ------------------------------------------------------------------------


def _comparison(e: Emitter, ins: P.Instruction, op: str, kind: str, a: Any, b: Any) -> str:
    if kind in HALVES:
        bits, wrap, _ = HALVES[kind]
        if "ftz" in ins.parts:
            wrap = f"flush({wrap})"
        x, y = (wrap.format(e.read(o, bits)) for o in (a, b))
    else:
        numpy = NUMPY[kind]
        if op in words.UNSIGNED:
            numpy = "u" + numpy[1]
        if op in ("eq", "ne"):
            numpy = SIGNLESS.get(numpy, numpy)
        x, y = flushed(e, ins, a, numpy), flushed(e, ins, b, numpy)
    if op == "num":
        return f"(~(isnan({x}) | isnan({y})))"
    if op == "nan":
        return f"(isnan({x}) | isnan({y}))"
    if "f" in kind:
        unequal = f"(({x} < {y}) | ({x} > {y}))"
        if op in ("ne", "equ"):
            return unequal if op == "ne" else f"(~{unequal})"
        if op in words.OPPOSITE:
            return f"(~({x} {words.OPPOSITE[op]} {y}))"
    return f"({x} {words.COMPARE[op]} {y})"


_LOGIC = {"and": "&", "or": "|", "xor": "^"}


@lowers("setp")
def _setp(e: Emitter, ins: P.Instruction) -> None:
    parts = [p for p in ins.parts[1:] if p != "ftz"]
    op, kind = parts[0], parts[-1]
    target = ins.operands[0]
    a, b = ins.operands[1:3]
    value = e.temporary(_comparison(e, ins, op, kind, a, b))
    third = ""
    if len(ins.operands) > 3:
        third = f" {_LOGIC[parts[1]]} {e.read(ins.operands[3], 'b1')}"
    packed = kind in ("f16x2", "bf16x2")
    if packed or isinstance(target, P.Pair):
        assert isinstance(target, P.Pair)
        both = (f"{value}[..., 0]", f"{value}[..., 1]") if packed else (value, f"~{value}")
        first, second = (e.temporary(f"{one}{third}") for one in both)
        e.write(target.first, first, "b1")
        e.write(target.second, second, "b1")
    else:
        e.write(target, f"{value}{third}", "b1")


@lowers("set")
def _set(e: Emitter, ins: P.Instruction) -> None:
    parts = [p for p in ins.parts[1:] if p != "ftz"]
    op = parts[0]
    to, kind = parts[-2], parts[-1]
    d, a, b = ins.operands[:3]
    value = _comparison(e, ins, op, kind, a, b)
    if len(ins.operands) > 3:
        third = e.read(ins.operands[3], "b1")
        third = f"{third}[..., None]" if kind in ("f16x2", "bf16x2") else third
        value = f"({value} {_LOGIC[parts[1]]} {third})"
    if kind in ("f16x2", "bf16x2"):
        if to in ("f16x2", "bf16x2"):
            one = 0x3C00 if to == "f16x2" else 0x3F80
            e.write(d, f"pack16(np.where({value}, i2.type({one}), i2.type(0)))", "i4")
        else:
            e.write(d, f"pack16(-{value}.astype(i2))", "i4")
    elif to in ("f32", "f16"):
        numpy = NUMPY[to]
        e.write(d, f"{value}.astype({numpy})", numpy)
    elif to == "bf16":
        e.write(d, f"bf16_bits({value}.astype(f4))", "i2")
    else:
        numpy = "i" + NUMPY[to][1]
        e.write(d, f"-{value}.astype({numpy})", numpy)


@lowers("selp")
def _selp(e: Emitter, ins: P.Instruction) -> None:
    d, a, b, p = ins.operands
    numpy = own_kind(e, d, NUMPY[ins.types[-1]])
    e.write(d, f"select({e.read(p, 'b1')}, {e.read(a, numpy)}, {e.read(b, numpy)})", numpy)


@lowers("slct")
def _slct(e: Emitter, ins: P.Instruction) -> None:
    d, a, b, c = ins.operands
    value, kind = NUMPY[ins.types[0]], NUMPY[ins.types[-1]]
    e.write(
        d, f"select({flushed(e, ins, c, kind)} >= 0, {e.read(a, value)}, {e.read(b, value)})", value
    )


_JOINED = {
    ("i4", 2): "join16({0}, {1})",
    ("i4", 4): "join_bytes({0}, {1}, {2}, {3})",
    ("i8", 2): "join32({0}, {1})",
    ("i8", 4): "join32(join16({0}, {1}), join16({2}, {3}))",
}
"""A register of several others, by its type and their number."""


@lowers("mov")
def _mov(e: Emitter, ins: P.Instruction) -> None:
    d, a = ins.operands
    kind = ins.types[-1]
    if isinstance(a, P.Vector):
        numpy, count = "i" + NUMPY[kind][1], len(a.items)
        if (numpy, count) not in _JOINED:
            raise e.fail("this packing is not emulated; pack with shifts")
        values = (e.read(o, f"i{int(numpy[1]) // count}") for o in a.items)
        e.write(d, _JOINED[numpy, count].format(*values), numpy)
        return
    if isinstance(d, P.Vector):
        numpy = "i" + NUMPY[kind][1]
        part = f"i{int(numpy[1]) // len(d.items)}"
        whole = e.temporary(e.read(a, numpy))
        for i, item in enumerate(d.items):
            if item is not None:
                shift = 8 * int(part[1]) * i
                value = f"({whole} >> {numpy}.type({shift}))" if shift else whole
                e.write(item, f"{value}.astype({part})", part)
        return
    numpy = own_kind(e, d, NUMPY[kind])
    e.write(d, e.read(a, numpy), numpy)


@lowers("cvta")
def _cvta(e: Emitter, ins: P.Instruction) -> None:
    d, a = ins.operands
    kind = NUMPY[ins.types[-1]]
    kind = SIGNLESS.get(kind, kind)
    space = space_of(ins)
    value = e.read(a, kind)
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)
    if window and kind == "i8":
        value = f"{value} {'-' if 'to' in ins.parts else '+'} {e.constant(window, 'i8')}"
    e.write(d, value, kind)


# -- conversions ---------------------------------------------------------------------------------


_BYTES = ("e4m3x2", "e5m2x2")


def _cvt_bytes(e: Emitter, ins: P.Instruction) -> None:
    """cvt between pairs of 8-bit floats and float32 or float16."""
    to, frm = ins.parts[-2:]
    d, *sources = ins.operands
    relu = "relu" in ins.parts
    if frm in _BYTES and to == "f16x2":
        pair = f"fp8_halves({e.read(sources[0], 'i2')}, {frm[:4]!r})"
        value = f"maximum({pair}, f2.type(0))" if relu else pair
        e.write(d, f"pack16({value})", "i4")
        return
    if to not in _BYTES or frm not in ("f32", "f16x2") or "satfinite" not in ins.parts:
        raise e.fail("of 8-bit floats, only conversions of e4m3x2 and e5m2x2 are emulated")
    if frm == "f32":
        high, low = (e.read(o, "f4") for o in sources)
        pair = f"fp8_pair({low}, {high}, {to[:4]!r}, {relu})"
    else:
        both = e.temporary(f"half2({e.read(sources[0], 'i4')})")
        pair = f"fp8_pair({both}[..., 0], {both}[..., 1], {to[:4]!r}, {relu})"
    e.write(d, pair, "i2")


@lowers("cvt")
def _cvt(e: Emitter, ins: P.Instruction) -> None:
    if any(p in _BYTES for p in ins.parts):
        _cvt_bytes(e, ins)
        return
    to, frm = ins.types[-2:]
    d, *sources = ins.operands
    parts = set(ins.parts)
    integral = next((p for p in ins.parts if p in ("rni", "rzi", "rmi", "rpi")), "")
    mode = rounding(ins)
    relu = "relu" in parts
    if "pack" in parts or any(p.startswith(("e4m3", "e5m2", "e2m", "e3m", "ue8")) for p in parts):
        raise e.fail("8-bit floats and packed conversions are not emulated; convert one by one")
    if "satfinite" in parts:
        raise e.fail(".satfinite is emulated for 8-bit floats only; clamp the value before")
    if to in ("f16x2", "bf16x2"):
        high, low = (flushed(e, ins, o, "f4") for o in sources[:2])
        if relu:
            high, low = (f"maximum({v}, f4.type(0))" for v in (high, low))
        if to == "f16x2":
            low, high = (f"f64_to_f16({v}, {mode!r}).view(i2)" for v in (low, high))
        else:
            low, high = (f"bf16_bits({v}, {mode!r})" for v in (low, high))
        e.write(d, f"join16({low}, {high})", "i4")
        return
    source = sources[0]
    if to == "tf32":
        e.write(d, f"tf32_bits({e.read(source, 'f4')}, {mode!r})", "i4")
        return
    if frm == "bf16":
        value, have = f"bf16_value({e.read(source, 'i2')})", "f4"
    else:
        have = NUMPY[frm]
        value = flushed(e, ins, source, have)
    if to == "bf16":
        if integral:
            value = f"round_integral({value}, {integral!r})"
        if have[0] != "f":
            value = f"int_to_odd({value})"
        if relu:
            value = f"maximum({value}, {value}.dtype.type(0))"
        e.write(d, f"bf16_bits({value}, {mode!r})", "i2")
        return
    want = NUMPY[to]
    if have[0] == "f" and want[0] != "f":
        result = f"float_to_int({value}, {want}, {integral or 'rzi'!r})"
    elif have[0] != "f" and want[0] != "f":
        if "sat" in parts:
            result = f"saturate_int({value}, {want})"
        else:
            result = f"{value}.astype({want})" if have != want else value
    elif have[0] != "f":
        if want == "f2":
            result = f"f64_to_f16({value}.astype(f8), {mode!r})"
        else:
            result = f"int_to_f{8 * int(want[1])}({value}, {mode!r})"
        result = limited(ins, result)
    else:
        if integral:
            value = f"round_integral({value}, {integral!r})"
        if want == have:
            result = value
        elif want == "f2":
            result = f"f64_to_f16({value}, {mode!r})"
        elif want == "f4" and have == "f8":
            result = f"directed({value}, {mode!r})"
        else:
            result = f"{value}.astype({want})"
        if "sat" in parts:
            result = f"saturate({result})"
        if relu:
            result = f"maximum({result}, {want}.type(0))"
        if "ftz" in parts and want == "f4":
            result = f"flush({result})"
    e.write(d, result, want)
