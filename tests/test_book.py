"""The built book: it asks no other host for anything, reads aloud, links right, and renders
offline.

The checks are in pages_check.py; each is also tried on a page that it must refuse.
"""

from __future__ import annotations

import json
import re

import pytest

from helpers.notebook.addresses import repository
from tests import pages_check as check
from tests.common import ROOT, chapters, serve
from tools.notebooks.books import read_book, term_anchor

pytestmark = pytest.mark.book


def toc():
    """Every page of the table of contents, such as book/05_coalescing."""
    text = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    return re.findall(r"(?:root|file):\s*(\S+)", text)


@pytest.fixture(scope="session")
def pages(html):
    """Every page of the built book by its path."""
    paths = [path.resolve() for path in sorted(html.rglob("*.html"))]
    paths = [path for path in paths if "_static" not in path.parts]
    return {path: check.Page(path, html.resolve()) for path in paths}


def over(pages, faults):
    """Faults of all pages, each with the page's name."""
    return [f"{page.path.name}: {fault}" for page in pages.values() for fault in faults(page)]


# --- the files ---------------------------------------------------------------------------------


def test_every_page_is_built(pages, html):
    for name in toc():
        assert (html / f"{name}.html").resolve() in pages
    assert (html / "index.html").exists()


@pytest.mark.parametrize("rule", ["leaves_the_site", "uses_a_cdn", "without_a_name"])
def test_every_page_keeps_the_rule(pages, rule):
    assert over(pages, getattr(check, rule)) == []


def test_no_style_sheet_loads_from_elsewhere(html):
    sheets = {path.name: path.read_text(encoding="utf-8") for path in html.rglob("*.css")}
    assert sheets
    assert [name for name, css in sheets.items() if check.css_elsewhere(css)] == []


def test_a_page_of_the_main_line_is_light(pages, html):
    heavy = {page.path.name: check.too_heavy(page) for page in pages.values()}
    assert [n for n, found in heavy.items() if any("bytes" not in what for what in found)] == []
    assert [n for n, found in heavy.items() if found and re.match(r"\d\d_|intro|tour", n)] == []
    start = pages[(html / "book" / "intro.html").resolve()]
    assert check.too_heavy(start, 50_000)[0].endswith(" bytes")


def test_every_internal_link_resolves(pages):
    assert over(pages, lambda page: check.broken_links(page, pages)) == []


def test_every_chapter_opens_on_colab(pages, html):
    where = repository()
    prefix = where.colab("").removesuffix("book/.ipynb")
    stems = {path.stem for path in chapters()}
    assert stems <= {name.removeprefix("book/") for name in toc()}
    for stem in stems:
        page = pages[(html / "book" / f"{stem}.html").resolve()]
        assert check.wrong_colab_button(page, prefix, ROOT) == []
        assert check.colab_links(page) == [where.colab(stem)]


def test_notebook_links_into_the_book_resolve(html, pages):
    """Glossary entries, pages and equation numbers that the exporter made up for itself."""
    book = read_book()
    glossary = pages[(html / "book" / "glossary.html").resolve()]
    assert book.glossary
    assert {term_anchor(term) for term in book.glossary} <= glossary.anchors
    for label, target in book.equations.items():
        page = pages[(html / "book" / f"{target.stem}.html").resolve()]
        shown = page.soup.find(id=f"equation-{label}")
        assert shown is not None, label
        assert f"({target.text})" in shown.get_text()


# --- in a browser, network off -----------------------------------------------------------------


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", toc())
def test_page_in_a_browser(browser, site, name, theme):
    assert check.visit(browser, site, f"{name}.html", theme).faults == []


def test_dark_is_dark(browser, site):
    """So that the two themes above are two."""
    shades = {}
    for theme in ("light", "dark"):
        context = browser.new_context(color_scheme=theme)
        page = context.new_page()
        page.goto(f"{site}/{toc()[0]}.html")
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shades[theme] = sum(int(v) for v in re.findall(r"\d+", colour)[:3])
        context.close()
    assert shades["dark"] < 200 < 600 < shades["light"]


ORDER = """term => Search._performSearch(...Search._parseQuery(term)).reverse().map(found => found[0])"""
"""Pages that the search shows for a term, the first one first."""


