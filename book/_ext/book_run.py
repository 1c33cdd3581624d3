"""Sphinx extension: pages whose cells a reader can run where they stand load the script for that.

Only where `make book PAGE=1` builds the book; without it no page has the script, nor has the site.
What the script loads when a reader asks for it lies in run/ (python -m tools.page_files).
"""

from __future__ import annotations

import os
import re
from typing import Any

SCRIPT = "run.js"
RUNS = re.compile(
    r'<span class="cp">%%cuda |<pre [^>]*>%%cuda |<div [^>]*data-slide='
    r'|<span class="n">check</span><span class="p">\(</span><span class="s2">"[\d.]+"</span>'
    r'<span class="p">,</span> <span class="n">mine<'
)
"""What such a page holds: the first line of a kernel's cell, the sentence in place of sliders, or
the check of an exercise's kernel."""


def wanted() -> bool:
    """Whether the book is built with pages that run."""
    return os.environ.get("TILE_PAGE") == "1"


def leave_out(app: Any, config: Any) -> None:
    """Do not copy the script where no page has it."""
    if not wanted():
        config.exclude_patterns.append(f"**/{SCRIPT}")


def load(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Add the script to a page that has something to run."""
    if wanted() and RUNS.search(context.get("body", "")):
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx when it loads the extension."""
    app.connect("config-inited", leave_out)
    app.connect("html-page-context", load, priority=400)  # before others make their own list
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
