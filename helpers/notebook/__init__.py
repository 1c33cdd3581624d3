"""What a notebook of the book is made of: its cells, addresses, first cell, and `start` for that.

The tool that makes notebooks of chapters is tools/notebooks; a notebook imports nothing of it.

Comes in: text and code of a chapter. Goes out: cells of nbformat, whose ids depend on the text
alone.
Read first: cells.py, first_cell.py (what fetches the book on Colab), starting.py (what `start`
does).
"""

from helpers.notebook.starting import start

__all__ = ["start"]
