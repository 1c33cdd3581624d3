"""What CUDA source declares: the parameters of a kernel, types, constants, shared arrays.

The compiler has read the source by then. Here only the words of declarations are looked up, for the
names and shapes that findings show; what is not found is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from nogpu.emulator.ptx.program import Program
from nogpu.text import closing, pieces, places_of_lines, without_comments

_QUALIFIERS = re.compile(r"__align__\s*\([^)]*\)|alignas\s*\([^)]*\)|extern|volatile|static")
_QUALIFIED = re.compile(r"\b(const|volatile|__restrict__|__restrict|restrict|__grid_constant__)\b")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.+?)[ \t]*$", re.M)
_CONSTANT = re.compile(
    r"\b(?:constexpr|const)\s+(?:int|unsigned|size_t|auto)\s+(\w+)\s*=\s*([^;]+);"
)

_TYPES = (
    ("float32", "float, float2, float3, float4"),
    ("float64", "double, double2, double3, double4"),
    ("float16", "half, __half, half2, __half2"),
    ("bfloat16 uint16", "__nv_bfloat16, nv_bfloat16, __nv_bfloat162"),
    ("bool uint8", "bool"),
    ("int8 uint8", "char"),
    ("int8", "signed char, int8_t"),
    ("uint8", "unsigned char, uint8_t"),
    ("int16", "short, int16_t"),
    ("uint16", "unsigned short, uint16_t"),
    ("int32", "int, signed, signed int, int32_t, int2, int3, int4"),
    ("uint32", "unsigned, unsigned int, uint32_t, uint2, uint3, uint4"),
    ("int64", "long, long long, long long int, int64_t"),
    ("uint64", "size_t, unsigned long, unsigned long long, unsigned long long int, uint64_t"),
)
C_TYPES: Mapping[str, tuple[str, ...]] = {
    name: tuple(fitting.split()) for fitting, names in _TYPES for name in names.split(", ")
}
"""NumPy element types that fit a C type; vector types take arrays of their element."""


class Member(NamedTuple):
    """Of a structure. shape: of its elements, () of one; at, align: bytes; at is None behind a
    member of unknown size.
    """

    name: str
    type: str
    pointer: bool
    shape: tuple[int, ...]
    at: int | None
    align: int


@dataclass(frozen=True)
class Formal:
    """A parameter as the source declares it."""

    name: str
    type: str  # without const, volatile, restrict and the stars
    pointers: int
    text: str
    members: tuple[Member, ...] = ()  # of a structure, where its definition can be read


def signature(source: str, entry: str, defines: Mapping[str, str]) -> list[Formal] | None:
    """The parameters of a kernel as its source declares them, or None if they are not found."""
    text = without_comments(source)
    match = _declared(text, entry)
    if match is None:
        return None
    return formals(text[match.end() : closing(text, match.end() - 1)], text, defines)


def _declared(text: str, entry: str) -> re.Match[str] | None:
    """A kernel's name, and what stands between it and __global__ and the bracket behind it."""
    return re.search(rf"__global__[^;{{}}]*?\b({re.escape(entry)})\s*\(", text)


def formals(inner: str, source: str, defines: Mapping[str, str]) -> list[Formal]:
    """The parameters that stand between the brackets of a function, types as `source` has them."""
    return [_formal(text, source, defines) for text in split_commas(inner)]


