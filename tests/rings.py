"""Which tests run when: the push ring with every `make test`, the day ring and the week ring by
their commands.

A ring runs what the smaller ones run, too. The push ring and the day ring give each test, all its
cases together, no more than `BUDGET` seconds: of a test that takes longer they run every so many
cases, and the commit says which, so that another commit tries others. How long a case takes stands
in seconds.json, which `make test-week` writes anew. Tests that are named on the command line run
always.
"""

from __future__ import annotations

import json
import subprocess
from math import inf
from pathlib import Path
from zlib import crc32

RINGS = ("push", "day", "week")

BUDGET = {"push": 2.0, "day": 40.0}
"""Seconds that a ring gives a test, on one core of an idle machine."""

SECONDS = Path(__file__).with_name("seconds.json")

WORTH_A_LINE = 0.1
"""Seconds a case: a test that takes less is not in seconds.json, and all of it runs always."""

LATER = {
    "packages/labs/tests/test_classroom.py::"
    "test_a_class_of_twenty_beside_hostile_neighbours": "day",
    "packages/labs/tests/test_clusters.py": "day",
    "packages/labs/tests/test_grade_extra.py": "day",
    "tests/test_build.py::test_what_is_executed_again": "day",
    "tests/test_clang_against_nvrtc.py": "week",
    "tests/test_colab.py": "day",
    "tests/test_compiler_counts.py": "week",
    "tests/test_costs.py::test_no_recorded_point_beats_its_bound": "day",
    "tests/test_hopper_kernels.py::test_bytes_and_wavefronts_are_those_that_ncu_counts": "day",
    "tests/test_jupyterlab.py": "day",
    "tests/test_mutants_sanitizer.py": "week",
    "tests/test_page_runs.py": "day",
    "tests/test_pretended.py": "day",
    "tests/test_rename.py::test_a_renamed_rung_is_the_same_and_can_be_named_back": "day",
    "tests/test_rename.py::test_where_the_renamed_book_does_not_load_nothing_changes": "day",
}
"""The smallest ring that runs a whole file, or one of its tests (file::test), if not the push ring.
"""


def test_of(nodeid):
    """The test (file::test) that a case belongs to, without its parameters and its group."""
    return nodeid.split("[")[0].split("@")[0]


def drawn(nodeids, ring, commit, seconds):
    """Those of all cases that a ring runs.

    commit: any number; where every nth case is drawn, n numbers that follow each other draw each
    once. seconds: how long a case of a test takes; 0 for what is not named.
    """
    cases: dict[str, list[str]] = {}
    for nodeid in nodeids:
        cases.setdefault(test_of(nodeid), []).append(nodeid)
    runs: set[str] = set()
    for name, own in cases.items():
        later = LATER.get(name) or LATER.get(name.split("::")[0])
        if later and RINGS.index(later) > RINGS.index(ring):
            continue
        budget = BUDGET.get(ring, inf) if later != ring else inf
        of = 1
        while len(own) * seconds.get(name, 0.0) / of > budget:
            of *= 2  # so that what a ring draws is drawn by the larger ones, too
        first = crc32(name.encode()) + commit
        runs.update(case for i, case in enumerate(own) if (first + i) % of == 0)
    return runs


def seconds():
    """Of each test (file::test) that takes long enough to matter: seconds a case."""
    return json.loads(SECONDS.read_text(encoding="utf-8"))


def write(measured):
    """Write seconds.json anew where tests were measured: their seconds, case by case; without those
    that are gone."""
    known = seconds() if SECONDS.is_file() else {}
    for name, each in measured.items():
        times = list(each)
        known[name] = round(sum(times) / len(times), 2)
    kept = {n: s for n, s in sorted(known.items()) if s >= WORTH_A_LINE and _is_there(n)}
    SECONDS.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")


def _is_there(name):
    """Whether the file of a test (file::test) defines it."""
    file, test = name.split("::")
    path = SECONDS.parents[1] / file
    return path.is_file() and f"def {test}(" in path.read_text(encoding="utf-8")


def commit(root):
    """A number that follows from the commit that is checked out; 0 where there is no git."""
    try:
        command = ["git", "rev-parse", "HEAD"]
        given = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
        return int(given.stdout[:12], 16)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 0
