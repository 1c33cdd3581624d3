"""book/*.md -> book/*.ipynb: the notebooks that Colab opens, made from the chapters.

The chapters are MyST Markdown, which Colab does not read. `exporting` knows a written subset of it
(see `SUBSET`), turns that into plain Markdown and code cells, and raises ExportError, with file,
line and construct, on anything else. The tokens come from the parser that builds the book, so both
read a chapter alike. Cell ids depend on the text alone: an unchanged chapter gives the same bytes.

A notebook imports `start` from here, and nothing of the tool that made it: that is in `addresses`,
`markdown`, `books`, `cells`, `first_cell`, `exporting` and `commands`.
"""

from helpers.notebook.starting import start

__all__ = ["start"]
