"""Write data/compiled/: what NVRTC makes of what the pages compile, two files for the kernels of
one name.

    python -m tools.compiled [--check] [--pages [PAGE ...]] [--out FOLDER]

Compiles every kernel of the catalog and every core with its own tiles for every architecture of the
book, and of what is stored that which was made of another text of its file in kernels/; the rest is
taken over. With --pages it runs pages as well (all, if none is named), and notes what they compile:
all PTX, and of what they look at registers or machine code of, those; the kernel cells as a
notebook holds them, too. A run of all pages takes nothing over. Files whose contents stay are not
written. --check only says what is stale. Needs NVRTC and nvdisasm.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import lzma
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from helpers.ladder import usage
from helpers.ladder.kernel import KERNELS, ROOT
from helpers.ladder.rungs import catalog, cores, find
from helpers.page import workbench
from nogpu import compiled, disk, project, toolchain
from nogpu.errors import CompileError, ConfigError
from tools import reading

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a")
Recipe = dict[str, Any] | None
"""How to compile it again: file below kernels/, bare (without its last line end), name, arch,
defines. None: its text is a page's own."""


@dataclass
class Notes:
    """Compilations whose report was read, and those whose machine code was."""

    built: dict[str, toolchain.Compiled] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    recipes: dict[str, Recipe] = field(default_factory=dict)
    programs: dict[str, compiled.Program] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)


class _Reports(dict[str, toolchain.KernelResources]):
    """Reports that note when one is looked at."""

    def __init__(self, reports: Any, note: Any) -> None:
        super().__init__(reports)
        self.note = note

    def __getitem__(self, name: str) -> toolchain.KernelResources:
        self.note()
        return super().__getitem__(name)


def recipe(source: str, name: str, arch: str, macros: Any, *more: Any) -> Recipe:
    """The recipe of a compilation, where its text is a file's."""
    for path in KERNELS.rglob("*.cu"):
        text = path.read_text(encoding="utf-8")
        if not any(more) and source in (text, text.rstrip()):
            made = {"file": path.relative_to(KERNELS).as_posix(), "bare": source != text}
            return made | {"name": name, "arch": arch, "defines": [list(pair) for pair in macros]}
    return None


@contextlib.contextmanager
def noting(notes: Notes) -> Iterator[None]:
    """Note what is compiled, and what is done with it."""
    build, disassemble = toolchain.compile, toolchain.sass

    def compile(source: str, **options: Any) -> toolchain.Compiled:
        macros = tuple(sorted((options.get("defines") or {}).items()))
        arch = options.get("arch", "sm_75")
        more = tuple(options.get("options", ())), tuple(options.get("name_expressions", ()))
        request = (source, options.get("name", "kernel.cu"), arch, macros, *more)
        exact = compiled.program_key(*request)
        key = compiled.key(source, arch, macros, more[0])
        notes.recipes[exact] = notes.recipes[key] = recipe(*request)
        notes.files[exact] = notes.files[key] = compiled.file_of(source)
        try:
            made = build(source, **options)
        except CompileError as error:
            refusal = (str(error), error.log, error.hint)
            notes.programs[exact] = compiled.Program("", {}, "", refusal)
            raise
        notes.programs[exact] = compiled.Program(made.ptx, made.name_map, made.log)
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


