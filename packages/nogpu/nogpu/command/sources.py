"""A .cu file with the files that it includes as one text, and where each of its lines came from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nogpu import project
from nogpu.emulator import Finding
from nogpu.errors import SourceError
from nogpu.text import MOST_BYTES, decode

_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*"([^"]+)"')
_HOPPER = re.compile(
    r"\bwgmma\b|\bCUtensorMap\b|cp\.async\.bulk|\bsetmaxnreg\b|__cluster_dims__|\bthis_cluster\b"
)
_BLACKWELL = re.compile(r"\btcgen05\.[a-z]|\bclusterlaunchcontrol\.[a-z]")


@dataclass(frozen=True)
class Source:
    """One text of a file and of those beside it that it includes.

    places: file and line of each line of the text. name: of the file, as messages show it.
    """

    name: str
    text: str
    places: tuple[tuple[str, int], ...]

    def place(self, line: int) -> tuple[str, int]:
        """The file and the line that a line of the text was read from."""
        return self.places[line - 1] if 0 < line <= len(self.places) else (self.name, line)

    def say(self, message: str) -> str:
        """A message about lines of the text, about those of the files that they came from."""

        def spoken(match: re.Match[str]) -> str:
            file, line = self.place(int(match[1] or match[2]))
            if match[2]:  # as a compiler has it
                return f"{file}({line})"
            return f"line {line}" + (f" of {file}" if file != self.name else "")

        return re.sub(rf"\bline (\d+)|{re.escape(self.name)}\((\d+)\)", spoken, message)

    def placed(self, finding: Finding) -> Finding:
        """A finding about the lines of the files that the text's lines were read from."""
        file, line = self.place(finding.line)
        other = self.place(finding.other_line)[1] if finding.other_line else 0
        words = self.say(finding.message)
        return replace(finding, file=file, line=line, other_line=other, message=words)

    def arch(self) -> str:
        """The architecture that the text is written for, as far as its words tell."""
        if _BLACKWELL.search(self.text) and not re.search(r"\bwgmma\.[a-z]", self.text):
            return "sm_100a"
        return "sm_90a" if _HOPPER.search(self.text) else "sm_80"


def read(path: Path) -> Source:
    """A file and what it includes from its own folder, each once.

    Raises SourceError for a file that is not there or is no text, or that is too long.
    """
    if not path.is_file():
        raise SourceError(f"{path} is no file: give the path of a .cu file")
    lines = list(_lines(path, path, set()))
    text = "\n".join(line for line, _ in lines)
    if len(text) > 8 * MOST_BYTES:
        raise SourceError(
            f"{path.name} and what it includes have {len(text):,} characters, and "
            f"{8 * MOST_BYTES:,} may be read: hand in the kernel alone"
        )
    return Source(path.name, text, tuple(place for _, place in lines))


def _lines(path: Path, root: Path, done: set[Path]) -> Iterator[tuple[str, tuple[str, int]]]:
    """Each line, and its place. done: files that have been read."""
    done.add(path.resolve())
    for number, line in enumerate(decode(path.read_bytes(), path.name).split("\n"), 1):
        if match := _INCLUDE.match(line):
            folders = (path.parent, root.parent)
            near = next((f / match[1] for f in folders if (f / match[1]).is_file()), None)
            if near is not None and project.header(match[1]) is None:
                if near.resolve() not in done:
                    yield from _lines(near, root, done)
                continue
        once = re.match(r"[ \t]*#[ \t]*pragma[ \t]+once\b", line)
        yield "" if once else line, (path.name, number)
