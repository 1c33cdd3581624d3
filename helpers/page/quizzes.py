"""Questions whose options say whether they are right, and why."""

import hashlib
import string
from collections.abc import Callable, Mapping, Sequence

from helpers.notebook.pieces import Html, inline
from nogpu.errors import ConfigError


def quiz(
    question: str, options: Mapping[str, str], *, answer: str | Sequence[str],
    words: Callable[[str], str] = inline,
) -> Html:  # fmt: skip
    """A question whose options open, by mouse or keyboard, to say whether they are right and why.

    options maps each option to its explanation; answer is the right option, or several. words: what
    makes HTML of a text; the book's build puts its own there, for roles. Raises ConfigError if the
    answer is not an option, or there are fewer than two options.
    """
    right = (answer,) if isinstance(answer, str) else tuple(answer)
    if len(options) < 2:
        raise ConfigError(f"the quiz {question!r} has {len(options)} options; give at least two")
    missing = [a for a in right if a not in options]
    if missing or not right:
        raise ConfigError(
            f"the answer {missing or right!r} of the quiz {question!r} is not one of its options"
        )
    name = "quiz-" + hashlib.sha1(question.encode()).hexdigest()[:8]
    items = []
    for option, why in options.items():
        verdict = "Right." if option in right else "Not quite."
        items.append(
            '<details class="tile-option" style="margin:.35em 0">'
            f'<summary style="cursor:pointer">{words(option)}</summary>'
            f'<p style="margin:.2em 0 .6em 1.1em"><strong>{verdict}</strong> {words(why)}</p>'
            "</details>"
        )
    out = (
        f'<div class="tile-quiz" role="group" aria-labelledby="{name}" style="margin:1.2em 0">'
        f'<p id="{name}" style="margin:0 0 .4em"><strong>{words(question)}</strong></p>'
        f"{''.join(items)}</div>"
    )
    letters = string.ascii_lowercase
    listed = "\n".join(f"  {letters[i % 26]}) {option}" for i, option in enumerate(options))
    return Html(out, f"{question}\n{listed}")
