"""What the static_asserts of a kernel's file say of a tile, without compiling it.

Reads the file and the headers that it includes, and turns constants and conditions into one Python
function of the tile sizes. It knows the C++ that the kernels' heads are made of, whole numbers that
are not negative above all, and refuses anything else (Unknown): what is not understood must not
pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from helpers.ladder.kernel import KERNELS
from nogpu.command import syntax
from nogpu.text import without_comments
from nogpu.toolchain import arch_number


class Unknown(Exception):
    """C++ that this reader does not know."""


SIZES = {"float": 4, "int": 4, "unsigned": 4, "half": 2, "__half": 2, "__nv_bfloat16": 2}
"""Bytes, and alignment, of the element types."""
SIZES |= {"float4": 16, "uint4": 16}

# -- preprocessor ----------------------------------------------------------------------------------

_MATTERS = re.compile(r"\b(?:constexpr|static_assert|struct|template)\b")


def strip(text):
    """Text without comments and with long lines joined; strings are left alone."""
    return without_comments(text.replace("\\\n", " "))


def preprocessed(source, macros, tile):
    """The text with includes and conditions resolved. tile: macros whose values are left open."""
    known, seen = dict(macros), set[str]()
    return "\n".join(_lines(source, KERNELS, known, set(tile), seen))


def _lines(source, folder, known, tile, seen):
    kept: list[bool | None] = []  # of each open condition: is this branch read; None: not known
    for line in strip(source).split("\n"):
        word = re.match(r"\s*#\s*(\w+)\s*(.*?)\s*$", line)
        if not word:
            if None in kept and _MATTERS.search(line):
                raise Unknown(f"a condition on a tile size decides over: {line.strip()}")
            if False not in kept and None not in kept:
                yield line
            continue
        kind, rest = word[1], word[2]
        if kind in ("ifdef", "ifndef"):
            kept.append((rest in known or rest in tile) == (kind == "ifdef"))
        elif kind == "if":
            kept.append(_condition(rest, known, tile))
        elif kind == "else":
            kept.append(None if kept[-1] is None else not kept[-1])
            kept.pop(-2)
        elif kind == "endif":
            kept.pop()
        elif False in kept or None in kept or kind == "pragma":
            continue
        elif kind == "define":
            name, _, value = rest.partition(" ")
            if "(" not in name:
                known[name] = value.strip()
        elif kind == "include":
            yield from _included(rest, folder, known, tile, seen)
        elif kind == "undef":
            known.pop(rest, None)
        elif kind == "error":
            yield 'static_assert(0, "#error");'
        else:
            raise Unknown(f"#{kind} {rest}")


def _included(rest, folder, known, tile, seen):
    if rest.startswith("<"):
        return
    name = rest.strip('"')
    path = next(p for p in (folder / name, KERNELS / name) if p.is_file()).resolve()
    if path not in seen:
        seen.add(path)
        yield from _lines(path.read_text(encoding="utf-8"), path.parent, known, tile, seen)


def _condition(text, known, tile):
    """Whether #if holds; None where that depends on the tile."""
    text = re.sub(
        r"defined\s*\(?\s*(\w+)\s*\)?", lambda m: str(int(m[1] in known or m[1] in tile)), text
    )
    names = set(re.findall(r"[A-Za-z_]\w*", text))
    if names & tile:
        return None
    if names - set(known):
        raise Unknown(f"#if {text}: no value is known for {sorted(names - set(known))}")
    given = {name: code(known[name], Scope()) for name in names}
    return bool(eval(code(text, Scope(given)), dict(ARITHMETIC)))


# -- expressions -----------------------------------------------------------------------------------


def divided(a, b):
    """a / b and a % b as C++ has them for numbers that are not negative."""
    if a < 0 or b < 0:
        raise Unknown(f"{a} / {b}: a negative number")
    return divmod(a, b)


def up(a, unit):
    """The next multiple of unit from a on."""
    return -(-a // unit) * unit


ARITHMETIC = {"divided": divided, "up": up, "__builtins__": {}}


@dataclass
class Scope:
    """What names mean: code of a value, templates, types."""

    values: dict[str, str] = field(default_factory=dict)
    templates: dict[str, Template] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)

    def inside(self, more):
        """This scope with more values."""
        return Scope({**self.values, **more}, self.templates, dict(self.types))


