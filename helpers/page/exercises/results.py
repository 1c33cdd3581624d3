"""What a check says of an answer: each thing looked at, and the verdict, as text and as HTML."""

import html
import re
from dataclasses import dataclass, field

from helpers.colours import GREEN, GREY, VERMILION
from nogpu.errors import CompileError, TileError

STARTER = "This is the starter, unchanged. As it stands:"
"""What stands over the checks of an answer that is still the page's own."""


def ended(text: str) -> str:
    """The text with a full stop, unless it ends a sentence already."""
    return text if text.endswith((".", "?", "!")) else text + "."


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what, whether it holds, and what to think about if not.

    error: what was raised on the way.
    """

    ok: bool
    what: str
    got: str = ""
    expected: str = ""
    hint: str = ""
    error: Exception | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        parts = [f"{'passed' if self.ok else 'not yet'}: {self.what}"]
        if self.got:
            parts.append(f"got {self.got}")
        if self.expected:
            parts.append(f"expected {self.expected}")
        text = ended("; ".join(parts))
        return f"{text} {self.hint}" if self.hint and not self.ok else text


@dataclass(frozen=True)
class Result:
    """What the checks of one exercise said about an answer.

    answered: false for ... and for a starter that nobody has changed; of a starter the checks say
    how it fares as it stands.
    """

    id: str
    checks: tuple[Check, ...]
    answered: bool = True
    starter: bool = False

    @property
    def passed(self) -> bool:
        """Whether there was an answer and every check holds."""
        return self.answered and all(check.ok for check in self.checks)

    @property
    def verdict(self) -> str:
        """The result in a few words."""
        if not self.answered:
            return "not answered yet"
        if self.passed:
            return "passed"
        if len(self.checks) == 1:
            return "not yet"
        return f"not yet: {sum(c.ok for c in self.checks)} of {len(self.checks)} checks pass"

    def __repr__(self) -> str:
        mark = {True: "[x]", False: "[ ]"}
        lines = [f"Exercise {self.id}: {self.verdict}"]
        if self.starter:
            lines.append(f"  {STARTER}")
            mark = {True: "[x]", False: "[-]"}
        elif not self.answered:
            return "\n".join([*lines, *(f"  {c.what}. {c.hint}" for c in self.checks)])
        lines += [f"  {mark[c.ok]} {c}".replace("\n", "\n      ") for c in self.checks]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        state = "pass" if self.passed else "fail" if self.answered else "open"
        mark = {"pass": "✓", "fail": "✗", "open": "○"}[state]
        colour = {"pass": GREEN, "fail": VERMILION, "open": GREY}[state]
        items = "".join(_check_html(check, self.answered, self.starter) for check in self.checks)
        if self.starter:
            items = f"<li>{html.escape(STARTER)}</li>{items}"
        return (
            f'<div class="tile-check tile-{state}" role="group" '
            f'aria-label="Exercise {html.escape(self.id)}: {html.escape(self.verdict)}" '
            f'style="border-left:4px solid {colour};padding:.4em .9em;margin:1em 0">'
            f'<p style="margin:0"><span aria-hidden="true">{mark} </span>'
            f"<strong>Exercise {html.escape(self.id)}: {html.escape(self.verdict)}</strong></p>"
            f'<ul style="margin:.3em 0 0;padding-left:1.2em;list-style:none">{items}</ul></div>'
        )


def _check_html(check: Check, answered: bool, starter: bool = False) -> str:
    """One list item; what has several lines, a compiler's log, stands in a block of its own."""
    if not answered and not starter:
        return f"<li>{html.escape(check.what)}. {html.escape(check.hint)}</li>"
    mark, word = ("✓", "passed") if check.ok else ("○" if starter else "✗", "not yet")
    text = f'<span aria-hidden="true">{mark} </span>{word}: {html.escape(check.what)}'
    blocks = ""
    for lead, value in (("got", check.got), ("expected", check.expected)):
        if "\n" in value:
            label = html.escape(f"{check.what}: {lead}")
            blocks += (
                f'<pre tabindex="0" role="group" aria-label="{label}" '
                f'style="overflow-x:auto;margin:.3em 0">{html.escape(value.strip())}</pre>'
            )
        elif value:
            text += f"; {lead} {html.escape(value)}"
    hint = f" {html.escape(check.hint)}" if check.hint and not check.ok else ""
    return f"<li>{ended(text)}{hint}{blocks}</li>"


def raised(what: str, error: Exception) -> Check:
    if isinstance(error, CompileError) and error.log:
        log = "\n" + _errors(error.log)
        return Check(
            False, "the source compiles", log, hint=ended(error.hint) if error.hint else "",
            error=error,
        )  # fmt: skip
    kind = "" if isinstance(error, TileError) else f"{type(error).__name__}: "
    return Check(False, what, got=f"{kind}{error}", error=error)


def _errors(log: str) -> str:
    """A compiler's log without its warnings and remarks, if it holds an error."""
    blocks = [block.strip("\n") for block in re.split(r"\n\s*\n", log) if block.strip()]
    errors = [block for block in blocks if not re.search(r": warning(?: #|: )|^Remark:", block)]
    return "\n\n".join(errors or blocks).strip()
