"""Write what the pages of the built book load when a reader runs a cell there.

    python -m tools.page_files [--to FOLDER]

FOLDER (_build/html/run) then holds the packages of book/_run/packages.toml, this project as
book.zip, the project's own scripts from book/_run/, the licences, and manifest.json, which says
what a page loads at each stage and how many bytes that is. Files whose bytes stay are not written;
what does not belong there goes. `make book PAGE=1` calls it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

from helpers.ladder.kernel import ROOT
from nogpu.disk import replace_file
from nogpu.errors import DataError, TileError
from tools.page_files import slim
from tools.page_files.packages import TABLE, Package, bring, linked, packages

SCRIPTS = ROOT / "book" / "_run"
STAGES = ("emulator", "compiler", "editor")
LOCK, RESOURCES = "pyodide/pyodide-lock.json", "clang/llvm-resources.tar"
EMPTY_TAR = bytes(1024)
"""In place of clang's own headers and libraries, 30 MB that a kernel does not include."""


def files() -> dict[str, tuple[str, bytes]]:
    """Stage ("": none) and content of each file, by its place below run/."""
    rows = packages()
    places = {row.imported: row.files[0].to for row in rows if row.imported}
    found: dict[str, tuple[str, bytes]] = {}
    licences = []
    for row in rows:
        contents = bring(row, lambda text: print(f"[page] {text}", flush=True))
        own = [content.decode() for file, content in contents.items() if not file.to]
        licences.append("\n\n".join([_named(row), *own]))
        for file, content in contents.items():
            if file.to:
                if row.imported:
                    content = linked(content.decode(), file.to, places).encode()
                found[file.to] = row.stage, content
    found[LOCK] = "emulator", lock(found[LOCK][1], places=found)
    found[RESOURCES] = "compiler", EMPTY_TAR
    found["book.zip"] = "emulator", slim.archive()
    found["licences.txt"] = "", ("\n\n---\n\n".join(licences) + "\n").encode()
    for path in sorted(SCRIPTS.glob("*.mjs")):
        found[path.name] = "", path.read_bytes()
    found["manifest.json"] = "", manifest(found)
    return found


def _named(row: Package) -> str:
    return f"{row.name} {row.version}, {row.licence}: {row.home}"


def lock(whole: bytes, places: dict[str, tuple[str, bytes]]) -> bytes:
    """Pyodide's list of packages, cut down to NumPy, which lies one folder up.

    Raises DataError where the list has another NumPy than lies there.
    """
    listed = json.loads(whole)
    numpy = listed["packages"]["numpy"]
    wheel = places.get(numpy["file_name"], ("", b""))[1]
    if hashlib.sha256(wheel).hexdigest() != numpy["sha256"]:
        raise DataError(
            f"Pyodide's list has another NumPy ({numpy['file_name']}, SHA-256 {numpy['sha256']}) than "
            f"{TABLE}: take both of one release"
        )
    numpy["file_name"] = f"../{numpy['file_name']}"
    listed["packages"] = {"numpy": numpy}
    return (json.dumps(listed, sort_keys=True) + "\n").encode()


def manifest(found: dict[str, tuple[str, bytes]]) -> bytes:
    """What a page loads at each stage: {"stages": {"emulator": [{"path", "bytes", "key"} ...], ...}}.

    key: of the content, by which the reader's browser keeps a file.
    """
    stages = {
        stage: [
            {"path": path, "bytes": len(content), "key": hashlib.sha256(content).hexdigest()[:16]}
            for path, (of, content) in sorted(found.items())
            if of == stage
        ]
        for stage in STAGES
    }
    return (json.dumps({"stages": stages}, indent=1) + "\n").encode()


def write(folder: Path) -> tuple[int, int]:
    """Bring the folder to what `files` says; how many were written, and how many there are."""
    wanted, written = files(), 0
    for path, (_, content) in wanted.items():
        target = folder / path
        if not target.is_file() or target.read_bytes() != content:
            replace_file(target, content)
            written += 1
    for old in sorted(folder.rglob("*"), reverse=True):
        if old.is_dir() and not any(old.iterdir()):
            old.rmdir()
        elif old.is_file() and old.relative_to(folder).as_posix() not in wanted:
            old.unlink()
    return written, len(wanted)


def main() -> None:
    """The command line. Ends with 1 and the reason where something cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m tools.page_files", description=__doc__)
    parser.add_argument("--to", type=Path, default=ROOT / "_build" / "html" / "run")
    options = parser.parse_args()
    try:
        written, count = write(options.to)
    except TileError as error:
        sys.exit(f"[page] {error}")
    print(f"[page] {options.to}: {count} files, {written} of them new")


if __name__ == "__main__":
    main()
