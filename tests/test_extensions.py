"""The book's Sphinx extensions that need no built book: formulas, and where a chapter stands."""

from __future__ import annotations

import re
from types import SimpleNamespace

import book_ladder
import book_math
import book_numbers
import book_weight
import pytest
from book_ladder import neighbours

from tests.common import ROOT, sphinx

PAGES = sorted((ROOT / "book").glob("*.md"))
FORMULA = re.compile(r"(?s)\$\$(.+?)\$\$|(?<![\\$`\w])\$([^$\n]+)\$")


def formulas(text):
    """The formulas of a page."""
    text = re.sub(r"(?ms)^```.*?^```$", "", text)
    return [(m[1] or m[2]).strip() for m in FORMULA.finditer(text)]


def left_as_tex(formula):
    """Whether a browser would show a backslash, or an ampersand that should align."""
    return re.search(r"\\|&(?!#)", re.sub(r"<[^>]*>", "", book_math.convert(formula))) is not None


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_formula_of_a_page_becomes_mathml(path):
    assert [f for f in formulas(path.read_text(encoding="utf-8")) if left_as_tex(f)] == []


def test_a_formula_that_is_not_known_would_be_told():
    assert formulas("a $x_1$ b\n\n$$\\frac{1}{2}$$ (label)\n") == ["x_1", "\\frac{1}{2}"]
    assert not left_as_tex("\\frac{1}{2}") and left_as_tex("\\nowhere{x}")
    lines = "\\begin{%s} a &= 1 \\\\ b &= 2 \\end{%s}"
    assert not left_as_tex(lines % ("aligned", "aligned")) and left_as_tex(lines % ("so", "so"))
    assert sum(len(formulas(path.read_text(encoding="utf-8"))) for path in PAGES) > 50


SHEET = """/* { */ @import "a;b.css"; @font-face { src: url(x) }
.a, .b > p, p.c:not(.gone) { content: "}" } .gone .a { x: 1 } [data-x=".gone"] .a { y: 2 }
@media print { .gone { z: 3 } @supports (gap: 0) { .a\\:b { u: 4 } } } @media (x) { .gone { v: 5 } }"""


def test_a_style_sheet_keeps_what_pages_use(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "page.html").write_text('<p class="a c">', encoding="utf-8")
    (tmp_path / "_static" / "x.js").write_text("add('a:b', 'b'); split('a:b')", encoding="utf-8")
    words = book_weight.used(tmp_path)
    assert {"a", "b", "c"} <= words and "gone" not in words
    left = "".join(book_weight.trimmed(SHEET, words | {"a:b"}).split())
    assert left == (
        '@import"a;b.css";@font-face{src:url(x)}.a,.b>p,p.c:not(.gone){content:"}"}'
        '[data-x=".gone"].a{y:2}@mediaprint{@supports(gap:0){.a\\:b{u:4}}}'
    )
    assert "x:1" in "".join(book_weight.trimmed(SHEET, words | {"gone"}).split())


def test_a_failed_build_trims_nothing(tmp_path):
    sheet = tmp_path / "_static/sphinx-design.min.css"
    sheet.parent.mkdir()
    sheet.write_text(".gone{x:1}.a{y:2}", encoding="utf-8")
    (tmp_path / "page.html").write_text('<p class="a">', encoding="utf-8")
    app = SimpleNamespace(outdir=str(tmp_path), builder=SimpleNamespace(format="html"))
    book_weight.lighten(app, ValueError("a failed build"))
    assert "gone" in sheet.read_text(encoding="utf-8")
    book_weight.lighten(app, None)
    assert sheet.read_text(encoding="utf-8") == ".a{y:2}"


