"""PTX instructions to lines of Python: one small function per opcode.

`LOWER` maps an opcode's first word to the function that emits its code; `REFUSED` names what is
deliberately left out, and what to use instead.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.machine import (
    access,
    arena,
    arith,
    asynchronous,
    atomics,
    calls,
    mbarrier,
    sync,
    tensor,
    warp,
)
from helpers.emulator.machine.memory import LOCAL_WINDOW, SHARED_WINDOW
from helpers.emulator.ptx import parse as P
from helpers.emulator.ptx.sites import Site
from helpers.emulator.ptx.waits import STRONG
from helpers.errors import EmulationError

if TYPE_CHECKING:
    from helpers.emulator.ptx.program import Program

Array = np.ndarray[Any, np.dtype[Any]]

NUMPY = {
    "pred": "b1", "b8": "i1", "s8": "i1", "u8": "u1", "b16": "i2", "s16": "i2", "u16": "u2",
    "b32": "i4", "s32": "i4", "u32": "u4", "b64": "i8", "s64": "i8", "u64": "u8",
    "f16": "f2", "f32": "f4", "f64": "f8", "bf16": "i2", "f16x2": "i4", "bf16x2": "i4",
    "tf32": "i4",
}  # fmt: skip
"""NumPy type of the values of a PTX type; packed and bfloat16 values are kept as their bits."""

_SIGNLESS = {"u1": "i1", "u2": "i2", "u4": "i4", "u8": "i8"}
_HOPPER = (
    "it belongs to Hopper's wgmma, TMA and clusters, which the emulator does not run. Use mma.sync "
    "with cp.async, or run the kernel on such a GPU"
)
_TEXTURE = "textures and surfaces are not emulated. Read from a pointer instead"
REFUSED = {
    **dict.fromkeys(
        (
            "wgmma", "mapa", "getctarank", "clusterlaunchcontrol", "setmaxnreg",
            "multimem", "tcgen05", "tensormap", "red@async",
            "st@async", "cp@bulk", "createpolicy",
        ),
        _HOPPER,
    ),
    **dict.fromkeys(
        ("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"), _TEXTURE
    ),
    "alloca": "stack memory of run-time size is not emulated. Use an array of fixed size",
    "stacksave": "stack memory of run-time size is not emulated. Use an array of fixed size",
    "stackrestore": "stack memory of run-time size is not emulated. Use an array of fixed size",
    "brkpt": "there is no debugger to stop in. Remove the breakpoint",
}  # fmt: skip


def uniform_int(x: Array) -> int:
    """The value of an operand that all threads share."""
    first = int(x.reshape(-1)[0])
    if x.size > 1 and (x != x.reshape(-1)[0]).any():
        raise EmulationError(
            "a barrier number that differs between threads is not emulated. Use one number for "
            "all threads that reach the barrier"
        )
    return first


def select(p: Array, a: Array, b: Array) -> Array:
    """a where p, else b; keeps a uniform choice uniform."""
    if p.size == 1:
        return a if p.item() else b
    return np.where(p, a, b)


def namespace() -> dict[str, Any]:
    """Names that generated code uses."""
    names: dict[str, Any] = {"np": np, "select": select, "uniform_int": uniform_int}
    for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"):
        names[kind] = np.dtype(kind)
    names["b1"] = np.dtype(bool)
    names |= {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "fmin": np.fmin, "fmax": np.fmax,
        "minimum": np.minimum, "maximum": np.maximum, "isnan": np.isnan, "absolute": np.abs,
        "copysign": np.copysign, "sqrt": np.sqrt, "contiguous": np.ascontiguousarray,
    }  # fmt: skip
    for module in (
        access,
        arena,
        arith,
        asynchronous,
        atomics,
        calls,
        mbarrier,
        sync,
        tensor,
        warp,
    ):
        for name in dir(module):
            value = getattr(module, name)
            if callable(value) and getattr(value, "__module__", "") == module.__name__:
                names.setdefault(name, value)
    return names


class Emitter:
    """Writes the Python of one basic block."""

    def __init__(
        self,
        program: Program,
        function: P.Function,
        kinds: dict[str, str],
        numbers: dict[str, int],
        names: dict[str, Any],
        local_at: dict[str, int],
        locals_size: int,
    ) -> None:
        self.program = program
        self.function = function
        self.kinds = kinds
        self.numbers = numbers
        self.names = names
        self.local_at = local_at
        self.locals_size = locals_size
        self.lines: list[str] = []
        self.where: dict[str, str] = {}  # register -> Python variable
        self.dirty: set[str] = set()
        self.free: list[str] = []
        self.slots = 0
        self.last: dict[str, int] = {}
        self.ending: list[list[str]] = []
        self.position = 0
        self.waiting: frozenset[int] = frozenset()  # positions of reads that decide over a wait
        self.ins: P.Instruction | None = None
        self.temporaries = 0
        self._guard: str | None = None
        self._active = ""

    # -- structure -------------------------------------------------------------------------------

    def plan(
        self, code: Sequence[P.Instruction], touched: list[tuple[list[str], list[str]]]
    ) -> None:
        """Find the last use of every block-local register, so that its variable can be reused."""
        last: dict[str, int] = {}
        for i, (reads, writes) in enumerate(touched):
            for name in (*reads, *writes):
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
        if ins.guard is not None and ins.root not in (
            "bra", "brx", "ret", "exit", "bar", "barrier",
        ):  # fmt: skip
            predicate = self.guard()
            self._guard = self.temporary(predicate or "")

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
        name = f"x{self.temporaries % 64}" if self.temporaries > 64 else f"x{self.temporaries}"
        self.emit(f"{name} = {expression}")
        return name

    def finish(self, result: str) -> None:
        """Store the registers that other blocks use, and return."""
        stored = sorted(self.dirty)
        if stored:
            result_line = f"result = {result}"
            self.emit(result_line)
            self.emit("if m is None:")
            for name in stored:
                self.emit(f"    R[{self.numbers[name]}] = {self.where[name]}")
            self.emit("else:")
            self.emit("    a = m.arr")
            for name in stored:
                n = self.numbers[name]
                self.emit(f"    R[{n}] = np.where(a, {self.where[name]}, R[{n}])")
            self.emit("return result")
        else:
            self.emit(f"return {result}")

    def source(self, name: str) -> str:
        """The block as a Python function."""
        body = "\n".join("    " + line for line in self.lines) or "    pass"
        return f"def {name}(S, R, F, m, active):\n{body}\n"

    # -- values ----------------------------------------------------------------------------------

    def variable(self, register: str) -> str:
        """The Python variable that holds a register, loaded if need be."""
        found = self.where.get(register)
        if found is None:
            number = self.numbers.get(register)
            if number is None:
                # Written under a guard before it is read: starts as zero.
                found = self._slot()
                self.emit(f"{found} = {self.constant(0, self.kinds[register])}")
            else:
                found = f"r{number}"
                self.emit(f"{found} = R[{number}]")
            self.where[register] = found
        return found

    def _slot(self) -> str:
        if self.free:
            return self.free.pop()
        self.slots += 1
        return f"t{self.slots}"

    def constant(self, value: int | float, kind: str) -> str:
        """Name of a one-element array."""
        if kind == "b1":
            array = np.array(bool(value))
        elif kind[0] == "f":
            array = np.array(value, kind)
        else:
            bits = int(kind[1]) * 8
            wrapped = int(value) & ((1 << bits) - 1)
            array = np.array([wrapped], f"u{kind[1]}").view(kind)
        array = array.reshape(1, 1, 1, 1)
        array.flags.writeable = False
        name = f"c_{kind}_{array.tobytes().hex()}"
        self.names.setdefault(name, array)
        return name

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
        raise EmulationError(self._complain(f"cannot use {operand!r} as a value"))

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
            if special.startswith(("cluster", "ncluster", "is_explicit")):
                raise EmulationError(self._complain(_HOPPER))
            if special.startswith("envreg"):
                self.program.cooperative = True
                return self.constant(0, kind)  # no cooperative grid
            if special.startswith("reserved"):
                raise EmulationError(
                    self._complain(
                        f"{name} is not emulated: cooperative groups need it for tiles of more than "
                        "32 threads. Use tiled_partition<32> and add up the warps in shared memory"
                    )
                )
            if special.startswith("pm"):
                raise EmulationError(self._complain(f"{name} is not emulated; remove it"))
            if special == "WARP_SZ":
                return self.constant(32, kind)
            own = "i8" if special in ("clock64", "globaltimer", "gridid") else "i4"
            return self._convert(f"S.special({special!r})", own, kind)
        if name == "WARP_SZ":
            return self.constant(32, kind)
        address = self.address_of(name)
        if address is None:
            raise EmulationError(self._complain(f"unknown symbol {name!r}"))
        constant = self.constant(address + symbol.offset, kind)
        if name in self.local_at and not self.function.is_entry:
            return f"({constant} + {kind}.type(S.local_base))"  # the caller's locals lie below
        return constant

    def address_of(self, name: str) -> int | None:
        """Address of a variable in its own space."""
        program = self.program
        if name in program.shared_offsets:
            return program.shared_offsets[name]
        if name in self.local_at:
            return self.local_at[name]
        if name in program.global_symbols:
            return access.symbol_address(program.global_symbols[name][0])
        if name in program.param_offsets:
            return access.PARAM_BASE + program.param_offsets[name]
        if name in program.pointed:
            return program.function_address(name)
        return None

    def _convert(self, expression: str, have: str, want: str) -> str:
        if have == want:
            return expression
        if have == "b1" or want == "b1":
            raise EmulationError(self._complain("a predicate is used as a number"))
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
            raise EmulationError(self._complain(f"cannot write to {operand!r}"))
        name = operand.name
        own = self.kinds[name]
        if own != kind:
            if own == "b1" or kind == "b1":
                raise EmulationError(self._complain("a predicate is mixed with a number"))
            if own[1] == kind[1]:
                expression = f"({expression}).view({own})"
            elif own[0] == "f":
                expression = f"({expression}).astype(u{own[1]}).view({own})"
            elif kind[0] == "f":
                expression = f"({expression}).view(u{kind[1]}).astype({own})"
            else:
                expression = f"({expression}).astype({own})"
        if self._guard is not None:
            expression = f"select({self._guard}, {expression}, {self.variable(name)})"
        variable = self.where.get(name)
        if variable is None:
            number = self.numbers.get(name)
            variable = f"r{number}" if number is not None else self._slot()
            self.where[name] = variable
        self.emit(f"{variable} = {expression}")
        if name in self.numbers:
            self.dirty.add(name)

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
            )
        )  # fmt: skip
        return number

    def address(self, operand: P.Operand | None) -> tuple[str, int]:
        """(expression of the int64 base, constant offset) of an address operand."""
        if not isinstance(operand, P.Address):
            raise EmulationError(self._complain("an address in brackets is expected"))
        base = operand.base
        if isinstance(base, P.Register):
            if self.kinds[base.name] == "i8":
                return self.variable(base.name), operand.offset
            return self.read(base, "u8") + ".view(i8)", operand.offset
        if isinstance(base, P.Symbol):
            return self._symbol(base, "i8"), operand.offset
        return self.constant(base.value, "i8"), operand.offset

    def _complain(self, what: str) -> str:
        assert self.ins is not None
        return f"line {self.ins.line}: PTX instruction {self.ins.text!r}: {what}"

    def fail(self, what: str) -> EmulationError:
        """An error about the current instruction."""
        return EmulationError(self._complain(what))


Lower = Callable[[Emitter, P.Instruction], None]
LOWER: dict[str, Lower] = {}


def lowers(*roots: str) -> Callable[[Lower], Lower]:
    """Register a function for opcodes."""

    def keep(function: Lower) -> Lower:
        for root in roots:
            LOWER[root] = function
        return function

    return keep


def _types(ins: P.Instruction) -> list[str]:
    return [p for p in ins.parts[1:] if p in P.BITS]


def _mode(ins: P.Instruction) -> str:
    return next((p for p in ins.parts if p in ("rn", "rz", "rm", "rp", "rna")), "rn")


def _float(e: Emitter, ins: P.Instruction, expression: str) -> str:
    """Apply .sat and .ftz to a float result."""
    if "ftz" in ins.parts:
        expression = f"flush({expression})"
    if "sat" in ins.parts:
        expression = f"saturate({expression})"
    return expression


def _fread(e: Emitter, ins: P.Instruction, operand: P.Operand | None, kind: str) -> str:
    """A source; .ftz flushes it, float16 too, but for cvt, which looks at float32 alone."""
    value = e.read(operand, kind)
    if "ftz" in ins.parts and kind in ("f4", "f2", "f8") and (kind == "f4" or ins.root != "cvt"):
        return f"flush({value})"
    return value


_PACKED_OPS = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}"}


@lowers("add", "sub", "mul")
def _arithmetic(e: Emitter, ins: P.Instruction) -> None:
    kind = _types(ins)[-1]
    d, a, b = ins.operands
    symbol = {"add": "+", "sub": "-", "mul": "*"}[ins.root]
    if kind in ("f16x2", "bf16x2", "bf16"):
        _half_arithmetic(e, ins, kind)
        return
    numpy = NUMPY[kind]
    if "wide" in ins.parts:
        wide = ("i" if numpy[0] == "i" else "u") + str(2 * int(numpy[1]))
        e.write(d, f"mul({e.read(a, numpy)}, {e.read(b, numpy)}, dtype={wide})", wide)
        return
    if "hi" in ins.parts:
        e.write(d, f"mulhi({e.read(a, numpy)}, {e.read(b, numpy)})", numpy)
        return
    if "cc" in ins.parts:
        _carry(e, ins, numpy)
        return
    if numpy[0] != "f":
        if "sat" in ins.parts:
            wide = f"({e.read(a, 'i4')}.astype(i8) {symbol} {e.read(b, 'i4')})"
            e.write(d, f"saturate_int({wide}, i4)", "i4")
            return
        numpy = _SIGNLESS.get(numpy, numpy)
        e.write(d, f"{e.read(a, numpy)} {symbol} {e.read(b, numpy)}", numpy)
        return
    x, y = _fread(e, ins, a, numpy), _fread(e, ins, b, numpy)
    mode = _mode(ins)
    if mode == "rn" or numpy == "f2":
        expression = f"{x} {symbol} {y}"
    elif ins.root == "mul":
        name = "mul32_mode" if numpy == "f4" else "mul64_mode"
        expression = f"{name}({x}, {y}, {mode!r})"
    else:
        name = "add32" if numpy == "f4" else "add64_mode"
        y = f"-{y}" if ins.root == "sub" else y
        expression = f"{name}({x}, {y}, {mode!r})"
    e.write(d, _float(e, ins, f"({expression})"), numpy)


def _half_arithmetic(e: Emitter, ins: P.Instruction, kind: str) -> None:
    d, *sources = ins.operands
    if kind == "bf16x2":
        values = [f"bf16_value(unpack16({e.read(o, 'i4')}))" for o in sources]
    elif kind == "f16x2":
        values = [f"half2({e.read(o, 'i4')})" for o in sources]
    else:
        values = [f"bf16_value({e.read(o, 'i2')})" for o in sources]
    if "ftz" in ins.parts:
        values = [f"flush({v})" for v in values]
    if ins.root == "fma":
        if kind == "f16x2":
            result = f"fma16({', '.join(values)})"
        else:
            result = f"fma32_exact({', '.join(values)})"
    elif ins.root in ("min", "max"):
        result = _least_or_most(ins, values)
    elif ins.root in ("neg", "abs"):
        result = f"-{values[0]}" if ins.root == "neg" else f"absolute({values[0]})"
    else:
        result = "(" + _PACKED_OPS[ins.root].format(*values) + ")"
    if "sat" in ins.parts:
        result = f"saturate({result})"
    if "relu" in ins.parts:
        result = f"maximum({result}, ({result}).dtype.type(0))"
    if "ftz" in ins.parts:
        result = f"flush({result})"
    if kind == "f16x2":
        e.write(d, f"pack16({result})", "i4")
    elif kind == "bf16x2":
        e.write(d, f"pack16(bf16_bits({result}))", "i4")
    else:
        e.write(d, f"bf16_bits({result})", "i2")


def _carry(e: Emitter, ins: P.Instruction, numpy: str) -> None:
    """add.cc, sub.cc: the carry is kept for addc, subc of the same block, which keep it with .cc only."""
    unsigned = "u" + numpy[1]
    a, b = (e.read(o, unsigned) for o in ins.operands[1:3])
    extra = "F['carry']" if ins.root in ("addc", "subc") else "None"
    name = "add_carry" if ins.root.startswith("add") else "sub_borrow"
    if "cc" not in ins.parts:
        name += "_in"
    value = e.temporary(f"{name}(F, {a}, {b}, {extra})")
    e.write(ins.operands[0], value, unsigned)


@lowers("addc", "subc")
def _with_carry(e: Emitter, ins: P.Instruction) -> None:
    _carry(e, ins, NUMPY[_types(ins)[-1]])


def _multiply_carry(e: Emitter, ins: P.Instruction, numpy: str) -> None:
    """mad.cc, madc: half a product is added with carry."""
    a, b = (e.read(o, numpy) for o in ins.operands[1:3])
    half = f"mulhi({a}, {b})" if "hi" in ins.parts else f"({a} * {b})"
    unsigned = "u" + numpy[1]
    extra = "F['carry']" if ins.root == "madc" else "None"
    added = f"{half}.view({unsigned}), {e.read(ins.operands[3], unsigned)}, {extra}"
    name = "add_carry" if "cc" in ins.parts else "add_carry_in"
    e.write(ins.operands[0], e.temporary(f"{name}(F, {added})"), unsigned)


@lowers("fma", "mad", "madc")
def _multiply_add(e: Emitter, ins: P.Instruction) -> None:
    kind = _types(ins)[-1]
    d, a, b, c = ins.operands
    if kind in ("f16x2", "bf16x2", "bf16"):
        _half_arithmetic(e, ins, kind)
        return
    numpy = NUMPY[kind]
    if numpy[0] == "f":
        mode = _mode(ins)
        x, y, z = (_fread(e, ins, o, numpy) for o in (a, b, c))
        if numpy == "f4":
            call = (
                f"fma32({x}, {y}, {z})" if mode == "rn" else f"fma32_mode({x}, {y}, {z}, {mode!r})"
            )
        elif numpy == "f8":
            call = (
                f"fma64({x}, {y}, {z})" if mode == "rn" else f"fma64_mode({x}, {y}, {z}, {mode!r})"
            )
        else:
            call = f"fma16({x}, {y}, {z})"
        result = _float(e, ins, call)
        if "relu" in ins.parts:
            result = f"maximum({result}, {e.constant(0, numpy)})"
        e.write(d, result, numpy)
        return
    if "cc" in ins.parts or ins.root == "madc":
        _multiply_carry(e, ins, numpy)
        return
    if "wide" in ins.parts:
        wide = ("i" if numpy[0] == "i" else "u") + str(2 * int(numpy[1]))
        product = f"mul({e.read(a, numpy)}, {e.read(b, numpy)}, dtype={wide})"
        e.write(d, f"{product} + {e.read(c, wide)}", wide)
        return
    if "hi" in ins.parts:
        product = f"mulhi({e.read(a, numpy)}, {e.read(b, numpy)})"
        e.write(d, _sum_int(e, ins, product, c, numpy), numpy)
        return
    numpy = _SIGNLESS.get(numpy, numpy)
    e.write(d, f"{e.read(a, numpy)} * {e.read(b, numpy)} + {e.read(c, numpy)}", numpy)


def _sum_int(e: Emitter, ins: P.Instruction, product: str, c: P.Operand | None, kind: str) -> str:
    """product + c; with .sat no more than the type holds."""
    if "sat" in ins.parts:
        return f"saturate_int({product}.astype(i8) + {e.read(c, kind)}, {kind})"
    return f"{product} + {e.read(c, kind)}"


@lowers("mul24", "mad24")
def _mul24(e: Emitter, ins: P.Instruction) -> None:
    kind = NUMPY[_types(ins)[-1]]
    eight = f"{kind}.type(8)"
    x, y = (f"(({e.read(o, kind)} << {eight}) >> {eight})" for o in ins.operands[1:3])
    wide = kind[0] + "8"
    product = f"mul({x}, {y}, dtype={wide})"
    if "hi" in ins.parts:
        product = f"({product} >> {wide}.type(16))"
    result = f"{product}.astype({kind})"
    if ins.root == "mad24":
        result = _sum_int(e, ins, result, ins.operands[3], kind)
    e.write(ins.operands[0], result, kind)


@lowers("div")
def _divide(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    d, a, b = ins.operands
    if numpy[0] != "f":
        e.write(d, f"div_int({e.read(a, numpy)}, {e.read(b, numpy)})", numpy)
        return
    x, y = _fread(e, ins, a, numpy), _fread(e, ins, b, numpy)
    mode = _mode(ins)
    if numpy == "f8":
        e.write(d, f"{x} / {y}" if mode == "rn" else f"div64_mode({x}, {y}, {mode!r})", "f8")
    elif mode == "rn":
        e.write(d, _float(e, ins, f"div32({x}, {y})"), "f4")
    else:
        e.write(d, _float(e, ins, f"div32_mode({x}, {y}, {mode!r})"), "f4")


@lowers("rem")
def _remainder(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    d, a, b = ins.operands
    e.write(d, f"rem_int({e.read(a, numpy)}, {e.read(b, numpy)})", numpy)


@lowers("abs", "neg")
def _unary(e: Emitter, ins: P.Instruction) -> None:
    kind = _types(ins)[-1]
    if kind in ("f16x2", "bf16x2", "bf16"):
        _half_arithmetic(e, ins, kind)
        return
    numpy = NUMPY[kind]
    d, a = ins.operands
    value = _fread(e, ins, a, numpy)
    e.write(d, f"absolute({value})" if ins.root == "abs" else f"-{value}", numpy)


@lowers("min", "max")
def _extreme(e: Emitter, ins: P.Instruction) -> None:
    kind = _types(ins)[-1]
    if kind in ("f16x2", "bf16x2", "bf16"):
        _half_arithmetic(e, ins, kind)
        return
    if kind in ("s16x2", "u16x2"):
        raise e.fail("packed 16-bit minimum is not emulated; use the scalar one")
    numpy = NUMPY[kind]
    d, *sources = ins.operands
    if len(sources) != 2:
        raise e.fail("the minimum of three values is not emulated; take two after each other")
    result = _least_or_most(ins, [_fread(e, ins, o, numpy) for o in sources])
    if "relu" in ins.parts:
        result = f"maximum({result}, {e.constant(0, numpy)})"
    e.write(d, _float(e, ins, result), numpy)


def _least_or_most(ins: P.Instruction, values: Sequence[str]) -> str:
    """Expression of min or max of two values, integers or floats."""
    whole = _types(ins)[-1][0] in "su"
    if whole or "NaN" in ins.parts:
        name = "minimum" if ins.root == "min" else "maximum"
    else:
        name = f"f{ins.root}"
    if ("xorsign" in ins.parts) != ("abs" in ins.parts):
        raise EmulationError(
            f"line {ins.line}: PTX instruction {ins.text!r}: .xorsign and .abs are emulated together "
            "only, as two values have them"
        )
    call = f"xor_signed({name}, " if "xorsign" in ins.parts else f"{name}("
    return f"{call}{values[0]}, {values[1]})"


@lowers("sad")
def _sad(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    d, *s = ins.operands
    e.write(d, f"sad({', '.join(e.read(o, numpy) for o in s)})", numpy)


@lowers("and", "or", "xor")
def _bitwise(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    symbol = _LOGIC[ins.root]
    d, a, b = ins.operands
    e.write(d, f"{e.read(a, numpy)} {symbol} {e.read(b, numpy)}", numpy)


@lowers("not")
def _not(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    e.write(ins.operands[0], f"~{e.read(ins.operands[1], numpy)}", numpy)


@lowers("cnot")
def _cnot(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    e.write(ins.operands[0], f"({e.read(ins.operands[1], numpy)} == 0).astype({numpy})", numpy)


@lowers("lop3")
def _lop3(e: Emitter, ins: P.Instruction) -> None:
    d, a, b, c, table = ins.operands[:5]
    if not isinstance(table, P.Immediate) or "BoolOp" in ins.parts or isinstance(d, P.Pair):
        raise e.fail("this form of lop3 is not emulated; use and, or, xor")
    args = ", ".join(e.read(o, "i4") for o in (a, b, c))
    e.write(d, f"logic3({args}, {table.value})", "i4")


@lowers("shl", "shr")
def _shift(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    if ins.root == "shl":
        numpy = _SIGNLESS.get(numpy, numpy)
    elif _types(ins)[-1].startswith("b"):
        numpy = "u" + numpy[1]
    d, a, n = ins.operands
    symbol = "<<" if ins.root == "shl" else ">>"
    bits = 8 * int(numpy[1])
    if isinstance(n, P.Immediate):
        amount = n.value & 0xFFFFFFFF
        if amount >= bits and not (ins.root == "shr" and numpy[0] == "i"):
            e.write(d, f"{e.read(a, numpy)} & {e.constant(0, numpy)}", numpy)
        else:
            shift = e.constant(min(amount, bits - 1), numpy)
            e.write(d, f"{e.read(a, numpy)} {symbol} {shift}", numpy)
        return
    name = "shift_left" if ins.root == "shl" else "shift_right"
    e.write(d, f"{name}({e.read(a, numpy)}, {e.read(n, 'i4')})", numpy)


@lowers("shf")
def _funnel(e: Emitter, ins: P.Instruction) -> None:
    d, a, b, c = ins.operands
    args = ", ".join(e.read(o, "i4") for o in (a, b, c))
    e.write(d, f"funnel({args}, {'l' in ins.parts}, {'clamp' in ins.parts})", "i4")


@lowers("bfe")
def _bfe(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    d, a, b, c = ins.operands
    e.write(d, f"extract({e.read(a, numpy)}, {e.read(b, 'i4')}, {e.read(c, 'i4')})", numpy)


@lowers("bfi")
def _bfi(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    f, a, b, c, d = ins.operands
    args = f"{e.read(a, numpy)}, {e.read(b, numpy)}, {e.read(c, 'i4')}, {e.read(d, 'i4')}"
    e.write(f, f"insert({args})", numpy)


@lowers("bfind")
def _bfind(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    d, a = ins.operands
    e.write(d, f"find_leading({e.read(a, numpy)}, {'shiftamt' in ins.parts})", "i4")


@lowers("popc", "clz", "brev")
def _bits(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    d, a = ins.operands
    name = {"popc": "popcount", "clz": "leading_zeros", "brev": "reverse_bits"}[ins.root]
    e.write(d, f"{name}({e.read(a, numpy)})", numpy if ins.root == "brev" else "i4")


@lowers("bmsk")
def _bmsk(e: Emitter, ins: P.Instruction) -> None:
    d, a, b = ins.operands
    one, zero = e.constant(-1, "i4"), e.constant(0, "i4")
    wrap = "wrap" in ins.parts
    start, length = (f"clamped({e.read(o, 'i4')}, {wrap})" for o in (a, b))
    e.write(d, f"insert({one}, {zero}, {start}, {length})", "i4")


@lowers("szext")
def _szext(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    d, a, b = ins.operands
    length = f"clamped({e.read(b, 'i4')}, {'wrap' in ins.parts})"
    e.write(d, f"extract({e.read(a, numpy)}, {e.constant(0, 'i4')}, {length})", numpy)


@lowers("prmt")
def _prmt(e: Emitter, ins: P.Instruction) -> None:
    d, a, b, c = ins.operands
    mode = ins.parts[2] if len(ins.parts) > 2 else ""
    args = ", ".join(e.read(o, "i4") for o in (a, b, c))
    e.write(d, f"permute({args}, {mode!r})", "i4")


@lowers("dp4a")
def _dp4a(e: Emitter, ins: P.Instruction) -> None:
    d, *s = ins.operands
    signs = [p.startswith("s") for p in _types(ins)]
    args = ", ".join(e.read(o, "i4") for o in s)
    e.write(d, f"dot_bytes({args}, {signs[0]}, {signs[1]})", "i4")


@lowers("dp2a")
def _dp2a(e: Emitter, ins: P.Instruction) -> None:
    d, *s = ins.operands
    signs = [p.startswith("s") for p in _types(ins)]
    args = ", ".join(e.read(o, "i4") for o in s)
    e.write(d, f"dot_halves({args}, {signs[0]}, {signs[1]}, {'hi' in ins.parts})", "i4")


# -- special functions ---------------------------------------------------------------------------

_SPECIAL32 = {
    "sin": "np.sin",
    "cos": "np.cos",
    "ex2": "np.exp2",
    "lg2": "np.log2",
    "tanh": "np.tanh",
    "sqrt": "np.sqrt",
    "rcp": "np.reciprocal",
    "rsqrt": "reciprocal_root",
}


@lowers(*_SPECIAL32)
def _special(e: Emitter, ins: P.Instruction) -> None:
    kind = _types(ins)[-1]
    d, a = ins.operands
    name = _SPECIAL32[ins.root]
    if kind == "f64":
        e.write(d, _special64(e, ins, name), "f8")
    elif kind == "f16":
        e.write(d, f"{name}({e.read(a, 'f2')}.astype(f8)).astype(f2)", "f2")
    elif kind == "f16x2":
        e.write(d, f"pack16({name}(half2({e.read(a, 'i4')}).astype(f8)).astype(f2))", "i4")
    elif kind in ("bf16", "bf16x2"):
        bits = e.read(a, "i2") if kind == "bf16" else f"unpack16({e.read(a, 'i4')})"
        value = f"bf16_value({bits}).astype(f8)"
        if "ftz" in ins.parts:
            result = f"bf16_bits(flush_bf16({name}(flush_bf16({value}))))"
        else:
            result = f"bf16_bits({name}({value}))"
        e.write(
            d, result if kind == "bf16" else f"pack16({result})", "i2" if kind == "bf16" else "i4"
        )
    else:
        value, mode = _fread(e, ins, a, "f4"), _mode(ins)
        if mode == "rn":
            result = f"in32({name}, {value})"
        else:
            result = f"directed({name}({value}.astype(f8)), {mode!r})"
        e.write(d, _float(e, ins, result), "f4")


def _special64(e: Emitter, ins: P.Instruction, name: str) -> str:
    """rcp, sqrt and rsqrt of float64."""
    value, mode = _fread(e, ins, ins.operands[1], "f8"), _mode(ins)
    if mode == "rn":
        return _float(e, ins, f"{name}({value})")
    if ins.root == "sqrt":
        return f"sqrt64_mode({value}, {mode!r})"
    return f"div64_mode({e.constant(1, 'f8')}, {value}, {mode!r})"


@lowers("testp")
def _testp(e: Emitter, ins: P.Instruction) -> None:
    d, a = ins.operands
    e.write(d, f"test_property({e.read(a, NUMPY[ins.parts[-1]])}, {ins.parts[1]!r})", "b1")


@lowers("copysign")
def _copysign(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[ins.parts[-1]]
    d, a, b = ins.operands
    e.write(d, f"copysign({e.read(b, numpy)}, {e.read(a, numpy)})", numpy)


# -- predicates and moves ------------------------------------------------------------------------

_COMPARE = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
    "equ": "==", "neu": "!=", "ltu": "<", "leu": "<=", "gtu": ">", "geu": ">=",
}  # fmt: skip


def _comparison(e: Emitter, ins: P.Instruction, op: str, kind: str, a: Any, b: Any) -> str:
    packed = kind in ("f16x2", "bf16x2")
    if kind == "bf16":
        x, y = (f"bf16_value({e.read(o, 'i2')})" for o in (a, b))
    elif packed:
        wrap = "half2({})" if kind == "f16x2" else "bf16_value(unpack16({}))"
        if "ftz" in ins.parts:
            wrap = f"flush({wrap})"
        x, y = (wrap.format(e.read(o, "i4")) for o in (a, b))
    else:
        numpy = NUMPY[kind]
        if op in ("lo", "ls", "hi", "hs"):
            numpy = "u" + numpy[1]
        if op in ("eq", "ne"):
            numpy = _SIGNLESS.get(numpy, numpy)
        x, y = _fread(e, ins, a, numpy), _fread(e, ins, b, numpy)
    if op == "num":
        return f"~(isnan({x}) | isnan({y}))"
    if op == "nan":
        return f"(isnan({x}) | isnan({y}))"
    is_float = kind in ("f16", "f32", "f64", "bf16") or packed
    if is_float and op == "ne":
        return f"(({x} < {y}) | ({x} > {y}))"
    if is_float and op.endswith("u") and op != "neu":
        # Unordered comparisons are true when either is NaN.
        negated = {"equ": "!=", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}[op]
        if op == "equ":
            return f"~(({x} < {y}) | ({x} > {y}))"
        return f"~({x} {negated} {y})"
    return f"({x} {_COMPARE[op]} {y})"


_LOGIC = {"and": "&", "or": "|", "xor": "^"}


@lowers("setp")
def _setp(e: Emitter, ins: P.Instruction) -> None:
    parts = [p for p in ins.parts[1:] if p != "ftz"]
    op, kind = parts[0], parts[-1]
    target = ins.operands[0]
    a, b = ins.operands[1:3]
    value = e.temporary(_comparison(e, ins, op, kind, a, b))
    if kind in ("f16x2", "bf16x2"):
        assert isinstance(target, P.Pair)
        with_third = ""
        if len(ins.operands) > 3:
            with_third = f" {_LOGIC[parts[1]]} {e.read(ins.operands[3], 'b1')}"
        e.write(target.first, f"{value}[..., 0]{with_third}", "b1")
        e.write(target.second, f"{value}[..., 1]{with_third}", "b1")
        return
    inverse = f"~{value}"
    if len(ins.operands) > 3:
        symbol = _LOGIC[parts[1]]
        third = e.read(ins.operands[3], "b1")
        inverse = f"~{value} {symbol} {third}"
        value = f"{value} {symbol} {third}"
    if isinstance(target, P.Pair):
        first = e.temporary(value)
        second = e.temporary(inverse)
        e.write(target.first, first, "b1")
        e.write(target.second, second, "b1")
    else:
        e.write(target, value, "b1")


@lowers("set")
def _set(e: Emitter, ins: P.Instruction) -> None:
    parts = [p for p in ins.parts[1:] if p != "ftz"]
    op = parts[0]
    to, kind = parts[-2], parts[-1]
    d, a, b = ins.operands[:3]
    value = _comparison(e, ins, op, kind, a, b)
    if len(ins.operands) > 3:
        third = e.read(ins.operands[3], "b1")
        third = f"{third}[..., None]" if kind in ("f16x2", "bf16x2") else third
        value = f"({value} {_LOGIC[parts[1]]} {third})"
    if kind == "f16x2" or kind == "bf16x2":
        if to in ("f16x2", "bf16x2"):
            one = 0x3C00 if to == "f16x2" else 0x3F80
            e.write(d, f"pack16(np.where({value}, i2.type({one}), i2.type(0)))", "i4")
        else:
            e.write(d, f"pack16(-{value}.astype(i2))", "i4")
    elif to in ("f32", "f16"):
        numpy = NUMPY[to]
        e.write(d, f"{value}.astype({numpy})", numpy)
    elif to == "bf16":
        e.write(d, f"bf16_bits({value}.astype(f4))", "i2")
    else:
        numpy = "i" + NUMPY[to][1]
        e.write(d, f"-{value}.astype({numpy})", numpy)


@lowers("selp")
def _selp(e: Emitter, ins: P.Instruction) -> None:
    d, a, b, p = ins.operands
    numpy = _own_kind(e, d, NUMPY[_types(ins)[-1]])
    e.write(d, f"select({e.read(p, 'b1')}, {e.read(a, numpy)}, {e.read(b, numpy)})", numpy)


@lowers("slct")
def _slct(e: Emitter, ins: P.Instruction) -> None:
    d, a, b, c = ins.operands
    value, kind = NUMPY[_types(ins)[0]], NUMPY[_types(ins)[-1]]
    e.write(
        d, f"select({_fread(e, ins, c, kind)} >= 0, {e.read(a, value)}, {e.read(b, value)})", value
    )


def _own_kind(e: Emitter, d: Any, numpy: str) -> str:
    """For bit copies: the destination's own type, if as wide, saves a reinterpretation."""
    if isinstance(d, P.Register) and e.kinds[d.name][1] == numpy[1] and numpy != "b1":
        return e.kinds[d.name]
    return numpy


