"""Requests to the copy engine as Python: boxes of tensors, rows of bytes, groups and fences."""

from __future__ import annotations

from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.emit import OPERATIONS, Emitter, lowers
from nogpu.emulator.ptx.words import types_of


def _space(word: str) -> str:
    return word.split("::")[0]


def _ways(ins: P.Instruction) -> tuple[str, str]:
    """Where a copy goes and where it comes from: the two spaces among its words, in their order."""
    spaces = [_space(p) for p in ins.parts if _space(p) in ("shared", "global")]
    return spaces[0], spaces[1]


def _operation(ins: P.Instruction) -> str:
    """What a reduction does with what lies there; "" for a copy."""
    return next((p for p in ins.parts if p in OPERATIONS), "") if "reduce" in ins.parts else ""


def _many(e: Emitter, ins: P.Instruction, operands: list[P.Operand | None]) -> str:
    """The mask of blocks that a multicast names; "None" where there is none."""
    if "multicast::cluster" not in ins.parts:
        return "None"
    return e.read(operands.pop(0), "i4")


def _counter(e: Emitter, rest: list[P.Operand | None]) -> tuple[int, str]:
    """(number of the access, expression of the address) of the mbarrier that counts the bytes."""
    bar, offset = e.address(rest.pop(0))
    return e.site("shared", "atomic", "i8", 1, offset), bar


@lowers("cp.bulk.tensor", "cp.reduce.bulk.tensor")
def _box(e: Emitter, ins: P.Instruction) -> None:
    to, source, *rest = ins.operands
    if _ways(ins) == ("global", "shared"):
        if not isinstance(to, P.Box):
            raise e.fail("a tensor map and a place in it are expected: [map, {x, y}]")
        tensor, start = _map(e, to)
        base, offset = e.address(source)
        number = e.site("shared", "load", "u4", 4, offset)
        e.emit(
            f"store_box(S, {number}, {tensor}, {start}, {base}, {e.active()}, {_operation(ins)!r})"
        )
        return
    if not isinstance(source, P.Box) or not rest or _ways(ins)[1] != "global":
        raise e.fail("only boxes between global and shared memory are emulated")
    tensor, start = _map(e, source)
    base, offset = e.address(to)
    number = e.site("shared", "store", "u4", 4, offset)
    counts, bar = _counter(e, rest)
    many = _many(e, ins, rest)
    e.emit(
        f"load_box(S, {number}, {base}, {tensor}, {start}, {counts}, {bar}, {many}, "
        f"{'cta_group::2' in ins.parts}, {e.active()})"
    )


def _map(e: Emitter, box: P.Box) -> tuple[str, str]:
    """(expression of the map's address, of the place as a tuple)."""
    base, offset = e.address(box.base)
    if offset:
        base = f"({base} + {e.constant(offset, 'i8')})"
    return base, "(" + ", ".join(e.read(o, "i4") for o in box.start) + ",)"


@lowers("cp.bulk", "cp.reduce.bulk")
def _row(e: Emitter, ins: P.Instruction) -> None:
    to, source, size, *rest = ins.operands
    ways = _ways(ins)
    to_base, to_offset = e.address(to)
    from_base, from_offset = e.address(source)
    count = e.read(size, "i4")
    if ways == ("shared", "global"):
        number = e.site("shared", "store", "u4", 4, to_offset)
        reads = e.site("global", "load", "u4", 4, from_offset)
        counts, bar = _counter(e, rest)
        many = _many(e, ins, rest)
        e.emit(
            f"load_row(S, {number}, {to_base}, {reads}, {from_base}, {count}, {counts}, {bar}, "
            f"{many}, {e.active()})"
        )
    elif ways == ("global", "shared"):
        number = e.site("global", "store", "u4", 4, to_offset)
        reads = e.site("shared", "load", "u4", 4, from_offset)
        how = f"{_operation(ins)!r}, {(types_of(ins) or ('',))[-1]!r}"
        e.emit(
            f"store_row(S, {number}, {to_base}, {reads}, {from_base}, {count}, {e.active()}, {how})"
        )
    else:
        number = e.site("shared", "store", "u4", 4, to_offset)
        reads = e.site("shared", "load", "u4", 4, from_offset)
        counts, bar = _counter(e, rest)
        e.emit(
            f"pass_row(S, {number}, {to_base}, {reads}, {from_base}, {count}, {counts}, {bar}, "
            f"{e.active()})"
        )


@lowers("cp.bulk.wait_group")
def _wait(e: Emitter, ins: P.Instruction) -> None:
    count = ins.operands[0]
    assert isinstance(count, P.Immediate)
    e.emit(f"wait_bulk(S, {count.value}, {e.active()})")


@lowers("fence.proxy", "membar.proxy")
def _proxy(e: Emitter, ins: P.Instruction) -> None:
    if "async" in ins.parts:
        e.emit(f"proxy_fence(S, {e.active()})")
