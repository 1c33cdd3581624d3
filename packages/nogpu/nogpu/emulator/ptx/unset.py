"""Registers that nobody has set: found in the text, and followed at run time to where they count.

PTX keeps a variable without a value as a register that some way through the function reads before
any instruction writes it. Few kernels have one. Beside each such register, and each that is made of
it, stands a predicate "of this lane it was never set"; before what a kernel does with it that shows
(a store, an address, a branch) a check. A value that is computed and thrown away is no fault.

What an optimising compiler leaves out is not in its PTX: it may take any number for such a
variable, so that `int v; if (c) v = 3; y[i] = v;` stores 3 in every lane (`launching.run` has it
compiled as it is written, too). Not seen is what goes through a call or a shuffle, nor are the sums
of wgmma. Local memory is looked at word by word, and a word that another function of the thread has
used before counts as set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nogpu.emulator.ptx import flow
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.emit import Emitter, lowers
from nogpu.emulator.ptx.words import items

_HINTS = ("prefetch", "prefetchu", "discard", "applypriority")
_ELSEWHERE = "stores elsewhere"
"""What a store by a generic address does where that is none of local memory."""
LOADING, LOADING_ELSEWHERE = "loading", "loading elsewhere"
"""Notes of `loading`: registers are used, or stored like that, that must have come."""
OTHER_SPACES = frozenset(("global", "shared", "const", "param"))
_AFRESH = ("wgmma", "shfl", "vote", "match", "redux", "elect")
"""Opcodes whose result is not only of the lane's own operands, or which may ignore what was there.
"""
SET, UNSET = P.Immediate(0), P.Immediate(1)
_IN_PART = ("and", "or", "lop3", "prmt", "bfi")
"""What joins bits of several words: without a value only if no word has one."""


def shadowed(function: P.Function) -> P.Function:
    """The function with a predicate beside what may be unset, and checks; itself if nothing may."""
    unset = _read_first(function)
    loads = [name for ins in function.code if _loads(ins) for name in ins.writes]
    if not unset and not loads:
        return function
    origin = _made_of(function, [*unset, *loads])
    first = function.code[0]
    begun = [note("or", [_shade(name), UNSET], first, False) for name in unset]
    noted = P.rewritten(
        function,
        lambda ins: [*_checks(ins, origin), *_shades(ins, origin), ins, *_after(ins, origin)],
        {_shade(name).name: "pred" for name in origin},
    )
    labels = {name: at + len(begun) for name, at in noted.labels.items()}
    return replace(noted, code=begun + noted.code, labels=labels)


def is_note(ins: P.Instruction) -> bool:
    """Whether an instruction is none of the kernel's: one of these, or of `loading`."""
    return ins.root == "unset"


def note(
    what: str, operands: Sequence[P.Operand | None], of: P.Instruction, guarded: bool = True
) -> P.Instruction:
    """An instruction of our own. of: beside which one it stands; guarded: under its predicate."""
    return P.Instruction(
        *("unset", ("unset", what), tuple(operands), of.line),
        *(of.guard if guarded else None, of.guard_negated),
        text="unset",
        place=of.place,
    )


def _shade(name: str) -> P.Register:
    return P.Register(f"{name}#unset")


def _read_first(function: P.Function) -> list[str]:
    """Registers that some way from the entry reads before it writes them, by liveness: sets of
    registers are the bits of a number.
    """
    number: dict[str, int] = {}
    live, writes = dict[int, int](), dict[int, int]()
    for start, end in function.spans.items():
        first, written = 0, 0
        for ins in function.code[start:end]:
            for name in ins.reads:
                first |= 1 << number.setdefault(name, len(number)) & ~written
            for name in ins.writes:
                written |= 1 << number.setdefault(name, len(number))
        live[start], writes[start] = first, written
    before, todo = flow.inverse(function.after), list(live)
    while todo:
        at = todo.pop()
        for earlier in before[at]:
            more = live[earlier] | (live[at] & ~writes[earlier])
            if more != live[earlier]:
                live[earlier] = more
                todo.append(earlier)
    # A product's scale says at run time whether what its sums held before counts.
    sums = {name for ins in function.code if ins.root == "wgmma" for name in ins.writes}
    return [name for name, n in number.items() if live[0] >> n & 1 and name not in sums]


def _made_of(function: P.Function, unset: Sequence[str]) -> dict[str, int]:
    """These registers and all that are made of them, each with the line that first uses one."""
    origin = dict.fromkeys(unset, 0)
    for ins in function.code:
        for name in ins.writes if _loads(ins) else _sources(ins) if ins.root != "mov" else ():
            if origin.get(name) == 0:
                origin[name] = ins.line
    todo = list(unset)
    readers: dict[str, list[P.Instruction]] = {}
    for ins in function.code:
        for name in {*_sources(ins), *([ins.guard] if ins.guard else [])}:
            readers.setdefault(name, []).append(ins)
    while todo:
        name = todo.pop()
        for ins in readers.get(name, ()):
            for made in ins.writes if _passes_on(ins) or ins.guard == name else ():
                if made not in origin:
                    origin[made] = origin[name] or ins.line
                    todo.append(made)
    return origin


def _loads(ins: P.Instruction) -> bool:
    """Whether an instruction may read memory of its thread: arrays that no register holds."""
    return ins.root == "ld" and OTHER_SPACES.isdisjoint(ins.parts)


