"""Debug locations of LLVM as the .file and .loc of PTX."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

_LOCATION = re.compile(r"!DILocation\(line: (\d+)(?:, column: (\d+))?, scope: !(\d+)")
_FIELD = {word: re.compile(rf"\b{word}: !(\d+)") for word in ("inlinedAt", "file", "scope")}
_NAME = re.compile(r'filename: "([^"]*)"')
_LINE = re.compile(r"\bline: (\d+)")


class _Place(NamedTuple):
    file: str
    line: int
    column: int


class Places:
    """The locations of a module's nodes; files are numbered as they are met.

    main: the path of the source, whose calls are named where something was inlined.
    """

    def __init__(self, nodes: Mapping[str, str], main: str) -> None:
        self._nodes, self._main = nodes, main
        self._numbers: dict[str, int] = {}
        self.number(main)
        self.directive = cache(self._directive)
        self._file = cache(self._file_of)

    def number(self, file: str) -> int:
        """The number of a file."""
        return self._numbers.setdefault(file, len(self._numbers) + 1)

    def files(self) -> list[str]:
        """The .file directives."""
        return [f'\t.file\t{number} "{file}"' for file, number in self._numbers.items()]

    def beginning(self, node: str) -> str:
        """The .loc of a function."""
        line = _LINE.search(self._nodes.get(node, ""))
        return f"\t.loc\t{self.number(self._file(node))} {line[1] if line else 0} 0"

    def line(self, node: str) -> int:
        """The line of the source at which an instruction stands, or that of the call inlined to
        it; 0 where there is none.
        """
        return next((p.line for p in self._chain(node) if p.file == self._main), 0)

    def _directive(self, node: str) -> str:
        """The .loc of an instruction: its place, and the innermost call in the source itself."""
        chain = self._chain(node)
        if not chain:
            return ""
        here, *calls = chain
        text = f"\t.loc\t{self.number(here.file)} {here.line} {here.column}"
        call = next((c for c in calls if c.file == self._main), None)
        if call is None:
            return text
        at = f"{self.number(call.file)} {call.line} {call.column}"
        return f"{text}, function_name $L, inlined_at {at}"

    def _chain(self, node: str) -> list[_Place]:
        chain = []
        while node and (match := _LOCATION.search(self._nodes.get(node, ""))):
            inlined = _FIELD["inlinedAt"].search(self._nodes[node])
            node = inlined[1] if inlined else ""
            chain.append(_Place(self._file(match[3]), int(match[1]), int(match[2] or 0)))
        return chain

    def _file_of(self, scope: str) -> str:
        text = self._nodes.get(scope, "")
        if file := _FIELD["file"].search(text):
            name = _NAME.search(self._nodes.get(file[1], ""))
            return name[1] if name else ""
        outer = _FIELD["scope"].search(text)
        return self._file(outer[1]) if outer else ""
