"""The text of an LLVM module as data: types, variables, functions, instructions."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

from nogpu.errors import ToolchainError

NAME = r"[\w.$-]+"
BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64, "pair": 32}
"""Bits of the scalars that are not integers; a pair is two elements of 16 bits in one register."""
_FLAGS = re.compile(
    r"(?:(?:nuw|nsw|nusw|exact|disjoint|nneg|samesign|inbounds|contract|fast|nnan"
    r"|ninf|nsz|arcp|afn|reassoc|volatile|atomic|weak) )+"
)
_ATTRIBUTES = re.compile(
    r"^(?:(?:noundef|nonnull|noalias|readonly|writeonly|readnone|nocapture|immarg|returned|signext"
    r"|zeroext|captures\([^)]*\)|align \d+|dereferenceable(?:_or_null)?\(\d+\)"
    r"|range\(\w+ -?\d+, -?\d+\)|elementtype\([^)]*\)|nofpclass\([^)]*\)|byval\([^)]*\)"
    r'|initializes\([^)]*\)+|dead_on_return|"[^"]*") )+'
)


class Refused(ToolchainError):
    """Something that has no translation. what: its name."""

    def __init__(self, what: str, line: str = "") -> None:
        super().__init__(
            f"{line}{what} has no translation: clang has no NVPTX target here, and what this "
            "project makes of its LLVM IR lacks this. Write it in another way, or compile with "
            "NVRTC (Linux, WSL or Colab) or with `zig clang`"
        )
        self.what = what


class Instruction(NamedTuple):
    """`name = op rest`; name is "" where there is no result. place: the number of its !dbg.

    flags: the words before the operands, such as "nuw nsw " or "volatile ".
    """

    name: str
    op: str
    flags: str
    rest: str
    place: str


@dataclass
class Block:
    """A label and its instructions. phis: (name, type, {from: value})."""

    name: str
    phis: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)


_BY_VALUE = re.compile(r"byval\((.*?)\) ")
_ALIGNED = re.compile(r"\balign (\d+)")


def by_value(words: str) -> str:
    """Of a parameter or an argument with its attributes the type that it points to, for a structure
    passed by value; "" for all else.
    """
    match = _BY_VALUE.search(words)
    return match[1] if match else ""


def aligned(words: str, otherwise: int) -> int:
    """The bytes of the "align" among some words."""
    match = _ALIGNED.search(words)
    return int(match[1]) if match else otherwise


class Parameter(NamedTuple):
    """words: all that is said of it."""

    type: str
    name: str
    words: str

    @property
    def byval(self) -> str:
        """The structure that it passes by value; "" for all else."""
        return by_value(self.words)


class Variable(NamedTuple):
    """A variable of the module: memory space, type and initial value as text, alignment."""

    name: str
    space: int
    type: str
    initial: str
    align: int
    linkage: str


@dataclass
class Function:
    """A function with a body, or what is declared of one without."""

    name: str
    is_kernel: bool
    returns: str
    parameters: list[Parameter]
    words: str
    place: str
    lines: list[str]

    @cached_property
    def blocks(self) -> list[Block]:
        """Its blocks, in the text's order."""
        blocks = [Block("")]
        lines = iter(self.lines)
        for line in lines:
            if label := re.match(rf"({NAME}):", line):
                if blocks[-1].name or blocks[-1].code:
                    blocks.append(Block(label[1]))
                else:
                    blocks[-1].name = label[1]
                continue
            text = line.strip()
            if not text or text[0] in ";#":
                continue
            if text.startswith("switch "):
                while not re.search(r"\](?:, !.*)?$", text):
                    text += " " + next(lines).strip()
            _read(blocks[-1], text)
        return blocks


_HEAD = re.compile(rf"(?:%({NAME}) = )?(?:(?:tail|musttail|notail) )?(\w+) ?(.*)$")
_DEBUG = re.compile(r", !dbg !(\d+)")
_BESIDE = re.compile(r", ![a-zA-Z][\w.]* !.*$|, !srcloc.*$")


