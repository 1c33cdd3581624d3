"""Runs CUDA C++ without a GPU, counts what its warps ask of memory, and finds its faults.

NVRTC compiles the unmodified source to PTX; the PTX is translated to NumPy and run with all
threads of many blocks in lock step. One call does it: `launch`.

Modules, each of which imports only those above it when it runs (for type hints alone, some also name
the `State` of `machine` and what `program` is made of):

- `arith`: bits of the arithmetic
- `counts`: sectors and wavefronts
- `memory`: global arrays, shared and local words
- `opcodes`: the words that each opcode may carry
- `ptx`: the parser
- `flow`: where branches meet again
- `waits`: loops that wait for other threads
- `report`: findings, counts by line
- `sites`: memory instructions
- `masks`: sets of threads
- `races`: what two threads may not do between two barriers, and uninitialised reads
- `order`: fences, flags and locks
- `ordered`: races where mbarriers order threads
- `access`: loads and stores
- `arena`: malloc and free
- `asynchronous`: cp.async
- `atomics`: atomic operations
- `mbarrier`: barriers that count arrivals
- `warp`: shuffles, votes, and who takes part
- `tensor`: matrix instructions
- `calls`: functions, printf, assert, trap
- `machine`: threads, scheduling, barriers
- `lower`: opcode by opcode to Python
- `program`: basic blocks
- `arguments`: the kernel's parameters
- `oracle`: who wrote a wrong result
- `request`: what a launch asks for
- `run`: `launch`
"""

from helpers.emulator.report import Finding, LineAccess, Report
from helpers.emulator.run import launch
from helpers.errors import EmulationError

__all__ = ["EmulationError", "Finding", "LineAccess", "Report", "launch"]
