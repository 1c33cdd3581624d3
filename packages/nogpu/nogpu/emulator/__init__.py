"""Runs CUDA C++ without a GPU, counts what its warps ask of memory, and finds its faults.

NVRTC compiles the unmodified source to PTX; the PTX is translated to NumPy and run with all
threads of many blocks in lock step. One call does it: `launch`.

Four rooms, each of which imports only those before it when it runs:

- `ptx`: from the text of PTX to Python
- `machine`: threads in lock step, their memory, and what each instruction does
- `observe`: observers of a launch: counts, races, uninitialised reads, who wrote what
- `launching`: from a call to a report
"""

from nogpu.emulator.launching.report import Finding, LineAccess, Report
from nogpu.emulator.launching.run import Prepared, launch, prepared
from nogpu.emulator.machine.tensor_maps import TensorMap
from nogpu.emulator.observe.slots import EngineStep
from nogpu.errors import EmulationError

__all__ = [
    "EmulationError",
    "EngineStep",
    "Finding",
    "LineAccess",
    "Prepared",
    "Report",
    "TensorMap",
    "launch",
    "prepared",
]