@dataclass(frozen=True)
class Template:
    """A template of whole numbers: of a value, or of a structure's members."""

    params: tuple[str, ...]
    value: str = ""
    members: Mapping[str, str] = field(default_factory=dict)


def tree(text, scope):
    """An expression of C++ as the reader of host code understands it."""
    reader = syntax.Reader(syntax.tokens(text), templates=frozenset(scope.templates))
    try:
        node = reader.assignment()
    except syntax.NotReadError as error:
        raise Unknown(f"{text.strip()!r}: {error}") from None
    if reader.peek():
        raise Unknown(f"{text.strip()!r}: {reader.peek()!r} is left over")
    return node


def code(text, scope):
    """An expression of C++ as Python code."""

    def of(node):
        match node:
            case "value", int(number):
                return str(number)
            case "name", name, given:
                return named(name, given, scope)
            case ("sizeof", name) | ("sizeof_value", ("name", name, None)):
                return layout(name, scope)[0]
            case "unary", "!", inner:
                return f"(not {of(inner)})"
            case "cond", test, yes, no:
                return f"({of(yes)} if {of(test)} else {of(no)})"
            case "binary", "/" | "%" as op, left, right:
                return f"divided({of(left)}, {of(right)})[{'/%'.index(op)}]"
            case "binary", op, left, right:
                return f"({of(left)} { {'&&': 'and', '||': 'or'}.get(op, op) } {of(right)})"
        raise Unknown(f"{text.strip()!r}: {node[0]} is not known")

    return of(tree(text, scope))


def named(name, given, scope):
    """The code of a name. given: texts of a template's arguments."""
    base, _, wanted = name.partition("::")
    if wanted and base in scope.types:  # an alias of a template with its arguments
        _, base, given = tree(scope.types[base], scope)
    if given is None:
        if name not in scope.values:
            raise Unknown(f"{name} is not known")
        return scope.values[name]
    template = scope.templates[base]
    if len(given) != len(template.params):
        raise Unknown(f"{base}<{', '.join(given)}>: it takes {template.params}")
    args = (code(text, scope) for text in given)
    bound = scope.inside(dict(zip(template.params, args, strict=True)))
    if not wanted:
        return code(template.value, bound)
    for member, text in template.members.items():
        bound.values[member] = code(text, bound)
    if wanted not in template.members:
        raise Unknown(f"{name}: {wanted} is no constant of it")
    return bound.values[wanted]


def layout(name, scope):
    """Code of a type's bytes, and its alignment."""
    name = name.strip()
    if name in SIZES:
        return str(SIZES[name]), SIZES[name]
    if name not in scope.types:
        raise Unknown(f"sizeof({name}): no such type is known")
    text = scope.types[name]
    if not text.startswith("{"):
        return _array(text, "", scope)
    size, most = "0", 1
    for member in filter(None, (m.strip() for m in text.strip("{}").split(";"))):
        found = re.fullmatch(r"(\w+)\s+\w+\s*((?:\[[^\]]+\]\s*)*)", member)
        if not found:
            raise Unknown(f"{name}: {member}")
        bytes_, align = _array(found[1], found[2], scope)
        size, most = f"(up({size}, {align}) + {bytes_})", max(most, align)
    return f"up({size}, {most})", most


def _array(base, extents, scope):
    """Code of the bytes of an array, and its alignment: "T[8]" or ("T", "[8][2]")."""
    kind, bracket, more = base.partition("[")
    size, align = layout(kind, scope)
    for extent in re.findall(r"\[([^\]]+)\]", bracket + more + extents):
        size = f"({size} * {code(extent, scope)})"
    return size, align


# -- declarations ----------------------------------------------------------------------------------