def defined():
    """The page that says of a term that it defines it."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "book").glob("*.md")):
        line = re.search(r'(?m)^defines: "(.*)"$', path.read_text(encoding="utf-8"))
        for term in line[1].split(", ") if line else []:
            assert term not in found, f"{path.name} and {found[term]} both define {term!r}"
            found[term] = f"book/{path.stem}"
    return found


def test_search_leads_first_to_the_page_that_explains_a_term(browser, site):
    page = browser.new_page()
    page.goto(f"{site}/search.html?q=sector")
    page.wait_for_selector("#search-results li a", timeout=10_000)
    wanted = defined() | {"tiled_32": "book/06_tiling", "fp32_best": "book/14_ring_of_tiles"}
    assert len(wanted) >= 60
    wrong = {}
    for term, there in wanted.items():
        found = page.evaluate(ORDER, term)
        at = [place for place in found[:2] if place != "book/glossary"]
        if there not in at[:1]:
            wrong[term] = found[:4]
        text = page.evaluate("async there => (await fetch(`${there}.html`)).text()", there)
        if term.lower() not in re.sub(r"<[^>]*>", "", text).lower():
            wrong[term] = [f"not a word of {there}"]
    assert not wrong, json.dumps(wrong)
    assert page.evaluate(ORDER, "provenance")[0] != page.evaluate(ORDER, "swizzle")[0]
    page.close()


# --- wrong twins: a page that breaks each rule ---------------------------------------------------

BAD = {
    "script": ("leaves_the_site", '<script src="https://cdn.example/x.js"></script>'),
    "style sheet": ("leaves_the_site", '<link rel="stylesheet" href="//cdn.example/x.css">'),
    "image": ("leaves_the_site", '<img src="http://example.org/x.png" alt="x">'),
    "srcset": ("leaves_the_site", '<img srcset="https://example.org/x.png 2x" alt="x">'),
    "font": ("leaves_the_site", "<style>@font-face { src: url('https://f.example/a') }</style>"),
    "import": ("leaves_the_site", '<style>@import "https://f.example/a.css";</style>'),
    "inline style": ("leaves_the_site", '<p style="background: url(//x.example/a.png)">x</p>'),
    "svg image": ("leaves_the_site", '<svg><image xlink:href="https://e.example/i"/></svg>'),
    "requirejs": ("uses_a_cdn", '<script src="_static/require.min.js"></script>'),
    "widget manager": ("uses_a_cdn", '<script src="embed-amd.js"></script>'),
    "widget state": ("uses_a_cdn", '<script type="application/vnd.jupyter.widget-state+json"/>'),
    "late import": ("uses_a_cdn", "<script>import('https://unpkg.com/x')</script>"),
    "no alt": ("without_a_name", '<img src="x.png">'),
    "empty alt": ("without_a_name", '<img src="x.png" alt=" ">'),
    "svg without role": ("without_a_name", '<svg aria-label="x"></svg>'),
    "svg without name": ("without_a_name", '<svg role="img"></svg>'),
    "canvas": ("without_a_name", "<canvas></canvas>"),
}
GOOD = (
    '<img src="x.png" alt="a picture"><svg role="img" aria-label="x"><svg></svg></svg>'
    '<svg aria-hidden="true"></svg><span aria-hidden="true"><svg></svg></span>'
    '<a href="https://example.org">elsewhere</a><script src="_static/a.js"></script>'
    '<a href="#here">x</a><a href="other.html#there">y</a><p id="here">z</p>'
)


@pytest.fixture
def page(tmp_path):
    """A page with this body, beside another one with the anchor #there."""
    (tmp_path / "other.html").write_text('<p id="there">x</p>')

    def make(body):
        (tmp_path / "page.html").write_text(f"<html><body>{body}</body></html>")
        return check.Page(tmp_path / "page.html", tmp_path)

    return make


@pytest.mark.parametrize("name", BAD)
def test_a_bad_page_is_refused(page, name):
    rule, body = BAD[name]
    assert getattr(check, rule)(page(body)) != []
    assert getattr(check, rule)(page(GOOD)) == []


@pytest.mark.parametrize("href", ["gone.html", "#gone", "other.html#gone", "sub/other.html"])
def test_a_broken_link_is_refused(page, href):
    assert check.broken_links(page(f'<a href="{href}">x</a>'), {}) != []
    assert check.broken_links(page(GOOD), {}) == []


