"""What one block of a kernel asks of its SM: counts as a fixed part and a part for each k.

Counted by the emulator on one whole tile of C at two depths, which gives both parts exactly; by
closed formulas for kernels that copy by TMA (`tests/test_hopper_kernels.py` holds their bytes to
the emulator's).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from helpers.ladder import model, usage
from helpers.ladder.kernel import DEPTHS, ITEM_BYTES, Geometry, cdiv, geometry
from helpers.ladder.launch import Trace, trace_of
from helpers.record.costs import rates, waiting
from nogpu import disk, toolchain
from nogpu.device import WARP
from nogpu.emulator import Report
from nogpu.errors import ConfigError, ToolchainError

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
class Lanes:
    """The lanes of a few requests of one line to global memory, by row and column of their array.

    at: (rows, columns) of the elements of each request's active lanes, where the width of a row is
    not known yet; width: bytes a lane; itemsize: of an element.
    """

    array: str
    itemsize: int
    width: int
    at: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    @lru_cache(maxsize=1024)  # noqa: B019 (a frozen dataclass: equal ones share their results)
    def wavefronts(self, row_length: int, clocks: float = 1.0) -> float:
        """Wavefronts of a request, the mean, where rows are so many elements long
        (`model.l1_clocks`).

        clocks: of a full wavefront, see `full_wavefronts`.
        """
        total = 0.0
        for rows, columns in self.at:
            start = (np.array(rows) * row_length + np.array(columns)) * self.itemsize
            words = (start[:, None] + np.arange(0, max(self.width, 4), 4)).ravel().tolist()
            full = len({word // model.L1_WORD for word in words}) / model.L1_BANKS
            total += max(model.l1_clocks(words) / clocks, full)
        return total / len(self.at)


def full_wavefronts(wavefronts: float, full: float, clocks: float) -> float:
    """Wavefronts that count where a full one takes this many clocks (2 on a T4: 64 bytes a clock).

    full: how many there were if the same words lay without conflicts. A wavefront that conflicts
    left half empty may pass in one clock, so it counts as a half at least: the bound stays one.
    """
    return max(wavefronts / clocks, min(full, wavefronts))


@dataclass(frozen=True)
class Part:
    """Accesses of one kind in a block: wavefronts of shared memory, or requests to global memory.

    name: "shared load", "global store" and so on. full: share of the wavefronts of shared memory
    that would be left without bank conflicts. lanes: None for shared memory.
    """

    name: str
    count: Linear
    full: float = 1.0
    lanes: Lanes | None = None


@dataclass(frozen=True)
class BlockCounts:
    """What one block with a whole tile of C asks of its SM, and who counted it.

    parts: of the pipe that delivers from L1 and shared memory. instructions: warp instructions of
    the main loop; None where they are not known, and instructions_source says why. waits: clocks in
    which one of its warps, alone, waits for loads (`waiting.waits`).
    """

    parts: tuple[Part, ...]
    deliveries_source: str
    instructions: Linear | None
    instructions_source: str
    waits: Linear | None = None

    def deliveries(self, K: int, N: int, clocks: float = 1.0) -> float:
        """Wavefronts of the data pipe for one block: rows of A have K elements, those of B and C N.

        clocks: of a full wavefront (`full_wavefronts`).
        """
        return sum(self.by_kind(K, N, clocks).values())

    def by_kind(self, K: int, N: int, clocks: float = 1.0) -> dict[str, float]:
        """`deliveries` by what they are of: "shared load", "shared store", "global load" ..."""
        found: dict[str, float] = {}
        for part in self.parts:
            if part.lanes is None:
                each = full_wavefronts(1.0, part.full, clocks)
            else:
                each = part.lanes.wavefronts(K if part.lanes.array == "A" else N, clocks)
            found[part.name] = found.get(part.name, 0.0) + each * part.count.at(K)
        return found


def depth_of(launch: Geometry) -> int:
    """How far a block goes along K in one step; 64 for wgmma, 16 where none is named."""
    if launch.kernel.host == "tma":
        return 64
    return next((launch.params[name] for name in DEPTHS if name in launch.params), 16)


def of_block(launch: Geometry, arch: str) -> BlockCounts:
    """The counts of one block of a launch, compiled for arch. Kept in the cache of programs.

    Raises what compiling and emulating it raise; ConfigError where the emulator finds a fault,
    since counts of a wrong kernel say nothing.
    """
    k = launch.kernel
    identity = disk.digest(
        [
            k.source,
            k.entry,
            k.name,
            arch,
            repr(sorted(launch.defines.items())),
            repr((launch.block, launch.tile, launch.shared_bytes)),
            toolchain.compiler(),
            repr(toolchain.header_state(k.source)),
            disk.code_of(
                *(Path(__file__).with_name(f"{n}.py") for n in ("counting", "rates", "waiting"))
            ),
        ]
    )
    return disk.load_or_make("costs", identity, lambda: _count(launch, arch))


def _count(launch: Geometry, arch: str) -> BlockCounts:
    instructions, waits, counter = _instructions(launch, arch)
    if launch.kernel.host == "tma":
        parts = _by_formula(launch)
        source = (
            "closed formulas of the tile: what the products read, each tile of C once; TMA writes"
            " past this pipe"
        )
    else:
        parts = _emulated(launch, arch)
        source = f"the emulator, one whole tile at two depths, shared accesses as in SASS of {arch}"
    return BlockCounts(tuple(parts), source, instructions, counter, waits)


# -- deliveries -----------------------------------------------------------------------------------


def _emulated(launch: Geometry, arch: str) -> list[Part]:
    """Accesses of one block by line, from runs at two depths."""
    depth = depth_of(launch)
    unit = math.lcm(
        4 * depth, 32
    )  # whole rounds of an unrolled loop, and rows that end with a line
    short = unit * math.ceil(max(64, (launch.params.get("STAGES", 1) + 1) * depth) / unit)
    long = short + unit
    one, two = (_run(launch, k, arch) for k in (short, long))
    a, b = (accesses(t.report) for t in (one, two))
    lanes = _lanes(two, long)
    found = []
    for name, line, width, array in dict.fromkeys([*a, *b]):
        key = name, line, width, array
        few, many = a.get(key, (0.0, 0.0)), b.get(key, (0.0, 0.0))
        slope = (many[0] - few[0]) / (long - short)
        count = Linear(max(few[0] - slope * short, 0.0), slope)
        found.append(Part(name, count, many[1] / many[0] if many[0] else 1.0, lanes.get(key)))
    return found


def _run(launch: Geometry, depth: int, arch: str) -> Trace:
    """One block with a whole tile of C, at one depth."""
    bm, bn = launch.tile
    small = geometry(launch.kernel, bm, bn, depth, **launch.params)
    trace = trace_of(small, arch=arch, sass=True, samples=True)
    if trace.report.findings:
        raise ConfigError(
            f"{launch.kernel.name} has a fault on one tile of {bm}x{bn}, so its counts say nothing."
            f" Mend it first: {trace.report.findings[0]}"
        )
    return trace


Key = tuple[str, int, int, str]
"""Kind of access, line, bytes a lane, array."""


def accesses(report: Report) -> dict[Key, tuple[float, float]]:
    """Wavefronts (shared memory) and requests (global memory) of a report that the pipe delivers.

    Beside them the wavefronts that would be left without bank conflicts, at most as many. Shared
    memory: as the machine code makes them where that is known, else as the PTX does.
    """
    found: dict[Key, tuple[float, float]] = {}
    past = _past_the_pipe(report)
    for row in report.accesses:
        if (row.line, row.width_bytes) in past and (row.space, row.op) in COPY:
            continue
        if row.space == "shared":
            amount = row.wavefronts if row.sass_wavefronts is None else row.sass_wavefronts
            ideal = min(amount if row.ideal_wavefronts is None else row.ideal_wavefronts, amount)
        elif row.space == "global":
            amount = ideal = row.requests
        else:
            continue
        key = f"{row.space} {row.op}", row.line, row.width_bytes, row.array
        before = found.get(key, (0.0, 0.0))
        found[key] = before[0] + amount, before[1] + ideal
    return found


SAMPLES = 16
"""Requests of a line whose lanes are kept, spread over those that the emulator kept."""


def _lanes(trace: Trace, depth: int) -> dict[Key, Lanes]:
    """The lanes of each line's requests to global memory, from a run at this depth."""
    lengths = {"A": depth, "B": trace.plan.tile[1], "C": trace.plan.tile[1]}
    found: dict[Key, Lanes] = {}
    for row in trace.report.accesses:
        if row.space != "global" or row.array not in lengths:
            continue
        length, at = lengths[row.array], []
        for array, itemsize, lanes in (trace.report.samples or {}).get(
            (row.line, row.space, row.op), ()
        ):
            if array == row.array:
                active = [request[request >= 0] // itemsize for request in lanes]
                at += [
                    (tuple((e // length).tolist()), tuple((e % length).tolist())) for e in active
                ]
        if at:
            kept = tuple(at[:: max(1, len(at) // SAMPLES)])
            size = trace.report.samples[(row.line, row.space, row.op)][0][1]  # type: ignore[index]
            found[f"global {row.op}", row.line, row.width_bytes, row.array] = Lanes(
                row.array, size, row.width_bytes, kept
            )
    return found


def delivered(report: Report, clocks: float = 1.0) -> float:
    """Wavefronts of a report as it ran: row lengths are those of its arrays (needs samples=True).

    clocks: of a full wavefront (`full_wavefronts`).
    """
    total = 0.0
    for (name, line, width, array), (count, full) in accesses(report).items():
        if name.startswith("shared"):
            total += full_wavefronts(count, full, clocks)
            continue
        rows = (report.samples or {}).get((line, "global", name.split()[1]), ())
        at = [
            ((0,) * int((lane >= 0).sum()), tuple(lane[lane >= 0].tolist()))
            for found, _, lanes in rows
            if found == array
            for lane in lanes
        ]
        kept = tuple(at[:: max(1, len(at) // SAMPLES)])
        total += count * (Lanes(array, 1, width, kept).wavefronts(0, clocks) if kept else 1.0)
    return total


COPY = (("global", "load"), ("shared", "store"))
"""The two halves of a cp.async."""


def _past_the_pipe(report: Report) -> set[tuple[int, int]]:
    """Line and width of the copies by cp.async.cg, 16 bytes a lane.

    They go from L2 to shared memory and skip L1 (PTX ISA, cp.async). The recorded `shared_percent`
    of mma_pipelined leaves no room for them in this pipe, so the bound does not count them.
    """
    if not any(op.startswith("cp.async.cg") for op in report.instructions):
        return set()
    halves = {
        half: {(r.line, r.width_bytes) for r in report.accesses if (r.space, r.op) == half}
        for half in COPY
    }
    return {at for at in halves[COPY[0]] & halves[COPY[1]] if at[1] == 16}


def _by_formula(launch: Geometry) -> list[Part]:
    """Deliveries of a kernel fed by TMA, in wavefronts of 128 bytes.

    wgmma multiplies 64 rows: A is read once, B once for each 64 rows (the wgmma of PTX reads both
    operands from shared memory; that ncu's counter of the pipe sees just these reads, and not what
    TMA writes, is inferred from the recorded `shared_percent`). mma_tma reads fragments: a warp
    tile WM x WN takes WM + WN elements a k. C leaves through registers or shared memory: left out.
    """
    p, item = launch.params, ITEM_BYTES[launch.kernel.dtype]
    bm, bn = launch.tile
    if "WM" in p:
        warps = bm // p["WM"] * (bn // p["WN"])
        per_k = warps * (p["WM"] + p["WN"]) * item / LINE_BYTES
        return [Part("shared load", Linear(0.0, per_k))]
    a, b = bm * item / LINE_BYTES, bm // 64 * bn * item / LINE_BYTES
    return [Part("shared load", Linear(0.0, a + b))]


# -- instructions ---------------------------------------------------------------------------------


def _instructions(launch: Geometry, arch: str) -> tuple[Linear | None, Linear | None, str]:
    """Warp instructions of a block and the waits of one of its warps, by the machine code's main
    loop."""
    bm, bn = launch.tile
    if launch.kernel.host == "tma" and "WM" not in launch.params:
        exposed = rates.latency(arch, "L2").clocks if launch.params.get("STAGES", 1) == 1 else 0.0
        words = "left out: a warpgroup issues few instructions, and producers differ from consumers"
        return None, Linear(0.0, exposed / depth_of(launch)), words
    try:
        built = usage.compile_launch(launch, arch)
        code, labels = toolchain.sass_instructions(
            built.cubin, launch.kernel.entry, launch.kernel.source_name
        )
        loop = toolchain.main_loop(code, labels)
    except ToolchainError as error:
        return None, None, f"not known: {error}"
    done = sum(multiplied(i.opcode, launch.kernel.dtype) for i in loop)
    if not done:
        return None, None, f"not known: no multiply-add in the main loop of {arch}"
    near = rates.latency(arch, "L1" if launch.kernel.reuse == "warp" else "L2").clocks
    shared = rates.latency(arch, "shared memory").clocks
    waited = waiting.waits(loop, {"LDG": near, "LDGSTS": near, "LDS": shared, "LDSM": shared})
    warps = cdiv(launch.threads, WARP)
    return (
        Linear(0.0, bm * bn * len(loop) / done),
        Linear(0.0, waited * bm * bn / (done * warps)),
        f"SASS of {arch}: {len(loop)} instructions in the main loop for {done:g} multiply-adds",
    )


def multiplied(opcode: str, dtype: str) -> float:
    """Multiply-adds of elements of this type that one warp instruction does: FFMA 32, HMMA.16816
    2048."""
    kind, *words = opcode.split(".")
    if dtype in ("float32", "int32"):
        return WARP if (opcode == "IMAD" if dtype == "int32" else kind == "FFMA") else 0.0
    shape = next((w for w in words if w.isdigit()), "")
    return HMMA.get(shape, 0.0) if kind == "HMMA" else 0.0


HMMA = {"16816": 2048.0, "1688": 1024.0, "884": 256.0}
"""Multiply-adds of a warp instruction of the Tensor Cores, by its shape in SASS (m x n x k)."""