@lowers("mov")
def _mov(e: Emitter, ins: P.Instruction) -> None:
    d, a = ins.operands
    kind = _types(ins)[-1]
    if isinstance(a, P.Vector):
        numpy = NUMPY[kind]
        part = f"i{int(numpy[1]) // len(a.items)}"
        values = [e.read(o, part) for o in a.items]
        if len(values) == 4:
            if part == "i2":
                low, high = f"join16({values[0]}, {values[1]})", f"join16({values[2]}, {values[3]})"
                e.write(d, f"join32({low}, {high})", "i8")
            else:
                e.write(d, f"join_bytes({', '.join(values)})", "i4")
        elif part == "i4":
            e.write(d, f"join32({values[0]}, {values[1]})", "i8")
        elif part == "i2":
            e.write(d, f"join16({values[0]}, {values[1]})", "i4")
        else:
            raise e.fail("this packing is not emulated; pack with shifts")
        return
    if isinstance(d, P.Vector):
        numpy = "i" + NUMPY[kind][1]
        part = f"i{int(numpy[1]) // len(d.items)}"
        whole = e.temporary(e.read(a, numpy))
        for i, item in enumerate(d.items):
            if item is not None:
                shift = 8 * int(part[1]) * i
                value = f"({whole} >> {numpy}.type({shift}))" if shift else whole
                e.write(item, f"{value}.astype({part})", part)
        return
    numpy = _own_kind(e, d, NUMPY[kind])
    e.write(d, e.read(a, numpy), numpy)