@pytest.mark.parametrize(
    "body",
    [
        "",
        '<a href="https://colab.research.google.com/github/o/r/blob/main/book/gone.ipynb">x</a>',
        '<a href="https://colab.research.google.com/github/o/r/blob/main/book/a.md">x</a>',
        '<a href="https://colab.research.google.com/github/o/r/blob/master/book/a.ipynb">x</a>',
    ],
)
def test_a_wrong_colab_button_is_refused(page, tmp_path, body):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "a.ipynb").write_text("{}")
    (tmp_path / "book" / "a.md").write_text("")
    prefix = "https://colab.research.google.com/github/o/r/blob/main/"
    assert check.wrong_colab_button(page(body), prefix, tmp_path) != []
    right = page(f'<a href="{prefix}book/a.ipynb">x</a>')
    assert check.wrong_colab_button(right, prefix, tmp_path) == []


IN_A_BROWSER = {
    "outside": ("outside", '<img src="http://example.org/x.png" alt="x">'),
    "errors": ("errors", "<script>throw new Error('no')</script>"),
    "math": ("math", '<span class="math">x</span>'),
    "wide": ("wide", '<div style="width: 900px">wide</div>'),
    "cramped": ("cramped", '<svg viewBox="0 0 720 30" width="340"><text y="20">small</text></svg>'),
    "faint": ("faint", '<p style="color: #999">hard to read</p>'),
    "axe": ("axe", "<main><h1>x</h1><button></button></main>"),
    "faint code": ("faint", '<pre><span style="color: #bbb">int x;</span></pre>'),
    "a faint link in the navigation": ("faint", '<nav><a href="#" style="color: #aaa">next</a></nav>'),
    "missing": ("errors", '<img src="gone.png" alt="x">'),
    "TeX": ("math", r'<span class="math"><math><mi>\unknown</mi></math></span>'),
    "svg": ("faint", '<svg width="90" height="30"><text y="20" fill="#eee">pale</text></svg>'),
    "box": (
        "faint",
        '<svg width="90" height="30"><rect width="90" height="30" fill="#057"/>'
        '<text y="20">dark on dark</text></svg>',
    ),
    "small in a dropdown": (
        "cramped",
        "<details><summary>x</summary><svg viewBox='0 0 720 30'><text y='20'>small</text></svg></details>",
    ),
    "small on a phone alone": (
        "cramped",
        '<svg viewBox="0 0 440 30" style="width:100%"><text y="20" font-size="11">small</text></svg>',
    ),
    "words on words": (
        "cramped",
        '<svg width="90" height="30"><text y="20">one</text><text x="9" y="24">two</text></svg>',
    ),
    "words on turned words": (
        "cramped",
        '<svg width="90" height="90"><text y="50">across</text>'
        '<text transform="rotate(-90 20 80)" x="20" y="80">upwards</text></svg>',
    ),
    "words outside": ("cramped", '<svg width="90" height="30"><text x="70" y="20">cut off</text></svg>'),
}  # fmt: skip
"""What finds a page that breaks a rule, and the page."""


@pytest.fixture(scope="module")
def bad_site(tmp_path_factory):
    """A folder that is served, for pages that break a rule."""
    folder = tmp_path_factory.mktemp("bad")
    server, address = serve(folder)
    yield folder, address
    server.shutdown()


@pytest.mark.parametrize("kind", IN_A_BROWSER)
def test_the_browser_sees_a_bad_page(browser, bad_site, kind):
    folder, address = bad_site
    where, body = IN_A_BROWSER[kind]
    (folder / f"{kind}.html").write_text(f"<!DOCTYPE html><html><body>{body}</body></html>")
    seen = check.visit(browser, address, f"{kind}.html", "light")
    assert getattr(seen, where) != []


def test_the_browser_passes_a_good_page(browser, bad_site):
    folder, address = bad_site
    (folder / "good.html").write_text(
        '<!DOCTYPE html><html lang="en"><head><title>good</title><link rel="icon"'
        ' href="data:,"></head><body><main><h1>good</h1><p>text</p><svg width="90"'
        ' height="60"><text y="20">ink</text><rect y="30" width="90" height="30" fill="#057"/><text'
        ' x="5" y="50" fill="#fff">on a box</text></svg><svg width="90" height="90"><text'
        ' y="20">one</text><text y="33">two</text><text transform="rotate(-40 15 80)" x="15"'
        ' y="80">upwards</text></svg></main></body></html>'
    )
    assert check.visit(browser, address, "good.html", "light").faults == []
