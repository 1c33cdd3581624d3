"""Quizzes and listings that a page writes as directives: their lines for quiz() and show_kernel().

The book's build (book/_ext/book_directives.py), the exporter of notebooks and the tests read them
by these functions, so that a page means the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nogpu.errors import ConfigError, near_matches


class DirectiveTextError(ConfigError):
    """What a directive holds and may not. line: of its body, from 0; -1 is the opening line."""

    def __init__(self, message: str, line: int = -1) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Question:
    """A quiz as a page writes it: options with their reasons, in order, and the right ones."""

    question: str
    options: Mapping[str, str]
    answer: tuple[str, ...]

    def call(self, write: Callable[[str], str] = repr) -> str:
        """The call that shows it, as Python; `write` makes an expression of each text."""
        options = "".join(
            f"        {write(text)}:\n            {write(why)},\n"
            for text, why in self.options.items()
        )
        right = ", ".join(write(text) for text in self.answer)
        answer = right if len(self.answer) == 1 else f"[{right}]"
        return (
            f"quiz(\n    {write(self.question)},\n    {{\n{options}    }},\n    answer={answer},\n)"
        )

    def rewritten(self, words: Callable[[str], str]) -> Question:
        """The same with each of its texts as `words` writes it."""
        options = {words(text): words(why) for text, why in self.options.items()}
        return Question(words(self.question), options, tuple(words(text) for text in self.answer))


QUIZ_FORM = (
    "Write `:::{quiz} The question?`, then for each option a line `- [ ] A wrong option.` or "
    "`- [x] The right option.`, and below it, indented by two spaces, why."
)


def read_quiz(question: str, body: Sequence[str]) -> Question:
    """The quiz of a directive. question: what stands after `{quiz}`; body: the lines below it.

    Raises DirectiveTextError, with the line, for anything but options with reasons, for fewer than
    two options, for one given twice, and where none or all are right.
    """
    question = question.strip()
    if not question:
        raise DirectiveTextError(f"a quiz without a question. {QUIZ_FORM}")
    in_order: list[tuple[int, str, bool, list[str]]] = []
    for at, line in enumerate(body):
        if not line.strip():
            continue
        option = re.fullmatch(r"[-*] \[([ xX])\] +(\S.*)", line.rstrip())
        if option:
            in_order.append((at, option[2].strip(), option[1] != " ", []))
        elif in_order and line[:2] == "  ":
            in_order[-1][3].append(line.strip())
        else:
            raise DirectiveTextError(
                f"{line.strip()!r} is no option and no reason below one. {QUIZ_FORM}", at
            )
    options: dict[str, str] = {}
    for at, text, _, why in in_order:
        if text in options:
            raise DirectiveTextError(f"the option {text!r} stands twice; each stands once", at)
        if not why:
            raise DirectiveTextError(f"the option {text!r} has no reason. {QUIZ_FORM}", at)
        options[text] = " ".join(why)
    if len(options) < 2:
        raise DirectiveTextError(
            f"the quiz {question!r} has {len(options)} options; give at least two. {QUIZ_FORM}"
        )
    answer = tuple(text for _, text, right, _ in in_order if right)
    if not answer or len(answer) == len(options):
        count = "no option" if not answer else "every option"
        raise DirectiveTextError(
            f"{count} of the quiz {question!r} is marked [x]; mark those that are right"
        )
    return Question(question, options, answer)


KERNEL_OPTIONS = ("since", "folded", "lines", "caption", "mark")


@dataclass(frozen=True)
class Listing:
    """A listing as a page writes it: the kernel or file, and the keywords of show_kernel()."""

    kernel: str
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def call(self) -> str:
        """The call that shows it, as Python."""
        keywords = "".join(f", {name}={value!r}" for name, value in self.keywords.items())
        return f"show_kernel({self.kernel!r}{keywords})"


def read_kernel(kernel: str, body: Sequence[str]) -> Listing:
    """The listing of a directive. kernel: what follows `{kernel}`; body: its options, a line each.

    The kernel itself is looked up by show_kernel(). Raises DirectiveTextError, with the line, for
    an option that there is not, one without a value or with one too many, and for anything but
    options.
    """
    kernel = kernel.strip()
    if not kernel or " " in kernel:
        raise DirectiveTextError(
            f"`{{kernel}} {kernel}`: give one kernel of the catalog, or a file below kernels/"
        )
    keywords: dict[str, Any] = {}
    for at, line in enumerate(body):
        if not line.strip():
            continue
        option = re.fullmatch(r":([\w-]+):(.*)", line.strip())
        if not option:
            raise DirectiveTextError(
                f"{line.strip()!r} is no option; a listing has nothing below but "
                f"{', '.join(f':{name}:' for name in KERNEL_OPTIONS)}",
                at,
            )
        name, value = option[1], option[2].strip()
        if name not in KERNEL_OPTIONS:
            advice = near_matches(name, KERNEL_OPTIONS)
            raise DirectiveTextError(f"a listing has no option :{name}:. {advice}", at)
        if name in keywords and name != "mark":
            raise DirectiveTextError(f":{name}: stands twice; give it once", at)
        if (name == "folded") == bool(value):
            fault = f"takes no value, got {value!r}" if value else "needs a value"
            raise DirectiveTextError(f":{name}: {fault}", at)
        if name == "folded":
            keywords[name] = True
        elif name == "lines":
            keywords[name] = _ends(value, at)
        elif name == "mark":
            keywords[name] = (
                *keywords.get(name, ()),
                *(_ends(part, at, one=True) for part in re.split(r"\s;(?:\s|$)", value) if part),
            )
        else:
            keywords[name] = value
    return Listing(kernel, keywords)


def opened(line: str) -> tuple[str, str] | None:
    """Name and title of what an opening line such as `{quiz} Why?` begins, or None."""
    match = re.fullmatch(r"(?::{3,})?\{(quiz|kernel)\}[ \t]*(.*)", line.strip())
    return (match[1], match[2]) if match else None


def _ends(text: str, line: int, one: bool = False) -> tuple[Any, Any]:
    """First and last line of `text of a line .. text of a line`, or of numbers."""
    ends = [end.strip() for end in re.split(r"\s\.\.\s", text)]
    if one and len(ends) == 1:
        ends *= 2
    if len(ends) != 2 or not all(ends):
        raise DirectiveTextError(
            f"{text!r}: give the first and the last line by text that they contain, as "
            "`float sum .. = sum;`",
            line,
        )
    if all(end.isdigit() for end in ends):
        return int(ends[0]), int(ends[1])
    return ends[0], ends[1]
