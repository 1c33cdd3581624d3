"""The labs' starters, for a teacher to look at, and to try where the page runs; questions."""

import html

from helpers.notebook.pieces import Html, inline
from tilelabs.labs import Lab, all_labs, rehearsing
from tilelabs.labs.handing_out import _launch


def folded() -> Html:
    """Each lab's task and starter in its first variant, folded; the text is a cell, as students get
    it, which a page that runs can open (book/_static/run.js)."""
    shown, plain = zip(*map(_starter, all_labs()), strict=True)
    return Html("".join(shown), "\n\n".join(plain))


def _starter(one: Lab) -> tuple[str, str]:
    """A lab as HTML and as plain text."""
    variant = one.variants[0]
    title = f"Lab {one.number}, {one.title} ({variant.name})"
    task = f"{one.task} {variant.words} {_launch(one, variant)}"
    cell = f"%%cuda {one.entry}\n{one.starter(variant).rstrip()}"
    shown = (
        f'<p>{inline(task)}</p><div class="cell"><div class="cell_input"><div class="highlight">'
        f"{_code(f'Starter of lab {one.number}', cell)}</div></div></div>"
    )
    return _details(title, shown), f"{title}\n{task}\n\n{cell}"


def questions() -> Html:
    """What an exam may ask, by lab, folded and without answers; "" where the book has none, as in
    the copy that a notebook fetches.
    """
    shown, plain = [], []
    for one in all_labs():
        for n, posed in enumerate(rehearsing.exam(one), 1):
            title = f"Lab {one.number}, question {n}: {posed.minutes} minutes"
            code = _code(f"Kernel of question {n}, lab {one.number}", posed.kernel.strip())
            shown.append(_details(title, f"<p>{inline(posed.ask)}</p>{code * bool(posed.kernel)}"))
            plain.append(f"{title}\n{posed.ask}\n\n{posed.kernel}".strip())
    return Html("".join(shown), "\n\n".join(plain))


def _details(title: str, shown: str) -> str:
    return (
        '<details class="tile-folded" style="margin:.5em 0">'
        f'<summary style="cursor:pointer">{html.escape(title)}</summary>{shown}</details>'
    )


def _code(label: str, text: str) -> str:
    return (
        f'<pre tabindex="0" role="group" aria-label="{label}"'
        f' style="overflow-x:auto">{html.escape(text)}\n</pre>'
    )
