"""PTX text to data: functions, instructions with their source lines, variables.

The grammar is the part of the PTX ISA that NVRTC writes, inline assembly included. Every
instruction keeps the line of the main source file that it belongs to, and those of the calls that
were inlined: code from a header is attributed to the line that called it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import PurePath
from types import MappingProxyType

from nogpu.emulator.ptx import opcodes
from nogpu.emulator.ptx.sites import Line, calls_of
from nogpu.errors import EmulationError

BITS = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bsu" for bits in (8, 16, 32, 64, 128)},
    "f16": 16,
    "bf16": 16,
    "f16x2": 32,
    "bf16x2": 32,
    "tf32": 32,
    "f32": 32,
    "f64": 64,
}
"""Width of the PTX types in bits."""


@dataclass(frozen=True)
class Register:
    """A register name, unique within its function."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A literal: an integer, or the bits of a floating-point value (`kind` "f32" or "f64")."""

    value: int
    kind: str = "int"


@dataclass(frozen=True)
class Symbol:
    """A variable, parameter, label or special register, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """`[base+offset]`: base is a register, a symbol or an absolute number."""

    base: Register | Symbol | Immediate
    offset: int = 0


@dataclass(frozen=True)
class Box:
    """`[map, {x, y}]`: a tensor map, and where a box begins, the fastest axis first."""

    base: Address
    start: tuple[Operand | None, ...]


@dataclass(frozen=True)
class Vector:
    """`{a, b, ...}`; None stands for the sink `_`."""

    items: tuple[Operand | None, ...]


@dataclass(frozen=True)
class Negated:
    """`!p` as an operand."""

    operand: Register


@dataclass(frozen=True)
class Pair:
    """`p|q`: the two destinations of setp, shfl and match."""

    first: Operand | None
    second: Operand | None


Operand = Register | Immediate | Symbol | Address | Box | Vector | Negated | Pair


@dataclass
class Instruction:
    """One PTX instruction: `parts` is the opcode split at its dots.

    place: file, line and column of its .loc, and the same of the call where it was inlined. unread:
    why the operands are missing, for opcodes that are refused anyway.
    """

    opcode: str
    parts: tuple[str, ...]
    operands: tuple[Operand | None, ...]
    line: int
    guard: str | None = None
    guard_negated: bool = False
    # (returns, function, arguments); through a register: no name, and the register is the operand
    call: tuple[tuple[str, ...], str, tuple[str, ...]] | None = None
    text: str = ""
    place: tuple[str, ...] = ()
    unread: str = ""

    @cached_property
    def root(self) -> str:
        """The opcode's first word."""
        return self.parts[0]

    @cached_property
    def op(self) -> opcodes.Op:
        """The opcode's row of the table."""
        return opcodes.row(self.parts)

    @property
    def types(self) -> tuple[str, ...]:
        """The types among its words, in order."""
        return _types(self.parts)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Registers that it reads; a write under a guard keeps what was there, and so reads it."""
        first, *rest = self.operand_registers or [[]]
        first_reads = first if not self.has_target or self.guard or self.op.keeps else []
        guard = [self.guard] if self.guard else []
        return (*guard, *first_reads, *(name for names in rest for name in names))

    @cached_property
    def writes(self) -> tuple[str, ...]:
        """Registers that it writes."""
        return tuple(self.operand_registers[0]) if self.has_target else ()

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Variables, functions and labels that its operands name."""
        return tuple(o.name for o in _leaves(self.operands) if type(o) is Symbol)

    @property
    def has_target(self) -> bool:
        """Whether the first operand is a register, or several, that it writes."""
        first = self.operands[0] if self.operands else None
        return self.op.writes and first is not None and type(first) not in (Address, Box)

    @cached_property
    def operand_registers(self) -> list[list[str]]:
        """Names of the registers of each operand."""
        names = []
        for o in self.operands:
            if type(o) is Register:
                names.append([o.name])
            else:
                names.append([x.name for x in _leaves((o,)) if type(x) is Register])
        return names


