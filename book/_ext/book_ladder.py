"""Sphinx extension: each chapter of the climb says at its top where it stands on the ladder, and what
opens the list of its Deeper pages has a name.
"""

from __future__ import annotations

import html
import re
from typing import Any

from helpers.chapters.facts import recorded
from helpers.chapters.intro import climb


def shares() -> dict[int, tuple[str, float]]:
    """By chapter: its best recorded rung, and that rung's share of cuBLAS at 4096 on the H200."""
    found = {}
    for chapter in climb.CHAPTERS:
        of = {k.name: recorded(k.name, climb.SIZE, "cublas_ratio") for k in climb.rungs_of(chapter)}
        of = {name: share for name, share in of.items() if share == share}
        if of:
            best = max(of, key=lambda name: of[name])
            found[chapter] = best, of[best]
    return found


def strip(number: int, steps: dict[int, tuple[str, float]]) -> str:
    """A row of bars, one for each chapter with a rung, this one marked; empty for other chapters."""
    if number not in steps:
        return ""
    best, share = steps[number]
    kind = "16-bit" if number >= 17 else "FP32"
    words = f"Where you are: {best} reaches {100 * share:.0f} % of cuBLAS ({kind}, H200, 4096)"
    bars = "".join(
        f"<i{' class=here' if chapter == number else ''}{' class=first' if chapter == 17 != number else ''}"
        f' style="height:{max(4, min(100, round(100 * at)))}%"></i>'
        for chapter, (_, at) in steps.items()
    )
    return (
        '<div class="tile-climb"><span class="tile-climb-bars" aria-hidden="true">'
        f"{bars}</span><small>{html.escape(words)}</small></div>"
    )


def named(make: Any) -> Any:
    """The theme's list of pages, with a name for what opens a part of it."""

    def with_names(*given: Any, **more: Any) -> str:
        return str(make(*given, **more)).replace("<summary>", '<summary aria-label="Deeper pages">')

    return with_names


def place(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Put the strip below the title."""
    if "generate_toctree_html" in context:
        context["generate_toctree_html"] = named(context["generate_toctree_html"])
    number = re.match(r"book/(\d\d)_", page)
    if number is None or int(number[1]) not in climb.CHAPTERS or "body" not in context:
        return
    if not hasattr(app, "tile_steps"):
        app.tile_steps = shares()
    row = strip(int(number[1]), app.tile_steps)
    context["body"] = context["body"].replace("</h1>", f"</h1>{row}", 1)


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx when it loads the extension."""
    app.connect("html-page-context", place, priority=900)  # after the theme
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
