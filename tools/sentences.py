"""Has every marked sentence its condition, and every condition a sentence?  python -m
tools.sentences"""

from __future__ import annotations

import sys
from pathlib import Path

from helpers.page import claims


def main(book: Path) -> int:
    """Print what is wrong in a folder of pages, a line each; 1 if anything is."""
    wrong = [
        f"{path.name}:{line}: {fault}"
        for path in sorted(book.glob("*.md"))
        for line, fault in claims.faults(path.read_text(encoding="utf-8"))
    ]
    print("\n".join(wrong), end="\n" * bool(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(claims.BOOK))
