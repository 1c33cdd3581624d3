"""Every error that the book raises: what was given, the rule it breaks, what to do."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from traceback import walk_tb
from types import TracebackType
from typing import Any

_OURS = ("helpers", "nogpu", "tilelabs")
WHOLE = "TILE_TRACEBACK"
"""Set to 1 it shows whole tracebacks in notebooks; `%xmode Verbose` does the same."""


class TileError(Exception):
    """Base of all errors raised by this package.

    In a notebook it shows the reader's own lines and the message, and nothing of this package. The
    whole traceback is there with TILE_TRACEBACK=1 in the environment, or after `%xmode Verbose`.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback (its own protocol, since 2011)."""
        shell = _shell()
        if shell is not None and (os.environ.get(WHOLE) or shell.InteractiveTB.mode == "Verbose"):
            stb: list[str] = shell.InteractiveTB.structured_traceback(
                type(self), self, self.__traceback__, tb_offset=1
            )
            return stb
        return [*_own_lines(self.__traceback__), f"{type(self).__name__}: {self}"]


def _shell() -> Any:
    """The IPython that runs this, or None; IPython is not imported for it."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_shell() if get_shell else None


def _own_lines(trace: TracebackType | None) -> Iterator[str]:
    """Each line of the reader's on the way to the error, as IPython points at lines.

    Up to this package that is all but IPython itself; behind it only what stands in cells, such as
    a function that was handed over. A cell magic is no line: its text is the reader's, the call is
    not.
    """
    inside = False
    for frame, number in walk_tb(trace):
        room = str(frame.f_globals.get("__name__", "")).split(".")[0]
        inside = inside or room in _OURS
        if room != "__main__" and (inside or room in ("IPython", "ipykernel")):
            continue
        line = linecache.getline(frame.f_code.co_filename, number, frame.f_globals).strip()
        if line and not line.startswith("get_ipython().run_"):
            yield f"----> {number} {line}"


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


class SourceError(TileError):
    """Bytes or text that cannot be a kernel's source, or that ask the compiler for what it may not
    read."""


class CompileError(TileError):
    """CUDA source that the compiler refuses.

    `log` holds the compiler's messages, file and line first; `hint` what to do, where that is
    known.
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


def near(name: str, known: Iterable[str]) -> list[str]:
    """The names that are nearest to a given one, at most three; none where none is near."""
    return get_close_matches(str(name), sorted(known), n=3, cutoff=0.5)


def near_matches(unknown: str, known: Iterable[str]) -> str:
    """A sentence for an unknown name: the nearest known names, or all of them if none is near."""
    names = sorted(known)
    if not names:
        return "There are none."
    if close := near(unknown, names):
        return "Did you mean " + " or ".join(repr(name) for name in close) + "?"
    return "Known names: " + ", ".join(names) + "."
