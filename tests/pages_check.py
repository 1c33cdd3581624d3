"""What a page of the book must keep to, as functions from HTML to a list of faults.

Each is applied to the built book and to a page that breaks it (tests/test_book.py).
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup

from helpers.notebook.addresses import repository

LOADS = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
}
"""Attributes by which an element makes the browser fetch something."""

ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
CSS_URL = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")
CDN = re.compile(
    r"require(?:\.min)?\.js|requirejs|embed-amd|html-manager|"
    r"unpkg\.com|jsdelivr|cdnjs|vnd\.jupyter\.widget|fonts\.g(?:oogleapis|static)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Page:
    """One HTML file of a site."""

    path: Path
    site: Path

    @cached_property
    def soup(self):
        """The page parsed."""
        return BeautifulSoup(self.path.read_text(encoding="utf-8"), "html.parser")

    @cached_property
    def anchors(self):
        """Everything on the page that a link can point at."""
        found = {str(tag["id"]) for tag in self.soup.find_all(id=True)}
        return found | {str(tag["name"]) for tag in self.soup.find_all("a", attrs={"name": True})}


LIGHT = 300_000
"""Bytes that a page may send, compressed: itself, its scripts and its styles."""


def too_heavy(page, limit=LIGHT):
    """The weight of a page that is above the limit, and scripts that it could do without."""
    files = [page.path]
    for tag in page.soup.find_all(["script", "link"]):
        name = attribute(tag, "src") or attribute(tag, "href")
        if tag.name == "script" or attribute(tag, "rel") == "stylesheet":
            file = (page.path.parent / urlsplit(name).path).resolve()
            files += [file] if name and file.is_file() else []
    weight = sum(len(gzip.compress(file.read_bytes())) for file in dict.fromkeys(files))
    faults = [f"{weight:,} bytes"] if weight > limit else []
    return faults + [f.name for f in files if re.search("fontawesome|mathjax", f.name, re.I)]


def attribute(tag, name):
    """An attribute as one string, empty if it is not there."""
    value = tag.get(name, "")
    return " ".join(value) if isinstance(value, list) else str(value or "")


def leaves_the_site(page):
    """Everything that the page itself would fetch from another host."""
    faults = []
    for name, attributes in LOADS.items():
        for tag in page.soup.find_all(name):
            if name == "link" and attribute(tag, "rel") in ("canonical", "next", "prev", "search"):
                continue
            for key in attributes:
                if ELSEWHERE.match(attribute(tag, key)):
                    faults.append(f"<{name} {key}={attribute(tag, key)}>")
    styles = [tag.get_text() for tag in page.soup.find_all("style")]
    styles += [attribute(tag, "style") for tag in page.soup.find_all(style=True)]
    return faults + [f"style: {url}" for css in styles for url in css_elsewhere(css)]


def css_elsewhere(css):
    """Addresses on other hosts that a style sheet fetches."""
    urls = [first or second for first, second in CSS_URL.findall(css)]
    return [url for url in urls if ELSEWHERE.match(url)]


def uses_a_cdn(page):
    """RequireJS, a widget manager, widget state, or a CDN named in a script."""
    return [
        f"<script {attribute(tag, 'src') or attribute(tag, 'type')}>: {found[0]}"
        for tag in page.soup.find_all("script")
        if (found := CDN.search(" ".join(map(str, tag.attrs.values())) + tag.get_text()))
    ]


def hidden(tag):
    """Whether the element or one around it is hidden from a screen reader."""
    return any(attribute(one, "aria-hidden") == "true" for one in [tag, *tag.parents])


def without_a_name(page):
    """Pictures that a screen reader cannot name."""
    faults = []
    for tag in page.soup.find_all("img"):
        if not attribute(tag, "alt").strip() and not hidden(tag):
            faults.append(f"<img src={attribute(tag, 'src')[:60]}> has no alt text")
    for tag in page.soup.find_all("svg"):
        if tag.find_parent("svg") or hidden(tag):
            continue
        named = attribute(tag, "aria-label").strip() or attribute(tag, "aria-labelledby").strip()
        if attribute(tag, "role") != "img" or not (named or tag.find("title", recursive=False)):
            faults.append(f"<svg id={attribute(tag, 'id')}> lacks role=img and a name")
    for tag in page.soup.find_all("canvas"):
        if not attribute(tag, "aria-label").strip() and not hidden(tag):
            faults.append("<canvas> has no aria-label")
    return faults


def broken_links(page, pages):
    """Links within the site whose file or anchor is not there."""
    faults = []
    for tag in page.soup.find_all("a", href=True):
        href = attribute(tag, "href")
        address, fragment = urldefrag(href)
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        base = f"{urlsplit(repository().pages).path}/"  # as the page of wrong addresses links
        path, folder = unquote(parts.path), page.path.parent
        if path.startswith(base):
            path, folder = path.removeprefix(base), page.site
        file = (folder / path).resolve() if path else page.path
        if not file.is_file():
            faults.append(f"{href}: no such file")
        elif fragment and file.suffix == ".html":
            there = pages.get(file) or Page(file, page.site)
            if unquote(fragment) not in there.anchors:
                faults.append(f"{href}: no such anchor")
    return faults


def colab_links(page):
    """The addresses of the page's Colab button."""
    links = [attribute(tag, "href") for tag in page.soup.find_all("a", href=True)]
    return [link for link in links if link.startswith("https://colab.research.google.com/")]


