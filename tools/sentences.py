"""Has every marked sentence its condition, every condition a sentence, and is no measured number
typed?  python -m tools.sentences"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from helpers.page import claims

UNITS = r"(?:ms|µs|us|ns|s|[GT]FLOP/s|[GT]FLOPS|[GT]B/s|[MG]Hz|W|%)"
TYPED = re.compile(r"(?<![\w.])\d[\d.,]*\s*" + UNITS + r"(?![\w/])")


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Line number and text of a page's prose: no code, no roles, no exercises."""
    text = re.sub(r"\A---\n.*?\n---\n", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL)
    text = re.sub(r"(?ms)^```.*?^```$", lambda m: "\n" * m[0].count("\n"), text)
    text = re.sub(r"\{[\w:]+\}`[^`]*`", "x", text)
    asking = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            asking = line.strip() in ("## Exercises", "## Check yourself")
        if not asking:
            yield number, line


def typed_numbers(text: str) -> list[tuple[int, str]]:
    """Line and fault of each number with a unit that the prose types."""
    found = ((number, typed) for number, line in prose(text) for typed in TYPED.findall(line))
    return [
        (n, f"{typed!r} is typed: glue it from what was measured, {{glue:text}}`name`")
        for n, typed in found
    ]


def main(book: Path) -> int:
    """Print what is wrong in a folder of pages, a line each; 1 if anything is."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in sorted(book.glob("*.md"))]
    wrong = [
        f"{path.name}:{line}: {fault}"
        for path, text in texts
        for line, fault in (*claims.faults(text), *typed_numbers(text))
    ]
    print("\n".join(wrong) or f"{len(texts)} pages: claims have conditions, numbers are glued")
    return 1 if wrong else 0


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m tools.sentences", description=__doc__).parse_args()
    sys.exit(main(claims.BOOK))
