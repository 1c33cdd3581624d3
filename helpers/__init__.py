"""Tile by Tile: what the chapters import. NumPy is all that importing this needs."""

from helpers import device, model
from helpers.kernel import Kernel
from helpers.launch import matmul, trace
from helpers.plans import Plan, choose, plan
from helpers.rungs import catalog
from helpers.usage import instruction_mix, resources

__all__ = [
    "Kernel",
    "Plan",
    "catalog",
    "choose",
    "device",
    "instruction_mix",
    "matmul",
    "model",
    "plan",
    "resources",
    "trace",
]