@dataclass
class Stored:
    """What two files hold. rows and programs: by key; a row's disassembly stands in it, as text."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    programs: dict[str, tuple[compiled.Program, Recipe]] = field(default_factory=dict)


def content(notes: Notes) -> dict[str, Stored]:
    """What was noted so far, by file; paths of this machine are left out."""
    found: dict[str, Stored] = {}
    for key in notes.reported | notes.read:
        built = notes.built[key]
        reports = {
            name: [r.registers, r.spill_stores, r.spill_loads, r.stack, r.shared_bytes]
            for name, r in built.kernels.items()
        }
        row = {"arch": built.arch, "kernels": reports, "of": notes.recipes[key]}
        if key in notes.read:
            row["sass"] = compiled.slim(toolchain.sass(built.cubin))
        found.setdefault(notes.files[key], Stored()).rows[key] = row
    for key, p in notes.programs.items():
        refused = tuple(placeless(text) for text in p.refused)
        plain = compiled.Program(placeless(p.ptx), dict(p.names), placeless(p.log), refused)  # type: ignore[arg-type]
        found.setdefault(notes.files[key], Stored()).programs[key] = plain, notes.recipes[key]
    return found


_FOLDER = re.compile(
    r"/[^\s\"']*/(?:apart-\w+/(?=[\w.]+[\"'])|((?:nvidia|include|kernels|cores|your_cores)/))"
)


def placeless(text: str) -> str:
    """A text in which files below a folder of this machine are named from kernels/, cores/ or
    include/ on, and those of a process apart by their own name."""
    return _FOLDER.sub(lambda found: found[1] or "", text.replace(str(ROOT) + "/", ""))


def write(folder: Path, name: str, stored: Stored, compiler: str) -> None:
    """The two files of a name, the same bytes for the same content: one line for each row and
    program."""

    def block(rows: dict[str, Any]) -> str:
        lines = (f'"{key}": {json.dumps(rows[key], sort_keys=True)}' for key in sorted(rows))
        return "{\n" + ",\n".join(lines) + "\n}"

    texts: dict[str, int] = {}
    rows = {key: dict(row) for key, row in sorted(stored.rows.items())}
    for row in rows.values():
        if "sass" in row:
            row["sass"] = texts.setdefault(row["sass"], len(texts))
    recipes = block({key: made for key, (_, made) in stored.programs.items()})
    table = f'{{"compiler": "{compiler}",\n"programs": {recipes},\n"rows": {block(rows)}}}\n'
    programs = {
        key: [p.ptx, p.names, p.log, p.refused] for key, (p, _) in sorted(stored.programs.items())
    }
    disk.replace_file(folder / f"{name}.json", table.encode())
    archive = folder / f"{name}.xz"
    if texts or programs:
        packed = json.dumps({"programs": programs, "sass": list(texts)}).encode()
        disk.replace_file(archive, lzma.compress(packed, preset=9))
    else:
        archive.unlink(missing_ok=True)


def read(folder: Path) -> dict[str, Stored]:
    """What the files of a folder hold, by name."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        table = json.loads(path.read_text(encoding="utf-8"))
        texts, programs = compiled._archive(path.with_suffix(".xz"))
        for row in table["rows"].values():
            if "sass" in row:
                row["sass"] = texts[row["sass"]]
        made = {key: (programs[key], table["programs"][key]) for key in programs}
        found[path.stem] = Stored(table["rows"], made)
    return found


def _text(made: dict[str, Any]) -> str | None:
    path = KERNELS / made["file"]
    text = path.read_text(encoding="utf-8") if path.is_file() else None
    return text.rstrip() if text and made["bare"] else text


def keys_now(files: dict[str, Stored]) -> dict[str, dict[str, str]]:
    """By file and key the key that what is stored has by its recipe and the text of its file now;
    "" where that file is gone. Pages' own texts, which have no recipe, are left out."""
    found: dict[str, dict[str, str]] = {}
    for name, stored in files.items():
        for key, made in recipes(stored).items():
            if made is None:
                continue
            text, macros = _text(made), [tuple(pair) for pair in made["defines"]]
            now = ""
            if text is not None and key in stored.rows:
                now = compiled.key(text, made["arch"], macros, ())
            elif text is not None:
                now = compiled.program_key(text, made["name"], made["arch"], macros, (), ())
            found.setdefault(name, {})[key] = now
    return found


def recipes(stored: Stored) -> dict[str, Recipe]:
    """How to compile each row and each program again, by key."""
    of = {key: row["of"] for key, row in stored.rows.items()}
    return of | {key: made for key, (_, made) in stored.programs.items()}


