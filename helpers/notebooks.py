"""book/*.md -> book/*.ipynb: the notebooks that Colab opens, made from the chapters.

The chapters are MyST Markdown, which Colab does not read. This module knows a written subset of it
(see `SUBSET`), turns that into plain Markdown and code cells, and raises ExportError, with file,
line and construct, on anything else. The tokens come from the parser that builds the book, so both
read a chapter alike. Cell ids depend on the text alone: an unchanged chapter gives the same bytes.
"""

from __future__ import annotations

import ast
import hashlib
import html
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import ConfigError, ExportError, near_matches

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent

SUBSET = (
    "headings, paragraphs, lists, tables, block quotes, $math$ and $$math$$ (with a label), fenced "
    "code (python, cuda, c, cpp, bash, text, json), code-cell, note, tip, important, warning, "
    "admonition, dropdown, (target)=, the roles ref, doc, term, eq, cite and glue:text, and HTML "
    "comments"
)
"""What a chapter may be written in; CONTRIBUTING.md says the same at more length."""

ADMONITIONS = {"note": "Note", "tip": "Tip", "important": "Important", "warning": "Warning"}
LANGUAGES = frozenset({"python", "cuda", "c", "cpp", "bash", "text", "json"})
CELL_TAGS = frozenset({"hide-input", "remove-input", "hide-output", "remove-output"})
DIRECTIVE_OPTIONS = frozenset({"class", "name", "open"})
INLINE_AS_IS = frozenset(
    {"text", "softbreak", "hardbreak", "code_inline", "math_inline", "text_special"}
    | {f"{kind}_{end}" for kind in ("em", "strong") for end in ("open", "close")}
)
BLOCKS_AS_IS = frozenset(
    f"{kind}_{end}"
    for kind in (
        "paragraph",
        "bullet_list",
        "ordered_list",
        "list_item",
        "blockquote",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "heading",
    )
    for end in ("open", "close")
)
NESTED_DIRECTIVES = 2
"""A directive may hold another one (an exercise and its hint), and that one none."""


# --- where the book lives ----------------------------------------------------------------------


@dataclass(frozen=True)
class Repository:
    """The address in _config.yml and the addresses that follow from it."""

    url: str
    branch: str

    @property
    def owner(self) -> str:
        """The account on GitHub."""
        return self.url.split("/")[-2]

    @property
    def name(self) -> str:
        """The repository's name, which is also the folder that `git clone` makes."""
        return self.url.split("/")[-1]

    @property
    def pages(self) -> str:
        """Where the project's own workflow publishes the rendered book."""
        host = f"{self.owner.lower()}.github.io"
        return f"https://{host}" if self.name.lower() == host else f"https://{host}/{self.name}"

    def colab(self, stem: str) -> str:
        """Address that opens the notebook of one chapter on Colab."""
        where = f"{self.owner}/{self.name}/blob/{self.branch}/book/{stem}.ipynb"
        return f"https://colab.research.google.com/github/{where}"


def checked_address(url: str) -> str:
    """The address without a trailing slash or ".git". Raises ConfigError if Colab cannot open it."""
    short = url.strip().rstrip("/").removesuffix(".git")
    if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", short):
        raise ConfigError(
            f"{url!r} is not the address of a repository on GitHub, and Colab opens notebooks from "
            "there only. Give an address of the form https://github.com/OWNER/NAME."
        )
    return short


def repository(root: Path = ROOT) -> Repository:
    """The repository as _config.yml names it. Raises ConfigError if it names none."""
    import yaml

    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    try:
        section = config["repository"]
        return Repository(checked_address(section["url"]), section["branch"])
    except (KeyError, TypeError):
        raise ConfigError(
            "_config.yml has no `repository` with a `url` and a `branch`. The launch buttons and "
            "the notebooks need both: add them."
        ) from None


def set_repository(url: str, root: Path = ROOT) -> None:
    """Write another address into _config.yml, the one place where it stands."""
    address = checked_address(url)
    path = root / "_config.yml"
    text = path.read_text(encoding="utf-8")
    new, count = re.subn(
        r"(?m)^(repository:\s*\n(?:[ #].*\n)*?\s+url:[ \t]*)\S+", rf"\g<1>{address}", text
    )
    if count != 1:
        raise ConfigError("_config.yml has no `url` under `repository`: add one.")
    write(path, new)


