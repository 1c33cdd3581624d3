"""Tile by Tile: what the chapters import. NumPy is all that importing this needs."""

from helpers import device, model
from helpers.kernel import Kernel, plan
from helpers.launch import choose, matmul, trace
from helpers.rungs import catalog
from helpers.toolchain import instruction_mix, resources

__all__ = [
    "Kernel",
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
