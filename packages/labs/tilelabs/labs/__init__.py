"""The labs of a class: what they ask, what it is worth, and how a kernel that was handed in comes
out.

print(labs.check("2", open("lab2.cu").read()))
"""

from tilelabs.labs.checking import Checked, Part
from tilelabs.labs.handing_out import handout
from tilelabs.labs.rehearsing import rehearse
from tilelabs.labs.rubrics import Lab, Rubric, Variant, all_labs, lab
from tilelabs.labs.working import answer, begin, check, submit

__all__ = [
    "Checked",
    "Lab",
    "Part",
    "Rubric",
    "Variant",
    "all_labs",
    "answer",
    "begin",
    "check",
    "handout",
    "lab",
    "rehearse",
    "submit",
]
