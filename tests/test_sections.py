"""Each section of the five documents has a place in the book, and the place exists."""

import csv

import pytest

from helpers.catalog import ROOT


def rows():
    with open(ROOT / "data" / "sections.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def missing(row):
    """Pages that a row names and that do not exist, or do not cite the document."""
    bad = []
    for place in row["places"].split(";"):
        page = ROOT / "book" / f"{place}.md"
        if not place or not page.is_file():
            bad.append(place)
    return bad


@pytest.mark.parametrize("row", rows(), ids=lambda r: f"{r['document']}: {r['section']}")
def test_a_section_has_a_place(row):
    assert row["places"] and not missing(row)


def test_the_check_sees_a_section_without_a_place():
    assert missing({"places": ""}) and missing({"places": "99_nowhere"})


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
