"""What is recorded of the times of a kernel's tiles, at one size."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helpers.ladder.kernel import Kernel
from helpers.ladder.rungs import catalog, fingerprint
from helpers.record.store import label, load
from helpers.record.tiles import SIZE
from nogpu.errors import UnknownNameError

Key = tuple[int, ...]
"""The sizes of a tile, in the order of the kernel's parameters."""


@dataclass(frozen=True)
class Times:
    """Recorded milliseconds by tile, and where they come from. swept: all tiles were timed."""

    ms: Mapping[Key, float]
    label: str
    swept: bool


def times(kernel: Kernel, gpu: str) -> Times:
    """Recorded times of a kernel's tiles at 4096: from the sweep where there is one.

    Entries of the catalog that are the same code with other tiles (tiled_8, tiled_16, tiled_32)
    share their times. A time of other code than the file now holds is left out.
    """
    try:
        record = load(gpu)
    except UnknownNameError:
        return Times({}, "", False)
    size = dict(zip("mnk", SIZE, strict=True))
    source = fingerprint(kernel)
    same = [k.name for k in catalog.values() if k.file == kernel.file and fingerprint(k) == source]

    def key(entry: Mapping[str, Any]) -> Key:
        return tuple(entry["params"][name] for name in kernel.params)

    entries = [
        e
        for section in ("points", "sweep", "tuned")  # a later section's time replaces an earlier
        for name in same
        for e in record.find(section, kernel=name, **size)
        if e["source"] == source and e["ms"] is not None and set(e["params"]) == set(kernel.params)
    ]
    swept = any(e["source"] == source for e in record.find("sweep", kernel=kernel.name, **size))
    note = label(record.gpu["name"], entries) if entries else ""
    return Times({key(e): e["ms"] for e in entries}, note, swept)