@lowers("cvta")
def _cvta(e: Emitter, ins: P.Instruction) -> None:
    d, a = ins.operands
    kind = NUMPY[_types(ins)[-1]]
    kind = _SIGNLESS.get(kind, kind)
    space = next(
        p for p in ins.parts if p.split("::")[0] in ("global", "shared", "local", "const", "param")
    ).split("::")[0]
    value = e.read(a, kind)
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)
    if not window or kind != "i8":
        e.write(d, value, kind)
    elif "to" in ins.parts:
        e.write(d, f"{value} - {e.constant(window, 'i8')}", kind)
    else:
        e.write(d, f"{value} + {e.constant(window, 'i8')}", kind)


@lowers("isspacep")
def _isspacep(e: Emitter, ins: P.Instruction) -> None:
    d, a = ins.operands
    space = ins.parts[1].split("::")[0]
    e.write(d, f"is_space({e.read(a, 'i8')}, {space!r})", "b1")


# -- conversions ---------------------------------------------------------------------------------


_BYTES = ("e4m3x2", "e5m2x2")


def _cvt_bytes(e: Emitter, ins: P.Instruction) -> None:
    """cvt between pairs of 8-bit floats and float32 or float16."""
    to, frm = ins.parts[-2:]
    d, *sources = ins.operands
    relu = "relu" in ins.parts
    if frm in _BYTES and to == "f16x2":
        pair = f"fp8_halves({e.read(sources[0], 'i2')}, {frm[:4]!r})"
        value = f"maximum({pair}, f2.type(0))" if relu else pair
        e.write(d, f"pack16({value})", "i4")
        return
    if to not in _BYTES or frm not in ("f32", "f16x2") or "satfinite" not in ins.parts:
        raise e.fail("of 8-bit floats, only conversions of e4m3x2 and e5m2x2 are emulated")
    if frm == "f32":
        high, low = (e.read(o, "f4") for o in sources)
        pair = f"fp8_pair({low}, {high}, {to[:4]!r}, {relu})"
    else:
        both = e.temporary(f"half2({e.read(sources[0], 'i4')})")
        pair = f"fp8_pair({both}[..., 0], {both}[..., 1], {to[:4]!r}, {relu})"
    e.write(d, pair, "i2")


