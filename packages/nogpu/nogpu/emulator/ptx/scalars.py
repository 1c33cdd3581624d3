"""Python for a launch of one thread: its registers are Python's numbers, not arrays of one element.

NumPy takes about a microsecond for an array of one element, Python a twentieth of that for a
number. Predicates are bool, integers int within the signed range of their bits, float32 and float64
float. Instructions that this module does not know become the code that arrays have (`emit`): their
operands are put into arrays before (`box_...`), and their results taken out (`unbox_...`). float16
stays an array. Rounding, wrapping and counts are those of arrays, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nogpu.emulator.ptx import emit, words
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.emit import Emitter, constant_of_name, own_kind
from nogpu.emulator.ptx.opcodes import key_of
from nogpu.emulator.ptx.words import HALVES, NUMPY, SIGNLESS, rounding, space_of

SPACES = ("global", "const", "local", "generic")
"""Where plain loads and stores go through `machine.ports`."""
_ENDS = ("", "jump", "exit", "trap", "barrier", "call")
_UNIFORM = {"tid": 0, "ctaid": 0, "laneid": 0, "ntid": 1, "nctaid": 1}
"""Special registers of a launch of one thread, on every axis."""


def suits(functions: Sequence[P.Function]) -> bool:
    """Whether the functions of a program, the entry first, can run so: one that calls none, and
    waits for nobody.
    """
    if len(functions) > 1:
        return False
    for ins in functions[0].code:
        if ins.op.ends not in _ENDS or ins.op.warpgroup:
            return False
        if ins.op.touches in ("mbarrier", "bulk") or (ins.op.ends == "barrier" and ins.writes):
            return False
    return True


class _OtherwiseError(Exception):
    """An operand or a form that is left to arrays."""


def _mask(kind: str) -> int:
    return (1 << 8 * int(kind[1])) - 1


def _signed(value: str, kind: str) -> str:
    """Expression of a number cut to the bits of a signed type."""
    half = 1 << 8 * int(kind[1]) - 1
    return f"(({value} + {half} & {_mask(kind)}) - {half})"


class ScalarEmitter(Emitter):
    """Writes the Python of one basic block for one thread."""

    def _narrow(self) -> None:
        assert self.ins is not None
        if self.ins.op.ends == "trap":  # the others stand below an `if`: see `instruction`
            super()._narrow()

    def guard(self) -> str | None:
        """Expression of the guard: of a branch a bool, of others an array."""
        assert self.ins is not None
        if self.ins.guard is None or self.ins.op.ends != "jump":
            return super().guard()
        return self._condition(self.ins)

    def _condition(self, ins: P.Instruction) -> str:
        assert ins.guard is not None
        value = self.number(ins.guard)
        return f"not {value}" if ins.guard_negated else value

    def instruction(self, ins: P.Instruction) -> None:
        """Emit an instruction, below an `if` where it has a guard."""
        if ins.guard is None:
            self._lower(ins)
            return
        condition = self._condition(ins)
        for name in (*ins.reads, *ins.writes):  # loaded whether the guard holds or not
            self.number(name)
        outer, self.lines = self.lines, []
        self._lower(ins)
        inner, self.lines = self.lines, outer
        if inner:
            self.emit(f"if {condition}:")
            self.lines += ["    " + line for line in inner]

    def _lower(self, ins: P.Instruction) -> None:
        native = _NATIVE.get(key_of(ins.parts))
        if native is not None:
            try:
                emit.refuse(self, ins)
                native(self, ins)
                emit.check_words(ins)
                return
            except _OtherwiseError:
                pass
        super().instruction(ins)

    def source(self, name: str) -> str:
        """The block as a Python function."""
        text = "\n".join(self.lines)
        first = ["ports = S.ports"] if "ports[" in text else []
        if "f32[" in text:
            first.append("f32, f64, low = S.scratch")
        self.lines = first + self.lines
        return super().source(name)

    def finish(self, result: str) -> None:
        """Store the registers that other blocks use, and return."""
        if self.dirty:
            self.emit(f"result = {result}")
            for name in sorted(self.dirty):
                self.emit(f"R[{self.numbers[name]}] = {self.where[name]}")
            result = "result"
        self.emit(f"return {result}")

    # -- arrays ----------------------------------------------------------------------------------

    def zero(self, kind: str) -> str:
        """What a register holds before it is written."""
        if kind == "f2":
            return super().zero(kind)
        return {"b": "False", "f": "0.0"}.get(kind[0], "0")

    def variable(self, register: str) -> str:
        """A register as an array."""
        kind, value = self.kinds[register], self.number(register)
        return value if kind == "f2" else self.temporary(f"box_{kind}({value})")

    def keep(self, name: str, expression: str) -> None:
        """Put what an array holds into a register."""
        kind = self.kinds[name]
        value = expression if kind == "f2" else f"unbox_{kind}({expression})"
        self.emit(f"{self.target(name)} = {value}")

    # -- numbers ---------------------------------------------------------------------------------

    def number(self, register: str) -> str:
        """The Python variable that holds a register, loaded if need be."""
        return super().variable(register)

    def value(self, operand: P.Operand | None, kind: str) -> str:
        """Expression of an operand as a NumPy type, as a number."""
        if kind == "f2":
            raise _OtherwiseError
        if isinstance(operand, P.Register):
            return self._cut(self.number(operand.name), self.kinds[operand.name], kind)
        if isinstance(operand, P.Negated) and kind == "b1":
            return f"(not {self.value(operand.operand, kind)})"
        if isinstance(operand, P.Symbol) and operand.name.startswith("%"):
            value = _UNIFORM.get(operand.name[1:].partition(".")[0])
            if value is not None and kind == "i4":
                return str(value)
            raise _OtherwiseError
        if isinstance(operand, P.Symbol):
            return _literal(self._symbol(operand, kind))
        if isinstance(operand, P.Immediate):
            return _literal(self.constant_of(operand, kind))
        raise _OtherwiseError

    def _cut(self, value: str, have: str, want: str) -> str:
        """A number of one type as another: the bits are cut, or extended as arrays do."""
        if have == want:
            return value
        if have[0] != "i" or want[0] not in "iu":
            raise _OtherwiseError
        if want[0] == "u":
            return f"({value} & {_mask(min(have, want, key=lambda k: k[1]))})"
        return value if want[1] > have[1] else _signed(value, want)

    def put(self, target: P.Operand | None, value: str, kind: str, *, fits: bool = True) -> None:
        """Put a number of a NumPy type into a register. fits: it is in the range of the type."""
        if not isinstance(target, P.Register):
            raise _OtherwiseError
        own = self.kinds[target.name]
        whole = own[0] == "i" and kind[0] in "iu"
        if (own != kind and not whole) or (not fits and own[1] > kind[1]):
            raise _OtherwiseError
        variable = self.target(target.name)
        self.emit(f"{variable} = {value}")
        if whole and not (fits and (own[1] > kind[1] or own == kind)):
            half = 1 << 8 * int(own[1]) - 1
            cut = _signed(variable, own)
            self.emit(f"if not {-half} <= {variable} < {half}: {variable} = {cut}")

    def put_f32(self, target: P.Operand | None, value: str) -> None:
        """Round a float64 number to float32 and put it into a register."""
        self.expect(target, "f4")
        self.emit(f"f32[0] = {value}")
        self.put(target, "f32[0]", "f4")

    def expect(self, target: P.Operand | None, kind: str) -> None:
        """Leave the instruction to arrays unless it writes a register of this NumPy type."""
        if not isinstance(target, P.Register) or self.kinds[target.name] != kind:
            raise _OtherwiseError

    # -- memory ----------------------------------------------------------------------------------

    def _place(self, operand: P.Operand | None) -> tuple[str, int]:
        """(base, constant offset) of an address."""
        if not isinstance(operand, P.Address):
            raise _OtherwiseError
        if isinstance(operand.base, P.Register):
            if self.kinds[operand.base.name] != "i8":
                raise _OtherwiseError
            return self.number(operand.base.name), operand.offset
        if isinstance(operand.base, P.Symbol):
            return self.value(operand.base, "i8"), operand.offset
        return str(operand.base.value), operand.offset

    def load(
        self, targets: Sequence[P.Operand | None], address: P.Operand | None, space: str, kind: str
    ) -> None:
        """Load elements of a NumPy type, one for each target."""
        try:
            if space not in SPACES:
                raise _OtherwiseError
            for t in targets:
                own = self.kinds[t.name] if isinstance(t, P.Register) else kind
                if own != kind and (own[0] != "i" or kind[0] not in "iu"):
                    raise _OtherwiseError
            base, offset = self._place(address)
        except _OtherwiseError:
            super().load(targets, address, space, kind)
            return
        number = self.site(space, "load", kind, len(targets), offset)
        what = "float" if kind == "f4" else "number"
        if len(targets) == 1 and targets[0] is not None:
            self.put(targets[0], f"ports[{number}].load_{what}({base})", kind)
            return
        values = self.temporary(f"ports[{number}].load_all({base})")
        for i, item in enumerate(targets):
            if item is not None:
                self.put(item, f"{values}[{i}]", kind)

    def store(
        self, address: P.Operand | None, sources: Sequence[P.Operand | None], space: str, kind: str
    ) -> None:
        """Store operands side by side as elements of a NumPy type."""
        try:
            if space not in SPACES:
                raise _OtherwiseError
            values = [self.value(o, kind) for o in sources]
            base, offset = self._place(address)
        except _OtherwiseError:
            super().store(address, sources, space, kind)
            return
        number = self.site(space, "store", kind, len(sources), offset)
        if len(values) == 1:
            self.emit(f"ports[{number}].store({base}, {values[0]})")
        else:
            self.emit(f"ports[{number}].store_all({base}, ({', '.join(values)}))")


def _literal(name: str) -> str:
    """The number in a constant, by the constant's name."""
    array = constant_of_name(name)
    if array is None or array.dtype == "f2" or not math.isfinite(array.item()):
        raise _OtherwiseError
    text = repr(array.item())
    return f"({text})" if text[0] == "-" else text


