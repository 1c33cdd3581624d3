"""CUDA without a GPU: compile CUDA C++, run it with NumPy, count its accesses, find its faults.

    import nogpu
    report = nogpu.launch(source, "add", grid=4, block=256, args=[a, b, c, n])
    print(report)

Comes in: CUDA C++ (or PTX) and NumPy arrays. Goes out: the arrays, changed, and a `Report`.
Read first: emulator/__init__.py (its four parts), emulator/launching/run.py (one launch),
toolchain.py. The README beside says each name.
"""

from nogpu.emulator import Finding, LineAccess, Report, TensorMap, launch
from nogpu.errors import CompileError, EmulationError, TileError
from nogpu.toolchain import compile

__all__ = [
    "CompileError", "EmulationError", "Finding", "LineAccess", "Report", "TensorMap", "TileError",
    "compile", "launch",
]  # fmt: skip
