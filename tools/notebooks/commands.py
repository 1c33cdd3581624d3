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
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from helpers.ladder.kernel import ROOT
from helpers.notebook.addresses import checked_address, repository, set_repository
from nogpu.disk import replace_file
from nogpu.errors import ExportError, UnknownNameError
from tools.notebooks import running, storing, watching
from tools.notebooks.books import Book, check_contents, read_book
from tools.notebooks.exporting import Exporter
from tools.notebooks.running import Notebook, Run

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

JOBS = min(os.cpu_count() or 1, 4)
"""Notebooks that run at a time."""


def export(root: Path = ROOT) -> dict[Path, Notebook]:
    """Path and notebook of every chapter, without outputs. Runs and writes nothing.

    Raises ExportError, with file and line, if a chapter uses anything outside the subset.
    """
    book = read_book(root)
    pages = [page for page in book.pages.values() if page.is_chapter]
    return {root / p.path.with_suffix(".ipynb"): Exporter(book, p).notebook() for p in pages}


def text_of(notebook: Notebook) -> str:
    """The notebook as its file holds it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def committed(path: Path) -> Notebook | None:
    """The notebook in a file as `text_of` writes it; None if there is none, or another saved it."""
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
    """The new notebook with the old one's outputs, if all code below its first cell is the same;
    else None.

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


def fresh(
    root: Path = ROOT, again: Collection[str] = (), say: Callable[[str], None] = print
) -> tuple[dict[Path, Run], list[str]]:
    """A run of every page, as its code and its inputs are now, and what went wrong with others.

    Taken from what the book carries, or this folder keeps, where that is of the same code and
    inputs; else made, JOBS at a time, the longest first, and kept at once. `again` names chapters
    that run anyway (the beginning of a name; "" is all of them).
    """
    watching.freeze(ROOT)
    book = read_book(root)
    made = export(root)
    records = storing.records(root)
    wanted = chosen(again, made)
    found: dict[Path, Run] = {}
    for path, bare in made.items():
        if path in wanted:
            continue
        page = records.get(path.stem)
        old = carried(bare, committed(path)) if storing.is_of(page, bare) else None
        if old is not None and page is not None:
            found[path] = Run(old, page["glued"], page["inputs"], page["seconds"])
        elif (run := storing.kept(root, path.stem, bare)) is not None:
            found[path] = replace(run, notebook=carried(bare, run.notebook) or run.notebook)
    waiting = [path for path in made if path not in found]
    seconds = {path: records.get(path.stem, {}).get("seconds", TYPICAL) for path in waiting}
    waiting.sort(key=lambda path: -seconds[path])
    failures = []
    paces: list[float] = []  # how many times its usual seconds a page took here
    if waiting:
        say(
            f"{len(waiting)} of {len(made)} pages run, {JOBS} at a time, about {left(seconds)}: "
            + ", ".join(path.stem for path in waiting)
        )
        of_reason: dict[str, list[str]] = {}
        for path in sorted(set(waiting) - wanted):
            why = reason(path, made[path], records.get(path.stem))
            of_reason.setdefault(why, []).append(path.stem)
        for why, stems in of_reason.items():
            say(f"{why}: {', '.join(stems) if len(stems) <= MANY else f'{len(stems)} pages'}")
    with ThreadPoolExecutor(JOBS) as pool:
        running_now = {pool.submit(ran, path, made[path], book, root): path for path in waiting}
        for done in as_completed(running_now):
            path, outcome = running_now[done], done.result()
            usual = seconds.pop(path)
            if isinstance(outcome, Run):
                paces.append(max(outcome.seconds, 1) / max(usual, 1))
            about = left(seconds, median(paces) if paces else 1)
            after = f"{len(seconds)} left, about {about}" if seconds else "the last one"
            if isinstance(outcome, ExportError):
                failures.append(str(outcome))
                say(f"{path.stem} FAILED; {after}")
            else:
                found[path] = outcome
                say(f"{path.stem} ran in {outcome.seconds} s; {after}")
    return {path: found[path] for path in made if path in found}, failures


