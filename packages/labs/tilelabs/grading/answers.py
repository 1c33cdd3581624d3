"""Written answers out of a notebook, for a person to mark: of the one that `submit` writes, and of
a student's own.

What stands there was written by a student: it is kept as text alone, without control characters,
and cut.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tilelabs.judging.marking import tidy
from tilelabs.labs.working import NO_ANSWER, UNANSWERED

MOST_ANSWER = 4_000
"""Characters of one answer; what is cut ends in " ...", and the whole is in what was handed in."""
_PLACEHOLDERS = (UNANSWERED, NO_ANSWER)


def answers_in(raw: bytes, entry: str) -> dict[str, str]:
    """Answers by part: of several cells for a part the last one that holds something.

    Nothing for what is no notebook, or where the placeholder still stands.

    entry: as in `collecting.collect`. An answer is a cell of code below `%%answer lab2 written`, or
    the cell of Markdown that `submit` names `written-answer`.
    """
    if b"answer" not in raw:
        return {}
    try:
        data: Any = json.loads(raw.decode("utf-8-sig"))
        cells = [
            (c["cell_type"], str(c.get("id", "")), "".join(c["source"])) for c in data["cells"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    first = re.compile(rf"\s*%%answer[ \t]+{entry}[ \t]+(\w+)[ \t]*(?:\n|$)")
    found = dict[str, str]()
    for kind, name, text in cells:
        if kind == "code" and (head := first.match(text.replace("\r\n", "\n"))):
            part, answer = head[1], text.replace("\r\n", "\n")[head.end() :]
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


__all__ = ["MOST_ANSWER", "answers_in", "tidied"]
