"""Tensor memory and its products as Python: tcgen05."""

from __future__ import annotations

import re

from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.emit import Emitter, lowers
from nogpu.emulator.ptx.words import NUMPY, items

_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}
"""Registers of each shape for x1."""
_FIRST = 0xFEFFFFFF
_SCALES = {
    "mxf8f6f4": {"": 1, "scale_vec::1X": 1, "block32": 1},
    "mxf4": {"": 2, "scale_vec::2X": 2, "block32": 2},
    "mxf4nvf4": {"scale_vec::2X": 2, "block32": 2, "scale_vec::4X": 4, "block16": 4},
}
"""Scales of a row of A for one product, by kind and by what an instruction says of them."""


def _target(e: Emitter) -> None:
    if not e.program.module.target.startswith(("sm_100", "sm_101", "sm_103", "sm_110")):
        raise e.fail("tcgen05 is of sm_100a and its family. Give arch='sm_100a'")


def _kind(ins: P.Instruction) -> str:
    return next(p.partition("::")[2] for p in ins.parts if p.startswith("kind::"))


def _tensor_address(e: Emitter, operand: P.Operand | None) -> str:
    """Expression of an address in brackets, int32."""
    if not isinstance(operand, P.Address):
        raise e.fail("an address of tensor memory in brackets is expected")
    value = e.read(operand.base, "i4")
    return f"({value} + {e.constant(operand.offset, 'i4')})" if operand.offset else value


@lowers("and")
def _and(e: Emitter, ins: P.Instruction) -> None:
    """Without bit 24 an address in shared memory means the first block of a pair: a block's own
    has it on a GPU where the block is the second, and has no such bit here. (Of low bits that it
    knows to be 0 the compiler asks nothing.)
    """
    d, a, b = ins.operands
    kind = NUMPY[ins.types[-1]]
    mask = (b.value | 0x3FFF) & 0xFFFFFFFF if isinstance(b, P.Immediate) else 0
    if e.program.pairs and kind == "i4" and mask == _FIRST:
        e.write(d, f"of_the_first(S, {e.read(a, kind)})", kind)
        return
    e.write(d, f"{e.read(a, kind)} & {e.read(b, kind)}", kind)


@lowers("tcgen05.alloc")
def _alloc(e: Emitter, ins: P.Instruction) -> None:
    _target(e)
    to, count = ins.operands
    space = "shared" if "shared::cta" in ins.parts else "generic"
    number, base = e.access(to, space, "store", "i4")
    pair = "cta_group::2" in ins.parts
    e.emit(
        f"tensor_alloc(S, {number}, {base}, {e.read(count, 'i4')}, {pair}, {ins.line!r}, "
        f"{e.active()})"
    )


@lowers("tcgen05.mma")
def _mma(e: Emitter, ins: P.Instruction) -> None:
    _target(e)
    d, a, b, code, *rest = ins.operands
    scales = "None"
    if "block_scale" in ins.parts:
        places = ", ".join(_tensor_address(e, rest.pop(0)) for _ in range(2))
        scales = f"({_scales(e, ins)}, {places})"
    kept = items(rest.pop(0)) if isinstance(rest[0], P.Vector) else ()
    add, *last = rest
    ws = "ws" in ins.parts
    if last and not ws and not (isinstance(last[0], P.Immediate) and last[0].value == 0):
        raise e.fail("scale-input-d is not emulated. Leave it out, and scale the sums yourself")
    pair = "cta_group::2" in ins.parts
    if len(kept) not in (0, 8 if pair else 4):
        raise e.fail("disable-output-lane has four words a block: a bit for each of 128 lanes")
    site_b = e.site("shared", "load", "i4", 4, 0)
    shifts = "ashift" in ins.parts
    if shifts and not isinstance(a, P.Address):
        raise e.fail(".ashift moves the rows of A in tensor memory. Give its address in brackets")
    if isinstance(a, P.Address):
        site_a, left = -1, _tensor_address(e, a)
    else:
        site_a, left = e.site("shared", "load", "i4", 4, 0), e.read(a, "i8")
    operands = (
        f"({_tensor_address(e, d)}, {left}, {e.read(b, 'i8')}, {e.read(code, 'i4')}, "
        f"{e.read(add, 'b1')})"
    )
    masks = "".join(f"{e.read(o, 'i4')}, " for o in kept)
    masks += f"{e.read(last[0], 'i8')}, " if ws and last else ""
    e.emit(
        f"tensor_mma(S, {(site_a, site_b)!r}, {_kind(ins)!r}, {pair}, {ws}, "
        f"{shifts}, {scales}, {ins.line!r}, {operands}, ({masks}), {e.active()})"
    )