# -- instructions --------------------------------------------------------------------------------

Native = Callable[[ScalarEmitter, P.Instruction], None]
_NATIVE: dict[str, Native] = {}


_takes = emit.registering(_NATIVE)
"""Register who emits the opcodes of these rows; it raises _OtherwiseError before it emits."""


def _only(ins: P.Instruction, *words: str) -> str:
    """NumPy's name of the instruction's one type, if it has no other words than these."""
    types = ins.types
    if len(types) != 1 or set(ins.parts[1:]) - {types[0], *words}:
        raise _OtherwiseError
    if types[0] not in NUMPY or types[0] in (*HALVES, "f16", "tf32"):
        raise _OtherwiseError
    return NUMPY[types[0]]


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}


@_takes("add", "sub", "mul")
def _arithmetic(e: ScalarEmitter, ins: P.Instruction) -> None:
    kind = _only(ins, "rn", "lo", "wide", "hi")
    d, a, b = ins.operands
    if kind[0] == "f":
        value = f"{e.value(a, kind)} {_SIGNS[ins.root]} {e.value(b, kind)}"
        if kind == "f4":
            e.put_f32(d, value)
        else:
            e.put(d, value, kind)
        return
    e.put(d, *_product(e, ins, kind, a, b), fits=False)


def _product(
    e: ScalarEmitter, ins: P.Instruction, kind: str, a: P.Operand | None, b: P.Operand | None
) -> tuple[str, str]:
    """Expression of a sum or product of integers, before it is cut, and the type it is cut to."""
    sign = _SIGNS.get(ins.root, "*")
    if "wide" in ins.parts:
        return f"{e.value(a, kind)} * {e.value(b, kind)}", f"i{2 * int(kind[1])}"
    if "hi" in ins.parts:
        return f"({e.value(a, kind)} * {e.value(b, kind)} >> {8 * int(kind[1])})", "i" + kind[1]
    kind = SIGNLESS.get(kind, kind)
    return f"{e.value(a, kind)} {sign} {e.value(b, kind)}", kind


