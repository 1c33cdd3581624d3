"""The command `python -m helpers notebooks`: write, check, or move to another address."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import ExportError
from helpers.kernel import ROOT
from helpers.notebooks.addresses import set_repository, write
from helpers.notebooks.books import read_book
from helpers.notebooks.exporting import Exporter

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


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
