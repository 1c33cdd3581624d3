"""The notebook that a student gets: what is asked, the kernel in one cell, its check in the next."""

from __future__ import annotations

from typing import Any

from helpers.kernel import ROOT
from helpers.labs.courses import Course
from helpers.labs.rubrics import Lab, Variant
from helpers.notebooks.addresses import repository
from helpers.notebooks.cells import cell, code_cell

Notebook = dict[str, Any]

SETUP = """\
#@title Run this first: on Colab it fetches the book
import importlib.util, os, subprocess, sys

if "COLAB_RELEASE_TAG" in os.environ and not os.path.isdir("{name}"):
    clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", "{tag}", "{url}"]
    done = subprocess.run(clone, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("the book could not be fetched; git says: " + done.stderr.strip())
if os.path.isdir("{name}"):
    sys.path.insert(0, os.path.abspath("{name}"))
if importlib.util.find_spec("helpers") is None:
    raise RuntimeError("the book is not here: git clone {url} into this folder, and install its requirements.txt")

from helpers import labs
from helpers.notebooks import start

start()"""


def handout(lab: Lab, course: Course) -> Notebook:
    """The notebook of a lab for a course: its variant, the starter, no case and no secret.

    Raises DataError where the course chooses a variant that the lab does not have.
    """
    variant, where = course.variant(lab), repository(ROOT)
    tag = course.tag or where.branch
    file = f"{lab.entry}.cu"
    check = (
        f'print(labs.check("{lab.number}", open("{file}", "rb").read(), variant="{variant.name}"))'
    )
    by_hand = [part for part in lab.parts if part.by_hand]
    cells = [
        cell("markdown", _asked(lab, variant), "asked"),
        code_cell(SETUP.format(name=where.name, tag=tag, url=where.url), "setup", ["hide-input"]),
        cell("markdown", _kernel_words(lab, file), "kernel-words"),
        code_cell(f"%%writefile {file}\n{starter(lab, variant)}", "kernel", []),
        cell("markdown", "Check it as often as you like. It takes seconds, and no GPU.", "check-words"),
        code_cell(check, "check", []),
        *(cell("markdown", f"## {part.id.capitalize()}: {part.points} points\n\n{part.words}", part.id) for part in by_hand),
        *(cell("markdown", "Your answer stands here.", f"{part.id}-answer") for part in by_hand),
    ]  # fmt: skip
    return {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def starter(lab: Lab, variant: Variant) -> str:
    """The text that a student begins with, with the parameters that the variant has."""
    if not variant.scaled:
        return lab.starter
    return lab.starter.replace(
        "int M, int N, int K)", "int M, int N, int K,\n     float alpha, float beta)"
    )


def _asked(lab: Lab, variant: Variant) -> str:
    goals = "\n".join(f"- {goal}" for goal in lab.goals)
    rows = "\n".join(
        f"| {part.id} | {part.points} | {'by hand' if part.by_hand else _counted(part.words, part.limit)} |"
        for part in lab.parts
    )
    return (
        f"# Lab {lab.number}: {lab.title}\n\n"
        f"About {lab.hours} hours, {lab.points} points. It builds on the book's pages "
        f"{' and '.join(f'`{page}`' for page in lab.builds_on)}. You learn to\n\n{goals}\n\n"
        f"## What is asked\n\nC = A B in float32, for any M, N and K. {variant.words} C is M x N, row-major. "
        f"A block has {' x '.join(lab.block)} threads; the grid is ({', '.join(lab.grid)}).\n\n"
        f"| part | points | for |\n|---|---|---|\n{rows}\n\n"
        "Your kernel is tried on other shapes and other numbers than here, in two orders of its warps."
    )


def _counted(words: str, limit: float | None) -> str:
    return words if limit is None else f"{words}, at most {limit:g}"


def _kernel_words(lab: Lab, file: str) -> str:
    return (
        f"## Your kernel\n\nThe next cell is your kernel, `{lab.entry}`. Running it writes `{file}`. Keep its first "
        "line: by it your kernel is found. Hand in this notebook, or that file."
    )


__all__ = ["handout", "starter"]