def test_a_book_keeps_its_styles_however_often_it_is_built(tmp_path):
    """Sphinx warns of a file that it would write over, copies none where no page is written, and a
    new page may need what was trimmed."""
    page, out = tmp_path / "index.rst", tmp_path / "out"
    (tmp_path / "static").mkdir()
    (tmp_path / "static/mystnb.1.css").write_text(".body{x:1}.mine{y:2}", encoding="utf-8")

    def built(text):
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
        static = [str(tmp_path / "static")]
        sphinx(tmp_path, out, extensions=["book_weight"], html_static_path=static)
        return (out / "_static/mystnb.1.css").read_text(encoding="utf-8")

    title = "A\n=\n\n"
    assert built(title) == built(title) == ".body{x:1}"
    assert built(f"{title}.. container:: mine\n\n   B\n") == ".body{x:1}.mine{y:2}"


@pytest.mark.parametrize(
    "page,stands",
    [("book/06_tiling", True), ("book/deeper_06_tiling", True), ("book/03_cpu", False),
     ("book/glossary", False)],
)  # fmt: skip
def test_a_page_of_the_climb_says_where_it_stands(page, stands):
    app, context = SimpleNamespace(tile_chapters=([], set())), {"body": "<h1>A</h1><p>B</p>"}
    book_ladder.place(app, page, "page.html", context, None)
    assert ("Where you are: tiled_32" in context["body"]) == stands


def test_arrows_lead_along_the_main_line():
    chapters = ["book/12_a", "book/13_b", "book/14_c", "book/15_d"]
    aside = {"book/13_b", "book/14_c"}
    assert neighbours("book/12_a", chapters, aside) == ("", "book/15_d")
    assert neighbours("book/deeper_12_a", chapters, aside) == ("book/12_a", "book/15_d")
    assert neighbours("book/13_b", chapters, aside) == ("book/12_a", "book/14_c")
    assert neighbours("book/15_d", chapters, aside) == ("book/12_a", "")
    assert neighbours("book/15_d", chapters, set()) == ("book/14_c", "")
    assert neighbours("book/glossary", chapters, aside) == ("", "")


def test_a_chapter_says_where_it_stands():
    steps = {6: ("tiled_32", 0.176), 14: ("fp32_best", 1.021), 17: ("wmma_tiled", 0.385)}
    shown = book_ladder.strip(6, steps)
    assert "tiled_32 reaches 18 % of cuBLAS (FP32" in shown
    assert re.findall(r"<i( class=here)?( class=first)? style=\"height:(\d+)%\">", shown) == [
        (" class=here", "", "18"),
        ("", "", "100"),
        ("", " class=first", "38"),
    ]
    assert "(16-bit" in book_ladder.strip(17, steps) and book_ladder.strip(3, steps) == ""
    known = book_ladder.shares()
    assert {4, 14, 22} <= set(known) and known[4][0] == "naive"


def test_figures_tables_and_listings_have_numbers_and_addresses():
    labels = [book_numbers.chapter(f"book/{n}") for n in ("05_a", "deeper_12_b", "tour")]
    assert labels == ["5.", "D12.", ""]
    page = (
        '<figure class="tile-figure" style="x"><svg/></figure><tile-stream_k'
        ' class="tile-explorer"><table><caption>inside</caption></table></tile-stream_k><table'
        ' style="y"><caption style="z"><span a>Times.</span></caption></table><figure'
        ' class="tile-code"><pre/><figcaption>File.</figcaption></figure><figure class="tile-figure'
        ' tile-race"><figcaption>Race.</figcaption></figure><table><tr></tr></table>'
    )
    shown = book_numbers.numbered(page, "5.")
    assert re.findall(r'id="([a-z]+-\d)"', shown) == [
        "figure-1", "figure-2", "table-1", "listing-1", "figure-3"
    ]  # fmt: skip
    assert ">Figure 5.1</a> </figcaption></figure>" in shown
    assert 'data-number="Figure 5.2" class="tile-explorer"><table><caption>inside' in shown
    assert re.search(r"<span a><a [^>]*>Table 5.1</a> Times", shown)
    assert re.search(r"<figcaption><a [^>]*>Listing 5.1</a> File", shown)
    assert re.search(r'href="#figure-3"[^>]*>Figure 5.3</a> Race', shown)
