"""What a record may hold: the class of every entry, its fields with their bounds.

The first half are sections of data/measurements/<gpu>.json, the second rows of data/validation.
How they are measured is in tools/recorder/sections, a module to a section.
"""

from dataclasses import dataclass

from helpers.record.store import (
    KINDS,
    Count,
    Entry,
    Key,
    Launch,
    Listed,
    Maybe,
    MaybeTally,
    MaybeText,
    MaybeZero,
    Note,
    NotNegative,
    Params,
    Positive,
    Size,
    Tally,
    Text,
    Timeline,
    Values,
    Words,
)


@dataclass(frozen=True)
class Point(Launch, section="points", required=True, clears="skipped"):
    """One kernel or baseline at one size. Times in ms, rates in GFLOP/s (Gop/s for integers).

    cublas_ratio: the median of paired ratios, with its quartiles; 1 is as fast as `baseline`.
    warm_ms and its neighbours: one product as a program does it, see Session.serial_run.
    """

    ms: Positive
    q1: Positive
    q3: Positive
    gflops: Positive
    pairs: Count
    repeat: Count
    baseline_ms: Maybe
    cublas_ratio: Maybe
    ratio_q1: Maybe
    ratio_q3: Maybe
    h2d_ms: Maybe
    warm_ms: Maybe
    d2h_ms: Maybe
    total_ms: Maybe
    clock_mhz: Maybe
    power_w: Maybe
    clock_note: MaybeText
    dtype: Text
    baseline: Text
    first_ms: Maybe
    source: MaybeText
    max_error: NotNegative
    error_over_tolerance: NotNegative
    checked: Text
    recorded: Note


@dataclass(frozen=True)
class Skipped(Launch, section="skipped", required=True, clears="points"):
    """A point that there is not, and why."""

    reason: Text
    recorded: Note


@dataclass(frozen=True)
class HostTime(Entry, section="host", required=True):
    """One product on one core of the machine that the GPU is in; runs: how many were timed."""

    kernel: Key[Text]
    m: Key[Count]
    n: Key[Count]
    k: Key[Count]
    ms: Positive
    q1: Positive
    q3: Positive
    runs: Count
    gflops: Positive
    cpu: Text
    threads: Count
    compiler: Text
    recorded: Note


@dataclass(frozen=True)
class Accuracy(Entry, section="accuracy", required=True):
    """Errors of one precision on N(0, 1) matrices; see Session.accuracy."""

    kernel: Key[Text]
    m: Key[Count]
    n: Key[Count]
    k: Key[Count]
    max_error: NotNegative
    frobenius: NotNegative
    max_error_rounded_inputs: Maybe
    frobenius_rounded_inputs: Maybe
    recorded: Note


@dataclass(frozen=True)
class Build(Entry, section="flags", required=True):
    """One build; speedup: paired, over the default build."""

    kernel: Key[Text]
    params: Key[Params]
    build: Key[Text]
    m: Key[Count]
    n: Key[Count]
    k: Key[Count]
    ms: Positive
    q1: Positive
    q3: Positive
    gflops: Positive
    speedup: Positive
    speedup_q1: Positive
    speedup_q3: Positive
    source: MaybeText
    recorded: Note


@dataclass(frozen=True)
class LeftOut(Entry, section="left_out"):
    """A kernel without a part. share: its rate over that of the whole kernel, paired."""

    kernel: Key[Text]
    without: Key[Text]
    m: Key[Count]
    n: Key[Count]
    k: Key[Count]
    params: Params
    ms: Positive
    q1: Positive
    q3: Positive
    gflops: Positive
    share: Positive
    share_q1: Positive
    share_q3: Positive
    source: MaybeText
    recorded: Note


LAUNCH_CASES: tuple[tuple[str, Size], ...] = (
    ("vectorised", (512, 512, 512)),
    ("hopper_5", (512, 512, 512)),
    ("hopper_5", (509, 509, 509)),
)
"""Small products, for which a launch weighs: plain, by tensor maps, and with rows that must be
copied."""