def write(path: Path, text: str) -> None:
    """Replace a file in one step, so that it is never seen half-written."""
    scratch = path.with_name(path.name + ".new")
    scratch.write_text(text, encoding="utf-8", newline="\n")
    os.replace(scratch, path)


# --- the parser of the book --------------------------------------------------------------------


@cache
def parser() -> MarkdownIt:
    """MyST's own Markdown parser, with the extensions that _config.yml switches on."""
    from markdown_it.renderer import RendererHTML
    from myst_parser.config.main import MdParserConfig
    from myst_parser.parsers.mdit import create_md_parser

    return create_md_parser(
        MdParserConfig(enable_extensions={"colon_fence", "dollarmath"}), RendererHTML
    )


@dataclass(frozen=True)
class Page:
    """One file of book/: its tokens, its lines and how far its text is from the file's start."""

    path: Path
    text: str

    @property
    def stem(self) -> str:
        """File name without ".md", which is also the page's name in {doc}."""
        return self.path.stem

    @cached_property
    def tokens(self) -> list[Token]:
        """Block tokens of the whole page."""
        return parser().parse(self.text)

    @cached_property
    def lines(self) -> list[str]:
        """The page line by line, with line ends."""
        return self.text.splitlines(keepends=True)

    @cached_property
    def is_chapter(self) -> bool:
        """Whether the page runs code, and so has a notebook beside it."""
        first = self.tokens[0] if self.tokens else None
        return bool(first and first.type == "front_matter" and "kernelspec:" in first.content)

    @cached_property
    def title(self) -> str:
        """Text of the first heading."""
        for token, heading in zip(self.tokens, self.tokens[1:], strict=False):
            if token.type == "heading_open":
                return plain(heading.content)
        raise ExportError(f"{self.path}:1: the page has no heading. Begin it with `# Title`.")


def plain(source: str) -> str:
    """Inline Markdown as bare text: roles by their text, no code or math marks."""
    source = re.sub(r"\{cite\}`[^`]*`", "", source)
    source = re.sub(r"\{[\w:]+\}`([^`<]*?)\s*(?:<[^`]*>)?`", r"\1", source)
    return re.sub(r"\s+", " ", source.replace("`", "").replace("$", "")).strip()


# --- what chapters point at --------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """Where a label stands: its page, the text it goes by, its cell (chapters only)."""

    stem: str
    text: str
    cell: str


@dataclass
class Book:
    """Every page of book/ and everything that a role can point at."""

    root: Path
    repository: Repository
    pages: dict[str, Page]
    targets: dict[str, Target] = field(default_factory=dict)
    equations: dict[str, Target] = field(default_factory=dict)

    @cached_property
    def glossary(self) -> dict[str, str]:
        """Term to the first sentence of its definition, read from glossary.md."""
        page = self.pages.get("glossary")
        terms: dict[str, str] = {}
        for token in page.tokens if page else []:
            if token.type == "fence" and token.info.strip() == "{glossary}":
                names: list[str] = []
                for line in token.content.splitlines():
                    if line[:1].isspace() and names:
                        sentence = re.split(r"(?<=[.:])\s", line.strip(), maxsplit=1)[0]
                        terms.update((name, plain(sentence)) for name in names)
                        names = []
                    elif line.strip() and not line[:1].isspace() and not line.startswith(":"):
                        names.append(line.strip())
        return terms

    @cached_property
    def works(self) -> dict[str, tuple[str, str]]:
        """Cite key to (author and year, address), read from references.bib."""
        from pybtex.database import parse_file

        file = self.root / "book" / "references.bib"
        entries = parse_file(str(file)).entries if file.exists() else {}
        works = {}
        for key, entry in entries.items():
            names = [
                str(" ".join(person.prelast_names + person.last_names))
                for person in entry.persons.get("author", [])
            ]
            who = names[0] if len(names) == 1 else f"{names[0]} et al."
            if len(names) == 2:
                who = " and ".join(names)
            doi = entry.fields.get("doi")
            address = f"https://doi.org/{doi}" if doi else entry.fields.get("url", "")
            text = f"{who}, {entry.fields['year']}"
            works[key] = (
                re.sub(r"[{}]", "", text),
                address or f"{self.repository.pages}/book/references.html",
            )
        return works

    def address(self, target: Target) -> str:
        """Link to a label: its cell on Colab, or its place in the rendered book."""
        if self.pages[target.stem].is_chapter:
            anchor = f"#scrollTo={target.cell}" if target.cell else ""
            return self.repository.colab(target.stem) + anchor
        return f"{self.repository.pages}/book/{target.stem}.html"


