"""Closed formulas: occupancy, bytes, arithmetic intensity, roofline. Nothing here is measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from helpers.ladder.kernel import ITEM_BYTES, Geometry, Kernel, cdiv, evaluate
from helpers.ladder.rungs import lay_out
from nogpu.device import WARP, Gpu
from nogpu.device import Occupancy as Occupancy
from nogpu.device import occupancy as occupancy
from nogpu.errors import ConfigError, UnknownNameError


def flops(M: int, N: int, K: int) -> int:
    """Operations of an MxK by KxN product: a multiply and an add per term."""
    return 2 * M * N * K


def compulsory_bytes(M: int, N: int, K: int, itemsize: int = 4, out_itemsize: int = 4) -> int:
    """Fewest bytes through device memory: A and B read once, C written once."""
    return (M * K + K * N) * itemsize + M * N * out_itemsize


WARM = 2.0
"""How much faster than from the memory a product takes in what L2 still holds of it from the launch
before, an assumption: an H100's L2 delivers 2.2 times its memory's bandwidth to SMs that each ask
for their own data (its record, section "l2").
"""


def memory_clocks(launch: Geometry, gpu: Gpu) -> float:
    """SM clocks in which A and B come once and C leaves once; from L2 where all three fit there."""
    item, out = ITEM_BYTES[launch.kernel.dtype], ITEM_BYTES[launch.kernel.out_dtype]
    once = compulsory_bytes(launch.M, launch.N, launch.K, item, out)
    rate = gpu.bandwidth_gbs * (WARM if once <= gpu.l2_bytes else 1.0)
    return once * gpu.boost_mhz / 1e3 / rate


@dataclass(frozen=True)
class Traffic:
    """Bytes that a kernel asks of global memory if no cache served it.

    thread: each thread's own loads and stores, added up. warp: an element that several lanes of a
    warp load together counted once. block: what the kernel's blocks fetch, an element shared
    through shared memory counted once a block (equal to warp where nothing is staged).
    """

    thread: int
    warp: int
    block: int


def traffic(kernel: Kernel | str, M: int, N: int, K: int, **params: int) -> Traffic:
    """`traffic_of` a product by a kernel of the catalog."""
    return traffic_of(lay_out(kernel, M, N, K, **params))


def traffic_of(launch: Geometry) -> Traffic:
    """Closed formulas for the bytes of one product, for shapes that the tile divides.

    An output element needs 2K loads. A warp of r rows by c columns of C needs r + c different
    elements a k; a block tile BM x BN staged in shared memory needs BM + BN.
    """
    k, M, N, K = launch.kernel, launch.M, launch.N, launch.K
    item, out = ITEM_BYTES[k.dtype], ITEM_BYTES[k.out_dtype]
    stores = M * N * out
    bm, bn = launch.tile
    thread = 2 * M * N * K * item + stores
    staged = int(M * N * K * (1 / bm + 1 / bn) * item) + stores
    if k.reuse == "warp":
        rows, columns = (evaluate(e, launch.params) for e in k.warp)
        warp = int(M * N * K * (1 / rows + 1 / columns) * item) + stores
        return Traffic(thread, warp, warp)
    return Traffic(thread, thread, staged)


def arithmetic_intensity(kernel: Kernel | str, M: int, N: int, K: int, **params: int) -> float:
    """`intensity_of` a product by a kernel of the catalog."""
    return intensity_of(lay_out(kernel, M, N, K, **params))


def intensity_of(launch: Geometry) -> float:
    """FLOP per byte that leaves for L2 with no cache hit: flops over `traffic_of(...).block`."""
    return flops(launch.M, launch.N, launch.K) / traffic_of(launch).block


def compulsory_intensity(M: int, N: int, K: int, itemsize: int = 4, out_itemsize: int = 4) -> float:
    """FLOP per compulsory byte: the most that any kernel can reach."""
    return flops(M, N, K) / compulsory_bytes(M, N, K, itemsize, out_itemsize)


def roofline(gpu: Gpu, intensity: float, precision: str = "fp32") -> float:
    """Attainable GFLOP/s at an arithmetic intensity (FLOP/byte): the lower of the two roofs.

    Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.
    """
    if intensity <= 0:
        raise ConfigError(f"{intensity=}: an arithmetic intensity is above 0 FLOP/byte")
    return min(gpu.peak_gflops(precision), intensity * gpu.bandwidth_gbs)


def shared_roof(gpu: Gpu, fma_per_wavefront: float) -> float:
    """GFLOP/s that shared memory can feed: an SM delivers one wavefront a clock.

    fma_per_wavefront: warp-level multiply-adds done for each shared-memory wavefront, as counted by
    the emulator. A warp-level multiply-add is 32 lanes x 2 FLOP. Source: 32 banks of 4 bytes a
    clock, CUDA C++ Programming Guide, shared memory. On a T4 about half of it was measured (Jia et
    al., arXiv 1903.07486): there this roof is too high.
    """
    if fma_per_wavefront <= 0:
        raise ConfigError(f"{fma_per_wavefront=}: multiply-adds for a wavefront must be above 0")
    rate = gpu.sms * gpu.boost_mhz / 1e3 * WARP * 2 * fma_per_wavefront
    return min(rate, gpu.fp32_peak_gflops)


L1_LINE, L1_LINES_A_CLOCK, L1_BANKS, L1_WORD = 128, 4, 32, 4
"""Bytes of a line, lines found in a clock, banks, and bytes that a bank delivers in a clock."""


def l1_clocks(addresses: Iterable[int]) -> float:
    """Clocks that L1 takes for one request of a warp that hits, by a hypothesis of chapter 5.

    addresses: of the 32-bit words that the lanes read, in bytes. Lines are found four a clock; then
    each bank delivers one word a clock, as in shared memory, with which L1 shares its store. The
    slower of the two counts. Raises ConfigError if there is no address. Source of the look-up:
    NVIDIA Developer Forums, 312884 ("4 sets x 4 sectors per cycle"). That the banks hold for L1 as
    well is inferred from recorded times, not from a document or a counter.
    """
    words = {address // L1_WORD for address in addresses}
    if not words:
        raise ConfigError("a request without an address: give those of the active lanes")
    lines = {word * L1_WORD // L1_LINE for word in words}
    queues = Counter(word % L1_BANKS for word in words)
    return max(len(lines) / L1_LINES_A_CLOCK, max(queues.values()))


def waves(gpu: Gpu, blocks: int, blocks_per_sm: int) -> float:
    """Rounds of resident blocks that a grid takes on this GPU; the last may be partly empty."""
    return blocks / (gpu.sms * blocks_per_sm)


SM_FEED = 32
"""Bytes of A and B a clock that an SM takes in while it computes: one sector.

