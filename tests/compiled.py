"""Write data/compiled.json: what NVRTC makes of every source that the pages ask it about.

    python -m tests.compiled [--out FILE]

Runs the pages that do, and notes what they compile to see registers or machine code; adds every kernel of the
catalog with its own tiles for every architecture of the book. Needs NVRTC and nvdisasm.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from helpers import compiled, toolchain
from helpers.errors import ConfigError
from helpers.kernel import ROOT
from helpers.rungs import catalog
from tests import reading

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a")
Asked = tuple[str, str, tuple[tuple[str, str], ...], tuple[str, ...]]


@dataclass
class Notes:
    """Compilations whose report was read, and those whose machine code was."""

    built: dict[str, toolchain.Compiled] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)


class _Reports(dict[str, toolchain.KernelResources]):
    """Reports that note when one is looked at."""

    def __init__(self, held: Any, note: Any) -> None:
        super().__init__(held)
        self.note = note

    def __getitem__(self, name: str) -> toolchain.KernelResources:
        self.note()
        return super().__getitem__(name)


@contextlib.contextmanager
def noting(notes: Notes) -> Iterator[None]:
    """Note what is compiled, and what is done with it."""
    build, disassemble = toolchain.compile, toolchain.sass

    def compile(source: str, **options: Any) -> toolchain.Compiled:
        made = build(source, **options)
        macros = tuple(sorted((options.get("defines") or {}).items()))
        arch = options.get("arch", "sm_75")
        key = compiled.key(source, arch, macros, tuple(options.get("options", ())))
        notes.built[key] = made
        return replace(made, kernels=_Reports(made.kernels, lambda: notes.reported.add(key)))

    def sass(cubin: bytes) -> str:
        notes.read |= {key for key, made in notes.built.items() if made.cubin == cubin}
        return disassemble(cubin)

    with (
        mock.patch.object(toolchain, "compile", compile),
        mock.patch.object(toolchain, "sass", sass),
    ):
        yield


def own_tiles() -> None:
    """Ask for the resources of every kernel as it is, for every architecture that can run it."""
    for name in catalog:
        for arch in ARCHS:
            if (arch == "sm_90a") == (catalog[name].min_arch == "sm_90a"):
                with contextlib.suppress(ConfigError):
                    toolchain.resources(name, arch)


def content(notes: Notes) -> dict[str, Any]:
    """The content of the file: what was noted so far."""
    texts: dict[str, int] = {}
    rows = {}
    for key in sorted(notes.reported | notes.read):
        built = notes.built[key]
        reports = {
            name: [r.registers, r.spill_stores, r.spill_loads, r.stack, r.shared_bytes]
            for name, r in built.kernels.items()
        }
        rows[key] = {"arch": built.arch, "kernels": reports}
        if key in notes.read:
            text = compiled.slim(toolchain.sass(built.cubin))
            rows[key]["sass"] = texts.setdefault(text, len(texts))
    return {"compiler": toolchain.compiler(), "rows": rows, "sass": compiled.pack(list(texts))}


def asking() -> list[str]:
    """The pages that look at registers or at machine code, by what their cells call."""
    words = ("resources(", "instruction_mix(", "toolchain.compile", "choose(")
    pages = sorted((ROOT / "book").glob("*.md"))
    return [p.stem for p in pages if any(w in p.read_text(encoding="utf-8") for w in words)]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.compiled", description=__doc__)
    parser.add_argument("--out", type=Path, default=compiled.FILE)
    parser.add_argument("--pages", nargs="*", help="these pages alone, for a trial")
    given = parser.parse_args()
    notes = Notes()

    def write() -> None:
        held = content(notes)
        given.out.write_text(json.dumps(held, indent=0) + "\n", encoding="utf-8")
        read = sum("sass" in row for row in held["rows"].values())
        size = given.out.stat().st_size
        print(
            f"{len(held['rows'])} compilations, {read} with machine code, {size:,} bytes",
            flush=True,
        )

    with noting(notes):
        own_tiles()
        write()
        for page in asking() if given.pages is None else given.pages:
            print(page, file=sys.stderr, flush=True)
            reading.run(page)
            write()


if __name__ == "__main__":
    main()
