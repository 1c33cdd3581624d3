"""A student's feedback, twice from the same facts: plain text for a platform's comment field, and
one page.

The page is HTML by itself: no script, nothing loaded, light and dark, headings, a table with header
cells, and a word beside every colour. What a student or a compiler wrote is tidied and escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tilelabs.grading.tables import LOOK
from tilelabs.judging.marking import tidy
from tilelabs.judging.timing import words
from tilelabs.labs.checking import Checked, Part
from tilelabs.labs.rubrics import Lab

MOST_FEEDBACK = 20_000
"""Bytes of one student's text, and of the page."""


@dataclass(frozen=True)
class Given:
    """What a person gives for a part in place of what was counted, or for one that is marked by
    hand.
    """

    points: float
    reason: str


@dataclass(frozen=True)
class Told:
    """What a student is told. checked: None where nothing was handed in. points: by part (None:
    nobody has given them yet). closing: lines below, such as the total.
    """

    lab: Lab
    student: str
    name: str
    checked: Checked | None
    points: Mapping[str, float | None]
    given: Mapping[str, Given]
    notes: Sequence[str]
    closing: Sequence[str]
    attempt: int = 1

    @property
    def seen(self) -> list[str]:
        """The notes that are for the student too."""
        return [tidy(note) for note in self.notes if not note.startswith(LOOK)]

    @property
    def judged_by(self) -> str:
        """Which lab this was, so that nobody compares marks of two versions."""
        return f"Lab version {self.lab.version}, attempt {self.attempt}"


def closing(lab: Lab, points: Mapping[str, float | None]) -> list[str]:
    """The total in words, and what is not marked yet."""
    total = sum(p for p in points.values() if p is not None)
    open_ = [n for n, p in points.items() if p is None]
    still = f"; {', '.join(open_)} not marked yet" if open_ else ""
    return [f"Total: {total:g} of {lab.points} points{still}"]


# -- text
# --------------------------------------------------------------------------------------------


def text(told: Told) -> str:
    """The feedback as plain text."""
    if told.checked is None:
        lines = [f"Lab {told.lab.number}, {told.lab.title}: no submission."]
    else:
        listed = [_with_points(told, line) for line in str(told.checked).split("\n")[:-1]]
        lines = [*map(_line, listed), told.judged_by, ""]
        was = {p.rubric.id: p.points for p in told.checked.parts}
    for part in told.lab.parts:
        if part.id in told.given:
            counted = "" if part.by_hand or not told.checked else f" (counted: {was[part.id]})"
            given = told.given[part.id]
            lines.append(
                f"By a person: {part.id} {given.points:g}/{part.points}{counted}{_reason(given)}"
            )
    lines += [f"Note: {note}" for note in told.seen]
    return _cut("\n".join([*lines, *told.closing]) + "\n")


def _with_points(told: Told, line: str) -> str:
    """A line of the list, with what a person gave in place of "by hand"."""
    for part in told.lab.parts:
        if part.by_hand and (given := told.given.get(part.id)):
            before, found, words = line.partition(f"by hand  {part.id}: ")
            if found and not before.strip():
                return f"{before}{f'{given.points:g}/{part.points}':>7}  {part.id}: {words}"
    return line


def _line(line: str) -> str:
    """A line as it is indented, and nothing in it but words."""
    return line[: len(line) - len(line.lstrip(" "))] + tidy(line, 600)


def _reason(given: Given) -> str:
    return f": {tidy(given.reason)}" if given.reason.strip() else ""


def _cut(told: str) -> str:
    raw = told.encode("utf-8", "replace")
    if len(raw) <= MOST_FEEDBACK:
        return raw.decode()
    return raw[: MOST_FEEDBACK - 5].decode("utf-8", "ignore") + " ...\n"


# -- page
# --------------------------------------------------------------------------------------------

