"""Notebooks run once where they are made, so that they can be read before a reader runs anything.

`run` runs a notebook in a kernel of its own, as on a machine with no GPU, and keeps what a
page shows. Nothing is measured: times are replayed from the record, and sliders are a promise, as
in the built book. What would change from run to run (ids, counts, times) is left out.
"""

from __future__ import annotations

import copy
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from helpers.ladder.kernel import ROOT
from nogpu.errors import WHOLE, ExportError, TileError
from tools.notebooks import watching

Notebook = dict[str, Any]

SHOWN = ("text/html", "text/markdown", "image/svg+xml", "image/png", "text/latex")
"""Forms of an output, the richest first: a notebook keeps one of them, and the plain text."""
PLAIN = "text/plain"
UNSEEN = ("application/papermill.record/",)
"""Forms that only the book's build reads: glued values."""
GLUED = "application/papermill.record/text/plain"
TIMEOUT = 3600
"""Seconds that one cell may take, and its outputs after it: a slow machine is no fault of a page.
"""
NOT_YET = (
    "Not run here yet. The cells below show what they tell where there is no GPU, with times from"
    " the record. Run all cells, and what they tell here takes its place.\n"
)
"""What the first cell of a notebook carries: what it told where the notebook was made is of no use.
"""
COLOUR = re.compile(r"\x1b\[[\d;]*m")
OWN_CLOCK = re.compile(r"\bperf_counter\b|\btime\.(?:time|monotonic)\b")
"""A cell that reads a clock: its numbers are those of the machine on which it ran last."""