@lru_cache(maxsize=4096)
def _types(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(p for p in parts[1:] if p in BITS)


def _leaves(operands: tuple[Operand | None, ...]) -> list[Operand | None]:
    """The registers, numbers and symbols that operands are made of."""
    out: list[Operand | None] = []
    for o in operands:
        kind = type(o)
        if kind is Register or kind is Immediate or kind is Symbol:
            out.append(o)
        elif isinstance(o, Address):
            out.append(o.base)
        elif isinstance(o, Box):
            out += _leaves((o.base, *o.start))
        elif isinstance(o, Vector):
            out += _leaves(o.items)
        elif isinstance(o, Pair):
            out += _leaves((o.first, o.second))
        elif isinstance(o, Negated):
            out.append(o.operand)
    return out


@dataclass
class Variable:
    """A module or function variable. `data` holds initial bytes; size None means dynamic shared."""

    name: str
    space: str
    align: int
    size: int | None
    data: bytes = b""
    links: tuple[tuple[int, str, int], ...] = ()  # (byte position, symbol, offset)


@dataclass
class Parameter:
    """A formal parameter: PTX type, and bytes for one given as an array of bytes."""

    name: str
    type: str
    align: int
    size: int


@dataclass
class Function:
    """A kernel entry or a device function."""

    name: str
    is_entry: bool
    params: list[Parameter]
    returns: list[Parameter]
    registers: dict[str, str] = field(default_factory=dict)  # name -> PTX type
    variables: list[Variable] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # label -> instruction index
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)  # .branchtargets
    # .maxntid, .reqntid, .reqnctapercluster ...
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    has_body: bool = True

    @cached_property
    def spans(self) -> dict[int, int]:
        """The basic blocks: the end of each by its first instruction. The last one is empty."""
        end = len(self.code)
        starts = {0, end, *self.labels.values()}
        starts |= {i + 1 for i, ins in enumerate(self.code) if ins.op.ends}
        return {**dict(pairwise(sorted(starts))), end: end}

    @cached_property
    def after(self) -> dict[int, tuple[int, ...]]:
        """The basic blocks that may run after each, all by their first instructions."""
        return {start: self._ways(end) if start < end else () for start, end in self.spans.items()}

    def _ways(self, end: int) -> tuple[int, ...]:
        """The blocks that may run after the one that ends here."""
        last = self.code[end - 1]
        name = getattr(last.operands[-1], "name", "") if last.operands else ""
        if last.op.ends == "jump":
            target = (self.labels[name],) if name in self.labels else ()
            return (*target, end) if last.guard else target
        if last.op.ends == "table":
            return tuple(self.labels[n] for n in self.tables.get(name, ()) if n in self.labels)
        return () if last.op.ends in ("exit", "trap") and not last.guard else (end,)


@dataclass
class Module:
    """A parsed PTX module."""

    target: str = ""
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)


def rewritten(
    function: Function,
    becomes: Callable[[Instruction], Sequence[Instruction]],
    registers: Mapping[str, str] = MappingProxyType({}),
) -> Function:
    """A function with others in place of each instruction. registers: more of them, by type."""
    code: list[Instruction] = []
    moved: dict[int, int] = {}
    for i, ins in enumerate(function.code):
        moved[i] = len(code)
        code += becomes(ins)
    moved[len(function.code)] = len(code)
    labels = {name: moved[i] for name, i in function.labels.items()}
    return replace(
        function, code=code, labels=labels, registers={**function.registers, **registers}
    )