@lowers("cvt")
def _cvt(e: Emitter, ins: P.Instruction) -> None:
    if any(p in _BYTES for p in ins.parts):
        _cvt_bytes(e, ins)
        return
    to, frm = _types(ins)[-2:]
    d, *sources = ins.operands
    parts = set(ins.parts)
    integral = next((p for p in ins.parts if p in ("rni", "rzi", "rmi", "rpi")), "")
    mode = _mode(ins)
    relu = "relu" in parts
    if "pack" in parts or any(p.startswith(("e4m3", "e5m2", "e2m", "e3m", "ue8")) for p in parts):
        raise e.fail("8-bit floats and packed conversions are not emulated; convert one by one")
    if "satfinite" in parts:
        raise e.fail(".satfinite is emulated for 8-bit floats only; clamp the value before")
    if to in ("f16x2", "bf16x2"):
        high, low = (_fread(e, ins, o, "f4") for o in sources[:2])
        if relu:
            high, low = (f"maximum({v}, f4.type(0))" for v in (high, low))
        if to == "f16x2":
            low, high = (f"f64_to_f16({v}, {mode!r}).view(i2)" for v in (low, high))
        else:
            low, high = (f"bf16_bits({v}, {mode!r})" for v in (low, high))
        e.write(d, f"join16({low}, {high})", "i4")
        return
    source = sources[0]
    if to == "tf32":
        e.write(d, f"tf32_bits({e.read(source, 'f4')}, {mode!r})", "i4")
        return
    if frm == "bf16":
        value, have = f"bf16_value({e.read(source, 'i2')})", "f4"
    else:
        have = NUMPY[frm]
        value = _fread(e, ins, source, have)
    if to == "bf16":
        if integral:
            value = f"round_integral({value}, {integral!r})"
        if have[0] != "f":
            value = f"int_to_odd({value})"
        if relu:
            value = f"maximum({value}, {value}.dtype.type(0))"
        e.write(d, f"bf16_bits({value}, {mode!r})", "i2")
        return
    want = NUMPY[to]
    if have[0] == "f" and want[0] != "f":
        e.write(d, f"float_to_int({value}, {want}, {integral or 'rzi'!r})", want)
    elif have[0] != "f" and want[0] != "f":
        if "sat" in parts:
            e.write(d, f"saturate_int({value}, {want})", want)
        else:
            e.write(d, f"{value}.astype({want})" if have != want else value, want)
    elif have[0] != "f":
        if want == "f4":
            result = f"int_to_f32({value}, {mode!r})"
        elif want == "f2":
            result = f"f64_to_f16({value}.astype(f8), {mode!r})"
        else:
            result = f"int_to_f64({value}, {mode!r})"
        e.write(d, _float(e, ins, result), want)
    else:
        if integral:
            value = f"round_integral({value}, {integral!r})"
        if want == have:
            result = value
        elif want == "f2":
            result = f"f64_to_f16({value}, {mode!r})"
        elif want == "f4" and have == "f8":
            result = f"directed({value}, {mode!r})"
        else:
            result = f"{value}.astype({want})"
        if "sat" in parts:
            result = f"saturate({result})"
        if relu:
            result = f"maximum({result}, {want}.type(0))"
        if "ftz" in parts and want == "f4":
            result = f"flush({result})"
        e.write(d, result, want)


