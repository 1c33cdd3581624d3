"""Do the pages hold the words that their calls of holds() quote?  python -m tools.quotations"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from helpers.page import claims


def quotations(page: str) -> list[tuple[int, str, ast.expr]]:
    """Line, words and condition of every call of holds() in a page's source."""
    found = []
    for first, code in claims.cells(page):
        if "holds(" not in code:
            continue
        for call in claims.calls(ast.parse(code)):
            says = ast.literal_eval(call.args[0])
            for quote in (says,) if isinstance(says, str) else says:
                found.append((first + call.lineno - 1, quote, call.args[1]))
    return found


def faults(page: str) -> list[str]:
    """Calls whose words are not on the page in one line, or whose condition is a constant."""
    lines = claims.prose(page).split("\n")
    found = []
    for line, quote, condition in quotations(page):
        if not any(quote in text for text in lines):
            found.append(f"{line}: {quote!r} is not on the page")
        names = {node.id for node in ast.walk(condition) if isinstance(node, ast.Name)}
        if not names:
            found.append(f"{line}: {quote!r} rests on no value")
    return found


def main(book: Path) -> int:
    """Print what is wrong in a folder of pages, a line each; 1 if anything is."""
    wrong = [
        f"{path.name}:{fault}"
        for path in sorted(book.glob("*.md"))
        for fault in faults(path.read_text(encoding="utf-8"))
    ]
    print("\n".join(wrong), end="\n" * bool(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(claims.BOOK))