No data sheet says it. It was read off trial runs of fp32_best on an H200, at 4095 and 4097
(data/tries/fp32.md), and fits that kernel; for other kernels and GPUs it is assumed.
"""
SCHEDULERS = 4
"""Warp schedulers of an SM, on every GPU from compute capability 7.0 on (architecture whitepapers).
"""


@dataclass(frozen=True)
class Rounds:
    """How a grid of tiles falls on a GPU's SMs, and the clocks that follow.

    blocks: of the grid. busiest: of them on the SM that has most. resident: at once on an SM at
    most. clocks: SM clocks of the whole product, predicted. peak: the share of the FP32 peak that
    this is.
    """

    blocks: int
    busiest: int
    resident: int
    clocks: float
    peak: float


def rounds(
    kernel: Kernel | str, M: int, N: int, K: int, *, gpu: Gpu, resident: int, **params: int
) -> Rounds:
    """`rounds_of` a product by a kernel of the catalog."""
    return rounds_of(lay_out(kernel, M, N, K, **params), gpu, resident)


def rounds_of(launch: Geometry, gpu: Gpu, resident: int) -> Rounds:
    """Predict a product of an FP32 kernel with TM x TN sums a thread, by counting tiles.

    resident: blocks of it that an SM holds (from the compiler's report). The SM with most blocks
    decides. It takes them in rounds of `resident`, the last one smaller. For one k, a round of r
    blocks costs

    - the multiply-adds of its busiest scheduler: TM x TN for each of its ceil(r x warps / 4) warps
      (twice that where an SM has 64 lanes);
    - the bytes of A and B that the r blocks fetch, at SM_FEED.

    That they add up, and do not overlap, is part of the fit. Equation (15.1). It knows nothing of
    shared memory, latency, the launch and caches.
    """
    bm, bn = launch.tile
    blocks = cdiv(launch.M, bm) * cdiv(launch.N, bn)
    busiest = cdiv(blocks, gpu.sms)
    warps = cdiv(launch.threads, WARP)
    sums = launch.params.get("TM", 1) * launch.params.get("TN", 1)
    multiply_adds = sums * SCHEDULERS * WARP / gpu.fp32_lanes_per_sm
    fetch = ITEM_BYTES[launch.kernel.dtype] * (bm + bn) / SM_FEED

    def one_k(r: int) -> float:
        return math.ceil(r * warps / SCHEDULERS) * multiply_adds + r * fetch

    full, rest = divmod(busiest, resident)
    clocks = full * one_k(resident) + one_k(rest)
    least = launch.M * launch.N / (gpu.fp32_lanes_per_sm * gpu.sms)
    return Rounds(blocks, busiest, resident, clocks * launch.K, least / clocks)


START_CLOCKS = 5500
"""SM clocks from the start of a launch that does next to nothing to its end, one launch after
another on a stream; in a CUDA graph it is about a thousand less.
"""
STEP_CLOCKS = 100
"""Clocks of a step of BK in a ring besides its multiply-adds and copies: a barrier, waits."""
MEET_CLOCKS = 2500
"""Clocks for which the last block of a tile waits: a fence, an atomic addition, the first sums of
others.
"""
MEET_BYTES = 25
"""Bytes of sums a clock that a block leaves in global memory, or takes from there."""
SCALAR_STORES = 4
"""How much longer C is on its way where its rows do not start on 16 bytes, and sums leave one by
one."""
TURNED_STORES = 2.5
"""The same where a warp turns its sums first, and stores neighbours side by side, as fp32_sliced
does."""
SHOWN_STORES = 0.4
"""The share of a round's stores that the next round does not hide, where an SM holds several
blocks."""
SHOWN_TURNED = 0.8
"""The same of sums that are turned first.

These were read off trial launches of fp32_sliced on an H200 (data/tries/slices.md): those of stores
that are turned off run 4, 38 shapes; the others off run 1, 57 shapes, 7 tiles, up to 256 slices.
They fit the launches near the best of a shape to 11 and 13 % (standard deviation of the logarithm);
elsewhere they are assumed. START_CLOCKS, STEP_CLOCKS and the two of meeting are later: read off an
H100, over 112 drawn shapes (run 5).
"""


def sliced_rounds(launch: Geometry, gpu: Gpu, resident: int) -> Rounds:
    """Predict a product by fp32_best or fp32_sliced, the launch itself and the slices included.

    resident: blocks that an SM holds. To the rounds of `rounds_of`, for whole tiles and then for
    slices of K / SLICES steps, both in whole BK, it adds the start of the launch; each round's
    stores of C, at the SM's share of the memory's bandwidth; and where tiles are cut the meeting of
    their slices: one tile of sums leaves a block, and the last block takes in SLICES of them.
    Equation (16.1).
    """
    bm, bn = launch.tile
    tiles = cdiv(launch.M, bm) * cdiv(launch.N, bn)
    slices = launch.params.get("SLICES", 1)
    cut = min(tiles, launch.params.get("CUT", tiles)) if slices > 1 else 0
    warps = cdiv(launch.threads, WARP)
    multiply_adds = (
        launch.params["TM"] * launch.params["TN"] * SCHEDULERS * WARP / gpu.fp32_lanes_per_sm
    )
    item = ITEM_BYTES[launch.kernel.dtype]
    bandwidth = gpu.bandwidth_gbs * 1e3 / gpu.boost_mhz / gpu.sms
    times, shown = 1.0, SHOWN_STORES
    if launch.N % 4:
        turned = "SLICES" in launch.params
        times, shown = (TURNED_STORES, SHOWN_TURNED) if turned else (SCALAR_STORES, SHOWN_STORES)
    store = item * bm * bn / bandwidth * times

    def of(blocks: int, depth: int) -> float:
        """Clocks of so many blocks of so many steps of k, dealt out over all SMs."""
        depth = cdiv(depth, launch.params["BK"]) * launch.params["BK"]
        full, rest = divmod(cdiv(blocks, gpu.sms), resident)
        clocks, hidden = 0.0, 1.0 if resident == 1 else shown
        for r, count in ((resident, full), (rest, 1 if rest else 0)):
            fetch = item * r * (bm + bn) / SM_FEED
            step = math.ceil(r * warps / SCHEDULERS) * multiply_adds + fetch
            waits = STEP_CLOCKS * depth / launch.params["BK"]
            clocks += count * (step * depth + waits + hidden * r * store)
        last = rest or min(full, 1) * resident
        return clocks + (1 - hidden) * last * store

    clocks = START_CLOCKS + of(tiles - cut, launch.K)
    if cut:
        clocks += of(cut * slices, cdiv(launch.K, slices))
        clocks += MEET_CLOCKS + (slices + 1) * item * bm * bn / MEET_BYTES
    blocks = tiles + cut * (slices - 1)
    least = launch.M * launch.N * launch.K / (gpu.fp32_lanes_per_sm * gpu.sms)
    return Rounds(blocks, cdiv(blocks, gpu.sms), resident, clocks, least / clocks)


def tensor_clocks(launch: Geometry, gpu: Gpu) -> float:
    """Clocks of a product on Tensor Cores at their peak: of the SM with most tiles, and the launch.

    A lower bound, no fit: it knows nothing of the copies. It serves where a type has one kernel of
    this kind.
    """
    bm, bn = launch.tile
    busiest = cdiv(cdiv(launch.M, bm) * cdiv(launch.N, bn), gpu.sms)
    return START_CLOCKS + busiest * bm * bn * launch.K * 2 / gpu.tensor_fp16_flop_per_clock_per_sm


def resident_blocks(launch: Geometry, gpu: Gpu) -> int:
    """Blocks that an SM holds, from the catalog alone: MIN_BLOCKS, less where another limit binds.

    MIN_BLOCKS is what the compiler is told to leave registers for; it may leave more. Of an
    architecture whose limits nobody wrote down it is MIN_BLOCKS. Raises ConfigError if an SM holds
    no block at all.
    """
    target = launch.params.get("MIN_BLOCKS", 1)
    try:
        limits = gpu.limits
    except UnknownNameError:
        return target
    return min(target, occupancy(limits, launch.threads, 0, launch.shared_bytes).blocks)


LOAD_CLOCKS = 1200
"""Clocks from a load that misses L2, while memory is busy, to its value: an assumption, about 0.65
us."""
SHOWN = 0.25
"""The share that the faster of an SM and the memory adds to the time of the slower: an assumption.
"""
THIN_WORK: Mapping[tuple[str, int], float] = {
    ("rows", 4): 3.0,
    ("rows", 2): 3.0,
    ("columns", 4): 6.0,
    ("columns", 2): 5.0,
}
"""Clocks for each clock of multiply-adds in a thin kernel, by what is few and by bytes an element:
loads of the small matrix, conversions, addresses. Read off trial launches on an H200
(data/tries/slices.md, run 2); a fit."""
SUM_CLOCKS: Mapping[str, float] = {"rows": 350.0, "columns": 100.0}
"""Clocks at the end of a thin kernel for each row, or column, that a block has sums of; a fit to
the same launches.
"""
THIN_START: Mapping[tuple[str, int], int] = {
    ("rows", 4): 5800, ("columns", 4): 5800, ("rows", 2): 7000, ("columns", 2): 5800,
}  # fmt: skip
"""As START_CLOCKS, of a thin kernel, by kind and bytes an element: a fit to the launches of run 5,
with two bytes to those of run 7."""
LANE_BYTES = 16
"""Bytes that a lane of a thin kernel reads of the large matrix for a step: a warp reads 512."""

SINGLES = 3
"""How much longer the memory of the GPU takes to deliver to thin_columns where rows of A do not
start on 16 bytes, so that a lane reads one element at a time: off launches of run 7
(data/tries/slices.md)."""


def is_thin(kernel: Kernel) -> bool:
    """Whether it is one of the kernels for few rows of A or few columns of B (chapter 16)."""
    return kernel.entry.startswith("thin_")


def thin_depth(launch: Geometry) -> int:
    """Steps of k that a thin kernel's block takes together: a row of B, or A's reads, a warp."""
    if "COLUMNS" in launch.params:
        return WARP * LANE_BYTES // ITEM_BYTES[launch.kernel.dtype]
    return launch.params["WARPS"]


def thin_passes(launch: Geometry) -> int:
    """How many blocks read the same part of the large matrix of a thin kernel."""
    if "COLUMNS" in launch.params:
        return cdiv(launch.N, launch.params["COLUMNS"])
    return cdiv(launch.M, launch.params["ROWS"])


def thin_rounds(launch: Geometry, gpu: Gpu, resident: int) -> Rounds:
    """Predict a product by thin_rows or thin_columns, which stream one large matrix past few sums.

    resident: blocks that an SM holds. A round of r blocks waits once for memory (LOAD_CLOCKS) and
    then takes as long as the slower of

    - its bytes of A and B, at SM_FEED or, where that is less, at what is under way a LOAD_CLOCKS
      (Little's law);
    - its multiply-adds, also those of rows and columns that C has not. (In that time
      thin_columns has read B from shared memory, for any tile: a read serves ROWS of them.)

    The first wait is in THIN_START. Beside them the memory of the GPU delivers A and B and takes
    C once; of the shorter of the two times SHOWN is added to the longer. The start of the launch
    and the meeting of slices are those of `sliced_rounds`. In words in chapter 16.
    """
    p, k = launch.params, launch.kernel
    item = ITEM_BYTES[k.dtype]
    bm, bn = launch.tile
    slices, tiles = p["SLICES"], cdiv(launch.M, bm) * cdiv(launch.N, bn)
    blocks, unit = tiles * slices, thin_depth(launch)
    depth = cdiv(cdiv(launch.K, slices), unit) * unit
    fetched = item * depth * (min(launch.M, bm) + min(launch.N, bn))
    kind = "columns" if "COLUMNS" in p else "rows"
    multiply_adds = THIN_WORK[kind, item] * bm * bn * depth / gpu.fp32_lanes_per_sm
    if "COLUMNS" in p:
        under_way = WARP * LANE_BYTES * p["AHEAD"] * min(p["ROWS"] * p["WARPS"], launch.M)
    else:
        across = min(LANE_BYTES * WARP, item * launch.N)
        under_way = p["AHEAD"] * min(p["WARPS"], cdiv(launch.K, slices)) * across

    def of(r: int) -> float:
        """Clocks of a round of r blocks on an SM."""
        feed = min(SM_FEED, r * under_way / LOAD_CLOCKS)
        return LOAD_CLOCKS + r * max(fetched / feed, multiply_adds)

    busiest = cdiv(blocks, gpu.sms)
    full, rest = divmod(busiest, resident)
    inside = full * of(resident) + (of(rest) if rest else 0) - LOAD_CLOCKS
    memory = memory_clocks(launch, gpu)
    if "COLUMNS" in p and item * launch.K % LANE_BYTES:
        memory *= SINGLES
    clocks = THIN_START[kind, item] + max(inside, memory) + SHOWN * min(inside, memory)
    clocks += SUM_CLOCKS[kind] * p["ROWS" if kind == "rows" else "COLUMNS"]
    if slices > 1:
        clocks += MEET_CLOCKS + (slices + 1) * 4 * bm * bn / MEET_BYTES
    least = launch.M * launch.N * launch.K / (gpu.fp32_lanes_per_sm * gpu.sms)
    return Rounds(blocks, busiest, resident, clocks, least / clocks)


def thin_clocks(launch: Geometry, gpu: Gpu) -> float:
    """Clocks of `thin_rounds` with as many blocks on an SM as the kernel is compiled for."""
    return thin_rounds(launch, gpu, resident_blocks(launch, gpu)).clocks


MMA_START = 8000
"""As START_CLOCKS, of mma_sliced: its smallest launches take longer than those of the thin kernels.
"""
MMA_FEED = 60
"""Bytes of A and B a clock that an SM takes in by cp.async at most."""
MMA_WAIT = 1650
"""Clocks from a copy of mma_sliced to its bytes, while all SMs copy: what the rings hold arrives
once in them.
"""
MMA_ODD_STEP = 370
"""Clocks that a step takes longer where rows of A or B do not start on 16 bytes, however few."""
STRAIGHT_BYTES = 11
"""Bytes a clock that an SM straightens of tiles whose rows do not start on 16 bytes."""
PIECE_BYTES: Mapping[int, float] = {8: math.inf, 4: 42}
"""The same of mma_pieces, which copies such rows in pieces of 8 bytes, at no more cost than whole
chunks, or of 4.
"""
MMA_STORES = 1.2
"""How much longer C is on its way than its bytes alone, in elements of two bytes from tiles in
shared memory.
"""
MMA_MEET = 2800
"""Clocks from the last sums of a tile's slices to the start of their addition: a fence, an atomic
addition, a wait.
"""
MMA_MEET_BYTES = 80
"""Bytes of sums a clock that a block of mma_sliced leaves in global memory, or takes from there.

These nine were fitted to launches of mma_sliced_bf16 and mma_pieces_bf16 on an H100, one after
another, with 112 drawn shapes and ten named ones (data/tries/slices.md, run 5). Over the launches
within 1.6 times of a shape's least time, 78 other shapes' among them, the root mean square of
ln(measured / predicted) is 0.13; with the constants before it was 0.24, and two of three launches
were told too short. For mma_pipelined they are assumed.
"""
SHORT_START = 4400
"""As START_CLOCKS, of mma_short."""
SHORT_WAIT = 980
"""Clocks that a round of blocks of mma_short waits for its first tiles, and for C to leave."""
SHORT_COPY = 4.5
"""Clocks that an SM takes for a warp's copy of mma_short, whatever its width."""
SHORT_NEXT, SHORT_ALONE = 570, 5.6
"""Clocks that a block by itself waits for each further tile, and for a copy of it."""
SHORT_STORE = 9
"""Bytes of C a clock that leave an SM by mma_short.

These six were fitted to 1,260 launches of mma_short on an H200, twelve tiles at 105 drawn shapes
with K up to 500, and to eleven with a longer K (data/tries/slices.md, run 7): the root mean square
of ln(measured / predicted) is 0.08 over those within 1.4 times of a shape's least time.
"""
GATHERED_BYTES = 4
"""As STRAIGHT_BYTES, of a kernel that gathers such rows element by element: an assumption."""


def _beside(kernel: Kernel, row: int) -> float:
    """Bytes a clock that an SM makes ready of tiles whose rows are `row` bytes apart; infinite
    where each starts on 16.
    """
    if row % 16 == 0:
        return math.inf
    if kernel.entry == "mma_pieces" and row % 4 == 0:
        return PIECE_BYTES[8 if row % 8 == 0 else 4]
    return STRAIGHT_BYTES if "SLICES" in kernel.params else GATHERED_BYTES


def mma_rounds(launch: Geometry, gpu: Gpu, resident: int) -> Rounds:
    """Predict a product by mma_pipelined or mma_sliced, the launch itself and the slices included.

    resident: blocks that an SM holds. A round of r blocks waits once for memory (LOAD_CLOCKS); each
    of its steps takes, one after another,

    - its bytes of A and B, at MMA_FEED or, where that is less, at what the rings hold a MMA_WAIT
      (Little's law); where rows do not start on 16 bytes a ring of mma_sliced has a slot less;
    - its products on the Tensor Cores, at their peak, the straightening of such rows or their
      pieces, and MMA_ODD_STEP.

    That these add up is part of the fit. Then C leaves, MMA_STORES times as long as at the SM's
    share of the memory's bandwidth. The first wait is in MMA_START. No product is done before the
    memory of the GPU has delivered A and B and taken C once. Where tiles are cut, one tile of sums
    leaves a block, and the last block takes in SLICES of them, as in `sliced_rounds`, by MMA_MEET
    and MMA_MEET_BYTES.
    """
    p, k = launch.params, launch.kernel
    item, out, depth = ITEM_BYTES[k.dtype], ITEM_BYTES[k.out_dtype], p["BK"]
    bm, bn = launch.tile
    slices, tiles = p.get("SLICES", 1), cdiv(launch.M, bm) * cdiv(launch.N, bn)
    blocks, steps = tiles * slices, cdiv(cdiv(launch.K, depth), slices)
    rows, cols = min(bm, launch.M), min(bn, launch.N)
    fetched = item * depth * (rows + cols)
    straight = (
        item
        * depth
        * sum(size / _beside(k, item * row) for size, row in ((bm, launch.K), (bn, launch.N)))
    )
    odd = any(item * row % 16 for row in (launch.K, launch.N))
    ahead = p["STAGES"] - 1 - (odd and "SLICES" in p)
    products = 2 * bm * bn * depth / gpu.tensor_fp16_flop_per_clock_per_sm
    bandwidth = gpu.bandwidth_gbs * 1e3 / gpu.boost_mhz / gpu.sms
    store = MMA_STORES * out * rows * cols / bandwidth

    def of(r: int) -> float:
        """Clocks of a round of r blocks on an SM."""
        feed = min(MMA_FEED, r * ahead * fetched / MMA_WAIT)
        step = r * (fetched / feed + products + straight) + odd * MMA_ODD_STEP
        return LOAD_CLOCKS + steps * step + r * store

    busiest = cdiv(blocks, gpu.sms)
    full, rest = divmod(busiest, resident)
    inside = full * of(resident) + (of(rest) if rest else 0) - LOAD_CLOCKS
    clocks = MMA_START + max(inside, memory_clocks(launch, gpu))
    if slices > 1:
        clocks += MMA_MEET + (slices + 1) * 4 * bm * bn / MMA_MEET_BYTES
    least = launch.M * launch.N * launch.K / (gpu.tensor_fp16_flop_per_clock_per_sm / 2 * gpu.sms)
    return Rounds(blocks, busiest, resident, clocks, least / clocks)


def short_clocks(launch: Geometry, gpu: Gpu) -> float:
    """Clocks of a product by mma_short, the launch itself included.

    A round of r blocks on an SM waits SHORT_WAIT. A tile along K takes SHORT_COPY for each warp's
    copy, of one element a lane where rows have an odd number of them and of up to eight else, and
    its products on the Tensor Cores at their peak; each further tile at least what one block takes
    by itself, SHORT_NEXT and SHORT_ALONE a copy, since that fetches a tile while it multiplies the
    one before, and no more. Then C leaves at SHORT_STORE.
    """
    p, k = launch.params, launch.kernel
    bm, bn = launch.tile
    item, depth = ITEM_BYTES[k.dtype], p["BK"]
    copies = sum(
        size * depth / WARP / math.gcd(row, 8) for size, row in ((bm, launch.K), (bn, launch.N))
    )
    taken = min(depth, cdiv(launch.K, 16) * 16)
    products = 2 * bm * bn * taken / gpu.tensor_fp16_flop_per_clock_per_sm
    stored = item * min(bm, launch.M) * min(bn, launch.N) / SHORT_STORE
    steps, resident = cdiv(launch.K, depth), resident_blocks(launch, gpu)

    def of(r: int) -> float:
        """Clocks of a round of r blocks on an SM."""
        tile = r * (SHORT_COPY * copies + products)
        next_tile = max(tile, SHORT_NEXT + SHORT_ALONE * copies + products)
        return SHORT_WAIT + tile + (steps - 1) * next_tile + r * stored

    full, rest = divmod(cdiv(cdiv(launch.M, bm) * cdiv(launch.N, bn), gpu.sms), resident)
    return SHORT_START + full * of(resident) + (of(rest) if rest else 0)


def merit(
    kernel: Kernel | str, size: tuple[int, int, int], gpu: Gpu, tile: Mapping[str, int]
) -> float:
    """Predicted share of the FP32 peak: what to try first, no claim about the hardware.

    Between 0 and 1 for FP32; of a kernel for Tensor Cores only the order means something.

    The rounds of blocks (`rounds`, with a guess at the registers); then, unless the kernel reads
    its fragments ahead as those with warp tiles do, the wavefronts of shared memory for each
    multiply-add; a fifth of it for a tile that will spill.
    """
    p = lay_out(kernel, *size, **tile)
    k = p.kernel
    rows, columns = tile.get("TM", 1), tile.get("TN", 1)
    sums = rows * columns
    wide = 2 if "TN" in tile else 1  # several values a load
    shared = 0.0
    if "WM" not in tile:
        shared = gpu.fp32_lanes_per_sm / WARP * (rows + columns) / (wide * sums)
    warps = math.ceil(p.threads / WARP)
    wanted = 40 + sums + rows + columns
    fit = gpu.limits.registers_per_sm // (min(255, wanted) * WARP * warps)
    fit = max(fit, tile.get("MIN_BLOCKS", 1))
    blocks = min(fit, gpu.limits.max_warps_per_sm // warps, gpu.limits.max_blocks_per_sm)
    peak = rounds(k, *size, gpu=gpu, resident=blocks, **tile).peak
    spill = 0.2 if wanted > 255 else 1.0
    return spill / (1 / peak + shared)


def tile_order(
    rows: int, columns: int, group: int, *, turn: bool = False
) -> tuple[tuple[int, int], ...]:
    """Row and column of the tile of C that each block computes, by the block's number.

    Blocks are numbered in bands of `group` rows of tiles: down a band's first column of tiles, then
    down its next one; the last band may be lower. group = 1 is the order of rows. turn: every
    second band runs back. Source: kernels/14_fp32_best.cu; with turn,
    kernels/common/tile_order.cuh. Raises ConfigError for a number below 1.
    """
    if min(rows, columns, group) < 1:
        raise ConfigError(f"{rows=}, {columns=}, {group=}: each must be at least 1")
    return tuple(
        (row, columns - 1 - column if turn and band // group % 2 else column)
        for band in range(0, rows, group)
        for column in range(columns)
        for row in range(band, min(band + group, rows))
    )
