"""Sphinx extension: each figure, table and listing of a page has a number, and an address that can
be cited.

A chapter's figures are 5.1, 5.2, ...; those of its Deeper page D5.1; those of other pages 1, 2, ...
The address is the page's with `#figure-1`, `#table-1` or `#listing-1`, by their order on the page.
"""

from __future__ import annotations

import re
from typing import Any

EXPLORER = r"<(?P<kind>tile-[a-z_-]+) class=\"tile-explorer\"(?P<within>.*?)</(?P=kind)>"
PICTURE = r"<figure class=\"(?P<class>tile-figure|tile-code)[^\"]*\".*?</figure>"
TABLE = r"<table(?P<table>[^>]*)>\s*<caption[^>]*>(\s*<span[^>]*>)?"
NUMBERED = re.compile(f"{EXPLORER}|{PICTURE}|{TABLE}", re.S)


def chapter(page: str) -> str:
    """What stands before a number: "5." for book/05_coalescing, "D5." for its Deeper page."""
    found = re.match(r"book/(deeper_)?(\d\d)_", page)
    return f"{'D' if found[1] else ''}{int(found[2])}." if found else ""


def numbered(body: str, before: str) -> str:
    """The HTML of a page with its figures, tables and listings numbered."""
    counts = {"Figure": 0, "Table": 0, "Listing": 0}

    def name(kind: str) -> tuple[str, str, str]:
        counts[kind] += 1
        anchor = f"{kind.lower()}-{counts[kind]}"
        words = f"{kind} {before}{counts[kind]}"
        link = (
            f'<a class="tile-number" href="#{anchor}" title="Link to this'
            f' {kind.lower()}">{words}</a> '
        )
        return anchor, words, link

    def mark(found: re.Match[str]) -> str:
        text = found[0]
        if found["kind"]:
            anchor, words, _ = name("Figure")
            return text.replace(" class=", f' id="{anchor}" data-number="{words}" class=', 1)
        if found["class"]:
            anchor, _, link = name("Figure" if found["class"] == "tile-figure" else "Listing")
            text = text.replace("<figure ", f'<figure id="{anchor}" ', 1)
            if "<figcaption>" in text:
                return text.replace("<figcaption>", f"<figcaption>{link}", 1)
            return text.replace("</figure>", f"<figcaption>{link}</figcaption></figure>")
        anchor, _, link = name("Table")
        return text.replace("<table", f'<table id="{anchor}"', 1) + link

    return NUMBERED.sub(mark, body)


def number(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Number what a page shows."""
    if "body" in context:
        context["body"] = numbered(context["body"], chapter(page))


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx when it loads the extension."""
    app.connect("html-page-context", number)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
