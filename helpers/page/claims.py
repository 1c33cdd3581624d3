"""Sentences that hold only while a number has a sign, an order or a size: tied to that condition.

A chapter writes holds("the larger thread tile loses", small > large) beside the glue. When the
record or the compiler changes so that the condition no longer holds, the book does not build, and
the error names the sentence by page and line. In a notebook on a reader's machine, whose compiler
or GPU may differ from the book's, nothing stops: a note says which sentence does not hold there.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence

import numpy as np

from helpers.ladder.kernel import ROOT
from nogpu.errors import ConfigError, DataError

BOOK = ROOT / "book"
"""Where the pages are, in which a sentence is looked up."""


class FalseSentenceError(DataError):
    """A sentence of the book that its own numbers no longer bear out."""


def holds(says: str | Sequence[str], condition: bool, **numbers: float | str) -> None:
    """Tie words of the page to the condition under which they are true.

    says: words of the sentence as they stand in the page, or several such quotations; each must be
    found in one line of one page. condition: a bool. numbers: what it was computed from, for the
    message. Raises FalseSentenceError, naming page and line, if the condition is false while the
    book is built (TILE_BOOK_BUILD is set); elsewhere a false condition prints a note. Raises
    ConfigError if condition is no bool, so that a number that happens to be truthy is not taken for
    one.
    """
    quotes = tuple(says) if isinstance(says, list | tuple) else (says,)
    if not quotes or not all(isinstance(q, str) and q.strip() for q in quotes):
        raise ConfigError(f"holds({says!r}, ...): give the words of a sentence, or several")
    if not isinstance(condition, (bool, np.bool_)):
        raise ConfigError(
            f"holds({quotes[0]!r}, ...) got a {type(condition).__name__} as its condition; give a "
            "comparison, which is True or False"
        )
    if condition:
        return
    because = "; ".join(f"{name} = {_shown(value)}" for name, value in numbers.items())
    numbers_say = f" The numbers: {because}." if because else ""
    if os.environ.get("TILE_BOOK_BUILD"):
        places = "\n".join(f"  {place(quote)}" for quote in quotes)
        raise FalseSentenceError(
            f"a sentence is no longer true of the numbers it rests on:\n{places}\n{numbers_say.strip()} "
            "Rewrite the sentence and its condition, or find out why the numbers changed."
        )
    for quote in quotes:
        print(f"Here it is otherwise than the text says: “{quote}” does not hold.{numbers_say}")


def _shown(value: float | str) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float, np.number)) else str(value)


def place(quote: str) -> str:
    """Where a quotation stands: `book/13_loop_registers.md:120: “...”`; its words alone if nowhere."""
    found = [f"book/{page}:{line}" for page, line in _lines_with(quote)]
    return f"{' and '.join(found) or 'on no page'}: “{quote}”"


def _lines_with(quote: str) -> Iterator[tuple[str, int]]:
    for path in sorted(BOOK.glob("*.md")):
        for number, line in enumerate(prose(path.read_text(encoding="utf-8")).split("\n"), 1):
            if quote in line:
                yield path.name, number


def prose(page: str) -> str:
    """A page's source with its calls of holds() blanked and its line numbers kept."""
    lines = page.split("\n")
    for first, code in cells(page):
        try:
            tree = ast.parse(code)
        except SyntaxError:  # a cell with a magic of IPython's
            continue
        for node in calls(tree):
            for line in range(first + node.lineno - 1, first + (node.end_lineno or node.lineno)):
                lines[line - 1] = ""
    return "\n".join(lines)


def cells(page: str) -> list[tuple[int, str]]:
    """The code cells of a page's source: the number of its first line, and the code of each.

    Options such as `:tags:` are blanked, so that line numbers count from the fence.
    """
    found = []
    for match in re.finditer(r"(?ms)^```\{code-cell\}[^\n]*\n(.*?)^```$", page):
        code = re.sub(r"(?m)\A(?::[\w-]+:[^\n]*\n)+", lambda m: "\n" * m[0].count("\n"), match[1])
        found.append((page.count("\n", 0, match.start(1)) + 1, code))
    return found


def calls(tree: ast.AST) -> list[ast.Call]:
    """The calls of holds() in a cell."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "holds"
    ]
