"""What a project tells its compilers: where its headers lie, and where its compiled programs are
stored.

The compilers and the emulator know no catalog of kernels: who has one registers here what they need
of it.
"""

from __future__ import annotations

from pathlib import Path

include_folders: list[Path] = []
"""Folders in which the headers of a source are looked for, the first first."""
stored: Path | None = None
"""The folder of compiled programs, for machines without a compiler (`nogpu.compiled`); None: there
is none."""


def header(name: str) -> Path | None:
    """The file that an include of this name means, in the first folder that has it, or None."""
    return next((f / name for f in include_folders if (f / name).is_file()), None)
