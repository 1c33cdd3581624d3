"""What the page on Blackwell counts and predicts for a B200, and a picture of tensor memory.

No time here was measured: a count over a published peak is the least that a resource alone would
take. The kernels' bytes, steps and columns are held to the emulator's by tests/test_blackwell.py.
"""

from dataclasses import dataclass, replace
from typing import Any

from helpers.chapters.ch25 import scaled
from helpers.colours import PALETTE
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column, text_width
from helpers.ladder import model, rungs, usage
from helpers.ladder.kernel import Geometry, cdiv, geometry
from helpers.record import costs
from helpers.record.costs import bounding, rates
from nogpu import device
from nogpu.device import WARP, Gpu

PEAKS = {"bf16": 2250.0, "fp4": 9000.0}
"""TFLOP/s, dense (NVIDIA HGX platform, HGX B200: an eighth of 72 PFLOPS of FP4, and of half of the
36 of BF16 "with sparsity")."""
SMS, L2_MB, BANDWIDTH_GBS = 148, 126, 7672.0
"""As its driver tells: 7680 bits at 3996 MHz, twice a clock (pytorch/ao, pull request 4002)."""
FLOP_PER_CLOCK = device.TENSOR_FP16["sm_100"]
B200 = Gpu(
    "b200", "B200", "sm_100", SMS, round(PEAKS["bf16"] * 1e6 / SMS / FLOP_PER_CLOCK),
    device.FP32_LANES["sm_100"], FLOP_PER_CLOCK, BANDWIDTH_GBS, L2_MB << 20, 180 << 30, 1000,
    "NVIDIA HGX platform for the peaks; SMs, L2 and memory as its driver tells; the clock is the "
    "one at which the SMs give the peak",
)  # fmt: skip
"""No card of the table: nobody has recorded one."""
SHARED_BYTES = 128
"""That an SM's shared memory delivers a clock: as on Hopper (Zadouri and others, FlashAttention-4).
"""
COLUMNS, ROWS = 512, 128
"""Of tensor memory, and rows of C that a block multiplies: all lanes (PTX ISA)."""
PUBLISHED = (
    {"what": "products of BF16, TFLOP/s", "value": f"{PEAKS['bf16']:,.0f}", "who": "NVIDIA, HGX"},
    {"what": "products of NVFP4, TFLOP/s", "value": f"{PEAKS['fp4']:,.0f}", "who": "NVIDIA, HGX"},
    {"what": "SMs", "value": f"{SMS}", "who": "its driver"},
    {"what": "DRAM, GB/s", "value": f"{BANDWIDTH_GBS:,.0f}", "who": "its driver"},
    {"what": "L2, MB", "value": f"{L2_MB}", "who": "its driver"},
    {"what": "shared memory, bytes a clock and SM", "value": f"{SHARED_BYTES}",
     "who": "FlashAttention-4, as on Hopper"},
    {"what": "shared memory, KB an SM", "value": f"{B200.limits.shared_per_sm >> 10}",
     "who": "NVIDIA, CUDA guide"},
    {"what": "FLOP a clock and SM, and the clock of the peak", "value": "unknown",
     "who": f"computed: {FLOP_PER_CLOCK:,} at {B200.boost_mhz:,} MHz"},
    {"what": "what L2 and tensor memory deliver, latencies", "value": "unknown", "who": "nobody"},
)  # fmt: skip
"""What is said of a B200 and by whom; "unknown" where NVIDIA does not publish it."""


@dataclass(frozen=True)
class Work:
    """What a kernel does in a launch, counted, as the emulator counts it.

    blocks: of the grid, each with a tile of rows x columns. together: blocks that multiply as one.
    steps: of k that a tile takes, of depth each. stage: bytes that a block copies for one.
    products: instructions of all blocks. allocated: columns of tensor memory a block. flops: of a
    clock and SM. operands: bytes of A and B, once.
    """

    blocks: int
    together: int
    rows: int
    columns: int
    depth: int
    steps: int
    stage: int
    products: int
    allocated: int
    flops: float
    operands: float

    @property
    def copied(self) -> int:
        """Bytes through TMA to shared memory, in whole boxes; as many are read for products, since
        an instruction takes a tile's 128 rows and all of its columns at once.
        """
        return self.blocks * self.steps * self.stage

    @property
    def clocks(self) -> float:
        """Of the products of one step of a block, at the peak."""
        return 2 * self.rows * self.columns * self.depth / self.flops


def plan(name: str, M: int, N: int, K: int, **params: int) -> Geometry:
    """The launch of one of the five kernels; "scaled" is the last. Raises `geometry`'s errors."""
    k = scaled.KERNEL if name == "scaled" else rungs.blackwell[name]
    return geometry(k, M, N, K, **params)