def term_anchor(term: str) -> str:
    """The id that Sphinx gives a glossary entry."""
    return "term-" + re.sub(r"[^a-zA-Z0-9._]+", "-", term).strip("-")


def read_book(root: Path = ROOT) -> Book:
    """All pages of book/ with their labels. Raises ExportError on a label given twice."""
    paths = sorted((root / "book").glob("*.md"))
    pages = {path.stem: Page(path.relative_to(root), path.read_text("utf-8")) for path in paths}
    book = Book(root, repository(root), pages)
    numbers = chapter_numbers(root)
    for page in pages.values():
        for kind, label, target, line in labels(page, numbers.get(page.stem)):
            known = book.targets if kind == "target" else book.equations
            if label in known:
                raise ExportError(
                    f"{page.path}:{line}: the label {label!r} is already used in "
                    f"{known[label].stem}.md. Labels are unique in the whole book: rename one."
                )
            known[label] = target
    return book


def chapter_numbers(root: Path) -> dict[str, int]:
    """The number that the book gives each chapter: its place in the numbered parts of _toc.yml."""
    import yaml

    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    files = [
        Path(chapter["file"]).name
        for part in toc.get("parts", [])
        if part.get("numbered")
        for chapter in part["chapters"]
    ]
    return {stem: number for number, stem in enumerate(files, 1)}


def labels(page: Page, number: int | None) -> Iterator[tuple[str, str, Target, int]]:
    """Kind ("target" or "equation"), label, where it stands and its line, for every label."""
    waiting: list[tuple[str, int]] = []
    prefix = f"{number}." if number else ""
    count = 0
    cell = ""
    cells = {piece.start: piece.id for piece in pieces(page)} if page.is_chapter else {}
    for token, after in zip(page.tokens, [*page.tokens[1:], None], strict=True):
        start = token.map[0] if token.map else -1
        cell = cells.get(start, cell)
        if token.type == "myst_target":
            waiting.append((token.content, start + 1))
        elif token.level == 0 and token.map:
            heading = after.content if after and token.type == "heading_open" else ""
            text = "" if "{glue:" in heading else plain(heading)  # a glued text is not known here
            for label, line in waiting:
                yield "target", label, Target(page.stem, text, cell), line
            waiting = []
        if token.type == "math_block_label":
            count += 1
            yield "equation", token.info, Target(page.stem, f"{prefix}{count}", cell), start + 1


# --- cutting a page into cells -----------------------------------------------------------------


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


def has_glue(tokens: list[Token]) -> bool:
    """Whether a glued number stands somewhere in these tokens."""
    return any("{glue:" in token.content for token in tokens if not is_code_cell(token))


def pieces(page: Page) -> Iterator[Piece]:
    """Cut a chapter into cells: at headings, at code cells, around blocks with glued numbers."""
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
        alone = "code" if is_code_cell(first) else "say" if has_glue(block) else ""
        if run and (alone or first.type == "heading_open"):
            yield piece("markdown", run)
            run = []
        if alone:
            yield piece(alone, [block])
        else:
            run.append(block)
    if run:
        yield piece("markdown", run)


# --- turning a piece into a cell ---------------------------------------------------------------


