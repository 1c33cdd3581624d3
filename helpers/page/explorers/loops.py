"""The loop along K of a chapter's core, as lines that an explorer lights."""

import re

from helpers.ladder.kernel import Kernel
from helpers.ladder.rungs import find
from nogpu.text import without_comments

ENDS, LONG = (";", "{", "}"), 76


def loop(kernel: Kernel | str) -> tuple[str, ...]:
    """The loop's lines and the store behind it, by two spaces a level, without what explains them.

    A statement stands on one line with the `for` before it, unless that is LONG: a phone shows few
    lines at once.
    """
    text = without_comments(find(kernel).source)
    text = text[text.index("    for (int k0") : text.rindex("}")]
    lines: list[str] = []
    for line in text.splitlines():
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        if lines and not lines[-1].endswith(ENDS) and len(lines[-1] + words) < LONG:
            lines[-1] += " " + words
        else:
            lines.append(" " * ((len(line) - len(line.lstrip()) - 4) // 2) + words)
    return tuple(lines)


def marked(lines: tuple[str, ...], pattern: str) -> list[int]:
    """Which lines a pattern is found in."""
    return [i for i, line in enumerate(lines) if re.search(pattern, line)]
