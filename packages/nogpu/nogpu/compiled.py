"""What NVRTC made of a project's sources, stored for machines that have no NVRTC.

Registers, spills and machine code are NVIDIA's compiler's alone. The folder that the project
registers holds two files for each source, by the name of its kernel: `NAME.json` has registers and
spills, of the sources whose machine code somebody looks at too; a row is found by the text that was
compiled (comments aside), its headers, its macros, its options and the architecture: where one of
them differs there is no row.

`NAME.xz` has the disassemblies, and the PTX itself of all that is to run on machines with no
compiler at all: there the emulator runs it. PTX says the lines of its source, so it is found by the
exact text. `python -m tools.compiled` writes both, and tests hold them to what NVRTC says.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from nogpu import project
from nogpu.errors import DataError
from nogpu.text import PRELUDE, headers

MARK = b"disassembled before: "
"""What stands in place of machine code: this, the file and the key of the row. No GPU takes it."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ATTRIBUTE = re.compile(r"\b__(?!global__)\w+__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_KERNEL = re.compile(r"\b__global__\b[^(){};]*?\b(\w{1,60})\s*\(", re.ASCII)


def file_of(source: str) -> str:
    """The stem of the files of a source: the name of its first kernel in small letters, else
    "nameless"."""
    match = _KERNEL.search(_ATTRIBUTE.sub(" ", _COMMENT.sub(" ", source)))
    return match[1].lower() if match else "nameless"


@dataclass(frozen=True)
class Row:
    """One compilation. kernels: registers, spill stores, spill loads, stack and shared bytes by
    entry.

    sass: the number of its disassembly, or None where nobody asked for it.
    """

    file: str
    key: str
    kernels: Mapping[str, tuple[int, int, int, int, int]]
    sass: int | None

    @property
    def cubin(self) -> bytes:
        """What stands in place of its machine code."""
        return MARK + f"{self.file}/{self.key}".encode()


def key(source: str, arch: str, defines: Iterable[tuple[str, str]], options: Sequence[str]) -> str:
    """Short hash of what is compiled: text and headers without comments, macros, options, arch."""
    texts = (source, *(path.read_text(encoding="utf-8") for path in headers(source)))
    plain = sorted(" ".join(_COMMENT.sub(" ", text).split()) for text in texts)
    decisive = [plain, sorted(defines), list(options), arch]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:16]


@contextmanager
def _sound(path: Path) -> Iterator[None]:
    """Raises DataError where a file does not hold what it should."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} is damaged ({error}); get it anew, or write it on a machine with "
            "NVRTC: python -m tools.compiled"
        ) from None


@lru_cache(maxsize=256)
def _table(path: Path) -> tuple[str, Mapping[str, Row]]:
    """The compiler and the rows of a NAME.json; none if there is no file."""
    if not path.is_file():
        return "", {}
    with _sound(path):
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rows = {
            k: Row(path.stem, k, {n: tuple(r) for n, r in row["kernels"].items()}, row.get("sass"))
            for k, row in stored["rows"].items()
        }
        made_by = str(stored["compiler"])
    return made_by, rows


@lru_cache(maxsize=8)
def _archive(path: Path) -> tuple[tuple[str, ...], Mapping[str, Program]]:
    """The disassemblies and the programs of a NAME.xz; none if there is no file.

    NAME.unpacked in its place holds the same as it is: Python in a browser lacks lzma.
    """
    unpacked = path.with_suffix(".unpacked")
    if not unpacked.is_file() and not path.is_file():
        return (), {}
    with _sound(path):
        here = unpacked.is_file()
        stored = json.loads(unpacked.read_bytes() if here else _unpack(path.read_bytes()))
        programs = {
            k: Program(p, n, log, tuple(r)) for k, (p, n, log, r) in stored["programs"].items()
        }
        texts = tuple(stored["sass"])
    return texts, programs


def _unpack(packed: bytes) -> bytes:
    """Raises ValueError for bytes that are damaged."""
    import lzma

    try:
        return lzma.decompress(packed)
    except lzma.LZMAError as error:
        raise ValueError(str(error)) from None


def compiler() -> str:
    """The compiler that made what is stored, such as "NVRTC 13.0"; "" where nothing is."""
    files = sorted(project.stored.glob("*.json")) if project.stored else []
    return _table(files[0])[0] if files else ""


def find(source: str, *arguments: Any) -> Row | None:
    """The row of a compilation (the arguments of `key`), or None."""
    if not project.stored:
        return None
    return _table(project.stored / f"{file_of(source)}.json")[1].get(key(source, *arguments))


def sass(cubin: bytes) -> str | None:
    """The stored disassembly that stands for this machine code; None if it is none, or not kept."""
    if not project.stored or not cubin.startswith(MARK):
        return None
    name, _, row_key = cubin[len(MARK) :].decode().partition("/")
    row = _table(project.stored / f"{name}.json")[1].get(row_key)
    if row is None or row.sass is None:
        return None
    return _archive(project.stored / f"{name}.xz")[0][row.sass]


_LINE = re.compile(
    r"^\s*(?:(\.text\.\S+:)|(\.L_\w+:)|(/\*[0-9a-f]{4,}\*/)\s+((?:@!?U?P\w+\s+)?[A-Z][^;]*?)\s*;)"
)


def slim(text: str) -> str:
    """A disassembly's sections, labels and instructions, without what encodes them."""
    lines = []
    for line in text.splitlines():
        if match := _LINE.match(line):
            section, label, address, instruction = match.groups()
            lines.append(section or label or f"{address} {instruction};")
    return "\n".join(lines)


# -- PTX, for machines with no compiler ----------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """What NVRTC made of one exact text: PTX, names by name expression, log; or what it refused.

    refused: message, log and hint of the CompileError; empty for a text that compiles.
    """

    ptx: str
    names: Mapping[str, str]
    log: str
    refused: tuple[str, str, str] | tuple[()] = ()


def program_key(
    source: str, name: str, arch: str, defines: Iterable[tuple[str, str]], options: Sequence[str],
    expressions: Sequence[str],
) -> str:  # fmt: skip
    """Short hash of a compilation, comments and lines included."""
    beside = [path.read_text(encoding="utf-8") for path in headers(source)]
    plain = [option.replace(str(PRELUDE.parent), "/helpers") for option in options]
    decisive = [source, beside, name, arch, sorted(defines), plain, list(expressions)]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:20]


def program(source: str, *arguments: Any) -> Program | None:
    """The program of a compilation (the arguments of `program_key`), or None."""
    if not project.stored:
        return None
    programs = _archive(project.stored / f"{file_of(source)}.xz")[1]
    return programs.get(program_key(source, *arguments)) if programs else None
