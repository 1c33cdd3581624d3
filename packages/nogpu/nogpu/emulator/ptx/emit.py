"""The writer of Python: registers become variables, operands expressions, rows lines."""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nogpu.emulator.ptx import opcodes
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.layout import PARAM_BASE, symbol_address
from nogpu.emulator.ptx.sites import Site
from nogpu.emulator.ptx.words import NUMPY, STRONG, space_of
from nogpu.errors import EmulationError

if TYPE_CHECKING:
    from nogpu.emulator.ptx.program import Program

Array = np.ndarray[Any, np.dtype[Any]]
F = TypeVar("F")


OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")
"""Words of atomics and reductions that say what is done."""
_CONSTANT = re.compile(r"c_([a-z]\d)_([0-9a-f]+)")


def constant_of_name(name: str) -> Array | None:
    """The array that `Emitter.constant` named so, or None for another name."""
    match = _CONSTANT.fullmatch(name)
    if match is None:
        return None
    return np.frombuffer(bytes.fromhex(match[2]), match[1]).reshape(1, 1, 1, 1)  # read-only


@dataclass(eq=False)
class Emitter:
    """Writes the Python of one basic block."""

    program: Program
    function: P.Function
    kinds: Mapping[str, str]  # NumPy types of registers
    numbers: Mapping[str, int]  # of registers that other blocks use, too
    local_at: Mapping[str, int]  # bytes of variables in local memory
    locals_size: int
    waiting: frozenset[int]  # positions of reads that decide over a wait
    lines: list[str] = field(default_factory=list)
    where: dict[str, str] = field(default_factory=dict)  # register -> Python variable
    dirty: set[str] = field(default_factory=set)
    free: list[str] = field(default_factory=list)
    slots: int = 0
    ending: list[list[str]] = field(default_factory=list)
    position: int = 0
    ins: P.Instruction | None = None
    temporaries: int = 0
    unreported: list[tuple[str, str]] = field(default_factory=list)  # writes to sums of wgmma
    unreported_line: int = 0
    _guard: str | None = None
    _active: str = ""

    # -- structure -------------------------------------------------------------------------------

    def plan(self, code: Sequence[P.Instruction]) -> None:
        """Find the last use of every block-local register, so that its variable can be reused."""
        last: dict[str, int] = {}
        for i, ins in enumerate(code):
            for name in (*ins.reads, *ins.writes):
                if name not in self.numbers:
                    last[name] = i
        self.ending = [[] for _ in code]
        for name, i in last.items():
            self.ending[i].append(name)

    def begin(self, ins: P.Instruction, position: int) -> None:
        """Start an instruction."""
        if position:
            # Free variables as early as possible: big arrays are then reused while in cache.
            for name in self.ending[position - 1]:
                if variable := self.where.pop(name, ""):
                    self.free.append(variable)
        self.ins = ins
        self.position = position
        self._guard = None
        self._active = "active"
        if ins.guard is not None and ins.op.ends not in ("jump", "table", "exit", "barrier"):
            self._narrow()

    def _narrow(self) -> None:
        """Let the instruction's guard stand over what it writes, and over the mask."""
        self._guard = self.temporary(self.guard() or "")

    def instruction(self, ins: P.Instruction) -> None:
        """Emit an instruction that ends no block.

        Raises EmulationError for one that is not emulated, or not with a word.
        """
        refuse(self, ins)
        op = ins.op
        try:
            if op.whole_warp or op.warpgroup:
                check, what = "whole_warps" if op.whole_warp else "whole_warpgroups", ins.parts[:2]
                self.emit(f"{check}(S, {'.'.join(what)!r}, {ins.line!r}, {self.active()})")
            if op.emit is None:
                LOWER[opcodes.key_of(ins.parts)](self, ins)
            elif op.writes:
                fields = Fields(self, ins, op)
                self.write(ins.operands[0], op.emit.format_map(fields), fields.kind_of("d"))
            elif op.emit:
                self.emit(op.emit.format_map(Fields(self, ins, op)))
        except (IndexError, KeyError, ValueError, AttributeError, TypeError, AssertionError) as e:
            check_words(ins)
            raise EmulationError(
                f"line {ins.line}: cannot translate the PTX instruction {ins.text!r} "
                f"({type(e).__name__}: {e}). Rewrite that line with plainer operations"
            ) from e
        check_words(ins)  # after the lowering, which says of some words what to use instead

    def guard(self) -> str | None:
        """Expression of the instruction's guard, or None."""
        assert self.ins is not None
        if self.ins.guard is None:
            return None
        value = self.variable(self.ins.guard)
        return f"~{value}" if self.ins.guard_negated else value

    def active(self) -> str:
        """Expression of the mask under which this instruction accesses memory."""
        if self._guard is None:
            return "active"
        if self._active == "active":
            self._active = self.temporary(f"S.narrowed(active, {self._guard})")
        return self._active

    def emit(self, line: str) -> None:
        """Append a line of Python."""
        self.lines.append(line)

    def temporary(self, expression: str) -> str:
        """Keep an expression in a new variable."""
        self.temporaries += 1
        name = f"x{self.temporaries % 64}"
        self.emit(f"{name} = {expression}")
        return name

    def finish(self, result: str) -> None:
        """Store the registers that other blocks use, and return."""
        if self.dirty:
            stored = [(self.numbers[name], self.where[name]) for name in sorted(self.dirty)]
            self.emit(f"result = {result}")
            self.emit("if m is None:")
            self.lines += [f"    R[{n}] = {value}" for n, value in stored]
            self.emit("else:")
            self.emit("    a = m.arr")
            self.lines += [f"    R[{n}] = np.where(a, {value}, R[{n}])" for n, value in stored]
            result = "result"
        self.emit(f"return {result}")

    def source(self, name: str) -> str:
        """The block as a Python function."""
        body = "\n".join("    " + line for line in self.lines) or "    pass"
        return f"def {name}(S, R, F, m, active):\n{body}\n"

    # -- values ----------------------------------------------------------------------------------

    def variable(self, register: str) -> str:
        """The Python variable that holds a register, loaded if need be."""
        local = self.where.get(register)
        if local is None:
            number = self.numbers.get(register)
            if number is None:
                # Written under a guard before it is read: starts as zero.
                local = self._slot()
                self.emit(f"{local} = {self.zero(self.kinds[register])}")
            else:
                local = f"r{number}"
                self.emit(f"{local} = R[{number}]")
            self.where[register] = local
        return local

    def zero(self, kind: str) -> str:
        """What a register holds before it is written."""
        return self.constant(0, kind)

    def _slot(self) -> str:
        if self.free:
            return self.free.pop()
        self.slots += 1
        return f"t{self.slots}"

    @staticmethod
    def constant(value: int | float, kind: str) -> str:
        """The name of a one-element array of a NumPy type: it holds the element's bits."""
        if kind == "b1":
            array = np.array(bool(value))
        elif kind[0] == "f":
            array = np.array(value, kind)
        else:
            bits = int(kind[1]) * 8
            array = np.array(int(value) & ((1 << bits) - 1), f"u{kind[1]}").view(kind)
        return f"c_{kind}_{array.tobytes().hex()}"

    def read(self, operand: P.Operand | None, kind: str) -> str:
        """Expression of an operand as a NumPy type."""
        if isinstance(operand, P.Register):
            return self._convert(self.variable(operand.name), self.kinds[operand.name], kind)
        if isinstance(operand, P.Immediate):
            return self.constant_of(operand, kind)
        if isinstance(operand, P.Negated):
            return f"~{self.read(operand.operand, kind)}"
        if isinstance(operand, P.Symbol):
            return self._symbol(operand, kind)
        raise self.fail(f"cannot use {operand!r} as a value")

    def constant_of(self, operand: P.Immediate, kind: str) -> str:
        """A literal as a NumPy type: integers by value, floats by bits."""
        size = int(kind[1])
        if operand.kind == "int":
            if kind[0] == "f":
                # An integer literal for a floating-point register gives its bits.
                bits = operand.value & ((1 << 8 * size) - 1)
                return self.constant(np.frombuffer(bits.to_bytes(size, "little"), kind)[0], kind)
            return self.constant(operand.value, kind)
        raw = operand.value.to_bytes(8 if operand.kind == "f64" else 4, "little")
        if len(raw) == 8 and size == 4 and kind[0] == "f":
            raw = struct.pack("<f", struct.unpack("<d", raw)[0])
        if kind == "f2":
            value = np.frombuffer(raw, "f4" if len(raw) == 4 else "f8")[0]
            return self.constant(float(value), kind)
        if kind[0] == "f":
            return self.constant(np.frombuffer(raw[:size], kind)[0], kind)
        return self.constant(int.from_bytes(raw[:size], "little"), kind)

    def _symbol(self, symbol: P.Symbol, kind: str) -> str:
        name = symbol.name
        if name.startswith("%"):
            special = name[1:]
            if special.startswith("envreg"):
                self.program.cooperative = True
            if (address := self.address_of(name)) is not None:
                return self.constant(address, kind)
            if special.startswith(("pm", "reserved")):
                raise self.fail(f"{name} is not emulated; remove it")
            own = "i8" if special in ("clock64", "globaltimer", "gridid") else "i4"
            own = "b1" if special == "is_explicit_cluster" else own
            return self._convert(f"S.special({special!r})", own, kind)
        if name == "WARP_SZ":
            return self.constant(32, kind)
        address = self.address_of(name)
        if address is None:
            raise self.fail(f"unknown symbol {name!r}")
        constant = self.constant(address + symbol.offset, kind)
        if name in self.local_at and not self.function.is_entry:
            return f"({constant} + {kind}.type(S.local_base))"  # the caller's locals lie below
        return constant

    def address_of(self, name: str) -> int | None:
        """Address of a variable in its own space."""
        program = self.program
        if name in program.shared_offsets:
            return program.shared_base + program.shared_offsets[name]
        if name in self.local_at:
            return self.local_at[name]
        if name in program.global_symbols:
            return symbol_address(program.global_symbols[name][0])
        if name in program.param_offsets:
            return PARAM_BASE + program.param_offsets[name]
        if name in program.pointed:
            return program.function_address(name)
        return None

    def _convert(self, expression: str, have: str, want: str) -> str:
        if have == want:
            return expression
        if have == "b1" or want == "b1":
            raise self.fail("a predicate is mixed with a number")
        if have[1] == want[1]:
            return f"{expression}.view({want})"
        # Other widths: the bits are cut or zero-extended (ld, st and cvt take wider registers).
        if have[0] == "f" or (have[0] == "i" and int(want[1]) > int(have[1]) and want[0] != "i"):
            expression = f"{expression}.view(u{have[1]})"
        if want[0] == "f":
            return f"{expression}.astype(u{want[1]}).view({want})"
        return f"{expression}.astype({want})"

    def write(self, operand: P.Operand | None, expression: str, kind: str) -> None:
        """Put a value of a NumPy type into a register (None: the sink)."""
        if operand is None:
            self.emit(expression)
            return
        if not isinstance(operand, P.Register):
            raise self.fail(f"cannot write to {operand!r}")
        own = self.kinds[operand.name]
        if own != kind:
            expression = self._convert(f"({expression})", kind, own)
        self.keep(operand.name, expression)

    def write_each(self, targets: Sequence[P.Operand | None], values: str, kind: str) -> None:
        """Put the elements of a tuple, all of one NumPy type, into registers."""
        values = self.temporary(values)
        for i, target in enumerate(targets):
            if target is not None:
                self.write(target, f"{values}[{i}]", kind)

    def keep(self, name: str, expression: str) -> None:
        """Put an array of a register's own type into it."""
        if self._guard is not None:
            expression = f"select({self._guard}, {expression}, {self.variable(name)})"
        self.emit(f"{self.target(name)} = {expression}")

    def target(self, name: str) -> str:
        """The Python variable of a register that is about to be written."""
        variable = self.where.get(name)
        if variable is None:
            number = self.numbers.get(name)
            variable = f"r{number}" if number is not None else self._slot()
            self.where[name] = variable
        if name in self.numbers:
            self.dirty.add(name)
        return variable

    def load(
        self, targets: Sequence[P.Operand | None], address: P.Operand | None, space: str, kind: str
    ) -> None:
        """Load elements of a NumPy type, one for each target."""
        number, base = self.access(address, space, "load", kind, len(targets))
        call = f"load(S, {number}, {base}, {self.active()})"
        if len(targets) == 1:
            self.write(targets[0], call, kind)
            return
        self.write_each(targets, call, kind)

    def store(
        self, address: P.Operand | None, sources: Sequence[P.Operand | None], space: str, kind: str
    ) -> None:
        """Store operands side by side as elements of a NumPy type."""
        values = [self.read(o, kind) for o in sources]
        number, base = self.access(address, space, "store", kind, len(sources))
        self.emit(f"store(S, {number}, {base}, ({', '.join(values)},), {self.active()})")

    def access(
        self, address: P.Operand | None, space: str, op: str, kind: str, count: int = 1
    ) -> tuple[int, str]:
        """Register an access to an address: (its number, expression of the int64 base)."""
        base, offset = self.address(address)
        return self.site(space, op, kind, count, offset), base

    def site(self, space: str, op: str, kind: str, count: int, offset: int) -> int:
        """Register a memory instruction; returns its number."""
        assert self.ins is not None
        number, ins = len(self.program.sites), self.ins
        parts = set(ins.parts)
        scope = 0 if "cta" in parts else 1
        self.program.sites.append(
            Site(
                number, ins.line, ins.text, space, op, np.dtype(kind), count, offset,
                bool(STRONG & parts) or op == "atomic",
                scope if {"acquire", "acq_rel"} & parts else None,
                scope if {"release", "acq_rel"} & parts else None,
                self.position in self.waiting,
                "volatile" in parts,
                "relaxed" in parts,
                "nc" in parts,
            )
        )  # fmt: skip
        return number

    def address(self, operand: P.Operand | None) -> tuple[str, int]:
        """(expression of the int64 base, constant offset) of an address operand."""
        if not isinstance(operand, P.Address):
            raise self.fail("an address in brackets is expected")
        base = operand.base
        if isinstance(base, P.Register):
            if self.kinds[base.name] == "i8":
                return self.variable(base.name), operand.offset
            return self.read(base, "u8") + ".view(i8)", operand.offset
        if isinstance(base, P.Symbol):
            return self._symbol(base, "i8"), operand.offset
        return self.constant(base.value, "i8"), operand.offset

    def fail(self, what: str) -> EmulationError:
        """An error about the current instruction."""
        assert self.ins is not None
        return EmulationError(f"line {self.ins.line}: PTX instruction {self.ins.text!r}: {what}")


