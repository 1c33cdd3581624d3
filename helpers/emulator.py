"""CUDA without a GPU, as the chapters call it: everything that `nogpu.emulator` shows."""

from nogpu.emulator import *  # noqa: F403
from nogpu.emulator import __all__ as __all__
