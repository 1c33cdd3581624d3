"""How a basic block ends: branches, barriers, questions after an mbarrier; and calls."""

from __future__ import annotations

from collections.abc import Callable

from nogpu.emulator.ptx import ends
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.emit import Emitter, check_words, lowers, refuse
from nogpu.emulator.ptx.words import space_of
from nogpu.errors import EmulationError

Ending = Callable[[Emitter, P.Instruction, str | None, int], ends.End]
"""Writes what the last instruction of a block gives, and says how the block ends.

The number is that of the next block of the text, -1 if there is none.
"""


def terminate(e: Emitter, ins: P.Instruction, after: int) -> ends.End:
    """Emit the instruction that ends a block; how the block ends. after: the next block of the
    text.

    Raises EmulationError for one that is not emulated.
    """
    refuse(e, ins)
    end = _ENDS[ins.op.ends](e, ins, e.guard(), after)
    if ins.op.ends != "gate":
        check_words(ins)
    return end


def _jump(e: Emitter, ins: P.Instruction, guard: str | None, after: int) -> ends.End:
    label = ins.operands[0]
    name = label.name if isinstance(label, P.Symbol) else ""
    if name not in e.function.labels:
        raise EmulationError(f"line {ins.line}: the PTX label {name!r} does not exist")
    target = e.function.labels[name]
    e.finish(guard or "None")
    return ends.Branch(target, after) if guard else ends.Jump(target)


def _leave(e: Emitter, ins: P.Instruction, guard: str | None, after: int) -> ends.End:
    e.finish(guard or "None")
    return ends.Exit(after if guard else -1, whole=ins.root != "ret")


def _trap(e: Emitter, ins: P.Instruction, guard: str | None, after: int) -> ends.End:
    e.emit(f"trapped(S, {ins.line!r}, {e.active()})")
    return _leave(e, ins, guard, after)


def _gate(e: Emitter, ins: P.Instruction, guard: str | None, after: int) -> ends.End:
    e.finish(e.read(ins.operands[0], "i4"))
    return ends.Gate(after, 4 if "warpgroup" in ins.parts else 1)


def _table(e: Emitter, ins: P.Instruction, guard: str | None, after: int) -> ends.End:
    table, function = ins.operands[1], e.function
    if guard or not isinstance(table, P.Symbol) or table.name not in function.tables:
        raise EmulationError(
            f"line {ins.line}: cannot follow {ins.text!r}: its branch table is missing"
        )
    names = function.tables[table.name]
    e.finish(e.read(ins.operands[0], "i4"))
    return ends.Table(tuple(function.labels[n] for n in names if n in function.labels))


def _poll(e: Emitter, ins: P.Instruction, guard: str | None, after: int) -> ends.End:
    target, address, want = ins.operands[:3]
    if guard or not isinstance(target, P.Register):
        raise e.fail("a question after an mbarrier under a predicate is not emulated")
    if "shared::cluster" in ins.parts:
        raise e.fail(
            "a block waits at the mbarriers of its own shared memory alone: use .shared::cta"
        )
    number, base = e.access(address, space_of(ins), "atomic", "i8")
    parity = "parity" in ins.parts
    value = e.read(want, "i4" if parity else "i8")
    e.finish(f"({number}, {base}, {value}, {parity}, {e.numbers[target.name]})")
    return ends.Poll(after)


def _barrier(e: Emitter, ins: P.Instruction, guard: str | None, after: int) -> ends.End:
    if guard:
        raise EmulationError(
            f"line {ins.line}: a barrier under a predicate ({ins.text!r}) is not emulated. Put the "
            "barrier outside the condition, as CUDA requires"
        )
    parts = set(ins.parts)
    if "cluster" in parts:
        e.finish(f"({ends.CLUSTER}, None, False, None, True)")
        return ends.Barrier(after)
    operands = list(ins.operands)
    reduce = "None"
    if "red" in parts:
        target, predicate = operands[0], operands[-1]
        operands = operands[1:-1]
        operation = next(p for p in ("popc", "and", "or") if p in parts)
        assert isinstance(target, P.Register)
        number = e.numbers[target.name]
        reduce = f"({operation!r}, {number}, {e.read(predicate, 'b1')})"
    barrier = e.read(operands[0], "i4") if operands else e.constant(0, "i4")
    expected = f"{e.read(operands[1], 'i8')}" if len(operands) > 1 else "None"
    aligned = ins.root == "bar" or "aligned" in parts
    e.finish(f"({barrier}, {expected}, {'arrive' in parts}, {reduce}, {aligned})")
    return ends.Barrier(after)


_ENDS: dict[str, Ending] = {
    "jump": _jump,
    "table": _table,
    "exit": _leave,
    "trap": _trap,
    "barrier": _barrier,
    "poll": _poll,
    "gate": _gate,
}
"""By what the table of opcodes says of an end."""


# -- calls ---------------------------------------------------------------------------------------


_RUNTIME = {
    "malloc": "device_malloc(S, F, {arguments}, {returns}, {active})",
    "free": "device_free(S, F, {arguments}, {line}, {active})",
    "vprintf": "print_formatted(S, F, {arguments}, {returns}, {active})",
    "__assertfail": "assert_failed(S, F, {arguments}, {line}, {active})",
}
"""Functions of CUDA's device runtime that the emulator has."""


@lowers("call")
def _call(e: Emitter, ins: P.Instruction) -> None:
    assert ins.call is not None
    returns, name, arguments = ins.call
    if not name:
        pointer = e.read(ins.operands[0], "i8")
        e.emit(
            f"call_pointed(S, F, {pointer}, {arguments!r}, {returns!r}, {e.locals_size}, "
            f"{ins.line!r}, {e.active()})"
        )
        return
    callee = e.program.module.functions[name]
    if not callee.has_body:
        if name not in _RUNTIME:
            raise e.fail(
                f"the function {name!r} of CUDA's device runtime is not emulated. Launch kernels "
                "from the host, and use malloc and free for memory"
            )
        names = {"arguments": repr(arguments), "returns": repr(returns)}
        e.emit(_RUNTIME[name].format(**names, line=repr(ins.line), active=e.active()))
        return
    formal = tuple(p.name for p in callee.params)
    formal_returns = tuple(p.name for p in callee.returns)
    e.emit(
        f"call_function(S, F, {name!r}, {formal!r}, {arguments!r}, {formal_returns!r}, "
        f"{returns!r}, {e.locals_size}, {e.active()})"
    )
