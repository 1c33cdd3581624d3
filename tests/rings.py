"""Which tests run when: the push ring with every `make test`, the day ring and the week ring by
their commands.

A ring runs what the smaller ones run, too. The push ring takes a slice of each large product of
cases; the commit says which, so that another commit tries others. Tests that are named on the
command line run always.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

RINGS = ("push", "day", "week")

LATER = {
    "packages/labs/tests/test_classroom.py::"
    "test_a_class_of_twenty_beside_hostile_neighbours": "day",
    "packages/labs/tests/test_clusters.py": "day",
    "packages/labs/tests/test_grade_extra.py": "day",
    "packages/labs/tests/test_labs.py::test_every_variant_has_a_starter_that_compiles": "day",
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

SLICES = {
    "packages/labs/tests/test_exploits.py": 8,
    "packages/labs/tests/test_false_alarms.py": 8,
    "packages/labs/tests/test_lab_notebooks.py::"
    "test_a_lab_is_handed_out_worked_on_and_collected": 6,
    "packages/labs/tests/test_labs.py": 8,
    "packages/nogpu/tests/test_foreign_waits.py": 4,
    "packages/nogpu/tests/test_fresh_kernels.py": 8,
    "packages/nogpu/tests/test_header_kernels.py": 4,
    "tests/test_blackwell.py::test_a_planted_fault_stands_on_its_line": 4,
    "tests/test_blackwell.py::test_no_false_word_in_a_thousand_launches": 60,
    "tests/test_blackwell.py::test_right_and_nothing_found": 8,
    "tests/test_book.py::test_page_in_a_browser": 8,
    "tests/test_choosing.py::test_what_is_recorded_is_clean_in_the_emulator": 4,
    "tests/test_clang.py::test_a_kernel_gives_the_same_bits_and_the_same_traffic_line_by_line": 8,
    "tests/test_clean.py::test_a_few_shapes_run_again_are_as_quiet": 8,
    "tests/test_counts_vs_hardware.py": 8,
    "tests/test_epilogue.py::test_a_wrong_product_is_found": 4,
    "tests/test_epilogue.py::test_any_shape_is_right_and_clean": 25,
    "tests/test_epilogue.py::test_no_register_is_spilled": 4,
    "tests/test_exercises.py::test_starters_fail_and_solutions_pass": 4,
    "tests/test_exercise_starters.py": 4,
    "tests/test_exercises_kernels.py": 8,
    "tests/test_explorers.py::test_the_page_shows_what_python_computes": 4,
    "tests/test_explorers.py::test_the_keyboard_reaches_and_moves_every_control": 4,
    "tests/test_explorers.py::test_words_in_a_drawing_can_be_read_on_a_phone": 4,
    "tests/test_finding_lines.py": 4,
    "tests/test_hopper_kernels.py": 8,
    "tests/test_kernels.py": 8,
    "tests/test_mma_sliced.py": 4,
    "tests/test_pictures_first.py::test_sets_and_lines_are_those_of_a_cache": 4,
    "tests/test_static_asserts.py::test_every_tile_is_judged_alike": 4,
    "tests/test_steps.py::test_right_over_many_shapes_and_nothing_found": 16,
    "tests/test_thin.py": 4,
}
"""Of so many tests of a file, or cases of a test (file::test), the push ring runs one."""


def place(nodeid: str, table: Mapping[str, object]) -> str:
    """The name under which this test stands in a table: its own, or its file's; "" if it stands
    there not at all."""
    name = nodeid.split("[")[0]
    return next((one for one in (name, name.split("::")[0]) if one in table), "")


def runs(nodeid: str, ring: str, commit: int) -> bool:
    """Whether a ring runs a test. commit: any number; n that follow each other draw all of a slice
    of n."""
    later = LATER.get(place(nodeid, LATER), "push")
    if RINGS.index(later) > RINGS.index(ring):
        return False
    of = SLICES.get(place(nodeid, SLICES), 1) if ring == "push" else 1
    return (crc32(nodeid.encode()) + commit) % of == 0


def commit(root: Path) -> int:
    """A number that follows from the commit that is checked out; 0 where there is no git."""
    try:
        asked = ["git", "rev-parse", "HEAD"]
        given = subprocess.run(asked, cwd=root, capture_output=True, text=True, check=True)
        return int(given.stdout[:12], 16)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 0
