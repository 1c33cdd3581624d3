"""The book as one PDF: contents with page numbers, bookmarks, links.

    python -m tools.pdf SINGLE.html OUT.pdf     (what `make pdf` does with Sphinx's single page)

Chromium prints the page twice: once to learn on which sheet each chapter begins, and once with
these numbers in the contents."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

SHEET: dict[str, Any] = {
    "scale": 0.85,
    "format": "A4",
    "print_background": True,
    "outline": True,
    "tagged": True,
    "display_header_footer": True,
    "header_template": "<span></span>",
    "footer_template": (
        '<div style="width:100%;text-align:center;font:9px sans-serif"><span'
        ' class="pageNumber"></span></div>'
    ),
    "margin": {"top": "18mm", "bottom": "18mm", "left": "17mm", "right": "17mm"},
}
CONTENTS = Path(__file__).with_name("pdf_contents.js").read_text(encoding="utf-8")
STYLE = """
#tile-contents { break-before: page; }
#tile-contents p { display: flex; justify-content: space-between; margin: 0.15em 0; max-width: none; }
#tile-contents .below { padding-left: 1.5em; }
#tile-contents a { color: inherit; text-decoration: none; }
.cell_input, .tile-code { break-inside: auto !important; }
"""


def browser_path() -> str | None:
    """The machine's own Chromium; None for Playwright's."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def sheets(path: Path) -> dict[str, int]:
    """The sheet of a PDF to which each of its named places belongs, the first being 1."""
    from pypdf import PdfReader

    pdf = PdfReader(path)
    references = ((page.indirect_reference, sheet) for sheet, page in enumerate(pdf.pages, 1))
    number = {reference.idnum: sheet for reference, sheet in references if reference is not None}
    root: Any = pdf.trailer["/Root"]
    places = root.get("/Dests", {})
    return {name[1:]: number[places[name].get_object()[0].idnum] for name in places}


def write(page: Path, target: Path) -> list[str]:
    """Print a book that stands in one HTML file; the names of its pages.

    Raises OSError if there is no such file, or a style sheet or a picture that it names.
    """
    from playwright.sync_api import sync_playwright

    if not page.is_file():
        raise OSError(f"{page} is not there: `make pdf` has Sphinx write it first")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_path())
        tab = browser.new_page(color_scheme="light")
        lost: list[str] = []
        tab.on("requestfailed", lambda request: lost.append(request.url))
        tab.goto(page.resolve().as_uri(), wait_until="load", timeout=120_000)
        if lost:
            raise OSError(f"{page} names files that are not there: {', '.join(lost)}")
        tab.emulate_media(media="print", reduced_motion="reduce")
        tab.add_style_tag(content=STYLE)
        tab.set_default_timeout(600_000)
        pages: list[str] = tab.evaluate(CONTENTS, {})
        tab.pdf(path=target, **SHEET)
        tab.evaluate(CONTENTS, sheets(target))
        tab.pdf(path=target, **SHEET)
        browser.close()
    return pages


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    pages = write(options.page, options.out)
    size = options.out.stat().st_size / 1e6
    print(f"{options.out}: {len(pages)} pages of the book, {size:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
