"""Sphinx extension: a page's code cells show the outputs that `python -m helpers notebooks --book`
stored.

Sphinx itself runs no page. `make book` runs the pages that changed beforehand, several at a time,
and writes _build/outputs/NAME.json; a page is read anew when its file has changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
from myst_nb import sphinx_ as myst
from myst_nb.core.execute import NotebookClientBase
from sphinx.errors import ExtensionError

STORED = Path(__file__).resolve().parents[2] / "_build" / "outputs"


class StoredOutputs(NotebookClientBase):
    """Fills a page's code cells with stored outputs, glued values among them."""

    def start_client(self) -> None:
        """Called before the page is rendered.

        Raises ExtensionError if the outputs are of other cells.
        """
        assert self.path is not None
        file = STORED / f"{self.path.stem}.json"
        cells = [cell for cell in self.notebook.cells if cell["cell_type"] == "code"]
        stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
        if [cell["source"] for cell in cells] != [one["source"] for one in stored]:
            raise ExtensionError(
                f"{file} does not hold the outputs of {self.path.name} as it is now: run `make"
                " book`"
            )
        for cell, one in zip(cells, stored, strict=True):
            cell["outputs"] = [nbformat.from_dict(output) for output in one["outputs"]]


def create_client(
    notebook: Any, source: str, config: Any, logger: Any, read_fmt: Any = None
) -> StoredOutputs:
    """In place of MyST-NB's own, which executes a page or asks jupyter-cache."""
    return StoredOutputs(notebook, Path(source), config, logger)


def depend(app: Any, name: str, text: list[str]) -> None:
    """Have a page read anew when its stored outputs change."""
    file = STORED / f"{Path(name).name}.json"
    if file.exists():
        app.env.note_dependency(str(file))


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx when it loads the extension."""
    myst.create_client = create_client
    app.connect("source-read", depend)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
