"""What one block of a kernel asks of its SM: counts as a fixed part and a part for each k.

Counted by the emulator on one whole tile of C at two depths, which gives both parts exactly; by closed
formulas for what the emulator cannot run (copies by TMA, products by wgmma).
"""

from __future__ import annotations

import inspect
import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers import disk, model, toolchain
from helpers.device import WARP
from helpers.emulator import LineAccess, Report
from helpers.errors import ConfigError, ToolchainError
from helpers.kernel import DEPTHS, ITEM_BYTES, Geometry, geometry
from helpers.launch import trace_of

Array = np.ndarray[Any, np.dtype[Any]]
LINE_BYTES = model.L1_LINE


@dataclass(frozen=True)
class Linear:
    """A count of a block: `fixed` once, `per_k` for each step of k by one."""

    fixed: float
    per_k: float

    def at(self, depth: int) -> float:
        """The count for K = depth."""
        return self.fixed + self.per_k * depth


@dataclass(frozen=True)
class BlockCounts:
    """What one block with a whole tile of C asks of its SM, and who counted it.

    deliveries: wavefronts of the data pipe that shared memory and L1 have in common. issued: warp
    instructions for each warp-level multiply-add (FP32, int32: 32 lanes; Tensor Cores: one
    instruction of PTX or machine code, see `products`); None where nothing disassembles. products:
    warp-level multiply-adds, or instructions of the Tensor Cores, for each step of k. parts: the
    deliveries by what they are of.
    """

    deliveries: Linear
    parts: tuple[tuple[str, Linear], ...]
    deliveries_source: str
    instructions: Linear | None
    instructions_source: str


def depth_of(launch: Geometry) -> int:
    """How far a block goes along K in one step; 64 for the kernels with wgmma, 16 where none is named."""
    if launch.kernel.host == "tma":
        return 64
    return next((launch.params[name] for name in DEPTHS if name in launch.params), 16)


def of_block(launch: Geometry, arch: str) -> BlockCounts:
    """The counts of one block of a launch, compiled for arch. Kept in the cache of programs.

    Raises what compiling and emulating it raise; ConfigError where the emulator finds a fault, since
    counts of a wrong kernel say nothing.
    """
    k = launch.kernel
    strides = _stride(launch.K), _stride(launch.N)
    identity = disk.digest(
        [
            k.source, k.entry, k.name, arch, repr(sorted(launch.defines.items())), repr(strides),
            repr((launch.block, launch.tile, launch.shared_bytes)), toolchain.compiler(),
            repr(toolchain.header_state(k.source)), inspect.getsource(sys.modules[__name__]),
        ]
    )  # fmt: skip
    return disk.kept("costs", identity, lambda: _count(launch, arch))


def _count(launch: Geometry, arch: str) -> BlockCounts:
    instructions, said = _instructions(launch, arch)
    if launch.kernel.host == "tma":
        parts = _by_formula(launch)
        source = (
            "closed formulas of the tile (the emulator runs no TMA and no wgmma): what the products "
            "read, each tile of C once; TMA writes past this pipe"
        )
    else:
        parts = _emulated(launch, arch)
        source = f"the emulator, one whole tile at two depths, shared accesses as in SASS of {arch}"
    total = Linear(sum(p.fixed for _, p in parts), sum(p.per_k for _, p in parts))
    return BlockCounts(total, tuple(parts), source, instructions, said)


# -- deliveries -----------------------------------------------------------------------------------


def _emulated(launch: Geometry, arch: str) -> list[tuple[str, Linear]]:
    """Deliveries by kind, from two runs of one block."""
    depth = depth_of(launch)
    unit = math.lcm(
        4 * depth, 32
    )  # whole rounds of an unrolled loop, and rows that end with a line
    short = unit * math.ceil(max(64, (launch.params.get("STAGES", 1) + 1) * depth) / unit)
    long = short + unit
    one, two = (_run(launch, k, arch) for k in (short, long))
    found = []
    for name in dict.fromkeys([*one, *two]):
        a, b = one.get(name, 0.0), two.get(name, 0.0)
        slope = (b - a) / (long - short)
        found.append((name, Linear(max(a - slope * short, 0.0), slope)))
    return found


def _run(launch: Geometry, depth: int, arch: str) -> dict[str, float]:
    """Deliveries of one block at one depth, by "shared load", "global load" and so on."""
    bm, bn = launch.tile
    small = geometry(launch.kernel, bm, bn, depth, **launch.params)
    trace = trace_of(small, arch=arch, sass=True, samples=True)
    if trace.report.findings:
        raise ConfigError(
            f"{launch.kernel.name} has a fault on one tile of {bm}x{bn}, so its counts say nothing. "
            f"Mend it first: {trace.report.findings[0]}"
        )
    along_k, along_n = (depth, _stride(launch.K)), (bn, _stride(launch.N))
    return deliveries(trace.report, {"A": along_k, "B": along_n, "C": along_n})


def _stride(elements: int) -> int:
    """A row length that falls on the banks and lines as this one does."""
    return 1024 + elements % 128