def items(text):
    """Declarations of a scope: each ends with its semicolon or with its last brace."""
    found, begin, depth, at = [], 0, 0, 0
    while at < len(text):
        char = text[at]
        if char == '"':
            at = re.compile(r'"(?:\\.|[^"\\])*"').match(text, at).end()
            continue
        depth += (char in "({[") - (char in ")}]")
        ends = char == ";" or (char == "}" and not re.match(r"\s*[;,)=]", text[at + 1 :]))
        if depth == 0 and ends:
            found.append(text[begin : at + 1].strip())
            begin = at + 1
        at += 1
    return [item for item in found if item.strip(" \n;")]


_CONSTANT = re.compile(
    r"(?:static\s+)?constexpr\s+(?:int|bool|unsigned)\s+(\w+)\s*=\s*(.*);", re.DOTALL
)
_ASSERT = re.compile(r'static_assert\((.*?),\s*"[^"]*"\s*\);', re.DOTALL)
_TEMPLATE = re.compile(r"template\s*<([^>]*)>\s*(.*)", re.DOTALL)
_STRUCT = re.compile(r"struct\s+(\w+)\s*(\{.*\})\s*;?", re.DOTALL)
_USING = re.compile(r"using\s+(\w+)\s*=\s*(.*?)\s*;", re.DOTALL)


def body(item):
    """What stands between the outermost braces of a declaration; empty where there are none."""
    return item[item.index("{") + 1 : item.rindex("}")] if "{" in item and "}" in item else ""


@dataclass
class Head:
    """The constants and conditions of a file as Python statements, in order."""

    scope: Scope
    code: list[str] = field(default_factory=list)
    nested: dict[str, str] = field(default_factory=dict)
    """Functions and structures with conditions of their own: name and body."""
    asserts: int = 0

    def read(self, text):
        for item in items(text):
            self.declaration(item)

    def declaration(self, item):
        if found := _TEMPLATE.fullmatch(item):
            self.template(found[1], found[2])
        elif "static_assert" in body(item):
            self.keep(item)
        else:
            self.plain(item, "")

    def plain(self, item, prefix):
        """A declaration that is no template. prefix: of the Python names of its constants."""
        scope = self.scope
        if found := _ASSERT.fullmatch(item):
            self.code.append(f"if not {code(found[1], scope)}: return False")
            self.asserts += 1
        elif found := _CONSTANT.fullmatch(item):
            self.code.append(f"{prefix}{found[1]} = {code(found[2], scope)}")
            scope.values[found[1]] = prefix + found[1]
        elif (found := _STRUCT.fullmatch(item)) or (found := _USING.fullmatch(item)):
            scope.types[found[1]] = found[2]
        elif "static_assert" in item or (item.startswith("constexpr") and "(" not in item):
            raise Unknown(item)

    def keep(self, item):
        head = item.partition("{")[0]
        found = re.search(r"struct\s+(\w+)", head) or re.search(r"(\w+)\s*\(", head)
        if not found or found[1] in self.nested:
            raise Unknown(f"conditions inside of: {head.strip()}")
        self.nested[found[1]] = body(item)

    def template(self, params, rest):
        if "static_assert" in body(rest):
            self.keep(rest)
            return
        names = tuple(re.findall(r"\bint\s+(\w+)", params))
        if len(names) != len([p for p in params.split(",") if p.strip()]):
            return  # of types: an expression that uses it is refused
        if found := re.fullmatch(r"constexpr\s+\w+\s+(\w+)\s*=\s*(.*);", rest, re.DOTALL):
            self.scope.templates[found[1]] = Template(names, found[2])
        elif found := _STRUCT.fullmatch(rest):
            inner = (_CONSTANT.fullmatch(item) for item in items(body(rest)))
            members = {m[1]: m[2] for m in inner if m}
            if members:
                self.scope.templates[found[1]] = Template(names, members=members)

    def instance(self, name, binding, number):
        """The conditions inside a function or structure, with its parameters bound."""
        outer = self.scope
        given = {param: f"({code(text, outer)})" for param, text in binding.items()}
        self.scope, before = outer.inside(given), self.asserts
        for item in items(self.nested[name]):
            if re.match(r"(?:static\s+)?constexpr\b|static_assert\b|using\b", item):
                self.plain(item, f"{name}_{number}_")
        if self.asserts - before != self.nested[name].count("static_assert"):
            raise Unknown(f"a condition inside a block of {name}")
        self.scope = outer


