"""What the first cell of a notebook calls: it says what the notebook runs on, and sets up Colab."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

from helpers.kernel import ROOT


def start() -> None:
    """Say what the notebook runs on. On Colab, install the CUDA compiler if there is none.

    Colab's GPU runtime has CUDA and CuPy, and nothing is installed there. Its CPU runtime may lack
    NVRTC; then the wheels that requirements.txt names for it are installed, and nothing else.
    """
    from helpers import device, toolchain

    if "COLAB_RELEASE_TAG" in os.environ and not toolchain.available():
        print("Installing the CUDA compiler (NVRTC), which this runtime lacks ...", flush=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", *compiler_wheels()]
        subprocess.run(command, check=True)
        importlib.invalidate_caches()
    gpu = device.current()
    if gpu is None:
        print(
            "No GPU here: kernels run in the emulator, and times are replayed from the record. "
            "On Colab, Runtime > Change runtime type offers a T4."
        )
    else:
        print(f"GPU: {gpu.name}. Kernels run on it, and times are measured on it.")


def compiler_wheels(root: Path = ROOT) -> list[str]:
    """The requirements that make NVRTC work: its wheels and the loader that finds them."""
    wanted = ("cuda-pathfinder", "nvidia-")
    files = [root / "requirements.txt", root / "requirements" / "book.txt"]
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    return [line.split(";")[0].strip() for line in lines if line.startswith(wanted)]
