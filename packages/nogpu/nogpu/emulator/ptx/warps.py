"""What the lanes of a warp do together: shuffles, votes and matrices, as Python."""

from __future__ import annotations

from collections.abc import Mapping

from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.emit import Emitter, lowers
from nogpu.emulator.ptx.layout import SHARED_WINDOW
from nogpu.emulator.ptx.words import NUMPY, items, space_of

# -- warps ---------------------------------------------------------------------------------------


@lowers("shfl")
def _shfl(e: Emitter, ins: P.Instruction) -> None:
    mode = next(p for p in ins.parts if p in ("up", "down", "bfly", "idx"))
    target, a, b, c = ins.operands[:4]
    member = e.read(ins.operands[4], "i4") if len(ins.operands) > 4 else "None"
    result = e.temporary(
        f"shuffle(S, {mode!r}, {e.read(a, 'i4')}, {e.read(b, 'i4')}, {e.read(c, 'i4')}, "
        f"{member}, {e.active()}, {ins.line!r})"
    )
    _write_both(e, target, result)


def _write_both(e: Emitter, target: P.Operand | None, result: str) -> None:
    """A value and, for `d|p`, a predicate beside it."""
    pair = target if isinstance(target, P.Pair) else P.Pair(target, None)
    if pair.first is not None:
        e.write(pair.first, f"{result}[0]", "i4")
    if pair.second is not None:
        e.write(pair.second, f"{result}[1]", "b1")


@lowers("vote")
def _vote(e: Emitter, ins: P.Instruction) -> None:
    mode = next(p for p in ins.parts if p in ("all", "any", "uni", "ballot"))
    d, a = ins.operands[:2]
    member = e.read(ins.operands[2], "i4") if len(ins.operands) > 2 else "None"
    call = f"vote(S, {mode!r}, {e.read(a, 'b1')}, {member}, {e.active()}, {ins.line!r})"
    e.write(d, call, "i4" if mode == "ballot" else "b1")


@lowers("match")
def _match(e: Emitter, ins: P.Instruction) -> None:
    mode = next(p for p in ins.parts if p in ("any", "all"))
    kind = "i" + NUMPY[ins.types[-1]][1]
    target, a, member = ins.operands[:3]
    result = e.temporary(
        f"match_lanes(S, {mode!r}, {e.read(a, kind)}, {e.read(member, 'i4')}, {e.active()}, "
        f"{ins.line!r})"
    )
    _write_both(e, target, result)


@lowers("elect")
def _elect(e: Emitter, ins: P.Instruction) -> None:
    target, member = ins.operands[:2]
    call = f"elect_lane(S, {e.read(member, 'i4')}, {e.active()}, {ins.line!r})"
    result = e.temporary(call)
    _write_both(e, target, result)


@lowers("bar.warp", "barrier.warp")
def _warp_barrier(e: Emitter, ins: P.Instruction) -> None:
    member = e.read(ins.operands[0], "i4") if ins.operands else e.constant(-1, "i4")
    e.emit(f"sync_lanes(S, {member}, {e.active()}, {ins.line!r})")


# -- matrices ------------------------------------------------------------------------------------

_MMA = {
    "m16n8k8": {"f16", "bf16", "tf32"},
    "m16n8k16": {"f16", "bf16", "s8", "u8"},
    "m16n8k4": {"tf32"},
    "m16n8k32": {"s8", "u8", "e4m3", "e5m2"},
    "m8n8k16": {"s8", "u8"},
    "m8n8k4": {"f16", "f64"},
}
_WMMA = {
    "m16n16k16": {"f16", "bf16", "s8", "u8"},
    "m32n8k16": {"f16", "bf16", "s8", "u8"},
    "m8n32k16": {"f16", "bf16", "s8", "u8"},
    "m16n16k8": {"tf32"},
    "m8n8k4": {"f64"},
}
_MIXED = ({"s8", "u8"}, {"e4m3", "e5m2"})  # types that may be multiplied with each other


def _listed(known: Mapping[str, set[str]]) -> str:
    return ", ".join(f"{shape} {'/'.join(sorted(types))}" for shape, types in known.items())


def _shape(ins: P.Instruction) -> str:
    return next((p for p in ins.parts if p.startswith("m") and "n" in p and "k" in p), "")


def _fragment_kind(kind: str) -> str:
    """NumPy type of a register of a fragment, and of what one lane moves at a time."""
    return {"f32": "f4", "f64": "f8"}.get(kind, "i4")


def _matrices_at(
    e: Emitter, ins: P.Instruction, address: P.Operand | None, op: str
) -> tuple[int, str]:
    """(number of the access, expression of the address) of the rows of ldmatrix and stmatrix."""
    if "b16" not in ins.parts or "m8n8" not in ins.parts:
        raise e.fail(f"only {ins.root}.m8n8 of b16 is emulated")
    number, base = e.access(address, "shared", op, "i4", 4)
    if space_of(ins) == "generic":
        base = f"({base} - {e.constant(SHARED_WINDOW, 'i8')})"
    return number, base