_BOTH = ({"ROWS": "BM", "COLS": "BK"}, {"ROWS": "BK", "COLS": "BN"})
"""The tiles of A and of B."""
_COPIES = ("load_chunks", "store_chunks", "gather_tile")
_SWIZZLED = ({"COLS": "BK"}, {"COLS": "BN"})
_MMA = {"multiply": ({"DEPTH": "MMA_K"},)}
_LDMATRIX = {**_MMA, "load_fragments": ({"A_COLS": "BK", "N_PAIRS": "N_TILES / 2"},)}
INSTANCES: Mapping[str, Mapping[str, Sequence[Mapping[str, str]]]] = {
    "14_fp32_best.cu": {"multiply": ({"WIDTH": "4"}, {"WIDTH": "1"})},
    "16_sliced.cu": {"multiply": ({"WIDTH": "4"}, {"WIDTH": "1"})},
    **dict.fromkeys(
        ("17_wmma_shared.cu", "17_wmma_tiled.cu", "18_mma_naive.cu", "18_mma_ldmatrix.cu"),
        dict.fromkeys(_COPIES, _BOTH),
    ),
    "18_mma_swizzle.cu": {**dict.fromkeys(_COPIES, _BOTH), "swizzled": _SWIZZLED},
    "19_mma_turing.cu": {**dict.fromkeys(_COPIES, _BOTH), "swizzled": _SWIZZLED, **_LDMATRIX},
    "19_mma_pipelined.cu": {
        **dict.fromkeys(_COPIES, ()),
        "copy_tile": _BOTH,
        "gather_tile": ({"ROWS": "BM", "COLS": "RAGGED_K"}, {"ROWS": "RAGGED_K", "COLS": "BN"}),
        "swizzled": (*_SWIZZLED, {"COLS": "RAGGED_K"}),
        **_LDMATRIX,
    },
    "19_mma_sliced.cu": {**dict.fromkeys(_COPIES, ()), "swizzled": _SWIZZLED, **_LDMATRIX},
    "20_mma_tma.cu": {
        **dict.fromkeys(_COPIES, ()),
        "swizzled": ({"COLS": "BOX"},),
        "load_fragments": ({"A_COLS": "BOX", "N_PAIRS": "N_TILES / 2"},),
        **_MMA,
    },
}
"""With which parameters a file uses the functions that hold conditions of their own; () for unused.
"""


@dataclass(frozen=True)
class Asserts:
    """What a file says of tiles. holds takes the tile sizes in the order of the kernel's `params`."""

    holds: Callable[..., bool]
    count: int
    used: frozenset[str]
    """Tile sizes that a condition depends on."""


def read(kernel):
    """The static_asserts of a kernel's file as one function.

    Raises Unknown at what it does not know.
    """
    names = tuple(kernel.params)
    macros = {**kernel.defines, "__CUDA_ARCH__": str(10 * arch_number(kernel.min_arch))}
    text = preprocessed(kernel.source, macros, names)
    element = kernel.defines.get("ELEMENT") or re.search(r"#define ELEMENT (\w+)", kernel.source)
    scope = Scope({name: name for name in names})
    if element:
        scope.types["ELEMENT"] = element if isinstance(element, str) else element[1]
    head = Head(scope)
    head.read(text)
    instances = INSTANCES.get(kernel.file, {})
    if set(instances) != set(head.nested):
        raise Unknown(
            f"{kernel.file}: conditions inside {sorted(set(head.nested) ^ set(instances))}"
        )
    for name, bindings in instances.items():
        for number, binding in enumerate(bindings):
            head.instance(name, binding, number)
    lines = [f"def holds({', '.join(names)}):", *head.code, "return True"]
    space = dict(ARITHMETIC)
    exec("\n    ".join(lines), space)
    used = frozenset(name for name in names if any(re.search(rf"\b{name}\b", c) for c in head.code))
    raw: Callable[..., bool] = space["holds"]

    def holds(*tile):
        try:
            return raw(*tile)
        except ZeroDivisionError:
            return False  # no constant expression: the compiler refuses it as well

    return Asserts(holds, head.asserts, used)
