"""Exercises that code checks: check("05.1", answer) says what is right, what is not, and why.

The checks of a chapter's exercises are in `helpers/chapters/chNN/checks.py` and register themselves
with @exercise, or by number(...). Kernels are handed in as CUDA source text and run in the
emulator; what passes there runs on the GPU too, where there is one.
"""

from helpers.page.exercises.answers import close_to, one_of, same_array
from helpers.page.exercises.charts import Axis, check_chart, check_table
from helpers.page.exercises.kernels import (
    AWKWARD,
    KernelTask,
    Problem,
    Shape,
    check_kernel_source,
    checked_report,
    from_tiles,
    lanes_together,
    matmul_problem,
)
from helpers.page.exercises.registry import Exercise, chapters, check, exercise, find, load, number
from helpers.page.exercises.results import Check, Result

__all__ = [
    "AWKWARD", "Axis", "Check", "Exercise", "KernelTask", "Problem", "Result", "Shape", "chapters",
    "check", "check_chart", "check_kernel_source", "check_table", "checked_report", "close_to",
    "exercise", "find", "from_tiles", "lanes_together", "load", "matmul_problem", "number",
    "one_of", "same_array",
]  # fmt: skip
