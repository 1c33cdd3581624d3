"""The book as one PDF, on a page of two chapters."""

from __future__ import annotations

import os
import sys

import pytest

from tests.common import ROOT, completed
from tools import pdf

PAGE = """<!doctype html><title>x</title><article class="bd-article"><section><h1>Whole</h1>
<p>First.</p><div class="toctree-wrapper"><span id="document-book/one"></span><section><h2>One</h2>
<p style="height: 2000px">Long.</p></section></div><div class="toctree-wrapper">
<span id="document-book/two"></span><section><h3>Two<a class="headerlink" href="#two">#</a></h3>
<p id="two">Short.</p></section></div></section></article>"""


def printed(folder, page):
    """In a process of its own: Playwright runs once a process, and other tests hold it open."""
    (folder / "book.html").write_text(page, encoding="utf-8")
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "packages/nogpu", ROOT / "packages/labs")))
    line = [sys.executable, "-m", "tools.pdf", "book.html", "book.pdf"]
    return completed(line, cwd=folder, env=os.environ | {"PYTHONPATH": paths})


@pytest.mark.browser
def test_a_book_without_its_style_is_not_printed(tmp_path):
    made = printed(tmp_path, '<link rel="stylesheet" href="_static/gone.css">' + PAGE)
    assert made.returncode and "names files that are not there" in made.stderr, made.stdout
    assert not (tmp_path / "book.pdf").exists()


@pytest.mark.browser
def test_the_contents_name_the_sheet_of_each_chapter(tmp_path):
    from pypdf import PdfReader

    made = printed(tmp_path, PAGE)
    assert made.stdout.startswith("book.pdf: 2 pages of the book"), made.stderr
    book = PdfReader(tmp_path / "book.pdf")
    words = [page.extract_text().split() for page in book.pages]
    one, two = (
        next(i for i, w in enumerate(words, 1) if mark in w) for mark in ("Long.", "Short.")
    )
    assert 1 < one < two
    contents = next(w for w in words if "Contents" in w)
    assert " ".join(["One", str(one), "Two", str(two)]) in " ".join(contents)
    assert pdf.sheets(tmp_path / "book.pdf")["document-book/two"] == two
    links = [note.get_object()["/Dest"] for note in book.pages[words.index(contents)]["/Annots"]]
    assert links == ["/document-book/one", "/document-book/two"]


def test_a_book_that_is_not_there_is_told(tmp_path):
    with pytest.raises(OSError, match="`make pdf` has Sphinx write it first"):
        pdf.write(tmp_path / "gone.html", tmp_path / "book.pdf")