# -- memory --------------------------------------------------------------------------------------

_SPACES = ("global", "shared", "local", "const", "param")


def _space(ins: P.Instruction) -> str:
    for part in ins.parts[1:]:
        base = part.split("::")[0]
        if base in _SPACES:
            if part == "shared::cluster":
                return "cluster"
            return base
    return "generic"


@lowers("ld", "ldu")
def _load(e: Emitter, ins: P.Instruction) -> None:
    kind = _types(ins)[-1]
    numpy = NUMPY[kind]
    target, address = ins.operands[:2]
    targets = target.items if isinstance(target, P.Vector) else (target,)
    space = _space(ins)
    if space == "cluster":
        raise e.fail(_HOPPER)
    held = [e.kinds[t.name] for t in targets if isinstance(t, P.Register)]
    if kind[0] == "b" and any(k[1] > numpy[1] for k in held):
        numpy = "u" + numpy[1]  # PTX ISA, ld: bits are extended with zeros, only .s with the sign
    if space == "param" and isinstance(address, P.Address) and isinstance(address.base, P.Symbol):
        name = address.base.name
        offset = address.offset + address.base.offset
        size = int(numpy[1])
        entry = name in e.program.param_offsets and e.function.is_entry
        for i, item in enumerate(targets):
            at = offset + i * size
            if entry:
                at += e.program.param_offsets[name]
                e.write(item, f"entry_param(S, {at}, {numpy})", numpy)
            else:
                e.write(item, f"load_param(F, {name!r}, {at}, {numpy})", numpy)
        return
    base, offset = e.address(address)
    if isinstance(address, P.Address) and isinstance(address.base, P.Register) and numpy[1] == "4":
        # Load as the destination's own type.
        numpy = _own_kind(e, targets[0], numpy)
    if isinstance(address, P.Address) and isinstance(address.base, P.Symbol) and space == "const":
        space = "const"
    number = e.site(space, "load", numpy, len(targets), offset)
    call = f"load_{space}(S, {number}, {base}, {e.active()})"
    if space == "param":
        call = f"load_const(S, {number}, {base}, {e.active()})"
    if len(targets) == 1:
        e.write(targets[0], call, numpy)
        return
    value = e.temporary(call)
    for i, item in enumerate(targets):
        if item is not None:
            e.write(item, f"{value}[{i}]", numpy)


