"""Where a chapter's times come from: measured on this machine's GPU, or replayed from a record.

`source` chooses, in one place. Both kinds have one method, which takes entries of one class for
kernels at sizes; `measure`, `overlap` and `live_ladder` make of them what a page shows.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

from helpers.ladder.kernel import Kernel
from helpers.ladder.rungs import catalog, find
from helpers.record import overlapping, protocol, store
from helpers.record.entries import Overlapped, Point, Skipped
from helpers.record.gpu import BASELINES, Session
from helpers.record.measurement import Measurement, gap, row_of
from helpers.record.points import point
from helpers.record.reading import outdated, rung
from helpers.record.selection import (
    DEFAULT_GPU,
    Rows,
    Selected,
    listing,
    runnable_names,
    select,
    size_of,
)
from helpers.record.stamps import commit, gpu_facts, stamp
from helpers.record.store import Record, Size, shape
from helpers.record.telemetry import Telemetry
from nogpu import device
from nogpu.errors import ConfigError, DataError, ToolchainError, UnknownNameError
from nogpu.toolchain import runs

E = TypeVar("E", Point, Overlapped)
Cell = tuple[str, tuple[tuple[str, int], ...], Size]
"""What one entry is asked for: a kernel's name, its tile sizes, a size."""


def _cell(name: str, tiles: Mapping[str, int], size: Size) -> Cell:
    return name, tuple(sorted(tiles.items())), size


