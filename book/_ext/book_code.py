"""Sphinx extension: CUDA coloured wherever it stands, and the text of a kernel below its `%%cuda
NAME`.

In Python, a string that holds CUDA is coloured as CUDA; so is what stands below a line `%%cuda
...`. A cell that holds that line alone is run on the book's own text of the kernel: the page shows
this text, a core's whole, a longer file behind its name.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers import CudaLexer, PythonLexer, get_lexer_by_name
from pygments.token import Comment, Text, Token
from sphinx.transforms import SphinxTransform

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # helpers stands beside book/

from helpers.ladder.rungs import catalog, cores
from helpers.notebook.cells import kernel_of

CUDA = re.compile(
    r"__global__|__device__|__shared__|__syncthreads|\b(?:thread|block)Idx\.|#pragma"
    r" unroll|^#define ",
    re.MULTILINE,
)
"""What is in CUDA source, and in no other text of the book."""
QUOTES = ('"""', "'''", '"', "'")
LONGEST = 45
"""Lines of a file, other than a core's, that a cell shows at once."""

Tokens = Iterator[tuple[int, Any, str]]


def of_cuda(at: int, text: str) -> Tokens:
    """Tokens of CUDA source, or of a piece of it, that stands at a place of a longer text."""
    for index, kind, value in CudaLexer().get_tokens_unprocessed(text):
        yield at + index, Text if kind is Token.Error else kind, value


def recoloured(tokens: Tokens) -> Tokens:
    """Tokens of Python in which the insides of strings that hold CUDA are tokens of CUDA."""
    literal: list[tuple[int, Any, str]] = []
    quote = ""
    for at, kind, value in tokens:
        string = kind in Token.Literal.String
        if literal:
            literal.append((at, kind, value))
            if string and value == quote:
                yield from _inside(literal)
                literal, quote = [], ""
        elif string and value in QUOTES:
            literal, quote = [(at, kind, value)], value
        elif string and value[:3] in QUOTES[:2] and value[-3:] == value[:3] and len(value) > 5:
            cut = (
                (at, kind, value[:3]),
                (at + 3, kind, value[3:-3]),
                (at + len(value) - 3, kind, value[-3:]),
            )
            yield from _inside(list(cut))
        else:
            yield at, kind, value
    yield from literal


def _inside(literal: list[tuple[int, Any, str]]) -> Tokens:
    """A whole string, from quote to quote."""
    first, *inner, last = literal
    if not CUDA.search("".join(value for _, _, value in inner)):
        yield from literal
        return
    yield first
    run, start = "", 0
    for at, kind, value in inner:
        if kind in Token.Literal.String and kind is not Token.Literal.String.Interpol:
            start, run = (start, run + value) if run else (at, value)
            continue
        yield from of_cuda(start, run)
        run = ""
        yield at, kind, value
    yield from of_cuda(start, run)
    yield last


class PythonWithCuda(PythonLexer):
    """Python of a code cell, IPython's magics included, with CUDA coloured in it."""

    name = "Python with CUDA"
    base = "ipython3"

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"stripnl": False, **options})

    def get_tokens_unprocessed(self, text: str, stack: Any = ("root",)) -> Tokens:
        """See pygments.lexer.Lexer."""
        if text.startswith("%%cuda"):
            line, end, below = text.partition("\n")
            yield 0, Comment.Preproc, line
            yield len(line), Text, end
            yield from of_cuda(len(line) + len(end), below)
            return
        yield from recoloured(get_lexer_by_name(self.base).get_tokens_unprocessed(text))


class FencedPythonWithCuda(PythonWithCuda):
    """The same in a block of a solution, where there are no magics."""

    base = "python"


class KernelsText(SphinxTransform):
    """Below a line `%%cuda NAME` with no code of its own: the text of the kernel's file.

    A core stands there whole, as does any file of at most LONGEST lines; a longer one is folded.
    """

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        """Change the code cells of a page."""
        for block in list(self.document.findall(nodes.literal_block)):
            name = kernel_of(block.astext().rstrip("\n"))
            kernel = cores.get(name) or catalog.get(name) if name else None
            if kernel is None:
                continue
            line = block.astext().splitlines()[0]
            source = kernel.source.rstrip("\n")
            text = f"{line}\n{source}"
            whole = nodes.literal_block(text, text, **block.attributes)
            if name in cores or len(source.splitlines()) <= LONGEST:
                block.replace_self(whole)
                continue
            file = html.escape(f"kernels/{kernel.file}")
            opens = f"the text of this cell, <code>{file}</code>, {len(source.splitlines())} lines"
            folded = (
                '<details class="tile-folded" style="margin:0">'
                f'<summary style="cursor:pointer">{opens}</summary>'
            )
            at = block.parent.index(block) + 1
            block.parent[at:at] = [
                nodes.raw("", folded, format="html"),
                whole,
                nodes.raw("", "</details>", format="html"),
            ]


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx when it loads the extension."""
    app.add_lexer("ipython3", PythonWithCuda)
    app.add_lexer("python", FencedPythonWithCuda)
    app.add_transform(KernelsText)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
