"""What a page of the book must keep to, as functions from HTML to a list of faults.

Each is applied to the built book and to a page that breaks it (tests/test_book.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup
from bs4.element import Tag

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
    def soup(self) -> BeautifulSoup:
        """The page parsed."""
        return BeautifulSoup(self.path.read_text(encoding="utf-8"), "html.parser")

    @cached_property
    def anchors(self) -> set[str]:
        """Everything on the page that a link can point at."""
        found = {str(tag["id"]) for tag in self.soup.find_all(id=True)}
        return found | {str(tag["name"]) for tag in self.soup.find_all("a", attrs={"name": True})}


def attribute(tag: Tag, name: str) -> str:
    """An attribute as one string, empty if it is not there."""
    value = tag.get(name, "")
    return " ".join(value) if isinstance(value, list) else str(value or "")


def leaves_the_site(page: Page) -> list[str]:
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


def css_elsewhere(css: str) -> list[str]:
    """Addresses on other hosts that a style sheet fetches."""
    urls = [first or second for first, second in CSS_URL.findall(css)]
    return [url for url in urls if ELSEWHERE.match(url)]


def uses_a_cdn(page: Page) -> list[str]:
    """RequireJS, a widget manager, widget state, or a CDN named in a script."""
    return [
        f"<script {attribute(tag, 'src') or attribute(tag, 'type')}>: {found[0]}"
        for tag in page.soup.find_all("script")
        if (found := CDN.search(" ".join(map(str, tag.attrs.values())) + tag.get_text()))
    ]


def hidden(tag: Tag) -> bool:
    """Whether the element or one around it is hidden from a screen reader."""
    return any(attribute(one, "aria-hidden") == "true" for one in [tag, *tag.parents])


def without_a_name(page: Page) -> list[str]:
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


def broken_links(page: Page, pages: dict[Path, Page]) -> list[str]:
    """Links within the site whose file or anchor is not there."""
    faults = []
    for tag in page.soup.find_all("a", href=True):
        href = attribute(tag, "href")
        address, fragment = urldefrag(href)
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        file = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
        if not file.is_file():
            faults.append(f"{href}: no such file")
        elif fragment and file.suffix == ".html":
            there = pages.get(file) or Page(file, page.site)
            if unquote(fragment) not in there.anchors:
                faults.append(f"{href}: no such anchor")
    return faults


def colab_links(page: Page) -> list[str]:
    """The addresses of the page's Colab button."""
    links = [attribute(tag, "href") for tag in page.soup.find_all("a", href=True)]
    return [link for link in links if link.startswith("https://colab.research.google.com/")]


def wrong_colab_button(page: Page, prefix: str, root: Path) -> list[str]:
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

FIND_FAINT = """
() => {
  // Text whose colour is too near to what lies behind it: below 3:1, or 4.5:1 for body text.
  const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;
  const pen = canvas.getContext('2d', {willReadFrequently: true});
  const rgba = text => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = text; pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = node => {
    for (let one = node; one; one = one.parentElement) {
      const found = rgba(getComputedStyle(one).backgroundColor);
      if (found[3] > 250) return found;
    }
    return [255, 255, 255, 255];
  };
  // The last shape drawn before a label that lies under its middle, if it hides the page.
  const shapes = new Map();
  const under = label => {
    const drawing = label.ownerSVGElement;
    if (!shapes.has(drawing)) shapes.set(drawing, [...drawing.querySelectorAll(
      'rect, path, circle, ellipse, polygon, use')].map(one => {
        const style = getComputedStyle(one);
        const fill = style.fill.startsWith('rgb') ? rgba(style.fill) : [0, 0, 0, 0];
        return {one, fill, alpha: fill[3] / 255 * style.fillOpacity * style.opacity,
                box: one.getBoundingClientRect()};
      }).filter(shape => shape.alpha > 0.5 && shape.box.width && !shape.one.closest('defs')));
    const box = label.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const below = shapes.get(drawing).filter(shape =>
      shape.one.compareDocumentPosition(label) & Node.DOCUMENT_POSITION_FOLLOWING &&
      shape.box.left <= x && x <= shape.box.right && shape.box.top <= y && y <= shape.box.bottom);
    return below.length ? below.at(-1).fill : behind(drawing);
  };
  const faults = [];
  // Every element that has words of its own, as axe looks at them: axe takes eight seconds for it.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const nodes = new Set();
  while (walker.nextNode()) if (walker.currentNode.data.trim()) nodes.add(walker.currentNode.parentElement);
  for (const node of nodes) {
    const words = node.textContent.trim();
    const box = node.getBoundingClientRect();
    if (box.width < 3 || box.height < 3 || node.closest('[aria-hidden=true], mjx-container, script, style, noscript'))
      continue;
    const style = getComputedStyle(node);
    const drawn = node instanceof SVGElement;
    const front = rgba(drawn ? style.fill : style.color);
    if (front[3] < 128 || !node.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    if (node.closest('[disabled], [aria-disabled=true]')) continue;
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const [a, b] = [light(front), light(drawn ? under(node) : behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < (drawn || large ? 3 : 4.5))
      faults.push(`${node.tagName} "${words.slice(0, 40)}" has contrast ${ratio.toFixed(2)}`);
  }
  return faults;
}
"""