@lowers("ldmatrix")
def _ldmatrix(e: Emitter, ins: P.Instruction) -> None:
    targets = items(ins.operands[0])
    number, base = _matrices_at(e, ins, ins.operands[1], "load")
    how = f"{len(targets)}, {'trans' in ins.parts}"
    e.write_each(targets, f"load_matrix(S, {number}, {base}, {how}, {e.active()})", "i4")


@lowers("stmatrix")
def _stmatrix(e: Emitter, ins: P.Instruction) -> None:
    number, base = _matrices_at(e, ins, ins.operands[0], "store")
    values = [e.read(o, "i4") for o in items(ins.operands[1])]
    e.emit(
        f"store_matrix(S, {number}, {base}, ({', '.join(values)},), {'trans' in ins.parts}, "
        f"{e.active()})"
    )


@lowers("mma")
def _mma(e: Emitter, ins: P.Instruction) -> None:
    shape, parts = _shape(ins), ins.parts
    types = tuple(p for p in parts[1:] if p in P.BITS or p in ("e4m3", "e5m2"))
    if any(p.split("::")[0] == "sp" for p in parts):
        raise e.fail("sparse matrices are not emulated; use the dense instruction")
    a, b = types[1:3] if len(types) > 3 else ("", "")
    if a not in _MMA.get(shape, set()) or not (a == b or {a, b} in _MIXED):
        raise e.fail(f"this shape and type are not emulated. Emulated are {_listed(_MMA)}")
    _products(e, ins, shape, types[:4], tuple(p for p in parts if p in ("row", "col")))


def _products(
    e: Emitter, ins: P.Instruction, shape: str, types: tuple[str, ...], layouts: tuple[str, ...]
) -> None:
    """The call that multiplies, and its results. types: of d, a, b and c."""
    d, *factors = (items(o) for o in ins.operands[:4])
    a, b, c = (
        ", ".join(e.read(o, _fragment_kind(t)) for o in group)
        for group, t in zip(factors, types[1:], strict=True)
    )
    call = (
        f"mma(S, {shape!r}, {types!r}, {layouts!r}, ({a},), ({b},), ({c},), "
        f"{'satfinite' in ins.parts}, {e.active()})"
    )
    e.write_each(d, call, _fragment_kind(types[0]))


def _wmma_words(e: Emitter, ins: P.Instruction) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """(shape, types, layouts) of a wmma instruction."""
    shape = _shape(ins)
    types = ins.types
    if shape not in _WMMA or {"b1", "s4", "u4"} & set(ins.parts):
        raise e.fail(f"this shape or type is not emulated. Emulated are {_listed(_WMMA)}")
    return shape, types, tuple(p for p in ins.parts if p in ("row", "col"))


@lowers("wmma.mma")
def _wmma_mma(e: Emitter, ins: P.Instruction) -> None:
    shape, types, layouts = _wmma_words(e, ins)
    if len(types) == 2:  # f16 inputs: only the accumulators are named
        types = types[0], "f16", "f16", types[1]
    _products(e, ins, shape, types[:4], layouts)


@lowers("wmma.load")
def _wmma_load(e: Emitter, ins: P.Instruction) -> None:
    shape, types, layouts = _wmma_words(e, ins)
    matrix, space, kind = ins.parts[2], space_of(ins), types[-1]
    targets = items(ins.operands[0])
    number, base = e.access(ins.operands[1], space, "load", _fragment_kind(kind))
    stride = e.read(ins.operands[2], "i4") if len(ins.operands) > 2 else "None"
    call = (
        f"wmma_load(S, {number}, {matrix!r}, {shape!r}, {layouts[0]!r}, {kind!r}, "
        f"{base}, {stride}, {len(targets)}, {e.active()})"
    )
    e.write_each(targets, call, _fragment_kind(kind))


@lowers("wmma.store")
def _wmma_store(e: Emitter, ins: P.Instruction) -> None:
    shape, types, layouts = _wmma_words(e, ins)
    space, kind = space_of(ins), types[-1]
    number, base = e.access(ins.operands[0], space, "store", _fragment_kind(kind))
    values = ", ".join(e.read(o, _fragment_kind(kind)) for o in items(ins.operands[1]))
    stride = e.read(ins.operands[2], "i4") if len(ins.operands) > 2 else "None"
    e.emit(
        f"wmma_store(S, {number}, {shape!r}, {layouts[0]!r}, {kind!r}, {base}, "
        f"({values},), {stride}, {e.active()})"
    )
