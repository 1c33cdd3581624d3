"""What each resource alone would take for a kernel, a shape and a GPU; the most is predicted."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from helpers import record as measuring
from helpers.ladder import hopper, model, usage
from helpers.ladder.kernel import ITEM_BYTES, Geometry, cdiv
from helpers.ladder.rungs import catalog, find, lay_out
from helpers.record.costs import counting, facts, rates
from nogpu import device, toolchain
from nogpu.device import Gpu
from nogpu.emulator import Report
from nogpu.errors import ConfigError, DataError, TileError, UnknownNameError, near_matches

DRAM, L2, L1, ISSUE = "DRAM", "L2", "L1 and shared memory", "issue slots"
"""Names of resources.

The fourth is the unit that multiplies: "FMA pipe", "integer pipe", "Tensor pipe".
"""


@dataclass(frozen=True)
class Bound:
    """What one resource alone would take: count over rate, and who says each of the two.

    count: of the whole product, in `unit`. per_ms: what the GPU does of it in a millisecond, all
    SMs together. ms: count / per_ms, times `Waves.factor` for what lies inside an SM. apart: of L2,
    ms if no two SMs asked for the same bytes at the same time; no bound, as kernels may beat it.
    """

    resource: str
    count: float
    unit: str
    per_ms: float
    ms: float
    count_source: str
    rate_source: str
    apart: float | None = None


@dataclass(frozen=True)
class Waves:
    """How the tiles of C fall on the SMs.

    busiest: tiles of the SM that has most. resident: blocks that an SM holds at once. rounds: how
    often it fills up. factor: busiest over the mean, by which the slowest SM is later than all
    would be if the work were even; at least 1.
    """

    tiles: int
    sms: int
    resident: int
    busiest: float

    @property
    def rounds(self) -> float:
        """Rounds of resident blocks that the busiest SM takes."""
        return self.busiest / self.resident

    @property
    def factor(self) -> float:
        """The busiest SM's tiles over the mean of all."""
        return self.busiest * self.sms / self.tiles


@dataclass(frozen=True)
class Bounds(Mapping[str, Bound]):
    """The bounds of one launch on one GPU, by resource; `measured` (ms) stands beside where known.

    kernel: its name. size: (M, N, K), of a launch that is no product as it was given. flop: of the
    whole launch. missing: resources that are not known, and why. gpu: a row of `device.GPUS`.
    whose: of the measured time, in words. waiting: ms in which a block waits for loads and no other
    block covers it (`predicted`); None where that is not known.
    """

    kernel: str
    size: tuple[int, int, int]
    gpu: Gpu
    bounds: tuple[Bound, ...]
    waves: Waves
    flop: float
    measured: float | None = None
    whose: str = ""
    missing: tuple[str, ...] = ()
    waiting: float | None = None

    def __getitem__(self, resource: str) -> Bound:
        for b in self.bounds:
            if b.resource == resource:
                return b
        raise UnknownNameError(
            f"no bound of {self.kernel} is called {resource!r}."
            f" {near_matches(str(resource), list(self))}"
        )

    def __contains__(self, resource: object) -> bool:
        return any(b.resource == resource for b in self.bounds)

    def __iter__(self) -> Iterator[str]:
        return (b.resource for b in self.bounds)

    def __len__(self) -> int:
        return len(self.bounds)

    @property
    def binding(self) -> str:
        """The resource that takes longest: no kernel with these counts is faster."""
        return max(self.bounds, key=lambda b: b.ms).resource

    @property
    def pipe(self) -> str:
        """The unit that multiplies: "FMA pipe", "integer pipe" or "Tensor pipe"; "" where none
        does."""
        return next((name for name in self if name.endswith(" pipe")), "")

    @property
    def ms(self) -> float:
        """The prediction: the time of the binding resource alone, in ms."""
        return max(b.ms for b in self.bounds)

    @property
    def predicted(self) -> float:
        """The bound and the waiting that it leaves out, in ms: a prediction that may be beaten.

        A warp alone in the main loop waits some clocks a round for what it loads (`waiting.waits`:
        its machine code, published latencies). The warps of a block meet at barriers, so they wait
        together; of r blocks that an SM holds, each covers for the others but not for itself: 1/r
        of the waits stays. Assumed: tiles of A and B come from L2, and what a kernel without shared
        memory reads from L1; barriers, register banks, full queues and clocks below boost cost
        nothing. Equal to `ms` where the waits are not known.
        """
        return self.ms + (self.waiting or 0.0)

    @property
    def gflops(self) -> float:
        """The rate of the prediction in GFLOP/s (int32: Gop/s)."""
        return self.flop / self.ms / 1e6

    @property
    def share(self) -> float | None:
        """Bound over measured time, at most 1; None where nothing is measured."""
        return self.ms / self.measured if self.measured else None

    def __repr__(self) -> str:
        M, N, K = self.size
        lines = [f"{self.kernel}, M={M}, N={N}, K={K}, {self.gpu.name}"]
        lines += [
            f"  {b.resource:22} {b.ms:9.4f} ms{' <- binds' if b.resource == self.binding else ''}"
            for b in self.bounds
        ]
        if self.measured is not None:
            lines.append(f"  {'measured':22} {self.measured:9.4f} ms ({self.whose})")
        return "\n".join(lines + [f"  not known: {words}" for words in self.missing])