@dataclass(frozen=True)
class Taken(Generic[E]):
    """Entries in the order asked for, with their provenance in words. missing: what there is not,
    why.

    refused: of those, why this GPU could not measure them. facts: what a record says of the GPU.
    """

    live: bool
    gpu: str
    key: str
    label: str
    entries: tuple[E, ...]
    missing: tuple[str, ...]
    refused: Mapping[Cell, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """Something that has entries."""

    def take(self, kind: type[E], wanted: Sequence[Selected], sizes: Sequence[Size]) -> Taken[E]:
        """The entries of a class for these kernels, each at every size.

        Raises where there is none.
        """
        ...


# -- replayed --------------------------------------------------------------------------------------

_HOW: Mapping[type, tuple[str, str]] = {
    Point: ("measurement", "--kernels {names} --sizes {sizes}"),
    Overlapped: ("overlapped copies", "--no-points --overlap"),
}
"""What entries of a class are called, and with which options they are recorded."""


@dataclass(frozen=True)
class Recorded:
    """A record, replayed. why: the reason in words, where this GPU should have measured."""

    record: Record
    why: str = ""

    def take(self, kind: type[E], wanted: Sequence[Selected], sizes: Sequence[Size]) -> Taken[E]:
        """The recorded entries. Raises DataError, with what there is, if there is none of them."""
        used: list[E] = []
        missing = []
        for _, name, tiles in wanted:
            for size in sizes:
                about = {"kernel": name, "params": tiles, **store.named(size)}
                entries = self.record.of(kind, **about)
                used += entries
                if not entries:
                    missing.append(self._lacking(name, tiles, size))
        if not used:
            raise DataError(self._nothing(kind, wanted, sizes, missing))
        label = self.record.label(used)
        changed = dict.fromkeys(e.kernel for e in used if outdated(e))
        if changed:
            label += f"; the code of {', '.join(changed)} has changed since"
        gpu = self.record.gpu["name"]
        return Taken(False, gpu, self.record.key, label, tuple(used), tuple(missing))

    def _lacking(self, name: str, tiles: Mapping[str, int], size: Size) -> str:
        skipped = self.record.of(Skipped, kernel=name, params=tiles, **store.named(size))
        why = f" ({skipped[0].reason})" if skipped else ""
        with_tiles = ", ".join(f"{key}={value}" for key, value in tiles.items())
        return f"{name} at {shape(size)}" + (f" with {with_tiles}" if with_tiles else "") + why

    def _nothing(
        self, kind: type[E], wanted: Sequence[Selected], sizes: Sequence[Size], missing: list[str]
    ) -> str:
        what, options = _HOW[kind]
        names = ",".join(dict.fromkeys(name for _, name, _ in wanted))
        edges = ",".join(dict.fromkeys(str(size[0]) for size in sizes))
        return (
            f"{self.record.path.name} has no {what} of {'; '.join(missing) or 'any kernel'}. It"
            f" has: {listing(self.record.of(kind), names.split(','))}. Record it on that GPU with:"
            f" python -m helpers record --gpu {self.record.key}"
            f" {options.format(names=names, sizes=edges)}" + (f". {self.why}" if self.why else "")
        )


# -- measured now ----------------------------------------------------------------------------------


@cache
def _session() -> Session:
    """The GPU of this machine, opened and warmed up once a process. Raises NoGPUError."""
    session = Session()
    session.warm_up()
    return session


@dataclass(frozen=True)
class _Now:
    """What the measuring of one entry needs: the GPU, its clock and power, and what to note."""

    session: Session
    telemetry: Telemetry
    note: Mapping[str, Any]

    def point(self, kernel: Kernel | str, size: Size, tiles: Mapping[str, int]) -> list[Point]:
        """A point, in a list."""
        more = {"effort": protocol.LIVE, "recorded": self.note, "params": tiles}
        return [point(self.session, self.telemetry, kernel, size, **more)]  # type: ignore[arg-type]

    def overlapped(self, kernel: Kernel | str, size: Size, _: object) -> list[Overlapped]:
        """Every variant of one product."""
        effort = overlapping.LIVE
        return overlapping.entries(self.session, kernel, size, recorded=self.note, effort=effort)


_MEASURE: Mapping[type, Callable[..., list[Any]]] = {Point: _Now.point, Overlapped: _Now.overlapped}


@dataclass(frozen=True)
class Measured:
    """This machine's GPU."""

    session: Session

    def take(self, kind: type[E], wanted: Sequence[Selected], sizes: Sequence[Size]) -> Taken[E]:
        """Entries measured now.

        Raises ConfigError if this GPU can run none of it, ImplausibleError if a result is wrong.
        """
        note = stamp(self.session.versions(), commit())
        measured: dict[Cell, list[E]] = {}
        refused: dict[Cell, str] = {}
        missing, fault = [], None
        with Telemetry(self.session.bus_id) as telemetry:
            now = _Now(self.session, telemetry, note)
            # Sizes outside: the operands of a size serve every kernel.
            for size, (kernel, name, tiles) in itertools.product(sizes, wanted):
                cell = _cell(name, tiles, size)
                try:
                    measured[cell] = _MEASURE[kind](now, kernel, size, tiles)
                except ConfigError as refusal:  # a newer GPU's instruction, or too large for it
                    fault, refused[cell] = refusal, str(refusal)
                    missing.append(f"{name} at {shape(size)} ({refusal})")
        if fault is not None and not measured:
            raise fault
        keys = [_cell(name, tiles, size) for _, name, tiles in wanted for size in sizes]
        entries = tuple(entry for key in keys for entry in measured.get(key, ()))
        gpu = self.session.gpu
        label = store.label(gpu.name, entries, verb="measured now on")
        key = gpu.known.key if gpu.known else gpu.name
        facts = gpu_facts(self.session)
        return Taken(True, gpu.name, key, label, entries, tuple(missing), refused, facts)


# -- which of them ---------------------------------------------------------------------------------


def source(gpu: str | None, wanted: Sequence[Selected] = ()) -> tuple[Source, str]:
    """This machine's GPU, or a record: where there is no GPU, where gpu names a record, and, with
    the reason in words, where the GPU can run none of the kernels or lacks what measuring needs.
    Raises UnknownNameError, DataError."""
    live = device.current() if gpu is None else None
    if live is None:
        return Recorded(store.load(gpu or DEFAULT_GPU)), ""
    needs = [(f"{name} (needs {_needs(k, name)})", _needs(k, name)) for k, name, _ in wanted]
    unfit = dict.fromkeys(words for words, arch in needs if not runs(live.arch, arch))
    if not wanted or len(unfit) < len({name for _, name, _ in wanted}):
        try:
            return Measured(_session()), ""
        except ToolchainError as misfit:  # no cuBLAS, or no compiler that the driver goes with
            why = f"not measured on this {live.name}: {misfit}"
            return Recorded(store.load(DEFAULT_GPU), why), why
    why = f"this {live.name} ({live.arch}) cannot run {', '.join(unfit)}"
    return Recorded(store.load(DEFAULT_GPU)), why


def _needs(kernel: str | Kernel, name: str) -> str:
    """The architecture that a kernel or a baseline needs."""
    return BASELINES[name].min_arch if name in BASELINES else find(kernel).min_arch


def measure(
    kernels: str | Kernel | Sequence[str | Kernel],
    sizes: int | Size | list[int] | list[Size] | list[int | Size],
    *,
    gpu: str | None = None,
    **params: int,
) -> Measurement:
    """Times of one or more kernels at one or more sizes.

    With a GPU on this machine they are measured now; elsewhere, or when gpu names a record such as
    "h200", they are replayed. What this GPU cannot run (a kernel that needs a newer one, a size
    that its memory does not hold) is replayed beside the rest from the record of DEFAULT_GPU: each
    row says which GPU it is from, and the label says why. kernels: names of the catalog, Kernels,
    or baselines such as "cublas_fp32". sizes: edges, or (M, N, K). params override tile sizes. What
    is neither measured nor recorded is a row of NaN and named in `missing`. Raises
    UnknownKernelError, ConfigError, UnknownNameError (gpu), DataError if the record has none of
    what was asked for.
    """
    wanted = select(kernels, params)
    shapes = [size_of(s) for s in sizes] if isinstance(sizes, list) else [size_of(sizes)]
    if not wanted or not shapes:
        raise ConfigError("measure needs at least one kernel and one size")
    chosen, why = source(gpu, wanted)
    if isinstance(chosen, Recorded):
        replayed = _replayed(chosen.take(Point, wanted, shapes), wanted, shapes)
        return replace(replayed, label=f"{replayed.label}; {why}") if why else replayed
    beside = _beside(wanted, shapes)
    try:
        return _measured(chosen.take(Point, wanted, shapes), beside, wanted, shapes)
    except ConfigError as refusal:  # nothing of it fits this GPU
        if beside is None:
            raise
        return replace(beside, label=f"{beside.label}; {refusal}")


def _index(taken: Taken[Point]) -> dict[Cell, Point]:
    return {_cell(p.kernel, p.params, p.size): p for p in taken.entries}


def _replayed(
    taken: Taken[Point], wanted: Sequence[Selected], sizes: Sequence[Size]
) -> Measurement:
    by, rows = _index(taken), []
    for _, name, tiles in wanted:
        for size in sizes:
            entry = by.get(_cell(name, tiles, size))
            rows.append(row_of(entry, taken.gpu, taken.key) if entry else gap(name, size))
    return Measurement(False, taken.gpu, taken.key, taken.label, tuple(rows), taken.missing)


def _measured(
    taken: Taken[Point],
    beside: Measurement | None,
    wanted: Sequence[Selected],
    sizes: Sequence[Size],
) -> Measurement:
    """What was measured now, with the record's rows where this GPU could not measure."""
    by, rows, missing = _index(taken), [], []
    instead: dict[str, list[str]] = {}
    old = iter(beside.rows if beside else ())
    for kernel, name, tiles in wanted:
        for size in sizes:
            recorded = next(old, None)
            entry = by.get(_cell(name, tiles, size))
            why = taken.refused.get(_cell(name, tiles, size), "")
            if entry is not None:
                rows.append(row_of(entry, taken.gpu))
            elif recorded is not None and math.isfinite(recorded["ms"]):
                rows.append(recorded)
                needed, arch = _needs(kernel, name), taken.facts.get("arch", "")
                if arch and not runs(arch, needed):
                    here = f"{needed} is needed and this {taken.gpu} is {arch}"
                    names = instead.setdefault(here, [])
                    names += [] if name in names else [name]
                else:
                    instead.setdefault(why, []).append(f"{name} at {shape(size)}")
            else:
                rows.append(gap(name, size))
                missing.append(f"{name} at {shape(size)}" + (f" ({why})" if why else ""))
    origin = f"the record of the {beside.gpu}" if beside else ""
    replayed = tuple(
        f"{', '.join(names)} replayed from {origin}, since {why}" for why, names in instead.items()
    )
    untold = dict.fromkeys(e.clock_note for e in taken.entries if e.clock_mhz is None)
    unread = [f"no SM clock was read: {'; '.join(filter(None, untold))}"] if any(untold) else []
    return Measurement(
        True, taken.gpu, taken.key, "; ".join([taken.label, *unread, *replayed]), tuple(rows),
        tuple(missing), beside, replayed, taken.entries, taken.facts,
    )  # fmt: skip


def _beside(wanted: Sequence[Selected], sizes: Sequence[Size]) -> Measurement | None:
    """What the record holds of the same; None where it holds nothing of it."""
    try:
        taken = Recorded(store.load(DEFAULT_GPU)).take(Point, wanted, sizes)
    except (DataError, UnknownNameError):  # none of it, or no record at all
        return None
    return _replayed(taken, wanted, sizes)


def overlap(
    kernels: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    *,
    gpu: str | None = None,
) -> Rows:
    """Products from host arrays to host result, serial and in row panels over several streams.

    With a GPU on this machine they are measured now (kernels: default overlapping.KERNELS; sizes:
    edges, default 2048); elsewhere, or when gpu names a record such as "h200", they are replayed,
    by default all of them. Rows with kernel, how, memory, panels, streams (see streams.Variant), m,
    n, k, ms, q1, q3, speedup (over the serial run from pageable memory, paired), pin_ms, and
    timeline (see streams.operations). Raises UnknownNameError for gpu, DataError if none was
    recorded.
    """
    wanted = select(kernels or overlapping.KERNELS, {})
    chosen, _ = source(gpu, wanted)
    edges = list(sizes or (2048,))
    if isinstance(chosen, Recorded):
        recorded = chosen.record.of(Overlapped)
        wanted = select(kernels or list(dict.fromkeys(e.kernel for e in recorded)), {})
        edges = list(sizes or dict.fromkeys(e.m for e in recorded))
    taken = chosen.take(Overlapped, wanted, [(n, n, n) for n in edges])
    return Rows(taken.gpu, taken.label, taken.entries, taken.live)


def live_ladder(size: int | Size) -> list[dict[str, Any]]:
    """The ladder measured now on this machine's GPU; the rows of `ladder`. Raises NoGPUError."""
    session = _session()
    wanted: list[Selected] = [
        (catalog[name] if name in catalog else name, name, {})
        for name in runnable_names(session.supports)
    ]
    wanted.sort(key=lambda w: isinstance(w[0], str))  # the catalog first, then cuBLAS
    measured = Measured(session).take(Point, wanted, [size_of(size)])
    return [rung(session.gpu.name, p) for p in measured.entries]