@dataclass
class Exporter:
    """Writes one chapter as a notebook."""

    book: Book
    page: Page
    glued: list[str] = field(default_factory=list)
    """Patterns of the names glued by the code cells so far."""

    def fail(self, line: int, construct: str, advice: str) -> ExportError:
        """The error for a construct outside the subset; `line` counts from 0."""
        return ExportError(
            f"{self.page.path}:{line + 1}: {construct} is outside the MyST subset that exports to "
            f"a notebook. {advice} The subset: {SUBSET}."
        )

    def notebook(self) -> dict[str, Any]:
        """The whole notebook, as the JSON of nbformat 4.5."""
        cells = [setup_cell(self.book.repository, self.page)]
        for piece in pieces(self.page):
            if piece.kind == "code":
                cells.append(self.code(piece))
                continue
            text = self.blocks(list(piece.tokens), self.page.lines, 0, 0, glue=piece.kind == "say")
            if not text.strip():
                continue
            if piece.kind == "say":
                cells.append(code_cell(say(text), piece.id, ["hide-input"]))
            else:
                cells.append(cell("markdown", text.strip("\n"), piece.id))
        return {
            "cells": cells,
            "metadata": {
                "accelerator": "GPU",
                "colab": {"gpuType": "T4", "provenance": [], "toc_visible": True},
                "kernelspec": {
                    "display_name": "Python 3",
                    "language": "python",
                    "name": "python3",
                },
                "language_info": {"name": "python"},
                "tile_by_tile": {"generated_from": self.page.path.as_posix()},
            },
            "nbformat": 4,
            "nbformat_minor": 5,
        }

    def code(self, piece: Piece) -> dict[str, Any]:
        """A code cell, its text as it stands in the chapter."""
        token = piece.tokens[0]
        if token.info.split() != ["{code-cell}", "ipython3"]:
            raise self.fail(piece.start, f"`{token.info}`", "Write ```{code-cell} ipython3.")
        options, source, _ = self.options(token, piece.start, frozenset({"tags"}))
        tags = [tag.strip() for tag in options.get("tags", "[]").strip("[] ").split(",")]
        tags = [tag for tag in tags if tag]
        for tag in tags:
            if tag not in CELL_TAGS:
                advice = f"Use one of {', '.join(sorted(CELL_TAGS))}."
                raise self.fail(piece.start, f"the cell tag `{tag}`", advice)
        self.glued += glued_names(source)
        return code_cell(source, piece.id, tags)

    def options(
        self, token: Token, start: int, known: frozenset[str]
    ) -> tuple[dict[str, str], str, int]:
        """Options of a directive, the body below them, and how many lines lie before the body."""
        lines = token.content.splitlines(keepends=True)
        options: dict[str, str] = {}
        skip = 0
        while skip < len(lines):
            match = re.match(r":([\w-]+):\s*(.*)", lines[skip])
            if not match:
                break
            if match[1] not in known:
                advice = f"Use one of {', '.join(sorted(known))}."
                raise self.fail(start + 1 + skip, f"the option `:{match[1]}:`", advice)
            options[match[1]] = match[2].strip()
            skip += 1
        while skip < len(lines) and not lines[skip].strip():
            skip += 1
        return options, "".join(lines[skip:]).rstrip("\n"), skip + 1

    def blocks(
        self, tokens: list[Token], lines: list[str], offset: int, depth: int, glue: bool
    ) -> str:
        """Markdown of some block tokens. `offset` is the line in the file of lines[0]."""
        parts = [self.block(block, lines, offset, depth, glue) for block in groups(tokens)]
        return "\n\n".join(part.strip("\n") for part in parts if part.strip())

    def block(
        self, block: list[Token], lines: list[str], offset: int, depth: int, glue: bool
    ) -> str:
        """Markdown of one top-level block."""
        first = block[0]
        start, end = first.map or (0, 0)
        line = offset + start
        if first.type == "html_block":
            return self.comment(first.content, line)
        if first.type in ("math_block", "math_block_label"):
            return self.display_math(first, line)
        if first.type == "fence" and first.info.strip().startswith("{"):
            if is_code_cell(first):
                raise self.fail(line, "a code cell inside a directive", "Put it on its own.")
            raise self.fail(line, f"`{first.info.strip()}`", "Directives are written with `:::`.")
        if first.type == "colon_fence":
            return self.directive(first, line, depth, glue)
        if first.type == "heading_open" and depth:
            raise self.fail(line, "a heading inside a directive", "Use bold text.")
        texts = list(lines[start:end])
        self.inside(block, texts, start, offset, glue)
        return "".join(texts)

    def inside(
        self, block: list[Token], texts: list[str], start: int, offset: int, glue: bool
    ) -> None:
        """Check every token of a block and replace the roles in its source lines, in place."""
        rows: dict[int, list[tuple[int, list[Token]]]] = {}
        for token in block:
            line = offset + (token.map[0] if token.map else start)
            if token.type == "inline":
                assert token.map is not None
                rows.setdefault(token.map[0], []).append((token.map[1], token.children or []))
            elif token.type == "fence":
                language = token.info.strip()
                if language not in LANGUAGES:
                    named = f"a fenced block of {language!r}" if language else "a fence without one"
                    raise self.fail(line, named, f"Name one of {', '.join(sorted(LANGUAGES))}.")
            elif token.type == "html_block" and is_comment(token.content):
                continue
            elif token.type not in BLOCKS_AS_IS:
                names = {
                    "code_block": ("an indented code block", "Use a fence with a language."),
                    "myst_line_comment": ("a `%` comment", "Use an HTML comment."),
                    "myst_block_break": ("a `+++` break", "Leave it out."),
                    "hr": ("a horizontal rule", "Use a heading."),
                    "html_block": ("raw HTML", "Return it from a code cell."),
                    "colon_fence": ("a directive inside a list or quote", "Put it on its own."),
                    "math_block": ("display math inside a list", "Put it on its own."),
                    "math_block_label": ("display math inside a list", "Put it on its own."),
                    "footnote_reference_open": ("a footnote", "Put it into the text."),
                }
                raise self.fail(line, *names.get(token.type, (f"`{token.type}`", "Leave it out.")))
        for top in sorted(rows, reverse=True):
            bottom = max(end for end, _ in rows[top])
            source = "".join(texts[top - start : bottom - start])
            children = [child for _, tokens in rows[top] for child in tokens]
            new = self.inline(children, source, offset + top, glue)
            texts[top - start : bottom - start] = [new]

    def inline(self, children: list[Token], source: str, line: int, glue: bool) -> str:
        """Source of a paragraph with its roles replaced and everything else left as it is."""
        done = ""
        here = line
        for child in children:
            if child.type in ("softbreak", "hardbreak"):
                here += 1
            elif child.type == "code_inline":
                at = find(source, re.escape(child.content))
                if at:
                    done, source = done + source[: at.end()], source[at.end() :]
            elif child.type == "myst_role":
                name = child.meta["name"]
                at = find(
                    source, r"\{" + re.escape(name) + r"\}`+" + re.escape(child.content) + "`+"
                )
                assert at is not None, (source, child)
                new = self.role(name, child.content, here, glue)
                done, source = done + source[: at.start()] + new, source[at.end() :]
            elif child.type == "html_inline":
                self.comment(child.content, here)
                before, _, source = source.partition(child.content)
                done += before
            elif child.type == "image":
                raise self.fail(here, "an image", "Draw it in a code cell, with its alt text.")
            elif child.type == "link_open":
                href = str(child.attrs.get("href", ""))
                if not re.match(r"https?://|mailto:", href):
                    advice = "Use {doc}`text <page>` or {ref}`label`."
                    raise self.fail(here, f"a link to `{href}`", advice)
            elif child.type not in INLINE_AS_IS and child.type != "link_close":
                raise self.fail(here, f"`{child.type}`", "Leave it out.")
        return done + source

    def comment(self, markup: str, line: int) -> str:
        """Nothing, for an HTML comment; an error for any other HTML."""
        if is_comment(markup):
            return ""
        raise self.fail(line, f"raw HTML (`{markup.strip()[:40]}`)", "Return it from a code cell.")

    def display_math(self, token: Token, line: int) -> str:
        """A displayed equation, with the number that the book gives it."""
        body = token.content.strip("\n")
        if token.type == "math_block_label":
            if token.info not in self.book.equations:
                raise self.fail(line, "a numbered equation in a directive", "Put it on its own.")
            body += f"\n\\tag{{{self.book.equations[token.info].text}}}"
        return f"$$\n{body}\n$$"

    def directive(self, token: Token, line: int, depth: int, glue: bool) -> str:
        """An admonition as a block quote, a dropdown as a details element."""
        match = re.fullmatch(r"\{([^}]*)\}\s*(.*)", token.info.strip())
        if not match:
            raise self.fail(line, "a `:::` block without a directive", "Write :::{note}.")
        name, title = match[1], match[2]
        if name not in ADMONITIONS and name not in ("admonition", "dropdown"):
            raise self.fail(line, f"the directive `{name}`", "Use one of the subset.")
        if depth + 1 > NESTED_DIRECTIVES:
            raise self.fail(line, f"a `{name}` nested this deep", "Nest one level, not more.")
        if (name in ADMONITIONS) == bool(title):
            advice = "Write its text on the next line." if title else "Write its title after it."
            raise self.fail(line, f"`{name}` {'with' if title else 'without'} a title", advice)
        _, body, skip = self.options(token, line, DIRECTIVE_OPTIONS)
        tokens = parser().parse(body)
        lines = body.splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        inner = self.blocks(tokens, lines, line + skip, depth + 1, glue)
        if name == "dropdown":  # Markdown inside <summary> would not be rendered
            heading = html.escape(plain(title), quote=False)
            return f"<details>\n<summary>{heading}</summary>\n\n{inner}\n\n</details>"
        head = parser().parseInline(title or ADMONITIONS[name])[0].children or []
        heading = self.inline(head, title or ADMONITIONS[name], line, glue)
        quoted = f"**{heading}**\n\n{inner}".splitlines()
        return "\n".join(f"> {text}".rstrip() for text in quoted)

    # --- roles -----------------------------------------------------------------------------

    def role(self, name: str, content: str, line: int, glue: bool) -> str:
        """Markdown of one role."""
        roles: dict[str, Callable[[str, str, int], str]] = {
            "ref": self.ref,
            "doc": self.doc,
            "term": self.term,
            "eq": self.eq,
        }
        if name == "glue:text":
            return self.glue(content, line)
        if name == "cite":
            return "(" + "; ".join(self.cite(key.strip(), line) for key in content.split(",")) + ")"
        if name not in roles:
            raise self.fail(line, f"the role `{name}`", "Use one of the subset.")
        match = re.fullmatch(r"(.*?)\s*<([^<>]+)>", content, re.DOTALL)
        text, label = (match[1], match[2]) if match else ("", content)
        return roles[name](text, label.strip(), line)

    def unknown(self, what: str, label: str, known: Mapping[str, Any], line: int) -> ExportError:
        """The error for a role that points at nothing."""
        return ExportError(
            f"{self.page.path}:{line + 1}: no {what} {label!r} in the book. "
            f"{near_matches(label, known)}"
        )

    def ref(self, text: str, label: str, line: int) -> str:
        """Link to a labelled place."""
        target = self.book.targets.get(label)
        if target is None:
            raise self.unknown("label", label, self.book.targets, line)
        if not text and not target.text:
            advice = "Give it a text: {ref}`text <label>`."
            raise self.fail(line, f"a {{ref}} to {label!r}, which is no heading,", advice)
        return f"[{text or target.text}]({self.book.address(target)})"

    def doc(self, text: str, label: str, line: int) -> str:
        """Link to another page."""
        page = self.book.pages.get(label.removesuffix(".md"))
        if page is None:
            raise self.unknown("page", label, self.book.pages, line)
        said, number = re.search(r"[Cc]hapter (\d+)", text), re.match(r"\d+", page.stem)
        if not text or (said and (not number or int(said[1]) != int(number[0]))):
            # The title that would stand there is too long for a sentence.
            wrong = "with no text" if not text else f"with the text {text!r}"
            advice = "Write {doc}`chapter 5 <05_coalescing>`."
            raise self.fail(line, f"a {{doc}} to {label!r} {wrong}", advice)
        return f"[{text}]({self.book.address(Target(page.stem, '', ''))})"

    def term(self, text: str, label: str, line: int) -> str:
        """Link to the glossary, with the definition as the link's title."""
        known = self.book.glossary
        folded = {term.lower(): term for term in known}
        name = label if label in known else folded.get(label.lower(), "")
        if not name:
            raise self.unknown("glossary entry", label, known, line)
        title = known[name].replace('"', "'").replace("|", "/")
        where = f"{self.book.repository.pages}/book/glossary.html#{term_anchor(name)}"
        return f'[{text or label}]({where} "{title}")'

    def eq(self, text: str, label: str, line: int) -> str:
        """The number of an equation, as a link when it stands on another page."""
        target = self.book.equations.get(label)
        if target is None:
            raise self.unknown("equation", label, self.book.equations, line)
        number = f"({target.text})"
        return (
            number
            if target.stem == self.page.stem
            else f"[{number}]({self.book.repository.colab(target.stem)})"
        )

    def cite(self, key: str, line: int) -> str:
        """Author and year, linked to the work."""
        if key not in self.book.works:
            raise self.unknown("work", key, self.book.works, line)
        text, address = self.book.works[key]
        return f"[{text}]({address})"

    def glue(self, content: str, line: int) -> str:
        """A marker for a glued number, which `say` turns into a field."""
        name, _, spec = content.partition(":")
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or re.search(r"[{}]", spec):
            advice = "Name it like a Python variable, with a format after a colon."
            raise self.fail(line, f"the glued name `{content}`", advice)
        if not any(re.fullmatch(pattern, name) for pattern in self.glued):
            raise ExportError(
                f"{self.page.path}:{line + 1}: no code cell above glues {name!r}. A notebook runs "
                f'from top to bottom: call glue("{name}", value) before the text that shows it.'
            )
        return f"{OPEN}{name}{':' if spec else ''}{spec}{CLOSE}"


