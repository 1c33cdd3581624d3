"""Loads, stores, atomics, asynchronous copies and mbarriers, as Python."""

from __future__ import annotations

from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.emit import OPERATIONS, Emitter, lowers, own_kind
from nogpu.emulator.ptx.words import NUMPY, items, space_of, variable_at


@lowers("ld", "ldu")
def _load(e: Emitter, ins: P.Instruction) -> None:
    kind = ins.types[-1]
    numpy = NUMPY[kind]
    target, address = ins.operands[:2]
    targets = items(target)
    space = space_of(ins)
    target_kinds = [e.kinds[t.name] for t in targets if isinstance(t, P.Register)]
    if kind[0] == "b" and any(k[1] > numpy[1] for k in target_kinds):
        numpy = "u" + numpy[1]  # PTX ISA, ld: bits are extended with zeros, only .s with the sign
    if space == "param" and (variable := variable_at(address)):
        name, offset = variable
        own = e.program.param_offsets.get(name) if e.function.is_entry else None
        for i, target in enumerate(targets):
            at = offset + i * int(numpy[1])
            if own is not None:
                e.write(target, f"entry_param(S, {own + at}, {numpy})", numpy)
            else:  # of a device function, or what one returned
                e.write(target, f"load_param(F, {name!r}, {at}, {numpy})", numpy)
        return
    if isinstance(address, P.Address) and isinstance(address.base, P.Register) and numpy[1] == "4":
        # Load as the destination's own type.
        numpy = own_kind(e, targets[0], numpy)
    e.load(targets, address, space, numpy)


@lowers("st")
def _store(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[ins.types[-1]]
    address, source = ins.operands[:2]
    sources = items(source)
    space = space_of(ins)
    if numpy[1] == "4" and isinstance(sources[0], P.Register):
        numpy = own_kind(e, sources[0], numpy)
    if space == "param":
        formal = variable_at(address)
        assert formal is not None
        for i, value in enumerate([e.read(o, numpy) for o in sources]):
            at = formal[1] + i * int(numpy[1])
            e.emit(f"store_param(F, {formal[0]!r}, {at}, {value})")
        return
    if space == "const":
        raise e.fail("constant memory cannot be written by a kernel")
    e.store(address, sources, space, numpy)


@lowers("atom", "red")
def _atomic(e: Emitter, ins: P.Instruction) -> None:
    operation = next((p for p in ins.parts if p in OPERATIONS), "")
    if not operation:
        raise e.fail("it does not say which operation, and so is not emulated")
    kind = ins.types[-1]
    space = space_of(ins)
    operands = list(ins.operands)
    target = None if ins.root == "red" else operands.pop(0)
    address, *sources = operands
    if isinstance(target, P.Vector) or (sources and isinstance(sources[0], P.Vector)):
        raise e.fail("vector atomics are not emulated; use one atomic per element")
    numpy = NUMPY[kind]
    number, base = e.access(address, space, "atomic", numpy)
    first, second, *_ = (*(e.read(o, numpy) for o in sources), "None", "None")
    call = (
        f"atomic(S, {number}, {operation!r}, {kind!r}, {base}, {first}, {second}, "
        f"{e.active()}, {target is not None})"
    )
    e.write(target, call, numpy)


# -- asynchronous copies -------------------------------------------------------------------------


@lowers("cp.mbarrier")
def _copies_arrive(e: Emitter, ins: P.Instruction) -> None:
    number, base = e.access(ins.operands[0], space_of(ins), "atomic", "i8")
    e.emit(f"async_arrive(S, {number}, {base}, {'noinc' in ins.parts}, {e.active()})")


@lowers("cp.wait_group")
def _wait_for_copies(e: Emitter, ins: P.Instruction) -> None:
    count = ins.operands[0]
    assert isinstance(count, P.Immediate)
    e.emit(f"wait_group(S, {count.value}, False, {e.active()})")


@lowers("cp")
def _copy(e: Emitter, ins: P.Instruction) -> None:
    to, frm, size, *rest = ins.operands
    assert isinstance(size, P.Immediate)
    to_base, to_offset = e.address(to)
    reads, from_base = e.access(frm, "global", "load", "u4", size.value // 4)
    writes = e.site("shared", "store", "u4", size.value // 4, to_offset)
    rest = [o for o in rest if not (isinstance(o, P.Register) and e.kinds[o.name] == "i8")]
    limit = "None"
    if rest:
        operand = rest[0]
        if isinstance(operand, P.Register) and e.kinds[operand.name] == "b1":
            nothing, whole = e.constant(0, "i4"), e.constant(size.value, "i4")
            limit = f"select({e.read(operand, 'b1')}, {nothing}, {whole})"
        else:
            limit = e.read(operand, "i4")
    e.emit(f"copy_async(S, {reads}, {writes}, {from_base}, {to_base}, {limit}, {e.active()})")


# -- mbarriers -----------------------------------------------------------------------------------


_ON_MBARRIERS = {
    "init": "init_barrier(S, {at}, {count}, {active})",
    "inval": "end_barrier(S, {at}, {active})",
    "expect_tx": "expect_bytes(S, {at}, {count}, {active})",
    "complete_tx": "complete_tx(S, {at}, {count}, {active})",
    "arrive": "arrive(S, {at}, {count}, False, {active})",
    "arrive_drop": "arrive(S, {at}, {count}, True, {active})",
    "arrive expect_tx": "arrive_expecting(S, {at}, {count}, {active})",
}


@lowers("mbarrier")
def _mbarrier(e: Emitter, ins: P.Instruction) -> None:
    what = ins.parts[1]
    operands = list(ins.operands)
    target = None if isinstance(operands[0], P.Address) else operands.pop(0)
    number, base = e.access(operands[0], space_of(ins), "atomic", "i8")
    count = e.read(operands[1], "i4") if len(operands) > 1 else e.constant(1, "i4")
    if what in ("init", "inval") and "shared::cluster" in ins.parts:
        raise e.fail(
            "a block sets up the mbarriers of its own shared memory alone: use .shared::cta"
        )
    if "expect_tx" in ins.parts[2:] and what not in ("expect_tx", "complete_tx"):
        if what != "arrive":
            raise e.fail(
                "only mbarrier.arrive announces bytes here. Use mbarrier.expect_tx before it"
            )
        what = "arrive expect_tx"
    if what not in _ON_MBARRIERS:
        raise e.fail("it is not among the operations on mbarriers that the emulator knows")
    call = _ON_MBARRIERS[what].format(at=f"{number}, {base}", count=count, active=e.active())
    e.write(target, call, "i8")
