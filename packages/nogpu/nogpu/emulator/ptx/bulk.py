"""Requests to the copy engine as Python: boxes of tensors, rows of bytes, groups and fences; and
those for clusters that have not started, whose answers come the same way.
"""

from __future__ import annotations

from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.emit import OPERATIONS, Emitter, lowers
from nogpu.emulator.ptx.words import items, space_of


def _ways(ins: P.Instruction) -> tuple[str, str]:
    """Where a copy goes and where it comes from: the two spaces among its words, in their order."""
    words = (p.split("::")[0] for p in ins.parts)
    to, source, *_ = (word for word in words if word in ("shared", "global"))
    return to, source


def _operation(ins: P.Instruction) -> str:
    """What a reduction does with what lies there; "" for a copy."""
    return next((p for p in ins.parts if p in OPERATIONS), "") if "reduce" in ins.parts else ""


def _many(e: Emitter, ins: P.Instruction, operands: list[P.Operand | None]) -> str:
    """The mask of blocks that a multicast names; "None" where there is none."""
    return e.read(operands.pop(0), "i4") if "multicast::cluster" in ins.parts else "None"


def _counter(e: Emitter, rest: list[P.Operand | None]) -> tuple[int, str]:
    """(number of the access, expression of the address) of the mbarrier that counts the bytes."""
    return e.access(rest.pop(0), "shared", "atomic", "i8")


@lowers("cp.bulk.tensor", "cp.reduce.bulk.tensor")
def _box(e: Emitter, ins: P.Instruction) -> None:
    to, source, *rest = ins.operands
    if _ways(ins) == ("global", "shared"):
        if not isinstance(to, P.Box):
            raise e.fail("a tensor map and a place in it are expected: [map, {x, y}]")
        tensor, start = _map(e, to)
        number, base = e.access(source, "shared", "load", "u4", 4)
        e.emit(
            f"store_box(S, {number}, {tensor}, {start}, {base}, {e.active()}, {_operation(ins)!r})"
        )
        return
    if not isinstance(source, P.Box) or not rest or _ways(ins)[1] != "global":
        raise e.fail("only boxes between global and shared memory are emulated")
    tensor, start = _map(e, source)
    number, base = e.access(to, "shared", "store", "u4", 4)
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
    into, out_of = _ways(ins)
    writes, to_base = e.access(to, into, "store", "u4", 4)
    reads, from_base = e.access(source, out_of, "load", "u4", 4)
    row = f"{writes}, {to_base}, {reads}, {from_base}, {e.read(size, 'i4')}"
    if into == "global":
        how = f"{_operation(ins)!r}, {(ins.types or ('',))[-1]!r}"
        e.emit(f"store_row(S, {row}, {e.active()}, {how})")
        return
    counts, bar = _counter(e, rest)
    if out_of == "global":
        e.emit(f"load_row(S, {row}, {counts}, {bar}, {_many(e, ins, rest)}, {e.active()})")
    else:
        e.emit(f"pass_row(S, {row}, {counts}, {bar}, {e.active()})")


@lowers("cp.bulk.wait_group")
def _wait(e: Emitter, ins: P.Instruction) -> None:
    count = ins.operands[0]
    assert isinstance(count, P.Immediate)
    e.emit(f"wait_bulk(S, {count.value}, {'read' in ins.parts}, {e.active()})")


@lowers("fence.proxy", "membar.proxy")
def _proxy(e: Emitter, ins: P.Instruction) -> None:
    if "async" in ins.parts:
        space = space_of(ins)  # generic: of all memory
        e.emit(f"proxy_fence(S, {space!r}, {e.active()})")


@lowers("clusterlaunchcontrol.try_cancel")
def _try_cancel(e: Emitter, ins: P.Instruction) -> None:
    to, *rest = ins.operands
    number, base = e.access(to, "shared", "store", "u4", 4)
    counts, bar = _counter(e, rest)
    everybody = "multicast::cluster::all" in ins.parts
    e.emit(f"try_cancel(S, {number}, {base}, {counts}, {bar}, {everybody}, {e.active()})")


@lowers("clusterlaunchcontrol.query_cancel")
def _query_cancel(e: Emitter, ins: P.Instruction) -> None:
    d, answer = ins.operands
    low, high = (e.read(o, "i8") for o in items(answer))
    if "is_canceled" in ins.parts:
        e.write(d, f"cancelled({high})", "b1")
        return
    axis = next((p[-1] for p in ins.parts if p.startswith("get_first_ctaid::")), "")
    for i, target in enumerate(items(d)[:3]):
        if target is not None:
            e.write(target, f"first_block({low}, {high}, {'xyz'.find(axis) if axis else i})", "i4")
