"""Sphinx extension: quizzes and kernel listings as directives, `:::{quiz}` and `:::{kernel}`.

What a directive holds is read by helpers.page.directives and shown by helpers.page.quiz and
show_kernel, as a notebook shows it. In a quiz every role works that works in a paragraph. An error
names the page and the line.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # helpers stands beside book/

from helpers.page import quiz, show_kernel
from helpers.page.directives import DirectiveTextError, read_kernel, read_quiz
from nogpu.errors import TileError

logger = logging.getLogger(__name__)

OPEN, CLOSE = "\ue000", "\ue001"
"""Private characters around the number of a text whose nodes take its place in the HTML."""


class FromLines(SphinxDirective):
    """A directive whose lines helpers.page.directives reads, options too."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """The directive's nodes; of one that cannot be read, none, and an error of the build."""
        title = self.arguments[0] if self.arguments else ""
        try:
            return self.shown(title, list(self.content))
        except TileError as error:  # of the text, or of what show_kernel was asked for
            line = self.lineno
            if isinstance(error, DirectiveTextError) and error.line >= 0:
                line += 1 + self.content_offset + error.line
            logger.error("%s: %s", self.name, error, location=(self.env.docname, line))
            return []

    def shown(self, title: str, lines: list[str]) -> list[nodes.Node]:
        """The nodes of what stands after the directive's name and below it."""
        raise NotImplementedError


class Quiz(FromLines):
    """`:::{quiz} Question?` with `- [ ] an option` and `- [x] a right one`, a reason below each."""

    def shown(self, title: str, lines: list[str]) -> list[nodes.Node]:
        """The quiz's HTML, with the nodes of its texts in it."""
        read = read_quiz(title, lines)
        texts: list[str] = []

        def keep(text: str) -> str:
            texts.append(text)
            return f"{OPEN}{len(texts) - 1}{CLOSE}"

        shown = quiz(read.question, read.options, answer=read.answer, words=keep)
        found: list[nodes.Node] = []
        for at, part in enumerate(re.split(f"{OPEN}(\\d+){CLOSE}", shown.html)):
            if at % 2:
                inner, messages = self.state.inline_text(texts[int(part)], self.lineno)
                found += [nodes.inline("", "", *inner), *messages]
            else:
                found.append(nodes.raw("", part, format="html"))
        return found


class Listing(FromLines):
    """`:::{kernel} block_1d` with its options: the listing that show_kernel() makes."""

    def shown(self, title: str, lines: list[str]) -> list[nodes.Node]:
        """The listing's HTML."""
        read = read_kernel(title, lines)
        return [nodes.raw("", show_kernel(read.kernel, **read.keywords).html, format="html")]


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx when it loads the extension."""
    app.add_directive("quiz", Quiz)
    app.add_directive("kernel", Listing)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
