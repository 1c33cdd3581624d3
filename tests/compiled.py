"""Write data/compiled.json and data/compiled_ptx.xz: what NVRTC makes of what the pages compile.

    python -m tests.compiled [--out FOLDER]

Runs the pages, and notes what they compile: all PTX, and of what they look at registers or machine code of,
those. Adds every kernel of the catalog and every core with its own tiles for every architecture of the book, and the kernel
cells as a notebook holds them. Needs NVRTC and nvdisasm.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from helpers.ladder import usage
from helpers.ladder.kernel import ROOT
from helpers.ladder.rungs import catalog, cores, find
from helpers.page import workbench
from nogpu import compiled, toolchain
from nogpu.errors import CompileError, ConfigError
from tests import reading

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a")
Asked = tuple[str, str, tuple[tuple[str, str], ...], tuple[str, ...]]


@dataclass
class Notes:
    """Compilations whose report was read, and those whose machine code was."""

    built: dict[str, toolchain.Compiled] = field(default_factory=dict)
    programs: dict[str, compiled.Program] = field(default_factory=dict)
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
        macros = tuple(sorted((options.get("defines") or {}).items()))
        arch = options.get("arch", "sm_75")
        more = tuple(options.get("options", ())), tuple(options.get("name_expressions", ()))
        exact = compiled.program_key(source, options.get("name", "kernel.cu"), arch, macros, *more)
        try:
            made = build(source, **options)
        except CompileError as error:
            said = (str(error), error.log, error.hint)
            notes.programs[exact] = compiled.Program("", {}, "", said)
            raise
        notes.programs[exact] = compiled.Program(made.ptx, made.name_map, made.log)
        key = compiled.key(source, arch, macros, tuple(options.get("options", ())))
        notes.built[key] = made
        return replace(made, kernels=_Reports(made.kernels, lambda: notes.reported.add(key)))

    def sass(cubin: bytes, lines: bool = False) -> str:
        if not lines:
            notes.read |= {key for key, made in notes.built.items() if made.cubin == cubin}
        return disassemble(cubin, lines)

    with (
        mock.patch.object(toolchain, "compile", compile),
        mock.patch.object(toolchain, "sass", sass),
    ):
        yield


def own_tiles() -> None:
    """Ask for the resources of every kernel as it is, for every architecture that can run it."""
    for name in (*catalog, *cores):
        for arch in ARCHS:
            if (arch == "sm_90a") == (find(name).min_arch == "sm_90a"):
                with contextlib.suppress(ConfigError):
                    usage.resources(name, arch)


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


def kernel_cells(page: Path) -> None:
    """Run a page's kernel cells with the text that its notebook holds below the magic line."""
    for line, name in re.findall(r"(?m)^%%cuda ((\w+).*)$", page.read_text(encoding="utf-8")):
        if (
            name in catalog or name in cores
        ):  # others have a text of their own, which the page has run
            workbench.cell_magic(line, find(name).source.rstrip())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.compiled", description=__doc__)
    parser.add_argument("--out", type=Path, default=compiled.FILE.parent)
    parser.add_argument("--pages", nargs="*", help="these pages alone, for a trial")
    given = parser.parse_args()
    notes = Notes()

    def write() -> None:
        held = content(notes)
        table, programs = given.out / compiled.FILE.name, given.out / compiled.PROGRAMS.name
        table.write_text(json.dumps(held, indent=0) + "\n", encoding="utf-8")
        compiled.write_programs(notes.programs, programs)
        read = sum("sass" in row for row in held["rows"].values())
        sizes = ", ".join(f"{f.name} {f.stat().st_size:,} bytes" for f in (table, programs))
        told = f"{len(held['rows'])} compilations, {read} with machine code, {len(notes.programs)} programs"
        print(f"{told}; {sizes}", flush=True)

    with noting(notes):
        own_tiles()
        notes.programs.clear()  # of registers alone: nobody runs them
        pages = sorted((ROOT / "book").glob("*.md"))
        for page in pages if given.pages is None else map(reading.page, given.pages):
            print(page.stem, file=sys.stderr, flush=True)
            reading.run(page.stem)
            kernel_cells(page)
        write()


if __name__ == "__main__":
    main()
