"""What a T4 could give of FP32 kernels, by count: nobody has timed one, so every rate here is a
prediction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.chapters.ch14.bands import elements
from helpers.ladder import model, usage
from helpers.ladder.kernel import Geometry, geometry
from helpers.ladder.launch import choose
from helpers.ladder.rungs import catalog, lay_out
from helpers.record import costs
from helpers.record.costs import rates
from nogpu import device, toolchain
from nogpu.device import WARP
from nogpu.toolchain import SassInstruction

SIZE = 4096
SHARES = "FMA pipe", costs.ISSUE, costs.L1
FORMATS = {"FMA pipe": ".0f", costs.ISSUE: ".0f", costs.L1: ".0f", "TFLOP/s at most": ".2f"}
LARGER = {"TM": 16, "WM": 64, "MIN_BLOCKS": 1}
"""The patch of chapter 13 in the tile of fp32_turing."""


@dataclass(frozen=True)
class Facts:
    """rows: of the table. binding: what binds in each. second: percent that the next resource takes
    at most.

    late, early: multiply-adds of a warp between the last store of a tile and the barrier, in the
    loop of warp_tiled and in that of fp32_turing. by_rows, in_bands: percent of DRAM's bandwidth
    that a T4's blocks ask for at 8192 if what those at work together share comes once
    (`dram_share`). small, chosen: TFLOP/s predicted at 1024 for warp_tiled and for the tile of
    fp32_turing that `choose` takes. rates: TFLOP/s predicted at 4096, by row; rate: of fp32_turing.
    warps, warps_large: on an SM with its patch, and with that of chapter 13 in the same tile.
    """

    rows: list[dict[str, Any]]
    binding: list[str]
    second: float
    late: int
    early: int
    by_rows: float
    in_bands: float
    small: float
    chosen: float
    tile: tuple[int, int]
    warps: int
    warps_large: int
    rates: list[float]
    rate: float


def facts() -> Facts:
    """The rows of the T4's table, and the numbers of the text around it."""
    kinds: Sequence[tuple[str, Mapping[str, int]]]
    kinds = (("lane_map", {}), ("warp_tiled", {}), ("fp32_turing", LARGER), ("fp32_turing", {}))
    plans = [lay_out(name, SIZE, SIZE, SIZE, **tile) for name, tile in kinds]
    bounds = [costs.of_plan(p, "t4") for p in plans]
    shares = [{r: 100 * b[r].ms / b.ms for r in b} for b in bounds]
    occupancies = [usage.resources_of(p, "sm_75").occupancy for p in plans]
    t4 = device.gpu("t4")
    chosen = choose("fp32_turing", 1024, 1024, 1024, gpu=t4)
    in_bands, by_rows = (dram_share(8192, group) for group in (None, 1))
    return Facts(
        rows=[row(p, b) for p, b in zip(plans, bounds, strict=True)],
        binding=[b.binding for b in bounds], second=max(sorted(s.values())[-2] for s in shares),
        late=between(loop_of("warp_tiled"), "STS", "BAR"),
        early=between(loop_of("fp32_turing"), "STS", "BAR"), by_rows=by_rows, in_bands=in_bands,
        small=tflops(costs.bounds("warp_tiled", 1024, gpu="t4")),
        chosen=tflops(costs.of_plan(chosen, "t4")), tile=chosen.tile, warps=occupancies[-1].warps,
        warps_large=occupancies[-2].warps, rates=[tflops(b) for b in bounds],
        rate=tflops(bounds[-1]),
    )  # fmt: skip


def tflops(b: costs.Bounds) -> float:
    """The rate predicted, waiting included, in TFLOP/s."""
    return b.flop / b.predicted / 1e9


def row(plan: Geometry, b: costs.Bounds) -> dict[str, Any]:
    """A kernel on a T4: what an SM holds, each resource in percent of the largest, the rate."""
    r = usage.resources_of(plan, "sm_75")
    p = plan.params
    return {
        "kernel": plan.kernel.name,
        "tile": f"{plan.tile[0]}x{plan.tile[1]}",
        "patch": f"{p['TM']}x{p['TN']}",
        "registers a thread": r.registers,
        "blocks an SM": r.occupancy.blocks,
        "warps an SM": r.occupancy.warps,
        **{name: 100 * b[name].ms / b.ms if name in b else None for name in SHARES},
        "TFLOP/s at most": tflops(b),
    }


def dram_share(n: int, group: int | None = None) -> float:
    """Percent of its DRAM's bandwidth that a T4 needs for A and B of an n x n product at the peak.

    Each element comes once for all blocks at work together, as if they kept in step and L2 held
    what they share. group: rows of tiles in a band; that of fp32_turing where it is left out.
    """
    k, t4 = catalog["fp32_turing"], device.gpu("t4")
    p = geometry(k, n, n, n)
    running = t4.sms * usage.resources_of(p, "sm_75").occupancy.blocks
    bytes_a_k = 4 * elements(k, n, group or k.params["GROUP_M"], running=running)
    clocks_a_k = running * p.tile[0] * p.tile[1] / (t4.sms * t4.fp32_lanes_per_sm)
    return 100 * bytes_a_k / clocks_a_k * t4.boost_mhz * 1e6 / (t4.bandwidth_gbs * 1e9)


def loop_of(name: str, source: str = "") -> list[SassInstruction]:
    """The main loop of a kernel with its own tile, for a T4; source: another text of it."""
    k = catalog[name].with_source(source) if source else catalog[name]
    built = usage.compile_launch(lay_out(k, SIZE, SIZE, SIZE), "sm_75")
    return list(toolchain.main_loop(*toolchain.sass_instructions(built.cubin, k.entry)))


def between(loop: Sequence[SassInstruction], first: str, last: str) -> int:
    """FFMA between the last of one opcode in a loop and the last of another, behind it."""
    kinds = 2 * [i.opcode.split(".")[0] for i in loop]  # a loop may begin anywhere
    end = max(n for n, kind in enumerate(kinds) if kind == last)
    at = max(n for n in range(end) if kinds[n] == first)
    return kinds[at:end].count("FFMA")


def clocks(rows: int, columns: int, wavefronts: tuple[int, int]) -> dict[str, float]:
    """Clocks that a warp's patches of one k take of an SM of a T4, by resource: reads and products
    alone.

    wavefronts: of a 16-byte read of A and of B, two clocks each as Jia et al. measured (arXiv
    1903.07486).
    """
    t4 = device.gpu("t4")
    reads = rows / 4, columns / 4
    full = rates.wavefront_clocks(t4)
    return {
        "FMA pipe": rows * columns * WARP / t4.fp32_lanes_per_sm,
        "issue slots": (rows * columns + sum(reads)) / model.SCHEDULERS,
        "shared memory": full * sum(n * w for n, w in zip(reads, wavefronts, strict=True)),
    }
