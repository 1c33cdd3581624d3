"""Where runs of pages are kept: with the book, in book/, and those of this folder, in _build/runs/.

With the book lie the notebooks and book/runs.json, which holds for each page the key of the run
that its notebook shows (`watching.key`), its inputs, the glued values that its text shows, and the
seconds that it took; and of each input, once for all pages, a short digest, by which `changed`
names it. A run is found again only under the same key: the same code cells and the same inputs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from helpers.ladder.kernel import ROOT
from nogpu.disk import replace_file
from nogpu.errors import ExportError
from tools.notebooks import running, watching
from tools.notebooks.books import Book
from tools.notebooks.markdown import pieces
from tools.notebooks.running import Notebook, Run

GLUE = re.compile(r"\{glue:text\}`\s*([\w.]+)")
Record = dict[str, Any]
"""Of one page in runs.json: key, seconds, glued, inputs; and sums, which all pages share."""


def key(notebook: Notebook, inputs: list[str]) -> str:
    """The key of a notebook's run. What its first cell does, the machine decides that runs it."""
    code = ["".join(cell["source"]) for (cell,) in running.code_cells(notebook)][1:]
    return watching.key(code, inputs, ROOT)


def whole(run: Run, page: str) -> Run:
    """The run with the glued values alone that the text of its page shows.

    Raises ExportError if one of them is not among its outputs.
    """
    shown = sorted(set(GLUE.findall(page)))
    if lost := [name for name in shown if name not in run.glued]:
        raise ExportError(
            f"{running.source_of(run.notebook)}: the text shows"
            f" {lost[0]!r}{f' and {len(lost) - 1} more' if len(lost) > 1 else ''}, which no output"
            " of the run holds: it was glued nowhere, or lost on its way. The run is not kept; the"
            " same command runs it again."
        )
    kept = {name: run.glued[name] for name in shown}
    return Run(run.notebook, kept, run.inputs, run.seconds)


# --- with the book -------------------------------------------------------------------------------


def records(root: Path) -> dict[str, Record]:
    """What book/runs.json holds of each page; nothing of a file that is not there or is damaged."""
    try:
        content = json.loads((root / "book" / "runs.json").read_text(encoding="utf-8"))
        common, sums = content["inputs"], content["sums"]
        return {
            stem: {**page, "inputs": sorted([*common, *page["inputs"]]), "sums": sums}
            for stem, page in content["pages"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_records(root: Path, pages: Mapping[str, Record]) -> bool:
    """Write book/runs.json, the inputs that all pages share and the digest of each input once;
    whether it changed."""
    sets = [set(page["inputs"]) for page in pages.values()]
    common = set.intersection(*sets) if sets else set()
    content = {
        "inputs": sorted(common),
        "sums": watching.sums(sorted(set().union(*sets)), ROOT),
        "pages": {
            stem: {
                **{name: page[name] for name in ("key", "seconds", "glued")},
                "inputs": [one for one in page["inputs"] if one not in common],
            }
            for stem, page in sorted(pages.items())
        },
    }
    text = json.dumps(content, indent=0, ensure_ascii=False) + "\n"
    path = root / "book" / "runs.json"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    replace_file(path, text)
    return True


def record(run: Run) -> Record:
    """What runs.json holds of a run."""
    entry = {"key": key(run.notebook, run.inputs), "seconds": run.seconds}
    return {**entry, "glued": run.glued, "inputs": run.inputs}


def is_of(page: Record | None, bare: Notebook) -> bool:
    """Whether this record is of a run of these code cells on the inputs as they are now."""
    return page is not None and page["key"] == key(bare, page["inputs"])


def changed(page: Record) -> str:
    """Which inputs of a page are not as they were when runs.json was written, in words."""
    now = watching.sums(page["inputs"], ROOT)
    names = [name for name in now if page["sums"].get(name) != now[name]]
    more = f" and {len(names) - 2} more" if len(names) > 3 else ""
    return ", ".join(names[: 2 if more else 3]) + more


# --- in this folder ------------------------------------------------------------------------------


def keep(root: Path, stem: str, run: Run) -> None:
    """Keep a run in _build/runs/."""
    content = {**asdict(run), "key": key(run.notebook, run.inputs)}
    replace_file(root / "_build" / "runs" / f"{stem}.json", json.dumps(content, ensure_ascii=False))


def kept(root: Path, stem: str, bare: Notebook) -> Run | None:
    """The run of these code cells that this folder keeps, if their inputs are as they were; else
    None."""
    try:
        text = (root / "_build" / "runs" / f"{stem}.json").read_text(encoding="utf-8")
        content = json.loads(text)
        fits = is_of(content, bare)
        run = Run(content["notebook"], content["glued"], content["inputs"], content["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return run if fits else None


def write_outputs(book: Book, root: Path, stem: str, run: Run) -> None:
    """Write _build/outputs/STEM.json, from which book/_ext/book_outputs.py makes the page."""
    cells = {cell["id"]: cell for (cell,) in running.code_cells(run.notebook)}
    found = []
    for piece in pieces(book.pages[stem]):
        if piece.kind != "code":
            continue
        source = re.sub(r"\A(?:[ \t]*:[\w-]+:.*\n|[ \t]*\n)*", "", piece.tokens[0].content)
        outputs = [joined(output) for output in cells[piece.id]["outputs"]]
        found.append({"source": source.rstrip("\n"), "outputs": outputs})
    if found:
        found[0]["outputs"] = [*map(displayed, run.glued.items()), *found[0]["outputs"]]
    path = root / "_build" / "outputs" / f"{stem}.json"
    text = json.dumps(found, ensure_ascii=False)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        replace_file(path, text)


def joined(output: Mapping[str, Any]) -> dict[str, Any]:
    """An output with its lists of lines as texts."""
    if output["output_type"] == "stream":
        return {**output, "text": "".join(output["text"])}
    return {**output, "data": {form: "".join(text) for form, text in output["data"].items()}}


def displayed(pair: tuple[str, str]) -> dict[str, Any]:
    """A glued value as MyST-NB finds it among a cell's outputs."""
    name, text = pair
    mark = {"name": name, "mime_prefix": running.UNSEEN[0]}
    data = {running.GLUED: text}
    return {"output_type": "display_data", "data": data, "metadata": {"scrapbook": mark}}
