"""The first of the two processes in which a source that nobody trusts is marked: the compiler's.

It is the only native code that reads what somebody typed. What comes out is PTX and what the compiler
reports, which the other process (`judging.running`) and the one that asks take for data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers import toolchain
from helpers.errors import CompileError

NAME = "lab.cu"
"""What messages call the source."""


def ready() -> None:
    """Load the compiler and all that it loads at its first use, before the process is locked."""
    toolchain.compile("__global__ void f(float* x) { x[0] = 1; }", options=_options())


def readable() -> list[Path]:
    """What the locked compiler may read: CUDA's headers and its own libraries."""
    if toolchain.uses_clang():
        return []
    tool = toolchain.nvrtc()
    return [Path(folder) for folder in tool.includes]


def _options() -> tuple[str, ...]:
    return () if toolchain.uses_clang() else (toolchain.ALONE,)


def compiled(job: dict[str, Any]) -> dict[str, Any]:
    """PTX, compiler and resources by kernel of job["source"] for job["arch"]; or "refused", the log."""
    try:
        made = toolchain.compile(job["source"], name=NAME, arch=job["arch"], options=_options())
    except CompileError as error:
        return {"refused": error.log or str(error)}
    kernels = {
        name: [k.registers, k.spill_stores, k.spill_loads, k.stack, k.shared_bytes]
        for name, k in made.kernels.items()
    }
    return {"ptx": made.ptx, "compiler": made.compiler, "kernels": kernels}
