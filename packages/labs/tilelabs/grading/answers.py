"""Written answers out of a notebook, for a person to mark: of the one that `submit` writes, and of
a student's own.

What stands there was written by a student: it is kept as text alone, without control characters,
and cut.
"""

import re
from collections.abc import Iterable

from tilelabs.judging.marking import tidy
from tilelabs.judging.notebooks import Cell
from tilelabs.labs.working import NO_ANSWER, UNANSWERED

MOST_ANSWER = 4_000
"""Characters of one answer; what is cut ends in " ...", and the whole is in what was handed in."""
_PLACEHOLDERS = (UNANSWERED, NO_ANSWER)


def answers_in(cells: Iterable[Cell], entry: str) -> dict[str, str]:
    """Answers by part: of several cells for a part the last one that holds something.

    Nothing where the placeholder still stands.

    entry: as in `collecting.collect`. An answer is a cell of code below `%%answer lab2 written`, or
    the cell of Markdown that `submit` names `written-answer`.
    """
    first = re.compile(rf"\s*%%answer[ \t]+{entry}[ \t]+(\w+)[ \t]*(?:\n|$)")
    found = dict[str, str]()
    for kind, name, text in cells:
        plain = text.replace("\r\n", "\n")
        if kind == "code" and (head := first.match(plain)):
            part, answer = head[1], plain[head.end() :]
        elif kind == "markdown" and name.endswith("-answer"):
            part, answer = name.removesuffix("-answer"), text
        else:
            continue
        if answer := tidied(answer):
            found[part[:80]] = answer
    return found


def tidied(text: str) -> str:
    """An answer as it is kept: its lines and their indents, and nothing else in it but words; ""
    for none.
    """
    plain = text.encode("utf-8", "replace").decode().strip()
    for words in _PLACEHOLDERS:
        plain = plain.removeprefix(words).strip()
    lines = [_line(line) for line in plain[: 2 * MOST_ANSWER].splitlines()]
    whole = "\n".join(lines).strip()
    return whole if len(whole) <= MOST_ANSWER else whole[: MOST_ANSWER - 4] + " ..."


def _line(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))] + tidy(line, MOST_ANSWER)
