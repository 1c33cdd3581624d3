"""What a rung of the ladder is: file, entry point, tile sizes, rules with reasons, launch geometry.

A rule, a grid and a block are data: expressions over the kernel's parameters and M, N, K. So the
error message, the slider and the tuner say the same thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import CodeType, MappingProxyType
from typing import Any

from nogpu import device, project
from nogpu.errors import ConfigError, ShapeError, UnknownKernelError, near_matches
from nogpu.text import read_source, without_comments

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"
project.include_folders.append(KERNELS)
project.stored = ROOT / "data" / "compiled"
device.admit_recorded(ROOT / "data" / "measurements")
ITEM_BYTES: Mapping[str, int] = {"float32": 4, "int32": 4, "float16": 2, "bfloat16": 2}
MAX_THREADS = 1024
"""Threads of one block at most, on every compute capability since 2.0 (CUDA C++ Programming Guide).
"""
MAX_EDGE = 2**31 - 2**16
"""Rows or columns of a matrix at most: kernels count them in int, up to the end of the last tile or
chunk."""
MAX_GRID_YZ = 65535
"""Blocks of a grid in y and in z at most (CUDA C++ Programming Guide)."""


OWN = " (yours)"
"""Ends the name of every kernel whose text is a reader's own: no record holds such a name."""
_CONSTANTS = re.compile(r"\bconst(?:expr)?\s+int\s+([^;]{0,300});")
_CONSTANT = re.compile(r"\b(\w{1,60})\s*=\s*(\d{1,9})\s*(?=,|$)")


