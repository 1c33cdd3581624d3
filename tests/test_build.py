"""`make book` on a small book: what is executed again, and what fails."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.common import ROOT, completed

pytestmark = pytest.mark.slow

CHAPTER = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# {title}

```{{code-cell}} ipython3
{code}
```
"""
TOC = "format: jb-book\nroot: book/intro\nchapters:\n  - file: book/01_one\n"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A copy of the project with two chapters of one line, sharing this environment."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "book").mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.txt", "_config.yml"):
        shutil.copy2(ROOT / name, folder / name)
    for name in (
        "helpers", "packages", "tools", "requirements", "book/_static", "book/_templates",
        "book/_ext",
    ):  # fmt: skip
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
        )
    for name in ("kernels", "data"):
        (folder / name).mkdir()
        (folder / name / "a").write_text("1")
    (folder / "book" / "references.bib").write_text("")
    (folder / "_toc.yml").write_text(TOC)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    return folder


def make_book(folder, goal="book", **more):
    """Exit status of `make book`, the chapters that it executed, and all it printed."""
    # -o: the environment is there; whatever the stamps say, this test installs nothing.
    command = ["make", "-o", ".venv/.book", goal]
    environment = os.environ | more | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = completed(command, cwd=folder, env=environment)
    printed = ran.stdout + ran.stderr
    return ran.returncode, set(re.findall(r"(\w+) (?:ran in|FAILED)", printed)), printed


def write(folder, stem, code, title="Title"):
    """Write one chapter."""
    (folder / "book" / f"{stem}.md").write_text(CHAPTER.format(title=title, code=code))


def test_what_is_executed_again(small):
    index = small / "_build" / "html" / "index.html"
    write(small, "intro", "1 + 1")
    write(small, "01_one", "2 + 2")
    status, executed, printed = make_book(small)
    assert status == 0, printed[-3000:]
    assert executed == {"intro", "01_one"}
    assert f"The book is at {index}" in printed
    assert not list((small / "book").glob("*.ipynb"))  # nothing runs twice: `make notebooks` does

    assert make_book(small)[:2] == (0, set())

    write(small, "01_one", "3 + 3")
    assert make_book(small)[:2] == (0, {"01_one"})

    write(small, "01_one", "3 + 3", title="Another title")
    assert make_book(small)[:2] == (0, set())
    assert "Another title" in (small / "_build/html/book/01_one.html").read_text()

    write(small, "01_one", 'print(open("../kernels/a").read())')
    assert make_book(small)[:2] == (0, {"01_one"})
    (small / "kernels" / "a").write_text("a word of the file")
    assert make_book(small)[:2] == (0, {"01_one"})  # it alone reads that
    assert "a word of the file" in (small / "_build/html/book/01_one.html").read_text()
    own = ("helpers/notebook/starting.py", "packages/nogpu/nogpu/errors.py", "requirements.txt")
    for name in own:
        with (small / name).open("a") as file:
            file.write("\nADDED = 1\n" if name.endswith(".py") else "\n")
        assert make_book(small)[:2] == (0, {"intro", "01_one"}), name
    for name in ("kernels/b", "data/measurements/new.json"):
        (small / name).parent.mkdir(exist_ok=True)
        (small / name).write_text("1")
        assert make_book(small)[:2] == (0, {"intro", "01_one"} if "data" in name else set()), name
    assert make_book(small, RUN="all")[:2] == (0, {"intro", "01_one"})
    assert make_book(small, RUN="01")[:2] == (0, {"01_one"})


def shown(folder):
    """What stands on the page 01_one."""
    page = (folder / "_build/html/book/01_one.html").read_text()
    return page[page.index("<section") : page.index("</section>")]


def test_a_fresh_clone_runs_nothing(small):
    """The notebooks carry the book's outputs; one that does not fit its page is not used."""
    write(small, "intro", "1 + 1")
    write(small, "01_one", 'from helpers.page import glue\nglue("n", 42)\nprint("told")')
    with (small / "book" / "01_one.md").open("a") as page:
        page.write("\n{glue:text}`n:.1f` lanes.\n")
    assert make_book(small)[0] == 0
    once = shown(small)
    assert ">42.0</span> lanes" in once and "told" in once
    status, executed, printed = make_book(small, goal="notebooks")
    assert (status, executed) == (0, set()), printed  # one run makes both
    shutil.rmtree(small / "_build")
    assert make_book(small)[:2] == (0, set())
    assert shown(small) == once
    shutil.rmtree(small / "_build")
    notebook = small / "book" / "01_one.ipynb"
    carried = notebook.read_text().replace('"told\\n"', '"said\\n"')
    notebook.write_text(carried)
    assert make_book(small)[:2] == (0, set())
    assert "said\n" in shown(small)  # what it carries is shown: a test compares that with a run
    notebook.unlink()
    assert make_book(small)[:2] == (0, {"01_one"})  # nothing carries its outputs now
    assert make_book(small)[:2] == (0, set())  # this folder keeps that run
    for path in (small / "book").glob("*.ipynb"):
        path.unlink()
    (small / "book" / "runs.json").unlink()


def test_a_faulty_chapter_fails_each_time(small):
    write(small, "intro", "1 + 1")
    write(small, "01_one", "1 / 0")
    for _ in range(2):
        status, _, printed = make_book(small)
        assert status != 0 and "ZeroDivisionError" in printed
        assert not (small / "_build" / "html" / "index.html").exists()
    write(small, "01_one", "4 + 4")
    assert make_book(small)[0] == 0


def test_an_older_python_is_named(tmp_path):
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "requirements.txt"):
        shutil.copy2(ROOT / name, tmp_path / name)
    for python in (str(old), "no-such-python"):
        ran = completed(["make", f"PYTHON={python}", "book"], cwd=tmp_path)
        assert ran.returncode != 0
        assert "Python 3.11 or newer is needed" in ran.stderr
        assert not (tmp_path / ".venv").exists()


def test_continuous_integration_runs_the_three_in_order():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text(encoding="utf-8")
    assert re.findall(r"(?m)^(?:RUN=all )?make (\w+)$", text) == ["lint", "book", "test"]
    assert "RUN=all make book" in text  # no output on trust
