"""Every error that the book raises: what was given, the rule it breaks, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class TileError(Exception):
    """Base of all errors raised by this package."""


class ConfigError(TileError, ValueError):
    """A tile, block or launch that a rule of the catalog or of the hardware forbids."""


class ShapeError(TileError, ValueError):
    """Matrices whose shapes cannot be multiplied."""


class DtypeError(TileError, TypeError):
    """Arrays of an element type that the kernel does not take."""


class UnknownNameError(TileError, LookupError):
    """A kernel, GPU, entry point or exercise that does not exist."""


class UnknownKernelError(UnknownNameError):
    """A kernel name that is not in the catalog."""


class CompileError(TileError):
    """CUDA source that the compiler refuses. `log` holds the compiler's messages, file and line first; `hint`
    what to do, where that is known.
    """

    def __init__(self, message: str, log: str = "", source_name: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.log = log
        self.source_name = source_name
        self.hint = hint


class ToolchainError(TileError):
    """The CUDA compiler or a disassembler is not installed, or does not answer."""


class DataError(TileError):
    """A measurement file that is damaged, of another version, or lacks what was asked for."""


class NoGPUError(TileError):
    """Something that only a GPU can do was asked of a machine without one."""


class GpuFaultError(TileError):
    """The GPU stopped at a fault, and this process cannot use it any more."""


class EmulationError(TileError):
    """The emulator cannot run this program; the message names the instruction or the argument."""


class ExportError(TileError):
    """A chapter uses Markdown outside the subset that exports to a notebook."""


def near_matches(given: str, known: Iterable[str]) -> str:
    """A sentence for an unknown name: the nearest known names, or all of them if none is near."""
    names = sorted(known)
    if not names:
        return "There are none."
    close = get_close_matches(given, names, n=3, cutoff=0.5)
    if close:
        return "Did you mean " + " or ".join(repr(name) for name in close) + "?"
    return "Known names: " + ", ".join(names) + "."