def _read(block: Block, text: str) -> None:
    """Add one instruction to its block."""
    debug = _DEBUG.search(text)
    head = _HEAD.match(_BESIDE.sub("", text))
    assert head, text
    name, op, rest = "%" + head[1] if head[1] else "", head[2], head[3]
    flags = _FLAGS.match(rest)
    rest = rest[flags.end() :] if flags else rest
    if op == "phi":
        kind, pairs = take_type(rest)
        sources = {
            m[2]: m[1].strip() for m in re.finditer(rf"\[ (.+?), %({NAME}) \](?=,|$)", pairs)
        }
        block.phis.append((name, kind, sources))
    else:
        block.code.append(
            Instruction(name, op, flags[0] if flags else "", rest, debug[1] if debug else "")
        )


_MARKS = re.compile(r'"[^"]*"|[([{<>)\]},]')
"""What splitting a text looks at: quotes, brackets, commas."""


@lru_cache(maxsize=1 << 14)
def split(text: str) -> tuple[str, ...]:
    """Split at commas outside brackets and quotes."""
    parts, depth, start = list[str](), 0, 0
    for mark in _MARKS.finditer(text):
        c = mark[0]
        if c in "([{<":
            depth += 1
        elif c in ")]}>":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start : mark.start()].strip())
            start = mark.end()
    last = text[start:].strip()
    return (*parts, last) if last else tuple(parts)


_WORD = re.compile(rf"(ptr addrspace\(\d+\)|%{NAME}|\w+)\s*")


@lru_cache(maxsize=1 << 14)
def take_type(text: str) -> tuple[str, str]:
    """The type at the beginning of a text, and the rest without a parameter's attributes."""
    text = text.lstrip()
    if text[:1] in ("[", "{", "<"):
        end = closing(text)
        return text[:end], _ATTRIBUTES.sub("", text[end:].lstrip())
    word = _WORD.match(text)
    if not word:
        raise Refused(f"the type at {text[:60]!r}")
    return word[1], _ATTRIBUTES.sub("", text[word.end() :])


def closing(text: str) -> int:
    """Where the bracket that a text begins with is closed: the index after it."""
    depth = 0
    for mark in _MARKS.finditer(text):
        depth += (mark[0] in "([{<") - (mark[0] in ")]}>")
        if depth == 0:
            return mark.end()
    raise Refused(f"the text {text[:60]!r}")


def within(text: str) -> tuple[str, ...]:
    """What stands between the commas in the brackets of a structure, an array or a vector."""
    return split(text[2:-2] if text.startswith("<{") else text[1:-1])


def cast(rest: str) -> tuple[str, str, str]:
    """Of a conversion the type and the text of what it takes, and the type of what it makes."""
    kind, rest = take_type(rest)
    text, _, to = rest.rpartition(" to ")
    return kind, text, to.strip()


def operands(rest: str) -> list[tuple[str, str]]:
    """Types and texts of an instruction that writes each type."""
    return [take_type(part) for part in split(rest)]