# -- from an instruction to its lines ------------------------------------------------------------

Lower = Callable[[Emitter, P.Instruction], None]
LOWER: dict[str, Lower] = {}


def registering(functions: dict[str, F]) -> Callable[..., Callable[[F], F]]:
    """What registers a function for some rows of the table of opcodes, by their keys."""

    def of(*keys: str) -> Callable[[F], F]:
        def keep(function: F) -> F:
            functions.update(dict.fromkeys(keys, function))
            return function

        return keep

    return of


lowers = registering(LOWER)
"""Register the function that emits the opcodes of these rows."""


def refuse(e: Emitter, ins: P.Instruction) -> None:
    """Raise EmulationError for an opcode, or a word of it, that the table refuses."""
    if ins.op.refused:
        check_words(ins)
    for word in ins.parts[1:]:
        if word in ins.op.instead:
            raise e.fail(ins.op.instead[word])


def check_words(ins: P.Instruction) -> None:
    """Raise EmulationError if the instruction has a word that its lowering would ignore."""
    if reason := opcodes.unknown(ins.parts):
        raise EmulationError(
            f"line {ins.line}: the PTX instruction {ins.opcode!r} is not emulated: {reason}"
        )


class Fields:
    """What a row's `emit` may name in braces.

    Operands; kind: NumPy's name of the instruction's type; word, mode: its second and third word;
    operation: its first word that is one of an atomic or a reduction; space; scope: 0 for .cta,
    else 1; line; active: the mask; has[w]: whether it has a word; signed[i]: whether its type i is;
    i4[n] (or another NumPy type): a constant, n 0, 1 or -1.
    """

    def __init__(self, e: Emitter, ins: P.Instruction, op: opcodes.Op) -> None:
        self.e, self.ins = e, ins
        named = [name.partition(":") for name in op.args.split()]
        self.place = {name: i for i, (name, _, _) in enumerate(named)}
        self.kinds = {name: kind for name, _, kind in named if kind}

    def kind_of(self, name: str) -> str:
        """NumPy's name of the type of an operand."""
        return self.kinds.get(name) or NUMPY[self.ins.types[-1]]

    def __getitem__(self, name: str) -> Any:
        if name in self.place:
            return self.e.read(self.ins.operands[self.place[name]], self.kind_of(name))
        if name in NUMPY.values():
            return {value: self.e.constant(int(value), name) for value in (0, 1, "-1")}
        return self._facts[name](self.e, self.ins)

    _facts: Mapping[str, Callable[[Emitter, P.Instruction], Any]] = {
        "kind": lambda e, ins: NUMPY[ins.types[-1]],
        "word": lambda e, ins: ins.parts[1],
        "mode": lambda e, ins: ins.parts[2] if len(ins.parts) > 2 else "",
        "operation": lambda e, ins: next(p for p in ins.parts if p in OPERATIONS),
        "space": lambda e, ins: space_of(ins),
        "scope": lambda e, ins: 0 if "cta" in ins.parts else 1,
        "line": lambda e, ins: repr(ins.line),
        "active": lambda e, ins: e.active(),
        "has": lambda e, ins: defaultdict(bool, dict.fromkeys(ins.parts, True)),
        "signed": lambda e, ins: [kind.startswith("s") for kind in ins.types],
    }


# -- what several subjects do --------------------------------------------------------------------


def limited(ins: P.Instruction, expression: str) -> str:
    """Apply .sat and .ftz to a float result."""
    if "ftz" in ins.parts:
        expression = f"flush({expression})"
    if "sat" in ins.parts:
        expression = f"saturate({expression})"
    return expression


def flushed(e: Emitter, ins: P.Instruction, operand: P.Operand | None, kind: str) -> str:
    """A source; .ftz flushes it, float16 too, but for cvt, which looks at float32 alone."""
    value = e.read(operand, kind)
    if "ftz" in ins.parts and kind in ("f4", "f2", "f8") and (kind == "f4" or ins.root != "cvt"):
        return f"flush({value})"
    return value


def own_kind(e: Emitter, d: P.Operand | None, numpy: str) -> str:
    """For bit copies: the destination's own type, if as wide, saves a reinterpretation."""
    if isinstance(d, P.Register) and e.kinds[d.name][1] == numpy[1] and numpy != "b1":
        return e.kinds[d.name]
    return numpy
