"""Pieces of a page: HTML or Markdown, each with the same in plain text."""

import html
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

HIDDEN = (
    "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap"
)
"""Style of words that are read aloud and not drawn; inline, for pages without our style sheet."""


@dataclass(frozen=True)
class Html:
    """A piece of a page, and the same in plain text for a terminal."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Markdown:
    """A paragraph of Markdown."""

    markdown: str

    def _repr_markdown_(self) -> str:
        return self.markdown

    def __repr__(self) -> str:
        return self.markdown


LINK = re.compile(r'\[([^\[\]]+)\]\((https?://[^\s()"<>]+)(?: "([^"]*)")?\)')
"""A link of Markdown, as roles become in a notebook: `[warp](https://... "its definition")`."""


def inline(text: str) -> str:
    """HTML of a line of words in which `code` stands in backticks; links as LINK has them."""
    parts = re.split(r"`([^`]+)`", text)
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = f"<code>{html.escape(part, quote=False)}</code>"
            continue
        words, at = "", 0
        for link in LINK.finditer(part):
            title = f' title="{html.escape(link[3])}"' if link[3] else ""
            words += html.escape(part[at : link.start()], quote=False)
            words += f'<a href="{link[2]}"{title}>{html.escape(link[1], quote=False)}</a>'
            at = link.end()
        parts[i] = words + html.escape(part[at:], quote=False)
    return "".join(parts)


def breakable(text: str) -> str:
    """inline(), in which a long name may go on below after an underscore, as on a phone it must."""
    return re.sub(r"(?<=\w)_(?=\w)", "_<wbr>", inline(text))


def python_value(value: Any) -> Any:
    """A Python value whose repr reads back: NumPy 2 writes np.float64(1.5), which no page wants."""
    scalar = isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0)
    return value.item() if scalar else value
