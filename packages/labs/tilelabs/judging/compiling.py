"""The first of the two processes in which a source that nobody trusts is marked: the compiler's.

It is the only native code that reads what somebody typed. What comes out is PTX and what the
compiler reports, which the other process (`judging.running`) and the one that asks take for data.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from nogpu import toolchain
from nogpu.errors import CompileError

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
    """No file beside a source is looked for; CUDA's own headers find those beside them by their
    folder's name.
    """
    if toolchain.uses_clang():
        return ()
    inner = (Path(folder) / "crt" for folder in toolchain.nvrtc().includes)
    return (toolchain.ALONE, *(f"-I{folder}" for folder in inner if folder.is_dir()))


def compiled(job: dict[str, Any]) -> dict[str, Any]:
    """PTX, compiler, resources by kernel, and where job["cubin"] asks for it the machine code
    (base64) of job["source"] for job["arch"]; or "refused", the log.
    """
    try:
        made = toolchain.compile(job["source"], name=NAME, arch=job["arch"], options=_options())
    except CompileError as error:
        return {"refused": error.log or str(error)}
    kernels = {
        name: [k.registers, k.spill_stores, k.spill_loads, k.stack, k.shared_bytes]
        for name, k in made.kernels.items()
    }
    told = {"ptx": made.ptx, "compiler": made.compiler, "kernels": kernels}
    if job.get("cubin"):
        told["cubin"] = base64.b64encode(made.cubin).decode()
    return told