FIND_WIDE = """
() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  const wide = [];
  for (const node of document.body.querySelectorAll('*')) {
    const box = node.getBoundingClientRect();
    if (box.right > room + 1 && box.width)
      wide.push(`${node.tagName}.${node.className} reaches ${Math.round(box.right)} of ${room} px`);
  }
  return [`the page scrolls to ${document.documentElement.scrollWidth} px`, ...wide.slice(0, 5)];
}
"""

FIND_CRAMPED = """
() => {
  // Words in drawings that a phone shows too small, over each other, or outside the drawing.
  const drawings = [];
  const collect = root => { for (const node of root.querySelectorAll('*')) {
    if (node.shadowRoot) collect(node.shadowRoot);
    if (node.tagName === 'svg' && node.getBoundingClientRect().width) drawings.push(node);
  } };
  collect(document);
  // The corners of a text's ink on the screen, turned as it is: less than its line, which has air.
  const corners = label => {
    const box = label.getBBox(), at = label.getScreenCTM(), [top, low] = [0.22, 0.82];
    return [[0, top], [1, top], [1, low], [0, low]].map(([i, j]) => {
      const [x, y] = [box.x + i * box.width, box.y + j * box.height];
      return [at.a * x + at.c * y + at.e, at.b * x + at.d * y + at.f];
    });
  };
  const apart = (one, other) => [one, other].some(shape => [0, 1].some(i => {
    const [nx, ny] = [shape[i + 1][1] - shape[i][1], shape[i][0] - shape[i + 1][0]];
    const reach = points => points.map(([x, y]) => x * nx + y * ny);
    const [a, b] = [reach(one), reach(other)];
    return Math.max(...a) <= Math.min(...b) || Math.max(...b) <= Math.min(...a);
  }));
  const faults = [];
  for (const drawing of drawings) {
    const frame = drawing.getBoundingClientRect();
    const seen = [...drawing.querySelectorAll('text')].filter(one => one.textContent.trim())
      .map(one => ({words: one.textContent.trim(), points: corners(one),
        size: parseFloat(getComputedStyle(one).fontSize) * Math.hypot(one.getScreenCTM().a, one.getScreenCTM().b)}));
    const name = (drawing.getAttribute('aria-label') || 'a drawing').slice(0, 50);
    seen.forEach(({words, points, size}, i) => {
      if (size < 9.99) faults.push(`${name}: "${words}" is ${size.toFixed(1)} px high`);
      if (points.some(([x, y]) => x < frame.left - 2 || x > frame.right + 2 || y < frame.top - 2 || y > frame.bottom + 2))
        faults.push(`${name}: "${words}" leaves the drawing`);
      for (const other of seen.slice(0, i))
        if (!apart(points, other.points)) faults.push(`${name}: "${words}" lies on "${other.words}"`);
    });
  }
  return faults;
}
"""


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
    def faults(self) -> list[str]:
        """Everything together."""
        return (
            self.outside
            + self.errors
            + self.math
            + self.wide
            + self.cramped
            + self.faint
            + self.axe
        )


def told_by_axe(page: Any) -> list[str]:
    """Violations that axe-core reports of an open page."""
    return [
        f"axe: {rule['id']} at {node['target']}: {node['failureSummary']}"
        for rule in Axe().run(page, options=AXE).response["violations"]
        for node in rule["nodes"]
    ]


def visit(browser: Any, site: str, path: str, theme: str) -> Visit:
    """Open a page with the network off but for the site itself; wide first, then 360 px wide."""
    seen = Visit()
    context = browser.new_context(color_scheme=theme, viewport={"width": 1280, "height": 900})
    try:

        def route(handler: Any) -> None:
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
        if page.locator(".math").count():
            page.wait_for_function("window.MathJax?.startup?.promise !== undefined", timeout=20_000)
            page.evaluate("() => MathJax.startup.promise.then(() => true)")
            if page.locator("mjx-container").count() < page.locator(".math").count():
                seen.math.append("some math was not rendered")
            for bad in page.locator("mjx-merror").all_inner_texts():
                seen.math.append(f"math error: {bad}")
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
