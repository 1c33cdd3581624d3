"""Copies overlapped with compute: row panels of C over several streams, and what that gains.

A panel is a product with fewer rows, so no kernel changes: `panels` cuts the rows, `schedule` says
in which order the host queues the work, `simulate` what ideal hardware makes of it. Nothing here is
measured: helpers.record.overlapping runs the same steps on a GPU.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from helpers.ladder.kernel import Geometry, cdiv
from nogpu.errors import ConfigError

COPY_IN, COMPUTE, COPY_OUT = "host to device", "kernel", "device to host"
ENGINE: Mapping[str, str] = {"B": COPY_IN, "A": COPY_IN, "kernel": COMPUTE, "C": COPY_OUT}
"""What works on each step: a GPU copies in, computes and copies out with three separate engines."""
STEPS = ("B", "A", "kernel", "C")
PANELS = (1, 2, 4, 8, 16, 32)
STREAMS = 4


class Columns(Protocol):
    """An entry of a record, read by column."""

    def __getitem__(self, name: str, /) -> Any: ...


# -- cutting, ordering, predicting -----------------------------------------------------------------


def panels(rows: int, count: int, multiple: int = 1) -> tuple[tuple[int, int], ...]:
    """First row and number of rows of each of `count` panels that cover 0 to rows - 1 once.

    Cuts lie on multiples of `multiple` (the rows of a block's tile, so that no tile is split); the
    panels differ by at most one multiple, and the last one ends where the matrix does.
    Raises ConfigError if there are not enough rows for so many panels.
    """
    if rows < 1 or count < 1 or multiple < 1:
        raise ConfigError(f"{rows=}, {count=}, {multiple=}: each must be at least 1")
    tiles = cdiv(rows, multiple)
    if count > tiles:
        raise ConfigError(
            f"{rows} rows in tiles of {multiple} are {tiles} tiles: too few for {count} panels; "
            f"ask for at most {tiles}"
        )
    size, larger = divmod(tiles, count)
    cuts = [min(rows, multiple * (size * i + min(i, larger))) for i in range(count + 1)]
    return tuple((a, b - a) for a, b in pairwise(cuts))


def row_panels(p: Geometry, count: int) -> tuple[tuple[int, int], ...]:
    """The panels of a product's rows, cut between the tiles of its blocks."""
    return panels(p.M, count, p.tile[0])


@dataclass(frozen=True)
class Step:
    """One piece of queued work: "B" or "A" copied in, the "kernel", "C" copied out."""

    what: str
    panel: int
    stream: int


@dataclass(frozen=True)
class Operation:
    """A step with the times in ms at which it began and ended."""

    what: str
    panel: int
    stream: int
    start_ms: float
    end_ms: float


def schedule(count: int, streams: int) -> tuple[Step, ...]:
    """What the host queues, in order: B, then for each panel A in, kernel, C out, stream i % S."""
    if count < 1 or streams < 1:
        raise ConfigError(f"{count=} panels, {streams=}: each must be at least 1")
    steps = [Step("B", 0, 0)]
    for i in range(count):
        steps += [Step(what, i, i % streams) for what in ("A", "kernel", "C")]
    return tuple(steps)


def simulate(
    steps: Iterable[Step], rows: Sequence[int], ms: Mapping[str, float]
) -> tuple[Operation, ...]:
    """When each step runs on ideal hardware; the last end is the time of the whole product.

    rows: of each panel; a panel's share of "A", "kernel" and "C" is its share of the rows. ms: time
    of each of STEPS for the whole product. A step begins when its stream and its engine have done
    what was queued before, and a kernel when B and its own panel of A are there too. Ideal: copies
    and kernels do not slow each other down, and a thin panel is as efficient as the whole.
    Raises ConfigError if a kernel is queued before its operands or a copy out before its kernel.
    """
    total, engine, stream = sum(rows), dict[str, float](), dict[int, float]()
    done: dict[tuple[str, int], float] = {}
    operations = []
    for step in steps:
        needs = {"kernel": (("B", 0), ("A", step.panel)), "C": (("kernel", step.panel),)}
        ready = 0.0
        for need in needs.get(step.what, ()):
            if need not in done:
                raise ConfigError(
                    f"{step.what} of panel {step.panel} is queued before {need[0]}, which it needs"
                )
            ready = max(ready, done[need])
        start = max(ready, engine.get(ENGINE[step.what], 0.0), stream.get(step.stream, 0.0))
        share = 1.0 if step.what == "B" else rows[step.panel] / total
        end = start + share * ms[step.what]
        engine[ENGINE[step.what]] = stream[step.stream] = end
        done[step.what, 0 if step.what == "B" else step.panel] = end
        operations.append(Operation(step.what, step.panel, step.stream, start, end))
    return tuple(operations)


def makespan(operations: Iterable[Operation]) -> float:
    """Milliseconds from 0 to the end of the last operation."""
    return max(operation.end_ms for operation in operations)


def bound(ms: Mapping[str, float]) -> float:
    """Milliseconds that no cut into row panels can beat: B first, then the slowest of the three."""
    return ms["B"] + max(ms["A"], ms["kernel"], ms["C"])


def parts(operations: Iterable[Operation]) -> dict[str, float]:
    """Milliseconds of each of STEPS, the `ms` of `simulate`, from a serial run's operations."""
    spent = dict.fromkeys(STEPS, 0.0)
    for operation in operations:
        spent[operation.what] += operation.end_ms - operation.start_ms
    return spent


def busy(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """The operations as their engines saw them, in order of their ends.

    An event before an operation is stamped when its stream gets there, which may be long before the
    engine does. So an operation begins here no earlier than its engine's last one ended. (Kernels
    of two streams may in truth share the GPU for a while; then this draws one after the other.)
    """
    last: dict[str, float] = {}
    spans = []
    for o in sorted(operations, key=lambda o: (o.end_ms, o.start_ms)):
        start = min(o.end_ms, max(o.start_ms, last.get(ENGINE[o.what], 0.0)))
        last[ENGINE[o.what]] = o.end_ms
        spans.append(Operation(o.what, o.panel, o.stream, start, o.end_ms))
    return tuple(spans)


def lanes(operations: Iterable[Operation], group: str) -> list[dict[str, Any]]:
    """Rows for `plots.gantt`: one lane an engine, each bar called B or by its panel's number."""
    return [
        {
            "group": group,
            "lane": ENGINE[o.what],
            "kind": ENGINE[o.what],
            "label": "B" if o.what == "B" else str(o.panel),
            "start_ms": o.start_ms,
            "end_ms": o.end_ms,
        }
        for o in busy(operations)
    ]


def operations(entry: Columns) -> tuple[Operation, ...]:
    """The recorded operations of one run."""
    return tuple(Operation(*fields) for fields in entry["timeline"])


# -- the ways to do it -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """A way to do the product end to end.

    how: "serial" (the host waits after each step, as in chapter 02) or "panels" (queued, one wait
    at the end). memory: "pageable" or "pinned" host arrays.
    """

    how: str
    memory: str
    panels: int = 1
    streams: int = 1

    @property
    def title(self) -> str:
        """In words, for a bar or a table."""
        if self.how == "serial":
            return f"serial, {self.memory}"
        words = f"{self.panels} panel{'s' * (self.panels > 1)}"
        words += f", {self.streams} stream{'s' * (self.streams > 1)}"
        return words if self.memory == "pinned" else f"{words}, {self.memory}"


BASELINE = Variant("serial", "pageable")


def variant(entry: Columns) -> Variant:
    """The variant that a recorded entry is about."""
    return Variant(entry["how"], entry["memory"], entry["panels"], entry["streams"])


def variants(rows: int, multiple: int) -> tuple[Variant, ...]:
    """All that are measured of a product with so many rows in tiles of `multiple` rows.

    Serial from both kinds of memory; each of PANELS that there are tiles for, over up to STREAMS
    streams; and one number of panels over fewer streams and from pageable memory.
    """
    tiles = cdiv(rows, multiple)
    counts = [count for count in PANELS if count <= tiles]
    middle = max(count for count in counts if count <= 8)
    queued = [("pinned", count, STREAMS) for count in counts]
    queued += [("pinned", middle, 1), ("pinned", middle, 2), ("pageable", middle, STREAMS)]
    cut = (Variant("panels", memory, n, min(s, n)) for memory, n, s in queued)
    return tuple(dict.fromkeys((BASELINE, Variant("serial", "pinned"), *cut)))


def crossover(rate_gflops: float, link_gbs: float, itemsize: int = 4) -> float:
    """Columns N from which a panel takes longer to compute than to copy in: N = itemsize F / (2 W).

    A panel of m rows takes 2 m N K / F to compute and itemsize m K / W to copy; m and K cancel.
    rate_gflops: F in GFLOP/s. link_gbs: W, of the link, in GB/s.
    """
    if not (rate_gflops > 0 and link_gbs > 0 and math.isfinite(rate_gflops / link_gbs)):
        raise ConfigError(f"{rate_gflops=}, {link_gbs=}: both rates must be positive")
    return itemsize * rate_gflops / (2 * link_gbs)