def wrong_colab_button(page, prefix, root):
    """Faults of a chapter's Colab button: it must open an existing notebook of this repository."""
    links = colab_links(page)
    if not links:
        return ["no Colab button"]
    faults = []
    for link in links:
        file = urldefrag(link).url.removeprefix(prefix)
        if file == urldefrag(link).url or not file.endswith(".ipynb"):
            faults.append(f"{link} does not begin with {prefix}")
        elif not (root / file).is_file():
            faults.append(f"{link}: {file} is not in the repository")
    return faults


# --- in a browser ------------------------------------------------------------------------------


def script(name):
    """JavaScript that looks at an open page."""
    return (Path(__file__).parent / "js" / f"{name}.js").read_text(encoding="utf-8")


FIND_BAD_MATH = r"""
() => [...document.querySelectorAll('.math')].flatMap(box => {
  const drawn = box.querySelector('math');
  if (!(drawn?.getBoundingClientRect().width > 0)) return ['some math was not rendered: ' + box.textContent];
  return drawn.textContent.includes('\\') ? ['math error: ' + drawn.textContent] : [];
})
"""
FIND_FAINT = script("find_faint")

FIND_WIDE = script("find_wide")

FIND_CRAMPED = script("find_cramped")


AXE = {"preload": False, "rules": {"color-contrast": {"enabled": False}}}
"""Contrast is what FIND_FAINT looks at, in both themes; axe is slow at it."""


@dataclass
class Visit:
    """What a browser saw on one page."""

    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    math: list[str] = field(default_factory=list)
    wide: list[str] = field(default_factory=list)
    cramped: list[str] = field(default_factory=list)
    faint: list[str] = field(default_factory=list)
    axe: list[str] = field(default_factory=list)

    @property
    def faults(self):
        """Everything together."""
        faults = self.outside + self.errors + self.math + self.wide
        return faults + self.cramped + self.faint + self.axe


def told_by_axe(page):
    """Violations that axe-core reports of an open page."""
    return [
        f"axe: {rule['id']} at {node['target']}: {node['failureSummary']}"
        for rule in Axe().run(page, options=AXE).response["violations"]
        for node in rule["nodes"]
    ]


def visit(browser, site, path, theme):
    """Open a page with the network off but for the site itself; wide first, then 360 px wide."""
    seen = Visit()
    context = browser.new_context(color_scheme=theme, viewport={"width": 1280, "height": 900})
    try:

        def route(handler):
            if handler.request.url.startswith((site, "data:", "blob:")):
                handler.continue_()
            else:
                seen.outside.append(f"asks for {handler.request.url}")
                handler.abort()

        context.route("**/*", route)
        page = context.new_page()
        page.on("console", lambda m: seen.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on(
            "response",
            lambda answer: (
                seen.errors.append(f"{answer.status} for {answer.url}")
                if answer.status >= 400
                else None
            ),
        )
        page.goto(f"{site}/{path}", wait_until="load")
        seen.math += page.evaluate(FIND_BAD_MATH)
        page.add_style_tag(content="* { transition: none !important; animation: none !important }")
        seen.faint = page.evaluate(FIND_FAINT)
        if theme == "light":  # what it looks at is the same in the dark
            seen.axe = told_by_axe(page)
        page.set_viewport_size({"width": 360, "height": 740})
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        page.wait_for_timeout(50)
        seen.wide = page.evaluate(FIND_WIDE)
        seen.cramped = page.evaluate(FIND_CRAMPED)
        seen.faint += page.evaluate(FIND_FAINT)
    finally:
        context.close()
    return seen
