"""Nothing of the five documents is missing: each section has a place that names its document, and
each number that they print is on the page that goes through them."""

import csv
import re
from collections import Counter

import pytest

from helpers.chapters.five_documents import claims
from helpers.ladder.kernel import ROOT
from helpers.page.claims import unmarked
from helpers.record import published
from nogpu.errors import DataError
from tools import reading

PAGES = ("five_documents", "published_bugs")


def rows():
    with open(ROOT / "data" / "sections.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def names(text, document):
    """Whether a text cites a document, names it ("document L", "documents B and S") or heads with
    it."""
    cite = r"(?: ?\{cite\}`[^`]*`)?"
    one_of_a_list = rf"\b[Dd]ocuments? (?:[LBNSP]{cite}(?:, and |, | and ))*{document}\b"
    cited = rf"\{{cite\}}`(?:\w+,)*doc{document}(?:,\w+)*`"
    headed = rf"(?m)^##+ {document}\b[:,]"
    return any(re.search(pattern, text) for pattern in (one_of_a_list, cited, headed))


def page(name):
    """The text of a page without its marks of claims; empty if there is no such page."""
    path = ROOT / "book" / f"{name}.md"
    return unmarked(path.read_text(encoding="utf-8")) if path.is_file() else ""


def parts():
    """Label and text up to the next label, of the two pages on the documents."""
    found = {}
    for name in PAGES:
        pieces = re.split(r"(?m)^\(([\w-]+)\)=$", page(name))
        found |= dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return found


def missing(row, texts):
    """Places of a row that are no label, or whose text does not name the row's document."""
    return [p for p in row["places"].split(";") if not names(texts.get(p, ""), row["document"])]


@pytest.mark.parametrize("row", rows(), ids=lambda r: f"{r['document']}: {r['section']}")
def test_a_section_has_a_place(row):
    assert row["places"] and not missing(row, parts())
    assert row["chapters"] and all(page(chapter) for chapter in row["chapters"].split(";"))


def test_the_check_sees_a_section_without_a_place():
    assert all(missing({"places": place, "document": "L"}, parts()) for place in ("", "doc-q"))
    assert missing({"places": "doc-p", "document": "L"}, parts()) == ["doc-p"]
    assert not page("99_nowhere")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Document P {cite}`docP` prints 725 ms.", True),
        ("so writes {cite}`docP`", True),
        ("as {cite}`docB,docP` do", True),
        ("Documents B {cite}`docB` and P {cite}`docP` end with a list.", True),
        ("documents L, S and P", True),
        ("## P: the tuning notes", True),
        ("### P, Part 1: the card", True),
        ("## Padding", False),
        ("Cut A into P panels, as document S does.", False),
        ("Documents B {cite}`docB` and S {cite}`docS`. P is the number of panels.", False),
        ("document Perf", False),
        ("P's tile of 32", False),
        ('published(document="P")', False),
    ],
)
def test_a_letter_alone_names_no_document(text, named):
    assert names(text, "P") is named


def test_every_document_and_every_part_of_it_is_listed():
    """Counts by hand of the headings that carry content in each document."""
    listed = Counter(row["document"] for row in rows())
    assert listed == {"L": 20, "B": 10, "N": 7, "S": 10, "P": 8}


def test_each_measured_section_of_published_csv_is_listed():
    """A document's section that gave a number to data/published.csv must have a place too."""
    with open(ROOT / "data" / "published.csv", encoding="utf-8", newline="") as file:
        measured = {(r["document"], r["section"]) for r in csv.DictReader(file)}
    words = {}
    for row in rows():
        words.setdefault(row["document"], []).append(row["section"].lower())
    for document, section in measured:
        key = section.lower().split("(")[0].split("-")[0].strip(" .")
        key = key.split(". ", 1)[-1]
        found = any(
            key.split(":")[0][:18] in s or s.split(":")[-1].strip()[:12] in section.lower()
            for s in words[document]
        )
        assert found, (document, section)


# -- the rows of the page ------------------------------------------------------------------------


def test_every_row_ends_in_one_of_the_words_that_the_page_explains():
    text = claims.PAGE.read_text(encoding="utf-8")
    assert all(f"- **{word}**:" in text for word in claims.OUTCOMES)
    found = claims.rows(text)
    assert {document for document, _, _ in found} == set("LBNSP")
    assert len(set(found)) == len(found) > 110
    last = claims.tally()[-1]
    assert last["rows"] == len(found) == sum(int(last[word]) for word in claims.OUTCOMES)


def test_a_row_that_ends_otherwise_is_refused():
    table = "(doc-l-card)=\n| document L prints | outcome | this book |\n|---|---|---|\n"
    table += "| a | **{}** | b |"
    assert claims.rows(table.format("open")) == [("L", "open", "a")]
    with pytest.raises(DataError, match="line 4 ends in '\\*\\*true\\*\\*'"):
        claims.rows(table.format("true"))
    assert claims.rows(table.format("open").replace("(doc-l-card)=", "")) == []


WORDED = {"1 << 20": "2^20", "thousands of folds": "thousands of folds"}
"""Numbers that the page writes otherwise than the document."""


def unseen(text):
    """(document, metric, printed) of each number of published.csv that a text does not show.

    S's times are left out: test_published.py derives its rates, which are shown, from them.
    """
    flat = re.sub(r"(?<=\d)[, ](?=\d{3})", "", text)
    found = []
    for row in published():
        printed = WORDED.get(row["printed"], re.sub(r"(?<=\d) (?=\d)", "", row["printed"]))
        shown = re.search(rf"(?<![\d.]){re.escape(printed)}(?!\d)", flat)
        if not shown and (row["document"], row["metric"]) != ("S", "time_kernel"):
            found.append((row["document"], row["metric"], row["printed"]))
    return found


@pytest.mark.slow
def test_every_number_that_the_documents_print_is_on_the_page():
    text = "\n".join(text for _, text in reading.run("five_documents"))
    assert unseen(text) == []
    assert ("L", "gflops", "7140.94") in unseen(text.replace("7,140.94", "").replace("7140.94", ""))
    assert len(unseen("")) > 150
