"""What NVRTC made of the sources that the pages ask about, stored for machines that have no NVRTC.

Registers, spills and machine code are NVIDIA's compiler's alone. `data/compiled.json` holds them for the
kernels of the catalog with their own tiles, and for every other source that a page compiles to look at
its machine code. A row is found by the text that was compiled (comments aside), its headers, its macros,
its options and the architecture: where one of them differs there is no row.

`data/compiled_ptx.xz` holds the PTX itself of all that the pages compile, for machines with no compiler at
all: there the emulator runs it. PTX says the lines of its source, so such a row is found by the exact text.
`python -m tests.compiled` writes both files, and tests hold them to what NVRTC says.
"""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nogpu import project
from nogpu.errors import DataError
from nogpu.text import PRELUDE, headers

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "data" / "compiled.json"
PROGRAMS = ROOT / "data" / "compiled_ptx.xz"
MARK = b"disassembled before: "
"""What stands in place of machine code: this, and the key of the row. No GPU takes it."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'#include\s+"([^"]+)"')


@dataclass(frozen=True)
class Row:
    """One compilation. kernels: registers, spill stores, spill loads, stack and shared bytes by entry.

    sass: the number of its disassembly, or None where nobody asked for it.
    """

    key: str
    kernels: Mapping[str, tuple[int, int, int, int, int]]
    sass: int | None


@dataclass(frozen=True)
class Table:
    """The stored compilations, and the version of the compiler that made them."""

    compiler: str
    rows: Mapping[str, Row]
    packed: str


def key(
    source: str,
    arch: str,
    defines: Iterable[tuple[str, str]],
    options: Sequence[str],
) -> str:
    """Short hash of what is compiled: text and headers without comments, macros, options, arch."""
    texts, seen, queue = [], set(), [source]
    while queue:
        text = queue.pop()
        texts.append(" ".join(_COMMENT.sub(" ", text).split()))
        for name in _INCLUDE.findall(text):
            if name not in seen and (path := project.header(name)):
                seen.add(name)
                queue.append(path.read_text(encoding="utf-8"))
    asked = [sorted(texts), sorted(defines), list(options), arch]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


@cache
def table(path: Path = FILE) -> Table:
    """The file, read once; empty if there is none. Raises DataError if it is damaged."""
    if not path.is_file():
        return Table("", {}, "")
    try:
        held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rows = {
            k: Row(k, {n: tuple(r) for n, r in row["kernels"].items()}, row.get("sass"))
            for k, row in held["rows"].items()
        }
        return Table(held["compiler"], rows, held["sass"])
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{path} is damaged ({error}); get it anew, or write it on a machine with "
            "NVRTC: python -m tests.compiled"
        ) from None


def find(*asked: Any) -> Row | None:
    """The row of a compilation (the arguments of `key`), or None."""
    return table().rows.get(key(*asked))


@cache
def _disassemblies(packed: str) -> tuple[str, ...]:
    return tuple(json.loads(lzma.decompress(base64.b85decode(packed))))


def pack(texts: Sequence[str]) -> str:
    """Disassemblies as one text for the file."""
    return base64.b85encode(lzma.compress(json.dumps(texts).encode(), preset=9)).decode()


def sass(cubin: bytes) -> str | None:
    """The stored disassembly that stands for this machine code; None if it is none, or not kept."""
    if not cubin.startswith(MARK):
        return None
    row = table().rows.get(cubin[len(MARK) :].decode())
    return None if row is None or row.sass is None else _disassemblies(table().packed)[row.sass]


_LINE = re.compile(
    r"^\s*(?:(\.text\.\S+:)|(\.L_\w+:)|(/\*[0-9a-f]{4,}\*/)\s+((?:@!?U?P\w+\s+)?[A-Z][^;]*?)\s*;)"
)


def slim(text: str) -> str:
    """A disassembly's sections, labels and instructions, without what encodes them."""
    kept = []
    for line in text.splitlines():
        if found := _LINE.match(line):
            section, label, address, instruction = found.groups()
            kept.append(section or label or f"{address} {instruction};")
    return "\n".join(kept)


# -- PTX, for machines with no compiler ---------------------------------------------------------------


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
    source: str,
    name: str,
    arch: str,
    defines: Iterable[tuple[str, str]],
    options: Sequence[str],
    expressions: Sequence[str],
) -> str:
    """Short hash of a compilation, comments and lines included."""
    beside = [path.read_text(encoding="utf-8") for path in headers(source)]
    plain = [option.replace(str(PRELUDE.parent), "/helpers") for option in options]
    asked = [source, beside, name, arch, sorted(defines), plain, list(expressions)]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:20]


@cache
def programs(path: Path = PROGRAMS) -> Mapping[str, Program]:
    """The stored programs by key; none if there is no file. Raises DataError if it is damaged."""
    if not path.is_file():
        return {}
    try:
        held = json.loads(lzma.decompress(path.read_bytes()))
        return {key: Program(p, n, log, tuple(r)) for key, (p, n, log, r) in held.items()}
    except (OSError, ValueError, lzma.LZMAError) as error:
        raise DataError(
            f"{path} is damaged ({error}); get it anew, or write it on a machine with "
            "NVRTC: python -m tests.compiled"
        ) from None


def program(*asked: Any) -> Program | None:
    """The program of a compilation (the arguments of `program_key`), or None."""
    held = programs()
    return held.get(program_key(*asked)) if held else None


def write_programs(rows: Mapping[str, Program], path: Path = PROGRAMS) -> None:
    """The file, the same bytes for the same rows; paths of this machine are left out."""
    held = {
        key: [
            _placeless(p.ptx),
            dict(p.names),
            _placeless(p.log),
            [_placeless(r) for r in p.refused],
        ]
        for key, p in sorted(rows.items())
    }
    path.write_bytes(lzma.compress(json.dumps(held).encode(), preset=9))


_FOLDER = re.compile(r"/[^\s\"']*/((?:nvidia|include|kernels|cores|your_cores)/)")


def _placeless(text: str) -> str:
    """A text in which files below a folder of this machine are named from kernels/, cores/ or include/ on."""
    return _FOLDER.sub(r"\1", text.replace(str(ROOT) + "/", ""))
