"""What a campaign is made of: the request, what a section lacks, the budget, the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.ladder.kernel import Kernel, geometry
from helpers.ladder.rungs import catalog
from helpers.record import protocol
from helpers.record.store import Entry, Record, Size
from nogpu.errors import NoGPUError, TileError, UnknownKernelError, near_matches
from tools.recorder.session import RecordingSession

MATRIX: Size = (4096, 4096, 4096)
"""The size that tiles are searched for, unless another is asked for."""


@dataclass(frozen=True)
class Request:
    """What a campaign is asked to do; the commands `record`, `sweep`, `tune` and `verify` fill it
    in.

    sections: what to measure; empty: nothing but what `finish` finds. The other fields up to
    `count` are the command line's (`commands.FIELDS`): of the kernels, sizes, counts and limits
    that are not given each section takes its own. finish: complete the sections that the
    file has begun, asked for or not. finalists: tiles of a sweep that are confirmed; 0: as many as
    the section does.
    """

    sections: tuple[str, ...] = ()
    gpu: str | None = None
    out: Path | None = None
    commit: str | None = None
    seconds: float | None = None
    again: bool = False
    sizes: tuple[Size, ...] = ()
    kernels: tuple[str, ...] = ()
    skip_above: Mapping[str, int] = field(default_factory=dict)
    workers: int | None = None
    limit: float | None = None
    count: int | None = None
    finish: bool = False
    finalists: int = 0


@dataclass
class Outcome:
    """What a campaign did.

    measured: rows of the sections that count theirs (points, tiles, launches under a tool).
    present: there already. illegal: not allowed at that size by a rule. pruned: tiles left out by
    their resources. refused: wrong or impossible, with the reason. left: over for want of time.
    faults: what was found in kernels of the catalog.
    """

    path: Path
    measured: int = 0
    present: int = 0
    illegal: int = 0
    pruned: int = 0
    refused: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class Budget:
    """Time spent and left, in seconds, and what the next step may cost."""

    def __init__(
        self, started: float, seconds: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._started, self._seconds, self._clock = started, seconds, clock
        self._rates: dict[str, float] = {}

    def elapsed(self) -> float:
        """Seconds since the recording began."""
        return self._clock() - self._started

    def left(self) -> float:
        """Seconds until none may still run."""
        return float("inf") if self._seconds is None else self._seconds - self.elapsed()

    def allows(self, seconds: float) -> bool:
        """Whether a step of this length still fits."""
        return seconds <= self.left()

    def learn(self, name: str, gflops: float) -> None:
        """Remember how fast a kernel was."""
        self._rates[name] = gflops

    def learn_from(self, record: Record) -> None:
        """Remember the rates in a file: of each kernel, that at its largest size."""
        for entry in sorted(record.data.get("points", ()), key=lambda e: e.m * e.n * e.k):
            self.learn(entry.kernel, entry.gflops)

    def guess(self, name: str, size: Size) -> float:
        """Seconds that a point of this kernel will take: fixed costs and its launches."""
        ms = protocol.gflops(*size, 1.0) / self._rates.get(name, 300.0)
        launches = 3 + protocol.RECORD.slow_pairs if ms >= protocol.RECORD.slow_ms else 10
        operands = 1.2e-8 * (size[0] * size[2] + size[2] * size[1])
        return 0.7 + operands + launches * ms / 1e3


TAKEN = float("-inf")
"""The seconds of a step that has been run already, beside others: what it said is always taken."""


@dataclass(frozen=True)
class Done:
    """What came of a step, in words. tally: the field of the Outcome that counts it, how many."""

    text: str
    tally: str = "measured"
    count: int = 1


@dataclass(frozen=True)
class Step:
    """A piece of a section that the file lacks: what it is, its seconds by estimate, and `run`,
    which measures it, merges it into the record and says what came of it.

    head: how its line of progress begins. rest: what else is left when there is no time for it, and
    the section ends there; None: it alone is left out, and shorter ones may follow.
    """

    what: str
    seconds: float
    run: Callable[[], str | Done]
    head: str = ""
    rest: Callable[[], list[str]] | None = None


@dataclass
class Job:
    """What a section works with: the request, its record, the GPU and what it says of itself.

    session: None while a campaign is only planned; then nothing is measured, merged or said.
    """

    request: Request
    record: Record
    arch: str
    supports: Callable[[str], bool]
    budget: Budget
    outcome: Outcome
    stamp: Mapping[str, Any] = field(default_factory=dict)
    opened: RecordingSession | None = None
    say: Callable[[str], None] = lambda _: None

    @property
    def live(self) -> bool:
        """Whether things are measured, not planned."""
        return self.opened is not None

    @property
    def session(self) -> RecordingSession:
        """The GPU. Raises NoGPUError in a plan."""
        if self.opened is None:
            raise NoGPUError("a plan opens no GPU")
        return self.opened

    def wanted(self, sizes: tuple[Size, ...]) -> tuple[Size, ...]:
        """The sizes that were asked for, or these."""
        return self.request.sizes or sizes

    def runs(self, k: Kernel) -> bool:
        """Whether the GPU is new enough for a kernel."""
        return self.supports(k.min_arch)


@dataclass(frozen=True)
class Section:
    """A part of a record that a campaign can fill.

    entry: the class of its entries. lacking: the steps that a file lacks. option: what --help says
    of --<name> in the command `record`; "": it has none there. rank: the order in which sections
    are taken. kind: of the file in data/validation where its rows lie; "": in the measurement file.
    file: the name of that file, {} in it being the GPU's. write_every: seconds between two writes
    while it runs. plan: what it would do and how long that takes, where that is not its steps.
    """

    entry: type[Entry]
    lacking: Callable[[Job], Iterator[Step]]
    name: str = ""
    option: str = ""
    rank: int = 50
    kind: str = ""
    file: str = ""
    write_every: float = 0.0
    plan: Callable[[Job], Iterator[tuple[str, float]]] | None = None

    @property
    def title(self) -> str:
        """Its name: that of its entries' section in a measurement file, or one of its own."""
        return self.name or self.entry.section


def takes(k: Kernel, size: Size, params: Mapping[str, int] | None = None) -> bool:
    """Whether the rules of a kernel allow a size, with these tile sizes or its own."""
    try:
        geometry(k, *size, **(params or {}))
    except TileError:
        return False
    return True


def checked_kernels(job: Job) -> list[Kernel]:
    """The kernels that were named, or all, as far as the GPU can run them."""
    wanted = job.request.kernels
    for name in wanted:
        if name not in catalog:
            raise UnknownKernelError(f"no kernel is called {name!r}. {near_matches(name, catalog)}")
    return [k for name, k in catalog.items() if (not wanted or name in wanted) and job.runs(k)]