def is_comment(markup: str) -> bool:
    """Whether this HTML is comments and nothing else."""
    return bool(re.fullmatch(r"\s*(<!--.*?-->\s*)+", markup, re.DOTALL))


OPEN, CLOSE = "\ue000", "\ue001"
"""Private characters that mark a glued number until the braces around it are doubled."""


def find(source: str, escaped: str) -> re.Match[str] | None:
    """First place of some token's text in its source, where it may be broken over lines."""
    return re.search(re.sub(r"(?:\\ |\s)+", lambda _: r"(?:\s|>)+", escaped), source)


def glued_names(source: str) -> list[str]:
    """Patterns of the names that a cell glues; a computed name matches anything it could be."""
    names = []
    plain_source = "\n".join(
        "pass" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()
    )
    try:
        tree = ast.parse(plain_source)
    except SyntaxError:
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            if node.func.id != "glue":
                continue
            match node.args[0]:
                case ast.Constant(value=str(name)):
                    names.append(re.escape(name))
                case ast.JoinedStr(values=values):
                    names.append(
                        "".join(
                            re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+"
                            for part in values
                        )
                    )
                case _:
                    names.append(r"\w+")
    return names


def say(text: str) -> str:
    """Code that shows a paragraph with its glued numbers: `helpers.pages.say`."""
    template = text.strip("\n").replace("{", "{{").replace("}", "}}")
    template = template.replace(OPEN, "{").replace(CLOSE, "}")
    if '"""' in template:
        return f"say({template!r})"
    return f'say(r"""\n{template}\n""")'