def card(gpu: str | Gpu | None) -> Gpu:
    """A row of the table of GPUs: by key, itself, or the GPU at hand (the H200 if none)."""
    if isinstance(gpu, Gpu):
        return gpu
    if gpu is not None:
        return device.gpu(gpu)
    here = at_hand()
    return here if here is not None else device.gpu("h200")


def at_hand() -> Gpu | None:
    """The GPU of this machine as a row of the table, or None where there is none."""
    live = device.current()
    if live is None:
        return None
    return live.known or (
        device.describe(
            live.name,
            {
                "name": live.name, "arch": live.arch, "sms": live.sms,
                "max_clock_mhz": live.boost_mhz, "bandwidth_gbs": live.bandwidth_gbs,
                "memory_bytes": live.memory_bytes, "l2_bytes": live.l2_bytes,
            },
        )
        if live.bandwidth_gbs
        else None
    )  # fmt: skip


def target(launch: Geometry, gpu: Gpu) -> str:
    """What to compile a kernel for on a GPU. Raises ConfigError where the GPU cannot run it."""
    k = launch.kernel
    here, needed = toolchain.arch_number(gpu.arch), toolchain.arch_number(k.min_arch)
    if here < needed or (k.min_arch.endswith("a") and here != needed):
        only = "runs on" if k.min_arch.endswith("a") else "needs"
        raise ConfigError(
            f"{k.name} {only} {k.min_arch}{'' if k.min_arch.endswith('a') else ' or later'}, and"
            f" {gpu.name} is {gpu.arch}: ask for a GPU that has it, or for a kernel that this one"
            " runs"
        )
    return f"{gpu.arch}a" if k.min_arch == f"{gpu.arch}a" else gpu.arch


def bounds(
    kernel: str, M: int, N: int | None = None, K: int | None = None, *,
    gpu: str | Gpu | None = None, **tile: int,
) -> Bounds:  # fmt: skip
    """`of_plan` a product by a kernel of the catalog; bounds(kernel, n) stands for M = N = K = n.

    gpu: a key of `device.GPUS` (the time beside is then its record's); default the GPU at hand
    (measured now), or the H200. tile: sizes other than the kernel's own. Raises UnknownKernelError,
    ShapeError, ConfigError (a broken rule, a GPU too old).
    """
    n, k = (M if N is None else N), (M if K is None else K)
    return of_plan(lay_out(kernel, M, n, k, **tile), gpu)


