"""The notebook that a student gets: what is asked, the kernel in a cell, its check in the next."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from helpers.ladder.kernel import ROOT
from helpers.notebook.addresses import repository
from helpers.notebook.cells import cell, code_cell
from helpers.wording import number
from nogpu.errors import ToolchainError
from tilelabs.labs import checking
from tilelabs.labs.courses import Course
from tilelabs.labs.declaring import Declaration
from tilelabs.labs.first_cell import setup
from tilelabs.labs.rubrics import Lab, Rubric, Variant
from tilelabs.labs.working import UNANSWERED

Notebook = dict[str, Any]
TURNED = (
    " A finding names an element as it is stored: `C[0, 32]` of a C that lies by columns is row "
    "32, column 0."
)


def handout(lab: Lab, course: Course, opens: str = "") -> Notebook:
    """The notebook of a lab for a course: its variant, the starter, no case and no secret.

    opens: an address at which Colab opens it, where the teacher keeps it in a repository. Raises
    DataError where the course chooses a variant that the lab does not have.
    """
    variant, where = course.variant(lab), repository(ROOT)
    what = Declaration(lab.number, lab.version, variant.name, course.tag or where.branch)
    by_hand = [part for part in lab.parts if part.by_hand]
    cells = [
        cell("markdown", _question_text(lab, variant, opens), "asked"),
        code_cell(setup(where, what), "setup", ["hide-input"]),
        *(cell("markdown", _table(part), part.id) for part in lab.parts if part.table),
        cell("markdown", _kernel_words(lab), "kernel-words"),
        code_cell(f"%%cuda {lab.entry}\n{lab.starter(variant)}", "kernel", []),
        *([cell("markdown", _hints(lab), "hints")] if lab.hints else []),
        *(one for part in by_hand for one in _question(lab, part)),
        cell("markdown", _hand_in_words(lab), "hand-in-words"),
        code_cell(f'submit("{lab.number}")', "hand-in", []),
    ]  # fmt: skip
    return {"cells": cells, "metadata": what.metadata(), "nbformat": 4, "nbformat_minor": 5}


def _question(lab: Lab, part: Rubric) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a person marks, and the cell for the answer."""
    words = (
        f"## {part.id.capitalize()}: {part.points} points\n\n{part.words}\n\n"
        "Write below the first line of the next cell, and run it: it shows your answer. Markdown "
        "and `$math$` work."
    )
    answer = f"%%answer {lab.entry} {part.id}\n{UNANSWERED}"
    return cell("markdown", words, part.id), code_cell(answer, f"{part.id}-answer", [])


def _table(part: Rubric) -> str:
    """What is asked of the table in a comment of the source."""
    return f"## {part.id.capitalize()}: {part.points} points\n\n{part.ask}"


def _question_text(lab: Lab, variant: Variant, opens: str) -> str:
    spec = lab.specification(variant)
    goals = "\n".join(f"- {goal}" for goal in lab.goals)
    rows = "\n".join(f"| {part.id} | {part.points} | {_for(part)} |" for part in lab.parts)
    button = f"[Open in Colab]({opens})\n\n" if opens else ""
    return (
        f"# Lab {lab.number}: {lab.title}\n\n{button}About {lab.hours} hours, {lab.points} "
        "points. It builds on the book's pages "
        f"{_listed([f'`{page}`' for page in lab.builds_on])}. You learn to\n\n{goals}\n\n"
        f"## What is asked\n\n{lab.task} {variant.words} {_launch(lab, variant)}\n\n"
        f"| part | points | for |\n|---|---|---|\n{rows}\n\n"
        f"Counts are totals of a launch for each 32 of its {lab.each}. There are `{spec.work}` of "
        f"them, with {_listed(list(spec.tile))} rounded up to multiples of "
        f"{_listed([str(n) for n in spec.tile.values()])}. Sectors and requests are those of loads "
        f"and stores.{_read(lab, variant)}\n\n"
        "`right` and, if nothing is found, `clean` are worth the share of all shapes that come "
        "out right, rounded down. Work counts once the two shapes are right "
        "in which it is counted, and each other shape that is wrong takes a part of its points. "
        "Between a limit and the count from which on there are no points they fall in proportion. "
        "Where something is found, every part is worth seven tenths. Your "
        "kernel is tried on other shapes and other numbers than here, in two orders of its "
        f"warps.{TURNED if variant.transposed else ''}"
    )


def _read(lab: Lab, variant: Variant) -> str:
    """How a count is read, by the dearest that has a scale: the starter's, the limit, and half."""
    part = max(lab.parts, key=lambda p: p.points * (p.zero is not None))
    if part.limit is None or part.zero is None:
        return ""
    starter = ""
    with suppress(ToolchainError):  # nothing here can count: the rest holds all the same
        got = checking.starter_count(lab, variant, part)
        starter = " The starter is not right yet, so it has no count."
        starter = starter if got is None else f" The starter stands at {number(got)}."
    return (
        f"\n\nHow is a count read? Take `{part.id}`: {part.words}.{starter} The limit is "
        f"{number(part.limit)}: up to there a kernel has all {part.points} points, at "
        f"{number((part.limit + part.zero) / 2)} half of them, from {number(part.zero)} on none. "
        "Each check says where yours stands."
    )


def _listed(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _launch(lab: Lab, variant: Variant) -> str:
    """How the kernel is launched, and which constants of the student's decide it."""
    spec = lab.specification(variant)
    sizes = ", ".join(f"`{name}` ({low} to {most})" for name, low, most in spec.constants)
    yours = (
        f" You choose {sizes}: your source sets each to a plain number, as in `const int "
        f"{spec.constants[0][0]} = {spec.constants[0][1]};`."
        if sizes
        else ""
    )
    if spec.host:
        return "`%%cuda` holds your kernels and this host function; how it launches them is yours."
    return (
        f"A block has `{' x '.join(spec.block).replace('//', '/')}` threads; the grid is"
        f" `({', '.join(spec.grid)})`.{yours}"
    )


def _for(part: Rubric) -> str:
    if part.by_hand:
        return "by hand"
    after = f", of its share of `{part.after}`" if part.after else ""
    return f"{part.words}, {part.bound}{after}" if part.bound else part.words


def _hints(lab: Lab) -> str:
    """Each folded by itself: a student opens one and tries again."""
    folded = (
        f"<details><summary>Hint {n} of {len(lab.hints)}</summary>\n\n{hint}\n\n</details>"
        for n, hint in enumerate(lab.hints, 1)
    )
    return "\n\n".join(folded)


def _kernel_words(lab: Lab) -> str:
    return (
        f"## Your kernel\n\nThe next cell is your kernel, `{lab.entry}`. Keep its first line: by "
        f"it your kernel is found. Running the cell keeps it as `{lab.entry}.cu` beside this "
        "notebook, and checks it; do that as often as you like. It takes seconds, and no GPU. It "
        f'stops at the first wrong shape; `check("{lab.number}", every_shape=True)` in any cell '
        "tries all."
    )


def _hand_in_words(lab: Lab) -> str:
    return (
        "## Hand in\n\nRun the cells of your kernel and of your answers, then the next one. It "
        f"writes `{lab.entry}_submission.ipynb`, the one file to hand in: your kernel, your "
        "answers and the version of the lab, and nothing about you or your machine."
    )
