"""Runs CUDA C++ without a GPU, counts what its warps ask of memory, and finds its faults.

NVRTC compiles the unmodified source to PTX; the PTX is translated to NumPy and run with all
threads of many blocks in lock step. One call does it: `launch`.

Rooms, each using only those above it: `arith` (bits of the arithmetic), `counts` (sectors and
wavefronts), `memory`, `ptx` (the parser), `races`, `report`, `machine` (threads, barriers),
`access` (loads and stores), `warp`, `tensor`, `atomics`, `asynchronous`, `calls`, `lower` (opcode
by opcode), `flow` (where branches meet again), `program` (basic blocks), `arguments`, `oracle` (who
wrote a wrong result), and `run`, which holds `launch`.
"""

from helpers.emulator.report import Finding, LineAccess, Report
from helpers.emulator.run import launch
from helpers.errors import EmulationError

__all__ = ["EmulationError", "Finding", "LineAccess", "Report", "launch"]
