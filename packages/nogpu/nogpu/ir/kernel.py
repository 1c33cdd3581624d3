"""A function of LLVM IR as PTX, instruction by instruction."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import gcd

from nogpu.ir import accesses, calls, registers
from nogpu.ir.accesses import Access
from nogpu.ir.places import Places
from nogpu.ir.spaces import GENERIC, OWN, WORD, Spaces, of_type
from nogpu.ir.text import (
    Function,
    Instruction,
    Module,
    Refused,
    aligned,
    bits,
    call,
    cast,
    float_bits,
    operands,
    repeated,
    split,
    take_type,
)
from nogpu.ir.values import (
    CASTS,
    CONVERSIONS,
    FLOATS,
    Part,
    Unit,
    Values,
    family,
    memory_type,
    picked,
)

FAMILIES = {"p": "pred", "rs": "b16", "r": "b32", "rd": "b64", "f": "f32", "fd": "f64"}
"""PTX types of the families of registers."""
Item = Instruction | Access
Location = tuple[str, str, int]
"""".shared", ".global" or the like, a base, and bytes added to it."""
_ESSENTIAL = {
    *("access", "call", "br", "switch", "ret", "unreachable"),
    *("fence", "atomicrmw", "cmpxchg", "load", "store"),  # such as are no Access: atomic ones
}
_INTEGERS = {
    "add": "add.s",
    "sub": "sub.s",
    "mul": "mul.lo.s",
    "and": "and.b",
    "or": "or.b",
    "xor": "xor.b",
    "shl": "shl.b",
    "lshr": "shr.u",
    "ashr": "shr.s",
    "sdiv": "div.s",
    "udiv": "div.u",
    "srem": "rem.s",
    "urem": "rem.u",
}
_FLOATING = {"fadd": "add", "fsub": "sub", "fmul": "mul", "fdiv": "div"}
_ALIKE = {
    **dict.fromkeys(_INTEGERS, "integer"),
    **dict.fromkeys(_FLOATING, "float"),
    **dict.fromkeys(CONVERSIONS, "cast"),
    **dict.fromkeys(("mad", "fma", "fms", "fnma"), "sum"),
}
"""Instructions that one method writes, and its name."""
_OF_BITS = {"add": "xor", "sub": "xor", "mul": "and", "and": "and", "or": "or", "xor": "xor"}
_ORDERED = re.compile(
    r'(.*?) (?:syncscope\("(\w+)"\) )?(unordered|monotonic|acquire|release|acq_rel|seq_cst)'
)
_COMPARED = {"oeq": "eq", "one": "ne", "une": "neu", "ueq": "equ", "uno": "nan", "ord": "num"}


def place(base: str, offset: int) -> str:
    """An address in brackets."""
    return f"[{base}+{offset}]" if offset else f"[{base}]"


def container(kind: str) -> int:
    """Bits of the register that an integer is kept in; those above its own may hold anything."""
    return {"rs": 16, "r": 32, "rd": 64}[family(kind)]


def _by_element(
    one: Callable[[Writer, str, str, str, Sequence[str]], None],
) -> Callable[[Writer, Instruction], None]:
    """Of a method that writes an element of `op type a, b` one that writes them all.

    one: is given the op, or how it compares, the element's type, its target and its operands.
    """

    def write(w: Writer, ins: Instruction) -> None:
        op, rest = ins.rest.split(None, 1) if ins.op in ("icmp", "fcmp") else (ins.op, ins.rest)
        kind, rest = take_type(rest)
        if kind == "i128":
            raise Refused(f"{ins.op} of 128 bits")
        sides = [w.elements(kind, text) for text in split(rest)]
        inner = w.module.scalars(kind)[0][1]

        def elements(targets: list[str]) -> None:
            for target, *own in zip(targets, *sides, strict=True):
                one(w, op, inner, target, own)

        w.make(ins.name, elements)

    return write


class Writer:
    """Writes one function. code: its lines; symbols: variables and functions that it names."""

    def __init__(self, module: Module, function: Function, places: Places) -> None:
        self.module, self.function, self._places = module, function, places
        self.code: list[str] = []
        self.symbols: dict[str, None] = {}
        self.counts = dict.fromkeys(FAMILIES, 0)
        self._registers: dict[Unit, str] = {}
        self._heads: dict[Unit, Unit] = {}
        self._constants = self._label_count = 0
        self._here = ""
        self.spaces = Spaces(module, function)
        self.depot, placed = self._placed()
        self.values = Values(module, function, self.spaces, placed)
        self._write()

    def _placed(self) -> tuple[int, dict[str, Part]]:
        """Bytes of the thread's own variables, and where they and structures in parameters lie."""
        size, placed = 0, dict[str, Part]()

        def own(name: str, kind: str, align: int) -> None:
            nonlocal size
            size = -(-size // align) * align
            placed[name] = Part(None, f"@{self._depot_name}", size)
            size += self.module.size(kind)

        for block in self.function.blocks:
            for ins in block.code:
                if ins.op == "alloca":
                    kind, *rest = split(ins.rest)
                    if not all(r.startswith("align") for r in rest):
                        raise Refused("an array of the thread whose length is not known beforehand")
                    own(ins.name, kind, aligned(ins.rest, self.module.align(kind)))
        for i, p in enumerate(self.function.parameters):
            if p.byval and self.function.is_kernel:
                placed[p.name] = Part(None, f"@{self.parameter(i)}")
            elif p.byval:
                own(p.name, p.byval, aligned(p.words, self.module.align(p.byval)))
        return size, placed

    @property
    def _depot_name(self) -> str:
        return f"__local_depot_{symbol(self.function.name)}"

    def parameter(self, number: int) -> str:
        """The name of a parameter in PTX."""
        return f"{symbol(self.function.name)}_param_{number}"

    # -- text ---------------------------------------------------------------------------------

    def emit(self, text: str) -> None:
        """One statement."""
        self.code.append(f"\t{text};")

    def new(self, kind: str) -> str:
        """A fresh register for a scalar."""
        letter = family(kind)
        self.counts[letter] += 1
        return f"%{letter}{self.counts[letter]}"

    def label(self) -> str:
        """A fresh label."""
        self._label_count += 1
        return f"$L__{symbol(self.function.name)}_{self._label_count}"

    def _register(self, unit: Unit) -> str:
        head = self._heads.get(unit, unit)
        if head not in self._registers:
            name, number = head
            self._registers[head] = self.new(self.module.parts(self.values.types[name])[number])
        return self._registers[head]

    def targets(self, name: str) -> list[str]:
        """The registers of what an instruction makes."""
        return [self._register(p.unit) for p in self.values.resolved(name) if p.unit]

    def target(self, ins: Instruction) -> str:
        """The register of an instruction that makes one."""
        return self.targets(ins.name)[0]

    # -- operands -----------------------------------------------------------------------------

    def part(self, kind: str, part: Part) -> str:
        """A part as an operand: a register or a literal."""
        base = self._register(part.unit) if part.unit else self._literal(kind, part.text)
        if not part.offset:
            return base
        out = self.new("ptr")
        self.emit(f"add.s64 {out}, {base}, {part.offset}")
        return out

    def _literal(self, kind: str, text: str) -> str:
        if text.startswith("@"):
            out = self.new("ptr")
            self.emit(f"mov.u64 {out}, {self.named(text)}")
            return out
        if " (" in text:
            return self._constant(kind, text)
        if kind == "i1":
            out = self.new("i1")
            self.emit(f"setp.{'eq' if text in ('true', '1') else 'ne'}.s32 {out}, 0, 0")
            return out
        if kind in FLOATS:
            number = float_bits(kind, text)
            return {16: f"{number}", 32: f"0f{number:08X}", 64: f"0d{number:016X}"}[bits(kind)]
        return text

    def named(self, text: str) -> str:
        """The name in PTX of a variable or a function, which is noted."""
        self.symbols[text[1:]] = None
        return symbol(text[1:])

    def _constant(self, kind: str, text: str) -> str:
        """A constant that has to be computed, such as an address as a number."""
        op, inside = text.split()[0], text[text.index("(") + 1 : -1]
        if op not in CASTS:
            items = operands(inside)
            inside = f"{items[0][0]} {', '.join(t for _, t in items)}"
        self._constants += 1
        name = f"%constant.{self._constants}"
        self.values.types[name] = kind
        self.instruction(Instruction(name, op, "", inside, ""))
        return self._register((name, 0))

    def parts(self, kind: str, text: str) -> list[str]:
        """The parts of an operand, pointers as generic addresses unless their type says more."""
        if kind.startswith("ptr"):
            return [self.address(text, of_type(kind))]
        kinds = self.module.parts(kind)
        return [self.part(k, p) for k, p in zip(kinds, self.values.parts(kind, text), strict=True)]

    def value(self, kind: str, text: str) -> str:
        """An operand of one part."""
        (part,) = self.parts(kind, text)
        return part

    def in_registers(self, kind: str, text: str) -> list[str]:
        """The parts of an operand, each in a register."""
        kinds = self.module.parts(kind)
        return [self.kept(k, p) for k, p in zip(kinds, self.parts(kind, text), strict=True)]

    def kept(self, kind: str, operand: str) -> str:
        """An operand in a register."""
        if operand.startswith("%"):
            return operand
        out = self.new(kind)
        self.move(kind, out, operand)
        return out

    def move(self, kind: str, target: str, operand: str) -> None:
        """Copy an operand into a register."""
        self.emit(f"mov.{FAMILIES[family(kind)]} {target}, {operand}")

    def elements(self, kind: str, text: str) -> list[str]:
        """The elements of an operand: those of pairs apart."""
        parts = self.parts(kind, text)
        if self.module.parts(kind)[:1] != ["pair"]:
            return parts
        inner, out = repeated(kind)[1], list[str]()
        for pair in parts:
            two = [self.new(inner), self.new(inner)]
            self.emit(f"mov.b32 {{{two[0]}, {two[1]}}}, {self.kept('pair', pair)}")
            out += two
        return out

    def make(self, name: str, elements: Callable[[list[str]], None]) -> None:
        """Have the elements of a value written into registers, pairs put together after that."""
        kind, targets = self.values.types[name], self.targets(name)
        if self.module.parts(kind)[:1] != ["pair"]:
            elements(targets)
            return
        count, inner = repeated(kind)
        halves = [self.new(inner) for _ in range(count)]
        elements(halves)
        for i, target in enumerate(targets):
            self.emit(f"mov.b32 {target}, {{{halves[2 * i]}, {halves[2 * i + 1]}}}")

    def clean(self, kind: str, operand: str, signed: bool) -> str:
        """An integer with the bits above its own set by its sign or to 0.

        Constants come with their sign.
        """
        width, whole = bits(kind), container(kind)
        if not operand.startswith("%"):
            return operand if signed or width >= 32 else str(int(operand) & ((1 << width) - 1))
        if width == whole:
            return operand
        out = self.new(kind)
        if width in (8, 16, 32):
            letter = "s" if signed else "u"
            self.emit(f"cvt.{letter}{whole}.{letter}{width} {out}, {operand}")
        elif signed:
            self.emit(f"shl.b{whole} {out}, {operand}, {whole - width}")
            self.emit(f"shr.s{whole} {out}, {out}, {whole - width}")
        else:
            self.emit(f"and.b{whole} {out}, {operand}, {(1 << width) - 1}")
        return out

    # -- addresses ----------------------------------------------------------------------------

    def address(self, text: str, space: int = GENERIC) -> str:
        """A pointer as a number of a space."""
        have = self.spaces.of(text)
        operand = self.part("ptr", self.values.parts("ptr", text)[0])
        if have == space or (have not in OWN and space not in OWN):
            return operand
        if have in OWN and space in OWN:
            raise Refused(f"a pointer to {WORD[have]} memory as one to {WORD[space]} memory")
        out = self.new("ptr")
        to = "" if have in OWN else "to."
        self.emit(f"cvta.{to}{WORD[have if have in OWN else space]}.u64 {out}, {operand}")
        return out

    def location(self, text: str) -> Location:
        """Where a pointer points."""
        part = self.values.parts("ptr", text)[0]
        if part.unit:
            base = self._register(part.unit)
        else:
            base = self.named(part.text) if part.text.startswith("@") else part.text
        space = self.spaces.of(text)
        return f".{WORD[space]}" if space else "", base, part.offset

    def place(self, text: str, more: int = 0) -> tuple[str, str]:
        """Where a load or store goes: its address and ".shared", ".global" or the like."""
        space, base, offset = self.location(text)
        return place(base, offset + more), space

    def copy_structure(self, kind: str, source: Location, target: Location) -> None:
        """Copy a structure from one memory to another one, scalar by scalar."""
        (space, base, at), (other, to, start) = source, target
        for first, scalar in self.module.scalars(kind):
            size = self.module.size(scalar)
            step = gcd(size, first, self.module.align(kind))  # less than its size if it is packed
            piece = scalar if step == size else f"i{8 * step}"
            for offset in range(first, first + size, step):
                word, moved = memory_type(piece), self.new(piece)
                self.emit(f"ld{space}.{word} {moved}, {place(base, at + offset)}")
                self.emit(f"st{other}.{word} {place(to, start + offset)}, {moved}")

    # -- the function -------------------------------------------------------------------------

    def _write(self) -> None:
        blocks = self.function.blocks
        joiner = accesses.Joiner(self.module, self.function, self.spaces, self.values)
        joined = {}
        for block in blocks:
            sums = accesses.fused(block, self.values)
            joined[block.name] = [sums.get(item.name, item) for item in joiner.joined(block)]
        self._phis: dict[str, list[tuple[str, str, dict[str, str]]]] = {
            b.name: b.phis for b in blocks
        }
        needed = self._needed(joined)
        self._share(needed)
        self._labels = {b.name: self.label() for b in blocks}
        self._enter()
        for i, block in enumerate(blocks):
            self._block = block.name
            self._next = blocks[i + 1].name if i + 1 < len(blocks) else ""
            self.code.append(f"{self._labels[block.name]}:")
            for item in needed[block.name]:
                self._one(item)

    def _enter(self) -> None:
        """Read the parameters."""
        self.code.append(self._places.beginning(self.function.place))
        for i, p in enumerate(self.function.parameters):
            if p.byval:
                if not self.function.is_kernel:
                    given = ".param", self.parameter(i), 0
                    self.copy_structure(p.byval, given, self.location(p.name))
                continue
            targets, is_kernel = self.targets(p.name), self.function.is_kernel
            self.load_parameter(p.type, targets, self.parameter(i), is_kernel)
            if p.type.startswith("ptr") and is_kernel:
                self.emit(f"cvta.to.global.u64 {targets[0]}, {targets[0]}")

    def load_parameter(
        self, kind: str, targets: Sequence[str], name: str, is_kernel: bool = False
    ) -> None:
        """A parameter or what a function gives back: small integers are 32 bits wide in calls."""
        for (offset, scalar), target in zip(self.module.scalars(kind), targets, strict=True):
            at = place(name, offset)
            if scalar[0] != "i" or bits(scalar) >= 32:
                self.emit(f"ld.param.{memory_type(scalar)} {target}, {at}")
                continue
            wide = self.new("i32")
            self.emit(f"ld.param.u{max(bits(scalar), 8) if is_kernel else 32} {wide}, {at}")
            if scalar == "i1":
                self.emit(f"and.b32 {wide}, {wide}, 1")
                self.emit(f"setp.ne.s32 {target}, {wide}, 0")
            else:
                self.emit(f"cvt.u16.u32 {target}, {wide}")

    def store_parameter(self, kind: str, values: Sequence[str], name: str) -> None:
        """An argument or a result; small integers are widened to 32 bits."""
        for (offset, scalar), value in zip(self.module.scalars(kind), values, strict=True):
            at = place(name, offset)
            if scalar[0] != "i" or bits(scalar) >= 32:
                self.emit(f"st.param.{memory_type(scalar)} {at}, {value}")
                continue
            wide = self.new("i32")
            if scalar == "i1":
                self.emit(f"selp.b32 {wide}, 1, 0, {value}")
            else:
                self.emit(f"cvt.u32.u16 {wide}, {self.clean(scalar, value, False)}")
            self.emit(f"st.param.u32 {at}, {wide}")

    def _needed(self, items: dict[str, list[Item]]) -> dict[str, list[Item]]:
        """Without what nobody reads, such as the sums that loads and stores do themselves."""
        makers: dict[str, list[Unit]] = {}
        todo: list[Unit] = []
        for own in items.values():
            for item in own:
                reads = self.values.units(item.rest)
                if item.op in _ESSENTIAL:
                    todo += reads
                else:
                    makers[item.name] = reads
        for phis in self._phis.values():
            for name, _, sources in phis:
                makers[name] = self.values.units(" ".join(sources.values()))
        wanted = set[str]()
        while todo:
            name, _ = todo.pop()
            if name not in wanted:
                wanted.add(name)
                todo += makers.get(name, ())
        self._phis = {b: [p for p in phis if p[0] in wanted] for b, phis in self._phis.items()}
        return {
            name: [item for item in own if item.op in _ESSENTIAL or item.name in wanted]
            for name, own in items.items()
        }

    def _share(self, items: dict[str, list[Item]]) -> None:
        """Decide which values share a register."""
        moves: dict[tuple[str, str], list[tuple[Unit, Unit]]] = {}
        for to, phis in self._phis.items():
            for name, kind, sources in phis:
                for source, text in sources.items():
                    own = moves.setdefault((source, to), [])
                    places = self.values.resolved(name)
                    for phi, part in zip(places, self.values.parts(kind, text), strict=True):
                        if phi.unit and part.unit:
                            own.append((phi.unit, part.unit))
        for name, block in items.items():
            if block and block[-1].op in ("br", "switch"):
                for to in re.findall(r"label %([\w.$-]+)", block[-1].rest):
                    moves.setdefault((name, to), [])
        edges = [registers.Edge(*way, pairs) for way, pairs in moves.items()]
        code = {name: [self._use(item) for item in block] for name, block in items.items()}
        tops = {b: self.values.units(" ".join(p[0] for p in of)) for b, of in self._phis.items()}
        units = {u for e in edges for move in e.moves for u in move}
        units |= {u for uses in code.values() for use in uses for pair in use.tied for u in pair}
        families = {u: family(self.module.parts(self.values.types[u[0]])[u[1]]) for u in units}
        self._heads = registers.shared(code, tops, edges, families)

    def _use(self, item: Item) -> registers.Use:
        if isinstance(item, Access):
            names = [] if item.is_store else [name for _, name in item.members]
        else:
            names = [item.name] if item.name else []
        parts = (part for name in names for part in self.values.resolved(name))
        makes = [part.unit for part in parts if part.unit and part.unit[0] in names]
        early = item.op in ("access", "call") or len(makes) > 1
        tied = calls.tied(call(item.rest), makes, self.values) if item.op == "call" else ()
        return registers.Use(self.values.units(item.rest), makes, early, tied)

    def _one(self, item: Item) -> None:
        if item.place and (loc := self._places.directive(item.place)) and loc != self._here:
            self._here = loc
            self.code.append(loc)
        try:
            self.instruction(item)
        except Refused as refused:
            line = self._places.line(item.place)
            raise Refused(refused.what, f"line {line}: " if line else "") from None

    def instruction(self, ins: Item) -> None:
        """Write one instruction, or an access."""
        handler = getattr(self, f"_{_ALIKE.get(ins.op, ins.op)}", None)
        if handler is None:
            raise Refused(f"the instruction `{ins.op}`")
        handler(ins)

    # -- memory -------------------------------------------------------------------------------

    def _access(self, access: Access) -> None:
        """A load or store, in as many pieces as its alignment asks for."""
        scalars, operands, at = list[tuple[int, str]](), list[str](), 0
        for kind, text in access.members:
            if self.module.parts(kind)[:1] == ["pair"]:
                inner = [(4 * i, "pair") for i in range(repeated(kind)[0] // 2)]
            else:
                inner = self.module.scalars(kind)
            scalars += [(at + offset, scalar) for offset, scalar in inner]
            if access.is_store:
                operands += self.in_registers(kind, text)
            else:
                operands += self.targets(text)
            at += self.module.size(kind)
        while scalars:
            start, size = scalars[0][0], self.module.size(scalars[0][1])
            most = gcd(access.align, accesses.MOST_BYTES, start)
            if most < size:
                self._unaligned(access, size, operands.pop(0), access.offset + start, most)
                del scalars[0]
                continue
            count, row = 1, [(start + i * size, size) for i in range(len(scalars))]
            own = [(o, self.module.size(k)) for o, k in scalars]
            while (
                2 * count * size <= most
                and own[: 2 * count] == row[: 2 * count]
                and (len(own) >= 2 * count)
            ):
                count *= 2
            kinds = [k for _, k in scalars[:count]]
            self._piece(access, kinds, operands[:count], access.offset + start)
            scalars, operands = scalars[count:], operands[count:]

    def _unaligned(self, access: Access, size: int, register: str, start: int, step: int) -> None:
        """Load or store a scalar that is aligned to fewer bytes than it has, step by step."""
        whole, part = f"i{8 * size}", f"i{8 * step}"
        number = self.new(whole)
        self.emit(f"mov.b{8 * size} {number}, {register if access.is_store else 0}")
        for at in range(0, size, step):
            address, space = self.place(access.pointer, start + at)
            piece, wide = self.new(part), self.new(whole)
            if access.is_store:
                self.emit(f"shr.u{8 * size} {wide}, {number}, {8 * at}")
                self.emit(f"cvt.u{container(part)}.u{8 * size} {piece}, {wide}")
                self.emit(f"st{space}.u{8 * step} {address}, {piece}")
            else:
                self.emit(f"ld{space}.u{8 * step} {piece}, {address}")
                self.emit(f"cvt.u{8 * size}.u{8 * step} {wide}, {piece}")
                self.emit(f"shl.b{8 * size} {wide}, {wide}, {8 * at}")
                self.emit(f"or.b{8 * size} {number}, {number}, {wide}")
        if not access.is_store:
            self.emit(f"mov.b{8 * size} {register}, {number}")

    def _piece(self, access: Access, kinds: list[str], operands: list[str], more: int) -> None:
        address, space = self.place(access.pointer, more)
        space = f".{access.words.strip()}{space}" if access.words else space
        size, whole = self.module.size(kinds[0]), list(operands)
        if small := len(operands) > 4:  # in words
            whole = [self.new("pair") for _ in range(len(operands) * size // 4)]
        elif kinds[0] == "i1":
            whole = [self.new("i8") for _ in operands]
        types = {memory_type(k) for k in kinds}
        kind = "b32" if small else types.pop() if len(types) == 1 else f"b{8 * size}"
        vector = f".v{len(whole)}" if len(whole) > 1 else ""
        words = f"{{{', '.join(whole)}}}" if vector else whole[0]
        if not access.is_store:
            self.emit(f"ld{space}{vector}.{kind} {words}, {address}")
        if small:
            for i, word in enumerate(whole):
                own = operands[i * 4 // size : (i + 1) * 4 // size]
                self._word(word, own, access.is_store)
        elif kinds[0] == "i1":
            for byte, predicate in zip(whole, operands, strict=True):
                if access.is_store:
                    self.emit(f"selp.b16 {byte}, 1, 0, {predicate}")
                else:
                    self.emit(f"and.b16 {byte}, {byte}, 1")
                    self.emit(f"setp.ne.s16 {predicate}, {byte}, 0")
        if access.is_store:
            self.emit(f"st{space}{vector}.{kind} {address}, {words}")

    def _word(self, word: str, elements: Sequence[str], is_store: bool) -> None:
        """32 bits and their two or four elements."""
        if len(elements) == 2:
            two = f"{{{', '.join(elements)}}}"
            self.emit(f"mov.b32 {word}, {two}" if is_store else f"mov.b32 {two}, {word}")
            return
        if is_store:
            self.emit(f"mov.b32 {word}, 0")
        for i, element in enumerate(elements):
            wide = self.new("i32")
            if is_store:
                self.emit(f"cvt.u32.u16 {wide}, {element}")
                self.emit(f"bfi.b32 {word}, {wide}, {word}, {8 * i}, 8")
            else:
                self.emit(f"bfe.u32 {wide}, {word}, {8 * i}, 8")
                self.emit(f"cvt.u16.u32 {element}, {wide}")

    def _ordered(self, ins: Instruction, text: str) -> tuple[str, str]:
        """Of an atomic load or store the order, scope and memory, and its address; text: the
        pointer, with scope and order behind it.
        """
        match = _ORDERED.fullmatch(text)
        assert match, ins
        pointer, scope, order = match.groups()
        scope = {"block": "cta", "device": "gpu", "cluster": "cluster"}.get(scope, "sys")
        if order == "seq_cst":
            self.emit(f"fence.sc.{scope}")
        weak = order in ("monotonic", "unordered")
        address, space = self.place(pointer)
        kind = "relaxed" if weak else "acquire" if ins.op == "load" else "release"
        return f"{kind}.{scope}{space}", address

    def _load(self, ins: Instruction) -> None:
        """An atomic one: all others are accesses."""
        words, address = self._ordered(ins, take_type(split(ins.rest)[1])[1])
        width = 8 * self.module.size(take_type(ins.rest)[0])
        self.emit(f"ld.{words}.b{width} {self.target(ins)}, {address}")

    def _store(self, ins: Instruction) -> None:
        (kind, value), (_, pointer) = operands(ins.rest)[:2]
        register = self.in_registers(kind, value)[0]
        words, address = self._ordered(ins, pointer)
        self.emit(f"st.{words}.b{8 * self.module.size(kind)} {address}, {register}")

    def _atomicrmw(self, ins: Instruction) -> None:
        op, rest = ins.rest.split(None, 1)
        (_, pointer), (kind, value) = operands(rest)[:2]
        address, space = self.place(pointer)
        width = bits(kind)
        names = {"xchg": "exch.b", "add": "add.u", "and": "and.b", "or": "or.b", "xor": "xor.b"}
        names |= {"max": "max.s", "min": "min.s", "umax": "max.u", "umin": "min.u"}
        names |= {"fadd": "add.f", "uinc_wrap": "inc.u", "udec_wrap": "dec.u"}
        if op not in names or width < 32:
            raise Refused(f"atomicrmw {op} of {kind}")
        value = self.value(kind, value.split()[0])
        self.emit(f"atom{space}.{names[op]}{width} {self.target(ins)}, {address}, {value}")

    def _cmpxchg(self, ins: Instruction) -> None:
        (_, pointer), (kind, compared), (_, new) = operands(ins.rest)[:3]
        address, space = self.place(pointer)
        width = bits(kind)
        old, done = self.targets(ins.name)
        a = self.kept(kind, self.value(kind, compared))
        b = self.value(kind, new.split()[0])
        out = self.new(kind)
        self.emit(f"atom{space}.cas.b{width} {out}, {address}, {a}, {b}")
        self.emit(f"setp.eq.s{max(width, 16)} {done}, {out}, {a}")
        self.emit(f"mov.b{width} {old}, {out}")

    def _fence(self, ins: Instruction) -> None:
        self.emit("membar.cta" if '"block"' in ins.rest else "membar.gl")

    def _getelementptr(self, ins: Instruction) -> None:
        address = self.values.addresses[ins.name]
        base = self.values.parts(*address.base)[0]._replace(offset=0)
        have, want = self.spaces.of(address.base[1]), self.spaces.of(ins.name)
        if have != want and (have in OWN or want in OWN):
            raise Refused("a pointer that is derived from one into another memory")
        out, value = self.target(ins), self.part("ptr", base)
        for i, (kind, text, scale) in enumerate(address.terms):
            index = self.value(kind, text)
            if kind != "i64":
                wide = self.new("i64")
                self.emit(f"cvt.s64.s{bits(kind)} {wide}, {index}")
                index = wide
            to = out if i + 1 == len(address.terms) else self.new("ptr")
            if scale != 1:
                times, index = index, self.new("i64")
                if scale & (scale - 1):
                    self.emit(f"mul.lo.s64 {index}, {times}, {scale}")
                else:
                    self.emit(f"shl.b64 {index}, {times}, {scale.bit_length() - 1}")
            self.emit(f"add.s64 {to}, {value}, {index}")
            value = to

    # -- numbers ------------------------------------------------------------------------------

    @_by_element
    def _integer(self, op: str, kind: str, target: str, sides: Sequence[str]) -> None:
        a, b = sides
        if kind == "i1":
            self.emit(f"{_OF_BITS[op]}.pred {target}, {a}, {b}")
            return
        name = _INTEGERS[op]
        if op in ("sdiv", "udiv", "srem", "urem", "lshr", "ashr"):
            a = self.clean(kind, a, name[-1] == "s")
        if op in ("sdiv", "udiv", "srem", "urem"):
            b = self.clean(kind, b, name[-1] == "s")
        elif op in ("shl", "lshr", "ashr") and b.startswith("%") and family(kind) != "r":
            b, wide = self.new("i32"), self.clean(kind, b, False)
            self.emit(f"cvt.u32.u{container(kind)} {b}, {wide}")
        self.emit(f"{name}{container(kind)} {target}, {self.kept(kind, a)}, {b}")

    @_by_element
    def _float(self, op: str, kind: str, target: str, sides: Sequence[str]) -> None:
        name = _FLOATING[op]
        if kind in ("float", "double") or (kind == "half" and op != "fdiv"):
            self.emit(f"{name}.rn.{FLOATS[kind]} {target}, {', '.join(sides)}")
            return
        wide = self._widened(kind, sides)
        self.emit(f"{name}.rn.f32 {wide[0]}, {', '.join(wide)}")
        self.emit(f"cvt.rn.{FLOATS[kind]}.f32 {target}, {wide[0]}")

    def _widened(self, kind: str, sides: Sequence[str]) -> list[str]:
        """Numbers of 16 bits as floats."""
        wide = [self.new("float") for _ in sides]
        for out, side in zip(wide, sides, strict=True):
            self.emit(f"cvt.f32.{FLOATS[kind]} {out}, {self.kept(kind, side)}")
        return wide

    @_by_element
    def _frem(self, op: str, kind: str, target: str, sides: Sequence[str]) -> None:
        """a - trunc(a / b) * b, which is a where b is infinite. As LLVM's NVPTX back end has it."""
        word = FLOATS[kind]
        if bits(kind) == 16:
            raise Refused(f"frem of {kind}")
        (a, b), (whole, p) = sides, (self.new(kind), self.new("i1"))
        self.emit(f"div.rn.{word} {whole}, {a}, {b}")
        self.emit(f"cvt.rzi.{word}.{word} {whole}, {whole}")
        self.emit(f"neg.{word} {whole}, {whole}")
        self.emit(f"fma.rn.{word} {whole}, {whole}, {b}, {a}")
        self.emit(f"testp.infinite.{word} {p}, {self.kept(kind, b)}")
        self.emit(f"selp.{word} {target}, {a}, {whole}, {p}")

    @_by_element
    def _sum(self, op: str, kind: str, target: str, sides: Sequence[str]) -> None:
        """A sum with the product that is part of it: see `accesses.fused`."""
        a, b, c = sides
        if kind == "bfloat":
            raise Refused("a product in a sum of bfloat")
        if op == "mad":
            self.emit(f"mad.lo.s{container(kind)} {target}, {a}, {b}, {c}")
            return
        if op == "fnma":
            a = self._negated(kind, a)
        elif op == "fms":
            c = self._negated(kind, c)
        self.emit(f"fma.rn.{FLOATS[kind]} {target}, {a}, {b}, {c}")

    def _negated(self, kind: str, operand: str) -> str:
        out = self.new(kind)
        self._negate("fneg", kind, out, [operand])
        return out

    def _negate(self, op: str, kind: str, target: str, sides: Sequence[str]) -> None:
        if bits(kind) == 16:
            self.emit(f"xor.b16 {target}, {self.kept(kind, sides[0])}, -32768")
        else:
            self.emit(f"neg.{FLOATS[kind]} {target}, {sides[0]}")

    _fneg = _by_element(_negate)

    @_by_element
    def _icmp(self, how: str, kind: str, target: str, sides: Sequence[str]) -> None:
        a, b = sides
        if kind == "i1":
            self._compare_bits(how, target, a, b)
            return
        signed = how[0] == "s"
        if kind == "ptr":
            width, letter = 64, "u"
        else:
            a, b = self.clean(kind, a, signed), self.clean(kind, b, signed)
            width, letter = container(kind), "u" if how[0] == "u" else "s"
        name = how if how in ("eq", "ne") else how[1:]
        self.emit(f"setp.{name}.{letter}{width} {target}, {self.kept(kind, a)}, {b}")

    def _compare_bits(self, how: str, target: str, a: str, b: str) -> None:
        if how in ("eq", "ne"):
            out = self.new("i1") if how == "eq" else target
            self.emit(f"xor.pred {out}, {a}, {b}")
            if how == "eq":
                self.emit(f"not.pred {target}, {out}")
            return
        less = how in ("ult", "ule", "sgt", "sge")  # as signed numbers, true is -1
        low, high = (a, b) if less else (b, a)
        out, op = self.new("i1"), "and" if how[1:] in ("lt", "gt") else "or"
        self.emit(f"not.pred {out}, {low}")
        self.emit(f"{op}.pred {target}, {out}, {high}")

    @_by_element
    def _fcmp(self, how: str, kind: str, target: str, sides: Sequence[str]) -> None:
        if how in ("true", "false"):
            self.emit(f"setp.{'eq' if how == 'true' else 'ne'}.s32 {target}, 0, 0")
            return
        name = _COMPARED.get(how) or (how[1:] if how[0] == "o" else how[1:] + "u")
        if bits(kind) == 16:
            kind, sides = "float", self._widened(kind, sides)
        a, b = self.kept(kind, sides[0]), sides[1]
        self.emit(f"setp.{name}.{FLOATS[kind]} {target}, {a}, {b}")

    def _select(self, ins: Instruction) -> None:
        (chooser, test), (kind, a), (_, b) = operands(ins.rest)
        if kind.startswith("ptr"):
            space = self.spaces.of(ins.name)
            x, y, p = self.address(a, space), self.address(b, space), self.value("i1", test)
            self._choose("ptr", self.target(ins), p, x, y)
        elif kind == "i1" and (a == "true" or b == "false"):
            p = self.value("i1", test)
            op, other = ("and", a) if b == "false" else ("or", b)
            self.emit(f"{op}.pred {self.target(ins)}, {p}, {self.value(kind, other)}")
        elif chooser == "i1":
            p, both = self.value("i1", test), (self.parts(kind, a), self.parts(kind, b))
            made = zip(self.module.parts(kind), self.targets(ins.name), strict=True)
            for (scalar, target), x, y in zip(made, *both, strict=True):
                self._choose(scalar, target, p, x, y)
        else:  # by a vector: element by element
            inner = repeated(kind)[1]
            sides = [self.elements(*side) for side in ((chooser, test), (kind, a), (kind, b))]

            def chosen(targets: list[str]) -> None:
                for target, *given in zip(targets, *sides, strict=True):
                    self._choose(inner, target, *given)

            self.make(ins.name, chosen)

    def _choose(self, kind: str, target: str, p: str, x: str, y: str) -> None:
        """x where p, else y."""
        if kind != "i1":
            self.emit(f"selp.{FAMILIES[family(kind)]} {target}, {x}, {y}, {p}")
            return
        u, v, w = (self.new("i1") for _ in range(3))
        self.emit(f"and.pred {u}, {p}, {x}")
        self.emit(f"not.pred {v}, {p}")
        self.emit(f"and.pred {w}, {v}, {y}")
        self.emit(f"or.pred {target}, {u}, {w}")

    # -- conversions --------------------------------------------------------------------------

    def _cast(self, ins: Instruction) -> None:
        kind, text, to = cast(ins.rest)
        before, after = (self.module.scalars(k)[0][1] for k in (kind, to))
        given = self.elements(kind, text)

        def elements(targets: list[str]) -> None:
            for target, operand in zip(targets, given, strict=True):
                self._convert(ins.op, before, after, target, operand)

        self.make(ins.name, elements)

    def _convert(self, op: str, a: str, b: str, target: str, operand: str) -> None:
        operand = self.kept(a, operand)
        if op in ("zext", "sext"):
            if a == "i1":
                one = "1" if op == "zext" else "-1"
                self.emit(f"selp.b{container(b)} {target}, {one}, 0, {operand}")
                return
            letter, width = "s" if op == "sext" else "u", bits(a)
            if width not in (8, 16, 32):
                operand, width = self.clean(a, operand, op == "sext"), container(a)
            self.emit(f"cvt.{letter}{container(b)}.{letter}{width} {target}, {operand}")
        elif op == "trunc":
            width = container(a)
            if b == "i1":
                bit = self.new(a)
                self.emit(f"and.b{width} {bit}, {operand}, 1")
                self.emit(f"setp.ne.s{width} {target}, {bit}, 0")
            else:
                self.emit(f"cvt.u{container(b)}.u{width} {target}, {operand}")
        elif op in ("sitofp", "uitofp"):
            letter = op[0]
            if a == "i1":
                operand, p = self.new("i32"), operand
                self.emit(f"selp.b32 {operand}, {'-1' if letter == 's' else '1'}, 0, {p}")
                a = "i32"
            operand = self.clean(a, operand, letter == "s")
            self.emit(f"cvt.rn.{FLOATS[b]}.{letter}{container(a)} {target}, {operand}")
        elif op in ("fptosi", "fptoui"):
            letter = op[4]
            if b == "i1":
                raise Refused(f"{op} to i1")
            self.emit(f"cvt.rzi.{letter}{container(b)}.{FLOATS[a]} {target}, {operand}")
        else:
            rounded = "rn." if op == "fptrunc" else ""
            self.emit(f"cvt.{rounded}{FLOATS[b]}.{FLOATS[a]} {target}, {operand}")

    def _bitcast(self, ins: Instruction) -> None:
        kind, text, to = cast(ins.rest)
        given, targets = self.in_registers(kind, text), self.targets(ins.name)
        wide, narrow = len(given), len(targets)
        size = 8 * self.module.size(kind) // max(min(wide, narrow), 1)
        if "i1" in self.module.parts(kind) + self.module.parts(to):
            raise Refused(f"a bitcast of {kind} to {to}")
        step, other = max(wide // narrow, 1), max(narrow // wide, 1)
        for i in range(min(wide, narrow)):
            a, b = given[i * step : (i + 1) * step], targets[i * other : (i + 1) * other]
            words = [t[0] if len(t) == 1 else f"{{{', '.join(t)}}}" for t in (b, a)]
            self.emit(f"mov.b{size} {words[0]}, {words[1]}")

    def _ptrtoint(self, ins: Instruction) -> None:
        kind, text, to = cast(ins.rest)
        number, target = self.address(text, of_type(kind)), self.target(ins)
        if to == "i64":
            self.emit(f"mov.b64 {target}, {number}")
        else:
            self.emit(f"cvt.u{container(to)}.u64 {target}, {self.kept('i64', number)}")

    def _inttoptr(self, ins: Instruction) -> None:
        kind, text, _ = cast(ins.rest)
        operand = self.kept(kind, self.value(kind, text))
        if container(kind) == 64:
            self.emit(f"mov.b64 {self.target(ins)}, {operand}")
        else:
            self.emit(f"cvt.u64.u{container(kind)} {self.target(ins)}, {operand}")

    def _addrspacecast(self, ins: Instruction) -> None:
        text, space = cast(ins.rest)[1], self.spaces.of(ins.name)
        self.emit(f"mov.b64 {self.target(ins)}, {self.address(text, space)}")

    # -- elements of pairs --------------------------------------------------------------------

    def _extractelement(self, ins: Instruction) -> None:
        (kind, text), (_, index) = operands(ins.rest)
        if not index.isdecimal():
            raise Refused("extractelement at a place that is not known beforehand")
        pair = self.in_registers(kind, text)[int(index) // 2]
        two = ["_", "_"]
        two[int(index) % 2] = self.target(ins)
        self.emit(f"mov.b32 {{{two[0]}, {two[1]}}}, {pair}")

    def _insertelement(self, ins: Instruction) -> None:
        (kind, text), (inner, value), (_, index) = operands(ins.rest)
        if not index.isdecimal():
            raise Refused("insertelement at a place that is not known beforehand")
        elements = [self.kept(inner, e) for e in self.elements(kind, text)]
        elements[int(index)] = self.kept(inner, self.value(inner, value))
        self._put(ins, inner, elements)

    def _shufflevector(self, ins: Instruction) -> None:
        (kind, a), (_, b), (mask, picks) = operands(ins.rest)
        both = [*self.elements(kind, a), *self.elements(kind, b)]
        self._put(ins, repeated(kind)[1], [both[i] for i in picked(mask, picks)])

    def _put(self, ins: Instruction, inner: str, elements: Sequence[str]) -> None:
        def moves(targets: list[str]) -> None:
            for target, element in zip(targets, elements, strict=True):
                self.move(inner, target, element)

        self.make(ins.name, moves)

    # -- control ------------------------------------------------------------------------------

    def _edge(self, to: str) -> list[tuple[str, str, Part | tuple[str, int]]]:
        """What is copied on the way to a block: register, type, and a part or, of a pointer that
        changes its space, its text and the space.
        """
        moves: list[tuple[str, str, Part | tuple[str, int]]] = []
        for name, kind, sources in self._phis[to]:
            text, targets = sources[self._block], self.targets(name)
            if text in ("undef", "poison"):
                continue
            space, have = self.spaces.of(name), self.spaces.of(text)
            if kind.startswith("ptr") and space != have and (space in OWN or have in OWN):
                moves.append((targets[0], "ptr", (text, space)))
                continue
            parts = self.values.parts(kind, text)
            for target, part, scalar in zip(targets, parts, self.module.parts(kind), strict=True):
                if part.unit is None or part.offset or self._register(part.unit) != target:
                    moves.append((target, scalar, part))
        return moves

    def _copy(self, to: str) -> None:
        """The copies on the way to a block, all at once: one that overwrites what another one reads
        comes after it.
        """
        todo = []
        for target, scalar, value in self._edge(to):
            if not isinstance(value, Part):
                todo.append((target, self.address(*value), 0, scalar))
            elif value.unit:
                todo.append((target, self._register(value.unit), value.offset, scalar))
            else:
                todo.append((target, self.part(scalar, value), 0, scalar))
        while todo:
            free = [m for m in todo if not any(m[0] == o[1] for o in todo if o is not m)]
            if not free:  # a ring: one value steps aside
                target, source, offset, scalar = todo[0]
                aside = self.new(scalar)
                self.move(scalar, aside, source)
                todo[0] = (target, aside, offset, scalar)
                continue
            for target, source, offset, scalar in free:
                if offset:
                    self.emit(f"add.s64 {target}, {source}, {offset}")
                else:
                    self.move(scalar, target, source)
            todo = [m for m in todo if m not in free]

    def _go(self, to: str) -> None:
        """On the way to a block: its copies, and a jump if it is not the next one."""
        self._copy(to)
        if to != self._next:
            self.emit(f"bra {self._labels[to]}")

    def _br(self, ins: Instruction) -> None:
        labels = re.findall(r"label %([\w.$-]+)", ins.rest)
        if len(labels) == 1:
            self._go(labels[0])
            return
        yes, no = labels
        p = self.kept("i1", self.value("i1", split(ins.rest)[0][3:]))
        negated = ""
        if (self._edge(yes) and not self._edge(no)) or (
            not self._edge(yes) and not self._edge(no) and yes == self._next
        ):
            yes, no, negated = no, yes, "!"
        if not self._edge(yes):
            self.emit(f"@{negated}{p} bra {self._labels[yes]}")
            self._go(no)
            return
        self._unless(p, no)
        self._go(yes)

    def _unless(self, guard: str, to: str) -> None:
        """The way to a block with its copies, for those whose guard does not hold."""
        other = self.label()
        self.emit(f"@{guard} bra {other}")
        self._copy(to)
        self.emit(f"bra {self._labels[to]}")
        self.code.append(f"{other}:")

    def _switch(self, ins: Instruction) -> None:
        match = re.match(r"(i\d+) (.+?), label %([\w.$-]+) \[(.*)\]", ins.rest)
        assert match, ins
        kind, text, default, cases = match.groups()
        value = self.kept(kind, self.clean(kind, self.value(kind, text), True))
        for number, label in re.findall(r"i\d+ (-?\d+), label %([\w.$-]+)", cases):
            p = self.new("i1")
            self.emit(f"setp.eq.s{container(kind)} {p}, {value}, {number}")
            if self._edge(label):
                self._unless(f"!{p}", label)
            else:
                self.emit(f"@{p} bra {self._labels[label]}")
        self._go(default)

    def _ret(self, ins: Instruction) -> None:
        if ins.rest and not ins.rest.startswith("void"):
            kind, text = take_type(ins.rest)
            self.store_parameter(kind, self.in_registers(kind, text), "func_retval0")
        self.emit("ret")

    def _unreachable(self, ins: Instruction) -> None:
        self.emit("exit")

    def _call(self, ins: Instruction) -> None:
        calls.write(self, ins, call(ins.rest))

    # -- the whole ----------------------------------------------------------------------------

    def body(self) -> list[str]:
        """The function's lines between its braces."""
        lines = [f"\t.reg .{FAMILIES[f]} %{f}<{n + 1}>;" for f, n in self.counts.items() if n]
        if self.depot:
            lines.append(f"\t.local .align 16 .b8 {self._depot_name}[{self.depot}];")
        return lines + self.code


def symbol(name: str) -> str:
    """A name as PTX takes it. As LLVM's NVPTX back end writes it."""
    return re.sub(r"[.@]", "_$_", name)