def of_plan(
    plan: Geometry, gpu: str | Gpu | None = None, *, measured: tuple[float, str] | None = None
) -> Bounds:
    """What each resource alone would take for a planned launch, of a reader's own text too.

    - DRAM: A, B and C once each, over the bandwidth of the data sheet.
    - L2, the longer of two: what the SMs take in if the blocks that one holds at once share in L1
      all that they can (`l2_bytes`), at the rate at which many SMs get the same bytes together; and
      what a wave of blocks asks for, each byte once (`distinct_bytes`), at the rate at which each
      SM gets its own. Left out where nobody measured the rates.
    - L1 and shared memory: wavefronts of the pipe that delivers to registers, one a clock and SM.
    - issue slots: warp instructions of the main loop, four a clock and SM; the rest of the kernel
      is left out.
    - FMA, integer or Tensor pipe: the product's multiply-adds.

    The last three lie inside an SM: the SM with most tiles decides (`Waves`). All at the boost
    clock, and each count is one that the kernel cannot go below, so no time should be below the
    largest. Counts at the edge of C are those of whole tiles in parts. measured: a time in ms and
    whose it is, in words; left out, it is looked up (`time_of`). Raises ConfigError where the GPU
    cannot run it, and what compiling and emulating raise.
    """
    card_ = card(gpu)
    arch = target(plan, card_)
    counts = counting.of_block(plan, arch)
    resident = usage.resources_of(plan, arch).occupancy.blocks
    where = spread(plan, card_, resident)
    M, N, K, kernel = plan.M, plan.N, plan.K, plan.kernel
    item, out = ITEM_BYTES[kernel.dtype], ITEM_BYTES[kernel.out_dtype]
    bm, bn = plan.tile
    even = M * N / (bm * bn)  # whole tiles of C, the parts at its edge as parts

    inside = where.busiest * card_.sms / even
    bytes_ = model.compulsory_bytes(M, N, K, item, out)
    found = [_bound(DRAM, bytes_, "bytes", rates.dram(card_), "A, B and C once each")]
    missing = []
    supply = rates.l2(card_)
    if supply is not None:
        found.append(_of_l2(plan, resident, card_, supply))
    else:
        missing.append(f"{L2}: nobody measured what it delivers there")
    waves, origin = counts.deliveries(K, N, rates.wavefront_clocks(card_)), counts.deliveries_source
    found.append(_bound(L1, even * waves, "wavefronts", rates.deliveries(card_), origin, inside))
    origin = counts.instructions_source
    if counts.instructions is not None:
        issued, rate = even * counts.instructions.at(K), rates.issue(card_)
        found.append(_bound(ISSUE, issued, "warp instructions", rate, origin, inside))
    else:
        missing.append(f"{ISSUE}: {origin}")
    by_wgmma = kernel.host == "tma" and "WM" not in plan.params
    name, unit, rate = rates.arithmetic(card_, kernel.dtype, wgmma=by_wgmma)
    found.append(_bound(name, float(M * N * K), unit, rate, "M N K", inside))
    waiting = None
    if counts.waits is not None:
        at_once = max(1.0, min(resident, where.busiest))
        waiting = counts.waits.at(K) * where.busiest / at_once / (card_.boost_mhz * 1e3)
    took, whose = measured or time_of(plan, card_, live=not isinstance(gpu, str))
    return Bounds(
        kernel.name, (M, N, K), card_, tuple(found), where, float(model.flops(M, N, K)), took,
        whose, tuple(missing), waiting,
    )  # fmt: skip


def _bound(
    name: str, count: float, unit: str, rate: rates.Rate, source: str, factor: float = 1.0
) -> Bound:
    """What a count takes at a rate. factor: by which the slowest SM is later than the mean."""
    return Bound(name, count, unit, rate.per_ms, count / rate.per_ms * factor, source, rate.source)


