"""The legal tiles of a kernel, and what the compiler says of them: data/tiles.json.

Registers, spills and shared memory by architecture; `python -m helpers sweep --compile` makes it.
"""

import itertools
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from helpers.ladder import rungs
from helpers.ladder.kernel import ROOT, Kernel, broken_rules
from helpers.ladder.rungs import find
from helpers.record.store import Size
from nogpu.errors import DataError

PATH = ROOT / "data" / "tiles.json"
SIZE: Size = (4096, 4096, 4096)
Params = dict[str, int]
Report = tuple[int, int, int]
"""Registers a thread, bytes of spills (stores and loads), bytes of shared memory a block."""


# -- legal tiles -----------------------------------------------------------------------------------


def legal_tiles(kernel: Kernel | str, size: Size = SIZE) -> list[Params]:
    """Every combination of the catalog's choices that its rules and a block's threads allow."""
    k = find(kernel)
    every = itertools.product(*k.choices.values())
    tiles = [{**k.params, **dict(zip(k.choices, values, strict=True))} for values in every]
    return [tile for tile in tiles if not broken_rules(k, *size, **tile)]


def words(tile: Mapping[str, int]) -> str:
    """A tile in a line: "BM=64 BN=64"."""
    return " ".join(f"{name}={value}" for name, value in tile.items())


# -- the file --------------------------------------------------------------------------------------


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
    """What is known of a kernel's tiles on an architecture; none where its code has changed."""
    k = find(kernel)
    data = _read_once(PATH, PATH.stat().st_mtime if PATH.exists() else 0.0)
    entry = data.get(k.name, {})
    if entry.get("source") != rungs.fingerprint(k):
        return {}
    return {key: (r, s, b) for key, (r, s, b) in entry.get(arch, {}).items()}