def _after(ins: P.Instruction, origin: Mapping[str, int]) -> list[P.Instruction]:
    """Behind a load from local memory, whether each element was ever written; behind a store there,
    which elements have no value.
    """
    if _loads(ins):
        return [note("local", [_shade(n), P.Immediate(j)], ins) for j, n in _elements(ins, 0)]
    if ins.root != "st" or not OTHER_SPACES.isdisjoint(ins.parts):
        return []
    given = [(j, name) for j, name in _elements(ins, 1) if name in origin]
    out = [note("kept", [_shade(name), P.Immediate(j)], ins) for j, name in given]
    if given and "local" not in ins.parts:
        first = P.Immediate(origin[given[0][1]])
        out.append(note(_ELSEWHERE, [first, *(_shade(name) for _, name in given)], ins))
    return out


def _elements(ins: P.Instruction, place: int) -> list[tuple[int, str]]:
    """Registers of an operand, with the elements that they hold."""
    each = items(ins.operands[place])
    return [(j, o.name) for j, o in enumerate(each) if isinstance(o, P.Register)]


def _passes_on(ins: P.Instruction) -> bool:
    """Whether a result without a value comes of operands without one."""
    return not ins.op.touches and ins.root not in _AFRESH


def _sources(ins: P.Instruction) -> list[str]:
    """Registers whose values an instruction takes, those of addresses included."""
    return [name for names in ins.operand_registers[ins.has_target :] for name in names]


def _shades(ins: P.Instruction, origin: Mapping[str, int]) -> list[P.Instruction]:
    """What becomes of the predicates of the registers that an instruction writes."""
    out: list[P.Instruction] = []
    for name in dict.fromkeys(n for n in ins.writes if n in origin and not _loads(ins)):
        what, operands = _made(ins, origin)
        out.append(note(what, [_shade(name), *operands], ins))
        if ins.guard and ins.guard in origin:
            both = [_shade(name), _shade(name), _shade(ins.guard)]
            out.append(note("or", both, ins, guarded=False))
    return out


def _made(ins: P.Instruction, origin: Mapping[str, int]) -> tuple[str, list[P.Operand | None]]:
    """Which note says whether what an instruction writes has a value: its word, its operands."""

    def shade(operand: P.Operand | None) -> P.Operand:
        if isinstance(operand, P.Register) and operand.name in origin:
            return _shade(operand.name)
        return SET

    if not _passes_on(ins):
        return "or", [SET]
    if ins.root == "selp":
        _, a, b, p = ins.operands
        return "select", [p, shade(a), shade(b), shade(p)]
    if ins.root in ("and", "or") and "pred" in ins.parts:
        _, a, b = ins.operands
        return f"{ins.root}_pred", [a, b, shade(a), shade(b)]
    sources = list(dict.fromkeys(_sources(ins)))
    joined = ins.root in _IN_PART or (ins.root == "mov" and len(sources) > 1)
    if joined and any(source not in origin for source in sources):
        return "or", [SET]
    shades: list[P.Operand | None] = [_shade(n) for n in sources if n in origin]
    return "and" if joined else "or", shades or [SET]


def _checks(ins: P.Instruction, origin: Mapping[str, int]) -> list[P.Instruction]:
    """Checks before an instruction that shows what registers hold."""
    op, out = ins.op, list[P.Instruction]()
    writes = op.touches in ("store", "shared store", "atomic")

    def check(does: str, names: Sequence[str], guarded: bool = True) -> None:
        if unset := [name for name in names if name in origin]:
            first = P.Immediate(origin[unset[0]])
            out.append(note(does, [first, *map(_shade, unset)], ins, guarded))

    if ins.guard and (writes or op.ends in ("jump", "exit")):
        check("decides by", [ins.guard], guarded=False)
    if op.ends == "table":
        check("decides by", ins.operand_registers[0])
    private = "param" in ins.parts or (ins.root == "st" and OTHER_SPACES.isdisjoint(ins.parts))
    for place, operand in enumerate(ins.operands):
        names = ins.operand_registers[place]
        if isinstance(operand, P.Address | P.Box):
            if ins.root not in _HINTS:
                check("takes an address from", names)
        elif writes and not private and place >= ins.has_target:
            check("stores", names)
    return out


@lowers("unset")
def _unset(e: Emitter, ins: P.Instruction) -> None:
    what = ins.parts[1]
    if what in ("or", "and"):
        sign = " | " if what == "or" else " & "
        e.write(ins.operands[0], sign.join(e.read(o, "b1") for o in ins.operands[1:]), "b1")
    elif what in ("local", "kept"):
        shade, element = ins.operands
        assert isinstance(element, P.Immediate)
        if what == "local":
            e.write(shade, f"local_unset(S, {element.value})", "b1")
        else:
            e.emit(f"local_kept(S, {element.value}, {e.read(shade, 'b1')}, {e.active()})")
    elif what == "select":
        p, a, b, u = (e.read(o, "b1") for o in ins.operands[1:])
        e.write(ins.operands[0], f"np.where({p}, {a}, {b}) | {u}", "b1")
    elif what in ("and_pred", "or_pred"):
        a, b, x, y = (e.read(o, "b1") for o in ins.operands[1:])
        lets = "{0}" if what == "and_pred" else "~({0})"  # whether the other one does not decide
        seen = f"({x} & ({y} | {lets.format(b)})) | ({y} & {lets.format(a)})"
        e.write(ins.operands[0], seen, "b1")
    else:
        first, *shades = ins.operands
        assert isinstance(first, P.Immediate)
        lanes = " | ".join(e.read(o, "b1") for o in shades)
        shown = "stores" if what == _ELSEWHERE else what
        call = f"unset_shown(S, {lanes}, {shown!r}, {ins.line!r}, {first.value}, {e.active()})"
        if what in (LOADING, LOADING_ELSEWHERE):
            call = f"loading_used(S, {lanes}, {ins.line!r}, {first.value}, {e.active()})"
        e.emit(f"if not S.local_at: {call}" if what in (_ELSEWHERE, LOADING_ELSEWHERE) else call)
