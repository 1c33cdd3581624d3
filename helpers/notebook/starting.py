"""What the first cell of a notebook calls: it says what the notebook runs on, and sets up Colab."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

from helpers.ladder.kernel import ROOT
from nogpu.errors import ToolchainError

BARE = "No GPU here: kernels run in the emulator, and times are replayed from the record."
"""What a run says whose outputs are kept for readers (TILE_BOOK_BUILD), whatever machine it is on.
"""


def start() -> None:
    """Say what the notebook runs on. On Colab, install the CUDA compiler if there is none.

    Colab's GPU runtime has CUDA and CuPy, and nothing is installed there. Its CPU runtime may lack
    NVRTC; then the wheels that the requirements name for it are installed, and nothing else. Raises
    ToolchainError, with pip's own words, if they cannot be.
    """
    from nogpu import toolchain

    if os.environ.get("TILE_BOOK_BUILD"):
        print(BARE)
        return
    importlib.invalidate_caches()  # what the reader has installed since is seen
    if on_colab() and not toolchain.available():
        print("Installing the CUDA compiler (NVRTC), which this runtime lacks ...", flush=True)
        _install(compiler_wheels())
        importlib.invalidate_caches()
    for line in machine_lines():
        print(line)


def on_colab() -> bool:
    """Whether this is a runtime of Colab."""
    return "COLAB_RELEASE_TAG" in os.environ


def machine_lines() -> list[str]:
    """What runs kernels and compiles them here, where times come from, and what does not fit."""
    from helpers.ladder import fitting
    from nogpu import device, toolchain

    gpu = device.current()
    compiled = f", compiled by {toolchain.compiler()}," if toolchain.available() else ""
    if not compiled and gpu is None and toolchain.stored():
        lines = [
            "No GPU here, and no compiler: the book's own kernels run in the emulator, from PTX "
            "that is stored, and times are replayed from the record. A kernel that you change "
            "needs a compiler."
        ]
    elif not compiled:
        where = f"GPU: {gpu.name}" if gpu else "No GPU here"
        lines = [f"{where}, and no compiler: cells that run a kernel stop, and times are replayed."]
    elif gpu is None:
        more = " Runtime > Change runtime type offers a T4." if on_colab() else ""
        lines = [
            f"No GPU here: kernels{compiled} run in the emulator, and times are replayed from the "
            f"record.{more}"
        ]
    else:
        times = "measured on it" if fitting.has_cublas() else "replayed from the record"
        lines = [f"GPU: {gpu.name}. Kernels{compiled} run on it, and times are {times}."]
    return lines + [f"To mend: {sentence}." for sentence in fitting.misfits()]


def _install(wheels: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", *wheels]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as failed:
        lines = (failed.stderr or "").strip().splitlines()[-3:]
        raise ToolchainError(
            "the compiler's wheels could not be installed, and without a compiler no kernel runs. "
            "pip says:\n" + "\n".join(lines) + "\nCheck the network, then run this cell again."
        ) from None


def compiler_wheels(root: Path = ROOT) -> list[str]:
    """The requirements that make NVRTC work: its wheels and the loader that finds them."""
    wanted = ("cuda-pathfinder", "nvidia-")
    lines = (root / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [line.split(";")[0].strip() for line in lines if line.startswith(wanted)]
