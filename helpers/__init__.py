"""Tile by Tile: what the chapters import. NumPy is all that importing this needs.

Comes in: kernels/*.cu and data/. Goes out: products, counts, times, pictures and cells for
book/*.md.
Read first: ladder/kernel.py (what a rung is), record/measurement.py (what a time is),
page/__init__.py.

Folders, each importing only those before it: `ladder`, `record`, `draw`, `notebook`, `page`,
`chapters`.
Below them lie `nogpu` (the emulator and the compilers) and beside them `tilelabs` (judging a
class), in packages/.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_PACKAGES = Path(__file__).resolve().parent.parent / "packages"
if _PACKAGES.is_dir():  # a checkout: its own packages, installed or not
    sys.path[:0] = [str(p) for p in sorted(_PACKAGES.iterdir()) if str(p) not in sys.path]

from helpers.ladder import model  # noqa: E402
from helpers.ladder.kernel import Kernel  # noqa: E402
from helpers.ladder.launch import matmul, trace  # noqa: E402
from helpers.ladder.rungs import catalog  # noqa: E402
from helpers.ladder.usage import instruction_mix, resources  # noqa: E402
from helpers.record.plans import Plan, choose, plan  # noqa: E402
from nogpu import device  # noqa: E402

_PARTS = {
    "streams": "helpers.ladder.streams", "hopper": "helpers.ladder.hopper",
    "fitting": "helpers.ladder.fitting", "cuts": "helpers.ladder.cuts",
    "choosing": "helpers.ladder.choosing", "costs": "helpers.record.costs",
    "emulator": "helpers.emulator", "explorers": "helpers.page.explorers",
    "launch": "helpers.ladder.launch", "live": "helpers.page.live",
    "numbers": "helpers.ladder.numbers", "plots": "helpers.draw", "toolchain": "nogpu.toolchain",
    "workbench": "helpers.page.workbench",
}  # fmt: skip
"""Modules that a page takes from here, imported when it does: `from helpers import plots`."""

__all__ = [
    "Kernel", "Plan", "catalog", "choose", "device", "instruction_mix", "matmul", "model", "plan",
    "resources", "trace",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PARTS:
        raise AttributeError(f"module 'helpers' has no attribute {name!r}")
    return import_module(_PARTS[name])