def spread(plan: Geometry, gpu: Gpu, resident: int) -> Waves:
    """How the tiles of a launch fall on the SMs of a GPU.

    The SM with most has ceil(tiles / SMs), however they are dealt; where stream-K cuts tiles along
    k (`hopper.division`), they are shared evenly. Only tiles that lie whole inside C count for the
    busiest SM: those at its edge may do less.
    """
    bm, bn = plan.tile
    tiles = cdiv(plan.M, bm) * cdiv(plan.N, bn)
    whole = plan.M // bm * (plan.N // bn)
    even = plan.M * plan.N / (bm * bn) / gpu.sms
    cut = plan.kernel.entry == "wgmma_stream_k" and hopper.division(plan).ranges > 0
    most = cdiv(whole, gpu.sms) if whole else even * gpu.sms / tiles
    busiest = even if cut else max(even, most)
    return Waves(tiles, gpu.sms, resident, busiest)


def l2_bytes(plan: Geometry, resident: int) -> tuple[float, str]:
    """Bytes of A and B that the SMs take in from L2 at least, and how they were counted.

    A block of BM x BN needs BM + BN elements a k. Loads by threads pass through L1, so blocks that
    an SM holds at once may share there: at best they lie in a rectangle of tiles that is nearly
    square. TMA writes to shared memory alone, and what a cluster shares by multicast still arrives
    whole at each of its SMs, whose ports are the rate. What L1 keeps from one block to the next is
    left out (a panel of A and B is larger than L1 from K = 1024 on). C leaves by another way. L2
    itself may send less: requests of SMs for the same bytes are merged on their way
    (`distinct_bytes`).
    """
    k = plan.kernel
    bm, bn = plan.tile
    if k.host == "tma":
        down = along = 1
        words = "tiles by TMA, whole at every SM, multicast or not"
    else:
        down, along = max(
            ((d, resident // d) for d in range(resident, 0, -1)),
            key=lambda s: s[0] * s[1] / (s[0] * bm + s[1] * bn),
        )
        words = f"what a block needs, {resident} on an SM sharing in L1 all they can"
    each = 1 / (bn * along) + 1 / (bm * down)
    return plan.M * plan.N * plan.K * ITEM_BYTES[k.dtype] * each, words


def distinct_bytes(plan: Geometry, resident: int, gpu: Gpu) -> float:
    """Bytes of A and B that L2 sends at least, if SMs that want the same ones ask together.

    The blocks that all SMs hold at once form a wave. At best they lie in a rectangle of tiles for
    which the rows of A and the columns of B are fewest, and each of these is sent once a wave.
    """
    bm, bn = plan.tile
    down, along = cdiv(plan.M, bm), cdiv(plan.N, bn)
    wave = min(gpu.sms * resident, down * along)
    each = min(r * bm + wave / r * bn for r in range(1, down + 1) if wave / r <= along)
    waves = plan.M * plan.N / (bm * bn * wave)
    return waves * each * plan.K * ITEM_BYTES[plan.kernel.dtype]


def _of_l2(plan: Geometry, resident: int, gpu: Gpu, supply: rates.Supply) -> Bound:
    taken, words = l2_bytes(plan, resident)
    sent = distinct_bytes(plan, resident, gpu)
    cases = [(sent, supply.apart, "what a wave of blocks asks for, each byte once")]
    if supply.together is not None:
        cases.append((taken, supply.together, words))
    count, rate, origin = max(cases, key=lambda case: case[0] / case[1].per_ms)
    apart = max(taken, sent) / supply.apart.per_ms
    return replace(_bound(L2, count, "bytes", rate, origin), apart=apart)


def time_of(plan: Geometry, gpu: Gpu, *, live: bool) -> tuple[float | None, str]:
    """The measured time of a launch on a GPU in ms, and whose it is; None where nobody measured it.

    Measured now where the GPU is the one at hand and `live`, else from its record: whose it is says
    so where the code has changed since.
    """
    if plan.kernel.text is not None or math.prod((plan.M, plan.N, plan.K)) == 0:
        return None, ""
    try:
        here = live and at_hand() == gpu
        if not here and gpu.key not in measuring.known_gpus():
            return None, ""
        m = measuring.measure(
            plan.kernel, (plan.M, plan.N, plan.K), gpu=None if here else gpu.key, **plan.params
        )
        row = m.rows[0]
        if not math.isfinite(row["ms"]):
            return None, ""
        return float(row["ms"]), m.label
    except (DataError, TileError):
        return None, ""


def of_counts(
    report: Report, resources: usage.Resources, gpu: str | Gpu, *, blocks: int, dram_bytes: float,
    multiply_adds: float = 0.0, size: tuple[int, int, int] = (0, 0, 0),
) -> Bounds:  # fmt: skip
    """The bounds of any kernel, from what the emulator counted of some of its blocks.

    report: of a launch with samples=True and sass=True, over arrays with the row lengths of the
    launch that is meant; sample_blocks keeps it short. blocks: of the launch that is meant, all
    alike. dram_bytes: what must move once. multiply_adds: of single lanes, float32, 2 FLOP each.
    Left out are L2, for what blocks share is not in a report, and the issue slots.
    Raises ConfigError for a report without samples or with a finding, or blocks below 1.
    """
    if blocks < 1:
        raise ConfigError(f"{blocks=}: give at least one block")
    if report.samples is None or report.findings:
        raise ConfigError(
            f"the report of {report.kernel} has"
            f" {'no samples' if report.samples is None else 'a finding'}: launch a sound kernel"
            " with samples=True"
        )
    card_ = card(gpu)
    resident = resources.occupancy.blocks
    where = Waves(
        blocks, card_.sms, resident, max(blocks / card_.sms, float(cdiv(blocks, card_.sms)))
    )
    clocks = counting.delivered(report, rates.wavefront_clocks(card_))
    waves, origin = clocks * blocks / report.blocks_run, f"the emulator, {report.blocks_run} blocks"
    found = [
        _bound(DRAM, dram_bytes, "bytes", rates.dram(card_), "given"),
        _bound(L1, waves, "wavefronts", rates.deliveries(card_), origin, where.factor),
    ]
    if multiply_adds:
        name, unit, rate = rates.arithmetic(card_, "float32")
        found.append(_bound(name, multiply_adds, unit, rate, "given", where.factor))
    lacking = ("L2: what blocks share is not in a report", f"{ISSUE}: not in a report either")
    flop = 2.0 * multiply_adds
    return Bounds(report.kernel, size, card_, tuple(found), where, flop, missing=lacking)


def powered(b: Bounds) -> tuple[Bounds, str] | None:
    """The bounds of the same product at the clock that the card's power limit leaves, and by whom.

    None where the unit that multiplies does not bind (such a kernel draws less), or where nobody
    reported what the card sustains (`rates.sustained`).
    """
    sustained = rates.sustained(b.gpu, find(b.kernel).dtype) if b.binding == b.pipe else None
    if sustained is None:
        return None
    gpu, source = sustained
    return bounds(b.kernel, *b.size, gpu=gpu), source


def ladder(
    names: Sequence[str] | None = None,
    size: int | tuple[int, int, int] = 4096,
    *,
    gpu: str | Gpu | None = "t4",
) -> dict[str, Bounds | None]:
    """The bounds of many kernels on one GPU (default: a T4) by name; None for one that it cannot
    run.

    names: default all of the catalog but the integers' and those that no baseline is for.
    """
    chosen = names if names is not None else [
        name for name, k in catalog.items() if k.baseline != "none"
    ]  # fmt: skip
    shape = (size, size, size) if isinstance(size, int) else size
    card_ = card(gpu)
    found: dict[str, Bounds | None] = {}
    for name in chosen:
        found[name] = None if facts.missing(find(name), card_) else bounds(name, *shape, gpu=card_)
    return found
