"""What the compiler says of every legal tile: data/tiles.json, made without a GPU.

Registers, spills and shared memory by architecture, for the tile explorer and for the sweep's reader.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import cache
from pathlib import Path
from typing import Any

from helpers.device import LIMITS
from helpers.errors import DataError, UnknownNameError, near_matches
from helpers.kernel import ROOT, Kernel
from helpers.measuring import sweep
from helpers.measuring.point import fingerprint
from helpers.rungs import find

PATH = ROOT / "data" / "tiles.json"
SIZE = (4096, 4096, 4096)
Report = tuple[int, int, int]
"""Registers a thread, bytes of spills (stores and loads), bytes of shared memory a block."""


def tile_key(tile: Mapping[str, int]) -> str:
    """ "128,128,8,8,8": the sizes in the order of the kernel's parameters."""
    return ",".join(str(value) for value in tile.values())


def read(path: Path = PATH) -> dict[str, Any]:
    """The file, or an empty one. {kernel: {"source": fingerprint, arch: {tile_key: Report}}}."""
    if not path.exists():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    except (json.JSONDecodeError, UnicodeDecodeError) as fault:
        raise DataError(
            f"{path} is damaged ({fault}). Make it again: python -m helpers sweep --compile sm_90"
        ) from fault


@cache
def _read_once(path: Path, _changed: float) -> dict[str, Any]:
    return read(path)


def reports(kernel: Kernel | str, arch: str) -> dict[str, Report]:
    """What is known of a kernel's tiles on an architecture; empty where its code has changed since."""
    k = find(kernel)
    data = _read_once(PATH, PATH.stat().st_mtime if PATH.exists() else 0.0)
    entry = data.get(k.name, {})
    if entry.get("source") != fingerprint(k):
        return {}
    return {key: (r, s, b) for key, (r, s, b) in entry.get(arch, {}).items()}


def _write(data: Mapping[str, Any], path: Path) -> None:
    lines = []
    for name, entry in sorted(data.items()):
        inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(v)}" for key, v in entry.items())
        lines.append(f"{json.dumps(name)}: {{\n{inner}\n}}")
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def compile_tiles(
    kernels: Sequence[str],
    archs: Sequence[str],
    say: Callable[[str], None] = print,
    *,
    workers: int = 1,
    path: Path = PATH,
    pool: Callable[[int], Executor] = sweep._pool,
) -> int:
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
    for name in sweep.chosen_kernels(kernels):
        source = fingerprint(name)
        if data.get(name, {}).get("source") != source:
            data[name] = {"source": source}
        for arch in archs:
            known = data[name].setdefault(arch, {})
            jobs += [
                (arch, name, tile)
                for tile in sweep.legal_tiles(name, SIZE)
                if tile_key(tile) not in known
            ]
    with pool(workers) as executor:
        try:
            for arch in archs:
                mine = [(name, tile) for a, name, tile in jobs if a == arch]
                for name, tile, built in sweep._ahead(mine, arch, SIZE, executor, 4 * workers):
                    data[name][arch][tile_key(tile)] = [
                        built.registers,
                        built.spill_bytes,
                        built.shared_bytes,
                    ]
                    done += 1
                    if time.monotonic() - wrote > sweep.WRITE_EVERY:
                        _write(data, path)
                        wrote = time.monotonic()
                        say(f"{done} of {len(jobs)} tiles compiled, now {name} for {arch}")
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            _write(data, path)
    return done
