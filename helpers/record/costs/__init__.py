"""The cost model: what each resource alone would take for a kernel, a shape and a GPU.

b = costs.bounds("block_1d", 4096, gpu="t4")
b.binding, b.ms, b.gflops, b["DRAM"].ms, b.measured, b.waves.rounds
"""

from helpers.record.costs.bounding import (
    DRAM,
    ISSUE,
    L1,
    L2,
    Bound,
    Bounds,
    Waves,
    at_hand,
    bounds,
    ladder,
    of_counts,
    of_plan,
    powered,
)
from helpers.record.costs.facts import missing, remarks, uses
from helpers.record.costs.littles import UnderWay, little
from helpers.record.costs.rates import l2

__all__ = [
    "DRAM", "ISSUE", "L1", "L2", "Bound", "Bounds", "UnderWay", "Waves",
    "at_hand", "bounds", "l2", "ladder", "little", "missing", "of_counts", "of_plan",
    "powered", "remarks", "uses",
]  # fmt: skip
