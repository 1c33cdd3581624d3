"""Sentences that hold only while a number has a sign, an order or a size: tied to that condition.

A page marks the words, `reads [do not fall at all]{holds="same_reads"}`, and states the condition
under the same key in a code cell, `holds(same_reads=abs(reads - 1) < 0.01)`. When the record or the
compiler changes so that it no longer holds, the book does not build, and the error names the words
by page and line. In a notebook on a reader's machine, whose compiler or GPU may differ from the
book's, nothing stops: a note says which words do not hold there.
"""

import ast
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.ladder.kernel import ROOT
from nogpu.errors import ConfigError, DataError

BOOK = ROOT / "book"
"""Where the pages are."""
PAGE = "TILE_PAGE"
"""The variable of the environment that names the page whose cells run: `10_vectorised.md`."""
MARK = re.compile(r'\]\{holds="(\w+)"\}')
"""What closes marked words."""
LONGEST = 80
"""Characters of a value that a message still shows."""


class FalseSentenceError(DataError):
    """A sentence of the book that its own numbers no longer bear out."""


@dataclass(frozen=True)
class Mark:
    """Words of a page that need a condition. start, end: of `[words]{holds="key"}` in the page."""

    key: str
    line: int
    words: str
    start: int
    end: int


def holds(**conditions: bool) -> None:
    """State the conditions under which the words that the page marks with these keys are true.

    conditions: a bool by key; at least one place on the page is marked `[words]{holds="key"}`
    (`faults` compares the two before a page runs). Raises FalseSentenceError, naming page, line,
    words and numbers, if a condition is false while the book is built (TILE_BOOK_BUILD is set);
    elsewhere a false condition prints a note. Raises ConfigError if a condition is no bool, so that
    a number that happens to be truthy is not taken for one.
    """
    for key, condition in conditions.items():
        if not isinstance(condition, (bool, np.bool_)):
            raise ConfigError(
                f"holds({key}=...) got a {type(condition).__name__} as its condition; give a "
                "comparison, which is True or False"
            )
    false = [key for key, condition in conditions.items() if not condition]
    if not false:  # and the page stays unread: what a run reads, it is run again for
        return
    name = os.environ.get(PAGE, "")
    path = BOOK / name
    page = path.read_text(encoding="utf-8") if path.is_file() else ""
    marked = {key: [m for m in marks(page) if m.key == key] for key in false}
    stated = {key: condition for _, key, condition in conditions_of(page)}
    caller = sys._getframe(1)
    reasons = {
        key: _because(stated[key], caller.f_globals, caller.f_locals) if key in stated else ""
        for key in false
    }
    if not os.environ.get("TILE_BOOK_BUILD"):
        for key in false:
            for words in [m.words for m in marked[key]] or [key]:
                print(
                    f"Here it is otherwise than the text says: “{words}” does not"
                    f" hold.{reasons[key]}"
                )
        return
    places = [
        f"  {where}“{words}”.{reasons[key]}"
        for key in false
        for where, words in [(f"book/{name}:{m.line}: ", m.words) for m in marked[key]]
        or [("", key)]
    ]
    raise FalseSentenceError(
        "no longer true of the numbers that it rests on:\n"
        + "\n".join(places)
        + "\nRewrite the sentence and its condition, or find out why the numbers changed."
    )


def _because(condition: ast.expr, *names: dict[str, Any]) -> str:
    """The condition as the page writes it, and what its sides come to where it is stated."""
    found: dict[str, str] = {}
    for node in ast.walk(condition):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        for side in sides or [condition]:
            if isinstance(side, ast.Constant | ast.Compare | ast.BoolOp):
                continue
            try:
                value = eval(compile(ast.Expression(side), "<condition>", "eval"), *names)
            except Exception:  # a name of a generator's
                continue
            shown = f"{value:.6g}" if isinstance(value, int | float | np.number) else str(value)
            if len(shown) <= LONGEST and not isinstance(value, bool | np.bool_):
                found[ast.unparse(side)] = shown
    numbers = "; ".join(f"{side} = {value}" for side, value in found.items())
    return f" The condition: {ast.unparse(condition)}{f', where {numbers}' * bool(numbers)}."


