"""The cost model: what each resource alone would take for a kernel, a shape and a GPU.

b = costs.bounds("block_1d", 4096, gpu="t4")
b.binding, b.ms, b.gflops, b["DRAM"].ms, b.measured, b.waves.rounds
"""

from helpers.costs.bounding import DRAM, ISSUE, L1, L2, Bound, Bounds, Waves, bounds, of_plan
from helpers.costs.facts import missing, remarks, uses

__all__ = [
    "DRAM",
    "ISSUE",
    "L1",
    "L2",
    "Bound",
    "Bounds",
    "Waves",
    "bounds",
    "missing",
    "of_plan",
    "remarks",
    "uses",
]
