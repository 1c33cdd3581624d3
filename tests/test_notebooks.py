"""The exporter: what it makes of the subset, what it refuses, and that the notebooks are fresh."""

from __future__ import annotations

import argparse
import ast
import base64
import json
import re
import shutil
import subprocess
import sys
import time
import types
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import nbformat
import pytest

from helpers.ladder.rungs import catalog, find
from helpers.notebook import first_cell as first
from helpers.notebook.addresses import set_repository
from helpers.page.claims import unmarked
from nogpu import toolchain
from nogpu.errors import ConfigError, ExportError, UnknownNameError
from tests.common import ROOT, chapters
from tools import reading
from tools.notebooks import commands, exporting, running, storing, watching
from tools.notebooks.books import check_contents

FRONT = "---\nkernelspec: {name: python3}\n---\n"
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
def book(tmp_path):
    """A small book with a glossary, a bibliography and one other chapter."""
    (tmp_path / "book").mkdir()
    (tmp_path / "_config.yml").write_text(CONFIG)
    (tmp_path / "_toc.yml").write_text(TOC)
    (tmp_path / "book" / "glossary.md").write_text(GLOSSARY)
    (tmp_path / "book" / "references.bib").write_text(BIB)
    other = "(other)=\n# Other\n\n$$\ny = 1\n$$ (eq-far)\n\n(other-deep)=\n## Deep `x`\n\nText.\n"
    (tmp_path / "book" / "02_other.md").write_text(FRONT + other)
    return tmp_path


def cells(book, text):
    """The cells that a chapter with this text gives, less the two that it begins with."""
    (book / "book" / "01_here.md").write_text(FRONT + text, encoding="utf-8")
    made = commands.export(book)[book / "book" / "01_here.ipynb"]
    nbformat.validate(nbformat.reads(commands.text_of(made), as_version=4))
    found: list[dict[str, Any]] = made["cells"][2:]
    return found


def sources(book, text):
    """The text of each of these cells."""
    return ["".join(c["source"]) for c in cells(book, text)]


def code_cell(code, options=""):
    """A code cell, as a chapter has it."""
    return f"```{{code-cell}} ipython3\n{options}{code}\n```\n"


# --- what each construct becomes ---------------------------------------------------------------

PLAIN = (
    "A *b* **c** `d` $e_1$ [f](https://example.org) \\$5.\n\n"
    "1. one\n2. two\n   - three\n\n   ```python\n   x = 1\n   ```\n\n"
    "| a | b |\n|---|---|\n| 1 | $x$ |\n\n> quoted\n\n```cuda\n__syncthreads();\n```"
)
MANY = 'glue("ms", 1.5)\nfor s in (1, 2):\n    glue(f"r_{s}", s)'
LEAVES = "glue(pair=m, n=2)\nglue(f'at_{n}', t)"
KERNEL_CELL = code_cell("%%cuda tiled_32 TILE=16\n// the book's text", ":tags: [hide-output]\n\n")
OWN_BODY = '%%cuda tiled_32\nextern "C" glue("x", 1)\n// rest'