_TOKEN = re.compile(r"""\s+ | //[^\n]* | /\*.*?\*/ """, re.VERBOSE | re.DOTALL)
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)([^\n]*)")
_INLINED = re.compile(r"inlined_at\s+(\d+)\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"[^\n]*')
_TARGET = re.compile(r"\.target\s+([^\s,]*)[^\n]*")
_IGNORED = re.compile(r"\.(?:version|address_size)[^\n]*")
_FUNC = re.compile(r"((?:\.(?:visible|extern|weak|common|noreturn)\s+)*)\.(entry|func)\b")
_INT = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_NAME = re.compile(r"[A-Za-z_$%][\w$.]*$")
_SPECIAL = re.compile(
    r"%(?:tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|smid|nsmid|gridid|clock|clock_hi|clock64"
    r"|lanemask_(?:eq|le|lt|ge|gt)|globaltimer|globaltimer_lo|globaltimer_hi"
    r"|dynamic_smem_size|total_smem_size|aggr_smem_size|envreg\d+|pm\d+(?:_64)?"
    r"|reserved_smem_\w+|is_explicit_cluster|clusterid|nclusterid|cluster_(?:ctaid|nctaid|ctarank"
    r"|nctarank))(?:\.[xyzw])?$"
)
_DECLARED = re.compile(
    r"\.(local|shared|global|const|param)\b((?:\s*\.(?:attribute\([^)]*\)|align\s+\d+|v[248]"
    r"|[a-z]+\d*(?:x2)?(?:::\w+)?))*)\s*(.*)$",
    re.DOTALL,
)


class _Scanner:
    """Walks over PTX text and hands out statements."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> None:
        while match := _TOKEN.match(self.text, self.at):
            self.at = match.end()

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        if result := pattern.match(self.text, self.at):
            self.at = result.end()
        return result

    def starts(self, word: str) -> bool:
        return self.text.startswith(word, self.at)

    def until(self, stop: str) -> str:
        """Text up to `stop`, which is consumed; comments within it are removed."""
        end = self.text.find(stop, self.at)
        if end < 0:
            raise EmulationError(
                "the PTX ends within a statement that begins "
                f"{self.text[self.at : self.at + 60]!r}; "
                f"expected {stop!r}. Give PTX as NVRTC writes it"
            )
        chunk = self.text[self.at : end]
        self.at = end + len(stop)
        if "//" in chunk:
            chunk = re.sub(r"//[^\n]*", "", chunk)
        return chunk

    def block(self) -> str:
        """Text between a brace pair that begins here."""
        depth, start = 0, self.at
        for match in re.compile(r"[{}]").finditer(self.text, start):
            depth += {"{": 1, "}": -1}[match.group()]
            if depth == 0:
                self.at = match.end()
                return self.text[start + 1 : match.start()]
        raise EmulationError("the PTX has a '{' without its '}'; give PTX as NVRTC writes it")


def parse(text: str, main_file: str = "") -> Module:
    """Parse a PTX module. main_file: name under which the main source was compiled.

    Raises EmulationError on text that is not PTX.
    """
    scan = _Scanner(text)
    files = {int(m.group(1)): m.group(2) for m in _FILE.finditer(text)}
    main = _main_index(files, main_file)
    module = Module()
    while True:
        scan.skip()
        if scan.at >= len(text):
            return module
        if scan.match(_FILE) or scan.match(_LOC):
            continue
        if scan.starts(".section"):
            scan.until("{")
            scan.at -= 1
            scan.block()
        elif target := scan.match(_TARGET):
            module.target = target[1]
        elif scan.match(_IGNORED):
            pass
        elif scan.match(_FUNC):
            function = _function(scan, scan.text[scan.at - 4 : scan.at] != "func", main)
            old = module.functions.get(function.name)
            if old is None or not old.has_body:
                module.functions[function.name] = function
        elif scan.starts(".pragma") or scan.starts(".alias"):
            scan.until(";")
        else:
            for variable in _variables(scan.until(";")):
                old_var = module.variables.get(variable.name)
                if old_var is None or not old_var.data:
                    module.variables[variable.name] = variable


def _main_index(files: dict[int, str], main_file: str) -> int:
    for name in (main_file, PurePath(main_file).name) if main_file else ():
        for index, path in files.items():
            if f"/{path}".endswith(f"/{name}"):
                return index
    return min(files, default=1)


def _parameters(scan: _Scanner) -> list[Parameter]:
    """The parameters that stand here in parentheses; none if there are no parentheses."""
    scan.skip()
    if not scan.match(re.compile(r"\(")):
        return []
    result = []
    for chunk in scan.until(")").split(","):
        chunk = chunk.strip()
        if not chunk:
            continue
        match = re.match(
            r"\.(?:param|reg)\s+(.*?)([A-Za-z_$%][\w$]*)\s*(?:\[(\d*)\])?$", chunk, re.DOTALL
        )
        if not match:
            raise EmulationError(f"cannot read the PTX parameter {chunk!r}")
        qualifiers, name, count = match.groups()
        aligned = re.search(r"\.align\s+(\d+)", qualifiers.split(".ptr")[0])
        types = [t for t in re.findall(r"\.(\w+)", qualifiers) if t in BITS]
        if not types:
            raise EmulationError(f"the PTX parameter {chunk!r} has no type")
        width = max(BITS[types[0]] // 8, 1)
        size = width * int(count or 1) if count is not None else width
        align = int(aligned.group(1)) if aligned else width
        result.append(Parameter(name, types[0] if count is None else "bytes", align, size))
    return result


def _function(scan: _Scanner, is_entry: bool, main: int) -> Function:
    returns = [] if is_entry else _parameters(scan)
    scan.skip()
    name = scan.match(re.compile(r"[\w$]+"))
    if not name:
        raise EmulationError("a PTX function has no name")
    function = Function(name[0], is_entry, _parameters(scan), returns)
    while True:
        scan.skip()
        if scan.starts(";"):
            scan.at += 1
            function.has_body = False
            return function
        if scan.starts("{"):
            _Body(scan, function, main).read()
            return function
        directive = scan.match(re.compile(r"\.(\w+)\s*([\d,\s]*)"))
        if not directive:
            near = scan.text[scan.at : scan.at + 40]
            raise EmulationError(f"the PTX function {function.name} has no body near {near!r}")
        numbers = tuple(int(n) for n in re.findall(r"\d+", directive.group(2)))
        function.limits[directive.group(1)] = numbers


class _Body:
    """Reads one function body; scopes are flattened, a register or a label declared twice gets two
    names.
    """

    def __init__(self, scan: _Scanner, function: Function, main: int) -> None:
        self.scan = scan
        self.function = function
        self.main = main
        self.line = 0
        self.place: tuple[str, ...] = ()
        self.scopes: list[dict[str, str]] = []
        # Of each scope: where its instructions and its tables begin, and what its own labels are
        # called in the function.
        self.labels: list[tuple[int, int, dict[str, str]]] = []
        self.families: list[tuple[str, str]] = []  # (prefix, type) of %r<12>
        self.wide: set[str] = set()  # registers of 128 bits
        self.renamed = 0
        self.places: dict[tuple[str, ...], int] = {}  # (file, line, column): line of the main file

    def read(self) -> None:
        scan = self.scan
        scan.at += 1
        self._open()
        pending_label = ""
        while self.scopes:
            scan.skip()
            if scan.at >= len(scan.text):
                raise EmulationError(f"the PTX of {self.function.name} ends before its last '}}'")
            if scan.starts("}"):
                scan.at += 1
                self._close()
            elif scan.starts("{"):
                scan.at += 1
                self._open()
            elif scan.starts(";"):
                scan.at += 1
            elif loc := scan.match(_LOC):
                self._locate(loc)
            elif scan.match(_FILE):
                pass
            elif label := scan.match(_LABEL):
                pending_label = self._label(label.group(1))
            elif scan.starts("."):
                self._directive(scan.until(";"), pending_label)
            else:
                self._instruction(scan.until(";"))

    def _open(self) -> None:
        self.scopes.append({})
        self.labels.append((len(self.function.code), len(self.function.tables), {}))

    def _close(self) -> None:
        """End a scope: what branches in it means its own labels, which may come after it."""
        self.scopes.pop()
        code, tables = self.function.code, self.function.tables
        start, first, own = self.labels.pop()
        for ins in code[start:] if own else ():
            if ins.op.ends in ("jump", "table"):
                ins.operands = tuple(
                    Symbol(own.get(o.name, o.name)) if type(o) is Symbol else o
                    for o in ins.operands
                )
        for name in list(tables)[first:]:
            tables[name] = tuple(own.get(n, n) for n in tables[name])

    def _label(self, name: str) -> str:
        """Enter a label; one of an inner scope gets a name of its own."""
        unique = name
        if len(self.scopes) > 1:
            self.renamed += 1
            unique = self.labels[-1][-1][name] = f"{name}#{self.renamed}"
        self.function.labels[unique] = len(self.function.code)
        return unique

    def _locate(self, loc: re.Match[str]) -> None:
        file, line = int(loc.group(1)), int(loc.group(2))
        inlined = _INLINED.search(loc.group(4))
        self.place = (*loc.groups()[:3], *(inlined.groups() if inlined else ()))
        of_main, caller = False, None
        if inlined:
            of_main = int(inlined.group(1)) == self.main
            # Where that call was inlined to itself: the text says so just before.
            caller = self.places.get(inlined.groups())
            if caller is None and of_main:
                caller = int(inlined.group(2)) or self.line
        if file == self.main:
            # Line 0 means "no line": keep the last one, or the function's own.
            called = (int(caller), *calls_of(caller)) if caller is not None and of_main else ()
            self.line = Line(line, called) if line else self.line
        elif caller is not None:
            self.line = caller
        self.places[loc.groups()[:3]] = self.line

    def _directive(self, text: str, label: str) -> None:
        if text.startswith(".reg"):
            match = re.match(r"\.reg\s*((?:\.\w+\s*)+)(.*)$", text, re.DOTALL)
            types = [t for t in re.findall(r"\.(\w+)", match[1]) if t in BITS] if match else []
            if not match or not types:
                raise EmulationError(f"cannot read the PTX declaration {text.strip()!r}")
            for item in match.group(2).split(","):
                self._declare(item.strip(), types[-1])
        elif text.startswith(".branchtargets"):
            names = tuple(n.strip() for n in text[len(".branchtargets") :].split(","))
            self.function.tables[label] = names
        elif text.startswith((".pragma", ".calltargets", ".callprototype")):
            pass
        elif text.startswith((".local", ".shared", ".param", ".global", ".const")):
            for variable in _variables(text):
                if not any(v.name == variable.name for v in self.function.variables):
                    self.function.variables.append(variable)
        else:
            raise EmulationError(
                f"unknown PTX directive {text.split()[0]!r} in {self.function.name}"
            )

    def _declare(self, item: str, kind: str) -> None:
        family = re.match(r"([\w$%]+)<(\d+)>$", item)
        if family:
            self.families.append((family.group(1), kind))
            return
        unique = item
        if item in self.function.registers:
            self.renamed += 1
            unique = f"{item}#{self.renamed}"
        self.scopes[-1][item] = unique
        if kind == "b128":  # two registers of 64 bits: see `_halves`
            for half in ("low", "high"):
                self.function.registers[f"{unique}#{half}"] = "b64"
            self.wide.add(unique)
            return
        self.function.registers[unique] = kind

    def _register(self, name: str) -> Register | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return Register(scope[name])
        family = re.match(r"(%?[A-Za-z_$]+)\d+$", name)
        if family:
            for prefix, kind in self.families:
                if prefix == family.group(1):
                    self.function.registers[name] = kind
                    self.scopes[0][name] = name
                    return Register(name)
        return None

    def _instruction(self, text: str) -> None:
        source = " ".join(text.split())
        guard, negated = None, False
        body = source
        if body.startswith("@"):
            match = re.match(r"@(!?)\s*([\w$%]+)\s+(.*)$", body)
            if not match:
                raise EmulationError(f"cannot read the PTX instruction {source!r}")
            register = self._register(match.group(2))
            if register is None:
                raise EmulationError(f"unknown predicate {match.group(2)!r} in {source!r}")
            guard, negated, body = register.name, bool(match.group(1)), match.group(3)
        head, _, rest = body.partition(" ")
        parts = tuple(head.split("."))
        ins = Instruction(head, parts, (), self.line, guard, negated, text=source, place=self.place)
        if parts[0] == "call":
            returns, name, arguments = self._call(rest, source)
            if register := self._register(name):
                name, ins.operands = "", (register,)
            ins.call = (returns, name, arguments)
        else:
            try:
                ins.operands = tuple(self._operand(item, source) for item in _split(rest))
            except EmulationError as error:
                if opcodes.known(parts[0]):
                    raise
                ins.unread = str(error)  # such as [t, {x, y}] of a texture: refused by its name
        self.function.code += _halves(ins) if "b128" in parts else [ins]

    def _call(self, rest: str, source: str) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
        groups = re.match(r"(?:\(([^)]*)\)\s*,\s*)?([\w$%]+)\s*(?:,\s*\(([^)]*)\))?(.*)$", rest)
        if not groups:
            raise EmulationError(f"cannot read the PTX call {source!r}")
        names = [
            tuple(n.strip() for n in (groups.group(i) or "").split(",") if n.strip())
            for i in (1, 3)
        ]
        return names[0], groups.group(2), names[1]

    def _operand(self, text: str, source: str) -> Operand | None:
        text = text.strip()
        if text == "_":
            return None
        if text.startswith("{"):
            return Vector(tuple(self._operand(t, source) for t in _split(text[1:-1])))
        if text.startswith("["):
            return self._place(text[1:-1], source)
        if text.startswith("!"):
            inner = self._operand(text[1:], source)
            if not isinstance(inner, Register):
                raise EmulationError(f"'!' needs a predicate in {source!r}")
            return Negated(inner)
        if "|" in text:
            first, second = text.split("|", 1)
            return Pair(self._operand(first, source), self._operand(second, source))
        number = literal(text)
        if number is not None:
            return number
        register = self._register(text)
        if register is not None and register.name in self.wide:
            return Vector(tuple(Register(f"{register.name}#{half}") for half in ("low", "high")))
        if register is not None:
            return register
        if text.startswith("%") and not _SPECIAL.match(text):
            component = re.match(r"(%[\w$]+)\.[xyzwrgba]$", text)
            if component and self._register(component.group(1)):
                raise EmulationError(f"vector registers are not supported: {source!r}")
            raise EmulationError(f"unknown register {text!r} in {source!r}")
        plus = re.match(r"([A-Za-z_$][\w$]*)\s*\+\s*([+-]?\w+)$", text)
        if plus and (offset := literal(plus.group(2))) is not None:
            return Symbol(plus.group(1), offset.value)
        if _NAME.match(text):
            return Symbol(text)
        raise EmulationError(f"cannot read the operand {text!r} of the PTX instruction {source!r}")

    def _place(self, text: str, source: str) -> Address | Box:
        base, *start = _split(text)
        if not start:
            return self._address(text, source)
        where = self._operand(start[0], source)
        if len(start) > 1 or not isinstance(where, Vector):
            raise EmulationError(f"cannot read the address [{text}] of {source!r}")
        return Box(self._address(base, source), where.items)

    def _address(self, text: str, source: str) -> Address:
        text = text.strip()
        match = re.match(r"([\w$%.]+)\s*(?:\+\s*([+-]?\w+)|(-\s*\w+))?$", text)
        if match and (offset := literal((match[2] or match[3] or "0").replace(" ", ""))):
            base = self._operand(match[1], source)
            if isinstance(base, Register | Symbol | Immediate):
                return Address(base, offset.value)
        raise EmulationError(f"cannot read the address [{text}] of {source!r}")


def _halves(ins: Instruction) -> list[Instruction]:
    """Moves of 128 bits as moves of their halves; other instructions take both as a vector."""
    if ins.root == "mov":
        to, source = (o.items if isinstance(o, Vector) else () for o in ins.operands)
        parts = tuple(p.replace("b128", "b64") for p in ins.parts)
        pairs = zip(to, source, strict=False)
        return [replace(ins, opcode=".".join(parts), parts=parts, operands=pair) for pair in pairs]
    if ins.root in ("ld", "st"):
        parts = tuple(w for p in ins.parts for w in (("v2", "b64") if p == "b128" else (p,)))
        return [replace(ins, opcode=".".join(parts), parts=parts)]
    return [ins]


def literal(text: str) -> Immediate | None:
    """The number that a PTX literal stands for, or None."""
    if _INT.match(text):
        digits = text.rstrip("U")
        sign = -1 if digits.startswith("-") else 1
        digits = digits.lstrip("+-")
        base = 8 if re.fullmatch(r"0[0-7]+", digits) else 10 if digits.isdecimal() else 0
        return Immediate(sign * int(digits, base))
    if re.match(r"0[fF][0-9a-fA-F]{8}$", text):
        return Immediate(int(text[2:], 16), "f32")
    if re.match(r"0[dD][0-9a-fA-F]{16}$", text):
        return Immediate(int(text[2:], 16), "f64")
    if re.match(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?$", text):
        return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), "f64")
    return None


def _split(text: str) -> list[str]:
    """Split at commas that stand outside braces, brackets and parentheses."""
    if "{" not in text and "(" not in text and "[" not in text:
        return [t for t in (p.strip() for p in text.split(",")) if t]
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "{[(":
            depth += 1
        elif c in "}])":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def _variables(text: str) -> list[Variable]:
    """Variables of one declaration such as `.shared .align 4 .b8 A_tile[4096]`."""
    text = re.sub(r"^(?:\s*\.(?:visible|extern|weak|common)\b)+", "", text.strip()).strip()
    declaration = _DECLARED.match(text)
    if not declaration:
        raise EmulationError(f"cannot read the PTX statement {text[:80]!r}")
    space, qualifiers, rest = declaration.groups()
    types = [t for t in re.findall(r"\.(\w+)", qualifiers) if t in BITS]
    if not types:
        kind = re.findall(r"\.(\w+)", qualifiers)
        raise EmulationError(
            f"PTX variables of type {kind[-1] if kind else '?'} are not emulated: {text[:80]!r}. "
            "Use plain arrays"
        )
    lanes = re.search(r"\.v([248])", qualifiers)
    width = max(BITS[types[-1]] // 8, 1) * (int(lanes.group(1)) if lanes else 1)
    aligned = re.search(r"\.align\s+(\d+)", qualifiers)
    align = int(aligned.group(1)) if aligned else width
    result = []
    for item in _split(rest):
        declared, _, initial = item.partition("=")
        match = re.match(r"([\w$%]+)\s*((?:\[\s*\d*\s*\]\s*)*)$", declared.strip())
        if not match:
            raise EmulationError(f"cannot read the PTX variable {item!r}")
        size: int | None = width
        for count in re.findall(r"\[\s*(\d*)\s*\]", match.group(2)):
            size = None if count == "" or size is None else size * int(count)
        data, links = _initial(initial.strip(), types[-1], width) if initial.strip() else (b"", ())
        if size is None and data:
            size = len(data)
        result.append(Variable(match.group(1), space, align, size, data, links))
    return result


def _initial(text: str, kind: str, width: int) -> tuple[bytes, tuple[tuple[int, str, int], ...]]:
    items = _split(text.replace("{", " ").replace("}", " "))
    out, links = bytearray(), []
    for item in items:
        number = literal(item)
        if number is None:
            linked = re.match(r"(?:generic\(\s*([\w$]+)\s*\)|([\w$]+))\s*(?:\+\s*(\d+))?$", item)
            if not linked:
                raise EmulationError(f"cannot read the PTX initial value {item!r}")
            links.append((len(out), linked.group(1) or linked.group(2), int(linked.group(3) or 0)))
            out += bytes(width)
        elif number.kind == "int" and kind.startswith("f"):
            out += struct.pack("<d" if width == 8 else "<f", float(number.value))
        elif number.kind == "f64" and kind == "f32":
            value = struct.unpack("<d", number.value.to_bytes(8, "little"))[0]
            out += struct.pack("<f", value)
        else:
            out += (number.value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return bytes(out), tuple(links)
