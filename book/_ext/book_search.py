"""Sphinx extension: a search leads first to the page that explains a term.

A page names in its front matter what it defines, `defines: shared memory, __syncthreads`; a kernel
is defined by its chapter. Each becomes an entry of the index, which Sphinx's search puts before all
else."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

from sphinx import addnodes
from sphinx.application import ENV_PICKLE_FILENAME

from helpers.chapters.intro import climb


def kernels(page: str) -> list[str]:
    """Names of the kernels that are rungs of a chapter, or [] of another page."""
    found = re.match(r"book/(\d\d)_", page)
    number = int(found[1]) if found else 0
    return [k.name for k in climb.rungs_of(number)] if number in climb.CHAPTERS else []


def terms(page: str, metadata: dict[str, Any]) -> list[str]:
    """What a page defines, by its front matter and by its kernels."""
    named = [term.strip() for term in str(metadata.get("defines", "")).split(",")]
    return [term for term in named if term] + kernels(page)


def enter(app: Any, doctree: Any) -> None:
    """Put what a page defines into the index."""
    page = app.env.docname
    entries = [("single", term, "", "main", None) for term in terms(page, app.env.metadata[page])]
    if entries:
        doctree.append(addnodes.index(entries=entries))


def keep(app: Any, fault: Exception | None) -> None:
    """Store the environment again: Sphinx stores it before it gathers titles and entries for the
    search, and of a page that the next build does not write they would be lost."""
    if fault is None:
        with (Path(app.doctreedir) / ENV_PICKLE_FILENAME).open("wb") as out:
            pickle.dump(app.env, out, pickle.HIGHEST_PROTOCOL)


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx when it loads the extension."""
    app.connect("doctree-read", enter)
    app.connect("build-finished", keep)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
