"""Other projects' files, by hash: fetched once into the user's cache, and checked at every use.

book/_run/packages.toml says which. A file lies in the cache under its SHA-256, so that a second
build needs no network; with TILE_CACHE=0 nothing is kept.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from helpers.ladder.kernel import ROOT
from nogpu import disk
from nogpu.errors import DataError

TABLE = ROOT / "book" / "_run" / "packages.toml"


@dataclass(frozen=True)
class File:
    """A file of a package: the end of its path there, its place below run/ ("": a licence)."""

    member: str
    size: int
    sha256: str
    to: str = ""

    def fault(self, content: bytes) -> str:
        """What is wrong with these bytes, in words; "" if they are the file."""
        found = hashlib.sha256(content).hexdigest()
        if found == self.sha256 and len(content) == self.size:
            return ""
        return (
            f"{self.member} has {len(content):,} bytes with SHA-256 {found}, and is to have "
            f"{self.size:,} with {self.sha256}"
        )


@dataclass(frozen=True)
class Package:
    """A package: sources are tried in turn, each an address, "npm NAME@VERSION" or "pypi NAME==VERSION"."""

    name: str
    version: str
    licence: str
    home: str
    stage: str
    sources: tuple[str, ...]
    files: tuple[File, ...]
    imported: str = ""


def packages(table: Path = TABLE) -> tuple[Package, ...]:
    """The rows of packages.toml. Raises DataError for a damaged one."""
    try:
        rows = tomllib.loads(table.read_text(encoding="utf-8"))["package"]
        files = [tuple(File(**file) for file in row.pop("files")) for row in rows]
        sources = [tuple(row.pop("from")) for row in rows]
        made = zip(sources, files, rows, strict=True)
        return tuple(Package(sources=source, files=of, **row) for source, of, row in made)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{table} is no table of packages: {error}") from None


def folder() -> Path | None:
    """Where files are kept between builds; None where TILE_CACHE=0 says that nothing is."""
    return None if os.environ.get(disk.SWITCH) == "0" else disk.user_folder() / "packages"


def bring(package: Package, say: Callable[[str], None] = print) -> dict[File, bytes]:
    """The files of a package: from the cache, else from the first source that has them.

    say: is told what is fetched. Raises DataError if no source gives exactly these bytes; then
    nothing is kept.
    """
    kept = folder()
    cached = _kept(package, kept) if kept else None
    if cached is not None:
        return cached
    complaints = []
    for source in package.sources:
        say(f"fetching {package.name} {package.version}: {source}")
        try:
            found = _from(source, package.files)
        except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, _NotThere) as error:
            complaints.append(f"{source}: {_plain(error)}")
            continue
        faults = [file.fault(found[file]) for file in package.files if file in found]
        faults += [f"it has no {file.member}" for file in package.files if file not in found]
        if wrong := [fault for fault in faults if fault]:
            complaints.append(f"{source}: {wrong[0]}")
            continue
        if kept:
            for file, content in found.items():
                disk.replace_file(kept / file.sha256, content)
        return found
    raise DataError(
        f"{package.name} {package.version} could not be fetched, and pages that run need it. If "
        "this machine has no network now, call make again when it has; without PAGE=1 the book "
        "needs none of it.\n" + "\n".join(f"- {text}" for text in complaints)
    )


def _kept(package: Package, kept: Path) -> dict[File, bytes] | None:
    """The files as the cache has them, or None if one is not there or not itself any more."""
    contents = {}
    for file in package.files:
        try:
            content = (kept / file.sha256).read_bytes()
        except OSError:
            return None
        if file.fault(content):
            return None
        contents[file] = content
    return contents


class _NotThere(Exception):
    """A client that is not installed or ends with an error; the message is its own."""


def _plain(error: BaseException) -> str:
    return f"{getattr(error, 'reason', None) or error}".strip() or type(error).__name__


def _from(source: str, files: Sequence[File]) -> dict[File, bytes]:
    """What a source has of these files. Raises OSError, _NotThere, an error of the archive."""
    client, _, name = source.partition(" ")
    if not name:
        with (
            urllib.request.urlopen(source, timeout=60) as answer,
            tarfile.open(fileobj=answer, mode="r|*") as archive,
        ):
            return _members(_of_tar(archive), files)
    with TemporaryDirectory() as there:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        _call(
            ["npm", "pack", "--silent", "--pack-destination", there, name]
            if client == "npm"
            else [*pip, "--no-deps", "--dest", there, name]
        )
        (path,) = Path(there).iterdir()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as wheel:
                return _members(((n, partial(wheel.read, n)) for n in wheel.namelist()), files)
        with tarfile.open(path) as archive:
            return _members(_of_tar(archive), files)


def _call(command: Sequence[str]) -> None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        hint = " (it comes with Node.js)" if command[0] == "npm" else ""
        raise _NotThere(f"there is no {command[0]} on this machine{hint}") from None
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        raise _NotThere(
            lines[-1].strip() if lines else f"{command[0]} ended with {ended.returncode}"
        )


Members = Iterator[tuple[str, Callable[[], bytes]]]
"""Name and content of each file of an archive, in its order."""


def _of_tar(archive: tarfile.TarFile) -> Members:
    for member in archive:
        if (opened := archive.extractfile(member)) is not None:
            yield member.name, opened.read


def _members(members: Members, files: Sequence[File]) -> dict[File, bytes]:
    """Those of the files that an archive has; it is read no further than to the last of them."""
    found: dict[File, bytes] = {}
    for name, read in members:
        for file in files:
            if f"/{name}".endswith(f"/{file.member}"):
                found[file] = read()
        if len(found) == len(files):
            break
    return found


_IMPORT = re.compile(r"""((?:\bfrom|\bimport)\s*\(?\s*)(["'])([@\w][\w@/.-]*)\2""")


def linked(text: str, to: str, places: Mapping[str, str]) -> str:
    """JavaScript in which modules are imported from relative files.

    to: its own place; places: the place of each module by the name that it is imported by. Raises
    DataError for an import of a module that is none of them.
    """

    def relative(found: re.Match[str]) -> str:
        before, quote, name = found.groups()
        if name not in places:
            raise DataError(f"{to} imports {name!r}, which book/_run/packages.toml does not have")
        path = os.path.relpath(places[name], os.path.dirname(to))
        return f"{before}{quote}{path if path.startswith('.') else f'./{path}'}{quote}"

    return _IMPORT.sub(relative, text)
