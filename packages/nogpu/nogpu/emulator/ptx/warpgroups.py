"""What the four warps of a warpgroup do together: wgmma, as Python."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.accumulators import NUMBER, Touch
from nogpu.emulator.ptx.emit import Emitter, lowers
from nogpu.emulator.ptx.words import items

_SHAPE = re.compile(r"m64[n](\d+)k(\d+)")
_FLOATS = {
    ("f16", "f16"): ("f16", "f32"),
    ("bf16", "bf16"): ("f32",),
    ("tf32", "tf32"): ("f32",),
    **{(a, b): ("f16", "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")},
}
"""Types of A and B, and those that D may have with them."""
_INTEGERS = ("s8", "u8")
_K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
_SIZES = range(8, 257, 8)
_INTEGER_SIZES = (8, 16, 24, *range(32, 257, 16))


def _refusal(n: int, k: int, types: tuple[str, ...]) -> str:
    """Why a shape with these types of D, A and B is not among those of PTX, or an empty text."""
    d, a, b = types
    whole = a in _INTEGERS and b in _INTEGERS
    allowed = ("s32",) if whole else _FLOATS.get((a, b), ())
    if not allowed:
        known = ", ".join(f"{x} with {y}" for x, y in _FLOATS)
        return (
            f"wgmma does not multiply {a} by {b}. It multiplies {known}, and s8 or u8 with s8 or u8"
        )
    if d not in allowed:
        return f"the sums of {a} by {b} are {' or '.join(allowed)}, not {d}"
    if k != _K[a]:
        return f"a product of {a} is k{_K[a]} long, not k{k}"
    if n not in (_INTEGER_SIZES if whole else _SIZES):
        return f"n{n} is not among the shapes of {a}: n is a multiple of 8 up to 256" + (
            ", from 32 on of 16" if whole else ""
        )
    return ""


@lowers("wgmma.mma_async")
def _mma_async(e: Emitter, ins: P.Instruction) -> None:
    at = next((i for i, p in enumerate(ins.parts) if _SHAPE.fullmatch(p)), 0)
    shape = _SHAPE.fullmatch(ins.parts[at])
    types = tuple(p for p in ins.parts[at + 1 :] if p != "satfinite")
    if shape is None or len(types) != 3:
        raise e.fail("a shape such as m64n128k16 and the types of D, A and B are expected")
    if e.program.module.target != "sm_90a":
        raise e.fail("wgmma is of sm_90a alone. Give arch='sm_90a'")
    n, k = int(shape[1]), int(shape[2])
    if reason := _refusal(n, k, types):
        raise e.fail(reason)
    d, a, b, add = (items(ins.operands[0]), *ins.operands[1:4])
    numbers = _numbers(e, ins, types[1], isinstance(a, P.Vector))
    count = n // 4 if types[0] == "f16" else n // 2
    if len(d) != count or (isinstance(a, P.Vector) and len(a.items) != 4):
        raise e.fail(
            f"D of n{n} {types[0]} has {count} registers a thread, and A in registers has 4"
        )
    kind = "f4" if types[0] == "f32" else "i4"
    site_b = e.site("shared", "load", "i4", 4, 0)
    if isinstance(a, P.Vector):
        site_a, a_values = -1, [e.read(o, "i4") for o in a.items]
    else:
        site_a, a_values = e.site("shared", "load", "i4", 4, 0), [e.read(a, "i8")]
    fields = (
        n,
        types,
        (numbers[0] < 0, numbers[1] < 0),
        (numbers[2] == 1, numbers[3] == 1),
        "satfinite" in ins.parts,
        ins.line,
        _named(e.function, d),
        _named(e.function, a.items) if isinstance(a, P.Vector) else (),
    )
    sums = ", ".join(e.read(o, kind) for o in d)
    call = (
        f"wgmma(S, {fields!r}, {(site_a, site_b)!r}, ({', '.join(a_values)},), {e.read(b, 'i8')}, "
        f"{e.read(add, 'b1')}, ({sums},), {e.active()})"
    )
    e.write_each(d, call, kind)


def _numbers(
    e: Emitter, ins: P.Instruction, kind: str, in_registers: bool
) -> tuple[int, int, int, int]:
    """The signs of A and B (1 or -1), and whether each is transposed (0 or 1)."""
    values: list[Any] = [getattr(o, "value", None) for o in ins.operands[4:]]
    signs = 0 if kind in _INTEGERS else 2
    turns = 0 if kind not in ("f16", "bf16") else 1 if in_registers else 2
    if len(values) != signs + turns:
        raise e.fail(
            f"after the predicate scale-d, {signs + turns} numbers are expected for {kind}: "
            "imm-scale-a and imm-scale-b for floats, imm-trans-a (of A in shared memory) and "
            "imm-trans-b for f16 and bf16"
        )
    scales, turned = values[:signs], values[signs:]
    if any(v not in (1, -1) for v in scales) or any(v not in (0, 1) for v in turned):
        raise e.fail("imm-scale-a and imm-scale-b are 1 or -1, imm-trans-a and imm-trans-b 0 or 1")
    a_sign, b_sign = scales or (1, 1)
    a_turn, b_turn = [0] * (2 - turns) + turned
    return a_sign, b_sign, a_turn, b_turn


def _named(function: P.Function, operands: tuple[P.Operand | None, ...]) -> tuple[str, ...]:
    """What registers are called where a program has several functions."""
    return tuple(_full(function, o.name) for o in operands if isinstance(o, P.Register))


def _full(function: P.Function, name: str) -> str:
    own = function.is_entry or name in ("", NUMBER)
    return name if own else f"{function.name}:{name}"


def report_touch(e: Emitter, ins: P.Instruction, touch: Touch | None) -> None:
    """Emit what tells the machine that an instruction touches registers of products; None: it does
    not.

    Writes of one line follow each other by the dozen: they are told together.
    """
    if touch is None or touch.reads or ins.guard or ins.line != e.unreported_line:
        report_writes(e)
    if touch is None:
        return
    full = partial(_full, e.function)
    if touch.reads:
        e.emit(f"sums_read(S, {tuple(map(full, touch.reads))!r}, {ins.line!r}, {e.active()})")
    writes = [(full(name), full(source)) for name, source in touch.writes]
    if ins.guard and writes:
        e.emit(f"sums_written(S, {tuple(writes)!r}, {ins.line!r}, {e.active()})")
    else:
        e.unreported, e.unreported_line = e.unreported + writes, ins.line


@lowers("wgmma.wait_group")
def _wait_group(e: Emitter, ins: P.Instruction) -> None:
    (count,) = ins.operands
    if not isinstance(count, P.Immediate) or count.value < 0:
        raise e.fail("wgmma.wait_group takes a number of groups that is known when it is compiled")
    e.emit(f"wgmma_wait(S, {count.value}, {e.active()})")


def report_writes(e: Emitter) -> None:
    """Emit the report of the writes that `report_touch` has put off."""
    if e.unreported:
        e.emit(f"sums_written(S, {tuple(e.unreported)!r}, {e.unreported_line!r}, active)")
        e.unreported = []
