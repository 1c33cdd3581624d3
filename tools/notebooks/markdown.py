"""A page of the book as its parser reads it, cut into the cells of a notebook."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.page import claims
from helpers.page.directives import opened

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


@cache
def parser() -> MarkdownIt:
    """MyST's own Markdown parser, with the extensions that _config.yml switches on."""
    from markdown_it.renderer import RendererHTML
    from myst_parser.config.main import MdParserConfig
    from myst_parser.parsers.mdit import create_md_parser

    return create_md_parser(
        MdParserConfig(enable_extensions={"colon_fence", "dollarmath", "attrs_inline"}),
        RendererHTML,
    )


@dataclass(frozen=True)
class Page:
    """One file of book/: its tokens, its lines and how far its text is from the file's start."""

    path: Path
    text: str

    @cached_property
    def plain_text(self) -> str:
        """The text without its marks of claims, line for line: a notebook has plain sentences."""
        return claims.unmarked(self.text)

    @property
    def stem(self) -> str:
        """File name without ".md", which is also the page's name in {doc}."""
        return self.path.stem

    @cached_property
    def tokens(self) -> list[Token]:
        """Block tokens of the whole page."""
        return parser().parse(self.plain_text)

    @cached_property
    def lines(self) -> list[str]:
        """The page line by line, with line ends."""
        return self.plain_text.splitlines(keepends=True)

    @cached_property
    def is_chapter(self) -> bool:
        """Whether the page runs code, and so has a notebook beside it."""
        first = self.tokens[0] if self.tokens else None
        return bool(first and first.type == "front_matter" and "kernelspec:" in first.content)


def plain(source: str) -> str:
    """Inline Markdown as bare text: roles by their text, no code or math marks."""
    source = re.sub(r"\{cite\}`[^`]*`", "", source)
    source = re.sub(r"\{[\w:]+\}`([^`<]*?)\s*(?:<[^`]*>)?`", r"\1", source)
    return re.sub(r"\s+", " ", source.replace("`", "").replace("$", "")).strip()


@dataclass(frozen=True)
class Piece:
    """The source of one cell: a run of block tokens, or one code cell; `start` is a line index."""

    kind: str
    start: int
    end: int
    tokens: tuple[Token, ...]
    id: str


def groups(tokens: list[Token]) -> Iterator[list[Token]]:
    """Top-level blocks: each with every token inside it."""
    block: list[Token] = []
    depth = 0
    for token in tokens:
        block.append(token)
        depth += token.nesting
        if depth == 0:
            yield block
            block = []


def is_code_cell(token: Token) -> bool:
    """Whether a token is a ```{code-cell}."""
    return token.type == "fence" and token.info.strip().startswith("{code-cell}")


def directive_of(token: Token) -> str:
    """The name of a directive that is a cell of its own in a notebook, quiz or kernel; else ""."""
    found = opened(token.info) if token.type == "colon_fence" else None
    return found[0] if found else ""


def has_glue(tokens: list[Token]) -> bool:
    """Whether a glued number stands somewhere in these tokens."""
    return any("{glue:" in token.content for token in tokens if not is_code_cell(token))


def pieces(page: Page) -> Iterator[Piece]:
    """A chapter as cells: at headings and code cells, around glued numbers, quizzes, listings."""
    seen: dict[str, int] = {}

    def piece(kind: str, blocks: list[list[Token]]) -> Piece:
        tokens = tuple(token for block in blocks for token in block)
        spans = [token.map for token in tokens if token.map]
        start, end = min(a for a, _ in spans), max(b for _, b in spans)
        source = "".join(page.lines[start:end])
        seen[source] = seen.get(source, 0) + 1
        salted = f"{page.path.name}\n{kind}\n{seen[source]}\n{source}"
        return Piece(kind, start, end, tokens, hashlib.sha256(salted.encode()).hexdigest()[:12])

    run: list[list[Token]] = []
    for block in groups(page.tokens):
        first = block[0]
        if first.type in ("front_matter", "myst_target"):
            continue
        alone = "code" if is_code_cell(first) else directive_of(first)
        alone = alone or ("say" if has_glue(block) else "")
        if run and (alone or first.type == "heading_open"):
            yield piece("markdown", run)
            run = []
        if alone:
            yield piece(alone, [block])
        else:
            run.append(block)
    if run:
        yield piece("markdown", run)