def split_commas(text: str) -> list[str]:
    """What stands between the commas that no bracket encloses; `void` alone is nothing."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip() and p.strip() != "void"]


def _formal(text: str, source: str, defines: Mapping[str, str]) -> Formal:
    plain = _QUALIFIED.sub(" ", text)
    plain = re.sub(r"=.*$", "", plain, flags=re.DOTALL)
    pointers = plain.count("*") + plain.count("[")
    plain = re.sub(r"\[.*?\]", " ", plain).replace("*", " ").replace("&", " ")
    words = plain.split()
    *kinds, name = words if len(words) > 1 else (*words, "argument")
    kind = " ".join(kinds)
    kind = re.sub(r"\b(struct|class|typename|std::|::)\b", "", kind).strip()
    kind = resolve_type(kind, source, defines)
    return Formal(
        name, kind, pointers, " ".join(text.split()), _members(kind, source, tuple(defines.items()))
    )


@lru_cache(maxsize=256)
def _members(kind: str, source: str, defines: tuple[tuple[str, str], ...]) -> tuple[Member, ...]:
    """Members of a structure whose definition holds nothing but members."""
    word = re.escape(kind)
    match = re.search(rf"\bstruct\s+{word}\s*{{([^{{}}]*)}}", source) or re.search(
        rf"\btypedef\s+struct\s*\w*\s*{{([^{{}}]*)}}\s*{word}\s*;", source
    )
    if not match:
        return ()
    values = {**dict(_MACRO.findall(source)), **dict(_CONSTANT.findall(source)), **dict(defines)}
    members, end = list[Member](), 0
    known = True  # every size so far
    for declaration in match.group(1).split(";"):
        plain, base = _QUALIFIED.sub(" ", declaration), ""
        for part in split_commas(plain):
            found = re.fullmatch(r"(.*?)([\s*]*)\b(\w+)\s*((?:\[[^\]]*\]\s*)*)(?:=.*)?", part, re.S)
            if not found:
                known = False
                continue
            base = " ".join(found[1].split()) or base
            pointer, of = "*" in found[2], resolve_type(base, source, dict(defines))
            size = 8 if pointer else _bytes(of)
            wide = int(of[-1]) if size and not pointer and of[-1] in "234" else 1
            sizes = [_evaluate(d, values) or 0 for d in re.findall(r"\[([^\]]*)\]", found[4])]
            shape = (*sizes, *[wide] * (wide > 1))
            align = max(min(size // wide if wide == 3 else size, 16), 1)
            end += -end % align
            known = known and size > 0
            members.append(Member(found[3], of, pointer, shape, end if known else None, align))
            end += size * math.prod(sizes)
            known = known and all(sizes)
    return tuple(members)


def resolve_type(kind: str, source: str, defines: Mapping[str, str]) -> str:
    """Follow macros, typedefs and aliases to a C type, as far as they can be read."""
    seen = set[str]()
    while kind not in C_TYPES and kind not in seen:
        seen.add(kind)
        if kind in defines:
            kind = str(defines[kind]).strip()
            continue
        word = re.escape(kind)
        match = (
            re.search(rf"\busing\s+{word}\s*=\s*([^;]+);", source)
            or re.search(rf"\btypedef\s+([^;]+?)\s+{word}\s*;", source)
            or re.search(rf"^[ \t]*#[ \t]*define[ \t]+{word}[ \t]+(.+?)[ \t]*$", source, re.M)
        )
        if not match:
            break
        kind = " ".join(re.sub(r"\bconst\b", "", match.group(1)).split())
    return kind


def base_name(entry: str) -> str:
    """A kernel's name without template arguments and namespaces."""
    return re.split(r"[<(]", entry)[0].split("::")[-1].strip()


def entry_line(source: str, entry: str) -> int:
    """The line of the kernel's definition; 0 if it is not in this file."""
    text = without_comments(source)
    match = _declared(text, base_name(entry))
    return text.count("\n", 0, match.start(1)) + 1 if match else 0