@lowers("st")
def _store(e: Emitter, ins: P.Instruction) -> None:
    numpy = NUMPY[_types(ins)[-1]]
    address, source = ins.operands[:2]
    sources = source.items if isinstance(source, P.Vector) else (source,)
    space = _space(ins)
    if "async" in ins.parts or space == "cluster":
        raise e.fail(_HOPPER)
    if numpy[1] == "4" and isinstance(sources[0], P.Register):
        numpy = _own_kind(e, sources[0], numpy)
    values = [e.read(o, numpy) for o in sources]
    if space == "param":
        assert isinstance(address, P.Address)
        assert isinstance(address.base, P.Symbol)
        for i, value in enumerate(values):
            at = address.offset + address.base.offset + i * int(numpy[1])
            e.emit(f"store_param(F, {address.base.name!r}, {at}, {value})")
        return
    if space == "const":
        raise e.fail("constant memory cannot be written by a kernel")
    base, offset = e.address(address)
    number = e.site(space, "store", numpy, len(sources), offset)
    e.emit(f"store_{space}(S, {number}, {base}, ({', '.join(values)},), {e.active()})")


@lowers("membar", "fence")
def _fence(e: Emitter, ins: P.Instruction) -> None:
    if "proxy" in ins.parts or "mbarrier_init" in ins.parts or "cluster" in ins.parts:
        raise e.fail(_HOPPER)
    e.emit(f"fence(S, {0 if 'cta' in ins.parts else 1}, {e.active()})")


@lowers(
    "prefetch", "prefetchu", "discard", "applypriority", "nanosleep", "pmevent", "griddepcontrol"
)
def _nothing(e: Emitter, ins: P.Instruction) -> None:
    """Instructions that change nothing that the emulator models: kernels run one after the other."""