def cell(kind: str, source: str, id_: str) -> dict[str, Any]:
    """One notebook cell; Colab reads its id from the metadata."""
    return {
        "cell_type": kind,
        "id": id_,
        "metadata": {"id": id_},
        "source": source.splitlines(keepends=True),
    }


def code_cell(source: str, id_: str, tags: list[str]) -> dict[str, Any]:
    """One code cell without outputs, hidden as its tags say."""
    made = cell("code", source, id_)
    made |= {"execution_count": None, "outputs": []}
    if tags:
        made["metadata"]["tags"] = tags
    jupyter = {}
    if {"hide-input", "remove-input"} & set(tags):
        made["metadata"]["cellView"] = "form"
        jupyter["source_hidden"] = True
    if {"hide-output", "remove-output"} & set(tags):
        jupyter["outputs_hidden"] = True
    if jupyter:
        made["metadata"]["jupyter"] = jupyter
    return made


# --- the first cell ----------------------------------------------------------------------------

SETUP = """\
# On Colab this fetches the book's code; anywhere else it only finds it.
import os, subprocess, sys

if "COLAB_RELEASE_TAG" in os.environ and not os.path.isdir("../helpers"):
    if not os.path.isdir("{name}"):
        clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", "{branch}"]
        subprocess.run([*clone, "{url}"], check=True)
    os.chdir("{name}/book")
sys.path.insert(0, os.path.abspath(".."))

from helpers.notebooks import start
from helpers.pages import say

start()"""