def reason(path: Path, bare: Notebook, page: storing.Record | None) -> str:
    """Why a page runs, in words."""
    if page is None or carried(bare, committed(path)) is None:
        return "new or changed code cells"
    return f"changed {storing.changed(page) or 'inputs'}"


MANY = 8
"""Pages that run for one reason: of more, their number is said, since their names stand above."""
TYPICAL = 20
"""Seconds that a page takes of which no run is known."""


def left(seconds: Mapping[Path, int], pace: float = 1) -> str:
    """How long these pages take here, in words; `pace` times their usual seconds each."""
    whole = pace * max([sum(seconds.values()) / JOBS, *seconds.values()])
    return f"{whole:.0f} s" if whole < 100 else f"{whole / 60:.0f} min"


def ran(path: Path, bare: Notebook, book: Book, root: Path) -> Run | ExportError:
    """A run of this page, which is kept, or what went wrong."""
    try:
        found = storing.whole(running.run(bare, path.parent), book.pages[path.stem].text)
    except ExportError as error:
        return error
    storing.keep(root, path.stem, found)
    return found


def update(
    root: Path = ROOT, again: Collection[str] = (), say: Callable[[str], None] = print
) -> list[Path]:
    """Write every notebook that changed, and book/runs.json, and remove those without a chapter;
    return them.

    A chapter runs if its code or its inputs changed and `make book` has not run it since, or if
    `again` names it. Run anew, a notebook whose outputs are those it had stays as it is to the
    byte. All chapters are exported before the first one runs; one that fails leaves its file as it
    was, and ExportError is raised when the others are written.
    """
    runs, failures = fresh(root, again, say)
    made = export(root)
    known = storing.records(root).items()
    records = {stem: page for stem, page in known if root / "book" / f"{stem}.ipynb" in made}
    changed = []
    for path in orphans(made, root):
        path.unlink()
        changed.append(path)
    for path, run in runs.items():
        old = committed(path)
        same = carried(made[path], old)
        new = run.notebook if same is None or running.differences(same, run.notebook) else same
        if new != old:
            replace_file(path, text_of(new))
            changed.append(path)
        now = storing.record(run)
        before = records.get(path.stem, {})
        if any(before.get(name) != now[name] for name in ("key", "glued", "inputs")):
            records[path.stem] = now
    if storing.write_records(root, records):
        changed.append(root / "book" / "runs.json")
    if failures:
        raise ExportError("\n\n".join(failures))
    return changed


def outputs_for_book(
    root: Path = ROOT, again: Collection[str] = (), say: Callable[[str], None] = print
) -> None:
    """Write _build/outputs/, from which the built book's pages take their outputs.

    Raises ExportError if a page fails; the others are kept, and the next call runs that page alone.
    """
    runs, failures = fresh(root, again, say)
    book = read_book(root)
    for path, run in runs.items():
        storing.write_outputs(book, root, path.stem, run)
    if failures:
        failed = "1 page" if len(failures) == 1 else f"{len(failures)} pages"
        raise ExportError(
            "\n\n".join(failures)
            + f"\n\n{failed} failed, and the book is not built. The other pages' runs are kept:"
            " mend what is named above and call `make book` again; it runs what failed and what"
            " changed, and no more."
        )


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


def configure_notebooks(command: ArgumentParser) -> None:
    """Arguments of `python -m helpers notebooks`."""
    command.add_argument(
        "--book", action="store_true", help="write _build/outputs/ for `make book`, and no notebook"
    )
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


def run_notebooks(args: Namespace) -> int:
    """Write the notebooks whose chapters changed, compare them, or move the book."""
    check_contents()
    if args.check:
        faults = stale()
        for fault in faults:
            print(f"{fault}. Run `make notebooks`.", file=sys.stderr)
        return 1 if faults else 0
    again = () if args.again is None else args.again or ("",)
    if args.book:
        outputs_for_book(again=again, say=lambda line: print(f"[book] {line}", flush=True))
        return 0
    changed = move(args.repository) if args.repository else update(again=again)
    print(f"{len(changed)} file{'' if len(changed) == 1 else 's'} changed")
    for path in changed:
        print(f"  {path.relative_to(ROOT)}")
    return 0