@_takes("fma", "mad")
def _multiply_add(e: ScalarEmitter, ins: P.Instruction) -> None:
    kind = _only(ins, "rn", "lo", "wide", "hi")
    d, a, b, c = ins.operands
    if kind == "f4":
        x, y, z = (e.value(o, kind) for o in (a, b, c))
        e.expect(d, kind)
        e.emit(f"f64[0] = f32[0] = {x} * {y} + {z}")
        # Halfway between two float32: the sum in float64 may have been rounded to there.
        halfway = f"low[0] & {0x1FFFFFFF} == {0x10000000}"
        e.put(d, f"fused({x}, {y}, {z}) if {halfway} else f32[0]", kind)
        return
    if kind[0] == "f":
        raise _OtherwiseError
    product, wide = _product(e, ins, kind, a, b)
    e.put(d, f"{product} + {e.value(c, wide)}", wide, fits=False)


@_takes("div", "rem")
def _divide(e: ScalarEmitter, ins: P.Instruction) -> None:
    kind = _only(ins, "rn", "full", "approx")
    d, a, b = ins.operands
    if kind == "f4" and rounding(ins) == "rn":
        e.put_f32(d, f"divided({e.value(a, kind)}, {e.value(b, kind)})")
    elif kind[0] == "f":
        raise _OtherwiseError
    else:
        name = "quotient" if ins.root == "div" else "remainder"
        value = f"{name}({e.value(a, kind)}, {e.value(b, kind)})"
        e.put(d, value, "i" + kind[1], fits=False)


@_takes("and", "or", "xor")
def _logic(e: ScalarEmitter, ins: P.Instruction) -> None:
    kind = _only(ins)
    d, a, b = ins.operands
    e.put(d, f"{e.value(a, kind)} {_SIGNS[ins.root]} {e.value(b, kind)}", kind)


@_takes("not")
def _not(e: ScalarEmitter, ins: P.Instruction) -> None:
    kind = _only(ins)
    value = e.value(ins.operands[1], kind)
    e.put(ins.operands[0], f"not {value}" if kind == "b1" else f"~{value}", kind)


