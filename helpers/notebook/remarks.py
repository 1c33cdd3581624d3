"""Remarks on a kernel, as text and as HTML; and who takes a cell that begins with `%%cuda NAME`."""

import html
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from helpers.colours import GREEN, VERMILION
from helpers.notebook.pieces import HIDDEN, inline


@dataclass(frozen=True)
class Remark:
    """One thing to say of a kernel. good: None where neither; block: a text of several lines."""

    text: str
    good: bool | None = None
    block: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text[:1].upper() + self.text[1:])


def as_text(remarks: Iterable[Remark]) -> str:
    """A line for each, and its block below it."""
    mark = {True: "[x]", False: "[ ]", None: "   "}
    return "\n".join(f"{mark[s.good]} {s.text}\n{s.block}".rstrip() for s in remarks)


def as_html(remarks: Iterable[Remark], ok: bool, label: str, head: str = "", foot: str = "") -> str:
    """A labelled group: the list between two lines of words, signs and colours said in words."""
    items = "".join(_item(s) for s in remarks)
    above, below = (f'<p style="margin:.2em 0">{inline(t)}</p>' if t else "" for t in (head, foot))
    return (
        f'<div class="tile-verdict" role="group" aria-label="{html.escape(label)}"'
        f' style="border-left:4px solid {GREEN if ok else VERMILION};padding:.4em .9em;margin:1em'
        f' 0">{above}<ul'
        f' style="margin:0;padding-left:1.2em;list-style:none">{items}</ul>{below}</div>'
    )


def _item(s: Remark) -> str:
    mark, aloud = {True: ("✓", "good: "), False: ("✗", "not yet: "), None: ("·", "")}[s.good]
    sign = f'<span aria-hidden="true">{mark} </span><span style="{HIDDEN}">{aloud}</span>'
    block = (
        f'<pre tabindex="0" role="group" aria-label="{html.escape(s.text)}" '
        f'style="overflow-x:auto;margin:.3em 0">{html.escape(s.block)}</pre>'
        if s.block
        else ""
    )
    return f"<li>{sign}{inline(s.text)}{block}</li>"


TAKERS: dict[str, Callable[[str], Any]] = {}
"""Kernels that rooms above this one ask for, by name, and who takes the text of a cell that begins
with it."""
