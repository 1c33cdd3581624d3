"""Which tests run when: the push ring with every `make test`, the day ring and the week ring by their commands.

A ring runs what the smaller ones run, too. The push ring takes a slice of each large product of cases; the commit
says which, so that another commit tries others. Tests that are named on the command line run always.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from zlib import crc32

RINGS = ("push", "day", "week")

LATER = {
    "tests/test_clang_against_nvrtc.py": "week",
    "tests/test_compiler_counts.py": "week",
    "tests/test_mutants_sanitizer.py": "week",
    "tests/test_pretended.py": "day",
}
"""The smallest ring that runs a whole file, or one of its tests (file::test), if not the push ring."""

SLICES = {
    "packages/labs/tests/test_exploits.py": 4,
    "packages/labs/tests/test_labs.py": 8,
    "tests/test_counts_vs_hardware.py": 8,
    "tests/test_hopper_kernels.py": 4,
    "tests/test_kernels.py": 4,
}
"""Of so many tests of a file, or cases of a test (file::test), the push ring runs one."""


def place(nodeid: str, table: dict[str, object]) -> str:
    """The name under which this test stands in a table: its own, or its file's; "" if it stands there not at all."""
    name = nodeid.split("[")[0]
    return next((one for one in (name, name.split("::")[0]) if one in table), "")


def runs(nodeid: str, ring: str, commit: int) -> bool:
    """Whether a ring runs a test. commit: any number; n that follow each other draw all of a slice of n."""
    later = LATER.get(place(nodeid, dict(LATER)), "push")
    if RINGS.index(later) > RINGS.index(ring):
        return False
    of = SLICES.get(place(nodeid, dict(SLICES)), 1) if ring == "push" else 1
    return (crc32(nodeid.encode()) + commit) % of == 0


def commit(root: Path) -> int:
    """A number that follows from the commit that is checked out; 0 where there is no git."""
    try:
        asked = ["git", "rev-parse", "HEAD"]
        given = subprocess.run(asked, cwd=root, capture_output=True, text=True, check=True)
        return int(given.stdout[:12], 16)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 0