BECOMES: dict[str, tuple[str, list[str]]] = {
    "plain Markdown": (PLAIN, [f"# A\n\n{PLAIN}"]),
    "headings and code": (
        "p\n\n## B\n\nq\n\n" + code_cell("\nx = 1\n\ny = 2") + "\nr",
        ["# A\n\np", "## B\n\nq", "x = 1\n\ny = 2", "r"],
    ),
    "comments": ("<!-- one\ntwo -->\n\nText <!-- three --> here.", ["# A\n\nText  here."]),
    "equations": (
        "$$\nx\n$$ (here)\n\nBy {eq}`here` and {eq}`eq-far`.",
        [f"# A\n\n$$\nx\n\\tag{{1.1}}\n$$\n\nBy (1.1) and [(2.1)]({COLAB}/02_other.ipynb)."],
    ),
    "glued numbers": (
        code_cell(MANY)
        + "\nIt takes {glue:text}`ms:.1f` ms for $x_{i}$, {glue:text}`r_2`.\n\nEnd.",
        ["# A", MANY, 'say(r"""\nIt takes {ms:.1f} ms for $x_{{i}}$, {r_2}.\n""")', "End."],
    ),
    "leaves of glued objects": (
        code_cell(LEAVES) + "\n{glue:text}`pair.block_1d.4096.gflops:.0f` {glue:text}`n` "
        "{glue:text}`at_2.A.load.requests`",
        [
            "# A",
            LEAVES,
            'say(r"""\n{pair.block_1d.4096.gflops:.0f} {n} {at_2.A.load.requests}\n""")',
        ],
    ),
    "a glued heading": (
        code_cell('glue("n", 2)') + "\n## {glue:text}`n` lanes\n\nText.",
        ["# A", 'glue("n", 2)', 'say(r"""\n## {n} lanes\n""")', "Text."],
    ),
    "a listing": (
        ":::{kernel} tiled_32\n:since: coalesced\n:lines: sum = 0 .. = sum;\n:folded:\n"
        ":mark: sum ; for (int k .. +=\n:::",
        [
            "# A",
            "from helpers.page import show_kernel\n\nshow_kernel('tiled_32', since='coalesced', "
            "lines=('sum = 0', '= sum;'), folded=True, "
            "mark=(('sum', 'sum'), ('for (int k', '+=')))",
        ],
    ),
    "a core": (
        code_cell("%%cuda block_1d_core\n// the book's own text"),
        ["# A", f"%%cuda block_1d_core\n{find('block_1d_core').source.rstrip()}"],
    ),
    "a kernel": (
        KERNEL_CELL,
        ["# A", f"%%cuda tiled_32 TILE=16\n{catalog['tiled_32'].source.rstrip()}"],
    ),
    "a kernel with a body": (code_cell(OWN_BODY), ["# A", OWN_BODY]),
    "a kernel's line alone": (code_cell("%%cuda tiled_32"), ["# A", "%%cuda tiled_32"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BECOMES)
def test_what_a_text_becomes(book, name):
    text, wanted = BECOMES[name]
    assert sources(book, f"# A\n\n{text}\n") == wanted


FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}
PICTURE = ':tags: [hide-input]\n:mystnb: {image: {alt: "Bars: two."}}\n'


@pytest.mark.parametrize(
    ("text", "tag", "how"),
    [
        (code_cell("x = 1", ":tags: [hide-input]\n"), "hide-input", FOLDED),
        (code_cell("x = 1", PICTURE), "hide-input", FOLDED),  # its name is the book's alone
        (KERNEL_CELL, "hide-output", {"jupyter": {"outputs_hidden": True}}),
        (BECOMES["a listing"][0], "remove-input", FOLDED),
        (BECOMES["glued numbers"][0].removesuffix("\n\nEnd."), "hide-input", FOLDED),
    ],
    ids=["code", "a picture", "a kernel", "a listing", "a glued number"],
)
def test_what_is_folded(book, text, tag, how):
    *_, made = cells(book, f"# A\n\n{text}\n")
    assert made["metadata"] == {"id": made["id"], "tags": [tag], **how}


def test_admonitions_and_dropdowns(book):
    text = (
        "# A\n\n::::{admonition} Exercise `05.1`\n:class: tip\n\nDo {term}`warp`.\n\n"
        ":::{dropdown} Hint <1>\nLook.\n\n```python\nx\n```\n:::\n::::\n\n:::{note}\nRead.\n:::\n"
    )
    [made] = sources(book, text)
    assert "> **Exercise `05.1`**\n>\n> Do [warp](" in made
    assert "> <details>\n> <summary>Hint &lt;1&gt;</summary>\n>\n> Look." in made
    assert "> ```python\n> x\n> ```\n>\n> </details>" in made
    assert made.endswith("> **Note**\n>\n> Read.")


DEFINITION = "A group of 32 threads, called lanes."


@pytest.mark.parametrize(
    ("role", "made"),
    [
        ("{ref}`other-deep`", f"[Deep x]({COLAB}/02_other.ipynb#scrollTo=DEEP)"),
        ("{ref}`go\non <other-deep>`", f"[go on]({COLAB}/02_other.ipynb#scrollTo=DEEP)"),
        ("{doc}`Other <02_other>`", f"[Other]({COLAB}/02_other.ipynb)"),
        ("{doc}`chapter 2 <02_other>`", f"[chapter 2]({COLAB}/02_other.ipynb)"),
        ("{ref}`glossary`", f"[Glossary]({PAGES}/glossary.html)"),
        ("{term}`warps <warp>`", f'[warps]({PAGES}/glossary.html#term-warp "{DEFINITION}")'),
        ("``{term}`warp` ``", "``{term}`warp` ``"),  # code is text
        ("{term}`bank conflict`",
         f"[bank conflict]({PAGES}/glossary.html#term-Bank-conflict "
         "\"Two lanes that want 'one' bank.\")"),
        ("{cite}`one1999,two2000` {cite}`three2001`",
         "([Doe, 1999](https://doi.org/10.1/abc); [Doe and van der Roe, 2000]"
         f"(https://example.org/x)) ([A et al., 2001]({PAGES}/references.html))"),
    ],
)  # fmt: skip
def test_roles(book, role, made):
    far = commands.export(book)[book / "book" / "02_other.ipynb"]["cells"]
    deep = next(c["id"] for c in far if "Deep" in "".join(c["source"]))
    assert sources(book, f"# A\n\nSee {role}.\n") == [f"# A\n\nSee {made.replace('DEEP', deep)}."]


QUIZ = """\
:::{quiz} What is a {term}`warp` of `a < b` and $k$?
- [ ] One thread, "alone".
  It is {glue:text}`n:d`, not
  one, see {doc}`chapter 2 <02_other>`.
- [x] Its {term}`lanes <warp>`.
  Right.
:::
"""


def test_a_quiz_becomes_a_folded_cell_that_asks_it(book):
    *_, made = cells(book, f"# A\n\n{code_cell('glue(n=32)')}\n{QUIZ}")
    assert made["metadata"] == {"id": made["id"], "tags": ["remove-input"], **FOLDED}
    names: dict[str, Any] = {}
    exec("from helpers.page import glue, say\nglue(n=32)", names)
    *_, last = ast.parse("".join(made["source"])).body
    exec("".join(made["source"]).rpartition("\n\n")[0], names)
    shown = eval(ast.unparse(last), names)
    assert '<a href="https://someone.github.io/a-book/book/glossary.html#term-warp"' in shown.html
    assert "<code>a &lt; b</code> and $k$?" in shown.html and '"alone"' in shown.html
    assert "It is 32, not one, see" in shown.html
    assert re.findall(r"<strong>(Right|Not quite)\.", shown.html) == ["Not quite", "Right"]


MARKED = """\
# A [marked *head*]{holds="ok"}

```{code-cell} ipython3
glue(n=2)
holds(ok=n < 3, glued=n > 1)
```

So [it `x[0]` is]{holds="ok"}, {glue:text}`n` [times {glue:text}`n`]{holds="glued"}.

| a | [b]{holds="ok"} |
|---|---|
| c | d |

:::{quiz} [Why]{holds="ok"}?
- [ ] [One]{holds="ok"}.
  No.
- [x] Two.
  [Yes]{holds="ok"}.
:::
"""


def test_marks_of_claims_are_dropped(book):
    """Brackets and braces go, the words stay, cells keep the ids that they have without."""
    call = "holds(ok=n < 3, glued=n > 1)\n"
    marked, plain = cells(book, MARKED), cells(book, unmarked(MARKED).replace(call, ""))
    sources = ["".join(c["source"]) for c in marked]
    assert sources[0] == "# A marked *head*" and "| a | b |" in sources[3]
    assert sources[2] == 'say(r"""\nSo it `x[0]` is, {n} times {n}.\n""")'
    assert "'Why?'" in sources[4] and "'One.'" in sources[4] and "'Yes.'" in sources[4]
    assert "holds=" not in "".join(sources).replace("holds(", "")
    ids = [[c["id"] for c in made if "glue(" not in c["source"][0]] for made in (marked, plain)]
    assert len(ids[0]) == len(marked) - 1 and ids[0] == ids[1]


IMAGES = {
    "![](figures/x.svg)": "the image `figures/x.svg` without an alt text",
    "![ ](figures/x.svg)": "the image `figures/x.svg` without an alt text",
    "![alt](figures/y.svg)": "the image book/figures/y.svg does not exist",
    "![alt](01_here.md)": "the image `01_here.md` is outside",
    "![alt](https://example.org/x.svg)": "the image book/https://example.org/x.svg does not exist",
    '![alt](figures/x.svg){width="50%"}': "the attribute `width` is outside",
}


def test_an_image_travels_in_the_notebook(book):
    (book / "book" / "figures").mkdir()
    drawn = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
    (book / "book" / "figures" / "x.svg").write_bytes(drawn)
    [made] = sources(book, '# A\n\nSee ![a *b* of `c`](figures/x.svg "Title"), and more.\n')
    data = base64.b64encode(drawn).decode()
    link = f'(data:image/svg+xml;base64,{data} "Title")'
    assert made == f"# A\n\nSee ![a *b* of `c`]{link}, and more."
    for text, complaint in IMAGES.items():
        with pytest.raises(ExportError, match=r"01_here\.md:6: " + re.escape(complaint)):
            cells(book, f"# A\n\n{text}\n")


def test_a_kernel_cell_keeps_its_id_as_the_file_changes(book, monkeypatch):
    _, made = cells(book, f"# A\n\n{KERNEL_CELL}")
    own = catalog["tiled_32"]
    other = own.with_source(own.source + "// more\n")
    monkeypatch.setattr(exporting, "catalog", {"tiled_32": other})
    _, after = cells(book, f"# A\n\n{KERNEL_CELL}")
    assert after["source"][-1] == "// more" and after["id"] == made["id"]


def test_a_page_read_without_ipython_runs_its_kernel_cells(monkeypatch):
    def cell_magic(line, body, names):
        print("ran")
        return f"{line}|{body}|{names['n']}"

    stub = types.SimpleNamespace(cell_magic=cell_magic)
    monkeypatch.setitem(sys.modules, "helpers.page.workbench", stub)
    for code, shown in (
        ("%%cuda tiled_32 TILE=16", "tiled_32 TILE=16||3"),
        ("%%cuda tiled_32\nint x;\n", "tiled_32|int x;\n|3"),
    ):
        assert reading.run_cell(code, {"n": 3}, "page") == ("ran\n", shown)


def test_ids_follow_the_text_alone(book):
    text = "# A\n\np\n\n## B\n\np\n\n## B\n\np\n"
    before = [c["id"] for c in cells(book, text)]
    assert len(set(before)) == len(before)
    assert [c["id"] for c in cells(book, text)] == before
    after = [c["id"] for c in cells(book, "# New\n\nFirst.\n\n" + text)]
    assert after[1:] == before


# --- wrong twins: each construct outside the subset --------------------------------------------

OUTSIDE = {
    "image of another kind": "![alt](references.bib)",
    "class of a span": "[words]{.red}",
    "attribute of a literal": "`x`{.red}",
    "mark without a condition": '[words]{holds="key"}',
    "mark over two lines": '[two\n»lines]{holds="key"}',
    "raw HTML": "<div>x</div>",
    "inline HTML": "a <b>c</b>",
    "footnote": "text[^1]\n\n[^1]: note",
    "unknown role": "{numref}`other`",
    "in a paragraph": "one\n»{numref}`x`",
    "in a box": ":::{note}\n:class: tip\n\none\n»{numref}`x`\n:::",
    "in a list": "- one\n- two\n  »{numref}`x`",
    "in a table": "| a |\n|---|\n| b |\n| »{numref}`x` |",
    "in a dropdown": "::::{note}\none\n\n:::{dropdown} T\ntwo\n\n»![x](y)\n:::\n::::",
    "unknown directive": ":::{figure} x.png\n:::",
    "backtick directive": "```{note}\ntext\n```",
    "fence without language": "```\nx\n```",
    "tail of a cell that was cut": f"{code_cell('x = 1')}\n  < 1)\n»```\n\n{code_cell('y = 2')}",
    "fence in another language": "```rust\nx\n```",
    "indented code": "text\n\n    »code\n",
    "percent comment": "% remark",
    "block break": "+++",
    "rule": "text\n\n»---\n\ntext",
    "local link": "[x](02_other.md)",
    "code cell in a directive": ":::{note}\n»```{code-cell} ipython3\nx\n```\n:::",
    "code cell of another lexer": "```{code-cell} python\nx\n```",
    "unknown cell tag": "```{code-cell} ipython3\n:tags: [skip]\nx\n```",
    "unknown cell option": "```{code-cell} ipython3\n»:name: x\nx\n```",
    "unknown directive option": ":::{note}\n»:width: 3\nx\n:::",
    "note with a title": ":::{note} Title\nx\n:::",
    "admonition without a title": ":::{admonition}\nx\n:::",
    "three deep": ":::::{note}\n::::{tip}\n»:::{tip}\nx\n:::\n::::\n:::::",
    "heading in a directive": ":::{note}\n»## x\n:::",
    "directive in a list": "- a\n\n  »:::{note}\n  x\n  :::",
    "math in a list": "- a\n\n  »$$\n  x\n  $$",
    "unknown label": "{ref}`nowhere`",
    "unknown page": "{doc}`text <99_nowhere>`",
    "page with its title for a text": "{doc}`02_other`",
    "page by another chapter's number": "{doc}`chapter 3 <02_other>`",
    "unknown term": "{term}`nothing`",
    "unknown work": "{cite}`nobody1900`",
    "unknown equation": "{eq}`nothing`",
    "ref without text to no heading": "(spot)=\n»Text {ref}`spot`.",
    "number never glued": "{glue:text}`ms:.1f`",
    "number glued below": '{glue:text}`ms`\n\n```{code-cell} ipython3\nglue("ms", 1)\n```',
    "number glued in a kernel's text": code_cell('%%cuda tiled_32\nglue("x", 1)')
    + "\n»{glue:text}`x`",
    "glued name with an empty part": code_cell("glue(a=m)") + "\n»{glue:text}`a..b`",
    "leaf of another name": code_cell("glue(a=m)") + "\n»{glue:text}`b.ms`",
    "kernel cell of no kernel": KERNEL_CELL.replace("tiled_32", "tiled_23"),
    "quiz in a box": "::::{note}\n»:::{quiz} Why?\n- [ ] a\n  b\n- [x] c\n  d\n:::\n::::",
    "quiz without a right option": ":::{quiz} Why?\n- [ ] a\n  b\n- [ ] c\n  d\n:::",
    "quiz with an image": ":::{quiz} Why?\n- [ ] ![x](y)\n  b\n- [x] c\n  d\n:::",
    "quiz with an unknown term": ":::{quiz} {term}`nothing`?\n- [ ] a\n  b\n- [x] c\n  d\n:::",
    "quiz with a line of neither": ":::{quiz} Why?\n- [ ] a\n  b\n- [x] c\n»d\n:::",
    "listing of no kernel": ":::{kernel} tiled_23\n:::",
    "listing with another option": ":::{kernel} tiled_32\n»:line: a .. b\n:::",
    "listing with an empty option": ":::{kernel} tiled_32\n:folded:\n»:since:\n:::",
    "listing of lines that are not there": ":::{kernel} tiled_32\n:lines: never .. written\n:::",
    "ref by the text of a glued heading": code_cell('glue("ms", 1)')
    + "\n(spot)=\n## {glue:text}`ms`\n\n»{ref}`spot`",
    "substitution": "{sub-ref}`today`",
}
"""Texts; » stands in the line that the error names, where that is not the first."""


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_the_subset_is_an_error_with_its_line(book, name):
    above, mark, below = f"# A\n\nfirst\n\n{OUTSIDE[name]}\n".partition("»")
    line = (FRONT + above).count("\n") + 1 if mark else 8
    with pytest.raises(ExportError, match=rf"^book/01_here\.md:{line}: "):
        cells(book, above + below)


def test_a_label_of_another_page_is_an_error(book):
    with pytest.raises(ExportError, match=r"^book/02_other\.md:4: .*'other'.* in 01_here\.md"):
        cells(book, "# A\n\n(other)=\n## x\n")


# --- outputs, and what is run again ------------------------------------------------------------

Runs = list[str]


@pytest.fixture
def runs(monkeypatch):
    """The notebooks that were run, by name: a stand-in runs them, and each run tells its number."""
    names: Runs = []

    def run(notebook, folder):
        stem = Path(running.source_of(notebook)).stem
        names.append(stem)
        made = running.without_outputs(notebook)
        for (cell,) in running.code_cells(made):
            code = "".join(cell["source"])
            if "1 / 0" in code:
                raise ExportError(f"{stem} fails")
            output = f"ran {code} {names.count(stem) if 'count' in code else ''}\n"
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": [output]}]
        return running.Run(made, {"n": "2", "x": "1"}, ["requirements.txt"], 1)

    monkeypatch.setattr(running, "run", run)
    return names


def chapter(book, stem, text="Text.", code="x = 1", below=""):
    """Write a chapter of one code cell and text above and below; the path of its notebook."""
    page = f"{FRONT}# Title\n\n{text}\n\n{code_cell(code)}\n{below}\n"
    (book / "book" / f"{stem}.md").write_text(page)
    return book / "book" / f"{stem}.ipynb"


def quietly(book, again=()):
    """What `update` writes or removes, by file name."""
    changed = [path.name for path in commands.update(book, again, say=lambda _: None)]
    return [name for name in changed if name != "runs.json"]


def outputs(path):
    """The outputs of a notebook's code cells, the first cell left out, as JSON."""
    cells = running.code_cells(json.loads(path.read_text()))
    return [json.dumps(cell["outputs"]) for (cell,) in cells][1:]


@pytest.fixture
def made(book, runs):
    """The notebook of a chapter that has run, while no run is noted yet."""
    path = chapter(book, "01_here")
    quietly(book)
    runs.clear()
    return path


def test_nothing_is_written_when_one_chapter_cannot_be_exported(book, runs):
    (book / "book" / "01_good.md").write_text(FRONT + "# Good\n")
    (book / "book" / "03_bad.md").write_text(FRONT + "# Bad\n\n<div>\n")
    with pytest.raises(ExportError):
        commands.update(book)
    assert not list((book / "book").glob("*.ipynb")) and runs == []


def test_stale_notebooks_are_found(book, runs):
    assert commands.stale(book) == ["book/02_other.ipynb is missing"]
    quietly(book)
    assert commands.stale(book) == []
    assert quietly(book) == [] and runs == ["02_other"]
    (book / "book" / "02_other.ipynb").write_text("{}")
    (book / "book" / "09_gone.ipynb").write_text("{}")
    assert commands.stale(book) == [
        "book/02_other.ipynb differs from its chapter",
        "book/09_gone.ipynb belongs to no chapter",
    ]
    quietly(book)
    assert commands.stale(book) == []


def test_a_notebook_without_outputs_is_stale(book, runs):
    """Paragraphs with glued numbers and the first cell tell something; other cells need not."""
    path = chapter(book, "01_here", code='glue("n", 2)', below="{glue:text}`n` lanes.")
    made = commands.export(book)
    path.write_text(commands.text_of(made[path]))
    assert "book/01_here.ipynb carries no outputs" in commands.stale(book)
    quietly(book)
    assert commands.stale(book) == []
    for at, fault in ((0, True), (1, False), (2, True)):
        kept = path.read_text()
        bare = json.loads(kept)
        [*running.code_cells(bare)][at][0]["outputs"] = []
        path.write_text(commands.text_of(bare))
        assert bool(commands.stale(book)) is fault
        path.write_text(kept)


def test_what_is_run_again(book, runs):
    path = chapter(book, "01_here")
    assert quietly(book) == ["01_here.ipynb", "02_other.ipynb"]
    assert sorted(runs) == ["01_here", "02_other"]
    before = outputs(path)

    runs.clear()
    chapter(book, "01_here", text="Another text.")
    assert quietly(book) == ["01_here.ipynb"] and runs == []
    assert "Another text." in path.read_text() and outputs(path) == before

    chapter(book, "01_here", text="Another text.", code="x = 2")
    assert quietly(book) == ["01_here.ipynb"] and runs == ["01_here"]
    assert "ran x = 2" in outputs(path)[0]

    assert quietly(book, ("02",)) == [] and runs == ["01_here", "02_other"]
    assert quietly(book, ("",)) == [] and sorted(runs[2:]) == ["01_here", "02_other"]
    with pytest.raises(UnknownNameError, match=r"'03'.*01_here"):
        quietly(book, ("03",))


def test_a_run_that_tells_the_same_leaves_the_file(book, runs):
    """The stand-in tells how often it ran where a cell's text has the word count."""
    path = chapter(book, "01_here", code="count = 1")
    quietly(book)
    assert quietly(book, ("01",)) == ["01_here.ipynb"]
    assert "ran count = 1 2" in outputs(path)[0]
    chapter(book, "01_here", code="start = time.perf_counter()")
    quietly(book)
    text = path.read_text()
    assert quietly(book, ("01",)) == [] and path.read_text() == text


def test_another_first_cell_runs_nothing(book, made, runs, monkeypatch):
    before = outputs(made)
    monkeypatch.setattr(first, "TITLE", "#@title Another one")
    assert quietly(book) == ["01_here.ipynb", "02_other.ipynb"] and runs == []
    assert "Another one" in made.read_text() and outputs(made) == before


def test_what_a_reader_saved_is_not_carried(book, made):
    text = made.read_text()
    saved = json.loads(text)
    for (cell,) in running.code_cells(saved):
        cell["execution_count"] = 7
        cell["outputs"][0]["text"] = ["of another machine"]
    made.write_text(commands.text_of(saved))
    assert commands.stale(book) == ["book/01_here.ipynb differs from its chapter"]
    assert quietly(book) == ["01_here.ipynb"] and made.read_text() == text


def test_a_chapter_that_fails_keeps_its_notebook(book, made):
    before = made.read_text()
    chapter(book, "01_here", code="1 / 0")
    other = chapter(book, "03_more")
    with pytest.raises(ExportError, match="01_here fails"):
        quietly(book)
    assert made.read_text() == before and other.exists()


def test_what_a_page_reads_is_part_of_its_key(book, runs, monkeypatch):
    """A change of an input runs the page again; one elsewhere does not, nor a second command."""
    read = book / "a" / "b.txt"
    read.parent.mkdir()
    read.write_text("1")
    plain = running.run

    def reading(notebook, folder):
        given = plain(notebook, folder)
        of_it = ["a/b.txt"] if "01_here" in running.source_of(notebook) else []
        return running.Run(given.notebook, given.glued, of_it, 1)

    monkeypatch.setattr(running, "run", reading)
    for name in ("tools.notebooks.storing.ROOT", "tools.notebooks.commands.ROOT"):
        monkeypatch.setattr(name, book)
    chapter(book, "01_here")
    commands.outputs_for_book(book, say=lambda _: None)
    assert sorted(runs) == ["01_here", "02_other"]
    assert not list((book / "book").glob("*.ipynb"))  # the book's pages alone are written
    assert quietly(book) == ["01_here.ipynb", "02_other.ipynb"]
    assert len(runs) == 2  # one run for both
    shutil.rmtree(book / "_build")  # as in a fresh clone
    assert quietly(book) == [] and len(runs) == 2
    (book / "a" / "other.txt").write_text("1")
    assert quietly(book) == [] and len(runs) == 2
    read.write_text("2")
    lines: list[str] = []
    changed = [path.name for path in commands.update(book, say=lines.append)]
    assert changed == ["runs.json"] and runs[2:] == ["01_here"]  # told the same
    assert lines[1] == "changed a/b.txt: 01_here"
    assert quietly(book) == [] and len(runs) == 3
    (book / "book" / "runs.json").write_text("{")
    shutil.rmtree(book / "_build")
    assert quietly(book) == [] and len(runs) == 5  # nothing is taken on trust


def test_a_run_without_a_glued_value_is_not_kept(book, runs):
    """The stand-in glues n; the text shows m, too, as if that was lost on its way."""
    shows = "{glue:text}`n` lanes, {glue:text}`m:.0f` warps."
    path = chapter(book, "01_here", code='glue("n", 2)\nglue("m", 3)', below=shows)
    for _ in range(2):
        runs.clear()
        with pytest.raises(ExportError, match=r"shows 'm', which no output.*not kept"):
            commands.outputs_for_book(book, ("01",), say=lambda _: None)
        assert runs[0] == "01_here" and not path.exists()
        assert not (book / "_build" / "runs" / "01_here.json").exists()


def test_what_a_page_reads_is_seen(book):
    """A module, a file and a folder; not what imports list; a process that may read all."""
    code = (
        "from helpers import wording\nfrom helpers.ladder.kernel import ROOT\n"
        '_ = (ROOT / "kernels" / "06_tiled_32.cu").exists(), (ROOT / "CITATION.cff").read_text()\n'
        '_ = list((ROOT / "kernels" / "host").iterdir())\nimport inspect\n'
        "from helpers.draw import work_per_sm\nimport nbformat\n"
        "_ = inspect.getsource(work_per_sm), inspect.getsource(nbformat)"
    )
    path = chapter(book, "01_here", code=code)
    seen = running.run(commands.export(book)[path], path.parent).inputs
    assert {"helpers/wording.py", "CITATION.cff", "kernels/host/"} <= set(seen)
    assert "helpers/" not in seen and "kernels/06_tiled_32.cu" not in seen
    assert "text:helpers/draw/work_per_sm.py" in seen and "text:helpers/wording.py" not in seen
    assert not [name for name in seen if ".venv" in name]
    assert watching.EVERYTHING not in seen
    asks = "import subprocess, sys\n_ = subprocess.run([sys.executable, '-c', ''])"
    chapter(book, "01_here", code=asks)
    seen = running.run(commands.export(book)[path], path.parent).inputs
    assert watching.EVERYTHING in seen and "helpers/wording.py" not in seen


MODULE = '''
"""About."""
import os

WORDS = """one

# two"""  # and why


@shown
def f(x):
    """Shown."""
    # a remark
    return x + 1
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"""About."""', '"""About\n\nall."""', True), ("    # a remark\n", "", True),
        ("\n\n\n@", "\n# why\n@", True), ("one\n\n#", "one\n#", False),
        ("# two", "# three", False), ("# two", "", False), ("x + 1", "x + 2", False),
        ("Shown.", "Seen.", False), ("    return", "  return", False), ("\n@shown", "", False),
    ],
)  # fmt: skip
def test_of_a_module_what_it_does_is_an_input(tmp_path, old, new, same):
    (tmp_path / "helpers").mkdir()
    module = tmp_path / "helpers" / "module.py"

    def keys(text):
        module.write_text(text)
        watching.freeze(tmp_path)
        module.write_text("")  # edited while a page runs
        names = "helpers/module.py", "text:helpers/module.py"
        return [watching.key([], [name], tmp_path) for name in names]

    before, after = keys(MODULE), keys(MODULE.replace(old, new))
    assert (before[0] == after[0]) is same and before[1] != after[1]
    assert watching.key([], ["helpers/module.py"], tmp_path) == after[0]


def test_what_a_process_may_read_is_an_input_of_the_page_that_starts_it(tmp_path):
    """One that compiles a cell, and a tool that is installed: nothing; Python, or what lies in the
    book: everything."""
    log = tmp_path / "log"
    text = f'#include "common/vector.cuh"\n// {time.time_ns()}'  # no cache has it
    compiles = (
        "import helpers.ladder.kernel, nogpu.toolchain; from tilelabs.judging.compiling import door"
        f"\nwith door(): nogpu.toolchain.compile({text!r})"
    )
    by_cache = []
    for starts, all_ in (
        (compiles, False),
        (compiles, False),
        ("apart.run('tilelabs.apart:room', {}, apart.Limits())", True),
        ("subprocess.run([sys.executable, '-c', ''])", True),
        (f"subprocess.run(['true', {str(ROOT / 'kernels')!r}])", True),
        (f"subprocess.run(['true', {str(ROOT / '.venv' / 'lib' / 'nvdisasm')!r}])", False),
    ):
        log.unlink(missing_ok=True)
        code = (
            f"import subprocess, sys; from tools.notebooks import watching; "
            f"watching.watch({str(ROOT)!r}, {str(log)!r}); from tilelabs import apart; {starts}"
        )
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
        seen = watching.inputs(log)
        if starts == compiles:
            by_cache.append(seen)
        assert (watching.EVERYTHING in seen) is all_
        of_it = "packages/labs/tilelabs/apart.py" in seen
        assert of_it is not all_, "what a wider input holds is not named again"
    cold, warm = by_cache
    assert cold == warm and "kernels/common/vector.cuh" in warm


def test_everything_is_an_input_too(tmp_path):
    (tmp_path / "labs" / "a").mkdir(parents=True)
    below, beside = tmp_path / "labs" / "a" / "x", tmp_path / "labs.txt"
    keys = []
    for path, text in ((below, "1"), (below, "2"), (beside, "3"), (below.with_name("y"), "")):
        path.write_text(text)
        watching.freeze(tmp_path)
        keys.append(watching.key([], ["*"], tmp_path))
    assert keys[0] != keys[1] == keys[2] != keys[3]
    (tmp_path / "labs" / ".pytest_cache").mkdir()
    (tmp_path / "labs" / ".pytest_cache" / "README").write_text("")
    watching.freeze(tmp_path)
    assert watching.key([], ["*"], tmp_path) == keys[3], "a cache is no input"


@pytest.mark.slow
@pytest.mark.parametrize("lossy", [False, True])
def test_no_output_is_lost_on_a_slow_machine(book, monkeypatch, lossy):
    """510 glued values, each message arriving late; nbclient as it comes (the wrong twin) drops
    some."""
    from nbclient import NotebookClient

    plain = NotebookClient.process_message

    def late(self, message, cell, index):
        if message["msg_type"] == "display_data":
            time.sleep(0.01)  # 5 s for all: longer than the 4 s that nbclient waits
        return plain(self, message, cell, index)

    monkeypatch.setattr(NotebookClient, "process_message", late)
    if lossy:
        made = NotebookClient.__init__

        def as_it_comes(self, *args, **options):
            for name in ("iopub_timeout", "raise_on_iopub_timeout"):
                del options[name]
            made(self, *args, **options)

        monkeypatch.setattr(NotebookClient, "__init__", as_it_comes)
    code = 'from helpers.page import glue\nglue(**{f"n{i}": i for i in range(510)})'
    path = chapter(book, "01_here", code=code)
    run = running.run(commands.export(book)[path], path.parent)
    assert (len(run.glued) == 510) is not lossy


def streamed(name, text):
    """An output that a cell prints."""
    return {"output_type": "stream", "name": name, "text": text}


def displayed(**forms):
    """An output that a cell shows: text_html="..." for text/html."""
    data = {name.replace("_", "/", 1): text for name, text in forms.items()}
    return {"output_type": "display_data", "data": data, "metadata": {"a": 1}, "transient": {}}


def test_what_a_notebook_keeps_of_an_output():
    """Prints joined, one rich form and the plain text, no counts, nothing for the book alone."""
    both = displayed(text_plain="a figure", text_html="<svg/>\n<p>") | {"execution_count": 3}
    both["output_type"] = "execute_result"
    both["data"]["image/svg+xml"] = "<svg/>"
    glued = displayed(text_plain="1")
    glued["data"] = {"application/papermill.record/text/plain": "1"}
    assert running.kept([streamed("stdout", "a\n"), streamed("stdout", "b"), glued, both]) == [
        {"name": "stdout", "output_type": "stream", "text": ["a\n", "b"]},
        {
            "data": {"text/html": ["<svg/>\n", "<p>"], "text/plain": ["a figure"]},
            "execution_count": None,
            "metadata": {},
            "output_type": "execute_result",
        },
    ]


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        (streamed("stderr", "a warning"), "stderr.*a warning"),
        (displayed(**{"application_vnd.jupyter.widget-view+json": "{}"}), "dead in a notebook"),
        (displayed(text_html=f"<p>{ROOT}/kernels"), "path of this machine"),
        (streamed("stdout", f"{ROOT}/kernels"), "path of this machine"),
    ],
)
def test_what_no_notebook_may_carry(output, complaint):
    with pytest.raises(ValueError, match=complaint):
        running.kept([output])


def test_a_notebook_is_run_in_a_kernel_of_its_own(book):
    """As where there is no GPU, in the chapter's folder, nothing timed; twice the same bytes."""
    code = (
        'import os\nprint(os.path.basename(os.getcwd()), os.environ["CUDA_VISIBLE_DEVICES"] =='
        ' "")\nfrom helpers import device, live\nfrom helpers.record import'
        ' host\nprint(device.current(), host.cpu_loops(512).live)\nlive.tile("tiled_32")'
    )
    path = chapter(book, "01_here", code=code)
    bare = commands.export(book)[path]
    made = running.run(bare, path.parent).notebook
    first, (printed, shown) = (cell["outputs"] for (cell,) in running.code_cells(made))
    assert "Not run here yet" in "".join(first[0]["text"])
    assert printed["text"] == ["book True\n", "None False\n"]
    assert "appear here" in shown["data"]["text/html"][0]
    nbformat.validate(nbformat.reads(commands.text_of(made), as_version=4))
    assert running.without_outputs(made) == bare and running.is_told(made)
    assert commands.text_of(running.run(bare, path.parent).notebook) == commands.text_of(made)


@pytest.mark.parametrize(
    ("contents", "fault"),
    [
        (lambda toc: toc, ""),
        (lambda toc: toc.replace("02_other", "02_others"),
         r"_toc.yml:11: book/02_others.md does not exist. Did you mean 'book/02_other'"),
        (lambda toc: toc.replace("      - file: book/glossary\n", ""), "book/glossary.md is not in _toc.yml"),
        (lambda toc: toc.replace("book/intro", "book/introduction"), "_toc.yml:2: book/introduction.md does not"),
    ],
)  # fmt: skip
def test_the_contents_name_every_page_and_no_other(book, contents, fault):
    for name in ("intro", "01_here"):
        (book / "book" / f"{name}.md").write_text("# A page\n")
    (book / "_toc.yml").write_text(contents(TOC))
    with pytest.raises(ExportError, match=fault) if fault else nullcontext():
        check_contents(book)
    check_contents()


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("1 / 0", r"cell 2 fails .*CellExecutionError(?s:.)*ZeroDivisionError"),
        (
            "from nogpu.errors import DataError\nraise DataError('no such record')",
            r"cell 2 fails [^\n]*\nDataError: no such record$",
        ),
        (
            "import sys\nsys.stderr.write('x')",
            "cell 2, which begins 'import sys', writes to stderr",
        ),
    ],
)
def test_a_run_that_fails_names_chapter_and_cell(book, code, complaint):
    path = chapter(book, "01_here", code=code)
    with pytest.raises(ExportError, match=rf"book/01_here\.md: code {complaint}"):
        running.run(commands.export(book)[path], path.parent)


@pytest.mark.parametrize(
    ("carried", "now", "code", "same"),
    [
        (("text/plain", "1.5 ms"), ("text/plain", "1.5 ms"), "f()", True),
        (("text/plain", "1.5 ms"), ("text/plain", "1.6 ms"), "f()", False),
        (("text/plain", "1.5 ms"), ("text/plain", "16 ms"), "start = time.perf_counter()", True),
        (("text/plain", "1.5 ms"), ("text/plain", "1.5 s"), "start = time.perf_counter()", False),
        (("image/png", "AAAA"), ("image/png", "B"), "f()", True),
        (("image/png", "AAAA"), ("text/plain", "AAAA"), "f()", False),
    ],
)
def test_differences_are_seen_and_clocks_are_not(carried, now, code, same):
    def as_notebook(form, text):
        shown = displayed(**{form.replace("/", "_"): text})
        first = {"cell_type": "code", "source": ["first"], "outputs": []}
        return {"cells": [first, first | {"source": [code], "outputs": [shown]}]}

    found = running.differences(as_notebook(*carried), as_notebook(*now))
    assert found == ([] if same else [f"code cell 2, which begins {code!r}"])


# --- the repository's address ------------------------------------------------------------------


def test_a_fork_rewrites_one_line(book, runs):
    links = "{glue:text}`x`, {term}`warp`, {doc}`another <02_other>`."
    path = chapter(book, "01_here", code='glue("x", 1)', below=links)
    quietly(book)
    runs.clear()
    (book / "CITATION.cff").write_text('repository-code: "https://github.com/someone/a-book"\n')
    changed = commands.move("https://github.com/else/fork.git", book)
    assert "github.com/else/fork" in (book / "CITATION.cff").read_text()
    assert [path.name for path in changed] == ["_config.yml", "01_here.ipynb", "02_other.ipynb"]
    text = (book / "_config.yml").read_text()
    assert text == CONFIG.replace("someone/a-book", "else/fork")
    assert "https://else.github.io/fork" in outputs(path)[1]
    assert "/github/else/fork/blob/main/book/02_other.ipynb" in outputs(path)[1]
    assert commands.stale(book) == [] and runs == []
    assert all("someone" not in path.read_text() for path in (book / "book").glob("*.ipynb"))


def test_a_fork_moves_whole_or_not_at_all(book):
    (book / "book" / "03_bad.md").write_text(FRONT + "# Bad\n\n<div>\n")
    with pytest.raises(ExportError):
        commands.move("https://github.com/else/fork", book)
    (book / "book" / "03_bad.md").unlink()
    with pytest.raises(ExportError, match="make notebooks"):
        commands.move("https://github.com/else/fork", book)
    assert (book / "_config.yml").read_text() == CONFIG
    assert not list((book / "book").glob("*.ipynb"))


@pytest.mark.parametrize(
    "url", ["", "github.com/a/b", "https://gitlab.com/a/b", "https://github.com/a"]
)
def test_an_address_that_colab_cannot_open_is_refused(book, url):
    for moved in (set_repository, commands.move):
        with pytest.raises(ConfigError, match="GitHub"):
            moved(url, book)
    assert (book / "_config.yml").read_text() == CONFIG


def test_a_config_without_repository_is_refused(book):
    (book / "_config.yml").write_text("title: x\n")
    with pytest.raises(ConfigError, match="repository"):
        commands.export(book)
    with pytest.raises(ConfigError, match="url"):
        set_repository("https://github.com/a/b", book)


# --- the project's own notebooks ---------------------------------------------------------------


def with_its_kernel(code):
    """A cell of a chapter; one that is `%%cuda NAME ...` alone with the kernel's file."""
    head, _, body = code.partition("\n")
    if not head.startswith("%%cuda") or not body.startswith("//"):
        return code
    return f"{head}\n{find(head.split()[1]).path.read_text(encoding='utf-8').rstrip()}"


@pytest.mark.parametrize("chapter", chapters(), ids=lambda path: path.stem)
def test_code_cells_are_those_of_the_chapter_and_no_myst_is_left(chapter):
    """Cut out with a regular expression of its own, not by the exporter's parser."""
    pattern = r"^```\{code-cell\} ipython3\n(?::[\w-]+:[^\n]*\n)*\n*(.*?)\n?^```$"
    written = re.findall(pattern, chapter.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    notebook = nbformat.read(chapter.with_suffix(".ipynb"), as_version=4)
    nbformat.validate(notebook)
    code = [c.source for c in notebook.cells if c.cell_type == "code"]
    assert code[0].startswith("#@title Run all")
    made = [with_its_kernel(w.rstrip("\n")) for w in written]
    shown = re.compile(r"from helpers\.page import (quiz|show_kernel)\n\n\1\(")
    kept = [c for c in code[1:] if not c.startswith("say(") and not shown.match(c)]
    assert kept == made
    directives = re.findall(r"(?m)^:::\{(?:quiz|kernel)\}", chapter.read_text(encoding="utf-8"))
    assert sum(bool(shown.match(c)) for c in code) == len(directives)
    assert len({c.id for c in notebook.cells}) == len(notebook.cells)
    assert notebook.metadata.accelerator == "GPU"
    assert notebook.metadata.colab.gpuType == "T4"
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        if cell.cell_type == "markdown" or cell.source.startswith("say("):
            text = re.sub(r"(`+).*?\1", "", re.sub(r"(?s)```.*?```", "", cell.source))
            assert not re.search(r"\{\w[\w:]*\}`|^:::|^\([\w-]+\)=|\$\$ \(", text, re.MULTILINE)


def test_notebooks_stay_small():
    """Whole pages, and still a clone that Colab makes in seconds."""
    sizes = {path.name: path.stat().st_size / 1e6 for path in (ROOT / "book").glob("*.ipynb")}
    assert sum(sizes.values()) < 16 and max(sizes.values()) < 1.5, sizes


@pytest.mark.slow
@pytest.mark.parametrize("chapter", chapters(), ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(chapter):
    """As where there is no GPU: every cell runs, and tells what the committed notebook carries.

    In the book a text may stand above the cell that glues its number; in a notebook it may not.
    """
    path = chapter.with_suffix(".ipynb")
    carried = json.loads(path.read_text(encoding="utf-8"))
    bare = running.without_outputs(carried)
    run = storing.kept(ROOT, path.stem, bare)  # by `RUN=all make book`, of what it reads today
    made = run.notebook if run else running.run(bare, path.parent).notebook
    cells = [cell for (cell,) in running.code_cells(made)]
    assert cells[0]["outputs"][0]["text"] == [running.NOT_YET]
    say_cells = [cell for cell in cells if "".join(cell["source"]).startswith("say(")]
    assert say_cells or "{glue:text}" not in chapter.read_text(encoding="utf-8")
    for cell in say_cells:
        (output,) = cell["outputs"]
        assert "".join(output["data"]["text/markdown"]).strip()
    if not toolchain.available() or toolchain.uses_clang():
        pytest.skip("no NVRTC: the outputs were not compared with those of the book's compiler")
    assert running.differences(carried, made) == [], (
        f"run `python -m helpers notebooks --again {path.stem}` and look at what changed"
    )


# --- the command -------------------------------------------------------------------------------


def test_committed_notebooks_are_fresh(capsys):
    parser = argparse.ArgumentParser()
    commands.configure_notebooks(parser)
    assert commands.run_notebooks(parser.parse_args(["--check"])) == 0, capsys.readouterr()


def test_the_time_that_is_left_follows_the_pace_of_this_machine(tmp_path, monkeypatch):
    """A page took ten times its usual seconds: the others are told so; a failure tells nothing."""
    pages: dict[Path, Any] = {tmp_path / f"{stem}.ipynb": {"cells": []} for stem in "abc"}
    usual = {"a": {"seconds": 30}, "b": {"seconds": 20}, "c": {"seconds": 10}}
    for module, name, made in (
        (commands, "JOBS", 1), (commands, "export", lambda root: pages),
        (commands, "read_book", lambda root: None), (storing, "records", lambda root: usual),
        (storing, "is_of", lambda page, bare: False), (storing, "kept", lambda *page: None),
        (watching, "freeze", lambda root: None),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, made)
    for outcome, after, many, summary in (
        (running.Run({}, {}, [], 300), ["a ran in 300 s; 2 left, about 5 min"], 3, "a, b, c"),
        (running.Run({}, {}, [], 30), ["a ran in 30 s; 2 left, about 30 s"], 2, "3 pages"),
        (ExportError("no"), ["a FAILED; 2 left, about 30 s"], 2, "3 pages"),
    ):
        monkeypatch.setattr(commands, "MANY", many)
        ends = {"a": outcome}
        monkeypatch.setattr(
            commands, "ran", lambda p, *_, ends=ends: ends.get(p.stem, ExportError("no"))
        )
        lines: list[str] = []
        commands.fresh(tmp_path, say=lines.append)
        assert "about 60 s" in lines[0] and lines[1] == f"new or changed code cells: {summary}"
        assert lines[2:3] == after