@dataclass(frozen=True)
class LaunchCost(Launch, section="launches"):
    """One product asked for in one way ("matmul", "run", "cupy", "bound", "graph"): microseconds of
    the host.

    us: the median of batches of launches that nobody waits for, but that matmul waits for its
    result; launches: all of them. A graph holds several products, and its time is divided by them.
    """

    way: Key[Text]
    us: Positive
    q1: Positive
    q3: Positive
    launches: Count
    source: MaybeText
    recorded: Note


@dataclass(frozen=True)
class Transfer(Entry, section="transfers", required=True):
    """Copies of so many bytes, "h2d" or "d2h", from or to "pageable" or "pinned" memory; gbs:
    GB/s."""

    direction: Key[Text]
    memory: Key[Text]
    bytes: Key[Count]
    ms: Positive
    q1: Positive
    q3: Positive
    gbs: Positive
    recorded: Note


@dataclass(frozen=True)
class L2Rate(Entry, section="l2"):
    """One launch of a block an SM, in which `sharing` neighbours take in the same bytes.

    way: "loads" past L1, "bulk copies", "TMA boxes" or "multicast" (boxes for two SMs at once).
    skew: bytes by which neighbours are apart on their way through them. bytes: of the whole buffer,
    which lies in L2. gbs: what arrives at all SMs in GB/s, by events. per_clock: bytes that arrive
    at an SM in a clock of its own, the median of the blocks. Of so many `runs`, the fastest.
    """

    way: Key[Text]
    sharing: Key[Count]
    skew: Key[Tally]
    bytes: Count
    gbs: Positive
    per_clock: Positive
    ms: Positive
    runs: Count
    source: Text
    recorded: Note


@dataclass(frozen=True)
class Overlapped(Entry, section="overlap"):
    """One variant of one product (see streams.Variant), in ms from host arrays to host result.

    speedup: over the serial run from pageable memory, the median of ratios within a round. pin_ms:
    what pinning the memory took. timeline: the operations of one run, see streams.operations.
    """

    kernel: Key[Text]
    params: Key[Params]
    how: Key[Text]
    memory: Key[Text]
    panels: Key[Count]
    streams: Key[Count]
    m: Key[Count]
    n: Key[Count]
    k: Key[Count]
    ms: Positive
    q1: Positive
    q3: Positive
    runs: Count
    speedup: Positive
    speedup_q1: Positive
    speedup_q3: Positive
    pin_ms: Maybe
    copy_engines: Maybe
    timeline: Timeline
    max_error: NotNegative
    error_over_tolerance: NotNegative
    checked: Text
    source: MaybeText
    recorded: Note


@dataclass(frozen=True)
class Swept(Launch, section="sweep"):
    """One tile of a kernel: its time, or the reason why it has none, and what it takes of an SM."""

    ms: Maybe
    q1: Maybe
    q3: Maybe
    gflops: Maybe
    pairs: Maybe
    cublas_ratio: Maybe
    registers: Tally
    spill_bytes: Tally
    shared_bytes: Tally
    blocks_per_sm: Tally
    reason: MaybeText
    source: MaybeText
    recorded: Note


@dataclass(frozen=True)
class Confirmed(Entry):
    """A tile against the default tile (gain: null where it is the default) and against cuBLAS."""

    kernel: Key[Text]
    params: Params
    default: Params
    m: Key[Count]
    n: Key[Count]
    k: Key[Count]
    ms: Positive
    q1: Positive
    q3: Positive
    gflops: Positive
    pairs: Count
    gain: Maybe
    gain_q1: Maybe
    gain_q3: Maybe
    cublas_ratio: Maybe
    ratio_q1: Maybe
    ratio_q3: Maybe
    max_error: NotNegative
    error_over_tolerance: NotNegative
    checked: Text
    source: MaybeText


@dataclass(frozen=True)
class Tuned(Confirmed, section="tuned"):
    """The best of `tiles` timed tiles of a kernel at a size."""

    tiles: Count
    recorded: Note


