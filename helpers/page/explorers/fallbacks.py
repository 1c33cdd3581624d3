"""Small pictures for pages without script: SVG written out, drawn once, in the palette of the book.

`plots` draws charts of measurements with matplotlib, twice and with words; these are the default
state of a slider, replaced as soon as its script runs.
"""

import html
from collections.abc import Sequence

from helpers.colours import BLUE


def svg(width: float, height: float, body: str, alt: str) -> str:
    """Inline SVG with a name; text takes the page's colour. No wider than a phone, for its text."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{html.escape(alt)}" '
        f'style="display:block;width:100%;max-width:{1.4 * width:.0f}px;height:auto">{body}</svg>'
    )


def rect(x: float, y: float, w: float, h: float, paint: str, more: str = "") -> str:
    """A rectangle."""
    return f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" fill="{paint}" {more}/>'


def words(x: float, y: float, content: str, anchor: str = "start", size: float = 11) -> str:
    """A line of text."""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size:g}" '
        f'fill="currentColor">{html.escape(content)}</text>'
    )


def bars(rows: Sequence[tuple[str, float, str]], alt: str) -> str:
    """Horizontal bars of (label, value, words), relative to the largest."""
    most = max((value for _, value, _ in rows), default=1.0) or 1.0
    body = ""
    for i, (name, value, text) in enumerate(rows):
        y, wide = i * 20 + 3, 110 * value / most
        body += words(104, y + 11, name, "end") + rect(110, y, wide, 14, BLUE)
        body += words(115 + wide, y + 11, text)
    return svg(320, len(rows) * 20 + 4, body, alt)
