"""Every page of the book, and what its roles can point at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from helpers.ladder.kernel import ROOT
from helpers.notebook.addresses import Repository, repository
from nogpu.errors import ExportError, near_matches
from tools.notebooks.markdown import Page, pieces, plain


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
    """All pages of book/ with their labels: read once, and anew when one of its files changes.

    The book is shared by all who ask: change nothing in it. Raises ExportError on a label that
    stands twice.
    """
    settings = (root / name for name in ("_config.yml", "_toc.yml", "book/references.bib"))
    paths = (*sorted((root / "book").glob("*.md")), *(p for p in settings if p.exists()))
    return _shared(root, tuple((p, p.stat().st_mtime_ns, p.stat().st_size) for p in paths))


@lru_cache(maxsize=8)
def _shared(root: Path, files: tuple[tuple[Path, int, int], ...]) -> Book:
    paths = [path for path, *_ in files if path.suffix == ".md"]
    pages = {path.stem: Page(path.relative_to(root), path.read_text("utf-8")) for path in paths}
    book = Book(root, repository(root), pages)
    numbers = chapter_numbers(root)
    before: dict[int, int] = {}  # equations by chapter: a Deeper page goes on with its chapter's
    for page in pages.values():
        chapter = numbers.get(page.stem.removeprefix("deeper_"))
        first = before.get(chapter, 0) if chapter else 0
        for kind, label, target, line in labels(page, chapter, first):
            if kind == "equation" and chapter:
                before[chapter] = before.get(chapter, 0) + 1
            known = book.targets if kind == "target" else book.equations
            if label in known:
                raise ExportError(
                    f"{page.path}:{line}: the label {label!r} is already used in "
                    f"{known[label].stem}.md. Labels are unique in the whole book: rename one."
                )
            known[label] = target
    return book


def check_contents(root: Path = ROOT) -> None:
    """Raises ExportError where _toc.yml names a page that is not there, or leaves one out, which
    Sphinx would, too."""
    lines = enumerate((root / "_toc.yml").read_text(encoding="utf-8").splitlines(), 1)
    listed = {
        found[1]: n for n, line in lines if (found := re.search(r"(?:file|root): *(\S+)", line))
    }
    have = [path.relative_to(root).with_suffix("").as_posix() for path in root.glob("book/*.md")]
    for name in (name for name in listed if name not in have):
        raise ExportError(
            f"_toc.yml:{listed[name]}: {name}.md does not exist. {near_matches(name, have)}"
        )
    if left := sorted(set(have) - set(listed)):
        raise ExportError(
            f"{left[0]}.md is not in _toc.yml, so the book would be built without it. Name it there"
        )


def chapter_numbers(root: Path) -> dict[str, int]:
    """The number that the book gives each chapter: its place in the numbered parts of _toc.yml."""
    import yaml

    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    numbered = (part for part in toc.get("parts", []) if part.get("numbered"))
    files = [Path(chapter["file"]).name for part in numbered for chapter in part["chapters"]]
    return {stem: number for number, stem in enumerate(files, 1)}


def labels(
    page: Page, number: int | None, before: int = 0
) -> Iterator[tuple[str, str, Target, int]]:
    """Kind ("target" or "equation"), label, where it stands and its line, for every label.

    before: equations that the chapter has on other pages.
    """
    waiting: list[tuple[str, int]] = []
    prefix = f"{number}." if number else ""
    count = before
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