@lowers("atom", "red")
def _atomic(e: Emitter, ins: P.Instruction) -> None:
    if "async" in ins.parts:
        raise e.fail(_HOPPER)
    operation = next(
        (
            p
            for p in ins.parts
            if p in ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")
        ),
        "",
    )
    kind = _types(ins)[-1]
    space = _space(ins)
    if space == "cluster" or not operation:
        raise e.fail(_HOPPER if not operation else "this atomic operation is not emulated")
    operands = list(ins.operands)
    target = None if ins.root == "red" else operands.pop(0)
    address, *sources = operands
    if isinstance(target, P.Vector) or (sources and isinstance(sources[0], P.Vector)):
        raise e.fail("vector atomics are not emulated; use one atomic per element")
    numpy = NUMPY[kind]
    base, offset = e.address(address)
    number = e.site(space, "atomic", numpy, 1, offset)
    values = [e.read(o, numpy) for o in sources]
    while len(values) < 2:
        values.append("None")
    call = (
        f"atomic(S, {number}, {operation!r}, {kind!r}, {base}, {values[0]}, {values[1]}, "
        f"{e.active()}, {target is not None})"
    )
    e.write(target, call, numpy)


# -- warps ---------------------------------------------------------------------------------------


@lowers("shfl")
def _shfl(e: Emitter, ins: P.Instruction) -> None:
    mode = next(p for p in ins.parts if p in ("up", "down", "bfly", "idx"))
    target, a, b, c = ins.operands[:4]
    member = e.read(ins.operands[4], "i4") if len(ins.operands) > 4 else "None"
    result = e.temporary(
        f"shuffle(S, {mode!r}, {e.read(a, 'i4')}, {e.read(b, 'i4')}, {e.read(c, 'i4')}, "
        f"{member}, {e.active()}, {ins.line})"
    )
    if isinstance(target, P.Pair):
        e.write(target.first, f"{result}[0]", "i4")
        if target.second is not None:
            e.write(target.second, f"{result}[1]", "b1")
    else:
        e.write(target, f"{result}[0]", "i4")


@lowers("vote")
def _vote(e: Emitter, ins: P.Instruction) -> None:
    mode = next(p for p in ins.parts if p in ("all", "any", "uni", "ballot"))
    d, a = ins.operands[:2]
    member = e.read(ins.operands[2], "i4") if len(ins.operands) > 2 else "None"
    call = f"vote(S, {mode!r}, {e.read(a, 'b1')}, {member}, {e.active()}, {ins.line})"
    e.write(d, call, "i4" if mode == "ballot" else "b1")


@lowers("match")
def _match(e: Emitter, ins: P.Instruction) -> None:
    mode = next(p for p in ins.parts if p in ("any", "all"))
    kind = "i" + NUMPY[_types(ins)[-1]][1]
    target, a, member = ins.operands[:3]
    result = e.temporary(
        f"match_lanes(S, {mode!r}, {e.read(a, kind)}, {e.read(member, 'i4')}, {e.active()}, "
        f"{ins.line})"
    )
    if isinstance(target, P.Pair):
        e.write(target.first, f"{result}[0]", "i4")
        if target.second is not None:
            e.write(target.second, f"{result}[1]", "b1")
    else:
        e.write(target, f"{result}[0]", "i4")


@lowers("redux")
def _redux(e: Emitter, ins: P.Instruction) -> None:
    operation = next(p for p in ins.parts if p in ("add", "min", "max", "and", "or", "xor"))
    kind = NUMPY[_types(ins)[-1]]
    if kind[0] == "f":
        raise e.fail("redux of floats is not emulated; use shuffles")
    d, a, member = ins.operands[:3]
    call = f"reduce_lanes(S, {operation!r}, {e.read(a, kind)}, {e.read(member, 'i4')}, "
    e.write(d, f"{call}{e.active()}, {ins.line})", kind)


@lowers("elect")
def _elect(e: Emitter, ins: P.Instruction) -> None:
    target, member = ins.operands[:2]
    call = f"elect_lane(S, {e.read(member, 'i4')}, {e.active()}, {ins.line})"
    result = e.temporary(call)
    first, second = (target.first, target.second) if isinstance(target, P.Pair) else (target, None)
    if first is not None:
        e.write(first, f"{result}[0]", "i4")
    if second is not None:
        e.write(second, f"{result}[1]", "b1")


@lowers("activemask")
def _activemask(e: Emitter, ins: P.Instruction) -> None:
    true = e.constant(1, "b1")
    e.write(ins.operands[0], f"vote(S, 'ballot', {true}, None, {e.active()}, 0)", "i4")


@lowers("bar", "barrier")
def _warp_barrier(e: Emitter, ins: P.Instruction) -> None:
    """Only bar.warp.sync comes here; the others end a block."""
    member = e.read(ins.operands[0], "i4") if ins.operands else e.constant(-1, "i4")
    e.emit(f"sync_lanes(S, {member}, {e.active()}, {ins.line})")


# -- matrices ------------------------------------------------------------------------------------


def _registers(operand: P.Operand | None) -> tuple[Any, ...]:
    return operand.items if isinstance(operand, P.Vector) else (operand,)


def _whole_warps(e: Emitter, ins: P.Instruction) -> None:
    e.emit(f"whole_warps(S, {'.'.join(ins.parts[:2])!r}, {ins.line}, {e.active()})")


@lowers("ldmatrix")
def _ldmatrix(e: Emitter, ins: P.Instruction) -> None:
    _whole_warps(e, ins)
    if "b16" not in ins.parts or "m8n8" not in ins.parts:
        raise e.fail("only ldmatrix.m8n8 of b16 is emulated")
    targets = _registers(ins.operands[0])
    base, offset = e.address(ins.operands[1])
    if _space(ins) == "generic":
        base = f"({base} - {e.constant(SHARED_WINDOW, 'i8')})"
    number = e.site("shared", "load", "i4", 4, offset)
    result = e.temporary(
        f"load_matrix(S, {number}, {base}, {len(targets)}, {'trans' in ins.parts}, {e.active()})"
    )
    for i, target in enumerate(targets):
        e.write(target, f"{result}[{i}]", "i4")


@lowers("stmatrix")
def _stmatrix(e: Emitter, ins: P.Instruction) -> None:
    _whole_warps(e, ins)
    if "b16" not in ins.parts or "m8n8" not in ins.parts:
        raise e.fail("only stmatrix.m8n8 of b16 is emulated")
    base, offset = e.address(ins.operands[0])
    if _space(ins) == "generic":
        base = f"({base} - {e.constant(SHARED_WINDOW, 'i8')})"
    values = [e.read(o, "i4") for o in _registers(ins.operands[1])]
    number = e.site("shared", "store", "i4", 4, offset)
    e.emit(
        f"store_matrix(S, {number}, {base}, ({', '.join(values)},), {'trans' in ins.parts}, "
        f"{e.active()})"
    )


@lowers("movmatrix")
def _movmatrix(e: Emitter, ins: P.Instruction) -> None:
    _whole_warps(e, ins)
    d, a = ins.operands
    e.write(d, f"transpose_matrix(S, {e.read(a, 'i4')}, {e.active()})", "i4")


@lowers("mma")
def _mma(e: Emitter, ins: P.Instruction) -> None:
    _whole_warps(e, ins)
    parts = ins.parts
    shape = next((p for p in parts if p.startswith("m") and "n" in p and "k" in p), "")
    types = [p for p in parts[1:] if p in P.BITS or p in ("e4m3", "e5m2")]
    reason = tensor.mma_refusal(shape, types, parts)
    if reason:
        raise e.fail(reason)
    d, a, b, c = (_registers(o) for o in ins.operands[:4])
    layouts = [p for p in parts if p in ("row", "col")]
    names = [
        ", ".join(e.read(o, _fragment_kind(t)) for o in group)
        for group, t in zip((a, b, c), (types[1], types[2], types[3]), strict=True)
    ]
    result = e.temporary(
        f"mma(S, {shape!r}, {tuple(types[:4])!r}, {tuple(layouts)!r}, ({names[0]},), "
        f"({names[1]},), ({names[2]},), {'satfinite' in parts}, {e.active()})"
    )
    kind = _fragment_kind(types[0])
    for i, target in enumerate(d):
        e.write(target, f"{result}[{i}]", kind)