@_takes("neg", "abs")
def _sign(e: ScalarEmitter, ins: P.Instruction) -> None:
    kind = _only(ins)
    value = e.value(ins.operands[1], kind)
    e.put(ins.operands[0], f"abs({value})" if ins.root == "abs" else f"-{value}", kind, fits=False)


@_takes("min", "max")
def _extreme(e: ScalarEmitter, ins: P.Instruction) -> None:
    kind = _only(ins)
    if kind[0] == "f" or len(ins.operands) != 3:
        raise _OtherwiseError
    d, a, b = ins.operands
    e.put(d, f"{ins.root}({e.value(a, kind)}, {e.value(b, kind)})", kind)


@_takes("shl", "shr")
def _shift(e: ScalarEmitter, ins: P.Instruction) -> None:
    kind = _only(ins)
    if ins.root == "shr" and ins.types[0][0] == "b":
        kind = "u" + kind[1]
    d, a, n = ins.operands
    value, bits = e.value(a, "i" + kind[1] if ins.root == "shl" else kind), 8 * int(kind[1])
    if isinstance(n, P.Immediate):
        amount = str(min(n.value & 0xFFFFFFFF, bits))
    else:
        amount = f"min({e.value(n, 'u4')}, {bits})"
    e.put(d, f"{value} {'<<' if ins.root == 'shl' else '>>'} {amount}", "i" + kind[1], fits=False)


@_takes("setp")
def _compare(e: ScalarEmitter, ins: P.Instruction) -> None:
    op, kind = ins.parts[1], NUMPY.get(ins.parts[-1], "")
    plain = kind in ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
    if not plain or "ftz" in ins.parts or ins.parts[-1] in HALVES:
        raise _OtherwiseError
    if op in words.UNSIGNED:
        kind = "u" + kind[1]
    target, a, b = ins.operands[:3]
    x, y = e.value(a, kind), e.value(b, kind)
    if op == "ne" and kind[0] == "f":
        value = f"({x} < {y} or {x} > {y})"
    elif op in words.OPPOSITE:
        value = f"not {x} {words.OPPOSITE[op]} {y}"
    elif op in words.COMPARE and op != "equ":
        value = f"{x} {words.COMPARE[op]} {y}"
    else:
        raise _OtherwiseError
    inverse = f"not ({value})"
    if len(ins.operands) > 3:
        third, word = e.value(ins.operands[3], "b1"), _SIGNS[ins.parts[2]]
        value, inverse = f"({value}) {word} {third}", f"({inverse}) {word} {third}"
    if isinstance(target, P.Pair):
        first, second = e.temporary(value), e.temporary(inverse)
        for half, part in ((target.first, first), (target.second, second)):
            if half is not None:
                e.put(half, part, "b1")
    else:
        e.put(target, value, "b1")


@_takes("selp")
def _choose(e: ScalarEmitter, ins: P.Instruction) -> None:
    d, a, b, p = ins.operands
    kind = own_kind(e, d, _only(ins))
    e.put(d, f"{e.value(a, kind)} if {e.value(p, 'b1')} else {e.value(b, kind)}", kind)


@_takes("mov")
def _move(e: ScalarEmitter, ins: P.Instruction) -> None:
    d, a = ins.operands
    kind = own_kind(e, d, _only(ins))
    e.put(d, e.value(a, kind), kind)


@_takes("cvta")
def _pointer(e: ScalarEmitter, ins: P.Instruction) -> None:
    if space_of(ins) != "global":
        raise _OtherwiseError
    e.put(ins.operands[0], e.value(ins.operands[1], "i8"), "i8")


@_takes("cvt")
def _convert(e: ScalarEmitter, ins: P.Instruction) -> None:
    types = ins.types
    if len(types) != 2 or len(ins.operands) != 2 or set(ins.parts[1:]) - {"rn", *types}:
        raise _OtherwiseError
    if any(t[0] not in "suf" or t not in NUMPY or t in ("f16", "f16x2") for t in types):
        raise _OtherwiseError
    to, have = (NUMPY[t] for t in types)
    d, a = ins.operands
    value = e.value(a, have)
    if to[0] != "f" and have[0] != "f":
        own = e.kinds[d.name] if isinstance(d, P.Register) else ""
        if own[1:] > to[1:]:  # cut to the type, then extended
            value = f"({value} & {_mask(to)})" if to[0] == "u" else _signed(value, to)
            e.put(d, value, to)
        else:
            e.put(d, value, "i" + to[1], fits=False)
    elif have[0] != "f" and int(have[1]) <= 4:
        if to == "f4":
            e.put_f32(d, value)
        else:
            e.put(d, f"float({value})", to)
    elif (to, have) == ("f8", "f4"):
        e.put(d, value, to)
    elif (to, have) == ("f4", "f8"):
        e.put_f32(d, value)
    else:
        raise _OtherwiseError