# --- what a page's source says -------------------------------------------------------------------


def marks(page: str) -> list[Mark]:
    """The marked words of a page's source, in order; what stands in code is none."""
    text = _without_code(page)
    found = []
    for match in MARK.finditer(text):
        depth, start = 0, match.start()
        while start >= 0 and text[start] != "\n":
            depth += {"]": 1, "[": -1}.get(text[start], 0)
            if not depth:
                break
            start -= 1
        if not depth:
            words = text[start + 1 : match.start()]
            line = page.count("\n", 0, start) + 1
            found.append(Mark(match[1], line, words, start, match.end()))
    return found


def unmarked(page: str) -> str:
    """A page's source as it reads without its marks: words and line numbers stay."""
    for mark in reversed(marks(page)):
        page = f"{page[: mark.start]}{mark.words}{page[mark.end :]}"
    return page


def conditions_of(page: str) -> Iterator[tuple[int, str, ast.expr]]:
    """Line, key and expression of every condition that the cells of a page state."""
    for _, call, first in _calls(page):
        for keyword in call.keywords:
            if keyword.arg:
                yield first + keyword.value.lineno - 1, keyword.arg, keyword.value


def faults(page: str) -> list[tuple[int, str]]:
    """Line and words of what is wrong: marks without a condition, conditions without a mark."""
    marked, text = marks(page), _without_code(page)
    stated = list(conditions_of(page))
    keys = [key for _, key, _ in stated]
    found = [
        (page.count("\n", 0, at.start()) + 1, 'write a mark as [words]{holds="key"}, in one line')
        for at in re.finditer(r"holds\s*=", text)
        if not any(m.start < at.start() < m.end for m in marked)
    ]
    for mark in marked:
        if mark.key not in keys:
            found.append((mark.line, f"no cell states the condition {mark.key}, of {mark.words!r}"))
        if not mark.words.strip():
            found.append((mark.line, f"the mark {mark.key} holds no words"))
    for at, (line, key, condition) in enumerate(stated):
        if key not in {mark.key for mark in marked}:
            found.append((line, f'no words are marked with {{holds="{key}"}}'))
        if key in keys[:at]:
            found.append((line, f"the condition {key} is stated twice"))
        if not any(isinstance(node, ast.Name) for node in ast.walk(condition)):
            found.append((line, f"the condition {key} rests on no value"))
    for at_once, call, first in _calls(page):
        line = first + call.lineno - 1
        if not at_once:
            found.append((line, "holds() stands inside a statement, where it may not run"))
        if call.args or any(not keyword.arg for keyword in call.keywords):
            found.append((line, "holds() takes its conditions one by one, key=condition"))
    return sorted(found)


def _calls(page: str) -> Iterator[tuple[bool, ast.Call, int]]:
    """Each call of holds(): whether it is a statement of its cell, and its cell's first line."""
    for first, code in cells(page):
        try:
            tree = ast.parse(code) if "holds(" in code else None
        except SyntaxError:  # a cell with a magic of IPython's
            continue
        at_once = {s.value for s in tree.body if isinstance(s, ast.Expr)} if tree else set()
        for node in ast.walk(tree) if tree else ():
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "holds"
            ):
                yield node in at_once, node, first


def cells(page: str) -> list[tuple[int, str]]:
    """The code cells of a page's source: the number of its first line, and the code of each.

    Options such as `:tags:` are blanked, so that line numbers count from the fence.
    """
    found = []
    for match in re.finditer(r"(?ms)^```\{code-cell\}[^\n]*\n(.*?)^```$", page):
        code = re.sub(r"(?m)\A(?::[\w-]+:[^\n]*\n)+", lambda m: "\n" * m[0].count("\n"), match[1])
        found.append((page.count("\n", 0, match.start(1)) + 1, code))
    return found


def _without_code(page: str) -> str:
    """A page's source with its fenced code as blanks, each character at its place."""
    return re.sub(r"(?ms)^```.*?^```$", lambda m: re.sub(r"[^\n]", " ", m[0]), page)
