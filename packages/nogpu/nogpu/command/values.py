"""What following host code knows: numbers, arrays, pointers into them, variables, tensor maps.

A number is Python's; ("type", text), ("kernel", name, texts), ("constant", name) and ("lambda",
names, body, scope) stand for what no variable holds. What cannot be known is an `Unknown`.
"""

from __future__ import annotations

import math
import operator
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from nogpu.emulator.launching.declarations import C_TYPES, Formal


@dataclass(frozen=True)
class Unknown:
    """A value that cannot be known here, and why."""

    why: str


@dataclass
class Array:
    """Memory that the host asks for. kind: C type of its elements, as far as it is known.

    fill: "empty" (never set), "random" (set by what is not followed), "ones", "arange", the byte
    that all are set to, the tensor map that it holds, or the contents themselves.
    """

    name: str
    bytes: Any
    kind: str = ""
    device: bool = True
    fill: Any = "empty"
    shape: tuple[int, ...] | None = None  # where it is given
    pinned: bool = False  # of the host, and kernels reach it
    contents: Any = None  # a NumPy array, once a launch has wanted it


@dataclass(frozen=True)
class Pointer:
    """A place in an array: bytes behind its beginning, and the C type that it points to."""

    array: Array
    offset: Any = 0
    kind: str = ""


@dataclass
class Cell:
    """A variable of the host, or an element; as a value, its address."""

    value: Any = None
    kind: str = ""
    stars: int = 0
    name: str = ""


class Record(dict[str, Cell]):
    """A structure: its members appear when they are named."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __missing__(self, name: str) -> Cell:
        return self.setdefault(name, Cell(Unknown(f"{self.kind}.{name} was not set")))


@dataclass
class Map:
    """A tensor map as cuTensorMapEncodeTiled makes it; fastest axis first, as there."""

    pointer: Pointer | None = None
    kind: str = ""
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    box: tuple[int, ...] = ()
    swizzle: int = 0
    fill: str = "zeros"


@dataclass(frozen=True)
class Launched:
    """A launch as the host code makes it. entry: a name expression; line: of the launch."""

    entry: str
    grid: Any
    block: Any
    shared: Any  # bytes
    cluster: Any
    args: tuple[Any, ...]
    line: int
    fills: tuple[Any, ...] = ()  # of the arrays among the arguments, as it begins
    cooperative: bool = False


@dataclass(frozen=True)
class Filled:
    """An array is set between launches: to a byte, or as another array is then."""

    array: Array
    source: Any


@dataclass(frozen=True)
class Assigned:
    """A __device__ or __constant__ variable is set from its byte `offset` on. kind: its C type."""

    name: str
    kind: str
    value: Any
    bytes: Any
    offset: Any


class Member(NamedTuple):
    """Of a structure. size: of one element. many: of an array; None: it is none. at: first byte."""

    name: str
    kind: str
    stars: int
    size: Any
    many: Any
    at: int
    init: Any


class Scope(ChainMap[str, Cell]):
    """Variables by name, within those around them. space: the namespace, such as "lab::"."""

    space = ""

    def inner(self, space: str | None = None) -> Scope:
        """A scope within this one."""
        made = self.new_child()
        made.space = self.space if space is None else space
        return made


class Stop(Exception):
    """The program ends, or is followed no further."""


SIZES = {
    **{kind: np.dtype(names[-1]).itemsize * int(kind[-1] if kind[-1] in "234" else 1)
       for kind, names in C_TYPES.items()},
    **{f"{base}{n}": size * int(n or 1) for base, size in
       (("char", 1), ("uchar", 1), ("short", 2), ("uint", 4), ("long", 8)) for n in ("", *"1234")},
    "CUtensorMap": 128, "__nv_fp8_e4m3": 1, "__nv_fp8_e5m2": 1, "cuComplex": 8,
    "cuDoubleComplex": 16, "int1": 4, "float1": 4, "double1": 8,
}  # fmt: skip
"""Bytes of a C type."""
FLOATS = {"float", "double", "half", "__half", "__nv_bfloat16"}
WHOLE = re.compile(r"u?int|char|uchar|u?short|long|unsigned|size_t|signed|bool")
"""Begins a C type of whole numbers."""
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def plain(value: Any) -> Any:
    """A value; of an address of a variable, what the variable holds."""
    return value.value if isinstance(value, Cell) else value


def compute(op: str, a: Any, b: Any) -> Any:
    """An operation as C does it, on numbers; anything else is unknown."""
    for value in (a, b):
        if isinstance(value, Unknown):
            return value
    numbers = isinstance(a, int | float) and isinstance(b, int | float)
    if op in ("==", "!=") and not numbers:
        if isinstance(a, Pointer | Map) or isinstance(b, Pointer | Map):
            return op == "!="  # an array or a map against null
        known = isinstance(a, tuple | str) and isinstance(b, tuple | str)
        return (a == b) == (op == "==") if known else Unknown("two things are compared")
    if not numbers:
        return Unknown("it is made of what is not a number")
    try:
        if op == "%" or (op == "/" and isinstance(a, int) and isinstance(b, int)):
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return quotient if op == "/" else a - quotient * b
        if op == "<<" and b > 512:
            return Unknown("it is shifted far")
        return _OPERATORS[op](a, b)
    except (ArithmeticError, TypeError, ValueError, KeyError):
        return Unknown(f"{a} {op} {b} has no value")


def product(*numbers: Any) -> Any:
    """Numbers multiplied, as C does it; what is unknown stays so."""
    return reduce(lambda a, b: compute("*", a, b), numbers)


def truth(value: Any) -> bool | Unknown:
    """Whether a value counts as true."""
    if value is None or isinstance(value, bool | int | float):
        return bool(value)
    if isinstance(value, Pointer | Map | Cell | str):
        return True
    return value if isinstance(value, Unknown) else Unknown("it is not a number")


def triple(value: Any) -> Any:
    """Grid or block as three numbers, or why they are not known."""
    numbers = [plain(x) for x in value] if isinstance(value, list | tuple) else [value]
    for number in numbers:
        if not isinstance(number, int | float):
            return number if isinstance(number, Unknown) else Unknown("it is not a number")
    x, y, z = (*map(int, numbers), 1, 1)[:3]
    return x, y, z


def guesses(formals: Sequence[Formal]) -> dict[str, Any]:
    """Values for parameters, whose names tell which size belongs to which array; else none."""
    numbers = [f for f in formals if not f.pointers]
    whole = [f.name for f in numbers if WHOLE.match(f.type)]
    by_count: dict[int, tuple[int, ...]] = {1: (1000,), 2: (64, 48)}
    sizes = by_count.get(len(whole))
    if {name.lower() for name in whole} == {"m", "n", "k"}:
        sizes = 64, 64, 64
    if sizes is None:
        return {}
    made: dict[str, Any] = dict(zip(whole, sizes, strict=True))
    made |= {f.name: 1.5 for f in numbers if f.type in FLOATS}
    for formal in formals:
        if formal.pointers and formal.type in SIZES:
            size = math.prod(sizes[:2]) * SIZES[formal.type]
            made[formal.name] = Pointer(Array(formal.name, size, formal.type, True, "random"))
    return made