def name_shared(program: Program, source: str, defines: Mapping[str, str]) -> None:
    """Give shared variables the element size and the shape that their declaration shows."""
    text = without_comments(source)
    values = {**dict(_MACRO.findall(text)), **dict(_CONSTANT.findall(text)), **defines}
    for i, symbol in enumerate(program.shared_symbols):
        match = re.search(
            rf"__shared__([^;]*?)\b{re.escape(symbol.name)}\b\s*((?:\[[^\]]*\]\s*)*)", text
        )
        if not match:
            continue
        words = _QUALIFIERS.sub(" ", match.group(1)).split(",")[0].split()
        dimensions, itemsize = match.group(2), 0
        while words and not itemsize:  # behind the type another variable may stand
            # An alias may itself be an array type.
            kind, bracket, alias = resolve_type(" ".join(words), text, defines).partition("[")
            itemsize = _bytes(resolve_type(kind.strip(), text, defines))
            if itemsize:
                dimensions += bracket + alias
            words.pop()
        sizes = [_evaluate(d, values) for d in re.findall(r"\[([^\]]*)\]", dimensions)]
        known = tuple(size for size in sizes if size)
        shape = known if len(known) == len(sizes) else ()
        if not itemsize:  # a structure, say
            itemsize = max(symbol.size // math.prod(shape), 1) if shape else min(symbol.itemsize, 4)
        program.shared_symbols[i] = replace(symbol, itemsize=itemsize, shape=shape)


def _bytes(kind: str) -> int:
    """Bytes of a C type that NumPy has, or of a vector of it; 0 of any other."""
    if kind not in C_TYPES:
        return 0
    return np.dtype(C_TYPES[kind][-1]).itemsize * (int(kind[-1]) if kind[-1] in "234" else 1)


def _evaluate(
    expression: str, values: Mapping[str, str], known: dict[str, int | None] | None = None
) -> int | None:
    """An integer constant expression of names and + - * / ( ), or None.

    known: names that were looked at before; each is, once. So it ends soon, whatever a source
    holds.
    """
    known = {} if known is None else known
    if not re.fullmatch(r"[\w\s+\-*/()]{1,200}", expression):
        return None
    try:
        for word in set(re.findall(r"[A-Za-z_]\w*", expression)):
            if word not in known:
                known[word] = None  # a name made of itself has no value
                known[word] = _evaluate(values.get(word, ""), values, known)
            expression = re.sub(rf"\b{word}\b", str(known[word]), expression)
        # ** and // are Python's, and no C.
        if not re.fullmatch(r"(?!.*(\*\*|//))[\d\s+\-*/()]{1,200}", expression):
            return None
        return int(eval(expression.replace("/", "//"), {"__builtins__": {}}))  # digits only
    except (SyntaxError, ZeroDivisionError, ValueError, OverflowError, MemoryError, RecursionError):
        return None


_BARRIER = re.compile(
    r"\b__syncthreads\w*\s*\(|\.sync\s*\(\s*\)|\b(?:bar|barrier)\.(?:cta\.)?sync\b"
)


def crowded_lines(source: str) -> frozenset[int]:
    """Lines with more than one barrier: PTX, which knows lines only, does not tell these apart."""
    lines = without_comments(source).split("\n")
    return frozenset(i for i, t in enumerate(lines, 1) if len(_BARRIER.findall(t)) > 1)


def returns_early(source: str, entry: str) -> bool:
    """Whether a kernel may return before its end, as its text says; True where it is not found."""
    bodies = [p.body for p in pieces(source) if p.kernel and p.name.split("::")[-1] == entry]
    return not bodies or any(re.search(r"\b(?:return|asm|__trap)\b", body) for body in bodies)


_UNSET = re.compile(
    r"\((\d+)\): warning(?: #549-D)?: variable [\"'](\w+)[\"'] is "
    r"(?:used before its value is set|uninitialized when used here|used uninitialized (when.*) \[)"
)


def unset_variables(log: str, source: str, entry: str, name: str) -> list[tuple[int, str, str]]:
    """Lines where a variable is used before it has a value, its name, and when ("": always), as the
    compiler warns.

    log: of a compile that succeeded. entry: the kernel's name without template arguments; only
    warnings in it and in what it names, directly or not, are returned. name: of the source.
    """
    warned = [m for line in log.splitlines() if line.startswith(name)
              for m in _UNSET.finditer(line)]  # fmt: skip
    if not warned:
        return []
    functions = [piece for piece in pieces(source) if piece.kind == "function"]
    todo, reached = [entry], set[str]()
    while todo:
        called = todo.pop()
        reached.add(called)
        for piece in functions:
            if piece.name.split("::")[-1] == called:
                todo += set(re.findall(r"\w+", piece.body)) - reached
    spans = [
        (source.count("\n", 0, f.start) + 1, source.count("\n", 0, f.end) + 1)
        for f in functions
        if f.name.split("::")[-1] in reached
    ]
    places, found = places_of_lines(source), [(int(m[1]), m[2], m[3] or "") for m in warned]
    return [one for one in found if any(a <= places.get(one[0], 0) <= b for a, b in spans)]
