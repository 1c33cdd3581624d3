"""Every legal tile compiled, ahead of what waits for it: for a sweep, and for data/tiles.json.

Compiling runs in other processes and needs no GPU.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.ladder import model, rungs
from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog, find
from helpers.record.store import Size
from helpers.record.tiles import PATH, SIZE, Params, legal_tiles, read, tile_key
from nogpu import device, toolchain
from nogpu.device import LIMITS
from nogpu.disk import replace_file
from nogpu.errors import ConfigError, TileError, UnknownNameError, near_matches

KERNELS = ("tiled_32", "block_1d", "block_2d", "vectorised", "warp_tiled")
"""What is compiled and swept where no kernel is named: those of them that the catalog has."""
MOST_SUMS = 224
"""Sums that a thread can keep: 255 registers less those for addresses and fragments."""
MOST_SPILLS = 256
"""Bytes of spills, stores and loads together, from which on a tile is not timed."""
WRITE_EVERY = 5.0
"""Seconds between two writes of the file; it is written at the end, too."""


def chosen_kernels(wanted: Sequence[str]) -> list[str]:
    """The kernels to sweep.

    Raises UnknownKernelError, or ConfigError for one without tile choices.
    """
    names = list(wanted) or [name for name in KERNELS if name in catalog]
    for name in names:
        if not catalog[name].choices or catalog[name].host != "plain":
            raise ConfigError(f"{name} has no tile sizes to choose from: there is nothing to sweep")
    return names


# -- compiling -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Built:
    """One compiled tile. reason: why it is not timed, or "". Bytes for spills and shared memory."""

    registers: int = 0
    spill_bytes: int = 0
    shared_bytes: int = 0
    blocks_per_sm: int = 0
    cubin: bytes = b""
    reason: str = ""


def build(name: str, tile: Params, arch: str, size: Size) -> Built:
    """Compile one tile and say whether it is worth timing. Runs in a worker process."""
    k = find(name)
    if tile.get("TM", 1) * tile.get("TN", 1) > MOST_SUMS:
        return Built(reason="a thread's TM x TN sums do not fit in 255 registers")
    p = geometry(k, *size, **tile)
    try:
        compiled = toolchain.compile(k.source, name=k.file, arch=arch, defines=p.defines)
        r = compiled.kernels[k.entry]
    except TileError as fault:
        return Built(reason=" ".join(str(fault).split())[:300])
    spilled, shared = r.spill_stores + r.spill_loads, r.shared_bytes + p.shared_bytes
    try:
        blocks = model.occupancy(device.limits(arch), p.threads, r.registers, shared).blocks
    except ConfigError as fault:
        return Built(r.registers, spilled, shared, reason=str(fault))
    why = f"{spilled} bytes of spills: registers do not hold the tile"
    why = why if spilled > MOST_SPILLS else ""
    return Built(r.registers, spilled, shared, blocks, b"" if why else compiled.cubin, why)


def workers(wanted: int | None) -> int:
    """How many compiling processes: as asked, or the cores less one, at most 15."""
    return wanted or max(1, min(15, (os.cpu_count() or 2) - 1))


def pool(count: int) -> Executor:
    """Processes that compile."""
    # Spawned, not forked: a forked child would inherit the CUDA context of this process.
    spawn = multiprocessing.get_context("spawn")
    # A compiling process gives way to the one that queues launches.
    return ProcessPoolExecutor(count, mp_context=spawn, initializer=os.nice, initargs=(10,))


def ahead(
    jobs: Sequence[tuple[str, Params]], arch: str, size: Size, compilers: Executor, depth: int
) -> Generator[tuple[str, Params, Built], None, None]:
    """Each job with its compiled tile, in order; `depth` of them are being compiled ahead."""
    waiting: deque[tuple[str, Params, Future[Built]]] = deque()
    rest = iter(jobs)
    try:
        while True:
            for name, tile in itertools.islice(rest, depth - len(waiting)):
                waiting.append((name, tile, compilers.submit(build, name, tile, arch, size)))
            if not waiting:
                return
            name, tile, future = waiting.popleft()
            yield name, tile, future.result()
    finally:
        for *_, future in waiting:
            future.cancel()


def _write(data: Mapping[str, Any], path: Path) -> None:
    lines = []
    for name, entry in sorted(data.items()):
        inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(v)}" for key, v in entry.items())
        lines.append(f"{json.dumps(name)}: {{\n{inner}\n}}")
    replace_file(path, "{\n" + ",\n".join(lines) + "\n}\n")


def compile_tiles(
    kernels: Sequence[str], archs: Sequence[str], say: Callable[[str], None] = print, *,
    workers: int = 1, path: Path = PATH, compilers: Callable[[int], Executor] = pool,
) -> int:  # fmt: skip
    """Compile every legal tile of these kernels for these architectures; how many were compiled.

    What is in the file for the same code stays. A tile that cannot be compiled or launched has 0
    registers. Raises UnknownKernelError, UnknownNameError for an architecture, ConfigError.
    """
    for arch in archs:
        if arch not in LIMITS:
            raise UnknownNameError(
                f"no limits are known for {arch!r}. {near_matches(arch, LIMITS)}"
            )
    data, done, wrote = read(path), 0, time.monotonic()
    jobs = []
    for name in chosen_kernels(kernels):
        source = rungs.fingerprint(name)
        if data.get(name, {}).get("source") != source:
            data[name] = {"source": source}
        for arch in archs:
            known = data[name].setdefault(arch, {})
            legal = (tile for tile in legal_tiles(name, SIZE) if tile_key(tile) not in known)
            jobs += [(arch, name, tile) for tile in legal]
    with compilers(workers) as executor:
        try:
            for arch in archs:
                mine = [(name, tile) for a, name, tile in jobs if a == arch]
                for name, tile, built in ahead(mine, arch, SIZE, executor, 4 * workers):
                    figures = [built.registers, built.spill_bytes, built.shared_bytes]
                    data[name][arch][tile_key(tile)] = figures
                    done += 1
                    if time.monotonic() - wrote > WRITE_EVERY:
                        _write(data, path)
                        wrote = time.monotonic()
                        say(f"{done} of {len(jobs)} tiles compiled, now {name} for {arch}")
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            _write(data, path)
    return done