@dataclass
class Module:
    """What a module's text holds. structures: what each named type is. nodes: its debug nodes, as
    text, by number. used: variables that stay though nobody names them.
    """

    structures: dict[str, str]
    variables: dict[str, Variable]
    functions: dict[str, Function]
    attributes: dict[str, str]
    nodes: dict[str, str]
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.parts, self.scalars = cache(self._parts), cache(self._scalars)
        self.size, self.align = cache(self._size), cache(self._align)

    # -- types --

    def _spelt(self, kind: str) -> str:
        """A named structure with its members written out, packed as "<{ ... }>"; others as is."""
        return self.structures.get(kind, kind)

    def is_structure(self, kind: str) -> bool:
        """Whether a type's members differ: all others repeat one, or have none."""
        return "{" in self._spelt(kind)[:2]

    def fields(self, kind: str) -> Sequence[str]:
        """Types of the members of a structure, an array or a vector."""
        if self.is_structure(kind):
            return within(self._spelt(kind))
        count, inner = repeated(kind)
        return [inner] * count

    def _size(self, kind: str) -> int:
        """Bytes of a type in memory."""
        if self.is_structure(kind):
            offsets, align = self.offsets(kind), self.align(kind)
            end = offsets[-1] + self.size(self.fields(kind)[-1]) if offsets else 0
            return -(-end // align) * align
        if kind[0] in "[<":
            count, inner = repeated(kind)
            return count * self.size(inner)
        return max(bits(kind) // 8, 1)

    def _align(self, kind: str) -> int:
        """Bytes that a type is aligned to."""
        if self._spelt(kind).startswith("<{"):
            return 1
        if kind[0] == "[":
            return self.align(repeated(kind)[1])
        if self.is_structure(kind):
            return max((self.align(f) for f in self.fields(kind)), default=1)
        return self.size(kind)

    def offsets(self, kind: str) -> list[int]:
        """Where the members of a structure, an array or a vector begin."""
        packed = self._spelt(kind).startswith("<{")
        at, starts = 0, []
        for member in self.fields(kind):
            step = 1 if packed else self.align(member)
            at = -(-at // step) * step
            starts.append(at)
            at += self.size(member)
        return starts

    def _scalars(self, kind: str) -> list[tuple[int, str]]:
        """Offset and type of each element that a type is made of."""
        if kind[0] not in "[{<%":
            return [(0, "ptr" if kind.startswith("ptr") else kind)]
        return [
            (at + inner, scalar)
            for at, member in zip(self.offsets(kind), self.fields(kind), strict=True)
            for inner, scalar in self.scalars(member)
        ]

    def _parts(self, kind: str) -> list[str]:
        """What a value of a type is kept in: its scalars, 16-bit elements of vectors in pairs."""
        if kind[0] == "<" and kind[1] != "{":
            count, inner = repeated(kind)
            if not count % 2 and bits(inner) == 16:
                return ["pair"] * (count // 2)
        if kind[0] in "[{%<":
            return [part for member in self.fields(kind) for part in self.parts(member)]
        return [] if kind == "void" else ["ptr" if kind.startswith("ptr") else kind]


def repeated(kind: str) -> tuple[int, str]:
    """Length and element type of an array or a vector."""
    match = re.match(r"[\[<](\d+) x (.*)[\]>]$", kind)
    if not match:
        raise Refused(f"the type {kind}")
    return int(match[1]), match[2]


def bits(kind: str) -> int:
    """Bits of a scalar."""
    if kind in BITS or kind.startswith("ptr"):
        return BITS[kind[:3] if kind.startswith("ptr") else kind]
    if re.fullmatch(r"i\d+", kind):
        return int(kind[1:])
    raise Refused(f"the type {kind}")


def float_bits(kind: str, text: str) -> int:
    """The bits of a floating-point constant."""
    if text in ("0", "zeroinitializer"):
        return 0
    if text[:3] in ("0xH", "0xR"):
        return int(text[3:], 16)
    value = (
        struct.unpack("<d", int(text, 16).to_bytes(8, "little"))[0]
        if text.startswith("0x")
        else float(text)
    )
    if kind == "bfloat":
        return int.from_bytes(struct.pack("<f", value), "little") >> 16
    packed = struct.pack({"half": "<e", "float": "<f", "double": "<d"}[kind], value)
    return int.from_bytes(packed, "little")


# -- the module ------------------------------------------------------------------------------------

_QUOTED = re.compile(r'([%@]?)"([^"]*)"')
_VARIABLE = re.compile(
    rf"@({NAME}) = (.*?)(?:addrspace\((\d+)\) )?(?:externally_initialized )?\b(?:global|constant) "
    r"(.*)$"
)
_NODE = re.compile(r"!(\d+) = (.*)$")
_STRUCTURE = re.compile(rf"(%{NAME}) = type (<?\{{.*\}}>?)")


def _plain(line: str) -> str:
    """A line with its quoted names as plain ones, and without what says how far an address goes."""
    if '%"' in line or '@"' in line:
        line = _QUOTED.sub(lambda m: m[1] + re.sub(r"[^\w.$-]", "_", m[2]) if m[1] else m[0], line)
    return _RANGE.sub("", line) if "inrange(" in line else line


_RANGE = re.compile(r"inrange\(-?\d+, -?\d+\) ?")


def read(text: str) -> Module:
    """A module's text as data."""

    module = Module({}, {}, {}, {}, {})
    lines = iter(text.split("\n"))
    for line in lines:
        line = _plain(line)
        if line.startswith("!"):
            if node := _NODE.match(line):
                module.nodes[node[1]] = node[2]
        elif line.startswith("@llvm."):
            module.used.update(re.findall(rf"@({NAME})", line))
        elif line.startswith("@"):
            if match := _VARIABLE.match(line):
                module.variables[match[1]] = _variable(match)
        elif line.startswith(("define ", "declare ")):
            function = _function(line, line.startswith("define"))
            module.functions[function.name] = function
            if line.startswith("define"):
                while (line := next(lines)) != "}":
                    function.lines.append(_plain(line))
        elif match := re.match(r"attributes (#\d+) = \{ (.*) \}", line):
            module.attributes[match[1]] = match[2]
        elif match := _STRUCTURE.match(line):
            module.structures[match[1]] = match[2]
    return module


def _variable(match: re.Match[str]) -> Variable:
    kind, rest = take_type(match[4])
    parts = re.split(r"(?:^|, )(?=align|section|!dbg|comdat)", rest, maxsplit=1)
    align = aligned(parts[-1], 4)
    return Variable(match[1], int(match[3] or 0), kind, parts[0], align, match[2])


def _function(line: str, has_body: bool) -> Function:
    at = line.index("@")
    name = re.match(NAME, line[at + 1 :])
    assert name, line
    start = at + 1 + name.end()
    end = start + closing(line[start:])
    parameters = []
    for text in split(line[start + 1 : end - 1]):
        if text == "...":
            continue
        kind, rest = take_type(text)
        parameters.append(Parameter(kind, rest.split()[-1] if has_body else "", text))
    debug = re.search(r"!dbg !(\d+)", line[end:])
    returned = re.search(rf"(?:[\[{{<].*|ptr addrspace\(\d+\)|%{NAME}|\w+) $", line[:at])
    assert returned, line
    return Function(
        name[0],
        "ptx_kernel" in line[:at],
        returned[0].rstrip(),
        parameters,
        line[:at] + line[end:],
        debug[1] if debug else "",
        [],
    )


# -- calls -----------------------------------------------------------------------------------------


class Call(NamedTuple):
    """A call: result type, function (@ or %) or the text of inline assembly with its constraints,
    and the arguments as type and text; words: the arguments with their attributes.
    """

    returns: str
    function: str
    constraints: list[str]
    arguments: list[tuple[str, str]]
    words: Sequence[str]


_ASM = re.compile(r'asm (?:sideeffect )?(?:alignstack )?"([^"]*)", "([^"]*)"')


@lru_cache(maxsize=8192)
def call(rest: str) -> Call:
    """What an instruction `call` calls. Source: LLVM Language Reference Manual, "call"."""
    rest = re.sub(r"^(?:fastcc|ccc|ptx_device|cc\d+) ", "", rest)
    kind, rest = take_type(_ATTRIBUTES.sub("", rest))
    if rest.startswith("("):
        rest = rest[closing(rest) :].lstrip()
    if rest.startswith("asm "):
        match = _ASM.match(rest)
        if not match:
            raise Refused(f"the inline assembly {rest[:60]!r}")
        function, constraints = f'"{match[1]}', match[2].split(",") if match[2] else []
        rest = rest[match.end() :]
    else:
        name = re.match(rf"[@%]{NAME}", rest)
        if not name:
            raise Refused(f"a call of {rest[:60]}")
        function, constraints, rest = name[0], [], rest[name.end() :]
    words = split(rest[1 : closing(rest) - 1])
    return Call(kind, function, constraints, [take_type(w) for w in words], words)
