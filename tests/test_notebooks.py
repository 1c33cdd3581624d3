"""The exporter: what it makes of the subset, what it refuses, and that the notebooks are fresh."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from helpers import toolchain
from helpers.errors import ConfigError, ExportError
from helpers.notebooks import commands, exporting, starting
from helpers.notebooks.addresses import Repository, set_repository
from helpers.notebooks.books import read_book
from helpers.notebooks.first_cell import setup_cell
from helpers.notebooks.markdown import Page
from helpers.rungs import catalog
from tests import reading
from tests.conftest import ROOT

FRONT = """\
---
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---
"""
CONFIG = """\
title: A book
repository:
  # comment
  url: https://github.com/someone/a-book
  branch: main
html:
  favicon: x.svg
"""
TOC = """\
format: jb-book
root: book/intro
parts:
  - caption: One
    numbered: 1
    chapters:
      - file: book/01_here
  - caption: Two
    numbered: 1
    chapters:
      - file: book/02_other
  - chapters:
      - file: book/glossary
"""
GLOSSARY = """\
(glossary)=
# Glossary

```{glossary}
:sorted:

warp
  A group of 32 threads, called {term}`lanes <lane>`. More follows here.

Bank conflict
  Two lanes that want "one" bank.
```
"""
BIB = """\
@article{one1999, author = {Doe, Jane}, title = {T}, year = {1999}, doi = {10.1/abc}}
@misc{two2000, author = {Doe, Jane and van der Roe, R.}, title = {T}, year = {2000},
  url = {https://example.org/x}}
@misc{three2001, author = {A, B and C, D and E, F}, title = {T}, year = {2001}}
"""
COLAB = "https://colab.research.google.com/github/someone/a-book/blob/main/book"
PAGES = "https://someone.github.io/a-book/book"


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A small book with a glossary, a bibliography and one other chapter."""
    (tmp_path / "book").mkdir()
    (tmp_path / "_config.yml").write_text(CONFIG)
    (tmp_path / "_toc.yml").write_text(TOC)
    (tmp_path / "book" / "glossary.md").write_text(GLOSSARY)
    (tmp_path / "book" / "references.bib").write_text(BIB)
    other = "(other)=\n# Other\n\n$$\ny = 1\n$$ (eq-far)\n\n(other-deep)=\n## Deep `x`\n\nText.\n"
    (tmp_path / "book" / "02_other.md").write_text(FRONT + other)
    return tmp_path


def cells(book: Path, text: str) -> list[dict[str, Any]]:
    """The cells that a chapter with this text gives, less the two that it begins with."""
    (book / "book" / "01_here.md").write_text(FRONT + text, encoding="utf-8")
    made = commands.export(book)[book / "book" / "01_here.ipynb"]
    nbformat.validate(nbformat.reads(made, as_version=4))
    return json.loads(made)["cells"][2:]


def markdown(book: Path, text: str) -> str:
    """The Markdown that a chapter with this text gives, all cells together."""
    return "\n\n".join("".join(c["source"]) for c in cells(book, text))


# --- what each construct becomes ---------------------------------------------------------------


def test_plain_markdown_is_left_alone(book: Path) -> None:
    text = (
        "# Title\n\nA *b* **c** `d` $e_1$ [f](https://example.org) \\$5.\n\n"
        "1. one\n2. two\n   - three\n\n   ```python\n   x = 1\n   ```\n\n"
        "| a | b |\n|---|---|\n| 1 | $x$ |\n\n> quoted\n\n```cuda\n__syncthreads();\n```"
    )
    assert markdown(book, text + "\n") == text


def test_cells_are_cut_at_headings_and_code(book: Path) -> None:
    text = "# A\n\np\n\n## B\n\nq\n\n```{code-cell} ipython3\n:tags: [hide-input]\n\nx = 1\n\ny = 2\n```\n\nr\n"
    made = cells(book, text)
    assert ["".join(c["source"]) for c in made] == ["# A\n\np", "## B\n\nq", "x = 1\n\ny = 2", "r"]
    assert made[2]["metadata"]["tags"] == ["hide-input"]
    assert made[2]["metadata"]["jupyter"] == {"source_hidden": True}
    assert made[2]["outputs"] == []


def test_the_name_of_a_picture_is_the_books_alone(book: Path) -> None:
    option = ':mystnb: {image: {alt: "Bars: two kernels."}}'
    text = f"# A\n\n```{{code-cell}} ipython3\n:tags: [hide-input]\n{option}\nfig = 1\n```\n"
    [_, made] = cells(book, text)
    assert "".join(made["source"]) == "fig = 1"
    assert made["metadata"]["tags"] == ["hide-input"] and "mystnb" not in made["metadata"]


def test_admonitions_and_dropdowns(book: Path) -> None:
    text = (
        "# A\n\n::::{admonition} Exercise `05.1`\n:class: tip\n\nDo {term}`warp`.\n\n"
        ":::{dropdown} Hint <1>\nLook.\n\n```python\nx\n```\n:::\n::::\n\n:::{note}\nRead.\n:::\n"
    )
    made = markdown(book, text)
    assert "> **Exercise `05.1`**\n>\n> Do [warp](" in made
    assert "> <details>\n> <summary>Hint &lt;1&gt;</summary>\n>\n> Look." in made
    assert "> ```python\n> x\n> ```\n>\n> </details>" in made
    assert made.endswith("> **Note**\n>\n> Read.")


def test_roles(book: Path) -> None:
    far = json.loads(commands.export(book)[book / "book" / "02_other.ipynb"])["cells"]
    deep = next(c["id"] for c in far if "Deep" in "".join(c["source"]))
    assert f"[Deep x]({COLAB}/02_other.ipynb#scrollTo={deep})" in markdown(
        book, "# A\n\nSee {ref}`other-deep`.\n"
    )
    assert f"[go on]({COLAB}/02_other.ipynb#scrollTo={deep})" in markdown(
        book, "# A\n\nSee {ref}`go\non <other-deep>`.\n"
    )
    assert f"[Other]({COLAB}/02_other.ipynb)" in markdown(book, "# A\n\n{doc}`Other <02_other>`\n")
    assert f"[chapter 2]({COLAB}/02_other.ipynb)" in markdown(
        book, "# A\n\nSee {doc}`chapter 2 <02_other>`.\n"
    )
    assert f"[Glossary]({PAGES}/glossary.html)" in markdown(book, "# A\n\n{ref}`glossary`\n")
    definition = "A group of 32 threads, called lanes."
    assert f'[warps]({PAGES}/glossary.html#term-warp "{definition}")' in markdown(
        book, "# A\n\nMany {term}`warps <warp>`.\n"
    )
    assert "#term-Bank-conflict \"Two lanes that want 'one' bank.\")" in markdown(
        book, "# A\n\nA {term}`bank conflict`.\n"
    )
    assert markdown(book, "# A\n\n{cite}`one1999,two2000` {cite}`three2001`\n").endswith(
        "([Doe, 1999](https://doi.org/10.1/abc); [Doe and van der Roe, 2000](https://example.org/x))"
        f" ([A et al., 2001]({PAGES}/references.html))"
    )


def test_a_role_inside_code_is_text(book: Path) -> None:
    made = markdown(book, "# A\n\nWrite ``{term}`warp` `` for {term}`warp`.\n")
    assert made.count("``{term}`warp` ``") == 1
    assert made.count("[warp](") == 1


def test_equations_carry_the_books_numbers(book: Path) -> None:
    made = markdown(book, "# A\n\n$$\nx\n$$ (here)\n\nBy {eq}`here` and {eq}`eq-far`.\n")
    assert "$$\nx\n\\tag{1.1}\n$$" in made
    assert f"By (1.1) and [(2.1)]({COLAB}/02_other.ipynb)." in made


def test_glued_paragraphs_become_say_cells(book: Path) -> None:
    text = (
        '# A\n\n```{code-cell} ipython3\nglue("ms", 1.5)\nfor s in (1, 2):\n    glue(f"r_{s}", s)\n'
        "```\n\nIt takes {glue:text}`ms:.1f` ms for $x_{i}$, {glue:text}`r_2`.\n\nEnd.\n"
    )
    made = cells(book, text)
    assert "".join(made[2]["source"]) == (
        'say(r"""\nIt takes {ms:.1f} ms for $x_{{i}}$, {r_2}.\n""")'
    )
    assert made[2]["metadata"]["jupyter"] == {"source_hidden": True}
    assert "".join(made[3]["source"]) == "End."


def test_a_heading_may_be_glued(book: Path) -> None:
    text = '# A\n\n```{code-cell} ipython3\nglue("n", 2)\n```\n\n## {glue:text}`n` lanes\n\nText.\n'
    assert ["".join(c["source"]) for c in cells(book, text)[2:]] == [
        'say(r"""\n## {n} lanes\n""")',
        "Text.",
    ]


KERNEL_CELL = "# A\n\n```{code-cell} ipython3\n:tags: [hide-output]\n\n%%cuda tiled_32 TILE=16\n// the book's text\n```\n"


def test_a_kernel_cell_carries_the_kernels_text(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the magic line, in sight, in the notebook only; the cell keeps its id as the file changes."""
    text = (ROOT / "kernels" / "06_tiled.cu").read_text(encoding="utf-8")
    (_, made) = cells(book, KERNEL_CELL)
    assert "".join(made["source"]) == "%%cuda tiled_32 TILE=16\n" + text.rstrip("\n")
    assert "source_hidden" not in made["metadata"]["jupyter"]
    other = catalog["tiled_32"].with_source(text + "// more\n")
    monkeypatch.setattr(exporting, "catalog", {"tiled_32": other})
    (_, after) = cells(book, KERNEL_CELL)
    assert after["source"][-1] == "// more" and after["id"] == made["id"]


def test_a_kernel_cell_with_a_body_is_left_alone(book: Path) -> None:
    for body in ('%%cuda tiled_32\nextern "C" glue("x", 1)\n// rest', "%%cuda tiled_32 TILE=8"):
        (_, made) = cells(book, f"# A\n\n```{{code-cell}} ipython3\n{body}\n```\n")
        assert "".join(made["source"]) == body
    glues = '# A\n\n```{code-cell} ipython3\n%%cuda tiled_32\nglue("x", 1)\n```\n\n{glue:text}`x`\n'
    with pytest.raises(ExportError, match="no code cell above glues 'x'"):
        cells(book, glues)


def test_a_kernel_cell_of_no_kernel_is_refused(book: Path) -> None:
    with pytest.raises(ExportError, match=r"01_here\.md:\d+: no kernel 'tiled_23'.*'tiled_32'"):
        cells(book, KERNEL_CELL.replace("tiled_32", "tiled_23"))


def test_a_page_read_without_ipython_runs_its_kernel_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    def cell_magic(line: str, body: str, names: dict[str, Any]) -> str:
        print("ran")
        return f"{line}|{body}|{names['n']}"

    stub = types.SimpleNamespace(cell_magic=cell_magic)
    monkeypatch.setitem(sys.modules, "helpers.workbench", stub)
    for code, shown in (
        ("%%cuda tiled_32 TILE=16", "tiled_32 TILE=16||3"),
        ("%%cuda tiled_32\nint x;\n", "tiled_32|int x;\n|3"),
    ):
        assert reading.run_cell(code, {"n": 3}, "page") == ("ran\n", shown)


def test_comments_are_dropped(book: Path) -> None:
    made = markdown(book, "# A\n\n<!-- one\ntwo -->\n\nText <!-- three --> here.\n")
    assert made == "# A\n\nText  here."


def test_ids_follow_the_text_alone(book: Path) -> None:
    text = "# A\n\np\n\n## B\n\np\n\n## B\n\np\n"
    before = [c["id"] for c in cells(book, text)]
    assert len(set(before)) == len(before)
    assert [c["id"] for c in cells(book, text)] == before
    after = [c["id"] for c in cells(book, "# New\n\nFirst.\n\n" + text)]
    assert after[1:] == before


# --- wrong twins: each construct outside the subset --------------------------------------------

OUTSIDE = {
    "image": "![alt](figures/x.svg)",
    "raw HTML": "<div>x</div>",
    "inline HTML": "a <b>c</b>",
    "footnote": "text[^1]\n\n[^1]: note",
    "unknown role": "{numref}`other`",
    "unknown directive": ":::{figure} x.png\n:::",
    "backtick directive": "```{note}\ntext\n```",
    "fence without language": "```\nx\n```",
    "fence in another language": "```rust\nx\n```",
    "indented code": "text\n\n    code\n",
    "percent comment": "% remark",
    "block break": "+++",
    "rule": "text\n\n---\n\ntext",
    "local link": "[x](02_other.md)",
    "code cell in a directive": ":::{note}\n```{code-cell} ipython3\nx\n```\n:::",
    "code cell of another lexer": "```{code-cell} python\nx\n```",
    "unknown cell tag": "```{code-cell} ipython3\n:tags: [skip]\nx\n```",
    "unknown cell option": "```{code-cell} ipython3\n:name: x\nx\n```",
    "unknown directive option": ":::{note}\n:width: 3\nx\n:::",
    "note with a title": ":::{note} Title\nx\n:::",
    "admonition without a title": ":::{admonition}\nx\n:::",
    "three deep": ":::::{note}\n::::{tip}\n:::{tip}\nx\n:::\n::::\n:::::",
    "heading in a directive": ":::{note}\n## x\n:::",
    "directive in a list": "- a\n\n  :::{note}\n  x\n  :::",
    "math in a list": "- a\n\n  $$\n  x\n  $$",
    "unknown label": "{ref}`nowhere`",
    "unknown page": "{doc}`text <99_nowhere>`",
    "page with its title for a text": "{doc}`02_other`",
    "page by another chapter's number": "{doc}`chapter 3 <02_other>`",
    "unknown term": "{term}`nothing`",
    "unknown work": "{cite}`nobody1900`",
    "unknown equation": "{eq}`nothing`",
    "ref without text to no heading": "(spot)=\nText {ref}`spot`.",
    "number never glued": "{glue:text}`ms:.1f`",
    "number glued below": '{glue:text}`ms`\n\n```{code-cell} ipython3\nglue("ms", 1)\n```',
    "glued name with a dot": '```{code-cell} ipython3\nglue("a.b", 1)\n```\n\n{glue:text}`a.b`',
    "ref by the text of a glued heading": (
        '```{code-cell} ipython3\nglue("ms", 1)\n```\n\n(spot)=\n## {glue:text}`ms`\n\n{ref}`spot`'
    ),
    "repeated label": "(other)=\n## x",
    "substitution": "{sub-ref}`today`",
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_the_subset_is_an_error(book: Path, name: str) -> None:
    text = "# A\n\nfirst\n\n" + OUTSIDE[name] + "\n"
    with pytest.raises(ExportError, match=r"^book/0\d_\w+\.md:\d+: "):
        cells(book, text)
    assert not list((book / "book").glob("*.ipynb"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# A\n\none\n{numref}`x`\n", 4),
        ("# A\n\n:::{note}\n:class: tip\n\none\n{numref}`x`\n:::\n", 7),
        ("# A\n\n- one\n- two\n  {numref}`x`\n", 5),
        ("# A\n\n| a |\n|---|\n| b |\n| {numref}`x` |\n", 6),
        ("# A\n\n::::{note}\none\n\n:::{dropdown} T\ntwo\n\n![x](y)\n:::\n::::\n", 9),
        ("# A\n\n```{code-cell} ipython3\n:tags: [a]\nx\n```\n", 3),
    ],
)
def test_errors_name_the_line(book: Path, text: str, line: int) -> None:
    with pytest.raises(ExportError, match=rf"01_here\.md:{line + FRONT.count(chr(10))}: "):
        cells(book, text)


def test_nothing_is_written_when_one_chapter_fails(book: Path) -> None:
    (book / "book" / "01_good.md").write_text(FRONT + "# Good\n")
    (book / "book" / "03_bad.md").write_text(FRONT + "# Bad\n\n<div>\n")
    with pytest.raises(ExportError):
        commands.update(book)
    assert not list((book / "book").glob("*.ipynb"))


def test_stale_notebooks_are_found(book: Path) -> None:
    assert commands.stale(book) == ["book/02_other.ipynb is missing"]
    commands.update(book)
    assert commands.stale(book) == []
    assert commands.update(book) == []
    (book / "book" / "02_other.ipynb").write_text("{}")
    (book / "book" / "09_gone.ipynb").write_text("{}")
    assert commands.stale(book) == [
        "book/02_other.ipynb differs from its chapter",
        "book/09_gone.ipynb belongs to no chapter",
    ]
    commands.update(book)
    assert commands.stale(book) == []


# --- the repository's address ------------------------------------------------------------------


def test_a_fork_rewrites_one_line(book: Path) -> None:
    changed = commands.move("https://github.com/else/fork.git", book)
    assert [path.name for path in changed] == ["_config.yml", "02_other.ipynb"]
    text = (book / "_config.yml").read_text()
    assert text == CONFIG.replace("someone/a-book", "else/fork")
    assert "github.com/else/fork" in changed[1].read_text()


def test_a_fork_moves_whole_or_not_at_all(book: Path) -> None:
    (book / "book" / "03_bad.md").write_text(FRONT + "# Bad\n\n<div>\n")
    with pytest.raises(ExportError):
        commands.move("https://github.com/else/fork", book)
    assert (book / "_config.yml").read_text() == CONFIG
    assert not list((book / "book").glob("*.ipynb"))


@pytest.mark.parametrize(
    "url", ["", "github.com/a/b", "https://gitlab.com/a/b", "https://github.com/a"]
)
def test_an_address_that_colab_cannot_open_is_refused(book: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="GitHub"):
        set_repository(url, book)
    assert (book / "_config.yml").read_text() == CONFIG


def test_a_config_without_repository_is_refused(book: Path) -> None:
    (book / "_config.yml").write_text("title: x\n")
    with pytest.raises(ConfigError, match="repository"):
        commands.export(book)
    with pytest.raises(ConfigError, match="url"):
        set_repository("https://github.com/a/b", book)


# --- the project's own notebooks ---------------------------------------------------------------


def chapters() -> list[Path]:
    """The chapters of this book."""
    pages = read_book().pages.values()
    return [ROOT / page.path for page in pages if page.is_chapter]


def test_committed_notebooks_are_fresh() -> None:
    assert commands.stale() == [], "run `make notebooks`"


def with_its_kernel(code: str) -> str:
    """A cell of a chapter; one that is `%%cuda NAME ...` alone with the text of the kernel's file."""
    head, _, body = code.partition("\n")
    if not head.startswith("%%cuda") or not body.startswith("//"):
        return code
    return f"{head}\n{catalog[head.split()[1]].path.read_text(encoding='utf-8').rstrip()}"


@pytest.mark.parametrize("chapter", chapters(), ids=lambda path: path.stem)
def test_code_cells_are_those_of_the_chapter(chapter: Path) -> None:
    """Cut out with a regular expression of its own, not by the exporter's parser."""
    pattern = r"^```\{code-cell\} ipython3\n(?::[\w-]+:[^\n]*\n)*\n*(.*?)\n?^```$"
    written = re.findall(pattern, chapter.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    notebook = nbformat.read(chapter.with_suffix(".ipynb"), as_version=4)
    nbformat.validate(notebook)
    code = [c.source for c in notebook.cells if c.cell_type == "code"]
    assert code[0].startswith("#@title Run all")
    made = [with_its_kernel(w.rstrip("\n")) for w in written]
    assert [c for c in code[1:] if not c.startswith("say(")] == made
    assert len({c.id for c in notebook.cells}) == len(notebook.cells)
    assert not any(c.get("outputs") for c in notebook.cells)
    assert notebook.metadata.accelerator == "GPU"
    assert notebook.metadata.colab.gpuType == "T4"
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("chapter", chapters(), ids=lambda path: path.stem)
def test_no_myst_is_left_in_a_notebook(chapter: Path) -> None:
    notebook = nbformat.read(chapter.with_suffix(".ipynb"), as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown" or cell.source.startswith("say("):
            text = re.sub(r"(`+).*?\1", "", re.sub(r"(?s)```.*?```", "", cell.source))
            assert not re.search(r"\{\w[\w:]*\}`|^:::|^\([\w-]+\)=|\$\$ \(", text, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("chapter", chapters(), ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(chapter: Path) -> None:
    """As in JupyterLab with no GPU: every cell runs, and the glued paragraphs show their numbers.

    In the book a text may stand above the cell that glues its number; in a notebook it may not.
    """
    path = chapter.with_suffix(".ipynb")
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=where).execute()
    said = [cell for cell in notebook.cells if cell.source.startswith("say(")]
    assert said or "{glue:text}" not in chapter.read_text(encoding="utf-8")
    for cell in said:
        (output,) = cell.outputs
        assert output["data"]["text/markdown"].strip()
    streams = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [output.text for output in streams if output.get("name") == "stderr"] == []
    first = notebook.cells[1].outputs[0]["text"]
    assert "GPU" in first


# --- the first cell ----------------------------------------------------------------------------


def first_cell() -> str:
    """The code that every notebook begins with."""
    where = Repository("https://github.com/someone/a-book", "main")
    return "".join(setup_cell(where, Page(Path("x.md"), ""))["source"])


def test_the_first_cell_clones_on_colab_only(tmp_path: Path) -> None:
    """A stand-in for git makes the folders that a clone would make."""
    tools = tmp_path / "tools"
    tools.mkdir()
    fake = tools / "git"
    fake.write_text(
        '#!/bin/sh\necho "$@" >> calls\nmkdir -p a-book/book a-book/helpers\n'
        "echo 'def start(): print(\"started\")' > a-book/helpers/notebooks.py\n"
        "echo 'say = print' > a-book/helpers/pages.py\n"
    )
    fake.chmod(0o755)
    work = tmp_path / "content"
    work.mkdir()
    code = f"for _ in range(2):\n    exec({first_cell()!r})\nprint(os.path.basename(os.getcwd()))"
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "COLAB_RELEASE_TAG": "release-x"}
    # -I: the project that runs this test must not be the one that the cell finds
    command = [sys.executable, "-I", "-S", "-c", code]
    ran = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    assert ran.stdout.split() == ["started", "started", "book"], ran.stderr
    assert (work / "calls").read_text().splitlines() == [
        "clone --quiet --depth 1 --branch main https://github.com/someone/a-book"
    ]


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that `start` would have run."""
    ran: list[list[str]] = []
    monkeypatch.setattr(starting.subprocess, "run", lambda command, **_: ran.append(command))
    return ran


def test_nothing_is_installed_where_nvrtc_is(
    installs: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release-x")
    monkeypatch.setattr(toolchain, "available", lambda: True)
    starting.start()
    assert installs == []
    assert "GPU" in capsys.readouterr().out


def test_only_the_compiler_is_installed_where_it_lacks(
    installs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "available", lambda: False)
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    starting.start()
    assert installs == []
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release-x")
    starting.start()
    (command,) = installs
    names = {re.split(r"[<>=]", part)[0] for part in command[5:]}
    assert "nvidia-cuda-nvrtc" in names
    assert all(name.startswith(("nvidia-cuda-", "cuda-pathfinder")) for name in names)


# --- the command -------------------------------------------------------------------------------


def test_the_command_checks(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    commands.configure(parser)
    assert commands.run(parser.parse_args(["--check"])) == 0