def _scales(e: Emitter, ins: P.Instruction) -> int:
    """Scales of a row of A for one product."""
    kind = _kind(ins)
    given = next((p for p in ins.parts if p.startswith(("scale_vec::", "block16", "block32"))), "")
    counts = _SCALES.get(kind, {})
    if given not in counts:
        needs = " or ".join(f".{word}" for word in counts) or "no .block_scale"
        raise e.fail(f".{given} is not of kind::{kind}" if given else f"kind::{kind} needs {needs}")
    return counts[given]


@lowers("tcgen05.cp")
def _copy(e: Emitter, ins: P.Instruction) -> None:
    _target(e)
    to, source = ins.operands
    shape = next(p for p in ins.parts if re.fullmatch(r"\d+x\d+b", p))
    pairs = next((p.partition("::")[2] for p in ins.parts if p.startswith("warpx2::")), "")
    if (shape == "64x128b") != bool(pairs) or (shape == "32x128b") != ("warpx4" in ins.parts):
        raise e.fail(".64x128b goes with .warpx2::02_13 or ::01_23, .32x128b with .warpx4")
    bits = next((int(p[1]) for p in ins.parts if "x16_p" in p), 8)
    number = e.site("shared", "load", "i4", 4, 0)
    e.emit(
        f"tensor_copy(S, {number}, {f'{shape}.{pairs}'.strip('.')!r}, {bits}, "
        f"{'cta_group::2' in ins.parts}, {ins.line!r}, {_tensor_address(e, to)}, "
        f"{e.read(source, 'i8')}, {e.active()})"
    )


@lowers("tcgen05.shift")
def _shift(e: Emitter, ins: P.Instruction) -> None:
    _target(e)
    (address,) = ins.operands
    e.emit(
        f"tensor_shift(S, {'cta_group::2' in ins.parts}, {ins.line!r}, "
        f"{_tensor_address(e, address)}, {e.active()})"
    )


@lowers("tcgen05.commit")
def _commit(e: Emitter, ins: P.Instruction) -> None:
    _target(e)
    address, *many = ins.operands
    space = "shared" if any(p.startswith("shared") for p in ins.parts) else "generic"
    number, base = e.access(address, space, "atomic", "i8")
    targets = e.read(many[0], "i4") if many else "None"
    e.emit(f"tensor_commit(S, {number}, {base}, {targets}, {e.active()})")


def _shape(e: Emitter, ins: P.Instruction, registers: int) -> tuple[str, int, bool]:
    """(shape, how often, whether halves of two columns share a register)."""
    _target(e)
    shape = next(p for p in ins.parts if p in _REGISTERS)
    count = int(next(p for p in ins.parts if p[0] == "x" and p[1:].isdigit())[1:])
    if registers != count * _REGISTERS[shape]:
        raise e.fail(f".{shape}.x{count} has {count * _REGISTERS[shape]} registers")
    return shape, count, any(p.endswith("pack::16b") for p in ins.parts)


@lowers("tcgen05.ld")
def _load(e: Emitter, ins: P.Instruction) -> None:
    d, address = ins.operands
    targets = items(d)
    how = ", ".join(map(repr, _shape(e, ins, len(targets))))
    call = f"tensor_load(S, {_tensor_address(e, address)}, {how}, {ins.line!r}, {e.active()})"
    e.write_each(targets, call, "i4")


@lowers("tcgen05.st")
def _store(e: Emitter, ins: P.Instruction) -> None:
    address, d = ins.operands
    sources = items(d)
    how = ", ".join(map(repr, _shape(e, ins, len(sources))))
    values = ", ".join(e.read(o, "i4") for o in sources)
    e.emit(
        f"tensor_store(S, {_tensor_address(e, address)}, {how}, ({values},), {ins.line!r}, "
        f"{e.active()})"
    )