def stale(files: dict[str, Stored]) -> dict[str, dict[str, Recipe]]:
    """Of each file the keys, with their recipes, of what was made of a text that its file has no
    more."""
    found = {}
    for name, keys in keys_now(files).items():
        made = recipes(files[name])
        if old := {key: made[key] for key, now in keys.items() if now != key}:
            found[name] = old
    return found


def compile_again(
    files: dict[str, Stored], old: dict[str, dict[str, Recipe]], notes: Notes
) -> None:
    """Compile what is stale from its recipe and note it; take it from what is held."""
    wanted: dict[str, compiled.Program] = {}
    for name, recipes in old.items():
        for key, made in recipes.items():
            row = files[name].rows.pop(key, None)
            files[name].programs.pop(key, None)
            text = _text(made) if made else None
            if made is None or text is None:
                continue
            with contextlib.suppress(CompileError):
                macros = dict(made["defines"])
                built = toolchain.compile(
                    text, name=made["name"], arch=made["arch"], defines=macros
                )
                if row is not None:
                    list(map(built.kernels.__getitem__, built.kernels))
                    if "sass" in row:
                        toolchain.sass(built.cubin)
            if row is None:
                wanted |= notes.programs
            notes.programs.clear()
    notes.programs |= wanted


def save(new: dict[str, Stored], folder: Path, compiler: str) -> list[str]:
    """Write what differs from the folder's files, delete what is gone; the names of both."""
    before, changed = read(folder), []
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(before.keys() | new.keys()):
        stored = new.get(name, Stored())
        if before.get(name) == stored:
            continue
        changed.append(name)
        if stored == Stored():
            for path in folder.glob(f"{name}.*"):
                path.unlink()
        else:
            write(folder, name, stored, compiler)
    compiled._table.cache_clear()
    compiled._archive.cache_clear()
    return changed


def kernel_cells(page: Path) -> None:
    """Run a page's kernel cells with the text that its notebook holds below the magic line."""
    for line, name in re.findall(r"(?m)^%%cuda ((\w+).*)$", page.read_text(encoding="utf-8")):
        if (
            name in catalog or name in cores
        ):  # others have a text of their own, which the page has run
            workbench.cell_magic(line, find(name).source.rstrip())


def main() -> None:
    """The command line. Ends with 1 where --check finds something stale."""
    parser = argparse.ArgumentParser(prog="python -m tools.compiled", description=__doc__)
    parser.add_argument("--out", type=Path, default=project.stored)
    parser.add_argument("--pages", nargs="*", help="run these pages, too; all if none is named")
    parser.add_argument("--check", action="store_true", help="say what is stale, write nothing")
    options = parser.parse_args()
    notes, files = Notes(), read(options.out)
    old = stale(files)
    for name, keys in old.items():
        print(f"stale: {name}, {len(keys)} of {len(files[name].rows) + len(files[name].programs)}")
    if options.check:
        sys.exit(bool(old))
    if files and options.pages != [] and compiled.compiler() != toolchain.compiler():
        raise ConfigError(
            f"{options.out} was made by {compiled.compiler()}, and here is {toolchain.compiler()}: "
            "make all of it anew, python -m tools.compiled --pages"
        )
    with noting(notes):
        own_tiles()
        notes.programs.clear()  # of registers alone: nobody runs them
        if options.pages == []:
            files = {}
        else:
            compile_again(files, old, notes)
        every = sorted((ROOT / "book").glob("*.md")) if options.pages == [] else []
        for page in [*every, *map(reading.page, options.pages or ())]:
            print(page.stem, file=sys.stderr, flush=True)
            reading.run(page.stem)
            kernel_cells(page)
    for name, made in content(notes).items():
        stored = files.setdefault(name, Stored())
        for key, row in made.rows.items():  # machine code that a page looked at stays
            stored.rows[key] = stored.rows.get(key, {}) | row
        stored.programs |= made.programs
    changed = save(files, options.out, toolchain.compiler())
    print(
        f"written: {', '.join(changed) or 'nothing'}; {len(files) - len(changed)} files unchanged"
    )


if __name__ == "__main__":
    main()