def deliveries(
    report: Report, strides: dict[str, tuple[int, int]] | None = None
) -> dict[str, float]:
    """Wavefronts of the data pipe in a report, by space and kind of access.

    Shared memory: as the machine code makes them where that is known, else as the PTX does. Global
    memory: requests times `model.l1_clocks` of the lanes of each line's first requests (they need
    samples=True). strides: for an array the row length that ran, and the one to count for, in
    elements: lanes keep their rows and columns.
    """
    found: dict[str, float] = {}
    past = _past_the_pipe(report)
    for row in report.accesses:
        if (row.line, row.width_bytes) in past and (row.space, row.op) in COPY:
            continue
        if row.space == "shared":
            waves = row.wavefronts if row.sass_wavefronts is None else row.sass_wavefronts
            amount = float(waves)
        elif row.space == "global":
            amount = row.requests * _clocks(report, row, strides or {})
        else:
            continue
        name = f"{row.space} {row.op}"
        found[name] = found.get(name, 0.0) + amount
    return found


COPY = (("global", "load"), ("shared", "store"))
"""The two halves of a cp.async."""


def _past_the_pipe(report: Report) -> set[tuple[int, int]]:
    """Line and width of the copies by cp.async.cg, 16 bytes a lane.

    They go from L2 to shared memory and skip L1 (PTX ISA, cp.async). The recorded `shared_percent` of
    mma_pipelined leaves no room for them in this pipe, so the bound does not count them.
    """
    if not any(op.startswith("cp.async.cg") for op in report.instructions):
        return set()
    halves = {
        half: {(r.line, r.width_bytes) for r in report.accesses if (r.space, r.op) == half}
        for half in COPY
    }
    return {at for at in halves[COPY[0]] & halves[COPY[1]] if at[1] == 16}


def _clocks(report: Report, row: LineAccess, strides: dict[str, tuple[int, int]]) -> float:
    """Deliveries of one request of a line to global memory, the mean of its samples."""
    samples = (report.samples or {}).get((row.line, row.space, row.op), ())
    clocks, seen = 0.0, 0
    for array, itemsize, lanes in samples:
        if array != row.array:
            continue
        ran, real = strides.get(array, (1, 1))
        for request in _distinct(lanes):
            active = request[request >= 0] // itemsize
            at = (active // ran * real + active % ran) * itemsize
            words = at[:, None] + np.arange(0, max(row.width_bytes, 4), 4)
            clocks += model.l1_clocks(words.ravel().tolist())
            seen += 1
    return clocks / seen if seen else 1.0


def _distinct(lanes: Array, most: int = 24) -> Array:
    """Up to `most` requests, spread over those that were kept."""
    return lanes[:: max(1, len(lanes) // most)]


def _by_formula(launch: Geometry) -> list[tuple[str, Linear]]:
    """Deliveries of a kernel fed by TMA, in wavefronts of 128 bytes.

    wgmma multiplies 64 rows: A is read once, B once for each 64 rows (the wgmma of PTX reads both
    operands from shared memory; that ncu's counter of the pipe sees just these reads, and not what TMA
    writes, is inferred from the recorded `shared_percent`). mma_tma reads fragments: a warp tile
    WM x WN takes WM + WN elements a k. C leaves through registers or shared memory: left out.
    """
    p, item = launch.params, ITEM_BYTES[launch.kernel.dtype]
    bm, bn = launch.tile
    if "WM" in p:
        warps = bm // p["WM"] * (bn // p["WN"])
        per_k = warps * (p["WM"] + p["WN"]) * item / LINE_BYTES
        return [("shared load (ldmatrix)", Linear(0.0, per_k))]
    a, b = bm * item / LINE_BYTES, bm // 64 * bn * item / LINE_BYTES
    return [("shared load (wgmma)", Linear(0.0, a + b))]


# -- instructions ---------------------------------------------------------------------------------


def _instructions(launch: Geometry, arch: str) -> tuple[Linear | None, str]:
    """Warp instructions of a block: those of the main loop for each multiply-add in it."""
    bm, bn = launch.tile
    try:
        built = toolchain.compile_launch(launch, arch)
        code, labels = toolchain.sass_instructions(built.cubin, launch.kernel.entry)
        loop = toolchain.main_loop(code, labels)
    except ToolchainError as error:
        return None, f"not known: {error}"
    done = sum(multiplied(i.opcode, launch.kernel.dtype) for i in loop)
    if not done:
        return None, f"not known: no multiply-add in the main loop of {arch}"
    if any(i.opcode.startswith("HGMMA") for i in loop):
        return (
            None,
            "left out: a warpgroup issues few instructions, and producers differ from consumers",
        )
    per_k = bm * bn * len(loop) / done
    return (
        Linear(0.0, per_k),
        f"SASS of {arch}: {len(loop)} instructions in the main loop for "
        f"{done:g} lane multiply-adds",
    )


def multiplied(opcode: str, dtype: str) -> float:
    """Multiply-adds of elements of this type that one warp instruction does: FFMA 32, HMMA.16816 2048."""
    kind, *words = opcode.split(".")
    if dtype in ("float32", "int32"):
        return WARP if (opcode == "IMAD" if dtype == "int32" else kind == "FFMA") else 0.0
    shape = next((w for w in words if w.isdigit()), "")
    return HMMA.get(shape, 0.0) if kind == "HMMA" else 0.0


HMMA = {"16816": 2048.0, "1688": 1024.0, "884": 256.0}
"""Multiply-adds of a warp instruction of the Tensor Cores, by its shape in SASS (m x n x k)."""
