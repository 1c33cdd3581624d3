"""The command `python -m helpers notebooks`: write, check, or move to another address.

A notebook is what its chapter makes of it (`export`) and, in its code cells, the outputs of a run
(`running`). The first is cheap and compared by `--check`. The second is made anew where the code of
a chapter has changed, and where `--again` asks for it: after a change in helpers, kernels or data
that shows on pages. A test runs every notebook and compares.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from helpers.ladder.kernel import ROOT
from helpers.notebook.addresses import checked_address, repository, set_repository
from nogpu.disk import replace_file
from nogpu.errors import ExportError, UnknownNameError
from tools.notebooks import running
from tools.notebooks.books import read_book
from tools.notebooks.exporting import Exporter
from tools.notebooks.running import Notebook

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

JOBS = min(os.cpu_count() or 1, 4)
"""Notebooks that run at a time."""


def export(root: Path = ROOT) -> dict[Path, Notebook]:
    """Path and notebook of every chapter, without outputs. Runs and writes nothing.

    Raises ExportError, with file and line, if a chapter uses anything outside the subset.
    """
    book = read_book(root)
    return {
        root / page.path.with_suffix(".ipynb"): Exporter(book, page).notebook()
        for page in book.pages.values()
        if page.is_chapter
    }


def text_of(notebook: Notebook) -> str:
    """The notebook as its file holds it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def committed(path: Path) -> Notebook | None:
    """The notebook in a file as `text_of` writes it; None if there is none, or another has saved it."""
    try:
        text = path.read_text(encoding="utf-8")
        found: Notebook = json.loads(text)
    except (FileNotFoundError, ValueError):
        return None
    own = isinstance(found, dict) and "cells" in found and text_of(found) == text
    return found if own else None


def orphans(made: Mapping[Path, Notebook], root: Path = ROOT) -> list[Path]:
    """Notebooks in book/ that no chapter makes."""
    return [path for path in sorted((root / "book").glob("*.ipynb")) if path not in made]


def stale(root: Path = ROOT) -> list[str]:
    """One line for each notebook that is not what its chapter makes it, or carries no outputs."""
    made = export(root)
    faults = []
    for path, bare in made.items():
        name, old = path.relative_to(root), committed(path)
        if not path.exists():
            faults.append(f"{name} is missing")
        elif old is None or running.without_outputs(old) != bare:
            faults.append(f"{name} differs from its chapter")
        elif not running.is_told(old):
            faults.append(f"{name} carries no outputs")
    return faults + [
        f"{path.relative_to(root)} belongs to no chapter" for path in orphans(made, root)
    ]


def carried(bare: Notebook, old: Notebook | None) -> Notebook | None:
    """The new notebook with the old one's outputs, if all code below its first cell is the same; else None.

    What the first cell does, the machine decides that runs it.
    """
    if old is None or not running.is_told(old):
        return None
    code = [[cell["source"] for (cell,) in running.code_cells(book)] for book in (bare, old)]
    if len(code[0]) != len(code[1]) or code[0][1:] != code[1][1:]:
        return None
    made = running.without_outputs(bare)
    for cell, before in running.code_cells(made, old):
        if before["execution_count"] is not None:  # run and saved by a reader
            return None
        cell["outputs"] = before["outputs"]
    return made


def chosen(names: Collection[str], paths: Collection[Path]) -> set[Path]:
    """The notebooks that names such as "06" or "intro" begin. Raises UnknownNameError."""
    found = set()
    for name in names:
        some = {path for path in paths if path.stem.startswith(name)}
        if not some:
            raise UnknownNameError(
                f"no chapter begins with {name!r}. There are {', '.join(p.stem for p in paths)}."
            )
        found |= some
    return found


def update(
    root: Path = ROOT,
    again: Collection[str] = (),
    say: Callable[[str], None] = print,
) -> list[Path]:
    """Write every notebook that changed and remove those without a chapter; return both.

    A chapter runs if its code changed or if `again` names it (the beginning of its name; "" is all
    of them). Run anew, a notebook whose outputs are those it had stays as it is to the byte. All
    chapters are exported before the first one runs; one that fails leaves its file as it was, and
    ExportError is raised when the others are written.
    """
    made = export(root)
    wanted = chosen(again, made)
    changed = []
    waiting = []
    for path, bare in made.items():
        old = committed(path)
        new = None if path in wanted else carried(bare, old)
        if new is None:
            waiting.append(path)
        elif new != old:
            replace_file(path, text_of(new))
            changed.append(path)
    for path in orphans(made, root):
        path.unlink()
        changed.append(path)
    failures = []
    with ThreadPoolExecutor(JOBS) as pool:
        for path, outcome in zip(
            waiting, pool.map(partial(ran, made=made, say=say), waiting), strict=True
        ):
            if isinstance(outcome, ExportError):
                failures.append(str(outcome))
                continue
            kept = carried(made[path], committed(path))
            if kept is not None and not running.differences(kept, outcome):
                outcome = kept
            if outcome != committed(path):
                replace_file(path, text_of(outcome))
                changed.append(path)
    if failures:
        raise ExportError("\n\n".join(failures))
    return changed


def ran(
    path: Path, made: Mapping[Path, Notebook], say: Callable[[str], None]
) -> Notebook | ExportError:
    """The notebook of this path with the outputs of a run, or what went wrong."""
    began = perf_counter()
    try:
        found = running.executed(made[path], path.parent)
    except ExportError as error:
        return error
    say(f"ran {path.name} in {perf_counter() - began:.0f} s")
    return found


def move(url: str, root: Path = ROOT) -> list[Path]:
    """Give the book another address: _config.yml and every notebook, or nothing if one is stale.

    Nothing runs: of the outputs only the links follow from the address. Raises ConfigError on an
    address that Colab cannot open, ExportError if a notebook does not follow its chapter.
    """
    address = checked_address(url)
    if faults := stale(root):
        raise ExportError(
            "\n".join(faults)
            + "\nRun `make notebooks` first, so that they can take the new address."
        )
    kept = {path: old for path in export(root) if (old := committed(path))}
    before = repository(root)
    set_repository(address, root)
    after = repository(root)
    changed = [root / "_config.yml"]
    for path, notebook in export(root).items():
        for cell, old in running.code_cells(notebook, kept[path]):
            text = json.dumps(old["outputs"], ensure_ascii=False)
            cell["outputs"] = json.loads(after.in_place_of(before, text))
        if notebook != kept[path]:
            replace_file(path, text_of(notebook))
            changed.append(path)
    return changed


def configure(command: ArgumentParser) -> None:
    """Arguments of `python -m helpers notebooks`."""
    either = command.add_mutually_exclusive_group()
    either.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a notebook is out of date"
    )
    either.add_argument(
        "--again",
        metavar="CHAPTER",
        nargs="*",
        help="run these chapters (06, intro; none named: all) though their code has not changed",
    )
    either.add_argument(
        "--repository",
        metavar="URL",
        help="for a fork: put this address into _config.yml and into the notebooks",
    )


def run(args: Namespace) -> int:
    """Carry out `python -m helpers notebooks`. Raises ExportError, ConfigError, UnknownNameError."""
    if args.check:
        faults = stale()
        for fault in faults:
            print(f"{fault}. Run `make notebooks`.", file=sys.stderr)
        return 1 if faults else 0
    if args.repository:
        changed = move(args.repository)
    else:
        changed = update(again=() if args.again is None else args.again or ("",))
    print(f"{len(changed)} file{'' if len(changed) == 1 else 's'} changed")
    for path in changed:
        print(f"  {path.relative_to(ROOT)}")
    return 0