@dataclass(frozen=True)
class Chosen(Confirmed, section="ragged"):
    """The tile that `launch.choose` picks for one of the ragged shapes of a seed."""

    seed: Count
    recorded: Note


@dataclass(frozen=True)
class Pick(Entry, section="auto"):
    """A launch that was picked for a shape, beside cuBLAS. seed: of the shape; 0: a named one.

    predicted: microseconds by the formula that picked it. ratio: cuBLAS's time over its own, pair
    by pair.
    """

    dtype: Key[Text]
    m: Key[Count]
    n: Key[Count]
    k: Key[Count]
    seed: Tally
    kernel: Text
    params: Params
    predicted: Positive
    ms: Positive
    q1: Positive
    q3: Positive
    gflops: Positive
    pairs: Count
    cublas_ratio: Maybe
    ratio_q1: Maybe
    ratio_q3: Maybe
    max_error: NotNegative
    error_over_tolerance: NotNegative
    checked: Text
    source: MaybeText
    recorded: Note


@dataclass(frozen=True)
class Counted(Launch, section="counters", required=True):
    """One launch, and what ncu read of it: values by the names in `ncu.METRICS`."""

    values: Values
    source: MaybeText
    recorded: Note


@dataclass(frozen=True)
class Stalled(Counted, section="stalls"):
    """The same of what its warps wait for: values by the names in `ncu.ISSUE` and `ncu.STALLS`."""


WAITS = (
    "long_scoreboard", "short_scoreboard", "barrier", "mio_throttle", "lg_throttle",
    "math_pipe_throttle", "wait", "not_selected", "dispatch_stall", "no_instruction", "membar",
    "branch_resolving", "imc_miss", "drain", "gmma",
)  # fmt: skip
"""What a warp that does not issue waits for, by ncu's names (Nsight Compute, Profiling Guide, "Warp
Stall Reasons"); gmma is Hopper's."""
CHECKS = ("memcheck", "racecheck", "synccheck", "initcheck")
"""The tools of compute-sanitizer, by the names that it gives them."""


@dataclass(frozen=True)
class ControlRun(Entry):
    """What a check said of a kernel with a known fault."""

    check: Key[Text]
    kernel: Text
    why: Key[Text]
    state: Text
    errors: Tally
    first: Words


@dataclass(frozen=True)
class SanitizerRun(Entry):
    """A kernel at one shape of WATCHED under one check. first: its first report; wrong: of C."""

    kernel: Key[Text]
    params: Params
    shape: Key[Text]
    m: Count
    n: Count
    k: Count
    check: Key[Text]
    state: Text
    errors: Tally
    summary: Words
    first: Words
    wrong: MaybeTally
    seconds: NotNegative
    source: MaybeText
    recorded: Note


@dataclass(frozen=True)
class MutantRun(Entry):
    """A mutant of tools/mutants.py, or (fault "") its kernel without a fault, under one check, or
    none (""), all its launches together."""

    name: Key[Text]
    kernel: Text
    fault: Words
    check: Key[Words]
    state: Text
    errors: Tally
    summary: Words
    first: Words
    wrong: Tally
    seconds: NotNegative
    source: MaybeText
    recorded: Note


@dataclass(frozen=True)
class ShapesRun(Entry):
    """A kernel over many shapes, with operands aligned, and beginning one element into their
    memory.

    worst: the largest error over its bound, null where an element was never written. wrong:
    elements; wrong_at: shapes. largest: of the shapes. shifted: which operands are, then.
    """

    kernel: Key[Text]
    params: Params
    state: Text
    seed: Tally
    shapes: Tally
    largest: Listed
    worst: MaybeZero
    wrong: Tally
    wrong_at: Listed
    shifted: Text
    shifted_shapes: Tally
    shifted_worst: MaybeZero
    shifted_wrong: Tally
    source: MaybeText
    recorded: Note


KINDS["sanitizer"] = {"controls": ControlRun, "rows": SanitizerRun}
KINDS["mutants_sanitizer"] = {"controls": ControlRun, "rows": MutantRun}
KINDS["shapes"] = {"controls": ControlRun, "rows": ShapesRun}
