"""clusterlaunchcontrol as Python."""

from __future__ import annotations

from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.emit import Emitter, lowers
from nogpu.emulator.ptx.words import items


@lowers("clusterlaunchcontrol.try_cancel")
def _try(e: Emitter, ins: P.Instruction) -> None:
    base, offset = e.address(ins.operands[0])
    number = e.site("shared", "store", "u4", 4, offset)
    bar, bar_offset = e.address(ins.operands[1])
    counts = e.site("shared", "atomic", "i8", 1, bar_offset)
    everybody = "multicast::cluster::all" in ins.parts
    e.emit(f"try_cancel(S, {number}, {base}, {counts}, {bar}, {everybody}, {e.active()})")


@lowers("clusterlaunchcontrol.query_cancel")
def _query(e: Emitter, ins: P.Instruction) -> None:
    d, answer = ins.operands
    low, high = (e.read(o, "i8") for o in items(answer))
    if "is_canceled" in ins.parts:
        e.write(d, f"cancelled({high})", "b1")
        return
    axis = next((p[-1] for p in ins.parts if p.startswith("get_first_ctaid::")), "")
    for i, target in enumerate(items(d)[:3]):
        if target is not None:
            e.write(target, f"first_block({low}, {high}, {'xyz'.find(axis) if axis else i})", "i4")
