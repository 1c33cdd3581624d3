"""Sphinx extension: a page loads no style that no page uses, so that its first words stand there
sooner.

The theme's style sheets hold ten times what the book needs, above all icons. A rule stays if each
of its classes is in some page or may be set by a script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHEETS = "styles/pydata-sphinx-theme.css", "sphinx-design.min.css", "mystnb.*.css"
NESTING = "@media", "@supports", "@container", "@layer"
_TOKEN = re.compile(r"""/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{};]""", re.S)


def rules(css: str) -> Iterator[tuple[str, str | None]]:
    """Each rule as what stands before its braces and in them; None for braces for @import."""
    depth = start = opened = 0
    for token in _TOKEN.finditer(css):
        at, sign = token.start(), token[0]
        if sign == "{":
            opened = at if depth == 0 else opened
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                yield css[start:opened], css[opened + 1 : at]
                start = at + 1
        elif depth == 0 and (sign == ";" or sign.startswith("/*")):
            if sign == ";":
                yield css[start : at + 1], None
            start = token.end()


def trimmed(css: str, words: set[str]) -> str:
    """A style sheet without the selectors that name a class outside words, and without comments."""
    kept = []
    for head, body in rules(css):
        if body is None:
            kept.append(head)
        elif head.strip().startswith(NESTING):
            inner = trimmed(body, words)
            kept.append(f"{head}{{{inner}}}" if inner else "")
        elif head.strip().startswith("@"):
            kept.append(f"{head}{{{body}}}")
        else:
            left = [s for s in re.split(r",(?![^(\[]*[)\]])", head) if _classes(s) <= words]
            kept.append(f"{','.join(left)}{{{body}}}" if left else "")
    return "".join(kept)


def _classes(selector: str) -> set[str]:
    """The classes that an element must have; of those in :is() and :not() it need not have all."""
    while (bare := re.sub(r"\([^()]*\)|\[[^\]]*\]", "", selector)) != selector:
        selector = bare
    return {name.replace("\\", "") for name in re.findall(r"\.((?:[\w-]|\\.)+)", selector)}


def used(folder: Path) -> set[str]:
    """Every class of the built pages and every word of their scripts."""
    words: set[str] = set()
    for page in folder.rglob("*.html"):
        for names in re.findall(r'class="([^"]*)"', page.read_text(encoding="utf-8")):
            words.update(names.split())
    for code in (folder / "_static").rglob("*.js"):
        if code.name != "fontawesome.js":  # icons as pictures, which no page loads
            words.update(re.findall(r"[\w-]+", code.read_text(encoding="utf-8")))
    return words


def fresh(app: Any, builder: Any) -> None:
    """Take away what an earlier build has trimmed, as Sphinx warns of files that it overwrites."""
    for sheet in _sheets(app):
        sheet.unlink()


def _sheets(app: Any) -> list[Path]:
    return [found for name in SHEETS for found in (Path(app.outdir) / "_static").glob(name)]


def lighten(app: Any, fault: Exception | None) -> None:
    """Trim the theme's style sheets."""
    if fault is not None or app.builder.format != "html":
        return
    words = used(Path(app.outdir))
    for sheet in _sheets(app):
        sheet.write_text(trimmed(sheet.read_text(encoding="utf-8"), words), encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx when it loads the extension."""
    # Where no page is written, nothing is copied anew: what is there must stay.
    app.connect("write-started", fresh)
    app.connect("build-finished", lighten)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