def work(p: Geometry) -> Work:
    """What a launch of one of the five kernels does."""
    four = p.kernel.entry == "tensor_scaled"
    together = 2 if p.kernel.entry in ("tensor_pair", "tensor_persistent") else 1
    columns = p.params["BN"]
    fetched = ROWS + columns // together
    depth, each = (scaled.STEPS, 64) if four else (64, 16)
    size = 0.5 + 1 / scaled.BLOCK if four else 2.0
    blocks = together * cdiv(p.M, together * ROWS) * cdiv(p.N, columns)
    steps = cdiv(p.K, depth)
    allocated = COLUMNS if four else columns * (2 if p.kernel.entry == "tensor_persistent" else 1)
    return Work(
        blocks, together, ROWS, columns, depth, steps, int(fetched * depth * size),
        blocks // together * steps * depth // each, allocated,
        FLOP_PER_CLOCK * (PEAKS["fp4"] / PEAKS["bf16"] if four else 1.0),
        (p.M + p.N) * p.K * size,
    )  # fmt: skip


def step(name: str) -> dict[str, Any]:
    """One step of k of a block: bytes that it copies, clocks of its products at the peak, bytes a
    clock that the copies bring, and that copies and products move in shared memory.

    Of hopper_5 on an H200, whose two warpgroups each read all columns of B.
    """
    if name == "hopper_5":
        p = geometry(rungs.find(name), 4096, 4096, 4096)
        rows, columns = p.tile
        depth, flops = 64, float(device.gpu("h200").tensor_fp16_flop_per_clock_per_sm)
        copied = 2 * (rows + columns) * depth
        moved = copied + 2 * (rows + rows // 64 * columns) * depth
    else:
        p = plan(name, 4096, 4096, 4096)
        w = work(p)
        rows, columns, depth, flops, copied = w.rows, w.columns, w.depth, w.flops, w.stage
        moved = 2 * copied
    clocks = 2 * rows * columns * depth / flops
    return {
        "kernel": p.kernel.name, "rows": rows, "columns": columns, "bytes": copied,
        "clocks": clocks, "rate": copied / clocks, "moved": moved / clocks,
    }  # fmt: skip


def occupancy(p: Geometry) -> device.Occupancy:
    """Blocks of a launch that an SM can have at work, and what limits them: registers by ptxas,
    shared memory, warps, and columns of tensor memory, for which a block waits once it runs.
    """
    resident = usage.resources_of(p, p.kernel.min_arch).occupancy
    by = {**resident.by, "tensor memory": COLUMNS // work(p).allocated}
    blocks = min(by.values())
    warps = blocks * cdiv(p.threads, WARP)
    limits = tuple(name for name, n in by.items() if n == blocks)
    return device.Occupancy(blocks, warps, warps / B200.limits.max_warps_per_sm, limits, by)


def predicted(p: Geometry) -> costs.Bounds:
    """What each resource of a B200 alone would take for a launch, by the published peaks.

    - DRAM: A, B and C once each.
    - shared memory: what the products read; what TMA writes there is left out, as for Hopper.
    - Tensor pipe: whole tiles, at the peak.

    The last two lie inside an SM: the one with most tiles decides. L2 is left out: nobody published
    what it delivers.
    """
    w = work(p)
    busiest = cdiv(w.blocks // w.together, SMS // w.together)
    waves = costs.Waves(w.blocks, SMS, occupancy(p).blocks, float(busiest))
    name, unit, rate = rates.arithmetic(B200, "bfloat16", wgmma=True)
    rate = replace(rate, per_ms=rate.per_ms * w.flops / FLOP_PER_CLOCK)
    dram, memory = rates.dram(B200), w.operands + 2 * p.M * p.N
    reads = SHARED_BYTES * SMS * B200.boost_mhz * 1e3
    multiplied = float(w.blocks * w.rows * w.columns * w.steps * w.depth)
    inside = waves.factor
    return costs.Bounds(
        p.kernel.name, (p.M, p.N, p.K), B200,
        (
            costs.Bound(costs.DRAM, memory, "bytes", dram.per_ms, memory / dram.per_ms,
                        "A, B and C once each", dram.source),
            costs.Bound(name, multiplied, unit, rate.per_ms, multiplied / rate.per_ms * inside,
                        "whole tiles", rate.source),
            costs.Bound("shared memory", w.copied, "bytes", reads, w.copied / reads * inside,
                        "what the products read", "FlashAttention-4, as on Hopper"),
        ),
        waves, float(model.flops(p.M, p.N, p.K)),
        missing=("L2: nobody published what it delivers",),
    )  # fmt: skip


def l2_taken() -> float:
    """Bytes a clock that an SM of an H200 takes in from L2 where many ask alike, by its record."""
    hopper = device.gpu("h200")
    supply = costs.l2(hopper)
    assert supply is not None and supply.together is not None
    return supply.together.per_ms / hopper.sms / hopper.boost_mhz / 1e3


def account(*size: int) -> list[dict[str, Any]]:
    """A row for each of the five kernels at M, N, K: counts, bytes in millions, and predicted ms.

    The last two are no bounds: l2 if an SM takes in no more than `l2_taken`, shared if copies and
    products share the bytes of shared memory.
    """
    taken = l2_taken() * SMS * B200.boost_mhz * 1e3
    rows = []
    for name in (*rungs.blackwell, "scaled"):
        p = plan(name, *size)
        w, limits, b = work(p), occupancy(p), predicted(p)
        distinct = bounding.distinct_bytes(p, limits.blocks, B200)
        sent = distinct * w.operands / (2 * p.K * (p.M + p.N))
        rows.append({
            "kernel": p.kernel.name, "steps": w.steps, "copied": w.copied / 1e6,
            "sent": sent / 1e6, "allocated": w.allocated, "resident": limits.blocks,
            "busiest": int(b.waves.busiest), "pipe": b[b.pipe].ms, "reads": b["shared memory"].ms,
            "dram": b[costs.DRAM].ms, "ms": b.ms,
            "binding": "products" if b.binding == b.pipe else b.binding,
            "l2": w.copied / taken * b.waves.factor, "shared": 2 * b["shared memory"].ms,
        })  # fmt: skip
    return rows


# -- the pictures ----------------------------------------------------------------------------------

_REGIONS = (
    (0, 256, "sums of one tile", PALETTE[0]),
    (256, 512, "sums of the next", PALETTE[1]),
)


def tensor_memory() -> Figure:
    """Tensor memory of an SM under tensor_persistent: which warp reads it, who writes it."""

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        left = text_width("lanes 96–127", small) + 8
        wide, tall = at.width - left - 2, 30.0
        y = small + 2
        canvas.text(left, y / 2, "512 columns of 32 bits", size=small, weight="bold")
        for first, end, says, colour in _REGIONS:
            x = left + first / 512 * wide
            span = (end - first) / 512 * wide
            canvas.rect(x, y + 4, span, 4 * tall, fill=colour, alpha=0.16, lw=0.9)
            canvas.centred(x, y + 4 + 4 * tall, span, small + 10, says, size=small)
        for warp in range(4):
            top = y + 4 + warp * tall
            canvas.line(left, top, left + wide, top, lw=0.6)
            lanes = f"lanes {32 * warp}–{32 * warp + 31}"
            canvas.text(left - 5, top + tall / 2, lanes, size=small, ha="right")
            canvas.centred(left, top, wide / 2, tall, f"warp {warp} loads", size=small)
        y += 4 * tall + small + 22
        words = (
            "Every row of a product is a lane. One thread of warp 5 issues all products; the "
            "Tensor Cores write all lanes."
        )
        y = canvas.lines(left, y, words, width=wide, size=small)
        return canvas.end(y + small)

    alt = (
        "Tensor memory as a rectangle of 128 lanes by 512 columns. Columns 0 to 255 hold the sums "
        "of one tile, 256 to 511 those of the next. Lanes 0 to 31 are read by warp 0 of the "
        "warpgroup that stores, 32 to 63 by warp 1, 64 to 95 by warp 2, 96 to 127 by warp 3."
    )
    caption = (
        "Tensor memory of an SM under tensor_persistent. A row of a tile is a lane, a column of "
        "it a column."
    )
    return both(draw, alt, caption)


_STORES = ("A and B in global memory", "a stage in shared memory", "sums in tensor memory",
           "C in global memory")  # fmt: skip
_MOVES = (
    ("One thread of warp 4 asks TMA,", "once empty says that the stage is free. The bytes arrive "
     "at full."),
    ("One thread of warp 5 multiplies,", "once full says that they are there. Its products arrive "
     "at empty, the last at complete."),
    ("Warps 0 to 3 load and store,", "once complete says that the sums are there: 32 rows each."),
)  # fmt: skip
"""Between two of _STORES: who issues what, and by which barriers."""


def who_issues() -> Figure:
    """Who moves what in tensor_roles, and which barrier each waits for and arrives at."""

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        wide, tall, gap = at.width * (0.4 if at.narrow else 0.36), 3 * small, 6.4 * small
        x, y = 1.0, 1.0
        for i, name in enumerate(_STORES):
            fill = (None, PALETTE[0], PALETTE[1], None)[i]
            canvas.rect(x, y, wide, tall, fill=fill, alpha=0.16, lw=0.9)
            two = text_width(name, small) > wide - 12
            middle = y + tall / 2 - (small + 4) / 2 * two
            canvas.lines(x + 6, middle, name, width=wide - 12, size=small)
            y += tall
            if i < len(_MOVES):
                canvas.arrow(x + wide / 2, y + 2, x + wide / 2, y + gap - 2)
                who, when = _MOVES[i]
                left, room = x + wide / 2 + 12, at.width - x - wide / 2 - 14
                low = canvas.lines(left, y + small, who, width=room, size=small, weight="bold")
                canvas.lines(left, low + small + 4, when, width=room, size=small)
                y += gap
        return canvas.end(y + 2)

    alt = "From top to bottom. " + " ".join(
        f"{_STORES[i]}. {who} {when}" for i, (who, when) in enumerate(_MOVES)
    )
    caption = "Who issues what in tensor_roles. No two of them meet at a barrier of the block."
    return both(draw, f"{alt} {_STORES[-1]}.", caption)
