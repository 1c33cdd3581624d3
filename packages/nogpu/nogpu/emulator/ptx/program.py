"""A translated program: functions, basic blocks, memory instructions and facts about the whole.

The machine runs these; `blocks` makes them, and `launching.link` gives each block the function that
its Python is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nogpu.emulator.ptx import ends
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.layout import FUNCTION_BASE
from nogpu.emulator.ptx.sites import Site


@dataclass(frozen=True)
class SharedSymbol:
    """A variable in shared memory; size 0: the dynamic part."""

    name: str
    start: int
    size: int
    itemsize: int
    shape: tuple[int, ...]

    def index_text(self, offset: int) -> str:
        """`A_tile[3][7]` if the source tells the shape, `A_tile[103]` otherwise."""
        element = offset // self.itemsize
        total = int(np.prod(self.shape)) if self.shape else 0
        if len(self.shape) > 1 and total * self.itemsize == self.size and 0 <= element < total:
            indices = np.unravel_index(element, self.shape)
            return self.name + "".join(f"[{i}]" for i in indices)
        return f"{self.name}[{element}]"


@dataclass(frozen=True)
class Spin:
    """A loop that waits (see `waits`), as the machine needs it. registers: their numbers."""

    head: int
    registers: tuple[int, ...]
    strong: bool
    line: int
    endless: bool


def not_linked(*arguments: Any) -> Any:
    """What stands for a block's function until the program is linked."""
    raise AssertionError("the program was not linked: see launching.link")


@dataclass
class Block:
    """A basic block. line: of its first instruction; end_line, end_place: of its last.

    What the end does (a barrier, say) is told with its own line. end_place tells barriers of one
    line apart, by where the function that holds them was called (`Instruction.place`).
    """

    number: int
    start: int
    line: int
    cost: int
    end_line: int = 0
    end_place: tuple[str, ...] = ()
    end: ends.End = field(init=False)
    run: Callable[..., Any] = field(default=not_linked, repr=False)
    opcodes: dict[str, int] = field(default_factory=dict)
    spins: tuple[Spin, ...] | None = None  # loops that this block goes back to the start of
    # Where one thread goes on, if its predicate holds and if not; None: as the end says.
    ways: tuple[int, int] | None = None


@dataclass
class FunctionProgram:
    """A translated function. code: its blocks as marshalled Python, functions called `block_name`,
    until they are linked."""

    name: str
    blocks: dict[int, Block]
    kinds: list[str]  # NumPy types of the registers that live longer than a basic block
    locals_size: int
    exits: tuple[int, ...] = ()  # blocks that hold nothing but a return
    code: bytes = field(default=b"", repr=False)
    rank: dict[int, int] | None = None  # place of each block in `flow.order`; None: as in the text


@dataclass
class Program:
    """A translated module with one entry."""

    module: P.Module
    entry: P.Function
    sites: list[Site] = field(default_factory=list)
    functions: dict[str, FunctionProgram] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    shared_symbols: list[SharedSymbol] = field(default_factory=list)
    shared_offsets: dict[str, int] = field(default_factory=dict)
    static_shared: int = 0
    shared_base: int = 0  # address of a block's first byte of shared memory
    granule: int = 4
    local_bytes: int = 0
    dynamic_shared: bool = False
    fences: bool = False
    mbarriers: bool = False  # single threads are ordered: accesses are judged one by one
    engines: bool = False  # something asks the copy engine, or for products from shared memory
    tensor_memory: bool = False  # something works in tensor memory
    pairs: bool = False  # of blocks, that multiply as one
    cancels: bool = False  # blocks take over clusters that have not started
    clusters: bool = False  # blocks of a cluster meet, or reach into each other's shared memory
    cooperative: bool = False  # asks whether the launch is
    pointed: set[str] = field(default_factory=set)  # functions that pointers may point to
    waits: bool = False  # some loop waits for other threads
    polls: bool = False  # by reads that are made for synchronisation: perhaps for other blocks
    stored_params: set[int] | None = None  # byte offsets of pointer parameters stored through
    global_symbols: dict[str, tuple[int, int]] = field(default_factory=dict)  # name: (slot, size)
    used: set[str] = field(default_factory=set)  # of these, by the entry: headers bring many more
    param_offsets: dict[str, int] = field(default_factory=dict)
    follows_local: bool = False  # whether words of local memory were written is asked: see `unset`
    unset: bool = False  # some way reads a register before it writes it
    scalar: bool = False  # made for a launch of one thread: see `scalars`
    weight: int = 0  # bytes of memory that it takes, about, once it is linked
    returns: bool = True  # whether the kernel's text has a way out before its end
    crowded: frozenset[int] = frozenset()  # lines of the source with more than one barrier

    def function_address(self, name: str) -> int:
        """What a pointer to a device function holds."""
        return FUNCTION_BASE + 16 * list(self.module.functions).index(name)

    def function_at(self, address: int) -> str:
        """The function that a pointer points to, or an empty text."""
        place, rest = divmod(address - FUNCTION_BASE, 16)
        names = list(self.module.functions)
        if rest or not 0 <= place < len(names) or names[place] not in self.functions:
            return ""
        return names[place]

    def run_function(self) -> FunctionProgram:
        """The translated entry."""
        return self.functions[self.entry.name]


def block_name(number: int) -> str:
    """The name of the Python function of a block."""
    return f"block_{number}"


def demangle(symbol: str) -> str:
    """The source name of a function-local or plain C++ symbol."""
    if not symbol.startswith("_Z"):
        return symbol
    for match in reversed(list(re.finditer(r"(\d+)", symbol))):
        start = match.end()
        for digits in range(len(match.group(1)), 0, -1):
            length = int(match.group(1)[-digits:])
            name, rest = symbol[start : start + length], symbol[start + length :]
            if (
                len(name) == length
                and re.fullmatch(r"[A-Za-z_]\w*", name)
                and re.fullmatch(r"(E?v|E?_\d+|E|)", rest)
            ):
                return name
    return symbol
