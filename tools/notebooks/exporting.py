"""A chapter as a notebook: each cut of its MyST as plain Markdown, or an error with its line."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.ladder.rungs import catalog, cores
from helpers.notebook.cells import (
    CLOSE,
    OPEN,
    cell,
    code_cell,
    glued_names,
    kernel_of,
    say,
    written,
)
from helpers.notebook.first_cell import setup_cell, welcome_cell
from helpers.page import NAME, claims, show_kernel
from helpers.page.directives import DirectiveTextError, opened, read_kernel, read_quiz
from nogpu.errors import DataError, ExportError, UnknownNameError, near_matches
from tools.notebooks.books import Book, Target, term_anchor
from tools.notebooks.markdown import Page, Piece, groups, is_code_cell, parser, pieces, plain

if TYPE_CHECKING:
    from markdown_it.token import Token

SUBSET = (
    "headings, paragraphs, lists, tables, block quotes, $math$ and $$math$$ (with a label), fenced"
    " code (python, cuda, c, cpp, bash, text, json), ![images](of book/figures),"
    ' [words]{holds="key"}, code-cell, quiz, kernel, note, tip, important, warning, admonition,'
    " dropdown, (target)=, the roles ref, doc, term, eq, cite and glue:text, and HTML comments"
)
"""What a chapter may be written in; README.md beside it says the same at more length."""
ADMONITIONS = {"note": "Note", "tip": "Tip", "important": "Important", "warning": "Warning"}
LANGUAGES = frozenset({"python", "cuda", "c", "cpp", "bash", "text", "json"})
CELL_TAGS = frozenset({"hide-input", "remove-input", "hide-output", "remove-output"})
IMAGES = {".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp"}
DIRECTIVE_OPTIONS = frozenset({"class", "name", "open"})

INLINE_AS_IS = frozenset(
    {"text", "softbreak", "hardbreak", "code_inline", "math_inline", "text_special"}
    | {f"{kind}_{end}" for kind in ("em", "strong") for end in ("open", "close")}
)

BLOCKS_AS_IS = frozenset(
    f"{kind}_{end}"
    for kind in (
        "paragraph", "bullet_list", "ordered_list", "list_item", "blockquote", "table", "thead",
        "tbody", "tr", "th", "td", "heading",
    )
    for end in ("open", "close")
)  # fmt: skip

NESTED_DIRECTIVES = 2
"""A directive may hold another one (an exercise and its hint), and that one none."""


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
        for line, fault in claims.faults(self.page.text):
            raise ExportError(f"{self.page.path}:{line}: {fault}")
        cells = [
            welcome_cell(self.page.path.name),
            setup_cell(self.book.repository, self.page.path.name),
        ]
        for piece in pieces(self.page):
            if piece.kind == "code":
                cells.append(self.code(piece))
                continue
            if piece.kind in ("quiz", "kernel"):
                cells.append(self.shown(piece))
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
                "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                "language_info": {"name": "python"},
                "tile_by_tile": {"generated_from": self.page.path.as_posix()},
            },
            "nbformat": 4,
            "nbformat_minor": 5,
        }

    def code(self, piece: Piece) -> dict[str, Any]:
        """A code cell, its text as it stands in the chapter; below a lone `%%cuda NAME`, the
        kernel's.

        In a notebook a reader can change the kernel there. The cell's id is that of the line.
        """
        token = piece.tokens[0]
        if token.info.split() != ["{code-cell}", "ipython3"]:
            raise self.fail(piece.start, f"`{token.info}`", "Write ```{code-cell} ipython3.")
        # mystnb: what the book's build reads, such as the alt text of a picture
        options, source, _ = self.options(token, piece.start, frozenset({"tags", "mystnb"}))
        tags = [tag.strip() for tag in options.get("tags", "[]").strip("[] ").split(",")]
        tags = [tag for tag in tags if tag]
        for tag in tags:
            if tag not in CELL_TAGS:
                advice = f"Use one of {', '.join(sorted(CELL_TAGS))}."
                raise self.fail(piece.start, f"the cell tag `{tag}`", advice)
        self.glued += glued_names(source)
        if name := kernel_of(source):
            known = {**catalog, **cores}
            if name not in known:
                raise self.unknown("kernel", name, known, piece.start)
            source = f"{source.splitlines()[0]}\n{known[name].source.rstrip()}"
        return code_cell(source, piece.id, tags)

    def shown(self, piece: Piece) -> dict[str, Any]:
        """A quiz or a listing: a folded cell that calls quiz() or show_kernel()."""
        token = piece.tokens[0]
        name, title = opened(token.info) or ("", "")
        body = token.content.splitlines()
        try:
            if name == "quiz":
                made = read_quiz(title, body).rewritten(lambda text: self.words(text, piece.start))
                source = f"from helpers.page import quiz\n\n{made.call(written)}"
            else:
                listing = read_kernel(title, body)
                show_kernel(listing.kernel, **listing.keywords)  # an error is the page's, here too
                source = f"from helpers.page import show_kernel\n\n{listing.call}"
        except DirectiveTextError as error:
            raise self.fail(piece.start + 1 + error.line, f"this {name}", f"{error}.") from None
        except (DataError, UnknownNameError) as error:
            raise ExportError(f"{self.page.path}:{piece.start + 1}: {name}: {error}") from None
        return code_cell(source, piece.id, ["remove-input"])

    def words(self, text: str, line: int) -> str:
        """A text of a quiz: words, `code` and $math$ as they are, each role as a link."""
        done = ""
        for child in parser().parseInline(text)[0].children or []:
            if child.type in ("text", "text_special"):
                done += child.content
            elif child.type == "code_inline":
                done += f"`{child.content}`"
            elif child.type == "math_inline":
                done += f"${child.content}$"
            elif child.type == "myst_role":
                done += self.role(child.meta["name"], child.content, line, glue=True)
            else:
                named = child.meta.get("name", "") or child.type
                advice = "Write words, `code`, $math$ and roles."
                raise self.fail(line, f"`{named}` in a quiz ({text!r})", advice)
        return done

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
            if extra := child.attrs.keys() - {"href", "src", "alt", "title"}:
                advice = 'Braces hold {holds="key"} after [words], and nothing else.'
                raise self.fail(here, f"the attribute `{sorted(extra)[0]}`", advice)
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
                done, source = self.image(child, done, source, here)
            elif child.type == "link_open":
                href = str(child.attrs.get("href", ""))
                if not re.match(r"https?://|mailto:", href):
                    advice = "Use {doc}`text <page>` or {ref}`label`."
                    raise self.fail(here, f"a link to `{href}`", advice)
            elif child.type not in INLINE_AS_IS and child.type != "link_close":
                raise self.fail(here, f"`{child.type}`", "Leave it out.")
        return done + source

    def image(self, child: Token, done: str, source: str, line: int) -> tuple[str, str]:
        """Source with an image's file in it, so that it shows wherever the notebook is opened.

        Colab shows no file beside a notebook, and JupyterLab no attached SVG; both show a data URI.
        """
        name, alt = str(child.attrs.get("src", "")), child.content.strip()
        if not alt:
            advice = "Say between the brackets what it shows: ![words](figures/name.svg)."
            raise self.fail(line, f"the image `{name}` without an alt text", advice)
        file = self.book.root / "book" / name
        if not file.is_file():
            raise ExportError(
                f"{self.page.path}:{line + 1}: the image book/{name} does not exist. Say where it "
                "lies below book/: ![words](figures/name.svg)"
            )
        if file.suffix not in IMAGES:
            advice = f"Give a file below book/, with the ending {', '.join(IMAGES)}."
            raise self.fail(line, f"the image `{name}`", advice)
        at = find(source, re.escape(f"![{child.content}](") + r"\s*(?=" + re.escape(name) + ")")
        assert at is not None, (source, child)
        data = base64.b64encode(file.read_bytes()).decode()
        shown = f"data:{IMAGES[file.suffix]};base64,{data}"
        return done + source[: at.end()] + shown, source[at.end() + len(name) :]

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
        if opened(token.info):
            raise self.fail(line, f"a {name} inside a directive", "Put it on its own.")
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
        roles: dict[str, Callable[[str, str, int], str]] = {"ref": self.ref, "doc": self.doc}
        roles |= {"term": self.term, "eq": self.eq}
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
        named = re.search(r"[Cc]hapter (\d+)", text)
        number = re.match(r"(?:deeper_)?(\d+)", page.stem)
        if not text or (named and (not number or int(named[1]) != int(number[1]))):
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
        address = self.book.repository.colab(target.stem)
        return number if target.stem == self.page.stem else f"[{number}]({address})"

    def cite(self, key: str, line: int) -> str:
        """Author and year, linked to the work."""
        if key not in self.book.works:
            raise self.unknown("work", key, self.book.works, line)
        text, address = self.book.works[key]
        return f"[{text}]({address})"

    def glue(self, content: str, line: int) -> str:
        """A marker for a glued number, which `say` turns into a field."""
        name, _, spec = content.partition(":")
        if not NAME.fullmatch(name) or re.search(r"[{}]", spec):
            advice = (
                "Name it like a Python variable or `pair.naive.4096.ms`, with a format after a"
                " colon."
            )
            raise self.fail(line, f"the glued name `{content}`", advice)
        if not any(re.fullmatch(pattern, name) for pattern in self.glued):
            raise ExportError(
                f"{self.page.path}:{line + 1}: no code cell above glues {name!r}. A notebook runs"
                f" from top to bottom: call glue({name.split('.')[0]}=value) before the text that"
                " shows it."
            )
        return f"{OPEN}{name}{':' if spec else ''}{spec}{CLOSE}"


def is_comment(markup: str) -> bool:
    """Whether this HTML is comments and nothing else."""
    return bool(re.fullmatch(r"\s*(<!--.*?-->\s*)+", markup, re.DOTALL))


def find(source: str, escaped: str) -> re.Match[str] | None:
    """First place of some token's text in its source, where it may be broken over lines."""
    return re.search(re.sub(r"(?:\\ |\s)+", lambda _: r"(?:\s|>)+", escaped), source)
