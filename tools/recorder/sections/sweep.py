"""Section "sweep": the time of every legal tile of a kernel at one size.

The catalog says which tiles are legal, the compiler which fit; the best by a simple prediction come
first, so that a sweep cut short has timed those. Compiling runs in other processes, ahead of
timing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial

import numpy as np

from helpers.ladder import rungs
from helpers.ladder.kernel import geometry
from helpers.ladder.model import merit
from helpers.ladder.rungs import catalog
from helpers.record import protocol
from helpers.record.entries import Swept
from helpers.record.gpu import Session
from helpers.record.store import Size, named
from helpers.record.tiles import legal_tiles, words
from helpers.record.trials import Trial, of_plan, trial, yardstick
from nogpu import device
from nogpu.errors import TileError
from tools.recorder import tile_builds
from tools.recorder.steps import MATRIX, Done, Job, Section, Step
from tools.recorder.tile_builds import Built, chosen_kernels

EFFORT = protocol.Effort(
    pairs=5, max_pairs=15, seconds=0.04, warm_ms=12.0, slow_ms=40.0, slow_pairs=3
)
"""What one tile may take: there are hundreds. The best are told apart by more than its spread."""
REPEAT = 0.05
"""What a tile falls back in the order for each tile before it that has the same merit."""
compilers: Callable[[int], Executor] = tile_builds.pool
"""What compiles the tiles, so many at a time."""


def order(
    kernels: Sequence[str], size: Size, gpu: device.Gpu, limit: int | None = None
) -> list[tuple[str, dict[str, int]]]:
    """Tiles of several kernels, best predicted first, the kernels in turn; defaults before all.

    `merit` cannot tell some tiles apart (stages, the depth of a tile). Of those that share a merit
    the nearest to the default comes first, and each further one waits for tiles that are REPEAT
    worse, so that a limit does not fill up with variants of one shape.
    """
    ranked: list[tuple[float, str, dict[str, int]]] = []
    for name in kernels:
        default = dict(catalog[name].params)
        groups: dict[float, list[dict[str, int]]] = {}
        for tile in legal_tiles(name, size):
            groups.setdefault(round(merit(name, size, gpu, tile), 9), []).append(tile)
        scored = [
            (value * (1 - REPEAT) ** i, tile)
            for value, group in groups.items()
            for i, tile in enumerate(sorted(group, key=lambda t: _changes(t, default)))
        ]
        scored.sort(key=lambda row: -row[0])
        tiles = [default, *(tile for _, tile in scored if tile != default)][:limit]
        ranked += [(i / len(tiles), name, tile) for i, tile in enumerate(tiles)]
    ranked.sort(key=lambda row: row[0])
    return [(name, tile) for _, name, tile in ranked]


def _changes(tile: Mapping[str, int], default: Mapping[str, int]) -> int:
    return sum(default[name] != value for name, value in tile.items())


def time_tile(
    session: Session, name: str, tile: Mapping[str, int], size: Size, cubin: bytes,
    rng: np.random.Generator,
) -> Trial:  # fmt: skip
    """Check and time one compiled tile, "kernel", beside cuBLAS.

    Raises ImplausibleError if the result is wrong or the rate impossible, ConfigError if it cannot
    be launched.
    """
    p, what = geometry(catalog[name], *size, **tile), f"{name} with {words(tile)}"
    with session.faults(what):
        contenders = {"kernel": of_plan(p, what, cubin=cubin), **yardstick(session, p, what)}
        return trial(session, size, contenders, EFFORT, rng)


# -- what a file lacks -----------------------------------------------------------------------------


def _todo(job: Job, chosen: Sequence[str], size: Size) -> list[tuple[str, dict[str, int]]]:
    """The tiles still to time: those in the file, timed or pruned with the same code, are not."""
    have = {e.about: e.source for e in job.record.of(Swept)}
    sources = {name: rungs.fingerprint(name) for name in chosen}
    limit = None if job.request.limit is None else int(job.request.limit)
    todo = []
    for name, tile in order(chosen, size, job.session.gpu.known or device.gpu("h200"), limit):
        about = Swept.key_of(kernel=name, params=tile, **named(size))
        if not job.request.again and have.get(about) == sources[name]:
            job.outcome.present += 1
        else:
            todo.append((name, tile))
    return todo


def lacking(job: Job) -> Iterator[Step]:
    """A step for each tile; when there is no time for one, none follows."""
    chosen, (size, *_) = chosen_kernels(job.request.kernels), job.wanted((MATRIX,))
    jobs, count = _todo(job, chosen, size), tile_builds.workers(job.request.workers)
    job.say(
        f"{len(jobs)} tiles of {', '.join(chosen)} to compile and time, {job.outcome.present} there"
        f" already; {count} compiling processes"
    )
    rng, began = np.random.default_rng(), time.monotonic()
    with compilers(count) as executor:
        job.session.warm_up()
        ahead = tile_builds.ahead(jobs, job.session.gpu.arch, size, executor, 6 * count)
        try:
            for done, (name, tile, built) in enumerate(ahead):
                each = (time.monotonic() - began) / max(1, done)
                head = f"[{done + 1:4d}/{len(jobs)}] {name:12s} {words(tile):44s}"
                to_go = f"  {each * (len(jobs) - done - 1):4.0f} s to go"
                run = partial(_measure, job, name, tile, size, built, rng, to_go)
                rest = partial(_texts, jobs[done:])
                yield Step(f"{name} with {words(tile)}", 2 * each + 1, run, head, rest)
        finally:
            ahead.close()
            executor.shutdown(wait=False, cancel_futures=True)
            for line in summary(job.record.of(Swept), chosen, size):
                job.say(line)


def _texts(jobs: Sequence[tuple[str, Mapping[str, int]]]) -> list[str]:
    return [f"{name} with {words(tile)}" for name, tile in jobs]


def _measure(
    job: Job, name: str, tile: Mapping[str, int], size: Size, built: Built,
    rng: np.random.Generator, to_go: str,
) -> Done:  # fmt: skip
    """Time one tile into the record, or note why it was not timed."""

    def keep(timed: Trial | None, why: str = "") -> Swept:
        ms = timed.ms["kernel"] if timed else None
        ratio = timed.ratio("kernel", "baseline") if timed else None
        entry = Swept(
            name, dict(tile), *size, **protocol.fields(ms),
            gflops=timed.rates["kernel"] if timed else None,
            pairs=ms.count if ms else None, cublas_ratio=ratio.median if ratio else None,
            registers=built.registers, spill_bytes=built.spill_bytes,
            shared_bytes=built.shared_bytes, blocks_per_sm=built.blocks_per_sm, reason=why or None,
            source=rungs.fingerprint(name), recorded=dict(job.stamp),
        )  # fmt: skip
        job.record.merge(entry)
        return entry

    if built.reason:
        keep(None, built.reason)
        return Done(f"not timed: {built.reason[:80]}{to_go}", "pruned")
    try:
        entry = keep(time_tile(job.session, name, tile, size, built.cubin, rng))
    except TileError as fault:
        keep(None, " ".join(str(fault).split()))
        raise
    text = f"{entry.ms:9.4g} ms {(entry.gflops or 0.0) / 1e3:6.2f} TFLOP/s"
    if entry.cublas_ratio is not None:
        text += f" {100 * entry.cublas_ratio:5.1f} % of cuBLAS"
    return Done(text + to_go)


SECTIONS = (Section(Swept, lacking, rank=60, write_every=5.0),)


# -- the best of them ------------------------------------------------------------------------------


def summary(entries: Sequence[Swept], kernels: Sequence[str], size: Size) -> list[str]:
    """One line a kernel: its best tile, and the gain over its default tile."""
    lines = []
    for name in kernels:
        default, best = default_and_best(entries, name, size)
        if best is None or best.ms is None:
            lines.append(f"{name}: no tile timed")
            continue
        gain = f", {default.ms / best.ms:.3f} times the default" if default and default.ms else ""
        lines.append(f"{name}: best {words(best.params)}, {best.ms:.4g} ms{gain}")
    return lines


def timed(entries: Sequence[Swept], name: str, size: Size) -> list[Swept]:
    """The entries of a kernel at a size that have a time, the fastest first."""
    with_time = [e for e in entries if e.kernel == name and e.size == tuple(size) and e.ms]
    return sorted(with_time, key=lambda e: e.ms or 0.0)


def default_and_best(
    entries: Sequence[Swept], name: str, size: Size
) -> tuple[Swept | None, Swept | None]:
    """The timed entries of a kernel's default tile and of its fastest; None where not timed."""
    entries_timed = timed(entries, name, size)
    default = next((e for e in entries_timed if e.params == dict(catalog[name].params)), None)
    return default, entries_timed[0] if entries_timed else None