def setup_cell(where: Repository, page: Page) -> dict[str, Any]:
    """The first cell of every notebook."""
    source = SETUP.format(name=where.name, branch=where.branch, url=where.url)
    id_ = hashlib.sha256(f"{page.path.name}\nsetup".encode()).hexdigest()[:12]
    return code_cell(source, id_, ["hide-input"])


def start() -> None:
    """Say what the notebook runs on. On Colab, install the CUDA compiler if there is none.

    Colab's GPU runtime has CUDA and CuPy, and nothing is installed there. Its CPU runtime may lack
    NVRTC; then the wheels that requirements.txt names for it are installed, and nothing else.
    """
    from helpers import device, toolchain

    if "COLAB_RELEASE_TAG" in os.environ and not toolchain.available():
        print("Installing the CUDA compiler (NVRTC), which this runtime lacks ...", flush=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", *compiler_wheels()]
        subprocess.run(command, check=True)
        importlib.invalidate_caches()
    gpu = device.current()
    if gpu is None:
        print(
            "No GPU here: kernels run in the emulator, and times are replayed from the record. "
            "On Colab, Runtime > Change runtime type offers a T4."
        )
    else:
        print(f"GPU: {gpu.name}. Kernels run on it, and times are measured on it.")


def compiler_wheels(root: Path = ROOT) -> list[str]:
    """The requirements that make NVRTC work: its wheels and the loader that finds them."""
    wanted = ("cuda-pathfinder", "nvidia-")
    lines = (root / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [line.split(";")[0].strip() for line in lines if line.startswith(wanted)]


# --- the command -------------------------------------------------------------------------------


def export(root: Path = ROOT) -> dict[Path, str]:
    """Path and text of the notebook of every chapter. Writes nothing.

    Raises ExportError, with file and line, if a chapter uses anything outside the subset.
    """
    book = read_book(root)
    return {
        root / page.path.with_suffix(".ipynb"): json.dumps(
            Exporter(book, page).notebook(), indent=1, ensure_ascii=False
        )
        + "\n"
        for page in book.pages.values()
        if page.is_chapter
    }


def orphans(made: Mapping[Path, str], root: Path = ROOT) -> list[Path]:
    """Notebooks in book/ that no chapter makes."""
    return [path for path in sorted((root / "book").glob("*.ipynb")) if path not in made]


def stale(root: Path = ROOT) -> list[str]:
    """One line for each notebook that is not what its chapter makes it."""
    made = export(root)
    faults = []
    for path, text in made.items():
        if not path.exists():
            faults.append(f"{path.relative_to(root)} is missing")
        elif path.read_text(encoding="utf-8") != text:
            faults.append(f"{path.relative_to(root)} differs from its chapter")
    return faults + [
        f"{path.relative_to(root)} belongs to no chapter" for path in orphans(made, root)
    ]


def update(root: Path = ROOT) -> list[Path]:
    """Write every notebook that changed and remove those without a chapter; return both.

    All chapters are exported before the first file is written.
    """
    made = export(root)
    changed = []
    for path, text in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write(path, text)
            changed.append(path)
    for path in orphans(made, root):
        path.unlink()
        changed.append(path)
    return changed


def move(url: str, root: Path = ROOT) -> list[Path]:
    """Give the book another address: _config.yml and every notebook, or nothing if one fails."""
    config = root / "_config.yml"
    before = config.read_text(encoding="utf-8")
    set_repository(url, root)
    try:
        return [config, *update(root)]
    except ExportError:
        write(config, before)
        raise


def configure(command: ArgumentParser) -> None:
    """Arguments of `python -m helpers notebooks`."""
    either = command.add_mutually_exclusive_group()
    either.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a notebook is out of date"
    )
    either.add_argument(
        "--repository",
        metavar="URL",
        help="for a fork: put this address into _config.yml, then make the notebooks anew",
    )


def run(args: Namespace) -> int:
    """Carry out `python -m helpers notebooks`. Raises ExportError or ConfigError."""
    if args.check:
        faults = stale()
        for fault in faults:
            print(f"{fault}. Run `make notebooks`.", file=sys.stderr)
        return 1 if faults else 0
    changed = move(args.repository) if args.repository else update()
    print(f"{len(changed)} file{'' if len(changed) == 1 else 's'} changed")
    for path in changed:
        print(f"  {path.relative_to(ROOT)}")
    return 0
