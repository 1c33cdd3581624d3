"""An explorer: controls, what Python computes for each state of them, and the HTML that shows it.

The page's script draws from tables or from a formula that a test holds equal to `Explorer.read`.
Without script the default picture and a table of telling states remain.
"""

import html
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from typing import Any

from helpers import page as pages
from nogpu.errors import ConfigError

JS = Path(__file__).resolve().parent / "js"
State = dict[str, Any]


def text(x: float, digits: int = 0) -> str:
    """A number as the page's script writes it: ties away from zero, thousands separated."""
    exact = Decimal(x).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
    return f"{exact:,f}"


def significant(x: float, digits: int = 3) -> str:
    """A number with so many significant digits, never in powers of ten, thousands separated.

    It keeps its zeros, 2.50, as the script does, where `wording.number` writes 2.5.
    """
    if x == 0:
        return "0"
    places = max(0, digits - 1 - Decimal(x).adjusted())
    return text(x, places)


@dataclass(frozen=True)
class Control:
    """A slider ("range") or a list ("select") over values, each with its words."""

    name: str
    label: str
    values: tuple[Any, ...]
    value: Any
    kind: str = "range"
    labels: tuple[str, ...] = ()
    plays: int = 0
    """Milliseconds a step, of a slider with a button that plays it to its end; 0 for none."""

    def __post_init__(self) -> None:
        if self.value not in self.values:
            raise ConfigError(f"{self.name}={self.value!r} is not one of {self.values}")
        if not self.labels:
            object.__setattr__(self, "labels", tuple(str(v) for v in self.values))


def choice(name: str, label: str, words: Mapping[Any, str], value: Any) -> Control:
    """A list of values, each with its words."""
    return Control(name, label, tuple(words), value, "select", tuple(words.values()))


@dataclass(frozen=True)
class Reading:
    """What an explorer shows in one state: which sentence it says, and each value in words."""

    say: str
    text: Mapping[str, str]


@dataclass(frozen=True)
class Explorer:
    """Sliders that work on a page without a kernel. Shown by `_repr_html_`.

    labels: the values shown, by name. sentences: templates over those names, one for each `say`.
    data: what the script draws from. compute: a state to its Reading. picture: HTML of the default
    state for a page without script; examples: states of the table beside it.
    """

    kind: str
    title: str
    caption: str
    controls: tuple[Control, ...]
    labels: Mapping[str, str]
    sentences: Mapping[str, str]
    data: Mapping[str, Any]
    compute: Callable[[State], Reading]
    picture: str
    examples: tuple[State, ...] = ()
    note: str = ""
    code: tuple[str, ...] = ()
    """Lines of code above the drawing; the script lights those that a state runs."""
    wide: tuple[str, ...] = ()
    """Values that take a line of their own."""
    spoken: tuple[str, ...] = ()
    """Values that the drawing shows as text already: for screen readers only."""
    _cache: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def default(self) -> State:
        """The state that a page opens with."""
        return {c.name: c.value for c in self.controls}

    def read(self, **state: Any) -> Reading:
        """What is shown in a state; controls left out have their defaults. Raises ConfigError."""
        full = {**self.default, **state}
        for c in self.controls:
            if full[c.name] not in c.values:
                raise ConfigError(f"{c.name}={full[c.name]!r} is not one of {c.values}")
        return self.compute(full)

    def sentence(self, **state: Any) -> str:
        """What an explorer says in a state, in words."""
        reading = self.read(**state)
        return self.sentences[reading.say].format_map(reading.text)

    def payload(self) -> str:
        """The JSON that the script reads."""
        content = {
            "title": self.title,
            "caption": self.caption,
            "note": self.note,
            "controls": [
                {"name": c.name, "label": c.label, "kind": c.kind, "values": c.values,
                 "labels": c.labels, "value": c.value, "plays": c.plays}
                for c in self.controls
            ],
            "labels": dict(self.labels),
            "sentences": dict(self.sentences),
            "wide": self.wide,
            "spoken": self.spoken,
            "code": self.code or None,
            "data": self.data,
        }  # fmt: skip
        dumped = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return dumped.replace("</", "<\\/")

    def fallback(self) -> str:
        """The default picture, its sentence and the table of examples, as plain HTML."""
        rows = []
        short = {n: label for n, label in self.labels.items() if n not in self.wide + self.spoken}
        short = short or dict(self.labels)  # all are in the drawing: here only the table has them
        moved = {n for e in self.examples for n, v in e.items() if v != self.default[n]}
        for example in self.examples or ({},):
            full = {**self.default, **example}
            reading = self.read(**example)
            moving = (c for c in self.controls if c.name in moved)
            row = {c.name: c.labels[c.values.index(full[c.name])] for c in moving}
            rows.append(row | {name: reading.text.get(name, "–") for name in short})
        headers = {c.name: c.label for c in self.controls if c.name in moved} | short
        shown = pages.table(rows, caption=self.title + ": some settings.", headers=headers)
        words = html.escape(self.sentence())
        note = f"<p><small>{html.escape(self.note)}</small></p>" if self.note else ""
        caption = f"<p>{html.escape(self.caption)}</p>"
        return f"{self.picture}<p>{words}</p>{shown._repr_html_()}{caption}{note}"

    def _repr_html_(self) -> str:
        if "html" not in self._cache:
            name = f"tile-{self.kind}"
            self._cache["html"] = (
                f'<{name} class="tile-explorer">{self.fallback()}'
                f'<script type="application/json">{self.payload()}</script></{name}>'
                f"<script>{script('core')}{script(self.kind)}</script>"
            )
        return self._cache["html"]

    def __repr__(self) -> str:
        return f"{self.title}\n{self.sentence()}"


@cache
def script(name: str) -> str:
    """One of our JavaScript files, without its comment lines and indentation."""
    lines = (JS / f"{name}.js").read_text(encoding="utf-8").splitlines()
    stripped = (line.strip() for line in lines)
    return "\n".join(line for line in stripped if line and not line.startswith("//")) + "\n"
