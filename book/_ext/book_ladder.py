"""Sphinx extension: a page of the climb says at its top where its chapter stands on the ladder; its
arrows lead along the main line, past Deeper pages; and what opens the list of these has a name."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from helpers.chapters.facts import recorded
from helpers.chapters.intro import climb
from tools.essays import OFF


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
    """A row of bars, one for each chapter with a rung, this one marked; none for other chapters."""
    if number not in steps:
        return ""
    best, share = steps[number]
    kind = "16-bit" if number >= 17 else "FP32"
    words = f"Where you are: {best} reaches {100 * share:.0f} % of cuBLAS ({kind}, H200, 4096)"
    bars = "".join(
        f"<i{' class=here' if chapter == number else ''}"
        f"{' class=first' if chapter == 17 != number else ''}"
        f' style="height:{max(4, min(100, round(100 * at)))}%"></i>'
        for chapter, (_, at) in steps.items()
    )
    return (
        '<div class="tile-climb"><span class="tile-climb-bars" aria-hidden="true">'
        f"{bars}</span><small>{html.escape(words)}</small></div>"
    )


def neighbours(page: str, chapters: list[str], aside: set[str]) -> tuple[str, str]:
    """The pages before and after a chapter or a Deeper page, "" where the contents decide.

    chapters: the numbered ones in order. aside: those off the main line, which the arrows of others
    pass by. A Deeper page lies between its chapter and the next of the main line.
    """
    chapter = page.replace("/deeper_", "/")
    if chapter not in chapters:
        return "", ""
    at = chapters.index(chapter)
    before = [c for c in chapters[:at] if chapter in aside or c not in aside]
    after = [c for c in chapters[at + 1 :] if chapter in aside or c not in aside]
    back = chapter if page != chapter else before[-1] if before else ""
    return back, after[0] if after else ""


def arrows(app: Any, page: str, context: dict[str, Any]) -> None:
    """Let the arrows at a page's end lead along the main line."""
    if not hasattr(app, "tile_chapters"):
        every = sorted(n for n in app.env.found_docs if re.match(r"book/\d\d_", n))
        aside = {n for n in every if OFF in Path(app.env.doc2path(n)).read_text("utf-8")}
        app.tile_chapters = every, aside
    for name, there in zip(("prev", "next"), neighbours(page, *app.tile_chapters), strict=True):
        if there:
            title = app.builder.render_partial(app.env.titles[there])["title"]
            link = app.builder.get_relative_uri(page, there)
            context[name] = {"link": link, "title": title}


def named(make: Any) -> Any:
    """The theme's list of pages, with a name for what opens a part of it."""

    def with_names(*given: Any, **more: Any) -> str:
        return str(make(*given, **more)).replace("<summary>", '<summary aria-label="Deeper pages">')

    return with_names


def place(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Put the strip below the title."""
    if "generate_toctree_html" in context:
        context["generate_toctree_html"] = named(context["generate_toctree_html"])
    arrows(app, page, context)
    number = re.match(r"book/(?:deeper_)?(\d\d)_", page)
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
