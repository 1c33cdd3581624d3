"""Has every marked sentence its condition, and every condition a sentence?  python -m
tools.sentences"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from helpers.page import claims


def main(book: Path) -> int:
    """Print what is wrong in a folder of pages, a line each; 1 if anything is."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in sorted(book.glob("*.md"))]
    every = ((path.name, *fault) for path, text in texts for fault in claims.faults(text))
    wrong = [f"{name}:{line}: {fault}" for name, line, fault in every]
    print("\n".join(wrong) or f"{len(texts)} pages: every marked sentence has its condition")
    return 1 if wrong else 0


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m tools.sentences", description=__doc__).parse_args()
    sys.exit(main(claims.BOOK))
