"""Each section of the five documents has a place in the book: a page that names the document."""

import csv
import re

import pytest

from helpers.claims import prose
from helpers.kernel import ROOT


def rows():
    with open(ROOT / "data" / "sections.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def names(text, document):
    """Whether a page's text cites a document or names it, alone or in a list: "documents B and S"."""
    cite = r"(?: ?\{cite\}`[^`]*`)?"
    one_of_a_list = rf"\b[Dd]ocuments? (?:[LBNSP]{cite}(?:, and |, | and ))*{document}\b"
    cited = rf"\{{cite\}}`(?:\w+,)*doc{document}(?:,\w+)*`"
    return bool(re.search(one_of_a_list, text) or re.search(cited, text))


def page(place):
    """The text of a page without its calls of holds(); empty if there is no such page."""
    path = ROOT / "book" / f"{place}.md"
    return prose(path.read_text(encoding="utf-8")) if path.is_file() else ""


def missing(row, read=page):
    """Places of a row that are no page, or a page that does not name the row's document."""
    bad = []
    for place in row["places"].split(";"):
        if not names(read(place), row["document"]):
            bad.append(place)
    return bad


@pytest.mark.parametrize("row", rows(), ids=lambda r: f"{r['document']}: {r['section']}")
def test_a_section_has_a_place(row):
    assert row["places"] and not missing(row)


def test_the_check_sees_a_section_without_a_place():
    assert missing({"places": "", "document": "L"})
    assert missing({"places": "99_nowhere", "document": "L"})


def test_the_check_sees_a_page_that_does_not_name_the_document():
    row = {"places": "06_tiling;07_latency", "document": "P"}
    text = {
        "06_tiling": "As document B {cite}`docB` says of P panels.",
        "07_latency": "Document P",
    }
    assert missing(row, text.get) == ["06_tiling"]
    text["06_tiling"] += " Document P has a tile, too."
    assert not missing(row, text.get)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Document P {cite}`docP` prints 725 ms.", True),
        ("so writes {cite}`docP`", True),
        ("as {cite}`docB,docP` do", True),
        ("Documents B {cite}`docB` and P {cite}`docP` end with a list.", True),
        ("documents L, S and P", True),
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
    listed = {}
    for row in rows():
        listed[row["document"]] = listed.get(row["document"], 0) + 1
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