def cdiv(a: int, b: int) -> int:
    """Ceiling of a / b for positive integers: how many tiles of b cover a."""
    return -(-a // b)


_NAMES = {"__builtins__": {}, "cdiv": cdiv, "min": min, "max": max}
_code: dict[str, CodeType] = {}


def evaluate(expression: str, names: Mapping[str, int]) -> int:
    """Value of a catalog expression such as "cdiv(N, BN)" over tile sizes and M, N, K."""
    return int(value_of(expression, names))


def value_of(expression: str, names: Mapping[str, float]) -> float:
    """Value of an expression that need not be whole, such as "(TM + TN) / (TM * TN)"."""
    if expression not in _code:
        _code[expression] = compile(expression, f"<catalog: {expression}>", "eval")
    return eval(_code[expression], _NAMES, dict(names))  # type: ignore[no-any-return]  # our own data, no builtins


@lru_cache(maxsize=256)
def _below(folder: Path, file: str) -> Path:
    """A path, made once: every launch asks whether its file has changed."""
    return folder / file


@dataclass(frozen=True)
class Rule:
    """A condition on tile sizes (and, where it names them, on M, N, K) and why it must hold."""

    expr: str
    reason: str

    def holds(self, names: Mapping[str, int]) -> bool:
        """Whether the rule holds for these values; where it divides by zero, it does not."""
        try:
            return bool(evaluate(self.expr, names))
        except ZeroDivisionError:
            return False


@dataclass(frozen=True)
class Room:
    """An array of global memory that a kernel works in: `count` is an expression as a grid is.

    dtype: "float32" for sums, whose first values mean nothing; "int32" for counters, which are zero
    before a launch and must be zero again after it.
    """

    name: str
    dtype: str
    count: str


@dataclass(frozen=True)
class Kernel:
    """One rung of the ladder: C (MxN) = A (MxK) times B (KxN), all row-major.

    params are the tile sizes with their defaults, passed as -D macros; choices are the values that
    a slider or a sweep may take. block, grid and shared (bytes of dynamic shared memory) are
    expressions over params, M, N, K.
    """

    name: str
    title: str
    file: str
    entry: str
    chapter: int
    block: tuple[str, str, str]
    grid: tuple[str, str, str]
    params: Mapping[str, int] = field(default_factory=dict)
    choices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    dtype: str = "float32"
    out_dtype: str = "float32"
    shared: str = "0"
    defines: Mapping[str, str] = field(default_factory=dict)
    min_arch: str = "sm_75"
    baseline: str = "cublas_fp32"
    tile: tuple[str, str] = ("1", "1")
    """Rows and columns of C that one block computes: for traffic models and tile diagrams."""
    reuse: str = "block"
    """Who shares an element fetched from global memory: "block" (staged in shared memory) or
    "warp"."""
    warp: tuple[str, str] = ("max(1, 32 // BX)", "min(BX, 32)")
    """Rows and columns of C that one warp computes, where reuse is "warp"."""
    after: int = 0
    """The chapter of the kernel that it varies, where that is a later one than its own."""
    note: str = ""
    candidates: tuple[Mapping[str, int], ...] = ()
    """Tiles that `launch.choose` picks from by shape, as changes to params; empty: no choice."""
    host: str = "plain"
    """How arguments are passed: "plain" pointers, or "tma" (tensor-map descriptors, Hopper)."""
    passed: tuple[str, ...] = ()
    """Those of params that a launch passes as int arguments, after K; the others are -D macros."""
    room: tuple[Room, ...] = ()
    """Arrays beside A, B and C that a launch brings, in the order of the kernel's last parameters.
    """
    text: str | None = None
    """A reader's own source in place of the file's; the name then ends with OWN."""
    core_of: str = ""
    """The kernel whose core this is: its tile sizes stand in the text, as `const int BM = 64`."""

    def __post_init__(self) -> None:
        if self.text is not None and not self.name.endswith(OWN):
            object.__setattr__(self, "name", self.name + OWN)

    @property
    def path(self) -> Path:
        """The kernel's one .cu file."""
        return _below(KERNELS, self.file)

    @property
    def source(self) -> str:
        """The reader's own text, or that of the .cu file as it stands now."""
        return read_source(self.path) if self.text is None else self.text

    @property
    def source_name(self) -> str:
        """What the compiler and the emulator call the source in their messages."""
        return self.file if self.text is None else f"your_{self.file}"

    @property
    def place(self) -> int:
        """Where it stands on the ladder: a variant comes after what it varies."""
        return max(self.chapter, self.after)

    @property
    def flop_item(self) -> str:
        """The unit of its rate: FLOP for floating point, op for integers."""
        return "op" if self.dtype == "int32" else "FLOP"

    def with_params(self, **params: int) -> Kernel:
        """The same kernel with other default tile sizes. Raises ConfigError on a bad name."""
        return replace(self, params=_merged(self, params))

    def with_source(self, text: str) -> Kernel:
        """The same kernel with this text: same entry, sizes, rules and geometry; a marked name.

        Of a core the tile sizes are those that the text says. Raises ConfigError if the text has no
        word that is the entry's name, or a core's does not say a size as a whole number.
        """
        if not re.search(rf"\b{self.entry}\b", text):
            raise ConfigError(
                f"the source has no kernel called {self.entry}, which is what {self.name}"
                " launches: "
                f'begin it with extern "C" __global__ void {self.entry}(...) and keep the '
                "parameters"
            )
        params = dict(self.params)
        if self.core_of:
            own = constants(text)
            lost = [n for n in constants(self.source) if n in params and n not in own]
            if lost:
                raise ConfigError(
                    f"the launch of {self.name} takes its tile from the text, which does not say "
                    f"{', '.join(lost)}: write each as a whole number, const int {lost[0]} = "
                    f"{params[lost[0]]}"
                )
            params |= {name: size for name, size in own.items() if name in params}
        return replace(self, text=text, params=params)


def constants(text: str) -> dict[str, int]:
    """Whole numbers that a text names by `const int BM = 64, BN = 64;` (or constexpr), by name."""
    sizes: dict[str, int] = {}
    for line in _CONSTANTS.findall(without_comments(text)):
        sizes |= {name: int(value) for name, value in _CONSTANT.findall(line)}
    return sizes


DEPTHS = ("BK", "TILE", "TILE_COLS")
"""Tile sizes that say how far a block goes along K in one step: the first that a kernel has."""


@dataclass(frozen=True)
class Geometry:
    """A launch: everything fixed but the pointers. grid and block are (x, y, z)."""

    kernel: Kernel
    params: Mapping[str, int]
    M: int
    N: int
    K: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    why: str = ""
    """Why these tile sizes, where `launch.choose` picked them."""

    @property
    def defines(self) -> dict[str, str]:
        """The -D macros of this launch: element types and tile sizes."""
        return defines(self.kernel, self.params)

    @property
    def names(self) -> dict[str, int]:
        """What an expression of the catalog may name: tile sizes and M, N, K."""
        return {**self.params, "M": self.M, "N": self.N, "K": self.K}

    @property
    def numbers(self) -> tuple[int, ...]:
        """The int arguments that follow the pointers: M, N, K, and what else it is passed."""
        return (self.M, self.N, self.K, *(self.params[name] for name in self.kernel.passed))

    @property
    def rooms(self) -> tuple[tuple[str, str, int], ...]:
        """Name, type and elements of each array that this launch brings beside A, B and C."""
        return tuple((r.name, r.dtype, evaluate(r.count, self.names)) for r in self.kernel.room)

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C that one block computes."""
        return tuple(evaluate(side, self.names) for side in self.kernel.tile)  # type: ignore[return-value]


def defines(kernel: Kernel, params: Mapping[str, int]) -> dict[str, str]:
    """The -D macros for a kernel with these tile sizes; of a core none, for its text has them."""
    if kernel.core_of:
        return dict(kernel.defines)
    sizes = {name: str(value) for name, value in params.items() if name not in kernel.passed}
    return {**kernel.defines, **sizes}


def _merged(kernel: Kernel, changes: Mapping[str, int]) -> dict[str, int]:
    unknown = [name for name in changes if name not in kernel.params]
    if unknown:
        has = ", ".join(f"{n}={v}" for n, v in kernel.params.items()) or "none"
        raise ConfigError(
            f"{kernel.name} has no tile parameter {unknown[0]!r}; it has {has}. "
            f"{near_matches(unknown[0], kernel.params) if kernel.params else ''}".rstrip()
        )
    merged = dict(kernel.params)
    for name, value in changes.items():
        if isinstance(value, bool) or int(value) != value or value < 1:
            raise ConfigError(f"{name}={value!r}: a tile size is a whole number of at least 1")
        merged[name] = int(value)
        if kernel.core_of and merged[name] != kernel.params[name]:
            raise ConfigError(
                f"{name}={value}: the tile of a core stands in its text. Change `const int {name} "
                f"= {kernel.params[name]}` there, or give {name} to {kernel.core_of}, which takes "
                "any tile"
            )
    return merged


def broken_rules(
    kernel: Kernel, M: int = 4096, N: int = 4096, K: int = 4096, **params: int
) -> list[Rule]:
    """The rules that these tile sizes break, first the kernel's own, then the hardware's.

    An empty list means that the kernel may be launched (registers are known after compiling).
    """
    return _broken(kernel, {**_merged(kernel, params), "M": M, "N": N, "K": K})


def _broken(kernel: Kernel, names: Mapping[str, int]) -> list[Rule]:
    broken = [rule for rule in kernel.rules if not rule.holds(names)]
    if broken:
        return broken
    x, y, z = (evaluate(e, names) for e in kernel.block)
    if x * y * z > MAX_THREADS:
        why = f"a block of {x}x{y}x{z} = {x * y * z} threads; a block holds at most {MAX_THREADS}"
        broken.append(Rule(f"{x} * {y} * {z} <= {MAX_THREADS}", why))
    grid = [evaluate(e, names) for e in kernel.grid]
    if max(grid[1:]) > MAX_GRID_YZ:
        why = f"a grid of {grid[0]}x{grid[1]}x{grid[2]} blocks; y and z hold {MAX_GRID_YZ} at most"
        broken.append(Rule(f"{max(grid[1:])} <= {MAX_GRID_YZ}", why))
    return broken


def geometry(kernel: Kernel, M: int, N: int, K: int, **params: int) -> Geometry:
    """Grid, block and dynamic shared memory for C (MxN) = A (MxK) B (KxN).

    Raises ShapeError if M, N or K is no whole number from 1 to MAX_EDGE, ConfigError naming the
    broken rule and its reason.
    """
    M, N, K = (_edge(name, value) for name, value in (("M", M), ("N", N), ("K", K)))
    merged = _merged(kernel, params)
    names = {**merged, "M": M, "N": N, "K": K}
    broken = _broken(kernel, names)
    if broken:
        rule = broken[0]
        sizes = ", ".join(f"{n}={v}" for n, v in merged.items())
        shape = f", M={M}, N={N}, K={K}" if re.search(r"\b[MNK]\b", rule.expr) else ""
        raise ConfigError(
            f"{kernel.name} with {(sizes + shape).removeprefix(', ')} breaks the rule {rule.expr}: "
            f"{rule.reason}." + ("" if shape and kernel.core_of else f" {_remedy(kernel, merged)}")
        )
    grid = tuple(evaluate(e, names) for e in kernel.grid)
    block = tuple(evaluate(e, names) for e in kernel.block)
    shared = evaluate(kernel.shared, names)
    return Geometry(kernel, MappingProxyType(merged), M, N, K, grid, block, shared)  # type: ignore[arg-type]


def _edge(name: str, value: Any) -> int:
    """M, N or K as a plain int: NumPy's would overflow in formulas, True be 1 in caches."""
    whole = value.is_integer() if isinstance(value, float) else hasattr(value, "__index__")
    if isinstance(value, bool) or not whole:
        raise ShapeError(f"{name}={value!r}: give a whole number of rows or columns")
    if value < 1:
        raise ShapeError(f"{name}={value}: a matrix needs at least one row and one column")
    if value > MAX_EDGE:
        raise ShapeError(
            f"{name}={value}: kernels count rows and columns in 32 bits, up to {MAX_EDGE}; cut the "
            "product into parts"
        )
    return int(value)


def _remedy(kernel: Kernel, given: Mapping[str, int]) -> str:
    sizes = ", ".join(f"{n}={v}" for n, v in kernel.params.items())
    if kernel.core_of:
        return f"Choose other tile sizes, in the text, or use {kernel.core_of}."
    if given == kernel.params:
        return "Choose other tile sizes: these are the catalog's own."
    return f"Choose other tile sizes, or leave them out for the defaults ({sizes})."


class Catalog(Mapping[str, Kernel]):
    """Kernels by name, in the order of the ladder."""

    def __init__(self, kernels: tuple[Kernel, ...]) -> None:
        self._kernels = {kernel.name: kernel for kernel in kernels}
        if len(self._kernels) != len(kernels):
            raise ConfigError("two kernels of the catalog share a name")

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._kernels:
            core = str(name).endswith("_core") and not any(k.core_of for k in self.values())
            where = " in the catalog; the chapters' cores stand in `cores`" if core else ""
            raise UnknownKernelError(
                f"no kernel is called {name!r}{where}. {near_matches(str(name), self._kernels)}"
            )
        return self._kernels[name]

    def get(self, name: str, default: Kernel | None = None) -> Kernel | None:  # type: ignore[override]
        return self._kernels.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._kernels

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __repr__(self) -> str:
        return "catalog of " + ", ".join(self._kernels)