_STYLE = """\
:root{color-scheme:light dark;--page:#fff;--ink:#1a1a1a;--good:#00684b;--some:#8a4500;--line:#767676}
@media (prefers-color-scheme:dark){:root{--page:#121212;--ink:#eee;--good:#5fd6ae;--some:#ffb27a;--line:#999}}
html{background:var(--page);color:var(--ink)}
body{font:1rem/1.5 system-ui,sans-serif;max-width:48rem;margin:1rem auto;padding:0 1rem;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%}
th,td{border:1px solid var(--line);padding:.3rem .5rem;text-align:left;vertical-align:top}
tbody th,td.points{overflow-wrap:normal}
td.points{min-width:5.5rem}
@media (max-width:36rem){thead{position:absolute;clip-path:inset(50%)}
tbody tr{display:block;border:1px solid var(--line);margin:.5rem 0}tbody th,tbody td{display:block;border:0}}
.all{color:var(--good)}.lacks{color:var(--some)}"""


def page(told: Told) -> str:
    """The feedback as a page of HTML; longer words are cut until it is small enough."""
    for most in (300, 150, 60, 20):
        made = _page(told, most)
        if len(made.encode()) <= MOST_FEEDBACK:
            break
    return made


def document(title: str, body: Sequence[str]) -> str:
    """A page that stands by itself, of lines of HTML. title: plain text."""
    return "\n".join([
        "<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{_html(title)}</title>", f"<style>\n{_STYLE}\n</style>", "</head>", "<body>", "<main>",
        f"<h1>{_html(title)}</h1>", *body, "</main>", "</body>", "</html>", "",
    ])  # fmt: skip


def _page(told: Told, most: int) -> str:
    who = told.name or told.student
    body = [f"<p>For {_html(who, most)}.</p>"]
    found = told.checked
    if found is None:
        body.append("<p>No submission.</p>")
    else:
        body.append(f"<p>{_html(found.variant.name)}. {_html(told.judged_by)}.</p>")
        if found.marked.refused:
            body.append(
                f"<p><strong>It did not run:</strong> {_html(found.marked.refused, most)}</p>"
            )
        # Roles, since a narrow screen stacks the cells, and a stack is no table to a screen reader.
        body += ["<h2>Points by part</h2>", '<table role="table">']
        heads = ("Part", "Points", "Why")
        body.append(
            '<thead role="rowgroup"><tr role="row">'
            + "".join(f'<th scope="col" role="columnheader">{h}</th>' for h in heads)
            + "</tr></thead>"
        )
        body += [
            '<tbody role="rowgroup">',
            *(_row(told, part, most) for part in found.parts),
            "</tbody>",
            "</table>",
        ]
    if found is not None and found.timed is not None:
        body.append(f"<p>Time, not in the points: {_html(words(found.timed), most)}</p>")
    if given := [f"<li>{_html(line, most)}</li>" for line in _by_persons(told)]:
        body += ["<h2>Given by a person</h2>", "<ul>", *given, "</ul>"]
    if told.seen:
        body += [
            "<h2>Notes</h2>",
            "<ul>",
            *(f"<li>{_html(n, most)}</li>" for n in told.seen[:20]),
            "</ul>",
        ]
    body += ["<h2>Total</h2>", *(f"<p>{_html(line)}</p>" for line in told.closing)]
    return document(f"Lab {told.lab.number}: {told.lab.title}", body)


def _by_persons(told: Told) -> list[str]:
    return [
        f"{part.id}: {told.given[part.id].points:g} of {part.points}{_reason(told.given[part.id])}"
        for part in told.lab.parts
        if part.id in told.given
    ]


def _row(told: Told, part: Part, most: int) -> str:
    rubric = part.rubric
    points = told.points.get(rubric.id)
    shown = "" if points is None else f"{points:g}"
    kind, state = "lacks", "some points" if points else "no points"
    if points is None:
        kind, state = "", "not marked yet"
    elif rubric.id in told.given:
        kind, state = "", "given by a person"
    elif part.unknown:
        kind, state = "", "not told on this machine"
    elif points == rubric.points:
        kind, state = "all", "all points"
    return (
        f'<tr role="row"><th scope="row" role="rowheader">{_html(rubric.id)}</th>'
        f'<td class="points" role="cell">{f"{shown} of " if shown else "of "}{rubric.points}<br>'
        f'<span class="{kind}">{state}</span></td><td role="cell">{_html(part.words, most)}</td></tr>'
    ).replace(' class=""', "")


def _html(told: str, most: int = 300) -> str:
    """Somebody's words as one line of HTML."""
    return escape(tidy(told.encode("utf-8", "replace").decode(), most))


__all__ = ["MOST_FEEDBACK", "Given", "Told", "closing", "document", "page", "text"]
