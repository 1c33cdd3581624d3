"""A folder of submissions: collected, judged, reported.

Judging measures, reporting marks: they are apart.

A changed rubric, override or roster needs no new run; a changed submission is judged again, alone.
"""

from tilelabs.grading.collecting import Submission, collect
from tilelabs.grading.gradebooks import Filled, feedback_zip, fill
from tilelabs.grading.judging import Result, grade, results
from tilelabs.grading.reporting import Row, report

__all__ = [
    "Filled",
    "Result",
    "Row",
    "Submission",
    "collect",
    "feedback_zip",
    "fill",
    "grade",
    "report",
    "results",
]
