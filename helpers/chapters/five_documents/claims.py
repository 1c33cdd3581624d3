"""How many claims of each document there are, and how they end: read from the page's rows."""

import re
from collections import Counter

from helpers.ladder.kernel import ROOT
from nogpu.errors import DataError

PAGE = ROOT / "book" / "five_documents.md"
OUTCOMES = ("holds", "partly", "differs", "wrong", "open", "shown")
"""What a row may end in; the page says what each word means."""

_LABEL = re.compile(r"\(doc-([a-z])(?:-[a-z]+)?\)=")


def rows(page: str) -> list[tuple[str, str, str]]:
    """(document, outcome, words) of each row of a page's tables, by the label above each table.

    Raises DataError on a row whose outcome is none of OUTCOMES.
    """
    claims, document = [], ""
    for number, line in enumerate(page.splitlines(), 1):
        if label := _LABEL.fullmatch(line):
            document = label[1].upper()
        cells = [cell.strip() for cell in line.split("|")]
        if not document or len(cells) != 5 or cells[2] in ("outcome", "---"):
            continue
        outcome = cells[2].strip("*")
        if outcome not in OUTCOMES:
            raise DataError(
                f"line {number} ends in {cells[2]!r}; a row ends in one of {', '.join(OUTCOMES)}"
            )
        claims.append((document, outcome, cells[1]))
    return claims


def tally() -> list[dict[str, str | int]]:
    """A row a document, and one for all: how many of its claims end in each of OUTCOMES."""
    read = rows(PAGE.read_text(encoding="utf-8"))
    out: list[dict[str, str | int]] = []
    for document in (*"LBNSP", "all"):
        mine = Counter(outcome for of, outcome, _ in read if document in (of, "all"))
        out.append({"document": document, **{o: mine[o] for o in OUTCOMES}, "rows": mine.total()})
    return out
