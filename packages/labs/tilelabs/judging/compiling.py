"""The first of the two processes in which a source that nobody trusts is marked: the compiler's.
A reader's own cell compiles in one, too, which stays for the next edit (`door`).

It is the only native code that reads what somebody typed. What comes out is PTX and what the
compiler reports, which the other process (`judging.running`) and the one that asks take for data.
"""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nogpu import project, toolchain
from nogpu.errors import CompileError, SourceError, ToolchainError
from nogpu.text import PRELUDE, check_includes, device_code
from nogpu.toolchain import KernelResources, NvrtcOutput
from tilelabs import apart
from tilelabs.apart import Limits

NAME = "lab.cu"
"""What messages call the source."""
EDIT = Limits(memory=4096 * apart.MB, answer=32 * apart.MB)
"""Of a reader's edit."""


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
        source = device_code(job["source"]).text if job.get("host") else job["source"]
        made = toolchain.compile(source, name=NAME, arch=job["arch"], options=_options())
    except CompileError as error:
        return {"refused": error.log or str(error)}
    kernels = {
        name: [k.registers, k.spill_stores, k.spill_loads, k.stack, k.shared_bytes]
        for name, k in made.kernels.items()
    }
    answer = {"device": source, "ptx": made.ptx, "compiler": made.compiler, "kernels": kernels}
    if job.get("cubin"):
        answer["cubin"] = base64.b64encode(made.cubin).decode()
    return answer


# -- a reader's cell -------------------------------------------------------------------------------


@contextmanager
def door() -> Iterator[None]:
    """Within it NVRTC compiles in a process that is kept, under limits, and locked into CUDA's and
    the project's headers where that can be: what a text does to its compiler it does to that.
    """
    with toolchain.compiling_by(_behind_the_door):
        yield


def check_text(text: str) -> None:
    """Refuse what is no text, and, where no lock keeps the compiler from them, files beside the
    folders of headers. Raises CompileError.
    """
    if "\0" in text:
        raise _no_source("the source has a NUL byte, where a compiler stops reading: delete it")
    try:
        text.encode()
        if toolchain.uses_clang() or not apart.landlock():
            check_includes(text, None)
    except UnicodeEncodeError:
        raise _no_source("the source holds characters that are no text (lone surrogates)") from None
    except SourceError as error:
        raise _no_source(str(error)) from None


def _no_source(words: str) -> CompileError:
    return CompileError(words, log=words, source_name="the source")


def _behind_the_door(*request: Any) -> NvrtcOutput:
    """`toolchain.run_nvrtc` in the process that is kept."""
    folders = [str(folder) for folder in project.include_folders]
    done = apart.kept(
        "tilelabs.judging.compiling:answered",
        {"request": request, "folders": folders, "release": toolchain.nvrtc().release}, EDIT,
        readable=[*readable(), *folders, PRELUDE] if apart.landlock() else None,
    )  # fmt: skip
    if done.kind == "ToolchainError":
        raise ToolchainError(done.fault)
    if done.fault:
        raise _no_source(f"the compiler did not come to an end: {done.fault}")
    if "refused" in done.value:
        raise CompileError(*done.value["refused"])
    ptx, cubin, log, kernels, names = done.value["made"]
    found = {name: KernelResources(*numbers) for name, numbers in kernels.items()}
    return ptx, base64.b64decode(cubin), log, found, names


def answered(job: dict[str, Any]) -> dict[str, Any]:
    """What NVRTC has "made" of job["request"] (`toolchain.run_nvrtc`), or why it is "refused"."""
    if toolchain.nvrtc().release != job["release"]:
        raise ToolchainError(
            f"another NVRTC is found in a process of its own, {toolchain.nvrtc().path}, than here: "
            "set CUDA_HOME to the one that shall compile"
        )
    project.include_folders[:] = map(Path, job["folders"])
    source, name, arch, defines, *lists = job["request"]
    try:
        ptx, cubin, log, kernels, names = toolchain.run_nvrtc(
            source, name, arch, tuple(map(tuple, defines)), *map(tuple, lists)
        )
    except CompileError as error:
        return {"refused": [str(error), error.log, error.source_name, error.hint]}
    numbers = {name: list(vars(k).values()) for name, k in kernels.items()}
    return {"made": [ptx, base64.b64encode(cubin).decode(), log, numbers, names]}