def _fragment_kind(kind: str) -> str:
    return {"f32": "f4", "f64": "f8"}.get(kind, "i4")


@lowers("wmma")
def _wmma(e: Emitter, ins: P.Instruction) -> None:
    _whole_warps(e, ins)
    parts = ins.parts
    shape = next(p for p in parts if p.startswith("m") and "n" in p and "k" in p)
    types = _types(ins)
    layouts = [p for p in parts if p in ("row", "col")]
    operation = parts[1]
    reason = tensor.wmma_refusal(shape, types, parts)
    if reason:
        raise e.fail(reason)
    if operation == "mma":
        d, a, b, c = (_registers(o) for o in ins.operands[:4])
        if len(types) == 2:  # f16 inputs: only the accumulators are named
            dt, at, bt, ct = types[0], "f16", "f16", types[1]
        else:
            dt, at, bt, ct = types[:4]
        groups = [
            ", ".join(e.read(o, _fragment_kind(t)) for o in group)
            for group, t in ((a, at), (b, bt), (c, ct))
        ]
        result = e.temporary(
            f"wmma_mma(S, {shape!r}, {(dt, at, bt, ct)!r}, {tuple(layouts)!r}, ({groups[0]},), "
            f"({groups[1]},), ({groups[2]},), {'satfinite' in parts}, {e.active()})"
        )
        for i, target in enumerate(d):
            e.write(target, f"{result}[{i}]", _fragment_kind(dt))
        return
    matrix = parts[2]
    space = _space(ins)
    kind = types[-1]
    element = tensor.element_kind(kind)
    if operation == "load":
        targets = _registers(ins.operands[0])
        base, offset = e.address(ins.operands[1])
        stride = e.read(ins.operands[2], "i4") if len(ins.operands) > 2 else "None"
        number = e.site(space, "load", element, 1, offset)
        result = e.temporary(
            f"wmma_load(S, {number}, {matrix!r}, {shape!r}, {layouts[0]!r}, {kind!r}, {space!r}, "
            f"{base}, {stride}, {len(targets)}, {e.active()})"
        )
        for i, target in enumerate(targets):
            e.write(target, f"{result}[{i}]", _fragment_kind(kind))
        return
    base, offset = e.address(ins.operands[0])
    values = ", ".join(e.read(o, _fragment_kind(kind)) for o in _registers(ins.operands[1]))
    stride = e.read(ins.operands[2], "i4") if len(ins.operands) > 2 else "None"
    number = e.site(space, "store", element, 1, offset)
    e.emit(
        f"wmma_store(S, {number}, {shape!r}, {layouts[0]!r}, {kind!r}, {space!r}, {base}, "
        f"({values},), {stride}, {e.active()})"
    )


# -- asynchronous copies -------------------------------------------------------------------------


@lowers("cp")
def _cp(e: Emitter, ins: P.Instruction) -> None:
    parts = ins.parts
    if "bulk" in parts or "reduce" in parts:
        raise e.fail(_HOPPER)
    if "mbarrier" in parts:
        number, base = _barrier_at(e, ins, ins.operands[0])
        e.emit(f"async_arrive(S, {number}, {base}, {'noinc' in parts}, {e.active()})")
        return
    if "commit_group" in parts:
        e.emit(f"commit_group(S, {e.active()})")
        return
    if "wait_all" in parts:
        e.emit(f"wait_group(S, 0, True, {e.active()})")
        return
    if "wait_group" in parts:
        count = ins.operands[0]
        assert isinstance(count, P.Immediate)
        e.emit(f"wait_group(S, {count.value}, False, {e.active()})")
        return
    to, frm, size, *rest = ins.operands
    assert isinstance(size, P.Immediate)
    to_base, to_offset = e.address(to)
    from_base, from_offset = e.address(frm)
    rest = [o for o in rest if not (isinstance(o, P.Register) and e.kinds[o.name] == "i8")]
    limit = "None"
    if rest:
        operand = rest[0]
        if isinstance(operand, P.Register) and e.kinds[operand.name] == "b1":
            nothing, whole = e.constant(0, "i4"), e.constant(size.value, "i4")
            limit = f"select({e.read(operand, 'b1')}, {nothing}, {whole})"
        else:
            limit = e.read(operand, "i4")
    words = size.value // 4
    reads = e.site("global", "load", "u4", words, from_offset)
    writes = e.site("shared", "store", "u4", words, to_offset)
    e.emit(f"copy_async(S, {reads}, {writes}, {from_base}, {to_base}, {limit}, {e.active()})")


# -- mbarriers -----------------------------------------------------------------------------------


def _barrier_at(e: Emitter, ins: P.Instruction, operand: P.Operand | None) -> tuple[int, str]:
    """(number of the access, expression of the address) of an mbarrier."""
    if _space(ins) == "cluster":
        raise e.fail(_HOPPER)
    base, offset = e.address(operand)
    return e.site(_space(ins), "atomic", "i8", 1, offset), base


@lowers("mbarrier")
def _mbarrier(e: Emitter, ins: P.Instruction) -> None:
    what, parts = ins.parts[1], ins.parts
    if what == "pending_count":
        e.write(ins.operands[0], f"pending_count({e.read(ins.operands[1], 'i8')})", "i4")
        return
    if what in ("expect_tx", "complete_tx") or "expect_tx" in parts:
        raise e.fail(_HOPPER)
    operands = list(ins.operands)
    target = None if isinstance(operands[0], P.Address) else operands.pop(0)
    number, base = _barrier_at(e, ins, operands[0])
    count = e.read(operands[1], "i4") if len(operands) > 1 else e.constant(1, "i4")
    if what == "init":
        e.emit(f"init_barrier(S, {number}, {base}, {count}, {e.active()})")
    elif what == "inval":
        e.emit(f"end_barrier(S, {number}, {base}, {e.active()})")
    elif what in ("arrive", "arrive_drop"):
        call = f"arrive(S, {number}, {base}, {count}, {what == 'arrive_drop'}, {e.active()})"
        e.write(target, call, "i8")
    else:
        raise e.fail("it is not among the operations on mbarriers that the emulator knows")


def poll_barrier(e: Emitter, ins: P.Instruction) -> str:
    """The result of a block that ends by asking whether a phase is complete."""
    target, address, want = ins.operands[:3]
    if ins.guard is not None or not isinstance(target, P.Register):
        raise e.fail("a question after an mbarrier under a predicate is not emulated")
    number, base = _barrier_at(e, ins, address)
    parity = "parity" in ins.parts
    value = e.read(want, "i4" if parity else "i8")
    return f"({number}, {base}, {value}, {parity}, {e.numbers[target.name]})"


# -- calls ---------------------------------------------------------------------------------------


@lowers("call")
def _call(e: Emitter, ins: P.Instruction) -> None:
    assert ins.call is not None
    returns, name, arguments = ins.call
    if not name:
        pointer = e.read(ins.operands[0], "i8")
        e.emit(
            f"call_pointed(S, F, {pointer}, {arguments!r}, {returns!r}, {e.locals_size}, {ins.line}, "
            f"{e.active()})"
        )
        return
    callee = e.program.module.functions[name]
    if not callee.has_body:
        if name == "malloc":
            e.emit(f"device_malloc(S, F, {arguments!r}, {returns!r}, {e.active()})")
            return
        if name == "free":
            e.emit(f"device_free(S, F, {arguments!r}, {ins.line}, {e.active()})")
            return
        if name == "vprintf":
            e.emit(f"print_formatted(S, F, {arguments!r}, {returns!r}, {e.active()})")
            return
        if name == "__assertfail":
            e.emit(f"assert_failed(S, F, {arguments!r}, {ins.line}, {e.active()})")
            return
        raise e.fail(
            f"the function {name!r} of CUDA's device runtime is not emulated. Launch kernels from the "
            "host, and use malloc and free for memory"
        )
    formal = tuple(p.name for p in callee.params)
    formal_returns = tuple(p.name for p in callee.returns)
    e.emit(
        f"call_function(S, F, {name!r}, {formal!r}, {arguments!r}, {formal_returns!r}, "
        f"{returns!r}, {e.locals_size}, {e.active()})"
    )
