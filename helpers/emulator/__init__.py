"""Runs CUDA C++ without a GPU, counts what its warps ask of memory, and finds its faults.

NVRTC compiles the unmodified source to PTX; the PTX is translated to NumPy and run with all
threads of many blocks in lock step. One call does it: `launch`.

Four rooms, each of which imports only those before it when it runs:

- `ptx`: from the text of PTX to Python
- `machine`: threads in lock step, their memory, and what each instruction does
- `observe`: those who watch: counts, races, uninitialised reads, who wrote what
- `launching`: from a call to a report
"""

from helpers.emulator.launching.report import Finding, LineAccess, Report
from helpers.emulator.launching.run import Prepared, launch, prepared
from helpers.emulator.machine.tensor_maps import TensorMap
from helpers.emulator.observe.turns import EngineStep
from helpers.errors import EmulationError

__all__ = [
    "EmulationError", "EngineStep", "Finding", "LineAccess", "Prepared", "Report", "TensorMap", "launch", "prepared",
]  # fmt: skip