def environment() -> dict[str, str]:
    """The variables of a run that measures nothing: no GPU, recorded CPU times, no widgets."""
    own = ("TILE_BOOK_BUILD", "TILE_REPLAY", "TILE_TRACEBACK")
    return {**os.environ, **dict.fromkeys(own, "1"), "CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True)
class Run:
    """What one run of a page gave.

    notebook: it, with what a page shows of its outputs.
    glued: the values that its code cells glued, by name, as Python writes them.
    inputs: what it read below ROOT (`watching`).
    seconds: how long it took.
    """

    notebook: Notebook
    glued: dict[str, str]
    inputs: list[str]
    seconds: int


def _errors(kind: type[TileError]) -> Iterator[type[TileError]]:
    """It and its subclasses: errors that say all that there is to say."""
    yield kind
    for one in kind.__subclasses__():
        yield from _errors(one)


def run(notebook: Notebook, folder: Path) -> Run:
    """The same notebook with the outputs of a run in a fresh kernel in this folder.

    The first cell, which sets up the machine that runs it, carries NOT_YET.
    Raises ExportError, naming chapter and cell, if a cell raises, writes to stderr, shows a form of
    output that is not in SHOWN, or prints a path of this machine; and if outputs were lost on their
    way, which nbclient by itself only logs.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    began = perf_counter()
    made = copy.deepcopy(notebook)
    ran = nbformat.reads(json.dumps(notebook), as_version=4)
    with tempfile.TemporaryDirectory(prefix="page-") as away:
        log = Path(away) / "inputs"
        watch = (
            f"__import__('runpy').run_path({watching.__file__!r})['watch']({str(ROOT)!r},"
            f" {str(log)!r})"
        )
        client = NotebookClient(
            ran,
            timeout=TIMEOUT,
            startup_timeout=TIMEOUT,
            iopub_timeout=TIMEOUT,  # 4 s unless told, and then outputs are dropped
            raise_on_iopub_timeout=True,
            resources={"metadata": {"path": str(folder)}},
            store_widget_state=False,
            record_timing=False,
            extra_arguments=[
                "--IPKernelApp.log_level=40",  # not that it talks to localhost
                f"--InteractiveShellApp.exec_lines={watch}",
            ],
        )
        try:
            client.execute(env=environment())
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            says = str(error)
            if isinstance(error, CellExecutionError) and not os.environ.get(WHOLE):
                own = error.ename in {kind.__name__ for kind in _errors(TileError)}
                says = f"{error.ename}: {error.evalue}" if own else says
            done = sum(1 for (cell,) in code_cells(ran) if cell["execution_count"])
            raise ExportError(
                f"{source_of(notebook)}: code cell {done} fails in the notebook "
                f"({type(error).__name__}). Mend it and run `make notebooks` again.\n"
                f"{COLOUR.sub('', says)}"
            ) from None
        read = watching.inputs(log)
    for number, (cell, after) in enumerate(code_cells(made, ran), 1):
        try:
            cell["outputs"] = kept(after["outputs"])
        except ValueError as error:
            raise ExportError(
                f"{source_of(notebook)}: code cell {number}, which begins "
                f"{first_words(cell)!r}, {error}"
            ) from None
    first = next(code_cells(made))[0]
    first["outputs"] = [{"name": "stdout", "output_type": "stream", "text": [NOT_YET]}]
    return Run(made, glued(ran), read, round(perf_counter() - began))


def glued(ran: Mapping[str, Any]) -> dict[str, str]:
    """The values that the cells of a notebook glued, by name, as Python writes them."""
    outputs = (output for (cell,) in code_cells(ran) for output in cell["outputs"])
    glued = (output for output in outputs if GLUED in output.get("data", {}))
    return {one["metadata"]["scrapbook"]["name"]: one["data"][GLUED] for one in glued}


def kept(outputs: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a page shows of a cell's outputs, the same from run to run. Raises ValueError."""
    found: list[dict[str, Any]] = []
    for output in outputs:
        if output["output_type"] == "stream":
            if output["name"] != "stdout":
                raise ValueError(f"writes to stderr, where a page writes nothing: {output['text']}")
            if found and found[-1]["output_type"] == "stream":
                found[-1]["text"] += output["text"]
            else:
                found.append(
                    {"name": "stdout", "output_type": "stream", "text": str(output["text"])}
                )
            continue
        data = {form: text for form, text in output["data"].items() if not form.startswith(UNSEEN)}
        if strange := [form for form in data if form not in (*SHOWN, PLAIN)]:
            raise ValueError(
                f"shows {strange[0]}, which is dead in a notebook that nobody has run. Where "
                "TILE_BOOK_BUILD is set, show words in its place"
            )
        if not data:
            continue
        best = [form for form in SHOWN if form in data][:1]
        one: dict[str, Any] = {"data": {}, "metadata": {}, "output_type": output["output_type"]}
        one["data"] = {form: data[form] for form in (*best, PLAIN) if form in data}
        if one["output_type"] == "execute_result":
            one["execution_count"] = None
        found.append(one)
    for one in found:
        for holder, name in texts(one):
            if str(ROOT) in holder[name]:
                raise ValueError(f"prints a path of this machine, below {ROOT}")
            if name != "image/png":
                holder[name] = holder[name].splitlines(keepends=True)
    return found


def texts(output: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Every text of an output, as the mapping that holds it and its key there."""
    if output["output_type"] == "stream":
        yield output, "text"
    else:
        for form in output["data"]:
            yield output["data"], form


def code_cells(*notebooks: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], ...]]:
    """The code cells of several notebooks, side by side."""
    columns = [[c for c in book["cells"] if c["cell_type"] == "code"] for book in notebooks]
    return zip(*columns, strict=True)


def source_of(notebook: Mapping[str, Any]) -> str:
    """The chapter that a notebook is made from, or the lab that it is for."""
    about = notebook["metadata"]["tile_by_tile"]
    return str(about["generated_from"] if "generated_from" in about else f"lab {about['lab']}")


def first_words(cell: Mapping[str, Any]) -> str:
    """Something of a cell by which a reader of a message finds it."""
    text = "".join(cell["source"]).removeprefix('say(r"""\n').strip()
    return text[:60].split("\n")[0]


def without_outputs(notebook: Notebook) -> Notebook:
    """The notebook as its chapter alone makes it."""
    bare = copy.deepcopy(notebook)
    for (cell,) in code_cells(bare):
        cell["outputs"] = []
    return bare


def is_told(notebook: Notebook) -> bool:
    """Whether the paragraphs with glued numbers and the first cell carry their text."""
    first = True
    for (cell,) in code_cells(notebook):
        if (first or "".join(cell["source"]).startswith("say(")) and not cell["outputs"]:
            return False
        first = False
    return True


def differences(old: Notebook, new: Notebook) -> list[str]:
    """In which cells the outputs of two runs of the same cells differ, in words.

    Not compared: the numbers of a cell that reads a clock, and the bytes of a bitmap, which follow
    from the version of the library that drew it.
    """
    found = []
    for number, (one, other) in enumerate(code_cells(old, new), 1):
        clock = bool(OWN_CLOCK.search("".join(one["source"])))
        before, after = (comparable(cell["outputs"], clock) for cell in (one, other))
        if before != after:
            found.append(f"code cell {number}, which begins {first_words(one)!r}")
    return found


def comparable(outputs: list[dict[str, Any]], clock: bool) -> list[dict[str, Any]]:
    """Outputs with what belongs to the machine of the run taken out."""
    shown = copy.deepcopy(outputs)
    for output in shown:
        for holder, name in texts(output):
            if name == "image/png":
                holder[name] = "a bitmap"
            elif clock:
                holder[name] = re.sub(r"\d[\d.,e+-]*", "a number", "".join(holder[name]))
    return shown
